/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>

#include "config.h"
#include "harness.h"
#include "rules.h"

static char error[CONFIG_ERROR_MAX];

static void patterns_fit(void)
{
	static const struct {
		const char *pattern, *text;
		bool fits;
	} cases[] = {
		{ "/a/b", "/a/b", true },
		{ "/a/b", "/a/bc", false },
		{ "/a/bc", "/a/b", false },
		{ "", "", true },
		{ "", "/", false },
		{ "*", "", true },
		{ "*", "abc", true },
		{ "*", "a/c", false },
		{ "**", "", true },
		{ "**", "/a/b/c", true },
		{ "/a/*", "/a/b", true },
		{ "/a/*", "/a/b/c", false },
		{ "/a/*/c", "/a/b/c", true },
		{ "/a/*/c", "/a/b/b/c", false },
		{ "/a/**/c", "/a/b/b/c", true },
		{ "/a/**/c", "/a/c", false },
		{ "/a/**c", "/a/c", true },
		{ "/**/x*y/z", "/1/xy/xay/z", true },
		{ "/**/x*y/z", "/1/xy/x/y/z", false },
		{ "a*b*c", "axbxbc", true },
		{ "a*b*c", "axbxbcx", false },
		{ "a*b*c", "abx/bc", false },
		{ "*.service", "nginx.service", true },
		{ "*.service", "nginx.service.d", false },
		{ "a?c", "abc", true },
		{ "a?c", "a/c", false },
		{ "a?c", "ac", false },
		{ "**a**b**c", "xxaxxbxxcc", true },
		{ "**a**b**c", "xxaxxcxxb", false },
		{ "/a.b", "/axb", false },
		{ "***", "a/b", true },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		bool fits = rule_glob(cases[i].pattern, cases[i].text);

		CU_ASSERT_EQUAL(fits, cases[i].fits);
		if (fits != cases[i].fits)
			printf("  \"%s\" and \"%s\"\n", cases[i].pattern, cases[i].text);
	}
}

/* By trying every way to take a pattern apart. */
static bool slow_glob(const char *p, const char *t)
{
	if (!*p)
		return !*t;
	if (p[0] == '*' && p[1] == '*') {
		for (const char *at = t;; at++) {
			if (slow_glob(p + 2, at))
				return true;
			if (!*at)
				return false;
		}
	}
	if (*p == '*') {
		for (const char *at = t;; at++) {
			if (slow_glob(p + 1, at))
				return true;
			if (!*at || *at == '/')
				return false;
		}
	}
	return *t && (*p == *t || (*p == '?' && *t != '/')) && slow_glob(p + 1, t + 1);
}

static void patterns_fit_as_by_hand(void)
{
	static const char letters[] = "ab/*?*", plain[] = "ab/";
	unsigned int seed = 1, wrong = 0, fitted = 0;

	for (int i = 0; i < 200000; i++) {
		char p[9] = "", t[9] = "";

		for (int k = (int)((seed = seed * 1103515245 + 12345) >> 16 & 7); k >= 0; k--)
			p[k] = letters[((seed = seed * 1103515245 + 12345) >> 16 & 0x7fff) % 6];
		for (int k = (int)((seed = seed * 1103515245 + 12345) >> 16 & 7); k >= 0; k--)
			t[k] = plain[((seed = seed * 1103515245 + 12345) >> 16 & 0x7fff) % 3];
		fitted += slow_glob(p, t);
		wrong += rule_glob(p, t) != slow_glob(p, t);
	}
	CU_ASSERT_EQUAL(wrong, 0);
	CU_ASSERT(fitted > 1000);
}

static bool matches(const char *match, const struct rule_subject *subject)
{
	struct rule rule;

	rule_init(&rule);
	snprintf(rule.match, sizeof(rule.match), "%s", match);
	return rule_matches(&rule, subject);
}

static void each_kind_matches(void)
{
	const struct rule_subject nginx = { "/system.slice/nginx.service", "/usr/sbin/nginx", "www-data", 33 };
	const struct rule_subject pod = { "/kubepods.slice/kubepods-a.slice/cri-1.scope", "/bin/x", "", 4711 };
	const struct rule_subject bare = { "/", "", "root", 0 };

	CU_ASSERT(matches("cgroup:/system.slice/**", &nginx));
	CU_ASSERT(matches("cgroup:/system.slice/nginx.service/**", &nginx));
	CU_ASSERT(matches("cgroup:/system.slice/*", &nginx));
	CU_ASSERT_FALSE(matches("cgroup:/system.slice", &nginx));
	CU_ASSERT_FALSE(matches("cgroup:/system", &nginx));
	CU_ASSERT(matches("cgroup:/kubepods.slice/**", &pod));
	CU_ASSERT_FALSE(matches("cgroup:/kubepods.slice/*", &pod));
	CU_ASSERT(matches("cgroup:/", &bare));
	CU_ASSERT(matches("unit:nginx.service", &nginx));
	CU_ASSERT(matches("unit:system.slice", &nginx));
	CU_ASSERT(matches("unit:kubepods-*.slice", &pod));
	CU_ASSERT_FALSE(matches("unit:nginx", &nginx));
	CU_ASSERT_FALSE(matches("unit:*", &bare));
	CU_ASSERT(matches("exe:/usr/sbin/*", &nginx));
	CU_ASSERT_FALSE(matches("exe:/usr/*", &nginx));
	CU_ASSERT(matches("user:www-data", &nginx));
	CU_ASSERT(matches("user:33", &nginx));
	CU_ASSERT(matches("user:4711", &pod));
	CU_ASSERT_FALSE(matches("user:www", &nginx));
	CU_ASSERT_FALSE(matches("user:", &pod));
	CU_ASSERT_FALSE(matches("nonsense", &nginx));
}

static bool read_rules(const char *text, struct config *ret)
{
	int r = config_parse(text, "x.conf", ret, error);

	if (r < 0)
		printf("  %s\n", error);
	return r == 0;
}

static void the_first_one_holds(void)
{
	const struct rule_subject nginx = { "/system.slice/nginx.service", "/usr/sbin/nginx", "www-data", 33 };
	const struct rule_subject other = { "/user.slice", "/bin/sh", "me", 1000 };
	struct config config;

	CU_ASSERT(read_rules("manage = { default = false; rules = (\n"
			     "  { match = \"unit:nginx.service\"; mode = \"observe\"; rate_mib_per_sec = 0; },\n"
			     "  { match = \"cgroup:/system.slice/**\"; mode = \"off\"; },\n"
			     "  { match = \"user:postgres\"; shared = true; file = false; target_nid = 0;\n"
			     "    min_rss_mib = 100; }\n"
			     "); };\n",
			     &config));
	CU_ASSERT_FALSE(config.manage_default);
	CU_ASSERT_EQUAL(config.manage_rules.n, 3);
	CU_ASSERT_EQUAL(rules_find(&config.manage_rules, &nginx), 0);
	CU_ASSERT_EQUAL(rules_find(&config.manage_rules, &other), -1);
	CU_ASSERT_EQUAL(config.manage_rules.rule[0].mode, RULE_OBSERVE);
	CU_ASSERT_EQUAL(config.manage_rules.rule[0].rate_mib_per_sec, 0);
	CU_ASSERT_EQUAL(config.manage_rules.rule[0].target_nid, -1);
	CU_ASSERT_EQUAL(config.manage_rules.rule[1].mode, RULE_OFF);
	CU_ASSERT_EQUAL(config.manage_rules.rule[1].rate_mib_per_sec, -1);
	CU_ASSERT_EQUAL(config.manage_rules.rule[2].kinds_set, KIND_SHARED | KIND_FILE);
	CU_ASSERT_EQUAL(config.manage_rules.rule[2].kinds, KIND_SHARED);
	CU_ASSERT_EQUAL(config.manage_rules.rule[2].target_nid, 0);
	CU_ASSERT_EQUAL(config.manage_rules.rule[2].min_rss_mib, 100);
	CU_ASSERT(rules_want_user(&config.manage_rules));
}

/* Out as text and in again: what tune shows, it takes. */
static void rules_go_round(void)
{
	const struct option_info *option = option_find("manage.rules");
	struct config config, back;
	char text[CONFIG_TEXT_MAX];

	CU_ASSERT(read_rules("manage = { rules = ( { match = \"cgroup:/a/**\"; mode = \"off\"; }, { match = "
			     "\"user:12\"; locked = false; hugetlb = true; rate_mib_per_sec = 5; fast_max_percent = 0; "
			     "policy = \"region\"; } ); };",
			     &config));
	CU_ASSERT_EQUAL(config.manage_rules.rule[0].fast_max_percent, -1);
	CU_ASSERT_EQUAL(config.manage_rules.rule[1].fast_max_percent, 0);
	CU_ASSERT_EQUAL(config.manage_rules.rule[0].policy, -1);
	CU_ASSERT_EQUAL(config.manage_rules.rule[1].policy, POLICY_REGION);
	CU_ASSERT(config_get_text(&config, option, text, sizeof(text)) > 0);
	config_defaults(&back);
	CU_ASSERT_FALSE(config_same(&config, &back, option));
	CU_ASSERT_EQUAL(config_set(&back, "manage.rules", text, error), 0);
	CU_ASSERT(config_same(&config, &back, option));
	CU_ASSERT_EQUAL(config_set(&back, "manage.rules", "( )", error), 0);
	CU_ASSERT_EQUAL(back.manage_rules.n, 0);
	CU_ASSERT(config_get_text(&back, option, text, sizeof(text)) > 0);
	CU_ASSERT_STRING_EQUAL(text, "( )");
	CU_ASSERT_FALSE(rules_want_user(&config.manage_rules));
	/* All of the most there can be. */
	memset(&back.manage_rules, 0, sizeof(back.manage_rules));
	for (int i = 0; i < RULES_MAX; i++) {
		struct rule *rule = &back.manage_rules.rule[back.manage_rules.n++];

		*rule = (struct rule){ .mode = RULE_OBSERVE,
				       .kinds_set = 15,
				       .target_nid = 1023,
				       .rate_mib_per_sec = 1048576,
				       .fast_max_percent = 100,
				       .policy = POLICY_REGION,
				       .min_rss_mib = 1073741824 };
		memset(rule->match, 'x', sizeof(rule->match) - 1);
		memcpy(rule->match, "unit:", 5);
	}
	CU_ASSERT(config_get_text(&back, option, text, sizeof(text)) > 0);
	config = back;
	CU_ASSERT_EQUAL(config_set(&back, "manage.rules", text, error), 0);
	CU_ASSERT(config_same(&config, &back, option));
	CU_ASSERT_EQUAL(rules_format(&back.manage_rules, text, 100), -ENOSPC);
}

static void what_is_wrong_is_refused(void)
{
	static const struct {
		const char *rules, *says;
	} cases[] = {
		{ "( { mode = \"off\"; } )", "without match" },
		{ "( { match = \"nginx\"; } )", "does not say what to match" },
		{ "( { match = \"cgroup:\"; } )", "names nothing" },
		{ "( { match = \"cgroup:system.slice\"; } )", "a path begins with /" },
		{ "( { match = \"user:a\"; mode = \"on\"; } )", "\"promote\", \"observe\" or \"off\"" },
		{ "( { match = \"user:a\"; mode = 1; } )", "a text in quotes is wanted" },
		{ "( { match = \"user:a\"; shared = 1; } )", "true or false is wanted" },
		{ "( { match = \"user:a\"; rate_mib_per_sec = -1; } )", "out of range" },
		{ "( { match = \"user:a\"; target_nid = 1024; } )", "out of range" },
		{ "( { match = \"user:a\"; target_nid = 1.5; } )", "a whole number is wanted" },
		{ "( { match = \"user:a\"; min_rss = 5; } )", "no such setting" },
		{ "( { match = \"user:a\"; policy = \"pages\"; } )", "\"page\" or \"region\"" },
		{ "( { match = \"user:a\"; policy = 1; } )", "a text in quotes is wanted" },
		{ "( { match = \"user:a\"; fast_max_percent = 101; } )", "out of range" },
		{ "( \"user:a\" )", "a rule is wanted" },
		{ "[ \"user:a\" ]", "a list of rules is wanted" },
		{ "{ match = \"user:a\"; }", "a list of rules is wanted" },
		{ "true", "a list of rules is wanted" },
		{ "( { match = \"user:a\\tb\"; } )", "plain letters" },
	};
	struct config config, before;
	char text[16384];
	size_t len;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(text, sizeof(text), "manage = {\n rules = %s; };", cases[i].rules);
		CU_ASSERT_EQUAL(config_parse(text, "x.conf", &config, error), -EINVAL);
		CU_ASSERT_PTR_NOT_NULL(strstr(error, cases[i].says));
		CU_ASSERT_PTR_NOT_NULL(strstr(error, "x.conf:2: manage.rules"));
		if (!strstr(error, cases[i].says))
			printf("  %s: %s\n", cases[i].rules, error);
		config_defaults(&config);
		before = config;
		CU_ASSERT_EQUAL(config_set(&config, "manage.rules", cases[i].rules, error), -EINVAL);
		/* No line, where there is no file, and the setting once. */
		CU_ASSERT_EQUAL(strncmp(error, "manage.rules", strlen("manage.rules")), 0);
		CU_ASSERT_PTR_NOT_NULL(strstr(error, cases[i].says));
		CU_ASSERT_PTR_NULL(strstr(error, ":1"));
		CU_ASSERT_PTR_NULL(strstr(error + 1, "manage.rules"));
		CU_ASSERT_EQUAL(memcmp(&config, &before, sizeof(config)), 0);
	}
	/* Nothing comes in beside it. */
	CU_ASSERT_EQUAL(config_set(&config, "manage.rules", "( ); }; target_nid = 3; kinds = { shared = true", error),
			-EINVAL);
	CU_ASSERT_EQUAL(config_set(&config, "manage.rules", "", error), -EINVAL);
	CU_ASSERT_EQUAL(strncmp(error, "manage.rules: a value", strlen("manage.rules: a value")), 0);
	len = (size_t)snprintf(text, sizeof(text), "manage = { rules = ( ");
	for (int i = 0; i <= RULES_MAX; i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s{ match = \"user:a\"; }", i ? ", " : "");
	snprintf(text + len, sizeof(text) - len, " ); };");
	CU_ASSERT_EQUAL(config_parse(text, "x.conf", &config, error), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(error, "too many rules"));
}

static void the_hash_tells_rules_apart(void)
{
	static struct rules all[10], none;

	for (size_t i = 0; i < 10; i++) {
		all[i].n = 1;
		rule_init(&all[i].rule[0]);
		strcpy(all[i].rule[0].match, "user:5");
	}
	all[1].rule[0].match[5] = '6';
	all[2].rule[0].mode = RULE_OFF;
	all[3].rule[0].kinds_set = KIND_SHARED;
	all[4].rule[0].kinds = KIND_SHARED;
	all[5].rule[0].target_nid = 0;
	all[6].rule[0].rate_mib_per_sec = 0;
	all[7].rule[0].min_rss_mib = 1;
	all[8].rule[0].policy = 0;
	all[9].rule[0].fast_max_percent = 0;
	for (size_t i = 0; i < 10; i++) {
		const struct rules copy = all[i];

		CU_ASSERT_EQUAL(rules_hash(&all[i]), rules_hash(&copy));
		CU_ASSERT_NOT_EQUAL(rules_hash(&all[i]), rules_hash(&none));
		for (size_t k = 0; k < i; k++)
			CU_ASSERT_NOT_EQUAL(rules_hash(&all[i]), rules_hash(&all[k]));
	}
}

TEST_MAIN(rules, TEST(patterns_fit), TEST(patterns_fit_as_by_hand), TEST(each_kind_matches), TEST(the_first_one_holds),
	  TEST(rules_go_round), TEST(what_is_wrong_is_refused), TEST(the_hash_tells_rules_apart))
