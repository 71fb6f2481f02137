/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sim_kernel: what the kernel does to the pages of a scenario: it moves them when it is asked to, which takes time, and
 * demotes some where a node runs out of memory.
 *
 * Owner   the one thread of the simulator
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "mover.h"
#include "sim_place.h"
#include "sim_random.h"

struct sim_kernel_state {
	struct sim_place *place;
	struct sim_random random;
	/* Time passes while pages move. */
	void (*pass)(void *ctx, uint64_t ns);
	void *ctx;
	bool reclaiming[SIM_NODES_MAX]; /* kswapd was woken and has not come to the high watermark */
	uint64_t promoted_pages, demoted_pages;
	uint64_t reclaimed_pages;         /* of the demoted ones: by the kernel itself */
	double busy_bytes[SIM_NODES_MAX]; /* that moves took of the bandwidth; the reader sets it to 0 */
	double move_us;                   /* time that all moves took */
	double owed_ns;                   /* time that has not passed yet: less than a microsecond's worth */
};

void sim_kernel_init(struct sim_kernel_state *kernel, struct sim_place *place, void (*pass)(void *ctx, uint64_t ns),
		     void *ctx);

/* For mover.h; the context is a struct sim_kernel_state. */
extern const struct mover_ops sim_kernel_mover_ops;

/* kswapd, for a time of @sec: from a near node that has come to its low watermark, up to the high one. */
void sim_kernel_reclaim(struct sim_kernel_state *kernel, double sec);
