/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * hotness: regions (by owner and virtual address) and the section map (by PFN) together, the way the other stages see
 * them. Collectors write, migrators scan, the janitor removes; regions.h and hotmap.h are the two halves.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "record.h"

struct hotness;
struct owners;
struct sample;
struct stats_slot;
struct topology;

struct hotness_options {
	enum record_layout layout;
	unsigned int shards; /* collectors, 1..64: a region belongs to the shard that its key hashes to */
	uint64_t memory_max_bytes;
	uint64_t section_bytes; /* a memory block; power of two, 2 MiB..64 GiB */
};

/* NULL with errno set (EINVAL, ENOMEM). */
struct hotness *hotness_new(const struct hotness_options *options, struct owners *owners);
void hotness_free(struct hotness *hotness);

/* Shard that takes the samples of @pid at @addr. Pure; the reader deals by it. */
unsigned int hotness_shard(uint32_t pid, uint64_t addr, unsigned int shards);

void hotness_set_memory_max(struct hotness *hotness, uint64_t bytes); /* any thread */

/* What one access came to. */
enum hotness_result {
	HOTNESS_RECORDED,       /* a record of a slow page was updated */
	HOTNESS_READY,          /* the same, and it became ready by this access */
	HOTNESS_FAST,           /* page of the fast tier: counted in its region */
	HOTNESS_FIRST_SIGHTING, /* remembered only */
	HOTNESS_NO_MEMORY,      /* lost */
};

/*
 * Account one sample: region counts and seen pages, and the record when @page_nid is in a lower tier. @owner_slot is
 * the sample's owner; @target_nid where the page should go (see topology_target()), -1 for none: then no record is
 * made. Inside an RCU read section, by the collector thread of @shard only.
 */
enum hotness_result hotness_access(struct hotness *hotness, unsigned int shard, const struct record_rule *rule,
				   const struct sample *sample, uint32_t owner_slot, bool page_is_lower,
				   int target_nid);

/* A ready record, as the migrator sees it. */
struct hotness_candidate {
	uint64_t pfn;
	uint64_t addr;       /* page aligned; folio head for a huge page */
	uint64_t page_bytes; /* 4096, 2 MiB: as the samples said */
	uint32_t owner_slot;
	uint32_t pid;
	uint64_t start_ticks;
	uint32_t record;
};

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
	/* After HOTNESS_TAKE or HOTNESS_NOTE took effect. */
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
 * Show the ready records of pages on @nid to @visitor, starting behind where the last scan of @nid stopped, marked
 * sections only. No system call. Inside an RCU read section; neither callback may block. One migrator thread per nid
 * and part (part 0..parts-1 takes every parts-th section).
 */
void hotness_scan(struct hotness *hotness, const struct topology *topology, int nid, unsigned int part,
		  unsigned int parts, const struct hotness_visitor *visitor, struct hotness_scan_result *ret);

/* Put a taken record back as ready (its batch was refused, or the page was busy): nothing is lost silently. false: no
 * room, or newer heat is there. */
bool hotness_put_back(struct hotness *hotness, const struct hotness_candidate *candidate);

/*
 * Remove what is cold (no access for @cold_ns), what belongs to owners that are gone, and, over the memory bound, the
 * coldest; free what was unlinked. Waits for grace periods, so it blocks. Janitor thread only; counts to @stats.
 */
void hotness_janitor(struct hotness *hotness, uint64_t now_ns, uint64_t cold_ns, struct stats_slot *stats);

/* Gauges; any thread; each is a moment's view. */
struct hotness_usage {
	uint64_t bytes, memory_max_bytes;
	uint64_t sections, chunks, records, regions;
};
void hotness_usage(const struct hotness *hotness, struct hotness_usage *ret);
