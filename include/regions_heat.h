/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * regions_heat: what an access does to the heat and the evidence of a region: the part of regions that runs once for
 * each sample, for regions_heat.c and the path of a sample (hotness*.c) only. What is rare is behind a call.
 *
 * The evidence word. Times are in units of 2^28 ns, 0.27 s, of which 12 bits are 18 minutes: the policy has it begun
 * anew long before.
 *
 *   0-11 samples   12-23 time of the first   24-27 those of the first second, up to 15   28-34 seconds with later ones
 *   35-42 heat before, in steps of 2^(1/8)   43-50 latency, 4 bits of exponent and 4 of mantissa
 *   51-57 target node + 1   58-60 votes for it   61 by faults   62-63 far: up for a far sample, down for a near one
 */
#pragma once

#include <string.h>

#include "regions.h"

#define REGION_UNIT_SHIFT  28
#define REGION_UNITS_WRAP  4096U
#define REGION_UNITS_LATE  64U /* a sample that is older than the first one by up to so many is a late one */
#define REGION_FIRST_UNITS 5U  /* so many units apart is at least four whole ones, 1.07 s */
#define REGION_SAMPLES_MAX 4095U
#define REGION_FIRST_MAX   15U
#define REGION_SECONDS_MAX 127U
#define REGION_TARGET_MAX  126
#define REGION_VOTES_MAX   7U
#define REGION_FAR_MAX     3U
#define REGION_LATENCY_MAX (1U << 20)

/* Shift and width. */
#define REGION_EV_SAMPLES 0, 12
#define REGION_EV_BEGUN   12, 12
#define REGION_EV_FIRST   24, 4
#define REGION_EV_SECONDS 28, 7
#define REGION_EV_BEFORE  35, 8
#define REGION_EV_LATENCY 43, 8
#define REGION_EV_TARGET  51, 7
#define REGION_EV_VOTES   58, 3
#define REGION_EV_FAULTS  61, 1
#define REGION_EV_FAR     62, 2

static inline uint32_t region_get_bits(uint64_t word, unsigned int shift, unsigned int width)
{
	return (uint32_t)(word >> shift) & ((1U << width) - 1);
}

static inline uint64_t region_bits(unsigned int shift, unsigned int width, uint32_t value)
{
	return (uint64_t)(value & ((1U << width) - 1)) << shift;
}

static inline uint64_t region_put_bits(uint64_t word, unsigned int shift, unsigned int width, uint32_t value)
{
	return (word & ~region_bits(shift, width, UINT32_MAX)) | region_bits(shift, width, value);
}

/* @nid and @target_nid: -1 for not known, and for nowhere. Pure. */
struct region_place region_place(int nid, int target_nid, bool is_far);

/*
 * An access at @now_ns on the node of @place: the region lives on; in the steady state two comparisons. The region's
 * collector.
 */
static inline __attribute__((always_inline)) void region_touch(struct region *region, uint64_t now_ns,
							       const struct region_place *place)
{
	uint32_t tick = (uint32_t)(now_ns >> REGION_TICK_SHIFT);
	uint32_t last_tick = atomic_load_explicit(&region->last_tick, memory_order_relaxed);
	int32_t ticks = (int32_t)(tick - last_tick);
	uint64_t nodes = atomic_load_explicit(&region->nodes, memory_order_relaxed);

	/* Beyond the epochs all counts are from too long ago; said here, while the last access is known. */
	if (__builtin_expect(ticks > (int32_t)(REGION_EPOCHS * REGION_EPOCH_NS >> REGION_TICK_SHIFT), 0))
		atomic_store_explicit(&region->heat, (now_ns / REGION_EPOCH_NS & 0xffff) << 48, memory_order_relaxed);
	/*
	 * In any case, and without a branch, which gcc 12 makes of a choice of two numbers: the line is written anyway,
	 * and which samples are the first of their tick can't be foreseen.
	 */
	atomic_store_explicit(&region->last_tick, last_tick + ((uint32_t)ticks & ~(uint32_t)(ticks >> 31)),
			      memory_order_relaxed);
	if (__builtin_expect((nodes | place->node_bit) != nodes, 0))
		atomic_store_explicit(&region->nodes, nodes | place->node_bit, memory_order_relaxed);
}

static inline uint32_t region_latency_cycles(uint32_t code)
{
	return code ? (16 + (code & 15)) << (code >> 4) : 0;
}

/* From these on, and up to these: more would be no code. */
#define REGION_MEAN_MIN 17U
#define REGION_MEAN_END (31U << 15)

/* Of at least REGION_MEAN_MIN cycles, and fewer than REGION_MEAN_END. */
static inline uint32_t region_latency_code_of(uint32_t cycles)
{
	const float number = (float)(int32_t)cycles;
	uint32_t bits;

	/* A float has the same two, above 19 more bits of the mantissa; its exponent of 16 is 127 + 4. */
	memcpy(&bits, &number, sizeof(bits));
	return (bits >> 19) - ((127 + 4) << 4);
}

/* At least 16 cycles, and at most 2^20. */
static inline uint32_t region_latency_code(uint32_t cycles)
{
	if (__builtin_expect(cycles < REGION_MEAN_MIN, 0))
		return 1;
	if (__builtin_expect(cycles >= REGION_MEAN_END, 0))
		return 255;
	return region_latency_code_of(cycles);
}

/*
 * By the code of a mean: what of it goes into the next one, region_latency_cycles() less a quarter. Where there is no
 * mean yet, more than any can be.
 */
extern const uint32_t region_latency_kept[256];
#define REGION_LATENCY_NONE (1U << 30)

/* The mean over the last few. @latency above 0. */
static inline uint64_t region_evidence_latency(uint64_t evidence, uint32_t latency)
{
	uint32_t code = region_get_bits(evidence, REGION_EV_LATENCY), mean = latency;

	if (__builtin_expect(code != 0, 1))
		mean = region_latency_kept[code] + (latency < REGION_LATENCY_MAX ? latency : REGION_LATENCY_MAX) / 4;
	return evidence ^ region_bits(REGION_EV_LATENCY, code ^ region_latency_code(mean));
}

/* Units since the first sample; 0 for a late one. */
static inline uint32_t region_units_since(uint64_t evidence, uint64_t now_ns)
{
	uint32_t units = ((uint32_t)(now_ns >> REGION_UNIT_SHIFT) - region_get_bits(evidence, REGION_EV_BEGUN)) &
			 (REGION_UNITS_WRAP - 1);

	return units >= REGION_UNITS_WRAP - REGION_UNITS_LATE ? 0 : units;
}

/* Seconds of the clock, of which a region's heat has the low 16 bits. */
static inline uint64_t region_epoch(uint64_t now_ns)
{
	return now_ns / REGION_EPOCH_NS;
}

/* What is the same for all accesses in a part of a second: the moments that region_count() tells apart. */
struct region_moment {
	uint64_t from_ns, length_ns;
	uint32_t epoch; /* the low 16 bits of region_epoch() */
	uint32_t units; /* of its REGION_UNIT_SHIFT, as region_count() compares them */
};

/* The moment of @now_ns. Pure. */
struct region_moment region_moment(uint64_t now_ns);

static inline bool region_is_in(const struct region_moment *moment, uint64_t now_ns)
{
	return now_ns - moment->from_ns < moment->length_ns;
}

/* region_count() in full; what it does itself is the common case of this. */
void region_count_any(struct region *region, uint64_t now_ns, const struct region_place *place, uint32_t latency,
		      bool by_fault);

/*
 * The access at @now_ns, which is in @moment and waited @latency cycles (0: not known), is evidence: count it, and in
 * its epoch; one of an epoch too long past counts in none. After region_touch() and region_see(). The region's
 * collector.
 */
static inline __attribute__((always_inline)) void region_count(struct region *region, uint64_t now_ns,
							       const struct region_moment *moment,
							       const struct region_place *place, uint32_t latency,
							       bool by_fault)
{
	const uint64_t seconds = region_bits(REGION_EV_SECONDS, UINT32_MAX);
	uint64_t heat = atomic_load_explicit(&region->heat, memory_order_relaxed);
	uint64_t evidence = atomic_load_explicit(&region->evidence, memory_order_relaxed), changed = evidence;
	uint32_t samples = region_get_bits(evidence, REGION_EV_SAMPLES), code, mean;
	/* Units since the first sample, less REGION_FIRST_UNITS, at the top; below it whatever is in the way. */
	uint32_t units = (moment->units - (uint32_t)evidence) << 8;

	/*
	 * Neither the first of its second, nor one too many for it; nor is the sample the first of all, of the first
	 * second, or late; there is a later second; and of its place nothing is new.
	 */
	if (__builtin_expect(heat >> 48 != moment->epoch, 0) || __builtin_expect((uint16_t)(heat + 1) <= 1, 0) ||
	    __builtin_expect(samples == 0, 0) ||
	    __builtin_expect(units >= (REGION_UNITS_WRAP - REGION_UNITS_LATE - REGION_FIRST_UNITS) << 20, 0) ||
	    __builtin_expect((evidence & seconds) == 0, 0) ||
	    __builtin_expect((evidence & place->settled_mask) != place->settled, 0) || __builtin_expect(by_fault, 0))
		goto any;
	if (latency) {
		code = region_get_bits(evidence, REGION_EV_LATENCY);
		mean = region_latency_kept[code] + (latency < REGION_LATENCY_MAX ? latency : REGION_LATENCY_MAX) / 4;
		if (__builtin_expect(mean - REGION_MEAN_MIN >= REGION_MEAN_END - REGION_MEAN_MIN, 0))
			goto any;
		changed ^= (uint64_t)(code ^ region_latency_code_of(mean)) << 43;
	}
	atomic_store_explicit(&region->heat, heat + 1, memory_order_relaxed);
	atomic_store_explicit(&region->evidence, changed + (samples != REGION_SAMPLES_MAX), memory_order_relaxed);
	return;
any:
	region_count_any(region, now_ns, place, latency, by_fault);
}
