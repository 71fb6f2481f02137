/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sim_pattern: which page an access of a scenario goes to: one drawn at a time, and how likely each is. The two agree,
 * so that a hit ratio is a sum of probabilities rather than a count of draws.
 *
 * Pages are numbered through all memories of a scenario. Times are seconds from the start of the timed phase.
 *
 * Owner   the one thread of the simulator
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "sim_random.h"
#include "sim_scenario.h"

struct sim_pattern {
	const struct sim_access *access;
	uint64_t memory_first, memory_pages;
	uint64_t first, pages; /* what it goes over now */
	uint64_t seed;
	bool active;
	uint64_t place_number; /* of the places that it has been at */
	/* zipf */
	struct sim_zipf zipf;
	uint64_t unit_pages, units;
	/* clients */
	uint64_t client_pages, client_used;
	/* kronecker: of page i, the sum of the weights before it; pages + 1 of them */
	double *before;
};

/*
 * @seed is the pattern's own. -ENOMEM, -EINVAL (it goes over nothing), 0. Times before 0 are as 0. A pattern is active,
 * and at its first place, as sim_pattern_at() at 0 says.
 */
int sim_pattern_init(struct sim_pattern *pattern, const struct sim_access *access, uint64_t memory_first,
		     uint64_t memory_pages, uint64_t seed);
void sim_pattern_free(struct sim_pattern *pattern);

/* Go to time @sec; of a scenario that ends at @end_sec. true when another distribution holds from here on. */
bool sim_pattern_at(struct sim_pattern *pattern, double sec, double end_sec);

/* Page of one access at @sec. */
uint64_t sim_pattern_draw(const struct sim_pattern *pattern, struct sim_random *random, double sec);

/* Probability that an access goes to @page; of a sweep: in the mean over one. 0 beyond its range. */
double sim_pattern_share(const struct sim_pattern *pattern, uint64_t page);

/* Whether any access goes to @page, sooner or later. */
bool sim_pattern_covers(const struct sim_pattern *pattern, uint64_t page);

/* Page that a sweep is at. */
uint64_t sim_pattern_front(const struct sim_pattern *pattern, double sec);
