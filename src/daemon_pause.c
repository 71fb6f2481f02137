/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Paused: no event is open, nothing is moved, and the settings of sources are put back, so that others can have both.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "daemon.h"
#include "dataplane.h"
#include "message.h"
#include "print.h"

/* "uid 1000 (pid 812, pghotctl)" */
#define PEER_MAX 64

static const char *format_peer(char buf[PEER_MAX], const struct bus_peer *peer)
{
	snprintf(buf, PEER_MAX, "uid %u (pid %d, %s)", peer->uid, peer->pid, peer->comm);
	return buf;
}

int daemon_pause(struct daemon *daemon, const struct bus_peer *peer, uint64_t for_ns, uint64_t now_ns, char *error)
{
	struct daemon_pause *pause = &daemon->pause;
	char who[PEER_MAX], length[PRINT_SHORT_MAX], line[160];

	if (for_ns != 0 && (for_ns < REPORT_PAUSE_MIN_NS || for_ns > REPORT_PAUSE_MAX_NS)) {
		snprintf(error, CONFIG_ERROR_MAX, "a pause lasts from 1 second to 30 days, or until resume");
		return -ERANGE;
	}
	if (!pause->on)
		pause->since_ns = now_ns;
	pause->on = true;
	pause->until_ns = for_ns ? now_ns + for_ns : 0;
	pause->peer = *peer;
	if (daemon->dataplane)
		dataplane_hold(daemon->dataplane, true);
	daemon_close_source(daemon);
	/* One that failed before is neither tried nor told of: it is asked anew at the end. */
	daemon->source_state = SOURCE_CLOSED;
	snprintf(line, sizeof(line), "%s paused it%s%s: its events are closed, nothing is moved",
		 format_peer(who, peer), for_ns ? " for " : "", for_ns ? print_duration(length, for_ns) : "");
	daemon_log_peer(MESSAGE_PAUSED, peer, line);
	daemon_update_state(daemon);
	return 0;
}

/* 0, or the -errno of the source that could not be opened, which is said and is the state from here on. */
static int go_on(struct daemon *daemon)
{
	int r = 0;

	daemon->pause.on = false;
	if (daemon->dataplane) {
		dataplane_hold(daemon->dataplane, false);
		if (!nodeset_is_empty(&daemon->topology->lower))
			r = daemon_reopen_source(daemon);
		daemon->source_retry_ns = clock_now_ns(&clock_monotonic) + DAEMON_RETRY_NS;
	}
	if (r < 0)
		message(MESSAGE_SOURCE_FAILS, NULL, 0, "no source works: %s", daemon->source_why);
	daemon_update_state(daemon);
	return r;
}

int daemon_resume(struct daemon *daemon, const struct bus_peer *peer, uint64_t now_ns, char **ret_note)
{
	char who[PEER_MAX], length[PRINT_SHORT_MAX], line[160];

	*ret_note = NULL;
	if (!daemon->pause.on)
		return asprintf(ret_note, "it is not paused") < 0 ? -ENOMEM : 0;
	snprintf(line, sizeof(line), "%s resumed it after %s", format_peer(who, peer),
		 print_duration(length, now_ns - daemon->pause.since_ns));
	daemon_log_peer(MESSAGE_RESUMED, peer, line);
	if (go_on(daemon) < 0 &&
	    asprintf(ret_note, "no source works: %s; trying again each minute", daemon->source_why) < 0)
		*ret_note = NULL; /* the log and the state have it */
	return 0;
}

void daemon_check_pause(struct daemon *daemon, uint64_t now_ns)
{
	char who[PEER_MAX];

	if (!daemon->pause.on || daemon->pause.until_ns == 0 || now_ns < daemon->pause.until_ns)
		return;
	message(MESSAGE_RESUMED, NULL, 0, "the time is over for which %s paused it: it goes on",
		format_peer(who, &daemon->pause.peer));
	(void)go_on(daemon); /* said, and tried again */
}

void daemon_pause_text(const struct daemon_pause *pause, uint64_t now_ns, char *buf, size_t size)
{
	char since[PRINT_SHORT_MAX], left[PRINT_SHORT_MAX];
	uint64_t left_ns = pause->until_ns > now_ns ? pause->until_ns - now_ns : 0;

	if (pause->until_ns)
		snprintf(buf, size, "paused by uid %u (%s) %s ago; it goes on by itself in %s", pause->peer.uid,
			 pause->peer.comm, print_duration(since, now_ns - pause->since_ns),
			 print_duration(left, left_ns));
	else
		snprintf(buf, size, "paused by uid %u (%s) %s ago, until pghotctl resume", pause->peer.uid,
			 pause->peer.comm, print_duration(since, now_ns - pause->since_ns));
}
