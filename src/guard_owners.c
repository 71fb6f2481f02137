/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "config.h"
#include "guard.h"
#include "guard_owners.h"
#include "message.h"
#include "owners.h"
#include "rcu.h"
#include "stats.h"

#define WAYS       4  /* places that one process may have in the table */
#define BACK_MIN   40 /* remembered pages of which a share is a share */
#define BLAMED_MAX 4  /* one by one: where it is more of them it would take too long to come to rest */
#define FORGET_NS  (120 * NSEC_PER_SEC) /* what was counted in longer than this says nothing together */

struct entry {
	uint32_t owner_slot;
	uint64_t start_ticks;
	uint64_t from_ns; /* 0: nobody is here */
	uint32_t up, back;
	uint32_t recent_up, recent_back; /* since guard_owners_begin_recent() */
	uint64_t down_bytes;
	double back_ratio; /* when it began to rest */
	uint64_t hold_ns, until_ns;
	unsigned int times; /* it rested for, one right after the other; 0: never */
	bool rests;
	bool blamed; /* not by its own share that came back */
};

struct guard_owners {
	struct owners *owners;
	_Atomic uint32_t resting; /* relaxed: a late look lets a page more or less go */
	pthread_mutex_t lock;
	struct entry entry[GUARD_OWNERS_MAX]; /* under the lock */
};

struct guard_owners *guard_owners_new(struct owners *owners)
{
	struct guard_owners *g = calloc(1, sizeof(*g));

	if (!g)
		return NULL;
	g->owners = owners;
	pthread_mutex_init(&g->lock, NULL);
	return g;
}

void guard_owners_free(struct guard_owners *g)
{
	if (!g)
		return;
	pthread_mutex_destroy(&g->lock);
	free(g);
}

static size_t first_place(uint32_t owner_slot, uint64_t start_ticks)
{
	uint64_t hash = (owner_slot + start_ticks * UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xd6e8feb86659fd93);

	return (size_t)(hash >> 40) % (GUARD_OWNERS_MAX / WAYS) * WAYS;
}

/* With the lock; NULL: it isn't there. */
static const struct entry *find(const struct guard_owners *g, uint32_t owner_slot, uint64_t start_ticks)
{
	const struct entry *way = &g->entry[first_place(owner_slot, start_ticks)];

	for (int i = 0; i < WAYS; i++)
		if (way[i].from_ns && way[i].owner_slot == owner_slot && way[i].start_ticks == start_ticks)
			return &way[i];
	return NULL;
}

/* With the lock: the place of the process, or of the one with fewest pages that doesn't rest; NULL: all rest. */
static struct entry *find_place(struct guard_owners *g, uint32_t owner_slot, uint64_t start_ticks)
{
	struct entry *way = &g->entry[first_place(owner_slot, start_ticks)], *least = NULL;

	for (int i = 0; i < WAYS; i++) {
		if (way[i].from_ns && way[i].owner_slot == owner_slot && way[i].start_ticks == start_ticks)
			return &way[i];
		if (!way[i].from_ns || (!way[i].rests && (!least || (least->from_ns && way[i].up < least->up))))
			least = &way[i];
	}
	return least;
}

void guard_owners_note(struct guard_owners *g, uint32_t owner_slot, uint64_t start_ticks, bool back, uint64_t now_ns)
{
	struct entry *e;

	pthread_mutex_lock(&g->lock);
	e = find_place(g, owner_slot, start_ticks);
	if (e && (!e->from_ns || e->owner_slot != owner_slot || e->start_ticks != start_ticks))
		*e = (struct entry){ .owner_slot = owner_slot, .start_ticks = start_ticks, .from_ns = now_ns };
	if (e) {
		e->up++;
		e->back += back;
		e->recent_up++;
		e->recent_back += back;
	}
	pthread_mutex_unlock(&g->lock);
}

void guard_owners_note_down(struct guard_owners *g, uint32_t owner_slot, uint64_t start_ticks, uint64_t bytes)
{
	struct entry *e;

	pthread_mutex_lock(&g->lock);
	/* Of which nothing came up, of that nothing can go in circles. */
	e = (struct entry *)find(g, owner_slot, start_ticks);
	if (e)
		e->down_bytes += bytes;
	pthread_mutex_unlock(&g->lock);
}

bool guard_owners_rests(const struct guard_owners *g, const struct config *config, uint32_t owner_slot,
			uint64_t start_ticks, uint64_t now_ns)
{
	struct guard_owners *locked = (struct guard_owners *)g;
	const struct entry *e;
	bool rests;

	if (atomic_load_explicit(&g->resting, memory_order_relaxed) == 0)
		return false;
	if (config->guard_action == GUARD_ACTION_SLOW && now_ns / NSEC_PER_SEC % GUARD_SLOW_PART == 0)
		return false;
	pthread_mutex_lock(&locked->lock);
	e = find(g, owner_slot, start_ticks);
	rests = e && e->rests && now_ns < e->until_ns;
	pthread_mutex_unlock(&locked->lock);
	return rests;
}

/* Who it is, for people; pid 0: it has ended. */
static void name_owner(const struct guard_owners *g, struct guard_owner *ret)
{
	const struct owner *owner;

	ret->pid = 0;
	ret->comm[0] = '\0';
	if (!g->owners)
		return;
	rcu_enter();
	owner = owners_at(g->owners, ret->owner_slot);
	if (owner && owner->start_ticks == ret->start_ticks) {
		ret->pid = owner->pid;
		memcpy(ret->comm, owner->comm, sizeof(ret->comm));
	}
	rcu_leave();
}

static void say(const struct guard_owners *g, const struct entry *e, const struct config *config)
{
	struct guard_owner who = { .owner_slot = e->owner_slot, .start_ticks = e->start_ticks };
	struct log_field fields[] = { { "PGHOT_PID", NULL }, { "PGHOT_COMM", who.comm } };
	char pid[16], why[128] = "most of what goes up and down is its memory, and nothing is won by it";

	name_owner(g, &who);
	snprintf(pid, sizeof(pid), "%u", who.pid);
	fields[0].value = pid;
	if (!e->rests) {
		message(MESSAGE_GUARD_PROCESS, fields, 2,
			"process %s (%s): its memory is promoted again, to see whether it stays now", pid, who.comm);
		return;
	}
	if (!e->blamed)
		snprintf(why, sizeof(why), "%.0f%% of what is promoted of it was promoted less than a minute before",
			 100 * e->back_ratio);
	message(MESSAGE_GUARD_PROCESS, fields, 2,
		"process %s (%s): %s. %s of it is promoted for %llu s; then it is tried again", pid, who.comm, why,
		config->guard_action == GUARD_ACTION_SLOW ? "A sixteenth" : "Nothing",
		(unsigned long long)((e->until_ns - e->hold_ns) / NSEC_PER_SEC));
}

static void begin_anew(struct entry *e, uint64_t now_ns)
{
	e->from_ns = now_ns;
	e->up = e->back = e->recent_up = e->recent_back = 0;
	e->down_bytes = 0;
}

/* With the lock: those whose rest is over, by time or since the guard is switched off, and who is forgotten. */
static void let_go(struct guard_owners *g, const struct config *config, uint64_t now_ns, struct entry *ret_over,
		   size_t *ret_n)
{
	uint64_t resume_ns = (uint64_t)config->guard_resume_after_sec * NSEC_PER_SEC;

	*ret_n = 0;
	for (size_t i = 0; i < GUARD_OWNERS_MAX; i++) {
		struct entry *e = &g->entry[i];

		if (!e->from_ns)
			continue;
		if (e->rests && (now_ns >= e->until_ns || now_ns - e->hold_ns >= GUARD_HOLD_TIMES * resume_ns ||
				 config->guard_ping_pong_percent <= 0)) {
			e->rests = false;
			e->until_ns = now_ns;
			begin_anew(e, now_ns);
			atomic_fetch_sub_explicit(&g->resting, 1, memory_order_relaxed);
			ret_over[(*ret_n)++] = *e;
		}
		if (e->rests || now_ns - e->from_ns < FORGET_NS)
			continue;
		if (e->up == 0 && now_ns - e->until_ns >= resume_ns)
			*e = (struct entry){ .from_ns = 0 };
		else
			begin_anew(e, now_ns);
	}
}

/* With the lock: the one that plays most of it, or NULL. */
static struct entry *worst(struct guard_owners *g, const struct config *config)
{
	struct entry *ret = NULL;

	for (size_t i = 0; i < GUARD_OWNERS_MAX && config->guard_ping_pong_percent > 0; i++) {
		struct entry *e = &g->entry[i];

		if (!e->from_ns || e->rests || e->up < BACK_MIN ||
		    e->back * 100.0 < config->guard_ping_pong_percent * e->up)
			continue;
		if (!ret || e->back > ret->back)
			ret = e;
	}
	return ret;
}

/* With the lock. */
static void begin_rest(struct guard_owners *g, struct entry *e, const struct config *config, uint64_t now_ns)
{
	uint64_t resume_ns = (uint64_t)config->guard_resume_after_sec * NSEC_PER_SEC;

	if (e->times && now_ns < e->until_ns + resume_ns)
		e->times = e->times * 2 < GUARD_HOLD_TIMES ? e->times * 2 : GUARD_HOLD_TIMES;
	else
		e->times = 1;
	e->rests = true;
	e->blamed = false;
	e->back_ratio = (double)e->back / e->up;
	e->hold_ns = now_ns;
	e->until_ns = now_ns + e->times * resume_ns;
	atomic_fetch_add_explicit(&g->resting, 1, memory_order_relaxed);
	for (size_t i = 0; i < GUARD_OWNERS_MAX; i++)
		if (g->entry[i].from_ns)
			begin_anew(&g->entry[i], now_ns);
}

static bool report(const struct guard_owners *g, const struct config *config, const struct entry *begun,
		   struct stats_slot *stats)
{
	if (!begun->from_ns)
		return false;
	stats_inc(stats, STAT_GUARD_PROCESS);
	say(g, begun, config);
	return true;
}

bool guard_owners_blame(struct guard_owners *g, const struct config *config, uint64_t now_ns, struct stats_slot *stats)
{
	struct entry begun = { .from_ns = 0 };
	uint64_t up = 0, down_bytes = 0;

	pthread_mutex_lock(&g->lock);
	for (size_t i = 0; i < GUARD_OWNERS_MAX; i++) {
		up += g->entry[i].up;
		down_bytes += g->entry[i].down_bytes;
	}
	for (size_t i = 0; i < GUARD_OWNERS_MAX && config->guard_ping_pong_percent > 0; i++) {
		struct entry *e = &g->entry[i];

		if (e->rests || e->up < BACK_MIN || e->up * 2 <= up || e->down_bytes * 2 <= down_bytes)
			continue;
		begin_rest(g, e, config, now_ns);
		e->blamed = true;
		begun = *e;
		break;
	}
	pthread_mutex_unlock(&g->lock);
	return report(g, config, &begun, stats);
}

void guard_owners_begin_recent(struct guard_owners *g)
{
	pthread_mutex_lock(&g->lock);
	for (size_t i = 0; i < GUARD_OWNERS_MAX; i++)
		g->entry[i].recent_up = g->entry[i].recent_back = 0;
	pthread_mutex_unlock(&g->lock);
}

/* With the lock: by what was promoted last alone, or as most of all that came back? */
static bool is_to_blame(const struct entry *e, const struct config *config, uint64_t all_back)
{
	if (!e->from_ns || e->rests || e->recent_back == 0)
		return false;
	return (uint64_t)e->recent_back * 2 > all_back ||
	       (e->recent_up >= BACK_MIN && e->recent_back * 100.0 >= config->guard_ping_pong_percent * e->recent_up);
}

bool guard_owners_blame_back(struct guard_owners *g, const struct config *config, uint64_t now_ns,
			     struct stats_slot *stats)
{
	struct entry begun = { .from_ns = 0 }, *most = NULL;
	uint64_t back = 0;
	size_t n = 0;

	pthread_mutex_lock(&g->lock);
	for (size_t i = 0; i < GUARD_OWNERS_MAX; i++)
		back += g->entry[i].recent_back;
	for (size_t i = 0; i < GUARD_OWNERS_MAX; i++) {
		struct entry *e = &g->entry[i];

		if (!is_to_blame(e, config, back))
			continue;
		n++;
		if (!most || e->recent_back > most->recent_back)
			most = e;
	}
	if (most && n <= BLAMED_MAX) {
		double ratio = (double)most->recent_back / most->recent_up;

		begin_rest(g, most, config, now_ns);
		most->back_ratio = ratio;
		begun = *most;
	}
	pthread_mutex_unlock(&g->lock);
	return report(g, config, &begun, stats);
}

bool guard_owners_step(struct guard_owners *g, const struct config *config, uint64_t now_ns, struct stats_slot *stats)
{
	struct entry over[GUARD_OWNERS_MAX], begun = { .from_ns = 0 }; /* 20 KiB */
	struct entry *e;
	size_t n;

	pthread_mutex_lock(&g->lock);
	let_go(g, config, now_ns, over, &n);
	e = worst(g, config);
	if (e) {
		begin_rest(g, e, config, now_ns);
		begun = *e;
	}
	pthread_mutex_unlock(&g->lock);
	for (size_t i = 0; i < n; i++)
		say(g, &over[i], config);
	return report(g, config, &begun, stats);
}

size_t guard_owners_look(const struct guard_owners *g, uint64_t now_ns, struct guard_owner *ret, size_t max)
{
	struct guard_owners *locked = (struct guard_owners *)g;
	size_t n = 0, kept = 0;

	pthread_mutex_lock(&locked->lock);
	for (size_t i = 0; i < GUARD_OWNERS_MAX; i++) {
		const struct entry *e = &g->entry[i];
		struct guard_owner one = { .owner_slot = e->owner_slot,
					   .start_ticks = e->start_ticks,
					   .back_ratio = e->back_ratio };
		size_t at = kept;

		if (!e->from_ns || !e->rests)
			continue;
		n++;
		one.left_ns = e->until_ns > now_ns ? e->until_ns - now_ns : 0;
		while (at > 0 && ret[at - 1].left_ns < one.left_ns)
			at--;
		if (at == max)
			continue;
		kept += kept < max;
		memmove(&ret[at + 1], &ret[at], (kept - at - 1) * sizeof(*ret));
		ret[at] = one;
	}
	pthread_mutex_unlock(&locked->lock);
	for (size_t i = 0; i < kept; i++)
		name_owner(g, &ret[i]);
	return n;
}
