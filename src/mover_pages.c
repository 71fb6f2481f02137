/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <assert.h>
#include <errno.h>
#include <numa.h>
#include <numaif.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "cleanup.h"
#include "mover.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* since Linux 6.1 */
#endif

/*
 * The kernel asks for CAP_SYS_PTRACE over another user's process, not for CAP_SYS_NICE as move_pages(2) says (measured
 * on 6.12); for MPOL_MF_MOVE_ALL it wants that as well.
 */
static long move_with(uint32_t pid, size_t n, void **addrs, int nid, int *status, int flags)
{
	int nodes[MOVER_BATCH_MAX];

	assert(pid != 0 && n <= MOVER_BATCH_MAX); /* pid 0 would be pghotd itself */
	for (size_t i = 0; i < n; i++)
		nodes[i] = nid;
	long r = numa_move_pages((int)pid, n, addrs, nodes, status, flags);

	return r < 0 ? -errno : r;
}

/* A page that several processes map is left alone: -EACCES. */
static long move(void *ctx, uint32_t pid, size_t n, void **addrs, int nid, int *status)
{
	(void)ctx;
	return move_with(pid, n, addrs, nid, status, MPOL_MF_MOVE);
}

static long move_all(void *ctx, uint32_t pid, size_t n, void **addrs, int nid, int *status)
{
	(void)ctx;
	return move_with(pid, n, addrs, nid, status, MPOL_MF_MOVE_ALL);
}

/* The pid was checked just before; by the descriptor it stays the same process from here on. */
static long collapse(void *ctx, uint32_t pid, uint64_t addr, uint64_t bytes)
{
	struct iovec range = { .iov_base = (void *)(uintptr_t)addr, .iov_len = bytes };
	_cleanup_close_ int fd = -1;

	(void)ctx;
	fd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (fd < 0)
		return -errno;
	return syscall(SYS_process_madvise, fd, &range, 1, MADV_COLLAPSE, 0) == (long)bytes ? 0 : -errno;
}

static long query(void *ctx, uint32_t pid, size_t n, void **addrs, int *status)
{
	(void)ctx;
	assert(pid != 0 && n <= MOVER_BATCH_MAX);
	long r = numa_move_pages((int)pid, n, addrs, NULL, status, 0);

	return r < 0 ? -errno : r;
}

const struct mover_ops mover_pages_ops = {
	.name = "move_pages", .move = move, .move_all = move_all, .collapse = collapse, .query = query
};
