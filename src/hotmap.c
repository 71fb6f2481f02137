/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <assert.h>
#include <errno.h>

#include "hotmap_internal.h"

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
	    tablerange_init(mem, &map->cursor_range, sizeof(*map->cursor) * NODE_MAX * HOTMAP_PARTS_MAX) < 0) {
		hotmap_free(map);
		return NULL;
	}
	map->top = (_Atomic(struct hotmap_section *) *)(void *)map->top_range.base;
	map->present = (_Atomic uint64_t *)(void *)map->present_range.base;
	for (int i = 0; i < MARK_KINDS; i++)
		map->hot[i] = (_Atomic uint64_t *)(void *)map->hot_range[i].base;
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
	    tablerange_touch(map->mem, &map->hot_range[MARK_NOTED], index / 8) < 0)
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

/*
 * The section is used at @now_ns. Before the word is written, so that nobody meets a new record in a section that seems
 * long unused: that would cost a count.
 */
static void use_section(struct hotmap_section *section, uint64_t now_ns)
{
	uint64_t last_ns = atomic_load_explicit(&section->last_ns, memory_order_relaxed);

	while (now_ns >= last_ns + (1U << HOTMAP_USE_SHIFT))
		if (atomic_compare_exchange_weak_explicit(&section->last_ns, &last_ns, now_ns, memory_order_relaxed,
							  memory_order_relaxed))
			break;
}

/*
 * The first sample of a page, or one for a region that the chunk doesn't know yet: an entry with @word. 1: made, in the
 * section @ret; 0: there is an entry, and the chunk can name the region now; -ENOMEM.
 */
static int insert(struct hotmap *map, uint64_t pfn, uint64_t word, uint64_t now_ns, struct hotmap_section **ret)
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
	use_section(section, now_ns);
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

void hotmap_mark(struct hotmap *map, struct hotmap_section *section, unsigned int chunk, enum hotmap_mark kind)
{
	/* M1: always the read-modify-write, never a look first: a look could see a mark that a scan is about to clear
	 * without having seen our word. */
	atomic_fetch_or_explicit(&hotmap_marks(map, section, kind)[chunk / 64], UINT64_C(1) << (chunk % 64),
				 memory_order_acq_rel);
	atomic_fetch_or_explicit(&map->hot[kind][section->index / 64], UINT64_C(1) << (section->index % 64),
				 memory_order_acq_rel);
}

/*
 * Ages, with the time field's range R and a sample that may come late by S: below R/2 - S a record with HOTMAP_OLD has
 * wrapped; from R/2 on it gets that mark, so that even a late sample sees it at R/2 - S at least; from R - S on, one
 * without the mark is ahead of the clock rather than old. Between the second and the third, and between a wrap and the
 * first, a sweep must come: both are R/2 - S.
 */
static uint32_t late_ms(enum record_layout layout)
{
	return layout == RECORD_COMPACT ? 512 : 1024;
}

static uint32_t old_ms(enum record_layout layout)
{
	return record_range_ms(layout) / 2;
}

static uint32_t future_ms(enum record_layout layout)
{
	return record_range_ms(layout) - late_ms(layout);
}

bool hotmap_has_wrapped(enum record_layout layout, uint64_t word, uint64_t now_ns)
{
	return (word & HOTMAP_OLD) &&
	       record_age_ms(layout, hotmap_record(word), now_ns) < old_ms(layout) - late_ms(layout);
}

bool hotmap_gets_old(enum record_layout layout, uint64_t word, uint64_t now_ns)
{
	uint32_t age_ms = record_age_ms(layout, hotmap_record(word), now_ns);

	return !(word & HOTMAP_OLD) && age_ms >= old_ms(layout) && age_ms < future_ms(layout);
}

uint64_t hotmap_sweep_max_ns(enum record_layout layout)
{
	return (future_ms(layout) - old_ms(layout)) * NSEC_PER_MSEC;
}

/* @old after the access, and whether it became ready by it. @last_ns: last use of the section. */
static uint64_t touched_word(const struct hotmap *map, const struct hotmap_access *access, uint64_t old,
			     uint64_t last_ns, bool *ret_ready)
{
	const struct record_rule *rule = access->rule;
	uint32_t record = hotmap_record(old), backref = access->backref, age_ms, next;
	uint64_t now_ns = access->now_ns;
	bool was_ready;

	/* One that has wrapped is none any more: nothing of it counts. */
	if (hotmap_has_wrapped(map->layout, old, now_ns))
		old = record = 0;
	was_ready = record_ready(map->layout, record);
	age_ms = record_age_ms(map->layout, record, now_ns);
	if (now_ns >
	    last_ns + (rule->window_ms + record_grain_ms(map->layout)) * NSEC_PER_MSEC + (1U << HOTMAP_USE_SHIFT))
		record = 0; /* outside the window, whatever its time says */
	else if (record && !(old & HOTMAP_OLD) && age_ms >= future_ms(map->layout))
		/* The sample is older than the record: both were at the record's time, as far as it can say. */
		now_ns += (record_range_ms(map->layout) - age_ms) * NSEC_PER_MSEC;
	next = record_access(rule, record, access->nid, now_ns);
	*ret_ready = record_ready(map->layout, next) && !was_ready;
	if (old && hotmap_backref(old) != backref && map->alive(map->ctx, hotmap_backref(old)))
		backref = hotmap_backref(old);
	return (uint64_t)backref << 32 | (old & HOTMAP_NOTE) | next;
}

void hotmap_prefetch(const struct hotmap *map, uint64_t pfn, unsigned int step)
{
	uint64_t index = pfn >> map->section_shift, chunk_word;
	struct hotmap_section *section = index < map->sections_max ? hotmap_section_at(map, index) : NULL;
	_Atomic uint64_t *at;

	if (!section)
		return;
	at = hotmap_chunk_word(map, section, (unsigned int)(pfn >> HOTMAP_CHUNK_SHIFT) & (map->chunks - 1));
	if (step == 0) {
		__builtin_prefetch((const void *)at);
		return;
	}
	chunk_word = atomic_load_explicit(at, memory_order_acquire); /* C2 */
	if (chunk_word & HOTMAP_DENSE)
		__builtin_prefetch(hotmap_find(map, chunk_word, (unsigned int)pfn & (HOTMAP_CHUNK_PAGES - 1)).at, 1);
	else if (chunk_word)
		__builtin_prefetch(hotmap_chunk_of(chunk_word), 1);
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

/*
 * Account the access in a word that is there and was @raw. 1; 0: it is frozen; -ENOENT: the chunk's table lacks the
 * slot of the region in *@ret_next.
 */
static int swap_word(struct hotmap *map, const struct hotmap_spot *spot, uint64_t *raw,
		     const struct hotmap_access *access, uint64_t last_ns, uint64_t *ret_old, uint64_t *ret_next,
		     bool *ret_ready)
{
	uint64_t next_raw;

	do {
		if (*raw & hotmap_frozen_bit(map))
			return 0;
		*ret_old = hotmap_wide(map, spot->chunk, spot->cap, *raw);
		*ret_next = touched_word(map, access, *ret_old, last_ns, ret_ready);
		if (*raw && hotmap_backref(*ret_next) == hotmap_backref(*ret_old))
			next_raw = hotmap_raw_with(map, *raw, *ret_next);
		else if (!hotmap_raw(map, spot->chunk, spot->cap, *ret_next, &next_raw))
			return -ENOENT;
	} while (!hotmap_cas(map, spot->at, raw, next_raw));
	return 1;
}

enum hotmap_result hotmap_touch(struct hotmap *map, uint64_t pfn, const struct hotmap_access *access, bool *ret_new)
{
	uint64_t index = pfn >> map->section_shift, old, next = 0, last_ns;
	unsigned int chunk = (unsigned int)(pfn >> HOTMAP_CHUNK_SHIFT) & (map->chunks - 1);
	unsigned int page = (unsigned int)pfn & (HOTMAP_CHUNK_PAGES - 1);
	struct hotmap_section *section;
	struct hotmap_spot spot;
	bool ready = false;
	uint64_t raw;
	int r;

	if (index >= map->sections_max)
		return HOTMAP_NO_MEMORY;
	for (;;) {
		section = hotmap_section_at(map, index);
		spot = look_up(map, section, chunk, page);
		if (!spot.at) {
			old = 0;
			next = touched_word(map, access, 0, 0, &ready);
			r = insert(map, pfn, next, access->now_ns, &section);
			if (r < 0)
				return HOTMAP_NO_MEMORY;
			if (r > 0)
				break;
			continue;
		}
		last_ns = atomic_load_explicit(&section->last_ns, memory_order_relaxed);
		use_section(section, access->now_ns);
		raw = hotmap_load(map, spot.at);
		r = swap_word(map, &spot, &raw, access, last_ns, &old, &next, &ready);
		if (r > 0)
			break;
		if (r == 0)
			wait_for_chunk(map, index);
		else if (insert(map, pfn, next, access->now_ns, &section) < 0)
			return HOTMAP_NO_MEMORY;
	}
	if (ready)
		hotmap_mark(map, section, chunk, next & HOTMAP_NOTE ? MARK_NOTED : MARK_NEW);
	*ret_new = old == 0;
	return ready ? HOTMAP_READY : HOTMAP_RECORDED;
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
			r = insert(map, pfn, word, now_ns, &section);
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

size_t hotmap_sections(const struct hotmap *map)
{
	return atomic_load_explicit(&map->n_sections, memory_order_relaxed);
}

size_t hotmap_chunks(const struct hotmap *map)
{
	return atomic_load_explicit(&map->n_chunks, memory_order_relaxed);
}
