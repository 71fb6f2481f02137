/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Any record under any layout: 8 bytes sample_type, 4 of type, 2 of misc, the rest is the record behind its header. It
 * lies at the end of its own allocation, so the sanitizer sees each byte read beyond it.
 */
#include <errno.h>
#include <linux/perf_event.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "decode.h"
#include "fuzz_main.h"

#define RECORD_MAX 65535

/* So that what was found is read. */
static volatile unsigned char sink;

static void look_at_sample(uint64_t sample_type, const struct perf_event_header *header)
{
	const unsigned char *begin = (const unsigned char *)header;
	struct decode_sample sample;
	int r = decode_sample(sample_type, header, &sample);

	if (decode_supports(sample_type) < 0) {
		if (r != -ENOTSUP)
			abort();
		return;
	}
	if (r < 0) {
		if (r != -EBADMSG)
			abort();
		return;
	}
	if (sample.present != sample_type || sample.misc != header->misc)
		abort();
	if (!sample.raw) {
		if (sample.raw_bytes != 0)
			abort();
		return;
	}
	const unsigned char *raw = sample.raw;

	if (raw < begin + sizeof(*header) || raw + sample.raw_bytes > begin + header->size)
		abort();
	for (uint32_t i = 0; i < sample.raw_bytes; i++)
		sink ^= raw[i];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct perf_event_header header = { 0 };
	uint64_t sample_type, lost;
	unsigned char *record;

	if (size < 14)
		return 0;
	memcpy(&sample_type, data, 8);
	memcpy(&header.type, data + 8, 4);
	memcpy(&header.misc, data + 12, 2);
	data += 14;
	size -= 14;
	if (size > RECORD_MAX - sizeof(header))
		size = RECORD_MAX - sizeof(header);
	header.size = (uint16_t)(sizeof(header) + size);
	record = malloc(header.size);
	if (!record)
		return 0;
	memcpy(record, &header, sizeof(header));
	memcpy(record + sizeof(header), data, size);
	look_at_sample(sample_type, (const struct perf_event_header *)(void *)record);
	/* Most random layouts are refused at once: the same bytes under one that isn't. */
	look_at_sample(sample_type &
			       ~(uint64_t)(PERF_SAMPLE_READ | PERF_SAMPLE_BRANCH_STACK | PERF_SAMPLE_REGS_USER |
					   PERF_SAMPLE_REGS_INTR | PERF_SAMPLE_WEIGHT) &
			       (PERF_SAMPLE_MAX - 1),
		       (const struct perf_event_header *)(void *)record);
	if (decode_lost((const struct perf_event_header *)(void *)record, &lost) == 0)
		sink ^= (unsigned char)lost;
	free(record);
	return 0;
}
