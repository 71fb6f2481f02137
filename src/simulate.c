/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "build_config.h"
#include "cleanup.h"
#include "daemon.h"
#include "sim_engine.h"
#include "sim_plot.h"
#include "sim_scenario.h"
#include "simulate.h"

/* Set by a signal: the machine's folder must not be left behind. Relaxed: it carries no other data. */
static _Atomic bool stop;

static void on_signal(int signal)
{
	(void)signal;
	atomic_store_explicit(&stop, true, memory_order_relaxed);
}

static int read_scenario(const struct simulate_options *options, const struct daemon_options *overrides,
			 struct sim_scenario *ret, char *error)
{
	int r = sim_scenario_load(options->scenario, PGHOTD_SCENARIOS, ret, error);

	for (size_t i = 0; i < overrides->n_overrides && r == 0; i++)
		r = sim_scenario_set(ret, overrides->overrides[i].key, overrides->overrides[i].value, error);
	if (r == 0 && options->policy)
		r = sim_scenario_set(ret, "promote.policy", options->policy, error);
	return r < 0 ? r : sim_scenario_check(ret, error);
}

static int print(const struct simulate_options *options, const struct sim_result *result)
{
	int r = 0;

	if (options->json)
		r = sim_result_write_json(result, stdout);
	else
		sim_result_write_text(result, stdout);
	if (r == 0 && fflush(stdout) == EOF)
		r = -errno;
	if (r < 0)
		fprintf(stderr, "pghotd: cannot write the result: %s\n", strerror(-r));
	return r;
}

int simulate_run(const struct simulate_options *options, const struct daemon_options *overrides)
{
	_cleanup_free_ struct sim_scenario *scenario = malloc(sizeof(*scenario));
	struct sigaction action = { .sa_handler = on_signal };
	struct sim_result result;
	char error[SIM_ERROR_MAX] = "no memory";
	int r;

	if (!scenario || read_scenario(options, overrides, scenario, error) < 0) {
		fprintf(stderr, "pghotd: %s\n", error);
		return EXIT_BAD_CONFIG;
	}
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	r = sim_run(scenario, &stop, &result, error);
	if (r < 0) {
		fprintf(stderr, "pghotd: %s\n", error);
		return EXIT_FAILED;
	}
	if (options->plot_path) {
		r = sim_plot_write(&result, scenario->title, options->plot_path);
		if (r < 0)
			fprintf(stderr, "pghotd: cannot draw into %s: %s\n", options->plot_path, strerror(-r));
	}
	if (r == 0)
		r = print(options, &result);
	sim_result_free(&result);
	return r < 0 ? EXIT_FAILED : EXIT_OK;
}
