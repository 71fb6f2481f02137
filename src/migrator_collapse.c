/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdlib.h>
#include <string.h>

#include "migrator_collapse.h"
#include "mover.h"
#include "sample.h"
#include "stats.h"

#define BITS_PER_WORD 64

struct region {
	struct hotness_candidate candidate; /* of its first page that was noted */
	int nid;
	unsigned int n;
	uint64_t page[REGION_PAGES / BITS_PER_WORD];
};

struct migrator_collapse {
	size_t n, last; /* pages of a region mostly come one after another */
	struct region region[COLLAPSE_REGIONS_MAX];
};

struct migrator_collapse *migrator_collapse_new(void)
{
	return calloc(1, sizeof(struct migrator_collapse));
}

void migrator_collapse_free(struct migrator_collapse *collapse)
{
	free(collapse);
}

void migrator_collapse_start(struct migrator_collapse *collapse)
{
	collapse->n = collapse->last = 0;
}

static bool is_of(const struct region *region, const struct hotness_candidate *c, int nid)
{
	return region->candidate.owner_slot == c->owner_slot && region->candidate.start_ticks == c->start_ticks &&
	       region->candidate.addr >> REGION_SHIFT == c->addr >> REGION_SHIFT && region->nid == nid;
}

static struct region *find(struct migrator_collapse *collapse, const struct hotness_candidate *c, int nid)
{
	size_t i = 0;

	if (collapse->last < collapse->n && is_of(&collapse->region[collapse->last], c, nid))
		return &collapse->region[collapse->last];
	while (i < collapse->n && !is_of(&collapse->region[i], c, nid))
		i++;
	if (i == COLLAPSE_REGIONS_MAX)
		return NULL;
	if (i == collapse->n) {
		collapse->region[i] = (struct region){ .candidate = *c, .nid = nid };
		collapse->n++;
	}
	collapse->last = i;
	return &collapse->region[i];
}

void migrator_collapse_note(struct migrator_collapse *collapse, const struct hotness_candidate *c, int nid)
{
	struct region *region = c->page_bytes == PAGE_SIZE_BYTES ? find(collapse, c, nid) : NULL;
	size_t page = (size_t)(c->addr >> PAGE_SHIFT) % REGION_PAGES;
	uint64_t bit = 1ULL << (page % BITS_PER_WORD);

	if (!region)
		return;
	region->n += !(region->page[page / BITS_PER_WORD] & bit);
	region->page[page / BITS_PER_WORD] |= bit;
}

void migrator_collapse_run(struct migrator_collapse *collapse, const struct mover *mover,
			   bool (*check)(void *ctx, const struct hotness_candidate *candidate), void *ctx)
{
	if (!mover->ops->collapse) /* a model of memory that knows no huge pages */
		return;
	for (size_t i = 0; i < collapse->n; i++) {
		const struct region *region = &collapse->region[i];
		const struct hotness_candidate *c = &region->candidate;

		if (region->n < REGION_PAGES || !check(ctx, c))
			continue;
		if (mover->ops->collapse(mover->ctx, c->pid, c->addr & ~(uint64_t)(REGION_BYTES - 1), REGION_BYTES) ==
		    0)
			stats_inc(mover->stats, STAT_COLLAPSED);
		else
			stats_inc(mover->stats, STAT_COLLAPSE_FAILED);
	}
}
