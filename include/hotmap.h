/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * hotmap: the section map: by PFN, a record of each slow page that was sampled, and which page of which region it is.
 *
 *     top table   a pointer for each section of 2^46 bytes of physical space; reserved, taken page by page
 *     section     a memory block: a chunk word for each 2 MiB, bitmaps of chunks with something ready, time of last use
 *     chunk       2 MiB: words of some of its pages with an index beside them (sparse), or all 512 words (dense)
 *     word        64 bits: record and marks in the low half, back-reference in the high half, changed as one. The
 *                 compact layout has the same in 32 bits, with a table in the chunk for the regions that its words
 *                 name (see hotmap_internal.h); outside of hotmap_*.c a word has 64 bits in both.
 *
 * Writers     of a word: any collector, the migrators of its node, the janitor; of structure: collectors (first sample
 *             of a page, under a lock of the section, one of 64), the janitor (the same lock)
 * Readers     any, in an RCU read section
 * Protection  words: compare-and-swap. Structure: RCU; what was replaced is retired
 * Order       W1 compare-and-swap of a word pairs with W2 acquire load: the region that a back-reference names
 *             was set up (K1 in regions.h) before the word; I1 release(index) pairs with I2 acquire(index): a found
 *             entry has its word; C1 release(chunk), S1 release(section) pair with C2, S2 acquire: what a pointer leads
 *             to is filled; T1 release(n_slots) pairs with T2 acquire: a chunk's table is filled that far; M1 (mark:
 *             word, then chunk bit, then section bit) pairs with M2 (scan clears the section bit, then the chunk bit,
 *             then looks at the word), all of them seq_cst: a word that becomes ready behind a scan's back finds the
 *             mark cleared, and sets it for the next one; where it still finds the mark, the scan has yet to clear it,
 *             and will see the word. So a mark that is set costs a look, and no write.
 *             The same once more, for 64 sections together: M3 clears such a mark where no section has one, and looks
 *             at them again
 * Growth      a chunk that grows is copied: each old word gets HOTMAP_FROZEN by an atomic or, which returns the value
 *             that is copied, so no update is lost; whoever meets a frozen word waits for the section's lock and begins
 *             again at the section
 *
 * What a record's time can't say (it wraps, see record.h) is kept beside it: HOTMAP_OLD is set by hotmap_sweep() on
 * what has passed half of the time field's range; a record with that mark that looks clearly younger than that has
 * wrapped, and counts as none. A record that looks as if it were about to wrap (its last second; half a second for
 * compact) without having the mark is from a moment ahead of the caller's clock: samples of different CPUs come in no
 * order. The section's time of last use tells when all its records are old. So with sweeps no further apart than
 * hotmap_sweep_max_ns() nothing old ever looks fresh. When the janitor is later than that, its sweep drops all records
 * of sections that were not used for half the range; in busier sections a record may have wrapped unseen: at worst, a
 * page whose accesses are a whole range apart counts as hot.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "record.h"

#define HOTMAP_NOTE   (UINT64_C(1) << 27) /* would have been moved, and was counted so */
#define HOTMAP_OLD    (UINT64_C(1) << 28) /* has passed half of the time field's range */
#define HOTMAP_FROZEN (UINT64_C(1) << 30) /* the chunk is being replaced; never seen outside of hotmap_*.c */
#define HOTMAP_MARKS  (HOTMAP_NOTE | HOTMAP_OLD | HOTMAP_FROZEN)

#define HOTMAP_PHYS_BITS 46
#define HOTMAP_PARTS_MAX 8 /* migrators of one node */

_Static_assert((HOTMAP_MARKS & ~(uint64_t)RECORD_RESERVED_BITS) == 0, "marks live in the reserved bits");

struct hotmap;
struct retire;
struct tablemem;
struct topology;

static inline uint32_t hotmap_record(uint64_t word)
{
	return (uint32_t)(word & ~HOTMAP_MARKS);
}

static inline uint32_t hotmap_backref(uint64_t word)
{
	return (uint32_t)(word >> 32);
}

/* Asked for a word that names another region than the one that was sampled: does the named one still count? */
typedef bool hotmap_alive_fn(void *ctx, uint32_t backref);

/* @section_bytes: a power of two, 2 MiB..64 GiB. NULL: out of memory. Replaced blocks go to @retire. */
struct hotmap *hotmap_new(struct tablemem *mem, struct retire *retire, enum record_layout layout,
			  uint64_t section_bytes, hotmap_alive_fn *alive, void *ctx);
void hotmap_free(struct hotmap *map); /* no reader may be left; accepts NULL */

struct hotmap_access {
	const struct record_rule *rule;
	uint32_t backref;
	int nid; /* target */
	uint64_t now_ns;
};

enum hotmap_result { HOTMAP_NO_MEMORY, HOTMAP_RECORDED, HOTMAP_READY };

/*
 * Account an access to the page @pfn. *@ret_new: there was no record. A PFN beyond the table is HOTMAP_NO_MEMORY.
 * Collectors, in an RCU read section. Lock-free but for the first sample of a page.
 */
enum hotmap_result hotmap_touch(struct hotmap *map, uint64_t pfn, const struct hotmap_access *access, bool *ret_new);

/* Put a record where none is. false: there is one, or no memory. Migrators, in an RCU read section. */
bool hotmap_put(struct hotmap *map, uint64_t pfn, uint64_t word, uint64_t now_ns);

/* The word of @pfn without HOTMAP_FROZEN, 0: none. Any thread, in an RCU read section. */
uint64_t hotmap_peek(const struct hotmap *map, uint64_t pfn);

/* true when the record's time has wrapped (the mark says so), so that it is none any more. */
bool hotmap_has_wrapped(enum record_layout layout, uint64_t word, uint64_t now_ns);

enum hotmap_verdict {
	HOTMAP_TAKE,  /* clear it */
	HOTMAP_STALE, /* clear it, its region or owner is gone */
	HOTMAP_DROP,  /* clear it */
	HOTMAP_KEEP,
	HOTMAP_STOP,
	HOTMAP_NOTED, /* mark it, and take away its ready bit */
};

struct hotmap_scan {
	const struct topology *topology;
	int nid;
	unsigned int part, parts;
	bool observing;  /* skip noted records */
	uint64_t now_ns; /* or any time before: a wrapped record is skipped if that can be told */
	/* For each ready record; again for the same one when it changed under the verdict. */
	enum hotmap_verdict (*show)(void *ctx, uint64_t pfn, uint64_t word);
	/* When a verdict other than keep or stop took effect. */
	void (*done)(void *ctx, uint64_t pfn, uint64_t word, enum hotmap_verdict verdict);
	void *ctx;
};

struct hotmap_scan_result {
	size_t sections;
	size_t cleared; /* records */
	bool stopped;
};

/*
 * Walk the ready records of pages of one node, marked sections and in them marked chunks only, round from where the
 * last scan of this (node, part) stopped: that chunk is shown again from its beginning. No system call, no lock, no
 * allocation. In an RCU read section; one thread for each (node, part).
 */
void hotmap_scan(struct hotmap *map, const struct hotmap_scan *scan, struct hotmap_scan_result *ret);

#define HOTMAP_CAUSES 4

struct hotmap_sweep {
	uint64_t now_ns;
	uint64_t last_ns; /* of the sweep before */
	/* 0: the named region stays; else why it goes, 1..HOTMAP_CAUSES-1. NULL: all stay. */
	unsigned int (*cause)(void *ctx, uint32_t backref);
	void *ctx;
};

struct hotmap_sweep_result {
	uint64_t cleared[HOTMAP_CAUSES]; /* records, by cause; 0: too old */
};

/*
 * Look at every record: clear what is too old or names a region that goes, mark what gets old; free chunks and sections
 * without records, make chunks with few of them smaller. Janitor.
 */
void hotmap_sweep(struct hotmap *map, const struct hotmap_sweep *sweep, struct hotmap_sweep_result *ret);

/* Longest time between two sweeps for which no old record can look fresh: 7.1 s precise, 1.5 s compact. */
uint64_t hotmap_sweep_max_ns(enum record_layout layout);

/* What one record takes in a chunk that holds many. */
static inline uint64_t hotmap_bytes_of_record(enum record_layout layout)
{
	return layout == RECORD_COMPACT ? 4 : 8;
}

size_t hotmap_sections(const struct hotmap *map); /* gauges, any thread */
size_t hotmap_chunks(const struct hotmap *map);
