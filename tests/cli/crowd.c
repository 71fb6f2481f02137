/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Many clients of the control socket at once, of which some behave badly:
 *
 *     crowd SOCKET CLIENTS SECONDS KIND...
 *
 * Clients are of the kinds by turns, and each begins anew when it is done:
 *
 *     ask      asks for the status and reads the answer
 *     leave    asks, and hangs up once a part of the answer is there
 *     cut      hangs up in the middle of its request
 *     slow     asks, and reads a few bytes of the answer now and then
 *     large    announces a request of 100 MiB
 *     silent   connects and says nothing
 *
 * At the end it prints for each kind how often it was answered in full, and how often it was turned away before; what
 * the daemon does meanwhile is for others to look at. Exit: 0, 1 where it could not go on, 64. Written without sd-bus,
 * which can't do any of this.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define CLIENTS_MAX 2000
#define SLOW_BYTES  64
#define SLOW_MS     50
#define AGAIN_MS    20 /* after it was turned away */

enum kind { ASK, LEAVE, CUT, SLOW, LARGE, SILENT, KINDS };

static const char *const kind_name[KINDS] = { "ask", "leave", "cut", "slow", "large", "silent" };

struct client {
	int fd; /* -1: begins anew at @wait_ms */
	enum kind kind;
	uint64_t wait_ms;
	bool said;
	uint8_t head[512];  /* of what came */
	size_t got, wanted; /* bytes of all that comes; wanted 0: not known yet */
};

static struct client clients[CLIENTS_MAX];
static struct sockaddr_un address = { .sun_family = AF_UNIX };
static unsigned long answered[KINDS], turned_away[KINDS];
static uint8_t request[1024];
static size_t request_len, hello_len;

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static void put(const void *bytes, size_t n)
{
	memcpy(request + request_len, bytes, n);
	request_len += n;
}

static void put_u32(uint32_t v)
{
	put(&v, sizeof(v));
}

/* Up to the next multiple of 8 of the message, which begins at @from. */
static void align(size_t from)
{
	while ((request_len - from) % 8)
		request[request_len++] = 0;
}

static void put_field(size_t from, uint8_t code, char type, const char *text)
{
	const uint8_t head[] = { code, 1, (uint8_t)type, 0 };

	align(from);
	put(head, sizeof(head));
	put_u32((uint32_t)strlen(text));
	put(text, strlen(text) + 1);
}

/* The handshake and a call of GetStatus: D-Bus Specification, "Authentication Protocol" and "Message Format". */
static void make_request(void)
{
	char uid[16], line[80];
	size_t from, fields, used;
	uint32_t n;

	snprintf(uid, sizeof(uid), "%u", (unsigned int)getuid());
	used = (size_t)snprintf(line, sizeof(line), "%cAUTH EXTERNAL ", 0);
	for (const char *p = uid; *p; p++)
		used += (size_t)snprintf(line + used, sizeof(line) - used, "%02x", (unsigned int)*p);
	used += (size_t)snprintf(line + used, sizeof(line) - used, "\r\nBEGIN\r\n");
	put(line, used);
	hello_len = from = request_len;
	put("l\1\0\1", 4); /* little-endian, a call, no flags, version 1 */
	put_u32(0);
	put_u32(1);
	put_u32(0);
	fields = request_len;
	put_field(from, 1, 'o', "/org/pghot1");
	put_field(from, 2, 's', "org.pghot1.Manager");
	put_field(from, 3, 's', "GetStatus");
	n = (uint32_t)(request_len - fields);
	memcpy(request + fields - sizeof(n), &n, sizeof(n));
	align(from);
}

static void end(struct client *c, bool done)
{
	close(c->fd);
	c->fd = -1;
	c->wait_ms = now_ms() + (done ? 0 : AGAIN_MS);
	if (done)
		answered[c->kind]++;
	else
		turned_away[c->kind]++;
}

static void begin(struct client *c)
{
	c->said = false;
	c->got = c->wanted = 0;
	c->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (c->fd < 0) {
		perror("crowd: socket");
		exit(1);
	}
	if (connect(c->fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
		end(c, false);
}

/* It all fits into an empty socket. */
static void say(struct client *c)
{
	uint8_t bytes[sizeof(request)];
	size_t len = c->kind == CUT ? hello_len + 20 : request_len;
	const uint32_t much = 100u << 20;

	c->said = true;
	if (c->kind == SILENT)
		return;
	memcpy(bytes, request, sizeof(bytes));
	if (c->kind == LARGE)
		memcpy(bytes + hello_len + 4, &much, sizeof(much));
	if (send(c->fd, bytes, len, MSG_NOSIGNAL) != (ssize_t)len)
		end(c, false);
	else if (c->kind == CUT)
		end(c, true);
}

/* How long all that comes will be: the line of the handshake, then one message. */
static void look_at_head(struct client *c)
{
	size_t have = c->got < sizeof(c->head) ? c->got : sizeof(c->head), from;
	const uint8_t *line = memchr(c->head, '\n', have);
	uint32_t body, fields;

	if (!line)
		return;
	from = (size_t)(line + 1 - c->head);
	if (have < from + 16)
		return;
	memcpy(&body, c->head + from + 4, sizeof(body));
	memcpy(&fields, c->head + from + 12, sizeof(fields));
	c->wanted = from + 16 + (fields + 7) / 8 * 8 + body;
}

static void listen_to(struct client *c)
{
	uint8_t bytes[16384];
	ssize_t n = recv(c->fd, bytes, c->kind == SLOW ? SLOW_BYTES : sizeof(bytes), 0);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		end(c, false);
		return;
	}
	if (c->got < sizeof(c->head))
		memcpy(c->head + c->got, bytes,
		       (size_t)n < sizeof(c->head) - c->got ? (size_t)n : sizeof(c->head) - c->got);
	c->got += (size_t)n;
	if (c->wanted == 0)
		look_at_head(c);
	if (c->wanted > 0 && (c->got >= c->wanted || c->kind == LEAVE))
		end(c, true);
	else if (c->kind == SLOW)
		c->wait_ms = now_ms() + SLOW_MS;
}

static void turn(size_t n)
{
	static struct pollfd fds[CLIENTS_MAX];
	uint64_t now = now_ms();

	for (size_t i = 0; i < n; i++) {
		struct client *c = &clients[i];

		if (c->fd < 0 && now >= c->wait_ms)
			begin(c);
		fds[i] = (struct pollfd){ .fd = c->fd };
		if (c->fd >= 0 && !c->said)
			fds[i].events = POLLOUT;
		else if (c->fd >= 0 && (c->kind != SLOW || now >= c->wait_ms))
			fds[i].events = POLLIN;
	}
	if (poll(fds, n, AGAIN_MS) < 0 && errno != EINTR) {
		perror("crowd: poll");
		exit(1);
	}
	for (size_t i = 0; i < n; i++) {
		if (clients[i].fd < 0 || clients[i].fd != fds[i].fd || !fds[i].revents)
			continue;
		if (!clients[i].said)
			say(&clients[i]);
		else
			listen_to(&clients[i]);
	}
}

static enum kind kind_of(const char *name)
{
	for (int k = 0; k < KINDS; k++)
		if (strcmp(kind_name[k], name) == 0)
			return (enum kind)k;
	fprintf(stderr, "crowd: no kind %s\n", name);
	exit(64);
}

int main(int argc, char **argv)
{
	struct rlimit files;
	uint64_t until;
	size_t n;

	if (argc < 5 || strlen(argv[1]) >= sizeof(address.sun_path) || atoi(argv[2]) < 1 || atoi(argv[2]) > CLIENTS_MAX)
		return 64;
	strcpy(address.sun_path, argv[1]);
	n = (size_t)atoi(argv[2]);
	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	for (size_t i = 0; i < n; i++)
		clients[i] = (struct client){ .fd = -1, .kind = kind_of(argv[4 + i % (size_t)(argc - 4)]) };
	make_request();
	until = now_ms() + (uint64_t)atoi(argv[3]) * 1000;
	while (now_ms() < until)
		turn(n);
	for (int k = 0; k < KINDS; k++)
		if (answered[k] || turned_away[k])
			printf("%s: %lu answered, %lu turned away\n", kind_name[k], answered[k], turned_away[k]);
	return 0;
}
