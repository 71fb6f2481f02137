/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "config_rules.h"
#include "config_value.h"
#include "rules.h"

#define ALL_KEYS                                                                                                     \
	"match, mode, policy, rate_mib_per_sec, target_nid, fast_max_percent, min_rss_mib, shared, hugetlb, locked " \
	"or file"

static const struct {
	const char *name;
	enum config_rule_type type;
	int64_t min, max;
} keys[] = {
	{ "match", RULE_KEY_TEXT, 0, 0 },
	{ "mode", RULE_KEY_TEXT, 0, 0 },
	{ "policy", RULE_KEY_TEXT, 0, 0 },
	{ "rate_mib_per_sec", RULE_KEY_NUMBER, 0, 1048576 }, /* as promote.rate_mib_per_sec */
	{ "target_nid", RULE_KEY_NUMBER, 0, 1023 },
	{ "fast_max_percent", RULE_KEY_NUMBER, 0, 100 },
	{ "min_rss_mib", RULE_KEY_NUMBER, 0, 1073741824 },
	{ "shared", RULE_KEY_TRUTH, KIND_SHARED, 0 },
	{ "hugetlb", RULE_KEY_TRUTH, KIND_HUGETLB, 0 },
	{ "locked", RULE_KEY_TRUTH, KIND_LOCKED, 0 },
	{ "file", RULE_KEY_TRUTH, KIND_FILE, 0 },
};

#define N_KEYS (sizeof(keys) / sizeof(keys[0]))

static size_t key_of(const char *name)
{
	size_t i = 0;

	while (i < N_KEYS && strcmp(keys[i].name, name) != 0)
		i++;
	return i;
}

enum config_rule_type config_rule_type(const char *name)
{
	size_t i = key_of(name);

	return i < N_KEYS ? keys[i].type : RULE_KEY_UNKNOWN;
}

int config_fail_rule_key(const struct config_where *where)
{
	return config_fail(where, "a rule has no such setting: it may be " ALL_KEYS);
}

static int put_match(const struct config_where *where, struct rule *rule, const char *value)
{
	static const char *const kinds[] = { "cgroup:", "unit:", "exe:", "user:" };
	size_t len = 0;

	for (const char *p = value; *p; p++)
		if (*p < ' ' || *p > '~' || *p == '"' || *p == '\\')
			return config_fail(where, "only plain letters, digits and signs are allowed in a text here");
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]) && len == 0; i++)
		if (strncmp(value, kinds[i], strlen(kinds[i])) == 0)
			len = strlen(kinds[i]);
	if (len == 0)
		return config_fail(where,
				   "\"%.40s\" does not say what to match: write \"cgroup:/system.slice/**\", "
				   "\"unit:nginx.service\", \"exe:/usr/bin/redis-*\" or \"user:postgres\"",
				   value);
	if (!value[len])
		return config_fail(where, "\"%s\" names nothing", value);
	if ((value[0] == 'c' || value[0] == 'e') && value[len] != '/' && value[len] != '*')
		return config_fail(where, "\"%.40s\" would match nothing: a path begins with /", value);
	if (strlen(value) >= RULE_MATCH_MAX)
		return config_fail(where, "the text has %zu characters: it may have at most %d", strlen(value),
				   RULE_MATCH_MAX - 1);
	memcpy(rule->match, value, strlen(value) + 1);
	return 0;
}

static int put_policy(const struct config_where *where, struct rule *rule, const char *value)
{
	for (int32_t policy = 0; policy < 2; policy++) {
		if (strcmp(value, rule_policy_name[policy]) == 0) {
			rule->policy = policy;
			return 0;
		}
	}
	return config_fail(where, "\"%.40s\" is not known here: it may be \"page\" or \"region\"", value);
}

int config_put_rule_text(const struct config_where *where, struct rule *rule, const char *name, const char *value)
{
	if (strcmp(name, "match") == 0)
		return put_match(where, rule, value);
	if (strcmp(name, "policy") == 0)
		return put_policy(where, rule, value);
	for (uint8_t mode = RULE_PROMOTE; mode <= RULE_OFF; mode++) {
		if (strcmp(value, rule_mode_name[mode]) == 0) {
			rule->mode = mode;
			return 0;
		}
	}
	return config_fail(where, "\"%.40s\" is not known here: it may be \"promote\", \"observe\" or \"off\"", value);
}

int config_put_rule_number(const struct config_where *where, struct rule *rule, const char *name, int64_t value)
{
	size_t i = key_of(name);

	if (value < keys[i].min || value > keys[i].max)
		return config_fail(where, "%lld is out of range: it may be %lld to %lld", (long long)value,
				   (long long)keys[i].min, (long long)keys[i].max);
	if (strcmp(name, "target_nid") == 0)
		rule->target_nid = (int32_t)value;
	else if (strcmp(name, "fast_max_percent") == 0)
		rule->fast_max_percent = (int32_t)value;
	else if (strcmp(name, "min_rss_mib") == 0)
		rule->min_rss_mib = value;
	else
		rule->rate_mib_per_sec = value;
	return 0;
}

int config_put_rule_truth(const struct config_where *where, struct rule *rule, const char *name, bool value)
{
	uint8_t kind = (uint8_t)keys[key_of(name)].min;

	(void)where;
	rule->kinds_set |= kind;
	rule->kinds = (uint8_t)(value ? rule->kinds | kind : rule->kinds & ~kind);
	return 0;
}

int config_check_rule(const struct config_where *where, const struct rule *rule)
{
	if (!rule->match[0])
		return config_fail(where, "a rule without match: say whom it is for, as in "
					  "{ match = \"cgroup:/system.slice/**\"; mode = \"off\"; }");
	return 0;
}
