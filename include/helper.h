/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * helper: who has which rights when pghotd starts. Three ways:
 *
 *   as a user that may connect to the helper's socket: systemd made both; the main process gives up CAP_PERFMON, which
 *     it doesn't need then
 *   as root with --user: the helper is forked off, and the main process becomes that user
 *   else: it does everything itself, with whatever rights it was given
 *
 * Before there are threads.
 */
#pragma once

#include "daemon.h"

/* Connect to, or make, the helper. 0 with @options->helper set or NULL, else an exit status, which has been said. */
int helper_set_up(struct daemon_options *options);

/* Be the helper, at the socket that systemd hands over or else at @options->helper_path. An exit status. */
int helper_run(const struct daemon_options *options);

/* Ask the helper at @path to put back settings. 0 or -errno: -ENOENT when there is none. */
int helper_restore(const char *path, struct privops_restored *ret);
