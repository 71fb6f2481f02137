/* SPDX-License-Identifier: GPL-2.0-or-later */
/* hotmap_internal: how the section map is laid out, for hotmap*.c only. See hotmap.h for who writes what. */
#pragma once

#include <pthread.h>

#include "clock.h"
#include "hotmap.h"
#include "nodeset.h"
#include "retire.h"
#include "sample.h"
#include "tablemem.h"

#define HOTMAP_LOCKS       64
#define HOTMAP_USE_SHIFT   24 /* a section's time of last use is written once in 2^24 ns, 17 ms */
#define HOTMAP_CHUNK_SHIFT (REGION_SHIFT - PAGE_SHIFT) /* PFN to chunk */
#define HOTMAP_CHUNK_PAGES REGION_PAGES
#define HOTMAP_DENSE       ((uintptr_t)1) /* in a chunk word */

/* Marks are kept apart for records that an observer has noted: it would walk over them in each pass. */
enum hotmap_mark { MARK_NEW, MARK_NOTED, MARK_KINDS };

/*
 * Sparse: @cap entries, @n of them in use (under the lock); index[i] is the page + 1 of words[i], 0: free. Entries are
 * found by hashing the page and looking on from there; they never move within a chunk. Dense: no index, words[page].
 */
struct hotmap_chunk {
	struct retire_node retired;
	uint16_t cap, n;
	_Atomic uint16_t index[]; /* I1, I2; then, aligned to 8, the words */
};

struct hotmap_section {
	struct retire_node retired;
	_Atomic uint64_t last_ns; /* of use, in steps of 17 ms; relaxed, grows */
	uint64_t index;
	/* MARK_KINDS bitmaps of chunks, M1, M2; then the chunk words, C1, C2. */
	_Atomic uint64_t body[];
};

struct hotmap {
	struct tablemem *mem;
	struct retire *retire;
	enum record_layout layout;
	unsigned int section_shift; /* PFN to section */
	unsigned int chunks;        /* of a section */
	unsigned int words;         /* of a section's bitmap of chunks */
	size_t sections_max;
	hotmap_alive_fn *alive;
	void *ctx;

	struct tablerange top_range, present_range, hot_range[MARK_KINDS], cursor_range;
	_Atomic(struct hotmap_section *) *top; /* S1, S2 */
	_Atomic uint64_t *present;             /* a bit for each section; relaxed, changes under the section's lock */
	_Atomic uint64_t *hot[MARK_KINDS];     /* M1, M2 */
	uint64_t *cursor;                      /* [node][part]: PFN where its scan goes on; its migrator's */
	_Atomic uint64_t sections_end;         /* one past the highest section that ever was; relaxed */
	_Atomic uint64_t n_sections, n_chunks; /* gauges, relaxed */
	pthread_mutex_t lock[HOTMAP_LOCKS];
};

static inline _Atomic uint64_t *hotmap_marks(const struct hotmap *map, struct hotmap_section *section,
					     enum hotmap_mark kind)
{
	return &section->body[kind * map->words];
}

static inline _Atomic uint64_t *hotmap_chunk_word(const struct hotmap *map, struct hotmap_section *section,
						  unsigned int chunk)
{
	return &section->body[MARK_KINDS * map->words + chunk];
}

static inline struct hotmap_section *hotmap_section_at(const struct hotmap *map, uint64_t index)
{
	return atomic_load_explicit(&map->top[index], memory_order_acquire); /* S2 */
}

static inline struct hotmap_chunk *hotmap_chunk_of(uint64_t chunk_word)
{
	return (struct hotmap_chunk *)((uintptr_t)chunk_word & ~HOTMAP_DENSE);
}

static inline bool hotmap_is_dense(const struct hotmap_chunk *chunk)
{
	return chunk->cap == HOTMAP_CHUNK_PAGES;
}

static inline size_t hotmap_words_at(unsigned int cap)
{
	size_t at = offsetof(struct hotmap_chunk, index);

	if (cap < HOTMAP_CHUNK_PAGES)
		at += cap * sizeof(uint16_t);
	return (at + 7) & ~(size_t)7;
}

static inline _Atomic uint64_t *hotmap_words(struct hotmap_chunk *chunk)
{
	return (_Atomic uint64_t *)(void *)((char *)chunk + hotmap_words_at(chunk->cap));
}

/* Page of entry @i, -1: the entry is free. */
static inline int hotmap_page_of(struct hotmap_chunk *chunk, unsigned int i)
{
	if (hotmap_is_dense(chunk))
		return (int)i;
	return (int)atomic_load_explicit(&chunk->index[i], memory_order_acquire) - 1; /* I2 */
}

static inline unsigned int hotmap_hash_page(unsigned int page, unsigned int cap)
{
	return ((page * 0x9e37u & 0xffffu) * cap) >> 16;
}

/* The word of @page, or NULL. */
static inline _Atomic uint64_t *hotmap_find(uint64_t chunk_word, unsigned int page)
{
	struct hotmap_chunk *chunk = hotmap_chunk_of(chunk_word);
	unsigned int i;

	if (chunk_word & HOTMAP_DENSE)
		return (_Atomic uint64_t *)(void *)((char *)chunk + hotmap_words_at(HOTMAP_CHUNK_PAGES)) + page;
	if (!chunk)
		return NULL;
	i = hotmap_hash_page(page, chunk->cap);
	for (unsigned int n = 0; n < chunk->cap; n++) {
		uint16_t index = atomic_load_explicit(&chunk->index[i], memory_order_acquire); /* I2 */

		if (index == page + 1)
			return hotmap_words(chunk) + i;
		if (index == 0)
			return NULL;
		if (++i == chunk->cap)
			i = 0;
	}
	return NULL;
}

static inline pthread_mutex_t *hotmap_lock_of(struct hotmap *map, uint64_t section_index)
{
	return &map->lock[section_index % HOTMAP_LOCKS];
}

/* Mark @chunk as having something ready. After the word was written. */
void hotmap_mark(struct hotmap *map, struct hotmap_section *section, unsigned int chunk, enum hotmap_mark kind);

/* true when a sweep has to set HOTMAP_OLD. */
bool hotmap_gets_old(enum record_layout layout, uint64_t word, uint64_t now_ns);

/* Classes of chunks by size, and how many entries each may use. */
unsigned int hotmap_class_for(unsigned int entries);
unsigned int hotmap_class_of(const struct hotmap_chunk *chunk);

/*
 * Replace @chunk by one for its records and, if @page is not below 0, a new entry with @word. @over: past the memory
 * bound. 0 or -ENOMEM (nothing changed). Under the section's lock.
 */
int hotmap_rebuild(struct hotmap *map, struct hotmap_section *section, unsigned int chunk, int page, uint64_t word,
		   bool over);
