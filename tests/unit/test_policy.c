/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <string.h>

#include "harness.h"
#include "policy.h"

#define SEC    1000000000ULL
#define MIB    (1ULL << 20)
#define GIB    (1ULL << 30)
#define WINDOW 5000U
#define STEP   (WINDOW * 2 / 16)

/* Room for a page, but not for everything. */
static struct policy_target tight(uint64_t rate_bytes_per_sec)
{
	return (struct policy_target){
		.free_bytes = 1 * GIB,
		.promo_bytes = 64 * MIB,
		.present_bytes = 16 * GIB,
		.rate_bytes_per_sec = rate_bytes_per_sec,
	};
}

static struct policy_target roomy(void)
{
	struct policy_target t = tight(MIB);

	t.free_bytes = 8 * GIB;
	return t;
}

/* @pages candidates of age 0 at @now_ns, then what the threshold is. */
static uint32_t threshold_after(struct policy_page *state, const struct policy_target *t, uint64_t pages,
				uint64_t now_ns)
{
	policy_page_decide(state, t, WINDOW, 0, pages, now_ns);
	return state->threshold_ms ? state->threshold_ms : WINDOW;
}

static void window_comes_first(void)
{
	struct policy_target t = tight(GIB), r = roomy();
	struct policy_page s = { 0 };

	CU_ASSERT_EQUAL(policy_page_decide(&s, &t, WINDOW, WINDOW - 1, 1, SEC), POLICY_MOVE);
	CU_ASSERT_EQUAL(policy_page_decide(&s, &t, WINDOW, WINDOW, 1, SEC), POLICY_TOO_OLD);
	CU_ASSERT_EQUAL(policy_page_decide(&s, &r, WINDOW, WINDOW, 1, SEC), POLICY_TOO_OLD);
	CU_ASSERT_EQUAL(policy_page_decide(&s, &r, WINDOW, WINDOW - 1, 1, SEC), POLICY_MOVE);
	CU_ASSERT_EQUAL(policy_page_decide(&s, &t, 1000, 16383, 1, SEC), POLICY_TOO_OLD);
	/* A threshold raised to two windows lets nothing through that is older than one. */
	s.threshold_ms = 2 * WINDOW;
	CU_ASSERT_EQUAL(policy_page_decide(&s, &t, WINDOW, WINDOW + 1, 1, SEC), POLICY_TOO_OLD);
}

static void much_room_is_one_gib_or_a_sixteenth(void)
{
	struct policy_target t = { .promo_bytes = 100 * MIB, .present_bytes = 4 * GIB };

	t.free_bytes = t.promo_bytes + GIB;
	CU_ASSERT_FALSE(policy_page_has_much_room(&t));
	t.free_bytes++;
	CU_ASSERT_TRUE(policy_page_has_much_room(&t));
	t.present_bytes = 64 * GIB;
	CU_ASSERT_FALSE(policy_page_has_much_room(&t));
	t.free_bytes = t.promo_bytes + 4 * GIB;
	CU_ASSERT_FALSE(policy_page_has_much_room(&t));
	t.free_bytes++;
	CU_ASSERT_TRUE(policy_page_has_much_room(&t));
	/* Below the watermark the difference must not wrap. */
	t.free_bytes = t.promo_bytes - 1;
	CU_ASSERT_FALSE(policy_page_has_much_room(&t));
	t = (struct policy_target){ .free_bytes = UINT64_MAX, .promo_bytes = 0, .present_bytes = UINT64_MAX };
	CU_ASSERT_TRUE(policy_page_has_much_room(&t));
}

static void much_room_resets_the_threshold(void)
{
	struct policy_target r = roomy(), t = tight(MIB);
	struct policy_page s = { .threshold_ms = STEP, .window_start_ns = SEC };

	CU_ASSERT_EQUAL(policy_page_decide(&s, &t, WINDOW, 2 * STEP, 1, 2 * SEC), POLICY_BELOW_THRESHOLD);
	CU_ASSERT_EQUAL(policy_page_decide(&s, &r, WINDOW, 2 * STEP, 1, 3 * SEC), POLICY_MOVE);
	CU_ASSERT_EQUAL(s.threshold_ms, 0);
	CU_ASSERT_EQUAL(policy_page_decide(&s, &t, WINDOW, 2 * STEP, 1, 4 * SEC), POLICY_MOVE);

	/* What was let through while there was room is not held against the next minute. */
	for (uint64_t i = 0; i < 200; i++)
		policy_page_decide(&s, &r, WINDOW, 0, 1 << 20, (10 + i) * SEC);
	CU_ASSERT_EQUAL(threshold_after(&s, &t, 1, 211 * SEC), WINDOW);
}

/* 16 MiB/s are 245760 pages a minute. */
static void threshold_follows_the_rate(void)
{
	struct policy_target t = tight(16 * MIB);
	const uint64_t minute_pages = 16 * 256 * 60;
	struct policy_page s = { 0 };
	uint64_t now = SEC;

	/* The first look only starts the minute. */
	CU_ASSERT_EQUAL(threshold_after(&s, &t, minute_pages * 2, now), WINDOW);
	now += 60 * SEC;
	CU_ASSERT_EQUAL(threshold_after(&s, &t, 0, now), WINDOW); /* not more than 60 s yet */
	now += 1;
	CU_ASSERT_EQUAL(threshold_after(&s, &t, 0, now), WINDOW - STEP);

	/* Within 10% of the rate nothing changes: both edges. */
	policy_page_decide(&s, &t, WINDOW, 0, minute_pages * 11 / 10, now + SEC);
	now += 61 * SEC;
	CU_ASSERT_EQUAL(threshold_after(&s, &t, 0, now), WINDOW - STEP);
	policy_page_decide(&s, &t, WINDOW, 0, minute_pages * 9 / 10, now + SEC);
	now += 61 * SEC;
	CU_ASSERT_EQUAL(threshold_after(&s, &t, 0, now), WINDOW - STEP);

	/* One page beyond them it does. */
	policy_page_decide(&s, &t, WINDOW, 0, minute_pages * 11 / 10 + 1, now + SEC);
	now += 61 * SEC;
	CU_ASSERT_EQUAL(threshold_after(&s, &t, 0, now), WINDOW - 2 * STEP);
	policy_page_decide(&s, &t, WINDOW, 0, minute_pages * 9 / 10 - 1, now + SEC);
	now += 61 * SEC;
	CU_ASSERT_EQUAL(threshold_after(&s, &t, 0, now), WINDOW - STEP);
}

static void threshold_has_a_floor_and_a_cap(void)
{
	struct policy_target t = tight(MIB);
	struct policy_page s = { 0 };
	uint64_t now = SEC;

	for (int i = 0; i < 40; i++, now += 61 * SEC)
		threshold_after(&s, &t, 1 << 20, now);
	CU_ASSERT_EQUAL(s.threshold_ms, STEP);
	CU_ASSERT_EQUAL(policy_page_decide(&s, &t, WINDOW, STEP - 1, 0, now), POLICY_MOVE);
	CU_ASSERT_EQUAL(policy_page_decide(&s, &t, WINDOW, STEP, 0, now), POLICY_BELOW_THRESHOLD);
	for (int i = 0; i < 40; i++, now += 61 * SEC)
		threshold_after(&s, &t, 0, now);
	CU_ASSERT_EQUAL(s.threshold_ms, 2 * WINDOW);
}

static void only_what_passed_is_counted(void)
{
	struct policy_target t = tight(MIB);
	struct policy_page s = { .threshold_ms = STEP, .window_start_ns = SEC };

	policy_page_decide(&s, &t, WINDOW, STEP, 512, 2 * SEC);
	policy_page_decide(&s, &t, WINDOW, WINDOW, 512, 2 * SEC);
	CU_ASSERT_EQUAL(s.candidates, 0);
	policy_page_decide(&s, &t, WINDOW, STEP - 1, 512, 2 * SEC);
	CU_ASSERT_EQUAL(s.candidates, 512);
	policy_page_decide(&s, &t, WINDOW, STEP - 1, 0, 2 * SEC);
	CU_ASSERT_EQUAL(s.candidates, 512);
}

static void a_tuned_window_moves_the_bounds(void)
{
	struct policy_target t = tight(MIB);
	struct policy_page s = { .threshold_ms = 2 * WINDOW, .window_start_ns = SEC };

	/* From 5 s to 1 s: the cap is 2 s at once. */
	CU_ASSERT_EQUAL(policy_page_decide(&s, &t, 1000, 999, 0, 2 * SEC), POLICY_MOVE);
	policy_page_decide(&s, &t, 1000, 0, 1 << 20, 3 * SEC);
	policy_page_decide(&s, &t, 1000, 0, 0, 62 * SEC);
	CU_ASSERT_EQUAL(s.threshold_ms, 2000 - 125);
	/* And up again: the floor of the longer window holds. */
	s.threshold_ms = 125;
	CU_ASSERT_EQUAL(policy_page_decide(&s, &t, 16383, 16383 / 8 - 1, 0, 63 * SEC), POLICY_MOVE);
}

/* A rate of 0 is refused by the token bucket, not here; the threshold then goes to its floor, and nothing divides by 0.
 */
static void rate_zero(void)
{
	struct policy_target t = tight(0), r = roomy();
	struct policy_page s = { 0 };
	uint64_t now = SEC;

	for (int i = 0; i < 40; i++, now += 61 * SEC)
		threshold_after(&s, &t, 1, now);
	CU_ASSERT_EQUAL(s.threshold_ms, STEP);
	r.rate_bytes_per_sec = 0;
	CU_ASSERT_EQUAL(policy_page_decide(&s, &r, WINDOW, 0, 1, now), POLICY_MOVE);
}

static uint64_t next(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return *seed >> 33;
}

/* Whatever comes: the threshold stays between one step and two windows and moves one step a minute at most; what is
 * old never moves; a younger record moves whenever an older one would. */
static void properties(void)
{
	uint64_t seed = 7;

	for (int round = 0; round < 300; round++) {
		uint32_t window = 1000 + (uint32_t)(next(&seed) % 15384);
		uint32_t step = window * 2 / 16;
		struct policy_page s = { 0 };
		uint64_t now = next(&seed);

		for (int i = 0; i < 400; i++) {
			struct policy_target t = tight((next(&seed) % 4) * (next(&seed) % (1 << 22)));
			uint32_t age = (uint32_t)(next(&seed) % (window * 2));
			uint32_t before = s.threshold_ms ? s.threshold_ms : window;
			struct policy_page young = s;
			enum policy_decision d;

			if (next(&seed) % 50 == 0)
				t.free_bytes = 20 * GIB;
			now += next(&seed) % (40 * SEC);
			d = policy_page_decide(&s, &t, window, age, next(&seed) % 600, now);
			if (d == POLICY_MOVE && age > 0)
				CU_ASSERT_EQUAL(policy_page_decide(&young, &t, window, age - 1, 1, now), POLICY_MOVE);
			CU_ASSERT_EQUAL(d == POLICY_TOO_OLD, age >= window);
			if (s.threshold_ms == 0)
				continue;
			CU_ASSERT(s.threshold_ms >= step && s.threshold_ms <= 2 * window);
			CU_ASSERT(s.threshold_ms <= before + step && s.threshold_ms + step >= before);
			if (d == POLICY_MOVE)
				CU_ASSERT(age < s.threshold_ms);
		}
	}
}

/* The loop closes: with more hot pages than the rate carries, the threshold settles where the candidates fit. */
static void closed_loop_settles(void)
{
	struct policy_target t = tight(4 * MIB); /* 1024 pages/s */
	struct policy_page s = { 0 };
	uint64_t seed = 3, now = SEC, passed = 0;

	/* 4096 pages become ready each second, of any age in the window: a quarter can go. */
	for (int second = 0; second < 40 * 60; second++, now += SEC) {
		if (second == 30 * 60)
			passed = s.candidates;
		for (int i = 0; i < 256; i++)
			policy_page_decide(&s, &t, WINDOW, (uint32_t)(next(&seed) % WINDOW), 16, now);
	}
	passed = (s.candidates - passed) / 600;
	/* One step is an eighth of the window, 512 pages/s, so it can't settle nearer than that. */
	CU_ASSERT(passed > 1024 - 512 && passed < 1024 + 512);
}

TEST_MAIN(policy, TEST(window_comes_first), TEST(much_room_is_one_gib_or_a_sixteenth),
	  TEST(much_room_resets_the_threshold), TEST(threshold_follows_the_rate), TEST(threshold_has_a_floor_and_a_cap),
	  TEST(only_what_passed_is_counted), TEST(a_tuned_window_moves_the_bounds), TEST(rate_zero), TEST(properties),
	  TEST(closed_loop_settles))
