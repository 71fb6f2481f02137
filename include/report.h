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

#include "guests.h"
#include "hotness.h"
#include "topology.h"

#define REPORT_SCHEMA 1

struct config;
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
	const char *state;  /* "running", "degraded", "failed", "unused" */
	const char *why;    /* "" when well */
	const char *detail; /* what it is set to, "" when there is nothing to say */
	uint64_t period;    /* 0: it has none */
	double cost_ratio;  /* share of all sampled CPUs' time that sampling costs; with a period only */
	const char *pace;   /* why the period is what it is, in plain words */
	size_t cpus;
	uint64_t samples;
};

struct report_move {
	int from_nid, to_nid;
	uint64_t page_bytes; /* 4096, or the size of the huge pages */
	const char *result;
	uint64_t pages; /* base pages */
};

struct report_left {
	const char *reason;
	uint64_t bytes;
};

/* A process whose pages are known. */
struct report_owner {
	uint32_t pid;
	char name[17];
	uint64_t regions, bytes; /* of the tables; bytes as of the janitor's last turn */
	uint64_t hot_bytes;      /* promoted so far, or found to be worth it while observing */
	uint64_t evicted;        /* regions, since it took more than its share of the tables */
};

#define REPORT_OWNERS_MAX 64
#define REPORT_GUESTS_MAX 16

struct report_migrator {
	int nid;
	const char *limit;
	uint64_t batch_pages; /* that go into one move call; 0: none was made yet */
	uint64_t call_ns;     /* what a call costs beside its pages; 0 with page_ns: not known yet */
	uint64_t page_ns;     /* what a page costs */
	uint64_t longest_ns;  /* the longest call so far */
};

/* What policy region knows; all 0 with another one. */
struct report_policy {
	const char *name;
	bool fitted;           /* false: nothing is known yet, and what follows is 0 */
	double capacity_bytes; /* fast memory that known regions have, or may still take */
	double hit_ratio[3];   /* share of the accesses to known regions that 50, 100, 150% of that would serve */
	bool has_known;        /* enough samples of slow memory to say: */
	double known_ratio;    /* share of its accesses that falls on known regions, give or take */
	double known_margin;
	uint64_t waiting;    /* regions that are decided and not moved yet */
	uint64_t uncertain;  /* regions sampled in the last epoch that are hot, but not told dense from scattered; */
	uint64_t background; /* that are no hotter than accesses that go anywhere; */
	uint64_t cooler;     /* that are cooler than what fits; */
	uint64_t pays_not;   /* whose move would take more than it saves */
	double life_sec;     /* seconds that what was found stays hot, on the average, of the next 256 */
	double pays_per_sec; /* samples a second from which on a region's move pays; 0: not known */
};

/* How room is made on fast nodes that are full. */
struct report_room {
	const char *way;     /* "kernel", "exchange", "none" */
	const char *state;   /* what is known of cold memory there, in plain words; "" when nobody asks */
	uint64_t cold_bytes; /* on fast nodes, about */
	uint64_t quiet_ns;   /* without a sample for so long is cold; 0: nothing is called so */
};

#define REPORT_SHARES_MAX 64

/* What the programs of one user under one rule have of the fast memory. */
struct report_share {
	uint32_t uid;
	int rule; /* its number, from 0; -1: none */
	uint64_t has_bytes, wants_bytes, share_bytes;
	bool held; /* it gets no more while others lack theirs */
};

#define REPORT_PRESSURE_MAX 16

/* A control group whose memory is left in peace. */
struct report_pressure {
	char cgroup[256];  /* "": the machine */
	const char *cause; /* in plain words */
	uint64_t left_ns;  /* until it is moved again, if all is well from now on */
};

#define REPORT_RESTING_MAX 4

/* Whether a guard holds back what would make room, or a process. */
struct report_guard {
	const char *cause;             /* in plain words; "": none holds */
	uint64_t left_ns;              /* until it is tried again */
	double back_ratio;             /* of what was promoted last, that was promoted before; below 0: not known */
	uint64_t kernel_demoted_pages; /* since the start */
	size_t n_resting;              /* processes that rest, of which these are shown */
	struct report_resting {
		uint32_t pid;
		const char *name;
		uint64_t left_ns;
	} resting[REPORT_RESTING_MAX];
};

/* What moving memory is good for, by comparison with what is left where it is. */
struct report_helps {
	double percent;             /* held out; 0: nothing is compared */
	bool known;                 /* false: too little was sampled yet */
	double far_held, far_moved; /* share of samples on slow nodes, of what is held out and of the rest */
	double saved, margin; /* far accesses saved, of those there would be; the truth is within 19 times of 20 */
	bool has_cpu;
	double cpu_back;   /* of the CPU time that it would all take without moves, about */
	double move_ratio; /* of the busy CPU time that moving takes; below 0: not known */
	bool has_latency;
	double latency_held_cycles, latency_moved_cycles; /* mean of the samples */
};

#define REPORT_PAUSE_MIN_NS 1000000000ULL /* 1 s */
#define REPORT_PAUSE_MAX_NS (30ULL * 86400 * 1000000000ULL)

/* Somebody has told it to leave the machine alone for a while. */
struct report_pause {
	bool on; /* false: the rest is 0 */
	uint32_t uid;
	int32_t pid;
	const char *comm;
	uint64_t for_ns; /* so far */
	bool ends;       /* by itself, in: */
	uint64_t left_ns;
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
	const struct report_owner *owner_list; /* those that take most of the tables, largest first */
	size_t n_owner_list;                   /* at most REPORT_OWNERS_MAX */
	const struct report_move *moves;
	size_t n_moves;
	const struct report_left *left;
	size_t n_left;
	const struct guest *guests; /* largest first, at most REPORT_GUESTS_MAX of @n_guests */
	size_t n_guests;
	const struct report_migrator *migrators;
	size_t n_migrators;
	struct report_policy policy;
	struct report_room room;
	const struct report_share *shares; /* at most REPORT_SHARES_MAX */
	size_t n_shares;
	const struct report_pressure *pressure; /* at most REPORT_PRESSURE_MAX */
	size_t n_pressure;
	struct report_guard guard;
	struct report_helps helps;
	struct report_pause pause;
	bool kernel_promotes;
	uint64_t kernel_promoted_pages;
	const struct config *config, *file; /* what runs, and what the file says; NULL: nothing is said of it */
	const char *file_path;              /* NULL: there is none */
	uint64_t file_mark;                 /* config_mark() of it when it was read; 0: it wasn't there */
};

/*
 * The document as text (free it); NULL: no memory. Main thread. Keys, of which a later version may add more, but takes
 * none away while "schema" stays the same:
 *   schema, version, mode, state, limiting, reason, uptime_ns, pid,
 *   sources[] {name, state, why, cpus, samples},
 *   nodes[] {nid, tier (-1: none), fast, has_cpu, has_memory, total_bytes, free_bytes, room_bytes (what promotion may
 * still fill: free above the watermark and, on a fast node, the headroom), high_bytes, promo_bytes}, tiers[] {tier,
 * nodes[], total_bytes, free_bytes, room_bytes}, tiers_origin, observe_only, advice, counters {by the names of
 * stats.def}, promoted_pages, promoted_bytes, demoted_bytes, left_alone {reason: bytes of hot memory in the
 * last minute or two, about}, guests {n, largest[] {pid, name, bytes}}, moves[] {from, to, huge, page_bytes, result,
 * pages}, migrators[] {nid, limit, batch_pages, call_ns, page_ns, longest_ns}, map {bytes, memory_max_bytes, sections,
 * chunks, records, regions, owners, evicted_regions, evicted_records}, processes[] {pid, name, regions, bytes (of the
 * tables), hot_bytes, evicted_regions; largest first, at most REPORT_OWNERS_MAX}, policy {name, capacity_bytes,
 * hit_ratio {50, 100, 150: predicted with that percentage of it}, known {ratio, margin} or null, regions {waiting,
 * uncertain, background, cooler, pays_not}, life_ns, pays_per_sec or null}, room {way, state, cold_bytes, quiet_ns},
 * shares[] {uid, rule (number from 0, -1: none), has_bytes (of fast memory, about), wants_bytes (hot on slow nodes),
 * share_bytes, held (true: it gets no more while others lack theirs)},
 * pressure[] {cgroup, cause, left_ns: control groups whose memory is left in peace, at most REPORT_PRESSURE_MAX},
 * guard {cause ("": none holds), left_ns, back_ratio or null, kernel_demoted_pages, n_resting, resting[] {pid, name,
 * left_ns}}, helps null, or {holdout_ratio, far_held, far_moved, saved, margin (all null while too little was sampled),
 * latency_held_cycles, latency_moved_cycles, cpu_back (null without latencies), move_ratio or null}, kernel {promotes,
 * promoted_pages}, pause null, or {uid, pid, comm (who asked), for_ns (so far), left_ns (null: until resumed)}, tuned[]
 * {key, value, file (what the file says), restart (true: the file's value waits for one)}. Integers are written in full
 * up to 2^63 - 1, where they stop; a reader that takes them for doubles is exact up to 2^53, which is 8 PiB or 104 days
 * of ns.
 */
char *report_json(const struct report *report);

/*
 * The options as text (free it); NULL: no memory. An array of {key, type ("int", "float", "bool", "enum", "text",
 * "list", "rules"), unit, min, max (numbers only), choices[] (enum only), default, value, origin, change ("live",
 * "restart"), help}. default and value are numbers and booleans where the type is one, else text as pghotctl tune takes
 * it. origin: "tuned" when @current differs from @file ("restart" where that takes a restart to become what runs), else
 * "file" when it isn't the default, else "default". Main thread.
 */
char *report_options_json(const struct config *current, const struct config *file);

/* Exit status of pghotctl status for a state's name: 0, 1 or 2; 2 for one that this version doesn't know. */
int report_state_exit(const char *state);
