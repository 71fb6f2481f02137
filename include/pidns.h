/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * pidns: do we see the pids of the whole machine? A process in a child pid namespace gets samples whose pid is 0 for
 * everything outside, and could promote nothing.
 */
#pragma once

#include "fsroot.h"

/*
 * 1: we run in a child pid namespace; 0: in the machine's own; -errno when /proc doesn't say (-EINVAL: in a way that
 * isn't understood). Asks for the inode of /proc/self/ns/pid, which is fixed for the first namespace (PROC_PID_INIT_INO
 * in include/linux/proc_ns.h) and never given to another. NSpid in /proc/self/status would not do: it begins at the
 * namespace that /proc was mounted in, so under a /proc of the child's own it shows one pid as well. Any thread.
 */
int pidns_is_child(const struct fsroot *root);

/*
 * The same of the cgroup namespace, in which the paths of /proc/PID/cgroup begin elsewhere and /sys/fs/cgroup has a
 * part only (cgroup_namespaces(7)); the first one's inode is PROC_CGROUP_INIT_INO in include/linux/proc_ns.h. Any
 * thread.
 */
int pidns_cgroup_is_child(const struct fsroot *root);
