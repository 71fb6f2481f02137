/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sim_place: where each page of a scenario is, and what follows from it: how many accesses go to which node, how much
 * of the hot set is near, what was moved that isn't hot. Kept up page by page, so that asking costs nothing.
 *
 * Beside the pages as they are it keeps them as they would be if nothing had been moved: the yardstick.
 *
 * A page has one physical address for each node that it may be on: each node has room for all of them in the physical
 * address space, not in its memory.
 *
 * Owner   the one thread of the simulator
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim_pattern.h"
#include "sim_scenario.h"

#define SIM_NOWHERE     UINT8_MAX
#define SIM_BACK_SEC    60                  /* a page that is moved back so soon was moved in vain */
#define SIM_BLOCK_BYTES (UINT64_C(2) << 30) /* a memory block, as on machines with 64 GiB and more */

/* One memory of the scenario, in pages of 4 KiB. */
struct sim_area {
	uint64_t first, pages; /* @first begins a region */
	/* What is known of it. */
	uint64_t hot, hot_near, hot_decided;
	uint64_t cold_moved; /* near, not hot, and they weren't there at the start */
	uint64_t moved;      /* to a faster node, ever; a page may count more than once */
};

struct sim_place {
	const struct sim_scenario *scenario;
	size_t n_nodes, n_patterns, n_areas;
	uint64_t pages, regions;
	struct sim_area area[SIM_MEMORIES_MAX];
	struct sim_pattern pattern[SIM_ACCESSES_MAX]; /* by number of the access */
	size_t area_of_access[SIM_ACCESSES_MAX];
	uint8_t *node[2];            /* of each page: as it is, and as it would be */
	uint16_t *region_node[2];    /* pages of region r on node n at r * n_nodes + n */
	uint64_t *huge;              /* a bit for each region */
	uint64_t *hot, *decided;     /* a bit for each page */
	uint16_t *moved_sec;         /* second of its last move to another tier, and 1; 0: never */
	uint64_t back_up, back_down; /* pages that came near, that went, less than SIM_BACK_SEC after the opposite */
	double sec;
	uint64_t node_pages[SIM_NODES_MAX];
	uint64_t used[2][SIM_NODES_MAX];
	double mass[2][SIM_ACCESSES_MAX][SIM_NODES_MAX];
	bool near[SIM_NODES_MAX];
	uint64_t near_room; /* pages that the near nodes hold with the headroom of the configuration kept free */
	/* Of the oracle, for the accesses as they are now. */
	double oracle_hit_ratio;
	uint64_t hot_pages;
};

/* Lay out and place everything, for time 0. 0, or -ENOMEM, or -EINVAL with one line in @error. */
int sim_place_init(struct sim_place *place, const struct sim_scenario *scenario, char *error);
void sim_place_free(struct sim_place *place);

/* Another distribution holds: hot set, sums and oracle anew. Costs a look at each page. 0 or -ENOMEM. */
int sim_place_rate(struct sim_place *place);

/* Go to time @sec: patterns change their place, sweeps fill what they come over. 0 or -ENOMEM. */
int sim_place_at(struct sim_place *place, double sec);

/*
 * Move @page to @node, or all 512 of its huge page. It must be somewhere. Whether there is room is the caller's to
 * know. Counts as moved when it gets faster by it.
 */
void sim_place_move(struct sim_place *place, uint64_t page, int node);

bool sim_place_is_huge(const struct sim_place *place, uint64_t page);
bool sim_place_is_hot(const struct sim_place *place, uint64_t page);

/* The policy has decided that @page is to be near. */
void sim_place_decide(struct sim_place *place, uint64_t page);

/* Free pages of @node, now. */
uint64_t sim_place_free_pages(const struct sim_place *place, int node);

/* Shares of the accesses from @from_sec to @to_sec by node, of all 1; @which 0: as it is, 1: had nothing been moved. */
void sim_place_shares(const struct sim_place *place, int which, double from_sec, double to_sec,
		      double ret[SIM_NODES_MAX]);

/* Of the accesses of @process alone, as it is; all 0 when it makes none. */
void sim_place_process_shares(const struct sim_place *place, int64_t process, double from_sec, double to_sec,
			      double ret[SIM_NODES_MAX]);

/* Probability that an access goes to @page. */
double sim_place_share(const struct sim_place *place, uint64_t page);

/*
 * What moving is good for, of the pages for which @moves says yes: share of their accesses to slow nodes that are saved
 * against nothing having been moved. By the accesses of the moment; 0 when there were none. In sim_place_rate.c; costs
 * a look at each page.
 */
double sim_place_saved(const struct sim_place *place,
		       bool (*moves)(const struct sim_place *place, uint64_t page, const void *ctx), const void *ctx);

/* The number of the memory that holds @page. */
size_t sim_place_area(const struct sim_place *place, uint64_t page);

/* Addresses. */
uint64_t sim_place_addr(uint64_t page);
uint64_t sim_place_page(uint64_t addr);                        /* of a virtual address; UINT64_MAX: none */
uint64_t sim_place_block_pages(const struct sim_place *place); /* of physical space for each node, whole blocks */
uint64_t sim_place_phys(const struct sim_place *place, uint64_t page);
