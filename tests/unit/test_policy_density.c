/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <math.h>
#include <string.h>

#include "draw.h"
#include "harness.h"
#include "policy_density.h"

static struct density_class pool;

static double sum_of(const struct density *d)
{
	double sum = 0;

	for (int i = 0; i < DENSITY_STEPS; i++)
		sum += d->weight[i];
	return sum;
}

/* @regions with @mean samples each on @hot of their pages. */
static void add(uint64_t *seed, unsigned int regions, double mean, unsigned int hot)
{
	for (unsigned int i = 0; i < regions; i++) {
		unsigned int n = draw_poisson(seed, mean);

		density_class_add(&pool, n, draw_pages(seed, n, hot, NULL));
	}
}

static void fit(struct density *ret)
{
	struct density flat;

	density_flat(&flat);
	density_fit(&pool, &flat, 1, ret);
}

static void flat_is_flat(void)
{
	struct density d;

	density_flat(&d);
	CU_ASSERT_DOUBLE_EQUAL(sum_of(&d), 1, 1e-12);
	CU_ASSERT_DOUBLE_EQUAL(density_at_least(&d, 0), 1, 1e-12);
	CU_ASSERT_DOUBLE_EQUAL(density_at_least(&d, 1), 1.0 / DENSITY_STEPS, 1e-12);
	/* From nothing, nothing is learned. */
	density_class_clear(&pool);
	fit(&d);
	CU_ASSERT_DOUBLE_EQUAL(d.weight[0], 1.0 / DENSITY_STEPS, 1e-9);
}

/* What one region with few samples can't tell, thousands can: for each share, and several seeds. */
static void a_pool_tells_the_share(void)
{
	static const unsigned int hots[] = { 16, 64, 128, 256, 512 };

	for (uint64_t s = 1; s <= 3; s++)
		for (size_t i = 0; i < sizeof(hots) / sizeof(hots[0]); i++) {
			uint64_t seed = s;
			struct density prior, own;

			density_class_clear(&pool);
			add(&seed, 4000, 8, hots[i]);
			fit(&prior);
			CU_ASSERT_DOUBLE_EQUAL(sum_of(&prior), 1, 1e-9);
			CU_ASSERT(fabs(density_mean(&prior) / (hots[i] / 512.0) - 1) < 0.1);
			/* And so for one of them, with 8 samples and no repeat. */
			density_posterior(&prior, 8, 8, 512, &own);
			if (hots[i] == 512)
				CU_ASSERT(density_at_least(&own, 0.75) > 0.95);
			if (hots[i] <= 256)
				CU_ASSERT(density_at_least(&own, 0.75) < 0.05);
		}
}

static void one_region_alone_is_not_told(void)
{
	struct density prior, own;

	density_flat(&prior);
	density_posterior(&prior, 8, 8, 512, &own);
	CU_ASSERT(density_at_least(&own, 0.75) < 0.5);
	/* With 300 samples it is. */
	density_posterior(&prior, 300, 227, 512, &own); /* as many as 512 hot ones show: 512 (1 - e^-0.59) */
	CU_ASSERT(density_at_least(&own, 0.75) > 0.95);
	density_posterior(&prior, 300, 116, 512, &own); /* 128 hot ones */
	CU_ASSERT(density_at_least(&own, 0.75) < 1e-6);
	CU_ASSERT(fabs(density_mean(&own) - 0.25) < 0.05);
}

/* Dense and scattered regions in one pool are not averaged into one: those with enough samples are told apart. */
static void a_mixture_stays_one(void)
{
	for (uint64_t s = 1; s <= 3; s++) {
		uint64_t seed = s;
		struct density prior, own;
		unsigned int wrong_dense = 0, wrong_scattered = 0, undecided = 0;

		density_class_clear(&pool);
		add(&seed, 2000, 60, 512);
		add(&seed, 2000, 60, 64);
		fit(&prior);
		/* Weight at both, little in between. */
		CU_ASSERT(density_at_least(&prior, 0.74) > 0.4 && density_at_least(&prior, 0.74) < 0.6);
		CU_ASSERT(density_at_least(&prior, 0.3) - density_at_least(&prior, 0.7) < 0.1);
		for (int i = 0; i < 1000; i++) {
			bool dense = i % 2;

			density_posterior(&prior, 60, draw_pages(&seed, 60, dense ? 512 : 64, NULL), 512, &own);
			wrong_scattered += dense && density_at_least(&own, 0.75) < 0.05;
			wrong_dense += !dense && density_at_least(&own, 0.75) >= 0.95;
			undecided += density_at_least(&own, 0.75) >= 0.05 && density_at_least(&own, 0.75) < 0.95;
		}
		CU_ASSERT(wrong_dense <= 5);
		CU_ASSERT(wrong_scattered <= 5);
		CU_ASSERT(undecided < 100);
	}
}

/* A few odd regions don't spoil what holds for all the others. */
static void odd_ones_do_little(void)
{
	uint64_t seed = 9;
	struct density prior;

	density_class_clear(&pool);
	add(&seed, 3000, 10, 512);
	for (int i = 0; i < 30; i++)
		density_class_add(&pool, 200, 1);
	fit(&prior);
	CU_ASSERT(density_at_least(&prior, 0.75) > 0.95);
}

/*
 * A dozen or so that are alike are judged as alike, also the one that repeats more by chance. What is of another kind
 * is told apart all the same.
 */
static void a_few_that_are_alike_are_one_kind(void)
{
	unsigned int dense = 0, all = 0, wrong = 0, odd = 0;

	for (uint64_t s = 1; s <= 50; s++) {
		uint64_t seed = s;
		struct density prior, own;

		density_class_clear(&pool);
		add(&seed, 16, 60, 512);
		fit(&prior);
		for (size_t k = 0; k < pool.n_cells; k++) {
			density_posterior(&prior, pool.cell[k].samples, pool.cell[k].pages, 512, &own);
			dense += pool.cell[k].regions * (density_at_least(&own, 0.75) >= 0.95);
			all += pool.cell[k].regions;
		}
		density_class_clear(&pool);
		add(&seed, 12, 60, 512);
		for (int i = 0; i < 4; i++) {
			unsigned int pages = draw_pages(&seed, 60, 64, NULL);

			density_class_add(&pool, 60, pages);
			fit(&prior);
			density_posterior(&prior, 60, pages, 512, &own);
			wrong += density_at_least(&own, 0.75) >= 0.5;
			odd++;
		}
	}
	CU_ASSERT(all == 16 * 50);
	CU_ASSERT(dense >= all * 0.9);
	CU_ASSERT(wrong <= odd / 100);
}

/* More repeats never make a region look denser. */
static void more_repeats_are_less_dense(void)
{
	uint64_t seed = 4;
	struct density prior, own;
	double last, mean;

	density_class_clear(&pool);
	add(&seed, 500, 30, 512);
	add(&seed, 500, 30, 32);
	fit(&prior);
	for (unsigned int n = 2; n < 200; n += 9) {
		last = 0;
		for (unsigned int pages = 1; pages <= n; pages++) {
			density_posterior(&prior, n, pages, 512, &own);
			mean = density_mean(&own);
			CU_ASSERT(mean >= last - 1e-12);
			last = mean;
		}
	}
	/* And with no repeat, more samples never make it less dense. */
	last = 0;
	for (unsigned int n = 1; n < 200; n++) {
		density_posterior(&prior, n, n, 512, &own);
		CU_ASSERT(density_mean(&own) >= last - 1e-12);
		last = density_mean(&own);
	}
}

static void odd_numbers_are_left_out(void)
{
	struct density prior, own;

	density_class_clear(&pool);
	density_class_add(&pool, 0, 0);
	density_class_add(&pool, 3, 4);
	density_class_add(&pool, 600, 513);
	CU_ASSERT_EQUAL(pool.regions, 0);
	/* More kinds than there is room for. */
	for (unsigned int n = 1; n < 200; n++)
		for (unsigned int pages = 1; pages <= n; pages++)
			density_class_add(&pool, n, pages);
	CU_ASSERT_EQUAL(pool.n_cells, DENSITY_CELLS);
	fit(&prior);
	CU_ASSERT_DOUBLE_EQUAL(sum_of(&prior), 1, 1e-9);
	density_posterior(&prior, 5, 9, 512, &own);
	CU_ASSERT_DOUBLE_EQUAL(sum_of(&own), 1, 1e-9);
	density_posterior(&prior, 4095, 512, 1, &own); /* impossible: nothing is said */
	CU_ASSERT_DOUBLE_EQUAL(sum_of(&own), 1, 1e-9);
}

static void the_same_gives_the_same(void)
{
	struct density a, b;
	uint64_t seed = 5;

	density_class_clear(&pool);
	add(&seed, 300, 20, 100);
	fit(&a);
	density_class_clear(&pool);
	seed = 5;
	add(&seed, 300, 20, 100);
	fit(&b);
	CU_ASSERT_EQUAL(memcmp(&a, &b, sizeof(a)), 0);
}

TEST_MAIN(policy_density, TEST(flat_is_flat), TEST(a_pool_tells_the_share), TEST(one_region_alone_is_not_told),
	  TEST(a_mixture_stays_one), TEST(odd_ones_do_little), TEST(a_few_that_are_alike_are_one_kind),
	  TEST(more_repeats_are_less_dense), TEST(odd_numbers_are_left_out), TEST(the_same_gives_the_same))
