/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * helper_keep: root's part of pghotd --user: a process that does nothing but keep a helper running for the main
 * process, which has no rights to start another. The helper is a child of it; each gets a socket pair of its own, whose
 * other end goes to the main process over the lifeline, the one socket that those two share: a stream, of which each
 * byte carries one.
 */
#pragma once

#include <sys/types.h>

#include "clock.h"
#include "privops_answer.h"

#define HELPER_KEEP_TRIES     5 /* in a row, none of which lived for HELPER_KEEP_STEADY_NS */
#define HELPER_KEEP_STEADY_NS (60 * NSEC_PER_SEC)

/*
 * Start a helper that serves process @main_pid with @helper, and another one whenever it has ended, HELPER_KEEP_TRIES
 * times in a row at most. After that, and where none can be started, nothing more comes over @lifeline, which the other
 * side sees as its end. Returns when the other side is closed, no helper running any more. Logs what it does. In a
 * process of its own, with the rights that the helper is to have, and SIGCHLD as it is by default.
 */
void helper_keep(const struct privops_helper *helper, int lifeline, pid_t main_pid);
