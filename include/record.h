/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * record: what is known of one slow page, in the two layouts that the kernel's pghot published. Pure; a test pins every
 * bit.
 *
 * compact, 1 byte:   0-1 frequency (saturates at 3), 2-6 time in buckets of 128 ms (32 of them, about 4 s), 7 ready
 * precise, 4 bytes:  0-9 target node, 10-12 frequency (saturates at 7), 13-26 time in ms (about 16 s), 27-30 reserved,
 * 31 ready
 *
 * Both are handled as a uint32_t here. Times wrap: a record older than the time field can say looks fresh again, so the
 * section map marks records that have passed half of the range, and the janitor removes them. 0 is "no record".
 * Source: mm/pghot-default.c, mm/pghot-precise.c of the posted series; the kernel counts in jiffies, here it is always
 * ms.
 */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "clock.h"

enum record_layout { RECORD_PRECISE, RECORD_COMPACT };

#define RECORD_PRECISE_WINDOW_MAX_MS 16383
#define RECORD_COMPACT_WINDOW_MAX_MS 3968
#define RECORD_PRECISE_FREQ_MAX      7
#define RECORD_COMPACT_FREQ_MAX      3
/* Where the time fields wrap. */
#define RECORD_PRECISE_RANGE_MS 16384
#define RECORD_COMPACT_RANGE_MS 4096
#define RECORD_RESERVED_BITS \
	0x78000000u /* of the precise layout; the section map uses them, never stored by a source */

/* The rule of one access: what a collector applies. */
struct record_rule {
	enum record_layout layout;
	uint32_t window_ms;      /* 1000..16383 precise, 1000..3968 compact */
	uint32_t freq_threshold; /* 1..7 precise, 1..3 compact */
};

static inline uint32_t record_range_ms(enum record_layout layout)
{
	return layout == RECORD_COMPACT ? RECORD_COMPACT_RANGE_MS : RECORD_PRECISE_RANGE_MS;
}

/* What the time field can tell apart. */
static inline uint32_t record_grain_ms(enum record_layout layout)
{
	return layout == RECORD_COMPACT ? 128 : 1;
}

/* Where the fields are; for the functions below only. */
#define RECORD_PRECISE_NID_MASK    0x3ffu
#define RECORD_PRECISE_FREQ_SHIFT  10
#define RECORD_PRECISE_TIME_SHIFT  13
#define RECORD_PRECISE_READY       0x80000000u
#define RECORD_COMPACT_TIME_SHIFT  2
#define RECORD_COMPACT_BUCKET_BITS 7 /* 128 ms */
#define RECORD_COMPACT_READY       0x80u

static inline uint32_t record_ready_bit(enum record_layout layout)
{
	return layout == RECORD_COMPACT ? RECORD_COMPACT_READY : RECORD_PRECISE_READY;
}

static inline bool record_ready(enum record_layout layout, uint32_t record)
{
	return record & record_ready_bit(layout);
}

/* @record without its ready bit. */
static inline uint32_t record_unready(enum record_layout layout, uint32_t record)
{
	return record & ~record_ready_bit(layout);
}

static inline uint32_t record_freq(enum record_layout layout, uint32_t record)
{
	return layout == RECORD_COMPACT ? record & RECORD_COMPACT_FREQ_MAX
					: record >> RECORD_PRECISE_FREQ_SHIFT & RECORD_PRECISE_FREQ_MAX;
}

/* Target node; -1 for the compact layout. */
static inline int record_nid(enum record_layout layout, uint32_t record)
{
	return layout == RECORD_COMPACT ? -1 : (int)(record & RECORD_PRECISE_NID_MASK);
}

/* The same as below with the time in ms: for who asks more than once about one moment. */
static inline uint32_t record_age_at(enum record_layout layout, uint32_t record, uint64_t now_ms)
{
	if (layout == RECORD_COMPACT)
		return ((uint32_t)now_ms - (record >> RECORD_COMPACT_TIME_SHIFT << RECORD_COMPACT_BUCKET_BITS)) &
		       (RECORD_COMPACT_RANGE_MS - 1) & ~((1u << RECORD_COMPACT_BUCKET_BITS) - 1);
	return ((uint32_t)now_ms - (record >> RECORD_PRECISE_TIME_SHIFT)) & (RECORD_PRECISE_RANGE_MS - 1);
}

/* Without a branch: whether a page is in its window, or becomes ready, can't be foreseen. */
static inline uint32_t record_access_at(const struct record_rule *rule, enum record_layout layout, uint32_t old,
					int nid, uint64_t now_ms)
{
	const bool compact = layout == RECORD_COMPACT;
	const uint32_t in_window = -(uint32_t)(record_age_at(layout, old, now_ms) <= rule->window_ms);
	uint32_t freq = record_freq(layout, old) & in_window, ready = old & record_ready_bit(layout) & in_window;

	freq += freq < (compact ? RECORD_COMPACT_FREQ_MAX : RECORD_PRECISE_FREQ_MAX);
	ready |= record_ready_bit(layout) & -(uint32_t)(freq >= rule->freq_threshold);
	if (compact)
		return freq |
		       ((uint32_t)now_ms & (RECORD_COMPACT_RANGE_MS - 1)) >> RECORD_COMPACT_BUCKET_BITS
										     << RECORD_COMPACT_TIME_SHIFT |
		       ready;
	return ((uint32_t)nid & RECORD_PRECISE_NID_MASK) | freq << RECORD_PRECISE_FREQ_SHIFT |
	       ((uint32_t)now_ms & (RECORD_PRECISE_RANGE_MS - 1)) << RECORD_PRECISE_TIME_SHIFT | ready;
}

/*
 * @old after an access at @now_ns by a CPU whose target is @nid (0..1023; ignored by compact): outside the window the
 * frequency starts again at 1 and ready is cleared, inside it goes up; at the threshold ready is set. Reserved bits of
 * @old are dropped. Never 0.
 */
static inline uint32_t record_access(const struct record_rule *rule, uint32_t old, int nid, uint64_t now_ns)
{
	assert(rule->layout == RECORD_COMPACT || (nid >= 0 && nid <= (int)RECORD_PRECISE_NID_MASK));
	return record_access_at(rule, rule->layout, old, nid, now_ns / NSEC_PER_MSEC);
}

/* Time since the last access in ms, modulo the time field; resolution 128 ms for compact. */
static inline uint32_t record_age_ms(enum record_layout layout, uint32_t record, uint64_t now_ns)
{
	return record_age_at(layout, record, now_ns / NSEC_PER_MSEC);
}
