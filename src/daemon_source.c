/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "daemon.h"
#include "dataplane.h"
#include "log.h"

static bool source_wanted(const struct config *config, const struct source_ops *ops)
{
	for (int i = 0; i < config->sources.n; i++)
		if (strcmp(config->sources.item[i], "auto") == 0 || strcmp(config->sources.item[i], ops->name) == 0)
			return true;
	return false;
}

/* What check() says becomes the state. Returns what it returned. */
static int look_at_source(struct daemon *daemon)
{
	int r = daemon->source.ops->check(&daemon->source);

	snprintf(daemon->source_why, sizeof(daemon->source_why), "%s", daemon->source.why);
	daemon->source_state = r < 0 ? SOURCE_FAILED : r > 0 ? SOURCE_DEGRADED : SOURCE_RUNNING;
	return r;
}

/* What helps a person most: what can be allowed, then what can be set, then what this machine hasn't got. */
static int telling(int old, int r)
{
	if (old == 0 || r == -EACCES || (r != -ENOENT && old == -ENOENT))
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
		},
	};
	r = ops->probe(&source->env, source->why);
	if (r == 0)
		r = ops->open(source);
	if (r == 0) {
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

int daemon_open_source(struct daemon *daemon)
{
	char why[SOURCE_WHY_MAX] = "no source is configured";
	bool first = daemon->source_state != SOURCE_FAILED;
	int result = 0;

	memset(daemon->source_whys, 0, sizeof(daemon->source_whys));
	for (const struct source_ops *const *ops = source_table; *ops; ops++) {
		int r, before = result;

		if (!source_wanted(&daemon->current, *ops))
			continue;
		r = open_one(daemon, *ops);
		if (r < 0) {
			snprintf(why_of(daemon, ops), SOURCE_WHY_MAX, "%s", daemon->source.why);
			if (first) /* not each minute again */
				log_info("source %s: no: %s", (*ops)->name, daemon->source.why);
		}
		if (r == 0) {
			/* What the kernel promoted up to here, it did with settings that were not ours. */
			(void)promoter_look(&daemon->promoter, &daemon->root, clock_now_ns(&clock_monotonic));
			(void)look_at_source(daemon);
			log_info("source %s: running on %zu CPUs%s%s%s%s", (*ops)->name, daemon->source.n_rings,
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
			(void)daemon_open_source(daemon); /* its failure is the state, and is tried again */
		return;
	}
	r = look_at_source(daemon);
	if (daemon->source_state != before) {
		if (daemon->source_state == SOURCE_RUNNING)
			log_notice("source %s: well again", daemon->source.ops->name);
		else
			log_warning("source %s: %s", daemon->source.ops->name, daemon->source_why);
	}
	if (r < 0) {
		daemon_close_source(daemon);
		daemon->source_state = SOURCE_FAILED;
		daemon->source_retry_ns = now_ns + DAEMON_RETRY_NS;
	}
}

void daemon_cpu_changed(struct daemon *daemon, int cpu, bool online)
{
	struct source *source = &daemon->source;
	struct source_ring *ring;
	int r;

	if (!source->ops)
		return;
	if (!online) {
		for (size_t i = 0; i < source->n_rings; i++)
			if (source->rings[i].cpu == cpu && source->rings[i].ring)
				dataplane_remove_ring(daemon->dataplane, &source->rings[i]);
		source->ops->cpu_offline(source, cpu);
		log_info("CPU %d went offline: its ring is drained and closed", cpu);
		return;
	}
	r = source->ops->cpu_online(source, cpu, &ring);
	if (r == -ENOENT || r == -EEXIST) /* not one to be sampled, or sampled already */
		return;
	if (r == 0)
		r = dataplane_add_ring(daemon->dataplane, ring);
	if (r < 0)
		log_warning("CPU %d came online, but cannot be sampled: %s", cpu, strerror(-r));
	else
		log_info("CPU %d came online: sampling it", cpu);
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
		daemon_cpu_changed(online->daemon, cpu, true);
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
