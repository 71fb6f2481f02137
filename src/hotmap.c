/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <assert.h>
#include <errno.h>

#include "hotmap_update.h"

/* Sizes that leave little of what malloc rounds up to; past seven eighths of the larger ones a search gets long. */
const struct hotmap_class hotmap_class[HOTMAP_CLASSES] = { { 1, 1 },     { 4, 4 },
							   { 12, 12 },   { 28, 26 },
							   { 60, 54 },   { 124, 110 },
							   { 252, 224 }, { HOTMAP_CHUNK_PAGES, HOTMAP_CHUNK_PAGES } };

unsigned int hotmap_class_for(unsigned int entries)
{
	unsigned int c = 0;

	assert(entries <= HOTMAP_CHUNK_PAGES);
	while (hotmap_class[c].fill < entries)
		c++;
	return c;
}

static size_t chunk_bytes(const struct hotmap *map, unsigned int class, unsigned int slots_log)
{
	unsigned int cap = hotmap_class[class].cap;

	return hotmap_words_at(cap) + ((size_t)cap << map->word_shift) +
	       (hotmap_is_narrow(map) ? sizeof(uint32_t) << slots_log : 0);
}

/* A bit for each 64 sections, in whole words. */
static size_t warm_bytes(const struct hotmap *map)
{
	return (map->sections_max + 4095) / 4096 * sizeof(uint64_t);
}

static size_t section_bytes(const struct hotmap *map)
{
	return sizeof(struct hotmap_section) + (MARK_KINDS * map->words + map->chunks) * sizeof(uint64_t);
}

static void free_chunk(void *ctx, struct retire_node *node)
{
	struct hotmap_chunk *chunk = (struct hotmap_chunk *)node;
	struct hotmap *map = ctx;

	tablemem_free(map->mem, chunk, chunk_bytes(map, chunk->class, chunk->slots_log));
}

static void free_section(void *ctx, struct retire_node *node)
{
	struct hotmap *map = ctx;

	tablemem_free(map->mem, node, section_bytes(map));
}

struct hotmap *hotmap_new(struct tablemem *mem, struct retire *retire, enum record_layout layout,
			  uint64_t bytes_of_section, hotmap_alive_fn *alive, void *ctx)
{
	struct hotmap *map = tablemem_alloc(mem, sizeof(*map));
	unsigned int bits = (unsigned int)__builtin_ctzll(bytes_of_section);

	if (!map)
		return NULL;
	assert(bits >= REGION_SHIFT && bits <= 36);
	map->mem = mem;
	map->retire = retire;
	map->layout = layout;
	map->word_shift = layout == RECORD_COMPACT ? 2 : 3;
	map->section_shift = bits - PAGE_SHIFT;
	map->chunks = 1U << (bits - REGION_SHIFT);
	map->words = (map->chunks + 63) / 64;
	map->sections_max = (size_t)1 << (HOTMAP_PHYS_BITS - bits);
	map->alive = alive;
	map->ctx = ctx;
	for (int i = 0; i < HOTMAP_LOCKS; i++)
		pthread_mutex_init(&map->lock[i], NULL);
	retire_handle(retire, RETIRE_CHUNK, free_chunk, map);
	retire_handle(retire, RETIRE_SECTION, free_section, map);
	if (tablerange_init(mem, &map->top_range, map->sections_max * sizeof(*map->top)) < 0 ||
	    tablerange_init(mem, &map->present_range, map->sections_max / 8) < 0 ||
	    tablerange_init(mem, &map->hot_range[MARK_NEW], map->sections_max / 8) < 0 ||
	    tablerange_init(mem, &map->hot_range[MARK_NOTED], map->sections_max / 8) < 0 ||
	    tablerange_init(mem, &map->warm_range, MARK_KINDS * warm_bytes(map)) < 0 ||
	    tablerange_init(mem, &map->cursor_range, sizeof(*map->cursor) * NODE_MAX * HOTMAP_PARTS_MAX) < 0) {
		hotmap_free(map);
		return NULL;
	}
	map->top = (_Atomic(struct hotmap_section *) *)(void *)map->top_range.base;
	map->present = (_Atomic uint64_t *)(void *)map->present_range.base;
	for (int i = 0; i < MARK_KINDS; i++) {
		map->hot[i] = (_Atomic uint64_t *)(void *)map->hot_range[i].base;
		map->warm[i] = (_Atomic uint64_t *)(void *)(map->warm_range.base + (size_t)i * warm_bytes(map));
	}
	map->cursor = (uint64_t *)(void *)map->cursor_range.base;
	return map;
}

void hotmap_free(struct hotmap *map)
{
	if (!map)
		return;
	for (uint64_t s = 0; s < atomic_load_explicit(&map->sections_end, memory_order_relaxed); s++) {
		struct hotmap_section *section = hotmap_section_at(map, s);

		for (unsigned int c = 0; section && c < map->chunks; c++) {
			uint64_t chunk_word =
				atomic_load_explicit(hotmap_chunk_word(map, section, c), memory_order_relaxed);

			if (chunk_word)
				free_chunk(map, &hotmap_chunk_of(chunk_word)->retired);
		}
		if (section)
			free_section(map, &section->retired);
	}
	for (int i = 0; i < HOTMAP_LOCKS; i++)
		pthread_mutex_destroy(&map->lock[i]);
	tablerange_done(map->mem, &map->top_range);
	tablerange_done(map->mem, &map->present_range);
	tablerange_done(map->mem, &map->hot_range[MARK_NEW]);
	tablerange_done(map->mem, &map->hot_range[MARK_NOTED]);
	tablerange_done(map->mem, &map->warm_range);
	tablerange_done(map->mem, &map->cursor_range);
	tablemem_free(map->mem, map, sizeof(*map));
}

/* The section, made if it isn't there. Under its lock. */
static struct hotmap_section *get_section(struct hotmap *map, uint64_t index, uint64_t now_ns)
{
	struct hotmap_section *section = hotmap_section_at(map, index);

	if (section)
		return section;
	if (tablerange_touch(map->mem, &map->top_range, index * sizeof(*map->top)) < 0 ||
	    tablerange_touch(map->mem, &map->present_range, index / 8) < 0 ||
	    tablerange_touch(map->mem, &map->hot_range[MARK_NEW], index / 8) < 0 ||
	    tablerange_touch(map->mem, &map->hot_range[MARK_NOTED], index / 8) < 0 ||
	    tablerange_touch(map->mem, &map->warm_range, index / 512) < 0 ||
	    tablerange_touch(map->mem, &map->warm_range, warm_bytes(map) + index / 512) < 0)
		return NULL;
	section = tablemem_alloc(map->mem, section_bytes(map));
	if (!section)
		return NULL;
	section->index = index;
	atomic_init(&section->last_ns, now_ns);
	atomic_store_explicit(&map->top[index], section, memory_order_release); /* S1 */
	/* Another section's lock may guard other bits of these words. */
	atomic_fetch_or_explicit(&map->present[index / 64], UINT64_C(1) << (index % 64), memory_order_relaxed);
	atomic_fetch_add_explicit(&map->n_sections, 1, memory_order_relaxed);
	for (uint64_t end = atomic_load_explicit(&map->sections_end, memory_order_relaxed); end < index + 1;)
		if (atomic_compare_exchange_weak_explicit(&map->sections_end, &end, index + 1, memory_order_relaxed,
							  memory_order_relaxed))
			break;
	return section;
}

/* Nobody sees the word yet, or nobody the entry: relaxed. A word carries its own order once it is updated. */
static void store_raw(const struct hotmap *map, void *at, uint64_t raw)
{
	if (hotmap_is_narrow(map))
		atomic_store_explicit((_Atomic uint32_t *)at, (uint32_t)raw, memory_order_relaxed);
	else
		atomic_store_explicit((_Atomic uint64_t *)at, raw, memory_order_relaxed);
}

/* A new entry. Under the lock, or on a chunk that nobody else sees. */
static void place(const struct hotmap *map, struct hotmap_chunk *chunk, unsigned int page, uint64_t raw)
{
	unsigned int cap = hotmap_cap(chunk), i = hotmap_hash_page(page, cap);

	chunk->n++;
	if (hotmap_is_dense(chunk)) {
		store_raw(map, hotmap_word(map, chunk, cap, page), raw);
		return;
	}
	while (atomic_load_explicit(&chunk->index[i], memory_order_relaxed) != 0)
		if (++i == cap)
			i = 0;
	store_raw(map, hotmap_word(map, chunk, cap, i), raw);
	atomic_store_explicit(&chunk->index[i], (uint16_t)(page + 1), memory_order_release); /* I1 */
}

/* @word as @chunk stores it, with the region's slot put into its table if need be. false: that is full. As place(). */
static bool make_raw(const struct hotmap *map, struct hotmap_chunk *chunk, uint64_t word, uint64_t *ret)
{
	unsigned int cap = hotmap_cap(chunk), n;

	if (hotmap_raw(map, chunk, cap, word, ret))
		return true;
	n = atomic_load_explicit(&chunk->n_slots, memory_order_relaxed);
	if (n >> chunk->slots_log)
		return false;
	atomic_store_explicit(&hotmap_slots(chunk, cap)[n], hotmap_backref(word) >> HOTMAP_PAGE_BITS,
			      memory_order_relaxed);
	atomic_store_explicit(&chunk->n_slots, (uint16_t)(n + 1), memory_order_release); /* T1 */
	return hotmap_raw(map, chunk, cap, word, ret);
}

static void publish_chunk(struct hotmap *map, struct hotmap_section *section, unsigned int chunk,
			  struct hotmap_chunk *next)
{
	uint64_t word = (uint64_t)(uintptr_t)next | (hotmap_is_dense(next) ? HOTMAP_DENSE : 0);

	atomic_store_explicit(hotmap_chunk_word(map, section, chunk), word, memory_order_release); /* C1 */
}

/* @slots: of regions, 0..HOTMAP_NARROW_SLOTS_MAX. */
static struct hotmap_chunk *new_chunk(struct hotmap *map, unsigned int class, unsigned int slots, bool over)
{
	unsigned int slots_log = slots > 1 ? 32 - (unsigned int)__builtin_clz(slots - 1) : 0;
	size_t bytes = chunk_bytes(map, class, slots_log);
	struct hotmap_chunk *chunk = over ? tablemem_alloc_over(map->mem, bytes) : tablemem_alloc(map->mem, bytes);

	if (chunk) {
		chunk->class = (uint8_t) class;
		chunk->slots_log = (uint8_t)slots_log;
	}
	return chunk;
}

/* How many records, and region slots that they name. */
static unsigned int count_records(const struct hotmap *map, struct hotmap_chunk *chunk, unsigned int *ret_slots)
{
	unsigned int cap = hotmap_cap(chunk), n = 0;
	uint64_t named[HOTMAP_NARROW_SLOTS_MAX / 64] = { 0 };

	*ret_slots = 0;
	for (unsigned int i = 0; i < cap; i++) {
		uint64_t raw = hotmap_load(map, hotmap_word(map, chunk, cap, i));

		n += raw != 0;
		if (raw && hotmap_is_narrow(map))
			named[raw >> HOTMAP_NARROW_SLOT_SHIFT >> 6] |= UINT64_C(1)
								       << (raw >> HOTMAP_NARROW_SLOT_SHIFT & 63);
	}
	for (unsigned int i = 0; i < HOTMAP_NARROW_SLOTS_MAX / 64; i++)
		*ret_slots += (unsigned int)__builtin_popcountll(named[i]);
	return n;
}

/* acq_rel: the value is the last there is (W2), and later updates meet the mark (W1). */
static uint64_t freeze(const struct hotmap *map, void *at)
{
	if (hotmap_is_narrow(map))
		return atomic_fetch_or_explicit((_Atomic uint32_t *)at, HOTMAP_NARROW_FROZEN, memory_order_acq_rel);
	return atomic_fetch_or_explicit((_Atomic uint64_t *)at, HOTMAP_FROZEN, memory_order_acq_rel);
}

static void thaw(const struct hotmap *map, void *at)
{
	if (hotmap_is_narrow(map))
		atomic_fetch_and_explicit((_Atomic uint32_t *)at, ~HOTMAP_NARROW_FROZEN, memory_order_release);
	else
		atomic_fetch_and_explicit((_Atomic uint64_t *)at, ~HOTMAP_FROZEN, memory_order_release);
}

/* Freeze each word of @old and copy what is a record to @next. false: more than expected, @old is as before. */
static bool move_records(const struct hotmap *map, struct hotmap_chunk *old, struct hotmap_chunk *next,
			 unsigned int max)
{
	unsigned int cap = hotmap_cap(old);

	for (unsigned int i = 0; i < cap; i++) {
		uint64_t raw = freeze(map, hotmap_word(map, old, cap, i));

		if (!raw)
			continue;
		if (next->n == max || !make_raw(map, next, hotmap_wide(map, old, cap, raw), &raw)) {
			for (unsigned int j = 0; j <= i; j++)
				thaw(map, hotmap_word(map, old, cap, j));
			return false;
		}
		place(map, next, (unsigned int)hotmap_page_of(old, i), raw);
	}
	return true;
}

static unsigned int at_most(unsigned int n, unsigned int max)
{
	return n < max ? n : max;
}

int hotmap_rebuild(struct hotmap *map, struct hotmap_section *section, unsigned int chunk, int page, uint64_t word,
		   bool over)
{
	struct hotmap_chunk *old =
		hotmap_chunk_of(atomic_load_explicit(hotmap_chunk_word(map, section, chunk), memory_order_relaxed));
	unsigned int more = page >= 0, slots, entries = count_records(map, old, &slots) + more;
	uint64_t raw;

	/* A quarter on top: without it, a chunk would be copied for each page that comes. */
	entries = at_most(entries + entries / 4, HOTMAP_CHUNK_PAGES);
	slots += word != 0;
	for (;;) {
		struct hotmap_chunk *next = new_chunk(map, hotmap_class_for(entries), slots, over);

		if (!next)
			return -ENOMEM;
		/* The new one's slot first: then what doesn't fit shows before anything is published. */
		if ((!word || make_raw(map, next, word, &raw)) &&
		    move_records(map, old, next, hotmap_cap(next) - more)) {
			if (page >= 0)
				place(map, next, (unsigned int)page, raw);
			publish_chunk(map, section, chunk, next);
			retire_push(map->retire, RETIRE_CHUNK, &old->retired);
			return 0;
		}
		/* Entries without a record got one while we counted: take the size that can't be too small. */
		free_chunk(map, &next->retired);
		entries = old->n + more;
		slots = at_most(atomic_load_explicit(&old->n_slots, memory_order_relaxed) + 1U,
				HOTMAP_NARROW_SLOTS_MAX);
	}
}

int hotmap_insert(struct hotmap *map, uint64_t pfn, uint64_t word, uint64_t now_ns, struct hotmap_section **ret)
{
	uint64_t index = pfn >> map->section_shift;
	unsigned int chunk_nr = (unsigned int)(pfn >> HOTMAP_CHUNK_SHIFT) & (map->chunks - 1);
	unsigned int page = (unsigned int)pfn & (HOTMAP_CHUNK_PAGES - 1);
	struct hotmap_section *section;
	struct hotmap_chunk *chunk;
	uint64_t chunk_word, raw;
	int r = -ENOMEM;

	pthread_mutex_lock(hotmap_lock_of(map, index));
	/* Looked up anew: what was found without the lock may be on its way out. */
	section = get_section(map, index, now_ns);
	if (!section)
		goto out;
	*ret = section;
	hotmap_use_section(section, now_ns);
	chunk_word = atomic_load_explicit(hotmap_chunk_word(map, section, chunk_nr), memory_order_relaxed);
	chunk = hotmap_chunk_of(chunk_word);
	if (!chunk) {
		chunk = new_chunk(map, 0, 1, false);
		if (!chunk)
			goto out;
		make_raw(map, chunk, word, &raw);
		place(map, chunk, page, raw);
		publish_chunk(map, section, chunk_nr, chunk);
		atomic_fetch_add_explicit(&map->n_chunks, 1, memory_order_relaxed);
		r = 1;
	} else if (hotmap_find(map, chunk_word, page).at) {
		r = make_raw(map, chunk, word, &raw) ? 0 : hotmap_rebuild(map, section, chunk_nr, -1, word, false);
	} else if (chunk->n < hotmap_class[chunk->class].fill && make_raw(map, chunk, word, &raw)) {
		place(map, chunk, page, raw);
		r = 1;
	} else if (hotmap_rebuild(map, section, chunk_nr, (int)page, word, false) == 0) {
		r = 1;
	}
out:
	pthread_mutex_unlock(hotmap_lock_of(map, index));
	return r;
}

size_t hotmap_sections(const struct hotmap *map)
{
	return atomic_load_explicit(&map->n_sections, memory_order_relaxed);
}

size_t hotmap_chunks(const struct hotmap *map)
{
	return atomic_load_explicit(&map->n_chunks, memory_order_relaxed);
}
