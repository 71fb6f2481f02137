/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>

#include "evidence.h"
#include "harness.h"
#include "hotness_regions.h"
#include "hotness_rig.h"

static struct rig_scan scan;

static void refuses_absurd_options(void)
{
	struct rig *rig = rig_new(NULL, false);
	struct hotness_options bad[] = { rig_options, rig_options, rig_options, rig_options, rig_options,
					 rig_options, rig_options, rig_options, rig_options };

	bad[0].layout = 2;
	bad[1].shards = 0;
	bad[2].shards = 65;
	bad[3].memory_max_bytes = HOTNESS_MEMORY_MIN_BYTES - 1;
	bad[4].memory_max_bytes = 0;
	bad[5].section_bytes = 1ULL << 20;
	bad[6].section_bytes = 1ULL << 37;
	bad[7].section_bytes = (128ULL << 20) + 4096;
	bad[8].section_bytes = 0;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		errno = 0;
		CU_ASSERT_PTR_NULL(hotness_new(&bad[i], rig->owners));
		CU_ASSERT_EQUAL(errno, EINVAL);
	}
	errno = 0;
	CU_ASSERT_PTR_NULL(hotness_new(&rig_options, NULL));
	CU_ASSERT_EQUAL(errno, EINVAL);
	hotness_free(NULL);
	rig_free(rig);
}

/* With all sections sizes and numbers of shards that there may be. */
static void every_size_works(void)
{
	for (uint64_t bytes = REGION_BYTES; bytes <= 64ULL << 30; bytes *= 2) {
		struct hotness_options options = rig_options;
		struct rig *rig;
		uint64_t last = (1ULL << 46) - PAGE_SIZE_BYTES;

		options.section_bytes = bytes;
		options.shards = bytes == REGION_BYTES ? 64 : 1;
		rig = rig_new(&options, false);
		CU_ASSERT_EQUAL(rig_access(rig, 100, RIG_ADDR, last), HOTNESS_RECORDED);
		CU_ASSERT_EQUAL(rig_access(rig, 100, RIG_ADDR, last), HOTNESS_READY);
		CU_ASSERT_EQUAL(rig_access_on(rig, 101, RIG_ADDR, PAGE_SIZE_BYTES, options.shards - 1), HOTNESS_FAST);
		CU_ASSERT_EQUAL(rig_access(rig, 101, RIG_ADDR, rig_phys(1, 0)), HOTNESS_RECORDED);
		CU_ASSERT_EQUAL(rig_freq(rig, last), 2);
		rig_free(rig);
	}
}

static void shards_are_even(void)
{
	size_t n[7] = { 0 };

	for (uint32_t pid = 1000; pid < 1010; pid++) {
		for (uint64_t region = 0; region < 7000; region++) {
			uint64_t addr = RIG_ADDR + region * REGION_BYTES;
			unsigned int shard = hotness_shard(pid, addr, 7);

			CU_ASSERT_EQUAL(hotness_shard(pid, addr + REGION_BYTES - 1, 7), shard);
			if (shard < 7)
				n[shard]++;
		}
	}
	for (int i = 0; i < 7; i++)
		CU_ASSERT(n[i] > 9700 && n[i] < 10300);
	CU_ASSERT_EQUAL(hotness_shard(1, RIG_ADDR, 1), 0);
}

static void first_sighting_is_no_evidence(void)
{
	struct rig *rig = rig_new(NULL, false);
	struct hotness_region region;

	rig->flags = SAMPLE_MAYBE_FIRST_TOUCH;
	/* All pages of a region, in a row: the inline ones, and the bitmap after them. */
	for (uint64_t i = 0; i < REGION_PAGES; i++) {
		uint64_t at = i * 37 % REGION_PAGES;

		CU_ASSERT_EQUAL(rig_access(rig, 100, RIG_ADDR + at * PAGE_SIZE_BYTES, rig_phys(1, at)),
				HOTNESS_FIRST_SIGHTING);
		CU_ASSERT_EQUAL(rig_freq(rig, rig_phys(1, at)), 0);
	}
	rcu_enter();
	CU_ASSERT(hotness_find_region(rig->hotness, 100, 0, RIG_ADDR, rig->now_ns, &region));
	rcu_leave();
	CU_ASSERT_EQUAL(region.pages, 512);
	CU_ASSERT_EQUAL(region.counts[0], 0);
	for (uint64_t i = 0; i < REGION_PAGES; i++)
		CU_ASSERT_EQUAL(rig_access(rig, 100, RIG_ADDR + i * PAGE_SIZE_BYTES, rig_phys(1, i)), HOTNESS_RECORDED);
	/* Another process's sight is its own. */
	CU_ASSERT_EQUAL(rig_access(rig, 101, RIG_ADDR, rig_phys(1, 0)), HOTNESS_FIRST_SIGHTING);
	/* A source that can tell says so. */
	rig->flags = SAMPLE_LOAD;
	CU_ASSERT_EQUAL(rig_access(rig, 102, RIG_ADDR, rig_phys(1, 600)), HOTNESS_RECORDED);
	/* A page of the fast tier as well. */
	rig->flags = SAMPLE_MAYBE_FIRST_TOUCH;
	CU_ASSERT_EQUAL(rig_access(rig, 102, RIG_ADDR + REGION_BYTES, rig_phys(0, 7)), HOTNESS_FIRST_SIGHTING);
	CU_ASSERT_EQUAL(rig_access(rig, 102, RIG_ADDR + REGION_BYTES, rig_phys(0, 7)), HOTNESS_FAST);
	rig_free(rig);
}

/* What was seen stays so while the region lives, also when the record is gone. */
static void seen_outlives_the_record(void)
{
	struct rig *rig = rig_new(NULL, true);

	rig->flags = SAMPLE_MAYBE_FIRST_TOUCH;
	rig->rule.freq_threshold = 1;
	CU_ASSERT_EQUAL(rig_access(rig, 100, RIG_ADDR, rig_phys(1, 3)), HOTNESS_FIRST_SIGHTING);
	CU_ASSERT_EQUAL(rig_access(rig, 100, RIG_ADDR, rig_phys(1, 3)), HOTNESS_READY);
	CU_ASSERT_EQUAL(rig_scan(rig, &scan, 1, HOTNESS_TAKE), 1);
	CU_ASSERT_EQUAL(rig_freq(rig, rig_phys(1, 3)), 0);
	/* Moved, to another page frame. */
	CU_ASSERT_EQUAL(rig_access(rig, 100, RIG_ADDR, rig_phys(0, 9)), HOTNESS_FAST);
	CU_ASSERT_EQUAL(rig_access(rig, 100, RIG_ADDR, rig_phys(1, 4)), HOTNESS_READY);
	for (int i = 0; i < 30; i++) {
		rig->now_ns += SEC;
		rig_janitor(rig, 100 * SEC);
	}
	CU_ASSERT_EQUAL(rig_usage(rig).records, 0);
	CU_ASSERT_EQUAL(rig_access(rig, 100, RIG_ADDR, rig_phys(1, 4)), HOTNESS_READY);
	rig_free(rig);
}

static void no_target_no_record(void)
{
	struct rig *rig = rig_new(NULL, false);
	struct sample sample = { .time_ns = rig->now_ns, .addr = RIG_ADDR, .phys = rig_phys(1, 0), .pid = 100 };
	uint32_t slot = rig_owner(rig, 100);

	rcu_enter();
	for (int i = 0; i < 3; i++)
		CU_ASSERT_EQUAL(hotness_access(rig->hotness, 0, &rig->rule, &sample, slot, true, -1), HOTNESS_FAST);
	CU_ASSERT_EQUAL(rig_usage(rig).records, 0);
	CU_ASSERT_EQUAL(hotness_access(rig->hotness, 0, &rig->rule, &sample, slot, true, 1), HOTNESS_RECORDED);
	rcu_leave();
	CU_ASSERT_EQUAL(rig_usage(rig).records, 1);
	rig_free(rig);
}

static void a_region_counts_by_epoch(void)
{
	struct rig *rig = rig_new(NULL, false);
	struct hotness_region r;

	for (int i = 0; i < 5; i++)
		rig_access(rig, 100, RIG_ADDR, rig_phys(0, 0));
	rig->now_ns += SEC;
	for (int i = 0; i < 3; i++)
		rig_access(rig, 100, RIG_ADDR + PAGE_SIZE_BYTES, rig_phys(2, 1));
	/* A late one belongs to its own second. */
	rig->now_ns -= SEC;
	rig_access(rig, 100, RIG_ADDR, rig_phys(0, 0));
	rig->now_ns += 2 * SEC;
	rcu_enter();
	CU_ASSERT(hotness_find_region(rig->hotness, 100, 0, RIG_ADDR + 5, rig->now_ns, &r));
	CU_ASSERT_EQUAL(r.counts[0], 0);
	CU_ASSERT_EQUAL(r.counts[1], 3);
	CU_ASSERT_EQUAL(r.counts[2], 6);
	CU_ASSERT_EQUAL(r.pages, 2);
	CU_ASSERT_EQUAL(r.nodes, 1 | 1 << 2);
	CU_ASSERT_EQUAL(r.page_bytes, 4096);
	CU_ASSERT(r.idle_ns > SEC - 40000000 && r.idle_ns <= SEC + 40000000);
	CU_ASSERT(!hotness_find_region(rig->hotness, 100, 0, RIG_ADDR + REGION_BYTES, rig->now_ns, &r));
	CU_ASSERT(!hotness_find_region(rig->hotness, 101, 1, RIG_ADDR, rig->now_ns, &r));
	CU_ASSERT(!hotness_find_region(rig->hotness, 100, 0, UINT64_MAX, rig->now_ns, &r));
	rcu_leave();
	/* 65536 seconds later, the epoch looks the same. */
	rig->now_ns += 65534 * SEC;
	rcu_enter();
	CU_ASSERT(hotness_find_region(rig->hotness, 100, 0, RIG_ADDR, rig->now_ns, &r));
	CU_ASSERT_EQUAL(r.counts[0] + r.counts[1] + r.counts[2], 0);
	rcu_leave();
	for (int i = 0; i < 70000; i++)
		rig_access(rig, 100, RIG_ADDR, rig_phys(0, 0));
	rcu_enter();
	CU_ASSERT(hotness_find_region(rig->hotness, 100, 0, RIG_ADDR, rig->now_ns, &r));
	CU_ASSERT_EQUAL(r.counts[0], 65535);
	CU_ASSERT_EQUAL(r.counts[1], 0);
	rcu_leave();
	rig_free(rig);
}

static void huge_pages_are_one_entry(void)
{
	struct rig *rig = rig_new(NULL, true);
	struct hotness_region r;

	rig->page_shift = 21;
	rig->flags = SAMPLE_MAYBE_FIRST_TOUCH;
	CU_ASSERT_EQUAL(rig_access(rig, 100, RIG_ADDR + 5 * PAGE_SIZE_BYTES, rig_phys(1, 512 + 5)),
			HOTNESS_FIRST_SIGHTING);
	CU_ASSERT_EQUAL(rig_access(rig, 100, RIG_ADDR + 9 * PAGE_SIZE_BYTES, rig_phys(1, 512 + 9)), HOTNESS_RECORDED);
	CU_ASSERT_EQUAL(rig_access(rig, 100, RIG_ADDR + REGION_BYTES - 1, rig_phys(1, 512 + 511)), HOTNESS_READY);
	rcu_enter();
	CU_ASSERT(hotness_find_region(rig->hotness, 100, 0, RIG_ADDR, rig->now_ns, &r));
	rcu_leave();
	CU_ASSERT_EQUAL(r.pages, 1);
	CU_ASSERT_EQUAL(r.page_bytes, 2 * MIB);
	CU_ASSERT_EQUAL(rig_usage(rig).records, 1);
	CU_ASSERT_EQUAL(rig_scan(rig, &scan, 1, HOTNESS_KEEP), 1);
	CU_ASSERT_EQUAL(scan.shown[0].addr, RIG_ADDR);
	CU_ASSERT_EQUAL(scan.shown[0].page_bytes, 2 * MIB);
	CU_ASSERT_EQUAL(scan.shown[0].pfn, rig_phys(1, 512) >> PAGE_SHIFT);
	/* Split: a record made by the huge page is now one of its first page; others are their own. */
	rig->page_shift = 12;
	rig->flags = 0;
	for (int k = 0; k < 2; k++)
		rig_access(rig, 100, RIG_ADDR + 9 * PAGE_SIZE_BYTES, rig_phys(1, 512 + 9));
	CU_ASSERT_EQUAL(rig_scan(rig, &scan, 1, HOTNESS_KEEP), 2);
	CU_ASSERT_EQUAL(scan.shown[0].page_bytes, 4096);
	CU_ASSERT_EQUAL(scan.shown[1].page_bytes, 4096);
	/* Made huge again, elsewhere: what is left of the small pages is not shown as huge. */
	rig->page_shift = 21;
	for (int k = 0; k < 2; k++)
		rig_access(rig, 100, RIG_ADDR, rig_phys(1, 2048));
	CU_ASSERT_EQUAL(rig_scan(rig, &scan, 1, HOTNESS_TAKE), 3);
	for (size_t i = 0; i < scan.n; i++)
		CU_ASSERT_EQUAL(scan.shown[i].page_bytes, scan.shown[i].pfn % 512 == 0 ? 2 * MIB : 4096);
	rig_free(rig);
}

/* 1 GiB: each 2 MiB has its own heat, and says what it is part of. */
static void giant_pages_are_tracked_by_parts(void)
{
	struct rig *rig = rig_new(NULL, true);
	uint64_t at = 7 * REGION_BYTES;

	rig->page_shift = 30;
	for (int k = 0; k < 2; k++)
		rig_access(rig, 100, RIG_ADDR + at + 4096, rig_phys(1, 0) + at + 4096);
	rig_access(rig, 100, RIG_ADDR, rig_phys(1, 0));
	CU_ASSERT_EQUAL(rig_scan(rig, &scan, 1, HOTNESS_TAKE), 1);
	CU_ASSERT_EQUAL(scan.shown[0].addr, RIG_ADDR + at);
	CU_ASSERT_EQUAL(scan.shown[0].pfn, (rig_phys(1, 0) + at) >> PAGE_SHIFT);
	CU_ASSERT_EQUAL(scan.shown[0].page_bytes, 1ULL << 30);
	CU_ASSERT(hotness_put_back(rig->hotness, &scan.shown[0]));
	CU_ASSERT_EQUAL(rig_scan(rig, &scan, 1, HOTNESS_TAKE), 1);
	rig_free(rig);
}

static void a_shared_page_has_one_region(void)
{
	struct rig *rig = rig_new(NULL, true);
	struct hotness_candidate c;
	uint64_t phys = rig_phys(1, 9), other = RIG_ADDR + 100 * REGION_BYTES;

	rig_access(rig, 100, RIG_ADDR, phys);
	CU_ASSERT_EQUAL(rig_access(rig, 101, other, phys), HOTNESS_READY); /* both heat it */
	CU_ASSERT(rig_record(rig, phys, &c));
	CU_ASSERT_EQUAL(c.pid, 100);
	CU_ASSERT_EQUAL(c.addr, RIG_ADDR);
	CU_ASSERT_EQUAL(rig_usage(rig).regions, 2);
	/* The first one's region goes cold and its record with it; the page is the other's now. */
	for (int i = 0; i < 10; i++) {
		rig->now_ns += SEC;
		rig_access(rig, 101, other, phys);
	}
	CU_ASSERT(rig_record(rig, phys, &c));
	CU_ASSERT_EQUAL(c.pid, 100);
	rig_janitor(rig, 5 * SEC);
	CU_ASSERT_EQUAL(rig_usage(rig).regions, 1);
	CU_ASSERT(!rig_record(rig, phys, &c));
	rig_access(rig, 101, other, phys);
	CU_ASSERT(rig_record(rig, phys, &c));
	CU_ASSERT_EQUAL(c.pid, 101);
	CU_ASSERT_EQUAL(c.addr, other);
	/* The owner is gone: the next sample takes the page over, at once and with its heat. */
	rig_access(rig, 101, other, phys);
	rig_access(rig, 102, RIG_ADDR, phys);
	owners_mark_gone(rig->owners, c.owner_slot);
	CU_ASSERT(!rig_record(rig, phys, &c));
	CU_ASSERT_EQUAL(rig_access(rig, 102, RIG_ADDR, phys), HOTNESS_RECORDED);
	CU_ASSERT(rig_record(rig, phys, &c));
	CU_ASSERT_EQUAL(c.pid, 102);
	CU_ASSERT_EQUAL(record_freq(RECORD_PRECISE, c.record), 4);
	CU_ASSERT_EQUAL(rig_scan(rig, &scan, 1, HOTNESS_TAKE), 1);
	rig_free(rig);
}

static void one_page_at_three_addresses(void)
{
	struct rig *rig = rig_new(NULL, true);

	rig->flags = SAMPLE_MAYBE_FIRST_TOUCH;
	for (uint64_t i = 0; i < 3; i++)
		CU_ASSERT_EQUAL(rig_access(rig, 100, RIG_ADDR + i * 3 * REGION_BYTES, rig_phys(1, 5)),
				HOTNESS_FIRST_SIGHTING);
	CU_ASSERT_EQUAL(rig_access(rig, 100, RIG_ADDR + 3 * REGION_BYTES, rig_phys(1, 5)), HOTNESS_RECORDED);
	CU_ASSERT_EQUAL(rig_access(rig, 100, RIG_ADDR, rig_phys(1, 5)), HOTNESS_READY);
	CU_ASSERT_EQUAL(rig_access(rig, 100, RIG_ADDR + 6 * REGION_BYTES, rig_phys(1, 5)), HOTNESS_RECORDED);
	CU_ASSERT_EQUAL(rig_scan(rig, &scan, 1, HOTNESS_TAKE), 1);
	CU_ASSERT_EQUAL(scan.shown[0].addr, RIG_ADDR + 3 * REGION_BYTES); /* whoever made the record */
	CU_ASSERT_EQUAL(record_freq(RECORD_PRECISE, scan.shown[0].record), 3);
	rig_free(rig);
}

/* The same address on another page: both records name it, until the old one ages. */
static void an_address_is_mapped_anew(void)
{
	struct rig *rig = rig_new(NULL, true);

	for (int k = 0; k < 2; k++)
		rig_access(rig, 100, RIG_ADDR, rig_phys(1, 5));
	for (int k = 0; k < 2; k++)
		rig_access(rig, 100, RIG_ADDR, rig_phys(1, 6));
	CU_ASSERT_EQUAL(rig_scan(rig, &scan, 1, HOTNESS_KEEP), 2);
	CU_ASSERT_EQUAL(scan.shown[0].addr, scan.shown[1].addr);
	for (int i = 0; i < 30; i++) {
		rig->now_ns += SEC;
		rig_access(rig, 100, RIG_ADDR, rig_phys(1, 6));
		rig_janitor(rig, 100 * SEC);
	}
	CU_ASSERT_EQUAL(rig_scan(rig, &scan, 1, HOTNESS_KEEP), 1);
	CU_ASSERT_EQUAL(scan.shown[0].pfn, rig_phys(1, 6) >> PAGE_SHIFT);
	rig_free(rig);
}

static void a_pid_is_reused(void)
{
	struct rig *rig = rig_new(NULL, true);
	struct hotness_candidate c;

	for (int k = 0; k < 2; k++)
		rig_access(rig, 100, RIG_ADDR, rig_phys(1, 5));
	rig_put_process(rig, 100, "dog", 'S', 0, 77777);
	CU_ASSERT_EQUAL(owners_sweep(rig->owners, 10), 1);
	CU_ASSERT_EQUAL(rig_scan(rig, &scan, 1, HOTNESS_TAKE), 0);
	CU_ASSERT_EQUAL(scan.result.stale, 1);
	CU_ASSERT_EQUAL(rig_usage(rig).records, 0);
	rig->flags = SAMPLE_MAYBE_FIRST_TOUCH;
	CU_ASSERT_EQUAL(rig_access(rig, 100, RIG_ADDR, rig_phys(1, 5)), HOTNESS_FIRST_SIGHTING); /* it never saw it */
	CU_ASSERT_EQUAL(rig_access(rig, 100, RIG_ADDR, rig_phys(1, 5)), HOTNESS_RECORDED);
	CU_ASSERT(rig_record(rig, rig_phys(1, 5), &c));
	CU_ASSERT_EQUAL(c.start_ticks, 77777);
	CU_ASSERT_EQUAL(rig_usage(rig).regions, 2);
	CU_ASSERT_EQUAL(owners_reap(rig->owners), 0); /* has a region yet */
	rig_janitor(rig, 100 * SEC);
	CU_ASSERT_EQUAL(rig_usage(rig).regions, 1);
	CU_ASSERT_EQUAL(rig_usage(rig).records, 1);
	CU_ASSERT_EQUAL(owners_reap(rig->owners), 1);
	CU_ASSERT_EQUAL(owners_count(rig->owners), 1);
	rig_free(rig);
}

static void bad_places(void)
{
	struct rig *rig = rig_new(NULL, true);
	struct hotness_candidate c;

	CU_ASSERT_EQUAL(rig_access(rig, 100, RIG_ADDR, 1ULL << 46), HOTNESS_NO_MEMORY);
	CU_ASSERT_EQUAL(rig_access(rig, 100, RIG_ADDR, UINT64_MAX), HOTNESS_NO_MEMORY);
	CU_ASSERT_EQUAL(rig_access(rig, 100, 1ULL << 57, rig_phys(1, 0)), HOTNESS_NO_MEMORY);
	CU_ASSERT_EQUAL(rig_access(rig, 100, UINT64_MAX, rig_phys(1, 0)), HOTNESS_NO_MEMORY);
	CU_ASSERT_EQUAL(rig_usage(rig).regions, 0);
	CU_ASSERT(!rig_record(rig, 1ULL << 46, &c));
	CU_ASSERT(!rig_record(rig, UINT64_MAX, &c));
	CU_ASSERT(!rig_record(rig, rig_phys(1, 0), &c));
	/* Page frame 0 and the last address are as good as any here; what is nonsense is for the collector to say. */
	CU_ASSERT_EQUAL(rig_access(rig, 100, (1ULL << 57) - 1, 0), HOTNESS_FAST);
	CU_ASSERT_EQUAL(rig_access(rig, 100, 0, rig_phys(1, 0)), HOTNESS_RECORDED);
	/* Nodes that aren't there. */
	scan.verdict = HOTNESS_TAKE;
	rig_scan_part(rig, &scan, -1, 0, 1, false);
	rig_scan_part(rig, &scan, 1023, 0, 1, false);
	rig_scan_part(rig, &scan, 1024, 0, 1, false);
	CU_ASSERT_EQUAL(scan.result.sections, 0);
	rig_free(rig);
}

/* pages_seen, far_samples, far_novel */
static bool told(const struct rig *rig, uint64_t pages, uint64_t samples, uint64_t novel)
{
	struct hotness_usage usage = rig_usage(rig);

	return usage.pages_seen == pages && usage.far_samples == samples && usage.far_novel == novel;
}

/* What the pace of sampling and the share of known accesses are made of: it must end where all is decided. */
static void what_is_decided_tells_nothing_new(void)
{
	struct rig *rig = rig_new(NULL, false);
	struct hotness_view view;
	uint32_t owner;

	hotness_set_by_region(rig->hotness, true);
	rig_access(rig, 100, RIG_ADDR, rig_phys(1, 0));
	CU_ASSERT(told(rig, 1, 1, 1));
	rig_access(rig, 100, RIG_ADDR, rig_phys(1, 0));
	CU_ASSERT(told(rig, 1, 2, 1));
	rig_access(rig, 100, RIG_ADDR + PAGE_SIZE_BYTES, rig_phys(1, 1));
	CU_ASSERT(told(rig, 2, 3, 1));
	/* Near memory is where it should be. */
	rig_access(rig, 100, RIG_ADDR + 2 * PAGE_SIZE_BYTES, rig_phys(0, 2));
	rig_access(rig, 100, RIG_ADDR + 16 * REGION_BYTES, rig_phys(0, 600));
	CU_ASSERT(told(rig, 2, 3, 1));
	owner = rig_owner(rig, 100);
	rcu_enter();
	CU_ASSERT(hotness_find_view(rig->hotness, 100, owner, RIG_ADDR, rig->now_ns, &view));
	CU_ASSERT(hotness_decide(rig->hotness, view.slot, view.decision,
				 REGION_DECISION(REGION_DECISION_PAGES, 0, REGION_PAGES / REGION_BLOCK_PAGES - 1, 0)));
	rcu_leave();
	/* Page by page each sighting is one more to move. */
	rig_access(rig, 100, RIG_ADDR + 3 * PAGE_SIZE_BYTES, rig_phys(1, 3));
	CU_ASSERT(told(rig, 3, 4, 1));
	rcu_enter();
	CU_ASSERT(hotness_find_view(rig->hotness, 100, owner, RIG_ADDR, rig->now_ns, &view));
	CU_ASSERT(hotness_decide(rig->hotness, view.slot, view.decision,
				 REGION_DECISION(REGION_DECISION_WHOLE, 0, REGION_PAGES / REGION_BLOCK_PAGES - 1, 0)));
	rcu_leave();
	rig_access(rig, 100, RIG_ADDR + 4 * PAGE_SIZE_BYTES, rig_phys(1, 4));
	CU_ASSERT(told(rig, 3, 5, 1));
	/* Other memory is new again. */
	rig_access(rig, 100, RIG_ADDR + REGION_BYTES, rig_phys(1, 512));
	CU_ASSERT(told(rig, 4, 6, 2));
	rig_free(rig);
}

TEST_MAIN(hotness, TEST(refuses_absurd_options), TEST(every_size_works), TEST(shards_are_even),
	  TEST(first_sighting_is_no_evidence), TEST(seen_outlives_the_record), TEST(no_target_no_record),
	  TEST(a_region_counts_by_epoch), TEST(huge_pages_are_one_entry), TEST(giant_pages_are_tracked_by_parts),
	  TEST(a_shared_page_has_one_region), TEST(one_page_at_three_addresses), TEST(an_address_is_mapped_anew),
	  TEST(a_pid_is_reused), TEST(bad_places), TEST(what_is_decided_tells_nothing_new))
