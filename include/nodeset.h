/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * nodeset: a set of NUMA node ids, and the kernel's list format ("0-1,4"), for nodes and for CPUs. Plain values, no
 * allocation. Any thread; a set is not shared without its owner's care.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The record layout has 10 bits for a node, and so has the kernel (CONFIG_NODES_SHIFT is at most 10). */
#define NODE_MAX 1024

struct nodeset {
	uint64_t bits[NODE_MAX / 64];
};

void nodeset_clear(struct nodeset *set);
/* @nid must be 0..NODE_MAX-1: whoever has it from a file checks it first. */
void nodeset_add(struct nodeset *set, int nid);
/* No effect for an id that is no member, or outside 0..NODE_MAX-1. */
void nodeset_del(struct nodeset *set, int nid);
/* false for an id outside 0..NODE_MAX-1. */
bool nodeset_has(const struct nodeset *set, int nid);
bool nodeset_is_empty(const struct nodeset *set);
int nodeset_count(const struct nodeset *set);
void nodeset_or(struct nodeset *set, const struct nodeset *other);
void nodeset_andnot(struct nodeset *set, const struct nodeset *other);
bool nodeset_equal(const struct nodeset *a, const struct nodeset *b);
bool nodeset_intersects(const struct nodeset *a, const struct nodeset *b);

/* Smallest member that is at least @from, or -1. */
int nodeset_next(const struct nodeset *set, int from);
#define nodeset_for_each(nid, set) for (int nid = nodeset_next(set, 0); nid >= 0; nid = nodeset_next(set, nid + 1))

/* Parse the kernel's list format: "0-1,4", "" is the empty set. 0, -EINVAL, or -ERANGE for an id of NODE_MAX or more.
 */
int nodeset_parse(struct nodeset *ret, const char *text);

/* Write "0-1,4" to @buf. Returns the length, or -ENOSPC (@buf then holds "" only). */
int nodeset_format(const struct nodeset *set, char *buf, size_t size);

/*
 * Walk a list in the kernel's format with ids of any size (CPU lists), calling @fn for each id in order of
 * appearance until it returns non-zero, which is returned. -EINVAL on a malformed list, -ERANGE for an id over @max
 * (0..INT_MAX); @fn is then not called at all. "" is the empty list.
 */
int idlist_for_each(const char *text, int max, int (*fn)(void *ctx, int id), void *ctx);
