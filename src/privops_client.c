/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "cleanup.h"
#include "privops_client.h"

/* For another helper, once, when one has just gone: it is there in a moment or not soon. */
#define FORKED_MS 500

/* With client->lock. */
static int lose(struct privops_client *client, int r)
{
	if (client->fd >= 0)
		close(client->fd);
	client->fd = -1;
	client->error = r;
	client->retry_ns = clock_now_ns(&clock_monotonic) + PRIVOPS_CLIENT_RETRY_NS;
	return r;
}

static int set_patience(int fd, uint64_t wait_ns)
{
	struct timeval wait = { .tv_sec = (time_t)(wait_ns / NSEC_PER_SEC) };

	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait)) < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait)) < 0)
		return -errno;
	return 0;
}

/* A descriptor or -errno. */
static int connect_to(const char *path, uid_t owner, uint64_t wait_ns)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	_cleanup_close_ int fd = -1;
	struct ucred cred;
	socklen_t bytes = sizeof(cred);
	int r;

	if (strlen(path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	memcpy(address.sun_path, path, strlen(path));
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	r = set_patience(fd, wait_ns);
	if (r < 0)
		return r;
	if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
		return errno == EAGAIN ? -ETIMEDOUT : -errno;
	/* Of who called listen(): the service manager or the helper. */
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &bytes) < 0)
		return -errno;
	return cred.uid == owner ? take_fd(fd) : -EPERM;
}

/* One packet each way, with client->lock. The helper's answer, or -errno of the way there. */
static int exchange(struct privops_client *client, const struct privops_request *request, int *ret_fd)
{
	struct privops_reply *reply = &client->reply;
	ptrdiff_t n;
	int fd = -1, r;

	r = privops_wire_send(client->fd, request, sizeof(*request), -1);
	if (r < 0)
		return r == -EAGAIN ? -ETIMEDOUT : r;
	n = privops_wire_receive(client->fd, reply, sizeof(*reply), &fd);
	if (n <= 0)
		return n == 0 ? -ECONNRESET : n == -EAGAIN ? -ETIMEDOUT : (int)n;
	if ((size_t)n >= PRIVOPS_REPLY_MIN && reply->version == PRIVOPS_WIRE_VERSION &&
	    reply->n_text <= (size_t)n - PRIVOPS_REPLY_MIN && (fd >= 0) == (ret_fd && reply->r >= 0)) {
		if (ret_fd)
			*ret_fd = fd;
		return 0;
	}
	if (fd >= 0)
		close(fd);
	return (size_t)n >= PRIVOPS_REPLY_MIN && reply->version != PRIVOPS_WIRE_VERSION ? -EPROTONOSUPPORT : -EBADMSG;
}

/* Over client->fd, within @wait_ns. With client->lock. */
static int say_hello(struct privops_client *client, uint64_t wait_ns)
{
	struct privops_request hello = { .version = PRIVOPS_WIRE_VERSION, .verb = PRIVOPS_HELLO };
	int r = set_patience(client->fd, wait_ns);

	if (r == 0)
		r = exchange(client, &hello, NULL);
	if (r == 0)
		r = client->reply.r;
	if (r >= 0)
		r = set_patience(client->fd, PRIVOPS_CLIENT_WAIT_NS);
	if (r < 0)
		return lose(client, r);
	client->error = 0;
	return 0;
}

static int connect_within(struct privops_client *client, uint64_t wait_ns)
{
	int r = connect_to(client->path, client->owner, wait_ns);

	if (r < 0)
		return lose(client, r);
	client->fd = r;
	return say_hello(client, wait_ns);
}

/* The socket of the last helper that was started, waiting for one for @wait_ms. A descriptor, or -ECONNRESET. */
static int next_forked(const struct privops_client *client, int wait_ms)
{
	struct pollfd fd = { .fd = client->lifeline, .events = POLLIN };
	int last = -1, next;
	char byte;

	while (poll(&fd, 1, last < 0 ? wait_ms : 0) > 0 &&
	       privops_wire_receive(client->lifeline, &byte, sizeof(byte), &next) > 0) {
		if (next < 0)
			continue;
		if (last >= 0)
			close(last);
		last = next;
	}
	return last < 0 ? -ECONNRESET : last;
}

/* Its first answer within @wait_ns. With client->lock. */
static int follow(struct privops_client *client, int wait_ms, uint64_t wait_ns)
{
	int r = next_forked(client, wait_ms);

	if (r < 0)
		return lose(client, r);
	client->fd = r;
	return say_hello(client, wait_ns);
}

/* Connect again if that is possible and not just tried. A forked one is waited for. With client->lock. */
static int connect_again(struct privops_client *client)
{
	if (!client->path)
		return follow(client, client->retry_ns ? 0 : FORKED_MS, PRIVOPS_CLIENT_WAIT_NS);
	if (client->error && clock_now_ns(&clock_monotonic) < client->retry_ns)
		return client->error;
	return connect_within(client, PRIVOPS_CLIENT_WAIT_NS);
}

/*
 * What @request gives: the helper's number, client->reply being what it said, or -errno. A helper that has ended since
 * the last request is asked once more when it is there again: each verb may be done twice. With client->lock.
 */
static int call(struct privops_client *client, const struct privops_request *request, int *ret_fd)
{
	int r = -ENOTCONN;

	for (int tries = 0; tries < 2; tries++) {
		r = client->fd < 0 ? connect_again(client) : 0;
		if (r < 0)
			return r;
		r = exchange(client, request, ret_fd);
		if (r == 0)
			return client->reply.r;
		if (r == -EMFILE)
			return r;
		(void)lose(client, r);
		if (r == -ETIMEDOUT)
			return r;
		client->retry_ns = 0;
	}
	return r;
}

static int client_event_open(void *ctx, const struct perf_event_attr *attr, int cpu)
{
	struct privops_client *client = ctx;
	struct privops_request request = { .version = PRIVOPS_WIRE_VERSION, .verb = PRIVOPS_EVENT_OPEN };
	int r, fd = -1;

	r = privops_event_of(attr, cpu, &request.event);
	if (r < 0)
		return r;
	pthread_mutex_lock(&client->lock);
	r = call(client, &request, &fd);
	pthread_mutex_unlock(&client->lock);
	return r < 0 ? r : fd;
}

static int client_setting_set(void *ctx, enum privops_setting setting, uint64_t value)
{
	struct privops_client *client = ctx;
	struct privops_request request = { .version = PRIVOPS_WIRE_VERSION, .verb = PRIVOPS_SETTING_SET };
	int r;

	request.set.setting = setting;
	request.set.value = value;
	pthread_mutex_lock(&client->lock);
	r = call(client, &request, NULL);
	pthread_mutex_unlock(&client->lock);
	return r;
}

static int client_restore(void *ctx, struct privops_restored *ret)
{
	struct privops_client *client = ctx;
	struct privops_request request = { .version = PRIVOPS_WIRE_VERSION, .verb = PRIVOPS_RESTORE };
	int r;

	*ret = (struct privops_restored){ 0 };
	pthread_mutex_lock(&client->lock);
	r = call(client, &request, NULL);
	if (r >= 0)
		*ret = (struct privops_restored){ .restored = client->reply.restored,
						  .left = client->reply.left,
						  .failed = client->reply.failed };
	pthread_mutex_unlock(&client->lock);
	return r;
}

const struct privops_ops privops_client_ops = {
	.event_open = client_event_open,
	.setting_set = client_setting_set,
	.restore = client_restore,
};

static int client_ask(void *ctx, enum fsroot_question question, uint32_t pid, uint64_t addr, char *buf, size_t size)
{
	struct privops_client *client = ctx;
	struct privops_request request = { .version = PRIVOPS_WIRE_VERSION, .verb = PRIVOPS_ASK };
	int r;

	request.ask.question = question;
	request.ask.pid = pid;
	request.ask.addr = addr;
	pthread_mutex_lock(&client->lock);
	r = call(client, &request, NULL);
	if (r >= 0 && size) {
		size_t n = client->reply.n_text < size ? client->reply.n_text : size - 1;

		memcpy(buf, client->reply.text, n);
		buf[n] = '\0';
	}
	pthread_mutex_unlock(&client->lock);
	/* To the caller it means that there is nobody to ask. */
	return r == -ENOSYS ? -EOPNOTSUPP : r;
}

static void init(struct privops_client *client)
{
	memset(client, 0, sizeof(*client));
	pthread_mutex_init(&client->lock, NULL);
	client->fd = client->lifeline = -1;
	client->asker = (struct fsroot_asker){ .ask = client_ask, .ctx = client };
}

int privops_client_connect(struct privops_client *client, const char *path, uid_t owner)
{
	init(client);
	client->path = path;
	client->owner = owner;
	return connect_within(client, PRIVOPS_CLIENT_START_NS);
}

int privops_client_adopt(struct privops_client *client, int lifeline)
{
	init(client);
	client->lifeline = lifeline;
	return follow(client, (int)(PRIVOPS_CLIENT_START_NS / NSEC_PER_MSEC), PRIVOPS_CLIENT_START_NS);
}

void privops_client_done(struct privops_client *client)
{
	if (client->fd >= 0)
		close(client->fd);
	if (client->lifeline >= 0)
		close(client->lifeline);
	client->fd = client->lifeline = -1;
	pthread_mutex_destroy(&client->lock);
}

int privops_client_look(struct privops_client *client)
{
	/* Busy: then somebody is finding out. */
	if (pthread_mutex_trylock(&client->lock) != 0)
		return client->looked;
	if (client->fd >= 0) {
		struct pollfd poll_fd = { .fd = client->fd };

		if (poll(&poll_fd, 1, 0) > 0 && (poll_fd.revents & (POLLHUP | POLLERR))) {
			(void)lose(client, -ECONNRESET);
			client->retry_ns = 0;
		}
	}
	client->looked = client->fd < 0 ? connect_again(client) : 0;
	pthread_mutex_unlock(&client->lock);
	return client->looked;
}
