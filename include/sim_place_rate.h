/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sim_place_rate: what the accesses of the moment say of all pages together: which are hot, and what the best that one
 * could do comes to. The looks at every page, as opposed to sim_place's keeping up.
 *
 * Owner   the one thread of the simulator
 */
#pragma once

#include <stdint.h>

struct sim_place;

/*
 * The hit ratio that the one has who knows the samples alone, @counts[page] of each page (saturated), all at once, and
 * puts the pages that have most on the near nodes, as many as fit; of pages that have alike many it takes some at
 * random, and of pages without a sample it knows nothing, not even that they are there. Judged by the accesses of the
 * moment. 0..1, or -1: no memory.
 */
double sim_place_sample_oracle(const struct sim_place *place, const uint16_t *counts);
