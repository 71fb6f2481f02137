/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * distinct: about how many different numbers were seen, in 2 KiB however many there were. For what would otherwise be
 * counted again each time it comes by. HyperLogLog (Flajolet and others, 2007): the standard error is 2.3%, and below a
 * few thousand numbers it is nearer.
 *
 * Writer   one thread
 * Readers  any; relaxed: a moment's view
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#define DISTINCT_BITS 11
#define DISTINCT_REGS (1U << DISTINCT_BITS)

struct distinct {
	_Atomic uint8_t reg[DISTINCT_REGS]; /* all 0: nothing was seen */
};

/* Owner thread. */
void distinct_clear(struct distinct *distinct);
void distinct_add(struct distinct *distinct, uint64_t number);
void distinct_copy(struct distinct *to, const struct distinct *from);

/* Any thread; goes through all of it. */
uint64_t distinct_count(const struct distinct *distinct);
