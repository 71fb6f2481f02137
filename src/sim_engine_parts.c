/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collector.h"
#include "decider.h"
#include "hotness.h"
#include "hotness_regions.h"
#include "migrator.h"
#include "owners.h"
#include "rcu.h"
#include "sample.h"
#include "sample_queue.h"
#include "sim_engine_internal.h"
#include "stats.h"
#include "topology.h"

#define QUEUE_SAMPLES 4096

static uint64_t now_ns(void *ctx)
{
	const struct sim_engine *e = ctx;

	return e->now_ns;
}

static int make_hotness(struct sim_engine *e, const struct topology *topology)
{
	const struct config *config = &e->scenario->config;
	struct hotness_options options = {
		.layout = config->records == RECORDS_COMPACT ? RECORD_COMPACT : RECORD_PRECISE,
		.shards = 1,
		.memory_max_bytes = (uint64_t)config->memory_max_mib << 20,
		.section_bytes = topology->block_bytes ? topology->block_bytes : SIM_BLOCK_BYTES,
	};

	e->owners = owners_new(&e->machine.root, 1);
	if (!e->owners)
		return -ENOMEM;
	e->hotness = hotness_new(&options, e->owners);
	if (!e->hotness)
		return -errno;
	e->decider = decider_new(e->hotness);
	e->seen_decision = calloc(e->place.regions, sizeof(*e->seen_decision));
	e->views = calloc(e->place.regions, sizeof(*e->views));
	return e->decider && e->seen_decision && e->views ? 0 : -ENOMEM;
}

static uint64_t user_of(void *ctx, const struct owner *owner)
{
	const struct sim_engine *e = ctx;

	return (uint64_t)sim_user(e->scenario, sim_machine_process(owner->pid)) + 1;
}

static int make_room(struct sim_engine *e)
{
	const struct room_params params = {
		.hotness = e->hotness,
		.owners = e->owners,
		.topology = e->topology,
		.root = e->machine.root,
		.mover_ops = &sim_kernel_mover_ops,
		.mover_ctx = &e->kernel,
		.clock = &e->clock,
		.stats = e->stats,
		.decider = e->decider,
		.collectors = 1,
		.party_of = e->scenario->fair ? user_of : NULL,
		.party_ctx = e,
	};
	int r = room_make(&e->room, &params);

	/* All threads do nothing but wait for memory. */
	atomic_store_explicit(&e->room.accesses.busy_ms_per_sec, (uint64_t)e->scenario->threads * 1000,
			      memory_order_relaxed);
	atomic_store_explicit(&e->room.accesses.cpu_khz, (uint64_t)(SIM_CYCLES_PER_NS * 1e6), memory_order_relaxed);
	return r;
}

static int make_collector(struct sim_engine *e)
{
	struct collector_params params = {
		.hotness = e->hotness,
		.owners = e->owners,
		.topology = e->topology,
		.stats = e->stats_slot,
		.queues = &e->queue,
		.n_queues = 1,
		.holdout = e->room.holdout,
	};

	e->queue = sample_queue_new(QUEUE_SAMPLES);
	e->collector = e->queue ? collector_new(&params) : NULL;
	return e->collector ? 0 : -ENOMEM;
}

static int add_migrator(struct sim_engine *e, int nid, unsigned int part, unsigned int parts)
{
	struct migrator_params params = {
		.nid = nid,
		.part = part,
		.parts = parts,
		.hotness = e->hotness,
		.owners = e->owners,
		.topology = e->topology,
		.root = e->machine.root,
		.mover_ops = &sim_kernel_mover_ops,
		.mover_ctx = &e->kernel,
		.clock = &e->clock,
		.stats = e->stats_slot,
		.fair = e->room.fair,
		.guard = e->room.guard,
		.accesses = &e->room.accesses,
		.pressure = e->room.pressure,
		.victims = e->room.victims,
		.decider = e->decider,
	};

	if (e->n_migrators == SIM_MIGRATORS_MAX)
		return -ENOSPC;
	e->migrators[e->n_migrators] = migrator_new(&params);
	if (!e->migrators[e->n_migrators])
		return -ENOMEM;
	e->pass_ns[e->n_migrators++] = e->start_ns;
	return 0;
}

static int make_migrators(struct sim_engine *e, const struct topology *topology)
{
	unsigned int parts = (unsigned int)e->scenario->config.threads_migrators_per_node;
	int r = 0;

	nodeset_for_each (nid, &topology->lower)
		for (unsigned int part = 0; part < parts && r == 0; part++)
			r = add_migrator(e, nid, part, parts);
	return r;
}

static int read_topology(struct sim_engine *e, struct topology **ret, char *error)
{
	const struct config *config = &e->scenario->config;
	struct topology_options options = { .n_tiers = config->tiers.n, .target_nid = (int)config->target_nid };

	for (int i = 0; i < config->tiers.n; i++)
		options.tiers[i] = config->tiers.item[i];
	return topology_read(&e->machine.root, &options, ret, error, SIM_ERROR_MAX);
}

static int make_daemon(struct sim_engine *e, char *error)
{
	struct topology *topology = NULL;
	int r;

	e->clock = (struct clock){ now_ns, e };
	e->stats = stats_new();
	e->stats_slot = e->stats ? stats_slot_new(e->stats) : NULL;
	if (!e->stats_slot)
		return -ENOMEM;
	r = read_topology(e, &topology, error);
	if (r < 0)
		return r;
	e->topology = topology_store_new(topology);
	if (!e->topology) {
		topology_unref(topology);
		return -ENOMEM;
	}
	r = make_hotness(e, topology);
	if (r == 0)
		r = make_room(e);
	if (r == 0)
		r = make_collector(e);
	if (r == 0)
		r = make_migrators(e, topology);
	return r;
}

int sim_engine_make(struct sim_engine *e, char *error)
{
	int r;

	error[0] = '\0';
	rcu_thread_start();
	r = sim_place_init(&e->place, e->scenario, error);
	if (r == 0) {
		e->counts = calloc(e->place.pages, sizeof(*e->counts));
		r = e->counts ? sim_machine_init(&e->machine, &e->place) : -ENOMEM;
	}
	if (r == 0)
		r = make_daemon(e, error);
	if (r < 0 && !error[0])
		snprintf(error, SIM_ERROR_MAX, "%s: cannot set up the simulation: %s", e->scenario->name, strerror(-r));
	sim_sampler_init(&e->sampler, &e->place);
	return r;
}

void sim_engine_done(struct sim_engine *e)
{
	for (size_t i = 0; i < e->n_migrators; i++)
		migrator_free(e->migrators[i]);
	collector_free(e->collector);
	room_done(&e->room);
	sample_queue_free(e->queue);
	decider_free(e->decider);
	hotness_free(e->hotness);
	owners_free(e->owners);
	topology_store_free(e->topology);
	stats_free(e->stats);
	sim_machine_free(&e->machine);
	sim_place_free(&e->place);
	free(e->counts);
	free(e->seen_decision);
	free(e->views);
	rcu_thread_stop();
}
