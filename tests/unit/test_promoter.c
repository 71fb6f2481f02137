/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "clock.h"
#include "harness.h"
#include "machine.h"
#include "promoter.h"

static void put_vmstat(const struct machine *m, uint64_t promoted, uint64_t migrated)
{
	machine_put(m, "proc/vmstat",
		    "nr_free_pages 1\npgpromote_success %llu\npgpromote_candidate 77\npgpromote_candidate_nrl 78\n"
		    "numa_pte_updates 79\nnuma_pages_migrated %llu\npgmigrate_success 80",
		    (unsigned long long)promoted, (unsigned long long)migrated);
}

static void mode_1_shows_as_migrated(void)
{
	struct promoter promoter = { 0 };
	struct machine m;

	machine_new(&m);
	machine_put(&m, "proc/sys/kernel/numa_balancing", "1");
	put_vmstat(&m, 0, 5000);
	CU_ASSERT_EQUAL(promoter_look(&promoter, &m.root, 10), 0); /* what was before us is none of ours */
	CU_ASSERT_FALSE(promoter_is_active(&promoter, 10, 1000));
	put_vmstat(&m, 0, 5000 + 8192);
	CU_ASSERT_EQUAL(promoter_look(&promoter, &m.root, 20), 8192);
	CU_ASSERT_EQUAL(promoter_look(&promoter, &m.root, 30), 0);
	CU_ASSERT_EQUAL(promoter.promoted_pages, 8192);
	CU_ASSERT_EQUAL(promoter.last_ns, 20);
	machine_free(&m);
}

/* Each promotion is in both counters: not twice. And what is in one only is balancing between fast nodes. */
static void mode_2_is_not_counted_twice(void)
{
	struct promoter promoter = { 0 };
	struct machine m;

	for (int mode = 2; mode <= 3; mode++) {
		promoter = (struct promoter){ 0 };
		machine_new(&m);
		machine_put(&m, "proc/sys/kernel/numa_balancing", "%d", mode);
		put_vmstat(&m, 100, 1000);
		promoter_look(&promoter, &m.root, 10);
		put_vmstat(&m, 150, 1300);
		CU_ASSERT_EQUAL(promoter_look(&promoter, &m.root, 20), 50);
		put_vmstat(&m, 150, 1900);
		CU_ASSERT_EQUAL(promoter_look(&promoter, &m.root, 30), 0);
		CU_ASSERT_EQUAL(promoter.promoted_pages, 50);
		machine_free(&m);
	}
}

/* The mode changed since the last look: what happened before that must not be overlooked. */
static void mode_changes_between_looks(void)
{
	struct promoter promoter = { 0 };
	struct machine m;

	machine_new(&m);
	machine_put(&m, "proc/sys/kernel/numa_balancing", "1");
	put_vmstat(&m, 0, 0);
	promoter_look(&promoter, &m.root, 10);
	put_vmstat(&m, 0, 40);
	machine_put(&m, "proc/sys/kernel/numa_balancing", "2");
	CU_ASSERT_EQUAL(promoter_look(&promoter, &m.root, 20), 40);
	put_vmstat(&m, 0, 50);
	CU_ASSERT_EQUAL(promoter_look(&promoter, &m.root, 30), 0);
	put_vmstat(&m, 0, 60);
	machine_put(&m, "proc/sys/kernel/numa_balancing", "0");
	CU_ASSERT_EQUAL(promoter_look(&promoter, &m.root, 40), 10);
	machine_free(&m);
}

static void either_counter_may_be_missing(void)
{
	struct promoter promoter = { 0 };
	struct machine m;

	machine_new(&m);
	machine_put(&m, "proc/vmstat", "numa_pages_migrated 3");
	CU_ASSERT_EQUAL(promoter_look(&promoter, &m.root, 1), 0);
	machine_put(&m, "proc/vmstat", "numa_pages_migrated 5\nx");
	CU_ASSERT_EQUAL(promoter_look(&promoter, &m.root, 2), 2);
	promoter = (struct promoter){ 0 };
	/* Mode 2, but on a kernel that counts promotions nowhere else. */
	machine_put(&m, "proc/sys/kernel/numa_balancing", "2");
	CU_ASSERT_EQUAL(promoter_look(&promoter, &m.root, 1), 0);
	machine_put(&m, "proc/vmstat", "numa_pages_migrated 6");
	CU_ASSERT_EQUAL(promoter_look(&promoter, &m.root, 2), 1);
	promoter = (struct promoter){ 0 };
	machine_put(&m, "proc/vmstat", "pgpromote_success 3");
	CU_ASSERT_EQUAL(promoter_look(&promoter, &m.root, 1), 0);
	machine_put(&m, "proc/vmstat", "pgpromote_success 4");
	CU_ASSERT_EQUAL(promoter_look(&promoter, &m.root, 2), 1);
	machine_free(&m);
}

static void failures_change_nothing(void)
{
	struct promoter promoter = { 0 }, before;
	struct machine m;

	machine_new(&m);
	CU_ASSERT_EQUAL(promoter_look(&promoter, &m.root, 1), -ENOENT);
	CU_ASSERT_FALSE(promoter.started);
	put_vmstat(&m, 10, 10);
	promoter_look(&promoter, &m.root, 1);
	before = promoter;
	machine_put(&m, "proc/vmstat", "nr_free_pages 5\npgpromote_successes 6\nxnuma_pages_migrated 7");
	CU_ASSERT_EQUAL(promoter_look(&promoter, &m.root, 2), -ENOENT);
	machine_put(&m, "proc/vmstat", "pgpromote_success many\nnuma_pages_migrated -4\npgpromote_success\n\n");
	CU_ASSERT_EQUAL(promoter_look(&promoter, &m.root, 3), -ENOENT);
	machine_put(&m, "proc/vmstat", "%s", "");
	CU_ASSERT_EQUAL(promoter_look(&promoter, &m.root, 4), -ENOENT);
	CU_ASSERT_EQUAL(memcmp(&before, &promoter, sizeof(before)), 0);
	put_vmstat(&m, 12, 13);
	CU_ASSERT_EQUAL(promoter_look(&promoter, &m.root, 5), 3);
	machine_free(&m);
}

static void counter_that_shrinks(void)
{
	struct promoter promoter = { 0 };
	struct machine m;

	machine_new(&m);
	put_vmstat(&m, 1000, 1000);
	promoter_look(&promoter, &m.root, 1);
	put_vmstat(&m, 10, 20);
	CU_ASSERT_EQUAL(promoter_look(&promoter, &m.root, 2), 0);
	put_vmstat(&m, 15, 21);
	CU_ASSERT_EQUAL(promoter_look(&promoter, &m.root, 3), 5);
	put_vmstat(&m, 15, UINT64_MAX);
	CU_ASSERT_EQUAL(promoter_look(&promoter, &m.root, 4), INT64_MAX);
	machine_free(&m);
}

static void active_within(void)
{
	struct promoter promoter = { .started = true, .last_ns = 10 * NSEC_PER_SEC };

	CU_ASSERT_TRUE(promoter_is_active(&promoter, 10 * NSEC_PER_SEC, 5 * NSEC_PER_SEC));
	CU_ASSERT_TRUE(promoter_is_active(&promoter, 15 * NSEC_PER_SEC, 5 * NSEC_PER_SEC));
	CU_ASSERT_FALSE(promoter_is_active(&promoter, 15 * NSEC_PER_SEC + 1, 5 * NSEC_PER_SEC));
	CU_ASSERT_TRUE(promoter_is_active(&promoter, 9 * NSEC_PER_SEC, 0));
	promoter.last_ns = 0;
	CU_ASSERT_FALSE(promoter_is_active(&promoter, 1, UINT64_MAX));
}

TEST_MAIN(promoter, TEST(mode_1_shows_as_migrated), TEST(mode_2_is_not_counted_twice), TEST(mode_changes_between_looks),
	  TEST(either_counter_may_be_missing), TEST(failures_change_nothing), TEST(counter_that_shrinks),
	  TEST(active_within))
