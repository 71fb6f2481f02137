/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which control groups are left in peace, for how long, and what becomes of the guard where files are missing. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "config.h"
#include "guard.h"
#include "guard_pressure.h"
#include "harness.h"
#include "machine.h"
#include "owners.h"
#include "rcu.h"
#include "stats.h"

#define START_NS   (1000 * NSEC_PER_SEC)
#define RESUME_SEC 60
#define PID        100U
#define OTHER      101U
#define LOOK_SEC   (GUARD_PRESSURE_STEP_NS / NSEC_PER_SEC)

struct rig {
	struct machine machine;
	struct clock clock;
	uint64_t now_ns;
	struct owners *owners;
	struct stats *stats;
	struct config config;
	struct guard_pressure *guard;
};

static uint64_t rig_now(void *ctx)
{
	return ((struct rig *)ctx)->now_ns;
}

static void put_group(struct rig *r, const char *path, const char *percent, unsigned int kills, unsigned long swapped)
{
	char name[128];

	snprintf(name, sizeof(name), "sys/fs/cgroup%s/memory.pressure", path);
	machine_put(&r->machine, name, "some avg10=%s avg60=0.00 avg300=0.00 total=5\nfull avg10=0.00 avg60=0.00",
		    percent);
	snprintf(name, sizeof(name), "sys/fs/cgroup%s/memory.events", path);
	machine_put(&r->machine, name, "low 0\nhigh 0\nmax 3\noom 9\noom_kill %u\noom_group_kill 0", kills);
	snprintf(name, sizeof(name), "sys/fs/cgroup%s/memory.stat", path);
	machine_put(&r->machine, name, "anon 5\npswpin 0\npswpout %lu\nthp 0", swapped);
}

/* A process that something was promoted of, in the group at @cgroup. */
static void put_process(struct rig *r, uint32_t pid, const char *cgroup)
{
	struct owner *owner;
	char name[64];

	machine_process(&r->machine, pid, "x", 'S', 4194560, pid * 10);
	snprintf(name, sizeof(name), "proc/%u/status", pid);
	machine_put(&r->machine, name, "Name:\tx\nUid:\t0\t0\t0\t0\nVmRSS:\t 100 kB");
	snprintf(name, sizeof(name), "proc/%u/cgroup", pid);
	machine_put(&r->machine, name, "0::%s", cgroup);
	rcu_enter();
	if (owners_get(r->owners, pid, r->now_ns, &owner) < 0)
		abort();
	atomic_store_explicit(&owner->hot_bytes, 4096, memory_order_relaxed);
	rcu_leave();
}

static void rig_start(struct rig *r)
{
	struct guard_pressure_params params;

	*r = (struct rig){ .now_ns = START_NS };
	rcu_thread_start();
	machine_new(&r->machine);
	r->clock = (struct clock){ rig_now, r };
	r->owners = owners_new(&r->machine.root, 1);
	r->stats = stats_new();
	r->config = (struct config){ .guard_pressure_percent = 5, .guard_resume_after_sec = RESUME_SEC };
	params = (struct guard_pressure_params){
		.owners = r->owners, .root = r->machine.root, .clock = &r->clock, .counted = stats_slot_new(r->stats)
	};
	r->guard = guard_pressure_new(&params);
	machine_put(&r->machine, "sys/fs/cgroup/cgroup.controllers", "cpu memory");
}

static void rig_end(struct rig *r)
{
	guard_pressure_free(r->guard);
	owners_free(r->owners);
	stats_free(r->stats);
	machine_free(&r->machine);
	rcu_thread_stop();
}

static void look(struct rig *r)
{
	r->now_ns += GUARD_PRESSURE_STEP_NS;
	guard_pressure_step(r->guard, &r->config);
}

static bool holds(struct rig *r, uint32_t pid)
{
	struct owner *owner;
	bool held = false;

	rcu_enter();
	if (owners_get(r->owners, pid, r->now_ns, &owner) == 0)
		held = guard_pressure_holds(r->guard, &r->config, owner, r->now_ns);
	rcu_leave();
	return held;
}

static void who_waits_for_memory_is_left_in_peace(void)
{
	struct guard_pressure_view view[2];
	struct rig r;

	rig_start(&r);
	put_group(&r, "/a.slice", "4.99", 0, 0);
	put_group(&r, "/b.slice", "0.00", 0, 0);
	put_process(&r, PID, "/a.slice");
	put_process(&r, OTHER, "/b.slice");
	look(&r);
	CU_ASSERT_FALSE(holds(&r, PID));
	CU_ASSERT_EQUAL(guard_pressure_look(r.guard, view, 2), 0);
	put_group(&r, "/a.slice", "5.00", 0, 0);
	look(&r);
	CU_ASSERT(holds(&r, PID));
	CU_ASSERT_FALSE(holds(&r, OTHER));
	CU_ASSERT_EQUAL(stats_sum(r.stats, STAT_GUARD_PRESSURE), 1);
	CU_ASSERT_EQUAL(guard_pressure_look(r.guard, view, 2), 1);
	CU_ASSERT_STRING_EQUAL(view[0].path, "/a.slice");
	CU_ASSERT_EQUAL(view[0].cause, GUARD_PRESSURE);
	CU_ASSERT_EQUAL(view[0].left_ns, RESUME_SEC * NSEC_PER_SEC);
	/* As long as it lasts, and then for guard.resume_after_sec. */
	for (unsigned int i = 0; i < RESUME_SEC; i++)
		look(&r);
	CU_ASSERT(holds(&r, PID));
	put_group(&r, "/a.slice", "0.00", 0, 0);
	for (unsigned int i = 0; i < RESUME_SEC / LOOK_SEC - 1; i++)
		look(&r);
	CU_ASSERT(holds(&r, PID));
	look(&r);
	look(&r);
	CU_ASSERT_FALSE(holds(&r, PID));
	CU_ASSERT_EQUAL(guard_pressure_look(r.guard, view, 2), 0);
	CU_ASSERT_EQUAL(stats_sum(r.stats, STAT_GUARD_PRESSURE), 1);
	rig_end(&r);
}

static void kills_and_swap_out_hold(void)
{
	struct guard_pressure_view view;
	struct rig r;

	rig_start(&r);
	/* What was before the first look is none of ours. */
	put_group(&r, "/a.slice", "0.00", 7, 1000000);
	put_group(&r, "/b.slice", "0.00", 0, 50);
	put_process(&r, PID, "/a.slice");
	put_process(&r, OTHER, "/b.slice");
	look(&r);
	look(&r);
	CU_ASSERT_FALSE(holds(&r, PID));
	put_group(&r, "/a.slice", "0.00", 8, 1000000);
	/* 1 MiB is no more than that. */
	put_group(&r, "/b.slice", "0.00", 0, 50 + 256);
	look(&r);
	CU_ASSERT(holds(&r, PID));
	CU_ASSERT_FALSE(holds(&r, OTHER));
	CU_ASSERT_EQUAL(guard_pressure_look(r.guard, &view, 1), 1);
	CU_ASSERT_EQUAL(view.cause, GUARD_OOM);
	put_group(&r, "/b.slice", "0.00", 0, 50 + 256 + 257);
	look(&r);
	CU_ASSERT(holds(&r, OTHER));
	CU_ASSERT_EQUAL(stats_sum(r.stats, STAT_GUARD_OOM), 1);
	CU_ASSERT_EQUAL(stats_sum(r.stats, STAT_GUARD_SWAP), 1);
	rig_end(&r);
}

/* As kernels before pswpout was counted by group. */
static void what_is_in_swap_has_to_do(void)
{
	struct rig r;

	rig_start(&r);
	put_group(&r, "/a.slice", "0.00", 0, 0);
	machine_put(&r.machine, "sys/fs/cgroup/a.slice/memory.stat", "anon 5");
	machine_put(&r.machine, "sys/fs/cgroup/a.slice/memory.swap.current", "5000000");
	put_process(&r, PID, "/a.slice");
	look(&r);
	machine_put(&r.machine, "sys/fs/cgroup/a.slice/memory.swap.current", "1000000");
	look(&r);
	CU_ASSERT_FALSE(holds(&r, PID));
	machine_put(&r.machine, "sys/fs/cgroup/a.slice/memory.swap.current", "3000000");
	look(&r);
	CU_ASSERT(holds(&r, PID));
	rig_end(&r);
}

static void slow_is_a_sixteenth(void)
{
	unsigned int held = 0;
	struct rig r;

	rig_start(&r);
	put_group(&r, "/a.slice", "50.00", 0, 0);
	put_process(&r, PID, "/a.slice");
	look(&r);
	r.config.guard_action = GUARD_ACTION_SLOW;
	for (unsigned int i = 0; i < 2 * GUARD_SLOW_PART; i++) {
		held += holds(&r, PID);
		r.now_ns += NSEC_PER_SEC;
	}
	CU_ASSERT_EQUAL(held, 2 * GUARD_SLOW_PART - 2);
	rig_end(&r);
}

static void a_group_that_is_deleted_is_forgotten(void)
{
	struct guard_pressure_view view;
	struct rig r;

	rig_start(&r);
	put_group(&r, "/a.slice", "50.00", 0, 0);
	put_process(&r, PID, "/a.slice");
	look(&r);
	CU_ASSERT(holds(&r, PID));
	machine_remove(&r.machine, "sys/fs/cgroup/a.slice");
	look(&r);
	CU_ASSERT_FALSE(holds(&r, PID));
	CU_ASSERT_EQUAL(guard_pressure_look(r.guard, &view, 1), 0);
	/* Its place is another's now, and what was left with the owner isn't taken for that. */
	put_group(&r, "/c.slice", "50.00", 0, 0);
	put_process(&r, OTHER, "/c.slice");
	look(&r);
	CU_ASSERT(holds(&r, OTHER));
	CU_ASSERT_FALSE(holds(&r, PID));
	rig_end(&r);
}

static char said[4096];

/* A few looks; what was logged meanwhile is in said. */
static void look_and_listen(struct rig *r, int times)
{
	FILE *caught = tmpfile();
	int saved_fd = dup(STDERR_FILENO);
	size_t n;

	dup2(fileno(caught), STDERR_FILENO);
	for (int i = 0; i < times; i++)
		look(r);
	dup2(saved_fd, STDERR_FILENO);
	close(saved_fd);
	rewind(caught);
	n = fread(said, 1, sizeof(said) - 1, caught);
	said[n] = '\0';
	fclose(caught);
}

/* One group may be switched off, and then it isn't the kernel that has no PSI. */
static void a_group_without_psi_is_told_from_a_kernel_without(void)
{
	struct rig r;

	rig_start(&r);
	machine_put(&r.machine, "proc/pressure/memory", "some avg10=0.00 avg60=0.00 avg300=0.00 total=5");
	put_group(&r, "/a.slice", "0.00", 0, 0);
	put_group(&r, "/b.slice", "0.00", 0, 0);
	machine_remove(&r.machine, "sys/fs/cgroup/a.slice/memory.pressure");
	machine_remove(&r.machine, "sys/fs/cgroup/b.slice/memory.pressure");
	put_process(&r, PID, "/a.slice");
	put_process(&r, OTHER, "/b.slice");
	look_and_listen(&r, 3);
	CU_ASSERT_PTR_NOT_NULL(strstr(said, "control group /a.slice says nothing of its memory pressure"));
	CU_ASSERT_PTR_NULL(strstr(said, "/b.slice"));
	CU_ASSERT_PTR_NULL(strstr(said, "CONFIG_PSI"));
	machine_remove(&r.machine, "proc/pressure");
	look_and_listen(&r, 3);
	CU_ASSERT_PTR_NOT_NULL(strstr(said, "CONFIG_PSI"));
	look_and_listen(&r, 3);
	CU_ASSERT_STRING_EQUAL(said, "");
	rig_end(&r);
}

static void without_psi_the_rest_is_watched(void)
{
	struct rig r;

	rig_start(&r);
	put_group(&r, "/a.slice", "0.00", 0, 0);
	machine_remove(&r.machine, "sys/fs/cgroup/a.slice/memory.pressure");
	put_process(&r, PID, "/a.slice");
	look(&r);
	look(&r);
	CU_ASSERT_FALSE(holds(&r, PID));
	machine_put(&r.machine, "sys/fs/cgroup/a.slice/memory.events", "oom_kill 1");
	look(&r);
	CU_ASSERT(holds(&r, PID));
	rig_end(&r);
}

/* The group of a program is often one without the memory controller. */
static void the_group_above_is_watched(void)
{
	struct guard_pressure_view view;
	struct rig r;

	rig_start(&r);
	put_group(&r, "/a.slice", "50.00", 0, 0);
	machine_put(&r.machine, "sys/fs/cgroup/a.slice/b/c/cgroup.procs", "1");
	put_process(&r, PID, "/a.slice/b/c");
	look(&r);
	CU_ASSERT(holds(&r, PID));
	CU_ASSERT_EQUAL(guard_pressure_look(r.guard, &view, 1), 1);
	CU_ASSERT_STRING_EQUAL(view.path, "/a.slice");
	rig_end(&r);
}

static void without_cgroup_v2_it_is_the_machine(void)
{
	struct guard_pressure_view view;
	struct rig r;

	rig_start(&r);
	machine_remove(&r.machine, "sys/fs/cgroup");
	put_process(&r, PID, "/a.slice");
	look(&r);
	/* No PSI either: nothing is held. */
	CU_ASSERT_FALSE(holds(&r, PID));
	machine_put(&r.machine, "proc/pressure/memory", "some avg10=7.00 avg60=0.00 avg300=0.00 total=5");
	look(&r);
	CU_ASSERT(holds(&r, PID));
	CU_ASSERT_EQUAL(guard_pressure_look(r.guard, &view, 1), 1);
	CU_ASSERT_STRING_EQUAL(view.path, "");
	/* Nor where the names lead out of what can be seen. */
	machine_put(&r.machine, "sys/fs/cgroup/cgroup.controllers", "memory");
	put_process(&r, OTHER, "/../a.slice");
	look(&r);
	CU_ASSERT_FALSE(holds(&r, OTHER));
	CU_ASSERT_EQUAL(stats_sum(r.stats, STAT_GUARD_UNWATCHED), 1);
	rig_end(&r);
}

static void zero_is_off(void)
{
	struct rig r;

	rig_start(&r);
	put_group(&r, "/a.slice", "50.00", 0, 0);
	put_process(&r, PID, "/a.slice");
	look(&r);
	CU_ASSERT(holds(&r, PID));
	r.config.guard_pressure_percent = 0;
	look(&r);
	CU_ASSERT_FALSE(holds(&r, PID));
	rig_end(&r);
}

static void groups_are_bounded(void)
{
	char path[32];
	struct rig r;

	rig_start(&r);
	for (uint32_t i = 0; i < GUARD_GROUPS + 5; i++) {
		snprintf(path, sizeof(path), "/g%u", i);
		put_group(&r, path, "50.00", 0, 0);
		put_process(&r, PID + i, path);
	}
	look(&r);
	look(&r);
	CU_ASSERT(holds(&r, PID));
	CU_ASSERT(holds(&r, PID + GUARD_GROUPS - 1));
	CU_ASSERT_FALSE(holds(&r, PID + GUARD_GROUPS));
	CU_ASSERT_EQUAL(stats_sum(r.stats, STAT_GUARD_UNWATCHED), 5);
	rig_end(&r);
}

TEST_MAIN(guard_pressure, TEST(who_waits_for_memory_is_left_in_peace), TEST(kills_and_swap_out_hold),
	  TEST(what_is_in_swap_has_to_do), TEST(slow_is_a_sixteenth), TEST(a_group_that_is_deleted_is_forgotten),
	  TEST(without_psi_the_rest_is_watched), TEST(a_group_without_psi_is_told_from_a_kernel_without),
	  TEST(the_group_above_is_watched), TEST(without_cgroup_v2_it_is_the_machine), TEST(zero_is_off),
	  TEST(groups_are_bounded))
