/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * mover_fault: what a query means that answers -EFAULT for a page. It does so where nothing is mapped, for a page that
 * was never touched (Linux 6.1), and for the page of zeroes that all reads of untouched memory share; a mapping that
 * can't migrate is refused by the move call only. Source: do_pages_stat_array(), mm/migrate.c.
 */
#pragma once

#include <stdint.h>

#include "mover.h"

/*
 * MOVER_ZERO_PAGE or MOVER_NOT_PRESENT; MOVER_NOT_MIGRATABLE where @mover has no root or /proc/@pid/pagemap can't be
 * read. Two system calls and a close; for what is rare. Migrator threads.
 */
enum mover_result mover_fault_result(const struct mover *mover, uint32_t pid, uint64_t addr);

/*
 * Is the page of @pid at @addr in memory, by its pagemap: 1, 0, or -errno. Another user's is for root alone, so a
 * daemon without its rights asks, see fsroot_ask(). Any thread.
 */
int mover_fault_page(const struct fsroot *root, uint32_t pid, uint64_t addr);
