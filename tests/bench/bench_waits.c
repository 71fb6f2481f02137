/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * bench_waits: how long a program with 60,000 mappings waits in mmap() and munmap() while its mappings are read. It
 * does nothing else than to map and unmap a page; in turns it is left alone, its numa_maps are read by the daemon's own
 * functions, and they are read as fast as can be, in reads as small. A call waited when the program gave up its CPU in
 * it; what it waited is taken by the time of the turn.
 */
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "bench.h"
#include "fsroot.h"
#include "maps_lines.h"
#include "nodeset.h"
#include "owners_map.h"
#include "owners_usage.h"

#define MAPPINGS   60000UL
#define PAGE       4096UL
#define ALONE_NS   100000000
#define TURNS_MIN  5
#define TURNS_MAX  1024
#define SHARE_MIN  0.02 /* less than this can't be told from nothing */
#define START_SECS 60

static const char usage[] = "Usage: bench_waits [--seconds=N] [--json]\n"
			    "\n"
			    "What a program with 60,000 mappings waits while they are read.\n"
			    "\n"
			    "  --seconds=N  how long is measured (1..3600, default 10)\n"
			    "  --json       one JSON object instead of lines \"name value unit\"\n"
			    "  --help       this text\n";

enum turn { ALONE, SNAPSHOT, USAGE, PLAIN, TURNS };

/* Relaxed, all: numbers of one writer, read when it has gone on to the next turn or nearly so. */
struct shared {
	_Atomic int turn, state; /* state: 1 ready, -1 it can't */
	_Atomic uint64_t calls[TURNS], ns[TURNS], waited_ns[TURNS];
};

static uint64_t get(const _Atomic uint64_t *word)
{
	return atomic_load_explicit(word, memory_order_relaxed);
}

static void add(_Atomic uint64_t *word, uint64_t n)
{
	atomic_fetch_add_explicit(word, n, memory_order_relaxed);
}

static long voluntary(void)
{
	struct rusage usage_now;

	getrusage(RUSAGE_THREAD, &usage_now);
	return usage_now.ru_nvcsw;
}

/* Every second page may not be written, so that each is a mapping. */
static bool make_mappings(void)
{
	char *at = mmap(NULL, MAPPINGS * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		return false;
	madvise(at, MAPPINGS * PAGE, MADV_NOHUGEPAGE);
	for (size_t i = 0; i < MAPPINGS; i++)
		at[i * PAGE] = 1;
	for (size_t i = 0; i < MAPPINGS; i += 2)
		if (mprotect(at + i * PAGE, PAGE, PROT_READ) < 0)
			return false;
	return true;
}

__attribute__((noreturn)) static void program(struct shared *s)
{
	bool ready = prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && make_mappings();
	long before;

	atomic_store_explicit(&s->state, ready ? 1 : -1, memory_order_relaxed);
	before = voluntary();
	while (ready) {
		int turn = atomic_load_explicit(&s->turn, memory_order_relaxed);
		uint64_t ns = bench_now_ns();
		void *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		long now;

		if (page == MAP_FAILED)
			break;
		munmap(page, PAGE);
		ns = bench_now_ns() - ns;
		now = voluntary();
		add(&s->calls[turn], 1);
		add(&s->ns[turn], ns);
		if (now != before)
			add(&s->waited_ns[turn], ns);
		before = now;
	}
	_exit(0);
}

/* As the daemon's reader, without its pauses. */
static int read_plain(const struct fsroot *root, uint32_t pid)
{
	int fd = fsroot_open_file(root, "proc/%u/numa_maps", pid);
	char buf[MAPS_LINES_READ_BYTES];
	ssize_t n;

	if (fd < 0)
		return fd;
	while ((n = read(fd, buf, sizeof(buf))) > 0)
		bench_used(buf);
	close(fd);
	return n < 0 ? -1 : 0;
}

static int take_turn(enum turn turn, const struct fsroot *root, uint32_t pid)
{
	const struct timespec alone = { .tv_nsec = ALONE_NS };
	struct owners_map *map;
	struct nodeset nodes;
	uint64_t bytes;
	int r = 0;

	nodeset_clear(&nodes);
	nodeset_add(&nodes, 0);
	switch (turn) {
	case SNAPSHOT:
		map = owners_map_read(root, pid, false, NULL, NULL, &r);
		if (map && owners_map_ranges(map) == 0)
			r = -1;
		owners_map_free(map);
		return r;
	case USAGE:
		return owners_usage_read(root, pid, &nodes, NULL, NULL, &bytes);
	case PLAIN:
		return read_plain(root, pid);
	default:
		return nanosleep(&alone, NULL);
	}
}

/* One of each. What was waited, as a share of the time, and ns to a call. */
static void round_of(struct shared *s, const struct fsroot *root, uint32_t pid, double share[TURNS], double ns[TURNS])
{
	for (int turn = 0; turn < TURNS; turn++) {
		uint64_t calls = get(&s->calls[turn]), spent = get(&s->ns[turn]), waited = get(&s->waited_ns[turn]);
		uint64_t start_ns, took_ns;

		atomic_store_explicit(&s->turn, turn, memory_order_relaxed);
		start_ns = bench_now_ns();
		if (take_turn((enum turn)turn, root, pid) < 0)
			bench_die("the mappings of process %u can't be read", pid);
		took_ns = bench_now_ns() - start_ns;
		calls = get(&s->calls[turn]) - calls;
		share[turn] = (double)(get(&s->waited_ns[turn]) - waited) / (double)took_ns;
		ns[turn] = calls ? (double)(get(&s->ns[turn]) - spent) / (double)calls : (double)took_ns;
	}
}

static void run(struct shared *s, const struct fsroot *root, uint32_t pid, uint64_t seconds)
{
	static double share[TURNS][TURNS_MAX], ns[TURNS][TURNS_MAX];
	uint64_t end_ns = bench_now_ns() + seconds * 1000000000ULL;
	double median[TURNS], worst;
	size_t n;

	for (n = 0; n < TURNS_MAX && (n < TURNS_MIN || bench_now_ns() < end_ns); n++) {
		double its_share[TURNS], its_ns[TURNS];

		round_of(s, root, pid, its_share, its_ns);
		for (int turn = 0; turn < TURNS; turn++) {
			share[turn][n] = its_share[turn];
			ns[turn][n] = its_ns[turn];
		}
	}
	for (int turn = 0; turn < TURNS; turn++)
		median[turn] = bench_median(share[turn], n);
	bench_put("waits_alone_ns", bench_median(ns[ALONE], n), "ns");
	bench_put("waits_snapshot_ns", bench_median(ns[SNAPSHOT], n), "ns");
	bench_put("waits_usage_ns", bench_median(ns[USAGE], n), "ns");
	bench_put("waits_plain_ns", bench_median(ns[PLAIN], n), "ns");
	bench_put("waits_alone_share", median[ALONE], "of the time");
	bench_put("waits_snapshot_share", median[SNAPSHOT], "of the time");
	bench_put("waits_usage_share", median[USAGE], "of the time");
	bench_put("waits_plain_share", median[PLAIN], "of the time");
	worst = median[SNAPSHOT] > median[USAGE] ? median[SNAPSHOT] : median[USAGE];
	if (median[PLAIN] >= SHARE_MIN)
		bench_put("waits_ratio", worst / median[PLAIN], "ratio");
	else
		fprintf(stderr, "bench_waits: on this kernel nobody waits for a reader, nothing to compare\n");
	bench_put("turns", (double)n, "turns");
}

static struct shared *share_memory(void)
{
	void *p = mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		bench_die("no memory");
	return p;
}

int main(int argc, char **argv)
{
	uint64_t seconds = 10, end_ns;
	struct fsroot root;
	struct shared *s;
	bool json = false;
	int state;
	pid_t pid;
	const struct bench_option options[] = {
		{ .name = "seconds", .number = &seconds, .min = 1, .max = 3600 },
		{ .name = "json", .flag = &json },
	};

	bench_options(argc, argv, usage, options, sizeof(options) / sizeof(options[0]));
	if (fsroot_open(&root, "/") < 0 || !fsroot_exists(&root, "proc/self/numa_maps")) {
		fprintf(stderr, "bench_waits: this kernel has no /proc/PID/numa_maps (CONFIG_NUMA)\n");
		return BENCH_EXIT_SKIPPED;
	}
	s = share_memory();
	pid = fork();
	if (pid == 0)
		program(s);
	if (pid < 0)
		bench_die("no process");
	end_ns = bench_now_ns() + START_SECS * 1000000000ULL;
	while ((state = atomic_load_explicit(&s->state, memory_order_relaxed)) == 0 && bench_now_ns() < end_ns)
		usleep(1000);
	if (state == 1)
		run(s, &root, (uint32_t)pid, seconds);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	fsroot_close(&root);
	if (state != 1) {
		fprintf(stderr, "bench_waits: no 60,000 mappings here (vm.max_map_count, or memory)\n");
		return BENCH_EXIT_SKIPPED;
	}
	return bench_end(json);
}
