/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is cold of the fast memory, or goes because its party has too much. */
#include <errno.h>
#include <math.h>

#include "clock.h"
#include "config.h"
#include "decider.h"
#include "fair.h"
#include "hotness.h"
#include "hotness_regions.h"
#include "owners.h"
#include "rcu.h"
#include "sample.h"
#include "stats.h"
#include "victims_internal.h"

#define COLD_PART        2.0 /* cold is what has at most this part of what is worth its place, see below */
#define CONFIDENCE_PART  5.0 /* what few mistakes among much that is hot come to must stay small */
#define CONFIDENCE_MAX   0.9999
#define PAGE_RULE_QUIET  (60 * NSEC_PER_SEC) /* the page rule knows no rate */
#define SCAN_PERIOD_MS   60000               /* the kernel's default for a round over all memory of a task at most */
#define SCAN_ROUNDS      2
#define BALANCING_NORMAL 1 /* bit of kernel.numa_balancing: faults on fast nodes, too */

/*
 * COLD_PART: what lies between is left alone. The larger the share of the worth that still is cold, the sooner cold
 * memory is known, and the more that is as hot as what comes up is taken for it. By the simulator, make_room =
 * "exchange": mean hit ratio of coldfull, and what went down in overcommit, in vain, of 16 GiB in four minutes, seeds 1
 * to 3:
 *
 *   share     0.3      0.5          0.6          0.7          0.9
 *   coldfull  89.9%    92.4%        92.7%        93.6%        94.3%
 *   in vain   0 GiB    0.1 GiB      0.5 GiB      1.2 GiB      2.0 to 4.6 GiB
 *
 * The hit ratio in the end is the same in both, but for 0.05% of overcommit's that 0.7 and more cost. It makes no
 * difference to phases with a fast node of 2 GiB; in tenants chance makes more.
 */

/* ln of one over the chance of a mistake. */
double victims_strictness(const struct config *config)
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

/* In a read section. */
static bool fits(const struct victims *v, const struct victim *victim)
{
	const struct owner *owner = v->params.fair ? owners_at(v->params.owners, victim->owner_slot) : NULL;

	return owner && fair_fits(v->params.fair, fair_of(owner));
}

/* In a read section. @quiet_ns above 0. */
bool victims_cold(const struct victims *v, const struct victim *victim, double strict, uint64_t quiet_ns,
		  uint64_t now_ns)
{
	uint64_t since_ns = victims_max(victim->since_ns, victims_get(&v->dark_ns)), watched_ns = now_ns - since_ns,
		 idle_ns;
	struct hotness_view view;
	const struct region_evidence *e = &view.evidence;

	if (since_ns >= now_ns)
		return false;
	if (fits(v, victim)) {
		quiet_ns = victims_get(&v->fits_quiet_ns);
		if (quiet_ns == 0)
			return false;
	}
	if (!hotness_find_view(v->params.hotness, victim->pid, victim->owner_slot, victim->addr, now_ns, &view)) {
		/* What was thrown out for want of memory may have been sampled. */
		since_ns = victims_max(since_ns, victims_get(&v->evicted_ns));
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
	uint64_t quiet_ns = victims_get(&v->quiet_ns);
	bool cold;

	if (quiet_ns == 0)
		return false;
	rcu_enter();
	cold = victims_cold(v, victim, victims_strictness(config), quiet_ns, now_ns);
	rcu_leave();
	return cold;
}

/* In a read section. What isn't @cold must have been seen, or nobody knows how long it wasn't used. */
bool victims_given(const struct victims *v, const struct victim *victim, bool cold, uint64_t now_ns)
{
	const struct owner *owner = v->params.fair ? owners_at(v->params.owners, victim->owner_slot) : NULL;
	struct hotness_view view;

	if (!owner || !fair_gives(v->params.fair, fair_of(owner), UINT64_MAX))
		return false;
	return cold ||
	       (hotness_find_view(v->params.hotness, victim->pid, victim->owner_slot, victim->addr, now_ns, &view) &&
		view.page_bytes <= REGION_BYTES && fair_gives(v->params.fair, fair_of(owner), view.idle_ns));
}

bool victims_is_given(const struct victims *v, const struct victim *victim, uint64_t now_ns)
{
	bool given;

	rcu_enter();
	given = victims_given(v, victim, false, now_ns);
	rcu_leave();
	return given;
}

/* Do samples come, of what kind, and was any memory of them lost? */
void victims_look_at_samples(struct victims *v, uint64_t now_ns)
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
		victims_set(&v->dark_ns, now_ns);
	if (evicted != v->evicted)
		victims_set(&v->evicted_ns, now_ns);
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

/* What is worth @per_sec samples a second is missed after this. 0: too late to say anything. */
static uint64_t quiet_by_worth(const struct config *config, double per_sec)
{
	double ns = victims_strictness(config) / (per_sec / COLD_PART) * 1e9;

	/* What is forgotten for its age was not sampled for that long; nobody knows of longer. */
	if (!(ns <= (double)HOTNESS_COLD_NS))
		return 0;
	return victims_max((uint64_t)ns, VICTIMS_QUIET_MIN_NS);
}

/* How long without a sample is cold; 0: nothing can be said, and why is in @why. The same for who fits in @ret_fits. */
uint64_t victims_find_quiet(const struct victims *v, const struct config *config, uint64_t now_ns,
			    enum victims_state *why, uint64_t *ret_fits)
{
	struct decider_view known;
	uint64_t quiet_ns, mode;

	*ret_fits = 0;
	*why = VICTIMS_DARK;
	if (victims_get(&v->dark_ns) == now_ns)
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
		*why = VICTIMS_TOO_FEW;
		*ret_fits = quiet_by_worth(config, known.worth_with_room_per_sec);
		return quiet_by_worth(config, known.worth_per_sec);
	}
	*why = VICTIMS_TOO_FEW;
	if (quiet_ns > HOTNESS_COLD_NS)
		return 0;
	*ret_fits = victims_max(quiet_ns, VICTIMS_QUIET_MIN_NS);
	return *ret_fits;
}
