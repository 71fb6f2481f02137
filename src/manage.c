/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "config.h"
#include "manage.h"
#include "manage_fast.h"
#include "nodeset.h"
#include "owners.h"
#include "owners_facts.h"
#include "owners_map.h"
#include "rcu.h"
#include "rules.h"
#include "topology.h"

#define AT_ONCE  64 /* owners that are copied out of one read section */
#define USER_MAX 64

/* The word that is left with an owner; 0: nothing is known. */
#define WORD_VERDICT_BITS 2
#define WORD_REASON_SHIFT 2
#define WORD_REASON_MASK  0x1fU
#define WORD_KINDS_SHIFT  7
#define WORD_KINDS_MASK   0xfU
#define WORD_RULE_SHIFT   11
#define WORD_RULE_MASK    0x3fU
#define WORD_NID_SHIFT    17
#define WORD_NID_MASK     0x7ffU
#define WORD_UID_SHIFT    28

_Static_assert(LEFT_MAX <= WORD_REASON_MASK + 1, "a reason has its bits");
_Static_assert(RULES_MAX <= WORD_RULE_MASK, "a rule has its bits, and none is 0");

const char *const manage_reason_name[LEFT_MAX] = {
	[LEFT_RULE] = "rule",           [LEFT_SMALL] = "small",       [LEFT_OPTED_OUT] = "opted_out",
	[LEFT_PINNED] = "pinned",       [LEFT_DEVICE] = "device",     [LEFT_REAL_TIME] = "real_time",
	[LEFT_POLICY] = "policy",       [LEFT_HUGETLB] = "hugetlb",   [LEFT_LOCKED] = "locked",
	[LEFT_SHARED] = "shared",       [LEFT_FILE] = "file",         [LEFT_FAST_MAX] = "fast_max",
	[LEFT_PING_PONG] = "ping_pong", [LEFT_PRESSURE] = "pressure", [LEFT_NOT_LOOKED_AT] = "not_looked_at",
};

struct manage {
	struct owners *owners;
	struct fsroot root;
	const struct clock *clock;
	const struct topology_store *topology;
	struct manage_fast *fast;
	_Atomic bool asked;   /* some owner is; A1 release after the owner's own pairs with A2 acquire */
	_Atomic bool reading; /* relaxed: for the watchdog */
	/* By which rules processes are known (0: none yet; A3 release after what was known by others is forgotten pairs
	 * with A4 acquire), and those that hold now (relaxed: it stands for itself). */
	_Atomic uint64_t taken, expected;

	/* The manage thread's own. */
	bool has_rules;
	bool manage_default;
	uint8_t kinds;
	struct rules rules;
	struct nodeset fast_nodes;
	const _Atomic bool *stop;
	uint32_t next_slot; /* where the next step begins, so that none is always last */
	uint32_t user_uid;  /* the last name that was looked up */
	uint64_t user_ns;
	char user[USER_MAX];
	struct owner_facts facts; /* 8 KiB */
};

struct manage *manage_new(struct owners *owners, const struct fsroot *proc, const struct clock *clock,
			  const struct topology_store *topology)
{
	struct manage *manage = calloc(1, sizeof(*manage));

	if (!manage)
		return NULL;
	manage->owners = owners;
	manage->root = *proc;
	manage->clock = clock;
	manage->topology = topology;
	manage->fast = manage_fast_new(proc, clock, owners_self_pid(owners));
	if (!manage->fast) {
		free(manage);
		return NULL;
	}
	return manage;
}

void manage_free(struct manage *manage)
{
	if (!manage)
		return;
	manage_fast_free(manage->fast);
	free(manage);
}

struct manage_fast *manage_get_fast(const struct manage *manage)
{
	return manage->fast;
}

bool manage_is_reading(const struct manage *manage)
{
	return atomic_load_explicit(&manage->reading, memory_order_relaxed);
}

static void ask_for_a_look(struct manage *manage, struct owner *owner)
{
	/* Mostly it is asked for already: then no cache line changes hands. */
	if (atomic_load_explicit(&owner->asked, memory_order_relaxed))
		return;
	atomic_store_explicit(&owner->asked, true, memory_order_relaxed);
	atomic_store_explicit(&manage->asked, true, memory_order_release); /* A1 */
}

static void wait_for_a_look(struct manage_answer *ret)
{
	ret->verdict = MANAGE_WAIT;
	ret->reason = LEFT_NOT_LOOKED_AT;
}

/* Kinds of memory, in the order in which they are named when several hold. */
static bool is_left(unsigned int map, unsigned int kinds, enum manage_reason *ret)
{
	static const struct {
		unsigned int map, kind;
		enum manage_reason reason;
	} rows[] = {
		{ MEMORY_BOUND, 0, LEFT_POLICY },
		{ MEMORY_HUGETLB, KIND_HUGETLB, LEFT_HUGETLB },
		{ MEMORY_LOCKED, KIND_LOCKED, LEFT_LOCKED },
		{ MEMORY_COMMON, KIND_SHARED, LEFT_SHARED },
		{ MEMORY_OF_FILE, KIND_FILE, LEFT_FILE },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		/* A file that is mapped shared is no less a file: it needs leave for both. */
		if ((map & rows[i].map) && !(kinds & rows[i].kind)) {
			*ret = rows[i].reason;
			return true;
		}
	}
	return false;
}

/* The word, and what it says in @ret; its kinds in @ret_kinds. */
static uint64_t read_word(const struct owner *owner, struct manage_answer *ret, unsigned int *ret_kinds)
{
	uint64_t word = atomic_load_explicit(&owner->manage, memory_order_relaxed); /* it is all there is to it */

	*ret = (struct manage_answer){
		.verdict = (enum manage_verdict)(word & ((1U << WORD_VERDICT_BITS) - 1)),
		.reason = (enum manage_reason)(word >> WORD_REASON_SHIFT & WORD_REASON_MASK),
		.rule = (int)(word >> WORD_RULE_SHIFT & WORD_RULE_MASK) - 1,
		.target_nid = (int)(word >> WORD_NID_SHIFT & WORD_NID_MASK) - 1,
		.uid = (uint32_t)(word >> WORD_UID_SHIFT),
	};
	*ret_kinds = (unsigned int)(word >> WORD_KINDS_SHIFT & WORD_KINDS_MASK);
	if (ret->verdict == MANAGE_WAIT)
		wait_for_a_look(ret);
	return word;
}

/*
 * The same, and when that was found in @ret_looked_ns; nothing, and never, as long as what is known is by rules that
 * don't hold any more. Relaxed, all but the rules: a late look costs one answer that is a little older.
 */
static uint64_t read_word_now(const struct manage *manage, const struct owner *owner, struct manage_answer *ret,
			      unsigned int *ret_kinds, uint64_t *ret_looked_ns)
{
	uint64_t taken = atomic_load_explicit(&manage->taken, memory_order_acquire); /* A4 */

	if (taken == 0 || taken == atomic_load_explicit(&manage->expected, memory_order_relaxed)) {
		*ret_looked_ns = atomic_load_explicit(&owner->looked_ns, memory_order_relaxed);
		return read_word(owner, ret, ret_kinds);
	}
	*ret = (struct manage_answer){ .rule = -1, .target_nid = -1 };
	*ret_kinds = 0;
	*ret_looked_ns = 0;
	wait_for_a_look(ret);
	return 0;
}

void manage_known(const struct owner *owner, struct manage_answer *ret)
{
	unsigned int kinds;

	(void)read_word(owner, ret, &kinds);
}

/* One that nothing could be found of is tried again, now and then. */
static bool is_look_due(uint64_t word, uint64_t looked_ns, uint64_t now_ns)
{
	return looked_ns == 0 || now_ns - looked_ns >= (word ? MANAGE_FACTS_NS : MANAGE_RETRY_NS);
}

int manage_rule(struct manage *manage, struct owner *owner)
{
	struct manage_answer answer;
	uint64_t word, looked_ns;
	unsigned int kinds;

	if (!manage)
		return -1;
	word = read_word_now(manage, owner, &answer, &kinds, &looked_ns);
	if (word == 0 && is_look_due(word, looked_ns, clock_now_ns(manage->clock)))
		ask_for_a_look(manage, owner);
	return answer.rule;
}

void manage_ask(struct manage *manage, struct owner *owner, uint64_t addr, uint64_t now_ns, struct manage_answer *ret)
{
	uint64_t word, looked_ns;
	const struct owners_map *map;
	unsigned int kinds, of;

	*ret = (struct manage_answer){ .verdict = MANAGE_MOVE, .target_nid = -1, .rule = -1 };
	if (!manage)
		return;
	word = read_word_now(manage, owner, ret, &kinds, &looked_ns);
	if (is_look_due(word, looked_ns, now_ns))
		ask_for_a_look(manage, owner);
	if (ret->verdict == MANAGE_WAIT || ret->verdict == MANAGE_LEAVE)
		return;
	map = atomic_load_explicit(&owner->map, memory_order_acquire); /* M2 in owners.h */
	of = map ? owners_map_find(map, addr) : MEMORY_UNKNOWN;
	if (map && owners_map_has_device(map)) {
		ret->verdict = MANAGE_LEAVE;
		ret->reason = LEFT_DEVICE;
	} else if (is_left(of, kinds, &ret->reason)) {
		ret->verdict = MANAGE_LEAVE;
	} else if (of & MEMORY_UNKNOWN) {
		wait_for_a_look(ret);
	} else {
		ret->shared = kinds & KIND_SHARED;
		ret->hugetlb = of & MEMORY_HUGETLB;
	}
}

void manage_ask_share(const struct manage *manage, const struct rules *rules, uint64_t tier_bytes, uint64_t page_bytes,
		      struct manage_answer *answer)
{
	uint64_t max_bytes, used;

	if (!manage || !manage_fast_max(rules, answer->rule, tier_bytes, &max_bytes))
		return;
	if (!manage_fast_used(manage->fast, answer->rule, &used)) {
		wait_for_a_look(answer);
	} else if (used + page_bytes > max_bytes) {
		answer->verdict = MANAGE_LEAVE;
		answer->reason = LEFT_FAST_MAX;
	}
}

/* What is copied out of the read section of an owner that was asked for. */
struct job {
	uint32_t slot, pid;
	uint64_t start_ticks;
};

static void forget(struct manage *manage)
{
	uint32_t end = owners_end(manage->owners);

	for (uint32_t slot = 0; slot < end; slot++) {
		struct owner *owner;

		rcu_enter();
		owner = owners_at(manage->owners, slot);
		if (owner) {
			atomic_store_explicit(&owner->manage, 0, memory_order_relaxed);
			atomic_store_explicit(&owner->looked_ns, 0, memory_order_relaxed);
		}
		rcu_leave();
	}
}

static uint8_t kinds_of(const struct config *config)
{
	return (uint8_t)((config->kinds_shared ? KIND_SHARED : 0) | (config->kinds_hugetlb ? KIND_HUGETLB : 0) |
			 (config->kinds_locked ? KIND_LOCKED : 0) | (config->kinds_file ? KIND_FILE : 0));
}

static uint64_t hash_of(const struct config *config)
{
	uint64_t hash = rules_hash(&config->manage_rules) * 32 + kinds_of(config) * 2 + config->manage_default;

	return hash ? hash : 1;
}

static void expect(struct manage *manage, uint64_t hash)
{
	/* Mostly it is the same: then no cache line changes hands. */
	if (atomic_load_explicit(&manage->expected, memory_order_relaxed) != hash)
		atomic_store_explicit(&manage->expected, hash, memory_order_relaxed);
}

void manage_expect(struct manage *manage, const struct config *config)
{
	if (manage)
		expect(manage, hash_of(config));
}

/* A change of the rules holds at once: all that was found by the old ones is forgotten. */
static void take_rules(struct manage *manage, const struct config *config)
{
	uint8_t kinds = kinds_of(config);
	uint64_t hash;

	if (manage->has_rules && manage->manage_default == config->manage_default && manage->kinds == kinds &&
	    rules_same(&manage->rules, &config->manage_rules))
		return;
	manage->manage_default = config->manage_default;
	manage->kinds = kinds;
	manage->rules = config->manage_rules;
	if (manage->has_rules)
		forget(manage);
	manage_fast_forget(manage->fast);
	manage->has_rules = true;
	hash = hash_of(config);
	expect(manage, hash);
	atomic_store_explicit(&manage->taken, hash, memory_order_release); /* A3 */
}

static uint64_t make_word(enum manage_verdict verdict, enum manage_reason reason, unsigned int kinds, int rule, int nid,
			  uint32_t uid)
{
	return (uint64_t)verdict | (uint64_t)reason << WORD_REASON_SHIFT | (uint64_t)kinds << WORD_KINDS_SHIFT |
	       (uint64_t)(rule + 1) << WORD_RULE_SHIFT | (uint64_t)(nid + 1) << WORD_NID_SHIFT |
	       (uint64_t)uid << WORD_UID_SHIFT;
}

/* The user's name, if a rule wants one; the file is read once for a row of processes of one user. */
static const char *user_of(struct manage *manage, uint32_t uid)
{
	uint64_t now_ns = clock_now_ns(manage->clock);

	if (!rules_want_user(&manage->rules))
		return "";
	if (manage->user_ns == 0 || uid != manage->user_uid || now_ns - manage->user_ns >= MANAGE_FACTS_NS) {
		owners_facts_user(&manage->root, uid, manage->user, sizeof(manage->user));
		manage->user_uid = uid;
		manage->user_ns = now_ns;
	}
	return manage->user;
}

static int rule_of(void *ctx, const struct owner_facts *facts)
{
	struct manage *manage = ctx;
	const struct rule_subject subject = {
		.cgroup = facts->cgroup,
		.exe = facts->exe,
		.user = user_of(manage, facts->uid),
		.uid = facts->uid,
	};

	return rules_find(&manage->rules, &subject);
}

/* By facts and rules. */
static uint64_t judge(struct manage *manage, const struct owner_facts *facts)
{
	int i = rule_of(manage, facts);
	const struct rule *rule = i >= 0 ? &manage->rules.rule[i] : NULL;
	enum rule_mode mode = rule ? rule->mode : manage->manage_default ? RULE_PROMOTE : RULE_OFF;
	unsigned int kinds = manage->kinds;
	enum manage_reason reason;

	if (rule)
		kinds = (kinds & ~(unsigned int)rule->kinds_set) | (rule->kinds & rule->kinds_set);
	if (mode == RULE_OFF)
		reason = LEFT_RULE;
	else if (facts->cgroup_off)
		reason = LEFT_OPTED_OUT;
	else if (rule && facts->rss_bytes < (uint64_t)rule->min_rss_mib << 20)
		reason = LEFT_SMALL;
	else if (facts->pinned_bytes > 0)
		reason = LEFT_PINNED;
	else if (facts->device)
		reason = LEFT_DEVICE;
	else if (facts->real_time)
		reason = LEFT_REAL_TIME;
	else
		return make_word(mode == RULE_OBSERVE ? MANAGE_OBSERVE : MANAGE_MOVE, LEFT_RULE, kinds, i,
				 rule ? rule->target_nid : -1, facts->uid);
	return make_word(MANAGE_LEAVE, reason, kinds, i, -1, facts->uid);
}

/* The owner of @job, if it is still that one. Inside a read section. */
static struct owner *owner_of(const struct manage *manage, const struct job *job)
{
	struct owner *owner = owners_at(manage->owners, job->slot);

	return owner && owner->pid == job->pid && owner->start_ticks == job->start_ticks ? owner : NULL;
}

static void publish_word(struct manage *manage, const struct job *job, uint64_t word)
{
	struct owner *owner;

	rcu_enter();
	owner = owner_of(manage, job);
	if (owner) {
		atomic_store_explicit(&owner->manage, word, memory_order_relaxed); /* see manage_ask() */
		atomic_store_explicit(&owner->looked_ns, clock_now_ns(manage->clock), memory_order_relaxed);
	}
	rcu_leave();
}

/* @map NULL: nothing is known any more. */
static void publish_map(struct manage *manage, const struct job *job, struct owners_map *map, uint64_t cost_ns)
{
	struct owners_map *old = map;
	struct owner *owner;

	rcu_enter();
	owner = owner_of(manage, job);
	if (owner) {
		/* Release: M1 in owners.h. No acquire: only this thread ever stores. */
		old = atomic_exchange_explicit(&owner->map, map, memory_order_release);
		owner->map_ns = clock_now_ns(manage->clock);
		owner->map_cost_ns = cost_ns;
	}
	rcu_leave();
	if (!old)
		return;
	rcu_wait();
	owners_map_free(old);
}

static bool map_is_due(struct manage *manage, const struct job *job)
{
	uint64_t now_ns = clock_now_ns(manage->clock), pause_ns;
	struct owner *owner;
	bool due = false;

	rcu_enter();
	owner = owner_of(manage, job);
	if (owner) {
		pause_ns = owner->map_cost_ns * MANAGE_MAP_COST_MULT;
		if (pause_ns < MANAGE_MAP_NS)
			pause_ns = MANAGE_MAP_NS;
		due = owner->map_ns == 0 || now_ns - owner->map_ns >= pause_ns;
	}
	rcu_leave();
	return due;
}

static bool go_on(void *ctx)
{
	struct manage *manage = ctx;

	return !manage->stop || !atomic_load_explicit(manage->stop, memory_order_relaxed);
}

static void look_at_memory(struct manage *manage, const struct job *job, bool locked)
{
	uint64_t start_ns = clock_now_ns(manage->clock), cost_ns;
	struct owners_map *map;
	int r;

	map = owners_map_read(&manage->root, job->pid, locked, go_on, manage, &r);
	cost_ns = clock_now_ns(manage->clock) - start_ns;
	/* Another process of that pid would answer for this one. */
	if (!owners_check(manage->owners, job->slot, job->pid, job->start_ticks)) {
		owners_map_free(map);
		map = NULL;
	}
	publish_map(manage, job, map, cost_ns);
}

static void look(struct manage *manage, const struct job *job)
{
	struct owner_facts *facts = &manage->facts;
	uint64_t word = 0;
	int r;

	atomic_store_explicit(&manage->reading, true, memory_order_relaxed);
	r = owners_facts_read(&manage->root, job->pid, facts);
	if (r == 0 && owners_check(manage->owners, job->slot, job->pid, job->start_ticks))
		word = judge(manage, facts);
	if ((word & 3) == MANAGE_MOVE || (word & 3) == MANAGE_OBSERVE)
		if (map_is_due(manage, job))
			look_at_memory(manage, job, facts->locked_bytes > 0);
	publish_word(manage, job, word);
	atomic_store_explicit(&manage->reading, false, memory_order_relaxed);
}

static void put_back(struct manage *manage, const struct job *job)
{
	struct owner *owner;

	rcu_enter();
	owner = owner_of(manage, job);
	if (owner)
		ask_for_a_look(manage, owner);
	rcu_leave();
}

/* Owners that were asked for, from @manage->next_slot on, once round. */
static size_t take_jobs(struct manage *manage, uint32_t *left, struct job *jobs)
{
	uint32_t end = owners_end(manage->owners);
	size_t n = 0;

	if (manage->next_slot >= end)
		manage->next_slot = 0;
	for (; *left > 0 && n < AT_ONCE; (*left)--) {
		struct owner *owner;

		rcu_enter();
		owner = owners_at(manage->owners, manage->next_slot);
		/* Cleared before the look: who asks during it is looked at again. */
		if (owner && atomic_load_explicit(&owner->asked, memory_order_relaxed)) {
			atomic_store_explicit(&owner->asked, false, memory_order_relaxed);
			if (atomic_load_explicit(&owner->state, memory_order_relaxed) == OWNER_ALIVE)
				jobs[n++] = (struct job){ owner->slot, owner->pid, owner->start_ticks };
		}
		rcu_leave();
		manage->next_slot = manage->next_slot + 1 < end ? manage->next_slot + 1 : 0;
	}
	return n;
}

/* What programs have of the fast tier. Memory that comes or goes there makes it another one. */
static void look_at_fast(struct manage *manage, uint64_t budget_ns)
{
	const struct manage_fast_input input = {
		.rules = &manage->rules,
		.nodes = &manage->fast_nodes,
		.rule_of = rule_of,
		.go_on = go_on,
		.ctx = manage,
	};
	struct nodeset nodes;

	rcu_enter();
	nodes = topology_store_peek(manage->topology)->top;
	rcu_leave();
	if (!nodeset_equal(&nodes, &manage->fast_nodes)) {
		manage->fast_nodes = nodes;
		manage_fast_forget(manage->fast);
	}
	atomic_store_explicit(&manage->reading, true, memory_order_relaxed);
	manage_fast_step(manage->fast, &input, budget_ns);
	atomic_store_explicit(&manage->reading, false, memory_order_relaxed);
}

static size_t look_at_owners(struct manage *manage, uint64_t budget_ns)
{
	uint64_t start_ns = clock_now_ns(manage->clock);
	struct job jobs[AT_ONCE];
	uint32_t left;
	size_t looked = 0, n;

	if (!atomic_exchange_explicit(&manage->asked, false, memory_order_acquire)) /* A2 */
		return 0;
	left = owners_end(manage->owners);
	while ((n = take_jobs(manage, &left, jobs)) > 0) {
		for (size_t i = 0; i < n; i++) {
			if (!go_on(manage) || clock_now_ns(manage->clock) - start_ns >= budget_ns) {
				for (; i < n; i++)
					put_back(manage, &jobs[i]);
				/* Behind these there may be more. */
				atomic_store_explicit(&manage->asked, true, memory_order_relaxed); /* ours to see */
				return looked;
			}
			look(manage, &jobs[i]);
			looked++;
		}
	}
	return looked;
}

size_t manage_step(struct manage *manage, const struct config *config, uint64_t budget_ns, const _Atomic bool *stop)
{
	manage->stop = stop;
	take_rules(manage, config);
	look_at_fast(manage, budget_ns);
	return look_at_owners(manage, budget_ns);
}
