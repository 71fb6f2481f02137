/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>

#include "collector.h"
#include "config.h"
#include "harness.h"
#include "hotness_rig.h"
#include "sample_queue.h"

#define QUEUES 3

struct bench {
	struct rig *rig;
	struct topology_store *topology;
	struct sample_queue *queues[QUEUES];
	struct collector *collector;
	struct config config;
	uint64_t pushed;
};

static struct bench *bench_new(enum record_layout layout, uint64_t memory_max_bytes)
{
	struct hotness_options options = rig_options;
	struct bench *b = calloc(1, sizeof(*b));
	struct collector_params params;

	options.layout = layout;
	options.memory_max_bytes = memory_max_bytes;
	b->rig = rig_new(&options, true);
	b->topology = topology_store_new(topology_ref(b->rig->topology));
	for (int i = 0; i < QUEUES; i++)
		b->queues[i] = sample_queue_new(4 * COLLECTOR_BATCH_SAMPLES);
	params = (struct collector_params){ .hotness = b->rig->hotness,
					    .owners = b->rig->owners,
					    .topology = b->topology,
					    .stats = b->rig->slot,
					    .queues = b->queues,
					    .n_queues = QUEUES };
	b->collector = collector_new(&params);
	b->config.promote_freq_window_ms = 5000;
	if (!b->topology || !b->collector)
		abort();
	return b;
}

static void bench_free(struct bench *b)
{
	collector_free(b->collector);
	for (int i = 0; i < QUEUES; i++)
		sample_queue_free(b->queues[i]);
	topology_store_free(b->topology);
	rig_free(b->rig);
	free(b);
}

static struct sample good_sample(const struct bench *b, uint64_t i)
{
	return (struct sample){
		.time_ns = b->rig->now_ns,
		.addr = RIG_ADDR + i * PAGE_SIZE_BYTES,
		.phys = rig_phys(1, i),
		.pid = 100,
		.page_shift = 12,
	};
}

static void push(struct bench *b, int queue, const struct sample *sample)
{
	if (sample_queue_push(b->queues[queue], sample) < 0)
		abort();
	b->pushed++;
}

static size_t drain(struct bench *b)
{
	size_t n, total = 0;

	while ((n = collector_step(b->collector, &b->config, b->rig->now_ns, 1000)) > 0)
		total += n;
	return total;
}

/* Everything that was popped ended in one counter. */
static uint64_t accounted(const struct bench *b)
{
	static const enum stat_id ends[] = {
		STAT_USEFUL,
		STAT_DROPPED_MEMORY,
		STAT_DISCARDED_NO_PID,
		STAT_DISCARDED_KERNEL,
		STAT_DISCARDED_SELF,
		STAT_DISCARDED_NO_ADDRESS,
		STAT_DISCARDED_NO_PHYS,
		STAT_DISCARDED_UNKNOWN_PFN,
		STAT_DISCARDED_UNMANAGED_NODE,
		STAT_DISCARDED_OWNER_GONE,
		STAT_DISCARDED_FIRST_SIGHTING,
	};
	uint64_t sum = 0;

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		sum += rig_stat(b->rig, ends[i]);
	return sum;
}

static uint64_t stat_of(const struct bench *b, enum stat_id id)
{
	return rig_stat(b->rig, id);
}

static void every_end_has_its_counter(void)
{
	struct bench *b = bench_new(RECORD_PRECISE, 1ULL << 30);
	struct sample s;

	rig_put_process(b->rig, 1, "pghotd", 'S', 0, 1);
	rig_put_process(b->rig, 2, "kthreadd", 'S', 0x208040, 1);
	b->config.promote_freq_threshold = 2;
	s = good_sample(b, 0);
	s.flags = SAMPLE_MAYBE_FIRST_TOUCH;
	push(b, 0, &s); /* first sighting */
	push(b, 0, &s); /* recorded */
	push(b, 0, &s); /* ready */
	push(b, 0, &s); /* recorded */
	s = good_sample(b, 1);
	s.phys = rig_phys(0, 5);
	push(b, 1, &s); /* fast */
	s.pid = 0;
	push(b, 1, &s);
	s = good_sample(b, 2);
	s.addr = 0;
	push(b, 1, &s);
	s = good_sample(b, 2);
	s.addr = 0xffff888000000000;
	push(b, 1, &s);
	s = good_sample(b, 2);
	s.pid = 2;
	push(b, 1, &s); /* a kernel thread */
	s.pid = 1;
	push(b, 1, &s); /* ourselves */
	s.pid = 77;
	push(b, 1, &s); /* ended */
	s = good_sample(b, 2);
	s.phys = 0;
	push(b, 2, &s);
	s.phys = 4 * RIG_NODE_BYTES;
	push(b, 2, &s); /* behind all memory */
	s.phys = UINT64_MAX;
	push(b, 2, &s);
	s.phys = rig_phys(3, 0);
	push(b, 2, &s); /* in no tier */
	CU_ASSERT_EQUAL(drain(b), b->pushed);
	CU_ASSERT_EQUAL(accounted(b), b->pushed);
	CU_ASSERT_EQUAL(stat_of(b, STAT_USEFUL), 4);
	CU_ASSERT_EQUAL(stat_of(b, STAT_RECORDED), 3);
	CU_ASSERT_EQUAL(stat_of(b, STAT_BECAME_READY), 1);
	CU_ASSERT_EQUAL(stat_of(b, STAT_DISCARDED_FIRST_SIGHTING), 1);
	CU_ASSERT_EQUAL(stat_of(b, STAT_DISCARDED_NO_PID), 1);
	CU_ASSERT_EQUAL(stat_of(b, STAT_DISCARDED_NO_ADDRESS), 1);
	CU_ASSERT_EQUAL(stat_of(b, STAT_DISCARDED_KERNEL), 2);
	CU_ASSERT_EQUAL(stat_of(b, STAT_DISCARDED_SELF), 1);
	CU_ASSERT_EQUAL(stat_of(b, STAT_DISCARDED_OWNER_GONE), 1);
	CU_ASSERT_EQUAL(stat_of(b, STAT_DISCARDED_NO_PHYS), 1);
	CU_ASSERT_EQUAL(stat_of(b, STAT_DISCARDED_UNKNOWN_PFN), 2);
	CU_ASSERT_EQUAL(stat_of(b, STAT_DISCARDED_UNMANAGED_NODE), 1);
	CU_ASSERT_EQUAL(stat_of(b, STAT_DROPPED_MEMORY), 0);
	CU_ASSERT_EQUAL(stat_of(b, STAT_TOTAL), 0); /* the reader's */
	CU_ASSERT_EQUAL(collector_step(b->collector, &b->config, 0, 1000), 0);
	bench_free(b);
}

static void no_memory_is_a_drop(void)
{
	struct bench *b = bench_new(RECORD_PRECISE, 1ULL << 20);
	uint64_t made = 0;

	for (uint64_t i = 0; i < 30000; i++) {
		struct sample s = good_sample(b, 0);

		s.addr = RIG_ADDR + i * REGION_BYTES;
		push(b, (int)(i % QUEUES), &s);
		if (i % 100 == 99)
			drain(b);
	}
	drain(b);
	made = stat_of(b, STAT_USEFUL);
	CU_ASSERT(made > 1000 && made < 30000);
	CU_ASSERT_EQUAL(stat_of(b, STAT_DROPPED_MEMORY), 30000 - made);
	CU_ASSERT_EQUAL(rig_usage(b->rig).regions, made);
	CU_ASSERT_EQUAL(accounted(b), b->pushed);
	bench_free(b);
}

/* The record of page @i after @n accesses by @source. */
static uint32_t record_after(struct bench *b, uint64_t i, int n, enum sample_source source)
{
	struct hotness_candidate c = { 0 };
	struct sample s = good_sample(b, i);

	s.source = (uint8_t)source;
	for (int k = 0; k < n; k++)
		push(b, 0, &s);
	drain(b);
	rig_record(b->rig, s.phys, &c);
	return c.record;
}

static void the_threshold_is_by_source(void)
{
	struct bench *b = bench_new(RECORD_PRECISE, 1ULL << 30);

	CU_ASSERT(record_ready(RECORD_PRECISE, record_after(b, 1, 1, SAMPLE_SOURCE_HINT_FAULTS)));
	CU_ASSERT(!record_ready(RECORD_PRECISE, record_after(b, 2, 1, SAMPLE_SOURCE_IBS)));
	CU_ASSERT(record_ready(RECORD_PRECISE, record_after(b, 2, 1, SAMPLE_SOURCE_IBS)));
	/* A source that doesn't exist has a rule all the same. */
	CU_ASSERT(record_ready(RECORD_PRECISE, record_after(b, 5, 1, 200)));
	b->config.promote_freq_threshold = 3;
	for (int source = 0; source < SAMPLE_SOURCE_MAX; source++) {
		CU_ASSERT(!record_ready(RECORD_PRECISE, record_after(b, 10 + (uint64_t)source, 2, source)));
		CU_ASSERT(record_ready(RECORD_PRECISE, record_after(b, 10 + (uint64_t)source, 1, source)));
	}
	/* What the configuration says takes effect with the next step. */
	b->config.promote_freq_window_ms = 2000;
	record_after(b, 20, 2, SAMPLE_SOURCE_IBS);
	b->rig->now_ns += 2500 * NSEC_PER_MSEC;
	CU_ASSERT_EQUAL(record_freq(RECORD_PRECISE, record_after(b, 20, 1, SAMPLE_SOURCE_IBS)), 1);
	bench_free(b);
	/* Beyond what compact records can hold: the most that they can. */
	b = bench_new(RECORD_COMPACT, 1ULL << 30);
	b->config.promote_freq_threshold = 7;
	b->config.promote_freq_window_ms = 16383;
	CU_ASSERT(!record_ready(RECORD_COMPACT, record_after(b, 1, 2, SAMPLE_SOURCE_IBS)));
	CU_ASSERT(record_ready(RECORD_COMPACT, record_after(b, 1, 1, SAMPLE_SOURCE_IBS)));
	bench_free(b);
}

static void the_target_is_topologys(void)
{
	struct bench *b = bench_new(RECORD_PRECISE, 1ULL << 30);
	struct hotness_candidate c;
	struct hotness_region r;
	struct sample s = good_sample(b, 9);

	s.phys = rig_phys(2, 9);
	push(b, 0, &s);
	s.cpu = 60000; /* of no node */
	push(b, 0, &s);
	drain(b);
	CU_ASSERT(rig_record(b->rig, s.phys, &c));
	CU_ASSERT_EQUAL(record_nid(RECORD_PRECISE, c.record), 0);
	CU_ASSERT_EQUAL(record_freq(RECORD_PRECISE, c.record), 2);
	rcu_enter();
	CU_ASSERT(hotness_find_region(b->rig->hotness, 100, 0, s.addr, b->rig->now_ns, &r));
	rcu_leave();
	CU_ASSERT_EQUAL(r.nodes, 1 << 2);
	bench_free(b);
}

/* A step takes what it may and begins with another queue each time. */
static void steps_are_bounded_and_fair(void)
{
	enum { FILLED = 3 * COLLECTOR_BATCH_SAMPLES + 16 };
	struct bench *b = bench_new(RECORD_PRECISE, 1ULL << 30);
	struct sample s = good_sample(b, 0);
	size_t left[QUEUES];

	for (int i = 0; i < QUEUES; i++)
		for (int k = 0; k < FILLED; k++)
			push(b, i, &s);
	CU_ASSERT_EQUAL(collector_step(b->collector, &b->config, 0, 10), 10);
	CU_ASSERT_EQUAL(sample_queue_used(b->queues[0]), FILLED - 10);
	CU_ASSERT_EQUAL(collector_step(b->collector, &b->config, 0, COLLECTOR_BATCH_SAMPLES + 6),
			COLLECTOR_BATCH_SAMPLES + 6);
	CU_ASSERT_EQUAL(sample_queue_used(b->queues[1]), FILLED - COLLECTOR_BATCH_SAMPLES);
	CU_ASSERT_EQUAL(sample_queue_used(b->queues[2]), FILLED - 6);
	CU_ASSERT_EQUAL(collector_step(b->collector, &b->config, 0, 100000), 3 * COLLECTOR_BATCH_SAMPLES);
	CU_ASSERT_EQUAL(collector_step(b->collector, &b->config, 0, 0), 0);
	/* With little budget, none starves. */
	for (int i = 0; i < QUEUES; i++)
		left[i] = sample_queue_used(b->queues[i]);
	for (int k = 0; k < 9; k++)
		CU_ASSERT_EQUAL(collector_step(b->collector, &b->config, 0, 5), 5);
	for (int i = 0; i < QUEUES; i++)
		CU_ASSERT_EQUAL(sample_queue_used(b->queues[i]), left[i] - 15);
	drain(b);
	CU_ASSERT_EQUAL(accounted(b), b->pushed);
	CU_ASSERT_EQUAL(stat_of(b, STAT_USEFUL), b->pushed);
	bench_free(b);
	collector_free(NULL);
}

static void without_queues(void)
{
	struct bench *b = bench_new(RECORD_PRECISE, 1ULL << 30);
	struct collector_params params = {
		.hotness = b->rig->hotness, .owners = b->rig->owners, .topology = b->topology, .stats = b->rig->slot
	};
	struct collector *collector = collector_new(&params);

	CU_ASSERT_PTR_NOT_NULL(collector);
	CU_ASSERT_EQUAL(collector_step(collector, &b->config, 0, 100), 0);
	collector_free(collector);
	bench_free(b);
}

/* A process that ends between two samples of one batch, and another that takes its pid. */
static void processes_change(void)
{
	struct bench *b = bench_new(RECORD_PRECISE, 1ULL << 30);
	struct sample s = good_sample(b, 0);

	push(b, 0, &s);
	drain(b);
	rig_end_process(b->rig, 100);
	owners_sweep(b->rig->owners, 10);
	push(b, 0, &s);
	push(b, 0, &s);
	drain(b);
	CU_ASSERT_EQUAL(stat_of(b, STAT_DISCARDED_OWNER_GONE), 2);
	rig_put_process(b->rig, 100, "new", 'S', 0, 5555);
	push(b, 0, &s);
	drain(b);
	CU_ASSERT_EQUAL(stat_of(b, STAT_DISCARDED_OWNER_GONE), 3); /* not looked for again within a second */
	b->rig->now_ns += SEC + SEC / 10;
	push(b, 0, &s);
	drain(b);
	CU_ASSERT_EQUAL(stat_of(b, STAT_USEFUL), 2);
	CU_ASSERT_EQUAL(accounted(b), b->pushed);
	bench_free(b);
}

/* More processes by turns in one batch than are remembered by their hash: each sample is its own process's. */
static void many_processes_by_turns(void)
{
	enum { PROCESSES = COLLECTOR_BATCH_SAMPLES - 8, FIRST_PID = 1000 };
	struct bench *b = bench_new(RECORD_PRECISE, 1ULL << 30);
	struct hotness_region r;
	uint32_t found = 0;

	for (uint32_t i = 0; i < PROCESSES; i++)
		rig_put_process(b->rig, FIRST_PID + i, "one", 'S', 0, 5555 + i);
	for (uint32_t i = 0; i < PROCESSES; i++) {
		struct sample s = good_sample(b, i);

		s.pid = FIRST_PID + i;
		s.phys = rig_phys(i % 3 ? 1 : 0, i + 1); /* there is no physical address 0 */
		push(b, 0, &s);
	}
	CU_ASSERT_EQUAL(collector_step(b->collector, &b->config, b->rig->now_ns, COLLECTOR_BATCH_SAMPLES), PROCESSES);
	CU_ASSERT_EQUAL(stat_of(b, STAT_USEFUL), PROCESSES);
	rcu_enter();
	for (uint32_t i = 0; i < PROCESSES; i++) {
		uint32_t owner = rig_owner(b->rig, FIRST_PID + i);

		found += hotness_find_region(b->rig->hotness, FIRST_PID + i, owner, good_sample(b, i).addr,
					     b->rig->now_ns, &r) &&
			 r.pages == 1 && r.nodes == (i % 3 ? 2 : 1);
	}
	rcu_leave();
	CU_ASSERT_EQUAL(found, PROCESSES);
	bench_free(b);
}

/* Publish the machine as it is now. */
static void read_again(struct bench *b)
{
	struct topology_options tiers = { .tiers = { "0", "1-2" }, .n_tiers = 2, .target_nid = -1 };
	struct topology *topology;
	char error[256];

	if (topology_read(&b->rig->machine.root, &tiers, &topology, error, sizeof(error)) < 0)
		abort();
	topology_store_set(b->topology, topology);
}

static struct rig_scan scan;

/* A block of node 1 goes and comes back: its samples are nobody's in between, and its records do no harm. */
static void memory_comes_and_goes(void)
{
	struct bench *b = bench_new(RECORD_PRECISE, 1ULL << 30);
	unsigned long long block = RIG_NODE_BYTES / RIG_BLOCK + 3;
	struct sample s = good_sample(b, 0), beyond = good_sample(b, 1);

	s.phys = block * RIG_BLOCK + 5 * PAGE_SIZE_BYTES;
	beyond.phys = UINT64_C(1) << 45;
	b->config.promote_freq_threshold = 1;
	push(b, 0, &s);
	push(b, 0, &beyond);
	drain(b);
	CU_ASSERT_EQUAL(stat_of(b, STAT_BECAME_READY), 1);
	CU_ASSERT_EQUAL(stat_of(b, STAT_DISCARDED_UNKNOWN_PFN), 1);
	machine_block(&b->rig->machine, block, 1, "offline");
	read_again(b);
	push(b, 0, &s);
	drain(b);
	CU_ASSERT_EQUAL(stat_of(b, STAT_DISCARDED_UNKNOWN_PFN), 2);
	/* Nobody's page is shown to the node's migrator. */
	topology_unref(b->rig->topology);
	b->rig->topology = topology_store_get(b->topology);
	CU_ASSERT_EQUAL(rig_scan(b->rig, &scan, 1, HOTNESS_TAKE), 0);
	machine_block(&b->rig->machine, block, 1, "online");
	read_again(b);
	push(b, 0, &s);
	drain(b);
	CU_ASSERT_EQUAL(stat_of(b, STAT_USEFUL), 2);
	topology_unref(b->rig->topology);
	b->rig->topology = topology_store_get(b->topology);
	CU_ASSERT_EQUAL(rig_scan(b->rig, &scan, 1, HOTNESS_TAKE), 1);
	CU_ASSERT_EQUAL(accounted(b), b->pushed);
	bench_free(b);
}

TEST_MAIN(collector, TEST(every_end_has_its_counter), TEST(no_memory_is_a_drop), TEST(the_threshold_is_by_source),
	  TEST(the_target_is_topologys), TEST(steps_are_bounded_and_fair), TEST(without_queues), TEST(processes_change),
	  TEST(many_processes_by_turns), TEST(memory_comes_and_goes))
