/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tablemem: the memory of the hotness tables: counted to the byte, bounded, and taken through a table of functions, so
 * that a test can refuse any of it. What is in use is counted; what an allocator holds free between it comes on top.
 *
 * Writers     any thread
 * Protection  relaxed atomics: a count carries no other data; the bound itself is exact (compare-and-swap)
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TABLEMEM_PAGE_BYTES 4096

struct nodeset;

struct tablemem_ops {
	void *(*alloc)(void *ctx, size_t bytes); /* zeroed, aligned to 16; NULL: none */
	void (*free)(void *ctx, void *p, size_t bytes);
	/* Address space that reads as zero and takes memory by the page, when it is written to. NULL: none. */
	void *(*reserve)(void *ctx, size_t bytes);
	void (*unreserve)(void *ctx, void *p, size_t bytes);
	/* Give back the memory of whole pages within a reservation; they read as zero again. */
	void (*discard)(void *ctx, void *p, size_t bytes);
	/* What an allocation of @bytes takes; NULL: as tablemem_libc. */
	uint64_t (*cost)(size_t bytes);
	/* Put 2 MiB of a reservation, all of it in use, into a huge page. false: not done, which is as good. May be
	 * NULL. */
	bool (*collapse)(void *ctx, void *p, size_t bytes);
	/*
	 * Let a reservation take its memory from @nodes, as long as they have some: set_mempolicy(2),
	 * MPOL_PREFERRED_MANY. A wish: a kernel that doesn't know it gives memory all the same. May be NULL.
	 */
	void (*bind)(void *ctx, void *p, size_t bytes, const struct nodeset *nodes);
	void *ctx;
};

/* The C library and mmap(2). */
extern const struct tablemem_ops tablemem_libc;

struct tablemem {
	const struct tablemem_ops *ops;
	_Atomic uint64_t bytes;
	_Atomic uint64_t max_bytes;
	_Atomic uint64_t refused_bytes; /* the most that was refused at the bound since tablemem_take_refused() */
};

/* @ops NULL: tablemem_libc. Before any other thread. */
void tablemem_init(struct tablemem *mem, const struct tablemem_ops *ops, uint64_t max_bytes);

/* Zeroed memory, or NULL: the bound is reached, or there is none. Any thread. */
void *tablemem_alloc(struct tablemem *mem, size_t bytes);
/* The same past the bound: for the janitor, where a small allocation frees a larger one. */
void *tablemem_alloc_over(struct tablemem *mem, size_t bytes);
/* @bytes as asked for; accepts NULL. Any thread. */
void tablemem_free(struct tablemem *mem, void *p, size_t bytes);

/* As tablemem_alloc(), aligned to a cache line, with its own way to free it. */
void *tablemem_alloc_lines(struct tablemem *mem, size_t bytes);
void tablemem_free_lines(struct tablemem *mem, void *p, size_t bytes);

/* What an allocation of @bytes takes; tablemem_libc's: glibc has a header of 8 bytes and steps of 16, 32 at least. */
uint64_t tablemem_cost(const struct tablemem *mem, size_t bytes);

/* Count @bytes of a reservation as taken: false at the bound. Any thread. */
bool tablemem_charge(struct tablemem *mem, uint64_t bytes);
void tablemem_uncharge(struct tablemem *mem, uint64_t bytes);

uint64_t tablemem_bytes(const struct tablemem *mem);
/* Size of the largest thing that the bound refused since the last call; 0: none. Janitor. */
uint64_t tablemem_take_refused(struct tablemem *mem);

/* A reserved array whose pages are counted when they are first used, and never given back. */
struct tablerange {
	char *base;
	size_t bytes;
	_Atomic uint64_t *touched; /* a bit for each page */
};

/* 0 or -ENOMEM. */
int tablerange_init(struct tablemem *mem, struct tablerange *range, size_t bytes);
void tablerange_done(struct tablemem *mem, struct tablerange *range); /* accepts a zeroed one */

/* Before the first write to the page at @offset: 0, or -ENOMEM at the bound. Any thread; costs one load later on. */
int tablerange_touch(struct tablemem *mem, struct tablerange *range, size_t offset);
