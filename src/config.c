/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <fcntl.h>
#include <libconfig.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cleanup.h"
#include "config.h"
#include "config_rules.h"
#include "config_scan.h"
#include "config_value.h"
#include "hash.h"

/* Far more than any configuration; it bounds what a wrong path costs. */
#define FILE_MAX_BYTES (1u << 20)

/* A dotted key; what is longer is cut, and then is no key. */
#define KEY_BYTES 128

/* clang-format off */
enum {
	N_OPTIONS = 0
#define OPTION_INT(...)   + 1
#define OPTION_FLOAT(...) + 1
#define OPTION_BOOL(...)  + 1
#define OPTION_ENUM(...)  + 1
#define OPTION_TEXT(...)  + 1
#define OPTION_LIST(...)  + 1
#define OPTION_RULES(...) + 1
#include "options.def"
#include "options_undef.h"
};
/* clang-format on */

struct load {
	const char *file;
	char *error;
	struct config config;
	struct {
		int line;            /* 0: not given */
		char key[KEY_BYTES]; /* as given: the option's own or an alias */
	} given[N_OPTIONS];
};

static const char *type_text(const config_setting_t *setting)
{
	switch (config_setting_type(setting)) {
	case CONFIG_TYPE_INT:
	case CONFIG_TYPE_INT64:
		return "a whole number";
	case CONFIG_TYPE_FLOAT:
		return "a number with a fraction";
	case CONFIG_TYPE_BOOL:
		return "true or false";
	case CONFIG_TYPE_STRING:
		return "a text";
	case CONFIG_TYPE_ARRAY:
	case CONFIG_TYPE_LIST:
		return "a list";
	default:
		return "a group";
	}
}

static int line_of(const config_setting_t *setting)
{
	return (int)config_setting_source_line(setting);
}

static int load_list(struct config_where *where, struct load *load, const struct option_info *option,
		     const config_setting_t *setting)
{
	int type = config_setting_type(setting);

	if (type != CONFIG_TYPE_ARRAY && type != CONFIG_TYPE_LIST)
		return config_fail_type(where, option, type_text(setting));
	config_clear_list(&load->config, option);
	for (int i = 0; i < config_setting_length(setting); i++) {
		const config_setting_t *item = config_setting_get_elem(setting, (unsigned int)i);

		if (line_of(item) > 0)
			where->line = line_of(item);
		if (config_setting_type(item) != CONFIG_TYPE_STRING)
			return config_fail(where, "item %d is %s, but a text in quotes is wanted, as in: %s", i + 1,
					   type_text(item), config_example(option));
		if (config_put_item(where, &load->config, option, config_setting_get_string(item)) < 0)
			return -EINVAL;
	}
	return 0;
}

static int load_rule_key(const struct config_where *where, struct rule *rule, const config_setting_t *setting)
{
	const char *name = config_setting_name(setting);
	int type = config_setting_type(setting);

	switch (config_rule_type(name)) {
	case RULE_KEY_TEXT:
		if (type == CONFIG_TYPE_STRING)
			return config_put_rule_text(where, rule, name, config_setting_get_string(setting));
		return config_fail(where, "this is %s, but a text in quotes is wanted", type_text(setting));
	case RULE_KEY_NUMBER:
		if (type == CONFIG_TYPE_INT)
			return config_put_rule_number(where, rule, name, config_setting_get_int(setting));
		return config_fail(where, "this is %s, but a whole number is wanted", type_text(setting));
	case RULE_KEY_TRUTH:
		if (type == CONFIG_TYPE_BOOL)
			return config_put_rule_truth(where, rule, name, config_setting_get_bool(setting));
		return config_fail(where, "this is %s, but true or false is wanted", type_text(setting));
	case RULE_KEY_UNKNOWN:
		break;
	}
	return config_fail_rule_key(where);
}

static int load_rule(struct load *load, struct rule *rule, const config_setting_t *group, const char *list)
{
	const struct config_where here = { load->file, line_of(group), list, load->error };

	rule_init(rule);
	for (int i = 0; i < config_setting_length(group); i++) {
		const config_setting_t *setting = config_setting_get_elem(group, (unsigned int)i);
		char key[KEY_BYTES];
		const struct config_where where = { load->file, line_of(setting), key, load->error };

		snprintf(key, sizeof(key), "%s.%s", list, config_setting_name(setting));
		if (load_rule_key(&where, rule, setting) < 0)
			return -EINVAL;
	}
	return config_check_rule(&here, rule);
}

static int load_rules(struct config_where *where, struct load *load, const struct option_info *option,
		      const config_setting_t *setting)
{
	struct rules *rules = (void *)((char *)&load->config + option->offset);

	/* An empty list may be written as an array. */
	if (config_setting_type(setting) != CONFIG_TYPE_LIST &&
	    (config_setting_type(setting) != CONFIG_TYPE_ARRAY || config_setting_length(setting) > 0))
		return config_fail_type(where, option, type_text(setting));
	memset(rules, 0, sizeof(*rules));
	for (int i = 0; i < config_setting_length(setting); i++) {
		const config_setting_t *item = config_setting_get_elem(setting, (unsigned int)i);

		if (line_of(item) > 0)
			where->line = line_of(item);
		if (!config_setting_is_group(item))
			return config_fail(where, "item %d is %s, but a rule is wanted, as in: %s", i + 1,
					   type_text(item), config_example(option));
		if (i == RULES_MAX)
			return config_fail(where, "there are too many rules: it may be %d", RULES_MAX);
		if (load_rule(load, &rules->rule[i], item, where->key) < 0)
			return -EINVAL;
		rules->n = i + 1;
	}
	return 0;
}

static int load_value(struct config_where *where, struct load *load, const struct option_info *option,
		      const config_setting_t *setting)
{
	int type = config_setting_type(setting);
	bool is_alias = strcmp(option->key, where->key) != 0;

	switch (option->type) {
	case OPTION_TYPE_INT:
		if (type == CONFIG_TYPE_INT)
			return config_put_int(where, &load->config, option, config_setting_get_int(setting));
		break;
	case OPTION_TYPE_FLOAT:
		if (type == CONFIG_TYPE_INT)
			return config_put_float(where, &load->config, option, config_setting_get_int(setting));
		if (type == CONFIG_TYPE_FLOAT)
			return config_put_float(where, &load->config, option, config_setting_get_float(setting));
		break;
	case OPTION_TYPE_BOOL:
		if (type == CONFIG_TYPE_BOOL)
			return config_put_bool(where, &load->config, option, config_setting_get_bool(setting));
		break;
	case OPTION_TYPE_ENUM:
	case OPTION_TYPE_TEXT:
		if (type == CONFIG_TYPE_STRING)
			return config_put_text(where, &load->config, option, config_setting_get_string(setting));
		break;
	case OPTION_TYPE_LIST:
		if (!is_alias)
			return load_list(where, load, option, setting);
		if (type == CONFIG_TYPE_INT)
			return config_put_sources_mask(where, &load->config, config_setting_get_int(setting));
		break;
	case OPTION_TYPE_RULES:
		return load_rules(where, load, option, setting);
	}
	return config_fail_type(where, option, type_text(setting));
}

static int load_option(struct config_where *where, struct load *load, const struct option_info *option,
		       const config_setting_t *setting)
{
	size_t i = (size_t)(option - option_info);

	if (load->given[i].line > 0)
		return config_fail(where, "this is the same as %s, which line %d sets; take one of them out",
				   load->given[i].key, load->given[i].line);
	load->given[i].line = where->line;
	snprintf(load->given[i].key, sizeof(load->given[i].key), "%s", where->key);
	return load_value(where, load, option, setting);
}

static int load_group(struct load *load, const config_setting_t *group, const char *prefix)
{
	for (int i = 0; i < config_setting_length(group); i++) {
		const config_setting_t *setting = config_setting_get_elem(group, (unsigned int)i);
		char key[KEY_BYTES];
		struct config_where where = { load->file, line_of(setting), key, load->error };
		const struct option_info *option, *first;
		int r;

		snprintf(key, sizeof(key), "%s%s%s", prefix, *prefix ? "." : "", config_setting_name(setting));
		option = option_find(key);
		first = config_first_in_group(key);
		if (option)
			r = load_option(&where, load, option, setting);
		else if (!first)
			r = config_check_key(&where);
		else if (config_setting_is_group(setting))
			r = load_group(load, setting, key);
		else
			r = config_fail(&where, "this is %s, but a group is wanted, as in: %s = { %s = %s; };",
					type_text(setting), key, first->key + strlen(key) + 1, config_example(first));
		if (r < 0)
			return r;
	}
	return 0;
}

/* config_scan() leaves nothing for libconfig to find; but its word counts. */
static int fail_syntax(const struct load *load, const config_t *parsed)
{
	struct config_where where = { load->file, config_error_line(parsed), "", load->error };
	const char *what = config_error_text(parsed);

	return config_fail(&where, "%s", what ? what : "syntax error");
}

static int parse_text(struct load *load, const char *text)
{
	const struct option_info *option;
	struct config_scan_fault fault;
	char why[CONFIG_ERROR_MAX];
	config_t parsed;
	int r;

	if (config_scan(text, &fault) < 0) {
		struct config_where where = { load->file, fault.line, "", load->error };

		return config_fail(&where, "%s", fault.text);
	}
	config_init(&parsed);
	if (config_read_string(&parsed, text) == CONFIG_FALSE)
		r = fail_syntax(load, &parsed);
	else
		r = load_group(load, config_root_setting(&parsed), "");
	config_destroy(&parsed);
	if (r < 0)
		return r;
	if (config_check(&load->config, &option, why) < 0) {
		size_t i = (size_t)(option - option_info);
		bool given = load->given[i].line > 0;
		struct config_where where = { load->file, load->given[i].line, given ? load->given[i].key : option->key,
					      load->error };

		return config_fail(&where, "%s", why);
	}
	return 0;
}

/* @text of @len bytes, with 2 more behind it to write on. */
static int parse_bytes(char *text, size_t len, const char *name, struct config *ret, char *error)
{
	_cleanup_free_ struct load *load = calloc(1, sizeof(*load));
	struct config_where where = { name, 0, "", error };
	const char *nul = memchr(text, '\0', len);

	if (!load) {
		config_fail(&where, "no memory to read it");
		return -ENOMEM;
	}
	if (nul) {
		where.line = 1;
		for (const char *p = text; p < nul; p++)
			where.line += *p == '\n';
		return config_fail(&where, "there is a byte of value 0: this is no text file");
	}
	/* libconfig 1.5 takes no comment without a newline. */
	strcpy(text + len, len > 0 && text[len - 1] == '\n' ? "" : "\n");
	load->file = name;
	load->error = error;
	config_defaults(&load->config);
	if (parse_text(load, text) < 0)
		return -EINVAL;
	*ret = load->config;
	return 0;
}

int config_parse(const char *text, const char *name, struct config *ret, char *error)
{
	struct config_where where = { name, 0, "", error };
	_cleanup_free_ char *copy = NULL;
	size_t len = strlen(text);

	if (len > FILE_MAX_BYTES)
		return config_fail(&where, "it is larger than %u bytes: this is no configuration", FILE_MAX_BYTES);
	copy = malloc(len + 2);
	if (!copy) {
		config_fail(&where, "no memory to read it");
		return -ENOMEM;
	}
	memcpy(copy, text, len);
	return parse_bytes(copy, len, name, ret, error);
}

/* Whoever can write the file decides what a daemon of root's does. */
static int check_writers(const struct config_where *where, const struct stat *st)
{
	unsigned int mode = (unsigned int)st->st_mode & 07777;

	if (st->st_uid != 0 && st->st_uid != geteuid())
		config_fail(where, "it belongs to user %u, who could change it; make it root's: chown root %s",
			    (unsigned int)st->st_uid, where->file);
	else if (mode & S_IWOTH)
		config_fail(where, "everybody may change it (mode %04o); take that away: chmod o-w %s", mode,
			    where->file);
	else if ((mode & S_IWGRP) && st->st_gid != 0)
		config_fail(where, "group %u may change it (mode %04o); take that away: chmod g-w %s",
			    (unsigned int)st->st_gid, mode, where->file);
	else
		return 0;
	return -EPERM;
}

uint64_t config_mark(const char *text, size_t len)
{
	uint64_t mark = hash_fnv1a(HASH_FNV1A_START, text, len);

	return mark ? mark : 1;
}

int config_load(const char *path, struct config *ret, char *error)
{
	return config_load_marked(path, ret, NULL, error);
}

int config_load_marked(const char *path, struct config *ret, uint64_t *ret_mark, char *error)
{
	struct config_where where = { path, 0, "", error };
	_cleanup_free_ char *text = NULL;
	_cleanup_close_ int fd = -1;
	size_t len = 0;
	struct stat st;
	uint64_t mark;
	int r;

	/* Not blocking: a FIFO under this name must not hold up the daemon. */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &st) < 0) {
		r = -errno;
		if (r == -EACCES)
			config_fail(&where, "user id %u may not read it, or may not look into a folder above it",
				    geteuid());
		else
			config_fail(&where, "%s", strerror(-r));
		return r;
	}
	if (!S_ISREG(st.st_mode))
		return config_fail(&where, "this is no ordinary file");
	r = check_writers(&where, &st);
	if (r < 0)
		return r;
	text = malloc(FILE_MAX_BYTES + 2);
	if (!text) {
		config_fail(&where, "no memory to read it");
		return -ENOMEM;
	}
	while (len <= FILE_MAX_BYTES) {
		ssize_t n = read(fd, text + len, FILE_MAX_BYTES + 1 - len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			r = -errno;
			config_fail(&where, "cannot read it: %s", strerror(-r));
			return r;
		}
		if (n == 0)
			break;
		len += (size_t)n;
	}
	if (len > FILE_MAX_BYTES)
		return config_fail(&where, "it is larger than %u bytes: this is no configuration", FILE_MAX_BYTES);
	mark = config_mark(text, len); /* before it is written on */
	r = parse_bytes(text, len, path, ret, error);
	if (r == 0 && ret_mark)
		*ret_mark = mark;
	return r;
}
