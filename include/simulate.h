/* SPDX-License-Identifier: GPL-2.0-or-later */
/* simulate: pghotd --simulate, from the command line to what is printed. */
#pragma once

#include <stdbool.h>

struct daemon_options;

struct simulate_options {
	const char *scenario; /* NULL: don't simulate; a file, or the name of an installed one */
	const char *policy;   /* NULL: as the scenario says */
	bool json;
	const char *plot_path; /* NULL: no picture */
};

/* Exit status of the program; @overrides: what --set said. Main thread. */
int simulate_run(const struct simulate_options *options, const struct daemon_options *overrides);
