/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collector.h"
#include "config.h"
#include "decider.h"
#include "fair.h"
#include "guard.h"
#include "holdout.h"
#include "hotness.h"
#include "migrator.h"
#include "owners.h"
#include "sample_queue.h"
#include "sim_engine_internal.h"
#include "stats.h"
#include "victims.h"

#define START_NS (1000 * NSEC_PER_SEC) /* of the virtual clock: a machine that has been up for a while */

double sim_engine_sec(const struct sim_engine *e, uint64_t ns)
{
	return (double)(ns - e->start_ns) / (double)NSEC_PER_SEC;
}

void sim_engine_enter(struct sim_engine *e)
{
	e->cpu_mark_ns = clock_now_ns(&clock_thread_cpu);
}

void sim_engine_leave(struct sim_engine *e)
{
	e->daemon_ns += clock_now_ns(&clock_thread_cpu) - e->cpu_mark_ns;
}

static void collect(struct sim_engine *e)
{
	sim_engine_enter(e);
	while (collector_step(e->collector, &e->scenario->config, e->now_ns, COLLECTOR_BATCH_SAMPLES) > 0)
		;
	sim_engine_leave(e);
}

/* Samples of pages whose fate is looked at once they are collected. */
struct looks {
	size_t n;
	uint64_t page[COLLECTOR_BATCH_SAMPLES];
};

static void flush(struct sim_engine *e, struct looks *looks)
{
	collect(e);
	for (size_t i = 0; i < looks->n; i++)
		sim_watch_sample(e, looks->page[i]);
	looks->n = 0;
}

/* The samples of a step: one in each part of it, anywhere there, for what is accessed in step with time must not be in
 * step with the sampler. Hardware draws the low bits of a period too. */
static void take_samples(struct sim_engine *e, uint64_t from_ns, uint64_t to_ns)
{
	double sec = (double)(to_ns - from_ns) / (double)NSEC_PER_SEC;
	uint64_t n = sim_sampler_due(&e->sampler, sec, e->speed * sec);
	const struct sim_sampler *sampler = &e->scenario->sampler;
	struct looks looks = { .n = 0 };
	struct sample sample;
	uint64_t page;

	/* A fault stands for nobody knows how many accesses. */
	if (!sampler->slow_only)
		accesses_set_per_sample(&e->room.accesses, (uint64_t)(sampler->per_sec > 0 ? e->speed / sampler->per_sec
											   : sampler->period));
	for (uint64_t i = 0; i < n; i++) {
		double at = ((double)i + sim_random_unit(&e->sampler.when)) / (double)n;
		uint64_t time_ns = from_ns + (uint64_t)((double)(to_ns - from_ns) * at);

		if (!sim_sampler_take(&e->sampler, sim_engine_sec(e, time_ns), time_ns, &sample, &page))
			continue;
		/* As the reader does: it is how the daemon knows that they are faults. */
		if (sampler->slow_only)
			stats_inc(e->stats_slot, STAT_HINTFAULTS);
		if (e->counts[page] < UINT16_MAX)
			e->counts[page]++;
		/* Never full: it is emptied by the batch. */
		sample_queue_push(e->queue, &sample);
		looks.page[looks.n++] = page;
		if (looks.n == COLLECTOR_BATCH_SAMPLES)
			flush(e, &looks);
	}
	flush(e, &looks);
}

/* The model goes from one step of the clock to the next. */
static void step(struct sim_engine *e)
{
	uint64_t from_ns = e->stepped_ns, to_ns = from_ns + e->step_ns;
	int r;

	e->stepped_ns = to_ns;
	e->now_ns = to_ns;
	r = sim_place_at(&e->place, sim_engine_sec(e, to_ns));
	if (r < 0)
		e->failed = r;
	take_samples(e, from_ns, to_ns);
	sim_kernel_reclaim(&e->kernel, (double)e->step_ns / (double)NSEC_PER_SEC);
	sim_watch_step(e, from_ns, to_ns);
}

static void go_to(struct sim_engine *e, uint64_t ns)
{
	while (e->stepped_ns + e->step_ns <= ns && e->stepped_ns < e->end_ns)
		step(e);
	if (ns > e->now_ns)
		e->now_ns = ns;
}

/* Pages are on their way: the daemon's code waits. */
static void pass_time(void *ctx, uint64_t ns)
{
	struct sim_engine *e = ctx;

	sim_engine_leave(e);
	go_to(e, e->now_ns + ns);
	sim_engine_enter(e);
}

static int turn_migrator(struct sim_engine *e, size_t i)
{
	const struct config *config = &e->scenario->config;
	struct migrator_pass_result result;
	int r = sim_machine_update(&e->machine);

	if (r < 0)
		return r;
	sim_engine_enter(e);
	r = migrator_pass(e->migrators[i], config, e->now_ns, &result);
	sim_engine_leave(e);
	if (r < 0)
		return r;
	e->pass_ns[i] = e->now_ns + (uint64_t)migrator_pause_ms(config, &result) * NSEC_PER_MSEC;
	return 0;
}

static void turn_janitor(struct sim_engine *e)
{
	sim_engine_enter(e);
	hotness_janitor(e->hotness, e->now_ns, HOTNESS_COLD_NS, e->stats_slot);
	sim_engine_leave(e);
	e->janitor_ns = e->now_ns + HOTNESS_JANITOR_MS * NSEC_PER_MSEC;
}

static void turn_room(struct sim_engine *e)
{
	if (sim_machine_put_demoted(&e->machine, e->kernel.reclaimed_pages) < 0)
		e->failed = -EIO;
	sim_engine_enter(e);
	room_step(&e->room, &e->scenario->config, NSEC_PER_SEC, NULL);
	sim_engine_leave(e);
	e->room_ns = e->now_ns + VICTIMS_STEP_MS * NSEC_PER_MSEC;
}

static uint64_t next_event(const struct sim_engine *e)
{
	uint64_t ns = e->janitor_ns < e->room_ns ? e->janitor_ns : e->room_ns;

	for (size_t i = 0; i < e->n_migrators; i++)
		if (e->pass_ns[i] < ns)
			ns = e->pass_ns[i];
	return ns < e->end_ns ? ns : e->end_ns;
}

static bool stopped(const _Atomic bool *stop)
{
	return stop && atomic_load_explicit(stop, memory_order_relaxed);
}

static int run(struct sim_engine *e, const _Atomic bool *stop)
{
	while (e->now_ns < e->end_ns) {
		int r = 0;

		if (stopped(stop))
			return -EINTR;
		go_to(e, next_event(e));
		for (size_t i = 0; i < e->n_migrators && r == 0; i++)
			if (e->pass_ns[i] <= e->now_ns && e->now_ns < e->end_ns)
				r = turn_migrator(e, i);
		if (r == 0)
			r = e->failed;
		if (r < 0)
			return r;
		if (e->janitor_ns <= e->now_ns)
			turn_janitor(e);
		if (e->room_ns <= e->now_ns)
			turn_room(e);
	}
	return 0;
}

static int make_result(struct sim_engine *e)
{
	const struct option_info *policy = option_find("promote.policy");
	static char name[CONFIG_ITEM_MAX];

	*e->result = (struct sim_result){ .time_to_50 = -1, .time_to_90 = -1, .time_to_99 = -1 };
	for (size_t i = 0; i < SIM_MEMORIES_MAX; i++)
		e->result->parts[i].time_to_99 = e->result->parts[i].time_to_99_decided = -1;
	if (option_choice_text(policy, e->scenario->config.promote_policy, name, sizeof(name)) < 0)
		return -EINVAL;
	e->result->policy = name;
	sim_processes_start(e);
	e->result->series = calloc((size_t)e->scenario->seconds + 2, sizeof(*e->result->series));
	return e->result->series ? 0 : -ENOMEM;
}

int sim_run(const struct sim_scenario *scenario, const _Atomic bool *stop, struct sim_result *ret, char *error)
{
	struct sim_engine *e = calloc(1, sizeof(*e));
	int r;

	error[0] = '\0';
	*ret = (struct sim_result){ 0 };
	if (!e) {
		snprintf(error, SIM_ERROR_MAX, "no memory for a simulation");
		return -ENOMEM;
	}
	e->scenario = scenario;
	e->result = ret;
	e->start_ns = e->now_ns = e->stepped_ns = START_NS;
	e->step_ns = (uint64_t)(scenario->step_ms * (double)NSEC_PER_MSEC);
	e->end_ns = START_NS + (uint64_t)(scenario->seconds * (double)NSEC_PER_SEC);
	e->janitor_ns = START_NS + HOTNESS_JANITOR_MS * NSEC_PER_MSEC;
	e->room_ns = START_NS + VICTIMS_STEP_MS * NSEC_PER_MSEC;
	e->point_ns = START_NS + NSEC_PER_SEC;
	e->machine.root.fd = -1;
	r = sim_engine_make(e, error);
	if (r == 0) {
		sim_kernel_init(&e->kernel, &e->place, pass_time, e);
		r = make_result(e);
	}
	if (r == 0)
		r = run(e, stop);
	if (r == 0)
		r = sim_watch_end(e);
	if (r < 0) {
		sim_result_free(ret);
		if (r == -EINTR)
			snprintf(error, SIM_ERROR_MAX, "%s: stopped before its end, so there is no result",
				 scenario->name);
		else if (!error[0])
			snprintf(error, SIM_ERROR_MAX, "%s: the simulation failed: %s", scenario->name, strerror(-r));
	}
	sim_engine_done(e);
	free(e);
	return r;
}
