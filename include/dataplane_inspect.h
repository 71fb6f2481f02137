/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * dataplane_inspect: what the data plane knows of one process, one region, or all of them, for people. Looks only; no
 * stage waits for it. The main thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct config;
struct dataplane;
struct nodeset;

/* So many regions are looked at; where there are more, an even part of them. */
#define DATAPLANE_REGIONS_MAX 131072

struct dataplane_region {
	uint32_t pid;
	uint32_t owner_slot; /* tells processes apart that had the same pid */
	uint64_t addr;       /* of 2 MiB */
	uint64_t page_bytes; /* of its mapping */
	uint64_t nodes;      /* bit n: seen on node n; bit 63: on that or a higher one */
	uint64_t idle_ns;    /* since its last sample */
	uint64_t watched_ns; /* that its later samples took */
	double rate_per_sec; /* samples, since it is watched */
	uint32_t decision;   /* see evidence.h */
	uint16_t samples, seconds, pages;
};

/*
 * Regions of @pid, of all with 0, in no order, up to @max. Those of one in @ret_parts of the tables: 1 is all of them.
 * Returns how many. Up to some 20 ms.
 */
size_t dataplane_regions(const struct dataplane *dp, uint32_t pid, uint64_t now_ns, struct dataplane_region *ret,
			 size_t max, uint32_t *ret_parts);

struct dataplane_explained {
	uint32_t pid;
	char comm[16];
	uint64_t regions, bytes, hot_bytes, evicted;
	const char *verdict; /* "move", "observe", "leave", "wait" */
	const char *left;    /* why it is left, as in left_alone; "" when it isn't */
	int rule;            /* index of the rule that holds; -1: none */
	bool has_region;
	struct dataplane_region region;
	bool has_reason;    /* false: policy page, or a pass was under way */
	const char *reason; /* enum policy_region_reason as a word */
	double share;       /* of its pages that is hot, expected; 0..1 */
	double rate, threshold;
};

/*
 * What is known of @pid, and with @addr not 0 of the region there. false: nothing is known of that process. @lower:
 * slow nodes.
 */
bool dataplane_explain(const struct dataplane *dp, uint32_t pid, uint64_t addr, const struct config *config,
		       const struct nodeset *lower, uint64_t now_ns, struct dataplane_explained *ret);

/* Name of a process that is known, by its owner_slot; false: it is gone. */
bool dataplane_owner_name(const struct dataplane *dp, uint32_t owner_slot, char comm[16]);
