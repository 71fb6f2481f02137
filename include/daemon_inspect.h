/* SPDX-License-Identifier: GPL-2.0-or-later */
/* daemon_inspect: answers to who asks about a process, a region or the map. Main thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bus.h"

struct dataplane_region;

#define HEAT_CELLS 64 /* of a row */
#define HEAT_ROWS  16
#define HEAT_LIST  32 /* hottest regions that are listed */

/* What bus_ops.ask does; @ctx is the struct daemon. */
int daemon_ask(void *ctx, const struct bus_peer *peer, enum bus_question question, const char *first,
	       const char *second, char **ret, char *error);

struct heat_params {
	uint32_t pid;         /* one process, by address; 0: all, each in a row */
	int nid;              /* seen on that node only; -1: on any */
	uint64_t lower_nodes; /* as nodes of a region: which are slow */
	uint32_t parts;       /* the regions are one in so many */
	void *ctx;
	bool (*name)(void *ctx, uint32_t owner_slot, char comm[16]);
	bool (*may_trace)(void *ctx, uint32_t pid);
};

/*
 * The map as a document (free it; NULL: no memory) of @regions, which it sorts: {schema, pid, node (-1: all), parts,
 * regions, rows[] {pid, name, from, to (addresses; null: not for this person, or many mappings), regions, far_regions,
 * rate_per_sec, cells[][3] {regions, of these on a slow node, samples in 1000 s}}, hottest[] {pid, name, address (or
 * null), rate_per_sec, pages, page_bytes, idle_ns, far, decided ("", "whole", "pages", "picked"), done}}. A row is cut
 * into cells by address where it is one process, else by the order of its regions. At most HEAT_ROWS rows, the hottest
 * first (of one process: by address, the hottest kept).
 */
char *daemon_heat_json(struct dataplane_region *regions, size_t n, const struct heat_params *params);
