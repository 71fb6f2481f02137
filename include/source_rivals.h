/* SPDX-License-Identifier: GPL-2.0-or-later */
/* source_rivals: who else has perf events open, for a line that says whom to ask. Main thread. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct fsroot;

#define SOURCE_RIVALS_MAX 3 /* that are named */

/*
 * Names and pids of processes with an open perf event, "perf (pid 812), numatop (pid 90)", into @buf; "" when none is
 * seen, as without the permission to look at the descriptors of others. Not this process. A walk of all descriptors:
 * a millisecond for some thousand processes, so once a minute at most. Returns how many there are.
 */
size_t source_rivals_name(const struct fsroot *root, char *buf, size_t size);

/* The same without asking anyone else, see fsroot_ask(), and leaving out process @but. Any thread. */
size_t source_rivals_list(const struct fsroot *root, uint32_t but, char *buf, size_t size);
