/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fsroot.h"
#include "parse.h"
#include "source_rivals.h"

#define PERF_LINK "anon_inode:[perf_event]"

struct search {
	const struct fsroot *root;
	const char *pid;
	uint32_t but;
	char *buf;
	size_t size, n;
};

static int look_at_descriptor(void *ctx, const char *name)
{
	const struct search *search = ctx;
	char target[64];

	/* Anything longer is no perf event. */
	return fsroot_readlink(search->root, target, sizeof(target), "proc/%s/fd/%s", search->pid, name) > 0 &&
	       strcmp(target, PERF_LINK) == 0;
}

static int look_at_process(void *ctx, const char *name)
{
	struct search *search = ctx;
	size_t used = strlen(search->buf);
	char comm[32] = "?";
	uint64_t pid;

	if (parse_u64(name, 1, INT32_MAX, &pid) < 0 || pid == search->but)
		return 0;
	search->pid = name;
	if (fsroot_for_each(search->root, look_at_descriptor, search, "proc/%s/fd", name) <= 0)
		return 0;
	if (search->n++ >= SOURCE_RIVALS_MAX)
		return 0;
	(void)fsroot_read(search->root, comm, sizeof(comm), "proc/%s/comm", name);
	snprintf(search->buf + used, search->size - used, "%s%.15s (pid %s)", used ? ", " : "", comm, name);
	return 0;
}

size_t source_rivals_list(const struct fsroot *root, uint32_t but, char *buf, size_t size)
{
	struct search search = { .root = root, .but = but, .buf = buf, .size = size };

	buf[0] = '\0';
	(void)fsroot_for_each(root, look_at_process, &search, "proc");
	return search.n;
}

size_t source_rivals_name(const struct fsroot *root, char *buf, size_t size)
{
	int r = fsroot_ask(root, FSROOT_RIVALS, 0, 0, buf, size);

	if (r == -ENOSYS)
		return source_rivals_list(root, (uint32_t)getpid(), buf, size);
	return r > 0 ? (size_t)r : 0;
}
