/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "clock.h"
#include "policy_density.h"
#include "policy_region.h"
#include "sample.h"

#define RUNS_MAX      2048
#define CLASSES_MAX   4096
#define GAP_REGIONS   64  /* 128 MiB: neighbours further apart belong to different mappings, as far as we know */
#define RUN_MIN       8   /* regions; smaller ones join a neighbour */
#define CLASS_BASE    8.0 /* regions that the run's density counts for in its classes */
#define RUN_BASE      1.0
#define LEVEL_MIN     (-12) /* octaves of samples a second */
#define LEVELS        24
#define BURST_SAMPLES 8 /* more in the first second are a first touch or a stream until later ones say otherwise */
#define FORGET_NS     (256 * NSEC_PER_SEC)
#define SAMPLES_MANY  4000
#define BEFORE_SEC    32.0 /* what its earlier heat counts for */
#define UNDECIDED_NS \
	(30 * NSEC_PER_SEC) /* after that, or that many samples, what is rather scattered moves by pages; */
#define UNDECIDED_MAX 64
#define UNDECIDED_END 256    /* and after that many, what is rather dense, too */
#define PART_PAGES    6      /* distinct ones, before a part is looked for */
#define PART_LOG_ODDS 6.0    /* e^6: one in 400 dense regions looks like a part by chance */
#define PICKED_RATIO  8      /* samples to a page: then what was seen once is no part of the hot set */
#define WARM          0.7071 /* half an octave below the threshold still goes where there is room, */
#define PATIENCE      2.0 /* but at first it takes so much more than the threshold: what goes early can't be taken back */
#define HUGE_PART                                                                                           \
	8.0 /* what a page of a huge page takes to move, of what one by itself takes: at least so much less \
	     */
#define PATIENCE_SEC 30.0 /* until it was watched for long */

/* Neighbours of one owner. */
struct run {
	uint64_t first_key, last_key;
	size_t first, n; /* in order */
	size_t first_class, n_classes;
	struct density density;
};

struct class
{
	int level;
	struct density density;
};

struct ordered {
	uint64_t key;
	uint32_t view;
	int32_t level;
};

struct policy_region {
	struct heat heat;
	struct heat_counts counts;
	double latency; /* cycles, mean of all; 0: none known */
	size_t n_runs, n_classes;
	struct run run[RUNS_MAX];
	struct class class[CLASSES_MAX];
	struct ordered ordered[POLICY_VIEWS_MAX];
	struct density_class pool;
};

struct policy_region *policy_region_new(void)
{
	struct policy_region *p = calloc(1, sizeof(*p));

	if (p)
		p->heat.ground = -1;
	return p;
}

void policy_region_free(struct policy_region *policy)
{
	free(policy);
}

const struct heat *policy_region_heat(const struct policy_region *policy)
{
	return &policy->heat;
}

static uint64_t owner_of(uint64_t key)
{
	return key >> 36;
}

/*
 * The later samples and the time in which they came. What came in bursts counts by the seconds that had some: a steady
 * stream of n samples in t seconds falls into t (1 - exp(-n / t)) different ones.
 */
static void rate_of(const struct region_evidence *e, double *ret_samples, double *ret_sec)
{
	double sec = (double)e->watched_ns / 1e9, samples = e->later;

	if (sec > 4 && e->seconds < 127 && e->seconds + 1 < sec) {
		double steady = sec * (1 - exp(-samples / sec));

		if (e->seconds * 2 < steady)
			samples = -sec * log(1 - e->seconds / sec);
	}
	if (e->before_per_sec >= 0) {
		samples += e->before_per_sec * BEFORE_SEC;
		sec += BEFORE_SEC;
	}
	*ret_samples = samples;
	*ret_sec = sec;
}

static int level_of(const struct region_evidence *e)
{
	double samples, sec;
	int level;

	rate_of(e, &samples, &sec);
	level = (int)floor(log2((samples + 0.5) / (sec + 0.5))) - LEVEL_MIN;
	return level < 0 ? 0 : level >= LEVELS ? LEVELS - 1 : level;
}

static bool is_huge(const struct hotness_view *view)
{
	return view->page_bytes > PAGE_SIZE_BYTES;
}

/* Its samples say how dense the heat is. */
static bool tells_density(const struct hotness_view *view)
{
	return !is_huge(view) && !view->evidence.by_faults && view->evidence.first <= BURST_SAMPLES &&
	       view->evidence.samples >= 2;
}

static int compare_keys(const void *a, const void *b)
{
	const struct ordered *x = a, *y = b;

	return x->key < y->key ? -1 : x->key > y->key;
}

static void put_in_order(struct policy_region *p, const struct hotness_view *views, size_t n)
{
	for (size_t i = 0; i < n; i++)
		p->ordered[i] = (struct ordered){ .key = views[i].key,
						  .view = (uint32_t)i,
						  .level = level_of(&views[i].evidence) };
	qsort(p->ordered, n, sizeof(p->ordered[0]), compare_keys);
}

/* true when @next belongs to @run: the same owner, and near, or one of the two is too small to stand alone. */
static bool belongs(const struct run *run, uint64_t key, uint32_t parts, bool has_room)
{
	if (owner_of(run->last_key) != owner_of(key))
		return !has_room;
	return key - run->last_key <= (uint64_t)GAP_REGIONS * parts || run->n < RUN_MIN || !has_room;
}

static void find_runs(struct policy_region *p, size_t n, uint32_t parts)
{
	p->n_runs = 0;
	for (size_t i = 0; i < n; i++) {
		struct run *run = p->n_runs ? &p->run[p->n_runs - 1] : NULL;

		if (run && belongs(run, p->ordered[i].key, parts, p->n_runs < RUNS_MAX)) {
			run->n++;
			run->last_key = p->ordered[i].key;
			continue;
		}
		/* The one before stays small at the end of its owner's memory: it joins the one before that. */
		if (run && run->n < RUN_MIN && p->n_runs > 1 && owner_of(run[-1].last_key) == owner_of(run->last_key)) {
			run[-1].n += run->n;
			run[-1].last_key = run->last_key;
			p->n_runs--;
		}
		p->run[p->n_runs++] = (struct run){
			.first_key = p->ordered[i].key, .last_key = p->ordered[i].key, .first = i, .n = 1
		};
	}
}

/* @level below 0: all of them. */
static void pool(struct policy_region *p, const struct hotness_view *views, const struct run *run, int level)
{
	density_class_clear(&p->pool);
	for (size_t i = run->first; i < run->first + run->n; i++) {
		const struct hotness_view *view = &views[p->ordered[i].view];

		if ((level < 0 || p->ordered[i].level == level) && tells_density(view))
			density_class_add(&p->pool, view->evidence.samples, view->pages);
	}
}

static void fit_run(struct policy_region *p, const struct hotness_view *views, struct run *run)
{
	struct density flat;
	bool has[LEVELS] = { false };

	density_flat(&flat);
	pool(p, views, run, -1);
	density_fit(&p->pool, &flat, RUN_BASE, &run->density);
	run->first_class = p->n_classes;
	run->n_classes = 0;
	for (size_t i = run->first; i < run->first + run->n; i++)
		has[p->ordered[i].level] = true;
	for (int level = 0; level < LEVELS && p->n_classes < CLASSES_MAX; level++) {
		struct class *class = &p->class[p->n_classes];

		if (!has[level])
			continue;
		pool(p, views, run, level);
		if (p->pool.regions == 0)
			continue;
		class->level = level;
		density_fit(&p->pool, &run->density, CLASS_BASE, &class->density);
		p->n_classes++;
		run->n_classes++;
	}
}

static const struct run *find_run(const struct policy_region *p, uint64_t key)
{
	size_t low = 0, high = p->n_runs;

	/* The last one that begins at or before @key. */
	while (low < high) {
		size_t mid = (low + high) / 2;

		if (p->run[mid].first_key <= key)
			low = mid + 1;
		else
			high = mid;
	}
	if (low > 0 && owner_of(p->run[low - 1].last_key) == owner_of(key))
		return &p->run[low - 1];
	if (low < p->n_runs && owner_of(p->run[low].first_key) == owner_of(key))
		return &p->run[low];
	return NULL;
}

bool policy_region_knows(const struct policy_region *p, uint64_t key)
{
	const struct run *run = find_run(p, key);

	return run && key + GAP_REGIONS >= run->first_key && key <= run->last_key + GAP_REGIONS;
}

static const struct density *density_of(const struct policy_region *p, uint64_t key, int level)
{
	static const struct density flat = { .weight = { [0 ... DENSITY_STEPS - 1] = 1.0 / DENSITY_STEPS } };
	const struct run *run = find_run(p, key);

	if (!run)
		return &flat;
	for (size_t i = run->first_class; i < run->first_class + run->n_classes; i++)
		if (p->class[i].level == level)
			return &p->class[i].density;
	return &run->density;
}

/* How much of it is on the fast tier, as far as it is known without asking the kernel. */
static double near_part(const struct hotness_view *view, uint64_t lower_nodes)
{
	if (!(view->nodes & lower_nodes))
		return 1;
	/* Moved a moment ago: samples that say so are still to come. */
	if (view->decision & REGION_DECISION_DONE)
		return 1;
	return view->nodes & ~lower_nodes ? 1 - view->evidence.far_part : 0;
}

void policy_region_fit(struct policy_region *p, const struct policy_region_params *params,
		       const struct hotness_view *views, size_t n, uint32_t parts, uint64_t room_bytes)
{
	double near_bytes = 0, latency = 0, with_latency = 0;

	assert(n <= POLICY_VIEWS_MAX && parts > 0);
	put_in_order(p, views, n);
	find_runs(p, n, parts);
	p->n_classes = 0;
	for (size_t i = 0; i < p->n_runs; i++)
		fit_run(p, views, &p->run[i]);

	heat_clear(&p->counts);
	for (size_t i = 0; i < n; i++) {
		const struct hotness_view *view = &views[p->ordered[i].view];
		const struct region_evidence *e = &view->evidence;
		double share = is_huge(view) ? 1 : density_mean(density_of(p, view->key, p->ordered[i].level));
		double bytes = share * (double)REGION_BYTES * parts, near = near_part(view, params->lower_nodes);
		double samples, sec;

		near_bytes += near * bytes;
		if (e->latency) {
			latency += e->latency;
			with_latency++;
		}
		/* Too short to say anything, or only a first second so far. */
		if (e->watched_ns == 0 || e->first > BURST_SAMPLES || e->by_faults)
			continue;
		rate_of(e, &samples, &sec);
		heat_add(&p->counts, samples, sec, near * bytes, (1 - near) * bytes);
	}
	p->latency = with_latency > 0 ? latency / with_latency : 0;
	heat_fit(&p->counts, (double)room_bytes + near_bytes, &p->heat);
}

/*
 * The part of the region that its samples keep to, as blocks: n pages at random in all of it leave gaps of 1/n of it at
 * both ends; when far larger ones are left, it is a part that ends a usual gap outside of them.
 */
static unsigned int find_part(const struct hotness_view *view, unsigned int *ret_first, unsigned int *ret_last)
{
	unsigned int span = view->last_page - view->first_page + 1u, gap;
	double odds;

	*ret_first = 0;
	*ret_last = REGION_PAGES / REGION_BLOCK_PAGES - 1;
	if (view->pages < PART_PAGES)
		return REGION_PAGES;
	odds = (view->pages - 1) * log((double)REGION_PAGES / span) - log(view->pages);
	if (odds < PART_LOG_ODDS)
		return REGION_PAGES;
	gap = span / (view->pages - 1u);
	*ret_first = view->first_page > gap ? (view->first_page - gap) / REGION_BLOCK_PAGES : 0;
	if (view->last_page + gap < REGION_PAGES)
		*ret_last = (view->last_page + gap) / REGION_BLOCK_PAGES;
	return (*ret_last - *ret_first + 1) * REGION_BLOCK_PAGES;
}

/* Long enough for what can't be told: its pages one by one are never wrong, only slower. */
static bool has_waited(const struct region_evidence *e, double dense)
{
	if (dense < 0.5)
		return e->watched_ns >= UNDECIDED_NS || e->samples >= UNDECIDED_MAX;
	return e->samples >= UNDECIDED_END;
}

static void decide_density(const struct policy_region *p, const struct policy_region_params *params,
			   const struct hotness_view *view, struct policy_region_decision *ret)
{
	const struct region_evidence *e = &view->evidence;
	unsigned int first, last, of = find_part(view, &first, &last);
	struct density own;
	uint32_t kind;

	density_posterior(density_of(p, view->key, level_of(e)), e->samples, view->pages, of, &own);
	ret->share = density_mean(&own);
	ret->dense = density_at_least(&own, POLICY_DENSE);
	ret->reason = REGION_IS_HOT;
	if (ret->dense >= params->confidence) {
		ret->decision = REGION_DECISION(REGION_DECISION_WHOLE, first, last, e->target_nid);
		return;
	}
	if (1 - ret->dense < params->confidence && !has_waited(e, ret->dense)) {
		ret->reason = REGION_UNCERTAIN;
		return;
	}
	kind = e->samples >= view->pages * PICKED_RATIO ? REGION_DECISION_PICKED : REGION_DECISION_PAGES;
	ret->decision = REGION_DECISION(kind, 0, REGION_PAGES / REGION_BLOCK_PAGES - 1, e->target_nid);
}

/* How much more a stall there costs than elsewhere. */
static double latency_weight(const struct policy_region *p, const struct region_evidence *e)
{
	double weight = p->latency > 0 && e->latency ? e->latency / p->latency : 1;

	return weight < 0.5 ? 0.5 : weight > 2 ? 2 : weight;
}

bool policy_region_is_stale(const struct hotness_view *view)
{
	const struct region_evidence *e = &view->evidence;

	/* Faults come a page at a time, and where they were is no burst. */
	if (e->by_faults)
		return false;
	return (e->first > BURST_SAMPLES && e->watched_ns > 0) || e->watched_ns > FORGET_NS ||
	       e->samples >= SAMPLES_MANY;
}

static unsigned int pages_to_move(const struct hotness_view *view, uint32_t decision)
{
	if ((decision & REGION_DECISION_KIND) != REGION_DECISION_WHOLE)
		return view->pages;
	return (REGION_DECISION_LAST(decision) - REGION_DECISION_FIRST(decision) + 1) * REGION_BLOCK_PAGES;
}

/* As if no two accesses ever overlapped, so what is left surely doesn't pay. */
static bool pays(const struct policy_region_params *params, const struct hotness_view *view, double rate,
		 uint32_t decision)
{
	double cost_ns = params->page_ns * pages_to_move(view, decision) / (is_huge(view) ? HUGE_PART : 1);

	if (params->page_ns <= 0 || params->sample_ns <= 0 || params->life_sec <= 0)
		return true;
	return rate * params->life_sec * params->sample_ns >= cost_ns;
}

static void judge(const struct policy_region *p, const struct policy_region_params *params,
		  const struct hotness_view *view, struct policy_region_decision *ret)
{
	const struct region_evidence *e = &view->evidence;
	struct heat_region heat;
	double samples, sec;

	*ret = (struct policy_region_decision){ .reason = REGION_ONE_EPOCH };
	if (view->page_bytes > REGION_BYTES) {
		ret->reason = REGION_GIANT;
		return;
	}
	if (e->by_faults) {
		ret->reason = REGION_FAULTS;
		return;
	}
	if (policy_region_is_stale(view)) {
		ret->forget = true;
		ret->reason = REGION_STALE;
		/* What has aged well may be judged once more; a burst may not. */
		if (e->first > BURST_SAMPLES)
			return;
	}
	if (e->later == 0 || e->span_ns < params->epoch_ns) {
		ret->reason = REGION_ONE_EPOCH;
		return;
	}
	rate_of(e, &samples, &sec);
	heat_judge(&p->heat, samples, sec, &heat);
	ret->rate = heat.mean_rate;
	/* Most regions are cold: what few mistakes among them come to must stay small against the hot ones. */
	if (heat.above_ground < 1 - (1 - params->confidence) / 5) {
		ret->reason = REGION_BACKGROUND;
		return;
	}
	if (!params->fits &&
	    heat.mean_rate * latency_weight(p, e) < p->heat.threshold * (WARM + PATIENCE * exp(-sec / PATIENCE_SEC))) {
		ret->reason = REGION_COOLER;
		return;
	}
	if (is_huge(view)) {
		ret->share = ret->dense = 1;
		ret->reason = REGION_IS_HOT;
		ret->decision =
			REGION_DECISION(REGION_DECISION_WHOLE, 0, REGION_PAGES / REGION_BLOCK_PAGES - 1, e->target_nid);
		return;
	}
	decide_density(p, params, view, ret);
}

void policy_region_decide(const struct policy_region *p, const struct policy_region_params *params,
			  const struct hotness_view *view, struct policy_region_decision *ret)
{
	judge(p, params, view, ret);
	if (ret->decision && !pays(params, view, ret->rate, ret->decision)) {
		ret->decision = 0;
		ret->reason = REGION_PAYS_NOT;
	}
}
