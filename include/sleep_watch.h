/* SPDX-License-Identifier: GPL-2.0-or-later */
/* sleep_watch: did the machine sleep since the last look? CLOCK_BOOTTIME goes on meanwhile, CLOCK_MONOTONIC stands. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "clock.h"

/* Zeroed before the first look. One thread. */
struct sleep_watch {
	bool looked;
	uint64_t asleep_ns; /* all that the machine has slept since it booted, no less than that */
};

/*
 * true when it slept since the last look, however shortly; false at the first. @monotonic and @boottime are read three
 * times in all, and a delay in between is not taken for sleep. Source: clock_gettime(2).
 */
bool sleep_watch_look(struct sleep_watch *watch, const struct clock *monotonic, const struct clock *boottime);
