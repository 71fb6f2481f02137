/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ctl_file: replaces a configuration file as a whole, or not at all. In three steps, so that whatever can fail has
 * failed before anybody is told: read, write beside it, put in its place. For pghotctl's own files; its one thread.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#define CTL_FILE_ERROR_MAX 512
#define CTL_FILE_WAIT_MS   3000

struct ctl_file {
	char path[PATH_MAX]; /* with links followed: what is replaced */
	bool exists, is_mount;
	struct stat st;
	char *text;             /* "" of one that doesn't exist */
	uint64_t mark;          /* config_mark() of it; 0: it doesn't exist */
	char new[PATH_MAX + 8]; /* written beside it; "": not yet */
	int lock_fd;            /* 0: not locked */
	char lock[PATH_MAX + 8];
};

/*
 * Before ctl_file_read(), on a @file that is all 0: wait until nobody else saves into @path, CTL_FILE_WAIT_MS at most,
 * by a file beside it that is there meanwhile. 0, or -errno with @error: -EBUSY: somebody still does. Close it in any
 * case.
 */
int ctl_file_lock(struct ctl_file *file, const char *path, char *error);

/*
 * Read @path, following links, into a @file that is all 0 but for its lock. 0, also where there is none, or -errno with
 * @error (CTL_FILE_ERROR_MAX bytes): -EINVAL: no ordinary file, too large, no text, or a link to nothing. Close it in
 * any case.
 */
int ctl_file_read(struct ctl_file *file, const char *path, char *error);

/*
 * Write @text beside it, with its owner, group and mode, down to the disk. 0 or -errno with @error, and then nothing is
 * left there; -EBUSY: it is a mount of its own.
 */
int ctl_file_write(struct ctl_file *file, const char *text, char *error);

/* What was written takes its place. 0, or -errno with @error: -EBUSY: it is another one by now; the old one stays. */
int ctl_file_replace(struct ctl_file *file, char *error);

/* Free it all; what was written and did not take its place is removed. */
void ctl_file_close(struct ctl_file *file);
