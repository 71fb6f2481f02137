/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <jansson.h>
#include <string.h>

#include "daemon_inspect.h"
#include "dataplane_inspect.h"
#include "evidence.h"
#include "harness.h"
#include "print_heat.h"

#define REGION (2ULL << 20)
#define BASE   0x7f0000000000ULL

static bool name(void *ctx, uint32_t owner_slot, char comm[16])
{
	(void)ctx;
	snprintf(comm, 16, "p%u\xff", owner_slot);
	return owner_slot != 9;
}

static bool may_trace(void *ctx, uint32_t pid)
{
	return *(const uint32_t *)ctx == pid;
}

static uint32_t allowed = 101;

static json_t *make(struct dataplane_region *regions, size_t n, uint32_t pid, int nid)
{
	const struct heat_params params = { .pid = pid,
					    .nid = nid,
					    .lower_nodes = 2,
					    .parts = 3,
					    .ctx = &allowed,
					    .name = name,
					    .may_trace = may_trace };
	char *text = daemon_heat_json(regions, n, &params);
	json_t *doc = text ? json_loads(text, JSON_REJECT_DUPLICATES, NULL) : NULL;

	free(text);
	CU_ASSERT_PTR_NOT_NULL(doc);
	return doc;
}

static long long at(const json_t *doc, size_t row, size_t cell, size_t i)
{
	const json_t *cells = json_object_get(json_array_get(json_object_get(doc, "rows"), row), "cells");

	return json_integer_value(json_array_get(json_array_get(cells, cell), i));
}

static void each_process_is_a_row(void)
{
	struct dataplane_region regions[] = {
		{ .pid = 100, .owner_slot = 0, .addr = BASE + REGION, .nodes = 2, .rate_per_sec = 1 },
		{ .pid = 101, .owner_slot = 1, .addr = BASE, .nodes = 1, .rate_per_sec = 8 },
		{ .pid = 100,
		  .owner_slot = 0,
		  .addr = BASE,
		  .nodes = 2,
		  .rate_per_sec = 2,
		  .decision = REGION_DECISION_WHOLE | REGION_DECISION_DONE },
		{ .pid = 109, .owner_slot = 9, .addr = BASE, .nodes = 3, .rate_per_sec = 0 },
	};
	json_t *doc = make(regions, 4, 0, -1), *rows = json_object_get(doc, "rows"), *hottest;

	CU_ASSERT_EQUAL(json_array_size(rows), 3);
	/* The hottest first; a name's foreign bytes are no JSON. */
	CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(json_array_get(rows, 0), "name")), "p1?");
	CU_ASSERT_EQUAL(json_integer_value(json_object_get(json_array_get(rows, 1), "far_regions")), 1);
	CU_ASSERT_EQUAL(at(doc, 1, 0, 0), 1);
	CU_ASSERT_EQUAL(at(doc, 1, 0, 1), 0); /* moved: no longer far */
	CU_ASSERT_EQUAL(at(doc, 1, 0, 2), 2000);
	CU_ASSERT_EQUAL(at(doc, 1, 1, 1), 1);
	CU_ASSERT(json_is_null(json_object_get(json_array_get(rows, 0), "from")));
	CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(json_array_get(rows, 2), "name")), "?");
	hottest = json_object_get(doc, "hottest");
	CU_ASSERT_EQUAL(json_array_size(hottest), 4);
	/* Only of the process that this person may trace is the address shown. */
	CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(json_array_get(hottest, 0), "address")),
			       "0x7f0000000000");
	CU_ASSERT(json_is_null(json_object_get(json_array_get(hottest, 1), "address")));
	json_decref(doc);
}

static void one_process_is_cut_by_address(void)
{
	struct dataplane_region regions[300];
	size_t n = 0;
	json_t *doc, *rows;

	/* 128 regions in a row, a gap, one more: the picture of the first has 64 cells of two. */
	for (; n < 128; n++)
		regions[n] =
			(struct dataplane_region){ .pid = 7, .addr = BASE + n * REGION, .nodes = 1, .rate_per_sec = 1 };
	regions[n++] =
		(struct dataplane_region){ .pid = 7, .addr = BASE + 4096 * REGION, .nodes = 2, .rate_per_sec = 500 };
	doc = make(regions, n, 7, -1);
	rows = json_object_get(doc, "rows");
	CU_ASSERT_EQUAL(json_array_size(rows), 2);
	CU_ASSERT_EQUAL(json_array_size(json_object_get(json_array_get(rows, 0), "cells")), HEAT_CELLS);
	CU_ASSERT_EQUAL(at(doc, 0, 0, 0), 2);
	CU_ASSERT_EQUAL(at(doc, 0, 63, 0), 2);
	CU_ASSERT_EQUAL(at(doc, 1, 0, 1), 1);
	CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(json_array_get(rows, 0), "to")), "0x7f0010000000");
	json_decref(doc);
	/* Node 1 alone. */
	doc = make(regions, n, 7, 1);
	CU_ASSERT_EQUAL(json_integer_value(json_object_get(doc, "regions")), 1);
	json_decref(doc);
}

static void nothing_known_is_a_document_too(void)
{
	struct dataplane_region none[1];
	json_t *doc = make(none, 0, 0, -1);

	CU_ASSERT_EQUAL(json_array_size(json_object_get(doc, "rows")), 0);
	json_decref(doc);
}

static void many_of_everything_stay_bounded(void)
{
	size_t n = 20000;
	struct dataplane_region *regions = calloc(n, sizeof(*regions));
	json_t *doc;

	for (size_t i = 0; i < n; i++)
		regions[i] = (struct dataplane_region){ .pid = (uint32_t)i + 1,
							.owner_slot = (uint32_t)i,
							.addr = UINT64_C(1) << 56,
							.nodes = UINT64_MAX,
							.rate_per_sec = (double)i,
							.decision = UINT32_MAX };
	doc = make(regions, n, 0, 1000);
	CU_ASSERT_EQUAL(json_array_size(json_object_get(doc, "rows")), HEAT_ROWS);
	CU_ASSERT_EQUAL(json_array_size(json_object_get(doc, "hottest")), HEAT_LIST);
	json_decref(doc);
	free(regions);
}

TEST_MAIN(daemon_heat, TEST(each_process_is_a_row), TEST(one_process_is_cut_by_address),
	  TEST(nothing_known_is_a_document_too), TEST(many_of_everything_stay_bounded))
