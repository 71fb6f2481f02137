/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The thread that watches fast memory. */
#include "clock.h"
#include "config.h"
#include "dataplane_internal.h"
#include "fair.h"
#include "manage.h"
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
	const struct room_params params = {
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
		.collectors = (unsigned int)dp->n_collectors,
		.party_of = party_of,
	};

	return room_make(&dp->room, &params);
}

int dataplane_room_turn(void *ctx)
{
	struct dataplane *dp = ctx;
	struct config config;

	config_store_get(dp->params.config, &config);
	if (!atomic_load_explicit(&dp->held, memory_order_relaxed))
		room_step(&dp->room, &config, WATCHER_BUDGET_NS, &dp->stop);
	dataplane_doze(dp, dp->watcher_waker, VICTIMS_STEP_MS);
	return 0;
}
