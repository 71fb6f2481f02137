/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "budget_meter.h"
#include "clock.h"

#define RATE_PATH    "proc/sys/kernel/perf_event_max_sample_rate"
#define PERCENT_PATH "proc/sys/kernel/perf_cpu_time_max_percent"

/* The kernel's average forgets with each of 128 samples: after four times as many it has come to within 2%. */
#define SETTLED_SAMPLES 512
/* Longer than any handler: a pause of the machine. */
#define GAP_MAX_NS (100 * NSEC_PER_USEC)
/* Beyond any average that the kernel measures, virtual machines included: a hand has set that rate. */
#define BOUND_MAX_NS  (1000 * NSEC_PER_USEC)
#define GAP_MIN_NS    200
#define GAP_READINGS  4
#define SPIN_READINGS 64

int budget_meter_look(struct budget_meter *meter, const struct fsroot *root, uint64_t samples_per_cpu)
{
	uint64_t rate, percent, before = meter->rate;
	int r;

	r = fsroot_read_u64(root, &rate, 10, RATE_PATH);
	if (r < 0)
		return r;
	r = fsroot_read_u64(root, &percent, 10, PERCENT_PATH);
	if (r < 0)
		return r;
	if (rate == 0)
		return -EINVAL; /* the kernel takes no less than 1 */
	if (!meter->started || rate > meter->rate_at_start)
		meter->rate_at_start = rate;
	meter->started = true;
	meter->rate = rate;
	meter->percent = percent;
	meter->samples_per_cpu = samples_per_cpu;
	return rate < before;
}

void budget_meter_gap(struct budget_meter *meter, uint64_t gap_ns)
{
	if (gap_ns == 0)
		return;
	meter->gap_ns[meter->n_gaps % BUDGET_METER_GAPS] = (uint32_t)(gap_ns > GAP_MAX_NS ? GAP_MAX_NS : gap_ns);
	meter->n_gaps++;
}

static int compare_gaps(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

/*
 * The mean, since it is the sum that is paid for; without what is far from the median, which was something else's doing
 * (a tick, a pause), and would weigh most.
 */
static void measured(const struct budget_meter *meter, struct budget_meter_cost *ret)
{
	size_t n = meter->n_gaps < BUDGET_METER_GAPS ? (size_t)meter->n_gaps : BUDGET_METER_GAPS, used = 0;
	uint32_t gap[BUDGET_METER_GAPS], median;
	uint64_t sum = 0, mean;

	for (size_t i = 0; i < n; i++)
		gap[i] = meter->gap_ns[i];
	qsort(gap, n, sizeof(gap[0]), compare_gaps);
	median = gap[n / 2];
	for (size_t i = 0; i < n; i++) {
		if (gap[i] < median / 4 || gap[i] > 4 * (uint64_t)median)
			continue;
		sum += gap[i];
		used++;
	}
	mean = sum / used; /* the median itself is used */
	*ret = (struct budget_meter_cost){
		.sample_ns = (uint32_t)mean,
		.high_ns = (uint32_t)(mean + mean / 4),
		.basis = BUDGET_METER_MEASURED,
	};
	if (ret->high_ns < gap[n * 3 / 4])
		ret->high_ns = gap[n * 3 / 4];
}

/* What the kernel lets a handler take on average, or 0 when it doesn't say. */
static uint64_t allowed_ns(const struct budget_meter *meter)
{
	if (!meter->started || meter->percent == 0 || meter->percent >= 100)
		return 0;
	return NSEC_PER_SEC * meter->percent / 100 / meter->rate;
}

void budget_meter_cost(const struct budget_meter *meter, struct budget_meter_cost *ret)
{
	uint64_t allowed = allowed_ns(meter), most = allowed + BUDGET_METER_ENTRY_NS;

	if (meter->n_gaps >= BUDGET_METER_GAPS_MIN) {
		measured(meter, ret);
		return;
	}
	*ret = (struct budget_meter_cost){
		.sample_ns = BUDGET_METER_ASSUMED_NS,
		.high_ns = 2 * BUDGET_METER_ASSUMED_NS,
		.basis = BUDGET_METER_ASSUMED,
	};
	if (allowed == 0 || most > BOUND_MAX_NS)
		return;
	if (meter->rate < meter->rate_at_start && allowed > BUDGET_METER_ASSUMED_NS) {
		ret->sample_ns = (uint32_t)(allowed * 4 / 5 + BUDGET_METER_ENTRY_NS);
		ret->high_ns = (uint32_t)most;
		ret->basis = BUDGET_METER_BOUNDED;
	} else if (meter->samples_per_cpu >= SETTLED_SAMPLES && most < ret->high_ns) {
		ret->high_ns = (uint32_t)most;
		if (ret->sample_ns > ret->high_ns)
			ret->sample_ns = ret->high_ns;
		ret->basis = BUDGET_METER_BOUNDED;
	}
}

int budget_meter_note(const struct budget_meter *meter, char *buf, size_t size)
{
	unsigned long long from = meter->rate_at_start, to = meter->rate;

	if (to >= from) {
		if (size > 0)
			buf[0] = '\0';
		return 0;
	}
	return snprintf(buf, size,
			"kernel.perf_event_max_sample_rate fell from %llu to %llu: the kernel lowers it when "
			"interrupts took "
			"too long, and never raises it by itself; to do so: sysctl -w "
			"kernel.perf_event_max_sample_rate=%llu",
			from, to, from);
}

/* The shortest distance of some readings: what nothing came between. */
static uint64_t usual_distance(const struct clock *clock)
{
	uint64_t before = clock_now_ns(clock), least = UINT64_MAX;

	for (int i = 0; i < SPIN_READINGS; i++) {
		uint64_t now = clock_now_ns(clock);

		if (now - before < least)
			least = now - before;
		before = now;
	}
	return least;
}

size_t budget_meter_spin(const struct clock *clock, uint64_t spin_ns, uint64_t *ret_gaps, size_t max)
{
	uint64_t usual = usual_distance(clock), least = usual * GAP_READINGS;
	uint64_t before = clock_now_ns(clock), end = before + spin_ns;
	size_t n = 0;

	if (least < GAP_MIN_NS)
		least = GAP_MIN_NS;
	while (before < end && n < max) {
		uint64_t now = clock_now_ns(clock);

		if (now - before > least)
			ret_gaps[n++] = now - before - usual;
		before = now;
	}
	return n;
}

int budget_meter_calibrate(struct budget_meter *meter, const uint64_t *gaps, size_t n, uint64_t samples)
{
	uint64_t slack = samples / 4 + 4;

	if (samples < BUDGET_METER_GAPS_MIN)
		return -ENODATA;
	if (n > samples + slack || n + slack < samples)
		return -ERANGE;
	for (size_t i = 0; i < n; i++)
		budget_meter_gap(meter, gaps[i]);
	return 0;
}
