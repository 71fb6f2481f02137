/* SPDX-License-Identifier: GPL-2.0-or-later */
/* When a guard holds, for how long, and when it doesn't. 1 GiB of fast memory, so 16 MiB are enough to judge. */
#include "clock.h"
#include "config.h"
#include "guard.h"
#include "harness.h"
#include "machine.h"
#include "sample.h"
#include "stats.h"

#define FAST_BYTES (1ULL << 30)
#define MIB_PAGES  256ULL
#define START_NS   (100 * NSEC_PER_SEC)
#define RESUME_SEC 100

struct rig {
	struct machine machine;
	struct clock clock;
	uint64_t now_ns, demoted, page;
	struct stats *stats;
	struct stats_slot *slot;
	unsigned int others; /* processes that pages are of as well, in turns */
	struct config config;
	struct guard *guard;
};

static uint64_t rig_now(void *ctx)
{
	return ((struct rig *)ctx)->now_ns;
}

static void step(struct rig *r)
{
	machine_put(&r->machine, "proc/vmstat", "nr_free_pages 5\npgdemote_kswapd %llu\npgdemote_direct 7\npgfault 9",
		    (unsigned long long)r->demoted);
	guard_step(r->guard, &r->config, FAST_BYTES);
}

static void rig_start(struct rig *r)
{
	struct guard_params params;

	*r = (struct rig){ .now_ns = START_NS, .demoted = 1000 };
	machine_new(&r->machine);
	r->clock = (struct clock){ rig_now, r };
	r->stats = stats_new();
	r->slot = stats_slot_new(r->stats);
	r->config = (struct config){ .guard_ping_pong_percent = 10,
				     .guard_holdout_percent = 5,
				     .guard_resume_after_sec = RESUME_SEC };
	params = (struct guard_params){
		.root = r->machine.root, .clock = &r->clock, .stats = r->stats, .counted = r->slot
	};
	r->guard = guard_new(&params);
	step(r);
}

static void rig_end(struct rig *r)
{
	guard_free(r->guard);
	stats_free(r->stats);
	machine_free(&r->machine);
}

/* A second in which @mib go up, pages from @page on, as much comes down by the kernel if so, and samples fall so. */
static void second(struct rig *r, unsigned int mib, bool demotes, unsigned int far, unsigned int near)
{
	for (uint64_t i = 0; i < mib * MIB_PAGES; i++, r->page++)
		guard_note_up(r->guard, 3 + (uint32_t)(r->page % (r->others + 1)), 77, r->page * PAGE_SIZE_BYTES,
			      r->now_ns);
	stats_add(r->slot, STAT_PROMOTED_PAGES, mib * MIB_PAGES);
	stats_add(r->slot, STAT_RECORDED, far);
	stats_add(r->slot, STAT_USEFUL, far + near);
	r->demoted += demotes ? mib * MIB_PAGES : 0;
	r->now_ns += NSEC_PER_SEC;
	step(r);
}

static void running_against_the_kernel_is_held(void)
{
	struct guard_view view;
	struct rig r;
	unsigned int sec = 0;

	rig_start(&r);
	while (sec < 60 && guard_holds(r.guard) == GUARD_NONE) {
		second(&r, 8, true, 30000, 60000);
		sec++;
	}
	CU_ASSERT(sec >= 2 && sec < 60);
	CU_ASSERT_EQUAL(guard_holds(r.guard), GUARD_AGAINST);
	CU_ASSERT_EQUAL(stats_sum(r.stats, STAT_GUARD_AGAINST), 1);
	guard_look(r.guard, &view);
	CU_ASSERT_EQUAL(view.left_ns, RESUME_SEC * NSEC_PER_SEC);
	CU_ASSERT_EQUAL(view.kernel_demoted_pages, sec * 8 * MIB_PAGES);
	CU_ASSERT_DOUBLE_EQUAL(view.back_ratio, 0, 1e-9);
	rig_end(&r);
}

/* As much goes down, but what goes down was cold: the share of far accesses sinks. */
static void what_pays_goes_on(void)
{
	struct rig r;

	rig_start(&r);
	for (unsigned int sec = 0; sec < 100; sec++)
		second(&r, 8, true, 60000 - sec * 500, 30000 + sec * 500);
	CU_ASSERT_EQUAL(guard_holds(r.guard), GUARD_NONE);
	rig_end(&r);
}

/* Nothing comes down for it: there was room. */
static void free_room_is_nobodys(void)
{
	struct rig r;

	rig_start(&r);
	for (unsigned int sec = 0; sec < 100; sec++)
		second(&r, 8, false, 30000, 60000);
	CU_ASSERT_EQUAL(guard_holds(r.guard), GUARD_NONE);
	rig_end(&r);
}

/* A source that shows slow nodes only says nothing of shares, and too few samples nothing at all. */
static void what_cannot_be_told_goes_on(void)
{
	struct rig r;

	rig_start(&r);
	for (unsigned int sec = 0; sec < 100; sec++)
		second(&r, 8, true, 30000, 3);
	for (unsigned int sec = 0; sec < 100; sec++)
		second(&r, 8, true, 5, 5);
	CU_ASSERT_EQUAL(guard_holds(r.guard), GUARD_NONE);
	rig_end(&r);
}

/* The same pages again and again: whoever demotes them, and whatever samples say. */
static void ping_pong_is_held(void)
{
	struct rig r;
	unsigned int sec = 0;

	rig_start(&r);
	r.others = 15;
	while (sec < 60 && guard_holds(r.guard) == GUARD_NONE) {
		r.page = sec % 4 * 8 * MIB_PAGES;
		second(&r, 8, false, 30000, 3);
		sec++;
	}
	CU_ASSERT(sec > 4 && sec < 20);
	CU_ASSERT_EQUAL(guard_holds(r.guard), GUARD_PING_PONG);
	CU_ASSERT(sec <= 8); /* at once */
	CU_ASSERT_EQUAL(stats_sum(r.stats, STAT_GUARD_PING_PONG), 1);
	CU_ASSERT_EQUAL(stats_sum(r.stats, STAT_GUARD_PROCESS), 0);
	/* Who switches it off need not wait. */
	r.config.guard_holdout_percent = 0;
	second(&r, 0, false, 1, 1);
	CU_ASSERT_EQUAL(guard_holds(r.guard), GUARD_PING_PONG);
	r.config.guard_ping_pong_percent = 0;
	second(&r, 0, false, 1, 1);
	CU_ASSERT_EQUAL(guard_holds(r.guard), GUARD_NONE);
	rig_end(&r);
}

/* Of one process, which had much promoted before that stayed: the others go on. */
static void ping_pong_of_one_lets_others_go_on(void)
{
	struct rig r;

	rig_start(&r);
	r.page = 1 << 20;
	second(&r, 1024, false, 30000, 3);
	for (uint64_t sec = 0; sec < 8 && stats_sum(r.stats, STAT_GUARD_PROCESS) == 0; sec++) {
		r.page = sec % 4 * 8 * MIB_PAGES;
		second(&r, 8, false, 30000, 3);
	}
	CU_ASSERT_EQUAL(stats_sum(r.stats, STAT_GUARD_PROCESS), 1);
	CU_ASSERT(guard_rests(r.guard, &r.config, 3, 77, r.now_ns));
	CU_ASSERT_EQUAL(guard_holds(r.guard), GUARD_NONE);
	rig_end(&r);
}

static void ping_pong_may_be_allowed(void)
{
	struct rig r;

	rig_start(&r);
	r.config.guard_ping_pong_percent = 0;
	for (unsigned int sec = 0; sec < 60; sec++) {
		r.page = sec % 4 * 8 * MIB_PAGES;
		second(&r, 8, false, 30000, 3);
	}
	CU_ASSERT_EQUAL(guard_holds(r.guard), GUARD_NONE);
	rig_end(&r);
}

/* Pages of more than a minute ago, and of another process, are no ping-pong. */
static void long_ago_is_no_ping_pong(void)
{
	struct rig r;

	rig_start(&r);
	second(&r, 64, false, 100, 100);
	r.page = 0;
	r.now_ns += GUARD_BACK_NS;
	second(&r, 4, false, 100, 100);
	second(&r, 64, false, 100, 100);
	second(&r, 64, false, 100, 100);
	CU_ASSERT_EQUAL(guard_holds(r.guard), GUARD_NONE);
	rig_end(&r);
}

/* Until it is held; returns how long. */
static uint64_t hold(struct rig *r)
{
	struct guard_view view;

	for (unsigned int sec = 0; sec < 60 && guard_holds(r->guard) == GUARD_NONE; sec++)
		second(r, 8, true, 30000, 60000);
	guard_look(r->guard, &view);
	return view.left_ns / NSEC_PER_SEC;
}

static void it_is_tried_again(void)
{
	struct rig r;

	rig_start(&r);
	CU_ASSERT_EQUAL(hold(&r), RESUME_SEC);
	r.now_ns += (RESUME_SEC - 1) * NSEC_PER_SEC;
	step(&r);
	CU_ASSERT_EQUAL(guard_holds(r.guard), GUARD_AGAINST);
	r.now_ns += NSEC_PER_SEC;
	step(&r);
	CU_ASSERT_EQUAL(guard_holds(r.guard), GUARD_NONE);
	/* Nothing has changed: for longer. */
	CU_ASSERT_EQUAL(hold(&r), 2 * RESUME_SEC);
	for (int i = 0; i < 4; i++) {
		r.now_ns += 1000 * NSEC_PER_SEC;
		step(&r);
		(void)hold(&r);
	}
	/* It was well for a while. */
	r.now_ns += 1000 * NSEC_PER_SEC;
	step(&r);
	r.now_ns += (RESUME_SEC + 1) * NSEC_PER_SEC;
	step(&r);
	CU_ASSERT_EQUAL(hold(&r), RESUME_SEC);
	rig_end(&r);
}

/* A window of the comparison, in which moving took @move_sec of CPU time. */
static void compared(struct rig *r, double saved, double margin, double cpu_back, double move_sec)
{
	static uint64_t windows;
	const struct guard_help help = { .windows = ++windows,
					 .known = true,
					 .saved = saved,
					 .margin = margin,
					 .has_cpu = cpu_back != 0,
					 .cpu_back = cpu_back,
					 .busy_sec = 4 };

	r->now_ns += 30 * NSEC_PER_SEC;
	stats_add(r->slot, STAT_MOVE_NS, (uint64_t)(move_sec * 1e9));
	step(r);
	guard_note_help(r->guard, &r->config, &help);
	guard_note_help(r->guard, &r->config, &help); /* the same one is no second one */
}

static void what_is_held_out_does_better(void)
{
	struct guard_view view;
	struct rig r;

	rig_start(&r);
	/* Surely, but not for long; and then it isn't sure. */
	compared(&r, -0.2, 0.1, 0, 1);
	compared(&r, -0.2, 0.1, 0, 1);
	compared(&r, -0.2, 0.3, 0, 1);
	compared(&r, -0.2, 0.1, 0, 1);
	compared(&r, -0.2, 0.1, 0, 1);
	CU_ASSERT_EQUAL(guard_holds(r.guard), GUARD_NONE);
	compared(&r, -0.2, 0.1, 0, 1);
	CU_ASSERT_EQUAL(guard_holds(r.guard), GUARD_HOLDOUT);
	CU_ASSERT(guard_stops_all(guard_holds(r.guard)));
	CU_ASSERT_FALSE(guard_stops_all(GUARD_AGAINST) || guard_stops_all(GUARD_NONE));
	CU_ASSERT_EQUAL(stats_sum(r.stats, STAT_GUARD_HOLDOUT), 1);
	guard_look(r.guard, &view);
	CU_ASSERT_EQUAL(view.left_ns, RESUME_SEC * NSEC_PER_SEC);
	/* It is tried again; what was said while it held counts for nothing. */
	for (int i = 0; i < 4; i++)
		compared(&r, -0.2, 0.1, 0, 0);
	CU_ASSERT_EQUAL(guard_holds(r.guard), GUARD_NONE);
	compared(&r, -0.2, 0.1, 0, 1);
	compared(&r, -0.2, 0.1, 0, 1);
	CU_ASSERT_EQUAL(guard_holds(r.guard), GUARD_NONE);
	compared(&r, -0.2, 0.1, 0, 1);
	CU_ASSERT_EQUAL(guard_holds(r.guard), GUARD_HOLDOUT);
	r.config.guard_holdout_percent = 0;
	second(&r, 0, false, 1, 1);
	CU_ASSERT_EQUAL(guard_holds(r.guard), GUARD_NONE);
	rig_end(&r);
}

/* Four CPUs are busy: 30 s of moving in 30 s are a quarter of it. */
static void moving_takes_more_than_comes_back(void)
{
	struct guard_view view;
	struct rig r;

	rig_start(&r);
	for (int i = 0; i < 9; i++)
		compared(&r, 0.5, 0.1, 0.3, 30);
	CU_ASSERT_EQUAL(guard_holds(r.guard), GUARD_NONE);
	guard_look(r.guard, &view);
	CU_ASSERT_DOUBLE_EQUAL(view.move_ratio, 0.25, 1e-3);
	/* At the far end of the interval it may still pay. */
	for (int i = 0; i < 9; i++)
		compared(&r, 0.5, 0.1, 0.22, 30);
	CU_ASSERT_EQUAL(guard_holds(r.guard), GUARD_NONE);
	/* Where nothing was moved there is nothing to hold, and without latencies nothing to compare. */
	for (int i = 0; i < 9; i++)
		compared(&r, -0.5, 0.1, -0.1, 0);
	for (int i = 0; i < 9; i++)
		compared(&r, 0.5, 0.1, 0, 100);
	CU_ASSERT_EQUAL(guard_holds(r.guard), GUARD_NONE);
	for (int i = 0; i < 3; i++)
		compared(&r, 0.5, 0.1, 0.2, 30);
	CU_ASSERT_EQUAL(guard_holds(r.guard), GUARD_HOLDOUT);
	rig_end(&r);
}

static void cost_is_shown_and_needs_no_hold(void)
{
	struct guard_view view;
	struct rig r;

	rig_start(&r);
	guard_note_cost(r.guard, true);
	guard_note_cost(r.guard, true);
	guard_look(r.guard, &view);
	CU_ASSERT_EQUAL(view.cause, GUARD_COST);
	CU_ASSERT_EQUAL(view.left_ns, 0);
	CU_ASSERT_EQUAL(guard_holds(r.guard), GUARD_NONE);
	CU_ASSERT_EQUAL(stats_sum(r.stats, STAT_GUARD_COST), 1);
	guard_note_cost(r.guard, false);
	guard_look(r.guard, &view);
	CU_ASSERT_EQUAL(view.cause, GUARD_NONE);
	rig_end(&r);
}

/* A kernel without the counters, or without the file. */
static void no_counters_no_harm(void)
{
	struct rig r;

	rig_start(&r);
	machine_remove(&r.machine, "proc");
	for (unsigned int sec = 0; sec < 20; sec++) {
		stats_add(r.slot, STAT_PROMOTED_PAGES, 8 * MIB_PAGES);
		stats_add(r.slot, STAT_USEFUL, 100000);
		r.now_ns += NSEC_PER_SEC;
		guard_step(r.guard, &r.config, FAST_BYTES);
	}
	CU_ASSERT_EQUAL(guard_holds(r.guard), GUARD_NONE);
	rig_end(&r);
}

TEST_MAIN(guard, TEST(running_against_the_kernel_is_held), TEST(what_pays_goes_on), TEST(free_room_is_nobodys),
	  TEST(what_cannot_be_told_goes_on), TEST(ping_pong_is_held), TEST(ping_pong_of_one_lets_others_go_on),
	  TEST(ping_pong_may_be_allowed), TEST(long_ago_is_no_ping_pong), TEST(it_is_tried_again),
	  TEST(what_is_held_out_does_better), TEST(moving_takes_more_than_comes_back),
	  TEST(cost_is_shown_and_needs_no_hold), TEST(no_counters_no_harm))
