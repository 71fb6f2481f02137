/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cleanup.h"
#include "config.h"
#include "config_value.h"
#include "parse.h"

/* A quoted text at @*p into @ret (CONFIG_ITEM_MAX bytes), @*p moved behind it. false: it is none. */
static bool take_quoted(const char **p, char *ret, size_t size)
{
	size_t len;

	if (**p != '"')
		return false;
	(*p)++;
	len = strcspn(*p, "\"");
	if (!(*p)[len] || len >= size)
		return false;
	memcpy(ret, *p, len);
	ret[len] = '\0';
	*p += len + 1;
	return true;
}

static void skip_blanks(const char **p)
{
	*p += strspn(*p, " \t");
}

/* ( "0-1", "2" ) or [ "0-1", "2" ] or ( ), as in the file. */
static int set_list(const struct config_where *where, struct config *config, const struct option_info *option,
		    const char *value)
{
	char item[CONFIG_ERROR_MAX];
	const char *p = value + 1;
	char close = *value == '(' ? ')' : ']';

	skip_blanks(&p);
	for (bool first = true; *p != close; first = false) {
		if (!first) {
			if (*p++ != ',')
				return config_fail_type(where, option, "something else");
			skip_blanks(&p);
		}
		if (!take_quoted(&p, item, sizeof(item)))
			return config_fail_type(where, option, "something else");
		if (config_put_item(where, config, option, item) < 0)
			return -EINVAL;
		skip_blanks(&p);
	}
	p++;
	skip_blanks(&p);
	return *p ? config_fail_type(where, option, "something else") : 0;
}

/* A whole number as the file takes it: decimal, or hexadecimal without a sign. As parse_i64() otherwise. */
static int parse_whole(const char *value, int64_t *ret)
{
	int64_t v = 0;
	bool over = false;

	if (value[0] != '0' || (value[1] | 0x20) != 'x')
		return parse_i64(value, INT64_MIN, INT64_MAX, ret);
	value += 2;
	if (!*value || strspn(value, "0123456789abcdefABCDEF") != strlen(value))
		return -EINVAL;
	for (; *value; value++) {
		int digit = *value <= '9' ? *value - '0' : (*value | 0x20) - 'a' + 10;

		over |= __builtin_mul_overflow(v, 16, &v) || __builtin_add_overflow(v, digit, &v);
	}
	if (over)
		return -ERANGE;
	*ret = v;
	return 0;
}

static int set_int(const struct config_where *where, struct config *config, const struct option_info *option,
		   const char *value)
{
	int64_t v;
	int r = parse_whole(value, &v);

	if (r == -ERANGE)
		return config_fail_range(where, option, value);
	if (r < 0)
		return config_fail_type(where, option, "something else");
	return config_put_int(where, config, option, v);
}

static int set_float(const struct config_where *where, struct config *config, const struct option_info *option,
		     const char *value)
{
	int64_t whole;
	double v;
	int r = parse_whole(value, &whole);

	if (r == 0)
		return config_put_float(where, config, option, (double)whole);
	r = parse_double(value, -DBL_MAX, DBL_MAX, &v);

	if (r == -ERANGE)
		return config_fail_range(where, option, value);
	if (r < 0)
		return config_fail_type(where, option, "something else");
	return config_put_float(where, config, option, v);
}

static int set_sources_mask(const struct config_where *where, struct config *config, const struct option_info *option,
			    const char *value)
{
	int64_t v;

	if (parse_whole(value, &v) < 0)
		return config_fail_type(where, option, "something else");
	return config_put_sources_mask(where, config, v);
}

/* As the file takes it, by the reader of the file. */
static int set_rules(const struct config_where *where, struct config *config, const struct option_info *option,
		     const char *value)
{
	_cleanup_free_ struct config *read = malloc(sizeof(*read));
	_cleanup_free_ char *text = NULL;
	char error[CONFIG_ERROR_MAX];
	const char *leaf = strrchr(option->key, '.') + 1;
	struct config defaults;

	if (!read ||
	    asprintf(&text, "%.*s = { %s = %s; };", (int)(leaf - option->key - 1), option->key, leaf, value) < 0)
		return config_fail(where, "no memory to read it");
	if (config_parse(text, "", read, error) < 0) {
		struct config_where whole = *where;

		/* Of a rule's setting it is told as such, as in a file. */
		if (strncmp(error, option->key, strlen(option->key)) == 0)
			whole.key = "";
		return config_fail(&whole, "%s", error);
	}
	/* Nothing else was slipped in. */
	config_defaults(&defaults);
	for (size_t i = 0; i < n_options; i++)
		if (&option_info[i] != option && !config_same(read, &defaults, &option_info[i]))
			return config_fail_type(where, option, "something else");
	memcpy((char *)config + option->offset, (char *)read + option->offset, option->size);
	return 0;
}

static int set_value(const struct config_where *where, struct config *config, const struct option_info *option,
		     const char *value)
{
	char text[CONFIG_ERROR_MAX];
	const char *p = value;
	bool b;

	switch (option->type) {
	case OPTION_TYPE_INT:
		return set_int(where, config, option, value);
	case OPTION_TYPE_FLOAT:
		return set_float(where, config, option, value);
	case OPTION_TYPE_BOOL:
		if (parse_bool(value, &b) < 0)
			return config_fail_type(where, option, "something else");
		return config_put_bool(where, config, option, b);
	case OPTION_TYPE_ENUM:
	case OPTION_TYPE_TEXT:
	case OPTION_TYPE_LIST:
		break;
	case OPTION_TYPE_RULES:
		return set_rules(where, config, option, value);
	}
	/* A bare word, or in quotes as in the file. */
	if (take_quoted(&p, text, sizeof(text)) && !*p)
		value = text;
	if (option->type != OPTION_TYPE_LIST)
		return config_put_text(where, config, option, value);
	if (strcmp(option->key, where->key) != 0)
		return set_sources_mask(where, config, option, value);
	config_clear_list(config, option);
	if (*value == '(' || *value == '[')
		return set_list(where, config, option, value);
	return config_put_item(where, config, option, value);
}

int config_set(struct config *config, const char *key, const char *value, char *error)
{
	const struct config_where where = { .key = key, .error = error };
	const struct option_info *option = option_find(key), *to_blame;
	struct config next = *config;
	char text[CONFIG_ERROR_MAX];

	if (config_check_key(&where) < 0 || set_value(&where, &next, option, value) < 0)
		return -EINVAL;
	if (config_check(&next, &to_blame, text) < 0) {
		const struct config_where there = { .key = to_blame->key, .error = error };

		return config_fail(&there, "%s", text);
	}
	*config = next;
	return 0;
}
