/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "harness.h"
#include "sleep_watch.h"

/* A machine whose time goes on by so much at each reading of a clock. */
struct machine_time {
	uint64_t awake_ns, asleep_ns, step_ns;
};

static uint64_t read_monotonic(void *ctx)
{
	struct machine_time *time = ctx;

	return time->awake_ns += time->step_ns;
}

static uint64_t read_boottime(void *ctx)
{
	struct machine_time *time = ctx;

	return (time->awake_ns += time->step_ns) + time->asleep_ns;
}

static bool look(struct sleep_watch *watch, struct machine_time *time)
{
	struct clock monotonic = { read_monotonic, time }, boottime = { read_boottime, time };

	return sleep_watch_look(watch, &monotonic, &boottime);
}

static void sleep_is_seen_once(void)
{
	struct machine_time time = { .awake_ns = 5 * NSEC_PER_SEC, .step_ns = 30 };
	struct sleep_watch watch = { 0 };

	CU_ASSERT_FALSE(look(&watch, &time));
	CU_ASSERT_FALSE(look(&watch, &time));
	time.asleep_ns += 3 * NSEC_PER_SEC;
	CU_ASSERT_TRUE(look(&watch, &time));
	CU_ASSERT_FALSE(look(&watch, &time));
	time.asleep_ns += NSEC_PER_MSEC;
	CU_ASSERT_TRUE(look(&watch, &time));
	CU_ASSERT_FALSE(look(&watch, &time));
}

/* A daemon that starts on a machine that has slept before. */
static void what_was_before_is_no_news(void)
{
	struct machine_time time = { .awake_ns = NSEC_PER_SEC, .asleep_ns = 3600 * NSEC_PER_SEC, .step_ns = 30 };
	struct sleep_watch watch = { 0 };

	CU_ASSERT_FALSE(look(&watch, &time));
	CU_ASSERT_FALSE(look(&watch, &time));
}

/* On a busy machine seconds may pass between two readings. */
static void delay_is_no_sleep(void)
{
	struct machine_time time = { .awake_ns = NSEC_PER_SEC, .step_ns = 30 };
	struct sleep_watch watch = { 0 };

	CU_ASSERT_FALSE(look(&watch, &time));
	for (int i = 0; i < 100; i++) {
		time.step_ns = i % 3 ? 2 * NSEC_PER_SEC : 30;
		CU_ASSERT_FALSE(look(&watch, &time));
	}
	time.step_ns = 30;
	time.asleep_ns += NSEC_PER_MSEC;
	CU_ASSERT_TRUE(look(&watch, &time));
	/* A first look that was delayed knows less, and the next one makes up for it. */
	watch = (struct sleep_watch){ 0 };
	time.step_ns = 2 * NSEC_PER_SEC;
	CU_ASSERT_FALSE(look(&watch, &time));
	time.step_ns = 30;
	CU_ASSERT_FALSE(look(&watch, &time));
	time.asleep_ns += NSEC_PER_MSEC;
	CU_ASSERT_TRUE(look(&watch, &time));
}

/* The machine's own clocks: this one isn't asleep while it runs this. */
static void real_clocks(void)
{
	struct sleep_watch watch = { 0 };
	uint64_t monotonic_ns = clock_now_ns(&clock_monotonic);

	CU_ASSERT_TRUE(clock_now_ns(&clock_boottime) >= monotonic_ns);
	CU_ASSERT_FALSE(sleep_watch_look(&watch, &clock_monotonic, &clock_boottime));
}

TEST_MAIN(sleep_watch, TEST(sleep_is_seen_once), TEST(what_was_before_is_no_news), TEST(delay_is_no_sleep),
	  TEST(real_clocks))
