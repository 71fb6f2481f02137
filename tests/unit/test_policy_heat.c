/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <math.h>
#include <string.h>

#include "draw.h"
#include "harness.h"
#include "policy_heat.h"

#define REGION 2097152.0

static struct heat_counts counts;

/* @n regions of @rate, watched for @sec. */
static void add(uint64_t *seed, unsigned int n, double rate, double sec, double near)
{
	for (unsigned int i = 0; i < n; i++)
		heat_add(&counts, draw_poisson(seed, rate * sec), sec, near * REGION, (1 - near) * REGION);
}

static double weight_between(const struct heat *heat, double low, double high)
{
	double sum = 0;

	for (int i = 0; i < HEAT_STEPS; i++)
		if (heat_rate(i) >= low && heat_rate(i) <= high)
			sum += heat->weight[i];
	return sum;
}

static void nothing_is_known_of_nothing(void)
{
	struct heat heat = { .ground = -1 };
	struct heat_region region;

	heat_clear(&counts);
	heat_fit(&counts, 1e9, &heat);
	CU_ASSERT(!heat.known);
	heat_judge(&heat, 5, 10, &region);
	CU_ASSERT_EQUAL(region.above_ground, 0);
	CU_ASSERT_EQUAL(heat_hit_ratio(&heat, 1e9), 0);
	CU_ASSERT_EQUAL(heat_worth(&heat), 0);
}

/* What is worth its place: all that is hot, whatever goes on below; or what fits. */
static void worth_is_the_least_of_what_is_hot(void)
{
	struct heat heat = { .ground = -1 };
	uint64_t seed = 3;

	heat_clear(&counts);
	add(&seed, 8192, 0.64, 20, 0);
	add(&seed, 24576, 0.024, 20, 0);
	heat_fit(&counts, 1e12, &heat);
	CU_ASSERT(heat_worth(&heat) > 0.3 && heat_worth(&heat) < 0.72);
	heat_clear(&counts);
	for (unsigned int rank = 1; rank <= 4096; rank++)
		add(&seed, 1, 60.0 / rank, 60, rank <= 512);
	heat_fit(&counts, 1024 * REGION, &heat);
	CU_ASSERT_DOUBLE_EQUAL(heat_worth(&heat), heat.threshold, 1e-12);
	heat_fit(&counts, 1e12, &heat);
	CU_ASSERT(heat_worth(&heat) > 0.01 && heat_worth(&heat) < 0.05);
}

/* Small counts scatter; what they come from doesn't. */
static void one_rate_comes_out_as_one(void)
{
	for (uint64_t s = 1; s <= 3; s++) {
		struct heat heat = { .ground = -1 };
		uint64_t seed = s;

		heat_clear(&counts);
		add(&seed, 5000, 0.7, 12, 0);
		heat_fit(&counts, 1e12, &heat);
		CU_ASSERT(weight_between(&heat, 0.35, 1.4) > 0.97);
		CU_ASSERT(fabs(heat.accesses - 0.7) < 0.07);
		CU_ASSERT_EQUAL(heat.threshold, 0);
	}
}

/* Accesses that go anywhere, a tenth of all over three times the memory, are told from what is hot. */
static void a_background_is_found(void)
{
	for (uint64_t s = 1; s <= 3; s++) {
		struct heat heat = { .ground = -1 };
		struct heat_region cold, hot;
		uint64_t seed = s;

		heat_clear(&counts);
		add(&seed, 8192, 0.64, 20, 0);
		add(&seed, 24576, 0.024, 20, 0);
		heat_fit(&counts, 1e12, &heat);
		CU_ASSERT(heat.ground >= 0);
		CU_ASSERT(heat_rate(heat.ground) > 0.04 && heat_rate(heat.ground) < 0.4);
		heat_judge(&heat, 1, 20, &cold);
		heat_judge(&heat, 13, 20, &hot);
		CU_ASSERT(cold.above_ground < 0.01);
		CU_ASSERT(hot.above_ground > 0.99);
	}
}

/* A continuum has no background, however far it reaches. */
static void a_continuum_has_none(void)
{
	struct heat heat = { .ground = -1 };
	struct heat_region region;
	uint64_t seed = 2;

	heat_clear(&counts);
	for (unsigned int rank = 1; rank <= 32768; rank++)
		add(&seed, 1, 530.0 / rank, 60, 0);
	heat_fit(&counts, 1e12, &heat);
	heat_judge(&heat, 2, 60, &region);
	CU_ASSERT(region.above_ground > 0.9);
}

/* One very hot region doesn't make background of all that is warm. */
static void one_very_hot_region_is_no_measure(void)
{
	struct heat heat = { .ground = -1 };
	struct heat_region region;
	uint64_t seed = 2;

	heat_clear(&counts);
	add(&seed, 1, 2000, 2, 0);
	add(&seed, 2000, 0.5, 20, 0);
	heat_fit(&counts, 1e12, &heat);
	heat_judge(&heat, 9, 20, &region);
	CU_ASSERT(region.above_ground > 0.99);
}

static void the_threshold_is_what_fits(void)
{
	struct heat heat = { .ground = -1 };
	uint64_t seed = 2;

	heat_clear(&counts);
	for (unsigned int rank = 1; rank <= 4096; rank++)
		add(&seed, 1, 60.0 / rank, 60, rank <= 512);
	heat_fit(&counts, 1024 * REGION, &heat);
	/* Rank 1024 has a rate of 0.059. */
	CU_ASSERT(heat.threshold > 0.045 && heat.threshold < 0.075);
	heat_fit(&counts, 4096 * REGION * 1.01, &heat);
	CU_ASSERT_EQUAL(heat.threshold, 0);
	heat_fit(&counts, 0, &heat);
	CU_ASSERT(heat.threshold > 30);
	/* Harmonic numbers: 1024 of 4096 regions have 84.6% of the accesses. */
	CU_ASSERT_DOUBLE_EQUAL(heat_hit_ratio(&heat, 1024 * REGION), 0.846, 0.03);
	CU_ASSERT_DOUBLE_EQUAL(heat_hit_ratio(&heat, 1e15), 1, 1e-9);
	CU_ASSERT_DOUBLE_EQUAL(heat_hit_ratio(&heat, 0), 0, 1e-9);
}

static void more_samples_are_hotter(void)
{
	struct heat heat = { .ground = -1 };
	struct heat_region region;
	uint64_t seed = 2;
	double last_above = 0, last_mean = 0;

	heat_clear(&counts);
	add(&seed, 1000, 0.64, 20, 0);
	add(&seed, 3000, 0.024, 20, 0);
	heat_fit(&counts, 1e12, &heat);
	for (int n = 0; n < 5000; n += 1 + n / 5) {
		heat_judge(&heat, n, 20, &region);
		CU_ASSERT(region.above_ground >= last_above - 1e-9);
		CU_ASSERT(region.mean_rate >= last_mean - 1e-9);
		CU_ASSERT(region.above_ground <= 1 + 1e-9);
		last_above = region.above_ground;
		last_mean = region.mean_rate;
	}
	/* And the same samples in less time. */
	last_mean = 0;
	for (double sec = 500; sec > 0.05; sec /= 1.3) {
		heat_judge(&heat, 5, sec, &region);
		CU_ASSERT(region.mean_rate >= last_mean - 1e-9);
		last_mean = region.mean_rate;
	}
}

/* An earlier fit is a start, not a bond: what changed is found from it. */
static void a_fit_follows_a_change(void)
{
	struct heat heat = { .ground = -1 };
	uint64_t seed = 2;

	heat_clear(&counts);
	add(&seed, 3000, 0.1, 60, 0);
	for (int i = 0; i < 5; i++)
		heat_fit(&counts, 1e12, &heat);
	heat_clear(&counts);
	add(&seed, 3000, 8, 20, 0);
	heat_fit(&counts, 1e12, &heat);
	CU_ASSERT(weight_between(&heat, 4, 16) > 0.95);
}

TEST_MAIN(policy_heat, TEST(nothing_is_known_of_nothing), TEST(worth_is_the_least_of_what_is_hot),
	  TEST(one_rate_comes_out_as_one), TEST(a_background_is_found), TEST(a_continuum_has_none),
	  TEST(one_very_hot_region_is_no_measure), TEST(the_threshold_is_what_fits), TEST(more_samples_are_hotter),
	  TEST(a_fit_follows_a_change))
