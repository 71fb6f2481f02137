/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "daemon.h"
#include "dataplane.h"
#include "log.h"
#include "message.h"

#define BETTER_HOLD_NS (3600 * NSEC_PER_SEC)

static bool source_wanted(const struct config *config, const struct source_ops *ops)
{
	for (int i = 0; i < config->sources.n; i++)
		if (strcmp(config->sources.item[i], "auto") == 0 || strcmp(config->sources.item[i], ops->name) == 0)
			return true;
	return false;
}

/* What became of the records of the open source so far. The order of reading: a sample is in total first. */
static struct source_tally tally_of(const struct daemon *daemon)
{
	static const enum stat_id misplaced[] = {
		STAT_DISCARDED_GUEST,    STAT_DISCARDED_NO_PID,     STAT_DISCARDED_SELF,   STAT_DISCARDED_NO_ACCESS,
		STAT_DISCARDED_PREFETCH, STAT_DISCARDED_NO_ADDRESS, STAT_DISCARDED_KERNEL,
	};
	bool hardware = daemon->source.ops->id != SAMPLE_SOURCE_HINT_FAULTS;
	const struct stats *stats = daemon->stats;
	struct source_tally tally = { .bad = stats_sum(stats, STAT_BAD_RECORDS) };
	uint64_t sum = 0, total;

	tally.phys_cleared = stats_sum(stats, STAT_HW_PHYS_CLEARED);
	tally.phys_zeroed = stats_sum(stats, STAT_HW_PHYS_ZEROED);
	tally.no_phys = stats_sum(stats, STAT_DISCARDED_NO_PHYS);
	for (size_t i = 0; i < sizeof(misplaced) / sizeof(misplaced[0]); i++)
		sum += stats_sum(stats, misplaced[i]);
	tally.good = total = stats_sum(stats, STAT_TOTAL);
	/* With faults a page that is gone again is no news, and nothing hides one. */
	tally.placed = hardware && total > sum ? total - sum : 0;
	return tally;
}

/* How its samples are, which check() doesn't see. Returns what check() returned as @r, or what is worse. */
static int look_at_samples(struct daemon *daemon, int r)
{
	struct source_tally tally = tally_of(daemon);
	enum source_health before = daemon->watch.health, health = source_watch_look(&daemon->watch, &tally);

	if (r < 0 || health == SOURCE_HEALTH_WELL || (r > 0 && health == SOURCE_HEALTH_PHYS_WALKED))
		return r;
	source_watch_explain(&daemon->watch, &daemon->source, daemon->source.why);
	if (health == SOURCE_HEALTH_MISFIT)
		return -EPROTO;
	if (source_health_is_fatal(health))
		return -ENODATA;
	if (health != SOURCE_HEALTH_PHYS_WALKED)
		return 1;
	if (health != before) /* a remark, so that no change of state says it */
		message(MESSAGE_SOURCE_FAILS,
			(const struct log_field[]){ { "PGHOT_SOURCE", daemon->source.ops->name } }, 1, "source %s: %s",
			daemon->source.ops->name, daemon->source.why);
	return 0;
}

/* What check() and the samples say becomes the state. Returns what is worse. */
static int look_at_source(struct daemon *daemon)
{
	int r = daemon->source.ops->check(&daemon->source);

	r = look_at_samples(daemon, r);
	snprintf(daemon->source_why, sizeof(daemon->source_why), "%s",
		 daemon->source.why[0] ? daemon->source.why : daemon->rate_note);
	daemon->source_state = r < 0 ? SOURCE_FAILED : r > 0 ? SOURCE_DEGRADED : SOURCE_RUNNING;
	return r;
}

/*
 * What helps a person most: what someone has just now, since that passes by itself; what can be allowed; what can be
 * set; what this machine hasn't got.
 */
static int telling(int old, int r)
{
	if (old == -EAGAIN)
		return old;
	if (old == 0 || r == -EAGAIN || r == -EACCES || (r != -ENOENT && old == -ENOENT))
		return r;
	return old;
}

/* Why the source of that place in the table doesn't work. */
static char *why_of(struct daemon *daemon, const struct source_ops *const *ops)
{
	return daemon->source_whys[ops - source_table];
}

int daemon_probe_sources(struct daemon *daemon, const struct config *config, char *why)
{
	struct source_env env = {
		.privops = &daemon->privops,
		.root = &daemon->root,
		.config = config,
		.topology = daemon->topology,
	};
	char one[SOURCE_WHY_MAX];
	int result = 0;

	snprintf(why, SOURCE_WHY_MAX, "no source is configured");
	for (const struct source_ops *const *ops = source_table; *ops; ops++) {
		int r, before = result;

		if (!source_wanted(config, *ops))
			continue;
		one[0] = '\0';
		r = (*ops)->probe(&env, one);
		if (r == 0)
			return 0;
		result = telling(result, r);
		if (result != before)
			snprintf(why, SOURCE_WHY_MAX, "%s", one);
	}
	return result ? result : -ENOENT;
}

static void let_go_of_rings(struct daemon *daemon)
{
	for (size_t i = 0; i < daemon->source.n_rings; i++)
		if (daemon->source.rings[i].ring)
			dataplane_remove_ring(daemon->dataplane, &daemon->source.rings[i]);
}

static int hand_over_rings(struct daemon *daemon)
{
	int r = 0;

	for (size_t i = 0; i < daemon->source.n_rings && r == 0; i++)
		if (daemon->source.rings[i].ring)
			r = dataplane_add_ring(daemon->dataplane, &daemon->source.rings[i]);
	return r;
}

static int open_one(struct daemon *daemon, const struct source_ops *ops)
{
	struct source *source = &daemon->source;
	int r;

	*source = (struct source){
		.ops = ops,
		.env = {
			.privops = &daemon->privops,
			.root = &daemon->root,
			.config = &daemon->current,
			.topology = daemon->topology,
			.clock = &clock_monotonic,
			.meter = &daemon->meter,
		},
	};
	r = ops->probe(&source->env, source->why);
	if (r == 0)
		r = ops->open(source);
	if (r == 0) {
		struct source_tally tally = tally_of(daemon);

		source_watch_start(&daemon->watch, &tally);
		daemon->samples_before = stats_sum(daemon->stats, STAT_HWHINTS);
		daemon->filtered = 0;
		/* Before the first sample: with no filter, a period that is too short by far would be a storm. */
		daemon_start_budget(daemon);
		r = hand_over_rings(daemon);
		if (r == 0)
			r = ops->enable(source, true);
		if (r < 0) {
			snprintf(source->why, sizeof(source->why), "cannot start reading its events: %s", strerror(-r));
			let_go_of_rings(daemon);
		}
	}
	if (r < 0) {
		ops->close(source);
		source->ops = NULL;
	}
	return r;
}

static int open_first(struct daemon *daemon, uint64_t now_ns)
{
	char why[SOURCE_WHY_MAX] = "no source is configured";
	bool first = daemon->source_state != SOURCE_FAILED;
	int result = 0;

	if (daemon->pause.on)
		return 0;
	for (const struct source_ops *const *ops = source_table; *ops; ops++) {
		bool held = now_ns < daemon->source_hold_ns[ops - source_table];
		int r = -ENODATA, before = result;

		if (!held)
			why_of(daemon, ops)[0] = '\0';
		if (!source_wanted(&daemon->current, *ops))
			continue;
		if (!held) /* else it is known why not */
			r = open_one(daemon, *ops);
		if (r == -EPROTO)
			daemon->source_hold_ns[ops - source_table] = UINT64_MAX;
		if (!held)
			daemon->source_errors[ops - source_table] = r;
		if (r < 0 && !held) {
			snprintf(why_of(daemon, ops), SOURCE_WHY_MAX, "%s", daemon->source.why);
			if (first) /* not each minute again */
				log_info("source %s: no: %s", (*ops)->name, daemon->source.why);
		}
		if (r == 0) {
			/* What the kernel promoted up to here, it did with settings that were not ours. */
			(void)promoter_look(&daemon->promoter, &daemon->root, clock_now_ns(&clock_monotonic));
			(void)look_at_source(daemon);
			message(MESSAGE_SOURCE_WORKS, (const struct log_field[]){ { "PGHOT_SOURCE", (*ops)->name } }, 1,
				"source %s: running on %zu CPUs%s%s%s%s", (*ops)->name, daemon->source.n_rings,
				daemon->source.detail[0] ? ", " : "", daemon->source.detail,
				daemon->source.why[0] ? "; " : "", daemon->source.why);
			return 0;
		}
		result = telling(result, r);
		if (result != before)
			snprintf(why, sizeof(why), "%.20s: %.230s", (*ops)->name, why_of(daemon, ops));
	}
	snprintf(daemon->source_why, sizeof(daemon->source_why), "%s", why);
	daemon->source_state = SOURCE_FAILED;
	return result ? result : -ENOENT;
}

const char *daemon_source_why(const struct daemon *daemon, size_t place)
{
	const struct config *config = &daemon->current;
	bool named = false;

	for (int i = 0; i < config->sources.n; i++)
		named |= strcmp(config->sources.item[i], source_table[place]->name) == 0;
	if (daemon->pause.on)
		return "";
	return daemon->source.ops && !named && daemon->source_errors[place] == -ENOENT ? ""
										       : daemon->source_whys[place];
}

int daemon_open_source(struct daemon *daemon)
{
	return open_first(daemon, clock_now_ns(&clock_monotonic));
}

void daemon_close_source(struct daemon *daemon)
{
	if (!daemon->source.ops)
		return;
	daemon->source.ops->enable(&daemon->source, false);
	let_go_of_rings(daemon);
	daemon->source.ops->close(&daemon->source);
	daemon->source.ops = NULL;
	daemon->source_state = SOURCE_CLOSED;
}

int daemon_reopen_source(struct daemon *daemon)
{
	daemon_close_source(daemon);
	memset(daemon->source_hold_ns, 0, sizeof(daemon->source_hold_ns));
	return daemon_open_source(daemon);
}

/*
 * The open source is of no use any more: the next one that works. Records that don't fit will not fit in a minute; and
 * one whose samples can't be used would have to be open for a while to be known as such again.
 */
static void replace_source(struct daemon *daemon, uint64_t now_ns, int r)
{
	size_t place = 0;

	while (source_table[place] != daemon->source.ops)
		place++;
	snprintf(daemon->source_whys[place], SOURCE_WHY_MAX, "%s", daemon->source_why);
	daemon->source_errors[place] = r;
	daemon->source_hold_ns[place] = r == -EPROTO    ? UINT64_MAX
					: r == -ENODATA ? now_ns + BETTER_HOLD_NS
							: now_ns + DAEMON_RETRY_NS;
	daemon_close_source(daemon);
	daemon->source_retry_ns = now_ns + DAEMON_RETRY_NS;
	/* Where nothing else works, it is worth another try in a minute. */
	if (open_first(daemon, now_ns) < 0 && r == -ENODATA)
		daemon->source_hold_ns[place] = now_ns + DAEMON_RETRY_NS;
}

/*
 * Each minute: would a source that stands before the open one work by now? The unit was in use, its module came. One
 * that says so and then can't be opened is not believed for an hour.
 */
static void look_for_better(struct daemon *daemon, uint64_t now_ns)
{
	struct source_env env = daemon->source.env;
	char why[SOURCE_WHY_MAX];

	if (now_ns < daemon->source_retry_ns)
		return;
	daemon->source_retry_ns = now_ns + DAEMON_RETRY_NS;
	for (size_t i = 0; source_table[i] && source_table[i] != daemon->source.ops; i++) {
		if (!source_wanted(&daemon->current, source_table[i]) || now_ns < daemon->source_hold_ns[i] ||
		    source_table[i]->probe(&env, why) < 0)
			continue;
		log_notice("source %s works now, and comes before %s", source_table[i]->name, daemon->source.ops->name);
		daemon_close_source(daemon);
		(void)open_first(daemon, now_ns);
		if (daemon->source.ops != source_table[i])
			daemon->source_hold_ns[i] = now_ns + BETTER_HOLD_NS;
		return;
	}
}

void daemon_check_source(struct daemon *daemon, uint64_t now_ns)
{
	enum source_state before = daemon->source_state;
	int r;

	if (!daemon->dataplane)
		return;
	if (!daemon->source.ops) {
		if (now_ns < daemon->source_retry_ns)
			return;
		daemon->source_retry_ns = now_ns + DAEMON_RETRY_NS;
		if (!nodeset_is_empty(&daemon->topology->lower))
			(void)open_first(daemon, now_ns); /* its failure is the state, and is tried again */
		return;
	}
	r = look_at_source(daemon);
	if (daemon->source_state != before) {
		if (daemon->source_state == SOURCE_RUNNING)
			message(MESSAGE_SOURCE_WORKS,
				(const struct log_field[]){ { "PGHOT_SOURCE", daemon->source.ops->name } }, 1,
				"source %s: well again", daemon->source.ops->name);
		else
			message(MESSAGE_SOURCE_FAILS,
				(const struct log_field[]){ { "PGHOT_SOURCE", daemon->source.ops->name } }, 1,
				"source %s: %s", daemon->source.ops->name, daemon->source_why);
	}
	if (r < 0)
		replace_source(daemon, now_ns, r);
	else
		look_for_better(daemon, now_ns);
}

/* true when it had a ring. */
static bool let_go_of_cpu(struct daemon *daemon, int cpu)
{
	struct source *source = &daemon->source;
	bool had = false;

	for (size_t i = 0; i < source->n_rings; i++) {
		if (source->rings[i].cpu != cpu || !source->rings[i].ring)
			continue;
		dataplane_remove_ring(daemon->dataplane, &source->rings[i]);
		had = true;
	}
	source->ops->cpu_offline(source, cpu);
	return had;
}

/* 0 when it is sampled from here on; -ENOENT when it isn't to be, -EEXIST when it was, or -errno, which is logged. */
static int take_up_cpu(struct daemon *daemon, int cpu)
{
	struct source *source = &daemon->source;
	struct source_ring *ring;
	int r = source->ops->cpu_online(source, cpu, &ring);

	if (r == -ENOENT || r == -EEXIST)
		return r;
	if (r == 0) {
		r = dataplane_add_ring(daemon->dataplane, ring);
		if (r < 0)
			source->ops->cpu_offline(source,
						 cpu); /* a ring that nobody reads, and that nobody would miss */
	}
	if (r == -ENODEV)
		log_debug("CPU %d came online, and went again meanwhile", cpu);
	else if (r < 0)
		log_warning("CPU %d is online, but cannot be sampled: %s; trying again within a minute", cpu,
			    strerror(-r));
	return r;
}

void daemon_cpu_changed(struct daemon *daemon, int cpu, bool online)
{
	if (!daemon->source.ops)
		return;
	(void)let_go_of_cpu(daemon, cpu);
	if (!online)
		log_info("CPU %d went offline: its ring is drained and closed", cpu);
	else if (take_up_cpu(daemon, cpu) == 0)
		log_info("CPU %d came online: sampling it", cpu);
}

void daemon_rearm_source(struct daemon *daemon)
{
	struct source *source = &daemon->source;

	if (!source->ops)
		return;
	for (size_t i = 0; i < source->n_rings; i++)
		if (let_go_of_cpu(daemon, source->rings[i].cpu))
			(void)take_up_cpu(daemon, source->rings[i].cpu);
	daemon_compare_cpus(daemon);
}

struct online {
	struct daemon *daemon;
	struct source_ring *ring; /* looked for; NULL: each one that comes is tried */
	bool found;
};

static int see_online(void *ctx, int cpu)
{
	struct online *online = ctx;

	if (!online->ring) {
		if (take_up_cpu(online->daemon, cpu) == 0)
			log_info("CPU %d is online: sampling it", cpu);
		return 0;
	}
	online->found |= online->ring->cpu == cpu;
	return online->found;
}

void daemon_compare_cpus(struct daemon *daemon)
{
	struct source *source = &daemon->source;
	char cpus[4096];

	if (!source->ops || fsroot_read(&daemon->root, cpus, sizeof(cpus), "sys/devices/system/cpu/online") < 0)
		return;
	for (size_t i = 0; i < source->n_rings; i++) {
		struct online online = { .daemon = daemon, .ring = &source->rings[i] };

		if (source->rings[i].ring && idlist_for_each(cpus, INT_MAX, see_online, &online) == 0 && !online.found)
			daemon_cpu_changed(daemon, source->rings[i].cpu, false);
	}
	(void)idlist_for_each(cpus, INT_MAX, see_online, &(struct online){ .daemon = daemon });
}
