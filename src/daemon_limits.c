/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What holds promotion back right now, in words. */
#include <stdio.h>
#include <string.h>

#include "daemon.h"
#include "dataplane.h"
#include "migrator.h"
#include "print.h"

/* Reasons that the configuration can lift, as manage_reason_name has them, which are the keys of kinds. */
static const char *const liftable[] = { "shared", "hugetlb", "locked", "file" };

/* Why none is made there, where that is by the configuration. */
static const char *made_room(const struct daemon *daemon)
{
	if (migrator_way(&daemon->current, daemon->topology) != WAY_NONE)
		return "";
	return daemon->current.make_room == ROOM_OFF ? "; make_room is \"off\""
						     : "; make_room is \"kernel\", and demotion_enabled is off";
}

static const char *no_room(const struct daemon *daemon, char *buf, size_t size)
{
	char nodes[64];

	if (nodeset_format(&daemon->topology->top, nodes, sizeof(nodes)) <= 0)
		return migrator_limit_text[LIMIT_NO_ROOM];
	snprintf(buf, size, "no room on node %s: full down to promote.headroom_percent%s", nodes, made_room(daemon));
	return buf;
}

static const char *left_alone(const struct report_left *left, size_t n_left, char *buf, size_t size)
{
	const struct report_left *most = NULL;
	char bytes[PRINT_SHORT_MAX], reason[32];
	size_t used;

	for (size_t i = 0; i < n_left; i++)
		if (!most || left[i].bytes > most->bytes)
			most = &left[i];
	if (!most)
		return migrator_limit_text[LIMIT_LEFT_ALONE];
	snprintf(reason, sizeof(reason), "%s", most->reason);
	for (char *p = reason; *p; p++)
		if (*p == '_')
			*p = ' ';
	used = (size_t)snprintf(buf, size, "left alone: %s %s", print_bytes(bytes, most->bytes), reason);
	for (size_t i = 0; i < sizeof(liftable) / sizeof(liftable[0]); i++)
		if (strcmp(most->reason, liftable[i]) == 0 && used < size)
			snprintf(buf + used, size - used, "; allow: kinds = { %s = true; }", most->reason);
	if (strcmp(most->reason, "fast_max") == 0 && used < size)
		snprintf(buf + used, size - used, "; allow: fast_max_percent of its rule");
	return buf;
}

/* A migrator's word, with what only the daemon knows. */
static const char *in_full(const struct daemon *daemon, const char *limit, const struct report_left *left,
			   size_t n_left, char *buf, size_t size)
{
	if (limit == migrator_limit_text[LIMIT_NO_ROOM])
		return no_room(daemon, buf, size);
	if (limit == migrator_limit_text[LIMIT_LEFT_ALONE])
		return left_alone(left, n_left, buf, size);
	if (limit == migrator_limit_text[LIMIT_RATE]) {
		snprintf(buf, size, "%s, which is %lld", limit, (long long)daemon->current.promote_rate_mib_per_sec);
		return buf;
	}
	return limit;
}

const char *daemon_limiting(const struct daemon *daemon, const struct dataplane_migrator *migrators, size_t n,
			    const struct report_left *left, size_t n_left, char *buf, size_t size)
{
	if (daemon->pause.on)
		return "it is paused";
	if (!daemon->topology || nodeset_is_empty(&daemon->topology->lower))
		return "there is no slow memory tier";
	if (daemon->source_state == SOURCE_FAILED)
		return "no source of samples works";
	/* What a migrator says is of its last pass, which may have been in another mode. */
	if (n && daemon->current.mode == MODE_OBSERVE)
		return migrator_limit_text[LIMIT_OBSERVING];
	for (size_t i = 0; i < n; i++) {
		if (migrators[i].limit == migrator_limit_text[LIMIT_OBSERVING])
			return "nothing yet: the mode was changed a moment ago";
		if (migrators[i].holds_back)
			return in_full(daemon, migrators[i].limit, left, n_left, buf, size);
	}
	return n ? migrators[0].limit : "";
}
