/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * stats: the daemon's counters, one slot of cache lines for each thread.
 *
 * Writer   the thread that owns the slot
 * Readers  any, through stats_sum()
 * Order    relaxed on both sides: a counter carries no other data, and a sum is a moment's view anyway
 */
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum stat_id {
#define STAT(id, name, unit, line, prose) STAT_##id,
#include "stats.def"
#undef STAT
	STAT_MAX
};

struct stat_info {
	const char *name;
	const char *unit;
	const char *line;
	const char *prose;
};

/* The table, by enum stat_id. */
extern const struct stat_info stat_info[STAT_MAX];

struct stats_slot {
	_Alignas(64) _Atomic uint64_t value[STAT_MAX];
};

/* All slots of the process. Slots live until stats_free(), also when their thread has ended, so that nothing counted is
 * lost. */
struct stats;

/* NULL when out of memory. */
struct stats *stats_new(void);
void stats_free(struct stats *stats);

/* A new slot, zeroed; NULL when out of memory. Any thread; takes a lock, so at start-up of a stage only. */
struct stats_slot *stats_slot_new(struct stats *stats);

/* Owner thread only. A load and a store rather than a locked add: there is one writer. */
static inline void stats_add(struct stats_slot *slot, enum stat_id id, uint64_t n)
{
	uint64_t v = atomic_load_explicit(&slot->value[id], memory_order_relaxed);

	atomic_store_explicit(&slot->value[id], v + n, memory_order_relaxed);
}

static inline void stats_inc(struct stats_slot *slot, enum stat_id id)
{
	stats_add(slot, id, 1);
}

/* Sum of one counter over all slots. Any thread. */
uint64_t stats_sum(const struct stats *stats, enum stat_id id);
