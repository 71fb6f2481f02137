/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * source_ibs_quick: from a whole perf record of an IBS event straight to a sample: what source_ibs_record_take() and
 * ibs_to_sample() come to for a plain access of a process in a record like the last, in a fifth of the time, since it
 * reads only what a sample needs. Anything else is refused and goes through those two, which know why. Inline, for the
 * reader; a test holds it to what the two say.
 */
#pragma once

#include <linux/perf_event.h>

#include "ibs_decode_internal.h"
#include "ibs_sample.h"
#include "source_ibs_record.h"

/* What every IBS event of ours has in its records; DATA_PAGE_SIZE comes on request. */
#define SOURCE_IBS_TYPE                                                                                 \
	(PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ADDR | PERF_SAMPLE_CPU | PERF_SAMPLE_PERIOD | \
	 PERF_SAMPLE_RAW | PERF_SAMPLE_WEIGHT | PERF_SAMPLE_DATA_SRC | PERF_SAMPLE_PHYS_ADDR)

/* In front of the raw data's size, and behind the raw data, without DATA_PAGE_SIZE. */
#define SOURCE_IBS_HEAD_BYTES (sizeof(struct perf_event_header) + 40)
#define SOURCE_IBS_TAIL_BYTES 24

/* Of a record's first 8 bytes: type, in which mode the CPU was, size. The other flags vary and don't matter here. */
#define SOURCE_IBS_HEADER_MODE (7ULL << 32)
#define SOURCE_IBS_HEADER_MASK (UINT32_MAX | SOURCE_IBS_HEADER_MODE | 0xffffULL << 48)

_Static_assert((int)IBS_LOAD == (int)SAMPLE_LOAD && (int)IBS_STORE == (int)SAMPLE_STORE, "flags are taken as they are");

/* What is counted of a record beside its sample. */
struct source_ibs_seen {
	uint64_t source[IBS_SOURCES];
	uint64_t phys[IBS_PHYS_STATES]; /* but for those that show it */
};

/* Bytes of a record that source_ibs_quick() takes; more than there ever are: none so far. The reader's thread. */
static inline uint64_t source_ibs_quick_bytes(const struct source_ibs_record *record)
{
	return record->record_bytes;
}

/* Of the record at @at, if source_ibs_quick() takes it; else any numbers. */
static inline uint32_t source_ibs_quick_pid(const unsigned char *at)
{
	return ibs_get_u32(at + 8);
}

static inline uint64_t source_ibs_quick_addr(const unsigned char *at)
{
	return ibs_get_u64(at + SOURCE_IBS_HEAD_BYTES + 4 + IBS_AT_LINEAR);
}

/*
 * The record at @at, of which source_ibs_quick_bytes() are there, as a sample of the CPU @cpu, and counted in @seen.
 * false: it must go the long way; @ret is undefined then. The reader's thread.
 */
static inline bool source_ibs_quick(const struct source_ibs_record *restrict record, const unsigned char *restrict at,
				    int cpu, struct sample *restrict ret, struct source_ibs_seen *restrict seen)
{
	const struct ibs_decoder *decoder = &record->decoder;
	const unsigned char *raw = at + SOURCE_IBS_HEAD_BYTES + 4, *tail = raw + decoder->bytes;
	uint64_t access, valid, linear, physical, phys, weight, latency;
	uint32_t pid, kind, page, index;
	enum ibs_phys state;

	/* Two comparisons say that everything is where it was in the last record. */
	if (__builtin_expect((ibs_get_u64(at) & SOURCE_IBS_HEADER_MASK) != record->quick_header ||
				     ibs_get_u64(raw - 4) != record->raw_bytes_and_caps,
			     0))
		return false;
	access = ibs_get_u64(raw + IBS_AT_DATA3);
	kind = (uint32_t)access & (IBS_LOAD | IBS_STORE);
	linear = source_ibs_quick_addr(at);
	pid = source_ibs_quick_pid(at);
	if (__builtin_expect(((~ibs_get_u64(raw + IBS_AT_CTL) & IBS_ENABLED_AND_VALID) |
			      ((access ^ IBS_LINEAR_VALID) & (IBS_LINEAR_VALID | record->quick_odd)) |
			      (linear | ibs_get_u64(raw + IBS_AT_RIP)) >> 56) != 0 ||
				     kind == 0 || linear == 0 || pid + 1 <= 1 || pid == decoder->params.self_pid,
			     0))
		return false;
	phys = ibs_get_u64(tail + 16);
	physical = ibs_get_u64(raw + IBS_AT_LINEAR + 8);
	state = IBS_PHYS_SHOWN;
	if (__builtin_expect(!(access & IBS_PHYSICAL_VALID) || physical == 0, 0))
		state = access & IBS_PHYSICAL_VALID ? IBS_PHYS_ZEROED : IBS_PHYS_CLEARED;
	else if (__builtin_expect(phys == 0, 0))
		phys = physical;
	phys &= decoder->physical_mask;
	if (__builtin_expect(phys == 0, 0))
		return false;
	if (__builtin_expect(state != IBS_PHYS_SHOWN, 0))
		seen->phys[state]++;

	/* As in ibs_decode_known(). */
	valid = decoder->valid[0][access & 0xff] & decoder->valid[1][access >> 8 & 0xff] &
		decoder->valid[2][access >> 16 & 0xff];
	index = (uint32_t)valid >> IBS_CASE_AT & (IBS_SOURCE_CASES - 1);
	seen->source[(uint8_t)decoder->source[index + decoder->source_code[raw[IBS_AT_DATA2]]]]++;
	page = decoder->page_shift[(uint32_t)valid >> IBS_PAGE_AT] >> 24;
	if (__builtin_expect(page == 0 && record->sample_type != SOURCE_IBS_TYPE, 0))
		page = sample_page_shift(ibs_get_u64(tail + SOURCE_IBS_TAIL_BYTES));
	weight = ibs_get_u64(tail);
	latency = (access & valid) >> 32 & 0xffff;
	if (latency == 0)
		latency = weight > UINT32_MAX ? UINT32_MAX : weight;

	*ret = (struct sample){
		.time_ns = ibs_get_u64(at + 16),
		.addr = linear,
		.phys = phys,
		.pid = pid,
		.latency = (uint32_t)latency,
		.cpu = (uint16_t)cpu,
		.page_shift = (uint8_t)page,
		.source = SAMPLE_SOURCE_IBS,
		.flags = kind,
	};
	return true;
}
