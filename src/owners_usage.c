/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cleanup.h"
#include "maps_lines.h"
#include "nodeset.h"
#include "owners_usage.h"

#define KIB_SHIFT 10

/* "NAME=NUMBER" of a line, as a whole word. false: this word is none. */
static bool take_number(const char *word, uint64_t *ret)
{
	char *end;

	if (!isdigit((unsigned char)*word))
		return false;
	errno = 0;
	*ret = strtoull(word, &end, 10);
	return !errno && (*end == ' ' || *end == '\0');
}

/*
 * "7f0000000000 default anon=4096 dirty=4096 N0=2048 N1=2048 kernelpagesize_kB=4": pages of that size by node. A blank
 * in a file's name is escaped there, so a word is a word. Source: show_numa_map(), fs/proc/task_mmu.c.
 */
static uint64_t bytes_of(const char *line, const struct nodeset *nodes)
{
	uint64_t pages = 0, kib = 0, n;
	unsigned int nid;
	int at;

	for (const char *word = line; (word = strchr(word, ' '));) {
		word++;
		at = 0;
		if (sscanf(word, "N%u=%n", &nid, &at) == 1 && at > 0) {
			if (nid < NODE_MAX && nodeset_has(nodes, (int)nid) && take_number(word + at, &n))
				pages += n;
		} else if (strncmp(word, "kernelpagesize_kB=", 18) == 0 && take_number(word + 18, &n)) {
			kib = n;
		}
	}
	return pages * kib << KIB_SHIFT;
}

struct sum {
	const struct nodeset *nodes;
	uint64_t bytes;
};

static int add_line(void *ctx, char *line)
{
	struct sum *sum = ctx;

	sum->bytes += bytes_of(line, sum->nodes);
	return 0;
}

int owners_usage_read(const struct fsroot *root, uint32_t pid, const struct nodeset *nodes, bool (*go_on)(void *ctx),
		      void *ctx, uint64_t *ret_bytes)
{
	struct sum sum = { .nodes = nodes };
	_cleanup_close_ int fd = fsroot_open_file(root, "proc/%u/numa_maps", pid);
	int r;

	*ret_bytes = 0;
	if (fd < 0)
		return fd == -ENOENT && !fsroot_exists(root, "proc/%u/stat", pid) ? -ESRCH : fd;
	r = maps_lines_read(fd, add_line, &sum, go_on, ctx);
	if (r < 0)
		return r;
	*ret_bytes = sum.bytes;
	return 0;
}
