/* SPDX-License-Identifier: GPL-2.0-or-later */
/* print_status: the status document as one screen for people. Pure text. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

/*
 * Write the screen for @json, the document of report_json(), to @out: at most PRINT_ROWS - 1 lines of @columns
 * (PRINT_COLUMNS_MIN to PRINT_COLUMNS; more lines where these are shorter than PRINT_COLUMNS); what doesn't fit is in
 * the document. 0, or -EINVAL when it isn't such a document (nothing is written then). Keys that
 * are missing count as 0 and "", so that the document of another version shows what it can.
 */
int print_status(FILE *out, const char *json, unsigned int columns, bool colour);
