/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "harness.h"
#include "mover_rest.h"

static void pauses_grow_and_end(void)
{
	struct mover_rest *rest = mover_rest_new();
	uint64_t now_ns = 5000, pause_ns = REST_FIRST_NS;

	CU_ASSERT_EQUAL(mover_rest_page(rest, 7, 1, now_ns), REST_NOT);
	for (int i = 1; i < REST_TRIES; i++, pause_ns *= 2) {
		CU_ASSERT_TRUE(mover_rest_page_failed(rest, 7, 1, now_ns));
		CU_ASSERT_EQUAL(mover_rest_page(rest, 7, 1, now_ns + pause_ns - 1), REST_WAITS);
		now_ns += pause_ns;
		CU_ASSERT_EQUAL(mover_rest_page(rest, 7, 1, now_ns), REST_NOT);
	}
	CU_ASSERT_FALSE(mover_rest_page_failed(rest, 7, 1, now_ns));
	CU_ASSERT_EQUAL(mover_rest_page(rest, 7, 1, now_ns + REST_GIVEN_UP_NS - 1), REST_GIVEN_UP);
	CU_ASSERT_EQUAL(mover_rest_page(rest, 8, 1, now_ns), REST_NOT);
	CU_ASSERT_EQUAL(mover_rest_page(rest, 7, 2, now_ns), REST_NOT); /* another's page now */
	now_ns += REST_GIVEN_UP_NS;
	CU_ASSERT_EQUAL(mover_rest_page(rest, 7, 1, now_ns), REST_NOT);
	CU_ASSERT_TRUE(mover_rest_page_failed(rest, 7, 1, now_ns)); /* from the beginning */
	CU_ASSERT_EQUAL(mover_rest_page(rest, 7, 1, now_ns), REST_WAITS);
	mover_rest_page_done(rest, 7);
	mover_rest_page_done(rest, 7);
	CU_ASSERT_EQUAL(mover_rest_page(rest, 7, 1, now_ns), REST_NOT);
	mover_rest_free(rest);
	mover_rest_free(NULL);
}

/* However many fail, none is tried too early, and what is over makes room. */
static void it_is_bounded(void)
{
	struct mover_rest *rest = mover_rest_new();
	uint64_t waiting = 0, again = 0, now_ns = 1;

	for (uint64_t pfn = 0; pfn < 100000; pfn++)
		waiting += mover_rest_page_failed(rest, pfn, 1, now_ns);
	CU_ASSERT(waiting > 3000 && waiting <= 4096);
	for (uint64_t pfn = 0; pfn < 100000; pfn++)
		again += mover_rest_page(rest, pfn, 1, now_ns) == REST_WAITS;
	CU_ASSERT_EQUAL(again, waiting);
	now_ns += REST_FIRST_NS;
	again = 0;
	for (uint64_t pfn = 200000; pfn < 300000; pfn++)
		again += mover_rest_page_failed(rest, pfn, 1, now_ns);
	CU_ASSERT_EQUAL(again, waiting);
	mover_rest_free(rest);
}

static void a_process_rests_from_a_node(void)
{
	struct mover_rest *rest = mover_rest_new();

	CU_ASSERT_FALSE(mover_rest_process(rest, 3, 50, 0, 10));
	mover_rest_process_failed(rest, 3, 50, 0, 10);
	CU_ASSERT_TRUE(mover_rest_process(rest, 3, 50, 0, 10 + REST_PROCESS_NS - 1));
	CU_ASSERT_FALSE(mover_rest_process(rest, 3, 50, 0, 10 + REST_PROCESS_NS));
	CU_ASSERT_FALSE(mover_rest_process(rest, 3, 50, 1, 11)); /* another node */
	CU_ASSERT_FALSE(mover_rest_process(rest, 4, 50, 0, 11)); /* another process */
	CU_ASSERT_FALSE(mover_rest_process(rest, 3, 51, 0, 11)); /* another one in the same slot */
	mover_rest_free(rest);
}

TEST_MAIN(mover_rest, TEST(pauses_grow_and_end), TEST(it_is_bounded), TEST(a_process_rests_from_a_node))
