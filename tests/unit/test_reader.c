/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "reader_rig.h"

static void hint_fault_becomes_a_sample(void)
{
	struct bench b;
	struct test_sample in = good();
	struct sample got;

	bench_init(&b, 1, 4096, 64);
	put_sample(&b, &in);
	CU_ASSERT_EQUAL(reader_drain(b.reader, &b.ring), 1);
	got = take_one(&b);
	CU_ASSERT_EQUAL(got.time_ns, in.time);
	CU_ASSERT_EQUAL(got.addr, in.addr);
	CU_ASSERT_EQUAL(got.phys, in.phys_addr);
	CU_ASSERT_EQUAL(got.pid, in.pid);
	CU_ASSERT_EQUAL(got.cpu, 7);
	CU_ASSERT_EQUAL(got.page_shift, 12);
	CU_ASSERT_EQUAL(got.latency, 0);
	CU_ASSERT_EQUAL(got.source, SAMPLE_SOURCE_HINT_FAULTS);
	CU_ASSERT_EQUAL(got.flags, SAMPLE_MAYBE_FIRST_TOUCH);
	CU_ASSERT_EQUAL(count(&b, STAT_TOTAL), 1);
	CU_ASSERT_EQUAL(count(&b, STAT_HINTFAULTS), 1);
	CU_ASSERT_EQUAL(count(&b, STAT_HWHINTS), 0);
	CU_ASSERT_EQUAL(count_endings(&b), 0);
	bench_done(&b);
}

static void hardware_sample_keeps_what_it_knows(void)
{
	static const struct {
		uint64_t op;
		uint32_t flags;
	} ops[] = {
		{ PERF_MEM_OP_LOAD, SAMPLE_LOAD },
		{ PERF_MEM_OP_STORE, SAMPLE_STORE },
		{ PERF_MEM_OP_LOAD | PERF_MEM_OP_STORE, SAMPLE_LOAD | SAMPLE_STORE },
		{ PERF_MEM_OP_NA, 0 },
		{ PERF_MEM_OP_PFETCH, 0 },
	};
	struct bench b;
	struct test_sample in = good();
	struct sample got;

	bench_init(&b, 2, 65536, 64);
	b.ring.sample_type = LAYOUT_HARDWARE & ~(uint64_t)PERF_SAMPLE_CPU;
	b.ring.source = SAMPLE_SOURCE_IBS;
	b.ring.sample_flags = 0;
	in.raw = "registers";
	in.raw_bytes = 10;
	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		in.weight = 300;
		in.data_src = ops[i].op | (uint64_t)PERF_MEM_LVLNUM_RAM << PERF_MEM_LVLNUM_SHIFT;
		put_sample(&b, &in);
		CU_ASSERT_EQUAL(reader_drain(b.reader, &b.ring), 1);
		got = take_one(&b);
		CU_ASSERT_EQUAL(got.flags, ops[i].flags);
		CU_ASSERT_EQUAL(got.latency, 300);
		CU_ASSERT_EQUAL(got.cpu, 3); /* the ring's, where the record names none */
		CU_ASSERT_EQUAL(got.source, SAMPLE_SOURCE_IBS);
	}
	in.weight = 1ULL << 40;
	put_sample(&b, &in);
	reader_drain(b.reader, &b.ring);
	got = take_one(&b);
	CU_ASSERT_EQUAL(got.latency, UINT32_MAX);
	CU_ASSERT_EQUAL(count(&b, STAT_HWHINTS), 6);
	CU_ASSERT_EQUAL(count(&b, STAT_HINTFAULTS), 0);
	bench_done(&b);
}

static void page_sizes(void)
{
	static const struct {
		uint64_t bytes;
		int shift;
	} pages[] = { { 0, 0 },           { 4096, 12 }, { 2097152, 21 }, { 1ULL << 30, 30 },
		      { 1ULL << 63, 63 }, { 4095, 0 },  { 6144, 0 },     { 2048, 0 } };
	struct bench b;
	struct test_sample in = good();

	bench_init(&b, 1, 4096, 64);
	for (size_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++) {
		in.data_page_bytes = pages[i].bytes;
		put_sample(&b, &in);
		reader_drain(b.reader, &b.ring);
		CU_ASSERT_EQUAL(take_one(&b).page_shift, pages[i].shift);
	}
	bench_done(&b);
}

static void check_filter(struct test_sample in, enum stat_id why)
{
	struct bench b;
	size_t want = why == STAT_MAX;

	bench_init(&b, 2, 4096, 64);
	put_sample(&b, &in);
	CU_ASSERT_EQUAL(reader_drain(b.reader, &b.ring), want);
	CU_ASSERT_EQUAL(sample_queue_used(b.queues[0]) + sample_queue_used(b.queues[1]), want);
	CU_ASSERT_EQUAL(b.wakers[0].wakes + b.wakers[1].wakes, want);
	CU_ASSERT_EQUAL(count(&b, STAT_TOTAL), 1);
	CU_ASSERT_EQUAL(count(&b, STAT_HINTFAULTS), 1);
	CU_ASSERT_EQUAL(count_endings(&b), 1 - want);
	CU_ASSERT_TRUE(why == STAT_MAX || count(&b, why) == 1);
	bench_done(&b);
}

#define WITH(field_, value_, why_)                 \
	do {                                       \
		struct test_sample with_ = good(); \
		with_.field_ = (value_);           \
		check_filter(with_, (why_));       \
	} while (0)

static void each_cause_is_counted(void)
{
	check_filter(good(), STAT_MAX);
	WITH(pid, 0, STAT_DISCARDED_NO_PID);
	WITH(pid, UINT32_MAX, STAT_DISCARDED_NO_PID);
	WITH(pid, SELF, STAT_DISCARDED_SELF);
	WITH(addr, 0, STAT_DISCARDED_NO_ADDRESS);
	WITH(phys_addr, 0, STAT_DISCARDED_NO_PHYS);
	WITH(misc, PERF_RECORD_MISC_GUEST_KERNEL, STAT_DISCARDED_GUEST);
	WITH(misc, PERF_RECORD_MISC_GUEST_USER, STAT_DISCARDED_GUEST);
	WITH(misc, PERF_RECORD_MISC_GUEST_USER | PERF_RECORD_MISC_EXACT_IP, STAT_DISCARDED_GUEST);
	/* The kernel's own access to user memory is an access. */
	WITH(misc, PERF_RECORD_MISC_KERNEL, STAT_MAX);
	WITH(misc, PERF_RECORD_MISC_HYPERVISOR, STAT_MAX);
	WITH(misc, PERF_RECORD_MISC_CPUMODE_UNKNOWN, STAT_MAX);
	/* The user half, with four and with five levels of page tables. */
	WITH(addr, 1, STAT_MAX);
	WITH(addr, 0x00007FFFFFFFFFFF, STAT_MAX);
	WITH(addr, 0x0000800000000000, STAT_MAX);
	WITH(addr, 0x00FFFFFFFFFFFFFF, STAT_MAX);
	WITH(addr, 0x0100000000000000, STAT_DISCARDED_KERNEL);
	WITH(addr, 0x8000000000000000, STAT_DISCARDED_KERNEL);
	WITH(addr, 0xFFFF888000000000, STAT_DISCARDED_KERNEL);
	WITH(addr, UINT64_MAX, STAT_DISCARDED_KERNEL);
}

/* What has several faults ends once, at the first in the order that the header gives. */
static void causes_are_exclusive(void)
{
	struct test_sample in = good();

	in.misc = PERF_RECORD_MISC_GUEST_KERNEL;
	in.pid = 0;
	in.addr = 0;
	in.phys_addr = 0;
	check_filter(in, STAT_DISCARDED_GUEST);
	in.misc = 0;
	check_filter(in, STAT_DISCARDED_NO_PID);
	in.pid = SELF;
	check_filter(in, STAT_DISCARDED_SELF);
	in.pid = 5;
	check_filter(in, STAT_DISCARDED_NO_ADDRESS);
	in.addr = UINT64_MAX;
	check_filter(in, STAT_DISCARDED_KERNEL);
	in.addr = 4096;
	check_filter(in, STAT_DISCARDED_NO_PHYS);
}

static void other_records(void)
{
	struct bench b;
	struct perf_event_header broken = { .type = PERF_RECORD_SAMPLE, .size = 4 };

	bench_init(&b, 1, 4096, 64);
	put_plain(&b, PERF_RECORD_LOST, 2, 7);
	put_plain(&b, PERF_RECORD_LOST_SAMPLES, 1, 5);
	put_plain(&b, PERF_RECORD_LOST, 6, 1);
	put_plain(&b, PERF_RECORD_THROTTLE, 3, 0);
	put_plain(&b, PERF_RECORD_UNTHROTTLE, 3, 0);
	put_plain(&b, PERF_RECORD_THROTTLE, 0, 0);
	put_plain(&b, PERF_RECORD_MMAP2, 9, 0);
	put_plain(&b, 0, 0, 0);
	put_plain(&b, UINT32_MAX, 1, 0);
	CU_ASSERT_EQUAL(reader_drain(b.reader, &b.ring), 0);
	CU_ASSERT_EQUAL(count(&b, STAT_LOST), 7 + 5 + 1);
	CU_ASSERT_EQUAL(count(&b, STAT_THROTTLED), 2);
	CU_ASSERT_EQUAL(count(&b, STAT_OTHER_RECORDS), 3);
	CU_ASSERT_EQUAL(count(&b, STAT_BAD_RECORDS), 0);
	CU_ASSERT_EQUAL(count(&b, STAT_TOTAL), 0);
	CU_ASSERT_EQUAL(b.wakers[0].wakes, 0);

	put_plain(&b, PERF_RECORD_SAMPLE, 3, 0); /* too short for its layout */
	put_plain(&b, PERF_RECORD_LOST, 1, 0);
	put_plain(&b, PERF_RECORD_LOST_SAMPLES, 0, 0);
	fake_ring_put(&b.fake, &broken, sizeof(broken)); /* and here nobody knows how to go on */
	put_plain(&b, PERF_RECORD_THROTTLE, 3, 0);
	CU_ASSERT_EQUAL(reader_drain(b.reader, &b.ring), 0);
	CU_ASSERT_EQUAL(count(&b, STAT_BAD_RECORDS), 4);
	CU_ASSERT_EQUAL(count(&b, STAT_THROTTLED), 2);
	CU_ASSERT_EQUAL(count(&b, STAT_TOTAL), 0);
	bench_done(&b);
}

static void full_queue_drops(void)
{
	struct bench b;
	struct test_sample in = good();

	bench_init(&b, 1, 65536, 64);
	for (int i = 0; i < 100; i++)
		put_sample(&b, &in);
	CU_ASSERT_EQUAL(reader_drain(b.reader, &b.ring), 64);
	CU_ASSERT_EQUAL(count(&b, STAT_TOTAL), 100);
	CU_ASSERT_EQUAL(count(&b, STAT_DROPPED_QUEUE_FULL), 36);
	CU_ASSERT_EQUAL(b.wakers[0].wakes, 1);
	/* Nothing went through, but its collector is told all the same. */
	put_sample(&b, &in);
	CU_ASSERT_EQUAL(reader_drain(b.reader, &b.ring), 0);
	CU_ASSERT_EQUAL(b.wakers[0].wakes, 2);
	bench_done(&b);
}

/* Any mixture of records: each sample ends once; what is handed on comes out whole, in order, at its shard. */
static struct test_sample random_sample(struct test_rng *rng)
{
	struct test_sample in = good();

	in.pid = (uint32_t)(1 + test_random_below(rng, 50));
	in.addr = test_random(rng) >> (8 + test_random_below(rng, 30));
	in.time = test_random(rng);
	switch (test_random_below(rng, 16)) {
	case 0:
		in.pid = 0;
		break;
	case 1:
		in.pid = SELF;
		break;
	case 2:
		in.addr |= 1ULL << 63;
		break;
	case 3:
		in.phys_addr = 0;
		break;
	case 4:
		in.misc = PERF_RECORD_MISC_GUEST_USER;
		break;
	case 5:
		in.addr = 0;
		break;
	default:
		break;
	}
	return in;
}

static bool is_good(const struct test_sample *in)
{
	return in->misc == PERF_RECORD_MISC_USER && in->pid != 0 && in->pid != SELF && in->addr != 0 &&
	       in->addr >> 56 == 0 && in->phys_addr != 0;
}

static void random_streams_add_up(void)
{
	enum { ROUNDS = 300, EACH = 60 };
	struct test_rng rng = { .state = 20 };
	uint64_t samples = 0, handed_on = 0, others = 0, popped = 0;
	struct bench b;

	bench_init(&b, SHARDS_MAX, 8192, 64);
	for (int round = 0; round < ROUNDS; round++) {
		struct test_sample want[SHARDS_MAX][EACH];
		size_t n_want[SHARDS_MAX] = { 0 };
		uint64_t n = test_random_below(&rng, EACH + 1);

		for (uint64_t i = 0; i < n; i++) {
			struct test_sample in = random_sample(&rng);
			unsigned int shard = hotness_shard(in.pid, in.addr, b.shards);

			if (test_random_below(&rng, 10) == 0) {
				put_plain(&b, PERF_RECORD_FORK, test_random_below(&rng, 5), 0);
				others++;
				continue;
			}
			put_sample(&b, &in);
			samples++;
			/* What of it finds room is the first of them. */
			if (is_good(&in) && sample_queue_used(b.queues[shard]) + n_want[shard] < 64)
				want[shard][n_want[shard]++] = in;
		}
		handed_on += reader_drain(b.reader, &b.ring);
		CU_ASSERT_EQUAL(count(&b, STAT_TOTAL), samples);
		CU_ASSERT_EQUAL(count(&b, STAT_HINTFAULTS), samples);
		CU_ASSERT_EQUAL(handed_on + count_endings(&b), samples);
		CU_ASSERT_EQUAL(count(&b, STAT_OTHER_RECORDS), others);
		/* Collectors come seldom, so that queues fill up. */
		for (unsigned int shard = 0; shard < b.shards; shard++) {
			static struct sample got[128];
			size_t used = sample_queue_used(b.queues[shard]), first = used - n_want[shard];

			if (test_random_below(&rng, 12) != 0)
				continue;
			CU_ASSERT_EQUAL(sample_queue_pop(b.queues[shard], got, 128), used);
			for (size_t i = 0; i < n_want[shard]; i++) {
				CU_ASSERT_EQUAL(got[first + i].addr, want[shard][i].addr);
				CU_ASSERT_EQUAL(got[first + i].pid, want[shard][i].pid);
				CU_ASSERT_EQUAL(got[first + i].time_ns, want[shard][i].time);
			}
			popped += used;
		}
	}
	for (unsigned int shard = 0; shard < b.shards; shard++)
		popped += sample_queue_used(b.queues[shard]);
	CU_ASSERT_EQUAL(popped, handed_on);
	CU_ASSERT(handed_on > samples / 3);
	CU_ASSERT(count(&b, STAT_DROPPED_QUEUE_FULL) > 0);
	CU_ASSERT_EQUAL(count(&b, STAT_BAD_RECORDS), 0);
	bench_done(&b);
}

static void one_wake_for_each_collector(void)
{
	struct bench b;
	struct test_sample in = good();
	unsigned int woken = 0;

	bench_init(&b, 4, 65536, 256);
	for (uint64_t i = 0; i < 200; i++) {
		in.addr = (i + 1) << REGION_SHIFT;
		put_sample(&b, &in);
	}
	reader_drain(b.reader, &b.ring);
	for (unsigned int i = 0; i < b.shards; i++) {
		CU_ASSERT_EQUAL(b.wakers[i].wakes, sample_queue_used(b.queues[i]) > 0);
		woken += b.wakers[i].wakes;
	}
	CU_ASSERT(woken >= 2);
	/* Nothing new: nobody is woken. */
	reader_drain(b.reader, &b.ring);
	for (unsigned int i = 0; i < b.shards; i++)
		woken -= b.wakers[i].wakes;
	CU_ASSERT_EQUAL(woken, 0);
	bench_done(&b);
}

TEST_MAIN(reader, TEST(hint_fault_becomes_a_sample), TEST(hardware_sample_keeps_what_it_knows), TEST(page_sizes),
	  TEST(each_cause_is_counted), TEST(causes_are_exclusive), TEST(other_records), TEST(full_queue_drops),
	  TEST(random_streams_add_up), TEST(one_wake_for_each_collector))
