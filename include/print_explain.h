/* SPDX-License-Identifier: GPL-2.0-or-later */
/* print_explain: what is known of a process or a region, what was decided, why, and what would change it. Pure text. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

/*
 * Write @json, the daemon's answer to Explain, to @out in lines of PRINT_COLUMNS. 0, or -EINVAL when it isn't such a
 * document (nothing is written then).
 */
int print_explain(FILE *out, const char *json, bool colour);
