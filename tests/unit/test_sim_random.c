/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <math.h>
#include <stdint.h>

#include "harness.h"
#include "sim_random.h"

static void same_seed_same_numbers(void)
{
	struct sim_random a, b, other;

	sim_random_init(&a, 7, 3);
	sim_random_init(&b, 7, 3);
	sim_random_init(&other, 7, 4);
	for (int i = 0; i < 100; i++) {
		uint64_t number = sim_random_u64(&a);

		CU_ASSERT_EQUAL(number, sim_random_u64(&b));
		CU_ASSERT_NOT_EQUAL(number, sim_random_u64(&other));
	}
}

/* A count of n draws with probability p is within five standard deviations: 1 in 1.7 million is not, for any one seed.
 */
static bool plausible(double count, double n, double p)
{
	return fabs(count - n * p) <= 5 * sqrt(n * p * (1 - p)) + 1;
}

static void below_is_even(void)
{
	enum { N = 100000, KINDS = 7 };
	unsigned int count[KINDS] = { 0 };
	struct sim_random random;

	sim_random_init(&random, 1, 1);
	for (int i = 0; i < N; i++) {
		uint64_t x = sim_random_below(&random, KINDS);

		CU_ASSERT(x < KINDS);
		count[x]++;
	}
	for (int k = 0; k < KINDS; k++)
		CU_ASSERT(plausible(count[k], N, 1.0 / KINDS));
}

static void permutations_are_bijections(void)
{
	static const uint64_t sizes[] = { 1, 2, 3, 7, 8, 100, 512, 1000 };
	bool seen[1000];

	for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
		for (uint64_t key = 0; key < 3; key++) {
			memset(seen, 0, sizeof(seen));
			for (uint64_t x = 0; x < sizes[s]; x++) {
				uint64_t y = sim_permute(x, sizes[s], key);

				CU_ASSERT(y < sizes[s] && !seen[y]);
				CU_ASSERT_EQUAL(sim_permute_back(y, sizes[s], key), x);
				seen[y < sizes[s] ? y : 0] = true;
			}
		}
	}
}

static void a_permutation_mixes(void)
{
	enum { N = 100000 };
	uint64_t in_place = 0, neighbours = 0, last = 0;

	for (uint64_t x = 0; x < N; x++) {
		uint64_t y = sim_permute(x, N, 5);

		in_place += y == x;
		neighbours += x > 0 && (y == last + 1 || y + 1 == last);
		last = y;
	}
	/* One and two are what is expected. */
	CU_ASSERT(in_place < 15);
	CU_ASSERT(neighbours < 15);
}

static void zipf_shares_sum_to_one(void)
{
	static const double thetas[] = { 0.5, 0.99, 1.0, 1.5 };
	struct sim_zipf zipf;

	for (size_t t = 0; t < 4; t++) {
		double sum = 0;

		sim_zipf_init(&zipf, 5000, thetas[t]);
		for (uint64_t rank = 0; rank < 5000; rank++)
			sum += sim_zipf_share(&zipf, rank);
		CU_ASSERT_DOUBLE_EQUAL(sum, 1, 1e-9);
	}
	/* Beyond a million ranks the sum is an integral. */
	sim_zipf_init(&zipf, 3000000, 0.99);
	double sum = 0;

	for (uint64_t rank = 0; rank < 3000000; rank++)
		sum += sim_zipf_share(&zipf, rank);
	CU_ASSERT_DOUBLE_EQUAL(sum, 1, 1e-6);
}

static void zipf_draws_follow_the_shares(void)
{
	enum { N = 200000, RANKS = 50 };
	static const double thetas[] = { 0.5, 0.99, 1.0, 2.0 };
	struct sim_random random;

	for (size_t t = 0; t < 4; t++) {
		unsigned int count[RANKS] = { 0 };
		struct sim_zipf zipf;

		sim_zipf_init(&zipf, RANKS, thetas[t]);
		sim_random_init(&random, 1, t);
		for (int i = 0; i < N; i++) {
			uint64_t rank = sim_zipf_draw(&zipf, &random);

			CU_ASSERT(rank < RANKS);
			count[rank < RANKS ? rank : 0]++;
		}
		for (uint64_t rank = 0; rank < RANKS; rank++)
			CU_ASSERT(plausible(count[rank], N, sim_zipf_share(&zipf, rank)));
	}
}

TEST_MAIN(sim_random, TEST(same_seed_same_numbers), TEST(below_is_even), TEST(permutations_are_bijections),
	  TEST(a_permutation_mixes), TEST(zipf_shares_sum_to_one), TEST(zipf_draws_follow_the_shares))
