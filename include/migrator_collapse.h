/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * migrator_collapse: regions of base pages that were promoted whole, to be collapsed into a huge page each
 * (promote.collapse). A pass notes what it moved, and collapses at its end. Bounded: what it has no place for keeps its
 * base pages.
 *
 * Owner   one migrator; not shared
 */
#pragma once

#include <stdint.h>

#include "hotness.h"

#define COLLAPSE_REGIONS_MAX 256

struct migrator_collapse;
struct mover;

struct migrator_collapse *migrator_collapse_new(void); /* NULL: no memory */
void migrator_collapse_free(struct migrator_collapse *collapse);

void migrator_collapse_start(struct migrator_collapse *collapse);

/* A base page of @candidate's region is on @nid now. */
void migrator_collapse_note(struct migrator_collapse *collapse, const struct hotness_candidate *candidate, int nid);

/*
 * Collapse the regions of which every page was noted on one node; counts what came of it. Blocks. @check is asked right
 * before each: is it the same process still?
 */
void migrator_collapse_run(struct migrator_collapse *collapse, const struct mover *mover,
			   bool (*check)(void *ctx, const struct hotness_candidate *candidate), void *ctx);
