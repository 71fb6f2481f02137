/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "harness.h"
#include "perf_records.h"
#include "sample.h"
#include "sample_queue.h"

/* A sample that shows if parts of two got mixed. */
static struct sample numbered(uint64_t number)
{
	return (struct sample){
		.time_ns = number,
		.addr = number ^ 0x5555555555555555,
		.phys = ~number,
		.pid = (uint32_t)number,
		.flags = (uint32_t)~number,
		.cpu = (uint16_t)number,
	};
}

static bool is_numbered(const struct sample *sample, uint64_t number)
{
	struct sample want = numbered(number);

	return memcmp(sample, &want, sizeof(want)) == 0;
}

static void capacity_is_rounded_up(void)
{
	static const size_t asked[][2] = { { 64, 64 },     { 65, 128 },    { 100, 128 },
					   { 4096, 4096 }, { 4097, 8192 }, { SAMPLE_QUEUE_MAX, SAMPLE_QUEUE_MAX } };

	for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
		struct sample_queue *queue = sample_queue_new(asked[i][0]);

		CU_ASSERT_EQUAL(sample_queue_capacity(queue), asked[i][1]);
		CU_ASSERT_EQUAL(sample_queue_used(queue), 0);
		sample_queue_free(queue);
	}
	sample_queue_free(NULL);
}

static void used_counts_up_to_full(void)
{
	struct sample_queue *queue = sample_queue_new(256);

	for (uint64_t i = 0; i < 256; i++) {
		struct sample sample = numbered(i);

		CU_ASSERT_EQUAL(sample_queue_push(queue, &sample), 0);
		CU_ASSERT_EQUAL(sample_queue_used(queue), i + 1);
	}
	sample_queue_free(queue);
}

static void full_is_refused(void)
{
	struct sample_queue *queue = sample_queue_new(64);
	struct sample sample, got[65];

	for (uint64_t i = 0; i < 64; i++) {
		sample = numbered(i);
		CU_ASSERT_EQUAL(sample_queue_push(queue, &sample), 0);
		CU_ASSERT_EQUAL(sample_queue_used(queue), i + 1);
	}
	sample = numbered(64);
	CU_ASSERT_EQUAL(sample_queue_push(queue, &sample), -ENOBUFS);
	CU_ASSERT_EQUAL(sample_queue_push(queue, &sample), -ENOBUFS);
	CU_ASSERT_EQUAL(sample_queue_pop(queue, got, 0), 0);
	CU_ASSERT_EQUAL(sample_queue_pop(queue, got, 1), 1);
	CU_ASSERT_TRUE(is_numbered(&got[0], 0));
	CU_ASSERT_EQUAL(sample_queue_push(queue, &sample), 0);
	CU_ASSERT_EQUAL(sample_queue_push(queue, &sample), -ENOBUFS);
	CU_ASSERT_EQUAL(sample_queue_pop(queue, got, 65), 64);
	for (uint64_t i = 0; i < 64; i++)
		CU_ASSERT_TRUE(is_numbered(&got[i], i + 1));
	CU_ASSERT_EQUAL(sample_queue_pop(queue, got, 65), 0);
	sample_queue_free(queue);
}

/* Random pushes and pops against two counters, which are all that a queue of numbers is. */
static void run_model(uint64_t first, uint64_t seed)
{
	enum { SLOTS = 64 };
	struct test_rng rng = { .state = seed };
	struct sample_queue *queue = sample_queue_new_at(SLOTS, first);
	struct sample got[SLOTS + 8];
	uint64_t pushed = 0, popped = 0;

	for (int round = 0; round < 3000; round++) {
		if (test_random(&rng) & 1) {
			for (uint64_t n = test_random_below(&rng, SLOTS / 2); n > 0; n--) {
				struct sample sample = numbered(pushed);
				int want = pushed - popped < SLOTS ? 0 : -ENOBUFS;

				CU_ASSERT_EQUAL(sample_queue_push(queue, &sample), want);
				pushed += want == 0;
			}
		} else {
			size_t max = test_random_below(&rng, SLOTS + 8), n = sample_queue_pop(queue, got, max);

			CU_ASSERT_EQUAL(n, max < pushed - popped ? max : pushed - popped);
			for (size_t i = 0; i < n; i++)
				CU_ASSERT_TRUE(is_numbered(&got[i], popped + i));
			popped += n;
		}
		CU_ASSERT_EQUAL(sample_queue_used(queue), pushed - popped);
	}
	CU_ASSERT(popped > 10 * SLOTS);
	sample_queue_free(queue);
}

static void model(void)
{
	run_model(0, 1);
	run_model(12345, 2);
}

/* The indices wrap in the middle of it, with the queue empty, half full, and full. */
static void model_over_the_wrap_of_indices(void)
{
	for (uint64_t before = 0; before < 200; before += 7)
		run_model(0 - before, 3 + before);
}

#define THREAD_SAMPLES 200000

struct writer {
	struct sample_queue *queue;
	uint64_t refused; /* writer's */
	size_t most_used; /* watcher's */
};

static void *write_samples(void *ctx)
{
	struct writer *writer = ctx;

	for (uint64_t i = 0; i < THREAD_SAMPLES;) {
		struct sample *slot = sample_queue_slot(writer->queue);

		/* In rows of all lengths, published late, as the reader does. */
		if (slot) {
			*slot = numbered(i++);
			sample_queue_put(writer->queue);
		}
		if (!slot || i % 97 == 0 || i == THREAD_SAMPLES)
			sample_queue_publish(writer->queue);
		if (!slot) {
			writer->refused++;
			sched_yield();
		}
	}
	return NULL;
}

static void *watch(void *ctx)
{
	struct writer *writer = ctx;

	for (int i = 0; i < 20000; i++) {
		size_t used = sample_queue_used(writer->queue);

		if (used > writer->most_used)
			writer->most_used = used;
	}
	return NULL;
}

/* Each sample once, whole, in order; and someone who only looks. */
static void two_threads(void)
{
	struct writer writer = { .queue = sample_queue_new_at(128, 0 - 100000ULL) };
	pthread_t thread, watcher;
	struct sample got[50];
	uint64_t next = 0;
	int wrong = 0;

	CU_ASSERT_EQUAL(pthread_create(&thread, NULL, write_samples, &writer), 0);
	CU_ASSERT_EQUAL(pthread_create(&watcher, NULL, watch, &writer), 0);
	while (next < THREAD_SAMPLES) {
		size_t n = sample_queue_pop(writer.queue, got, sizeof(got) / sizeof(got[0]));

		for (size_t i = 0; i < n; i++)
			wrong += !is_numbered(&got[i], next++);
		if (n == 0)
			sched_yield();
	}
	pthread_join(thread, NULL);
	pthread_join(watcher, NULL);
	CU_ASSERT_EQUAL(wrong, 0);
	CU_ASSERT(writer.most_used <= 128);
	CU_ASSERT_EQUAL(sample_queue_used(writer.queue), 0);
	sample_queue_free(writer.queue);
}

/* Written in place: seen by the reader when it is published, or when a batch is full; all slots can be filled. */
static void slots_are_seen_when_published(void)
{
	enum { SLOTS = 2 * SAMPLE_QUEUE_BATCH };
	struct sample_queue *queue = sample_queue_new(SLOTS);
	struct sample got[SLOTS], *slot;

	for (uint64_t i = 0; i < SLOTS; i++) {
		slot = sample_queue_slot(queue);
		CU_ASSERT_PTR_NOT_NULL_FATAL(slot);
		CU_ASSERT_PTR_EQUAL(sample_queue_slot(queue), slot);
		*slot = numbered(i);
		CU_ASSERT_EQUAL(sample_queue_used(queue), i / SAMPLE_QUEUE_BATCH * SAMPLE_QUEUE_BATCH);
		sample_queue_put(queue);
	}
	CU_ASSERT_PTR_NULL(sample_queue_slot(queue));
	CU_ASSERT_EQUAL(sample_queue_pop(queue, got, SLOTS), SLOTS);
	for (uint64_t i = 0; i < SLOTS; i++)
		CU_ASSERT_TRUE(is_numbered(&got[i], i));
	for (uint64_t i = 0; i < 3; i++) {
		*sample_queue_slot(queue) = numbered(i);
		sample_queue_put(queue);
	}
	CU_ASSERT_EQUAL(sample_queue_pop(queue, got, SLOTS), 0);
	sample_queue_publish(queue);
	CU_ASSERT_EQUAL(sample_queue_pop(queue, got, SLOTS), 3);
	sample_queue_free(queue);
}

/* Rows end where the ring does, where it is full, or with a batch; what is not put of one is offered again. */
static void rows_of_slots(void)
{
	enum { SLOTS = 2 * SAMPLE_QUEUE_BATCH };
	struct sample_queue *queue = sample_queue_new_at(SLOTS, (uint64_t)0 - SLOTS);
	uint64_t put = 0, taken = 0, seed = 7;
	unsigned int n_full = 0, n_short = 0;

	for (int round = 0; round < 2000; round++) {
		uint64_t at = put % SLOTS, want = SLOTS - (put - taken), n_put;
		struct sample got[SLOTS], *row;
		size_t n, n_got;

		row = sample_queue_row(queue, &n);
		n_full += want == 0;
		want = want < SLOTS - at ? want : SLOTS - at;
		want = want < SAMPLE_QUEUE_BATCH ? want : SAMPLE_QUEUE_BATCH;
		n_short += want > 0 && want < SAMPLE_QUEUE_BATCH;
		/* The writer's copy of the tail may be behind: then it is offered less, but never nothing. */
		CU_ASSERT(n <= want && (n > 0) == (want > 0) && (n > 0) == (row != NULL));
		seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
		n_put = round % 3 ? n : (seed >> 33) % (n + 1);
		for (uint64_t i = 0; i < n_put; i++)
			row[i] = numbered(put + i);
		sample_queue_put_row(queue, (size_t)n_put);
		put += n_put;
		n_got = sample_queue_pop(queue, got, (size_t)(seed >> 50) % 34);
		for (uint64_t i = 0; i < n_got; i++)
			CU_ASSERT_TRUE(is_numbered(&got[i], taken + i));
		taken += n_got;
		CU_ASSERT_EQUAL(sample_queue_used(queue), put - taken);
	}
	CU_ASSERT(n_full > 10 && n_short > 100);
	sample_queue_free(queue);
}

TEST_MAIN(sample_queue, TEST(rows_of_slots), TEST(slots_are_seen_when_published), TEST(capacity_is_rounded_up),
	  TEST(used_counts_up_to_full), TEST(full_is_refused), TEST(model), TEST(model_over_the_wrap_of_indices),
	  TEST(two_threads))
