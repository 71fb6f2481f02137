/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * retire: blocks that were unlinked and wait for a grace period before they are freed.
 *
 * Writers  any thread (push; lock-free, never allocates: the link is inside the block)
 * Reader   the janitor (take, then rcu_wait(), then free)
 * Order    R1 release in push pairs with T1 acquire in take: the block's link is written. Nothing is ever popped
 *          alone, so there is no ABA.
 *
 * What waits here still counts as memory; when nobody takes it, the bound is reached and no more is made.
 */
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* What a block is; in the low bits of the pointers, so that a block pays one word only. */
enum retire_kind {
	RETIRE_CHUNK,
	RETIRE_SECTION,
	RETIRE_REGION_TABLE,
	RETIRE_KIND_MAX,
};

/* In the block, aligned to 8, at a place that no late reader looks at. */
struct retire_node {
	uintptr_t next;
};

typedef void retire_free_fn(void *ctx, struct retire_node *node);

struct retire {
	_Atomic uintptr_t head;
	struct {
		retire_free_fn *fn;
		void *ctx;
	} kind[RETIRE_KIND_MAX];
};

void retire_init(struct retire *retire);
/* How blocks of @kind are freed. Before the first push of one. */
void retire_handle(struct retire *retire, enum retire_kind kind, retire_free_fn *fn, void *ctx);

/* @node is unlinked: no new reader finds it. Any thread. */
void retire_push(struct retire *retire, enum retire_kind kind, struct retire_node *node);

/* All blocks so far; 0 for none. Give them to retire_free() after a grace period. Janitor. */
uintptr_t retire_take(struct retire *retire);

/* Free a list from retire_take(). Returns how many blocks it had. Janitor. */
size_t retire_free(const struct retire *retire, uintptr_t list);
