/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "clock.h"
#include "config.h"
#include "decider.h"
#include "fair.h"
#include "log.h"
#include "manage.h"
#include "migrator_internal.h"
#include "owners.h"
#include "rcu.h"
#include "sample.h"
#include "stats.h"

/* A bound on the rounds of a pass that doesn't hang on the clock; 64 of them are 2 GiB. */
#define ROUNDS_MAX 64

#define PUT_BACK_NS NSEC_PER_SEC

/*
 * A scan that can move nothing more stops. Once a second it goes on, to see how much hotter the node is than the
 * budget: that is what the policy's threshold adapts to. The bound keeps such a look at a few ms; it is enough to see a
 * demand 10% over the rate up to rates of 2.5 GiB/s.
 */
#define SURVEY_NS    NSEC_PER_SEC
#define SURVEY_LOOKS 65536

const char *const migrator_limit_text[LIMIT_MAX] = {
	[LIMIT_NOTHING_HOT] = "nothing hot on the slow node",
	[LIMIT_NONE] = "nothing: all that is hot is moved",
	[LIMIT_OBSERVING] = "mode is \"observe\"",
	[LIMIT_RATE] = "promote.rate_mib_per_sec",
	[LIMIT_NO_ROOM] = "no room on the faster nodes",
	[LIMIT_NO_TARGET] = "no faster node to promote to",
	[LIMIT_GUESSED_TIERS] = "the tiers are guessed: name them in tiers = (...)",
	[LIMIT_RULE_RATE] = "rate_mib_per_sec of a rule",
	[LIMIT_WAITING] = "what is hot is new: it is being looked at",
	[LIMIT_LEFT_ALONE] = "all that is hot is left alone, for the reasons shown",
	[LIMIT_REFUSED] = "the kernel moved none of the pages: see the move_ counters",
	[LIMIT_GUARD_ALL] = "a guard holds: nothing is moved",
	[LIMIT_GUARD] = "no room on the faster nodes, and a guard holds: none is made",
	[LIMIT_NO_COLD] = "no room on the faster nodes, and nothing there is surely cold",
	[LIMIT_LOWER_FULL] = "the faster nodes are full, and so is the slow one",
	[LIMIT_PAYS_NOT] = "what is hot would take more to move than it saves",
	[LIMIT_SHARE] = "its user has its share of fast memory, and others lack theirs",
	[LIMIT_SPEED] = "the time that moving takes",
};

struct migrator *migrator_new(const struct migrator_params *params)
{
	struct migrator *m = calloc(1, sizeof(*m));

	assert(params->parts > 0 && params->part < params->parts);
	if (!m)
		return NULL;
	m->params = *params;
	m->layout = hotness_layout(params->hotness);
	m->outcomes = mover_outcomes_new();
	m->plan = plan_new();
	m->targets = calloc(NODE_MAX, sizeof(*m->targets));
	m->rooms = calloc(NODE_MAX, sizeof(*m->rooms));
	m->owns_decider = !params->decider;
	m->decider = params->decider ? params->decider : decider_new(params->hotness);
	m->rest = mover_rest_new();
	m->left = manage_left_new();
	m->collapse = migrator_collapse_new();
	m->room = migrator_room_new();
	if (!m->outcomes || !m->plan || !m->rest || !m->left || !m->collapse || !m->room || !m->targets || !m->rooms ||
	    !m->decider) {
		migrator_free(m);
		return NULL;
	}
	return m;
}

void migrator_free(struct migrator *m)
{
	if (!m)
		return;
	mover_outcomes_free(m->outcomes);
	plan_free(m->plan);
	mover_rest_free(m->rest);
	manage_left_free(m->left);
	migrator_collapse_free(m->collapse);
	migrator_room_free(m->room);
	free(m->targets);
	free(m->rooms);
	if (m->owns_decider)
		decider_free(m->decider);
	free(m);
}

int64_t migrator_pause_ms(const struct config *config, const struct migrator_pass_result *result)
{
	return result->limit == LIMIT_SPEED ? 0 : config->promote_scan_sleep_ms;
}

enum migrator_limit migrator_last_limit(const struct migrator *m)
{
	return (enum migrator_limit)atomic_load_explicit(&m->limit, memory_order_relaxed);
}

void migrator_calls(const struct migrator *m, struct migrator_calls *ret)
{
	*ret = (struct migrator_calls){
		.batch_pages = atomic_load_explicit(&m->batch_pages, memory_order_relaxed),
		.call_ns = atomic_load_explicit(&m->cost_call_ns, memory_order_relaxed),
		.page_ns = atomic_load_explicit(&m->cost_page_ns, memory_order_relaxed),
		.longest_ns = atomic_load_explicit(&m->longest_ns, memory_order_relaxed),
	};
}

uint64_t migrator_in_call_since_ns(const struct migrator *m)
{
	return atomic_load_explicit(&m->in_call_since_ns, memory_order_relaxed);
}

const struct manage_left *migrator_left(const struct migrator *m)
{
	return m->left;
}

const struct mover_outcomes *migrator_outcomes(const struct migrator *m)
{
	return m->outcomes;
}

struct decider *migrator_decider(struct migrator *m)
{
	return m->decider;
}

int migrator_nid(const struct migrator *m)
{
	return m->params.nid;
}

static bool stopped(const struct migrator *m)
{
	return m->params.stop && atomic_load_explicit(m->params.stop, memory_order_relaxed);
}

/* @bytes of a plan that did not move. */
static void refund(struct migrator_target *t, struct tokens *rule, uint64_t bytes)
{
	tokens_put(&t->tokens, bytes);
	if (rule)
		tokens_put(rule, bytes);
	t->room_bytes += bytes;
	t->now.free_bytes += bytes;
}

/* Candidates of a batch, and as the mover wants them. */
struct work {
	struct plan_batch batch;
	struct migrator_target *target;
	struct manage_answer manage;
	bool may_move;
	fair_party party;
	struct tokens *rule;
	size_t n;
	uint64_t bytes;
	const struct hotness_candidate *candidate[MOVER_BATCH_MAX];
	struct mover_page page[MOVER_BATCH_MAX];
};

static void prepare(struct migrator_pass_state *p, size_t i, struct work *w)
{
	plan_batch(p->m->plan, i, &w->batch);
	w->target = &p->m->targets[w->batch.nid];
	w->n = plan_batch_candidates(p->m->plan, i, w->candidate, MOVER_BATCH_MAX);
	assert(w->n == w->batch.candidates);
	w->bytes = (uint64_t)w->batch.pages * PAGE_SIZE_BYTES;
	w->may_move = migrator_manage_again(p, w->candidate[0], &w->manage);
	w->party = p->party;
	w->rule = migrator_manage_tokens(p, w->manage.rule);
	for (size_t k = 0; k < w->n; k++)
		w->page[k] = (struct mover_page){
			.addr = w->candidate[k]->addr,
			.bytes = w->candidate[k]->page_bytes,
			.from_nid = p->m->params.nid,
		};
}

/* After a call that took this long, a record's time may soon wrap: it is let go, see hotness_put_back(). */
static void put_back(struct migrator_pass_state *p, const struct hotness_candidate *candidate)
{
	if (candidate->pfn == HOTNESS_NO_PFN)
		decider_again(p->m->decider, p->m->params.nid, candidate->region_slot);
	else if (clock_now_ns(p->m->params.clock) - p->scanned_ns < PUT_BACK_NS)
		hotness_put_back(p->m->params.hotness, candidate);
}

static void put_back_all(struct migrator_pass_state *p, struct work *w)
{
	for (size_t k = 0; k < w->n; k++)
		put_back(p, w->candidate[k]);
	refund(w->target, w->rule, w->bytes);
}

static bool owner_is_gone(const struct migrator_pass_state *p, const struct plan_batch *batch)
{
	const struct owner *owner;
	bool gone;

	rcu_enter();
	owner = owners_at(p->m->params.owners, batch->owner_slot);
	gone = !owner || owner->pid != batch->pid || owner->start_ticks != batch->start_ticks ||
	       atomic_load_explicit(&owner->state, memory_order_relaxed) == OWNER_GONE; /* see owners.h */
	rcu_leave();
	return gone;
}

static void credit_owner(struct migrator_pass_state *p, const struct plan_batch *batch, uint64_t bytes)
{
	struct owner *owner;

	rcu_enter();
	owner = owners_at(p->m->params.owners, batch->owner_slot);
	if (owner && owner->pid == batch->pid && owner->start_ticks == batch->start_ticks)
		atomic_fetch_add_explicit(&owner->hot_bytes, bytes, memory_order_relaxed); /* a gauge */
	rcu_leave();
}

/* A page that failed in passing: once more when it has waited. */
static void try_again(struct migrator_pass_state *p, struct work *w, size_t k, uint64_t now_ns)
{
	const struct hotness_candidate *c = w->candidate[k];
	bool again = w->page[k].untried;

	p->refused = true;
	/* A region is asked for again when samples still come from there. */
	if (c->pfn != HOTNESS_NO_PFN)
		again = again || mover_rest_page_failed(p->m->rest, c->pfn, c->owner_slot, now_ns);
	if (again)
		put_back(p, c);
	else if (w->page[k].result == MOVER_SHARED)
		migrator_manage_left(p, c, LEFT_SHARED);
}

/* What becomes of a page; see migrator.h. */
static void look_at_result(struct migrator_pass_state *p, struct work *w, size_t k)
{
	const struct hotness_candidate *c = w->candidate[k];
	struct mover_rest *rest = p->m->rest;
	uint64_t now_ns = clock_now_ns(p->m->params.clock);

	switch (w->page[k].result) {
	case MOVER_OK:
	case MOVER_ALREADY:
		if (p->m->params.guard && w->page[k].result == MOVER_OK)
			guard_note_up(p->m->params.guard, c->owner_slot, c->start_ticks, c->addr, now_ns);
		if (p->config->promote_collapse)
			migrator_collapse_note(p->m->collapse, c,
					       w->page[k].result == MOVER_OK ? w->batch.nid : w->page[k].from_nid);
		break;
	case MOVER_BUSY:
	case MOVER_SHARED:
	case MOVER_PINNED:
	case MOVER_FAILED:
		try_again(p, w, k, now_ns);
		return;
	case MOVER_NO_MEMORY:
		w->target->closed = true;
		w->target->rests_until_ns = now_ns + REST_NO_MEMORY_NS;
		p->no_room = true;
		put_back(p, c);
		return;
	case MOVER_CPUSET:
		mover_rest_process_failed(rest, c->owner_slot, c->start_ticks, w->batch.nid, now_ns);
		p->refused = true;
		put_back(p, c);
		return;
	case MOVER_DENIED:
		mover_rest_process_failed(rest, c->owner_slot, c->start_ticks, w->batch.nid, now_ns);
		p->refused = true;
		break;
	case MOVER_NOT_MIGRATABLE:
		p->refused = true;
		break;
	default:
		break;
	}
	if (c->pfn != HOTNESS_NO_PFN)
		mover_rest_page_done(rest, c->pfn);
}

static void look_at_results(struct migrator_pass_state *p, struct work *w, const struct mover_summary *sum)
{
	struct stats_slot *stats = p->m->params.stats;

	for (size_t k = 0; k < w->n; k++)
		look_at_result(p, w, k);
	refund(w->target, w->rule, w->bytes - sum->moved_bytes);
	if (sum->moved_pages == 0)
		return;
	if (p->m->params.fair)
		fair_moved(p->m->params.fair, w->party, (int64_t)sum->moved_bytes);
	p->moved_pages += sum->moved_pages;
	p->moved_bytes += sum->moved_bytes;
	stats_add(stats, STAT_PROMOTED_PAGES, sum->moved_pages);
	stats_add(stats, STAT_PROMOTED_BYTES, sum->moved_bytes);
	credit_owner(p, &w->batch, sum->moved_bytes);
	migrator_manage_moved(p, w->manage.rule, sum->moved_bytes);
}

/* What the call says about the size of the next. Only of base pages: a huge one costs less than as many of them. */
static void learn(struct migrator *m, const struct work *w, const struct mover_summary *sum)
{
	double call_ns, page_ns;

	/* Several calls: pages that failed in between cost in another way. */
	if (sum->calls != 1 || w->batch.pages != w->batch.candidates)
		return;
	mover_batch_learn(&m->batch, (size_t)sum->call_pages, sum->call_ns);
	mover_batch_cost(&m->batch, &call_ns, &page_ns);
	atomic_store_explicit(&m->cost_call_ns, (uint64_t)call_ns, memory_order_relaxed);
	atomic_store_explicit(&m->cost_page_ns, (uint64_t)page_ns, memory_order_relaxed);
	atomic_store_explicit(&m->longest_ns, m->batch.longest_ns, memory_order_relaxed);
}

/* One batch, outside the read section. */
static void act(struct migrator_pass_state *p, struct work *w)
{
	struct migrator *m = p->m;
	struct mover_summary sum = { 0 };
	int r;

	if (stopped(m) || w->target->closed) {
		p->no_room = p->no_room || w->target->closed;
		put_back_all(p, w);
		return;
	}
	/* Rules and memory may have changed since the scan. */
	if (!w->may_move) {
		p->waits = true;
		put_back_all(p, w);
		return;
	}
	/* An earlier call of this round has found the node closed to it. */
	if (mover_rest_process(m->rest, w->batch.owner_slot, w->batch.start_ticks, w->batch.nid,
			       clock_now_ns(m->params.clock))) {
		p->refused = true;
		put_back_all(p, w);
		return;
	}
	/* Between the sample and now the process may have ended, and its pid may be another's. */
	if (!owners_check(m->params.owners, w->batch.owner_slot, w->batch.pid, w->batch.start_ticks)) {
		if (!owner_is_gone(p, &w->batch)) {
			put_back_all(p, w); /* it couldn't be told */
			return;
		}
		if (!p->observing)
			mover_account(&p->mover, w->batch.nid, w->page, w->n, MOVER_GONE);
		refund(w->target, w->rule, w->bytes);
		return;
	}
	if (p->observing) {
		stats_add(m->params.stats, STAT_WOULD_PROMOTE_PAGES, w->batch.pages);
		stats_add(m->params.stats, STAT_WOULD_PROMOTE_BYTES, w->bytes);
		credit_owner(p, &w->batch, w->bytes);
		migrator_manage_moved(p, w->manage.rule, w->bytes);
		return;
	}

	atomic_store_explicit(&m->in_call_since_ns, clock_now_ns(m->params.clock), memory_order_relaxed);
	p->mover.shared = w->manage.shared;
	r = mover_move(&p->mover, w->batch.pid, w->batch.nid, w->page, w->n, &sum);
	atomic_store_explicit(&m->in_call_since_ns, 0, memory_order_relaxed);
	assert(r != -EINVAL);
	if (r == -EINTR) {
		put_back_all(p, w);
		return;
	}
	if (r == -ESRCH)
		owners_mark_gone(m->params.owners, w->batch.owner_slot);
	if (r == -EPERM && !m->warned_denied) {
		m->warned_denied = true;
		log_warning("process %u: move_pages() is not permitted; its pages stay where they are. "
			    "pghotd needs CAP_SYS_PTRACE",
			    w->batch.pid);
	}
	learn(m, w, &sum);
	look_at_results(p, w, &sum);
}

bool migrator_time_is_up(const struct migrator_pass_state *p)
{
	return clock_now_ns(p->m->params.clock) - p->start_ns >=
	       (uint64_t)p->config->promote_scan_sleep_ms * NSEC_PER_MSEC;
}

/*
 * Sizes that never change say nothing about what a call costs by itself, so every sixteenth round has calls of half the
 * size.
 */
static size_t batch_size(const struct migrator_pass_state *p, size_t max_pages)
{
	struct migrator *m = p->m;
	size_t pages = mover_batch_size(&m->batch, (uint64_t)p->config->promote_stall_ms * NSEC_PER_MSEC, max_pages);

	atomic_store_explicit(&m->batch_pages, pages, memory_order_relaxed);
	if (m->batch.calls > 0 && ++m->rounds % 16 == 0 && pages >= 2 * MOVER_BATCH_MIN)
		return pages / 2;
	return pages;
}

static void run(struct migrator_pass_state *p)
{
	struct work work; /* about 40 KiB */
	struct migrator *m = p->m;
	size_t max_pages = (size_t)p->config->promote_batch_pages;

	if (max_pages > MOVER_BATCH_MAX)
		max_pages = MOVER_BATCH_MAX;
	for (int round = 0; !stopped(m); round++) {
		bool made;

		if (round == ROUNDS_MAX || (round > 0 && migrator_time_is_up(p))) {
			p->out_of_time = true;
			return;
		}
		plan_reset(m->plan, batch_size(p, max_pages));
		p->plan_full = p->waits_turn = false;
		p->wants_bytes = 0;
		made = migrator_room_make(p);
		if (made)
			p->no_room = false;
		p->scanned_ns = clock_now_ns(m->params.clock);
		migrator_regions(p);
		if (!p->plan_full)
			migrator_scan(p);
		for (size_t i = 0; i < plan_batches(m->plan); i++) {
			prepare(p, i, &work);
			act(p, &work);
		}
		migrator_manage_round_over(p);
		m->lacks_room = p->no_room;
		m->wants_bytes = p->wants_bytes;
		if (m->params.fair && p->no_room)
			fair_lacks_room(m->params.fair, clock_now_ns(m->params.clock));
		if (p->waits_turn && plan_batches(m->plan) == 0)
			fair_pass_turn(m->params.fair);
		p->exchanging = made && p->no_room;
		/* A scan that ended by itself has seen everything, or nothing more can move now. */
		if (!p->plan_full && !p->exchanging && !p->waits_turn)
			return;
	}
}

static enum migrator_limit what_held_it_back(const struct migrator_pass_state *p)
{
	if (p->config->mode == MODE_OBSERVE)
		return LIMIT_OBSERVING;
	if (p->topology->observe_only)
		return LIMIT_GUESSED_TIERS;
	if (!p->hot && p->by_region && decider_pays_not(p->m->decider))
		return LIMIT_PAYS_NOT;
	if (!p->hot)
		return p->waits ? LIMIT_WAITING : p->left ? LIMIT_LEFT_ALONE : LIMIT_NOTHING_HOT;
	if (p->no_target)
		return LIMIT_NO_TARGET;
	if (p->no_room && !p->exchanging && p->guard != GUARD_NONE && p->way != WAY_NONE)
		return LIMIT_GUARD;
	if (p->no_room && !p->exchanging)
		return p->lower_full ? LIMIT_LOWER_FULL : p->no_cold ? LIMIT_NO_COLD : LIMIT_NO_ROOM;
	if (p->no_share)
		return LIMIT_SHARE;
	if (p->no_tokens || p->below)
		return LIMIT_RATE;
	if (p->no_rule_tokens)
		return LIMIT_RULE_RATE;
	if (p->out_of_time)
		return LIMIT_SPEED;
	if (p->refused && p->moved_bytes == 0)
		return LIMIT_REFUSED;
	return LIMIT_NONE;
}

static bool may_collapse(void *ctx, const struct hotness_candidate *c)
{
	struct migrator_pass_state *p = ctx;
	struct manage_answer answer;

	return !stopped(p->m) && migrator_manage_again(p, c, &answer) &&
	       owners_check(p->m->params.owners, c->owner_slot, c->pid, c->start_ticks);
}

static int pass_in(struct migrator_pass_state *p)
{
	struct migrator *m = p->m;
	int r;

	p->node = topology_node(p->topology, m->params.nid);
	if (!p->node || p->node->n_targets == 0) {
		atomic_store_explicit(&m->limit, LIMIT_NO_TARGET, memory_order_relaxed);
		return 0;
	}
	p->observing = p->config->mode == MODE_OBSERVE || p->topology->observe_only;
	p->way = migrator_way(p->config, p->topology);
	p->guard = m->params.guard ? guard_holds(m->params.guard) : GUARD_NONE;
	r = migrator_scan_start(p);
	if (r < 0)
		return r;
	migrator_manage_start(p);
	p->survey = p->start_ns - m->surveyed_ns >= SURVEY_NS;
	p->survey_left = SURVEY_LOOKS;
	p->mover = (struct mover){
		.ops = m->params.mover_ops,
		.ctx = m->params.mover_ctx,
		.clock = m->params.clock,
		.stats = m->params.stats,
		.outcomes = m->outcomes,
		.root = &m->params.root,
		.fast = &p->fast,
		.stop = m->params.stop,
	};
	migrator_decide(p);
	if (guard_stops_all(p->guard) && p->config->guard_action == GUARD_ACTION_PAUSE && !p->observing) {
		atomic_store_explicit(&m->limit, LIMIT_GUARD_ALL, memory_order_relaxed);
		return 0;
	}
	migrator_collapse_start(m->collapse);
	run(p);
	migrator_room_end(p);
	if (p->config->promote_collapse && !p->observing)
		migrator_collapse_run(m->collapse, &p->mover, may_collapse, p);
	if (p->survey)
		m->surveyed_ns = p->start_ns;
	if (p->no_tokens || p->no_rule_tokens)
		stats_inc(m->params.stats, STAT_RATE_LIMITED);
	if (p->no_room)
		stats_inc(m->params.stats, STAT_NO_ROOM);
	atomic_store_explicit(&m->limit, what_held_it_back(p), memory_order_relaxed);
	return 0;
}

int migrator_pass(struct migrator *m, const struct config *config, uint64_t now_ns, struct migrator_pass_result *ret)
{
	struct migrator_pass_state pass = { .m = m, .config = config, .start_ns = now_ns };
	struct topology *topology = topology_store_get(m->params.topology);
	int r;

	pass.topology = topology;
	r = pass_in(&pass);
	topology_unref(topology);
	*ret = (struct migrator_pass_result){
		.moved_pages = pass.moved_pages,
		.moved_bytes = pass.moved_bytes,
		.limit = migrator_last_limit(m),
	};
	return r;
}
