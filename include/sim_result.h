/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sim_result: what a simulation came to, as JSON and in words.
 *
 * Owner   the one thread of the simulator
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "sim_scenario.h"

/* Ratios are 0 to 1; over_promotion is in parts of the hot set, so it may be more. */
struct sim_point {
	double t; /* s from the start */
	double coverage, decided, over_promotion, hit_ratio;
	uint64_t moved_bytes;
};

/* One memory of the scenario. */
struct sim_part {
	char name[SIM_NAME_MAX];
	uint64_t bytes, hot_bytes, moved_bytes;
	double coverage, decided, over_promotion;
	double time_to_99, time_to_99_decided; /* s; -1: never */
};

/* One process of the scenario. */
struct sim_process {
	int64_t number, user;
	double sec;   /* that it ran for */
	double speed; /* accesses a second of one thread, by where its memory was; bandwidth that others take left out
		       */
	double hit_ratio;    /* mean */
	uint64_t fast_bytes; /* on near nodes, in the end */
	uint64_t map_bytes;  /* the most of the daemon's tables, */
	uint64_t evicted;    /* and regions forgotten for want of memory */
};

/* How many times each guard began to hold. */
struct sim_guards {
	uint64_t against, cost, holdout, ping_pong, process;
};

struct sim_result {
	char scenario[SIM_NAME_MAX];
	const char *policy;
	int64_t seed;
	double seconds;
	uint64_t samples; /* that reached the daemon */
	uint64_t hot_bytes;
	double coverage; /* at the end: of the hot set, what is near */
	double decided;  /* what is near or is to be */
	double over_promotion;
	double hit_ratio; /* these three: mean over the last tenth of the time */
	double oracle_hit_ratio;
	double sample_oracle_hit_ratio; /* this one: at the end */
	double speedup;                 /* accesses made, in parts of those that had been made if nothing were moved */
	uint64_t moved_bytes, demoted_bytes;
	/* Of them: less than SIM_BACK_SEC after the same page had been moved the other way. */
	uint64_t back_up_bytes, back_down_bytes;
	double move_seconds;  /* that moving took of a CPU, and */
	double saved_seconds; /* that all threads together saved by it; below 0: that they lost */
	/* With guard.holdout_percent: what the daemon says is saved of the accesses to slow nodes, and what truly is.
	 */
	bool has_holdout;
	double saved, saved_margin, saved_truly;
	struct sim_guards guards;
	double user_seconds;                       /* CPU time of the daemon's own code */
	uint64_t map_bytes;                        /* the most that its tables took */
	double time_to_50, time_to_90, time_to_99; /* s until so many percent are near; -1: never */
	struct sim_point *series;                  /* each second */
	size_t n_series;
	struct sim_part parts[SIM_MEMORIES_MAX];
	size_t n_parts;
	struct sim_process processes[SIM_MEMORIES_MAX];
	size_t n_processes;
};

void sim_result_free(struct sim_result *result);

/* 0, or -ENOMEM, -EIO. */
int sim_result_write_json(const struct sim_result *result, FILE *to);

/* A few lines for people. */
void sim_result_write_text(const struct sim_result *result, FILE *to);
