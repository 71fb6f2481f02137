/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "sample.h"
#include "victims_internal.h"

#define LOOKS_PART 4 /* and looked at, for each of those */

static uint64_t absent_max(const struct victims_process *p)
{
	return p->resident_regions * VICTIMS_MAPPED_PART;
}

static uint64_t regions_of(const struct victims_range *range)
{
	return ((range->end - 1) >> REGION_SHIFT) - (range->start >> REGION_SHIFT) + 1;
}

void victims_walk_begin(struct victims_walk *walk, struct victims_process *p)
{
	*walk = (struct victims_walk){
		.range = p->next_range < p->n ? p->next_range : 0,
		.ranges_left = p->n,
	};
	p->next_range = 0;
}

static void begin_range(struct victims_walk *walk, const struct victims_process *p, uint64_t round)
{
	uint64_t n = regions_of(&p->range[walk->range]), piece = absent_max(p) / 2;

	walk->in_range = true;
	walk->region = n > piece ? round * piece % n : 0;
	walk->regions_left = n;
	walk->absent_here = 0;
}

static void end_range(struct victims_walk *walk, const struct victims_process *p)
{
	walk->in_range = false;
	walk->range = (walk->range + 1) % p->n;
	walk->ranges_left--;
}

bool victims_walk_next(struct victims_walk *walk, struct victims_process *p, uint64_t round, struct victim *ret)
{
	const struct victims_range *range;
	uint64_t start, end, region;

	while (walk->in_range && (walk->regions_left == 0 || walk->absent_here >= absent_max(p) / 2))
		end_range(walk, p);
	if (walk->ranges_left == 0)
		return false;
	if (walk->absent >= absent_max(p) || walk->looks >= LOOKS_PART * absent_max(p)) {
		p->next_range = walk->range;
		return false;
	}
	range = &p->range[walk->range];
	if (!walk->in_range)
		begin_range(walk, p, round);
	region = (range->start & ~(REGION_BYTES - 1)) + walk->region * REGION_BYTES;
	start = victims_max(region, range->start);
	end = region + REGION_BYTES < range->end ? region + REGION_BYTES : range->end;
	walk->region = (walk->region + 1) % regions_of(range);
	walk->regions_left--;
	walk->looks++;
	*ret = (struct victim){
		.addr = region,
		.since_ns = range->since_ns,
		.start_ticks = p->start_ticks,
		.owner_slot = p->owner_slot,
		.pid = p->pid,
		.first_page = (uint16_t)((start - region) >> PAGE_SHIFT),
		.n_pages = (uint16_t)((end - start) >> PAGE_SHIFT),
	};
	return true;
}

void victims_walk_absent(struct victims_walk *walk, size_t range)
{
	walk->absent++;
	walk->absent_here += walk->in_range && walk->range == range;
}
