/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * hotmap_lanes: hotmap_next_simple() for four words at once, each in a lane of a vector of 16 bytes, which every x86-64
 * has: an eighth of the instructions. A test holds it to what that says. For the path of a sample only.
 */
#pragma once

#include <emmintrin.h>
#include <string.h>

#include "hotmap_update.h"

#define HOTMAP_LANES 4

typedef uint32_t hotmap_lanes __attribute__((vector_size(16)));
/* Comparisons are signed: there are no others, and nothing that is compared here has bit 31. */
typedef int32_t hotmap_lanes_signed __attribute__((vector_size(16)));

/* What a rule and a target come to in one lane: node, threshold, window. */
#define HOTMAP_LANE_FREQ_SHIFT   10
#define HOTMAP_LANE_FREQ_MASK    7u
#define HOTMAP_LANE_WINDOW_SHIFT 16

/* @nid as in record_access(); below 0 where no record is wanted, then it says nothing. */
static inline uint32_t hotmap_lane_rule(const struct record_rule *rule, int nid)
{
	return ((uint32_t)nid & RECORD_PRECISE_NID_MASK) | rule->freq_threshold << HOTMAP_LANE_FREQ_SHIFT |
	       rule->window_ms << HOTMAP_LANE_WINDOW_SHIFT;
}

/* The same with another threshold, 1..7. */
static inline uint32_t hotmap_lane_with_freq(uint32_t rule, uint32_t freq_threshold)
{
	return (rule & ~(HOTMAP_LANE_FREQ_MASK << HOTMAP_LANE_FREQ_SHIFT)) | freq_threshold << HOTMAP_LANE_FREQ_SHIFT;
}

static inline hotmap_lanes hotmap_lanes_load(const void *at)
{
	hotmap_lanes v;

	memcpy(&v, at, sizeof(v));
	return v;
}

static inline hotmap_lanes hotmap_lanes_all(uint32_t value)
{
	return (hotmap_lanes){ value, value, value, value };
}

/* All ones in the lanes where @a > @b. */
static inline hotmap_lanes hotmap_lanes_above(hotmap_lanes a, hotmap_lanes b)
{
	return (hotmap_lanes)((hotmap_lanes_signed)a > (hotmap_lanes_signed)b);
}

/* Bit n: bit 31 of lane n. */
static inline unsigned int hotmap_lanes_top(hotmap_lanes v)
{
	return (unsigned int)_mm_movemask_ps((__m128)v);
}

/* record_age_at() */
static inline hotmap_lanes hotmap_lanes_age(const bool compact, hotmap_lanes record, hotmap_lanes now_ms)
{
	if (compact)
		return (now_ms - (record >> RECORD_COMPACT_TIME_SHIFT << RECORD_COMPACT_BUCKET_BITS)) &
		       ((RECORD_COMPACT_RANGE_MS - 1) & ~((1u << RECORD_COMPACT_BUCKET_BITS) - 1));
	return (now_ms - (record >> RECORD_PRECISE_TIME_SHIFT)) & (RECORD_PRECISE_RANGE_MS - 1);
}

/* record_access_at(), where the record's age is @age. */
static inline hotmap_lanes hotmap_lanes_access(const bool compact, hotmap_lanes record, hotmap_lanes rule,
					       hotmap_lanes age, hotmap_lanes now_ms)
{
	const uint32_t freq_max = compact ? RECORD_COMPACT_FREQ_MAX : RECORD_PRECISE_FREQ_MAX;
	const uint32_t ready_bit = compact ? RECORD_COMPACT_READY : RECORD_PRECISE_READY;
	hotmap_lanes outside = hotmap_lanes_above(age, rule >> HOTMAP_LANE_WINDOW_SHIFT);
	hotmap_lanes threshold = rule >> HOTMAP_LANE_FREQ_SHIFT & HOTMAP_LANE_FREQ_MASK;
	hotmap_lanes freq = (compact ? record : record >> RECORD_PRECISE_FREQ_SHIFT) & freq_max & ~outside;
	hotmap_lanes ready = record & ready_bit & ~outside;

	/* True is -1. */
	freq -= hotmap_lanes_above(hotmap_lanes_all(freq_max), freq);
	ready |= ready_bit & ~hotmap_lanes_above(threshold, freq);
	if (compact)
		return freq |
		       (now_ms & (RECORD_COMPACT_RANGE_MS - 1)) >> RECORD_COMPACT_BUCKET_BITS
									   << RECORD_COMPACT_TIME_SHIFT |
		       ready;
	return (rule & RECORD_PRECISE_NID_MASK) | freq << RECORD_PRECISE_FREQ_SHIFT |
	       (now_ms & (RECORD_PRECISE_RANGE_MS - 1)) << RECORD_PRECISE_TIME_SHIFT | ready;
}

/*
 * hotmap_next_simple() and hotmap_became_ready() for the four words at @raw, each with a rule of hotmap_lane_rule() and
 * a time of its own. A bit for each that is not the simple case in *@ret_odd, whose @next says nothing, and for each
 * that became ready in *@ret_ready.
 */
static inline __attribute__((always_inline)) void hotmap_lanes_next(const bool narrow, const uint64_t *raw,
								    const uint32_t *rule, const uint32_t *now_ms,
								    uint64_t *next, unsigned int *ret_odd,
								    unsigned int *ret_ready)
{
	const enum record_layout layout = narrow ? RECORD_COMPACT : RECORD_PRECISE;
	const uint32_t special =
		narrow ? HOTMAP_NARROW_NOTE | HOTMAP_NARROW_OLD | HOTMAP_NARROW_FROZEN : (uint32_t)HOTMAP_MARKS;
	const hotmap_lanes first = hotmap_lanes_load(raw), second = hotmap_lanes_load(raw + 2);
	const hotmap_lanes now = hotmap_lanes_load(now_ms);
	hotmap_lanes low = __builtin_shufflevector(first, second, 0, 2, 4, 6), high;
	hotmap_lanes record = narrow ? low & 0xff : low, age = hotmap_lanes_age(narrow, record, now), odd, changed;

	odd = hotmap_lanes_above(age, hotmap_lanes_all(hotmap_future_ms(layout) - 1));
	odd |= (hotmap_lanes)(record == hotmap_lanes_all(0));
	odd |= ~(hotmap_lanes)((low & special) == hotmap_lanes_all(0));
	*ret_odd = hotmap_lanes_top(odd);
	changed = hotmap_lanes_access(narrow, record, hotmap_lanes_load(rule), age, now);
	*ret_ready = hotmap_lanes_top(narrow ? (changed & ~record) << 24 : changed & ~record);
	if (narrow) {
		changed |= low & (uint32_t)hotmap_backref_bits_as(true);
		high = hotmap_lanes_all(0);
	} else {
		high = __builtin_shufflevector(first, second, 1, 3, 5, 7);
	}
	low = __builtin_shufflevector(changed, high, 0, 4, 1, 5);
	high = __builtin_shufflevector(changed, high, 2, 6, 3, 7);
	memcpy(next, &low, sizeof(low));
	memcpy(next + 2, &high, sizeof(high));
}
