/* SPDX-License-Identifier: GPL-2.0-or-later */
/* hotness_regions: what a policy that decides by region, and the migrators that act on it, read and write. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "evidence.h"

struct hotness;

/*
 * Regions whose decisions a policy makes. While this is off, no collector looks at decisions. Any thread.
 */
void hotness_set_by_region(struct hotness *hotness, bool on);
bool hotness_is_by_region(const struct hotness *hotness);

/* All that a policy may know of a region: a copy. */
struct hotness_view {
	uint64_t key; /* grows by owner, then by address: as in regions.h */
	uint32_t slot;
	uint32_t decision;
	uint64_t nodes;
	uint64_t idle_ns;
	uint64_t page_bytes; /* as the last sample said */
	uint16_t pages;      /* distinct ones that were seen */
	uint16_t first_page; /* the lowest and the highest of them */
	uint16_t last_page;
	struct region_evidence evidence;
};

/* Slot of the owner. Pure. */
uint32_t hotness_view_owner(const struct hotness_view *view);

/* Region @slot, or false: none is there. In an RCU read section; any thread. */
bool hotness_view(const struct hotness *hotness, uint32_t slot, uint64_t now_ns, struct hotness_view *ret);

/* The one of @pid's that has @addr, or false. @owner_slot is its owner. In an RCU read section; any thread. */
bool hotness_find_view(const struct hotness *hotness, uint32_t pid, uint32_t owner_slot, uint64_t addr, uint64_t now_ns,
		       struct hotness_view *ret);

/*
 * Take the marks of regions that were sampled on a slow node: slots of up to @max of them (64 at least), from *@from
 * on, 0 at first; it is SLOTSET_NONE when all were taken. One thread at a time; costs what was marked.
 */
size_t hotness_take_marked(struct hotness *hotness, uint32_t *from, uint32_t *ret_slots, size_t max);

/* Views of one in @parts of the regions, up to @max; see regions_for_each_part(). In an RCU read section; any thread.
 */
size_t hotness_views(const struct hotness *hotness, uint32_t part, uint32_t parts, uint64_t now_ns,
		     struct hotness_view *ret, size_t max);

/* Change the decision from @old to @next: false when it isn't @old any more. In an RCU read section; any thread. */
bool hotness_decide(struct hotness *hotness, uint32_t slot, uint32_t old, uint32_t next);

/* What a migrator needs of a region to move it. */
struct hotness_target {
	uint64_t addr;
	uint64_t page_bytes;
	uint64_t nodes;
	uint32_t decision;
	uint32_t owner_slot;
	uint32_t pid;
	uint64_t start_ticks;
	uint64_t seen[8]; /* pages, by bits */
};

/* Region @slot as something to move: false when it, or its process, is gone. In an RCU read section; any thread. */
bool hotness_region(const struct hotness *hotness, uint32_t slot, struct hotness_target *ret);
