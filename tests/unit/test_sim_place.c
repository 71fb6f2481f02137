/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdlib.h>

#include "sim_place.h"
#include "sim_place_rate.h"
#include "sim_rig.h"

static struct sim_scenario scenario;

static void start(struct sim_place *place, const char *text)
{
	char error[SIM_ERROR_MAX];
	int r;

	sim_rig_parse(&scenario, text);
	r = sim_place_init(place, &scenario, error);
	CU_ASSERT_EQUAL(r, 0);
	if (r < 0)
		printf("  %s\n", error);
}

/* What is kept up page by page is what a fresh look at all pages says. */
static void check_sums(struct sim_place *place)
{
	double mass[2][SIM_ACCESSES_MAX][SIM_NODES_MAX];
	struct sim_area area[SIM_MEMORIES_MAX];
	uint64_t used[SIM_NODES_MAX] = { 0 };

	memcpy(mass, place->mass, sizeof(mass));
	memcpy(area, place->area, sizeof(area));
	CU_ASSERT_EQUAL(sim_place_rate(place), 0);
	for (size_t i = 0; i < place->n_patterns; i++)
		for (size_t n = 0; n < place->n_nodes; n++)
			CU_ASSERT_DOUBLE_EQUAL(mass[0][i][n], place->mass[0][i][n], 1e-9);
	for (size_t i = 0; i < place->n_areas; i++) {
		CU_ASSERT_EQUAL(area[i].hot, place->area[i].hot);
		CU_ASSERT_EQUAL(area[i].hot_near, place->area[i].hot_near);
		CU_ASSERT_EQUAL(area[i].hot_decided, place->area[i].hot_decided);
		CU_ASSERT_EQUAL(area[i].cold_moved, place->area[i].cold_moved);
	}
	for (uint64_t page = 0; page < place->pages; page++)
		if (place->node[0][page] != SIM_NOWHERE)
			used[place->node[0][page]]++;
	for (size_t n = 0; n < place->n_nodes; n++)
		CU_ASSERT_EQUAL(used[n], place->used[0][n]);
}

static void moves_keep_the_sums(void)
{
	struct sim_random random;
	struct sim_place place;

	start(&place,
	      SIM_RIG_MACHINE "memory = ( { name = \"a\"; mib = 101; node = 1; }, { name = \"b\"; mib = 64; node = 1; "
			      "near_share = 0.2; } );"
			      "accesses = ( { memory = \"a\"; hot = true; mib = 20; },"
			      "             { memory = \"a\"; pattern = \"zipf\"; weight = 3; },"
			      "             { memory = \"b\"; pattern = \"clients\"; clients = 7; hot = true; } );");
	sim_random_init(&random, 1, 1);
	for (int i = 0; i < 20000; i++) {
		uint64_t page = sim_random_below(&random, place.pages);

		if (place.node[0][page] != SIM_NOWHERE)
			sim_place_move(&place, page, (int)sim_random_below(&random, 2));
	}
	CU_ASSERT(place.area[0].hot_near > 500 && place.area[0].cold_moved > 500);
	check_sums(&place);
	sim_place_free(&place);
}

static void shares_follow_the_pages(void)
{
	double shares[SIM_NODES_MAX];
	struct sim_place place;

	start(&place, SIM_RIG_MACHINE SIM_RIG_HEAP SIM_RIG_HOT);
	sim_place_shares(&place, 0, 0, 1, shares);
	CU_ASSERT_DOUBLE_EQUAL(shares[1], 1, 1e-12);
	/* A quarter of the hot pages, and as many cold ones. */
	for (uint64_t i = 0; i < 2048; i++) {
		sim_place_move(&place, 100 * 256 + i, 0);
		sim_place_move(&place, i, 0);
	}
	sim_place_shares(&place, 0, 0, 1, shares);
	CU_ASSERT_DOUBLE_EQUAL(shares[0], 0.25, 1e-9);
	sim_place_shares(&place, 1, 0, 1, shares);
	CU_ASSERT_DOUBLE_EQUAL(shares[0], 0, 1e-12);
	CU_ASSERT_EQUAL(place.area[0].hot, 32 * 256);
	CU_ASSERT_EQUAL(place.area[0].hot_near, 2048);
	CU_ASSERT_EQUAL(place.area[0].cold_moved, 2048);
	CU_ASSERT_EQUAL(place.area[0].moved, 4096);
	sim_place_move(&place, 0, 1);
	sim_place_move(&place, 100 * 256, 1);
	CU_ASSERT_EQUAL(place.area[0].hot_near, 2047);
	CU_ASSERT_EQUAL(place.area[0].hot_decided, 2048);
	CU_ASSERT_EQUAL(place.area[0].cold_moved, 2047);
	sim_place_free(&place);
}

/* A sweep's accesses are where it is. */
static void a_sweep_has_the_shares_of_the_moment(void)
{
	double shares[SIM_NODES_MAX];
	struct sim_place place;

	start(&place, SIM_RIG_MACHINE "memory = ( { name = \"m\"; mib = 100; node = 1; near_share = 0.5; } );"
				      "accesses = ( { memory = \"m\"; pattern = \"sweep\"; sweep_sec = 10; } );");
	sim_place_shares(&place, 0, 1, 2, shares);
	CU_ASSERT_DOUBLE_EQUAL(shares[0], 1, 1e-9);
	sim_place_shares(&place, 0, 7, 8, shares);
	CU_ASSERT_DOUBLE_EQUAL(shares[0], 0, 1e-9);
	sim_place_shares(&place, 0, 9, 11, shares); /* over the end and on */
	CU_ASSERT_DOUBLE_EQUAL(shares[0], 0.5, 0.05);
	sim_place_shares(&place, 0, 0, 10, shares); /* all of it */
	CU_ASSERT_DOUBLE_EQUAL(shares[0], 0.5, 1e-9);
	sim_place_free(&place);
}

static void huge_pages_move_whole(void)
{
	struct sim_place place;

	start(&place,
	      SIM_RIG_MACHINE "memory = ( { name = \"heap\"; mib = 256; node = 1; huge_share = 1; } );" SIM_RIG_HOT);
	sim_place_move(&place, 700, 0);
	CU_ASSERT_EQUAL(place.used[0][0], 512);
	CU_ASSERT_EQUAL(place.node[0][512], 0);
	CU_ASSERT_EQUAL(place.node[0][1023], 0);
	CU_ASSERT_EQUAL(place.node[0][511], 1);
	check_sums(&place);
	sim_place_free(&place);
}

static void a_sweep_fills(void)
{
	struct sim_place place;

	start(&place, SIM_RIG_MACHINE
	      "memory = ( { name = \"m\"; mib = 100; placing = \"unfilled\"; node = 0; } );"
	      "accesses = ( { memory = \"m\"; pattern = \"sweep\"; sweep_sec = 10; once = true; fills = true; },"
	      "             { memory = \"m\"; start_sec = 12; mib = 10; hot = true; } );");
	CU_ASSERT_EQUAL(place.used[0][0] + place.used[0][1], 0);
	sim_place_at(&place, 3);
	CU_ASSERT_DOUBLE_EQUAL((double)place.used[0][0], 30 * 256, 2);
	for (double sec = 3; sec <= 12; sec += 0.5)
		sim_place_at(&place, sec);
	CU_ASSERT_EQUAL(place.used[0][0] + place.used[0][1], 100 * 256);
	/* The node that was asked for is full; the rest went to the other. */
	CU_ASSERT_EQUAL(place.used[0][0], 64 * 256);
	check_sums(&place);
	sim_place_free(&place);
}

static void filled_keeps_the_watermark(void)
{
	struct sim_place place;

	start(&place, SIM_RIG_MACHINE "memory = ( { name = \"heap\"; mib = 256; placing = \"filled\"; } );"
				      "kernel = { low_percent = 10; high_percent = 20; };" SIM_RIG_HOT);
	CU_ASSERT_DOUBLE_EQUAL((double)place.used[0][0], 0.9 * 64 * 256, 2);
	sim_place_free(&place);
}

static int by_share(const void *a, const void *b)
{
	const double *one = a, *other = b;

	return (*one < *other) - (*one > *other);
}

/* By brute force: sort all pages, take as many as fit. */
static void the_oracle_takes_the_best_pages(void)
{
	struct sim_place place;
	double *share, best = 0;

	start(&place, SIM_RIG_MACHINE SIM_RIG_HEAP "accesses = ( { memory = \"heap\"; pattern = \"zipf\"; weight = 2; "
						   "}, { memory = \"heap\"; mib = 128; } );");
	share = calloc(place.pages, sizeof(*share));
	for (uint64_t page = 0; share && page < place.pages; page++)
		share[page] = sim_place_share(&place, page);
	if (share)
		qsort(share, place.pages, sizeof(*share), by_share);
	/* 64 MiB less the 3% that are kept free. */
	CU_ASSERT_EQUAL(place.near_room, 16384 - 491);
	for (uint64_t i = 0; share && i < place.near_room; i++)
		best += share[i];
	CU_ASSERT_DOUBLE_EQUAL(place.oracle_hit_ratio, best, 0.002);
	CU_ASSERT_EQUAL(place.hot_pages, place.near_room);
	free(share);
	sim_place_free(&place);
}

static void the_sample_oracle_knows_the_samples(void)
{
	struct sim_place place;
	uint16_t *counts;

	start(&place, SIM_RIG_MACHINE SIM_RIG_HEAP SIM_RIG_HOT);
	counts = calloc(place.pages, sizeof(*counts));
	if (!counts) {
		CU_FAIL("no memory");
		return;
	}
	CU_ASSERT_EQUAL(sim_place_sample_oracle(&place, counts), 0);
	/* It knows a quarter of the hot pages, and nothing of the others. */
	for (uint64_t i = 0; i < 2048; i++)
		counts[100 * 256 + i] = 3;
	CU_ASSERT_DOUBLE_EQUAL(sim_place_sample_oracle(&place, counts), 0.25, 1e-9);
	/* It knows cold pages only, as many as fit. */
	memset(counts, 0, place.pages * sizeof(*counts));
	for (uint64_t i = 0; i < 16000; i++)
		counts[i] = 1;
	CU_ASSERT_DOUBLE_EQUAL(sim_place_sample_oracle(&place, counts), 0, 1e-9);
	/* Of pages that have alike many some at random: a quarter of these 32000 are hot, and 15893 fit. */
	memset(counts, 0, place.pages * sizeof(*counts));
	for (uint64_t i = 0; i < 8000; i++)
		counts[i] = counts[100 * 256 + i] = counts[200 * 256 + i] = counts[50 * 256 + i] = 2;
	CU_ASSERT_DOUBLE_EQUAL(sim_place_sample_oracle(&place, counts), 8000.0 / 8192 * 15893 / 32000, 1e-9);
	free(counts);
	sim_place_free(&place);
}

TEST_MAIN(sim_place, TEST(moves_keep_the_sums), TEST(shares_follow_the_pages),
	  TEST(a_sweep_has_the_shares_of_the_moment), TEST(huge_pages_move_whole), TEST(a_sweep_fills),
	  TEST(filled_keeps_the_watermark), TEST(the_oracle_takes_the_best_pages),
	  TEST(the_sample_oracle_knows_the_samples))
