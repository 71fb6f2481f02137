/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <assert.h>
#include <errno.h>

#include "mover.h"

int mover_place(const struct mover *mover, uint32_t pid, const uint64_t *addrs, size_t n, int *ret_nids)
{
	void *pages[MOVER_BATCH_MAX];
	long r;

	assert(pid != 0 && n > 0 && n <= MOVER_BATCH_MAX);
	for (size_t i = 0; i < n; i++) {
		/* An address of another process: never followed, only handed to the kernel. */
		pages[i] = (void *)(uintptr_t)addrs[i];
		ret_nids[i] = MOVER_STATUS_UNWRITTEN;
	}
	r = mover->ops->query(mover->ctx, pid, n, pages, ret_nids);
	if (r < 0)
		return r == -EINVAL ? -ESRCH : (int)r; /* without memory: exiting; the arguments were checked */
	for (size_t i = 0; i < n; i++)
		if (ret_nids[i] == MOVER_STATUS_UNWRITTEN)
			ret_nids[i] = -EIO;
	return 0;
}
