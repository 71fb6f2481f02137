/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "clock.h"
#include "config.h"
#include "decider.h"
#include "fair.h"
#include "holdout.h"
#include "hotness.h"
#include "hotness_regions.h"
#include "manage.h"
#include "mover.h"
#include "nodeset.h"
#include "owners.h"
#include "rcu.h"
#include "sample.h"
#include "stats.h"
#include "topology.h"
#include "victims_internal.h"

#define LOOKS_MAX      4096 /* regions in one read section */
#define EARLY_ROUND_NS NSEC_PER_SEC
#define FEW_LEFT       256
#define CLAIM_AHEAD    (UINT64_C(64) << 20)

const char *const victims_state_text[VICTIMS_STATES] = {
	[VICTIMS_IDLE] = "no room is wanted",
	[VICTIMS_WATCHING] = "fast memory is watched, not long enough yet to call any of it cold",
	[VICTIMS_FOUND] = "cold memory was found",
	[VICTIMS_NONE] = "none of the fast memory that may move is surely cold",
	[VICTIMS_NO_WORTH] = "not enough is known yet to tell cold memory from hot",
	[VICTIMS_DARK] = "no samples come, so nothing can be called cold",
	[VICTIMS_BLIND] = "hint faults show slow nodes only: kernel.numa_balancing = 3 shows the fast ones, too",
	[VICTIMS_TOO_FEW] = "too few samples to call anything cold",
};

struct victims *victims_new(const struct victims_params *params)
{
	struct victims *v = calloc(1, sizeof(*v));

	if (!v)
		return NULL;
	v->params = *params;
	pthread_mutex_init(&v->lock, NULL);
	return v;
}

void victims_free(struct victims *v)
{
	if (!v)
		return;
	victims_maps_clear(&v->maps);
	for (int nid = 0; nid < NODE_MAX; nid++) {
		free(v->queue[nid]);
		free(v->claimed[nid]);
	}
	pthread_mutex_destroy(&v->lock);
	free(v);
}

void victims_want(struct victims *v, uint64_t now_ns)
{
	victims_set(&v->want_ns, now_ns);
}

uint64_t victims_cold_bytes(const struct victims *v, int nid)
{
	assert(nid >= 0 && nid < NODE_MAX);
	return victims_get(&v->cold_bytes[nid]);
}

void victims_look(const struct victims *v, struct victims_view *ret)
{
	*ret = (struct victims_view){
		.state = (enum victims_state)atomic_load_explicit(&v->state, memory_order_relaxed),
		.quiet_ns = victims_get(&v->quiet_ns),
	};
	for (int nid = 0; nid < NODE_MAX; nid++)
		ret->cold_bytes += victims_get(&v->cold_bytes[nid]);
}

static uint64_t key_of(uint32_t owner_slot, uint64_t start_ticks, uint64_t addr)
{
	uint64_t key = ((uint64_t)owner_slot + 1) << 36 ^ addr >> REGION_SHIFT ^ start_ticks << 17;

	key *= UINT64_C(0x9e3779b97f4a7c15);
	return (key ^ key >> 32) | 1;
}

static uint64_t key_of_victim(const struct victim *victim)
{
	return key_of(victim->owner_slot, victim->start_ticks, victim->addr);
}

void victims_refused(struct victims *v, const struct victim *victim, uint64_t now_ns)
{
	uint64_t key = key_of_victim(victim);

	pthread_mutex_lock(&v->lock);
	v->refused[(key >> 1) % VICTIMS_REFUSED_MARKS] = (struct victims_mark){ key, now_ns };
	pthread_mutex_unlock(&v->lock);
}

/* With the lock. */
static bool is_refused(const struct victims *v, const struct victim *victim, uint64_t now_ns)
{
	uint64_t key = key_of_victim(victim);
	const struct victims_mark *mark = &v->refused[(key >> 1) % VICTIMS_REFUSED_MARKS];

	return mark->key == key && now_ns - mark->ns < VICTIMS_REFUSED_NS;
}

/* With the lock. */
static void spend(struct victims *v, int nid, uint64_t bytes)
{
	uint64_t cold = victims_get(&v->cold_bytes[nid]);

	victims_set(&v->cold_bytes[nid], cold > bytes ? cold - bytes : 0);
}

void victims_spend(struct victims *v, int nid, uint64_t bytes)
{
	assert(nid >= 0 && nid < NODE_MAX);
	pthread_mutex_lock(&v->lock);
	spend(v, nid, bytes);
	pthread_mutex_unlock(&v->lock);
}

size_t victims_take(struct victims *v, int nid, bool claimed, struct victim *ret, size_t max)
{
	struct victims_queue *queue;
	uint64_t bytes = 0;
	size_t n = 0;

	assert(nid >= 0 && nid < NODE_MAX);
	pthread_mutex_lock(&v->lock);
	queue = claimed ? v->claimed[nid] : v->queue[nid];
	while (queue && queue->n > 0 && n < max) {
		const struct victim *next = &queue->victim[queue->first];

		if (n > 0 && (next->owner_slot != ret[0].owner_slot || next->start_ticks != ret[0].start_ticks))
			break;
		ret[n++] = *next;
		bytes += next->cold ? next->n_pages * PAGE_SIZE_BYTES : 0;
		queue->first = (queue->first + 1) % VICTIMS_QUEUE_MAX;
		queue->n--;
	}
	spend(v, nid, bytes);
	pthread_mutex_unlock(&v->lock);
	return n;
}

static void set_state(struct victims *v, enum victims_state state)
{
	atomic_store_explicit(&v->state, (uint32_t)state, memory_order_relaxed);
}

static void forget_all(struct victims *v)
{
	v->phase = VICTIMS_PHASE_PAUSE;
	v->round_ns = 0;
	v->ended_one = false;
	victims_maps_clear(&v->maps);
	pthread_mutex_lock(&v->lock);
	for (int nid = 0; nid < NODE_MAX; nid++) {
		victims_set(&v->cold_bytes[nid], 0);
		if (v->queue[nid])
			v->queue[nid]->n = 0;
		if (v->claimed[nid])
			v->claimed[nid]->n = 0;
	}
	pthread_mutex_unlock(&v->lock);
}

/* A region that was found on @nid. */
static void add(struct victims *v, int nid, const struct victim *victim, uint64_t now_ns)
{
	struct victims_queue **place = victim->claimed ? &v->claimed[nid] : &v->queue[nid], *queue;

	pthread_mutex_lock(&v->lock);
	if (is_refused(v, victim, now_ns))
		goto out;
	if (victim->cold)
		v->found_bytes[nid] += victim->n_pages * PAGE_SIZE_BYTES;
	if (!*place)
		*place = calloc(1, sizeof(**place));
	queue = *place;
	/* Full, or no memory: it is found again by a later round. */
	if (queue && queue->n < VICTIMS_QUEUE_MAX)
		queue->victim[(queue->first + queue->n++) % VICTIMS_QUEUE_MAX] = *victim;
out:
	pthread_mutex_unlock(&v->lock);
}

/* @page of its region: what is mapped side by side may be of several kinds. */
static bool may_move(struct victims *v, const struct victim *victim, uint64_t page, uint64_t now_ns)
{
	struct owner *owner = owners_at(v->params.owners, victim->owner_slot);
	struct manage_answer answer;

	if (!owner || owner->pid != victim->pid || owner->start_ticks != victim->start_ticks)
		return false;
	manage_ask(v->params.manage, owner, victim->addr + (page << PAGE_SHIFT), now_ns, &answer);
	return answer.verdict == MANAGE_MOVE;
}

/* Cold regions of the process, and a page of each to ask for: another one in each round. */
static size_t pick(struct victims *v, struct victims_process *p, const struct config *config, uint64_t quiet_ns,
		   uint64_t now_ns, bool *ret_through)
{
	double strict = victims_strictness(config);
	struct hotness_view view;
	struct victim victim;
	size_t n = 0;

	*ret_through = false;
	rcu_enter();
	for (size_t looks = 0; looks < LOOKS_MAX && n < VICTIMS_PROBES_MAX; looks++) {
		uint64_t page;

		*ret_through = !victims_walk_next(&v->walk, p, v->maps.round, &victim);
		if (*ret_through)
			break;
		page = (key_of_victim(&victim) >> 8) + v->maps.round * 61;
		if (holdout_has(config->guard_holdout_percent, victim.pid, victim.addr))
			continue;
		victim.cold = quiet_ns && victims_cold(v, &victim, strict, quiet_ns, now_ns);
		victim.claimed = victims_given(v, &victim, victim.cold, now_ns);
		page = victim.first_page + page % victim.n_pages;
		if (!(victim.cold || victim.claimed) || !may_move(v, &victim, page, now_ns))
			continue;
		victim.unseen = victim.cold && !hotness_find_view(v->params.hotness, victim.pid, victim.owner_slot,
								  victim.addr, now_ns, &view);
		v->probe_addr[n] = victim.addr + (page << PAGE_SHIFT);
		v->probe_range[n] = v->walk.range;
		v->probe[n++] = victim;
	}
	rcu_leave();
	return n;
}

/* One query. false: the process is through. */
static bool probe(struct victims *v, struct victims_process *p, const struct nodeset *top, const struct config *config,
		  uint64_t quiet_ns, uint64_t now_ns)
{
	const struct mover mover = { .ops = v->params.mover_ops, .ctx = v->params.mover_ctx };
	bool through;
	size_t n = pick(v, p, config, quiet_ns, now_ns, &through);

	if (n > 0) {
		/* Between the walk and now it may have ended, and its pid may be another's. */
		if (!owners_check(v->params.owners, p->owner_slot, p->pid, p->start_ticks) ||
		    mover_place(&mover, p->pid, v->probe_addr, n, v->probe_nid) < 0)
			return false;
		for (size_t i = 0; i < n; i++) {
			if (v->probe_nid[i] < 0) {
				victims_walk_absent(&v->walk, v->probe_range[i]);
			} else if (nodeset_has(top, v->probe_nid[i])) {
				v->unseen_bytes += v->probe[i].unseen ? v->probe[i].n_pages * PAGE_SIZE_BYTES : 0;
				add(v, v->probe_nid[i], &v->probe[i], now_ns);
			}
		}
	}
	return !through;
}

/* What its owner has and nobody sees belongs to its party. */
static void publish_unseen(struct victims *v, const struct victims_process *p)
{
	struct owner *owner;

	rcu_enter();
	owner = owners_at(v->params.owners, p->owner_slot);
	if (owner && owner->pid == p->pid && owner->start_ticks == p->start_ticks)
		victims_set(&owner->cold_bytes, v->unseen_bytes);
	rcu_leave();
	v->unseen_bytes = 0;
}

static void begin_probing(struct victims *v)
{
	v->phase = VICTIMS_PHASE_PROBE;
	v->process = 0;
	v->unseen_bytes = 0;
	if (v->maps.n > 0)
		victims_walk_begin(&v->walk, &v->maps.process[0]);
	pthread_mutex_lock(&v->lock);
	for (int nid = 0; nid < NODE_MAX; nid++) {
		v->found_bytes[nid] = 0;
		if (v->queue[nid])
			v->queue[nid]->n = 0;
		if (v->claimed[nid])
			v->claimed[nid]->n = 0;
	}
	pthread_mutex_unlock(&v->lock);
}

static void end_round(struct victims *v, uint64_t quiet_ns, uint64_t now_ns)
{
	uint64_t found = 0;

	v->phase = VICTIMS_PHASE_PAUSE;
	v->ended_one = true;
	for (int nid = 0; nid < NODE_MAX; nid++) {
		victims_set(&v->cold_bytes[nid], v->found_bytes[nid]);
		found += v->found_bytes[nid];
	}
	set_state(v, found > 0 ? VICTIMS_FOUND : now_ns - v->wanted_ns < quiet_ns ? VICTIMS_WATCHING : VICTIMS_NONE);
}

static bool has_claim(const struct victims *v, uint64_t now_ns)
{
	return v->params.fair && fair_claim(v->params.fair, now_ns) > 0;
}

static bool round_is_due(struct victims *v, uint64_t now_ns)
{
	size_t left = 0, claimed = 0;
	uint64_t known = 0;

	if (v->round_ns == 0 || now_ns - v->round_ns >= VICTIMS_ROUND_NS)
		return true;
	if (now_ns - v->round_ns < EARLY_ROUND_NS)
		return false;
	pthread_mutex_lock(&v->lock);
	for (int nid = 0; nid < NODE_MAX; nid++) {
		left += v->queue[nid] ? v->queue[nid]->n : 0;
		claimed += v->claimed[nid] ? v->claimed[nid]->n : 0;
		known += victims_get(&v->cold_bytes[nid]);
	}
	pthread_mutex_unlock(&v->lock);
	if (claimed * REGION_BYTES < CLAIM_AHEAD && has_claim(v, now_ns))
		return true;
	/* Before anything was found, and when the queues can't hold all of it. */
	return left < FEW_LEFT && (known > left * REGION_BYTES || left == 0);
}

/* A piece of work; false: there is none now. */
static bool work(struct victims *v, const struct config *config, const struct nodeset *top, uint64_t quiet_ns,
		 uint64_t now_ns)
{
	switch (v->phase) {
	case VICTIMS_PHASE_PAUSE:
		if (!round_is_due(v, now_ns) || victims_maps_begin(&v->maps, &v->params.root) < 0)
			return false;
		v->round_ns = now_ns;
		v->phase = VICTIMS_PHASE_MAPS;
		return true;
	case VICTIMS_PHASE_MAPS:
		if (victims_maps_next(&v->maps, &v->params.root, v->params.owners, now_ns))
			return true;
		begin_probing(v);
		return true;
	default:
		break;
	}
	/* The mappings are as old as they were seen to be, whether anything can be said of them yet or not. */
	if ((quiet_ns == 0 && !has_claim(v, now_ns)) || v->process == v->maps.n) {
		end_round(v, quiet_ns, now_ns);
		return false;
	}
	if (!probe(v, &v->maps.process[v->process], top, config, quiet_ns, now_ns)) {
		publish_unseen(v, &v->maps.process[v->process]);
		if (++v->process < v->maps.n)
			victims_walk_begin(&v->walk, &v->maps.process[v->process]);
	}
	return true;
}

void victims_step(struct victims *v, const struct config *config, uint64_t budget_ns, const _Atomic bool *stop)
{
	uint64_t start_ns = clock_now_ns(v->params.clock), now_ns = start_ns, want_ns = victims_get(&v->want_ns),
		 quiet_ns, fits_quiet_ns;
	enum victims_state why;
	struct topology *topology;
	struct nodeset top;

	victims_look_at_samples(v, now_ns);
	if (want_ns == 0 || (now_ns > want_ns && now_ns - want_ns >= VICTIMS_WANTED_NS)) {
		if (v->was_wanted)
			forget_all(v);
		v->was_wanted = false;
		victims_set(&v->quiet_ns, 0);
		set_state(v, VICTIMS_IDLE);
		return;
	}
	if (!v->was_wanted)
		v->wanted_ns = now_ns;
	v->was_wanted = true;
	topology = topology_store_get(v->params.topology);
	top = topology->top;
	topology_unref(topology);
	quiet_ns = victims_find_quiet(v, config, now_ns, &why, &fits_quiet_ns);
	victims_set(&v->fits_quiet_ns, fits_quiet_ns);
	victims_set(&v->quiet_ns, quiet_ns);
	while (!(stop && atomic_load_explicit(stop, memory_order_relaxed)) && work(v, config, &top, quiet_ns, now_ns)) {
		now_ns = clock_now_ns(v->params.clock);
		if (now_ns - start_ns >= budget_ns)
			break;
	}
	if (quiet_ns == 0)
		set_state(v, why);
	else if (!v->ended_one)
		set_state(v, VICTIMS_WATCHING);
}
