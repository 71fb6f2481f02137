/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The exporter without a daemon: which format, which answer, and what becomes of clients that take their time. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "exporter_accept.h"
#include "exporter_ask.h"
#include "exporter_http.h"
#include "harness.h"

#define PATIENCE_NS (10 * NSEC_PER_SEC)
#define STEPS       200
#define STEP_MS     50 /* only where nothing comes; what comes ends the wait */

static uint64_t now_ns;

static uint64_t turned(void *ctx)
{
	(void)ctx;
	return now_ns;
}

static const struct clock hand_turned = { .now_ns = turned };

static void accept_table(void)
{
	static const struct {
		const char *accept;
		enum metrics_format format;
	} table[] = {
		{ NULL, METRICS_PROMETHEUS },
		{ "", METRICS_PROMETHEUS },
		{ "*/*", METRICS_PROMETHEUS },
		{ "text/html", METRICS_PROMETHEUS },
		{ "application/openmetrics-text", METRICS_OPENMETRICS },
		{ "Application/OpenMetrics-Text", METRICS_OPENMETRICS },
		{ "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
		  "text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
		  METRICS_OPENMETRICS },
		{ "text/plain;version=0.0.4;q=1,*/*;q=0.1", METRICS_PROMETHEUS },
		{ "application/openmetrics-text;q=0.4, text/plain;q=0.5", METRICS_PROMETHEUS },
		{ "application/openmetrics-text;q=0.5, text/*;q=0.4", METRICS_OPENMETRICS },
		{ "application/openmetrics-text;q=0", METRICS_PROMETHEUS },
		{ "application/openmetrics-text;q=0.000", METRICS_PROMETHEUS },
		{ "application/openmetrics-text; version=2.0.0", METRICS_PROMETHEUS },
		{ "application/openmetrics-text ; version=\"1.0.0\" ; q=0.001", METRICS_OPENMETRICS },
		{ "application/openmetrics-text;q=x", METRICS_OPENMETRICS },
		{ "application/openmetrics-textual", METRICS_PROMETHEUS },
		{ ",,;;,=;q=,;version", METRICS_PROMETHEUS },
		{ ";q", METRICS_PROMETHEUS },
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		CU_ASSERT_EQUAL(exporter_accept(table[i].accept), table[i].format);
		if (exporter_accept(table[i].accept) != table[i].format)
			printf("  Accept: %s\n", table[i].accept ? table[i].accept : "(none)");
	}
}

static void ask_nobody(void)
{
	struct exporter_answer answer;

	exporter_ask("/nonexistent/bus", 1000, &answer);
	CU_ASSERT_EQUAL(answer.status, 200);
	CU_ASSERT_PTR_NOT_NULL(answer.text[METRICS_PROMETHEUS]);
	if (answer.text[METRICS_PROMETHEUS])
		CU_ASSERT_PTR_NOT_NULL(strstr(answer.text[METRICS_PROMETHEUS], "\npghotd_up 0\n"));
	if (answer.text[METRICS_OPENMETRICS])
		CU_ASSERT_PTR_NOT_NULL(strstr(answer.text[METRICS_OPENMETRICS], "\n# EOF\n"));
	CU_ASSERT_PTR_NOT_NULL(strstr(answer.note, "not running"));
	exporter_answer_free(&answer);
	/* What is no socket path says nothing of the daemon. */
	exporter_ask("/nonexistent/"
		     "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
		     "xxxxx",
		     1000, &answer);
	CU_ASSERT_EQUAL(answer.status, 503);
	CU_ASSERT_PTR_NULL(answer.text[METRICS_PROMETHEUS]);
	CU_ASSERT_NOT_EQUAL(answer.note[0], '\0');
	exporter_answer_free(&answer);
}

/* ---- over HTTP ---- */

struct rig {
	struct exporter_http *http;
	struct sockaddr_in address;
};

static bool rig_start(struct rig *rig)
{
	const struct exporter_http_options options = {
		.socket_path = "/nonexistent/bus",
		.ask_timeout_ms = 1000,
		.patience_ns = PATIENCE_NS,
		.fresh_ns = NSEC_PER_SEC,
		.clock = &hand_turned,
	};
	socklen_t len = sizeof(rig->address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	now_ns = 1000 * NSEC_PER_SEC;
	rig->address = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	if (fd < 0 || bind(fd, (struct sockaddr *)&rig->address, len) < 0 || listen(fd, 128) < 0 ||
	    getsockname(fd, (struct sockaddr *)&rig->address, &len) < 0) {
		test_skip("there is no IPv4 on the loopback interface");
		return false;
	}
	CU_ASSERT_EQUAL(exporter_http_new(&options, &rig->http), 0);
	CU_ASSERT_EQUAL(exporter_http_listen(rig->http, fd), 0);
	return true;
}

static int client(const struct rig *rig)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (connect(fd, (const struct sockaddr *)&rig->address, sizeof(rig->address)) < 0)
		CU_ASSERT_EQUAL(errno, EINPROGRESS);
	return fd;
}

static void say(int fd, const char *text)
{
	CU_ASSERT_EQUAL(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

/* Until @end stands in what came, or the other side closed. Bytes, -1 when neither happens. */
static ssize_t hear(struct rig *rig, int fd, char *buf, size_t size, const char *end)
{
	size_t used = 0;

	buf[0] = '\0';
	for (int i = 0; i < STEPS && used + 1 < size; i++) {
		ssize_t n;

		CU_ASSERT_EQUAL(exporter_http_step(rig->http, fd, STEP_MS) >= 0, true);
		while ((n = recv(fd, buf + used, size - 1 - used, 0)) > 0)
			used += (size_t)n;
		buf[used] = '\0';
		if (n == 0 || errno == ECONNRESET || (end && strstr(buf, end)))
			return (ssize_t)used;
	}
	return -1;
}

static void one_answer(struct rig *rig, const char *request, const char *status, const char *has)
{
	char buf[8192];
	int fd = client(rig);

	for (int i = 0; i < STEPS && exporter_http_connections(rig->http) == 0; i++)
		(void)exporter_http_step(rig->http, -1, STEP_MS);
	say(fd, request);
	CU_ASSERT_EQUAL(hear(rig, fd, buf, sizeof(buf), NULL) > 0, true);
	CU_ASSERT_EQUAL(strncmp(buf, status, strlen(status)), 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(buf, has));
	if (strncmp(buf, status, strlen(status)) != 0 || !strstr(buf, has))
		printf("  asked:\n%s  answered:\n%s\n", request, buf);
	close(fd);
	for (int i = 0; i < STEPS && exporter_http_connections(rig->http) > 0; i++)
		(void)exporter_http_step(rig->http, -1, STEP_MS);
}

static void answers(void)
{
	static char large[EXPORTER_CONNECTION_BYTES * 2];
	struct rig rig;

	if (!rig_start(&rig))
		return;
	one_answer(&rig, "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "HTTP/1.1 200 ",
		   "\npghotd_up 0\n");
	one_answer(&rig, "GET /metrics?x=1 HTTP/1.0\r\n\r\n", "HTTP/1.", "\npghotd_up 0\n");
	one_answer(&rig, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "HTTP/1.1 404 ", "/metrics");
	one_answer(&rig, "GET /metrics/.. HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "HTTP/1.1 404 ",
		   "/metrics");
	one_answer(&rig, "DELETE /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "HTTP/1.1 405 ",
		   "Allow: GET, HEAD");
	one_answer(&rig, "POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n", "HTTP/1.1 405 ",
		   "Allow: GET, HEAD");
	one_answer(&rig, "GET /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n", "HTTP/1.1 413 ", "no body");
	snprintf(large, sizeof(large), "GET /metrics HTTP/1.1\r\nHost: x\r\nX: %0*d", EXPORTER_CONNECTION_BYTES + 100,
		 0);
	one_answer(&rig, large, "HTTP/1.", " 4");
	CU_ASSERT_EQUAL(exporter_http_asked(rig.http), 1); /* the clock stands */
	now_ns += NSEC_PER_SEC;
	one_answer(&rig, "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "HTTP/1.1 200 ",
		   "\npghotd_up 0\n");
	CU_ASSERT_EQUAL(exporter_http_asked(rig.http), 2);
	exporter_http_free(rig.http);
}

static void slow_clients(void)
{
	struct rig rig;
	char buf[4096];
	int fd;

	if (!rig_start(&rig))
		return;
	fd = client(&rig);
	for (int i = 0; i < STEPS && exporter_http_connections(rig.http) == 0; i++)
		(void)exporter_http_step(rig.http, -1, STEP_MS);
	/* A byte now and then is no way to stay. */
	for (size_t i = 0; i < 9; i++) {
		now_ns += NSEC_PER_SEC;
		say(fd, "G");
		(void)exporter_http_step(rig.http, -1, STEP_MS);
		CU_ASSERT_EQUAL(exporter_http_connections(rig.http), 1);
	}
	now_ns += NSEC_PER_SEC;
	CU_ASSERT_EQUAL(hear(&rig, fd, buf, sizeof(buf), NULL), 0);
	for (int i = 0; i < STEPS && exporter_http_connections(rig.http) > 0; i++)
		(void)exporter_http_step(rig.http, -1, STEP_MS);
	CU_ASSERT_EQUAL(exporter_http_connections(rig.http), 0);
	close(fd);

	/* One that goes on asking in time stays, on one connection. */
	fd = client(&rig);
	for (int i = 0; i < STEPS && exporter_http_connections(rig.http) == 0; i++)
		(void)exporter_http_step(rig.http, -1, STEP_MS);
	for (int i = 0; i < 5; i++) {
		now_ns += PATIENCE_NS - NSEC_PER_SEC;
		say(fd, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
		CU_ASSERT_EQUAL(hear(&rig, fd, buf, sizeof(buf), "\npghotd_up 0\n") > 0, true);
		(void)exporter_http_step(rig.http, -1, 0);
	}
	CU_ASSERT_EQUAL(exporter_http_connections(rig.http), 1);
	close(fd);
	exporter_http_free(rig.http);
}

static void many_clients(void)
{
	int fds[EXPORTER_CONNECTIONS_MAX + 20];
	const size_t n = sizeof(fds) / sizeof(fds[0]);
	struct rig rig;
	char buf[4096];

	if (!rig_start(&rig))
		return;
	for (size_t i = 0; i < n; i++)
		fds[i] = client(&rig);
	for (int i = 0; i < STEPS && exporter_http_connections(rig.http) < EXPORTER_CONNECTIONS_MAX; i++)
		(void)exporter_http_step(rig.http, -1, STEP_MS);
	CU_ASSERT_EQUAL(exporter_http_connections(rig.http), EXPORTER_CONNECTIONS_MAX);
	/* Those beyond wait; the patience with silent ones makes room for them. */
	say(fds[n - 1], "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
	now_ns += PATIENCE_NS;
	CU_ASSERT_EQUAL(hear(&rig, fds[n - 1], buf, sizeof(buf), "\npghotd_up 0\n") > 0, true);
	for (size_t i = 0; i < n; i++)
		close(fds[i]);
	exporter_http_free(rig.http);
}

#define IDLE 95 /* more than are taken, as many as fit in the backlog besides */

/* Steps until @fd has its answer, the clock going on by a few ms each. How much it went on, in ns. */
static uint64_t asked_ns(struct rig *rig, int fd)
{
	uint64_t begun_ns = now_ns;
	char buf[4096];

	say(fd, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
	for (int i = 0; i < 20 * STEPS; i++) {
		if (recv(fd, buf, sizeof(buf), 0) > 0)
			return now_ns - begun_ns;
		(void)exporter_http_step(rig->http, -1, 1);
		now_ns += NSEC_PER_MSEC;
	}
	return UINT64_MAX;
}

static void idle_clients_give_way(void)
{
	int idle[IDLE], asks, keeps;
	struct rig rig;
	char buf[64];

	if (!rig_start(&rig))
		return;
	keeps = client(&rig);
	for (int i = 0; i < STEPS && exporter_http_connections(rig.http) == 0; i++)
		(void)exporter_http_step(rig.http, -1, STEP_MS);
	for (size_t i = 0; i < IDLE; i++)
		idle[i] = client(&rig);
	for (int i = 0; i < STEPS && exporter_http_connections(rig.http) < EXPORTER_CONNECTIONS_MAX; i++)
		(void)exporter_http_step(rig.http, -1, STEP_MS);
	CU_ASSERT_EQUAL(exporter_http_connections(rig.http), EXPORTER_CONNECTIONS_MAX);
	/* While the clock stands nobody is idle for long enough. */
	for (int i = 0; i < 10; i++)
		(void)exporter_http_step(rig.http, -1, 0);
	CU_ASSERT(recv(idle[0], buf, sizeof(buf), 0) < 0 && errno == EAGAIN);
	now_ns += EXPORTER_IDLE_NS - NSEC_PER_MSEC;
	/* It came first, but has just asked. */
	CU_ASSERT(asked_ns(&rig, keeps) <= EXPORTER_IDLE_NS);
	/* The last in the line waits for a few rounds of those before it, not for the patience with each. */
	asks = client(&rig);
	CU_ASSERT(asked_ns(&rig, asks) < PATIENCE_NS / 2);
	/* The oldest went, the ones that had just come did not. */
	CU_ASSERT_EQUAL(recv(idle[0], buf, sizeof(buf), 0), 0);
	CU_ASSERT(recv(idle[IDLE - 1], buf, sizeof(buf), 0) < 0 && errno == EAGAIN);
	CU_ASSERT_EQUAL(exporter_http_connections(rig.http), EXPORTER_CONNECTIONS_MAX);
	/* Nobody waits any more, so nobody has to go. */
	now_ns += 2 * EXPORTER_IDLE_NS;
	for (int i = 0; i < 10; i++)
		(void)exporter_http_step(rig.http, -1, 1);
	CU_ASSERT_EQUAL(exporter_http_connections(rig.http), EXPORTER_CONNECTIONS_MAX);
	for (size_t i = 0; i < IDLE; i++)
		close(idle[i]);
	close(asks);
	close(keeps);
	exporter_http_free(rig.http);
}

/* libmicrohttpd hangs up on what is no HTTP. */
static void nonsense(void)
{
	struct rig rig;
	char buf[4096];
	int fd;

	if (!rig_start(&rig))
		return;
	fd = client(&rig);
	for (int i = 0; i < STEPS && exporter_http_connections(rig.http) == 0; i++)
		(void)exporter_http_step(rig.http, -1, STEP_MS);
	say(fd, "nonsense\r\n\r\n");
	CU_ASSERT_EQUAL(hear(&rig, fd, buf, sizeof(buf), NULL) >= 0, true);
	CU_ASSERT_PTR_NULL(strstr(buf, "pghotd_up"));
	CU_ASSERT_EQUAL(exporter_http_asked(rig.http), 0);
	close(fd);
	exporter_http_free(rig.http);
}

static void too_many_sockets(void)
{
	struct rig rig;

	if (!rig_start(&rig))
		return;
	for (int i = 1; i <= EXPORTER_LISTEN_MAX; i++) {
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), r;

		CU_ASSERT_EQUAL(listen(fd, 1), 0);
		r = exporter_http_listen(rig.http, fd);
		CU_ASSERT_EQUAL(r, i < EXPORTER_LISTEN_MAX ? 0 : -E2BIG);
		if (r < 0)
			close(fd);
	}
	exporter_http_free(rig.http);
}

TEST_MAIN(exporter, { "which format", accept_table }, { "a daemon that is not there", ask_nobody },
	  { "answers", answers }, { "slow clients", slow_clients }, { "many clients", many_clients },
	  { "idle clients give way", idle_clients_give_way }, { "nonsense", nonsense },
	  { "too many sockets", too_many_sockets })
