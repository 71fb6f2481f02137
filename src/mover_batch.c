/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "mover_batch.h"

#define FADE       0.97 /* a call counts half after 23 further ones */
#define CALLS_MIN  8
#define PAGE_PART  4
#define SPREAD_MIN 0.01 /* squared: sizes of calls differ by 10% of their mean at least, or no line can be drawn */

void mover_batch_learn(struct mover_batch *batch, size_t pages, uint64_t call_ns)
{
	const double x = (double)pages, y = (double)call_ns;

	batch->calls++;
	batch->weight = batch->weight * FADE + 1;
	batch->pages = batch->pages * FADE + x;
	batch->ns = batch->ns * FADE + y;
	batch->pages2 = batch->pages2 * FADE + x * x;
	batch->pages_ns = batch->pages_ns * FADE + x * y;
	if (call_ns > batch->longest_ns)
		batch->longest_ns = call_ns;
}

void mover_batch_cost(const struct mover_batch *batch, double *ret_call_ns, double *ret_page_ns)
{
	double mean_pages, mean_ns, spread, slope;

	*ret_call_ns = *ret_page_ns = 0;
	if (batch->calls < CALLS_MIN)
		return;
	mean_pages = batch->pages / batch->weight;
	mean_ns = batch->ns / batch->weight;
	spread = batch->pages2 / batch->weight - mean_pages * mean_pages;
	if (spread < SPREAD_MIN * mean_pages * mean_pages) {
		/* All of one size: as if the pages cost all, which makes calls of another size, and those tell. */
		*ret_page_ns = mean_ns / mean_pages;
		return;
	}
	slope = (batch->pages_ns / batch->weight - mean_pages * mean_ns) / spread;
	/*
	 * Times scatter. A call can't cost less than nothing beside its pages; and pages that seem to cost next to
	 * nothing would make calls of any size, so they cost a part of what they cost with their share of the call.
	 */
	if (slope < mean_ns / mean_pages / PAGE_PART)
		slope = mean_ns / mean_pages / PAGE_PART;
	if (slope > mean_ns / mean_pages)
		slope = mean_ns / mean_pages;
	*ret_page_ns = slope;
	*ret_call_ns = mean_ns - slope * mean_pages;
}

size_t mover_batch_size(const struct mover_batch *batch, uint64_t stall_ns, size_t max)
{
	double call_ns, page_ns, size, bound;

	mover_batch_cost(batch, &call_ns, &page_ns);
	if (page_ns <= 0)
		return max;
	size = call_ns * (MOVER_BATCH_OVERHEAD - 1) / page_ns;
	/* Smaller calls don't help against what each costs: the pages get half of the time at least. */
	bound = (double)stall_ns - call_ns;
	if (bound < (double)stall_ns / 2)
		bound = (double)stall_ns / 2;
	bound /= page_ns;
	/* Without a cost of its own a call of a quarter of what is allowed says more about it than a small one. */
	if (call_ns <= 0)
		size = bound / 4;
	if (size > bound)
		size = bound;
	if (size > (double)max)
		size = (double)max;
	return size < MOVER_BATCH_MIN ? MOVER_BATCH_MIN : (size_t)size;
}
