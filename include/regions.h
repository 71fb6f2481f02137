/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * regions: 2 MiB of one owner's address space each, keyed by (owner slot, address >> 21). The primary truth about heat.
 *
 * Writer      of a region's fields: the collector of its shard (see hotness_shard()); state and link: the janitor
 * Readers     any thread in an RCU read section, through regions_find() or a slot from a back-reference
 * Protection  fields are relaxed atomics; the pool and the hash of a shard change under the shard's lock, which the
 *             collector takes for the first sample of a region and the janitor for a removal, never for a hit
 * Order       K1 release(key) after the other fields pairs with K2 acquire(key): whoever sees the key sees a region
 *             that was set up; B1 release(bucket) pairs with B2 acquire(bucket): a found slot has its key;
 *             T1 release(table) pairs with T2 acquire(table): a found table is filled
 *
 * A region lives in a slot of its shard's pool: reserved address space, taken page by page, so a slot number is small
 * enough for a back-reference (23 bits; with the page 32), and is looked at without a lock. The hash has slot numbers
 * with 9 bits of the key beside them: a miss touches no region. It grows by a copy, the old one is retired.
 *
 * Removal has four steps, because a collector may hold the region and a word of the section map may name its slot:
 * regions_unlink() (no new lookup finds it), a grace period (no collector holds it), the section map is swept of words
 * that name it, a grace period (no migrator holds such a word), regions_release() (the slot is free).
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "clock.h"
#include "evidence.h"
#include "sample.h"

#define REGION_EPOCH_NS     NSEC_PER_SEC
#define REGION_EPOCHS       3 /* the current one and two before */
#define REGION_SLOT_BITS    23
#define REGION_PAGE_BITS    9
#define REGION_INLINE_PAGES 4
#define REGION_NODE_LAST    63 /* bit of nodes that stands for this node and all above */
#define REGION_TICK_SHIFT   24 /* times are kept in steps of 2^24 ns, 17 ms; 31 bits of them are 1.1 years */
#define REGION_OWNER_MAX    ((1U << 28) - 2)
#define REGION_ADDR_MAX     (1ULL << 57) /* five-level page tables */

/* A back-reference: region slot and page within the region. */
#define REGION_BACKREF(slot, page) ((uint32_t)(slot) << REGION_PAGE_BITS | (uint32_t)(page))
#define REGION_SLOT_OF(backref)    ((backref) >> REGION_PAGE_BITS)
#define REGION_PAGE_OF(backref)    ((backref) & (REGION_PAGES - 1))

enum region_state {
	REGION_LIVE,
	/* On its way out, and why. */
	REGION_COLD,
	REGION_OWNER_GONE,
	REGION_EVICTED,
	REGION_STATES,
};

/* What the mapping is made of, as the last sample said. */
enum region_mapping {
	REGION_BASE_PAGES,
	REGION_HUGE_2M, /* one entry, page 0 */
	REGION_HUGE_1G, /* a part of one: still one entry, page 0, for each 2 MiB of it */
};

/* Beside it in that byte, for good: pages were forgotten, so that a record doesn't tell that its page was seen. */
#define REGION_HAS_FORGOTTEN 0x80u

/* Pages seen, once there are more than REGION_INLINE_PAGES. */
struct region_seen {
	_Atomic uint64_t bits[REGION_PAGES / 64];
};

struct region {
	_Atomic uint64_t key;   /* (owner slot + 1) << 36 | address >> 21; 0: free */
	_Atomic uint64_t heat;  /* 16 bits each, from bit 0: counts of the current epoch and of two before; epoch */
	_Atomic uint64_t nodes; /* that its pages were seen on */
	_Atomic(struct region_seen *) seen;
	_Atomic uint16_t page[REGION_INLINE_PAGES]; /* pages seen, the first n_seen, as long as there is no bitmap */
	/* What speaks for its being hot, packed; see regions_heat.c. Relaxed, written by its collector. */
	_Atomic uint64_t evidence;
	/*
	 * What is to be done with it, see REGION_DECISION_*. 0: nothing is decided. Changed by compare-and-swap or an
	 * atomic and, relaxed: whoever acts on it looks at everything else anew.
	 */
	_Atomic uint32_t decision;
	_Atomic uint32_t last_tick; /* last access; relaxed, only grows */
	uint32_t link;              /* the janitor's list of what it removes */
	_Atomic uint16_t n_seen;    /* distinct pages */
	_Atomic uint8_t mapping;    /* enum region_mapping, REGION_HAS_FORGOTTEN; its collector's */
	_Atomic uint8_t state;      /* enum region_state; relaxed: a late reader costs one record */
};

_Static_assert(sizeof(struct region) == 64, "one cache line");

struct regions;
struct tablemem;
struct retire;

/* @shards 1..64. NULL: out of memory. Old hash tables go to @retire. */
struct regions *regions_new(struct tablemem *mem, struct retire *retire, unsigned int shards);
/* No reader may be left. Accepts NULL. */
void regions_free(struct regions *regions);

/* The region, or NULL. @ret_slot may be NULL. In an RCU read section; any thread. */
struct region *regions_find(const struct regions *regions, unsigned int shard, uint32_t owner_slot, uint64_t addr,
			    uint32_t *ret_slot);

/*
 * A new region, after regions_find() has found none: NULL when there is no memory, or no slot. Collector of @shard; a
 * lock, an allocation at times. @owner_slot at most REGION_OWNER_MAX, @addr below REGION_ADDR_MAX.
 */
struct region *regions_add(struct regions *regions, unsigned int shard, uint32_t owner_slot, uint64_t addr,
			   uint64_t now_ns, uint32_t *ret_slot);

/* By slot, whatever is in it (key 0: nothing). In an RCU read section. */
struct region *regions_at(const struct regions *regions, uint32_t slot);

/* Note @page (0..511) as seen: 1 for the first time, 0 later, -ENOMEM. The region's collector. */
int region_see(struct tablemem *mem, struct region *region, unsigned int page);

/* What its last sample said it is mapped by. Any thread. */
static inline enum region_mapping region_mapping(const struct region *region)
{
	return (enum region_mapping)(atomic_load_explicit(&region->mapping, memory_order_relaxed) &
				     ~REGION_HAS_FORGOTTEN);
}

/* What an access at an address of it said it is mapped by. The region's collector. */
static inline void region_set_mapping(struct region *region, enum region_mapping mapping)
{
	unsigned int was = atomic_load_explicit(&region->mapping, memory_order_relaxed);

	if ((was & ~REGION_HAS_FORGOTTEN) != mapping)
		atomic_store_explicit(&region->mapping, (uint8_t)(mapping | (was & REGION_HAS_FORGOTTEN)),
				      memory_order_relaxed);
}

/*
 * Do what REGION_DECISION_FORGET asks for: no page was seen, no sample counted; what its heat was is kept beside. The
 * access at @now_ns is the first that counts again, and needs no second one a second later. The region's collector,
 * before region_see().
 */
void region_forget(struct region *region, uint64_t now_ns);

/* Any thread; while the collector works, a moment's view. */
void region_evidence(const struct region *region, uint64_t now_ns, struct region_evidence *ret);
/* region_evidence()'s by_faults alone. Any thread. */
bool region_is_by_faults(const struct region *region);
/* The pages seen as a mask of REGION_PAGES bits. Any thread, in an RCU read section. */
void region_pages_seen(const struct region *region, uint64_t ret[REGION_PAGES / 64]);

/* Accesses counted in the epoch of @now_ns and the ones before it. Any thread. */
void region_counts(const struct region *region, uint64_t now_ns, uint16_t ret[REGION_EPOCHS]);
/* Whether @page was seen. Any thread; while the collector works, a moment's view. */
bool region_has_seen(const struct region *region, unsigned int page);
/* Time since the last access in ns, in steps of 17 ms, never below 0. Any thread. */
uint64_t region_idle_ns(const struct region *region, uint64_t now_ns);

static inline uint32_t region_owner_slot(uint64_t key)
{
	return (uint32_t)(key >> 36) - 1;
}

static inline uint64_t region_addr(uint64_t key)
{
	return (key & ((UINT64_C(1) << 36) - 1)) << REGION_SHIFT;
}

/* Live regions, a moment's view. Any thread. */
size_t regions_count(const struct regions *regions);
/* Slots of one shard, as many as it can ever have. */
size_t regions_capacity(const struct regions *regions);
/* true when a shard ran out of slots since the last call. Janitor. */
bool regions_was_full(struct regions *regions);

/*
 * Call @fn for each region that is not on its way out. @fn may unlink it. Janitor; in an RCU read section any thread
 * whose @fn only looks.
 */
void regions_for_each(struct regions *regions, void (*fn)(void *ctx, uint32_t slot, struct region *region), void *ctx);

/*
 * regions_for_each() for one in @parts of them, by 64 neighbours: those are mostly neighbours in memory too, since they
 * were first touched one after the other. @part 0..@parts-1.
 */
void regions_for_each_part(struct regions *regions, uint32_t part, uint32_t parts,
			   void (*fn)(void *ctx, uint32_t slot, struct region *region), void *ctx);

/* Step 1 of a removal: out of the hash, for the reason @state. Janitor. */
void regions_unlink(struct regions *regions, uint32_t slot, enum region_state state);
/* Make hashes smaller that many removals left too large. Janitor. */
void regions_tidy(struct regions *regions);
/* The last step: free the slot, and its page when that is empty. Janitor, after the second grace period. */
void regions_release(struct regions *regions, uint32_t slot);
