/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * harness: what every unit test program shares. A program is one CUnit suite; it prints a line per case and closes with
 * "N passed, N failed, N skipped". Exit 0, 1, or 77 when every case was skipped (with its reason).
 *
 * No CU_*_FATAL: they jump past cleanup attributes. A case that can't go on returns.
 */
#pragma once

#include <CUnit/Basic.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct test_case {
	const char *name;
	void (*fn)(void);
};

static const char *test_skipped_why;

/* Say why and return from the case: `return test_skip("...")`. Counted apart, never as passed. */
__attribute__((unused)) static inline void test_skip(const char *why)
{
	test_skipped_why = why;
}

/*
 * Whether tests/check/run.py runs the program under valgrind, which puts its own malloc in the place of every other and
 * takes fifty times as long.
 */
__attribute__((unused)) static inline bool test_under_valgrind(void)
{
	const char *under = getenv("PGHOT_TEST_UNDER");

	return under && strcmp(under, "valgrind") == 0;
}

static int test_run(const char *suite_name, const struct test_case *cases, size_t n)
{
	unsigned int passed = 0, failed = 0, skipped = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (CU_initialize_registry() != CUE_SUCCESS)
		return 1;
	CU_pSuite suite = CU_add_suite(suite_name, NULL, NULL);

	CU_basic_set_mode(CU_BRM_SILENT);
	for (size_t i = 0; i < n; i++) {
		CU_pTest test = CU_add_test(suite, cases[i].name, cases[i].fn);

		test_skipped_why = NULL;
		CU_basic_run_test(suite, test);
		if (CU_get_number_of_failures() > 0) {
			failed++;
			printf("not ok %s: %s\n", suite_name, cases[i].name);
			for (CU_pFailureRecord f = CU_get_failure_list(); f; f = f->pNext)
				printf("  %s:%u: %s\n", f->strFileName, f->uiLineNumber, f->strCondition);
		} else if (test_skipped_why) {
			skipped++;
			printf("skip %s: %s (%s)\n", suite_name, cases[i].name, test_skipped_why);
		} else {
			passed++;
			printf("ok %s: %s\n", suite_name, cases[i].name);
		}
	}
	printf("%u passed, %u failed, %u skipped\n", passed, failed, skipped);
	CU_cleanup_registry();
	if (failed)
		return 1;
	return passed == 0 && skipped ? 77 : 0;
}

#define TEST_MAIN(suite, ...)                                                     \
	int main(void)                                                            \
	{                                                                         \
		static const struct test_case cases[] = { __VA_ARGS__ };          \
		return test_run(#suite, cases, sizeof(cases) / sizeof(cases[0])); \
	}
#define TEST(fn)        \
	{               \
#fn, fn \
	}
