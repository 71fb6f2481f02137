/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "daemon.h"
#include "dataplane.h"
#include "hotness.h"
#include "log.h"
#include "source_counts.h"

/* Whatever the hardware is: source_ibs keeps a period within what its unit can do, and says what it took. */
#define PERIOD_MIN   144
#define PERIOD_MAX   0x7fffff0
#define PERIOD_ALIGN 16

static struct budget_params params_of(const struct daemon *daemon)
{
	const struct config *config = &daemon->current;

	return (struct budget_params){
		.ratio = config->sampling_overhead_percent / 100,
		.period_min = daemon->source.period_min ? daemon->source.period_min : PERIOD_MIN,
		.period_max = daemon->source.period_max ? daemon->source.period_max : PERIOD_MAX,
		.period_align = PERIOD_ALIGN,
		.period_fixed = config->ibs_period ? daemon->source.period : 0,
		.full_per_sec = config->ibs_l3_miss_only ? BUDGET_FULL_L3_MISS : BUDGET_FULL_ALL,
		.seed = daemon->started_ns,
	};
}

static unsigned int sampled_cpus(const struct daemon *daemon)
{
	unsigned int n = 0;

	for (size_t i = 0; i < daemon->source.n_rings; i++)
		n += daemon->source.rings[i].ring != NULL;
	return n;
}

static void set_paced_period(struct daemon *daemon)
{
	int r;

	if (!daemon->paced.changed || daemon->current.ibs_period)
		return;
	r = daemon->source.ops->set_period(&daemon->source, daemon->paced.period);
	if (r < 0)
		log_debug("cannot set period %llu: %s", (unsigned long long)daemon->paced.period, strerror(-r));
}

void daemon_start_budget(struct daemon *daemon)
{
	struct budget_params params = params_of(daemon);
	struct budget_meter_cost cost;

	memset(&daemon->paced, 0, sizeof(daemon->paced));
	if (!daemon->source.period)
		return;
	budget_meter_cost(&daemon->meter, &cost);
	budget_init(&daemon->budget, &params);
	/* The first step only says where to start. The counters go on from where the last source left them. */
	budget_step(&daemon->budget,
		    &(struct budget_input){ .cpus = sampled_cpus(daemon),
					    .sample_ns = cost.sample_ns,
					    .sample_high_ns = cost.high_ns,
					    .samples = stats_sum(daemon->stats, STAT_HWHINTS),
					    .lost = stats_sum(daemon->stats, STAT_LOST),
					    .filtered = daemon->filtered,
					    .throttled = stats_sum(daemon->stats, STAT_THROTTLED),
					    .own_cpu_ns = dataplane_sampling_cpu_ns(daemon->dataplane),
					    .period_taken = daemon->source.period },
		    clock_now_ns(&clock_monotonic), &daemon->paced);
	set_paced_period(daemon);
}

/* What one sample costs the kernel, and whether it has lowered its own limit meanwhile. */
static void look_at_meter(struct daemon *daemon, unsigned int cpus, uint64_t samples)
{
	if (budget_meter_look(&daemon->meter, &daemon->root, cpus ? samples / cpus : 0) == 1) {
		(void)budget_meter_note(&daemon->meter, daemon->rate_note, sizeof(daemon->rate_note));
		log_warning("%s", daemon->rate_note);
	} else if (daemon->rate_note[0]) {
		/* Somebody may have raised it again. */
		(void)budget_meter_note(&daemon->meter, daemon->rate_note, sizeof(daemon->rate_note));
	}
}

/* Beside pages: for policy region, regions that were found or decided about; for policy page, pages that became hot. */
static uint64_t what_was_learned(const struct daemon *daemon, const struct hotness_usage *usage)
{
	if (daemon->current.promote_policy != POLICY_REGION)
		return stats_sum(daemon->stats, STAT_BECAME_READY);
	return usage->far_novel + stats_sum(daemon->stats, STAT_REGIONS_WHOLE) +
	       stats_sum(daemon->stats, STAT_REGIONS_PAGES);
}

void daemon_keep_budget(struct daemon *daemon, uint64_t now_ns)
{
	uint64_t samples = stats_sum(daemon->stats, STAT_HWHINTS);
	unsigned int cpus = sampled_cpus(daemon);
	struct budget_params params = params_of(daemon);
	struct budget_meter_cost cost;
	enum budget_reason before = daemon->paced.reason;
	struct hotness_usage usage;
	struct budget_input input;
	size_t owners;

	if (daemon->dataplane)
		dataplane_set_period(daemon->dataplane, daemon->source.ops ? daemon->source.period : 0);
	if (!daemon->source.ops || !daemon->source.period || !daemon->dataplane)
		return;
	look_at_meter(daemon, cpus, samples);
	dataplane_usage(daemon->dataplane, &usage, &owners);
	budget_meter_cost(&daemon->meter, &cost);
	daemon->filtered = source_counts_filtered(daemon->source.taken, samples - daemon->samples_before,
						  daemon->source.lost, daemon->filtered);
	input = (struct budget_input){
		.samples = samples,
		.lost = stats_sum(daemon->stats, STAT_LOST),
		.filtered = daemon->filtered,
		.throttled = stats_sum(daemon->stats, STAT_THROTTLED),
		.own_cpu_ns = dataplane_sampling_cpu_ns(daemon->dataplane),
		.evidence = stats_sum(daemon->stats, STAT_USEFUL),
		.novel = usage.pages_seen + what_was_learned(daemon, &usage),
		.cpus = cpus,
		.sample_ns = cost.sample_ns,
		.sample_high_ns = cost.high_ns,
		.max_sample_rate = daemon->meter.rate,
		.period_taken = daemon->source.period,
	};
	budget_set(&daemon->budget, &params);
	budget_step(&daemon->budget, &input, now_ns, &daemon->paced);
	set_paced_period(daemon);
	if (daemon->paced.reason != before)
		log_debug("sampling: %s, period %llu", budget_reason_text(daemon->paced.reason),
			  (unsigned long long)daemon->source.period);
}
