/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <string.h>

#include "config_char.h"

size_t config_char_len(const char *p)
{
	size_t len = 1;

	while (((unsigned char)*p & 0xc0) == 0xc0 && len < 4 && ((unsigned char)p[len] & 0xc0) == 0x80)
		len++;
	return len;
}

size_t config_char_quote(const char *p)
{
	/* U+2018 to U+201F, U+2039, U+203A. */
	if (strncmp(p, "\xe2\x80", 2) == 0)
		return p[2] && strchr("\x98\x99\x9a\x9b\x9c\x9d\x9e\x9f\xb9\xba", p[2]) ? 3 : 0;
	if (strncmp(p, "\xc2\xab", 2) == 0 || strncmp(p, "\xc2\xb4", 2) == 0 || strncmp(p, "\xc2\xbb", 2) == 0)
		return 2;
	return *p == '\'' || *p == '`';
}

size_t config_char_word(const char *p, bool in_list)
{
	size_t len = 0;

	for (; p[len] && !strchr(" \t\r\n\f;(){}[]\"=#/", p[len]) && !config_char_quote(p + len); len++)
		if (p[len] == ',' && (in_list || !(p[len + 1] >= '0' && p[len + 1] <= '9')))
			break;
	return len;
}
