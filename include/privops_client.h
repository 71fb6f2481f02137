/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * privops_client: the main process's end of the helper process. Its ops stand behind struct privops, its asker behind
 * struct fsroot, so that neither the sources nor the data plane know that somebody else does the work.
 *
 * Owner    the main thread.
 * Readers  any thread may ask; one request at a time, under a lock. A helper that hangs costs one of them
 *          PRIVOPS_CLIENT_WAIT_NS, and all after it fail at once until PRIVOPS_CLIENT_RETRY_NS have passed.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

#include "clock.h"
#include "privops.h"
#include "privops_wire.h"

#define PRIVOPS_CLIENT_START_NS (20 * NSEC_PER_SEC) /* for its first answer: it may have to be started */
#define PRIVOPS_CLIENT_WAIT_NS  (5 * NSEC_PER_SEC)
#define PRIVOPS_CLIENT_RETRY_NS NSEC_PER_SEC

struct privops_client {
	pthread_mutex_t lock;
	int fd;           /* -1: not connected */
	const char *path; /* where to connect again; NULL: over the lifeline */
	int lifeline;     /* over which the sockets of forked helpers come; -1: none */
	uid_t owner;      /* who must have made the socket at @path */
	uint64_t retry_ns;
	int error;  /* -errno of the last try; 0: it answers */
	int looked; /* what privops_client_look() said last; the main thread's own */
	struct fsroot_asker asker;
	struct privops_reply reply; /* of the request that runs */
};

/* @ctx is the client. */
extern const struct privops_ops privops_client_ops;

/*
 * Connect to the helper at @path, whose socket must be root's (@owner 0; tests say otherwise), and see that it is of
 * this build. 0, or -errno, the client then being of no use: -ENOENT, -ECONNREFUSED: there is none; -EPERM: somebody
 * else's socket; -EPROTONOSUPPORT: another version. @client is borrowed until privops_client_done().
 */
int privops_client_connect(struct privops_client *client, const char *path, uid_t owner);

/*
 * The same with a helper whose socket comes over @lifeline, as helper_keep() sends it, and so that of the next one when
 * it has ended. Takes it over in any case. -ECONNRESET: none comes.
 */
int privops_client_adopt(struct privops_client *client, int lifeline);

/* The sockets end. Not while another thread may ask. */
void privops_client_done(struct privops_client *client);

/*
 * Each second, main thread: is it there? Connects again where that is possible. 0 when it is there, else -errno.
 * Doesn't wait for a request of another thread.
 */
int privops_client_look(struct privops_client *client);
