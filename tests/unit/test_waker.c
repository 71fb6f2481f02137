/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/resource.h>

#include "clock.h"
#include "harness.h"
#include "waker.h"

/* Long enough that only a lost wake-up can take it. */
#define LOST_MS 20000

static void wake_before_wait_is_kept(void)
{
	struct waker *waker = waker_new();
	uint64_t before = clock_now_ns(&clock_monotonic);

	waker_prepare(waker);
	waker_wake(waker);
	waker_wait(waker, LOST_MS);
	CU_ASSERT(clock_now_ns(&clock_monotonic) - before < LOST_MS * NSEC_PER_MSEC / 2);
	waker_free(waker);
	waker_free(NULL);
}

static void nobody_sleeps_nothing_is_kept(void)
{
	struct waker *waker = waker_new();
	uint64_t before;

	/* None of these may end the wait below. */
	waker_wake(waker);
	waker_prepare(waker);
	waker_cancel(waker);
	waker_wake(waker);
	waker_prepare(waker);
	waker_wait(waker, 0);
	waker_wake(waker);
	before = clock_now_ns(&clock_monotonic);
	waker_prepare(waker);
	waker_wait(waker, 5);
	CU_ASSERT(clock_now_ns(&clock_monotonic) - before >= 4 * NSEC_PER_MSEC);
	waker_free(waker);
}

static void many_wakes_are_one(void)
{
	struct waker *waker = waker_new();
	uint64_t before;

	waker_prepare(waker);
	for (int i = 0; i < 1000; i++)
		waker_wake(waker);
	waker_wait(waker, LOST_MS);
	before = clock_now_ns(&clock_monotonic);
	waker_prepare(waker);
	waker_wait(waker, 5);
	CU_ASSERT(clock_now_ns(&clock_monotonic) - before >= 4 * NSEC_PER_MSEC);
	waker_free(waker);
}

static void without_descriptors_there_is_no_waker(void)
{
	struct rlimit old, none;

	CU_ASSERT_EQUAL(getrlimit(RLIMIT_NOFILE, &old), 0);
	none = (struct rlimit){ .rlim_cur = 0, .rlim_max = old.rlim_max };
	CU_ASSERT_EQUAL(setrlimit(RLIMIT_NOFILE, &none), 0);
	errno = 0;
	CU_ASSERT_PTR_NULL(waker_new());
	CU_ASSERT_EQUAL(errno, EMFILE);
	CU_ASSERT_EQUAL(setrlimit(RLIMIT_NOFILE, &old), 0);
}

/*
 * Two threads hand a number to and fro, each asleep until it is its turn. One lost wake-up and the whole takes
 * LOST_MS.
 */
#define ROUNDS 20000

struct side {
	struct waker *own, *other;
	_Atomic int *turn;
	int me;
	bool late;
};

static void *pass_to_and_fro(void *arg)
{
	struct side *side = arg;

	for (int i = 0; i < ROUNDS; i++) {
		while (atomic_load_explicit(side->turn, memory_order_acquire) % 2 != side->me) {
			waker_prepare(side->own);
			if (atomic_load_explicit(side->turn, memory_order_acquire) % 2 == side->me) {
				waker_cancel(side->own);
				break;
			}
			uint64_t before = clock_now_ns(&clock_monotonic);

			waker_wait(side->own, LOST_MS);
			if (clock_now_ns(&clock_monotonic) - before >= LOST_MS * NSEC_PER_MSEC) {
				side->late = true;
				return NULL;
			}
		}
		/* Only whose turn it is writes. */
		atomic_fetch_add_explicit(side->turn, 1, memory_order_release);
		waker_wake(side->other);
	}
	return NULL;
}

static void no_wakeup_is_lost(void)
{
	_Atomic int turn = 0;
	struct waker *a = waker_new(), *b = waker_new();
	struct side sides[2] = { { a, b, &turn, 0, false }, { b, a, &turn, 1, false } };
	pthread_t threads[2];

	for (int i = 0; i < 2; i++)
		CU_ASSERT_EQUAL(pthread_create(&threads[i], NULL, pass_to_and_fro, &sides[i]), 0);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	CU_ASSERT_EQUAL(turn, 2 * ROUNDS);
	CU_ASSERT_FALSE(sides[0].late || sides[1].late);
	waker_free(a);
	waker_free(b);
}

/*
 * The two sides of the race at the same moment, again and again: one goes to sleep while the other publishes. Without
 * the two fences a store waits in its CPU's buffer, neither sees the other, and the wake-up is lost.
 */
#define RACES 100000

struct race {
	struct waker *waker;
	/* Apart, so that each store waits for a cache line of its own. */
	_Alignas(64) _Atomic int ready;
	_Alignas(64) _Atomic int go;
	_Alignas(64) _Atomic int published;
};

static void spin_until(_Atomic int *word, int value)
{
	for (int i = 0; atomic_load_explicit(word, memory_order_acquire) < value; i++)
		if (i % 1000 == 999)
			sched_yield();
}

static void *publish_at_once(void *arg)
{
	struct race *race = arg;

	for (int n = 1; n <= RACES; n++) {
		atomic_store_explicit(&race->ready, n, memory_order_release);
		spin_until(&race->go, n);
		atomic_store_explicit(&race->published, n, memory_order_release);
		waker_wake(race->waker);
	}
	return NULL;
}

static void both_at_once(void)
{
	struct race race = { .waker = waker_new() };
	bool late = false;
	pthread_t thread;

	CU_ASSERT_EQUAL(pthread_create(&thread, NULL, publish_at_once, &race), 0);
	for (int n = 1; n <= RACES; n++) {
		spin_until(&race.ready, n);
		atomic_store_explicit(&race.go, n, memory_order_release);
		/* A moment that differs, so that the two meet now and then. */
		for (volatile int i = 0; i < n % 16; i++)
			;
		while (!late) {
			waker_prepare(race.waker);
			if (atomic_load_explicit(&race.published, memory_order_acquire) == n) {
				waker_cancel(race.waker);
				break;
			}
			uint64_t before = clock_now_ns(&clock_monotonic);

			waker_wait(race.waker, LOST_MS);
			late = clock_now_ns(&clock_monotonic) - before >= LOST_MS * NSEC_PER_MSEC;
		}
	}
	pthread_join(thread, NULL);
	CU_ASSERT_FALSE(late);
	waker_free(race.waker);
}

/* Several wakers, one sleeper that counts what they have published. */
#define WAKERS  3
#define BATCHES 5000

struct crowd {
	struct waker *waker;
	_Atomic int published;
};

static void *publish(void *arg)
{
	struct crowd *crowd = arg;

	for (int i = 0; i < BATCHES; i++) {
		atomic_fetch_add_explicit(&crowd->published, 1, memory_order_release);
		waker_wake(crowd->waker);
	}
	return NULL;
}

static void a_crowd_may_wake(void)
{
	struct crowd crowd = { .waker = waker_new() };
	pthread_t threads[WAKERS];
	int seen = 0;
	bool late = false;

	for (int i = 0; i < WAKERS; i++)
		CU_ASSERT_EQUAL(pthread_create(&threads[i], NULL, publish, &crowd), 0);
	while (seen < WAKERS * BATCHES && !late) {
		int now;

		waker_prepare(crowd.waker);
		now = atomic_load_explicit(&crowd.published, memory_order_acquire);
		if (now != seen) {
			waker_cancel(crowd.waker);
			seen = now;
			continue;
		}
		uint64_t before = clock_now_ns(&clock_monotonic);

		waker_wait(crowd.waker, LOST_MS);
		late = clock_now_ns(&clock_monotonic) - before >= LOST_MS * NSEC_PER_MSEC;
	}
	CU_ASSERT_FALSE(late);
	for (int i = 0; i < WAKERS; i++)
		pthread_join(threads[i], NULL);
	CU_ASSERT_EQUAL(seen, WAKERS * BATCHES);
	waker_free(crowd.waker);
}

TEST_MAIN(waker, TEST(wake_before_wait_is_kept), TEST(nobody_sleeps_nothing_is_kept), TEST(many_wakes_are_one),
	  TEST(without_descriptors_there_is_no_waker), TEST(no_wakeup_is_lost), TEST(both_at_once),
	  TEST(a_crowd_may_wake))
