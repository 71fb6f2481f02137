/* SPDX-License-Identifier: GPL-2.0-or-later */
/* hotness_internal: what hotness*.c share. */
#pragma once

#include "hotmap.h"
#include "hotness.h"
#include "regions.h"
#include "retire.h"
#include "slotset.h"
#include "tablearena.h"
#include "tablemem.h"

/* One for each collector: its own cache line. */
struct hotness_shard {
	_Alignas(64) _Atomic uint64_t now_ns; /* of its last sample; relaxed */
	_Atomic uint64_t records_made;        /* relaxed, written by the collector only */
	_Atomic uint64_t pages_seen;          /* the same */
	_Atomic uint64_t far_samples;         /* the same, both: of slow pages; and of these, those of new regions */
	_Atomic uint64_t far_novel;
};

struct hotness {
	enum record_layout layout;
	unsigned int shards;
	struct owners *owners;
	struct regions *regions;
	struct hotmap *map;
	struct tablearena *arena; /* NULL: the memory is a test's */
	/* Written by whoever makes a chunk grow: not in the line of the pointers above, which all read. */
	_Alignas(64) struct retire retire;
	_Alignas(64) struct tablemem mem;
	/* Records that others than collectors made, less those that anyone cleared; modulo 2^64, relaxed. */
	_Atomic uint64_t records_changed;
	_Atomic uint64_t janitor_ns; /* time of its last turn; relaxed */
	_Atomic bool by_region;      /* relaxed: whoever sees it late counts a sample more or less */
	struct slotset marks;        /* regions that were sampled on a slow node since they were last taken */
	struct hotness_shard shard[HOTNESS_SHARDS_MAX];
};

#define HOTNESS_LIST_END UINT32_MAX

/* Regions on their way out. The janitor's. */
struct hotness_going {
	struct hotness *hotness;
	uint64_t now_ns;
	uint64_t cold_ns;
	uint32_t list; /* by region->link; HOTNESS_LIST_END */
	uint64_t n[REGION_STATES];
};

void hotness_unlink_region(struct hotness_going *going, uint32_t slot, struct region *region, enum region_state state);
/* From unlinked to free, with the records of the regions; see regions.h for the steps. Blocks. */
void hotness_remove_going(struct hotness_going *going, uint64_t last_ns, struct stats_slot *stats);

/* What a region and the records of its pages take of the tables, about. */
uint64_t hotness_region_bytes(const struct hotness *hotness, const struct region *region);
/* Evict, where the memory bound was met. */
void hotness_keep_bound(struct hotness *hotness, uint64_t now_ns, struct stats_slot *stats);

/* A time that is not after now: good enough to tell that a record has wrapped. */
uint64_t hotness_now_ns(const struct hotness *hotness);

static inline uint64_t region_mapping_bytes(enum region_mapping mapping)
{
	switch (mapping) {
	case REGION_HUGE_2M:
		return REGION_BYTES;
	case REGION_HUGE_1G:
		return UINT64_C(1) << 30;
	default:
		return PAGE_SIZE_BYTES;
	}
}

/* Bytes of the pages that @region is mapped by, as its last sample said. */
static inline uint64_t region_page_bytes(const struct region *region)
{
	return region_mapping_bytes(region_mapping(region));
}
