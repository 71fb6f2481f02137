/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "guests.h"
#include "parse.h"
#include "sample.h"

#define FOLDER      "sys/kernel/debug/kvm"
#define SEEN_MAX    1024 /* processes with a machine; more are not told apart from these */
#define STATM_BYTES 128
#define PID_MAX_    (1U << 22) /* PID_MAX_LIMIT, include/linux/threads.h */

struct search {
	const struct fsroot *root;
	struct guest *list;
	size_t max, n;
	uint32_t seen[SEEN_MAX];
};

/* Second number of /proc/PID/statm: resident pages. */
static uint64_t resident_bytes(const struct fsroot *root, uint32_t pid)
{
	char text[STATM_BYTES];
	uint64_t pages;

	if (fsroot_read(root, text, sizeof(text), "proc/%" PRIu32 "/statm", pid) < 0 ||
	    sscanf(text, "%*u %" SCNu64, &pages) != 1)
		return 0;
	return pages * PAGE_SIZE_BYTES;
}

/* Sorted as they come; the least falls out of a full list. */
static void put(struct search *search, const struct guest *guest)
{
	size_t n = search->n < search->max ? search->n : search->max, at = n;

	while (at > 0 && search->list[at - 1].bytes < guest->bytes)
		at--;
	if (at == search->max)
		return;
	if (n == search->max)
		n--;
	memmove(&search->list[at + 1], &search->list[at], (n - at) * sizeof(*search->list));
	search->list[at] = *guest;
}

static int add(void *ctx, const char *name)
{
	struct search *search = ctx;
	size_t digits = strspn(name, "0123456789");
	struct guest guest = { 0 };
	char number[24], comm[64];
	uint64_t pid;

	if (name[digits] != '-' || digits >= sizeof(number))
		return 0; /* one of KVM's own counters */
	memcpy(number, name, digits);
	number[digits] = '\0';
	if (parse_u64(number, 1, PID_MAX_, &pid) < 0)
		return 0;
	for (size_t i = 0; i < search->n && i < SEEN_MAX; i++)
		if (search->seen[i] == pid)
			return 0;
	guest.pid = (uint32_t)pid;
	if (fsroot_read(search->root, comm, sizeof(comm), "proc/%" PRIu32 "/comm", guest.pid) > 0)
		snprintf(guest.name, sizeof(guest.name), "%.16s", comm);
	guest.bytes = resident_bytes(search->root, guest.pid);
	put(search, &guest);
	if (search->n < SEEN_MAX)
		search->seen[search->n] = guest.pid;
	search->n++;
	return 0;
}

struct names {
	char *buf;
	size_t size, used;
	int n;
};

static int add_name(void *ctx, const char *name)
{
	struct names *names = ctx;
	size_t digits = strspn(name, "0123456789");
	int n;

	if (!digits || name[digits] != '-')
		return 0;
	if (names->n < INT32_MAX)
		names->n++;
	n = snprintf(names->buf + names->used, names->size - names->used, "%s\n", name);
	if (n > 0 && (size_t)n < names->size - names->used)
		names->used += (size_t)n;
	else
		names->buf[names->used] = '\0'; /* whole lines only */
	return 0;
}

int guests_list(const struct fsroot *root, char *buf, size_t size)
{
	struct names names = { .buf = buf, .size = size };
	int r;

	buf[0] = '\0';
	r = fsroot_for_each(root, add_name, &names, FOLDER);
	return r < 0 ? r : names.n;
}

size_t guests_read(const struct fsroot *root, struct guest *ret, size_t max)
{
	struct search search = { .root = root, .list = ret, .max = max };
	char text[GUESTS_TEXT_MAX], *rest = text;
	int r = fsroot_ask(root, FSROOT_GUESTS, 0, 0, text, sizeof(text));

	if (r == -ENOSYS)
		(void)fsroot_for_each(root, add, &search, FOLDER);
	for (const char *line; r > 0 && (line = strsep(&rest, "\n"));)
		(void)add(&search, line);
	return search.n;
}
