/* SPDX-License-Identifier: GPL-2.0-or-later */
/* pghotctl tune and mode: options, listed and set. */
#include <stdio.h>
#include <string.h>

#include "cleanup.h"
#include "ctl.h"
#include "ctl_client.h"
#include "ctl_tune.h"
#include "print_options.h"
#include "report.h"

/* The options whose key is @key, or else contains it; all with NULL. */
static json_t *select_options(const json_t *all, const char *key)
{
	json_t *some = json_array(), *option;
	size_t i;

	json_array_foreach (all, i, option) {
		const char *name = json_string_value(json_object_get(option, "key"));

		if (key && name && strcmp(name, key) == 0) {
			json_array_clear(some);
			json_array_append(some, option);
			break;
		}
		if (!key || (name && strstr(name, key)))
			json_array_append(some, option);
	}
	return some;
}

static int list_options(const char *key)
{
	_cleanup_free_ char *text = NULL;
	int r = ctl_call("ListOptions", NULL, NULL, &text);

	if (r != 0)
		return r;
	if (ctl_flag[FLAG_json]) {
		json_t *all = json_loads(text, 0, NULL), *some = select_options(all, key);
		size_t n = json_array_size(some);

		json_decref(all);
		r = ctl_put_json(json_pack("{s:i, s:o}", "schema", REPORT_SCHEMA, "options", some));
		if (r != 0 || n > 0)
			return r;
	} else {
		r = print_options(stdout, text, key, ctl_use_colour());
		if (r < 0)
			return ctl_bad_answer();
		if (r > 0)
			return EXIT_DONE;
	}
	return ctl_fail(EXIT_REFUSED, "there is no option like \"%s\" (pghotctl tune lists all)", key);
}

bool ctl_tune_value(const char *options, const char *key, char *ret, size_t size)
{
	json_t *all = json_loads(options, 0, NULL), *some = select_options(all, key);
	const json_t *option = json_array_get(some, 0), *value = json_object_get(option, "value");
	const char *name = json_string_value(json_object_get(option, "key"));
	bool found = name && strcmp(name, key) == 0;

	if (!found)
		;
	else if (json_is_string(value))
		snprintf(ret, size, "%s", json_string_value(value));
	else if (json_is_boolean(value))
		snprintf(ret, size, "%s", json_is_true(value) ? "true" : "false");
	else if (json_is_integer(value))
		snprintf(ret, size, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
	else
		snprintf(ret, size, "%.10g", json_real_value(value));
	json_decref(all);
	json_decref(some);
	return found;
}

static int set_option(const char *key, const char *value)
{
	_cleanup_free_ char *before = NULL, *after = NULL;
	char error[CTL_CLIENT_ERROR_MAX], was[512] = "", now[512] = "";
	struct ctl_client *client;
	bool known;
	int r = ctl_connect(&client);

	if (r != 0)
		return r;
	/* What it was is for the person only: never a reason not to set it. */
	(void)ctl_client_call(client, "ListOptions", NULL, NULL, &before, error);
	r = ctl_client_call(client, "SetOption", key, value, NULL, error);
	if (r == 0)
		(void)ctl_client_call(client, "ListOptions", NULL, NULL, &after, error);
	ctl_client_close(client);
	if (r < 0)
		return ctl_fail_client(r, error);
	known = before && after && ctl_tune_value(before, key, was, sizeof(was)) &&
		ctl_tune_value(after, key, now, sizeof(now));
	if (ctl_flag[FLAG_json])
		return ctl_put_json(
			known ? json_pack("{s:i, s:s, s:s, s:s}", "schema", REPORT_SCHEMA, "key", key, "from", was,
					  "to", now)
			      : json_pack("{s:i, s:s, s:s}", "schema", REPORT_SCHEMA, "key", key, "to", value));
	if (known && strcmp(was, now) == 0)
		printf("%s: %s already\n", key, now);
	else
		printf("%s: %s%s%s\nuntil the next reload or restart; for good: the same with --save\n", key, was,
		       known ? " -> " : "", known ? now : value);
	return EXIT_DONE;
}

int ctl_verb_tune(char **args, int n_args)
{
	char *equals = n_args ? strchr(args[0], '=') : NULL, *end;

	if (n_args > 2 && args[1][0] == '=')
		return ctl_fail(EXIT_BAD_USAGE, "tune: write it as one word: pghotctl tune '%s=%s'", args[0], args[2]);
	if (n_args > 2 || (n_args == 2 && equals && strchr(args[1], '=')))
		return ctl_fail(EXIT_BAD_USAGE, "tune: one option at a time: pghotctl tune '%s'", args[0]);
	if (n_args == 2)
		return ctl_fail(EXIT_BAD_USAGE, "tune: write key and value as one word: pghotctl tune '%s=%s'", args[0],
				equals ? "..." : args[1]);
	if (equals == args[0] && equals)
		return ctl_fail(EXIT_BAD_USAGE, "tune: there is no key before the \"=\"");
	/* As it is written in the file: blanks around the "=" belong to neither. */
	if (equals) {
		for (end = equals; end > args[0] && end[-1] == ' '; end--)
			;
		*end = '\0';
		equals++;
		equals += strspn(equals, " ");
	}
	if (ctl_flag[FLAG_save])
		return ctl_save(n_args ? args[0] : NULL, equals);
	return equals ? set_option(args[0], equals) : list_options(n_args ? args[0] : NULL);
}

static int show_mode(void)
{
	_cleanup_free_ char *text = NULL;
	const char *mode;
	json_t *doc;
	int r = ctl_call("GetStatus", NULL, NULL, &text);

	if (r != 0)
		return r;
	doc = json_loads(text, 0, NULL);
	mode = json_string_value(json_object_get(doc, "mode"));
	if (!mode)
		r = ctl_bad_answer();
	else if (ctl_flag[FLAG_json])
		r = ctl_put_json(json_pack("{s:i, s:s}", "schema", REPORT_SCHEMA, "mode", mode));
	else
		printf("%s\n", strcmp(mode, "promote") == 0 ? "promote" : "observe");
	json_decref(doc);
	return r;
}

int ctl_verb_mode(char **args, int n_args)
{
	if (n_args == 0)
		return show_mode();
	if (strcmp(args[0], "observe") != 0 && strcmp(args[0], "promote") != 0)
		return ctl_fail(EXIT_BAD_USAGE, "mode is observe or promote, not \"%s\"", args[0]);
	return set_option("mode", args[0]);
}
