/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * owners: processes whose pages are known. An owner is (pid, start time), so that a recycled pid is another owner.
 *
 * Writers     collectors (insert, under a lock: once per process), janitor (retire)
 * Readers     collectors, migrators, report
 * Protection  RCU for the table; atomics for the state. A struct owner is valid inside a read section, or as long as
 * its slot is not released.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fsroot.h"

struct owners_map;

#define OWNER_NONE UINT32_MAX

enum owner_state {
	OWNER_ALIVE,
	OWNER_GONE, /* the process ended, or the pid is another's now */
};

struct owner {
	uint32_t slot; /* index for the life of the owner; reused only after a grace period */
	uint32_t pid;
	uint64_t start_ticks; /* field 22 of /proc/PID/stat */
	char comm[16];
	_Atomic uint32_t state;   /* enum owner_state; relaxed: a late reader costs one failed move, which is counted */
	_Atomic uint64_t regions; /* gauge, relaxed */
	/* Of the tables, about, as the janitor last found it; and regions evicted because it took more than its share
	 * of them. Relaxed. */
	_Atomic uint64_t bytes, evicted;
	uint64_t tally_bytes;        /* the janitor's, of a pass over the regions */
	_Atomic uint64_t hot_bytes;  /* promoted so far, or noted while observing; relaxed */
	_Atomic uint64_t party;      /* see fair.h; 0: not known; relaxed */
	_Atomic uint64_t cold_bytes; /* on fast nodes, never sampled, as victims.h last found; relaxed */
	uint64_t party_ns;           /* fair_step()'s: when it was counted */
	/* See manage.h. A snapshot of its memory: M1 release by the manage thread pairs with M2 acquire by migrators.
	 */
	_Atomic(struct owners_map *) map;
	_Atomic uint64_t manage;      /* what was found of it; 0: nothing yet; relaxed */
	_Atomic uint64_t looked_ns;   /* when; 0: never; relaxed */
	_Atomic uint32_t group;       /* see guard_pressure.h; 0: not known; relaxed */
	uint64_t group_ns;            /* guard_pressure_step()'s: when it was looked up */
	_Atomic bool asked;           /* somebody wants a look at it; relaxed */
	uint64_t map_ns, map_cost_ns; /* the manage thread's: when the snapshot was tried, and what it took */
	uint64_t logged_bytes;        /* main thread only: how much of hot_bytes the journal was told */
};

struct owners;

/*
 * At most so many at a time; they take 192 bytes each, and some KiB for the snapshot of those with hot pages on a slow
 * node. Neither is part of memory_max_mib.
 */
#define OWNERS_MAX (1U << 20)

/* @proc: the root that has proc/; its descriptor is borrowed. @self_pid: never an owner. NULL: out of memory. */
struct owners *owners_new(const struct fsroot *proc, uint32_t self_pid);
/* After hotness_free() and the end of all threads that use it. Accepts NULL. */
void owners_free(struct owners *owners);

uint32_t owners_self_pid(const struct owners *owners); /* any thread */

/*
 * The owner of @pid, inserted when new. Inside an RCU read section. A pid that was looked up is found without a system
 * call; a new one costs one read of /proc/PID/stat; one that has no process is remembered for a second (of @now_ns), so
 * that its late samples cost nothing. Returns 0, -ESRCH (ended, or a zombie), -EPERM (a kernel thread, or pghotd
 * itself), -ENOMEM (of memory, descriptors or slots). Collector threads.
 */
int owners_get(struct owners *owners, uint32_t pid, uint64_t now_ns, struct owner **ret);

/* By slot; NULL when there is none. Inside an RCU read section. */
struct owner *owners_at(const struct owners *owners, uint32_t slot);

/*
 * true when the process is still the one that was seen: reads /proc/PID/stat again. Marks the owner gone if not.
 * When it can't be told (no descriptor, no memory) it is false for now, and nothing is marked.
 * The mover asks before each call: nothing trusts a pid twice. @pid and @start_ticks are copies, so no read section is
 * held. Any registered thread.
 */
bool owners_check(struct owners *owners, uint32_t slot, uint32_t pid, uint64_t start_ticks);

/* Mark gone. Any registered thread. */
void owners_mark_gone(struct owners *owners, uint32_t slot);

/* Check up to @max owners, round robin, and mark those whose process ended. Returns how many were marked. Janitor. */
size_t owners_sweep(struct owners *owners, size_t max);

/*
 * Take gone owners without regions out of the table and free them after a grace period. Blocks when there are any.
 * Returns how many. Janitor.
 */
size_t owners_reap(struct owners *owners);

/* Those whose tally is more than @over_bytes, and what it comes to. Janitor. */
struct owners_tally {
	uint64_t owners, bytes, most_bytes;
};
void owners_sum_tally(const struct owners *owners, uint64_t over_bytes, struct owners_tally *ret);
/* Make tally_bytes the owners' bytes, and begin the next at 0. Janitor. */
void owners_publish_tally(struct owners *owners);
/* One past the highest slot that ever was. Any thread. */
uint32_t owners_end(const struct owners *owners);

/* Those that are not forgotten yet. Any thread. */
size_t owners_count(const struct owners *owners);

/* Call @fn for each owner until it returns non-zero, which is returned. Inside an RCU read section. */
int owners_for_each(const struct owners *owners, int (*fn)(void *ctx, const struct owner *owner), void *ctx);
