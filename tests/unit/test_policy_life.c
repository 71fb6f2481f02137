/* SPDX-License-Identifier: GPL-2.0-or-later */
/* For how long memory stays hot, as far as its samples show. 500 regions have 1,000 samples a second. */
#include "clock.h"
#include "harness.h"
#include "policy_life.h"

#define REGIONS  500U
#define FLOW     1000.0
#define START_NS (1000 * NSEC_PER_SEC)

struct rig {
	struct policy_life *life;
	uint64_t now_ns;
	uint64_t hot_sec,
		every_sec; /* a region is hot for so long after it was found, and again each so many seconds */
	uint64_t found_ns[REGIONS];
	unsigned int found; /* so many of them are */
	bool gone;
};

static uint64_t idle_ns(void *ctx, uint32_t slot, uint64_t key)
{
	const struct rig *r = ctx;
	uint64_t age = (r->now_ns - r->found_ns[slot]) / NSEC_PER_SEC, turn;

	if (r->gone || key != slot + 7)
		return UINT64_MAX;
	turn = r->every_sec ? age % r->every_sec : age;
	if (turn < r->hot_sec)
		return 300 * NSEC_PER_MSEC;
	return (turn - r->hot_sec) * NSEC_PER_SEC + 300 * NSEC_PER_MSEC;
}

static void rig_start(struct rig *r, uint64_t hot_sec, uint64_t every_sec)
{
	*r = (struct rig){ .life = policy_life_new(), .now_ns = START_NS, .hot_sec = hot_sec, .every_sec = every_sec };
}

static void run(struct rig *r, unsigned int sec, double flow)
{
	for (unsigned int i = 0; i < sec; i++) {
		/* A few are found each second. */
		for (int k = 0; k < 10 && r->found < REGIONS; k++, r->found++) {
			r->found_ns[r->found] = r->now_ns;
			policy_life_add(r->life, r->found, r->found + 7, 1.0 / REGIONS, r->now_ns);
		}
		r->now_ns += NSEC_PER_SEC;
		policy_life_step(r->life, idle_ns, r, flow, r->now_ns);
	}
}

static void what_is_not_known_stays_hot(void)
{
	struct rig r;

	rig_start(&r, 1000, 0);
	CU_ASSERT_DOUBLE_EQUAL(policy_life_sec(r.life), LIFE_MAX_SEC, 1e-6);
	policy_life_step(r.life, idle_ns, &r, FLOW, r.now_ns);
	CU_ASSERT_DOUBLE_EQUAL(policy_life_sec(r.life), LIFE_MAX_SEC, 1e-6);
	policy_life_free(r.life);
}

static void what_stays_hot_is_worth_a_long_time(void)
{
	struct rig r;

	rig_start(&r, 1000, 0);
	run(&r, 30, FLOW);
	CU_ASSERT(policy_life_sec(r.life) > 0.98 * LIFE_MAX_SEC);
	run(&r, 270, FLOW);
	CU_ASSERT(policy_life_sec(r.life) > 0.98 * LIFE_MAX_SEC);
	policy_life_free(r.life);
}

/* Five seconds, and never again: known soon, and still known later. */
static void what_moves_on_is_not(void)
{
	struct rig r;

	rig_start(&r, 5, 0);
	run(&r, 15, FLOW);
	CU_ASSERT(policy_life_sec(r.life) > 3 && policy_life_sec(r.life) < 20);
	run(&r, 60, FLOW);
	CU_ASSERT(policy_life_sec(r.life) > 3 && policy_life_sec(r.life) < 8);
	policy_life_free(r.life);
}

/* Five seconds of each twenty: a quarter of the time. */
static void what_comes_back_counts(void)
{
	struct rig r;

	rig_start(&r, 5, 20);
	run(&r, 300, FLOW);
	CU_ASSERT_DOUBLE_EQUAL(policy_life_sec(r.life), LIFE_MAX_SEC / 4, LIFE_MAX_SEC / 16);
	policy_life_free(r.life);
}

/* Silence of all of them, or of so few samples that it is usual, says nothing. */
static void no_samples_say_nothing(void)
{
	struct rig r;

	rig_start(&r, 5, 0);
	run(&r, 60, 0);
	CU_ASSERT_DOUBLE_EQUAL(policy_life_sec(r.life), LIFE_MAX_SEC, 1e-6);
	policy_life_free(r.life);
	rig_start(&r, 5, 0);
	run(&r, 60, 1);
	CU_ASSERT_DOUBLE_EQUAL(policy_life_sec(r.life), LIFE_MAX_SEC, 1e-6);
	policy_life_free(r.life);
}

/* Half the samples, half the rate: the same memory is as hot as before. */
static void a_slower_sampler_is_no_end(void)
{
	struct rig r;

	rig_start(&r, 1000, 0);
	run(&r, 30, FLOW);
	run(&r, 100, FLOW / 4);
	CU_ASSERT(policy_life_sec(r.life) > 0.98 * LIFE_MAX_SEC);
	policy_life_free(r.life);
}

/* A region that is gone, or another one in its slot, is hot no more; and nothing that was seen counts for ever. */
static void gone_and_forgotten(void)
{
	struct rig r;

	rig_start(&r, 1000, 0);
	run(&r, 20, FLOW);
	r.gone = true;
	run(&r, 60, FLOW);
	CU_ASSERT(policy_life_sec(r.life) < 0.5 * LIFE_MAX_SEC);
	r.gone = false;
	r.found = REGIONS;
	run(&r, 2000, FLOW);
	CU_ASSERT(policy_life_sec(r.life) > 0.9 * LIFE_MAX_SEC);
	policy_life_free(r.life);
}

TEST_MAIN(policy_life, TEST(what_is_not_known_stays_hot), TEST(what_stays_hot_is_worth_a_long_time),
	  TEST(what_moves_on_is_not), TEST(what_comes_back_counts), TEST(no_samples_say_nothing),
	  TEST(a_slower_sampler_is_no_end), TEST(gone_and_forgotten))
