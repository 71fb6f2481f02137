/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * metrics: the status document as metrics, by name: pghotd_ and the counter's name in stats.def without pghot_, then
 * its unit where the name doesn't end in it (ns become seconds), then _total; gauges beside them. Labels are nodes,
 * sources, reasons and results, all bounded; no process, no address. Pure text.
 */
#pragma once

#include <stddef.h>
#include <stdio.h>

#define METRICS_NAME_MAX 96

enum metrics_format {
	METRICS_OPENMETRICS, /* OpenMetrics 1.0, openmetrics.io: a family is named without _total, # UNIT, # EOF */
	METRICS_PROMETHEUS,  /* the text format 0.0.4, as node_exporter's textfile collector reads it */
};

/*
 * Write the metrics of @json, the document of report_json(), to @out; with NULL those of a daemon that is down, which
 * is pghotd_up alone. 0, or -EINVAL when it isn't such a document (nothing is written then).
 */
int metrics_print(FILE *out, const char *json, enum metrics_format format);

/* The family of counter @name in @unit, without _total. Returns @buf. */
const char *metrics_counter_name(char buf[METRICS_NAME_MAX], const char *name, const char *unit);
