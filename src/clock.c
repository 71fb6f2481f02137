/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <time.h>

#include "clock.h"

static uint64_t now_ns(clockid_t id)
{
	struct timespec ts;

	/* Can't fail: these clocks exist on every kernel and the pointer is ours. */
	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

static uint64_t monotonic_now_ns(void *ctx)
{
	(void)ctx;
	return now_ns(CLOCK_MONOTONIC);
}

static uint64_t boottime_now_ns(void *ctx)
{
	(void)ctx;
	return now_ns(CLOCK_BOOTTIME);
}

const struct clock clock_monotonic = { .now_ns = monotonic_now_ns };
const struct clock clock_boottime = { .now_ns = boottime_now_ns };

static uint64_t thread_cpu_now_ns(void *ctx)
{
	(void)ctx;
	return now_ns(CLOCK_THREAD_CPUTIME_ID);
}

const struct clock clock_thread_cpu = { .now_ns = thread_cpu_now_ns };
