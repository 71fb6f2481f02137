/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The reader with a ring of IBS: what it counts of a record, and what it does for each. */
#include "call_counts.h"
#include "ibs_records.h"
#include "reader_rig.h"
#include "source_ibs_record.h"

#define LINEAR   0x7F0012345678ULL
#define PHYSICAL 0x89ABC678ULL

static const struct ibs_decoder_params params = { .kind = IBS_PMU_OP, .family = 0x1a, .self_pid = SELF };

static void ibs_init(struct bench *b)
{
	bench_init(b, 1, 1 << 16, 1024);
	b->ring.sample_type = source_ibs_sample_type(false);
	b->ring.source = SAMPLE_SOURCE_IBS;
	b->ring.sample_flags = 0;
	b->ring.ibs = &params;
	CU_ASSERT_EQUAL(reader_add_ring(b->reader, &b->ring), 0);
}

/* A load beyond L2, that nothing speaks against. */
static struct ibs_test_record load(void)
{
	return (struct ibs_test_record){
		.caps = CAPS_ZEN5,
		.reg = { [OP_CTL] = CTL_ON,
			 [OP_DATA2] = 3,
			 [OP_DATA3] = 1 << 0 | 1 << 7 | 3 << 17 | 1 << 20,
			 [OP_LINEAR] = LINEAR,
			 [OP_PHYSICAL] = PHYSICAL },
	};
}

/* @more bytes behind its registers. */
static void put(struct bench *b, const struct ibs_test_record *regs, uint64_t phys_addr, uint32_t pid, uint32_t more)
{
	static struct test_record record;
	unsigned char raw[128] = { 0 }, *known;
	size_t bytes;
	struct test_sample in = { .misc = PERF_RECORD_MISC_USER,
				  .pid = pid,
				  .tid = pid,
				  .addr = LINEAR,
				  .phys_addr = phys_addr,
				  .raw = raw };

	known = ibs_test_raw(regs, &bytes);
	memcpy(raw, known, bytes);
	free(known);
	in.raw_bytes = (uint32_t)bytes + more;
	make_sample_record(&record, b->ring.sample_type, &in);
	CU_ASSERT_TRUE(fake_ring_put_record(&b->fake, &record));
}

/* Physical addresses that the kernel hides in the record: each way has a counter, and what is usable stays so. */
static void hidden_addresses(void)
{
	struct ibs_test_record shown = load(), cleared = load(), zeroed = load(), kernels = load();
	struct bench b;

	cleared.reg[OP_DATA3] &= ~(1ULL << 18);
	cleared.reg[OP_PHYSICAL] = 0;
	zeroed.reg[OP_PHYSICAL] = 0;
	kernels.reg[OP_DATA3] &= ~(1ULL << 18);
	kernels.reg[OP_LINEAR] = 0xffff888000001000;
	ibs_init(&b);
	for (int i = 0; i < 2; i++)
		put(&b, &shown, PHYSICAL, 100, 0);
	for (int i = 0; i < 3; i++)
		put(&b, &cleared, PHYSICAL, 100, 0);
	for (int i = 0; i < 5; i++)
		put(&b, &zeroed, PHYSICAL, 100, 0);
	for (int i = 0; i < 7; i++)
		put(&b, &cleared, 0, 100, 0);
	for (int i = 0; i < 11; i++)
		put(&b, &zeroed, 0, 100, 0);
	/* Samples that are none for another reason say nothing of it. */
	put(&b, &kernels, 0, 100, 0);
	put(&b, &cleared, 0, SELF, 0);
	put(&b, &zeroed, 0, 0, 0);
	CU_ASSERT_EQUAL(reader_drain(b.reader, &b.ring), 2 + 3 + 5);
	CU_ASSERT_EQUAL(count(&b, STAT_TOTAL), 31);
	CU_ASSERT_EQUAL(count(&b, STAT_HWHINTS), 31);
	CU_ASSERT_EQUAL(count(&b, STAT_HW_PHYS_CLEARED), 3 + 7);
	CU_ASSERT_EQUAL(count(&b, STAT_HW_PHYS_ZEROED), 5 + 11);
	CU_ASSERT_EQUAL(count(&b, STAT_DISCARDED_NO_PHYS), 7 + 11);
	CU_ASSERT_EQUAL(count(&b, STAT_DISCARDED_KERNEL), 1);
	CU_ASSERT_EQUAL(count(&b, STAT_BAD_RECORDS), 0);
	CU_ASSERT_EQUAL(atomic_load(&b.ring.misfit), 0);
	for (int i = 0; i < 10; i++) {
		struct sample sample;

		CU_ASSERT_EQUAL(sample_queue_pop(b.queues[0], &sample, 1), 1);
		CU_ASSERT_EQUAL(sample.phys, PHYSICAL);
	}
	bench_done(&b);
}

/* What doesn't fit is counted, and the last of it can be looked at; what fits goes on. */
static void records_that_do_not_fit(void)
{
	struct ibs_test_record regs = load();
	struct bench b;
	char text[80];

	ibs_init(&b);
	put(&b, &regs, PHYSICAL, 100, 0);
	regs.caps |= 1U << 21;
	put(&b, &regs, PHYSICAL, 100, 8);
	CU_ASSERT_EQUAL(reader_drain(b.reader, &b.ring), 1);
	CU_ASSERT_EQUAL(count(&b, STAT_TOTAL), 1);
	CU_ASSERT_EQUAL(count(&b, STAT_BAD_RECORDS), 1);
	source_ibs_record_misfit_text(atomic_load(&b.ring.misfit), text, sizeof(text));
	CU_ASSERT_STRING_EQUAL(text, "76 bytes of raw data, capabilities 0x00281bff");
	/* Unknown bits that change nothing are taken. */
	put(&b, &regs, PHYSICAL, 100, 0);
	CU_ASSERT_EQUAL(reader_drain(b.reader, &b.ring), 1);
	CU_ASSERT_EQUAL(count(&b, STAT_BAD_RECORDS), 1);
	/* Without raw data. */
	{
		static struct test_record record;
		struct test_sample in = { .pid = 100, .raw = "" };

		make_sample_record(&record, b.ring.sample_type, &in);
		CU_ASSERT_TRUE(fake_ring_put_record(&b.fake, &record));
	}
	CU_ASSERT_EQUAL(reader_drain(b.reader, &b.ring), 0);
	CU_ASSERT_EQUAL(count(&b, STAT_BAD_RECORDS), 2);
	source_ibs_record_misfit_text(atomic_load(&b.ring.misfit), text, sizeof(text));
	CU_ASSERT_STRING_EQUAL(text, "4 bytes of raw data, capabilities 0x00000000");
	bench_done(&b);
}

#define N_RECORDS 300

/* Some of each end that a record can have. */
static void put_many(struct bench *b, int n)
{
	for (int i = 0; i < n; i++) {
		struct ibs_test_record regs = load();

		if (i % 7 == 1)
			regs.reg[OP_DATA3] &= ~(1ULL << 18);
		if (i % 7 == 2)
			regs.reg[OP_DATA3] |= 1 << 21;
		if (i % 7 == 3)
			regs.reg[OP_LINEAR] = 0xffff888000001000;
		put(b, &regs, i % 7 == 1 && i % 2 ? 0 : PHYSICAL, i % 7 == 4 ? SELF : 100, i % 7 == 5 ? 8 : 0);
	}
}

/* From the ring to the queue: a lock for each drain, and nothing for each record. */
static void nothing_for_each_record(void)
{
#ifdef SANITIZED
	test_skip("the sanitizer has taken malloc");
#else
	unsigned long locks_of[2];

	if (test_under_valgrind()) {
		test_skip("valgrind has taken malloc");
		return;
	}
	for (int many = 0; many < 2; many++) {
		unsigned long allocations_before, locks_before;
		struct bench b;

		ibs_init(&b);
		put_many(&b, many ? N_RECORDS : 1);
		allocations_before = allocations;
		locks_before = locks;
		(void)reader_drain(b.reader, &b.ring);
		CU_ASSERT_EQUAL(allocations, allocations_before);
		locks_of[many] = locks - locks_before;
		CU_ASSERT(!many || count(&b, STAT_TOTAL) + count(&b, STAT_BAD_RECORDS) == N_RECORDS);
		bench_done(&b);
	}
	CU_ASSERT_EQUAL(locks_of[0], 1);
	CU_ASSERT_EQUAL(locks_of[1], 1);
#endif
}

static struct bench quiet;

static bool drain_quietly(void)
{
	return reader_drain(quiet.reader, &quiet.ring) > 0;
}

static void no_system_call(void)
{
	ibs_init(&quiet);
	put_many(&quiet, N_RECORDS);
	check_makes_no_system_call(drain_quietly);
	bench_done(&quiet);
}

TEST_MAIN(reader_ibs, TEST(hidden_addresses), TEST(records_that_do_not_fit), TEST(nothing_for_each_record),
	  TEST(no_system_call))
