/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A value into a file that people write: only it changes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "config_edit.h"
#include "harness.h"

static char error[CONFIG_ERROR_MAX];

/* @text with KEY set to @value, NULL: refused, with the reason in error. The caller frees it. */
static char *edit(const char *text, const char *key, const char *value)
{
	const struct option_info *option = option_find(key);
	struct config values;
	char *ret = NULL;

	error[0] = '\0';
	config_defaults(&values);
	CU_ASSERT_EQUAL(config_set(&values, key, value, error), 0);
	if (config_edit(text, "FILE", &option, 1, &values, &ret, error) < 0)
		CU_ASSERT(error[0] != '\0');
	return ret;
}

static void becomes(const char *text, const char *key, const char *value, const char *wanted)
{
	char *new = edit(text, key, value);

	CU_ASSERT_PTR_NOT_NULL_FATAL(new);
	CU_ASSERT_STRING_EQUAL(new, wanted);
	free(new);
}

static void only_the_value_changes(void)
{
	becomes("# mine\nmode = \"promote\"; // today\n", "mode", "observe", "# mine\nmode = \"observe\"; // today\n");
	becomes("mode=\"promote\"", "mode", "observe", "mode=\"observe\"");
	becomes("promote : {\n\trate_mib_per_sec\t=  0x10 ; /* low */\n\tburst_ms = 5\n}\n", "promote.rate_mib_per_sec",
		"256", "promote : {\n\trate_mib_per_sec\t=  256 ; /* low */\n\tburst_ms = 5\n}\n");
	becomes("promote = { headroom_percent = 3; };\n", "promote.headroom_percent", "4.5",
		"promote = { headroom_percent = 4.5; };\n");
	becomes("promote = { headroom_percent = 4.5; };\n", "promote.headroom_percent", "6",
		"promote = { headroom_percent = 6.0; };\n");
	becomes("tiers = ( \"0\", // fast\n \"1\" ); mode = \"promote\";\n", "tiers", "( \"0-1\", \"2\" )",
		"tiers = ( \"0-1\", \"2\" ); mode = \"promote\";\n");
	becomes("kinds = { shared = False };\n", "kinds.shared", "true", "kinds = { shared = true };\n");
}

static void a_key_of_that_name_in_a_comment_is_none(void)
{
	becomes("#mode = \"promote\";\n/* mode = \"promote\"; */\n// mode\nmode = \"promote\"; # mode = \"promote\";\n",
		"mode", "observe",
		"#mode = \"promote\";\n/* mode = \"promote\"; */\n// mode\nmode = \"observe\"; # mode = "
		"\"promote\";\n");
}

static void what_is_missing_is_added(void)
{
	becomes("", "mode", "observe", "# pghotctl tune --save\nmode = \"observe\";\n");
	becomes("# all\n", "mode", "observe", "# all\n\n# pghotctl tune --save\nmode = \"observe\";\n");
	becomes("records = \"precise\" # end", "mode", "observe",
		"records = \"precise\" # end\n\n# pghotctl tune --save\nmode = \"observe\";\n");
	becomes("mode = \"promote\";\n", "promote.burst_ms", "50",
		"mode = \"promote\";\n\npromote = {\n    # pghotctl tune --save\n    burst_ms = 50;\n};\n");
	/* In its group, as the others there stand. */
	becomes("promote = {\n\tburst_ms = 5\n};\nmode = \"promote\";\n", "promote.rate_mib_per_sec", "7",
		"promote = {\n\tburst_ms = 5\n\t# pghotctl tune --save\n\trate_mib_per_sec = 7;\n};\nmode = "
		"\"promote\";\n");
	becomes("promote = {\n  };\n", "promote.rate_mib_per_sec", "7",
		"promote = {\n      # pghotctl tune --save\n      rate_mib_per_sec = 7;\n  };\n");
	becomes("promote = { burst_ms = 5; };\n", "promote.rate_mib_per_sec", "7",
		"promote = { burst_ms = 5; rate_mib_per_sec = 7; /* pghotctl tune --save */ };\n");
	becomes("promote={};", "promote.rate_mib_per_sec", "7",
		"promote={ rate_mib_per_sec = 7; /* pghotctl tune --save */ };");
}

static void an_alias_stays_where_it_can(void)
{
	becomes("promote_rate_limit_MBps = 3; # as the kernel\n", "promote.rate_mib_per_sec", "7",
		"promote_rate_limit_MBps = 7; # as the kernel\n");
	becomes("enabled_sources = 1; # one\n", "sources", "( \"ibs\", \"hint_faults\" )",
		"sources = ( \"ibs\", \"hint_faults\" ); # one\n");
}

static void rules_are_written_whole(void)
{
	becomes("manage = {\n  rules = ( { match = \"user:x\"; mode = \"off\"; } ); # who\n};\n", "manage.rules", "( )",
		"manage = {\n  rules = ( ); # who\n};\n");
}

static void what_it_says_already_stays_as_it_is(void)
{
	becomes("promote = { rate_mib_per_sec = 0x400 };", "promote.rate_mib_per_sec", "1024",
		"promote = { rate_mib_per_sec = 0x400 };");
	becomes("# the default\n", "promote.rate_mib_per_sec", "1024", "# the default\n");
}

static void a_file_with_a_mistake_is_refused(void)
{
	static const char *const bad[] = { "mode = ;", "nosuch = 1;", "mode = \"promote\"; mode = \"promote\";",
					   "promote = 3;", "/* never closed" };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CU_ASSERT_PTR_NULL(edit(bad[i], "mode", "observe"));
	/* And one that would have one: compact records hold no window of 10 s. */
	CU_ASSERT_PTR_NULL(edit("records = \"compact\"; target_nid = 0; promote = { freq_window_ms = 3000; };",
				"promote.freq_window_ms", "10000"));
	CU_ASSERT_PTR_NOT_NULL(strstr(error, "FILE:1: records: \"compact\""));
}

static const char *other_value(const struct option_info *option)
{
	switch (option->type) {
	case OPTION_TYPE_INT:
	case OPTION_TYPE_FLOAT:
		return NULL;
	case OPTION_TYPE_BOOL:
		return strcmp(option->default_text, "true") == 0 ? "false" : "true";
	case OPTION_TYPE_TEXT:
		return strcmp(option->key, "sampling.cpus") == 0 ? "0-3" : "wheel";
	case OPTION_TYPE_LIST:
		return strcmp(option->key, "sources") == 0 ? "( \"ibs\", \"hint_faults\" )" : "( \"0\", \"1\" )";
	case OPTION_TYPE_RULES:
		return "( { match = \"user:postgres\"; shared = true; } )";
	case OPTION_TYPE_ENUM:
		break;
	}
	return NULL;
}

/* Each option of the table, away from its default and back to it, in the file that ships and in one of all defaults. */
static void each_option_goes_there_and_back(void)
{
	for (size_t i = 0; i < n_options; i++) {
		const struct option_info *option = &option_info[i];
		char number[32], text[2][64] = { "", "" };
		const char *value = other_value(option);
		struct config values, read;
		char *there = NULL, *back = NULL;

		if (option->type == OPTION_TYPE_ENUM) {
			/* The last choice, or else the first; records has a row of its own. */
			size_t n = strlen(option->choices) - strcspn(option->choices, "|");

			if (strcmp(option->key, "records") == 0)
				continue;
			snprintf(text[0], sizeof(text[0]), "%.*s", (int)strcspn(option->choices, "|"), option->choices);
			snprintf(text[1], sizeof(text[1]), "%s", option->choices + strlen(option->choices) - n + 1);
			text[1][strcspn(text[1], "|")] = '\0';
			value = strstr(option->default_text, text[0]) ? text[1] : text[0];
		} else if (!value) {
			snprintf(number, sizeof(number), "%.10g",
				 atof(option->default_text) == option->max ? option->min : option->max);
			value = number;
		}
		config_defaults(&values);
		if (config_set(&values, option->key, value, error) < 0) {
			printf("%s = %s: %s\n", option->key, value, error);
			CU_FAIL("a value of the test's is refused");
			continue;
		}
		CU_ASSERT_EQUAL(config_edit("", "FILE", &option, 1, &values, &there, error), 0);
		CU_ASSERT_EQUAL(config_parse(there, "FILE", &read, error), 0);
		CU_ASSERT(config_same(&read, &values, option));
		config_defaults(&values);
		CU_ASSERT_EQUAL(config_edit(there, "FILE", &option, 1, &values, &back, error), 0);
		CU_ASSERT_EQUAL(config_parse(back, "FILE", &read, error), 0);
		CU_ASSERT(config_same(&read, &values, option));
		CU_ASSERT_STRING_NOT_EQUAL(there, back);
		free(there);
		free(back);
	}
}

static void several_at_once(void)
{
	const struct option_info *options[] = { option_find("mode"), option_find("promote.burst_ms"),
						option_find("promote.rate_mib_per_sec") };
	struct config values;
	char *new = NULL;

	config_defaults(&values);
	values.mode = MODE_OBSERVE;
	values.promote_burst_ms = 7;
	values.promote_rate_mib_per_sec = 9;
	CU_ASSERT_EQUAL(config_edit("promote = { burst_ms = 1; };", "FILE", options, 3, &values, &new, error), 0);
	CU_ASSERT_STRING_EQUAL(new, "promote = { burst_ms = 7; rate_mib_per_sec = 9; /* pghotctl tune --save */ };\n\n"
				    "# pghotctl tune --save\nmode = \"observe\";\n");
	free(new);
}

TEST_MAIN(config_edit, TEST(only_the_value_changes), TEST(a_key_of_that_name_in_a_comment_is_none),
	  TEST(what_is_missing_is_added), TEST(an_alias_stays_where_it_can), TEST(rules_are_written_whole),
	  TEST(what_it_says_already_stays_as_it_is), TEST(a_file_with_a_mistake_is_refused),
	  TEST(each_option_goes_there_and_back), TEST(several_at_once))
