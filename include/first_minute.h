/* SPDX-License-Identifier: GPL-2.0-or-later */
/* first_minute: what pghotd says to someone who runs it for the first time on a tiered server. Changes nothing, moves
 * nothing. */
#pragma once

struct daemon_options;

/* Observe for options->run_for_ns, then print what was found, what would be moved and what to do next. Returns an exit
 * status. Main thread. */
int first_minute_run(const struct daemon_options *options);
