/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * bare: the bare loop that the tables are measured against: memory of the same sizes as theirs, and for each sample as
 * many random cache lines as a sample of theirs touches in the steady state, those that it writes written. Nothing
 * else: no record to take apart, no lookup, no comparison, no atomic, so that the processor is free to overlap the
 * misses of many samples. What it reaches is what the machine's memory allows.
 *
 * The lines of one sample, of a base page that was sampled before (hotmap_update.h, hotness_batch.c):
 *   chunk    read      8 bytes for each 2 MiB           pointer to the words
 *   word     written   8 bytes for each page            record and back-reference, which finds the region
 *   region   written  64 bytes for each region
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

/* One update for each of the @n pages. The sum is for bench_used(): no load is left out. */
static inline uint64_t bare_update(struct bare *bare, const uint32_t *page, size_t n)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < n; i++) {
		uint32_t at = page[i] / REGION_PAGES;

		bare->region[at][1]++;
		sum += bare->chunk[at];
		bare->word[page[i]]++;
	}
	return sum;
}
