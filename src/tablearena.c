/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "nodeset.h"
#include "tablearena.h"

#define AREA_BYTES (UINT64_C(64) << 20)
#define RUN_BYTES  (UINT64_C(128) << 10)
#define PART_BYTES (UINT64_C(2) << 20)
#define RUNS       (AREA_BYTES / RUN_BYTES)
#define PART_RUNS  (PART_BYTES / RUN_BYTES)
#define PARTS      (AREA_BYTES / PART_BYTES)
#define GRAIN      16
#define SIZES      (TABLEARENA_SMALL_BYTES / GRAIN + 1)

struct free_block {
	struct free_block *next;
};

/* A run that has room is in the list of its size, one without a size in the list of empty ones. */
struct run {
	struct area *area;
	struct run *next, **link; /* link: what points here; NULL: in no list */
	struct free_block *free;
	uint32_t size;  /* of its blocks, in GRAINs; 0: none yet */
	uint32_t used;  /* blocks that are out */
	uint32_t fresh; /* bytes that were ever used, from the beginning of the run on */
};

struct area {
	struct area *next;
	char *base;                 /* aligned to PART_BYTES */
	char *reserved;             /* with what is left of the alignment */
	unsigned int begun;         /* runs that ever had a size */
	bool is_huge[PARTS];        /* put into a huge page, and nothing of it given back since */
	unsigned char tries[PARTS]; /* how often the kernel has refused */
	struct run run[RUNS];
};

/*
 * Blocks of sizes far apart are in areas of their own: those of growing chunks come and go, and would leave the areas
 * of those that stay full of holes, which keeps them out of huge pages.
 */
#define GROUPS 4

struct tablearena {
	struct tablemem_ops ops;
	const struct tablemem_ops *pages;
	struct nodeset nodes;
	bool has_nodes;
	pthread_mutex_t lock;
	struct area *areas[GROUPS]; /* the newest first */
	struct run *empty[GROUPS];
	struct run *with_room[SIZES];
};

#define TRIES_MAX 3

static uint64_t block_bytes(size_t bytes)
{
	return (bytes + GRAIN - 1) & ~(uint64_t)(GRAIN - 1);
}

static uint64_t page_bytes(size_t bytes)
{
	return (bytes + TABLEMEM_PAGE_BYTES - 1) & ~(uint64_t)(TABLEMEM_PAGE_BYTES - 1);
}

static void link_run(struct run **list, struct run *run)
{
	run->next = *list;
	run->link = list;
	if (run->next)
		run->next->link = &run->next;
	*list = run;
}

static void unlink_run(struct run *run)
{
	*run->link = run->next;
	if (run->next)
		run->next->link = run->link;
	run->link = NULL;
}

static void *reserve(void *ctx, size_t bytes)
{
	struct tablearena *arena = ctx;
	void *p = arena->pages->reserve(arena->pages->ctx, bytes);

	if (p && arena->has_nodes && arena->pages->bind)
		arena->pages->bind(arena->pages->ctx, p, bytes, &arena->nodes);
	return p;
}

static void unreserve(void *ctx, void *p, size_t bytes)
{
	struct tablearena *arena = ctx;

	arena->pages->unreserve(arena->pages->ctx, p, bytes);
}

static void discard(void *ctx, void *p, size_t bytes)
{
	struct tablearena *arena = ctx;

	arena->pages->discard(arena->pages->ctx, p, bytes);
}

static bool collapse(void *ctx, void *p, size_t bytes)
{
	struct tablearena *arena = ctx;

	return arena->pages->collapse && arena->pages->collapse(arena->pages->ctx, p, bytes);
}

static unsigned int group_of(uint32_t size)
{
	uint32_t bytes = size * GRAIN;

	return (bytes >= 512) + (bytes >= 2048) + (bytes >= 4096);
}

static struct area *new_area(struct tablearena *arena, unsigned int group)
{
	struct area *area = calloc(1, sizeof(*area));

	if (!area)
		return NULL;
	area->reserved = reserve(arena, AREA_BYTES + PART_BYTES);
	if (!area->reserved) {
		free(area);
		return NULL;
	}
	area->base = (char *)(((uintptr_t)area->reserved + PART_BYTES - 1) & ~(uintptr_t)(PART_BYTES - 1));
	for (unsigned int i = 0; i < RUNS; i++)
		area->run[i].area = area;
	area->next = arena->areas[group];
	arena->areas[group] = area;
	return area;
}

static struct area *area_of(const struct tablearena *arena, unsigned int group, const void *p)
{
	struct area *area = arena->areas[group];

	/* One in 64 MiB: few, and this is asked at structural changes only. */
	while (area && (uintptr_t)p - (uintptr_t)area->base >= AREA_BYTES)
		area = area->next;
	return area;
}

static char *run_base(const struct run *run)
{
	return run->area->base + (size_t)(run - run->area->run) * RUN_BYTES;
}

static bool is_full(const struct run *run)
{
	return !run->free && run->fresh + run->size * GRAIN > RUN_BYTES;
}

/* A run with room for a block of @size. */
static struct run *get_run(struct tablearena *arena, uint32_t size)
{
	unsigned int group = group_of(size);
	struct run *run = arena->with_room[size];
	struct area *area = arena->areas[group];

	if (run)
		return run;
	run = arena->empty[group];
	if (run) {
		unlink_run(run);
	} else {
		if (!area || area->begun == RUNS)
			area = new_area(arena, group);
		if (!area)
			return NULL;
		run = &area->run[area->begun++];
	}
	run->size = size;
	run->used = run->fresh = 0;
	run->free = NULL;
	link_run(&arena->with_room[size], run);
	return run;
}

static void *take_block(struct tablearena *arena, uint32_t size)
{
	struct run *run = get_run(arena, size);
	void *p;

	if (!run)
		return NULL;
	if (run->free) {
		p = run->free;
		run->free = run->free->next;
		memset(p, 0, (size_t)size * GRAIN);
	} else {
		/* As the kernel gave it: zero. */
		p = run_base(run) + run->fresh;
		run->fresh += size * GRAIN;
	}
	run->used++;
	if (is_full(run))
		unlink_run(run);
	return p;
}

static void give_block(struct tablearena *arena, uint32_t size, void *p)
{
	struct area *area = area_of(arena, group_of(size), p);
	size_t at = (size_t)((char *)p - area->base);
	struct run *run = &area->run[at / RUN_BYTES];
	struct free_block *block = p;

	if (!run->link)
		link_run(&arena->with_room[run->size], run);
	block->next = run->free;
	run->free = block;
	if (--run->used > 0)
		return;
	unlink_run(run);
	link_run(&arena->empty[group_of(size)], run);
	arena->pages->discard(arena->pages->ctx, run_base(run), RUN_BYTES);
	area->is_huge[at / PART_BYTES] = false;
	run->size = run->fresh = 0;
}

static void *arena_alloc(void *ctx, size_t bytes)
{
	struct tablearena *arena = ctx;
	void *p;

	if (bytes > TABLEARENA_SMALL_BYTES)
		return reserve(arena, page_bytes(bytes));
	pthread_mutex_lock(&arena->lock);
	p = take_block(arena, (uint32_t)(block_bytes(bytes) / GRAIN));
	pthread_mutex_unlock(&arena->lock);
	return p;
}

static void arena_dealloc(void *ctx, void *p, size_t bytes)
{
	struct tablearena *arena = ctx;

	if (bytes > TABLEARENA_SMALL_BYTES) {
		unreserve(arena, p, page_bytes(bytes));
		return;
	}
	pthread_mutex_lock(&arena->lock);
	give_block(arena, (uint32_t)(block_bytes(bytes) / GRAIN), p);
	pthread_mutex_unlock(&arena->lock);
}

static uint64_t cost(size_t bytes)
{
	return bytes > TABLEARENA_SMALL_BYTES ? page_bytes(bytes) : block_bytes(bytes);
}

struct tablearena *tablearena_new(const struct tablemem_ops *pages, const struct nodeset *nodes)
{
	struct tablearena *arena = calloc(1, sizeof(*arena));

	if (!arena)
		return NULL;
	arena->ops = (struct tablemem_ops){
		.alloc = arena_alloc,
		.free = arena_dealloc,
		.cost = cost,
		.reserve = reserve,
		.unreserve = unreserve,
		.discard = discard,
		.collapse = collapse,
		.ctx = arena,
	};
	arena->pages = pages ? pages : &tablemem_libc;
	if (nodes) {
		arena->nodes = *nodes;
		arena->has_nodes = true;
	}
	pthread_mutex_init(&arena->lock, NULL);
	return arena;
}

void tablearena_free(struct tablearena *arena)
{
	if (!arena)
		return;
	for (unsigned int group = 0; group < GROUPS; group++)
		while (arena->areas[group]) {
			struct area *area = arena->areas[group];

			for (unsigned int i = 0; i < area->begun; i++)
				assert(area->run[i].used == 0);
			arena->areas[group] = area->next;
			unreserve(arena, area->reserved, AREA_BYTES + PART_BYTES);
			free(area);
		}
	pthread_mutex_destroy(&arena->lock);
	free(arena);
}

const struct tablemem_ops *tablearena_ops(const struct tablearena *arena)
{
	return &arena->ops;
}

/* Its runs are used to the end, so that a huge page takes no more memory than is taken already. */
static bool is_in_full_use(const struct area *area, unsigned int part)
{
	for (unsigned int i = part * PART_RUNS; i < (part + 1) * PART_RUNS; i++)
		if (area->run[i].size == 0 || area->run[i].fresh + area->run[i].size * GRAIN <= RUN_BYTES)
			return false;
	return true;
}

/* The next part, from @area and @*part on, that should be in a huge page. */
static struct area *next_part(struct tablearena *arena, struct area *area, unsigned int *part)
{
	pthread_mutex_lock(&arena->lock);
	for (; area; area = area->next, *part = 0)
		for (; *part < area->begun / PART_RUNS; ++*part)
			if (!area->is_huge[*part] && area->tries[*part] < TRIES_MAX && is_in_full_use(area, *part))
				goto out;
out:
	pthread_mutex_unlock(&arena->lock);
	return area;
}

size_t tablearena_tidy(struct tablearena *arena, size_t max)
{
	size_t n = 0;

	for (unsigned int group = 0; group < GROUPS; group++) {
		unsigned int part = 0;
		struct area *area;

		pthread_mutex_lock(&arena->lock);
		area = arena->areas[group];
		pthread_mutex_unlock(&arena->lock);
		/* Areas stay, and blocks are given back by this thread only; who uses what lies there goes on
		 * meanwhile. */
		for (; n < max && (area = next_part(arena, area, &part)); part++, n++) {
			if (collapse(arena, area->base + part * PART_BYTES, PART_BYTES))
				area->is_huge[part] = true;
			else
				area->tries[part]++;
		}
	}
	return n;
}
