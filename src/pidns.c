/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <string.h>

#include "parse.h"
#include "pidns.h"

#define PID_INIT_INODE    0xEFFFFFFCU
#define CGROUP_INIT_INODE 0xEFFFFFFBU

/* Is the namespace at @path, a link "@prefix" number "]", another one than the first of its kind? */
static int is_child(const struct fsroot *root, const char *path, const char *prefix, uint64_t first)
{
	char link[64], *number;
	uint64_t inode;
	int len = fsroot_readlink(root, link, sizeof(link), "%s", path);

	if (len < 0)
		return len;
	if (strncmp(link, prefix, strlen(prefix)) != 0 || link[len - 1] != ']')
		return -EINVAL;
	link[len - 1] = '\0';
	number = link + strlen(prefix);
	if (parse_u64(number, 1, UINT64_MAX, &inode) < 0)
		return -EINVAL;
	return inode != first;
}

int pidns_is_child(const struct fsroot *root)
{
	return is_child(root, "proc/self/ns/pid", "pid:[", PID_INIT_INODE);
}

int pidns_cgroup_is_child(const struct fsroot *root)
{
	return is_child(root, "proc/self/ns/cgroup", "cgroup:[", CGROUP_INIT_INODE);
}
