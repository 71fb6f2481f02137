/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <locale.h>
#include <string.h>

#include "harness.h"
#include "parse.h"

static void u64_takes_the_whole_text(void)
{
	static const struct {
		const char *text;
		int r;
		uint64_t v;
	} cases[] = {
		{ "0", 0, 0 },
		{ "7", 0, 7 },
		{ "010", 0, 10 },
		{ "18446744073709551615", 0, UINT64_MAX },
		{ "00000000000000000000000000000018446744073709551615", 0, UINT64_MAX },
		{ "18446744073709551616", -ERANGE, 0 },
		{ "99999999999999999999999", -ERANGE, 0 },
		{ "99999999999999999999999x", -EINVAL, 0 },
		{ "", -EINVAL, 0 },
		{ " 1", -EINVAL, 0 },
		{ "1 ", -EINVAL, 0 },
		{ "1\n", -EINVAL, 0 },
		{ "+1", -EINVAL, 0 },
		{ "-1", -EINVAL, 0 },
		{ "0x10", -EINVAL, 0 },
		{ "1e3", -EINVAL, 0 },
		{ "1.0", -EINVAL, 0 },
		{ "\xd9\xa1", -EINVAL, 0 }, /* an Arabic one */
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t v = 42;

		CU_ASSERT_EQUAL(parse_u64(cases[i].text, 0, UINT64_MAX, &v), cases[i].r);
		CU_ASSERT_EQUAL(v, cases[i].r < 0 ? 42 : cases[i].v);
	}
}

static void u64_keeps_to_the_range(void)
{
	uint64_t v = 42;

	CU_ASSERT_EQUAL(parse_u64("4", 5, 9, &v), -ERANGE);
	CU_ASSERT_EQUAL(parse_u64("10", 5, 9, &v), -ERANGE);
	CU_ASSERT_EQUAL(v, 42);
	CU_ASSERT_EQUAL(parse_u64("5", 5, 9, &v), 0);
	CU_ASSERT_EQUAL(v, 5);
	CU_ASSERT_EQUAL(parse_u64("9", 5, 9, &v), 0);
	CU_ASSERT_EQUAL(v, 9);
}

static void i64_at_its_edges(void)
{
	static const struct {
		const char *text;
		int r;
		int64_t v;
	} cases[] = {
		{ "-1", 0, -1 },
		{ "-0", 0, 0 },
		{ "9223372036854775807", 0, INT64_MAX },
		{ "9223372036854775808", -ERANGE, 0 },
		{ "-9223372036854775808", 0, INT64_MIN },
		{ "-9223372036854775809", -ERANGE, 0 },
		{ "--1", -EINVAL, 0 },
		{ "-", -EINVAL, 0 },
		{ "- 1", -EINVAL, 0 },
		{ "", -EINVAL, 0 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int64_t v = 42;

		CU_ASSERT_EQUAL(parse_i64(cases[i].text, INT64_MIN, INT64_MAX, &v), cases[i].r);
		CU_ASSERT_EQUAL(v, cases[i].r < 0 ? 42 : cases[i].v);
	}

	int64_t v;

	CU_ASSERT_EQUAL(parse_i64("-2", -1, 1023, &v), -ERANGE);
	CU_ASSERT_EQUAL(parse_i64("1024", -1, 1023, &v), -ERANGE);
	CU_ASSERT_EQUAL(parse_i64("-1", -1, 1023, &v), 0);
	CU_ASSERT_EQUAL(v, -1);
}

/* Every number of up to 20 digits reads as what was printed. */
static void integers_round_trip(void)
{
	uint64_t x = 88172645463325252ULL;

	for (int i = 0; i < 20000; i++) {
		char text[32];
		uint64_t u;
		int64_t s;

		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;

		uint64_t want = x >> (i % 64);

		snprintf(text, sizeof(text), "%" PRIu64, want);
		if (parse_u64(text, 0, UINT64_MAX, &u) != 0 || u != want)
			CU_FAIL("u64");
		snprintf(text, sizeof(text), "%" PRId64, (int64_t)want);
		if (parse_i64(text, INT64_MIN, INT64_MAX, &s) != 0 || s != (int64_t)want)
			CU_FAIL("i64");
	}
}

static void double_is_a_decimal_fraction(void)
{
	static const char *const bad[] = { "",  ".",  ".5", "5.", "1e2", "1e-2",  "0x1p3", "inf",  "nan",
					   "-", "+1", " 1", "1 ", "1,5", "1.2.3", "--1",   "1.-2", "infinity" };
	double v = 42;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CU_ASSERT_EQUAL(parse_double(bad[i], -1e300, 1e300, &v), -EINVAL);
	CU_ASSERT_EQUAL(v, 42);
	CU_ASSERT_EQUAL(parse_double("3", 0, 50, &v), 0);
	CU_ASSERT_EQUAL(v, 3.0);
	CU_ASSERT_EQUAL(parse_double("0.1", 0, 50, &v), 0);
	CU_ASSERT_EQUAL(v, 0.1);
	CU_ASSERT_EQUAL(parse_double("-2.5", -3, 50, &v), 0);
	CU_ASSERT_EQUAL(v, -2.5);
	CU_ASSERT_EQUAL(parse_double("0012.50", 0, 50, &v), 0);
	CU_ASSERT_EQUAL(v, 12.5);
	CU_ASSERT_EQUAL(parse_double("50.0000001", 0, 50, &v), -ERANGE);
	CU_ASSERT_EQUAL(parse_double("-0.0000001", 0, 50, &v), -ERANGE);
	CU_ASSERT_EQUAL(v, 12.5);
	CU_ASSERT_EQUAL(parse_double("-0", 0, 50, &v), 0);
	CU_ASSERT_EQUAL(1 / v > 0, true); /* no negative zero */
}

static void double_stays_finite(void)
{
	char text[401];
	double v = 42;

	memset(text, '9', 400);
	text[400] = '\0';
	CU_ASSERT_EQUAL(parse_double(text, -__DBL_MAX__, __DBL_MAX__, &v), -ERANGE);
	CU_ASSERT_EQUAL(v, 42);
}

static void double_ignores_the_locale(void)
{
	static const char *const with_comma[] = { "de_DE.UTF-8", "fr_FR.UTF-8", "nl_NL.UTF-8" };
	const char *got = NULL;
	double v = 42;

	for (size_t i = 0; !got && i < sizeof(with_comma) / sizeof(with_comma[0]); i++)
		got = setlocale(LC_NUMERIC, with_comma[i]);
	if (!got) {
		test_skip("no locale with a decimal comma is installed");
		return;
	}
	CU_ASSERT_EQUAL(parse_double("1.5", 0, 50, &v), 0);
	CU_ASSERT_EQUAL(v, 1.5);
	setlocale(LC_NUMERIC, "C");
}

static void bool_is_two_words(void)
{
	static const char *const bad[] = { "", "1", "yes", "True", "TRUE", "true ", "tru", "on" };
	bool v = true;

	CU_ASSERT_EQUAL(parse_bool("false", &v), 0);
	CU_ASSERT_EQUAL(v, false);
	CU_ASSERT_EQUAL(parse_bool("true", &v), 0);
	CU_ASSERT_EQUAL(v, true);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CU_ASSERT_EQUAL(parse_bool(bad[i], &v), -EINVAL);
	CU_ASSERT_EQUAL(v, true);
}

static void duration_has_a_unit(void)
{
	static const char *const bad[] = { "", "10", "m", "10 m", "10mm", "10min", "-1s", "1.5h", "1m30s", " 1s" };
	uint64_t v = 7;

	CU_ASSERT_EQUAL(parse_duration_ns("90s", 0, UINT64_MAX, &v), 0);
	CU_ASSERT_EQUAL(v, 90000000000);
	CU_ASSERT_EQUAL(parse_duration_ns("10m", 0, UINT64_MAX, &v), 0);
	CU_ASSERT_EQUAL(v, 600000000000);
	CU_ASSERT_EQUAL(parse_duration_ns("2h", 0, UINT64_MAX, &v), 0);
	CU_ASSERT_EQUAL(v, 7200000000000);
	CU_ASSERT_EQUAL(parse_duration_ns("1d", 86400000000000, 86400000000000, &v), 0);
	CU_ASSERT_EQUAL(v, 86400000000000);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CU_ASSERT_EQUAL(parse_duration_ns(bad[i], 0, UINT64_MAX, &v), -EINVAL);
	CU_ASSERT_EQUAL(parse_duration_ns("0s", 1, UINT64_MAX, &v), -ERANGE);
	CU_ASSERT_EQUAL(parse_duration_ns("2s", 0, 1999999999, &v), -ERANGE);
	CU_ASSERT_EQUAL(parse_duration_ns("18446744073709551615d", 0, UINT64_MAX, &v), -ERANGE);
	CU_ASSERT_EQUAL(parse_duration_ns("99999999999999999999999999s", 0, UINT64_MAX, &v), -ERANGE);
	CU_ASSERT_EQUAL(v, 86400000000000);
}

static void distance_of_words(void)
{
	static const struct {
		const char *a, *b;
		unsigned int want;
	} words[] = {
		{ "", "", 0 },
		{ "", "abc", 3 },
		{ "status", "status", 0 },
		{ "stauts", "status", 1 }, /* swapped */
		{ "statu", "status", 1 },
		{ "sstatus", "status", 1 },
		{ "stotus", "status", 1 },
		{ "kitten", "sitting", 3 },
		{ "ca", "abc", 3 }, /* nothing is changed twice */
		{ "abc", "xyz", 3 },
	};
	char longest[PARSE_DISTANCE_MAX + 2];

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		CU_ASSERT_EQUAL(parse_distance(words[i].a, words[i].b), words[i].want);
		CU_ASSERT_EQUAL(parse_distance(words[i].b, words[i].a), words[i].want);
	}
	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	CU_ASSERT_EQUAL(parse_distance(longest, "x"), UINT_MAX);
	CU_ASSERT_EQUAL(parse_distance("x", longest), UINT_MAX);
	CU_ASSERT_EQUAL(parse_distance(longest + 1, ""), PARSE_DISTANCE_MAX);
	CU_ASSERT_EQUAL(parse_distance(longest + 1, longest + 1), 0);
}

TEST_MAIN(parse, TEST(distance_of_words), TEST(duration_has_a_unit), TEST(u64_takes_the_whole_text),
	  TEST(u64_keeps_to_the_range), TEST(i64_at_its_edges), TEST(integers_round_trip),
	  TEST(double_is_a_decimal_fraction), TEST(double_stays_finite), TEST(double_ignores_the_locale),
	  TEST(bool_is_two_words))
