/* SPDX-License-Identifier: GPL-2.0-or-later */
/* print_options: the options as a table, or one of them in full, for people. Pure text. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

/*
 * Write the options in @json, the document of report_options_json(), to @out: the one whose key is @key in full, else
 * all whose key contains @key as a table, all with @key NULL. Lines of PRINT_COLUMNS. Returns how many there were, or
 * -EINVAL when it isn't such a document.
 */
int print_options(FILE *out, const char *json, const char *key, bool colour);
