/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cleanup.h"
#include "parse.h"
#include "topology_internal.h"
#include "zoneinfo.h"

#define MEMORY_PATH "sys/devices/system/memory"
#define NODE_PATH   "sys/devices/system/node"

#define LEAF_BLOCKS (1u << TOPOLOGY_LEAF_SHIFT)

/* Blocks that zones alone may bring: 128 TiB of the smallest on x86. A span beyond that is nonsense, and would cost. */
#define ZONE_BLOCKS_MAX (UINT64_C(1) << 20)

static uint64_t block_pages(const struct topology_map *map)
{
	return UINT64_C(1) << map->block_shift;
}

/* The entry of @block, or NULL when there is no leaf for it. */
static int16_t *find_entry(const struct topology_map *map, uint64_t block)
{
	uint64_t leaf = block >> TOPOLOGY_LEAF_SHIFT;

	if (leaf >= map->n_leaves || !map->leaves[leaf])
		return NULL;
	return &map->leaves[leaf][block & (LEAF_BLOCKS - 1)];
}

static int make_entry(struct topology_map *map, uint64_t block, int16_t **ret)
{
	size_t leaf = block >> TOPOLOGY_LEAF_SHIFT;

	if (leaf >= map->n_leaves) {
		int16_t **more = realloc(map->leaves, (leaf + 1) * sizeof(*more));

		if (!more)
			return -ENOMEM;
		memset(more + map->n_leaves, 0, (leaf + 1 - map->n_leaves) * sizeof(*more));
		map->leaves = more;
		map->n_leaves = leaf + 1;
	}
	if (!map->leaves[leaf]) {
		int16_t *entries = malloc(LEAF_BLOCKS * sizeof(*entries));

		if (!entries)
			return -ENOMEM;
		for (size_t i = 0; i < LEAF_BLOCKS; i++)
			entries[i] = TOPOLOGY_NO_NODE;
		map->leaves[leaf] = entries;
	}
	*ret = &map->leaves[leaf][block & (LEAF_BLOCKS - 1)];
	return 0;
}

/* @block has memory of @nid; maybe it has some of other nodes too. */
static int link_block(struct topology_map *map, uint64_t block, int nid)
{
	struct topology_shared *more;
	int16_t *entry;
	int r;

	r = make_entry(map, block, &entry);
	if (r < 0)
		return r;
	if (*entry == TOPOLOGY_NO_NODE) {
		*entry = (int16_t)nid;
		return 0;
	}
	if (*entry == nid)
		return 0;
	if (*entry < TOPOLOGY_NO_NODE) {
		nodeset_add(&map->shared[TOPOLOGY_SHARED(*entry)].nodes, nid);
		return 0;
	}
	/* So many only on a machine that is made up: what is left stays with the node that came first. */
	if (map->n_shared == TOPOLOGY_SHARED_MAX)
		return 0;
	more = realloc(map->shared, (map->n_shared + 1) * sizeof(*more));
	if (!more)
		return -ENOMEM;
	map->shared = more;
	more[map->n_shared] = (struct topology_shared){ .block = block };
	nodeset_add(&more[map->n_shared].nodes, *entry);
	nodeset_add(&more[map->n_shared].nodes, nid);
	*entry = (int16_t)TOPOLOGY_SHARED((int)map->n_shared++);
	return 0;
}

struct block_ctx {
	struct topology_snapshot *s;
	const struct fsroot *root;
	uint64_t block_max; /* ids below it */
	uint64_t block;     /* whose links are looked at */
	int nid;            /* whose blocks are looked at */
	bool any;
};

/* "memory12": the block's id. false for what else is in the folder. */
static bool parse_block(const struct block_ctx *c, const char *name, uint64_t *ret)
{
	return strncmp(name, "memory", 6) == 0 && parse_u64(name + 6, 0, c->block_max - 1, ret) == 0;
}

/* 1 when @block is online, 0 when it isn't or has gone meanwhile; -errno. */
static int is_online(const struct fsroot *root, uint64_t block)
{
	char state[32];
	int r = fsroot_read(root, state, sizeof(state), MEMORY_PATH "/memory%llu/state", (unsigned long long)block);

	if (r < 0)
		return topology_is_fatal(r) ? r : 0;
	return strcmp(state, "online") == 0;
}

/* An entry of a node's folder. One listing for each node rather than one for each block: a big machine has 16384. */
static int link_from_node(void *ctx, const char *name)
{
	struct block_ctx *c = ctx;
	uint64_t block;
	int r;

	if (!parse_block(c, name, &block))
		return 0;
	c->any = true;
	r = is_online(c->root, block);
	return r > 0 ? link_block(&c->s->map, block, c->nid) : r;
}

/* An entry of a block's folder. */
static int link_from_block(void *ctx, const char *name)
{
	struct block_ctx *c = ctx;
	uint64_t nid;

	if (strncmp(name, "node", 4) != 0 || parse_u64(name + 4, 0, NODE_MAX - 1, &nid) < 0 || c->s->index[nid] < 0)
		return 0;
	return link_block(&c->s->map, c->block, (int)nid);
}

/* An online block that no node's folder named: the link is being made, or the tree was recorded without. */
static int link_rest(void *ctx, const char *name)
{
	struct block_ctx *c = ctx;
	const int16_t *entry;
	int r;

	if (!parse_block(c, name, &c->block))
		return 0;
	c->any = true;
	entry = find_entry(&c->s->map, c->block);
	if (entry && *entry != TOPOLOGY_NO_NODE)
		return 0;
	r = is_online(c->root, c->block);
	if (r > 0)
		r = fsroot_for_each(c->root, link_from_block, c, MEMORY_PATH "/%s", name);
	return topology_is_fatal(r) ? r : 0;
}

static int read_blocks(struct topology_snapshot *s, const struct fsroot *root, bool *ret_any)
{
	struct block_ctx ctx = {
		.s = s,
		.root = root,
		.block_max = (UINT64_C(1) << TOPOLOGY_PHYS_BITS) / s->pub.block_bytes,
	};
	int r;

	for (size_t i = 0; i < s->pub.n_nodes; i++) {
		ctx.nid = s->pub.nodes[i].nid;
		r = fsroot_for_each(root, link_from_node, &ctx, NODE_PATH "/node%d", ctx.nid);
		if (topology_is_fatal(r))
			return r;
	}
	r = fsroot_for_each(root, link_rest, &ctx, MEMORY_PATH);
	*ret_any = ctx.any;
	return topology_is_fatal(r) ? r : 0;
}

struct zone_list {
	struct topology_range *zones;
	size_t n;
};

static int add_zone(void *ctx, const struct zoneinfo_zone *zone)
{
	struct zone_list *list = ctx;
	struct topology_range *more;

	if (zone->present_pages == 0 || zone->spanned_pages == 0)
		return 0;
	more = realloc(list->zones, (list->n + 1) * sizeof(*more));
	if (!more)
		return -ENOMEM;
	list->zones = more;
	more[list->n++] = (struct topology_range){
		.start_pfn = zone->start_pfn,
		.end_pfn = zone->start_pfn + zone->spanned_pages,
		.nid = zone->nid,
	};
	return 0;
}

/* The shortest first: zones may lie within the span of another node's, whose hole they then fill. */
static int compare_zones(const void *a, const void *b)
{
	const struct topology_range *x = a, *y = b;
	uint64_t x_pages = x->end_pfn - x->start_pfn, y_pages = y->end_pfn - y->start_pfn;

	if (x_pages != y_pages)
		return x_pages < y_pages ? -1 : 1;
	if (x->start_pfn != y->start_pfn)
		return x->start_pfn < y->start_pfn ? -1 : 1;
	return x->nid < y->nid ? -1 : x->nid > y->nid;
}

/* All zones with memory, the shortest first. None when zoneinfo can't be read or made out. 0 or -errno. */
static int read_zones(const struct fsroot *root, struct zone_list *ret)
{
	_cleanup_free_ char *text = NULL;
	int r;

	r = fsroot_read_alloc(root, &text, "proc/zoneinfo");
	if (r >= 0)
		r = zoneinfo_parse(text, (size_t)r, add_zone, ret);
	if (r < 0) {
		ret->n = 0;
		return topology_is_fatal(r) ? r : 0;
	}
	if (ret->n)
		qsort(ret->zones, ret->n, sizeof(*ret->zones), compare_zones);
	return 0;
}

/* Without memory blocks (no CONFIG_MEMORY_HOTPLUG) the zones say where memory is: holes count as their node's. */
static int link_from_zones(struct topology_snapshot *s, const struct zone_list *list)
{
	struct topology_map *map = &s->map;
	uint64_t total = 0;
	int r;

	for (size_t i = 0; i < list->n; i++) {
		const struct topology_range *zone = &list->zones[i];
		uint64_t first = zone->start_pfn >> map->block_shift, last = (zone->end_pfn - 1) >> map->block_shift;

		total += last - first + 1;
		if (total > ZONE_BLOCKS_MAX || last >= (UINT64_C(1) << TOPOLOGY_PHYS_BITS) / s->pub.block_bytes)
			return 0;
		if (s->index[zone->nid] < 0)
			continue;
		for (uint64_t block = first; block <= last; block++) {
			r = link_block(map, block, zone->nid);
			if (r < 0)
				return r;
		}
	}
	return 0;
}

static int compare_shared(const void *a, const void *b)
{
	const struct topology_shared *x = a, *y = b;

	return x->block < y->block ? -1 : x->block > y->block;
}

/* By block rather than in the order in which folders list them, so that the same machine gives the same map. */
static void sort_shared(struct topology_map *map)
{
	if (map->n_shared)
		qsort(map->shared, map->n_shared, sizeof(*map->shared), compare_shared);
	for (size_t i = 0; i < map->n_shared; i++)
		*find_entry(map, map->shared[i].block) = (int16_t)TOPOLOGY_SHARED((int)i);
}

/* The zones in @shared of each of its nodes. Without zones it has none, and its pages are of no known node. */
static int divide_shared(struct topology_map *map, struct topology_shared *shared, const struct zone_list *list)
{
	uint64_t start = shared->block * block_pages(map), end = start + block_pages(map);

	shared->first = map->n_ranges;
	for (size_t i = 0; i < list->n; i++) {
		const struct topology_range *zone = &list->zones[i];
		struct topology_range *more;

		if (zone->start_pfn >= end || zone->end_pfn <= start || !nodeset_has(&shared->nodes, zone->nid))
			continue;
		more = realloc(map->ranges, (map->n_ranges + 1) * sizeof(*more));
		if (!more)
			return -ENOMEM;
		map->ranges = more;
		map->ranges[map->n_ranges++] = *zone;
		shared->n++;
	}
	return 0;
}

static void widen(struct topology_node *node, uint64_t start_pfn, uint64_t end_pfn)
{
	if (node->start_pfn == node->end_pfn || start_pfn < node->start_pfn)
		node->start_pfn = start_pfn;
	if (end_pfn > node->end_pfn)
		node->end_pfn = end_pfn;
}

static void find_spans(struct topology_snapshot *s)
{
	const struct topology_map *map = &s->map;

	for (size_t leaf = 0; leaf < map->n_leaves; leaf++) {
		for (size_t i = 0; map->leaves[leaf] && i < LEAF_BLOCKS; i++) {
			uint64_t start = (leaf * LEAF_BLOCKS + i) * block_pages(map), end = start + block_pages(map);
			int16_t entry = map->leaves[leaf][i];

			if (entry >= 0)
				widen(&s->pub.nodes[s->index[entry]], start, end);
			if (entry >= TOPOLOGY_NO_NODE)
				continue;
			nodeset_for_each (nid, &map->shared[TOPOLOGY_SHARED(entry)].nodes)
				widen(&s->pub.nodes[s->index[nid]], start, end);
		}
	}
}

int topology_memory_read(struct topology_snapshot *s, const struct fsroot *root)
{
	struct topology_map *map = &s->map;
	struct zone_list list = { NULL, 0 };
	uint64_t bytes;
	bool any = false;
	int r;

	r = fsroot_read_u64(root, &bytes, 16, MEMORY_PATH "/block_size_bytes");
	if (topology_is_fatal(r))
		return r;
	/* Smaller than 2 MiB or larger than 64 GiB is none that a kernel chooses. */
	bool known = r == 0 && bytes >= UINT64_C(2) << 20 && bytes <= UINT64_C(64) << 30 && (bytes & (bytes - 1)) == 0;

	s->pub.block_bytes = known ? bytes : TOPOLOGY_BLOCK_BYTES;
	map->block_shift = (unsigned int)__builtin_ctzll(s->pub.block_bytes / s->page_bytes);
	r = known ? read_blocks(s, root, &any) : 0;
	/* zoneinfo costs the kernel a walk over all CPUs' page sets, so only where it is needed. */
	if (r == 0 && (!any || map->n_shared > 0))
		r = read_zones(root, &list);
	if (r == 0 && !any)
		r = link_from_zones(s, &list);
	sort_shared(map);
	for (size_t i = 0; i < map->n_shared && r == 0; i++)
		r = divide_shared(map, &map->shared[i], &list);
	if (r == 0)
		find_spans(s);
	s->pub.blocks =
		(struct topology_blocks){ .shift = map->block_shift, .n_leaves = map->n_leaves, .leaves = map->leaves };
	free(list.zones);
	return r;
}

void topology_memory_free(struct topology_map *map)
{
	for (size_t i = 0; i < map->n_leaves; i++)
		free(map->leaves[i]);
	free(map->leaves);
	free(map->shared);
	free(map->ranges);
}

int topology_pfn_node(const struct topology *topology, uint64_t pfn)
{
	const struct topology_map *map = &topology_snapshot(topology)->map;
	const int16_t *entry = find_entry(map, pfn >> map->block_shift);
	const struct topology_shared *shared;

	if (!entry || *entry == TOPOLOGY_NO_NODE)
		return -ENOENT;
	if (*entry >= 0)
		return *entry;
	/* A handful: as many as the block's nodes have zones there. */
	shared = &map->shared[TOPOLOGY_SHARED(*entry)];
	for (size_t i = 0; i < shared->n; i++) {
		const struct topology_range *range = &map->ranges[shared->first + i];

		if (pfn >= range->start_pfn && pfn < range->end_pfn)
			return range->nid;
	}
	return -ENOENT;
}

bool topology_memory_equal(const struct topology_map *a, const struct topology_map *b)
{
	if (a->block_shift != b->block_shift || a->n_leaves != b->n_leaves || a->n_shared != b->n_shared ||
	    a->n_ranges != b->n_ranges)
		return false;
	for (size_t i = 0; i < a->n_leaves; i++) {
		if (!a->leaves[i] != !b->leaves[i])
			return false;
		if (a->leaves[i] && memcmp(a->leaves[i], b->leaves[i], LEAF_BLOCKS * sizeof(*a->leaves[i])) != 0)
			return false;
	}
	for (size_t i = 0; i < a->n_shared; i++)
		if (a->shared[i].block != b->shared[i].block ||
		    !nodeset_equal(&a->shared[i].nodes, &b->shared[i].nodes))
			return false;
	for (size_t i = 0; i < a->n_ranges; i++)
		if (a->ranges[i].start_pfn != b->ranges[i].start_pfn || a->ranges[i].end_pfn != b->ranges[i].end_pfn ||
		    a->ranges[i].nid != b->ranges[i].nid)
			return false;
	return true;
}
