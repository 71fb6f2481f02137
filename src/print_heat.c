/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "doc.h"
#include "print.h"
#include "print_heat.h"

#define ROWS_MAX    16
#define CELLS_MAX   64
#define NAME_MAX    15
#define LEVELS      4   /* beside "known, but nothing lately" */
#define OCTAVES     8.0 /* from the hottest cell down to the palest: a factor of 256 */
#define CELL_WIDTH  10  /* of the picture */
#define CELL_HEIGHT 20
#define LEFT_WIDTH  220
#define TOP_HEIGHT  50

struct cell {
	uint64_t regions, far;
	double rate; /* samples a second, of a region */
};

struct heat_row {
	uint64_t pid, regions, far;
	double rate_per_sec;
	char name[NAME_MAX + 1];
	char from[24], to[24]; /* "": not shown */
	size_t n_cells;
	struct cell cells[CELLS_MAX];
};

struct heat_doc {
	uint64_t pid, parts, regions;
	long long node;
	double hottest; /* of all cells */
	size_t n_rows;
	struct heat_row rows[ROWS_MAX];
};

static void copy_text(const json_t *object, const char *key, char *buf, size_t size)
{
	const char *value = json_string_value(json_object_get(object, key));

	snprintf(buf, size, "%s", value ? value : "");
	print_plain(buf);
}

static void read_row(const json_t *json, struct heat_row *row, double *hottest)
{
	const json_t *cells = json_object_get(json, "cells"), *cell;
	size_t i;

	*row = (struct heat_row){
		.pid = doc_number(json, "pid"),
		.regions = doc_number(json, "regions"),
		.far = doc_number(json, "far_regions"),
		.rate_per_sec = json_number_value(json_object_get(json, "rate_per_sec")),
	};
	copy_text(json, "name", row->name, sizeof(row->name));
	copy_text(json, "from", row->from, sizeof(row->from));
	copy_text(json, "to", row->to, sizeof(row->to));
	json_array_foreach (cells, i, cell) {
		json_int_t regions = json_integer_value(json_array_get(cell, 0));
		json_int_t far = json_integer_value(json_array_get(cell, 1));
		json_int_t rate = json_integer_value(json_array_get(cell, 2));
		struct cell *c = &row->cells[i];

		if (i == CELLS_MAX)
			break;
		row->n_cells = i + 1;
		if (regions <= 0)
			continue;
		c->regions = (uint64_t)regions;
		c->far = far > 0 ? (uint64_t)far : 0;
		c->rate = rate > 0 ? (double)rate / 1000 / (double)regions : 0;
		if (c->rate > *hottest)
			*hottest = c->rate;
	}
}

static int read_doc(const char *json, struct heat_doc *ret)
{
	json_t *doc = json_loads(json, 0, NULL);
	const json_t *rows = json_object_get(doc, "rows"), *row, *node = json_object_get(doc, "node");
	size_t i;

	if (!json_is_array(rows) || !json_is_integer(node)) {
		json_decref(doc);
		return -EINVAL;
	}
	*ret = (struct heat_doc){
		.pid = doc_number(doc, "pid"),
		.parts = doc_number(doc, "parts"),
		.regions = doc_number(doc, "regions"),
		.node = json_integer_value(node),
	};
	json_array_foreach (rows, i, row) {
		if (i == ROWS_MAX)
			break;
		read_row(row, &ret->rows[ret->n_rows++], &ret->hottest);
	}
	json_decref(doc);
	return 0;
}

/* 0: nothing known; 1: known, nothing lately; 2..LEVELS + 1: by octaves below the hottest. */
static unsigned int level_of(const struct cell *cell, double hottest)
{
	double below;

	if (cell->regions == 0)
		return 0;
	if (cell->rate <= 0 || hottest <= 0)
		return 1;
	below = log2(hottest / cell->rate) / OCTAVES * LEVELS;
	return below >= LEVELS ? 2 : LEVELS + 1 - (unsigned int)below;
}

/* Mostly on a slow node: that is what promotion is about. */
static bool is_far(const struct cell *cell)
{
	return cell->far * 2 > cell->regions;
}

static void put_cell(FILE *out, const struct cell *cell, double hottest, const struct print_heat_style *style)
{
	static const char *const ascii_near[] = { " ", ".", "-", "=", "%", "#" };
	static const char *const ascii_far[] = { " ", ",", "1", "2", "3", "4" };
	static const char *const blocks[] = { " ", "\u00b7", "\u2591", "\u2592", "\u2593", "\u2588" };
	unsigned int level = level_of(cell, hottest);

	/* Without colours the signs tell slow from fast. */
	if (style->colour)
		print_coloured(out, true,
			       level < 2      ? PRINT_NORMAL
			       : is_far(cell) ? PRINT_BAD
					      : PRINT_GOOD,
			       (style->utf8 ? blocks : ascii_near)[level]);
	else
		fputs((is_far(cell) ? ascii_far : style->utf8 ? blocks : ascii_near)[level], out);
}

static void put_head(FILE *out, const struct heat_doc *doc)
{
	char n[PRINT_SHORT_MAX];

	fprintf(out, "%s regions of 2 MiB", print_count(n, doc->regions));
	if (doc->pid)
		fprintf(out, " of pid %llu", (unsigned long long)doc->pid);
	if (doc->node >= 0)
		fprintf(out, " seen on node %lld", doc->node);
	if (doc->parts > 1)
		fprintf(out, ", one in %s of all", print_count(n, doc->parts));
	fputs("\n\n", out);
}

static void put_rows(FILE *out, const struct heat_doc *doc, const struct print_heat_style *style)
{
	char label[32];

	for (size_t i = 0; i < doc->n_rows; i++) {
		const struct heat_row *row = &doc->rows[i];

		/* "0x" is said by the column. */
		if (row->from[0])
			snprintf(label, sizeof(label), "%.14s", row->from + 2);
		else
			snprintf(label, sizeof(label), "%.*s %llu", row->pid > 999999 ? 6 : 7, row->name,
				 (unsigned long long)row->pid);
		fprintf(out, "%14.14s ", label);
		for (size_t c = 0; c < row->n_cells; c++)
			put_cell(out, &row->cells[c], doc->hottest, style);
		fputc('\n', out);
	}
}

static void put_legend(FILE *out, const struct heat_doc *doc, const struct print_heat_style *style)
{
	if (doc->n_rows == 0) {
		fputs("Nothing is known yet, or nothing was touched for two minutes.\n", out);
		return;
	}
	fprintf(out, "\n%s: on %s; the hottest has %.3g samples a second to a region,\n",
		style->colour ? "red" : "1234", "a slow node", doc->hottest);
	fprintf(out, "each step %s is a quarter of the one above it.\n",
		style->colour ? "of the shade"
		: style->utf8 ? "of 1234 and \u2591\u2592\u2593\u2588"
			      : "of 1234 and -=%#");
}

int print_heat(FILE *out, const char *json, const struct print_heat_style *style)
{
	static struct heat_doc doc;
	int r = read_doc(json, &doc);

	if (r < 0)
		return r;
	put_head(out, &doc);
	put_rows(out, &doc, style);
	put_legend(out, &doc, style);
	return 0;
}

/* For the text of an element and of an attribute. */
static void put_xml(FILE *out, const char *text)
{
	for (; *text; text++) {
		switch (*text) {
		case '&':
			fputs("&amp;", out);
			break;
		case '<':
			fputs("&lt;", out);
			break;
		case '>':
			fputs("&gt;", out);
			break;
		case '"':
			fputs("&quot;", out);
			break;
		default:
			fputc(*text, out);
		}
	}
}

/* From pale to dark, also told apart by who sees no red or green: orange is slow, blue is fast. */
static const char *const far[] = { "#ffffff", "#f3eee6", "#fdd9a6", "#fdae61", "#e66101", "#993d00" };
static const char *const near[] = { "#ffffff", "#e9eef3", "#c6dbef", "#6baed6", "#2171b5", "#08306b" };

#define SHADES (sizeof(far) / sizeof(far[0]))

/* What the darkest shade stands for, below the map. */
static void put_svg_legend(FILE *out, const struct heat_doc *doc)
{
	size_t y = TOP_HEIGHT + doc->n_rows * (CELL_HEIGHT + 4) + 10, x = LEFT_WIDTH;

	fprintf(out, "<text x=\"%d\" y=\"%zu\" text-anchor=\"end\" fill=\"#555\">cooler</text>\n", LEFT_WIDTH - 10,
		y + CELL_HEIGHT - 5);
	for (size_t i = 1; i < SHADES; i++, x += CELL_WIDTH)
		fprintf(out,
			"<rect x=\"%zu\" y=\"%zu\" width=\"%d\" height=\"%d\" fill=\"%s\"/>"
			"<rect x=\"%zu\" y=\"%zu\" width=\"%d\" height=\"%d\" fill=\"%s\"/>\n",
			x, y, CELL_WIDTH, CELL_HEIGHT / 2, far[i], x, y + CELL_HEIGHT / 2, CELL_WIDTH, CELL_HEIGHT / 2,
			near[i]);
	fprintf(out, "<text x=\"%zu\" y=\"%zu\" fill=\"#555\">hottest: %.3g samples a second in a region</text>\n",
		x + 10, y + CELL_HEIGHT - 5, doc->hottest);
}

static void put_svg_row(FILE *out, const struct heat_doc *doc, size_t i)
{
	const struct heat_row *row = &doc->rows[i];
	size_t y = TOP_HEIGHT + i * (CELL_HEIGHT + 4);

	fprintf(out, "<text x=\"%d\" y=\"%zu\" text-anchor=\"end\">", LEFT_WIDTH - 10, y + CELL_HEIGHT - 5);
	if (row->from[0])
		put_xml(out, row->from);
	else
		put_xml(out, row->name);
	fprintf(out, " %s%llu</text>\n", row->from[0] ? "of " : "", (unsigned long long)row->pid);
	for (size_t c = 0; c < row->n_cells; c++) {
		const struct cell *cell = &row->cells[c];

		fprintf(out,
			"<rect x=\"%zu\" y=\"%zu\" width=\"%d\" height=\"%d\" fill=\"%s\"><title>%llu regions, %llu on "
			"a "
			"slow node, %.3g samples a second each</title></rect>\n",
			LEFT_WIDTH + c * CELL_WIDTH, y, CELL_WIDTH, CELL_HEIGHT,
			(is_far(cell) ? far : near)[level_of(cell, doc->hottest)], (unsigned long long)cell->regions,
			(unsigned long long)cell->far, cell->rate);
	}
}

int print_heat_svg(FILE *out, const char *json)
{
	static struct heat_doc doc;
	size_t width = LEFT_WIDTH + CELLS_MAX * CELL_WIDTH + 20, height;
	int r = read_doc(json, &doc);

	if (r < 0)
		return r;
	height = TOP_HEIGHT + doc.n_rows * (CELL_HEIGHT + 4) + 40;
	fprintf(out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%zu\" height=\"%zu\" viewBox=\"0 0 %zu %zu\" "
		"font-family=\"sans-serif\" font-size=\"13\">\n"
		"<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n"
		"<text x=\"10\" y=\"20\" font-size=\"15\">Hot memory: ",
		width, height, width, height);
	fprintf(out, "%llu regions of 2 MiB", (unsigned long long)doc.regions);
	if (doc.node >= 0)
		fprintf(out, " seen on node %lld", doc.node);
	fputs("</text>\n<text x=\"10\" y=\"38\" fill=\"#555\">orange: on a slow node; blue: on a fast one; darker is "
	      "hotter, each shade four times the one before</text>\n",
	      out);
	for (size_t i = 0; i < doc.n_rows; i++)
		put_svg_row(out, &doc, i);
	if (doc.n_rows > 0)
		put_svg_legend(out, &doc);
	else
		fprintf(out, "<text x=\"10\" y=\"%d\">nothing is known yet</text>\n", TOP_HEIGHT + 20);
	fputs("</svg>\n", out);
	return 0;
}
