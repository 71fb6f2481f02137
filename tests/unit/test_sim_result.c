/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "sim_result.h"

static struct sim_point series[3] = {
	{ .t = 1, .coverage = 0.25, .decided = 0.5, .hit_ratio = 0.125, .moved_bytes = 4096 },
	{ .t = 2, .coverage = 0.5, .decided = 0.75, .hit_ratio = 0.25, .moved_bytes = 8192 },
	{ .t = 3, .coverage = 1, .decided = 1, .over_promotion = 1.5, .hit_ratio = 1, .moved_bytes = 1ULL << 40 },
};
static const struct sim_result result = {
	.scenario = "made-up",
	.policy = "region",
	.seed = 7,
	.seconds = 240,
	.samples = 1000,
	.hot_bytes = 16ULL << 30,
	.user_seconds = 1.2,
	.time_to_50 = 2,
	.time_to_90 = 3,
	.time_to_99 = -1,
	.series = series,
	.n_series = 3,
	.parts = { { .name = "dense", .hot_bytes = 4096, .time_to_99 = 3, .time_to_99_decided = -1 },
		   { .name = "scattered", .hot_bytes = 8192, .time_to_99 = -1, .time_to_99_decided = 2 } },
	.n_parts = 2,
	.guards = { .ping_pong = 3 },
	.processes = { { .number = 1, .user = 1000, .sec = 240, .speed = 2e6 } },
	.n_processes = 1,
};

/* As JSON; NULL: it could not be written, and @ret_error says why. */
static char *as_json(int *ret_error)
{
	char *text = NULL;
	size_t size = 0;
	FILE *to = open_memstream(&text, &size);

	*ret_error = sim_result_write_json(&result, to);
	fclose(to);
	if (*ret_error == 0)
		return text;
	free(text);
	return NULL;
}

static void json_has_all_of_it(void)
{
	json_t *doc, *list, *part;
	char *text;
	int error;

	text = as_json(&error);
	doc = json_loads(text ? text : "", 0, NULL);
	CU_ASSERT_EQUAL(json_object_size(doc), 29);
	list = json_object_get(doc, "series");
	CU_ASSERT_EQUAL(json_array_size(list), 3);
	CU_ASSERT_EQUAL(json_integer_value(json_object_get(json_array_get(list, 2), "moved_bytes")), 1LL << 40);
	CU_ASSERT_DOUBLE_EQUAL(json_real_value(json_object_get(json_array_get(list, 2), "over_promotion")), 1.5, 1e-9);
	list = json_object_get(doc, "parts");
	CU_ASSERT_EQUAL(json_array_size(list), 2);
	part = json_array_get(list, 1);
	CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(part, "name")), "scattered");
	CU_ASSERT(json_is_null(json_object_get(part, "time_to_99")));
	CU_ASSERT_DOUBLE_EQUAL(json_real_value(json_object_get(part, "time_to_99_decided")), 2, 1e-9);
	CU_ASSERT(json_is_null(json_object_get(doc, "time_to_99")));
	part = json_object_get(doc, "guards");
	CU_ASSERT_EQUAL(json_object_size(part), 5);
	CU_ASSERT_EQUAL(json_integer_value(json_object_get(part, "ping_pong")), 3);
	CU_ASSERT_EQUAL(json_integer_value(json_object_get(part, "process")), 0);
	list = json_object_get(doc, "processes");
	CU_ASSERT_EQUAL(json_array_size(list), 1);
	part = json_array_get(list, 0);
	CU_ASSERT_EQUAL(json_integer_value(json_object_get(part, "user")), 1000);
	CU_ASSERT_DOUBLE_EQUAL(json_real_value(json_object_get(part, "speed")), 2e6, 1e-3);
	json_decref(doc);
	free(text);
}

static int allocations_left;

/* One fails, and later ones don't: else writing the document would fail in any case. */
static void *failing_malloc(size_t size)
{
	return allocations_left-- == 0 ? NULL : malloc(size);
}

/* Whichever allocation fails, nothing that looks like a result and lacks something is said to be written. */
static void half_a_result_is_none(void)
{
	unsigned int refused = 0;
	char *whole, *text;
	int n = 0, error;

	whole = as_json(&error);
	json_set_alloc_funcs(failing_malloc, free);
	do {
		allocations_left = n++;
		text = as_json(&error);
		refused += !text;
		CU_ASSERT(text ? strcmp(text, whole) == 0 : error == -ENOMEM || error == -EIO);
		free(text);
	} while (allocations_left < 0);
	json_set_alloc_funcs(malloc, free);
	CU_ASSERT(refused > 100);
	free(whole);
}

static void people_read_what_it_cost(void)
{
	char *text = NULL;
	size_t size = 0;
	FILE *to = open_memstream(&text, &size);

	sim_result_write_text(&result, to);
	fclose(to);
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "made-up, policy \"region\", seed 7: 240 s, 1000 samples"));
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "1.20 s of CPU for the daemon's own code, 0.50% of a core (1% is 2.40 s)"));
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "99% never"));
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "holdout 0, ping-pong 3, a process 0"));
	free(text);
}

TEST_MAIN(sim_result, TEST(json_has_all_of_it), TEST(half_a_result_is_none), TEST(people_read_what_it_cost))
