/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "metrics.h"
#include "stats.h"

static void counters_are_named_by_rule(void)
{
	static const struct {
		const char *name, *unit, *expected;
	} cases[] = {
		{ "lost", "records", "pghotd_lost_records" },
		{ "promoted_bytes", "bytes", "pghotd_promoted_bytes" },
		{ "total", "samples", "pghotd_samples" },
		{ "move_ns", "ns", "pghotd_move_seconds" },
		{ "busy", "ns", "pghotd_busy_seconds" },
		{ "pghot_reported_hwhints", "samples", "pghotd_reported_hwhints_samples" },
		{ "pgpromote_candidate", "pages", "pghotd_pgpromote_candidate_pages" },
	};
	char buf[METRICS_NAME_MAX];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		CU_ASSERT_STRING_EQUAL(metrics_counter_name(buf, cases[i].name, cases[i].unit), cases[i].expected);
}

static void no_two_counters_share_a_name(void)
{
	char a[METRICS_NAME_MAX], b[METRICS_NAME_MAX];

	for (int i = 0; i < STAT_MAX; i++)
		for (int j = 0; j < i; j++)
			CU_ASSERT(strcmp(metrics_counter_name(a, stat_info[i].name, stat_info[i].unit),
					 metrics_counter_name(b, stat_info[j].name, stat_info[j].unit)) != 0);
}

/* The text; *@ret_r is what was returned. */
static char *print(const char *json, enum metrics_format format, int *ret_r)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	*ret_r = metrics_print(out, json, format);
	fclose(out);
	return text;
}

static void labels_are_escaped(void)
{
	char *text;
	int r;

	text = print("{\"state\": \"promoting\", \"version\": \"a\\\"b\\\\c\\nd\"}", METRICS_OPENMETRICS, &r);
	CU_ASSERT_EQUAL(r, 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "pghotd_build_info{version=\"a\\\"b\\\\c\\nd\"} 1\n"));
	free(text);
}

static void what_is_not_known_is_left_out(void)
{
	char *text;
	int r;

	text = print("{\"state\": \"promoting\", \"counters\": {\"move_ns\": 1500000001}}", METRICS_OPENMETRICS, &r);
	CU_ASSERT_EQUAL(r, 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "\npghotd_move_seconds_total 1.500000001\n"));
	CU_ASSERT_PTR_NULL(strstr(text, "pghotd_lost_records"));
	CU_ASSERT_PTR_NULL(strstr(text, "\npghotd_policy_known_ratio "));
	free(text);
	text = print("{\"state\": \"paused\", \"pause\": {\"left_ns\": 1500000000}}", METRICS_OPENMETRICS, &r);
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "\npghotd_pause_left_seconds 1.500000000\n"));
	free(text);
	text = print("{\"state\": \"paused\", \"pause\": {\"left_ns\": null}}", METRICS_OPENMETRICS, &r);
	CU_ASSERT_PTR_NULL(strstr(text, "\npghotd_pause_left_seconds "));
	free(text);
}

static void no_document_is_no_metrics(void)
{
	static const char *const bad[] = { "", "[1, 2]", "{}", "{\"state\": 1}", "{\"state\"" };
	char *text;
	int r;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		text = print(bad[i], METRICS_OPENMETRICS, &r);
		CU_ASSERT_EQUAL(r, -EINVAL);
		CU_ASSERT_STRING_EQUAL(text, "");
		free(text);
	}
	text = print(NULL, METRICS_PROMETHEUS, &r);
	CU_ASSERT_EQUAL(r, 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "\npghotd_up 0\n"));
	CU_ASSERT_PTR_NULL(strstr(text, "pghotd_state"));
	free(text);
}

TEST_MAIN(metrics, TEST(counters_are_named_by_rule), TEST(no_two_counters_share_a_name), TEST(labels_are_escaped),
	  TEST(what_is_not_known_is_left_out), TEST(no_document_is_no_metrics))
