/* SPDX-License-Identifier: GPL-2.0-or-later */
/* pghotctl metrics. */
#include <stdio.h>

#include "cleanup.h"
#include "ctl.h"
#include "metrics.h"

int ctl_verb_metrics(char **args, int n_args)
{
	enum metrics_format format = ctl_flag[FLAG_textfile] ? METRICS_PROMETHEUS : METRICS_OPENMETRICS;
	_cleanup_free_ char *json = NULL;
	int r;

	(void)args, (void)n_args;
	if (ctl_flag[FLAG_json])
		return ctl_fail(EXIT_BAD_USAGE, "metrics is a format of its own; as JSON: pghotctl status --json");
	r = ctl_call("GetStatus", NULL, NULL, &json);
	/* A collector that reads a file would else go on with old numbers: that it is down is one, too. */
	if (r == EXIT_DOWN)
		(void)metrics_print(stdout, NULL, format);
	if (r != 0)
		return r;
	return metrics_print(stdout, json, format) < 0 ? ctl_bad_answer() : EXIT_DONE;
}
