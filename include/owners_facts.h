/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * owners_facts: what the kernel says of a process that decides whether its pages may move. Reads /proc and the control
 * groups, a few dozen small files for each process, so it is for a thread that nobody waits for.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "fsroot.h"

#define FACTS_PATH_MAX 4096
/* Of a process with more, the first so many are looked at: what a look costs stays below 0.1 s or so. */
#define FACTS_FILES_MAX   16384
#define FACTS_THREADS_MAX 256

struct owner_facts {
	char cgroup[FACTS_PATH_MAX]; /* below the mount: "/system.slice/x.service"; "" on a kernel without */
	char exe[FACTS_PATH_MAX];    /* "" when it has none */
	uint32_t uid;                /* effective */
	uint64_t rss_bytes;          /* VmRSS */
	uint64_t pinned_bytes;       /* VmPin */
	uint64_t locked_bytes;       /* VmLck */
	bool real_time;              /* one of its threads runs under SCHED_FIFO, SCHED_RR or SCHED_DEADLINE */
	bool device;                 /* has a file of /dev/vfio, /dev/uio* or /dev/infiniband open */
	bool cgroup_off;             /* its control group, or one above, has user.pghot.mode = off */
};

/*
 * Read all of it. 0; -ESRCH: there is no such process, or it has no memory of its own (a kernel thread, a zombie);
 * other -errno: it can't be told now. Who must be sure that the pid wasn't another's meanwhile asks owners_check()
 * afterwards. Any thread.
 */
int owners_facts_read(const struct fsroot *root, uint32_t pid, struct owner_facts *ret);

/*
 * The part of it by which rules match: cgroup, exe, uid, and what else stands in the same files (rss_bytes,
 * pinned_bytes, locked_bytes); the rest of @ret is 0. Three files. As owners_facts_read(). Any thread.
 */
int owners_facts_who(const struct fsroot *root, uint32_t pid, struct owner_facts *ret);

/*
 * Does @pid have a file of such a device open? 1, 0, or -errno. The list of another user's files is for root alone, so
 * a daemon without root's rights asks its helper, see fsroot_ask(). Any thread.
 */
int owners_facts_device(const struct fsroot *root, uint32_t pid);

/* true for the path of a device through which memory is reached by physical address. */
bool owners_facts_is_device(const char *path);

/*
 * Name of @uid in etc/passwd into @ret ("" when it has none or the file can't be read). Directory services are not
 * asked: that could block for long. Any thread.
 */
void owners_facts_user(const struct fsroot *root, uint32_t uid, char *ret, size_t size);
