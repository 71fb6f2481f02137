/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <string.h>

#include "harness.h"
#include "plan.h"

#define PAGE 4096ULL
#define HUGE (2ULL << 20)
#define BASE 0x7f0000000000ULL

static struct hotness_candidate page_of(uint32_t owner_slot, uint64_t addr, uint64_t bytes)
{
	return (struct hotness_candidate){
		.pfn = addr >> 12,
		.addr = addr,
		.page_bytes = bytes,
		.owner_slot = owner_slot,
		.pid = owner_slot + 1000,
		.start_ticks = owner_slot + 5000,
		.record = 0x80000000U | owner_slot,
	};
}

static int add(struct plan *plan, uint32_t owner_slot, uint64_t addr, uint64_t bytes, int nid)
{
	struct hotness_candidate c = page_of(owner_slot, addr, bytes);
	int check = plan_check(plan, &c, nid);
	int r = plan_add(plan, &c, nid);

	CU_ASSERT_EQUAL(check, r);
	return r;
}

static void groups_by_process_and_target(void)
{
	struct plan *plan = plan_new();
	const struct hotness_candidate *c[16];
	struct plan_batch b;

	plan_reset(plan, 512);
	for (uint64_t i = 0; i < 12; i++)
		CU_ASSERT_EQUAL(add(plan, (uint32_t)(i % 3), BASE + i * PAGE, PAGE, (int)(i / 6)), 0);
	CU_ASSERT_EQUAL(plan_batches(plan), 6);
	for (size_t i = 0; i < plan_batches(plan); i++) {
		plan_batch(plan, i, &b);
		CU_ASSERT_EQUAL(b.owner_slot, i % 3);
		CU_ASSERT_EQUAL(b.pid, i % 3 + 1000);
		CU_ASSERT_EQUAL(b.start_ticks, i % 3 + 5000);
		CU_ASSERT_EQUAL(b.nid, (int)(i / 3));
		CU_ASSERT_EQUAL(b.candidates, 2);
		CU_ASSERT_EQUAL(b.pages, 2);
		CU_ASSERT_EQUAL(plan_batch_candidates(plan, i, c, 16), 2);
		CU_ASSERT(c[0]->addr < c[1]->addr);
		CU_ASSERT_EQUAL(c[0]->record, 0x80000000U | b.owner_slot);
		CU_ASSERT_EQUAL(plan_batch_candidates(plan, i, c, 1), 1);
	}
	plan_free(plan);
	plan_free(NULL);
}

static void batches_are_closed_when_full(void)
{
	struct plan *plan = plan_new();
	struct plan_batch b;

	plan_reset(plan, 64);
	for (uint64_t i = 0; i < 130; i++)
		CU_ASSERT_EQUAL(add(plan, 1, BASE + i * PAGE, PAGE, 0), 0);
	CU_ASSERT_EQUAL(plan_batches(plan), 3);
	plan_batch(plan, 1, &b);
	CU_ASSERT_EQUAL(b.pages, 64);
	plan_batch(plan, 2, &b);
	CU_ASSERT_EQUAL(b.pages, 2);
	/* A huge page is more than a batch: it gets one of its own, and so does what comes after it. */
	CU_ASSERT_EQUAL(add(plan, 1, BASE + HUGE, HUGE, 0), 0);
	CU_ASSERT_EQUAL(add(plan, 1, BASE + 2 * HUGE, PAGE, 0), 0);
	CU_ASSERT_EQUAL(plan_batches(plan), 5);
	plan_batch(plan, 3, &b);
	CU_ASSERT_EQUAL(b.pages, 512);
	CU_ASSERT_EQUAL(b.candidates, 1);
	/* Two fit into 1024. */
	plan_reset(plan, 1024);
	CU_ASSERT_EQUAL(plan_batches(plan), 0);
	for (uint64_t i = 0; i < 4; i++)
		CU_ASSERT_EQUAL(add(plan, 1, BASE + i * HUGE, HUGE, 0), 0);
	CU_ASSERT_EQUAL(plan_batches(plan), 2);
	plan_free(plan);
}

static void no_page_twice(void)
{
	struct plan *plan = plan_new();

	plan_reset(plan, 512);
	CU_ASSERT_EQUAL(add(plan, 1, BASE, PAGE, 0), 0);
	CU_ASSERT_EQUAL(add(plan, 1, BASE, PAGE, 0), -EEXIST);
	CU_ASSERT_EQUAL(add(plan, 1, BASE, PAGE, 1), -EEXIST); /* not to another target either */
	CU_ASSERT_EQUAL(add(plan, 2, BASE, PAGE, 0), 0);       /* another address space */
	/* Parts of a huge page, and a huge page round a part. */
	CU_ASSERT_EQUAL(add(plan, 1, BASE + HUGE, HUGE, 0), 0);
	CU_ASSERT_EQUAL(add(plan, 1, BASE + HUGE + 300 * PAGE, PAGE, 0), -EEXIST);
	CU_ASSERT_EQUAL(add(plan, 1, BASE + HUGE, 16 * PAGE, 0), -EEXIST);
	CU_ASSERT_EQUAL(add(plan, 1, BASE, HUGE, 0), -EBUSY);
	CU_ASSERT_EQUAL(add(plan, 1, BASE, 16 * PAGE, 0), -EBUSY);
	CU_ASSERT_EQUAL(add(plan, 1, BASE + 16 * PAGE, 16 * PAGE, 0), 0);
	CU_ASSERT_EQUAL(add(plan, 1, BASE + 31 * PAGE, PAGE, 0), -EEXIST);
	CU_ASSERT_EQUAL(add(plan, 1, BASE + 32 * PAGE, PAGE, 0), 0);
	/* After a reset all is forgotten. */
	plan_reset(plan, 512);
	CU_ASSERT_EQUAL(add(plan, 1, BASE, HUGE, 0), 0);
	plan_free(plan);
}

static void bounded_in_pages(void)
{
	struct plan *plan = plan_new();
	uint64_t i;

	for (int round = 0; round < 3; round++) {
		plan_reset(plan, 512);
		/* One page to a region: the most regions there can be. */
		for (i = 0; i < PLAN_PAGES_MAX; i++)
			if (add(plan, 1, BASE + i * HUGE + (i % 512) * PAGE, PAGE, 0) < 0)
				break;
		CU_ASSERT_EQUAL(i, PLAN_PAGES_MAX);
		CU_ASSERT_EQUAL(add(plan, 1, BASE + i * HUGE, PAGE, 0), -ENOSPC);
		CU_ASSERT_EQUAL(add(plan, 1, BASE, PAGE, 0), -EEXIST);
		CU_ASSERT_EQUAL(plan_batches(plan), PLAN_PAGES_MAX / 512);
	}
	/* The last huge page may reach over the bound. */
	plan_reset(plan, 512);
	CU_ASSERT_EQUAL(add(plan, 1, BASE, PAGE, 0), 0);
	for (i = 1; add(plan, 1, BASE + i * HUGE, HUGE, 0) == 0; i++)
		;
	CU_ASSERT_EQUAL(i - 1, PLAN_PAGES_MAX / 512);
	plan_free(plan);
}

static void bounded_in_batches(void)
{
	struct plan *plan = plan_new();

	plan_reset(plan, 64);
	for (uint32_t i = 0; i < PLAN_BATCHES_MAX; i++)
		CU_ASSERT_EQUAL(add(plan, i, BASE, PAGE, 0), 0);
	CU_ASSERT_EQUAL(add(plan, PLAN_BATCHES_MAX, BASE, PAGE, 0), -ENOSPC);
	CU_ASSERT_EQUAL(add(plan, 0, BASE + PAGE, PAGE, 1), -ENOSPC);
	/* What has a batch already still finds room in it, until that is full. */
	for (uint64_t i = 1; i < 64; i++)
		CU_ASSERT_EQUAL(add(plan, 7, BASE + i * PAGE, PAGE, 0), 0);
	CU_ASSERT_EQUAL(add(plan, 7, BASE + 64 * PAGE, PAGE, 0), -ENOSPC);
	CU_ASSERT_EQUAL(plan_batches(plan), PLAN_BATCHES_MAX);
	plan_free(plan);
}

static uint64_t seed = 11;

static uint64_t next(uint64_t below)
{
	seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (seed >> 33) % below;
}

/* Against a bitmap of what should be in: each page in exactly one batch, each batch of one process and one target. */
static void agrees_with_a_bitmap(void)
{
	enum { OWNERS = 40, PAGES = 4096 };
	static unsigned char in[OWNERS][PAGES];
	static const struct hotness_candidate *list[1024];
	struct plan *plan = plan_new();

	for (int round = 0; round < 60; round++) {
		size_t batch_pages = 64 + next(961), want = 0, got = 0;

		memset(in, 0, sizeof(in));
		plan_reset(plan, batch_pages);
		for (int i = 0; i < 3000; i++) {
			uint32_t owner = (uint32_t)next(next(2) ? 2 : OWNERS);
			size_t pages = next(40) ? 1 : next(2) ? 512 : 16;
			size_t first = next(PAGES / pages) * pages, there = 0;
			int r = add(plan, owner, BASE + first * PAGE, pages * PAGE, (int)next(3));

			for (size_t p = first; p < first + pages; p++)
				there += in[owner][p];
			if (there > 0) {
				CU_ASSERT_EQUAL(r, there == pages ? -EEXIST : -EBUSY);
				continue;
			}
			if (r == -ENOSPC)
				continue;
			CU_ASSERT_EQUAL(r, 0);
			memset(&in[owner][first], 1, pages);
			want += pages;
		}
		CU_ASSERT(want >= 1000);
		for (size_t i = 0; i < plan_batches(plan); i++) {
			struct plan_batch b;
			size_t n = plan_batch_candidates(plan, i, list, 1024), pages = 0;

			plan_batch(plan, i, &b);
			CU_ASSERT_EQUAL(n, b.candidates);
			CU_ASSERT(n > 0);
			for (size_t k = 0; k < n; k++) {
				size_t first = (list[k]->addr - BASE) / PAGE, m = list[k]->page_bytes / PAGE;

				CU_ASSERT_EQUAL(list[k]->owner_slot, b.owner_slot);
				for (size_t p = first; p < first + m; p++) {
					CU_ASSERT_EQUAL(in[b.owner_slot][p], 1);
					in[b.owner_slot][p] = 2;
				}
				pages += m;
			}
			CU_ASSERT_EQUAL(pages, b.pages);
			CU_ASSERT(pages <= batch_pages || n == 1);
			got += pages;
		}
		CU_ASSERT_EQUAL(got, want);
	}
	plan_free(plan);
}

TEST_MAIN(plan, TEST(groups_by_process_and_target), TEST(batches_are_closed_when_full), TEST(no_page_twice),
	  TEST(bounded_in_pages), TEST(bounded_in_batches), TEST(agrees_with_a_bitmap))
