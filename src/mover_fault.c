/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <unistd.h>

#include "cleanup.h"
#include "fsroot.h"
#include "mover_fault.h"
#include "sample.h"

#define PAGEMAP_PRESENT (1ULL << 63) /* Documentation/admin-guide/mm/pagemap.rst */

int mover_fault_page(const struct fsroot *root, uint32_t pid, uint64_t addr)
{
	_cleanup_close_ int fd = fsroot_open_file(root, "proc/%u/pagemap", pid);
	uint64_t entry;
	ssize_t n;

	if (fd < 0)
		return fd;
	n = pread(fd, &entry, sizeof(entry), (off_t)(addr / PAGE_SIZE_BYTES * sizeof(entry)));
	if (n != (ssize_t)sizeof(entry))
		return n < 0 ? -errno : -ENODATA;
	return (entry & PAGEMAP_PRESENT) != 0;
}

enum mover_result mover_fault_result(const struct mover *mover, uint32_t pid, uint64_t addr)
{
	int r;

	if (!mover->root)
		return MOVER_NOT_MIGRATABLE;
	r = fsroot_ask(mover->root, FSROOT_PAGE, pid, addr, NULL, 0);
	if (r == -ENOSYS)
		r = mover_fault_page(mover->root, pid, addr);
	return r < 0 ? MOVER_NOT_MIGRATABLE : r ? MOVER_ZERO_PAGE : MOVER_NOT_PRESENT;
}
