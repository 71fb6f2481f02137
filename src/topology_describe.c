/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "topology.h"

static const char *const origin_text[] = {
	[TIERS_FROM_CONFIG] = "from the configuration",
	[TIERS_FROM_KERNEL] = "from the kernel",
	[TIERS_GUESSED_HMAT] = "guessed from latencies: nothing is moved",
	[TIERS_GUESSED_SLIT] = "guessed from distances: nothing is moved",
	[TIERS_ONE] = "one tier: nothing to promote",
};

static void put_nodes(FILE *f, const struct nodeset *nodes)
{
	char list[256];

	if (nodeset_format(nodes, list, sizeof(list)) < 0)
		fprintf(f, "%d nodes", nodeset_count(nodes));
	else
		fprintf(f, "node%s %s", nodeset_count(nodes) == 1 ? "" : "s", list);
}

static void put_bytes(FILE *f, uint64_t bytes)
{
	if (bytes >= UINT64_C(1) << 30)
		fprintf(f, "%.1f GiB", (double)bytes / (UINT64_C(1) << 30));
	else
		fprintf(f, "%.1f MiB", (double)bytes / (UINT64_C(1) << 20));
}

static void put_size(FILE *f, const struct topology *topology, const struct nodeset *nodes)
{
	uint64_t bytes = 0;

	nodeset_for_each (nid, nodes)
		bytes += topology_node(topology, nid)->total_bytes;
	put_bytes(f, bytes);
}

static void put_latency(FILE *f, const struct topology *topology, const struct nodeset *nodes)
{
	uint32_t least = 0, most = 0;

	nodeset_for_each (nid, nodes) {
		uint32_t ns = topology_node(topology, nid)->read_latency_ns;

		if (ns == 0)
			return;
		if (least == 0 || ns < least)
			least = ns;
		if (ns > most)
			most = ns;
	}
	if (least == most)
		fprintf(f, ", %" PRIu32 " ns", least);
	else
		fprintf(f, ", %" PRIu32 " to %" PRIu32 " ns", least, most);
}

/* Where the pages of a lower node go, when no CPU says otherwise. */
static void put_targets(FILE *f, const struct topology *topology, const struct nodeset *nodes)
{
	nodeset_for_each (nid, nodes) {
		const struct topology_node *node = topology_node(topology, nid);
		int distance;

		if (node->n_targets == 0)
			continue;
		distance = topology_distance(topology, nid, node->targets[0]);
		fprintf(f, "; node %d is nearest to node %d", nid, node->targets[0]);
		if (distance >= 0)
			fprintf(f, " (distance %d)", distance);
	}
}

static void put_tier(FILE *f, const struct topology *topology, int i)
{
	const struct topology_tier *tier = &topology->tiers[i];

	fprintf(f, "tier %d, %s: ", i, nodeset_intersects(&tier->nodes, &topology->lower) ? "slow" : "fast");
	put_nodes(f, &tier->nodes);
	fputs(", ", f);
	put_size(f, topology, &tier->nodes);
	put_latency(f, topology, &tier->nodes);
	if (tier->kernel_id >= 0)
		fprintf(f, ", memory_tier%d", tier->kernel_id);
	/* Past a few nodes it is for --json. */
	if (nodeset_count(&tier->nodes) <= 4)
		put_targets(f, topology, &tier->nodes);
	fputc('\n', f);
}

static void put_rest(FILE *f, const struct topology *topology, bool devices)
{
	struct nodeset nodes = { 0 };

	for (size_t i = 0; i < topology->n_nodes; i++) {
		const struct topology_node *node = &topology->nodes[i];

		if (node->has_memory && node->tier < 0 && node->is_device == devices)
			nodeset_add(&nodes, node->nid);
	}
	if (nodeset_is_empty(&nodes))
		return;
	fputs("unused: ", f);
	put_nodes(f, &nodes);
	fputs(", ", f);
	put_size(f, topology, &nodes);
	fputs(devices ? ", memory of a device\n" : ", in no tier\n", f);
}

char *topology_describe(const struct topology *topology)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);
	bool failed;

	if (!f)
		return NULL;
	for (int i = 0; i < topology->n_tiers; i++)
		put_tier(f, topology, i);
	put_rest(f, topology, false);
	put_rest(f, topology, true);
	fprintf(f, "tiers %s\n", origin_text[topology->origin]);
	failed = ferror(f);
	if (fclose(f) != 0 || failed) {
		free(text);
		return NULL;
	}
	return text;
}
