/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * manage_fast: how much of the fast tier the programs of a rule have, for the rules with a fast_max_percent. The manage
 * thread goes round all processes of the machine, whether pages of them were sampled or not, and adds up what those of
 * such a rule have; what is promoted from then on is added as it moves. So between two rounds the sum is rather too
 * high than too low: what a program freed is seen by the next round only, and so is what it allocated.
 *
 * Writers     the manage thread (rounds); migrators (what they take and move)
 * Readers     migrators
 * Protection  atomic words, one for each number of a rule
 *
 * A round begins MANAGE_FAST_NS after the last one, or later where that one took long: rounds take at most a hundredth
 * of the time.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "fsroot.h"

struct clock;
struct manage_fast;
struct nodeset;
struct owner_facts;
struct rules;
struct topology;

#define MANAGE_FAST_NS        (10ULL * 1000000000ULL)
#define MANAGE_FAST_COST_MULT 100

/* @proc: the root that has proc/; its descriptor is borrowed. @self_pid is left out. NULL: no memory. */
struct manage_fast *manage_fast_new(const struct fsroot *proc, const struct clock *clock, uint32_t self_pid);
/* When no migrator uses it any more. Accepts NULL. */
void manage_fast_free(struct manage_fast *fast);

/* The rules or the nodes are others: nothing is known any more. Manage thread. */
void manage_fast_forget(struct manage_fast *fast);

struct manage_fast_input {
	const struct rules *rules;
	const struct nodeset *nodes; /* the fast tier */
	/* Index of the rule that holds for a process of which only what owners_facts_who() reads is known; -1: none. */
	int (*rule_of)(void *ctx, const struct owner_facts *who);
	bool (*go_on)(void *ctx); /* false: stop now */
	void *ctx;
};

/*
 * Go on with the round, or begin one if it is time, for up to @budget_ns, which one large process may exceed. Nothing
 * where no rule has a fast_max_percent. Blocks. Manage thread.
 */
void manage_fast_step(struct manage_fast *fast, const struct manage_fast_input *input, uint64_t budget_ns);

/* Memory of the fast tier, in bytes. Any thread that holds the snapshot. */
uint64_t manage_fast_tier_bytes(const struct topology *topology);

/* What the programs of @rule (-1: none) may have of @tier_bytes. false: as much as they like. Pure. */
bool manage_fast_max(const struct rules *rules, int rule, uint64_t tier_bytes, uint64_t *ret_bytes);

/* What the programs of @rule have and what is on its way, in bytes. false: not known yet. Any thread. */
bool manage_fast_used(const struct manage_fast *fast, int rule, uint64_t *ret_bytes);

/*
 * @bytes for @rule, unless that would be more than @max_bytes with what it has, or that isn't known. false: not taken.
 * Migrators.
 */
bool manage_fast_take(struct manage_fast *fast, int rule, uint64_t bytes, uint64_t max_bytes);

/* @bytes that were taken are not on their way any more, moved or not. Migrators. */
void manage_fast_put(struct manage_fast *fast, int rule, uint64_t bytes);

/* @bytes of @rule have moved to the fast tier. Before they are put. Migrators. */
void manage_fast_moved(struct manage_fast *fast, int rule, uint64_t bytes);
