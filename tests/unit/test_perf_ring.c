/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "harness.h"
#include "perf_records.h"
#include "perf_ring.h"

static struct perf_ring *wrap(struct fake_ring *fake, size_t data_bytes, uint64_t start)
{
	return fake_ring_init(fake, data_bytes, start) ? perf_ring_wrap(fake->base, fake->page_bytes, fake->data_bytes)
						       : NULL;
}

static void unwrap(struct fake_ring *fake, struct perf_ring *ring)
{
	perf_ring_free(ring);
	fake_ring_done(fake);
}

static uint64_t tail_of(const struct fake_ring *fake)
{
	return fake_ring_page(fake)->data_tail;
}

/* A record that is known again: its number in every word behind the header. */
static const struct perf_event_header *numbered(struct test_record *record, uint64_t number, size_t bytes)
{
	record_begin(record, (uint32_t)number, 0);
	while (record->n < bytes)
		put_u64(record, number);
	return record_end(record);
}

static bool is_numbered(const struct perf_event_header *header, uint64_t number, size_t bytes)
{
	const unsigned char *at = (const unsigned char *)header;

	if (header->size != bytes || header->type != (uint32_t)number)
		return false;
	for (size_t i = 8; i < bytes; i += 8)
		if (memcmp(at + i, &number, 8) != 0)
			return false;
	return true;
}

static void empty_ring_gives_nothing(void)
{
	struct fake_ring fake;
	struct perf_ring *ring = wrap(&fake, 256, 0);
	int bad = 0;

	CU_ASSERT_EQUAL(perf_ring_data_bytes(ring), 256);
	perf_ring_begin(ring);
	CU_ASSERT_PTR_NULL(perf_ring_next(ring, &bad));
	CU_ASSERT_PTR_NULL(perf_ring_next(ring, &bad));
	perf_ring_end(ring);
	CU_ASSERT_EQUAL(bad, 0);
	CU_ASSERT_EQUAL(tail_of(&fake), 0);
	unwrap(&fake, ring);
	perf_ring_free(NULL);
}

/*
 * Random records through a small ring against a plain list of what was put. @start brings the first one to any place,
 * also where the position wraps at 2^64.
 */
static void run_model(uint64_t start, uint64_t seed)
{
	enum { RING_BYTES = 256, ROUNDS = 60 };
	struct test_rng rng = { .state = seed };
	struct fake_ring fake;
	struct perf_ring *ring = wrap(&fake, RING_BYTES, start);
	static struct test_record record;
	size_t size[RING_BYTES / 8];
	uint64_t put = 0, got = 0;

	for (int round = 0; round < ROUNDS; round++) {
		uint64_t first = put, tail_before = tail_of(&fake), bytes = 0;
		uint64_t n = test_random_below(&rng, 12);
		const struct perf_event_header *header;
		int bad = 0;

		for (uint64_t i = 0; i < n; i++) {
			/* Also one that fills the ring whole. */
			size_t want =
				test_random_below(&rng, 16) == 0 ? RING_BYTES : 8 * (1 + test_random_below(&rng, 8));

			numbered(&record, put, want);
			if (!fake_ring_put_record(&fake, &record))
				continue;
			size[put++ - first] = want;
			bytes += want;
		}
		perf_ring_begin(ring);
		/* Comes too late for this drain. */
		numbered(&record, put, 8);
		bool late = fake_ring_put_record(&fake, &record);

		while ((header = perf_ring_next(ring, &bad))) {
			CU_ASSERT_TRUE(is_numbered(header, got, size[got - first]));
			CU_ASSERT_EQUAL(tail_of(&fake), tail_before);
			got++;
		}
		CU_ASSERT_EQUAL(got, put);
		CU_ASSERT_EQUAL(bad, 0);
		perf_ring_end(ring);
		CU_ASSERT_EQUAL(tail_of(&fake), tail_before + bytes);
		if (late) {
			perf_ring_begin(ring);
			header = perf_ring_next(ring, &bad);
			CU_ASSERT_TRUE(header && is_numbered(header, got, 8));
			perf_ring_end(ring);
			put++;
			got++;
		}
	}
	CU_ASSERT(put > 50);
	unwrap(&fake, ring);
}

static void model_at_every_offset(void)
{
	for (uint64_t offset = 0; offset < 256; offset += 8)
		run_model(offset, 77 + offset);
}

static void model_over_the_wrap_of_positions(void)
{
	for (uint64_t before = 0; before <= 256; before += 8)
		run_model(0 - before, 99 + before);
}

/* All records of a drain stay readable up to its end, the straddling one and those in place. */
static void records_stay_valid_until_the_end(void)
{
	struct fake_ring fake;
	struct perf_ring *ring = wrap(&fake, 128, 88);
	static struct test_record record;
	const struct perf_event_header *seen[4];

	for (uint64_t i = 0; i < 4; i++) {
		numbered(&record, i, 32);
		CU_ASSERT_TRUE(fake_ring_put_record(&fake, &record));
	}
	perf_ring_begin(ring);
	for (int i = 0; i < 4; i++)
		seen[i] = perf_ring_next(ring, NULL);
	CU_ASSERT_PTR_NULL(perf_ring_next(ring, NULL));
	for (uint64_t i = 0; i < 4; i++)
		CU_ASSERT_TRUE(seen[i] && is_numbered(seen[i], i, 32));
	perf_ring_end(ring);
	unwrap(&fake, ring);
}

/* A drain that is left early hands back what it has shown, and the next goes on there. */
static void early_end_loses_nothing(void)
{
	struct fake_ring fake;
	struct perf_ring *ring = wrap(&fake, 128, 0);
	static struct test_record record;
	const struct perf_event_header *header;

	for (uint64_t i = 0; i < 3; i++) {
		numbered(&record, i, 16);
		fake_ring_put_record(&fake, &record);
	}
	perf_ring_begin(ring);
	perf_ring_next(ring, NULL);
	perf_ring_end(ring);
	CU_ASSERT_EQUAL(tail_of(&fake), 16);
	perf_ring_begin(ring);
	header = perf_ring_next(ring, NULL);
	CU_ASSERT_TRUE(header && is_numbered(header, 1, 16));
	perf_ring_end(ring);
	CU_ASSERT_EQUAL(tail_of(&fake), 32);
	unwrap(&fake, ring);
}

static void largest_record_straddles(void)
{
	enum { SIZE = 65528 };
	struct fake_ring fake;
	struct perf_ring *ring = wrap(&fake, 131072, 131072 - 8);
	static struct test_record record;
	const struct perf_event_header *header;
	int bad = 0;

	numbered(&record, 7, SIZE);
	CU_ASSERT_TRUE(fake_ring_put_record(&fake, &record));
	perf_ring_begin(ring);
	header = perf_ring_next(ring, &bad);
	CU_ASSERT_TRUE(header && is_numbered(header, 7, SIZE));
	CU_ASSERT_PTR_NULL(perf_ring_next(ring, &bad));
	perf_ring_end(ring);
	CU_ASSERT_EQUAL(bad, 0);
	unwrap(&fake, ring);
}

static void bad_size(uint16_t size)
{
	struct fake_ring fake;
	struct perf_ring *ring = wrap(&fake, 256, 40);
	struct perf_event_header broken = { .type = 1, .size = size };
	static struct test_record record;
	const struct perf_event_header *header;
	int bad = 0;

	numbered(&record, 0, 24);
	fake_ring_put_record(&fake, &record);
	fake_ring_put(&fake, &broken, sizeof(broken));
	numbered(&record, 1, 24);
	fake_ring_put_record(&fake, &record);
	perf_ring_begin(ring);
	header = perf_ring_next(ring, &bad);
	CU_ASSERT_TRUE(header && is_numbered(header, 0, 24));
	CU_ASSERT_EQUAL(bad, 0);
	CU_ASSERT_PTR_NULL(perf_ring_next(ring, &bad));
	CU_ASSERT_EQUAL(bad, 1);
	CU_ASSERT_PTR_NULL(perf_ring_next(ring, NULL));
	perf_ring_end(ring);
	CU_ASSERT_EQUAL(tail_of(&fake), 40 + 24 + 8 + 24);
	/* And the next drain is on its feet again. */
	numbered(&record, 2, 24);
	fake_ring_put_record(&fake, &record);
	bad = 0;
	perf_ring_begin(ring);
	header = perf_ring_next(ring, &bad);
	CU_ASSERT_TRUE(header && is_numbered(header, 2, 24));
	perf_ring_end(ring);
	CU_ASSERT_EQUAL(bad, 0);
	unwrap(&fake, ring);
}

static void impossible_sizes_end_the_drain(void)
{
	static const uint16_t sizes[] = { 0, 1, 7, 9, 12, 40, 44, 256, 264, 65535 };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		bad_size(sizes[i]);
}

static void impossible_head(uint64_t head)
{
	struct fake_ring fake;
	struct perf_ring *ring = wrap(&fake, 256, 64);
	static struct test_record record;
	const struct perf_event_header *header;
	int bad = 0, drains = 0;

	fake_ring_page(&fake)->data_head = head;
	perf_ring_begin(ring);
	CU_ASSERT_PTR_NULL(perf_ring_next(ring, &bad));
	perf_ring_end(ring);
	CU_ASSERT_EQUAL(bad, 1);
	CU_ASSERT_EQUAL(tail_of(&fake), head);
	/* Back to a head that can be. */
	fake.head = (head + 7) & ~7ULL;
	numbered(&record, 5, 16);
	fake_ring_put_record(&fake, &record);
	for (; drains < 2; drains++) {
		perf_ring_begin(ring);
		header = perf_ring_next(ring, &bad);
		perf_ring_end(ring);
		if (header)
			break;
		numbered(&record, 5, 16);
		fake_ring_put_record(&fake, &record);
	}
	CU_ASSERT_TRUE(header && is_numbered(header, 5, 16));
	unwrap(&fake, ring);
}

static void impossible_heads_are_survived(void)
{
	impossible_head(64 + 256 + 8); /* more than a ring full */
	impossible_head(56);           /* backwards */
	impossible_head(0);
	impossible_head(64 + 4); /* less than a header */
	impossible_head(64 + 12);
	impossible_head(UINT64_MAX);
}

/* The same when what lies there looks like good records: it was overwritten, so it isn't. */
static void more_than_a_ring_full(void)
{
	struct fake_ring fake;
	struct perf_ring *ring = wrap(&fake, 256, 64);
	static struct test_record record;
	int bad = 0;

	numbered(&record, 1, 8);
	for (int i = 0; i < 32; i++)
		CU_ASSERT_TRUE(fake_ring_put_record(&fake, &record));
	fake_ring_page(&fake)->data_head += 8;
	perf_ring_begin(ring);
	CU_ASSERT_PTR_NULL(perf_ring_next(ring, &bad));
	perf_ring_end(ring);
	CU_ASSERT_EQUAL(bad, 1);
	CU_ASSERT_EQUAL(tail_of(&fake), 64 + 256 + 8);
	unwrap(&fake, ring);
}

static void map_of_a_file(void)
{
	struct perf_ring *ring = NULL;
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	int fd = memfd_create("ring", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	CU_ASSERT_EQUAL(ftruncate(fd, (off_t)(page * 9)), 0);
	CU_ASSERT_EQUAL(perf_ring_map(fd, page * 8 + 1, &ring), 0);
	CU_ASSERT_EQUAL(perf_ring_data_bytes(ring), page * 8);
	perf_ring_begin(ring);
	CU_ASSERT_PTR_NULL(perf_ring_next(ring, NULL));
	perf_ring_end(ring);
	perf_ring_free(ring);
	CU_ASSERT_EQUAL(perf_ring_map(fd, page * 8 - 1, &ring), 0);
	CU_ASSERT_EQUAL(perf_ring_data_bytes(ring), page * 4);
	perf_ring_free(ring);
	CU_ASSERT_EQUAL(perf_ring_map(fd, 0, &ring), 0);
	CU_ASSERT_EQUAL(perf_ring_data_bytes(ring), page);
	perf_ring_free(ring);
	ring = NULL;
	/* What the mlock limit looks like. */
	CU_ASSERT_EQUAL(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), 0);
	CU_ASSERT_EQUAL(perf_ring_map(fd, page * 8, &ring), -EPERM);
	CU_ASSERT_PTR_NULL(ring);
	close(fd);
	CU_ASSERT_EQUAL(perf_ring_map(fd, page * 8, &ring), -EBADF);
}

#define THREAD_RECORDS 100000

static void *write_records(void *ctx)
{
	struct fake_ring *fake = ctx;
	struct test_rng rng = { .state = 4711 };
	static struct test_record record;

	for (uint64_t i = 0; i < THREAD_RECORDS;) {
		numbered(&record, i, 8 * (2 + test_random_below(&rng, 6)));
		while (!fake_ring_put_record(fake, &record))
			sched_yield();
		i++;
	}
	return NULL;
}

/* With a writer that works at the same time: each record whole, in order, none twice, none missing. */
static void writer_in_another_thread(void)
{
	struct fake_ring fake;
	struct perf_ring *ring = wrap(&fake, 1024, 0 - 4096ULL);
	const struct perf_event_header *header;
	uint64_t next = 0;
	pthread_t thread;
	int bad = 0, wrong = 0;

	CU_ASSERT_EQUAL(pthread_create(&thread, NULL, write_records, &fake), 0);
	while (next < THREAD_RECORDS) {
		uint64_t before = next;

		perf_ring_begin(ring);
		while ((header = perf_ring_next(ring, &bad))) {
			wrong += !is_numbered(header, next, header->size);
			next++;
		}
		perf_ring_end(ring);
		if (bad || wrong)
			break;
		if (next == before)
			sched_yield();
	}
	CU_ASSERT_EQUAL(bad, 0);
	CU_ASSERT_EQUAL(wrong, 0);
	if (bad || wrong)
		exit(1); /* the writer would wait for ever */
	pthread_join(thread, NULL);
	unwrap(&fake, ring);
}

/* By rows where records lie whole, one by one where one straddles: each comes once, in order. */
static void rows_and_single_records(void)
{
	enum { BYTES = 40 };
	static struct test_record record;
	struct fake_ring fake;
	struct perf_ring *ring = wrap(&fake, 256, 0);
	uint64_t put = 0, seen = 0;
	size_t in_rows = 0, straddled = 0;
	int bad = 0;

	for (int round = 0; round < 100; round++) {
		const struct perf_event_header *header;

		for (int i = 0; i < 1 + round % 6; i++, put++) {
			numbered(&record, put, BYTES);
			CU_ASSERT_TRUE(fake_ring_put_record(&fake, &record));
		}
		perf_ring_begin(ring);
		do {
			size_t left, done = 0;
			const unsigned char *row = perf_ring_row(ring, &left);

			for (; left - done >= BYTES; done += BYTES, in_rows++)
				CU_ASSERT_TRUE(is_numbered((const void *)(row + done), seen++, BYTES));
			perf_ring_skip(ring, done);
			header = perf_ring_next(ring, &bad);
			if (header) {
				CU_ASSERT_TRUE(is_numbered(header, seen++, BYTES));
				straddled++;
			}
		} while (header);
		perf_ring_end(ring);
		CU_ASSERT_EQUAL(tail_of(&fake), put * BYTES);
	}
	CU_ASSERT_EQUAL(seen, put);
	CU_ASSERT(in_rows > 200 && straddled > 20);
	CU_ASSERT_EQUAL(bad, 0);
	unwrap(&fake, ring);
}

/* A head that can't be true: no row, and perf_ring_next() says why. */
static void no_row_of_an_impossible_head(void)
{
	static const uint64_t heads[] = { 256 + 8, UINT64_MAX - 7, 1ULL << 40 };

	for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
		struct fake_ring fake;
		struct perf_ring *ring = wrap(&fake, 256, 0);
		size_t left = 1;
		int bad = 0;

		fake_ring_page(&fake)->data_head = heads[i];
		perf_ring_begin(ring);
		perf_ring_row(ring, &left);
		CU_ASSERT_EQUAL(left, 0);
		CU_ASSERT_PTR_NULL(perf_ring_next(ring, &bad));
		CU_ASSERT_EQUAL(bad, 1);
		perf_ring_end(ring);
		unwrap(&fake, ring);
	}
}

TEST_MAIN(perf_ring, TEST(rows_and_single_records), TEST(no_row_of_an_impossible_head), TEST(empty_ring_gives_nothing),
	  TEST(model_at_every_offset), TEST(model_over_the_wrap_of_positions), TEST(records_stay_valid_until_the_end),
	  TEST(early_end_loses_nothing), TEST(largest_record_straddles), TEST(impossible_sizes_end_the_drain),
	  TEST(impossible_heads_are_survived), TEST(more_than_a_ring_full), TEST(map_of_a_file),
	  TEST(writer_in_another_thread))
