/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a policy that decides by region reads and writes. */
#include "hotness_regions.h"
#include "hotness_internal.h"
#include "owners.h"
#include "sample.h"

void hotness_set_by_region(struct hotness *hotness, bool on)
{
	atomic_store_explicit(&hotness->by_region, on, memory_order_relaxed);
}

uint32_t hotness_view_owner(const struct hotness_view *view)
{
	return region_owner_slot(view->key);
}

bool hotness_is_by_region(const struct hotness *hotness)
{
	return atomic_load_explicit(&hotness->by_region, memory_order_relaxed);
}

size_t hotness_take_marked(struct hotness *hotness, uint32_t *from, uint32_t *ret_slots, size_t max)
{
	return slotset_take(&hotness->marks, from, ret_slots, max);
}

static void look(const struct region *region, uint32_t slot, uint64_t key, uint64_t now_ns, struct hotness_view *ret)
{
	uint64_t seen[REGION_PAGES / 64];

	*ret = (struct hotness_view){
		.key = key,
		.slot = slot,
		.decision = atomic_load_explicit(&region->decision, memory_order_relaxed),
		.nodes = atomic_load_explicit(&region->nodes, memory_order_relaxed),
		.idle_ns = region_idle_ns(region, now_ns),
		.page_bytes = region_page_bytes(region),
	};
	region_pages_seen(region, seen);
	for (unsigned int i = 0; i < REGION_PAGES / 64; i++) {
		if (!seen[i])
			continue;
		if (ret->pages == 0)
			ret->first_page = (uint16_t)(i * 64 + (unsigned int)__builtin_ctzll(seen[i]));
		ret->last_page = (uint16_t)(i * 64 + 63 - (unsigned int)__builtin_clzll(seen[i]));
		ret->pages += (uint16_t)__builtin_popcountll(seen[i]);
	}
	region_evidence(region, now_ns, &ret->evidence);
}

static const struct region *live(const struct hotness *hotness, uint32_t slot, uint64_t *ret_key)
{
	const struct region *region = regions_at(hotness->regions, slot);

	/* Acquire: pairs with K1 in regions.h. */
	*ret_key = atomic_load_explicit(&region->key, memory_order_acquire);
	return *ret_key && atomic_load_explicit(&region->state, memory_order_relaxed) == REGION_LIVE ? region : NULL;
}

bool hotness_view(const struct hotness *hotness, uint32_t slot, uint64_t now_ns, struct hotness_view *ret)
{
	uint64_t key;
	const struct region *region = live(hotness, slot, &key);

	if (!region)
		return false;
	look(region, slot, key, now_ns, ret);
	return true;
}

bool hotness_find_view(const struct hotness *hotness, uint32_t pid, uint32_t owner_slot, uint64_t addr, uint64_t now_ns,
		       struct hotness_view *ret)
{
	uint32_t slot;

	return addr < REGION_ADDR_MAX &&
	       regions_find(hotness->regions, hotness_shard(pid, addr, hotness->shards), owner_slot, addr, &slot) &&
	       hotness_view(hotness, slot, now_ns, ret);
}

struct viewing {
	uint64_t now_ns;
	struct hotness_view *views;
	size_t n, max;
};

static void view_one(void *ctx, uint32_t slot, struct region *region)
{
	struct viewing *viewing = ctx;

	if (viewing->n < viewing->max)
		look(region, slot, atomic_load_explicit(&region->key, memory_order_relaxed), viewing->now_ns,
		     &viewing->views[viewing->n++]);
}

size_t hotness_views(const struct hotness *hotness, uint32_t part, uint32_t parts, uint64_t now_ns,
		     struct hotness_view *ret, size_t max)
{
	struct viewing viewing = { .now_ns = now_ns, .views = ret, .max = max };

	regions_for_each_part(hotness->regions, part, parts, view_one, &viewing);
	return viewing.n;
}

bool hotness_decide(struct hotness *hotness, uint32_t slot, uint32_t old, uint32_t next)
{
	struct region *region = regions_at(hotness->regions, slot);

	/* A slot that is another region's by now: a decision too many, which its migrator finds nothing to move for,
	 * or which costs that region a moment's confusion. */
	return atomic_compare_exchange_strong_explicit(&region->decision, &old, next, memory_order_relaxed,
						       memory_order_relaxed);
}

bool hotness_region(const struct hotness *hotness, uint32_t slot, struct hotness_target *ret)
{
	uint64_t key;
	const struct region *region = live(hotness, slot, &key);
	const struct owner *owner = region ? owners_at(hotness->owners, region_owner_slot(key)) : NULL;

	if (!owner || atomic_load_explicit(&owner->state, memory_order_relaxed) != OWNER_ALIVE)
		return false;
	*ret = (struct hotness_target){
		.addr = region_addr(key),
		.page_bytes = region_page_bytes(region),
		.nodes = atomic_load_explicit(&region->nodes, memory_order_relaxed),
		.decision = atomic_load_explicit(&region->decision, memory_order_relaxed),
		.owner_slot = owner->slot,
		.pid = owner->pid,
		.start_ticks = owner->start_ticks,
	};
	region_pages_seen(region, ret->seen);
	return true;
}
