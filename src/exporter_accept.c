/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "exporter_accept.h"

#define BLANKS " \t"

/* A slice of the header, blanks around it left out. */
struct word {
	const char *at;
	size_t len;
};

static struct word trim(const char *at, size_t len)
{
	while (len && strchr(BLANKS, at[0]))
		at++, len--;
	while (len && strchr(BLANKS, at[len - 1]))
		len--;
	return (struct word){ at, len };
}

static bool is(struct word word, const char *text)
{
	return word.len == strlen(text) && strncasecmp(word.at, text, word.len) == 0;
}

/* The next piece of *@rest up to @end, which is passed over; false when nothing is left. */
static bool next(struct word *rest, char end, struct word *ret)
{
	const char *stop;
	size_t len;

	if (!rest->at)
		return false;
	stop = memchr(rest->at, end, rest->len);
	len = stop ? (size_t)(stop - rest->at) : rest->len;
	*ret = trim(rest->at, len);
	rest->at = stop ? stop + 1 : NULL;
	rest->len = stop ? rest->len - len - 1 : 0;
	return true;
}

/* "0.75" in thousandths, 0..1000; what is no such number counts as 1000, as a missing one does. */
static int thousandths(struct word word)
{
	int value = 0, scale = 100;

	if (word.len == 0 || (word.at[0] != '0' && word.at[0] != '1') || (word.len > 1 && word.at[1] != '.'))
		return 1000;
	value = word.at[0] == '1' ? 1000 : 0;
	for (size_t i = 2; i < word.len && scale; i++, scale /= 10) {
		if (word.at[i] < '0' || word.at[i] > '9')
			return 1000;
		value += (word.at[i] - '0') * scale;
	}
	return value < 1000 ? value : 1000;
}

enum metrics_format exporter_accept(const char *accept)
{
	struct word rest = { accept, accept ? strlen(accept) : 0 }, range, part, type;
	int open = 0, text = 0;

	while (next(&rest, ',', &range)) {
		int quality = 1000;
		bool known = true;

		if (!next(&range, ';', &type))
			continue;
		while (next(&range, ';', &part)) {
			struct word name, value = part;

			next(&value, '=', &name);
			value = value.at ? trim(value.at, value.len) : (struct word){ "", 0 };
			if (is(name, "q"))
				quality = thousandths(value);
			else if (is(name, "version") && is(type, "application/openmetrics-text"))
				known = is(value, "1.0.0") || is(value, "\"1.0.0\"");
		}
		if (is(type, "application/openmetrics-text") && known && quality > open)
			open = quality;
		else if ((is(type, "text/plain") || is(type, "text/*")) && quality > text)
			text = quality;
	}
	return open > 0 && open >= text ? METRICS_OPENMETRICS : METRICS_PROMETHEUS;
}

const char *exporter_accept_type(enum metrics_format format)
{
	return format == METRICS_OPENMETRICS ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
					     : "text/plain; version=0.0.4; charset=utf-8";
}
