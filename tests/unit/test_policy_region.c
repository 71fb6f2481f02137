/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "draw.h"
#include "harness.h"
#include "policy_region.h"
#include "sample.h"

#define SEC   NSEC_PER_SEC
#define OWNER (1ULL << 36)
#define ROOM  (1ULL << 40)

static const struct policy_region_params params = { .confidence = 0.95, .epoch_ns = SEC, .lower_nodes = 4 };
static struct hotness_view views[POLICY_VIEWS_MAX];
static size_t n_views;

/* A region with @rate samples a second on pages @first..@first+@hot-1 for @sec seconds, evenly. */
static struct hotness_view region(uint64_t *seed, uint64_t key, double rate, double sec, unsigned int first,
				  unsigned int hot)
{
	struct hotness_view v = { .key = key, .nodes = 4, .page_bytes = PAGE_SIZE_BYTES };
	unsigned int in_first = 1, later = sec > 1.2 ? draw_poisson(seed, rate * (sec - 1.2)) : 0;
	uint64_t seen[8];

	v.slot = (uint32_t)(key & 0x7fffff);
	v.evidence = (struct region_evidence){
		.samples = (uint16_t)(in_first + later),
		.first = (uint16_t)in_first,
		.later = (uint16_t)later,
		.seconds = (uint16_t)(later < sec ? later : sec),
		.watched_ns = sec > 1.2 ? (uint64_t)((sec - 1.2) * 1e9) : 0,
		.span_ns = later ? (uint64_t)(sec * 0.9e9) : 0,
		.before_per_sec = -1,
		.far_part = 1,
		.target_nid = 0,
	};
	v.pages = (uint16_t)draw_pages(seed, v.evidence.samples, hot, seen);
	v.first_page = REGION_PAGES;
	for (unsigned int page = 0; page < REGION_PAGES; page++)
		if (seen[page / 64] >> (page % 64) & 1) {
			if (v.first_page == REGION_PAGES)
				v.first_page = (uint16_t)(page + first);
			v.last_page = (uint16_t)(page + first);
		}
	return v;
}

/* Scattered: the same, but its pages are spread over all of the region. */
static struct hotness_view scattered(uint64_t *seed, uint64_t key, double rate, double sec, unsigned int hot)
{
	struct hotness_view v = region(seed, key, rate, sec, 0, hot);

	v.first_page = 3;
	v.last_page = 508;
	return v;
}

static void fill(uint64_t *seed, uint64_t key, unsigned int n, double rate, double sec, unsigned int hot, bool spread)
{
	for (unsigned int i = 0; i < n && n_views < POLICY_VIEWS_MAX; i++)
		views[n_views++] =
			spread ? scattered(seed, key + i, rate, sec, hot) : region(seed, key + i, rate, sec, 0, hot);
}

struct tally {
	unsigned int n, whole, pages, reason[REGION_REASONS];
};

/* Judge views @from..@to-1. */
static struct tally judge(const struct policy_region *policy, size_t from, size_t to)
{
	struct tally tally = { 0 };

	for (size_t i = from; i < to; i++) {
		struct policy_region_decision d;

		policy_region_decide(policy, &params, &views[i], &d);
		tally.n++;
		tally.whole += (d.decision & REGION_DECISION_KIND) == REGION_DECISION_WHOLE;
		tally.pages += (d.decision & REGION_DECISION_KIND) == REGION_DECISION_PAGES;
		tally.reason[d.reason]++;
		CU_ASSERT((d.decision != 0) == (d.reason == REGION_IS_HOT));
	}
	return tally;
}

static struct policy_region *fitted(uint64_t room_bytes)
{
	struct policy_region *policy = policy_region_new();

	if (!policy)
		abort();
	policy_region_fit(policy, &params, views, n_views, 1, room_bytes);
	return policy;
}

/* 16 GiB of dense regions, of which each has 18 samples after 25 s: nearly all are moved whole; many after 7 s. */
static void dense_regions_move_whole(void)
{
	for (uint64_t s = 1; s <= 3; s++) {
		struct policy_region *policy;
		uint64_t seed = s;
		struct tally tally;

		n_views = 0;
		fill(&seed, OWNER, 8192, 0.71, 7, 512, false);
		policy = fitted(ROOM);
		CU_ASSERT(judge(policy, 0, n_views).whole > 8192 * 0.75);
		policy_region_free(policy);
		n_views = 0;
		fill(&seed, OWNER, 8192, 0.71, 25, 512, false);
		policy = fitted(ROOM);
		tally = judge(policy, 0, n_views);
		CU_ASSERT(tally.whole > tally.n * 0.99);
		CU_ASSERT_EQUAL(tally.pages, 0);
		policy_region_free(policy);
	}
}

static void scattered_regions_move_by_pages(void)
{
	for (uint64_t s = 1; s <= 3; s++) {
		struct policy_region *policy;
		uint64_t seed = s;
		struct tally tally;

		n_views = 0;
		fill(&seed, OWNER, 8192, 0.4, 12, 128, true);
		policy = fitted(ROOM);
		tally = judge(policy, 0, n_views);
		CU_ASSERT_EQUAL(tally.whole, 0);
		CU_ASSERT(tally.pages > tally.n * 0.9);
		policy_region_free(policy);
	}
}

/* Half dense, half scattered: in mappings of their own, and side by side in one. */
static void both_are_told_apart(void)
{
	for (int mixed = 0; mixed < 2; mixed++) {
		struct policy_region *policy;
		uint64_t seed = 7;
		struct tally dense, scatter;

		n_views = 0;
		fill(&seed, OWNER, 4096, 0.7, 100, 512, false);
		fill(&seed, OWNER + (mixed ? 4096 : 1 << 20), 4096, 0.7, 100, 64, true);
		if (mixed) /* every other one */
			for (size_t i = 0; i < n_views; i++)
				views[i].key = OWNER + (i % 4096) * 2 + i / 4096;
		policy = fitted(ROOM);
		dense = judge(policy, 0, 4096);
		scatter = judge(policy, 4096, 8192);
		CU_ASSERT(dense.whole > 4096 * 0.98);
		CU_ASSERT(scatter.whole < 4096 * 0.005);
		CU_ASSERT(scatter.pages > 4096 * 0.95);
		policy_region_free(policy);
	}
}

static void one_epoch_is_never_enough(void)
{
	struct policy_region *policy;
	uint64_t seed = 7;
	struct tally tally;

	n_views = 0;
	fill(&seed, OWNER, 4096, 5, 60, 512, false);
	policy = fitted(ROOM);
	/* Bursts of any size in one second, long ago or now. */
	for (size_t i = 0; i < n_views; i++) {
		struct region_evidence *e = &views[i].evidence;

		e->first = (uint16_t)(1 + i % 8);
		e->samples = e->first;
		e->later = 0;
		e->seconds = 0;
		e->span_ns = SEC / 2;
	}
	tally = judge(policy, 0, n_views);
	CU_ASSERT_EQUAL(tally.reason[REGION_ONE_EPOCH], tally.n);
	/* A burst, and one access more within the epoch. */
	for (size_t i = 0; i < n_views; i++) {
		views[i].evidence.later = 1;
		views[i].evidence.span_ns = SEC - 1;
	}
	tally = judge(policy, 0, n_views);
	CU_ASSERT_EQUAL(tally.whole + tally.pages, 0);
	/* Large bursts are forgotten, whatever came behind them. */
	for (size_t i = 0; i < n_views; i++) {
		struct policy_region_decision d;

		views[i].evidence.first = 9;
		views[i].evidence.samples = 40;
		views[i].evidence.later = 31;
		views[i].evidence.span_ns = 5 * SEC;
		policy_region_decide(policy, &params, &views[i], &d);
		CU_ASSERT(d.forget && d.decision == 0);
	}
	policy_region_free(policy);
}

/* A tenth of the accesses goes anywhere: of what only those touch, next to nothing moves. */
static void background_stays(void)
{
	for (uint64_t s = 1; s <= 3; s++) {
		struct policy_region *policy;
		uint64_t seed = s;
		struct tally hot, cold;

		n_views = 0;
		fill(&seed, OWNER + 12000, 4096, 0.64, 40, 512, false);
		fill(&seed, OWNER, 12000, 0.024, 40, 512, false);
		policy = fitted(ROOM);
		hot = judge(policy, 0, 4096);
		cold = judge(policy, 4096, n_views);
		CU_ASSERT(hot.whole > 4096 * 0.95);
		CU_ASSERT(hot.pages < 4096 * 0.005);
		CU_ASSERT(cold.whole + cold.pages < 4096 * 0.01);
		policy_region_free(policy);
	}
}

static void what_does_not_fit_stays(void)
{
	struct policy_region *policy;
	uint64_t seed = 3;
	struct tally hot, warm;

	n_views = 0;
	fill(&seed, OWNER, 2048, 8, 60, 512, false);
	fill(&seed, OWNER + 4096, 8192, 1, 60, 512, false);
	policy = fitted(2048ULL * REGION_BYTES);
	hot = judge(policy, 0, 2048);
	warm = judge(policy, 2048, n_views);
	CU_ASSERT(hot.whole > 2048 * 0.98);
	CU_ASSERT(warm.whole < warm.n * 0.02);
	CU_ASSERT(warm.reason[REGION_COOLER] > warm.n * 0.98);
	policy_region_free(policy);
	/* With room for all, all of it goes. */
	policy = fitted(ROOM);
	warm = judge(policy, 2048, n_views);
	CU_ASSERT(warm.whole > warm.n * 0.98);
	policy_region_free(policy);
}

/* Of two regions alike, the one whose accesses stall longer goes first. */
static void latency_counts(void)
{
	struct policy_region *policy;
	uint64_t seed = 3;
	unsigned int slow = 0, fast = 0;

	n_views = 0;
	fill(&seed, OWNER, 8192, 2, 60, 512, false);
	for (size_t i = 0; i < n_views; i++)
		views[i].evidence.latency = i % 2 ? 1200 : 300;
	policy = fitted(4096ULL * REGION_BYTES);
	for (size_t i = 0; i < n_views; i++) {
		struct policy_region_decision d;

		policy_region_decide(policy, &params, &views[i], &d);
		if (i % 2)
			slow += d.reason == REGION_IS_HOT;
		else
			fast += d.reason == REGION_IS_HOT;
	}
	CU_ASSERT(slow > 4000);
	CU_ASSERT(fast < 400);
	policy_region_free(policy);
}

/* The hot memory ends in the middle of a region: that much of it moves. */
static void a_part_is_found(void)
{
	struct policy_region *policy;
	struct policy_region_decision d;
	uint64_t seed = 3;
	struct hotness_view half;

	n_views = 0;
	fill(&seed, OWNER, 4096, 0.7, 60, 512, false);
	policy = fitted(ROOM);
	half = region(&seed, OWNER + 4096, 0.7, 60, 256, 256);
	policy_region_decide(policy, &params, &half, &d);
	CU_ASSERT_EQUAL(d.decision & REGION_DECISION_KIND, REGION_DECISION_WHOLE);
	CU_ASSERT(REGION_DECISION_FIRST(d.decision) >= 27 && REGION_DECISION_FIRST(d.decision) <= 34);
	CU_ASSERT_EQUAL(REGION_DECISION_LAST(d.decision), 63);
	CU_ASSERT_EQUAL(REGION_DECISION_NID(d.decision), 0);
	policy_region_free(policy);
}

static void huge_and_giant_pages(void)
{
	struct policy_region *policy;
	struct policy_region_decision d;
	uint64_t seed = 3;
	struct hotness_view v;

	n_views = 0;
	fill(&seed, OWNER, 4096, 0.7, 60, 512, false);
	policy = fitted(ROOM);
	v = region(&seed, OWNER + 5, 0.7, 60, 0, 1);
	v.page_bytes = REGION_BYTES;
	policy_region_decide(policy, &params, &v, &d);
	CU_ASSERT_EQUAL(d.decision & REGION_DECISION_KIND, REGION_DECISION_WHOLE);
	v.page_bytes = 1ULL << 30;
	policy_region_decide(policy, &params, &v, &d);
	CU_ASSERT_EQUAL(d.reason, REGION_GIANT);
	v = region(&seed, OWNER + 5, 0.7, 60, 0, 512);
	v.evidence.by_faults = true;
	policy_region_decide(policy, &params, &v, &d);
	CU_ASSERT_EQUAL(d.reason, REGION_FAULTS);
	policy_region_free(policy);
}

/* One page has it all: what was seen beside it, once, stays. */
static void the_odd_page_out_is_picked(void)
{
	struct policy_region *policy;
	struct policy_region_decision d;
	uint64_t seed = 3;
	struct hotness_view v;

	n_views = 0;
	fill(&seed, OWNER, 100, 2, 60, 1, true);
	policy = fitted(ROOM);
	v = scattered(&seed, OWNER + 5, 2, 60, 1);
	v.pages = 3;
	policy_region_decide(policy, &params, &v, &d);
	CU_ASSERT_EQUAL(d.decision & REGION_DECISION_KIND, REGION_DECISION_PICKED);
	policy_region_free(policy);
}

/* Regions of other processes and other mappings say nothing about this one; without any, it waits or goes by itself. */
static void strangers_have_no_prior(void)
{
	struct policy_region *policy;
	struct policy_region_decision d;
	uint64_t seed = 3;
	struct hotness_view v;

	n_views = 0;
	fill(&seed, OWNER, 4096, 0.7, 60, 512, false);
	policy = fitted(ROOM);
	CU_ASSERT(policy_region_knows(policy, OWNER + 17));
	CU_ASSERT(!policy_region_knows(policy, OWNER + 100000));
	CU_ASSERT(!policy_region_knows(policy, 2 * OWNER + 17));
	v = region(&seed, 2 * OWNER + 17, 0.7, 12, 0, 512);
	policy_region_decide(policy, &params, &v, &d);
	CU_ASSERT_EQUAL(d.reason, REGION_UNCERTAIN);
	v = region(&seed, 2 * OWNER + 17, 20, 12, 0, 512);
	policy_region_decide(policy, &params, &v, &d);
	CU_ASSERT_EQUAL(d.decision & REGION_DECISION_KIND, REGION_DECISION_WHOLE);
	policy_region_free(policy);
}

/* More samples of the same kind never take a decision back. */
static void more_evidence_is_no_less(void)
{
	struct policy_region *policy;
	uint64_t seed = 3;
	bool was = false;

	n_views = 0;
	fill(&seed, OWNER, 4096, 0.7, 20, 512, false);
	policy = fitted(ROOM);
	for (unsigned int later = 0; later < 60; later++) {
		struct policy_region_decision d;
		struct hotness_view v = region(&seed, OWNER + 5, 0, 20, 0, 512);

		v.evidence.later = (uint16_t)later;
		v.evidence.samples = (uint16_t)(later + 1);
		v.evidence.seconds = (uint16_t)(later < 18 ? later : 18);
		v.evidence.span_ns = 15 * SEC;
		v.pages = (uint16_t)(later + 1);
		v.first_page = 1;
		v.last_page = 511;
		policy_region_decide(policy, &params, &v, &d);
		CU_ASSERT(!was || d.decision);
		was = d.decision != 0;
	}
	CU_ASSERT(was);
	policy_region_free(policy);
}

static void order_and_repetition_change_nothing(void)
{
	struct policy_region *a, *b;
	uint64_t seed = 3;
	unsigned int differ = 0;

	n_views = 0;
	fill(&seed, OWNER, 3000, 0.7, 20, 512, false);
	fill(&seed, 3 * OWNER, 3000, 0.2, 20, 60, true);
	fill(&seed, 2 * OWNER, 500, 3, 20, 512, false);
	a = fitted(ROOM);
	for (size_t i = 0; i + 1 < n_views; i++) {
		size_t j = i + draw(&seed) % (n_views - i);
		struct hotness_view v = views[i];

		views[i] = views[j];
		views[j] = v;
	}
	b = fitted(ROOM);
	for (size_t i = 0; i < n_views; i++) {
		struct policy_region_decision x, y;

		policy_region_decide(a, &params, &views[i], &x);
		policy_region_decide(b, &params, &views[i], &y);
		differ += x.decision != y.decision || x.reason != y.reason || fabs(x.share - y.share) > 1e-9;
	}
	CU_ASSERT_EQUAL(differ, 0);
	policy_region_free(a);
	policy_region_free(b);
}

/* More mappings than there is room for, and none at all. */
static void many_and_none(void)
{
	struct policy_region *policy;
	uint64_t seed = 3;
	struct tally tally;

	n_views = 0;
	policy = fitted(ROOM);
	CU_ASSERT(!policy_region_knows(policy, OWNER));
	policy_region_free(policy);
	for (unsigned int owner = 1; owner <= 3000; owner++)
		fill(&seed, owner * OWNER, 10, 0.7, 20, 512, false);
	policy = fitted(ROOM);
	tally = judge(policy, 0, n_views);
	/* Ten regions with 14 samples each are too few to tell: they wait. */
	CU_ASSERT_EQUAL(tally.n, 30000);
	CU_ASSERT(tally.reason[REGION_UNCERTAIN] > 30000 * 0.97);
	policy_region_free(policy);
}

/* 0.71 samples a second, for which a region of 512 pages moves. */
static void what_does_not_pay_stays(void)
{
	struct policy_region_params costs = params;
	struct policy_region_decision d, with;
	struct policy_region *policy;
	uint64_t seed = 3;
	unsigned int paid = 0, n = 0;

	n_views = 0;
	fill(&seed, OWNER, 4096, 0.71, 25, 512, false);
	policy = fitted(ROOM);
	/* 512 pages of 10 us; 0.71 a second of 1 ms for 10 s is 7.1 ms: more than that. */
	costs.page_ns = 10000;
	costs.sample_ns = 1e6;
	costs.life_sec = 10;
	for (size_t i = 0; i < n_views; i++) {
		policy_region_decide(policy, &params, &views[i], &d);
		policy_region_decide(policy, &costs, &views[i], &with);
		n += d.decision != 0;
		paid += with.decision != 0;
		CU_ASSERT(with.decision == d.decision || (!with.decision && with.reason == REGION_PAYS_NOT));
	}
	CU_ASSERT(n > 3800 && paid > 0.9 * n);
	/* A tenth of the time, or each access ten times as cheap: less. */
	for (int k = 0; k < 2; k++) {
		costs.life_sec = k ? 10 : 1;
		costs.sample_ns = k ? 1e5 : 1e6;
		for (size_t i = 0; i < n_views; i++) {
			policy_region_decide(policy, &costs, &views[i], &with);
			CU_ASSERT_EQUAL(with.decision, 0);
		}
	}
	/* A huge page takes less. */
	views[0].page_bytes = REGION_BYTES;
	costs.life_sec = 2;
	costs.sample_ns = 1e6;
	policy_region_decide(policy, &costs, &views[0], &with);
	CU_ASSERT_EQUAL(with.reason, REGION_IS_HOT);
	/* Whatever isn't known: everything pays. */
	for (int k = 0; k < 3; k++) {
		costs.page_ns = k == 0 ? 0 : 1e9;
		costs.sample_ns = k == 1 ? 0 : 1;
		costs.life_sec = k == 2 ? 0 : 1;
		policy_region_decide(policy, &params, &views[1], &d);
		policy_region_decide(policy, &costs, &views[1], &with);
		CU_ASSERT_EQUAL(with.decision, d.decision);
	}
	policy_region_free(policy);
}

TEST_MAIN(policy_region, TEST(dense_regions_move_whole), TEST(scattered_regions_move_by_pages),
	  TEST(both_are_told_apart), TEST(one_epoch_is_never_enough), TEST(background_stays),
	  TEST(what_does_not_fit_stays), TEST(latency_counts), TEST(a_part_is_found), TEST(huge_and_giant_pages),
	  TEST(what_does_not_pay_stays), TEST(the_odd_page_out_is_picked), TEST(strangers_have_no_prior),
	  TEST(more_evidence_is_no_less), TEST(order_and_repetition_change_nothing), TEST(many_and_none))
