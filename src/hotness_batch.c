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
 *   take     what the sample means to the region; then, four at a time, what it means to the words
 *
 * A group is some steps ahead of the next one: what it has asked for arrives while the others are worked on.
 *
 * What isn't as described is odd. It goes the same way, beside the others, and then to hotness_take(). Nobody asks
 * each time whether a sample is odd: its word is one that is 0, and its region's key none that a region has, so that it
 * is found out where the others are looked at anyway.
 */
#include <assert.h>

#include "hotmap_lanes.h"
#include "hotness_path.h"

#define GROUP  8
#define GROUPS 4

struct group {
	struct hotness_item *items;
	unsigned int n;
	unsigned int n_odd;
	/* For each sample, as hotmap_lanes.h wants it; raw: the word as it was found, and after it next. */
	uint64_t raw[GROUP], next[GROUP];
	uint32_t rule[GROUP], now_ms[GROUP];
	struct hotness_probe probes[GROUP];
};

/* What holds for all of a batch. */
struct batch {
	struct hotness *hotness;
	unsigned int shard;
	uint32_t decisions;          /* of a region, those that must be looked at; see decided() */
	uint64_t last_ns;            /* of what was taken */
	struct region_moment moment; /* of the last one */
	uint32_t *counts;            /* of odd ones, by result */
	uint32_t plain, ready;       /* the others: how many, and how many of these became ready */
};

/* What an odd one has in place of a word, and of a region: never anything else. */
static uint64_t no_word;
static struct region no_region;

struct hotness_context hotness_context(const struct record_rule *rule, uint32_t owner_slot,
				       const struct hotness_place *place)
{
	const bool wants_record = place->is_lower && place->target_nid >= 0;

	return (struct hotness_context){
		.rule = rule,
		.owner_slot = owner_slot,
		.place = *place,
		.wants_record = wants_record,
		.plain_below = wants_record ? REGION_SHIFT : 0,
		.lane_rule = hotmap_lane_rule(rule, place->target_nid),
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

	*ret = (struct hotness_probe){ .key = HOTNESS_ODD, .at = &no_word };
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
	__builtin_prefetch(hotmap_dense_word(hotmap_is_narrow(map), ret->chunk_word,
					     (unsigned int)pfn & (HOTMAP_CHUNK_PAGES - 1)));
	__builtin_prefetch(hotmap_chunk_of(ret->chunk_word));
}

/* What locate() needs to know of the map; a copy, since the compiler takes each store for one that might change it. */
struct layout {
	_Atomic(struct hotmap_section *) *top;
	size_t sections_max;
	unsigned int shift;      /* physical address to section */
	unsigned int chunk_mask; /* of the chunks of a section */
	unsigned int chunks_at;  /* in a section's body */
};

/* First step: the chunk, and where the word is, or would be if it had one for each page. false: it is odd. */
static inline __attribute__((always_inline)) bool locate(const bool narrow, const struct layout *layout,
							 const struct hotness_item *item, struct hotness_probe *ret)
{
	const struct sample *sample = item->sample;
	const struct hotness_context *context = item->context;
	const uint64_t phys = sample->phys, addr = sample->addr, index = phys >> layout->shift;
	struct hotmap_section *section;
	uint64_t chunk_word;
	size_t chunk;

	if (__builtin_expect(sample->page_shift >= context->plain_below, 0) ||
	    __builtin_expect(addr >= REGION_ADDR_MAX, 0) || __builtin_expect(index >= layout->sections_max, 0))
		return false;
	section = atomic_load_explicit(&layout->top[index], memory_order_acquire); /* S2 */
	if (__builtin_expect(!section, 0))
		return false;
	chunk = phys >> REGION_SHIFT & layout->chunk_mask;
	chunk_word = atomic_load_explicit(&section->body[layout->chunks_at + chunk], memory_order_acquire); /* C2 */
	ret->section = section;
	ret->chunk_word = chunk_word;
	ret->at = hotmap_dense_word(narrow, chunk_word, (unsigned int)(phys >> PAGE_SHIFT) & (HOTMAP_CHUNK_PAGES - 1));
	ret->page = (uint32_t)(addr >> PAGE_SHIFT);
	ret->key = context->key_base | addr >> REGION_SHIFT;
	return true;
}

static inline __attribute__((always_inline)) void locate_group(const bool narrow, const struct layout *layout,
							       struct batch *batch, struct group *group)
{
	const struct hotness_item *item = group->items;
	struct hotness_probe *const end = &group->probes[group->n];
	uint64_t last_ns = batch->last_ns;

	group->n_odd = 0;
	for (struct hotness_probe *probe = group->probes; probe < end; probe++, item++) {
		uint64_t time_ns = item->sample->time_ns;

		if (__builtin_expect(!locate(narrow, layout, item, probe), 0)) {
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

/* The word of @page, and the region that it names; the word, 0: none, or it names another page. */
static inline __attribute__((always_inline)) uint64_t find(const bool narrow, const struct hotness *hotness,
							   const struct sample *sample, uint32_t page,
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
			return 0;
	}
	raw = hotmap_load_as(narrow, probe->at);
	if (__builtin_expect(raw == 0, 0))
		return 0;
	backref = backref_of(narrow, probe, raw);
	if (__builtin_expect(((backref ^ page) & (REGION_PAGES - 1)) != 0, 0))
		return 0;
	probe->region = regions_slot(hotness->regions, REGION_SLOT_OF(backref));
	return raw;
}

/* Second step of one that is odd, or turns out to be; the word as find() has it. */
static __attribute__((noinline)) uint64_t find_odd(const struct batch *batch, const struct hotness_item *item,
						   struct hotness_probe *probe)
{
	const struct hotness *hotness = batch->hotness;
	const struct sample *sample = item->sample;
	const bool narrow = hotmap_is_narrow(hotness->map), was_looked_for = probe->key != HOTNESS_ODD;
	const uint64_t key = hotness_key(item->context, sample);
	uint64_t raw;

	probe->key = HOTNESS_ODD;
	probe->region = &no_region;
	if (!hotness_can_take(sample))
		return 0;
	if (!probe->section) {
		probe->region = regions_prefetch_region(hotness->regions, batch->shard, key);
		if (!probe->region)
			probe->region = &no_region;
		return 0;
	}
	if (!was_looked_for) {
		probe->at = hotmap_dense_word(narrow, probe->chunk_word,
					      (unsigned int)hotness_pfn(sample) & (HOTMAP_CHUNK_PAGES - 1));
		raw = find(narrow, hotness, sample, hotness_page(sample), probe);
		if (raw)
			return raw;
	}
	regions_prefetch_bucket(hotness->regions, batch->shard, key);
	return 0;
}

static inline __attribute__((always_inline)) void find_group(const bool narrow, const struct batch *batch,
							     struct group *group)
{
	const struct hotness *hotness = batch->hotness;
	const struct hotness_item *item = group->items;
	struct hotness_probe *const end = &group->probes[group->n];
	uint64_t *raw = group->raw;

	for (struct hotness_probe *probe = group->probes; probe < end; probe++, item++, raw++) {
		*raw = find(narrow, hotness, item->sample, probe->page, probe);
		if (__builtin_expect(*raw == 0, 0)) {
			*raw = find_odd(batch, item, probe);
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

		if (probe->key == HOTNESS_ODD && !probe->section)
			regions_prefetch_seen(probe->region, hotness_page(group->items[i].sample));
	}
}

/*
 * Something is decided about @region, which may be that its pages need but one sample: then *@rule says so. false: its
 * collector has to do something first.
 */
static __attribute__((noinline)) bool decided(const struct region *region, uint32_t *rule)
{
	uint32_t decision = hotness_decision(true, region);

	if ((decision & REGION_DECISION_KIND) == REGION_DECISION_PAGES)
		*rule = hotmap_lane_with_freq(*rule, 1);
	return !(decision & REGION_DECISION_FORGET);
}

/* Of another mapping; or it has to be looked up whether the page was seen. true: it is as a plain one. */
static __attribute__((noinline)) bool mapped_otherwise(const struct region *region, const struct sample *sample)
{
	return atomic_load_explicit(&region->mapping, memory_order_relaxed) ==
		       (REGION_BASE_PAGES | REGION_HAS_FORGOTTEN) &&
	       region_has_seen(region, hotness_page(sample));
}

static __attribute__((noinline)) void next_moment(struct batch *batch, uint64_t now_ns)
{
	batch->moment = region_moment(now_ns);
}

/*
 * Third step: the page has a record, and that named this page of this region. Then the region's page was seen before,
 * since it is seen before it is recorded, and no word outlives its region. So the access counts for the region,
 * whatever has become of the word since. false: it isn't so, or not any more, and nothing was done.
 */
static inline __attribute__((always_inline)) bool take(const bool narrow, struct batch *batch, struct group *group,
						       unsigned int i)
{
	struct hotness_item *item = &group->items[i];
	const struct hotness_probe *probe = &group->probes[i];
	const struct sample *sample = item->sample;
	const struct hotness_context *context = item->context;
	const uint64_t now_ns = sample->time_ns;
	struct region *region = probe->region;
	uint32_t rule = context->lane_rule;

	/* By now the region may be another. */
	if (__builtin_expect(atomic_load_explicit(&region->key, memory_order_acquire) != probe->key, 0) || /* K2 */
	    __builtin_expect(atomic_load_explicit(&region->state, memory_order_relaxed) != REGION_LIVE, 0))
		return false;
	if (__builtin_expect(atomic_load_explicit(&region->mapping, memory_order_relaxed) != REGION_BASE_PAGES, 0) &&
	    !mapped_otherwise(region, sample))
		return false;
	if (__builtin_expect(atomic_load_explicit(&region->decision, memory_order_relaxed) & batch->decisions, 0) &&
	    !decided(region, &rule))
		return false;
	if (__builtin_expect(!region_is_in(&batch->moment, now_ns), 0))
		next_moment(batch, now_ns);
	region_touch(region, now_ns, &context->region_place);
	hotness_count(item, &batch->moment, region);
	slotset_add(&batch->hotness->marks, REGION_SLOT_OF(backref_of(narrow, probe, group->raw[i])));
	group->rule[i] = rule;
	group->now_ms[i] = (uint32_t)(now_ns / NSEC_PER_MSEC);
	item->result = HOTNESS_RECORDED;
	return true;
}

/* The word of number @i is @raw, which is not the simple case, or another one by now. */
static __attribute__((noinline)) void record_odd(struct batch *batch, struct group *group, unsigned int i, uint64_t raw)
{
	struct hotness_item *item = &group->items[i];
	struct hotness_probe *probe = &group->probes[i];

	probe->raw = group->raw[i];
	item->result = hotness_update(batch->hotness, batch->shard, item, probe, raw,
				      hotness_decision(batch->decisions != 0, probe->region));
	batch->ready += item->result == HOTNESS_READY;
}

/* Mark the pages of items that became ready: a bit for each. Which ones do can't be foreseen. */
static __attribute__((noinline)) void mark(struct batch *batch, struct group *group, unsigned int ready)
{
	const struct hotmap_change change = { .ready = true };
	struct hotmap *map = batch->hotness->map;

	batch->ready += (uint32_t)__builtin_popcount(ready);
	for (; ready; ready &= ready - 1) {
		unsigned int i = (unsigned int)__builtin_ctz(ready);
		struct hotness_item *item = &group->items[i];

		hotmap_swapped(map, group->probes[i].section, hotness_chunk(map, hotness_pfn(item->sample)), &change);
		item->result = HOTNESS_READY;
	}
}

/*
 * Last step, of the numbers from @begin up to @end, for whose regions it is done. A word that was changed since it was
 * found is not what it is swapped for.
 */
static inline __attribute__((always_inline)) void record(const bool narrow, struct batch *batch, struct group *group,
							 unsigned int begin, unsigned int end)
{
	unsigned int odd = 0, ready = 0, some_odd, some_ready;

	for (unsigned int i = begin & ~(HOTMAP_LANES - 1U); i < end; i += HOTMAP_LANES) {
		hotmap_lanes_next(narrow, &group->raw[i], &group->rule[i], &group->now_ms[i], &group->next[i],
				  &some_odd, &some_ready);
		odd |= some_odd << i;
		ready |= some_ready << i;
	}
	ready &= (2U << (end - 1)) - (1U << begin);
	for (unsigned int i = begin; i < end; i++) {
		const struct hotness_probe *probe = &group->probes[i];
		uint64_t was = group->raw[i];

		if (__builtin_expect(group->items[i].sample->time_ns >=
					     atomic_load_explicit(&probe->section->last_ns, memory_order_relaxed) +
						     (1U << HOTMAP_USE_SHIFT),
				     0) ||
		    __builtin_expect(odd >> i & 1, 0) ||
		    __builtin_expect(!hotmap_cas_as(narrow, probe->at, &was, group->next[i]), 0)) {
			ready &= ~(1U << i);
			record_odd(batch, group, i, was);
		}
	}
	if (ready)
		mark(batch, group, ready);
}

static inline __attribute__((always_inline)) void take_group(const bool narrow, struct batch *batch,
							     struct group *group)
{
	const unsigned int n = group->n;
	unsigned int i = 0, begin;

	batch->plain += n;
	for (;;) {
		for (begin = i; i < n; i++)
			if (__builtin_expect(!take(narrow, batch, group, i), 0))
				break;
		if (i > begin)
			record(narrow, batch, group, begin, i);
		if (i == n)
			break;
		/* In its turn: what comes after it may find the same page. */
		group->probes[i].raw = group->raw[i];
		group->items[i].result =
			hotness_take(batch->hotness, batch->shard, &group->items[i], &group->probes[i]);
		batch->counts[group->items[i++].result]++;
		batch->plain--;
	}
}

/* The steps by the width of words. */
struct steps {
	void (*locate)(const struct layout *layout, struct batch *batch, struct group *group);
	void (*find)(const struct batch *batch, struct group *group);
	void (*take)(struct batch *batch, struct group *group);
};

/* Each a function of its own, so that its loop has the registers for itself. */
#define STEPS(width, is_narrow)                                                                           \
	static void locate_##width(const struct layout *layout, struct batch *batch, struct group *group) \
	{                                                                                                 \
		locate_group(is_narrow, layout, batch, group);                                            \
	}                                                                                                 \
                                                                                                          \
	static void find_##width(const struct batch *batch, struct group *group)                          \
	{                                                                                                 \
		find_group(is_narrow, batch, group);                                                      \
	}                                                                                                 \
                                                                                                          \
	static void take_##width(struct batch *batch, struct group *group)                                \
	{                                                                                                 \
		take_group(is_narrow, batch, group);                                                      \
	}                                                                                                 \
                                                                                                          \
	static const struct steps width##_steps = { locate_##width, find_##width, take_##width };

STEPS(narrow, true)
STEPS(wide, false)

static void run(const struct steps *steps, struct batch *batch, struct hotness_item *items, size_t n)
{
	const struct hotmap *map = batch->hotness->map;
	const struct layout layout = {
		.top = map->top,
		.sections_max = map->sections_max,
		.shift = map->section_shift + PAGE_SHIFT,
		.chunk_mask = map->chunks - 1,
		.chunks_at = MARK_KINDS * map->words,
	};
	const size_t n_groups = (n + GROUP - 1) / GROUP;
	struct group groups[GROUPS]; /* not zeroed */

	for (size_t i = 0; i < n_groups + GROUPS - 1; i++) {
		struct group *group = &groups[i % GROUPS];

		if (i < n_groups) {
			group->items = &items[i * GROUP];
			group->n = n - i * GROUP < GROUP ? (unsigned int)(n - i * GROUP) : GROUP;
			steps->locate(&layout, batch, group);
		}
		/* Between the two that ask for much: more at once than fits is forgotten. */
		if (i >= 3)
			steps->take(batch, &groups[(i - 3) % GROUPS]);
		if (i >= 1 && i - 1 < n_groups)
			steps->find(batch, &groups[(i - 1) % GROUPS]);
		if (i >= 2 && i - 2 < n_groups)
			find_seen(&groups[(i - 2) % GROUPS]);
	}
}

void hotness_access_batch(struct hotness *hotness, unsigned int shard_nr, struct hotness_item *items, size_t n,
			  uint32_t counts[HOTNESS_RESULTS])
{
	struct hotness_shard *shard = &hotness->shard[shard_nr];
	uint64_t now_ns = atomic_load_explicit(&shard->now_ns, memory_order_relaxed);
	struct batch batch = {
		.hotness = hotness,
		.shard = shard_nr,
		/* All kinds that have this bit; whatever they may be, decided() sees which one it is. */
		.decisions = hotness_by_region(hotness) ? REGION_DECISION_FORGET | REGION_DECISION_PAGES : 0,
		.last_ns = now_ns,
		.counts = counts,
	};

	assert(shard_nr < hotness->shards);
	run(hotmap_is_narrow(hotness->map) ? &narrow_steps : &wide_steps, &batch, items, n);
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
