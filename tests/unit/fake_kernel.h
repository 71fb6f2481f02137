/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fake_kernel: processes, nodes and move_pages(2) as mm/migrate.c of 6.12 does it: pages are queued one by one, a page
 * that can't be queued flushes what was queued before, the first flush that fails ends the call with the statuses from
 * there on unwritten, and a positive return counts what was never tried. For tests; one thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mover.h"
#include "nodeset.h"

#define FAKE_NODES 8

enum fake_flags {
	FAKE_PINNED = 1 << 0,    /* can be queued, but migration fails */
	FAKE_SHARED = 1 << 1,    /* -EACCES, but with MPOL_MF_MOVE_ALL */
	FAKE_UNMOVABLE = 1 << 2, /* -EFAULT when moved; a query answers */
	FAKE_ABSENT = 1 << 3,    /* -ENOENT */
	FAKE_OFF_LRU = 1 << 4,   /* -EBUSY */
};

struct fake_folio {
	uint64_t addr;
	uint64_t bytes;
	int nid;
	unsigned int flags;
	bool isolated;
};

struct fake_process {
	uint32_t pid;
	bool alive;
	bool no_memory_map; /* a kernel thread, or exiting */
	bool denied;
	struct nodeset cpuset;
	struct fake_folio *folios; /* by address */
	size_t n_folios, room;
};

struct fake_kernel {
	bool has_memory[FAKE_NODES];
	uint64_t free_pages[FAKE_NODES];
	struct fake_process process[64];
	size_t n_processes;

	/* What to let happen. */
	uint32_t dying_pid; /* ends after @die_after more folios were looked at, in the middle of a call */
	size_t die_after;
	long move_error; /* not 0: the next move call returns it, after @error_after pages were queued */
	size_t error_after;
	long query_error; /* not 0: query number @query_error_at (from 1) returns it */
	size_t query_error_at;
	void (*on_move)(void *ctx, uint32_t pid, size_t n, int nid); /* before each move call */
	void *on_move_ctx;

	/* What was seen. */
	size_t move_calls, query_calls;
	size_t move_all_calls;     /* of move_calls */
	size_t largest_call_pages; /* base pages */
	size_t collapse_calls;
	uint64_t collapsed_addr; /* of the last of them */
	long collapse_error;     /* what they return */
	uint64_t moved_pages;    /* base pages, of all calls */
	size_t bad_calls;        /* an address twice, or of nothing that is mapped; no address, too many; pid 0 */
};

/* @ctx of these is a struct fake_kernel. */
extern const struct mover_ops fake_kernel_ops;

/* Nodes 0..@nodes-1 have memory, @free_pages each. */
void fake_kernel_init(struct fake_kernel *kernel, int nodes, uint64_t free_pages);
void fake_kernel_done(struct fake_kernel *kernel);

/* A new process, allowed on all nodes. */
struct fake_process *fake_process_add(struct fake_kernel *kernel, uint32_t pid);
struct fake_process *fake_process_find(struct fake_kernel *kernel, uint32_t pid);

/* Map a folio; not counted as taken from the node's free pages. */
struct fake_folio *fake_folio_add(struct fake_process *process, uint64_t addr, uint64_t bytes, int nid,
				  unsigned int flags);
/* The folio that holds @addr, or NULL. */
struct fake_folio *fake_folio_find(struct fake_process *process, uint64_t addr);
