/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the report sees of the data plane. */
#include "dataplane_internal.h"
#include "decider.h"
#include "fair.h"
#include "guard.h"
#include "guard_pressure.h"
#include "holdout.h"
#include "hotness.h"
#include "manage_left.h"
#include "migrator.h"
#include "mover.h"
#include "owners.h"
#include "rcu.h"
#include "victims.h"

uint64_t dataplane_sampling_cpu_ns(const struct dataplane *dp)
{
	uint64_t sum_ns = 0;

	for (size_t i = 0; i < dp->n_readers; i++)
		sum_ns += worker_cpu_ns(&dp->readers[i].worker);
	for (size_t i = 0; i < dp->n_collectors; i++)
		sum_ns += worker_cpu_ns(&dp->collectors[i].worker);
	return sum_ns;
}

void dataplane_set_period(struct dataplane *dp, uint64_t period)
{
	accesses_set_per_sample(&dp->room.accesses, period);
}

void dataplane_usage(const struct dataplane *dp, struct hotness_usage *ret, size_t *ret_owners)
{
	hotness_usage(dp->hotness, ret);
	*ret_owners = owners_count(dp->owners);
}

void dataplane_policy(const struct dataplane *dp, struct decider_view *ret)
{
	decider_look(dp->decider, ret);
}

void dataplane_holdout(const struct dataplane *dp, struct holdout_view *ret)
{
	holdout_look(dp->room.holdout, ret);
}

size_t dataplane_shares(const struct dataplane *dp, struct fair_view *ret, size_t max)
{
	return fair_look(dp->room.fair, ret, max);
}

void dataplane_guard(const struct dataplane *dp, struct guard_view *ret)
{
	guard_look(dp->room.guard, ret);
}

size_t dataplane_pressure(const struct dataplane *dp, struct guard_pressure_view *ret, size_t max)
{
	return guard_pressure_look(dp->room.pressure, ret, max);
}

void dataplane_victims(const struct dataplane *dp, struct victims_view *ret)
{
	victims_look(dp->room.victims, ret);
}

size_t dataplane_migrators(const struct dataplane *dp, struct dataplane_migrator *ret, size_t max)
{
	size_t n = dp->n_migrators < max ? dp->n_migrators : max;

	for (size_t i = 0; i < n; i++) {
		const struct migrator *m = dp->migrators[i]->migrator;
		enum migrator_limit limit = migrator_last_limit(m);
		struct migrator_calls calls;

		migrator_calls(m, &calls);
		ret[i] = (struct dataplane_migrator){
			.nid = migrator_nid(m),
			.limit = migrator_limit_text[limit],
			.holds_back = limit != LIMIT_NOTHING_HOT && limit != LIMIT_NONE,
			.in_call_since_ns = migrator_in_call_since_ns(m),
			.batch_pages = calls.batch_pages,
			.call_ns = calls.call_ns,
			.page_ns = calls.page_ns,
			.longest_ns = calls.longest_ns,
		};
	}
	return n;
}

struct outcome_visit {
	void (*fn)(void *ctx, const struct dataplane_outcome *outcome);
	void *ctx;
};

static void show_outcome(void *ctx, const struct mover_outcome *outcome)
{
	const struct outcome_visit *visit = ctx;
	const struct dataplane_outcome shown = {
		.from_nid = outcome->from_nid,
		.to_nid = outcome->to_nid,
		.page_bytes = outcome->page_bytes,
		.result = mover_result_name[outcome->result],
		.pages = outcome->pages,
	};

	visit->fn(visit->ctx, &shown);
}

void dataplane_outcomes(const struct dataplane *dp, void (*fn)(void *ctx, const struct dataplane_outcome *outcome),
			void *ctx)
{
	struct outcome_visit visit = { .fn = fn, .ctx = ctx };

	for (size_t i = 0; i < dp->n_migrators; i++)
		mover_outcomes_for_each(migrator_outcomes(dp->migrators[i]->migrator), show_outcome, &visit);
}

void dataplane_left_alone(const struct dataplane *dp, void (*fn)(void *ctx, const char *reason, uint64_t bytes),
			  void *ctx)
{
	for (int reason = 0; reason < LEFT_MAX; reason++) {
		uint64_t bytes = 0;

		for (size_t i = 0; i < dp->n_migrators; i++)
			bytes += manage_left_bytes(migrator_left(dp->migrators[i]->migrator),
						   (enum manage_reason)reason);
		if (bytes > 0)
			fn(ctx, manage_reason_name[reason], bytes);
	}
}

struct owner_visit {
	struct owners *owners;
	int (*fn)(void *ctx, struct owner *owner);
	void *ctx;
};

static int show_owner(void *ctx, const struct owner *owner)
{
	struct owner_visit *visit = ctx;

	return visit->fn(visit->ctx, owners_at(visit->owners, owner->slot));
}

void dataplane_owners(const struct dataplane *dp, int (*fn)(void *ctx, struct owner *owner), void *ctx)
{
	struct owner_visit visit = { .owners = dp->owners, .fn = fn, .ctx = ctx };

	rcu_enter();
	owners_for_each(dp->owners, show_owner, &visit);
	rcu_leave();
}
