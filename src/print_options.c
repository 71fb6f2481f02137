/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <string.h>

#include "doc.h"
#include "print.h"
#include "print_options.h"

#define VALUE_COLUMNS 8
#define RANGE_COLUMNS 15
#define TEXT_MAX      512

/* As a person types it. */
static void format_value(const json_t *value, char *buf, size_t size)
{
	if (json_is_integer(value))
		snprintf(buf, size, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
	else if (json_is_real(value))
		snprintf(buf, size, "%.10g", json_real_value(value));
	else if (json_is_boolean(value))
		snprintf(buf, size, "%s", json_is_true(value) ? "true" : "false");
	else
		snprintf(buf, size, "%s", json_string_value(value) ? json_string_value(value) : "");
	print_plain(buf);
}

static void format_range(const json_t *option, const char *between, char *buf, size_t size)
{
	const json_t *choices = json_object_get(option, "choices"), *choice;
	char least[64], most[64];
	size_t i, used = 0;

	buf[0] = '\0';
	if (json_object_get(option, "min")) {
		format_value(json_object_get(option, "min"), least, sizeof(least));
		format_value(json_object_get(option, "max"), most, sizeof(most));
		snprintf(buf, size, "%s%s%s", least, between, most);
	}
	json_array_foreach (choices, i, choice) {
		int n = snprintf(buf + used, size - used, "%s%s", i ? "|" : "", json_string_value(choice));

		if (n < 0 || (size_t)n >= size - used)
			break;
		used += (size_t)n;
	}
	if (strcmp(doc_text(option, "type"), "bool") == 0)
		snprintf(buf, size, "true|false");
	print_plain(buf);
}

/* The items of a list without what the file wants around them: a column is narrow. */
static void strip_list(char *buf)
{
	char *to = buf;

	for (const char *p = buf; *p; p++)
		if (!strchr("()\" ", *p))
			*to++ = *p;
	*to = '\0';
	if (to == buf)
		strcpy(buf, "( )");
}

/* What doesn't fit is marked: the full text is one "tune KEY" away. */
static void cut(char *buf, size_t columns)
{
	if (strlen(buf) > columns)
		strcpy(buf + columns - 2, "..");
}

static void put_row(FILE *out, const json_t *option, bool colour)
{
	char value[TEXT_MAX], was[TEXT_MAX], range[TEXT_MAX], padded[VALUE_COLUMNS + 1], from[VALUE_COLUMNS + 1];
	bool tuned = strcmp(doc_text(option, "origin"), "tuned") == 0;
	bool restart = strcmp(doc_text(option, "change"), "restart") == 0;

	format_value(json_object_get(option, "value"), value, sizeof(value));
	format_value(json_object_get(option, "default"), was, sizeof(was));
	format_range(option, "..", range, sizeof(range));
	if (strcmp(doc_text(option, "type"), "list") == 0) {
		strip_list(value);
		strip_list(was);
	}
	cut(value, VALUE_COLUMNS);
	cut(was, VALUE_COLUMNS);
	cut(range, RANGE_COLUMNS);
	snprintf(from, sizeof(from), "%.7s%s", doc_text(option, "origin"), restart ? "*" : "");
	snprintf(padded, sizeof(padded), "%-*.*s", VALUE_COLUMNS, VALUE_COLUMNS, value);
	fprintf(out, "%-26.26s ", doc_text(option, "key"));
	print_coloured(out, colour, tuned ? PRINT_BOLD : PRINT_NORMAL, padded);
	fprintf(out, " %-8s %-15s %-8.8s %s\n", was, range, doc_text(option, "unit"), from);
}

__attribute__((format(printf, 2, 3))) static void put_line(FILE *out, const char *fmt, ...)
{
	char line[TEXT_MAX * 2];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	print_plain(line);
	fputs("  ", out);
	print_wrapped(out, 2, 2, PRINT_ROWS, line);
}

static void put_one(FILE *out, const json_t *option, bool colour)
{
	char value[TEXT_MAX], was[TEXT_MAX], range[TEXT_MAX], line[TEXT_MAX * 3];
	const char *origin = doc_text(option, "origin"), *unit = doc_text(option, "unit");

	format_value(json_object_get(option, "value"), value, sizeof(value));
	format_value(json_object_get(option, "default"), was, sizeof(was));
	format_range(option, " to ", range, sizeof(range));
	print_coloured(out, colour, PRINT_BOLD, doc_text(option, "key"));
	fputs(" = ", out);
	snprintf(line, sizeof(line), "%s%s%s", *value ? value : "\"\"", *unit ? " " : "", unit);
	print_wrapped(out, (unsigned int)strlen(doc_text(option, "key")) + 3, 2, PRINT_ROWS, line);
	put_line(out, "%s", doc_text(option, "help"));
	if (*range)
		put_line(out, "range: %s", range);
	put_line(out, "default: %s", *was ? was : "\"\"");
	if (strcmp(origin, "tuned") == 0)
		put_line(out, "tuned: lasts until the next reload or restart");
	else if (strcmp(origin, "restart") == 0)
		put_line(out, "the configuration file has another value by now, for the next start");
	else
		put_line(out, "from the %s", strcmp(origin, "file") == 0 ? "configuration file" : "default");
	put_line(out, "a change takes effect %s",
		 strcmp(doc_text(option, "change"), "restart") == 0 ? "with the next start of pghotd" : "at once");
}

static int put_table(FILE *out, const json_t *options, const char *key, bool colour)
{
	const json_t *option;
	bool restart = false, waits = false;
	int shown = 0;
	size_t i;

	json_array_foreach (options, i, option) {
		if (key && !strstr(doc_text(option, "key"), key))
			continue;
		if (shown++ == 0)
			fprintf(out, "%-26s %-8s %-8s %-15s %-8s %s\n", "KEY", "VALUE", "DEFAULT", "RANGE", "UNIT",
				"FROM");
		put_row(out, option, colour);
		restart |= strcmp(doc_text(option, "change"), "restart") == 0;
		waits |= strcmp(doc_text(option, "origin"), "restart") == 0;
	}
	if (shown)
		fprintf(out, "\nSet one: pghotctl tune KEY=VALUE, until the next reload or restart.%s\n",
			restart ? "\n*: in the configuration file only, with a restart." : "");
	if (waits)
		fputs("restart*: the file has another value by now, for the next start.\n", out);
	return shown;
}

int print_options(FILE *out, const char *json, const char *key, bool colour)
{
	json_t *options = json_loads(json, 0, NULL);
	const json_t *option;
	int shown = 0;
	size_t i;

	if (!json_is_array(options)) {
		json_decref(options);
		return -EINVAL;
	}
	json_array_foreach (options, i, option) {
		if (!key || strcmp(doc_text(option, "key"), key) != 0)
			continue;
		put_one(out, option, colour);
		shown = 1;
		break;
	}
	if (!shown)
		shown = put_table(out, options, key, colour);
	json_decref(options);
	return shown;
}
