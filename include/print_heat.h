/* SPDX-License-Identifier: GPL-2.0-or-later */
/* print_heat: the map of hot memory, for people: as blocks on a screen, or as a picture. Pure text. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

struct print_heat_style {
	bool colour;
	bool utf8; /* blocks of Unicode; else ASCII */
};

/*
 * Write @json, the daemon's answer to GetHeat, to @out: lines of PRINT_COLUMNS, at most PRINT_ROWS - 1 of them. 0, or
 * -EINVAL when it isn't such a document (nothing is written then).
 */
int print_heat(FILE *out, const char *json, const struct print_heat_style *style);

/* The same as a picture, SVG 1.1 without scripts or fonts of its own. */
int print_heat_svg(FILE *out, const char *json);
