/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * policy_density: how much of a region is hot, from how often its samples repeat pages. Pure.
 *
 * n samples on H equally hot pages show d = H (1 - exp(-n / H)) distinct ones on average; with few samples they repeat
 * about n^2 / 2H times. One region with 18 samples can't tell a quarter of its pages from all of them; thousands of one
 * mapping and like heat together can. So the share that is hot gets a prior, fitted to a class of regions (a mixture,
 * by expectation maximisation: dense regions and scattered ones in one class stay apart as far as they can be told
 * apart), and each region is judged by that prior and its own samples (empirical Bayes).
 *
 * The likelihood of d distinct pages in n samples is exact for equally hot pages: H (H-1) ... (H-d+1) / H^n, but for a
 * factor that is the same for all H.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DENSITY_STEPS 19 /* shares that are told apart, from 1/512 to 1 */
#define DENSITY_CELLS 1024

/* Of all pages that may be hot, for each step; ascending. */
extern const double density_share[DENSITY_STEPS];

/* How likely each share is; sums to 1. */
struct density {
	double weight[DENSITY_STEPS];
};

/* Regions of a class, by (samples, pages). */
struct density_class {
	size_t n_cells;
	uint64_t regions; /* in the cells; those that found no cell are left out */
	uint64_t repeats; /* samples that showed no new page */
	struct {
		uint16_t samples, pages;
		uint32_t regions;
	} cell[DENSITY_CELLS];
	double likelihood[DENSITY_CELLS][DENSITY_STEPS]; /* density_fit()'s own */
};

/* Nothing known: each share alike. */
void density_flat(struct density *ret);

void density_class_clear(struct density_class *c);
/* A region with @samples on @pages distinct ones; one without samples, or with more pages than samples, is left out. */
void density_class_add(struct density_class *c, unsigned int samples, unsigned int pages);

/*
 * Fit a prior to @c: one share for all of them, and a mixture as far as it fits better than chance explains. @base:
 * what is known beforehand, counting as @base_regions regions (more than 0). The same input gives the same result.
 */
void density_fit(struct density_class *c, const struct density *base, double base_regions, struct density *ret);

/* A region's own: @samples showed @pages distinct ones of @of (1..512) that may be hot. */
void density_posterior(const struct density *prior, unsigned int samples, unsigned int pages, unsigned int of,
		       struct density *ret);

/* Chance that at least @share is hot; the mean share. */
double density_at_least(const struct density *d, double share);
double density_mean(const struct density *d);
