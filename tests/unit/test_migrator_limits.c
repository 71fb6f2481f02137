/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "harness.h"
#include "migrator_rig.h"
#include "mover.h"
#include "policy.h"

#define MIB (1ULL << 20)

static const struct rig_options plain = { 0 };

static int call_nid[4096];
static size_t n_calls;

static void note_call(struct rig *rig, uint32_t pid, size_t n, int nid)
{
	(void)rig;
	(void)pid;
	(void)n;
	if (n_calls < 4096)
		call_nid[n_calls++] = nid;
}

/* Over any stretch of time at most rate * time + one burst + one page has moved; and at the end, all of it. */
static void the_rate_holds(void)
{
	struct rig *rig = rig_new(&plain);
	uint64_t start, moved = 0;
	unsigned int limited = 0;

	rig->config.promote_rate_mib_per_sec = 32; /* two slow nodes share it: 16 MiB/s */
	start = rig->now_ns;
	rig_hot(rig, 100, 0, 40000, 0, 0);
	for (int i = 0; i < 120; i++) {
		uint64_t rate = 16 * MIB, passed = rig->now_ns - start;

		CU_ASSERT_EQUAL(rig_pass(rig), 0);
		moved += rig->result.moved_bytes;
		CU_ASSERT(moved <= rate * passed / NSEC_PER_SEC + rate / 10 + RIG_PAGE);
		/* What may go does go: the bucket is empty at the end of a pass that was held back. */
		if (rig->result.limit == LIMIT_RATE) {
			limited++;
			CU_ASSERT(moved + RIG_PAGE >= rate * passed / NSEC_PER_SEC + rate / 10);
		}
		rig->now_ns += 100 * NSEC_PER_MSEC;
		/* They stay hot. */
		if (i % 20 == 19)
			for (uint64_t k = moved / RIG_PAGE; k < 40000; k++)
				rig_access(rig, 100, rig_addr(100, k), rig_phys(2, k), RIG_PAGE, 0);
	}
	CU_ASSERT_EQUAL(moved, 40000 * RIG_PAGE);
	CU_ASSERT_EQUAL(rig->kernel.moved_pages, 40000);
	CU_ASSERT(limited > 80);
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_RATE_LIMITED), limited);
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_NO_ROOM), 0);
	rig_free(rig);
}

static void rate_zero_moves_nothing(void)
{
	struct rig *rig = rig_new(&plain);

	rig->config.promote_rate_mib_per_sec = 0;
	rig->present_pages[0] = 16 * RIG_NODE_PAGES; /* however much room there is */
	rig->kernel.free_pages[0] = 15 * RIG_NODE_PAGES;
	rig_hot(rig, 100, 0, 10, 0, 0);
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT_EQUAL(rig->result.limit, LIMIT_RATE);
	CU_ASSERT_EQUAL(rig->kernel.move_calls, 0);
	/* And takes effect the moment it is changed: at once, not from a full bucket. */
	rig->config.promote_rate_mib_per_sec = 64;
	rig->now_ns += NSEC_PER_SEC;
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	rig->now_ns += NSEC_PER_SEC / 10;
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_PROMOTED_PAGES), 10);
	rig_free(rig);
}

/* Rate and burst are followed while it runs: 2 nodes, so half of each is ours. */
static void tuning_takes_effect(void)
{
	struct rig *rig = rig_new(&plain);

	rig->config.promote_rate_mib_per_sec = 80;
	rig_hot(rig, 100, 0, 30000, 0, 0);
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT_EQUAL(rig->result.moved_pages, 1024);
	/* Twice the rate, half of it at once: the burst is as it was, but full again in half the time. */
	rig->config.promote_rate_mib_per_sec = 160;
	rig->config.promote_burst_ms = 50;
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT_EQUAL(rig->result.moved_pages, 0);
	rig->now_ns += 50 * NSEC_PER_MSEC;
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT_EQUAL(rig->result.moved_pages, 1024);
	/* A smaller burst at the same rate. */
	rig->config.promote_burst_ms = 10;
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	rig->now_ns += NSEC_PER_SEC;
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT(rig->result.moved_pages >= 204 && rig->result.moved_pages <= 205);
	rig_free(rig);
}

/* A scan that can do nothing stops; once a second it looks on, and not for ever. */
static void waiting_costs_little(void)
{
	struct rig *rig = rig_new(&plain);

	rig->config.promote_rate_mib_per_sec = 0;
	rig_process(rig, 100);
	for (uint64_t i = 0; i < 70000; i++)
		rig_access(rig, 100, rig_addr(100, i), rig_phys(2, i), RIG_PAGE, 0);
	rig->now_ns += 10 * NSEC_PER_MSEC;
	rig->clock_looks = 0;
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT(rig->clock_looks > 65000 && rig->clock_looks < 65600);
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_CANDIDATES), 65537);
	for (int i = 1; i < 9; i++) {
		rig->now_ns += 100 * NSEC_PER_MSEC;
		rig->clock_looks = 0;
		CU_ASSERT_EQUAL(rig_pass(rig), 0);
		CU_ASSERT_EQUAL(rig->result.limit, LIMIT_RATE);
		CU_ASSERT(rig->clock_looks < 10);
	}
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_CANDIDATES), 65537);
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_RATE_LIMITED), 9);
	rig_free(rig);
}

static void touch_again(struct rig *rig)
{
	if (rig->clock_looks < 10)
		return;
	rig->on_clock = NULL;
	for (uint64_t i = 0; i < 1024; i++)
		rig_access(rig, 100, rig_addr(100, i), rig_phys(2, i), RIG_PAGE, 0);
}

/* One target has used up its budget, the other has not: the scan goes on for that one. */
static void a_spent_target_does_not_stop_the_other(void)
{
	struct rig *rig = rig_new(&plain);

	rig->config.promote_rate_mib_per_sec = 80; /* 1024 pages at once, to each */
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	rig->now_ns += 10 * NSEC_PER_MSEC;
	rig_hot(rig, 100, 0, 2000, 0, 0);
	rig_hot(rig, 100, 2000, 500, 2000, 1);
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT_EQUAL(rig->result.limit, LIMIT_RATE);
	CU_ASSERT_EQUAL(rig->kernel.free_pages[0], RIG_NODE_PAGES / 2 - 1024);
	CU_ASSERT_EQUAL(rig->kernel.free_pages[1], RIG_NODE_PAGES / 2 - 500);
	rig_free(rig);
}

/* A record changes between the decision and its taking, as under a collector: it is decided again, and costs once. */
static void a_grant_that_was_not_used_comes_back(void)
{
	struct rig *rig = rig_new(&plain);

	rig->config.promote_rate_mib_per_sec = 80; /* 1024 pages at once */
	rig_hot(rig, 100, 0, 1024, 0, 0);
	rig->clock_looks = 0;
	rig->on_clock = touch_again; /* decide() asks for the time */
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT_PTR_NULL(rig->on_clock);
	CU_ASSERT_EQUAL(rig->result.moved_pages, 1024);
	CU_ASSERT_EQUAL(rig->result.limit, LIMIT_NONE);
	rig_free(rig);
}

/* parts migrators of each of two nodes: each has its part of the rate. */
static void parts_share_the_rate(void)
{
	struct rig_options options = { .parts = 4 };
	struct rig *rig = rig_new(&options);

	rig->config.promote_rate_mib_per_sec = 80; /* 10 MiB/s each, 1 MiB at once */
	rig_hot(rig, 100, 0, 2000, 0, 0);
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT(rig->result.moved_pages >= 255 && rig->result.moved_pages <= 257);
	/* And only its part of the sections: this page is in the next one. */
	rig_hot(rig, 100, 4000, 1, 32768, 0);
	rig->config.promote_rate_mib_per_sec = 65536;
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	rig->now_ns += 100 * NSEC_PER_MSEC;
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_PROMOTED_PAGES), 2000);
	rig_free(rig);
}

/* Two nodes of 1 GiB: 3% are 7864 pages. Each pass may use half of what is over it, since two nodes promote. */
static void headroom_is_never_crossed(void)
{
	struct rig *rig = rig_new(&plain);
	const uint64_t keep = RIG_NODE_PAGES * 3 / 100 + 1;
	unsigned int no_room = 0;

	rig->kernel.free_pages[0] = keep + 3000;
	rig->kernel.free_pages[1] = keep + 1000;
	rig_hot(rig, 100, 0, 10000, 0, 0);
	rig->now_ns += 10 * NSEC_PER_MSEC;
	for (int i = 0; i < 40; i++) {
		CU_ASSERT_EQUAL(rig_pass(rig), 0);
		CU_ASSERT(rig->kernel.free_pages[0] >= keep);
		CU_ASSERT(rig->kernel.free_pages[1] >= keep);
		no_room += rig->result.limit == LIMIT_NO_ROOM;
		rig->now_ns += 10 * NSEC_PER_MSEC;
	}
	/* All but the last page of each has been used. */
	CU_ASSERT(rig->kernel.free_pages[0] <= keep + 1);
	CU_ASSERT(rig->kernel.free_pages[1] <= keep + 1);
	CU_ASSERT_EQUAL(no_room, 40);
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_NO_ROOM), 40);
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_RATE_LIMITED), 0);
	/* Waiting in line they were not counted again. */
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_CANDIDATES), 10000);
	rig_free(rig);
}

/* The watermark counts where it is more than the headroom. */
static void watermarks_are_headroom_too(void)
{
	struct rig *rig = rig_new(&plain);

	rig->config.promote_headroom_percent = 0;
	rig->kernel.free_pages[0] = RIG_PROMO + 100;
	rig->kernel.free_pages[1] = RIG_PROMO;
	rig_hot(rig, 100, 0, 1000, 0, 0);
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT_EQUAL(rig->result.moved_pages, 50);
	for (int i = 0; i < 20; i++)
		CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT_EQUAL(rig->result.limit, LIMIT_NO_ROOM);
	CU_ASSERT(rig->kernel.free_pages[0] <= RIG_PROMO + 1);
	CU_ASSERT_EQUAL(rig->kernel.free_pages[1], RIG_PROMO);
	/* Changed while it runs. */
	rig->config.promote_headroom_percent = 50;
	rig->kernel.free_pages[0] = RIG_NODE_PAGES / 2;
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT_EQUAL(rig->result.moved_pages, 0);
	rig->config.promote_headroom_percent = 49;
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT(rig->result.moved_pages > 0);
	rig_free(rig);
}

static void no_room_on_the_first_goes_to_the_second(void)
{
	struct rig *rig = rig_new(&plain);

	rig->kernel.free_pages[0] = 10;
	rig_hot(rig, 100, 0, 500, 0, 0);
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT_EQUAL(rig->result.moved_pages, 500);
	CU_ASSERT_EQUAL(rig->result.limit, LIMIT_NONE);
	CU_ASSERT_EQUAL(rig->kernel.free_pages[0], 10);
	CU_ASSERT_EQUAL(rig->kernel.free_pages[1], RIG_NODE_PAGES / 2 - 500);
	rig_free(rig);
}

/* The kernel may find no memory where there seemed to be room: no more calls to that node in this pass. */
static void no_memory_closes_the_target(void)
{
	struct rig *rig = rig_new(&plain);

	rig_hot(rig, 100, 0, 2000, 0, 0);
	rig_put_zoneinfo(rig);
	rig->kernel.free_pages[0] = 700;
	CU_ASSERT_EQUAL(migrator_pass(rig->migrator, &rig->config, rig->now_ns, &rig->result), 0);
	CU_ASSERT_EQUAL(rig->result.moved_pages, 700);
	CU_ASSERT_EQUAL(rig->result.limit, LIMIT_NO_ROOM);
	CU_ASSERT_EQUAL(rig->kernel.move_calls, 2);
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_MOVE_NO_MEMORY), 324);
	/* All that did not move keeps its place. The node rests for a second, and the next one is there meanwhile. */
	rig->kernel.free_pages[0] = RIG_NODE_PAGES / 2;
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT_EQUAL(rig->result.moved_pages, 2000 - 700);
	CU_ASSERT_EQUAL(rig->kernel.free_pages[0], RIG_NODE_PAGES / 2);
	rig_hot(rig, 100, 3000, 10, 3000, 0);
	rig->now_ns += NSEC_PER_SEC;
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT_EQUAL(rig->kernel.free_pages[0], RIG_NODE_PAGES / 2 - 10);
	rig_free(rig);
}

/* The same in a later round of the pass. */
static void a_closed_target_stays_closed(void)
{
	struct rig *rig = rig_new(&plain);

	rig_hot(rig, 100, 0, 12000, 0, 0);
	rig_put_zoneinfo(rig);
	rig->kernel.free_pages[0] = 0;
	n_calls = 0;
	rig->on_move = note_call;
	CU_ASSERT_EQUAL(migrator_pass(rig->migrator, &rig->config, rig->now_ns, &rig->result), 0);
	CU_ASSERT_EQUAL(call_nid[0], 0);
	for (size_t i = 1; i < n_calls; i++)
		CU_ASSERT_EQUAL(call_nid[i], 1);
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_MOVE_NO_MEMORY), 512);
	/* All went to the other node, that one batch in the next round. */
	CU_ASSERT_EQUAL(rig->result.moved_pages, 12000);
	rig_free(rig);
}

/* What could not be moved leaves its room to others. */
static void failures_cost_no_room(void)
{
	struct rig *rig = rig_new(&plain);

	rig->kernel.free_pages[0] = RIG_NODE_PAGES * 3 / 100 + 1 + 2 * 9000;
	rig->kernel.free_pages[1] = 0;
	rig_hot(rig, 100, 0, 8192, 0, 0);
	for (size_t i = 0; i < 8192; i++)
		fake_process_find(&rig->kernel, 100)->folios[i].flags = FAKE_PINNED;
	rig_hot(rig, 100, 8192, 1000, 8192, 0);
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_MOVE_PINNED), 8192);
	CU_ASSERT_EQUAL(rig->result.moved_pages, 1000);
	rig_free(rig);
}

static void a_configured_target_is_the_only_one(void)
{
	struct rig_options options = { .target_nid = 1 + 1 };
	struct rig *rig = rig_new(&options);

	rig_hot(rig, 100, 0, 100, 0, 0); /* recorded before the change */
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT_EQUAL(rig->kernel.free_pages[1], RIG_NODE_PAGES / 2 - 100);
	rig->kernel.free_pages[1] = 0;
	rig_hot(rig, 100, 200, 100, 200, 1);
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT_EQUAL(rig->result.moved_pages, 0);
	CU_ASSERT_EQUAL(rig->result.limit, LIMIT_NO_ROOM);
	/* The configuration is ahead of the topology: nothing goes to a node that is none of its targets, */
	rig->config.target_nid = 0;
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT_EQUAL(rig->result.moved_pages, 0);
	CU_ASSERT_EQUAL(rig->result.limit, LIMIT_NO_TARGET);
	rig_free(rig);

	/* ... and nothing to one that is, but is not the configured one. */
	rig = rig_new(&plain);
	rig->config.target_nid = 1;
	rig->kernel.free_pages[1] = 0;
	rig_hot(rig, 100, 0, 100, 0, 0);
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT_EQUAL(rig->result.moved_pages, 0);
	CU_ASSERT_EQUAL(rig->result.limit, LIMIT_NO_ROOM);
	rig->now_ns += 10 * NSEC_PER_MSEC;
	rig->clock_looks = 0;
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT(rig->clock_looks < 10); /* nor does the scan go on for that one's sake */
	rig->kernel.free_pages[1] = RIG_NODE_PAGES / 2;
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT_EQUAL(rig->kernel.free_pages[1], RIG_NODE_PAGES / 2 - 100);
	rig_free(rig);
}

static void compact_records_go_to_the_configured_target(void)
{
	struct rig_options options = { .target_nid = 1 + 1, .layout = RECORD_COMPACT };
	struct rig *rig = rig_new(&options);

	rig_hot(rig, 100, 0, 100, 0, 1);
	rig->now_ns += 500 * NSEC_PER_MSEC;
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT_EQUAL(rig->result.moved_pages, 100);
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_CANDIDATES), 100);
	CU_ASSERT_EQUAL(rig->kernel.free_pages[1], RIG_NODE_PAGES / 2 - 100);
	rig_free(rig);
}

static void a_node_without_targets(void)
{
	struct rig *rig = rig_new(&plain);

	rig->params.nid = 0; /* fast: nothing is faster */
	migrator_free(rig->migrator);
	rig->migrator = migrator_new(&rig->params);
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT_EQUAL(rig->result.limit, LIMIT_NO_TARGET);
	rig->params.nid = 77; /* went away */
	migrator_free(rig->migrator);
	rig->migrator = migrator_new(&rig->params);
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT_EQUAL(rig->result.limit, LIMIT_NO_TARGET);
	rig_free(rig);
}

/* Observing, budget and room hold back what they would hold back. */
static void observe_shows_the_budget(void)
{
	struct rig *rig = rig_new(&plain);

	rig->config.mode = MODE_OBSERVE;
	rig->config.promote_rate_mib_per_sec = 80; /* 40 MiB/s, 4 MiB at once */
	rig_hot(rig, 100, 0, 2000, 0, 0);
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_WOULD_PROMOTE_PAGES), 1024);
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_RATE_LIMITED), 1);
	rig->now_ns += 50 * NSEC_PER_MSEC;
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_WOULD_PROMOTE_PAGES), 1536);
	rig->kernel.free_pages[0] = rig->kernel.free_pages[1] = RIG_NODE_PAGES * 3 / 100 + 201;
	rig->config.promote_rate_mib_per_sec = 65536;
	rig->now_ns += NSEC_PER_SEC;
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_WOULD_PROMOTE_PAGES), 1536 + 2 * 100);
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_NO_ROOM), 1);
	rig_free(rig);
}

/* Tokens of what did not move come back: the others get their full rate. */
static void failures_cost_no_budget(void)
{
	struct rig *rig = rig_new(&plain);
	struct fake_process *p = rig_process(rig, 100);

	rig->config.promote_rate_mib_per_sec = 80; /* 1024 pages at once */
	rig_hot(rig, 100, 0, 1000, 0, 0);
	for (size_t i = 0; i < 1000; i++)
		p->folios[i].flags = FAKE_PINNED;
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT_EQUAL(rig->result.limit, LIMIT_REFUSED);
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_MOVE_PINNED), 1000);
	rig_hot(rig, 101, 0, 1000, 5000, 0);
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT_EQUAL(rig->result.moved_pages, 1000);
	rig_free(rig);
}

static void old_heat_is_dropped(void)
{
	struct rig *rig = rig_new(&plain);

	rig_hot(rig, 100, 0, 10, 0, 0);
	rig->now_ns += 2 * NSEC_PER_SEC;
	rig_hot(rig, 100, 10, 10, 10, 0);
	rig->now_ns += 3 * NSEC_PER_SEC;
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT_EQUAL(rig->result.moved_pages, 10);
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_TOO_OLD), 10);
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_CANDIDATES), 10);
	/* A window that was made shorter is in force at once. */
	rig_hot(rig, 100, 0, 10, 0, 0);
	rig->now_ns += 1500 * NSEC_PER_MSEC;
	rig->config.promote_freq_window_ms = 1500;
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT_EQUAL(rig->result.limit, LIMIT_NOTHING_HOT);
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_TOO_OLD), 20);
	/* An access a little ahead of our clock is not a whole turn old. */
	rig->now_ns += 2 * NSEC_PER_MSEC;
	rig_hot(rig, 100, 0, 1, 0, 0);
	rig->now_ns -= 2 * NSEC_PER_MSEC;
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT_EQUAL(rig->result.moved_pages, 1);
	rig_free(rig);
}

/*
 * Five times as much is hot as the rate carries, and stays hot: the threshold comes down minute by minute, and what it
 * turns away is counted. Each second's accesses count once, however often their records are met.
 */
static void the_threshold_comes_down(void)
{
	struct rig *rig = rig_new(&plain);
	uint64_t candidates;

	rig->config.promote_rate_mib_per_sec = 1; /* 128 pages/s for this node */
	rig_process(rig, 100);
	for (int pass = 0; pass < 130 * 10; pass++) {
		/* 640 pages are touched in a second, spread over it. */
		for (uint64_t i = 0; i < 64; i++) {
			uint64_t page = (uint64_t)pass % 10 * 64 + i;
			uint64_t addr = rig_addr(100, page);
			struct fake_folio *f = fake_folio_find(fake_process_find(&rig->kernel, 100), addr);

			if (!f)
				f = fake_folio_add(fake_process_find(&rig->kernel, 100), addr, RIG_PAGE, 2, 0);
			f->nid = 2; /* demoted again meanwhile */
			rig_access(rig, 100, addr, rig_phys(2, page), RIG_PAGE, 0);
		}
		rig->kernel.free_pages[0] = RIG_NODE_PAGES / 2;
		CU_ASSERT_EQUAL(rig_pass(rig), 0);
		rig->now_ns += 100 * NSEC_PER_MSEC;
	}
	candidates = rig_stat(rig, STAT_CANDIDATES);
	CU_ASSERT(candidates >= 130 * 640 * 9 / 10 && candidates <= 130 * 640 * 11 / 10);
	CU_ASSERT(rig_stat(rig, STAT_PROMOTED_PAGES) >= 130 * 128 - 128);
	CU_ASSERT(rig_stat(rig, STAT_PROMOTED_PAGES) <= 131 * 128);
	CU_ASSERT_EQUAL(rig->result.limit, LIMIT_RATE);

	/* Two minutes have brought it from 5000 ms to 3750: what was touched 4 s ago is turned away now. */
	rig->config.promote_rate_mib_per_sec = 0;
	rig_hot(rig, 100, 2000, 50, 2000, 0);
	rig->now_ns += 4 * NSEC_PER_SEC;
	rig->config.promote_rate_mib_per_sec = 65536;
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT(rig_stat(rig, STAT_BELOW_THRESHOLD) >= 50);
	rig_free(rig);
}

TEST_MAIN(migrator_limits, TEST(the_rate_holds), TEST(rate_zero_moves_nothing), TEST(tuning_takes_effect),
	  TEST(waiting_costs_little), TEST(a_spent_target_does_not_stop_the_other),
	  TEST(a_grant_that_was_not_used_comes_back), TEST(parts_share_the_rate), TEST(headroom_is_never_crossed),
	  TEST(watermarks_are_headroom_too), TEST(no_room_on_the_first_goes_to_the_second),
	  TEST(no_memory_closes_the_target), TEST(a_closed_target_stays_closed), TEST(failures_cost_no_room),
	  TEST(a_configured_target_is_the_only_one), TEST(compact_records_go_to_the_configured_target),
	  TEST(a_node_without_targets), TEST(failures_cost_no_budget), TEST(old_heat_is_dropped),
	  TEST(the_threshold_comes_down), TEST(observe_shows_the_budget))
