/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cleanup.h"
#include "config.h"
#include "parse.h"

#define LINE_COLUMNS 100

/* Digits behind the point that a fraction is written with at most; enough for any that a person types. */
#define FRACTION_DIGITS_MAX 17

#define SPAN(id) .offset = offsetof(struct config, id), .size = sizeof(((struct config *)0)->id)
#define NUMBER(id, key_, type_, unit_, min_, max_, def, change_, line_) \
	{ .key = (key_),                                                \
	  .type = (type_),                                              \
	  .change = OPTION_##change_,                                   \
	  .unit = (unit_),                                              \
	  .min = (min_),                                                \
	  .max = (max_),                                                \
	  .choices = "",                                                \
	  .default_text = #def,                                         \
	  .line = (line_),                                              \
	  SPAN(id) },
#define WORD(id, key_, type_, choices_, text_, change_, line_) \
	{ .key = (key_),                                       \
	  .type = (type_),                                     \
	  .change = OPTION_##change_,                          \
	  .unit = "",                                          \
	  .choices = (choices_),                               \
	  .default_text = (text_),                             \
	  .line = (line_),                                     \
	  SPAN(id) },

const struct option_info option_info[] = {
#define OPTION_INT(id, key, unit, min, max, def, change, line) \
	NUMBER(id, key, OPTION_TYPE_INT, unit, min, max, def, change, line)
#define OPTION_FLOAT(id, key, unit, min, max, def, change, line) \
	NUMBER(id, key, OPTION_TYPE_FLOAT, unit, min, max, def, change, line)
/* Not through a helper: "false" is a macro, and would be written as 0. */
#define OPTION_BOOL(id, key_, def, change_, line_) \
	{ .key = (key_),                           \
	  .type = OPTION_TYPE_BOOL,                \
	  .change = OPTION_##change_,              \
	  .unit = "",                              \
	  .choices = "",                           \
	  .default_text = #def,                    \
	  .line = (line_),                         \
	  SPAN(id) },
#define OPTION_ENUM(id, key, choices, def, change, line) \
	WORD(id, key, OPTION_TYPE_ENUM, choices, "\"" def "\"", change, line)
#define OPTION_TEXT(id, key, size, def, change, line) WORD(id, key, OPTION_TYPE_TEXT, "", "\"" def "\"", change, line)
#define OPTION_LIST(id, key, def, change, line) \
	WORD(id, key, OPTION_TYPE_LIST, "", sizeof(def) > 1 ? "( \"" def "\" )" : "( )", change, line)
#define OPTION_RULES(id, key, change, line) WORD(id, key, OPTION_TYPE_RULES, "", "( )", change, line)
#include "options.def"
#include "options_undef.h"
};

const size_t n_options = sizeof(option_info) / sizeof(option_info[0]);

static const struct {
	const char *key, *target;
} aliases[] = {
#define OPTION_ALIAS(key, target) { key, target },
#include "options.def"
#include "options_undef.h"
};

const struct option_info *option_find(const char *key)
{
	for (size_t i = 0; i < sizeof(aliases) / sizeof(aliases[0]); i++) {
		if (strcmp(aliases[i].key, key) == 0) {
			key = aliases[i].target;
			break;
		}
	}
	for (size_t i = 0; i < n_options; i++)
		if (strcmp(option_info[i].key, key) == 0)
			return &option_info[i];
	return NULL;
}

int option_choice_find(const struct option_info *option, const char *text)
{
	const char *p = option->choices;

	for (int i = 0;; i++) {
		size_t len = strcspn(p, "|");

		if (strlen(text) == len && memcmp(p, text, len) == 0)
			return i;
		if (!p[len])
			return -ENOENT;
		p += len + 1;
	}
}

int option_choice_text(const struct option_info *option, int index, char *buf, size_t size)
{
	const char *p = option->choices;
	size_t len = strcspn(p, "|");

	for (; index > 0 && p[len]; index--) {
		p += len + 1;
		len = strcspn(p, "|");
	}
	if (index != 0)
		return -ENOENT;
	if (len >= size)
		return -ENOSPC;
	memcpy(buf, p, len);
	buf[len] = '\0';
	return (int)len;
}

void config_defaults(struct config *ret)
{
	memset(ret, 0, sizeof(*ret));
#define OPTION_INT(id, key, unit, min, max, def, change, line)   ret->id = (def);
#define OPTION_FLOAT(id, key, unit, min, max, def, change, line) ret->id = (def);
#define OPTION_BOOL(id, key, def, change, line)                  ret->id = (def);
#define OPTION_ENUM(id, key, choices, def, change, line)         ret->id = option_choice_find(option_find(key), def);
#define OPTION_TEXT(id, key, size, def, change, line) \
	_Static_assert(sizeof(def) <= (size), key);   \
	strcpy(ret->id, def);
#define OPTION_LIST(id, key, def, change, line)              \
	_Static_assert(sizeof(def) <= CONFIG_ITEM_MAX, key); \
	ret->id.n = sizeof(def) > 1;                         \
	strcpy(ret->id.item[0], def);
#include "options.def"
#include "options_undef.h"
}

static const void *value_of(const struct config *config, const struct option_info *option)
{
	return (const char *)config + option->offset;
}

/* In the C locale and with as few digits as read back the same. Length or -ENOSPC, -ENOMEM. */
static int format_fraction(double value, char *buf, size_t size)
{
	locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0), before;
	int n = 0;

	if (!c_locale)
		return -ENOMEM;
	before = uselocale(c_locale);
	for (int digits = 1; digits <= FRACTION_DIGITS_MAX; digits++) {
		double back = 0;

		n = snprintf(buf, size, "%.*f", digits, value);
		if (n < 0 || (size_t)n >= size || (parse_double(buf, value, value, &back) == 0))
			break;
	}
	uselocale(before);
	freelocale(c_locale);
	return n < 0 || (size_t)n >= size ? -ENOSPC : n;
}

static int format_list(const struct config_list *list, char *buf, size_t size)
{
	size_t len = 0;

	for (int i = 0; i <= list->n; i++) {
		int n;

		if (i == list->n)
			n = snprintf(buf + len, size - len, "%s )", i == 0 ? "(" : "");
		else
			n = snprintf(buf + len, size - len, "%s\"%s\"", i == 0 ? "( " : ", ", list->item[i]);
		if (n < 0 || (size_t)n >= size - len)
			return -ENOSPC;
		len += (size_t)n;
	}
	return (int)len;
}

int config_get_text(const struct config *config, const struct option_info *option, char *buf, size_t size)
{
	const void *value = value_of(config, option);
	int n = -ENOSPC;

	if (size == 0)
		return -ENOSPC;
	switch (option->type) {
	case OPTION_TYPE_INT:
		n = snprintf(buf, size, "%lld", (long long)*(const int64_t *)value);
		break;
	case OPTION_TYPE_FLOAT:
		n = format_fraction(*(const double *)value, buf, size);
		break;
	case OPTION_TYPE_BOOL:
		n = snprintf(buf, size, "%s", *(const bool *)value ? "true" : "false");
		break;
	case OPTION_TYPE_ENUM:
		n = option_choice_text(option, *(const int *)value, buf, size);
		break;
	case OPTION_TYPE_TEXT:
		n = snprintf(buf, size, "%s", (const char *)value);
		break;
	case OPTION_TYPE_LIST:
		n = format_list(value, buf, size);
		break;
	case OPTION_TYPE_RULES:
		n = rules_format(value, buf, size);
		break;
	}
	if (n >= 0 && (size_t)n >= size)
		n = -ENOSPC;
	if (n < 0)
		buf[0] = '\0';
	return n;
}

bool config_same(const struct config *a, const struct config *b, const struct option_info *option)
{
	const void *va = value_of(a, option), *vb = value_of(b, option);

	switch (option->type) {
	case OPTION_TYPE_INT:
		return *(const int64_t *)va == *(const int64_t *)vb;
	case OPTION_TYPE_FLOAT:
		return *(const double *)va == *(const double *)vb;
	case OPTION_TYPE_BOOL:
		return *(const bool *)va == *(const bool *)vb;
	case OPTION_TYPE_ENUM:
		return *(const int *)va == *(const int *)vb;
	case OPTION_TYPE_TEXT:
		return strcmp(va, vb) == 0;
	case OPTION_TYPE_RULES:
		return rules_same(va, vb);
	case OPTION_TYPE_LIST: {
		const struct config_list *la = va, *lb = vb;

		if (la->n != lb->n)
			return false;
		for (int i = 0; i < la->n; i++)
			if (strcmp(la->item[i], lb->item[i]) != 0)
				return false;
		return true;
	}
	}
	return false;
}

void option_allowed_text(const struct option_info *option, char *buf, size_t size)
{
	const char *blank = *option->unit ? " " : "";
	size_t len = 0;

	switch (option->type) {
	case OPTION_TYPE_INT:
		snprintf(buf, size, "%.0f to %.0f%s%s", option->min, option->max, blank, option->unit);
		break;
	case OPTION_TYPE_FLOAT:
		snprintf(buf, size, "%g to %g%s%s", option->min, option->max, blank, option->unit);
		break;
	case OPTION_TYPE_BOOL:
		snprintf(buf, size, "true or false");
		break;
	case OPTION_TYPE_ENUM:
		buf[0] = '\0';
		for (const char *p = option->choices; len < size;) {
			size_t n = strcspn(p, "|");
			const char *before = p == option->choices ? "" : strchr(p, '|') ? ", " : " or ";

			len += (size_t)snprintf(buf + len, size - len, "%s\"%.*s\"", before, (int)n, p);
			if (!p[n])
				break;
			p += n + 1;
		}
		break;
	case OPTION_TYPE_TEXT:
		snprintf(buf, size, "at most %zu characters", option->size - 1);
		break;
	case OPTION_TYPE_LIST:
		snprintf(buf, size, "at most %d texts", CONFIG_LIST_MAX);
		break;
	case OPTION_TYPE_RULES:
		snprintf(buf, size, "at most %d rules", RULES_MAX);
		break;
	}
}

/* @text as comment lines behind @indent, none longer than LINE_COLUMNS. */
static void write_wrapped(FILE *f, const char *indent, const char *text)
{
	size_t room = LINE_COLUMNS - strlen(indent) - 2;

	while (*text) {
		size_t n = strlen(text);

		if (n > room) {
			for (n = room; n > 0 && text[n] != ' ';)
				n--;
			if (n == 0)
				n = room;
		}
		fprintf(f, "%s# %.*s\n", indent, (int)n, text);
		text += n;
		text += strspn(text, " ");
	}
}

static void write_option(FILE *f, const struct option_info *option, const char *leaf, const char *indent)
{
	char allowed[256], facts[512];

	option_allowed_text(option, allowed, sizeof(allowed));
	snprintf(facts, sizeof(facts), "%s; default %s; takes effect %s", allowed, option->default_text,
		 option->change == OPTION_LIVE ? "on reload" : "on restart");
	fputs(*indent ? "#\n" : "\n", f);
	write_wrapped(f, indent, option->line);
	write_wrapped(f, indent, facts);
	fprintf(f, "#%s%s = %s;\n", *indent ? indent + 1 : "", leaf, option->default_text);
}

static void write_defaults(FILE *f)
{
	const char *open_group = NULL;
	size_t open_len = 0;

	fputs("# Configuration of pghotd, which promotes hot memory pages. Every setting stands with its default.\n"
	      "#\n"
	      "# To change one, take away the # in front of it and, when it stands in a group, those in front of\n"
	      "# the two lines that open and close the group: promote = { ... };\n"
	      "# Sizes and times have their unit in the name. Whole numbers are decimal (010 is ten) or as 0x1F.\n"
	      "# After a change: systemctl reload pghotd. What is wrong is refused with its line, and then nothing\n"
	      "# of the file is taken over; pghotd --check-config looks without starting anything.\n",
	      f);
	for (size_t i = 0; i < n_options; i++) {
		const struct option_info *option = &option_info[i];
		const char *dot = strchr(option->key, '.');
		size_t len = dot ? (size_t)(dot - option->key) : 0;

		if (open_group && (len != open_len || memcmp(open_group, option->key, len) != 0)) {
			fputs("#};\n", f);
			open_group = NULL;
		}
		if (dot && !open_group) {
			fprintf(f, "\n#%.*s = {\n", (int)len, option->key);
			open_group = option->key;
			open_len = len;
		}
		write_option(f, option, dot ? dot + 1 : option->key, dot ? "#    " : "");
	}
	if (open_group)
		fputs("#};\n", f);
}

int config_write_defaults(const char *path)
{
	_cleanup_fclose_ FILE *f = NULL;

	if (strcmp(path, "-") == 0) {
		write_defaults(stdout);
		return ferror(stdout) ? -EIO : 0;
	}
	f = fopen(path, "we");
	if (!f)
		return -errno;
	write_defaults(f);
	/* The last bytes may fail only here. */
	bool failed = ferror(f) != 0;

	if (fclose(take_ptr(f)) != 0)
		return -errno;
	return failed ? -EIO : 0;
}
