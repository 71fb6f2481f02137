/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "clock.h"
#include "policy_life.h"

#define BINS        8 /* ages up to 2, 4, 8 ... 256 s */
#define FIRST_SEC   2.0
#define QUIET_MIN_S 2.0 /* between two samples of what is still hot: so long at most, or */
#define QUIET_TIMES 6.0 /* so many times what is usual, which one in 400 gaps is by chance */
#define QUIET_MAX_S 64.0
#define FORGET_SEC  120.0 /* what was seen counts for less and less */
#define PRIOR       4.0   /* regions that the age before counts for */

struct watched {
	uint64_t key;
	uint64_t from_ns;    /* 0: nothing is watched here */
	uint64_t counted_ns; /* up to then it is accounted for */
	double share;
	uint32_t slot;
	bool quiet;
};

struct policy_life {
	uint64_t step_ns;
	double hot[BINS], seen[BINS]; /* seconds of regions of that age */
	struct watched watched[LIFE_REGIONS];
};

struct policy_life *policy_life_new(void)
{
	return calloc(1, sizeof(struct policy_life));
}

void policy_life_free(struct policy_life *life)
{
	free(life);
}

static double bin_end(int bin)
{
	return FIRST_SEC * (double)(1U << bin);
}

static double bin_start(int bin)
{
	return bin ? bin_end(bin - 1) : 0;
}

/* From age @from to age @to, in s. */
static void account(struct policy_life *life, double from, double to, bool hot)
{
	for (int i = 0; i < BINS; i++) {
		double sec = fmin(to, bin_end(i)) - fmax(from, bin_start(i));

		if (sec <= 0)
			continue;
		life->seen[i] += sec;
		life->hot[i] += hot ? sec : 0;
	}
}

void policy_life_add(struct policy_life *life, uint32_t slot, uint64_t key, double share, uint64_t now_ns)
{
	struct watched *w = &life->watched[slot % LIFE_REGIONS];

	if (w->from_ns || share <= 0)
		return;
	*w = (struct watched){ .key = key, .from_ns = now_ns, .counted_ns = now_ns, .share = share, .slot = slot };
}

static double age_at(const struct watched *w, uint64_t ns)
{
	return (double)(ns - w->from_ns) / (double)NSEC_PER_SEC;
}

/* @last_ns: of its last sample. */
static void look_at(struct policy_life *life, struct watched *w, uint64_t last_ns, double quiet_sec, uint64_t now_ns)
{
	double from = age_at(w, w->counted_ns), now = age_at(w, now_ns);

	if (last_ns > w->counted_ns) {
		double last = age_at(w, last_ns);

		account(life, from, last, last - from <= quiet_sec);
		w->counted_ns = last_ns;
		w->quiet = false;
		from = last;
	}
	if (now - from > quiet_sec || w->quiet) {
		account(life, from, now, false);
		w->counted_ns = now_ns;
		w->quiet = true;
	}
	/* What went quiet is watched on: it may come back. */
	if (now >= LIFE_MAX_SEC)
		w->from_ns = 0;
}

void policy_life_step(struct policy_life *life, uint64_t (*idle_ns)(void *ctx, uint32_t slot, uint64_t key), void *ctx,
		      double samples_per_sec, uint64_t now_ns)
{
	double keep = exp(-(double)(now_ns - life->step_ns) / (double)NSEC_PER_SEC / FORGET_SEC);

	for (int i = 0; i < BINS; i++) {
		life->hot[i] *= keep;
		life->seen[i] *= keep;
	}
	life->step_ns = now_ns;
	for (size_t i = 0; i < LIFE_REGIONS; i++) {
		struct watched *w = &life->watched[i];
		double quiet_sec = fmax(QUIET_MIN_S, QUIET_TIMES / (w->share * samples_per_sec));
		uint64_t idle;

		if (!w->from_ns)
			continue;
		idle = idle_ns(ctx, w->slot, w->key);
		/* So few samples that silence says nothing: nothing was seen in the meantime. */
		if (!(quiet_sec <= QUIET_MAX_S)) {
			w->from_ns = 0;
			continue;
		}
		if (idle > now_ns - w->from_ns)
			idle = now_ns - w->from_ns;
		look_at(life, w, now_ns - idle, quiet_sec, now_ns);
	}
}

double policy_life_sec(const struct policy_life *life)
{
	double sum = 0, share = 1;

	for (int i = 0; i < BINS; i++) {
		double sec = bin_end(i) - bin_start(i), prior = PRIOR * sec;

		share = (life->hot[i] + prior * share) / (life->seen[i] + prior);
		sum += share * sec;
	}
	return sum;
}
