/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * outcomes: each outcome of a move and each kind of page, by the mover and the real kernel. A child has memory of that
 * kind on the slow node; the parent asks where its pages are, has the mover move them, asks again, and compares with
 * the result, and with the pages and bytes that were counted.
 *
 * Prints "ok NAME", "not ok NAME - why" and "skip NAME - why". Needs root, nodes 0 (fast) and 1 (slow).
 */
#include <errno.h>
#include <numaif.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "fsroot.h"
#include "mover.h"
#include "outcomes_kinds.h"
#include "sample.h"
#include "stats.h"

#define PAGE PAGE_SIZE_BYTES

static struct stats *stats;
static struct mover mover;
static struct fsroot root;

struct given *given;

/* @why is said when it is not @good. */
__attribute__((format(printf, 3, 4))) static void verdict(const char *name, bool good, const char *why, ...)
{
	va_list ap;

	printf("%s %s", good ? "ok" : "not ok", name);
	if (!good) {
		va_start(ap, why);
		printf(" - ");
		vprintf(why, ap);
		va_end(ap);
	}
	printf("\n");
	fflush(stdout);
}

static void skip(const char *name, const char *why)
{
	printf("skip %s - %s\n", name, why);
	fflush(stdout);
}

/* A child with what @make gives it; 0: it couldn't be made, and that was said. */
static pid_t start(const char *name, int (*make)(void), void (*then)(void))
{
	pid_t pid;

	memset(given, 0, sizeof(*given));
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		given->error = -make();
		given->ready = true;
		if (!given->error && then)
			then();
		for (;;)
			pause();
	}
	while (pid > 0 && !given->ready)
		usleep(1000);
	if (pid > 0 && !given->error)
		return pid;
	skip(name, strerror(given->error ? given->error : errno));
	if (pid > 0)
		kill(pid, SIGKILL);
	return 0;
}

static void stop(pid_t pid)
{
	if (pid <= 0)
		return;
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* Base pages of the child that are on @nid, asked for page by page. */
static uint64_t on_node(pid_t pid, int nid)
{
	uint64_t n = 0, pages = given->n * given->page_bytes / PAGE;

	for (uint64_t i = 0; i < pages; i++) {
		void *addr = (void *)(uintptr_t)(given->addr + i * PAGE);
		int status = -EAGAIN;

		if (move_pages(pid, 1, &addr, NULL, &status, 0) == 0)
			n += status == nid;
	}
	return n;
}

struct moved {
	int r;
	size_t by_result[MOVER_RESULT_MAX]; /* pages as given, whatever their size */
	uint64_t pages, bytes;
};

static struct moved move(pid_t pid, uint32_t first, uint32_t n)
{
	struct mover_page page[MOVER_BATCH_MAX];
	struct mover_summary sum;
	struct moved ret = { 0 };

	for (uint32_t i = 0; i < n; i++)
		page[i] = (struct mover_page){ .addr = given->addr + (first + i) * given->page_bytes,
					       .bytes = given->page_bytes,
					       .from_nid = SLOW };
	ret.r = mover_move(&mover, (uint32_t)pid, FAST, page, n, &sum);
	for (uint32_t i = 0; i < n; i++)
		ret.by_result[page[i].result]++;
	ret.pages = sum.moved_pages;
	ret.bytes = sum.moved_bytes;
	return ret;
}

static size_t held(const struct moved *moved)
{
	return moved->by_result[MOVER_BUSY] + moved->by_result[MOVER_PINNED];
}

/* As a migrator does it: a page that somebody holds in passing, the kernel's own lists for one, is tried again. */
static struct moved move_patiently(pid_t pid, uint32_t n)
{
	struct moved moved = move(pid, 0, n), again = moved;

	for (unsigned int pause_us = 100000; held(&again) > 0 && pause_us <= 3200000; pause_us *= 2) {
		usleep(pause_us);
		again = move(pid, 0, n);
		moved.by_result[MOVER_OK] += again.by_result[MOVER_OK];
		moved.pages += again.pages;
		moved.bytes += again.bytes;
	}
	return moved;
}

/* What most pages came to that aren't @want. */
static const char *most_others(const struct moved *moved, enum mover_result want)
{
	size_t best = want == 0;

	for (size_t i = best + 1; i < MOVER_RESULT_MAX; i++)
		if (i != want && moved->by_result[i] > moved->by_result[best])
			best = i;
	return mover_result_name[best];
}

static uint64_t cell_pages;

static void add_cell(void *ctx, const struct mover_outcome *o)
{
	const enum mover_result *result = ctx;

	if (o->result == *result && o->page_bytes == given->page_bytes && o->to_nid == FAST)
		cell_pages += o->pages;
}

/* All pages of the child come to @want, and where they are says the same. */
static void expect(const char *name, pid_t pid, enum mover_result want)
{
	uint64_t pages = given->n * given->page_bytes / PAGE, before = on_node(pid, FAST), after, cells;
	enum mover_result result = want;
	struct moved moved;

	cell_pages = 0;
	mover_outcomes_for_each(mover.outcomes, add_cell, &result);
	cells = cell_pages;
	moved = want == MOVER_OK ? move_patiently(pid, given->n) : move(pid, 0, given->n);
	after = on_node(pid, FAST);
	cell_pages = 0;
	mover_outcomes_for_each(mover.outcomes, add_cell, &result);
	if (moved.by_result[want] != given->n)
		verdict(name, false, "%zu of %u pages are %s, most others are %s, %llu are near", moved.by_result[want],
			given->n, mover_result_name[want], most_others(&moved, want), (unsigned long long)after);
	else if (after - before != (want == MOVER_OK ? pages : 0))
		verdict(name, false, "%llu pages were near, now %llu are", (unsigned long long)before,
			(unsigned long long)after);
	else if (moved.pages != after - before || moved.bytes != moved.pages * PAGE)
		verdict(name, false, "%llu pages, %llu bytes were charged for %llu pages",
			(unsigned long long)moved.pages, (unsigned long long)moved.bytes,
			(unsigned long long)(after - before));
	else
		verdict(name, cell_pages - cells == pages, "the matrix has %llu pages more, not %llu",
			(unsigned long long)(cell_pages - cells), (unsigned long long)pages);
}

static void simple(const char *name, int (*make)(void), enum mover_result want)
{
	pid_t pid = start(name, make, NULL);

	if (pid)
		expect(name, pid, want);
	stop(pid);
}

static void moved_and_already(void)
{
	pid_t pid = start("moved", kind_plain, NULL);

	if (!pid)
		return;
	expect("moved", pid, MOVER_OK);
	expect("already there", pid, MOVER_ALREADY);
	stop(pid);
}

static void shared_by_two(void)
{
	pid_t pid = start("shared", kind_shared, NULL);

	if (!pid)
		return;
	expect("shared", pid, MOVER_SHARED);
	mover.shared = true;
	expect("shared where that is allowed: moved", pid, MOVER_OK);
	mover.shared = false;
	stop(pid);
}

static void gone(void)
{
	pid_t pid = start("gone", kind_plain, NULL);

	if (!pid)
		return;
	kill(pid, SIGKILL);
	waitid(P_PID, (id_t)pid, NULL, WEXITED | WNOWAIT);
	expect("gone: a zombie", pid, MOVER_GONE);
	stop(pid);
	expect("gone", pid, MOVER_GONE);
}

static void not_ours(void)
{
	pid_t pid = start("denied", kind_plain, NULL), mine;

	if (!pid)
		return;
	mine = fork();
	if (mine == 0) {
		struct moved moved;

		if (setresuid(65534, 65534, 65534))
			_exit(1);
		moved = move(pid, 0, given->n);
		verdict("denied", moved.r == -EPERM && moved.by_result[MOVER_DENIED] == given->n, "most others are %s",
			most_others(&moved, MOVER_DENIED));
		_exit(0);
	}
	waitpid(mine, NULL, 0);
	stop(pid);
}

static void while_stopped(void)
{
	pid_t pid = start("stopped: moved", kind_plain, NULL);

	if (!pid)
		return;
	kill(pid, SIGSTOP);
	expect("stopped: moved", pid, MOVER_OK);
	stop(pid);
}

/* Every second page of the child, those it lets be, that is not on the fast node. */
static size_t kept_and_far(pid_t pid)
{
	size_t n = 0;

	for (uint64_t i = 0; i < given->n; i += 2) {
		void *addr = (void *)(uintptr_t)(given->addr + i * PAGE);
		int status = -EAGAIN;

		n += move_pages(pid, 1, &addr, NULL, &status, 0) != 0 || status != FAST;
	}
	return n;
}

/*
 * Whatever it does meanwhile: what is charged is what was moved, nothing fails without a reason, and the pages that it
 * lets be all move, for all the holes around them. How many of the others do is a matter of who is faster.
 */
static void while_it_unmaps(void)
{
	pid_t pid = start("unmaps meanwhile", kind_many, kind_unmap_for_ever);
	struct moved sum = { 0 };
	size_t odd, far = given->n;

	if (!pid)
		return;
	for (unsigned int round = 0; round < 4 && far > 0; round++) {
		for (uint32_t first = 0; first + 512 <= given->n; first += 512) {
			struct moved moved = move(pid, first, 512);

			for (size_t i = 0; i < MOVER_RESULT_MAX; i++)
				sum.by_result[i] += moved.by_result[i];
			sum.pages += moved.pages;
		}
		far = kept_and_far(pid);
	}
	odd = sum.by_result[MOVER_FAILED] + sum.by_result[MOVER_GONE] + sum.by_result[MOVER_DENIED];
	verdict("unmaps meanwhile", odd == 0, "%zu failed, were gone or denied", odd);
	verdict("and what it lets be moves", far == 0, "%zu of %u pages are still far", far, given->n / 2);
	verdict("and what moves is charged", sum.pages == sum.by_result[MOVER_OK] && sum.pages >= given->n / 2,
		"%zu moved, %llu charged", sum.by_result[MOVER_OK], (unsigned long long)sum.pages);
	verdict("and it did unmap", given->remapped > 0, "not once");
	stop(pid);
}

/* It ends while its pages move: from then on each is gone. */
static void ends_meanwhile(void)
{
	pid_t pid = start("ends meanwhile", kind_many, NULL), killer;
	size_t ok = 0, gone_pages = 0, odd = 0;

	if (!pid)
		return;
	killer = fork();
	if (killer == 0) {
		while (atomic_load_explicit(&given->tried, memory_order_relaxed) < given->n / 4)
			usleep(1000);
		kill(pid, SIGKILL);
		_exit(0);
	}
	for (uint32_t first = 0; first + 512 <= given->n; first += 512) {
		struct moved moved;

		/* Where the killer is late, the last batch waits for it. */
		if (first + 1024 > given->n)
			waitpid(killer, NULL, 0);
		moved = move(pid, first, 512);
		atomic_fetch_add_explicit(&given->tried, 512, memory_order_relaxed);
		ok += moved.by_result[MOVER_OK];
		gone_pages += moved.by_result[MOVER_GONE];
		odd += 512 - moved.by_result[MOVER_OK] - moved.by_result[MOVER_GONE];
	}
	stop(pid);
	/* A page that was freed on its way, and one that was looked for after that. */
	verdict("ends meanwhile", gone_pages > 0 && odd <= 512, "%zu moved, %zu gone, %zu neither", ok, gone_pages,
		odd);
}

static bool write_number(const char *path, unsigned int n)
{
	FILE *file = fopen(path, "we");
	bool done = file && fprintf(file, "%u", n) > 0;

	return file && fclose(file) == 0 && done;
}

static void set_pool(int nid, unsigned int n)
{
	char path[96];

	snprintf(path, sizeof(path), "/sys/devices/system/node/node%d/hugepages/hugepages-2048kB/nr_hugepages", nid);
	if (!write_number(path, n))
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
}

/* The pool takes what there is in one piece; moving takes the rest, until the kernel has no page left there. */
static void no_memory(void)
{
	pid_t pid = start("no memory on the target", kind_many, NULL);
	struct moved moved = { 0 };
	uint32_t first;

	if (!pid)
		return;
	set_pool(FAST, 4096);
	for (first = 0; first + 512 <= given->n && moved.by_result[MOVER_NO_MEMORY] == 0; first += 512)
		moved = move(pid, first, 512);
	verdict("no memory on the target", moved.by_result[MOVER_NO_MEMORY] > 0, "all %u moved", given->n);
	if (moved.by_result[MOVER_NO_MEMORY] > 0)
		verdict("and what did move is charged", on_node(pid, FAST) == first - 512 + moved.by_result[MOVER_OK],
			"%zu of the last 512, %llu near", moved.by_result[MOVER_OK],
			(unsigned long long)on_node(pid, FAST));
	set_pool(FAST, 0);
	stop(pid);
}

static void hugetlb(void)
{
	set_pool(FAST, HUGE_PAGES);
	set_pool(SLOW, HUGE_PAGES);
	simple("hugetlb: moved whole", kind_of_a_pool, MOVER_OK);
	set_pool(FAST, 0);
	set_pool(SLOW, 0);
}

/* AnonHugePages of the mapping at @addr, in KiB. */
static unsigned long huge_kib(pid_t pid, uint64_t addr)
{
	char path[64], line[512];
	unsigned long kib = 0, from, to;
	bool here = false;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/smaps", pid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			here = from <= addr && addr < to;
		else if (here)
			sscanf(line, "AnonHugePages: %lu", &kib);
	}
	if (file)
		fclose(file);
	return kib;
}

static void collapse(void)
{
	pid_t pid = start("base pages of a region: moved", kind_small_region, NULL);
	long r;

	if (!pid)
		return;
	expect("base pages of a region: moved", pid, MOVER_OK);
	r = mover.ops->collapse(mover.ctx, (uint32_t)pid, given->addr, REGION_BYTES);
	verdict("and collapsed", r == 0 && huge_kib(pid, given->addr) == 2048, "error %ld, %lu KiB huge", r,
		huge_kib(pid, given->addr));
	verdict("on the same node", on_node(pid, FAST) == REGION_PAGES, "not all of it");
	stop(pid);
}

static void thp(void)
{
	pid_t pid = start("THP: moved whole", kind_huge, NULL);

	if (!pid)
		return;
	if (huge_kib(pid, given->addr) < HUGE_PAGES * 2048)
		skip("THP: moved whole", "the kernel gave no huge pages");
	else
		expect("THP: moved whole", pid, MOVER_OK);
	verdict("and it is whole still", huge_kib(pid, given->addr) == HUGE_PAGES * 2048, "%lu KiB are",
		huge_kib(pid, given->addr));
	stop(pid);
}

int main(void)
{
	given = mmap(NULL, sizeof(*given), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	stats = stats_new();
	mover = (struct mover){ .ops = &mover_pages_ops, .clock = &clock_monotonic, .outcomes = mover_outcomes_new() };
	mover.stats = stats ? stats_slot_new(stats) : NULL;
	if (given == MAP_FAILED || !mover.stats || !mover.outcomes || fsroot_open(&root, "/") < 0)
		return 1;
	mover.root = &root;

	moved_and_already();
	simple("not present: never touched", kind_untouched, MOVER_NOT_PRESENT);
	simple("zero page", kind_read_only, MOVER_ZERO_PAGE);
	simple("pinned", kind_pinned, MOVER_PINNED);
	simple("busy: on no LRU list", kind_off_lru, MOVER_BUSY);
	simple("cpuset", kind_in_cpuset, MOVER_CPUSET);
	rmdir("/sys/fs/cgroup/lab-outcomes");
	simple("addresses beyond 47 bits: moved", kind_high, MOVER_OK);
	shared_by_two();
	gone();
	not_ours();
	while_stopped();
	thp();
	hugetlb();
	collapse();
	while_it_unmaps();
	ends_meanwhile();
	no_memory();
	return 0;
}
