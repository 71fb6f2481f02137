/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * owners_map: of what kind each part of a process's memory is, as far as it decides whether its pages may move: a
 * snapshot, made from /proc/PID/maps and numa_maps, and from smaps when the process has locked memory.
 *
 * numa_maps and smaps walk all pages of a process (79 ms for 6 GiB), mapping by mapping. The process may wait for that
 * when it maps something, though as little as can be (maps_lines.h), and a snapshot is for a thread that nobody waits
 * for, and for rare moments. Source: show_numa_map(), fs/proc/task_mmu.c.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fsroot.h"

#define OWNERS_MAP_RANGES_MAX 65536 /* of 16 bytes; vm.max_map_count allows 65530 mappings by default */

enum owners_memory_kind {
	MEMORY_BOUND = 1 << 0,   /* under a policy other than default and local: its program's own wish */
	MEMORY_LOCKED = 1 << 1,  /* mlock() */
	MEMORY_HUGETLB = 1 << 2, /* of a hugetlb pool */
	MEMORY_COMMON = 1 << 3,  /* several processes may map it: MAP_SHARED, tmpfs, memfd, SysV */
	MEMORY_OF_FILE = 1 << 4, /* a mapped file, or a private copy of its pages */
	MEMORY_UNKNOWN = 1 << 5, /* nothing was mapped there, or nothing is known of it */
};

struct owners_map;

/*
 * Take a snapshot of @pid. @locked: it has locked memory, so find out which. @go_on is asked between buffers; false
 * from it ends the work with -ECANCELED. NULL with -errno in @ret_error: -ESRCH (gone), -ENOMEM (also: more ranges than
 * OWNERS_MAP_RANGES_MAX), -ENOENT (a kernel without numa_maps), or as the files say. Blocks. Any thread.
 */
struct owners_map *owners_map_read(const struct fsroot *root, uint32_t pid, bool locked, bool (*go_on)(void *ctx),
				   void *ctx, int *ret_error);
void owners_map_free(struct owners_map *map);

/* Bits of enum owners_memory_kind for @addr. A binary search. Any thread. */
unsigned int owners_map_find(const struct owners_map *map, uint64_t addr);

size_t owners_map_ranges(const struct owners_map *map);

/* true when a device of owners_facts_is_device() is mapped, even if it was closed since. */
bool owners_map_has_device(const struct owners_map *map);
