/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <limits.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "parse.h"

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

int parse_u64(const char *text, uint64_t min, uint64_t max, uint64_t *ret)
{
	uint64_t v = 0;
	bool over = false;

	if (!*text)
		return -EINVAL;
	/* To the end even after an overflow: "99999999999999999999x" is no number rather than one that is too large. */
	for (; *text; text++) {
		if (!is_digit(*text))
			return -EINVAL;
		if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, (uint64_t)(*text - '0'), &v))
			over = true;
	}
	if (over || v < min || v > max)
		return -ERANGE;
	*ret = v;
	return 0;
}

int parse_i64(const char *text, int64_t min, int64_t max, int64_t *ret)
{
	bool negative = *text == '-';
	uint64_t magnitude;
	int64_t v;
	int r;

	r = parse_u64(text + negative, 0, negative ? (uint64_t)INT64_MAX + 1 : INT64_MAX, &magnitude);
	if (r < 0)
		return r;
	v = negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
	if (v < min || v > max)
		return -ERANGE;
	*ret = v;
	return 0;
}

int parse_double(const char *text, double min, double max, double *ret)
{
	const char *p = text + (*text == '-');
	locale_t c_locale;
	double v;

	if (!is_digit(*p))
		return -EINVAL;
	while (is_digit(*p))
		p++;
	if (*p == '.') {
		p++;
		if (!is_digit(*p))
			return -EINVAL;
		while (is_digit(*p))
			p++;
	}
	if (*p)
		return -EINVAL;
	/* strtod() alone wants the decimal comma where the locale has one. */
	c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
	if (!c_locale)
		return -ENOMEM;
	v = strtod_l(text, NULL, c_locale);
	freelocale(c_locale);
	if (!isfinite(v) || !(v >= min && v <= max))
		return -ERANGE;
	*ret = v + 0.0; /* -0 becomes 0 */
	return 0;
}

int parse_bool(const char *text, bool *ret)
{
	if (strcmp(text, "true") == 0)
		*ret = true;
	else if (strcmp(text, "false") == 0)
		*ret = false;
	else
		return -EINVAL;
	return 0;
}

int parse_duration_ns(const char *text, uint64_t min_ns, uint64_t max_ns, uint64_t *ret)
{
	static const struct {
		char letter;
		uint64_t seconds;
	} units[] = { { 's', 1 }, { 'm', 60 }, { 'h', 3600 }, { 'd', 86400 } };
	size_t digits = strspn(text, "0123456789");
	char number[24];
	uint64_t n;
	int r;

	if (digits == 0 || !text[digits] || text[digits + 1])
		return -EINVAL;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (units[i].letter != text[digits])
			continue;
		if (digits >= sizeof(number))
			return -ERANGE;
		memcpy(number, text, digits);
		number[digits] = '\0';
		r = parse_u64(number, 0, UINT64_MAX, &n);
		if (r < 0)
			return r;
		if (__builtin_mul_overflow(n, units[i].seconds * 1000000000, &n) || n < min_ns || n > max_ns)
			return -ERANGE;
		*ret = n;
		return 0;
	}
	return -EINVAL;
}

static unsigned int min3(unsigned int a, unsigned int b, unsigned int c)
{
	unsigned int ab = a < b ? a : b;

	return ab < c ? ab : c;
}

/* Optimal string alignment. */
unsigned int parse_distance(const char *a, const char *b)
{
	unsigned int rows[3][PARSE_DISTANCE_MAX + 1];
	size_t len_a = strlen(a), len_b = strlen(b);

	if (len_a > PARSE_DISTANCE_MAX || len_b > PARSE_DISTANCE_MAX)
		return UINT_MAX;
	for (size_t j = 0; j <= len_b; j++)
		rows[0][j] = (unsigned int)j;
	for (size_t i = 1; i <= len_a; i++) {
		unsigned int *now = rows[i % 3], *before = rows[(i + 2) % 3], *before2 = rows[(i + 1) % 3];

		now[0] = (unsigned int)i;
		for (size_t j = 1; j <= len_b; j++) {
			now[j] = min3(before[j] + 1, now[j - 1] + 1, before[j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
			    before2[j - 2] + 1 < now[j])
				now[j] = before2[j - 2] + 1;
		}
	}
	return rows[len_a % 3][len_b];
}
