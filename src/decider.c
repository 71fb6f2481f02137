/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <assert.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "clock.h"
#include "decider.h"
#include "evidence.h"
#include "hotness.h"
#include "hotness_regions.h"
#include "nodeset.h"
#include "policy_life.h"
#include "rcu.h"
#include "sample.h"
#include "slotset.h"
#include "stats.h"
#include "tablemem.h"

#define SLOTS_AT_ONCE   1024
#define GROWTH_PART     8   /* evidence that grew by an eighth is worth a new look */
#define NEWCOMERS_PART  10  /* so is one region in ten that nothing is known of */
#define PAYS_NOT_PASSES 5   /* in a row with nothing that pays, and something that doesn't: then promotion rests */
#define LATENCY_SAMPLES 200 /* on either tier: a mean of fewer says nothing */
#define PAYS_PART       0.7 /* of what a move takes must be saved at least; while promotion rests, all of it */
#define PAID_PART       8   /* so small a part of what is hot that pays is chance: its rate looked higher than it is */
#define SCATTERED_TURNS 4   /* epochs between two looks at a region whose pages are moved one by one */

_Static_assert(DECIDER_NONE == SLOTSET_NONE, "passed through");

/* A look at a region, from a pass. */
struct look {
	struct decider *decider;
	uint64_t now_ns;
};

struct decider {
	struct hotness *hotness;
	struct policy_region *policy;
	struct policy_life *life;
	_Atomic bool busy;        /* acquire to take it, release to leave it: what a pass wrote is the next one's */
	_Atomic uint64_t last_ns; /* of the last pass; relaxed, a hint outside of one */

	/* A pass's own. */
	struct unseen unseen;
	uint64_t epoch;
	uint64_t fit_epoch;
	uint64_t fit_samples; /* evidence at the last fit */
	bool wants_fit;
	double far_cycles, near_cycles; /* that accesses took, by samples; 0: not known */
	double page_ns, sample_ns;      /* as in struct policy_region_params, of the last pass */
	unsigned int unpaid;            /* passes in a row in which nothing paid */
	_Atomic bool pays_not;          /* relaxed: a moment's view */
	bool rested;                    /* all evidence is from before the policy was switched on */
	uint64_t by_reason[REGION_REASONS];
	struct hotness_view views[POLICY_VIEWS_MAX];
	uint32_t slots[SLOTS_AT_ONCE];

	/* What is to be moved, by node: made by a pass, release; acquire elsewhere. */
	_Atomic(struct slotset *) todo[NODE_MAX];

	pthread_mutex_t lock;
	struct decider_view view; /* under the lock */
};

struct decider *decider_new(struct hotness *hotness)
{
	struct decider *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->hotness = hotness;
	d->rested = true;
	pthread_mutex_init(&d->lock, NULL);
	d->policy = policy_region_new();
	d->life = policy_life_new();
	if (!d->policy || !d->life) {
		decider_free(d);
		return NULL;
	}
	return d;
}

void decider_free(struct decider *d)
{
	if (!d)
		return;
	for (int nid = 0; nid < NODE_MAX; nid++) {
		struct slotset *todo = atomic_load_explicit(&d->todo[nid], memory_order_relaxed);

		if (todo)
			slotset_done(todo);
		free(todo);
	}
	policy_region_free(d->policy);
	policy_life_free(d->life);
	pthread_mutex_destroy(&d->lock);
	free(d);
}

void decider_rest(struct decider *d)
{
	hotness_set_by_region(d->hotness, false);
}

static struct slotset *todo_of(struct decider *d, int nid)
{
	assert(nid >= 0 && nid < NODE_MAX);
	return atomic_load_explicit(&d->todo[nid], memory_order_acquire);
}

/* Made when the first region is to be moved from there; NULL: no memory, and it is tried again with its next sample. */
static struct slotset *make_todo(struct decider *d, int nid)
{
	struct slotset *todo = todo_of(d, nid);

	if (todo)
		return todo;
	todo = calloc(1, sizeof(*todo));
	if (!todo)
		return NULL;
	if (slotset_init(todo, &tablemem_libc) < 0) {
		free(todo);
		return NULL;
	}
	atomic_store_explicit(&d->todo[nid], todo, memory_order_release);
	return todo;
}

/* Slow nodes as the mask that regions have of the nodes they were seen on. */
static uint64_t node_mask(const struct nodeset *nodes)
{
	uint64_t mask = 0;

	nodeset_for_each (nid, nodes)
		mask |= UINT64_C(1) << (nid < 63 ? nid : 63);
	return mask;
}

static void ask_for(struct decider *d, const struct decider_input *input, const struct hotness_view *view)
{
	nodeset_for_each (nid, input->lower) {
		struct slotset *todo;

		if (!(view->nodes >> (nid < 63 ? nid : 63) & 1))
			continue;
		todo = make_todo(d, nid);
		if (todo)
			slotset_add(todo, view->slot);
	}
}

static bool is_asked_for(struct decider *d, const struct decider_input *input, uint32_t slot)
{
	nodeset_for_each (nid, input->lower) {
		const struct slotset *todo = todo_of(d, nid);

		if (todo && slotset_has(todo, slot))
			return true;
	}
	return false;
}

static bool decide(struct decider *d, const struct hotness_view *view, uint32_t next)
{
	bool done;

	if (next == view->decision)
		return true;
	rcu_enter();
	done = hotness_decide(d->hotness, view->slot, view->decision, next);
	rcu_leave();
	return done;
}

/* The larger of two parts of a region. */
static uint32_t unite(uint32_t a, uint32_t b)
{
	uint32_t first = REGION_DECISION_FIRST(a), last = REGION_DECISION_LAST(a);

	if (REGION_DECISION_FIRST(b) < first)
		first = REGION_DECISION_FIRST(b);
	if (REGION_DECISION_LAST(b) > last)
		last = REGION_DECISION_LAST(b);
	return REGION_DECISION(REGION_DECISION_WHOLE, first, last, REGION_DECISION_NID(b));
}

/*
 * Samples still come from the slow node though the region was asked for: from before it was moved, or pages of it can't
 * move, or were moved back. It is asked for again, each time after twice as many epochs.
 */
static void ask_again(struct decider *d, const struct decider_input *input, const struct hotness_view *view)
{
	uint32_t tries = (view->decision & REGION_DECISION_TRIES) / REGION_DECISION_TRY;
	uint32_t next = view->decision & ~REGION_DECISION_DONE;

	if (input->observing && (view->decision & REGION_DECISION_NOTED))
		return;
	if (is_asked_for(d, input, view->slot) || (d->epoch + view->slot) % (1U << tries))
		return;
	next &= ~REGION_DECISION_NOTED;
	if ((next & REGION_DECISION_TRIES) != REGION_DECISION_TRIES)
		next += REGION_DECISION_TRY;
	if (!decide(d, view, next))
		return;
	ask_for(d, input, view);
	stats_inc(input->stats, STAT_REGIONS_AGAIN);
}

static bool is_whole(uint32_t decision)
{
	return (decision & REGION_DECISION_KIND) == REGION_DECISION_WHOLE;
}

static bool is_all(uint32_t decision)
{
	return is_whole(decision) && REGION_DECISION_FIRST(decision) == 0 &&
	       REGION_DECISION_LAST(decision) == REGION_PAGES / REGION_BLOCK_PAGES - 1;
}

static void judge(struct decider *d, const struct decider_input *input, const struct policy_region_params *params,
		  const struct hotness_view *view, bool fits, uint64_t now_ns)
{
	struct policy_region_params params_of_it = *params;
	uint32_t before = view->decision, kind = before & REGION_DECISION_KIND, next;
	struct policy_region_decision decision;

	if (is_all(before)) {
		ask_again(d, input, view);
		return;
	}
	if (kind != 0 && (d->epoch + view->slot) % SCATTERED_TURNS)
		return;
	params_of_it.fits = fits;
	policy_region_decide(d->policy, &params_of_it, view, &decision);
	d->by_reason[decision.reason]++;
	if (kind == 0 && (decision.decision || decision.reason == REGION_PAYS_NOT) && input->samples_per_sec > 0)
		policy_life_add(d->life, view->slot, view->key, decision.rate / input->samples_per_sec, now_ns);
	next = before | (decision.forget ? REGION_DECISION_FORGET : 0);
	if (!decision.decision || (is_whole(before) && !is_whole(decision.decision))) {
		(void)decide(d, view, next);
		if (is_whole(before))
			ask_again(d, input, view);
		return;
	}
	if (is_whole(before)) {
		uint32_t wider = unite(before, decision.decision);

		if (REGION_DECISION_FIRST(wider) == REGION_DECISION_FIRST(before) &&
		    REGION_DECISION_LAST(wider) == REGION_DECISION_LAST(before)) {
			ask_again(d, input, view);
			return;
		}
		decision.decision = wider;
	} else if ((decision.decision & REGION_DECISION_KIND) == kind) {
		(void)decide(d, view, next); /* nothing new */
		return;
	}
	if (!decide(d, view, (next & REGION_DECISION_FORGET) | decision.decision))
		return;
	if (is_whole(decision.decision))
		stats_inc(input->stats, STAT_REGIONS_WHOLE);
	else if (kind == 0)
		stats_inc(input->stats, STAT_REGIONS_PAGES);
	if ((decision.decision & REGION_DECISION_KIND) != REGION_DECISION_PICKED)
		ask_for(d, input, view);
}

/* What accesses take on slow nodes and on fast ones, by regions that are wholly here or there. */
static void learn_latency(struct decider *d, size_t n)
{
	double sum[2] = { 0 }, samples[2] = { 0 };

	for (size_t i = 0; i < n; i++) {
		const struct region_evidence *e = &d->views[i].evidence;
		int far = e->far_part >= 1 ? 1 : e->far_part <= 0 ? 0 : -1;

		if (far < 0 || e->latency == 0)
			continue;
		sum[far] += (double)e->latency * e->samples;
		samples[far] += e->samples;
	}
	if (samples[0] >= LATENCY_SAMPLES && samples[1] >= LATENCY_SAMPLES) {
		d->near_cycles = sum[0] / samples[0];
		d->far_cycles = sum[1] / samples[1];
	}
}

/* By firmware and by samples: the larger one, and nothing is left that might pay. */
static double sample_ns(const struct decider *d, const struct decider_input *input)
{
	double ns = input->latency_ns;

	if (input->cpu_khz > 0 && d->far_cycles > d->near_cycles)
		ns = fmax(ns, (d->far_cycles - d->near_cycles) * 1e6 / input->cpu_khz);
	return ns * input->accesses_per_sample;
}

/* Learn what is usual. Evidence too old to be used is begun anew meanwhile. */
static void fit(struct decider *d, const struct decider_input *input, const struct policy_region_params *params,
		uint64_t regions, uint64_t now_ns)
{
	uint32_t parts = (uint32_t)(regions / POLICY_VIEWS_MAX) + 1;
	size_t n;

	rcu_enter();
	n = hotness_views(d->hotness, (uint32_t)(d->epoch % parts), parts, now_ns, d->views, POLICY_VIEWS_MAX);
	for (size_t i = 0; i < n; i++) {
		const struct hotness_view *view = &d->views[i];

		if ((d->rested || policy_region_is_stale(view)) && !(view->decision & REGION_DECISION_FORGET))
			(void)hotness_decide(d->hotness, view->slot, view->decision,
					     view->decision | REGION_DECISION_FORGET);
	}
	rcu_leave();
	learn_latency(d, n);
	policy_region_fit(d->policy, params, d->views, d->rested ? 0 : n, parts, input->room_bytes);
	d->rested = false;
	d->fit_epoch = d->epoch;
	d->wants_fit = false;
	stats_inc(input->stats, STAT_REGION_FITS);
}

/* The region is another policy's. What was decided about it before that no longer holds. */
static bool is_others(struct decider *d, const struct decider_input *input, const struct hotness_view *view)
{
	bool others;

	if (!input->wants)
		return false;
	rcu_enter();
	others = !input->wants(input->ctx, hotness_view_owner(view));
	if (others && view->decision)
		(void)hotness_decide(d->hotness, view->slot, view->decision, 0);
	rcu_leave();
	return others;
}

static void judge_marked(struct decider *d, const struct decider_input *input,
			 const struct policy_region_params *params, uint64_t now_ns)
{
	uint64_t newcomers = 0, all = 0;
	uint32_t from = 0;

	for (int i = 0; i < REGION_REASONS; i++)
		d->by_reason[i] = 0;
	while (from != SLOTSET_NONE) {
		size_t n = hotness_take_marked(d->hotness, &from, d->slots, SLOTS_AT_ONCE);

		for (size_t i = 0; i < n; i++) {
			struct hotness_view view;
			bool found, fits;

			rcu_enter();
			found = hotness_view(d->hotness, d->slots[i], now_ns, &view);
			fits = found && input->fits && input->fits(input->ctx, hotness_view_owner(&view));
			rcu_leave();
			if (!found || is_others(d, input, &view))
				continue;
			all++;
			newcomers += !policy_region_knows(d->policy, view.key);
			judge(d, input, params, &view, fits, now_ns);
		}
	}
	if (newcomers * NEWCOMERS_PART > all)
		d->wants_fit = true;
}

/* How long ago the region had its last sample. */
static uint64_t idle_of(void *ctx, uint32_t slot, uint64_t key)
{
	struct look *look = ctx;
	struct hotness_view view;
	bool found;

	rcu_enter();
	found = hotness_view(look->decider->hotness, slot, look->now_ns, &view) && view.key == key;
	rcu_leave();
	return found ? view.idle_ns : UINT64_MAX;
}

/* Is there something hot, and none of it pays? */
static void note_unpaid(struct decider *d, const struct decider_input *input)
{
	uint64_t unpaid = d->by_reason[REGION_PAYS_NOT];

	stats_add(input->stats, STAT_PAYS_NOT, unpaid);
	if (d->by_reason[REGION_IS_HOT] * PAID_PART > unpaid)
		d->unpaid = d->unpaid > 1 ? d->unpaid - 1 : 0;
	else if (unpaid > 0 && d->unpaid < PAYS_NOT_PASSES)
		d->unpaid++;
	else if (unpaid == 0 && d->unpaid > 0)
		d->unpaid--;
	atomic_store_explicit(&d->pays_not, d->unpaid == PAYS_NOT_PASSES || (d->unpaid > 0 && decider_pays_not(d)),
			      memory_order_relaxed);
}

static void show(struct decider *d, const struct policy_region_params *params)
{
	const struct heat *heat = policy_region_heat(d->policy);

	pthread_mutex_lock(&d->lock);
	d->view.known = true;
	unseen_look(&d->unseen, &d->view.unseen);
	d->view.capacity_bytes = heat->capacity_bytes;
	for (int i = 0; i < 3; i++)
		d->view.hit_ratio[i] = heat_hit_ratio(heat, heat->capacity_bytes * (i + 1) / 2);
	d->view.threshold_per_sec = heat->threshold;
	d->view.worth_per_sec = heat_worth(heat);
	d->view.life_sec = policy_life_sec(d->life);
	d->view.pays_per_sec =
		params->sample_ns > 0 ? params->page_ns * REGION_PAGES / params->sample_ns / d->view.life_sec : 0;
	d->view.pays_not = decider_pays_not(d);
	d->view.worth_with_room_per_sec = heat_worth_with_room(heat);
	d->view.background_per_sec = heat->ground >= 0 ? heat_rate(heat->ground) : 0;
	for (int i = 0; i < REGION_REASONS; i++)
		d->view.by_reason[i] = d->by_reason[i];
	pthread_mutex_unlock(&d->lock);
}

bool decider_pays_not(const struct decider *d)
{
	return atomic_load_explicit(&d->pays_not, memory_order_relaxed);
}

static struct policy_region_params make_params(const struct decider *d, const struct decider_input *input)
{
	return (struct policy_region_params){
		.confidence = input->confidence,
		.epoch_ns = input->epoch_ns,
		.lower_nodes = node_mask(input->lower),
		.page_ns = d->page_ns * (decider_pays_not(d) ? 1 : PAYS_PART),
		.sample_ns = d->sample_ns,
		.life_sec = policy_life_sec(d->life),
	};
}

static void pass(struct decider *d, const struct decider_input *input, uint64_t now_ns)
{
	struct policy_region_params params;
	struct look look = { d, now_ns };
	struct hotness_usage usage;
	uint64_t samples;

	if (!hotness_is_by_region(d->hotness)) {
		d->rested = true;
		hotness_set_by_region(d->hotness, true);
	}
	d->epoch++;
	policy_life_step(d->life, idle_of, &look, input->samples_per_sec, now_ns);
	d->page_ns = input->page_ns;
	d->sample_ns = sample_ns(d, input);
	params = make_params(d, input);
	hotness_usage(d->hotness, &usage);
	unseen_step(&d->unseen, usage.far_samples, usage.far_novel);
	samples = usage.far_samples;
	if (d->rested || d->wants_fit || d->epoch - d->fit_epoch >= DECIDER_FIT_EPOCHS ||
	    samples - d->fit_samples > d->fit_samples / GROWTH_PART) {
		d->fit_samples = samples;
		fit(d, input, &params, usage.regions, now_ns);
	}
	judge_marked(d, input, &params, now_ns);
	note_unpaid(d, input);
	show(d, &params);
	stats_inc(input->stats, STAT_REGION_PASSES);
}

bool decider_run(struct decider *d, const struct decider_input *input, uint64_t now_ns)
{
	uint64_t last_ns = atomic_load_explicit(&d->last_ns, memory_order_relaxed);

	if (last_ns && now_ns - last_ns < input->epoch_ns)
		return false;
	if (atomic_exchange_explicit(&d->busy, true, memory_order_acquire))
		return false;
	/* Another one may have been through in between. */
	if (atomic_load_explicit(&d->last_ns, memory_order_relaxed) == last_ns) {
		atomic_store_explicit(&d->last_ns, now_ns, memory_order_relaxed);
		pass(d, input, now_ns);
	}
	atomic_store_explicit(&d->busy, false, memory_order_release);
	return true;
}

uint32_t decider_next(struct decider *d, int nid, uint32_t from, unsigned int part, unsigned int parts)
{
	struct slotset *todo = todo_of(d, nid);
	uint32_t slot;

	if (!todo || from >= SLOTSET_SLOTS)
		return DECIDER_NONE;
	for (slot = slotset_next(todo, from); slot != SLOTSET_NONE; slot = slotset_next(todo, slot + 1))
		if (slot % parts == part)
			break;
	return slot;
}

void decider_done(struct decider *d, int nid, uint32_t slot, bool noted)
{
	struct slotset *todo = todo_of(d, nid);
	struct hotness_view view;

	if (!todo)
		return;
	slotset_remove(todo, slot);
	rcu_enter();
	/* A decision that changed meanwhile is a new one, and will be asked for by itself. */
	if (hotness_view(d->hotness, slot, 0, &view) && is_whole(view.decision))
		(void)hotness_decide(d->hotness, slot, view.decision,
				     view.decision | (noted ? REGION_DECISION_NOTED : REGION_DECISION_DONE));
	rcu_leave();
}

void decider_again(struct decider *d, int nid, uint32_t slot)
{
	struct slotset *todo = todo_of(d, nid);

	if (todo)
		slotset_add(todo, slot);
}

bool decider_explain(struct decider *d, const struct decider_input *input, const struct hotness_view *view,
		     struct policy_region_decision *ret)
{
	struct policy_region_params params;

	/* As a pass takes it: what the last one learnt isn't changed meanwhile. */
	if (atomic_exchange_explicit(&d->busy, true, memory_order_acquire))
		return false;
	params = make_params(d, input);
	policy_region_decide(d->policy, &params, view, ret);
	atomic_store_explicit(&d->busy, false, memory_order_release);
	return true;
}

void decider_look(struct decider *d, struct decider_view *ret)
{
	uint64_t waiting = 0;

	pthread_mutex_lock(&d->lock);
	*ret = d->view;
	pthread_mutex_unlock(&d->lock);
	for (int nid = 0; nid < NODE_MAX; nid++) {
		const struct slotset *todo = todo_of(d, nid);

		if (todo)
			waiting += slotset_count(todo);
	}
	ret->waiting = waiting;
}
