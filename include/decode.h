/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * decode: from a perf record to a sample, by the layout that attr.sample_type gives, never by casting. Pure. Fuzzed.
 * Field order: perf_event_open(2), include/uapi/linux/perf_event.h, and kernel/events/core.c, perf_output_sample(),
 * where the comment in the header differs (CGROUP is missing there, AUX comes last).
 *
 * Known and taken apart: all fields of a fixed size, and RAW. Known and skipped by the length they carry: CALLCHAIN,
 * STACK_USER, AUX. Refused (decode_supports()): READ, BRANCH_STACK, REGS_USER and REGS_INTR, whose lengths are not in
 * the record but follow from other fields of the attr (read_format, branch_sample_type, the register masks), which no
 * source here asks for; WEIGHT together with WEIGHT_STRUCT, as the kernel does; and every bit newer than these.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct perf_event_header;

/* What a PERF_RECORD_SAMPLE can hold; those fields that were asked for are set, see @present; the others are 0. */
struct decode_sample {
	uint64_t present; /* PERF_SAMPLE_* bits that were in the record */
	uint16_t misc;
	uint64_t ip;
	uint32_t pid, tid; /* (uint32_t)-1: exiting */
	uint64_t time_ns;
	uint64_t addr;
	uint64_t id, stream_id, identifier;
	uint32_t cpu;
	uint64_t period;
	uint64_t weight;           /* WEIGHT: all 64 bits; WEIGHT_STRUCT: var1_dw */
	uint16_t weight2, weight3; /* WEIGHT_STRUCT: var2_w, var3_w */
	uint64_t data_src;
	uint64_t transaction;
	uint64_t phys_addr; /* 0: not known */
	uint64_t cgroup;
	uint64_t data_page_bytes; /* 0: not known */
	uint64_t code_page_bytes; /* 0: not known */
	const void *raw;          /* into the record, aligned to 4; NULL: none */
	uint32_t raw_bytes;       /* with the kernel's padding: 4 modulo 8 */
};

/*
 * Take apart one PERF_RECORD_SAMPLE of @header->size bytes. 0; -EBADMSG when the record is shorter than its own fields
 * say, or a length in it can't be true; -ENOTSUP for a bit in @sample_type that this decoder doesn't know (check once,
 * at open, with decode_supports()). Bytes behind the last field are ignored. @ret is undefined on failure. Reads no
 * byte past the size. Any thread.
 */
int decode_sample(uint64_t sample_type, const struct perf_event_header *header, struct decode_sample *ret);

/* 0, or -ENOTSUP when a record with this sample_type can't be taken apart. */
int decode_supports(uint64_t sample_type);

/* Count in a PERF_RECORD_LOST or PERF_RECORD_LOST_SAMPLES. -EBADMSG when it is too short, or of another type. */
int decode_lost(const struct perf_event_header *header, uint64_t *ret);
