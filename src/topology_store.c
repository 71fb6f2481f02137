/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Order: T1 release exchange of the pointer in topology_store_set() pairs with T2 acquire in topology_store_peek(): a
 * reader that sees a snapshot sees all of it. The store's own reference is given back a grace period after T1, so that
 * one that was peeked at lives to the end of the read section, and can be referenced in it.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include "rcu.h"
#include "topology.h"

struct topology_store {
	_Atomic(struct topology *) current;
};

struct topology_store *topology_store_new(struct topology *first)
{
	struct topology_store *store = malloc(sizeof(*store));

	if (store)
		atomic_init(&store->current, first);
	return store;
}

void topology_store_free(struct topology_store *store)
{
	if (!store)
		return;
	/* Relaxed: nobody else has the store any more. */
	topology_unref(atomic_load_explicit(&store->current, memory_order_relaxed));
	free(store);
}

const struct topology *topology_store_peek(const struct topology_store *store)
{
	return atomic_load_explicit(&store->current, memory_order_acquire); /* T2 */
}

struct topology *topology_store_get(const struct topology_store *store)
{
	struct topology *topology;

	rcu_enter();
	topology = topology_ref(topology_store_peek(store));
	rcu_leave();
	return topology;
}

void topology_store_set(struct topology_store *store, struct topology *next)
{
	/* T1. Relaxed for what comes back: it was published by this thread. */
	struct topology *old = atomic_exchange_explicit(&store->current, next, memory_order_release);

	rcu_wait();
	topology_unref(old);
}
