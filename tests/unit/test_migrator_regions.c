/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Policy region, from samples to moved pages, on the model of a kernel. */
#include <errno.h>

#include "decider.h"
#include "draw.h"
#include "evidence.h"
#include "harness.h"
#include "hotness_regions.h"
#include "manage.h"
#include "manage_left.h"
#include "migrator_rig.h"
#include "mover.h"
#include "rules.h"

#define MIB   (1ULL << 20)
#define PID   100U
#define PAGES 512ULL

static const struct rig_options plain = { 0 };
static uint64_t seed;

static struct rig *region_rig(void)
{
	struct rig *rig = rig_new(&plain);

	seed = 11;
	rig->config.promote_policy = POLICY_REGION;
	rig->config.promote_confidence = 0.95;
	rig->config.promote_epoch_ms = 1000;
	return rig;
}

/* All pages of regions @first..@first+@n-1 are there, each page @i on page @i of node @nid. */
static void map(struct rig *rig, uint64_t first, uint64_t n, int nid, unsigned int flags)
{
	struct fake_process *p = rig_process(rig, PID);

	for (uint64_t i = first * PAGES; i < (first + n) * PAGES; i++)
		fake_folio_add(p, rig_addr(PID, i), RIG_PAGE, nid, flags);
}

/* An access to page @i of @pid, wherever it is now; by a CPU whose nearest node is 0. */
static void touch_of(struct rig *rig, uint32_t pid, uint64_t i, unsigned int threshold)
{
	const struct fake_folio *folio = fake_folio_find(rig_process(rig, pid), rig_addr(pid, i));
	struct record_rule rule = { .layout = RECORD_PRECISE, .window_ms = 5000, .freq_threshold = threshold };
	struct sample sample = {
		.time_ns = rig->now_ns,
		.addr = rig_addr(pid, i),
		.phys = rig_phys(folio->nid, i + (pid == PID ? 0 : 448 * PAGES)),
		.pid = pid,
		.page_shift = folio->bytes == RIG_HUGE ? 21 : 12,
	};
	struct hotness_place place = { .nid = folio->nid, .is_lower = folio->nid >= 2, .target_nid = -1 };
	struct owner *owner;

	if (place.is_lower)
		place.target_nid = 0;
	rcu_enter();
	if (owners_get(rig->owners, pid, rig->now_ns, &owner) == 0)
		hotness_access_page(rig->hotness, 0, &rule, &sample, owner->slot, &place);
	rcu_leave();
}

static void touch(struct rig *rig, uint64_t i, unsigned int threshold)
{
	touch_of(rig, PID, i, threshold);
}

/*
 * @sec seconds of @per_sec samples each on @hot pages of each of @n regions, every @spread-th page, with ten passes a
 * second.
 */
static void run(struct rig *rig, unsigned int sec, unsigned int per_sec, uint64_t n, uint64_t hot, uint64_t spread)
{
	for (unsigned int step = 0; step < sec * 10; step++) {
		for (unsigned int i = 0; i < per_sec / 10; i++)
			touch(rig, draw(&seed) % n * PAGES + draw(&seed) % hot * spread, 2);
		rig->now_ns += 100 * NSEC_PER_MSEC;
		CU_ASSERT_EQUAL(rig_pass(rig), 0);
	}
}

static uint64_t pages_on(struct rig *rig, int nid)
{
	const struct fake_process *p = rig_process(rig, PID);
	uint64_t n = 0;

	for (size_t i = 0; i < p->n_folios; i++)
		n += p->folios[i].nid == nid ? p->folios[i].bytes / RIG_PAGE : 0;
	return n;
}

static uint32_t decision_of(struct rig *rig, uint64_t region)
{
	struct hotness_region r = { 0 };

	rcu_enter();
	(void)hotness_find_region(rig->hotness, PID, 0, rig_addr(PID, region * PAGES), rig->now_ns, &r);
	rcu_leave();
	return r.decision;
}

/* 32 MiB, of which a sample shows one page in four before all of it is near. */
static void dense_memory_moves_whole(void)
{
	struct rig *rig = region_rig();

	map(rig, 0, 16, 2, 0);
	run(rig, 14, 160, 16, PAGES, 1);
	CU_ASSERT_EQUAL(pages_on(rig, 0), 16 * PAGES);
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_PROMOTED_BYTES), 32 * MIB);
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_MOVE_OK), 16 * PAGES);
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_REGIONS_WHOLE), 16);
	CU_ASSERT(rig_stat(rig, STAT_REGION_PASSES) >= 12);
	CU_ASSERT_EQUAL(rig->kernel.bad_calls, 0);
	CU_ASSERT(decision_of(rig, 3) & REGION_DECISION_DONE);
	rig_free(rig);
}

/* However dense, however often: one epoch moves nothing. */
static void a_burst_moves_nothing(void)
{
	struct rig *rig = region_rig();

	map(rig, 0, 16, 2, 0);
	for (uint64_t i = 0; i < 16 * PAGES; i += 3)
		touch(rig, i, 2);
	for (unsigned int step = 0; step < 100; step++) {
		rig->now_ns += 100 * NSEC_PER_MSEC;
		CU_ASSERT_EQUAL(rig_pass(rig), 0);
	}
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_MOVE_CALLS), 0);
	rig_free(rig);
}

/* One page in eight: those move, and no other. */
static void scattered_memory_moves_by_pages(void)
{
	struct rig *rig = region_rig();
	const struct fake_process *p;
	unsigned int wrong = 0;

	map(rig, 0, 32, 2, 0);
	run(rig, 30, 320, 32, PAGES / 8, 8);
	CU_ASSERT(pages_on(rig, 0) > 32 * PAGES / 8 * 0.95);
	p = rig_process(rig, PID);
	for (size_t i = 0; i < p->n_folios; i++)
		wrong += p->folios[i].nid == 0 && (p->folios[i].addr - rig_addr(PID, 0)) / RIG_PAGE % 8 != 0;
	CU_ASSERT_EQUAL(wrong, 0);
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_REGIONS_WHOLE), 0);
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_REGIONS_PAGES), 32);
	CU_ASSERT_EQUAL(rig->kernel.bad_calls, 0);
	rig_free(rig);
}

static void observing_counts_each_region_once(void)
{
	struct rig *rig = region_rig();

	rig->config.mode = MODE_OBSERVE;
	map(rig, 0, 16, 2, 0);
	run(rig, 25, 320, 16, PAGES, 1);
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_WOULD_PROMOTE_BYTES), 32 * MIB);
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_MOVE_CALLS), 0);
	CU_ASSERT_EQUAL(rig->result.limit, LIMIT_OBSERVING);
	CU_ASSERT_EQUAL(pages_on(rig, 2), 16 * PAGES);
	/* And when it becomes real, it moves. */
	rig->config.mode = MODE_PROMOTE;
	run(rig, 10, 320, 16, PAGES, 1);
	CU_ASSERT_EQUAL(pages_on(rig, 0), 16 * PAGES);
	rig_free(rig);
}

/* 2 MiB/s, its half of 4: a region at a time, and never more than the rate, the burst and one region. */
static void the_rate_is_kept(void)
{
	struct rig *rig = region_rig();
	uint64_t from_ns;

	rig->config.promote_rate_mib_per_sec = 4;
	map(rig, 0, 16, 2, 0);
	from_ns = rig->now_ns;
	for (int i = 0; i < 12; i++) {
		uint64_t sec;

		run(rig, 1, 320, 16, PAGES, 1);
		sec = (rig->now_ns - from_ns) / NSEC_PER_SEC;
		CU_ASSERT(rig_stat(rig, STAT_PROMOTED_BYTES) <= (2 * sec + 1 + 2) * MIB);
	}
	CU_ASSERT_EQUAL(rig->result.limit, LIMIT_RATE);
	CU_ASSERT(rig_stat(rig, STAT_PROMOTED_BYTES) >= 16 * MIB);
	rig->config.promote_rate_mib_per_sec = 0;
	run(rig, 1, 320, 16, PAGES, 1);
	from_ns = rig_stat(rig, STAT_PROMOTED_BYTES);
	run(rig, 3, 320, 16, PAGES, 1);
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_PROMOTED_BYTES), from_ns);
	rig_free(rig);
}

static void room_is_kept(void)
{
	struct rig *rig = region_rig();

	/* Beside what is never filled there is room for 5.5 regions on node 0 and none on node 1. */
	rig->kernel.free_pages[0] = RIG_NODE_PAGES * 3 / 100 + 5 * PAGES + PAGES / 2;
	rig->kernel.free_pages[1] = 2000;
	map(rig, 0, 16, 2, 0);
	/* All are alike, and few fit: it takes its time before it fills what is scarce. */
	run(rig, 90, 320, 16, PAGES, 1);
	CU_ASSERT(pages_on(rig, 0) <= 11 * PAGES / 2 * 2); /* two migrators could share it: at most all of it */
	CU_ASSERT(rig->kernel.free_pages[0] >= RIG_NODE_PAGES * 3 / 100);
	CU_ASSERT(pages_on(rig, 0) > 2 * PAGES);
	CU_ASSERT_EQUAL(pages_on(rig, 1), 0);
	CU_ASSERT_EQUAL(rig->result.limit, LIMIT_NO_ROOM);
	rig_free(rig);
}

/* Pages that can't move are asked for again less and less often. */
static void stubborn_pages_are_not_asked_each_second(void)
{
	struct rig *rig = region_rig();
	uint64_t calls;

	map(rig, 0, 16, 2, FAKE_SHARED);
	run(rig, 60, 320, 16, PAGES, 1);
	CU_ASSERT_EQUAL(pages_on(rig, 2), 16 * PAGES);
	CU_ASSERT(rig_stat(rig, STAT_MOVE_SHARED) >= 16 * PAGES);
	CU_ASSERT(rig_stat(rig, STAT_REGIONS_AGAIN) > 0);
	calls = rig->kernel.query_calls;
	run(rig, 60, 320, 16, PAGES, 1);
	/* 16 regions, each at most every 64 epochs or so, with two queries each time. */
	CU_ASSERT(rig->kernel.query_calls - calls <= 16 * 4 * 2);
	rig_free(rig);
}

/* Moved back by somebody: far samples come again, and it is moved again. */
static void what_comes_back_moves_again(void)
{
	struct rig *rig = region_rig();
	struct fake_process *p;

	map(rig, 0, 16, 2, 0);
	run(rig, 12, 320, 16, PAGES, 1);
	CU_ASSERT_EQUAL(pages_on(rig, 0), 16 * PAGES);
	p = rig_process(rig, PID);
	for (size_t i = 0; i < p->n_folios; i++)
		p->folios[i].nid = 2;
	run(rig, 20, 320, 16, PAGES, 1);
	CU_ASSERT_EQUAL(pages_on(rig, 0), 16 * PAGES);
	rig_free(rig);
}

static void a_huge_page_moves_by_its_head(void)
{
	struct rig *rig = region_rig();
	struct fake_process *p = rig_process(rig, PID);

	for (uint64_t i = 0; i < 8; i++)
		fake_folio_add(p, rig_addr(PID, i * PAGES), RIG_HUGE, 2, 0);
	run(rig, 8, 160, 8, 1, 1);
	CU_ASSERT_EQUAL(pages_on(rig, 0), 8 * PAGES);
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_PROMOTED_BYTES), 16 * MIB);
	CU_ASSERT_EQUAL(rig->kernel.bad_calls, 0);
	rig_free(rig);
}

static void a_process_that_ends_costs_nothing(void)
{
	struct rig *rig = region_rig();

	rig->config.promote_rate_mib_per_sec = 4;
	map(rig, 0, 16, 2, 0);
	run(rig, 6, 320, 16, PAGES, 1);
	rig_exit(rig, PID);
	for (int i = 0; i < 50; i++) {
		rig->now_ns += 100 * NSEC_PER_MSEC;
		CU_ASSERT_EQUAL(rig_pass(rig), 0);
	}
	CU_ASSERT_EQUAL(rig->result.limit, LIMIT_NOTHING_HOT);
	rig_free(rig);
}

/* Hint faults tell of a page once a round: what looks dense isn't, and the page rule holds. */
static void faults_move_by_the_page_rule(void)
{
	struct rig *rig = region_rig();

	map(rig, 0, 16, 2, 0);
	for (unsigned int step = 0; step < 60; step++) {
		for (uint64_t i = 0; i < 16; i++) {
			uint64_t page = i * PAGES + step * 4;
			struct record_rule rule = { .layout = RECORD_PRECISE, .window_ms = 5000, .freq_threshold = 1 };
			struct sample sample = { .time_ns = rig->now_ns,
						 .addr = rig_addr(PID, page),
						 .phys = rig_phys(2, page),
						 .pid = PID,
						 .page_shift = 12,
						 .flags = SAMPLE_MAYBE_FIRST_TOUCH };
			struct hotness_place place = { .nid = 2, .is_lower = true, .target_nid = 0 };
			struct owner *owner;

			rcu_enter();
			if (owners_get(rig->owners, PID, rig->now_ns, &owner) == 0)
				for (int n = 0; n < 2; n++)
					hotness_access_page(rig->hotness, 0, &rule, &sample, owner->slot, &place);
			rcu_leave();
		}
		rig->now_ns += 100 * NSEC_PER_MSEC;
		CU_ASSERT_EQUAL(rig_pass(rig), 0);
	}
	CU_ASSERT_EQUAL(pages_on(rig, 0), 16 * 60);
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_REGIONS_WHOLE), 0);
	rig_free(rig);
}

/* Interleaved over two slow nodes: decided once, and each migrator moves its part. */
static void two_nodes_one_decision(void)
{
	struct rig *rig = region_rig();
	struct decider *decider = decider_new(rig->hotness);
	struct migrator_params params = rig->params;
	struct migrator_pass_result result;
	struct migrator *two, *three;
	struct fake_process *p;

	params.decider = decider;
	params.stats = stats_slot_new(rig->stats);
	two = migrator_new(&params);
	params.nid = 3;
	params.stats = stats_slot_new(rig->stats);
	three = migrator_new(&params);
	map(rig, 0, 16, 2, 0);
	p = rig_process(rig, PID);
	for (size_t i = 0; i < p->n_folios; i++)
		p->folios[i].nid = 2 + (int)(i % 2);
	for (unsigned int step = 0; step < 140; step++) {
		for (unsigned int i = 0; i < 32; i++)
			touch(rig, draw(&seed) % (16 * PAGES), 2);
		rig->now_ns += 100 * NSEC_PER_MSEC;
		rig_put_zoneinfo(rig);
		CU_ASSERT_EQUAL(migrator_pass(two, &rig->config, rig->now_ns, &result), 0);
		CU_ASSERT_EQUAL(migrator_pass(three, &rig->config, rig->now_ns, &result), 0);
	}
	CU_ASSERT_EQUAL(pages_on(rig, 2) + pages_on(rig, 3), 0);
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_REGIONS_WHOLE), 16);
	CU_ASSERT(rig_stat(rig, STAT_REGION_PASSES) <= 14);
	CU_ASSERT_EQUAL(rig->kernel.bad_calls, 0);
	migrator_free(two);
	migrator_free(three);
	decider_free(decider);
	rig_free(rig);
}

/* From one policy to the other and back, live. */
static void the_policy_can_be_changed(void)
{
	struct rig *rig = region_rig();
	struct decider_view view;

	map(rig, 0, 16, 2, 0);
	rig->config.promote_policy = POLICY_PAGE;
	run(rig, 3, 320, 16, PAGES, 1);
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_REGION_PASSES), 0);
	decider_look(migrator_decider(rig->migrator), &view);
	CU_ASSERT(!view.known);
	rig->config.promote_policy = POLICY_REGION;
	run(rig, 14, 320, 16, PAGES, 1);
	CU_ASSERT_EQUAL(pages_on(rig, 0), 16 * PAGES);
	decider_look(migrator_decider(rig->migrator), &view);
	CU_ASSERT(view.known);
	CU_ASSERT(view.hit_ratio[0] >= 0 && view.hit_ratio[0] <= view.hit_ratio[1] &&
		  view.hit_ratio[1] <= view.hit_ratio[2]);
	CU_ASSERT_EQUAL(view.waiting, 0);
	rig->config.promote_policy = POLICY_PAGE;
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT(!hotness_is_by_region(rig->hotness));
	rig_free(rig);
}

/* What /proc shows of the process: @n pages from its first address on, bound or not. */
static void put_text(struct rig *rig, uint32_t pid, const char *file, const char *text)
{
	char path[320];

	snprintf(path, sizeof(path), "proc/%u/%s", pid, file);
	machine_put(&rig->machine, path, "%s", text);
}

static void put_proc_of(struct rig *rig, uint32_t pid, const char *group, uint64_t regions, const char *policy)
{
	unsigned long long start = rig_addr(pid, 0), half = start + regions / 2 * RIG_HUGE;
	char text[256];

	put_text(rig, pid, "status", "Name:\tx\nUid:\t5\t5\t5\t5\nVmRSS:\t  10240 kB");
	put_text(rig, pid, "cgroup", group);
	put_text(rig, pid, "fd/.keep", " ");
	snprintf(text, sizeof(text), "task/%u/stat", pid);
	put_text(rig, pid, text, "1 (x) S");
	snprintf(text, sizeof(text), "%llx-%llx rw-p 0 00:00 0 \n%llx-%llx rw-p 0 00:00 0 ", start, half, half,
		 start + regions * RIG_HUGE);
	put_text(rig, pid, "maps", text);
	snprintf(text, sizeof(text), "%llx %s\n%llx default", start, policy, half);
	put_text(rig, pid, "numa_maps", text);
}

static void put_proc(struct rig *rig, const char *policy)
{
	put_proc_of(rig, PID, "0::/a.slice", 16, policy);
}

/* Its migrator asks who may be moved: everybody, but for what a rule says. */
static struct manage *manage_rig(struct rig *rig)
{
	struct manage *manage = manage_new(rig->owners, &rig->machine.root, &rig->clock, rig->topology);

	rig->config.manage_default = true;
	rig->params.manage = manage;
	migrator_free(rig->migrator);
	rig->migrator = migrator_new(&rig->params);
	return manage;
}

/* For what put_proc() shows; the rest is the caller's. */
static struct rule *only_rule(struct rig *rig)
{
	struct rule *rule = &rig->config.manage_rules.rule[0];

	rule_init(rule);
	strcpy(rule->match, "cgroup:/a.slice");
	rig->config.manage_rules.n = 1;
	return rule;
}

/* Whole regions are no less left alone than pages: nothing moves unseen, and then only what is not bound. */
static void regions_are_left_alone_too(void)
{
	struct rig *rig = region_rig();
	struct manage *manage = manage_rig(rig);
	uint64_t left;

	map(rig, 0, 16, 2, 0);
	put_proc(rig, "bind:2");
	run(rig, 14, 160, 16, PAGES, 1);
	CU_ASSERT_EQUAL(pages_on(rig, 0), 0);
	CU_ASSERT_EQUAL(rig->kernel.move_calls, 0);
	CU_ASSERT(manage_left_bytes(migrator_left(rig->migrator), LEFT_NOT_LOOKED_AT) > 0);
	CU_ASSERT_EQUAL(manage_step(manage, &rig->config, NSEC_PER_SEC, NULL), 1);
	run(rig, 14, 160, 16, PAGES, 1);
	CU_ASSERT_EQUAL(pages_on(rig, 0), 8 * PAGES);
	for (uint64_t i = 0; i < 8 * PAGES; i += 100)
		CU_ASSERT_EQUAL(fake_folio_find(rig_process(rig, PID), rig_addr(PID, i))->nid, 2);
	left = manage_left_bytes(migrator_left(rig->migrator), LEFT_POLICY);
	CU_ASSERT(left > 14 * MIB && left < 18 * MIB);
	rig_free(rig);
	manage_free(manage);
}

/* A rule that names a node to which nothing can go: that is its own affair, and no want of fast nodes. */
static void a_target_that_cannot_be_leaves_it_alone(void)
{
	struct rig *rig = region_rig();
	struct manage *manage = manage_rig(rig);
	struct rule *rule = only_rule(rig);
	bool said = false;

	rule->target_nid = 3;
	map(rig, 0, 16, 2, 0);
	put_proc(rig, "default");
	for (int i = 0; i < 140; i++) {
		manage_step(manage, &rig->config, NSEC_PER_SEC, NULL);
		for (unsigned int k = 0; k < 16; k++)
			touch(rig, draw(&seed) % (16 * PAGES), 2);
		rig->now_ns += 100 * NSEC_PER_MSEC;
		CU_ASSERT_EQUAL(rig_pass(rig), 0);
		CU_ASSERT_NOT_EQUAL(rig->result.limit, LIMIT_NO_TARGET);
		CU_ASSERT_NOT_EQUAL(rig->result.limit, LIMIT_NONE);
		said = said || rig->result.limit == LIMIT_LEFT_ALONE;
	}
	CU_ASSERT(said);
	CU_ASSERT_EQUAL(rig->kernel.move_calls, 0);
	CU_ASSERT(manage_left_bytes(migrator_left(rig->migrator), LEFT_RULE) > 28 * MIB);
	rig_free(rig);
	manage_free(manage);
}

/* A rule's target has room, the configuration's has none. */
static void a_rule_does_not_wait_for_the_target_of_others(void)
{
	struct rig *rig = region_rig();
	struct manage *manage = manage_rig(rig);
	struct rule *rule = only_rule(rig);

	rig->config.target_nid = 0;
	rig->kernel.free_pages[0] = RIG_NODE_PAGES / 100;
	rule->target_nid = 1;
	map(rig, 0, 16, 2, 0);
	put_proc(rig, "default");
	for (int i = 0; i < 7; i++) {
		run(rig, 2, 160, 16, PAGES, 1);
		manage_step(manage, &rig->config, NSEC_PER_SEC, NULL);
	}
	CU_ASSERT_EQUAL(pages_on(rig, 1), 16 * PAGES);
	CU_ASSERT_EQUAL(pages_on(rig, 0), 0);
	rig_free(rig);
	manage_free(manage);
}

/* A process whose rule grants it nothing has much that is hot: another one's is not found late for that. */
static void who_waits_for_a_rule_holds_nobody_up(void)
{
	const uint32_t other = PID + 1;
	struct rig *rig = region_rig();
	struct manage *manage = manage_rig(rig);
	struct rule *rule = only_rule(rig);
	struct decider_view view;
	unsigned int late = 0;

	rule->rate_mib_per_sec = 0;
	for (uint64_t i = 0; i < 440; i++)
		fake_folio_add(rig_process(rig, PID), rig_addr(PID, i * PAGES), RIG_HUGE, 2, 0);
	for (uint64_t i = 0; i < 8 * PAGES; i++)
		fake_folio_add(rig_process(rig, other), rig_addr(other, i), RIG_PAGE, 2, 0);
	put_proc_of(rig, PID, "0::/a.slice", 440, "default");
	put_proc_of(rig, other, "0::/b.slice", 8, "default");
	for (int i = 0; i < 300; i++) {
		manage_step(manage, &rig->config, NSEC_PER_SEC, NULL);
		for (unsigned int k = 0; k < 440; k++)
			touch_of(rig, PID, draw(&seed) % (440 * PAGES), 2);
		for (unsigned int k = 0; k < 8; k++)
			touch_of(rig, other, draw(&seed) % (8 * PAGES), 2);
		rig->now_ns += 100 * NSEC_PER_MSEC;
		CU_ASSERT_EQUAL(rig_pass(rig), 0);
		decider_look(migrator_decider(rig->migrator), &view);
		late += view.waiting > 440;
	}
	CU_ASSERT_EQUAL(rig->result.limit, LIMIT_RULE_RATE);
	CU_ASSERT_EQUAL(rig->kernel.moved_pages, 8 * PAGES);
	CU_ASSERT(late <= 5);
	rig_free(rig);
	manage_free(manage);
}

/*
 * A rule's own policy. By the page rule a page needs two samples within the window; by regions, what is known of the
 * pages that were seen says enough about the rest.
 */
static void a_rule_has_its_policy(void)
{
	static const struct {
		int config, rule;
		bool whole;
	} cases[] = {
		{ POLICY_REGION, -1, true },           { POLICY_PAGE, -1, false },
		{ POLICY_REGION, POLICY_PAGE, false }, { POLICY_PAGE, POLICY_REGION, true },
		{ POLICY_PAGE, POLICY_PAGE, false },   { POLICY_REGION, POLICY_REGION, true },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct rig *rig = region_rig();
		struct manage *manage = manage_rig(rig);
		struct rule *rule = only_rule(rig);
		uint64_t near;

		rig->config.promote_policy = cases[i].config;
		rule->policy = cases[i].rule;
		map(rig, 0, 16, 2, 0);
		put_proc(rig, "default");
		for (int k = 0; k < 12; k++) {
			run(rig, 2, 160, 16, PAGES, 1);
			manage_step(manage, &rig->config, NSEC_PER_SEC, NULL);
		}
		near = pages_on(rig, 0);
		if (cases[i].whole)
			CU_ASSERT_EQUAL(near, 16 * PAGES);
		if (!cases[i].whole)
			CU_ASSERT(near > 0 && near < 8 * PAGES);
		CU_ASSERT_EQUAL(rig_stat(rig, STAT_REGIONS_WHOLE) > 0, cases[i].whole);
		rig_free(rig);
		manage_free(manage);
	}
}

TEST_MAIN(migrator_regions, TEST(a_rule_has_its_policy), TEST(who_waits_for_a_rule_holds_nobody_up),
	  TEST(a_rule_does_not_wait_for_the_target_of_others), TEST(a_target_that_cannot_be_leaves_it_alone),
	  TEST(regions_are_left_alone_too), TEST(dense_memory_moves_whole), TEST(a_burst_moves_nothing),
	  TEST(scattered_memory_moves_by_pages), TEST(observing_counts_each_region_once), TEST(the_rate_is_kept),
	  TEST(room_is_kept), TEST(stubborn_pages_are_not_asked_each_second), TEST(what_comes_back_moves_again),
	  TEST(a_huge_page_moves_by_its_head), TEST(a_process_that_ends_costs_nothing),
	  TEST(faults_move_by_the_page_rule), TEST(two_nodes_one_decision), TEST(the_policy_can_be_changed))
