/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * clock: where a stage gets its time from. The daemon hands in CLOCK_MONOTONIC, the clock that
 * the perf events are opened on; tests and the simulator hand in one that they turn themselves.
 */
#pragma once

#include <stdint.h>

#define NSEC_PER_USEC 1000ULL
#define NSEC_PER_MSEC 1000000ULL
#define NSEC_PER_SEC  1000000000ULL

struct clock {
	uint64_t (*now_ns)(void *ctx);
	void *ctx;
};

/* CLOCK_MONOTONIC of the running machine. Any thread. */
extern const struct clock clock_monotonic;
/* CLOCK_BOOTTIME: the same, and it counts the time that the machine sleeps. Any thread. */
extern const struct clock clock_boottime;

/* CPU time of the calling thread: a clock for what something costs, not for when it is. Any thread. */
extern const struct clock clock_thread_cpu;

/* Time on @clock in ns since an arbitrary start; never goes back. Any thread. */
static inline uint64_t clock_now_ns(const struct clock *clock)
{
	return clock->now_ns(clock->ctx);
}
