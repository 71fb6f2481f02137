/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "bus_caller.h"
#include "bus_manager.h"

static int read_groups(sd_bus_message *reply, struct bus_caller *caller)
{
	const void *groups;
	size_t bytes;
	int r;

	r = sd_bus_message_enter_container(reply, 'v', "au");
	if (r >= 0)
		r = sd_bus_message_read_array(reply, 'u', &groups, &bytes);
	if (r < 0)
		return r;
	caller->peer.n_groups = bytes / sizeof(uint32_t);
	if (caller->peer.n_groups > BUS_CALLER_GROUPS_MAX)
		caller->peer.n_groups = BUS_CALLER_GROUPS_MAX;
	if (caller->peer.n_groups)
		memcpy(caller->groups, groups, caller->peer.n_groups * sizeof(uint32_t));
	return sd_bus_message_exit_container(reply);
}

/* One name with its value. What isn't known here is skipped: the bus may tell more. */
static int read_one(sd_bus_message *reply, struct bus_caller *caller, uint32_t *pid)
{
	const char *name;
	int r = sd_bus_message_read(reply, "s", &name);

	if (r < 0)
		return r;
	if (strcmp(name, "UnixUserID") == 0)
		return sd_bus_message_read(reply, "v", "u", &caller->peer.uid);
	if (strcmp(name, "ProcessID") == 0)
		return sd_bus_message_read(reply, "v", "u", pid);
	if (strcmp(name, "UnixGroupIDs") == 0)
		return read_groups(reply, caller);
	return sd_bus_message_skip(reply, "v");
}

int bus_caller_read(sd_bus_message *reply, const struct fsroot *root, struct bus_caller *ret)
{
	uint32_t pid = 0;
	char comm[32];
	int r;

	ret->peer = (struct bus_peer){ .uid = (uint32_t)-1, .gid = (uint32_t)-1, .groups = ret->groups, .comm = "?" };
	r = sd_bus_message_enter_container(reply, 'a', "{sv}");
	while (r >= 0 && (r = sd_bus_message_enter_container(reply, 'e', "sv")) > 0) {
		r = read_one(reply, ret, &pid);
		if (r >= 0)
			r = sd_bus_message_exit_container(reply);
	}
	if (r < 0)
		return r;
	ret->peer.pid = (int32_t)pid;
	if (pid && fsroot_read(root, comm, sizeof(comm), "proc/%u/comm", pid) > 0)
		snprintf(ret->peer.comm, sizeof(ret->peer.comm), "%.15s", comm);
	bus_manager_make_plain(ret->peer.comm, ' ');
	return ret->peer.uid == (uint32_t)-1 ? -EACCES : 0;
}

bool bus_caller_is_in(const struct bus_peer *peer, gid_t gid)
{
	if (gid == (gid_t)-1)
		return false;
	for (size_t i = 0; i < peer->n_groups; i++)
		if (peer->groups[i] == gid)
			return true;
	return false;
}
