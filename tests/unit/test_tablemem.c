/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "rcu.h"
#include "retire.h"
#include "tablemem.h"

static void counts_what_is_taken(void)
{
	struct tablemem mem;
	char *a, *b;

	tablemem_init(&mem, NULL, 1000);
	CU_ASSERT_EQUAL(tablemem_cost(&mem, 1), 32);
	CU_ASSERT_EQUAL(tablemem_cost(&mem, 24), 32);
	CU_ASSERT_EQUAL(tablemem_cost(&mem, 25), 48);
	CU_ASSERT_EQUAL(tablemem_cost(&mem, 56), 64);
	a = tablemem_alloc(&mem, 24);
	b = tablemem_alloc(&mem, 100);
	CU_ASSERT(a && b);
	for (int i = 0; i < 100; i++)
		CU_ASSERT_EQUAL(b[i], 0);
	CU_ASSERT_EQUAL(tablemem_bytes(&mem), 32 + 112);
	CU_ASSERT_EQUAL(tablemem_take_refused(&mem), 0);
	tablemem_free(&mem, a, 24);
	tablemem_free(&mem, b, 100);
	tablemem_free(&mem, NULL, 100);
	CU_ASSERT_EQUAL(tablemem_bytes(&mem), 0);
}

static void refuses_at_the_bound(void)
{
	struct tablemem mem;
	void *a, *b;

	tablemem_init(&mem, NULL, 1000);
	a = tablemem_alloc(&mem, 992);
	CU_ASSERT_PTR_NULL(a); /* 1008 with what malloc adds */
	CU_ASSERT_EQUAL(tablemem_take_refused(&mem), 1008);
	CU_ASSERT_EQUAL(tablemem_take_refused(&mem), 0);
	a = tablemem_alloc(&mem, 984);
	CU_ASSERT_PTR_NOT_NULL(a);
	CU_ASSERT_PTR_NULL(tablemem_alloc(&mem, 1));
	CU_ASSERT_PTR_NULL(tablemem_alloc(&mem, 100));
	CU_ASSERT_PTR_NULL(tablemem_alloc(&mem, 10));
	CU_ASSERT_EQUAL(tablemem_take_refused(&mem), 112); /* the largest */
	CU_ASSERT(!tablemem_charge(&mem, 9));
	CU_ASSERT(tablemem_charge(&mem, 8));
	tablemem_uncharge(&mem, 8);
	b = tablemem_alloc_over(&mem, 100);
	CU_ASSERT_PTR_NOT_NULL(b);
	CU_ASSERT_EQUAL(tablemem_bytes(&mem), 992 + 112);
	tablemem_free(&mem, a, 984);
	tablemem_free(&mem, b, 100);
	CU_ASSERT_EQUAL(tablemem_bytes(&mem), 0);
}

static void lines_are_aligned(void)
{
	struct tablemem mem;

	tablemem_init(&mem, NULL, 1 << 20);
	for (size_t bytes = 1; bytes < 300; bytes += 7) {
		void *p = tablemem_alloc_lines(&mem, bytes);

		CU_ASSERT(p && (uintptr_t)p % 64 == 0);
		if (p)
			memset(p, 1, bytes);
		tablemem_free_lines(&mem, p, bytes);
	}
	tablemem_free_lines(&mem, NULL, 5);
	CU_ASSERT_EQUAL(tablemem_bytes(&mem), 0);
	tablemem_init(&mem, NULL, 10);
	CU_ASSERT_PTR_NULL(tablemem_alloc_lines(&mem, 1));
}

static void ranges_count_by_page(void)
{
	struct tablerange range = { 0 };
	struct tablemem mem;
	uint64_t before;

	tablemem_init(&mem, NULL, 100000);
	tablerange_done(&mem, &range);
	CU_ASSERT_EQUAL(tablerange_init(&mem, &range, 1ULL << 33), -ENOMEM); /* its bitmap has 256 KiB */
	CU_ASSERT_EQUAL(tablerange_init(&mem, &range, 1 << 28), 0);
	before = tablemem_bytes(&mem);
	CU_ASSERT_EQUAL(range.base[1 << 27], 0);
	CU_ASSERT_EQUAL(tablerange_touch(&mem, &range, 5000), 0);
	CU_ASSERT_EQUAL(tablerange_touch(&mem, &range, 4096), 0);
	CU_ASSERT_EQUAL(tablerange_touch(&mem, &range, 8191), 0);
	CU_ASSERT_EQUAL(tablemem_bytes(&mem), before + 4096);
	CU_ASSERT_EQUAL(tablerange_touch(&mem, &range, (1 << 28) - 1), 0);
	CU_ASSERT_EQUAL(tablemem_bytes(&mem), before + 8192);
	range.base[(1 << 28) - 1] = 1;
	atomic_store(&mem.max_bytes, before + 8192 + 4095);
	CU_ASSERT_EQUAL(tablerange_touch(&mem, &range, 0), -ENOMEM);
	CU_ASSERT_EQUAL(tablerange_touch(&mem, &range, 4096), 0); /* has been */
	tablerange_done(&mem, &range);
	CU_ASSERT_EQUAL(tablemem_bytes(&mem), 0);
}

struct block {
	struct retire_node node;
	_Atomic uint64_t value;
};

static size_t freed[2];

static void free_a(void *ctx, struct retire_node *node)
{
	freed[0] += *(size_t *)ctx;
	free(node);
}

static void free_b(void *ctx, struct retire_node *node)
{
	freed[1] += *(size_t *)ctx;
	free(node);
}

static void retires_by_kind(void)
{
	struct retire retire;
	size_t one = 1, hundred = 100;

	retire_init(&retire);
	retire_handle(&retire, RETIRE_CHUNK, free_a, &one);
	retire_handle(&retire, RETIRE_REGION_TABLE, free_b, &hundred);
	CU_ASSERT_EQUAL(retire_take(&retire), 0);
	CU_ASSERT_EQUAL(retire_free(&retire, 0), 0);
	freed[0] = freed[1] = 0;
	for (int i = 0; i < 10; i++) {
		struct block *block = calloc(1, sizeof(*block));

		retire_push(&retire, i % 3 ? RETIRE_CHUNK : RETIRE_REGION_TABLE, &block->node);
	}
	CU_ASSERT_EQUAL(retire_free(&retire, retire_take(&retire)), 10);
	CU_ASSERT_EQUAL(freed[0], 6);
	CU_ASSERT_EQUAL(freed[1], 400);
	CU_ASSERT_EQUAL(retire_take(&retire), 0);
}

#define PUSHERS 3
#define PUSHED  20000

static struct retire shared;
static _Atomic(struct block *) current;
static _Atomic int pushers_left;

/* Replace the block that readers look at, and retire the old one. */
static void *push(void *arg)
{
	(void)arg;
	for (uint64_t i = 1; i <= PUSHED; i++) {
		struct block *block = calloc(1, sizeof(*block)), *old;

		atomic_store_explicit(&block->value, i, memory_order_relaxed);
		old = atomic_exchange_explicit(&current, block, memory_order_acq_rel);
		if (old)
			retire_push(&shared, RETIRE_CHUNK, &old->node);
	}
	atomic_fetch_sub(&pushers_left, 1);
	return NULL;
}

static void *look(void *arg)
{
	uint64_t *zeros = arg;

	rcu_thread_start();
	while (atomic_load(&pushers_left) > 0) {
		struct block *block;

		rcu_enter();
		block = atomic_load_explicit(&current, memory_order_acquire);
		/* Never freed memory: the address sanitizer would say so. */
		*zeros += block && atomic_load_explicit(&block->value, memory_order_relaxed) == 0;
		rcu_leave();
	}
	rcu_thread_stop();
	return NULL;
}

static void retires_from_many_threads(void)
{
	pthread_t threads[PUSHERS + 1];
	size_t one = 1, n = 0;
	uint64_t zeros = 0;
	bool last = false;

	retire_init(&shared);
	retire_handle(&shared, RETIRE_CHUNK, free_a, &one);
	freed[0] = 0;
	atomic_store(&pushers_left, PUSHERS);
	for (int i = 0; i < PUSHERS; i++)
		pthread_create(&threads[i], NULL, push, NULL);
	pthread_create(&threads[PUSHERS], NULL, look, &zeros);
	rcu_thread_start();
	while (!last) {
		uintptr_t list;

		last = atomic_load(&pushers_left) == 0;
		list = retire_take(&shared);
		if (list)
			rcu_wait();
		n += retire_free(&shared, list);
	}
	for (int i = 0; i <= PUSHERS; i++)
		pthread_join(threads[i], NULL);
	rcu_thread_stop();
	CU_ASSERT_EQUAL(n, PUSHERS * PUSHED - 1);
	CU_ASSERT_EQUAL(freed[0], PUSHERS * PUSHED - 1);
	CU_ASSERT_EQUAL(zeros, 0);
	free(atomic_load(&current));
}

TEST_MAIN(tablemem, TEST(counts_what_is_taken), TEST(refuses_at_the_bound), TEST(lines_are_aligned),
	  TEST(ranges_count_by_page), TEST(retires_by_kind), TEST(retires_from_many_threads))
