/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * policy: which ready record is moved now. Pure: no system call, no clock of its own, no allocation.
 *
 * "page" is the published rule of the kernel's pghot, whole: the record must have become hot less than a window ago; a
 * target with much room takes everything ready; otherwise a threshold on the age of the last access adapts each minute,
 * so that the candidates stay near what the rate limit lets through. Source: mm/pghot.c of the posted series, which has
 * it from kernel/sched/fair.c (numa_promotion_adjust_threshold()).
 *
 * The rate limit itself is the caller's (tokens.h), and it differs in one thing: the kernel lets everything through
 * while there is much room, even at rate 0; here a rate of 0 grants nothing, whatever the room.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define POLICY_FREE_BYPASS_BYTES \
	(1ULL << 30) /* "much room" is more than this, or 1/16 of the node, over the promotion watermark */
#define POLICY_ADJUST_NS    (60ULL * 1000000000ULL)
#define POLICY_ADJUST_STEPS 16

enum policy_decision {
	POLICY_MOVE,
	POLICY_TOO_OLD,         /* became hot more than a window ago: no longer hot */
	POLICY_BELOW_THRESHOLD, /* hot, but others are hotter */
};

/* State for one target node; zeroed at start. Not shared: one for each (migrator, target). */
struct policy_page {
	uint64_t window_start_ns;     /* 0: no window yet */
	uint64_t candidates_at_start; /* pages */
	uint64_t candidates;   /* pages that passed the threshold, whether the rate then lets them through or not */
	uint32_t threshold_ms; /* 0: not set yet, the window */
};

struct policy_target {
	uint64_t free_bytes;
	uint64_t promo_bytes; /* the promotion watermark */
	uint64_t present_bytes;
	uint64_t rate_bytes_per_sec; /* this migrator's share; 0..2^40 */
};

/* true when @target has so much room that everything ready may go. Any thread. */
bool policy_page_has_much_room(const struct policy_target *target);

/*
 * Decide for one ready record, last touched @age_ms ago, with the window of the configuration (@window_ms,
 * 1000..16383).
 * @pages is what it adds to the candidates if it passes: its base pages, or 0 when an earlier look has counted it.
 * Candidates are counted behind the threshold and before the rate, as the kernel counts them: so a lower threshold
 * makes fewer of them, which is what closes the loop. While there is much room the kernel counts apart; here each such
 * look starts a new minute. Updates @state. The owner of @state.
 */
enum policy_decision policy_page_decide(struct policy_page *state, const struct policy_target *target,
					uint32_t window_ms, uint32_t age_ms, uint64_t pages, uint64_t now_ns);
