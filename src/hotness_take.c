/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "hotness_path.h"
#include "owners.h"

static enum region_mapping mapping_of(const struct sample *sample)
{
	if (!hotness_is_huge(sample))
		return REGION_BASE_PAGES;
	return sample->page_shift >= 30 ? REGION_HUGE_1G : REGION_HUGE_2M;
}

static struct hotmap_access make_access(const struct hotness_item *item, const struct record_rule *rule,
					uint32_t backref)
{
	return (struct hotmap_access){ .rule = rule,
				       .backref = backref,
				       .nid = item->context->place.target_nid,
				       .now_ns = item->sample->time_ns };
}

static enum hotness_result record(struct hotness *hotness, struct hotness_shard *shard, const struct hotness_item *item,
				  const struct record_rule *rule, uint32_t backref)
{
	struct hotmap_access access = make_access(item, rule, backref);
	enum hotmap_result result;
	bool is_new;

	result = hotmap_touch(hotness->map, hotness_pfn(item->sample), &access, &is_new);
	if (result == HOTMAP_NO_MEMORY)
		return HOTNESS_NO_MEMORY;
	if (is_new)
		hotness_add(&shard->records_made, 1);
	return result == HOTMAP_READY ? HOTNESS_READY : HOTNESS_RECORDED;
}

enum hotness_result hotness_update(struct hotness *hotness, unsigned int shard_nr, const struct hotness_item *item,
				   const struct hotness_probe *probe, uint64_t raw, uint32_t decision)
{
	struct hotmap *map = hotness->map;
	struct hotness_shard *shard = &hotness->shard[shard_nr];
	const struct hotmap_spot spot = hotmap_spot_at(probe->chunk_word, probe->at);
	const struct record_rule rule = hotness_rule(item->context, decision);
	/* By the word as it was found: it named the same, and now it may be none. */
	const struct hotmap_access access =
		make_access(item, &rule, hotmap_backref(hotmap_wide(map, spot.chunk, spot.cap, probe->raw)));
	uint64_t last_ns = atomic_load_explicit(&probe->section->last_ns, memory_order_relaxed);
	struct hotmap_change change = { 0 };

	hotmap_use_section(probe->section, item->sample->time_ns);
	/* Else its chunk is being replaced, or the record was taken and the chunk's table is full. */
	if (hotmap_swap(map, &spot, raw, &access, last_ns, &change) != HOTMAP_SWAPPED)
		return record(hotness, shard, item, &rule, access.backref);
	/* Taken by a migrator this moment, and made again. */
	if (change.old == 0)
		hotness_add(&shard->records_made, 1);
	return hotmap_swapped(map, probe->section, hotness_chunk(map, hotness_pfn(item->sample)), &change) ==
			       HOTMAP_READY
		       ? HOTNESS_READY
		       : HOTNESS_RECORDED;
}

/*
 * The page has a record, and that names this page of this region: true, and *@ret. Then the region's page was seen
 * before, since it is seen before it is recorded, and no word outlives its region.
 */
static bool take_known(struct hotness *hotness, unsigned int shard_nr, const struct hotness_item *item,
		       const struct hotness_probe *probe, enum hotness_result *ret)
{
	struct hotmap *map = hotness->map;
	const struct sample *sample = item->sample;
	struct region *region = probe->region;
	struct region_moment moment;
	struct hotmap_spot spot;
	uint32_t decision;
	uint64_t raw;

	if (probe->raw == 0)
		return false;
	raw = hotmap_load(map, probe->at);
	/* It still names the same, and that is still there: by now the region may be another. */
	if (((raw ^ probe->raw) & hotmap_backref_bits_as(hotmap_is_narrow(map))) != 0 || raw == 0 ||
	    atomic_load_explicit(&region->key, memory_order_acquire) != hotness_key(item->context, sample) || /* K2 */
	    atomic_load_explicit(&region->state, memory_order_relaxed) != REGION_LIVE)
		return false;
	decision = hotness_decision(hotness_by_region(hotness), region);
	if ((decision & REGION_DECISION_FORGET) ||
	    (atomic_load_explicit(&region->mapping, memory_order_relaxed) & REGION_HAS_FORGOTTEN &&
	     !region_has_seen(region, hotness_page(sample))))
		return false;
	region_touch(region, sample->time_ns, &item->context->region_place);
	region_set_mapping(region, mapping_of(sample));
	hotness_add(&hotness->shard[shard_nr].far_samples, 1); /* only those have records */
	spot = hotmap_spot_at(probe->chunk_word, probe->at);
	moment = region_moment(sample->time_ns);
	hotness_count(item, &moment, region);
	slotset_add(&hotness->marks, REGION_SLOT_OF(hotmap_backref(hotmap_wide(map, spot.chunk, spot.cap, raw))));
	*ret = hotness_update(hotness, shard_nr, item, probe, raw, decision);
	return true;
}

/* The sample's region, made when it is new. NULL: no memory. */
static struct region *get_region(struct hotness *hotness, unsigned int shard, const struct hotness_item *item,
				 uint32_t *ret_slot, bool *ret_new)
{
	const struct hotness_context *context = item->context;
	struct region *region = regions_find_key(hotness->regions, shard, hotness_key(context, item->sample), ret_slot);
	struct owner *owner;

	*ret_new = !region;
	if (region)
		return region;
	region = regions_add(hotness->regions, shard, context->owner_slot, item->sample->addr, item->sample->time_ns,
			     ret_slot);
	owner = region ? owners_at(hotness->owners, context->owner_slot) : NULL;
	if (owner)
		atomic_fetch_add_explicit(&owner->regions, 1, memory_order_relaxed);
	return region;
}

enum hotness_result hotness_take(struct hotness *hotness, unsigned int shard_nr, const struct hotness_item *item,
				 const struct hotness_probe *probe)
{
	struct hotness_shard *shard = &hotness->shard[shard_nr];
	const struct hotness_context *context = item->context;
	const bool by_region = hotness_by_region(hotness);
	const struct sample *sample = item->sample;
	const uint32_t page = hotness_page(sample);
	enum hotness_result result;
	struct region_moment moment;
	struct record_rule rule;
	struct region *region;
	uint32_t slot, decision;
	bool is_new;
	int first;

	if (!hotness_can_take(sample))
		return HOTNESS_NO_MEMORY;
	if (take_known(hotness, shard_nr, item, probe, &result))
		return result;
	region = get_region(hotness, shard_nr, item, &slot, &is_new);
	if (!region)
		return HOTNESS_NO_MEMORY;
	region_touch(region, sample->time_ns, &context->region_place);
	region_set_mapping(region, mapping_of(sample));
	decision = hotness_decision(by_region, region);
	if (decision & REGION_DECISION_FORGET)
		region_forget(region, sample->time_ns);
	first = region_see(&hotness->mem, region, page);
	if (first < 0)
		return HOTNESS_NO_MEMORY;
	/* Where a policy decides regions: one that is to move anyway, or is near, tells nothing by one more page. */
	if (first &&
	    (!by_region || (context->place.is_lower && (decision & REGION_DECISION_KIND) != REGION_DECISION_WHOLE)))
		hotness_add(&shard->pages_seen, 1);
	if (context->wants_record) {
		hotness_add(&shard->far_samples, 1);
		if (is_new)
			hotness_add(&shard->far_novel, 1);
	}
	if (first && (sample->flags & SAMPLE_MAYBE_FIRST_TOUCH))
		return HOTNESS_FIRST_SIGHTING;
	moment = region_moment(sample->time_ns);
	hotness_count(item, &moment, region);
	if (!context->wants_record)
		return HOTNESS_FAST;
	slotset_add(&hotness->marks, slot);
	rule = hotness_rule(context, decision);
	return record(hotness, shard, item, &rule, REGION_BACKREF(slot, page));
}
