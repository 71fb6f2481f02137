/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "parse.h"
#include "source_health.h"
#include "source_ibs_record.h"

/* More than this, and it is the rule and not the exception. */
#define RULE_PERCENT 50

/* The counters are not read at one moment, so not 100. */
#define NONE_PERCENT 99

#define PARANOID "kernel.perf_event_paranoid"

void source_watch_start(struct source_watch *watch, const struct source_tally *tally)
{
	*watch = (struct source_watch){ .start = *tally, .last = *tally };
}

static unsigned int percent_of(uint64_t part, uint64_t whole)
{
	return whole ? (unsigned int)((double)part / (double)whole * 100) : 0;
}

/* Of those that came since the last verdict. */
static enum source_health by_shares(struct source_watch *watch, const struct source_tally *t)
{
	uint64_t placed = t->placed - watch->last.placed, no_phys = t->no_phys - watch->last.no_phys;
	uint64_t cleared = t->phys_cleared - watch->last.phys_cleared;
	uint64_t zeroed = t->phys_zeroed - watch->last.phys_zeroed;
	uint64_t bad = t->bad - watch->last.bad, records = bad + t->good - watch->last.good;
	unsigned int bad_percent = percent_of(bad, records), none_percent = percent_of(no_phys, placed);

	watch->zeroed = zeroed > cleared;
	if (bad_percent >= RULE_PERCENT) {
		watch->percent = bad_percent;
		return SOURCE_HEALTH_MANY_BAD;
	}
	if (placed < SOURCE_HEALTH_SAMPLES / 10)
		return SOURCE_HEALTH_WELL;
	watch->percent = none_percent;
	if (none_percent >= NONE_PERCENT)
		return SOURCE_HEALTH_PHYS_NONE;
	if (none_percent >= RULE_PERCENT)
		return SOURCE_HEALTH_PHYS_SCARCE;
	watch->percent = percent_of(cleared + zeroed, placed);
	return watch->percent >= RULE_PERCENT ? SOURCE_HEALTH_PHYS_WALKED : SOURCE_HEALTH_WELL;
}

enum source_health source_watch_look(struct source_watch *watch, const struct source_tally *tally)
{
	uint64_t records = tally->good - watch->last.good + tally->bad - watch->last.bad;

	if (tally->good == watch->start.good && tally->bad - watch->start.bad >= SOURCE_HEALTH_FIRST) {
		watch->percent = 100;
		watch->health = SOURCE_HEALTH_MISFIT;
	} else if (records >= SOURCE_HEALTH_SAMPLES) {
		watch->health = by_shares(watch, tally);
		watch->last = *tally;
	}
	return watch->health;
}

bool source_health_is_fatal(enum source_health health)
{
	return health >= SOURCE_HEALTH_PHYS_NONE;
}

/* "6.15" of "6.15.4-2-amd64"; "" when it can't be read. */
static void kernel_version(const struct fsroot *root, char *buf, size_t size, unsigned int *ret_major,
			   unsigned int *ret_minor)
{
	char text[128];

	buf[0] = '\0';
	*ret_major = *ret_minor = 0;
	if (fsroot_read(root, text, sizeof(text), "proc/sys/kernel/osrelease") > 0 &&
	    sscanf(text, "%u.%u", ret_major, ret_minor) == 2)
		snprintf(buf, size, " %u.%u", *ret_major, *ret_minor);
}

/* INT64_MIN: it can't be read. */
static int64_t paranoid_level(const struct fsroot *root)
{
	char text[32];
	int64_t level;

	if (fsroot_read(root, text, sizeof(text), "proc/sys/kernel/perf_event_paranoid") <= 0 ||
	    parse_i64(text, INT32_MIN, INT32_MAX, &level) < 0)
		return INT64_MIN;
	return level;
}

/* What to do about hidden addresses. */
static const char *remedy(const struct source_watch *watch, const struct fsroot *root)
{
	if (watch->zeroed)
		return "run pghotd as root, or give it CAP_PERFMON";
	if (paranoid_level(root) >= 2)
		return "sysctl -w " PARANOID "=1, or a kernel that asks at the opening (7.1)";
	return "nothing hides it, the hardware gave none: please report this line";
}

static void explain_phys(const struct source_watch *watch, const struct source *source, char *why)
{
	const struct fsroot *root = source->env.root;
	unsigned int major, minor;
	char version[32];

	kernel_version(root, version, sizeof(version), &major, &minor);
	if (watch->health == SOURCE_HEALTH_PHYS_WALKED)
		snprintf(why, SOURCE_WHY_MAX,
			 "Linux%s hides the physical address of %u%% of the samples (%s); its page-table walk gives "
			 "it instead, at more cost. To end that: %s",
			 version, watch->percent, watch->zeroed ? "set to 0" : "marked invalid", remedy(watch, root));
	else
		snprintf(why, SOURCE_WHY_MAX,
			 "%u%% of the samples have no physical address (Linux%s has it %s) and no page-table walk that "
			 "finds it, so they can't be used: %s",
			 watch->percent, version, watch->zeroed ? "set to 0" : "marked invalid", remedy(watch, root));
}

void source_watch_explain(const struct source_watch *watch, const struct source *source, char *why)
{
	char record[80] = "nothing more is known of them";

	for (size_t i = 0; i < source->n_rings; i++) {
		/* Its partner is the reader's store; see source.h. */
		uint64_t misfit = atomic_load_explicit(&source->rings[i].misfit, memory_order_relaxed);

		if (misfit)
			source_ibs_record_misfit_text(misfit, record, sizeof(record));
	}
	switch (watch->health) {
	case SOURCE_HEALTH_WELL:
		why[0] = '\0';
		break;
	case SOURCE_HEALTH_MISFIT:
		snprintf(why, SOURCE_WHY_MAX,
			 "its records are not what this version knows (%s), and refused rather than guessed at: please "
			 "report this line with the kernel's version",
			 record);
		break;
	case SOURCE_HEALTH_MANY_BAD:
		snprintf(why, SOURCE_WHY_MAX,
			 "%u%% of its records are not what this version knows (%s), and are left out: please report "
			 "this line with the kernel's version",
			 watch->percent, record);
		break;
	case SOURCE_HEALTH_PHYS_WALKED:
	case SOURCE_HEALTH_PHYS_SCARCE:
	case SOURCE_HEALTH_PHYS_NONE:
		explain_phys(watch, source, why);
		break;
	}
}

/*
 * "perf/amd/ibs: Prevent leaking sensitive data to userspace" came with about 6.14 and asked for the interrupted task;
 * 7.1 asks at the opening. Stable kernels have taken over both, so it is a guess.
 */
void source_health_foresee(const struct fsroot *root, char *why)
{
	unsigned int major, minor;
	int64_t level = paranoid_level(root);
	char version[32];

	why[0] = '\0';
	kernel_version(root, version, sizeof(version), &major, &minor);
	if (level < 2 || major < 6 || (major == 6 && minor < 14) || (major == 7 && minor > 0) || major > 7)
		return;
	snprintf(why, SOURCE_WHY_MAX,
		 "Linux%.16s may hide physical addresses in samples of unprivileged programs while " PARANOID
		 " is %" PRId64 ": the kernel's page-table walk then gives them, at more cost; 1 ends that",
		 version, level);
}
