/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fsroot: every read of /sys and /proc goes through one of these, so that a recorded machine in a
 * folder is test input. Paths are relative to the root ("sys/devices/system/node/has_cpu"); slashes in front are taken
 * off, so that none leads out of it by mistake.
 *
 * Any thread may use one fsroot at the same time: it holds nothing but a descriptor, and whom to ask.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What the daemon wants to know and a process without root's rights can't read. Where a helper process stands in, the
 * answer comes from there; nothing else can be asked.
 */
enum fsroot_question {
	FSROOT_PGHOT_SOURCES = 1, /* sys/kernel/debug/pghot/enabled_sources */
	FSROOT_SCAN_PERIOD,       /* sys/kernel/debug/sched/numa_balancing/scan_period_max_ms */
	FSROOT_GUESTS,            /* how many names in sys/kernel/debug/kvm are of a guest; the names, a line each */
	FSROOT_RIVALS,            /* how many processes but ours hold perf events; their names, as source_rivals.h */
	FSROOT_DEVICE,            /* of a process: does it hold a device that pins memory, 0 or 1 */
	FSROOT_PAGE,              /* of a process: is its page at that address in memory, 0 or 1 */
};

#define FSROOT_SCAN_PERIOD_FILE "sys/kernel/debug/sched/numa_balancing/scan_period_max_ms"

/* Any thread may call @ask, which may wait, for a bounded time. */
struct fsroot_asker {
	int (*ask)(void *ctx, enum fsroot_question question, uint32_t pid, uint64_t addr, char *buf, size_t size);
	void *ctx;
};

struct fsroot {
	int fd;
	const struct fsroot_asker *asker; /* NULL: what may be read is read here; borrowed, copied along */
};

/* Open @path ("/" for the running machine) as a root. Returns 0 or -errno; @ret->fd is -1 on failure. */
int fsroot_open(struct fsroot *ret, const char *path);
void fsroot_close(struct fsroot *root);

/*
 * Ask whoever may read it. @pid and @addr are 0 where the question has no use for them; @buf gets the text of the
 * answer, "" when there is none. The number that is the answer; -ENOSYS when there is nobody to ask: then it is for the
 * caller to read; -errno of the reading, -ENOTCONN and -ETIMEDOUT from a helper that is gone or hangs.
 */
int fsroot_ask(const struct fsroot *root, enum fsroot_question question, uint32_t pid, uint64_t addr, char *buf,
	       size_t size);

/*
 * Read a whole small file into @buf (NUL-terminated, one trailing newline removed). @fmt gives the path.
 * Returns the length, or -errno; -EFBIG when it does not fit into @size - 1 bytes, that newline included. A file may
 * hold bytes of value 0 (/proc/PID/cmdline): the length counts them.
 */
int fsroot_read(const struct fsroot *root, char *buf, size_t size, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* Like fsroot_read(), but allocates; for files without a known bound (/proc/zoneinfo). At most 16 MiB, else -EFBIG. */
int fsroot_read_alloc(const struct fsroot *root, char **ret, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Open a file for reading piece by piece, for what may be large. A descriptor, or -errno. */
int fsroot_open_file(const struct fsroot *root, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/*
 * Value of the extended attribute @name of a file or folder into @buf, not terminated. Length or -errno: -ENODATA when
 * it has none of that name, -ERANGE when it is longer than @size, -ENOTSUP.
 */
int fsroot_getxattr(const struct fsroot *root, char *buf, size_t size, const char *name, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));

/* Read one number in base 10 (or 16 with @base 16, with or without 0x). -EINVAL when it is none, -ERANGE beyond 64
 * bits. */
int fsroot_read_u64(const struct fsroot *root, uint64_t *ret, int base, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/*
 * Write @text in one write(2) to an existing file, in place of what a plain file held. 0 or -errno; -EIO when the
 * kernel took only a part. Only privops and tests may call it.
 */
int fsroot_write(const struct fsroot *root, const char *text, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* User that a file or folder belongs to, links followed. 0 or -errno. */
int fsroot_owner(const struct fsroot *root, uint32_t *ret_uid, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Links are followed: one that leads nowhere does not exist. */
bool fsroot_exists(const struct fsroot *root, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/*
 * Call @fn for each entry of a folder (not "." and ".."), in no order, until it returns non-zero, which is then
 * returned; -errno when the folder can't be read, else 0.
 */
int fsroot_for_each(const struct fsroot *root, int (*fn)(void *ctx, const char *name), void *ctx, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* Target of a symbolic link, NUL-terminated. Length or -errno; -ENAMETOOLONG when cut. */
int fsroot_readlink(const struct fsroot *root, char *buf, size_t size, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
