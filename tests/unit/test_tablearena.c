/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "nodeset.h"
#include "tablearena.h"

#define MIB (UINT64_C(1) << 20)

/* The kernel's part, counted. */
static struct {
	int64_t reserved;
	size_t calls, discarded, collapsed, bound;
	bool no_memory, no_collapse;
	struct nodeset nodes;
} seen;

static void *fake_reserve(void *ctx, size_t bytes)
{
	void *p = seen.no_memory ? NULL : tablemem_libc.reserve(ctx, bytes);

	seen.calls++;
	seen.reserved += p ? (int64_t)bytes : 0;
	return p;
}

static void fake_unreserve(void *ctx, void *p, size_t bytes)
{
	seen.reserved -= (int64_t)bytes;
	tablemem_libc.unreserve(ctx, p, bytes);
}

static void fake_discard(void *ctx, void *p, size_t bytes)
{
	seen.discarded += bytes;
	tablemem_libc.discard(ctx, p, bytes);
}

static bool fake_collapse(void *ctx, void *p, size_t bytes)
{
	(void)ctx;
	CU_ASSERT_EQUAL((uintptr_t)p % (2 * MIB), 0);
	CU_ASSERT_EQUAL(bytes, 2 * MIB);
	seen.collapsed++;
	return !seen.no_collapse;
}

static void fake_bind(void *ctx, void *p, size_t bytes, const struct nodeset *nodes)
{
	(void)ctx;
	(void)p;
	seen.bound += bytes;
	seen.nodes = *nodes;
}

static const struct tablemem_ops fake = { .reserve = fake_reserve,
					  .unreserve = fake_unreserve,
					  .discard = fake_discard,
					  .collapse = fake_collapse,
					  .bind = fake_bind };

static struct tablearena *new_arena(const struct nodeset *nodes)
{
	memset(&seen, 0, sizeof(seen));
	return tablearena_new(&fake, nodes);
}

static bool is_filled(const unsigned char *p, size_t bytes, unsigned char with)
{
	for (size_t i = 0; i < bytes; i++)
		if (p[i] != with)
			return false;
	return true;
}

/* Random blocks come and go: each is zeroed, nobody else's, and aligned; and what is counted is what they take. */
static void blocks_are_apart(void)
{
	enum { N = 3000 };
	static const size_t sizes[] = { 1, 16, 24, 56, 64, 296, 1256, 2072, 4112, 32768, 32769, 300000 };
	static struct {
		unsigned char *p;
		size_t bytes;
		unsigned char fill;
	} block[N];
	struct tablearena *arena = new_arena(NULL);
	struct tablemem mem;
	uint64_t seed = 5, expected = 0;
	unsigned int wrong = 0;

	tablemem_init(&mem, tablearena_ops(arena), 1ULL << 32);
	memset(block, 0, sizeof(block));
	for (unsigned int op = 0; op < 40000; op++) {
		unsigned int k;

		seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
		/* By turns mostly growing and mostly shrinking. */
		k = (unsigned int)(seed >> 33) % N;
		if (!block[k].p) {
			if (op / 8000 % 2 && seed >> 60)
				continue;
			block[k].bytes = sizes[(seed >> 20) % (seed >> 62 ? 9 : 12)];
			block[k].fill = (unsigned char)(1 + op % 255);
			block[k].p = tablemem_alloc(&mem, block[k].bytes);
			wrong += !block[k].p || (uintptr_t)block[k].p % 16 != 0;
			wrong += !is_filled(block[k].p, block[k].bytes, 0);
			memset(block[k].p, block[k].fill, block[k].bytes);
			expected += tablemem_cost(&mem, block[k].bytes);
		} else {
			wrong += !is_filled(block[k].p, block[k].bytes, block[k].fill);
			tablemem_free(&mem, block[k].p, block[k].bytes);
			expected -= tablemem_cost(&mem, block[k].bytes);
			block[k].p = NULL;
		}
		wrong += tablemem_bytes(&mem) != expected;
	}
	CU_ASSERT_EQUAL(wrong, 0);
	CU_ASSERT_EQUAL(tablemem_cost(&mem, 24), 32);
	CU_ASSERT_EQUAL(tablemem_cost(&mem, 4112), 4112);
	CU_ASSERT_EQUAL(tablemem_cost(&mem, 32769), 36864);
	for (unsigned int k = 0; k < N; k++)
		tablemem_free(&mem, block[k].p, block[k].bytes);
	CU_ASSERT_EQUAL(tablemem_bytes(&mem), 0);
	CU_ASSERT(seen.discarded > 0);
	tablearena_free(arena);
	CU_ASSERT_EQUAL(seen.reserved, 0);
	tablearena_free(NULL);
}

/* Empty runs serve other sizes: one after the other, all of them fit into the memory of the largest. */
static void what_is_empty_is_used_again(void)
{
	enum { N = 30000 };
	static void *p[N];
	struct tablearena *arena = new_arena(NULL);
	const struct tablemem_ops *ops = tablearena_ops(arena);
	int64_t reserved = 0;

	for (size_t bytes = 64; bytes <= 496; bytes += 48) {
		for (unsigned int i = 0; i < N; i++)
			p[i] = ops->alloc(ops->ctx, bytes);
		for (unsigned int i = 0; i < N; i++)
			ops->free(ops->ctx, p[i], bytes);
		reserved = seen.reserved;
	}
	CU_ASSERT_EQUAL(reserved, (int64_t)(66 * MIB));
	tablearena_free(arena);
}

static void full_parts_become_huge(void)
{
	enum { N = 2000 };
	static void *p[N];
	struct tablearena *arena = new_arena(NULL);
	const struct tablemem_ops *ops = tablearena_ops(arena);

	/* 31 to a run, 496 to 2 MiB: four parts and a rest. */
	for (unsigned int i = 0; i < N; i++)
		p[i] = ops->alloc(ops->ctx, 4112);
	CU_ASSERT_EQUAL(tablearena_tidy(arena, 3), 3);
	CU_ASSERT_EQUAL(tablearena_tidy(arena, 100), 1);
	CU_ASSERT_EQUAL(tablearena_tidy(arena, 100), 0);
	CU_ASSERT_EQUAL(seen.collapsed, 4);
	/* One run of the second part goes, and comes again. */
	for (unsigned int i = 0; i < 31; i++)
		ops->free(ops->ctx, p[496 + i], 4112);
	CU_ASSERT_EQUAL(seen.discarded, 128 << 10);
	CU_ASSERT_EQUAL(tablearena_tidy(arena, 100), 0);
	for (unsigned int i = 0; i < 31; i++)
		p[496 + i] = ops->alloc(ops->ctx, 4112);
	/* That filled up the rest's run first. */
	CU_ASSERT(tablearena_tidy(arena, 100) <= 1);
	for (unsigned int i = 0; i < N; i++)
		ops->free(ops->ctx, p[i], 4112);
	tablearena_free(arena);
	/* A kernel that refuses is asked a few times only. */
	arena = new_arena(NULL);
	ops = tablearena_ops(arena);
	seen.no_collapse = true;
	for (unsigned int i = 0; i < 500; i++)
		p[i] = ops->alloc(ops->ctx, 4112);
	for (int i = 0; i < 10; i++)
		tablearena_tidy(arena, 100);
	CU_ASSERT_EQUAL(seen.collapsed, 3);
	for (unsigned int i = 0; i < 500; i++)
		ops->free(ops->ctx, p[i], 4112);
	tablearena_free(arena);
}

static void memory_is_where_it_was_asked_for(void)
{
	struct nodeset nodes = { 0 };
	struct tablearena *arena;
	const struct tablemem_ops *ops;
	void *p, *q, *r;

	nodeset_add(&nodes, 2);
	nodeset_add(&nodes, 70);
	arena = new_arena(&nodes);
	ops = tablearena_ops(arena);
	p = ops->alloc(ops->ctx, 100);
	CU_ASSERT(seen.bound >= 64 * MIB);
	q = ops->alloc(ops->ctx, MIB);
	r = ops->reserve(ops->ctx, 3 * MIB);
	CU_ASSERT_EQUAL((int64_t)seen.bound, seen.reserved);
	CU_ASSERT(nodeset_equal(&seen.nodes, &nodes));
	ops->unreserve(ops->ctx, r, 3 * MIB);
	ops->free(ops->ctx, q, MIB);
	ops->free(ops->ctx, p, 100);
	tablearena_free(arena);
	/* The kernel's own binding is a wish as well: nodes that aren't there do no harm. */
	p = tablemem_libc.reserve(NULL, MIB);
	tablemem_libc.bind(NULL, p, MIB, &nodes);
	memset(p, 1, MIB);
	nodeset_clear(&nodes);
	tablemem_libc.bind(NULL, p, MIB, &nodes);
	tablemem_libc.unreserve(NULL, p, MIB);
}

static void no_memory(void)
{
	struct tablearena *arena = new_arena(NULL);
	const struct tablemem_ops *ops = tablearena_ops(arena);
	void *p;

	seen.no_memory = true;
	CU_ASSERT_PTR_NULL(ops->alloc(ops->ctx, 24));
	CU_ASSERT_PTR_NULL(ops->alloc(ops->ctx, 2400));
	CU_ASSERT_PTR_NULL(ops->alloc(ops->ctx, MIB));
	CU_ASSERT_EQUAL(seen.calls, 3);
	seen.no_memory = false;
	p = ops->alloc(ops->ctx, 24);
	CU_ASSERT_PTR_NOT_NULL(p);
	ops->free(ops->ctx, p, 24);
	tablearena_free(arena);
}

TEST_MAIN(tablearena, TEST(blocks_are_apart), TEST(what_is_empty_is_used_again), TEST(full_parts_become_huge),
	  TEST(memory_is_where_it_was_asked_for), TEST(no_memory))
