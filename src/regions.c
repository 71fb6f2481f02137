/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <assert.h>
#include <errno.h>
#include <pthread.h>

#include "regions_internal.h"
#include "retire.h"
#include "tablemem.h"

#define SHARDS_MAX 64
#define TABLE_MIN  256

static uint32_t make_bucket(uint64_t hash, uint32_t index)
{
	return (uint32_t)(hash >> 55) << REGIONS_BUCKET_BITS | (index + REGIONS_BUCKET_FIRST);
}

static size_t table_bytes(uint32_t buckets)
{
	return sizeof(struct region_table) + (size_t)buckets * sizeof(uint32_t);
}

static void free_table(void *ctx, struct retire_node *node)
{
	struct region_table *table = (struct region_table *)node;

	tablemem_free(ctx, table, table_bytes(table->mask + 1));
}

/* @p may be NULL. */
static struct region_table *new_table(void *p, uint32_t buckets)
{
	struct region_table *table = p;

	if (table)
		table->mask = buckets - 1;
	return table;
}

static size_t regions_bytes(unsigned int shards)
{
	return sizeof(struct regions) + shards * sizeof(struct region_shard);
}

static size_t pool_bytes(const struct regions *regions)
{
	return ((size_t)regions->shards << regions->index_bits) * sizeof(struct region);
}

static int init_shard(struct regions *regions, unsigned int shard_nr)
{
	struct region_shard *shard = &regions->shard[shard_nr];
	struct region_table *table = new_table(tablemem_alloc(regions->mem, table_bytes(TABLE_MIN)), TABLE_MIN);

	pthread_mutex_init(&shard->lock, NULL);
	atomic_init(&shard->table, table);
	if (!table)
		return -ENOMEM;
	shard->crowded = tablemem_alloc(regions->mem, (regions->pages_max + 63) / 64 * sizeof(uint64_t));
	if (!shard->crowded || !regions->pool ||
	    tablerange_init(regions->mem, &shard->used_range, (size_t)regions->pages_max * sizeof(uint64_t)) < 0)
		return -ENOMEM;
	shard->used = (_Atomic uint64_t *)(void *)shard->used_range.base;
	shard->pool = regions->pool + ((size_t)shard_nr << regions->index_bits);
	return 0;
}

struct regions *regions_new(struct tablemem *mem, struct retire *retire, unsigned int shards)
{
	struct regions *regions = tablemem_alloc_lines(mem, regions_bytes(shards));

	assert(shards >= 1 && shards <= SHARDS_MAX);
	if (!regions)
		return NULL;
	regions->mem = mem;
	regions->retire = retire;
	regions->shards = shards;
	regions->index_bits = REGION_SLOT_BITS;
	for (unsigned int n = 1; n < shards; n *= 2)
		regions->index_bits--;
	/* The last page is left out: its last indices would not fit into a bucket beside "empty" and "removed". */
	regions->pages_max = (1U << regions->index_bits) / REGIONS_PAGE_SLOTS - 1;
	retire_handle(retire, RETIRE_REGION_TABLE, free_table, mem);
	regions->pool = mem->ops->reserve(mem->ops->ctx, pool_bytes(regions));
	for (unsigned int i = 0; i < shards; i++) {
		if (init_shard(regions, i) < 0) {
			/* Those behind it are zeroed, and have no lock yet. */
			for (unsigned int j = i + 1; j < shards; j++)
				pthread_mutex_init(&regions->shard[j].lock, NULL);
			regions_free(regions);
			return NULL;
		}
	}
	return regions;
}

static void free_region(struct tablemem *mem, struct region *region)
{
	tablemem_free(mem, atomic_load_explicit(&region->seen, memory_order_relaxed), sizeof(struct region_seen));
	atomic_store_explicit(&region->seen, NULL, memory_order_relaxed);
	atomic_store_explicit(&region->key, 0, memory_order_relaxed);
	tablemem_uncharge(mem, sizeof(*region));
}

static void free_shard(struct regions *regions, struct region_shard *shard)
{
	struct region_table *table = atomic_load_explicit(&shard->table, memory_order_relaxed);
	uint32_t pages = atomic_load_explicit(&shard->pages, memory_order_relaxed);

	for (uint32_t i = 0; i < pages; i++)
		for (uint64_t used = shard->used[i]; used; used &= used - 1)
			free_region(regions->mem,
				    &shard->pool[i * REGIONS_PAGE_SLOTS + (unsigned int)__builtin_ctzll(used)]);
	if (table)
		free_table(regions->mem, &table->retired);
	tablemem_free(regions->mem, shard->crowded, (regions->pages_max + 63) / 64 * sizeof(uint64_t));
	tablerange_done(regions->mem, &shard->used_range);
	pthread_mutex_destroy(&shard->lock);
}

void regions_free(struct regions *regions)
{
	if (!regions)
		return;
	for (unsigned int i = 0; i < regions->shards; i++)
		free_shard(regions, &regions->shard[i]);
	if (regions->pool)
		regions->mem->ops->unreserve(regions->mem->ops->ctx, regions->pool, pool_bytes(regions));
	tablemem_free_lines(regions->mem, regions, regions_bytes(regions->shards));
}

struct region *regions_find(const struct regions *regions, unsigned int shard, uint32_t owner_slot, uint64_t addr,
			    uint32_t *ret_slot)
{
	return regions_find_key(regions, shard, regions_key(owner_slot, addr), ret_slot);
}

static void table_put(struct region_table *table, uint64_t hash, uint32_t index)
{
	uint32_t i = (uint32_t)hash & table->mask, bucket;

	for (;; i = (i + 1) & table->mask) {
		bucket = atomic_load_explicit(&table->bucket[i], memory_order_relaxed);
		if (bucket <= REGIONS_BUCKET_REMOVED)
			break;
	}
	if (bucket == REGIONS_BUCKET_EMPTY)
		table->used++;
	table->live++;
	atomic_store_explicit(&table->bucket[i], make_bucket(hash, index), memory_order_release); /* B1 */
}

/*
 * A new hash of @next's size. The copy looks up each region for its key: 8 million of them, the most there can be, take
 * half a second, once; a million 50 ms.
 */
static void replace_table(struct regions *regions, struct region_shard *shard, struct region_table *next)
{
	struct region_table *table = atomic_load_explicit(&shard->table, memory_order_relaxed);

	for (uint64_t i = 0; i <= table->mask; i++) {
		uint32_t bucket = atomic_load_explicit(&table->bucket[i], memory_order_relaxed);

		if (bucket > REGIONS_BUCKET_REMOVED) {
			uint32_t index = (bucket & REGIONS_BUCKET_MASK) - REGIONS_BUCKET_FIRST;
			uint64_t key = atomic_load_explicit(&shard->pool[index].key, memory_order_relaxed);

			table_put(next, regions_hash(key), index);
		}
	}
	atomic_store_explicit(&shard->table, next, memory_order_release); /* T1 */
	retire_push(regions->retire, RETIRE_REGION_TABLE, &table->retired);
}

/* Buckets for @live regions: half of them stay empty at least. */
static uint32_t table_size(uint32_t live)
{
	uint32_t size = TABLE_MIN;

	while (size / 2 < live)
		size *= 2;
	return size;
}

/*
 * Room for one more in the hash: at three quarters (with what was removed) there is a new table. When there is no
 * memory for one, the old one does until seven eighths.
 */
static int make_space(struct regions *regions, struct region_shard *shard)
{
	struct region_table *table = atomic_load_explicit(&shard->table, memory_order_relaxed), *next;
	uint64_t buckets = (uint64_t)table->mask + 1;

	if (table->used + 1 <= buckets / 4 * 3)
		return 0;
	next = new_table(tablemem_alloc(regions->mem, table_bytes(table_size(table->live + 1))),
			 table_size(table->live + 1));
	if (!next)
		return table->used + 1 <= buckets / 8 * 7 ? 0 : -ENOMEM;
	replace_table(regions, shard, next);
	return 0;
}

void regions_tidy(struct regions *regions)
{
	for (unsigned int i = 0; i < regions->shards; i++) {
		struct region_shard *shard = &regions->shard[i];
		struct region_table *table, *next;

		pthread_mutex_lock(&shard->lock);
		table = atomic_load_explicit(&shard->table, memory_order_relaxed);
		if (table_size(table->live) * 4 <= table->mask) {
			/* Without memory for the smaller one, the larger one stays. */
			next = new_table(tablemem_alloc_over(regions->mem, table_bytes(table_size(table->live))),
					 table_size(table->live));
			if (next)
				replace_table(regions, shard, next);
		}
		pthread_mutex_unlock(&shard->lock);
	}
}

/* A free slot, the lowest, so that the used ones stay together. Under the lock. */
static int take_index(struct regions *regions, struct region_shard *shard, uint32_t *ret)
{
	uint32_t words = (regions->pages_max + 63) / 64, page;
	uint64_t used, bit;

	while (shard->first_word < words && shard->crowded[shard->first_word] == UINT64_MAX)
		shard->first_word++;
	page = shard->first_word * 64;
	if (shard->first_word < words)
		page += (uint32_t)__builtin_ctzll(~shard->crowded[shard->first_word]);
	if (page >= regions->pages_max) {
		atomic_store_explicit(&shard->full, true, memory_order_relaxed);
		return -ENOSPC;
	}
	if (tablerange_touch(regions->mem, &shard->used_range, page * sizeof(uint64_t)) < 0 ||
	    !tablemem_charge(regions->mem, sizeof(struct region)))
		return -ENOMEM;
	if (page >= atomic_load_explicit(&shard->pages, memory_order_relaxed))
		atomic_store_explicit(&shard->pages, page + 1, memory_order_relaxed);
	used = atomic_load_explicit(&shard->used[page], memory_order_relaxed);
	bit = ~used & (used + 1);
	used |= bit;
	atomic_store_explicit(&shard->used[page], used, memory_order_relaxed);
	if (used == UINT64_MAX)
		shard->crowded[page / 64] |= UINT64_C(1) << (page % 64);
	*ret = page * REGIONS_PAGE_SLOTS + (uint32_t)__builtin_ctzll(bit);
	return 0;
}

static void put_index(struct regions *regions, struct region_shard *shard, uint32_t index)
{
	const struct tablemem_ops *ops = regions->mem->ops;
	uint32_t page = index / REGIONS_PAGE_SLOTS;
	uint64_t used = atomic_load_explicit(&shard->used[page], memory_order_relaxed);

	used &= ~(UINT64_C(1) << (index % REGIONS_PAGE_SLOTS));
	atomic_store_explicit(&shard->used[page], used, memory_order_relaxed);
	shard->crowded[page / 64] &= ~(UINT64_C(1) << (page % 64));
	if (page / 64 < shard->first_word)
		shard->first_word = page / 64;
	if (used == 0)
		ops->discard(ops->ctx, &shard->pool[(size_t)page * REGIONS_PAGE_SLOTS],
			     REGIONS_PAGE_SLOTS * sizeof(struct region));
}

struct region *regions_add(struct regions *regions, unsigned int shard_nr, uint32_t owner_slot, uint64_t addr,
			   uint64_t now_ns, uint32_t *ret_slot)
{
	struct region_shard *shard = &regions->shard[shard_nr];
	uint64_t key = regions_key(owner_slot, addr);
	struct region *region = NULL;
	uint32_t index;

	assert(owner_slot <= REGION_OWNER_MAX && addr < REGION_ADDR_MAX);
	pthread_mutex_lock(&shard->lock);
	if (make_space(regions, shard) < 0 || take_index(regions, shard, &index) < 0)
		goto out;
	region = &shard->pool[index];
	atomic_store_explicit(&region->heat, (now_ns / REGION_EPOCH_NS & 0xffff) << 48, memory_order_relaxed);
	atomic_store_explicit(&region->nodes, 0, memory_order_relaxed);
	atomic_store_explicit(&region->seen, NULL, memory_order_relaxed);
	atomic_store_explicit(&region->evidence, 0, memory_order_relaxed);
	atomic_store_explicit(&region->decision, 0, memory_order_relaxed);
	atomic_store_explicit(&region->last_tick, (uint32_t)(now_ns >> REGION_TICK_SHIFT), memory_order_relaxed);
	atomic_store_explicit(&region->n_seen, 0, memory_order_relaxed);
	atomic_store_explicit(&region->mapping, REGION_BASE_PAGES, memory_order_relaxed);
	atomic_store_explicit(&region->state, REGION_LIVE, memory_order_relaxed);
	atomic_store_explicit(&region->key, key, memory_order_release); /* K1 */
	table_put(atomic_load_explicit(&shard->table, memory_order_relaxed), regions_hash(key), index);
	atomic_fetch_add_explicit(&shard->live, 1, memory_order_relaxed);
	*ret_slot = shard_nr << regions->index_bits | index;
out:
	pthread_mutex_unlock(&shard->lock);
	return region;
}

struct region *regions_at(const struct regions *regions, uint32_t slot)
{
	return regions_slot(regions, slot);
}

size_t regions_count(const struct regions *regions)
{
	size_t n = 0;

	for (unsigned int i = 0; i < regions->shards; i++)
		n += atomic_load_explicit(&regions->shard[i].live, memory_order_relaxed);
	return n;
}

size_t regions_capacity(const struct regions *regions)
{
	return (size_t)regions->pages_max * REGIONS_PAGE_SLOTS;
}

bool regions_was_full(struct regions *regions)
{
	bool full = false;

	for (unsigned int i = 0; i < regions->shards; i++)
		full |= atomic_exchange_explicit(&regions->shard[i].full, false, memory_order_relaxed);
	return full;
}

void regions_for_each_part(struct regions *regions, uint32_t part, uint32_t parts,
			   void (*fn)(void *ctx, uint32_t slot, struct region *region), void *ctx)
{
	for (unsigned int i = 0; i < regions->shards; i++) {
		struct region_shard *shard = &regions->shard[i];
		uint32_t pages = atomic_load_explicit(&shard->pages, memory_order_relaxed);

		for (uint32_t page = part; page < pages; page += parts) {
			uint64_t used = atomic_load_explicit(&shard->used[page], memory_order_relaxed);

			for (; used; used &= used - 1) {
				uint32_t index = page * REGIONS_PAGE_SLOTS + (uint32_t)__builtin_ctzll(used);
				struct region *region = &shard->pool[index];

				/* K2. A slot that was taken a moment ago may have no key yet. */
				if (atomic_load_explicit(&region->key, memory_order_acquire) != 0 &&
				    atomic_load_explicit(&region->state, memory_order_relaxed) == REGION_LIVE)
					fn(ctx, i << regions->index_bits | index, region);
			}
		}
	}
}

void regions_for_each(struct regions *regions, void (*fn)(void *ctx, uint32_t slot, struct region *region), void *ctx)
{
	regions_for_each_part(regions, 0, 1, fn, ctx);
}

void regions_unlink(struct regions *regions, uint32_t slot, enum region_state state)
{
	struct region_shard *shard = &regions->shard[slot >> regions->index_bits];
	uint32_t index = slot & ((1U << regions->index_bits) - 1);
	struct region *region = &shard->pool[index];
	uint64_t hash = regions_hash(atomic_load_explicit(&region->key, memory_order_relaxed));
	struct region_table *table;
	uint32_t i;

	pthread_mutex_lock(&shard->lock);
	atomic_store_explicit(&region->state, (uint8_t)state, memory_order_relaxed);
	table = atomic_load_explicit(&shard->table, memory_order_relaxed);
	for (i = (uint32_t)hash & table->mask;; i = (i + 1) & table->mask) {
		uint32_t bucket = atomic_load_explicit(&table->bucket[i], memory_order_relaxed);

		assert(bucket != REGIONS_BUCKET_EMPTY);
		if (bucket == make_bucket(hash, index))
			break;
	}
	/* Relaxed: who still sees the old value holds the region until the grace period, and that is allowed. */
	atomic_store_explicit(&table->bucket[i], REGIONS_BUCKET_REMOVED, memory_order_relaxed);
	table->live--;
	pthread_mutex_unlock(&shard->lock);
}

void regions_release(struct regions *regions, uint32_t slot)
{
	struct region_shard *shard = &regions->shard[slot >> regions->index_bits];
	uint32_t index = slot & ((1U << regions->index_bits) - 1);
	struct region *region = &shard->pool[index];

	pthread_mutex_lock(&shard->lock);
	free_region(regions->mem, region);
	put_index(regions, shard, index);
	atomic_fetch_sub_explicit(&shard->live, 1, memory_order_relaxed);
	pthread_mutex_unlock(&shard->lock);
}
