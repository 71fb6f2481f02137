/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "harness.h"
#include "hotmap.h"
#include "hotness_rig.h"

static struct rig_scan scan;

static struct rig *new_rig(enum record_layout layout, uint32_t window_ms, bool with_nodes)
{
	struct hotness_options options = rig_options;
	struct rig *rig;

	options.layout = layout;
	rig = rig_new(&options, with_nodes);
	rig->rule.window_ms = window_ms;
	return rig;
}

/*
 * A record made at any phase of the time field, with a janitor at any interval that is allowed: at any age, an access
 * within the window adds up, one outside starts anew, and so for every layout's default and largest window. The section
 * is kept busy by another page, so that only the record itself can tell.
 */
static void age_is_never_forgotten(enum record_layout layout, uint32_t window_ms, uint64_t interval_ms)
{
	const uint32_t range_ms = record_range_ms(layout);
	const uint32_t grain_ms = layout == RECORD_COMPACT ? 128 : 1;
	struct rig *rig = new_rig(layout, window_ms, false);
	unsigned int wrong = 0, in = 0, out = 0;
	uint64_t page = 0;

	for (uint64_t age_ms = 250; age_ms < 3 * range_ms; age_ms += range_ms / 16 + 7) {
		uint64_t made_ns, next_ns;
		unsigned int freq;

		/* Off the janitor's beat, by a different part of the interval each time. */
		rig->now_ns += 37 * NSEC_PER_MSEC;
		page++;
		rig_access(rig, 100, RIG_ADDR + page * PAGE_SIZE_BYTES, rig_phys(1, page));
		made_ns = rig->now_ns;
		next_ns = made_ns + (age_ms * 7 % interval_ms) * NSEC_PER_MSEC;
		while (next_ns < made_ns + age_ms * NSEC_PER_MSEC) {
			rig->now_ns = next_ns;
			rig_access(rig, 100, RIG_ADDR, rig_phys(1, 0));
			rig_janitor(rig, 1000 * SEC);
			next_ns += interval_ms * NSEC_PER_MSEC;
		}
		rig->now_ns = made_ns + age_ms * NSEC_PER_MSEC;
		rig_access(rig, 100, RIG_ADDR + page * PAGE_SIZE_BYTES, rig_phys(1, page));
		freq = rig_freq(rig, rig_phys(1, page));
		in += freq == 2;
		out += freq == 1;
		if (age_ms + grain_ms <= window_ms)
			wrong += freq != 2;
		else if (age_ms > window_ms + grain_ms)
			wrong += freq != 1;
		else
			wrong += freq != 1 && freq != 2;
	}
	CU_ASSERT_EQUAL(wrong, 0);
	CU_ASSERT(in > 3 && out > 3);
	if (wrong)
		printf("  layout %d, window %u, janitor each %llu ms: %u wrong\n", layout, window_ms,
		       (unsigned long long)interval_ms, wrong);
	rig_free(rig);
}

static void old_never_looks_fresh(void)
{
	static const uint64_t intervals_ms[] = { 333, 1000, 1024, 1500 };

	for (size_t i = 0; i < sizeof(intervals_ms) / sizeof(intervals_ms[0]); i++) {
		age_is_never_forgotten(RECORD_PRECISE, 5000, intervals_ms[i]);
		age_is_never_forgotten(RECORD_PRECISE, 16383, intervals_ms[i]);
		age_is_never_forgotten(RECORD_COMPACT, 3000, intervals_ms[i]);
		age_is_never_forgotten(RECORD_COMPACT, 3968, intervals_ms[i]);
	}
	age_is_never_forgotten(RECORD_PRECISE, 16383, hotmap_sweep_max_ns(RECORD_PRECISE) / NSEC_PER_MSEC);
	age_is_never_forgotten(RECORD_COMPACT, 3968, hotmap_sweep_max_ns(RECORD_COMPACT) / NSEC_PER_MSEC);
	CU_ASSERT(hotmap_sweep_max_ns(RECORD_PRECISE) > 7 * SEC);
	CU_ASSERT(hotmap_sweep_max_ns(RECORD_COMPACT) > SEC + SEC / 2);
}

/* A ready record that nobody touches: a scan at any time shows it with its true age, or not at all. */
static void a_scan_never_shows_a_wrapped_record(void)
{
	for (int layout = RECORD_PRECISE; layout <= RECORD_COMPACT; layout++) {
		const uint32_t range_ms = record_range_ms(layout);
		struct rig *rig = new_rig(layout, 1000, true);
		uint64_t made_ns = rig->now_ns, janitor_ns = made_ns + 600 * NSEC_PER_MSEC;
		unsigned int shown = 0, wrong = 0;

		for (int k = 0; k < 2; k++)
			rig_access(rig, 100, RIG_ADDR, rig_phys(1, 3));
		for (uint64_t age_ms = 0; age_ms < 3 * range_ms; age_ms += 100) {
			rig->now_ns = made_ns + age_ms * NSEC_PER_MSEC;
			/* Life elsewhere: it is from samples that a scan knows the time. */
			rig_access(rig, 101, RIG_ADDR, rig_phys(1, 200));
			if (rig->now_ns >= janitor_ns) {
				rig_janitor(rig, 1000 * SEC);
				janitor_ns += SEC;
			}
			rig_scan(rig, &scan, 1, HOTNESS_KEEP);
			for (size_t i = 0; i < scan.n; i++) {
				if (scan.shown[i].pid != 100)
					continue;
				shown++;
				wrong += record_age_ms(layout, scan.shown[i].record, rig->now_ns) + 128 < age_ms;
			}
		}
		CU_ASSERT_EQUAL(wrong, 0);
		CU_ASSERT(shown >= range_ms / 100 - 2);
		CU_ASSERT_EQUAL(rig_freq(rig, rig_phys(1, 3)), 0);
		rig_free(rig);
	}
}

/* Also without any janitor, in a section that nobody used meanwhile. */
static void an_idle_section_is_old(void)
{
	for (int layout = RECORD_PRECISE; layout <= RECORD_COMPACT; layout++) {
		struct rig *rig = new_rig(layout, 3000, false);

		for (uint64_t ms = 3500; ms < 60000; ms += 1234) {
			rig_access(rig, 100, RIG_ADDR, rig_phys(1, 3));
			rig->now_ns += ms * NSEC_PER_MSEC;
			CU_ASSERT_EQUAL(rig_access(rig, 100, RIG_ADDR, rig_phys(1, 3)), HOTNESS_RECORDED);
			CU_ASSERT_EQUAL(rig_freq(rig, rig_phys(1, 3)), 1);
			rig->now_ns += 3500 * NSEC_PER_MSEC;
		}
		rig_free(rig);
	}
}

/* A janitor that was stuck: what it can't date any more in sections that were idle, it drops. */
static void a_late_janitor(void)
{
	struct rig *rig = new_rig(RECORD_PRECISE, 16383, false);

	rig_janitor(rig, 1000 * SEC);
	rig_access(rig, 100, RIG_ADDR, rig_phys(1, 3));
	rig_access(rig, 100, RIG_ADDR + PAGE_SIZE_BYTES, rig_phys(2, 3));
	rig->now_ns += 8 * SEC;
	rig_access(rig, 100, RIG_ADDR + PAGE_SIZE_BYTES, rig_phys(2, 4));
	rig->now_ns += 500 * NSEC_PER_MSEC;
	rig_janitor(rig, 1000 * SEC);
	CU_ASSERT_EQUAL(rig_freq(rig, rig_phys(1, 3)), 0); /* 8.5 s of a range of 16.4: not worth the doubt */
	CU_ASSERT_EQUAL(rig_freq(rig, rig_phys(2, 3)), 1); /* a busy section keeps its records */
	CU_ASSERT_EQUAL(rig_freq(rig, rig_phys(2, 4)), 1);
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_AGED_RECORDS), 1);
	/* On time, the same record stays. */
	rig_access(rig, 100, RIG_ADDR, rig_phys(1, 3));
	for (int i = 0; i < 15; i++) {
		rig->now_ns += SEC;
		rig_janitor(rig, 1000 * SEC);
	}
	CU_ASSERT_EQUAL(rig_freq(rig, rig_phys(1, 3)), 1);
	CU_ASSERT_EQUAL(rig_access(rig, 100, RIG_ADDR, rig_phys(1, 3)), HOTNESS_READY);
	rig_free(rig);
}

/* Two CPUs' samples come in no order: a sample from before the last one neither resets a record nor turns it back. */
static void samples_out_of_order(void)
{
	for (int layout = RECORD_PRECISE; layout <= RECORD_COMPACT; layout++) {
		struct rig *rig = new_rig(layout, 3000, false);
		struct hotness_candidate c;
		uint64_t late_ns = 400 * NSEC_PER_MSEC;

		rig->now_ns += 77 * NSEC_PER_MSEC;
		rig->rule.freq_threshold = 3;
		CU_ASSERT_EQUAL(rig_access(rig, 100, RIG_ADDR, rig_phys(1, 3)), HOTNESS_RECORDED);
		rig->now_ns -= late_ns;
		CU_ASSERT_EQUAL(rig_access(rig, 100, RIG_ADDR, rig_phys(1, 3)), HOTNESS_RECORDED);
		rig->now_ns += late_ns;
		CU_ASSERT(rig_record(rig, rig_phys(1, 3), &c));
		CU_ASSERT_EQUAL(record_freq(layout, c.record), 2);
		CU_ASSERT(record_age_ms(layout, c.record, rig->now_ns) < 128);
		CU_ASSERT_EQUAL(rig_access(rig, 100, RIG_ADDR, rig_phys(1, 3)), HOTNESS_READY);
		/* A janitor whose clock was read before the sample does not take it for old. */
		rig->now_ns -= late_ns;
		rig_janitor(rig, 1000 * SEC);
		rig->now_ns += late_ns + 1000 * NSEC_PER_MSEC;
		rig_janitor(rig, 1000 * SEC);
		CU_ASSERT_EQUAL(rig_freq(rig, rig_phys(1, 3)), 3);
		rig_free(rig);
	}
}

/* One that comes late meets a record that has just been found old: that has not wrapped. */
static void a_late_sample_of_an_old_record(void)
{
	struct rig *rig = new_rig(RECORD_PRECISE, 16383, false);
	unsigned int wrong = 0;

	for (uint64_t page = 1; page < 20; page++) {
		rig_access(rig, 100, RIG_ADDR + page * PAGE_SIZE_BYTES, rig_phys(1, page));
		for (int i = 0; i < 9; i++) {
			rig->now_ns += 912 * NSEC_PER_MSEC;
			rig_access(rig, 100, RIG_ADDR, rig_phys(1, 0));
			rig_janitor(rig, 1000 * SEC);
		}
		rig->now_ns -= page * 50 * NSEC_PER_MSEC;
		rig_access(rig, 100, RIG_ADDR + page * PAGE_SIZE_BYTES, rig_phys(1, page));
		wrong += rig_freq(rig, rig_phys(1, page)) != 2;
		rig->now_ns += page * 50 * NSEC_PER_MSEC;
	}
	CU_ASSERT_EQUAL(wrong, 0);
	rig_free(rig);
}

static void cold_regions_go(void)
{
	struct rig *rig = new_rig(RECORD_PRECISE, 5000, true);
	struct hotness_usage usage;
	uint64_t before = rig_usage(rig).bytes;

	for (uint64_t i = 0; i < 1000; i++)
		for (uint64_t page = 0; page < (i == 999 ? 100 : 1); page++)
			rig_access(rig, 100 + i % 3, RIG_ADDR + i * REGION_BYTES + page * PAGE_SIZE_BYTES,
				   rig_phys(1, i * 512 + page));
	usage = rig_usage(rig);
	CU_ASSERT_EQUAL(usage.regions, 1000);
	CU_ASSERT_EQUAL(usage.records, 1099);
	CU_ASSERT_EQUAL(usage.chunks, 1000);
	CU_ASSERT_EQUAL(usage.sections, 16);
	for (int i = 0; i < 9; i++) {
		rig->now_ns += SEC;
		for (uint64_t k = 0; k < 10; k++)
			rig_access(rig, 100, RIG_ADDR + k * 3 * REGION_BYTES, rig_phys(1, k * 3 * 512));
		rig_janitor(rig, 10 * SEC);
	}
	CU_ASSERT_EQUAL(rig_usage(rig).regions, 1000);
	rig->now_ns += SEC + 20 * NSEC_PER_MSEC;
	rig_janitor(rig, 10 * SEC);
	usage = rig_usage(rig);
	CU_ASSERT_EQUAL(usage.regions, 10);
	CU_ASSERT_EQUAL(usage.records, 10);
	CU_ASSERT_EQUAL(usage.chunks, 10);
	CU_ASSERT_EQUAL(usage.sections, 1);
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_AGED_REGIONS), 990);
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_AGED_RECORDS), 1089);
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_EVICTED_REGIONS) + rig_stat(rig, STAT_EVICTED_RECORDS), 0);
	for (uint32_t slot = 0; slot < 3; slot++) {
		rcu_enter();
		CU_ASSERT_EQUAL(owners_at(rig->owners, slot)->regions, slot == 0 ? 10 : 0);
		rcu_leave();
	}
	/* All that was taken for them is given back but for the tables' own pages: one of each of seven. */
	rig->now_ns += 20 * SEC;
	rig_janitor(rig, 10 * SEC);
	usage = rig_usage(rig);
	CU_ASSERT_EQUAL(usage.regions + usage.records + usage.chunks + usage.sections, 0);
	CU_ASSERT(usage.bytes <= before + 7 * 4096);
	/* Slots are used again. */
	for (uint64_t i = 0; i < 1000; i++)
		CU_ASSERT_EQUAL(rig_access(rig, 100, RIG_ADDR + i * REGION_BYTES, rig_phys(2, i)), HOTNESS_RECORDED);
	CU_ASSERT_EQUAL(rig_usage(rig).regions, 1000);
	rig_free(rig);
}

static void regions_of_gone_owners_go(void)
{
	struct rig *rig = new_rig(RECORD_PRECISE, 5000, false);

	for (uint64_t i = 0; i < 100; i++)
		rig_access(rig, 100 + i % 2, RIG_ADDR + i * REGION_BYTES, rig_phys(1, i));
	rig_end_process(rig, 100);
	CU_ASSERT_EQUAL(owners_sweep(rig->owners, 100), 1);
	rig_janitor(rig, 1000 * SEC);
	CU_ASSERT_EQUAL(rig_usage(rig).regions, 50);
	CU_ASSERT_EQUAL(rig_usage(rig).records, 50);
	CU_ASSERT_EQUAL(owners_reap(rig->owners), 1);
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_AGED_REGIONS), 0);
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_AGED_RECORDS), 0);
	rig_free(rig);
}

/* A clock near its start, and one that makes a leap of a year. */
static void odd_clocks(void)
{
	struct rig *rig = new_rig(RECORD_PRECISE, 5000, false);

	rig->now_ns = 0;
	rig_access(rig, 100, RIG_ADDR, rig_phys(1, 3));
	rig_janitor(rig, 10 * SEC);
	CU_ASSERT_EQUAL(rig_access(rig, 100, RIG_ADDR, rig_phys(1, 3)), HOTNESS_READY);
	rig->now_ns += 400ULL * 86400 * SEC;
	rig_janitor(rig, 10 * SEC);
	CU_ASSERT_EQUAL(rig_usage(rig).regions, 0);
	CU_ASSERT_EQUAL(rig_access(rig, 100, RIG_ADDR, rig_phys(1, 3)), HOTNESS_RECORDED);
	rig_janitor(rig, 10 * SEC);
	CU_ASSERT_EQUAL(rig_usage(rig).regions, 1);
	rig_free(rig);
}

TEST_MAIN(hotness_time, TEST(old_never_looks_fresh), TEST(a_scan_never_shows_a_wrapped_record),
	  TEST(an_idle_section_is_old), TEST(a_late_janitor), TEST(samples_out_of_order),
	  TEST(a_late_sample_of_an_old_record), TEST(cold_regions_go), TEST(regions_of_gone_owners_go),
	  TEST(odd_clocks))
