/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <assert.h>
#include <errno.h>

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

void region_count(struct region *region, uint64_t now_ns)
{
	uint64_t heat = atomic_load_explicit(&region->heat, memory_order_relaxed);
	int back = roll_epochs(&heat, now_ns);

	if (back < REGION_EPOCHS && (heat >> (16 * back) & 0xffff) != 0xffff)
		heat += UINT64_C(1) << (16 * back);
	atomic_store_explicit(&region->heat, heat, memory_order_relaxed);
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
