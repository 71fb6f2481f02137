/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * bare: the bare loop that the tables are measured against: memory of the same sizes as theirs, and for each sample as
 * many random cache lines as a sample of theirs touches in the steady state, those that it writes updated. Nothing
 * else: no record to take apart, no lookup, no comparison. What it reaches is what the machine's memory allows.
 *
 * The lines of one sample, of a base page that was sampled before (hotness_batch.c):
 *   chunk    read      8 bytes for each 2 MiB           pointer to the words
 *   word     written   8 bytes for each page            record and back-reference, which finds the region
 *   region   written  64 bytes for each region
 *
 * What makes it neither slower nor faster than it has to be:
 *   - the pages are read from an array of 4 byte numbers that is in the L1 cache, the cheapest there is, where ours
 *     reads records of 152 bytes;
 *   - the word is updated by a locked addition, the cheapest atomic update, since a word has several writers; the
 *     region by a load and a store, since it has one;
 *   - a locked instruction keeps the misses behind it from beginning, so each line is asked for some samples ahead:
 *     without that it took a quarter longer;
 *   - bare_update_plain() has neither lock nor requests. It takes some 15 % less, is shown beside, and decides nothing.
 */
#pragma once

#include <sys/mman.h>

#include "bench.h"

#include "sample.h"

#define BARE_LINES         3
#define BARE_LINES_WRITTEN 2

struct bare {
	uint64_t regions;
	uint64_t (*region)[8];
	uint64_t *chunk;
	uint64_t *word;
};

/* With huge pages where the kernel has them; each page written, so that there is memory behind it. */
static void *bare_alloc(uint64_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		bench_die("not enough memory");
	(void)madvise(p, bytes, MADV_HUGEPAGE);
	memset(p, 1, bytes);
	return p;
}

static void bare_init(struct bare *bare, uint64_t pages)
{
	bare->regions = pages / REGION_PAGES;
	bare->region = bare_alloc(bare->regions * sizeof(*bare->region));
	bare->chunk = bare_alloc(bare->regions * sizeof(*bare->chunk));
	bare->word = bare_alloc(pages * sizeof(*bare->word));
}

static void bare_done(struct bare *bare)
{
	munmap(bare->region, bare->regions * sizeof(*bare->region));
	munmap(bare->chunk, bare->regions * sizeof(*bare->chunk));
	munmap(bare->word, bare->regions * REGION_PAGES * sizeof(*bare->word));
}

#define BARE_AHEAD 16 /* fastest, with 12, of 4, 8, 12, 16, 32 and 64 */

/* One update for each of the @n pages. The sum is for bench_used(): no load is left out. */
static inline uint64_t bare_update(struct bare *bare, const uint32_t *page, size_t n)
{
	/* Read once: the compiler must take a store for one that might change them. */
	uint64_t(*const region)[8] = bare->region, *const chunk = bare->chunk, *const word = bare->word;
	uint64_t sum = 0;

	for (size_t i = 0; i < n; i++) {
		uint32_t next = page[i + BARE_AHEAD < n ? i + BARE_AHEAD : i], at = page[i] / REGION_PAGES;

		__builtin_prefetch(&word[next], 1);
		__builtin_prefetch(region[next / REGION_PAGES], 1);
		__builtin_prefetch(&chunk[next / REGION_PAGES]);
		region[at][1]++;
		sum += chunk[at];
		__atomic_fetch_add(&word[page[i]], 1, __ATOMIC_SEQ_CST);
	}
	return sum;
}

/* The same without a lock, as one thread alone might do it. */
static inline uint64_t bare_update_plain(struct bare *bare, const uint32_t *page, size_t n)
{
	uint64_t(*const region)[8] = bare->region, *const chunk = bare->chunk, *const word = bare->word;
	uint64_t sum = 0;

	for (size_t i = 0; i < n; i++) {
		uint32_t at = page[i] / REGION_PAGES;

		region[at][1]++;
		sum += chunk[at];
		word[page[i]]++;
	}
	return sum;
}
