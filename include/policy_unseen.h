/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * policy_unseen: what share of the accesses to slow memory goes where nothing is known yet. Pure.
 *
 * Good and Turing: the chance that the next sample falls on something never seen is the share of samples that just did.
 * It is taken from the newest steps that have UNSEEN_SAMPLES between them, so that it follows a program that begins to
 * use other memory, and doesn't stick to the past when what is known was moved and few samples are left.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UNSEEN_STEPS   64
#define UNSEEN_SAMPLES 2000 /* a margin of 2% at worst */

/* Zeroed at start. Not shared. */
struct unseen {
	uint64_t last_samples, last_novel;
	size_t steps; /* so far; the newest UNSEEN_STEPS are kept */
	struct {
		uint32_t samples, novel;
	} step[UNSEEN_STEPS];
};

struct unseen_share {
	bool known;    /* false: too few samples to say anything */
	double seen;   /* share of the accesses that falls on known regions, 0..1 */
	double margin; /* half the width of its interval of 95% (Wilson's) */
};

/* @samples of slow memory so far, and @novel of them that fell on regions not known before: counters that only grow.
 * Once an epoch. */
void unseen_step(struct unseen *u, uint64_t samples, uint64_t novel);

void unseen_look(const struct unseen *u, struct unseen_share *ret);
