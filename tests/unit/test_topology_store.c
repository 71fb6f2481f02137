/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "harness.h"
#include "machine.h"
#include "rcu.h"
#include "topology.h"

static struct topology *read_with(const struct machine *m, const char *fast, const char *slow)
{
	struct topology_options options = { .tiers = { fast, slow }, .n_tiers = 2, .target_nid = -1 };
	struct topology *topology = NULL;

	CU_ASSERT_EQUAL(topology_read(&m->root, &options, &topology, NULL, 0), 0);
	return topology;
}

static void get_and_set(void)
{
	struct topology *a, *b, *got, *got_again;
	struct topology_store *store;
	struct machine m;

	machine_load(&m, "cxl-two-sockets");
	a = read_with(&m, "0", "1");
	b = read_with(&m, "1", "0");
	machine_free(&m);
	if (!a || !b)
		return;
	rcu_thread_start();
	store = topology_store_new(topology_ref(a));
	CU_ASSERT_PTR_NOT_NULL(store);
	got = topology_store_get(store);
	CU_ASSERT_PTR_EQUAL(got, a);
	rcu_enter();
	CU_ASSERT_PTR_EQUAL(topology_store_peek(store), a);
	rcu_leave();
	topology_unref(a);
	topology_store_set(store, b);
	/* A reference outlives what the store says. */
	CU_ASSERT(nodeset_has(&got->lower, 1));
	CU_ASSERT_EQUAL(topology_target(got, 1, 0), 0);
	got_again = topology_store_get(store);
	CU_ASSERT_PTR_EQUAL(got_again, b);
	CU_ASSERT_FALSE(topology_equal(got, got_again));
	topology_store_free(store);
	/* And the store. */
	CU_ASSERT_EQUAL(topology_target(got_again, 0, 0), 1);
	topology_unref(got_again);
	topology_unref(got);
	topology_store_free(NULL);
	rcu_thread_stop();
}

struct shared {
	struct topology_store *store;
	_Atomic bool stop;
	_Atomic unsigned int looks;
	_Atomic unsigned int wrong;
};

/* A snapshot that is whole: its two tiers are each other's opposite, whichever it is. */
static bool is_whole(const struct topology *t)
{
	int low = nodeset_next(&t->lower, 0), top = nodeset_next(&t->top, 0);

	return low + top == 1 && topology_target(t, low, top) == top && topology_pfn_node(t, UINT64_C(1) << 33) == 2 &&
	       topology_node(t, low)->targets[0] == top;
}

static void *look(void *arg)
{
	struct shared *shared = arg;

	rcu_thread_start();
	for (unsigned int i = 0; !atomic_load_explicit(&shared->stop, memory_order_relaxed); i++) {
		bool good;

		if (i % 2) {
			struct topology *t = topology_store_get(shared->store);

			good = is_whole(t);
			topology_unref(t);
		} else {
			rcu_enter();
			good = is_whole(topology_store_peek(shared->store));
			rcu_leave();
		}
		atomic_fetch_add_explicit(&shared->looks, 1, memory_order_relaxed);
		if (!good)
			atomic_fetch_add_explicit(&shared->wrong, 1, memory_order_relaxed);
	}
	rcu_thread_stop();
	return NULL;
}

static void readers_while_it_changes(void)
{
	enum { READERS = 3 };
	const int changes = test_under_valgrind() ? 15 : 60;
	struct shared shared = { .stop = false };
	pthread_t threads[READERS];
	struct topology *t;
	struct machine m;

	machine_load(&m, "cxl-two-sockets");
	t = read_with(&m, "0", "1");
	shared.store = t ? topology_store_new(t) : NULL;
	CU_ASSERT_PTR_NOT_NULL(shared.store);
	if (!shared.store)
		return;
	rcu_thread_start();
	for (int i = 0; i < READERS; i++)
		CU_ASSERT_EQUAL(pthread_create(&threads[i], NULL, look, &shared), 0);
	for (int i = 0; i < changes; i++) {
		unsigned int before = atomic_load_explicit(&shared.looks, memory_order_relaxed);

		t = read_with(&m, i % 2 ? "0" : "1", i % 2 ? "1" : "0");
		if (t)
			topology_store_set(shared.store, t);
		/* Someone has looked in between, or this tests nothing. */
		while (atomic_load_explicit(&shared.looks, memory_order_relaxed) == before)
			sched_yield();
	}
	atomic_store_explicit(&shared.stop, true, memory_order_relaxed);
	for (int i = 0; i < READERS; i++)
		pthread_join(threads[i], NULL);
	CU_ASSERT_EQUAL(atomic_load(&shared.wrong), 0);
	topology_store_free(shared.store);
	rcu_thread_stop();
	machine_free(&m);
}

TEST_MAIN(topology_store, TEST(get_and_set), TEST(readers_while_it_changes))
