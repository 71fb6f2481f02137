/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "clock.h"
#include "harness.h"
#include "machine.h"
#include "manage_fast.h"
#include "nodeset.h"
#include "owners_facts.h"
#include "rules.h"

#define SELF    7U
#define FIRST   100U
#define LOOK_NS NSEC_PER_MSEC /* what a look at the clock takes here: two of them are one process */
#define ALL_NS  (100 * NSEC_PER_SEC)
#define PAGE    4096ULL

struct rig {
	struct machine machine;
	struct clock clock;
	uint64_t now_ns, look_ns;
	struct rules rules;
	struct nodeset nodes;
	struct manage_fast *fast;
	struct manage_fast_input input;
	bool stop;
	unsigned int asked; /* processes whose rule was looked for */
};

static uint64_t read_clock(void *ctx)
{
	struct rig *rig = ctx;

	return rig->now_ns += rig->look_ns;
}

/* User 1000 + i is for rule i. */
static int rule_of(void *ctx, const struct owner_facts *who)
{
	struct rig *rig = ctx;

	rig->asked++;
	return who->uid >= 1000 ? (int)who->uid - 1000 : -1;
}

static bool go_on(void *ctx)
{
	return !((struct rig *)ctx)->stop;
}

static void put_process(struct rig *rig, uint32_t pid, unsigned int uid, unsigned int pages)
{
	char path[64];

	snprintf(path, sizeof(path), "proc/%u/status", pid);
	machine_put(&rig->machine, path, "Name:\tx\nUid:\t%u\t%u\t%u\t%u\nVmRSS:\t 1 kB", uid, uid, uid, uid);
	snprintf(path, sizeof(path), "proc/%u/cgroup", pid);
	machine_put(&rig->machine, path, "0::/a");
	snprintf(path, sizeof(path), "proc/%u/numa_maps", pid);
	machine_put(&rig->machine, path, "7f00 default anon=9 N0=%u N1=7 kernelpagesize_kB=4", pages);
}

static struct rig *rig_new(void)
{
	struct rig *rig = calloc(1, sizeof(*rig));

	machine_new(&rig->machine);
	rig->now_ns = 1000 * NSEC_PER_SEC;
	rig->look_ns = 1;
	rig->clock = (struct clock){ .now_ns = read_clock, .ctx = rig };
	nodeset_clear(&rig->nodes);
	nodeset_add(&rig->nodes, 0);
	rig->rules.n = 3;
	for (int i = 0; i < 3; i++)
		rule_init(&rig->rules.rule[i]);
	rig->rules.rule[0].fast_max_percent = 10;
	rig->rules.rule[2].fast_max_percent = 0;
	rig->fast = manage_fast_new(&rig->machine.root, &rig->clock, SELF);
	rig->input = (struct manage_fast_input){
		.rules = &rig->rules, .nodes = &rig->nodes, .rule_of = rule_of, .go_on = go_on, .ctx = rig
	};
	machine_put(&rig->machine, "proc/meminfo", "x");
	return rig;
}

static void rig_free(struct rig *rig)
{
	manage_fast_free(rig->fast);
	machine_free(&rig->machine);
	free(rig);
}

static uint64_t used_pages(const struct rig *rig, int rule)
{
	uint64_t bytes;

	return manage_fast_used(rig->fast, rule, &bytes) ? bytes / PAGE : UINT64_MAX;
}

static void a_round_adds_up(void)
{
	struct rig *rig = rig_new();

	put_process(rig, SELF, 1000, 10000);
	put_process(rig, 1, 0, 1000);
	put_process(rig, FIRST, 1000, 3);
	put_process(rig, FIRST + 1, 1000, 4);
	put_process(rig, FIRST + 2, 1001, 50);
	put_process(rig, FIRST + 3, 1002, 6);
	CU_ASSERT_EQUAL(used_pages(rig, 0), UINT64_MAX);
	CU_ASSERT_FALSE(manage_fast_take(rig->fast, 0, PAGE, UINT64_MAX / 4));
	manage_fast_step(rig->fast, &rig->input, ALL_NS);
	CU_ASSERT_EQUAL(used_pages(rig, 0), 7);
	CU_ASSERT_EQUAL(used_pages(rig, 1), UINT64_MAX); /* has no bound */
	CU_ASSERT_EQUAL(used_pages(rig, 2), 6);
	CU_ASSERT_EQUAL(rig->asked, 5);
	/* Nothing before the next one is due. */
	machine_remove(&rig->machine, "proc/100");
	manage_fast_step(rig->fast, &rig->input, ALL_NS);
	CU_ASSERT_EQUAL(rig->asked, 5);
	rig->now_ns += MANAGE_FAST_NS;
	manage_fast_step(rig->fast, &rig->input, ALL_NS);
	CU_ASSERT_EQUAL(used_pages(rig, 0), 4);
	manage_fast_forget(rig->fast);
	CU_ASSERT_EQUAL(used_pages(rig, 0), UINT64_MAX);
	manage_fast_step(rig->fast, &rig->input, ALL_NS);
	CU_ASSERT_EQUAL(used_pages(rig, 0), 4);
	rig_free(rig);
}

static void what_moves_counts_once(void)
{
	struct rig *rig = rig_new();

	put_process(rig, FIRST, 1000, 10);
	manage_fast_step(rig->fast, &rig->input, ALL_NS);
	/* The bound is 15 pages. */
	CU_ASSERT(manage_fast_take(rig->fast, 0, 4 * PAGE, 15 * PAGE));
	CU_ASSERT_FALSE(manage_fast_take(rig->fast, 0, 2 * PAGE, 15 * PAGE));
	CU_ASSERT(manage_fast_take(rig->fast, 0, PAGE, 15 * PAGE));
	CU_ASSERT_EQUAL(used_pages(rig, 0), 15);
	/* Three of them moved. */
	manage_fast_moved(rig->fast, 0, 3 * PAGE);
	manage_fast_put(rig->fast, 0, 5 * PAGE);
	CU_ASSERT_EQUAL(used_pages(rig, 0), 13);
	put_process(rig, FIRST, 1000, 13);
	rig->now_ns += MANAGE_FAST_NS;
	manage_fast_step(rig->fast, &rig->input, ALL_NS);
	CU_ASSERT_EQUAL(used_pages(rig, 0), 13);
	/* What is on its way when a round ends still is. */
	CU_ASSERT(manage_fast_take(rig->fast, 0, PAGE, 15 * PAGE));
	rig->now_ns += MANAGE_FAST_NS;
	manage_fast_step(rig->fast, &rig->input, ALL_NS);
	CU_ASSERT_EQUAL(used_pages(rig, 0), 14);
	manage_fast_put(rig->fast, 0, PAGE);
	CU_ASSERT_EQUAL(used_pages(rig, 0), 13);
	rig_free(rig);
}

/* Steps of a bounded time; a round that took long is followed by a pause a hundred times as long. */
static void a_round_takes_its_time(void)
{
	struct rig *rig = rig_new();
	unsigned int steps = 0, asked;
	uint64_t begin_ns;

	for (uint32_t i = 0; i < 200; i++)
		put_process(rig, FIRST + i, 1000, 1);
	rig->look_ns = LOOK_NS;
	begin_ns = rig->now_ns;
	for (; used_pages(rig, 0) == UINT64_MAX && steps < 100; steps++) {
		asked = rig->asked;
		manage_fast_step(rig->fast, &rig->input, 20 * LOOK_NS);
		CU_ASSERT(rig->asked - asked <= 20);
	}
	CU_ASSERT(steps >= 10 && steps < 100);
	CU_ASSERT_EQUAL(used_pages(rig, 0), 200);
	CU_ASSERT_EQUAL(rig->asked, 200);
	begin_ns = rig->now_ns;
	while (rig->asked == 200 && rig->now_ns - begin_ns < ALL_NS)
		manage_fast_step(rig->fast, &rig->input, 20 * LOOK_NS);
	CU_ASSERT(rig->now_ns - begin_ns > 100 * 200 * LOOK_NS * 9 / 10);
	/* Told to stop in the middle, it goes on from there. */
	manage_fast_forget(rig->fast);
	manage_fast_step(rig->fast, &rig->input, 20 * LOOK_NS);
	rig->stop = true;
	asked = rig->asked;
	manage_fast_step(rig->fast, &rig->input, ALL_NS);
	CU_ASSERT_EQUAL(rig->asked, asked);
	CU_ASSERT_EQUAL(used_pages(rig, 0), UINT64_MAX);
	rig->stop = false;
	manage_fast_step(rig->fast, &rig->input, ALL_NS);
	CU_ASSERT_EQUAL(used_pages(rig, 0), 200);
	rig_free(rig);
}

/* Where something can't be read, nothing is known of its rule, and all of the others. */
static void what_cannot_be_told(void)
{
	struct rig *rig = rig_new();

	put_process(rig, FIRST, 1000, 1);
	put_process(rig, FIRST + 1, 1002, 2);
	machine_put(&rig->machine, "proc/100/stat", "100 (x) S");
	machine_remove(&rig->machine, "proc/100/numa_maps");
	manage_fast_step(rig->fast, &rig->input, ALL_NS);
	CU_ASSERT_EQUAL(used_pages(rig, 0), UINT64_MAX);
	CU_ASSERT_EQUAL(used_pages(rig, 2), 2);
	/* No bound, no look. */
	rig->rules.rule[0].fast_max_percent = rig->rules.rule[2].fast_max_percent = -1;
	rig->now_ns += MANAGE_FAST_NS;
	rig->asked = 0;
	manage_fast_step(rig->fast, &rig->input, ALL_NS);
	CU_ASSERT_EQUAL(rig->asked, 0);
	rig_free(rig);
}

TEST_MAIN(manage_fast, TEST(a_round_adds_up), TEST(what_moves_counts_once), TEST(a_round_takes_its_time),
	  TEST(what_cannot_be_told))
