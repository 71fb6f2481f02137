/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sim_speed: a closed loop of threads: each waits for one access, thinks, and makes the next. So the faster the memory
 * that the accesses go to, the more of them there are, until a node's bandwidth holds them up. Pure.
 */
#pragma once

#include "sim_scenario.h"

/*
 * Accesses (of 64 bytes) in a second when @shares of them (sum 1) go to each node, and @busy_bytes_per_sec of each
 * node's bandwidth are taken by something else. A node's latency grows with the share u of its bandwidth that is used,
 * by 1 + u^2 / (1 - u).
 */
double sim_speed(const struct sim_scenario *scenario, const double shares[SIM_NODES_MAX],
		 const double busy_bytes_per_sec[SIM_NODES_MAX]);
