/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * exporter_ask: one question to the daemon, and its answer as the texts that scrapers get. Not thread-safe.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "ctl_client.h"
#include "metrics.h"

#define EXPORTER_FORMATS (METRICS_PROMETHEUS + 1)

struct exporter_answer {
	unsigned int status;          /* HTTP: 200, or 503 where the daemon's state can't be known */
	char *text[EXPORTER_FORMATS]; /* by enum metrics_format; with 503 all NULL */
	size_t bytes[EXPORTER_FORMATS];
	char note[CTL_CLIENT_ERROR_MAX]; /* "", or one line for the operator */
};

/*
 * Ask the daemon at control socket @path, for at most @timeout_ms (1 ms..1 h). One that is not there, that hangs or
 * that turns us away is an answer as well: pghotd_up is 0. It can't be known where we may not ask, or do not
 * understand: 503.
 * @ret is filled in any case; free it by exporter_answer_free().
 */
void exporter_ask(const char *path, uint64_t timeout_ms, struct exporter_answer *ret);
void exporter_answer_free(struct exporter_answer *answer);
