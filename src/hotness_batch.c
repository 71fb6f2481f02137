/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The path of most samples into the tables. In the steady state (a base page of a slow node that was sampled before) it
 * touches three lines that are not in a cache of the core: the chunk word, the page's word, and the region. The word is
 * found by PFN and names the region, so there is no lookup by address; and since it names this very page of it, the
 * page was seen before: neither the hash of the regions nor the bitmap of pages is looked at.
 *
 * Each of these lines is likely a cache miss of its own, and often a walk of the page tables. On the processors that
 * were measured a walk holds up all instructions behind it but other walks close behind; and a compare-and-swap waits
 * for all before it. So the samples of a batch go through the steps in groups:
 *
 *   locate   the chunk, and by it the word; then, in one go, all words of the group are asked for
 *   find     the word, and by it the region; then, in one go, all regions of the group
 *   take     what the sample means to both
 *
 * A group is some steps ahead of the next one: what it has asked for arrives while the others are worked on.
 *
 * What isn't as described is odd. It goes the same way, beside the others, and then to hotness_take().
 */
#include <assert.h>

#include "hotness_path.h"

#define GROUP  8
#define GROUPS 4

struct group {
	struct hotness_item *items;
	unsigned int n;
	unsigned int n_odd;
	struct hotness_probe probes[GROUP];
};

/* What holds for all of a batch. */
struct batch {
	struct hotness *hotness;
	unsigned int shard;
	bool by_region;         /* who changes it meanwhile counts a sample more or less */
	uint64_t last_ns;       /* of what was taken */
	uint64_t epoch_from_ns; /* where the epoch of the last one began, */
	uint64_t epoch;         /* and its number */
	uint32_t *counts;       /* of odd ones, by result */
	uint32_t plain, ready;  /* the others: how many, and how many of these became ready */
};

struct hotness_context hotness_context(const struct record_rule *rule, uint32_t owner_slot,
				       const struct hotness_place *place)
{
	return (struct hotness_context){
		.rule = rule,
		.owner_slot = owner_slot,
		.place = *place,
		.wants_record = place->is_lower && place->target_nid >= 0,
		.key_base = regions_key(owner_slot, 0),
		.region_place = region_place(place->nid, place->is_lower ? place->target_nid : -1, place->is_lower),
	};
}

/* First step of an odd one: ask for the chunk, or for the bucket of its region. */
static __attribute__((noinline)) void locate_odd(const struct batch *batch, const struct hotness_item *item,
						 struct hotness_probe *ret)
{
	const struct hotmap *map = batch->hotness->map;
	const struct sample *sample = item->sample;
	const uint64_t pfn = hotness_pfn(sample);

	*ret = (struct hotness_probe){ .odd = true };
	if (!hotness_can_take(sample))
		return;
	if (item->context->wants_record)
		ret->section = hotmap_section_at(map, pfn >> map->section_shift);
	if (!ret->section) {
		regions_prefetch_bucket(batch->hotness->regions, batch->shard, hotness_key(item->context, sample));
		return;
	}
	ret->chunk_word = atomic_load_explicit(hotmap_chunk_word(map, ret->section, hotness_chunk(map, pfn)),
					       memory_order_acquire); /* C2 */
	ret->at =
		hotmap_dense_word(hotmap_is_narrow(map), ret->chunk_word, (unsigned int)pfn & (HOTMAP_CHUNK_PAGES - 1));
	__builtin_prefetch(hotmap_chunk_of(ret->chunk_word));
}

/* First step: the chunk, and where the word is, or would be if it had one for each page. false: it is odd. */
static inline __attribute__((always_inline)) bool locate(const bool narrow, const struct hotmap *map,
							 const struct hotness_item *item, struct hotness_probe *ret)
{
	const struct sample *sample = item->sample;
	uint64_t pfn = sample->phys >> PAGE_SHIFT, index = pfn >> map->section_shift;

	if (__builtin_expect(!item->context->wants_record, 0) || hotness_is_huge(sample) ||
	    __builtin_expect(sample->addr >= REGION_ADDR_MAX || index >= map->sections_max, 0))
		return false;
	ret->odd = false;
	ret->section = hotmap_section_at(map, index);
	if (__builtin_expect(!ret->section, 0))
		return false;
	ret->chunk_word = atomic_load_explicit(hotmap_chunk_word(map, ret->section, hotness_chunk(map, pfn)),
					       memory_order_acquire); /* C2 */
	ret->at = hotmap_dense_word(narrow, ret->chunk_word, (unsigned int)pfn & (HOTMAP_CHUNK_PAGES - 1));
	return true;
}

static inline __attribute__((always_inline)) void locate_group(const bool narrow, struct batch *batch,
							       struct group *group)
{
	const struct hotmap *map = batch->hotness->map;
	uint64_t last_ns = batch->last_ns;

	const struct hotness_item *item = group->items;
	struct hotness_probe *const end = &group->probes[group->n];

	group->n_odd = 0;
	for (struct hotness_probe *probe = group->probes; probe < end; probe++, item++) {
		uint64_t time_ns = item->sample->time_ns;

		if (__builtin_expect(!locate(narrow, map, item, probe), 0)) {
			locate_odd(batch, item, probe);
			group->n_odd++;
			if (!hotness_can_take(item->sample))
				time_ns = 0;
		}
		last_ns = time_ns > last_ns ? time_ns : last_ns;
	}
	batch->last_ns = last_ns;
	for (const struct hotness_probe *probe = group->probes; probe < end; probe++) {
		__builtin_prefetch(probe->at, 1);
		if (narrow)
			__builtin_prefetch(hotmap_dense_word(narrow, probe->chunk_word, HOTMAP_CHUNK_PAGES));
	}
}

/* The back-reference of a word that was found. @narrow: told by the caller, so that there is a loop for each width. */
static inline __attribute__((always_inline)) uint32_t backref_of(const bool narrow, const struct hotness_probe *probe,
								 uint64_t raw)
{
	struct hotmap_spot spot;

	if (!narrow)
		return hotmap_backref(raw);
	spot = hotmap_spot_at(probe->chunk_word, probe->at);
	return hotmap_narrow_backref(spot.chunk, spot.cap, raw);
}

/* The word of @page, and the region that it names. false: none, or it names another page. */
static inline __attribute__((always_inline)) bool find(const bool narrow, const struct hotness *hotness,
						       const struct sample *sample, uint64_t page,
						       struct hotness_probe *probe)
{
	uint32_t backref;
	uint64_t raw;

	if (__builtin_expect(!(probe->chunk_word & HOTMAP_DENSE), 0)) {
		/* Its pages are few, and have an index. */
		probe->at = hotmap_find(hotness->map, probe->chunk_word,
					(unsigned int)hotness_pfn(sample) & (HOTMAP_CHUNK_PAGES - 1))
				    .at;
		if (!probe->at)
			return false;
	}
	raw = hotmap_load_as(narrow, probe->at);
	if (narrow && raw == 0)
		return false;
	backref = backref_of(narrow, probe, raw);
	if (__builtin_expect(((backref ^ page) & (REGION_PAGES - 1)) != 0 || raw == 0, 0))
		return false;
	probe->raw = raw;
	probe->region = regions_slot(hotness->regions, REGION_SLOT_OF(backref));
	return true;
}

/* Second step of an odd one, or, where it @was_looked_for, of one that turned out to be. */
static __attribute__((noinline)) void find_odd(const struct batch *batch, const struct hotness_item *item,
					       bool was_looked_for, struct hotness_probe *probe)
{
	const struct hotness *hotness = batch->hotness;
	uint64_t key = hotness_key(item->context, item->sample);

	probe->odd = true;
	probe->raw = 0;
	probe->region = NULL;
	if (!hotness_can_take(item->sample))
		return;
	if (!probe->section)
		probe->region = regions_prefetch_region(hotness->regions, batch->shard, key);
	else if (was_looked_for ||
		 !find(hotmap_is_narrow(hotness->map), hotness, item->sample, hotness_page(item->sample), probe))
		regions_prefetch_bucket(hotness->regions, batch->shard, key);
}

static inline __attribute__((always_inline)) void find_group(const bool narrow, const struct batch *batch,
							     struct group *group)
{
	const struct hotness *hotness = batch->hotness;
	const struct hotness_item *item = group->items;
	struct hotness_probe *const end = &group->probes[group->n];

	for (struct hotness_probe *probe = group->probes; probe < end; probe++, item++) {
		const struct sample *sample = item->sample;

		if (__builtin_expect(probe->odd, 0)) {
			find_odd(batch, item, false, probe);
		} else if (__builtin_expect(!find(narrow, hotness, sample, sample->addr >> PAGE_SHIFT, probe), 0)) {
			find_odd(batch, item, true, probe);
			group->n_odd++;
		}
	}
	for (const struct hotness_probe *probe = group->probes; probe < end; probe++)
		__builtin_prefetch(probe->region, 1);
}

/* A step of odd ones alone: which pages of the region were seen. */
static inline void find_seen(const struct group *group)
{
	for (unsigned int i = 0; group->n_odd && i < group->n; i++) {
		const struct hotness_probe *probe = &group->probes[i];

		if (probe->odd && !probe->section && probe->region)
			regions_prefetch_seen(probe->region, hotness_page(group->items[i].sample));
	}
}

/* Mark the pages of items that became ready, by number. */
static __attribute__((noinline)) void mark(struct batch *batch, struct group *group, const uint8_t *ready, size_t n)
{
	const struct hotmap_change change = { .ready = true };
	struct hotmap *map = batch->hotness->map;

	for (size_t k = 0; k < n; k++) {
		struct hotness_item *item = &group->items[ready[k]];

		hotmap_swapped(map, group->probes[ready[k]].section, hotness_chunk(map, hotness_pfn(item->sample)),
			       &change);
		item->result = HOTNESS_READY;
	}
	batch->ready += (uint32_t)n;
}

/*
 * Last step: the page has a record, and that names this page of this region. Then the region's page was seen before,
 * since it is seen before it is recorded, and no word outlives its region. false: it isn't so any more, and nothing was
 * done. *@ret_ready: it became ready, and has yet to be marked.
 */
static inline __attribute__((always_inline)) bool take(const bool narrow, struct batch *batch,
						       struct hotness_item *item, const struct hotness_probe *probe,
						       bool *ret_ready)
{
	const struct sample *sample = item->sample;
	const struct hotness_context *context = item->context;
	struct region *region = probe->region;
	const uint64_t now_ns = sample->time_ns, raw = hotmap_load_as(narrow, probe->at);
	unsigned int mapping = atomic_load_explicit(&region->mapping, memory_order_relaxed);
	struct record_rule rule;
	uint64_t next, was = raw;
	uint32_t decision;

	*ret_ready = false;
	/* By now the word may be another, or the region. */
	if (__builtin_expect(((raw ^ probe->raw) & hotmap_backref_bits_as(narrow)) != 0 ||
				     atomic_load_explicit(&region->key, memory_order_acquire) !=
					     hotness_key(context, sample) || /* K2 */
				     atomic_load_explicit(&region->state, memory_order_relaxed) != REGION_LIVE,
			     0))
		return false;
	/* Of another mapping; or it has to be looked up whether the page was seen. */
	if (__builtin_expect(mapping != REGION_BASE_PAGES, 0) &&
	    (mapping != (REGION_BASE_PAGES | REGION_HAS_FORGOTTEN) || !region_has_seen(region, hotness_page(sample))))
		return false;
	decision = hotness_decision(batch->by_region, region);
	if (__builtin_expect(decision & REGION_DECISION_FORGET, 0))
		return false;
	if (__builtin_expect(now_ns - batch->epoch_from_ns >= REGION_EPOCH_NS, 0)) {
		batch->epoch = region_epoch(now_ns);
		batch->epoch_from_ns = batch->epoch * REGION_EPOCH_NS;
	}
	region_touch(region, now_ns, &context->region_place);
	hotness_count(item, batch->epoch, region);
	slotset_add(&batch->hotness->marks, REGION_SLOT_OF(backref_of(narrow, probe, raw)));
	rule = hotness_rule(context, decision);
	item->result = HOTNESS_RECORDED;
	if (__builtin_expect(now_ns >= atomic_load_explicit(&probe->section->last_ns, memory_order_relaxed) +
						     (1U << HOTMAP_USE_SHIFT) ||
				     !hotmap_next_simple(narrow, raw, &rule, context->place.target_nid,
							 now_ns / NSEC_PER_MSEC, &next) ||
				     !hotmap_cas_as(narrow, probe->at, &was, next),
			     0)) {
		item->result = hotness_update(batch->hotness, batch->shard, item, probe, was, decision);
		batch->ready += item->result == HOTNESS_READY;
		return true;
	}
	*ret_ready = hotmap_became_ready(narrow, raw, next);
	return true;
}

/* Which pages become ready can't be foreseen: they are put aside without a branch, and marked in a row. */
static inline __attribute__((always_inline)) void take_group(const bool narrow, struct batch *batch,
							     struct group *group)
{
	const struct hotness_probe *const begin = group->probes, *const end = begin + group->n;
	struct hotness_item *item = group->items;
	uint8_t ready[GROUP + 1];
	size_t n_ready = 0;

	batch->plain += group->n;
	for (const struct hotness_probe *probe = begin; probe < end; probe++, item++) {
		bool is_ready;

		if (__builtin_expect(probe->odd, 0) ||
		    __builtin_expect(!take(narrow, batch, item, probe, &is_ready), 0)) {
			item->result = hotness_take(batch->hotness, batch->shard, item, probe);
			batch->counts[item->result]++;
			batch->plain--;
			continue;
		}
		ready[n_ready] = (uint8_t)(probe - begin);
		n_ready += is_ready;
	}
	if (n_ready)
		mark(batch, group, ready, n_ready);
}

static inline __attribute__((always_inline)) void run(const bool narrow, struct batch *batch,
						      struct hotness_item *items, size_t n)
{
	const size_t n_groups = (n + GROUP - 1) / GROUP;
	struct group groups[GROUPS]; /* not zeroed */

	for (size_t i = 0; i < n_groups + GROUPS - 1; i++) {
		struct group *group = &groups[i % GROUPS];

		if (i < n_groups) {
			group->items = &items[i * GROUP];
			group->n = n - i * GROUP < GROUP ? (unsigned int)(n - i * GROUP) : GROUP;
			locate_group(narrow, batch, group);
		}
		/* Between the two that ask for much: more at once than fits is forgotten. */
		if (i >= 3)
			take_group(narrow, batch, &groups[(i - 3) % GROUPS]);
		if (i >= 1 && i - 1 < n_groups)
			find_group(narrow, batch, &groups[(i - 1) % GROUPS]);
		if (i >= 2 && i - 2 < n_groups)
			find_seen(&groups[(i - 2) % GROUPS]);
	}
}

static __attribute__((noinline)) void run_narrow(struct batch *batch, struct hotness_item *items, size_t n)
{
	run(true, batch, items, n);
}

static __attribute__((noinline)) void run_wide(struct batch *batch, struct hotness_item *items, size_t n)
{
	run(false, batch, items, n);
}

void hotness_access_batch(struct hotness *hotness, unsigned int shard_nr, struct hotness_item *items, size_t n,
			  uint32_t counts[HOTNESS_RESULTS])
{
	struct hotness_shard *shard = &hotness->shard[shard_nr];
	uint64_t now_ns = atomic_load_explicit(&shard->now_ns, memory_order_relaxed);
	struct batch batch = {
		.hotness = hotness,
		.shard = shard_nr,
		.by_region = hotness_by_region(hotness),
		.last_ns = now_ns,
		.counts = counts,
	};

	assert(shard_nr < hotness->shards);
	(hotmap_is_narrow(hotness->map) ? run_narrow : run_wide)(&batch, items, n);
	hotness_add(&shard->far_samples, batch.plain); /* only those have records */
	counts[HOTNESS_RECORDED] += batch.plain - batch.ready;
	counts[HOTNESS_READY] += batch.ready;
	if (batch.last_ns != now_ns)
		atomic_store_explicit(&shard->now_ns, batch.last_ns, memory_order_relaxed);
}

enum hotness_result hotness_access_page(struct hotness *hotness, unsigned int shard, const struct record_rule *rule,
					const struct sample *sample, uint32_t owner_slot,
					const struct hotness_place *place)
{
	const struct hotness_context context = hotness_context(rule, owner_slot, place);
	struct hotness_item item = { .sample = sample, .context = &context };
	uint32_t counts[HOTNESS_RESULTS] = { 0 };

	assert(rule->layout == hotness->layout);
	hotness_access_batch(hotness, shard, &item, 1, counts);
	return item.result;
}
