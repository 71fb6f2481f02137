/* SPDX-License-Identifier: GPL-2.0-or-later */
/* pghotctl pause and resume. */
#include <errno.h>
#include <stdio.h>

#include "cleanup.h"
#include "ctl.h"
#include "ctl_client.h"
#include "parse.h"
#include "print.h"
#include "report.h"

int ctl_verb_pause(char **args, int n_args)
{
	char error[CTL_CLIENT_ERROR_MAX], length[PRINT_SHORT_MAX];
	struct ctl_client *client;
	uint64_t for_ns = 0;
	int r;

	(void)args, (void)n_args;
	if (ctl_flag[FLAG_for] &&
	    parse_duration_ns(ctl_flag[FLAG_for], REPORT_PAUSE_MIN_NS, REPORT_PAUSE_MAX_NS, &for_ns) < 0)
		return ctl_fail(EXIT_BAD_USAGE,
				"--for wants a time from 1s to 30d, as in 90s, 10m, 2h or 1d, not \"%.40s\"",
				ctl_flag[FLAG_for]);
	r = ctl_connect(&client);
	if (r != 0)
		return r;
	r = ctl_client_call_number(client, "Pause", for_ns, error);
	ctl_client_close(client);
	if (r < 0)
		return ctl_fail_client(r, error);
	if (ctl_flag[FLAG_json])
		return ctl_put_json(
			for_ns ? json_pack("{s:i, s:s, s:I}", "schema", REPORT_SCHEMA, "state", "paused", "left_ns",
					   (json_int_t)for_ns)
			       : json_pack("{s:i, s:s, s:n}", "schema", REPORT_SCHEMA, "state", "paused", "left_ns"));
	if (for_ns)
		printf("paused for %s: its events are closed, nothing is moved\nto go on earlier: pghotctl resume\n",
		       print_duration(length, for_ns));
	else
		puts("paused: its events are closed, nothing is moved\nto go on: pghotctl resume");
	return EXIT_DONE;
}

int ctl_verb_resume(char **args, int n_args)
{
	_cleanup_free_ char *note = NULL;
	int r = ctl_call("Resume", NULL, NULL, &note);

	(void)args, (void)n_args;
	if (r != 0)
		return r;
	if (ctl_flag[FLAG_json])
		return ctl_put_json(json_pack("{s:i, s:s}", "schema", REPORT_SCHEMA, "note", note));
	printf("resumed%s%s\n", *note ? ", but " : "", note);
	return EXIT_DONE;
}
