/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sim_sampler: the samples that a hardware sampler takes of a scenario's accesses: drawn from their distribution, at
 * the sampler's pace. What it draws doesn't hang on where pages are, so that all policies see the same accesses, unless
 * the pace is by period: then a faster program gives more of them. With slow_only what falls on near nodes isn't shown.
 *
 * Owner   the one thread of the simulator
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "sample.h"
#include "sim_place.h"
#include "sim_random.h"

#define SIM_CYCLES_PER_NS 3.0 /* of the latency that samples carry */

struct sim_sampler_state {
	const struct sim_place *place;
	struct sim_random which, when, flaws, where[SIM_ACCESSES_MAX];
	int cpu_first[SIM_NODES_MAX];
	double credit; /* part of a sample that is due */
	uint64_t taken, filtered, lost, hidden;
};

void sim_sampler_init(struct sim_sampler_state *sampler, const struct sim_place *place);

/* How many samples are due after another @sec, in which @accesses were made. */
uint64_t sim_sampler_due(struct sim_sampler_state *sampler, double sec, double accesses);

/*
 * Take one at @sec of the scenario, @time_ns of the clock. false: it was thrown away or lost, or nothing is accessed.
 * @ret_page is the page that @ret names, which may not be the one that was accessed.
 */
bool sim_sampler_take(struct sim_sampler_state *sampler, double sec, uint64_t time_ns, struct sample *ret,
		      uint64_t *ret_page);
