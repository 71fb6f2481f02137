/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * config: the configuration as one flat value, made from options.def. Parsed whole or not at all.
 *
 * Writer      main thread (load, reload, tune)
 * Readers     all, by copy through struct config_store
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fsroot.h"
#include "rules.h"

#define CONFIG_LIST_MAX  16
#define CONFIG_ITEM_MAX  64
#define CONFIG_ERROR_MAX 512
#define CONFIG_TEXT_MAX  12288 /* any option as text: config_get_text() */

struct config_list {
	int n;
	char item[CONFIG_LIST_MAX][CONFIG_ITEM_MAX];
};

struct config {
#define OPTION_INT(id, key, unit, min, max, def, change, line)   int64_t id;
#define OPTION_FLOAT(id, key, unit, min, max, def, change, line) double id;
#define OPTION_BOOL(id, key, def, change, line)                  bool id;
#define OPTION_ENUM(id, key, choices, def, change, line)         int id;
#define OPTION_TEXT(id, key, size, def, change, line)            char id[size];
#define OPTION_LIST(id, key, def, change, line)                  struct config_list id;
#define OPTION_RULES(id, key, change, line)                      struct rules id;
#include "options.def"
#include "options_undef.h"
};

/* Values of the enumerated options, in the order of their choices. */
enum config_mode { MODE_OBSERVE, MODE_PROMOTE };
enum config_records { RECORDS_PRECISE, RECORDS_COMPACT };
enum config_room { ROOM_AUTO, ROOM_KERNEL, ROOM_EXCHANGE, ROOM_OFF };
enum config_guard_action { GUARD_ACTION_PAUSE, GUARD_ACTION_SLOW };
enum config_policy { POLICY_PAGE, POLICY_REGION };

enum option_type {
	OPTION_TYPE_INT,
	OPTION_TYPE_FLOAT,
	OPTION_TYPE_BOOL,
	OPTION_TYPE_ENUM,
	OPTION_TYPE_TEXT,
	OPTION_TYPE_LIST,
	OPTION_TYPE_RULES
};
enum option_change { OPTION_LIVE, OPTION_RESTART };

struct option_info {
	const char *key;
	enum option_type type;
	enum option_change change;
	const char *unit;         /* "" where there is none */
	double min, max;          /* numbers only */
	const char *choices;      /* enumerations only, by '|' */
	const char *default_text; /* as written in the file, quotes included */
	const char *line;
	size_t offset, size; /* in struct config */
};

extern const struct option_info option_info[];
extern const size_t n_options;

/* The option of that dotted key (an alias too), or NULL. */
const struct option_info *option_find(const char *key);

/* Enumerations: index of the choice @text, or -ENOENT. */
int option_choice_find(const struct option_info *option, const char *text);

/* Enumerations: the choice @index as text. Length, -ENOENT (no such choice) or -ENOSPC. */
int option_choice_text(const struct option_info *option, int index, char *buf, size_t size);

/* What is allowed, in words: "0 to 1048576 MiB/s", "\"observe\" or \"promote\"". Cut where @size is too small. */
void option_allowed_text(const struct option_info *option, char *buf, size_t size);

void config_defaults(struct config *ret);

/*
 * Read @path over the defaults. 0, or -errno with one line in @error (CONFIG_ERROR_MAX bytes) that names file, line,
 * key and what is allowed: -EINVAL for the content (also: larger than 1 MiB, no ordinary file), -EPERM for a file that
 * somebody other than root and the caller may write, -ENOMEM, -ENOENT and the like for the file.
 * @ret is not touched on failure. Never logs. Main thread (libconfig is not asked to be more).
 */
int config_load(const char *path, struct config *ret, char *error);

/*
 * The same, and in *@ret_mark (unless NULL) what the file's bytes are known by: of two files with one mark it can be
 * said that they are the same, as far as nobody has made them so on purpose. 0 is no file's.
 */
int config_load_marked(const char *path, struct config *ret, uint64_t *ret_mark, char *error);

/* The mark of @len bytes. Pure. */
uint64_t config_mark(const char *text, size_t len);

/* The same from memory; @name stands for the file in messages. 0, -EINVAL or -ENOMEM. */
int config_parse(const char *text, const char *name, struct config *ret, char *error);

/*
 * Set one option from its text as a person types it ("promote.rate_mib_per_sec", "256"): a word bare or in quotes, a
 * list as in the file ("( \"0-1\", \"2\" )") or, with one item, as a bare word. Aliases work too. Checks the whole
 * result: 0, or -EINVAL with one line in @error (CONFIG_ERROR_MAX bytes) and @config untouched. Pure.
 */
int config_set(struct config *config, const char *key, const char *value, char *error);

/*
 * Current value of an option as text, as config_set() takes it. Length, or -ENOSPC (@buf then holds "" only), -ENOMEM,
 * -ENOENT (an enumeration with a value that is no choice). Independent of the locale. Any thread.
 */
int config_get_text(const struct config *config, const struct option_info *option, char *buf, size_t size);

/* true when @option has the same value in both. */
bool config_same(const struct config *a, const struct config *b, const struct option_info *option);

/*
 * Write the commented default configuration (the shipped pghotd.conf) to @path, in place of what is there, or to stdout
 * for "-", which the caller flushes. 0 or -errno.
 */
int config_write_defaults(const char *path);

struct config_store;

struct config_store *config_store_new(const struct config *first); /* NULL: no memory */
void config_store_free(struct config_store *store);

/* Copy the current configuration. Any thread registered with rcu; wait-free. */
void config_store_get(const struct config_store *store, struct config *ret);

/* Publish a copy of @next, whole. 0 or -ENOMEM (the old one stays). Blocks for a grace period. Main thread. */
int config_store_set(struct config_store *store, const struct config *next);
