/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topology_internal.h"

/*
 * When the kernel sees one tier, what firmware says is all there is. A node counts as slower
 *
 * - by HMAT, where every node has a latency: 1.3 times the latency of the fastest node with CPUs, or more.
 * High-bandwidth memory is spared, which has its latency for its bandwidth: a node that reads faster than the fast one
 * is not slow.
 * - by SLIT, else: no CPUs, and further than local from each CPU. A node whose distances all occur between nodes with
 *   CPUs too is spared: that is how DRAM of another socket looks whose CPUs are off, and nothing tells the two apart.
 *   Not so memory that the dax driver onlined, which is never a socket's DRAM.
 *
 * Slow nodes make tiers of their own in steps of the same 1.3.
 */
#define SLOWER_NUM 13u
#define SLOWER_DEN 10u

static bool is_slower(uint32_t score, uint32_t base)
{
	return (uint64_t)score * SLOWER_DEN >= (uint64_t)base * SLOWER_NUM;
}

struct candidate {
	int nid;
	uint32_t score;
};

static int compare_candidates(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	if (x->score != y->score)
		return x->score < y->score ? -1 : 1;
	return x->nid < y->nid ? -1 : x->nid > y->nid;
}

/* Sort the slow ones into tiers behind the first. */
static void make_tiers(struct topology_guess *guess, struct candidate *slow, size_t n)
{
	uint32_t first = 0;

	if (n == 0)
		return;
	qsort(slow, n, sizeof(*slow), compare_candidates);
	guess->slow_score = slow[0].score;
	for (size_t i = 0; i < n; i++) {
		if (i == 0 || (is_slower(slow[i].score, first) && guess->n_tiers < TOPOLOGY_TIERS_MAX)) {
			first = slow[i].score;
			guess->n_tiers++;
		}
		nodeset_add(&guess->tiers[guess->n_tiers - 1], slow[i].nid);
		nodeset_del(&guess->tiers[0], slow[i].nid);
		nodeset_add(&guess->slow, slow[i].nid);
	}
}

static const struct topology_node *node_of(const struct topology_snapshot *s, int nid)
{
	return &s->pub.nodes[s->index[nid]];
}

static bool all_have_latency(const struct topology_snapshot *s, const struct nodeset *usable)
{
	nodeset_for_each (nid, usable)
		if (node_of(s, nid)->read_latency_ns == 0)
			return false;
	return !nodeset_is_empty(usable);
}

static size_t find_slow_by_hmat(const struct topology_snapshot *s, const struct nodeset *usable,
				struct topology_guess *guess, struct candidate *slow)
{
	const struct topology_node *base = NULL;
	size_t n = 0;

	/* The fastest with CPUs; where no node has both CPUs and memory, the fastest of all. */
	nodeset_for_each (nid, usable) {
		const struct topology_node *node = node_of(s, nid);

		if (!base || node->has_cpu > base->has_cpu ||
		    (node->has_cpu == base->has_cpu && node->read_latency_ns < base->read_latency_ns))
			base = node;
	}
	assert(base);
	guess->origin = TIERS_GUESSED_HMAT;
	guess->fast_score = base->read_latency_ns;
	nodeset_for_each (nid, usable) {
		const struct topology_extra *extra = &s->extra[s->index[nid]];
		uint32_t ns = node_of(s, nid)->read_latency_ns;

		if (is_slower(ns, base->read_latency_ns) &&
		    extra->read_mib_per_sec <= s->extra[s->index[base->nid]].read_mib_per_sec)
			slow[n++] = (struct candidate){ nid, ns };
	}
	return n;
}

/* From the nearest CPU to @nid; 0: unknown. */
static uint32_t cpu_distance(const struct topology_snapshot *s, int nid)
{
	uint32_t least = 0;

	for (size_t i = 0; i < s->pub.n_nodes; i++) {
		uint32_t d = s->distance[i * s->pub.n_nodes + (size_t)s->index[nid]];

		if (s->pub.nodes[i].has_cpu && d != 0 && (least == 0 || d < least))
			least = d;
	}
	return least;
}

/* Every distance from a node with CPUs to @nid is one that two such nodes have between them. */
static bool looks_like_a_socket(const struct topology_snapshot *s, int nid, const bool between_cpus[UINT8_MAX + 1])
{
	for (size_t i = 0; i < s->pub.n_nodes; i++)
		if (s->pub.nodes[i].has_cpu && !between_cpus[s->distance[i * s->pub.n_nodes + (size_t)s->index[nid]]])
			return false;
	return true;
}

static size_t find_slow_by_slit(const struct topology_snapshot *s, const struct nodeset *usable,
				struct topology_guess *guess, struct candidate *slow)
{
	bool between_cpus[UINT8_MAX + 1] = { false };
	uint32_t base = 0;
	size_t n = 0;

	for (size_t i = 0; i < s->pub.n_nodes; i++)
		for (size_t j = 0; j < s->pub.n_nodes; j++)
			if (i != j && s->pub.nodes[i].has_cpu && s->pub.nodes[j].has_cpu)
				between_cpus[s->distance[i * s->pub.n_nodes + j]] = true;
	between_cpus[0] = false;
	/* 10 where a node has both CPUs and memory. */
	nodeset_for_each (nid, usable) {
		uint32_t d = cpu_distance(s, nid);

		if (d != 0 && (base == 0 || d < base))
			base = d;
	}
	guess->origin = TIERS_GUESSED_SLIT;
	guess->fast_score = base;
	nodeset_for_each (nid, usable) {
		uint32_t d = cpu_distance(s, nid);

		if (node_of(s, nid)->has_cpu || d <= base)
			continue;
		if (!s->extra[s->index[nid]].is_kmem && looks_like_a_socket(s, nid, between_cpus))
			continue;
		slow[n++] = (struct candidate){ nid, d };
	}
	return n;
}

void topology_guess(const struct topology_snapshot *s, const struct nodeset *usable, struct topology_guess *ret)
{
	struct candidate slow[NODE_MAX];
	size_t n;

	*ret = (struct topology_guess){ .n_tiers = 1, .tiers = { *usable } };
	n = all_have_latency(s, usable) ? find_slow_by_hmat(s, usable, ret, slow)
					: find_slow_by_slit(s, usable, ret, slow);
	make_tiers(ret, slow, n);
}

struct text {
	char *buf;
	size_t size, len;
	bool cut;
};

__attribute__((format(printf, 2, 3))) static void say(struct text *t, const char *fmt, ...)
{
	va_list ap;
	int n;

	if (t->cut)
		return;
	va_start(ap, fmt);
	n = vsnprintf(t->buf + t->len, t->size - t->len, fmt, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= t->size - t->len) {
		t->buf[t->len] = '\0';
		t->cut = true;
		return;
	}
	t->len += (size_t)n;
}

/* "node 1", "nodes 1-2", or "100 nodes" where the list is too long to be read. */
static void say_nodes(struct text *t, const struct nodeset *nodes)
{
	char list[64];

	if (nodeset_format(nodes, list, sizeof(list)) < 0)
		say(t, "%d nodes", nodeset_count(nodes));
	else
		say(t, "node%s %s", nodeset_count(nodes) == 1 ? "" : "s", list);
}

/* tiers = ( "0", "1" ); whole, or not at all. */
static bool say_line(struct text *t, const struct topology_guess *guess)
{
	struct text before = *t;
	char list[256];

	say(t, "tiers = ( ");
	for (int i = 0; i < guess->n_tiers; i++) {
		if (nodeset_format(&guess->tiers[i], list, sizeof(list)) < 0)
			t->cut = true;
		else
			say(t, "%s\"%s\"", i ? ", " : "", list);
	}
	say(t, " );");
	if (!t->cut)
		return true;
	before.buf[before.len] = '\0';
	*t = before;
	return false;
}

void topology_advise(struct topology_snapshot *s, const struct topology_guess *guess, int kernel_tiers)
{
	struct text t = { .buf = s->pub.advice, .size = sizeof(s->pub.advice) };
	bool one = nodeset_count(&guess->slow) == 1, without_cpus = true;
	struct nodeset all = guess->tiers[0];

	nodeset_or(&all, &guess->slow);
	nodeset_for_each (nid, &guess->slow)
		if (node_of(s, nid)->has_cpu)
			without_cpus = false;
	if (kernel_tiers == 0) {
		say(&t, "this kernel shows no memory tiers");
	} else if (kernel_tiers == 1) {
		say(&t, "the kernel, by what firmware and drivers tell it, puts ");
		say_nodes(&t, &all);
		say(&t, " into one memory tier");
	} else {
		say(&t, "the kernel, by what firmware and drivers tell it, puts slow memory into a fast tier or none");
	}
	say(&t, ", although ");
	say_nodes(&t, &guess->slow);
	if (without_cpus)
		say(&t, one ? " has no CPUs and" : " have no CPUs and");
	if (guess->origin == TIERS_GUESSED_HMAT)
		say(&t, " %s%u ns to read (fast memory: %u ns)", one ? "takes " : "take at least ", guess->slow_score,
		    guess->fast_score);
	else
		say(&t, " %s at distance %u%s from the nearest CPU (near memory: %u)", one ? "is" : "are",
		    guess->slow_score, one ? "" : " or more", guess->fast_score);
	say(&t, kernel_tiers > 1 ? "; the kernel's tiers are used as they are. If this memory is slow, set: "
				 : "; nothing is moved on such a guess. If this memory is slow, set: ");
	if (!say_line(&t, guess))
		say(&t, "tiers = ( ... ); with a list of nodes for each tier, fastest first");
}
