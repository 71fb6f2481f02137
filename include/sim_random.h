/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sim_random: numbers that look random and are the same for the same seed, on every machine. Pure.
 *
 * Owner   whoever holds the struct
 */
#pragma once

#include <stdint.h>

struct sim_random {
	uint64_t state;
};

/* A stream of its own for each (@seed, @stream): what one part of a model draws leaves the others as they are. */
void sim_random_init(struct sim_random *random, uint64_t seed, uint64_t stream);

uint64_t sim_random_u64(struct sim_random *random);

/* 0..@n-1, each alike to 2^-40 at least as long as @n is below 2^24, and 2^-24 below 2^40. @n at least 1. */
uint64_t sim_random_below(struct sim_random *random, uint64_t n);

/* 0 or more, below 1, in steps of 2^-53. */
double sim_random_unit(struct sim_random *random);

/* A bijection of 0..@n-1, another one for each @key: where @x (below @n, 1..2^48) goes, and back. */
uint64_t sim_permute(uint64_t x, uint64_t n, uint64_t key);
uint64_t sim_permute_back(uint64_t y, uint64_t n, uint64_t key);

/* Ranks 1..n with probabilities in proportion to rank^-theta: exact, without a table. */
struct sim_zipf {
	uint64_t n;
	double theta;
	double sum; /* of all weights */
	double h_first, h_last, s;
};

/* @n 1..2^40, @theta above 0, at most 10. Costs a sum over at most 2^20 ranks. */
void sim_zipf_init(struct sim_zipf *zipf, uint64_t n, double theta);

/* A rank, 0..n-1, 0 the most likely. */
uint64_t sim_zipf_draw(const struct sim_zipf *zipf, struct sim_random *random);

/* Probability of rank @rank (0..n-1). */
double sim_zipf_share(const struct sim_zipf *zipf, uint64_t rank);
