/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cleanup.h"
#include "maps_lines.h"
#include "owners_facts.h"
#include "owners_map.h"

#define KIND_MASK    0xfffULL /* ranges begin and end at pages */
#define FIRST_RANGES 64

struct range {
	uint64_t start; /* kinds in the low bits */
	uint64_t end;
};

struct owners_map {
	size_t n, room;
	bool device;
	struct range *range; /* by address */
};

/* One file on its way through a line reader. */
struct reading {
	struct owners_map *map;
	size_t at;  /* the range that the lines have come to: they are in the order of addresses */
	bool found; /* the line's mapping is that one */
};

void owners_map_free(struct owners_map *map)
{
	if (!map)
		return;
	free(map->range);
	free(map);
}

size_t owners_map_ranges(const struct owners_map *map)
{
	return map->n;
}

bool owners_map_has_device(const struct owners_map *map)
{
	return map->device;
}

static uint64_t start_of(const struct range *range)
{
	return range->start & ~KIND_MASK;
}

unsigned int owners_map_find(const struct owners_map *map, uint64_t addr)
{
	size_t low = 0, high = map->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		const struct range *range = &map->range[mid];

		if (addr < start_of(range))
			high = mid;
		else if (addr >= range->end)
			low = mid + 1;
		else
			return (unsigned int)(range->start & KIND_MASK);
	}
	return MEMORY_UNKNOWN;
}

/* A hexadecimal number at @*p, which moves behind it. false: there is none. */
static bool take_hex(const char **p, uint64_t *ret)
{
	char *end;

	errno = 0;
	*ret = strtoull(*p, &end, 16);
	if (errno || end == *p || **p == '-' || **p == ' ')
		return false;
	*p = end;
	return true;
}

/* The @n-th word (from 0) of a line with blanks between, or "". */
static const char *word(const char *line, int n)
{
	for (; n > 0; n--) {
		line += strcspn(line, " ");
		line += strspn(line, " ");
	}
	return line;
}

static bool begins(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

/* Memory with a name but no file: mm/shmem.c, ipc/shm.c. */
static bool is_common(const char *path)
{
	return begins(path, "/dev/shm/") || begins(path, "/memfd:") || begins(path, "/SYSV") ||
	       begins(path, "/dev/zero");
}

/* "start-end rwxp offset dev inode      path": only these begin with two numbers. */
static bool parse_mapping(const char *line, struct range *ret, const char **ret_rest)
{
	const char *p = line;

	if (!take_hex(&p, &ret->start) || *p++ != '-' || !take_hex(&p, &ret->end) || *p != ' ')
		return false;
	*ret_rest = line;
	return ret->end > ret->start && ((ret->start | ret->end) & KIND_MASK) == 0;
}

static int add_mapping(void *ctx, char *line)
{
	struct reading *reading = ctx;
	struct owners_map *map = reading->map;
	const char *rest, *path;
	struct range range;

	/* Not understood: then it is not known, and stays. */
	if (!parse_mapping(line, &range, &rest))
		return 0;
	if (map->n > 0 && range.start < map->range[map->n - 1].end)
		return 0; /* mappings moved while we read */
	range.start |= MEMORY_UNKNOWN;
	path = word(rest, 5);
	if (*path == '/' && is_common(path))
		range.start |= MEMORY_COMMON;
	else if (*path == '/' && !begins(path, "/anon_hugepage"))
		range.start |= MEMORY_OF_FILE;
	if (strlen(word(rest, 1)) > 3 && word(rest, 1)[3] == 's')
		range.start |= MEMORY_COMMON;
	map->device = map->device || owners_facts_is_device(path);
	if (map->n == map->room) {
		size_t room = map->room ? map->room * 2 : FIRST_RANGES;
		struct range *more;

		if (map->n == OWNERS_MAP_RANGES_MAX)
			return -ENOMEM;
		more = realloc(map->range, room * sizeof(*more));
		if (!more)
			return -ENOMEM;
		map->range = more;
		map->room = room;
	}
	map->range[map->n++] = range;
	return 0;
}

/* The range that begins at @start, or NULL. */
static struct range *come_to(struct reading *reading, uint64_t start)
{
	struct owners_map *map = reading->map;

	while (reading->at < map->n && start_of(&map->range[reading->at]) < start)
		reading->at++;
	reading->found = reading->at < map->n && start_of(&map->range[reading->at]) == start;
	return reading->found ? &map->range[reading->at] : NULL;
}

/* "start policy words...": "7f0000000000 bind:1 anon=4096 dirty=4096 N1=4096 kernelpagesize_kB=4" */
static int add_policy(void *ctx, char *line)
{
	struct reading *reading = ctx;
	const char *p = line, *policy;
	struct range *range;
	uint64_t start;

	if (!take_hex(&p, &start) || *p != ' ')
		return 0;
	range = come_to(reading, start);
	if (!range)
		return 0;
	policy = word(line, 1);
	range->start &= ~(uint64_t)MEMORY_UNKNOWN;
	/* mpol_to_str(), mm/mempolicy.c: "default", "local", or one with nodes. */
	if (!begins(policy, "default ") && strcmp(policy, "default") != 0 && !begins(policy, "local ") &&
	    strcmp(policy, "local") != 0)
		range->start |= MEMORY_BOUND;
	/* A word of its own: a path has its blanks escaped. */
	for (const char *w = word(line, 2); *w; w = word(w, 1))
		if (begins(w, "huge ") || strcmp(w, "huge") == 0)
			range->start |= MEMORY_HUGETLB;
	return 0;
}

/* smaps: the line of maps, and under it "VmFlags: rd wr mr mw me ac lo sd". */
static int add_lock(void *ctx, char *line)
{
	struct reading *reading = ctx;
	const char *rest;
	struct range range;

	if (parse_mapping(line, &range, &rest)) {
		come_to(reading, range.start);
		return 0;
	}
	if (!reading->found || !begins(line, "VmFlags:"))
		return 0;
	for (const char *w = word(line, 1); *w; w = word(w, 1))
		if (begins(w, "lo ") || strcmp(w, "lo") == 0)
			reading->map->range[reading->at].start |= MEMORY_LOCKED;
	return 0;
}

/* Neighbours of one kind are one range: a program has hundreds of mappings of libraries alone. */
static void join(struct owners_map *map)
{
	struct range *less;
	size_t n = 0;

	for (size_t i = 0; i < map->n; i++) {
		const struct range *range = &map->range[i];
		struct range *last = n > 0 ? &map->range[n - 1] : NULL;

		if (last && last->end == start_of(range) && (last->start & KIND_MASK) == (range->start & KIND_MASK))
			last->end = range->end;
		else
			map->range[n++] = *range;
	}
	map->n = n;
	less = realloc(map->range, (n ? n : 1) * sizeof(*less));
	if (less) {
		map->range = less;
		map->room = n ? n : 1;
	}
}

struct owners_map *owners_map_read(const struct fsroot *root, uint32_t pid, bool locked, bool (*go_on)(void *ctx),
				   void *ctx, int *ret_error)
{
	static const struct {
		const char *name;
		int (*take)(void *ctx, char *line);
		bool for_locks;
	} files[] = { { "maps", add_mapping, false }, { "numa_maps", add_policy, false }, { "smaps", add_lock, true } };
	struct owners_map *map = calloc(1, sizeof(*map));
	int r = map ? 0 : -ENOMEM;

	for (size_t i = 0; r == 0 && i < sizeof(files) / sizeof(files[0]); i++) {
		struct reading reading = { .map = map };
		_cleanup_close_ int fd = -1;

		if (files[i].for_locks && !locked)
			continue;
		fd = fsroot_open_file(root, "proc/%u/%s", pid, files[i].name);
		if (fd < 0) {
			r = fd == -ENOENT && !fsroot_exists(root, "proc/%u/stat", pid) ? -ESRCH : fd;
			break;
		}
		r = maps_lines_read(fd, files[i].take, &reading, go_on, ctx);
	}
	if (r < 0) {
		owners_map_free(map);
		*ret_error = r;
		return NULL;
	}
	join(map);
	*ret_error = 0;
	return map;
}
