/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * policy_heat: how hot regions are, as a histogram of memory by rate of samples, with the scatter of small counts taken
 * out. Pure.
 *
 * A region with 3 samples in a minute may be one of 1 or of 6 a minute. So what is fitted, by expectation maximisation,
 * is the mixture of Poisson rates from which the counts of all regions come; a region is then judged by that mixture
 * and its own count. From the histogram come
 *
 *   the background   a coldest part with little of all accesses, set apart from the rest by a gap: accesses that go
 *                    anywhere, and are no reason to move anything
 *   the threshold    the rate at which what is hotter just fits
 *   the prediction   what share of accesses a given amount of fast memory would serve
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HEAT_STEPS       49 /* rates from 2^-12 to 2^12 samples a second, by half octaves */
#define HEAT_COUNT_BINS  64
#define HEAT_TIME_BINS   48
#define HEAT_GAP_STEPS   4    /* least width of the gap above a background: a factor of 4 */
#define HEAT_GAP_PART    0.02 /* most of all accesses that may come from the gap */
#define HEAT_WORTH_PART  0.05 /* of all accesses above the background: what may be left out of account as cool */
#define HEAT_GROUND_PART 0.15 /* most of all accesses that a background may have */

/* Samples a second of step @i. */
double heat_rate(int i);

/* Regions by count and time watched. */
struct heat_counts {
	double regions;
	struct {
		uint32_t regions;
		double near_bytes, far_bytes; /* on the fast tier, and not */
	} cell[HEAT_COUNT_BINS][HEAT_TIME_BINS];
	/* heat_fit()'s own, 1.3 MB: the cells in use, densely. Untouched until it is called. */
	struct heat_cell {
		double regions, near_bytes, far_bytes;
		double likelihood[HEAT_STEPS];
	} used[HEAT_COUNT_BINS * HEAT_TIME_BINS];
};

struct heat {
	bool known;                /* false: nothing was fitted yet */
	double weight[HEAT_STEPS]; /* of the regions; sums to 1 */
	double near_bytes[HEAT_STEPS], far_bytes[HEAT_STEPS];
	double accesses;       /* samples a second of all */
	int ground;            /* the highest step of the background; -1: there is none */
	double threshold;      /* samples a second: what has fewer doesn't fit; 0: all fits */
	double capacity_bytes; /* that it was fitted to */
};

void heat_clear(struct heat_counts *counts);

/* A region with @samples in @sec seconds (0.1 at least), and its bytes that may be hot on each tier. */
void heat_add(struct heat_counts *counts, double samples, double sec, double near_bytes, double far_bytes);

/* Fit @ret, which may hold an earlier fit to begin with, for fast memory of @capacity_bytes. */
void heat_fit(struct heat_counts *counts, double capacity_bytes, struct heat *ret);

/*
 * The least rate, in samples a second, that a region is worth its place on the fast tier for: what is hotter has all
 * but HEAT_WORTH_PART of the accesses above the background, or as much of them as fits. 0: nothing is known.
 */
double heat_worth(const struct heat *heat);
/* The same, were there room for all. */
double heat_worth_with_room(const struct heat *heat);

/* A region's own: chance that it is above the background, and mean rate. */
struct heat_region {
	double above_ground;
	double mean_rate;
};

void heat_judge(const struct heat *heat, double samples, double sec, struct heat_region *ret);

/* Share of the accesses to known memory that @bytes of fast memory would serve, the hottest first: 0..1. */
double heat_hit_ratio(const struct heat *heat, double bytes);
