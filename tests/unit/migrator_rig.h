/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * migrator_rig: a machine in a folder, the model of a kernel, and one migrator between them on a clock that the test
 * turns. Nodes 0 and 1 are fast, 2 and 3 slow; node n holds the physical memory from n GiB on, 1 GiB.
 */
#pragma once

#include <assert.h>
#include <stdatomic.h>
#include <string.h>

#include "clock.h"
#include "config.h"
#include "fake_kernel.h"
#include "hotness.h"
#include "machine.h"
#include "migrator.h"
#include "owners.h"
#include "rcu.h"
#include "sample.h"
#include "stats.h"
#include "topology.h"

#define RIG_PAGE       PAGE_SIZE_BYTES
#define RIG_HUGE       REGION_BYTES
#define RIG_GIANT      (1ULL << 30)
#define RIG_NODE_BYTES (1ULL << 30)
#define RIG_NODE_PAGES (RIG_NODE_BYTES / RIG_PAGE)
#define RIG_START_NS   (100 * NSEC_PER_SEC)
#define RIG_PROMO      1500U /* pages, of each node */
#define RIG_HIGH       1000U

struct rig {
	struct machine machine;
	struct fake_kernel kernel;
	struct clock clock;
	uint64_t now_ns;
	uint64_t call_ns;          /* what a move call takes */
	uint64_t present_pages[4]; /* as /proc/zoneinfo says, */
	uint64_t listed_pages[4];  /* and so many in lists of the CPUs */
	struct topology_store *topology;
	struct owners *owners;
	struct hotness *hotness;
	struct stats *stats;
	struct migrator *migrator;
	struct migrator_params params;
	struct config config;
	struct migrator_pass_result result;
	_Atomic bool stop;
	void (*on_move)(struct rig *rig, uint32_t pid, size_t n, int nid);
	void (*on_clock)(struct rig *rig);
	uint64_t clock_looks;
};

MACHINE_UNUSED static uint64_t rig_clock(void *ctx)
{
	struct rig *rig = ctx;

	rig->clock_looks++;
	if (rig->on_clock)
		rig->on_clock(rig);
	return rig->now_ns;
}

MACHINE_UNUSED static void rig_on_move(void *ctx, uint32_t pid, size_t n, int nid)
{
	struct rig *rig = ctx;

	if (rig->on_move)
		rig->on_move(rig, pid, n, nid);
	rig->now_ns += rig->call_ns;
}

/* Its folder is made once for all rigs of a program: a few hundred files. */
static struct machine rig_machine;

static void rig_remove_machine(void)
{
	machine_free(&rig_machine);
}

/* @two_tiers: the kernel knows that nodes 2 and 3 are slow; otherwise it says one tier, and distances tell. */
MACHINE_UNUSED static void rig_put_machine(struct rig *rig, bool two_tiers)
{
	struct machine *m = &rig->machine;

	if (!rig_machine.dir[0]) {
		machine_new(&rig_machine);
		atexit(rig_remove_machine);
		*m = rig_machine;
		machine_four_nodes(m, "0-1");
		machine_node(m, 0, RIG_NODE_BYTES, "0-1", "10 20 30 50");
		machine_node(m, 1, RIG_NODE_BYTES, "2-3", "20 10 50 30");
		machine_node(m, 2, RIG_NODE_BYTES, "", "30 50 10 60");
		machine_node(m, 3, RIG_NODE_BYTES, "", "50 30 60 10");
	}
	*m = rig_machine;
	machine_remove(m, "proc");
	machine_remove(m, "sys/devices/virtual/memory_tiering");
	machine_put(m, "sys/devices/virtual/memory_tiering/memory_tier4/nodelist", two_tiers ? "0-1" : "0-3");
	if (two_tiers)
		machine_put(m, "sys/devices/virtual/memory_tiering/memory_tier22/nodelist", "2-3");
}

/* Written over, always with the same length: a file that is cut and filled again in each pass costs a flush to the
 * disk. */
MACHINE_UNUSED static void rig_put_zoneinfo(struct rig *rig)
{
	char text[8192], path[PATH_MAX];
	size_t len = 0;
	int fd;

	for (int nid = 0; nid < 4; nid++)
		len += (size_t)snprintf(text + len, sizeof(text) - len,
					"Node %d, zone   Normal\n"
					"  pages free %20llu\n"
					"        boost    0\n"
					"        min      500\n"
					"        low      700\n"
					"        high     %u\n"
					"        promo    %u\n"
					"        spanned %20llu\n"
					"        present %20llu\n"
					"        managed %20llu\n"
					"        cma      0\n"
					"        protection: (0, 0, 0, 0)\n"
					"  pagesets\n"
					"    cpu: 0\n"
					"              count: %20llu\n"
					"              high:     7176\n"
					"  start_pfn:           %llu\n",
					nid, (unsigned long long)rig->kernel.free_pages[nid], RIG_HIGH, RIG_PROMO,
					(unsigned long long)rig->present_pages[nid],
					(unsigned long long)rig->present_pages[nid],
					(unsigned long long)rig->present_pages[nid],
					(unsigned long long)rig->listed_pages[nid],
					(unsigned long long)nid * RIG_NODE_PAGES);
	machine_path(&rig->machine, path, "proc/zoneinfo");
	machine_parents(path);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	if (fd < 0 || pwrite(fd, text, len, 0) != (ssize_t)len || close(fd) < 0)
		abort();
}

struct rig_options {
	bool guessed;
	enum record_layout layout;
	unsigned int parts;
	int target_nid; /* of the topology; 0: none, n: node n - 1 */
};

MACHINE_UNUSED static struct rig *rig_new(const struct rig_options *options)
{
	struct rig *rig = calloc(1, sizeof(*rig));
	struct topology_options topology_options = { .target_nid = options->target_nid - 1 };
	struct hotness_options hotness_options = {
		.layout = options->layout,
		.shards = 1,
		.memory_max_bytes = 256ULL << 20,
		.section_bytes = 128ULL << 20,
	};
	struct topology *topology;
	char error[256] = "";
	int r;

	assert(rig);
	rig_put_machine(rig, !options->guessed);
	r = topology_read(&rig->machine.root, &topology_options, &topology, error, sizeof(error));
	if (r < 0) {
		printf("  topology_read: %d %s\n", r, error);
		abort();
	}
	rig->topology = topology_store_new(topology);
	fake_kernel_init(&rig->kernel, 4, RIG_NODE_PAGES / 2);
	rig->kernel.on_move = rig_on_move;
	rig->kernel.on_move_ctx = rig;
	for (int i = 0; i < 4; i++)
		rig->present_pages[i] = RIG_NODE_PAGES;
	rig->now_ns = RIG_START_NS;
	rig->clock = (struct clock){ .now_ns = rig_clock, .ctx = rig };
	rig->owners = owners_new(&rig->machine.root, 1);
	rig->hotness = hotness_new(&hotness_options, rig->owners);
	rig->stats = stats_new();
	rig->config = (struct config){
		.mode = MODE_PROMOTE,
		.target_nid = options->target_nid - 1,
		.promote_rate_mib_per_sec = 65536,
		.promote_headroom_percent = 3.0,
		.promote_burst_ms = 100,
		.promote_freq_window_ms = options->layout == RECORD_COMPACT ? 3000 : 5000,
		.promote_scan_sleep_ms = 100,
		.promote_batch_pages = 512,
		.promote_stall_ms = 20,
	};
	rig->params = (struct migrator_params){
		.nid = 2,
		.parts = options->parts ? options->parts : 1,
		.hotness = rig->hotness,
		.owners = rig->owners,
		.topology = rig->topology,
		.root = rig->machine.root,
		.mover_ops = &fake_kernel_ops,
		.mover_ctx = &rig->kernel,
		.clock = &rig->clock,
		.stats = stats_slot_new(rig->stats),
		.stop = &rig->stop,
	};
	rig->migrator = migrator_new(&rig->params);
	rcu_thread_start();
	return rig;
}

MACHINE_UNUSED static void rig_free(struct rig *rig)
{
	migrator_free(rig->migrator);
	hotness_free(rig->hotness);
	owners_free(rig->owners);
	topology_store_free(rig->topology);
	stats_free(rig->stats);
	fake_kernel_done(&rig->kernel);
	rcu_thread_stop();
	free(rig);
}

/* A process that has begun at @start_ticks. */
MACHINE_UNUSED static void rig_put_stat(struct rig *rig, uint32_t pid, uint64_t start_ticks)
{
	machine_process(&rig->machine, pid, "a b", 'S', 4194560, start_ticks);
}

MACHINE_UNUSED static struct fake_process *rig_process(struct rig *rig, uint32_t pid)
{
	struct fake_process *p = fake_process_find(&rig->kernel, pid);

	if (p)
		return p;
	rig_put_stat(rig, pid, pid * 10);
	return fake_process_add(&rig->kernel, pid);
}

MACHINE_UNUSED static void rig_exit(struct rig *rig, uint32_t pid)
{
	fake_process_find(&rig->kernel, pid)->alive = false;
	machine_end_process(&rig->machine, pid);
}

/* Address of page @i of process @pid; each has its own addresses, and 2 MiB of them for each 512 pages. */
MACHINE_UNUSED static uint64_t rig_addr(uint32_t pid, uint64_t i)
{
	return 0x100000000000ULL + ((uint64_t)pid << 32) + i * RIG_PAGE;
}

/* One access now to the page at @addr of @pid, on @phys, by a CPU whose target is @target_nid. */
MACHINE_UNUSED static void rig_access(struct rig *rig, uint32_t pid, uint64_t addr, uint64_t phys, uint64_t bytes,
				      int target_nid)
{
	struct record_rule rule = {
		.layout = hotness_layout(rig->hotness),
		.window_ms = (uint32_t)rig->config.promote_freq_window_ms,
		.freq_threshold = 1,
	};
	struct sample sample = {
		.time_ns = rig->now_ns,
		.addr = addr,
		.phys = phys,
		.pid = pid,
		.page_shift = bytes == RIG_GIANT  ? 30
			      : bytes == RIG_HUGE ? 21
						  : 12,
	};
	struct owner *owner;

	rcu_enter();
	if (owners_get(rig->owners, pid, rig->now_ns, &owner) == 0)
		hotness_access(rig->hotness, 0, &rule, &sample, owner->slot, true, target_nid);
	rcu_leave();
}

/* Physical address of page @i on @nid. */
MACHINE_UNUSED static uint64_t rig_phys(int nid, uint64_t i)
{
	return (uint64_t)nid * RIG_NODE_BYTES + i * RIG_PAGE;
}

/* Pages @first..@first+@n-1 of @pid on node 2, mapped (once) and hot; physical page @phys_first on. */
MACHINE_UNUSED static void rig_hot(struct rig *rig, uint32_t pid, uint64_t first, uint64_t n, uint64_t phys_first,
				   int target_nid)
{
	struct fake_process *p = rig_process(rig, pid);

	for (uint64_t i = 0; i < n; i++) {
		uint64_t addr = rig_addr(pid, first + i);

		if (!fake_folio_find(p, addr))
			fake_folio_add(p, addr, RIG_PAGE, 2, 0);
		rig_access(rig, pid, addr, rig_phys(2, phys_first + i), RIG_PAGE, target_nid);
	}
}

MACHINE_UNUSED static int rig_pass(struct rig *rig)
{
	rig_put_zoneinfo(rig);
	return migrator_pass(rig->migrator, &rig->config, rig->now_ns, &rig->result);
}

MACHINE_UNUSED static uint64_t rig_stat(const struct rig *rig, enum stat_id id)
{
	return stats_sum(rig->stats, id);
}
