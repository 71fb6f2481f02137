/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ctl_client: pghotctl's end of the control socket. Every call ends within a bounded time, also when the daemon is
 * stopped or hangs. Errors come as -errno and one line for the person, who can be told what to do. Not thread-safe.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define CTL_CLIENT_ERROR_MAX 768

struct ctl_client;

/*
 * Asked several times a second while a call waits; true: nobody wants its answer any more, and it ends with -ECANCELED.
 * NULL, unless a verb sets it.
 */
extern bool (*ctl_client_give_up)(void);

/*
 * Connect to the daemon at @path, or, where this user may not use that, to the one on the system bus, waiting for its
 * answers for @timeout_ms (1 ms..1 h) from now on, all calls together. 0, or with one line in @error
 * (CTL_CLIENT_ERROR_MAX bytes):
 *
 *     -ECONNREFUSED    no daemon there
 *     -EACCES          there is one, but this user may not use it
 *     -ETIMEDOUT       it doesn't answer
 *     -ECONNRESET      it takes no more clients, or went away
 *     -ECANCELED       see ctl_client_give_up
 *     other            this process or path can't
 */
int ctl_client_open(const char *path, uint64_t timeout_ms, struct ctl_client **ret, char *error);
void ctl_client_close(struct ctl_client *client); /* accepts NULL */

/* Version of the daemon. */
const char *ctl_client_version(const struct ctl_client *client);

/* Who listens there, as the kernel says; (uid_t)-1 where that isn't known: it doesn't say, or it is the system bus. */
uid_t ctl_client_daemon_uid(const struct ctl_client *client);

/*
 * Call @method. With @key not NULL the call has @key and @value as arguments. The text of the reply, "" if it has none,
 * is in *@ret (free it; @ret may be NULL). 0; -EREMOTEIO: the daemon refused, its sentence is in @error; -EACCES: the
 * same, since this user may only look (by the system bus); -ETIMEDOUT; -ECONNRESET; -ECANCELED; -ENOMEM.
 */
int ctl_client_call(struct ctl_client *client, const char *method, const char *key, const char *value, char **ret,
		    char *error);

/* The same of a method that takes one number and whose reply is empty. */
int ctl_client_call_number(struct ctl_client *client, const char *method, uint64_t number, char *error);
