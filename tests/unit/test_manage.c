/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>

#include "harness.h"
#include "manage.h"
#include "manage_fast.h"
#include "manage_left.h"
#include "migrator_rig.h"
#include "mover_rest.h"
#include "owners_map.h"

#define MIB  (1ULL << 20)
#define STEP (50 * NSEC_PER_MSEC)

static const struct rig_options plain = { 0 };
static struct manage *manage;

/* A rig whose migrator asks who is managed. */
static struct rig *managed_rig(void)
{
	struct rig *rig = rig_new(&plain);

	machine_remove(&rig->machine, "sys/fs");
	rig->config.manage_default = true;
	manage = manage_new(rig->owners, &rig->machine.root, &rig->clock, rig->topology);
	rig->params.manage = manage;
	migrator_free(rig->migrator);
	rig->migrator = migrator_new(&rig->params);
	return rig;
}

static void managed_rig_free(struct rig *rig)
{
	rig_free(rig);
	manage_free(manage);
}

static void put(struct rig *rig, uint32_t pid, const char *file, const char *text)
{
	char path[128];

	snprintf(path, sizeof(path), "proc/%u/%s", pid, file);
	machine_put(&rig->machine, path, "%s", text);
}

/* What /proc shows of a process with one large piece of anonymous memory, of @policy and @perms. */
static void put_memory(struct rig *rig, uint32_t pid, const char *policy, const char *perms, const char *path)
{
	uint64_t start = rig_addr(pid, 0), end = start + (1ULL << 31);
	char line[256];

	snprintf(line, sizeof(line), "%llx-%llx %s 00000000 00:00 0 %s", (unsigned long long)start,
		 (unsigned long long)end, perms, path);
	put(rig, pid, "maps", line);
	snprintf(line, sizeof(line), "%llx %s anon=1 N2=1", (unsigned long long)start, policy);
	put(rig, pid, "numa_maps", line);
}

static void put_status(struct rig *rig, uint32_t pid, const char *more)
{
	char text[256];

	snprintf(text, sizeof(text), "Name:\tx\nUid:\t5\t5\t5\t5\nVmRSS:\t  10240 kB%s\nThreads:\t1", more);
	put(rig, pid, "status", text);
}

/* Process @pid with all its files, and @n hot pages of it on node 2. */
static void put_process(struct rig *rig, uint32_t pid, uint64_t n)
{
	char path[64];

	rig_process(rig, pid);
	put_status(rig, pid, "");
	put(rig, pid, "cgroup", "0::/a.slice/b.service");
	snprintf(path, sizeof(path), "proc/%u/exe", pid);
	machine_link(&rig->machine, path, "/usr/bin/x");
	put(rig, pid, "fd/.keep", "");
	snprintf(path, sizeof(path), "task/%u/stat", pid);
	put(rig, pid, path, "1 (x) S");
	put_memory(rig, pid, "default", "rw-p", "");
	rig_hot(rig, pid, 0, n, (uint64_t)(pid - 99) * 4096, 0);
}

static size_t look(struct rig *rig)
{
	return manage_step(manage, &rig->config, STEP, NULL);
}

/* A pass, a look at who was asked for, and a pass. */
static uint64_t moves(struct rig *rig)
{
	uint64_t before = rig->kernel.moved_pages;

	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	look(rig);
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	return rig->kernel.moved_pages - before;
}

static uint64_t left(struct rig *rig, enum manage_reason reason)
{
	return manage_left_bytes(migrator_left(rig->migrator), reason);
}

static void what_is_not_known_stays_for_now(void)
{
	struct rig *rig = managed_rig();

	put_process(rig, 100, 50);
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT_EQUAL(rig->kernel.move_calls + rig->kernel.query_calls, 0);
	CU_ASSERT_EQUAL(rig->result.limit, LIMIT_WAITING);
	CU_ASSERT(left(rig, LEFT_NOT_LOOKED_AT) >= 49 * RIG_PAGE && left(rig, LEFT_NOT_LOOKED_AT) <= 51 * RIG_PAGE);
	CU_ASSERT_EQUAL(look(rig), 1);
	CU_ASSERT_EQUAL(look(rig), 0); /* nobody asked again */
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT_EQUAL(rig->result.moved_pages, 50);
	CU_ASSERT_EQUAL(rig->kernel.move_all_calls, 0);
	/* Memory that was mapped since is not known. */
	rig_access(rig, 100, rig_addr(100, 1ULL << 19), rig_phys(2, 9), RIG_PAGE, 0);
	CU_ASSERT_EQUAL(moves(rig), 0);
	CU_ASSERT_EQUAL(rig->result.limit, LIMIT_WAITING);
	/* Its time runs out. */
	rig->now_ns += 6 * NSEC_PER_SEC;
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT_EQUAL(rig->result.limit, LIMIT_NOTHING_HOT);
	managed_rig_free(rig);
}

/* What can't be read leaves all alone. */
static void files_that_are_missing(void)
{
	static const char *const files[] = { "status", "maps", "numa_maps", "fd", "task" };

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		struct rig *rig = managed_rig();
		char path[64];

		put_process(rig, 100, 10);
		snprintf(path, sizeof(path), "proc/100/%s", files[i]);
		machine_remove(&rig->machine, path);
		CU_ASSERT_EQUAL(moves(rig), 0);
		CU_ASSERT_EQUAL(left(rig, LEFT_NOT_LOOKED_AT), 10 * RIG_PAGE);
		CU_ASSERT_EQUAL(rig->result.limit, LIMIT_WAITING);
		managed_rig_free(rig);
	}
}

static void set_rule(struct rig *rig, const char *match, enum rule_mode mode)
{
	struct rule *rule = &rig->config.manage_rules.rule[0];

	rule_init(rule);
	snprintf(rule->match, sizeof(rule->match), "%s", match);
	rule->mode = (uint8_t)mode;
	rig->config.manage_rules.n = 1;
}

static void device(struct rig *rig)
{
	machine_link(&rig->machine, "proc/100/fd/9", "/dev/vfio/1");
}

static void device_mapped(struct rig *rig)
{
	char text[256];

	snprintf(text, sizeof(text),
		 "1000-2000 rw-s 00000000 00:05 9    /dev/infiniband/uverbs0\n%llx-%llx rw-p 0 00:00 0 ",
		 (unsigned long long)rig_addr(100, 0), (unsigned long long)rig_addr(100, 1 << 19));
	put(rig, 100, "maps", text);
}

static void pinned(struct rig *rig)
{
	put_status(rig, 100, "\nVmPin:\t 4 kB");
}

static void real_time(struct rig *rig)
{
	put(rig, 100, "task/105/stat",
	    "1 (x) S 1 1 1 0 -1 0 1 0 0 0 1 1 0 0 -51 0 1 0 1000 1 1 1 1 1 1 0 0 0 0 0 0 0 0 0 17 0 50 1 0 0 0");
}

static void rule_off(struct rig *rig)
{
	set_rule(rig, "cgroup:/a.slice/**", RULE_OFF);
}

static void not_by_default(struct rig *rig)
{
	rig->config.manage_default = false;
}

static void too_small(struct rig *rig)
{
	set_rule(rig, "exe:/usr/bin/x", RULE_UNSET);
	rig->config.manage_rules.rule[0].min_rss_mib = 11;
}

static void bound(struct rig *rig)
{
	put_memory(rig, 100, "bind:0-1", "rw-p", "");
}

static void locked(struct rig *rig)
{
	char text[256];

	put_status(rig, 100, "\nVmLck:\t 4 kB");
	snprintf(text, sizeof(text), "%llx-%llx rw-p 00000000 00:00 0 \nVmFlags: rd wr lo sd ",
		 (unsigned long long)rig_addr(100, 0), (unsigned long long)rig_addr(100, 1 << 19));
	put(rig, 100, "smaps", text);
}

static void hugetlb(struct rig *rig)
{
	put_memory(rig, 100, "default file=/anon_hugepage huge", "rw-p", "/anon_hugepage (deleted)");
}

static void common(struct rig *rig)
{
	put_memory(rig, 100, "default", "rw-s", "/dev/zero (deleted)");
}

static void file(struct rig *rig)
{
	put_memory(rig, 100, "default file=/x", "r--p", "/x");
}

static const struct {
	void (*set_up)(struct rig *rig);
	enum manage_reason reason;
	unsigned int kind;
} reasons[] = {
	{ device, LEFT_DEVICE, 0 },           { device_mapped, LEFT_DEVICE, 0 },
	{ pinned, LEFT_PINNED, 0 },           { real_time, LEFT_REAL_TIME, 0 },
	{ rule_off, LEFT_RULE, 0 },           { not_by_default, LEFT_RULE, 0 },
	{ too_small, LEFT_SMALL, 0 },         { bound, LEFT_POLICY, 0 },
	{ locked, LEFT_LOCKED, KIND_LOCKED }, { hugetlb, LEFT_HUGETLB, KIND_HUGETLB },
	{ common, LEFT_SHARED, KIND_SHARED }, { file, LEFT_FILE, KIND_FILE },
};

#define N_REASONS (sizeof(reasons) / sizeof(reasons[0]))

/* Each by itself, counted by its name; nobody else suffers. */
static void all_that_is_left_alone(void)
{
	for (size_t i = 0; i < N_REASONS; i++) {
		struct rig *rig = managed_rig();

		put_process(rig, 100, 20);
		put_process(rig, 101, 7);
		reasons[i].set_up(rig);
		if (reasons[i].set_up == rule_off || reasons[i].set_up == too_small)
			put(rig, 101, "cgroup", "0::/else");
		if (reasons[i].set_up == too_small)
			put_status(rig, 101, "\nVmRSS:\t 99999999 kB");
		CU_ASSERT_EQUAL(moves(rig),
				reasons[i].set_up == not_by_default || reasons[i].set_up == too_small ? 0 : 7);
		CU_ASSERT(left(rig, reasons[i].reason) >= 20 * RIG_PAGE);
		for (int other = 0; other < LEFT_NOT_LOOKED_AT; other++)
			CU_ASSERT(other == (int)reasons[i].reason || left(rig, (enum manage_reason)other) == 0);
		managed_rig_free(rig);
	}
}

/* ... unless it is allowed: for all, or by the rule of that process. */
static void kinds_can_be_allowed(void)
{
	for (size_t i = 0; i < N_REASONS; i++) {
		for (int by_rule = 0; reasons[i].kind && by_rule < 2; by_rule++) {
			struct rig *rig = managed_rig();
			unsigned int kind = reasons[i].kind;

			put_process(rig, 100, 20);
			reasons[i].set_up(rig);
			rig->config.kinds_shared = !by_rule && kind == KIND_SHARED;
			rig->config.kinds_hugetlb = !by_rule && kind == KIND_HUGETLB;
			rig->config.kinds_locked = !by_rule && kind == KIND_LOCKED;
			rig->config.kinds_file = !by_rule && kind == KIND_FILE;
			if (by_rule) {
				set_rule(rig, "user:5", RULE_UNSET);
				rig->config.manage_rules.rule[0].kinds_set = (uint8_t)kind;
				rig->config.manage_rules.rule[0].kinds = (uint8_t)kind;
			}
			if (kind == KIND_SHARED)
				for (size_t k = 0; k < 20; k++)
					rig->kernel.process[0].folios[k].flags = FAKE_SHARED;
			CU_ASSERT_EQUAL(moves(rig), 20);
			CU_ASSERT_EQUAL(rig->kernel.move_all_calls > 0, kind == KIND_SHARED);
			CU_ASSERT_EQUAL(left(rig, reasons[i].reason), 0);
			managed_rig_free(rig);
		}
	}
	/* And a rule can take back what is allowed for all. */
	struct rig *rig = managed_rig();

	put_process(rig, 100, 20);
	common(rig);
	rig->config.kinds_shared = true;
	set_rule(rig, "user:5", RULE_UNSET);
	rig->config.manage_rules.rule[0].kinds_set = KIND_SHARED;
	CU_ASSERT_EQUAL(moves(rig), 0);
	CU_ASSERT_EQUAL(left(rig, LEFT_SHARED), 20 * RIG_PAGE);
	managed_rig_free(rig);
}

/* A change of the rules holds for all that is moved after it. */
static void rules_change(void)
{
	struct rig *rig = managed_rig();

	put_process(rig, 100, 20);
	CU_ASSERT_EQUAL(moves(rig), 20);
	rig_hot(rig, 100, 100, 5, 100, 0);
	rule_off(rig);
	look(rig);
	CU_ASSERT_EQUAL(moves(rig), 0);
	CU_ASSERT_EQUAL(left(rig, LEFT_RULE), 5 * RIG_PAGE);
	rig->config.manage_rules.n = 0;
	look(rig);
	rig_hot(rig, 100, 100, 5, 100, 0);
	CU_ASSERT_EQUAL(moves(rig), 5);
	managed_rig_free(rig);
}

/* Observing by rule: counted, not moved, while others move. */
static void a_rule_may_observe(void)
{
	struct rig *rig = managed_rig();

	put_process(rig, 100, 20);
	put_process(rig, 101, 7);
	put(rig, 101, "cgroup", "0::/else");
	set_rule(rig, "unit:b.service", RULE_OBSERVE);
	CU_ASSERT_EQUAL(moves(rig), 7);
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_WOULD_PROMOTE_PAGES), 20);
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_WOULD_PROMOTE_BYTES), 20 * RIG_PAGE);
	managed_rig_free(rig);
}

/* Observing walks the same path: what would be left alone is not counted as what would move. */
static void observing_leaves_the_same_alone(void)
{
	struct rig *rig = managed_rig();

	rig->config.mode = MODE_OBSERVE;
	put_process(rig, 100, 20);
	put_process(rig, 101, 7);
	bound(rig);
	CU_ASSERT_EQUAL(moves(rig), 0);
	CU_ASSERT_EQUAL(rig->kernel.query_calls, 0);
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_WOULD_PROMOTE_PAGES), 7);
	CU_ASSERT_EQUAL(left(rig, LEFT_POLICY), 20 * RIG_PAGE);
	managed_rig_free(rig);
}

static void a_rule_has_its_target(void)
{
	struct rig *rig = managed_rig();

	put_process(rig, 100, 20);
	set_rule(rig, "user:5", RULE_UNSET);
	rig->config.manage_rules.rule[0].target_nid = 1;
	CU_ASSERT_EQUAL(moves(rig), 20);
	CU_ASSERT_EQUAL(rig->kernel.process[0].folios[0].nid, 1);
	/* One that is no target of this node: nothing moves, and it is said. */
	rig->config.manage_rules.rule[0].target_nid = 3;
	look(rig);
	rig_hot(rig, 100, 100, 5, 100, 0);
	CU_ASSERT_EQUAL(moves(rig), 0);
	CU_ASSERT_EQUAL(left(rig, LEFT_RULE), 5 * RIG_PAGE);
	managed_rig_free(rig);
}

/* 4 MiB a second, shared out over two slow nodes: its own bucket, and others don't wait for it. */
static void a_rule_has_its_rate(void)
{
	struct rig *rig = managed_rig();
	uint64_t moved = 0;

	put_process(rig, 100, 3000);
	put_process(rig, 101, 500);
	put(rig, 101, "cgroup", "0::/else");
	set_rule(rig, "unit:b.service", RULE_UNSET);
	rig->config.manage_rules.rule[0].rate_mib_per_sec = 4;
	moves(rig);
	moved = rig->kernel.moved_pages;
	CU_ASSERT_EQUAL(moved, 500 + 2 * MIB / 10 / RIG_PAGE + 1); /* a burst of 100 ms, rounded up to a page */
	CU_ASSERT_EQUAL(rig->result.limit, LIMIT_RULE_RATE);
	for (int i = 0; i < 20; i++) {
		rig->now_ns += 100 * NSEC_PER_MSEC;
		CU_ASSERT_EQUAL(rig_pass(rig), 0);
	}
	/* Two seconds, within a page. */
	moved = rig->kernel.moved_pages - moved;
	CU_ASSERT(moved >= 4 * MIB / RIG_PAGE - 1 && moved <= 4 * MIB / RIG_PAGE + 1);
	managed_rig_free(rig);
}

/* A page that fails gives its tokens back, to its rule as well. */
/* Percent of the fast tier of 2 GiB that the programs of the rule may have. */
static void set_share(struct rig *rig, const char *match, int percent)
{
	set_rule(rig, match, RULE_UNSET);
	rig->config.manage_rules.rule[0].fast_max_percent = percent;
}

/* What numa_maps says of @pid: @fast base pages on node 0. */
static void put_usage(struct rig *rig, uint32_t pid, uint64_t fast)
{
	char line[256];

	snprintf(line, sizeof(line),
		 "%llx default anon=1 N0=%llu N2=5 kernelpagesize_kB=4\n7fff00000000 default file=/a\\040N1=9 N1=1 "
		 "kernelpagesize_kB=2048",
		 (unsigned long long)rig_addr(pid, 0), (unsigned long long)fast);
	put(rig, pid, "numa_maps", line);
}

/* The limit is 1% of 2 GiB, 5242 pages. Each of the two has a huge page on a fast node; at first there is no room. */
static void a_rule_has_its_share_of_the_fast_tier(void)
{
	struct rig *rig = managed_rig();

	set_share(rig, "exe:/usr/bin/x", 1);
	put_process(rig, 100, 400);
	put_usage(rig, 100, 5242 - 512 - 512);
	/* Nothing of this one was sampled, and it counts. */
	put_process(rig, 101, 0);
	rig_process(rig, 101);
	put_usage(rig, 101, 0);
	CU_ASSERT_EQUAL(moves(rig), 0);
	CU_ASSERT_EQUAL(rig->result.limit, LIMIT_LEFT_ALONE);
	CU_ASSERT(left(rig, LEFT_FAST_MAX) > 390 * RIG_PAGE && left(rig, LEFT_FAST_MAX) < 410 * RIG_PAGE);
	/* It lets go of some, which the next round sees. */
	put_usage(rig, 100, 5242 - 300 - 1024);
	rig->now_ns += MANAGE_FAST_NS;
	look(rig);
	rig_hot(rig, 100, 0, 400, 4096, 0);
	CU_ASSERT_EQUAL(moves(rig), 300);
	rig_hot(rig, 100, 0, 400, 4096, 0);
	CU_ASSERT_EQUAL(moves(rig), 0);
	/* What moved is what numa_maps shows now: it counts once. */
	put_usage(rig, 100, 5242 - 1024);
	rig->now_ns += MANAGE_FAST_NS;
	look(rig);
	rig_hot(rig, 100, 0, 400, 4096, 0);
	CU_ASSERT_EQUAL(moves(rig), 0);
	put_usage(rig, 100, 5242 - 1024 - 50);
	rig->now_ns += MANAGE_FAST_NS;
	look(rig);
	rig_hot(rig, 100, 300, 100, 4396, 0);
	CU_ASSERT_EQUAL(moves(rig), 50);
	managed_rig_free(rig);
}

/* Until all processes were looked at, nothing is known, and nothing moves. */
static void an_unknown_share_waits(void)
{
	struct rig *rig = managed_rig();

	set_share(rig, "exe:/usr/bin/x", 50);
	put_process(rig, 100, 100);
	put_usage(rig, 100, 0);
	put_process(rig, 101, 0);
	rig_process(rig, 101);
	put_usage(rig, 101, 0);
	machine_remove(&rig->machine, "proc/101/numa_maps");
	CU_ASSERT_EQUAL(moves(rig), 0);
	CU_ASSERT_EQUAL(rig->result.limit, LIMIT_WAITING);
	/* Other rules don't care. */
	set_rule(rig, "exe:/usr/bin/x", RULE_UNSET);
	CU_ASSERT_EQUAL(moves(rig), 100);
	/* One that is gone has nothing. */
	rig_hot(rig, 100, 100, 100, 4196, 0);
	set_share(rig, "exe:/usr/bin/x", 50);
	rig_exit(rig, 101);
	CU_ASSERT_EQUAL(moves(rig), 100);
	managed_rig_free(rig);
}

/* The thread that looks may be busy with a large process for seconds: nobody waits for it to stop what may not move. */
static void new_rules_hold_at_once(void)
{
	struct rig *rig = managed_rig();

	put_process(rig, 100, 40);
	CU_ASSERT_EQUAL(moves(rig), 40);
	rig_hot(rig, 100, 40, 40, 4136, 0);
	set_rule(rig, "user:5", RULE_OFF);
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT_EQUAL(rig->kernel.moved_pages, 40);
	CU_ASSERT_EQUAL(rig->result.limit, LIMIT_WAITING);
	look(rig);
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT_EQUAL(rig->kernel.moved_pages, 40);
	CU_ASSERT(left(rig, LEFT_RULE) > 38 * RIG_PAGE);
	/* And so does their end. */
	rig_hot(rig, 100, 40, 40, 4136, 0);
	rig->config.manage_rules.n = 0;
	CU_ASSERT_EQUAL(moves(rig), 40);
	managed_rig_free(rig);
}

static void failures_cost_no_rate(void)
{
	struct rig *rig = managed_rig();

	put_process(rig, 100, 40);
	set_rule(rig, "user:5", RULE_UNSET);
	rig->config.manage_rules.rule[0].rate_mib_per_sec = 4;
	for (size_t k = 0; k < 40; k++)
		rig->kernel.process[0].folios[k].flags = FAKE_PINNED;
	CU_ASSERT_EQUAL(moves(rig), 0);
	for (size_t k = 0; k < 40; k++)
		rig->kernel.process[0].folios[k].flags = 0;
	rig->now_ns += REST_FIRST_NS;
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT_EQUAL(rig->result.moved_pages, 40);
	managed_rig_free(rig);
}

/* cpuset: that process and node rest, others go on, and another node is taken where there is one. */
static void a_cpuset_closes_a_node_to_a_process(void)
{
	struct rig *rig = managed_rig();

	put_process(rig, 100, 20);
	put_process(rig, 101, 7);
	nodeset_clear(&rig->kernel.process[0].cpuset);
	nodeset_add(&rig->kernel.process[0].cpuset, 2);
	CU_ASSERT_EQUAL(moves(rig), 7);
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_MOVE_CPUSET), 20);
	CU_ASSERT_EQUAL(rig_pass(rig), 0); /* the other node says the same */
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_MOVE_CPUSET), 40);
	for (int i = 0; i < 10; i++)
		CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_MOVE_CPUSET), 40);
	CU_ASSERT_EQUAL(rig->result.limit, LIMIT_REFUSED);
	nodeset_add(&rig->kernel.process[0].cpuset, 1);
	rig->now_ns += REST_PROCESS_NS;
	rig_hot(rig, 100, 0, 20, 4096, 0);
	CU_ASSERT_EQUAL(rig_pass(rig), 0); /* node 0 refuses again */
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT_EQUAL(rig->kernel.process[0].folios[0].nid, 1);
	managed_rig_free(rig);
}

/* The page of a passing fork is tried again, and is no failure; one that stays shared is named as that. */
static void a_fork_passes(void)
{
	struct rig *rig = managed_rig();

	put_process(rig, 100, 20);
	for (size_t k = 0; k < 20; k++)
		rig->kernel.process[0].folios[k].flags = FAKE_SHARED;
	CU_ASSERT_EQUAL(moves(rig), 0);
	CU_ASSERT_EQUAL(left(rig, LEFT_SHARED), 0);
	for (size_t k = 0; k < 10; k++)
		rig->kernel.process[0].folios[k].flags = 0;
	for (int i = 0; i < 45; i++) {
		rig->now_ns += REST_FIRST_NS;
		CU_ASSERT_EQUAL(rig_pass(rig), 0);
	}
	CU_ASSERT_EQUAL(rig->kernel.moved_pages, 10);
	CU_ASSERT_EQUAL(left(rig, LEFT_SHARED), 10 * RIG_PAGE);
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_MOVE_SHARED), 20 + (REST_TRIES - 1) * 10);
	managed_rig_free(rig);
}

/* Facts and memory are looked at again, each in its time. */
static void looks_again(void)
{
	struct rig *rig = managed_rig();

	put_process(rig, 100, 5);
	CU_ASSERT_EQUAL(moves(rig), 5);
	device(rig);
	rig_hot(rig, 100, 100, 5, 100, 0);
	CU_ASSERT_EQUAL(moves(rig), 5); /* not known yet */
	rig->now_ns += MANAGE_FACTS_NS;
	rig_hot(rig, 100, 200, 5, 200, 0);
	CU_ASSERT_EQUAL(rig_pass(rig), 0); /* what is known holds until it is known better */
	CU_ASSERT_EQUAL(rig->result.moved_pages, 5);
	CU_ASSERT_EQUAL(look(rig), 1);
	rig_hot(rig, 100, 300, 5, 300, 0);
	CU_ASSERT_EQUAL(moves(rig), 0);
	machine_remove(&rig->machine, "proc/100/fd/9");
	bound(rig);
	rig->now_ns += MANAGE_FACTS_NS;
	rig_hot(rig, 100, 400, 5, 400, 0);
	CU_ASSERT_EQUAL(moves(rig), 0);
	rig_hot(rig, 100, 500, 5, 500, 0);
	CU_ASSERT_EQUAL(moves(rig), 5); /* the memory of half a minute ago */
	rig->now_ns += MANAGE_MAP_NS;
	rig_hot(rig, 100, 600, 5, 600, 0);
	rig_pass(rig);
	CU_ASSERT_EQUAL(look(rig), 1);
	rig_hot(rig, 100, 700, 5, 700, 0);
	CU_ASSERT_EQUAL(moves(rig), 0);
	CU_ASSERT_EQUAL(left(rig, LEFT_POLICY), 5 * RIG_PAGE);
	managed_rig_free(rig);
}

static void run_on(struct rig *rig)
{
	rig->now_ns += NSEC_PER_SEC;
}

/* Memory that takes long to look at is looked at less often. */
static void looks_cost_a_hundredth(void)
{
	struct rig *rig = managed_rig();
	struct owner *owner;

	put_process(rig, 100, 5);
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	rig->on_clock = run_on; /* a second each time it is asked: a look of a second or more */
	manage_step(manage, &rig->config, 100 * NSEC_PER_SEC, NULL);
	rig->on_clock = NULL;
	rcu_enter();
	owner = owners_at(rig->owners, 0);
	CU_ASSERT(owner->map_cost_ns >= NSEC_PER_SEC);
	rcu_leave();
	CU_ASSERT_EQUAL(rig_pass(rig), 0); /* what is left of it is too old */
	put_memory(rig, 100, "bind:1", "rw-p", "");
	rig->now_ns += MANAGE_MAP_NS * 2;
	rig_hot(rig, 100, 100, 5, 100, 0);
	CU_ASSERT_EQUAL(moves(rig), 5);
	rig->now_ns += 200 * NSEC_PER_SEC;
	rig_hot(rig, 100, 200, 5, 200, 0);
	rig_pass(rig);
	look(rig);
	rig_hot(rig, 100, 300, 5, 300, 0);
	CU_ASSERT_EQUAL(moves(rig), 0);
	managed_rig_free(rig);
}

/* Many processes at once: a step keeps to its budget, and comes to all in the end. */
static void a_step_has_its_budget(void)
{
	struct rig *rig = managed_rig();
	size_t looked = 0, steps = 0;

	for (uint32_t pid = 100; pid < 140; pid++)
		put_process(rig, pid, 2);
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	rig->on_clock = run_on;
	for (; looked < 40 && steps < 100; steps++)
		looked += manage_step(manage, &rig->config, 20 * NSEC_PER_SEC, NULL);
	rig->on_clock = NULL;
	CU_ASSERT_EQUAL(looked, 40);
	CU_ASSERT(steps > 5);
	rig->stop = true;
	rig->now_ns += 1;
	CU_ASSERT_EQUAL(manage_step(manage, &rig->config, STEP, &rig->stop), 0);
	managed_rig_free(rig);
}

/* The pid is another's by the time it is looked at: nothing is concluded from that one. */
static void another_process_of_that_pid(void)
{
	struct rig *rig = managed_rig();

	put_process(rig, 100, 20);
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	rig_put_stat(rig, 100, 77);
	CU_ASSERT_EQUAL(look(rig), 1);
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT_EQUAL(rig->kernel.move_calls, 0);
	rcu_enter();
	CU_ASSERT_EQUAL(owners_at(rig->owners, 0)->manage, 0);
	CU_ASSERT_EQUAL(owners_at(rig->owners, 0)->state, OWNER_GONE);
	rcu_leave();
	managed_rig_free(rig);
}

static void every_reason_has_its_name(void)
{
	for (int i = 0; i < LEFT_MAX; i++) {
		CU_ASSERT_PTR_NOT_NULL(manage_reason_name[i]);
		for (int j = 0; j < i; j++)
			CU_ASSERT(strcmp(manage_reason_name[i], manage_reason_name[j]) != 0);
	}
}

TEST_MAIN(manage, TEST(what_is_not_known_stays_for_now), TEST(files_that_are_missing), TEST(all_that_is_left_alone),
	  TEST(kinds_can_be_allowed), TEST(rules_change), TEST(a_rule_may_observe),
	  TEST(observing_leaves_the_same_alone), TEST(a_rule_has_its_target), TEST(a_rule_has_its_rate),
	  TEST(a_rule_has_its_share_of_the_fast_tier), TEST(an_unknown_share_waits), TEST(new_rules_hold_at_once),
	  TEST(failures_cost_no_rate), TEST(a_cpuset_closes_a_node_to_a_process), TEST(a_fork_passes),
	  TEST(looks_again), TEST(looks_cost_a_hundredth), TEST(a_step_has_its_budget),
	  TEST(another_process_of_that_pid), TEST(every_reason_has_its_name))
