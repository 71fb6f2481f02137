/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "clock.h"
#include "mover.h"
#include "mover_fault.h"
#include "nodeset.h"
#include "sample.h"
#include "stats.h"

#define UNSET MOVER_RESULT_MAX

const char *const mover_result_name[MOVER_RESULT_MAX] = {
	[MOVER_OK] = "ok",
	[MOVER_ALREADY] = "already",
	[MOVER_BUSY] = "busy",
	[MOVER_NOT_PRESENT] = "not_present",
	[MOVER_SHARED] = "shared",
	[MOVER_ZERO_PAGE] = "zero_page",
	[MOVER_PINNED] = "pinned",
	[MOVER_NOT_MIGRATABLE] = "not_migratable",
	[MOVER_NO_MEMORY] = "no_memory",
	[MOVER_CPUSET] = "cpuset",
	[MOVER_GONE] = "gone",
	[MOVER_DENIED] = "denied",
	[MOVER_FAILED] = "failed",
};

static const enum stat_id stat_of[MOVER_RESULT_MAX] = {
	[MOVER_OK] = STAT_MOVE_OK,
	[MOVER_ALREADY] = STAT_MOVE_ALREADY,
	[MOVER_BUSY] = STAT_MOVE_BUSY,
	[MOVER_NOT_PRESENT] = STAT_MOVE_NOT_PRESENT,
	[MOVER_SHARED] = STAT_MOVE_SHARED,
	[MOVER_ZERO_PAGE] = STAT_MOVE_ZERO_PAGE,
	[MOVER_PINNED] = STAT_MOVE_PINNED,
	[MOVER_NOT_MIGRATABLE] = STAT_MOVE_NOT_MIGRATABLE,
	[MOVER_NO_MEMORY] = STAT_MOVE_NO_MEMORY,
	[MOVER_CPUSET] = STAT_MOVE_CPUSET,
	[MOVER_GONE] = STAT_MOVE_GONE,
	[MOVER_DENIED] = STAT_MOVE_DENIED,
	[MOVER_FAILED] = STAT_MOVE_FAILED,
};

struct pair {
	int from_nid, to_nid;
	uint64_t page_bytes;
	_Atomic uint64_t pages[MOVER_RESULT_MAX]; /* relaxed: a count carries no other data, and there is one writer */
};

struct mover_outcomes {
	_Atomic size_t
		n;   /* N1 release by the writer pairs with N2 acquire in for_each: a pair's nodes are there first */
	size_t last; /* the writer's: pages of one call mostly share a pair */
	struct pair pair[MOVER_PAIRS_MAX];
};

struct mover_outcomes *mover_outcomes_new(void)
{
	return calloc(1, sizeof(struct mover_outcomes));
}

void mover_outcomes_free(struct mover_outcomes *outcomes)
{
	free(outcomes);
}

static bool is_pair(const struct pair *pair, int from_nid, int to_nid, uint64_t page_bytes)
{
	return pair->from_nid == from_nid && pair->to_nid == to_nid && pair->page_bytes == page_bytes;
}

static struct pair *pair_of(struct mover_outcomes *o, int from_nid, int to_nid, uint64_t page_bytes)
{
	size_t n = atomic_load_explicit(&o->n, memory_order_relaxed); /* ours */
	size_t i = o->last;

	if (i < n && is_pair(&o->pair[i], from_nid, to_nid, page_bytes))
		return &o->pair[i];
	for (i = 0; i < n; i++)
		if (is_pair(&o->pair[i], from_nid, to_nid, page_bytes))
			break;
	if (i == n && n == MOVER_PAIRS_MAX)
		return &o->pair[MOVER_PAIRS_MAX - 1];
	if (i == n) {
		bool rest = i == MOVER_PAIRS_MAX - 1;

		o->pair[i].from_nid = rest ? -1 : from_nid;
		o->pair[i].to_nid = rest ? -1 : to_nid;
		o->pair[i].page_bytes = rest ? 0 : page_bytes;
		atomic_store_explicit(&o->n, n + 1, memory_order_release); /* N1 */
	}
	o->last = i;
	return &o->pair[i];
}

void mover_outcomes_for_each(const struct mover_outcomes *o, void (*fn)(void *ctx, const struct mover_outcome *outcome),
			     void *ctx)
{
	size_t n = atomic_load_explicit(&o->n, memory_order_acquire); /* N2 */

	for (size_t i = 0; i < n; i++) {
		for (int r = 0; r < MOVER_RESULT_MAX; r++) {
			const struct mover_outcome outcome = {
				.from_nid = o->pair[i].from_nid,
				.to_nid = o->pair[i].to_nid,
				.page_bytes = o->pair[i].page_bytes,
				.result = (enum mover_result)r,
				.pages = atomic_load_explicit(&o->pair[i].pages[r], memory_order_relaxed),
			};

			if (outcome.pages)
				fn(ctx, &outcome);
		}
	}
}

static void count(const struct mover *mover, int nid, const struct mover_page *page)
{
	struct pair *pair = pair_of(mover->outcomes, page->from_nid, nid, page->bytes);
	uint64_t n = page->bytes / PAGE_SIZE_BYTES;
	_Atomic uint64_t *cell = &pair->pages[page->result];

	stats_add(mover->stats, stat_of[page->result], n);
	atomic_store_explicit(cell, atomic_load_explicit(cell, memory_order_relaxed) + n, memory_order_relaxed);
}

void mover_account(const struct mover *mover, int nid, struct mover_page *pages, size_t n, enum mover_result result)
{
	for (size_t i = 0; i < n; i++) {
		pages[i].result = result;
		count(mover, nid, &pages[i]);
	}
}

/* What the kernel said of one page. Source: add_page_for_migration() and do_pages_stat_array(), mm/migrate.c. */
static enum mover_result page_error(int status)
{
	switch (status) {
	case -EFAULT: /* a mapping that can't migrate; but see mover_fault.h */
		return MOVER_NOT_MIGRATABLE;
	case -ENOENT:
		return MOVER_NOT_PRESENT;
	case -EACCES:
		return MOVER_SHARED;
	case -EBUSY:
		return MOVER_BUSY;
	case -ENOMEM:
		return MOVER_NO_MEMORY;
	default:
		return MOVER_FAILED;
	}
}

/* What the kernel said of the whole call. Source: kernel_move_pages() and do_pages_move(), mm/migrate.c. */
static enum mover_result call_error(long error)
{
	switch (error) {
	case -ESRCH:
	case -EINVAL: /* a process without memory: a kernel thread, or one that is exiting; our arguments were checked
		       */
		return MOVER_GONE;
	case -EPERM:
		return MOVER_DENIED;
	case -EACCES:
		return MOVER_CPUSET;
	case -ENOMEM:
	case -ENODEV: /* the target has no memory, any more */
		return MOVER_NO_MEMORY;
	default:
		return MOVER_FAILED;
	}
}

/* Pages that are still to be moved, as the call wants them. */
struct list {
	size_t n;
	struct mover_page *page[MOVER_BATCH_MAX];
	void *addr[MOVER_BATCH_MAX];
};

static void list_add(struct list *list, struct mover_page *page)
{
	list->page[list->n] = page;
	/* An address of another process: never followed, only handed to the kernel. */
	list->addr[list->n] = (void *)(uintptr_t)page->addr;
	list->n++;
}

static long ask(const struct mover *mover, uint32_t pid, struct list *list, int *status)
{
	for (size_t i = 0; i < list->n; i++)
		status[i] = MOVER_STATUS_UNWRITTEN;
	return mover->ops->query(mover->ctx, pid, list->n, list->addr, status);
}

/*
 * Where is each page now? One that is in place, or can't be asked for, has its result already: in the list it would
 * cut the kernel's batch in two. The others make up @list.
 */
static void locate(const struct mover *mover, uint32_t pid, int nid, struct mover_page *pages, size_t n,
		   struct list *list)
{
	int status[MOVER_BATCH_MAX];
	struct list all;
	long r;

	all.n = 0;
	for (size_t i = 0; i < n; i++)
		list_add(&all, &pages[i]);
	r = ask(mover, pid, &all, status);
	for (size_t i = 0; i < n; i++) {
		struct mover_page *page = &pages[i];
		int s = status[i];

		if (s >= 0)
			page->from_nid = s;
		if (s >= 0 && (s == nid || (mover->fast && nodeset_has(mover->fast, s))))
			page->result = MOVER_ALREADY;
		else if (s == -EFAULT)
			page->result = mover_fault_result(mover, pid, page->addr);
		else if (s < 0 && s != MOVER_STATUS_UNWRITTEN)
			page->result = page_error(s);
		else if (r < 0)
			page->result = call_error(r);
		else if (s == MOVER_STATUS_UNWRITTEN)
			page->result = MOVER_FAILED;
		else
			list_add(list, page);
	}
}

/*
 * First page that a call with a positive return did not try. The kernel writes the status of a page it can't queue, and
 * then flushes what it had queued before; when that fails it leaves, with the queued ones' status unwritten. So when
 * something is unwritten before the last written status, all behind that was never looked at; otherwise the failing
 * batch reached to the end.
 */
static size_t first_untried(const int *status, size_t n)
{
	size_t last = n;

	while (last > 0 && status[last - 1] == MOVER_STATUS_UNWRITTEN)
		last--;
	for (size_t i = 0; i < last; i++)
		if (status[i] == MOVER_STATUS_UNWRITTEN)
			return last;
	return n;
}

/* What became of a page, from its status of the call (@status), and from where it is now (@now) when that was asked. */
static enum mover_result settle(int nid, int status, int now, long error)
{
	bool written = status != MOVER_STATUS_UNWRITTEN;

	if (now == nid)
		return MOVER_OK;
	if (written && status < 0)
		return page_error(status);
	if (now >= 0) /* a positive return: it was tried, and something held it */
		return error < 0 ? call_error(error) : error > 0 ? MOVER_PINNED : MOVER_FAILED;
	/* It can't be found any more: it moved if the kernel said so, then it was unmapped. */
	if (status == nid)
		return MOVER_OK;
	if (now != MOVER_STATUS_UNWRITTEN)
		return page_error(now);
	return error < 0 ? call_error(error) : MOVER_FAILED;
}

/* One move call for @list; what was not tried stays in it. */
static void call_once(const struct mover *mover, uint32_t pid, int nid, struct list *list, struct mover_summary *sum)
{
	int status[MOVER_BATCH_MAX], now[MOVER_BATCH_MAX];
	size_t n = list->n, untried = n;
	uint64_t pages = 0;
	bool complete = true;
	uint64_t start_ns;
	long r, error;

	for (size_t i = 0; i < n; i++)
		status[i] = MOVER_STATUS_UNWRITTEN;
	for (size_t i = 0; i < n; i++)
		pages += list->page[i]->bytes / PAGE_SIZE_BYTES;
	if (sum->calls++ == 0)
		sum->call_pages = pages;
	start_ns = clock_now_ns(mover->clock);
	r = (mover->shared ? mover->ops->move_all : mover->ops->move)(mover->ctx, pid, n, list->addr, nid, status);
	sum->call_ns += clock_now_ns(mover->clock) - start_ns;
	stats_inc(mover->stats, STAT_MOVE_CALLS);

	for (size_t i = 0; i < n; i++)
		complete = complete && status[i] != MOVER_STATUS_UNWRITTEN;
	error = r;
	if (r != 0 || !complete) {
		long asked = ask(mover, pid, list, now);

		if (asked < 0)
			error = asked; /* the later word: the process may have ended during the call */
	} else {
		for (size_t i = 0; i < n; i++)
			now[i] = status[i];
	}
	if (r > 0)
		untried = first_untried(status, n);

	list->n = 0;
	for (size_t i = 0; i < n; i++) {
		struct mover_page *page = list->page[i];

		if (i >= untried && now[i] >= 0 && now[i] != nid)
			list_add(list, page);
		else
			page->result = settle(nid, status[i], now[i], error);
	}
}

static bool stopped(const struct mover *mover)
{
	return mover->stop && atomic_load_explicit(mover->stop, memory_order_relaxed);
}

int mover_move(const struct mover *mover, uint32_t pid, int nid, struct mover_page *pages, size_t n,
	       struct mover_summary *ret)
{
	struct list list;
	int r = 0;

	*ret = (struct mover_summary){ 0 };
	if (pid == 0 || pid > INT32_MAX || nid < 0 || nid >= NODE_MAX || n == 0 || n > MOVER_BATCH_MAX)
		return -EINVAL;
	if (stopped(mover))
		return -EINTR;
	for (size_t i = 0; i < n; i++) {
		pages[i].result = UNSET;
		pages[i].untried = false;
	}

	list.n = 0;
	locate(mover, pid, nid, pages, n, &list);
	for (int calls = 0; list.n > 0 && calls < MOVER_CALLS_MAX && !stopped(mover); calls++)
		call_once(mover, pid, nid, &list, ret);
	for (size_t i = 0; i < list.n; i++) {
		list.page[i]->result = MOVER_BUSY;
		list.page[i]->untried = true;
	}

	for (size_t i = 0; i < n; i++) {
		assert(pages[i].result != UNSET);
		count(mover, nid, &pages[i]);
		if (pages[i].result == MOVER_OK) {
			ret->moved_pages += pages[i].bytes / PAGE_SIZE_BYTES;
			ret->moved_bytes += pages[i].bytes;
		} else if (pages[i].result == MOVER_GONE) {
			r = -ESRCH;
		} else if (pages[i].result == MOVER_DENIED) {
			r = -EPERM;
		}
	}
	stats_add(mover->stats, STAT_MOVE_NS, ret->call_ns);
	return r;
}
