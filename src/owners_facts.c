/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cleanup.h"
#include "owners_facts.h"
#include "parse.h"

#define STAT_BYTES    2048
#define FIELD_STATE   3 /* proc_pid_stat(5) */
#define FIELD_POLICY  41
#define SCHED_FIFO_   1 /* include/uapi/linux/sched.h */
#define SCHED_RR_     2
#define SCHED_DEADLN_ 6
#define CGROUP_DEPTH  64

static bool begins(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

bool owners_facts_is_device(const char *path)
{
	return begins(path, "/dev/vfio/") || begins(path, "/dev/uio") || begins(path, "/dev/infiniband/");
}

/* "Name:   123 kB" of /proc/PID/status. 0 where there is no such line, as for VmPin of old kernels. */
static uint64_t kib_line(const char *text, const char *name)
{
	const char *at = strstr(text, name);
	char number[24];
	uint64_t kib;
	size_t len;

	if (!at)
		return 0;
	at += strlen(name);
	at += strspn(at, " \t");
	len = strspn(at, "0123456789");
	if (len >= sizeof(number))
		return 0;
	memcpy(number, at, len);
	number[len] = '\0';
	return parse_u64(number, 0, UINT64_MAX >> 10, &kib) == 0 ? kib << 10 : 0;
}

static int read_status(const struct fsroot *root, uint32_t pid, struct owner_facts *ret)
{
	_cleanup_free_ char *text = NULL;
	unsigned int uid;
	const char *at;
	int r = fsroot_read_alloc(root, &text, "proc/%u/status", pid);

	if (r < 0)
		return r == -ENOENT ? -ESRCH : r;
	/* Each begins a line; the first line is the name, which can't hold a newline. */
	at = strstr(text, "\nUid:");
	if (!at || sscanf(at, "\nUid: %*u %u", &uid) != 1)
		return -EBADMSG;
	if (!strstr(text, "\nVmRSS:"))
		return -ESRCH;
	ret->uid = uid;
	ret->rss_bytes = kib_line(text, "\nVmRSS:");
	ret->pinned_bytes = kib_line(text, "\nVmPin:");
	ret->locked_bytes = kib_line(text, "\nVmLck:");
	return 0;
}

/* The kernel puts this behind the path of what was removed. */
static void cut_deleted(char *path)
{
	static const char tail[] = " (deleted)";
	size_t len = strlen(path), n = sizeof(tail) - 1;

	if (len > n && strcmp(path + len - n, tail) == 0)
		path[len - n] = '\0';
}

/*
 * "N:controllers:path" lines. The unified hierarchy has N 0; where systemd still keeps its units in a hierarchy of its
 * own, that one says more.
 */
static int read_cgroup(const struct fsroot *root, uint32_t pid, struct owner_facts *ret)
{
	_cleanup_free_ char *text = NULL;
	char *rest, *line;
	int best = 0;
	int r = fsroot_read_alloc(root, &text, "proc/%u/cgroup", pid);

	ret->cgroup[0] = '\0';
	if (r == -ENOENT)
		return fsroot_exists(root, "proc/%u/status", pid) ? 0 : -ESRCH;
	if (r < 0)
		return r;
	rest = text;
	while ((line = strsep(&rest, "\n"))) {
		char *names = strchr(line, ':'), *path = names ? strchr(names + 1, ':') : NULL;
		int rank;

		if (!path)
			continue;
		*path++ = '\0';
		rank = begins(line, "0:") && strcmp(path, "/") != 0 ? 4
		       : strstr(names, "name=systemd")              ? 3
		       : strstr(names, "memory")                    ? 2
								    : 1;
		if (rank <= best)
			continue;
		if (strlen(path) >= sizeof(ret->cgroup))
			return -ENAMETOOLONG;
		best = rank;
		strcpy(ret->cgroup, path);
	}
	cut_deleted(ret->cgroup);
	return 0;
}

static bool says_off(const struct fsroot *root, const char *mount, const char *path, size_t len)
{
	char value[16];
	int n = fsroot_getxattr(root, value, sizeof(value), "user.pghot.mode", "%s%.*s", mount, (int)len, path);

	return n == 3 && memcmp(value, "off", 3) == 0;
}

/* The group itself and all above it, the mount included. */
static bool cgroup_is_off(const struct fsroot *root, const char *path)
{
	const char *mount = fsroot_exists(root, "sys/fs/cgroup/unified") ? "sys/fs/cgroup/unified" : "sys/fs/cgroup";
	size_t len = strlen(path);

	for (int depth = 0; depth < CGROUP_DEPTH; depth++) {
		if (says_off(root, mount, path, len))
			return true;
		if (len == 0)
			return false;
		while (len > 0 && path[len - 1] != '/')
			len--;
		if (len > 0)
			len--;
	}
	return false;
}

static int read_exe(const struct fsroot *root, uint32_t pid, struct owner_facts *ret)
{
	int r = fsroot_readlink(root, ret->exe, sizeof(ret->exe), "proc/%u/exe", pid);

	if (r == -ENOENT) {
		ret->exe[0] = '\0';
		return 0;
	}
	if (r < 0)
		return r;
	cut_deleted(ret->exe);
	return 0;
}

struct walk {
	const struct fsroot *root;
	uint32_t pid;
	struct owner_facts *facts;
	unsigned int left;
};

static int look_at_file(void *ctx, const char *name)
{
	struct walk *walk = ctx;
	char target[FACTS_PATH_MAX];

	if (walk->left-- == 0)
		return 1;
	/* Closed meanwhile, or longer than any that matters. */
	if (fsroot_readlink(walk->root, target, sizeof(target), "proc/%u/fd/%s", walk->pid, name) < 0)
		return 0;
	walk->facts->device = walk->facts->device || owners_facts_is_device(target);
	return 0;
}

/* The name stands in brackets and may itself hold brackets and spaces: it ends with the last one. */
static bool is_real_time(char *stat)
{
	char *close = strrchr(stat, ')'), *save = NULL;
	int field = FIELD_STATE;
	uint64_t policy;

	if (!close)
		return false;
	for (char *token = strtok_r(close + 1, " ", &save); token; token = strtok_r(NULL, " ", &save), field++)
		if (field == FIELD_POLICY && parse_u64(token, 0, UINT64_MAX, &policy) == 0)
			return policy == SCHED_FIFO_ || policy == SCHED_RR_ || policy == SCHED_DEADLN_;
	return false;
}

static int look_at_thread(void *ctx, const char *name)
{
	struct walk *walk = ctx;
	char stat[STAT_BYTES];

	if (walk->left-- == 0)
		return 1;
	if (fsroot_read(walk->root, stat, sizeof(stat), "proc/%u/task/%s/stat", walk->pid, name) >= 0)
		walk->facts->real_time = walk->facts->real_time || is_real_time(stat);
	return walk->facts->real_time;
}

int owners_facts_who(const struct fsroot *root, uint32_t pid, struct owner_facts *ret)
{
	int r;

	*ret = (struct owner_facts){ 0 };
	r = read_status(root, pid, ret);
	if (r == 0)
		r = read_cgroup(root, pid, ret);
	if (r == 0)
		r = read_exe(root, pid, ret);
	return r;
}

int owners_facts_device(const struct fsroot *root, uint32_t pid)
{
	struct owner_facts facts = { 0 };
	struct walk walk = { .root = root, .pid = pid, .facts = &facts, .left = FACTS_FILES_MAX };
	int r = fsroot_ask(root, FSROOT_DEVICE, pid, 0, NULL, 0);

	if (r != -ENOSYS)
		return r > 0 ? 1 : r;
	r = fsroot_for_each(root, look_at_file, &walk, "proc/%u/fd", pid);
	if (r < 0)
		return r;
	return facts.device;
}

int owners_facts_read(const struct fsroot *root, uint32_t pid, struct owner_facts *ret)
{
	struct walk walk = { .root = root, .pid = pid, .facts = ret, .left = FACTS_THREADS_MAX };
	int r = owners_facts_who(root, pid, ret);

	if (r == 0) {
		ret->cgroup_off = cgroup_is_off(root, ret->cgroup);
		r = owners_facts_device(root, pid);
	}
	if (r >= 0) {
		ret->device = r > 0;
		r = fsroot_for_each(root, look_at_thread, &walk, "proc/%u/task", pid);
	}
	if (r == -ENOENT)
		return -ESRCH;
	return r < 0 ? r : 0;
}

void owners_facts_user(const struct fsroot *root, uint32_t uid, char *ret, size_t size)
{
	_cleanup_free_ char *text = NULL;
	char *rest, *line;

	ret[0] = '\0';
	if (fsroot_read_alloc(root, &text, "etc/passwd") < 0)
		return;
	rest = text;
	while ((line = strsep(&rest, "\n"))) {
		char *fields = line, *name = strsep(&fields, ":");
		uint64_t its;
		char *number;

		(void)strsep(&fields, ":");
		number = strsep(&fields, ":");
		if (!number || parse_u64(number, 0, UINT32_MAX, &its) < 0 || its != uid || strlen(name) >= size)
			continue;
		strcpy(ret, name);
		return;
	}
}
