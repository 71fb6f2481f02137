/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sim_engine: a scenario from beginning to end: the daemon's own collector, regions, policy and migrators, on a clock
 * that the engine turns, with a model of the machine around them.
 *
 * All of it happens in the calling thread, in the order of the virtual time: samples, each step; passes of the
 * migrators, with promote.scan_sleep_ms between them; the janitor's turns. While pages move, time passes: samples come
 * and are collected. Two migrators never move at one time: they wait for each other, which real ones don't.
 *
 * The same scenario and seed give the same result, user_seconds apart.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "sim_result.h"
#include "sim_scenario.h"

/*
 * Run @scenario, which sim_scenario_check() has found good. 0, or -errno with one line in @error (SIM_ERROR_MAX bytes);
 * -EINTR: *@stop became true (relaxed; may be NULL). Registers the calling thread with rcu, so that it must not be.
 */
int sim_run(const struct sim_scenario *scenario, const _Atomic bool *stop, struct sim_result *ret, char *error);
