/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * collector: takes samples from its queues into hotness, in batches. Samples are dealt to collectors by region, so a
 * region has one writer. A step never blocks except for the first sample of a new process (one read of /proc/PID/stat).
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct collector;
struct config;
struct hotness;
struct holdout;
struct owners;
struct sample_queue;
struct stats_slot;
struct topology_store;

#define COLLECTOR_BATCH_SAMPLES 256 /* each batch begins and ends with waits that hide behind nothing */

struct collector_params {
	unsigned int shard;
	struct hotness *hotness;
	struct owners *owners;
	const struct topology_store *topology;
	struct stats_slot *stats;
	struct sample_queue **queues; /* one of each reader; the array is copied */
	size_t n_queues;
	struct holdout *holdout; /* shared by all collectors; NULL: nothing is compared */
};

struct collector *collector_new(const struct collector_params *params); /* NULL: no memory */
void collector_free(struct collector *collector);

/*
 * One round over all queues, at most @budget samples. Returns how many were taken; 0 means all queues were empty.
 * @config gives threshold and window. The collector's own thread, registered with rcu, outside a read section.
 */
size_t collector_step(struct collector *collector, const struct config *config, uint64_t now_ns, size_t budget);
