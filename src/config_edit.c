/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cleanup.h"
#include "config.h"
#include "config_edit.h"
#include "config_scan.h"
#include "config_value.h"

#define INDENT_MAX 64
#define MARK       "pghotctl tune --save"

/* Where an option stands, or should. */
struct place {
	const struct option_info *option;
	char group[64]; /* "": it stands at the top */
	bool found, found_group, is_alias;
	struct config_scan_setting setting; /* its own */
	struct config_scan_setting around;  /* of its group */
	bool has_sibling;
	size_t sibling; /* where the name of the first setting in its group begins */
};

static void look(void *ctx, const struct config_scan_setting *setting)
{
	struct place *place = ctx;
	size_t len = strlen(place->group);

	if (option_find(setting->key) == place->option) {
		place->found = true;
		place->is_alias = strcmp(setting->key, place->option->key) != 0;
		place->setting = *setting;
	}
	if (setting->depth == 0 && len > 0 && strcmp(setting->key, place->group) == 0) {
		place->found_group = true;
		place->around = *setting;
	}
	if (setting->depth == 1 && !place->has_sibling && strncmp(setting->key, place->group, len) == 0 &&
	    setting->key[len] == '.') {
		place->has_sibling = true;
		place->sibling = setting->name;
	}
}

/* As the file has it: texts in quotes, fractions with their point. Length or -errno. */
static int format_value(const struct config *values, const struct option_info *option, char *buf, size_t size)
{
	char text[CONFIG_TEXT_MAX];
	int r = config_get_text(values, option, text, sizeof(text));

	if (r < 0)
		return r;
	switch (option->type) {
	case OPTION_TYPE_ENUM:
	case OPTION_TYPE_TEXT:
		return snprintf(buf, size, "\"%s\"", text);
	case OPTION_TYPE_INT:
	case OPTION_TYPE_FLOAT:
	case OPTION_TYPE_BOOL:
	case OPTION_TYPE_LIST:
	case OPTION_TYPE_RULES:
		break;
	}
	return snprintf(buf, size, "%s", text);
}

/* *@text with its bytes @from to @to replaced. 0 or -ENOMEM. */
static int splice(char **text, size_t from, size_t to, const char *by)
{
	char *new;

	if (asprintf(&new, "%.*s%s%s", (int)from, *text, by, *text + to) < 0)
		return -ENOMEM;
	free(*text);
	*text = new;
	return 0;
}

static size_t line_start(const char *text, size_t at)
{
	while (at > 0 && text[at - 1] != '\n')
		at--;
	return at;
}

/* What stands before @at in its line, if that is blanks only. */
static bool indent_of(const char *text, size_t at, char ret[INDENT_MAX])
{
	size_t start = line_start(text, at);

	if (at - start >= INDENT_MAX || strspn(text + start, " \t") < at - start)
		return false;
	memcpy(ret, text + start, at - start);
	ret[at - start] = '\0';
	return true;
}

static int add_to_group(char **text, const struct place *place, const char *leaf, const char *value)
{
	size_t close = place->around.end - 1;
	char indent[INDENT_MAX], own[INDENT_MAX];
	_cleanup_free_ char *line = NULL;
	int r;

	if (indent_of(*text, close, own)) {
		/* The brace has its own line: so has the setting, below the others. */
		if (!place->has_sibling || !indent_of(*text, place->sibling, indent))
			snprintf(indent, sizeof(indent), "%.50s    ", own);
		r = asprintf(&line, "%s# %s\n%s%s = %s;\n", indent, MARK, indent, leaf, value);
		close = line_start(*text, close);
	} else {
		r = asprintf(&line, "%s%s = %s; /* %s */ ", close > 0 && strchr(" \t", (*text)[close - 1]) ? "" : " ",
			     leaf, value, MARK);
	}
	return r < 0 ? -ENOMEM : splice(text, close, close, line);
}

static int add_to_end(char **text, const struct place *place, const char *leaf, const char *value)
{
	size_t len = strlen(*text);
	const char *before = len > 0 && (*text)[len - 1] != '\n' ? "\n\n" : len > 0 ? "\n" : "";
	_cleanup_free_ char *lines = NULL;
	int r;

	if (*place->group)
		r = asprintf(&lines, "%s%s = {\n    # %s\n    %s = %s;\n};\n", before, place->group, MARK, leaf, value);
	else
		r = asprintf(&lines, "%s# %s\n%s = %s;\n", before, MARK, leaf, value);
	return r < 0 ? -ENOMEM : splice(text, len, len, lines);
}

static int edit_one(char **text, const struct option_info *option, const struct config *values)
{
	_cleanup_free_ char *value = malloc(CONFIG_TEXT_MAX), *renamed = NULL;
	const char *dot = strrchr(option->key, '.'), *leaf = dot ? dot + 1 : option->key;
	struct place place = { .option = option };
	struct config_scan_fault fault;
	int r;

	if (!value)
		return -ENOMEM;
	if (dot)
		snprintf(place.group, sizeof(place.group), "%.*s", (int)(dot - option->key), option->key);
	r = format_value(values, option, value, CONFIG_TEXT_MAX);
	if (r < 0 || r >= CONFIG_TEXT_MAX)
		return r == -ENOMEM ? r : -EINVAL;
	if (config_scan_settings(*text, look, &place, &fault) < 0)
		return -EINVAL;
	if (!place.found)
		return place.found_group ? add_to_group(text, &place, leaf, value)
					 : add_to_end(text, &place, leaf, value);
	/* An alias takes a whole number: what that can't say is said under the option's own name. */
	if (!place.is_alias || option->type == OPTION_TYPE_INT)
		return splice(text, place.setting.value, place.setting.end, value);
	if (asprintf(&renamed, "%s = %s", leaf, value) < 0)
		return -ENOMEM;
	return splice(text, place.setting.name, place.setting.end, renamed);
}

static bool is_one_of(const struct option_info *option, const struct option_info *const *options, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (options[i] == option)
			return true;
	return false;
}

int config_edit(const char *text, const char *name, const struct option_info *const *options, size_t n,
		const struct config *values, char **ret, char *error)
{
	_cleanup_free_ struct config *before = malloc(sizeof(*before)), *after = malloc(sizeof(*after));
	_cleanup_free_ char *edited = strdup(text);
	int r;

	if (!before || !after || !edited) {
		snprintf(error, CONFIG_ERROR_MAX, "out of memory");
		return -ENOMEM;
	}
	r = config_parse(text, name, before, error);
	if (r < 0)
		return r;
	for (size_t i = 0; i < n && r == 0; i++)
		if (!config_same(before, values, options[i]))
			r = edit_one(&edited, options[i], values);
	if (r < 0) {
		snprintf(error, CONFIG_ERROR_MAX, r == -ENOMEM ? "out of memory" : "%.300s: it can't be edited", name);
		return r;
	}
	r = config_parse(edited, name, after, error);
	if (r < 0)
		return r;
	for (size_t i = 0; i < n_options; i++) {
		const struct option_info *option = &option_info[i];
		const struct config *wanted = is_one_of(option, options, n) ? values : before;

		if (config_same(after, wanted, option))
			continue;
		snprintf(error, CONFIG_ERROR_MAX, "%.300s: with the new value %s would be another; edit it by hand",
			 name, option->key);
		return -EINVAL;
	}
	*ret = take_ptr(edited);
	return 0;
}
