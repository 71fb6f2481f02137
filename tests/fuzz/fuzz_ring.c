/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A ring with any bytes in it, at any position, with any head: 1 byte for its size, 8 of tail, then steps: each 1 byte
 * of length for the bytes that follow, which are written and head is moved by as many (0: head becomes what the next 8
 * say). Each step is drained. Whatever is in it, a drain ends, and hands out records only that lie in the ring's
 * memory.
 */
#include <linux/perf_event.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "decode.h"
#include "fuzz_main.h"
#include "perf_ring.h"

#define PAGE_BYTES sizeof(struct perf_event_mmap_page)
#define LAYOUT                                                                                             \
	(PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ADDR | PERF_SAMPLE_CPU | PERF_SAMPLE_PHYS_ADDR | \
	 PERF_SAMPLE_RAW | PERF_SAMPLE_DATA_PAGE_SIZE)

static volatile unsigned char sink;

static void drain(struct perf_ring *ring, struct perf_event_mmap_page *page)
{
	const struct perf_event_header *header;
	struct decode_sample sample;
	uint64_t tail = page->data_tail;
	size_t bytes = 0;
	int bad = 0;

	perf_ring_begin(ring);
	while ((header = perf_ring_next(ring, &bad))) {
		if (bad || header->size < sizeof(*header) || header->size % 8 != 0)
			abort();
		bytes += header->size;
		if (bytes > perf_ring_data_bytes(ring))
			abort();
		for (size_t i = 0; i < header->size; i++)
			sink ^= ((const unsigned char *)header)[i];
		if (decode_sample(LAYOUT, header, &sample) == 0)
			sink ^= (unsigned char)sample.addr;
	}
	if (page->data_tail != tail)
		abort();
	perf_ring_end(ring);
	if (page->data_tail != page->data_head || (!bad && page->data_tail - tail != bytes))
		abort();
}

static void put(unsigned char *ring_data, size_t ring_bytes, uint64_t head, const uint8_t *data, size_t n)
{
	for (size_t i = 0; i < n; i++)
		ring_data[(size_t)(head + i) & (ring_bytes - 1)] = data[i];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct perf_event_mmap_page *page;
	struct perf_ring *ring;
	size_t ring_bytes;

	if (size < 9)
		return 0;
	ring_bytes = 8UL << (data[0] % 10);
	page = calloc(1, PAGE_BYTES + ring_bytes);
	if (!page)
		return 0;
	memcpy(&page->data_tail, data + 1, 8);
	page->data_head = page->data_tail;
	data += 9;
	size -= 9;
	ring = perf_ring_wrap(page, PAGE_BYTES, ring_bytes);
	while (ring && size > 0) {
		size_t n = data[0];

		data++;
		size--;
		if (n == 0 && size >= 8) {
			memcpy(&page->data_head, data, 8);
			n = 8;
		} else {
			n = n < size ? n : size;
			put((unsigned char *)page + PAGE_BYTES, ring_bytes, page->data_head, data, n);
			page->data_head += n;
		}
		data += n;
		size -= n;
		drain(ring, page);
	}
	perf_ring_free(ring);
	free(page);
	return 0;
}
