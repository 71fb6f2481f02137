/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "manage_fast.h"
#include "nodeset.h"
#include "owners_facts.h"
#include "owners_usage.h"
#include "parse.h"
#include "rules.h"
#include "topology.h"

#define UNKNOWN    INT64_MAX
#define FIRST_PIDS 1024

/* Relaxed, all: each number stands for itself, and the sum of them is at most too high for a moment. */
struct share {
	_Atomic int64_t measured;   /* by the last round, less what had moved when that began */
	_Atomic int64_t moved;      /* ever */
	_Atomic int64_t on_its_way; /* taken and not put back */

	/* The round's own. */
	int64_t sum, moved_before;
	bool failed; /* something of it couldn't be told */
};

struct manage_fast {
	struct fsroot root;
	const struct clock *clock;
	uint32_t self_pid;
	struct share share[RULES_MAX];

	bool in_round;
	uint64_t next_ns; /* the next round */
	uint64_t cost_ns; /* of this one so far */
	size_t n, at, room;
	uint32_t *pid;
	struct owner_facts who; /* 8 KiB */
};

struct manage_fast *manage_fast_new(const struct fsroot *proc, const struct clock *clock, uint32_t self_pid)
{
	struct manage_fast *fast = calloc(1, sizeof(*fast));

	if (!fast)
		return NULL;
	fast->root = *proc;
	fast->clock = clock;
	fast->self_pid = self_pid;
	for (int i = 0; i < RULES_MAX; i++)
		atomic_init(&fast->share[i].measured, UNKNOWN);
	return fast;
}

void manage_fast_free(struct manage_fast *fast)
{
	if (!fast)
		return;
	free(fast->pid);
	free(fast);
}

void manage_fast_forget(struct manage_fast *fast)
{
	for (int i = 0; i < RULES_MAX; i++)
		atomic_store_explicit(&fast->share[i].measured, UNKNOWN, memory_order_relaxed);
	fast->in_round = false;
	fast->next_ns = 0;
}

static bool is_limited(const struct rules *rules, int i)
{
	return i >= 0 && i < rules->n && rules->rule[i].fast_max_percent >= 0;
}

static bool any_is_limited(const struct rules *rules)
{
	int i = 0;

	while (i < rules->n && !is_limited(rules, i))
		i++;
	return i < rules->n;
}

static int note_pid(void *ctx, const char *name)
{
	struct manage_fast *fast = ctx;
	uint64_t pid;

	if (parse_u64(name, 1, INT32_MAX, &pid) < 0 || pid == fast->self_pid)
		return 0;
	if (fast->n == fast->room) {
		size_t room = fast->room ? fast->room * 2 : FIRST_PIDS;
		uint32_t *more = realloc(fast->pid, room * sizeof(*more));

		if (!more)
			return -ENOMEM;
		fast->pid = more;
		fast->room = room;
	}
	fast->pid[fast->n++] = (uint32_t)pid;
	return 0;
}

static bool begin(struct manage_fast *fast)
{
	fast->n = fast->at = 0;
	fast->cost_ns = 0;
	for (int i = 0; i < RULES_MAX; i++) {
		fast->share[i].sum = 0;
		fast->share[i].failed = false;
		/* Before the first process is looked at: what moves from here on may be counted twice, never not at
		 * all. */
		fast->share[i].moved_before = atomic_load_explicit(&fast->share[i].moved, memory_order_relaxed);
	}
	fast->in_round = fsroot_for_each(&fast->root, note_pid, fast, "proc") == 0;
	return fast->in_round;
}

/* Publish what was found. */
static void end(struct manage_fast *fast, const struct rules *rules)
{
	uint64_t pause_ns = fast->cost_ns * MANAGE_FAST_COST_MULT;

	for (int i = 0; i < RULES_MAX; i++) {
		struct share *share = &fast->share[i];

		if (is_limited(rules, i))
			atomic_store_explicit(&share->measured,
					      share->failed ? UNKNOWN : share->sum - share->moved_before,
					      memory_order_relaxed);
	}
	fast->in_round = false;
	fast->next_ns = clock_now_ns(fast->clock) + (pause_ns > MANAGE_FAST_NS ? pause_ns : MANAGE_FAST_NS);
}

/* One that is gone meanwhile has nothing any more. */
static void look(struct manage_fast *fast, const struct manage_fast_input *input, uint32_t pid)
{
	uint64_t bytes;
	int rule, r;

	if (owners_facts_who(&fast->root, pid, &fast->who) < 0)
		return;
	rule = input->rule_of(input->ctx, &fast->who);
	if (!is_limited(input->rules, rule))
		return;
	r = owners_usage_read(&fast->root, pid, input->nodes, input->go_on, input->ctx, &bytes);
	if (r == 0)
		fast->share[rule].sum += (int64_t)bytes;
	else if (r != -ESRCH)
		fast->share[rule].failed = true;
}

void manage_fast_step(struct manage_fast *fast, const struct manage_fast_input *input, uint64_t budget_ns)
{
	uint64_t start_ns = clock_now_ns(fast->clock), spent_ns = 0;

	if (!any_is_limited(input->rules))
		return;
	if (!fast->in_round && (start_ns < fast->next_ns || !begin(fast)))
		return;
	while (fast->at < fast->n && spent_ns < budget_ns && input->go_on(input->ctx)) {
		look(fast, input, fast->pid[fast->at++]);
		spent_ns = clock_now_ns(fast->clock) - start_ns;
	}
	fast->cost_ns += spent_ns;
	if (fast->at == fast->n && input->go_on(input->ctx))
		end(fast, input->rules);
}

uint64_t manage_fast_tier_bytes(const struct topology *topology)
{
	uint64_t bytes = 0;

	nodeset_for_each (nid, &topology->top) {
		const struct topology_node *node = topology_node(topology, nid);

		bytes += node ? node->total_bytes : 0;
	}
	return bytes;
}

bool manage_fast_max(const struct rules *rules, int rule, uint64_t tier_bytes, uint64_t *ret_bytes)
{
	if (!is_limited(rules, rule))
		return false;
	*ret_bytes = tier_bytes / 100 * (uint64_t)rules->rule[rule].fast_max_percent;
	return true;
}

bool manage_fast_used(const struct manage_fast *fast, int rule, uint64_t *ret_bytes)
{
	const struct share *share = &fast->share[rule];
	int64_t measured = atomic_load_explicit(&share->measured, memory_order_relaxed), sum;

	*ret_bytes = 0;
	if (measured == UNKNOWN)
		return false;
	sum = measured + atomic_load_explicit(&share->on_its_way, memory_order_relaxed) +
	      atomic_load_explicit(&share->moved, memory_order_relaxed);
	*ret_bytes = sum > 0 ? (uint64_t)sum : 0;
	return true;
}

bool manage_fast_take(struct manage_fast *fast, int rule, uint64_t bytes, uint64_t max_bytes)
{
	uint64_t used;

	/* First taken, then looked at: of two migrators at once neither goes over it. */
	atomic_fetch_add_explicit(&fast->share[rule].on_its_way, (int64_t)bytes, memory_order_relaxed);
	if (manage_fast_used(fast, rule, &used) && used <= max_bytes)
		return true;
	manage_fast_put(fast, rule, bytes);
	return false;
}

void manage_fast_put(struct manage_fast *fast, int rule, uint64_t bytes)
{
	atomic_fetch_sub_explicit(&fast->share[rule].on_its_way, (int64_t)bytes, memory_order_relaxed);
}

void manage_fast_moved(struct manage_fast *fast, int rule, uint64_t bytes)
{
	atomic_fetch_add_explicit(&fast->share[rule].moved, (int64_t)bytes, memory_order_relaxed);
}
