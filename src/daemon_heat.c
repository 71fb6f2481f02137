/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The map as a document. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "daemon_inspect.h"
#include "dataplane_inspect.h"
#include "evidence.h"
#include "report.h"
#include "sample.h"

#define NODE_BIT_LAST 63
#define ROWS_MAX      4096 /* that are compared for the hottest */
#define GAP_REGIONS   64   /* as policy_region.c: neighbours further apart belong to different mappings */
#define MILLI         1000

/* Neighbours in the sorted list that make one row. */
struct row {
	size_t first, n;
	double rate_per_sec;
};

static int by_place(const void *a, const void *b)
{
	const struct dataplane_region *x = a, *y = b;

	if (x->owner_slot != y->owner_slot)
		return x->owner_slot < y->owner_slot ? -1 : 1;
	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

static int by_rate(const void *a, const void *b)
{
	const struct dataplane_region *x = a, *y = b;

	if (x->rate_per_sec > y->rate_per_sec || x->rate_per_sec < y->rate_per_sec)
		return x->rate_per_sec > y->rate_per_sec ? -1 : 1;
	return by_place(a, b);
}

static int rows_by_rate(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	return x->rate_per_sec > y->rate_per_sec ? -1 : x->rate_per_sec < y->rate_per_sec;
}

static int rows_by_place(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	return x->first < y->first ? -1 : x->first > y->first;
}

static bool is_far(const struct dataplane_region *region, const struct heat_params *params)
{
	return region->nodes & params->lower_nodes && !(region->decision & REGION_DECISION_DONE);
}

/* Keep those that were seen on the node that is asked for. Returns how many. */
static size_t select_node(struct dataplane_region *regions, size_t n, int nid)
{
	size_t kept = 0;

	for (size_t i = 0; i < n; i++)
		if (nid < 0 || regions[i].nodes >> (nid < NODE_BIT_LAST ? nid : NODE_BIT_LAST) & 1)
			regions[kept++] = regions[i];
	return kept;
}

/* Rows of the sorted list, up to ROWS_MAX: what is behind them is in none. */
static size_t find_rows(const struct dataplane_region *regions, size_t n, const struct heat_params *params,
			struct row *rows)
{
	size_t n_rows = 0;

	for (size_t i = 0; i < n; i++) {
		bool begins = i == 0 || regions[i].owner_slot != regions[i - 1].owner_slot ||
			      (params->pid && regions[i].addr - regions[i - 1].addr > GAP_REGIONS * REGION_BYTES);

		if (begins && n_rows == ROWS_MAX)
			break;
		if (begins)
			rows[n_rows++] = (struct row){ .first = i };
		rows[n_rows - 1].n++;
		rows[n_rows - 1].rate_per_sec += regions[i].rate_per_sec;
	}
	qsort(rows, n_rows, sizeof(rows[0]), rows_by_rate);
	if (n_rows > HEAT_ROWS)
		n_rows = HEAT_ROWS;
	if (params->pid)
		qsort(rows, n_rows, sizeof(rows[0]), rows_by_place);
	return n_rows;
}

static json_t *make_cells(const struct dataplane_region *regions, const struct row *row,
			  const struct heat_params *params, size_t *ret_far)
{
	struct {
		size_t regions, far;
		double rate;
	} cells[HEAT_CELLS] = { 0 };
	const struct dataplane_region *first = &regions[row->first];
	uint64_t span = first[row->n - 1].addr - first->addr + REGION_BYTES;
	size_t n_cells = HEAT_CELLS;
	json_t *array = json_array();

	/* No cell is less than a region. */
	if (params->pid ? span / REGION_BYTES < n_cells : row->n < n_cells)
		n_cells = params->pid ? (size_t)(span / REGION_BYTES) : row->n;
	*ret_far = 0;
	for (size_t i = 0; i < row->n; i++) {
		size_t cell = params->pid ? (size_t)((first[i].addr - first->addr) / REGION_BYTES * n_cells /
						     (span / REGION_BYTES))
					  : i * n_cells / row->n;

		cells[cell].regions++;
		cells[cell].far += is_far(&first[i], params);
		cells[cell].rate += first[i].rate_per_sec;
		*ret_far += is_far(&first[i], params);
	}
	for (size_t i = 0; i < n_cells; i++)
		json_array_append_new(array, json_pack("[I, I, I]", (json_int_t)cells[i].regions,
						       (json_int_t)cells[i].far, (json_int_t)(cells[i].rate * MILLI)));
	return array;
}

static json_t *address(uint64_t addr, bool allowed)
{
	char text[32];

	/* As text: 64 bits are more than a double holds, which is what many readers take a number for. */
	snprintf(text, sizeof(text), "0x%llx", (unsigned long long)addr);
	return allowed ? json_string(text) : json_null();
}

static void name_of(const struct heat_params *params, uint32_t owner_slot, char comm[16])
{
	if (!params->name(params->ctx, owner_slot, comm))
		strcpy(comm, "?");
	comm[15] = '\0';
	for (unsigned char *p = (unsigned char *)comm; *p; p++)
		if (*p < 0x20 || *p > 0x7e)
			*p = '?';
}

static json_t *make_row(const struct dataplane_region *regions, const struct row *row, const struct heat_params *params)
{
	const struct dataplane_region *first = &regions[row->first];
	size_t far = 0;
	json_t *cells = make_cells(regions, row, params, &far);
	bool shown = params->pid != 0;
	char comm[16];

	name_of(params, first->owner_slot, comm);
	return json_pack("{s:I, s:s, s:o, s:o, s:I, s:I, s:f, s:o}", "pid", (json_int_t)first->pid, "name", comm,
			 "from", address(first->addr, shown), "to",
			 address(first[row->n - 1].addr + REGION_BYTES, shown), "regions", (json_int_t)row->n,
			 "far_regions", (json_int_t)far, "rate_per_sec", row->rate_per_sec, "cells", cells);
}

static const char *decided(uint32_t decision)
{
	switch (decision & REGION_DECISION_KIND) {
	case REGION_DECISION_WHOLE:
		return "whole";
	case REGION_DECISION_PAGES:
		return "pages";
	case REGION_DECISION_PICKED:
		return "picked";
	default:
		return "";
	}
}

static json_t *make_hottest(struct dataplane_region *regions, size_t n, const struct heat_params *params)
{
	json_t *array = json_array();
	char comm[16];

	qsort(regions, n, sizeof(regions[0]), by_rate);
	for (size_t i = 0; i < n && i < HEAT_LIST; i++) {
		const struct dataplane_region *r = &regions[i];

		name_of(params, r->owner_slot, comm);
		json_array_append_new(array,
				      json_pack("{s:I, s:s, s:o, s:f, s:i, s:I, s:I, s:b, s:s, s:b}", "pid",
						(json_int_t)r->pid, "name", comm, "address",
						address(r->addr, params->may_trace(params->ctx, r->pid)),
						"rate_per_sec", r->rate_per_sec, "pages", (int)r->pages, "page_bytes",
						(json_int_t)r->page_bytes, "idle_ns", (json_int_t)r->idle_ns, "far",
						is_far(r, params), "decided", decided(r->decision), "done",
						(r->decision & REGION_DECISION_DONE) != 0));
	}
	return array;
}

char *daemon_heat_json(struct dataplane_region *regions, size_t n, const struct heat_params *params)
{
	struct row *rows = calloc(ROWS_MAX, sizeof(*rows));
	json_t *list = json_array(), *hottest, *doc;
	char *text;
	size_t n_rows;

	if (!rows) {
		json_decref(list);
		return NULL;
	}
	n = select_node(regions, n, params->nid);
	qsort(regions, n, sizeof(regions[0]), by_place);
	n_rows = find_rows(regions, n, params, rows);
	for (size_t i = 0; i < n_rows; i++)
		json_array_append_new(list, make_row(regions, &rows[i], params));
	free(rows);
	hottest = make_hottest(regions, n, params);
	doc = json_pack("{s:i, s:I, s:i, s:I, s:I, s:o, s:o}", "schema", REPORT_SCHEMA, "pid", (json_int_t)params->pid,
			"node", params->nid, "parts", (json_int_t)params->parts, "regions", (json_int_t)n, "rows", list,
			"hottest", hottest);
	text = doc ? json_dumps(doc, JSON_COMPACT | JSON_REAL_PRECISION(6)) : NULL;
	json_decref(doc);
	return text;
}
