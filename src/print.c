/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <assert.h>
#include <string.h>

#include "clock.h"
#include "print.h"

const char *print_bytes(char buf[PRINT_SHORT_MAX], uint64_t bytes)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	uint64_t scale = 1;
	unsigned int unit = 0;

	while (bytes / scale >= 1024) {
		scale *= 1024;
		unit++;
	}
	/* One digit behind the point where there is room for it, rounded down: no room is shown that isn't there. */
	if (unit > 0 && bytes / scale < 100)
		snprintf(buf, PRINT_SHORT_MAX, "%llu.%llu %s", (unsigned long long)(bytes / scale),
			 (unsigned long long)(bytes % scale / (scale / 1024) * 10 / 1024), units[unit]);
	else
		snprintf(buf, PRINT_SHORT_MAX, "%llu %s", (unsigned long long)(bytes / scale), units[unit]);
	return buf;
}

const char *print_count(char buf[PRINT_SHORT_MAX], uint64_t n)
{
	char digits[PRINT_SHORT_MAX];
	int len = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)n);
	char *p = buf;

	for (int i = 0; i < len; i++) {
		if (i > 0 && (len - i) % 3 == 0)
			*p++ = ',';
		*p++ = digits[i];
	}
	*p = '\0';
	return buf;
}

const char *print_duration(char buf[PRINT_SHORT_MAX], uint64_t ns)
{
	static const struct {
		uint64_t seconds;
		const char *name;
	} units[] = { { 86400, "day" }, { 3600, "hour" }, { 60, "minute" }, { 1, "second" } };
	uint64_t seconds = ns / NSEC_PER_SEC;

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		uint64_t n = seconds / units[i].seconds;

		/* "90 minutes" tells more than "1 hour". */
		if (n < 2 && units[i].seconds > 1)
			continue;
		snprintf(buf, PRINT_SHORT_MAX, "%llu %s%s", (unsigned long long)n, units[i].name, n == 1 ? "" : "s");
		break;
	}
	return buf;
}

const char *print_bar(char buf[PRINT_SHORT_MAX * 3], unsigned int columns, uint64_t part, uint64_t whole)
{
	unsigned int inside = columns - 2, filled;

	assert(columns >= 3 && columns <= 64);
	if (part > whole)
		part = whole;
	/* Something shows as something, and only all as all. */
	filled = whole ? (unsigned int)((double)part / (double)whole * inside) : 0;
	if (filled == 0 && part > 0)
		filled = 1;
	if (filled >= inside && part < whole)
		filled = inside - 1;
	buf[0] = '[';
	memset(buf + 1, '#', filled);
	memset(buf + 1 + filled, '.', inside - filled);
	memcpy(buf + 1 + inside, "]", 2);
	return buf;
}

void print_plain(char *text)
{
	for (unsigned char *p = (unsigned char *)text; *p; p++)
		if (*p < 0x20 || *p > 0x7e)
			*p = '?';
}

void print_coloured(FILE *out, bool on, enum print_colour colour, const char *text)
{
	static const char *const escapes[] = {
		[PRINT_NORMAL] = "",         [PRINT_BOLD] = "\x1b[1m",   [PRINT_GOOD] = "\x1b[1;32m",
		[PRINT_WARN] = "\x1b[1;33m", [PRINT_BAD] = "\x1b[1;31m",
	};

	if (on && colour != PRINT_NORMAL)
		fprintf(out, "%s%s\x1b[0m", escapes[colour], text);
	else
		fputs(text, out);
}

/* How many bytes of @text go on a line of @width columns. */
static size_t line_bytes(const char *text, size_t width)
{
	size_t n = strlen(text);

	if (n <= width)
		return n;
	for (n = width; n > 0 && text[n] != ' '; n--)
		;
	return n ? n : width;
}

unsigned int print_wrapped(FILE *out, unsigned int column, unsigned int indent, unsigned int rows, const char *text)
{
	return print_wrapped_at(out, PRINT_COLUMNS, column, indent, rows, text);
}

unsigned int print_wrapped_at(FILE *out, unsigned int columns, unsigned int column, unsigned int indent,
			      unsigned int rows, const char *text)
{
	unsigned int row = 0;

	assert(columns >= PRINT_COLUMNS_MIN && column + 8 <= columns && indent + 8 <= columns && rows > 0);
	do {
		size_t width = columns - (row ? indent : column), n;

		text += strspn(text, " ");
		n = line_bytes(text, width);
		if (row)
			fprintf(out, "%*s", (int)indent, "");
		if (row + 1 == rows && text[n]) {
			n = line_bytes(text, width - 2);
			/* strlen(text) > width, so that there is a cut to mark. */
			fprintf(out, "%.*s..\n", (int)n, text);
			return row + 1;
		}
		fprintf(out, "%.*s\n", (int)n, text);
		text += n;
		row++;
	} while (text[strspn(text, " ")]);
	return row;
}
