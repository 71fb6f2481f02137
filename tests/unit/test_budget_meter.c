/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>

#include "budget_meter.h"
#include "clock.h"
#include "harness.h"
#include "machine.h"

#define RATE    "proc/sys/kernel/perf_event_max_sample_rate"
#define PERCENT "proc/sys/kernel/perf_cpu_time_max_percent"

static void reads_the_kernel(void)
{
	struct budget_meter meter = { 0 };
	struct budget_meter_cost cost;
	char note[BUDGET_METER_NOTE_MAX];
	struct machine m;

	machine_new(&m);
	budget_meter_cost(&meter, &cost);
	CU_ASSERT_EQUAL(cost.sample_ns, 2000);
	CU_ASSERT_EQUAL(cost.high_ns, 4000);
	CU_ASSERT_EQUAL(cost.basis, BUDGET_METER_ASSUMED);
	CU_ASSERT_EQUAL(budget_meter_look(&meter, &m.root, 0), -ENOENT);
	machine_put(&m, RATE, "100000");
	CU_ASSERT_EQUAL(budget_meter_look(&meter, &m.root, 0), -ENOENT);
	machine_put(&m, PERCENT, "25");
	CU_ASSERT_EQUAL(budget_meter_look(&meter, &m.root, 0), 0);
	budget_meter_cost(&meter, &cost); /* no sample yet: the kernel can't have complained */
	CU_ASSERT_EQUAL(cost.high_ns, 4000);
	CU_ASSERT_EQUAL(budget_meter_look(&meter, &m.root, 500), 0);
	budget_meter_cost(&meter, &cost); /* nor have finished its average */
	CU_ASSERT_EQUAL(cost.high_ns, 4000);
	CU_ASSERT_EQUAL(budget_meter_look(&meter, &m.root, 600), 0);
	budget_meter_cost(&meter, &cost);
	CU_ASSERT_EQUAL(cost.sample_ns, 2000);
	CU_ASSERT_EQUAL(cost.high_ns, 2900);
	CU_ASSERT_EQUAL(cost.basis, BUDGET_METER_BOUNDED);
	CU_ASSERT_EQUAL(budget_meter_note(&meter, note, sizeof(note)), 0);
	CU_ASSERT_STRING_EQUAL(note, "");

	/* 4 us on average, 25% over it allowed: 50000/s at most. */
	machine_put(&m, RATE, "50000");
	CU_ASSERT_EQUAL(budget_meter_look(&meter, &m.root, 700), 1);
	CU_ASSERT_EQUAL(budget_meter_look(&meter, &m.root, 800), 0);
	budget_meter_cost(&meter, &cost);
	CU_ASSERT_EQUAL(cost.sample_ns, 4400);
	CU_ASSERT_EQUAL(cost.high_ns, 5400);
	CU_ASSERT_EQUAL(cost.basis, BUDGET_METER_BOUNDED);
	CU_ASSERT(budget_meter_note(&meter, note, sizeof(note)) < (int)sizeof(note));
	CU_ASSERT_PTR_NOT_NULL(strstr(note, "from 100000 to 50000"));
	CU_ASSERT_PTR_NOT_NULL(strstr(note, "sysctl -w kernel.perf_event_max_sample_rate=100000"));
	CU_ASSERT(budget_meter_note(&meter, note, 10) > 10);
	CU_ASSERT_EQUAL(strlen(note), 9);

	/* Somebody put it right, and further. */
	machine_put(&m, RATE, "200000");
	CU_ASSERT_EQUAL(budget_meter_look(&meter, &m.root, 900), 0);
	CU_ASSERT_EQUAL(budget_meter_note(&meter, note, sizeof(note)), 0);
	budget_meter_cost(&meter, &cost);
	CU_ASSERT_EQUAL(cost.sample_ns, 1650);
	CU_ASSERT_EQUAL(cost.high_ns, 1650);

	/* The kernel doesn't care. */
	machine_put(&m, PERCENT, "100");
	budget_meter_look(&meter, &m.root, 1000);
	budget_meter_cost(&meter, &cost);
	CU_ASSERT_EQUAL(cost.basis, BUDGET_METER_ASSUMED);
	machine_put(&m, PERCENT, "25");
	/* An emulated machine: 400 us, no less believed for that. */
	machine_put(&m, RATE, "500");
	CU_ASSERT_EQUAL(budget_meter_look(&meter, &m.root, 1000), 1);
	budget_meter_cost(&meter, &cost);
	CU_ASSERT_EQUAL(cost.sample_ns, 400400);
	CU_ASSERT_EQUAL(cost.high_ns, 500400);
	CU_ASSERT_EQUAL(cost.basis, BUDGET_METER_BOUNDED);
	/* A rate that says nothing, since a hand has set it. */
	machine_put(&m, RATE, "1");
	CU_ASSERT_EQUAL(budget_meter_look(&meter, &m.root, 1000), 1);
	budget_meter_cost(&meter, &cost);
	CU_ASSERT_EQUAL(cost.sample_ns, 2000);
	budget_meter_note(&meter, note, sizeof(note));
	CU_ASSERT_PTR_NOT_NULL(strstr(note, "from 200000 to 1:"));
	machine_free(&m);
}

static void bad_input(void)
{
	static const char *const texts[] = { "", "many", "-1", "0", "99999999999999999999999" };
	struct budget_meter meter = { 0 }, before;
	struct machine m;

	machine_new(&m);
	machine_put(&m, RATE, "100000");
	machine_put(&m, PERCENT, "25");
	budget_meter_look(&meter, &m.root, 3);
	before = meter;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		machine_put(&m, RATE, "%s", texts[i]);
		CU_ASSERT(budget_meter_look(&meter, &m.root, 4) < 0);
	}
	CU_ASSERT_EQUAL(memcmp(&meter, &before, sizeof(meter)), 0);
	machine_put(&m, RATE, "18446744073709551615");
	CU_ASSERT_EQUAL(budget_meter_look(&meter, &m.root, 4), 0);
	machine_put(&m, PERCENT, "18446744073709551615");
	CU_ASSERT_EQUAL(budget_meter_look(&meter, &m.root, 4), 0);
	machine_free(&m);
}

static void takes_gaps(void)
{
	struct budget_meter meter = { 0 };
	struct budget_meter_cost cost;

	for (int i = 0; i < 15; i++)
		budget_meter_gap(&meter, 3000);
	budget_meter_gap(&meter, 0);
	budget_meter_cost(&meter, &cost);
	CU_ASSERT_EQUAL(cost.basis, BUDGET_METER_ASSUMED);
	budget_meter_gap(&meter, 3000);
	budget_meter_cost(&meter, &cost);
	CU_ASSERT_EQUAL(cost.basis, BUDGET_METER_MEASURED);
	CU_ASSERT_EQUAL(cost.sample_ns, 3000);
	CU_ASSERT_EQUAL(cost.high_ns, 3750);
	/* A tick and a pause among them. */
	budget_meter_gap(&meter, 20000);
	budget_meter_gap(&meter, UINT64_MAX);
	budget_meter_gap(&meter, 10);
	budget_meter_cost(&meter, &cost);
	CU_ASSERT_EQUAL(cost.sample_ns, 3000);
	/* Old ones go. */
	for (int i = 0; i < BUDGET_METER_GAPS; i++)
		budget_meter_gap(&meter, i % 2 ? 900 : 1100);
	budget_meter_cost(&meter, &cost);
	CU_ASSERT_EQUAL(cost.sample_ns, 1000);
}

/* A clock that moves 25 ns a reading, and is stopped for some time at some of them. */
struct stopped_clock {
	uint64_t now_ns, next_ns, every_ns, for_ns;
};

static uint64_t stopped_now(void *ctx)
{
	struct stopped_clock *c = ctx;

	c->now_ns += 25;
	if (c->for_ns && c->now_ns >= c->next_ns) {
		c->now_ns += c->for_ns;
		c->next_ns += c->every_ns;
	}
	return c->now_ns;
}

static void spins(void)
{
	struct stopped_clock stopped = { .next_ns = 20000, .every_ns = 50000, .for_ns = 1700 };
	struct clock clock = { .now_ns = stopped_now, .ctx = &stopped };
	struct budget_meter meter = { 0 };
	struct budget_meter_cost cost;
	uint64_t gaps[200];
	size_t n;

	n = budget_meter_spin(&clock, 5 * NSEC_PER_MSEC, gaps, 200);
	CU_ASSERT(n >= 99 && n <= 101);
	for (size_t i = 0; i < n; i++)
		CU_ASSERT_EQUAL(gaps[i], 1700);
	CU_ASSERT_EQUAL(budget_meter_calibrate(&meter, gaps, n, 100), 0);
	budget_meter_cost(&meter, &cost);
	CU_ASSERT_EQUAL(cost.sample_ns, 1700);
	CU_ASSERT_EQUAL(cost.basis, BUDGET_METER_MEASURED);
	/* No more than there is room for; nothing where nothing stopped. */
	CU_ASSERT_EQUAL(budget_meter_spin(&clock, 5 * NSEC_PER_MSEC, gaps, 7), 7);
	CU_ASSERT_EQUAL(budget_meter_spin(&clock, 0, gaps, 7), 0);
	stopped.for_ns = 0;
	CU_ASSERT_EQUAL(budget_meter_spin(&clock, NSEC_PER_MSEC, gaps, 200), 0);
	/* Gaps that are not the samples': refused. */
	meter = (struct budget_meter){ 0 };
	CU_ASSERT_EQUAL(budget_meter_calibrate(&meter, gaps, 15, 15), -ENODATA);
	CU_ASSERT_EQUAL(budget_meter_calibrate(&meter, gaps, 0, 0), -ENODATA);
	CU_ASSERT_EQUAL(budget_meter_calibrate(&meter, gaps, 30, 100), -ERANGE);
	CU_ASSERT_EQUAL(budget_meter_calibrate(&meter, gaps, 130, 100), -ERANGE);
	CU_ASSERT_EQUAL(meter.n_gaps, 0);
}

TEST_MAIN(budget_meter, TEST(reads_the_kernel), TEST(bad_input), TEST(takes_gaps), TEST(spins))
