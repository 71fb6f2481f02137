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

int source_ibs_record_init(struct source_ibs_record *record, uint64_t sample_type,
			   const struct ibs_decoder_params *params)
{
	if (decode_supports(sample_type) < 0 || !(sample_type & PERF_SAMPLE_RAW))
		return -ENOTSUP;
	memset(record, 0, sizeof(*record));
	record->sample_type = sample_type;
	record->decoded.present = sample_type;
	record->record_bytes = NO_RECORD;
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
		record->raw_bytes_and_caps = record->decoder.bytes | (uint64_t)record->decoder.caps << 32;
		record->quick_header =
			PERF_RECORD_SAMPLE | (uint64_t)PERF_RECORD_MISC_USER << 32 | record->record_bytes << 48;
		record->quick_odd = IBS_SW_PREFETCH | (record->decoder.erratum_1293 ? IBS_NO_MAB : 0);
	}
	return 0;
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
