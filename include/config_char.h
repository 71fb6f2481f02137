/* SPDX-License-Identifier: GPL-2.0-or-later */
/* config_char: lengths in the text of a configuration, in bytes of UTF-8, for config_scan. Pure; never past the end. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* How many bytes the character at @p has, as far as they are there. */
size_t config_char_len(const char *p);

/* Of a quotation mark other than ", as word processors and shells have them, its length; or 0. */
size_t config_char_quote(const char *p);

/* Length of what was meant as one word: 0-3,8 too, but no comma that ends a setting or an item. */
size_t config_char_word(const char *p, bool in_list);
