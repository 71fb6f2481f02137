/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * perf_records: perf records and rings made by hand, the kernel's side of them, for tests and fuzz targets. Written
 * after kernel/events/core.c, perf_output_sample(), and ring_buffer.c, not after our decoder.
 */
#pragma once

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct test_rng {
	uint64_t state; /* not 0 */
};

/* xorshift64* */
static inline uint64_t test_random(struct test_rng *rng)
{
	rng->state ^= rng->state >> 12;
	rng->state ^= rng->state << 25;
	rng->state ^= rng->state >> 27;
	return rng->state * 0x2545F4914F6CDD1DULL;
}

/* 0..n-1 */
static inline uint64_t test_random_below(struct test_rng *rng, uint64_t n)
{
	return test_random(rng) % n;
}

struct test_record {
	size_t n;
	_Alignas(8) unsigned char bytes[65536];
};

static inline void put_bytes(struct test_record *record, const void *bytes, size_t n)
{
	memcpy(record->bytes + record->n, bytes, n);
	record->n += n;
}

static inline void put_u64(struct test_record *record, uint64_t v)
{
	put_bytes(record, &v, sizeof(v));
}

static inline void put_u32(struct test_record *record, uint32_t v)
{
	put_bytes(record, &v, sizeof(v));
}

static inline void record_begin(struct test_record *record, uint32_t type, uint16_t misc)
{
	struct perf_event_header header = { .type = type, .misc = misc };

	record->n = 0;
	put_bytes(record, &header, sizeof(header));
}

/* The size last: it is what was put. */
static inline const struct perf_event_header *record_end(struct test_record *record)
{
	uint16_t size = (uint16_t)record->n;

	memcpy(record->bytes + offsetof(struct perf_event_header, size), &size, sizeof(size));
	return (const struct perf_event_header *)(const void *)record->bytes;
}

/* Everything that a sample can hold and we can take apart or skip. */
struct test_sample {
	uint16_t misc;
	uint64_t identifier, ip, time, addr, id, stream_id, period, weight, data_src, transaction, phys_addr, cgroup,
		data_page_bytes, code_page_bytes;
	uint32_t pid, tid, cpu;
	uint64_t n_ips;
	const void *raw;
	uint32_t raw_bytes; /* as a driver gives them, before padding */
	uint64_t stack_bytes, aux_bytes;
};

static inline void put_filler(struct test_record *record, size_t n)
{
	memset(record->bytes + record->n, 0xA5, n);
	record->n += n;
}

static inline void put_raw(struct test_record *record, const void *raw, uint32_t bytes)
{
	uint32_t padded = ((bytes + 4 + 7) & ~7U) - 4;

	put_u32(record, padded);
	put_bytes(record, raw, bytes);
	memset(record->bytes + record->n, 0, padded - bytes);
	record->n += padded - bytes;
}

static inline const struct perf_event_header *make_sample_record(struct test_record *record, uint64_t type,
								 const struct test_sample *s)
{
	record_begin(record, PERF_RECORD_SAMPLE, s->misc);
	if (type & PERF_SAMPLE_IDENTIFIER)
		put_u64(record, s->identifier);
	if (type & PERF_SAMPLE_IP)
		put_u64(record, s->ip);
	if (type & PERF_SAMPLE_TID) {
		put_u32(record, s->pid);
		put_u32(record, s->tid);
	}
	if (type & PERF_SAMPLE_TIME)
		put_u64(record, s->time);
	if (type & PERF_SAMPLE_ADDR)
		put_u64(record, s->addr);
	if (type & PERF_SAMPLE_ID)
		put_u64(record, s->id);
	if (type & PERF_SAMPLE_STREAM_ID)
		put_u64(record, s->stream_id);
	if (type & PERF_SAMPLE_CPU) {
		put_u32(record, s->cpu);
		put_u32(record, 0);
	}
	if (type & PERF_SAMPLE_PERIOD)
		put_u64(record, s->period);
	if (type & PERF_SAMPLE_CALLCHAIN) {
		put_u64(record, s->n_ips);
		put_filler(record, s->n_ips * 8);
	}
	if (type & PERF_SAMPLE_RAW)
		put_raw(record, s->raw, s->raw_bytes);
	if (type & PERF_SAMPLE_STACK_USER) {
		put_u64(record, s->stack_bytes);
		if (s->stack_bytes) {
			put_filler(record, s->stack_bytes);
			put_u64(record, s->stack_bytes);
		}
	}
	if (type & PERF_SAMPLE_WEIGHT_TYPE)
		put_u64(record, s->weight);
	if (type & PERF_SAMPLE_DATA_SRC)
		put_u64(record, s->data_src);
	if (type & PERF_SAMPLE_TRANSACTION)
		put_u64(record, s->transaction);
	if (type & PERF_SAMPLE_PHYS_ADDR)
		put_u64(record, s->phys_addr);
	if (type & PERF_SAMPLE_CGROUP)
		put_u64(record, s->cgroup);
	if (type & PERF_SAMPLE_DATA_PAGE_SIZE)
		put_u64(record, s->data_page_bytes);
	if (type & PERF_SAMPLE_CODE_PAGE_SIZE)
		put_u64(record, s->code_page_bytes);
	if (type & PERF_SAMPLE_AUX) {
		put_u64(record, s->aux_bytes);
		put_filler(record, s->aux_bytes);
	}
	return record_end(record);
}

/* A ring whose writer is the test. One allocation of just its size, so that a step beyond it is seen. */
struct fake_ring {
	unsigned char *base;
	size_t page_bytes, data_bytes;
	uint64_t head;
	uint64_t lost;
};

static inline struct perf_event_mmap_page *fake_ring_page(const struct fake_ring *ring)
{
	return (struct perf_event_mmap_page *)(void *)ring->base;
}

/* As if @start bytes had gone through it already. */
static inline bool fake_ring_init(struct fake_ring *ring, size_t data_bytes, uint64_t start)
{
	*ring = (struct fake_ring){ .page_bytes = 4096, .data_bytes = data_bytes, .head = start };
	ring->base = calloc(1, ring->page_bytes + data_bytes);
	if (!ring->base)
		return false;
	fake_ring_page(ring)->data_head = start;
	fake_ring_page(ring)->data_tail = start;
	return true;
}

static inline void fake_ring_done(struct fake_ring *ring)
{
	free(ring->base);
	ring->base = NULL;
}

/* As the kernel: what doesn't fit is dropped and counted. */
static inline bool fake_ring_put(struct fake_ring *ring, const void *record, size_t n)
{
	struct perf_event_mmap_page *page = fake_ring_page(ring);
	uint64_t tail = __atomic_load_n(&page->data_tail, __ATOMIC_ACQUIRE);
	unsigned char *data = ring->base + ring->page_bytes;
	size_t at = (size_t)ring->head & (ring->data_bytes - 1), first = ring->data_bytes - at;

	if (ring->head + n - tail > ring->data_bytes) {
		ring->lost++;
		return false;
	}
	if (first > n)
		first = n;
	memcpy(data + at, record, first);
	memcpy(data, (const unsigned char *)record + first, n - first);
	ring->head += n;
	__atomic_store_n(&page->data_head, ring->head, __ATOMIC_RELEASE);
	return true;
}

static inline bool fake_ring_put_record(struct fake_ring *ring, const struct test_record *record)
{
	return fake_ring_put(ring, record->bytes, record->n);
}
