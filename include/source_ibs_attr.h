/* SPDX-License-Identifier: GPL-2.0-or-later */
/* source_ibs_attr: from what is wanted of IBS and what its unit can do to the attr of an event. Pure. Main thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "ibs_pmu.h"

struct perf_event_attr;

/* Smallest period that every kernel takes; 16 up to about 6.14: perf_ibs_init(), min_period. */
#define IBS_PERIOD_MIN 144
/* What 27 bits can count to. Older hardware has 20, and the kernel makes a longer one of several. */
#define IBS_PERIOD_MAX 0x7fffff0

#define IBS_LATENCY_MIN 128 /* cycles; arch/x86/events/amd/ibs.c, ldlat */
#define IBS_LATENCY_MAX 2048

enum ibs_count {
	IBS_COUNT_OPS,
	IBS_COUNT_CYCLES,
};

/* As in ibs = { ... } of the configuration. */
struct ibs_request {
	uint64_t period; /* 0: the default */
	enum ibs_count count;
	bool l3_miss_only;
	unsigned int latency_threshold; /* cycles, IBS_LATENCY_MIN..MAX; 0: none */
	bool user_only;
};

/* What became of it. */
struct ibs_settled {
	uint64_t period; /* a multiple of 16 */
	enum ibs_count count;
	bool l3_miss_only;
	unsigned int latency_threshold;
	bool filter_kernel; /* the kernel can't: ibs_decoder_params.user_only has to do it */
	bool page_size;     /* the record doesn't have it: PERF_SAMPLE_DATA_PAGE_SIZE is asked for */
};

/*
 * A period that PERF_EVENT_IOC_PERIOD takes as well: @period, or the default where it is 0, up to a multiple of 16 and
 * within what the unit can do.
 */
uint64_t source_ibs_period(const struct ibs_pmu *pmu, const struct ibs_request *request);

/*
 * The period to try where @period was refused: without the 27 bits of newer hardware the longest that 20 can count to,
 * below the profiler's shortest that one. 0: there is none.
 */
uint64_t source_ibs_next_period(uint64_t period);

/* What the kernel may refuse (-EINVAL) although sysfs shows it or has no word for it. */
enum ibs_optional {
	IBS_OPTIONAL_LOST,    /* PERF_FORMAT_LOST: Linux 6.0 */
	IBS_OPTIONAL_PERIOD,  /* a period out of this hardware's range: the next one */
	IBS_OPTIONAL_PAGE,    /* PERF_SAMPLE_DATA_PAGE_SIZE: Linux 5.11 */
	IBS_OPTIONAL_LATENCY, /* the latency filter: */
	IBS_OPTIONAL_KERNEL,  /* leaving out the kernel, which the daemon can do as well */
	IBS_OPTIONAL_MISSES,  /* the L3-miss filter */
	IBS_OPTIONALS,
};

/*
 * Take @what out of @attr and @settled. false: it isn't in there. In @why (IBS_WHY_MAX bytes) is added what that means;
 * nothing for what nobody misses.
 */
bool source_ibs_give_up(const struct ibs_pmu *pmu, enum ibs_optional what, struct perf_event_attr *attr,
			struct ibs_settled *settled, char *why);

/*
 * 0, @ret being ready for source_events_open(), disabled, and @why (IBS_WHY_MAX bytes) "" or what of @request this unit
 * can't do and is left out; -EINVAL for a latency out of range, with @why.
 */
int source_ibs_attr(const struct ibs_pmu *pmu, const struct ibs_request *request, struct perf_event_attr *ret,
		    struct ibs_settled *settled, char *why);
