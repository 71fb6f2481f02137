/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "plan.h"
#include "sample.h"

#define NONE          UINT32_MAX
#define REGION_HEADS  16384 /* twice the most regions there can be */
#define BATCH_HEADS   512
#define BITS_PER_WORD 64

struct entry {
	struct hotness_candidate candidate;
	uint32_t next; /* of its batch */
};

/* Which pages of one owner's region are in the plan. */
struct region {
	uint64_t number; /* addr >> REGION_SHIFT */
	uint32_t owner_slot;
	uint32_t next; /* of its head */
	uint64_t page[REGION_PAGES / BITS_PER_WORD];
};

struct batch {
	struct plan_batch info;
	uint32_t first, last;
	uint32_t next; /* of its head: the one that is being filled comes first */
};

struct plan {
	size_t batch_pages, pages;
	size_t n_entries, n_regions, n_batches;
	struct entry entry[PLAN_PAGES_MAX];
	struct region region[PLAN_PAGES_MAX];
	struct batch batch[PLAN_BATCHES_MAX];
	uint32_t region_head[REGION_HEADS];
	uint32_t batch_head[BATCH_HEADS];
};

static uint32_t mix(uint64_t a, uint64_t b)
{
	uint64_t x = (a ^ (b << 40) ^ (b >> 24)) * 0x9e3779b97f4a7c15ULL;

	return (uint32_t)(x >> 32);
}

static uint32_t region_slot(uint32_t owner_slot, uint64_t number)
{
	return mix(number, owner_slot) % REGION_HEADS;
}

static uint32_t batch_slot(uint32_t owner_slot, int nid)
{
	return mix(owner_slot, (uint64_t)nid) % BATCH_HEADS;
}

struct plan *plan_new(void)
{
	struct plan *plan = calloc(1, sizeof(*plan));

	if (!plan)
		return NULL;
	memset(plan->region_head, 0xff, sizeof(plan->region_head));
	memset(plan->batch_head, 0xff, sizeof(plan->batch_head));
	plan->batch_pages = 1;
	return plan;
}

void plan_free(struct plan *plan)
{
	free(plan);
}

void plan_reset(struct plan *plan, size_t batch_pages)
{
	assert(batch_pages > 0);
	/* Only the heads in use: a pass that found three pages shouldn't pay for all of them. */
	for (size_t i = 0; i < plan->n_regions; i++)
		plan->region_head[region_slot(plan->region[i].owner_slot, plan->region[i].number)] = NONE;
	for (size_t i = 0; i < plan->n_batches; i++)
		plan->batch_head[batch_slot(plan->batch[i].info.owner_slot, plan->batch[i].info.nid)] = NONE;
	plan->n_entries = plan->n_regions = plan->n_batches = plan->pages = 0;
	plan->batch_pages = batch_pages;
}

static uint32_t find_region(const struct plan *plan, uint32_t owner_slot, uint64_t number)
{
	uint32_t i = plan->region_head[region_slot(owner_slot, number)];

	while (i != NONE && (plan->region[i].owner_slot != owner_slot || plan->region[i].number != number))
		i = plan->region[i].next;
	return i;
}

/* The batch of that process and target that is being filled. */
static uint32_t find_batch(const struct plan *plan, uint32_t owner_slot, int nid)
{
	uint32_t i = plan->batch_head[batch_slot(owner_slot, nid)];

	while (i != NONE && (plan->batch[i].info.owner_slot != owner_slot || plan->batch[i].info.nid != nid))
		i = plan->batch[i].next;
	return i;
}

static bool batch_takes(const struct plan *plan, uint32_t i, size_t pages)
{
	return i != NONE && plan->batch[i].info.pages + pages <= plan->batch_pages;
}

static size_t first_page(const struct hotness_candidate *c)
{
	return (size_t)(c->addr >> PAGE_SHIFT) % REGION_PAGES;
}

static size_t base_pages(const struct hotness_candidate *c)
{
	assert(c->page_bytes >= PAGE_SIZE_BYTES && c->page_bytes <= REGION_BYTES);
	assert((c->page_bytes & (c->page_bytes - 1)) == 0 && c->addr % c->page_bytes == 0);
	return (size_t)(c->page_bytes >> PAGE_SHIFT);
}

int plan_check(const struct plan *plan, const struct hotness_candidate *c, int nid)
{
	size_t pages = base_pages(c), there = 0;
	uint32_t r = find_region(plan, c->owner_slot, c->addr >> REGION_SHIFT);

	for (size_t i = first_page(c); r != NONE && i < first_page(c) + pages; i++)
		there += plan->region[r].page[i / BITS_PER_WORD] >> (i % BITS_PER_WORD) & 1;
	if (there > 0)
		return there == pages ? -EEXIST : -EBUSY;
	if (plan->pages >= PLAN_PAGES_MAX)
		return -ENOSPC;
	if (plan->n_batches == PLAN_BATCHES_MAX && !batch_takes(plan, find_batch(plan, c->owner_slot, nid), pages))
		return -ENOSPC;
	return 0;
}

static void mark(struct plan *plan, const struct hotness_candidate *c, size_t pages)
{
	uint64_t number = c->addr >> REGION_SHIFT;
	uint32_t r = find_region(plan, c->owner_slot, number);

	if (r == NONE) {
		uint32_t *head = &plan->region_head[region_slot(c->owner_slot, number)];

		r = (uint32_t)plan->n_regions++;
		plan->region[r] = (struct region){ .number = number, .owner_slot = c->owner_slot, .next = *head };
		*head = r;
	}
	for (size_t i = first_page(c); i < first_page(c) + pages; i++)
		plan->region[r].page[i / BITS_PER_WORD] |= 1ULL << (i % BITS_PER_WORD);
}

static struct batch *open_batch(struct plan *plan, const struct hotness_candidate *c, int nid, size_t pages)
{
	uint32_t b = find_batch(plan, c->owner_slot, nid);

	if (!batch_takes(plan, b, pages)) {
		uint32_t *head = &plan->batch_head[batch_slot(c->owner_slot, nid)];

		b = (uint32_t)plan->n_batches++;
		plan->batch[b] = (struct batch){
			.info = { .owner_slot = c->owner_slot,
				  .pid = c->pid,
				  .start_ticks = c->start_ticks,
				  .nid = nid },
			.first = NONE,
			.last = NONE,
			.next = *head,
		};
		*head = b;
	}
	return &plan->batch[b];
}

int plan_add(struct plan *plan, const struct hotness_candidate *c, int nid)
{
	size_t pages = base_pages(c);
	struct batch *batch;
	uint32_t e;
	int r = plan_check(plan, c, nid);

	if (r < 0)
		return r;
	mark(plan, c, pages);
	batch = open_batch(plan, c, nid, pages);
	e = (uint32_t)plan->n_entries++;
	plan->entry[e] = (struct entry){ .candidate = *c, .next = NONE };
	if (batch->last == NONE)
		batch->first = e;
	else
		plan->entry[batch->last].next = e;
	batch->last = e;
	batch->info.candidates++;
	batch->info.pages += pages;
	plan->pages += pages;
	return 0;
}

size_t plan_batches(const struct plan *plan)
{
	return plan->n_batches;
}

void plan_batch(const struct plan *plan, size_t i, struct plan_batch *ret)
{
	assert(i < plan->n_batches);
	*ret = plan->batch[i].info;
}

size_t plan_batch_candidates(const struct plan *plan, size_t i, const struct hotness_candidate **ret, size_t max)
{
	size_t n = 0;

	assert(i < plan->n_batches);
	for (uint32_t e = plan->batch[i].first; e != NONE && n < max; e = plan->entry[e].next)
		ret[n++] = &plan->entry[e].candidate;
	return n;
}
