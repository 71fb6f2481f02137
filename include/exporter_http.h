/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * exporter_http: /metrics over HTTP/1.1 by libmicrohttpd, in one thread. What one client can take is bounded: so many
 * connections for each listening socket, so many bytes for each, and so long for a request. Where all connections are
 * taken and somebody waits, the one that is idle for longest is closed for him, if it is idle for EXPORTER_IDLE_NS: it
 * has sent no whole request since it came or had its last answer. Not thread-safe.
 */
#pragma once

#include <stdint.h>

#include "clock.h"

#define EXPORTER_LISTEN_MAX       4  /* sockets */
#define EXPORTER_CONNECTIONS_MAX  32 /* for each of them */
#define EXPORTER_CONNECTION_BYTES 16384
#define EXPORTER_PATIENCE_SECONDS 10
#define EXPORTER_IDLE_NS          (250 * NSEC_PER_MSEC) /* who comes over a network needs some for his request */
#define EXPORTER_ASK_TIMEOUT_MS   3000
#define EXPORTER_FRESH_NS         NSEC_PER_SEC

struct exporter_http_options {
	const char *socket_path; /* control socket of the daemon; must outlive the server */
	uint64_t ask_timeout_ms; /* for the daemon's answer, all others waiting: 1 ms..1 h */
	uint64_t patience_ns;    /* for a request from its first byte to the last of the answer, and between two */
	uint64_t fresh_ns;       /* how long one answer of the daemon serves all scrapers */
	const struct clock *clock;
};

struct exporter_http;

/* 0, or -ENOMEM. */
int exporter_http_new(const struct exporter_http_options *options, struct exporter_http **ret);
/* Closes all connections and listening sockets. Accepts NULL. */
void exporter_http_free(struct exporter_http *http);

/*
 * Serve the listening stream socket @fd as well, which is made non-blocking. 0: it is ours to close; -E2BIG: there are
 * EXPORTER_LISTEN_MAX already; other -errno. On an error it stays the caller's.
 */
int exporter_http_listen(struct exporter_http *http, int fd);

/*
 * Wait for up to @wait_ms (-1: without end) for clients, or for @stop_fd (-1: none) to become readable, and serve what
 * is there. 1: @stop_fd is readable; 0; -errno when it can't wait.
 */
int exporter_http_step(struct exporter_http *http, int stop_fd, int wait_ms);

/* Connections that are open now, and how often the daemon was asked since the start. */
unsigned int exporter_http_connections(const struct exporter_http *http);
uint64_t exporter_http_asked(const struct exporter_http *http);
