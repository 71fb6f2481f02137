/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <fcntl.h>
#include <libconfig.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cleanup.h"
#include "config_value.h"
#include "parse.h"
#include "sim_keys.h"
#include "sim_scenario.h"

#define FILE_MAX_BYTES (1u << 20)
#define WHY_BYTES      160
#define KEY_BYTES      128

__attribute__((format(printf, 2, 3))) static int fail(char *error, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(error, SIM_ERROR_MAX, fmt, ap);
	va_end(ap);
	return -EINVAL;
}

/* What is being read, for messages. */
struct load {
	const char *file;
	struct sim_scenario *scenario;
	char *error;
};

static int fail_at(const struct load *load, const config_setting_t *setting, const char *why)
{
	const char *name = config_setting_name(setting);

	return fail(load->error, "%s:%u: %s%s%s", load->file, config_setting_source_line(setting), name ? name : "",
		    name ? ": " : "", why);
}

static void *at(void *base, size_t offset)
{
	return (char *)base + offset;
}

static void set_defaults(struct sim_scenario *scenario)
{
	*scenario = (struct sim_scenario){ 0 };
	for (size_t i = 0; i < n_sim_groups; i++)
		if (!sim_groups[i].item_size)
			sim_group_defaults(&sim_groups[i], at(scenario, sim_groups[i].offset));
	config_defaults(&scenario->config);
	scenario->config.mode = MODE_PROMOTE;
}

static int load_value(const struct load *load, const struct sim_key *key, void *base, const config_setting_t *setting)
{
	char why[WHY_BYTES];
	int r;

	switch (config_setting_type(setting)) {
	case CONFIG_TYPE_INT:
		r = sim_key_put_number(key, base, config_setting_get_int(setting), why, sizeof(why));
		break;
	case CONFIG_TYPE_INT64:
		r = sim_key_put_number(key, base, (double)config_setting_get_int64(setting), why, sizeof(why));
		break;
	case CONFIG_TYPE_FLOAT:
		r = sim_key_put_number(key, base, config_setting_get_float(setting), why, sizeof(why));
		break;
	case CONFIG_TYPE_BOOL:
		r = sim_key_put_bool(key, base, config_setting_get_bool(setting), why, sizeof(why));
		break;
	case CONFIG_TYPE_STRING:
		r = sim_key_put_text(key, base, config_setting_get_string(setting), why, sizeof(why));
		break;
	default:
		return fail_at(load, setting, "one value is wanted, not a list or group");
	}
	return r < 0 ? fail_at(load, setting, why) : 0;
}

static int fail_no_key(const struct load *load, const config_setting_t *setting, const struct sim_group *group)
{
	const char *nearest = sim_key_nearest(group, config_setting_name(setting));
	char why[WHY_BYTES];

	if (!*nearest)
		return fail_at(load, setting, "there is no such key, see pghot-scenario(5)");
	snprintf(why, sizeof(why), "there is no such key; did you mean %s?", nearest);
	return fail_at(load, setting, why);
}

static int load_keys(const struct load *load, const struct sim_group *group, void *base,
		     const config_setting_t *setting)
{
	for (int i = 0; i < config_setting_length(setting); i++) {
		const config_setting_t *value = config_setting_get_elem(setting, (unsigned int)i);
		const struct sim_key *key = sim_key_find(group, config_setting_name(value));

		if (!key)
			return fail_no_key(load, value, group);
		if (load_value(load, key, base, value) < 0)
			return -EINVAL;
	}
	return 0;
}

static int load_list(const struct load *load, const struct sim_group *group, const config_setting_t *setting)
{
	size_t *n = at(load->scenario, group->n_offset);

	if (config_setting_type(setting) != CONFIG_TYPE_LIST)
		return fail_at(load, setting, "a list is wanted: ( { ... }, { ... } )");
	for (int i = 0; i < config_setting_length(setting); i++) {
		const config_setting_t *item = config_setting_get_elem(setting, (unsigned int)i);
		void *base = at(load->scenario, group->offset + *n * group->item_size);

		if (!config_setting_is_group(item))
			return fail_at(load, setting, "its items are groups: { key = value; }");
		if (*n == group->max_items)
			return fail_at(load, setting, "there are too many of them");
		sim_group_defaults(group, base);
		if (load_keys(load, group, base, item) < 0)
			return -EINVAL;
		(*n)++;
	}
	return 0;
}

/* An option of the daemon: as text, so that the table of options judges it. */
static int load_option(const struct load *load, const char *key, const config_setting_t *setting)
{
	char text[KEY_BYTES], error[CONFIG_ERROR_MAX];
	const char *value = text;

	switch (config_setting_type(setting)) {
	case CONFIG_TYPE_INT:
		snprintf(text, sizeof(text), "%d", config_setting_get_int(setting));
		break;
	case CONFIG_TYPE_FLOAT:
		snprintf(text, sizeof(text), "%.9f", config_setting_get_float(setting));
		break;
	case CONFIG_TYPE_BOOL:
		value = config_setting_get_bool(setting) ? "true" : "false";
		break;
	case CONFIG_TYPE_STRING:
		value = config_setting_get_string(setting);
		break;
	default:
		return fail_at(load, setting, "a scenario can't set an option of this kind");
	}
	if (config_set(&load->scenario->config, key, value, error) < 0)
		return fail_at(load, setting, error);
	return 0;
}

static int load_config(const struct load *load, const char *prefix, const config_setting_t *group)
{
	if (!config_setting_is_group(group))
		return fail_at(load, group, "a group is wanted: config = { key = value; };");
	for (int i = 0; i < config_setting_length(group); i++) {
		const config_setting_t *setting = config_setting_get_elem(group, (unsigned int)i);
		char key[KEY_BYTES];
		int r;

		snprintf(key, sizeof(key), "%.60s%s%.60s", prefix, *prefix ? "." : "", config_setting_name(setting));
		r = config_setting_is_group(setting) ? load_config(load, key, setting)
						     : load_option(load, key, setting);
		if (r < 0)
			return r;
	}
	return 0;
}

static int load_top(const struct load *load, const config_setting_t *root)
{
	for (int i = 0; i < config_setting_length(root); i++) {
		const config_setting_t *setting = config_setting_get_elem(root, (unsigned int)i);
		const char *name = config_setting_name(setting);
		const struct sim_group *group = sim_group_find(name, strlen(name));
		const struct sim_key *key = sim_key_find(&sim_groups[0], name);
		int r;

		if (strcmp(name, "config") == 0)
			r = load_config(load, "", setting);
		else if (key)
			r = load_value(load, key, load->scenario, setting);
		else if (!group)
			r = fail_no_key(load, setting, &sim_groups[0]);
		else if (group->item_size)
			r = load_list(load, group, setting);
		else if (config_setting_is_group(setting))
			r = load_keys(load, group, at(load->scenario, group->offset), setting);
		else
			r = fail_at(load, setting, "a group is wanted: { key = value; }");
		if (r < 0)
			return r;
	}
	return 0;
}

/* "conf/scenarios/chase.conf" is "chase". */
static void set_name(struct sim_scenario *scenario, const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	size_t len = strlen(name);

	if (len > 5 && strcmp(name + len - 5, ".conf") == 0)
		len -= 5;
	snprintf(scenario->name, sizeof(scenario->name), "%.*s", (int)len, name);
}

int sim_scenario_parse(const char *text, const char *name, struct sim_scenario *ret, char *error)
{
	struct load load = { name, ret, error };
	const char *what;
	config_t parsed;
	int r;

	set_defaults(ret);
	set_name(ret, name);
	config_init(&parsed);
	if (config_read_string(&parsed, text) == CONFIG_FALSE) {
		what = config_error_text(&parsed);
		r = fail(error, "%s:%d: %s", name, config_error_line(&parsed), what ? what : "syntax error");
	} else {
		r = load_top(&load, config_root_setting(&parsed));
	}
	config_destroy(&parsed);
	return r;
}

/* A folder that happens to be called like a scenario is none. */
static bool is_folder(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISDIR(st.st_mode);
}

static int open_scenario(const char *path, const char *folder, char found[PATH_MAX])
{
	bool is_path = strchr(path, '/');
	int fd = -1;

	if (snprintf(found, PATH_MAX, "%s", path) < PATH_MAX)
		fd = open(found, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (is_path && fd < 0)
		return -errno;
	if (is_path || (fd >= 0 && !is_folder(fd)))
		return fd;
	if (fd >= 0)
		close(fd);
	if (snprintf(found, PATH_MAX, "%s/%s.conf", folder, path) >= PATH_MAX)
		return -ENAMETOOLONG;
	fd = open(found, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	return fd < 0 ? -errno : fd;
}

int sim_scenario_load(const char *path, const char *folder, struct sim_scenario *ret, char *error)
{
	_cleanup_free_ char *text = malloc(FILE_MAX_BYTES + 1);
	_cleanup_close_ int fd = -1;
	char found[PATH_MAX];
	size_t len = 0;

	if (!text) {
		fail(error, "%s: no memory to read it", path);
		return -ENOMEM;
	}
	fd = open_scenario(path, folder, found);
	if (fd < 0) {
		if (fd == -ENOENT && !strchr(path, '/'))
			fail(error, "%s: no scenario of that name: there is no such file here, and no %s", path, found);
		else
			fail(error, "%s: %s", found, strerror(-fd));
		return fd;
	}
	while (len <= FILE_MAX_BYTES) {
		ssize_t n = read(fd, text + len, FILE_MAX_BYTES + 1 - len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			int r = -errno;

			fail(error, "%s: cannot read it: %s", found, strerror(-r));
			return r;
		}
		if (n == 0)
			break;
		len += (size_t)n;
	}
	if (len > FILE_MAX_BYTES || memchr(text, '\0', len))
		return fail(error, "%s: this is no scenario: it is too large, or no text", found);
	text[len] = '\0';
	return sim_scenario_parse(text, found, ret, error);
}

/* The item that "hot" or "0" is, of a list. NULL: none. */
static void *find_item(struct sim_scenario *scenario, const struct sim_group *group, const char *word, size_t len)
{
	size_t n = *(size_t *)at(scenario, group->n_offset);
	char text[SIM_NAME_MAX];
	uint64_t number;

	if (len >= sizeof(text))
		return NULL;
	memcpy(text, word, len);
	text[len] = '\0';
	for (size_t i = 0; group->name_offset != SIZE_MAX && i < n; i++) {
		char *item = at(scenario, group->offset + i * group->item_size);

		if (strcmp(item + group->name_offset, text) == 0)
			return item;
	}
	if (parse_u64(text, 0, n > 0 ? n - 1 : 0, &number) < 0 || n == 0)
		return NULL;
	return at(scenario, group->offset + number * group->item_size);
}

int sim_scenario_set(struct sim_scenario *scenario, const char *key, const char *value, char *error)
{
	size_t len = strcspn(key, ".");
	const struct sim_group *group = &sim_groups[0];
	const struct sim_key *found;
	const char *name = key;
	void *base = scenario;
	char why[WHY_BYTES];

	if (key[len]) {
		group = sim_group_find(key, len);
		name = key + len + 1;
	}
	if (group && group->item_size) {
		size_t item = strcspn(name, ".");

		base = find_item(scenario, group, name, item);
		if (!base || !name[item])
			return fail(error, "%s: this scenario has no such item in %s", key, group->name);
		name += item + 1;
	} else if (group) {
		base = at(scenario, group->offset);
	}
	found = group ? sim_key_find(group, name) : NULL;
	if (!found) {
		const char *nearest = sim_key_nearest(group ? group : &sim_groups[0], group ? name : key);

		/* Options of the daemon have the same form, with or without the group that holds them in the file. */
		if (strncmp(key, "config.", 7) == 0)
			key += 7;
		else if (*nearest && !option_find(key) && !config_first_in_group(key))
			return fail(error, "%s: there is no such key; did you mean %.*s%s?", key, (int)(name - key),
				    key, nearest);
		return config_set(&scenario->config, key, value, error);
	}
	if (sim_key_put(found, base, value, why, sizeof(why)) < 0)
		return fail(error, "%s: %s", key, why);
	return 0;
}

int64_t sim_user(const struct sim_scenario *s, int64_t process)
{
	for (size_t i = 0; i < s->n_memories; i++)
		if (s->memories[i].process == process && s->memories[i].user >= 0)
			return s->memories[i].user;
	return SIM_USER_FIRST + process;
}

static const struct sim_memory *memory_of(const struct sim_scenario *s, const struct sim_access *access)
{
	for (size_t i = 0; i < s->n_memories; i++)
		if (strcmp(s->memories[i].name, access->memory) == 0)
			return &s->memories[i];
	return NULL;
}

static int check_memory(const struct sim_scenario *s, const struct sim_memory *m, char *error)
{
	if (!m->name[0])
		return fail(error, "%s: each memory needs a name", s->name);
	if (m->node >= (int64_t)s->n_nodes || m->interleave_node >= (int64_t)s->n_nodes)
		return fail(error, "%s: memory %s is on a node that there isn't", s->name, m->name);
	for (const struct sim_memory *other = s->memories; other < m; other++)
		if (strcmp(other->name, m->name) == 0)
			return fail(error, "%s: two memories are called %s", s->name, m->name);
	return 0;
}

/* Does it go over regions of 2 MiB as a whole? */
static bool is_by_region(const struct sim_access *a, const struct sim_memory *m)
{
	double mib = a->mib > 0 ? a->mib : m->mib - (a->first_mib > 0 ? a->first_mib : 0);

	return fmod(mib, 2) == 0 && fmod(a->first_mib, 2) == 0;
}

static int check_access(const struct sim_scenario *s, const struct sim_access *a, char *error)
{
	const struct sim_memory *m = memory_of(s, a);

	if (!m)
		return fail(error, "%s: access %s: there is no memory \"%s\"", s->name, a->name, a->memory);
	if (a->mib > m->mib || (a->first_mib > 0 && a->first_mib + a->mib > m->mib) || a->first_mib >= m->mib)
		return fail(error, "%s: access %s goes beyond its memory", s->name, a->name);
	if (a->one_in & (a->one_in - 1))
		return fail(error, "%s: access %s: one_in is no power of two", s->name, a->name);
	/* Of a part of a region there may be none, or all of them. */
	if (a->one_in > 1 && !is_by_region(a, m))
		return fail(error, "%s: access %s: with one_in its first_mib and its size are multiples of 2 MiB",
			    s->name, a->name);
	if (a->fills && (a->pattern != SIM_SWEEP || !a->once))
		return fail(error, "%s: access %s: what fills is a sweep, once", s->name, a->name);
	if (a->node >= (int64_t)s->n_nodes || s->nodes[a->node].cpus == 0)
		return fail(error, "%s: access %s is made by a node without CPUs", s->name, a->name);
	return 0;
}

int sim_scenario_check(const struct sim_scenario *s, char *error)
{
	bool lower = false;

	if (s->n_nodes == 0 || s->n_memories == 0 || s->n_accesses == 0)
		return fail(error, "%s: it needs nodes, memory and accesses", s->name);
	if (s->nodes[0].tier != 0 || s->nodes[0].cpus == 0)
		return fail(error, "%s: node 0 must be in tier 0 and have CPUs", s->name);
	for (size_t i = 0; i < s->n_nodes; i++)
		lower = lower || s->nodes[i].tier > 0;
	if (!lower)
		return fail(error, "%s: no node is in a slower tier", s->name);
	if (s->kernel.min_percent > s->kernel.low_percent || s->kernel.low_percent > s->kernel.high_percent)
		return fail(error, "%s: the kernel's watermarks rise from min to low to high", s->name);
	for (size_t i = 0; i < s->n_memories; i++)
		if (check_memory(s, &s->memories[i], error) < 0)
			return -EINVAL;
	for (size_t i = 0; i < s->n_accesses; i++)
		if (check_access(s, &s->accesses[i], error) < 0)
			return -EINVAL;
	return 0;
}
