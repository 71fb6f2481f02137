/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * source_hint_faults: NUMA balancing unmaps pages of slow nodes now and then, and the fault at the next access is a
 * minor fault, which a software event reports with the page's virtual and physical address. Works in any kernel since
 * 5.18 and in virtual machines. The same event reports every first touch, hence SAMPLE_MAYBE_FIRST_TOUCH.
 *
 * For this the kernel must scan (kernel.numa_balancing with mode 2) but not promote (promote_rate_limit_MBps 0; even
 * then it does while the fast node has much free: the promoter sees that). With other settings hint faults come as
 * well, and the kernel promotes, too: the source works, degraded.
 */
#include <errno.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "config.h"
#include "log.h"
#include "privops.h"
#include "source.h"
#include "source_events.h"

/* Bits of kernel.numa_balancing: Documentation/admin-guide/sysctl/kernel.rst. */
#define MODE_NORMAL  1
#define MODE_TIERING 2

#define MODE_NAME "kernel.numa_balancing"
#define RATE_NAME "kernel.numa_balancing_promote_rate_limit_MBps"
#define OPTION    "hint_faults = { manage_sysctls = true; }"

struct settings {
	uint64_t mode;
	uint64_t rate;
	bool has_rate; /* else the kernel is older than 6.1 */
};

struct state {
	struct source_events *events;
	bool managed;           /* the settings are ours to set and to put back */
	bool changed;           /* they were set */
	struct settings before; /* then */
};

/*
 * The _MIN event fires after the fault was handled, when the page is mapped and has a physical address; the event of
 * all faults fires before. Kernel-mode faults at user addresses (a read() into the page) are accesses like others.
 */
static const struct perf_event_attr event_attr = {
	.type = PERF_TYPE_SOFTWARE,
	.size = sizeof(event_attr),
	.config = PERF_COUNT_SW_PAGE_FAULTS_MIN,
	.sample_period = 1,
	.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ADDR | PERF_SAMPLE_CPU | PERF_SAMPLE_PHYS_ADDR |
		       PERF_SAMPLE_DATA_PAGE_SIZE,
	.disabled = 1,
	.sample_id_all = 1,
	.use_clockid = 1,
	.clockid = CLOCK_MONOTONIC,
};

/* 0, or -errno with @why. */
static int read_settings(const struct source_env *env, struct settings *ret, char *why)
{
	const char *name = MODE_NAME;
	int r;

	*ret = (struct settings){ 0 };
	r = privops_setting_get(env->privops, SETTING_NUMA_BALANCING, &ret->mode);
	if (r == -ENOENT) {
		snprintf(why, SOURCE_WHY_MAX,
			 "this kernel has no NUMA balancing (CONFIG_NUMA_BALANCING), so it makes no hint faults");
		return r;
	}
	if (r == 0) {
		name = RATE_NAME;
		r = privops_setting_get(env->privops, SETTING_NUMA_PROMOTE_RATE, &ret->rate);
		ret->has_rate = r == 0;
	}
	if (r == 0 || r == -ENOENT)
		return 0;
	snprintf(why, SOURCE_WHY_MAX, "cannot read %s: %s", name, strerror(-r));
	return r;
}

static bool is_well(const struct settings *settings)
{
	return (settings->mode & MODE_TIERING) && settings->has_rate && settings->rate == 0;
}

/* What is wrong with settings that aren't well, and what to do. */
static void explain_settings(const struct settings *settings, char *why)
{
	if (settings->mode == 0)
		snprintf(why, SOURCE_WHY_MAX,
			 MODE_NAME " is 0, so there are no hint faults: sysctl -w " MODE_NAME "=2 " RATE_NAME
				   "=0, or set " OPTION);
	else if (!settings->has_rate)
		snprintf(why, SOURCE_WHY_MAX,
			 "the kernel promotes instead, and this one can't be told not to: " RATE_NAME
			 " came with Linux 6.1");
	else if (!(settings->mode & MODE_TIERING))
		snprintf(why, SOURCE_WHY_MAX,
			 "the kernel promotes instead, since " MODE_NAME " is %" PRIu64 ": sysctl -w " MODE_NAME
			 "=%" PRIu64 " " RATE_NAME "=0, or set " OPTION,
			 settings->mode, settings->mode | MODE_TIERING);
	else
		snprintf(why, SOURCE_WHY_MAX,
			 "the kernel promotes instead, up to " RATE_NAME ", which is %" PRIu64 ": sysctl -w " RATE_NAME
			 "=0, or set " OPTION,
			 settings->rate);
}

/* The same where we had set them ourselves. */
static void explain_interference(const struct settings *settings, char *why)
{
	if (!(settings->mode & MODE_TIERING) && settings->rate != 0)
		snprintf(why, SOURCE_WHY_MAX,
			 "someone has set " MODE_NAME " to %" PRIu64 " and " RATE_NAME " to %" PRIu64 ", so %s; "
			 "pghotd leaves it at that: set them to %" PRIu64 " and 0, or restart pghotd",
			 settings->mode, settings->rate,
			 settings->mode ? "the kernel promotes instead" : "there are no hint faults",
			 settings->mode | MODE_TIERING);
	else if (settings->mode & MODE_TIERING)
		snprintf(why, SOURCE_WHY_MAX,
			 "someone has set " RATE_NAME " to %" PRIu64
			 ", so the kernel promotes instead; pghotd leaves it "
			 "at that: set it to 0, or restart pghotd",
			 settings->rate);
	else
		snprintf(why, SOURCE_WHY_MAX,
			 "someone has set " MODE_NAME " to %" PRIu64
			 ", so %s; pghotd leaves it at that: set it to %" PRIu64 ", or restart pghotd",
			 settings->mode, settings->mode ? "the kernel promotes instead" : "there are no hint faults",
			 settings->mode | MODE_TIERING);
}

/* Could it work with these settings, if need be after setting them? */
static int check_settings(const struct source_env *env, const struct settings *settings, char *why)
{
	bool manage = env->config->hint_faults_manage_sysctls;

	if (settings->mode != 0 || (manage && settings->has_rate)) {
		if (!is_well(settings) && !(manage && settings->has_rate))
			explain_settings(settings, why);
		return 0;
	}
	if (manage) {
		snprintf(why, SOURCE_WHY_MAX,
			 "this kernel can't be kept from promoting itself: " RATE_NAME
			 " came with Linux 6.1; set " MODE_NAME "=2 by hand to let it");
		return -ENOENT;
	}
	explain_settings(settings, why);
	return -EBUSY;
}

static int check_page_size(char *why)
{
	long bytes = sysconf(_SC_PAGESIZE);

	if (bytes == (long)PAGE_SIZE_BYTES)
		return 0;
	snprintf(why, SOURCE_WHY_MAX, "pghotd is made for pages of 4096 bytes, this kernel has %ld", bytes);
	return -ENOENT;
}

static int hint_faults_probe(const struct source_env *env, char *why)
{
	struct settings settings;
	int r;

	why[0] = '\0';
	r = check_page_size(why);
	if (r == 0)
		r = read_settings(env, &settings, why);
	if (r == 0)
		r = source_events_probe(env, &event_attr, why);
	return r < 0 ? r : check_settings(env, &settings, why);
}

static int set(struct source *source, enum privops_setting setting, uint64_t value)
{
	int r = privops_setting_set(source->env.privops, setting, value);

	if (r == -EACCES || r == -EPERM || r == -EROFS)
		snprintf(source->why, SOURCE_WHY_MAX,
			 "cannot set %s to %" PRIu64
			 " or note its old value in %.40s: %s; sysctls are for uid 0 only, and not "
			 "under ProtectKernelTunables=yes",
			 privops_setting_name[setting], value, source->env.privops->saved_path, strerror(-r));
	else if (r < 0)
		snprintf(source->why, SOURCE_WHY_MAX,
			 "cannot set %s to %" PRIu64 ", or note its old value in %.80s: %s",
			 privops_setting_name[setting], value, source->env.privops->saved_path, strerror(-r));
	return r;
}

/*
 * The limit first: in between the kernel would promote whatever it finds. Mode 1, where someone has it, stays on
 * beside mode 2: it balances the fast nodes among each other, which is none of our business.
 */
static int take_over(struct source *source, const struct settings *settings)
{
	uint64_t mode = settings->mode | MODE_TIERING;
	struct state *state = source->state;
	char did[2][96] = { "", "" };
	int r;

	if (is_well(settings))
		return 0;
	r = set(source, SETTING_NUMA_PROMOTE_RATE, 0);
	if (r == 0)
		r = set(source, SETTING_NUMA_BALANCING, mode);
	if (r < 0)
		return r;
	if (settings->rate != 0)
		snprintf(did[0], sizeof(did[0]), "; " RATE_NAME " from %" PRIu64 " to 0", settings->rate);
	if (settings->mode != mode)
		snprintf(did[1], sizeof(did[1]), "; " MODE_NAME " from %" PRIu64 " to %" PRIu64, settings->mode, mode);
	state->changed = true;
	state->before = *settings;
	log_notice("source hint_faults: set by hint_faults.manage_sysctls, until pghotd ends%s%s", did[0], did[1]);
	return 0;
}

/* The saved file says what to put back. Whoever removes it takes that away, and should know. */
static void say_unsaved(struct source *source)
{
	const struct state *state = source->state;
	struct settings now;
	char why[SOURCE_WHY_MAX];

	if (!state->changed || read_settings(&source->env, &now, why) < 0 || !is_well(&now))
		return;
	log_warning("cannot put back the settings: somebody has removed %s; run: sysctl -w " MODE_NAME "=%" PRIu64
		    " " RATE_NAME "=%" PRIu64,
		    source->env.privops->saved_path, state->before.mode, state->before.rate);
}

static void put_back(struct source *source)
{
	struct privops_restored restored;
	int r = privops_restore(source->env.privops, &restored);

	if (r < 0)
		log_warning("cannot put back the settings saved in %s: %s; look at it, then: pghotd --restore",
			    source->env.privops->saved_path, strerror(-r));
	else if (restored.restored + restored.left + restored.failed == 0)
		say_unsaved(source);
}

static void hint_faults_close(struct source *source)
{
	struct state *state = source->state;

	if (!state)
		return;
	source_events_close(source, state->events);
	if (state->managed)
		put_back(source);
	free(state);
	source->state = NULL;
}

static int hint_faults_open(struct source *source)
{
	struct settings settings;
	struct state *state;
	int r;

	source->why[0] = '\0';
	source->state = NULL;
	source->rings = NULL;
	source->n_rings = 0;
	r = check_page_size(source->why);
	if (r == 0)
		r = read_settings(&source->env, &settings, source->why);
	if (r == 0)
		r = check_settings(&source->env, &settings, source->why);
	if (r < 0)
		return r;
	state = calloc(1, sizeof(*state));
	if (!state) {
		snprintf(source->why, SOURCE_WHY_MAX, "out of memory");
		return -ENOMEM;
	}
	source->state = state;
	/* Settings last: whatever fails before has changed nothing. */
	r = source_events_open(source, &event_attr, SAMPLE_MAYBE_FIRST_TOUCH, &state->events);
	if (r == 0 && source->env.config->hint_faults_manage_sysctls && settings.has_rate) {
		state->managed = true;
		r = take_over(source, &settings);
	}
	if (r < 0) {
		hint_faults_close(source);
		return r;
	}
	if (state->managed || is_well(&settings))
		snprintf(source->why, SOURCE_WHY_MAX, "%s", source_events_remark(state->events));
	return 0;
}

static int hint_faults_set_period(struct source *source, uint64_t period)
{
	(void)source;
	(void)period;
	return -ENOTSUP; /* the kernel's scan sets the pace, and every fault is wanted */
}

static int hint_faults_enable(struct source *source, bool on)
{
	struct state *state = source->state;

	return source_events_enable(source, state->events, on);
}

static int hint_faults_cpu_online(struct source *source, int cpu, struct source_ring **ret)
{
	struct state *state = source->state;

	return source_events_cpu_online(source, state->events, cpu, ret);
}

static void hint_faults_cpu_offline(struct source *source, int cpu)
{
	source_events_cpu_offline(source, cpu);
}

/* Never sets anything again: two that fight over a setting help nobody. */
static int hint_faults_check(struct source *source)
{
	struct state *state = source->state;
	struct settings settings;

	if (read_settings(&source->env, &settings, source->why) < 0)
		return 1;
	if (is_well(&settings)) {
		snprintf(source->why, SOURCE_WHY_MAX, "%s", source_events_remark(state->events));
		return 0;
	}
	(state->managed ? explain_interference : explain_settings)(&settings, source->why);
	return 1;
}

const struct source_ops source_hint_faults = {
	.name = "hint_faults",
	.id = SAMPLE_SOURCE_HINT_FAULTS,
	.probe = hint_faults_probe,
	.open = hint_faults_open,
	.set_period = hint_faults_set_period,
	.enable = hint_faults_enable,
	.cpu_online = hint_faults_cpu_online,
	.cpu_offline = hint_faults_cpu_offline,
	.check = hint_faults_check,
	.close = hint_faults_close,
};
