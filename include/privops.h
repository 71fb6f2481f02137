/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * privops: every act that an ordinary user may not do, behind one door: opening events, and the sysctls that the
 * hint-fault source needs, with their restoring. Called directly for now; a helper process with these verbs can take
 * its place without a caller noticing.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fsroot.h"

struct perf_event_attr;

struct privops_ops {
	/* As perf_event_open(2) with pid -1, no group, PERF_FLAG_FD_CLOEXEC. A descriptor or -errno. */
	int (*event_open)(void *ctx, const struct perf_event_attr *attr, int cpu);
};

struct privops {
	const struct privops_ops *ops;
	void *ctx;
	struct fsroot root;     /* for the sysctls; borrowed */
	const char *saved_path; /* "/run/pghotd/saved": what to put back */
};

/* The running kernel. */
extern const struct privops_ops privops_direct;

/* The settings that may be changed; nothing else can be named. */
enum privops_setting {
	SETTING_NUMA_BALANCING,    /* proc/sys/kernel/numa_balancing */
	SETTING_NUMA_PROMOTE_RATE, /* proc/sys/kernel/numa_balancing_promote_rate_limit_MBps */
	SETTING_MAX,
};

extern const char *const privops_setting_path[SETTING_MAX];

/* Current value, 0..2^31-1. -ENOENT: this kernel has no such setting. */
int privops_setting_get(const struct privops *priv, enum privops_setting setting, uint64_t *ret);

/*
 * Set @setting, having first written its old value and the new one to the saved file (fsync, rename). An entry that is
 * already there is kept: the oldest "before" is the one to put back. 0 or -errno, in which case nothing was changed.
 */
int privops_setting_set(const struct privops *priv, enum privops_setting setting, uint64_t value);

struct privops_restored {
	int restored; /* put back */
	int left;     /* someone else has changed it since: theirs stays */
	int failed;
};

/*
 * Put back everything in the saved file that still has the value we wrote, then remove the file. No file is 0 with
 * nothing restored. -errno when the file can't be read or isn't ours (it is then left). Logs one line for each setting.
 */
int privops_restore(const struct privops *priv, struct privops_restored *ret);
