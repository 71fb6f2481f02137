/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "config.h"
#include "config_value.h"
#include "parse.h"

#define BEGINNING_MIN 3  /* of a name: with fewer letters anything is meant */
#define KEY_MAX       64 /* longer than any key; a longer one is a typo beyond help */

/* Bits of the kernel's enabled_sources; mm/pghot-tunables.c of the posted series. */
#define SOURCES_HINT_FAULTS 0x1
#define SOURCES_HARDWARE    0x2

/* All that may stand in the file, for guesses at what was meant. */
static const char *const known_keys[] = {
#define OPTION_INT(id, key, ...)   key,
#define OPTION_FLOAT(id, key, ...) key,
#define OPTION_BOOL(id, key, ...)  key,
#define OPTION_ENUM(id, key, ...)  key,
#define OPTION_TEXT(id, key, ...)  key,
#define OPTION_LIST(id, key, ...)  key,
#define OPTION_ALIAS(key, target)  key,
#define OPTION_RULES(id, key, ...) key,
#include "options.def"
#include "options_undef.h"
};

#define N_KNOWN_KEYS (sizeof(known_keys) / sizeof(known_keys[0]))

static void *value_of(struct config *config, const struct option_info *option)
{
	return (char *)config + option->offset;
}

static const char *leaf_of(const char *key)
{
	const char *dot = strrchr(key, '.');

	return dot ? dot + 1 : key;
}

/* Bytes of the character at @p; 0: it is none of UTF-8, or a control character. */
static size_t character_len(const char *p)
{
	const unsigned char *c = (const unsigned char *)p;
	size_t len = 1;

	if (c[0] < 0x80)
		return c[0] >= ' ' && c[0] != 0x7f;
	if (c[0] < 0xc2 || c[0] > 0xf4 || (c[0] == 0xc2 && c[1] < 0xa0) || (c[0] == 0xe0 && c[1] < 0xa0) ||
	    (c[0] == 0xed && c[1] > 0x9f) || (c[0] == 0xf0 && c[1] < 0x90) || (c[0] == 0xf4 && c[1] > 0x8f))
		return 0;
	while (len < 2 + (size_t)(c[0] >= 0xe0) + (size_t)(c[0] >= 0xf0))
		if ((c[len++] & 0xc0) != 0x80)
			return 0;
	return len;
}

/* @n is what snprintf() gave. A character in UTF-8 is cut as a whole: the line goes into D-Bus and JSON. */
static void finish(char *error, int n)
{
	if (n >= CONFIG_ERROR_MAX) {
		size_t end = CONFIG_ERROR_MAX - sizeof("...");

		while (end > 0 && ((unsigned char)error[end] & 0xc0) == 0x80)
			end--;
		memcpy(error + end, "...", sizeof("..."));
	}
	for (char *p = error; *p;) {
		size_t len = character_len(p);

		if (len == 0)
			*p = '?';
		p += len > 0 ? len : 1;
	}
}

int config_fail(const struct config_where *where, const char *fmt, ...)
{
	char text[CONFIG_ERROR_MAX + 8], line[16] = ""; /* longer than fits, so that a cut shows */
	const char *file = where->file ? where->file : "";
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (*file && where->line > 0)
		snprintf(line, sizeof(line), ":%d", where->line);
	finish(where->error, snprintf(where->error, CONFIG_ERROR_MAX, "%s%s%s%s%s%s", file, line, *file ? ": " : "",
				      where->key, *where->key ? ": " : "", text));
	return -EINVAL;
}

const char *config_example(const struct option_info *option)
{
	if (option->type == OPTION_TYPE_RULES)
		return "( { match = \"cgroup:/system.slice/**\"; mode = \"off\"; } )";
	/* An empty list shows nothing. */
	return strcmp(option->default_text, "( )") == 0 ? "( \"0-1\", \"2\" )" : option->default_text;
}

int config_fail_type(const struct config_where *where, const struct option_info *option, const char *got)
{
	static const char *const wanted[] = {
		[OPTION_TYPE_INT] = "a whole number",    [OPTION_TYPE_FLOAT] = "a number",
		[OPTION_TYPE_BOOL] = "true or false",    [OPTION_TYPE_ENUM] = "a text in quotes",
		[OPTION_TYPE_TEXT] = "a text in quotes", [OPTION_TYPE_LIST] = "a list of texts",
		[OPTION_TYPE_RULES] = "a list of rules",
	};
	const char *leaf = leaf_of(where->key);

	/* The alias of a list takes a number. */
	if (option->type == OPTION_TYPE_LIST && strcmp(option->key, where->key) != 0)
		return config_fail(where, "this is %s, but a whole number is wanted, as in: %s = 1;", got, leaf);
	if (!where->file)
		return config_fail(where, "%s is wanted%s%s, as in: %s", wanted[option->type],
				   option->unit[0] ? ", in " : "", option->unit, config_example(option));
	return config_fail(where, "this is %s, but %s is wanted, as in: %s = %s;", got, wanted[option->type], leaf,
			   config_example(option));
}

int config_fail_range(const struct config_where *where, const struct option_info *option, const char *value)
{
	char allowed[128];

	option_allowed_text(option, allowed, sizeof(allowed));
	return config_fail(where, "%s is out of range: it may be %s", value, allowed);
}

/* The nearest key to @key in @ret (KEY_MAX bytes), or "": none is near enough to be what was meant. */
static void nearest_key(const char *key, char *ret)
{
	unsigned int best = UINT_MAX;

	ret[0] = '\0';
	if (strlen(key) >= KEY_MAX)
		return;
	for (size_t i = 0; i < N_KNOWN_KEYS; i++) {
		const char *candidate = known_keys[i];
		unsigned int d = parse_distance(key, candidate),
			     by_leaf = parse_distance(leaf_of(key), leaf_of(candidate)) + 1;
		const char *dot = strchr(candidate, '.');

		/* A key in the wrong group, or outside of its group. */
		if (by_leaf < d)
			d = by_leaf;
		/* In capitals, or without the unit at its end. */
		if (strcasecmp(key, candidate) == 0 ||
		    (strlen(leaf_of(key)) >= BEGINNING_MIN && strncmp(key, candidate, strlen(key)) == 0 &&
		     candidate[strlen(key)] == '_'))
			d = 0;
		if (d < best) {
			best = d;
			snprintf(ret, KEY_MAX, "%s", candidate);
		}
		/* A group that is misspelt. */
		if (dot) {
			char group[KEY_MAX];

			snprintf(group, sizeof(group), "%.*s", (int)(dot - candidate), candidate);
			d = parse_distance(key, group);
			if (d < best) {
				best = d;
				snprintf(ret, KEY_MAX, "%s", group);
			}
		}
	}
	/* More than a good third of the letters different: another word. */
	if (best > 1 + strlen(leaf_of(key)) * 2 / 5)
		ret[0] = '\0';
}

const struct option_info *config_first_in_group(const char *key)
{
	size_t len = strlen(key);

	for (size_t i = 0; i < n_options; i++)
		if (strncmp(option_info[i].key, key, len) == 0 && option_info[i].key[len] == '.')
			return &option_info[i];
	return NULL;
}

int config_check_key(const struct config_where *where)
{
	const struct option_info *first = config_first_in_group(where->key);
	char nearest[KEY_MAX];

	if (option_find(where->key))
		return 0;
	if (first)
		return config_fail(where, "this is a group; name one of its settings, as in %s", first->key);
	nearest_key(where->key, nearest);
	const char *dot = strchr(nearest, '.');

	if (!nearest[0])
		return config_fail(where, "there is no such setting; pghotd.conf(5) lists all");
	if (where->file && dot && strcmp(leaf_of(nearest), where->key) == 0)
		return config_fail(where, "this setting stands in a group: %.*s = { %s = ...; };", (int)(dot - nearest),
				   nearest, where->key);
	return config_fail(where, "there is no such setting; did you mean %s?", nearest);
}

/* What a key takes. */
enum wanted { ANYTHING, TEXT, LIST, NUMBER, TRUTH, GROUP, RULES };

static enum wanted wanted_by(const char *key)
{
	static const enum wanted by_type[] = {
		[OPTION_TYPE_INT] = NUMBER,  [OPTION_TYPE_FLOAT] = NUMBER, [OPTION_TYPE_BOOL] = TRUTH,
		[OPTION_TYPE_ENUM] = TEXT,   [OPTION_TYPE_TEXT] = TEXT,    [OPTION_TYPE_LIST] = LIST,
		[OPTION_TYPE_RULES] = RULES,
	};
	const struct option_info *option = option_find(key);

	if (!option)
		return config_first_in_group(key) ? GROUP : ANYTHING;
	/* An alias takes a number, also that of a list. */
	return strcmp(option->key, key) != 0 ? NUMBER : by_type[option->type];
}

static bool is_yes_or_no(const char *word)
{
	return strcasecmp(word, "yes") == 0 || strcasecmp(word, "no") == 0 || strcasecmp(word, "on") == 0 ||
	       strcasecmp(word, "off") == 0;
}

/* What else to say of a number that is followed by @rest. */
static void number_hint(const char *key, const char *rest, char *buf, size_t size)
{
	const struct option_info *option = option_find(key);
	char unit[16];

	buf[0] = '\0';
	if (*rest == ',')
		snprintf(buf, size, "%s",
			 option && option->type == OPTION_TYPE_FLOAT ? ", with a point, not a comma"
								     : ", without a comma");
	if (!option || !option->unit[0] || strchr(",-+._:0123456789", *rest))
		return;
	snprintf(unit, sizeof(unit), "%.*s", (int)strcspn(option->unit, "/"), option->unit);
	if (strcasestr(leaf_of(key), unit))
		snprintf(buf, size, ", its unit is in the name");
	else
		snprintf(buf, size, ", in %s", option->unit);
}

static void explain_number(const char *key, enum config_odd odd, const char *word, const char *rest, char *buf,
			   size_t size)
{
	enum wanted wanted = wanted_by(key);
	bool is_text = wanted == TEXT || wanted == LIST;
	char hint[64];

	number_hint(key, rest, hint, sizeof(hint));
	if (is_text && odd == CONFIG_ODD_NUMBER)
		snprintf(buf, size, "%s: put text in double quotes: \"%s%s\"", key, word, rest);
	else if (is_text)
		snprintf(buf, size, "%s: %s is followed by %s: put text in double quotes", key, word, rest);
	else if (wanted == TRUTH)
		snprintf(buf, size, "%s: %s is followed by %s: write true or false", key, word, rest);
	else if (wanted == GROUP)
		snprintf(buf, size, "%s: a group is written with { }: %s = { key = value; };", key, key);
	else
		snprintf(buf, size, "%s: %s is followed by %s: a plain number is wanted%s", key, word, rest, hint);
}

static void explain_word(const char *key, enum config_odd odd, const char *word, char *buf, size_t size)
{
	bool quoted = odd == CONFIG_ODD_QUOTES;
	enum wanted wanted = wanted_by(key);

	if (wanted == GROUP)
		snprintf(buf, size, "%s: a group is written with { }: %s = { key = value; };", key, key);
	else if (wanted == NUMBER && quoted)
		snprintf(buf, size, "%s: a plain number is wanted, without quotes", key);
	else if (wanted == NUMBER)
		snprintf(buf, size, "%s: %s is no value here: a plain number is wanted", key, word);
	else if (wanted == TRUTH || (wanted == ANYTHING && !quoted && is_yes_or_no(word)))
		snprintf(buf, size, "%s: %s is no value here: write true or false", key, word);
	else
		snprintf(buf, size, "%s: put text in double quotes: \"%s\"", key, word);
}

int config_explain(const char *key, enum config_odd odd, const char *word, const char *rest, char *buf, size_t size)
{
	if (odd == CONFIG_ODD_NUMBER || odd == CONFIG_ODD_APART)
		explain_number(key, odd, word, rest, buf, size);
	else if (odd != CONFIG_ODD_TEXTS)
		explain_word(key, odd, word, buf, size);
	else if (wanted_by(key) == LIST)
		snprintf(buf, size, "%s: a list is written with ( ): ( %s, %s )", key, word, rest);
	else
		snprintf(buf, size, "%s: one text is wanted, but %s is followed by %s", key, word, rest);
	return -EINVAL;
}

int config_put_int(const struct config_where *where, struct config *config, const struct option_info *option,
		   int64_t value)
{
	int64_t *slot = value_of(config, option);
	char text[32];

	if ((double)value < option->min || (double)value > option->max) {
		snprintf(text, sizeof(text), "%lld", (long long)value);
		return config_fail_range(where, option, text);
	}
	*slot = value;
	return 0;
}

int config_put_float(const struct config_where *where, struct config *config, const struct option_info *option,
		     double value)
{
	double *slot = value_of(config, option);
	char text[32];

	/* Written so that it refuses what is no number too. */
	if (!(value >= option->min && value <= option->max)) {
		snprintf(text, sizeof(text), "%.10g", value);
		return config_fail_range(where, option, text);
	}
	*slot = value + 0.0; /* -0 becomes 0 */
	return 0;
}

int config_put_bool(const struct config_where *where, struct config *config, const struct option_info *option,
		    bool value)
{
	bool *slot = value_of(config, option);

	(void)where;
	*slot = value;
	return 0;
}

/* Names of groups and lists of numbers need no more, and it goes into logs, JSON and back into a file as it is. */
static int check_plain(const struct config_where *where, const char *value)
{
	for (const char *p = value; *p; p++)
		if (*p < ' ' || *p > '~' || *p == '"' || *p == '\\')
			return config_fail(where, "only plain letters, digits and signs are allowed in a text here");
	return 0;
}

static int put_choice(const struct config_where *where, struct config *config, const struct option_info *option,
		      const char *value)
{
	int *slot = value_of(config, option);
	char allowed[256];
	int i;

	if (check_plain(where, value) < 0)
		return -EINVAL;
	i = option_choice_find(option, value);
	if (i < 0) {
		option_allowed_text(option, allowed, sizeof(allowed));
		return config_fail(where, "\"%.40s\" is not known here: it may be %s", value, allowed);
	}
	*slot = i;
	return 0;
}

int config_put_text(const struct config_where *where, struct config *config, const struct option_info *option,
		    const char *value)
{
	char *slot = value_of(config, option);
	char allowed[64];

	if (option->type == OPTION_TYPE_ENUM)
		return put_choice(where, config, option, value);
	if (strlen(value) >= option->size) {
		option_allowed_text(option, allowed, sizeof(allowed));
		return config_fail(where, "the text has %zu characters: it may have %s", strlen(value), allowed);
	}
	if (check_plain(where, value) < 0)
		return -EINVAL;
	memset(slot, 0, option->size);
	memcpy(slot, value, strlen(value));
	return 0;
}

void config_clear_list(struct config *config, const struct option_info *option)
{
	memset(value_of(config, option), 0, option->size);
}

int config_put_item(const struct config_where *where, struct config *config, const struct option_info *option,
		    const char *value)
{
	struct config_list *list = value_of(config, option);

	if (list->n == CONFIG_LIST_MAX)
		return config_fail(where, "the list is too long: it may have at most %d items", CONFIG_LIST_MAX);
	if (strlen(value) >= CONFIG_ITEM_MAX)
		return config_fail(where, "item %d has %zu characters: it may have at most %d", list->n + 1,
				   strlen(value), CONFIG_ITEM_MAX - 1);
	if (check_plain(where, value) < 0)
		return -EINVAL;
	memcpy(list->item[list->n++], value, strlen(value));
	return 0;
}

int config_put_sources_mask(const struct config_where *where, struct config *config, int64_t mask)
{
	int r = 0;

	if (mask < 1 || mask > (SOURCES_HINT_FAULTS | SOURCES_HARDWARE))
		return config_fail(where,
				   "%lld is out of range: it may be 0x%x, hint faults, 0x%x, hardware, or 0x%x, both",
				   (long long)mask, SOURCES_HINT_FAULTS, SOURCES_HARDWARE,
				   SOURCES_HINT_FAULTS | SOURCES_HARDWARE);
	config_clear_list(config, option_find("sources"));
	if (mask & SOURCES_HARDWARE)
		r = config_put_item(where, config, option_find("sources"), "ibs");
	if (r == 0 && (mask & SOURCES_HINT_FAULTS))
		r = config_put_item(where, config, option_find("sources"), "hint_faults");
	return r;
}
