/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What of a node's hot memory may move at all, and at what rate of its rule. */
#include "clock.h"
#include "config.h"
#include "fair.h"
#include "guard_pressure.h"
#include "manage.h"
#include "manage_fast.h"
#include "migrator_internal.h"
#include "owners.h"
#include "rcu.h"
#include "sample.h"
#include "stats.h"

void migrator_manage_start(struct migrator_pass_state *p)
{
	struct migrator *m = p->m;
	uint64_t share = (uint64_t)nodeset_count(&p->topology->lower) * m->params.parts;

	manage_expect(m->params.manage, p->config);
	manage_left_tick(m->left, p->start_ns);
	p->fast_tier_bytes = manage_fast_tier_bytes(p->topology);
	p->by_region = p->config->promote_policy == POLICY_REGION;
	for (int i = 0; i < p->config->manage_rules.n; i++) {
		int policy = p->config->manage_rules.rule[i].policy;
		int64_t mib = p->config->manage_rules.rule[i].rate_mib_per_sec;
		struct tokens *t = &m->rule_tokens[i];
		uint64_t rate, burst;

		if (p->config->manage_rules.rule[i].target_nid >= 0)
			nodeset_add(&p->named, p->config->manage_rules.rule[i].target_nid);
		p->rules_differ = p->rules_differ || (policy >= 0 && policy != p->config->promote_policy);
		p->by_region = p->by_region || policy == POLICY_REGION;
		if (mib < 0)
			continue;
		rate = ((uint64_t)mib << 20) / (share ? share : 1);
		burst = rate / 1000 * (uint64_t)p->config->promote_burst_ms;
		burst = burst > PAGE_SIZE_BYTES ? burst : PAGE_SIZE_BYTES;
		if (t->burst_bytes == 0)
			tokens_init(t, rate, burst, p->start_ns);
		else if (t->rate_bytes_per_sec != rate || t->burst_bytes != burst)
			tokens_set(t, rate, burst, p->start_ns);
	}
}

bool migrator_manage_by_region(const struct migrator_pass_state *p, uint32_t owner_slot)
{
	int policy = p->config->promote_policy;
	struct owner *owner;

	if (p->rules_differ) {
		owner = owners_at(p->m->params.owners, owner_slot);
		int i = owner ? manage_rule(p->m->params.manage, owner) : -1;

		if (i >= 0 && i < p->config->manage_rules.n && p->config->manage_rules.rule[i].policy >= 0)
			policy = p->config->manage_rules.rule[i].policy;
	}
	return policy == POLICY_REGION;
}

/* The bucket of rule @i, or NULL: it has none. */
struct tokens *migrator_manage_tokens(const struct migrator_pass_state *p, int i)
{
	if (i < 0 || i >= p->config->manage_rules.n || p->config->manage_rules.rule[i].rate_mib_per_sec < 0)
		return NULL;
	return &p->m->rule_tokens[i];
}

void migrator_manage_left(struct migrator_pass_state *p, const struct hotness_candidate *c, enum manage_reason reason)
{
	uint64_t number = c->pfn;

	/* A page of a region is known by its address only. */
	if (number == HOTNESS_NO_PFN)
		number = 1ULL << 63 | (uint64_t)c->owner_slot << 36 | c->addr >> PAGE_SHIFT;
	manage_left_add(p->m->left, reason, number, c->page_bytes);
	p->left = true;
}

/* true when rule @i bounds what its programs may have of the fast tier, to @ret_bytes. */
static bool has_fast_max(const struct migrator_pass_state *p, int i, uint64_t *ret_bytes)
{
	return p->m->params.manage && manage_fast_max(&p->config->manage_rules, i, p->fast_tier_bytes, ret_bytes);
}

bool migrator_manage_take(struct migrator_pass_state *p, int rule, uint64_t bytes)
{
	uint64_t max_bytes;

	if (!has_fast_max(p, rule, &max_bytes))
		return true;
	if (!manage_fast_take(manage_get_fast(p->m->params.manage), rule, bytes, max_bytes))
		return false;
	p->fast_taken[rule] += bytes;
	return true;
}

void migrator_manage_moved(const struct migrator_pass_state *p, int rule, uint64_t bytes)
{
	uint64_t max_bytes;

	if (has_fast_max(p, rule, &max_bytes))
		manage_fast_moved(manage_get_fast(p->m->params.manage), rule, bytes);
}

void migrator_manage_round_over(struct migrator_pass_state *p)
{
	for (int i = 0; i < RULES_MAX; i++) {
		if (p->fast_taken[i])
			manage_fast_put(manage_get_fast(p->m->params.manage), i, p->fast_taken[i]);
		p->fast_taken[i] = 0;
	}
}

bool migrator_manage_in_peace(const struct migrator_pass_state *p, const struct owner *owner, uint64_t now_ns)
{
	return p->m->params.pressure && guard_pressure_holds(p->m->params.pressure, p->config, owner, now_ns);
}

enum migrator_manage migrator_manage_ask(struct migrator_pass_state *p, const struct hotness_candidate *c,
					 uint64_t now_ns, struct manage_answer *ret)
{
	struct owner *owner = owners_at(p->m->params.owners, c->owner_slot);

	/* hotness_scan() has found it, in this read section. */
	if (!owner)
		return MIGRATOR_LEAVES;
	p->party = fair_of(owner);
	p->in_peace = migrator_manage_in_peace(p, owner, now_ns);
	if (p->in_peace) {
		migrator_manage_left(p, c, LEFT_PRESSURE);
		return MIGRATOR_WAITS;
	}
	manage_ask(p->m->params.manage, owner, c->addr, now_ns, ret);
	if (ret->verdict == MANAGE_MOVE || ret->verdict == MANAGE_OBSERVE)
		manage_ask_share(p->m->params.manage, &p->config->manage_rules, p->fast_tier_bytes, c->page_bytes, ret);
	if (ret->verdict == MANAGE_LEAVE || ret->verdict == MANAGE_WAIT)
		migrator_manage_left(p, c, ret->reason);
	if (ret->verdict == MANAGE_LEAVE)
		return MIGRATOR_LEAVES;
	if (ret->verdict == MANAGE_WAIT) {
		p->waits = true;
		return MIGRATOR_WAITS;
	}
	if (p->m->params.guard && guard_rests(p->m->params.guard, p->config, c->owner_slot, c->start_ticks, now_ns)) {
		migrator_manage_left(p, c, LEFT_PING_PONG);
		return MIGRATOR_LEAVES;
	}
	if (c->pfn == HOTNESS_NO_PFN)
		return MIGRATOR_MAY_MOVE;
	switch (mover_rest_page(p->m->rest, c->pfn, c->owner_slot, now_ns)) {
	case REST_WAITS:
		p->hot = p->refused = true;
		return MIGRATOR_WAITS;
	case REST_GIVEN_UP:
		p->hot = p->refused = true;
		return MIGRATOR_LEAVES;
	case REST_NOT:
		break;
	}
	return MIGRATOR_MAY_MOVE;
}

bool migrator_manage_again(struct migrator_pass_state *p, const struct hotness_candidate *c, struct manage_answer *ret)
{
	struct owner *owner;
	bool may = true;

	/* Of one that is gone nothing is known; the check that follows finds that out. */
	*ret = (struct manage_answer){ .rule = -1 };
	p->party = 0;
	rcu_enter();
	owner = owners_at(p->m->params.owners, c->owner_slot);
	if (owner && owner->pid == c->pid && owner->start_ticks == c->start_ticks) {
		p->party = fair_of(owner);
		manage_ask(p->m->params.manage, owner, c->addr, clock_now_ns(p->m->params.clock), ret);
		may = !migrator_manage_in_peace(p, owner, clock_now_ns(p->m->params.clock));
		may = may && (ret->verdict == MANAGE_MOVE || (p->observing && ret->verdict == MANAGE_OBSERVE));
	}
	rcu_leave();
	return may;
}
