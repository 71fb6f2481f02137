/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which process rests, for how long, and that the others don't. */
#include "clock.h"
#include "config.h"
#include "guard.h"
#include "guard_owners.h"
#include "harness.h"
#include "stats.h"

#define START_NS   (100 * NSEC_PER_SEC)
#define RESUME_SEC 100
#define TICKS      77U

struct rig {
	struct guard_owners *guard;
	struct stats *stats;
	struct stats_slot *slot;
	struct config config;
	uint64_t now_ns;
};

static void rig_start(struct rig *r)
{
	*r = (struct rig){ .guard = guard_owners_new(NULL), .stats = stats_new(), .now_ns = START_NS };
	r->slot = stats_slot_new(r->stats);
	r->config = (struct config){ .guard_ping_pong_percent = 10, .guard_resume_after_sec = RESUME_SEC };
}

static void rig_end(struct rig *r)
{
	guard_owners_free(r->guard);
	stats_free(r->stats);
}

/* @n remembered pages of @slot go up, of which @back had done so a moment ago. */
static void note(struct rig *r, uint32_t slot, unsigned int n, unsigned int back)
{
	for (unsigned int i = 0; i < n; i++)
		guard_owners_note(r->guard, slot, TICKS, i < back, r->now_ns);
}

static bool step(struct rig *r, uint64_t sec)
{
	r->now_ns += sec * NSEC_PER_SEC;
	return guard_owners_step(r->guard, &r->config, r->now_ns, r->slot);
}

static bool rests(const struct rig *r, uint32_t slot)
{
	return guard_owners_rests(r->guard, &r->config, slot, TICKS, r->now_ns);
}

static void one_rests_and_others_go_on(void)
{
	struct guard_owner shown[2];
	struct rig r;

	rig_start(&r);
	note(&r, 1, 1000, 0);
	note(&r, 2, 400, 100);
	note(&r, 3, 1000, 90);
	CU_ASSERT(step(&r, 1));
	CU_ASSERT_FALSE(rests(&r, 1));
	CU_ASSERT(rests(&r, 2));
	CU_ASSERT_FALSE(rests(&r, 3));
	/* Another process that has its slot by now. */
	CU_ASSERT_FALSE(guard_owners_rests(r.guard, &r.config, 2, TICKS + 1, r.now_ns));
	CU_ASSERT_EQUAL(stats_sum(r.stats, STAT_GUARD_PROCESS), 1);
	CU_ASSERT_EQUAL(guard_owners_look(r.guard, r.now_ns, shown, 2), 1);
	CU_ASSERT_EQUAL(shown[0].owner_slot, 2);
	CU_ASSERT_EQUAL(shown[0].left_ns, RESUME_SEC * NSEC_PER_SEC);
	CU_ASSERT_DOUBLE_EQUAL(shown[0].back_ratio, 0.25, 1e-9);
	CU_ASSERT_FALSE(step(&r, 1));
	/* Who switches the guard off need not wait. */
	r.config.guard_ping_pong_percent = 0;
	CU_ASSERT_FALSE(step(&r, 1));
	CU_ASSERT_FALSE(rests(&r, 2));
	CU_ASSERT_EQUAL(guard_owners_look(r.guard, r.now_ns, shown, 2), 0);
	rig_end(&r);
}

/* Who lost pages to it may look the same: it is counted anew when the worst one rests. */
static void the_worst_first(void)
{
	struct rig r;

	rig_start(&r);
	note(&r, 1, 100, 30);
	note(&r, 2, 1000, 300);
	CU_ASSERT(step(&r, 1));
	CU_ASSERT(rests(&r, 2));
	CU_ASSERT_FALSE(step(&r, 1));
	CU_ASSERT_FALSE(rests(&r, 1));
	note(&r, 1, 100, 30);
	CU_ASSERT(step(&r, 1));
	CU_ASSERT(rests(&r, 1) && rests(&r, 2));
	rig_end(&r);
}

static void few_say_nothing(void)
{
	struct rig r;

	rig_start(&r);
	note(&r, 1, 30, 30);
	CU_ASSERT_FALSE(step(&r, 1));
	/* What was counted in more than two minutes says nothing together. */
	CU_ASSERT_FALSE(step(&r, 130));
	note(&r, 1, 30, 30);
	CU_ASSERT_FALSE(step(&r, 1));
	r.config.guard_ping_pong_percent = 0;
	note(&r, 1, 3000, 3000);
	CU_ASSERT_FALSE(step(&r, 1));
	CU_ASSERT_FALSE(guard_owners_blame(r.guard, &r.config, r.now_ns, r.slot));
	rig_end(&r);
}

/* It is tried again; and when it does so again, it rests for longer, up to a bound, until it was well for a while. */
static void it_is_tried_again(void)
{
	static const unsigned int times[] = { 1, 2, 4, 8, 8 };
	struct guard_owner shown;
	struct rig r;

	rig_start(&r);
	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
		note(&r, 5, 100, 50);
		CU_ASSERT(step(&r, 1));
		CU_ASSERT_EQUAL(guard_owners_look(r.guard, r.now_ns, &shown, 1), 1);
		CU_ASSERT_EQUAL(shown.left_ns, times[i] * RESUME_SEC * NSEC_PER_SEC);
		step(&r, times[i] * RESUME_SEC - 1);
		CU_ASSERT(rests(&r, 5));
		step(&r, 1);
		CU_ASSERT_FALSE(rests(&r, 5));
		CU_ASSERT_EQUAL(guard_owners_look(r.guard, r.now_ns, &shown, 1), 0);
	}
	step(&r, RESUME_SEC + 1);
	note(&r, 5, 100, 50);
	CU_ASSERT(step(&r, 1));
	(void)guard_owners_look(r.guard, r.now_ns, &shown, 1);
	CU_ASSERT_EQUAL(shown.left_ns, RESUME_SEC * NSEC_PER_SEC);
	/* An option that was made shorter holds at once. */
	r.config.guard_resume_after_sec = 10;
	step(&r, 80);
	CU_ASSERT_FALSE(rests(&r, 5));
	rig_end(&r);
}

static void slow_lets_a_sixteenth_go(void)
{
	unsigned int moves = 0;
	struct rig r;

	rig_start(&r);
	r.config.guard_action = GUARD_ACTION_SLOW;
	note(&r, 1, 100, 50);
	CU_ASSERT(step(&r, 1));
	for (int i = 0; i < 4 * GUARD_SLOW_PART; i++) {
		moves += !rests(&r, 1);
		r.now_ns += NSEC_PER_SEC;
	}
	CU_ASSERT_EQUAL(moves, 4);
	rig_end(&r);
}

/* Nothing is won, and samples say so: whose memory is it? */
static void the_one_that_is_to_blame(void)
{
	struct rig r;

	rig_start(&r);
	note(&r, 1, 1000, 0);
	note(&r, 2, 300, 0);
	guard_owners_note_down(r.guard, 1, TICKS, 900);
	guard_owners_note_down(r.guard, 2, TICKS, 300);
	guard_owners_note_down(r.guard, 3, TICKS, 5000); /* of which nothing came up */
	CU_ASSERT_FALSE(step(&r, 1));
	CU_ASSERT(guard_owners_blame(r.guard, &r.config, r.now_ns, r.slot));
	CU_ASSERT(rests(&r, 1));
	CU_ASSERT_FALSE(rests(&r, 2) || rests(&r, 3));
	/* One pushes the other out: neither goes in circles by itself. */
	note(&r, 2, 1000, 0);
	note(&r, 3, 300, 0);
	guard_owners_note_down(r.guard, 3, TICKS, 1000);
	CU_ASSERT_FALSE(guard_owners_blame(r.guard, &r.config, r.now_ns, r.slot));
	rig_end(&r);
}

/* Ping-pong, all taken together: who has most of what came back, however much of it stayed before? */
static void the_one_whose_pages_come_back(void)
{
	struct guard_owner shown;
	struct rig r;

	rig_start(&r);
	note(&r, 1, 10000, 0);
	note(&r, 2, 1000, 0);
	note(&r, 4, 10000, 900);
	CU_ASSERT_FALSE(step(&r, 1));
	guard_owners_begin_recent(r.guard);
	note(&r, 1, 50, 20);
	note(&r, 2, 50, 10);
	note(&r, 3, 50, 9);
	CU_ASSERT(guard_owners_blame_back(r.guard, &r.config, r.now_ns, r.slot));
	CU_ASSERT(rests(&r, 1));
	CU_ASSERT_FALSE(rests(&r, 2) || rests(&r, 3) || rests(&r, 4));
	CU_ASSERT_EQUAL(guard_owners_look(r.guard, r.now_ns, &shown, 1), 1);
	CU_ASSERT_DOUBLE_EQUAL(shown.back_ratio, 0.4, 1e-9);
	/* What was on its way of it still says nothing more. */
	note(&r, 1, 50, 50);
	CU_ASSERT_FALSE(guard_owners_blame_back(r.guard, &r.config, r.now_ns, r.slot));
	/* Nobody has most of it, and of none are there enough to tell. */
	guard_owners_begin_recent(r.guard);
	note(&r, 2, 30, 10);
	note(&r, 3, 30, 10);
	CU_ASSERT_FALSE(guard_owners_blame_back(r.guard, &r.config, r.now_ns, r.slot));
	CU_ASSERT_EQUAL(stats_sum(r.stats, STAT_GUARD_PROCESS), 1);
	/* Of one there are. */
	note(&r, 3, 20, 1);
	note(&r, 2, 9, 1);
	CU_ASSERT(guard_owners_blame_back(r.guard, &r.config, r.now_ns, r.slot));
	CU_ASSERT(rests(&r, 3));
	CU_ASSERT_FALSE(rests(&r, 2));
	rig_end(&r);
}

/* Among many that all go in circles it would take long to let them rest one by one. */
static void too_many_are_to_blame(void)
{
	struct rig r;

	rig_start(&r);
	for (uint32_t slot = 1; slot <= 5; slot++)
		note(&r, slot, 100, 9);
	guard_owners_begin_recent(r.guard);
	for (uint32_t slot = 1; slot <= 5; slot++)
		note(&r, slot, 100, 20);
	CU_ASSERT_FALSE(guard_owners_blame_back(r.guard, &r.config, r.now_ns, r.slot));
	guard_owners_begin_recent(r.guard);
	for (uint32_t slot = 1; slot <= 4; slot++)
		note(&r, slot, 100, 20 + slot);
	CU_ASSERT(guard_owners_blame_back(r.guard, &r.config, r.now_ns, r.slot));
	CU_ASSERT(rests(&r, 4));
	CU_ASSERT_FALSE(rests(&r, 1));
	rig_end(&r);
}

/* Many processes: the table is bounded, and who rests stays in it. */
static void many_processes(void)
{
	struct guard_owner shown[4];
	struct rig r;

	rig_start(&r);
	note(&r, 1, 100, 50);
	CU_ASSERT(step(&r, 1));
	for (uint32_t slot = 2; slot < 20000; slot++)
		note(&r, slot, 1, 0);
	CU_ASSERT(rests(&r, 1));
	/* One with many pages finds its place among those with few. */
	note(&r, 30000, 100, 50);
	CU_ASSERT(step(&r, 1));
	CU_ASSERT(rests(&r, 30000));
	CU_ASSERT_EQUAL(guard_owners_look(r.guard, r.now_ns, shown, 4), 2);
	CU_ASSERT_EQUAL(shown[0].owner_slot, 30000);
	CU_ASSERT_EQUAL(shown[1].owner_slot, 1);
	CU_ASSERT_EQUAL(guard_owners_look(r.guard, r.now_ns, shown, 1), 2);
	CU_ASSERT_EQUAL(shown[0].owner_slot, 30000);
	rig_end(&r);
}

TEST_MAIN(guard_owners, TEST(one_rests_and_others_go_on), TEST(the_worst_first), TEST(few_say_nothing),
	  TEST(it_is_tried_again), TEST(slow_lets_a_sixteenth_go), TEST(the_one_that_is_to_blame),
	  TEST(the_one_whose_pages_come_back), TEST(too_many_are_to_blame), TEST(many_processes))
