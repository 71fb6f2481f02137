/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "hotmap_internal.h"

#define SHRINK_CLASSES 2 /* a chunk is made smaller when it would be by this many sizes */

struct pass {
	struct hotmap *map;
	const struct hotmap_sweep *sweep;
	struct hotmap_sweep_result *ret;
	bool late;
	bool drop_all; /* in the current section */
};

/* What becomes of @word: the same, with HOTMAP_OLD, or 0 for *@ret_cause. */
static uint64_t aged_word(const struct pass *pass, uint64_t word, unsigned int *ret_cause)
{
	const struct hotmap_sweep *sweep = pass->sweep;
	enum record_layout layout = pass->map->layout;

	*ret_cause = sweep->cause ? sweep->cause(sweep->ctx, hotmap_backref(word)) : 0;
	if (*ret_cause || pass->drop_all || hotmap_has_wrapped(layout, word, sweep->now_ns))
		return 0;
	return hotmap_gets_old(layout, word, sweep->now_ns) ? word | HOTMAP_OLD : word;
}

/* Returns how many records stay. Nothing is frozen here: that is done under the lock that we have. */
static unsigned int sweep_words(struct pass *pass, struct hotmap_chunk *chunk)
{
	const struct hotmap *map = pass->map;
	unsigned int cap = hotmap_cap(chunk), n = 0, cause = 0;

	for (unsigned int i = 0; i < cap; i++) {
		void *at = hotmap_word(map, chunk, cap, i);
		uint64_t raw = hotmap_load(map, at), word, next;

		do {
			word = hotmap_wide(map, chunk, cap, raw);
			next = word ? aged_word(pass, word, &cause) : 0;
		} while (next != word && !hotmap_cas(map, at, &raw, next ? hotmap_raw_with(map, raw, next) : 0));
		if (word && !next)
			pass->ret->cleared[cause]++;
		n += next != 0;
	}
	return n;
}

/* Freeze a chunk that has no record. false: it got one. */
static bool freeze_empty(const struct hotmap *map, struct hotmap_chunk *chunk)
{
	unsigned int cap = hotmap_cap(chunk);
	uint64_t raw;

	for (unsigned int i = 0; i < cap; i++) {
		raw = 0;
		if (hotmap_cas(map, hotmap_word(map, chunk, cap, i), &raw, hotmap_frozen_bit(map)))
			continue;
		while (i-- > 0) {
			/* Nobody else changes a frozen word. */
			raw = hotmap_frozen_bit(map);
			hotmap_cas(map, hotmap_word(map, chunk, cap, i), &raw, 0);
		}
		return false;
	}
	return true;
}

static void sweep_chunk(struct pass *pass, struct hotmap_section *section, unsigned int nr)
{
	struct hotmap *map = pass->map;
	_Atomic uint64_t *chunk_word = hotmap_chunk_word(map, section, nr);
	struct hotmap_chunk *chunk = hotmap_chunk_of(atomic_load_explicit(chunk_word, memory_order_relaxed));
	unsigned int n = sweep_words(pass, chunk);

	if (n == 0 && freeze_empty(map, chunk)) {
		atomic_store_explicit(chunk_word, 0, memory_order_release); /* C1 */
		for (unsigned int kind = 0; kind < MARK_KINDS; kind++)
			atomic_fetch_and_explicit(&hotmap_marks(map, section, kind)[nr / 64],
						  ~(UINT64_C(1) << (nr % 64)), memory_order_seq_cst);
		atomic_fetch_sub_explicit(&map->n_chunks, 1, memory_order_relaxed);
		retire_push(map->retire, RETIRE_CHUNK, &chunk->retired);
	} else if (n > 0 &&
		   hotmap_class_for(n + n / 4 < HOTMAP_CHUNK_PAGES ? n + n / 4 : HOTMAP_CHUNK_PAGES) + SHRINK_CLASSES <=
			   chunk->class) {
		/* Without memory for the smaller one, the larger one stays. */
		(void)hotmap_rebuild(map, section, nr, -1, 0, true);
	}
}

/* Under the section's lock: it has no chunk. */
static void remove_section(struct hotmap *map, struct hotmap_section *section)
{
	uint64_t index = section->index, bit = UINT64_C(1) << (index % 64);

	atomic_store_explicit(&map->top[index], NULL, memory_order_release); /* S1 */
	atomic_fetch_and_explicit(&map->present[index / 64], ~bit, memory_order_relaxed);
	for (unsigned int kind = 0; kind < MARK_KINDS; kind++)
		atomic_fetch_and_explicit(&map->hot[kind][index / 64], ~bit, memory_order_seq_cst);
	atomic_fetch_sub_explicit(&map->n_sections, 1, memory_order_relaxed);
	retire_push(map->retire, RETIRE_SECTION, &section->retired);
}

static void sweep_section(struct pass *pass, uint64_t index)
{
	const uint64_t range_ns = record_range_ms(pass->map->layout) * NSEC_PER_MSEC;
	struct hotmap *map = pass->map;
	struct hotmap_section *section = hotmap_section_at(map, index);
	pthread_mutex_t *lock = hotmap_lock_of(map, index);
	uint64_t last_ns = atomic_load_explicit(&section->last_ns, memory_order_relaxed);
	unsigned int chunks = 0;

	pass->drop_all =
		pass->sweep->now_ns > last_ns + (pass->late ? range_ns / 2 : range_ns) + (1U << HOTMAP_USE_SHIFT);
	for (unsigned int nr = 0; nr < map->chunks; nr++) {
		if (!atomic_load_explicit(hotmap_chunk_word(map, section, nr), memory_order_relaxed))
			continue;
		/* One chunk at a time, a microsecond: the first samples of other pages wait for it. */
		pthread_mutex_lock(lock);
		sweep_chunk(pass, section, nr);
		chunks += atomic_load_explicit(hotmap_chunk_word(map, section, nr), memory_order_relaxed) != 0;
		pthread_mutex_unlock(lock);
	}
	if (chunks > 0)
		return;
	pthread_mutex_lock(lock);
	for (unsigned int nr = 0; nr < map->chunks; nr++)
		chunks += atomic_load_explicit(hotmap_chunk_word(map, section, nr), memory_order_relaxed) != 0;
	if (chunks == 0)
		remove_section(map, section);
	pthread_mutex_unlock(lock);
}

void hotmap_sweep(struct hotmap *map, const struct hotmap_sweep *sweep, struct hotmap_sweep_result *ret)
{
	struct pass pass = {
		.map = map,
		.sweep = sweep,
		.ret = ret,
		.late = sweep->now_ns > sweep->last_ns + hotmap_sweep_max_ns(map->layout),
	};
	uint64_t end = atomic_load_explicit(&map->sections_end, memory_order_relaxed);

	*ret = (struct hotmap_sweep_result){ 0 };
	for (uint64_t base = 0; base < end; base += 64) {
		uint64_t present = atomic_load_explicit(&map->present[base / 64], memory_order_relaxed);

		for (; present; present &= present - 1)
			sweep_section(&pass, base + (unsigned int)__builtin_ctzll(present));
	}
}
