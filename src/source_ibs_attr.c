/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "ibs_mprof_record.h"
#include "source_ibs_attr.h"
#include "source_ibs_record.h"

/* The in-kernel driver's default, for one that counts L3 misses only. */
#define PERIOD_MISSES 10000
/* Every access instead: 10^4 samples a second of a core at full speed rather than 10^6. */
#define PERIOD_ALL 400000

uint64_t source_ibs_period(const struct ibs_pmu *pmu, const struct ibs_request *request)
{
	uint64_t min = pmu->kind == IBS_PMU_MPROF ? IBS_MPROF_PERIOD_MIN : IBS_PERIOD_MIN;
	uint64_t max = pmu->kind == IBS_PMU_MPROF ? IBS_MPROF_PERIOD_MAX : IBS_PERIOD_MAX;
	bool misses = request->l3_miss_only && ibs_pmu_field(pmu, "l3missonly");
	uint64_t period = request->period;

	if (period == 0)
		period = misses ? PERIOD_MISSES : PERIOD_ALL;
	if (period <= min)
		return min;
	if (period >= max)
		return max;
	return (period + IBS_PERIOD_UNIT - 1) / IBS_PERIOD_UNIT * IBS_PERIOD_UNIT;
}

/* What 20 bits count to, in steps of 16. */
#define PERIOD_20_BITS 0xffff0

uint64_t source_ibs_next_period(uint64_t period)
{
	if (period > PERIOD_20_BITS)
		return PERIOD_20_BITS;
	return period < IBS_MPROF_PERIOD_MIN ? IBS_MPROF_PERIOD_MIN : 0;
}

/* Add to @why what the unit can't. */
static void lacks(char *why, const struct ibs_pmu *pmu, const char *what)
{
	size_t n = strlen(why);

	snprintf(why + n, IBS_WHY_MAX - n, "%s%s can't %s", n ? "; " : "", ibs_pmu_name(pmu->kind), what);
}

/* Set @field to @value if there is one. false: there is none, or it can't hold that. */
static bool set(const struct ibs_pmu *pmu, struct ibs_config *config, const char *field, uint64_t value)
{
	return ibs_pmu_set_field(pmu, config, field, value) == 0;
}

static int check_latency(const struct ibs_request *request, char *why)
{
	unsigned int latency = request->latency_threshold;

	if (latency == 0 || (latency >= IBS_LATENCY_MIN && latency <= IBS_LATENCY_MAX))
		return 0;
	snprintf(why, IBS_WHY_MAX, "a latency threshold is %d to %d cycles, or 0 for none, and not %u", IBS_LATENCY_MIN,
		 IBS_LATENCY_MAX, latency);
	return -EINVAL;
}

int source_ibs_attr(const struct ibs_pmu *pmu, const struct ibs_request *request, struct perf_event_attr *ret,
		    struct ibs_settled *settled, char *why)
{
	struct ibs_config config = { 0 };
	bool exclude_kernel = false;

	why[0] = '\0';
	memset(ret, 0, sizeof(*ret));
	*settled = (struct ibs_settled){ .period = source_ibs_period(pmu, request), .count = IBS_COUNT_CYCLES };
	if (check_latency(request, why) < 0)
		return -EINVAL;
	if (request->count == IBS_COUNT_OPS) {
		if (set(pmu, &config, "cnt_ctl", 1))
			settled->count = IBS_COUNT_OPS;
		else
			lacks(why, pmu, "count ops, only cycles");
	}
	if (request->l3_miss_only) {
		settled->l3_miss_only = set(pmu, &config, "l3missonly", 1);
		if (!settled->l3_miss_only)
			lacks(why, pmu, "leave out what hits a cache (Zen 4 can)");
	}
	if (request->latency_threshold) {
		if (set(pmu, &config, "ldlat", request->latency_threshold))
			settled->latency_threshold = request->latency_threshold;
		else
			lacks(why, pmu, "filter by latency (Zen 5 with Linux 6.15 can)");
	}
	if (request->user_only) {
		/* Where the field is missing any exclude_* is -EINVAL. In hardware where it can; the field does no
		 * harm. */
		exclude_kernel = set(pmu, &config, "swfilt", 1);
		settled->filter_kernel = !exclude_kernel;
	}
	/*
	 * With it the record has the page size. Else the kernel walks the page table for it, in the NMI, which costs
	 * about as much as that walk for PHYS_ADDR where hardware gives none; a huge page taken for small ones costs
	 * the daemon more.
	 */
	settled->page_size = pmu->kind == IBS_PMU_MPROF || !(pmu->caps & IBS_PMU_DTLB_PGSIZE);
	*ret = (struct perf_event_attr){
		.type = pmu->type,
		.size = sizeof(*ret),
		.config = config.word[0],
		.config1 = config.word[1],
		.config2 = config.word[2],
		.sample_period = settled->period,
		.sample_type = source_ibs_sample_type(settled->page_size),
		.exclude_kernel = exclude_kernel,
		.disabled = 1,
		.sample_id_all = 1,
		/* One of the two clocks that may be read in an NMI: kernel/events/core.c, perf_event_set_clock(). */
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
	};
	return 0;
}

/* Set the field that is named to 0. false: there is none, or it is 0. */
static bool clear(const struct ibs_pmu *pmu, const char *field, struct perf_event_attr *attr)
{
	struct ibs_config config = { .word = { attr->config, attr->config1, attr->config2 } }, before = config;

	if (!set(pmu, &config, field, 0) || memcmp(&config, &before, sizeof(config)) == 0)
		return false;
	attr->config = config.word[0];
	attr->config1 = config.word[1];
	attr->config2 = config.word[2];
	return true;
}

static bool give_up_period(struct perf_event_attr *attr, struct ibs_settled *settled, char *why)
{
	uint64_t next = source_ibs_next_period(attr->sample_period);
	size_t n = strlen(why);

	if (!next)
		return false;
	snprintf(why + n, IBS_WHY_MAX - n, "%sthe kernel refuses a period of %llu, %llu is taken", n ? "; " : "",
		 (unsigned long long)attr->sample_period, (unsigned long long)next);
	attr->sample_period = settled->period = next;
	return true;
}

bool source_ibs_give_up(const struct ibs_pmu *pmu, enum ibs_optional what, struct perf_event_attr *attr,
			struct ibs_settled *settled, char *why)
{
	bool had = false;

	switch (what) {
	case IBS_OPTIONAL_LOST:
		had = attr->read_format & PERF_FORMAT_LOST;
		attr->read_format &= ~(uint64_t)PERF_FORMAT_LOST;
		break;
	case IBS_OPTIONAL_PERIOD:
		return give_up_period(attr, settled, why);
	case IBS_OPTIONAL_PAGE:
		had = attr->sample_type & PERF_SAMPLE_DATA_PAGE_SIZE;
		attr->sample_type &= ~(uint64_t)PERF_SAMPLE_DATA_PAGE_SIZE;
		settled->page_size = false;
		break;
	case IBS_OPTIONAL_LATENCY:
		had = clear(pmu, "ldlat", attr);
		settled->latency_threshold = 0;
		if (had)
			lacks(why, pmu, "filter by latency here: the kernel refuses it");
		break;
	case IBS_OPTIONAL_KERNEL:
		had = attr->exclude_kernel;
		(void)clear(pmu, "swfilt", attr);
		attr->exclude_kernel = 0;
		settled->filter_kernel |= had;
		break;
	case IBS_OPTIONAL_MISSES:
		had = clear(pmu, "l3missonly", attr);
		settled->l3_miss_only = false;
		if (had)
			lacks(why, pmu, "leave out what hits a cache here: the kernel refuses it");
		break;
	case IBS_OPTIONALS:
		break;
	}
	return had;
}
