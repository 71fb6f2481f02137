/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * print: numbers, times and lines for people, on a screen of 80 columns. Pure text: no descriptor, no clock, no
 * locale. What the screens are made of; print_status and print_options are the screens.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define PRINT_COLUMNS     80
#define PRINT_COLUMNS_MIN 20 /* what is narrower is written as if it weren't */
#define PRINT_ROWS        24 /* of a terminal; a screen leaves one for the prompt */

#define PRINT_SHORT_MAX 32 /* bytes that any of the short texts below fits in */

/* "0 B", "1023 B", "4.0 KiB", "1023 MiB", "1.5 GiB": at most 8 columns up to 2^63 bytes. Returns @buf. */
const char *print_bytes(char buf[PRINT_SHORT_MAX], uint64_t bytes);

/* "1,234,567". Returns @buf. */
const char *print_count(char buf[PRINT_SHORT_MAX], uint64_t n);

/* "0 seconds", "1 second", "90 seconds", "2 minutes", "3 hours", "40 days": rounded down. Returns @buf. */
const char *print_duration(char buf[PRINT_SHORT_MAX], uint64_t ns);

/* A bar of @columns (3..64), brackets included, filled by @part of @whole: "[####....]". Returns @buf. */
const char *print_bar(char buf[PRINT_SHORT_MAX * 3], unsigned int columns, uint64_t part, uint64_t whole);

/* Control characters and what is no ASCII become '?', so that a text from elsewhere can't drive the terminal. */
void print_plain(char *text);

enum print_colour {
	PRINT_NORMAL,
	PRINT_BOLD,
	PRINT_GOOD,
	PRINT_WARN,
	PRINT_BAD,
};

/* @text between the escapes of @colour; as it is when not @on. */
void print_coloured(FILE *out, bool on, enum print_colour colour, const char *text);

/*
 * Write @text in lines of at most PRINT_COLUMNS, broken at spaces (a longer word is cut), each but the first after
 * @indent spaces; the first starts at column @column. At most @rows lines: what is cut off ends in "..". Ends with a
 * newline. Returns the number of lines.
 */
unsigned int print_wrapped(FILE *out, unsigned int column, unsigned int indent, unsigned int rows, const char *text);

/*
 * The same in lines of at most @columns (PRINT_COLUMNS_MIN or more). @column and @indent leave 8 of them at least.
 */
unsigned int print_wrapped_at(FILE *out, unsigned int columns, unsigned int column, unsigned int indent,
			      unsigned int rows, const char *text);
