/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * policy_life: for how long does memory stay hot once it was found to be? What moves on faster than moving it pays for
 * isn't worth a move, however hot it is.
 *
 * Regions that were found hot are watched from then on, moved or not: from which second on do samples stay away? Of
 * regions of each age a share is still hot; the sum of these shares over the ages up to LIFE_MAX_SEC is how many
 * seconds of heat a region still has, on the average, when it is found. What nothing is known of counts as if it stayed
 * hot.
 *
 * Owner   a decider's pass; memory: 100 KiB
 */
#pragma once

#include <stdint.h>

#define LIFE_REGIONS 2048  /* are watched at a time */
#define LIFE_MAX_SEC 256.0 /* nobody looks further ahead */

struct policy_life;

struct policy_life *policy_life_new(void); /* NULL: no memory */
void policy_life_free(struct policy_life *life);

/*
 * Region @slot, which is the one of @key, was found hot at @now_ns, with the share @share of all samples. Nothing
 * happens if it, or another one in its place, is watched already.
 */
void policy_life_add(struct policy_life *life, uint32_t slot, uint64_t key, double share, uint64_t now_ns);

/*
 * Look at all that are watched. @idle_ns says how long ago the last sample of a region was, UINT64_MAX: it is gone.
 * @samples_per_sec: of all regions together, of late; with none, nothing can be said of anything.
 */
void policy_life_step(struct policy_life *life, uint64_t (*idle_ns)(void *ctx, uint32_t slot, uint64_t key), void *ctx,
		      double samples_per_sec, uint64_t now_ns);

/* Seconds of heat that a region has, on the average, when it is found: up to LIFE_MAX_SEC. */
double policy_life_sec(const struct policy_life *life);
