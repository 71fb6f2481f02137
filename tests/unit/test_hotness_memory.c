/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>

#include "harness.h"
#include "hotness_rig.h"

/*
 * Which allocations fail: each one, or every 13th where that takes fifty times as long. One thread: the thread
 * sanitizer has nothing to find here.
 */
static uint64_t stride(void)
{
#ifdef RCU_TSAN
	return 13;
#else
	return test_under_valgrind() ? 13 : 1;
#endif
}

static struct rig_scan scan;

static void sparse_pages_take_little(void)
{
	const uint64_t n = 100000;
	struct rig *rig = rig_new(NULL, false);
	uint64_t before = rig_usage(rig).bytes, bytes;

	for (uint64_t i = 0; i < n; i++)
		rig_access(rig, 100 + i % 10, RIG_ADDR + i / 10 * REGION_BYTES, rig_phys(1, i * 512 + i % 512));
	rig_janitor(rig, 1000 * SEC);
	CU_ASSERT_EQUAL(rig_usage(rig).regions, n);
	CU_ASSERT_EQUAL(rig_usage(rig).chunks, n);
	CU_ASSERT_EQUAL(rig_usage(rig).records, n);
	bytes = rig_usage(rig).bytes - before;
	printf("  %llu regions of one page: %llu bytes, %.1f each\n", (unsigned long long)n, (unsigned long long)bytes,
	       (double)bytes / (double)n);
	CU_ASSERT(bytes <= 128 * n);
	rig_free(rig);
}

static void dense_pages_take_little(void)
{
	for (int layout = RECORD_PRECISE; layout <= RECORD_COMPACT; layout++) {
		const uint64_t n = (1ULL << 30) / PAGE_SIZE_BYTES;
		struct hotness_options options = rig_options;
		struct rig *rig;
		uint64_t before, bytes;

		options.layout = layout;
		rig = rig_new(&options, false);
		before = rig_usage(rig).bytes;
		for (uint64_t i = 0; i < n; i++)
			rig_access(rig, 100, RIG_ADDR + i * PAGE_SIZE_BYTES, rig_phys(1, i));
		rig_janitor(rig, 1000 * SEC);
		CU_ASSERT_EQUAL(rig_usage(rig).records, n);
		CU_ASSERT_EQUAL(rig_usage(rig).chunks, 512);
		bytes = rig_usage(rig).bytes - before;
		printf("  1 GiB, every page, %s: %llu bytes, %.2f a page\n",
		       layout == RECORD_COMPACT ? "compact" : "precise", (unsigned long long)bytes,
		       (double)bytes / (double)n);
		CU_ASSERT(bytes <= (layout == RECORD_COMPACT ? 6 : 9) * n);
		rig_free(rig);
	}
}

/* Any share of a chunk's pages, and what is in between. */
static void growing_chunks_keep_their_size(void)
{
	struct rig *rig = rig_new(NULL, false);
	uint64_t worst = 0;

	for (uint64_t n = 1; n <= 512; n++) {
		uint64_t page = (n * 211) % 512, before, bytes;

		rig_janitor(rig, 1000 * SEC);
		before = rig_usage(rig).bytes;
		rig_access(rig, 100, RIG_ADDR + page * PAGE_SIZE_BYTES, rig_phys(1, page));
		rig_janitor(rig, 1000 * SEC);
		bytes = rig_usage(rig).bytes - before;
		worst = bytes > worst && n > 1 ? bytes : worst;
		CU_ASSERT_EQUAL(rig_usage(rig).records, n);
		for (uint64_t k = 1; k <= n; k += 17)
			CU_ASSERT_EQUAL(rig_freq(rig, rig_phys(1, k * 211 % 512)), 1);
	}
	CU_ASSERT(worst < 4128);
	/* Each keeps its count through all growth. */
	for (uint64_t page = 0; page < 512; page++)
		CU_ASSERT_EQUAL(rig_access(rig, 100, RIG_ADDR + page * PAGE_SIZE_BYTES, rig_phys(1, page)),
				HOTNESS_READY);
	rig_free(rig);
}

/* A chunk gets smaller when most of its records are gone. */
static void chunks_shrink(void)
{
	struct rig *rig = rig_new(NULL, true);
	uint64_t bytes;

	rig->rule.freq_threshold = 1;
	for (uint64_t page = 0; page < 512; page++)
		rig_access(rig, 100, RIG_ADDR + page * PAGE_SIZE_BYTES, rig_phys(1, page));
	rig_janitor(rig, 1000 * SEC);
	bytes = rig_usage(rig).bytes;
	scan.stop_after = 500;
	rig_scan(rig, &scan, 1, HOTNESS_TAKE);
	scan.stop_after = 0;
	CU_ASSERT_EQUAL(rig_usage(rig).records, 12);
	rig_janitor(rig, 1000 * SEC);
	CU_ASSERT(rig_usage(rig).bytes + 3500 < bytes);
	CU_ASSERT_EQUAL(rig_scan(rig, &scan, 1, HOTNESS_TAKE), 12);
	rig_janitor(rig, 1000 * SEC);
	CU_ASSERT_EQUAL(rig_usage(rig).chunks, 0);
	rig_free(rig);
}

/* Fill the tables with regions, the first ones oldest, until one is refused. Returns how many were made. */
static uint64_t fill(struct rig *rig, uint64_t first)
{
	for (uint64_t i = first;; i++) {
		enum hotness_result result =
			rig_access(rig, 100, RIG_ADDR + i * REGION_BYTES, rig_phys(1, 0) + i * REGION_BYTES);
		struct hotness_usage usage = rig_usage(rig);

		if (usage.bytes > usage.memory_max_bytes)
			return 0;
		if (result == HOTNESS_NO_MEMORY)
			return i - first;
		/* All of it within 4 s, so that no record gets old meanwhile. */
		rig->now_ns += 200 * NSEC_PER_USEC;
	}
}

static bool has_region(const struct rig *rig, uint64_t i)
{
	struct hotness_region r;
	bool found;

	rcu_enter();
	found = hotness_find_region(rig->hotness, 100, 0, RIG_ADDR + i * REGION_BYTES, rig->now_ns, &r);
	rcu_leave();
	return found;
}

static void the_coldest_go_first(void)
{
	struct hotness_options options = rig_options;
	struct rig *rig;
	uint64_t n, kept, first = 0, evicted = 0;

	options.memory_max_bytes = 2 * MIB;
	rig = rig_new(&options, false);
	n = fill(rig, 0);
	CU_ASSERT(n > 5000);
	/* Most of the first room comes from the hashes that were outgrown. */
	rig_janitor(rig, 1000 * SEC);
	n += fill(rig, n);
	/* Until the janitor has come, what is new is refused, and what is there goes on. */
	CU_ASSERT_EQUAL(rig_access(rig, 100, RIG_ADDR + 3 * n * REGION_BYTES, rig_phys(2, 0)), HOTNESS_NO_MEMORY);
	CU_ASSERT_EQUAL(rig_access(rig, 100, RIG_ADDR + (n - 1) * REGION_BYTES, rig_phys(1, (n - 1) * 512)),
			HOTNESS_READY);
	rig_janitor(rig, 1000 * SEC);
	CU_ASSERT(rig_usage(rig).bytes <= 2 * MIB * 15 / 16);
	CU_ASSERT(rig_usage(rig).bytes > 2 * MIB * 13 / 16); /* not more than is needed */
	kept = rig_usage(rig).regions;
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_AGED_REGIONS), 0);
	CU_ASSERT(rig_stat(rig, STAT_EVICTED_REGIONS) > n / 20);
	CU_ASSERT(rig_stat(rig, STAT_EVICTED_RECORDS) > n / 20);
	/* Those that went are the oldest, to within an eighth of their age. */
	while (!has_region(rig, first))
		first++;
	for (uint64_t i = 0; i < n; i++)
		evicted += !has_region(rig, i);
	CU_ASSERT(first > 0);
	CU_ASSERT(n + 1 - evicted >= kept);
	for (uint64_t i = evicted + n / 8; i < n; i++)
		CU_ASSERT(has_region(rig, i));
	/* And there is room again. */
	CU_ASSERT(fill(rig, 2 * n) > n / 32);
	for (int i = 0; i < 20; i++) {
		rig_janitor(rig, 1000 * SEC);
		CU_ASSERT(rig_usage(rig).bytes <= 2 * MIB * 15 / 16);
		CU_ASSERT(fill(rig, (3 + (uint64_t)i) * n) > n / 32);
	}
	rig_free(rig);
}

static bool has_region_of(const struct rig *rig, uint32_t pid, uint32_t owner, uint64_t i)
{
	struct hotness_region r;
	bool found;

	rcu_enter();
	found = hotness_find_region(rig->hotness, pid, owner, RIG_ADDR + i * REGION_BYTES, rig->now_ns, &r);
	rcu_leave();
	return found;
}

/* A program that touches memory without end meets its own share, not what others have, though that is colder. */
static void no_program_pushes_out_another(void)
{
	struct hotness_options options = rig_options;
	uint64_t next = 100000, evicted, kept = 0;
	uint32_t small, large;
	struct rig *rig;

	options.memory_max_bytes = 4 * MIB;
	rig = rig_new(&options, false);
	large = rig_owner(rig, 100);
	small = rig_owner(rig, 101);
	for (uint64_t i = 0; i < 4000; i++)
		rig_access(rig, 101, RIG_ADDR + i * REGION_BYTES, rig_phys(2, 0) + i * REGION_BYTES);
	rig->now_ns += SEC;
	for (int i = 0; i < 10; i++) {
		next += fill(rig, next);
		rig_janitor(rig, 1000 * SEC);
	}
	CU_ASSERT(next > 150000);
	for (uint64_t i = 0; i < 4000; i++)
		kept += has_region_of(rig, 101, small, i);
	CU_ASSERT_EQUAL(kept, 4000);
	rcu_enter();
	CU_ASSERT_EQUAL(owners_at(rig->owners, small)->evicted, 0);
	evicted = owners_at(rig->owners, large)->evicted;
	CU_ASSERT(owners_at(rig->owners, small)->bytes >= 4000 * 72);
	CU_ASSERT(owners_at(rig->owners, large)->bytes > owners_at(rig->owners, small)->bytes);
	CU_ASSERT(owners_at(rig->owners, large)->bytes < 4 * MIB);
	rcu_leave();
	CU_ASSERT_EQUAL(evicted, rig_stat(rig, STAT_EVICTED_REGIONS));
	/* Where the small one is the only one, or grows beyond its share, it pays as well. */
	for (uint64_t i = 4000; i < 60000; i++)
		rig_access(rig, 101, RIG_ADDR + i * REGION_BYTES, rig_phys(2, 0) + i * REGION_BYTES);
	rig_janitor(rig, 1000 * SEC);
	for (uint64_t i = 60000; i < 120000; i++)
		rig_access(rig, 101, RIG_ADDR + i * REGION_BYTES, rig_phys(2, 0) + i * REGION_BYTES);
	rig_janitor(rig, 1000 * SEC);
	hotness_set_memory_max(rig->hotness, 1 * MIB);
	rig_janitor(rig, 1000 * SEC);
	CU_ASSERT(rig_usage(rig).bytes <= MIB);
	rcu_enter();
	CU_ASSERT(owners_at(rig->owners, small)->evicted > 0);
	/* ... each about the same. */
	CU_ASSERT(owners_at(rig->owners, small)->bytes < 2 * owners_at(rig->owners, large)->bytes);
	CU_ASSERT(owners_at(rig->owners, large)->bytes < 2 * owners_at(rig->owners, small)->bytes);
	rcu_leave();
	rig_free(rig);
}

static void the_bound_can_be_lowered(void)
{
	struct rig *rig = rig_new(NULL, false);

	for (uint64_t i = 0; i < 30000; i++)
		rig_access(rig, 100, RIG_ADDR + i * REGION_BYTES, rig_phys(1, 0) + i * REGION_BYTES);
	rig_janitor(rig, 1000 * SEC);
	CU_ASSERT_EQUAL(rig_usage(rig).regions, 30000);
	hotness_set_memory_max(rig->hotness, 2 * MIB);
	CU_ASSERT_EQUAL(rig_usage(rig).memory_max_bytes, 2 * MIB);
	rig_janitor(rig, 1000 * SEC);
	CU_ASSERT(rig_usage(rig).bytes <= 2 * MIB * 15 / 16);
	CU_ASSERT(rig_usage(rig).regions > 5000);
	/* Below what the tables take when they are empty: all goes, and nothing breaks. */
	hotness_set_memory_max(rig->hotness, 1000);
	rig_janitor(rig, 1000 * SEC);
	CU_ASSERT_EQUAL(rig_usage(rig).regions, 0);
	CU_ASSERT_EQUAL(rig_access(rig, 100, RIG_ADDR, rig_phys(1, 0)), HOTNESS_NO_MEMORY);
	hotness_set_memory_max(rig->hotness, 2 * MIB);
	CU_ASSERT_EQUAL(rig_access(rig, 100, RIG_ADDR, rig_phys(1, 0)), HOTNESS_RECORDED);
	rig_free(rig);
}

/* More regions than a shard has slots for: as at the memory bound. */
static void slots_run_out(void)
{
	struct hotness_options options = rig_options;
	const uint64_t slots = (1U << 17) - 64;
	struct rig *rig;
	uint64_t regions;

	options.shards = 64;
	rig = rig_new(&options, false);
	for (uint64_t i = 0; i < slots; i++) {
		if (rig_access(rig, 100, RIG_ADDR + i * REGION_BYTES, rig_phys(0, 0)) != HOTNESS_FAST) {
			CU_ASSERT_EQUAL(i, slots);
			break;
		}
		rig->now_ns += 100 * NSEC_PER_USEC;
	}
	CU_ASSERT_EQUAL(rig_usage(rig).regions, slots);
	for (uint64_t i = 0; i < 10; i++)
		CU_ASSERT_EQUAL(rig_access(rig, 101, RIG_ADDR + i * REGION_BYTES, rig_phys(0, 0)), HOTNESS_NO_MEMORY);
	CU_ASSERT_EQUAL(rig_access(rig, 100, RIG_ADDR, rig_phys(0, 0)), HOTNESS_FAST);
	rig_janitor(rig, 1000 * SEC);
	regions = rig_usage(rig).regions;
	CU_ASSERT(regions < slots && regions > slots * 9 / 10);
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_EVICTED_REGIONS), slots - regions);
	for (uint64_t i = 0; i < slots - regions; i++)
		if (rig_access(rig, 101, RIG_ADDR + i * REGION_BYTES, rig_phys(0, 0)) != HOTNESS_FAST) {
			CU_ASSERT_EQUAL(i, slots - regions);
			break;
		}
	CU_ASSERT_EQUAL(rig_access(rig, 102, RIG_ADDR, rig_phys(0, 0)), HOTNESS_NO_MEMORY);
	rig_free(rig);
}

static void a_failed_start_leaves_nothing(void)
{
	struct rig_memory memory;
	struct tablemem_ops ops = rig_memory_ops(&memory);
	struct hotness_options options = rig_options;
	struct rig *rig = rig_new(NULL, false);
	struct hotness *hotness = NULL;
	int64_t n = 0;

	options.shards = 5;
	options.memory = &ops;
	for (; !hotness && n < 1000; n++) {
		memory.fail_after = n;
		errno = 0;
		hotness = hotness_new(&options, rig->owners);
		if (!hotness) {
			CU_ASSERT_EQUAL(errno, ENOMEM);
			CU_ASSERT_EQUAL(memory.bytes, 0);
		}
	}
	CU_ASSERT(n > 25); /* there are so many points where it can fail */
	hotness_free(hotness);
	CU_ASSERT_EQUAL(memory.bytes, 0);
	/* The least that may be configured is enough to begin with. */
	memory.fail_after = -1;
	options.shards = 64;
	options.memory_max_bytes = 1 << 20;
	hotness = hotness_new(&options, rig->owners);
	CU_ASSERT_PTR_NOT_NULL(hotness);
	hotness_free(hotness);
	CU_ASSERT_EQUAL(memory.bytes, 0);
	rig_free(rig);
}

/* All that takes memory: tables, sections, chunks of each size, bitmaps, and what the janitor makes. */
static unsigned int use_everything(struct rig *rig, bool check)
{
	unsigned int refused = 0;
	uint32_t flags = rig->flags;

	for (uint64_t i = 0; i < 230; i++)
		refused +=
			rig_access(rig, 100, RIG_ADDR + i * REGION_BYTES, rig_phys(2, i * 70000)) == HOTNESS_NO_MEMORY;
	for (uint64_t page = 0; page < 240; page++)
		refused +=
			rig_access(rig, 101, RIG_ADDR + page * PAGE_SIZE_BYTES, rig_phys(1, page)) == HOTNESS_NO_MEMORY;
	rig->flags = SAMPLE_MAYBE_FIRST_TOUCH;
	for (uint64_t page = 0; page < 20; page++)
		refused += rig_access(rig, 102, RIG_ADDR + page * PAGE_SIZE_BYTES, rig_phys(1, 5000 + page)) ==
			   HOTNESS_NO_MEMORY;
	rig->flags = flags;
	rig_janitor(rig, 1000 * SEC);
	rig_scan(rig, &scan, 1, HOTNESS_TAKE);
	if (check)
		CU_ASSERT_EQUAL(scan.n, 240);
	/* Chunks shrink, and what is put back makes them again. */
	rig_janitor(rig, 1000 * SEC);
	for (size_t i = 0; i < scan.n && i < 200; i++)
		refused += !hotness_put_back(rig->hotness, &scan.shown[i]);
	rig_scan(rig, &scan, 1, HOTNESS_DROP);
	if (check)
		CU_ASSERT_EQUAL(scan.n, 200);
	return refused;
}

static void every_allocation_may_fail(void)
{
	struct rig_memory memory;
	struct tablemem_ops ops = rig_memory_ops(&memory);
	struct hotness_options options = rig_options;
	struct rig *rig = rig_new(NULL, true);
	struct hotness *own = rig->hotness;
	uint64_t points, silent = 0;

	rig->rule.freq_threshold = 1;
	options.memory = &ops;
	rig->hotness = hotness_new(&options, rig->owners);
	memory.calls = 0;
	CU_ASSERT_EQUAL(use_everything(rig, true), 0);
	points = memory.calls;
	hotness_free(rig->hotness);
	CU_ASSERT_EQUAL(memory.bytes, 0);
	CU_ASSERT(points > 300);
	for (int once = 0; once <= 1; once++) {
		for (uint64_t n = 0; n < points; n += stride()) {
			unsigned int refused;

			memory.fail_after = -1;
			rig->hotness = hotness_new(&options, rig->owners);
			memory.once = once;
			memory.fail_after = (int64_t)n;
			refused = use_everything(rig, false);
			/* A smaller chunk, or a larger hash, can be done without. */
			silent += refused == 0;
			/* With memory, all is as if nothing had been. */
			memory.fail_after = -1;
			rig->now_ns += 2000 * SEC;
			rig_janitor(rig, 1000 * SEC);
			if (use_everything(rig, true) != 0) {
				printf("  after allocation %llu failed\n", (unsigned long long)n);
				CU_FAIL("lost");
			}
			rig->now_ns += 2000 * SEC;
			rig_janitor(rig, 1000 * SEC);
			CU_ASSERT_EQUAL(rig_usage(rig).regions + rig_usage(rig).records + rig_usage(rig).chunks, 0);
			hotness_free(rig->hotness);
			CU_ASSERT_EQUAL(memory.bytes, 0);
		}
	}
	CU_ASSERT(stride() > 1 || (silent > 0 && silent < 20));
	rig->hotness = own;
	rig_free(rig);
}

TEST_MAIN(hotness_memory, TEST(sparse_pages_take_little), TEST(dense_pages_take_little),
	  TEST(growing_chunks_keep_their_size), TEST(chunks_shrink), TEST(the_coldest_go_first),
	  TEST(no_program_pushes_out_another), TEST(the_bound_can_be_lowered), TEST(slots_run_out),
	  TEST(a_failed_start_leaves_nothing), TEST(every_allocation_may_fail))
