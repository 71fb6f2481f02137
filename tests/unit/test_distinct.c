/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "distinct.h"
#include "harness.h"
#include "manage_left.h"

#define MIB (1ULL << 20)

static bool near(uint64_t n, uint64_t truth, double percent)
{
	double off = ((double)n - (double)truth) / (double)truth * 100;

	if (off <= percent && off >= -percent)
		return true;
	printf("  %llu for %llu\n", (unsigned long long)n, (unsigned long long)truth);
	return false;
}

/* Rows of page numbers, as they come; four standard errors are 9%. */
static void counts_about_right(void)
{
	static const uint64_t sizes[] = { 1, 10, 100, 1000, 3000, 5000, 10000, 100000, 3000000 };
	static struct distinct d;

	CU_ASSERT_EQUAL(distinct_count(&d), 0);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		for (int again = 0; again < 2; again++)
			for (uint64_t n = 0; n < sizes[i]; n++)
				distinct_add(&d, 0x100000 + n);
		CU_ASSERT(near(distinct_count(&d), sizes[i], sizes[i] <= 100 ? 2 : 9));
		distinct_clear(&d);
		CU_ASSERT_EQUAL(distinct_count(&d), 0);
	}
}

static void copies(void)
{
	static struct distinct a, b;

	for (uint64_t n = 0; n < 500; n++)
		distinct_add(&a, n);
	distinct_copy(&b, &a);
	CU_ASSERT_EQUAL(distinct_count(&a), distinct_count(&b));
}

/* What is met again and again counts once, and goes a window or two after it was met last. */
static void what_is_left_is_a_minutes_view(void)
{
	struct manage_left *left = manage_left_new();
	uint64_t now_ns = 1000;

	manage_left_tick(left, now_ns);
	for (int again = 0; again < 50; again++) {
		for (uint64_t pfn = 0; pfn < 16384; pfn++)
			manage_left_add(left, LEFT_SHARED, pfn, 4096);
		for (uint64_t pfn = 0; pfn < 512 * 8; pfn += 512)
			manage_left_add(left, LEFT_HUGETLB, pfn, 2 * MIB);
	}
	CU_ASSERT(near(manage_left_bytes(left, LEFT_SHARED), 64 * MIB, 9));
	CU_ASSERT_EQUAL(manage_left_bytes(left, LEFT_HUGETLB), 16 * MIB);
	CU_ASSERT_EQUAL(manage_left_bytes(left, LEFT_RULE), 0);
	now_ns += LEFT_WINDOW_NS;
	manage_left_tick(left, now_ns);
	CU_ASSERT(near(manage_left_bytes(left, LEFT_SHARED), 64 * MIB, 9));
	manage_left_add(left, LEFT_HUGETLB, 0, 2 * MIB);
	CU_ASSERT_EQUAL(manage_left_bytes(left, LEFT_HUGETLB), 16 * MIB);
	manage_left_tick(left, now_ns + LEFT_WINDOW_NS - 1);
	CU_ASSERT_EQUAL(manage_left_bytes(left, LEFT_HUGETLB), 16 * MIB);
	now_ns += LEFT_WINDOW_NS;
	manage_left_tick(left, now_ns);
	CU_ASSERT_EQUAL(manage_left_bytes(left, LEFT_SHARED), 0);
	CU_ASSERT_EQUAL(manage_left_bytes(left, LEFT_HUGETLB), 2 * MIB);
	now_ns += LEFT_WINDOW_NS;
	manage_left_tick(left, now_ns);
	now_ns += LEFT_WINDOW_NS;
	manage_left_tick(left, now_ns);
	CU_ASSERT_EQUAL(manage_left_bytes(left, LEFT_HUGETLB), 0);
	manage_left_free(left);
	manage_left_free(NULL);
}

TEST_MAIN(distinct, TEST(counts_about_right), TEST(copies), TEST(what_is_left_is_a_minutes_view))
