/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * privops: every act that an ordinary user may not do, behind one door: opening events, and the sysctls that the
 * hint-fault source needs, with their restoring. Called directly where the process may do it itself; where it runs as a
 * user of its own, a helper process does it (privops_client.h), without a caller noticing. Main thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fsroot.h"

struct perf_event_attr;

/* The settings that may be changed; nothing else can be named. */
enum privops_setting {
	SETTING_NUMA_BALANCING,    /* proc/sys/kernel/numa_balancing */
	SETTING_NUMA_PROMOTE_RATE, /* proc/sys/kernel/numa_balancing_promote_rate_limit_MBps */
	SETTING_MAX,
};

#define PRIVOPS_VALUE_MAX INT32_MAX

/* Below the root, and as sysctl(8) names them. */
extern const char *const privops_setting_path[SETTING_MAX];
extern const char *const privops_setting_name[SETTING_MAX];

struct privops_restored {
	int restored; /* put back */
	int left;     /* someone else has changed it since, or it is gone: theirs stays */
	int failed;   /* couldn't be read or written; still in the saved file for the next try */
};

struct privops_ops {
	/*
	 * As perf_event_open(2) with pid -1, no group, PERF_FLAG_FD_CLOEXEC. A descriptor or -errno; of a helper
	 * process also -EBADRQC: it does no such thing; -ETIMEDOUT, -ENOTCONN, -ECONNRESET, -ECONNREFUSED, -EPIPE: it
	 * doesn't answer.
	 */
	int (*event_open)(void *ctx, const struct perf_event_attr *attr, int cpu);
	/*
	 * Switch on or off what event_open() gave. 0 or -errno. NULL: the ioctl, which needs no privilege; it is here
	 * so that whoever makes up descriptors can see it.
	 */
	int (*event_enable)(void *ctx, int fd, bool on);
	/* Change its period. 0 or -errno; -EINVAL for one that the PMU doesn't take. NULL: the ioctl, as above. */
	int (*event_period)(void *ctx, int fd, uint64_t period);
	/* privops_setting_set() and privops_restore() by somebody else. NULL: here. */
	int (*setting_set)(void *ctx, enum privops_setting setting, uint64_t value);
	int (*restore)(void *ctx, struct privops_restored *ret);
};

struct privops {
	const struct privops_ops *ops;
	void *ctx;
	struct fsroot root;     /* for the sysctls; borrowed */
	const char *saved_path; /* "/run/pghotd/saved": what to put back */
};

/* The running kernel. */
extern const struct privops_ops privops_direct;

/*
 * A machine that is only looked at, by a copy of its /sys and /proc: an event of a unit that these number is not
 * opened, since that number is another unit's here; what its settings and /proc/self/status say is answered. @ctx is
 * the struct privops itself. For probing only: the descriptor is of nothing.
 */
extern const struct privops_ops privops_elsewhere;

/* Through @priv->ops; see there. */
int privops_event_open(const struct privops *priv, const struct perf_event_attr *attr, int cpu);
int privops_event_enable(const struct privops *priv, int fd, bool on);
int privops_event_period(const struct privops *priv, int fd, uint64_t period);

/*
 * Current value, 0..PRIVOPS_VALUE_MAX. -ENOENT: this kernel has no such setting; -EINVAL, -ERANGE: what is there is no
 * such number; else what reading gave.
 */
int privops_setting_get(const struct privops *priv, enum privops_setting setting, uint64_t *ret);

/*
 * Set @setting to @value (0..PRIVOPS_VALUE_MAX, else -ERANGE), having first written its old value and the new one to
 * the saved file (fsync, rename), whose folder is made if it is missing. An entry that is already there is kept: the
 * oldest "before" is the one to put back. 0 or -errno, in which case nothing was changed: what privops_setting_get() or
 * privops_saved_load() say, -EACCES when the kernel lets nobody but uid 0 write, -EROFS below a read-only /proc/sys.
 * When it has the value already nothing is written, and so nothing will be put back.
 */
int privops_setting_set(const struct privops *priv, enum privops_setting setting, uint64_t value);

/*
 * Put back everything in the saved file that still has the value we wrote, then remove the file. What has its old value
 * already (we were killed between saving and setting, or someone put it back) counts nowhere. No file is 0 with nothing
 * restored. -errno when the file can't be read or isn't ours (see privops_saved_load(); it is then left, and @ret is
 * all 0), or can't be removed. Logs one line for each setting. Killed anywhere in it, a second run does the rest.
 */
int privops_restore(const struct privops *priv, struct privops_restored *ret);
