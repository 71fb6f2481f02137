/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <sys/mman.h>
#include <unistd.h>

#include "clock.h"
#include "harness.h"
#include "machine.h"
#include "mover.h"
#include "mover_fault.h"
#include "sample.h"
#include "stats.h"

#define PAGE    PAGE_SIZE_BYTES
#define PRESENT (1ULL << 63)

static void by_the_page_map(void)
{
	const uint64_t entries[] = { 0, PRESENT | 5, 1ULL << 62, PRESENT };
	struct machine m;
	struct mover mover = { .root = NULL };

	machine_new(&m);
	machine_put_bytes(&m, "proc/77/pagemap", entries, sizeof(entries));
	CU_ASSERT_EQUAL(mover_fault_result(&mover, 77, PAGE), MOVER_NOT_MIGRATABLE);
	mover.root = &m.root;
	CU_ASSERT_EQUAL(mover_fault_result(&mover, 77, 0), MOVER_NOT_PRESENT);
	CU_ASSERT_EQUAL(mover_fault_result(&mover, 77, PAGE), MOVER_ZERO_PAGE);
	CU_ASSERT_EQUAL(mover_fault_result(&mover, 77, 2 * PAGE), MOVER_NOT_PRESENT); /* in swap */
	CU_ASSERT_EQUAL(mover_fault_result(&mover, 77, 4 * PAGE - 1), MOVER_ZERO_PAGE);
	CU_ASSERT_EQUAL(mover_fault_result(&mover, 77, 4 * PAGE), MOVER_NOT_MIGRATABLE); /* the file ends */
	CU_ASSERT_EQUAL(mover_fault_result(&mover, 78, 0), MOVER_NOT_MIGRATABLE);
	machine_free(&m);
}

/* Of this kernel: a page that was written, one that was read only, one that was never touched, and none. */
static void the_kernel_says_so(void)
{
	struct stats *stats = stats_new();
	struct mover mover = { .ops = &mover_pages_ops, .clock = &clock_monotonic, .outcomes = mover_outcomes_new() };
	struct mover_page page[4];
	struct mover_summary sum;
	struct fsroot root;
	char *memory = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void *first = memory;
	int nid;

	CU_ASSERT_EQUAL(fsroot_open(&root, "/"), 0);
	CU_ASSERT_PTR_NOT_EQUAL(memory, MAP_FAILED);
	madvise(memory, 4 * PAGE, MADV_NOHUGEPAGE);
	munmap(memory + 3 * PAGE, PAGE);
	memory[0] = 1;
	(void)*(volatile char *)(memory + PAGE);
	mover.root = &root;
	mover.stats = stats_slot_new(stats);
	if (mover_pages_ops.query(NULL, (uint32_t)getpid(), 1, &first, &nid) != 0 || nid < 0) {
		test_skip("move_pages() is not allowed here");
	} else {
		for (size_t i = 0; i < 4; i++)
			page[i] =
				(struct mover_page){ .addr = (uint64_t)(uintptr_t)(memory + i * PAGE), .bytes = PAGE };
		CU_ASSERT_EQUAL(mover_move(&mover, (uint32_t)getpid(), nid, page, 4, &sum), 0);
		CU_ASSERT_EQUAL(page[0].result, MOVER_ALREADY);
		CU_ASSERT_EQUAL(page[1].result, MOVER_ZERO_PAGE);
		CU_ASSERT_EQUAL(page[2].result, MOVER_NOT_PRESENT);
		CU_ASSERT_EQUAL(page[3].result, MOVER_NOT_PRESENT);
		CU_ASSERT_EQUAL(stats_sum(stats, STAT_MOVE_ZERO_PAGE), 1);
	}
	mover_outcomes_free(mover.outcomes);
	stats_free(stats);
	fsroot_close(&root);
	munmap(memory, 3 * PAGE);
}

TEST_MAIN(mover_fault, TEST(by_the_page_map), TEST(the_kernel_says_so))
