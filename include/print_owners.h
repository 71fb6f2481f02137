/* SPDX-License-Identifier: GPL-2.0-or-later */
/* print_owners: who takes how much of the tables, for people. Pure text. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

/*
 * Write the processes in @json, the document of report_json(), to @out as a table, those first that take most of the
 * tables: lines of PRINT_COLUMNS. 0, or -EINVAL when it isn't such a document (nothing is written then).
 */
int print_owners(FILE *out, const char *json, bool colour);
