/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * privops_drop: giving up rights that a process was started with. Before it has threads: on Linux the credentials are
 * each thread's own.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Bit of a capability in the sets below. */
#define PRIVOPS_CAP(cap) (UINT64_C(1) << (cap))

/* What the main process has use for, and the helper; the units say what each is for. */
extern const uint64_t privops_main_caps, privops_helper_caps;

struct privops_user {
	char name[64];
	uid_t uid;
	gid_t gid;
};

/* 0, or -ENOENT when there is no such user, -ENAMETOOLONG, or what looking it up gave. */
int privops_drop_find(const char *name, struct privops_user *ret);

/* From root to @user with its groups, keeping the capabilities @keep alone. 0 or -errno: then end, it may be half done.
 */
int privops_drop_to(const struct privops_user *user, uint64_t keep);

/* Keep of its capabilities only @keep, whoever the process runs as. 0 or -errno. */
int privops_drop_caps(uint64_t keep);

/*
 * For the main process beside a helper: perf_event_open() fails from here on, whatever kernel.perf_event_paranoid says,
 * and so do the calls by which CAP_SYS_PTRACE would reach into a process that has more rights: ptrace(),
 * process_vm_readv(), process_vm_writev(), pidfd_getfd(), kcmp(); /proc/PID/mem is closed by its mode. 0; -ENOTSUP on a
 * processor whose calls aren't known here; -EINVAL from a kernel without seccomp.
 */
int privops_drop_calls(void);
