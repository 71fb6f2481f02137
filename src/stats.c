/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "stats.h"

const struct stat_info stat_info[STAT_MAX] = {
#define STAT(id, name_, unit_, line_, prose_) [STAT_##id] = { name_, unit_, line_, prose_ },
#include "stats.def"
#undef STAT
};

struct entry {
	struct stats_slot slot;
	struct entry *next;
};

struct stats {
	pthread_mutex_t lock;            /* writers of the list */
	_Atomic(struct entry *) entries; /* S1 release in stats_slot_new() pairs with S2 acquire in stats_sum() */
};

struct stats *stats_new(void)
{
	struct stats *stats = calloc(1, sizeof(*stats));

	if (stats)
		pthread_mutex_init(&stats->lock, NULL);
	return stats;
}

void stats_free(struct stats *stats)
{
	struct entry *e, *next;

	if (!stats)
		return;
	for (e = atomic_load_explicit(&stats->entries, memory_order_relaxed); e; e = next) {
		next = e->next;
		free(e);
	}
	pthread_mutex_destroy(&stats->lock);
	free(stats);
}

struct stats_slot *stats_slot_new(struct stats *stats)
{
	struct entry *e = aligned_alloc(_Alignof(struct entry), sizeof(*e));

	if (!e)
		return NULL;
	memset(e, 0, sizeof(*e));
	pthread_mutex_lock(&stats->lock);
	e->next = atomic_load_explicit(&stats->entries, memory_order_relaxed);
	atomic_store_explicit(&stats->entries, e, memory_order_release);
	pthread_mutex_unlock(&stats->lock);
	return &e->slot;
}

uint64_t stats_sum(const struct stats *stats, enum stat_id id)
{
	uint64_t sum = 0;

	for (const struct entry *e = atomic_load_explicit(&stats->entries, memory_order_acquire); e; e = e->next)
		sum += atomic_load_explicit(&e->slot.value[id], memory_order_relaxed);
	return sum;
}
