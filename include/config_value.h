/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * config_value: one value into a struct config, checked against its row of options.def, and what several values must
 * agree on. Shared by the file (config.c) and by tune (config_set()), so that both refuse the same with the same words.
 *
 * Pure. All functions return 0, or -EINVAL with one line in the error of @where.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct config;
struct option_info;

/* Who wrote the value, for the message. */
struct config_where {
	const char *file; /* NULL: no file, a person at a prompt */
	int line;         /* 0: none in particular */
	const char *key;  /* as written, so maybe an alias; "" when it is about no single key */
	char *error;      /* CONFIG_ERROR_MAX bytes */
};

/* Write "file:line: key: text" to the error; control characters become '?', what is too long ends in "...". -EINVAL. */
int config_fail(const struct config_where *where, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* A value of the option as it is written in the file, for a message. */
const char *config_example(const struct option_info *option);

/* Refuse a value of the wrong type; @got says of which it is: "a text". -EINVAL. */
int config_fail_type(const struct config_where *where, const struct option_info *option, const char *got);

/* Refuse a value that is beyond what its row allows; @value is the value as text. -EINVAL. */
int config_fail_range(const struct config_where *where, const struct option_info *option, const char *value);

/*
 * Refuse @where->key if it is no key: because what it belongs to is not built, or because there is none like it, in
 * which case the nearest is named. 0 when an option or an alias has this name.
 */
int config_check_key(const struct config_where *where);

/* The first option that stands in the group @key ("promote"), or NULL: there is no such group. */
const struct option_info *config_first_in_group(const char *key);

/* What is odd about a value of the file, which the grammar refuses before its type is known. */
enum config_odd {
	CONFIG_ODD_WORD,   /* promote: a word without quotes */
	CONFIG_ODD_QUOTES, /* 'promote': in other quotes than " */
	CONFIG_ODD_NUMBER, /* 256M, 0-3: a number that goes on */
	CONFIG_ODD_APART,  /* 256 M: the same with blanks between */
	CONFIG_ODD_TEXTS   /* "a" "b" outside of a list */
};

/*
 * Write "key: what is wanted instead" to @buf, by what the option @key takes, which need not exist. @word is the value
 * or its first part, @rest what follows it ("" where nothing does). Always -EINVAL.
 */
int config_explain(const char *key, enum config_odd odd, const char *word, const char *rest, char *buf, size_t size);

int config_put_int(const struct config_where *where, struct config *config, const struct option_info *option,
		   int64_t value);
/* Also where a whole number is given for an option of type float. */
int config_put_float(const struct config_where *where, struct config *config, const struct option_info *option,
		     double value);
int config_put_bool(const struct config_where *where, struct config *config, const struct option_info *option,
		    bool value);
/* For enumerations and texts. */
int config_put_text(const struct config_where *where, struct config *config, const struct option_info *option,
		    const char *value);
/* Item @index of a list: call for 0, 1, ...; before that config_clear_list(). */
void config_clear_list(struct config *config, const struct option_info *option);
int config_put_item(const struct config_where *where, struct config *config, const struct option_info *option,
		    const char *value);

/* The bit mask of enabled_sources: 1 hint faults, 2 hardware. */
int config_put_sources_mask(const struct config_where *where, struct config *config, int64_t mask);

/*
 * What several values must agree on, and lists whose items mean something. -EINVAL with the option that is to blame in
 * @ret_option and a text without file, line and key in @text (CONFIG_ERROR_MAX bytes).
 */
int config_check(const struct config *config, const struct option_info **ret_option, char *text);
