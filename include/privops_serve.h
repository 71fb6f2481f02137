/* SPDX-License-Identifier: GPL-2.0-or-later */
/* privops_serve: the helper process: takes requests from sockets, and answers them one after another. */
#pragma once

#include <sys/types.h>

#include "privops_answer.h"

#define PRIVOPS_CLIENTS_MAX 8

struct privops_serve_params {
	struct privops_helper helper;
	int listen_fd;     /* SOCK_SEQPACKET, listening; -1: none */
	int conn_fd;       /* of the one client that there will be; -1: none */
	uint32_t conn_pid; /* who that is; 0: who made the socket */
	uid_t uid;         /* who may ask, beside root: by SO_PEERCRED. A @conn_fd isn't asked who it is */
	int idle_ms;       /* end when nobody is connected any more for that long; -1: never */
};

/*
 * Serve until everybody is gone (@conn_fd) or for @idle_ms. A client that doesn't read its answers is dropped, and one
 * beyond PRIVOPS_CLIENTS_MAX is too. 0 or -errno when it can't wait for requests. Takes over both descriptors.
 */
int privops_serve(const struct privops_serve_params *params);

/*
 * Bind and listen at @path for @gid: mode 0660, a socket file that nobody listens at is replaced, a missing folder made
 * (0755). A descriptor or -errno; -EADDRINUSE when somebody listens there.
 */
int privops_serve_listen(const char *path, gid_t gid);
