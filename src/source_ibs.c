/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * source_ibs: AMD's instruction-based sampling, the memory profiler's unit where a kernel shows one, else that of perf.
 * One event on each sampled CPU, its raw registers in each sample; what they mean is for ibs_decode.
 *
 * Only one IBS event can be active on a CPU: who also uses it (perf record -e cycles:p does) takes turns with us, and
 * check() says so.
 */
#include <errno.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config.h"
#include "ibs_mprof_record.h"
#include "ibs_pmu.h"
#include "perf_ring.h"
#include "privops.h"
#include "source.h"
#include "source_events.h"
#include "source_ibs_attr.h"

/* Less of the time than this on the hardware, and someone else is using it. */
#define SHARE_MIN 0.9

/* What a read of the event gives with the read_format that open() asks for. */
struct event_read {
	uint64_t count;
	uint64_t enabled_ns;
	uint64_t running_ns;
};

struct state {
	struct source_events *events;
	struct ibs_pmu pmu;
	struct ibs_request request;
	struct ibs_settled settled;
	struct perf_event_attr attr;
	struct ibs_decoder_params params; /* the readers', through the rings */
	char remark[SOURCE_WHY_MAX];      /* what of the options this unit can't do */
	uint64_t enabled_ns, running_ns;  /* at the last look, over all CPUs */
};

static const char *const pmu_choice[] = { "auto", "ibs_mprof", "ibs_op" };

/* Find the unit and settle what can be asked of it. 0 or -errno with @why; with 0 @why may hold a remark. */
static int prepare(const struct source_env *env, struct state *state, char *why)
{
	const struct config *config = env->config;
	char found[SOURCE_WHY_MAX] = "", settled[SOURCE_WHY_MAX] = "";
	int r;

	if (sysconf(_SC_PAGESIZE) != (long)PAGE_SIZE_BYTES) {
		snprintf(why, SOURCE_WHY_MAX, "pghotd is made for pages of 4096 bytes");
		return -ENOENT;
	}
	if (ibs_pmu_pghot(env->root, why) == IBS_PGHOT_ACTIVE)
		return -EBUSY;
	r = ibs_pmu_find(env->root, pmu_choice[config->ibs_pmu], &state->pmu, found);
	if (r < 0) {
		snprintf(why, SOURCE_WHY_MAX, "%s", found);
		/* A unit that we don't understand is, for the choice among sources, none. */
		return r == -ENOTSUP || r == -EBADMSG ? -ENOENT : r;
	}
	state->request = (struct ibs_request){
		.period = (uint64_t)config->ibs_period,
		.count = config->ibs_count == 0 ? IBS_COUNT_OPS : IBS_COUNT_CYCLES,
		.l3_miss_only = config->ibs_l3_miss_only,
		.latency_threshold = (unsigned int)config->ibs_latency_threshold,
		.user_only = config->ibs_user_only,
	};
	r = source_ibs_attr(&state->pmu, &state->request, &state->attr, &state->settled, settled);
	if (r < 0) {
		snprintf(why, SOURCE_WHY_MAX, "%s", settled);
		return r;
	}
	state->attr.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
	snprintf(why, SOURCE_WHY_MAX, "%.120s%s%.120s", found, found[0] && settled[0] ? "; " : "", settled);
	return 0;
}

static int ibs_probe(const struct source_env *env, char *why)
{
	struct state state = { 0 };
	char remark[SOURCE_WHY_MAX] = "";
	int r;

	why[0] = '\0';
	r = prepare(env, &state, remark);
	if (r == 0)
		r = source_events_probe(env, &state.attr, why);
	if (r == 0 || !why[0])
		snprintf(why, SOURCE_WHY_MAX, "%s", remark);
	return r;
}

/* What the hardware took, for status. */
static void describe(struct source *source)
{
	const struct state *state = source->state;
	const struct ibs_settled *s = &state->settled;
	char latency[40] = "";

	if (s->latency_threshold)
		snprintf(latency, sizeof(latency), ", loads over %u cycles", s->latency_threshold);
	source->period = s->period;
	source->period_min = state->pmu.kind == IBS_PMU_MPROF ? IBS_MPROF_PERIOD_MIN : IBS_PERIOD_MIN;
	snprintf(source->detail, sizeof(source->detail), "%s, every %" PRIu64 " %s%s%s", ibs_pmu_name(state->pmu.kind),
		 s->period, s->count == IBS_COUNT_OPS ? "ops" : "cycles", s->l3_miss_only ? ", L3 misses only" : "",
		 latency);
}

static void ibs_close(struct source *source)
{
	struct state *state = source->state;

	if (!state)
		return;
	source_events_close(source, state->events);
	free(state);
	source->state = NULL;
}

static int ibs_open(struct source *source)
{
	struct state *state;
	int r;

	source->why[0] = '\0';
	source->rings = NULL;
	source->n_rings = 0;
	source->state = state = calloc(1, sizeof(*state));
	if (!state) {
		snprintf(source->why, SOURCE_WHY_MAX, "out of memory");
		return -ENOMEM;
	}
	r = prepare(&source->env, state, state->remark);
	if (r < 0) {
		snprintf(source->why, SOURCE_WHY_MAX, "%s", state->remark);
		goto fail;
	}
	/* What /proc/cpuinfo doesn't say stays 0: no erratum is assumed, and no bit of an address is masked. */
	(void)ibs_pmu_machine(source->env.root, &state->params);
	state->params.kind = state->pmu.kind;
	state->params.self_pid = (uint32_t)getpid();
	state->params.user_only = state->settled.filter_kernel;
	r = source_events_open(source, &state->attr, 0, &state->events);
	if (r < 0)
		goto fail;
	for (size_t i = 0; i < source->n_rings; i++)
		source->rings[i].ibs = &state->params;
	describe(source);
	snprintf(source->why, SOURCE_WHY_MAX, "%s",
		 state->remark[0] ? state->remark : source_events_remark(state->events));
	return 0;
fail:
	ibs_close(source);
	return r;
}

static int ibs_set_period(struct source *source, uint64_t period)
{
	struct state *state = source->state;
	struct ibs_request request = state->request;
	int first = 0;

	request.period = period;
	period = source_ibs_period(&state->pmu, &request);
	if (period == state->settled.period)
		return 0;
	for (size_t i = 0; i < source->n_rings; i++) {
		int r = source->rings[i].ring ? privops_event_period(source->env.privops, source->rings[i].fd, period)
					      : 0;

		if (r < 0 && first == 0)
			first = r;
	}
	if (first == 0) {
		state->settled.period = period;
		source_events_set_period(state->events, period); /* for CPUs that come later */
		describe(source);
	}
	return first;
}

static int ibs_enable(struct source *source, bool on)
{
	struct state *state = source->state;

	return source_events_enable(source, state->events, on);
}

static int ibs_cpu_online(struct source *source, int cpu, struct source_ring **ret)
{
	struct state *state = source->state;
	int r = source_events_cpu_online(source, state->events, cpu, ret);

	if (r == 0)
		(*ret)->ibs = &state->params;
	return r;
}

static void ibs_cpu_offline(struct source *source, int cpu)
{
	source_events_cpu_offline(source, cpu);
}

/* The share of the time since the last look in which the hardware was ours; 1 where the kernel doesn't say. */
static double running_share(struct source *source)
{
	struct state *state = source->state;
	uint64_t enabled_ns = 0, running_ns = 0;
	double share = 1;

	for (size_t i = 0; i < source->n_rings; i++) {
		struct event_read now;

		if (!source->rings[i].ring || read(source->rings[i].fd, &now, sizeof(now)) != (ssize_t)sizeof(now))
			continue;
		enabled_ns += now.enabled_ns;
		running_ns += now.running_ns;
	}
	/* A CPU that went took its times along: no share from this look. */
	if (enabled_ns > state->enabled_ns && running_ns >= state->running_ns)
		share = (double)(running_ns - state->running_ns) / (double)(enabled_ns - state->enabled_ns);
	state->enabled_ns = enabled_ns;
	state->running_ns = running_ns;
	return share;
}

static int ibs_check(struct source *source)
{
	struct state *state = source->state;
	char why[SOURCE_WHY_MAX];
	double share = running_share(source);

	if (ibs_pmu_pghot(source->env.root, why) == IBS_PGHOT_ACTIVE) {
		snprintf(source->why, SOURCE_WHY_MAX, "%s", why);
		return 1;
	}
	if (share < SHARE_MIN) {
		snprintf(source->why, SOURCE_WHY_MAX,
			 "someone else uses IBS (perf record, another profiler): it was ours for %.0f%% of the last "
			 "second",
			 share * 100);
		return 1;
	}
	snprintf(source->why, SOURCE_WHY_MAX, "%s",
		 state->remark[0] ? state->remark : source_events_remark(state->events));
	return 0;
}

const struct source_ops source_ibs = {
	.name = "ibs",
	.id = SAMPLE_SOURCE_IBS,
	.probe = ibs_probe,
	.open = ibs_open,
	.set_period = ibs_set_period,
	.enable = ibs_enable,
	.cpu_online = ibs_cpu_online,
	.cpu_offline = ibs_cpu_offline,
	.check = ibs_check,
	.close = ibs_close,
};
