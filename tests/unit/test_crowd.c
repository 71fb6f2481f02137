/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Very many processes, before each part that walks them: what a step does, what a round costs in calls, what is kept.
 */
#include <malloc.h>

#include "guests.h"
#include "harness.h"
#include "manage.h"
#include "manage_fast.h"
#include "migrator_rig.h"
#include "owners_facts.h"
#include "sanitized.h"
#include "victims_internal.h"

#define FIRST    1000U
#define ODD      1001U
#define LOOK_NS  NSEC_PER_MSEC /* each look at the clock */
#define STEP     50            /* looks to a step, about */
#define STEP_NS  (STEP * NSEC_PER_MSEC)
#define OLD_NS   (9 * NSEC_PER_SEC)
#define RSS_KIB  65536
#define USAGE    (3ULL * RIG_PAGE) /* of each on node 0 */
#define ONE_ROOM 400               /* bytes kept of one process, at most: its entry, its mappings, their headers */

static const struct rig_options plain = { 0 };
static unsigned int crowd; /* how many */
static struct rig *rig;

/* They all have the same folder: a hundred thousand files would be slow to make. */
static void start(void)
{
	char path[64];

	crowd = test_under_valgrind() ? 1000 : 50000;
	rig = rig_new(&plain);
	machine_put(&rig->machine, "proc/one/stat", "1 (x) S 1 1 1 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 77 0 0");
	machine_put(&rig->machine, "proc/one/statm", "20000 16384 0 0 0 0 0");
	machine_put(&rig->machine, "proc/one/status", "Name:\tx\nUid:\t5\t5\t5\t5\nVmRSS:\t %d kB", RSS_KIB);
	machine_put(&rig->machine, "proc/one/cgroup", "0::/a.slice/b.service");
	machine_put(&rig->machine, "proc/one/comm", "x");
	machine_put(&rig->machine, "proc/one/fd/.keep", "%s", "");
	machine_put(&rig->machine, "proc/one/task/1/stat", "1 (x) S");
	machine_put(&rig->machine, "proc/one/maps", "7f0000000000-7f0010000000 rw-p 00000000 00:00 0 ");
	machine_put(&rig->machine, "proc/one/numa_maps", "7f0000000000 default anon=5 N0=3 N2=2 kernelpagesize_kB=4");
	for (unsigned int i = 0; i < crowd; i++) {
		snprintf(path, sizeof(path), "proc/%u", FIRST + i);
		machine_link(&rig->machine, path, "one");
	}
}

static void end(void)
{
	rig_free(rig);
}

/* Those with an odd pid have ended. */
static void half_of_them_end(void)
{
	char path[64];

	for (unsigned int pid = ODD; pid < FIRST + crowd; pid += 2) {
		snprintf(path, sizeof(path), "proc/%u", pid);
		CU_ASSERT_EQUAL(unlinkat(rig->machine.root.fd, path, 0), 0);
	}
}

/* Bytes that are allocated now. 0 where somebody else's allocator is in use. */
static size_t allocated(void)
{
#ifdef SANITIZED
	return 0;
#else
	struct mallinfo2 info = mallinfo2();

	return info.uordblks + info.hblkhd;
#endif
}

/* A clock that goes on by itself. */
static uint64_t tick(void *ctx)
{
	(void)ctx;
	return rig->now_ns += LOOK_NS;
}

static const struct clock ticking = { .now_ns = tick };

static unsigned int maps_round(struct victims_maps *maps)
{
	unsigned int steps = 0;

	CU_ASSERT_EQUAL(victims_maps_begin(maps, &rig->machine.root), 0);
	while (victims_maps_next(maps, &rig->machine.root, rig->owners, rig->now_ns))
		steps++;
	return steps;
}

/* A piece of work is one process, and what was known of it is found again. */
static void what_is_mapped(void)
{
	struct victims_maps maps = { 0 };
	unsigned int wrong = 0;
	uint64_t first_ns;
	size_t before;

	start();
	first_ns = rig->now_ns;
	before = allocated();
	CU_ASSERT_EQUAL(maps_round(&maps), crowd);
	CU_ASSERT_EQUAL(maps.n, crowd);
	CU_ASSERT(allocated() - before < (size_t)crowd * ONE_ROOM + (1U << 20));
	rig->now_ns += OLD_NS;
	half_of_them_end();
	before = allocated();
	CU_ASSERT_EQUAL(maps_round(&maps), crowd / 2);
	CU_ASSERT_EQUAL(maps.n, crowd / 2);
	CU_ASSERT(allocated() <= before);
	for (size_t i = 0; i < maps.n; i++) {
		const struct victims_process *p = &maps.process[i];

		wrong += p->pid % 2 || p->n != 1 || p->range[0].since_ns != first_ns;
	}
	CU_ASSERT_EQUAL(wrong, 0);
	victims_maps_clear(&maps);
	end();
}

static unsigned int asked;

static int first_rule(void *ctx, const struct owner_facts *who)
{
	(void)ctx;
	(void)who;
	asked++;
	return 0;
}

static bool yes(void *ctx)
{
	(void)ctx;
	return true;
}

/* A step is over when its time is, a round when all were looked at once. */
static void shares_of_the_fast_tier(void)
{
	struct rules rules = { .n = 1 };
	struct nodeset nodes;
	struct manage_fast_input input = { .rules = &rules, .nodes = &nodes, .rule_of = first_rule, .go_on = yes };
	unsigned int steps = 0, most = 0;
	struct manage_fast *fast;
	uint64_t used = 0;
	size_t before;

	start();
	nodeset_clear(&nodes);
	nodeset_add(&nodes, 0);
	rule_init(&rules.rule[0]);
	rules.rule[0].fast_max_percent = 50;
	asked = 0;
	before = allocated();
	fast = manage_fast_new(&rig->machine.root, &ticking, 1);
	while (!manage_fast_used(fast, 0, &used) && steps < crowd) {
		unsigned int asked_before = asked;

		manage_fast_step(fast, &input, STEP_NS);
		most = asked - asked_before > most ? asked - asked_before : most;
		steps++;
	}
	CU_ASSERT_EQUAL(asked, crowd);
	CU_ASSERT_EQUAL(used, crowd * USAGE);
	CU_ASSERT(most <= STEP);
	CU_ASSERT(steps <= crowd / STEP + 1);
	CU_ASSERT(allocated() - before < (size_t)crowd * 8 + (1U << 20));
	/* The next round is not due, though each step was short. */
	manage_fast_step(fast, &input, STEP_NS);
	CU_ASSERT_EQUAL(asked, crowd);
	manage_fast_free(fast);
	end();
}

static uint64_t ask(struct manage *manage, unsigned int i, struct manage_answer *answer)
{
	struct owner *owner;
	int r;

	rcu_enter();
	r = owners_get(rig->owners, FIRST + i, rig->now_ns, &owner);
	if (r == 0)
		manage_ask(manage, owner, 0x7f0000001000, rig->now_ns, answer);
	rcu_leave();
	return r == 0;
}

/* All are asked for at once: each is looked at once, in steps; those that end are forgotten, and their slots return. */
static void whose_memory_may_move(void)
{
	unsigned int known = 0, move = 0, steps = 0;
	size_t looked = 0, n, most = 0, before;
	struct manage_answer answer;
	struct manage *manage;
	uint32_t slots;

	start();
	rig->config.manage_default = true;
	before = allocated();
	manage = manage_new(rig->owners, &rig->machine.root, &ticking, rig->topology);
	for (unsigned int i = 0; i < crowd; i++)
		known += ask(manage, i, &answer);
	CU_ASSERT_EQUAL(known, crowd);
	while ((n = manage_step(manage, &rig->config, STEP_NS, NULL)) > 0 && steps++ < crowd) {
		looked += n;
		most = n > most ? n : most;
	}
	CU_ASSERT_EQUAL(looked, crowd);
	CU_ASSERT(most <= STEP);
	for (unsigned int i = 0; i < crowd; i++)
		move += ask(manage, i, &answer) && answer.verdict == MANAGE_MOVE;
	CU_ASSERT_EQUAL(move, crowd);
	CU_ASSERT(allocated() - before < (size_t)crowd * ONE_ROOM + (1U << 20));
	slots = owners_end(rig->owners);
	half_of_them_end();
	/* Each is checked once, a few at a time. */
	for (n = 0, steps = 0; steps < crowd / 100; steps++)
		n += owners_sweep(rig->owners, 100);
	CU_ASSERT_EQUAL(n, crowd / 2);
	CU_ASSERT_EQUAL(owners_reap(rig->owners), crowd / 2);
	CU_ASSERT_EQUAL(owners_count(rig->owners), crowd / 2);
	machine_remove(&rig->machine, "proc/one/stat");
	CU_ASSERT_EQUAL(owners_sweep(rig->owners, crowd), crowd / 2);
	CU_ASSERT_EQUAL(owners_reap(rig->owners), crowd / 2);
	CU_ASSERT_EQUAL(owners_count(rig->owners), 0);
	CU_ASSERT_EQUAL(owners_end(rig->owners), slots);
	manage_free(manage);
	end();
}

static void machines_of_all_of_them(void)
{
	static char text[GUESTS_TEXT_MAX];
	struct guest guests[4];
	char path[64];

	start();
	machine_put(&rig->machine, "sys/kernel/debug/kvm/exits", "5");
	for (unsigned int i = 0; i < crowd; i++) {
		snprintf(path, sizeof(path), "sys/kernel/debug/kvm/%u-11", FIRST + i);
		machine_link(&rig->machine, path, "exits");
	}
	CU_ASSERT_EQUAL(guests_read(&rig->machine.root, guests, 4), crowd);
	CU_ASSERT_EQUAL(guests[0].bytes, 16384 * RIG_PAGE);
	CU_ASSERT_EQUAL(guests_list(&rig->machine.root, text, sizeof(text)), (int)crowd);
	CU_ASSERT(strlen(text) > 0 && text[strlen(text) - 1] == '\n');
	end();
}

TEST_MAIN(crowd, TEST(what_is_mapped), TEST(shares_of_the_fast_tier), TEST(whose_memory_may_move),
	  TEST(machines_of_all_of_them))
