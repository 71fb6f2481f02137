/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the main loop reacts to: the tick, the watchdog, signals, and the kernel's events. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <systemd/sd-daemon.h>

#include "clock.h"
#include "daemon.h"
#include "dataplane.h"
#include "log.h"
#include "message.h"
#include "owners.h"
#include "sleep_watch.h"
#include "uevent.h"

#define TICK_NS NSEC_PER_SEC
/* Memory blocks come in bursts: one look at the end of a burst. */
#define TOPOLOGY_SETTLE_NS (200 * NSEC_PER_MSEC)
/* Where the kernel's events can't be had; and where they seem to be: in another network namespace they stay silent. */
#define TOPOLOGY_POLL_NS      (10 * NSEC_PER_SEC)
#define TOPOLOGY_POLL_SLOW_NS (60 * NSEC_PER_SEC)
#define OWNERS_LOG_NS         (60 * NSEC_PER_SEC)
/* A kernel that promoted within this time is promoting: its own scan comes round in up to a minute. */
#define KERNEL_PROMOTES_NS (60 * NSEC_PER_SEC)

/* A timer goes off once, unless told otherwise each time. */
static void again(sd_event_source *timer, uint64_t usec)
{
	sd_event_source_set_time(timer, usec);
	sd_event_source_set_enabled(timer, SD_EVENT_ONESHOT);
}

#define OWNERS_LOG_LINES 20

struct owner_news {
	uint32_t pid;
	uint64_t bytes;
	char comm[16];
};

struct owners_log {
	struct owner_news news[OWNERS_LOG_LINES];
	size_t n;
};

static int collect_news(void *ctx, struct owner *owner)
{
	struct owners_log *log = ctx;
	uint64_t hot_bytes = atomic_load_explicit(&owner->hot_bytes, memory_order_relaxed); /* a gauge */
	struct owner_news *news = &log->news[log->n];

	if (hot_bytes == owner->logged_bytes)
		return 0;
	*news = (struct owner_news){ .pid = owner->pid, .bytes = hot_bytes - owner->logged_bytes };
	memcpy(news->comm, owner->comm, sizeof(news->comm));
	owner->logged_bytes = hot_bytes;
	return ++log->n == OWNERS_LOG_LINES;
}

void daemon_process_name(const struct fsroot *root, uint32_t pid, char comm[16])
{
	char now[64];

	/* Gone: what it was called when it was first seen has to do. */
	if (fsroot_read(root, now, sizeof(now), "proc/%u/comm", pid) > 0)
		snprintf(comm, 16, "%.15s", now);
}

static void log_owners(struct daemon *daemon)
{
	struct owners_log log = { .n = 0 };

	dataplane_owners(daemon->dataplane, collect_news, &log);
	for (size_t i = 0; i < log.n; i++) {
		struct owner_news *news = &log.news[i];
		char pid[16], bytes[24];

		daemon_process_name(&daemon->root, news->pid, news->comm);
		snprintf(pid, sizeof(pid), "%u", news->pid);
		snprintf(bytes, sizeof(bytes), "%llu", (unsigned long long)news->bytes);
		message(MESSAGE_PROMOTED,
			(const struct log_field[]){
				{ "PGHOT_PID", pid }, { "PGHOT_COMM", news->comm }, { "PGHOT_BYTES", bytes } },
			3, "%s %llu KiB of %s (pid %s)",
			daemon->current.mode == MODE_PROMOTE ? "promoted" : "would promote",
			(unsigned long long)(news->bytes >> 10), news->comm, pid);
	}
}

static void look_at_kernel(struct daemon *daemon, uint64_t now_ns)
{
	bool before = daemon->kernel_promotes;
	int64_t pages = promoter_look(&daemon->promoter, &daemon->root, now_ns);

	if (pages > 0)
		stats_add(daemon->stats_slot, STAT_KERNEL_PROMOTED_PAGES, (uint64_t)pages);
	daemon->kernel_promotes = promoter_is_active(&daemon->promoter, now_ns, KERNEL_PROMOTES_NS);
	if (daemon->kernel_promotes && !before)
		message(MESSAGE_KERNEL_PROMOTES, NULL, 0,
			"the kernel promotes pages itself: %lld in the last second. With kernel.numa_balancing=2 it "
			"does so whatever the rate limit while the fast node has more than 1 GiB (or 1/16) free; with "
			"1, at a page's second fault",
			(long long)pages);
}

/* No kernel event tells of it. */
static void look_for_sleep(struct daemon *daemon)
{
	if (!sleep_watch_look(&daemon->sleep_watch, &clock_monotonic, &clock_boottime))
		return;
	if (!daemon->source.ops)
		return;
	daemon_rearm_source(daemon);
	log_info("the machine slept: the events of source %s are opened anew", daemon->source.ops->name);
}

static int on_tick(sd_event_source *timer, uint64_t usec, void *ctx)
{
	struct daemon *daemon = ctx;
	uint64_t now_ns = clock_now_ns(&clock_monotonic);

	look_at_kernel(daemon, now_ns);
	if (daemon->dataplane)
		dataplane_guard(daemon->dataplane, &daemon->guard);
	look_for_sleep(daemon);
	daemon_check_pause(daemon, clock_now_ns(&clock_boottime));
	daemon_look_at_helper(daemon);
	daemon_check_source(daemon, now_ns);
	daemon_keep_budget(daemon, now_ns);
	if (now_ns - daemon->topology_read_ns >= (daemon->uevent_fd < 0 ? TOPOLOGY_POLL_NS : TOPOLOGY_POLL_SLOW_NS)) {
		daemon_follow_topology(daemon);
		daemon_compare_cpus(daemon);
	}
	daemon_retry_dataplane(daemon, now_ns);
	daemon_update_state(daemon);
	if (daemon->dataplane && now_ns - daemon->owners_logged_ns >= OWNERS_LOG_NS) {
		daemon->owners_logged_ns = now_ns;
		log_owners(daemon);
	}
	daemon_summarize(daemon, now_ns);
	sd_notifyf(0, "STATUS=%s, promoted %llu MiB%s%s", report_state_name[daemon->state],
		   (unsigned long long)(stats_sum(daemon->stats, STAT_PROMOTED_BYTES) >> 20),
		   daemon->reason[0] ? "; " : "", daemon->reason);
	if (daemon->options.run_for_ns && now_ns - daemon->started_ns >= daemon->options.run_for_ns)
		return sd_event_exit(daemon->event, EXIT_OK);
	again(timer, usec + TICK_NS / NSEC_PER_USEC);
	return 0;
}

static int on_watchdog(sd_event_source *timer, uint64_t usec, void *ctx)
{
	struct daemon *daemon = ctx;
	uint64_t watchdog_usec;

	if (sd_watchdog_enabled(0, &watchdog_usec) <= 0)
		return 0;
	if (!daemon->dataplane || dataplane_moves_on(daemon->dataplane))
		sd_notify(0, "WATCHDOG=1");
	else
		message(MESSAGE_STUCK, NULL, 0, "a thread has not moved on for %llu ms; not feeding the watchdog",
			(unsigned long long)watchdog_usec / 3000);
	again(timer, usec + watchdog_usec / 3);
	return 0;
}

static int on_stop(sd_event_source *source, const struct signalfd_siginfo *info, void *ctx)
{
	struct daemon *daemon = ctx;

	(void)source;
	message(MESSAGE_STOPPING, NULL, 0, "stopping: %s", info->ssi_signo == SIGINT ? "interrupted" : "asked to");
	if (daemon->dataplane) {
		dataplane_request_stop(daemon->dataplane);
		log_owners(daemon); /* what came since the last minute's account */
	}
	return sd_event_exit(daemon->event, EXIT_OK);
}

static int on_hangup(sd_event_source *source, const struct signalfd_siginfo *info, void *ctx)
{
	const struct bus_peer peer = { .uid = info->ssi_uid, .pid = (int32_t)info->ssi_pid, .comm = "?" };
	char error[CONFIG_ERROR_MAX], who[64];

	(void)source;
	snprintf(who, sizeof(who), "SIGHUP from pid %u", info->ssi_pid);
	(void)daemon_reload(ctx, &peer, who, NULL, error); /* logs its refusal */
	return 0;
}

static int on_topology_settled(sd_event_source *timer, uint64_t usec, void *ctx)
{
	(void)timer;
	(void)usec;
	daemon_follow_topology(ctx);
	return 0;
}

static void topology_changes_soon(struct daemon *daemon)
{
	sd_event_source_set_time_relative(daemon->topology_timer, TOPOLOGY_SETTLE_NS / NSEC_PER_USEC);
	sd_event_source_set_enabled(daemon->topology_timer, SD_EVENT_ONESHOT);
}

static int on_uevent(sd_event_source *source, int fd, uint32_t revents, void *ctx)
{
	struct daemon *daemon = ctx;
	struct uevent event;

	(void)source;
	(void)revents;
	while (uevent_read(fd, &event) > 0) {
		switch (event.kind) {
		case UEVENT_CPU_ONLINE:
		case UEVENT_CPU_OFFLINE:
			daemon_cpu_changed(daemon, event.cpu, event.kind == UEVENT_CPU_ONLINE);
			topology_changes_soon(daemon);
			break;
		case UEVENT_OVERRUN:
			/* A CPU may have gone and come back: then its event is dead, and nothing shows it. */
			daemon_rearm_source(daemon);
			topology_changes_soon(daemon);
			break;
		case UEVENT_MEMORY:
		case UEVENT_NODE:
			topology_changes_soon(daemon);
			break;
		case UEVENT_OTHER:
			break;
		}
	}
	return 0;
}

int daemon_set_up_events(struct daemon *daemon)
{
	sd_event *e = daemon->event;
	uint64_t watchdog_usec;
	sigset_t signals;
	int r;

	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGHUP);
	/* Sent to a wrong pid, they would end it with the settings still set. */
	sigaddset(&signals, SIGUSR1);
	sigaddset(&signals, SIGUSR2);
	sigaddset(&signals, SIGPIPE); /* a client that hung up is an error return, not a signal */
	sigprocmask(SIG_BLOCK, &signals, NULL);
	r = sd_event_add_signal(e, NULL, SIGTERM, on_stop, daemon);
	if (r >= 0)
		r = sd_event_add_signal(e, NULL, SIGINT, on_stop, daemon);
	if (r >= 0)
		r = sd_event_add_signal(e, NULL, SIGHUP, on_hangup, daemon);
	if (r >= 0)
		r = sd_event_add_time_relative(e, NULL, CLOCK_MONOTONIC, TICK_NS / NSEC_PER_USEC, 0, on_tick, daemon);
	if (r >= 0)
		r = sd_event_add_time_relative(e, &daemon->topology_timer, CLOCK_MONOTONIC, 0, 0, on_topology_settled,
					       daemon);
	if (r >= 0)
		r = sd_event_source_set_enabled(daemon->topology_timer, SD_EVENT_OFF);
	if (r >= 0 && sd_watchdog_enabled(0, &watchdog_usec) > 0)
		r = sd_event_add_time_relative(e, NULL, CLOCK_MONOTONIC, watchdog_usec / 3, 0, on_watchdog, daemon);
	if (r < 0)
		return r;
	daemon->uevent_fd = uevent_open();
	if (daemon->uevent_fd >= 0)
		return sd_event_add_io(e, NULL, daemon->uevent_fd, EPOLLIN, on_uevent, daemon);
	log_info("no kernel events here (%s): looking for new memory every %llu s", strerror(-daemon->uevent_fd),
		 TOPOLOGY_POLL_NS / NSEC_PER_SEC);
	daemon->uevent_fd = -1;
	return 0;
}
