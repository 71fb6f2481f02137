/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "parse.h"
#include "topology_internal.h"

#define TIERS_PATH "sys/devices/virtual/memory_tiering"

__attribute__((format(printf, 3, 4))) static int refuse(char *error, size_t size, const char *fmt, ...)
{
	va_list ap;

	if (error && size) {
		va_start(ap, fmt);
		vsnprintf(error, size, fmt, ap);
		va_end(ap);
	}
	return -EINVAL;
}

/* Nodes with memory: named ones (the configuration may use a device's) or all that are the machine's own. */
static void find_usable(const struct topology_snapshot *s, bool devices, struct nodeset *ret)
{
	nodeset_clear(ret);
	for (size_t i = 0; i < s->pub.n_nodes; i++)
		if (s->pub.nodes[i].has_memory && (devices || !s->pub.nodes[i].is_device))
			nodeset_add(ret, s->pub.nodes[i].nid);
}

static const char *online_text(const struct topology_snapshot *s, char buf[256])
{
	struct nodeset online = { 0 };

	for (size_t i = 0; i < s->pub.n_nodes; i++)
		nodeset_add(&online, s->pub.nodes[i].nid);
	return nodeset_format(&online, buf, 256) < 0 ? "many" : buf;
}

/* The nodes of one list of tiers = (...), checked; those that are not there are left out where that is allowed. */
static int take_list(const struct topology_snapshot *s, const struct topology_options *options, int i,
		     struct nodeset *ret, struct nodeset *missing, char *error, size_t error_size)
{
	struct nodeset usable;
	char online[256];

	if (nodeset_parse(ret, options->tiers[i]) < 0)
		return refuse(error, error_size,
			      "tiers: \"%.64s\" is not a list of nodes (as in \"0-1,4\", at most %d)",
			      options->tiers[i], NODE_MAX - 1);
	if (nodeset_is_empty(ret))
		return refuse(error, error_size, "tiers: list %d names no node", i + 1);
	find_usable(s, true, &usable);
	nodeset_for_each (nid, ret) {
		if (nodeset_has(&usable, nid))
			continue;
		if (options->allow_missing) {
			nodeset_add(missing, nid);
			nodeset_del(ret, nid);
			continue;
		}
		if (s->index[nid] < 0)
			return refuse(error, error_size, "tiers: this machine has no node %d (it has %s)", nid,
				      online_text(s, online));
		return refuse(error, error_size,
			      "tiers: node %d has no memory; if it is CXL memory, it may have to be onlined first",
			      nid);
	}
	return 0;
}

static int take_config(struct topology_snapshot *s, const struct topology_options *options, char *error,
		       size_t error_size)
{
	struct nodeset named = { 0 }, missing = { 0 };
	char list[256];
	int r;

	s->pub.origin = TIERS_FROM_CONFIG;
	for (int i = 0; i < options->n_tiers; i++) {
		struct nodeset nodes;

		r = take_list(s, options, i, &nodes, &missing, error, error_size);
		if (r < 0)
			return r;
		nodeset_for_each (nid, &nodes)
			if (nodeset_has(&named, nid))
				return refuse(error, error_size, "tiers: node %d stands in two tiers", nid);
		nodeset_or(&named, &nodes);
		if (nodeset_is_empty(&nodes))
			continue;
		s->pub.tiers[s->pub.n_tiers++] = (struct topology_tier){ .nodes = nodes, .kernel_id = -1 };
	}
	if (!nodeset_is_empty(&missing))
		snprintf(s->pub.advice, sizeof(s->pub.advice),
			 "tiers = ( ... ) names node%s %s, with no memory now; used as soon as there is some",
			 nodeset_count(&missing) == 1 ? "" : "s",
			 nodeset_format(&missing, list, sizeof(list)) < 0 ? "several" : list);
	return 0;
}

struct kernel_ctx {
	const struct fsroot *root;
	int tier_of[NODE_MAX]; /* N of memory_tierN, -1: in none */
};

static int read_kernel_tier(void *ctx, const char *name)
{
	struct kernel_ctx *c = ctx;
	struct nodeset nodes;
	char list[8192];
	uint64_t id;
	int r;

	if (strncmp(name, "memory_tier", 11) != 0 || parse_u64(name + 11, 0, INT32_MAX, &id) < 0)
		return 0;
	r = fsroot_read(c->root, list, sizeof(list), TIERS_PATH "/%s/nodelist", name);
	if (r >= 0 && strlen(list) == (size_t)r && nodeset_parse(&nodes, list) == 0) {
		/* In two tiers is a node that moves while we read. The slower one, so that folder order decides
		 * nothing. */
		nodeset_for_each (nid, &nodes)
			if ((int)id > c->tier_of[nid])
				c->tier_of[nid] = (int)id;
	}
	return topology_is_fatal(r) ? r : 0;
}

/* Smallest number of a tier above @after that has a usable node; -1: none. */
static int next_kernel_tier(const struct kernel_ctx *c, const struct nodeset *usable, int after)
{
	int next = -1;

	nodeset_for_each (nid, usable)
		if (c->tier_of[nid] > after && (next < 0 || c->tier_of[nid] < next))
			next = c->tier_of[nid];
	return next;
}

/*
 * The kernel's tiers, sorted by number: the smaller the faster (sysfs-kernel-mm-memory-tiers). Numbers have gaps, and
 * sorting their text would put 22 before 4. Tiers without usable nodes are none. Beyond the most that we keep, the
 * slowest are one.
 */
static int take_kernel(struct topology_snapshot *s, const struct fsroot *root, const struct nodeset *usable)
{
	struct kernel_ctx ctx = { .root = root };
	int r;

	for (int nid = 0; nid < NODE_MAX; nid++)
		ctx.tier_of[nid] = -1;
	r = fsroot_for_each(root, read_kernel_tier, &ctx, TIERS_PATH);
	if (topology_is_fatal(r))
		return r;
	for (int id = next_kernel_tier(&ctx, usable, -1); id >= 0; id = next_kernel_tier(&ctx, usable, id)) {
		if (s->pub.n_tiers < TOPOLOGY_TIERS_MAX)
			s->pub.tiers[s->pub.n_tiers++] = (struct topology_tier){ .kernel_id = id };
		nodeset_for_each (nid, usable)
			if (ctx.tier_of[nid] == id)
				nodeset_add(&s->pub.tiers[s->pub.n_tiers - 1].nodes, nid);
	}
	return 0;
}

/* A guess, or everything in one tier; @kernel_tiers is 0 or 1. */
static void take_guess(struct topology_snapshot *s, const struct topology_guess *guess, int kernel_tiers)
{
	/* The kernel's one tier keeps its name, with the nodes that it left out. */
	int id = kernel_tiers == 1 && guess->n_tiers == 1 ? s->pub.tiers[0].kernel_id : -1;

	s->pub.origin = guess->n_tiers > 1 ? guess->origin : TIERS_ONE;
	s->pub.observe_only = guess->n_tiers > 1;
	s->pub.n_tiers = nodeset_is_empty(&guess->tiers[0]) ? 0 : guess->n_tiers;
	for (int i = 0; i < s->pub.n_tiers; i++)
		s->pub.tiers[i] = (struct topology_tier){ .nodes = guess->tiers[i], .kernel_id = id };
	if (guess->n_tiers > 1)
		topology_advise(s, guess, kernel_tiers);
}

/* Tier of each node; top and lower, by the fastest tier that holds a CPU (where none does: the fastest). */
static void place_nodes(struct topology_snapshot *s)
{
	int top = -1;

	for (int i = 0; i < s->pub.n_tiers; i++) {
		nodeset_for_each (nid, &s->pub.tiers[i].nodes) {
			struct topology_node *node = &s->pub.nodes[s->index[nid]];

			node->tier = i;
			if (node->has_cpu && top < 0)
				top = i;
		}
	}
	if (top < 0)
		top = 0;
	for (int i = 0; i < s->pub.n_tiers; i++)
		nodeset_or(i <= top ? &s->pub.top : &s->pub.lower, &s->pub.tiers[i].nodes);
}

/* The slowest tier has no faster nodes' pages to take: nothing could be promoted to a target in it. */
static int check_target(const struct topology_snapshot *s, const struct topology_options *options, char *error,
			size_t error_size)
{
	const struct topology_node *node;
	int nid = options->target_nid;
	char online[256];

	if (nid == -1)
		return 0;
	node = topology_node(&s->pub, nid);
	if (options->allow_missing && (!node || !node->has_memory))
		return 0;
	if (!node)
		return refuse(error, error_size, "target_nid: this machine has no node %d (it has %s)", nid,
			      online_text(s, online));
	if (!node->has_memory)
		return refuse(error, error_size, "target_nid: node %d has no memory", nid);
	if (node->tier < 0)
		return refuse(error, error_size,
			      "target_nid: node %d is in no tier; name it in tiers = ( ... ) to use it", nid);
	if (!nodeset_is_empty(&s->pub.lower) && node->tier == s->pub.n_tiers - 1)
		return refuse(error, error_size,
			      "target_nid: node %d is in the slowest tier, so nothing can go up to it", nid);
	return 0;
}

int topology_tiers_build(struct topology_snapshot *s, const struct fsroot *root, const struct topology_options *options,
			 char *error, size_t error_size)
{
	struct topology_guess guess;
	struct nodeset usable, unsaid;
	int r;

	if (options->n_tiers < 0 || options->n_tiers > TOPOLOGY_TIERS_MAX)
		return refuse(error, error_size, "tiers: at most %d lists", TOPOLOGY_TIERS_MAX);
	if (options->n_tiers > 0) {
		r = take_config(s, options, error, error_size);
		if (r < 0)
			return r;
		place_nodes(s);
		return check_target(s, options, error, error_size);
	}
	find_usable(s, false, &usable);
	r = take_kernel(s, root, &usable);
	if (r < 0)
		return r;
	topology_guess(s, &usable, &guess);
	if (s->pub.n_tiers > 1)
		s->pub.origin = TIERS_FROM_KERNEL;
	else
		take_guess(s, &guess, s->pub.n_tiers);
	place_nodes(s);
	/* The kernel has tiers, but a node that looks slow is in a fast one, or in none. */
	unsaid = guess.slow;
	nodeset_andnot(&unsaid, &s->pub.lower);
	if (s->pub.origin == TIERS_FROM_KERNEL && !nodeset_is_empty(&unsaid))
		topology_advise(s, &guess, s->pub.n_tiers);
	return check_target(s, options, error, error_size);
}
