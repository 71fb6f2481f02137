/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <math.h>
#include <stdbool.h>

#include "distinct.h"

void distinct_clear(struct distinct *distinct)
{
	for (unsigned int i = 0; i < DISTINCT_REGS; i++)
		atomic_store_explicit(&distinct->reg[i], 0, memory_order_relaxed); /* as said in the header, all here */
}

void distinct_copy(struct distinct *to, const struct distinct *from)
{
	for (unsigned int i = 0; i < DISTINCT_REGS; i++)
		atomic_store_explicit(&to->reg[i], atomic_load_explicit(&from->reg[i], memory_order_relaxed),
				      memory_order_relaxed);
}

/* Page numbers come in rows: every bit of the result must hang on every bit of the number. The finisher of splitmix64.
 */
static uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15ULL;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
	return x ^ (x >> 31);
}

void distinct_add(struct distinct *distinct, uint64_t number)
{
	uint64_t hash = mix(number), rest = hash << DISTINCT_BITS;
	_Atomic uint8_t *reg = &distinct->reg[hash >> (64 - DISTINCT_BITS)];
	uint8_t rank = (uint8_t)((rest ? __builtin_clzll(rest) : 64 - DISTINCT_BITS) + 1);

	if (rank > atomic_load_explicit(reg, memory_order_relaxed))
		atomic_store_explicit(reg, rank, memory_order_relaxed);
}

uint64_t distinct_count(const struct distinct *distinct)
{
	const double m = DISTINCT_REGS;
	unsigned int with[64] = { 0 }; /* how many registers have a rank */
	double sum = 0, estimate;

	for (unsigned int i = 0; i < DISTINCT_REGS; i++)
		with[atomic_load_explicit(&distinct->reg[i], memory_order_relaxed)]++;
	if (with[0] == DISTINCT_REGS)
		return 0;
	for (int rank = 0; rank < 64; rank++)
		sum += ldexp(with[rank], -rank);
	estimate = 0.7213 / (1 + 1.079 / m) * m * m / sum;
	/* As long as many are empty their number says more: linear counting. */
	if (estimate <= 2.5 * m && with[0] > 0)
		estimate = m * log(m / with[0]);
	return (uint64_t)llround(estimate);
}
