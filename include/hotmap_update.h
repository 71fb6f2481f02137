/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * hotmap_update: what an access does to a word: the part of the section map that runs once for each sample, for
 * hotmap*.c and the path of a sample (hotness_*.c) only.
 */
#pragma once

#include "hotmap_internal.h"

/*
 * Ages, with the time field's range R and a sample that may come late by S: below R/2 - S a record with HOTMAP_OLD has
 * wrapped; from R/2 on it gets that mark, so that even a late sample sees it at R/2 - S at least; from R - S on, one
 * without the mark is ahead of the clock rather than old. Between the second and the third, and between a wrap and the
 * first, a sweep must come: both are R/2 - S.
 */
static inline uint32_t hotmap_late_ms(enum record_layout layout)
{
	return layout == RECORD_COMPACT ? 512 : 1024;
}

static inline uint32_t hotmap_old_ms(enum record_layout layout)
{
	return record_range_ms(layout) / 2;
}

static inline uint32_t hotmap_future_ms(enum record_layout layout)
{
	return record_range_ms(layout) - hotmap_late_ms(layout);
}

/*
 * The section is used at @now_ns. Before the word is written, so that nobody meets a new record in a section that seems
 * long unused: that would cost a count.
 */
static inline void hotmap_use_section(struct hotmap_section *section, uint64_t now_ns)
{
	uint64_t last_ns = atomic_load_explicit(&section->last_ns, memory_order_relaxed);

	while (now_ns >= last_ns + (1U << HOTMAP_USE_SHIFT))
		if (atomic_compare_exchange_weak_explicit(&section->last_ns, &last_ns, now_ns, memory_order_relaxed,
							  memory_order_relaxed))
			break;
}

/* @old after the access, and whether it became ready by it. @last_ns: last use of the section. */
static inline uint64_t hotmap_updated(const struct hotmap *map, const struct hotmap_access *access, uint64_t old,
				      uint64_t last_ns, bool *ret_ready)
{
	const enum record_layout layout = map->layout;
	const struct record_rule *rule = access->rule;
	uint64_t now_ms = access->now_ns / NSEC_PER_MSEC;
	uint32_t record = hotmap_record(old), backref = access->backref, next;
	uint32_t age_ms = record_age_at(layout, record, now_ms);
	bool was_ready;

	/* One that has wrapped is none any more: nothing of it counts. */
	if ((old & HOTMAP_OLD) && age_ms < hotmap_old_ms(layout) - hotmap_late_ms(layout))
		old = record = 0;
	was_ready = record_ready(layout, record);
	if (access->now_ns >
	    last_ns + (rule->window_ms + record_grain_ms(layout)) * NSEC_PER_MSEC + (1U << HOTMAP_USE_SHIFT))
		record = 0; /* outside the window, whatever its time says */
	else if (record && !(old & HOTMAP_OLD) && age_ms >= hotmap_future_ms(layout))
		/* The sample is older than the record: both were at the record's time, as far as it can say. */
		now_ms += record_range_ms(layout) - age_ms;
	next = record_access_at(rule, layout, record, access->nid, now_ms);
	*ret_ready = record_ready(layout, next) && !was_ready;
	if (old && hotmap_backref(old) != backref && map->alive(map->ctx, hotmap_backref(old)))
		backref = hotmap_backref(old);
	return (uint64_t)backref << 32 | (old & HOTMAP_NOTE) | next;
}

enum hotmap_swap {
	HOTMAP_SWAPPED,
	HOTMAP_MET_FROZEN,
	HOTMAP_NO_SLOT, /* the chunk's table lacks the slot of the region in next */
};

/* A word that was changed: what it was before and after. */
struct hotmap_change {
	uint64_t old, next;
	bool ready; /* became so */
};

/* Account the access in the word at @spot, which was @raw a moment ago. */
static inline enum hotmap_swap hotmap_swap(struct hotmap *map, const struct hotmap_spot *spot, uint64_t raw,
					   const struct hotmap_access *access, uint64_t last_ns,
					   struct hotmap_change *ret)
{
	uint64_t next_raw;

	do {
		if (raw & hotmap_frozen_bit(map))
			return HOTMAP_MET_FROZEN;
		ret->old = hotmap_wide(map, spot->chunk, spot->cap, raw);
		ret->next = hotmap_updated(map, access, ret->old, last_ns, &ret->ready);
		if (raw && hotmap_backref(ret->next) == hotmap_backref(ret->old))
			next_raw = hotmap_raw_with(map, raw, ret->next);
		else if (!hotmap_raw(map, spot->chunk, spot->cap, ret->next, &next_raw))
			return HOTMAP_NO_SLOT;
	} while (!hotmap_cas(map, spot->at, &raw, next_raw));
	return HOTMAP_SWAPPED;
}

static inline void hotmap_look_and_mark(_Atomic uint64_t *marks, uint64_t bit)
{
	if (!(atomic_load_explicit(marks, memory_order_seq_cst) & bit)) /* M1 */
		atomic_fetch_or_explicit(marks, bit, memory_order_seq_cst);
}

/* After hotmap_swap(): mark @chunk if need be. What is marked already costs no write, which needs W1 to be seq_cst. */
static inline enum hotmap_result hotmap_swapped(struct hotmap *map, struct hotmap_section *section, unsigned int chunk,
						const struct hotmap_change *change)
{
	enum hotmap_mark kind = change->next & HOTMAP_NOTE ? MARK_NOTED : MARK_NEW;

	if (!change->ready)
		return HOTMAP_RECORDED;
	hotmap_look_and_mark(&hotmap_marks(map, section, kind)[chunk / 64], UINT64_C(1) << (chunk % 64));
	hotmap_look_and_mark(&map->hot[kind][section->index / 64], UINT64_C(1) << (section->index % 64));
	hotmap_look_and_mark(&map->warm[kind][section->index / 4096], UINT64_C(1) << (section->index / 64 % 64));
	return HOTMAP_READY;
}

/* The bits of a stored word that name region and page. */
static inline uint64_t hotmap_backref_bits_as(const bool narrow)
{
	return narrow ? UINT32_MAX & ~(uint64_t)HOTMAP_NARROW_LOW : ~(uint64_t)UINT32_MAX;
}

/*
 * What hotmap_swap() would write in the common case, in a third of its work: the word @raw keeps its back-reference,
 * its record is neither old nor ahead of the sample nor about to be moved, and its section was used a moment ago, which
 * the caller knows. false: not that case. @narrow, told by the caller so that the compiler knows it:
 * hotmap_is_narrow().
 */
static inline bool hotmap_next_simple(const bool narrow, uint64_t raw, const struct record_rule *rule, int nid,
				      uint64_t now_ms, uint64_t *ret)
{
	const enum record_layout layout = narrow ? RECORD_COMPACT : RECORD_PRECISE;
	const uint32_t special =
		narrow ? HOTMAP_NARROW_NOTE | HOTMAP_NARROW_OLD | HOTMAP_NARROW_FROZEN : (uint32_t)HOTMAP_MARKS;
	uint32_t record = (uint32_t)raw & (narrow ? 0xffu : UINT32_MAX);

	if (__builtin_expect(((uint32_t)raw & special) || record == 0 ||
				     record_age_at(layout, record, now_ms) >= hotmap_future_ms(layout),
			     0))
		return false;
	*ret = (raw & hotmap_backref_bits_as(narrow)) | record_access_at(rule, layout, record, nid, now_ms);
	return true;
}

/* @raw became ready by being changed to @next. */
static inline bool hotmap_became_ready(const bool narrow, uint64_t raw, uint64_t next)
{
	return next & ~raw & record_ready_bit(narrow ? RECORD_COMPACT : RECORD_PRECISE);
}
