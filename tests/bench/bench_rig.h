/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * bench_rig: a made-up machine with one fast and one slow node, and the tables, collectors and queues over it, as the
 * daemon has them. Page i of the one process (from ADDR on) is page i of the slow node.
 */
#pragma once

#include "bench.h"

#include "clock.h"
#include "collector.h"
#include "config.h"
#include "hotness.h"
#include "owners.h"
#include "rcu.h"
#include "sample.h"
#include "sample_queue.h"
#include "stats.h"
#include "topology.h"

#include "../unit/machine.h"

#define RIG_PID         100
#define RIG_ADDR        0x7f0000000000ULL
#define RIG_BLOCK_BYTES (2ULL << 30)    /* a memory block, as large machines have them */
#define RIG_SLOW_BYTES  RIG_BLOCK_BYTES /* where the slow node begins */
#define RIG_SHARDS_MAX  64
#define RIG_QUEUE       4096 /* samples; the default of threads.queue_samples */

struct rig_options {
	enum record_layout layout;
	uint64_t pages; /* of the slow node */
	uint64_t section_bytes;
	unsigned int shards;
};

struct rig {
	uint64_t pages;
	unsigned int shards;
	struct machine machine;
	struct topology_store *topology;
	struct owners *owners;
	struct hotness *hotness;
	struct stats *stats;
	struct stats_slot *janitor_stats;
	struct sample_queue *queue[RIG_SHARDS_MAX];
	struct collector *collector[RIG_SHARDS_MAX];
	struct config config;
	uint64_t behind_ns; /* of the tables' clock, which stands still while they are filled */
};

static void rig_put_machine(struct rig *rig)
{
	struct machine *m = &rig->machine;
	uint64_t blocks = (rig->pages * PAGE_SIZE_BYTES + RIG_BLOCK_BYTES - 1) / RIG_BLOCK_BYTES;

	machine_new(m);
	machine_put(m, "sys/devices/system/node/online", "0-1");
	machine_put(m, "sys/devices/system/node/has_cpu", "0");
	machine_put(m, "sys/devices/system/node/has_memory", "0-1");
	machine_put(m, "sys/devices/system/memory/block_size_bytes", "%llx", RIG_BLOCK_BYTES);
	for (int nid = 0; nid < 2; nid++) {
		char path[128];

		snprintf(path, sizeof(path), "sys/devices/system/node/node%d/meminfo", nid);
		machine_put(m, path, "Node %d MemTotal:       %llu kB", nid, RIG_BLOCK_BYTES >> 10);
		snprintf(path, sizeof(path), "sys/devices/system/node/node%d/distance", nid);
		machine_put(m, path, nid ? "20 10" : "10 20");
		snprintf(path, sizeof(path), "sys/devices/system/node/node%d/cpulist", nid);
		machine_put(m, path, nid ? "" : "0-1");
	}
	machine_block(m, 0, 0, "online");
	for (uint64_t block = 1; block <= blocks; block++)
		machine_block(m, block, 1, "online");
	machine_put(m, "proc/100/stat",
		    "100 (bench) S 1 1 1 0 -1 4194560 1 0 0 0 1 1 0 0 20 0 1 0 5 1000000 100 18446744073709551615 1 1 "
		    "0");
}

/* The calling thread is registered with rcu. */
BENCH_UNUSED static void rig_init(struct rig *rig, const struct rig_options *options)
{
	struct topology_options tiers = { .tiers = { "0", "1" }, .n_tiers = 2, .target_nid = -1 };
	struct hotness_options tables = {
		.layout = options->layout,
		.shards = options->shards,
		.memory_max_bytes = 16ULL << 30,
		.section_bytes = options->section_bytes,
	};
	struct topology *topology;
	char error[256] = "";

	*rig = (struct rig){ .pages = options->pages, .shards = options->shards };
	rig_put_machine(rig);
	if (topology_read(&rig->machine.root, &tiers, &topology, error, sizeof(error)) < 0)
		bench_die("the made-up machine can't be read: %s", error);
	config_defaults(&rig->config);
	rig->topology = topology_store_new(topology);
	rig->owners = owners_new(&rig->machine.root, 1);
	rig->hotness = rig->owners ? hotness_new(&tables, rig->owners) : NULL;
	rig->stats = stats_new();
	rig->janitor_stats = rig->stats ? stats_slot_new(rig->stats) : NULL;
	if (!rig->topology || !rig->hotness || !rig->janitor_stats)
		bench_die("not enough memory");
	for (unsigned int i = 0; i < rig->shards; i++) {
		struct collector_params params = { .shard = i,
						   .hotness = rig->hotness,
						   .owners = rig->owners,
						   .topology = rig->topology,
						   .stats = stats_slot_new(rig->stats),
						   .queues = &rig->queue[i],
						   .n_queues = 1 };

		rig->queue[i] = sample_queue_new(RIG_QUEUE);
		rig->collector[i] = rig->queue[i] && params.stats ? collector_new(&params) : NULL;
		if (!rig->collector[i])
			bench_die("not enough memory");
	}
}

BENCH_UNUSED static void rig_done(struct rig *rig)
{
	for (unsigned int i = 0; i < rig->shards; i++) {
		collector_free(rig->collector[i]);
		sample_queue_free(rig->queue[i]);
	}
	hotness_free(rig->hotness);
	owners_free(rig->owners);
	topology_store_free(rig->topology);
	stats_free(rig->stats);
	machine_free(&rig->machine);
}

static inline struct sample rig_sample(uint64_t page, uint64_t now_ns)
{
	return (struct sample){
		.time_ns = now_ns,
		.addr = RIG_ADDR + page * PAGE_SIZE_BYTES,
		.phys = RIG_SLOW_BYTES + page * PAGE_SIZE_BYTES,
		.pid = RIG_PID,
		.page_shift = PAGE_SHIFT,
		.source = SAMPLE_SOURCE_IBS,
		.flags = SAMPLE_LOAD,
	};
}

static inline unsigned int rig_shard(const struct rig *rig, uint64_t page)
{
	return hotness_shard(RIG_PID, RIG_ADDR + page * PAGE_SIZE_BYTES, rig->shards);
}

/* The time that samples have. */
static inline uint64_t rig_now_ns(const struct rig *rig)
{
	return bench_now_ns() - rig->behind_ns;
}

/* Every page is sampled once, region after region; then what the growing left behind is freed. */
BENCH_UNUSED static void rig_fill(struct rig *rig)
{
	/* However long it takes, nothing gets old by it. */
	const uint64_t now_ns = bench_now_ns();
	struct hotness_usage tables;

	for (uint64_t page = 0; page < rig->pages; page += 64) {
		unsigned int shard = rig_shard(rig, page);

		for (uint64_t i = 0; i < 64; i++) {
			struct sample sample = rig_sample(page + i, now_ns);

			if (sample_queue_push(rig->queue[shard], &sample) < 0)
				abort();
		}
		collector_step(rig->collector[shard], &rig->config, now_ns, 64);
	}
	hotness_janitor(rig->hotness, now_ns, UINT64_MAX, rig->janitor_stats);
	rig->behind_ns = bench_now_ns() - now_ns;
	hotness_usage(rig->hotness, &tables);
	if (tables.records != rig->pages)
		bench_die("the tables hold %llu of %llu pages: not enough memory", (unsigned long long)tables.records,
			  (unsigned long long)rig->pages);
}
