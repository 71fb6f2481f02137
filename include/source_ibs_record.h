/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * source_ibs_record: a whole perf record of an IBS event: decode_sample() and ibs_decode() in one, for the few layouts
 * that such events have here; any other goes through the two. Pure but for the decoder. Fuzzed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "decode.h"
#include "ibs_decode.h"

struct perf_event_header;

/*
 * What two registers say of a plain access, worked out once for all that have the same in them: for source_ibs_quick.h.
 * There are few that come often, for all that a machine has.
 */
struct source_ibs_kind {
	uint32_t key;          /* of the two; SOURCE_IBS_NO_KIND: none */
	uint32_t flags;        /* enum sample_flags */
	uint64_t who;          /* of a sample, see sample_who(): source and page size, in their places */
	uint32_t latency_mask; /* of the high half of OpData3 */
	uint8_t source;        /* enum ibs_source */
	uint8_t page_shift;
	bool is_incomplete; /* physical address or page size are not in the registers */
	bool is_physical;   /* the former is */
};

#define SOURCE_IBS_KINDS   64
#define SOURCE_IBS_NO_KIND UINT32_MAX

/*
 * Owner    the reader's thread
 * The decoder for all rings of one source that one reader drains, and the last record. A plain value, about 23 KiB.
 */
struct source_ibs_record {
	uint64_t sample_type;
	/* What the last record was like, as most are: its size; size and caps of the raw data, side by side there. */
	uint64_t record_bytes;
	uint64_t raw_bytes_and_caps;
	/* For source_ibs_quick.h: the header of such a record in user mode, and the flags that a plain access lacks. */
	uint64_t quick_header;
	uint32_t quick_odd;
	uint32_t quick_tail_at;                        /* where what stands behind the raw data begins */
	uint64_t quick_pid;                            /* of the last record; UINT64_MAX: none */
	struct source_ibs_kind kind[SOURCE_IBS_KINDS]; /* by a hash of their keys */
	_Alignas(64) struct decode_sample decoded;     /* its raw is NULL: @op has all of it */
	_Alignas(64) struct ibs_op op;
	struct ibs_decoder decoder;
};

/*
 * attr.sample_type of an IBS event: TID, TIME, ADDR, CPU, PERIOD, RAW, WEIGHT, DATA_SRC, PHYS_ADDR, and DATA_PAGE_SIZE
 * on request: for that the kernel walks the page table within the NMI, so only where the record doesn't say it. PERIOD,
 * since periods too long for the hardware are made of several of its own, and those are what the record has. No
 * IDENTIFIER (one event to a ring), no IP (the record has it, or, the profiler's, hasn't, and then it is not the
 * access's).
 */
uint64_t source_ibs_sample_type(bool page_size);

/*
 * Any thread, before the first record. 0, or -ENOTSUP for a @sample_type that decode_supports() doesn't, or without
 * RAW.
 */
int source_ibs_record_init(struct source_ibs_record *record, uint64_t sample_type,
			   const struct ibs_decoder_params *params);

/*
 * Take apart one PERF_RECORD_SAMPLE into @record->decoded and @record->op. 0 or what decode_sample() and ibs_decode()
 * say; both are undefined then, up to the next success. The reader's thread.
 */
int source_ibs_record_take(struct source_ibs_record *record, const struct perf_event_header *header);

/*
 * What there is to say of a record that source_ibs_record_take() refused: the size of its raw data in the high half,
 * the capabilities in front of it in the low one; never 0. Without raw data, or with less than 4 bytes of it, the size
 * of the whole record with bit 63 set. The reader's thread.
 */
uint64_t source_ibs_record_misfit(const struct source_ibs_record *record, const struct perf_event_header *header);

/* That in words, "84 bytes of raw data, capabilities 0x00300bff", into @buf. Any thread. */
void source_ibs_record_misfit_text(uint64_t misfit, char *buf, size_t size);
