/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * report: the state of the daemon as one JSON document; status, --json and metrics are views of it. Sizes in bytes,
 * times in ns, ratios 0 to 1. The daemon fills a struct report; this file knows how it looks, and nothing of the data
 * plane.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hotness.h"
#include "topology.h"

#define REPORT_SCHEMA 1

struct stats;

enum report_state {
	STATE_STARTING,
	STATE_PROMOTING, /* exit status of pghotctl status: 0 */
	STATE_OBSERVING, /* 1 */
	STATE_WAITING,   /* 1: no slow tier yet */
	STATE_PAUSED,    /* 1 */
	STATE_DEGRADED,  /* 2: a source failed, or the kernel promotes instead */
	STATE_STOPPING,
	STATE_MAX,
};

extern const char *const report_state_name[STATE_MAX];

struct report_source {
	const char *name;
	const char *state; /* "running", "degraded", "failed", "unused" */
	const char *why;   /* "" when well */
	size_t cpus;
	uint64_t samples;
};

struct report_move {
	int from_nid, to_nid;
	const char *result;
	uint64_t pages;
};

struct report_migrator {
	int nid;
	const char *limit;
};

struct report {
	enum report_state state;
	const char *mode;
	const char *limiting; /* what limits promotion right now, in plain words */
	const char *reason;   /* why it is degraded or waiting, "" else */
	uint64_t uptime_ns;
	uint32_t pid;
	const struct report_source *sources;
	size_t n_sources;
	const struct topology *topology;
	const struct topology_room *rooms; /* by nid, NODE_MAX entries */
	double headroom_ratio;
	const struct stats *stats;
	struct hotness_usage usage;
	size_t owners;
	const struct report_move *moves;
	size_t n_moves;
	const struct report_migrator *migrators;
	size_t n_migrators;
	bool kernel_promotes;
	uint64_t kernel_promoted_pages;
};

/* The document as text (free it); NULL: no memory. Main thread. */
char *report_json(const struct report *report);
