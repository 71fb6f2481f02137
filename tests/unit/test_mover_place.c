/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <string.h>

#include "fake_kernel.h"
#include "harness.h"
#include "mover.h"
#include "stats.h"

#define PAGE 4096ULL
#define HUGE (2ULL << 20)
#define BASE 0x7f0000000000ULL
#define PID  4711U

static struct fake_kernel kernel;
static struct fake_process *process;
static struct stats *stats;
static struct mover mover;

static void begin(void)
{
	fake_kernel_init(&kernel, 4, 1000);
	process = fake_process_add(&kernel, PID);
	stats = stats_new();
	mover = (struct mover){ .ops = &fake_kernel_ops,
				.ctx = &kernel,
				.stats = stats_slot_new(stats),
				.outcomes = mover_outcomes_new() };
}

static void end(void)
{
	mover_outcomes_free(mover.outcomes);
	stats_free(stats);
	fake_kernel_done(&kernel);
}

static void says_where_each_is(void)
{
	uint64_t addrs[512];
	int nids[512];

	begin();
	for (unsigned int i = 0; i < 512; i++) {
		addrs[i] = BASE + i * PAGE;
		if (i % 4 < 3)
			fake_folio_add(process, addrs[i], PAGE, (int)(i % 4), i == 8 ? FAKE_ABSENT : 0);
	}
	CU_ASSERT_EQUAL(mover_place(&mover, PID, addrs, 512, nids), 0);
	for (unsigned int i = 0; i < 512; i++) {
		CU_ASSERT(i % 4 == 3 ? nids[i] < 0 : nids[i] == (i == 8 ? -ENOENT : (int)(i % 4)));
	}
	/* Nothing moved, and nothing was counted. */
	CU_ASSERT_EQUAL(kernel.move_calls, 0);
	CU_ASSERT_EQUAL(kernel.query_calls, 1);
	for (int i = 0; i < STAT_MAX; i++)
		CU_ASSERT_EQUAL(stats_sum(stats, (enum stat_id)i), 0);
	end();
}

static void a_huge_page_by_any_address(void)
{
	const uint64_t addrs[] = { BASE, BASE + 300 * PAGE };
	int nids[2];

	begin();
	fake_folio_add(process, BASE, HUGE, 2, 0);
	CU_ASSERT_EQUAL(mover_place(&mover, PID, addrs, 2, nids), 0);
	CU_ASSERT_EQUAL(nids[0], 2);
	CU_ASSERT_EQUAL(nids[1], 2);
	end();
}

static void says_why_not(void)
{
	const uint64_t addr = BASE;
	int nid = 7;

	begin();
	fake_folio_add(process, BASE, PAGE, 2, 0);
	process->alive = false;
	CU_ASSERT_EQUAL(mover_place(&mover, PID, &addr, 1, &nid), -ESRCH);
	process->alive = true;
	process->no_memory_map = true;
	CU_ASSERT_EQUAL(mover_place(&mover, PID, &addr, 1, &nid), -ESRCH);
	process->no_memory_map = false;
	process->denied = true;
	CU_ASSERT_EQUAL(mover_place(&mover, PID, &addr, 1, &nid), -EPERM);
	process->denied = false;
	kernel.query_error = -ENOMEM;
	kernel.query_error_at = kernel.query_calls + 1;
	CU_ASSERT_EQUAL(mover_place(&mover, PID, &addr, 1, &nid), -ENOMEM);
	CU_ASSERT_EQUAL(mover_place(&mover, PID, &addr, 1, &nid), 0);
	CU_ASSERT_EQUAL(nid, 2);
	end();
}

/* A kernel that answers for some only. */
static long half(void *ctx, uint32_t pid, size_t n, void **addrs, int *status)
{
	(void)ctx;
	(void)pid;
	(void)addrs;
	for (size_t i = 0; i < n / 2; i++)
		status[i] = 3;
	return 0;
}

static void what_is_not_answered_is_an_error(void)
{
	const struct mover_ops ops = { .query = half };
	const uint64_t addrs[] = { BASE, BASE + PAGE };
	int nids[2];

	begin();
	mover.ops = &ops;
	CU_ASSERT_EQUAL(mover_place(&mover, PID, addrs, 2, nids), 0);
	CU_ASSERT_EQUAL(nids[0], 3);
	CU_ASSERT_EQUAL(nids[1], -EIO);
	end();
}

TEST_MAIN(mover_place, TEST(says_where_each_is), TEST(a_huge_page_by_any_address), TEST(says_why_not),
	  TEST(what_is_not_answered_is_an_error))
