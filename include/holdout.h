/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * holdout: does tiering help? guard.holdout_percent of all regions of 2 MiB, chosen by a hash, are never moved by
 * pghotd. What their samples come to is what all would come to without it; what the others' do, what it is with it.
 *
 * Samples are counted for both groups in buckets, by another hash of the region: regions differ by far more than chance
 * makes samples differ, and how much the buckets differ says how sure the comparison is.
 *
 * Writers     collectors, each its own shard (holdout_count()); one thread (holdout_step())
 * Readers     the report
 * Protection  relaxed atomics for the counts, each with one writer; a lock for what is made of them
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sample.h"

#define HOLDOUT_BUCKETS 32
#define HOLDOUT_WINDOW_NS \
	(UINT64_C(30) * 1000000000) /* what is said is of the last two of these, and of the one begun */

struct accesses;
struct config;
struct holdout;
struct hotness_item;

/* Is the region of @addr of process @pid held out, at @percent (0..50)? Pure. */
bool holdout_has(double percent, uint32_t pid, uint64_t addr);

/* @shards 1..64. NULL: no memory. */
struct holdout *holdout_new(unsigned int shards);
void holdout_free(struct holdout *holdout); /* accepts NULL */

/* Samples that a collector has taken; hint faults count for nothing, since they are no accesses. Nothing while
 * guard.holdout_percent is 0. The collector of @shard. */
void holdout_count(struct holdout *holdout, unsigned int shard, const struct config *config,
		   const struct hotness_item *items, size_t n);

/*
 * Make up the comparison, when a window is over. A change of the share begins anew. @accesses: what samples stand for;
 * NULL: not known, and then nothing is said of CPU time. One thread.
 */
void holdout_step(struct holdout *holdout, const struct config *config, const struct accesses *accesses,
		  uint64_t now_ns);

/* All ratios are 0..1; margins are of an interval that holds the truth 19 times out of 20. */
struct holdout_view {
	double percent;             /* held out; 0: nothing is, and nothing is known */
	bool known;                 /* false: too little was sampled, or nothing is far at all */
	uint64_t held, moved;       /* samples of both groups */
	double far_held, far_moved; /* of them, that fell on slow nodes */
	double saved, margin;       /* far accesses that are saved, of those there would be; below 0: more of them */
	uint64_t windows;           /* that this was made up for, since the start */
	bool has_cpu;               /* with latencies, and where it is known what a sample stands for: */
	double cpu_back;            /* of the CPU time that all would take without moves, about; below 0: lost */
	bool has_latency;           /* samples carry it: */
	double latency_held_cycles, latency_moved_cycles; /* mean */
};

/* Any thread. */
void holdout_look(struct holdout *holdout, struct holdout_view *ret);
