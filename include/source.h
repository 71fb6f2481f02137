/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * source: where samples come from. A driver opens per-CPU events and hands on mapped rings; it never reads them.
 * All of it runs on the main thread; the rings are read by the readers.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sample.h"

struct budget_meter;
struct clock;
struct config;
struct ibs_decoder_params;
struct fsroot;
struct perf_ring;
struct privops;
struct topology;

/* One CPU's events: what a reader needs. Owned by the source; a reader lets go of it before it is closed. */
struct source_ring {
	int cpu;
	int fd; /* for epoll; -1: closed */
	struct perf_ring *ring;
	uint64_t sample_type; /* the layout, from attr.sample_type */
	bool sample_id_all;
	enum sample_source source;
	const struct ibs_decoder_params *ibs; /* the raw registers of an IBS unit, and how to read them; else NULL */
	uint32_t sample_flags;                /* or'ed into each sample, SAMPLE_MAYBE_FIRST_TOUCH for one */
	/*
	 * The last record that could not be taken apart, as source_ibs_record_misfit() has it; 0: none. Its reader
	 * writes, main reads, relaxed: it is shown and nothing else depends on it.
	 */
	_Atomic uint64_t misfit;
};

struct source_env {
	const struct privops *privops;
	const struct fsroot *root;
	const struct config *config;     /* as it is now */
	const struct topology *topology; /* at open */
	/* For a trial before the opening, which learns what a sample costs; NULL: none is made. */
	const struct clock *clock;
	struct budget_meter *meter;
};

#define SOURCE_DETAIL_MAX 128
#define SOURCE_WHY_MAX    256

struct source {
	const struct source_ops *ops;
	struct source_env env;
	void *state;               /* the driver's */
	struct source_ring *rings; /* indexed 0..n_rings-1, in no order of CPU; stable addresses while open */
	size_t n_rings;
	/*
	 * In plain words: what is missing or degraded, and what to do; "" when all is well. After a success it may hold
	 * a remark: what could be better without anything being wrong.
	 */
	uint64_t period;                /* that the hardware took; 0: the source has none */
	uint64_t period_min;            /* the shortest it takes, */
	uint64_t period_max;            /* and the longest; with a period only */
	uint64_t taken;                 /* samples the kernel took since the opening, read or not; 0: not known */
	uint64_t lost;                  /* of them: had no room in a ring */
	char detail[SOURCE_DETAIL_MAX]; /* what it is set to, for people; may be "" */
	char why[SOURCE_WHY_MAX];
};

struct source_ops {
	const char *name; /* as in sources = [ ... ] */
	enum sample_source id;

	/*
	 * Could this source work here and now? 0; -ENOENT (the kernel or machine has no such thing), -EACCES (no
	 * permission), -EBUSY (a setting stands in the way), -EAGAIN (someone has it just now), with one line for
	 * people in @why (SOURCE_WHY_MAX bytes) that says what to do; after 0 it is "" or says what will be degraded.
	 * Changes nothing.
	 */
	int (*probe)(const struct source_env *env, char *why);

	/* After a probe that gave 0: what it would be set to, into @detail (SOURCE_DETAIL_MAX bytes). NULL: nothing to
	 * say. */
	void (*describe)(const struct source_env *env, char *detail);

	/*
	 * Open and map one event per CPU in @source->rings, disabled. 0 or -errno with @source->why; -EPROTO when its
	 * records are not what we know, which no other try will change; all or nothing, except for CPUs offline.
	 */
	int (*open)(struct source *source);
	int (*set_period)(struct source *source, uint64_t period); /* -ENOTSUP where there is none */
	/* All events on or off. 0 or -errno of the first that failed; the others were done. */
	int (*enable)(struct source *source, bool on);
	/*
	 * A CPU came: open its ring, on if the others are. 0 with the ring in @ret; -ENOENT when it is none of those
	 * to be sampled; -EEXIST when its ring is there; -ENODEV when it is offline again; or as open. Nothing but 0
	 * touches @ret.
	 */
	int (*cpu_online)(struct source *source, int cpu, struct source_ring **ret);
	/* A CPU is going, or gone: its ring has been let go by the reader; close it. Its place in @rings stays. */
	void (*cpu_offline)(struct source *source, int cpu);
	/*
	 * Each second: look after what the source depends on (sysctls), and bring @source->taken and lost up to date.
	 * Returns 0 when well, 1 when degraded, with @source->why; -errno when it has stopped for good.
	 */
	int (*check)(struct source *source);
	void (*close)(struct source *source); /* accepts a source whose open failed; puts back settings */
};

extern const struct source_ops source_hint_faults;
extern const struct source_ops source_ibs;

/* All drivers, in the order of "auto", NULL at the end. */
extern const struct source_ops *const source_table[];

/* By name, or NULL. */
const struct source_ops *source_find(const char *name);
