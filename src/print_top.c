/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <assert.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "doc.h"
#include "print.h"
#include "print_top.h"
#include "stats.h"

#define LINE_MAX_BYTES  512
#define TOP_COLUMNS_MAX 7

const char *const top_by_name[TOP_BY_MAX] = {
	[TOP_BY_PROCESS] = "process",
	[TOP_BY_CGROUP] = "cgroup",
	[TOP_BY_REGION] = "region",
};

/* The same process in an earlier document; NULL: it wasn't known, or too small to be among those that are told. */
static const json_t *find_before(const json_t *before, const json_t *process)
{
	const json_t *one;
	size_t i;

	json_array_foreach (json_object_get(before, "processes"), i, one)
		if (doc_number(one, "pid") == doc_number(process, "pid"))
			return one;
	return NULL;
}

static json_t *process_row(const json_t *before, const json_t *process, double seconds)
{
	const json_t *was = find_before(before, process);
	uint64_t hot = doc_number(process, "hot_bytes"), then = was ? doc_number(was, "hot_bytes") : hot;

	return json_pack("{s:I, s:s, s:I, s:I, s:I, s:f}", "pid", (json_int_t)doc_number(process, "pid"), "name",
			 doc_text(process, "name"), "regions", (json_int_t)doc_number(process, "regions"), "bytes",
			 (json_int_t)doc_number(process, "bytes"), "hot_bytes", (json_int_t)hot, "hot_bytes_per_sec",
			 hot > then ? (double)(hot - then) / seconds : 0.0);
}

/* Add @row to that of its control group. */
static void add_to_group(json_t *groups, const char *name, const json_t *row)
{
	static const char *const sums[] = { "regions", "bytes", "hot_bytes" };
	json_t *group = NULL, *one;
	size_t i;

	json_array_foreach (groups, i, one)
		if (strcmp(doc_text(one, "cgroup"), name) == 0)
			group = one;
	if (!group) {
		group = json_pack("{s:s}", "cgroup", name);
		json_array_append_new(groups, group);
	}
	json_object_set_new(group, "processes", json_integer((json_int_t)doc_number(group, "processes") + 1));
	for (i = 0; i < sizeof(sums) / sizeof(sums[0]); i++)
		json_object_set_new(group, sums[i],
				    json_integer((json_int_t)(doc_number(group, sums[i]) + doc_number(row, sums[i]))));
	json_object_set_new(group, "hot_bytes_per_sec",
			    json_real(doc_real(group, "hot_bytes_per_sec") + doc_real(row, "hot_bytes_per_sec")));
}

struct sorted {
	json_t *row;
	size_t at; /* before */
};

struct order {
	const char *key;
	bool reversed;
};

/* "7f0012": addresses are sorted as the numbers that they are. */
static int compare_text(const char *key, const char *a, const char *b)
{
	size_t n = strlen(a), m = strlen(b);

	if (n != m && strcmp(key, "address") == 0)
		return n < m ? -1 : 1;
	return strcmp(a, b);
}

/* Numbers from the largest, truth first, words from A. */
static int compare(const void *x, const void *y, void *ctx)
{
	const struct sorted *a = x, *b = y;
	const struct order *order = ctx;
	const json_t *p = json_object_get(a->row, order->key), *q = json_object_get(b->row, order->key);
	int r;

	if (json_is_string(p) && json_is_string(q)) {
		r = compare_text(order->key, json_string_value(p), json_string_value(q));
	} else if (json_is_integer(p) && json_is_integer(q)) {
		r = (json_integer_value(p) < json_integer_value(q)) - (json_integer_value(p) > json_integer_value(q));
	} else if (json_is_number(p) && json_is_number(q)) {
		r = (json_number_value(p) < json_number_value(q)) - (json_number_value(p) > json_number_value(q));
	} else {
		r = json_is_true(q) - json_is_true(p);
	}
	if (r == 0)
		return a->at < b->at ? -1 : 1;
	return order->reversed ? -r : r;
}

static void sort(json_t *rows, const char *key, bool reversed)
{
	size_t n = json_array_size(rows);
	struct order order = { .key = key, .reversed = reversed };
	struct sorted *list = calloc(n + 1, sizeof(*list));

	if (!list)
		return;
	for (size_t i = 0; i < n; i++)
		list[i] = (struct sorted){ .row = json_incref(json_array_get(rows, i)), .at = i };
	qsort_r(list, n, sizeof(*list), compare, &order);
	for (size_t i = 0; i < n; i++)
		json_array_set_new(rows, i, list[i].row);
	free(list);
}

/* What the columns are called, and the fields that they show. */
static const struct column {
	const char *name, *key;
} columns[TOP_BY_MAX][TOP_COLUMNS_MAX] = {
	[TOP_BY_PROCESS] = {
		{ "PID", "pid" },
		{ "HOT/s", "hot_bytes_per_sec" },
		{ "HOT", "hot_bytes" },
		{ "REGIONS", "regions" },
		{ "TABLES", "bytes" },
		{ "PROCESS", "name" },
	},
	[TOP_BY_CGROUP] = {
		{ "PROCS", "processes" },
		{ "HOT/s", "hot_bytes_per_sec" },
		{ "HOT", "hot_bytes" },
		{ "REGIONS", "regions" },
		{ "TABLES", "bytes" },
		{ "CGROUP", "cgroup" },
	},
	[TOP_BY_REGION] = {
		{ "PID", "pid" },
		{ "SAMPLES/s", "rate_per_sec" },
		{ "PAGES", "pages" },
		{ "TIER", "far" },
		{ "DECIDED", "decided" },
		{ "ADDRESS", "address" },
		{ "PROCESS", "name" },
	},
};

unsigned int top_columns(enum top_by by)
{
	unsigned int n = 0;

	while (n < TOP_COLUMNS_MAX && columns[by][n].name)
		n++;
	return n;
}

const char *top_column(enum top_by by, unsigned int column)
{
	assert(column < top_columns(by));
	return columns[by][column].name;
}

void top_sort(json_t *rows, enum top_by by, unsigned int column, bool reversed)
{
	assert(column < top_columns(by));
	sort(rows, columns[by][column].key, reversed);
}

json_t *top_rows(const json_t *before, const json_t *after, double seconds, enum top_by by,
		 const char *(*cgroup)(void *ctx, unsigned long long pid), void *ctx)
{
	const json_t *processes = json_object_get(after, "processes"), *process;
	json_t *rows = json_array();
	size_t i;

	if (!json_is_array(processes)) {
		json_decref(rows);
		return NULL;
	}
	json_array_foreach (processes, i, process) {
		json_t *row = process_row(before, process, seconds);

		if (by == TOP_BY_CGROUP) {
			add_to_group(rows, cgroup(ctx, doc_number(process, "pid")), row);
			json_decref(row);
		} else {
			json_array_append_new(rows, row);
		}
	}
	/* The fastest, of them the hottest. */
	sort(rows, "hot_bytes", false);
	sort(rows, "hot_bytes_per_sec", false);
	return rows;
}

struct screen {
	FILE *out;
	bool colour;
	unsigned int width, rows_left;
};

__attribute__((format(printf, 3, 4))) static void line(struct screen *s, enum print_colour colour, const char *fmt, ...)
{
	char buf[LINE_MAX_BYTES];
	va_list ap;

	if (s->rows_left == 0)
		return;
	s->rows_left--;
	va_start(ap, fmt);
	vsnprintf(buf, sizeof(buf), fmt, ap);
	va_end(ap);
	print_plain(buf);
	if (s->width < sizeof(buf))
		buf[s->width] = '\0';
	print_coloured(s->out, s->colour, colour, buf);
	fputc('\n', s->out);
}

static double per_second(const json_t *before, const json_t *after, enum stat_id id, double seconds)
{
	const char *name = stat_info[id].name;
	uint64_t was = doc_number(json_object_get(before, "counters"), name);
	uint64_t is = doc_number(json_object_get(after, "counters"), name);

	return is > was ? (double)(is - was) / seconds : 0;
}

static void put_head(struct screen *s, const json_t *before, const json_t *status, double seconds)
{
	bool observing = strcmp(doc_text(status, "mode"), "observe") == 0;
	double bytes = per_second(before, status, observing ? STAT_WOULD_PROMOTE_BYTES : STAT_PROMOTED_BYTES, seconds);
	char rate[PRINT_SHORT_MAX], samples[PRINT_SHORT_MAX];

	line(s, PRINT_BOLD, "pghotd: %s; %s %s/s, %s samples/s", doc_text(status, "state"),
	     observing ? "would promote" : "promotes", print_bytes(rate, (uint64_t)bytes),
	     print_count(samples, (uint64_t)per_second(before, status, STAT_TOTAL, seconds)));
	line(s, PRINT_NORMAL, "limited by: %s",
	     *doc_text(status, "limiting") ? doc_text(status, "limiting") : "nothing");
}

static void put_processes(struct screen *s, const json_t *rows, bool groups)
{
	const struct column *title = columns[groups ? TOP_BY_CGROUP : TOP_BY_PROCESS];
	char tables[PRINT_SHORT_MAX], regions[PRINT_SHORT_MAX], hot[PRINT_SHORT_MAX], rate[PRINT_SHORT_MAX];
	const json_t *row;
	size_t i;

	line(s, PRINT_BOLD, "%8s %9s %9s %10s %9s  %s", title[0].name, title[1].name, title[2].name, title[3].name,
	     title[4].name, title[5].name);
	json_array_foreach (rows, i, row)
		line(s, PRINT_NORMAL, "%8llu %9s %9s %10s %9s  %s",
		     (unsigned long long)doc_number(row, groups ? "processes" : "pid"),
		     print_bytes(rate, (uint64_t)doc_real(row, "hot_bytes_per_sec")),
		     print_bytes(hot, doc_number(row, "hot_bytes")), print_count(regions, doc_number(row, "regions")),
		     print_bytes(tables, doc_number(row, "bytes")), doc_text(row, groups ? "cgroup" : "name"));
}

static void put_regions(struct screen *s, const json_t *rows)
{
	const struct column *title = columns[TOP_BY_REGION];
	const json_t *row;
	size_t i;

	line(s, PRINT_BOLD, "%8s %10s %6s %5s  %-8s %-16s %s", title[0].name, title[1].name, title[2].name,
	     title[3].name, title[4].name, title[5].name, title[6].name);
	json_array_foreach (rows, i, row) {
		const char *address = doc_text(row, "address"), *decided = doc_text(row, "decided");

		line(s, PRINT_NORMAL, "%8llu %10.3g %6llu %5s  %-8s %-16s %s",
		     (unsigned long long)doc_number(row, "pid"), doc_real(row, "rate_per_sec"),
		     (unsigned long long)doc_number(row, "pages"),
		     json_is_true(json_object_get(row, "far")) ? "slow" : "fast",
		     json_is_true(json_object_get(row, "done")) ? "done"
		     : *decided                                 ? decided
								: "-",
		     *address ? address : "not yours", doc_text(row, "name"));
	}
}

void print_top(FILE *out, const json_t *before, const json_t *status, double seconds, const json_t *rows,
	       enum top_by by, unsigned int width, unsigned int height, bool colour)
{
	struct screen s = { .out = out, .colour = colour, .width = width, .rows_left = height };

	put_head(&s, before, status, seconds);
	if (by == TOP_BY_REGION)
		put_regions(&s, rows);
	else
		put_processes(&s, rows, by == TOP_BY_CGROUP);
}
