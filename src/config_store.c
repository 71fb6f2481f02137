/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "cleanup.h"
#include "config.h"
#include "rcu.h"

struct config_store {
	/* S1 release in config_store_set() pairs with S2 acquire in config_store_get(): what is seen is whole. */
	_Atomic(const struct config *) current;
};

static const struct config *copy_of(const struct config *config)
{
	struct config *copy = malloc(sizeof(*copy));

	if (copy)
		*copy = *config;
	return copy;
}

struct config_store *config_store_new(const struct config *first)
{
	_cleanup_free_ struct config_store *store = malloc(sizeof(*store));
	const struct config *copy;

	if (!store)
		return NULL;
	copy = copy_of(first);
	if (!copy)
		return NULL;
	atomic_init(&store->current, copy);
	return take_ptr(store);
}

void config_store_free(struct config_store *store)
{
	if (!store)
		return;
	/* Relaxed: nobody reads any more. */
	free((void *)atomic_load_explicit(&store->current, memory_order_relaxed));
	free(store);
}

void config_store_get(const struct config_store *store, struct config *ret)
{
	rcu_enter();
	*ret = *atomic_load_explicit(&store->current, memory_order_acquire); /* S2 */
	rcu_leave();
}

int config_store_set(struct config_store *store, const struct config *next)
{
	const struct config *copy = copy_of(next), *old;

	if (!copy)
		return -ENOMEM;
	/* S1. No acquire: only this thread has ever stored. */
	old = atomic_exchange_explicit(&store->current, copy, memory_order_release);
	rcu_wait();
	free((void *)old);
	return 0;
}
