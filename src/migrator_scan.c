/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <assert.h>
#include <errno.h>

#include "clock.h"
#include "config.h"
#include "decider.h"
#include "evidence.h"
#include "fair.h"
#include "holdout.h"
#include "migrator_internal.h"
#include "rcu.h"
#include "record.h"
#include "sample.h"
#include "stats.h"

static uint64_t max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* Those of each slow node that has it as a target. */
uint64_t migrator_sharers(const struct migrator_pass_state *p, int target_nid)
{
	uint64_t nodes = 0;

	nodeset_for_each (nid, &p->topology->lower) {
		const struct topology_node *node = topology_node(p->topology, nid);

		for (int i = 0; node && i < node->n_targets; i++)
			nodes += node->targets[i] == target_nid;
	}
	return max_u64(nodes, 1) * p->m->params.parts;
}

static void start_target(struct migrator_pass_state *p, int nid)
{
	const struct config *config = p->config;
	const struct topology_room *room = &p->m->rooms[nid];
	const struct topology_node *node = topology_node(p->topology, nid);
	struct migrator_target *t = &p->m->targets[nid];
	uint64_t share = migrator_sharers(p, nid);
	uint64_t slow = guard_stops_all(p->guard) && !p->observing ? GUARD_SLOW_PART : 1;
	uint64_t rate = ((uint64_t)config->promote_rate_mib_per_sec << 20) / share / slow;
	uint64_t burst = max_u64(rate / 1000 * (uint64_t)config->promote_burst_ms, PAGE_SIZE_BYTES);
	uint64_t total = node && node->total_bytes ? node->total_bytes : room->present_bytes;
	uint64_t keep = (uint64_t)((double)total * config->promote_headroom_percent / 100.0);

	keep = max_u64(keep, max_u64(room->promo_bytes, room->high_bytes));
	t->now = (struct policy_target){
		.free_bytes = room->free_bytes,
		.promo_bytes = room->promo_bytes,
		.present_bytes = room->present_bytes,
		.rate_bytes_per_sec = rate,
	};
	t->room_bytes = room->free_bytes > keep ? (room->free_bytes - keep) / share : 0;
	migrator_room_start_target(p, nid, keep, share);
	t->closed = p->start_ns < t->rests_until_ns;
	if (!t->started)
		tokens_init(&t->tokens, rate, burst, p->start_ns);
	else if (t->tokens.rate_bytes_per_sec != rate || t->tokens.burst_bytes != burst)
		tokens_set(&t->tokens, rate, burst, p->start_ns);
	t->started = true;
}

/* Where pages of this node may go, and how much fits. */
int migrator_scan_start(struct migrator_pass_state *p)
{
	struct nodeset targets = { 0 }, read;
	int r;

	for (int i = 0; i < p->node->n_targets; i++)
		nodeset_add(&targets, p->node->targets[i]);
	read = targets;
	nodeset_add(&read, p->m->params.nid); /* what goes down comes here */
	r = topology_read_rooms(&p->m->params.root, &read, p->m->rooms);
	if (r < 0)
		return r;
	nodeset_for_each (nid, &targets)
		start_target(p, nid);
	p->fast = targets;
	nodeset_or(&p->fast, &p->topology->top);
	return 0;
}

static bool has_room(const struct migrator_target *t, uint64_t bytes)
{
	return !t->closed && t->room_bytes >= bytes;
}

/* The node that all pages under a rule with @rule_nid go to; -1: each to its own. */
static int fixed_nid(const struct migrator_pass_state *p, int rule_nid)
{
	return rule_nid >= 0 ? rule_nid : (int)p->config->target_nid;
}

int migrator_wanted_nid(const struct migrator_pass_state *p, int rule_nid, int nid)
{
	int fixed = fixed_nid(p, rule_nid);

	if (fixed >= 0)
		nid = fixed;
	for (int i = 0; i < p->node->n_targets; i++)
		if (p->node->targets[i] == nid)
			return nid;
	return fixed >= 0 ? -1 : p->node->targets[0];
}

static bool takes(const struct migrator_pass_state *p, struct migrator_who *who, int nid, uint64_t bytes)
{
	if (!has_room(&p->m->targets[nid], bytes))
		return false;
	if (!who || !mover_rest_process(p->m->rest, who->owner_slot, who->start_ticks, nid, who->now_ns))
		return true;
	who->rests = true;
	return false;
}

int migrator_nid_with_room(const struct migrator_pass_state *p, struct migrator_who *who, int wanted, uint64_t bytes)
{
	int fixed = fixed_nid(p, who ? who->rule_nid : -1);

	if (takes(p, who, wanted, bytes))
		return wanted;
	for (int i = 0; fixed < 0 && i < p->node->n_targets; i++)
		if (takes(p, who, p->node->targets[i], bytes))
			return p->node->targets[i];
	return -1;
}

bool migrator_anything_goes(const struct migrator_pass_state *p, uint64_t now_ns)
{
	for (int i = 0; i < p->node->n_targets; i++) {
		struct migrator_target *t = &p->m->targets[p->node->targets[i]];

		if (p->config->target_nid >= 0 && p->config->target_nid != p->node->targets[i] &&
		    !nodeset_has(&p->named, p->node->targets[i]))
			continue;
		if (has_room(t, PAGE_SIZE_BYTES) && tokens_available(&t->tokens, now_ns) > 0)
			return true;
	}
	return false;
}

bool migrator_what_is_missing(struct migrator_pass_state *p)
{
	int wanted = migrator_wanted_nid(p, -1, -1);

	if (wanted < 0) {
		p->no_target = true;
		return false;
	}
	if (migrator_nid_with_room(p, NULL, wanted, PAGE_SIZE_BYTES) >= 0) {
		p->no_tokens = true;
		return false;
	}
	p->no_room = true;
	return true;
}

void migrator_lacks_room(struct migrator_pass_state *p, uint64_t bytes)
{
	p->no_room = true;
	p->wants_bytes += bytes;
}

/*
 * Time since the last access. An access that another CPU's clock puts a little after ours would look a whole turn of
 * the time field old: that is now.
 */
static uint32_t age_ms(const struct migrator *m, uint32_t record, uint64_t now_ns)
{
	uint32_t turn = m->layout == RECORD_COMPACT ? 4096 : 16384;
	uint32_t slack = m->layout == RECORD_COMPACT ? 128 : 8;
	uint32_t age = record_age_ms(m->layout, record, now_ns);

	return age >= turn - slack ? 0 : age;
}

/* Each access is one candidate, however often its record is met while it waits. */
static bool is_new_candidate(const struct migrator *m, uint32_t age, uint64_t now_ns)
{
	uint32_t resolution = m->layout == RECORD_COMPACT ? 128 : 1;
	uint64_t since_ms = (now_ns - m->surveyed_ns) / NSEC_PER_MSEC;

	return age <= since_ms + resolution;
}

/* A page of 1 GiB: it would move whole, whatever the budget, and hardly ever finds a free one on the target. */
static void leave_alone(struct migrator_pass_state *p, const struct hotness_candidate *c, int target_nid)
{
	struct mover_page page = { .addr = c->addr, .bytes = REGION_BYTES, .from_nid = p->m->params.nid };

	mover_account(&p->mover, target_nid, &page, 1, MOVER_NOT_MIGRATABLE);
}

/* The grant was not used: somebody changed the record before it could be taken. */
static void take_grant_back(struct migrator_pass_state *p)
{
	if (p->grant.target)
		tokens_put(&p->grant.target->tokens, p->grant.bytes);
	if (p->grant.target && p->grant.rule)
		tokens_put(p->grant.rule, p->grant.bytes);
	p->grant.target = NULL;
}

/* Nothing can be done for this one now. */
static enum hotness_verdict leave(struct migrator_pass_state *p, uint64_t now_ns)
{
	if (p->survey && p->survey_left > 0) {
		p->survey_left--;
		return HOTNESS_KEEP;
	}
	if (p->wants_bytes > 0 && migrator_room_asks(p))
		return HOTNESS_KEEP;
	return migrator_anything_goes(p, now_ns) ? HOTNESS_KEEP : HOTNESS_STOP;
}

/*
 * Policy region: true when pages of that region move one by one, and this is one of them. What waited for too long for
 * rate or room is asked for by its region again, since its record's time soon wraps.
 */
static bool moves_by_record(struct migrator_pass_state *p, const struct hotness_candidate *c, uint32_t age)
{
	uint32_t kind = c->decision & REGION_DECISION_KIND;

	/* Whatever is decided about its region, one of 1 GiB never moves: it is counted as such. */
	if (c->page_bytes > REGION_BYTES)
		return true;
	if (kind == 0)
		stats_inc(p->m->params.stats, STAT_REGION_UNDECIDED);
	if (kind != REGION_DECISION_PAGES && kind != REGION_DECISION_PICKED)
		return false;
	if (age < (uint32_t)p->config->promote_freq_window_ms)
		return true;
	if (kind == REGION_DECISION_PAGES)
		decider_again(p->m->decider, p->m->params.nid, c->region_slot);
	return false;
}

static enum hotness_verdict decide(void *ctx, const struct hotness_candidate *c)
{
	struct migrator_pass_state *p = ctx;
	struct migrator *m = p->m;
	uint64_t now_ns = clock_now_ns(m->params.clock), pages = c->page_bytes / PAGE_SIZE_BYTES;
	uint32_t age = age_ms(m, c->record, now_ns);
	struct migrator_who who = { .owner_slot = c->owner_slot, .start_ticks = c->start_ticks, .now_ns = now_ns };
	struct manage_answer answer;
	bool room, tokens, counts;
	struct migrator_target *t;
	struct tokens *rule;
	bool by_region;
	int wanted, nid;

	take_grant_back(p);
	by_region = p->by_region && !c->by_faults && migrator_manage_by_region(p, c->owner_slot);
	if (by_region && !moves_by_record(p, c, age))
		return HOTNESS_DROP;
	if (holdout_has(p->config->guard_holdout_percent, c->pid, c->addr)) {
		stats_inc(m->params.stats, STAT_HELD_OUT);
		return HOTNESS_DROP;
	}
	switch (migrator_manage_ask(p, c, now_ns, &answer)) {
	case MIGRATOR_LEAVES:
		return HOTNESS_DROP;
	case MIGRATOR_WAITS:
		return age >= (uint32_t)p->config->promote_freq_window_ms ? HOTNESS_DROP : leave(p, now_ns);
	case MIGRATOR_MAY_MOVE:
		break;
	}
	who.rule_nid = answer.target_nid;
	wanted = migrator_wanted_nid(p, who.rule_nid, record_nid(m->layout, c->record));
	/* The rule's target is none of this node's. */
	if (wanted < 0 && who.rule_nid >= 0) {
		migrator_manage_left(p, c, LEFT_RULE);
		return HOTNESS_DROP;
	}
	if (wanted < 0) {
		p->hot = p->no_target = true;
		return HOTNESS_STOP;
	}
	if (c->page_bytes > REGION_BYTES) {
		leave_alone(p, c, wanted);
		return HOTNESS_DROP;
	}
	if (m->params.fair && fair_has_share(m->params.fair, p->party, c->page_bytes, now_ns)) {
		stats_inc(m->params.stats, STAT_SHARE_HELD);
		p->hot = p->no_share = true;
		return age >= (uint32_t)p->config->promote_freq_window_ms ? HOTNESS_DROP : leave(p, now_ns);
	}
	nid = migrator_nid_with_room(p, &who, wanted, c->page_bytes);
	room = nid >= 0;
	t = &m->targets[room ? nid : wanted];
	rule = migrator_manage_tokens(p, answer.rule);
	tokens = tokens_available(&t->tokens, now_ns) > 0 && (!rule || tokens_available(rule, now_ns) > 0);
	if (room && tokens) {
		switch (plan_check(m->plan, c, nid)) {
		case 0:
			break;
		case -EEXIST: /* an old record of the same page, which is on its way */
			return HOTNESS_DROP;
		case -EBUSY:
			return HOTNESS_KEEP;
		default:
			p->plan_full = true;
			return HOTNESS_STOP;
		}
	}

	counts = is_new_candidate(m, age, now_ns) && ((room && tokens) || p->survey);
	switch (by_region ? POLICY_MOVE
			  : policy_page_decide(&t->policy, &t->now, (uint32_t)p->config->promote_freq_window_ms, age,
					       counts ? pages : 0, now_ns)) {
	case POLICY_TOO_OLD:
		stats_inc(m->params.stats, STAT_TOO_OLD);
		return HOTNESS_DROP;
	case POLICY_BELOW_THRESHOLD:
		if (counts)
			stats_add(m->params.stats, STAT_CANDIDATES, pages);
		stats_inc(m->params.stats, STAT_BELOW_THRESHOLD);
		p->hot = p->below = true;
		return HOTNESS_DROP;
	case POLICY_MOVE:
		break;
	}
	if (counts)
		stats_add(m->params.stats, STAT_CANDIDATES, pages);
	p->hot = true;
	if (!room || !tokens) {
		bool rule_only = room && tokens_available(&t->tokens, now_ns) > 0;

		if (!room && !who.rests)
			migrator_lacks_room(p, c->page_bytes);
		p->refused = p->refused || who.rests;
		p->no_rule_tokens = p->no_rule_tokens || rule_only;
		p->no_tokens = p->no_tokens || (room && !rule_only);
		return leave(p, now_ns);
	}
	if (m->params.fair && fair_waits(m->params.fair, p->party, now_ns)) {
		p->waits_turn = true;
		return leave(p, now_ns);
	}
	if (answer.verdict == MANAGE_OBSERVE && !p->observing) {
		stats_add(m->params.stats, STAT_WOULD_PROMOTE_PAGES, pages);
		stats_add(m->params.stats, STAT_WOULD_PROMOTE_BYTES, c->page_bytes);
		return HOTNESS_DROP;
	}
	if (!migrator_manage_take(p, answer.rule, c->page_bytes)) {
		migrator_manage_left(p, c, LEFT_FAST_MAX);
		return HOTNESS_DROP;
	}
	tokens_take(&t->tokens, c->page_bytes, now_ns);
	if (rule)
		tokens_take(rule, c->page_bytes, now_ns);
	p->grant = (struct migrator_grant){ .target = t, .rule = rule, .nid = nid, .bytes = c->page_bytes };
	return p->observing ? HOTNESS_NOTE : HOTNESS_TAKE;
}

static void taken(void *ctx, const struct hotness_candidate *c)
{
	struct migrator_pass_state *p = ctx;
	struct migrator_target *t = p->grant.target;
	int r;

	assert(t && p->grant.bytes == c->page_bytes);
	p->grant.target = NULL;
	if (p->m->params.fair)
		fair_had_turn(p->m->params.fair, p->party, c->page_bytes);
	t->room_bytes -= c->page_bytes;
	t->now.free_bytes -= c->page_bytes;
	r = plan_add(p->m->plan, c, p->grant.nid);
	assert(r == 0);
	(void)r;
}

void migrator_scan(struct migrator_pass_state *p)
{
	struct migrator *m = p->m;
	struct hotness_visitor visitor = { .decide = decide, .taken = taken, .ctx = p, .observing = p->observing };
	struct hotness_scan_result result;

	rcu_enter();
	hotness_scan(m->params.hotness, p->topology, m->params.nid, m->params.part, m->params.parts, &visitor, &result);
	rcu_leave();
	take_grant_back(p);
	stats_add(m->params.stats, STAT_STALE_BACKREF, result.stale);
}
