/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "harness.h"
#include "hotness_rig.h"

static struct rig_scan scan;

static void a_candidate_says_all(void)
{
	struct rig *rig = rig_new(NULL, true);
	uint64_t addr = RIG_ADDR + 77 * PAGE_SIZE_BYTES;
	const struct hotness_candidate *c = &scan.shown[0];

	CU_ASSERT_EQUAL(rig_access(rig, 100, RIG_ADDR, rig_phys(0, 0)), HOTNESS_FAST);
	CU_ASSERT_EQUAL(rig_access(rig, 123, addr + 8, rig_phys(2, 1234) + 8), HOTNESS_RECORDED);
	CU_ASSERT_EQUAL(rig_scan(rig, &scan, 2, HOTNESS_TAKE), 0);
	CU_ASSERT_EQUAL(scan.result.sections, 0); /* nothing is marked */
	rig->now_ns += 3 * SEC;
	CU_ASSERT_EQUAL(rig_access(rig, 123, addr + 16, rig_phys(2, 1234) + 16), HOTNESS_READY);
	CU_ASSERT_EQUAL(rig_access(rig, 123, addr + 16, rig_phys(2, 1234) + 16), HOTNESS_RECORDED);
	CU_ASSERT_EQUAL(rig_usage(rig).records, 1);
	CU_ASSERT_EQUAL(rig_scan(rig, &scan, 1, HOTNESS_TAKE), 0); /* another node's */
	CU_ASSERT_EQUAL(rig_scan(rig, &scan, 2, HOTNESS_TAKE), 1);
	CU_ASSERT_EQUAL(scan.n_taken, 1);
	CU_ASSERT_EQUAL(scan.result.sections, 1);
	CU_ASSERT_EQUAL(scan.result.records, 1);
	CU_ASSERT_EQUAL(scan.result.stale, 0);
	CU_ASSERT(!scan.result.stopped);
	CU_ASSERT_EQUAL(c->pfn, rig_phys(2, 1234) >> PAGE_SHIFT);
	CU_ASSERT_EQUAL(c->addr, addr);
	CU_ASSERT_EQUAL(c->page_bytes, 4096);
	CU_ASSERT_EQUAL(c->owner_slot, rig_owner(rig, 123));
	CU_ASSERT_EQUAL(c->pid, 123);
	CU_ASSERT_EQUAL(c->start_ticks, 1230);
	CU_ASSERT_EQUAL(record_freq(RECORD_PRECISE, c->record), 3);
	CU_ASSERT_EQUAL(record_nid(RECORD_PRECISE, c->record), 0);
	CU_ASSERT_EQUAL(record_age_ms(RECORD_PRECISE, c->record, rig->now_ns), 0);
	CU_ASSERT_EQUAL(c->record & RECORD_RESERVED_BITS, 0);
	/* Taken: the whole record is gone, and counting begins anew. */
	CU_ASSERT_EQUAL(rig_usage(rig).records, 0);
	CU_ASSERT_EQUAL(rig_scan(rig, &scan, 2, HOTNESS_TAKE), 0);
	CU_ASSERT_EQUAL(scan.result.sections, 0);
	CU_ASSERT_EQUAL(rig_access(rig, 123, addr, rig_phys(2, 1234)), HOTNESS_RECORDED);
	rig_free(rig);
}

static void verdicts(void)
{
	struct rig *rig = rig_new(NULL, true);

	for (uint64_t i = 0; i < 100; i++)
		for (int k = 0; k < 2; k++)
			rig_access(rig, 100, RIG_ADDR + i * PAGE_SIZE_BYTES, rig_phys(1, i * 5000));
	CU_ASSERT_EQUAL(rig_scan(rig, &scan, 1, HOTNESS_KEEP), 100);
	CU_ASSERT_EQUAL(scan.n_taken, 0);
	CU_ASSERT_EQUAL(rig_scan(rig, &scan, 1, HOTNESS_KEEP), 100);
	CU_ASSERT_EQUAL(scan.result.records, 100);
	CU_ASSERT_EQUAL(rig_scan(rig, &scan, 1, HOTNESS_DROP), 100);
	CU_ASSERT_EQUAL(scan.n_taken, 0);
	CU_ASSERT_EQUAL(rig_usage(rig).records, 0);
	CU_ASSERT_EQUAL(rig_scan(rig, &scan, 1, HOTNESS_KEEP), 0);
	rig_free(rig);
}

/* Each scan goes on where the last one stopped, and nothing is shown twice or left out. */
static void a_stopped_scan_goes_on(void)
{
	struct rig *rig = rig_new(NULL, true);
	static unsigned char seen[300];
	size_t total = 0, scans = 0;

	memset(seen, 0, sizeof(seen));
	for (uint64_t i = 0; i < 300; i++)
		for (int k = 0; k < 2; k++)
			rig_access(rig, 100, RIG_ADDR + i * REGION_BYTES, rig_phys(1, i * 3000));
	scan.stop_after = 7;
	do {
		rig_scan(rig, &scan, 1, HOTNESS_TAKE);
		for (size_t i = 0; i < scan.n && i < 7; i++)
			seen[(scan.shown[i].pfn - (rig_phys(1, 0) >> PAGE_SHIFT)) / 3000]++;
		total += scan.n_taken;
		CU_ASSERT(scan.n_taken <= 7);
		CU_ASSERT_EQUAL(scan.result.stopped, total < 300 && scan.n == 8);
		if (scan.n > 0 && scans > 0)
			CU_ASSERT(scan.shown[0].pfn > (rig_phys(1, 0) >> PAGE_SHIFT)); /* not from the start again */
		scans++;
	} while (scan.result.stopped);
	CU_ASSERT_EQUAL(total, 300);
	CU_ASSERT_EQUAL(scans, 43);
	for (int i = 0; i < 300; i++)
		CU_ASSERT_EQUAL(seen[i], 1);
	CU_ASSERT_EQUAL(rig_usage(rig).records, 0);

	/* New ones before the place where it stopped are found too. */
	for (uint64_t i = 0; i < 300; i++)
		for (int k = 0; k < 2; k++)
			rig_access(rig, 100, RIG_ADDR + i * REGION_BYTES, rig_phys(1, i * 3000));
	scan.stop_after = 200;
	rig_scan(rig, &scan, 1, HOTNESS_TAKE);
	CU_ASSERT(scan.result.stopped);
	for (int k = 0; k < 2; k++)
		rig_access(rig, 100, RIG_ADDR + 10 * REGION_BYTES, rig_phys(1, 10 * 3000));
	scan.stop_after = 0;
	CU_ASSERT_EQUAL(rig_scan(rig, &scan, 1, HOTNESS_TAKE), 101);
	CU_ASSERT_EQUAL(rig_usage(rig).records, 0);
	rig_free(rig);
}

/* An observer sees each once, also when it becomes ready again; a promoter sees it. */
static void notes(void)
{
	struct rig *rig = rig_new(NULL, true);

	scan.verdict = HOTNESS_NOTE;
	for (int k = 0; k < 2; k++)
		rig_access(rig, 100, RIG_ADDR, rig_phys(1, 9));
	rig_scan_part(rig, &scan, 1, 0, 1, true);
	CU_ASSERT_EQUAL(scan.n, 1);
	CU_ASSERT_EQUAL(scan.n_taken, 1);
	CU_ASSERT_EQUAL(rig_freq(rig, rig_phys(1, 9)), 2); /* the record itself stays */
	CU_ASSERT_EQUAL(rig_usage(rig).records, 1);
	rig_scan_part(rig, &scan, 1, 0, 1, true);
	CU_ASSERT_EQUAL(scan.n, 0);
	rig_scan_part(rig, &scan, 1, 0, 1, false);
	CU_ASSERT_EQUAL(scan.n, 0); /* not ready */
	CU_ASSERT_EQUAL(rig_access(rig, 100, RIG_ADDR, rig_phys(1, 9)), HOTNESS_READY);
	rig_scan_part(rig, &scan, 1, 0, 1, true);
	CU_ASSERT_EQUAL(scan.n, 0);
	CU_ASSERT_EQUAL(scan.result.sections, 0); /* not even walked */
	/* Another page beside it makes an observer walk the chunk: it still isn't shown. */
	for (int k = 0; k < 2; k++)
		rig_access(rig, 100, RIG_ADDR + PAGE_SIZE_BYTES, rig_phys(1, 10));
	rig_scan_part(rig, &scan, 1, 0, 1, true);
	CU_ASSERT_EQUAL(scan.n, 1);
	CU_ASSERT_EQUAL(scan.shown[0].pfn, rig_phys(1, 10) >> PAGE_SHIFT);
	scan.verdict = HOTNESS_KEEP;
	rig_scan_part(rig, &scan, 1, 0, 1, false);
	CU_ASSERT_EQUAL(scan.n, 1);
	CU_ASSERT_EQUAL(scan.shown[0].pfn, rig_phys(1, 9) >> PAGE_SHIFT);
	CU_ASSERT_EQUAL(scan.shown[0].record & RECORD_RESERVED_BITS, 0);
	rig_scan_part(rig, &scan, 1, 0, 1, true);
	CU_ASSERT_EQUAL(scan.n, 0);
	/* Outside the window it is no longer ready; the note stays, as long as the record does. */
	rig->now_ns += 6 * SEC;
	CU_ASSERT_EQUAL(rig_access(rig, 100, RIG_ADDR, rig_phys(1, 9)), HOTNESS_RECORDED);
	CU_ASSERT_EQUAL(rig_access(rig, 100, RIG_ADDR, rig_phys(1, 9)), HOTNESS_READY);
	rig_scan_part(rig, &scan, 1, 0, 1, true);
	CU_ASSERT_EQUAL(scan.n, 0);
	scan.verdict = HOTNESS_TAKE;
	rig_scan_part(rig, &scan, 1, 0, 1, false);
	CU_ASSERT_EQUAL(scan.n_taken, 1);
	rig_free(rig);
}

static bool is_same(const struct hotness_candidate *a, const struct hotness_candidate *b)
{
	return a->pfn == b->pfn && a->addr == b->addr && a->page_bytes == b->page_bytes &&
	       a->owner_slot == b->owner_slot && a->pid == b->pid && a->start_ticks == b->start_ticks &&
	       a->record == b->record && a->region_slot == b->region_slot && a->decision == b->decision &&
	       a->by_faults == b->by_faults;
}

static void put_back(void)
{
	struct rig *rig = rig_new(NULL, true);
	struct hotness_candidate c;

	for (int k = 0; k < 2; k++)
		rig_access(rig, 100, RIG_ADDR, rig_phys(1, 9));
	rig_scan(rig, &scan, 1, HOTNESS_TAKE);
	c = scan.shown[0];
	CU_ASSERT(hotness_put_back(rig->hotness, &c));
	CU_ASSERT_EQUAL(rig_usage(rig).records, 1);
	CU_ASSERT(!hotness_put_back(rig->hotness, &c)); /* it is there */
	CU_ASSERT_EQUAL(rig_scan(rig, &scan, 1, HOTNESS_TAKE), 1);
	CU_ASSERT(is_same(&c, &scan.shown[0]));
	/* Newer heat wins. */
	rig_access(rig, 100, RIG_ADDR, rig_phys(1, 9));
	CU_ASSERT(!hotness_put_back(rig->hotness, &c));
	CU_ASSERT_EQUAL(rig_freq(rig, rig_phys(1, 9)), 1);
	/* Also where the janitor has taken away chunk and section meanwhile. */
	for (int k = 0; k < 2; k++)
		rig_access(rig, 100, RIG_ADDR, rig_phys(2, 9));
	rig_scan(rig, &scan, 2, HOTNESS_TAKE);
	rig_janitor(rig, 100 * SEC);
	CU_ASSERT_EQUAL(rig_usage(rig).sections, 1);
	CU_ASSERT(hotness_put_back(rig->hotness, &scan.shown[0]));
	CU_ASSERT_EQUAL(rig_usage(rig).sections, 2);
	CU_ASSERT_EQUAL(rig_access(rig, 100, RIG_ADDR, rig_phys(2, 9)), HOTNESS_RECORDED);
	CU_ASSERT_EQUAL(rig_freq(rig, rig_phys(2, 9)), 3);
	/* A region that is gone takes nothing back. */
	rig_scan(rig, &scan, 2, HOTNESS_TAKE);
	CU_ASSERT_EQUAL(scan.n_taken, 1);
	rig->now_ns += 200 * SEC;
	rig_janitor(rig, 100 * SEC);
	CU_ASSERT_EQUAL(rig_usage(rig).regions, 0);
	CU_ASSERT(!hotness_put_back(rig->hotness, &scan.shown[0]));
	c.pfn = 1ULL << 34;
	CU_ASSERT(!hotness_put_back(rig->hotness, &c));
	CU_ASSERT_EQUAL(rig_usage(rig).records, 0);
	rig_free(rig);
}

static enum hotness_verdict touch_then_take(struct rig_scan *s, const struct hotness_candidate *c)
{
	if (s->n <= 3)
		rig_access(s->rig, c->pid, c->addr, c->pfn << PAGE_SHIFT);
	return HOTNESS_TAKE;
}

/* A record that changes under the verdict is shown again, as it is now. */
static void a_changed_record_is_decided_again(void)
{
	struct rig *rig = rig_new(NULL, true);

	for (int k = 0; k < 2; k++)
		rig_access(rig, 100, RIG_ADDR, rig_phys(1, 9));
	scan.decide = touch_then_take;
	rig_scan(rig, &scan, 1, HOTNESS_TAKE);
	scan.decide = NULL;
	CU_ASSERT_EQUAL(scan.n, 4);
	CU_ASSERT_EQUAL(scan.n_taken, 1);
	CU_ASSERT_EQUAL(record_freq(RECORD_PRECISE, scan.shown[0].record), 2);
	CU_ASSERT_EQUAL(record_freq(RECORD_PRECISE, scan.shown[3].record), 5);
	CU_ASSERT_EQUAL(rig_usage(rig).records, 0);
	rig_free(rig);
}

static enum hotness_verdict heat_others(struct rig_scan *s, const struct hotness_candidate *c)
{
	/* Behind and before the scan, in its chunk, in its section and in another one; and the chunk grows. */
	static const uint64_t pages[] = { 0, 1, 100, 511, 5000, 20000, 600000 };

	(void)c;
	if (s->verdict == HOTNESS_NOTE)
		for (size_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++)
			for (int k = 0; k < 2; k++)
				rig_access(s->rig, 101, RIG_ADDR + pages[i] * PAGE_SIZE_BYTES, rig_phys(1, pages[i]));
	s->verdict = HOTNESS_TAKE; /* once */
	return HOTNESS_TAKE;
}

/* What becomes ready while a scan walks is found by it or by the next one. */
static void nothing_becomes_ready_unseen(void)
{
	struct rig *rig = rig_new(NULL, true);
	size_t n;

	for (int k = 0; k < 2; k++)
		rig_access(rig, 100, RIG_ADDR, rig_phys(1, 50));
	scan.decide = heat_others;
	rig_scan(rig, &scan, 1, HOTNESS_NOTE);
	n = scan.n_taken;
	scan.decide = NULL;
	rig_scan(rig, &scan, 1, HOTNESS_TAKE);
	CU_ASSERT_EQUAL(n + scan.n_taken, 8);
	CU_ASSERT_EQUAL(rig_usage(rig).records, 0);
	rig_free(rig);
}

/* A section of the map may hold memory of two nodes; each has its own migrator. */
static void a_section_straddles_nodes(void)
{
	struct hotness_options options = rig_options;
	struct rig *rig;

	options.section_bytes = 16ULL << 30; /* all nodes */
	rig = rig_new(&options, true);
	for (int nid = 1; nid <= 3; nid++)
		for (uint64_t i = 0; i < 5; i++)
			for (int k = 0; k < 2; k++)
				rig_access(rig, 100, RIG_ADDR + (uint64_t)nid * (1ULL << 32) + i * PAGE_SIZE_BYTES,
					   rig_phys(nid, i));
	CU_ASSERT_EQUAL(rig_usage(rig).sections, 1);
	CU_ASSERT_EQUAL(rig_scan(rig, &scan, 1, HOTNESS_TAKE), 5);
	for (size_t i = 0; i < 5; i++)
		CU_ASSERT_EQUAL(scan.shown[i].pfn / (RIG_NODE_BYTES / PAGE_SIZE_BYTES), 1);
	CU_ASSERT_EQUAL(rig_scan(rig, &scan, 1, HOTNESS_TAKE), 0);
	CU_ASSERT_EQUAL(rig_scan(rig, &scan, 2, HOTNESS_TAKE), 5);
	CU_ASSERT_EQUAL(rig_scan(rig, &scan, 3, HOTNESS_TAKE), 5);
	CU_ASSERT_EQUAL(rig_usage(rig).records, 0);
	rig_free(rig);
}

static void parts_share_the_sections(void)
{
	struct rig *rig = rig_new(NULL, true);
	size_t total = 0;

	for (uint64_t i = 0; i < 32; i++)
		for (int k = 0; k < 2; k++)
			rig_access(rig, 100, RIG_ADDR + i * REGION_BYTES,
				   rig_phys(1, i * (RIG_BLOCK / PAGE_SIZE_BYTES)));
	scan.verdict = HOTNESS_TAKE;
	for (unsigned int part = 0; part < 3; part++) {
		rig_scan_part(rig, &scan, 1, part, 3, false);
		CU_ASSERT(scan.n == 10 || scan.n == 11);
		CU_ASSERT_EQUAL(scan.result.sections, scan.n);
		total += scan.n_taken;
		for (size_t i = 0; i < scan.n; i++)
			CU_ASSERT_EQUAL((scan.shown[i].pfn << PAGE_SHIFT) / RIG_BLOCK % 3, part);
	}
	CU_ASSERT_EQUAL(total, 32);
	rig_free(rig);
}

TEST_MAIN(hotness_scan, TEST(a_candidate_says_all), TEST(verdicts), TEST(a_stopped_scan_goes_on), TEST(notes),
	  TEST(put_back), TEST(a_changed_record_is_decided_again), TEST(nothing_becomes_ready_unseen),
	  TEST(a_section_straddles_nodes), TEST(parts_share_the_sections))
