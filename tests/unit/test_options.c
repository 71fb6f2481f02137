/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "config.h"
#include "harness.h"

static const char *const alias_keys[] = {
#define OPTION_ALIAS(key, target) key,
#include "options.def"
#include "options_undef.h"
};

#define N(array) (sizeof(array) / sizeof((array)[0]))

static void table_is_whole(void)
{
	for (size_t i = 0; i < n_options; i++) {
		const struct option_info *o = &option_info[i];
		bool number = o->type == OPTION_TYPE_INT || o->type == OPTION_TYPE_FLOAT;

		CU_ASSERT(strspn(o->key, "abcdefghijklmnopqrstuvwxyz_.0123456789") == strlen(o->key));
		CU_ASSERT(strlen(o->line) > 10);
		CU_ASSERT_PTR_NOT_NULL(o->unit);
		CU_ASSERT(strlen(o->default_text) > 0);
		CU_ASSERT(o->offset + o->size <= sizeof(struct config));
		CU_ASSERT(number ? o->min < o->max : o->min == 0 && o->max == 0);
		CU_ASSERT_EQUAL(o->type == OPTION_TYPE_ENUM, o->choices[0] != '\0');
		/* What the scanner lets through. */
		if (o->type == OPTION_TYPE_INT)
			CU_ASSERT(o->min >= INT32_MIN && o->max <= INT32_MAX);
		CU_ASSERT_PTR_EQUAL(option_find(o->key), o);
		for (size_t j = 0; j < i; j++) {
			CU_ASSERT_NOT_EQUAL(strcmp(o->key, option_info[j].key), 0);
			CU_ASSERT(o->offset >= option_info[j].offset + option_info[j].size);
		}
	}
	CU_ASSERT_PTR_NULL(option_find(""));
	CU_ASSERT_PTR_NULL(option_find("promote"));
	CU_ASSERT_PTR_NULL(option_find("promote."));
	CU_ASSERT_PTR_NULL(option_find("burst_ms"));
}

static size_t group_of(const char *key)
{
	const char *dot = strchr(key, '.');

	return dot ? (size_t)(dot - key) : 0;
}

/* Or the default file would open a group twice, which libconfig refuses. */
static void groups_stand_together(void)
{
	for (size_t i = 1; i < n_options; i++) {
		const char *key = option_info[i].key;
		size_t len = group_of(key);

		if (group_of(option_info[i - 1].key) == len && strncmp(option_info[i - 1].key, key, len) == 0)
			continue;
		CU_ASSERT(len > 0); /* the top level comes first */
		for (size_t j = 0; j < i; j++)
			CU_ASSERT(group_of(option_info[j].key) != len || strncmp(option_info[j].key, key, len) != 0);
	}
}

static void aliases_hide_nothing(void)
{
	for (size_t i = 0; i < N(alias_keys); i++) {
		const struct option_info *target = option_find(alias_keys[i]);

		CU_ASSERT_PTR_NOT_NULL(target);
		CU_ASSERT_NOT_EQUAL(strcmp(target->key, alias_keys[i]), 0);
		CU_ASSERT_PTR_NULL(strchr(alias_keys[i], '.'));
		CU_ASSERT(target->type == OPTION_TYPE_INT || strcmp(alias_keys[i], "enabled_sources") == 0);
	}
}

static const struct option_info a_choice = { .type = OPTION_TYPE_ENUM, .choices = "one|two|twenty", .unit = "" };

static void choices_by_name_and_number(void)
{
	static const char *const wrong[] = { "", "on", "onetwo", "one|two", "twent", "twentyy", "|" };
	char buf[8];

	CU_ASSERT_EQUAL(option_choice_find(&a_choice, "one"), 0);
	CU_ASSERT_EQUAL(option_choice_find(&a_choice, "two"), 1);
	CU_ASSERT_EQUAL(option_choice_find(&a_choice, "twenty"), 2);
	for (size_t i = 0; i < N(wrong); i++)
		CU_ASSERT_EQUAL(option_choice_find(&a_choice, wrong[i]), -ENOENT);
	CU_ASSERT_EQUAL(option_choice_text(&a_choice, 0, buf, sizeof(buf)), 3);
	CU_ASSERT_STRING_EQUAL(buf, "one");
	CU_ASSERT_EQUAL(option_choice_text(&a_choice, 2, buf, sizeof(buf)), 6);
	CU_ASSERT_STRING_EQUAL(buf, "twenty");
	CU_ASSERT_EQUAL(option_choice_text(&a_choice, 2, buf, 7), 6);
	CU_ASSERT_EQUAL(option_choice_text(&a_choice, 2, buf, 6), -ENOSPC);
	CU_ASSERT_EQUAL(option_choice_text(&a_choice, 3, buf, sizeof(buf)), -ENOENT);
	CU_ASSERT_EQUAL(option_choice_text(&a_choice, -1, buf, sizeof(buf)), -ENOENT);
}

static void allowed_is_said_in_words(void)
{
	char buf[128];

	option_allowed_text(&a_choice, buf, sizeof(buf));
	CU_ASSERT_STRING_EQUAL(buf, "\"one\", \"two\" or \"twenty\"");
	option_allowed_text(option_find("promote.rate_mib_per_sec"), buf, sizeof(buf));
	CU_ASSERT_STRING_EQUAL(buf, "0 to 1048576 MiB/s");
	option_allowed_text(option_find("target_nid"), buf, sizeof(buf));
	CU_ASSERT_STRING_EQUAL(buf, "-1 to 1023");
	option_allowed_text(option_find("promote.headroom_percent"), buf, sizeof(buf));
	CU_ASSERT_STRING_EQUAL(buf, "0 to 50 percent");
	for (size_t size = 1; size < 40; size++) {
		memset(buf, 'x', sizeof(buf));
		option_allowed_text(&a_choice, buf, size);
		CU_ASSERT(memchr(buf, '\0', size) != NULL);
		CU_ASSERT_EQUAL(buf[size], 'x');
	}
}

static void defaults_are_what_the_table_says(void)
{
	struct config config, other;
	char text[4096];

	memset(&config, 0xff, sizeof(config));
	memset(&other, 0, sizeof(other));
	config_defaults(&config);
	config_defaults(&other);
	CU_ASSERT_EQUAL(memcmp(&config, &other, sizeof(config)), 0); /* no byte left over */
	CU_ASSERT_EQUAL(config.mode, MODE_PROMOTE);
	CU_ASSERT_EQUAL(config.records, RECORDS_PRECISE);
	CU_ASSERT_EQUAL(config.promote_policy, POLICY_REGION);
	CU_ASSERT_EQUAL(config.promote_rate_mib_per_sec, 1024);
	CU_ASSERT_EQUAL(config.promote_headroom_percent, 3.0);
	CU_ASSERT_EQUAL(config.sources.n, 1);
	CU_ASSERT_STRING_EQUAL(config.sources.item[0], "auto");
	CU_ASSERT_EQUAL(config.tiers.n, 0);
	CU_ASSERT_STRING_EQUAL(config.control_group, "pghot");
	for (size_t i = 0; i < n_options; i++) {
		const struct option_info *o = &option_info[i];
		bool quoted = o->type == OPTION_TYPE_ENUM || o->type == OPTION_TYPE_TEXT;

		CU_ASSERT(config_get_text(&config, o, text, sizeof(text)) > 0);
		CU_ASSERT_EQUAL(strncmp(o->default_text + quoted, text, strlen(text)), 0);
		CU_ASSERT_EQUAL(strlen(o->default_text), strlen(text) + 2 * quoted);
	}
}

static void text_needs_room_for_all(void)
{
	struct config config;
	char text[256], cut[256];

	config_defaults(&config);
	config.tiers = (struct config_list){ .n = 3, .item = { "0-1", "2", "3,5-9" } };
	for (size_t i = 0; i < n_options; i++) {
		int len = config_get_text(&config, &option_info[i], text, sizeof(text));

		CU_ASSERT_EQUAL(len, (int)strlen(text));
		for (int size = 0; size <= len; size++) {
			memset(cut, 'x', sizeof(cut));
			CU_ASSERT_EQUAL(config_get_text(&config, &option_info[i], cut, (size_t)size), -ENOSPC);
			CU_ASSERT_EQUAL(cut[size], 'x');
			CU_ASSERT(size == 0 || cut[0] == '\0');
		}
		CU_ASSERT_EQUAL(config_get_text(&config, &option_info[i], cut, (size_t)len + 1), len);
		CU_ASSERT_STRING_EQUAL(cut, text);
	}
	config_get_text(&config, option_find("tiers"), text, sizeof(text));
	CU_ASSERT_STRING_EQUAL(text, "( \"0-1\", \"2\", \"3,5-9\" )");
	config.mode = 7; /* of no choice */
	CU_ASSERT_EQUAL(config_get_text(&config, option_find("mode"), text, sizeof(text)), -ENOENT);
}

static void fractions_keep_their_value(void)
{
	static const struct {
		double value;
		const char *text;
	} cases[] = {
		{ 3, "3.0" }, { 0, "0.0" }, { 0.1, "0.1" }, { 12.25, "12.25" }, { 1.0 / 3, "0.3333333333333333" }
	};
	struct config config;
	char text[64];

	config_defaults(&config);
	for (size_t i = 0; i < N(cases); i++) {
		config.promote_headroom_percent = cases[i].value;
		CU_ASSERT(config_get_text(&config, option_find("promote.headroom_percent"), text, sizeof(text)) > 0);
		CU_ASSERT_STRING_EQUAL(text, cases[i].text);
	}
}

static void same_looks_at_one_option(void)
{
	struct config a, b;

	config_defaults(&a);
	config_defaults(&b);
	/* What is behind the end of a text or a list is no difference. */
	b.control_group[sizeof(b.control_group) - 1] = 'x';
	strcpy(b.sources.item[1], "rest");
	for (size_t i = 0; i < n_options; i++)
		CU_ASSERT_TRUE(config_same(&a, &b, &option_info[i]));
	b.mode = MODE_OBSERVE;
	b.target_nid = 2;
	b.promote_headroom_percent = 3.5;
	b.hint_faults_manage_sysctls = true;
	strcpy(b.sampling_cpus, "0");
	strcpy(b.sources.item[0], "hint_faults");
	b.tiers.n = 1;
	for (size_t i = 0; i < n_options; i++) {
		const char *key = option_info[i].key;
		bool differs = strcmp(key, "mode") == 0 || strcmp(key, "target_nid") == 0 ||
			       strcmp(key, "promote.headroom_percent") == 0 ||
			       strcmp(key, "hint_faults.manage_sysctls") == 0 || strcmp(key, "sampling.cpus") == 0 ||
			       strcmp(key, "sources") == 0 || strcmp(key, "tiers") == 0;

		CU_ASSERT_EQUAL(config_same(&a, &b, &option_info[i]), !differs);
	}
}

static char *default_file(void)
{
	static char text[64 * 1024];
	char path[] = "/tmp/pghot-options-XXXXXX";
	int fd = mkstemp(path);
	ssize_t n;

	CU_ASSERT_EQUAL(config_write_defaults(path), 0);
	n = read(fd, text, sizeof(text) - 1);
	CU_ASSERT(n > 1000);
	text[n > 0 ? n : 0] = '\0';
	close(fd);
	unlink(path);
	return text;
}

static void default_file_is_all_comment(void)
{
	char *text = default_file(), *save = NULL, error[CONFIG_ERROR_MAX];
	struct config config, defaults;

	config_defaults(&defaults);
	memset(&config, 0xff, sizeof(config));
	CU_ASSERT_EQUAL(config_parse(text, "default", &config, error), 0);
	CU_ASSERT_EQUAL(memcmp(&config, &defaults, sizeof(config)), 0);
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		CU_ASSERT_EQUAL(line[0], '#');
		CU_ASSERT(strlen(line) <= 100);
		CU_ASSERT_EQUAL(strpbrk(line, "\t\r"), NULL);
		CU_ASSERT_NOT_EQUAL(line[strlen(line) - 1], ' ');
	}
}

/* As a person would: the # goes where a setting, or the end of a group, follows. */
static char *uncommented(char *text)
{
	static char out[64 * 1024];
	char *save = NULL;
	size_t len = 0;

	out[0] = '\0';
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		const char *p = line + 1 + strspn(line + 1, " ");
		size_t blanks = (size_t)(p - line) - 1, word = strspn(p, "abcdefghijklmnopqrstuvwxyz0123456789_");
		bool setting = (blanks == 0 || blanks == 4) && word > 0 && strncmp(p + word, " = ", 3) == 0;

		if (setting || strcmp(line, "#};") == 0)
			line++;
		len += (size_t)snprintf(out + len, sizeof(out) - len, "%s\n", line);
	}
	return out;
}

static void default_file_uncommented_gives_the_defaults(void)
{
	char *text = uncommented(default_file()), error[CONFIG_ERROR_MAX] = "";
	struct config config, defaults;

	config_defaults(&defaults);
	CU_ASSERT_EQUAL(config_parse(text, "default", &config, error), 0);
	CU_ASSERT_STRING_EQUAL(error, "");
	CU_ASSERT_EQUAL(memcmp(&config, &defaults, sizeof(config)), 0);
	/* Every setting is there, and is read: with another value the result is another. */
	for (size_t i = 0; i < n_options; i++) {
		const char *dot = strchr(option_info[i].key, '.');
		char setting[128];

		snprintf(setting, sizeof(setting), "\n%s%s = ", dot ? "    " : "", dot ? dot + 1 : option_info[i].key);
		CU_ASSERT_PTR_NOT_NULL(strstr(text, setting));
		CU_ASSERT_PTR_NOT_NULL(strstr(text, option_info[i].change == OPTION_LIVE ? "on reload" : "on restart"));
	}
	char *burst = strstr(text, "burst_ms = 100;");

	CU_ASSERT_PTR_NOT_NULL(burst);
	if (burst)
		memcpy(burst, "burst_ms = 200;", strlen("burst_ms = 200;"));
	CU_ASSERT_EQUAL(config_parse(text, "default", &config, error), 0);
	CU_ASSERT_EQUAL(config.promote_burst_ms, 200);
}

static void default_file_that_cannot_be_written(void)
{
	CU_ASSERT_EQUAL(config_write_defaults("/nonexistent/pghotd.conf"), -ENOENT);
	CU_ASSERT_EQUAL(config_write_defaults("/dev/full"), -ENOSPC);
}

TEST_MAIN(options, TEST(table_is_whole), TEST(groups_stand_together), TEST(aliases_hide_nothing),
	  TEST(choices_by_name_and_number), TEST(allowed_is_said_in_words), TEST(defaults_are_what_the_table_says),
	  TEST(text_needs_room_for_all), TEST(fractions_keep_their_value), TEST(same_looks_at_one_option),
	  TEST(default_file_is_all_comment), TEST(default_file_uncommented_gives_the_defaults),
	  TEST(default_file_that_cannot_be_written))
