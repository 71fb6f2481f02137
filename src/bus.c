/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A client's bytes come in through bus_gate and go on to sd-bus, a whole message at a time, over a socket pair; replies
 * go straight out to the client. The next message is let through when the reply to the last one has left sd-bus. So
 * nothing piles up for a client that asks without reading, and a message that is too long is refused by its header.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <systemd/sd-bus.h>
#include <unistd.h>

#include "bus.h"
#include "bus_gate.h"
#include "bus_listen.h"
#include "bus_manager.h"
#include "cleanup.h"
#include "clock.h"
#include "fsroot.h"
#include "log.h"

/* Accepted in one go, before others on the main thread get their turn. */
#define ACCEPT_BATCH 16
/* Out of descriptors, the listening socket stays readable: look again after this time rather than spin. */
#define ACCEPT_PAUSE_USEC 1000000
/* Most that the kernel keeps for a client; sd-bus alone would make it 8 MiB. A status is some 10 KiB. */
#define SEND_BUFFER_BYTES (256 * 1024)
/*
 * What a client asked for before it went is still done, and that takes no longer. sd-bus takes a hang-up for input, so
 * it is busy with looking for some in the meantime.
 */
#define GONE_USEC 100000
/* One line about refused and dropped clients in this time, with the number of those not mentioned. */
#define COMPLAIN_EVERY_NS (10 * NSEC_PER_SEC)

enum step {
	STEP_HANDSHAKE, /* lines of the client go to sd-bus as they come */
	STEP_BEGIN,     /* sd-bus has the last of them */
	STEP_REQUEST,   /* nothing is going on, or a message is coming in */
	STEP_REPLY,     /* sd-bus has a message, or its reply is going out */
};

struct connection {
	struct connection *prev, *next;
	struct bus_server *server;
	struct bus_manager manager;
	sd_bus *bus;
	int fd;      /* from the client; sd-bus has a duplicate to write to */
	int feed_fd; /* to sd-bus */
	sd_event_source *input, *patience;
	uint64_t patience_ns;
	struct bus_gate gate;
	enum step step;
	bool handled; /* sd-bus has dispatched the message */
	bool eof;     /* the client sends no more */
	bool armed;   /* patience runs */
	bool gone;    /* it doesn't read any more either */
	bool dead;    /* to be freed as soon as nobody is on its stack */
};

struct bus_server {
	sd_event *event;
	struct bus_listen listen;
	char *path;
	gid_t gid; /* -1: none */
	const struct bus_ops *ops;
	void *ctx;
	struct fsroot root;
	sd_event_source *accept, *accept_pause, *sweep, *exit;
	struct connection *connections;
	size_t n_connections;
	uint64_t patience_ns;
	uint64_t refused, dropped;
	uint64_t complained_ns, unmentioned;
};

__attribute__((format(printf, 3, 4))) static void complain(struct bus_server *server, const struct bus_peer *peer,
							   const char *fmt, ...)
{
	uint64_t now_ns = clock_now_ns(&clock_monotonic);
	char what[256], more[48] = "";
	va_list ap;

	if (server->complained_ns && now_ns - server->complained_ns < COMPLAIN_EVERY_NS) {
		server->unmentioned++;
		return;
	}
	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	if (server->unmentioned)
		snprintf(more, sizeof(more), " (and %llu more before)", (unsigned long long)server->unmentioned);
	log_notice("control socket: process %d (%s) of user %u %s%s", peer->pid, peer->comm, peer->uid, what, more);
	server->complained_ns = now_ns;
	server->unmentioned = 0;
}

static void arm(struct connection *c)
{
	if (c->armed)
		return;
	sd_event_source_set_time_relative(c->patience, c->patience_ns / NSEC_PER_USEC);
	sd_event_source_set_enabled(c->patience, SD_EVENT_ONESHOT);
	c->armed = true;
}

static void disarm(struct connection *c)
{
	sd_event_source_set_enabled(c->patience, SD_EVENT_OFF);
	c->armed = false;
}

__attribute__((format(printf, 2, 3))) static void drop(struct connection *c, const char *fmt, ...)
{
	char what[192];
	va_list ap;

	if (c->dead)
		return;
	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	complain(c->server, &c->manager.peer, "is dropped: it %s", what);
	c->server->dropped++;
	c->dead = true;
}

static int on_patience(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct connection *c = userdata;

	(void)source, (void)usec;
	if (c->gone) {
		c->dead = true;
		return 0;
	}
	drop(c, sd_bus_is_ready(c->bus) > 0 ? "took too long to send a request or to read the reply"
					    : "took too long to say who it is");
	return 0;
}

/* Give sd-bus the unit of @n bytes. It has room: all of the last one is read, and one is no more than the buffer. */
static void feed(struct connection *c, size_t n)
{
	bool begun = c->gate.begun;
	ssize_t sent = send(c->feed_fd, c->gate.bytes, n, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (sent != (ssize_t)n) {
		drop(c, "could not be served: %s", sent < 0 ? strerror(errno) : "no room");
		return;
	}
	bus_gate_take(&c->gate, n);
	c->handled = false;
	if (begun)
		c->step = STEP_REPLY;
	else if (c->gate.begun)
		c->step = STEP_BEGIN;
}

static bool takes_input(const struct connection *c)
{
	return (c->step == STEP_HANDSHAKE || c->step == STEP_REQUEST) && !c->dead;
}

static void receive(struct connection *c)
{
	void *room;
	ssize_t n = bus_gate_room(&c->gate, &room);

	if (n < 0) {
		drop(c, "could not be served: out of memory");
		return;
	}
	/* Descriptors that a client may send along are closed by the kernel, as nobody asks for them here. */
	n = recv(c->fd, room, (size_t)n, MSG_DONTWAIT);
	if (n > 0)
		bus_gate_added(&c->gate, (size_t)n);
	else if (n == 0 || (errno != EAGAIN && errno != EINTR))
		c->eof = true;
}

/* Move on as far as it goes without waiting. */
static void pump(struct connection *c)
{
	while (takes_input(c)) {
		size_t had = c->gate.n;
		ssize_t n = bus_gate_unit(&c->gate);

		if (had > 0)
			arm(c);
		if (n > 0) {
			feed(c, (size_t)n);
		} else if (n < 0) {
			drop(c, n == -EMSGSIZE ? "sent a request that is too long" : "sent what is no D-Bus message");
		} else {
			if (!c->eof)
				receive(c);
			if (c->gate.n == had)
				break;
		}
	}
	/* A hang-up is reported for as long as the source is on, whatever events it is for. */
	sd_event_source_set_io_events(c->input, takes_input(c) ? EPOLLIN : 0);
	sd_event_source_set_enabled(c->input, c->eof || c->gone || c->dead ? SD_EVENT_OFF : SD_EVENT_ON);
}

static int on_input(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct connection *c = userdata;

	(void)fd, (void)revents;
	if (!takes_input(c)) {
		/* Nothing was waited for, so it is the hang-up. */
		c->gone = true;
		sd_event_source_set_enabled(source, SD_EVENT_OFF);
		sd_event_source_set_time_relative(c->patience, GONE_USEC);
		return 0;
	}
	pump(c);
	return 0;
}

/* sd-bus calls it for each message, before anything else is done with it. */
static int on_message(sd_bus_message *m, void *userdata, sd_bus_error *ret_error)
{
	(void)m, (void)ret_error;
	((struct connection *)userdata)->handled = true;
	return 0;
}

/* Not while one of its own callbacks runs. Accepts one that is half made. */
static void connection_free(struct connection *c)
{
	sd_event_source_disable_unref(c->input);
	sd_event_source_disable_unref(c->patience);
	/* Closes both of its descriptors, and does not wait for what is unsent. */
	sd_bus_close_unref(c->bus);
	if (c->fd >= 0)
		close(c->fd);
	if (c->feed_fd >= 0)
		close(c->feed_fd);
	bus_gate_done(&c->gate);
	free(c);
}

static void connection_remove(struct connection *c)
{
	struct bus_server *server = c->server;

	if (c->prev)
		c->prev->next = c->next;
	else
		server->connections = c->next;
	if (c->next)
		c->next->prev = c->prev;
	server->n_connections--;
	connection_free(c);
}

/* How far sd-bus has come with what it was given: it has no callback for "sent", so it is looked at. */
static void follow_up(struct connection *c)
{
	uint64_t unsent = 1;
	bool done = false;

	if (sd_bus_is_open(c->bus) <= 0) {
		if (!c->eof)
			drop(c, c->step == STEP_HANDSHAKE ? "did not finish the handshake"
							  : "hung up before its reply, or broke the protocol");
		c->dead = true;
		return;
	}
	if (c->step == STEP_BEGIN)
		done = sd_bus_is_ready(c->bus) > 0;
	else if (c->step == STEP_REPLY)
		done = c->handled && sd_bus_get_n_queued_write(c->bus, &unsent) >= 0 && unsent == 0;
	if (done) {
		c->step = STEP_REQUEST;
		disarm(c);
		pump(c);
	}
	if (c->eof)
		c->dead = true;
}

static int on_sweep(sd_event_source *source, void *userdata)
{
	struct bus_server *server = userdata;
	struct connection *next;

	(void)source;
	for (struct connection *c = server->connections; c; c = next) {
		next = c->next;
		if (!c->dead)
			follow_up(c);
		if (c->dead)
			connection_remove(c);
	}
	return 0;
}

static void close_connections(struct bus_server *server)
{
	while (server->connections)
		connection_remove(server->connections);
}

/*
 * The loop ends. sd-bus has an exit handler of its own for each connection, which waits for the handshake and for what
 * is unsent: a client that does nothing would hold up the daemon's end. So they are closed before those run.
 */
static int on_exit_event(sd_event_source *source, void *userdata)
{
	(void)source;
	close_connections(userdata);
	return 0;
}

/* sd-bus with one end of a socket pair to read from and the client to write to. */
static int connect_bus(struct connection *c)
{
	int pair[2] = { -1, -1 }, out = -1, r;
	int bytes = 2 * BUS_GATE_MESSAGE_MAX;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		return -errno;
	c->feed_fd = pair[1];
	/* Whatever the system's default is: feed() counts on room for a whole message. */
	setsockopt(c->feed_fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
	out = fcntl(c->fd, F_DUPFD_CLOEXEC, 3);
	r = out < 0 ? -errno : sd_bus_new(&c->bus);
	if (r >= 0)
		r = sd_bus_set_fd(c->bus, pair[0], out);
	if (r < 0) {
		close(pair[0]);
		if (out >= 0)
			close(out);
		return r;
	}
	if ((r = sd_bus_set_server(c->bus, true, SD_ID128_NULL)) < 0 || (r = sd_bus_set_anonymous(c->bus, true)) < 0 ||
	    (r = sd_bus_set_trusted(c->bus, true)) < 0 || (r = sd_bus_negotiate_fds(c->bus, false)) < 0)
		return r;
	return 0;
}

static int start_bus(struct connection *c)
{
	int bytes = SEND_BUFFER_BYTES, r;

	if ((r = sd_bus_add_filter(c->bus, NULL, on_message, c)) < 0 ||
	    (r = sd_bus_add_object_vtable(c->bus, NULL, BUS_OBJECT, BUS_INTERFACE, bus_manager_vtable, &c->manager)) <
		    0 ||
	    (r = sd_bus_start(c->bus)) < 0 ||
	    (r = sd_bus_attach_event(c->bus, c->server->event, SD_EVENT_PRIORITY_NORMAL)) < 0)
		return r;
	/* After sd_bus_start(), which sets its own. */
	setsockopt(c->fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
	return 0;
}

/* Takes over @fd, also when it fails. */
static int connection_add(struct bus_server *server, const struct bus_peer *peer, int fd)
{
	struct connection *c = calloc(1, sizeof(*c));
	int r;

	if (!c) {
		close(fd);
		return -ENOMEM;
	}
	*c = (struct connection){
		.server = server,
		.manager = { .ops = server->ops, .ctx = server->ctx, .peer = *peer },
		.patience_ns = server->patience_ns,
		.fd = fd,
		.feed_fd = -1,
	};
	if ((r = connect_bus(c)) < 0 || (r = start_bus(c)) < 0 ||
	    (r = sd_event_add_io(server->event, &c->input, c->fd, EPOLLIN, on_input, c)) < 0 ||
	    (r = sd_event_add_time_relative(server->event, &c->patience, CLOCK_MONOTONIC,
					    c->patience_ns / NSEC_PER_USEC, 0, on_patience, c)) < 0) {
		connection_free(c);
		return r;
	}
	c->armed = true;
	c->next = server->connections;
	if (c->next)
		c->next->prev = c;
	server->connections = c;
	server->n_connections++;
	return 0;
}

static bool in_supplementary_groups(int fd, gid_t gid)
{
	gid_t few[64];
	_cleanup_free_ gid_t *many = NULL;
	gid_t *groups = few;
	socklen_t bytes = sizeof(few);

	/* Those that the client had when it connected, unlike /proc of a pid that may be another's by now. */
	if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, few, &bytes) < 0) {
		if (errno != ERANGE)
			return false;
		groups = many = malloc(bytes);
		if (!many || getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, many, &bytes) < 0)
			return false;
	}
	for (size_t i = 0; i < bytes / sizeof(gid_t); i++)
		if (groups[i] == gid)
			return true;
	return false;
}

static bool may_use(const struct bus_server *server, int fd, struct bus_peer *ret)
{
	struct ucred cred;
	socklen_t bytes = sizeof(cred);

	char comm[32];

	*ret = (struct bus_peer){ .uid = (uint32_t)-1, .gid = (uint32_t)-1, .comm = "?" };
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &bytes) < 0)
		return false;
	ret->uid = cred.uid;
	ret->gid = cred.gid;
	ret->pid = cred.pid;
	if (cred.pid > 0 && fsroot_read(&server->root, comm, sizeof(comm), "proc/%d/comm", cred.pid) > 0)
		snprintf(ret->comm, sizeof(ret->comm), "%.15s", comm);
	bus_manager_make_plain(ret->comm, ' ');
	if (cred.uid == 0 || cred.uid == geteuid())
		return true;
	return server->gid != (gid_t)-1 && (cred.gid == server->gid || in_supplementary_groups(fd, server->gid));
}

static void welcome(struct bus_server *server, int fd)
{
	struct bus_peer peer;
	bool allowed = may_use(server, fd, &peer);
	int r;

	if (!allowed || server->n_connections >= BUS_CONNECTIONS_MAX) {
		server->refused++;
		complain(server, &peer, "is refused: %s",
			 allowed ? "too many are connected" : "it is neither root nor in the control group");
		close(fd);
		return;
	}
	r = connection_add(server, &peer, fd);
	if (r < 0) {
		server->refused++;
		complain(server, &peer, "is refused: %s", strerror(-r));
	}
}

static int on_accept(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct bus_server *server = userdata;

	(void)revents;
	for (int i = 0; i < ACCEPT_BATCH; i++) {
		int client = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (client >= 0) {
			welcome(server, client);
			continue;
		}
		if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
			log_warning("control socket: cannot take a client now: %s", strerror(errno));
			sd_event_source_set_enabled(source, SD_EVENT_OFF);
			sd_event_source_set_time_relative(server->accept_pause, ACCEPT_PAUSE_USEC);
			sd_event_source_set_enabled(server->accept_pause, SD_EVENT_ONESHOT);
		}
		/* EAGAIN: all are in. Others: that client is gone again, and the source will fire for the next. */
		break;
	}
	return 0;
}

static int on_accept_pause(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct bus_server *server = userdata;

	(void)source, (void)usec;
	return sd_event_source_set_enabled(server->accept, SD_EVENT_ON);
}

gid_t bus_find_group(const char *name)
{
	char buf[16384];
	struct group entry, *found = NULL;

	/* A group whose members don't fit is one that can't be looked up: then root alone. */
	if (getgrnam_r(name, &entry, buf, sizeof(buf), &found) != 0 || !found)
		return (gid_t)-1;
	return entry.gr_gid;
}

int bus_server_new(sd_event *event, const char *path, const char *group, const struct bus_ops *ops, void *ctx,
		   struct bus_server **ret)
{
	struct bus_server *server = calloc(1, sizeof(*server));
	int r = -ENOMEM;

	if (!server)
		return r;
	*server = (struct bus_server){
		.listen = { .fd = -1, .lock_fd = -1 },
		.gid = bus_find_group(group),
		.ops = ops,
		.ctx = ctx,
		.root = { .fd = -1 },
		.patience_ns = BUS_PATIENCE_NS,
	};
	server->event = sd_event_ref(event);
	server->path = strdup(path);
	if (!server->path)
		goto fail;
	if ((r = fsroot_open(&server->root, "/")) < 0 || (r = bus_listen_open(&server->listen, path, server->gid)) < 0)
		goto fail;
	if ((r = sd_event_add_io(event, &server->accept, server->listen.fd, EPOLLIN, on_accept, server)) < 0 ||
	    (r = sd_event_add_time_relative(event, &server->accept_pause, CLOCK_MONOTONIC, ACCEPT_PAUSE_USEC, 0,
					    on_accept_pause, server)) < 0 ||
	    (r = sd_event_source_set_enabled(server->accept_pause, SD_EVENT_OFF)) < 0 ||
	    (r = sd_event_add_post(event, &server->sweep, on_sweep, server)) < 0 ||
	    (r = sd_event_add_exit(event, &server->exit, on_exit_event, server)) < 0 ||
	    (r = sd_event_source_set_priority(server->exit, SD_EVENT_PRIORITY_IMPORTANT)) < 0)
		goto fail;
	if (!server->listen.shared && group[0])
		log_warning("control socket: %s group \"%s\", so only root may use %s%s",
			    server->gid == (gid_t)-1 ? "there is no" : "it can't be given to", group, path,
			    server->gid == (gid_t)-1 ? "; once pghotd is installed, systemd-sysusers makes it"
						     : "; the user that pghotd runs as has to be in that group "
						       "(SupplementaryGroups= in pghotd.service)");
	*ret = server;
	return 0;

fail:
	bus_server_free(server);
	return r;
}

void bus_server_free(struct bus_server *server)
{
	if (!server)
		return;
	close_connections(server);
	sd_event_source_disable_unref(server->accept);
	sd_event_source_disable_unref(server->accept_pause);
	sd_event_source_disable_unref(server->sweep);
	sd_event_source_disable_unref(server->exit);
	bus_listen_close(&server->listen, server->path);
	fsroot_close(&server->root);
	sd_event_unref(server->event);
	free(server->path);
	free(server);
}

size_t bus_server_connections(const struct bus_server *server)
{
	return server->n_connections;
}

uint64_t bus_server_refused(const struct bus_server *server)
{
	return server->refused;
}

uint64_t bus_server_dropped(const struct bus_server *server)
{
	return server->dropped;
}

void bus_server_set_patience_ns(struct bus_server *server, uint64_t ns)
{
	server->patience_ns = ns;
}
