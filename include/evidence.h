/* SPDX-License-Identifier: GPL-2.0-or-later */
/* evidence: what is known of a region that may be worth its move, and what was decided about it. Plain values. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * The decision word: what, from which block of pages to which, and where to; how often it was asked for.
 *
 * FORGET is the policy's word to the collector, which takes it back: what was seen until now says nothing about what
 * is hot (a first touch, or too long ago), begin anew with the next sample.
 */
#define REGION_DECISION_KIND     0x3u
#define REGION_DECISION_WHOLE    1u        /* move it, the blocks that are named */
#define REGION_DECISION_PAGES    2u        /* move the pages that were seen, and each that will be */
#define REGION_DECISION_PICKED   3u        /* move pages that reach the threshold of the page rule */
#define REGION_DECISION_NOTED    (1u << 2) /* while observing: it was counted */
#define REGION_DECISION_FORGET   (1u << 3)
#define REGION_DECISION_TRIES    (7u << 4)
#define REGION_DECISION_TRY      (1u << 4)
#define REGION_DECISION_DONE     (1u << 7) /* nothing of it was left to move */
#define REGION_BLOCK_PAGES       8u        /* a block; 64 of them in a region */
#define REGION_DECISION_FIRST(d) ((d) >> 8 & 63u)
#define REGION_DECISION_LAST(d)  ((d) >> 14 & 63u)
#define REGION_DECISION_NID(d)   ((int)((d) >> 20 & 1023u) - 1) /* -1: where there is room, the nearest first */
#define REGION_DECISION(kind, first, last, nid) \
	((uint32_t)(kind) | (uint32_t)(first) << 8 | (uint32_t)(last) << 14 | (uint32_t)((nid) + 1) << 20)

/* What speaks for a region's being hot. */
struct region_evidence {
	uint16_t samples;      /* since it was last begun anew, up to 4095 */
	uint16_t first;        /* of these, those of the first second: exact up to 14, 15 is that or more */
	uint16_t later;        /* those that came at least a second after the first; 0 when that can't be told */
	uint16_t seconds;      /* in how many different seconds the later ones came, up to 127 */
	bool by_faults;        /* from a source that tells of a page at most once a round: repeats say nothing */
	uint64_t watched_ns;   /* in which the later ones came: since a second after the first, to 0.3 s */
	uint64_t span_ns;      /* from the first to the last sample, to 0.3 s */
	double before_per_sec; /* what it had before it was begun anew; below 0: not known */
	uint32_t latency;      /* cycles, a mean of the last few samples that had one; 0: none had */
	double far_part;       /* share of its last few samples that fell on slow nodes, 0..1, in steps of a third */
	int target_nid;        /* most of the last few CPUs that touched its slow pages want it there; -1: not known */
};

/* Where a page is, and where its CPU wants it: the same for many samples, and worked out once, by region_place(). */
struct region_place {
	uint64_t node_bit; /* in region.nodes; 0: not known */
	int target_nid;    /* -1: nowhere */
	bool is_far;       /* on a slow node */
	/* What the evidence says of it once nothing about it changes any more, and which bits say so. */
	uint64_t settled, settled_mask;
};
