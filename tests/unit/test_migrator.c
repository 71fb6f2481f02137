/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <pthread.h>
#include <sys/resource.h>

#include "harness.h"
#include "migrator_rig.h"
#include "mover.h"
#include "mover_rest.h"
#include "policy.h"

#define MIB (1ULL << 20)

static const struct rig_options plain = { 0 };

static void moves_what_is_hot(void)
{
	struct rig *rig = rig_new(&plain);

	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT_EQUAL(rig->result.limit, LIMIT_NOTHING_HOT);
	rig_hot(rig, 100, 0, 1000, 0, 0);
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT_EQUAL(rig->result.limit, LIMIT_NONE);
	CU_ASSERT_EQUAL(rig->result.moved_pages, 1000);
	CU_ASSERT_EQUAL(rig->result.moved_bytes, 1000 * RIG_PAGE);
	CU_ASSERT_EQUAL(rig->kernel.moved_pages, 1000);
	CU_ASSERT_EQUAL(rig->kernel.free_pages[0], RIG_NODE_PAGES / 2 - 1000);
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_PROMOTED_PAGES), 1000);
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_PROMOTED_BYTES), 1000 * RIG_PAGE);
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_CANDIDATES), 1000);
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_MOVE_CALLS), 2); /* of 512 and 488 */
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_WOULD_PROMOTE_PAGES), 0);
	/* The records are gone with it. */
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT_EQUAL(rig->result.limit, LIMIT_NOTHING_HOT);
	CU_ASSERT_EQUAL(rig->result.moved_pages, 0);
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_CANDIDATES), 1000);
	CU_ASSERT_EQUAL(migrator_nid(rig->migrator), 2);
	CU_ASSERT_EQUAL(migrator_last_limit(rig->migrator), LIMIT_NOTHING_HOT);
	CU_ASSERT_EQUAL(rig->kernel.bad_calls, 0);
	rcu_enter();
	CU_ASSERT_EQUAL(owners_at(rig->owners, 0)->hot_bytes, 1000 * RIG_PAGE);
	rcu_leave();
	rig_free(rig);
}

static void every_limit_has_its_words(void)
{
	for (int i = 0; i < LIMIT_MAX; i++) {
		CU_ASSERT_PTR_NOT_NULL(migrator_limit_text[i]);
		for (int j = 0; j < i; j++)
			CU_ASSERT(strcmp(migrator_limit_text[i], migrator_limit_text[j]) != 0);
	}
	migrator_free(NULL);
}

static size_t n_calls;

static void note_call(struct rig *rig, uint32_t pid, size_t n, int nid)
{
	(void)rig;
	(void)pid;
	(void)n;
	(void)nid;
	n_calls++;
}

/* Two processes and two targets, mixed page by page: four calls, and each page where its record said. */
static void one_process_and_one_target_to_a_call(void)
{
	struct rig *rig = rig_new(&plain);

	for (uint64_t i = 0; i < 200; i++)
		rig_hot(rig, 100 + i % 2, i, 1, i, (int)(i / 2 % 2));
	n_calls = 0;
	rig->on_move = note_call;
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT_EQUAL(rig->result.moved_pages, 200);
	CU_ASSERT_EQUAL(n_calls, 4);
	CU_ASSERT_EQUAL(rig->kernel.bad_calls, 0); /* no address of another process */
	for (uint64_t i = 0; i < 200; i++) {
		struct fake_process *p = fake_process_find(&rig->kernel, 100 + i % 2);

		CU_ASSERT_EQUAL(fake_folio_find(p, rig_addr(p->pid, i))->nid, (int)(i / 2 % 2));
	}
	rig_free(rig);
}

static void batch_pages_is_respected(void)
{
	static const int64_t batch[] = { 64, 100, 512, 1024 };

	for (size_t i = 0; i < 4; i++) {
		struct rig *rig = rig_new(&plain);

		rig->config.promote_batch_pages = batch[i];
		rig_hot(rig, 100, 0, 3000, 0, 0);
		CU_ASSERT_EQUAL(rig_pass(rig), 0);
		CU_ASSERT_EQUAL(rig->result.moved_pages, 3000);
		CU_ASSERT_EQUAL(rig->kernel.largest_call_pages, (size_t)batch[i]);
		CU_ASSERT_EQUAL(rig->kernel.move_calls, (size_t)((3000 + batch[i] - 1) / batch[i]));
		rig_free(rig);
	}
}

/* More than a plan holds goes in several rounds of one pass. */
static void a_pass_has_rounds(void)
{
	struct rig *rig = rig_new(&plain);

	rig_hot(rig, 100, 0, 20000, 0, 0);
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT_EQUAL(rig->result.moved_pages, 20000);
	CU_ASSERT_EQUAL(rig->result.limit, LIMIT_NONE);
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_CANDIDATES), 20000);
	rig_free(rig);
}

/* ... unless moving takes long: then the thread shows a sign of life first. */
static void a_long_pass_ends(void)
{
	struct rig *rig = rig_new(&plain);

	rig_hot(rig, 100, 0, 20000, 0, 0);
	rig->call_ns = 10 * NSEC_PER_MSEC; /* 16 calls to a round */
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT_EQUAL(rig->result.moved_pages, 8192);
	CU_ASSERT_EQUAL(rig->result.limit, LIMIT_SPEED);
	/* There is more to do: the next one begins at once. */
	CU_ASSERT_EQUAL(migrator_pause_ms(&rig->config, &rig->result), 0);
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT_EQUAL(migrator_pause_ms(&rig->config, &rig->result), 100);
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_PROMOTED_PAGES), 20000);
	CU_ASSERT_EQUAL(rig->result.limit, LIMIT_NONE);
	rig_free(rig);
}

static uint64_t since_in_call;

static void look_from_within(struct rig *rig, uint32_t pid, size_t n, int nid)
{
	(void)pid;
	(void)n;
	(void)nid;
	since_in_call = migrator_in_call_since_ns(rig->migrator);
}

static void tells_that_it_is_in_a_call(void)
{
	struct rig *rig = rig_new(&plain);

	rig_hot(rig, 100, 0, 1, 0, 0);
	CU_ASSERT_EQUAL(migrator_in_call_since_ns(rig->migrator), 0);
	rig->on_move = look_from_within;
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT_EQUAL(since_in_call, RIG_START_NS);
	CU_ASSERT_EQUAL(migrator_in_call_since_ns(rig->migrator), 0);
	rig_free(rig);
}

static void observe_counts_once_and_moves_nothing(void)
{
	struct rig *rig = rig_new(&plain);

	rig->config.mode = MODE_OBSERVE;
	rig_hot(rig, 100, 0, 20000, 0, 0);
	for (int i = 0; i < 5; i++) {
		CU_ASSERT_EQUAL(rig_pass(rig), 0);
		CU_ASSERT_EQUAL(rig->result.limit, LIMIT_OBSERVING);
		CU_ASSERT_EQUAL(rig->result.moved_pages, 0);
		CU_ASSERT_EQUAL(rig_stat(rig, STAT_WOULD_PROMOTE_PAGES), 20000);
		CU_ASSERT_EQUAL(rig_stat(rig, STAT_WOULD_PROMOTE_BYTES), 20000 * RIG_PAGE);
		CU_ASSERT_EQUAL(rig_stat(rig, STAT_CANDIDATES), 20000);
		rig->now_ns += 100 * NSEC_PER_MSEC;
	}
	CU_ASSERT_EQUAL(rig->kernel.move_calls + rig->kernel.query_calls, 0);
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_PROMOTED_PAGES) + rig_stat(rig, STAT_MOVE_OK), 0);
	rcu_enter();
	CU_ASSERT_EQUAL(owners_at(rig->owners, 0)->hot_bytes, 20000 * RIG_PAGE);
	rcu_leave();
	/* They are touched again: still the same pages. */
	rig_hot(rig, 100, 0, 20000, 0, 0);
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_WOULD_PROMOTE_PAGES), 20000);
	/* Made real, they move. */
	rig->config.mode = MODE_PROMOTE;
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT_EQUAL(rig->result.moved_pages, 20000);
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_WOULD_PROMOTE_PAGES), 20000);
	rig_free(rig);
}

static void nothing_is_moved_on_a_guess(void)
{
	struct rig_options options = { .guessed = true };
	struct rig *rig = rig_new(&options);

	rig_hot(rig, 100, 0, 100, 0, 0);
	for (int i = 0; i < 3; i++) {
		CU_ASSERT_EQUAL(rig_pass(rig), 0);
		CU_ASSERT_EQUAL(rig->result.limit, LIMIT_GUESSED_TIERS);
		CU_ASSERT_EQUAL(rig_stat(rig, STAT_WOULD_PROMOTE_PAGES), 100);
	}
	CU_ASSERT_EQUAL(rig->kernel.move_calls, 0);
	rig_free(rig);
}

static void stop_in_the_first_call(struct rig *rig, uint32_t pid, size_t n, int nid)
{
	(void)pid;
	(void)n;
	(void)nid;
	atomic_store_explicit(&rig->stop, true, memory_order_relaxed);
}

static void stop_prevents_any_call(void)
{
	struct rig *rig = rig_new(&plain);

	rig_hot(rig, 100, 0, 1000, 0, 0);
	rig->stop = true;
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT_EQUAL(rig->kernel.move_calls + rig->kernel.query_calls, 0);
	/* Told during a call: that one ends, no other begins, and what was planned is ready again. */
	rig->stop = false;
	rig->on_move = stop_in_the_first_call;
	rig->kernel.process[0].folios[1].flags = FAKE_PINNED;
	rig->kernel.process[0].folios[3].flags = FAKE_SHARED; /* what is behind it needs a call of its own */
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT_EQUAL(rig->kernel.move_calls, 1);
	CU_ASSERT_EQUAL(rig->result.moved_pages, 2);
	rig->stop = false;
	rig->on_move = NULL;
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT_EQUAL(rig->result.moved_pages, 996);
	rig_free(rig);
}

/* It ended between its samples and the move: counted, never called; the same with its pid in another's hands. */
static void a_process_that_ended(void)
{
	struct rig *rig = rig_new(&plain);

	rig_hot(rig, 100, 0, 600, 0, 0);
	rig_hot(rig, 101, 0, 50, 1000, 0);
	rig_hot(rig, 102, 0, 5, 2000, 0);
	rig_exit(rig, 100);
	rig_put_stat(rig, 101, 4242);
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT_EQUAL(rig->result.moved_pages, 5);
	CU_ASSERT_EQUAL(rig->kernel.move_calls, 1);
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_MOVE_GONE), 650);
	/* Marked: what comes late for the old process is dropped without a look at /proc. */
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_STALE_BACKREF), 0);
	rig_free(rig);

	/* It ends during the call. */
	rig = rig_new(&plain);
	rig_hot(rig, 100, 0, 600, 0, 0);
	rig->kernel.dying_pid = 100;
	rig->kernel.die_after = 100;
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_MOVE_OK) + rig_stat(rig, STAT_MOVE_GONE), 600);
	CU_ASSERT_EQUAL(rig->kernel.move_calls, 1);
	rcu_enter();
	CU_ASSERT_EQUAL(owners_at(rig->owners, 0)->state, OWNER_GONE);
	rcu_leave();
	rig_free(rig);
}

static void busy_pages_are_tried_again(void)
{
	struct rig *rig = rig_new(&plain);
	struct fake_process *p = rig_process(rig, 100);

	rig_hot(rig, 100, 0, 10, 0, 0);
	for (int i = 0; i < 4; i++)
		p->folios[i].flags = FAKE_OFF_LRU;
	p->folios[4].flags = FAKE_SHARED;
	p->folios[5].flags = FAKE_PINNED;
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT_EQUAL(rig->result.moved_pages, 4);
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_MOVE_BUSY), 4);
	/* Not at once: they wait, without a call. */
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT_EQUAL(rig->result.limit, LIMIT_REFUSED);
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_MOVE_BUSY), 4);
	rig->now_ns += REST_FIRST_NS;
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT_EQUAL(rig->result.limit, LIMIT_REFUSED);
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_MOVE_BUSY), 8);
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_MOVE_SHARED), 2);
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_MOVE_PINNED), 2);
	for (int i = 0; i < 10; i++)
		p->folios[i].flags = 0;
	rig->now_ns += REST_FIRST_NS;
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT_EQUAL(rig->result.moved_pages, 0);
	rig->now_ns += REST_FIRST_NS;
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT_EQUAL(rig->result.moved_pages, 6);
	CU_ASSERT_EQUAL(rig->kernel.moved_pages, 10);
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT_EQUAL(rig->result.limit, LIMIT_NOTHING_HOT);

	/* One that is busy for ever is let go after a few tries with growing pauses, even while it stays hot. */
	fake_folio_add(p, rig_addr(100, 20), RIG_PAGE, 2, FAKE_OFF_LRU);
	for (int i = 0; i < 200; i++) {
		if (i % 10 == 0)
			rig_hot(rig, 100, 20, 1, 20, 0);
		CU_ASSERT_EQUAL(rig_pass(rig), 0);
		rig->now_ns += 100 * NSEC_PER_MSEC;
	}
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_MOVE_BUSY), 8 + REST_TRIES);
	/* Later it gets a new chance. */
	rig->now_ns += REST_GIVEN_UP_NS;
	fake_folio_find(p, rig_addr(100, 20))->flags = 0;
	rig_hot(rig, 100, 20, 1, 20, 0);
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT_EQUAL(rig->result.moved_pages, 1);
	rig_free(rig);
}

static struct rlimit descriptors;

/* From here on no file can be opened. */
static void run_out_of_descriptors(struct rig *rig)
{
	struct rlimit none = { .rlim_cur = 0, .rlim_max = descriptors.rlim_max };

	rig->on_clock = NULL;
	setrlimit(RLIMIT_NOFILE, &none);
}

/* Whether the process is still there can't be told: then it isn't called, and nothing of it is lost. */
static void a_process_that_cannot_be_checked(void)
{
	struct rig *rig = rig_new(&plain);

	rig_hot(rig, 100, 0, 10, 0, 0);
	getrlimit(RLIMIT_NOFILE, &descriptors);
	rig->on_clock = run_out_of_descriptors; /* after the room was read */
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	setrlimit(RLIMIT_NOFILE, &descriptors);
	CU_ASSERT_PTR_NULL(rig->on_clock);
	CU_ASSERT_EQUAL(rig->kernel.move_calls, 0);
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_MOVE_GONE), 0);
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT_EQUAL(rig->result.moved_pages, 10);
	rig_free(rig);
}

/* After a call of seconds a record's time can't be trusted any more. */
static void a_very_long_call_puts_nothing_back(void)
{
	struct rig *rig = rig_new(&plain);

	rig_hot(rig, 100, 0, 1, 0, 0);
	rig->kernel.process[0].folios[0].flags = FAKE_OFF_LRU;
	rig->call_ns = 2 * NSEC_PER_SEC;
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_MOVE_BUSY), 1);
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT_EQUAL(rig->result.limit, LIMIT_NOTHING_HOT);
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_MOVE_BUSY), 1);
	rig_free(rig);
}

static void huge_pages(void)
{
	struct rig *rig = rig_new(&plain);
	struct fake_process *p = rig_process(rig, 100);

	for (uint64_t i = 0; i < 6; i++) {
		fake_folio_add(p, rig_addr(100, i * 512), RIG_HUGE, 2, 0);
		rig_access(rig, 100, rig_addr(100, i * 512 + 77), rig_phys(2, i * 512 + 77), RIG_HUGE, 0);
		rig_access(rig, 100, rig_addr(100, i * 512 + 78), rig_phys(2, i * 512 + 78), RIG_HUGE, 0);
	}
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT_EQUAL(rig->result.moved_pages, 6 * 512);
	CU_ASSERT_EQUAL(rig->kernel.move_calls, 6);
	CU_ASSERT_EQUAL(rig->kernel.bad_calls, 0);
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_MOVE_BUSY), 0);
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_CANDIDATES), 6 * 512);

	/* One larger than the burst goes all the same, and is paid for before the next. */
	rig->config.promote_rate_mib_per_sec = 4; /* 2 MiB/s for this node, 0.2 MiB at once */
	rig->now_ns += 10 * NSEC_PER_SEC;
	for (uint64_t i = 6; i < 10; i++)
		fake_folio_add(p, rig_addr(100, i * 512), RIG_HUGE, 2, 0);
	for (int s = 0; s < 3; s++) {
		for (uint64_t i = 6; i < 10; i++)
			rig_access(rig, 100, rig_addr(100, i * 512), rig_phys(2, i * 512), RIG_HUGE, 0);
		for (int k = 0; k < 10; k++) {
			CU_ASSERT_EQUAL(rig_pass(rig), 0);
			CU_ASSERT(rig->result.moved_pages <= 512);
			rig->now_ns += 100 * NSEC_PER_MSEC;
		}
	}
	CU_ASSERT(rig_stat(rig, STAT_PROMOTED_PAGES) >= 9 * 512 && rig_stat(rig, STAT_PROMOTED_PAGES) <= 10 * 512);
	rig_free(rig);
}

static void pages_of_a_gib_are_left_alone(void)
{
	struct rig *rig = rig_new(&plain);
	struct fake_process *p = rig_process(rig, 100);

	fake_folio_add(p, rig_addr(100, 0), RIG_GIANT, 2, 0);
	rig_access(rig, 100, rig_addr(100, 1000), rig_phys(2, 1000), RIG_GIANT, 0);
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT_EQUAL(rig->kernel.move_calls, 0);
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_MOVE_NOT_MIGRATABLE), 512);
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_MOVE_NOT_MIGRATABLE), 512);
	rig_free(rig);
}

/* A page was moved by the kernel between two samples: two records, of two places, for one address. */
static void one_address_with_two_records(void)
{
	struct rig *rig = rig_new(&plain);

	rig_hot(rig, 100, 0, 1, 0, 0);
	rig_hot(rig, 100, 0, 1, 777, 0);
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT_EQUAL(rig->result.moved_pages, 1);
	CU_ASSERT_EQUAL(rig->kernel.bad_calls, 0);
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_MOVE_ALREADY), 0);
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT_EQUAL(rig->result.limit, LIMIT_NOTHING_HOT);
	rig_free(rig);
}

/* The record is old news: the page is on a fast node already, though not on the one that the record names. */
static void no_page_is_moved_between_fast_nodes(void)
{
	struct rig *rig = rig_new(&plain);

	rig_hot(rig, 100, 0, 2, 0, 0);
	fake_process_find(&rig->kernel, 100)->folios[0].nid = 1;
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT_EQUAL(rig->result.moved_pages, 1);
	CU_ASSERT_EQUAL(fake_process_find(&rig->kernel, 100)->folios[0].nid, 1);
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_MOVE_ALREADY), 1);
	rig_free(rig);
}

static void refusals_are_counted(void)
{
	struct rig *rig = rig_new(&plain);

	rig_hot(rig, 100, 0, 10, 0, 0);
	rig_hot(rig, 101, 0, 20, 100, 0);
	fake_process_find(&rig->kernel, 100)->denied = true;
	nodeset_del(&fake_process_find(&rig->kernel, 101)->cpuset, 0);
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT_EQUAL(rig->result.limit, LIMIT_REFUSED);
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_MOVE_DENIED), 10);
	CU_ASSERT_EQUAL(rig_stat(rig, STAT_MOVE_CPUSET), 20);
	rig_free(rig);
}

static void unreadable_zoneinfo_moves_nothing(void)
{
	struct rig *rig = rig_new(&plain);

	rig_hot(rig, 100, 0, 10, 0, 0);
	CU_ASSERT_EQUAL(migrator_pass(rig->migrator, &rig->config, rig->now_ns, &rig->result), -ENOENT);
	CU_ASSERT_EQUAL(rig->result.moved_pages, 0);
	machine_put(&rig->machine, "proc/zoneinfo", "Node 0, zone   Normal\n  pages free     twelve");
	CU_ASSERT(migrator_pass(rig->migrator, &rig->config, rig->now_ns, &rig->result) <= 0);
	CU_ASSERT_EQUAL(rig->kernel.move_calls, 0);
	/* Nothing was lost. */
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	CU_ASSERT_EQUAL(rig->result.moved_pages, 10);
	rig_free(rig);
}

struct matrix {
	uint64_t pages[4][4][MOVER_RESULT_MAX];
	uint64_t all;
};

static void fill_matrix(void *ctx, const struct mover_outcome *o)
{
	struct matrix *matrix = ctx;

	matrix->all += o->pages;
	if (o->from_nid >= 0 && o->from_nid < 4 && o->to_nid >= 0 && o->to_nid < 4)
		matrix->pages[o->from_nid][o->to_nid][o->result] += o->pages;
}

struct watch {
	const struct migrator *migrator;
	_Atomic bool done;
	uint64_t last;
	bool went_back, nonsense;
};

static void *watch_migrator(void *ctx)
{
	struct watch *watch = ctx;

	while (!atomic_load_explicit(&watch->done, memory_order_relaxed)) {
		struct matrix matrix = { 0 };

		watch->nonsense |= migrator_last_limit(watch->migrator) >= LIMIT_MAX;
		watch->nonsense |= migrator_in_call_since_ns(watch->migrator) > RIG_START_NS + NSEC_PER_SEC;
		mover_outcomes_for_each(migrator_outcomes(watch->migrator), fill_matrix, &matrix);
		watch->went_back |= matrix.all < watch->last;
		watch->last = matrix.all;
	}
	return NULL;
}

/* The report looks from another thread. */
static void can_be_watched(void)
{
	struct rig *rig = rig_new(&plain);
	struct watch watch = { .migrator = rig->migrator };
	struct matrix matrix = { 0 };
	pthread_t thread;

	rig_hot(rig, 100, 0, 3000, 0, 0);
	rig_hot(rig, 100, 3000, 1000, 3000, 1);
	CU_ASSERT_EQUAL(pthread_create(&thread, NULL, watch_migrator, &watch), 0);
	CU_ASSERT_EQUAL(rig_pass(rig), 0);
	atomic_store_explicit(&watch.done, true, memory_order_relaxed);
	pthread_join(thread, NULL);
	CU_ASSERT_FALSE(watch.went_back);
	CU_ASSERT_FALSE(watch.nonsense);
	mover_outcomes_for_each(migrator_outcomes(rig->migrator), fill_matrix, &matrix);
	CU_ASSERT_EQUAL(matrix.pages[2][0][MOVER_OK], 3000);
	CU_ASSERT_EQUAL(matrix.pages[2][1][MOVER_OK], 1000);
	CU_ASSERT_EQUAL(matrix.all, 4000);
	rig_free(rig);
}

static uint64_t seed;

static uint64_t next(uint64_t below)
{
	seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (seed >> 33) % below;
}

static void trouble(struct rig *rig)
{
	static const unsigned int odd[] = { FAKE_PINNED, FAKE_SHARED, FAKE_UNMOVABLE, FAKE_ABSENT, FAKE_OFF_LRU };
	struct fake_process *p = &rig->kernel.process[next(rig->kernel.n_processes)];

	switch (next(8)) {
	case 0:
		if (p->alive)
			rig_exit(rig, p->pid);
		break;
	case 1:
		p->denied = next(2);
		break;
	case 2:
		nodeset_del(&p->cpuset, (int)next(2));
		break;
	case 3:
		rig->config.promote_rate_mib_per_sec = (int64_t)next(200);
		break;
	case 4:
		rig->config.promote_headroom_percent = (double)next(50);
		break;
	case 5:
		rig->config.mode = next(4) ? MODE_PROMOTE : MODE_OBSERVE;
		break;
	case 6:
		rig->config.promote_batch_pages = (int64_t)(64 + next(961));
		break;
	default:
		for (size_t i = 0; i < p->n_folios; i++)
			if (next(10) == 0)
				p->folios[i].flags = next(2) ? odd[next(5)] : 0;
	}
}

/*
 * Random machines for a while, with everything changing under way: what is said to have been promoted is what the model
 * has moved, every planned page has one outcome, the room that is to stay free stays free, and observing moves nothing.
 */
static void agrees_with_the_model(void)
{
	const uint64_t rounds = test_under_valgrind() ? 6 : 30;

	for (uint64_t round = 0; round < rounds; round++) {
		struct rig *rig = rig_new(&plain);
		struct matrix matrix = { 0 };
		uint64_t ok = 0;

		seed = round + 1;
		for (uint32_t pid = 100; pid < 106; pid++)
			rig_process(rig, pid);
		for (int i = 0; i < 4; i++)
			rig->kernel.free_pages[i] = next(RIG_NODE_PAGES / 8);
		rig->config.promote_rate_mib_per_sec = (int64_t)next(400);
		for (int pass = 0; pass < 40; pass++) {
			uint64_t free_before[2] = { rig->kernel.free_pages[0], rig->kernel.free_pages[1] };
			uint64_t moved_before = rig->kernel.moved_pages;
			uint64_t keep;
			bool dying;

			for (uint64_t k = next(6); k > 0; k--) {
				uint32_t pid = 100 + (uint32_t)next(6);
				uint64_t first = next(4000);

				if (fake_process_find(&rig->kernel, pid)->alive)
					rig_hot(rig, pid, first, next(400), (pid - 100) * 5000 + first, (int)next(2));
			}
			if (next(3) == 0)
				trouble(rig);
			dying = next(20) == 0;
			rig->kernel.dying_pid = dying ? 100 + (uint32_t)next(6) : 0;
			rig->kernel.die_after = next(300);
			CU_ASSERT_EQUAL(rig_pass(rig), 0);
			if (dying && rig->kernel.dying_pid == 0)
				break; /* what a dead process moved in its last call can't be known any more */
			rig->kernel.dying_pid = 0;
			CU_ASSERT_EQUAL(rig->result.moved_pages, rig->kernel.moved_pages - moved_before);
			CU_ASSERT_EQUAL(rig_stat(rig, STAT_PROMOTED_PAGES), rig->kernel.moved_pages);
			CU_ASSERT_EQUAL(rig_stat(rig, STAT_MOVE_OK), rig->kernel.moved_pages);
			if (rig->config.mode == MODE_OBSERVE)
				CU_ASSERT_EQUAL(rig->result.moved_pages, 0);
			keep = (uint64_t)((double)RIG_NODE_PAGES * rig->config.promote_headroom_percent / 100);
			keep = keep < RIG_PROMO ? RIG_PROMO : keep;
			for (int i = 0; i < 2; i++)
				CU_ASSERT(rig->kernel.free_pages[i] >= keep ||
					  rig->kernel.free_pages[i] == free_before[i]);
			CU_ASSERT_EQUAL(rig->kernel.bad_calls, 0);
			CU_ASSERT(rig->kernel.largest_call_pages <= 1024);
			rig->now_ns += (50 + next(200)) * NSEC_PER_MSEC;
		}
		mover_outcomes_for_each(migrator_outcomes(rig->migrator), fill_matrix, &matrix);
		for (int from = 0; from < 4; from++)
			for (int to = 0; to < 4; to++)
				ok += matrix.pages[from][to][MOVER_OK];
		CU_ASSERT_EQUAL(ok, rig_stat(rig, STAT_PROMOTED_PAGES));
		CU_ASSERT_EQUAL(matrix.pages[2][0][MOVER_OK] + matrix.pages[2][1][MOVER_OK], ok);
		rig_free(rig);
	}
}

/* A region of base pages that moved whole becomes a huge page, if that is asked for, and no other. */
static void whole_regions_collapse(void)
{
	for (int ask = 0; ask < 2; ask++) {
		struct rig *rig = rig_new(&plain);

		rig->config.promote_collapse = ask;
		rig_hot(rig, 100, 512, 512, 0, 0);    /* whole */
		rig_hot(rig, 100, 1024, 511, 512, 0); /* all but one */
		rig_hot(rig, 101, 0, 256, 1024, 0);   /* half here, half there */
		rig_hot(rig, 101, 256, 256, 1280, 1);
		CU_ASSERT_EQUAL(rig_pass(rig), 0);
		CU_ASSERT_EQUAL(rig->result.moved_pages, 512 + 511 + 512);
		CU_ASSERT_EQUAL(rig->kernel.collapse_calls, (size_t)ask);
		CU_ASSERT_EQUAL(rig_stat(rig, STAT_COLLAPSED), (uint64_t)ask);
		if (ask)
			CU_ASSERT_EQUAL(rig->kernel.collapsed_addr, rig_addr(100, 512));
		CU_ASSERT_EQUAL(rig_pass(rig), 0);
		CU_ASSERT_EQUAL(rig->kernel.collapse_calls, (size_t)ask);
		rig->kernel.collapse_error = -ENOMEM;
		rig_hot(rig, 102, 512, 512, 2048, 0);
		CU_ASSERT_EQUAL(rig_pass(rig), 0);
		CU_ASSERT_EQUAL(rig_stat(rig, STAT_COLLAPSE_FAILED), (uint64_t)ask);
		CU_ASSERT_EQUAL(rig_stat(rig, STAT_COLLAPSED), (uint64_t)ask);
		CU_ASSERT_EQUAL(rig->kernel.bad_calls, 0);
		rig_free(rig);
	}
}

TEST_MAIN(migrator, TEST(whole_regions_collapse), TEST(moves_what_is_hot), TEST(every_limit_has_its_words),
	  TEST(one_process_and_one_target_to_a_call), TEST(batch_pages_is_respected), TEST(a_pass_has_rounds),
	  TEST(a_long_pass_ends), TEST(tells_that_it_is_in_a_call), TEST(observe_counts_once_and_moves_nothing),
	  TEST(nothing_is_moved_on_a_guess), TEST(stop_prevents_any_call), TEST(a_process_that_ended),
	  TEST(busy_pages_are_tried_again), TEST(a_process_that_cannot_be_checked),
	  TEST(a_very_long_call_puts_nothing_back), TEST(huge_pages), TEST(pages_of_a_gib_are_left_alone),
	  TEST(one_address_with_two_records), TEST(no_page_is_moved_between_fast_nodes), TEST(refusals_are_counted),
	  TEST(unreadable_zoneinfo_moves_nothing), TEST(can_be_watched), TEST(agrees_with_the_model))
