/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdlib.h>

#include "cleanup.h"
#include "topology_internal.h"

/* Behind every distance that a SLIT can hold. */
#define UNKNOWN_DISTANCE 256u

/* How good a target is, the less the better, in this order. */
struct rank {
	int nid;
	uint32_t tier;       /* 0: any of the fast ones, which are equal here */
	uint32_t distance;   /* from where the page or the CPU is */
	uint32_t latency_ns; /* to its own CPUs; tells high-bandwidth memory from DRAM at the same distance */
};

static int compare_ranks(const void *a, const void *b)
{
	const struct rank *x = a, *y = b;

	if (x->tier != y->tier)
		return x->tier < y->tier ? -1 : 1;
	if (x->distance != y->distance)
		return x->distance < y->distance ? -1 : 1;
	if (x->latency_ns != y->latency_ns)
		return x->latency_ns < y->latency_ns ? -1 : 1;
	return x->nid < y->nid ? -1 : x->nid > y->nid;
}

static struct rank rank_of(const struct topology_snapshot *s, int from, int to)
{
	const struct topology_node *node = &s->pub.nodes[s->index[to]];
	int distance = topology_distance(&s->pub, from, to);

	return (struct rank){
		.nid = to,
		.tier = nodeset_has(&s->pub.top, to) ? 0 : (uint32_t)node->tier,
		.distance = distance < 0 ? UNKNOWN_DISTANCE : (uint32_t)distance,
		.latency_ns = node->read_latency_ns ? node->read_latency_ns : UINT32_MAX,
	};
}

/* Whether pages of @from may go to @to. Configured as the only target, a node is that and nothing else is. */
static bool is_target(const struct topology_node *from, const struct topology_node *to, int target_nid)
{
	return to->tier >= 0 && to->tier < from->tier && (target_nid < 0 || to->nid == target_nid);
}

/* Targets of @node into @ret, best first, through @ranks. Returns how many. */
static int list_targets(const struct topology_snapshot *s, const struct topology_node *node, int target_nid,
			struct rank *ranks, int *ret)
{
	int n = 0;

	for (size_t i = 0; i < s->pub.n_nodes; i++)
		if (is_target(node, &s->pub.nodes[i], target_nid))
			ranks[n++] = rank_of(s, node->nid, s->pub.nodes[i].nid);
	qsort(ranks, (size_t)n, sizeof(*ranks), compare_ranks);
	for (int i = 0; i < n; i++)
		ret[i] = ranks[i].nid;
	return n;
}

static int nearest_top(const struct topology_snapshot *s, int from)
{
	struct rank best = { .nid = -1 };

	nodeset_for_each (nid, &s->pub.top) {
		struct rank rank = rank_of(s, from, nid);

		if (best.nid < 0 || compare_ranks(&rank, &best) < 0)
			best = rank;
	}
	return best.nid;
}

int topology_targets_build(struct topology_snapshot *s, int target_nid)
{
	_cleanup_free_ struct rank *ranks = NULL;
	size_t total = 0;
	int *next;

	for (size_t i = 0; i < s->pub.n_nodes; i++)
		s->extra[i].nearest_top = nearest_top(s, s->pub.nodes[i].nid);
	nodeset_for_each (nid, &s->pub.lower)
		for (size_t i = 0; i < s->pub.n_nodes; i++)
			total += is_target(&s->pub.nodes[s->index[nid]], &s->pub.nodes[i], target_nid);
	if (total == 0)
		return 0;
	ranks = calloc(s->pub.n_nodes, sizeof(*ranks));
	s->targets = next = calloc(total, sizeof(*s->targets));
	if (!ranks || !s->targets)
		return -ENOMEM;
	nodeset_for_each (nid, &s->pub.lower) {
		struct topology_node *node = &s->pub.nodes[s->index[nid]];

		node->targets = next;
		node->n_targets = list_targets(s, node, target_nid, ranks, next);
		next += node->n_targets;
	}
	return 0;
}

int topology_target(const struct topology *topology, int page_nid, int cpu_nid)
{
	const struct topology_snapshot *s = topology_snapshot(topology);
	const struct topology_node *page = topology_node(topology, page_nid), *cpu;
	int nearest;

	/* Only the nodes of lower tiers have any. */
	if (!page || page->n_targets == 0)
		return -1;
	/* So it is with a configured target too. */
	if (page->n_targets == 1)
		return page->targets[0];
	cpu = topology_node(topology, cpu_nid);
	if (!cpu)
		return page->targets[0];
	if (cpu->tier >= 0 && cpu->tier < page->tier)
		return cpu_nid;
	/* Each fast node is faster than the page's, which is in a lower tier. */
	nearest = s->extra[s->index[cpu_nid]].nearest_top;
	return nearest >= 0 ? nearest : page->targets[0];
}
