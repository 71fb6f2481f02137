/* SPDX-License-Identifier: GPL-2.0-or-later */
/* sim_engine_internal: what the parts of the engine share: sim_engine.c turns the clock, sim_engine_parts.c makes and
 * takes away what the daemon's threads would have, sim_engine_watch.c measures, sim_engine_regions.c what was decided.
 */
#pragma once

#include "clock.h"
#include "config.h"
#include "migrator.h"
#include "room.h"
#include "sim_engine.h"
#include "sim_kernel.h"
#include "sim_machine.h"
#include "sim_place.h"
#include "sim_random.h"
#include "sim_sampler.h"

#define SIM_MIGRATORS_MAX 32

struct collector;
struct decider;
struct hotness;
struct hotness_view;
struct owners;
struct sample_queue;
struct stats;
struct stats_slot;
struct topology_store;

struct sim_engine {
	const struct sim_scenario *scenario;
	struct sim_result *result;
	struct sim_place place;
	struct sim_machine machine;
	struct sim_kernel_state kernel;
	struct sim_sampler_state sampler;

	/* The daemon. */
	struct clock clock;
	struct stats *stats;
	struct stats_slot *stats_slot;
	struct topology_store *topology;
	struct owners *owners;
	struct hotness *hotness;
	struct sample_queue *queue;
	struct collector *collector;
	struct decider *decider;
	struct room room;
	struct migrator *migrators[SIM_MIGRATORS_MAX];
	size_t n_migrators;

	/* Time, ns on the virtual clock. */
	uint64_t start_ns, now_ns, end_ns, step_ns;
	uint64_t stepped_ns; /* up to where the model has gone */
	uint64_t pass_ns[SIM_MIGRATORS_MAX];
	uint64_t janitor_ns, room_ns;
	int failed; /* -errno of a step: there is no way to say so in the middle of a move */

	/* What is measured. */
	uint32_t *seen_decision;    /* of each region, at the last look */
	struct hotness_view *views; /* room for as many regions as the scenario has */
	uint16_t *counts;           /* samples of each page, saturated */
	uint64_t cpu_mark_ns;       /* when the daemon's code was entered */
	uint64_t daemon_ns;
	double made, made_base;     /* accesses, and had nothing been moved */
	double speed;               /* accesses in a second, of the last step */
	double late_sec, late_hits; /* of the last tenth */
	double late_oracle;
	double hits, hits_sec; /* since the last point of the series */
	uint64_t point_ns;     /* of the next one */
};

/* Make and take away. 0 or -errno with one line in @error. What was made is taken away by sim_engine_done() only. */
int sim_engine_make(struct sim_engine *e, char *error);
void sim_engine_done(struct sim_engine *e);

/* Seconds since the start. */
double sim_engine_sec(const struct sim_engine *e, uint64_t ns);

/* The daemon's code begins, or ends, for user_seconds. */
void sim_engine_enter(struct sim_engine *e);
void sim_engine_leave(struct sim_engine *e);

/* A step from @from_ns to @to_ns is over: speed, hits, series. */
void sim_watch_step(struct sim_engine *e, uint64_t from_ns, uint64_t to_ns);
/* The sample of @page was collected: what does the policy make of it? */
void sim_watch_sample(struct sim_engine *e, uint64_t page);
/* What is decided about regions, each second; without policy "region": nothing. */
void sim_watch_regions(struct sim_engine *e);
/* In sim_engine_processes.c: before the first step, after each, each second, and when all is over. */
void sim_processes_start(struct sim_engine *e);
void sim_processes_step(struct sim_engine *e, double from, double to);
void sim_processes_point(struct sim_engine *e);
void sim_processes_end(struct sim_engine *e);
/* All is over: the rest of the result. 0 or -ENOMEM. */
int sim_watch_end(struct sim_engine *e);
