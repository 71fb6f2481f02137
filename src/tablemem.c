/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <assert.h>
#include <errno.h>
#include <numaif.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "nodeset.h"
#include "tablemem.h"

#define LINE_BYTES 64

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* madvise(2), Linux 6.1 */
#endif

static void *libc_alloc(void *ctx, size_t bytes)
{
	(void)ctx;
	return calloc(1, bytes);
}

static void libc_free(void *ctx, void *p, size_t bytes)
{
	(void)ctx;
	(void)bytes;
	free(p);
}

static void *libc_reserve(void *ctx, size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	(void)ctx;
	if (p == MAP_FAILED)
		return NULL;
	/* With huge pages "always", one touched page would take 2 MiB and the count would be wrong by 512. A kernel
	 * without huge pages refuses the advice, which is as good. */
	(void)madvise(p, bytes, MADV_NOHUGEPAGE);
	return p;
}

static void libc_unreserve(void *ctx, void *p, size_t bytes)
{
	(void)ctx;
	munmap(p, bytes);
}

static void libc_discard(void *ctx, void *p, size_t bytes)
{
	(void)ctx;
	(void)madvise(p, bytes, MADV_DONTNEED);
}

static uint64_t libc_cost(size_t bytes)
{
	uint64_t cost = (bytes + 8 + 15) & ~UINT64_C(15);

	return cost < 32 ? 32 : cost;
}

static bool libc_collapse(void *ctx, void *p, size_t bytes)
{
	(void)ctx;
	/* The reservation was made without huge pages. */
	if (madvise(p, bytes, MADV_HUGEPAGE) < 0)
		return false;
	/* Kernels before 6.1 don't know it; there, khugepaged does it in time. */
	return madvise(p, bytes, MADV_COLLAPSE) == 0 || errno == EINVAL;
}

/* set_mempolicy(2): in the C library's headers only with those of a late kernel. */
#ifndef MPOL_PREFERRED_MANY
#define MPOL_PREFERRED_MANY 5
#endif

static void libc_bind(void *ctx, void *p, size_t bytes, const struct nodeset *nodes)
{
	unsigned long mask[NODE_MAX / (8 * sizeof(unsigned long))] = { 0 };
	int one = nodeset_next(nodes, 0);

	(void)ctx;
	if (one < 0)
		return;
	nodeset_for_each (nid, nodes)
		mask[(size_t)nid / (8 * sizeof(*mask))] |= 1UL << ((size_t)nid % (8 * sizeof(*mask)));
	if (mbind(p, bytes, MPOL_PREFERRED_MANY, mask, NODE_MAX + 1, 0) == 0)
		return;
	/* Before Linux 5.15 only one node can be preferred. A kernel without NUMA refuses that as well. */
	memset(mask, 0, sizeof(mask));
	mask[(size_t)one / (8 * sizeof(*mask))] = 1UL << ((size_t)one % (8 * sizeof(*mask)));
	(void)mbind(p, bytes, MPOL_PREFERRED, mask, NODE_MAX + 1, 0);
}

const struct tablemem_ops tablemem_libc = {
	.alloc = libc_alloc,
	.free = libc_free,
	.reserve = libc_reserve,
	.unreserve = libc_unreserve,
	.discard = libc_discard,
	.cost = libc_cost,
	.collapse = libc_collapse,
	.bind = libc_bind,
};

void tablemem_init(struct tablemem *mem, const struct tablemem_ops *ops, uint64_t max_bytes)
{
	mem->ops = ops ? ops : &tablemem_libc;
	atomic_init(&mem->bytes, 0);
	atomic_init(&mem->max_bytes, max_bytes);
	atomic_init(&mem->refused_bytes, 0);
}

uint64_t tablemem_cost(const struct tablemem *mem, size_t bytes)
{
	return mem->ops->cost ? mem->ops->cost(bytes) : libc_cost(bytes);
}

static void note_refused(struct tablemem *mem, uint64_t cost)
{
	uint64_t most = atomic_load_explicit(&mem->refused_bytes, memory_order_relaxed);

	while (cost > most)
		if (atomic_compare_exchange_weak_explicit(&mem->refused_bytes, &most, cost, memory_order_relaxed,
							  memory_order_relaxed))
			return;
}

bool tablemem_charge(struct tablemem *mem, uint64_t cost)
{
	uint64_t bytes = atomic_load_explicit(&mem->bytes, memory_order_relaxed);

	do {
		if (bytes + cost > atomic_load_explicit(&mem->max_bytes, memory_order_relaxed)) {
			note_refused(mem, cost);
			return false;
		}
	} while (!atomic_compare_exchange_weak_explicit(&mem->bytes, &bytes, bytes + cost, memory_order_relaxed,
							memory_order_relaxed));
	return true;
}

void tablemem_uncharge(struct tablemem *mem, uint64_t cost)
{
	atomic_fetch_sub_explicit(&mem->bytes, cost, memory_order_relaxed);
}

void *tablemem_alloc(struct tablemem *mem, size_t bytes)
{
	void *p;

	if (!tablemem_charge(mem, tablemem_cost(mem, bytes)))
		return NULL;
	p = mem->ops->alloc(mem->ops->ctx, bytes);
	if (!p)
		tablemem_uncharge(mem, tablemem_cost(mem, bytes));
	return p;
}

void *tablemem_alloc_over(struct tablemem *mem, size_t bytes)
{
	void *p = mem->ops->alloc(mem->ops->ctx, bytes);

	if (p)
		atomic_fetch_add_explicit(&mem->bytes, tablemem_cost(mem, bytes), memory_order_relaxed);
	return p;
}

void tablemem_free(struct tablemem *mem, void *p, size_t bytes)
{
	if (!p)
		return;
	mem->ops->free(mem->ops->ctx, p, bytes);
	tablemem_uncharge(mem, tablemem_cost(mem, bytes));
}

uint64_t tablemem_bytes(const struct tablemem *mem)
{
	return atomic_load_explicit(&mem->bytes, memory_order_relaxed);
}

uint64_t tablemem_take_refused(struct tablemem *mem)
{
	return atomic_exchange_explicit(&mem->refused_bytes, 0, memory_order_relaxed);
}

static size_t lines_bytes(size_t bytes)
{
	return bytes + LINE_BYTES + sizeof(void *);
}

void *tablemem_alloc_lines(struct tablemem *mem, size_t bytes)
{
	void *p = tablemem_alloc(mem, lines_bytes(bytes)), **lines;

	if (!p)
		return NULL;
	lines = (void **)(((uintptr_t)p + sizeof(void *) + LINE_BYTES - 1) & ~(uintptr_t)(LINE_BYTES - 1));
	lines[-1] = p;
	return lines;
}

void tablemem_free_lines(struct tablemem *mem, void *p, size_t bytes)
{
	if (p)
		tablemem_free(mem, ((void **)p)[-1], lines_bytes(bytes));
}

static size_t touched_bytes(const struct tablerange *range)
{
	return (range->bytes / TABLEMEM_PAGE_BYTES + 63) / 64 * sizeof(uint64_t);
}

int tablerange_init(struct tablemem *mem, struct tablerange *range, size_t bytes)
{
	*range = (struct tablerange){ .bytes = (bytes + TABLEMEM_PAGE_BYTES - 1) & ~(size_t)(TABLEMEM_PAGE_BYTES - 1) };
	range->touched = tablemem_alloc(mem, touched_bytes(range));
	if (!range->touched)
		return -ENOMEM;
	range->base = mem->ops->reserve(mem->ops->ctx, range->bytes);
	if (!range->base) {
		tablerange_done(mem, range);
		return -ENOMEM;
	}
	return 0;
}

void tablerange_done(struct tablemem *mem, struct tablerange *range)
{
	uint64_t pages = 0;

	if (range->touched)
		for (size_t i = 0; i < touched_bytes(range) / sizeof(uint64_t); i++)
			pages += (uint64_t)__builtin_popcountll(
				atomic_load_explicit(&range->touched[i], memory_order_relaxed));
	if (range->base)
		mem->ops->unreserve(mem->ops->ctx, range->base, range->bytes);
	tablemem_uncharge(mem, pages * TABLEMEM_PAGE_BYTES);
	tablemem_free(mem, range->touched, touched_bytes(range));
	*range = (struct tablerange){ 0 };
}

int tablerange_touch(struct tablemem *mem, struct tablerange *range, size_t offset)
{
	size_t page = offset / TABLEMEM_PAGE_BYTES;
	uint64_t bit = UINT64_C(1) << (page % 64);

	assert(offset < range->bytes);
	if (atomic_load_explicit(&range->touched[page / 64], memory_order_relaxed) & bit)
		return 0;
	if (!tablemem_charge(mem, TABLEMEM_PAGE_BYTES))
		return -ENOMEM;
	/* Relaxed: only the count depends on who was first. */
	if (atomic_fetch_or_explicit(&range->touched[page / 64], bit, memory_order_relaxed) & bit)
		tablemem_uncharge(mem, TABLEMEM_PAGE_BYTES);
	return 0;
}
