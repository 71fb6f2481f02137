/* SPDX-License-Identifier: GPL-2.0-or-later */
/* draw: random numbers for tests, the same for a seed on every machine. */
#pragma once

#include <math.h>
#include <stdint.h>
#include <string.h>

#define DRAW_UNUSED __attribute__((unused))

/* splitmix64 (Steele, Lea, Flood 2014). */
DRAW_UNUSED static uint64_t draw(uint64_t *seed)
{
	uint64_t z = *seed += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

DRAW_UNUSED static double draw_unit(uint64_t *seed)
{
	return (double)(draw(seed) >> 11) * 0x1p-53;
}

/* By the times between events, so that no table is needed. */
DRAW_UNUSED static unsigned int draw_poisson(uint64_t *seed, double mean)
{
	unsigned int n = 0;
	double t = 0;

	for (;;) {
		t -= log(1 - draw_unit(seed));
		if (t > mean)
			return n;
		n++;
	}
}

/* How many different pages @n samples on @hot of them show; @seen, if not NULL, gets which. */
DRAW_UNUSED static unsigned int draw_pages(uint64_t *seed, unsigned int n, unsigned int hot, uint64_t seen[8])
{
	uint64_t own[8];
	unsigned int pages = 0;

	if (!seen)
		seen = own;
	memset(seen, 0, 8 * sizeof(*seen));
	for (unsigned int i = 0; i < n; i++) {
		unsigned int page = (unsigned int)(draw(seed) % hot);

		pages += !(seen[page / 64] >> (page % 64) & 1);
		seen[page / 64] |= UINT64_C(1) << (page % 64);
	}
	return pages;
}
