/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <numaif.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "outcomes_kinds.h"
#include "sample.h"

#define PAGE       PAGE_SIZE_BYTES
#define PIPE_PAGES 8            /* a pipe holds 16 buffers */
#define HIGH_ADDR  (1ULL << 50) /* beyond 47 bits: five levels of page tables */

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

static int policy(int mode, int nid)
{
	unsigned long nodes[2] = { nid >= 0 ? 1UL << nid : 0 };

	return set_mempolicy(mode, nid >= 0 ? nodes : NULL, nid >= 0 ? 64 : 0);
}

static void *map(uint64_t bytes, int flags)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | flags, -1, 0);

	return at == MAP_FAILED ? NULL : at;
}

static int give(void *at, uint32_t n, uint64_t page_bytes)
{
	if (!at)
		return -errno;
	given->addr = (uint64_t)(uintptr_t)at;
	given->n = n;
	given->page_bytes = page_bytes;
	return 0;
}

/* @n base pages on the slow node, written. */
static char *far_pages(uint32_t n)
{
	char *at = map(n * PAGE, MAP_PRIVATE);

	if (!at)
		return NULL;
	madvise(at, n * PAGE, MADV_NOHUGEPAGE);
	policy(MPOL_BIND, SLOW);
	memset(at, 1, n * PAGE);
	policy(MPOL_DEFAULT, -1);
	return at;
}

int kind_plain(void)
{
	return give(far_pages(PAGES), PAGES, PAGE);
}

/* Enough to fill what is left of the other node. */
int kind_many(void)
{
	return give(far_pages(96 * 256), 96 * 256, PAGE);
}

int kind_untouched(void)
{
	return give(map(PAGES * PAGE, MAP_PRIVATE), PAGES, PAGE);
}

int kind_read_only(void)
{
	char *at = map(PAGES * PAGE, MAP_PRIVATE);

	if (!at || madvise(at, PAGES * PAGE, MADV_NOHUGEPAGE) || madvise(at, PAGES * PAGE, MADV_POPULATE_READ))
		return -errno;
	return give(at, PAGES, PAGE);
}

/* A process of its own maps the same pages until this one ends. */
int kind_shared(void)
{
	char *at = far_pages(PAGES);
	pid_t pid = at ? fork() : -1;

	if (pid < 0)
		return -errno;
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	return give(at, PAGES, PAGE);
}

/* The kernel holds pages that lie in a pipe. */
int kind_pinned(void)
{
	struct iovec iov = { .iov_len = PIPE_PAGES * PAGE };
	int fds[2];

	iov.iov_base = far_pages(PIPE_PAGES);
	if (!iov.iov_base || pipe(fds) || vmsplice(fds[1], &iov, 1, 0) != (ssize_t)iov.iov_len)
		return -errno;
	return give(iov.iov_base, PIPE_PAGES, PAGE);
}

/* Pages of the kernel's own that are mapped: they have a node, and are on no LRU list, so nobody can take them off it.
 */
int kind_off_lru(void)
{
	union bpf_attr attr = { .map_type = BPF_MAP_TYPE_ARRAY,
				.key_size = 4,
				.value_size = PAGES * PAGE,
				.max_entries = 1,
				.map_flags = BPF_F_MMAPABLE | BPF_F_NUMA_NODE,
				.numa_node = SLOW };
	int fd = (int)syscall(SYS_bpf, BPF_MAP_CREATE, &attr, sizeof(attr));
	char *at = fd < 0 ? MAP_FAILED : mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (at == MAP_FAILED)
		return -errno;
	memset(at, 1, PAGES * PAGE);
	return give(at, PAGES, PAGE);
}

int kind_in_cpuset(void)
{
	static const char *const words[][2] = { { "/sys/fs/cgroup/lab-outcomes/cpuset.mems", "1" },
						{ "/sys/fs/cgroup/lab-outcomes/cgroup.procs", "0" } };

	if (mkdir("/sys/fs/cgroup/lab-outcomes", 0755) && errno != EEXIST)
		return -errno;
	for (size_t i = 0; i < 2; i++) {
		int fd = open(words[i][0], O_WRONLY | O_CLOEXEC);

		if (fd < 0 || write(fd, words[i][1], 1) != 1)
			return -errno;
		close(fd);
	}
	return kind_plain();
}

int kind_huge(void)
{
	char *at = map((HUGE_PAGES + 1) * REGION_BYTES, MAP_PRIVATE);

	if (!at)
		return -errno;
	at = (char *)(((uintptr_t)at + REGION_BYTES - 1) & ~(uintptr_t)(REGION_BYTES - 1));
	if (madvise(at, HUGE_PAGES * REGION_BYTES, MADV_HUGEPAGE))
		return -errno;
	policy(MPOL_BIND, SLOW);
	memset(at, 1, HUGE_PAGES * REGION_BYTES);
	policy(MPOL_DEFAULT, -1);
	return give(at, HUGE_PAGES, REGION_BYTES);
}

int kind_of_a_pool(void)
{
	char *at;

	policy(MPOL_BIND, SLOW);
	at = map(HUGE_PAGES * REGION_BYTES, MAP_PRIVATE | MAP_HUGETLB);
	if (!at)
		return -errno;
	memset(at, 1, HUGE_PAGES * REGION_BYTES);
	policy(MPOL_DEFAULT, -1);
	return give(at, HUGE_PAGES, REGION_BYTES);
}

/* 2 MiB of base pages that could be one huge page. */
int kind_small_region(void)
{
	char *at = map(2 * REGION_BYTES, MAP_PRIVATE);

	if (!at)
		return -errno;
	at = (char *)(((uintptr_t)at + REGION_BYTES - 1) & ~(uintptr_t)(REGION_BYTES - 1));
	madvise(at, REGION_BYTES, MADV_NOHUGEPAGE);
	policy(MPOL_BIND, SLOW);
	memset(at, 1, REGION_BYTES);
	policy(MPOL_DEFAULT, -1);
	madvise(at, REGION_BYTES, MADV_HUGEPAGE);
	return give(at, REGION_PAGES, PAGE);
}

int kind_high(void)
{
	char *at = mmap((void *)(uintptr_t)HIGH_ADDR, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			-1, 0);

	if (at == MAP_FAILED)
		return -errno;
	if ((uintptr_t)at >> 47 == 0)
		return -ERANGE;
	policy(MPOL_BIND, SLOW);
	memset(at, 1, PAGES * PAGE);
	policy(MPOL_DEFAULT, -1);
	return give(at, PAGES, PAGE);
}

_Noreturn void kind_unmap_for_ever(void)
{
	char *at = (char *)(uintptr_t)given->addr;

	for (uint64_t i = 1;; i = i + 2 < given->n ? i + 2 : 1) {
		munmap(at + i * PAGE, PAGE);
		mmap(at + i * PAGE, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		at[i * PAGE] = 1;
		atomic_fetch_add_explicit(&given->remapped, 1, memory_order_relaxed);
	}
}
