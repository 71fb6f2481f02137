/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * At the memory bound the coldest go first; but where several programs share the tables, from those that take more than
 * an equal share of them: one that touches memory without end must not push out the others, however cold theirs is. All
 * that is over the bound is over someone's share, so there is always enough to take.
 */
#include "hotness_internal.h"
#include "owners.h"
#include "stats.h"

#define MARGIN         16 /* evict down to 1/16 below the bound */
#define EVICT_ROUNDS   16 /* of estimates; then the next turn goes on */
#define SHARE_ROUNDS   16 /* who is over its share is found out anew so often */
#define SHARE_PARTS    4  /* and at least after each quarter of what is to go */
#define AGE_CLASSES    256
#define AGE_CLASS_BITS 3 /* eight classes to each doubling of the age */
#define BUCKET_BYTES   8 /* of the hash, two for each region */

uint64_t hotness_region_bytes(const struct hotness *hotness, const struct region *region)
{
	uint64_t bytes = sizeof(*region) + BUCKET_BYTES;

	if (atomic_load_explicit(&region->seen, memory_order_relaxed))
		bytes += sizeof(struct region_seen);
	return bytes +
	       atomic_load_explicit(&region->n_seen, memory_order_relaxed) * hotmap_bytes_of_record(hotness->layout);
}

/* 0 for the youngest. */
static unsigned int age_class(const struct region *region, uint64_t now_ns)
{
	uint64_t ticks = region_idle_ns(region, now_ns) >> REGION_TICK_SHIFT;
	unsigned int log;

	if (ticks < 1U << AGE_CLASS_BITS)
		return (unsigned int)ticks;
	log = 63 - (unsigned int)__builtin_clzll(ticks);
	return ((log - AGE_CLASS_BITS + 1) << AGE_CLASS_BITS) +
	       (unsigned int)(ticks >> (log - AGE_CLASS_BITS) & ((1U << AGE_CLASS_BITS) - 1));
}

struct eviction {
	struct hotness_going going;
	uint64_t share_bytes;     /* owners that take more are asked */
	uint64_t n[AGE_CLASSES];  /* their regions, by age */
	unsigned int oldest_kept; /* class; older ones go */
	uint64_t quota;           /* how many of that class go too */
};

static struct owner *owner_of(const struct eviction *e, const struct region *region)
{
	return owners_at(e->going.hotness->owners,
			 region_owner_slot(atomic_load_explicit(&region->key, memory_order_relaxed)));
}

static void tally(void *ctx, uint32_t slot, struct region *region)
{
	struct eviction *e = ctx;
	struct owner *owner = owner_of(e, region);

	(void)slot;
	if (owner)
		owner->tally_bytes += hotness_region_bytes(e->going.hotness, region);
}

static bool is_asked(const struct eviction *e, const struct owner *owner)
{
	return !owner || owner->tally_bytes > e->share_bytes;
}

static void count_age(void *ctx, uint32_t slot, struct region *region)
{
	struct eviction *e = ctx;

	(void)slot;
	e->n[age_class(region, e->going.now_ns)] += is_asked(e, owner_of(e, region));
}

static void pick_coldest(void *ctx, uint32_t slot, struct region *region)
{
	struct eviction *e = ctx;
	unsigned int class = age_class(region, e->going.now_ns);
	struct owner *owner;

	if (class < e->oldest_kept)
		return;
	owner = owner_of(e, region);
	if (!is_asked(e, owner))
		return;
	if (class == e->oldest_kept) {
		if (e->quota == 0)
			return;
		e->quota--;
	}
	if (owner)
		atomic_fetch_add_explicit(&owner->evicted, 1, memory_order_relaxed);
	hotness_unlink_region(&e->going, slot, region, REGION_EVICTED);
}

/*
 * Pick the coldest regions of who is over its share, @n at most, and no more than they are over it on average. By
 * classes of age, and any of the class that is not needed whole. Returns how many.
 */
static uint64_t pick(struct eviction *e, uint64_t n)
{
	struct hotness *hotness = e->going.hotness;
	unsigned int class = AGE_CLASSES - 1;
	uint64_t asked = 0, over, picked;
	struct owners_tally sums;

	regions_for_each(hotness->regions, tally, e);
	e->share_bytes = 0;
	owners_sum_tally(hotness->owners, 0, &sums);
	/* Where all take the same, all are asked. */
	if (sums.owners && sums.most_bytes > sums.bytes / sums.owners) {
		e->share_bytes = sums.bytes / sums.owners;
		owners_sum_tally(hotness->owners, e->share_bytes, &sums);
	}
	for (unsigned int i = 0; i < AGE_CLASSES; i++)
		e->n[i] = 0;
	regions_for_each(hotness->regions, count_age, e);
	for (unsigned int i = 0; i < AGE_CLASSES; i++)
		asked += e->n[i];
	over = sums.bytes ? (uint64_t)((double)asked * (double)(sums.bytes - sums.owners * e->share_bytes) /
				       (double)sums.bytes) +
				    1
			  : asked;
	if (n > over)
		n = over;
	picked = n < asked ? n : asked;
	for (; class > 0 && e->n[class] < n; class --)
		n -= e->n[class];
	e->oldest_kept = class;
	e->quota = n;
	regions_for_each(hotness->regions, pick_coldest, e);
	owners_publish_tally(hotness->owners);
	return picked;
}

static void evict(struct hotness *hotness, uint64_t now_ns, uint64_t n, struct stats_slot *stats)
{
	struct eviction e = { .going = { .hotness = hotness, .now_ns = now_ns, .list = HOTNESS_LIST_END } };

	uint64_t part = (n + SHARE_PARTS - 1) / SHARE_PARTS, picked = 1;

	for (int round = 0; round < SHARE_ROUNDS && n > 0 && picked > 0; round++, n -= picked)
		picked = pick(&e, n < part ? n : part);
	hotness_remove_going(&e.going, now_ns, stats);
	regions_tidy(hotness->regions);
}

void hotness_keep_bound(struct hotness *hotness, uint64_t now_ns, struct stats_slot *stats)
{
	uint64_t max_bytes = atomic_load_explicit(&hotness->mem.max_bytes, memory_order_relaxed);
	uint64_t refused_bytes = tablemem_take_refused(&hotness->mem), margin_bytes = max_bytes / MARGIN, target_bytes;

	if (regions_was_full(hotness->regions))
		evict(hotness, now_ns, regions_count(hotness->regions) / MARGIN + 1, stats);
	if (refused_bytes == 0 && tablemem_bytes(&hotness->mem) <= max_bytes)
		return;
	/* A larger hash of the regions may need more than the margin; what can never fit doesn't count. */
	if (refused_bytes > margin_bytes && refused_bytes < max_bytes / 2)
		margin_bytes = refused_bytes;
	target_bytes = max_bytes - margin_bytes;
	for (int round = 0; round < EVICT_ROUNDS; round++) {
		uint64_t bytes = tablemem_bytes(&hotness->mem);
		size_t regions = regions_count(hotness->regions);

		if (bytes <= target_bytes || regions == 0)
			return;
		/* What a region and its records take on average; the estimate gets better as it goes on. */
		evict(hotness, now_ns, (size_t)((bytes - target_bytes) / (bytes / regions + 1) + 1), stats);
	}
}
