/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * promoter: who else promotes. Measured from the kernel's own counters, never guessed: pgpromote_success, and
 * numa_pages_migrated, since NUMA balancing mode 1 moves pages without touching the former.
 *
 * In mode 2 every promotion counts in both (mm/migrate.c, migrate_misplaced_folio()), and what is only in the latter is
 * balancing between fast nodes; so there the former alone is taken. Without mode 2 the two can't be told apart, and the
 * larger is taken. Neither counts what move_pages() moves, so pghotd does not see itself. Main thread, once a second.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "fsroot.h"

struct promoter {
	bool started;
	bool tiering;               /* kernel.numa_balancing had mode 2 at the last look */
	uint64_t pgpromote_success; /* at the last look; 0 where the kernel has none */
	uint64_t numa_pages_migrated;
	uint64_t promoted_pages; /* by the kernel since the start */
	uint64_t last_ns;        /* when it was last seen to promote, 0: never */
};

/*
 * Look once. Returns pages the kernel promoted since the last look (0 at the first), or -errno when /proc/vmstat can't
 * be read; @promoter is then as before. -ENOENT: this kernel counts neither (no NUMA balancing). Starts from all 0.
 */
int64_t promoter_look(struct promoter *promoter, const struct fsroot *root, uint64_t now_ns);

/* true when the kernel promoted within the last @within_ns. */
bool promoter_is_active(const struct promoter *promoter, uint64_t now_ns, uint64_t within_ns);
