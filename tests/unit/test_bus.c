/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Server and clients run in one thread on one event loop, so that what each has seen is known at every step. */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <systemd/sd-bus.h>
#include <unistd.h>

#include "bus.h"
#include "bus_gate.h"
#include "harness.h"
#include "log.h"

#define NSEC_PER_MSEC 1000000ULL
#define NOBODY        65534

struct fixture {
	char folder[64], path[128];
	sd_event *event;
	struct bus_server *server;
	/* What the methods answer and saw. */
	size_t status_bytes;
	int set_result, reload_result;
	const char *error_text;
	char *note;
	int n_status, n_set, n_reload;
	struct bus_peer peer;
	char key[64];
	size_t value_bytes;
};

/* Turn the loop until @cond; far more turns than any case needs, so that only a fault gets to the end. */
#define SPIN(f, cond)                                              \
	({                                                         \
		for (int turn = 0; turn < 5000 && !(cond); turn++) \
			sd_event_run((f)->event, 10000);           \
		(cond);                                            \
	})

static char *status_json(void *ctx)
{
	struct fixture *f = ctx;
	char *text = malloc(f->status_bytes + 1);

	f->n_status++;
	memset(text, 'x', f->status_bytes);
	text[f->status_bytes] = '\0';
	return text;
}

static char *options_json(void *ctx)
{
	(void)ctx;
	return NULL;
}

static int set_option(void *ctx, const struct bus_peer *peer, const char *key, const char *value, char *error)
{
	struct fixture *f = ctx;

	f->n_set++;
	f->peer = *peer;
	snprintf(f->key, sizeof(f->key), "%s", key);
	f->value_bytes = strlen(value);
	snprintf(error, BUS_ERROR_MAX, "%s", f->error_text);
	return f->set_result;
}

static int reload(void *ctx, const struct bus_peer *peer, char **ret_note, char *error)
{
	struct fixture *f = ctx;

	f->n_reload++;
	f->peer = *peer;
	if (f->reload_result < 0)
		snprintf(error, BUS_ERROR_MAX, "%s", f->error_text);
	else if (f->note)
		*ret_note = strdup(f->note);
	return f->reload_result;
}

static const struct bus_ops ops = {
	.status_json = status_json,
	.options_json = options_json,
	.set_option = set_option,
	.reload = reload,
	.version = "9.8.7",
};

static bool setup(struct fixture *f)
{
	bool made;

	/* What the server says about bad clients is not for the test's output. */
	log_init(LOG_TARGET_STDERR, LOG_ERR);
	*f = (struct fixture){ .status_bytes = 20, .error_text = "" };
	strcpy(f->folder, "/tmp/pghot-bus-XXXXXX");
	made = mkdtemp(f->folder) && chmod(f->folder, 0755) == 0 && sd_event_new(&f->event) >= 0;
	snprintf(f->path, sizeof(f->path), "%s/run/bus", f->folder);
	made = made && bus_server_new(f->event, f->path, "", &ops, f, &f->server) == 0;
	CU_ASSERT(made);
	return made;
}

static void remove_at(const struct fixture *f, const char *name)
{
	char path[192];

	snprintf(path, sizeof(path), "%s/%s", f->folder, name);
	remove(path);
}

static void teardown(struct fixture *f)
{
	bus_server_free(f->server);
	sd_event_unref(f->event);
	CU_ASSERT_EQUAL(access(f->path, F_OK), -1);
	remove_at(f, "run/bus.lock");
	remove_at(f, "run");
	CU_ASSERT_EQUAL(rmdir(f->folder), 0);
}

static int raw_connect(const struct fixture *f)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	memcpy(address.sun_path, f->path, strlen(f->path));
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
		close(fd);
		return -errno;
	}
	return fd;
}

static bool put(int fd, const void *data, size_t n)
{
	return send(fd, data, n, MSG_NOSIGNAL) == (ssize_t)n;
}

static const char handshake[] = "\0AUTH EXTERNAL\r\nDATA\r\nBEGIN\r\n";
#define HANDSHAKE_BYTES (sizeof(handshake) - 1)

/* A method call without, or with two, text arguments. Returns its length. */
static size_t make_call(char *buf, uint32_t serial, const char *member, const char *key, const char *value)
{
	static const struct {
		uint8_t code;
		char type;
	} kinds[] = { { 1, 'o' }, { 2, 's' }, { 3, 's' } };
	const char *values[] = { BUS_OBJECT, BUS_INTERFACE, member };
	uint32_t word, body_bytes = 0;
	size_t n = 16;

	memset(buf, 0, 512);
	memcpy(buf, (char[]){ 'l', 1, 0, 1 }, 4);
	word = htole32(serial);
	memcpy(buf + 8, &word, 4);
	for (size_t i = 0; i < 3; i++) {
		n = (n + 7) & ~7ul;
		memcpy(buf + n, (char[]){ (char)kinds[i].code, 1, kinds[i].type, 0 }, 4);
		word = htole32((uint32_t)strlen(values[i]));
		memcpy(buf + n + 4, &word, 4);
		strcpy(buf + n + 8, values[i]);
		n += 8 + strlen(values[i]) + 1;
	}
	if (key) {
		n = (n + 7) & ~7ul;
		memcpy(buf + n, (char[]){ 8, 1, 'g', 0, 2, 's', 's', 0 }, 8);
		n += 8;
	}
	word = htole32((uint32_t)(n - 16));
	memcpy(buf + 12, &word, 4);
	n = (n + 7) & ~7ul;
	if (key) {
		const char *texts[] = { key, value };
		size_t start = n;

		for (int i = 0; i < 2; i++) {
			while ((n - start) % 4)
				buf[n++] = '\0';
			word = htole32((uint32_t)strlen(texts[i]));
			memcpy(buf + n, &word, 4);
			memcpy(buf + n + 4, texts[i], strlen(texts[i]) + 1);
			n += 4 + strlen(texts[i]) + 1;
		}
		body_bytes = htole32((uint32_t)(n - start));
	}
	memcpy(buf + 4, &body_bytes, 4);
	return n;
}

/* Read until the other side is done or there is nothing now. true: it hung up. */
static bool drain(int fd, size_t *bytes)
{
	char buf[65536];
	ssize_t n;

	while ((n = recv(fd, buf, sizeof(buf), MSG_DONTWAIT)) > 0)
		*bytes += (size_t)n;
	return n == 0 || (errno != EAGAIN && errno != EINTR);
}

static bool raw_begin(struct fixture *f, int fd)
{
	size_t got = 0;

	CU_ASSERT(put(fd, handshake, HANDSHAKE_BYTES));
	/* "DATA", "OK" and 32 hexadecimal digits. */
	return SPIN(f, drain(fd, &got) || got >= 6 + 37);
}

/* One call to be answered, as a check that all is well. */
static bool raw_call_works(struct fixture *f, int fd)
{
	char call[512];
	size_t n = make_call(call, 77, "GetStatus", NULL, NULL), got = 0;
	int before = f->n_status;

	if (!put(fd, call, n))
		return false;
	return SPIN(f, drain(fd, &got) || got > f->status_bytes) && got > f->status_bytes && f->n_status == before + 1;
}

struct answer {
	bool came;
	char name[128], text[65536];
};

static int on_answer(sd_bus_message *m, void *userdata, sd_bus_error *ret_error)
{
	struct answer *answer = userdata;
	const sd_bus_error *e = sd_bus_message_get_error(m);
	const char *text = "";

	(void)ret_error;
	answer->came = true;
	snprintf(answer->name, sizeof(answer->name), "%s", e ? e->name : "");
	if (e)
		text = e->message;
	else if (sd_bus_message_has_signature(m, "v"))
		(void)(sd_bus_message_enter_container(m, 'v', "s") > 0 && sd_bus_message_read(m, "s", &text));
	else if (sd_bus_message_has_signature(m, "s"))
		(void)sd_bus_message_read(m, "s", &text);
	snprintf(answer->text, sizeof(answer->text), "%s", text);
	return 1;
}

static sd_bus *client_new(struct fixture *f)
{
	char address[192];
	sd_bus *bus = NULL;

	snprintf(address, sizeof(address), "unix:path=%s", f->path);
	if (sd_bus_new(&bus) < 0 || sd_bus_set_address(bus, address) < 0 || sd_bus_start(bus) < 0 ||
	    sd_bus_attach_event(bus, f->event, 0) < 0)
		return NULL;
	return bus;
}

static const struct answer *call(struct fixture *f, sd_bus *bus, const char *interface, const char *member,
				 const char *key, const char *value)
{
	static struct answer answer;
	sd_bus_message *m = NULL;

	answer = (struct answer){ 0 };
	sd_bus_message_new_method_call(bus, &m, NULL, BUS_OBJECT, interface, member);
	if (key)
		sd_bus_message_append(m, "ss", key, value);
	sd_bus_call_async(bus, NULL, m, on_answer, &answer, 0);
	sd_bus_message_unref(m);
	SPIN(f, answer.came);
	return &answer;
}

static void client_sees_the_object(void)
{
	struct fixture f;
	const struct answer *a;
	sd_bus *bus;

	if (!setup(&f))
		return;
	bus = client_new(&f);
	a = call(&f, bus, BUS_INTERFACE, "GetStatus", NULL, NULL);
	CU_ASSERT_STRING_EQUAL(a->text, "xxxxxxxxxxxxxxxxxxxx");
	a = call(&f, bus, "org.freedesktop.DBus.Properties", "Get", BUS_INTERFACE, "Version");
	CU_ASSERT_STRING_EQUAL(a->text, "9.8.7");
	a = call(&f, bus, "org.freedesktop.DBus.Introspectable", "Introspect", NULL, NULL);
	CU_ASSERT_PTR_NOT_NULL(strstr(a->text, "<method name=\"SetOption\">"));
	CU_ASSERT_PTR_NOT_NULL(strstr(a->text, "<property name=\"Schema\" type=\"u\""));
	a = call(&f, bus, BUS_INTERFACE, "SetOption", "mode", "promote");
	CU_ASSERT_STRING_EQUAL(a->name, "");
	CU_ASSERT_STRING_EQUAL(f.key, "mode");
	CU_ASSERT_EQUAL(f.value_bytes, 7);
	CU_ASSERT_EQUAL(f.peer.uid, geteuid());
	CU_ASSERT_EQUAL(f.peer.pid, getpid());
	CU_ASSERT(strlen(f.peer.comm) > 1);
	a = call(&f, bus, BUS_INTERFACE, "ListOptions", NULL, NULL);
	CU_ASSERT_STRING_EQUAL(a->name, BUS_ERROR_NO_MEMORY);
	a = call(&f, bus, BUS_INTERFACE, "Reload", NULL, NULL);
	CU_ASSERT_STRING_EQUAL(a->name, "");
	CU_ASSERT_STRING_EQUAL(a->text, "");
	f.note = (char *)(uintptr_t) "one\ntwo \x1b[2J\n";
	a = call(&f, bus, BUS_INTERFACE, "Reload", NULL, NULL);
	CU_ASSERT_STRING_EQUAL(a->text, "one\ntwo  [2J\n");
	a = call(&f, bus, BUS_INTERFACE, "NoSuchMethod", NULL, NULL);
	CU_ASSERT_STRING_EQUAL(a->name, SD_BUS_ERROR_UNKNOWN_METHOD);
	/* Wrong arguments. */
	a = call(&f, bus, BUS_INTERFACE, "SetOption", NULL, NULL);
	CU_ASSERT_STRING_EQUAL(a->name, SD_BUS_ERROR_INVALID_ARGS);
	CU_ASSERT_EQUAL(f.n_set, 1);
	CU_ASSERT_EQUAL(bus_server_connections(f.server), 1);
	sd_bus_close_unref(bus);
	CU_ASSERT(SPIN(&f, bus_server_connections(f.server) == 0));
	CU_ASSERT_EQUAL(bus_server_dropped(f.server), 0);
	teardown(&f);
}

static void refusals_keep_name_and_sentence(void)
{
	static const struct {
		int r;
		const char *text, *name, *expected;
	} cases[] = {
		{ -EINVAL, "mode: no", BUS_ERROR_INVALID, "mode: no" },
		{ -ERANGE, "x", BUS_ERROR_INVALID, "x" },
		{ -ENOENT, "no such option \"mdoe\": did you mean mode?", BUS_ERROR_UNKNOWN,
		  "no such option \"mdoe\": did you mean mode?" },
		{ -EBUSY, "restart", BUS_ERROR_NEEDS_RESTART, "restart" },
		{ -EPERM, "no", BUS_ERROR_NOT_ALLOWED, "no" },
		{ -ENOMEM, "", BUS_ERROR_NO_MEMORY, "Cannot allocate memory" },
		{ -EIO, "", BUS_ERROR_FAILED, "Input/output error" },
		/* Two lines, a terminal's escape, a letter cut in half: none may cost the reply. */
		{ -EINVAL, "a\nb\x1b[31m\xc3", BUS_ERROR_INVALID, "a b [31m?" },
	};
	struct fixture f;
	sd_bus *bus;

	if (!setup(&f))
		return;
	bus = client_new(&f);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct answer *a;

		f.set_result = f.reload_result = cases[i].r;
		f.error_text = cases[i].text;
		a = call(&f, bus, BUS_INTERFACE, "SetOption", "k", "v");
		CU_ASSERT_STRING_EQUAL(a->name, cases[i].name);
		CU_ASSERT_STRING_EQUAL(a->text, cases[i].expected);
		a = call(&f, bus, BUS_INTERFACE, "Reload", NULL, NULL);
		CU_ASSERT_STRING_EQUAL(a->name, cases[i].name);
		CU_ASSERT_STRING_EQUAL(a->text, cases[i].expected);
	}
	sd_bus_close_unref(bus);
	teardown(&f);
}

static void connections_are_capped(void)
{
	int fds[BUS_CONNECTIONS_MAX], more;
	struct fixture f;
	size_t got = 0;

	if (!setup(&f))
		return;
	for (int i = 0; i < BUS_CONNECTIONS_MAX; i++)
		fds[i] = raw_connect(&f);
	more = raw_connect(&f);
	CU_ASSERT(SPIN(&f, drain(more, &got)));
	CU_ASSERT_EQUAL(got, 0);
	CU_ASSERT_EQUAL(bus_server_connections(f.server), BUS_CONNECTIONS_MAX);
	CU_ASSERT_EQUAL(bus_server_refused(f.server), 1);
	CU_ASSERT(raw_begin(&f, fds[17]));
	CU_ASSERT(raw_call_works(&f, fds[17]));
	close(more);
	close(fds[3]);
	CU_ASSERT(SPIN(&f, bus_server_connections(f.server) == BUS_CONNECTIONS_MAX - 1));
	fds[3] = raw_connect(&f);
	CU_ASSERT(raw_begin(&f, fds[3]));
	CU_ASSERT(raw_call_works(&f, fds[3]));
	for (int i = 0; i < BUS_CONNECTIONS_MAX; i++)
		close(fds[i]);
	CU_ASSERT(SPIN(&f, bus_server_connections(f.server) == 0));
	teardown(&f);
}

static void silent_clients_are_dropped(void)
{
	static const char *const starts[] = { "", "\0AUTH EXT", "\0AUTH\r\n" };
	static const size_t bytes[] = { 0, 9, 7 };
	struct fixture f;
	int idle, fds[3], half, nobegin;
	char text[512];
	size_t got = 0;

	if (!setup(&f))
		return;
	idle = raw_connect(&f);
	CU_ASSERT(raw_begin(&f, idle));
	bus_server_set_patience_ns(f.server, 100 * NSEC_PER_MSEC);
	for (int i = 0; i < 3; i++) {
		fds[i] = raw_connect(&f);
		CU_ASSERT(put(fds[i], starts[i], bytes[i]));
	}
	/* Half a request; and a BEGIN from one who never said who it is. */
	half = raw_connect(&f);
	CU_ASSERT(put(half, handshake, HANDSHAKE_BYTES));
	make_call(text, 1, "GetStatus", NULL, NULL);
	CU_ASSERT(put(half, text, 40));
	nobegin = raw_connect(&f);
	CU_ASSERT(put(nobegin, "\0BEGIN\r\n", 8));
	/* Not all at once need they be there: the first may be gone before the last one is seen. */
	CU_ASSERT(SPIN(&f, bus_server_dropped(f.server) == 5 && bus_server_connections(f.server) == 1));
	for (int i = 0; i < 3; i++) {
		CU_ASSERT(drain(fds[i], &got));
		close(fds[i]);
	}
	CU_ASSERT(drain(half, &got));
	CU_ASSERT(drain(nobegin, &got));
	close(half);
	close(nobegin);
	/* Idle between two requests is no fault, and each request starts the time anew. */
	CU_ASSERT(raw_call_works(&f, idle));
	CU_ASSERT(raw_call_works(&f, idle));
	close(idle);
	CU_ASSERT(SPIN(&f, bus_server_connections(f.server) == 0));
	teardown(&f);
}

static void long_requests_are_refused(void)
{
	static char text[2 * BUS_GATE_MESSAGE_MAX], value[BUS_GATE_MESSAGE_MAX + 64];
	struct fixture f;
	size_t n, got = 0, fits, sent = 0;
	int fd;

	if (!setup(&f))
		return;
	/* The longest that fits: all of a message but its value. */
	fits = BUS_GATE_MESSAGE_MAX - make_call(text, 1, "SetOption", "k", "");
	fd = raw_connect(&f);
	CU_ASSERT(raw_begin(&f, fd));
	memset(value, 'v', fits);
	n = make_call(text, 1, "SetOption", "k", value);
	CU_ASSERT_EQUAL(n, BUS_GATE_MESSAGE_MAX);
	CU_ASSERT(SPIN(&f, ({
		ssize_t k = sent < n ? send(fd, text + sent, n - sent, MSG_NOSIGNAL) : 0;

		sent += k > 0 ? (size_t)k : 0;
		f.n_set == 1;
	})));
	CU_ASSERT_EQUAL(f.value_bytes, fits);
	CU_ASSERT(SPIN(&f, drain(fd, &got) || got > 0));
	/* Several in a row: never more of them on their way to sd-bus than there is room for. */
	sent = 0;
	CU_ASSERT(SPIN(&f, ({
		ssize_t k = sent < 8 * n ? send(fd, text + sent % n, n - sent % n, MSG_NOSIGNAL) : 0;

		sent += k > 0 ? (size_t)k : 0;
		f.n_set == 9 || bus_server_dropped(f.server);
	})));
	CU_ASSERT_EQUAL(bus_server_dropped(f.server), 0);
	CU_ASSERT(SPIN(&f, drain(fd, &got) || got >= 9 * 24));
	value[fits] = 'v';
	make_call(text, 1, "SetOption", "k", value);
	CU_ASSERT(put(fd, text, 16));
	CU_ASSERT(SPIN(&f, drain(fd, &got)));
	CU_ASSERT_EQUAL(f.n_set, 9);
	CU_ASSERT_EQUAL(bus_server_dropped(f.server), 1);
	close(fd);
	fd = raw_connect(&f);
	CU_ASSERT(put(fd, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 27));
	CU_ASSERT(SPIN(&f, drain(fd, &got)));
	close(fd);
	CU_ASSERT(SPIN(&f, bus_server_connections(f.server) == 0));
	CU_ASSERT_EQUAL(bus_server_dropped(f.server), 2);
	teardown(&f);
}

static void hanging_up_in_mid_reply_hurts_nobody(void)
{
	struct fixture f;
	char text[512], some[1000];
	int fd, other;
	size_t n;

	if (!setup(&f))
		return;
	other = raw_connect(&f);
	CU_ASSERT(raw_begin(&f, other));
	f.status_bytes = 4 << 20;
	for (int i = 0; i < 20; i++) {
		int before = f.n_status;

		fd = raw_connect(&f);
		CU_ASSERT(raw_begin(&f, fd));
		n = make_call(text, 1, "GetStatus", NULL, NULL);
		CU_ASSERT(put(fd, text, n));
		CU_ASSERT(SPIN(&f, f.n_status > before));
		if (i % 2)
			CU_ASSERT(SPIN(&f, recv(fd, some, sizeof(some), MSG_DONTWAIT) > 0));
		close(fd);
		CU_ASSERT(SPIN(&f, bus_server_connections(f.server) == 1));
	}
	f.status_bytes = 100;
	CU_ASSERT(raw_call_works(&f, other));
	close(other);
	teardown(&f);
}

/* A BEGIN that sd-bus doesn't accept leaves it waiting, and it would do so busily once the client is gone. */
static void hanging_up_in_the_handshake_is_noticed(void)
{
	struct fixture f;
	char text[512];
	int fd;

	if (!setup(&f))
		return;
	fd = raw_connect(&f);
	CU_ASSERT(put(fd, "\0BEGIN\r\n", 8));
	CU_ASSERT(SPIN(&f, bus_server_connections(f.server) == 1));
	for (int i = 0; i < 10; i++)
		sd_event_run(f.event, 1000);
	CU_ASSERT_EQUAL(bus_server_connections(f.server), 1);
	close(fd);
	/* By far within its patience; the default action ends the program should it not be. */
	alarm(20);
	while (bus_server_connections(f.server) == 1)
		sd_event_run(f.event, 10000);
	alarm(0);
	CU_ASSERT_EQUAL(bus_server_dropped(f.server), 0);
	/* Asked, and gone at once: it is done nevertheless. */
	fd = raw_connect(&f);
	CU_ASSERT(raw_begin(&f, fd));
	CU_ASSERT(put(fd, text, make_call(text, 1, "SetOption", "mode", "observe")));
	close(fd);
	CU_ASSERT(SPIN(&f, f.n_set == 1));
	CU_ASSERT(SPIN(&f, bus_server_connections(f.server) == 0));
	teardown(&f);
}

static void unread_replies_do_not_pile_up(void)
{
	struct fixture f;
	char text[512];
	size_t n, asked = 0, got = 0;
	int fd;

	if (!setup(&f))
		return;
	bus_server_set_patience_ns(f.server, 300 * NSEC_PER_MSEC);
	f.status_bytes = 64 << 10;
	fd = raw_connect(&f);
	CU_ASSERT(raw_begin(&f, fd));
	n = make_call(text, 1, "GetStatus", NULL, NULL);
	/* Far more than is answered; and for as long as it takes. Nothing is read. */
	while (asked < 150 && send(fd, text, n, MSG_NOSIGNAL | MSG_DONTWAIT) > 0)
		asked++;
	CU_ASSERT(SPIN(&f, ({
		for (int i = 0; i < 50 && send(fd, text, n, MSG_NOSIGNAL | MSG_DONTWAIT) > 0; i++)
			asked++;
		bus_server_dropped(f.server) == 1;
	})));
	CU_ASSERT(asked > 100);
	/* What the kernel keeps for the client, which is bounded, and one. */
	CU_ASSERT(f.n_status <= 10);
	CU_ASSERT(SPIN(&f, drain(fd, &got)));
	CU_ASSERT(got <= 10 * (64 << 10));
	close(fd);
	teardown(&f);
}

static void slow_and_hasty_clients_are_served(void)
{
	struct fixture f;
	char text[2048];
	size_t n, got = 0;
	int fd;

	if (!setup(&f))
		return;
	/* Byte by byte. */
	memcpy(text, handshake, HANDSHAKE_BYTES);
	n = HANDSHAKE_BYTES + make_call(text + HANDSHAKE_BYTES, 1, "GetStatus", NULL, NULL);
	fd = raw_connect(&f);
	for (size_t i = 0; i < n; i++) {
		CU_ASSERT(put(fd, text + i, 1));
		sd_event_run(f.event, 0);
		sd_event_run(f.event, 0);
	}
	CU_ASSERT(SPIN(&f, drain(fd, &got) || (f.n_status == 1 && got > f.status_bytes + 40)));
	close(fd);
	/* All at once, then no more to send: the replies come still, then the end. */
	for (uint32_t i = 2; i < 5; i++)
		n += make_call(text + n, i, "GetStatus", NULL, NULL);
	fd = raw_connect(&f);
	CU_ASSERT(put(fd, text, n));
	CU_ASSERT_EQUAL(shutdown(fd, SHUT_WR), 0);
	got = 0;
	CU_ASSERT(SPIN(&f, drain(fd, &got)));
	CU_ASSERT_EQUAL(f.n_status, 5);
	CU_ASSERT(got > 4 * (f.status_bytes + 40));
	CU_ASSERT_EQUAL(bus_server_dropped(f.server), 0);
	close(fd);
	/* One that can't be answered, as it wants none. */
	fd = raw_connect(&f);
	CU_ASSERT(raw_begin(&f, fd));
	n = make_call(text, 9, "GetStatus", NULL, NULL);
	text[2] = 1; /* NO_REPLY_EXPECTED */
	CU_ASSERT(put(fd, text, n));
	CU_ASSERT(SPIN(&f, f.n_status == 6));
	CU_ASSERT(raw_call_works(&f, fd));
	close(fd);
	teardown(&f);
}

/* A descriptor sent along is closed, not kept. */
static void descriptors_are_not_taken(void)
{
	struct fixture f;
	int fd, ends[2];
	char text[512], control[CMSG_SPACE(sizeof(int))] = { 0 }, c;
	struct iovec iov = { .iov_base = text };
	struct msghdr mh = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)
	};
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&mh);

	if (!setup(&f))
		return;
	fd = raw_connect(&f);
	CU_ASSERT(raw_begin(&f, fd));
	CU_ASSERT_EQUAL(pipe2(ends, O_NONBLOCK), 0);
	iov.iov_len = make_call(text, 1, "GetStatus", NULL, NULL);
	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_RIGHTS;
	cmsg->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(cmsg), &ends[1], sizeof(int));
	CU_ASSERT_EQUAL(sendmsg(fd, &mh, MSG_NOSIGNAL), (ssize_t)iov.iov_len);
	close(ends[1]);
	CU_ASSERT(SPIN(&f, f.n_status == 1));
	CU_ASSERT_EQUAL(read(ends[0], &c, 1), 0);
	close(ends[0]);
	close(fd);
	teardown(&f);
}

static void rubbish_hurts_nobody(void)
{
	unsigned int seed = 11;
	struct fixture f;
	char text[1024];
	size_t got = 0;
	int good;

	if (!setup(&f))
		return;
	good = raw_connect(&f);
	CU_ASSERT(raw_begin(&f, good));
	bus_server_set_patience_ns(f.server, 20 * NSEC_PER_MSEC);
	for (int round = 0; round < 150; round++) {
		int fd = raw_connect(&f);
		size_t n = HANDSHAKE_BYTES;

		memcpy(text, handshake, HANDSHAKE_BYTES);
		for (int i = 0; i < 2; i++)
			n += make_call(text + n, 1, "SetOption", "mode", "promote");
		/* Some right messages with a few bytes changed, some nothing but noise. */
		for (int i = 0; i < 1 + round % 4; i++)
			text[(size_t)rand_r(&seed) % n] = (char)rand_r(&seed);
		if (round % 5 == 0)
			for (size_t i = HANDSHAKE_BYTES * (round % 2); i < n; i++)
				text[i] = (char)rand_r(&seed);
		(void)send(fd, text, n, MSG_NOSIGNAL);
		if (round % 3 == 0)
			shutdown(fd, SHUT_WR);
		sd_event_run(f.event, 1000);
		if (round % 7 == 0)
			CU_ASSERT(raw_call_works(&f, good));
		drain(fd, &got);
		close(fd);
	}
	CU_ASSERT(SPIN(&f, bus_server_connections(f.server) == 1));
	CU_ASSERT(raw_call_works(&f, good));
	close(good);
	teardown(&f);
}

static void socket_is_private_and_cleaned_up(void)
{
	struct fixture f;
	struct stat st;
	struct bus_server *second = NULL;
	char other[192], long_path[256];
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd;

	if (!setup(&f))
		return;
	CU_ASSERT_EQUAL(stat(f.path, &st), 0);
	CU_ASSERT(S_ISSOCK(st.st_mode));
	CU_ASSERT_EQUAL(st.st_mode & 07777, 0600);
	snprintf(other, sizeof(other), "%s/run", f.folder);
	CU_ASSERT_EQUAL(stat(other, &st), 0);
	CU_ASSERT_EQUAL(st.st_mode & 07777, 0755);
	/* A second daemon, also when it can't see the lock. */
	CU_ASSERT_EQUAL(bus_server_new(f.event, f.path, "", &ops, &f, &second), -EADDRINUSE);
	snprintf(other, sizeof(other), "%s.lock", f.path);
	CU_ASSERT_EQUAL(unlink(other), 0);
	CU_ASSERT_EQUAL(bus_server_new(f.event, f.path, "", &ops, &f, &second), -EADDRINUSE);
	fd = raw_connect(&f);
	CU_ASSERT(raw_begin(&f, fd));
	CU_ASSERT(raw_call_works(&f, fd));
	close(fd);
	bus_server_free(f.server);
	CU_ASSERT_EQUAL(access(f.path, F_OK), -1);

	/* What a daemon that was killed leaves behind. */
	memcpy(address.sun_path, f.path, strlen(f.path));
	fd = socket(AF_UNIX, SOCK_STREAM, 0);
	CU_ASSERT_EQUAL(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	CU_ASSERT_EQUAL(listen(fd, 1), 0);
	close(fd);
	CU_ASSERT_EQUAL(bus_server_new(f.event, f.path, "", &ops, &f, &f.server), 0);
	/* Another one took the name in the meantime: it stays. */
	CU_ASSERT_EQUAL(unlink(f.path), 0);
	fd = open(f.path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	close(fd);
	bus_server_free(f.server);
	CU_ASSERT_EQUAL(access(f.path, F_OK), 0);
	/* And a file that is no socket isn't ours to remove. */
	f.server = NULL;
	CU_ASSERT_EQUAL(bus_server_new(f.event, f.path, "", &ops, &f, &f.server), -EEXIST);
	CU_ASSERT_EQUAL(access(f.path, F_OK), 0);
	unlink(f.path);
	memset(long_path, 'x', sizeof(long_path) - 1);
	long_path[0] = '/';
	long_path[sizeof(long_path) - 1] = '\0';
	CU_ASSERT_EQUAL(bus_server_new(f.event, long_path, "", &ops, &f, &f.server), -ENAMETOOLONG);
	CU_ASSERT_EQUAL(bus_server_new(f.event, "/proc/pghot/bus", "", &ops, &f, &f.server), -ENOENT);
	CU_ASSERT_PTR_NULL(f.server);
	teardown(&f);
}

/* A client with that user and groups: 'y' when it was served, 'n' when turned away, '-' when it couldn't connect. */
static char served_as(struct fixture *f, uid_t uid, gid_t gid, gid_t supplementary)
{
	int ends[2];
	char result = '?';
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
		return '?';
	pid = fork();
	if (pid == 0) {
		struct timeval patience = { .tv_sec = 20 };
		char buf[64], c = '-';
		int fd;

		if (setgroups(supplementary != (gid_t)-1, &supplementary) < 0 || setgid(gid) < 0 || setuid(uid) < 0)
			_exit(1);
		fd = raw_connect(f);
		if (fd >= 0) {
			fcntl(fd, F_SETFL, 0);
			setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
			(void)!send(fd, handshake, HANDSHAKE_BYTES, MSG_NOSIGNAL);
			c = recv(fd, buf, sizeof(buf), 0) > 0 ? 'y' : 'n';
		}
		(void)!write(ends[1], &c, 1);
		_exit(0);
	}
	close(ends[1]);
	SPIN(f, read(ends[0], &result, 1) >= 0);
	close(ends[0]);
	waitpid(pid, NULL, 0);
	return result;
}

static void only_root_and_the_group_may(void)
{
	struct group *group;
	struct fixture f;
	struct stat st;

	if (geteuid() != 0)
		return test_skip("needs root to become other users");
	group = getgrnam("adm");
	if (!group)
		return test_skip("there is no group adm");
	if (!setup(&f))
		return;
	bus_server_free(f.server);
	CU_ASSERT_EQUAL(bus_server_new(f.event, f.path, "adm", &ops, &f, &f.server), 0);
	CU_ASSERT_EQUAL(stat(f.path, &st), 0);
	CU_ASSERT_EQUAL(st.st_mode & 07777, 0660);
	CU_ASSERT_EQUAL(st.st_uid, 0);
	CU_ASSERT_EQUAL(st.st_gid, group->gr_gid);
	CU_ASSERT_EQUAL(served_as(&f, 0, 0, (gid_t)-1), 'y');
	CU_ASSERT_EQUAL(served_as(&f, NOBODY, group->gr_gid, (gid_t)-1), 'y');
	CU_ASSERT_EQUAL(served_as(&f, NOBODY, NOBODY, group->gr_gid), 'y');
	CU_ASSERT_EQUAL(served_as(&f, NOBODY, NOBODY, (gid_t)-1), '-');
	/* Should the file's mode ever be wrong, the daemon looks itself. */
	CU_ASSERT_EQUAL(chmod(f.path, 0666), 0);
	CU_ASSERT_EQUAL(served_as(&f, NOBODY, NOBODY, (gid_t)-1), 'n');
	CU_ASSERT_EQUAL(served_as(&f, NOBODY, NOBODY, group->gr_gid), 'y');
	CU_ASSERT_EQUAL(bus_server_refused(f.server), 1);
	bus_server_free(f.server);
	CU_ASSERT_EQUAL(bus_server_new(f.event, f.path, "no-such-group", &ops, &f, &f.server), 0);
	CU_ASSERT_EQUAL(stat(f.path, &st), 0);
	CU_ASSERT_EQUAL(st.st_mode & 07777, 0600);
	CU_ASSERT_EQUAL(served_as(&f, NOBODY, NOBODY, (gid_t)-1), '-');
	CU_ASSERT_EQUAL(chmod(f.path, 0666), 0);
	CU_ASSERT_EQUAL(served_as(&f, NOBODY, NOBODY, group->gr_gid), 'n');
	teardown(&f);
}

/* sd-bus by itself would wait for each of them. */
static void clients_do_not_hold_up_the_end(void)
{
	struct fixture f;
	char text[512];
	size_t n;
	int silent, half, deaf;

	if (!setup(&f))
		return;
	silent = raw_connect(&f);
	half = raw_connect(&f);
	CU_ASSERT(put(half, "\0AUTH EXTERNAL\r\n", 16));
	deaf = raw_connect(&f);
	CU_ASSERT(raw_begin(&f, deaf));
	f.status_bytes = 4 << 20;
	n = make_call(text, 1, "GetStatus", NULL, NULL);
	CU_ASSERT(put(deaf, text, n));
	CU_ASSERT(SPIN(&f, f.n_status == 1 && bus_server_connections(f.server) == 3));
	close(silent);
	/* The default action ends the program, should it not get out by itself. */
	alarm(20);
	CU_ASSERT(sd_event_exit(f.event, 7) >= 0);
	CU_ASSERT_EQUAL(sd_event_loop(f.event), 7);
	alarm(0);
	CU_ASSERT_EQUAL(bus_server_connections(f.server), 0);
	close(half);
	close(deaf);
	teardown(&f);
}

static void out_of_descriptors_is_survived(void)
{
	struct rlimit limit, tight;
	struct fixture f;
	size_t got = 0;
	int waiting, fd;

	if (!setup(&f))
		return;
	waiting = raw_connect(&f);
	CU_ASSERT_EQUAL(getrlimit(RLIMIT_NOFILE, &limit), 0);
	tight = limit;
	tight.rlim_cur = (rlim_t)waiting + 1;
	CU_ASSERT_EQUAL(setrlimit(RLIMIT_NOFILE, &tight), 0);
	for (int i = 0; i < 20; i++)
		sd_event_run(f.event, 0);
	CU_ASSERT_EQUAL(bus_server_connections(f.server), 0);
	/* Enough to accept, not to serve: that client is turned away. */
	tight.rlim_cur++;
	CU_ASSERT_EQUAL(setrlimit(RLIMIT_NOFILE, &tight), 0);
	CU_ASSERT(SPIN(&f, drain(waiting, &got)));
	CU_ASSERT_EQUAL(bus_server_connections(f.server), 0);
	CU_ASSERT_EQUAL(setrlimit(RLIMIT_NOFILE, &limit), 0);
	fd = raw_connect(&f);
	CU_ASSERT(raw_begin(&f, fd));
	CU_ASSERT(raw_call_works(&f, fd));
	close(fd);
	close(waiting);
	teardown(&f);
}

TEST_MAIN(bus, TEST(client_sees_the_object), TEST(refusals_keep_name_and_sentence), TEST(connections_are_capped),
	  TEST(silent_clients_are_dropped), TEST(long_requests_are_refused), TEST(hanging_up_in_mid_reply_hurts_nobody),
	  TEST(hanging_up_in_the_handshake_is_noticed), TEST(unread_replies_do_not_pile_up),
	  TEST(slow_and_hasty_clients_are_served), TEST(descriptors_are_not_taken), TEST(rubbish_hurts_nobody),
	  TEST(socket_is_private_and_cleaned_up), TEST(only_root_and_the_group_may),
	  TEST(clients_do_not_hold_up_the_end), TEST(out_of_descriptors_is_survived))
