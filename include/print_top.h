/* SPDX-License-Identifier: GPL-2.0-or-later */
/* print_top: who has hot memory and how fast it is promoted, between two looks, for people. Pure text. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

enum top_by {
	TOP_BY_PROCESS,
	TOP_BY_CGROUP,
	TOP_BY_REGION,
	TOP_BY_MAX,
};

extern const char *const top_by_name[TOP_BY_MAX];

/*
 * The rows of a screen (a new reference; NULL: no memory, or not such documents), from two of report_json()'s documents
 * that are @seconds (more than 0) apart: {pid, name, regions, bytes (of the tables), hot_bytes, hot_bytes_per_sec}, the
 * fastest first, then the hottest. With TOP_BY_CGROUP summed by @cgroup(ctx, pid), as {cgroup, processes, and the
 * same}.
 */
json_t *top_rows(const json_t *before, const json_t *after, double seconds, enum top_by by,
		 const char *(*cgroup)(void *ctx, unsigned long long pid), void *ctx);

#define PRINT_TOP_TITLE 2 /* the line of a screen, from 0, that names the columns */

/* How many columns a screen has, and what column @column of them is called. */
unsigned int top_columns(enum top_by by);
const char *top_column(enum top_by by, unsigned int column);

#define TOP_COLUMN_FIRST 1 /* by which rows come sorted */

/*
 * Sort @rows as below by @column (less than top_columns()): numbers from the largest, words from A, or the other way
 * round if @reversed. What is equal keeps its order, as does all where there is no memory.
 */
void top_sort(json_t *rows, enum top_by by, unsigned int column, bool reversed);

/*
 * Write one screen to @out: a line on @status, report_json()'s document, with what changed since @before in @seconds,
 * and @rows: of top_rows(), or with TOP_BY_REGION "hottest" of the answer to GetHeat. At most @height lines (3 or more)
 * of @width columns (20 or more; what doesn't fit is cut off).
 */
void print_top(FILE *out, const json_t *before, const json_t *status, double seconds, const json_t *rows,
	       enum top_by by, unsigned int width, unsigned int height, bool colour);
