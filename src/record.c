/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <assert.h>

#include "clock.h"
#include "record.h"

#define PRECISE_NID_MASK   0x3ffu
#define PRECISE_FREQ_SHIFT 10
#define PRECISE_FREQ_MASK  0x7u
#define PRECISE_TIME_SHIFT 13
#define PRECISE_TIME_MASK  0x3fffu
#define PRECISE_READY      0x80000000u

#define COMPACT_FREQ_MASK   0x3u
#define COMPACT_TIME_SHIFT  2
#define COMPACT_TIME_MASK   0x1fu
#define COMPACT_BUCKET_BITS 7 /* 128 ms */
#define COMPACT_READY       0x80u

static uint32_t compact_time(uint64_t now_ns)
{
	return (uint32_t)((now_ns / NSEC_PER_MSEC) >> COMPACT_BUCKET_BITS) & COMPACT_TIME_MASK;
}

static uint32_t precise_time(uint64_t now_ns)
{
	return (uint32_t)(now_ns / NSEC_PER_MSEC) & PRECISE_TIME_MASK;
}

bool record_ready(enum record_layout layout, uint32_t record)
{
	return record & (layout == RECORD_COMPACT ? COMPACT_READY : PRECISE_READY);
}

uint32_t record_unready(enum record_layout layout, uint32_t record)
{
	return record & ~(layout == RECORD_COMPACT ? COMPACT_READY : PRECISE_READY);
}

uint32_t record_freq(enum record_layout layout, uint32_t record)
{
	return layout == RECORD_COMPACT ? record & COMPACT_FREQ_MASK : record >> PRECISE_FREQ_SHIFT & PRECISE_FREQ_MASK;
}

int record_nid(enum record_layout layout, uint32_t record)
{
	return layout == RECORD_COMPACT ? -1 : (int)(record & PRECISE_NID_MASK);
}

uint32_t record_age_ms(enum record_layout layout, uint32_t record, uint64_t now_ns)
{
	if (layout == RECORD_COMPACT)
		return ((compact_time(now_ns) - (record >> COMPACT_TIME_SHIFT)) & COMPACT_TIME_MASK)
		       << COMPACT_BUCKET_BITS;
	return (precise_time(now_ns) - (record >> PRECISE_TIME_SHIFT)) & PRECISE_TIME_MASK;
}

uint32_t record_access(const struct record_rule *rule, uint32_t old, int nid, uint64_t now_ns)
{
	const bool compact = rule->layout == RECORD_COMPACT;
	const uint32_t freq_max = compact ? RECORD_COMPACT_FREQ_MAX : RECORD_PRECISE_FREQ_MAX;
	uint32_t freq = 0;
	bool ready = false;

	assert(compact || (nid >= 0 && nid <= (int)PRECISE_NID_MASK));
	if (record_age_ms(rule->layout, old, now_ns) <= rule->window_ms) {
		freq = record_freq(rule->layout, old);
		ready = record_ready(rule->layout, old);
	}
	if (freq < freq_max)
		freq++;
	ready |= freq >= rule->freq_threshold;
	if (compact)
		return freq | compact_time(now_ns) << COMPACT_TIME_SHIFT | (ready ? COMPACT_READY : 0);
	return (uint32_t)nid | freq << PRECISE_FREQ_SHIFT | precise_time(now_ns) << PRECISE_TIME_SHIFT |
	       (ready ? PRECISE_READY : 0);
}
