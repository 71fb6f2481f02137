/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "cleanup.h"
#include "message.h"
#include "privops_serve.h"
#include "socket_file.h"

struct client {
	int fd;
	uint32_t pid;
};

struct server {
	const struct privops_serve_params *params;
	struct client clients[PRIVOPS_CLIENTS_MAX];
	size_t n;
	bool begun; /* somebody came */
	/* Apart from the request, so that no answer holds what another's packet left. */
	unsigned char packet[sizeof(struct privops_request) + 1];
	struct privops_reply reply;
};

static void drop(struct server *server, size_t i)
{
	close(server->clients[i].fd);
	server->clients[i] = server->clients[--server->n];
}

static void add(struct server *server, int fd, uint32_t pid)
{
	server->clients[server->n++] = (struct client){ .fd = fd, .pid = pid };
}

static uint32_t pid_of(int fd, uid_t *ret_uid)
{
	struct ucred cred = { .uid = (uid_t)-1 };
	socklen_t bytes = sizeof(cred);

	*ret_uid = (uid_t)-1;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &bytes) < 0)
		return 0;
	*ret_uid = cred.uid;
	return (uint32_t)cred.pid;
}

static void welcome(struct server *server)
{
	_cleanup_close_ int fd = accept4(server->params->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	uint32_t pid;
	uid_t uid;

	if (fd < 0)
		return;
	server->begun = true;
	pid = pid_of(fd, &uid);
	if (uid != 0 && uid != server->params->uid) {
		message(MESSAGE_HELPER_CALLER, NULL, 0, "helper: pid %u of uid %u is refused: only pghotd may ask", pid,
			uid);
		return;
	}
	if (server->n == PRIVOPS_CLIENTS_MAX) {
		message(MESSAGE_HELPER_CALLER, NULL, 0, "helper: pid %u is refused: %d are connected already", pid,
			PRIVOPS_CLIENTS_MAX);
		return;
	}
	add(server, take_fd(fd), pid);
}

/* One request. false: it is gone, or takes no answers. */
static bool serve_one(struct server *server, const struct client *client)
{
	ptrdiff_t n = privops_wire_receive(client->fd, server->packet, sizeof(server->packet), NULL);
	int fd, r;

	if (n == -EAGAIN)
		return true;
	if (n <= 0 && n != -EMSGSIZE && n != -EBADMSG)
		return false;
	/* Too long is refused as what it is. */
	fd = privops_answer(&server->params->helper, client->pid, server->packet,
			    n < 0 ? sizeof(server->packet) : (size_t)n, &server->reply);
	r = privops_wire_send(client->fd, &server->reply, privops_answer_bytes(&server->reply), fd);
	if (fd >= 0)
		close(fd);
	return r == 0;
}

static void close_all(struct server *server)
{
	while (server->n)
		drop(server, 0);
	if (server->params->listen_fd >= 0)
		close(server->params->listen_fd);
}

int privops_serve(const struct privops_serve_params *params)
{
	static struct server server;
	int r = 0;

	server.params = params;
	server.n = 0;
	server.begun = false;
	if (params->conn_fd >= 0) {
		uid_t uid;
		uint32_t pid = params->conn_pid ? params->conn_pid : pid_of(params->conn_fd, &uid);

		(void)fcntl(params->conn_fd, F_SETFL, O_NONBLOCK);
		add(&server, params->conn_fd, pid);
	}
	while (server.n > 0 || params->listen_fd >= 0) {
		struct pollfd polls[PRIVOPS_CLIENTS_MAX + 1];
		size_t n = server.n;

		for (size_t i = 0; i < n; i++)
			polls[i] = (struct pollfd){ .fd = server.clients[i].fd, .events = POLLIN };
		polls[n] = (struct pollfd){ .fd = params->listen_fd, .events = POLLIN };
		r = poll(polls, n + 1, n || !server.begun ? -1 : params->idle_ms);
		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0) {
			r = r < 0 ? -errno : 0;
			break;
		}
		/* From behind: whoever is dropped gives his place to one that was looked at. */
		for (size_t i = n; i-- > 0;)
			if (polls[i].revents && !serve_one(&server, &server.clients[i]))
				drop(&server, i);
		if (polls[n].revents)
			welcome(&server);
		r = 0;
	}
	close_all(&server);
	message_tell_held();
	return r;
}

int privops_serve_listen(const char *path, gid_t gid)
{
	_cleanup_close_ int fd = -1;
	struct sockaddr_un address;
	int r;

	r = socket_file_address(path, &address);
	if (r == 0)
		r = socket_file_make_folder(path);
	if (r == 0)
		r = socket_file_remove_dead(&address, SOCK_SEQPACKET);
	if (r < 0)
		return r;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	/* The file gets the socket's mode, and until listen() connecting to it is refused. */
	if (fchmod(fd, 0600) < 0 || bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
		return -errno;
	if (lchown(path, (uid_t)-1, gid) < 0 || chmod(path, 0660) < 0 || listen(fd, PRIVOPS_CLIENTS_MAX) < 0) {
		r = -errno;
		unlink(path);
		return r;
	}
	return take_fd(fd);
}
