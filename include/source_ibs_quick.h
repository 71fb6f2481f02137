/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * source_ibs_quick: from a whole perf record of an IBS event straight to a sample: what source_ibs_record_take() and
 * ibs_to_sample() come to for a plain access of a process in a record like the last, in a fifth of the time, since it
 * reads only what a sample needs, and what depends on few bits has been worked out before. Anything else is refused and
 * goes through those two, which know why. Inline, for the reader; a test holds it to what the two say.
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

/* OpData3 without width and counts, and the low byte of OpData2. */
#define SOURCE_IBS_KEY_MASK  0x3fffffU
#define SOURCE_IBS_KEY_SHIFT 22

static inline uint32_t source_ibs_key(uint64_t access, unsigned char data2)
{
	return ((uint32_t)access & SOURCE_IBS_KEY_MASK) | (uint32_t)data2 << SOURCE_IBS_KEY_SHIFT;
}

/*
 * The kind of a record with @key, which is not the one that @kind has, in the place of that. false: what has this key
 * is no plain access, and @kind was left alone.
 */
bool source_ibs_make_kind(struct source_ibs_record *record, uint32_t key, struct source_ibs_kind *kind);

/* Is @pid one that samples are taken of? Then it is the record's quick_pid. */
bool source_ibs_make_pid(struct source_ibs_record *record, uint32_t pid);

/* The physical address and, in *@ret_page_shift, the page size, of a record of @kind where one or the other is odd. 0:
 * it must go the long way. Counts in @seen. */
uint64_t source_ibs_quick_odd(const struct source_ibs_record *record, const unsigned char *at,
			      const struct source_ibs_kind *kind, uint8_t *ret_page_shift,
			      struct source_ibs_seen *seen);

/*
 * The record at @at, of which source_ibs_quick_bytes() are there, as a sample of the CPU @cpu, and counted in @seen.
 * false: it must go the long way; @ret is undefined then. The reader's thread.
 */
static inline __attribute__((always_inline)) bool source_ibs_quick(struct source_ibs_record *restrict record,
								   const unsigned char *restrict at, int cpu,
								   struct sample *restrict ret,
								   struct source_ibs_seen *restrict seen)
{
	const unsigned char *raw = at + SOURCE_IBS_HEAD_BYTES + 4, *tail = at + record->quick_tail_at;
	uint64_t access, linear, phys, weight, who;
	struct source_ibs_kind *kind;
	uint32_t pid, key, latency;
	uint8_t page_shift;

	/* Two comparisons say that everything is where it was in the last record. */
	if (__builtin_expect((ibs_get_u64(at) & SOURCE_IBS_HEADER_MASK) != record->quick_header, 0) ||
	    __builtin_expect(ibs_get_u64(raw - 4) != record->raw_bytes_and_caps, 0))
		return false;
	linear = source_ibs_quick_addr(at);
	if (__builtin_expect((~ibs_get_u32(raw + IBS_AT_CTL) & IBS_ENABLED_AND_VALID) != 0, 0) ||
	    __builtin_expect((linear | ibs_get_u64(raw + IBS_AT_RIP)) >> 56 != 0, 0) ||
	    __builtin_expect(linear == 0, 0))
		return false;
	access = ibs_get_u64(raw + IBS_AT_DATA3);
	key = source_ibs_key(access, raw[IBS_AT_DATA2]);
	kind = &record->kind[key * 0x9e3779b1U / (UINT32_MAX / SOURCE_IBS_KINDS + 1)];
	if (__builtin_expect(kind->key != key, 0) && !source_ibs_make_kind(record, key, kind))
		return false;
	pid = source_ibs_quick_pid(at);
	if (__builtin_expect(pid != record->quick_pid, 0) && !source_ibs_make_pid(record, pid))
		return false;
	phys = ibs_get_u64(tail + 16) & record->decoder.physical_mask;
	who = kind->who;
	if (__builtin_expect(phys == 0, 0) || __builtin_expect(ibs_get_u64(raw + IBS_AT_LINEAR + 8) == 0, 0) ||
	    __builtin_expect(kind->is_incomplete, 0)) {
		phys = source_ibs_quick_odd(record, at, kind, &page_shift, seen);
		if (phys == 0)
			return false;
		who = (who & UINT64_MAX >> 8) | (uint64_t)page_shift << 56;
	}
	seen->source[kind->source]++;
	latency = (uint32_t)(access >> 32) & kind->latency_mask;
	if (latency == 0) {
		weight = ibs_get_u64(tail);
		latency = weight > UINT32_MAX ? UINT32_MAX : (uint32_t)weight;
	}
	who |= pid | (uint64_t)(uint16_t)cpu << 32;
	ret->time_ns = ibs_get_u64(at + 16);
	ret->addr = linear;
	ret->phys = phys;
	sample_set_who(ret, who);
	ret->latency = latency;
	ret->flags = kind->flags;
	return true;
}
