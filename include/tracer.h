/* SPDX-License-Identifier: GPL-2.0-or-later */
/* tracer: who may see addresses of another process. Any thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fsroot.h"

/*
 * May a process of @uid, with one of @gids as its group, read the memory map of @pid, as ptrace(2) has it for access
 * mode PTRACE_MODE_READ_FSCREDS? Root may; else all of the process's four user ids must be @uid and its group ids one
 * of
 * @gids (its own, or all it is in: newgrp(1) makes any of those its own), and
 * it must be dumpable: its folder in /proc then belongs to its user, else to root (proc(5)). Capabilities of who asks
 * are not looked at: a peer's can't be had. false too when the process is gone.
 */
bool tracer_may(const struct fsroot *root, uint32_t uid, const uint32_t *gids, size_t n_gids, uint32_t pid);
