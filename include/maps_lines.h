/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * maps_lines: the lines of maps, numa_maps and smaps of a process, read so that the process hardly waits for it.
 *
 * The kernel holds the process's memory map for reading for as long as it fills what one read() asks for, and the
 * process waits for that when it maps something; so little is asked for at a time: a few mappings. And one that waits
 * sleeps by then: before it runs, the next read() takes the map again, which the kernel's lock lets a reader do for
 * 4 ms. So there is a pause as long as was read, each 50 us of reading. Source: seq_read_iter(), fs/seq_file.c;
 * m_start(), fs/proc/task_mmu.c; rwsem_down_read_slowpath() and RWSEM_WAIT_TIMEOUT, kernel/locking/rwsem.c.
 */
#pragma once

#include <stdbool.h>

#define MAPS_LINES_READ_BYTES 512
#define MAPS_LINES_PAUSE_NS   50000ULL    /* so much is read without one */
#define MAPS_LINES_LONGEST_NS 10000000ULL /* none is longer, however long a read took */

/*
 * Hand each line of @fd, without its newline, to @take, until that returns other than 0, which is returned; it may
 * write to the line. @go_on (NULL: yes) is asked after each read; false from it ends the work with -ECANCELED.
 * 0; -ENOMEM; -EBADMSG: a line of more than 64 KiB, which these files have none of (a path has at most 4096 bytes, each
 * of which may become four); -errno of the reading. Blocks, half of its time or more in pauses. Any thread.
 */
int maps_lines_read(int fd, int (*take)(void *ctx, char *line), void *ctx, bool (*go_on)(void *ctx), void *go_on_ctx);
