/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "hotness_internal.h"
#include "owners.h"
#include "rcu.h"
#include "stats.h"

#define LIST_END       UINT32_MAX
#define MARGIN         16  /* evict down to 1/16 below the bound */
#define EVICT_ROUNDS   16  /* of estimates; then the next turn goes on */
#define TIDY_PARTS     128 /* of 2 MiB put into huge pages in a turn: at most a tenth of a second */
#define AGE_CLASSES    256
#define AGE_CLASS_BITS 3 /* eight classes to each doubling of the age */

_Static_assert((int)REGION_STATES == HOTMAP_CAUSES, "a region's state is the cause by which its records are cleared");

/* Regions on their way out. */
struct going {
	struct hotness *hotness;
	uint64_t now_ns;
	uint64_t cold_ns;
	uint32_t list; /* by region->link */
	uint64_t n[REGION_STATES];
	/* Of an eviction: */
	unsigned int oldest_kept; /* class; older ones go */
	size_t quota;             /* how many of that class go too */
};

static void unlink_region(struct going *going, uint32_t slot, struct region *region, enum region_state state)
{
	regions_unlink(going->hotness->regions, slot, state);
	region->link = going->list;
	going->list = slot;
	going->n[state]++;
}

static void pick_useless(void *ctx, uint32_t slot, struct region *region)
{
	struct going *going = ctx;
	uint64_t key = atomic_load_explicit(&region->key, memory_order_relaxed);
	const struct owner *owner = owners_at(going->hotness->owners, region_owner_slot(key));

	if (!owner || atomic_load_explicit(&owner->state, memory_order_relaxed) != OWNER_ALIVE)
		unlink_region(going, slot, region, REGION_OWNER_GONE);
	else if (region_idle_ns(region, going->now_ns) >= going->cold_ns)
		unlink_region(going, slot, region, REGION_COLD);
}

/* Why records of that region go; 0: they stay. */
static unsigned int cause_of(void *ctx, uint32_t backref)
{
	const struct hotness *hotness = ctx;

	return atomic_load_explicit(&regions_at(hotness->regions, REGION_SLOT_OF(backref))->state,
				    memory_order_relaxed);
}

static void release_regions(struct going *going)
{
	struct hotness *hotness = going->hotness;

	while (going->list != LIST_END) {
		uint32_t slot = going->list;
		struct region *region = regions_at(hotness->regions, slot);
		uint64_t key = atomic_load_explicit(&region->key, memory_order_relaxed);
		struct owner *owner = owners_at(hotness->owners, region_owner_slot(key));

		going->list = region->link;
		regions_release(hotness->regions, slot);
		if (owner)
			atomic_fetch_sub_explicit(&owner->regions, 1, memory_order_relaxed);
	}
}

/* From unlinked to free, with the records of the regions; see regions.h for the steps. */
static void remove_going(struct going *going, uint64_t last_ns, struct stats_slot *stats)
{
	struct hotness *hotness = going->hotness;
	struct hotmap_sweep sweep = { .now_ns = going->now_ns, .last_ns = last_ns };
	struct hotmap_sweep_result result;
	uint64_t cleared = 0;
	uintptr_t retired;

	if (going->list != LIST_END) {
		rcu_wait();
		sweep.cause = cause_of;
		sweep.ctx = hotness;
	}
	hotmap_sweep(hotness->map, &sweep, &result);
	for (unsigned int cause = 0; cause < HOTMAP_CAUSES; cause++)
		cleared += result.cleared[cause];
	atomic_fetch_sub_explicit(&hotness->records_changed, cleared, memory_order_relaxed);
	retired = retire_take(&hotness->retire);
	if (retired || going->list != LIST_END)
		rcu_wait();
	retire_free(&hotness->retire, retired);
	release_regions(going);
	stats_add(stats, STAT_AGED_REGIONS, going->n[REGION_COLD]);
	stats_add(stats, STAT_AGED_RECORDS, result.cleared[0] + result.cleared[REGION_COLD]);
	stats_add(stats, STAT_EVICTED_REGIONS, going->n[REGION_EVICTED]);
	stats_add(stats, STAT_EVICTED_RECORDS, result.cleared[REGION_EVICTED]);
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

struct ages {
	uint64_t now_ns;
	size_t n[AGE_CLASSES];
};

static void count_age(void *ctx, uint32_t slot, struct region *region)
{
	struct ages *ages = ctx;

	(void)slot;
	ages->n[age_class(region, ages->now_ns)]++;
}

static void pick_coldest(void *ctx, uint32_t slot, struct region *region)
{
	struct going *going = ctx;
	unsigned int class = age_class(region, going->now_ns);

	if (class < going->oldest_kept)
		return;
	if (class == going->oldest_kept) {
		if (going->quota == 0)
			return;
		going->quota--;
	}
	unlink_region(going, slot, region, REGION_EVICTED);
}

/* Evict the @n coldest regions: by classes of age, and any of the class that is not needed whole. */
static void evict(struct hotness *hotness, uint64_t now_ns, size_t n, struct stats_slot *stats)
{
	struct going going = { .hotness = hotness, .now_ns = now_ns, .list = LIST_END };
	struct ages ages = { .now_ns = now_ns };
	unsigned int class = AGE_CLASSES - 1;

	regions_for_each(hotness->regions, count_age, &ages);
	for (; class > 0 && ages.n[class] < n; class --)
		n -= ages.n[class];
	going.oldest_kept = class;
	going.quota = n;
	regions_for_each(hotness->regions, pick_coldest, &going);
	remove_going(&going, now_ns, stats);
	regions_tidy(hotness->regions);
}

static void keep_bound(struct hotness *hotness, uint64_t now_ns, struct stats_slot *stats)
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

void hotness_janitor(struct hotness *hotness, uint64_t now_ns, uint64_t cold_ns, struct stats_slot *stats)
{
	struct going going = { .hotness = hotness, .now_ns = now_ns, .cold_ns = cold_ns, .list = LIST_END };
	uint64_t last_ns = atomic_load_explicit(&hotness->janitor_ns, memory_order_relaxed);

	atomic_store_explicit(&hotness->janitor_ns, now_ns, memory_order_relaxed);
	regions_for_each(hotness->regions, pick_useless, &going);
	remove_going(&going, last_ns, stats);
	regions_tidy(hotness->regions);
	keep_bound(hotness, now_ns, stats);
	if (hotness->arena)
		tablearena_tidy(hotness->arena, TIDY_PARTS);
}
