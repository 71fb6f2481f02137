/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * bus: the control socket, D-Bus by sd-bus on a private socket (as PID 1 has one): object /org/pghot1, interface
 * org.pghot1.Manager. Works with no broker. Root and one group may connect; the number of connections and the bytes of
 * a request are bounded.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <systemd/sd-event.h>

#define BUS_SOCKET_PATH     "/run/pghotd/bus"
#define BUS_OBJECT          "/org/pghot1"
#define BUS_INTERFACE       "org.pghot1.Manager"
#define BUS_CONNECTIONS_MAX 64
#define BUS_ERROR_MAX       512

/* Who asks; from SO_PEERCRED, so it can't be made up. */
struct bus_peer {
	uint32_t uid;
	int32_t pid;
};

/*
 * What the methods do; the daemon supplies it. All on the main thread. Functions that can refuse return 0 or -errno and
 * one line for the person in @error (BUS_ERROR_MAX bytes).
 */
struct bus_ops {
	char *(*status_json)(void *ctx); /* malloc'ed; NULL: no memory */
	char *(*options_json)(
		void *ctx); /* malloc'ed: [{key,type,unit,min,max,choices,default,value,origin,change,help}] */
	int (*set_option)(void *ctx, const struct bus_peer *peer, const char *key, const char *value, char *error);
	int (*reload)(void *ctx, const struct bus_peer *peer, char **ret_note,
		      char *error); /* @ret_note: malloc'ed, what was reverted, may be "" */
};

struct bus_server;

/*
 * Listen on @path (made anew, 0660 root:@group). Returns 0 or -errno: -EADDRINUSE when another daemon answers there. An
 * unknown group is not an error: then root alone, and it is logged. Main thread.
 */
int bus_server_new(sd_event *event, const char *path, const char *group, const struct bus_ops *ops, void *ctx,
		   struct bus_server **ret);
void bus_server_free(struct bus_server *server);
size_t bus_server_connections(const struct bus_server *server);
