/* SPDX-License-Identifier: GPL-2.0-or-later */
/* regions_internal: how regions are found, for regions.c and the path of a sample (hotness_*.c) only. */
#pragma once

#include <pthread.h>

#include "regions.h"
#include "retire.h"
#include "tablemem.h"

#define REGIONS_PAGE_SLOTS     64 /* of 64 bytes: a page of the pool, so that a mask of 64 bits tells which are used */
#define REGIONS_BUCKET_BITS    23
#define REGIONS_BUCKET_MASK    ((1U << REGIONS_BUCKET_BITS) - 1)
#define REGIONS_BUCKET_EMPTY   0U
#define REGIONS_BUCKET_REMOVED 1U
#define REGIONS_BUCKET_FIRST   2U /* index 0 */

struct region_table {
	struct retire_node retired;
	uint32_t mask;
	uint32_t used; /* live or removed; under the lock, as live */
	uint32_t live;
	uint32_t spare;
	_Atomic uint32_t bucket[]; /* B1, B2; 9 bits of the hash, 23 of the index + REGIONS_BUCKET_FIRST */
};

struct region_shard {
	/* What a hit reads. */
	_Alignas(64) _Atomic(struct region_table *) table; /* T1, T2 */
	struct region *pool;
	_Atomic uint32_t live; /* gauge, relaxed */
	_Atomic bool full;     /* relaxed */

	/* Under the lock. */
	_Alignas(64) pthread_mutex_t lock;
	_Atomic uint64_t *used; /* a mask for each page of the pool; written under the lock, read by the janitor */
	_Atomic uint32_t pages; /* one past the highest page that was ever used; as used */
	uint64_t *crowded;      /* a bit for each page without a free slot */
	uint32_t first_word;    /* of crowded: all before it are all ones */
	struct tablerange used_range;
};

struct regions {
	struct tablemem *mem;
	struct retire *retire;
	unsigned int shards;
	unsigned int index_bits;
	uint32_t pages_max;  /* of one shard */
	struct region *pool; /* of all shards, in the order of their numbers: by slot */
	struct region_shard shard[];
};

static inline uint64_t regions_key(uint32_t owner_slot, uint64_t addr)
{
	return ((uint64_t)owner_slot + 1) << 36 | addr >> REGION_SHIFT;
}

static inline uint64_t regions_hash(uint64_t key)
{
	key ^= key >> 32;
	key *= UINT64_C(0xd6e8feb86659fd93);
	key ^= key >> 32;
	key *= UINT64_C(0xd6e8feb86659fd93);
	return key ^ key >> 32;
}

static inline struct region *regions_slot(const struct regions *regions, uint32_t slot)
{
	return &regions->pool[slot];
}

/* regions_find() by key. */
static inline struct region *regions_find_key(const struct regions *regions, unsigned int shard_nr, uint64_t key,
					      uint32_t *ret_slot)
{
	const struct region_shard *shard = &regions->shard[shard_nr];
	const struct region_table *table = atomic_load_explicit(&shard->table, memory_order_acquire); /* T2 */
	uint64_t hash = regions_hash(key);

	/* Ends: a table is never filled, see make_space() in regions.c. */
	for (uint32_t i = (uint32_t)hash & table->mask;; i = (i + 1) & table->mask) {
		uint32_t bucket = atomic_load_explicit(&table->bucket[i], memory_order_acquire); /* B2 */
		uint32_t index = bucket & REGIONS_BUCKET_MASK;
		struct region *region;

		if (bucket == REGIONS_BUCKET_EMPTY)
			return NULL;
		if (bucket >> REGIONS_BUCKET_BITS != hash >> 55 || index < REGIONS_BUCKET_FIRST)
			continue;
		index -= REGIONS_BUCKET_FIRST;
		region = &shard->pool[index];
		if (atomic_load_explicit(&region->key, memory_order_acquire) != key) /* K2 */
			continue;
		if (ret_slot)
			*ret_slot = shard_nr << regions->index_bits | index;
		return region;
	}
}

/* Ask the cache for the bucket of @key, the first line that regions_find_key() reads. */
static inline void regions_prefetch_bucket(const struct regions *regions, unsigned int shard_nr, uint64_t key)
{
	const struct region_table *table =
		atomic_load_explicit(&regions->shard[shard_nr].table, memory_order_acquire); /* T2 */

	__builtin_prefetch((const void *)&table->bucket[(uint32_t)regions_hash(key) & table->mask]);
}

/*
 * Ask for the region, once the bucket is there. A hint: from the bucket alone, so it may be another region's. Returns
 * it, to be looked at by regions_prefetch_seen() later; NULL: the bucket is empty.
 */
static inline struct region *regions_prefetch_region(const struct regions *regions, unsigned int shard_nr, uint64_t key)
{
	const struct region_shard *shard = &regions->shard[shard_nr];
	const struct region_table *table = atomic_load_explicit(&shard->table, memory_order_acquire); /* T2 */
	uint64_t hash = regions_hash(key);

	for (uint32_t i = (uint32_t)hash & table->mask;; i = (i + 1) & table->mask) {
		uint32_t bucket = atomic_load_explicit(&table->bucket[i], memory_order_acquire); /* B2 */
		struct region *region;

		if (bucket == REGIONS_BUCKET_EMPTY)
			return NULL;
		if (bucket >> REGIONS_BUCKET_BITS != hash >> 55 ||
		    (bucket & REGIONS_BUCKET_MASK) < REGIONS_BUCKET_FIRST)
			continue;
		region = &shard->pool[(bucket & REGIONS_BUCKET_MASK) - REGIONS_BUCKET_FIRST];
		__builtin_prefetch(region, 1);
		return region;
	}
}

/* Its address is all that is used: the bitmap may be on its way out. */
static inline void regions_prefetch_seen(const struct region *region, unsigned int page)
{
	const struct region_seen *seen = atomic_load_explicit(&region->seen, memory_order_relaxed);

	if (seen)
		__builtin_prefetch((const void *)&seen->bits[page / 64], 1);
}
