/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How fast samples come, and how long a cycle is, wherever a machine says so. */
#include "accesses.h"
#include "clock.h"
#include "harness.h"
#include "machine.h"

static uint64_t khz(const struct machine *m)
{
	struct accesses a;

	accesses_init(&a, &m->root);
	return (uint64_t)accesses_get(&a.cpu_khz);
}

static void the_frequency_is_found(void)
{
	struct machine m;

	machine_new(&m);
	CU_ASSERT_EQUAL(khz(&m), 0);
	machine_put(&m, "proc/cpuinfo",
		    "processor\t: 0\nflags\t: x\ncpu MHz\t\t: 2649.998\nprocessor\t: 1\ncpu MHz\t: 900");
	CU_ASSERT_EQUAL(khz(&m), 2649998);
	machine_put(&m, "proc/cpuinfo", "cpu MHz\t\t: -3");
	CU_ASSERT_EQUAL(khz(&m), 0);
	machine_put(&m, "proc/cpuinfo", "cpu MHz\t\t: 99999999999");
	CU_ASSERT_EQUAL(khz(&m), 0);
	machine_put(&m, "proc/cpuinfo", "cpu MHz");
	CU_ASSERT_EQUAL(khz(&m), 0);
	machine_put(&m, "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "3500000");
	CU_ASSERT_EQUAL(khz(&m), 3500000);
	machine_put(&m, "sys/devices/system/cpu/cpu0/cpufreq/base_frequency", "2400000");
	CU_ASSERT_EQUAL(khz(&m), 2400000);
	machine_free(&m);
}

static void samples_are_counted_by_the_second(void)
{
	struct machine m;
	struct accesses a;
	uint64_t now_ns = 50 * NSEC_PER_SEC;

	machine_new(&m);
	accesses_init(&a, &m.root);
	accesses_step(&a, &m.root, 1000000, now_ns);
	CU_ASSERT_EQUAL(accesses_get(&a.samples_per_sec), 0);
	accesses_step(&a, &m.root, 1000900, now_ns + NSEC_PER_SEC - 1);
	CU_ASSERT_EQUAL(accesses_get(&a.samples_per_sec), 0);
	accesses_step(&a, &m.root, 1001000, now_ns + 2 * NSEC_PER_SEC);
	CU_ASSERT_EQUAL(accesses_get(&a.samples_per_sec), 500);
	accesses_step(&a, &m.root, 1001000, now_ns + 3 * NSEC_PER_SEC);
	CU_ASSERT_EQUAL(accesses_get(&a.samples_per_sec), 0);
	accesses_set_per_sample(&a, 10000);
	CU_ASSERT_EQUAL(accesses_get(&a.per_sample), 10000);
	machine_free(&m);
}

/* All CPUs: 3 s of user time, 0.5 of system, 0.1 of interrupts in two seconds; idle and waiting is none. */
static void busy_time_is_counted(void)
{
	struct machine m;
	struct accesses a;
	uint64_t now_ns = 50 * NSEC_PER_SEC;

	machine_new(&m);
	machine_put(&m, "proc/stat", "cpu  1000 10 200 5000 30 40 50 0 0 0\ncpu0 1 1 1 1 1 1 1");
	accesses_init(&a, &m.root);
	accesses_step(&a, &m.root, 0, now_ns);
	CU_ASSERT_EQUAL(accesses_get(&a.busy_ms_per_sec), 0);
	machine_put(&m, "proc/stat", "cpu  1300 10 250 9000 99 45 55 0 0 0\ncpu0 1 1 1 1 1 1 1");
	accesses_step(&a, &m.root, 0, now_ns + 2 * NSEC_PER_SEC);
	CU_ASSERT_EQUAL(accesses_get(&a.busy_ms_per_sec), 1800);
	/* What can't be read stays as it was. */
	machine_put(&m, "proc/stat", "cpu x");
	accesses_step(&a, &m.root, 0, now_ns + 4 * NSEC_PER_SEC);
	CU_ASSERT_EQUAL(accesses_get(&a.busy_ms_per_sec), 1800);
	/* What was used while nobody wanted to know isn't taken for that of a second. */
	machine_put(&m, "proc/stat", "cpu  9000 10 250 9000 99 45 55 0 0 0");
	accesses_step(&a, NULL, 0, now_ns + 6 * NSEC_PER_SEC);
	accesses_step(&a, &m.root, 0, now_ns + 8 * NSEC_PER_SEC);
	CU_ASSERT_EQUAL(accesses_get(&a.busy_ms_per_sec), 1800);
	machine_put(&m, "proc/stat", "cpu  9100 10 250 9000 99 45 55 0 0 0");
	accesses_step(&a, &m.root, 0, now_ns + 9 * NSEC_PER_SEC);
	CU_ASSERT_EQUAL(accesses_get(&a.busy_ms_per_sec), 1000);
	machine_free(&m);
}

TEST_MAIN(accesses, TEST(the_frequency_is_found), TEST(samples_are_counted_by_the_second), TEST(busy_time_is_counted))
