/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <systemd/sd-daemon.h>

#include "clock.h"
#include "daemon.h"
#include "dataplane.h"
#include "guard_pressure.h"
#include "log.h"
#include "message.h"
#include "mover.h"
#include "pidns.h"
#include "rcu.h"
#include "source_events.h"

#define STOP_TIMEOUT_NS (1700 * NSEC_PER_MSEC)

int daemon_load_config(const struct daemon_options *options, struct config *ret, uint64_t *ret_mark, char *error)
{
	struct config config;
	uint64_t mark = 0;
	int r;

	config_defaults(&config);
	r = config_load_marked(options->config_path, &config, &mark, error);
	if (r == -ENOENT && !options->config_named) {
		error[0] = '\0';
		r = 0;
	}
	if (r < 0)
		return r;
	for (size_t i = 0; i < options->n_overrides; i++)
		if (config_set(&config, options->overrides[i].key, options->overrides[i].value, error) < 0)
			return -EDOM;
	if (options->observe_only) {
		config.mode = MODE_OBSERVE;
		config.hint_faults_manage_sysctls = false;
	}
	*ret = config;
	if (ret_mark)
		*ret_mark = mark;
	return 0;
}

int daemon_read_topology(const struct fsroot *root, const struct config *config, bool allow_missing,
			 struct topology **ret, char *error, size_t error_size)
{
	struct topology_options options = {
		.allow_missing = allow_missing,
		.n_tiers = config->tiers.n,
		.target_nid = (int)config->target_nid,
	};

	for (int i = 0; i < config->tiers.n; i++)
		options.tiers[i] = config->tiers.item[i];
	error[0] = '\0';
	return topology_read(root, &options, ret, error, error_size);
}

void daemon_update_state(struct daemon *daemon)
{
	struct guard_pressure_view group;
	enum report_state state;
	char reason[sizeof(daemon->reason)] = "";

	if (daemon->stopping) {
		state = STATE_STOPPING;
	} else if (daemon->pause.on) {
		state = STATE_PAUSED;
		daemon_pause_text(&daemon->pause, clock_now_ns(&clock_boottime), reason, sizeof(reason));
	} else if (nodeset_is_empty(&daemon->topology->lower)) {
		state = STATE_WAITING;
		snprintf(reason, sizeof(reason), "no slow tier of memory yet");
	} else if (!daemon->dataplane && daemon->start_failed) {
		state = STATE_DEGRADED;
		snprintf(reason, sizeof(reason), "cannot set up the threads and tables (%s); trying again each minute",
			 strerror(-daemon->start_failed));
	} else if (daemon->source_state == SOURCE_FAILED || daemon->source_state == SOURCE_DEGRADED) {
		state = STATE_DEGRADED;
		snprintf(reason, sizeof(reason), "%s", daemon->source_why);
	} else if (daemon->helper_error) {
		state = STATE_DEGRADED;
		snprintf(reason, sizeof(reason),
			 "the helper process doesn't answer (%s): what is open goes on, but no CPU that comes is "
			 "sampled and no setting put back; %s",
			 strerror(-daemon->helper_error),
			 daemon->options.user ? "if it stays so, restart pghotd"
					      : "see systemctl status pghotd-helper.service");
	} else if (daemon->kernel_promotes) {
		state = STATE_DEGRADED;
		snprintf(reason, sizeof(reason),
			 "the kernel promotes pages itself (%llu since the start): see kernel.numa_balancing and the "
			 "free memory of the fast node",
			 (unsigned long long)daemon->promoter.promoted_pages);
	} else if (daemon->guard.cause != GUARD_NONE && daemon->current.mode == MODE_PROMOTE) {
		state = STATE_DEGRADED;
		if (daemon->guard.cause == GUARD_COST)
			snprintf(reason, sizeof(reason), "a guard holds: %s", guard_cause_text[GUARD_COST]);
		else
			snprintf(reason, sizeof(reason), "a guard holds: %s; %s for %llu s more",
				 guard_cause_text[daemon->guard.cause],
				 guard_stops_all(daemon->guard.cause) ? "nothing is moved"
								      : "no room is made on fast nodes",
				 (unsigned long long)(daemon->guard.left_ns / NSEC_PER_SEC));
	} else if (daemon->dataplane && daemon->current.mode == MODE_PROMOTE &&
		   dataplane_pressure(daemon->dataplane, &group, 1) > 0) {
		state = STATE_DEGRADED;
		snprintf(reason, sizeof(reason),
			 "a guard holds: %s, control group %.100s; its memory is left where it is",
			 guard_pressure_text[group.cause], group.path[0] ? group.path : "(all)");
	} else if (daemon->current.mode == MODE_OBSERVE || daemon->topology->observe_only) {
		state = STATE_OBSERVING;
	} else {
		state = STATE_PROMOTING;
	}
	if (state != daemon->state) {
		/* The line before says who, and for how long. */
		const char *why = state == STATE_PAUSED ? "" : reason;

		if (state != STATE_WAITING) /* say_waiting() has said it, and once */
			message(MESSAGE_STATE,
				(const struct log_field[]){ { "PGHOT_STATE", report_state_name[state] },
							    { "PGHOT_REASON", reason } },
				2, "%s%s%s", report_state_name[state], why[0] ? ": " : "", why);
		daemon->state = state;
		bus_system_changed(daemon->system_bus, "State");
	}
	memcpy(daemon->reason, reason, sizeof(reason));
}

static int start_dataplane(struct daemon *daemon)
{
	struct dataplane_params params = {
		.config = daemon->config,
		.topology = daemon->topologies,
		.stats = daemon->stats,
		.root = &daemon->root,
		.clock = &clock_monotonic,
		.mover_ops = &mover_pages_ops,
	};
	int r = dataplane_start(&params, &daemon->dataplane);

	daemon->start_failed = r;
	daemon->source_retry_ns = clock_now_ns(&clock_monotonic) + DAEMON_RETRY_NS;
	if (r < 0)
		return r;
	dataplane_hold(daemon->dataplane, daemon->pause.on);
	r = daemon_open_source(daemon);
	if (r < 0)
		message(MESSAGE_SOURCE_FAILS, NULL, 0, "no source works: %s", daemon->source_why);
	return r;
}

/* What isn't there although there is a slow tier: threads that could not be started, a migrator that is missing. */
void daemon_retry_dataplane(struct daemon *daemon, uint64_t now_ns)
{
	if (nodeset_is_empty(&daemon->topology->lower) || now_ns < daemon->source_retry_ns)
		return;
	if (!daemon->dataplane)
		(void)start_dataplane(daemon); /* logs, and is tried again */
}

/* What is new since @before (NULL: everything): a node that only grew is no news. */
static void say_topology(const struct topology *topology, const struct topology *before)
{
	bool same = before && before->n_tiers == topology->n_tiers;
	char nodes[256];

	for (int i = 0; same && i < topology->n_tiers; i++)
		same = nodeset_equal(&before->tiers[i].nodes, &topology->tiers[i].nodes);
	if (same && strcmp(before->advice, topology->advice) == 0)
		return;
	for (int i = 0; i < topology->n_tiers; i++) {
		if (nodeset_format(&topology->tiers[i].nodes, nodes, sizeof(nodes)) < 0)
			snprintf(nodes, sizeof(nodes), "many");
		log_info("tier %d%s: node %s", i, i == 0 ? " (fastest)" : "", nodes);
	}
	if (topology->advice[0])
		message(MESSAGE_TIERS, NULL, 0, "%s", topology->advice);
}

/* Said once for each time that the last slow tier is gone, or was never there. */
static void say_waiting(struct daemon *daemon)
{
	if (daemon->waiting_said)
		return;
	daemon->waiting_said = true;
	message(MESSAGE_WAITING, NULL, 0,
		"this machine shows no slow tier of memory: waiting for one to appear (CXL memory is often onlined "
		"after boot)%s",
		isatty(STDERR_FILENO) ? ". To see pghotd at work without one: sudo ./bootstrap run" : "");
}

/* Take over @next, which differs from the published one. */
static int publish_topology(struct daemon *daemon, struct topology *next)
{
	topology_store_set(daemon->topologies, topology_ref(next));
	say_topology(next, daemon->topology);
	topology_unref(daemon->topology);
	daemon->topology = next;
	daemon->source.env.topology = next;
	if (nodeset_is_empty(&next->lower)) {
		say_waiting(daemon);
		/* Nothing to learn, so nothing to pay for, and the settings are not ours to keep. */
		daemon_close_source(daemon);
		return daemon->dataplane ? dataplane_follow_topology(daemon->dataplane) : 0;
	}
	daemon->waiting_said = false;
	if (!daemon->dataplane)
		return start_dataplane(daemon);
	if (!daemon->source.ops)
		(void)daemon_open_source(daemon); /* its failure is the state from here on, and is tried again */
	return dataplane_follow_topology(daemon->dataplane);
}

void daemon_follow_topology(struct daemon *daemon)
{
	struct topology *next;
	char error[CONFIG_ERROR_MAX];
	int r;

	daemon->topology_read_ns = clock_now_ns(&clock_monotonic);
	r = daemon_read_topology(&daemon->root, &daemon->current, true, &next, error, sizeof(error));
	if (r < 0) {
		log_warning("cannot read the machine's memory again: %s; keeping the last known",
			    error[0] ? error : strerror(-r));
		return;
	}
	if (topology_equal(next, daemon->topology)) {
		topology_unref(next);
		/* A migrator that could not be started, or stopped, at the change. */
		if (daemon->dataplane)
			(void)dataplane_follow_topology(daemon->dataplane);
		return;
	}
	(void)publish_topology(daemon, next); /* its failures are logged, and tried again */
	daemon_update_state(daemon);
}

static bool topology_differs(const struct config *a, const struct config *b)
{
	return a->target_nid != b->target_nid || !config_same(a, b, option_find("tiers"));
}

/* true when what an event is opened with differs; the period can be changed while it is open. */
static bool source_differs(const struct config *a, const struct config *b)
{
	return a->hint_faults_manage_sysctls != b->hint_faults_manage_sysctls || a->ibs_pmu != b->ibs_pmu ||
	       a->ibs_count != b->ibs_count || a->ibs_l3_miss_only != b->ibs_l3_miss_only ||
	       a->ibs_latency_threshold != b->ibs_latency_threshold || a->ibs_user_only != b->ibs_user_only;
}

int daemon_apply_config(struct daemon *daemon, const struct config *config, bool strict, char *error)
{
	bool reopen = source_differs(config, &daemon->current);
	bool period_changed = config->ibs_period != daemon->current.ibs_period, mode_changed;
	struct topology *next = NULL;
	int r = 0;

	/* Only where it matters: whatever the machine's memory is like just now, "observe" must not be refused for it.
	 */
	if (topology_differs(config, &daemon->current))
		r = daemon_read_topology(&daemon->root, config, !strict, &next, error, CONFIG_ERROR_MAX);
	if (r < 0) {
		if (!error[0])
			snprintf(error, CONFIG_ERROR_MAX, "cannot read the machine's memory: %s", strerror(-r));
		return r;
	}
	r = config_store_set(daemon->config, config);
	if (r < 0) {
		topology_unref(next);
		snprintf(error, CONFIG_ERROR_MAX, "out of memory");
		return r;
	}
	mode_changed = config->mode != daemon->current.mode;
	daemon->current = *config;
	bus_system_set_public(daemon->system_bus, config->control_public_status);
	if (mode_changed)
		bus_system_changed(daemon->system_bus, "Mode");
	if (next && !topology_equal(next, daemon->topology))
		(void)publish_topology(daemon, next); /* its failures are logged, and tried again */
	else
		topology_unref(next);
	if (daemon->dataplane) {
		dataplane_follow_config(daemon->dataplane);
		if (!reopen && period_changed && daemon->source.ops && daemon->source.period) {
			/* 0 is by budget: from where it is. */
			if (config->ibs_period)
				(void)daemon->source.ops->set_period(&daemon->source, (uint64_t)config->ibs_period);
			else
				daemon_start_budget(daemon);
		}
		if (reopen) {
			(void)daemon_reopen_source(
				daemon); /* a failure is the state from here on, and is tried again */
		}
	}
	daemon_update_state(daemon);
	return 0;
}

/* A source that isn't allowed is told before anything is touched. */
static int check_permission(struct daemon *daemon)
{
	char why[SOURCE_WHY_MAX];

	if (nodeset_is_empty(&daemon->topology->lower))
		return EXIT_OK;
	if (daemon_probe_sources(daemon, &daemon->current, why) != -EACCES)
		return EXIT_OK;
	log_error("%s", why);
	return EXIT_NO_PERMISSION;
}

static int open_control(struct daemon *daemon)
{
	int r;

	if (!daemon->options.socket_path)
		return EXIT_OK;
	r = bus_server_new(daemon->event, daemon->options.socket_path, daemon->current.control_group, &daemon_bus_ops,
			   daemon, &daemon->bus);
	if (r == -EADDRINUSE) {
		log_error("another pghotd is running and answers on %s; stop it first: systemctl stop pghotd",
			  daemon->options.socket_path);
		return EXIT_FAILED;
	}
	if (r == -EACCES || r == -EPERM) {
		log_error("cannot make the control socket %s: %s; start pghotd as root", daemon->options.socket_path,
			  strerror(-r));
		return EXIT_NO_PERMISSION;
	}
	if (r < 0) {
		log_error("cannot make the control socket %s: %s", daemon->options.socket_path, strerror(-r));
		return EXIT_FAILED;
	}
	if (!daemon->options.system_bus)
		return EXIT_OK;
	r = bus_system_new(daemon->event, daemon->current.control_group, &daemon_bus_ops, daemon, &daemon->system_bus);
	if (r < 0)
		log_warning("system bus: cannot use it: %s; going on without", strerror(-r));
	bus_system_set_public(daemon->system_bus, daemon->current.control_public_status);
	return EXIT_OK;
}

static void restore_file(struct privops *privops, const char *path)
{
	struct privops_restored restored;
	int r;

	privops->saved_path = path;
	r = privops_restore(privops, &restored);
	if (r == -EBADMSG || r == -EPERM)
		log_warning("cannot put back settings saved in %s: it is not what pghotd wrote (%s); look at it, then "
			    "remove it",
			    path, strerror(-r));
	else if (r < 0)
		log_warning("cannot put back settings saved in %s: %s; later: pghotd --restore", path, strerror(-r));
}

/* What a killed daemon left changed. Not in a run that promised to change nothing. */
static void restore_leftovers(struct daemon *daemon)
{
	struct privops privops = daemon->privops;

	if (daemon->options.observe_only)
		return;
	restore_file(&privops, privops.saved_path);
	/* One that had a helper, while this one does it itself. */
	if (!daemon->options.helper && geteuid() == 0 && daemon->options.helper_saved_path)
		restore_file(&privops, daemon->options.helper_saved_path);
}

static int set_up_facts(struct daemon *daemon)
{
	char error[CONFIG_ERROR_MAX] = "";
	int r;

	r = fsroot_open(&daemon->root, daemon->options.root_path);
	if (r < 0) {
		log_error("cannot open %s: %s", daemon->options.root_path, strerror(-r));
		return EXIT_FAILED;
	}
	daemon->privops = (struct privops){
		.ops = &privops_direct,
		.root = daemon->root,
		.saved_path = daemon->options.saved_path,
	};
	daemon_use_helper(daemon);
	r = daemon_load_config(&daemon->options, &daemon->file, &daemon->file_mark, error);
	if (r < 0) {
		log_error("%s", error);
		return daemon_config_exit(r);
	}
	daemon->current = daemon->file;
	if (pidns_is_child(&daemon->root) > 0) {
		log_error("started inside a child pid namespace: samples carry the pids of the host, so pages could "
			  "not be moved; start it with the host's pid namespace (for a container: --pid=host)");
		return EXIT_CANNOT_WORK;
	}
	if (pidns_cgroup_is_child(&daemon->root) > 0)
		log_warning("started inside a cgroup namespace of its own: rules by cgroup: and the attribute "
			    "user.pghot.mode of control groups see nothing outside of it; start it with the host's "
			    "(for a container: --cgroupns=host), or use rules by exe: and user:");
	r = daemon_read_topology(&daemon->root, &daemon->current, true, &daemon->topology, error, sizeof(error));
	if (r == -EINVAL) {
		log_error("%s: %s", daemon->options.config_path, error);
		return EXIT_BAD_CONFIG;
	}
	if (r < 0) {
		log_error("cannot read the machine's memory nodes: %s", error[0] ? error : strerror(-r));
		return EXIT_CANNOT_WORK;
	}
	return EXIT_OK;
}

static int set_up_stores(struct daemon *daemon)
{
	daemon->stats = stats_new();
	daemon->config = config_store_new(&daemon->current);
	daemon->topologies = topology_store_new(topology_ref(daemon->topology));
	if (daemon->stats)
		daemon->stats_slot = stats_slot_new(daemon->stats);
	if (!daemon->stats || !daemon->stats_slot || !daemon->config || !daemon->topologies ||
	    sd_event_default(&daemon->event) < 0) {
		log_error("out of memory");
		return EXIT_FAILED;
	}
	return EXIT_OK;
}

static int first_start(struct daemon *daemon)
{
	int r;

	say_topology(daemon->topology, NULL);
	if (nodeset_is_empty(&daemon->topology->lower)) {
		say_waiting(daemon);
		return EXIT_OK;
	}
	r = start_dataplane(daemon);
	if (r == 0 || daemon->options.observe_only)
		return EXIT_OK;
	/* Someone has the hardware just now: he will be done some time, and until then the state says so. */
	if (r == -EAGAIN)
		return EXIT_OK;
	if (r == -EACCES || r == -EPERM)
		return EXIT_NO_PERMISSION;
	/* What the machine lacks, it lacks at the next start too; anything else may pass. */
	return r == -ENOENT || r == -ENODEV || r == -EBUSY || r == -EPROTO ? EXIT_CANNOT_WORK : EXIT_FAILED;
}

struct last_report {
	daemon_report_fn fn;
	const struct daemon *daemon;
};

static void show_last(void *ctx, const struct report *report)
{
	const struct last_report *last = ctx;

	last->fn(report, last->daemon);
}

static int run(struct daemon *daemon, daemon_report_fn report)
{
	int r;

	daemon_update_state(daemon);
	sd_notify(0, "READY=1");
	message(MESSAGE_STARTED, NULL, 0, "running in mode \"%s\"",
		daemon->current.mode == MODE_PROMOTE ? "promote" : "observe");
	r = sd_event_loop(daemon->event);
	if (r < 0) {
		log_error("the main loop failed: %s", strerror(-r));
		r = EXIT_FAILED;
	}
	sd_notify(0, "STOPPING=1");
	if (report)
		daemon_with_report(daemon, show_last, &(struct last_report){ .fn = report, .daemon = daemon });
	return r;
}

static void free_control(struct daemon *daemon)
{
	bus_system_free(daemon->system_bus);
	bus_server_free(daemon->bus);
}

static void tear_down(struct daemon *daemon)
{
	daemon->stopping = true;
	if (daemon->dataplane)
		dataplane_request_stop(daemon->dataplane);
	/* Before the threads are waited for: whatever hangs, the settings are as they were found. */
	daemon_close_source(daemon);
	if (dataplane_stop(daemon->dataplane, STOP_TIMEOUT_NS) < 0) {
		/* A thread still uses the stores: the end of the process frees them. */
		free_control(daemon);
		return;
	}
	free_control(daemon);
	sd_event_source_unref(daemon->topology_timer);
	if (daemon->uevent_fd >= 0)
		close(daemon->uevent_fd);
	sd_event_unref(daemon->event);
	topology_store_free(daemon->topologies);
	topology_unref(daemon->topology);
	config_store_free(daemon->config);
	stats_free(daemon->stats);
	fsroot_close(&daemon->root);
}

int daemon_run_and_report(const struct daemon_options *options, daemon_report_fn report)
{
	static struct daemon daemon;
	int status;

	daemon = (struct daemon){
		.options = *options,
		.root.fd = -1,
		.uevent_fd = -1,
		.state = STATE_STARTING,
		.started_ns = clock_now_ns(&clock_monotonic),
	};
	daemon.owners_logged_ns = daemon.topology_read_ns = daemon.started_ns;
	rcu_thread_start();
	(void)source_events_raise_descriptors();
	status = set_up_facts(&daemon);
	if (status == EXIT_OK)
		status = set_up_stores(&daemon);
	if (status == EXIT_OK)
		status = check_permission(&daemon);
	if (status == EXIT_OK && daemon_set_up_events(&daemon) < 0) {
		log_error("cannot set up the main loop");
		status = EXIT_FAILED;
	}
	if (status == EXIT_OK)
		status = open_control(&daemon);
	if (status == EXIT_OK) {
		/* What the kernel promoted before is no concern of ours: the first look only sets the mark. */
		(void)promoter_look(&daemon.promoter, &daemon.root, daemon.started_ns);
		restore_leftovers(&daemon);
		status = first_start(&daemon);
	}
	if (status == EXIT_OK)
		status = run(&daemon, report);
	tear_down(&daemon);
	rcu_thread_stop();
	return status;
}

int daemon_run(const struct daemon_options *options)
{
	return daemon_run_and_report(options, NULL);
}
