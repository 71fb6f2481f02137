/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A plain program with a hot and a cold part in its memory.
 *
 * It fills memory on a node of choice, then reads a part of it at random for as
 * long as it is let. The memory keeps no policy of its own, so that whoever
 * promotes pages may move it. A report says how fast the reads go and, from a
 * query of its own pages, where they are.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <numaif.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define MIB             (1024UL * 1024)
#define HUGE_PAGE_BYTES (2 * MIB)
#define THREADS_MAX     64
#define READS_PER_ROUND 1024
#define QUERY_PAGES     4096
#define NODES_MAX       1024

struct options {
	unsigned long total_mib;
	unsigned long hot_mib;
	long fill_node; /* -1: wherever the kernel puts it */
	unsigned long near_node;
	unsigned long nr_threads;
	unsigned long run_sec;
	unsigned long delay_fill_ms;
	unsigned long report_ms;
	const char *report_path;
	const char *hold_path;
	unsigned long nr_processes;
	unsigned long bind_nodes; /* mask; 0: no policy stays */
	bool scatter;
	bool huge;
	bool locked;
	bool hugetlb;
	bool shared;
	bool pfns;
};

/* One per reading thread, each on cache lines of its own. */
struct reader {
	_Alignas(128) _Atomic uint64_t nr_reads;
	pthread_t thread;
};

struct placement {
	unsigned long nr_near;
	unsigned long nr_errors;
};

static struct options opt = {
	.total_mib = 128,
	.hot_mib = 32,
	.fill_node = 1,
	.nr_threads = 1,
	.nr_processes = 1,
	.report_ms = 500,
};

static size_t page_bytes;
static char *area;
static unsigned long nr_total_pages;
static unsigned long nr_hot_pages;
static uint32_t *page_order; /* the first nr_hot_pages are the hot ones */
static struct reader readers[THREADS_MAX];
static atomic_bool stopping;

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static uint64_t next_random(uint64_t *seed)
{
	uint64_t x = *seed;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	*seed = x;
	return x;
}

static char *page_address(unsigned long i)
{
	return area + (size_t)page_order[i] * page_bytes;
}

/* Block: one run of pages, not at the start. Scatter: a shuffle with a fixed seed. */
static int choose_pages(void)
{
	unsigned long first;
	uint64_t seed = 88172645463325252UL;
	unsigned long i, j;
	uint32_t other;

	nr_total_pages = opt.total_mib * MIB / page_bytes;
	nr_hot_pages = opt.hot_mib * MIB / page_bytes;
	first = (nr_total_pages - nr_hot_pages) / 2;
	first -= first % (HUGE_PAGE_BYTES / page_bytes);
	page_order = malloc(nr_total_pages * sizeof(*page_order));
	if (!page_order)
		return -ENOMEM;
	for (i = 0; i < nr_total_pages; i++)
		page_order[i] = (uint32_t)((first + i) % nr_total_pages);
	if (!opt.scatter)
		return 0;
	for (i = nr_total_pages - 1; i > 0; i--) {
		j = next_random(&seed) % (i + 1);
		other = page_order[i];
		page_order[i] = page_order[j];
		page_order[j] = other;
	}
	return 0;
}

static const unsigned long *nodes_of(unsigned long mask)
{
	static unsigned long nodes[NODES_MAX / (8 * sizeof(unsigned long))];

	nodes[0] = mask;
	return nodes;
}

/*
 * The policy is the thread's and lasts for the fill only; memory bound by
 * mbind() would say for ever that its program wants it where it is.
 */
static int fill(void)
{
	unsigned long nodes[NODES_MAX / (8 * sizeof(unsigned long))] = { 0 };
	size_t bytes = opt.total_mib * MIB;
	size_t i;
	char *map;

	/* A piece of a pool can't be cut off, and needs no cutting: it begins where it should. */
	map = mmap(NULL, bytes + (opt.hugetlb ? 0 : HUGE_PAGE_BYTES), PROT_READ | PROT_WRITE,
		   (opt.shared ? MAP_SHARED : MAP_PRIVATE) | MAP_ANONYMOUS |
			   (opt.hugetlb ? MAP_HUGETLB : MAP_NORESERVE),
		   -1, 0);
	if (map == MAP_FAILED)
		return -errno;
	area = (char *)(((uintptr_t)map + HUGE_PAGE_BYTES - 1) & ~(HUGE_PAGE_BYTES - 1));
	if (!opt.hugetlb && madvise(area, bytes, opt.huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE) && opt.huge)
		return -errno;
	/* With more than one node the kernel would fill the nearest; the fill below says which. */
	if (opt.bind_nodes && mbind(area, bytes, MPOL_BIND, nodes_of(1UL << opt.fill_node), NODES_MAX, 0))
		return -errno;
	if (opt.fill_node >= 0) {
		nodes[(size_t)opt.fill_node / (8 * sizeof(*nodes))] |=
			1UL << ((size_t)opt.fill_node % (8 * sizeof(*nodes)));
		if (set_mempolicy(MPOL_BIND, nodes, NODES_MAX))
			return -errno;
	}
	for (i = 0; i < bytes; i += sizeof(uint64_t))
		*(uint64_t *)(void *)(area + i) = i * 0x9e3779b97f4a7c15UL;
	if (opt.fill_node >= 0 && set_mempolicy(MPOL_DEFAULT, NULL, 0))
		return -errno;
	if (opt.bind_nodes && mbind(area, bytes, MPOL_BIND, nodes_of(opt.bind_nodes), NODES_MAX, 0))
		return -errno;
	if (opt.locked && mlock(area, bytes))
		return -errno;
	return 0;
}

static void *read_hot(void *arg)
{
	struct reader *me = arg;
	uint64_t seed = 0x9e3779b97f4a7c15UL * (uint64_t)(me - readers + 1);
	uint64_t nr_reads = 0;

	/* relaxed: a flag and a counter that order nothing else */
	while (!atomic_load_explicit(&stopping, memory_order_relaxed)) {
		for (int i = 0; i < READS_PER_ROUND; i++) {
			uint64_t x = next_random(&seed);
			const char *page = page_address((x >> 16) % nr_hot_pages);

			(void)*(const volatile uint64_t *)(const void *)(page + (x % (page_bytes / 8)) * 8);
		}
		nr_reads += READS_PER_ROUND;
		atomic_store_explicit(&me->nr_reads, nr_reads, memory_order_relaxed);
	}
	return NULL;
}

/* Where the pages [first, end) of page_order are now. */
static int query(unsigned long first, unsigned long end, struct placement *res)
{
	static void *pages[QUERY_PAGES];
	static int status[QUERY_PAGES];

	memset(res, 0, sizeof(*res));
	while (first < end) {
		unsigned long n = end - first < QUERY_PAGES ? end - first : QUERY_PAGES;
		unsigned long i;

		for (i = 0; i < n; i++) {
			pages[i] = page_address(first + i);
			status[i] = -EAGAIN;
		}
		if (move_pages(0, n, pages, NULL, status, 0) < 0)
			return -errno;
		for (i = 0; i < n; i++) {
			if (status[i] < 0)
				res->nr_errors++;
			else if ((unsigned long)status[i] == opt.near_node)
				res->nr_near++;
		}
		first += n;
	}
	return 0;
}

static uint64_t reads_so_far(void)
{
	uint64_t nr_reads = 0;

	/* relaxed: the counter orders nothing else */
	for (unsigned long i = 0; i < opt.nr_threads; i++)
		nr_reads += atomic_load_explicit(&readers[i].nr_reads, memory_order_relaxed);
	return nr_reads;
}

/*
 * Reads, and the CPU time that the reading threads had for them. No look at the pages, so it costs next to nothing and
 * may be asked for often.
 */
static int report_speed(FILE *out)
{
	uint64_t cpu_ns = 0;

	for (unsigned long i = 0; i < opt.nr_threads; i++) {
		clockid_t clock;
		struct timespec ts;
		int ret = -pthread_getcpuclockid(readers[i].thread, &clock);

		if (ret)
			return ret;
		if (clock_gettime(clock, &ts))
			return -errno;
		cpu_ns += (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
	}
	fprintf(out, "speed time_ms=%lu accesses=%lu cpu_us=%lu\n", now_ms(), reads_so_far(), cpu_ns / 1000);
	return fflush(out) ? -errno : 0;
}

/*
 * A number made from the page frames behind the hot and the cold pages, in their order: the same again means that the
 * same frames are there. 0 when the kernel doesn't say.
 */
static uint64_t frames(void)
{
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	uint64_t sum = 0, entry = 0;
	unsigned long i;

	for (i = 0; i < nr_total_pages; i++) {
		off_t at = (off_t)((uintptr_t)page_address(i) / page_bytes * sizeof(entry));

		if (pread(fd, &entry, sizeof(entry), at) != sizeof(entry) || !(entry & ((1ULL << 55) - 1))) {
			sum = 0;
			break;
		}
		sum = sum * 0x9e3779b97f4a7c15UL + (entry & ((1ULL << 55) - 1));
	}
	if (fd >= 0)
		close(fd);
	return sum;
}

/* One line of KEY=VALUE words, written at once. */
static int report(FILE *out, const char *kind)
{
	static uint64_t last_ms, last_reads, per_sec;
	struct placement hot, cold;
	uint64_t nr_reads = reads_so_far();
	uint64_t ms = now_ms();
	int ret;

	ret = query(0, nr_hot_pages, &hot);
	if (!ret)
		ret = query(nr_hot_pages, nr_total_pages, &cold);
	if (ret)
		return ret;
	/* over at least half a period, so that the figure is worth something */
	if (!last_ms || ms - last_ms >= (opt.report_ms + 1) / 2) {
		if (last_ms)
			per_sec = (nr_reads - last_reads) * 1000 / (ms - last_ms);
		last_ms = ms;
		last_reads = nr_reads;
	}
	fprintf(out,
		"%s time_ms=%lu accesses=%lu accesses_per_sec=%lu hot_total=%lu hot_near=%lu "
		"hot_err=%lu cold_total=%lu cold_near=%lu cold_err=%lu query_ms=%lu frames=%lx\n",
		kind, ms, nr_reads, per_sec, nr_hot_pages, hot.nr_near, hot.nr_errors, nr_total_pages - nr_hot_pages,
		cold.nr_near, cold.nr_errors, now_ms() - ms, opt.pfns ? frames() : 0);
	return fflush(out) ? -errno : 0;
}

/* SIGUSR1 asks for a placement now, SIGUSR2 for the speed, SIGTERM and SIGINT end the program. */
static int report_until_told(FILE *out, const sigset_t *signals)
{
	uint64_t begin_ms = now_ms();
	uint64_t next_ms = begin_ms;
	int ret = 0;

	while (!ret) {
		const struct timespec ts = { .tv_nsec = 10000000 };
		int signo = sigtimedwait(signals, NULL, &ts);

		if (signo == SIGUSR1) {
			ret = report(out, "final");
		} else if (signo == SIGUSR2) {
			ret = report_speed(out);
		} else if (signo > 0 || (opt.run_sec && now_ms() - begin_ms >= opt.run_sec * 1000)) {
			return report(out, "final");
		} else if (now_ms() >= next_ms) {
			ret = report(out, "report");
			next_ms = now_ms() + opt.report_ms;
		}
	}
	return ret;
}

static int run(void)
{
	uint64_t begin_ms = now_ms();
	FILE *out = stdout;
	sigset_t signals;
	unsigned long i;
	int ret;

	sigemptyset(&signals);
	sigaddset(&signals, SIGUSR1);
	sigaddset(&signals, SIGUSR2);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	if (opt.report_path)
		out = fopen(opt.report_path, "we");
	if (!out)
		return -errno;
	page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	if (opt.hold_path && open(opt.hold_path, O_RDWR | O_CLOEXEC) < 0)
		return -errno;
	printf("pid=%d\n", getpid());
	fflush(stdout);
	while (now_ms() < begin_ms + opt.delay_fill_ms)
		usleep(1000);
	ret = fill();
	if (!ret)
		ret = choose_pages();
	if (ret)
		return ret;
	/* The others map the same memory and read it until this one ends. */
	for (i = 1; i < opt.nr_processes; i++) {
		pid_t pid = fork();

		if (pid < 0)
			return -errno;
		if (pid == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			read_hot(&readers[THREADS_MAX - 1]);
			_exit(0);
		}
	}
	for (i = 0; i < opt.nr_threads; i++) {
		ret = -pthread_create(&readers[i].thread, NULL, read_hot, &readers[i]);
		if (ret)
			return ret;
	}
	ret = report_until_told(out, &signals);
	atomic_store_explicit(&stopping, true, memory_order_relaxed);
	for (i = 0; i < opt.nr_threads; i++)
		pthread_join(readers[i].thread, NULL);
	return ret;
}

static void usage(FILE *out)
{
	fputs("usage: hotset [--total-mib N] [--hot-mib N] [--fill-node N|-1] [--near-node N]\n"
	      "              [--layout block|scatter] [--thp never|always] [--threads N]\n"
	      "              [--seconds N] [--delay-fill-ms N] [--report-ms N] [--report FILE]\n"
	      "              [--processes N] [--bind-nodes MASK] [--memory WORDS] [--hold FILE]\n"
	      "Words of memory: locked, hugetlb, shared, and frames (of the report), by commas.\n"
	      "Reads the hot part of its memory at random until SIGTERM; SIGUSR1 asks for a\n"
	      "placement report, SIGUSR2 for the reads and their CPU time alone. Report lines are\n"
	      "KEY=VALUE words.\n",
	      out);
}

static bool number(const char *text, long min, long max, long *value)
{
	char *end;

	errno = 0;
	*value = strtol(text, &end, 10);
	return !errno && end != text && !*end && *value >= min && *value <= max;
}

static bool word(const char *text, const char *no, const char *yes, bool *value)
{
	*value = !strcmp(text, yes);
	return *value || !strcmp(text, no);
}

/* Options that take a number, in the order of long_options. */
static const struct {
	unsigned long *value;
	long min;
	long max;
} numbers[] = {
	{ &opt.total_mib, 1, 1L << 22 },     { &opt.hot_mib, 1, 1L << 22 }, { &opt.near_node, 0, NODES_MAX - 2 },
	{ &opt.nr_threads, 1, THREADS_MAX }, { &opt.run_sec, 0, 1L << 24 }, { &opt.delay_fill_ms, 0, 1L << 24 },
	{ &opt.report_ms, 10, 1L << 24 },    { &opt.nr_processes, 1, 64 },  { &opt.bind_nodes, 0, 1L << 30 },
};

enum { FILL_NODE = 100, LAYOUT, THP, REPORT, MEMORY, HOLD, HELP };

static const struct option long_options[] = {
	{ "total-mib", 1, NULL, 0 },   { "hot-mib", 1, NULL, 1 },
	{ "near-node", 1, NULL, 2 },   { "threads", 1, NULL, 3 },
	{ "seconds", 1, NULL, 4 },     { "delay-fill-ms", 1, NULL, 5 },
	{ "report-ms", 1, NULL, 6 },   { "fill-node", 1, NULL, FILL_NODE },
	{ "layout", 1, NULL, LAYOUT }, { "processes", 1, NULL, 7 },
	{ "bind-nodes", 1, NULL, 8 },  { "memory", 1, NULL, MEMORY },
	{ "hold", 1, NULL, HOLD },     { "thp", 1, NULL, THP },
	{ "report", 1, NULL, REPORT }, { "help", 0, NULL, HELP },
	{ NULL, 0, NULL, 0 },
};

static bool take_memory(const char *text)
{
	static const struct {
		const char *name;
		bool *value;
	} words[] = {
		{ "locked", &opt.locked },
		{ "hugetlb", &opt.hugetlb },
		{ "shared", &opt.shared },
		{ "frames", &opt.pfns },
	};

	while (*text) {
		size_t len = strcspn(text, ",");
		bool found = false;

		for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
			if (strlen(words[i].name) != len || strncmp(words[i].name, text, len) != 0)
				continue;
			found = *words[i].value = true;
		}
		if (!found)
			return false;
		text += len + (text[len] == ',');
	}
	return true;
}

static bool take_option(int which, const char *text)
{
	long value;

	switch (which) {
	case FILL_NODE:
		return number(text, -1, NODES_MAX - 2, &opt.fill_node);
	case LAYOUT:
		return word(text, "block", "scatter", &opt.scatter);
	case THP:
		return word(text, "never", "always", &opt.huge);
	case MEMORY:
		return take_memory(text);
	case HOLD:
		opt.hold_path = text;
		return true;
	case REPORT:
		opt.report_path = text;
		return true;
	case '?':
		return false;
	default:
		if (!number(text, numbers[which].min, numbers[which].max, &value))
			return false;
		*numbers[which].value = (unsigned long)value;
		return true;
	}
}

int main(int argc, char **argv)
{
	int which, ret;

	while ((which = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		if (which == HELP) {
			usage(stdout);
			return 0;
		}
		if (!take_option(which, optarg))
			break;
	}
	if (which != -1 || optind < argc || opt.hot_mib > opt.total_mib) {
		usage(stderr);
		return 64;
	}
	ret = run();
	if (ret) {
		fprintf(stderr, "hotset: %s\n", strerror(-ret));
		return 1;
	}
	return 0;
}
