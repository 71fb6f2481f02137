/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * hotness_path: the path of a sample into the tables, shared by its two halves: hotness_batch.c has what most samples
 * need, straight and without a call; hotness_take.c has all the rest, and could do without the other.
 */
#pragma once

#include "hotmap_update.h"
#include "hotness_internal.h"
#include "regions_heat.h"
#include "regions_internal.h"
#include "sample.h"

/* What was found out about a sample while the lines that it needs were asked for. Hints: whoever uses them checks. */
struct hotness_probe {
	struct hotmap_section *section; /* NULL: there is no record to look for, or no section yet */
	uint64_t chunk_word;            /* of the chunk that @at is in */
	void *at;                       /* the page's word; NULL: none was found */
	uint64_t raw;                   /* that word, when it named this very page of some region; else 0 */
	struct region *region;          /* that it named, or where the bucket leads; NULL: none */
	uint64_t key;                   /* of the sample's region; HOTNESS_ODD: see hotness_batch.c */
	uint32_t page;                  /* the low 32 bits of its page's number */
};

#define HOTNESS_ODD UINT64_C(1) /* no region's key */

/* A huge page is one entry, at its head. */
static inline bool hotness_is_huge(const struct sample *sample)
{
	return __builtin_expect(sample->page_shift >= REGION_SHIFT, 0);
}

static inline uint32_t hotness_page(const struct sample *sample)
{
	return hotness_is_huge(sample) ? 0 : (uint32_t)(sample->addr >> PAGE_SHIFT) & (REGION_PAGES - 1);
}

static inline uint64_t hotness_pfn(const struct sample *sample)
{
	uint64_t pfn = sample->phys >> PAGE_SHIFT;

	return hotness_is_huge(sample) ? pfn & ~(uint64_t)(REGION_PAGES - 1) : pfn;
}

static inline unsigned int hotness_chunk(const struct hotmap *map, uint64_t pfn)
{
	return (unsigned int)(pfn >> HOTMAP_CHUNK_SHIFT) & (map->chunks - 1);
}

static inline uint64_t hotness_key(const struct hotness_context *context, const struct sample *sample)
{
	return context->key_base | sample->addr >> REGION_SHIFT;
}

/* What the tables can hold. */
static inline bool hotness_can_take(const struct sample *sample)
{
	return sample->addr < REGION_ADDR_MAX && sample->phys >> HOTMAP_PHYS_BITS == 0;
}

static inline bool hotness_by_region(const struct hotness *hotness)
{
	return atomic_load_explicit(&hotness->by_region, memory_order_relaxed);
}

/* What is decided about @region; nothing, where the policy is not one that decides regions. */
static inline uint32_t hotness_decision(bool by_region, const struct region *region)
{
	return by_region ? atomic_load_explicit(&region->decision, memory_order_relaxed) : 0;
}

/* Its pages carry the heat one by one: the policy has found that each that is seen is worth its move. */
static inline struct record_rule hotness_rule(const struct hotness_context *context, uint32_t decision)
{
	struct record_rule rule = *context->rule;

	if (__builtin_expect((decision & REGION_DECISION_KIND) == REGION_DECISION_PAGES, 0))
		rule.freq_threshold = 1;
	return rule;
}

/* @n more, by the one who writes it: no locked add. */
static inline void hotness_add(_Atomic uint64_t *counter, uint64_t n)
{
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n, memory_order_relaxed);
}

/* The access, in @moment, is evidence for @region. */
static inline __attribute__((always_inline)) void hotness_count(const struct hotness_item *item,
								const struct region_moment *moment,
								struct region *region)
{
	const struct sample *sample = item->sample;

	region_count(region, sample->time_ns, moment, &item->context->region_place, sample->latency,
		     sample->flags & SAMPLE_MAYBE_FIRST_TOUCH);
}

/* Take in a sample, whatever it is. @probe: what is known of it. The collector of @shard. */
enum hotness_result hotness_take(struct hotness *hotness, unsigned int shard, const struct hotness_item *item,
				 const struct hotness_probe *probe);

/*
 * Update the record in the word of @probe, @raw, which is the sample's page's, as it was a moment ago; its region has
 * been told of the sample, and of it @decision is known. The collector of @shard.
 */
enum hotness_result hotness_update(struct hotness *hotness, unsigned int shard, const struct hotness_item *item,
				   const struct hotness_probe *probe, uint64_t raw, uint32_t decision);
