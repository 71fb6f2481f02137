/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Memory is refused at each point where the collector's path takes any: processes, regions, bitmaps, sections, chunks
 * of each size. Every sample that went in is counted once, those that were lost as dropped_memory, and once there is
 * memory again all goes on as if nothing had been. Nothing is left behind.
 */
#include <errno.h>

#include "collector.h"
#include "config.h"
#include "harness.h"
#include "hotness_rig.h"
#include "refused_calloc.h"
#include "sample_queue.h"

#define QUEUE 256

struct bench {
	struct rig *rig;
	struct topology_store *topology;
	struct sample_queue *queue;
	struct collector *collector;
	struct config config;
	uint64_t pushed;
};

/* One in so many points where each takes long. */
static uint64_t stride(void)
{
#ifdef RCU_TSAN
	return 7;
#else
	return test_under_valgrind() ? 17 : 1;
#endif
}

static struct rig_memory memory;
static struct tablemem_ops ops;

static bool bench_start(struct bench *b)
{
	struct hotness_options options = rig_options;
	struct collector_params params;

	options.memory = &ops;
	b->rig->hotness = hotness_new(&options, b->rig->owners);
	if (!b->rig->hotness)
		return false;
	params = (struct collector_params){ .hotness = b->rig->hotness,
					    .owners = b->rig->owners,
					    .topology = b->topology,
					    .stats = b->rig->slot,
					    .queues = &b->queue,
					    .n_queues = 1 };
	b->collector = collector_new(&params);
	return b->collector != NULL;
}

static void bench_stop(struct bench *b)
{
	collector_free(b->collector);
	hotness_free(b->rig->hotness);
	b->collector = NULL;
	b->rig->hotness = NULL;
}

static void push(struct bench *b, uint32_t pid, uint64_t addr, uint64_t phys)
{
	struct sample sample = { .time_ns = b->rig->now_ns,
				 .addr = addr,
				 .phys = phys,
				 .pid = pid,
				 .page_shift = PAGE_SHIFT,
				 .source = SAMPLE_SOURCE_IBS };

	if (sample_queue_push(b->queue, &sample) < 0)
		abort();
	b->pushed++;
	if (sample_queue_used(b->queue) == QUEUE)
		while (collector_step(b->collector, &b->config, b->rig->now_ns, QUEUE) != 0)
			;
}

/* Regions in many sections; then all pages of one, so that its chunk and its bitmap grow; both once more. */
static void feed(struct bench *b)
{
	for (int round = 0; round < 2; round++) {
		for (uint64_t i = 0; i < 150; i++)
			push(b, 100 + (uint32_t)(i % 3), RIG_ADDR + i * REGION_BYTES, rig_phys(2, i * 7000));
		for (uint64_t page = 0; page < 512; page++)
			push(b, 104, RIG_ADDR + page * PAGE_SIZE_BYTES, rig_phys(1, page));
		for (uint64_t page = 0; page < 20; page++)
			push(b, 105, RIG_ADDR + page * PAGE_SIZE_BYTES,
			     rig_phys(0, 1 + page)); /* physical address 0 is none */
		while (collector_step(b->collector, &b->config, b->rig->now_ns, QUEUE) != 0)
			;
		rig_janitor(b->rig, 1000 * SEC);
	}
}

static uint64_t counted(const struct bench *b)
{
	return rig_stat(b->rig, STAT_USEFUL) + rig_stat(b->rig, STAT_DROPPED_MEMORY);
}

static void each_point_refused(void)
{
	struct bench b = { .config = { .promote_freq_window_ms = 5000 } };
	uint64_t points, n, dropped, useful, losses = 0, want_records;
	struct hotness *own;

	ops = rig_memory_ops(&memory);
	b.rig = rig_new(NULL, true);
	own = b.rig->hotness;
	b.topology = topology_store_new(topology_ref(b.rig->topology));
	b.queue = sample_queue_new(QUEUE);
	CU_ASSERT_TRUE(bench_start(&b));
	memory.calls = 0;
	feed(&b);
	points = memory.calls;
	want_records = rig_usage(b.rig).records;
	CU_ASSERT_EQUAL(counted(&b), b.pushed);
	CU_ASSERT_EQUAL(rig_stat(b.rig, STAT_DROPPED_MEMORY), 0);
	CU_ASSERT_EQUAL(want_records, 150 + 512);
	bench_stop(&b);
	CU_ASSERT_EQUAL(memory.bytes, 0);
	CU_ASSERT(points > 0);
	for (int once = 1; once >= 0; once--)
		for (n = 0; n < points; n += stride()) {
			memory.fail_after = -1;
			if (!bench_start(&b))
				abort();
			memory.once = once;
			memory.fail_after = (int64_t)n;
			dropped = rig_stat(b.rig, STAT_DROPPED_MEMORY);
			feed(&b);
			losses += rig_stat(b.rig, STAT_DROPPED_MEMORY) - dropped;
			if (counted(&b) != b.pushed) {
				printf("  refused from %llu on: %llu counted of %llu\n", (unsigned long long)n,
				       (unsigned long long)counted(&b), (unsigned long long)b.pushed);
				CU_FAIL("a sample is not counted");
			}
			/* Life goes on. */
			memory.fail_after = -1;
			dropped = rig_stat(b.rig, STAT_DROPPED_MEMORY);
			useful = rig_stat(b.rig, STAT_USEFUL);
			feed(&b);
			CU_ASSERT_EQUAL(rig_stat(b.rig, STAT_DROPPED_MEMORY), dropped);
			CU_ASSERT_EQUAL(rig_stat(b.rig, STAT_USEFUL) - useful, 2 * (150 + 512 + 20));
			CU_ASSERT_EQUAL(rig_usage(b.rig).records, want_records);
			bench_stop(&b);
			CU_ASSERT_EQUAL(memory.bytes, 0);
		}
	printf("  %llu points, %llu samples lost in all\n", (unsigned long long)points, (unsigned long long)losses);
	CU_ASSERT(losses > points / stride());
	b.rig->hotness = own;
	sample_queue_free(b.queue);
	topology_store_free(b.topology);
	rig_free(b.rig);
}

/* What a process takes is no part of the tables. */
static void a_process_without_memory(void)
{
#ifdef SANITIZED
	test_skip("the sanitizer has the allocator");
#else
	struct bench b = { .config = { .promote_freq_window_ms = 5000 } };
	struct hotness *own;

	if (test_under_valgrind()) {
		test_skip("valgrind has the allocator");
		return;
	}
	ops = rig_memory_ops(&memory);
	b.rig = rig_new(NULL, true);
	own = b.rig->hotness;
	b.topology = topology_store_new(topology_ref(b.rig->topology));
	b.queue = sample_queue_new(QUEUE);
	CU_ASSERT_TRUE(bench_start(&b));
	push(&b, 110, RIG_ADDR, rig_phys(1, 0));
	allocations_left = 0;
	collector_step(b.collector, &b.config, b.rig->now_ns, QUEUE);
	CU_ASSERT_EQUAL(allocations_left, -1); /* one was refused */
	allocations_left = -1;
	CU_ASSERT_EQUAL(rig_stat(b.rig, STAT_DROPPED_MEMORY), 1);
	CU_ASSERT_EQUAL(owners_count(b.rig->owners), 0);
	/* It is not taken for one that has ended. */
	push(&b, 110, RIG_ADDR, rig_phys(1, 0));
	collector_step(b.collector, &b.config, b.rig->now_ns, QUEUE);
	CU_ASSERT_EQUAL(rig_stat(b.rig, STAT_USEFUL), 1);
	CU_ASSERT_EQUAL(owners_count(b.rig->owners), 1);
	bench_stop(&b);
	CU_ASSERT_EQUAL(memory.bytes, 0);
	b.rig->hotness = own;
	sample_queue_free(b.queue);
	topology_store_free(b.topology);
	rig_free(b.rig);
#endif
}

TEST_MAIN(injection, TEST(each_point_refused), TEST(a_process_without_memory))
