/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <linux/perf_event.h>
#include <sys/mman.h>
#include <unistd.h>

#include "harness.h"
#include "source.h"
#include "source_counts.h"

#define RINGS 3

struct bench {
	struct source source;
	struct source_ring rings[RINGS];
	struct source_counts counts;
};

/* Nothing is mapped: a ring that isn't NULL is an open one. */
static void open_ring(struct bench *b, int i)
{
	b->rings[i].fd = memfd_create("event", MFD_CLOEXEC);
	b->rings[i].ring = (struct perf_ring *)&b->rings[i];
}

static void init(struct bench *b, bool has_lost)
{
	*b = (struct bench){ .counts = { .has_lost = has_lost } };
	b->source.rings = b->rings;
	b->source.n_rings = RINGS;
	for (int i = 0; i < RINGS; i++)
		open_ring(b, i);
}

static void done(struct bench *b)
{
	for (int i = 0; i < RINGS; i++)
		close(b->rings[i].fd);
	source_counts_done(&b->counts);
}

static void says(struct bench *b, int i, uint64_t count, uint64_t enabled, uint64_t running, uint64_t lost)
{
	uint64_t words[] = { count, enabled, running, lost };
	size_t bytes = b->counts.has_lost ? sizeof(words) : 3 * sizeof(words[0]);

	CU_ASSERT_EQUAL(pwrite(b->rings[i].fd, words, bytes, lseek(b->rings[i].fd, 0, SEEK_CUR)), (ssize_t)bytes);
}

static void formats(void)
{
	CU_ASSERT_EQUAL(source_counts_format(false), PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING);
	CU_ASSERT_EQUAL(source_counts_format(true) & ~source_counts_format(false), PERF_FORMAT_LOST);
}

static void sums(void)
{
	for (int has_lost = 0; has_lost < 2; has_lost++) {
		struct bench b;

		init(&b, has_lost);
		for (int i = 0; i < RINGS; i++)
			says(&b, i, 10000, 1000, 1000, 5);
		CU_ASSERT_EQUAL(source_counts_look(&b.counts, &b.source, 100), 0);
		CU_ASSERT_EQUAL(b.counts.taken, 300);
		CU_ASSERT_EQUAL(b.counts.lost, has_lost ? 15 : 0);
		CU_ASSERT_EQUAL(b.counts.share, 1);
		CU_ASSERT_EQUAL(b.counts.n_readable, RINGS);
		/* By another period, and with half the time for someone else on one of them. */
		says(&b, 0, 30000, 2000, 2000, 7);
		says(&b, 1, 10000, 2000, 1500, 5);
		says(&b, 2, 10000, 2000, 1000, 5);
		CU_ASSERT_EQUAL(source_counts_look(&b.counts, &b.source, 200), 0);
		CU_ASSERT_EQUAL(b.counts.taken, 400);
		CU_ASSERT_EQUAL(b.counts.lost, has_lost ? 17 : 0);
		CU_ASSERT_DOUBLE_EQUAL(b.counts.share, 0.5, 1e-9);
		CU_ASSERT_EQUAL(b.counts.n_stopped, 0);
		done(&b);
	}
}

/* A CPU that went takes its counts along; back, it begins anew. */
static void comes_and_goes(void)
{
	struct bench b;

	init(&b, true);
	for (int i = 0; i < RINGS; i++)
		says(&b, i, 1000, 1000, 1000, 0);
	CU_ASSERT_EQUAL(source_counts_look(&b.counts, &b.source, 10), 0);
	close(b.rings[1].fd);
	b.rings[1].fd = -1;
	b.rings[1].ring = NULL;
	says(&b, 0, 2000, 2000, 2000, 0);
	says(&b, 2, 2000, 2000, 2000, 0);
	CU_ASSERT_EQUAL(source_counts_look(&b.counts, &b.source, 10), 0);
	CU_ASSERT_EQUAL(b.counts.taken, 500);
	CU_ASSERT_EQUAL(b.counts.share, 1);
	open_ring(&b, 1);
	says(&b, 0, 2000, 2000, 2000, 0);
	says(&b, 1, 50, 10, 10, 3);
	says(&b, 2, 2000, 2000, 2000, 0);
	CU_ASSERT_EQUAL(source_counts_look(&b.counts, &b.source, 10), 0);
	CU_ASSERT_EQUAL(b.counts.taken, 505);
	CU_ASSERT_EQUAL(b.counts.lost, 3);
	done(&b);
}

static void given_up_by_the_kernel(void)
{
	struct bench b;

	init(&b, true);
	says(&b, 0, 1000, 1000, 1000, 0);
	CU_ASSERT_EQUAL(source_counts_look(&b.counts, &b.source, 10), 0);
	CU_ASSERT_EQUAL(b.counts.n_stopped, 2);
	CU_ASSERT_EQUAL(b.counts.n_readable, 1);
	/* No time went by: the share stays. */
	b.counts.share = 0.25;
	CU_ASSERT_EQUAL(source_counts_look(&b.counts, &b.source, 10), 0);
	CU_ASSERT_EQUAL(b.counts.n_stopped, 3);
	CU_ASSERT_EQUAL(b.counts.share, 0.25);
	done(&b);
}

static void what_the_kernel_threw_away(void)
{
	static const struct {
		uint64_t taken, read, lost, before, want;
	} tallies[] = {
		{ 0, 0, 0, 0, 0 },        { 0, 500, 0, 0, 0 }, /* not known */
		{ 1000, 100, 0, 0, 900 }, { 1000, 100, 50, 0, 850 },
		{ 1000, 100, 950, 0, 0 }, { 1000, 900, 50, 80, 80 }, /* it was in the rings, then: never less */
		{ 1000, 1100, 50, 0, 0 },
	};

	for (size_t i = 0; i < sizeof(tallies) / sizeof(tallies[0]); i++)
		CU_ASSERT_EQUAL(source_counts_filtered(tallies[i].taken, tallies[i].read, tallies[i].lost,
						       tallies[i].before),
				tallies[i].want);
}

TEST_MAIN(source_counts, TEST(formats), TEST(sums), TEST(comes_and_goes), TEST(given_up_by_the_kernel),
	  TEST(what_the_kernel_threw_away))
