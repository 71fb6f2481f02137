/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * config_edit: values into the text of a configuration, where all that a person wrote round them stays: comments,
 * blanks, order. A key that stands there, by its own name or an alias, gets the new value; one that doesn't is added to
 * its group, and a group that is missing at the end. Pure.
 */
#pragma once

#include <stddef.h>

struct config;
struct option_info;

/*
 * @text with the @n @options as @values has them: a new text in *@ret (free it), the same as @text where it says so
 * already. What comes out was read again: it says the same as @text but for these options. @name stands for the file in
 * messages. 0; -EINVAL with one line in @error (CONFIG_ERROR_MAX bytes): @text is wrong already, or would be with these
 * values; -ENOMEM.
 */
int config_edit(const char *text, const char *name, const struct option_info *const *options, size_t n,
		const struct config *values, char **ret, char *error);
