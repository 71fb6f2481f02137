/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <assert.h>
#include <errno.h>
#include <math.h>

#include "regions_heat.h"
#include "tablemem.h"

#define KEPT(code)   ((16U + ((code)&15)) << ((code) >> 4)) - ((16U + ((code)&15)) << ((code) >> 4)) / 4
#define KEPT4(code)  KEPT(code), KEPT((code) + 1), KEPT((code) + 2), KEPT((code) + 3)
#define KEPT16(code) KEPT4(code), KEPT4((code) + 4), KEPT4((code) + 8), KEPT4((code) + 12)
#define KEPT64(code) KEPT16(code), KEPT16((code) + 16), KEPT16((code) + 32), KEPT16((code) + 48)

const uint32_t region_latency_kept[256] = {
	REGION_LATENCY_NONE, KEPT(1),    KEPT(2),    KEPT(3),    KEPT4(4),    KEPT4(8),    KEPT4(12),
	KEPT16(16),          KEPT16(32), KEPT16(48), KEPT64(64), KEPT64(128), KEPT64(192),
};

static bool seen_inline(const struct region *region, unsigned int n, unsigned int page)
{
	for (unsigned int i = 0; i < n; i++)
		if (atomic_load_explicit(&region->page[i], memory_order_relaxed) == page)
			return true;
	return false;
}

static void set_bit(struct region_seen *seen, unsigned int page)
{
	_Atomic uint64_t *word = &seen->bits[page / 64];

	/* A load and a store: there is one writer. */
	atomic_store_explicit(word, atomic_load_explicit(word, memory_order_relaxed) | UINT64_C(1) << (page % 64),
			      memory_order_relaxed);
}

static bool has_bit(const struct region_seen *seen, unsigned int page)
{
	return atomic_load_explicit(&seen->bits[page / 64], memory_order_relaxed) >> (page % 64) & 1;
}

int region_see(struct tablemem *mem, struct region *region, unsigned int page)
{
	struct region_seen *seen = atomic_load_explicit(&region->seen, memory_order_relaxed);
	unsigned int n = atomic_load_explicit(&region->n_seen, memory_order_relaxed);

	assert(page < REGION_PAGES);
	if (seen ? has_bit(seen, page) : seen_inline(region, n, page))
		return 0;
	if (!seen && n == REGION_INLINE_PAGES) {
		seen = tablemem_alloc(mem, sizeof(*seen));
		if (!seen)
			return -ENOMEM;
		for (unsigned int i = 0; i < n; i++)
			set_bit(seen, atomic_load_explicit(&region->page[i], memory_order_relaxed));
		/* Release: region_has_seen() finds the bits set. */
		atomic_store_explicit(&region->seen, seen, memory_order_release);
	}
	if (seen)
		set_bit(seen, page);
	else
		atomic_store_explicit(&region->page[n], (uint16_t)page, memory_order_relaxed);
	/* Release: region_has_seen() finds the entries that n_seen speaks of. */
	atomic_store_explicit(&region->n_seen, (uint16_t)(n + 1), memory_order_release);
	return 1;
}

bool region_has_seen(const struct region *region, unsigned int page)
{
	unsigned int n = atomic_load_explicit(&region->n_seen, memory_order_acquire);
	const struct region_seen *seen = atomic_load_explicit(&region->seen, memory_order_acquire);

	if (seen)
		return has_bit(seen, page);
	return seen_inline(region, n < REGION_INLINE_PAGES ? n : REGION_INLINE_PAGES, page);
}

/* Ticks of @now_ns past the last access; below 0 for a sample that came late. */
static int32_t ticks_since(const struct region *region, uint64_t now_ns)
{
	return (int32_t)((uint32_t)(now_ns >> REGION_TICK_SHIFT) -
			 atomic_load_explicit(&region->last_tick, memory_order_relaxed));
}

uint64_t region_idle_ns(const struct region *region, uint64_t now_ns)
{
	int32_t ticks = ticks_since(region, now_ns);

	return ticks > 0 ? (uint64_t)ticks << REGION_TICK_SHIFT : 0;
}

struct region_moment region_moment(uint64_t now_ns)
{
	const uint64_t unit_ns = UINT64_C(1) << REGION_UNIT_SHIFT, unit = now_ns >> REGION_UNIT_SHIFT;
	const uint64_t epoch_ns = region_epoch(now_ns) * REGION_EPOCH_NS, from_ns = unit * unit_ns;
	struct region_moment moment = {
		.from_ns = epoch_ns > from_ns ? epoch_ns : from_ns,
		.epoch = (uint16_t)region_epoch(now_ns),
		/* One more for the one that is borrowed when samples, above 0, are subtracted from the zeros below. */
		.units = ((uint32_t)unit - REGION_FIRST_UNITS + 1) << 12,
	};
	uint64_t to_ns = from_ns + unit_ns;

	if (epoch_ns + REGION_EPOCH_NS < to_ns)
		to_ns = epoch_ns + REGION_EPOCH_NS;
	moment.length_ns = to_ns - moment.from_ns;
	return moment;
}

/* @heat moved on to the epoch of @now_ns. Returns how many epochs that one is before the current one (0, or a late
 * sample). */
static int roll_epochs(uint64_t *heat, uint64_t now_ns)
{
	uint64_t epoch = now_ns / REGION_EPOCH_NS & 0xffff;
	int16_t ahead = (int16_t)(epoch - (*heat >> 48));
	uint64_t counts = *heat & ((UINT64_C(1) << 48) - 1);

	if (ahead <= 0)
		return -ahead;
	counts = ahead < REGION_EPOCHS ? counts << (16 * ahead) & ((UINT64_C(1) << 48) - 1) : 0;
	*heat = epoch << 48 | counts;
	return 0;
}

/* @heat with one more access at @now_ns. *@ret_new_second: none of its second was counted before. */
static uint64_t heat_counted(uint64_t heat, uint64_t now_ns, bool *ret_new_second)
{
	int back = roll_epochs(&heat, now_ns);
	uint64_t count;

	*ret_new_second = false;
	if (back >= REGION_EPOCHS)
		return heat;
	count = heat >> (16 * back) & 0xffff;
	*ret_new_second = count == 0;
	return count == 0xffff ? heat : heat + (UINT64_C(1) << (16 * back));
}

#define BEFORE_ONE 128 /* code of one sample a second */

struct region_place region_place(int nid, int target_nid, bool is_far)
{
	const uint32_t all = UINT32_MAX;
	struct region_place place = {
		.node_bit = nid < 0 ? 0 : UINT64_C(1) << (nid < REGION_NODE_LAST ? nid : REGION_NODE_LAST),
		.target_nid = target_nid,
		.is_far = is_far,
		.settled_mask = region_bits(REGION_EV_FAR, all),
		.settled = region_bits(REGION_EV_FAR, is_far ? REGION_FAR_MAX : 0),
	};

	if (target_nid >= 0 && target_nid < REGION_TARGET_MAX) {
		place.settled_mask |= region_bits(REGION_EV_TARGET, all) | region_bits(REGION_EV_VOTES, all);
		place.settled |= region_bits(REGION_EV_TARGET, (uint32_t)target_nid + 1) |
				 region_bits(REGION_EV_VOTES, REGION_VOTES_MAX);
	}
	return place;
}

/* Target, votes and far after an access to @place. */
static uint64_t evidence_placed(uint64_t evidence, const struct region_place *place)
{
	uint32_t far = region_get_bits(evidence, REGION_EV_FAR), votes, named;

	/* The vote of Boyer and Moore: who has most of the votes ends up named. */
	if (place->target_nid >= 0 && place->target_nid < REGION_TARGET_MAX) {
		votes = region_get_bits(evidence, REGION_EV_VOTES);
		named = region_get_bits(evidence, REGION_EV_TARGET);
		if (named == (uint32_t)place->target_nid + 1)
			votes += votes < REGION_VOTES_MAX;
		else if (votes > 0)
			votes--;
		else
			evidence = region_put_bits(evidence, REGION_EV_TARGET, (uint32_t)place->target_nid + 1);
		evidence = region_put_bits(evidence, REGION_EV_VOTES, votes);
	}
	if (place->is_far ? far < REGION_FAR_MAX : far > 0)
		evidence = region_put_bits(evidence, REGION_EV_FAR, place->is_far ? far + 1 : far - 1);
	return evidence;
}

/* One sample more. @is_new_second: no sample of this second was counted before. */
static uint64_t evidence_counted(uint64_t evidence, uint64_t now_ns, bool is_new_second)
{
	uint32_t samples = region_get_bits(evidence, REGION_EV_SAMPLES);
	uint32_t seconds = region_get_bits(evidence, REGION_EV_SECONDS);

	if (samples == 0 && region_get_bits(evidence, REGION_EV_BEFORE) == 0 && seconds == 0)
		evidence = region_put_bits(evidence, REGION_EV_BEGUN, (uint32_t)(now_ns >> REGION_UNIT_SHIFT));
	if (samples == REGION_SAMPLES_MAX)
		return evidence;
	evidence++;
	if (region_units_since(evidence, now_ns) < REGION_FIRST_UNITS) {
		if (region_get_bits(evidence, REGION_EV_FIRST) < REGION_FIRST_MAX)
			evidence += region_bits(REGION_EV_FIRST, 1);
	} else if (seconds == 0 || (is_new_second && seconds < REGION_SECONDS_MAX)) {
		evidence += region_bits(REGION_EV_SECONDS, 1);
	}
	return evidence;
}

void region_count_any(struct region *region, uint64_t now_ns, const struct region_place *place, uint32_t latency,
		      bool by_fault)
{
	uint64_t heat = atomic_load_explicit(&region->heat, memory_order_relaxed);
	uint64_t evidence = atomic_load_explicit(&region->evidence, memory_order_relaxed);
	bool is_new_second;

	if (latency)
		evidence = region_evidence_latency(evidence, latency);
	evidence = evidence_placed(evidence, place);
	if (by_fault)
		evidence |= region_bits(REGION_EV_FAULTS, 1);
	heat = heat_counted(heat, now_ns, &is_new_second);
	evidence = evidence_counted(evidence, now_ns, is_new_second);
	atomic_store_explicit(&region->heat, heat, memory_order_relaxed);
	atomic_store_explicit(&region->evidence, evidence, memory_order_relaxed);
}

void region_evidence(const struct region *region, uint64_t now_ns, struct region_evidence *ret)
{
	uint64_t e = atomic_load_explicit(&region->evidence, memory_order_relaxed);
	uint32_t samples = region_get_bits(e, REGION_EV_SAMPLES), first = region_get_bits(e, REGION_EV_FIRST);
	uint32_t units = samples > 0 || region_get_bits(e, REGION_EV_SECONDS) > 0 ? region_units_since(e, now_ns) : 0;
	uint64_t since_ns = (uint64_t)units << REGION_UNIT_SHIFT, idle_ns = region_idle_ns(region, now_ns);

	*ret = (struct region_evidence){
		.samples = (uint16_t)samples,
		.first = (uint16_t)first,
		/* With the first second's counter at its end, nobody knows. */
		.later = (uint16_t)(region_get_bits(e, REGION_EV_SECONDS) == 0 || first == REGION_FIRST_MAX
					    ? 0
					    : samples - first),
		.seconds = (uint16_t)region_get_bits(e, REGION_EV_SECONDS),
		.by_faults = region_get_bits(e, REGION_EV_FAULTS),
		.watched_ns =
			units > REGION_FIRST_UNITS ? (uint64_t)(units - REGION_FIRST_UNITS) << REGION_UNIT_SHIFT : 0,
		.span_ns = since_ns > idle_ns ? since_ns - idle_ns : 0,
		.before_per_sec = region_get_bits(e, REGION_EV_BEFORE)
					  ? exp2(((int)region_get_bits(e, REGION_EV_BEFORE) - BEFORE_ONE) / 8.0)
					  : -1,
		.latency = region_latency_cycles(region_get_bits(e, REGION_EV_LATENCY)),
		.far_part = region_get_bits(e, REGION_EV_FAR) / (double)REGION_FAR_MAX,
		.target_nid = (int)region_get_bits(e, REGION_EV_TARGET) - 1,
	};
}

bool region_is_by_faults(const struct region *region)
{
	return region_get_bits(atomic_load_explicit(&region->evidence, memory_order_relaxed), REGION_EV_FAULTS);
}

void region_forget(struct region *region, uint64_t now_ns)
{
	struct region_seen *seen = atomic_load_explicit(&region->seen, memory_order_relaxed);
	uint64_t e = atomic_load_explicit(&region->evidence, memory_order_relaxed);
	struct region_evidence evidence;
	double sec, per_sec;
	int code = 0;

	region_evidence(region, now_ns, &evidence);
	sec = (double)evidence.watched_ns / 1e9;
	/* After a few seconds only: a first touch isn't heat. */
	if (sec > 4 && evidence.first < REGION_FIRST_MAX) {
		per_sec = evidence.later / sec;
		code = per_sec > 0 ? (int)lround(8 * log2(per_sec)) + BEFORE_ONE : 1;
		code = code < 1 ? 1 : code > 255 ? 255 : code;
	}
	/* So many units ago, that what comes now is later than a second after the first. */
	e = region_put_bits(e, REGION_EV_BEGUN, (uint32_t)(now_ns >> REGION_UNIT_SHIFT) - REGION_FIRST_UNITS);
	e = region_put_bits(e, REGION_EV_SAMPLES, 0);
	e = region_put_bits(e, REGION_EV_FIRST, 0);
	e = region_put_bits(e, REGION_EV_SECONDS, 1);
	e = region_put_bits(e, REGION_EV_BEFORE, (uint32_t)code);
	atomic_store_explicit(&region->evidence, e, memory_order_relaxed);
	for (unsigned int i = 0; seen && i < REGION_PAGES / 64; i++)
		atomic_store_explicit(&seen->bits[i], 0, memory_order_relaxed);
	atomic_store_explicit(&region->n_seen, 0, memory_order_release); /* as in region_see() */
	atomic_store_explicit(&region->mapping, (uint8_t)(region_mapping(region) | REGION_HAS_FORGOTTEN),
			      memory_order_relaxed);
	atomic_fetch_and_explicit(&region->decision, ~REGION_DECISION_FORGET, memory_order_relaxed);
}

void region_pages_seen(const struct region *region, uint64_t ret[REGION_PAGES / 64])
{
	unsigned int n = atomic_load_explicit(&region->n_seen, memory_order_acquire);
	const struct region_seen *seen = atomic_load_explicit(&region->seen, memory_order_acquire);

	for (unsigned int i = 0; i < REGION_PAGES / 64; i++)
		ret[i] = seen ? atomic_load_explicit(&seen->bits[i], memory_order_relaxed) : 0;
	for (unsigned int i = 0; !seen && i < n && i < REGION_INLINE_PAGES; i++) {
		unsigned int page = atomic_load_explicit(&region->page[i], memory_order_relaxed);

		ret[page / 64] |= UINT64_C(1) << (page % 64);
	}
}

void region_counts(const struct region *region, uint64_t now_ns, uint16_t ret[REGION_EPOCHS])
{
	uint64_t heat = atomic_load_explicit(&region->heat, memory_order_relaxed);

	if (region_idle_ns(region, now_ns) > REGION_EPOCHS * REGION_EPOCH_NS)
		heat = 0;
	else
		roll_epochs(&heat, now_ns);
	for (int i = 0; i < REGION_EPOCHS; i++)
		ret[i] = (uint16_t)(heat >> (16 * i));
}
