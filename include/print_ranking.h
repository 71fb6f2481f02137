/* SPDX-License-Identifier: GPL-2.0-or-later */
/* print_ranking: which of many reasons count most, in one line for people. Pure text. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "print.h"

#define PRINT_RANKED_MAX  3 /* that are named */
#define PRINT_RANKING_MAX 256

/* To begin with all 0. The largest first, those that are not named in the sum alone. */
struct print_ranking {
	struct {
		const char *name; /* borrowed */
		uint64_t n;
	} top[PRINT_RANKED_MAX];
	size_t n_top;
	uint64_t sum;
};

/* print_bytes() or print_count(). */
typedef const char *print_number(char buf[PRINT_SHORT_MAX], uint64_t n);

/* One more, unless @n is 0. */
void print_rank(struct print_ranking *ranking, const char *name, uint64_t n);

/* "12 busy, 3 denied, 2 gone, 1 other": names without their underscores. Returns @buf. */
const char *print_ranking(const struct print_ranking *ranking, print_number *format, char buf[PRINT_RANKING_MAX]);
