/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <assert.h>
#include <errno.h>

#include "slotset.h"
#include "tablemem.h"

#define WORDS  (SLOTSET_SLOTS / 64)
#define GROUPS (WORDS / 64)
#define BYTES  ((WORDS + GROUPS) * sizeof(uint64_t))

int slotset_init(struct slotset *set, const struct tablemem_ops *ops)
{
	set->ops = ops;
	set->word = ops->reserve(ops->ctx, BYTES);
	set->group = set->word ? set->word + WORDS : NULL;
	return set->word ? 0 : -ENOMEM;
}

void slotset_done(struct slotset *set)
{
	if (set->word)
		set->ops->unreserve(set->ops->ctx, (void *)set->word, BYTES);
	*set = (struct slotset){ 0 };
}

void slotset_set(struct slotset *set, uint32_t slot)
{
	uint64_t bit = UINT64_C(1) << (slot % 64), word_bit = UINT64_C(1) << (slot / 64 % 64);

	assert(slot < SLOTSET_SLOTS);
	atomic_fetch_or_explicit(&set->word[slot / 64], bit, memory_order_acq_rel);         /* K1 */
	atomic_fetch_or_explicit(&set->group[slot / 4096], word_bit, memory_order_acq_rel); /* K1 */
}

bool slotset_remove(struct slotset *set, uint32_t slot)
{
	uint64_t bit = UINT64_C(1) << (slot % 64);

	/* The group's bit stays, until the next one who finds the word empty. */
	return atomic_fetch_and_explicit(&set->word[slot / 64], ~bit, memory_order_acq_rel) & bit;
}

bool slotset_has(const struct slotset *set, uint32_t slot)
{
	return atomic_load_explicit(&set->word[slot / 64], memory_order_acquire) >> (slot % 64) & 1;
}

/* The first word from @from on with a bit in its group; WORDS: none. */
static uint32_t next_word(const struct slotset *set, uint32_t from)
{
	uint32_t group = from / 64;
	uint64_t bits;

	if (from >= WORDS)
		return WORDS;
	bits = atomic_load_explicit(&set->group[group], memory_order_acquire) & UINT64_MAX << (from % 64);
	while (bits == 0) {
		if (++group == GROUPS)
			return WORDS;
		bits = atomic_load_explicit(&set->group[group], memory_order_acquire);
	}
	return group * 64 + (uint32_t)__builtin_ctzll(bits);
}

static void clear_group_bit(struct slotset *set, uint32_t word)
{
	atomic_fetch_and_explicit(&set->group[word / 64], ~(UINT64_C(1) << (word % 64)), memory_order_acq_rel);
}

uint32_t slotset_next(struct slotset *set, uint32_t from)
{
	for (uint32_t w = next_word(set, from / 64); w < WORDS; w = next_word(set, w + 1)) {
		uint64_t bits = atomic_load_explicit(&set->word[w], memory_order_acquire);

		if (bits == 0) {
			clear_group_bit(set, w); /* K2 */
			bits = atomic_load_explicit(&set->word[w], memory_order_acquire);
			if (bits)
				atomic_fetch_or_explicit(&set->group[w / 64], UINT64_C(1) << (w % 64),
							 memory_order_acq_rel);
		}
		if (w == from / 64)
			bits &= UINT64_MAX << (from % 64);
		if (bits)
			return w * 64 + (uint32_t)__builtin_ctzll(bits);
	}
	return SLOTSET_NONE;
}

size_t slotset_take(struct slotset *set, uint32_t *from, uint32_t *ret, size_t max)
{
	size_t n = 0;
	uint32_t w;

	assert(max >= 64);
	for (w = next_word(set, *from / 64); w < WORDS && n + 64 <= max; w = next_word(set, w + 1)) {
		uint64_t bits;

		clear_group_bit(set, w); /* K2 */
		bits = atomic_exchange_explicit(&set->word[w], 0, memory_order_acq_rel);
		for (; bits; bits &= bits - 1)
			ret[n++] = w * 64 + (uint32_t)__builtin_ctzll(bits);
	}
	*from = w < WORDS ? w * 64 : SLOTSET_NONE;
	return n;
}

size_t slotset_count(const struct slotset *set)
{
	size_t n = 0;

	for (uint32_t w = next_word(set, 0); w < WORDS; w = next_word(set, w + 1))
		n += (size_t)__builtin_popcountll(atomic_load_explicit(&set->word[w], memory_order_relaxed));
	return n;
}
