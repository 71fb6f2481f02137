/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * guard_owners: which processes play ping-pong? One of whose pages goes up again that went up less than a minute before
 * was pushed out in between, for nothing. A process of which that is a large part rests alone, while others go on.
 *
 * Judged by the one page in GUARD_TRACK_PART that guard.h remembers. One process begins to rest at a time, the one
 * that had most of it: what the others lost it may have pushed out, and they are counted anew from then on.
 *
 * Writers     migrators (guard_owners_note()); one thread (guard_owners_step())
 * Readers     migrators, the report
 * Protection  a lock; one relaxed word says that none rests, which is usual, without it
 *
 * Memory: 20 KiB. More than GUARD_OWNERS_MAX processes at a time: those with fewest pages aren't counted.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GUARD_OWNERS_MAX 256

struct config;
struct guard_owners;
struct owners;
struct stats_slot;

/* @owners: to name them in the log; NULL: nobody is named. NULL: no memory. */
struct guard_owners *guard_owners_new(struct owners *owners);
void guard_owners_free(struct guard_owners *guard); /* accepts NULL */

/* A remembered page of the process was promoted; @back: less than a minute after the last time. Migrators. */
void guard_owners_note(struct guard_owners *guard, uint32_t owner_slot, uint64_t start_ticks, bool back,
		       uint64_t now_ns);

/* @bytes of the process went down, to make room. Migrators. */
void guard_owners_note_down(struct guard_owners *guard, uint32_t owner_slot, uint64_t start_ticks, uint64_t bytes);

/*
 * Look, each second or so: true when a process begins to rest, for guard.resume_after_sec, twice as long when it did a
 * while ago, up to GUARD_HOLD_TIMES. Logs and counts that, and when it may move again. One thread, registered with rcu
 * where there are owners.
 */
bool guard_owners_step(struct guard_owners *guard, const struct config *config, uint64_t now_ns,
		       struct stats_slot *stats);

/*
 * As much goes down as comes up, and nothing is won by it: is it one process's memory, most of what came up and most of
 * what went down to make room? Then that one rests: true, as of guard_owners_step(). Its thread.
 */
bool guard_owners_blame(struct guard_owners *guard, const struct config *config, uint64_t now_ns,
			struct stats_slot *stats);

/* What guard_owners_blame_back() judges begins now. The thread of guard_owners_step(). */
void guard_owners_begin_recent(struct guard_owners *guard);

/*
 * Pages play ping-pong, all processes taken together: is it a few of them, each by what was promoted of it since
 * guard_owners_begin_recent(), or one of which most are that came back? Then the one with most of it rests: true, as of
 * guard_owners_step(), which sees it later when the process has had much promoted before that stayed. Its thread.
 */
bool guard_owners_blame_back(struct guard_owners *guard, const struct config *config, uint64_t now_ns,
			     struct stats_slot *stats);

/*
 * Does the process rest? With guard.action = "slow" it may move in one second of GUARD_SLOW_PART all the same. Any
 * thread.
 */
bool guard_owners_rests(const struct guard_owners *guard, const struct config *config, uint32_t owner_slot,
			uint64_t start_ticks, uint64_t now_ns);

/* One that rests. */
struct guard_owner {
	uint32_t owner_slot;
	uint64_t start_ticks;
	uint64_t left_ns;
	double back_ratio; /* of what it had promoted, that was promoted before */
	uint32_t pid;      /* 0: it has ended, or nobody can tell */
	char comm[16];
};

/* Up to @max of those that rest, the longest first; returns how many there are. Any thread registered with rcu. */
size_t guard_owners_look(const struct guard_owners *guard, uint64_t now_ns, struct guard_owner *ret, size_t max);
