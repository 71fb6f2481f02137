/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>

#include "clock.h"
#include "config.h"
#include "decider.h"
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

#define PROBES_MAX       512  /* pages in one query */
#define LOOKS_MAX        4096 /* regions in one read section */
#define REFUSED_MARKS    4096
#define COLD_PART        2.0 /* cold is what has at most this part of what is worth its place: between is left alone */
#define CONFIDENCE_PART  5.0 /* what few mistakes among much that is hot come to must stay small */
#define CONFIDENCE_MAX   0.9999
#define PAGE_RULE_QUIET  (60 * NSEC_PER_SEC) /* the page rule knows no rate */
#define SCAN_PERIOD_MS   60000               /* the kernel's default for a round over all memory of a task at most */
#define SCAN_ROUNDS      2
#define BALANCING_NORMAL 1 /* bit of kernel.numa_balancing: faults on fast nodes, too */
#define EARLY_ROUND_NS   NSEC_PER_SEC
#define FEW_LEFT         256

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

struct queue {
	size_t first, n;
	struct victim victim[VICTIMS_QUEUE_MAX];
};

struct mark {
	uint64_t key; /* 0: none */
	uint64_t ns;
};

enum phase { PHASE_PAUSE, PHASE_MAPS, PHASE_PROBE };

struct victims {
	struct victims_params params;

	/* The thread's own. */
	enum phase phase;
	struct victims_maps maps;
	size_t process, range; /* where the probing is, */
	uint64_t addr;
	uint64_t round_ns; /* begin of the last round */
	uint64_t found_bytes[NODE_MAX];
	uint64_t useful, evicted, faults, hardware; /* counters at the last step */
	uint64_t flow_ns;                           /* of the last step that had new samples */
	uint64_t wanted_ns;                         /* since then they are looked for */
	bool was_wanted, ended_one;
	struct victim probe[PROBES_MAX];
	uint64_t probe_addr[PROBES_MAX];
	int probe_nid[PROBES_MAX];

	/* Relaxed, all: a moment's view; a late look costs a region more or less. */
	_Atomic uint64_t want_ns, quiet_ns, dark_ns, evicted_ns;
	_Atomic uint32_t state;
	_Atomic bool by_faults;
	_Atomic uint64_t cold_bytes[NODE_MAX];

	pthread_mutex_t lock;
	/* Under the lock. */
	struct queue *queue[NODE_MAX]; /* NULL: nothing was ever found there */
	struct mark refused[REFUSED_MARKS];
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
	for (int nid = 0; nid < NODE_MAX; nid++)
		free(v->queue[nid]);
	pthread_mutex_destroy(&v->lock);
	free(v);
}

static uint64_t get(const _Atomic uint64_t *word)
{
	return atomic_load_explicit(word, memory_order_relaxed);
}

static void set(_Atomic uint64_t *word, uint64_t value)
{
	atomic_store_explicit(word, value, memory_order_relaxed);
}

static uint64_t max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

void victims_want(struct victims *v, uint64_t now_ns)
{
	set(&v->want_ns, now_ns);
}

uint64_t victims_cold_bytes(const struct victims *v, int nid)
{
	assert(nid >= 0 && nid < NODE_MAX);
	return get(&v->cold_bytes[nid]);
}

void victims_look(const struct victims *v, struct victims_view *ret)
{
	*ret = (struct victims_view){
		.state = (enum victims_state)atomic_load_explicit(&v->state, memory_order_relaxed),
		.quiet_ns = get(&v->quiet_ns),
	};
	for (int nid = 0; nid < NODE_MAX; nid++)
		ret->cold_bytes += get(&v->cold_bytes[nid]);
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
	v->refused[(key >> 1) % REFUSED_MARKS] = (struct mark){ key, now_ns };
	pthread_mutex_unlock(&v->lock);
}

/* With the lock. */
static bool is_refused(const struct victims *v, const struct victim *victim, uint64_t now_ns)
{
	uint64_t key = key_of_victim(victim);
	const struct mark *mark = &v->refused[(key >> 1) % REFUSED_MARKS];

	return mark->key == key && now_ns - mark->ns < VICTIMS_REFUSED_NS;
}

/* With the lock. */
static void spend(struct victims *v, int nid, uint64_t bytes)
{
	uint64_t cold = get(&v->cold_bytes[nid]);

	set(&v->cold_bytes[nid], cold > bytes ? cold - bytes : 0);
}

void victims_spend(struct victims *v, int nid, uint64_t bytes)
{
	assert(nid >= 0 && nid < NODE_MAX);
	pthread_mutex_lock(&v->lock);
	spend(v, nid, bytes);
	pthread_mutex_unlock(&v->lock);
}

size_t victims_take(struct victims *v, int nid, struct victim *ret, size_t max)
{
	struct queue *queue;
	uint64_t bytes = 0;
	size_t n = 0;

	assert(nid >= 0 && nid < NODE_MAX);
	pthread_mutex_lock(&v->lock);
	queue = v->queue[nid];
	while (queue && queue->n > 0 && n < max) {
		const struct victim *next = &queue->victim[queue->first];

		if (n > 0 && (next->owner_slot != ret[0].owner_slot || next->start_ticks != ret[0].start_ticks))
			break;
		ret[n++] = *next;
		bytes += next->n_pages * PAGE_SIZE_BYTES;
		queue->first = (queue->first + 1) % VICTIMS_QUEUE_MAX;
		queue->n--;
	}
	spend(v, nid, bytes);
	pthread_mutex_unlock(&v->lock);
	return n;
}

/* ln of one over the chance of a mistake. */
static double strictness(const struct config *config)
{
	double confidence = config->promote_confidence < CONFIDENCE_MAX ? config->promote_confidence : CONFIDENCE_MAX;

	return log(CONFIDENCE_PART / (1 - confidence));
}

/* Are @n samples fewer than chance gives one of @mean, but for once in e^@strict? */
static bool is_few(unsigned int n, double mean, double strict)
{
	double term = -mean, most = term, sum = 0;

	if (n >= mean || mean < strict)
		return false;
	/* Of Poisson's terms up to n < mean the last is the largest; by logs, since e^-mean may be nothing. */
	for (unsigned int i = 1; i <= n; i++)
		most += log(mean / i);
	for (unsigned int i = 0; i <= n; i++) {
		sum += exp(term - most);
		term += log(mean / (i + 1));
	}
	return most + log(sum) <= -strict;
}

/* In a read section. @quiet_ns above 0. */
static bool is_cold(const struct victims *v, const struct victim *victim, double strict, uint64_t quiet_ns,
		    uint64_t now_ns)
{
	uint64_t since_ns = max_u64(victim->since_ns, get(&v->dark_ns)), watched_ns = now_ns - since_ns, idle_ns;
	struct hotness_view view;
	const struct region_evidence *e = &view.evidence;

	if (since_ns >= now_ns)
		return false;
	if (!hotness_find_view(v->params.hotness, victim->pid, victim->owner_slot, victim->addr, now_ns, &view)) {
		/* What was thrown out for want of memory may have been sampled. */
		since_ns = max_u64(since_ns, get(&v->evicted_ns));
		return since_ns < now_ns && now_ns - since_ns >= quiet_ns;
	}
	if (view.page_bytes > REGION_BYTES)
		return false; /* never moves */
	idle_ns = view.idle_ns < watched_ns ? view.idle_ns : watched_ns;
	if (idle_ns >= quiet_ns)
		return true;
	if (e->by_faults || e->watched_ns > watched_ns || (e->later == 0 && e->first > 0))
		return false;
	return is_few(e->later, (double)e->watched_ns / (double)quiet_ns * strict, strict);
}

bool victims_is_cold(const struct victims *v, const struct config *config, const struct victim *victim, uint64_t now_ns)
{
	uint64_t quiet_ns = get(&v->quiet_ns);
	bool cold;

	if (quiet_ns == 0)
		return false;
	rcu_enter();
	cold = is_cold(v, victim, strictness(config), quiet_ns, now_ns);
	rcu_leave();
	return cold;
}

static void set_state(struct victims *v, enum victims_state state)
{
	atomic_store_explicit(&v->state, (uint32_t)state, memory_order_relaxed);
}

/* Do samples come, of what kind, and was any memory of them lost? */
static void look_at_samples(struct victims *v, uint64_t now_ns)
{
	uint64_t useful =
		stats_sum(v->params.stats, STAT_USEFUL) + stats_sum(v->params.stats, STAT_DISCARDED_FIRST_SIGHTING);
	uint64_t evicted =
		stats_sum(v->params.stats, STAT_EVICTED_REGIONS) + stats_sum(v->params.stats, STAT_DROPPED_MEMORY);
	uint64_t faults = stats_sum(v->params.stats, STAT_HINTFAULTS);
	uint64_t hardware = stats_sum(v->params.stats, STAT_HWHINTS);

	if (useful != v->useful || v->flow_ns == 0)
		v->flow_ns = now_ns;
	if (now_ns - v->flow_ns >= VICTIMS_DARK_NS)
		set(&v->dark_ns, now_ns);
	if (evicted != v->evicted)
		set(&v->evicted_ns, now_ns);
	if (faults != v->faults || hardware != v->hardware)
		atomic_store_explicit(&v->by_faults, hardware == v->hardware, memory_order_relaxed);
	v->useful = useful;
	v->evicted = evicted;
	v->faults = faults;
	v->hardware = hardware;
}

/* Source: task_scan_max() in kernel/sched/fair.c: the period is that of a round over all memory of the task. */
static uint64_t quiet_by_faults(const struct victims *v)
{
	const struct fsroot *root = &v->params.root;
	int r = fsroot_ask(root, FSROOT_SCAN_PERIOD, 0, 0, NULL, 0);
	uint64_t ms = r < 0 ? UINT64_MAX : (uint64_t)r;

	if (r == -ENOSYS && fsroot_read_u64(root, &ms, 10, FSROOT_SCAN_PERIOD_FILE) < 0)
		ms = SCAN_PERIOD_MS;
	if (ms > SCAN_PERIOD_MS)
		ms = SCAN_PERIOD_MS;
	return SCAN_ROUNDS * ms * NSEC_PER_MSEC;
}

/* How long without a sample is cold; 0: nothing can be said, and why is in @why. */
static uint64_t find_quiet(const struct victims *v, const struct config *config, uint64_t now_ns,
			   enum victims_state *why)
{
	struct decider_view known;
	uint64_t quiet_ns, mode;

	*why = VICTIMS_DARK;
	if (get(&v->dark_ns) == now_ns)
		return 0;
	if (atomic_load_explicit(&v->by_faults, memory_order_relaxed)) {
		*why = VICTIMS_BLIND;
		if (fsroot_read_u64(&v->params.root, &mode, 10, "proc/sys/kernel/numa_balancing") < 0 ||
		    !(mode & BALANCING_NORMAL))
			return 0;
		quiet_ns = quiet_by_faults(v);
	} else if (config->promote_policy == POLICY_PAGE) {
		quiet_ns = PAGE_RULE_QUIET;
	} else {
		decider_look(v->params.decider, &known);
		*why = VICTIMS_NO_WORTH;
		if (known.worth_per_sec <= 0)
			return 0;
		quiet_ns = (uint64_t)(strictness(config) / (known.worth_per_sec / COLD_PART) * 1e9);
	}
	/* What is forgotten for its age was not sampled for that long; nobody knows of longer. */
	*why = VICTIMS_TOO_FEW;
	if (quiet_ns > HOTNESS_COLD_NS)
		return 0;
	return max_u64(quiet_ns, VICTIMS_QUIET_MIN_NS);
}

static void forget_all(struct victims *v)
{
	v->phase = PHASE_PAUSE;
	v->round_ns = 0;
	v->ended_one = false;
	victims_maps_clear(&v->maps);
	pthread_mutex_lock(&v->lock);
	for (int nid = 0; nid < NODE_MAX; nid++) {
		set(&v->cold_bytes[nid], 0);
		if (v->queue[nid])
			v->queue[nid]->n = 0;
	}
	pthread_mutex_unlock(&v->lock);
}

/* A region that was found on @nid. */
static void add(struct victims *v, int nid, const struct victim *victim, uint64_t now_ns)
{
	struct queue *queue;

	pthread_mutex_lock(&v->lock);
	if (is_refused(v, victim, now_ns))
		goto out;
	v->found_bytes[nid] += victim->n_pages * PAGE_SIZE_BYTES;
	if (!v->queue[nid])
		v->queue[nid] = calloc(1, sizeof(*v->queue[nid]));
	queue = v->queue[nid];
	/* Full, or no memory: it is found again by a later round. */
	if (queue && queue->n < VICTIMS_QUEUE_MAX)
		queue->victim[(queue->first + queue->n++) % VICTIMS_QUEUE_MAX] = *victim;
out:
	pthread_mutex_unlock(&v->lock);
}

static bool may_move(struct victims *v, const struct victim *victim, uint64_t now_ns)
{
	struct owner *owner = owners_at(v->params.owners, victim->owner_slot);
	struct manage_answer answer;

	if (!owner || owner->pid != victim->pid || owner->start_ticks != victim->start_ticks)
		return false;
	manage_ask(v->params.manage, owner, victim->addr + victim->first_page * PAGE_SIZE_BYTES, now_ns, &answer);
	return answer.verdict == MANAGE_MOVE;
}

/* The next region of the process, as far as it is mapped; false: there is none. */
static bool next_region(struct victims *v, const struct victims_process *p, struct victim *ret)
{
	const struct victims_range *range;
	uint64_t start, end, region;

	while (v->range < p->n && v->addr >= p->range[v->range].end)
		v->range++;
	if (v->range == p->n)
		return false;
	range = &p->range[v->range];
	start = max_u64(v->addr, range->start);
	region = start & ~(REGION_BYTES - 1);
	end = region + REGION_BYTES < range->end ? region + REGION_BYTES : range->end;
	v->addr = end;
	*ret = (struct victim){
		.addr = region,
		.since_ns = range->since_ns,
		.start_ticks = p->start_ticks,
		.owner_slot = p->owner_slot,
		.pid = p->pid,
		.first_page = (uint16_t)((start - region) >> PAGE_SHIFT),
		.n_pages = (uint16_t)((end - start) >> PAGE_SHIFT),
	};
	return true;
}

/* Cold regions of the process, and a page of each to ask for: another one in each round. */
static size_t pick(struct victims *v, const struct victims_process *p, const struct config *config, uint64_t quiet_ns,
		   uint64_t now_ns)
{
	double strict = strictness(config);
	struct victim victim;
	size_t n = 0;

	rcu_enter();
	for (size_t looks = 0; looks < LOOKS_MAX && n < PROBES_MAX && next_region(v, p, &victim); looks++) {
		uint64_t page = (key_of_victim(&victim) >> 8) + v->maps.round * 61;

		if (holdout_has(config->guard_holdout_percent, victim.pid, victim.addr) ||
		    !is_cold(v, &victim, strict, quiet_ns, now_ns) || !may_move(v, &victim, now_ns))
			continue;
		page = victim.first_page + page % victim.n_pages;
		v->probe_addr[n] = victim.addr + (page << PAGE_SHIFT);
		v->probe[n++] = victim;
	}
	rcu_leave();
	return n;
}

/* One query. false: the process is through. */
static bool probe(struct victims *v, const struct victims_process *p, const struct nodeset *top,
		  const struct config *config, uint64_t quiet_ns, uint64_t now_ns)
{
	const struct mover mover = { .ops = v->params.mover_ops, .ctx = v->params.mover_ctx };
	size_t n = pick(v, p, config, quiet_ns, now_ns);

	if (n > 0) {
		/* Between the walk and now it may have ended, and its pid may be another's. */
		if (!owners_check(v->params.owners, p->owner_slot, p->pid, p->start_ticks) ||
		    mover_place(&mover, p->pid, v->probe_addr, n, v->probe_nid) < 0)
			return false;
		for (size_t i = 0; i < n; i++)
			if (v->probe_nid[i] >= 0 && nodeset_has(top, v->probe_nid[i]))
				add(v, v->probe_nid[i], &v->probe[i], now_ns);
	}
	return v->range < p->n;
}

static void begin_probing(struct victims *v)
{
	v->phase = PHASE_PROBE;
	v->process = v->range = 0;
	v->addr = 0;
	pthread_mutex_lock(&v->lock);
	for (int nid = 0; nid < NODE_MAX; nid++) {
		v->found_bytes[nid] = 0;
		if (v->queue[nid])
			v->queue[nid]->n = 0;
	}
	pthread_mutex_unlock(&v->lock);
}

static void end_round(struct victims *v, uint64_t quiet_ns, uint64_t now_ns)
{
	uint64_t found = 0;

	v->phase = PHASE_PAUSE;
	v->ended_one = true;
	for (int nid = 0; nid < NODE_MAX; nid++) {
		set(&v->cold_bytes[nid], v->found_bytes[nid]);
		found += v->found_bytes[nid];
	}
	set_state(v, found > 0 ? VICTIMS_FOUND : now_ns - v->wanted_ns < quiet_ns ? VICTIMS_WATCHING : VICTIMS_NONE);
}

static bool round_is_due(struct victims *v, uint64_t now_ns)
{
	size_t left = 0;
	uint64_t known = 0;

	if (v->round_ns == 0 || now_ns - v->round_ns >= VICTIMS_ROUND_NS)
		return true;
	if (now_ns - v->round_ns < EARLY_ROUND_NS)
		return false;
	pthread_mutex_lock(&v->lock);
	for (int nid = 0; nid < NODE_MAX; nid++) {
		left += v->queue[nid] ? v->queue[nid]->n : 0;
		known += get(&v->cold_bytes[nid]);
	}
	pthread_mutex_unlock(&v->lock);
	/* Before anything was found, and when the queues can't hold all of it. */
	return left < FEW_LEFT && (known > left * REGION_BYTES || left == 0);
}

/* A piece of work; false: there is none now. */
static bool work(struct victims *v, const struct config *config, const struct nodeset *top, uint64_t quiet_ns,
		 uint64_t now_ns)
{
	switch (v->phase) {
	case PHASE_PAUSE:
		if (!round_is_due(v, now_ns) || victims_maps_begin(&v->maps, &v->params.root) < 0)
			return false;
		v->round_ns = now_ns;
		v->phase = PHASE_MAPS;
		return true;
	case PHASE_MAPS:
		if (victims_maps_next(&v->maps, &v->params.root, v->params.owners, now_ns))
			return true;
		begin_probing(v);
		return true;
	default:
		break;
	}
	/* The mappings are as old as they were seen to be, whether anything can be said of them yet or not. */
	if (quiet_ns == 0 || v->process == v->maps.n) {
		end_round(v, quiet_ns, now_ns);
		return false;
	}
	if (!probe(v, &v->maps.process[v->process], top, config, quiet_ns, now_ns)) {
		v->process++;
		v->range = 0;
		v->addr = 0;
	}
	return true;
}

void victims_step(struct victims *v, const struct config *config, uint64_t budget_ns, const _Atomic bool *stop)
{
	uint64_t start_ns = clock_now_ns(v->params.clock), now_ns = start_ns, want_ns = get(&v->want_ns), quiet_ns;
	enum victims_state why;
	struct topology *topology;
	struct nodeset top;

	look_at_samples(v, now_ns);
	if (want_ns == 0 || (now_ns > want_ns && now_ns - want_ns >= VICTIMS_WANTED_NS)) {
		if (v->was_wanted)
			forget_all(v);
		v->was_wanted = false;
		set(&v->quiet_ns, 0);
		set_state(v, VICTIMS_IDLE);
		return;
	}
	if (!v->was_wanted)
		v->wanted_ns = now_ns;
	v->was_wanted = true;
	topology = topology_store_get(v->params.topology);
	top = topology->top;
	topology_unref(topology);
	quiet_ns = find_quiet(v, config, now_ns, &why);
	set(&v->quiet_ns, quiet_ns);
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
