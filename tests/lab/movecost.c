/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * movecost: what moving pages costs, and how long who reads them waits. A child reads its memory at random and notes
 * the gaps between two reads; the parent moves that memory from a slow node to a fast one, in batches of several sizes,
 * and then by the mover and by a bare move_pages() loop in turns.
 *
 * A gap counts when the reader gave its CPU up in it, as who waits for a page does: a reader that was only preempted,
 * by other programs or by the emulator, has waited for nobody. Of these waits, 99.9% are no longer than the figure.
 */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <numaif.h>
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
#include <unistd.h>

#include "clock.h"
#include "mover.h"
#include "nodeset.h"
#include "parse.h"
#include "sample.h"
#include "stats.h"

#define BUCKETS        1024
#define PER_OCTAVE     16
#define WAIT_MIN_NS    (20 * NSEC_PER_USEC) /* a shorter gap is no sleep */
#define ROUNDS         4
#define TURN_PAGES     512
#define NODE_WORD_BITS 64

static const char usage[] = "Usage: movecost [--mib=N] [--from=NODE] [--to=NODE]\n"
			    "\n"
			    "Moves the memory of a program that reads it, in batches of several sizes, and by\n"
			    "the mover beside a bare loop. Prints lines \"name value unit\".\n"
			    "\n"
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

static _Noreturn void read_for_ever(struct bench *b)
{
	struct shared *s = b->shared;
	uint64_t seed = 88172645463325252ULL, last_ns = now_ns(), at_ns;
	uint32_t phase = 0, next;
	long last_given_up = given_up();

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;) {
		seed ^= seed << 13;
		seed ^= seed >> 7;
		seed ^= seed << 17;
		(void)*(volatile char *)(b->area + seed % b->pages * PAGE_SIZE_BYTES);
		at_ns = now_ns();
		next = atomic_load_explicit(&s->phase, memory_order_acquire); /* with the parent's stores */
		if (next != phase) {
			phase = next;
			if (phase & 1) {
				memset(s->waits, 0, sizeof(s->waits));
				s->longest_ns = 0;
			}
			atomic_store_explicit(&s->seen, phase, memory_order_release); /* with wait_for_phase() */
		} else if (phase & 1) {
			note_gap(s, at_ns - last_ns, &last_given_up);
		}
		last_ns = at_ns;
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

static uint64_t move_by_mover(struct bench *b, const struct mover *mover, uint64_t first, uint64_t n)
{
	uint64_t begin_ns = now_ns();
	struct mover_page page[TURN_PAGES];

	for (uint64_t done = first; done < first + n; done += TURN_PAGES) {
		uint64_t part = first + n - done < TURN_PAGES ? first + n - done : TURN_PAGES;
		struct mover_summary sum;

		for (uint64_t i = 0; i < part; i++)
			page[i] = (struct mover_page){ .addr = (uint64_t)(uintptr_t)b->addr[done + i],
						       .bytes = PAGE_SIZE_BYTES,
						       .from_nid = b->from };
		mover_move(mover, (uint32_t)b->child, b->to, page, part, &sum);
	}
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

static void one_size(struct bench *b, uint64_t batch)
{
	uint64_t took_ns;

	move_bare(b, 0, b->pages, b->pages, b->from);
	next_phase(b);
	took_ns = move_bare(b, 0, b->pages, batch, b->to);
	next_phase(b);
	printf("batch_%llu_gap_p50 %.0f us\n", (unsigned long long)batch, wait_us(b->shared, 0.5));
	printf("batch_%llu_gap_p999 %.0f us\n", (unsigned long long)batch, wait_us(b->shared, 0.999));
	printf("batch_%llu_gap_longest %.0f us\n", (unsigned long long)batch, (double)b->shared->longest_ns / 1e3);
	printf("batch_%llu_cost %.1f us/page\n", (unsigned long long)batch, (double)took_ns / 1e3 / (double)b->pages);
	printf("batch_%llu_moved %llu pages\n", (unsigned long long)batch, (unsigned long long)count_on(b, b->to));
	fflush(stdout);
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/*
 * One call of each side by side, who begins changing: what else the host does falls on few of the pairs, and the median
 * doesn't see it.
 */
static void compare(struct bench *b, const struct mover *mover)
{
	uint64_t bare_ns = 0, mover_ns = 0, pairs_a_round = b->pages / (2 * TURN_PAGES), n = 0;
	double *ratio = calloc(ROUNDS * pairs_a_round, sizeof(*ratio));

	if (!ratio || pairs_a_round == 0) {
		fprintf(stderr, "movecost: too little memory for a comparison\n");
		kill(b->child, SIGKILL);
		exit(1);
	}
	for (uint64_t round = 0; round < ROUNDS; round++) {
		move_bare(b, 0, b->pages, b->pages, b->from);
		for (uint64_t pair = 0; pair < pairs_a_round; pair++) {
			uint64_t first = pair * 2 * TURN_PAGES, bare, moved;

			if ((pair + round) % 2) {
				moved = move_by_mover(b, mover, first, TURN_PAGES);
				bare = move_bare(b, first + TURN_PAGES, TURN_PAGES, TURN_PAGES, b->to);
			} else {
				bare = move_bare(b, first, TURN_PAGES, TURN_PAGES, b->to);
				moved = move_by_mover(b, mover, first + TURN_PAGES, TURN_PAGES);
			}
			bare_ns += bare;
			mover_ns += moved;
			ratio[n++] = (double)moved / (double)bare;
		}
	}
	qsort(ratio, n, sizeof(*ratio), by_size);
	printf("bare_cost %.1f us/page\n", (double)bare_ns / 1e3 / (double)(n * TURN_PAGES));
	printf("mover_cost %.1f us/page\n", (double)mover_ns / 1e3 / (double)(n * TURN_PAGES));
	printf("mover_to_bare %.3f ratio\n", ratio[n / 2]);
	free(ratio);
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
	atomic_store_explicit(&b->shared->ready, true, memory_order_release); /* with main() */
	read_for_ever(b);
}

int main(int argc, char **argv)
{
	static const struct option options[] = { { "mib", 1, NULL, 'm' },
						 { "from", 1, NULL, 'f' },
						 { "to", 1, NULL, 't' },
						 { "help", 0, NULL, 'h' },
						 { NULL, 0, NULL, 0 } };
	static const uint64_t sizes[] = { 8, 64, 512 };
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
	set_up(&b);
	while (!atomic_load_explicit(&b.shared->ready, memory_order_acquire)) {
		if (waitpid(b.child, NULL, WNOHANG) > 0)
			return 77; /* it has said why */
		usleep(1000);
	}
	next_phase(&b);
	sleep(1);
	next_phase(&b);
	printf("still_gap_p999 %.0f us\n", wait_us(b.shared, 0.999));
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		one_size(&b, sizes[i]);
	one_size(&b, b.pages);
	compare(&b, &mover);
	kill(b.child, SIGKILL);
	return 0;
}
