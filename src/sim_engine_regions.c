/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "hotness.h"
#include "hotness_regions.h"
#include "rcu.h"
#include "regions.h"
#include "sim_engine_internal.h"

static void decide(struct sim_engine *e, uint64_t page)
{
	if (page < e->place.pages && e->place.node[0][page] != SIM_NOWHERE)
		sim_place_decide(&e->place, page);
}

static void decide_blocks(struct sim_engine *e, uint64_t first, uint32_t decision)
{
	uint64_t from = REGION_DECISION_FIRST(decision) * REGION_BLOCK_PAGES;
	uint64_t to = (REGION_DECISION_LAST(decision) + 1) * REGION_BLOCK_PAGES;

	for (uint64_t i = from; i < to; i++)
		decide(e, first + i);
}

static void decide_seen(struct sim_engine *e, uint64_t first, uint32_t slot)
{
	struct hotness_target target;

	if (!hotness_region(e->hotness, slot, &target))
		return;
	for (unsigned int word = 0; word < REGION_PAGES / 64; word++)
		for (uint64_t bits = target.seen[word]; bits; bits &= bits - 1)
			decide(e, first + word * 64 + (unsigned int)__builtin_ctzll(bits));
}

static void look_at(struct sim_engine *e, const struct hotness_view *view)
{
	uint64_t first = sim_place_page(region_addr(view->key));
	uint32_t *seen = &e->seen_decision[first / REGION_PAGES];

	switch (view->decision & REGION_DECISION_KIND) {
	case REGION_DECISION_WHOLE:
		if (*seen != view->decision)
			decide_blocks(e, first, view->decision);
		break;
	case REGION_DECISION_PAGES:
		decide_seen(e, first, view->slot);
		break;
	default:
		break;
	}
	*seen = view->decision;
}

void sim_watch_regions(struct sim_engine *e)
{
	size_t n;

	if (e->scenario->config.promote_policy != POLICY_REGION)
		return;
	rcu_enter();
	n = hotness_views(e->hotness, 0, 1, e->now_ns, e->views, e->place.regions);
	for (size_t i = 0; i < n; i++)
		look_at(e, &e->views[i]);
	rcu_leave();
}
