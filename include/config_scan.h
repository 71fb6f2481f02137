/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * config_scan: reads the text of a configuration before libconfig 1.5 does, by the same grammar, and refuses
 *
 *   - what that takes for something else without a word: an integer that does not fit 32 bits (5000000000 becomes
 *     705032704), a comment that is never closed (the rest of the file is gone), a \x00 in a text (the rest of the text
 *     is gone). "010" is left alone: it is ten, as it looks.
 *   - texts side by side outside of a list: it joins "0" "1" into "01" without a word, where two items were meant.
 *   - what is not wanted: @include (one file, so that its owner and mode can be checked), nesting without bound.
 *   - what that refuses with "syntax error" or "duplicate setting name" and no more; it also leaks memory then.
 *
 * Pure. Any thread.
 */
#pragma once

#include <stddef.h>

#define CONFIG_SCAN_TEXT_MAX 256

struct config_scan_fault {
	int line;                        /* from 1 */
	char text[CONFIG_SCAN_TEXT_MAX]; /* what is wrong and what to do, without file and line */
};

/* 0, or -EINVAL with the first fault in @ret. */
int config_scan(const char *text, struct config_scan_fault *ret);

/* Where a setting stands in the text, by bytes from its start. */
struct config_scan_setting {
	const char *key; /* dotted, from the top; valid during the call */
	int depth;       /* inside how many groups and lists; 0: at the top */
	size_t name;     /* where its name begins */
	size_t value;    /* where its value begins: behind the = or : and what follows that */
	size_t end;      /* behind the value, before a ; or , */
};

/* The same, and @fn for each setting, those of a group before the group itself. After -EINVAL some were told. */
int config_scan_settings(const char *text, void (*fn)(void *ctx, const struct config_scan_setting *setting), void *ctx,
			 struct config_scan_fault *ret);
