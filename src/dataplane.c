/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "buffers.h"
#include "clock.h"
#include "collector.h"
#include "config.h"
#include "dataplane.h"
#include "dataplane_internal.h"
#include "decider.h"
#include "fsroot.h"
#include "hotness.h"
#include "log.h"
#include "manage.h"
#include "migrator.h"
#include "mover.h"
#include "owners.h"
#include "rcu.h"
#include "reader.h"
#include "sample_queue.h"
#include "source.h"
#include "stats.h"
#include "topology.h"
#include "waker.h"

#define COLLECTORS_MAX          64
#define DATAPLANE_MIGRATORS_MAX 256
#define CPUS_PER_COLLECTOR      32

/* A reader looks below the watermark this often: it bounds how old a sample gets on a quiet CPU. */
#define READER_TIMEOUT_MS 100
/* An idle collector wakes only to show that it lives; the readers wake it when there is work. */
#define COLLECTOR_IDLE_MS        1000
#define COLLECTOR_BUDGET_SAMPLES 4096
#define JANITOR_OWNERS_PER_STEP  256
/* Looking at processes takes at most a fifth of one CPU, and new ones wait that long for it. */
#define MANAGER_PAUSE_MS  200
#define MANAGER_BUDGET_NS (50 * NSEC_PER_MSEC)
/* Until joined threads have ended at a failed start: nothing is in the kernel yet. */
#define START_FAILED_NS (2 * NSEC_PER_SEC)

static bool stopping(const struct dataplane *dp)
{
	return atomic_load_explicit(&dp->stop, memory_order_relaxed);
}

void dataplane_doze(struct dataplane *dp, struct waker *waker, int timeout_ms)
{
	waker_prepare(waker);
	if (stopping(dp))
		waker_cancel(waker);
	else
		waker_wait(waker, timeout_ms);
}

static int reader_turn(void *ctx)
{
	struct read_thread *t = ctx;
	int r = reader_step(t->reader, READER_TIMEOUT_MS);

	return r < 0 ? r : 0;
}

static int collector_turn(void *ctx)
{
	struct collect_thread *t = ctx;
	struct dataplane *dp = t->dp;
	struct config config;

	config_store_get(dp->params.config, &config);
	if (collector_step(t->collector, &config, clock_now_ns(dp->params.clock), COLLECTOR_BUDGET_SAMPLES))
		return 0;
	waker_prepare(t->waker);
	if (stopping(dp) ||
	    collector_step(t->collector, &config, clock_now_ns(dp->params.clock), COLLECTOR_BUDGET_SAMPLES))
		waker_cancel(t->waker);
	else
		waker_wait(t->waker, COLLECTOR_IDLE_MS);
	return 0;
}

static int migrator_turn(void *ctx)
{
	struct migrate_thread *t = ctx;
	struct dataplane *dp = t->dp;
	struct migrator_pass_result result;
	int r;

	config_store_get(dp->params.config, &t->config);
	if (atomic_load_explicit(&dp->held, memory_order_relaxed)) {
		dataplane_doze(dp, t->waker, (int)t->config.promote_scan_sleep_ms);
		return 0;
	}
	r = migrator_pass(t->migrator, &t->config, clock_now_ns(dp->params.clock), &result);
	if (r < 0 && !t->failed)
		log_warning("node %d: a pass failed (%s); pages stay where they are, trying again each %lld ms",
			    migrator_nid(t->migrator), strerror(-r), (long long)t->config.promote_scan_sleep_ms);
	t->failed = r < 0;
	dataplane_doze(dp, t->waker,
		       r < 0 ? (int)t->config.promote_scan_sleep_ms : (int)migrator_pause_ms(&t->config, &result));
	return 0;
}

static int janitor_turn(void *ctx)
{
	struct dataplane *dp = ctx;

	owners_sweep(dp->owners, JANITOR_OWNERS_PER_STEP);
	hotness_janitor(dp->hotness, clock_now_ns(dp->params.clock), HOTNESS_COLD_NS, dp->janitor_stats);
	stats_add(dp->janitor_stats, STAT_OWNERS_GONE, owners_reap(dp->owners));
	dataplane_doze(dp, dp->janitor_waker, HOTNESS_JANITOR_MS);
	return 0;
}

static int manager_turn(void *ctx)
{
	struct dataplane *dp = ctx;
	struct config config;

	config_store_get(dp->params.config, &config);
	manage_step(dp->manage, &config, MANAGER_BUDGET_NS, &dp->stop);
	dataplane_doze(dp, dp->manager_waker, MANAGER_PAUSE_MS);
	return 0;
}

/* Start the thread in @worker as @name and @id: pinned to @cpus, or anywhere with "". */
static int start_worker(struct worker *worker, const char *cpus, int (*turn)(void *), void *ctx, const char *name,
			int id)
{
	int r;

	*worker = (struct worker){ .cpus = cpus, .step = turn, .ctx = ctx };
	/* Node ids end at 1023, and the kernel keeps 15 characters. */
	snprintf(worker->name, sizeof(worker->name), "%.11s%u", name, (unsigned int)id % 10000u);
	r = worker_start(worker);
	if (r < 0)
		log_error("cannot start thread %s: %s", worker->name, strerror(-r));
	return r;
}

static int make_hotness(struct dataplane *dp, const struct config *config, const struct topology *topology)
{
	struct hotness_options options = {
		.layout = config->records == RECORDS_COMPACT ? RECORD_COMPACT : RECORD_PRECISE,
		.shards = (unsigned int)dp->n_collectors,
		.memory_max_bytes = (uint64_t)config->memory_max_mib << 20,
		.section_bytes = topology->block_bytes ? topology->block_bytes : 128ULL << 20,
		.nodes = nodeset_is_empty(&topology->lower) ? NULL : &topology->top,
	};

	dp->owners = owners_new(dp->params.root, (uint32_t)getpid());
	if (!dp->owners)
		return -ENOMEM;
	dp->hotness = hotness_new(&options, dp->owners);
	if (!dp->hotness)
		return -errno;
	dp->decider = decider_new(dp->hotness);
	dp->manage = manage_new(dp->owners, dp->params.root, dp->params.clock, dp->params.topology);
	return dp->decider && dp->manage ? dataplane_room_make(dp) : -ENOMEM;
}

static int make_collectors(struct dataplane *dp, const struct config *config)
{
	size_t n_queues = dp->n_readers * dp->n_collectors;

	dp->queues = calloc(n_queues, sizeof(*dp->queues));
	dp->collectors = calloc(dp->n_collectors, sizeof(*dp->collectors));
	if (!dp->queues || !dp->collectors)
		return -ENOMEM;
	for (size_t i = 0; i < n_queues; i++) {
		dp->queues[i] =
			sample_queue_new(buffers_queue_samples((uint64_t)config->threads_queue_samples, n_queues));
		if (!dp->queues[i])
			return -ENOMEM;
	}
	for (size_t c = 0; c < dp->n_collectors; c++) {
		struct collect_thread *t = &dp->collectors[c];
		struct sample_queue *mine[NODE_MAX];
		struct collector_params params = {
			.shard = (unsigned int)c,
			.hotness = dp->hotness,
			.owners = dp->owners,
			.topology = dp->params.topology,
			.stats = stats_slot_new(dp->params.stats),
			.queues = mine,
			.n_queues = dp->n_readers,
			.holdout = dp->room.holdout,
		};

		for (size_t i = 0; i < dp->n_readers; i++)
			mine[i] = dp->queues[i * dp->n_collectors + c];
		t->dp = dp;
		if (!params.stats)
			return -ENOMEM;
		t->waker = waker_new();
		if (!t->waker)
			return -errno;
		t->collector = collector_new(&params);
		if (!t->collector)
			return -ENOMEM;
	}
	return 0;
}

static int make_readers(struct dataplane *dp, const struct topology *topology)
{
	struct waker *wakers[COLLECTORS_MAX];
	size_t r = 0;

	for (size_t c = 0; c < dp->n_collectors; c++)
		wakers[c] = dp->collectors[c].waker;
	for (size_t i = 0; i < topology->n_nodes && r < dp->n_readers; i++) {
		struct read_thread *t = &dp->readers[r];
		struct reader_params params = {
			.nid = topology->nodes[i].nid,
			.stats = stats_slot_new(dp->params.stats),
			.queues = &dp->queues[r * dp->n_collectors],
			.wakers = wakers,
			.shards = (unsigned int)dp->n_collectors,
			.self_pid = (uint32_t)getpid(),
		};

		if (!topology->nodes[i].has_cpu)
			continue;
		if (!params.stats)
			return -ENOMEM;
		t->dp = dp;
		t->nid = params.nid;
		t->reader = reader_new(&params);
		if (!t->reader)
			return -errno;
		r++;
	}
	return 0;
}

static int start_threads(struct dataplane *dp)
{
	int r = 0;

	dp->janitor_stats = stats_slot_new(dp->params.stats);
	if (!dp->janitor_stats)
		return -ENOMEM;
	dp->janitor_waker = waker_new();
	dp->manager_waker = dp->janitor_waker ? waker_new() : NULL;
	dp->watcher_waker = dp->manager_waker ? waker_new() : NULL;
	if (!dp->watcher_waker)
		return -errno;
	for (size_t i = 0; i < dp->n_collectors && r == 0; i++)
		r = start_worker(&dp->collectors[i].worker, "", collector_turn, &dp->collectors[i], "pghot-coll",
				 (int)i);
	for (size_t i = 0; i < dp->n_readers && r == 0; i++) {
		struct read_thread *t = &dp->readers[i];

		/* A list too long for the buffer leaves the thread unpinned: only locality is lost. */
		if (fsroot_read(dp->params.root, t->cpus, sizeof(t->cpus), "sys/devices/system/node/node%d/cpulist",
				t->nid) < 0)
			t->cpus[0] = '\0';
		r = start_worker(&t->worker, t->cpus, reader_turn, t, "pghot-read", t->nid);
	}
	if (r == 0)
		r = start_worker(&dp->janitor, "", janitor_turn, dp, "pghot-tidy", 0);
	if (r == 0)
		r = start_worker(&dp->manager, "", manager_turn, dp, "pghot-look", 0);
	if (r == 0)
		r = start_worker(&dp->watcher, "", dataplane_room_turn, dp, "pghot-cold", 0);
	return r;
}

static void migrate_thread_free(struct migrate_thread *t)
{
	if (!t)
		return;
	migrator_free(t->migrator);
	waker_free(t->waker);
	free(t);
}

static int add_migrator(struct dataplane *dp, int nid, unsigned int part, unsigned int parts)
{
	struct migrator_params params = {
		.nid = nid,
		.part = part,
		.parts = parts,
		.hotness = dp->hotness,
		.owners = dp->owners,
		.manage = dp->manage,
		.topology = dp->params.topology,
		.root = *dp->params.root,
		.mover_ops = dp->params.mover_ops,
		.mover_ctx = dp->params.mover_ctx,
		.clock = dp->params.clock,
		.stats = stats_slot_new(dp->params.stats),
		.stop = &dp->stop,
		.fair = dp->room.fair,
		.guard = dp->room.guard,
		.accesses = &dp->room.accesses,
		.pressure = dp->room.pressure,
		.victims = dp->room.victims,
		.decider = dp->decider,
	};
	struct migrate_thread *t;
	int r = -ENOMEM;

	if (dp->n_migrators == DATAPLANE_MIGRATORS_MAX)
		return -ENOSPC;
	t = calloc(1, sizeof(*t));
	if (!t || !params.stats)
		goto fail;
	t->dp = dp;
	t->part = part;
	t->migrator = migrator_new(&params);
	if (!t->migrator)
		goto fail;
	t->waker = waker_new();
	if (!t->waker) {
		r = -errno;
		goto fail;
	}
	r = start_worker(&t->worker, "", migrator_turn, t, "pghot-move", nid);
	if (r < 0)
		goto fail;
	dp->migrators[dp->n_migrators++] = t;
	return 0;
fail:
	migrate_thread_free(t);
	return r;
}

/* Its node is no slow node any more, so no page is left to move: it ends within a scan sleep. */
static void drop_migrator(struct dataplane *dp, size_t i)
{
	struct migrate_thread *t = dp->migrators[i];

	worker_request_stop(&t->worker);
	waker_wake(t->waker);
	if (worker_join(&t->worker, START_FAILED_NS) < 0) {
		/* Still inside the kernel: try again at the next change. */
		return;
	}
	migrate_thread_free(t);
	dp->migrators[i] = dp->migrators[--dp->n_migrators];
}

static bool has_migrator(const struct dataplane *dp, int nid, unsigned int part)
{
	for (size_t i = 0; i < dp->n_migrators; i++)
		if (migrator_nid(dp->migrators[i]->migrator) == nid && dp->migrators[i]->part == part)
			return true;
	return false;
}

int dataplane_follow_topology(struct dataplane *dp)
{
	struct topology *topology = topology_store_get(dp->params.topology);
	struct config config;
	int r = 0;

	config_store_get(dp->params.config, &config);
	for (size_t i = dp->n_migrators; i-- > 0;)
		if (!nodeset_has(&topology->lower, migrator_nid(dp->migrators[i]->migrator)))
			drop_migrator(dp, i);
	nodeset_for_each (nid, &topology->lower)
		for (unsigned int part = 0; part < config.threads_migrators_per_node && r == 0; part++)
			if (!has_migrator(dp, nid, part))
				r = add_migrator(dp, nid, part, (unsigned int)config.threads_migrators_per_node);
	topology_unref(topology);
	return r;
}

void dataplane_hold(struct dataplane *dp, bool hold)
{
	atomic_store_explicit(&dp->held, hold, memory_order_relaxed);
}

void dataplane_follow_config(struct dataplane *dp)
{
	struct config config;

	config_store_get(dp->params.config, &config);
	hotness_set_memory_max(dp->hotness, (uint64_t)config.memory_max_mib << 20);
}

static size_t count_collectors(const struct config *config)
{
	long cpus = sysconf(_SC_NPROCESSORS_CONF);
	size_t n = (size_t)config->threads_collectors;

	if (n == 0)
		n = cpus > 0 ? ((size_t)cpus + CPUS_PER_COLLECTOR - 1) / CPUS_PER_COLLECTOR : 1;
	return n < COLLECTORS_MAX ? n : COLLECTORS_MAX;
}

int dataplane_start(const struct dataplane_params *params, struct dataplane **ret)
{
	struct dataplane *dp = calloc(1, sizeof(*dp));
	struct topology *topology;
	struct config config;
	int r;

	if (!dp)
		return -ENOMEM;
	dp->params = *params;
	topology = topology_store_get(params->topology);
	config_store_get(params->config, &config);
	dp->n_collectors = count_collectors(&config);
	for (size_t i = 0; i < topology->n_nodes; i++)
		dp->n_readers += topology->nodes[i].has_cpu;
	dp->readers = calloc(dp->n_readers ? dp->n_readers : 1, sizeof(*dp->readers));
	r = dp->readers ? make_hotness(dp, &config, topology) : -ENOMEM;
	if (r == 0)
		r = make_collectors(dp, &config);
	if (r == 0)
		r = make_readers(dp, topology);
	if (r == 0)
		r = start_threads(dp);
	topology_unref(topology);
	if (r == 0)
		r = dataplane_follow_topology(dp);
	if (r < 0) {
		log_error("cannot set up the threads and tables: %s", strerror(-r));
		dataplane_stop(dp, START_FAILED_NS);
		return r;
	}
	*ret = dp;
	return 0;
}

void dataplane_request_stop(struct dataplane *dp)
{
	atomic_store_explicit(&dp->stop, true, memory_order_relaxed);
	for (size_t i = 0; i < dp->n_migrators; i++) {
		worker_request_stop(&dp->migrators[i]->worker);
		waker_wake(dp->migrators[i]->waker);
	}
	for (size_t i = 0; dp->collectors && i < dp->n_collectors; i++) {
		worker_request_stop(&dp->collectors[i].worker);
		if (dp->collectors[i].waker)
			waker_wake(dp->collectors[i].waker);
	}
	for (size_t i = 0; dp->readers && i < dp->n_readers; i++)
		worker_request_stop(&dp->readers[i].worker);
	worker_request_stop(&dp->janitor);
	if (dp->janitor_waker)
		waker_wake(dp->janitor_waker);
	worker_request_stop(&dp->manager);
	if (dp->manager_waker)
		waker_wake(dp->manager_waker);
	worker_request_stop(&dp->watcher);
	if (dp->watcher_waker)
		waker_wake(dp->watcher_waker);
}

/* Join one thread by @deadline_ns; true when it has ended (or never was). @doing: what holds it, if that is known. */
static bool join_by(const struct dataplane *dp, struct worker *worker, uint64_t deadline_ns, const char *doing)
{
	uint64_t now_ns = clock_now_ns(dp->params.clock);

	if (worker_join(worker, deadline_ns > now_ns ? deadline_ns - now_ns : 0) == 0)
		return true;
	log_warning("thread %s has not ended in time%s; leaving without it", worker->name, doing);
	return false;
}

static bool join_migrator(const struct dataplane *dp, struct migrate_thread *t, uint64_t deadline_ns)
{
	bool in_call = migrator_in_call_since_ns(t->migrator) != 0;

	return join_by(dp, &t->worker, deadline_ns, in_call ? ": it is in a move_pages() call of the kernel's" : "");
}

static void dataplane_free(struct dataplane *dp)
{
	for (size_t i = 0; i < dp->n_migrators; i++)
		migrate_thread_free(dp->migrators[i]);
	for (size_t i = 0; dp->readers && i < dp->n_readers; i++)
		reader_free(dp->readers[i].reader);
	for (size_t i = 0; dp->collectors && i < dp->n_collectors; i++) {
		collector_free(dp->collectors[i].collector);
		waker_free(dp->collectors[i].waker);
	}
	for (size_t i = 0; dp->queues && i < dp->n_readers * dp->n_collectors; i++)
		sample_queue_free(dp->queues[i]);
	waker_free(dp->janitor_waker);
	waker_free(dp->manager_waker);
	waker_free(dp->watcher_waker);
	room_done(&dp->room);
	manage_free(dp->manage);
	decider_free(dp->decider);
	hotness_free(dp->hotness);
	owners_free(dp->owners);
	free(dp->queues);
	free(dp->collectors);
	free(dp->readers);
	free(dp);
}

int dataplane_stop(struct dataplane *dp, uint64_t timeout_ns)
{
	uint64_t deadline_ns;
	bool ended = true;

	if (!dp)
		return 0;
	deadline_ns = clock_now_ns(dp->params.clock) + timeout_ns;
	dataplane_request_stop(dp);
	for (size_t i = 0; dp->readers && i < dp->n_readers; i++)
		ended &= join_by(dp, &dp->readers[i].worker, deadline_ns, "");
	for (size_t i = 0; dp->collectors && i < dp->n_collectors; i++)
		ended &= join_by(dp, &dp->collectors[i].worker, deadline_ns, "");
	ended &= join_by(dp, &dp->janitor, deadline_ns, "");
	ended &= join_by(dp, &dp->manager, deadline_ns,
			 dp->manage && manage_is_reading(dp->manage) ? ": it is reading files of a process" : "");
	ended &= join_by(dp, &dp->watcher, deadline_ns, "");
	for (size_t i = 0; i < dp->n_migrators; i++)
		ended &= join_migrator(dp, dp->migrators[i], deadline_ns);
	if (!ended)
		return -ETIMEDOUT;
	dataplane_free(dp);
	return 0;
}

static struct reader *reader_of(struct dataplane *dp, int cpu)
{
	struct topology *topology = topology_store_get(dp->params.topology);
	int nid = topology_cpu_node(topology, cpu);

	topology_unref(topology);
	for (size_t i = 0; i < dp->n_readers; i++)
		if (dp->readers[i].nid == nid)
			return dp->readers[i].reader;
	/* A node that got its first CPU after the start: any reader will do, only locality is lost. */
	return dp->n_readers ? dp->readers[0].reader : NULL;
}

int dataplane_add_ring(struct dataplane *dp, struct source_ring *ring)
{
	struct reader *reader = reader_of(dp, ring->cpu);

	return reader ? reader_add_ring(reader, ring) : -ENODEV;
}

void dataplane_remove_ring(struct dataplane *dp, struct source_ring *ring)
{
	/* The CPU may have changed its node since: whoever has it lets go, the others don't know it. */
	for (size_t i = 0; i < dp->n_readers; i++)
		reader_remove_ring(dp->readers[i].reader, ring);
}

static bool moved_on(const struct worker *worker, uint64_t *last_beats)
{
	uint64_t beats = worker_beats(worker);
	bool on = beats != *last_beats;

	*last_beats = beats;
	return on;
}

bool dataplane_moves_on(struct dataplane *dp)
{
	bool on = true;

	for (size_t i = 0; i < dp->n_readers; i++)
		on &= moved_on(&dp->readers[i].worker, &dp->readers[i].last_beats);
	for (size_t i = 0; i < dp->n_collectors; i++)
		on &= moved_on(&dp->collectors[i].worker, &dp->collectors[i].last_beats);
	for (size_t i = 0; i < dp->n_migrators; i++)
		on &= moved_on(&dp->migrators[i]->worker, &dp->migrators[i]->last_beats);
	on &= moved_on(&dp->janitor, &dp->janitor_beats);
	/* The memory of a process of many hundred GiB takes the kernel long to walk. */
	on &= moved_on(&dp->manager, &dp->manager_beats) || manage_is_reading(dp->manage);
	on &= moved_on(&dp->watcher, &dp->watcher_beats);
	return on;
}
