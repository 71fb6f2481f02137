/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <unistd.h>

#include "cleanup.h"
#include "fsroot.h"
#include "mover_fault.h"
#include "sample.h"

#define PAGEMAP_PRESENT (1ULL << 63) /* Documentation/admin-guide/mm/pagemap.rst */

enum mover_result mover_fault_result(const struct mover *mover, uint32_t pid, uint64_t addr)
{
	_cleanup_close_ int fd = -1;
	uint64_t entry;

	if (!mover->root)
		return MOVER_NOT_MIGRATABLE;
	fd = fsroot_open_file(mover->root, "proc/%u/pagemap", pid);
	if (fd < 0 ||
	    pread(fd, &entry, sizeof(entry), (off_t)(addr / PAGE_SIZE_BYTES * sizeof(entry))) != (ssize_t)sizeof(entry))
		return MOVER_NOT_MIGRATABLE;
	return entry & PAGEMAP_PRESENT ? MOVER_ZERO_PAGE : MOVER_NOT_PRESENT;
}
