/* SPDX-License-Identifier: GPL-2.0-or-later */
/* pghotctl doctor. */
#include <stdio.h>
#include <string.h>

#include "build_config.h"
#include "ctl.h"
#include "doctor.h"
#include "print.h"
#include "report.h"

#define TEXT_COLUMN 18

static void put_finding(struct doctor_finding *finding, bool colour)
{
	static const enum print_colour colours[DOCTOR_VERDICTS] = {
		[DOCTOR_OK] = PRINT_GOOD,
		[DOCTOR_NOTE] = PRINT_BOLD,
		[DOCTOR_WARN] = PRINT_WARN,
		[DOCTOR_BAD] = PRINT_BAD,
	};
	char verdict[8];

	print_plain(finding->text);
	print_plain(finding->todo);
	snprintf(verdict, sizeof(verdict), "%-4s", doctor_verdict_name[finding->verdict]);
	print_coloured(stdout, colour, colours[finding->verdict], verdict);
	printf(" %-12s ", finding->name);
	print_wrapped(stdout, TEXT_COLUMN, TEXT_COLUMN, PRINT_ROWS, finding->text);
	if (!finding->todo[0])
		return;
	printf("%*s-> ", TEXT_COLUMN, "");
	print_wrapped(stdout, TEXT_COLUMN + 3, TEXT_COLUMN + 3, PRINT_ROWS, finding->todo);
}

static int put_as_json(const struct doctor *doctor)
{
	json_t *list = json_array();

	for (size_t i = 0; i < doctor->n; i++) {
		const struct doctor_finding *f = &doctor->findings[i];

		json_array_append_new(list,
				      json_pack("{s:s, s:s, s:s, s:s}", "name", f->name, "verdict",
						doctor_verdict_name[f->verdict], "text", f->text, "todo", f->todo));
	}
	return ctl_put_json(json_pack("{s:i, s:o}", "schema", REPORT_SCHEMA, "findings", list));
}

static void put_summary(const struct doctor *doctor)
{
	if (doctor_count(doctor, DOCTOR_BAD))
		puts("\npghotd can't do its job here before what is marked bad is mended.");
	else if (doctor_count(doctor, DOCTOR_WARN))
		puts("\npghotd works here; what is marked warn is worth a look.");
	else if (doctor->blind)
		puts("\nNothing is wrong, as far as it can be seen without root.");
	else
		puts("\npghotd works here.");
}

int ctl_verb_doctor(char **args, int n_args)
{
	static struct doctor doctor;
	static char config_path[4096];
	const char *root = ctl_flag[FLAG_root] ? ctl_flag[FLAG_root] : "/";
	int r = fsroot_open(&doctor.root, root);

	(void)args, (void)n_args;
	if (r < 0)
		return ctl_fail(EXIT_REFUSED, "cannot open %s: %s", root, strerror(-r));
	doctor.here = strcmp(root, "/") == 0;
	snprintf(config_path, sizeof(config_path), "%s%s", doctor.here ? "" : root,
		 doctor.here ? PGHOTD_CONF : "/etc/pghotd.conf");
	doctor.config_path = config_path;
	doctor_look(&doctor);
	fsroot_close(&doctor.root);
	r = doctor_count(&doctor, DOCTOR_WARN) ? EXIT_REFUSED : EXIT_DONE;
	if (ctl_flag[FLAG_json])
		return put_as_json(&doctor) == EXIT_DONE ? r : EXIT_REFUSED;
	for (size_t i = 0; i < doctor.n; i++)
		put_finding(&doctor.findings[i], ctl_use_colour());
	put_summary(&doctor);
	return r;
}
