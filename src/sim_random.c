/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <assert.h>
#include <math.h>

#include "sim_random.h"

#define EXACT_RANKS (1U << 20) /* whose weights are added up one by one; the rest is an integral */

static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

void sim_random_init(struct sim_random *random, uint64_t seed, uint64_t stream)
{
	random->state = mix(seed + UINT64_C(0x9e3779b97f4a7c15)) ^ mix(stream * UINT64_C(0xd1342543de82ef95) + 1);
}

/* Steele, Lea and Flood's splitmix64: a counter and a hash, so any state is a good one. */
uint64_t sim_random_u64(struct sim_random *random)
{
	random->state += UINT64_C(0x9e3779b97f4a7c15);
	return mix(random->state);
}

uint64_t sim_random_below(struct sim_random *random, uint64_t n)
{
	assert(n > 0);
	return (uint64_t)((unsigned __int128)sim_random_u64(random) * n >> 64);
}

double sim_random_unit(struct sim_random *random)
{
	return (double)(sim_random_u64(random) >> 11) * 0x1p-53;
}

/* Bits that hold 0..@n-1; at least 2, so that both halves of the network below have one. */
static unsigned int bits_of(uint64_t n)
{
	unsigned int bits = 2;

	while (bits < 48 && (UINT64_C(1) << bits) < n)
		bits++;
	return bits;
}

#define ROUNDS 4

/* A Feistel network with halves of @bits / 2 and the rest; after each round they change places. */
static uint64_t round_key(uint64_t half, uint64_t key, unsigned int round)
{
	return mix(half + key + round * UINT64_C(0x9e3779b97f4a7c15));
}

static uint64_t forth(uint64_t x, unsigned int bits, uint64_t key)
{
	unsigned int low_bits = bits / 2, high_bits = bits - low_bits;
	uint64_t low = x & ((UINT64_C(1) << low_bits) - 1), high = x >> low_bits;

	for (unsigned int r = 0; r < ROUNDS; r++) {
		high ^= round_key(low, key, 2 * r) & ((UINT64_C(1) << high_bits) - 1);
		low ^= round_key(high, key, 2 * r + 1) & ((UINT64_C(1) << low_bits) - 1);
	}
	return high << low_bits | low;
}

static uint64_t back(uint64_t y, unsigned int bits, uint64_t key)
{
	unsigned int low_bits = bits / 2, high_bits = bits - low_bits;
	uint64_t low = y & ((UINT64_C(1) << low_bits) - 1), high = y >> low_bits;

	for (unsigned int r = ROUNDS; r-- > 0;) {
		low ^= round_key(high, key, 2 * r + 1) & ((UINT64_C(1) << low_bits) - 1);
		high ^= round_key(low, key, 2 * r) & ((UINT64_C(1) << high_bits) - 1);
	}
	return high << low_bits | low;
}

/* The network maps a power of two onto itself; what falls beyond @n goes round again until it doesn't. */
uint64_t sim_permute(uint64_t x, uint64_t n, uint64_t key)
{
	unsigned int bits = bits_of(n);

	assert(x < n && n <= UINT64_C(1) << 48);
	do
		x = forth(x, bits, key);
	while (x >= n);
	return x;
}

uint64_t sim_permute_back(uint64_t y, uint64_t n, uint64_t key)
{
	unsigned int bits = bits_of(n);

	assert(y < n && n <= UINT64_C(1) << 48);
	do
		y = back(y, bits, key);
	while (y >= n);
	return y;
}

/*
 * W. Hörmann and G. Derflinger, "Rejection-inversion to generate variates from monotone discrete distributions", 1996:
 * h is x^-theta, H its integral; ranks count from 1 there.
 */
static double h(const struct sim_zipf *zipf, double x)
{
	return pow(x, -zipf->theta);
}

static double integral(const struct sim_zipf *zipf, double x)
{
	double e = 1 - zipf->theta;

	return fabs(e) < 1e-9 ? log(x) : (pow(x, e) - 1) / e;
}

static double integral_back(const struct sim_zipf *zipf, double y)
{
	double e = 1 - zipf->theta;

	return fabs(e) < 1e-9 ? exp(y) : pow(1 + y * e, 1 / e);
}

void sim_zipf_init(struct sim_zipf *zipf, uint64_t n, double theta)
{
	uint64_t exact = n < EXACT_RANKS ? n : EXACT_RANKS;

	assert(n > 0 && theta > 0);
	*zipf = (struct sim_zipf){ .n = n, .theta = theta };
	for (uint64_t rank = exact; rank > 0; rank--)
		zipf->sum += h(zipf, (double)rank);
	if (n > exact)
		zipf->sum += integral(zipf, (double)n + 0.5) - integral(zipf, (double)exact + 0.5);
	zipf->h_first = integral(zipf, 1.5) - 1;
	zipf->h_last = integral(zipf, (double)n + 0.5);
	zipf->s = 2 - integral_back(zipf, integral(zipf, 2.5) - h(zipf, 2));
}

uint64_t sim_zipf_draw(const struct sim_zipf *zipf, struct sim_random *random)
{
	for (;;) {
		double u = zipf->h_last + sim_random_unit(random) * (zipf->h_first - zipf->h_last);
		double x = integral_back(zipf, u), rank = floor(x + 0.5);

		if (rank < 1)
			rank = 1;
		else if (rank > (double)zipf->n)
			rank = (double)zipf->n;
		if (rank - x <= zipf->s || u >= integral(zipf, rank + 0.5) - h(zipf, rank))
			return (uint64_t)rank - 1;
	}
}

double sim_zipf_share(const struct sim_zipf *zipf, uint64_t rank)
{
	return h(zipf, (double)rank + 1) / zipf->sum;
}
