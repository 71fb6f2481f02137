/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * reader_rig: a reader with one ring that the test writes, its queues, its counters, and wakers that count. A program
 * that includes it has waker_wake() from here.
 */
#pragma once

#include "harness.h"
#include "hotness.h"
#include "perf_records.h"
#include "perf_ring.h"
#include "reader.h"
#include "sample.h"
#include "sample_queue.h"
#include "source.h"
#include "stats.h"
#include "waker.h"

#define SELF 4242
#define LAYOUT                                                                                             \
	(PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ADDR | PERF_SAMPLE_CPU | PERF_SAMPLE_PHYS_ADDR | \
	 PERF_SAMPLE_DATA_PAGE_SIZE)
#define LAYOUT_HARDWARE (LAYOUT | PERF_SAMPLE_WEIGHT | PERF_SAMPLE_DATA_SRC | PERF_SAMPLE_RAW)

/* In place of the real one: what matters here is how often it is called. */
struct waker {
	unsigned int wakes;
};

void waker_wake(struct waker *waker)
{
	waker->wakes++;
}

#define SHARDS_MAX 5

/* A reader with one ring, its queues and counters. */
struct bench {
	struct stats *stats;
	struct sample_queue *queues[SHARDS_MAX];
	struct waker wakers[SHARDS_MAX];
	unsigned int shards;
	struct fake_ring fake;
	struct source_ring ring;
	struct reader *reader;
};

static inline void bench_init(struct bench *b, unsigned int shards, size_t ring_bytes, size_t queue_samples)
{
	struct waker *wakers[SHARDS_MAX];

	memset(b, 0, sizeof(*b));
	b->shards = shards;
	b->stats = stats_new();
	for (unsigned int i = 0; i < shards; i++) {
		b->queues[i] = sample_queue_new(queue_samples);
		wakers[i] = &b->wakers[i];
	}
	fake_ring_init(&b->fake, ring_bytes, 0);
	b->ring = (struct source_ring){
		.cpu = 3,
		.fd = -1,
		.ring = perf_ring_wrap(b->fake.base, b->fake.page_bytes, b->fake.data_bytes),
		.sample_type = LAYOUT,
		.sample_id_all = true,
		.source = SAMPLE_SOURCE_HINT_FAULTS,
		.sample_flags = SAMPLE_MAYBE_FIRST_TOUCH,
	};
	b->reader = reader_new(&(struct reader_params){
		.stats = stats_slot_new(b->stats),
		.queues = b->queues,
		.wakers = wakers,
		.shards = shards,
		.self_pid = SELF,
	});
}

static inline void bench_done(struct bench *b)
{
	reader_free(b->reader);
	perf_ring_free(b->ring.ring);
	fake_ring_done(&b->fake);
	for (unsigned int i = 0; i < b->shards; i++)
		sample_queue_free(b->queues[i]);
	stats_free(b->stats);
}

static inline uint64_t count(const struct bench *b, enum stat_id id)
{
	return stats_sum(b->stats, id);
}

static const enum stat_id endings[] = {
	STAT_DROPPED_QUEUE_FULL, STAT_DISCARDED_NO_PID,  STAT_DISCARDED_KERNEL,     STAT_DISCARDED_GUEST,
	STAT_DISCARDED_SELF,     STAT_DISCARDED_NO_PHYS, STAT_DISCARDED_NO_ADDRESS,
};

static inline uint64_t count_endings(const struct bench *b)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++)
		sum += count(b, endings[i]);
	return sum;
}

/* A sample that nothing speaks against. */
static inline struct test_sample good(void)
{
	return (struct test_sample){
		.misc = PERF_RECORD_MISC_USER,
		.pid = 100,
		.tid = 101,
		.time = 123456789,
		.addr = 0x7F0012345678,
		.cpu = 7,
		.phys_addr = 0x89ABC678,
		.data_page_bytes = 4096,
	};
}

static inline void put_sample(struct bench *b, const struct test_sample *s)
{
	static struct test_record record;

	make_sample_record(&record, b->ring.sample_type, s);
	CU_ASSERT_TRUE(fake_ring_put_record(&b->fake, &record));
}

static inline void put_plain(struct bench *b, uint32_t type, size_t words, uint64_t word)
{
	static struct test_record record;

	record_begin(&record, type, 0);
	for (size_t i = 0; i < words; i++)
		put_u64(&record, word);
	record_end(&record);
	CU_ASSERT_TRUE(fake_ring_put_record(&b->fake, &record));
}

/* The one sample that was handed on. */
static inline struct sample take_one(struct bench *b)
{
	struct sample got = { 0 };
	size_t n = 0;

	for (unsigned int i = 0; i < b->shards; i++)
		n += sample_queue_pop(b->queues[i], &got, 1);
	CU_ASSERT_EQUAL(n, 1);
	return got;
}
