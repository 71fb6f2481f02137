/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cleanup.h"
#include "maps_lines.h"
#include "owners.h"
#include "parse.h"
#include "rcu.h"
#include "sample.h"
#include "victims_internal.h"

#define RANGES_MAX 65536 /* vm.max_map_count allows 65530 mappings by default; what is beyond isn't looked at */

/* A list that grows. */
struct ranges {
	size_t n, room, max;
	struct victims_range *range;
};

static int add_pid(void *ctx, const char *name)
{
	struct victims_maps *maps = ctx;
	uint64_t pid;

	if (parse_u64(name, 1, INT32_MAX, &pid) < 0)
		return 0;
	if (maps->n_pids == maps->pids_room) {
		size_t room = maps->pids_room ? maps->pids_room * 2 : 256;
		uint32_t *more = realloc(maps->pids, room * sizeof(*more));

		if (!more)
			return -ENOMEM;
		maps->pids = more;
		maps->pids_room = room;
	}
	maps->pids[maps->n_pids++] = (uint32_t)pid;
	return 0;
}

static int compare_u32(uint32_t x, uint32_t y)
{
	return (x > y) - (x < y);
}

static int by_number(const void *a, const void *b)
{
	return compare_u32(*(const uint32_t *)a, *(const uint32_t *)b);
}

static int by_pid(const void *a, const void *b)
{
	return compare_u32(((const struct victims_process *)a)->pid, ((const struct victims_process *)b)->pid);
}

int victims_maps_begin(struct victims_maps *maps, const struct fsroot *root)
{
	int r;

	if (maps->n > 0)
		qsort(maps->process, maps->n, sizeof(*maps->process), by_pid);
	maps->n_sorted = maps->n;

	maps->n_pids = maps->next_pid = 0;
	maps->round++;
	r = fsroot_for_each(root, add_pid, maps, "proc");
	if (r < 0)
		maps->n_pids = 0;
	if (maps->n_pids > 0)
		qsort(maps->pids, maps->n_pids, sizeof(*maps->pids), by_number);
	return r;
}

static int add_range(struct ranges *list, uint64_t start, uint64_t end, uint64_t since_ns)
{
	struct victims_range *last = list->n ? &list->range[list->n - 1] : NULL;

	if (last && last->end == start && last->since_ns == since_ns) {
		last->end = end;
		return 0;
	}
	if (list->n == list->max)
		return 0;
	if (list->n == list->room) {
		size_t room = list->room ? list->room * 2 : 64;
		struct victims_range *more = realloc(list->range, room * sizeof(*more));

		if (!more)
			return -ENOMEM;
		list->range = more;
		list->room = room;
	}
	list->range[list->n++] = (struct victims_range){ start, end, since_ns };
	return 0;
}

/* "start-end rwxp ...": what nobody may read holds nothing. */
static bool parse_line(const char *line, uint64_t *ret_start, uint64_t *ret_end)
{
	unsigned long long start, end;
	char perms[5];

	if (sscanf(line, "%llx-%llx %4s", &start, &end, perms) != 3 || end <= start)
		return false;
	if ((start | end) % PAGE_SIZE_BYTES || (perms[0] == '-' && perms[1] == '-'))
		return false;
	*ret_start = start;
	*ret_end = end;
	return true;
}

struct reading {
	struct ranges *mapped;
	uint64_t now_ns;
};

static int add_line(void *ctx, char *line)
{
	struct reading *reading = ctx;
	struct ranges *mapped = reading->mapped;
	uint64_t start, end;

	/* Mappings move while they are read. */
	if (!parse_line(line, &start, &end) || (mapped->n > 0 && start < mapped->range[mapped->n - 1].end))
		return 0;
	return add_range(mapped, start, end, reading->now_ns);
}

/* All that is mapped, neighbours as one. 0 or -errno. */
static int read_maps(const struct fsroot *root, uint32_t pid, uint64_t now_ns, struct ranges *ret)
{
	struct reading reading = { ret, now_ns };
	_cleanup_close_ int fd = fsroot_open_file(root, "proc/%u/maps", pid);

	return fd < 0 ? fd : maps_lines_read(fd, add_line, &reading, NULL, NULL);
}

/* What of [@start, @end) was there before keeps its age. */
static int add_aged(struct ranges *list, const struct victims_process *before, size_t *at, uint64_t start, uint64_t end,
		    uint64_t now_ns)
{
	int r = 0;

	while (*at < before->n && before->range[*at].end <= start)
		(*at)++;
	for (size_t i = *at; r == 0 && start < end; i++) {
		const struct victims_range *old = i < before->n ? &before->range[i] : NULL;
		uint64_t to;

		if (!old || old->start >= end)
			return add_range(list, start, end, now_ns);
		if (old->start > start) {
			r = add_range(list, start, old->start, now_ns);
			start = old->start;
		}
		to = old->end < end ? old->end : end;
		if (r == 0)
			r = add_range(list, start, to, old->since_ns);
		start = to;
	}
	return r;
}

/* Its ranges, without the room for more: most processes have few that are large enough. NULL when there are none. */
static struct victims_range *trim(struct ranges *list)
{
	struct victims_range *less;

	if (list->n == 0) {
		free(list->range);
		return NULL;
	}
	less = realloc(list->range, list->n * sizeof(*less));
	return less ? less : list->range;
}

static int take_maps(struct victims_process *p, struct ranges *mapped, uint64_t now_ns)
{
	uint64_t max = p->resident_regions * VICTIMS_MAPPED_PART;
	struct ranges aged = { .max = max < RANGES_MAX ? max : RANGES_MAX };
	size_t at = 0;
	int r = 0;

	for (size_t i = 0; i < mapped->n && r == 0; i++)
		if (mapped->range[i].end - mapped->range[i].start >= VICTIMS_RANGE_MIN)
			r = add_aged(&aged, p, &at, mapped->range[i].start, mapped->range[i].end, now_ns);
	if (r < 0) {
		free(aged.range);
		return r;
	}
	free(p->range);
	p->range = trim(&aged);
	p->n = aged.n;
	return 0;
}

/* A pid comes once in a round, so that it is none of those that this round added. */
static struct victims_process *find(struct victims_maps *maps, uint32_t pid)
{
	const struct victims_process key = { .pid = pid };

	return maps->n_sorted ? bsearch(&key, maps->process, maps->n_sorted, sizeof(key), by_pid) : NULL;
}

static struct victims_process *find_or_add(struct victims_maps *maps, uint32_t pid)
{
	struct victims_process *p = find(maps, pid);

	if (p)
		return p;
	if (maps->n == maps->room) {
		size_t room = maps->room ? maps->room * 2 : 16;
		struct victims_process *more = realloc(maps->process, room * sizeof(*more));

		if (!more)
			return NULL;
		maps->process = more;
		maps->room = room;
	}
	p = &maps->process[maps->n++];
	*p = (struct victims_process){ .pid = pid };
	return p;
}

/* Base pages that it has in memory; 0: not known. */
static uint64_t resident_pages(const struct fsroot *root, uint32_t pid)
{
	unsigned long long size, resident;
	char text[128];

	if (fsroot_read(root, text, sizeof(text), "proc/%u/statm", pid) <= 0)
		return 0;
	return sscanf(text, "%llu %llu", &size, &resident) == 2 ? resident : 0;
}

static void look_at(struct victims_maps *maps, const struct fsroot *root, struct owners *owners, uint32_t pid,
		    uint64_t now_ns)
{
	struct ranges mapped = { .max = RANGES_MAX };
	struct victims_process *p;
	struct owner *owner;
	uint32_t slot = 0;
	uint64_t ticks = 0, resident = resident_pages(root, pid);
	int r;

	if (resident < VICTIMS_RSS_MIN / PAGE_SIZE_BYTES)
		return;
	rcu_enter();
	r = owners_get(owners, pid, now_ns, &owner);
	if (r == 0) {
		slot = owner->slot;
		ticks = owner->start_ticks;
	}
	rcu_leave();
	if (r < 0)
		return;
	p = find_or_add(maps, pid);
	if (!p)
		return;
	if (p->start_ticks != ticks || p->owner_slot != slot)
		p->n = 0; /* another process of that pid: nothing of it is old */
	p->start_ticks = ticks;
	p->owner_slot = slot;
	p->resident_regions = resident / REGION_PAGES + 1;
	/* What can't be read now is forgotten, and watched anew. */
	if (read_maps(root, pid, now_ns, &mapped) == 0 && take_maps(p, &mapped, now_ns) == 0)
		p->round = maps->round;
	free(mapped.range);
}

bool victims_maps_next(struct victims_maps *maps, const struct fsroot *root, struct owners *owners, uint64_t now_ns)
{
	if (maps->next_pid < maps->n_pids) {
		look_at(maps, root, owners, maps->pids[maps->next_pid++], now_ns);
		return true;
	}
	for (size_t i = maps->n; i-- > 0;) {
		if (maps->process[i].round == maps->round)
			continue;
		free(maps->process[i].range);
		maps->process[i] = maps->process[--maps->n];
	}
	return false;
}

void victims_maps_clear(struct victims_maps *maps)
{
	for (size_t i = 0; i < maps->n; i++)
		free(maps->process[i].range);
	free(maps->process);
	free(maps->pids);
	*maps = (struct victims_maps){ .round = maps->round };
}
