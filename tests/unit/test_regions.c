/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "harness.h"
#include "rcu.h"
#include "regions_heat.h"
#include "retire.h"
#include "tablemem.h"

#define ADDR 0x7f0000000000ULL

struct rig {
	struct tablemem mem;
	struct retire retire;
	struct regions *regions;
};

static struct rig *rig_new(unsigned int shards)
{
	struct rig *rig = calloc(1, sizeof(*rig));

	tablemem_init(&rig->mem, NULL, 1ULL << 32);
	retire_init(&rig->retire);
	rig->regions = regions_new(&rig->mem, &rig->retire, shards);
	if (!rig->regions)
		abort();
	return rig;
}

static void rig_free(struct rig *rig)
{
	retire_free(&rig->retire, retire_take(&rig->retire));
	regions_free(rig->regions);
	CU_ASSERT_EQUAL(tablemem_bytes(&rig->mem), 0);
	free(rig);
}

static void keys_are_kept_apart(void)
{
	struct rig *rig = rig_new(3);
	const uint32_t owners[] = { 0, 1, 2, 1000, REGION_OWNER_MAX };
	const uint64_t addrs[] = { 0, REGION_BYTES, ADDR, ADDR + REGION_BYTES, (1ULL << 47) - 1, REGION_ADDR_MAX - 1 };
	uint32_t slots[5][6];

	for (unsigned int o = 0; o < 5; o++)
		for (unsigned int a = 0; a < 6; a++) {
			struct region *region;

			CU_ASSERT_PTR_NULL(regions_find(rig->regions, a % 3, owners[o], addrs[a], NULL));
			region = regions_add(rig->regions, a % 3, owners[o], addrs[a], 0, &slots[o][a]);
			CU_ASSERT_PTR_NOT_NULL(region);
			CU_ASSERT(slots[o][a] < 1U << REGION_SLOT_BITS);
			CU_ASSERT_EQUAL((uintptr_t)region % 64, 0);
		}
	for (unsigned int o = 0; o < 5; o++)
		for (unsigned int a = 0; a < 6; a++) {
			uint32_t slot;
			struct region *region = regions_find(rig->regions, a % 3, owners[o], addrs[a], &slot);

			CU_ASSERT_EQUAL(slot, slots[o][a]);
			CU_ASSERT_PTR_EQUAL(region, regions_at(rig->regions, slot));
			CU_ASSERT_EQUAL(region_owner_slot(region->key), owners[o]);
			CU_ASSERT_EQUAL(region_addr(region->key), addrs[a] & ~(REGION_BYTES - 1));
			CU_ASSERT_EQUAL(region->decision, 0);
			CU_ASSERT_PTR_NULL(regions_find(rig->regions, (a + 1) % 3, owners[o], addrs[a], NULL));
		}
	CU_ASSERT_EQUAL(regions_count(rig->regions), 30);
	CU_ASSERT_EQUAL(REGION_SLOT_OF(REGION_BACKREF(0x7fffff, 511)), 0x7fffff);
	CU_ASSERT_EQUAL(REGION_PAGE_OF(REGION_BACKREF(0x7fffff, 511)), 511);
	rig_free(rig);
}

/* The hash against a plain array: random inserts and removals, through growth, tombstones and tidying. */
static void the_hash_agrees_with_an_array(void)
{
	enum { KEYS = 5000 };
	struct rig *rig = rig_new(1);
	static uint32_t slots[KEYS];
	unsigned int wrong = 0, live = 0;
	uint64_t seed = 42;

	for (int i = 0; i < KEYS; i++)
		slots[i] = UINT32_MAX;
	for (unsigned int op = 0; op < 300000; op++) {
		unsigned int k, phase = op / 30000;
		struct region *region;
		uint32_t slot = 0, owner;
		uint64_t addr;

		seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
		k = (unsigned int)(seed >> 33) % KEYS;
		owner = k % 7;
		addr = ADDR + (k / 7) * REGION_BYTES;
		region = regions_find(rig->regions, 0, owner, addr, &slot);
		wrong += (region != NULL) != (slots[k] != UINT32_MAX);
		wrong += region && slot != slots[k];
		/* By turns mostly inserts and mostly removals. */
		if (!region && (seed >> 20) % 10 < (phase % 2 ? 1 : 9)) {
			wrong += !regions_add(rig->regions, 0, owner, addr, 0, &slots[k]);
			live++;
		} else if (region && (seed >> 20) % 10 < (phase % 2 ? 9 : 1)) {
			regions_unlink(rig->regions, slot, REGION_COLD);
			wrong += regions_find(rig->regions, 0, owner, addr, NULL) != NULL;
			regions_release(rig->regions, slot);
			slots[k] = UINT32_MAX;
			live--;
		}
		if (op % 10000 == 0)
			regions_tidy(rig->regions);
		if (op % 1000 == 0)
			retire_free(&rig->retire, retire_take(&rig->retire));
		wrong += regions_count(rig->regions) != live;
	}
	CU_ASSERT_EQUAL(wrong, 0);
	rig_free(rig);
}

static void slots_stay_together(void)
{
	struct rig *rig = rig_new(1);
	uint32_t slot, highest = 0;

	for (uint64_t i = 0; i < 1000; i++) {
		regions_add(rig->regions, 0, 1, ADDR + i * REGION_BYTES, 0, &slot);
		CU_ASSERT_EQUAL(slot, i);
	}
	for (uint32_t i = 0; i < 1000; i += 2) {
		regions_unlink(rig->regions, i, REGION_COLD);
		regions_release(rig->regions, i);
	}
	for (uint64_t i = 0; i < 500; i++) {
		regions_add(rig->regions, 0, 2, ADDR + i * REGION_BYTES, 0, &slot);
		highest = slot > highest ? slot : highest;
	}
	CU_ASSERT_EQUAL(highest, 998);
	/* A page of the pool that gets empty is given back, and reads as free. */
	for (uint32_t i = 0; i < 64; i++) {
		regions_unlink(rig->regions, i, REGION_COLD);
		regions_release(rig->regions, i);
	}
	for (uint32_t i = 0; i < 64; i++)
		CU_ASSERT_EQUAL(regions_at(rig->regions, i)->key, 0);
	rig_free(rig);
}

static void tables_shrink(void)
{
	struct rig *rig = rig_new(1);
	uint64_t small = tablemem_bytes(&rig->mem), large;
	uint32_t slot;

	for (uint64_t i = 0; i < 20000; i++)
		regions_add(rig->regions, 0, 1, ADDR + i * REGION_BYTES, 0, &slot);
	retire_free(&rig->retire, retire_take(&rig->retire));
	large = tablemem_bytes(&rig->mem);
	CU_ASSERT(large >= small + 20000 * (64 + 4));
	for (uint32_t i = 0; i < 19990; i++) {
		regions_unlink(rig->regions, i, REGION_COLD);
		regions_release(rig->regions, i);
	}
	regions_tidy(rig->regions);
	retire_free(&rig->retire, retire_take(&rig->retire));
	CU_ASSERT(tablemem_bytes(&rig->mem) < small + 10 * 64 + 3 * 4096);
	for (uint64_t i = 19990; i < 20000; i++)
		CU_ASSERT_PTR_NOT_NULL(regions_find(rig->regions, 0, 1, ADDR + i * REGION_BYTES, NULL));
	rig_free(rig);
}

static void pages_are_seen_once(void)
{
	struct rig *rig = rig_new(1);
	uint32_t slot;

	for (unsigned int step = 1; step < 512; step += 34) {
		struct region *region = regions_add(rig->regions, 0, step, ADDR, 0, &slot);

		for (unsigned int i = 0; i < 512; i++) {
			unsigned int page = i * step % 512;
			bool again = false;

			for (unsigned int k = 0; k < i && !again; k++)
				again = k * step % 512 == page;
			CU_ASSERT_EQUAL(region_has_seen(region, page), again);
			CU_ASSERT_EQUAL(region_see(&rig->mem, region, page), !again);
			CU_ASSERT(region_has_seen(region, page));
		}
		CU_ASSERT_EQUAL(region->n_seen, 512U >> __builtin_ctz(step | 512));
	}
	rig_free(rig);
}

/* Without memory for the bitmap, what was seen stays seen. */
static void seen_without_memory(void)
{
	struct rig *rig = rig_new(1);
	struct region *region;
	uint32_t slot;

	region = regions_add(rig->regions, 0, 1, ADDR, 0, &slot);
	atomic_store(&rig->mem.max_bytes, 0);
	for (unsigned int i = 0; i < REGION_INLINE_PAGES; i++)
		CU_ASSERT_EQUAL(region_see(&rig->mem, region, i * 60), 1);
	CU_ASSERT_EQUAL(region_see(&rig->mem, region, 3), -ENOMEM);
	CU_ASSERT_EQUAL(region_see(&rig->mem, region, 60), 0);
	CU_ASSERT(!region_has_seen(region, 3));
	CU_ASSERT_PTR_NULL(regions_add(rig->regions, 0, 2, ADDR, 0, &slot));
	atomic_store(&rig->mem.max_bytes, 1 << 20);
	CU_ASSERT_EQUAL(region_see(&rig->mem, region, 3), 1);
	CU_ASSERT_EQUAL(region_see(&rig->mem, region, 60), 0);
	rig_free(rig);
}

/* The counts against a plain table by second, with samples up to two seconds late. */
static void count_access(struct region *region, uint64_t now_ns, const struct region_place *place, uint32_t latency,
			 bool by_fault)
{
	const struct region_moment moment = region_moment(now_ns);

	region_count(region, now_ns, &moment, place, latency, by_fault);
}

static void epochs_agree_with_a_table(void)
{
	struct rig *rig = rig_new(1);
	static uint32_t table[1000];
	const struct region_place place = region_place(0, -1, false);
	uint64_t now_ns = 0, seed = 7;
	unsigned int wrong = 0;
	struct region *region;
	uint16_t counts[REGION_EPOCHS];
	uint32_t slot;

	memset(table, 0, sizeof(table));
	region = regions_add(rig->regions, 0, 1, ADDR, 0, &slot);
	while (now_ns < 900 * NSEC_PER_SEC) {
		uint64_t at_ns;

		seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
		/* Mostly small steps, now and then long ones. */
		now_ns += (seed >> 60) == 0 ? (seed >> 30) % (8 * NSEC_PER_SEC) : (seed >> 30) % (400 * NSEC_PER_MSEC);
		at_ns = now_ns;
		if ((seed >> 50) % 8 == 0 && now_ns > 2 * NSEC_PER_SEC)
			at_ns -= (seed >> 20) % (2 * NSEC_PER_SEC);
		/* What comes first after a pause is never late: a late one would be from before it. */
		if (at_ns != now_ns)
			region_touch(region, now_ns, &place);
		region_touch(region, at_ns, &place);
		if (at_ns != now_ns) {
			count_access(region, now_ns, &place, 0, false);
			table[now_ns / NSEC_PER_SEC]++;
		}
		count_access(region, at_ns, &place, 0, false);
		table[at_ns / NSEC_PER_SEC]++;
		region_counts(region, now_ns, counts);
		for (uint64_t i = 0; i < REGION_EPOCHS && i <= now_ns / NSEC_PER_SEC; i++)
			wrong += counts[i] != table[now_ns / NSEC_PER_SEC - i];
	}
	CU_ASSERT_EQUAL(wrong, 0);
	rig_free(rig);
}

static void touch_on(struct region *region, int nid, enum region_mapping mapping)
{
	const struct region_place place = region_place(nid, -1, false);

	region_touch(region, 0, &place);
	region_set_mapping(region, mapping);
}

static void nodes_and_mapping(void)
{
	struct rig *rig = rig_new(1);
	struct region *region;
	uint32_t slot;

	region = regions_add(rig->regions, 0, 1, ADDR, 0, &slot);
	CU_ASSERT_EQUAL(region->mapping, REGION_BASE_PAGES);
	touch_on(region, -1, REGION_HUGE_2M);
	CU_ASSERT_EQUAL(region->nodes, 0);
	touch_on(region, 0, REGION_HUGE_2M);
	touch_on(region, 62, REGION_HUGE_2M);
	CU_ASSERT_EQUAL(region->nodes, 1 | 1ULL << 62);
	touch_on(region, 63, REGION_HUGE_1G);
	touch_on(region, 1023, REGION_HUGE_1G);
	CU_ASSERT_EQUAL(region->nodes, 1 | 3ULL << 62);
	CU_ASSERT_EQUAL(region->mapping, REGION_HUGE_1G);
	rig_free(rig);
}

struct reader {
	struct regions *regions;
	_Atomic bool stop;
	_Atomic uint64_t found;
	uint64_t wrong;
};

static void *read_regions(void *arg)
{
	struct reader *reader = arg;
	uint64_t seed = 1;

	rcu_thread_start();
	while (!atomic_load_explicit(&reader->stop, memory_order_relaxed)) {
		struct region *region;
		uint64_t addr;

		seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
		addr = ADDR + (seed >> 33) % 4000 * REGION_BYTES;
		rcu_enter();
		/* Those below 1000 are there all the time, whatever the hash goes through. */
		region = regions_find(reader->regions, 0, 1, addr, NULL);
		if (region) {
			uint64_t key = atomic_load_explicit(&region->key, memory_order_relaxed);

			atomic_fetch_add_explicit(&reader->found, 1, memory_order_relaxed);
			reader->wrong += region_addr(key) != addr || region_owner_slot(key) != 1;
			region_has_seen(region, 5);
		} else {
			reader->wrong += addr < ADDR + 1000 * REGION_BYTES;
		}
		rcu_leave();
	}
	rcu_thread_stop();
	return NULL;
}

/* One thread looks up while another inserts, removes and grows. */
static void readers_need_no_lock(void)
{
	struct rig *rig = rig_new(1);
	struct reader reader = { .regions = rig->regions };
	static uint32_t slots[4000];
	pthread_t thread;

	rcu_thread_start();
	for (uint64_t i = 0; i < 1000; i++)
		regions_add(rig->regions, 0, 1, ADDR + i * REGION_BYTES, 0, &slots[i]);
	pthread_create(&thread, NULL, read_regions, &reader);
	for (int round = 0; round < 20; round++) {
		uintptr_t list;

		for (uint64_t i = 1000; i < 4000; i++) {
			struct region *region = regions_add(rig->regions, 0, 1, ADDR + i * REGION_BYTES, 0, &slots[i]);

			for (unsigned int page = 0; page < i % 12; page++)
				region_see(&rig->mem, region, page);
		}
		for (uint64_t i = 1000; i < 4000; i++)
			regions_unlink(rig->regions, slots[i], REGION_EVICTED);
		regions_tidy(rig->regions);
		list = retire_take(&rig->retire);
		rcu_wait();
		for (uint64_t i = 1000; i < 4000; i++)
			regions_release(rig->regions, slots[i]);
		retire_free(&rig->retire, list);
	}
	/* On a busy machine it may not have begun yet. */
	while (atomic_load(&reader.found) == 0)
		sched_yield();
	atomic_store(&reader.stop, true);
	pthread_join(thread, NULL);
	rcu_thread_stop();
	CU_ASSERT_EQUAL(reader.wrong, 0);
	rig_free(rig);
}

TEST_MAIN(regions, TEST(keys_are_kept_apart), TEST(the_hash_agrees_with_an_array), TEST(slots_stay_together),
	  TEST(tables_shrink), TEST(pages_are_seen_once), TEST(seen_without_memory), TEST(epochs_agree_with_a_table),
	  TEST(nodes_and_mapping), TEST(readers_need_no_lock))
