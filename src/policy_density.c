/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <assert.h>
#include <math.h>
#include <pthread.h>
#include <string.h>

#include "policy_density.h"
#include "sample.h"

#define ITERATIONS 60
#define CONVERGED  1e-4
#define SPREAD     0.1 /* of the start is spread over all shares, so that a mixture can be found */

static const unsigned int pages_of[DENSITY_STEPS] = { 1,  2,  3,  4,   6,   8,   12,  16,  24, 32,
						      48, 64, 96, 128, 192, 256, 320, 384, 512 };

#define S(pages) ((double)(pages) / REGION_PAGES)
const double density_share[DENSITY_STEPS] = { S(1),  S(2),  S(3),  S(4),   S(6),   S(8),   S(12),  S(16),  S(24), S(32),
					      S(48), S(64), S(96), S(128), S(192), S(256), S(320), S(384), S(512) };

/* ln(n!) up to the pages of a region. */
static double log_factorial[REGION_PAGES + 1];
static pthread_once_t log_factorial_once = PTHREAD_ONCE_INIT;

static void fill_log_factorial(void)
{
	for (unsigned int n = 1; n <= REGION_PAGES; n++)
		log_factorial[n] = log_factorial[n - 1] + log(n);
}

/* ln of the likelihood, but for what is the same for all @hot; -INFINITY: impossible. */
static double log_likelihood(unsigned int hot, unsigned int samples, unsigned int pages)
{
	if (pages > hot)
		return -INFINITY;
	return log_factorial[hot] - log_factorial[hot - pages] - samples * log(hot);
}

void density_flat(struct density *ret)
{
	for (int i = 0; i < DENSITY_STEPS; i++)
		ret->weight[i] = 1.0 / DENSITY_STEPS;
}

void density_class_clear(struct density_class *c)
{
	c->n_cells = 0;
	c->regions = c->repeats = 0;
}

void density_class_add(struct density_class *c, unsigned int samples, unsigned int pages)
{
	size_t low = 0, high = c->n_cells;

	if (samples == 0 || pages == 0 || pages > samples || pages > REGION_PAGES || samples > UINT16_MAX)
		return;
	/* By binary search: cells are few, and mostly there. */
	while (low < high) {
		size_t mid = (low + high) / 2;
		uint32_t key = (uint32_t)c->cell[mid].samples << 16 | c->cell[mid].pages;

		if (key < (samples << 16 | pages))
			low = mid + 1;
		else
			high = mid;
	}
	if (low == c->n_cells || c->cell[low].samples != samples || c->cell[low].pages != pages) {
		if (c->n_cells == DENSITY_CELLS)
			return;
		memmove(&c->cell[low + 1], &c->cell[low], (c->n_cells - low) * sizeof(c->cell[0]));
		c->cell[low].samples = (uint16_t)samples;
		c->cell[low].pages = (uint16_t)pages;
		c->cell[low].regions = 0;
		c->n_cells++;
	}
	c->cell[low].regions++;
	c->regions++;
	c->repeats += samples - pages;
}

/* Scale logs to weights of sum 1. */
static void from_logs(const double *logs, struct density *ret)
{
	double most = -INFINITY, sum = 0;

	for (int i = 0; i < DENSITY_STEPS; i++)
		most = logs[i] > most ? logs[i] : most;
	if (most == -INFINITY) {
		density_flat(ret);
		return;
	}
	for (int i = 0; i < DENSITY_STEPS; i++) {
		ret->weight[i] = exp(logs[i] - most);
		sum += ret->weight[i];
	}
	for (int i = 0; i < DENSITY_STEPS; i++)
		ret->weight[i] /= sum;
}

/* ln of the sum of what @logs are the logs of. */
static double log_sum(const double *logs)
{
	double most = -INFINITY, sum = 0;

	for (int i = 0; i < DENSITY_STEPS; i++)
		most = logs[i] > most ? logs[i] : most;
	for (int i = 0; i < DENSITY_STEPS; i++)
		sum += exp(logs[i] - most);
	return most + log(sum);
}

/*
 * A mixture always fits better than one share for all: it makes a kind of its own of each region that repeats more by
 * chance. So it counts as far as it is better by more than its two more parameters, where and how much, are good for
 * (Schwarz). Thousands of regions show a true mixture by far more; a dozen that are alike don't wait for their last
 * one.
 */
static void prefer_shared(const struct density_class *c, double (*likelihood)[DENSITY_STEPS], const double *pooled,
			  const struct density *shared, struct density *mixture)
{
	double better = -log_sum(pooled) - log((double)c->regions + 1), part;

	for (size_t k = 0; k < c->n_cells; k++) {
		double total = 0;

		for (int i = 0; i < DENSITY_STEPS; i++)
			total += mixture->weight[i] * likelihood[k][i];
		better += c->cell[k].regions * log(total > 1e-300 ? total : 1e-300);
	}
	part = 1 / (1 + exp(better));
	for (int i = 0; i < DENSITY_STEPS; i++)
		mixture->weight[i] += part * (shared->weight[i] - mixture->weight[i]);
}

void density_fit(struct density_class *c, const struct density *base, double base_regions, struct density *ret)
{
	double(*likelihood)[DENSITY_STEPS] = c->likelihood;
	double pooled[DENSITY_STEPS];
	struct density shared;

	assert(base_regions > 0);
	pthread_once(&log_factorial_once, fill_log_factorial);
	for (int i = 0; i < DENSITY_STEPS; i++)
		pooled[i] = log(base->weight[i] > 1e-300 ? base->weight[i] : 1e-300);
	for (size_t k = 0; k < c->n_cells; k++) {
		double most = -INFINITY;

		for (int i = 0; i < DENSITY_STEPS; i++) {
			likelihood[k][i] = log_likelihood(pages_of[i], c->cell[k].samples, c->cell[k].pages);
			most = likelihood[k][i] > most ? likelihood[k][i] : most;
		}
		for (int i = 0; i < DENSITY_STEPS; i++) {
			/* One region of another kind must not forbid a share to all. */
			double l = likelihood[k][i] - most;

			pooled[i] += c->cell[k].regions * (l < -20 ? -20 : l);
			likelihood[k][i] = exp(l);
		}
	}
	/*
	 * Steps of expectation maximisation are small where a region says little, and many regions that all say the
	 * same would take hundreds. So it starts from what one share for all of them comes to, and a little of the
	 * rest.
	 */
	from_logs(pooled, &shared);
	for (int i = 0; i < DENSITY_STEPS; i++)
		ret->weight[i] = shared.weight[i] * (1 - SPREAD) + SPREAD / DENSITY_STEPS;
	for (int round = 0; round < ITERATIONS; round++) {
		double sum[DENSITY_STEPS], all = base_regions + (double)c->regions, change = 0;

		for (int i = 0; i < DENSITY_STEPS; i++)
			sum[i] = base_regions * base->weight[i];
		for (size_t k = 0; k < c->n_cells; k++) {
			double total = 0, part;

			for (int i = 0; i < DENSITY_STEPS; i++)
				total += ret->weight[i] * likelihood[k][i];
			if (total <= 0) {
				all -= c->cell[k].regions;
				continue;
			}
			part = c->cell[k].regions / total;
			for (int i = 0; i < DENSITY_STEPS; i++)
				sum[i] += part * ret->weight[i] * likelihood[k][i];
		}
		for (int i = 0; i < DENSITY_STEPS; i++) {
			change = fmax(change, fabs(ret->weight[i] - sum[i] / all));
			ret->weight[i] = sum[i] / all;
		}
		if (change < CONVERGED)
			break;
	}
	prefer_shared(c, likelihood, pooled, &shared, ret);
}

void density_posterior(const struct density *prior, unsigned int samples, unsigned int pages, unsigned int of,
		       struct density *ret)
{
	double logs[DENSITY_STEPS];

	assert(of >= 1 && of <= REGION_PAGES);
	pthread_once(&log_factorial_once, fill_log_factorial);
	/* More pages than samples: some were seen before the samples were counted. They repeat nothing. */
	if (pages > samples)
		pages = samples;
	for (int i = 0; i < DENSITY_STEPS; i++) {
		unsigned int hot = (unsigned int)lround(density_share[i] * of);

		logs[i] = prior->weight[i] > 0 ? log(prior->weight[i]) + log_likelihood(hot ? hot : 1, samples, pages)
					       : -INFINITY;
	}
	from_logs(logs, ret);
}

double density_at_least(const struct density *d, double share)
{
	double sum = 0;

	for (int i = 0; i < DENSITY_STEPS; i++)
		if (density_share[i] >= share)
			sum += d->weight[i];
	return sum;
}

double density_mean(const struct density *d)
{
	double sum = 0;

	for (int i = 0; i < DENSITY_STEPS; i++)
		sum += d->weight[i] * density_share[i];
	return sum;
}
