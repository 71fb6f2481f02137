/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sim_keys: the table of a scenario's keys. The parser, the command line and the test of the manual come from it.
 * Pure; any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum sim_key_type { SIM_KEY_NUMBER, SIM_KEY_WHOLE, SIM_KEY_BOOL, SIM_KEY_TEXT, SIM_KEY_CHOICE };

struct sim_key {
	const char *name;
	enum sim_key_type type;
	size_t offset;       /* in its struct of sim_scenario.h */
	size_t size;         /* of a text, with the NUL */
	double min, max;     /* numbers */
	double def;          /* numbers, choices and bools; texts are empty */
	const char *choices; /* by '|' */
	const char *unit;    /* "" where there is none */
};

/* A group of the file, or one item of a list of groups. */
struct sim_group {
	const char *name; /* "" for the top level */
	const struct sim_key *keys;
	size_t n_keys;
	size_t offset;      /* in struct sim_scenario */
	size_t item_size;   /* 0: it is no list */
	size_t max_items;   /* of a list */
	size_t n_offset;    /* in struct sim_scenario: how many there are */
	size_t name_offset; /* of an item's name, a text of SIM_NAME_MAX bytes; SIZE_MAX: it has none */
};

extern const struct sim_group sim_groups[];
extern const size_t n_sim_groups;

/* By name, NULL: there is none. */
const struct sim_group *sim_group_find(const char *name, size_t len);
const struct sim_key *sim_key_find(const struct sim_group *group, const char *name);

/* The name that is nearest to @name, which is none: of a key, at the top level of a group, too. "": none is near. */
const char *sim_key_nearest(const struct sim_group *group, const char *name);

/* All keys of a group or item at @base (its struct) to their defaults. */
void sim_group_defaults(const struct sim_group *group, void *base);

/*
 * Put a value into the struct at @base. 0, or -EINVAL with what is wanted instead in @why (@size bytes). A number for a
 * bool, a text for a number and the like are refused.
 */
int sim_key_put_number(const struct sim_key *key, void *base, double value, char *why, size_t size);
int sim_key_put_bool(const struct sim_key *key, void *base, bool value, char *why, size_t size);
int sim_key_put_text(const struct sim_key *key, void *base, const char *value, char *why, size_t size);
/* The same from a text as a person types it, whatever the type. */
int sim_key_put(const struct sim_key *key, void *base, const char *value, char *why, size_t size);
