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
#define HOTMAP_PAGE_BITS   9              /* of a back-reference */
#define HOTMAP_DENSE       ((uintptr_t)1) /* in a chunk word */

/* Marks are kept apart for records that an observer has noted: it would walk over them in each pass. */
enum hotmap_mark { MARK_NEW, MARK_NOTED, MARK_KINDS };

/*
 * Words are kept as they are in the precise layout: 64 bits, see hotmap.h. In the compact layout they are narrow, 32
 * bits: record, marks, page, and in place of the region's slot the number of an entry in the chunk's own table of
 * slots. That table only grows as long as the chunk lives, and an entry never changes: a narrow word means the same
 * region for ever, and the record and its back-reference change together in one word as well. A full table is a reason
 * to replace the chunk (by one with room for as many slots as its words name, and one more).
 */
#define HOTMAP_NARROW_MARKS_SHIFT 8 /* note, old; then frozen */
#define HOTMAP_NARROW_NOTE        (UINT32_C(1) << 8)
#define HOTMAP_NARROW_OLD         (UINT32_C(1) << 9)
#define HOTMAP_NARROW_FROZEN      (UINT32_C(1) << 10)
#define HOTMAP_NARROW_PAGE_SHIFT  11
#define HOTMAP_NARROW_SLOT_SHIFT  20
/* Twice as many as a chunk's words can name, so that there is always room for one more. */
#define HOTMAP_NARROW_SLOTS_MAX 1024
#define HOTMAP_NARROW_LOW       ((UINT32_C(1) << HOTMAP_NARROW_PAGE_SHIFT) - 1)

_Static_assert(HOTMAP_OLD == HOTMAP_NOTE << 1 && HOTMAP_FROZEN == HOTMAP_NOTE << 3, "hotmap_wide() shifts them as one");

/*
 * Sparse: entries as many as its class says, @n of them in use (under the lock); index[i] is the page + 1 of word i, 0:
 * free. Entries are found by hashing the page and looking on from there; they never move within a chunk. Dense: no
 * index, the word of each page. Behind the words, where they are narrow: 2^slots_log region slots.
 */
struct hotmap_chunk {
	struct retire_node retired;
	uint8_t class, slots_log;
	uint16_t n;
	_Atomic uint16_t n_slots; /* T1 release pairs with T2 acquire: so many slots are filled */
	_Atomic uint16_t index[]; /* I1, I2; then, aligned to 8, the words */
};

/* Classes of chunks by size, and how many entries each may use. */
struct hotmap_class {
	uint16_t cap, fill;
};

#define HOTMAP_CLASSES 8
extern const struct hotmap_class hotmap_class[HOTMAP_CLASSES];

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
	unsigned int word_shift;    /* log2 of a word's bytes: 2 for narrow ones, else 3 */
	unsigned int section_shift; /* PFN to section */
	unsigned int chunks;        /* of a section */
	unsigned int words;         /* of a section's bitmap of chunks */
	size_t sections_max;
	hotmap_alive_fn *alive;
	void *ctx;

	struct tablerange top_range, present_range, hot_range[MARK_KINDS], warm_range, cursor_range;
	_Atomic(struct hotmap_section *) *top; /* S1, S2 */
	_Atomic uint64_t *present;             /* a bit for each section; relaxed, changes under the section's lock */
	_Atomic uint64_t *hot[MARK_KINDS];     /* a bit for each section, M1, M2 */
	_Atomic uint64_t *warm[MARK_KINDS];    /* a bit for each word of hot, M1, M3 */
	uint64_t *cursor;                      /* [node][part]: PFN where its scan goes on; its migrator's */
	/* Written when something new is made, what is above it is read for each sample: lines of their own. */
	uint64_t apart[8];
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

static inline bool hotmap_is_narrow(const struct hotmap *map)
{
	return map->word_shift == 2;
}

static inline unsigned int hotmap_cap(const struct hotmap_chunk *chunk)
{
	return hotmap_class[chunk->class].cap;
}

static inline bool hotmap_is_dense(const struct hotmap_chunk *chunk)
{
	return chunk->class == HOTMAP_CLASSES - 1;
}

static inline size_t hotmap_words_at(unsigned int cap)
{
	size_t at = offsetof(struct hotmap_chunk, index);

	if (cap < HOTMAP_CHUNK_PAGES)
		at += cap * sizeof(uint16_t);
	return (at + 7) & ~(size_t)7;
}

/* Word @i of a chunk with @cap entries. */
static inline void *hotmap_word(const struct hotmap *map, struct hotmap_chunk *chunk, unsigned int cap, unsigned int i)
{
	return (char *)chunk + hotmap_words_at(cap) + ((size_t)i << map->word_shift);
}

/* The region slots of a chunk with narrow words. */
static inline _Atomic uint32_t *hotmap_slots(struct hotmap_chunk *chunk, unsigned int cap)
{
	return (_Atomic uint32_t *)(void *)((char *)chunk + hotmap_words_at(cap) + cap * sizeof(uint32_t));
}

/*
 * A word as it is stored ("raw"; a narrow one in the low half), and what may be done with it; by the map, or, "as",
 * with its width told by a caller that has a loop for each. Orders: W1 and W2 of hotmap.h, which hold for narrow words
 * alike.
 */
static inline uint64_t hotmap_load_as(const bool narrow, const void *at)
{
	if (narrow)
		return atomic_load_explicit((const _Atomic uint32_t *)at, memory_order_seq_cst); /* W2, M2 */
	return atomic_load_explicit((const _Atomic uint64_t *)at, memory_order_seq_cst);
}

static inline uint64_t hotmap_load(const struct hotmap *map, const void *at)
{
	return hotmap_load_as(hotmap_is_narrow(map), at);
}

static inline bool hotmap_cas_as(const bool narrow, void *at, uint64_t *raw, uint64_t next)
{
	uint32_t old = (uint32_t)*raw;
	bool done;

	if (!narrow)
		return atomic_compare_exchange_strong_explicit((_Atomic uint64_t *)at, raw, next,
							       memory_order_seq_cst, /* W1, M1 */
							       memory_order_acquire);
	done = atomic_compare_exchange_strong_explicit((_Atomic uint32_t *)at, &old, (uint32_t)next,
						       memory_order_seq_cst, /* W1, M1 */
						       memory_order_acquire);
	*raw = old;
	return done;
}

static inline bool hotmap_cas(const struct hotmap *map, void *at, uint64_t *raw, uint64_t next)
{
	return hotmap_cas_as(hotmap_is_narrow(map), at, raw, next);
}

static inline uint64_t hotmap_frozen_bit(const struct hotmap *map)
{
	return hotmap_is_narrow(map) ? HOTMAP_NARROW_FROZEN : HOTMAP_FROZEN;
}

/* The back-reference that a narrow @raw stands for. */
static inline uint32_t hotmap_narrow_backref(struct hotmap_chunk *chunk, unsigned int cap, uint64_t raw)
{
	/* Relaxed: filled before any word named it (W1, W2). */
	uint32_t slot = atomic_load_explicit(&hotmap_slots(chunk, cap)[(uint32_t)raw >> HOTMAP_NARROW_SLOT_SHIFT],
					     memory_order_relaxed);

	return slot << HOTMAP_PAGE_BITS | ((uint32_t)raw >> HOTMAP_NARROW_PAGE_SHIFT & (HOTMAP_CHUNK_PAGES - 1));
}

/* The word that @raw stands for, as the precise layout has it. */
static inline uint64_t hotmap_wide(const struct hotmap *map, struct hotmap_chunk *chunk, unsigned int cap, uint64_t raw)
{
	if (!hotmap_is_narrow(map) || raw == 0)
		return raw;
	return (uint64_t)hotmap_narrow_backref(chunk, cap, raw) << 32 |
	       (raw >> HOTMAP_NARROW_MARKS_SHIFT & 3) * HOTMAP_NOTE | (raw & HOTMAP_NARROW_FROZEN ? HOTMAP_FROZEN : 0) |
	       (raw & 0xff);
}

/* Record and marks of @word in place of those of @raw, which keeps its back-reference. */
static inline uint64_t hotmap_raw_with(const struct hotmap *map, uint64_t raw, uint64_t word)
{
	if (!hotmap_is_narrow(map))
		return (raw & ~(uint64_t)UINT32_MAX) | (uint32_t)word;
	return (raw & ~(uint64_t)HOTMAP_NARROW_LOW) | (word & 0xff) |
	       (word / HOTMAP_NOTE & 3) << HOTMAP_NARROW_MARKS_SHIFT;
}

/* @word as it is stored in @chunk. false: its table of slots lacks the region's. */
static inline bool hotmap_raw(const struct hotmap *map, struct hotmap_chunk *chunk, unsigned int cap, uint64_t word,
			      uint64_t *ret)
{
	uint32_t slot = hotmap_backref(word) >> HOTMAP_PAGE_BITS;
	unsigned int n;

	if (!hotmap_is_narrow(map)) {
		*ret = word;
		return true;
	}
	n = atomic_load_explicit(&chunk->n_slots, memory_order_acquire); /* T2 */
	for (unsigned int k = 0; k < n; k++) {
		if (atomic_load_explicit(&hotmap_slots(chunk, cap)[k], memory_order_relaxed) != slot)
			continue;
		*ret = hotmap_raw_with(map,
				       (uint64_t)k << HOTMAP_NARROW_SLOT_SHIFT |
					       (hotmap_backref(word) & (HOTMAP_CHUNK_PAGES - 1))
						       << HOTMAP_NARROW_PAGE_SHIFT,
				       word);
		return true;
	}
	return false;
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

/* Where the word of a page is. */
struct hotmap_spot {
	struct hotmap_chunk *chunk;
	unsigned int cap;
	void *at; /* NULL: there is none */
};

static inline struct hotmap_spot hotmap_find(const struct hotmap *map, uint64_t chunk_word, unsigned int page)
{
	struct hotmap_spot spot = { .chunk = hotmap_chunk_of(chunk_word), .cap = HOTMAP_CHUNK_PAGES };
	unsigned int i;

	if (chunk_word & HOTMAP_DENSE) {
		spot.at = hotmap_word(map, spot.chunk, HOTMAP_CHUNK_PAGES, page);
		return spot;
	}
	if (!spot.chunk)
		return spot;
	spot.cap = hotmap_cap(spot.chunk);
	i = hotmap_hash_page(page, spot.cap);
	for (unsigned int n = 0; n < spot.cap; n++) {
		uint16_t index = atomic_load_explicit(&spot.chunk->index[i], memory_order_acquire); /* I2 */

		if (index == page + 1) {
			spot.at = hotmap_word(map, spot.chunk, spot.cap, i);
			return spot;
		}
		if (index == 0)
			return spot;
		if (++i == spot.cap)
			i = 0;
	}
	return spot;
}

/*
 * Where the word of @page is, if @chunk_word is that of a dense chunk; else an address that means nothing. Page
 * HOTMAP_CHUNK_PAGES: where the region slots begin.
 */
static inline void *hotmap_dense_word(const bool narrow, uint64_t chunk_word, unsigned int page)
{
	const uintptr_t words_at = (offsetof(struct hotmap_chunk, index) + 7) & ~(uintptr_t)7;

	return (void *)(((uintptr_t)chunk_word & ~HOTMAP_DENSE) + words_at + ((uintptr_t)page << (narrow ? 2 : 3)));
}

/* The spot of a word that was found at @at in the chunk of @chunk_word. */
static inline struct hotmap_spot hotmap_spot_at(uint64_t chunk_word, void *at)
{
	struct hotmap_chunk *chunk = hotmap_chunk_of(chunk_word);

	return (struct hotmap_spot){ .chunk = chunk,
				     .cap = chunk_word & HOTMAP_DENSE ? HOTMAP_CHUNK_PAGES : hotmap_cap(chunk),
				     .at = at };
}

static inline pthread_mutex_t *hotmap_lock_of(struct hotmap *map, uint64_t section_index)
{
	return &map->lock[section_index % HOTMAP_LOCKS];
}

/* Mark @chunk as having something ready. After the word was written. */
void hotmap_mark(struct hotmap *map, struct hotmap_section *section, unsigned int chunk, enum hotmap_mark kind);

/* The section alone: chunks of it are marked. */
void hotmap_mark_section(struct hotmap *map, uint64_t index, enum hotmap_mark kind);

/*
 * The first sample of a page, or one for a region that the chunk doesn't know yet: an entry with @word. 1: made, in the
 * section *@ret; 0: there is an entry, and the chunk can name the region now; -ENOMEM. Takes the section's lock.
 */
int hotmap_insert(struct hotmap *map, uint64_t pfn, uint64_t word, uint64_t now_ns, struct hotmap_section **ret);

/* true when a sweep has to set HOTMAP_OLD. */
bool hotmap_gets_old(enum record_layout layout, uint64_t word, uint64_t now_ns);

/* The smallest class that may have @entries. */
unsigned int hotmap_class_for(unsigned int entries);

/*
 * Replace @chunk by one for its records and, if @page is not below 0, a new entry with @word; with room for the region
 * slot of @word, if that is not 0. @over: past the memory bound. 0 or -ENOMEM (nothing changed). Under the section's
 * lock.
 */
int hotmap_rebuild(struct hotmap *map, struct hotmap_section *section, unsigned int chunk, int page, uint64_t word,
		   bool over);
