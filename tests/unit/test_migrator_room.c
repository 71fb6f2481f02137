/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Room on a fast node that is full. Nodes 2 and 3 are slow. */
#include <stdio.h>
#include <stdlib.h>

#include "guard.h"
#include "harness.h"
#include "manage.h"
#include "manage_left.h"
#include "victims_rig.h"

#define OLD   100U /* has cold memory on node 0 */
#define HOT   200U
#define PAGES 512ULL
#define KEEP  (RIG_NODE_PAGES * 3 / 100 + 1) /* the headroom */

/* Node 0 is full to the headroom, node 1 too, and cold regions are known. */
static void full(struct victims_rig *v, uint64_t regions, uint64_t bytes, unsigned int flags)
{
	vrig_new(v);
	v->rig->kernel.free_pages[0] = v->rig->kernel.free_pages[1] = KEEP;
	vrig_maps(v, OLD, 0, regions * PAGES);
	vrig_map(v, OLD, 0, regions * PAGES, bytes, 0, flags);
	vrig_run(v, QUIET_SEC + 20);
}

static uint64_t pages_on(struct victims_rig *v, uint32_t pid, int nid)
{
	const struct fake_process *p = rig_process(v->rig, pid);
	uint64_t n = 0;

	for (size_t i = 0; i < p->n_folios; i++)
		n += p->folios[i].nid == nid ? p->folios[i].bytes / RIG_PAGE : 0;
	return n;
}

/* @n hot pages on node 2, and passes until nothing changes any more. */
static void promote(struct victims_rig *v, uint64_t n)
{
	rig_hot(v->rig, HOT, 0, n, 1000, 0);
	for (int i = 0; i < 6; i++) {
		CU_ASSERT_EQUAL(rig_pass(v->rig), 0);
		v->rig->now_ns += 100 * NSEC_PER_MSEC;
	}
}

static void cold_memory_makes_room(void)
{
	struct victims_rig v;

	full(&v, 20, RIG_PAGE, 0);
	promote(&v, 2048);
	CU_ASSERT_EQUAL(pages_on(&v, HOT, 0), 2048);
	/* No more than what came up needed. */
	CU_ASSERT_EQUAL(pages_on(&v, OLD, 2), 4 * PAGES);
	CU_ASSERT_EQUAL(rig_stat(v.rig, STAT_DEMOTED_PAGES), 4 * PAGES);
	CU_ASSERT_EQUAL(rig_stat(v.rig, STAT_DEMOTED_BYTES), 4 * RIG_HUGE);
	CU_ASSERT_EQUAL(rig_stat(v.rig, STAT_PROMOTED_PAGES), 2048);
	CU_ASSERT_EQUAL(rig_stat(v.rig, STAT_MOVE_OK), 2048 + 4 * PAGES);
	CU_ASSERT_EQUAL(v.rig->kernel.bad_calls, 0);
	CU_ASSERT(v.rig->kernel.free_pages[0] >= KEEP);
	vrig_free(&v);
}

/* What is freed lies in lists of the CPUs and doesn't show: @free less than there is are seen. */
static void hide(struct victims_rig *v, uint64_t was_listed, uint64_t free)
{
	v->rig->listed_pages[0] = was_listed + v->rig->kernel.free_pages[0] - free;
	v->rig->kernel.free_pages[0] = free;
}

static void room_is_not_made_twice(void)
{
	struct victims_rig v;

	full(&v, 40, RIG_PAGE, 0);
	v.rig->listed_pages[0] = 1000;
	for (uint64_t i = 0; i < 5; i++) {
		rig_hot(v.rig, HOT, i * 100, 100, 1000 + i * 100, 0);
		CU_ASSERT_EQUAL(rig_pass(v.rig), 0);
		hide(&v, i == 0 ? 1000 : v.rig->listed_pages[0], KEEP);
		/* However long ago that was. */
		v.rig->now_ns += 4 * NSEC_PER_SEC;
	}
	CU_ASSERT_EQUAL(pages_on(&v, HOT, 0), 500);
	CU_ASSERT_EQUAL(rig_stat(v.rig, STAT_DEMOTED_PAGES), PAGES);
	CU_ASSERT_EQUAL(v.rig->listed_pages[0], 1012);
	/* Somebody else took it. */
	v.rig->listed_pages[0] = 900;
	rig_hot(v.rig, HOT, 600, 10, 1600, 0);
	for (int i = 0; i < 3; i++) {
		CU_ASSERT_EQUAL(rig_pass(v.rig), 0);
		v.rig->now_ns += 100 * NSEC_PER_MSEC;
	}
	CU_ASSERT_EQUAL(pages_on(&v, HOT, 0), 510);
	CU_ASSERT_EQUAL(rig_stat(v.rig, STAT_DEMOTED_PAGES), 2 * PAGES);
	vrig_free(&v);
}

/* What is hidden counts for the headroom, too, and what shows isn't counted twice. */
static void the_headroom_is_filled_once(void)
{
	struct victims_rig v;

	full(&v, 40, RIG_PAGE, 0);
	v.rig->kernel.free_pages[0] = KEEP - 700;
	promote(&v, 100);
	CU_ASSERT_EQUAL(rig_stat(v.rig, STAT_DEMOTED_PAGES), 2 * PAGES);
	CU_ASSERT_EQUAL(v.rig->kernel.free_pages[0], KEEP + 224);
	/* A program takes some of it. What is lacked then is all that goes down. */
	v.rig->kernel.free_pages[0] = KEEP - 400;
	rig_hot(v.rig, HOT, 200, 100, 1200, 0);
	for (int i = 0; i < 3; i++) {
		CU_ASSERT_EQUAL(rig_pass(v.rig), 0);
		v.rig->now_ns += 100 * NSEC_PER_MSEC;
	}
	CU_ASSERT_EQUAL(pages_on(&v, HOT, 0), 200);
	CU_ASSERT_EQUAL(rig_stat(v.rig, STAT_DEMOTED_PAGES), 3 * PAGES);
	CU_ASSERT_EQUAL(v.rig->kernel.free_pages[0], KEEP - 400 + PAGES - 100);
	vrig_free(&v);
}

/* The kernel moves a huge page by one of its addresses, and finds the others busy. */
static void huge_pages_go_down_whole(void)
{
	struct victims_rig v;

	full(&v, 20, RIG_HUGE, 0);
	promote(&v, 2048);
	CU_ASSERT_EQUAL(pages_on(&v, HOT, 0), 2048);
	CU_ASSERT_EQUAL(pages_on(&v, OLD, 2), 4 * PAGES);
	CU_ASSERT_EQUAL(rig_stat(v.rig, STAT_DEMOTED_PAGES), 4 * PAGES);
	CU_ASSERT_EQUAL(rig_stat(v.rig, STAT_MOVE_OK), 2048 + 4 * PAGES);
	CU_ASSERT_EQUAL(rig_stat(v.rig, STAT_MOVE_BUSY), 0);
	CU_ASSERT_EQUAL(v.rig->kernel.bad_calls, 0);
	vrig_free(&v);
}

static void off_moves_nothing_down(void)
{
	struct victims_rig v;

	full(&v, 20, RIG_PAGE, 0);
	v.rig->config.make_room = ROOM_OFF;
	promote(&v, 100);
	CU_ASSERT_EQUAL(pages_on(&v, HOT, 2), 100);
	CU_ASSERT_EQUAL(rig_stat(v.rig, STAT_MOVE_CALLS), 0);
	CU_ASSERT_EQUAL(v.rig->result.limit, LIMIT_NO_ROOM);
	vrig_free(&v);
}

static void observing_moves_nothing_down(void)
{
	struct victims_rig v;

	full(&v, 20, RIG_PAGE, 0);
	v.rig->config.mode = MODE_OBSERVE;
	promote(&v, 100);
	CU_ASSERT_EQUAL(rig_stat(v.rig, STAT_MOVE_CALLS), 0);
	vrig_free(&v);
}

static void nothing_cold_is_said(void)
{
	struct victims_rig v;

	full(&v, 1, RIG_PAGE, 0);
	/* It was used just now. */
	rig_access(v.rig, OLD, rig_addr(OLD, 3), rig_phys(0, 3), RIG_PAGE, -1);
	promote(&v, 100);
	CU_ASSERT_EQUAL(pages_on(&v, OLD, 0), PAGES);
	CU_ASSERT_EQUAL(pages_on(&v, HOT, 2), 100);
	CU_ASSERT_EQUAL(v.rig->result.limit, LIMIT_NO_COLD);
	vrig_free(&v);
}

static void a_full_slow_node_takes_nothing(void)
{
	struct victims_rig v;

	full(&v, 20, RIG_PAGE, 0);
	v.rig->kernel.free_pages[2] = RIG_HIGH + 100;
	promote(&v, 100);
	CU_ASSERT_EQUAL(pages_on(&v, OLD, 0), 20 * PAGES);
	CU_ASSERT_EQUAL(v.rig->result.limit, LIMIT_LOWER_FULL);
	vrig_free(&v);
}

static void what_refuses_is_not_asked_again(void)
{
	struct victims_rig v;
	size_t calls;

	full(&v, 8, RIG_PAGE, FAKE_UNMOVABLE);
	promote(&v, 100);
	CU_ASSERT_EQUAL(pages_on(&v, OLD, 0), 8 * PAGES);
	CU_ASSERT_EQUAL(v.rig->result.limit, LIMIT_NO_COLD);
	calls = v.rig->kernel.move_calls;
	vrig_run(&v, 30);
	promote(&v, 100);
	CU_ASSERT_EQUAL(v.rig->kernel.move_calls, calls);
	vrig_free(&v);
}

/* What the kernel took below the headroom is made good first. */
static void the_headroom_comes_first(void)
{
	struct victims_rig v;

	full(&v, 40, RIG_PAGE, 0);
	v.rig->kernel.free_pages[0] = KEEP - 10 * PAGES;
	promote(&v, 100);
	CU_ASSERT_EQUAL(pages_on(&v, HOT, 0), 100);
	CU_ASSERT(v.rig->kernel.free_pages[0] >= KEEP);
	CU_ASSERT(pages_on(&v, OLD, 2) >= 11 * PAGES && pages_on(&v, OLD, 2) <= 24 * PAGES);
	vrig_free(&v);
}

static void down_keeps_to_the_rate(void)
{
	struct victims_rig v;

	full(&v, 40, RIG_PAGE, 0);
	v.rig->config.promote_rate_mib_per_sec = 20; /* a burst of 2 MiB */
	promote(&v, 4096);
	CU_ASSERT(pages_on(&v, OLD, 2) > 0);
	/* What is granted goes into debt by one step of 16 MiB at most. */
	CU_ASSERT(pages_on(&v, OLD, 2) <= (16 + 2 + 12) * 256);
	CU_ASSERT(pages_on(&v, HOT, 0) <= (2 + 12 + 2) * 256);
	CU_ASSERT_EQUAL(v.rig->result.limit, LIMIT_RATE);
	vrig_free(&v);
}

static void set_demotion(struct victims_rig *v, bool on)
{
	struct topology_options options = { .target_nid = -1 };
	struct topology *topology;
	char error[256];

	machine_put(&v->rig->machine, "sys/kernel/mm/numa/demotion_enabled", on ? "true" : "false");
	CU_ASSERT_EQUAL(topology_read(&v->rig->machine.root, &options, &topology, error, sizeof(error)), 0);
	topology_store_set(v->rig->topology, topology);
}

/* kswapd demotes: promotion goes below the headroom, at a quarter of the rate. */
static void the_kernel_makes_room(void)
{
	struct victims_rig v;

	full(&v, 20, RIG_PAGE, 0);
	set_demotion(&v, true);
	v.rig->config.make_room = ROOM_AUTO;
	v.rig->config.promote_rate_mib_per_sec = 80; /* 20 below the headroom, for two: in bursts of 1 MiB */
	rig_hot(v.rig, HOT, 0, 4096, 1000, 0);
	CU_ASSERT_EQUAL(rig_pass(v.rig), 0);
	CU_ASSERT(pages_on(&v, HOT, 0) >= 250 && pages_on(&v, HOT, 0) <= 260);
	CU_ASSERT_EQUAL(rig_stat(v.rig, STAT_DEMOTED_PAGES), 0);
	v.rig->now_ns += NSEC_PER_SEC;
	CU_ASSERT_EQUAL(rig_pass(v.rig), 0);
	CU_ASSERT(pages_on(&v, HOT, 0) <= 520);
	/* Down to the low watermark, 700 pages, and no further. */
	for (int i = 0; i < 60; i++) {
		v.rig->now_ns += 50 * NSEC_PER_MSEC;
		CU_ASSERT_EQUAL(rig_pass(v.rig), 0);
	}
	CU_ASSERT(v.rig->kernel.free_pages[0] >= 700);
	set_demotion(&v, false);
	vrig_free(&v);
}

/* demotion_enabled is switched while it runs: the way is another one in the next pass, and back. */
static void the_way_changes_while_it_runs(void)
{
	struct victims_rig v;
	uint64_t down;

	full(&v, 60, RIG_PAGE, 0);
	v.rig->config.make_room = ROOM_AUTO;
	set_demotion(&v, false);
	promote(&v, 100);
	down = rig_stat(v.rig, STAT_DEMOTED_PAGES);
	CU_ASSERT_EQUAL(pages_on(&v, HOT, 0), 100);
	CU_ASSERT(down > 0);

	/* The kernel demotes: nothing goes down by us any more, and promotion goes below the headroom. */
	set_demotion(&v, true);
	v.rig->now_ns += 4 * NSEC_PER_SEC;
	v.rig->kernel.free_pages[0] = KEEP;
	rig_hot(v.rig, HOT, 200, 2000, 3000, 0);
	for (int i = 0; i < 6; i++) {
		CU_ASSERT_EQUAL(rig_pass(v.rig), 0);
		v.rig->now_ns += 100 * NSEC_PER_MSEC;
	}
	CU_ASSERT_EQUAL(rig_stat(v.rig, STAT_DEMOTED_PAGES), down);
	CU_ASSERT(pages_on(&v, HOT, 0) > 100);
	CU_ASSERT(v.rig->kernel.free_pages[0] < KEEP);

	/* And doesn't any more: what went below the headroom is made good, and then room is made. */
	set_demotion(&v, false);
	vrig_run(&v, 15);
	v.rig->kernel.free_pages[0] = KEEP - 100;
	rig_hot(v.rig, HOT, 3000, 100, 6000, 0);
	for (int i = 0; i < 6; i++) {
		CU_ASSERT_EQUAL(rig_pass(v.rig), 0);
		v.rig->now_ns += 100 * NSEC_PER_MSEC;
	}
	CU_ASSERT(rig_stat(v.rig, STAT_DEMOTED_PAGES) > down);
	CU_ASSERT(v.rig->kernel.free_pages[0] >= KEEP);
	vrig_free(&v);
}

/* Nothing on the fast node is managed, and the kernel demotes nothing: no call is made, again and again. */
static void nothing_may_go_down(void)
{
	struct victims_rig v;

	vrig_new(&v);
	v.rig->kernel.free_pages[0] = v.rig->kernel.free_pages[1] = KEEP;
	vrig_run(&v, QUIET_SEC + 20);
	promote(&v, 100);
	vrig_run(&v, 20);
	promote(&v, 100);
	CU_ASSERT_EQUAL(pages_on(&v, HOT, 2), 100);
	CU_ASSERT_EQUAL(rig_stat(v.rig, STAT_MOVE_CALLS), 0);
	CU_ASSERT_EQUAL(v.rig->result.limit, LIMIT_NO_COLD);
	vrig_free(&v);
}

/* A process that plays ping-pong rests: what is promoted is of the others. */
static void who_rests_stays(void)
{
	struct victims_rig v;
	struct guard_params params;
	struct owner *owner;
	struct guard *guard;

	full(&v, 60, RIG_PAGE, 0);
	v.rig->config.guard_ping_pong_percent = 10;
	v.rig->config.guard_resume_after_sec = 100;
	params = (struct guard_params){ .root = v.rig->machine.root,
					.clock = &v.rig->clock,
					.stats = v.rig->stats,
					.counted = v.rig->params.stats,
					.owners = v.rig->owners };
	guard = guard_new(&params);
	migrator_free(v.rig->migrator);
	v.rig->params.guard = guard;
	v.rig->migrator = migrator_new(&v.rig->params);
	rig_hot(v.rig, HOT, 0, 100, 1000, 0);
	rig_hot(v.rig, HOT + 1, 0, 100, 2000, 0);
	rcu_enter();
	CU_ASSERT_EQUAL_FATAL(owners_get(v.rig->owners, HOT, v.rig->now_ns, &owner), 0);
	for (uint64_t i = 0; i < 8000; i++)
		guard_note_up(guard, owner->slot, owner->start_ticks, i % 4000 * RIG_PAGE, v.rig->now_ns);
	rcu_leave();
	guard_step(guard, &v.rig->config, RIG_NODE_BYTES);
	for (int i = 0; i < 6; i++) {
		CU_ASSERT_EQUAL(rig_pass(v.rig), 0);
		v.rig->now_ns += 100 * NSEC_PER_MSEC;
	}
	CU_ASSERT_EQUAL(pages_on(&v, HOT, 0), 0);
	CU_ASSERT_EQUAL(pages_on(&v, HOT + 1, 0), 100);
	CU_ASSERT_EQUAL(manage_left_bytes(migrator_left(v.rig->migrator), LEFT_PING_PONG), 100 * RIG_PAGE);
	/* Its time is over. */
	v.rig->now_ns += 100 * NSEC_PER_SEC;
	guard_step(guard, &v.rig->config, RIG_NODE_BYTES);
	rig_hot(v.rig, HOT, 0, 100, 1000, 0);
	for (int i = 0; i < 6; i++) {
		CU_ASSERT_EQUAL(rig_pass(v.rig), 0);
		v.rig->now_ns += 100 * NSEC_PER_MSEC;
	}
	CU_ASSERT_EQUAL(pages_on(&v, HOT, 0), 100);
	vrig_free(&v);
	guard_free(guard);
}

/* What is held out does better: nothing is moved, though there is room; or a sixteenth of the rate. */
static void a_guard_stops_all(void)
{
	static const int actions[] = { GUARD_ACTION_PAUSE, GUARD_ACTION_SLOW };

	for (int k = 0; k < 2; k++) {
		struct victims_rig v;
		struct guard_params params;
		struct guard *guard;

		vrig_new(&v);
		v.rig->config.guard_action = actions[k];
		v.rig->config.guard_holdout_percent = 1;
		v.rig->config.guard_resume_after_sec = 100;
		v.rig->config.promote_rate_mib_per_sec = 64; /* a share of 32, a sixteenth of it is 2 */
		params = (struct guard_params){ .root = v.rig->machine.root,
						.clock = &v.rig->clock,
						.stats = v.rig->stats,
						.counted = v.rig->params.stats };
		guard = guard_new(&params);
		migrator_free(v.rig->migrator);
		v.rig->params.guard = guard;
		v.rig->migrator = migrator_new(&v.rig->params);
		for (uint64_t i = 1; i <= 3; i++) {
			stats_add(v.rig->params.stats, STAT_MOVE_NS, 1000);
			guard_note_help(guard, &v.rig->config,
					&(struct guard_help){
						.windows = i, .known = true, .saved = -1, .margin = 0.1 });
		}
		CU_ASSERT_EQUAL(guard_holds(guard), GUARD_HOLDOUT);
		rig_hot(v.rig, HOT, 0, 4096, 1000, 0);
		for (int i = 0; i < 10; i++) {
			CU_ASSERT_EQUAL(rig_pass(v.rig), 0);
			v.rig->now_ns += 100 * NSEC_PER_MSEC;
		}
		if (actions[k] == GUARD_ACTION_PAUSE) {
			CU_ASSERT_EQUAL(pages_on(&v, HOT, 0), 0);
			CU_ASSERT_EQUAL(v.rig->result.limit, LIMIT_GUARD_ALL);
		} else {
			CU_ASSERT(pages_on(&v, HOT, 0) >= 256 && pages_on(&v, HOT, 0) <= 1024);
		}
		v.rig->now_ns += 100 * NSEC_PER_SEC;
		guard_step(guard, &v.rig->config, RIG_NODE_BYTES);
		rig_hot(v.rig, HOT, 0, 4096, 1000, 0);
		for (int i = 0; i < 10; i++) {
			CU_ASSERT_EQUAL(rig_pass(v.rig), 0);
			v.rig->now_ns += 100 * NSEC_PER_MSEC;
		}
		CU_ASSERT(pages_on(&v, HOT, 0) > 3000);
		vrig_free(&v);
		guard_free(guard);
	}
}

static void the_way_is_chosen(void)
{
	static const struct {
		enum config_room option;
		bool demotion;
		enum migrator_way way;
	} cases[] = {
		{ ROOM_AUTO, true, WAY_KERNEL },       { ROOM_AUTO, false, WAY_EXCHANGE },
		{ ROOM_KERNEL, true, WAY_KERNEL },     { ROOM_KERNEL, false, WAY_NONE },
		{ ROOM_EXCHANGE, true, WAY_EXCHANGE }, { ROOM_EXCHANGE, false, WAY_EXCHANGE },
		{ ROOM_OFF, true, WAY_NONE },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct config config = { .make_room = (int)cases[i].option };
		struct topology topology = { .demotion_enabled = cases[i].demotion };

		CU_ASSERT_EQUAL(migrator_way(&config, &topology), cases[i].way);
	}
}

/* What /proc shows of a process, but for its mappings. */
static void put_facts(struct victims_rig *v, uint32_t pid)
{
	struct machine *m = &v->rig->machine;
	char path[64];

	snprintf(path, sizeof(path), "proc/%u/status", pid);
	machine_put(m, path, "Name:\tx\nUid:\t5\t5\t5\t5\nVmLck:\t     512 kB\nVmRSS:\t  10240 kB\nThreads:\t1");
	snprintf(path, sizeof(path), "proc/%u/cgroup", pid);
	machine_put(m, path, "0::/a.slice/b.service");
	snprintf(path, sizeof(path), "proc/%u/exe", pid);
	machine_link(m, path, "/usr/bin/x");
	snprintf(path, sizeof(path), "proc/%u/fd/.keep", pid);
	machine_put_bytes(m, path, "", 0);
	snprintf(path, sizeof(path), "proc/%u/task/%u/stat", pid, pid);
	machine_put(m, path, "1 (x) S");
}

/* Of each region the first half is plain memory, then a quarter is bound by its program, and a quarter locked. */
static void put_mixed_maps(struct victims_rig *v, uint32_t pid, uint64_t regions)
{
	static const struct {
		uint64_t first, end;
		const char *policy, *flags;
	} part[] = { { 0, 256, "default", "rd wr mr" },
		     { 256, 384, "bind:0", "rd wr mr" },
		     { 384, 512, "default", "rd wr mr lo" } };
	char *maps = NULL, *numa = NULL, *smaps = NULL, path[64];
	size_t size[3];
	FILE *to[3] = { open_memstream(&maps, &size[0]), open_memstream(&numa, &size[1]),
			open_memstream(&smaps, &size[2]) };

	for (uint64_t i = 0; i < regions * 3; i++) {
		unsigned long long start = rig_addr(pid, i / 3 * PAGES + part[i % 3].first),
				   end = rig_addr(pid, i / 3 * PAGES + part[i % 3].end);

		fprintf(to[0], "%llx-%llx rw-p 00000000 00:00 0 \n", start, end);
		fprintf(to[1], "%llx %s anon=1 N0=1\n", start, part[i % 3].policy);
		fprintf(to[2], "%llx-%llx rw-p 00000000 00:00 0 \nVmFlags: %s \n", start, end, part[i % 3].flags);
	}
	for (int i = 0; i < 3; i++)
		fclose(to[i]);
	snprintf(path, sizeof(path), "proc/%u/maps", pid);
	machine_put(&v->rig->machine, path, "%s", maps);
	snprintf(path, sizeof(path), "proc/%u/numa_maps", pid);
	machine_put(&v->rig->machine, path, "%s", numa);
	snprintf(path, sizeof(path), "proc/%u/smaps", pid);
	machine_put(&v->rig->machine, path, "%s", smaps);
	free(maps);
	free(numa);
	free(smaps);
}

/* Several kinds of memory in one region: only that goes down which may. */
static void each_page_that_goes_down_may_move(void)
{
	struct victims_rig v;
	struct manage *manage;
	struct fake_process *p;

	vrig_new(&v);
	v.rig->kernel.free_pages[0] = v.rig->kernel.free_pages[1] = KEEP;
	v.rig->config.manage_default = true;
	manage = manage_new(v.rig->owners, &v.rig->machine.root, &v.rig->clock, v.rig->topology);
	v.rig->params.manage = manage;
	vrig_renew(&v);
	vrig_maps(&v, OLD, 0, 20 * PAGES);
	put_facts(&v, OLD);
	put_mixed_maps(&v, OLD, 20);
	vrig_map(&v, OLD, 0, 20 * PAGES, RIG_PAGE, 0, 0);
	for (int i = 0; i < 2; i++) {
		vrig_run(&v, QUIET_SEC + 20);
		manage_step(manage, &v.rig->config, NSEC_PER_SEC, NULL);
	}
	vrig_maps(&v, HOT, 0, 4 * PAGES);
	put_facts(&v, HOT);
	put_mixed_maps(&v, HOT, 4);
	rig_hot(v.rig, HOT, 0, 200, 1000, 0);
	for (int i = 0; i < 10; i++) {
		CU_ASSERT_EQUAL(rig_pass(v.rig), 0);
		manage_step(manage, &v.rig->config, NSEC_PER_SEC, NULL);
		v.rig->now_ns += 100 * NSEC_PER_MSEC;
	}
	CU_ASSERT_EQUAL(pages_on(&v, HOT, 0), 200);
	CU_ASSERT(pages_on(&v, OLD, 2) > 0);
	p = rig_process(v.rig, OLD);
	for (size_t i = 0; i < p->n_folios; i++)
		if (p->folios[i].nid != 0)
			CU_ASSERT((p->folios[i].addr / RIG_PAGE) % PAGES < 256);
	CU_ASSERT_EQUAL(v.rig->kernel.bad_calls, 0);
	/* Nor is the rest of them cold memory that could go. */
	for (uint64_t i = 0; i < 20; i++)
		for (uint64_t k = 0; k < 256; k++)
			fake_folio_find(p, rig_addr(OLD, i * PAGES + k))->nid = 2;
	vrig_run(&v, 15);
	CU_ASSERT_EQUAL(victims_cold_bytes(v.victims, 0), 0);
	vrig_free(&v);
	manage_free(manage);
}

TEST_MAIN(migrator_room, TEST(cold_memory_makes_room), TEST(room_is_not_made_twice), TEST(the_headroom_is_filled_once),
	  TEST(huge_pages_go_down_whole), TEST(off_moves_nothing_down), TEST(observing_moves_nothing_down),
	  TEST(nothing_cold_is_said), TEST(a_full_slow_node_takes_nothing), TEST(what_refuses_is_not_asked_again),
	  TEST(the_headroom_comes_first), TEST(down_keeps_to_the_rate), TEST(the_kernel_makes_room),
	  TEST(the_way_changes_while_it_runs), TEST(nothing_may_go_down), TEST(each_page_that_goes_down_may_move),
	  TEST(who_rests_stays), TEST(a_guard_stops_all), TEST(the_way_is_chosen))
