/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * topology: nodes, tiers, distances, CPUs and which physical memory is on which node, as one immutable snapshot.
 *
 * Writer      topology_read() builds a snapshot; nobody changes it afterwards
 * Readers     all, through a reference
 * Protection  struct topology_store publishes the current one by RCU; a reference keeps one past the read section
 *
 * Sources: sysfs-devices-node, sysfs-devices-memory, sysfs-kernel-mm-memory-tiers, sysfs-kernel-mm-numa and
 * numaperf.rst of the kernel's Documentation; /proc/zoneinfo for watermarks.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fsroot.h"
#include "nodeset.h"

#define TOPOLOGY_TIERS_MAX 16

enum tier_origin {
	TIERS_FROM_CONFIG,  /* tiers = (...) */
	TIERS_FROM_KERNEL,  /* memory_tiering, more than one tier with memory */
	TIERS_GUESSED_HMAT, /* one kernel tier, but firmware latencies differ: said aloud, observe only */
	TIERS_GUESSED_SLIT, /* the same from distances only */
	TIERS_ONE,          /* nothing to tier */
};

struct topology_node {
	int nid;
	bool has_cpu;
	bool has_memory;          /* in has_memory and more than 0 bytes */
	bool is_device;           /* memory of a device (a GPU): never used unless the configuration names it */
	int tier;                 /* index into tiers, 0 fastest; -1: in none */
	uint64_t total_bytes;     /* MemTotal */
	uint32_t read_latency_ns; /* from its best initiator, 0: firmware gives none */
	uint64_t start_pfn;       /* lowest and one past the highest PFN of its memory blocks; equal: none known */
	uint64_t end_pfn;
	int n_targets; /* faster nodes to promote to, best first */
	int *targets;
};

struct topology_tier {
	struct nodeset nodes;
	int kernel_id; /* N of memory_tierN, -1 where it doesn't come from the kernel */
};

/* Which node each memory block is on, of which topology_block_node() reads. */
struct topology_blocks {
	unsigned int shift; /* PFN to block */
	size_t n_leaves;
	int16_t **leaves; /* of 2^TOPOLOGY_LEAF_SHIFT blocks, NULL: none there; below 0: look closer */
};

#define TOPOLOGY_LEAF_SHIFT 12

struct topology {
	size_t n_nodes;
	struct topology_node *nodes; /* by ascending nid; those that are online */
	int n_tiers;
	struct topology_tier tiers[TOPOLOGY_TIERS_MAX]; /* fastest first; only nodes with memory */
	enum tier_origin origin;
	bool observe_only; /* tiers are guessed: nothing may be moved on a guess */
	struct topology_blocks blocks;
	struct nodeset top;   /* nodes of the fastest tier that holds a CPU, and of every tier faster than it */
	struct nodeset lower; /* nodes of all slower tiers: each gets a migrator */
	uint64_t block_bytes; /* size of a memory block, a section of the section map */
	bool demotion_enabled;
	char advice[512]; /* what is wrong with the tiers and the exact line to paste; "" when nothing is */
};

struct topology_options {
	const char *tiers[TOPOLOGY_TIERS_MAX]; /* node lists from the configuration, fastest first */
	int n_tiers;                           /* 0: from the kernel */
	int target_nid;                        /* -1: nearest; else the only promotion target */
	/* Leave out nodes that are not there or have no memory rather than refuse them: CXL memory comes after boot. */
	bool allow_missing;
};

/*
 * Read the machine under @root. Returns 0 and a snapshot with one reference, or -errno: -EINVAL when @options name
 * a node that doesn't exist, has no memory, or stands in two tiers, or a target that nothing could go up to; -ENOENT
 * when there is no list of nodes (no /sys, or a kernel without NUMA); -EBADMSG when it isn't one; -ENOMEM, or what
 * reading /sys gave. @error, if not NULL, then says it in words; it holds @error_size bytes. Anything else that is
 * missing or not what a kernel writes counts as not there. Main thread.
 */
int topology_read(const struct fsroot *root, const struct topology_options *options, struct topology **ret, char *error,
		  size_t error_size);

struct topology *topology_ref(const struct topology *topology);
void topology_unref(struct topology *topology); /* accepts NULL */

/* NULL when there is no such node. Any thread that holds the snapshot. */
const struct topology_node *topology_node(const struct topology *topology, int nid);

/* SLIT distance from @from to @to; 10 is itself; -ENOENT when unknown. */
int topology_distance(const struct topology *topology, int from, int to);

/* Node of a CPU, or -ENOENT. */
int topology_cpu_node(const struct topology *topology, int cpu);

/* One past the highest CPU id that topology_cpu_node() may know. */
int topology_cpu_end(const struct topology *topology);

/*
 * Node that holds @pfn, or -ENOENT for memory that is on no known block. A block that straddles two nodes is told apart
 * by the zones' PFN ranges. A pre-filter: the authoritative answer is the kernel's, by address. O(1), no system call.
 */
int topology_pfn_node(const struct topology *topology, uint64_t pfn);

/* The same, for who asks for each sample: only where blocks of several nodes or none are met, it costs a call. */
static inline int topology_block_node(const struct topology *topology, uint64_t pfn)
{
	const struct topology_blocks *blocks = &topology->blocks;
	uint64_t block = pfn >> blocks->shift, leaf = block >> TOPOLOGY_LEAF_SHIFT;
	int nid = -1;

	if (__builtin_expect(leaf < blocks->n_leaves && blocks->leaves[leaf], 1))
		nid = blocks->leaves[leaf][block & ((1U << TOPOLOGY_LEAF_SHIFT) - 1)];
	return __builtin_expect(nid >= 0, 1) ? nid : topology_pfn_node(topology, pfn);
}

/* Best promotion target for an access from a CPU on @cpu_nid to a page on @page_nid: -1 when there is none. */
int topology_target(const struct topology *topology, int page_nid, int cpu_nid);

/* true when the two snapshots say the same (free memory is not part of one). */
bool topology_equal(const struct topology *a, const struct topology *b);

/*
 * A line for each tier, and for what is in none, for people: nodes, size, latency or distance, where pages go.
 * malloc'ed; NULL: no memory. Any thread that holds the snapshot.
 */
char *topology_describe(const struct topology *topology);

/* Free memory of one node against its watermarks, summed over its zones, in bytes. */
struct topology_room {
	uint64_t free_bytes;
	uint64_t high_bytes;  /* below it kswapd works */
	uint64_t promo_bytes; /* the promotion watermark; high_bytes where the kernel shows none */
	uint64_t present_bytes;
	uint64_t low_bytes;    /* an allocation that finds less wakes kswapd */
	uint64_t listed_bytes; /* in lists of the CPUs: free, but no part of free_bytes */
};

/*
 * Read the room of every node that @nodes names into @rooms (indexed by nid, NODE_MAX entries; others are left as they
 * are) from /proc/zoneinfo. 0; -EBADMSG when it isn't what the kernel writes, or ends early; or what reading it gave.
 * On failure, and for a node that it doesn't show, all is 0: no room. One file read whatever the number of nodes; for a
 * pass, not for a page. Any thread.
 */
int topology_read_rooms(const struct fsroot *root, const struct nodeset *nodes, struct topology_room *rooms);

/* The published snapshot. */
struct topology_store;

/* Takes over the reference. NULL: no memory, and the reference is still the caller's. */
struct topology_store *topology_store_new(struct topology *first);

/* Accepts NULL. When nobody else uses the store any more; references taken from it stay good. */
void topology_store_free(struct topology_store *store);

/* The current snapshot; valid inside the caller's RCU read section only. Any registered thread. */
const struct topology *topology_store_peek(const struct topology_store *store);

/* The current snapshot with a reference of its own. Any registered thread. */
struct topology *topology_store_get(const struct topology_store *store);

/* Publish @next (takes over the reference) and release the old one after a grace period. Blocks. Main thread. */
void topology_store_set(struct topology_store *store, struct topology *next);
