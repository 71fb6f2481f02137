/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>

#include "ibs_decode_internal.h"
#include "source_ibs_quick.h"

/* What stands side by side in the record does so in the struct as well, and is copied at once. */
#define FOLLOWS(field, first, bytes) \
	(offsetof(struct decode_sample, field) == offsetof(struct decode_sample, first) + (bytes))
_Static_assert(FOLLOWS(tid, pid, 4) && FOLLOWS(time_ns, pid, 8) && FOLLOWS(addr, pid, 16), "TID, TIME, ADDR");
_Static_assert(FOLLOWS(period, cpu, 8), "CPU with 4 bytes reserved, PERIOD");
_Static_assert(offsetof(struct perf_event_header, misc) == 4 && offsetof(struct perf_event_header, size) == 6,
	       "misc and size are the high half of the header");
_Static_assert(SOURCE_IBS_HEADER_MODE == (uint64_t)PERF_RECORD_MISC_CPUMODE_MASK << 32, "as the kernel has it");

#define NO_RECORD UINT64_MAX /* no record is as long */

uint64_t source_ibs_sample_type(bool page_size)
{
	return SOURCE_IBS_TYPE | (page_size ? PERF_SAMPLE_DATA_PAGE_SIZE : 0);
}

/* They are by what the decoder has learned. */
static void forget_kinds(struct source_ibs_record *record)
{
	for (unsigned int i = 0; i < SOURCE_IBS_KINDS; i++)
		record->kind[i].key = SOURCE_IBS_NO_KIND;
}

int source_ibs_record_init(struct source_ibs_record *record, uint64_t sample_type,
			   const struct ibs_decoder_params *params)
{
	if (decode_supports(sample_type) < 0 || !(sample_type & PERF_SAMPLE_RAW))
		return -ENOTSUP;
	memset(record, 0, sizeof(*record));
	record->sample_type = sample_type;
	record->decoded.present = sample_type;
	record->record_bytes = NO_RECORD;
	record->quick_pid = UINT64_MAX;
	forget_kinds(record);
	ibs_decoder_init(&record->decoder, params);
	return 0;
}

static __attribute__((noinline)) int take_any(struct source_ibs_record *record, const struct perf_event_header *header)
{
	uint64_t type = record->sample_type, tail = SOURCE_IBS_TAIL_BYTES + (type & PERF_SAMPLE_DATA_PAGE_SIZE ? 8 : 0);
	int r = decode_sample(type, header, &record->decoded);
	const void *raw = record->decoded.raw;

	/* Whatever comes of it: the decoder may know other caps afterwards. */
	record->record_bytes = NO_RECORD;
	forget_kinds(record);
	if (r < 0)
		return r;
	record->decoded.raw = NULL;
	r = ibs_decode(&record->decoder, raw, record->decoded.raw_bytes, &record->op);
	if (r < 0)
		return r;
	/* The next one will be alike, if it is one of ibs_op and of a type that is known to take(). */
	if (record->decoder.bytes != IBS_BYTES_UNKNOWN &&
	    (type & ~(uint64_t)PERF_SAMPLE_DATA_PAGE_SIZE) == SOURCE_IBS_TYPE) {
		record->record_bytes = SOURCE_IBS_HEAD_BYTES + 4 + record->decoder.bytes + tail;
		record->quick_tail_at = (uint32_t)(SOURCE_IBS_HEAD_BYTES + 4 + record->decoder.bytes);
		record->raw_bytes_and_caps = record->decoder.bytes | (uint64_t)record->decoder.caps << 32;
		record->quick_header =
			PERF_RECORD_SAMPLE | (uint64_t)PERF_RECORD_MISC_USER << 32 | record->record_bytes << 48;
		record->quick_odd = IBS_SW_PREFETCH | (record->decoder.erratum_1293 ? IBS_NO_MAB : 0);
	}
	return 0;
}

bool source_ibs_make_kind(struct source_ibs_record *record, uint32_t key, struct source_ibs_kind *kind)
{
	const struct ibs_decoder *decoder = &record->decoder;
	const uint32_t access = key & SOURCE_IBS_KEY_MASK, op = access & (IBS_LOAD | IBS_STORE);
	uint32_t index, page;
	uint64_t valid;

	if (op == 0 || ((access ^ IBS_LINEAR_VALID) & (IBS_LINEAR_VALID | record->quick_odd)) != 0)
		return false;
	/* As in ibs_decode_known(). */
	valid = decoder->valid[0][access & 0xff] & decoder->valid[1][access >> 8 & 0xff] &
		decoder->valid[2][access >> 16 & 0xff];
	index = (uint32_t)valid >> IBS_CASE_AT & (IBS_SOURCE_CASES - 1);
	page = decoder->page_shift[(uint32_t)valid >> IBS_PAGE_AT] >> 24;
	*kind = (struct source_ibs_kind){
		.key = key,
		.flags = op,
		.who = (uint64_t)SAMPLE_SOURCE_IBS << 48 | (uint64_t)page << 56,
		.latency_mask = (uint32_t)(valid >> 32) & 0xffff,
		.source = (uint8_t)decoder->source[index + decoder->source_code[key >> SOURCE_IBS_KEY_SHIFT]],
		.page_shift = (uint8_t)page,
		.is_physical = access & IBS_PHYSICAL_VALID,
	};
	kind->is_incomplete = !kind->is_physical || (page == 0 && record->sample_type != SOURCE_IBS_TYPE);
	return true;
}

bool source_ibs_make_pid(struct source_ibs_record *record, uint32_t pid)
{
	if (pid == 0 || pid == UINT32_MAX || pid == record->decoder.params.self_pid)
		return false;
	record->quick_pid = pid;
	return true;
}

uint64_t source_ibs_quick_odd(const struct source_ibs_record *record, const unsigned char *at,
			      const struct source_ibs_kind *kind, uint8_t *ret_page_shift, struct source_ibs_seen *seen)
{
	const unsigned char *tail = at + record->quick_tail_at;
	uint64_t phys = ibs_get_u64(tail + 16);
	uint64_t physical = ibs_get_u64(at + SOURCE_IBS_HEAD_BYTES + 4 + IBS_AT_LINEAR + 8);

	if (phys == 0 && kind->is_physical)
		phys = physical;
	phys &= record->decoder.physical_mask;
	if (phys == 0)
		return 0;
	if (!kind->is_physical)
		seen->phys[IBS_PHYS_CLEARED]++;
	else if (physical == 0)
		seen->phys[IBS_PHYS_ZEROED]++;
	*ret_page_shift = kind->page_shift;
	if (kind->page_shift == 0 && record->sample_type != SOURCE_IBS_TYPE)
		*ret_page_shift = sample_page_shift(ibs_get_u64(tail + SOURCE_IBS_TAIL_BYTES));
	return phys;
}

#define MISFIT_WHOLE (1ULL << 63)

uint64_t source_ibs_record_misfit(const struct source_ibs_record *record, const struct perf_event_header *header)
{
	struct decode_sample decoded;

	if (decode_sample(record->sample_type, header, &decoded) < 0 || decoded.raw_bytes < sizeof(uint32_t))
		return MISFIT_WHOLE | header->size;
	return (uint64_t)decoded.raw_bytes << 32 | ibs_get_u32(decoded.raw);
}

void source_ibs_record_misfit_text(uint64_t misfit, char *buf, size_t size)
{
	if (misfit & MISFIT_WHOLE)
		snprintf(buf, size, "records of %u bytes, without registers", (unsigned int)(misfit & UINT16_MAX));
	else
		snprintf(buf, size, "%u bytes of raw data, capabilities 0x%08x", (unsigned int)(misfit >> 32),
			 (unsigned int)misfit);
}

int source_ibs_record_take(struct source_ibs_record *record, const struct perf_event_header *header)
{
	const unsigned char *at = (const unsigned char *)header, *raw = at + SOURCE_IBS_HEAD_BYTES + 4, *tail;
	uint64_t misc_and_size = ibs_get_u64(at) >> 32, size = misc_and_size >> 16;
	struct decode_sample *decoded = &record->decoded;

	/*
	 * Where it is as the last one was, the layout and with it all offsets are known; whatever is new or odd about
	 * it goes the other way. What is compared second is within the size.
	 */
	if (__builtin_expect(size != record->record_bytes || ibs_get_u64(raw - 4) != record->raw_bytes_and_caps, 0))
		return take_any(record, header);
	decoded->misc = (uint16_t)misc_and_size;
	memcpy((char *)decoded + offsetof(struct decode_sample, pid), at + 8, 24);
	memcpy((char *)decoded + offsetof(struct decode_sample, cpu), at + 32, 16);
	tail = at + size - SOURCE_IBS_TAIL_BYTES;
	if (record->sample_type != SOURCE_IBS_TYPE) {
		memcpy(&decoded->data_page_bytes, at + size - 8, 8);
		tail -= 8;
	}
	memcpy(&decoded->weight, tail, 8);
	memcpy(&decoded->data_src, tail + 8, 8);
	memcpy(&decoded->phys_addr, tail + 16, 8);
	return ibs_decode_known(&record->decoder, raw, &record->op);
}
