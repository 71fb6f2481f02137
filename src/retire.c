/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <assert.h>

#include "retire.h"

#define KIND_MASK ((uintptr_t)7)

_Static_assert(RETIRE_KIND_MAX <= KIND_MASK + 1, "a kind has three bits");

void retire_init(struct retire *retire)
{
	*retire = (struct retire){ 0 };
}

void retire_handle(struct retire *retire, enum retire_kind kind, retire_free_fn *fn, void *ctx)
{
	retire->kind[kind].fn = fn;
	retire->kind[kind].ctx = ctx;
}

void retire_push(struct retire *retire, enum retire_kind kind, struct retire_node *node)
{
	uintptr_t head = atomic_load_explicit(&retire->head, memory_order_relaxed);

	assert(((uintptr_t)node & KIND_MASK) == 0);
	do
		node->next = head;
	while (!atomic_compare_exchange_weak_explicit(&retire->head, &head, (uintptr_t)node | kind,
						      memory_order_release, /* R1 */
						      memory_order_relaxed));
}

uintptr_t retire_take(struct retire *retire)
{
	return atomic_exchange_explicit(&retire->head, 0, memory_order_acquire); /* T1 */
}

size_t retire_free(const struct retire *retire, uintptr_t list)
{
	size_t n = 0;

	while (list) {
		enum retire_kind kind = list & KIND_MASK;
		struct retire_node *node = (struct retire_node *)(list & ~KIND_MASK);

		list = node->next;
		retire->kind[kind].fn(retire->kind[kind].ctx, node);
		n++;
	}
	return n;
}
