/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * decode: from a perf record to a sample, by the layout that attr.sample_type gives, never by casting. Pure. Fuzzed.
 * Field order: perf_event_open(2), include/uapi/linux/perf_event.h.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct perf_event_header;

/* What a PERF_RECORD_SAMPLE can hold; those fields that were asked for are set, see @present. */
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
	uint64_t weight;
	uint64_t data_src;
	uint64_t transaction;
	uint64_t phys_addr;
	uint64_t cgroup;
	uint64_t data_page_bytes;
	uint64_t code_page_bytes;
	const void *raw; /* into the record, not aligned */
	uint32_t raw_bytes;
};

/*
 * Take apart one PERF_RECORD_SAMPLE of @header->size bytes. 0; -EBADMSG when the record is shorter than its own fields
 * say; -ENOTSUP for a bit in @sample_type that this decoder doesn't know (check once, at open, with decode_supports()).
 */
int decode_sample(uint64_t sample_type, const struct perf_event_header *header, struct decode_sample *ret);

/* 0, or -ENOTSUP when a record with this sample_type can't be taken apart. */
int decode_supports(uint64_t sample_type);

/* Count in a PERF_RECORD_LOST or PERF_RECORD_LOST_SAMPLES. -EBADMSG when it is too short. */
int decode_lost(const struct perf_event_header *header, uint64_t *ret);
