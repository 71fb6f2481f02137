/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * slotset: a set of region slots, as bits, with a bit above for each 64 and for each 4096 of them: what is not in it
 * costs next to nothing to pass over. Up to 1.02 MiB for 8 million slots, taken page by page, and not counted as memory
 * of the tables.
 *
 * Writers and readers   any threads
 * Order                 K1: a slot's bit before those above it, acq_rel, pairs with K2: those above are cleared before
 *                       it is looked at, acq_rel. So a slot that is added behind a taker's back is found the next time.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SLOTSET_SLOTS (1U << 23) /* regions' slots, see REGION_SLOT_BITS */
#define SLOTSET_NONE  UINT32_MAX

struct tablemem_ops;

struct slotset {
	const struct tablemem_ops *ops;
	_Atomic uint64_t *word;  /* SLOTSET_SLOTS bits */
	_Atomic uint64_t *group; /* a bit for each word that may have some */
};

/* 0 or -ENOMEM. */
int slotset_init(struct slotset *set, const struct tablemem_ops *ops);
void slotset_done(struct slotset *set); /* accepts a zeroed one */

/* The rare half of slotset_add(). */
void slotset_set(struct slotset *set, uint32_t slot);

/* What is in it already costs a look, and no write. */
static inline void slotset_add(struct slotset *set, uint32_t slot)
{
	if (__builtin_expect(!(atomic_load_explicit(&set->word[slot / 64], memory_order_relaxed) >> (slot % 64) & 1),
			     0))
		slotset_set(set, slot);
}

/* false: it wasn't there. */
bool slotset_remove(struct slotset *set, uint32_t slot);
bool slotset_has(const struct slotset *set, uint32_t slot);

/* The first one from @from on; SLOTSET_NONE: there is none. */
uint32_t slotset_next(struct slotset *set, uint32_t from);

/*
 * Take slots out, up to @max (64 or more) from *@from on, which is moved on; SLOTSET_NONE when the end was reached.
 * Returns how many.
 */
size_t slotset_take(struct slotset *set, uint32_t *from, uint32_t *ret, size_t max);

/* How many there are; costs a look at each word that has some. */
size_t slotset_count(const struct slotset *set);
