/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which share of a program's L3 misses each node serves, by the counters that the lab's emulator keeps of every page
 * (ibs/README.md: pages=1): each miss of a while to a page that the program has mapped at its end. Files are left out:
 * others have their pages mapped as well. No sample is involved, so it can judge who works by samples.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ibs/ibs_shared.h"

#define PAGE      4096UL
#define NODES_MAX 8
#define USER_BITS 47
#define COUNTERS  "/sys/kernel/debug/pghot_ibs/pages"
/* pagemap(5) of the kernel's documentation: present, and where. */
#define PRESENT  (1ULL << 63)
#define PFN_MASK ((1ULL << 55) - 1)

static struct {
	uint64_t misses, pages;
} seen[NODES_MAX];
static uint64_t block_pages;

static int fail(const char *what)
{
	printf("error=%d what=%s text=%s\n", errno, what, strerror(errno));
	return 1;
}

static struct ibs_page *read_counters(size_t *n)
{
	int fd = open(COUNTERS, O_RDONLY | O_CLOEXEC);
	size_t room = IBS_PAGES_MAX * sizeof(struct ibs_page), used = 0;
	char *all = malloc(room);
	ssize_t got = 1;

	while (fd >= 0 && all && got > 0 && used < room) {
		got = read(fd, all + used, room - used);
		used += got > 0 ? (size_t)got : 0;
	}
	if (fd >= 0)
		close(fd);
	*n = used / sizeof(struct ibs_page);
	if (*n > 0)
		return (struct ibs_page *)(void *)all;
	free(all);
	return NULL;
}

static bool read_block_size(void)
{
	FILE *file = fopen("/sys/devices/system/memory/block_size_bytes", "re");
	bool good = file && fscanf(file, "%" SCNx64, &block_pages) == 1;

	if (file)
		fclose(file);
	block_pages /= PAGE;
	return good && block_pages > 0;
}

/* The node of each block is asked for once: a walk meets pages in the order of addresses, so mostly the same block. */
static int node_of(uint64_t pfn)
{
	static uint64_t known_block = UINT64_MAX;
	static int known_node;
	uint64_t block = pfn / block_pages;
	char path[96];

	if (block == known_block)
		return known_node;
	for (int nid = 0; nid < NODES_MAX; nid++) {
		snprintf(path, sizeof(path), "/sys/devices/system/node/node%d/memory%" PRIu64, nid, block);
		if (access(path, F_OK) == 0) {
			known_block = block;
			known_node = nid;
			return nid;
		}
	}
	return -1;
}

static void count_page(uint64_t entry, const struct ibs_page *before, const struct ibs_page *after, size_t n)
{
	uint64_t pfn = entry & PFN_MASK;
	int nid;

	if (!(entry & PRESENT) || pfn >= n)
		return;
	nid = node_of(pfn);
	if (nid < 0)
		return;
	seen[nid].pages++;
	seen[nid].misses += after[pfn].misses - before[pfn].misses;
}

static int count_program(int pid, const struct ibs_page *before, const struct ibs_page *after, size_t n)
{
	char path[64], *line = NULL;
	unsigned long from, to, inode;
	uint64_t entry;
	size_t room = 0;
	FILE *maps;
	int pagemap;

	snprintf(path, sizeof(path), "/proc/%d/pagemap", pid);
	pagemap = open(path, O_RDONLY | O_CLOEXEC);
	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	maps = fopen(path, "re");
	while (pagemap >= 0 && maps && getline(&line, &room, maps) > 0) {
		if (sscanf(line, "%lx-%lx %*s %*s %*s %lu", &from, &to, &inode) != 3 || inode != 0 ||
		    from >> USER_BITS != 0)
			continue;
		for (unsigned long at = from; at < to; at += PAGE)
			if (pread(pagemap, &entry, sizeof(entry), (off_t)(at / PAGE * sizeof(entry))) == sizeof(entry))
				count_page(entry, before, after, n);
	}
	free(line);
	if (pagemap >= 0)
		close(pagemap);
	if (maps)
		fclose(maps);
	return pagemap >= 0 && maps ? 0 : -1;
}

int main(int argc, char **argv)
{
	struct timespec pause;
	struct ibs_page *before, *after;
	size_t n_before, n_after;
	int pid = 0, r = 0;
	long ms = 1000;

	for (int i = 1; i < argc; i++) {
		if (sscanf(argv[i], "pid=%d", &pid) != 1 && sscanf(argv[i], "ms=%ld", &ms) != 1) {
			fputs("usage: page_misses pid=PID [ms=N]\n", stderr);
			return 64;
		}
	}
	if (!read_block_size())
		return fail("block_size_bytes");
	before = read_counters(&n_before);
	if (!before)
		return fail(COUNTERS);
	pause = (struct timespec){ .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };
	nanosleep(&pause, NULL);
	after = read_counters(&n_after);
	if (!after || n_after != n_before || count_program(pid, before, after, n_before) < 0)
		r = fail("pages");
	for (int nid = 0; nid < NODES_MAX && r == 0; nid++)
		if (seen[nid].pages > 0)
			printf("misses%d=%" PRIu64 " pages%d=%" PRIu64 " ", nid, seen[nid].misses, nid,
			       seen[nid].pages);
	if (r == 0)
		putchar('\n');
	free(before);
	free(after);
	return r;
}
