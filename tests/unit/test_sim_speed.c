/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "sim_rig.h"
#include "sim_speed.h"

static struct sim_scenario two_nodes(double gib_per_sec)
{
	return (struct sim_scenario){
		.threads = 8,
		.nodes = { { .latency_ns = 100, .gib_per_sec = gib_per_sec },
			   { .latency_ns = 400, .gib_per_sec = gib_per_sec } },
		.n_nodes = 2,
	};
}

static const double idle[SIM_NODES_MAX];

/* Threads over the mean latency, as long as bandwidth is no matter. */
static void latency_alone(void)
{
	struct sim_scenario s = two_nodes(1e5);
	double far[SIM_NODES_MAX] = { 0, 1 }, near[SIM_NODES_MAX] = { 1, 0 }, half[SIM_NODES_MAX] = { 0.5, 0.5 };

	CU_ASSERT_DOUBLE_EQUAL(sim_speed(&s, far, idle) / (8e9 / 400), 1, 1e-3);
	CU_ASSERT_DOUBLE_EQUAL(sim_speed(&s, near, idle) / (8e9 / 100), 1, 1e-3);
	CU_ASSERT_DOUBLE_EQUAL(sim_speed(&s, half, idle) / (8e9 / 250), 1, 1e-3);
	s.think_ns = 100;
	CU_ASSERT_DOUBLE_EQUAL(sim_speed(&s, near, idle) / (8e9 / 200), 1, 1e-3);
}

/* What solves it: the accesses on their way are as many as the threads, each as long as the load makes it. */
static void the_loop_is_closed(void)
{
	struct sim_scenario s = two_nodes(2);
	double half[SIM_NODES_MAX] = { 0.5, 0.5 }, per_sec = sim_speed(&s, half, idle), u, ns;

	u = per_sec * 0.5 * 64 / (2 * 0x1p30);
	ns = 0.5 * 500 * (1 + u * u / (1 - u));
	CU_ASSERT(u > 0.1 && u < 0.98);
	CU_ASSERT_DOUBLE_EQUAL(per_sec * ns / 8e9, 1, 1e-3);
}

static void bandwidth_is_a_bound(void)
{
	struct sim_scenario s = two_nodes(1);
	double far[SIM_NODES_MAX] = { 0, 1 }, per_sec;

	s.threads = 1e6;
	per_sec = sim_speed(&s, far, idle);
	CU_ASSERT(per_sec * 64 <= 0x1p30);
	CU_ASSERT(per_sec * 64 >= 0.9 * 0x1p30);
}

static void moving_costs_bandwidth(void)
{
	struct sim_scenario s = two_nodes(2);
	double far[SIM_NODES_MAX] = { 0, 1 }, busy[SIM_NODES_MAX] = { 0, 0x1p30 };
	double without = sim_speed(&s, far, idle), with = sim_speed(&s, far, busy);

	CU_ASSERT(with < without);
	CU_ASSERT(with > 0.2 * without);
	/* Even one that takes all leaves a tenth: the kernel's copying waits as well. */
	busy[1] = 10 * 0x1p30;
	CU_ASSERT(sim_speed(&s, far, busy) > 0);
}

TEST_MAIN(sim_speed, TEST(latency_alone), TEST(the_loop_is_closed), TEST(bandwidth_is_a_bound),
	  TEST(moving_costs_bandwidth))
