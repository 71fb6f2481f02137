/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * privops_saved: the file that remembers what the settings were before we changed them. Text, so that a person can read
 * it when everything else has failed:
 *
 *     pghotd-saved 1
 *     numa_balancing 0 2
 *     numa_balancing_promote_rate_limit_MBps 65536 0
 *
 * the first line being the version, the others name, value before, value after. While a value of ours is being replaced
 * by another one there are two after: whichever the setting has, it is ours. Main thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "privops.h"

#define PRIVOPS_SAVED_AFTER_MAX 2
#define PRIVOPS_SAVED_TEXT_MAX  512

struct privops_saved_entry {
	bool present;
	uint64_t before;
	int n_after; /* 1..PRIVOPS_SAVED_AFTER_MAX */
	uint64_t after[PRIVOPS_SAVED_AFTER_MAX];
};

struct privops_saved {
	struct privops_saved_entry entry[SETTING_MAX];
};

/* true when @value is one that we wrote. */
bool privops_saved_is_ours(const struct privops_saved_entry *entry, uint64_t value);

/* -EBADMSG for anything but what privops_saved_format() writes. Pure. */
int privops_saved_parse(const char *text, size_t len, struct privops_saved *ret);

/* Length of the text in @buf, which always suffices; 0 when nothing is present. Pure. */
size_t privops_saved_format(const struct privops_saved *saved, char buf[PRIVOPS_SAVED_TEXT_MAX]);

/*
 * Read @path. 0; -ENOENT when there is none; -EPERM when it belongs to someone else than root and us, or others may
 * write it; -EBADMSG when it is no file, or not of our making, or of another version; else what reading gave (-ELOOP
 * for a symbolic link). Changes nothing.
 */
int privops_saved_load(const char *path, struct privops_saved *ret);

/*
 * Write @saved to @path: as a new file of mode 0600, flushed, then renamed over the old one, then the folder flushed,
 * so that a crash leaves the old or the new one, whole. Removes the file when nothing is present. The folder is made
 * (0755) if it is missing, its parent isn't. 0 or -errno, and then the old file is as it was, except when only the last
 * flush failed.
 */
int privops_saved_store(const char *path, const struct privops_saved *saved);
