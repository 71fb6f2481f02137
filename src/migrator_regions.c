/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The half of a migrator that acts on regions that policy region has decided about. */
#include <assert.h>
#include <errno.h>

#include "accesses.h"
#include "clock.h"
#include "config.h"
#include "decider.h"
#include "evidence.h"
#include "fair.h"
#include "holdout.h"
#include "hotness_regions.h"
#include "migrator_internal.h"
#include "owners.h"
#include "rcu.h"
#include "sample.h"
#include "stats.h"

#define CONFIDENCE_MAX 0.9999
#define MISSES_MAX     64   /* regions in one scan that have no place to go to, */
#define SKIPS_MAX      8192 /* and that could, were others not first, or its rule's rate not used up */

/* A region to be moved: where its pages are, as far as they may be meant. */
struct job {
	uint32_t slot;
	struct hotness_target region;
	uint64_t page_bytes;
	struct manage_answer manage;
	fair_party party;
	size_t n;
	uint64_t addr[REGION_PAGES];
	int nid[REGION_PAGES];
};

_Static_assert(REGION_PAGES <= MOVER_BATCH_MAX, "one query for a region");

static bool is_by_region(void *ctx, uint32_t owner_slot)
{
	return migrator_manage_by_region(ctx, owner_slot);
}

/* CPU time that moving a page takes, as measured; with making room for it, twice that. 0: nothing moved yet. */
static double page_ns(const struct migrator_pass_state *p)
{
	struct migrator_calls calls;
	double ns;

	migrator_calls(p->m, &calls);
	if (calls.page_ns == 0 || calls.batch_pages == 0)
		return 0;
	ns = (double)calls.page_ns + (double)calls.call_ns / (double)calls.batch_pages;
	return p->m->lacks_room ? 2 * ns : ns;
}

/* What is known of what moves take and save. */
static void add_costs(const struct migrator_pass_state *p, struct decider_input *input)
{
	const struct accesses *a = p->m->params.accesses;
	const struct topology_node *near = topology_node(p->topology, p->node->targets[0]);

	if (!a)
		return;
	input->page_ns = page_ns(p);
	input->accesses_per_sample = accesses_get(&a->per_sample);
	input->samples_per_sec = accesses_get(&a->samples_per_sec);
	input->cpu_khz = accesses_get(&a->cpu_khz);
	if (near && near->read_latency_ns > 0 && p->node->read_latency_ns > near->read_latency_ns)
		input->latency_ns = p->node->read_latency_ns - near->read_latency_ns;
}

static bool fits(void *ctx, uint32_t owner_slot)
{
	const struct migrator_pass_state *p = ctx;
	const struct owner *owner = owners_at(p->m->params.owners, owner_slot);

	return owner && fair_fits(p->m->params.fair, fair_of(owner));
}

void migrator_decide(struct migrator_pass_state *p)
{
	const struct config *config = p->config;
	struct decider_input input = {
		/* Nothing is ever certain: 1 would move nothing whole. */
		.confidence = config->promote_confidence < CONFIDENCE_MAX ? config->promote_confidence : CONFIDENCE_MAX,
		.epoch_ns = (uint64_t)config->promote_epoch_ms * NSEC_PER_MSEC,
		.observing = p->observing,
		.lower = &p->topology->lower,
		.stats = p->m->params.stats,
		.wants = p->rules_differ ? is_by_region : NULL,
		.fits = p->m->params.fair ? fits : NULL,
		.ctx = p,
	};

	if (!p->by_region) {
		decider_rest(p->m->decider);
		return;
	}
	/* Each migrator has its share of a target's room: all of them together have all of it. */
	for (int i = 0; i < p->node->n_targets; i++)
		input.room_bytes +=
			p->m->targets[p->node->targets[i]].room_bytes * migrator_sharers(p, p->node->targets[i]);
	input.room_bytes += migrator_room_to_come(p);
	add_costs(p, &input);
	decider_run(p->m->decider, &input, p->start_ns);
}

static void add_page(struct job *job, unsigned int page)
{
	job->addr[job->n++] = job->region.addr + ((uint64_t)page << PAGE_SHIFT);
}

/* false: nothing is to be done for it any more. */
static bool find_job(struct migrator_pass_state *p, uint32_t slot, struct job *job)
{
	uint32_t decision, kind;
	bool found;

	rcu_enter();
	found = hotness_region(p->m->params.hotness, slot, &job->region) &&
		migrator_manage_by_region(p, job->region.owner_slot);
	rcu_leave();
	decision = job->region.decision;
	kind = decision & REGION_DECISION_KIND;
	job->slot = slot;
	job->n = 0;
	job->page_bytes = PAGE_SIZE_BYTES;
	if (found && holdout_has(p->config->guard_holdout_percent, job->region.pid, job->region.addr)) {
		stats_inc(p->m->params.stats, STAT_HELD_OUT);
		return false;
	}
	if (!found || kind == 0 || kind == REGION_DECISION_PICKED || job->region.page_bytes > REGION_BYTES)
		return false;
	if (job->region.page_bytes == REGION_BYTES) {
		job->page_bytes = REGION_BYTES;
		add_page(job, 0);
		return true;
	}
	if (kind == REGION_DECISION_PAGES) {
		/* While observing, their records are what is counted. */
		for (unsigned int page = 0; page < REGION_PAGES && !p->observing; page++)
			if (job->region.seen[page / 64] >> (page % 64) & 1)
				add_page(job, page);
		return job->n > 0;
	}
	for (unsigned int page = REGION_DECISION_FIRST(decision) * REGION_BLOCK_PAGES;
	     page < (REGION_DECISION_LAST(decision) + 1) * REGION_BLOCK_PAGES && page < REGION_PAGES; page++)
		add_page(job, page);
	return true;
}

/* Ask where its pages are; keep those that are here. 0: none is, or nobody can tell. */
static size_t keep_those_here(struct migrator_pass_state *p, struct job *job)
{
	size_t here = 0;
	int r = mover_place(&p->mover, job->region.pid, job->addr, job->n, job->nid);

	if (r == -ESRCH)
		owners_mark_gone(p->m->params.owners, job->region.owner_slot);
	for (size_t i = 0; r == 0 && i < job->n; i++)
		if (job->nid[i] == p->m->params.nid)
			job->addr[here++] = job->addr[i];
	job->n = here;
	return here;
}

static struct hotness_candidate candidate_of(const struct job *job, size_t i)
{
	return (struct hotness_candidate){
		.pfn = HOTNESS_NO_PFN,
		.addr = job->addr[i],
		.page_bytes = job->page_bytes,
		.owner_slot = job->region.owner_slot,
		.pid = job->region.pid,
		.start_ticks = job->region.start_ticks,
		.region_slot = job->slot,
		.decision = job->region.decision,
	};
}

/* Its rule wants it on a node that nothing from here can go to. */
static bool has_no_target(const struct migrator_pass_state *p, const struct manage_answer *answer)
{
	return answer->target_nid >= 0 && migrator_wanted_nid(p, answer->target_nid, -1) < 0;
}

/* Keep those of its pages that may move; what is left alone is counted. MIGRATOR_WAITS: some are not known yet. */
static enum migrator_manage keep_those_managed(struct migrator_pass_state *p, struct job *job)
{
	enum migrator_manage verdict = MIGRATOR_LEAVES;
	uint64_t now_ns = clock_now_ns(p->m->params.clock);
	struct manage_answer answer;
	size_t kept = 0;

	rcu_enter();
	for (size_t i = 0; i < job->n && verdict != MIGRATOR_WAITS; i++) {
		const struct hotness_candidate c = candidate_of(job, i);

		switch (migrator_manage_ask(p, &c, now_ns, &answer)) {
		case MIGRATOR_WAITS:
			verdict = MIGRATOR_WAITS;
			break;
		case MIGRATOR_MAY_MOVE:
			if (has_no_target(p, &answer)) {
				migrator_manage_left(p, &c, LEFT_RULE);
				break;
			}
			verdict = MIGRATOR_MAY_MOVE;
			job->manage = answer;
			job->party = p->party;
			job->addr[kept++] = job->addr[i];
			break;
		case MIGRATOR_LEAVES:
			break;
		}
	}
	rcu_leave();
	job->n = kept;
	return verdict;
}

/* Its rule grants nothing now. That is asked first: of a process that waits for it all may be hot. */
static bool rule_is_used_up(const struct migrator_pass_state *p, const struct job *job)
{
	struct tokens *rule;
	struct owner *owner;

	rcu_enter();
	owner = owners_at(p->m->params.owners, job->region.owner_slot);
	rule = owner ? migrator_manage_tokens(p, manage_rule(p->m->params.manage, owner)) : NULL;
	rcu_leave();
	return rule && tokens_available(rule, clock_now_ns(p->m->params.clock)) == 0;
}

/* Its rule only observes: what would have moved is counted. */
static void only_observe(struct migrator_pass_state *p, const struct job *job)
{
	stats_add(p->m->params.stats, STAT_WOULD_PROMOTE_PAGES, job->n * job->page_bytes / PAGE_SIZE_BYTES);
	stats_add(p->m->params.stats, STAT_WOULD_PROMOTE_BYTES, job->n * job->page_bytes);
}

/* Where a page of it may go now; -1: nowhere, and it is noted why. @skipped: only for others who are first. */
static int place_for(struct migrator_pass_state *p, const struct job *job, bool *skipped)
{
	struct fair *fair = p->m->params.fair;
	struct tokens *rule = migrator_manage_tokens(p, job->manage.rule);
	struct migrator_who who = {
		.owner_slot = job->region.owner_slot,
		.start_ticks = job->region.start_ticks,
		.now_ns = clock_now_ns(p->m->params.clock),
		.rule_nid = job->manage.target_nid,
	};
	int nid = migrator_wanted_nid(p, who.rule_nid, REGION_DECISION_NID(job->region.decision));

	if (nid < 0) {
		p->no_target = true;
		return -1;
	}
	*skipped = true;
	if (fair && fair_has_share(fair, job->party, job->n * job->page_bytes, who.now_ns)) {
		stats_inc(p->m->params.stats, STAT_SHARE_HELD);
		p->no_share = true;
		return -1;
	}
	*skipped = false;
	nid = migrator_nid_with_room(p, &who, nid, job->page_bytes);
	if (nid < 0) {
		if (!who.rests)
			migrator_lacks_room(p, job->n * job->page_bytes);
		p->refused = p->refused || who.rests;
		return -1;
	}
	if (rule && tokens_available(rule, who.now_ns) == 0) {
		p->no_rule_tokens = true;
		return -1;
	}
	if (tokens_available(&p->m->targets[nid].tokens, who.now_ns) == 0) {
		p->no_tokens = true;
		return -1;
	}
	if (fair && fair_waits(fair, job->party, who.now_ns)) {
		*skipped = p->waits_turn = true;
		return -1;
	}
	return nid;
}

/* Page @i is one too many for its rule. */
static void leave_for_share(struct migrator_pass_state *p, const struct job *job, size_t i)
{
	const struct hotness_candidate c = candidate_of(job, i);

	migrator_manage_left(p, &c, LEFT_FAST_MAX);
}

/* Plan what is here of it, for @nid. false: something is left. */
static bool plan_job(struct migrator_pass_state *p, const struct job *job, int nid)
{
	struct tokens *rule = migrator_manage_tokens(p, job->manage.rule);
	struct migrator_target *t = &p->m->targets[nid];
	uint64_t taken = job->n * job->page_bytes, planned = 0;
	size_t left = 0;

	/* All of it at once, into debt with the rate: a region that was begun is better finished. */
	if (!tokens_take(&t->tokens, taken, clock_now_ns(p->m->params.clock))) {
		p->no_tokens = true;
		return false;
	}
	if (rule)
		tokens_take(rule, taken, clock_now_ns(p->m->params.clock));
	for (size_t i = 0; i < job->n; i++) {
		const struct hotness_candidate c = candidate_of(job, i);
		int r;

		if (t->room_bytes < c.page_bytes) {
			left = job->n - i;
			migrator_lacks_room(p, left * c.page_bytes);
			break;
		}
		if (!migrator_manage_take(p, job->manage.rule, c.page_bytes)) {
			for (; i < job->n; i++)
				leave_for_share(p, job, i);
			break;
		}
		r = plan_add(p->m->plan, &c, nid);
		if (r == -ENOSPC) {
			p->plan_full = true;
			left = job->n - i;
			break;
		}
		left += r == -EBUSY;
		if (r < 0)
			continue;
		t->room_bytes -= c.page_bytes;
		t->now.free_bytes -= c.page_bytes;
		planned += c.page_bytes;
	}
	tokens_put(&t->tokens, taken - planned);
	if (rule)
		tokens_put(rule, taken - planned);
	if (p->m->params.fair)
		fair_had_turn(p->m->params.fair, job->party, planned);
	if (!(job->region.decision & REGION_DECISION_TRIES))
		stats_add(p->m->params.stats, STAT_CANDIDATES, planned / PAGE_SIZE_BYTES);
	return left == 0;
}

/*
 * Regions from the next one on; once nothing goes for want of room, up to MISSES_MAX more, which are only asked what
 * they want: then true, and @ret_first is the first of those.
 */
static bool walk(struct migrator_pass_state *p, uint32_t *ret_first)
{
	struct migrator *m = p->m;
	uint32_t first = m->next_region;
	unsigned int misses = 0, skips = 0;
	bool wrapped = false, skipped = false, full = false;
	struct job job; /* 8 KiB */
	int nid = -1;

	for (unsigned int asked = 0;; asked += full) {
		uint32_t slot =
			decider_next(m->decider, m->params.nid, m->next_region, m->params.part, m->params.parts);

		/* Once round, from where the last scan stopped. */
		if (slot == DECIDER_NONE || (wrapped && slot >= first)) {
			m->next_region = slot == DECIDER_NONE ? 0 : slot;
			if (wrapped || first == 0)
				return full;
			wrapped = true;
			continue;
		}
		m->next_region = slot;
		if (!full && !migrator_anything_goes(p, clock_now_ns(m->params.clock))) {
			p->hot = true;
			full = migrator_what_is_missing(p);
			*ret_first = slot;
			if (!full)
				return false;
		}
		if (full && (asked == MISSES_MAX || !migrator_room_asks(p)))
			return true;
		if (find_job(p, slot, &job)) {
			enum migrator_manage may;

			if (rule_is_used_up(p, &job)) {
				p->hot = p->no_rule_tokens = true;
				m->next_region = slot + 1;
				if (++skips == SKIPS_MAX)
					return full;
				continue;
			}
			may = keep_those_managed(p, &job);

			/* What is left alone, or waits to be looked at, is for itself. */
			p->hot = p->hot || may == MIGRATOR_MAY_MOVE;

			if (may == MIGRATOR_MAY_MOVE && job.manage.verdict == MANAGE_OBSERVE && !p->observing) {
				only_observe(p, &job);
				job.n = 0;
			} else if (may == MIGRATOR_WAITS ||
				   (may == MIGRATOR_MAY_MOVE && (nid = place_for(p, &job, &skipped)) < 0)) {
				m->next_region = slot + 1;
				if ((may == MIGRATOR_MAY_MOVE ? skipped : p->in_peace) ? ++skips == SKIPS_MAX
										       : ++misses == MISSES_MAX)
					return full;
				continue;
			}
		}
		if (job.n > 0 && keep_those_here(p, &job) > 0) {
			if (!plan_job(p, &job, nid)) {
				/* What is left of it goes on with it, unless it is this one that can't. */
				if (p->plan_full)
					return full;
				m->next_region = slot + 1;
				continue;
			}
		}
		decider_done(m->decider, m->params.nid, slot, p->observing);
		m->next_region = slot + 1;
	}
}

void migrator_regions(struct migrator_pass_state *p)
{
	uint32_t first;

	/* They were only asked; where none of them wants any, others come first the next time. */
	if (p->by_region && walk(p, &first) && p->wants_bytes > 0)
		p->m->next_region = first;
}
