/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The path of a sample into the tables. In the steady state (a base page of a slow node that was sampled before) it
 * touches three lines that are not in a cache of the core: the chunk word, the page's word, and the region. The word is
 * found by PFN and names the region, so there is no lookup by address; and since it names this very page of it, the
 * page was seen before: neither the hash of the regions nor the bitmap of pages is looked at.
 */
#include <assert.h>

#include "hotmap_update.h"
#include "hotness_internal.h"
#include "owners.h"
#include "regions_internal.h"
#include "sample.h"

/* A sample on its way through the steps of a batch. */
struct probe {
	uint64_t key; /* of the region; 0: can't be taken */
	uint64_t pfn;
	uint32_t page; /* of the region */
	uint32_t chunk;
	struct hotmap_section *section; /* NULL: there is no record to look for, or no section yet */
	uint64_t chunk_word;
	struct hotmap_spot spot;
	uint64_t raw;          /* the word, when it was found; 0: none, or of another page of its region */
	uint32_t slot;         /* that the word names */
	struct region *region; /* of that slot, or where the bucket leads; NULL: none */
	const void *ask;       /* the line that the next step needs; may be any address */
};

static enum region_mapping mapping_of(const struct sample *sample)
{
	if (__builtin_expect(sample->page_shift < REGION_SHIFT, 1))
		return REGION_BASE_PAGES;
	return sample->page_shift >= 30 ? REGION_HUGE_1G : REGION_HUGE_2M;
}

static bool wants_record(const struct hotness_item *item)
{
	return item->place.is_lower && item->place.target_nid >= 0;
}

/* First step: what it is, and the chunk word or the bucket. */
static void locate(const struct hotness *hotness, unsigned int shard, const struct hotness_item *item,
		   struct probe *ret)
{
	const struct sample *sample = item->sample;
	const struct hotmap *map = hotness->map;
	uint64_t index;

	ret->section = NULL;
	ret->raw = 0;
	ret->region = NULL;
	ret->key = 0;
	if (sample->addr >= REGION_ADDR_MAX || sample->phys >> HOTMAP_PHYS_BITS)
		return;
	ret->key = regions_key(item->owner_slot, sample->addr);
	ret->page = (uint32_t)(sample->addr >> PAGE_SHIFT) & (REGION_PAGES - 1);
	ret->pfn = sample->phys >> PAGE_SHIFT;
	if (__builtin_expect(sample->page_shift >= REGION_SHIFT, 0)) {
		ret->page = 0;
		ret->pfn &= ~(uint64_t)(REGION_PAGES - 1);
	}
	if (!wants_record(item)) {
		regions_prefetch_bucket(hotness->regions, shard, ret->key);
		return;
	}
	index = ret->pfn >> map->section_shift;
	ret->chunk = (uint32_t)(ret->pfn >> HOTMAP_CHUNK_SHIFT) & (map->chunks - 1);
	ret->section = index < map->sections_max ? hotmap_section_at(map, index) : NULL;
	if (ret->section)
		__builtin_prefetch((const void *)hotmap_chunk_word(map, ret->section, ret->chunk));
}

/* Second step: the word, or its chunk, or the region. */
static void find_word(const struct hotness *hotness, unsigned int shard, struct probe *probe)
{
	const struct hotmap *map = hotness->map;
	unsigned int page = (unsigned int)probe->pfn & (HOTMAP_CHUNK_PAGES - 1);

	if (!probe->section) {
		if (probe->key)
			probe->region = regions_prefetch_region(hotness->regions, shard, probe->key);
		probe->ask = probe->region;
		return;
	}
	probe->chunk_word = atomic_load_explicit(hotmap_chunk_word(map, probe->section, probe->chunk),
						 memory_order_acquire); /* C2 */
	probe->ask = hotmap_chunk_of(probe->chunk_word);
	if (probe->chunk_word & HOTMAP_DENSE) {
		probe->spot = hotmap_find(map, probe->chunk_word, page);
		probe->ask = probe->spot.at;
		if (hotmap_is_narrow(map))
			__builtin_prefetch((const void *)hotmap_slots(probe->spot.chunk, HOTMAP_CHUNK_PAGES));
	}
}

/* Third step: the region that the word names, or the bucket of a page that has none, or what pages were seen. */
static void find_region(const struct hotness *hotness, unsigned int shard, struct probe *probe)
{
	const struct hotmap *map = hotness->map;
	uint32_t backref;
	uint64_t raw;

	if (!probe->section) {
		if (probe->region)
			regions_prefetch_seen(probe->region, probe->page);
		return;
	}
	probe->ask = NULL;
	if (!(probe->chunk_word & HOTMAP_DENSE))
		probe->spot = hotmap_find(map, probe->chunk_word, (unsigned int)probe->pfn & (HOTMAP_CHUNK_PAGES - 1));
	raw = probe->spot.at ? hotmap_load(map, probe->spot.at) : 0;
	if (raw == 0) {
		regions_prefetch_bucket(hotness->regions, shard, probe->key);
		return;
	}
	backref = hotmap_backref(hotmap_wide(map, probe->spot.chunk, probe->spot.cap, raw));
	if (REGION_PAGE_OF(backref) != probe->page) {
		regions_prefetch_bucket(hotness->regions, shard, probe->key);
		return;
	}
	probe->raw = raw;
	probe->slot = REGION_SLOT_OF(backref);
	probe->region = regions_slot(hotness->regions, probe->slot);
	probe->ask = probe->region;
}

/* One writer, so no locked add. */
static void add_one(_Atomic uint64_t *counter)
{
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1, memory_order_relaxed);
}

static bool by_region(const struct hotness *hotness)
{
	return atomic_load_explicit(&hotness->by_region, memory_order_relaxed);
}

/* What is decided about @region; nothing, where the policy is not one that decides regions. */
static uint32_t decision_of(const struct hotness *hotness, const struct region *region)
{
	return by_region(hotness) ? atomic_load_explicit(&region->decision, memory_order_relaxed) : 0;
}

/* Its pages carry the heat one by one: the policy has found that each that is seen is worth its move. */
static struct record_rule rule_of(const struct hotness_item *item, uint32_t decision)
{
	struct record_rule rule = *item->rule;

	if ((decision & REGION_DECISION_KIND) == REGION_DECISION_PAGES)
		rule.freq_threshold = 1;
	return rule;
}

/* The access is evidence for @region, which is in @slot. */
static void count(struct hotness *hotness, const struct hotness_item *item, struct region *region, uint32_t slot)
{
	const struct sample *sample = item->sample;

	region_note(region, &(struct region_note){
				    .latency = sample->latency,
				    .target_nid = item->place.is_lower ? item->place.target_nid : -1,
				    .is_far = item->place.is_lower,
				    .by_fault = sample->flags & SAMPLE_MAYBE_FIRST_TOUCH,
			    });
	region_count(region, sample->time_ns);
	if (wants_record(item))
		slotset_add(&hotness->marks, slot);
}

static struct hotmap_access make_access(const struct hotness_item *item, const struct record_rule *rule,
					uint32_t backref)
{
	return (struct hotmap_access){
		.rule = rule, .backref = backref, .nid = item->place.target_nid, .now_ns = item->sample->time_ns
	};
}

static enum hotness_result record(struct hotness *hotness, struct hotness_shard *shard, const struct hotness_item *item,
				  const struct record_rule *rule, uint64_t pfn, uint32_t backref)
{
	struct hotmap_access access = make_access(item, rule, backref);
	enum hotmap_result result;
	bool is_new;

	result = hotmap_touch(hotness->map, pfn, &access, &is_new);
	if (result == HOTMAP_NO_MEMORY)
		return HOTNESS_NO_MEMORY;
	if (is_new)
		add_one(&shard->records_made);
	return result == HOTMAP_READY ? HOTNESS_READY : HOTNESS_RECORDED;
}

/*
 * The page has a record, and that names this page of this region: true, and *@ret. Then the region's page was seen
 * before, since it is seen before it is recorded, and no word outlives its region.
 */
static inline bool take_known(struct hotness *hotness, struct hotness_shard *shard, const struct hotness_item *item,
			      const struct probe *probe, enum hotness_result *ret)
{
	struct hotmap *map = hotness->map;
	const uint64_t now_ns = item->sample->time_ns;
	struct region *region = probe->region;
	struct hotmap_change change = { 0 };
	struct record_rule rule;
	struct hotmap_access access;
	enum hotmap_swap swap;
	uint64_t raw, last_ns;
	uint32_t decision;

	if (probe->raw == 0)
		return false;
	raw = hotmap_load(map, probe->spot.at);
	/* It still names the same, and that is still there: by now the region may be another. */
	if (((raw ^ probe->raw) & hotmap_backref_bits(map)) != 0 || raw == 0 ||
	    atomic_load_explicit(&region->key, memory_order_acquire) != probe->key || /* K2 */
	    atomic_load_explicit(&region->state, memory_order_relaxed) != REGION_LIVE)
		return false;
	decision = decision_of(hotness, region);
	if ((decision & REGION_DECISION_FORGET) ||
	    (atomic_load_explicit(&region->mapping, memory_order_relaxed) & REGION_HAS_FORGOTTEN &&
	     !region_has_seen(region, probe->page)))
		return false;
	region_touch(region, now_ns, item->place.nid, mapping_of(item->sample));
	add_one(&shard->far_samples); /* only those have records */
	count(hotness, item, region, probe->slot);
	rule = rule_of(item, decision);
	last_ns = atomic_load_explicit(&probe->section->last_ns, memory_order_relaxed);
	if (now_ns < last_ns + (1U << HOTMAP_USE_SHIFT) &&
	    hotmap_swap_simple(map, &probe->spot, raw, &rule, item->place.target_nid, now_ns / NSEC_PER_MSEC,
			       &change.ready)) {
		*ret = HOTNESS_RECORDED;
		if (change.ready)
			*ret = hotmap_swapped(map, probe->section, probe->chunk, &change) == HOTMAP_READY
				       ? HOTNESS_READY
				       : HOTNESS_RECORDED;
		return true;
	}
	access = make_access(item, &rule, hotmap_backref(hotmap_wide(map, probe->spot.chunk, probe->spot.cap, raw)));
	hotmap_use_section(probe->section, now_ns);
	swap = hotmap_swap(map, &probe->spot, raw, &access, last_ns, &change);
	if (swap != HOTMAP_SWAPPED) {
		/* Its chunk is being replaced, or the record was taken and the chunk's table is full. */
		*ret = record(hotness, shard, item, &rule, probe->pfn, access.backref);
		return true;
	}
	/* Taken by a migrator this moment, and made again. */
	if (change.old == 0)
		add_one(&shard->records_made);
	*ret = hotmap_swapped(map, probe->section, probe->chunk, &change) == HOTMAP_READY ? HOTNESS_READY
											  : HOTNESS_RECORDED;
	return true;
}

/* The sample's region, made when it is new. NULL: no memory. */
static struct region *get_region(struct hotness *hotness, unsigned int shard, const struct hotness_item *item,
				 uint64_t key, uint32_t *ret_slot, bool *ret_new)
{
	struct region *region = regions_find_key(hotness->regions, shard, key, ret_slot);
	struct owner *owner;

	*ret_new = !region;
	if (region)
		return region;
	region = regions_add(hotness->regions, shard, item->owner_slot, item->sample->addr, item->sample->time_ns,
			     ret_slot);
	owner = region ? owners_at(hotness->owners, item->owner_slot) : NULL;
	if (owner)
		atomic_fetch_add_explicit(&owner->regions, 1, memory_order_relaxed);
	return region;
}

static enum hotness_result take(struct hotness *hotness, unsigned int shard_nr, const struct hotness_item *item,
				const struct probe *probe)
{
	struct hotness_shard *shard = &hotness->shard[shard_nr];
	const struct sample *sample = item->sample;
	enum hotness_result result;
	struct record_rule rule;
	struct region *region;
	uint32_t slot, decision;
	bool is_new;
	int first;

	if (probe->key == 0)
		return HOTNESS_NO_MEMORY;
	if (take_known(hotness, shard, item, probe, &result))
		return result;
	region = get_region(hotness, shard_nr, item, probe->key, &slot, &is_new);
	if (!region)
		return HOTNESS_NO_MEMORY;
	region_touch(region, sample->time_ns, item->place.nid, mapping_of(sample));
	decision = decision_of(hotness, region);
	if (decision & REGION_DECISION_FORGET)
		region_forget(region, sample->time_ns);
	first = region_see(&hotness->mem, region, probe->page);
	if (first < 0)
		return HOTNESS_NO_MEMORY;
	/* Where a policy decides regions: one that is to move anyway, or is near, tells nothing by one more page. */
	if (first && (!by_region(hotness) ||
		      (item->place.is_lower && (decision & REGION_DECISION_KIND) != REGION_DECISION_WHOLE)))
		add_one(&shard->pages_seen);
	if (wants_record(item)) {
		add_one(&shard->far_samples);
		if (is_new)
			add_one(&shard->far_novel);
	}
	if (first && (sample->flags & SAMPLE_MAYBE_FIRST_TOUCH))
		return HOTNESS_FIRST_SIGHTING;
	count(hotness, item, region, slot);
	if (!wants_record(item))
		return HOTNESS_FAST;
	rule = rule_of(item, decision);
	return record(hotness, shard, item, &rule, probe->pfn, REGION_BACKREF(slot, probe->page));
}

/*
 * Each line that a sample touches is likely a cache miss of its own, and often a walk of the page tables, and a
 * compare-and-swap waits for all before it. So the samples of a batch go through the steps in groups, one group behind
 * the other: what a group asks for arrives while the others are worked on, and since there is no compare-and-swap in
 * the first three steps, the misses and walks of a group overlap.
 */
#define GROUP 8

/* The probes of a group; @n of them, from item @from on. */
struct group {
	size_t from, n;
	struct probe probes[GROUP];
};

static uint64_t locate_group(const struct hotness *hotness, unsigned int shard, const struct hotness_item *items,
			     struct group *group, uint64_t last_ns)
{
	const struct hotness_item *item = &items[group->from];

	for (struct probe *probe = group->probes; probe < group->probes + group->n; probe++, item++) {
		locate(hotness, shard, item, probe);
		if (item->sample->time_ns > last_ns && probe->key)
			last_ns = item->sample->time_ns;
	}
	return last_ns;
}

/*
 * Ask for what a step of a group has found to be needed. By itself in a short loop: a prefetch that walks the page
 * tables holds up what comes behind it, but not another prefetch.
 */
static void ask_group(const struct group *group)
{
	for (const struct probe *probe = group->probes; probe < group->probes + group->n; probe++)
		__builtin_prefetch(probe->ask, 1);
}

static void find_words(const struct hotness *hotness, unsigned int shard, struct group *group)
{
	for (struct probe *probe = group->probes; probe < group->probes + group->n; probe++)
		find_word(hotness, shard, probe);
	ask_group(group);
}

static void find_regions(const struct hotness *hotness, unsigned int shard, struct group *group)
{
	for (struct probe *probe = group->probes; probe < group->probes + group->n; probe++)
		find_region(hotness, shard, probe);
	ask_group(group);
}

static void take_group(struct hotness *hotness, unsigned int shard, struct hotness_item *items,
		       const struct group *group)
{
	struct hotness_item *item = &items[group->from];

	for (const struct probe *probe = group->probes; probe < group->probes + group->n; probe++, item++)
		item->result = take(hotness, shard, item, probe);
}

void hotness_access_batch(struct hotness *hotness, unsigned int shard_nr, struct hotness_item *items, size_t n)
{
	struct hotness_shard *shard = &hotness->shard[shard_nr];
	uint64_t now_ns = atomic_load_explicit(&shard->now_ns, memory_order_relaxed), last_ns = now_ns;
	const size_t n_groups = (n + GROUP - 1) / GROUP;
	struct group groups[4]; /* not zeroed */

	assert(shard_nr < hotness->shards);
	for (size_t i = 0; i < n_groups + 3; i++) {
		struct group *group = &groups[i % 4];

		if (i < n_groups) {
			group->from = i * GROUP;
			group->n = n - group->from < GROUP ? n - group->from : GROUP;
			last_ns = locate_group(hotness, shard_nr, items, group, last_ns);
		}
		if (i >= 1 && i - 1 < n_groups)
			find_words(hotness, shard_nr, &groups[(i - 1) % 4]);
		if (i >= 2 && i - 2 < n_groups)
			find_regions(hotness, shard_nr, &groups[(i - 2) % 4]);
		if (i >= 3)
			take_group(hotness, shard_nr, items, &groups[(i - 3) % 4]);
	}
	if (last_ns != now_ns)
		atomic_store_explicit(&shard->now_ns, last_ns, memory_order_relaxed);
}

enum hotness_result hotness_access_page(struct hotness *hotness, unsigned int shard, const struct record_rule *rule,
					const struct sample *sample, uint32_t owner_slot,
					const struct hotness_place *place)
{
	struct hotness_item item = { .sample = sample, .rule = rule, .owner_slot = owner_slot, .place = *place };

	assert(rule->layout == hotness->layout);
	hotness_access_batch(hotness, shard, &item, 1);
	return item.result;
}
