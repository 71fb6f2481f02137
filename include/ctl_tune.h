/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ctl_tune: what pghotctl tune and its --save share. For pghotctl's own files only; its one thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/*
 * The value of @key in @options, the document of report_options_json(), as text in @ret (@size bytes, cut). false: it
 * can't be had: of an alias, for example.
 */
bool ctl_tune_value(const char *options, const char *key, char *ret, size_t size);

/*
 * Set @key to @value and write it into the daemon's configuration file; with @value NULL what it is now; with @key NULL
 * all that was tuned. Both or neither: a file that can't be written leaves the daemon as it was, and a value that the
 * daemon refuses leaves the file. The exit status, after what there is to say.
 */
int ctl_save(const char *key, const char *value);
