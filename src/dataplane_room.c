/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The thread that watches fast memory: what is cold there, whether room pays, and whether all of it helps. */
#include <errno.h>

#include "clock.h"
#include "config.h"
#include "dataplane_internal.h"
#include "decider.h"
#include "fair.h"
#include "fsroot.h"
#include "guard.h"
#include "guard_pressure.h"
#include "holdout.h"
#include "manage.h"
#include "stats.h"
#include "topology.h"
#include "victims.h"

/* Looking for cold memory takes at most a tenth of one CPU. */
#define WATCHER_BUDGET_NS (20 * NSEC_PER_MSEC)

/* Programs of one user under one rule; what doesn't move anyhow is nobody's. */
static uint64_t party_of(void *ctx, const struct owner *owner)
{
	struct manage_answer answer;

	(void)ctx;
	manage_known(owner, &answer);
	return answer.verdict == MANAGE_MOVE ? fair_key(answer.rule, answer.uid) : 0;
}

int dataplane_room_make(struct dataplane *dp)
{
	const struct fair_params fair_params = {
		.hotness = dp->hotness,
		.owners = dp->owners,
		.topology = dp->params.topology,
		.root = *dp->params.root,
		.clock = dp->params.clock,
		.key_of = party_of,
	};
	struct fair *fair = fair_new(&fair_params);
	const struct victims_params params = {
		.hotness = dp->hotness,
		.owners = dp->owners,
		.manage = dp->manage,
		.topology = dp->params.topology,
		.root = *dp->params.root,
		.mover_ops = dp->params.mover_ops,
		.mover_ctx = dp->params.mover_ctx,
		.clock = dp->params.clock,
		.stats = dp->params.stats,
		.decider = dp->decider,
		.fair = fair,
	};

	const struct guard_params guard_params = {
		.root = *dp->params.root,
		.clock = dp->params.clock,
		.stats = dp->params.stats,
		.counted = stats_slot_new(dp->params.stats),
		.owners = dp->owners,
	};

	accesses_init(&dp->accesses, dp->params.root);
	dp->fair = fair;
	const struct guard_pressure_params pressure_params = {
		.owners = dp->owners,
		.root = *dp->params.root,
		.clock = dp->params.clock,
		.counted = guard_params.counted,
	};

	dp->pressure = guard_params.counted ? guard_pressure_new(&pressure_params) : NULL;
	dp->victims = victims_new(&params);
	dp->guard = guard_params.counted ? guard_new(&guard_params) : NULL;
	dp->holdout = holdout_new((unsigned int)dp->n_collectors);
	return dp->fair && dp->victims && dp->guard && dp->pressure && dp->holdout ? 0 : -ENOMEM;
}

static uint64_t fast_bytes(const struct dataplane *dp)
{
	struct topology *topology = topology_store_get(dp->params.topology);
	uint64_t bytes = 0;

	for (size_t i = 0; i < topology->n_nodes; i++)
		if (nodeset_has(&topology->top, topology->nodes[i].nid))
			bytes += topology->nodes[i].total_bytes;
	topology_unref(topology);
	return bytes;
}

int dataplane_room_turn(void *ctx)
{
	struct dataplane *dp = ctx;
	struct holdout_view help;
	struct decider_view known;
	struct config config;

	config_store_get(dp->params.config, &config);
	if (!atomic_load_explicit(&dp->held, memory_order_relaxed)) {
		holdout_step(dp->holdout, &config, &dp->accesses, clock_now_ns(dp->params.clock));
		accesses_step(&dp->accesses, config.guard_holdout_percent > 0 ? dp->params.root : NULL,
			      stats_sum(dp->params.stats, STAT_USEFUL), clock_now_ns(dp->params.clock));
		guard_note_cost(dp->guard, decider_pays_not(dp->decider));
		decider_look(dp->decider, &known);
		fair_step(dp->fair, &(struct fair_input){
					    .headroom_percent = config.promote_headroom_percent,
					    .background_per_sec = known.background_per_sec,
				    });
		guard_pressure_step(dp->pressure, &config);
		guard_step(dp->guard, &config, fast_bytes(dp));
		holdout_look(dp->holdout, &help);
		guard_note_help(dp->guard, &config,
				&(struct guard_help){ .windows = help.windows,
						      .known = help.known,
						      .saved = help.saved,
						      .margin = help.margin,
						      .has_cpu = help.has_cpu,
						      .cpu_back = help.cpu_back,
						      .busy_sec = accesses_get(&dp->accesses.busy_ms_per_sec) / 1000 });
		victims_step(dp->victims, &config, WATCHER_BUDGET_NS, &dp->stop);
	}
	dataplane_doze(dp, dp->watcher_waker, VICTIMS_STEP_MS);
	return 0;
}

void dataplane_room_free(struct dataplane *dp)
{
	victims_free(dp->victims);
	fair_free(dp->fair);
	guard_free(dp->guard);
	guard_pressure_free(dp->pressure);
	holdout_free(dp->holdout);
}
