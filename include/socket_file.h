/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * socket_file: what must be done at a path before a Unix socket can be bound there: the folder is made, and the file of
 * a listener that is gone taken away. Blocking calls, and no state: any thread.
 */
#pragma once

#include <sys/un.h>

/* The address of @path. 0, or -ENAMETOOLONG. */
int socket_file_address(const char *path, struct sockaddr_un *ret);

/*
 * Make the folder that @path is in, mode 0755 whatever the umask; one that is there stays as it is. 0, -ENAMETOOLONG or
 * -errno of mkdir(2) and chmod(2).
 */
int socket_file_make_folder(const char *path);

/*
 * Remove the file of a socket of @type (SOCK_STREAM, SOCK_SEQPACKET) that nobody listens to any more. 0: nothing is
 * there now; -EADDRINUSE: somebody listens; -EEXIST: it is no socket, and stays; -errno.
 */
int socket_file_remove_dead(const struct sockaddr_un *address, int type);
