/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * exporter_accept: which of the two formats of metrics.h an HTTP client asks for. Pure text.
 */
#pragma once

#include "metrics.h"

/*
 * The format for a request with header Accept: @accept (RFC 9110, 12.5.1), NULL where there is none. OpenMetrics where
 * it is asked for by name, in version 1.0.0 or without one, and at least as much as text is; else the older text
 * format, also for what asks for neither: a scraper that knows neither is served better by it than by an error. Any
 * thread.
 */
enum metrics_format exporter_accept(const char *accept);

/* What the format is called in a Content-Type. Static. */
const char *exporter_accept_type(enum metrics_format format);
