/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <math.h>
#include <string.h>

#include "policy_heat.h"

#define ITERATIONS   30
#define EXACT_COUNTS 32  /* up to here each count has a bin; then four to each octave */
#define SEC_MIN      0.1 /* of the first time bin; four to each octave */
#define SMOOTH       0.02

double heat_rate(int i)
{
	return exp2(i / 2.0 - 12);
}

void heat_clear(struct heat_counts *counts)
{
	counts->regions = 0;
	memset(counts->cell, 0, sizeof(counts->cell));
}

static int count_bin(double samples)
{
	int bin;

	if (samples < EXACT_COUNTS)
		return samples > 0 ? (int)(samples + 0.5) : 0;
	bin = EXACT_COUNTS + (int)(4 * log2(samples / EXACT_COUNTS));
	return bin < HEAT_COUNT_BINS ? bin : HEAT_COUNT_BINS - 1;
}

static double bin_count(int bin)
{
	return bin <= EXACT_COUNTS - 1 ? bin : EXACT_COUNTS * exp2((bin - EXACT_COUNTS + 0.5) / 4);
}

static int time_bin(double sec)
{
	int bin = sec > SEC_MIN ? (int)(4 * log2(sec / SEC_MIN)) : 0;

	return bin < HEAT_TIME_BINS ? bin : HEAT_TIME_BINS - 1;
}

static double bin_sec(int bin)
{
	return SEC_MIN * exp2((bin + 0.5) / 4);
}

void heat_add(struct heat_counts *counts, double samples, double sec, double near_bytes, double far_bytes)
{
	int c = count_bin(samples), t = time_bin(sec);

	counts->cell[c][t].regions++;
	counts->cell[c][t].near_bytes += near_bytes;
	counts->cell[c][t].far_bytes += far_bytes;
	counts->regions++;
}

/* Likelihood of @samples in @sec for each rate, but for a factor; the largest is 1. */
static void likelihoods(double samples, double sec, double *ret)
{
	/* Of rates 2^(i/2 - 12): */
	const double log_step = 0.34657359027997264, root = 1.4142135623730951, log_sec = log(sec);
	double most = -INFINITY, mean = sec / 4096;

	for (int i = 0; i < HEAT_STEPS; i++) {
		ret[i] = samples * ((i - 24) * log_step + log_sec) - mean;
		most = ret[i] > most ? ret[i] : most;
		mean *= root;
	}
	for (int i = 0; i < HEAT_STEPS; i++)
		ret[i] = exp(ret[i] - most);
}

/* Weights of the regions with that count: sums to 1. */
static void posterior(const double *weight, const double *likelihood, double *ret)
{
	double sum = 0;

	for (int i = 0; i < HEAT_STEPS; i++) {
		ret[i] = weight[i] * likelihood[i];
		sum += ret[i];
	}
	if (sum > 0) {
		for (int i = 0; i < HEAT_STEPS; i++)
			ret[i] /= sum;
		return;
	}
	/* Far from all that was ever seen: it speaks for itself. */
	for (int i = 0; i < HEAT_STEPS; i++)
		sum += likelihood[i];
	for (int i = 0; i < HEAT_STEPS; i++)
		ret[i] = likelihood[i] / sum;
}

static size_t pick_cells(struct heat_counts *counts)
{
	struct heat_cell *ret = counts->used;
	size_t n = 0;

	for (int c = 0; c < HEAT_COUNT_BINS; c++)
		for (int t = 0; t < HEAT_TIME_BINS; t++) {
			if (counts->cell[c][t].regions == 0)
				continue;
			ret[n].regions = counts->cell[c][t].regions;
			ret[n].near_bytes = counts->cell[c][t].near_bytes;
			ret[n].far_bytes = counts->cell[c][t].far_bytes;
			likelihoods(bin_count(c), bin_sec(t), ret[n].likelihood);
			n++;
		}
	return n;
}

/* An earlier fit, or from nothing, with a little everywhere, so that what is new can be found. */
static void begin(struct heat *heat)
{
	for (int i = 0; i < HEAT_STEPS; i++)
		heat->weight[i] =
			(heat->known ? heat->weight[i] * (1 - SMOOTH) : 0) + (heat->known ? SMOOTH : 1) / HEAT_STEPS;
}

static void maximise(struct heat *heat, const struct heat_cell *cells, size_t n, double regions)
{
	for (int round = 0; round < ITERATIONS; round++) {
		double sum[HEAT_STEPS] = { 0 }, own[HEAT_STEPS];

		for (size_t k = 0; k < n; k++) {
			posterior(heat->weight, cells[k].likelihood, own);
			for (int i = 0; i < HEAT_STEPS; i++)
				sum[i] += cells[k].regions * own[i];
		}
		for (int i = 0; i < HEAT_STEPS; i++)
			heat->weight[i] = sum[i] / regions;
	}
}

/*
 * The highest step of a background; -1: there is none. A gap is where next to no accesses come from, however many
 * regions chance has put there; in its middle, by rate, is the border: nearer to its upper end would cost what is hot,
 * nearer to the lower one what isn't.
 */
static int find_ground(const struct heat *heat)
{
	double below = 0;
	int ground = -1;

	for (int low = 0; low + 1 + HEAT_GAP_STEPS < HEAT_STEPS; low++) {
		double in_gap = 0;
		int top = low + 1;

		below += heat->weight[low] * heat_rate(low);
		if (below > HEAT_GROUND_PART * heat->accesses)
			break;
		for (; top < HEAT_STEPS; top++) {
			double here = heat->weight[top] * heat_rate(top);

			if (in_gap + here > HEAT_GAP_PART * heat->accesses)
				break;
			in_gap += here;
		}
		if (top < HEAT_STEPS && top - low - 1 >= HEAT_GAP_STEPS)
			ground = low + (top - low - 1) / 2;
	}
	return ground;
}

static double bytes_of(const struct heat *heat, int i)
{
	return heat->near_bytes[i] + heat->far_bytes[i];
}

static double find_threshold(const struct heat *heat)
{
	double left = heat->capacity_bytes;

	for (int i = HEAT_STEPS - 1; i >= 0; i--) {
		double bytes = bytes_of(heat, i);

		/* The step that fits in part is cut there; half a step to either side is its width. */
		if (bytes > left)
			return heat_rate(i) * exp2(0.25 - 0.5 * left / bytes);
		left -= bytes;
	}
	return 0;
}

void heat_fit(struct heat_counts *counts, double capacity_bytes, struct heat *ret)
{
	const struct heat_cell *cells = counts->used;
	size_t n;

	ret->capacity_bytes = capacity_bytes;
	if (counts->regions == 0)
		return;
	n = pick_cells(counts);
	begin(ret);
	maximise(ret, cells, n, counts->regions);
	memset(ret->near_bytes, 0, sizeof(ret->near_bytes));
	memset(ret->far_bytes, 0, sizeof(ret->far_bytes));
	for (size_t k = 0; k < n; k++) {
		double own[HEAT_STEPS];

		posterior(ret->weight, cells[k].likelihood, own);
		for (int i = 0; i < HEAT_STEPS; i++) {
			ret->near_bytes[i] += own[i] * cells[k].near_bytes;
			ret->far_bytes[i] += own[i] * cells[k].far_bytes;
		}
	}
	ret->accesses = 0;
	for (int i = 0; i < HEAT_STEPS; i++)
		ret->accesses += ret->weight[i] * heat_rate(i);
	ret->known = true;
	ret->ground = find_ground(ret);
	ret->threshold = find_threshold(ret);
}

void heat_judge(const struct heat *heat, double samples, double sec, struct heat_region *ret)
{
	double likelihood[HEAT_STEPS], own[HEAT_STEPS];

	*ret = (struct heat_region){ 0 };
	if (!heat->known)
		return;
	likelihoods(samples, sec > SEC_MIN ? sec : SEC_MIN, likelihood);
	posterior(heat->weight, likelihood, own);
	for (int i = 0; i < HEAT_STEPS; i++) {
		ret->mean_rate += own[i] * heat_rate(i);
		if (i > heat->ground)
			ret->above_ground += own[i];
	}
}

double heat_worth_with_room(const struct heat *heat)
{
	double above = 0, below = 0;

	if (!heat->known)
		return 0;
	for (int i = heat->ground + 1; i < HEAT_STEPS; i++)
		above += heat->weight[i] * heat_rate(i);
	for (int i = heat->ground + 1; i < HEAT_STEPS; i++) {
		below += heat->weight[i] * heat_rate(i);
		if (below > HEAT_WORTH_PART * above)
			return heat_rate(i);
	}
	return 0;
}

double heat_worth(const struct heat *heat)
{
	double worth = heat_worth_with_room(heat);

	return worth > 0 ? fmax(worth, heat->threshold) : 0;
}

double heat_hit_ratio(const struct heat *heat, double bytes)
{
	double served = 0, all = 0, total_bytes = 0;

	for (int i = 0; i < HEAT_STEPS; i++)
		total_bytes += bytes_of(heat, i);
	if (!heat->known || total_bytes <= 0)
		return 0;
	for (int i = HEAT_STEPS - 1; i >= 0; i--) {
		double here = bytes_of(heat, i), rate = heat->weight[i] * heat_rate(i);

		all += rate;
		if (here > 0)
			served += rate * (bytes < here ? bytes / here : 1);
		bytes = bytes > here ? bytes - here : 0;
	}
	return all > 0 ? served / all : 0;
}
