/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "accesses.h"
#include "cleanup.h"
#include "clock.h"
#include "fsroot.h"

#define STEP_NS NSEC_PER_SEC
#define KHZ_MAX 20000000

/* "cpu MHz : 2600.123" of the first CPU; 0: it isn't said. */
static uint64_t khz_of_cpuinfo(const struct fsroot *root)
{
	_cleanup_free_ char *text = NULL;
	const char *at;
	double mhz;

	if (fsroot_read_alloc(root, &text, "proc/cpuinfo") < 0)
		return 0;
	at = strstr(text, "cpu MHz");
	at = at ? strchr(at, ':') : NULL;
	mhz = at ? strtod(at + 1, NULL) : 0;
	return mhz > 0 && mhz * 1000 < KHZ_MAX ? (uint64_t)(mhz * 1000) : 0;
}

void accesses_init(struct accesses *a, const struct fsroot *root)
{
	uint64_t khz = 0;

	*a = (struct accesses){ .step_ns = 0 };
	/* The nominal one, else the highest: cycles are counted at whatever the core runs at. */
	if (fsroot_read_u64(root, &khz, 10, "sys/devices/system/cpu/cpu0/cpufreq/base_frequency") < 0 &&
	    fsroot_read_u64(root, &khz, 10, "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq") < 0)
		khz = khz_of_cpuinfo(root);
	atomic_init(&a->cpu_khz, khz < KHZ_MAX ? khz : 0);
}

void accesses_set_per_sample(struct accesses *a, uint64_t n)
{
	atomic_store_explicit(&a->per_sample, n, memory_order_relaxed);
}

/* Of all CPUs: user, nice, system, irq and softirq, see proc_stat(5). -errno when it can't be read. */
static int read_busy(const struct fsroot *root, uint64_t *ret_ticks)
{
	_cleanup_free_ char *text = NULL;
	unsigned long long user, nice, system, idle, iowait, irq, softirq;
	int r = fsroot_read_alloc(root, &text, "proc/stat");

	if (r < 0)
		return r;
	if (sscanf(text, "cpu %llu %llu %llu %llu %llu %llu %llu", &user, &nice, &system, &idle, &iowait, &irq,
		   &softirq) != 7)
		return -EINVAL;
	*ret_ticks = user + nice + system + irq + softirq;
	return 0;
}

/* @sec went by. */
static void look_at_cpus(struct accesses *a, const struct fsroot *root, double sec)
{
	long hz = sysconf(_SC_CLK_TCK);
	uint64_t ticks;

	if (read_busy(root, &ticks) < 0 || hz <= 0)
		return;
	if (a->busy_ticks && ticks >= a->busy_ticks && sec > 0)
		atomic_store_explicit(&a->busy_ms_per_sec,
				      (uint64_t)((double)(ticks - a->busy_ticks) * 1000 / (double)hz / sec),
				      memory_order_relaxed);
	a->busy_ticks = ticks;
}

void accesses_step(struct accesses *a, const struct fsroot *root, uint64_t samples, uint64_t now_ns)
{
	uint64_t gone_ns = now_ns - a->step_ns;

	if (a->step_ns && gone_ns < STEP_NS)
		return;
	if (a->step_ns)
		atomic_store_explicit(&a->samples_per_sec,
				      (uint64_t)((double)(samples - a->samples) * NSEC_PER_SEC / (double)gone_ns),
				      memory_order_relaxed);
	if (root)
		look_at_cpus(a, root, a->step_ns ? (double)gone_ns / NSEC_PER_SEC : 0);
	else
		a->busy_ticks = 0; /* what was counted up to now is of another time when it is looked at again */
	a->step_ns = now_ns;
	a->samples = samples;
}
