/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "harness.h"
#include "hotmap.h"
#include "rcu.h"
#include "regions.h"
#include "retire.h"
#include "sample.h"
#include "tablemem.h"

#define SECTION (128ULL << 20)
#define START   (1000 * NSEC_PER_SEC)

struct rig {
	struct tablemem mem;
	struct retire retire;
	struct hotmap *map;
	struct record_rule rule;
	uint32_t dead_backref; /* not alive any more */
	_Atomic size_t asked;
};

static bool alive(void *ctx, uint32_t backref)
{
	struct rig *rig = ctx;

	rig->asked++;
	return backref != rig->dead_backref;
}

static struct rig *rig_new(enum record_layout layout)
{
	struct rig *rig = calloc(1, sizeof(*rig));

	tablemem_init(&rig->mem, NULL, 1ULL << 32);
	retire_init(&rig->retire);
	rig->map = hotmap_new(&rig->mem, &rig->retire, layout, SECTION, alive, rig);
	if (!rig->map)
		abort();
	rig->rule = (struct record_rule){ .layout = layout, .window_ms = 3000, .freq_threshold = 2 };
	rig->dead_backref = UINT32_MAX;
	return rig;
}

static void rig_free(struct rig *rig)
{
	retire_free(&rig->retire, retire_take(&rig->retire));
	hotmap_free(rig->map);
	CU_ASSERT_EQUAL(tablemem_bytes(&rig->mem), 0);
	free(rig);
}

static enum hotmap_result touch(struct rig *rig, uint64_t pfn, uint32_t backref, uint64_t now_ns)
{
	struct hotmap_access access = { .rule = &rig->rule, .backref = backref, .nid = 5, .now_ns = now_ns };
	bool is_new;

	return hotmap_touch(rig->map, pfn, &access, &is_new);
}

static struct hotmap_sweep_result sweep(struct rig *rig, uint64_t now_ns,
					unsigned int (*cause)(void *ctx, uint32_t backref), void *ctx)
{
	struct hotmap_sweep s = { .now_ns = now_ns, .last_ns = now_ns - NSEC_PER_SEC, .cause = cause, .ctx = ctx };
	struct hotmap_sweep_result ret;

	hotmap_sweep(rig->map, &s, &ret);
	return ret;
}

/* A word has record and back-reference where the header says, and the marks in bits that no record uses. */
static void words_are_laid_out(void)
{
	struct rig *rig = rig_new(RECORD_PRECISE);
	uint64_t word;

	CU_ASSERT_EQUAL(HOTMAP_NOTE, 1u << 27);
	CU_ASSERT_EQUAL(HOTMAP_OLD, 1u << 28);
	CU_ASSERT_EQUAL(HOTMAP_FROZEN, 1u << 30);
	touch(rig, 77, 0xdeadbeef, START + 1234 * NSEC_PER_MSEC);
	word = hotmap_peek(rig->map, 77);
	CU_ASSERT_EQUAL(word >> 32, 0xdeadbeef);
	CU_ASSERT_EQUAL(hotmap_backref(word), 0xdeadbeef);
	CU_ASSERT_EQUAL((uint32_t)word, 5 | 1 << 10 | (1001234u & 0x3fff) << 13);
	CU_ASSERT_EQUAL(hotmap_record(word | HOTMAP_MARKS), (uint32_t)word);
	CU_ASSERT_EQUAL(hotmap_peek(rig->map, 78), 0);
	CU_ASSERT_EQUAL(hotmap_peek(rig->map, 1ULL << 50), 0);
	rig_free(rig);
	rig = rig_new(RECORD_COMPACT);
	touch(rig, 77, 0xdeadbeef, START);
	word = hotmap_peek(rig->map, 77);
	CU_ASSERT_EQUAL(word >> 32, 0xdeadbeef);
	CU_ASSERT_EQUAL(word & UINT32_MAX, 1 | (1000000 / 128 & 31) << 2);
	rig_free(rig);
}

static void old_is_marked_and_wrapped_is_none(void)
{
	struct rig *rig = rig_new(RECORD_PRECISE);
	uint64_t now_ns = START;
	int marked = 0;

	rig->rule.freq_threshold = 1;
	CU_ASSERT_EQUAL(touch(rig, 77, 1, now_ns), HOTMAP_READY);
	for (int i = 1; i <= 17; i++) {
		uint64_t word;

		now_ns += NSEC_PER_SEC;
		touch(rig, 78, 1, now_ns); /* the section is in use */
		sweep(rig, now_ns, NULL, NULL);
		word = hotmap_peek(rig->map, 77);
		marked += (word & HOTMAP_OLD) != 0;
		CU_ASSERT_EQUAL((word & HOTMAP_OLD) != 0, i >= 9 && i <= 16);
		CU_ASSERT_EQUAL(word != 0, i <= 16);
	}
	CU_ASSERT_EQUAL(marked, 8);
	/* One that is used again is young again. */
	touch(rig, 77, 1, now_ns);
	for (int i = 0; i < 10; i++) {
		now_ns += NSEC_PER_SEC;
		touch(rig, 78, 1, now_ns);
		sweep(rig, now_ns, NULL, NULL);
	}
	CU_ASSERT(hotmap_peek(rig->map, 77) & HOTMAP_OLD);
	/* Wrapped, but no janitor was here since: none, for whoever looks. */
	CU_ASSERT(!hotmap_has_wrapped(RECORD_PRECISE, hotmap_peek(rig->map, 77), now_ns));
	now_ns += 6500 * NSEC_PER_MSEC;
	CU_ASSERT(hotmap_has_wrapped(RECORD_PRECISE, hotmap_peek(rig->map, 77), now_ns));
	touch(rig, 78, 1, now_ns);
	CU_ASSERT_EQUAL(touch(rig, 77, 2, now_ns), HOTMAP_READY); /* it was, but that one is over */
	CU_ASSERT_EQUAL(hotmap_backref(hotmap_peek(rig->map, 77)), 2);
	CU_ASSERT_EQUAL(record_freq(RECORD_PRECISE, hotmap_record(hotmap_peek(rig->map, 77))), 1);
	CU_ASSERT(!(hotmap_peek(rig->map, 77) & HOTMAP_MARKS));
	rig_free(rig);
}

static void back_references_stay_with_the_living(void)
{
	struct rig *rig = rig_new(RECORD_PRECISE);

	touch(rig, 77, 1, START);
	CU_ASSERT_EQUAL(rig->asked, 0);
	touch(rig, 77, 1, START);
	CU_ASSERT_EQUAL(rig->asked, 0); /* only another one asks */
	touch(rig, 77, 2, START);
	CU_ASSERT_EQUAL(rig->asked, 1);
	CU_ASSERT_EQUAL(hotmap_backref(hotmap_peek(rig->map, 77)), 1);
	rig->dead_backref = 1;
	touch(rig, 77, 2, START);
	CU_ASSERT_EQUAL(hotmap_backref(hotmap_peek(rig->map, 77)), 2);
	CU_ASSERT_EQUAL(record_freq(RECORD_PRECISE, hotmap_record(hotmap_peek(rig->map, 77))), 4);
	rig_free(rig);
}

static void put_fills_gaps_only(void)
{
	struct rig *rig = rig_new(RECORD_PRECISE);
	uint64_t word = (uint64_t)9 << 32 | record_access(&rig->rule, 0, 3, START);

	CU_ASSERT(hotmap_put(rig->map, 77, word, START));
	CU_ASSERT_EQUAL(hotmap_peek(rig->map, 77), word);
	CU_ASSERT(!hotmap_put(rig->map, 77, word, START));
	CU_ASSERT_EQUAL(touch(rig, 77, 9, START), HOTMAP_READY);
	CU_ASSERT(!hotmap_put(rig->map, 1ULL << 34, word, START));
	CU_ASSERT(hotmap_put(rig->map, (1ULL << 34) - 1, word, START));
	atomic_store(&rig->mem.max_bytes, 0);
	CU_ASSERT(!hotmap_put(rig->map, 78, word, START));
	CU_ASSERT_EQUAL(touch(rig, 78, 1, START), HOTMAP_NO_MEMORY);
	rig_free(rig);
}

static uint32_t region_of(unsigned int page, unsigned int round)
{
	/* The same cause for the same page. */
	return REGION_BACKREF(page * 4000 + round, page);
}

static unsigned int cause_by_owner(void *ctx, uint32_t backref)
{
	(void)ctx;
	return backref % HOTMAP_CAUSES;
}

static void a_sweep_counts_by_cause(void)
{
	struct rig *rig = rig_new(RECORD_PRECISE);
	struct hotmap_sweep_result r;

	for (uint32_t i = 0; i < 4000; i++)
		touch(rig, i * 7, i, START);
	CU_ASSERT_EQUAL(hotmap_sections(rig->map), 1);
	CU_ASSERT_EQUAL(hotmap_chunks(rig->map), 55);
	r = sweep(rig, START, cause_by_owner, NULL);
	CU_ASSERT_EQUAL(r.cleared[0], 0);
	for (int i = 1; i < HOTMAP_CAUSES; i++)
		CU_ASSERT_EQUAL(r.cleared[i], 1000);
	for (uint32_t i = 0; i < 4000; i++)
		CU_ASSERT_EQUAL(hotmap_peek(rig->map, i * 7) != 0, i % HOTMAP_CAUSES == 0);
	r = sweep(rig, START + 30 * NSEC_PER_SEC, NULL, NULL);
	CU_ASSERT_EQUAL(r.cleared[0], 1000);
	CU_ASSERT_EQUAL(hotmap_sections(rig->map) + hotmap_chunks(rig->map), 0);
	rig_free(rig);
}

/*
 * Any subset of the pages of a chunk, in any order, is found again, through all sizes of chunks and back. Each page is
 * of a region of its own, so the table of a compact chunk grows as well.
 */
static void find_again(enum record_layout layout)
{
	const unsigned int max = layout == RECORD_COMPACT ? 3 : 7;
	struct rig *rig = rig_new(layout);
	uint64_t seed = 3;
	unsigned int wrong = 0;

	for (unsigned int round = 0; round < 300; round++) {
		unsigned char in[512] = { 0 };
		unsigned int n = 1 + round * 512 / 300;

		for (unsigned int i = 0; i < n; i++) {
			unsigned int page;

			seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
			page = (unsigned int)(seed >> 40) % 512;
			in[page]++;
			touch(rig, 512 + page, region_of(page, round), START);
		}
		for (unsigned int page = 0; page < 512; page++) {
			uint64_t word = hotmap_peek(rig->map, 512 + page);

			wrong += (word != 0) != (in[page] != 0);
			wrong += word && hotmap_backref(word) != region_of(page, round);
			wrong += word && record_freq(layout, hotmap_record(word)) != (in[page] < max ? in[page] : max);
		}
		wrong += hotmap_peek(rig->map, 511) != 0 || hotmap_peek(rig->map, 1024) != 0;
		/* Thinned out, it shrinks and is still right; then all goes. */
		sweep(rig, START, cause_by_owner, NULL);
		for (unsigned int page = 0; page < 512; page++)
			wrong += (hotmap_peek(rig->map, 512 + page) != 0) != (in[page] && page % HOTMAP_CAUSES == 0);
		sweep(rig, START + 30 * NSEC_PER_SEC, NULL, NULL);
		retire_free(&rig->retire, retire_take(&rig->retire));
	}
	CU_ASSERT_EQUAL(wrong, 0);
	CU_ASSERT_EQUAL(hotmap_chunks(rig->map), 0);
	rig_free(rig);
}

static void pages_are_found_again(void)
{
	find_again(RECORD_PRECISE);
	find_again(RECORD_COMPACT);
}

/* Many regions come and go on the pages of one compact chunk: it names those that are there, and takes no more room. */
static void a_chunk_names_its_regions(void)
{
	struct rig *rig = rig_new(RECORD_COMPACT);
	uint64_t most_bytes = 0;
	unsigned int wrong = 0;

	for (uint32_t page = 0; page < 512; page++)
		touch(rig, page, REGION_BACKREF(page * 16000, page), START);
	for (uint32_t i = 0; i < 3000; i++) {
		uint32_t page = i * 7 % 512;

		/* Its region is gone, and another one's sample comes. */
		rig->dead_backref = hotmap_backref(hotmap_peek(rig->map, page));
		wrong += touch(rig, page, REGION_BACKREF(i + 1, 511 - page), START) == HOTMAP_NO_MEMORY;
		wrong += hotmap_backref(hotmap_peek(rig->map, page)) != REGION_BACKREF(i + 1, 511 - page);
		wrong += record_freq(RECORD_COMPACT, hotmap_record(hotmap_peek(rig->map, page))) != (i < 512 ? 2 : 3);
		retire_free(&rig->retire, retire_take(&rig->retire));
		if (tablemem_bytes(&rig->mem) > most_bytes) {
			most_bytes = tablemem_bytes(&rig->mem);
			CU_ASSERT(i < 1024);
		}
	}
	CU_ASSERT_EQUAL(wrong, 0);
	CU_ASSERT_EQUAL(hotmap_chunks(rig->map), 1);
	rig_free(rig);
}

/* Where the table can't grow, the sample is lost and the record stays. */
static void a_table_that_cannot_grow(void)
{
	struct rig *rig = rig_new(RECORD_COMPACT);

	touch(rig, 3, REGION_BACKREF(1, 3), START);
	rig->mem.max_bytes = 0;
	rig->dead_backref = REGION_BACKREF(1, 3);
	CU_ASSERT_EQUAL(touch(rig, 3, REGION_BACKREF(2, 3), START), HOTMAP_NO_MEMORY);
	CU_ASSERT_EQUAL(hotmap_backref(hotmap_peek(rig->map, 3)), REGION_BACKREF(1, 3));
	CU_ASSERT_EQUAL(record_freq(RECORD_COMPACT, hotmap_record(hotmap_peek(rig->map, 3))), 1);
	rig->mem.max_bytes = 1ULL << 32;
	CU_ASSERT_EQUAL(touch(rig, 3, REGION_BACKREF(2, 3), START), HOTMAP_READY);
	CU_ASSERT_EQUAL(hotmap_backref(hotmap_peek(rig->map, 3)), REGION_BACKREF(2, 3));
	rig_free(rig);
}

#define WRITERS 3
#define ROUNDS  400
#define SHARED  16 /* pages that all writers touch, while others make the chunk grow */

struct writer {
	struct rig *rig;
	pthread_barrier_t *barrier;
	unsigned int nr;
	uint64_t ready;
};

static void *write_words(void *arg)
{
	struct writer *writer = arg;
	struct rig *rig = writer->rig;

	rcu_thread_start();
	for (unsigned int round = 0; round < ROUNDS; round++) {
		uint64_t base = 512ULL * round;

		pthread_barrier_wait(writer->barrier);
		/* Twice each shared page, and in between pages of its own: six growths of the chunk in each round. */
		for (unsigned int i = 0; i < 2 * SHARED; i++) {
			rcu_enter();
			writer->ready += touch(rig, base + i % SHARED * 31, 1, START) == HOTMAP_READY;
			for (unsigned int k = 0; k < 5; k++)
				touch(rig, base + 1 + (i * 5 + k) * 3 % 511, REGION_BACKREF(2 + writer->nr + k * 8, 0),
				      START);
			rcu_leave();
		}
	}
	rcu_thread_stop();
	return NULL;
}

/* Growth while others update: no count is lost, and each record becomes ready once. */
static void grow(enum record_layout layout, unsigned int threshold)
{
	struct rig *rig = rig_new(layout);
	struct writer writers[WRITERS];
	pthread_t threads[WRITERS];
	pthread_barrier_t barrier;
	uint64_t ready = 0, wrong = 0;

	rig->rule.freq_threshold = threshold;
	pthread_barrier_init(&barrier, NULL, WRITERS);
	for (unsigned int i = 0; i < WRITERS; i++) {
		writers[i] = (struct writer){ .rig = rig, .barrier = &barrier, .nr = i };
		pthread_create(&threads[i], NULL, write_words, &writers[i]);
	}
	for (unsigned int i = 0; i < WRITERS; i++) {
		pthread_join(threads[i], NULL);
		ready += writers[i].ready;
	}
	for (unsigned int round = 0; round < ROUNDS; round++)
		for (unsigned int i = 0; i < SHARED; i++) {
			uint64_t word = hotmap_peek(rig->map, 512ULL * round + i * 31);

			/* Six accesses at least: some of a writer's own pages are shared ones. */
			wrong += record_freq(layout, hotmap_record(word)) < threshold;
			wrong += !record_ready(layout, hotmap_record(word));
		}
	CU_ASSERT_EQUAL(wrong, 0);
	/* Whoever touches a shared page after it is ready doesn't say so; own pages of one writer have two at most. */
	CU_ASSERT(layout == RECORD_COMPACT || ready <= (uint64_t)ROUNDS * SHARED);
	pthread_barrier_destroy(&barrier);
	rig_free(rig);
}

static void growth_loses_no_count(void)
{
	grow(RECORD_PRECISE, 6);
	grow(RECORD_COMPACT, 3);
}

struct adder {
	struct rig *rig;
	_Atomic uint64_t *sum;
	unsigned int nr;
	_Atomic bool *stop;
};

static void *add_pages(void *arg)
{
	struct adder *adder = arg;
	uint64_t seed = adder->nr;

	rcu_thread_start();
	while (!atomic_load_explicit(adder->stop, memory_order_relaxed)) {
		seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
		rcu_enter();
		atomic_fetch_add(adder->sum, touch(adder->rig, (seed >> 33) % 3000,
						   REGION_BACKREF(seed >> 60, adder->nr), START) != HOTMAP_NO_MEMORY);
		rcu_leave();
	}
	rcu_thread_stop();
	return NULL;
}

static unsigned int all_go(void *ctx, uint32_t backref)
{
	(void)ctx;
	(void)backref;
	return 1;
}

/* Chunks and sections come and go under two writers; what was said to be recorded is there or was swept. */
static void sweep_and_write(enum record_layout layout)
{
	struct rig *rig = rig_new(layout);
	_Atomic bool stop = false;
	_Atomic uint64_t sum = 0;
	struct adder adders[2];
	pthread_t threads[2];
	uint64_t swept = 0, left = 0;

	rcu_thread_start();
	for (unsigned int i = 0; i < 2; i++) {
		adders[i] = (struct adder){ .rig = rig, .sum = &sum, .nr = i + 1, .stop = &stop };
		pthread_create(&threads[i], NULL, add_pages, &adders[i]);
	}
	while (atomic_load(&sum) < 1000)
		sched_yield();
	for (int i = 0; i < 100; i++) {
		struct hotmap_sweep_result r = sweep(rig, START, i % 3 ? all_go : cause_by_owner, NULL);
		uintptr_t list = retire_take(&rig->retire);

		for (int c = 0; c < HOTMAP_CAUSES; c++)
			swept += r.cleared[c];
		rcu_wait();
		retire_free(&rig->retire, list);
	}
	atomic_store(&stop, true);
	for (unsigned int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	for (uint64_t pfn = 0; pfn < 3000; pfn++)
		left += hotmap_peek(rig->map, pfn) != 0;
	CU_ASSERT(swept > 0);
	CU_ASSERT(swept + left <= atomic_load(&sum));
	sweep(rig, START, all_go, NULL);
	sweep(rig, START, all_go, NULL);
	CU_ASSERT_EQUAL(hotmap_chunks(rig->map) + hotmap_sections(rig->map), 0);
	rcu_thread_stop();
	rig_free(rig);
}

static void sweeps_and_writers(void)
{
	sweep_and_write(RECORD_PRECISE);
	sweep_and_write(RECORD_COMPACT);
}

TEST_MAIN(hotmap, TEST(words_are_laid_out), TEST(old_is_marked_and_wrapped_is_none),
	  TEST(back_references_stay_with_the_living), TEST(put_fills_gaps_only), TEST(a_sweep_counts_by_cause),
	  TEST(pages_are_found_again), TEST(a_chunk_names_its_regions), TEST(a_table_that_cannot_grow),
	  TEST(growth_loses_no_count), TEST(sweeps_and_writers))
