/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plan: what one round of a migrator is going to move, as batches of one process and one target each. Bounded, and of
 * one size from the start: a round that finds more stops its scan and comes again.
 *
 * No page is in it twice, by itself or as part of a huge page: the kernel refuses the second address of a folio with
 * -EBUSY and cuts its batch there (add_page_for_migration(), mm/migrate.c).
 *
 * Owner   one migrator; not shared
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "hotness.h"

#define PLAN_BATCHES_MAX 256
#define PLAN_PAGES_MAX   8192 /* base pages, 32 MiB: what the kernel moves in a few ms to a few tens of ms */

struct plan;

struct plan_batch {
	uint32_t owner_slot;
	uint32_t pid;
	uint64_t start_ticks;
	int nid;           /* target */
	size_t candidates; /* addresses: 1 or more */
	size_t pages;      /* base pages */
};

struct plan *plan_new(void); /* NULL: no memory */
void plan_free(struct plan *plan);

/*
 * Empty it, for batches of up to @batch_pages base pages (1..1024) from now on; a huge page that is larger makes a
 * batch of its own.
 */
void plan_reset(struct plan *plan, size_t batch_pages);

/*
 * Add @candidate, to be moved to @nid. @candidate->page_bytes is a power of two, 4096..2 MiB. 0; -EEXIST when all of it
 * is in the plan; -EBUSY when only a part of it is; -ENOSPC when the plan is full. Nothing is changed by an error. A
 * page larger than what is left of PLAN_PAGES_MAX still fits if anything is left.
 */
int plan_add(struct plan *plan, const struct hotness_candidate *candidate, int nid);

/* What plan_add() would return. */
int plan_check(const struct plan *plan, const struct hotness_candidate *candidate, int nid);

size_t plan_batches(const struct plan *plan);

/* Batch @i of plan_batches(), in the order in which they were begun. */
void plan_batch(const struct plan *plan, size_t i, struct plan_batch *ret);

/* Its candidates in the order of insertion, up to @max; returns how many. The pointers hold until plan_reset(). */
size_t plan_batch_candidates(const struct plan *plan, size_t i, const struct hotness_candidate **ret, size_t max);
