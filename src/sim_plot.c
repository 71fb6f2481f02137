/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cleanup.h"
#include "sim_plot.h"
#include "sim_result.h"

/* In pixels. */
#define WIDTH  780
#define HEIGHT 352
#define LEFT   56
#define RIGHT  146 /* for the labels at the lines' ends */
#define TOP    64
#define BOTTOM 44

#define POINTS_MAX   200 /* of a line: more than that can't be told apart */
#define LABEL_HEIGHT 15

/* The picture's own scale. */
struct frame {
	FILE *to;
	const struct sim_result *result;
	double t_max, y_max;
};

/* One line; the colours can be told apart by the colour-blind, and without colour by their labels. */
struct line {
	const char *label, *colour, *dash;
	double (*value)(const struct sim_point *point);
	double label_y;
};

static double coverage_of(const struct sim_point *p)
{
	return p->coverage;
}

static double decided_of(const struct sim_point *p)
{
	return p->decided;
}

static double over_of(const struct sim_point *p)
{
	return p->over_promotion;
}

static double hits_of(const struct sim_point *p)
{
	return p->hit_ratio;
}

static double x_of(const struct frame *f, double t)
{
	return LEFT + (WIDTH - LEFT - RIGHT) * t / f->t_max;
}

static double y_of(const struct frame *f, double value)
{
	return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / f->y_max;
}

/* Text that may hold what means something in XML. */
static void put_text(FILE *to, const char *text)
{
	for (; *text; text++) {
		switch (*text) {
		case '<':
			fputs("&lt;", to);
			break;
		case '>':
			fputs("&gt;", to);
			break;
		case '&':
			fputs("&amp;", to);
			break;
		default:
			fputc((unsigned char)*text < ' ' ? ' ' : *text, to);
		}
	}
}

/* 1, 2 or 5 times a power of ten, so that there are five to ten of them. */
static double tick_step(double max)
{
	double step = pow(10, floor(log10(max))) / 10;

	while (max / step > 10)
		step *= max / step > 50 ? 10 : max / step > 20 ? 5 : 2;
	return step;
}

static void draw_axes(const struct frame *f)
{
	double t_step = tick_step(f->t_max), y_step = f->y_max > 1 ? tick_step(f->y_max) : 0.25;

	for (double y = 0; y <= f->y_max * 1.0001; y += y_step) {
		fprintf(f->to, "<line x1='%d' y1='%.1f' x2='%d' y2='%.1f' stroke='#ddd'/>\n", LEFT, y_of(f, y),
			WIDTH - RIGHT, y_of(f, y));
		fprintf(f->to, "<text x='%d' y='%.1f' text-anchor='end'>%.0f%%</text>\n", LEFT - 8, y_of(f, y) + 4,
			100 * y);
	}
	for (double t = 0; t <= f->t_max * 1.0001; t += t_step) {
		fprintf(f->to, "<line x1='%.1f' y1='%d' x2='%.1f' y2='%d' stroke='#999'/>\n", x_of(f, t),
			HEIGHT - BOTTOM, x_of(f, t), HEIGHT - BOTTOM + 5);
		fprintf(f->to, "<text x='%.1f' y='%d' text-anchor='middle'>%g s</text>\n", x_of(f, t),
			HEIGHT - BOTTOM + 20, t);
	}
	fprintf(f->to, "<line x1='%d' y1='%d' x2='%d' y2='%d' stroke='#999'/>\n", LEFT, HEIGHT - BOTTOM, WIDTH - RIGHT,
		HEIGHT - BOTTOM);
}

static void draw_line(const struct frame *f, const struct line *line)
{
	const struct sim_result *r = f->result;
	size_t every = r->n_series / POINTS_MAX + 1;

	fprintf(f->to, "<polyline fill='none' stroke='%s' stroke-width='2' stroke-dasharray='%s' points='",
		line->colour, line->dash);
	for (size_t i = 0; i < r->n_series; i += every)
		fprintf(f->to, "%.0f,%.1f ", x_of(f, r->series[i].t), y_of(f, line->value(&r->series[i])));
	fprintf(f->to, "'/>\n");
}

static int by_height(const void *a, const void *b)
{
	const struct line *const *one = a, *const *other = b;

	return ((*one)->label_y > (*other)->label_y) - ((*one)->label_y < (*other)->label_y);
}

/* Beside the ends of the lines, moved apart where they would lie on each other, and up again from the bottom. */
static void draw_labels(const struct frame *f, struct line *lines, size_t n)
{
	const struct sim_point *last = &f->result->series[f->result->n_series - 1];
	double bottom = HEIGHT - BOTTOM;
	struct line *order[8];

	for (size_t i = 0; i < n; i++) {
		lines[i].label_y = y_of(f, lines[i].value(last));
		order[i] = &lines[i];
	}
	qsort(order, n, sizeof(*order), by_height);
	for (size_t i = 1; i < n; i++)
		order[i]->label_y = fmax(order[i]->label_y, order[i - 1]->label_y + LABEL_HEIGHT);
	for (size_t i = n; i-- > 0; bottom = order[i]->label_y - LABEL_HEIGHT)
		order[i]->label_y = fmin(order[i]->label_y, bottom);
	for (size_t i = 0; i < n; i++)
		fprintf(f->to, "<text x='%d' y='%.1f' fill='%s'>%s %.1f%%</text>\n", WIDTH - RIGHT + 8,
			order[i]->label_y + 4, order[i]->colour, order[i]->label, 100 * order[i]->value(last));
}

/* What can be reached: a level for the hit ratio. */
static void draw_level(const struct frame *f, double value, const char *label)
{
	fprintf(f->to, "<line x1='%d' y1='%.1f' x2='%d' y2='%.1f' stroke='#009e73' stroke-dasharray='1 4'/>\n", LEFT,
		y_of(f, value), WIDTH - RIGHT, y_of(f, value));
	fprintf(f->to, "<text x='%d' y='%.1f' fill='#009e73' font-size='10'>%s %.1f%%</text>\n", LEFT + 4,
		y_of(f, value) - 3, label, 100 * value);
}

static void draw(const struct frame *f, const char *title)
{
	const struct sim_result *r = f->result;
	struct line lines[] = {
		{ "decided", "#56b4e9", "5 3", decided_of, 0 },
		{ "hot set near", "#0072b2", "", coverage_of, 0 },
		{ "near accesses", "#009e73", "", hits_of, 0 },
		{ "moved in vain", "#d55e00", "", over_of, 0 },
	};

	fprintf(f->to,
		"<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' viewBox='0 0 %d %d' "
		"font-family='sans-serif' font-size='12'>\n"
		"<rect width='%d' height='%d' fill='#fff'/>\n<text x='%d' y='20' font-size='14' font-weight='bold'>",
		WIDTH, HEIGHT, WIDTH, HEIGHT, WIDTH, HEIGHT, LEFT);
	put_text(f->to, title[0] ? title : r->scenario);
	fprintf(f->to, "</text>\n<text x='%d' y='38' fill='#555'>", LEFT);
	put_text(f->to, r->scenario);
	fprintf(f->to,
		", policy &quot;%s&quot;, seed %lld: hot set %.2f GiB, moved %.2f GiB, %.2f times the speed</text>\n",
		r->policy, (long long)r->seed, (double)r->hot_bytes / 0x1p30, (double)r->moved_bytes / 0x1p30,
		r->speedup);
	draw_axes(f);
	draw_level(f, r->oracle_hit_ratio, "near accesses at best:");
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		draw_line(f, &lines[i]);
	draw_labels(f, lines, sizeof(lines) / sizeof(lines[0]));
	fprintf(f->to, "</svg>\n");
}

int sim_plot_write(const struct sim_result *result, const char *title, const char *path)
{
	struct frame frame = { .result = result, .t_max = result->seconds, .y_max = 1 };
	_cleanup_fclose_ FILE *to = NULL;

	if (result->n_series == 0)
		return -ENODATA;
	for (size_t i = 0; i < result->n_series; i++)
		frame.y_max = fmax(frame.y_max, ceil(result->series[i].over_promotion * 2) / 2);
	to = fopen(path, "we");
	if (!to)
		return -errno;
	frame.to = to;
	draw(&frame, title);
	if (fflush(to) == EOF)
		return -errno;
	return ferror(to) ? -EIO : 0;
}
