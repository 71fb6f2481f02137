/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * budget_model: a kernel that samples, on a virtual clock: samples come by chance, a tick takes so many and no more, a
 * sample costs something else than assumed, pages are new once.
 */
#pragma once

#include <math.h>

#include "budget.h"
#include "budget_meter.h"
#include "clock.h"
#include "draw.h"
#include "harness.h"

#define HZ 250

struct model {
	unsigned int cpus;
	unsigned int busy;     /* of these; 0: all */
	double events_per_sec; /* of each busy CPU */
	double sample_ns;      /* what it really costs */
	double max_sample_rate;
	double own_sample_ns, own_fixed_ns; /* for each sample, in a second */
	double read_per_sec_max;            /* more are lost; 0: none is */
	double filtered;                    /* share thrown away in software */
	bool unmanaged;                     /* samples are no evidence */
	double pages;                       /* that the load touches, evenly; 0: a new one each time */
	double seen;

	uint64_t random;
	uint64_t now_ns;
	struct budget budget;
	struct budget_meter meter;
	struct budget_input input;
	struct budget_output out;
	double cost; /* the true one, of the last second */
};

/* 0 < r <= 1 */
static inline double random_unit(uint64_t *state)
{
	return ((double)(draw(state) >> 11) + 1) / 9007199254740992.0;
}

static inline double poisson(uint64_t *state, double mean)
{
	double n = 0;

	if (mean > 50) {
		double normal = sqrt(-2 * log(random_unit(state))) * cos(2 * 3.14159265358979 * random_unit(state));

		n = floor(mean + normal * sqrt(mean) + 0.5);
		return n < 0 ? 0 : n;
	}
	for (double p = random_unit(state); p > exp(-mean); p *= random_unit(state))
		n++;
	return n;
}

static inline struct budget_params params_ibs(void)
{
	return (struct budget_params){
		.ratio = 0.01,
		.period_min = 144,
		.period_max = 134217712,
		.period_align = 16,
		.full_per_sec = BUDGET_FULL_L3_MISS,
		.seed = 1,
	};
}

static inline void model_new(struct model *m, const struct budget_params *params, unsigned int cpus,
			     double events_per_sec)
{
	*m = (struct model){
		.cpus = cpus,
		.events_per_sec = events_per_sec,
		.sample_ns = BUDGET_METER_ASSUMED_NS,
		.max_sample_rate = 100000,
		.own_sample_ns = 250,
		.own_fixed_ns = 1e6,
		.random = 42,
		.now_ns = 1000 * NSEC_PER_SEC,
	};
	budget_init(&m->budget, params);
	budget_step(&m->budget, &m->input, m->now_ns, &m->out);
	/* Once more as it really starts, with the CPUs known. */
	budget_init(&m->budget, params);
	m->input.cpus = cpus;
	m->input.sample_ns = BUDGET_METER_ASSUMED_NS;
	m->input.sample_high_ns = 2 * BUDGET_METER_ASSUMED_NS;
	m->input.max_sample_rate = 100000;
	budget_step(&m->budget, &m->input, m->now_ns, &m->out);
}

/* One second under the period that was set, then the step. */
static inline void model_second(struct model *m)
{
	double busy = m->busy ? m->busy : m->cpus, per_cpu = m->events_per_sec / (double)m->out.period;
	double per_tick = per_cpu / HZ, limit = ceil(m->max_sample_rate / HZ);
	/* Share of ticks with more than the limit. */
	double over = per_tick > 0 ? erfc((limit - per_tick) / sqrt(2 * per_tick)) / 2 : 0;
	double taken, kept, lost = 0, read, new;
	struct budget_meter_cost cost;

	taken = poisson(&m->random, busy * (over * limit * HZ + (1 - over) * fmin(per_cpu, limit * HZ)));
	kept = floor(taken * (1 - m->filtered));
	if (m->read_per_sec_max > 0 && kept > m->read_per_sec_max)
		lost = kept - m->read_per_sec_max;
	read = kept - lost;
	new = m->pages > 0 ? floor((m->pages - m->seen) * (1 - exp(-read / m->pages))) : read;
	m->seen += m->pages > 0 ? new : 0;
	m->input.samples += (uint64_t)read;
	m->input.lost += (uint64_t)lost;
	m->input.filtered += (uint64_t)(taken - kept);
	m->input.throttled += (uint64_t)poisson(&m->random, over * HZ * busy);
	m->input.own_cpu_ns += (uint64_t)(m->own_fixed_ns + m->own_sample_ns * read);
	m->input.evidence += m->unmanaged ? 0 : (uint64_t)read;
	m->input.novel += m->unmanaged ? 0 : (uint64_t) new;
	m->input.max_sample_rate = (uint64_t)m->max_sample_rate;
	budget_meter_cost(&m->meter, &cost);
	m->input.sample_ns = cost.sample_ns;
	m->input.sample_high_ns = cost.high_ns;
	m->cost = (taken * m->sample_ns + m->own_fixed_ns + m->own_sample_ns * read) / (m->cpus * 1e9);
	m->now_ns += NSEC_PER_SEC;
	budget_step(&m->budget, &m->input, m->now_ns, &m->out);
}

/* Gaps of a spinning thread, scattered by a fifth. */
static inline void model_gaps(struct model *m)
{
	for (int i = 0; i < 40; i++)
		budget_meter_gap(&m->meter, (uint64_t)(m->sample_ns * (0.8 + 0.4 * random_unit(&m->random))));
}

struct seen {
	double least, most, mean; /* true cost */
	int over;                 /* seconds above the budget */
	int turns;                /* a way up after a way down, or the other way */
};

static inline struct seen model_run(struct model *m, int seconds)
{
	struct seen ret = { .least = INFINITY };
	double before = m->budget.target;
	int direction = 0;

	for (int i = 0; i < seconds; i++) {
		double target;

		model_second(m);
		ret.least = fmin(ret.least, m->cost);
		ret.most = fmax(ret.most, m->cost);
		ret.mean += m->cost / seconds;
		ret.over += m->cost > m->budget.params.ratio;
		target = m->budget.target;
		if (target != before) {
			int d = target > before ? 1 : -1;

			ret.turns += d == -direction;
			direction = d;
			before = target;
		}
	}
	return ret;
}
