/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * hotness_rig: a machine in a folder with processes, the tables over it, and a clock that the test turns. Node 0 is
 * fast and has the CPU, nodes 1 and 2 are slow, node 3 is in no tier; node n holds the physical memory from n * 4 GiB
 * on.
 */
#pragma once

#include <stdatomic.h>
#include <string.h>

#include "clock.h"
#include "hotness.h"
#include "machine.h"
#include "owners.h"
#include "rcu.h"
#include "sample.h"
#include "stats.h"
#include "tablemem.h"
#include "topology.h"

#define RIG_UNUSED     __attribute__((unused))
#define RIG_NODE_BYTES (4ULL << 30)
#define RIG_BLOCK      MACHINE_BLOCK_BYTES
#define RIG_ADDR       0x7f0000000000ULL
#define MIB            (1ULL << 20)
#define SEC            NSEC_PER_SEC

struct rig {
	struct machine machine;
	struct topology *topology;
	struct owners *owners;
	struct hotness *hotness;
	struct stats *stats;
	struct stats_slot *slot;
	struct record_rule rule;
	uint64_t now_ns;
	uint32_t flags;
	uint8_t page_shift;
};

/* Memory that a test counts and refuses. */
struct rig_memory {
	_Atomic int64_t fail_after; /* allocations that succeed; below 0: all */
	_Atomic bool once;          /* one fails, and then none */
	_Atomic uint64_t calls;     /* that could have failed */
	_Atomic int64_t bytes;      /* taken and not given back */
};

static bool rig_refuses(struct rig_memory *memory)
{
	atomic_fetch_add(&memory->calls, 1);
	if (atomic_load(&memory->fail_after) < 0)
		return false;
	if (atomic_load(&memory->fail_after) == 0) {
		if (atomic_load(&memory->once))
			atomic_store(&memory->fail_after, -1);
		return true;
	}
	atomic_fetch_sub(&memory->fail_after, 1);
	return false;
}

static void *rig_alloc(void *ctx, size_t bytes)
{
	struct rig_memory *memory = ctx;

	if (rig_refuses(memory))
		return NULL;
	atomic_fetch_add(&memory->bytes, (int64_t)bytes);
	return tablemem_libc.alloc(NULL, bytes);
}

static void rig_dealloc(void *ctx, void *p, size_t bytes)
{
	struct rig_memory *memory = ctx;

	atomic_fetch_sub(&memory->bytes, (int64_t)bytes);
	tablemem_libc.free(NULL, p, bytes);
}

static void *rig_reserve(void *ctx, size_t bytes)
{
	struct rig_memory *memory = ctx;

	if (rig_refuses(memory))
		return NULL;
	atomic_fetch_add(&memory->bytes, (int64_t)bytes);
	return tablemem_libc.reserve(NULL, bytes);
}

static void rig_unreserve(void *ctx, void *p, size_t bytes)
{
	struct rig_memory *memory = ctx;

	atomic_fetch_sub(&memory->bytes, (int64_t)bytes);
	tablemem_libc.unreserve(NULL, p, bytes);
}

static void rig_discard(void *ctx, void *p, size_t bytes)
{
	(void)ctx;
	tablemem_libc.discard(NULL, p, bytes);
}

RIG_UNUSED static struct tablemem_ops rig_memory_ops(struct rig_memory *memory)
{
	*memory = (struct rig_memory){ .fail_after = -1 };
	return (struct tablemem_ops){ .alloc = rig_alloc,
				      .free = rig_dealloc,
				      .reserve = rig_reserve,
				      .unreserve = rig_unreserve,
				      .discard = rig_discard,
				      .ctx = memory };
}

RIG_UNUSED static void rig_put_process(const struct rig *rig, uint32_t pid, const char *comm, char state,
				       unsigned int flags, unsigned long long start_ticks)
{
	machine_process(&rig->machine, pid, comm, state, flags, start_ticks);
}

RIG_UNUSED static void rig_end_process(const struct rig *rig, uint32_t pid)
{
	machine_end_process(&rig->machine, pid);
}

static const struct hotness_options rig_options = {
	.layout = RECORD_PRECISE,
	.shards = 1,
	.memory_max_bytes = 1ULL << 30,
	.section_bytes = RIG_BLOCK,
};

/* @options NULL: rig_options. Pids 100..199 are there. @with_nodes: also the topology, which takes a while to make. */
static struct rig *rig_new(const struct hotness_options *options, bool with_nodes)
{
	struct rig *rig = calloc(1, sizeof(*rig));
	struct topology_options tiers = { .tiers = { "0", "1-2" }, .n_tiers = 2, .target_nid = -1 };
	struct machine *m = &rig->machine;
	char error[256] = "";
	int r;

	if (!options)
		options = &rig_options;
	machine_new(m);
	if (with_nodes) {
		machine_four_nodes(m, "0");
		machine_node(m, 0, RIG_NODE_BYTES, "0", "10 20 30 40");
		machine_node(m, 1, RIG_NODE_BYTES, "", "20 10 30 40");
		machine_node(m, 2, RIG_NODE_BYTES, "", "30 30 10 40");
		machine_node(m, 3, RIG_NODE_BYTES, "", "40 40 40 10");
		r = topology_read(&m->root, &tiers, &rig->topology, error, sizeof(error));
		if (r < 0) {
			printf("topology_read: %d %s\n", r, error);
			abort();
		}
	}
	for (uint32_t pid = 100; pid < 200; pid++)
		rig_put_process(rig, pid, "cat", 'S', 4194304, pid * 10ULL);
	rig->owners = owners_new(&m->root, 1);
	rig->hotness = hotness_new(options, rig->owners);
	rig->stats = stats_new();
	rig->slot = stats_slot_new(rig->stats);
	rig->now_ns = 1000 * SEC;
	rig->rule = (struct record_rule){ .layout = options->layout,
					  .window_ms = options->layout == RECORD_COMPACT ? 3000 : 5000,
					  .freq_threshold = 2 };
	rig->page_shift = PAGE_SHIFT;
	rcu_thread_start();
	if (!rig->owners || !rig->hotness || !rig->slot)
		abort();
	return rig;
}

static void rig_free(struct rig *rig)
{
	rcu_thread_stop();
	hotness_free(rig->hotness);
	owners_free(rig->owners);
	topology_unref(rig->topology);
	stats_free(rig->stats);
	machine_free(&rig->machine);
	free(rig);
}

/* Physical address of page @i on @nid. */
RIG_UNUSED static uint64_t rig_phys(int nid, uint64_t i)
{
	return (uint64_t)nid * RIG_NODE_BYTES + i * PAGE_SIZE_BYTES;
}

/* Slot of @pid, OWNER_NONE when it has none. */
RIG_UNUSED static uint32_t rig_owner(struct rig *rig, uint32_t pid)
{
	struct owner *owner;
	uint32_t slot = OWNER_NONE;

	rcu_enter();
	if (owners_get(rig->owners, pid, rig->now_ns, &owner) == 0)
		slot = owner->slot;
	rcu_leave();
	return slot;
}

/* An access of @pid at @addr to @phys on @nid, now. */
RIG_UNUSED static enum hotness_result rig_access_on(struct rig *rig, uint32_t pid, uint64_t addr, uint64_t phys,
						    unsigned int shard)
{
	struct sample sample = { .time_ns = rig->now_ns,
				 .addr = addr,
				 .phys = phys,
				 .pid = pid,
				 .page_shift = rig->page_shift,
				 .flags = rig->flags };
	int nid = (int)(phys / RIG_NODE_BYTES);
	struct hotness_place place = { .nid = nid, .is_lower = nid > 0, .target_nid = 0 };
	enum hotness_result result = HOTNESS_NO_MEMORY;
	struct owner *owner;

	rcu_enter();
	if (owners_get(rig->owners, pid, rig->now_ns, &owner) == 0)
		result = hotness_access_page(rig->hotness, shard, &rig->rule, &sample, owner->slot, &place);
	rcu_leave();
	return result;
}

RIG_UNUSED static enum hotness_result rig_access(struct rig *rig, uint32_t pid, uint64_t addr, uint64_t phys)
{
	return rig_access_on(rig, pid, addr, phys, 0);
}

RIG_UNUSED static uint64_t rig_stat(const struct rig *rig, enum stat_id id)
{
	return stats_sum(rig->stats, id);
}

RIG_UNUSED static struct hotness_usage rig_usage(const struct rig *rig)
{
	struct hotness_usage usage;

	hotness_usage(rig->hotness, &usage);
	return usage;
}

/* The record of the page at @phys: false for none. */
RIG_UNUSED static bool rig_record(const struct rig *rig, uint64_t phys, struct hotness_candidate *ret)
{
	bool found;

	rcu_enter();
	found = hotness_find_record(rig->hotness, phys >> PAGE_SHIFT, ret);
	rcu_leave();
	return found;
}

RIG_UNUSED static unsigned int rig_freq(const struct rig *rig, uint64_t phys)
{
	struct hotness_candidate c;

	return rig_record(rig, phys, &c) ? record_freq(rig->rule.layout, c.record) : 0;
}

/* One janitor's turn with a second of cold. */
RIG_UNUSED static void rig_janitor(struct rig *rig, uint64_t cold_ns)
{
	hotness_janitor(rig->hotness, rig->now_ns, cold_ns, rig->slot);
}

/* What a scan showed. */
struct rig_scan {
	struct rig *rig;
	enum hotness_verdict verdict;
	size_t stop_after; /* that many get the verdict, then stop; 0: never */
	enum hotness_verdict (*decide)(struct rig_scan *scan, const struct hotness_candidate *candidate);
	size_t n, n_taken;
	struct hotness_candidate shown[4096];
	struct hotness_scan_result result;
};

static enum hotness_verdict rig_decide(void *ctx, const struct hotness_candidate *candidate)
{
	struct rig_scan *scan = ctx;

	if (scan->n < 4096)
		scan->shown[scan->n] = *candidate;
	scan->n++;
	if (scan->decide)
		return scan->decide(scan, candidate);
	return scan->stop_after && scan->n > scan->stop_after ? HOTNESS_STOP : scan->verdict;
}

static void rig_taken(void *ctx, const struct hotness_candidate *candidate)
{
	struct rig_scan *scan = ctx;

	(void)candidate;
	scan->n_taken++;
}

RIG_UNUSED static void rig_scan_part(struct rig *rig, struct rig_scan *scan, int nid, unsigned int part,
				     unsigned int parts, bool observing)
{
	struct hotness_visitor visitor = {
		.decide = rig_decide, .taken = rig_taken, .ctx = scan, .observing = observing
	};

	scan->rig = rig;
	scan->n = scan->n_taken = 0;
	rcu_enter();
	hotness_scan(rig->hotness, rig->topology, nid, part, parts, &visitor, &scan->result);
	rcu_leave();
}

/* How many records were shown. */
RIG_UNUSED static size_t rig_scan(struct rig *rig, struct rig_scan *scan, int nid, enum hotness_verdict verdict)
{
	scan->verdict = verdict;
	rig_scan_part(rig, scan, nid, 0, 1, false);
	return scan->n;
}
