/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The screens of explain, heat and top: golden ones are in tests/cli; here what documents can do to them. */
#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "harness.h"
#include "manage.h"
#include "print.h"
#include "print_explain.h"
#include "print_heat.h"
#include "print_top.h"

static const struct print_heat_style plain = { .colour = false, .utf8 = false };

/* What @print writes of @json; *@ret_r is what it returned. */
static char *explain(const char *json, int *ret_r)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	*ret_r = print_explain(out, json, false);
	fclose(out);
	return text;
}

static char *heat(const char *json, bool svg, int *ret_r)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	*ret_r = svg ? print_heat_svg(out, json) : print_heat(out, json, &plain);
	fclose(out);
	return text;
}

static bool is_narrow(const char *text)
{
	for (size_t n; *text; text += n + (text[n] == '\n')) {
		n = strcspn(text, "\n");
		if (n > PRINT_COLUMNS)
			return false;
	}
	return true;
}

static void every_reason_to_leave_memory_has_words(void)
{
	char json[256];

	for (int reason = 0; reason < LEFT_MAX; reason++) {
		char *text;
		int r;

		snprintf(json, sizeof(json),
			 "{\"verdict\": \"leave\", \"left\": \"%s\", \"rule\": -1, \"name\": \"x\"}",
			 manage_reason_name[reason]);
		text = explain(json, &r);
		CU_ASSERT_EQUAL(r, 0);
		/* One that is not in the table is shown as it is, and without what would change it. */
		if (!strstr(text, "\nTo change   "))
			printf("  no words for %s\n", manage_reason_name[reason]);
		CU_ASSERT_PTR_NOT_NULL(strstr(text, "\nTo change   "));
		CU_ASSERT(is_narrow(text));
		free(text);
	}
}

static void every_reason_of_the_policy_has_words(void)
{
	static const char *const reasons[] = { "hot",    "one_epoch", "uncertain", "background",
					       "cooler", "faults",    "giant",     "stale" };
	char json[256];

	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
		char *text;
		int r;

		snprintf(json, sizeof(json),
			 "{\"verdict\": \"move\", \"policy\": \"region\", \"region\": {\"reason\": \"%s\"}}",
			 reasons[i]);
		text = explain(json, &r);
		CU_ASSERT_EQUAL(r, 0);
		CU_ASSERT_PTR_NOT_NULL(strstr(text, "\nWhy         "));
		CU_ASSERT(is_narrow(text));
		free(text);
	}
}

static void other_documents_are_refused(void)
{
	static const char *const bad[] = {
		"", "[]", "{}", "{\"verdict\": 7}", "{\"rows\": 1, \"node\": 2}", "{\"rows\": []}", "nonsense"
	};
	char *text;
	int r;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		text = explain(bad[i], &r);
		CU_ASSERT_EQUAL(r, -EINVAL);
		CU_ASSERT_STRING_EQUAL(text, "");
		free(text);
		for (int svg = 0; svg < 2; svg++) {
			text = heat(bad[i], svg, &r);
			CU_ASSERT_EQUAL(r, -EINVAL);
			CU_ASSERT_STRING_EQUAL(text, "");
			free(text);
		}
	}
}

/* Names and numbers as another version, or whoever sits on the socket, might send them. */
static void a_map_of_anything_stays_a_map(void)
{
	json_t *rows = json_array(), *doc, *cells = json_array();
	char *json, *text;
	int r;

	for (int i = 0; i < 500; i++)
		json_array_append_new(cells,
				      json_pack("[I, I, I]", (json_int_t)(i % 3 ? INT64_MAX : -1),
						(json_int_t)INT64_MAX, (json_int_t)(i % 5 ? INT64_MAX : INT64_MIN)));
	json_array_append_new(cells, json_string("no cell"));
	for (int i = 0; i < 100; i++)
		json_array_append_new(rows, json_pack("{s:I, s:s, s:s, s:O}", "pid", (json_int_t)INT64_MAX, "name",
						      "<a href=\"x\">&\x1b[2J a very long name indeed", "from",
						      i % 2 ? "0x7f0000000000" : "", "cells", cells));
	json_array_append_new(rows, json_integer(3));
	doc = json_pack("{s:o, s:I}", "rows", rows, "node", (json_int_t)INT64_MIN);
	json = json_dumps(doc, 0);
	text = heat(json, false, &r);
	CU_ASSERT_EQUAL(r, 0);
	CU_ASSERT(is_narrow(text));
	CU_ASSERT_PTR_NULL(strchr(text, '\x1b'));
	free(text);
	text = heat(json, true, &r);
	CU_ASSERT_EQUAL(r, 0);
	CU_ASSERT_PTR_NULL(strstr(text, "<a href"));
	free(text);
	free(json);
	json_decref(cells);
	json_decref(doc);
}

static const char *group_of(void *ctx, unsigned long long pid)
{
	(void)ctx;
	return pid % 2 ? "/odd" : "/even";
}

static void top_is_sorted_and_summed(void)
{
	json_t *before =
		json_loads("{\"processes\": [{\"pid\": 1, \"hot_bytes\": 100}, {\"pid\": 2, \"hot_bytes\": 50}]}", 0,
			   NULL);
	json_t *after = json_loads("{\"processes\": [{\"pid\": 1, \"hot_bytes\": 100}, {\"pid\": 2, \"hot_bytes\": 90},"
				   "{\"pid\": 3, \"hot_bytes\": 7000}, {\"pid\": 5}]}",
				   0, NULL);
	json_t *rows = top_rows(before, after, 4, TOP_BY_PROCESS, NULL, NULL), *row;

	CU_ASSERT_EQUAL(json_array_size(rows), 4);
	row = json_array_get(rows, 0);
	CU_ASSERT_EQUAL(json_integer_value(json_object_get(row, "pid")), 2);
	CU_ASSERT_EQUAL(json_real_value(json_object_get(row, "hot_bytes_per_sec")), 10);
	/* One that was not there before has no rate yet: what it has may be old. */
	row = json_array_get(rows, 1);
	CU_ASSERT_EQUAL(json_integer_value(json_object_get(row, "pid")), 3);
	CU_ASSERT_EQUAL(json_real_value(json_object_get(row, "hot_bytes_per_sec")), 0);
	json_decref(rows);
	rows = top_rows(before, after, 4, TOP_BY_CGROUP, group_of, NULL);
	CU_ASSERT_EQUAL(json_array_size(rows), 2);
	row = json_array_get(rows, 1);
	CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(row, "cgroup")), "/odd");
	CU_ASSERT_EQUAL(json_integer_value(json_object_get(row, "processes")), 3);
	CU_ASSERT_EQUAL(json_integer_value(json_object_get(row, "hot_bytes")), 7100);
	json_decref(rows);
	CU_ASSERT_PTR_NULL(top_rows(before, json_object_get(after, "x"), 4, TOP_BY_PROCESS, NULL, NULL));
	json_decref(before);
	json_decref(after);
}

/* The rows' numbers in this order: "312". */
static bool has_order(const json_t *rows, const char *order)
{
	const json_t *row;
	size_t i;

	json_array_foreach (rows, i, row)
		if (json_integer_value(json_object_get(row, "pid")) != order[i] - '0')
			return false;
	return i == strlen(order);
}

static void sorting_by_a_column_keeps_what_is_equal_in_order(void)
{
	json_t *rows =
		json_loads("[{\"pid\": 1, \"rate_per_sec\": 2.5, \"far\": false, \"address\": \"0x7f0000000000\"},"
			   " {\"pid\": 2, \"rate_per_sec\": 7, \"far\": true, \"address\": \"0xffff\", \"name\": "
			   "\"b\"},"
			   " {\"pid\": 3, \"rate_per_sec\": 2.5, \"far\": true, \"address\": \"\", \"name\": \"a\"}]",
			   0, NULL);

	CU_ASSERT_EQUAL(top_columns(TOP_BY_PROCESS), 6);
	CU_ASSERT_EQUAL(top_columns(TOP_BY_REGION), 7);
	CU_ASSERT_STRING_EQUAL(top_column(TOP_BY_REGION, TOP_COLUMN_FIRST), "SAMPLES/s");
	top_sort(rows, TOP_BY_REGION, 0, false);
	CU_ASSERT(has_order(rows, "321"));
	top_sort(rows, TOP_BY_REGION, TOP_COLUMN_FIRST, false);
	CU_ASSERT(has_order(rows, "231"));
	top_sort(rows, TOP_BY_REGION, TOP_COLUMN_FIRST, true);
	CU_ASSERT(has_order(rows, "312"));
	/* The slow tier first. */
	top_sort(rows, TOP_BY_REGION, 3, false);
	CU_ASSERT(has_order(rows, "321"));
	/* None, then as numbers. */
	top_sort(rows, TOP_BY_REGION, 5, false);
	CU_ASSERT(has_order(rows, "321"));
	top_sort(rows, TOP_BY_REGION, 5, true);
	CU_ASSERT(has_order(rows, "123"));
	/* Fields that are missing are no reason to fall over. */
	top_sort(rows, TOP_BY_CGROUP, 5, false);
	CU_ASSERT(has_order(rows, "123"));
	json_decref(rows);
}

TEST_MAIN(print_look, TEST(every_reason_to_leave_memory_has_words), TEST(every_reason_of_the_policy_has_words),
	  TEST(other_documents_are_refused), TEST(a_map_of_anything_stays_a_map), TEST(top_is_sorted_and_summed),
	  TEST(sorting_by_a_column_keeps_what_is_equal_in_order))
