/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * mover_batch: how many pages go into one move call. A call costs something beside its pages (it drains all CPUs' LRU
 * caches), so few and full ones are cheap; but who touches a page that is on its way waits for the end of the batch
 * that it is in. Both are measured: a straight line through the times of the last calls, of which the newest count
 * most.
 *
 * Owner   one migrator; not shared
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define MOVER_BATCH_MIN      8  /* base pages */
#define MOVER_BATCH_OVERHEAD 20 /* so that what a call costs beside its pages is at most a 20th of it */

struct mover_batch {
	uint64_t calls;                             /* measured so far */
	double weight, pages, ns, pages2, pages_ns; /* sums over them, those of older ones fading */
	uint64_t longest_ns;
};

/* A call with @pages base pages took @call_ns. */
void mover_batch_learn(struct mover_batch *batch, size_t pages, uint64_t call_ns);

/* What a call costs beside its pages, and what a base page costs, in ns; both 0: not known yet. */
void mover_batch_cost(const struct mover_batch *batch, double *ret_call_ns, double *ret_page_ns);

/*
 * Base pages for the next calls: enough to make the call's own cost small, as far as it stays within @stall_ns (where a
 * call alone takes more than half of that: its pages within the other half), at least MOVER_BATCH_MIN and at most @max.
 * @max while nothing is known.
 */
size_t mover_batch_size(const struct mover_batch *batch, uint64_t stall_ns, size_t max);
