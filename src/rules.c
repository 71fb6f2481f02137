/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "hash.h"
#include "parse.h"
#include "rules.h"

const char *const rule_mode_name[4] = { "", "promote", "observe", "off" };
const char *const rule_policy_name[2] = { "page", "region" }; /* as promote.policy */

/*
 * Two places to come back to are enough: what follows a ** was tried from every place, so an earlier * need not be
 * tried again, and what follows a * within a part of the path neither.
 */
bool rule_glob(const char *pattern, const char *text)
{
	const char *star = NULL, *star_text = NULL, *deep = NULL, *deep_text = NULL;
	const char *p = pattern, *t = text;

	while (*t || *p) {
		if (p[0] == '*' && p[1] == '*') {
			deep = p += 2;
			deep_text = t;
			star = NULL;
		} else if (*p == '*') {
			star = ++p;
			star_text = t;
		} else if (*t && *p && (*p == *t || (*p == '?' && *t != '/'))) {
			p++;
			t++;
		} else if (star && *star_text && *star_text != '/') {
			p = star;
			t = ++star_text;
		} else if (deep && *deep_text) {
			star = NULL;
			p = deep;
			t = ++deep_text;
		} else {
			return false;
		}
	}
	return true;
}

/* A slash and ** at the end mean what is before them as well. */
static bool path_matches(const char *pattern, const char *path)
{
	size_t len = strlen(pattern);
	char above[RULE_MATCH_MAX];

	if (rule_glob(pattern, path))
		return true;
	if (len < 3 || len >= sizeof(above) || strcmp(pattern + len - 3, "/**") != 0)
		return false;
	memcpy(above, pattern, len - 3);
	above[len - 3] = '\0';
	return rule_glob(above, path);
}

static bool unit_matches(const char *pattern, const char *path)
{
	char part[256];

	while (*path) {
		size_t len;

		path += strspn(path, "/");
		len = strcspn(path, "/");
		if (len > 0 && len < sizeof(part)) {
			memcpy(part, path, len);
			part[len] = '\0';
			if (rule_glob(pattern, part))
				return true;
		}
		path += len;
	}
	return false;
}

static bool user_matches(const char *pattern, const struct rule_subject *subject)
{
	uint64_t uid;

	if (parse_u64(pattern, 0, UINT32_MAX, &uid) == 0)
		return uid == subject->uid;
	return *subject->user && strcmp(pattern, subject->user) == 0;
}

/* What follows @prefix in the rule's match, or NULL. */
static const char *pattern_of(const struct rule *rule, const char *prefix)
{
	size_t len = strlen(prefix);

	return strncmp(rule->match, prefix, len) == 0 ? rule->match + len : NULL;
}

bool rule_matches(const struct rule *rule, const struct rule_subject *subject)
{
	const char *pattern;

	if ((pattern = pattern_of(rule, "cgroup:")))
		return path_matches(pattern, subject->cgroup);
	if ((pattern = pattern_of(rule, "unit:")))
		return unit_matches(pattern, subject->cgroup);
	if ((pattern = pattern_of(rule, "exe:")))
		return path_matches(pattern, subject->exe);
	if ((pattern = pattern_of(rule, "user:")))
		return user_matches(pattern, subject);
	return false;
}

int rules_find(const struct rules *rules, const struct rule_subject *subject)
{
	for (int i = 0; i < rules->n; i++)
		if (rule_matches(&rules->rule[i], subject))
			return i;
	return -1;
}

bool rules_want_user(const struct rules *rules)
{
	uint64_t uid;

	for (int i = 0; i < rules->n; i++) {
		const char *pattern = pattern_of(&rules->rule[i], "user:");

		if (pattern && parse_u64(pattern, 0, UINT32_MAX, &uid) < 0)
			return true;
	}
	return false;
}

static bool same(const struct rule *a, const struct rule *b)
{
	return strcmp(a->match, b->match) == 0 && a->mode == b->mode && a->kinds_set == b->kinds_set &&
	       a->kinds == b->kinds && a->target_nid == b->target_nid && a->rate_mib_per_sec == b->rate_mib_per_sec &&
	       a->min_rss_mib == b->min_rss_mib && a->fast_max_percent == b->fast_max_percent && a->policy == b->policy;
}

bool rules_same(const struct rules *a, const struct rules *b)
{
	if (a->n != b->n)
		return false;
	for (int i = 0; i < a->n; i++)
		if (!same(&a->rule[i], &b->rule[i]))
			return false;
	return true;
}

uint64_t rules_hash(const struct rules *rules)
{
	uint64_t hash = HASH_FNV1A_START;

	for (int i = 0; i < rules->n; i++) {
		const struct rule *r = &rules->rule[i];
		const int64_t numbers[] = { r->mode,       r->kinds_set,        r->kinds,
					    r->target_nid, r->rate_mib_per_sec, r->min_rss_mib,
					    r->policy,     r->fast_max_percent };

		hash = hash_fnv1a(hash, r->match, strlen(r->match) + 1);
		hash = hash_fnv1a(hash, numbers, sizeof(numbers));
	}
	return hash;
}

void rule_init(struct rule *rule)
{
	*rule = (struct rule){ .target_nid = -1, .rate_mib_per_sec = -1, .fast_max_percent = -1, .policy = -1 };
}

struct text {
	char *buf;
	size_t size, len;
};

__attribute__((format(printf, 2, 3))) static void put(struct text *text, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(text->len < text->size ? text->buf + text->len : NULL,
		      text->len < text->size ? text->size - text->len : 0, fmt, ap);
	va_end(ap);
	text->len += n > 0 ? (size_t)n : 0;
}

int rules_format(const struct rules *rules, char *buf, size_t size)
{
	static const char *const kind[] = { "shared", "hugetlb", "locked", "file" };
	struct text text = { .buf = buf, .size = size };

	put(&text, "(");
	for (int i = 0; i < rules->n; i++) {
		const struct rule *r = &rules->rule[i];

		put(&text, "%s { match = \"%s\";", i ? "," : "", r->match);
		if (r->mode != RULE_UNSET)
			put(&text, " mode = \"%s\";", rule_mode_name[r->mode]);
		if (r->policy >= 0)
			put(&text, " policy = \"%s\";", rule_policy_name[r->policy]);
		if (r->rate_mib_per_sec >= 0)
			put(&text, " rate_mib_per_sec = %lld;", (long long)r->rate_mib_per_sec);
		if (r->target_nid >= 0)
			put(&text, " target_nid = %d;", r->target_nid);
		if (r->fast_max_percent >= 0)
			put(&text, " fast_max_percent = %d;", r->fast_max_percent);
		if (r->min_rss_mib > 0)
			put(&text, " min_rss_mib = %lld;", (long long)r->min_rss_mib);
		for (int k = 0; k < 4; k++)
			if (r->kinds_set & 1 << k)
				put(&text, " %s = %s;", kind[k], r->kinds & 1 << k ? "true" : "false");
		put(&text, " }");
	}
	put(&text, " )");
	return text.len < size ? (int)text.len : -ENOSPC;
}
