/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <time.h>

#include "clock.h"

static uint64_t monotonic_now_ns(void *ctx)
{
	struct timespec ts;

	(void)ctx;
	/* Can't fail: the clock exists on every kernel and the pointer is ours. */
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

const struct clock clock_monotonic = { .now_ns = monotonic_now_ns };
