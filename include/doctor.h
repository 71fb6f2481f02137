/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * doctor: what a machine offers pghotd and what it lacks, as findings: each passes, or says what to do. Looks only;
 * works without a daemon, as any user, and on the recorded /sys and /proc of another machine. One thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "fsroot.h"

#define DOCTOR_FINDINGS_MAX 64
#define DOCTOR_TEXT_MAX     512

enum doctor_verdict {
	DOCTOR_OK,
	DOCTOR_NOTE, /* good to know, nothing has to be done */
	DOCTOR_WARN, /* pghotd works, but not as well as it could */
	DOCTOR_BAD,  /* pghotd can't do its job */
	DOCTOR_VERDICTS,
};

extern const char *const doctor_verdict_name[DOCTOR_VERDICTS];

struct doctor_finding {
	const char *name; /* of what was looked at, at most 12 letters */
	enum doctor_verdict verdict;
	char text[DOCTOR_TEXT_MAX]; /* what was found */
	char todo[DOCTOR_TEXT_MAX]; /* what to do; "": nothing */
};

struct doctor {
	struct fsroot root; /* borrowed */
	bool here;          /* the running machine, not a copy of another's /sys and /proc */
	bool blind;         /* a source could not be tried for want of permission */
	const char *config_path;
	size_t n;
	struct doctor_finding findings[DOCTOR_FINDINGS_MAX];
};

/* Look at everything. @doctor has root, here and config_path; the findings are then there, in the order of a screen. */
void doctor_look(struct doctor *doctor);

/* How many findings have at least @verdict. */
size_t doctor_count(const struct doctor *doctor, enum doctor_verdict verdict);

/* For the doctor's own files. */

/* Add a finding; past DOCTOR_FINDINGS_MAX it takes the place of the last one. */
struct doctor_finding *doctor_say(struct doctor *doctor, enum doctor_verdict verdict, const char *name, const char *fmt,
				  ...) __attribute__((format(printf, 4, 5)));
void doctor_todo(struct doctor_finding *finding, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* doctor_process.c: what a process here may do: namespaces, seccomp, capabilities, limits. */
void doctor_look_process(struct doctor *doctor, size_t cpus);
/* doctor_rivals.c: who else moves pages. */
void doctor_look_rivals(struct doctor *doctor);
