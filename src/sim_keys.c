/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "parse.h"
#include "sim_keys.h"
#include "sim_scenario.h"

#define MIB_MAX 1e7 /* ten TiB: the pages have 32 bits */

#define NUMBER(s, field, lo, hi, value, in)                                                                            \
	{                                                                                                              \
		.name = #field, .type = SIM_KEY_NUMBER, .offset = offsetof(struct s, field), .min = (lo), .max = (hi), \
		.def = (value), .unit = (in)                                                                           \
	}
#define WHOLE(s, field, lo, hi, value, in)                                                                            \
	{                                                                                                             \
		.name = #field, .type = SIM_KEY_WHOLE, .offset = offsetof(struct s, field), .min = (lo), .max = (hi), \
		.def = (value), .unit = (in)                                                                          \
	}
#define BOOL(s, field, value)                                                                                         \
	{                                                                                                             \
		.name = #field, .type = SIM_KEY_BOOL, .offset = offsetof(struct s, field), .def = (value), .unit = "" \
	}
#define TEXT(s, field)                                                                     \
	{                                                                                  \
		.name = #field, .type = SIM_KEY_TEXT, .offset = offsetof(struct s, field), \
		.size = sizeof(((struct s *)NULL)->field), .unit = ""                      \
	}
#define CHOICE(s, field, value, words)                                                                       \
	{                                                                                                    \
		.name = #field, .type = SIM_KEY_CHOICE, .offset = offsetof(struct s, field), .def = (value), \
		.choices = (words), .unit = ""                                                               \
	}

static const struct sim_key top_keys[] = {
	TEXT(sim_scenario, title),
	NUMBER(sim_scenario, seconds, 1, 86400, 240, "s"),
	WHOLE(sim_scenario, seed, 0, 1e9, 1, ""),
	NUMBER(sim_scenario, step_ms, 1, 1000, 10, "ms"),
	NUMBER(sim_scenario, threads, 1, 4096, 64, ""),
	NUMBER(sim_scenario, think_ns, 0, 1e6, 0, "ns"),
	BOOL(sim_scenario, fair, true),
};

static const struct sim_key node_keys[] = {
	NUMBER(sim_node, mib, 64, MIB_MAX, 65536, "MiB"),
	NUMBER(sim_node, latency_ns, 1, 1e6, 100, "ns"),
	NUMBER(sim_node, gib_per_sec, 0.01, 1e5, 100, "GiB/s"),
	WHOLE(sim_node, tier, 0, SIM_NODES_MAX - 1, 0, ""),
	WHOLE(sim_node, cpus, 0, 1024, 0, ""),
};

static const struct sim_key memory_keys[] = {
	TEXT(sim_memory, name),
	NUMBER(sim_memory, mib, 2, MIB_MAX, 1024, "MiB"),
	CHOICE(sim_memory, placing, SIM_ON_NODE, "node|filled|unfilled"),
	WHOLE(sim_memory, node, 0, SIM_NODES_MAX - 1, 1, ""),
	NUMBER(sim_memory, near_share, 0, 1, 0, ""),
	NUMBER(sim_memory, huge_share, 0, 1, 0, ""),
	WHOLE(sim_memory, process, 1, 99, 1, ""),
	WHOLE(sim_memory, user, -1, 65535, -1, ""),
	WHOLE(sim_memory, interleave_node, -1, SIM_NODES_MAX - 1, -1, ""),
};

static const struct sim_key access_keys[] = {
	TEXT(sim_access, name),
	TEXT(sim_access, memory),
	CHOICE(sim_access, pattern, SIM_UNIFORM, "uniform|zipf|sweep|clients|kronecker"),
	NUMBER(sim_access, weight, 0, 1e9, 1, ""),
	NUMBER(sim_access, first_mib, -1, MIB_MAX, 0, "MiB"),
	NUMBER(sim_access, mib, 0, MIB_MAX, 0, "MiB"),
	BOOL(sim_access, hot, false),
	NUMBER(sim_access, start_sec, 0, 86400, 0, "s"),
	NUMBER(sim_access, end_sec, 0, 86400, 0, "s"),
	NUMBER(sim_access, every_sec, 0, 86400, 0, "s"),
	WHOLE(sim_access, one_in, 1, 512, 1, ""),
	NUMBER(sim_access, theta, 0.01, 10, 0.99, ""),
	NUMBER(sim_access, unit_kib, 4, 2048, 4, "KiB"),
	NUMBER(sim_access, sweep_sec, 0.001, 86400, 60, "s"),
	BOOL(sim_access, once, false),
	BOOL(sim_access, fills, false),
	NUMBER(sim_access, share, 0, 1, 0.5, ""),
	WHOLE(sim_access, clients, 1, 1e6, 1, ""),
	WHOLE(sim_access, vertex_bytes, 1, 4096, 16, "bytes"),
	BOOL(sim_access, prefetched, false),
	WHOLE(sim_access, node, 0, SIM_NODES_MAX - 1, 0, ""),
};

static const struct sim_key sampler_keys[] = {
	NUMBER(sim_sampler, per_sec, 0, 1e7, 5833.333, "samples/s"),
	NUMBER(sim_sampler, period, 1, 1e12, 40000, "accesses"),
	NUMBER(sim_sampler, miss_share, 0, 1, 1, ""),
	NUMBER(sim_sampler, loss, 0, 1, 0, ""),
	NUMBER(sim_sampler, skid, 0, 1, 0, ""),
	NUMBER(sim_sampler, skid_pages, 1, 512, 1, "pages"),
	BOOL(sim_sampler, slow_only, false),
};

static const struct sim_key kernel_keys[] = {
	BOOL(sim_kernel, demotion, true),
	NUMBER(sim_kernel, min_percent, 0, 50, 0.1, "percent"),
	NUMBER(sim_kernel, low_percent, 0, 50, 0.2, "percent"),
	NUMBER(sim_kernel, high_percent, 0, 50, 0.3, "percent"),
	NUMBER(sim_kernel, promo_percent, 0, 50, 0.4, "percent"),
	NUMBER(sim_kernel, move_us, 0, 1e6, 12, "us"),
	NUMBER(sim_kernel, move_huge_us, 0, 1e6, 600, "us"),
	NUMBER(sim_kernel, call_us, 0, 1e6, 0, "us"),
	NUMBER(sim_kernel, busy, 0, 1, 0, ""),
};

#define N(keys) (sizeof(keys) / sizeof((keys)[0]))

const struct sim_group sim_groups[] = {
	{ "", top_keys, N(top_keys), 0, 0, 0, 0, SIZE_MAX },
	{ "nodes", node_keys, N(node_keys), offsetof(struct sim_scenario, nodes), sizeof(struct sim_node),
	  SIM_NODES_MAX, offsetof(struct sim_scenario, n_nodes), SIZE_MAX },
	{ "memory", memory_keys, N(memory_keys), offsetof(struct sim_scenario, memories), sizeof(struct sim_memory),
	  SIM_MEMORIES_MAX, offsetof(struct sim_scenario, n_memories), offsetof(struct sim_memory, name) },
	{ "accesses", access_keys, N(access_keys), offsetof(struct sim_scenario, accesses), sizeof(struct sim_access),
	  SIM_ACCESSES_MAX, offsetof(struct sim_scenario, n_accesses), offsetof(struct sim_access, name) },
	{ "sampler", sampler_keys, N(sampler_keys), offsetof(struct sim_scenario, sampler), 0, 0, 0, SIZE_MAX },
	{ "kernel", kernel_keys, N(kernel_keys), offsetof(struct sim_scenario, kernel), 0, 0, 0, SIZE_MAX },
};
const size_t n_sim_groups = N(sim_groups);

const struct sim_group *sim_group_find(const char *name, size_t len)
{
	for (size_t i = 0; i < n_sim_groups; i++)
		if (strlen(sim_groups[i].name) == len && memcmp(sim_groups[i].name, name, len) == 0)
			return &sim_groups[i];
	return NULL;
}

const struct sim_key *sim_key_find(const struct sim_group *group, const char *name)
{
	for (size_t i = 0; i < group->n_keys; i++)
		if (strcmp(group->keys[i].name, name) == 0)
			return &group->keys[i];
	return NULL;
}

const char *sim_key_nearest(const struct sim_group *group, const char *name)
{
	/* More than a good third of the letters different: another word. */
	unsigned int best = 2 + (unsigned int)strlen(name) * 2 / 5;
	const char *nearest = "";

	for (size_t i = 0; i < group->n_keys + (group->name[0] ? 0 : n_sim_groups); i++) {
		const char *candidate = i < group->n_keys ? group->keys[i].name : sim_groups[i - group->n_keys].name;
		unsigned int d = parse_distance(name, candidate);

		if (d >= best || !candidate[0])
			continue;
		best = d;
		nearest = candidate;
	}
	return nearest;
}

static void *field(const struct sim_key *key, void *base)
{
	return (char *)base + key->offset;
}

static void store(const struct sim_key *key, void *base, double value)
{
	void *at = field(key, base);

	switch (key->type) {
	case SIM_KEY_NUMBER:
		*(double *)at = value;
		break;
	case SIM_KEY_WHOLE:
		*(int64_t *)at = (int64_t)value;
		break;
	case SIM_KEY_BOOL:
		*(bool *)at = value != 0;
		break;
	case SIM_KEY_CHOICE:
		*(int *)at = (int)value;
		break;
	case SIM_KEY_TEXT:
		*(char *)at = '\0';
		break;
	}
}

void sim_group_defaults(const struct sim_group *group, void *base)
{
	for (size_t i = 0; i < group->n_keys; i++)
		store(&group->keys[i], base, group->keys[i].def);
}

static int wanted(const struct sim_key *key, char *why, size_t size)
{
	const char *space = key->unit[0] ? " " : "";

	switch (key->type) {
	case SIM_KEY_NUMBER:
		snprintf(why, size, "a number from %g to %g%s%s is wanted", key->min, key->max, space, key->unit);
		break;
	case SIM_KEY_WHOLE:
		snprintf(why, size, "a whole number from %.0f to %.0f%s%s is wanted", key->min, key->max, space,
			 key->unit);
		break;
	case SIM_KEY_BOOL:
		snprintf(why, size, "true or false is wanted");
		break;
	case SIM_KEY_TEXT:
		snprintf(why, size, "a text of at most %zu characters is wanted", key->size - 1);
		break;
	case SIM_KEY_CHOICE:
		snprintf(why, size, "one of %s is wanted", key->choices);
		break;
	}
	return -EINVAL;
}

int sim_key_put_number(const struct sim_key *key, void *base, double value, char *why, size_t size)
{
	if ((key->type != SIM_KEY_NUMBER && key->type != SIM_KEY_WHOLE) || !(value >= key->min && value <= key->max))
		return wanted(key, why, size);
	if (key->type == SIM_KEY_WHOLE && value != floor(value))
		return wanted(key, why, size);
	store(key, base, value);
	return 0;
}

int sim_key_put_bool(const struct sim_key *key, void *base, bool value, char *why, size_t size)
{
	if (key->type != SIM_KEY_BOOL)
		return wanted(key, why, size);
	store(key, base, value);
	return 0;
}

static int choice_index(const char *choices, const char *value)
{
	size_t len = strlen(value);

	for (int i = 0;; i++) {
		size_t word = strcspn(choices, "|");

		if (word == len && memcmp(choices, value, len) == 0)
			return i;
		if (!choices[word])
			return -ENOENT;
		choices += word + 1;
	}
}

int sim_key_put_text(const struct sim_key *key, void *base, const char *value, char *why, size_t size)
{
	int choice;

	if (key->type == SIM_KEY_CHOICE) {
		choice = choice_index(key->choices, value);
		if (choice < 0)
			return wanted(key, why, size);
		store(key, base, choice);
		return 0;
	}
	if (key->type != SIM_KEY_TEXT || strlen(value) >= key->size)
		return wanted(key, why, size);
	memcpy(field(key, base), value, strlen(value) + 1);
	return 0;
}

int sim_key_put(const struct sim_key *key, void *base, const char *value, char *why, size_t size)
{
	double number;
	bool yes;

	switch (key->type) {
	case SIM_KEY_NUMBER:
	case SIM_KEY_WHOLE:
		if (parse_double(value, key->min, key->max, &number) < 0)
			return wanted(key, why, size);
		return sim_key_put_number(key, base, number, why, size);
	case SIM_KEY_BOOL:
		if (parse_bool(value, &yes) < 0)
			return wanted(key, why, size);
		return sim_key_put_bool(key, base, yes, why, size);
	default:
		return sim_key_put_text(key, base, value, why, size);
	}
}
