/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "harness.h"
#include "mover.h"
#include "mover_batch.h"

#define US 1000ULL
#define MS 1000000ULL

/* A machine on which a call costs @call_ns and a page @page_ns, moving for a while. The size in the end. */
static size_t settle_at(struct mover_batch *batch, double call_ns, double page_ns, uint64_t stall_ns, size_t max,
			int calls)
{
	unsigned int seed = 7;

	for (int i = 0; i < calls; i++) {
		size_t pages = mover_batch_size(batch, stall_ns, max);
		double noise = 0.9 + 0.2 * (rand_r(&seed) % 1000) / 1000;

		/* Now and then there is less to move, as always. */
		if (i % 7 == 6)
			pages = pages / 2 + 1;
		mover_batch_learn(batch, pages, (uint64_t)((call_ns + page_ns * (double)pages) * noise));
	}
	return mover_batch_size(batch, stall_ns, max);
}

static void size_follows_both_costs(void)
{
	static const struct {
		double call_us, page_us;
		size_t low, high;
	} machines[] = {
		{ 50, 2.5, 250, 512 },   /* cheap calls: 380 pages make them a 20th */
		{ 2, 2, 8, 40 },         /* nearly free: small ones stall least */
		{ 1000, 2.5, 512, 512 }, /* hundreds of CPUs to drain: as full as allowed */
		{ 200, 75, 25, 90 },     /* an emulated machine */
		{ 100, 1000, 8, 20 },    /* slow memory: 20 ms are 20 pages */
		{ 30000, 1000, 8, 12 },  /* not to be kept whatever the size */
	};

	for (size_t i = 0; i < sizeof(machines) / sizeof(machines[0]); i++) {
		struct mover_batch batch = { 0 };
		size_t size =
			settle_at(&batch, machines[i].call_us * 1000, machines[i].page_us * 1000, 20 * MS, 512, 300);

		CU_ASSERT(size >= machines[i].low && size <= machines[i].high);
		if (size < machines[i].low || size > machines[i].high)
			printf("  machine %zu: %zu pages\n", i, size);
	}
}

/* The time allowed holds, whatever it is and however large a call may be. */
static void the_stall_is_kept(void)
{
	for (uint64_t stall_ms = 1; stall_ms <= 64; stall_ms *= 2) {
		struct mover_batch batch = { 0 };
		size_t size = settle_at(&batch, 500 * US, 10 * US, stall_ms * MS, MOVER_BATCH_MAX, 300);
		double took_ms = (500e3 + 10e3 * (double)size) / 1e6;

		CU_ASSERT(took_ms <= (double)stall_ms * 1.15);
	}
}

static void nothing_known_is_as_configured(void)
{
	struct mover_batch batch = { 0 };
	double call_ns, page_ns;

	CU_ASSERT_EQUAL(mover_batch_size(&batch, 20 * MS, 512), 512);
	for (int i = 0; i < 100; i++)
		mover_batch_learn(&batch, 512, 0); /* a clock that stands still */
	CU_ASSERT_EQUAL(mover_batch_size(&batch, 20 * MS, 100), 100);
	mover_batch_cost(&batch, &call_ns, &page_ns);
	CU_ASSERT(call_ns == 0 && page_ns == 0);
}

/* It finds both costs again after the machine has changed. */
static void it_learns_anew(void)
{
	struct mover_batch batch = { 0 };
	double call_ns, page_ns;

	settle_at(&batch, 50 * US, 2.5 * US, 20 * MS, 512, 300);
	mover_batch_cost(&batch, &call_ns, &page_ns);
	CU_ASSERT(page_ns > 2000 && page_ns < 3000);
	settle_at(&batch, 2000 * US, 50 * US, 20 * MS, 512, 600);
	mover_batch_cost(&batch, &call_ns, &page_ns);
	CU_ASSERT(call_ns + page_ns * 300 > 13e6 && call_ns + page_ns * 300 < 21e6);
	CU_ASSERT(mover_batch_size(&batch, 20 * MS, 512) > 200);
}

/* When small calls happen to take longer than large ones, pages don't look free. */
static void scatter_makes_no_large_calls(void)
{
	struct mover_batch batch = { 0 };

	for (int i = 0; i < 64; i++)
		mover_batch_learn(&batch, i % 8 ? 22 : 11, i % 8 ? 5 * MS : 9 * MS);
	CU_ASSERT(mover_batch_size(&batch, 5 * MS, 512) <= 2 * 22 + 4);
	for (int i = 0; i < 64; i++)
		mover_batch_learn(&batch, i % 8 ? 22 : 11, 5 * MS);
	CU_ASSERT(mover_batch_size(&batch, 5 * MS, 512) <= 2 * 22 + 4);
}

TEST_MAIN(mover_batch, TEST(scatter_makes_no_large_calls), TEST(size_follows_both_costs), TEST(the_stall_is_kept),
	  TEST(nothing_known_is_as_configured), TEST(it_learns_anew))
