/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rules: which processes are managed, and how, as the configuration says (manage.rules). The first rule that matches a
 * process holds for it, alone. Pure; any thread.
 *
 * A rule matches by one thing:
 *   cgroup:/a.slice/b*       the control group, a pattern on its path below the mount
 *   unit:nginx.service        a service, scope or slice of systemd that the process is in, however deep
 *   exe:/usr/bin/redis-*      the program's file
 *   user:postgres, user:1000  the effective user, by name (in /etc/passwd) or number
 *
 * In patterns * stands for any text without a slash, ** for any text, ? for one character that is no slash. What ends
 * in a slash and ** means what is before it too.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RULES_MAX      32
#define RULE_MATCH_MAX 160

enum rule_mode { RULE_UNSET, RULE_PROMOTE, RULE_OBSERVE, RULE_OFF };

/* Kinds of memory that are left alone unless allowed; bits. */
enum rule_kind { KIND_SHARED = 1 << 0, KIND_HUGETLB = 1 << 1, KIND_LOCKED = 1 << 2, KIND_FILE = 1 << 3 };

struct rule {
	char match[RULE_MATCH_MAX]; /* as written: "cgroup:/a/b" */
	uint8_t mode;               /* enum rule_mode */
	uint8_t kinds_set;          /* bits of enum rule_kind that this rule says something about ... */
	uint8_t kinds;              /* ... and what it says */
	int32_t target_nid;         /* -1: the rule says nothing */
	int64_t rate_mib_per_sec;   /* -1: the rule says nothing */
	int64_t min_rss_mib;        /* 0: the rule says nothing */
	int32_t policy;             /* enum config_policy; -1: the rule says nothing */
	int32_t fast_max_percent;   /* of the fast tier, for all its programs together; -1: the rule says nothing */
};

struct rules {
	int n;
	struct rule rule[RULES_MAX];
};

/* What is known of a process; each text may be "", which no pattern matches but ** and *. */
struct rule_subject {
	const char *cgroup; /* "/system.slice/nginx.service" */
	const char *exe;
	const char *user; /* "": the number has no name */
	uint32_t uid;
};

/* Does @pattern fit all of @text? Takes at most strlen(pattern) * strlen(text) steps. */
bool rule_glob(const char *pattern, const char *text);

bool rule_matches(const struct rule *rule, const struct rule_subject *subject);

/* Index of the first rule that matches, or -1. */
int rules_find(const struct rules *rules, const struct rule_subject *subject);

/* true when some rule asks for the name of a user, so that somebody has to look it up. */
bool rules_want_user(const struct rules *rules);

bool rules_same(const struct rules *a, const struct rules *b);

/* Differs between rules that differ, but by a chance of one in 2^64. */
uint64_t rules_hash(const struct rules *rules);

/* A rule that says nothing yet. */
void rule_init(struct rule *rule);

/* As in the file: ( { match = "..."; mode = "off"; } ). Length or -ENOSPC. */
int rules_format(const struct rules *rules, char *buf, size_t size);

extern const char *const rule_mode_name[4];   /* "" for RULE_UNSET */
extern const char *const rule_policy_name[2]; /* by enum config_policy */
