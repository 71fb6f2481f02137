/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <float.h>
#include <limits.h>
#include <locale.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config.h"
#include "config_value.h"
#include "harness.h"

#define N(array) (sizeof(array) / sizeof((array)[0]))

static char error[CONFIG_ERROR_MAX];

/* What a refused text must leave alone. */
static struct config untouched;

static bool is_untouched(const struct config *config)
{
	return memcmp(config, &untouched, sizeof(*config)) == 0;
}

static int parse(const char *text, struct config *ret)
{
	memset(&untouched, 0x5a, sizeof(untouched));
	*ret = untouched;
	memset(error, 0x5a, sizeof(error));
	error[0] = '\0';
	return config_parse(text, "FILE", ret, error);
}

/* Refused as such, by one line with FILE, line 1 and @part; nothing half-applied. */
static bool refused(const char *text, const char *part)
{
	struct config config;
	int r = parse(text, &config);
	bool ok = r == -EINVAL && is_untouched(&config) && memchr(error, '\0', sizeof(error)) &&
		  strncmp(error, "FILE:1: ", 8) == 0 && strstr(error, part) && !strchr(error, '\n');

	if (!ok)
		printf("  %s\n  -> %d %s\n  wanted: %s\n", text, r, r < 0 ? error : "(accepted)", part);
	return ok;
}

static bool accepted(const char *text, struct config *ret)
{
	int r = parse(text, ret);

	if (r < 0)
		printf("  %s\n  -> %s\n", text, error);
	return r == 0;
}

/* "promote = { burst_ms = VALUE; };" */
static const char *setting(const char *key, const char *value)
{
	static char text[1024];
	const char *dot = strchr(key, '.');

	if (dot)
		snprintf(text, sizeof(text), "%.*s = { %s = %s; };", (int)(dot - key), key, dot + 1, value);
	else
		snprintf(text, sizeof(text), "%s = %s;", key, value);
	return text;
}

static void nothing_given_is_the_defaults(void)
{
	static const char *const texts[] = { "", "\n", " ", "# comment", "// comment", "/* comment */" };
	struct config config, defaults;

	config_defaults(&defaults);
	for (size_t i = 0; i < N(texts); i++) {
		CU_ASSERT(accepted(texts[i], &config));
		CU_ASSERT_EQUAL(memcmp(&config, &defaults, sizeof(config)), 0);
	}
}

static void every_default_is_accepted(void)
{
	struct config config, defaults;
	char text[256];

	config_defaults(&defaults);
	for (size_t i = 0; i < n_options; i++) {
		const struct option_info *o = &option_info[i];

		CU_ASSERT(accepted(setting(o->key, o->default_text), &config));
		CU_ASSERT_EQUAL(memcmp(&config, &defaults, sizeof(config)), 0);
		/* And by tune, as in the file and as it is shown. */
		config = defaults;
		CU_ASSERT_EQUAL(config_set(&config, o->key, o->default_text, error), 0);
		CU_ASSERT_EQUAL(memcmp(&config, &defaults, sizeof(config)), 0);
		CU_ASSERT(config_get_text(&defaults, o, text, sizeof(text)) > 0);
		CU_ASSERT_EQUAL(config_set(&config, o->key, text, error), 0);
		CU_ASSERT_EQUAL(memcmp(&config, &defaults, sizeof(config)), 0);
	}
}

static double number_in(const struct config *config, const struct option_info *o)
{
	const void *slot = (const char *)config + o->offset;

	return o->type == OPTION_TYPE_INT ? (double)*(const int64_t *)slot : *(const double *)slot;
}

/* In the file and by tune. */
static void expect_number(const struct option_info *o, const char *value, double want)
{
	struct config config;

	CU_ASSERT(accepted(setting(o->key, value), &config));
	CU_ASSERT_EQUAL(number_in(&config, o), want);
	config_defaults(&config);
	CU_ASSERT_EQUAL(config_set(&config, o->key, value, error), 0);
	CU_ASSERT_EQUAL(number_in(&config, o), want);
}

static void expect_beyond(const struct option_info *o, const char *value)
{
	struct config config;
	char allowed[128], part[512];

	option_allowed_text(o, allowed, sizeof(allowed));
	snprintf(part, sizeof(part), "%s: %s is out of range: it may be %s", o->key, value, allowed);
	CU_ASSERT(refused(setting(o->key, value), part));
	config_defaults(&config);
	untouched = config;
	CU_ASSERT_EQUAL(config_set(&config, o->key, value, error), -EINVAL);
	CU_ASSERT_STRING_EQUAL(error, part);
	CU_ASSERT(is_untouched(&config));
}

static void numbers_at_their_edges(void)
{
	char value[64];

	for (size_t i = 0; i < n_options; i++) {
		const struct option_info *o = &option_info[i];

		if (o->type == OPTION_TYPE_INT) {
			snprintf(value, sizeof(value), "%.0f", o->min);
			expect_number(o, value, o->min);
			snprintf(value, sizeof(value), "%.0f", o->max);
			expect_number(o, value, o->max);
			snprintf(value, sizeof(value), "%.0f", o->min - 1);
			expect_beyond(o, value);
			snprintf(value, sizeof(value), "%.0f", o->max + 1);
			expect_beyond(o, value);
			expect_beyond(o, "2147483647");
			expect_beyond(o, "-2147483648");
		} else if (o->type == OPTION_TYPE_FLOAT) {
			snprintf(value, sizeof(value), "%.3f", o->min);
			expect_number(o, value, o->min);
			snprintf(value, sizeof(value), "%.1f", o->max);
			expect_number(o, value, o->max);
			snprintf(value, sizeof(value), "%.0f", o->max); /* a whole number for a fraction */
			expect_number(o, value, o->max);
			snprintf(value, sizeof(value), "%.3f", o->min - 0.001);
			expect_beyond(o, value);
			snprintf(value, sizeof(value), "%.3f", o->max + 0.001);
			expect_beyond(o, value);
		}
	}
}

static void every_choice_is_accepted(void)
{
	struct config config, defaults;

	for (size_t i = 0; i < n_options; i++) {
		const struct option_info *o = &option_info[i];
		char choice[64], quoted[80], allowed[128];

		if (o->type != OPTION_TYPE_ENUM)
			continue;
		option_allowed_text(o, allowed, sizeof(allowed));
		for (int c = 0; option_choice_text(o, c, choice, sizeof(choice)) > 0; c++) {
			config_defaults(&config);
			/* For the one choice that needs more: see compact.conf. */
			config.target_nid = 0;
			config.promote_freq_window_ms = 3000;
			CU_ASSERT_EQUAL(config_set(&config, o->key, choice, error), 0);
			CU_ASSERT_EQUAL(*(int *)((void *)((char *)&config + o->offset)), c);
			snprintf(quoted, sizeof(quoted), "\"%s\"", choice);
			CU_ASSERT_EQUAL(config_set(&config, o->key, quoted, error), 0);
			snprintf(quoted, sizeof(quoted), "%sx", choice);
			CU_ASSERT_EQUAL(config_set(&config, o->key, quoted, error), -EINVAL);
			CU_ASSERT_PTR_NOT_NULL(strstr(error, o->key));
			CU_ASSERT_PTR_NOT_NULL(strstr(error, allowed));
		}
		config_defaults(&defaults);
		CU_ASSERT(refused(setting(o->key, "\"nonsense\""), allowed));
		CU_ASSERT(refused(setting(o->key, "\"\""), allowed));
	}
}

static void texts_of_every_length(void)
{
	char value[600];
	struct config config;

	for (size_t i = 0; i < n_options; i++) {
		const struct option_info *o = &option_info[i];

		if (o->type != OPTION_TYPE_TEXT)
			continue;
		/* Digits are a CPU list and a group's name. */
		memset(value, '0', sizeof(value));
		memset(value + 1, '0', o->size - 1);
		value[0] = '"';
		value[o->size] = '"';
		value[o->size + 1] = '\0';
		CU_ASSERT(accepted(setting(o->key, value), &config));
		CU_ASSERT_EQUAL(strlen((const char *)&config + o->offset), o->size - 1);
		value[o->size] = '0';
		value[o->size + 1] = '"';
		value[o->size + 2] = '\0';
		CU_ASSERT(refused(setting(o->key, value), o->key));
		CU_ASSERT(refused(setting(o->key, "\"a\\tb\""), "plain letters"));
	}
}

static void wrong_types_are_refused(void)
{
	static const struct {
		const char *value;
		bool fits[OPTION_TYPE_RULES + 1];
	} values[] = {
		{ "true", { [OPTION_TYPE_BOOL] = true } },
		{ "1", { [OPTION_TYPE_INT] = true, [OPTION_TYPE_FLOAT] = true } },
		{ "1.5", { [OPTION_TYPE_FLOAT] = true } },
		{ "\"1\"", { [OPTION_TYPE_TEXT] = true, [OPTION_TYPE_ENUM] = true } },
		{ "( \"1\" )", { [OPTION_TYPE_LIST] = true, [OPTION_TYPE_RULES] = true } },
		{ "[ \"1\" ]", { [OPTION_TYPE_LIST] = true } },
		{ "[ ]", { [OPTION_TYPE_LIST] = true, [OPTION_TYPE_RULES] = true } },
		{ "{ }", { 0 } },
		{ "{ a = 1; }", { 0 } },
	};

	for (size_t i = 0; i < n_options; i++) {
		const struct option_info *o = &option_info[i];
		const char *dot = strchr(o->key, '.');
		char part[256];

		for (size_t k = 0; k < N(values); k++) {
			if (values[k].fits[o->type])
				continue;
			snprintf(part, sizeof(part), "wanted, as in: %s = ", dot ? dot + 1 : o->key);
			CU_ASSERT(refused(setting(o->key, values[k].value), part));
			CU_ASSERT_PTR_NOT_NULL(strstr(error, o->key));
		}
		if (o->type == OPTION_TYPE_LIST)
			CU_ASSERT(refused(setting(o->key, "( 1 )"), "item 1 is a whole number"));
	}
}

static void aliases_mean_their_option(void)
{
	struct config config;

	CU_ASSERT(accepted("freq_threshold = 3;", &config));
	CU_ASSERT_EQUAL(config.promote_freq_threshold, 3);
	CU_ASSERT(accepted("promote_freq_window_ms = 1234;", &config));
	CU_ASSERT_EQUAL(config.promote_freq_window_ms, 1234);
	CU_ASSERT(accepted("promote_rate_limit_MBps = 65536;", &config));
	CU_ASSERT_EQUAL(config.promote_rate_mib_per_sec, 65536);
	CU_ASSERT(accepted("kmigrated_sleep_ms = 51;", &config));
	CU_ASSERT_EQUAL(config.promote_scan_sleep_ms, 51);
	CU_ASSERT(accepted("kmigrated_batch_nr = 65;", &config));
	CU_ASSERT_EQUAL(config.promote_batch_pages, 65);
	CU_ASSERT(accepted("enabled_sources = 0x1;", &config));
	CU_ASSERT_EQUAL(config.sources.n, 1);
	CU_ASSERT_STRING_EQUAL(config.sources.item[0], "hint_faults");
	/* The same by tune. */
	config_defaults(&config);
	CU_ASSERT_EQUAL(config_set(&config, "kmigrated_batch_nr", "65", error), 0);
	CU_ASSERT_EQUAL(config.promote_batch_pages, 65);
	CU_ASSERT_EQUAL(config_set(&config, "enabled_sources", "0x1", error), 0);
	CU_ASSERT_STRING_EQUAL(config.sources.item[0], "hint_faults");
	CU_ASSERT_EQUAL(config_set(&config, "enabled_sources", "2", error), 0);
	CU_ASSERT_EQUAL(config.sources.n, 1);
	CU_ASSERT_STRING_EQUAL(config.sources.item[0], "ibs");
	CU_ASSERT_EQUAL(config_set(&config, "enabled_sources", "0x3", error), 0);
	CU_ASSERT_EQUAL(config.sources.n, 2);
	CU_ASSERT_STRING_EQUAL(config.sources.item[0], "ibs");
	CU_ASSERT_STRING_EQUAL(config.sources.item[1], "hint_faults");
	CU_ASSERT_EQUAL(config_set(&config, "enabled_sources", "4", error), -EINVAL);
	CU_ASSERT_EQUAL(config_set(&config, "enabled_sources", "hint_faults", error), -EINVAL);
	CU_ASSERT_EQUAL(config_set(&config, "enabled_sources", "", error), -EINVAL);
}

static void aliases_twice_are_refused(void)
{
	static const char *const pairs[][2] = {
#define OPTION_ALIAS(key, target) { key, target },
#include "options.def"
#include "options_undef.h"
	};

	for (size_t i = 0; i < N(pairs); i++) {
		const struct option_info *o = option_find(pairs[i][1]);
		const char *value = o->type == OPTION_TYPE_LIST ? "1" : o->default_text;
		char text[2048], part[256];

		snprintf(text, sizeof(text), "%s = %s; %s", pairs[i][0], value, setting(o->key, o->default_text));
		snprintf(part, sizeof(part), "%s: this is the same as %s, which line 1 sets", o->key, pairs[i][0]);
		CU_ASSERT(refused(text, part));
		snprintf(text, sizeof(text), "%s %s = %s;", setting(o->key, o->default_text), pairs[i][0], value);
		snprintf(part, sizeof(part), "%s: this is the same as %s, which line 1 sets", pairs[i][0], o->key);
		CU_ASSERT(refused(text, part));
		/* Integers only, even where the option takes a text. */
		CU_ASSERT(refused(setting(pairs[i][0], "\"1\""), "a whole number is wanted"));
		CU_ASSERT(refused(setting(pairs[i][0], "1.0"), "a whole number is wanted"));
		CU_ASSERT(refused(setting(pairs[i][0], "[ \"auto\" ]"), "a whole number is wanted"));
	}
}

/* One letter away from any key, the key is what is named. */
static void typos_find_their_key(void)
{
	for (size_t i = 0; i < n_options; i++) {
		const char *key = option_info[i].key;
		size_t dot = strcspn(key, "."), len = strlen(key);
		char typo[128], part[256];
		struct config config;

		for (size_t at = key[dot] ? dot + 2 : 1; at < len; at++) {
			snprintf(typo, sizeof(typo), "%.*sX%s", (int)at, key, key + at); /* one too many */
			snprintf(part, sizeof(part), "%s: there is no such setting; did you mean %s?", typo, key);
			CU_ASSERT(refused(setting(typo, "1"), part));
			snprintf(typo, sizeof(typo), "%.*sX%s", (int)at, key, key + at + 1); /* another */
			snprintf(part, sizeof(part), "%s: there is no such setting; did you mean %s?", typo, key);
			CU_ASSERT(refused(setting(typo, "1"), part));
			config_defaults(&config);
			CU_ASSERT_EQUAL(config_set(&config, typo, "1", error), -EINVAL);
			CU_ASSERT_STRING_EQUAL(error, part);
		}
	}
}

static void long_names_are_no_trouble(void)
{
	char text[8192];
	struct config config;

	memset(text, 'a', sizeof(text));
	memcpy(text + sizeof(text) - 6, " = 1;", 6);
	CU_ASSERT(refused(text, "there is no such setting"));
	config_defaults(&config);
	text[sizeof(text) - 6] = '\0';
	CU_ASSERT_EQUAL(config_set(&config, text, "1", error), -EINVAL);
	CU_ASSERT_EQUAL(strlen(error), CONFIG_ERROR_MAX - 1);
	CU_ASSERT_STRING_EQUAL(error + CONFIG_ERROR_MAX - 4, "...");
	/* Not within a character. */
	for (size_t shift = 0; shift < 2; shift++) {
		text[0] = 'a';
		for (size_t i = shift; i + 1 < 1200; i += 2)
			memcpy(text + i, "\xc3\xa4", 2);
		CU_ASSERT_EQUAL(config_set(&config, text, "1", error), -EINVAL);
		CU_ASSERT_STRING_EQUAL(error + strlen(error) - 5, "\xc3\xa4...");
	}
	CU_ASSERT_EQUAL(config_set(&config, "a\nb\033", "1", error), -EINVAL);
	CU_ASSERT_EQUAL(strncmp(error, "a?b?: ", 6), 0);
}

/* Editors put it there, unseen. */
static void byte_order_marks_are_refused(void)
{
	CU_ASSERT(refused("\xef\xbb\xbf", "FILE:1: the file begins with a byte order mark: save it as plain UTF-8"));
	CU_ASSERT(refused("\xef\xbb\xbfmode = \"observe\";", "the file begins with a byte order mark"));
	CU_ASSERT(refused("\xef\xbb", "\"??\" can't stand here"));
}

/* Messages go to D-Bus and JSON, which take UTF-8 only. */
static void messages_are_whole_characters(void)
{
	static const struct {
		const char *text, *part;
	} cases[] = {
		{ "mode = \x93promote\x94;", "put text in double quotes: \"?promote?\"" }, /* of an old code page */
		{ "\xe2\x80", "\"??\" can't stand here" },
		{ "\xe2\x82\xac = 1;", "\"\xe2\x82\xac\" can't stand here" },
		{ "\xf0\x9f\x98\x80 = 1;", "\"\xf0\x9f\x98\x80\" can't stand here" },
		{ "\xed\xa0\x80 = 1;", "\"???\" can't stand here" }, /* half of a pair */
		{ "\xc0\x80 = 1;", "\"??\" can't stand here" },      /* longer than need be */
		{ "\xc2\x9b = 1;", "\"??\" can't stand here" },      /* what terminals obey */
		{ "memory_max_mib = 5\xc2\xb5;", "5 is followed by \xc2\xb5: " },
	};
	char text[256], part[256];

	for (size_t i = 0; i < N(cases); i++)
		CU_ASSERT(refused(cases[i].text, cases[i].part));
	/* Wherever the cut falls. */
	for (int shift = 0; shift < 3; shift++) {
		int len = snprintf(text, sizeof(text), "mode = %.*s", shift, "aa");
		int n = 0;

		for (; n < 40; n++)
			len += snprintf(text + len, sizeof(text) - (size_t)len, "\xe2\x82\xac");
		snprintf(part, sizeof(part), "put text in double quotes: \"%.*s...\"", (40 - shift) / 3 * 3 + shift,
			 text + 7);
		CU_ASSERT(refused(text, part));
	}
}

static void tune_takes_what_it_shows(void)
{
	static const struct {
		const char *key, *value, *shown;
	} cases[] = {
		{ "mode", "promote", "promote" },
		{ "mode", "\"promote\"", "promote" },
		{ "tiers", "0-1", "( \"0-1\" )" },
		{ "tiers", "0-1,4", "( \"0-1,4\" )" },
		{ "tiers", "\"0-1\"", "( \"0-1\" )" },
		{ "tiers", "( \"0-1\", \"2\" )", "( \"0-1\", \"2\" )" },
		{ "tiers", "(\"0-1\",\"2\")", "( \"0-1\", \"2\" )" },
		{ "tiers", "[ \"0-1\" , \"2\"\t]  ", "( \"0-1\", \"2\" )" },
		{ "tiers", "( )", "( )" },
		{ "tiers", "[]", "( )" },
		{ "sources", "hint_faults", "( \"hint_faults\" )" },
		{ "sampling.cpus", "0-3,8", "0-3,8" },
		{ "control.group", "", "" },
		{ "promote.headroom_percent", "12.25", "12.25" },
		{ "promote.headroom_percent", "7", "7.0" },
		{ "promote.rate_mib_per_sec", "0", "0" },
		{ "promote.rate_mib_per_sec", "0x100", "256" },
		{ "promote.rate_mib_per_sec", "0XfF", "255" },
		{ "promote.headroom_percent", "0x10", "16.0" },
		{ "memory_max_mib", "0020", "20" },
		{ "hint_faults.manage_sysctls", "true", "true" },
	};

	for (size_t i = 0; i < N(cases); i++) {
		const struct option_info *o = option_find(cases[i].key);
		struct config config, again;
		char text[256];

		config_defaults(&config);
		CU_ASSERT_EQUAL(config_set(&config, cases[i].key, cases[i].value, error), 0);
		CU_ASSERT_EQUAL(config_get_text(&config, o, text, sizeof(text)), (int)strlen(cases[i].shown));
		CU_ASSERT_STRING_EQUAL(text, cases[i].shown);
		config_defaults(&again);
		CU_ASSERT_EQUAL(config_set(&again, cases[i].key, text, error), 0);
		CU_ASSERT_EQUAL(memcmp(&config, &again, sizeof(config)), 0);
		for (size_t k = 0; k < n_options; k++)
			CU_ASSERT_TRUE(config_same(&config, &again, &option_info[k]));
	}
}

static void tune_refuses(void)
{
	static const struct {
		const char *key, *value, *error;
	} cases[] = {
		{ "tiers", "( \"0\" \"1\" )", "tiers: a list of texts is wanted, as in: ( \"0-1\", \"2\" )" },
		{ "tiers", "( \"0\", )", "tiers: a list of texts is wanted" },
		{ "tiers", "( 0 )", "tiers: a list of texts is wanted" },
		{ "tiers", "( \"0\"", "tiers: a list of texts is wanted" },
		{ "tiers", "( \"0\" ]", "tiers: a list of texts is wanted" },
		{ "tiers", "( \"0", "tiers: a list of texts is wanted" },
		{ "tiers", "( \"0\" ) x", "tiers: a list of texts is wanted" },
		{ "tiers", "(", "tiers: a list of texts is wanted" },
		{ "tiers", "", "tiers: \"\" is no list of nodes" },
		{ "tiers", "( \"0\", \"0\" )", "tiers: \"0\" names a node that stands in an earlier tier" },
		{ "tiers", "\"0", "tiers: only plain letters" },
		{ "sources", "", "sources: there is no source \"\"" },
		{ "sources", "( )", "sources: the list is empty" },
		{ "sampling.cpus", "none", "sampling.cpus: \"none\" is no list of CPUs" },
		{ "promote.rate_mib_per_sec", "",
		  "promote.rate_mib_per_sec: a whole number is wanted, in MiB/s, as in: 1024" },
		{ "promote.rate_mib_per_sec", "256M",
		  "promote.rate_mib_per_sec: a whole number is wanted, in MiB/s, as in: 1024" },
		{ "promote.rate_mib_per_sec", "0x", "promote.rate_mib_per_sec: a whole number is wanted" },
		{ "promote.rate_mib_per_sec", "0x1g", "promote.rate_mib_per_sec: a whole number is wanted" },
		{ "promote.rate_mib_per_sec", "-0x1", "promote.rate_mib_per_sec: a whole number is wanted" },
		{ "promote.rate_mib_per_sec", "0xffffffffffffffff1",
		  "promote.rate_mib_per_sec: 0xffffffffffffffff1 is out of range" },
		{ "promote.rate_mib_per_sec", "0x100001", "promote.rate_mib_per_sec: 1048577 is out of range" },
		{ "enabled_sources", "0x10", "enabled_sources: 16 is out of range" },
		{ "promote.rate_mib_per_sec", "99999999999999999999",
		  "promote.rate_mib_per_sec: 99999999999999999999 is out of range" },
		{ "promote.headroom_percent", "1e1",
		  "promote.headroom_percent: a number is wanted, in percent, as in: 3.0" },
		{ "promote.headroom_percent", "3%", "promote.headroom_percent: a number is wanted, in percent" },
		{ "hint_faults.manage_sysctls", "yes", "hint_faults.manage_sysctls: true or false is wanted" },
		{ "promote", "1", "promote: this is a group; name one of its settings, as in promote.policy" },
		{ "", "1", "there is no such setting" },
		{ ".", "1", ".: there is no such setting" },
		{ "records", "compact", "records: \"compact\" keeps no node for each page" },
		{ "control.group", "a b\"c", "control.group: only plain letters" },
	};

	for (size_t i = 0; i < N(cases); i++) {
		struct config config;

		config_defaults(&config);
		untouched = config;
		CU_ASSERT_EQUAL(config_set(&config, cases[i].key, cases[i].value, error), -EINVAL);
		CU_ASSERT(is_untouched(&config));
		CU_ASSERT_EQUAL(strncmp(error, cases[i].error, strlen(cases[i].error)), 0);
		if (strncmp(error, cases[i].error, strlen(cases[i].error)) != 0)
			printf("  %s=%s -> %s\n", cases[i].key, cases[i].value, error);
	}
}

/* tune blames the option that no longer fits, also when another one was changed. */
static void tune_checks_the_whole(void)
{
	struct config config;

	config_defaults(&config);
	CU_ASSERT_EQUAL(config_set(&config, "target_nid", "0", error), 0);
	CU_ASSERT_EQUAL(config_set(&config, "promote.freq_window_ms", "3000", error), 0);
	CU_ASSERT_EQUAL(config_set(&config, "records", "compact", error), 0);
	untouched = config;
	CU_ASSERT_EQUAL(config_set(&config, "promote.freq_window_ms", "3969", error), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(error, "records: "));
	CU_ASSERT_PTR_NOT_NULL(strstr(error, "promote.freq_window_ms"));
	CU_ASSERT_EQUAL(config_set(&config, "promote.freq_threshold", "4", error), -EINVAL);
	CU_ASSERT_EQUAL(config_set(&config, "target_nid", "-1", error), -EINVAL);
	CU_ASSERT(is_untouched(&config));
	CU_ASSERT_EQUAL(config_set(&config, "promote.freq_window_ms", "3968", error), 0);
	CU_ASSERT_EQUAL(config_set(&config, "promote.freq_threshold", "3", error), 0);
}

/* Each file of tests/unit/config says in its first line what must come of it. */
static void check_file(const char *folder, const char *name)
{
	char file[PATH_MAX + 256], text[16384], expected[256], message[CONFIG_ERROR_MAX];
	struct config config;
	size_t n;
	FILE *f;

	snprintf(file, sizeof(file), "%s/%.255s", folder, name);
	f = fopen(file, "re");
	CU_ASSERT_PTR_NOT_NULL(f);
	if (!f)
		return;
	n = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	text[n] = '\0';
	if (strncmp(text, "# accepted\n", 11) == 0) {
		CU_ASSERT(accepted(text, &config));
		return;
	}
	CU_ASSERT_EQUAL(sscanf(text, "# refused: %255[^\n]", expected), 1);
	snprintf(message, sizeof(message), "FILE%s", expected);
	CU_ASSERT_EQUAL(parse(text, &config), -EINVAL);
	CU_ASSERT(is_untouched(&config));
	CU_ASSERT_PTR_NULL(strchr(error, '\n'));
	bool ok = strncmp(error, message, strlen(message)) == 0;

	CU_ASSERT(ok);
	if (!ok)
		printf("  %s: %s\n  wanted: %s\n", name, error, message);
}

static void files_come_out_as_they_say(void)
{
	const char *slash = strrchr(__FILE__, '/');
	char folder[PATH_MAX];
	struct dirent *entry;
	int n = 0;
	DIR *dir;

	snprintf(folder, sizeof(folder), "%.*sconfig", slash ? (int)(slash - __FILE__ + 1) : 0, __FILE__);
	dir = opendir(folder);
	CU_ASSERT_PTR_NOT_NULL(dir);
	if (!dir)
		return;
	while ((entry = readdir(dir))) {
		if (!strstr(entry->d_name, ".conf"))
			continue;
		check_file(folder, entry->d_name);
		n++;
	}
	closedir(dir);
	CU_ASSERT(n > 60);
}

static void every_option_of_the_file_arrives(void)
{
	struct config c;

	CU_ASSERT(accepted("mode = \"promote\"; sources = [ \"hint_faults\" ]; tiers = ( \"0-1\", \"2\" ); target_nid "
			   "= 0;\n"
			   "memory_max_mib = 0x400; threads = { collectors = 2; queue_samples = 8192; };\n"
			   "sampling = { cpus = \"0-3,8\"; }; hint_faults = { manage_sysctls = true; };\n"
			   "promote = { headroom_percent = 5; batch_pages = 1024; }; control = { group = \"wheel\"; };",
			   &c));
	CU_ASSERT_EQUAL(c.mode, MODE_PROMOTE);
	CU_ASSERT_EQUAL(c.tiers.n, 2);
	CU_ASSERT_STRING_EQUAL(c.tiers.item[1], "2");
	CU_ASSERT_EQUAL(c.target_nid, 0);
	CU_ASSERT_EQUAL(c.memory_max_mib, 1024);
	CU_ASSERT_EQUAL(c.threads_collectors, 2);
	CU_ASSERT_EQUAL(c.threads_queue_samples, 8192);
	CU_ASSERT_EQUAL(c.threads_ring_kib, 512);
	CU_ASSERT_STRING_EQUAL(c.sampling_cpus, "0-3,8");
	CU_ASSERT_EQUAL(c.hint_faults_manage_sysctls, true);
	CU_ASSERT_EQUAL(c.promote_headroom_percent, 5.0);
	CU_ASSERT_EQUAL(c.promote_batch_pages, 1024);
	CU_ASSERT_STRING_EQUAL(c.control_group, "wheel");
}

/* A text that is read for its type only must not be read by the locale. */
static void fractions_ignore_the_locale(void)
{
	struct config config;

	if (!setlocale(LC_NUMERIC, "de_DE.UTF-8")) {
		test_skip("locale de_DE.UTF-8 is not installed");
		return;
	}
	char text[64];

	CU_ASSERT(accepted("promote = { headroom_percent = 2.5; };", &config));
	CU_ASSERT_EQUAL(config.promote_headroom_percent, 2.5);
	CU_ASSERT(config_get_text(&config, option_find("promote.headroom_percent"), text, sizeof(text)) > 0);
	CU_ASSERT_STRING_EQUAL(text, "2.5");
	setlocale(LC_NUMERIC, "C");
}

/*
 * Files.
 */

static char path[] = "/tmp/pghot-config-XXXXXX";

static void write_file(const char *text, size_t size, mode_t mode)
{
	int fd;

	unlink(path);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	CU_ASSERT(fd >= 0);
	CU_ASSERT_EQUAL(write(fd, text, size), (ssize_t)size);
	CU_ASSERT_EQUAL(fchmod(fd, mode), 0);
	close(fd);
}

static int load(struct config *ret)
{
	memset(&untouched, 0x5a, sizeof(untouched));
	*ret = untouched;
	error[0] = '\0';
	return config_load(path, ret, error);
}

static void begin(void)
{
	int fd = mkstemp(path);

	CU_ASSERT(fd >= 0);
	close(fd);
}

static void end(void)
{
	CU_ASSERT_EQUAL(unlink(path), 0);
}

static void loads_a_file(void)
{
	struct config config;
	char wanted[PATH_MAX];

	write_file("target_nid = 3;", 15, 0644);
	CU_ASSERT_EQUAL(load(&config), 0);
	CU_ASSERT_EQUAL(config.target_nid, 3);
	CU_ASSERT_EQUAL(config.memory_max_mib, 1024);
	write_file("", 0, 0400);
	CU_ASSERT_EQUAL(load(&config), 0);
	write_file("a\n= 1", 5, 0644);
	CU_ASSERT_EQUAL(load(&config), -EINVAL);
	CU_ASSERT(is_untouched(&config));
	snprintf(wanted, sizeof(wanted), "%s:1: a: ", path);
	CU_ASSERT_EQUAL(strncmp(error, wanted, strlen(wanted)), 0);
}

static void files_that_are_none(void)
{
	struct config config = { 0 };
	char fifo[64];

	CU_ASSERT_EQUAL(config_load("/nonexistent/pghotd.conf", &config, error), -ENOENT);
	CU_ASSERT_STRING_EQUAL(error, "/nonexistent/pghotd.conf: No such file or directory");
	CU_ASSERT_EQUAL(config_load("/tmp", &config, error), -EINVAL);
	CU_ASSERT_STRING_EQUAL(error, "/tmp: this is no ordinary file");
	CU_ASSERT_EQUAL(config_load("/dev/zero", &config, error), -EINVAL);
	snprintf(fifo, sizeof(fifo), "%s.fifo", path);
	CU_ASSERT_EQUAL(mkfifo(fifo, 0600), 0);
	CU_ASSERT_EQUAL(config_load(fifo, &config, error), -EINVAL); /* and doesn't wait for a writer */
	unlink(fifo);
}

static void files_with_what_is_no_text(void)
{
	struct config config;
	size_t size = (1u << 20) + 1;
	char *large = malloc(size);

	write_file("mode\n= \"a\0b\";", 13, 0644);
	CU_ASSERT_EQUAL(load(&config), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(error, ":2: there is a byte of value 0"));
	CU_ASSERT(is_untouched(&config));
	memset(large, '\n', size);
	write_file(large, size, 0644);
	CU_ASSERT_EQUAL(load(&config), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(error, "larger than 1048576 bytes"));
	CU_ASSERT(is_untouched(&config));
	write_file(large, size - 1, 0644);
	CU_ASSERT_EQUAL(load(&config), 0);
	/* From memory the same bound holds. */
	large[size - 1] = '\0';
	CU_ASSERT_EQUAL(parse(large, &config), 0);
	free(large);
	large = malloc(size + 1);
	memset(large, '\n', size);
	large[size] = '\0';
	CU_ASSERT_EQUAL(parse(large, &config), -EINVAL);
	CU_ASSERT(is_untouched(&config));
	free(large);
}

static void files_that_others_may_write(void)
{
	static const char text[] = "target_nid = 3;";
	struct config config;

	for (unsigned int mode = 0; mode < 01000; mode++) {
		if (!(mode & 0400) && geteuid() != 0)
			continue; /* we can't read it */
		write_file(text, strlen(text), mode);
		bool bad = (mode & S_IWOTH) || ((mode & S_IWGRP) && getegid() != 0);
		int r = load(&config);

		CU_ASSERT_EQUAL(r, bad ? -EPERM : 0);
		if (!bad)
			continue;
		CU_ASSERT(is_untouched(&config));
		CU_ASSERT_PTR_NOT_NULL(strstr(error, mode & S_IWOTH ? "chmod o-w " : "chmod g-w "));
		CU_ASSERT_PTR_NOT_NULL(strstr(error, path));
	}
}

static void files_of_other_people(void)
{
	struct config config;

	if (geteuid() != 0) {
		test_skip("only root can give files away");
		return;
	}
	write_file("", 0, 0644);
	CU_ASSERT_EQUAL(chown(path, 1234, 0), 0);
	CU_ASSERT_EQUAL(load(&config), -EPERM);
	CU_ASSERT_PTR_NOT_NULL(strstr(error, "belongs to user 1234"));
	CU_ASSERT_PTR_NOT_NULL(strstr(error, "chown root /tmp/"));
	CU_ASSERT(is_untouched(&config));
	CU_ASSERT_EQUAL(chown(path, 0, 1234), 0);
	CU_ASSERT_EQUAL(load(&config), 0);
	CU_ASSERT_EQUAL(chmod(path, 0664), 0);
	CU_ASSERT_EQUAL(load(&config), -EPERM);
	CU_ASSERT_PTR_NOT_NULL(strstr(error, "group 1234 may change it (mode 0664); take that away: chmod g-w /tmp/"));
	CU_ASSERT(is_untouched(&config));
	CU_ASSERT_EQUAL(chown(path, 0, 0), 0);
	CU_ASSERT_EQUAL(chmod(path, 0664), 0);
	CU_ASSERT_EQUAL(load(&config), 0);
}

TEST_MAIN(config, TEST(nothing_given_is_the_defaults), TEST(every_default_is_accepted), TEST(numbers_at_their_edges),
	  TEST(every_choice_is_accepted), TEST(texts_of_every_length), TEST(wrong_types_are_refused),
	  TEST(aliases_mean_their_option), TEST(aliases_twice_are_refused), TEST(typos_find_their_key),
	  TEST(long_names_are_no_trouble), TEST(byte_order_marks_are_refused), TEST(messages_are_whole_characters),
	  TEST(tune_takes_what_it_shows), TEST(tune_refuses), TEST(tune_checks_the_whole),
	  TEST(files_come_out_as_they_say), TEST(every_option_of_the_file_arrives), TEST(fractions_ignore_the_locale),
	  TEST(begin), TEST(loads_a_file), TEST(files_that_are_none), TEST(files_with_what_is_no_text),
	  TEST(files_that_others_may_write), TEST(files_of_other_people), TEST(end))
