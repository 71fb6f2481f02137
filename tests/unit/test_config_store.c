/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "config.h"
#include "harness.h"
#include "rcu.h"

static void keeps_a_copy(void)
{
	struct config config, got;
	struct config_store *store;

	rcu_thread_start();
	config_defaults(&config);
	config.target_nid = 1;
	store = config_store_new(&config);
	config.target_nid = 2; /* ours, no longer the store's */
	config_store_get(store, &got);
	CU_ASSERT_EQUAL(got.target_nid, 1);
	CU_ASSERT_EQUAL(config_store_set(store, &config), 0);
	config.target_nid = 3;
	config_store_get(store, &got);
	CU_ASSERT_EQUAL(got.target_nid, 2);
	config.target_nid = 2;
	CU_ASSERT_EQUAL(memcmp(&got, &config, sizeof(got)), 0);
	config_store_free(store);
	config_store_free(NULL);
	rcu_thread_stop();
}

/* Readers must never see a mixture: all fields carry the same number. */
#define SETS 2000

struct readers {
	struct config_store *store;
	_Atomic bool stop;
	_Atomic int started, mixed, backwards;
};

static void number_config(struct config *config, int n)
{
	config->target_nid = n;
	config->promote_batch_pages = n;
	snprintf(config->sampling_cpus, sizeof(config->sampling_cpus), "%d", n);
	snprintf(config->tiers.item[CONFIG_LIST_MAX - 1], CONFIG_ITEM_MAX, "%d", n);
}

static void *read_often(void *arg)
{
	struct readers *readers = arg;
	int64_t last = 0;
	bool stop;

	rcu_thread_start();
	atomic_fetch_add_explicit(&readers->started, 1, memory_order_relaxed);
	do {
		struct config got, want;

		stop = atomic_load_explicit(&readers->stop, memory_order_relaxed);
		config_store_get(readers->store, &got);
		want = got;
		number_config(&want, (int)got.target_nid);
		if (memcmp(&want, &got, sizeof(got)) != 0)
			atomic_fetch_add_explicit(&readers->mixed, 1, memory_order_relaxed);
		if (got.target_nid < last)
			atomic_fetch_add_explicit(&readers->backwards, 1, memory_order_relaxed);
		last = got.target_nid;
	} while (!stop);
	rcu_thread_stop();
	return NULL;
}

static void readers_see_whole_ones(void)
{
	struct readers readers = { 0 };
	pthread_t threads[2];
	struct config config, got;

	rcu_thread_start();
	config_defaults(&config);
	number_config(&config, 0);
	readers.store = config_store_new(&config);
	for (int i = 0; i < 2; i++)
		CU_ASSERT_EQUAL(pthread_create(&threads[i], NULL, read_often, &readers), 0);
	while (atomic_load_explicit(&readers.started, memory_order_relaxed) < 2)
		sched_yield();
	for (int n = 1; n <= SETS; n++) {
		number_config(&config, n);
		CU_ASSERT_EQUAL(config_store_set(readers.store, &config), 0);
	}
	atomic_store_explicit(&readers.stop, true, memory_order_relaxed);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	CU_ASSERT_EQUAL(readers.mixed, 0);
	CU_ASSERT_EQUAL(readers.backwards, 0);
	config_store_get(readers.store, &got);
	CU_ASSERT_EQUAL(got.target_nid, SETS);
	config_store_free(readers.store);
	rcu_thread_stop();
}

TEST_MAIN(config_store, TEST(keeps_a_copy), TEST(readers_see_whole_ones))
