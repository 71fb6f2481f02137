/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * bus: the control socket, D-Bus by sd-bus on a private socket (as PID 1 has one): object /org/pghot1, interface
 * org.pghot1.Manager. Works with no broker. Root and one group may connect; the number of connections, the bytes of a
 * request and what is kept for a client that doesn't read are bounded.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <systemd/sd-event.h>

#define BUS_SOCKET_PATH     "/run/pghotd/bus"
#define BUS_OBJECT          "/org/pghot1"
#define BUS_INTERFACE       "org.pghot1.Manager"
#define BUS_CONNECTIONS_MAX 64
#define BUS_ERROR_MAX       512
#define BUS_PATIENCE_NS     (30ULL * 1000000000ULL)

/* Of these errors the client is told the sentence, and the name so that a program can tell them apart. */
#define BUS_ERROR_INVALID       "org.pghot1.Error.InvalidValue"  /* -EINVAL, -ERANGE */
#define BUS_ERROR_UNKNOWN       "org.pghot1.Error.UnknownOption" /* -ENOENT */
#define BUS_ERROR_NEEDS_RESTART "org.pghot1.Error.NeedsRestart"  /* -EBUSY */
#define BUS_ERROR_NOT_ALLOWED   "org.pghot1.Error.NotAllowed"    /* -EPERM, -EACCES */
#define BUS_ERROR_NO_MEMORY     "org.pghot1.Error.NoMemory"      /* -ENOMEM */
#define BUS_ERROR_FAILED        "org.pghot1.Error.Failed"        /* any other */

/*
 * Who asks. uid, gid and pid are from SO_PEERCRED, or from the system bus, so they can't be made up; comm is what the
 * process calls itself.
 */
struct bus_peer {
	uint32_t uid,
		gid; /* gid (uint32_t)-1: by the system bus, which tells all groups and not which is the primary */
	const uint32_t *groups; /* all of them, where the system bus tells; for the time of the call */
	size_t n_groups;
	int32_t pid;   /* 0: unknown */
	char comm[16]; /* printable ASCII, when it connected; "?": unknown */
};

enum bus_question {
	BUS_EXPLAIN,
	BUS_HEAT,
};

/*
 * What the methods do; the daemon supplies it. All on the main thread. Functions that can refuse return 0 or -errno and
 * one line for the person in @error (BUS_ERROR_MAX bytes).
 */
struct bus_ops {
	char *(*status_json)(void *ctx);  /* malloc'ed; NULL: no memory */
	char *(*options_json)(void *ctx); /* malloc'ed, see report_options_json(); NULL: no memory */
	int (*set_option)(void *ctx, const struct bus_peer *peer, const char *key, const char *value, char *error);
	int (*reload)(void *ctx, const struct bus_peer *peer, char **ret_note,
		      char *error); /* @ret_note: malloc'ed, what was reverted, lines; may be "" or NULL */
	/*
	 * A question with two words, "" for what isn't asked: EXPLAIN pid, address; HEAT pid, node. Its answer is a
	 * JSON document in *@ret, malloc'ed. NULL: there are no answers here. What it tells of a process's addresses is
	 * for who may trace it.
	 */
	int (*ask)(void *ctx, const struct bus_peer *peer, enum bus_question question, const char *first,
		   const char *second, char **ret, char *error);
	/* For @for_ns, 0: until resume(). */
	int (*pause)(void *ctx, const struct bus_peer *peer, uint64_t for_ns, char *error);
	/* @ret_note: malloc'ed, what there is to say beside "done"; may be NULL. */
	int (*resume)(void *ctx, const struct bus_peer *peer, char **ret_note, char *error);
	/* What the configuration file says has become what somebody tuned. */
	int (*note_file)(void *ctx, const struct bus_peer *peer, char *error);
	const char *(*state)(void *ctx); /* what properties State and Mode say; NULL: "" */
	const char *(*mode)(void *ctx);
	const char *version; /* what property Version says; NULL: the version of this build */
};

struct bus_server;

/* The group of that name, (gid_t)-1 when there is none. Asks the system's user database. */
gid_t bus_find_group(const char *name);

/*
 * Listen on @path (made anew, 0660 root:@group, its folder 0755 if it has to be made). The socket of a daemon that is
 * gone is replaced. Returns 0 or -errno: -EADDRINUSE when another daemon answers there, -EEXIST when what is there is
 * no socket, -ENAMETOOLONG (107 bytes fit). An unknown group is not an error: then root alone, and it is logged. May
 * come and connect: root, members of @group (primary or supplementary), the daemon's own user. Main thread.
 */
int bus_server_new(sd_event *event, const char *path, const char *group, const struct bus_ops *ops, void *ctx,
		   struct bus_server **ret);
/* Drops all connections and removes the socket, unless another has taken its place. Accepts NULL. */
void bus_server_free(struct bus_server *server);

size_t bus_server_connections(const struct bus_server *server);
/* Turned away since the start: too many at once, or not allowed. */
uint64_t bus_server_refused(const struct bus_server *server);
/* Dropped since the start: broke the protocol, asked for too much, or used up the patience. */
uint64_t bus_server_dropped(const struct bus_server *server);

/*
 * How long a client may take for its handshake, and for a request and the reading of its reply, before it is dropped.
 * BUS_PATIENCE_NS unless told; for connections to come. An idle connection between two requests may stay.
 */
void bus_server_set_patience_ns(struct bus_server *server, uint64_t ns);
