/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <math.h>
#include <stdlib.h>

#include "sim_keys.h"
#include "sim_pattern.h"
#include "sim_rig.h"

#define FIRST 1024 /* of the memory: its second region */
#define PAGES 4096 /* 16 MiB */
#define DRAWS 400000

static struct sim_access access_with(enum sim_pattern_kind kind)
{
	struct sim_access a = { 0 };

	sim_group_defaults(sim_group_find("accesses", 8), &a);
	a.pattern = kind;
	return a;
}

/* Shares sum to 1, no draw falls where none may, and draws of each eighth come as the shares say. */
static void check_agreement(const struct sim_access *a, double sec)
{
	double share[PAGES], sum = 0, part[8] = { 0 };
	unsigned int count[PAGES] = { 0 }, outside = 0, in_part[8] = { 0 };
	struct sim_random random;
	struct sim_pattern p;

	CU_ASSERT_EQUAL(sim_pattern_init(&p, a, FIRST, PAGES, 42), 0);
	sim_pattern_at(&p, sec, 100);
	for (uint64_t i = 0; i < PAGES; i++) {
		share[i] = sim_pattern_share(&p, FIRST + i);
		sum += share[i];
		part[i / 512] += share[i];
		CU_ASSERT_EQUAL(share[i] > 0, sim_pattern_covers(&p, FIRST + i));
	}
	CU_ASSERT_DOUBLE_EQUAL(sum, 1, 1e-9);
	CU_ASSERT_EQUAL(sim_pattern_share(&p, FIRST - 1), 0);
	CU_ASSERT_EQUAL(sim_pattern_share(&p, FIRST + PAGES), 0);
	sim_random_init(&random, 9, 9);
	for (int i = 0; i < DRAWS; i++) {
		uint64_t page = sim_pattern_draw(&p, &random, sec) - FIRST;

		outside += page >= PAGES || share[page] == 0;
		count[page < PAGES ? page : 0]++;
		in_part[page < PAGES ? page / 512 : 0]++;
	}
	CU_ASSERT_EQUAL(outside, 0);
	if (a->pattern != SIM_SWEEP) {
		unsigned int odd = 0;

		for (uint64_t i = 0; i < PAGES; i++) {
			double expected = DRAWS * share[i];

			odd += fabs(count[i] - expected) > 6 * sqrt(expected) + 3;
		}
		CU_ASSERT_EQUAL(odd, 0);
		for (int i = 0; i < 8; i++)
			CU_ASSERT_DOUBLE_EQUAL(in_part[i] / (double)DRAWS, part[i], 0.01);
	}
	sim_pattern_free(&p);
}

static void uniform(void)
{
	struct sim_access a = access_with(SIM_UNIFORM);

	check_agreement(&a, 0);
	a.first_mib = 3;
	a.mib = 5;
	check_agreement(&a, 0);
	a.first_mib = -1;
	check_agreement(&a, 0);
}

static void one_in_four_of_each_region(void)
{
	struct sim_access a = access_with(SIM_UNIFORM);
	struct sim_pattern p;

	a.one_in = 4;
	check_agreement(&a, 0);
	CU_ASSERT_EQUAL(sim_pattern_init(&p, &a, FIRST, PAGES, 42), 0);
	for (uint64_t region = 0; region < PAGES / 512; region++) {
		unsigned int n = 0, differ = 0;

		for (uint64_t i = 0; i < 512; i++) {
			n += sim_pattern_covers(&p, FIRST + region * 512 + i);
			differ += sim_pattern_covers(&p, FIRST + region * 512 + i) != sim_pattern_covers(&p, FIRST + i);
		}
		CU_ASSERT_EQUAL(n, 128);
		CU_ASSERT(region == 0 || differ > 50);
	}
	sim_pattern_free(&p);
}

static void zipf(void)
{
	struct sim_access a = access_with(SIM_ZIPF);

	check_agreement(&a, 0);
	a.unit_kib = 2048;
	check_agreement(&a, 0);
}

static void clients(void)
{
	struct sim_access a = access_with(SIM_CLIENTS);

	a.clients = 10;
	a.share = 0.3;
	check_agreement(&a, 0);
}

/* A vertex with one bit set more has 0.24 / 0.76 of the edges, so some pages have many times the heat of others. */
static void kronecker(void)
{
	struct sim_access a = access_with(SIM_KRONECKER);
	double least = 1, most = 0;
	struct sim_pattern p;

	check_agreement(&a, 0);
	CU_ASSERT_EQUAL(sim_pattern_init(&p, &a, FIRST, PAGES, 42), 0);
	for (uint64_t i = 0; i < PAGES; i++) {
		least = fmin(least, sim_pattern_share(&p, FIRST + i));
		most = fmax(most, sim_pattern_share(&p, FIRST + i));
	}
	CU_ASSERT(most > 20 * least);
	/* Page with vertex 0: its 20 bits are 0 with 0.76 each. */
	CU_ASSERT(most > pow(0.76, 20));
	sim_pattern_free(&p);
}

static void sweep_is_where_its_time_says(void)
{
	struct sim_access a = access_with(SIM_SWEEP);
	struct sim_random random;
	struct sim_pattern p;

	a.sweep_sec = 10;
	a.start_sec = 5;
	check_agreement(&a, 7);
	CU_ASSERT_EQUAL(sim_pattern_init(&p, &a, FIRST, PAGES, 42), 0);
	sim_random_init(&random, 1, 1);
	CU_ASSERT_EQUAL(sim_pattern_front(&p, 5), FIRST);
	CU_ASSERT_EQUAL(sim_pattern_front(&p, 10), FIRST + PAGES / 2);
	CU_ASSERT_EQUAL(sim_pattern_front(&p, 20), FIRST + PAGES / 2);
	for (int i = 0; i < 1000; i++) {
		uint64_t page = sim_pattern_draw(&p, &random, 10);

		CU_ASSERT(page <= FIRST + PAGES / 2 && page + 64 > FIRST + PAGES / 2);
	}
	sim_pattern_free(&p);
}

static void it_begins_and_ends(void)
{
	struct sim_access a = access_with(SIM_SWEEP);
	struct sim_pattern p;

	a.sweep_sec = 10;
	a.start_sec = 5;
	a.once = true;
	CU_ASSERT_EQUAL(sim_pattern_init(&p, &a, FIRST, PAGES, 42), 0);
	CU_ASSERT_FALSE(sim_pattern_at(&p, 0, 100));
	CU_ASSERT_FALSE(p.active);
	CU_ASSERT_TRUE(sim_pattern_at(&p, 5, 100));
	CU_ASSERT_TRUE(p.active);
	CU_ASSERT_FALSE(sim_pattern_at(&p, 14.9, 100));
	CU_ASSERT_EQUAL(sim_pattern_front(&p, 15), FIRST + PAGES - 1);
	CU_ASSERT_TRUE(sim_pattern_at(&p, 15, 100));
	CU_ASSERT_FALSE(p.active);
	sim_pattern_free(&p);
}

static void it_moves_on_time(void)
{
	struct sim_access a = access_with(SIM_UNIFORM);
	struct sim_pattern p;
	uint64_t first;

	a.first_mib = -1;
	a.mib = 1;
	a.every_sec = 10;
	CU_ASSERT_EQUAL(sim_pattern_init(&p, &a, FIRST, PAGES, 42), 0);
	sim_pattern_at(&p, 0, 30);
	first = p.first;
	CU_ASSERT_FALSE(sim_pattern_at(&p, 9.99, 30));
	CU_ASSERT_TRUE(sim_pattern_at(&p, 10, 30));
	CU_ASSERT_NOT_EQUAL(p.first, first);
	CU_ASSERT_EQUAL(p.pages, 256);
	sim_pattern_at(&p, 25, 30);
	first = p.first;
	/* The end belongs to what went before. */
	CU_ASSERT_FALSE(sim_pattern_at(&p, 30, 30));
	CU_ASSERT_EQUAL(p.first, first);
	sim_pattern_free(&p);
}

TEST_MAIN(sim_pattern, TEST(uniform), TEST(one_in_four_of_each_region), TEST(zipf), TEST(clients), TEST(kronecker),
	  TEST(sweep_is_where_its_time_says), TEST(it_begins_and_ends), TEST(it_moves_on_time))
