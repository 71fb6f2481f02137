/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * movecost: what moving pages costs, and how long who reads them waits. A child reads its memory at random and may note
 * the gaps between two reads; the parent moves that memory from a slow node to a fast one: in batches of several sizes;
 * by the mover in batches that a stall time chooses, as a migrator does it; and by the mover and by a bare move_pages()
 * loop in turns.
 *
 * A gap counts when the reader gave its CPU up in it, as who waits for a page does: a reader that was only preempted,
 * by other programs or by the emulator, has waited for nobody. Of these waits, 99.9% are no longer than the figure.
 */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <numaif.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "mover.h"
#include "mover_batch.h"
#include "nodeset.h"
#include "parse.h"
#include "sample.h"
#include "stats.h"

#define BUCKETS        1024
#define PER_OCTAVE     16
#define WAIT_MIN_NS    (20 * NSEC_PER_USEC) /* a shorter gap is no sleep */
#define ROUNDS         8
#define TURN_PAGES     512
#define WARM_UP_CALLS  32 /* of a batch that a stall time chooses: what a call costs is known by then */
#define PAUSE_NS       300000
#define READS          256
#define NODE_WORD_BITS 64

static const char usage[] = "Usage: movecost [--gaps] [--mib=N] [--from=NODE] [--to=NODE]\n"
			    "\n"
			    "Moves the memory of a program that reads it: what a page costs by the mover,\n"
			    "beside a bare loop. Prints lines \"name value unit\".\n"
			    "\n"
			    "  --gaps       how long the program waits instead, in batches of several sizes and\n"
			    "               in those that some values of promote.stall_ms choose\n"
			    "  --mib=N      memory that is moved (1..65536, default 128)\n"
			    "  --from=NODE  where it is at first (default 1)\n"
			    "  --to=NODE    where it goes (default 0)\n"
			    "  --help       this text\n";

/* What the two share. */
struct shared {
	_Atomic bool ready;
	_Atomic uint32_t phase;  /* odd: gaps are noted */
	_Atomic uint32_t seen;   /* the phase that the child has come to */
	uint64_t waits[BUCKETS]; /* how many of a length; the child's, read in an even phase */
	uint64_t longest_ns;
};

struct bench {
	bool gaps; /* how long the reader waits is what is measured */
	uint64_t pages;
	int from, to;
	char *area;
	struct shared *shared;
	pid_t child;
	void **addr;
	int *node, *status;
};

static uint64_t now_ns(void)
{
	return clock_now_ns(&clock_monotonic);
}

static size_t bucket_of(uint64_t ns)
{
	double at = ns > 0 ? log2((double)ns) * PER_OCTAVE : 0;

	return at < BUCKETS - 1 ? (size_t)at : BUCKETS - 1;
}

/* Times that this thread gave up its CPU. */
static long given_up(void)
{
	struct rusage used;

	getrusage(RUSAGE_THREAD, &used);
	return used.ru_nvcsw;
}

static void note_gap(struct shared *s, uint64_t gap_ns, long *last_given_up)
{
	long now;

	if (gap_ns < WAIT_MIN_NS)
		return;
	now = given_up();
	if (now != *last_given_up) {
		s->waits[bucket_of(gap_ns)]++;
		if (gap_ns > s->longest_ns)
			s->longest_ns = gap_ns;
	}
	*last_given_up = now;
}

/* This thread, and children that it makes from now on. */
static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		perror("sched_setaffinity");
}

static void take_phase(struct shared *s)
{
	uint32_t next = atomic_load_explicit(&s->phase, memory_order_acquire); /* with the parent's stores */

	if (next == atomic_load_explicit(&s->seen, memory_order_relaxed))
		return;
	if (next & 1) {
		memset(s->waits, 0, sizeof(s->waits));
		s->longest_ns = 0;
	}
	atomic_store_explicit(&s->seen, next, memory_order_release); /* with next_phase() */
}

static uint64_t next_page(const struct bench *b, uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed % b->pages * PAGE_SIZE_BYTES;
}

static _Noreturn void read_for_ever(const struct bench *b)
{
	uint64_t seed = 88172645463325252ULL;

	for (;;)
		(void)*(volatile char *)(b->area + next_page(b, &seed));
}

/*
 * Reads in bursts with pauses between, before all others on its CPU: so it meets the mover at any place in a batch, and
 * goes on at once when its page is there again, and a gap is what the kernel takes for that.
 */
static _Noreturn void note_gaps_for_ever(const struct bench *b)
{
	const struct sched_param first = { .sched_priority = 1 };
	const struct timespec pause = { .tv_nsec = PAUSE_NS };
	struct shared *s = b->shared;
	uint64_t seed = 88172645463325252ULL;

	if (sched_setscheduler(0, SCHED_FIFO, &first))
		perror("sched_setscheduler: the gaps have the scheduler's share in them");
	for (;;) {
		uint64_t last_ns, at_ns;
		long last_given_up;

		nanosleep(&pause, NULL);
		take_phase(s);
		last_given_up = given_up();
		last_ns = now_ns();
		for (int i = 0; i < READS; i++) {
			(void)*(volatile char *)(b->area + next_page(b, &seed));
			at_ns = now_ns();
			if (atomic_load_explicit(&s->seen, memory_order_relaxed) & 1)
				note_gap(s, at_ns - last_ns, &last_given_up);
			last_ns = at_ns;
		}
	}
}

static void next_phase(struct bench *b)
{
	uint32_t phase = atomic_load_explicit(&b->shared->phase, memory_order_relaxed) + 1;

	atomic_store_explicit(&b->shared->phase, phase, memory_order_release);
	while (atomic_load_explicit(&b->shared->seen, memory_order_acquire) != phase)
		usleep(100);
}

/* Of the waits, @share are no longer than this. 0: there was none. */
static double wait_us(const struct shared *s, double share)
{
	uint64_t sum = 0, above = 0;
	size_t i;

	for (i = 0; i < BUCKETS; i++)
		sum += s->waits[i];
	if (sum == 0)
		return 0;
	for (i = BUCKETS - 1; i > 0 && (double)(above + s->waits[i]) <= (double)sum * (1 - share); i--)
		above += s->waits[i];
	return exp2((double)(i + 1) / PER_OCTAVE) / 1e3;
}

/* A bare loop, as simple as can be. Time in ns; exits when the kernel won't. */
static uint64_t move_bare(struct bench *b, uint64_t first, uint64_t n, uint64_t batch, int to)
{
	uint64_t begin_ns;

	for (uint64_t i = 0; i < b->pages; i++)
		b->node[i] = to;
	begin_ns = now_ns();
	for (uint64_t done = first; done < first + n; done += batch) {
		uint64_t part = first + n - done < batch ? first + n - done : batch;

		if (move_pages(b->child, part, b->addr + done, b->node, b->status, MPOL_MF_MOVE) < 0) {
			perror("move_pages");
			kill(b->child, SIGKILL);
			exit(1);
		}
	}
	return now_ns() - begin_ns;
}

/* One batch by the mover, of up to @n pages. */
static void move_batch(struct bench *b, const struct mover *mover, uint64_t first, uint64_t n,
		       struct mover_summary *ret)
{
	struct mover_page page[TURN_PAGES];

	for (uint64_t i = 0; i < n; i++)
		page[i] = (struct mover_page){ .addr = (uint64_t)(uintptr_t)b->addr[first + i],
					       .bytes = PAGE_SIZE_BYTES,
					       .from_nid = b->from };
	mover_move(mover, (uint32_t)b->child, b->to, page, n, ret);
}

/* A turn of the mover: all of it in ns, and what it spent in the move call alone in @ret_call_ns. */
static uint64_t move_by_mover(struct bench *b, const struct mover *mover, uint64_t first, uint64_t *ret_call_ns)
{
	uint64_t begin_ns = now_ns();
	struct mover_summary sum;

	move_batch(b, mover, first, TURN_PAGES, &sum);
	*ret_call_ns = sum.call_ns;
	return now_ns() - begin_ns;
}

static uint64_t count_on(struct bench *b, int nid)
{
	uint64_t n = 0;

	if (move_pages(b->child, b->pages, b->addr, NULL, b->status, 0) < 0)
		return 0;
	for (uint64_t i = 0; i < b->pages; i++)
		n += b->status[i] == nid;
	return n;
}

/* What the phase that is over has shown, of @name, in which @pages took @took_ns. */
static void show(struct bench *b, const char *name, uint64_t pages, uint64_t took_ns)
{
	uint64_t waits = 0;

	for (size_t i = 0; i < BUCKETS; i++)
		waits += b->shared->waits[i];
	printf("%s_gap_p50 %.0f us\n", name, wait_us(b->shared, 0.5));
	printf("%s_gap_p90 %.0f us\n", name, wait_us(b->shared, 0.9));
	printf("%s_gap_p99 %.0f us\n", name, wait_us(b->shared, 0.99));
	printf("%s_gap_p999 %.0f us\n", name, wait_us(b->shared, 0.999));
	printf("%s_gap_longest %.0f us\n", name, (double)b->shared->longest_ns / 1e3);
	printf("%s_waits %llu waits\n", name, (unsigned long long)waits);
	printf("%s_cost %.1f us/page\n", name, (double)took_ns / 1e3 / (double)pages);
	printf("%s_moved %llu pages\n", name, (unsigned long long)count_on(b, b->to));
	fflush(stdout);
}

static void one_size(struct bench *b, uint64_t batch)
{
	uint64_t took_ns;
	char name[32];

	move_bare(b, 0, b->pages, b->pages, b->from);
	next_phase(b);
	took_ns = move_bare(b, 0, b->pages, batch, b->to);
	next_phase(b);
	snprintf(name, sizeof(name), "batch_%llu", (unsigned long long)batch);
	show(b, name, b->pages, took_ns);
}

/* As migrator.c: each call is learnt from, and every sixteenth is half as large. */
static void one_stall(struct bench *b, const struct mover *mover, uint64_t stall_ms)
{
	struct mover_batch batch = { 0 };
	uint64_t done = 0, from = 0, begin_ns = 0, calls = 0, size = 0, largest = 0;
	char name[32];

	move_bare(b, 0, b->pages, b->pages, b->from);
	while (done < b->pages) {
		struct mover_summary sum;
		uint64_t n = mover_batch_size(&batch, stall_ms * NSEC_PER_MSEC, TURN_PAGES);

		if (calls == WARM_UP_CALLS) {
			next_phase(b);
			from = done;
			begin_ns = now_ns();
		}
		size = n;
		largest = calls >= WARM_UP_CALLS && n > largest ? n : largest;
		n = ++calls % 16 ? n : n / 2;
		n = n < b->pages - done ? n : b->pages - done;
		move_batch(b, mover, done, n, &sum);
		mover_batch_learn(&batch, (size_t)sum.call_pages, sum.call_ns);
		done += n;
	}
	if (calls <= WARM_UP_CALLS) {
		fprintf(stderr, "movecost: too little memory for a stall time of %llu ms\n",
			(unsigned long long)stall_ms);
		return;
	}
	next_phase(b);
	snprintf(name, sizeof(name), "stall_%llu", (unsigned long long)stall_ms);
	show(b, name, b->pages - from, now_ns() - begin_ns);
	printf("%s_batch %llu pages\n", name, (unsigned long long)size);
	printf("%s_largest %llu pages\n", name, (unsigned long long)largest);
	fflush(stdout);
}

static void measure_gaps(struct bench *b, const struct mover *mover)
{
	static const uint64_t sizes[] = { 8, 32, 128, 512 }, stalls[] = { 5, 10, 20 };

	next_phase(b);
	sleep(1);
	next_phase(b);
	printf("still_gap_p999 %.0f us\n", wait_us(b->shared, 0.999));
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		one_size(b, sizes[i]);
	one_size(b, b->pages);
	for (size_t i = 0; i < sizeof(stalls) / sizeof(stalls[0]); i++)
		one_stall(b, mover, stalls[i]);
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* What else the host does only adds to a call, and to some more than to others: the quarter that took least, by its
 * longest. Sorts. */
static double quarter(double *us, uint64_t n)
{
	qsort(us, n, sizeof(*us), by_size);
	return us[n / 4];
}

/*
 * One call of each side by side, who begins changing. The move call is the same on both sides, and most of the time of
 * both: the host's noise in it is larger than all that the mover does beside. So that part is timed by itself, in each
 * of the mover's turns, and the ratio is of it and the calls of both sides together; calls_ratio says whether the calls
 * are alike.
 */
static void compare(struct bench *b, const struct mover *mover)
{
	uint64_t pairs_a_round = b->pages / (2 * TURN_PAGES), turns = ROUNDS * pairs_a_round, n = 0;
	double *bare_us = calloc(turns, sizeof(double)), *call_us = calloc(turns, sizeof(double));
	double *beside_us = calloc(turns, sizeof(double)), *both_us = calloc(2 * turns, sizeof(double));
	double bare, call, beside, both;

	if (!bare_us || !call_us || !beside_us || !both_us || pairs_a_round == 0) {
		fprintf(stderr, "movecost: too little memory for a comparison\n");
		kill(b->child, SIGKILL);
		exit(1);
	}
	for (uint64_t round = 0; round < ROUNDS; round++) {
		move_bare(b, 0, b->pages, b->pages, b->from);
		for (uint64_t pair = 0; pair < pairs_a_round; pair++) {
			uint64_t first = pair * 2 * TURN_PAGES, bare_ns, moved_ns, call_ns;

			if ((pair + round) % 2) {
				moved_ns = move_by_mover(b, mover, first, &call_ns);
				bare_ns = move_bare(b, first + TURN_PAGES, TURN_PAGES, TURN_PAGES, b->to);
			} else {
				bare_ns = move_bare(b, first, TURN_PAGES, TURN_PAGES, b->to);
				moved_ns = move_by_mover(b, mover, first + TURN_PAGES, &call_ns);
			}
			both_us[2 * n] = bare_us[n] = (double)bare_ns / 1e3 / TURN_PAGES;
			both_us[2 * n + 1] = call_us[n] = (double)call_ns / 1e3 / TURN_PAGES;
			beside_us[n++] = (double)(moved_ns - call_ns) / 1e3 / TURN_PAGES;
		}
	}
	bare = quarter(bare_us, n);
	call = quarter(call_us, n);
	beside = quarter(beside_us, n);
	both = quarter(both_us, 2 * n);
	printf("bare_cost %.1f us/page\n", bare);
	printf("mover_call_cost %.1f us/page\n", call);
	printf("mover_beside_cost %.2f us/page\n", beside);
	printf("calls_ratio %.3f ratio\n", call / bare);
	printf("mover_to_bare %.3f ratio\n", (beside + both) / both);
	free(bare_us);
	free(call_us);
	free(beside_us);
	free(both_us);
}

static void set_up(struct bench *b)
{
	unsigned long nodes[NODE_MAX / NODE_WORD_BITS] = { 0 };

	b->shared = mmap(NULL, sizeof(*b->shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	b->area = mmap(NULL, b->pages * PAGE_SIZE_BYTES, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	b->addr = calloc(b->pages, sizeof(*b->addr));
	b->node = calloc(b->pages, sizeof(*b->node));
	b->status = calloc(b->pages, sizeof(*b->status));
	if (b->shared == MAP_FAILED || b->area == MAP_FAILED || !b->addr || !b->node || !b->status) {
		perror("memory");
		exit(1);
	}
	madvise(b->area, b->pages * PAGE_SIZE_BYTES, MADV_NOHUGEPAGE);
	for (uint64_t i = 0; i < b->pages; i++)
		b->addr[i] = b->area + i * PAGE_SIZE_BYTES;
	nodes[(unsigned int)b->from / NODE_WORD_BITS] |= 1UL << ((unsigned int)b->from % NODE_WORD_BITS);
	b->child = fork();
	if (b->child < 0) {
		perror("fork");
		exit(1);
	}
	if (b->child > 0)
		return;
	if (set_mempolicy(MPOL_BIND, nodes, NODE_MAX)) {
		perror("set_mempolicy");
		_exit(77);
	}
	for (uint64_t i = 0; i < b->pages; i++)
		b->area[i * PAGE_SIZE_BYTES] = 1;
	set_mempolicy(MPOL_DEFAULT, NULL, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	atomic_store_explicit(&b->shared->ready, true, memory_order_release); /* with main() */
	if (b->gaps)
		note_gaps_for_ever(b);
	read_for_ever(b);
}

int main(int argc, char **argv)
{
	static const struct option options[] = { { "gaps", 0, NULL, 'g' }, { "mib", 1, NULL, 'm' },
						 { "from", 1, NULL, 'f' }, { "to", 1, NULL, 't' },
						 { "help", 0, NULL, 'h' }, { NULL, 0, NULL, 0 } };
	struct bench b = { .pages = 128 * 256, .from = 1 };
	struct stats *stats = stats_new();
	struct mover mover = { .ops = &mover_pages_ops, .clock = &clock_monotonic, .outcomes = mover_outcomes_new() };
	uint64_t value;
	int which;

	while ((which = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (which == 'h') {
			fputs(usage, stdout);
			return 0;
		}
		if (which == 'g') {
			b.gaps = true;
			continue;
		}
		if (which == '?' || parse_u64(optarg, which == 'm', which == 'm' ? 65536 : NODE_MAX - 1, &value) < 0) {
			fputs(usage, stderr);
			return 64;
		}
		if (which == 'm')
			b.pages = value * 256;
		else
			*(which == 'f' ? &b.from : &b.to) = (int)value;
	}
	mover.stats = stats ? stats_slot_new(stats) : NULL;
	if (!mover.stats || !mover.outcomes)
		return 1;
	if (b.gaps)
		pin(0);
	set_up(&b);
	while (!atomic_load_explicit(&b.shared->ready, memory_order_acquire)) {
		if (waitpid(b.child, NULL, WNOHANG) > 0)
			return 77; /* it has said why */
		usleep(1000);
	}
	if (b.gaps)
		measure_gaps(&b, &mover);
	else
		compare(&b, &mover);
	kill(b.child, SIGKILL);
	return 0;
}
