/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <microhttpd.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "cleanup.h"
#include "exporter_accept.h"
#include "exporter_ask.h"
#include "exporter_http.h"
#include "log.h"
#include "message.h"

#define PATH       "/metrics"
#define TYPE_PLAIN "text/plain; charset=utf-8"

/* One that is open. */
struct place {
	bool taken, ended, idle; /* idle: no whole request of it waits for its answer */
	int fd;
	struct MHD_Daemon *server;
	uint64_t idle_ns; /* since when */
	uint64_t deadline_ns;
};

struct exporter_http {
	struct exporter_http_options options;
	struct MHD_Daemon *servers[EXPORTER_LISTEN_MAX];
	int listen_fds[EXPORTER_LISTEN_MAX]; /* theirs */
	size_t n_servers;
	struct place places[EXPORTER_LISTEN_MAX * EXPORTER_CONNECTIONS_MAX];

	/* The last answer, for as long as it is fresh; a client that reads slowly keeps an older one alive. */
	struct MHD_Response *pages[EXPORTER_FORMATS];
	unsigned int status;
	bool answered;
	uint64_t answered_ns, asked;
	char said[CTL_CLIENT_ERROR_MAX];

	bool closed; /* one was, in the last turn */
	struct message_limit crowd;
};

int exporter_http_new(const struct exporter_http_options *options, struct exporter_http **ret)
{
	struct exporter_http *http = calloc(1, sizeof(*http));

	if (!http)
		return -ENOMEM;
	http->options = *options;
	*ret = http;
	return 0;
}

static void drop_pages(struct exporter_http *http)
{
	for (int format = 0; format < EXPORTER_FORMATS; format++) {
		if (http->pages[format])
			MHD_destroy_response(http->pages[format]);
		http->pages[format] = NULL;
	}
	http->answered = false;
}

void exporter_http_free(struct exporter_http *http)
{
	if (!http)
		return;
	for (size_t i = 0; i < http->n_servers; i++)
		MHD_stop_daemon(http->servers[i]);
	drop_pages(http);
	free(http);
}

static struct place *place_of(struct MHD_Connection *connection)
{
	return MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

/* ---- answers ---- */

static struct MHD_Response *plain(const char *text)
{
	struct MHD_Response *response =
		MHD_create_response_from_buffer(strlen(text), (void *)text, MHD_RESPMEM_MUST_COPY);

	if (response)
		(void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, TYPE_PLAIN);
	return response;
}

static enum MHD_Result refuse(struct MHD_Connection *connection, unsigned int status, const char *text)
{
	struct MHD_Response *response = plain(text);
	enum MHD_Result queued;

	if (!response)
		return MHD_NO;
	if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
		(void)MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
	queued = MHD_queue_response(connection, status, response);
	MHD_destroy_response(response);
	return queued;
}

static struct MHD_Response *make_page(struct exporter_answer *answer, int format)
{
	struct MHD_Response *response;

	if (answer->status != MHD_HTTP_OK)
		return plain(answer->note);
	response = MHD_create_response_from_buffer(answer->bytes[format], answer->text[format], MHD_RESPMEM_MUST_FREE);
	if (!response)
		return NULL;
	answer->text[format] = NULL;
	(void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, exporter_accept_type(format));
	(void)MHD_add_response_header(response, MHD_HTTP_HEADER_VARY, MHD_HTTP_HEADER_ACCEPT);
	return response;
}

/* Ask the daemon anew, unless it was just asked. */
static void refresh(struct exporter_http *http)
{
	struct exporter_answer answer;

	if (http->answered && clock_now_ns(http->options.clock) - http->answered_ns < http->options.fresh_ns)
		return;
	drop_pages(http);
	exporter_ask(http->options.socket_path, http->options.ask_timeout_ms, &answer);
	http->asked++;
	for (int format = 0; format < EXPORTER_FORMATS; format++)
		http->pages[format] = make_page(&answer, format);
	http->status = answer.status;
	http->answered = http->pages[METRICS_OPENMETRICS] && http->pages[METRICS_PROMETHEUS];
	http->answered_ns = clock_now_ns(http->options.clock);
	/* Once, not with every scrape. */
	if (strcmp(http->said, answer.note) != 0) {
		if (answer.note[0])
			log_line(answer.status == MHD_HTTP_OK ? LOG_NOTICE : LOG_WARNING, "exporter: %s", answer.note);
		else
			log_info("exporter: pghotd answers");
		snprintf(http->said, sizeof(http->said), "%s", answer.note);
	}
	exporter_answer_free(&answer);
}

static enum MHD_Result handle(void *ctx, struct MHD_Connection *connection, const char *url, const char *method,
			      const char *version, const char *body, size_t *body_bytes, void **seen)
{
	struct exporter_http *http = ctx;
	enum metrics_format format;

	(void)version, (void)body;
	if (!*seen) {
		const char *length =
			MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);

		*seen = http;
		place_of(connection)->idle = false;
		/* Now, before its body is read. */
		if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
			return refuse(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "GET " PATH " is all there is.\n");
		if ((length && strcmp(length, "0") != 0) ||
		    MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_TRANSFER_ENCODING))
			return refuse(connection, MHD_HTTP_CONTENT_TOO_LARGE, "GET " PATH " has no body.\n");
		return MHD_YES;
	}
	*body_bytes = 0;
	if (strcmp(url, PATH) != 0)
		return refuse(connection, MHD_HTTP_NOT_FOUND, "The metrics of pghotd are at " PATH ".\n");
	format = exporter_accept(MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT));
	refresh(http);
	if (!http->pages[format])
		return MHD_NO;
	return MHD_queue_response(connection, http->status, http->pages[format]);
}

/* ---- connections ---- */

static void note_connection(void *ctx, struct MHD_Connection *connection, void **context,
			    enum MHD_ConnectionNotificationCode what)
{
	struct exporter_http *http = ctx;
	struct place *place = http->places;

	if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
		place = *context;
		place->taken = false;
		http->closed = true;
		return;
	}
	while (place->taken)
		place++;
	assert(place < http->places + EXPORTER_LISTEN_MAX * EXPORTER_CONNECTIONS_MAX);
	*place = (struct place){
		.taken = true,
		.idle = true,
		.server = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_DAEMON)->daemon,
		.idle_ns = clock_now_ns(http->options.clock),
		.fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd,
		.deadline_ns = clock_now_ns(http->options.clock) + http->options.patience_ns,
	};
	*context = place;
}

static void note_completed(void *ctx, struct MHD_Connection *connection, void **seen,
			   enum MHD_RequestTerminationCode how)
{
	struct exporter_http *http = ctx;
	struct place *place = place_of(connection);

	(void)seen, (void)how;
	place->idle = true;
	place->idle_ns = clock_now_ns(http->options.clock);
	place->deadline_ns = place->idle_ns + http->options.patience_ns;
}

/*
 * libmicrohttpd's own timeout begins anew with each byte, so a client that sends one now and then would stay for ever.
 * A connection that is shut down is closed by it in its next turn.
 */
static void end_slow_clients(struct exporter_http *http)
{
	uint64_t now_ns = clock_now_ns(http->options.clock);

	for (size_t i = 0; i < EXPORTER_LISTEN_MAX * EXPORTER_CONNECTIONS_MAX; i++) {
		struct place *place = &http->places[i];

		if (!place->taken || place->ended || place->deadline_ns > now_ns)
			continue;
		place->ended = true;
		(void)shutdown(place->fd, SHUT_RDWR);
	}
}

/* Has it sent what nobody has looked at yet? All wait while the daemon is asked. */
static bool has_input(int fd)
{
	int bytes = 0;

	return ioctl(fd, FIONREAD, &bytes) == 0 && bytes > 0;
}

/* Of a server that takes no more: the one that is idle for longest; NULL: it has room, or all have something to do. */
static struct place *find_idle(struct exporter_http *http, const struct MHD_Daemon *server)
{
	struct place *oldest = NULL;
	size_t n = 0;

	for (size_t i = 0; i < EXPORTER_LISTEN_MAX * EXPORTER_CONNECTIONS_MAX; i++) {
		struct place *place = &http->places[i];

		if (!place->taken || place->server != server)
			continue;
		n++;
		if (place->idle && !place->ended && (!oldest || place->idle_ns < oldest->idle_ns) &&
		    !has_input(place->fd))
			oldest = place;
	}
	return n == EXPORTER_CONNECTIONS_MAX ? oldest : NULL;
}

/* Somebody waits for the place of @idle. */
static void make_way(struct exporter_http *http, struct place *idle)
{
	uint64_t held;

	idle->ended = true;
	(void)shutdown(idle->fd, SHUT_RDWR);
	if (message_may(&http->crowd, 1, clock_now_ns(http->options.clock), &held))
		log_notice("exporter: %d connections are open, and those that ask nothing give way to new ones; %llu "
			   "did since this was last said",
			   EXPORTER_CONNECTIONS_MAX, (unsigned long long)held + 1);
}

int exporter_http_listen(struct exporter_http *http, int fd)
{
	int flags = fcntl(fd, F_GETFL);
	struct MHD_Daemon *server;

	if (http->n_servers == EXPORTER_LISTEN_MAX)
		return -E2BIG;
	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return -errno;
	errno = 0;
	server = MHD_start_daemon(MHD_USE_EPOLL, 0, NULL, NULL, handle, http, MHD_OPTION_LISTEN_SOCKET, fd,
				  MHD_OPTION_CONNECTION_LIMIT, (unsigned int)EXPORTER_CONNECTIONS_MAX,
				  MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)EXPORTER_CONNECTION_BYTES,
				  MHD_OPTION_NOTIFY_CONNECTION, note_connection, http, MHD_OPTION_NOTIFY_COMPLETED,
				  note_completed, http, MHD_OPTION_END);
	if (!server)
		return errno ? -errno : -EIO;
	http->listen_fds[http->n_servers] = fd;
	http->servers[http->n_servers++] = server;
	return 0;
}

/* Until the first thing that time brings about, in ms; at most @wait_ms. */
static int patience_ms(const struct exporter_http *http, int wait_ms)
{
	uint64_t now_ns = clock_now_ns(http->options.clock), least_ms = wait_ms < 0 ? INT_MAX : (uint64_t)wait_ms;
	MHD_UNSIGNED_LONG_LONG ms;

	for (size_t i = 0; i < http->n_servers; i++)
		if (MHD_get_timeout(http->servers[i], &ms) == MHD_YES && ms < least_ms)
			least_ms = ms;
	for (size_t i = 0; i < EXPORTER_LISTEN_MAX * EXPORTER_CONNECTIONS_MAX; i++) {
		const struct place *place = &http->places[i];
		uint64_t left_ns = place->deadline_ns > now_ns ? place->deadline_ns - now_ns : 0;

		/* Rounded up, or the last ms would be a loop. */
		if (place->taken && !place->ended && left_ns / NSEC_PER_MSEC + 1 < least_ms)
			least_ms = left_ns / NSEC_PER_MSEC + 1;
	}
	return wait_ms < 0 && least_ms == INT_MAX ? -1 : (int)least_ms;
}

int exporter_http_step(struct exporter_http *http, int stop_fd, int wait_ms)
{
	struct pollfd fds[1 + 2 * EXPORTER_LISTEN_MAX] = { { .fd = stop_fd, .events = POLLIN } };
	uint64_t now_ns = clock_now_ns(http->options.clock);
	struct place *idle[EXPORTER_LISTEN_MAX];
	/* libmicrohttpd that was full looks for new ones in the turn after the one in which it has closed. */
	int ms = http->closed ? 0 : patience_ms(http, wait_ms);

	http->closed = false;
	for (size_t i = 0; i < http->n_servers; i++) {
		struct pollfd *pair = &fds[1 + 2 * i];
		bool old;

		idle[i] = find_idle(http, http->servers[i]);
		old = idle[i] && now_ns - idle[i]->idle_ns >= EXPORTER_IDLE_NS;
		/* libmicrohttpd looks for new ones only while it has room. */
		pair[0] = (struct pollfd){ .fd = old ? http->listen_fds[i] : -1, .events = POLLIN };
		pair[1] = (struct pollfd){
			.fd = MHD_get_daemon_info(http->servers[i], MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd,
			.events = POLLIN
		};
		/* Then it is old enough. */
		if (idle[i] && !old && (ms < 0 || (uint64_t)ms > EXPORTER_IDLE_NS / NSEC_PER_MSEC))
			ms = (int)(EXPORTER_IDLE_NS / NSEC_PER_MSEC);
	}
	if (poll(fds, 1 + 2 * http->n_servers, ms) < 0) {
		if (errno != EINTR)
			return -errno;
		return 0;
	}
	for (size_t i = 0; i < http->n_servers; i++)
		if (fds[1 + 2 * i].revents & POLLIN)
			make_way(http, idle[i]);
	end_slow_clients(http);
	for (size_t i = 0; i < http->n_servers; i++)
		(void)MHD_run(http->servers[i]);
	return stop_fd >= 0 && (fds[0].revents & POLLIN) ? 1 : 0;
}

unsigned int exporter_http_connections(const struct exporter_http *http)
{
	unsigned int n = 0;

	for (size_t i = 0; i < EXPORTER_LISTEN_MAX * EXPORTER_CONNECTIONS_MAX; i++)
		n += http->places[i].taken;
	return n;
}

uint64_t exporter_http_asked(const struct exporter_http *http)
{
	return http->asked;
}
