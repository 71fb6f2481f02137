/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * daemon: wires the data plane and the control plane; the daemon*.c files are the only ones that see both. Everything
 * here runs on the main thread.
 */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "budget.h"
#include "budget_meter.h"
#include "bus.h"
#include "bus_system.h"
#include "clock.h"
#include "config.h"
#include "fsroot.h"
#include "guard.h"
#include "message.h"
#include "privops.h"
#include "promoter.h"
#include "report.h"
#include "sleep_watch.h"
#include "source.h"
#include "source_health.h"
#include "stats.h"
#include "topology.h"

/* Exit statuses, part of the contract with users (sysexits.h where it has one). */
enum daemon_exit {
	EXIT_OK = 0,
	EXIT_FAILED = 1,
	EXIT_BAD_USAGE = 64,
	EXIT_CANNOT_WORK = 69, /* not on this machine */
	EXIT_NO_PERMISSION = 77,
	EXIT_BAD_CONFIG = 78,
};

#define DAEMON_OVERRIDES_MAX 32

/* What the command line says. Pointers live as long as argv. */
struct daemon_options {
	const char *config_path;
	bool config_named; /* by -c: then it must exist */
	const char *root_path;
	const char *socket_path; /* NULL: no control socket */
	bool system_bus;         /* be on the system bus as well */
	const char *saved_path;
	const char *helper_path;       /* socket of the helper process, where systemd has made it */
	const char *helper_saved_path; /* as saved_path, of the helper: only root may write there */
	const char *user;              /* run as that one, with a helper; NULL: as whoever started it */
	struct privops_client *helper; /* NULL: privileged acts are done directly */
	struct {
		const char *key, *value; /* --mode and --set, in order; over the file, also after a reload */
	} overrides[DAEMON_OVERRIDES_MAX];
	size_t n_overrides;
	bool observe_only;   /* the first minute: whatever the file says, change nothing and move nothing */
	uint64_t run_for_ns; /* 0: until told to stop */
};

/* What to end with when daemon_load_config() returned @r. */
static inline int daemon_config_exit(int r)
{
	return r == -EDOM ? EXIT_BAD_USAGE : EXIT_BAD_CONFIG;
}

/* What failed is tried again after this. */
#define DAEMON_RETRY_NS (60 * NSEC_PER_SEC)

enum source_state {
	SOURCE_CLOSED, /* not tried yet, or between two tries */
	SOURCE_RUNNING,
	SOURCE_DEGRADED,
	SOURCE_FAILED, /* tried again each minute */
};

/* What the last line of log.summary_minutes told, or when the daemon started. */
struct daemon_summary {
	uint64_t told_ns;
	uint64_t samples, lost, promoted_bytes, would_bytes, move_calls;
};

/* Times are on clock_boottime: a machine that sleeps doesn't make a pause longer. */
struct daemon_pause {
	bool on;
	uint64_t since_ns, until_ns; /* until_ns 0: until somebody ends it */
	struct bus_peer peer;        /* who asked for it last */
};

/*
 * Owner: the main thread. config, topology and stats are published from here to the data plane's threads through their
 * stores.
 */
struct daemon {
	struct daemon_options options;
	int helper_error; /* -errno: the helper process doesn't answer; 0 */
	sd_event *event;
	struct fsroot root;
	struct privops privops;

	struct config file;    /* as last read, overrides applied: what tuned values are compared with */
	uint64_t file_mark;    /* of the file then; 0: there was none */
	struct config current; /* what is published */
	struct config_store *config;
	struct topology *topology; /* what is published */
	struct topology_store *topologies;
	struct stats *stats;
	struct stats_slot *stats_slot; /* main's own */

	struct dataplane *dataplane; /* NULL until there is a slow tier */
	int start_failed;            /* -errno of its last start; 0 */
	struct source source;
	enum source_state source_state;
	char source_why[SOURCE_WHY_MAX];
	char source_whys[SAMPLE_SOURCE_MAX]
			[SOURCE_WHY_MAX];     /* by place in source_table: why it doesn't work, "" else */
	int source_errors[SAMPLE_SOURCE_MAX]; /* and the -errno of it */
	uint64_t source_retry_ns;
	uint64_t source_hold_ns[SAMPLE_SOURCE_MAX]; /* by place: not tried before; UINT64_MAX: with other settings only
						     */
	struct source_watch watch;                  /* of the open source */

	struct budget budget; /* of the open source, if it has a period */
	struct budget_meter meter;
	struct budget_output paced;            /* of the last step */
	uint64_t samples_before;               /* of sources that were open earlier */
	uint64_t filtered;                     /* by the kernel in software, since the opening */
	char rate_note[BUDGET_METER_NOTE_MAX]; /* the kernel lowered its limit; "" else */

	struct daemon_pause pause;

	struct promoter promoter;
	bool kernel_promotes;
	struct guard_view guard; /* as of the last second */
	struct bus_server *bus;
	struct bus_system *system_bus; /* NULL: not on it */
	int uevent_fd;                 /* -1: none; topology is polled instead */
	struct sleep_watch sleep_watch;
	sd_event_source *topology_timer;
	uint64_t topology_read_ns;

	enum report_state state;
	char reason[CONFIG_ERROR_MAX]; /* why degraded or waiting, "" else */
	uint64_t started_ns;
	uint64_t owners_logged_ns;
	struct daemon_summary summary;
	bool waiting_said;
	bool stopping;
	int exit_status;
};

/* Run until told to stop. Returns an exit status. Everything that has to be said was logged. */
int daemon_run(const struct daemon_options *options);

/* Called at the end of a bounded run with the last report, before anything is torn down. */
typedef void (*daemon_report_fn)(const struct report *report, const struct daemon *daemon);
int daemon_run_and_report(const struct daemon_options *options, daemon_report_fn report);

/*
 * Read the file and lay the overrides over it. 0, or -errno with the line in @error: -EDOM when it is an override that
 * is refused. A missing file that wasn't named is the defaults, and its mark (config_load_marked(); NULL: not wanted)
 * 0.
 */
int daemon_load_config(const struct daemon_options *options, struct config *ret, uint64_t *ret_mark, char *error);

/*
 * Topology of the machine under the configuration's tiers and target. As topology_read(). @allow_missing: a node that
 * the configuration names may be absent, since CXL memory is often onlined after boot; a person who is waiting for an
 * answer is told instead.
 */
int daemon_read_topology(const struct fsroot *root, const struct config *config, bool allow_missing,
			 struct topology **ret, char *error, size_t error_size);

/* daemon_source.c */

/* Could any configured source work? 0, or the -errno of the most telling refusal, with its line in @why. */
int daemon_probe_sources(struct daemon *daemon, const struct config *config, char *why);
/* Open the first that works and hand its rings to the readers. 0 or -errno with daemon->source_why. Paused: 0, and none
 * is opened. */
int daemon_open_source(struct daemon *daemon);
void daemon_close_source(struct daemon *daemon);
/* Its settings are others now: close it, and try all again, those too that were refused. As daemon_open_source(). */
int daemon_reopen_source(struct daemon *daemon);
/*
 * Why the source of that place in source_table isn't used, "" when there is nothing to say of it. That the machine
 * hasn't got it is nothing to say while "auto" has found another.
 */
const char *daemon_source_why(const struct daemon *daemon, size_t place);
/* Each second: checks, retries, state. */
void daemon_check_source(struct daemon *daemon, uint64_t now_ns);
/* Compare the rings with the CPUs that are online: events can be lost. */
void daemon_compare_cpus(struct daemon *daemon);
/*
 * @online: a CPU came, else it is going or gone. Whatever one that comes had before is closed, and opened anew: the
 * kernel takes the events off a CPU that goes for good. Source: perf_event_exit_cpu() in kernel/events/core.c.
 */
void daemon_cpu_changed(struct daemon *daemon, int cpu, bool online);
/*
 * Close and open every ring, for events that may be dead without a word. That is so after sleep: the other CPUs were
 * down, of which no kernel event tells, and the sampling hardware of the first one may have forgotten what it was set
 * to. And after kernel events were lost. No sample in a ring is lost. Source: thaw_secondary_cpus() in kernel/cpu.c.
 */
void daemon_rearm_source(struct daemon *daemon);

/* daemon_pause.c; @now_ns is on clock_boottime */

/*
 * Close the events, put back what sources have set, and hold the migrators, for @for_ns (1 s to 30 days; 0: until
 * resumed) from now on; also where it is paused already. @peer asked. 0, or -ERANGE with @error (CONFIG_ERROR_MAX).
 */
int daemon_pause(struct daemon *daemon, const struct bus_peer *peer, uint64_t for_ns, uint64_t now_ns, char *error);
/*
 * The end of it: the first source that works is opened anew. One that can't be is the state from here on, and
 * *@ret_note (free it) says why, as it says that there was no pause; NULL: nothing to say. 0 or -ENOMEM.
 */
int daemon_resume(struct daemon *daemon, const struct bus_peer *peer, uint64_t now_ns, char **ret_note);
/* Each second: is its time over? */
void daemon_check_pause(struct daemon *daemon, uint64_t now_ns);
/* Of a pause that is on: by whom, since when and how long, in words. */
void daemon_pause_text(const struct daemon_pause *pause, uint64_t now_ns, char *buf, size_t size);

/* daemon_budget.c */

/* A source with a period was opened, or what it may cost has changed. */
void daemon_start_budget(struct daemon *daemon);
/* Each second: hold the source's cost under the budget. */
void daemon_keep_budget(struct daemon *daemon, uint64_t now_ns);

/* daemon_control.c */
extern const struct bus_ops daemon_bus_ops;
/* Read the file again and publish it, whole, or keep everything. @peer asked, and @who names it in the log. 0 or -errno
 * with @error. */
int daemon_reload(struct daemon *daemon, const struct bus_peer *peer, const char *who, char **ret_note, char *error);
/*
 * The file was written by who changed what runs, for @peer: take what it says for what holds at the next start, and
 * leave what runs. 0 or -errno with @error: then what it said before is what status compares with.
 */
int daemon_note_file(struct daemon *daemon, const struct bus_peer *peer, char *error);
/* Fill a report and hand it to @fn; it is valid during the call only. */
void daemon_with_report(struct daemon *daemon, void (*fn)(void *ctx, const struct report *report), void *ctx);

/* daemon_log.c */

/* A record of each option that @next has changed, asked for by @peer: who, what, from, to. */
void daemon_log_changes(const struct config *before, const struct config *next, const struct bus_peer *peer);
/* A record of each option that @next, the file, has another value of than @before it had, written there for @peer. */
void daemon_log_saved(const struct config *before, const struct config *next, const char *path,
		      const struct bus_peer *peer);
/* A record of something else that @peer asked for; @line is the whole of it. */
void daemon_log_peer(enum message_id id, const struct bus_peer *peer, const char *line);
/* The same as of changes of one that was refused, with why. */
void daemon_log_refusal(const struct bus_peer *peer, const char *key, const char *value, const char *why);
/* Each second: one line every log.summary_minutes, if anything happened. */
void daemon_summarize(struct daemon *daemon, uint64_t now_ns);

/* daemon_limits.c */

struct dataplane_migrator;

#define DAEMON_LIMIT_MAX 128

/*
 * What holds promotion back right now, most general first, with what to do where that is one line: a constant text, or
 * one in @buf (DAEMON_LIMIT_MAX bytes). @left is what was left alone lately.
 */
const char *daemon_limiting(const struct daemon *daemon, const struct dataplane_migrator *migrators, size_t n,
			    const struct report_left *left, size_t n_left, char *buf, size_t size);

/* daemon_helper.c */

/* Take the helper process for what it does, where there is one. */
void daemon_use_helper(struct daemon *daemon);
/* Each second: is it there? Said when that changes. */
void daemon_look_at_helper(struct daemon *daemon);

/* daemon_events.c */

/* What @pid is called now, over what it was called before: programs change it by exec. */
void daemon_process_name(const struct fsroot *root, uint32_t pid, char comm[16]);
/* Signals, timers and the kernel's events into the main loop. 0 or -errno. */
int daemon_set_up_events(struct daemon *daemon);

/* daemon.c, for the other daemon files */

/* Work out what state the daemon is in, and log a change of it. */
void daemon_update_state(struct daemon *daemon);

/* Publish @config; takes what isn't read at each step to the data plane and reads topology again where it matters.
 * @strict: a node that the configuration names must be there. 0 or -errno with @error. */
int daemon_apply_config(struct daemon *daemon, const struct config *config, bool strict, char *error);
/* Each second: start what could not be started before. */
void daemon_retry_dataplane(struct daemon *daemon, uint64_t now_ns);
/* Read topology again and follow it: migrators, and the data plane if a slow tier came. */
void daemon_follow_topology(struct daemon *daemon);
