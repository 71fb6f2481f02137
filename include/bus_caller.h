/* SPDX-License-Identifier: GPL-2.0-or-later */
/* bus_caller: who is behind a call that came by the system bus, as the bus itself says. Main thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <systemd/sd-bus.h>

#include "bus.h"
#include "fsroot.h"

#define BUS_CALLER_GROUPS_MAX 1024 /* more are left out */

struct bus_caller {
	struct bus_peer peer; /* its groups are those below; don't copy it */
	uint32_t groups[BUS_CALLER_GROUPS_MAX];
};

/*
 * From the reply to GetConnectionCredentials; the name of the process is from /proc below @root. 0; -EACCES: the bus
 * doesn't know whose the connection is; -EINVAL, -EBADMSG, -ENXIO: that is no such reply. Source: the D-Bus
 * specification, "org.freedesktop.DBus.GetConnectionCredentials".
 */
int bus_caller_read(sd_bus_message *reply, const struct fsroot *root, struct bus_caller *ret);

/* Is @gid one of its groups? (gid_t)-1 is nobody's. */
bool bus_caller_is_in(const struct bus_peer *peer, gid_t gid);
