/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Records for the journal: who changed what, and what was done lately. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "daemon.h"
#include "message.h"
#include "print.h"

#define VALUE_MAX_BYTES CONFIG_TEXT_MAX
#define DID_MAX_BYTES   (2 * VALUE_MAX_BYTES + PATH_MAX + 128)
#define REFUSED_MAX     64 /* bytes of what was asked for, in the line; the field has all */

struct peer_text {
	char uid[16], pid[16];
};

static void format_peer(const struct bus_peer *peer, struct peer_text *ret)
{
	snprintf(ret->uid, sizeof(ret->uid), "%u", peer->uid);
	snprintf(ret->pid, sizeof(ret->pid), "%d", peer->pid);
}

/* A record for each option that @next has otherwise; @path: of what was saved there, NULL: of what runs. */
static void log_options(const struct config *before, const struct config *next, const char *path,
			const struct bus_peer *peer)
{
	struct peer_text who;

	format_peer(peer, &who);
	for (size_t i = 0; i < n_options; i++) {
		const struct option_info *option = &option_info[i];
		char from[VALUE_MAX_BYTES] = "", to[VALUE_MAX_BYTES] = "", did[DID_MAX_BYTES];

		if (config_same(before, next, option))
			continue;
		(void)config_get_text(before, option, from, sizeof(from));
		(void)config_get_text(next, option, to, sizeof(to));
		if (path)
			snprintf(did, sizeof(did), "saved %s in %s: it was %s, and is %s from now on", option->key,
				 path, from, to);
		else
			snprintf(did, sizeof(did), "changed %s from %s to %s", option->key, from, to);
		message(path ? MESSAGE_OPTION_SAVED : MESSAGE_OPTION_CHANGED,
			(const struct log_field[]){ { "PGHOT_PEER_UID", who.uid },
						    { "PGHOT_PEER_PID", who.pid },
						    { "PGHOT_PEER_COMM", peer->comm },
						    { "PGHOT_OPTION", option->key },
						    { "PGHOT_FROM", from },
						    { "PGHOT_TO", to } },
			6, "uid %s (pid %s, %s) %s", who.uid, who.pid, peer->comm, did);
	}
}

void daemon_log_changes(const struct config *before, const struct config *next, const struct bus_peer *peer)
{
	log_options(before, next, NULL, peer);
}

void daemon_log_saved(const struct config *before, const struct config *next, const char *path,
		      const struct bus_peer *peer)
{
	log_options(before, next, path, peer);
}

void daemon_log_peer(enum message_id id, const struct bus_peer *peer, const char *line)
{
	struct peer_text who;

	format_peer(peer, &who);
	message(id,
		(const struct log_field[]){ { "PGHOT_PEER_UID", who.uid },
					    { "PGHOT_PEER_PID", who.pid },
					    { "PGHOT_PEER_COMM", peer->comm } },
		3, "%s", line);
}

void daemon_log_refusal(const struct bus_peer *peer, const char *key, const char *value, const char *why)
{
	struct peer_text who;

	format_peer(peer, &who);
	message(MESSAGE_OPTION_REFUSED,
		(const struct log_field[]){ { "PGHOT_PEER_UID", who.uid },
					    { "PGHOT_PEER_PID", who.pid },
					    { "PGHOT_PEER_COMM", peer->comm },
					    { "PGHOT_OPTION", key },
					    { "PGHOT_TO", value } },
		5, "uid %s (pid %s, %s) may not set %.*s to %.*s: %s", who.uid, who.pid, peer->comm, REFUSED_MAX, key,
		REFUSED_MAX, value, why);
}

void daemon_summarize(struct daemon *daemon, uint64_t now_ns)
{
	struct daemon_summary *told = &daemon->summary, now = {
		.told_ns = now_ns,
		.samples = stats_sum(daemon->stats, STAT_TOTAL),
		.lost = stats_sum(daemon->stats, STAT_LOST),
		.promoted_bytes = stats_sum(daemon->stats, STAT_PROMOTED_BYTES),
		.would_bytes = stats_sum(daemon->stats, STAT_WOULD_PROMOTE_BYTES),
		.move_calls = stats_sum(daemon->stats, STAT_MOVE_CALLS),
	};
	uint64_t minutes = (uint64_t)daemon->current.log_summary_minutes, promoted, would, elapsed_ns;
	char for_text[PRINT_SHORT_MAX], bytes[PRINT_SHORT_MAX], samples[PRINT_SHORT_MAX], calls[PRINT_SHORT_MAX],
		lost[PRINT_SHORT_MAX], exact[24];

	if (told->told_ns == 0)
		*told = now;
	elapsed_ns = now_ns - told->told_ns;
	if (minutes == 0 || elapsed_ns < minutes * 60 * NSEC_PER_SEC)
		return;
	promoted = now.promoted_bytes - told->promoted_bytes;
	would = now.would_bytes - told->would_bytes;
	if (promoted || would) {
		snprintf(exact, sizeof(exact), "%" PRIu64, promoted ? promoted : would);
		message(MESSAGE_SUMMARY, (const struct log_field[]){ { "PGHOT_BYTES", exact } }, 1,
			"in %s: %s %s in %s calls; %s samples, %s lost", print_duration(for_text, elapsed_ns),
			promoted ? "promoted" : "would have promoted", print_bytes(bytes, promoted ? promoted : would),
			print_count(calls, now.move_calls - told->move_calls),
			print_count(samples, now.samples - told->samples), print_count(lost, now.lost - told->lost));
	}
	*told = now;
}
