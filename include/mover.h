/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * mover: moves pages of one process to one node, and finds out what really happened to each.
 *
 * move_pages(2) returns 0 (all tried), a positive count of pages it did not move, those never tried included, or an
 * error; in the last two cases part of status[] is not written at all. So every status starts from a value the kernel
 * can't write, and after any return but 0 the pages are asked for again. Source: mm/migrate.c, do_pages_move();
 * measured on 6.12.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MOVER_BATCH_MAX        1024
#define MOVER_STATUS_UNWRITTEN INT32_MIN
/*
 * A call ends at the first batch with a page that wouldn't move, and what stood behind it was never tried. That rest is
 * tried again, up to this many calls for one mover_move(): each costs a drain of all CPUs' LRU caches.
 */
#define MOVER_CALLS_MAX 8

struct clock;
struct fsroot;
struct nodeset;
struct stats_slot;

/* How pages are moved: the kernel, a dry run, or a model. Called by migrator threads; may block as long as the kernel
 * does. */
struct mover_ops {
	const char *name;
	/* As move_pages(2) with MPOL_MF_MOVE and @nodes all @nid; returns its value, or -errno. */
	long (*move)(void *ctx, uint32_t pid, size_t n, void **addrs, int nid, int *status);
	/* The same with MPOL_MF_MOVE_ALL: pages that other processes map too. */
	long (*move_all)(void *ctx, uint32_t pid, size_t n, void **addrs, int nid, int *status);
	/* As process_madvise(2) with MADV_COLLAPSE: the region becomes a huge page on the node of most of it. 0 or
	 * -errno. */
	long (*collapse)(void *ctx, uint32_t pid, uint64_t addr, uint64_t bytes);
	/* As move_pages(2) without nodes: where are they? */
	long (*query)(void *ctx, uint32_t pid, size_t n, void **addrs, int *status);
};

/* In mover_pages.c: the kernel. */
extern const struct mover_ops mover_pages_ops;

enum mover_result {
	MOVER_OK,
	MOVER_ALREADY,
	MOVER_BUSY,
	MOVER_NOT_PRESENT,
	MOVER_SHARED,
	MOVER_ZERO_PAGE,
	MOVER_PINNED, /* the kernel tried several times within the call: somebody held it, for I/O or in passing */
	MOVER_NOT_MIGRATABLE,
	MOVER_NO_MEMORY,
	MOVER_CPUSET,
	MOVER_GONE,
	MOVER_DENIED,
	MOVER_FAILED,
	MOVER_RESULT_MAX,
};

/* Names as in stats.def without the "move_". */
extern const char *const mover_result_name[MOVER_RESULT_MAX];

struct mover_page {
	uint64_t addr;
	uint64_t bytes;           /* 4096 or the huge page's size */
	int from_nid;             /* as the map says; the query before the call corrects it */
	enum mover_result result; /* out */
	bool untried;             /* out; MOVER_BUSY only because no call came to it */
};

/* Matrix of outcomes, in base pages. Writer: its migrator; relaxed reads by report. */
struct mover_outcomes;

#define MOVER_PAIRS_MAX 256 /* of pairs of nodes and sizes of pages; what is beyond counts under (-1, -1) */

struct mover_outcomes *mover_outcomes_new(void); /* NULL: no memory */
void mover_outcomes_free(struct mover_outcomes *outcomes);
struct mover_outcome {
	int from_nid, to_nid;
	uint64_t page_bytes; /* 4096, or the size of the huge pages; 0 under (-1, -1) */
	enum mover_result result;
	uint64_t pages; /* base pages */
};

/* Call @fn for each non-zero cell. Any thread. */
void mover_outcomes_for_each(const struct mover_outcomes *outcomes,
			     void (*fn)(void *ctx, const struct mover_outcome *outcome), void *ctx);

struct mover {
	const struct mover_ops *ops;
	void *ctx;
	const struct clock *clock;
	struct stats_slot *stats;
	struct mover_outcomes *outcomes;
	const struct fsroot *root;  /* has proc/, to tell a zero page from none; NULL: both are MOVER_NOT_MIGRATABLE */
	const struct nodeset *fast; /* pages found there stay where they are and count as MOVER_ALREADY; may be NULL */
	bool shared;                /* pages that other processes map too may move */
	const _Atomic bool *stop;   /* relaxed; true: start no move call any more; may be NULL */
};

struct mover_summary {
	uint64_t moved_pages; /* base pages */
	uint64_t moved_bytes;
	uint64_t call_ns;    /* in the move calls alone */
	uint64_t call_pages; /* base pages in the first of them */
	size_t calls;
};

/*
 * Move @pages (1..MOVER_BATCH_MAX, no address twice, no two addresses of one folio) of @pid to @nid and set each
 * result. Counts every outcome once. Returns 0 when each page was dealt with (whatever came of it), -ESRCH (process
 * gone; some may have moved before), -EPERM (not allowed), -EINVAL (arguments) or -EINTR (told to stop before the first
 * call): after these two nothing was done or counted and no result is set. Migrator threads, outside any RCU read
 * section.
 *
 * MOVER_OK is a page that the query before the call saw elsewhere and that is on @nid after it. MOVER_BUSY is also what
 * was left untried after MOVER_CALLS_MAX calls.
 */
int mover_move(const struct mover *mover, uint32_t pid, int nid, struct mover_page *pages, size_t n,
	       struct mover_summary *ret);

/* Set @result for pages for which no call is made, and count it. Does not block. Migrator threads. */
void mover_account(const struct mover *mover, int nid, struct mover_page *pages, size_t n, enum mover_result result);

/*
 * Where are @n pages (1..MOVER_BATCH_MAX) of @pid at @addrs now? @ret_nids[i] is its node, or -errno as move_pages(2)
 * gives it: -ENOENT for one that isn't there. Counts nothing. 0; -ESRCH (process gone), -EPERM (not allowed), or what
 * else the kernel refused the query with: then no @ret_nids is set. In mover_place.c. Migrator threads, outside any RCU
 * read section; does not wait for anything but the process's memory map.
 */
int mover_place(const struct mover *mover, uint32_t pid, const uint64_t *addrs, size_t n, int *ret_nids);
