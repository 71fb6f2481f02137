/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sim_scenario: what is simulated, as pghot-scenario(5) describes it: a machine, memory, accesses, a sampler, and
 * options of the daemon. Read whole or not at all.
 *
 * Owner   the one thread of the simulator
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config.h"

#define SIM_NAME_MAX     32
#define SIM_NODES_MAX    4
#define SIM_MEMORIES_MAX 16
#define SIM_ACCESSES_MAX 16
#define SIM_ERROR_MAX    CONFIG_ERROR_MAX

enum sim_pattern_kind {
	SIM_UNIFORM,   /* each page alike, or one in so many */
	SIM_ZIPF,      /* by rank, ranks at random places */
	SIM_SWEEP,     /* from the first to the last */
	SIM_CLIENTS,   /* equal parts side by side, the first share of each */
	SIM_KRONECKER, /* vertices of a random graph, by their degree */
};

/* Where a memory's pages are at the start. */
enum sim_placing {
	SIM_ON_NODE,  /* on the node that is named */
	SIM_FILLED,   /* as the kernel allocates: the fastest node with room */
	SIM_UNFILLED, /* nowhere: a sweep fills it, on the node that is named as long as that has room */
};

struct sim_node {
	double mib;
	double latency_ns;
	double gib_per_sec;
	int64_t tier;
	int64_t cpus;
};

struct sim_memory {
	char name[SIM_NAME_MAX];
	double mib;
	int placing;             /* enum sim_placing */
	int64_t node;            /* for SIM_ON_NODE and SIM_UNFILLED */
	double near_share;       /* its first part, 0..1, is on node 0 */
	double huge_share;       /* of its 2 MiB, 0..1, are huge pages */
	int64_t process;         /* 1..99 */
	int64_t user;            /* that it is of; -1: its own */
	int64_t interleave_node; /* every other 2 MiB is there; -1: none */
};

struct sim_access {
	char name[SIM_NAME_MAX];
	char memory[SIM_NAME_MAX];
	int pattern; /* enum sim_pattern_kind */
	double weight;
	double first_mib; /* -1: at random */
	double mib;       /* 0: to the end */
	bool hot;
	double start_sec, end_sec; /* of the timed phase; 0: its end */
	double every_sec;          /* its place changes that often; 0: never */
	int64_t one_in;            /* of so many pages of each 2 MiB one is accessed: a power of two */
	double theta;
	double unit_kib;
	double sweep_sec; /* for one sweep */
	bool once;
	bool fills;
	double share; /* of each client's part */
	int64_t clients;
	int64_t vertex_bytes;
	bool prefetched;
	int64_t node; /* of the CPUs that make it */
};

struct sim_sampler {
	double per_sec;    /* 0: by period */
	double period;     /* accesses from one sample to the next */
	double miss_share; /* of the samples that are of memory accesses; the others are thrown away */
	double loss;
	double skid;       /* share whose address is wrong */
	double skid_pages; /* by at most so many pages */
	bool slow_only;    /* hint faults, of pages on slow nodes */
};

struct sim_kernel {
	bool demotion;
	double min_percent, low_percent, high_percent; /* watermarks */
	double promo_percent;
	double move_us;      /* a page of 4 KiB */
	double move_huge_us; /* one of 2 MiB */
	double call_us;      /* a call, whatever is in it */
	double busy;         /* share of pages that can't be moved just then */
};

struct sim_scenario {
	char name[SIM_NAME_MAX]; /* of its file, without folder and ".conf" */
	char title[256];
	double seconds;
	int64_t seed;
	double step_ms;
	double threads;
	double think_ns; /* of a thread between two accesses */
	bool fair;       /* false: users get no shares, first come, first served */
	struct sim_node nodes[SIM_NODES_MAX];
	size_t n_nodes;
	struct sim_memory memories[SIM_MEMORIES_MAX];
	size_t n_memories;
	struct sim_access accesses[SIM_ACCESSES_MAX];
	size_t n_accesses;
	struct sim_sampler sampler;
	struct sim_kernel kernel;
	struct config config; /* the daemon's, in mode promote unless the scenario says otherwise */
};

/*
 * Read @path. A name without a slash that is no file is looked for in @folder, with ".conf" behind it. 0, or -errno
 * with one line in @error (SIM_ERROR_MAX bytes) that names file, line and key; @ret is then undefined.
 */
int sim_scenario_load(const char *path, const char *folder, struct sim_scenario *ret, char *error);

/* The same from memory; @name stands for the file in messages. */
int sim_scenario_parse(const char *text, const char *name, struct sim_scenario *ret, char *error);

/*
 * Set one key: "seconds", "sampler.per_sec", "accesses.hot.weight" or "nodes.0.mib" (items of a list by name or
 * number), or any option of the daemon ("promote.rate_mib_per_sec"). 0, or -EINVAL with one line in @error. Check the
 * whole when all are set.
 */
int sim_scenario_set(struct sim_scenario *scenario, const char *key, const char *value, char *error);

/* Whether it all fits together. 0, or -EINVAL with one line in @error. */
int sim_scenario_check(const struct sim_scenario *scenario, char *error);

#define SIM_USER_FIRST 100000

/* The user that @process is of: the first that one of its memories names, else one of its own. */
int64_t sim_user(const struct sim_scenario *scenario, int64_t process);
