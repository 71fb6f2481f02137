/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <assert.h>
#include <errno.h>

#include "hotmap_internal.h"

/* Sizes that leave little of what malloc rounds up to; past seven eighths of the larger ones a search gets long. */
static const struct {
	uint16_t cap, fill;
} class[] = { { 1, 1 },   { 4, 4 },     { 12, 12 },   { 28, 26 },
	      { 60, 54 }, { 124, 110 }, { 252, 224 }, { HOTMAP_CHUNK_PAGES, HOTMAP_CHUNK_PAGES } };

unsigned int hotmap_class_for(unsigned int entries)
{
	unsigned int c = 0;

	assert(entries <= HOTMAP_CHUNK_PAGES);
	while (class[c].fill < entries)
		c++;
	return c;
}

unsigned int hotmap_class_of(const struct hotmap_chunk *chunk)
{
	unsigned int c = 0;

	while (class[c].cap != chunk->cap)
		c++;
	return c;
}

static size_t chunk_bytes(unsigned int cap)
{
	return hotmap_words_at(cap) + cap * sizeof(uint64_t);
}

static size_t section_bytes(const struct hotmap *map)
{
	return sizeof(struct hotmap_section) + (MARK_KINDS * map->words + map->chunks) * sizeof(uint64_t);
}

static void free_chunk(void *ctx, struct retire_node *node)
{
	struct hotmap_chunk *chunk = (struct hotmap_chunk *)node;

	tablemem_free(ctx, chunk, chunk_bytes(chunk->cap));
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
	map->section_shift = bits - PAGE_SHIFT;
	map->chunks = 1U << (bits - REGION_SHIFT);
	map->words = (map->chunks + 63) / 64;
	map->sections_max = (size_t)1 << (HOTMAP_PHYS_BITS - bits);
	map->alive = alive;
	map->ctx = ctx;
	for (int i = 0; i < HOTMAP_LOCKS; i++)
		pthread_mutex_init(&map->lock[i], NULL);
	retire_handle(retire, RETIRE_CHUNK, free_chunk, mem);
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
				free_chunk(map->mem, &hotmap_chunk_of(chunk_word)->retired);
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

static void place(struct hotmap_chunk *chunk, unsigned int page, uint64_t word)
{
	unsigned int i = hotmap_hash_page(page, chunk->cap);

	chunk->n++;
	if (hotmap_is_dense(chunk)) {
		/* Relaxed: a word carries its own order once it is updated; here nobody sees the chunk yet. */
		atomic_store_explicit(&hotmap_words(chunk)[page], word, memory_order_relaxed);
		return;
	}
	while (atomic_load_explicit(&chunk->index[i], memory_order_relaxed) != 0)
		if (++i == chunk->cap)
			i = 0;
	atomic_store_explicit(&hotmap_words(chunk)[i], word, memory_order_relaxed);
	atomic_store_explicit(&chunk->index[i], (uint16_t)(page + 1), memory_order_release); /* I1 */
}

static void publish_chunk(struct hotmap *map, struct hotmap_section *section, unsigned int chunk,
			  struct hotmap_chunk *next)
{
	uint64_t word = (uint64_t)(uintptr_t)next | (hotmap_is_dense(next) ? HOTMAP_DENSE : 0);

	atomic_store_explicit(hotmap_chunk_word(map, section, chunk), word, memory_order_release); /* C1 */
}

static struct hotmap_chunk *new_chunk(struct hotmap *map, unsigned int c, bool over)
{
	size_t bytes = chunk_bytes(class[c].cap);
	struct hotmap_chunk *chunk = over ? tablemem_alloc_over(map->mem, bytes) : tablemem_alloc(map->mem, bytes);

	if (chunk)
		chunk->cap = class[c].cap;
	return chunk;
}

static unsigned int count_records(struct hotmap_chunk *chunk)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < chunk->cap; i++)
		n += atomic_load_explicit(&hotmap_words(chunk)[i], memory_order_relaxed) != 0;
	return n;
}

/* Freeze each word of @old and copy what is a record to @next. false: more than expected, @old is as before. */
static bool move_records(struct hotmap_chunk *old, struct hotmap_chunk *next, unsigned int max)
{
	for (unsigned int i = 0; i < old->cap; i++) {
		/* acq_rel: the value is the last there is (W2), and later updates meet the mark (W1). */
		uint64_t word = atomic_fetch_or_explicit(&hotmap_words(old)[i], HOTMAP_FROZEN, memory_order_acq_rel);

		if (!word)
			continue;
		if (next->n == max) {
			for (unsigned int j = 0; j <= i; j++)
				atomic_fetch_and_explicit(&hotmap_words(old)[j], ~HOTMAP_FROZEN, memory_order_release);
			return false;
		}
		place(next, (unsigned int)hotmap_page_of(old, i), word);
	}
	return true;
}

int hotmap_rebuild(struct hotmap *map, struct hotmap_section *section, unsigned int chunk, int page, uint64_t word,
		   bool over)
{
	struct hotmap_chunk *old =
		hotmap_chunk_of(atomic_load_explicit(hotmap_chunk_word(map, section, chunk), memory_order_relaxed));
	unsigned int more = page >= 0, entries = count_records(old) + more;

	/* A quarter on top: without it, a chunk would be copied for each page that comes. */
	entries += entries / 4;
	if (entries > HOTMAP_CHUNK_PAGES)
		entries = HOTMAP_CHUNK_PAGES;
	for (;;) {
		struct hotmap_chunk *next = new_chunk(map, hotmap_class_for(entries), over);

		if (!next)
			return -ENOMEM;
		if (move_records(old, next, next->cap - more)) {
			if (page >= 0)
				place(next, (unsigned int)page, word);
			publish_chunk(map, section, chunk, next);
			retire_push(map->retire, RETIRE_CHUNK, &old->retired);
			return 0;
		}
		/* Entries without a record got one while we counted: take the size that can't be too small. */
		free_chunk(map->mem, &next->retired);
		entries = old->n + more;
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
 * The first sample of a page: an entry with @word. 1: made, in the section @ret; 0: meanwhile there is one; -ENOMEM.
 */
static int insert(struct hotmap *map, uint64_t pfn, uint64_t word, uint64_t now_ns, struct hotmap_section **ret)
{
	uint64_t index = pfn >> map->section_shift;
	unsigned int chunk_nr = (unsigned int)(pfn >> HOTMAP_CHUNK_SHIFT) & (map->chunks - 1);
	unsigned int page = (unsigned int)pfn & (HOTMAP_CHUNK_PAGES - 1);
	struct hotmap_section *section;
	struct hotmap_chunk *chunk;
	uint64_t chunk_word;
	int r = -ENOMEM;

	pthread_mutex_lock(hotmap_lock_of(map, index));
	/* Looked up anew: what was found without the lock may be on its way out. */
	section = get_section(map, index, now_ns);
	if (!section)
		goto out;
	*ret = section;
	use_section(section, now_ns);
	chunk_word = atomic_load_explicit(hotmap_chunk_word(map, section, chunk_nr), memory_order_relaxed);
	if (hotmap_find(chunk_word, page)) {
		r = 0;
		goto out;
	}
	chunk = hotmap_chunk_of(chunk_word);
	if (!chunk) {
		chunk = new_chunk(map, 0, false);
		if (!chunk)
			goto out;
		place(chunk, page, word);
		publish_chunk(map, section, chunk_nr, chunk);
		atomic_fetch_add_explicit(&map->n_chunks, 1, memory_order_relaxed);
		r = 1;
	} else if (chunk->n < class[hotmap_class_of(chunk)].fill) {
		place(chunk, page, word);
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
		__builtin_prefetch((const void *)hotmap_find(chunk_word, (unsigned int)pfn & (HOTMAP_CHUNK_PAGES - 1)),
				   1);
	else if (chunk_word)
		__builtin_prefetch(hotmap_chunk_of(chunk_word), 1);
}

enum hotmap_result hotmap_touch(struct hotmap *map, uint64_t pfn, const struct hotmap_access *access, bool *ret_new)
{
	uint64_t index = pfn >> map->section_shift, old, next = 0, last_ns;
	unsigned int chunk = (unsigned int)(pfn >> HOTMAP_CHUNK_SHIFT) & (map->chunks - 1);
	unsigned int page = (unsigned int)pfn & (HOTMAP_CHUNK_PAGES - 1);
	struct hotmap_section *section;
	_Atomic uint64_t *word;
	bool ready = false;
	int r;

	if (index >= map->sections_max)
		return HOTMAP_NO_MEMORY;
	for (;;) {
		section = hotmap_section_at(map, index);
		word = section ? hotmap_find(atomic_load_explicit(hotmap_chunk_word(map, section, chunk),
								  memory_order_acquire), /* C2 */
					     page)
			       : NULL;
		if (!word) {
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
		old = atomic_load_explicit(word, memory_order_acquire); /* W2 */
		do {
			if (old & HOTMAP_FROZEN)
				break;
			next = touched_word(map, access, old, last_ns, &ready);
		} while (!atomic_compare_exchange_weak_explicit(word, &old, next, memory_order_acq_rel, /* W1 */
								memory_order_acquire));
		if (!(old & HOTMAP_FROZEN))
			break;
		/* Who froze it holds the lock until the new chunk is there. */
		pthread_mutex_lock(hotmap_lock_of(map, index));
		pthread_mutex_unlock(hotmap_lock_of(map, index));
	}
	if (ready)
		hotmap_mark(map, section, chunk, next & HOTMAP_NOTE ? MARK_NOTED : MARK_NEW);
	*ret_new = old == 0;
	return ready ? HOTMAP_READY : HOTMAP_RECORDED;
}

bool hotmap_put(struct hotmap *map, uint64_t pfn, uint64_t word, uint64_t now_ns)
{
	uint64_t index = pfn >> map->section_shift, old;
	unsigned int chunk = (unsigned int)(pfn >> HOTMAP_CHUNK_SHIFT) & (map->chunks - 1);
	unsigned int page = (unsigned int)pfn & (HOTMAP_CHUNK_PAGES - 1);
	struct hotmap_section *section;
	_Atomic uint64_t *at;
	int r;

	if (index >= map->sections_max)
		return false;
	for (;;) {
		section = hotmap_section_at(map, index);
		at = section ? hotmap_find(atomic_load_explicit(hotmap_chunk_word(map, section, chunk),
								memory_order_acquire), /* C2 */
					   page)
			     : NULL;
		if (!at) {
			r = insert(map, pfn, word, now_ns, &section);
			if (r < 0)
				return false;
			if (r > 0)
				break;
			continue;
		}
		old = 0;
		if (atomic_compare_exchange_strong_explicit(at, &old, word, memory_order_acq_rel, /* W1 */
							    memory_order_acquire))
			break;
		if (!(old & HOTMAP_FROZEN))
			return false;
		pthread_mutex_lock(hotmap_lock_of(map, index));
		pthread_mutex_unlock(hotmap_lock_of(map, index));
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
	_Atomic uint64_t *word = NULL;

	if (section)
		word = hotmap_find(atomic_load_explicit(hotmap_chunk_word(map, section, chunk),
							memory_order_acquire), /* C2 */
				   (unsigned int)pfn & (HOTMAP_CHUNK_PAGES - 1));
	return word ? atomic_load_explicit(word, memory_order_acquire) & ~HOTMAP_FROZEN : 0; /* W2 */
}

size_t hotmap_sections(const struct hotmap *map)
{
	return atomic_load_explicit(&map->n_sections, memory_order_relaxed);
}

size_t hotmap_chunks(const struct hotmap *map)
{
	return atomic_load_explicit(&map->n_chunks, memory_order_relaxed);
}
