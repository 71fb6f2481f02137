/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <string.h>

#include "cleanup.h"
#include "parse.h"
#include "promoter.h"

#define NUMA_BALANCING_TIERING 2

/* The counters at one look. */
struct look {
	bool has_promoted, has_migrated;
	uint64_t promoted, migrated;
};

/* "name value"; lines that aren't are skipped: they are someone else's counters. Cuts @text up. */
static void find_counters(char *text, struct look *ret)
{
	char *line;

	while ((line = strsep(&text, "\n"))) {
		char *value = line, *name = strsep(&value, " ");

		if (!value)
			continue;
		if (strcmp(name, "pgpromote_success") == 0)
			ret->has_promoted = parse_u64(value, 0, UINT64_MAX, &ret->promoted) == 0;
		else if (strcmp(name, "numa_pages_migrated") == 0)
			ret->has_migrated = parse_u64(value, 0, UINT64_MAX, &ret->migrated) == 0;
	}
}

static bool is_tiering(const struct fsroot *root)
{
	uint64_t mode;

	return fsroot_read_u64(root, &mode, 10, "proc/sys/kernel/numa_balancing") == 0 &&
	       (mode & NUMA_BALANCING_TIERING);
}

/* Counters only grow; one that shrank has begun anew (a restored virtual machine), and what it did before is counted.
 */
static uint64_t grown(uint64_t now, uint64_t before)
{
	return now > before ? now - before : 0;
}

int64_t promoter_look(struct promoter *promoter, const struct fsroot *root, uint64_t now_ns)
{
	_cleanup_free_ char *text = NULL;
	struct look look = { 0 };
	bool tiering, was_tiering = promoter->tiering;
	uint64_t promoted, migrated, pages;
	int r;

	r = fsroot_read_alloc(root, &text, "proc/vmstat");
	if (r < 0)
		return r;
	find_counters(text, &look);
	if (!look.has_promoted && !look.has_migrated)
		return -ENOENT;
	tiering = is_tiering(root);
	promoted = grown(look.promoted, promoter->pgpromote_success);
	migrated = grown(look.migrated, promoter->numa_pages_migrated);
	promoter->pgpromote_success = look.promoted;
	promoter->numa_pages_migrated = look.migrated;
	promoter->tiering = tiering;
	if (!promoter->started) {
		promoter->started = true;
		return 0;
	}
	/* The mode of the whole time since: with a change in between, rather too many than none. */
	pages = tiering && was_tiering && look.has_promoted ? promoted : promoted > migrated ? promoted : migrated;
	if (pages > INT64_MAX)
		pages = INT64_MAX;
	promoter->promoted_pages += pages;
	if (pages > 0)
		promoter->last_ns = now_ns;
	return (int64_t)pages;
}

bool promoter_is_active(const struct promoter *promoter, uint64_t now_ns, uint64_t within_ns)
{
	if (promoter->last_ns == 0)
		return false;
	return now_ns <= promoter->last_ns || now_ns - promoter->last_ns <= within_ns;
}
