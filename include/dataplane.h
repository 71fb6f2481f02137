/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * dataplane: the threads and queues from mapped rings to moved pages. Each thread is a loop round one stage's step.
 *
 *     rings - readers (one per node with CPUs) - queues - collectors - hotness - migrators (one per lower node) -
 * kernel janitor
 *
 * Owner   the main thread: every function here is its own, unless it says otherwise.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct clock;
struct config_store;
struct dataplane;
struct fsroot;
struct hotness_usage;
struct mover_ops;
struct owner;
struct source_ring;
struct stats;
struct topology;
struct topology_store;

struct dataplane_params {
	const struct config_store *config;
	const struct topology_store *topology;
	struct stats *stats;
	const struct fsroot *root;
	const struct clock *clock;
	const struct mover_ops *mover_ops;
	void *mover_ctx;
};

/*
 * Build everything for the current topology and configuration, and start the threads. 0 or -errno, with nothing left
 * running; logs what could not be had.
 */
int dataplane_start(const struct dataplane_params *params, struct dataplane **ret);

/*
 * Tell all threads to stop: no migrator starts another call after this. Then wait up to @timeout_ns and free
 * everything. Returns 0, or -ETIMEDOUT when a thread is still inside a call into the kernel: it is named in the log,
 * and its memory is left to the end of the process.
 */
void dataplane_request_stop(struct dataplane *dp);
int dataplane_stop(struct dataplane *dp, uint64_t timeout_ns);

/* Give a ring to the reader of its CPU's node; take it back, drained. */
int dataplane_add_ring(struct dataplane *dp, struct source_ring *ring);
void dataplane_remove_ring(struct dataplane *dp, struct source_ring *ring);

/* Start migrators for slow nodes that are new, stop those of nodes that are none any more. 0 or -errno (logged). */
int dataplane_follow_topology(struct dataplane *dp);

/* After the configuration changed: what isn't read at each step. */
void dataplane_follow_config(struct dataplane *dp);

/* Let migrators and who looks for cold memory rest, or go on. A call that is in the kernel is finished. */
void dataplane_hold(struct dataplane *dp, bool hold);

/* true when every thread has moved on since the last call: what the watchdog is fed by. */
bool dataplane_moves_on(struct dataplane *dp);

/* CPU time of all readers and collectors so far, in ns: what sampling costs us. */
uint64_t dataplane_sampling_cpu_ns(const struct dataplane *dp);

/* The source takes one op in @period, so a sample stands for so many accesses of its kind; 0: it has none. */
void dataplane_set_period(struct dataplane *dp, uint64_t period);

/* For the report. */
void dataplane_usage(const struct dataplane *dp, struct hotness_usage *ret, size_t *ret_owners);

/* What policy region knows. */
struct decider_view;
void dataplane_policy(const struct dataplane *dp, struct decider_view *ret);

struct holdout_view;
void dataplane_holdout(const struct dataplane *dp, struct holdout_view *ret);
struct fair_view;
/* Up to @max; returns how many. */
size_t dataplane_shares(const struct dataplane *dp, struct fair_view *ret, size_t max);
struct guard_view;
void dataplane_guard(const struct dataplane *dp, struct guard_view *ret);
struct guard_pressure_view;
/* Control groups that are held, up to @max; returns how many. */
size_t dataplane_pressure(const struct dataplane *dp, struct guard_pressure_view *ret, size_t max);
struct victims_view;
void dataplane_victims(const struct dataplane *dp, struct victims_view *ret);

struct dataplane_migrator {
	int nid;
	const char *limit;                                  /* in plain words */
	bool holds_back;                                    /* something ready was not moved */
	uint64_t in_call_since_ns;                          /* 0: not in one */
	uint64_t batch_pages, call_ns, page_ns, longest_ns; /* see struct migrator_calls */
};

/* The migrators, up to @max; returns how many. */
size_t dataplane_migrators(const struct dataplane *dp, struct dataplane_migrator *ret, size_t max);

struct dataplane_outcome {
	int from_nid, to_nid;
	uint64_t page_bytes;
	const char *result;
	uint64_t pages; /* base pages */
};

void dataplane_outcomes(const struct dataplane *dp, void (*fn)(void *ctx, const struct dataplane_outcome *outcome),
			void *ctx);

/* Hot memory that was left alone lately, about, by reason: one call of @fn for each reason that there is. */
void dataplane_left_alone(const struct dataplane *dp, void (*fn)(void *ctx, const char *reason, uint64_t bytes),
			  void *ctx);

/* Call @fn for each known process, inside a read section: it must not block. */
void dataplane_owners(const struct dataplane *dp, int (*fn)(void *ctx, struct owner *owner), void *ctx);
