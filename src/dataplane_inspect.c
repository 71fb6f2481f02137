/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "config.h"
#include "dataplane_inspect.h"
#include "dataplane_internal.h"
#include "decider.h"
#include "hotness.h"
#include "hotness_regions.h"
#include "manage.h"
#include "manage_fast.h"
#include "owners.h"
#include "rcu.h"
#include "regions.h"
#include "sample.h"
#include "topology.h"

/* A read section copies out so many, on average. */
#define VIEWS_AT_ONCE 1024
#define VIEWS_MAX     4096
/* As migrators take it: nothing is ever certain. */
#define CONFIDENCE_MAX 0.9999

static const char *const verdict_name[] = {
	[MANAGE_WAIT] = "wait",
	[MANAGE_MOVE] = "move",
	[MANAGE_OBSERVE] = "observe",
	[MANAGE_LEAVE] = "leave",
};

static const char *const reason_name[REGION_REASONS] = {
	[REGION_IS_HOT] = "hot",          [REGION_ONE_EPOCH] = "one_epoch",
	[REGION_UNCERTAIN] = "uncertain", [REGION_BACKGROUND] = "background",
	[REGION_COOLER] = "cooler",       [REGION_FAULTS] = "faults",
	[REGION_GIANT] = "giant",         [REGION_STALE] = "stale",
	[REGION_PAYS_NOT] = "pays_not",
};

static void copy_region(const struct hotness_view *view, uint32_t pid, struct dataplane_region *ret)
{
	const struct region_evidence *e = &view->evidence;

	*ret = (struct dataplane_region){
		.pid = pid,
		.owner_slot = region_owner_slot(view->key),
		.addr = region_addr(view->key),
		.page_bytes = view->page_bytes,
		.nodes = view->nodes,
		.idle_ns = view->idle_ns,
		.watched_ns = e->watched_ns,
		.decision = view->decision,
		.samples = e->samples,
		.seconds = e->seconds,
		.pages = view->pages,
	};
	/* A source that tells of a page once a round has no later samples: what it told, in the time it took. */
	if (e->by_faults)
		ret->rate_per_sec =
			(double)e->samples * (double)NSEC_PER_SEC / (double)(e->span_ns + view->idle_ns + NSEC_PER_SEC);
	else if (e->watched_ns > NSEC_PER_SEC)
		ret->rate_per_sec = (double)e->later * (double)NSEC_PER_SEC / (double)e->watched_ns;
	else
		ret->rate_per_sec = e->later;
}

/* 0: its process is gone. */
static uint32_t pid_of(const struct dataplane *dp, uint64_t key)
{
	const struct owner *owner = owners_at(dp->owners, region_owner_slot(key));

	return owner && atomic_load_explicit(&owner->state, memory_order_relaxed) == OWNER_ALIVE ? owner->pid : 0;
}

size_t dataplane_regions(const struct dataplane *dp, uint32_t pid, uint64_t now_ns, struct dataplane_region *ret,
			 size_t max, uint32_t *ret_parts)
{
	struct hotness_view *views = calloc(VIEWS_MAX, sizeof(*views));
	struct hotness_usage usage;
	uint32_t parts, stride;
	size_t n = 0;

	*ret_parts = 1;
	if (!views)
		return 0;
	hotness_usage(dp->hotness, &usage);
	parts = (uint32_t)(usage.regions / VIEWS_AT_ONCE) + 1;
	stride = (uint32_t)(usage.regions / max) + 1;
	for (uint32_t part = 0; part < parts && n < max; part += stride) {
		size_t m;

		rcu_enter();
		m = hotness_views(dp->hotness, part, parts, now_ns, views, VIEWS_MAX);
		for (size_t i = 0; i < m && n < max; i++) {
			uint32_t its = pid_of(dp, views[i].key);

			if (its != 0 && (pid == 0 || its == pid))
				copy_region(&views[i], its, &ret[n++]);
		}
		rcu_leave();
	}
	free(views);
	*ret_parts = stride;
	return n;
}

struct search {
	uint32_t pid;
	uint32_t slot;
};

static int find_owner(void *ctx, const struct owner *owner)
{
	struct search *search = ctx;

	if (owner->pid != search->pid || atomic_load_explicit(&owner->state, memory_order_relaxed) != OWNER_ALIVE)
		return 0;
	search->slot = owner->slot;
	return 1;
}

static int policy_of(const struct config *config, int rule)
{
	int policy = rule >= 0 && rule < config->manage_rules.n ? config->manage_rules.rule[rule].policy : -1;

	return policy >= 0 ? policy : config->promote_policy;
}

static void explain_region(const struct dataplane *dp, const struct config *config, const struct nodeset *lower,
			   const struct hotness_view *view, struct dataplane_explained *ret)
{
	const struct decider_input input = {
		.confidence = config->promote_confidence < CONFIDENCE_MAX ? config->promote_confidence : CONFIDENCE_MAX,
		.epoch_ns = (uint64_t)config->promote_epoch_ms * NSEC_PER_MSEC,
		.lower = lower,
	};
	struct policy_region_decision decision;
	struct decider_view all = { 0 };

	copy_region(view, ret->pid, &ret->region);
	if (policy_of(config, ret->rule) != POLICY_REGION || !decider_explain(dp->decider, &input, view, &decision))
		return;
	decider_look(dp->decider, &all);
	ret->has_reason = true;
	ret->reason = reason_name[decision.reason];
	ret->share = decision.share;
	ret->rate = decision.rate;
	ret->threshold = all.threshold_per_sec;
}

bool dataplane_explain(const struct dataplane *dp, uint32_t pid, uint64_t addr, const struct config *config,
		       const struct nodeset *lower, uint64_t now_ns, struct dataplane_explained *ret)
{
	struct search search = { .pid = pid, .slot = OWNER_NONE };
	struct manage_answer answer;
	struct hotness_view view;
	struct owner *owner;

	*ret = (struct dataplane_explained){ .pid = pid, .rule = -1, .left = "", .reason = "" };
	rcu_enter();
	owners_for_each(dp->owners, find_owner, &search);
	owner = search.slot == OWNER_NONE ? NULL : owners_at(dp->owners, search.slot);
	if (!owner) {
		rcu_leave();
		return false;
	}
	memcpy(ret->comm, owner->comm, sizeof(ret->comm));
	ret->regions = atomic_load_explicit(&owner->regions, memory_order_relaxed); /* gauges, these four */
	ret->bytes = atomic_load_explicit(&owner->bytes, memory_order_relaxed);
	ret->hot_bytes = atomic_load_explicit(&owner->hot_bytes, memory_order_relaxed);
	ret->evicted = atomic_load_explicit(&owner->evicted, memory_order_relaxed);
	if (addr)
		manage_ask(dp->manage, owner, addr, now_ns, &answer);
	else
		manage_known(owner, &answer);
	if (answer.verdict == MANAGE_MOVE || answer.verdict == MANAGE_OBSERVE)
		manage_ask_share(dp->manage, &config->manage_rules,
				 manage_fast_tier_bytes(topology_store_peek(dp->params.topology)), PAGE_SIZE_BYTES,
				 &answer);
	ret->has_region = addr != 0 && hotness_find_view(dp->hotness, pid, owner->slot, addr, now_ns, &view);
	rcu_leave();
	ret->verdict = verdict_name[answer.verdict];
	ret->rule = answer.rule;
	if (answer.verdict == MANAGE_LEAVE || answer.verdict == MANAGE_WAIT)
		ret->left = manage_reason_name[answer.reason];
	if (ret->has_region)
		explain_region(dp, config, lower, &view, ret);
	return true;
}

bool dataplane_owner_name(const struct dataplane *dp, uint32_t owner_slot, char comm[16])
{
	const struct owner *owner;

	rcu_enter();
	owner = owners_at(dp->owners, owner_slot);
	if (owner)
		memcpy(comm, owner->comm, 16);
	rcu_leave();
	return owner != NULL;
}
