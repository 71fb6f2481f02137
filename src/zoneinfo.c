/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "nodeset.h"
#include "zoneinfo.h"

/* A piece of the text: nothing is copied. */
struct span {
	const char *p, *end;
};

enum field {
	FIELD_FREE,
	FIELD_MIN,
	FIELD_LOW,
	FIELD_HIGH,
	FIELD_PROMO,
	FIELD_SPANNED,
	FIELD_PRESENT,
	FIELD_START,
	FIELD_MAX,
};

/* "free" stands behind "pages"; "high:" with a colon is that of a per-CPU page set, and no watermark. */
static const char *const field_name[FIELD_MAX] = {
	"free", "min", "low", "high", "promo", "spanned", "present", "start_pfn:",
};

/* A zone without memory ends before its start_pfn; older kernels show no promo. */
#define FIELDS_OF_ALL                                                                                    \
	(1u << FIELD_FREE | 1u << FIELD_MIN | 1u << FIELD_LOW | 1u << FIELD_HIGH | 1u << FIELD_SPANNED | \
	 1u << FIELD_PRESENT)

struct parser {
	bool in_zone;
	int nid;
	unsigned int seen; /* bits of enum field */
	uint64_t value[FIELD_MAX];
	uint64_t listed; /* sum of the per-CPU page sets */
};

static bool span_is(struct span s, const char *word)
{
	size_t len = (size_t)(s.end - s.p);

	return strlen(word) == len && memcmp(s.p, word, len) == 0;
}

static bool take_prefix(struct span *s, const char *prefix)
{
	size_t len = strlen(prefix);

	if ((size_t)(s->end - s->p) < len || memcmp(s->p, prefix, len) != 0)
		return false;
	s->p += len;
	return true;
}

static void skip_spaces(struct span *s)
{
	while (s->p < s->end && *s->p == ' ')
		s->p++;
}

/* The next word up to a space, maybe empty. */
static struct span take_word(struct span *s)
{
	struct span word = *s;

	while (s->p < s->end && *s->p != ' ')
		s->p++;
	word.end = s->p;
	return word;
}

/* Digits up to the end of @s or the first other character. -EBADMSG: none, or more than @max. */
static int take_number(struct span *s, uint64_t max, uint64_t *ret)
{
	uint64_t v = 0;

	if (s->p == s->end || *s->p < '0' || *s->p > '9')
		return -EBADMSG;
	for (; s->p < s->end && *s->p >= '0' && *s->p <= '9'; s->p++) {
		v = v * 10 + (uint64_t)(*s->p - '0');
		if (v > max) /* max is far below 2^64 / 10, so this comes before an overflow */
			return -EBADMSG;
	}
	*ret = v;
	return 0;
}

/* Hand on the zone that ends here, if there is one. */
static int end_zone(struct parser *parser, int (*fn)(void *ctx, const struct zoneinfo_zone *zone), void *ctx)
{
	const uint64_t *v = parser->value;
	struct zoneinfo_zone zone;

	if (!parser->in_zone)
		return 0;
	if ((parser->seen & FIELDS_OF_ALL) != FIELDS_OF_ALL)
		return -EBADMSG;
	if (v[FIELD_PRESENT] > 0 && !(parser->seen & 1u << FIELD_START))
		return -EBADMSG;
	zone = (struct zoneinfo_zone){
		.nid = parser->nid,
		.free_pages = v[FIELD_FREE],
		.min_pages = v[FIELD_MIN],
		.low_pages = v[FIELD_LOW],
		.high_pages = v[FIELD_HIGH],
		.promo_pages = parser->seen & 1u << FIELD_PROMO ? v[FIELD_PROMO] : v[FIELD_HIGH],
		.listed_pages = parser->listed,
		.spanned_pages = v[FIELD_SPANNED],
		.present_pages = v[FIELD_PRESENT],
		.start_pfn = parser->seen & 1u << FIELD_START ? v[FIELD_START] : 0,
	};
	return fn(ctx, &zone);
}

/* "Node 1, zone   Normal", of which "Node " is taken off. */
static int begin_zone(struct parser *parser, struct span line)
{
	struct span name;
	uint64_t nid;

	if (take_number(&line, NODE_MAX - 1, &nid) < 0 || !take_prefix(&line, ", zone "))
		return -EBADMSG;
	skip_spaces(&line);
	name = take_word(&line);
	if (name.p == name.end || line.p != line.end)
		return -EBADMSG;
	*parser = (struct parser){ .in_zone = true, .nid = (int)nid };
	return 0;
}

/* "count: 123" of one CPU's page set. */
static int add_listed(struct parser *parser, struct span line)
{
	uint64_t value;

	skip_spaces(&line);
	if (take_number(&line, ZONEINFO_PAGES_MAX, &value) < 0)
		return -EBADMSG;
	parser->listed += value;
	return parser->listed <= ZONEINFO_PAGES_MAX ? 0 : -EBADMSG;
}

static int zone_line(struct parser *parser, struct span line)
{
	struct span word;
	uint64_t value;
	int f;

	skip_spaces(&line);
	word = take_word(&line);
	if (span_is(word, "count:"))
		return add_listed(parser, line);
	if (span_is(word, "pages")) {
		skip_spaces(&line);
		word = take_word(&line);
		f = span_is(word, field_name[FIELD_FREE]) ? FIELD_FREE : FIELD_MAX;
	} else {
		for (f = FIELD_MIN; f < FIELD_MAX && !span_is(word, field_name[f]); f++)
			;
		/* What stands before "pages free" counts the whole node. */
		if (!(parser->seen & 1u << FIELD_FREE))
			f = FIELD_MAX;
	}
	/* The first of a name is the zone's own; what a later block repeats is another's. */
	if (f == FIELD_MAX || parser->seen & 1u << f)
		return 0;
	skip_spaces(&line);
	if (take_number(&line, ZONEINFO_PAGES_MAX, &value) < 0)
		return -EBADMSG;
	skip_spaces(&line);
	if (line.p != line.end)
		return -EBADMSG;
	parser->value[f] = value;
	parser->seen |= 1u << f;
	return 0;
}

int zoneinfo_parse(const char *text, size_t len, int (*fn)(void *ctx, const struct zoneinfo_zone *zone), void *ctx)
{
	struct parser parser = { .in_zone = false };
	const char *end = text + len;
	int r = 0;

	for (const char *p = text; p < end && r == 0;) {
		const char *newline = memchr(p, '\n', (size_t)(end - p));
		struct span line = { p, newline ? newline : end };

		p = newline ? newline + 1 : end;
		if (take_prefix(&line, "Node ")) {
			r = end_zone(&parser, fn, ctx);
			if (r == 0)
				r = begin_zone(&parser, line);
		} else if (parser.in_zone) {
			r = zone_line(&parser, line);
		} else {
			r = -EBADMSG;
		}
	}
	if (r != 0)
		return r;
	return parser.in_zone ? end_zone(&parser, fn, ctx) : -EBADMSG;
}
