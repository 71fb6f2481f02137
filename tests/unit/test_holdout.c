/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is held out, and what the comparison says. */
#include <math.h>

#include "accesses.h"
#include "clock.h"
#include "config.h"
#include "draw.h"
#include "harness.h"
#include "holdout.h"
#include "hotness.h"

#define BASE    0x7f0000000000ULL
#define REGIONS 2000ULL
#define PID     100U

static struct config config_of(double percent)
{
	return (struct config){ .guard_holdout_percent = percent };
}

/* A sample of region @i. */
static void count(struct holdout *h, const struct config *config, uint64_t i, bool far, uint32_t latency,
		  enum sample_source source)
{
	struct sample sample = {
		.addr = BASE + i * REGION_BYTES + 77, .pid = PID, .latency = latency, .source = (uint8_t)source
	};
	struct hotness_context context = { .place = { .is_lower = far } };
	struct hotness_item item = { .sample = &sample, .context = &context };

	holdout_count(h, 0, config, &item, 1);
}

static void the_share_is_that_of_the_regions(void)
{
	static const double percents[] = { 1, 5, 20, 50 };

	for (size_t k = 0; k < sizeof(percents) / sizeof(percents[0]); k++) {
		unsigned int n = 0;

		for (uint64_t i = 0; i < 100000; i++) {
			bool held = holdout_has(percents[k], PID, BASE + i * REGION_BYTES);

			n += held;
			/* All pages of a region, at any larger share, too. */
			CU_ASSERT_EQUAL(held,
					holdout_has(percents[k], PID, BASE + i * REGION_BYTES + REGION_BYTES - 1));
			if (held && k > 0)
				CU_ASSERT(holdout_has(50, PID, BASE + i * REGION_BYTES));
		}
		CU_ASSERT_DOUBLE_EQUAL(n / 1000.0, percents[k], 0.5);
	}
	for (uint64_t i = 0; i < 1000; i++)
		CU_ASSERT_FALSE(holdout_has(0, PID, BASE + i * REGION_BYTES));
}

/* @n samples at random; those of what is held out are far, of the rest @far_percent. */
static void sample(struct holdout *h, const struct config *config, uint64_t seed, unsigned int n,
		   unsigned int far_percent)
{
	for (unsigned int k = 0; k < n; k++) {
		uint64_t i = draw(&seed) % REGIONS;
		bool held = holdout_has(config->guard_holdout_percent, PID, BASE + i * REGION_BYTES);
		bool far = held || draw(&seed) % 100 < far_percent;

		count(h, config, i, far, far ? 900 : 300, SAMPLE_SOURCE_IBS);
	}
}

static void what_is_saved_is_found(void)
{
	struct config config = config_of(10);
	struct holdout *h = holdout_new(1);
	struct holdout_view view;

	holdout_step(h, &config, NULL, NSEC_PER_SEC);
	sample(h, &config, 5, 100000, 29);
	holdout_step(h, &config, NULL, NSEC_PER_SEC + HOLDOUT_WINDOW_NS - 1);
	holdout_look(h, &view);
	CU_ASSERT_FALSE(view.known);
	holdout_step(h, &config, NULL, NSEC_PER_SEC + HOLDOUT_WINDOW_NS);
	holdout_look(h, &view);
	CU_ASSERT(view.known);
	CU_ASSERT_DOUBLE_EQUAL(view.saved, 0.71, 0.01);
	CU_ASSERT(view.margin > 0.001 && view.margin < 0.02);
	CU_ASSERT_DOUBLE_EQUAL(view.far_held, 1, 1e-9);
	CU_ASSERT(view.held > 8000 && view.held < 12000);
	CU_ASSERT(view.has_latency);
	CU_ASSERT_DOUBLE_EQUAL(view.latency_held_cycles, 900, 1e-6);
	CU_ASSERT_DOUBLE_EQUAL(view.latency_moved_cycles, 300 + 0.29 * 600, 6);
	holdout_free(h);
}

/* What the accesses wait for, as often as a sample stands for; but no more than the CPUs were busy. */
static void cpu_time_comes_back(void)
{
	static const struct {
		uint64_t per_sample, busy_ms, khz;
		double back; /* below -1: not known */
	} cases[] = {
		/* 10,000 samples of 1,000 accesses wait 474 cycles each, of 3 GHz: 1.58 s of 4. */
		{ 1000, 4000, 3000000, 1.58 * 0.899 / (4 + 1.58 * 0.899) },
		{ 100000, 4000, 3000000, 0.899 / 1.899 }, /* they overlap */
		{ 0, 4000, 3000000, -2 },
		{ 1000, 0, 3000000, -2 },
		{ 1000, 4000, 0, -2 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct config config = config_of(10);
		struct holdout *h = holdout_new(1);
		struct accesses accesses = { .per_sample = cases[i].per_sample,
					     .busy_ms_per_sec = cases[i].busy_ms,
					     .cpu_khz = cases[i].khz,
					     .samples_per_sec = 10000 };
		struct holdout_view view;

		holdout_step(h, &config, &accesses, NSEC_PER_SEC);
		sample(h, &config, 5, 100000, 29);
		holdout_step(h, &config, &accesses, NSEC_PER_SEC + HOLDOUT_WINDOW_NS);
		holdout_look(h, &view);
		CU_ASSERT_EQUAL(view.windows, 2);
		CU_ASSERT_EQUAL(view.has_cpu, cases[i].back > -1);
		if (view.has_cpu)
			CU_ASSERT_DOUBLE_EQUAL(view.cpu_back, cases[i].back, 0.01);
		holdout_free(h);
	}
}

/* What was before the last windows is forgotten. */
static void it_is_of_late(void)
{
	struct config config = config_of(10);
	struct holdout *h = holdout_new(1);
	struct holdout_view view;
	uint64_t now_ns = NSEC_PER_SEC;

	holdout_step(h, &config, NULL, now_ns);
	for (unsigned int i = 0; i < 6; i++) {
		sample(h, &config, 5 + i, 100000, i < 3 ? 100 : 0);
		now_ns += HOLDOUT_WINDOW_NS;
		holdout_step(h, &config, NULL, now_ns);
	}
	holdout_look(h, &view);
	CU_ASSERT_DOUBLE_EQUAL(view.saved, 1, 1e-9);
	/* Another share is another comparison. */
	config.guard_holdout_percent = 20;
	holdout_step(h, &config, NULL, now_ns + 1);
	holdout_look(h, &view);
	CU_ASSERT_FALSE(view.known);
	holdout_free(h);
}

static void little_says_nothing(void)
{
	struct config config = config_of(10), off = config_of(0);
	struct holdout *h = holdout_new(1);
	struct holdout_view view;

	holdout_step(h, &config, NULL, NSEC_PER_SEC);
	sample(h, &config, 5, 5000, 29); /* 500 of what is held out */
	/* Faults are no accesses. */
	for (unsigned int i = 0; i < 50000; i++)
		count(h, &config, i % REGIONS, true, 0, SAMPLE_SOURCE_HINT_FAULTS);
	holdout_step(h, &config, NULL, NSEC_PER_SEC + HOLDOUT_WINDOW_NS);
	holdout_look(h, &view);
	CU_ASSERT_EQUAL(view.percent, 10);
	CU_ASSERT_FALSE(view.known);
	CU_ASSERT(view.held > 300 && view.held < 700);
	holdout_step(h, &off, NULL, NSEC_PER_SEC + 2 * HOLDOUT_WINDOW_NS);
	sample(h, &off, 5, 50000, 29);
	holdout_step(h, &off, NULL, NSEC_PER_SEC + 3 * HOLDOUT_WINDOW_NS);
	holdout_look(h, &view);
	CU_ASSERT_EQUAL(view.percent, 0);
	CU_ASSERT_EQUAL(view.moved, 0);
	holdout_free(h);
}

/*
 * Regions differ: a few have most of the accesses, and half of the regions is far whatever is done. The interval knows
 * that.
 */
static void the_interval_holds_the_truth(void)
{
	unsigned int within = 0;
	double errors = 0, margins = 0;

	for (uint64_t s = 1; s <= 200; s++) {
		struct config config = config_of(20);
		struct holdout *h = holdout_new(1);
		struct holdout_view view;
		uint64_t seed = s;

		holdout_step(h, &config, NULL, NSEC_PER_SEC);
		for (unsigned int k = 0; k < 20000; k++) {
			/* Each time other regions are the hot ones, and the far ones. */
			uint64_t i = (draw(&seed) % REGIONS) * (draw(&seed) % REGIONS) / REGIONS + s * 100000;
			bool held = holdout_has(20, PID, BASE + i * REGION_BYTES);
			bool far = i % 2 == 0;

			/* Of what is far and not held out three quarters were moved. */
			count(h, &config, i, far && (held || i / 2 % 4 == 0), 0, SAMPLE_SOURCE_IBS);
		}
		holdout_step(h, &config, NULL, NSEC_PER_SEC + HOLDOUT_WINDOW_NS);
		holdout_look(h, &view);
		CU_ASSERT(view.known);
		within += fabs(view.saved - 0.75) <= view.margin;
		errors += fabs(view.saved - 0.75);
		margins += view.margin;
		holdout_free(h);
	}
	CU_ASSERT(within >= 184);
	CU_ASSERT(errors * 5 > margins); /* nor is it simply wide: the mean error is 0.4 of a true margin */
}

TEST_MAIN(holdout, TEST(the_share_is_that_of_the_regions), TEST(what_is_saved_is_found), TEST(cpu_time_comes_back),
	  TEST(it_is_of_late), TEST(little_says_nothing), TEST(the_interval_holds_the_truth))
