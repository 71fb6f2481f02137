/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the report sees of the data plane. */
#include "dataplane_internal.h"
#include "decider.h"
#include "hotness.h"
#include "migrator.h"
#include "mover.h"
#include "owners.h"
#include "rcu.h"

uint64_t dataplane_sampling_cpu_ns(const struct dataplane *dp)
{
	uint64_t sum_ns = 0;

	for (size_t i = 0; i < dp->n_readers; i++)
		sum_ns += worker_cpu_ns(&dp->readers[i].worker);
	for (size_t i = 0; i < dp->n_collectors; i++)
		sum_ns += worker_cpu_ns(&dp->collectors[i].worker);
	return sum_ns;
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

size_t dataplane_migrators(const struct dataplane *dp, struct dataplane_migrator *ret, size_t max)
{
	size_t n = dp->n_migrators < max ? dp->n_migrators : max;

	for (size_t i = 0; i < n; i++) {
		const struct migrator *m = dp->migrators[i]->migrator;
		enum migrator_limit limit = migrator_last_limit(m);

		ret[i] = (struct dataplane_migrator){
			.nid = migrator_nid(m),
			.limit = migrator_limit_text[limit],
			.holds_back = limit != LIMIT_NOTHING_HOT && limit != LIMIT_NONE,
			.in_call_since_ns = migrator_in_call_since_ns(m),
		};
	}
	return n;
}

struct outcome_visit {
	void (*fn)(void *ctx, int from_nid, int to_nid, const char *result, uint64_t pages);
	void *ctx;
};

static void show_outcome(void *ctx, int from_nid, int to_nid, enum mover_result result, uint64_t pages)
{
	struct outcome_visit *visit = ctx;

	visit->fn(visit->ctx, from_nid, to_nid, mover_result_name[result], pages);
}

void dataplane_outcomes(const struct dataplane *dp,
			void (*fn)(void *ctx, int from_nid, int to_nid, const char *result, uint64_t pages), void *ctx)
{
	struct outcome_visit visit = { .fn = fn, .ctx = ctx };

	for (size_t i = 0; i < dp->n_migrators; i++)
		mover_outcomes_for_each(migrator_outcomes(dp->migrators[i]->migrator), show_outcome, &visit);
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
