/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "clock.h"
#include "fake_kernel.h"
#include "harness.h"
#include "mover.h"
#include "nodeset.h"
#include "stats.h"

#define PAGE 4096ULL
#define HUGE (2ULL << 20)
#define BASE 0x7f0000000000ULL
#define PID  4711U

static uint64_t test_now_ns;

/* Each look takes a microsecond, so that a call has a length. */
static uint64_t read_clock(void *ctx)
{
	(void)ctx;
	return test_now_ns += 1000;
}

static const struct clock test_clock = { .now_ns = read_clock };

struct machine {
	struct fake_kernel kernel;
	struct fake_process *process;
	struct stats *stats;
	struct nodeset fast;
	struct mover mover;
	_Atomic bool stop;
};

static void machine_init(struct machine *m, int nodes, uint64_t free_pages)
{
	memset(m, 0, sizeof(*m));
	fake_kernel_init(&m->kernel, nodes, free_pages);
	m->process = fake_process_add(&m->kernel, PID);
	m->stats = stats_new();
	m->mover = (struct mover){
		.ops = &fake_kernel_ops,
		.ctx = &m->kernel,
		.clock = &test_clock,
		.stats = stats_slot_new(m->stats),
		.outcomes = mover_outcomes_new(),
		.fast = &m->fast,
		.stop = &m->stop,
	};
}

static void machine_done(struct machine *m)
{
	mover_outcomes_free(m->mover.outcomes);
	stats_free(m->stats);
	fake_kernel_done(&m->kernel);
}

/* @n base pages on node 1 in @pages. */
static void map_pages(struct machine *m, struct mover_page *pages, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		fake_folio_add(m->process, BASE + i * PAGE, PAGE, 1, 0);
		pages[i] = (struct mover_page){ .addr = BASE + i * PAGE, .bytes = PAGE, .from_nid = 1 };
	}
}

static size_t count_result(const struct mover_page *pages, size_t n, enum mover_result result)
{
	size_t count = 0;

	for (size_t i = 0; i < n; i++)
		count += pages[i].result == result;
	return count;
}

struct cells {
	uint64_t pages[MOVER_RESULT_MAX];
	uint64_t all, huge;
	int n, from, to;
};

static void add_cell(void *ctx, const struct mover_outcome *o)
{
	struct cells *c = ctx;

	c->pages[o->result] += o->pages;
	c->all += o->pages;
	c->huge += o->page_bytes > PAGE ? o->pages : 0;
	c->n++;
	c->from = o->from_nid;
	c->to = o->to_nid;
}

static const enum stat_id move_stat[MOVER_RESULT_MAX] = {
	STAT_MOVE_OK,        STAT_MOVE_ALREADY, STAT_MOVE_BUSY,           STAT_MOVE_NOT_PRESENT, STAT_MOVE_SHARED,
	STAT_MOVE_ZERO_PAGE, STAT_MOVE_PINNED,  STAT_MOVE_NOT_MIGRATABLE, STAT_MOVE_NO_MEMORY,   STAT_MOVE_CPUSET,
	STAT_MOVE_GONE,      STAT_MOVE_DENIED,  STAT_MOVE_FAILED,
};

static void moves_all(void)
{
	struct machine m;
	struct mover_page pages[MOVER_BATCH_MAX];
	struct mover_summary sum;
	struct cells cells = { 0 };

	machine_init(&m, 2, 1 << 20);
	map_pages(&m, pages, MOVER_BATCH_MAX);
	CU_ASSERT_EQUAL(mover_move(&m.mover, PID, 0, pages, MOVER_BATCH_MAX, &sum), 0);
	CU_ASSERT_EQUAL(count_result(pages, MOVER_BATCH_MAX, MOVER_OK), MOVER_BATCH_MAX);
	CU_ASSERT_EQUAL(sum.moved_pages, MOVER_BATCH_MAX);
	CU_ASSERT_EQUAL(sum.moved_bytes, MOVER_BATCH_MAX * PAGE);
	CU_ASSERT_EQUAL(sum.call_ns, 1000);
	CU_ASSERT_EQUAL(m.kernel.move_calls, 1);
	CU_ASSERT_EQUAL(m.kernel.query_calls, 1);
	CU_ASSERT_EQUAL(stats_sum(m.stats, STAT_MOVE_CALLS), 1);
	CU_ASSERT_EQUAL(stats_sum(m.stats, STAT_MOVE_NS), 1000);
	CU_ASSERT_EQUAL(stats_sum(m.stats, STAT_MOVE_OK), MOVER_BATCH_MAX);
	mover_outcomes_for_each(m.mover.outcomes, add_cell, &cells);
	CU_ASSERT(cells.n == 1 && cells.from == 1 && cells.to == 0);
	CU_ASSERT_EQUAL(cells.pages[MOVER_OK], MOVER_BATCH_MAX);

	/* Again: nothing to do, so no call that would drain every CPU's caches. */
	CU_ASSERT_EQUAL(mover_move(&m.mover, PID, 0, pages, MOVER_BATCH_MAX, &sum), 0);
	CU_ASSERT_EQUAL(count_result(pages, MOVER_BATCH_MAX, MOVER_ALREADY), MOVER_BATCH_MAX);
	CU_ASSERT_EQUAL(sum.moved_pages, 0);
	CU_ASSERT_EQUAL(m.kernel.move_calls, 1);
	CU_ASSERT_EQUAL(pages[0].from_nid, 0);
	machine_done(&m);
}

/* The measured case: six pages, one pinned, the call returns 1 and writes no status, five have moved. */
static void pinned_page_hides_the_others(void)
{
	struct machine m;
	struct mover_page pages[6];
	struct mover_summary sum;

	machine_init(&m, 2, 1000);
	map_pages(&m, pages, 6);
	m.process->folios[1].flags = FAKE_PINNED;
	CU_ASSERT_EQUAL(mover_move(&m.mover, PID, 0, pages, 6, &sum), 0);
	CU_ASSERT_EQUAL(sum.moved_pages, 5);
	CU_ASSERT_EQUAL(pages[1].result, MOVER_PINNED);
	CU_ASSERT_EQUAL(count_result(pages, 6, MOVER_OK), 5);
	CU_ASSERT_EQUAL(m.kernel.move_calls, 1);
	machine_done(&m);
}

/* The other: pinned at 1, a bad page at 3: returns 3, only status[3] written, 4 and 5 never tried. */
static void tail_behind_an_offender_is_tried_again(void)
{
	struct machine m;
	struct mover_page pages[6];
	struct mover_summary sum;

	machine_init(&m, 2, 1000);
	map_pages(&m, pages, 6);
	m.process->folios[1].flags = FAKE_PINNED;
	m.process->folios[3].flags = FAKE_UNMOVABLE;
	CU_ASSERT_EQUAL(mover_move(&m.mover, PID, 0, pages, 6, &sum), 0);
	CU_ASSERT_EQUAL(sum.moved_pages, 4);
	CU_ASSERT_EQUAL(pages[1].result, MOVER_PINNED);
	CU_ASSERT_EQUAL(pages[3].result, MOVER_NOT_MIGRATABLE);
	CU_ASSERT_EQUAL(count_result(pages, 6, MOVER_OK), 4);
	CU_ASSERT_EQUAL(m.kernel.move_calls, 2);
	machine_done(&m);
}

/* Pinned and shared in turn: each call gets two further. What is left after the last call may be tried later. */
static void calls_are_bounded(void)
{
	struct machine m;
	struct mover_page pages[64];
	struct mover_summary sum;

	machine_init(&m, 2, 1000);
	map_pages(&m, pages, 64);
	for (int i = 0; i < 64; i++)
		m.process->folios[i].flags = i % 2 ? FAKE_SHARED : FAKE_PINNED;
	CU_ASSERT_EQUAL(mover_move(&m.mover, PID, 0, pages, 64, &sum), 0);
	CU_ASSERT_EQUAL(m.kernel.move_calls, MOVER_CALLS_MAX);
	CU_ASSERT_EQUAL(count_result(pages, 64, MOVER_PINNED), MOVER_CALLS_MAX);
	CU_ASSERT_EQUAL(count_result(pages, 64, MOVER_SHARED), MOVER_CALLS_MAX);
	CU_ASSERT_EQUAL(count_result(pages, 64, MOVER_BUSY), 64 - 2 * MOVER_CALLS_MAX);
	CU_ASSERT_EQUAL(sum.moved_pages, 0);
	machine_done(&m);
}

static void page_errors_by_name(void)
{
	static const struct {
		unsigned int flags;
		enum mover_result result;
	} row[] = {
		{ FAKE_SHARED, MOVER_SHARED },      { FAKE_UNMOVABLE, MOVER_NOT_MIGRATABLE },
		{ FAKE_ABSENT, MOVER_NOT_PRESENT }, { FAKE_OFF_LRU, MOVER_BUSY },
		{ FAKE_PINNED, MOVER_PINNED },
	};

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct machine m;
		struct mover_page pages[3];
		struct mover_summary sum;

		machine_init(&m, 2, 1000);
		map_pages(&m, pages, 3);
		m.process->folios[1].flags = row[i].flags;
		CU_ASSERT_EQUAL(mover_move(&m.mover, PID, 0, pages, 3, &sum), 0);
		CU_ASSERT_EQUAL(pages[1].result, row[i].result);
		CU_ASSERT_EQUAL(sum.moved_pages, 2);
		CU_ASSERT_EQUAL(stats_sum(m.stats, move_stat[row[i].result]), 1);
		machine_done(&m);
	}

	/* No mapping at all. */
	struct machine m;
	struct mover_page hole = { .addr = BASE, .bytes = PAGE, .from_nid = 1 };
	struct mover_summary sum;

	machine_init(&m, 2, 1000);
	CU_ASSERT_EQUAL(mover_move(&m.mover, PID, 0, &hole, 1, &sum), 0);
	CU_ASSERT_EQUAL(hole.result, MOVER_NOT_MIGRATABLE);
	CU_ASSERT_EQUAL(hole.from_nid, 1);
	CU_ASSERT_EQUAL(m.kernel.move_calls, 0);
	machine_done(&m);
}

/* Errors of the whole call: from the query, from the call at once, and from the call after three pages. */
static void call_errors_by_name(void)
{
	static const struct {
		long error;
		enum mover_result result;
		int returned;
	} row[] = {
		{ -ESRCH, MOVER_GONE, -ESRCH }, { -EINVAL, MOVER_GONE, -ESRCH }, { -EPERM, MOVER_DENIED, -EPERM },
		{ -EACCES, MOVER_CPUSET, 0 },   { -ENOMEM, MOVER_NO_MEMORY, 0 }, { -ENODEV, MOVER_NO_MEMORY, 0 },
		{ -EINTR, MOVER_FAILED, 0 },    { -E2BIG, MOVER_FAILED, 0 },     { -EFAULT, MOVER_FAILED, 0 },
	};

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		for (int when = 0; when < 3; when++) {
			struct machine m;
			struct mover_page pages[8];
			struct mover_summary sum;
			size_t moved = when == 2 ? 3 : 0;

			machine_init(&m, 2, 1000);
			map_pages(&m, pages, 8);
			if (when == 0) {
				m.kernel.query_error = row[i].error;
				m.kernel.query_error_at = 1;
			} else {
				m.kernel.move_error = row[i].error;
				m.kernel.error_after = moved;
			}
			CU_ASSERT_EQUAL(mover_move(&m.mover, PID, 0, pages, 8, &sum), row[i].returned);
			CU_ASSERT_EQUAL(count_result(pages, 8, MOVER_OK), moved);
			CU_ASSERT_EQUAL(count_result(pages, 8, row[i].result), 8 - moved);
			CU_ASSERT_EQUAL(sum.moved_pages, m.kernel.moved_pages);
			CU_ASSERT_EQUAL(stats_sum(m.stats, move_stat[row[i].result]), 8 - moved);
			CU_ASSERT_EQUAL(m.kernel.move_calls, when ? 1 : 0);
			machine_done(&m);
		}
	}
}

static void processes_that_refuse(void)
{
	struct machine m;
	struct mover_page pages[4];
	struct mover_summary sum;

	machine_init(&m, 3, 1000);
	map_pages(&m, pages, 4);
	m.process->denied = true;
	CU_ASSERT_EQUAL(mover_move(&m.mover, PID, 0, pages, 4, &sum), -EPERM);
	CU_ASSERT_EQUAL(count_result(pages, 4, MOVER_DENIED), 4);
	m.process->denied = false;
	m.process->no_memory_map = true;
	CU_ASSERT_EQUAL(mover_move(&m.mover, PID, 0, pages, 4, &sum), -ESRCH);
	CU_ASSERT_EQUAL(count_result(pages, 4, MOVER_GONE), 4);
	m.process->no_memory_map = false;
	nodeset_del(&m.process->cpuset, 0);
	CU_ASSERT_EQUAL(mover_move(&m.mover, PID, 0, pages, 4, &sum), 0);
	CU_ASSERT_EQUAL(count_result(pages, 4, MOVER_CPUSET), 4);
	CU_ASSERT_EQUAL(mover_move(&m.mover, PID, 7, pages, 4, &sum), 0);
	CU_ASSERT_EQUAL(count_result(pages, 4, MOVER_NO_MEMORY), 4);
	m.process->alive = false;
	CU_ASSERT_EQUAL(mover_move(&m.mover, PID, 2, pages, 4, &sum), -ESRCH);
	CU_ASSERT_EQUAL(mover_move(&m.mover, PID + 1, 2, pages, 4, &sum), -ESRCH);
	CU_ASSERT_EQUAL(m.kernel.moved_pages, 0);
	machine_done(&m);
}

static void full_target_ends_the_call(void)
{
	struct machine m;
	struct mover_page pages[100];
	struct mover_summary sum;

	machine_init(&m, 2, 40);
	map_pages(&m, pages, 100);
	CU_ASSERT_EQUAL(mover_move(&m.mover, PID, 0, pages, 100, &sum), 0);
	CU_ASSERT_EQUAL(sum.moved_pages, 40);
	CU_ASSERT_EQUAL(count_result(pages, 100, MOVER_OK), 40);
	CU_ASSERT_EQUAL(count_result(pages, 100, MOVER_NO_MEMORY), 60);
	CU_ASSERT_EQUAL(m.kernel.move_calls, 1);
	machine_done(&m);
}

/* ... also when it was not the last batch: the rest would only fail in turn. */
static void full_target_is_not_tried_again(void)
{
	struct machine m;
	struct mover_page pages[100];
	struct mover_summary sum;

	machine_init(&m, 2, 40);
	map_pages(&m, pages, 100);
	m.process->folios[60].flags = FAKE_SHARED;
	CU_ASSERT_EQUAL(mover_move(&m.mover, PID, 0, pages, 100, &sum), 0);
	CU_ASSERT_EQUAL(sum.moved_pages, 40);
	CU_ASSERT_EQUAL(count_result(pages, 100, MOVER_NO_MEMORY), 59);
	CU_ASSERT_EQUAL(pages[60].result, MOVER_SHARED);
	CU_ASSERT_EQUAL(m.kernel.move_calls, 1);
	machine_done(&m);
}

/* It ends in the middle of the call: what the kernel said of a page still holds, the rest is gone with it. */
static void process_ends_during_the_call(void)
{
	struct machine m;
	struct mover_page pages[8];
	struct mover_summary sum;

	machine_init(&m, 2, 1000);
	map_pages(&m, pages, 8);
	m.process->folios[1].flags = FAKE_SHARED; /* status[0] is written behind it */
	m.process->folios[2].flags = FAKE_PINNED;
	m.process->folios[3].flags = FAKE_SHARED; /* ends the call */
	m.kernel.dying_pid = PID;
	CU_ASSERT_EQUAL(mover_move(&m.mover, PID, 0, pages, 8, &sum), -ESRCH);
	CU_ASSERT_EQUAL(pages[0].result, MOVER_OK);
	CU_ASSERT_EQUAL(pages[1].result, MOVER_SHARED);
	CU_ASSERT_EQUAL(pages[2].result, MOVER_GONE);
	CU_ASSERT_EQUAL(pages[3].result, MOVER_SHARED);
	CU_ASSERT_EQUAL(count_result(pages, 8, MOVER_GONE), 5);
	CU_ASSERT_EQUAL(m.kernel.move_calls, 1);
	machine_done(&m);

	/* And the call fails of something else. */
	machine_init(&m, 2, 3);
	map_pages(&m, pages, 8);
	m.kernel.dying_pid = PID;
	CU_ASSERT_EQUAL(mover_move(&m.mover, PID, 0, pages, 8, &sum), -ESRCH);
	CU_ASSERT_EQUAL(count_result(pages, 8, MOVER_GONE), 8);
	machine_done(&m);
}

static void huge_pages_count_in_base_pages(void)
{
	struct machine m;
	struct mover_page pages[3];
	struct mover_summary sum;
	struct cells cells = { 0 };

	machine_init(&m, 2, 4096);
	for (size_t i = 0; i < 3; i++) {
		fake_folio_add(m.process, BASE + i * HUGE, HUGE, 1, i == 1 ? FAKE_PINNED : 0);
		pages[i] = (struct mover_page){ .addr = BASE + i * HUGE, .bytes = HUGE, .from_nid = 1 };
	}
	/* Any address inside moves the whole. */
	pages[2].addr += 300 * PAGE;
	CU_ASSERT_EQUAL(mover_move(&m.mover, PID, 0, pages, 3, &sum), 0);
	CU_ASSERT_EQUAL(sum.moved_pages, 1024);
	CU_ASSERT_EQUAL(sum.moved_bytes, 2 * HUGE);
	CU_ASSERT_EQUAL(stats_sum(m.stats, STAT_MOVE_OK), 1024);
	CU_ASSERT_EQUAL(stats_sum(m.stats, STAT_MOVE_PINNED), 512);
	mover_outcomes_for_each(m.mover.outcomes, add_cell, &cells);
	CU_ASSERT_EQUAL(cells.pages[MOVER_OK], 1024);
	CU_ASSERT_EQUAL(cells.pages[MOVER_PINNED], 512);
	CU_ASSERT_EQUAL(m.kernel.moved_pages, 1024);
	machine_done(&m);
}

/* Two addresses of one folio, which the caller is to avoid: still no page without a result, and none moved twice. */
static void second_address_of_a_folio_is_busy(void)
{
	struct machine m;
	struct mover_page pages[3] = {
		{ .addr = BASE, .bytes = PAGE, .from_nid = 1 },
		{ .addr = BASE + 5 * PAGE, .bytes = PAGE, .from_nid = 1 },
		{ .addr = BASE + 9 * PAGE, .bytes = PAGE, .from_nid = 1 },
	};
	struct mover_summary sum;

	machine_init(&m, 2, 4096);
	fake_folio_add(m.process, BASE, HUGE, 1, 0);
	CU_ASSERT_EQUAL(mover_move(&m.mover, PID, 0, pages, 3, &sum), 0);
	CU_ASSERT_EQUAL(pages[0].result, MOVER_OK);
	CU_ASSERT_EQUAL(pages[1].result, MOVER_BUSY);
	CU_ASSERT_EQUAL(pages[2].result, MOVER_OK); /* status: the target, and it was elsewhere before */
	CU_ASSERT_EQUAL(m.kernel.moved_pages, 512);
	machine_done(&m);
}

static void pages_on_a_fast_node_stay(void)
{
	struct machine m;
	struct mover_page pages[4];
	struct mover_summary sum;

	machine_init(&m, 4, 1000);
	map_pages(&m, pages, 4);
	nodeset_add(&m.fast, 0);
	nodeset_add(&m.fast, 2);
	m.process->folios[1].nid = 2; /* fast, though not the target */
	m.process->folios[2].nid = 3; /* another slow node */
	CU_ASSERT_EQUAL(mover_move(&m.mover, PID, 0, pages, 4, &sum), 0);
	CU_ASSERT_EQUAL(pages[1].result, MOVER_ALREADY);
	CU_ASSERT_EQUAL(pages[1].from_nid, 2);
	CU_ASSERT_EQUAL(m.process->folios[1].nid, 2);
	CU_ASSERT_EQUAL(pages[2].result, MOVER_OK);
	CU_ASSERT_EQUAL(pages[2].from_nid, 3);
	CU_ASSERT_EQUAL(sum.moved_pages, 3);
	m.mover.fast = NULL;
	CU_ASSERT_EQUAL(mover_move(&m.mover, PID, 0, pages, 4, &sum), 0);
	CU_ASSERT_EQUAL(pages[1].result, MOVER_OK);
	machine_done(&m);
}

static void stop_in_call(void *ctx, uint32_t pid, size_t n, int nid)
{
	(void)pid;
	(void)n;
	(void)nid;
	atomic_store_explicit((_Atomic bool *)ctx, true, memory_order_relaxed);
}

static void stop_prevents_calls(void)
{
	struct machine m;
	struct mover_page pages[6];
	struct mover_summary sum;

	machine_init(&m, 2, 1000);
	map_pages(&m, pages, 6);
	m.stop = true;
	CU_ASSERT_EQUAL(mover_move(&m.mover, PID, 0, pages, 6, &sum), -EINTR);
	CU_ASSERT_EQUAL(m.kernel.query_calls + m.kernel.move_calls, 0);
	for (int i = 0; i < MOVER_RESULT_MAX; i++)
		CU_ASSERT_EQUAL(stats_sum(m.stats, move_stat[i]), 0);

	/* Told while in the first call: the tail isn't tried again. */
	m.stop = false;
	m.kernel.on_move = stop_in_call;
	m.kernel.on_move_ctx = &m.stop;
	m.process->folios[1].flags = FAKE_PINNED;
	m.process->folios[3].flags = FAKE_SHARED;
	CU_ASSERT_EQUAL(mover_move(&m.mover, PID, 0, pages, 6, &sum), 0);
	CU_ASSERT_EQUAL(m.kernel.move_calls, 1);
	CU_ASSERT_EQUAL(count_result(pages, 6, MOVER_BUSY), 2);
	CU_ASSERT_EQUAL(sum.moved_pages, 2);
	machine_done(&m);
}

static void bad_arguments(void)
{
	struct machine m;
	struct mover_page pages[4];
	struct mover_summary sum;

	machine_init(&m, 2, 1000);
	map_pages(&m, pages, 4);
	CU_ASSERT_EQUAL(mover_move(&m.mover, 0, 0, pages, 4, &sum), -EINVAL); /* would be ourselves */
	CU_ASSERT_EQUAL(mover_move(&m.mover, UINT32_MAX, 0, pages, 4, &sum), -EINVAL);
	CU_ASSERT_EQUAL(mover_move(&m.mover, PID, -1, pages, 4, &sum), -EINVAL);
	CU_ASSERT_EQUAL(mover_move(&m.mover, PID, NODE_MAX, pages, 4, &sum), -EINVAL);
	CU_ASSERT_EQUAL(mover_move(&m.mover, PID, 0, pages, 0, &sum), -EINVAL);
	CU_ASSERT_EQUAL(mover_move(&m.mover, PID, 0, pages, MOVER_BATCH_MAX + 1, &sum), -EINVAL);
	CU_ASSERT_EQUAL(m.kernel.query_calls + m.kernel.move_calls, 0);
	machine_done(&m);
}

static void matrix_overflows_into_one_cell(void)
{
	struct machine m;
	struct cells cells = { 0 };
	struct mover_page page = { .addr = BASE, .bytes = HUGE };

	machine_init(&m, 2, 1000);
	for (int i = 0; i < MOVER_PAIRS_MAX + 50; i++) {
		page.from_nid = i;
		mover_account(&m.mover, NODE_MAX - 1, &page, 1, MOVER_GONE);
	}
	CU_ASSERT_EQUAL(page.result, MOVER_GONE);
	mover_outcomes_for_each(m.mover.outcomes, add_cell, &cells);
	CU_ASSERT_EQUAL(cells.n, MOVER_PAIRS_MAX);
	CU_ASSERT(cells.from == -1 && cells.to == -1);
	CU_ASSERT_EQUAL(cells.pages[MOVER_GONE], (MOVER_PAIRS_MAX + 50) * 512);
	CU_ASSERT_EQUAL(stats_sum(m.stats, STAT_MOVE_GONE), (MOVER_PAIRS_MAX + 50) * 512);
	machine_done(&m);
}

static uint64_t seed;

static uint64_t next(uint64_t below)
{
	seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (seed >> 33) % below;
}

/* A machine with @n pages, most of them well behaved, at increasing addresses with holes. */
static size_t random_machine(struct machine *m, struct mover_page *pages, int target)
{
	static const unsigned int odd[] = { FAKE_PINNED, FAKE_SHARED, FAKE_UNMOVABLE, FAKE_ABSENT, FAKE_OFF_LRU };
	size_t n = 1 + next(next(4) ? 40 : 600);
	unsigned int trouble = (unsigned int)next(4);
	uint64_t addr = BASE;

	machine_init(m, 4, 0);
	for (int i = 0; i < 4; i++)
		m->kernel.free_pages[i] = next(6) ? 1 << 20 : next(300);
	m->fast.bits[0] = next(16) & ~(1ULL << 1) & ~(next(2) << target);
	for (size_t i = 0; i < n; i++) {
		bool huge = next(10) == 0;
		uint64_t bytes = huge ? HUGE : PAGE;
		unsigned int flags = trouble && next(1 + 10 * trouble) == 0 ? odd[next(5)] : 0;
		int nid = next(3) ? 1 : (int)next(4);

		addr = (addr + bytes - 1) & ~(bytes - 1);
		pages[i] = (struct mover_page){ .addr = addr, .bytes = bytes, .from_nid = 1 };
		if (trouble == 0 || next(50))
			fake_folio_add(m->process, addr, bytes, nid, flags);
		addr += bytes + next(3) * PAGE;
	}
	/* In any order: the plan doesn't sort. */
	for (size_t i = n; i > 1; i--) {
		size_t j = next(i);
		struct mover_page swap = pages[i - 1];

		pages[i - 1] = pages[j];
		pages[j] = swap;
	}
	if (next(12) == 0)
		nodeset_del(&m->process->cpuset, target);
	if (next(12) == 0)
		m->kernel.has_memory[target] = false;
	if (next(12) == 0) {
		m->kernel.move_error = next(2) ? -EINTR : -E2BIG;
		m->kernel.error_after = next(n);
	}
	if (next(20) == 0) {
		m->kernel.query_error = -EINTR;
		m->kernel.query_error_at = 1 + next(3);
	}
	return n;
}

/* What each page came to, against where it really was and is. */
static void check_machine(struct machine *m, const struct mover_page *pages, const int *before, size_t n, int target,
			  const struct mover_summary *sum, bool died)
{
	uint64_t truth = 0, said = 0, all = 0, by_stat = 0;
	struct cells cells = { 0 };

	for (size_t i = 0; i < n; i++) {
		struct fake_folio *f = fake_folio_find(m->process, pages[i].addr);
		enum mover_result r = pages[i].result;
		uint64_t base_pages = pages[i].bytes / PAGE;
		bool moved = f && before[i] != target && f->nid == target;

		CU_ASSERT(r < MOVER_RESULT_MAX);
		all += base_pages;
		truth += moved ? base_pages : 0;
		said += r == MOVER_OK ? base_pages : 0;
		if (r == MOVER_OK)
			CU_ASSERT_TRUE(moved);
		if (died)
			continue;
		if (m->kernel.query_error == 0)
			CU_ASSERT_EQUAL(r == MOVER_OK, moved);
		if (r == MOVER_ALREADY)
			CU_ASSERT(before[i] == target || nodeset_has(&m->fast, before[i]));
		if (r == MOVER_SHARED)
			CU_ASSERT(f->flags & FAKE_SHARED);
		if (r == MOVER_NOT_PRESENT)
			CU_ASSERT(f->flags & FAKE_ABSENT);
		if (r == MOVER_NOT_MIGRATABLE)
			CU_ASSERT(!f || (f->flags & FAKE_UNMOVABLE));
		if (f && nodeset_has(&m->fast, before[i]))
			CU_ASSERT_EQUAL(f->nid, before[i]);
		/* Where nothing stands in the way the page has moved, whatever its neighbours did. */
		if (f && f->flags == 0 && before[i] != target && !nodeset_has(&m->fast, before[i]) && r != MOVER_BUSY &&
		    r != MOVER_NO_MEMORY && r != MOVER_CPUSET && r != MOVER_FAILED && r != MOVER_PINNED)
			CU_ASSERT_EQUAL(r, MOVER_OK);
	}
	if (!died && m->kernel.query_error == 0)
		CU_ASSERT_EQUAL(said, truth);
	CU_ASSERT(said <= truth);
	CU_ASSERT_EQUAL(sum->moved_pages, said);
	CU_ASSERT_EQUAL(sum->moved_bytes, said * PAGE);
	for (int r = 0; r < MOVER_RESULT_MAX; r++)
		by_stat += stats_sum(m->stats, move_stat[r]);
	CU_ASSERT_EQUAL(by_stat, all);
	mover_outcomes_for_each(m->mover.outcomes, add_cell, &cells);
	CU_ASSERT_EQUAL(cells.all, all);
	for (int r = 0; r < MOVER_RESULT_MAX; r++)
		CU_ASSERT_EQUAL(cells.pages[r], stats_sum(m->stats, move_stat[r]));
	CU_ASSERT(m->kernel.move_calls <= MOVER_CALLS_MAX);
	CU_ASSERT(m->kernel.query_calls <= 1 + m->kernel.move_calls);
	CU_ASSERT_EQUAL(m->kernel.bad_calls, 0);
	CU_ASSERT_EQUAL(stats_sum(m->stats, STAT_MOVE_CALLS), m->kernel.move_calls);
}

static void agrees_with_the_model(void)
{
	static struct mover_page pages[MOVER_BATCH_MAX];
	static int before[MOVER_BATCH_MAX];
	unsigned int left = 0, complete = 0;

	for (uint64_t round = 0; round < 4000; round++) {
		struct machine m;
		struct mover_summary sum;
		int target;
		bool dies;
		size_t n;
		int r;

		seed = round * 77 + 1;
		target = next(4) ? 0 : (int)next(4);
		n = random_machine(&m, pages, target);
		dies = next(10) == 0;
		if (dies) {
			m.kernel.dying_pid = PID;
			m.kernel.die_after = next(n);
		}
		for (size_t i = 0; i < n; i++) {
			struct fake_folio *f = fake_folio_find(m.process, pages[i].addr);

			before[i] = f ? f->nid : -1;
		}
		r = mover_move(&m.mover, PID, target, pages, n, &sum);
		CU_ASSERT_EQUAL(r == -ESRCH, count_result(pages, n, MOVER_GONE) > 0);
		CU_ASSERT(r == 0 || r == -ESRCH);
		check_machine(&m, pages, before, n, target, &sum, dies && m.kernel.dying_pid == 0);
		left += count_result(pages, n, MOVER_BUSY) > 0;
		complete += sum.moved_pages == m.kernel.moved_pages && sum.moved_pages > 0;
		machine_done(&m);
	}
	/* The machines are of all kinds, or the test shows nothing. */
	CU_ASSERT(left > 100);
	CU_ASSERT(complete > 2000);
}

/* The real thing, as far as a machine of any size goes: our own pages, asked for and "moved" to the node they are on.
 */
static void kernel_answers(void)
{
	struct machine m;
	struct mover_page pages[4];
	struct mover_summary sum;
	char *memory = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void *addrs[1] = { memory };
	int status = MOVER_STATUS_UNWRITTEN;
	long r;

	CU_ASSERT_PTR_NOT_EQUAL(memory, MAP_FAILED);
	if (memory == MAP_FAILED)
		return;
	memset(memory, 1, 3 * PAGE);
	r = mover_pages_ops.query(NULL, (uint32_t)getpid(), 1, addrs, &status);
	if (r == -ENOSYS || r == -EPERM) {
		munmap(memory, 4 * PAGE);
		return test_skip("move_pages() is not allowed here");
	}
	CU_ASSERT_EQUAL(r, 0);
	CU_ASSERT(status >= 0);
	if (status < 0) {
		munmap(memory, 4 * PAGE);
		return;
	}
	machine_init(&m, 2, 0);
	m.mover.ops = &mover_pages_ops;
	for (size_t i = 0; i < 4; i++)
		pages[i] = (struct mover_page){ .addr = (uint64_t)(uintptr_t)memory + i * PAGE, .bytes = PAGE };
	CU_ASSERT_EQUAL(mover_move(&m.mover, (uint32_t)getpid(), status, pages, 4, &sum), 0);
	CU_ASSERT_EQUAL(count_result(pages, 3, MOVER_ALREADY), 3);
	CU_ASSERT(pages[3].result == MOVER_NOT_PRESENT || pages[3].result == MOVER_NOT_MIGRATABLE);
	/* A call goes through, too: to a node that this machine can't have it is refused as a whole. */
	CU_ASSERT_EQUAL(mover_pages_ops.move(NULL, (uint32_t)getpid(), 1, addrs, NODE_MAX - 1, &status), -ENODEV);
	CU_ASSERT_EQUAL(mover_move(&m.mover, (uint32_t)getpid(), NODE_MAX - 1, pages, 3, &sum), 0);
	CU_ASSERT_EQUAL(count_result(pages, 3, MOVER_NO_MEMORY), 3);
	machine_done(&m);
	munmap(memory, 4 * PAGE);
}

TEST_MAIN(mover, TEST(moves_all), TEST(pinned_page_hides_the_others), TEST(tail_behind_an_offender_is_tried_again),
	  TEST(calls_are_bounded), TEST(page_errors_by_name), TEST(call_errors_by_name), TEST(processes_that_refuse),
	  TEST(full_target_ends_the_call), TEST(full_target_is_not_tried_again), TEST(process_ends_during_the_call),
	  TEST(huge_pages_count_in_base_pages), TEST(second_address_of_a_folio_is_busy),
	  TEST(pages_on_a_fast_node_stay), TEST(stop_prevents_calls), TEST(bad_arguments),
	  TEST(matrix_overflows_into_one_cell), TEST(agrees_with_the_model), TEST(kernel_answers))
