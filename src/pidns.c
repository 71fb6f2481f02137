/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <string.h>

#include "parse.h"
#include "pidns.h"

#define PID_INIT_INODE 0xEFFFFFFCU

int pidns_is_child(const struct fsroot *root)
{
	static const char prefix[] = "pid:[";
	char link[64], *number;
	uint64_t inode;
	int len = fsroot_readlink(root, link, sizeof(link), "proc/self/ns/pid");

	if (len < 0)
		return len;
	if (strncmp(link, prefix, strlen(prefix)) != 0 || link[len - 1] != ']')
		return -EINVAL;
	link[len - 1] = '\0';
	number = link + strlen(prefix);
	if (parse_u64(number, 1, UINT64_MAX, &inode) < 0)
		return -EINVAL;
	return inode != PID_INIT_INODE;
}
