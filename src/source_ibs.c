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
#include "log.h"
#include "privops.h"
#include "source.h"
#include "source_counts.h"
#include "source_events.h"
#include "source_health.h"
#include "source_ibs_attr.h"
#include "source_ibs_record.h"
#include "source_ibs_trial.h"
#include "source_rivals.h"

/* Less of the time than this on the hardware, and someone else is using it. */
#define SHARE_MIN 0.9

/* Of looks that are one a second, those that walk all processes: who else uses the unit, does the kernel promote. */
#define SLOW_LOOKS 60

struct state {
	struct source_events *events;
	struct ibs_pmu pmu;
	struct ibs_request request;
	struct ibs_settled settled;
	struct perf_event_attr attr;
	struct ibs_decoder_params params; /* the readers', through the rings */
	char remark[SOURCE_WHY_MAX];      /* what of the options this unit can't do */
	uint64_t period_min, period_max;  /* narrower once a period was refused */
	struct source_counts counts;
	unsigned int shared_looks; /* in a row in which the unit was not ours alone */
	char rivals[120];          /* as they were at the first of them, or a minute ago */
	size_t n_rivals;
	unsigned int checks;
	char pghot[IBS_WHY_MAX]; /* that the kernel promotes as well, as of the last minute; "" */
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
	r = ibs_pmu_find(env->root, pmu_choice[config->ibs_pmu], &state->pmu, found);
	if (r < 0) {
		snprintf(why, SOURCE_WHY_MAX, "%s", found);
		/* A unit that we don't understand is, for the choice among sources, none. */
		return r == -ENOTSUP || r == -EBADMSG ? -ENOENT : r;
	}
	/* Behind what costs less: it may look at every process. */
	if (ibs_pmu_pghot(env->root, why) == IBS_PGHOT_ACTIVE)
		return -EBUSY;
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
	state->attr.read_format = source_counts_format(true);
	if (!found[0] && !settled[0])
		source_health_foresee(env->root, found);
	snprintf(why, SOURCE_WHY_MAX, "%.120s%s%.120s", found, found[0] && settled[0] ? "; " : "", settled);
	if (!settled[0])
		snprintf(why, SOURCE_WHY_MAX, "%s", found);
	return 0;
}

/*
 * A kernel that refuses the event says -EINVAL and no more. So see what it takes: without one of what can be missed,
 * then without more and more of them. @why is added to.
 */
static int settle(const struct source_env *env, struct state *state, char *why)
{
	struct state tried;
	char remark[SOURCE_WHY_MAX];
	int r = source_events_try(env, &state->attr);

	for (int first = 0; r == -EINVAL && first < IBS_OPTIONALS; first++) {
		tried = *state;
		memcpy(remark, why, sizeof(remark));
		if (!source_ibs_give_up(&state->pmu, first, &tried.attr, &tried.settled, remark))
			continue;
		r = source_events_try(env, &tried.attr);
		if (r == 0)
			goto found;
	}
	tried = *state;
	memcpy(remark, why, sizeof(remark));
	for (int what = 0; r == -EINVAL && what < IBS_OPTIONALS; what++) {
		if (!source_ibs_give_up(&state->pmu, what, &tried.attr, &tried.settled, remark))
			continue;
		r = source_events_try(env, &tried.attr);
		if (r == 0)
			goto found;
	}
	return r;
found:
	*state = tried;
	memcpy(why, remark, sizeof(remark));
	return 0;
}

static int ibs_probe(const struct source_env *env, char *why)
{
	struct state state = { 0 };
	char remark[SOURCE_WHY_MAX] = "";
	int r;

	why[0] = '\0';
	r = prepare(env, &state, remark);
	if (r == 0) {
		(void)settle(env, &state, remark); /* what it can't, the probe explains */
		r = source_events_probe(env, &state.attr, why);
	}
	if (r == 0 || !why[0])
		snprintf(why, SOURCE_WHY_MAX, "%s", remark);
	return r;
}

/* What this unit can do of what is asked for. */
static void ibs_describe(const struct source_env *env, char *detail)
{
	struct state state = { 0 };
	char remark[SOURCE_WHY_MAX] = "";
	const struct ibs_settled *s = &state.settled;

	detail[0] = '\0';
	if (prepare(env, &state, remark) < 0 || settle(env, &state, remark) < 0)
		return;
	snprintf(detail, SOURCE_DETAIL_MAX, "%s, counts %s%s%s%s%s", ibs_pmu_name(state.pmu.kind),
		 s->count == IBS_COUNT_OPS ? "ops" : "cycles", s->l3_miss_only ? ", L3 misses only" : "",
		 s->latency_threshold ? ", by latency" : "",
		 !env->config->ibs_user_only ? ""
		 : s->filter_kernel          ? ", kernel left out by pghotd"
					     : ", kernel left out by the kernel",
		 s->page_size ? "" : ", page size by hardware");
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
	source->period_min = state->period_min;
	source->period_max = state->period_max;
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
	source_counts_done(&state->counts);
	free(state);
	source->state = NULL;
}

/* The unit's records as they are, before anything depends on them. 0, or -EPROTO with source->why. */
static int try_records(struct source *source)
{
	struct state *state = source->state;
	struct source_ibs_trial trial;
	char record[80];
	int r;

	if (!source->env.clock)
		return 0;
	r = source_ibs_trial(&source->env, &state->pmu, &state->params, &trial);
	if (r != -EPROTO) {
		log_debug("source ibs: tried %s on one CPU: %u records, %u bad, %s%s%s", ibs_pmu_name(state->pmu.kind),
			  trial.records, trial.bad, trial.measured ? "cost measured" : "cost not measured",
			  r < 0 ? ": " : "", r < 0 ? strerror(-r) : "");
		return 0;
	}
	source_ibs_record_misfit_text(trial.misfit, record, sizeof(record));
	snprintf(source->why, SOURCE_WHY_MAX,
		 "the records of %s are not what this version knows (%s), and refused rather than guessed at: please "
		 "report this line with the kernel's version",
		 ibs_pmu_name(state->pmu.kind), record);
	return -EPROTO;
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
	r = settle(&source->env, state, state->remark);
	if (r < 0) {
		r = source_events_probe(&source->env, &state->attr, source->why);
		if (r < 0)
			goto fail;
	}
	state->params.user_only = state->settled.filter_kernel;
	state->counts.has_lost = state->attr.read_format == source_counts_format(true);
	state->period_min = state->pmu.kind == IBS_PMU_MPROF ? IBS_MPROF_PERIOD_MIN : IBS_PERIOD_MIN;
	state->period_max = IBS_PERIOD_MAX;
	r = try_records(source);
	if (r < 0)
		goto fail;
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

/* All rings to @period. 0 or -errno of the first that failed; the others were done. */
static int set_all(struct source *source, uint64_t period)
{
	int first = 0;

	for (size_t i = 0; i < source->n_rings; i++) {
		int r = source->rings[i].ring ? privops_event_period(source->env.privops, source->rings[i].fd, period)
					      : 0;

		if (r < 0 && first == 0)
			first = r;
	}
	return first;
}

static uint64_t within(const struct state *state, uint64_t period)
{
	return period < state->period_min ? state->period_min : period > state->period_max ? state->period_max : period;
}

static int ibs_set_period(struct source *source, uint64_t period)
{
	struct state *state = source->state;
	struct ibs_request request = state->request;
	uint64_t next;
	int r;

	request.period = period;
	period = within(state, source_ibs_period(&state->pmu, &request));
	if (period == state->settled.period)
		return 0;
	/* What it counted so far, it counted with the old one. */
	(void)source_counts_look(&state->counts, source, state->settled.period);
	r = set_all(source, period);
	if (r == -EINVAL && (next = source_ibs_next_period(period))) {
		int again = next == state->settled.period ? 0 : set_all(source, next);

		if (again == 0 && next < period)
			state->period_max = next;
		else if (again == 0)
			state->period_min = next;
		if (again == 0)
			log_notice("source ibs: the kernel refuses a period of %" PRIu64 ", %" PRIu64 " is taken",
				   period, next);
		period = next;
		r = again;
	}
	if (r < 0) {
		/* Not some with one and some with another. */
		(void)set_all(source, state->settled.period);
		return r;
	}
	state->settled.period = period;
	source_events_set_period(state->events, period); /* for CPUs that come later */
	describe(source);
	return 0;
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

/* Who it may be, looked up when it begins and then each minute. */
static void explain_sharing(struct source *source)
{
	struct state *state = source->state;
	double percent = state->counts.share * 100;

	if (state->shared_looks++ % SLOW_LOOKS == 0)
		state->n_rivals = source_rivals_name(source->env.root, state->rivals, sizeof(state->rivals));
	snprintf(source->why, SOURCE_WHY_MAX,
		 "someone else uses IBS%s%.110s%s: it was ours for %.0f%% of the last second; end that for all of it",
		 state->n_rivals ? ", perhaps " : " (perf record, another profiler)", state->rivals,
		 state->n_rivals > SOURCE_RIVALS_MAX ? " and more" : "", percent);
}

/* The unit is there as long as its device is: a module may have brought it. */
static bool is_gone(const struct source *source)
{
	const struct state *state = source->state;

	return !fsroot_exists(source->env.root, "sys/bus/event_source/devices/%s/type", ibs_pmu_name(state->pmu.kind));
}

static int ibs_check(struct source *source)
{
	struct state *state = source->state;
	const struct source_counts *counts = &state->counts;

	(void)source_counts_look(&state->counts, source, state->settled.period);
	source->taken = (uint64_t)counts->taken;
	source->lost = counts->lost;
	if (is_gone(source)) {
		snprintf(source->why, SOURCE_WHY_MAX,
			 "the perf unit %s has gone: its module was unloaded; tried again each minute",
			 ibs_pmu_name(state->pmu.kind));
		return -ENODEV;
	}
	if (counts->n_stopped > 0 && counts->n_readable == 0) {
		snprintf(source->why, SOURCE_WHY_MAX,
			 "the kernel has stopped the events of %s for good (dmesg may say why); they are opened again",
			 ibs_pmu_name(state->pmu.kind));
		return -EIO;
	}
	if (state->checks++ % SLOW_LOOKS == 0 && ibs_pmu_pghot(source->env.root, state->pghot) != IBS_PGHOT_ACTIVE)
		state->pghot[0] = '\0';
	if (state->pghot[0]) {
		snprintf(source->why, SOURCE_WHY_MAX, "%s", state->pghot);
		return 1;
	}
	if (counts->share < SHARE_MIN) {
		explain_sharing(source);
		return 1;
	}
	state->shared_looks = 0;
	snprintf(source->why, SOURCE_WHY_MAX, "%s",
		 state->remark[0] ? state->remark : source_events_remark(state->events));
	return 0;
}

const struct source_ops source_ibs = {
	.name = "ibs",
	.id = SAMPLE_SOURCE_IBS,
	.probe = ibs_probe,
	.describe = ibs_describe,
	.open = ibs_open,
	.set_period = ibs_set_period,
	.enable = ibs_enable,
	.cpu_online = ibs_cpu_online,
	.cpu_offline = ibs_cpu_offline,
	.check = ibs_check,
	.close = ibs_close,
};
