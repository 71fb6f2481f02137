/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <string.h>

#include "harness.h"
#include "stats.h"

static void sums_over_slots(void)
{
	struct stats *stats = stats_new();
	struct stats_slot *a = stats_slot_new(stats), *b = stats_slot_new(stats);

	stats_inc(a, STAT_TOTAL);
	stats_add(b, STAT_TOTAL, 41);
	stats_add(b, STAT_LOST, UINT64_C(1) << 40);
	CU_ASSERT_EQUAL(stats_sum(stats, STAT_TOTAL), 42);
	CU_ASSERT_EQUAL(stats_sum(stats, STAT_LOST), UINT64_C(1) << 40);
	CU_ASSERT_EQUAL(stats_sum(stats, STAT_USEFUL), 0);
	stats_free(stats);
	stats_free(NULL);
}

static void table_is_complete(void)
{
	for (int i = 0; i < STAT_MAX; i++) {
		CU_ASSERT_PTR_NOT_NULL(stat_info[i].name);
		CU_ASSERT(strlen(stat_info[i].unit) > 0);
		CU_ASSERT(strlen(stat_info[i].line) > 0);
		for (int j = 0; j < i; j++)
			CU_ASSERT_NOT_EQUAL(strcmp(stat_info[i].name, stat_info[j].name), 0);
	}
}

TEST_MAIN(stats, TEST(sums_over_slots), TEST(table_is_complete))
