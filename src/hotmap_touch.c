/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <assert.h>

#include "hotmap_update.h"

void hotmap_mark_section(struct hotmap *map, uint64_t index, enum hotmap_mark kind)
{
	atomic_fetch_or_explicit(&map->hot[kind][index / 64], UINT64_C(1) << (index % 64),
				 memory_order_seq_cst); /* M1 */
	atomic_fetch_or_explicit(&map->warm[kind][index / 4096], UINT64_C(1) << (index / 64 % 64),
				 memory_order_seq_cst); /* M1 */
}

void hotmap_mark(struct hotmap *map, struct hotmap_section *section, unsigned int chunk, enum hotmap_mark kind)
{
	atomic_fetch_or_explicit(&hotmap_marks(map, section, kind)[chunk / 64], UINT64_C(1) << (chunk % 64),
				 memory_order_seq_cst); /* M1 */
	hotmap_mark_section(map, section->index, kind);
}

bool hotmap_has_wrapped(enum record_layout layout, uint64_t word, uint64_t now_ns)
{
	return (word & HOTMAP_OLD) &&
	       record_age_ms(layout, hotmap_record(word), now_ns) < hotmap_old_ms(layout) - hotmap_late_ms(layout);
}

bool hotmap_gets_old(enum record_layout layout, uint64_t word, uint64_t now_ns)
{
	uint32_t age_ms = record_age_ms(layout, hotmap_record(word), now_ns);

	return !(word & HOTMAP_OLD) && age_ms >= hotmap_old_ms(layout) && age_ms < hotmap_future_ms(layout);
}

uint64_t hotmap_sweep_max_ns(enum record_layout layout)
{
	return (hotmap_future_ms(layout) - hotmap_old_ms(layout)) * NSEC_PER_MSEC;
}

static struct hotmap_spot look_up(const struct hotmap *map, struct hotmap_section *section, unsigned int chunk,
				  unsigned int page)
{
	if (!section)
		return (struct hotmap_spot){ 0 };
	return hotmap_find(map,
			   atomic_load_explicit(hotmap_chunk_word(map, section, chunk), memory_order_acquire), /* C2 */
			   page);
}

/* Who froze a word holds the lock until the new chunk is there. */
static void wait_for_chunk(struct hotmap *map, uint64_t section_index)
{
	pthread_mutex_lock(hotmap_lock_of(map, section_index));
	pthread_mutex_unlock(hotmap_lock_of(map, section_index));
}

enum hotmap_result hotmap_touch(struct hotmap *map, uint64_t pfn, const struct hotmap_access *access, bool *ret_new)
{
	uint64_t index = pfn >> map->section_shift, last_ns;
	unsigned int chunk = (unsigned int)(pfn >> HOTMAP_CHUNK_SHIFT) & (map->chunks - 1);
	unsigned int page = (unsigned int)pfn & (HOTMAP_CHUNK_PAGES - 1);
	struct hotmap_change change = { 0 };
	struct hotmap_section *section;
	struct hotmap_spot spot;
	enum hotmap_swap swap;
	int r;

	assert(access->rule->layout == map->layout);
	if (index >= map->sections_max)
		return HOTMAP_NO_MEMORY;
	for (;;) {
		section = hotmap_section_at(map, index);
		spot = look_up(map, section, chunk, page);
		if (!spot.at) {
			change.old = 0;
			change.next = hotmap_updated(map, access, 0, 0, &change.ready);
			r = hotmap_insert(map, pfn, change.next, access->now_ns, &section);
			if (r < 0)
				return HOTMAP_NO_MEMORY;
			if (r > 0)
				break;
			continue;
		}
		last_ns = atomic_load_explicit(&section->last_ns, memory_order_relaxed);
		hotmap_use_section(section, access->now_ns);
		swap = hotmap_swap(map, &spot, hotmap_load(map, spot.at), access, last_ns, &change);
		if (swap == HOTMAP_SWAPPED) {
			*ret_new = change.old == 0;
			return hotmap_swapped(map, section, chunk, &change);
		}
		if (swap == HOTMAP_MET_FROZEN)
			wait_for_chunk(map, index);
		else if (hotmap_insert(map, pfn, change.next, access->now_ns, &section) < 0)
			return HOTMAP_NO_MEMORY;
	}
	if (change.ready)
		hotmap_mark(map, section, chunk, change.next & HOTMAP_NOTE ? MARK_NOTED : MARK_NEW);
	*ret_new = true;
	return change.ready ? HOTMAP_READY : HOTMAP_RECORDED;
}

bool hotmap_put(struct hotmap *map, uint64_t pfn, uint64_t word, uint64_t now_ns)
{
	uint64_t index = pfn >> map->section_shift, old, raw;
	unsigned int chunk = (unsigned int)(pfn >> HOTMAP_CHUNK_SHIFT) & (map->chunks - 1);
	unsigned int page = (unsigned int)pfn & (HOTMAP_CHUNK_PAGES - 1);
	struct hotmap_section *section;
	struct hotmap_spot spot;
	int r;

	if (index >= map->sections_max)
		return false;
	for (;;) {
		section = hotmap_section_at(map, index);
		spot = look_up(map, section, chunk, page);
		old = spot.at ? hotmap_load(map, spot.at) : 0;
		if (old == 0 && (!spot.at || !hotmap_raw(map, spot.chunk, spot.cap, word, &raw))) {
			r = hotmap_insert(map, pfn, word, now_ns, &section);
			if (r < 0)
				return false;
			if (r > 0)
				break;
			continue;
		}
		if (old == 0 && hotmap_cas(map, spot.at, &old, raw))
			break;
		if (!(old & hotmap_frozen_bit(map)))
			return false;
		wait_for_chunk(map, index);
	}
	if (record_ready(map->layout, hotmap_record(word)))
		hotmap_mark(map, section, chunk, word & HOTMAP_NOTE ? MARK_NOTED : MARK_NEW);
	return true;
}

uint64_t hotmap_peek(const struct hotmap *map, uint64_t pfn)
{
	uint64_t index = pfn >> map->section_shift;
	unsigned int chunk = (unsigned int)(pfn >> HOTMAP_CHUNK_SHIFT) & (map->chunks - 1);
	struct hotmap_section *section = index < map->sections_max ? hotmap_section_at(map, index) : NULL;
	struct hotmap_spot spot = look_up(map, section, chunk, (unsigned int)pfn & (HOTMAP_CHUNK_PAGES - 1));

	if (!spot.at)
		return 0;
	return hotmap_wide(map, spot.chunk, spot.cap, hotmap_load(map, spot.at) & ~hotmap_frozen_bit(map));
}
