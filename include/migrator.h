/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * migrator: one for each lower-tier node. A pass scans the marked sections of its node, asks policy, budget and room,
 * copies what may move into a plan, leaves the RCU section, and acts: one process, one target to a call.
 *
 * Budget and room of a target are shared out beforehand: each migrator that may promote to it has an equal part of its
 * rate and of its room, so that together they keep to both without a word between them.
 *
 * A page that the kernel found busy, pinned or shared is put back as ready, and tried again a few times with growing
 * pauses (mover_rest.h) for as long as its last access is less than a window ago. A process that may not use a target
 * (its cpuset) rests from that target, and a target without memory rests as a whole; their pages keep their place. What
 * failed in another way has lost its record and must become hot again.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fsroot.h"

struct accesses;
struct clock;
struct config;
struct decider;
struct fair;
struct guard;
struct guard_pressure;
struct hotness;
struct manage;
struct manage_left;
struct migrator;
struct mover_ops;
struct mover_outcomes;
struct owners;
struct stats_slot;
struct topology;
struct topology_store;
struct victims;

struct migrator_params {
	int nid; /* the lower-tier node */
	unsigned int part, parts;
	struct hotness *hotness;
	struct owners *owners;
	struct manage *manage; /* NULL: all memory of all processes may move */
	const struct topology_store *topology;
	struct fsroot root; /* for free memory; borrowed descriptor */
	const struct mover_ops *mover_ops;
	void *mover_ctx;
	const struct clock *clock;
	struct stats_slot *stats;
	const _Atomic bool *stop;        /* relaxed; true: start no call any more */
	struct fair *fair;               /* shared by all migrators; NULL: first come, first served */
	struct guard *guard;             /* shared by all migrators; NULL: nothing is ever held back */
	struct guard_pressure *pressure; /* shared by all migrators; NULL: no control group is ever left in peace */
	struct victims *victims;         /* shared by all migrators; NULL: no room is ever made */
	struct decider *decider;         /* shared by all migrators; NULL: one of its own, for the only one there is */
	const struct accesses *accesses; /* what samples stand for; NULL: not known, and all that is hot pays */
};

/* What held the last pass back, for status. */
enum migrator_limit {
	LIMIT_NOTHING_HOT,
	LIMIT_NONE, /* everything ready was moved */
	LIMIT_OBSERVING,
	LIMIT_RATE,
	LIMIT_NO_ROOM,
	LIMIT_NO_TARGET,
	LIMIT_GUESSED_TIERS,
	LIMIT_RULE_RATE,
	LIMIT_WAITING,    /* not looked at yet */
	LIMIT_LEFT_ALONE, /* all that is hot */
	LIMIT_REFUSED,    /* the kernel moved none of them */
	LIMIT_GUARD,      /* no room, and a guard says that none is to be made */
	LIMIT_GUARD_ALL,  /* a guard says that nothing is to be moved */
	LIMIT_NO_COLD,    /* no room, and nothing there that is surely cold */
	LIMIT_LOWER_FULL, /* no room, and none on the slow node to make some */
	LIMIT_PAYS_NOT,   /* nothing that is hot pays for its move */
	LIMIT_SHARE,      /* who has hot memory left has its share, and others lack theirs */
	LIMIT_SPEED,      /* the pass was over before all was moved */
	LIMIT_MAX,
};

extern const char *const migrator_limit_text[LIMIT_MAX]; /* plain words for people */

/* How room is made on a fast node that is full. */
enum migrator_way {
	WAY_NONE,
	WAY_KERNEL,   /* kswapd demotes, since promotion goes down to where it wakes */
	WAY_EXCHANGE, /* cold memory is moved down, one for one */
};

/* What make_room comes to on this machine. Pure. */
enum migrator_way migrator_way(const struct config *config, const struct topology *topology);

struct migrator *migrator_new(const struct migrator_params *params); /* NULL: no memory */
void migrator_free(struct migrator *migrator);

struct migrator_pass_result {
	uint64_t moved_pages;
	uint64_t moved_bytes;
	enum migrator_limit limit;
};

/*
 * One pass at @now_ns. Blocks while pages move; begins no round of scan and calls once it has lasted a
 * promote.scan_sleep_ms, so that its thread shows signs of life. In mode observe, or on guessed tiers, the same path is
 * walked up to the call, and what would have moved is counted, each record once. Returns 0 or -errno (-ENOMEM, or
 * /proc/zoneinfo unreadable: nothing was moved). Its own thread, registered with rcu, outside a read section.
 */
int migrator_pass(struct migrator *migrator, const struct config *config, uint64_t now_ns,
		  struct migrator_pass_result *ret);

/*
 * How long its thread sleeps between that pass and the next one, in ms: promote.scan_sleep_ms; 0 when the pass was over
 * before all was moved, for else a third of the time in which pages could move goes by. Pure.
 */
int64_t migrator_pause_ms(const struct config *config, const struct migrator_pass_result *result);

/* Limit of the last pass. Any thread. */
enum migrator_limit migrator_last_limit(const struct migrator *migrator);
struct migrator_calls {
	uint64_t batch_pages; /* that go into one call now; 0: none was made yet */
	uint64_t call_ns;     /* what a call costs beside its pages; both 0: not known yet */
	uint64_t page_ns;
	uint64_t longest_ns;
};

/* How it moves. Any thread. */
void migrator_calls(const struct migrator *migrator, struct migrator_calls *ret);

/* Since when it is inside a move call, CLOCK_MONOTONIC ns; 0 when it is not. Any thread. */
uint64_t migrator_in_call_since_ns(const struct migrator *migrator);
/* What was left alone, of any thread. */
const struct manage_left *migrator_left(const struct migrator *migrator);
const struct mover_outcomes *migrator_outcomes(const struct migrator *migrator);
int migrator_nid(const struct migrator *migrator);
struct decider *migrator_decider(struct migrator *migrator);
