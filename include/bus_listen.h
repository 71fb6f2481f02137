/* SPDX-License-Identifier: GPL-2.0-or-later */
/* bus_listen: the socket that bus listens on: made, guarded against a second daemon, and taken away again. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/*
 * As many may wait to be let in, one after the other: no more than are dealt with in a moment, also if all have hung up
 * by then. Who comes beyond that is told to try again (EAGAIN), which pghotctl does for as long as it waits.
 */
#define BUS_LISTEN_BACKLOG 128

struct bus_listen {
	int fd;
	int lock_fd; /* PATH.lock, held as long as we listen; a daemon that dies lets go of it */
	dev_t dev;   /* of the socket's file, to know it again */
	ino_t ino;
	bool shared; /* the group got it; else the owner alone may connect */
};

/*
 * Listen on @path, non-blocking, for the owner (root, if we are) and @gid, (gid_t)-1: for the owner alone. When the
 * group can't be given the socket, @ret->shared is false and that is no error. Returns 0 or -errno: -EADDRINUSE: a
 * daemon is there already; -EEXIST: @path is no socket; -ENAMETOOLONG; -EACCES and the like from the file system.
 */
int bus_listen_open(struct bus_listen *ret, const char *path, gid_t gid);

/* Stop listening and remove @path if it is still this socket. The lock's file stays: removing it would race. */
void bus_listen_close(struct bus_listen *listen, const char *path);

/*
 * Does a daemon that runs listen at @path, or is it about to? By its lock, so a daemon that hangs counts, too. Any
 * thread; any process that may read the lock file.
 */
bool bus_listen_is_taken(const char *path);
