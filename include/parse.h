/* SPDX-License-Identifier: GPL-2.0-or-later */
/* parse: text to number, strictly: the whole text, in range, or an error, and then @ret is not touched. Any thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Base 10 only ("010" is ten), no sign, no space, nothing behind. -EINVAL, or -ERANGE outside @min..@max. */
int parse_u64(const char *text, uint64_t min, uint64_t max, uint64_t *ret);

/* As parse_u64(), with an optional leading '-'. */
int parse_i64(const char *text, int64_t min, int64_t max, int64_t *ret);

/*
 * Decimal fraction: "3" or "3.5", with an optional leading '-'; no exponent, no digit left out on either side of the
 * point. Finite, never -0. Same errors, and -ENOMEM; independent of the locale.
 */
int parse_double(const char *text, double min, double max, double *ret);

/*
 * A time with its unit, "90s", "10m", "2h" or "1d", whole numbers only, in ns. -EINVAL, or -ERANGE outside
 * @min_ns..@max_ns.
 */
int parse_duration_ns(const char *text, uint64_t min_ns, uint64_t max_ns, uint64_t *ret);

#define PARSE_DISTANCE_MAX 128

/*
 * How many letters must be added, taken away, changed or swapped with their neighbour to make @b of @a: how near a typo
 * is to what was meant. UINT_MAX where either has more than PARSE_DISTANCE_MAX.
 */
unsigned int parse_distance(const char *a, const char *b);

/* "true", "false" only. -EINVAL otherwise. */
int parse_bool(const char *text, bool *ret);
