/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pwd.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "privops_drop.h"

const uint64_t privops_main_caps =
	PRIVOPS_CAP(CAP_PERFMON) | PRIVOPS_CAP(CAP_SYS_PTRACE) | PRIVOPS_CAP(CAP_SYS_NICE) | PRIVOPS_CAP(CAP_IPC_LOCK);
const uint64_t privops_helper_caps =
	PRIVOPS_CAP(CAP_SYS_ADMIN) | PRIVOPS_CAP(CAP_SYS_PTRACE) | PRIVOPS_CAP(CAP_DAC_READ_SEARCH);

int privops_drop_find(const char *name, struct privops_user *ret)
{
	char buf[16384];
	struct passwd entry, *found = NULL;
	int r = getpwnam_r(name, &entry, buf, sizeof(buf), &found);

	if (r != 0)
		return -r;
	if (!found)
		return -ENOENT;
	if (strlen(name) >= sizeof(ret->name))
		return -ENAMETOOLONG;
	*ret = (struct privops_user){ .uid = entry.pw_uid, .gid = entry.pw_gid };
	strcpy(ret->name, name);
	return 0;
}

static int set_caps(uint64_t keep, bool all)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

	if (syscall(SYS_capget, &header, data) < 0)
		return -errno;
	for (int i = 0; i < _LINUX_CAPABILITY_U32S_3; i++) {
		uint32_t word = (uint32_t)(keep >> (32 * i));

		data[i].permitted &= word;
		/* A change of user has emptied this one. */
		data[i].effective = all ? data[i].permitted : data[i].effective & word;
		data[i].inheritable = 0;
	}
	return syscall(SYS_capset, &header, data) < 0 ? -errno : 0;
}

int privops_drop_caps(uint64_t keep)
{
	/* No file may give back what is given up here. */
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	return set_caps(keep, false);
}

int privops_drop_to(const struct privops_user *user, uint64_t keep)
{
	if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	/* Unknown ones end the list: prctl(2). */
	for (int cap = 0; cap < 64; cap++)
		if (!(keep & PRIVOPS_CAP(cap)) && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0 && errno == EINVAL)
			break;
	if (initgroups(user->name, user->gid) < 0 || setresgid(user->gid, user->gid, user->gid) < 0 ||
	    setresuid(user->uid, user->uid, user->uid) < 0)
		return -errno;
	return set_caps(keep, true);
}

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#endif

#define X32_BIT 0x40000000U

int privops_drop_calls(void)
{
#ifdef ARCH
	/* seccomp(2): a foreign number stands for another call, and so does one of x32. */
	static const unsigned int refused[] = {
		SYS_perf_event_open, SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, SYS_pidfd_getfd, SYS_kcmp,
	};
	enum { N = sizeof(refused) / sizeof(refused[0]) };
	struct sock_filter code[6 + N + 2] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCH, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, X32_BIT, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
	};
	struct sock_fprog program = { .len = 6 + N + 2, .filter = code };

	for (unsigned int i = 0; i < N; i++)
		code[6 + i] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, refused[i], (__u8)(N - i), 0);
	code[6 + N] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	code[6 + N + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) < 0)
		return -errno;
	return 0;
#else
	return -ENOTSUP;
#endif
}
