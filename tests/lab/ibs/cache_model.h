/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A set-associative memory of tags with least-recently-used replacement: caches and
 * TLBs alike. Not coherent and not inclusive; good enough to tell which accesses
 * would have gone to memory.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct cache_model {
	uint32_t *tags; /* sets * ways, in each set the last used first; 0: free */
	uint32_t sets;  /* a power of two */
	uint32_t ways;
	uint32_t set_bits;
};

/**
 * cache_model_init - an empty model
 * @sets: a power of two, 1 to 2^24
 * @ways: 1 to 64
 *
 * Returns 0, -EINVAL or -ENOMEM. The memory is never given back: models live as long
 * as the emulator.
 */
int cache_model_init(struct cache_model *model, uint32_t sets, uint32_t ways);

/**
 * cache_model_touch - use one line
 * @line: number of the line (address / line size); tags hold 31 bits above the set's
 *
 * Returns true when it was there. It is there afterwards, in place of the line of its
 * set that wasn't used for longest. Two threads in one model may lose each other's
 * update, nothing worse.
 */
static inline bool cache_model_touch(struct cache_model *model, uint64_t line)
{
	uint32_t *tags = model->tags + (line & (model->sets - 1)) * model->ways;
	uint32_t tag = (uint32_t)(line >> model->set_bits) | 0x80000000U;
	uint32_t carry = tag;

	if (tags[0] == tag)
		return true;
	for (uint32_t i = 0; i < model->ways; i++) {
		uint32_t here = tags[i];

		tags[i] = carry;
		if (here == tag)
			return true;
		carry = here;
	}
	return false;
}
