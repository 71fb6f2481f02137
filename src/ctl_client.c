/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <grp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <systemd/sd-bus.h>
#include <unistd.h>

#include "bus.h"
#include "bus_gate.h"
#include "bus_system.h"
#include "cleanup.h"
#include "clock.h"
#include "ctl_client.h"

/* Pause before the next try when the daemon has no place for one more client: a request is over in a few ms. */
#define RETRY_MS 20

/* Between two looks at whether the answer is still wanted. */
#define LOOK_USEC 100000

/* Key and value together; the rest of the message is small. */
#define VALUE_MAX (BUS_GATE_MESSAGE_MAX - 1024)

bool (*ctl_client_give_up)(void);

struct ctl_client {
	sd_bus *bus;
	const char *destination; /* NULL: the control socket, else its name on the system bus */
	uint64_t deadline_ns;
	uint64_t timeout_ms;
	char *version;
};

static uint64_t left_usec(const struct ctl_client *client)
{
	uint64_t now_ns = clock_now_ns(&clock_monotonic);

	return now_ns < client->deadline_ns ? (client->deadline_ns - now_ns) / NSEC_PER_USEC : 0;
}

/* Who may: the group is read off the socket, as the configuration may name another one. */
static void say_who_may(const char *path, char *error)
{
	char buf[16384];
	struct group entry, *group = NULL;
	struct stat st;

	if (stat(path, &st) == 0 && (st.st_mode & S_IWGRP))
		(void)getgrgid_r(st.st_gid, &entry, buf, sizeof(buf), &group);
	if (group)
		snprintf(error, CTL_CLIENT_ERROR_MAX,
			 "no permission to use %s: root may, and members of group %s (sudo usermod -aG %s USER, then "
			 "log "
			 "in again)",
			 path, group->gr_name, group->gr_name);
	else
		snprintf(error, CTL_CLIENT_ERROR_MAX, "no permission to use %s: only root may (sudo pghotctl ...)",
			 path);
}

static int explain(const struct ctl_client *client, const char *path, int r, char *error)
{
	struct stat st;

	switch (r) {
	case -ENOENT:
	case -ECONNREFUSED:
		if (stat(path, &st) == 0 && !S_ISSOCK(st.st_mode))
			snprintf(error, CTL_CLIENT_ERROR_MAX,
				 "%s is no socket: without --socket and PGHOTCTL_SOCKET it is " BUS_SOCKET_PATH, path);
		else
			snprintf(error, CTL_CLIENT_ERROR_MAX,
				 "pghotd is not running: nobody answers at %s (start it: systemctl start pghotd; why "
				 "it stopped: journalctl -u pghotd)",
				 path);
		return -ECONNREFUSED;
	case -EACCES:
	case -EPERM:
		say_who_may(path, error);
		return -EACCES;
	case -ETIMEDOUT:
		snprintf(error, CTL_CLIENT_ERROR_MAX,
			 "pghotd does not answer within %llu s, so it hangs or is stopped (see journalctl -u pghotd)",
			 (unsigned long long)(client->timeout_ms + 999) / 1000);
		return -ETIMEDOUT;
	case -ECONNRESET:
		snprintf(error, CTL_CLIENT_ERROR_MAX,
			 "pghotd closed the connection: it stops, or has too many clients (see journalctl -u pghotd)");
		return -ECONNRESET;
	default:
		snprintf(error, CTL_CLIENT_ERROR_MAX, "cannot use %s: %s", path, strerror(-r));
		return r;
	}
}

/* Signs of a daemon that hung up, as the kernel and sd-bus name them. */
static int unify(int r)
{
	return r == -EPIPE || r == -ENOTCONN || r == -ESHUTDOWN || r == -ECONNABORTED ? -ECONNRESET : r;
}

/* Connected and non-blocking, or -errno. */
static int connect_to(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	_cleanup_close_ int fd = -1;

	if (strlen(path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	memcpy(address.sun_path, path, strlen(path));
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
		return -errno;
	return take_fd(fd);
}

/* Until something comes, or it is time to look at the clock. 0, -ECANCELED or -errno. */
static int wait_some(const struct ctl_client *client)
{
	uint64_t usec = left_usec(client);
	int r;

	if (ctl_client_give_up && usec > LOOK_USEC)
		usec = LOOK_USEC;
	r = sd_bus_wait(client->bus, usec);
	if (ctl_client_give_up && ctl_client_give_up())
		return -ECANCELED;
	return r < 0 && r != -EINTR ? unify(r) : 0;
}

/* sd_bus_call() would wait for the handshake by a time of its own, so it is driven here. */
static int finish_handshake(struct ctl_client *client)
{
	for (;;) {
		int r = sd_bus_is_ready(client->bus);

		if (r != 0)
			return r < 0 ? unify(r) : 0;
		if (sd_bus_is_open(client->bus) <= 0)
			return -ECONNRESET;
		r = sd_bus_process(client->bus, NULL);
		if (r < 0)
			return unify(r);
		if (r > 0)
			continue;
		if (left_usec(client) == 0)
			return -ETIMEDOUT;
		r = wait_some(client);
		if (r < 0)
			return r;
	}
}

static int try_once(struct ctl_client *client, const char *path)
{
	int fd = connect_to(path), r;

	if (fd < 0)
		return fd;
	r = sd_bus_new(&client->bus);
	if (r >= 0)
		r = sd_bus_set_fd(client->bus, fd, fd);
	if (r < 0) {
		close(fd);
		return r;
	}
	r = sd_bus_start(client->bus);
	return r < 0 ? unify(r) : finish_handshake(client);
}

/*
 * Who may not use the control socket may still look, by the system bus. Where that doesn't work either, what matters is
 * who may use the socket.
 */
static int try_system_bus(struct ctl_client *client)
{
	int r = sd_bus_open_system(&client->bus);

	if (r < 0)
		return r;
	client->destination = BUS_SYSTEM_NAME;
	return finish_handshake(client);
}

static int on_reply(sd_bus_message *m, void *userdata, sd_bus_error *ret_error)
{
	(void)ret_error;
	*(sd_bus_message **)userdata = sd_bus_message_ref(m);
	return 1;
}

/*
 * Send @m and wait for its reply, in *@ret. 0; -EREMOTEIO, and -EACCES where this user may only look: it is an error of
 * the daemon's, in @error; or another -errno. sd_bus_call() would wait on, whatever happens meanwhile.
 */
static int send_and_wait(struct ctl_client *client, sd_bus_message *m, sd_bus_message **ret, char *error)
{
	sd_bus_message *reply = NULL;
	sd_bus_slot *slot = NULL;
	const sd_bus_error *e;
	int r = sd_bus_call_async(client->bus, &slot, m, on_reply, &reply, left_usec(client) + 1);

	while (r >= 0 && !reply) {
		r = sd_bus_process(client->bus, NULL);
		if (r != 0)
			continue;
		r = left_usec(client) ? wait_some(client) : -ETIMEDOUT;
	}
	sd_bus_slot_unref(slot);
	if (!reply)
		return unify(r);
	*ret = reply;
	if (!sd_bus_message_is_method_error(reply, NULL))
		return 0;
	/* When the connection or the time is over, sd-bus makes one up. */
	e = sd_bus_message_get_error(reply);
	if (sd_bus_error_has_name(e, SD_BUS_ERROR_NO_REPLY) || sd_bus_error_has_name(e, SD_BUS_ERROR_DISCONNECTED) ||
	    sd_bus_error_has_name(e, SD_BUS_ERROR_TIMEOUT))
		return left_usec(client) ? -ECONNRESET : -ETIMEDOUT;
	snprintf(error, CTL_CLIENT_ERROR_MAX, "%s", e->message ? e->message : e->name);
	return client->destination && sd_bus_error_has_name(e, BUS_ERROR_NOT_ALLOWED) ? -EACCES : -EREMOTEIO;
}

static int read_version(struct ctl_client *client, char *error)
{
	sd_bus_message *m = NULL, *reply = NULL;
	const char *version;
	int r;

	r = sd_bus_message_new_method_call(client->bus, &m, client->destination, BUS_OBJECT,
					   "org.freedesktop.DBus.Properties", "Get");
	if (r >= 0)
		r = sd_bus_message_append(m, "ss", BUS_INTERFACE, "Version");
	if (r >= 0)
		r = send_and_wait(client, m, &reply, error);
	if (r >= 0)
		r = sd_bus_message_read(reply, "v", "s", &version);
	if (r >= 0) {
		client->version = strdup(version);
		r = client->version ? 0 : -ENOMEM;
	}
	sd_bus_message_unref(m);
	sd_bus_message_unref(reply);
	return r;
}

int ctl_client_open(const char *path, uint64_t timeout_ms, struct ctl_client **ret, char *error)
{
	struct ctl_client *client = calloc(1, sizeof(*client));
	bool turned_away = false;
	int r;

	if (!client) {
		snprintf(error, CTL_CLIENT_ERROR_MAX, "out of memory");
		return -ENOMEM;
	}
	client->timeout_ms = timeout_ms;
	client->deadline_ns = clock_now_ns(&clock_monotonic) + timeout_ms * NSEC_PER_MSEC;
	for (;;) {
		r = try_once(client, path);
		if (r == 0)
			r = read_version(client, error);
		/* Full, its backlog or itself: others are about to be done. */
		if ((r != -EAGAIN && r != -ECONNRESET) || left_usec(client) == 0)
			break;
		turned_away |= r == -ECONNRESET;
		client->bus = sd_bus_close_unref(client->bus);
		if (ctl_client_give_up && ctl_client_give_up()) {
			r = -ECANCELED;
			break;
		}
		poll(NULL, 0, RETRY_MS);
	}
	if (r == -EAGAIN || r == -ETIMEDOUT)
		r = turned_away ? -ECONNRESET : -ETIMEDOUT;
	if (r == -EACCES && try_system_bus(client) == 0 && read_version(client, error) == 0)
		r = 0;
	if (r < 0) {
		r = explain(client, path, r, error);
		ctl_client_close(client);
		return r;
	}
	*ret = client;
	return 0;
}

void ctl_client_close(struct ctl_client *client)
{
	if (!client)
		return;
	sd_bus_close_unref(client->bus);
	free(client->version);
	free(client);
}

const char *ctl_client_version(const struct ctl_client *client)
{
	return client->version;
}

uid_t ctl_client_daemon_uid(const struct ctl_client *client)
{
	struct ucred cred;
	socklen_t bytes = sizeof(cred);

	if (client->destination || getsockopt(sd_bus_get_fd(client->bus), SOL_SOCKET, SO_PEERCRED, &cred, &bytes) < 0)
		return (uid_t)-1;
	return cred.uid;
}

static int read_reply(sd_bus_message *reply, char **ret)
{
	const char *text = "";
	int r;

	if (sd_bus_message_has_signature(reply, "s")) {
		r = sd_bus_message_read(reply, "s", &text);
		if (r < 0)
			return r;
	}
	*ret = strdup(text);
	return *ret ? 0 : -ENOMEM;
}

/* Send @m, if it could be made (@r says so), and read the reply. Takes over @m. */
static int finish_call(struct ctl_client *client, sd_bus_message *m, int r, char **ret, char *error)
{
	sd_bus_message *reply = NULL;
	char *text = NULL;

	if (r >= 0)
		r = send_and_wait(client, m, &reply, error);
	if (r == 0)
		r = read_reply(reply, &text);
	if (reply && (r == -EREMOTEIO || r == -EACCES))
		goto finish;
	if (r < 0) {
		r = explain(client, "the control socket", unify(r), error);
		goto finish;
	}
	if (ret)
		*ret = take_ptr(text);
	r = 0;

finish:
	free(text);
	sd_bus_message_unref(m);
	sd_bus_message_unref(reply);
	return r;
}

int ctl_client_call(struct ctl_client *client, const char *method, const char *key, const char *value, char **ret,
		    char *error)
{
	sd_bus_message *m = NULL;
	int r;

	/* The daemon would hang up on it, and nobody would know why. */
	if (key && strlen(key) + strlen(value) > VALUE_MAX) {
		snprintf(error, CTL_CLIENT_ERROR_MAX, "%.40s%sthe value is too long", key, *key ? ": " : "");
		return -EMSGSIZE;
	}
	r = sd_bus_message_new_method_call(client->bus, &m, client->destination, BUS_OBJECT, BUS_INTERFACE, method);
	if (r >= 0 && key)
		r = sd_bus_message_append(m, "ss", key, value);
	if (r == -EINVAL) {
		snprintf(error, CTL_CLIENT_ERROR_MAX, "%.40s: the value is no text", key ? key : method);
		sd_bus_message_unref(m);
		return r;
	}
	return finish_call(client, m, r, ret, error);
}

int ctl_client_call_number(struct ctl_client *client, const char *method, uint64_t number, char *error)
{
	sd_bus_message *m = NULL;
	int r = sd_bus_message_new_method_call(client->bus, &m, client->destination, BUS_OBJECT, BUS_INTERFACE, method);

	if (r >= 0)
		r = sd_bus_message_append(m, "t", number);
	return finish_call(client, m, r, NULL, error);
}
