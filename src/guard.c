/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "cleanup.h"
#include "clock.h"
#include "config.h"
#include "guard.h"
#include "guard_owners.h"
#include "message.h"
#include "parse.h"
#include "sample.h"
#include "stats.h"

#define MARKS          65536
#define JUDGE_PART     64 /* nothing is judged before so small a part of the fast memory was moved, */
#define JUDGE_MIN      (UINT64_C(8) << 20)
#define FORGET_NS      (120 * NSEC_PER_SEC) /* and what was moved in longer than this says nothing together */
#define BACK_MIN       40                   /* pages that are remembered, of which a share is a share */
#define AGAINST_PART   2                    /* demoted against promoted: at least half */
#define GAIN_PART      4 /* the least gain: a quarter of what as much of evenly hot memory as fast memory would have */
#define BAD_TIMES      2
#define HELP_BAD_TIMES 3 /* windows of the comparison */
#define SIGMAS         2.0
#define NEAR_SEEN      100 /* one sample in so many falls on fast nodes at least, or the source doesn't show them */

const char *const guard_cause_text[GUARD_CAUSES] = {
	[GUARD_NONE] = "",
	[GUARD_AGAINST] = "as much is demoted as is promoted, and nothing is won by it",
	[GUARD_COST] = "moving what is hot would take more than it saves",
	[GUARD_HOLDOUT] = "what is moved does no better than what is held out",
	[GUARD_PING_PONG] = "pages are promoted again that were demoted a moment ago",
};

struct mark {
	uint64_t key; /* 0: none */
	uint64_t ns;
};

/* What was counted up to a moment. */
struct counts {
	uint64_t ns;
	uint64_t promoted_pages, demoted_pages; /* demoted by the kernel and by us */
	uint64_t far, near;                     /* samples */
	uint64_t faults, hardware;              /* samples by source */
	uint64_t up, back;                      /* remembered pages, of any size */
};

struct guard {
	struct guard_params params;

	/* The stepping thread's own. */
	uint64_t step_ns;
	struct counts back_from; /* what is judged of ping-pong, and */
	struct counts from;      /* what is judged now began here, */
	struct counts middle;    /* and the share of samples is compared before and after this */
	bool began, has_middle;
	unsigned int bad; /* judgments in a row that nothing is won */
	uint64_t vmstat_pages, hold_ns;
	unsigned int times; /* it was held for, one right after the other */

	_Atomic uint64_t demoted_pages; /* relaxed, all */
	_Atomic uint64_t up, back;
	_Atomic uint64_t until_ns;
	_Atomic uint32_t cause;
	uint64_t help_windows, help_ns,
		help_move_ns;  /* when the comparison was last looked at, and what moves had taken */
	unsigned int help_bad; /* windows in a row in which it didn't help */

	_Atomic uint32_t move_permyriad; /* UINT32_MAX: not known */
	_Atomic bool pays_not;
	_Atomic uint32_t back_permille; /* UINT32_MAX: not known */

	struct guard_owners *owners;

	pthread_mutex_t lock;
	struct mark mark[MARKS]; /* under the lock */
};

struct guard *guard_new(const struct guard_params *params)
{
	struct guard *g = calloc(1, sizeof(*g));

	if (!g)
		return NULL;
	g->params = *params;
	atomic_init(&g->back_permille, UINT32_MAX);
	atomic_init(&g->move_permyriad, UINT32_MAX);
	pthread_mutex_init(&g->lock, NULL);
	g->owners = guard_owners_new(params->owners);
	if (!g->owners) {
		guard_free(g);
		return NULL;
	}
	return g;
}

void guard_free(struct guard *g)
{
	if (!g)
		return;
	guard_owners_free(g->owners);
	pthread_mutex_destroy(&g->lock);
	free(g);
}

static uint64_t get(const _Atomic uint64_t *word)
{
	return atomic_load_explicit(word, memory_order_relaxed);
}

enum guard_cause guard_holds(const struct guard *g)
{
	return (enum guard_cause)atomic_load_explicit(&g->cause, memory_order_relaxed);
}

void guard_look(const struct guard *g, struct guard_view *ret)
{
	uint64_t now_ns = clock_now_ns(g->params.clock), until_ns = get(&g->until_ns);
	uint32_t move = atomic_load_explicit(&g->move_permyriad, memory_order_relaxed);
	uint32_t permille = atomic_load_explicit(&g->back_permille, memory_order_relaxed);

	*ret = (struct guard_view){
		.cause = guard_holds(g),
		.back_ratio = permille == UINT32_MAX ? -1 : permille / 1000.0,
		.kernel_demoted_pages = get(&g->demoted_pages),
		.move_ratio = move == UINT32_MAX ? -1 : move / 10000.0,
	};
	if (ret->cause != GUARD_NONE)
		ret->left_ns = until_ns > now_ns ? until_ns - now_ns : 0;
	else if (atomic_load_explicit(&g->pays_not, memory_order_relaxed))
		ret->cause = GUARD_COST;
	ret->n_resting = guard_owners_look(g->owners, now_ns, ret->resting, GUARD_SHOWN_MAX);
}

bool guard_rests(const struct guard *g, const struct config *config, uint32_t owner_slot, uint64_t start_ticks,
		 uint64_t now_ns)
{
	return guard_owners_rests(g->owners, config, owner_slot, start_ticks, now_ns);
}

void guard_note_up(struct guard *g, uint32_t owner_slot, uint64_t start_ticks, uint64_t addr, uint64_t now_ns)
{
	uint64_t key = ((uint64_t)owner_slot + 1) << 40 ^ addr >> PAGE_SHIFT ^ start_ticks << 13, was_ns;
	struct mark *mark;
	bool back;

	key *= UINT64_C(0x9e3779b97f4a7c15);
	key ^= key >> 32;
	key *= UINT64_C(0xd6e8feb86659fd93);
	if (key >> 58 != 0 || key == 0) /* one in 64 */
		return;
	mark = &g->mark[key % MARKS];
	pthread_mutex_lock(&g->lock);
	was_ns = mark->key == key ? mark->ns : 0;
	back = was_ns && now_ns - was_ns < GUARD_BACK_NS;
	*mark = (struct mark){ key, now_ns };
	pthread_mutex_unlock(&g->lock);
	atomic_fetch_add_explicit(&g->up, 1, memory_order_relaxed);
	if (back)
		atomic_fetch_add_explicit(&g->back, 1, memory_order_relaxed);
	guard_owners_note(g->owners, owner_slot, start_ticks, back, now_ns);
}

void guard_note_down(struct guard *g, uint32_t owner_slot, uint64_t start_ticks, uint64_t bytes)
{
	guard_owners_note_down(g->owners, owner_slot, start_ticks, bytes);
}

void guard_note_cost(struct guard *g, bool pays_not)
{
	if (pays_not == atomic_load_explicit(&g->pays_not, memory_order_relaxed))
		return;
	atomic_store_explicit(&g->pays_not, pays_not, memory_order_relaxed);
	if (pays_not)
		stats_inc(g->params.counted, STAT_GUARD_COST);
	message(MESSAGE_GUARD, NULL, 0,
		pays_not ? "%s: nothing of it is moved until that changes" : "no longer: %s; what pays is moved again",
		guard_cause_text[GUARD_COST]);
}

/* Sum of pgdemote_*; 0: the kernel counts none. */
static uint64_t read_demoted(const struct guard *g)
{
	_cleanup_free_ char *text = NULL;
	char *rest, *line;
	uint64_t sum = 0;

	if (fsroot_read_alloc(&g->params.root, &text, "proc/vmstat") < 0)
		return g->vmstat_pages;
	rest = text;
	while ((line = strsep(&rest, "\n"))) {
		char *value = line, *name = strsep(&value, " ");
		uint64_t n;

		if (value && strncmp(name, "pgdemote_", strlen("pgdemote_")) == 0 &&
		    parse_u64(value, 0, UINT64_MAX, &n) == 0)
			sum += n;
	}
	return sum;
}

static void count(struct guard *g, uint64_t now_ns, struct counts *ret)
{
	uint64_t demoted = read_demoted(g), useful = stats_sum(g->params.stats, STAT_USEFUL);

	/* Counters only grow; and what was before the start is none of ours. */
	if (g->step_ns && demoted > g->vmstat_pages)
		atomic_fetch_add_explicit(&g->demoted_pages, demoted - g->vmstat_pages, memory_order_relaxed);
	g->vmstat_pages = demoted;
	*ret = (struct counts){
		.ns = now_ns,
		.promoted_pages = stats_sum(g->params.stats, STAT_PROMOTED_PAGES),
		.demoted_pages = get(&g->demoted_pages) + stats_sum(g->params.stats, STAT_DEMOTED_PAGES),
		.far = stats_sum(g->params.stats, STAT_RECORDED),
		.faults = stats_sum(g->params.stats, STAT_HINTFAULTS),
		.hardware = stats_sum(g->params.stats, STAT_HWHINTS),
		.up = get(&g->up),
		.back = get(&g->back),
	};
	ret->near = useful > ret->far ? useful - ret->far : 0;
}

/* Share of samples that fell on slow nodes, and its variance; below 0: too few. */
static double far_share(const struct counts *from, const struct counts *to, double *ret_variance)
{
	double far = (double)(to->far - from->far), all = far + (double)(to->near - from->near), share;

	if (all < 100)
		return -1;
	share = far / all;
	/* With one more of each: a share of nothing isn't certain. */
	*ret_variance = (share * (1 - share) + 1 / all) / all;
	return share;
}

/*
 * Does the share sink by what was moved? The first half of it is compared with the second. 1: it does, -1: surely less
 * than it would have to, 0: that can't be said yet.
 */
static int find_gain(const struct guard *g, const struct counts *now, uint64_t fast_bytes)
{
	double before_variance = 0, after_variance = 0, before, after, sigma, wanted;
	uint64_t moved = (now->promoted_pages - g->from.promoted_pages) * PAGE_SIZE_BYTES;

	before = far_share(&g->from, &g->middle, &before_variance);
	after = far_share(&g->middle, now, &after_variance);
	if (before < 0 || after < 0)
		return 0;
	sigma = sqrt(before_variance + after_variance);
	/* Between the middles of both halves half of it was moved. */
	wanted = (double)moved / 2 / (double)fast_bytes / GAIN_PART;
	if (before - after > SIGMAS * sigma)
		return 1;
	return before - after + SIGMAS * sigma < wanted ? -1 : 0;
}

/* Do samples tell what share of the accesses goes to slow nodes? A fault is no access. */
static bool shows_near(const struct counts *from, const struct counts *to)
{
	uint64_t faults = to->faults - from->faults;

	if (faults > 0 && faults >= to->hardware - from->hardware)
		return false;
	return (to->near - from->near) * NEAR_SEEN >= to->far - from->far;
}

static void begin_back(struct guard *g, const struct counts *now)
{
	g->back_from = *now;
	guard_owners_begin_recent(g->owners);
}

/* Does what is promoted come from where it was promoted to a moment ago, and not that of one process, which rests then?
 */
static enum guard_cause judge_back(struct guard *g, const struct config *config, const struct counts *now)
{
	uint64_t up = now->up - g->back_from.up, back = now->back - g->back_from.back;
	bool shown = shows_near(&g->back_from, now), bad, blamed;

	if (now->ns - g->back_from.ns >= FORGET_NS) {
		begin_back(g, now);
		return GUARD_NONE;
	}
	if (up < BACK_MIN)
		return GUARD_NONE;
	atomic_store_explicit(&g->back_permille, (uint32_t)(1000 * back / up), memory_order_relaxed);
	bad = !shown && config->guard_ping_pong_percent > 0 &&
	      (double)back * 100 >= config->guard_ping_pong_percent * (double)up;
	blamed = bad && guard_owners_blame_back(g->owners, config, now->ns, g->params.counted);
	begin_back(g, now);
	return bad && !blamed ? GUARD_PING_PONG : GUARD_NONE;
}

static enum guard_cause judge(struct guard *g, const struct counts *now, uint64_t fast_bytes, bool *ret_again)
{
	uint64_t promoted = now->promoted_pages - g->from.promoted_pages;
	bool sees_near = shows_near(&g->from, now);
	uint64_t demoted = now->demoted_pages - g->from.demoted_pages;
	uint64_t enough = fast_bytes / JUDGE_PART;
	int gain;

	*ret_again = false;
	if (enough < JUDGE_MIN)
		enough = JUDGE_MIN;
	if (!g->has_middle) {
		g->has_middle = promoted * PAGE_SIZE_BYTES >= enough / 2;
		g->middle = *now;
		return GUARD_NONE;
	}
	if (promoted < 2 * (g->middle.promoted_pages - g->from.promoted_pages))
		return GUARD_NONE;
	if (demoted < promoted / AGAINST_PART) {
		*ret_again = true;
		return GUARD_NONE;
	}
	gain = sees_near ? find_gain(g, now, fast_bytes) : 0;
	/* One time alone is what a program looks like that turns to other memory. */
	g->bad = gain < 0 ? g->bad + 1 : gain > 0 ? 0 : g->bad;
	*ret_again = gain != 0;
	g->middle = *now; /* what can't be said yet is said by twice as much */
	return g->bad >= BAD_TIMES ? GUARD_AGAINST : GUARD_NONE;
}

static void set_hold(struct guard *g, enum guard_cause cause, uint64_t until_ns)
{
	atomic_store_explicit(&g->until_ns, until_ns, memory_order_relaxed);
	atomic_store_explicit(&g->cause, (uint32_t)cause, memory_order_relaxed);
}

static const enum stat_id cause_stat[GUARD_CAUSES] = {
	[GUARD_AGAINST] = STAT_GUARD_AGAINST,
	[GUARD_PING_PONG] = STAT_GUARD_PING_PONG,
	[GUARD_HOLDOUT] = STAT_GUARD_HOLDOUT,
};

static void begin_hold(struct guard *g, const struct config *config, enum guard_cause cause, uint64_t now_ns)
{
	uint64_t sec = (uint64_t)config->guard_resume_after_sec;

	/* Held again soon after the last time: for twice as long. */
	if (g->hold_ns && now_ns < get(&g->until_ns) + sec * NSEC_PER_SEC)
		g->times = g->times * 2 < GUARD_HOLD_TIMES ? g->times * 2 : GUARD_HOLD_TIMES;
	else
		g->times = 1;
	sec *= g->times;
	g->hold_ns = now_ns;
	g->bad = 0;
	set_hold(g, cause, now_ns + sec * NSEC_PER_SEC);
	stats_inc(g->params.counted, cause_stat[cause]);
	message(MESSAGE_GUARD, NULL, 0, "a guard holds: %s. %s for %llu s%s; then it is tried again",
		guard_cause_text[cause], guard_stops_all(cause) ? "Nothing is moved" : "No room is made on fast nodes",
		(unsigned long long)sec,
		config->guard_action == GUARD_ACTION_SLOW ? ", but for a sixteenth of the usual" : "");
}

/* Whoever switches a guard off doesn't want to wait for what it holds. */
static bool is_switched_off(enum guard_cause cause, const struct config *config)
{
	return (cause == GUARD_PING_PONG && config->guard_ping_pong_percent <= 0) ||
	       (cause == GUARD_HOLDOUT && config->guard_holdout_percent <= 0);
}

void guard_step(struct guard *g, const struct config *config, uint64_t fast_bytes)
{
	uint64_t now_ns = clock_now_ns(g->params.clock);
	enum guard_cause cause;
	struct counts now;
	bool again = false;

	if (g->step_ns && now_ns - g->step_ns < GUARD_STEP_NS)
		return;
	count(g, now_ns, &now);
	g->step_ns = now_ns;
	/* What the others do without it is another thing than what was done until now. */
	if (guard_owners_step(g->owners, config, now_ns, g->params.counted)) {
		g->began = false;
		g->bad = 0;
		begin_back(g, &now);
	}
	if (guard_holds(g) != GUARD_NONE) {
		uint64_t most_ns = GUARD_HOLD_TIMES * (uint64_t)config->guard_resume_after_sec * NSEC_PER_SEC;

		if (now_ns < get(&g->until_ns) && now_ns - g->hold_ns < most_ns &&
		    !is_switched_off(guard_holds(g), config))
			return;
		set_hold(g, GUARD_NONE, now_ns);
		message(MESSAGE_GUARD, NULL, 0,
			"the guard lets go: what it held back is tried again, to see whether it pays now");
		g->began = false;
	}
	if (!g->began || now_ns - g->from.ns >= FORGET_NS) {
		if (!g->back_from.ns || g->hold_ns > g->back_from.ns)
			begin_back(g, &now);
		g->from = now;
		g->began = true;
		g->has_middle = false;
		return;
	}
	cause = judge_back(g, config, &now);
	if (cause == GUARD_NONE)
		cause = judge(g, &now, fast_bytes ? fast_bytes : 1, &again);
	if (cause == GUARD_AGAINST && guard_owners_blame(g->owners, config, now_ns, g->params.counted))
		g->bad = 0; /* the others go on */
	else if (cause != GUARD_NONE)
		begin_hold(g, config, cause, now_ns);
	if (cause != GUARD_NONE || again)
		g->began = false;
}

/* Is it sure that it doesn't help, or less than moving takes? */
static bool helps_not(const struct guard_help *help, double move_ratio)
{
	double most = help->saved + help->margin;

	if (most < 0)
		return true;
	/* In CPU time, at the far end of the interval. */
	return help->has_cpu && help->saved > 0 && move_ratio > help->cpu_back * most / help->saved;
}

void guard_note_help(struct guard *g, const struct config *config, const struct guard_help *help)
{
	uint64_t now_ns = clock_now_ns(g->params.clock), move_ns = stats_sum(g->params.stats, STAT_MOVE_NS);
	uint64_t moved_ns = move_ns - g->help_move_ns;
	double sec = (double)(now_ns - g->help_ns) / (double)NSEC_PER_SEC, move_ratio = -1;

	if (help->windows == g->help_windows)
		return;
	if (g->help_ns && sec > 0 && help->busy_sec > 0)
		move_ratio = (double)moved_ns / (double)NSEC_PER_SEC / sec / help->busy_sec;
	atomic_store_explicit(&g->move_permyriad, move_ratio < 0 ? UINT32_MAX : (uint32_t)(move_ratio * 10000),
			      memory_order_relaxed);
	g->help_windows = help->windows;
	g->help_ns = now_ns;
	g->help_move_ns = move_ns;
	if (guard_holds(g) != GUARD_NONE) {
		g->help_bad = 0;
		return;
	}
	/* Where nothing moves there is nothing to hold. */
	g->help_bad = help->known && moved_ns > 0 && helps_not(help, move_ratio) ? g->help_bad + 1 : 0;
	if (g->help_bad < HELP_BAD_TIMES)
		return;
	g->help_bad = 0;
	begin_hold(g, config, GUARD_HOLDOUT, now_ns);
	g->began = false;
}
