/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "hotness_internal.h"
#include "owners.h"
#include "rcu.h"
#include "stats.h"

#define TIDY_PARTS 128 /* of 2 MiB put into huge pages in a turn: at most a tenth of a second */

_Static_assert((int)REGION_STATES == HOTMAP_CAUSES, "a region's state is the cause by which its records are cleared");

void hotness_unlink_region(struct hotness_going *going, uint32_t slot, struct region *region, enum region_state state)
{
	regions_unlink(going->hotness->regions, slot, state);
	region->link = going->list;
	going->list = slot;
	going->n[state]++;
}

static void pick_useless(void *ctx, uint32_t slot, struct region *region)
{
	struct hotness_going *going = ctx;
	uint64_t key = atomic_load_explicit(&region->key, memory_order_relaxed);
	struct owner *owner = owners_at(going->hotness->owners, region_owner_slot(key));

	if (!owner || atomic_load_explicit(&owner->state, memory_order_relaxed) != OWNER_ALIVE)
		hotness_unlink_region(going, slot, region, REGION_OWNER_GONE);
	else if (region_idle_ns(region, going->now_ns) >= going->cold_ns)
		hotness_unlink_region(going, slot, region, REGION_COLD);
	else
		owner->tally_bytes += hotness_region_bytes(going->hotness, region);
}

/* Why records of that region go; 0: they stay. */
static unsigned int cause_of(void *ctx, uint32_t backref)
{
	const struct hotness *hotness = ctx;

	return atomic_load_explicit(&regions_at(hotness->regions, REGION_SLOT_OF(backref))->state,
				    memory_order_relaxed);
}

static void release_regions(struct hotness_going *going)
{
	struct hotness *hotness = going->hotness;

	while (going->list != HOTNESS_LIST_END) {
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

void hotness_remove_going(struct hotness_going *going, uint64_t last_ns, struct stats_slot *stats)
{
	struct hotness *hotness = going->hotness;
	struct hotmap_sweep sweep = { .now_ns = going->now_ns, .last_ns = last_ns };
	struct hotmap_sweep_result result;
	uint64_t cleared = 0;
	uintptr_t retired;

	if (going->list != HOTNESS_LIST_END) {
		rcu_wait();
		sweep.cause = cause_of;
		sweep.ctx = hotness;
	}
	hotmap_sweep(hotness->map, &sweep, &result);
	for (unsigned int cause = 0; cause < HOTMAP_CAUSES; cause++)
		cleared += result.cleared[cause];
	atomic_fetch_sub_explicit(&hotness->records_changed, cleared, memory_order_relaxed);
	retired = retire_take(&hotness->retire);
	if (retired || going->list != HOTNESS_LIST_END)
		rcu_wait();
	retire_free(&hotness->retire, retired);
	release_regions(going);
	stats_add(stats, STAT_AGED_REGIONS, going->n[REGION_COLD]);
	stats_add(stats, STAT_AGED_RECORDS, result.cleared[0] + result.cleared[REGION_COLD]);
	stats_add(stats, STAT_EVICTED_REGIONS, going->n[REGION_EVICTED]);
	stats_add(stats, STAT_EVICTED_RECORDS, result.cleared[REGION_EVICTED]);
}

void hotness_janitor(struct hotness *hotness, uint64_t now_ns, uint64_t cold_ns, struct stats_slot *stats)
{
	struct hotness_going going = {
		.hotness = hotness, .now_ns = now_ns, .cold_ns = cold_ns, .list = HOTNESS_LIST_END
	};
	uint64_t last_ns = atomic_load_explicit(&hotness->janitor_ns, memory_order_relaxed);

	atomic_store_explicit(&hotness->janitor_ns, now_ns, memory_order_relaxed);
	regions_for_each(hotness->regions, pick_useless, &going);
	owners_publish_tally(hotness->owners);
	hotness_remove_going(&going, last_ns, stats);
	regions_tidy(hotness->regions);
	hotness_keep_bound(hotness, now_ns, stats);
	if (hotness->arena)
		tablearena_tidy(hotness->arena, TIDY_PARTS);
}
