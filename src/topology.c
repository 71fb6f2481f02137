/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "topology_internal.h"

static void snapshot_free(struct topology_snapshot *s)
{
	if (!s)
		return;
	topology_memory_free(&s->map);
	free(s->targets);
	free(s->cpu_node);
	free(s->distance);
	free(s->extra);
	free(s->pub.nodes);
	free(s);
}

static bool read_demotion(const struct fsroot *root)
{
	char text[16];

	/* Writes 0 and 1, reads true and false (sysfs-kernel-mm-numa). */
	return fsroot_read(root, text, sizeof(text), "sys/kernel/mm/numa/demotion_enabled") > 0 &&
	       strcmp(text, "true") == 0;
}

static void say_failure(int r, char *error, size_t size)
{
	if (!error || size == 0)
		return;
	if (r == -ENOENT)
		snprintf(error, size,
			 "no list of memory nodes in /sys/devices/system/node: is /sys mounted, and the kernel built "
			 "with NUMA?");
	else if (r == -EBADMSG)
		snprintf(error, size, "/sys/devices/system/node/online is not a list of nodes");
	else
		snprintf(error, size, "cannot read the machine's memory nodes: %s", strerror(-r));
}

int topology_read(const struct fsroot *root, const struct topology_options *options, struct topology **ret, char *error,
		  size_t error_size)
{
	struct topology_snapshot *s = calloc(1, sizeof(*s));
	int r;

	if (!s) {
		say_failure(-ENOMEM, error, error_size);
		return -ENOMEM;
	}
	for (int i = 0; i < NODE_MAX; i++)
		s->index[i] = -1;
	atomic_init(&s->refs, 1);
	s->page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	s->pub.demotion_enabled = read_demotion(root);
	r = topology_nodes_read(s, root);
	if (r == 0)
		r = topology_memory_read(s, root);
	if (r < 0) {
		say_failure(r, error, error_size);
		goto fail;
	}
	r = topology_tiers_build(s, root, options, error, error_size);
	if (r == 0)
		r = topology_targets_build(s, options->target_nid);
	if (r < 0) {
		if (r != -EINVAL)
			say_failure(r, error, error_size);
		goto fail;
	}
	*ret = &s->pub;
	return 0;
fail:
	snapshot_free(s);
	return r;
}

struct topology *topology_ref(const struct topology *topology)
{
	struct topology_snapshot *s = topology_snapshot(topology);

	/* Relaxed: whoever refs has a reference or is inside a read section, so it can't be going away. */
	atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
	return &s->pub;
}

void topology_unref(struct topology *topology)
{
	struct topology_snapshot *s;

	if (!topology)
		return;
	s = topology_snapshot(topology);
	/* Release what this holder read, acquire what all others did: its partner is itself in another thread. */
	if (atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) == 1)
		snapshot_free(s);
}

const struct topology_node *topology_node(const struct topology *topology, int nid)
{
	const struct topology_snapshot *s = topology_snapshot(topology);

	if (nid < 0 || nid >= NODE_MAX || s->index[nid] < 0)
		return NULL;
	return &topology->nodes[s->index[nid]];
}

int topology_distance(const struct topology *topology, int from, int to)
{
	const struct topology_snapshot *s = topology_snapshot(topology);
	uint8_t distance;

	if (!topology_node(topology, from) || !topology_node(topology, to))
		return -ENOENT;
	distance = s->distance[(size_t)s->index[from] * topology->n_nodes + (size_t)s->index[to]];
	return distance ? distance : -ENOENT;
}

int topology_cpu_node(const struct topology *topology, int cpu)
{
	const struct topology_snapshot *s = topology_snapshot(topology);

	if (cpu < 0 || cpu >= s->n_cpus || s->cpu_node[cpu] < 0)
		return -ENOENT;
	return s->cpu_node[cpu];
}

int topology_cpu_end(const struct topology *topology)
{
	return topology_snapshot(topology)->n_cpus;
}

static bool nodes_equal(const struct topology_snapshot *a, const struct topology_snapshot *b)
{
	size_t n = a->pub.n_nodes;

	if (b->pub.n_nodes != n || memcmp(a->distance, b->distance, n * n) != 0)
		return false;
	for (size_t i = 0; i < n; i++) {
		const struct topology_node *x = &a->pub.nodes[i], *y = &b->pub.nodes[i];
		const struct topology_extra *p = &a->extra[i], *q = &b->extra[i];

		if (x->nid != y->nid || x->has_cpu != y->has_cpu || x->has_memory != y->has_memory ||
		    x->is_device != y->is_device || x->tier != y->tier || x->total_bytes != y->total_bytes ||
		    x->read_latency_ns != y->read_latency_ns || x->start_pfn != y->start_pfn ||
		    x->end_pfn != y->end_pfn || x->n_targets != y->n_targets)
			return false;
		if (x->n_targets && memcmp(x->targets, y->targets, (size_t)x->n_targets * sizeof(*x->targets)) != 0)
			return false;
		if (p->is_kmem != q->is_kmem || p->write_latency_ns != q->write_latency_ns ||
		    p->read_mib_per_sec != q->read_mib_per_sec || p->write_mib_per_sec != q->write_mib_per_sec ||
		    p->nearest_top != q->nearest_top)
			return false;
	}
	return true;
}

static bool tiers_equal(const struct topology *a, const struct topology *b)
{
	if (a->n_tiers != b->n_tiers || a->origin != b->origin || a->observe_only != b->observe_only)
		return false;
	for (int i = 0; i < a->n_tiers; i++)
		if (!nodeset_equal(&a->tiers[i].nodes, &b->tiers[i].nodes) ||
		    a->tiers[i].kernel_id != b->tiers[i].kernel_id)
			return false;
	return nodeset_equal(&a->top, &b->top) && nodeset_equal(&a->lower, &b->lower);
}

bool topology_equal(const struct topology *a, const struct topology *b)
{
	const struct topology_snapshot *x = topology_snapshot(a), *y = topology_snapshot(b);

	if (!nodes_equal(x, y) || !tiers_equal(a, b))
		return false;
	if (x->n_cpus != y->n_cpus ||
	    (x->n_cpus && memcmp(x->cpu_node, y->cpu_node, (size_t)x->n_cpus * sizeof(*x->cpu_node)) != 0))
		return false;
	return a->block_bytes == b->block_bytes && a->demotion_enabled == b->demotion_enabled &&
	       strcmp(a->advice, b->advice) == 0 && topology_memory_equal(&x->map, &y->map);
}
