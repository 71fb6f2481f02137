/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cleanup.h"
#include "clock.h"
#include "config.h"
#include "guard.h"
#include "guard_pressure.h"
#include "message.h"
#include "owners.h"
#include "owners_facts.h"
#include "parse.h"
#include "rcu.h"
#include "sample.h"
#include "stats.h"

#define AT_ONCE     64                   /* processes that are looked at in a step */
#define SLOTS_STEP  4096                 /* and how many places are gone through for them */
#define AGAIN_NS    (30 * NSEC_PER_SEC)  /* a process may go to another group */
#define UNUSED_NS   (300 * NSEC_PER_SEC) /* without a process of it: its place is free */
#define PLACE_BITS  8
#define DEPTH_MAX   32
#define CGROUP      "sys/fs/cgroup"
#define MACHINE_PSI "proc/pressure/memory"

_Static_assert(GUARD_GROUPS < 1 << PLACE_BITS, "a place has its bits, and none is 0");

const char *const guard_pressure_text[GUARD_PRESSURE_CAUSES] = {
	[GUARD_WELL] = "",
	[GUARD_PRESSURE] = "its tasks wait for memory",
	[GUARD_SWAP] = "its memory goes to swap",
	[GUARD_OOM] = "a process of it was killed for want of memory",
};

struct group {
	char path[GUARD_GROUP_PATH]; /* under the lock; read by the stepping thread without */
	_Atomic uint64_t until_ns;   /* relaxed, all of these: a moment's view */
	_Atomic uint32_t cause, age; /* age: grows with each group that gets the place; 0: free */
	/* The stepping thread's own. */
	uint64_t used_ns;
	bool counted; /* the counters below are known */
	uint64_t oom_kills, swapped_bytes;
};

struct job {
	uint32_t slot, pid;
	uint64_t start_ticks;
};

struct guard_pressure {
	struct guard_pressure_params params;
	uint64_t step_ns;
	uint32_t next_slot, ages;
	bool said_no_psi, said_no_group_psi, said_no_groups, said_many;
	struct owner_facts facts; /* 8 KiB */
	pthread_mutex_t lock;
	struct group group[GUARD_GROUPS];
};

static uint64_t get(const _Atomic uint64_t *word)
{
	return atomic_load_explicit(word, memory_order_relaxed);
}

static uint32_t age_of(const struct group *group)
{
	return atomic_load_explicit(&group->age, memory_order_relaxed);
}

static enum guard_pressure_cause cause_of(const struct group *group)
{
	return (enum guard_pressure_cause)atomic_load_explicit(&group->cause, memory_order_relaxed);
}

struct guard_pressure *guard_pressure_new(const struct guard_pressure_params *params)
{
	struct guard_pressure *g = calloc(1, sizeof(*g));

	if (!g)
		return NULL;
	g->params = *params;
	pthread_mutex_init(&g->lock, NULL);
	return g;
}

void guard_pressure_free(struct guard_pressure *g)
{
	if (!g)
		return;
	pthread_mutex_destroy(&g->lock);
	free(g);
}

bool guard_pressure_holds(const struct guard_pressure *g, const struct config *config, const struct owner *owner,
			  uint64_t now_ns)
{
	uint32_t word = atomic_load_explicit(&owner->group, memory_order_relaxed);
	uint32_t place = word & ((1U << PLACE_BITS) - 1);
	const struct group *group;

	if (place == 0 || place > GUARD_GROUPS)
		return false;
	group = &g->group[place - 1];
	if (age_of(group) != word >> PLACE_BITS || get(&group->until_ns) <= now_ns)
		return false;
	/* Slow: one second in so many. */
	return config->guard_action == GUARD_ACTION_PAUSE || now_ns / NSEC_PER_SEC % GUARD_SLOW_PART != 0;
}

size_t guard_pressure_look(struct guard_pressure *g, struct guard_pressure_view *ret, size_t max)
{
	uint64_t now_ns = clock_now_ns(g->params.clock);
	size_t n = 0;

	pthread_mutex_lock(&g->lock);
	for (size_t i = 0; i < GUARD_GROUPS && n < max; i++) {
		const struct group *group = &g->group[i];

		if (!age_of(group) || get(&group->until_ns) <= now_ns)
			continue;
		memcpy(ret[n].path, group->path, sizeof(ret[n].path));
		ret[n].cause = cause_of(group);
		ret[n++].left_ns = get(&group->until_ns) - now_ns;
	}
	pthread_mutex_unlock(&g->lock);
	return n;
}

static void say(const struct group *group, enum guard_pressure_cause cause, uint64_t sec)
{
	const char *name = group->path[0] ? group->path : "the machine";
	const char *what = group->path[0] ? "control group " : "";

	if (cause == GUARD_WELL)
		message(MESSAGE_GUARD_CGROUP,
			(const struct log_field[]){ { "PGHOT_CGROUP", name }, { "PGHOT_REASON", "" } }, 2,
			"the guard lets go of %s%s: its memory is moved again", what, name);
	else
		message(MESSAGE_GUARD_CGROUP,
			(const struct log_field[]){ { "PGHOT_CGROUP", name },
						    { "PGHOT_REASON", guard_pressure_text[cause] } },
			2, "a guard holds %s%s: %s. None of it is moved until that was over for %llu s", what, name,
			guard_pressure_text[cause], (unsigned long long)sec);
}

static void set_hold(struct group *group, enum guard_pressure_cause cause, uint64_t until_ns)
{
	atomic_store_explicit(&group->cause, (uint32_t)cause, memory_order_relaxed);
	atomic_store_explicit(&group->until_ns, until_ns, memory_order_relaxed);
}

static void let_go(struct group *group)
{
	if (cause_of(group) != GUARD_WELL)
		say(group, GUARD_WELL, 0);
	set_hold(group, GUARD_WELL, 0);
}

static void free_group(struct guard_pressure *g, struct group *group)
{
	let_go(group);
	pthread_mutex_lock(&g->lock);
	atomic_store_explicit(&group->age, 0, memory_order_relaxed);
	group->path[0] = '\0';
	pthread_mutex_unlock(&g->lock);
}

/* The place of the group at @path; -1: there is none left. */
static int place_of(struct guard_pressure *g, const char *path, uint64_t now_ns)
{
	int none = -1;

	for (int i = 0; i < GUARD_GROUPS; i++) {
		struct group *group = &g->group[i];

		if (age_of(group) && strcmp(group->path, path) == 0) {
			group->used_ns = now_ns;
			return i;
		}
		if (!age_of(group) && none < 0)
			none = i;
	}
	if (none < 0)
		return -1;
	g->ages = g->ages % (UINT32_MAX >> PLACE_BITS) + 1;
	pthread_mutex_lock(&g->lock);
	g->group[none] = (struct group){ .used_ns = now_ns };
	snprintf(g->group[none].path, GUARD_GROUP_PATH, "%s", path);
	atomic_store_explicit(&g->group[none].age, g->ages, memory_order_relaxed);
	pthread_mutex_unlock(&g->lock);
	return none;
}

/*
 * The control group to watch for a process in @cgroup: the first from there up that has the memory controller. "": the
 * machine. false: its name is none that can be watched.
 */
static bool find_group(struct guard_pressure *g, const char *cgroup, char path[GUARD_GROUP_PATH])
{
	if (!fsroot_exists(&g->params.root, CGROUP "/cgroup.controllers")) {
		if (!g->said_no_groups)
			log_info("there is no cgroup v2 at /%s: memory pressure is watched for the machine as a whole, "
				 "swap-out and kills aren't",
				 CGROUP);
		g->said_no_groups = true;
		cgroup = "";
	}
	/* One that is outside of what we see has a name that leads out of it. */
	if (strlen(cgroup) >= GUARD_GROUP_PATH || strstr(cgroup, "/.."))
		return false;
	snprintf(path, GUARD_GROUP_PATH, "%s", cgroup);
	for (int depth = 0; depth < DEPTH_MAX && path[0]; depth++) {
		if (path[1] && fsroot_exists(&g->params.root, CGROUP "%s/memory.events", path))
			return true;
		*strrchr(path, '/') = '\0';
	}
	path[0] = '\0';
	return true;
}

static void look_at_process(struct guard_pressure *g, const struct job *job, uint64_t now_ns)
{
	char path[GUARD_GROUP_PATH];
	struct owner *owner;
	uint32_t word = 0;
	int place;

	/* Between the two it may have ended, and its pid may be another's: then nothing is left with it. */
	if (owners_facts_who(&g->params.root, job->pid, &g->facts) < 0 ||
	    !owners_check(g->params.owners, job->slot, job->pid, job->start_ticks))
		return;
	place = find_group(g, g->facts.cgroup, path) ? place_of(g, path, now_ns) : -1;
	if (place >= 0)
		word = age_of(&g->group[place]) << PLACE_BITS | (uint32_t)(place + 1);
	else
		stats_inc(g->params.counted, STAT_GUARD_UNWATCHED);
	if (place < 0 && !g->said_many) {
		g->said_many = true;
		log_notice("memory of more than %d control groups is moved, or one has a name of %d characters or "
			   "more: "
			   "the guard against memory pressure watches the first ones",
			   GUARD_GROUPS, GUARD_GROUP_PATH);
	}
	rcu_enter();
	owner = owners_at(g->params.owners, job->slot);
	if (owner && owner->pid == job->pid && owner->start_ticks == job->start_ticks)
		atomic_store_explicit(&owner->group, word, memory_order_relaxed);
	rcu_leave();
}

/* Processes that something was moved of, and whose group isn't known, or was looked up a while ago. */
static size_t take_jobs(struct guard_pressure *g, struct job *jobs, uint64_t now_ns)
{
	uint32_t end = owners_end(g->params.owners);
	size_t n = 0;

	rcu_enter();
	for (uint32_t i = 0; i < SLOTS_STEP && i < end && n < AT_ONCE; i++) {
		struct owner *owner;

		if (g->next_slot >= end)
			g->next_slot = 0;
		owner = owners_at(g->params.owners, g->next_slot++);
		if (!owner || get(&owner->hot_bytes) == 0 ||
		    atomic_load_explicit(&owner->state, memory_order_relaxed) == OWNER_GONE)
			continue;
		if (owner->group_ns && now_ns - owner->group_ns < AGAIN_NS)
			continue;
		owner->group_ns = now_ns;
		jobs[n++] = (struct job){ owner->slot, owner->pid, owner->start_ticks };
	}
	rcu_leave();
	return n;
}

/* Of "name value" lines. false: there is no such line. */
static bool line_value(const char *text, const char *name, uint64_t *ret)
{
	size_t len = strlen(name);

	for (const char *at = text; at; at = strchr(at, '\n'), at = at ? at + 1 : NULL) {
		char number[24];
		size_t digits;

		if (strncmp(at, name, len) != 0 || at[len] != ' ')
			continue;
		digits = strspn(at + len + 1, "0123456789");
		if (digits == 0 || digits >= sizeof(number))
			return false;
		memcpy(number, at + len + 1, digits);
		number[digits] = '\0';
		return parse_u64(number, 0, UINT64_MAX, ret) == 0;
	}
	return false;
}

/* "some avg10=1.23 avg60=...": Documentation/accounting/psi.rst. 0 or -errno. */
static int read_pressure(const struct guard_pressure *g, const struct group *group, double *ret_percent)
{
	char text[256];
	int r;

	if (group->path[0])
		r = fsroot_read(&g->params.root, text, sizeof(text), CGROUP "%s/memory.pressure", group->path);
	else
		r = fsroot_read(&g->params.root, text, sizeof(text), MACHINE_PSI);
	if (r < 0)
		return r;
	return sscanf(text, "some avg10=%lf", ret_percent) == 1 ? 0 : -EBADMSG;
}

/* Kills and swap-out since the last look. Where a kernel doesn't count pswpout, what is in swap has to do. */
static enum guard_pressure_cause look_at_counters(struct guard_pressure *g, struct group *group)
{
	enum guard_pressure_cause cause = GUARD_WELL;
	_cleanup_free_ char *stat = NULL;
	uint64_t kills = group->oom_kills, pages = 0, bytes = group->swapped_bytes;
	char events[512];

	if (!group->path[0])
		return GUARD_WELL;
	if (fsroot_read(&g->params.root, events, sizeof(events), CGROUP "%s/memory.events", group->path) >= 0)
		(void)line_value(events, "oom_kill", &kills);
	if (fsroot_read_alloc(&g->params.root, &stat, CGROUP "%s/memory.stat", group->path) >= 0 &&
	    line_value(stat, "pswpout", &pages))
		bytes = pages * PAGE_SIZE_BYTES;
	else
		(void)fsroot_read_u64(&g->params.root, &bytes, 10, CGROUP "%s/memory.swap.current", group->path);
	if (group->counted && bytes > group->swapped_bytes + GUARD_SWAP_BYTES)
		cause = GUARD_SWAP;
	if (group->counted && kills > group->oom_kills)
		cause = GUARD_OOM;
	group->oom_kills = kills;
	group->swapped_bytes = bytes;
	group->counted = true;
	return cause;
}

/* Once: the kernel knows of no memory pressure, or that of this group isn't told. */
static void say_no_psi(struct guard_pressure *g, const struct group *group)
{
	char text[256];

	/* -EOPNOTSUPP: switched off by psi=0. */
	if (fsroot_read(&g->params.root, text, sizeof(text), MACHINE_PSI) < 0) {
		if (!g->said_no_psi)
			log_notice("this kernel says nothing of memory pressure (no CONFIG_PSI, or psi=0): of control "
				   "groups only swap-out and kills are watched");
		g->said_no_psi = true;
		return;
	}
	/* It may have been removed just now. */
	if (g->said_no_group_psi || !group->path[0] ||
	    !fsroot_exists(&g->params.root, CGROUP "%s/memory.events", group->path))
		return;
	g->said_no_group_psi = true;
	log_notice("control group %s says nothing of its memory pressure (0 in its cgroup.pressure): of groups like "
		   "this only swap-out and kills are watched",
		   group->path);
}

static void look_at_group(struct guard_pressure *g, struct group *group, const struct config *config, uint64_t now_ns)
{
	static const enum stat_id counters[GUARD_PRESSURE_CAUSES] = {
		[GUARD_PRESSURE] = STAT_GUARD_PRESSURE,
		[GUARD_SWAP] = STAT_GUARD_SWAP,
		[GUARD_OOM] = STAT_GUARD_OOM,
	};
	uint64_t hold_ns = (uint64_t)config->guard_resume_after_sec * NSEC_PER_SEC;
	enum guard_pressure_cause cause;
	double percent = 0;
	int r;

	if (now_ns - group->used_ns >= UNUSED_NS ||
	    (group->path[0] && !fsroot_exists(&g->params.root, CGROUP "%s/memory.events", group->path))) {
		free_group(g, group);
		return;
	}
	cause = look_at_counters(g, group);
	r = read_pressure(g, group, &percent);
	if (r < 0)
		say_no_psi(g, group);
	if (cause == GUARD_WELL && r == 0 && percent >= config->guard_pressure_percent)
		cause = GUARD_PRESSURE;
	if (cause != GUARD_WELL) {
		if (cause_of(group) == GUARD_WELL) {
			stats_inc(g->params.counted, counters[cause]);
			say(group, cause, (uint64_t)config->guard_resume_after_sec);
		}
		set_hold(group, cause, now_ns + hold_ns);
	} else if (cause_of(group) != GUARD_WELL &&
		   (now_ns >= get(&group->until_ns) || get(&group->until_ns) - now_ns > hold_ns)) {
		/* Over, or guard.resume_after_sec is less now. */
		let_go(group);
	}
}

void guard_pressure_step(struct guard_pressure *g, const struct config *config)
{
	uint64_t now_ns = clock_now_ns(g->params.clock);
	struct job jobs[AT_ONCE];
	size_t n;

	if (g->step_ns && now_ns - g->step_ns < GUARD_PRESSURE_STEP_NS)
		return;
	g->step_ns = now_ns;
	if (config->guard_pressure_percent <= 0) {
		for (size_t i = 0; i < GUARD_GROUPS; i++)
			if (age_of(&g->group[i]))
				free_group(g, &g->group[i]);
		return;
	}
	n = take_jobs(g, jobs, now_ns);
	for (size_t i = 0; i < n; i++)
		look_at_process(g, &jobs[i], now_ns);
	for (size_t i = 0; i < GUARD_GROUPS; i++)
		if (age_of(&g->group[i]))
			look_at_group(g, &g->group[i], config, now_ns);
}
