/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fake_kernel.h"

#define PAGE  4096ULL
#define BATCH 512 /* NR_MAX_BATCHED_MIGRATION */

void fake_kernel_init(struct fake_kernel *kernel, int nodes, uint64_t free_pages)
{
	assert(nodes <= FAKE_NODES);
	memset(kernel, 0, sizeof(*kernel));
	for (int i = 0; i < nodes; i++) {
		kernel->has_memory[i] = true;
		kernel->free_pages[i] = free_pages;
	}
}

void fake_kernel_done(struct fake_kernel *kernel)
{
	for (size_t i = 0; i < kernel->n_processes; i++)
		free(kernel->process[i].folios);
	kernel->n_processes = 0;
}

struct fake_process *fake_process_add(struct fake_kernel *kernel, uint32_t pid)
{
	struct fake_process *p = &kernel->process[kernel->n_processes++];

	assert(kernel->n_processes <= sizeof(kernel->process) / sizeof(kernel->process[0]));
	memset(p, 0, sizeof(*p));
	p->pid = pid;
	p->alive = true;
	for (int i = 0; i < FAKE_NODES; i++)
		nodeset_add(&p->cpuset, i);
	return p;
}

struct fake_process *fake_process_find(struct fake_kernel *kernel, uint32_t pid)
{
	for (size_t i = 0; i < kernel->n_processes; i++)
		if (kernel->process[i].pid == pid)
			return &kernel->process[i];
	return NULL;
}

struct fake_folio *fake_folio_add(struct fake_process *process, uint64_t addr, uint64_t bytes, int nid,
				  unsigned int flags)
{
	size_t i = process->n_folios;

	if (process->n_folios == process->room) {
		process->room = process->room ? process->room * 2 : 64;
		process->folios = realloc(process->folios, process->room * sizeof(*process->folios));
		assert(process->folios);
	}
	for (; i > 0 && process->folios[i - 1].addr > addr; i--)
		process->folios[i] = process->folios[i - 1];
	process->folios[i] = (struct fake_folio){ .addr = addr, .bytes = bytes, .nid = nid, .flags = flags };
	process->n_folios++;
	return &process->folios[i];
}

struct fake_folio *fake_folio_find(struct fake_process *process, uint64_t addr)
{
	size_t low = 0, high = process->n_folios;

	while (low < high) {
		size_t mid = (low + high) / 2;
		struct fake_folio *f = &process->folios[mid];

		if (addr < f->addr)
			high = mid;
		else if (addr >= f->addr + f->bytes)
			low = mid + 1;
		else
			return f;
	}
	return NULL;
}

static struct fake_process *enter(struct fake_kernel *kernel, uint32_t pid, long *error)
{
	struct fake_process *p = fake_process_find(kernel, pid);

	if (!p || !p->alive)
		*error = -ESRCH;
	else if (p->denied)
		*error = -EPERM;
	else if (p->no_memory_map)
		*error = -EINVAL;
	else
		return p;
	return NULL;
}

struct queue {
	struct fake_folio *folio[MOVER_BATCH_MAX];
	size_t n;
};

static void maybe_die(struct fake_kernel *kernel)
{
	if (kernel->dying_pid == 0 || kernel->die_after-- > 0)
		return;
	struct fake_process *p = fake_process_find(kernel, kernel->dying_pid);

	/* Its memory lives on until the call that holds it is over. */
	if (p)
		p->alive = false;
	kernel->dying_pid = 0;
}

/* migrate_pages(): 512 base pages at a time; those that fail are counted; no memory ends it, what has moved has moved.
 */
static long migrate(struct fake_kernel *kernel, struct queue *queue, int nid)
{
	size_t done = 0;
	long failed = 0;

	while (done < queue->n) {
		uint64_t pages = 0;

		for (; done < queue->n && pages < BATCH; done++) {
			struct fake_folio *f = queue->folio[done];

			pages += f->bytes / PAGE;
			maybe_die(kernel);
			if (f->flags & FAKE_PINNED) {
				failed++;
				continue;
			}
			if (kernel->free_pages[nid] < f->bytes / PAGE)
				return -ENOMEM;
			kernel->free_pages[nid] -= f->bytes / PAGE;
			kernel->free_pages[f->nid] += f->bytes / PAGE;
			kernel->moved_pages += f->bytes / PAGE;
			f->nid = nid;
		}
	}
	return failed;
}

/* move_pages_and_store_status() */
static long flush(struct fake_kernel *kernel, struct queue *queue, int nid, int *status, size_t start, size_t i,
		  size_t n)
{
	long r;

	if (queue->n == 0)
		return 0;
	r = migrate(kernel, queue, nid);
	for (size_t k = 0; k < queue->n; k++)
		queue->folio[k]->isolated = false;
	queue->n = 0;
	if (r > 0)
		return r + (long)(n - i);
	if (r < 0)
		return r;
	for (size_t k = start; k < i; k++)
		status[k] = nid;
	return 0;
}

/* add_page_for_migration(): 1 queued, 0 in place, or -errno. */
static int enqueue(struct fake_process *p, uint64_t addr, int nid, bool all, struct queue *queue)
{
	struct fake_folio *f = fake_folio_find(p, addr);

	if (!f || (f->flags & FAKE_UNMOVABLE))
		return -EFAULT;
	if (f->flags & FAKE_ABSENT)
		return -ENOENT;
	if (f->nid == nid)
		return 0;
	if ((f->flags & FAKE_SHARED) && !all)
		return -EACCES;
	if (f->isolated || (f->flags & FAKE_OFF_LRU))
		return -EBUSY;
	f->isolated = true;
	queue->folio[queue->n++] = f;
	return 1;
}

/* Is this a call that ought to be made? */
static void inspect(struct fake_kernel *kernel, uint32_t pid, size_t n, void **addrs)
{
	struct fake_process *p = fake_process_find(kernel, pid);
	uint64_t pages = 0;
	bool bad = pid == 0 || n == 0 || n > MOVER_BATCH_MAX;

	for (size_t i = 0; i < n && !bad; i++) {
		struct fake_folio *f = p ? fake_folio_find(p, (uint64_t)(uintptr_t)addrs[i]) : NULL;

		pages += f ? f->bytes / PAGE : 1;
		bad = bad || (p && !f);
		for (size_t j = 0; j < i && !bad; j++)
			bad = addrs[i] == addrs[j];
	}
	kernel->bad_calls += bad;
	if (pages > kernel->largest_call_pages)
		kernel->largest_call_pages = pages;
}

/* do_pages_move() */
static long do_move(struct fake_kernel *kernel, struct fake_process *p, size_t n, void **addrs, int nid, bool all,
		    int *status)
{
	struct queue queue = { .n = 0 };
	size_t start = 0, i;
	bool fresh = true;
	long err = 0, err1;

	for (i = 0; i < n; i++) {
		if (kernel->move_error && i >= kernel->error_after) {
			err = kernel->move_error;
			goto out_flush;
		}
		if (nid >= FAKE_NODES || !kernel->has_memory[nid]) {
			err = -ENODEV;
			goto out_flush;
		}
		if (!nodeset_has(&p->cpuset, nid)) {
			err = -EACCES;
			goto out_flush;
		}
		if (fresh) {
			start = i;
			fresh = false;
		}
		err = enqueue(p, (uint64_t)(uintptr_t)addrs[i], nid, all, &queue);
		if (err > 0)
			continue;
		status[i] = err ? (int)err : nid;
		err = flush(kernel, &queue, nid, status, start, i, n);
		if (err) {
			if (err > 0)
				err--;
			return err;
		}
		fresh = true;
	}
	err = 0;
out_flush:
	err1 = flush(kernel, &queue, nid, status, start, i, n);
	return err >= 0 ? err1 : err;
}

static long move(struct fake_kernel *kernel, uint32_t pid, size_t n, void **addrs, int nid, bool all, int *status)
{
	struct fake_process *p;
	long r = 0;

	kernel->move_calls++;
	kernel->move_all_calls += all;
	inspect(kernel, pid, n, addrs);
	if (kernel->on_move)
		kernel->on_move(kernel->on_move_ctx, pid, n, nid);
	p = enter(kernel, pid, &r);
	if (!p)
		return r;
	r = do_move(kernel, p, n, addrs, nid, all, status);
	kernel->move_error = 0;
	return r;
}

static long fake_move(void *ctx, uint32_t pid, size_t n, void **addrs, int nid, int *status)
{
	return move(ctx, pid, n, addrs, nid, false, status);
}

static long fake_move_all(void *ctx, uint32_t pid, size_t n, void **addrs, int nid, int *status)
{
	return move(ctx, pid, n, addrs, nid, true, status);
}

static long fake_collapse(void *ctx, uint32_t pid, uint64_t addr, uint64_t bytes)
{
	struct fake_kernel *kernel = ctx;

	kernel->collapse_calls++;
	kernel->collapsed_addr = addr;
	kernel->bad_calls += bytes != 2 << 20 || addr % bytes != 0 || !fake_process_find(kernel, pid);
	return kernel->collapse_error;
}

static long fake_query(void *ctx, uint32_t pid, size_t n, void **addrs, int *status)
{
	struct fake_kernel *kernel = ctx;
	struct fake_process *p;
	long r = 0;

	kernel->query_calls++;
	if (kernel->query_error && kernel->query_calls == kernel->query_error_at)
		return kernel->query_error;
	p = enter(kernel, pid, &r);
	if (!p)
		return r;
	for (size_t i = 0; i < n; i++) {
		struct fake_folio *f = fake_folio_find(p, (uint64_t)(uintptr_t)addrs[i]);

		if (!f)
			status[i] = -EFAULT;
		else if (f->flags & FAKE_ABSENT)
			status[i] = -ENOENT;
		else
			status[i] = f->nid;
	}
	return 0;
}

const struct mover_ops fake_kernel_ops = {
	.name = "fake", .move = fake_move, .move_all = fake_move_all, .collapse = fake_collapse, .query = fake_query
};
