/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * guard: does it pay to push memory out of the fast nodes for what comes up? Where it doesn't, it is held back for a
 * while: promotion goes on into memory that is free above the headroom, and no room is made. Then it is tried again.
 *
 * It is looked at once a second, and judged when enough was moved to say something:
 *
 *   against    about as much is demoted as is promoted, by the kernel (pgdemote_* of /proc/vmstat) or to make room, and
 *              twice in a row the share of samples that fall on slow nodes didn't sink by it
 *   ping-pong  a source that shows slow nodes only says nothing of shares; but pages are promoted that were promoted
 *              less than a minute before, so they were demoted in between
 *
 *   holdout    what is moved does surely worse than what is held out for comparison, or saves less CPU time than moving
 *              takes, for three windows in a row: nothing is moved at all
 *   cost       none of what is hot pays for its move: that is the decider's to find, and to end
 *
 * Before that each process is judged by itself (guard_owners.h): one whose pages play ping-pong, or are most of those
 * that do, rests alone.
 *
 * Writers     one thread (guard_step()); migrators (guard_note_up(), for one page in GUARD_TRACK_PART)
 * Readers     migrators, the main thread
 * Protection  a lock for the marks; relaxed atomics for the rest
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fsroot.h"
#include "guard_owners.h"

struct clock;
struct config;
struct guard;
struct stats;
struct stats_slot;

#define GUARD_STEP_NS    (UINT64_C(1) * 1000000000)
#define GUARD_BACK_NS    (UINT64_C(60) * 1000000000) /* promoted again so soon is ping-pong */
#define GUARD_TRACK_PART 64                          /* of the pages one in so many is remembered */
#define GUARD_SLOW_PART  16                          /* guard.action = "slow": of the rate that there would be */
#define GUARD_HOLD_TIMES 8                           /* a hold gets as long as so many times guard.resume_after_sec */

enum guard_cause {
	GUARD_NONE,
	GUARD_AGAINST,
	GUARD_PING_PONG,
	GUARD_HOLDOUT,
	GUARD_COST, /* shown only: what is hot is left by policy region, and needs no hold */
	GUARD_CAUSES,
};

extern const char *const guard_cause_text[GUARD_CAUSES]; /* plain words for people; "" for none */

struct guard_params {
	struct fsroot root; /* that has proc/vmstat; borrowed descriptor */
	const struct clock *clock;
	const struct stats *stats;  /* of all threads */
	struct stats_slot *counted; /* the stepping thread's own */
	struct owners *owners;      /* to name processes that rest; NULL: nobody is named */
};

struct guard *guard_new(const struct guard_params *params); /* NULL: no memory */
void guard_free(struct guard *guard);                       /* accepts NULL */

/*
 * Look, when a second has gone by since the last time. @fast_bytes: all memory of the fast nodes. Logs when a hold
 * begins and when it ends. One thread, registered with rcu where there are owners; reads one file.
 */
void guard_step(struct guard *guard, const struct config *config, uint64_t fast_bytes);

/* The page at @addr, of any size, was promoted. Migrators. */
void guard_note_up(struct guard *guard, uint32_t owner_slot, uint64_t start_ticks, uint64_t addr, uint64_t now_ns);

/* @bytes of the process were moved down, to make room. Migrators. */
void guard_note_down(struct guard *guard, uint32_t owner_slot, uint64_t start_ticks, uint64_t bytes);

/* What the comparison with what is held out says, see holdout.h. */
struct guard_help {
	uint64_t windows; /* the same as the last time: nothing new */
	bool known;
	double saved, margin; /* of far accesses */
	bool has_cpu;
	double cpu_back; /* of CPU time */
	double busy_sec; /* CPU time in a second, of all CPUs; 0: not known */
};

/* Judge it, when it is a new one: a hold may begin. The stepping thread, after guard_step(). */
void guard_note_help(struct guard *guard, const struct config *config, const struct guard_help *help);

/* Does the guard that holds stop all moves, not only what would make room? Pure. */
static inline bool guard_stops_all(enum guard_cause cause)
{
	return cause == GUARD_HOLDOUT;
}

/* Is it that none of what is hot pays for its move? Logs when that changes. The stepping thread. */
void guard_note_cost(struct guard *guard, bool pays_not);

/* Is nothing of the process to be promoted now? See guard_owners_rests(). Any thread. */
bool guard_rests(const struct guard *guard, const struct config *config, uint32_t owner_slot, uint64_t start_ticks,
		 uint64_t now_ns);

/* Why no room is to be made now; GUARD_NONE: it may. Any thread. */
enum guard_cause guard_holds(const struct guard *guard);

#define GUARD_SHOWN_MAX 4

/* For the report; any thread registered with rcu. */
struct guard_view {
	enum guard_cause cause;
	uint64_t left_ns;              /* until it is tried again; 0 when nothing is held */
	double back_ratio;             /* of what was promoted last, that was promoted before; below 0: not known */
	uint64_t kernel_demoted_pages; /* since the start */
	double move_ratio; /* of the busy CPU time that moving took in the last window; below 0: not known */
	size_t n_resting;  /* processes that rest, of which these are shown: */
	struct guard_owner resting[GUARD_SHOWN_MAX];
};

void guard_look(const struct guard *guard, struct guard_view *ret);
