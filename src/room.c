/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>

#include "clock.h"
#include "config.h"
#include "decider.h"
#include "fair.h"
#include "guard.h"
#include "guard_pressure.h"
#include "holdout.h"
#include "room.h"
#include "stats.h"
#include "topology.h"
#include "victims.h"

int room_make(struct room *room, const struct room_params *params)
{
	struct stats_slot *counted = stats_slot_new(params->stats);
	const struct fair_params fair_params = {
		.hotness = params->hotness,
		.owners = params->owners,
		.topology = params->topology,
		.root = params->root,
		.clock = params->clock,
		.key_of = params->party_of,
		.ctx = params->party_ctx,
	};
	const struct guard_params guard_params = {
		.root = params->root,
		.clock = params->clock,
		.stats = params->stats,
		.counted = counted,
		.owners = params->owners,
	};
	const struct guard_pressure_params pressure_params = {
		.owners = params->owners,
		.root = params->root,
		.clock = params->clock,
		.counted = counted,
	};
	struct victims_params victims_params = {
		.hotness = params->hotness,
		.owners = params->owners,
		.manage = params->manage,
		.topology = params->topology,
		.root = params->root,
		.mover_ops = params->mover_ops,
		.mover_ctx = params->mover_ctx,
		.clock = params->clock,
		.stats = params->stats,
		.decider = params->decider,
	};

	*room = (struct room){ .params = *params };
	accesses_init(&room->accesses, &params->root);
	if (!counted)
		return -ENOMEM;
	if (params->party_of) {
		room->fair = fair_new(&fair_params);
		if (!room->fair)
			return -ENOMEM;
	}
	victims_params.fair = room->fair;
	room->victims = victims_new(&victims_params);
	room->guard = guard_new(&guard_params);
	room->pressure = guard_pressure_new(&pressure_params);
	room->holdout = holdout_new(params->collectors);
	return room->victims && room->guard && room->pressure && room->holdout ? 0 : -ENOMEM;
}

void room_done(struct room *room)
{
	victims_free(room->victims);
	fair_free(room->fair);
	guard_free(room->guard);
	guard_pressure_free(room->pressure);
	holdout_free(room->holdout);
}

static uint64_t fast_bytes(const struct room *room)
{
	struct topology *topology = topology_store_get(room->params.topology);
	uint64_t bytes = 0;

	for (size_t i = 0; i < topology->n_nodes; i++)
		if (nodeset_has(&topology->top, topology->nodes[i].nid))
			bytes += topology->nodes[i].total_bytes;
	topology_unref(topology);
	return bytes;
}

static void step_fair(struct room *room, const struct config *config)
{
	struct decider_view known;

	if (!room->fair)
		return;
	decider_look(room->params.decider, &known);
	fair_step(room->fair, &(struct fair_input){
				      .headroom_percent = config->promote_headroom_percent,
				      .background_per_sec = known.background_per_sec,
			      });
}

/* What holdout found is handed to the guard here: neither knows the other. */
static void step_guard(struct room *room, const struct config *config)
{
	struct holdout_view help;

	guard_note_cost(room->guard, decider_pays_not(room->params.decider));
	guard_pressure_step(room->pressure, config);
	guard_step(room->guard, config, fast_bytes(room));
	holdout_look(room->holdout, &help);
	guard_note_help(room->guard, config,
			&(struct guard_help){ .windows = help.windows,
					      .known = help.known,
					      .saved = help.saved,
					      .margin = help.margin,
					      .has_cpu = help.has_cpu,
					      .cpu_back = help.cpu_back,
					      .busy_sec = accesses_get(&room->accesses.busy_ms_per_sec) / 1000 });
}

void room_step(struct room *room, const struct config *config, uint64_t budget_ns, const _Atomic bool *stop)
{
	uint64_t now_ns = clock_now_ns(room->params.clock);

	accesses_step(&room->accesses, config->guard_holdout_percent > 0 ? &room->params.root : NULL,
		      stats_sum(room->params.stats, STAT_USEFUL), now_ns);
	holdout_step(room->holdout, config, &room->accesses, now_ns);
	step_fair(room, config);
	step_guard(room, config);
	victims_step(room->victims, config, budget_ns, stop);
}
