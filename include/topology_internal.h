/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * topology_internal: what a snapshot holds beside its public part, for the topology_*.c files only.
 *
 * Writer   topology_read(), on the main thread, before anyone else has the snapshot
 * Readers  any thread that holds a reference; nothing but refs changes any more
 *
 * Rule for what can't be read: a file that isn't there, or holds what the kernel doesn't write, counts as not there (a
 * node can go while it is read, and an old kernel has fewer files). Only where the fault is ours or the operator's (no
 * memory, no descriptors, no permission) reading fails, since half a machine would look like one that was unplugged.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "topology.h"

#define TOPOLOGY_CPU_MAX        65535                 /* ids; CONFIG_NR_CPUS is at most 8192 today */
#define TOPOLOGY_BLOCK_BYTES    (UINT64_C(128) << 20) /* where the kernel has no memory blocks */
#define TOPOLOGY_PHYS_BITS      56                    /* no machine has more bits of physical address */
#define TOPOLOGY_LOCAL_DISTANCE 10                    /* SLIT */

/* One node, beside struct topology_node; by the same index. */
struct topology_extra {
	bool is_kmem; /* onlined by the dax driver: CXL, persistent or specific-purpose memory */
	uint32_t write_latency_ns;
	uint32_t read_mib_per_sec, write_mib_per_sec; /* 0: firmware gives none */
	int nearest_top; /* the node of the fast tiers nearest to this node's CPUs; -1: none */
};

/*
 * PFN to node, in two levels: a CXL device at 2^45 costs one leaf rather than a table up to there. A leaf has an entry
 * for each of 4096 memory blocks: a nid, TOPOLOGY_NO_NODE, or TOPOLOGY_SHARED(k) for a block of several nodes.
 */
#define TOPOLOGY_NO_NODE    (-1)
#define TOPOLOGY_SHARED(k)  (-2 - (k))
#define TOPOLOGY_SHARED_MAX 16384

struct topology_range {
	uint64_t start_pfn, end_pfn; /* of a zone */
	int nid;
};

struct topology_shared {
	uint64_t block;
	struct nodeset nodes;
	size_t first, n; /* in ranges: the zones that reach into it, the shortest first */
};

struct topology_map {
	unsigned int block_shift; /* PFN to block id */
	size_t n_leaves;
	int16_t **leaves;
	size_t n_shared, n_ranges;
	struct topology_shared *shared;
	struct topology_range *ranges;
};

struct topology_snapshot {
	struct topology pub; /* first: the public pointer is this one's */
	/* Relaxed to take one (whoever does has one, or is in a read section), acq_rel to give one back: the last one
	 * frees what all others have finished reading. */
	_Atomic unsigned int refs;
	uint64_t page_bytes;
	int16_t index[NODE_MAX]; /* nid to index in nodes, -1 */
	struct topology_extra *extra;
	uint8_t *distance; /* n_nodes rows of n_nodes; 0: unknown */
	int n_cpus;
	int16_t *cpu_node; /* n_cpus, -1: none */
	int *targets;      /* what nodes[].targets point into */
	struct topology_map map;
};

static inline struct topology_snapshot *topology_snapshot(const struct topology *topology)
{
	return (struct topology_snapshot *)topology;
}

/* true for an error that isn't the file's own, see the rule above. */
bool topology_is_fatal(int r);

/* topology_nodes.c: nodes, CPUs, distances, latencies, devices. 0 or -errno. */
int topology_nodes_read(struct topology_snapshot *s, const struct fsroot *root);

/* topology_memory.c: blocks and the map. After the nodes. 0 or -errno. */
int topology_memory_read(struct topology_snapshot *s, const struct fsroot *root);
void topology_memory_free(struct topology_map *map);
bool topology_memory_equal(const struct topology_map *a, const struct topology_map *b);

/* topology_tiers.c: tiers, origin, top and lower. After the nodes. 0, -EINVAL with @error, or -errno. */
int topology_tiers_build(struct topology_snapshot *s, const struct fsroot *root, const struct topology_options *options,
			 char *error, size_t error_size);

/* topology_guess.c: tiers by what firmware says of the nodes in @usable; 1 tier when nothing says that one is slower.
 */
struct topology_guess {
	int n_tiers;
	struct nodeset tiers[TOPOLOGY_TIERS_MAX];
	struct nodeset slow;             /* all but tiers[0] */
	enum tier_origin origin;         /* TIERS_GUESSED_HMAT or TIERS_GUESSED_SLIT */
	uint32_t fast_score, slow_score; /* ns or distance: of the fast nodes, and the least of the slow ones */
};

void topology_guess(const struct topology_snapshot *s, const struct nodeset *usable, struct topology_guess *ret);

/* topology_guess.c: say in pub.advice what is wrong: @kernel_tiers as shown by the kernel, 0: it shows none. */
void topology_advise(struct topology_snapshot *s, const struct topology_guess *guess, int kernel_tiers);

/* topology_targets.c: targets of the lower nodes, the nearest fast node of each. After the tiers. 0 or -ENOMEM. */
int topology_targets_build(struct topology_snapshot *s, int target_nid);
