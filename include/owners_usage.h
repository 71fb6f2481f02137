/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * owners_usage: how much memory a process has on some nodes, by /proc/PID/numa_maps. That is a walk of all its pages;
 * see owners_map.h and maps_lines.h for what it costs.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "fsroot.h"

struct nodeset;

/*
 * Bytes that @pid has mapped on @nodes into @ret_bytes; what several processes map counts for each. @go_on is asked
 * between reads; false from it ends the work with -ECANCELED. 0, -ESRCH (gone), -ENOMEM, -ENOENT (a kernel without
 * numa_maps), or as the file says. Blocks. Any thread.
 */
int owners_usage_read(const struct fsroot *root, uint32_t pid, const struct nodeset *nodes, bool (*go_on)(void *ctx),
		      void *ctx, uint64_t *ret_bytes);
