/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <assert.h>
#include <errno.h>
#include <math.h>

#include "regions.h"
#include "tablemem.h"

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

/*
 * The evidence word. Times are in units of 2^28 ns, 0.27 s, of which 12 bits are 18 minutes: the policy has it begun
 * anew long before.
 *
 *   0-11 samples   12-23 time of the first   24-27 those of the first second, up to 15   28-34 seconds with later ones
 *   35-42 heat before, in steps of 2^(1/8)   43-50 latency, 4 bits of exponent and 4 of mantissa
 *   51-57 target node + 1   58-60 votes for it   61 by faults   62-63 far: up for a far sample, down for a near one
 */
#define UNIT_SHIFT  28
#define UNITS_WRAP  4096U
#define UNITS_LATE  64U /* a sample that is older than the first one by up to so many is a late one */
#define FIRST_UNITS 5U  /* so many units apart is at least four whole ones, 1.07 s */
#define SAMPLES_MAX 4095U
#define FIRST_MAX   15U
#define SECONDS_MAX 127U
#define BEFORE_ONE  128 /* code of one sample a second */
#define TARGET_MAX  126
#define VOTES_MAX   7U

static uint32_t get_bits(uint64_t word, unsigned int shift, unsigned int width)
{
	return (uint32_t)(word >> shift) & ((1U << width) - 1);
}

static uint64_t put_bits(uint64_t word, unsigned int shift, unsigned int width, uint32_t value)
{
	uint64_t mask = ((UINT64_C(1) << width) - 1) << shift;

	return (word & ~mask) | ((uint64_t)value << shift & mask);
}

#define EV_SAMPLES 0, 12
#define EV_BEGUN   12, 12
#define EV_FIRST   24, 4
#define EV_SECONDS 28, 7
#define EV_BEFORE  35, 8
#define EV_LATENCY 43, 8
#define EV_TARGET  51, 7
#define EV_VOTES   58, 3
#define EV_FAULTS  61, 1
#define EV_FAR     62, 2
#define FAR_MAX    3U

/* Units since the first sample; 0 for a late one. */
static uint32_t units_since(uint64_t evidence, uint64_t now_ns)
{
	uint32_t units = ((uint32_t)(now_ns >> UNIT_SHIFT) - get_bits(evidence, EV_BEGUN)) & (UNITS_WRAP - 1);

	return units >= UNITS_WRAP - UNITS_LATE ? 0 : units;
}

static uint32_t latency_cycles(uint32_t code)
{
	return code ? (16 + (code & 15)) << (code >> 4) : 0;
}

/* At least 16 cycles, and at most 2^20. */
static uint32_t latency_code(uint32_t cycles)
{
	unsigned int exponent;

	if (cycles < 17)
		return 1;
	if (cycles >= 31U << 15)
		return 255;
	exponent = 31 - (unsigned int)__builtin_clz(cycles) - 4;
	return exponent << 4 | (cycles >> exponent & 15);
}

void region_note(struct region *region, const struct region_note *note)
{
	uint32_t latency = note->latency, far;
	int target_nid = note->target_nid;
	uint64_t e = atomic_load_explicit(&region->evidence, memory_order_relaxed), before = e;

	if (latency) {
		uint32_t mean = latency_cycles(get_bits(e, EV_LATENCY));

		mean = mean ? mean - mean / 4 + (latency < 1U << 20 ? latency : 1U << 20) / 4 : latency;
		e = put_bits(e, EV_LATENCY, latency_code(mean));
	}
	/* The vote of Boyer and Moore: who has most of the votes ends up named. */
	if (target_nid >= 0 && target_nid < TARGET_MAX) {
		uint32_t votes = get_bits(e, EV_VOTES);

		if (get_bits(e, EV_TARGET) == (uint32_t)target_nid + 1)
			votes += votes < VOTES_MAX;
		else if (votes > 0)
			votes--;
		else
			e = put_bits(e, EV_TARGET, (uint32_t)target_nid + 1);
		e = put_bits(e, EV_VOTES, votes);
	}
	far = get_bits(e, EV_FAR);
	if (note->is_far ? far < FAR_MAX : far > 0)
		e = put_bits(e, EV_FAR, note->is_far ? far + 1 : far - 1);
	if (note->by_fault)
		e = put_bits(e, EV_FAULTS, 1);
	if (e != before)
		atomic_store_explicit(&region->evidence, e, memory_order_relaxed);
}

/* @is_new_second: no sample of this second was counted before. */
static void count_evidence(struct region *region, uint64_t now_ns, bool is_new_second)
{
	uint64_t e = atomic_load_explicit(&region->evidence, memory_order_relaxed);
	uint32_t samples = get_bits(e, EV_SAMPLES);

	if (samples == 0 && get_bits(e, EV_BEFORE) == 0 && get_bits(e, EV_SECONDS) == 0)
		e = put_bits(e, EV_BEGUN, (uint32_t)(now_ns >> UNIT_SHIFT));
	if (samples == SAMPLES_MAX)
		return;
	e++;
	if (units_since(e, now_ns) < FIRST_UNITS) {
		if (get_bits(e, EV_FIRST) < FIRST_MAX)
			e = put_bits(e, EV_FIRST, get_bits(e, EV_FIRST) + 1);
	} else if (get_bits(e, EV_SECONDS) == 0 || (is_new_second && get_bits(e, EV_SECONDS) < SECONDS_MAX)) {
		e = put_bits(e, EV_SECONDS, get_bits(e, EV_SECONDS) + 1);
	}
	atomic_store_explicit(&region->evidence, e, memory_order_relaxed);
}

void region_count(struct region *region, uint64_t now_ns)
{
	uint64_t heat = atomic_load_explicit(&region->heat, memory_order_relaxed);
	int back = roll_epochs(&heat, now_ns);
	bool is_new_second = false;

	if (back < REGION_EPOCHS) {
		uint64_t count = heat >> (16 * back) & 0xffff;

		is_new_second = count == 0;
		if (count != 0xffff)
			heat += UINT64_C(1) << (16 * back);
	}
	atomic_store_explicit(&region->heat, heat, memory_order_relaxed);
	count_evidence(region, now_ns, is_new_second);
}

void region_evidence(const struct region *region, uint64_t now_ns, struct region_evidence *ret)
{
	uint64_t e = atomic_load_explicit(&region->evidence, memory_order_relaxed);
	uint32_t samples = get_bits(e, EV_SAMPLES), first = get_bits(e, EV_FIRST);
	uint32_t units = samples > 0 || get_bits(e, EV_SECONDS) > 0 ? units_since(e, now_ns) : 0;
	uint64_t since_ns = (uint64_t)units << UNIT_SHIFT, idle_ns = region_idle_ns(region, now_ns);

	*ret = (struct region_evidence){
		.samples = (uint16_t)samples,
		.first = (uint16_t)first,
		/* With the first second's counter at its end, nobody knows. */
		.later = (uint16_t)(get_bits(e, EV_SECONDS) == 0 || first == FIRST_MAX ? 0 : samples - first),
		.seconds = (uint16_t)get_bits(e, EV_SECONDS),
		.by_faults = get_bits(e, EV_FAULTS),
		.watched_ns = units > FIRST_UNITS ? (uint64_t)(units - FIRST_UNITS) << UNIT_SHIFT : 0,
		.span_ns = since_ns > idle_ns ? since_ns - idle_ns : 0,
		.before_per_sec = get_bits(e, EV_BEFORE) ? exp2(((int)get_bits(e, EV_BEFORE) - BEFORE_ONE) / 8.0) : -1,
		.latency = latency_cycles(get_bits(e, EV_LATENCY)),
		.far_part = get_bits(e, EV_FAR) / (double)FAR_MAX,
		.target_nid = (int)get_bits(e, EV_TARGET) - 1,
	};
}

bool region_is_by_faults(const struct region *region)
{
	return get_bits(atomic_load_explicit(&region->evidence, memory_order_relaxed), EV_FAULTS);
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
	if (sec > 4 && evidence.first < FIRST_MAX) {
		per_sec = evidence.later / sec;
		code = per_sec > 0 ? (int)lround(8 * log2(per_sec)) + BEFORE_ONE : 1;
		code = code < 1 ? 1 : code > 255 ? 255 : code;
	}
	/* So many units ago, that what comes now is later than a second after the first. */
	e = put_bits(e, EV_BEGUN, (uint32_t)(now_ns >> UNIT_SHIFT) - FIRST_UNITS);
	e = put_bits(e, EV_SAMPLES, 0);
	e = put_bits(e, EV_FIRST, 0);
	e = put_bits(e, EV_SECONDS, 1);
	e = put_bits(e, EV_BEFORE, (uint32_t)code);
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
