/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * hotness: regions (by owner and virtual address) and the section map (by PFN) together, the way the other stages see
 * them. Collectors write, migrators scan, the janitor removes; regions.h and hotmap.h are the two halves.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "clock.h"
#include "evidence.h"
#include "record.h"
#include "sample.h"

struct hotness;
struct nodeset;
struct owners;
struct stats_slot;
struct tablemem_ops;
struct topology;

struct hotness_options {
	enum record_layout layout;
	unsigned int shards; /* collectors, 1..64: a region belongs to the shard that its key hashes to */
	uint64_t memory_max_bytes;
	uint64_t section_bytes;            /* a memory block; power of two, 2 MiB..64 GiB */
	const struct tablemem_ops *memory; /* NULL: an arena of our own; tests count and refuse some */
	const struct nodeset *nodes;       /* where the arena should be; NULL: anywhere */
};

#define HOTNESS_MEMORY_MIN_BYTES (1ULL << 20)
#define HOTNESS_SHARDS_MAX       64
/* Between two turns of the janitor: well under the 4 s after which a compact record's time wraps. */
#define HOTNESS_JANITOR_MS 500
/* What nobody touched for this long is forgotten: many windows, and short enough to follow a phase change of minutes.
 */
#define HOTNESS_COLD_NS (120 * NSEC_PER_SEC)

/*
 * NULL with errno set (EINVAL, ENOMEM). Reserves 512 MiB of address space and more for the tables; nothing of it takes
 * memory before it is used, as long as nobody locks all of the process's memory.
 */
struct hotness *hotness_new(const struct hotness_options *options, struct owners *owners);
void hotness_free(struct hotness *hotness);

/* Shard that takes the samples of @pid at @addr. Pure; the reader deals by it. */
static inline unsigned int hotness_shard(uint32_t pid, uint64_t addr, unsigned int shards)
{
	uint64_t hash;

	if (shards == 1)
		return 0;
	hash = (addr >> REGION_SHIFT ^ (uint64_t)pid << 36) * UINT64_C(0x9e3779b97f4a7c15);
	hash = (hash ^ hash >> 32) * UINT64_C(0xd6e8feb86659fd93);
	return (unsigned int)((hash >> 32) * shards >> 32);
}

void hotness_set_memory_max(struct hotness *hotness, uint64_t bytes); /* any thread */

enum record_layout hotness_layout(const struct hotness *hotness); /* any thread */

/* What one access came to. */
enum hotness_result {
	HOTNESS_RECORDED,       /* a record of a slow page was updated */
	HOTNESS_READY,          /* the same, and it became ready by this access */
	HOTNESS_FAST,           /* page of the fast tier, or one with no target: counted in its region */
	HOTNESS_FIRST_SIGHTING, /* remembered only */
	HOTNESS_NO_MEMORY,      /* lost; also when the physical address is beyond the tables (2^46) */
	HOTNESS_RESULTS,
};

/* Where the sampled page is. */
struct hotness_place {
	int nid;        /* -1: not known */
	bool is_lower;  /* in a slower tier */
	int target_nid; /* where it should go (see topology_target()), -1 for none: then no record is made */
};

/*
 * Account one sample: region counts and seen pages, and the record when the page is in a lower tier. @owner_slot is the
 * sample's owner. Inside an RCU read section, by the collector thread of @shard only.
 *
 * A page of 2 MiB is one entry, at its head. One of 1 GiB is tracked by each 2 MiB of it, so that there is evidence how
 * much of it is hot; it moves only whole.
 */
enum hotness_result hotness_access_page(struct hotness *hotness, unsigned int shard, const struct record_rule *rule,
					const struct sample *sample, uint32_t owner_slot,
					const struct hotness_place *place);

/* What samples of one process from like CPUs to pages of one node have in common: worked out once for many of them. */
struct hotness_context {
	const struct record_rule *rule;
	uint32_t owner_slot;
	struct hotness_place place;
	/* What it comes to, for hotness*.c. */
	bool wants_record;
	uint8_t plain_below; /* this shift of a page's size a sample is plain, see hotness_batch.c; 0: none is */
	uint32_t lane_rule;  /* see hotmap_lanes.h */
	uint64_t key_base;   /* of the keys of its regions */
	struct region_place region_place;
};

/* See hotness_access_page(). @rule must stay. Pure. */
struct hotness_context hotness_context(const struct record_rule *rule, uint32_t owner_slot,
				       const struct hotness_place *place);

/* A sample of a batch. */
struct hotness_item {
	const struct sample *sample;
	const struct hotness_context *context;
	enum hotness_result result;
};

/*
 * hotness_access_page() for @n samples one after the other, with their cache misses overlapped: for each the same as
 * alone, several times as fast where @n is 100 or more. What they came to is also added up in @counts, by result.
 */
void hotness_access_batch(struct hotness *hotness, unsigned int shard, struct hotness_item *items, size_t n,
			  uint32_t counts[HOTNESS_RESULTS]);

/* hotness_access_page() where the page's node doesn't matter. */
static inline enum hotness_result hotness_access(struct hotness *hotness, unsigned int shard,
						 const struct record_rule *rule, const struct sample *sample,
						 uint32_t owner_slot, bool page_is_lower, int target_nid)
{
	const struct hotness_place place = { .nid = -1, .is_lower = page_is_lower, .target_nid = target_nid };

	return hotness_access_page(hotness, shard, rule, sample, owner_slot, &place);
}

/* A ready record, as the migrator sees it. */
struct hotness_candidate {
	uint64_t pfn;
	uint64_t addr;       /* page aligned; head of a page of 2 MiB; the hot 2 MiB of a page of 1 GiB */
	uint64_t page_bytes; /* 4096, 2 MiB, 1 GiB: as the samples said */
	uint32_t owner_slot;
	uint32_t pid;
	uint64_t start_ticks;
	uint32_t record; /* without reserved bits */
	uint32_t region_slot;
	uint32_t decision; /* of its region, see evidence.h */
	bool by_faults;    /* what is known of its region comes from faults */
};

/* pfn of a candidate that comes from a region, and has no record. */
#define HOTNESS_NO_PFN UINT64_MAX

/*
 * Two candidates of a scan may have the same owner and address: the address was mapped to another page, and the record
 * of the old one has not aged yet. A move call wants each address once.
 */
enum hotness_verdict {
	HOTNESS_TAKE, /* it will be moved: the record is cleared, and @taken is called if nobody changed it meanwhile */
	HOTNESS_KEEP, /* not now: it stays ready and its section stays marked */
	HOTNESS_DROP, /* not hot after all: the record is cleared */
	HOTNESS_STOP, /* end the scan here; this record and what follows stay for the next pass */
	HOTNESS_NOTE, /* observing: it would be moved. The record is marked, and not shown again to a visitor that
			 observes */
};

struct hotness_visitor {
	enum hotness_verdict (*decide)(void *ctx, const struct hotness_candidate *candidate);
	/* After HOTNESS_TAKE or HOTNESS_NOTE took effect. decide() is called again for a record that changed before. */
	void (*taken)(void *ctx, const struct hotness_candidate *candidate);
	void *ctx;
	bool observing; /* skip records that an observing visitor has noted; otherwise notes are ignored */
};

struct hotness_scan_result {
	size_t sections; /* looked at */
	size_t records;  /* ready ones shown to decide() */
	size_t stale;    /* ready ones whose owner or region is gone; cleared */
	bool stopped;
};

/*
 * Show the ready records of pages on @nid to @visitor, from where the last scan of @nid stopped (at the beginning of
 * those 2 MiB), once round, marked sections only. No system call, no allocation. Inside an RCU read section; neither
 * callback may block. One migrator thread per nid and part (part 0..parts-1 takes every parts-th section; at most 8).
 */
void hotness_scan(struct hotness *hotness, const struct topology *topology, int nid, unsigned int part,
		  unsigned int parts, const struct hotness_visitor *visitor, struct hotness_scan_result *ret);

/*
 * Put a taken record back as ready (its batch was refused, or the page was busy): nothing is lost silently. false: no
 * room, the region is gone, or newer heat is there. Within 7 s, or its time may have wrapped (1.5 s compact). Any
 * registered thread.
 */
bool hotness_put_back(struct hotness *hotness, const struct hotness_candidate *candidate);

/*
 * Remove what is cold (no access for @cold_ns), what belongs to owners that are gone, and, over the memory bound, the
 * coldest; free what was unlinked. Waits for grace periods, so it blocks. Janitor thread only; counts to @stats.
 *
 * Call it each second: it also keeps old records from looking fresh when their time wraps, for which it may be 7.1 s
 * late (1.5 s compact; see hotmap.h for what happens then). An access that races with the removal of its cold region is
 * lost. What goes with an owner that is gone is not counted here: the owner is.
 */
void hotness_janitor(struct hotness *hotness, uint64_t now_ns, uint64_t cold_ns, struct stats_slot *stats);

/* One record, to look at. false: there is none, or its region is gone. Any thread, inside an RCU read section. */
bool hotness_find_record(const struct hotness *hotness, uint64_t pfn, struct hotness_candidate *ret);

/* One region, to look at. */
struct hotness_region {
	uint16_t counts[3]; /* accesses that were evidence: in this second, and in each of the two before */
	uint16_t pages;     /* distinct ones that were seen; 1 for a huge page */
	uint64_t page_bytes;
	uint64_t nodes;    /* bit n: seen on node n; bit 63: on that or a higher one */
	uint64_t idle_ns;  /* since the last access, to 17 ms */
	uint32_t decision; /* see evidence.h */
};

/* false: there is none. Any thread, inside an RCU read section. */
bool hotness_find_region(const struct hotness *hotness, uint32_t pid, uint32_t owner_slot, uint64_t addr,
			 uint64_t now_ns, struct hotness_region *ret);

/* Gauges; any thread; each is a moment's view. @bytes: in use; what the allocator holds free between comes on top. */
struct hotness_usage {
	uint64_t bytes, memory_max_bytes;
	uint64_t sections, chunks, records, regions;
	/* These only grow. */
	uint64_t pages_seen;  /* for the first time, but for those of regions that move whole */
	uint64_t far_samples; /* of slow pages that have a target; */
	uint64_t far_novel;   /* of these, those that fell on regions that were not known */
};
void hotness_usage(const struct hotness *hotness, struct hotness_usage *ret);
