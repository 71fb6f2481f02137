/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stddef.h>
#include <stdlib.h>

#include "mover_rest.h"

#define SETS      1024
#define WAYS      4
#define PROCESSES 256

struct page {
	uint64_t pfn;
	uint64_t until_ns;
	uint32_t owner_slot;
	uint32_t tries; /* 0: free */
};

struct process {
	uint64_t start_ticks;
	uint64_t until_ns; /* 0: free */
	uint32_t owner_slot;
	int nid;
};

struct mover_rest {
	size_t pages; /* how many there are: mostly none, and then nothing is looked for */
	size_t processes;
	struct page page[SETS][WAYS];
	struct process process[PROCESSES]; /* by hash of the process, no further */
};

struct mover_rest *mover_rest_new(void)
{
	return calloc(1, sizeof(struct mover_rest));
}

void mover_rest_free(struct mover_rest *rest)
{
	free(rest);
}

static size_t set_of(uint64_t pfn)
{
	return (size_t)(pfn * 0x9e3779b97f4a7c15ULL >> 54);
}

_Static_assert(SETS == 1 << (64 - 54), "the hash gives 10 bits");

static const struct page *find(const struct mover_rest *rest, uint64_t pfn)
{
	const struct page *set = rest->page[set_of(pfn)];

	for (int way = 0; rest->pages > 0 && way < WAYS; way++)
		if (set[way].tries > 0 && set[way].pfn == pfn)
			return &set[way];
	return NULL;
}

enum mover_rest_state mover_rest_page(const struct mover_rest *rest, uint64_t pfn, uint32_t owner_slot, uint64_t now_ns)
{
	const struct page *page = find(rest, pfn);

	/* Another owner's page: what was there is gone. */
	if (!page || page->owner_slot != owner_slot || now_ns >= page->until_ns)
		return REST_NOT;
	return page->tries >= REST_TRIES ? REST_GIVEN_UP : REST_WAITS;
}

/* Where @pfn is or may be: in place of one whose time is over, if need be. NULL: all are taken. */
static struct page *place_for(struct mover_rest *rest, uint64_t pfn, uint64_t now_ns)
{
	struct page *set = rest->page[set_of(pfn)], *best = &set[0];

	for (int way = 0; way < WAYS; way++) {
		if (set[way].tries > 0 && set[way].pfn == pfn)
			return &set[way];
		if (best->tries > 0 && (set[way].tries == 0 || set[way].until_ns < best->until_ns))
			best = &set[way];
	}
	if (best->tries > 0 && best->until_ns > now_ns)
		return NULL;
	rest->pages += best->tries == 0;
	*best = (struct page){ .pfn = pfn };
	return best;
}

bool mover_rest_page_failed(struct mover_rest *rest, uint64_t pfn, uint32_t owner_slot, uint64_t now_ns)
{
	struct page *page = place_for(rest, pfn, now_ns);

	if (!page)
		return false;

	/* One that was given up starts anew when its peace is over. */
	if (page->owner_slot != owner_slot || page->tries >= REST_TRIES)
		page->tries = 0;
	page->owner_slot = owner_slot;
	page->tries++;
	page->until_ns = now_ns + (page->tries >= REST_TRIES ? REST_GIVEN_UP_NS : REST_FIRST_NS << (page->tries - 1));
	return page->tries < REST_TRIES;
}

void mover_rest_page_done(struct mover_rest *rest, uint64_t pfn)
{
	struct page *page = (struct page *)find(rest, pfn);

	if (!page)
		return;
	page->tries = 0;
	rest->pages--;
}

static size_t process_at(uint32_t owner_slot, int nid)
{
	return (owner_slot * 31U + (unsigned int)nid) % PROCESSES;
}

bool mover_rest_process(const struct mover_rest *rest, uint32_t owner_slot, uint64_t start_ticks, int nid,
			uint64_t now_ns)
{
	const struct process *p = &rest->process[process_at(owner_slot, nid)];

	return rest->processes > 0 && p->owner_slot == owner_slot && p->start_ticks == start_ticks && p->nid == nid &&
	       now_ns < p->until_ns;
}

void mover_rest_process_failed(struct mover_rest *rest, uint32_t owner_slot, uint64_t start_ticks, int nid,
			       uint64_t now_ns)
{
	struct process *p = &rest->process[process_at(owner_slot, nid)];

	rest->processes += p->until_ns == 0;
	*p = (struct process){ start_ticks, now_ns + REST_PROCESS_NS, owner_slot, nid };
}
