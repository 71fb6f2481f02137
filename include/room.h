/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * room: the stage that watches fast memory: what is cold there, how it is shared out, whether making room pays, whether
 * those whose memory moves are well, and whether all of it helps. The daemon's thread and the simulator turn the same
 * step, so that what is shown there in the order of its looks holds here.
 *
 * Writers     one thread (room_step())
 * Readers     collectors, migrators, the report: each part by its own header's rules
 * Protection  each part's own
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "accesses.h"
#include "fsroot.h"

struct clock;
struct config;
struct decider;
struct fair;
struct guard;
struct guard_pressure;
struct holdout;
struct hotness;
struct manage;
struct mover_ops;
struct owner;
struct owners;
struct stats;
struct topology_store;
struct victims;

struct room_params {
	struct hotness *hotness;
	struct owners *owners;
	struct manage *manage; /* NULL: everybody is managed */
	const struct topology_store *topology;
	struct fsroot root; /* that has proc/ and sys/; borrowed descriptor */
	const struct mover_ops *mover_ops;
	void *mover_ctx;
	const struct clock *clock;
	struct stats *stats;
	struct decider *decider;
	unsigned int collectors;
	/* Whose share an owner's memory counts against, as in fair_params; NULL: fast memory isn't shared out. */
	uint64_t (*party_of)(void *ctx, const struct owner *owner);
	void *party_ctx;
};

/* The parts may be handed to the stages that ask them; they belong to the room. */
struct room {
	struct room_params params;
	struct accesses accesses;
	struct fair *fair; /* NULL without shares */
	struct guard *guard;
	struct guard_pressure *pressure;
	struct holdout *holdout;
	struct victims *victims;
};

/* 0, or -ENOMEM, @room being good for room_done() only. Before any thread. */
int room_make(struct room *room, const struct room_params *params);
/* When nobody uses it any more; @room may be all zero. */
void room_done(struct room *room);

/*
 * A turn, due each VICTIMS_STEP_MS; each part looks as often as it needs to. Looking for cold memory ends after
 * @budget_ns, or when @stop (may be NULL) is true. One thread, registered with rcu, outside a read section.
 */
void room_step(struct room *room, const struct config *config, uint64_t budget_ns, const _Atomic bool *stop);
