/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "nodeset.h"

#define WORDS (NODE_MAX / 64)

static bool in_range(int nid)
{
	return nid >= 0 && nid < NODE_MAX;
}

static uint64_t bit(int nid)
{
	return UINT64_C(1) << (nid % 64);
}

void nodeset_clear(struct nodeset *set)
{
	memset(set, 0, sizeof(*set));
}

void nodeset_add(struct nodeset *set, int nid)
{
	assert(in_range(nid));
	set->bits[nid / 64] |= bit(nid);
}

void nodeset_del(struct nodeset *set, int nid)
{
	if (in_range(nid))
		set->bits[nid / 64] &= ~bit(nid);
}

bool nodeset_has(const struct nodeset *set, int nid)
{
	return in_range(nid) && (set->bits[nid / 64] & bit(nid));
}

bool nodeset_is_empty(const struct nodeset *set)
{
	return nodeset_next(set, 0) < 0;
}

int nodeset_count(const struct nodeset *set)
{
	int n = 0;

	for (int i = 0; i < WORDS; i++)
		n += __builtin_popcountll(set->bits[i]);
	return n;
}

void nodeset_or(struct nodeset *set, const struct nodeset *other)
{
	for (int i = 0; i < WORDS; i++)
		set->bits[i] |= other->bits[i];
}

void nodeset_andnot(struct nodeset *set, const struct nodeset *other)
{
	for (int i = 0; i < WORDS; i++)
		set->bits[i] &= ~other->bits[i];
}

bool nodeset_equal(const struct nodeset *a, const struct nodeset *b)
{
	return memcmp(a->bits, b->bits, sizeof(a->bits)) == 0;
}

bool nodeset_intersects(const struct nodeset *a, const struct nodeset *b)
{
	for (int i = 0; i < WORDS; i++)
		if (a->bits[i] & b->bits[i])
			return true;
	return false;
}

int nodeset_next(const struct nodeset *set, int from)
{
	if (from < 0)
		from = 0;
	if (from >= NODE_MAX)
		return -1;

	uint64_t word = set->bits[from / 64] & ~(bit(from) - 1);

	for (int i = from / 64;;) {
		if (word)
			return i * 64 + __builtin_ctzll(word);
		if (++i == WORDS)
			return -1;
		word = set->bits[i];
	}
}

/* One id at @*p, moved behind it. Saturates above @max, so that no length of digits overflows. -EINVAL or -ERANGE. */
static int take_id(const char **p, int max, int *ret)
{
	int64_t v = 0;

	if (**p < '0' || **p > '9')
		return -EINVAL;
	for (; **p >= '0' && **p <= '9'; (*p)++)
		if (v <= INT_MAX)
			v = v * 10 + (**p - '0');
	*ret = v > max ? -1 : (int)v;
	return 0;
}

static int walk(const char *text, int max, int (*fn)(void *ctx, int id), void *ctx)
{
	const char *p = text;
	bool over = false;
	int r;

	if (!*p)
		return 0;
	for (;;) {
		int first, last;

		r = take_id(&p, max, &first);
		if (r < 0)
			return r;
		last = first;
		if (*p == '-') {
			p++;
			r = take_id(&p, max, &last);
			if (r < 0)
				return r;
		}
		if (first < 0 || last < 0)
			over = true;
		else if (last < first)
			return -EINVAL;
		for (int id = first; fn && !over && id <= last; id++) {
			r = fn(ctx, id);
			if (r != 0)
				return r;
			if (id == INT_MAX)
				break;
		}
		if (!*p)
			return over ? -ERANGE : 0;
		if (*p++ != ',')
			return -EINVAL;
	}
}

int idlist_for_each(const char *text, int max, int (*fn)(void *ctx, int id), void *ctx)
{
	/* Twice, so that nobody acts on the first half of a list that turns out to be malformed. */
	int r = walk(text, max, NULL, NULL);

	return r < 0 ? r : walk(text, max, fn, ctx);
}

static int add_node(void *ctx, int id)
{
	nodeset_add(ctx, id);
	return 0;
}

int nodeset_parse(struct nodeset *ret, const char *text)
{
	struct nodeset set = { 0 };
	int r = idlist_for_each(text, NODE_MAX - 1, add_node, &set);

	if (r < 0)
		return r;
	*ret = set;
	return 0;
}

int nodeset_format(const struct nodeset *set, char *buf, size_t size)
{
	size_t len = 0;
	int last;

	if (size == 0)
		return -ENOSPC;
	buf[0] = '\0';
	for (int first = nodeset_next(set, 0); first >= 0; first = nodeset_next(set, last + 1)) {
		int n;

		for (last = first; nodeset_has(set, last + 1);)
			last++;
		if (last == first)
			n = snprintf(buf + len, size - len, "%s%d", len ? "," : "", first);
		else
			n = snprintf(buf + len, size - len, "%s%d-%d", len ? "," : "", first, last);
		if (n < 0 || (size_t)n >= size - len) {
			buf[0] = '\0';
			return -ENOSPC;
		}
		len += (size_t)n;
	}
	return (int)len;
}
