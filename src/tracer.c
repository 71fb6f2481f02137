/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdio.h>
#include <string.h>

#include "tracer.h"

/* All four of "Uid:" or "Gid:" in /proc/PID/status: real, effective, saved, file system. */
static bool all_are(const char *status, const char *key, uint32_t id)
{
	const char *line = strstr(status, key);
	unsigned int ids[4];

	if (!line || sscanf(line + strlen(key), "%u %u %u %u", &ids[0], &ids[1], &ids[2], &ids[3]) != 4)
		return false;
	for (int i = 0; i < 4; i++)
		if (ids[i] != id)
			return false;
	return true;
}

static bool all_are_one_of(const char *status, const uint32_t *gids, size_t n_gids)
{
	for (size_t i = 0; i < n_gids; i++)
		if (all_are(status, "\nGid:", gids[i]))
			return true;
	return false;
}

bool tracer_may(const struct fsroot *root, uint32_t uid, const uint32_t *gids, size_t n_gids, uint32_t pid)
{
	char status[4096];
	uint32_t owner;

	if (uid == 0)
		return true;
	return fsroot_read(root, status, sizeof(status), "proc/%u/status", pid) > 0 && all_are(status, "\nUid:", uid) &&
	       all_are_one_of(status, gids, n_gids) && fsroot_owner(root, &owner, "proc/%u", pid) == 0 && owner == uid;
}
