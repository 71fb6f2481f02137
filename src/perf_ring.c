/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <assert.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "perf_ring.h"

struct perf_ring {
	/*
	 * The kernel's page: its words can't be declared _Atomic by us, so they are accessed by the compiler's
	 * builtins, which is the dialect of this file.
	 */
	struct perf_event_mmap_page *page;
	const unsigned char *data;
	size_t data_bytes; /* a power of two */
	size_t map_bytes;  /* 0: wrapped, not ours to unmap */
	/*
	 * Our position, from which data_tail is written; never read back from the page, so nothing that scribbles on
	 * it can lead us astray.
	 */
	uint64_t pos;
	uint64_t tail; /* as last written */
	uint64_t head; /* of this drain */
	/*
	 * What a straddling record is copied to. One is enough: a drain covers at most data_bytes, so it passes the
	 * end once.
	 */
	unsigned char bounce[] __attribute__((aligned(8)));
};

static struct perf_ring *ring_new(void *base, size_t page_bytes, size_t data_bytes)
{
	size_t bounce_bytes = data_bytes < PERF_RING_RECORD_MAX ? data_bytes : PERF_RING_RECORD_MAX;
	struct perf_ring *ring = calloc(1, sizeof(*ring) + bounce_bytes);

	if (!ring)
		return NULL;
	ring->page = base;
	ring->data = (const unsigned char *)base + page_bytes;
	ring->data_bytes = data_bytes;
	/* No order needed: nobody else writes it. */
	ring->tail = ring->pos = ring->head = __atomic_load_n(&ring->page->data_tail, __ATOMIC_RELAXED);
	return ring;
}

int perf_ring_map(int fd, size_t data_bytes, struct perf_ring **ret)
{
	size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE), rounded = page_bytes;
	struct perf_ring *ring;
	void *base;

	while (rounded <= data_bytes / 2)
		rounded *= 2;
	/* Writable: only then does the kernel heed data_tail and keep what wasn't read. */
	base = mmap(NULL, page_bytes + rounded, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (base == MAP_FAILED)
		return -errno;
	ring = ring_new(base, page_bytes, rounded);
	if (!ring) {
		munmap(base, page_bytes + rounded);
		return -ENOMEM;
	}
	ring->map_bytes = page_bytes + rounded;
	*ret = ring;
	return 0;
}

struct perf_ring *perf_ring_wrap(void *base, size_t page_bytes, size_t data_bytes)
{
	assert(data_bytes >= 8 && (data_bytes & (data_bytes - 1)) == 0);
	assert((uintptr_t)base % 8 == 0 && page_bytes % 8 == 0);
	return ring_new(base, page_bytes, data_bytes);
}

void perf_ring_free(struct perf_ring *ring)
{
	if (!ring)
		return;
	if (ring->map_bytes > 0)
		munmap(ring->page, ring->map_bytes);
	free(ring);
}

size_t perf_ring_data_bytes(const struct perf_ring *ring)
{
	return ring->data_bytes;
}

void perf_ring_begin(struct perf_ring *ring)
{
	/* R1 */
	ring->head = __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);
}

const struct perf_event_header *perf_ring_next(struct perf_ring *ring, int *bad)
{
	uint64_t left = ring->head - ring->pos;
	size_t at = (size_t)ring->pos & (ring->data_bytes - 1), first;
	const struct perf_event_header *header;
	uint16_t size;

	if (left == 0)
		return NULL;
	/*
	 * Everything below rests on these: records and positions are multiples of 8, so that a header never straddles,
	 * and no more than a ring full is there.
	 */
	if (left > ring->data_bytes || left < sizeof(*header) || ring->pos % 8 != 0)
		goto lost_track;
	header = (const struct perf_event_header *)(const void *)(ring->data + at);
	/* Once: what is checked is what is used. */
	size = __atomic_load_n(&header->size, __ATOMIC_RELAXED);
	if (size < sizeof(*header) || size > left || size % 8 != 0)
		goto lost_track;
	ring->pos += size;
	first = ring->data_bytes - at;
	if (size <= first)
		return header;
	memcpy(ring->bounce, ring->data + at, first);
	memcpy(ring->bounce + first, ring->data, size - first);
	return (const struct perf_event_header *)(const void *)ring->bounce;

lost_track:
	if (bad)
		*bad = 1;
	ring->pos = ring->head;
	return NULL;
}

const unsigned char *perf_ring_row(const struct perf_ring *ring, size_t *ret_bytes)
{
	uint64_t left = ring->head - ring->pos;
	size_t at = (size_t)ring->pos & (ring->data_bytes - 1), first = ring->data_bytes - at;

	/* As in perf_ring_next(), which gives up. */
	if (left > ring->data_bytes || ring->pos % 8 != 0)
		left = 0;
	*ret_bytes = left < first ? (size_t)left : first;
	return ring->data + at;
}

void perf_ring_skip(struct perf_ring *ring, size_t bytes)
{
	assert(bytes % 8 == 0 && bytes <= ring->head - ring->pos);
	ring->pos += bytes;
}

void perf_ring_end(struct perf_ring *ring)
{
	/* Nothing read: leave the line to the kernel. */
	if (ring->pos == ring->tail)
		return;
	ring->tail = ring->pos;
	/* R2 */
	__atomic_store_n(&ring->page->data_tail, ring->tail, __ATOMIC_RELEASE);
}
