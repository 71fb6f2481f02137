/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "policy.h"
#include "sample.h"

bool policy_page_has_much_room(const struct policy_target *target)
{
	uint64_t enough = target->present_bytes / 16;

	if (enough < POLICY_FREE_BYPASS_BYTES)
		enough = POLICY_FREE_BYPASS_BYTES;
	return target->free_bytes > target->promo_bytes && target->free_bytes - target->promo_bytes > enough;
}

static uint32_t step_ms(uint32_t window_ms)
{
	uint32_t step = window_ms * 2 / POLICY_ADJUST_STEPS;

	return step ? step : 1;
}

/* The threshold in force. The window may have been tuned since it was set, so the bounds are looked at again. */
static uint32_t threshold_ms(const struct policy_page *state, uint32_t window_ms)
{
	uint32_t threshold = state->threshold_ms ? state->threshold_ms : window_ms;

	if (threshold > window_ms * 2)
		return window_ms * 2;
	return threshold < step_ms(window_ms) ? step_ms(window_ms) : threshold;
}

static void start_minute(struct policy_page *state, uint64_t now_ns)
{
	state->window_start_ns = now_ns ? now_ns : 1;
	state->candidates_at_start = state->candidates;
}

static void adjust(struct policy_page *state, const struct policy_target *target, uint32_t window_ms, uint64_t now_ns)
{
	uint32_t step = step_ms(window_ms), threshold = threshold_ms(state, window_ms);
	uint64_t through, found;

	if (state->window_start_ns == 0) {
		start_minute(state, now_ns);
		return;
	}
	if (now_ns < state->window_start_ns || now_ns - state->window_start_ns <= POLICY_ADJUST_NS)
		return;
	through = target->rate_bytes_per_sec * (POLICY_ADJUST_NS / 1000000000ULL) / PAGE_SIZE_BYTES;
	found = state->candidates - state->candidates_at_start;
	if (found > through * 11 / 10)
		threshold = threshold > 2 * step ? threshold - step : step;
	else if (found < through * 9 / 10)
		threshold = threshold + step < window_ms * 2 ? threshold + step : window_ms * 2;
	state->threshold_ms = threshold;
	start_minute(state, now_ns);
}

enum policy_decision policy_page_decide(struct policy_page *state, const struct policy_target *target,
					uint32_t window_ms, uint32_t age_ms, uint64_t pages, uint64_t now_ns)
{
	if (age_ms >= window_ms)
		return POLICY_TOO_OLD;
	if (policy_page_has_much_room(target)) {
		state->threshold_ms = 0;
		start_minute(state, now_ns);
		return POLICY_MOVE;
	}
	adjust(state, target, window_ms, now_ns);
	if (age_ms >= threshold_ms(state, window_ms))
		return POLICY_BELOW_THRESHOLD;
	state->candidates += pages;
	return POLICY_MOVE;
}
