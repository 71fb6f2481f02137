/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <linux/netlink.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "cleanup.h"
#include "parse.h"
#include "uevent.h"

/* The kernel's group; 2 is udev's. */
#define KERNEL_GROUP 1

/* UEVENT_BUFFER_SIZE of the kernel is 2048, and the path comes in front. */
#define MESSAGE_BYTES 8192

/* Onlining 1 TiB is 8192 events in a row, while the main thread may be waiting for a grace period. */
#define RECEIVE_BYTES (4 << 20)

#define CPU_MAX 65535

int uevent_open(void)
{
	struct sockaddr_nl address = { .nl_family = AF_NETLINK, .nl_groups = KERNEL_GROUP };
	_cleanup_close_ int fd = -1;
	int bytes = RECEIVE_BYTES;

	fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_KOBJECT_UEVENT);
	if (fd < 0)
		return -errno;
	/* Past net.core.rmem_max where we may. A smaller buffer overruns sooner, and that is noticed. */
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes)) < 0)
		(void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return -errno;
	return take_fd(fd);
}

/* The value of "KEY=value" when @entry is of @key, else NULL. */
static const char *value_of(const char *entry, const char *key)
{
	size_t len = strlen(key);

	return strncmp(entry, key, len) == 0 && entry[len] == '=' ? entry + len + 1 : NULL;
}

/* "/devices/system/cpu/cpu7": 7, or -EBADMSG. */
static int parse_cpu(const char *path)
{
	static const char prefix[] = "/devices/system/cpu/cpu";
	uint64_t cpu;

	if (strncmp(path, prefix, strlen(prefix)) != 0 || parse_u64(path + strlen(prefix), 0, CPU_MAX, &cpu) < 0)
		return -EBADMSG;
	return (int)cpu;
}

int uevent_parse(const char *message, size_t len, struct uevent *ret)
{
	const char *action = NULL, *path = NULL, *subsystem = NULL, *at;
	size_t action_len;

	*ret = (struct uevent){ .kind = UEVENT_OTHER, .cpu = -1 };
	if (len == 0 || message[len - 1] != '\0')
		return -EBADMSG;
	at = strchr(message, '@');
	if (!at || at == message || at[1] != '/')
		return -EBADMSG;
	for (const char *p = message + strlen(message) + 1; p < message + len; p += strlen(p) + 1) {
		const char *value;

		/* The first of a kind is the kernel's own; drivers add theirs behind. */
		if (!action && (value = value_of(p, "ACTION")))
			action = value;
		else if (!path && (value = value_of(p, "DEVPATH")))
			path = value;
		else if (!subsystem && (value = value_of(p, "SUBSYSTEM")))
			subsystem = value;
	}
	action_len = (size_t)(at - message);
	if (!action || !path || strlen(action) != action_len || memcmp(action, message, action_len) != 0 ||
	    strcmp(path, at + 1) != 0)
		return -EBADMSG;
	if (!subsystem)
		return 0;
	/* A tier that comes without a block changing: the driver of its memory type was loaded. */
	if (strcmp(subsystem, "memory") == 0 || strcmp(subsystem, "memory_tiering") == 0) {
		ret->kind = UEVENT_MEMORY;
	} else if (strcmp(subsystem, "node") == 0) {
		ret->kind = UEVENT_NODE;
	} else if (strcmp(subsystem, "cpu") == 0 && (strcmp(action, "online") == 0 || strcmp(action, "offline") == 0)) {
		ret->cpu = parse_cpu(path);
		if (ret->cpu < 0) {
			ret->cpu = -1;
			return -EBADMSG;
		}
		ret->kind = strcmp(action, "online") == 0 ? UEVENT_CPU_ONLINE : UEVENT_CPU_OFFLINE;
	}
	return 0;
}

int uevent_received(ssize_t n, int error, const struct msghdr *msg, const char *message, struct uevent *ret)
{
	const struct sockaddr_nl *from = msg->msg_name;

	*ret = (struct uevent){ .kind = UEVENT_OVERRUN, .cpu = -1 };
	if (n < 0) {
		if (error == EINTR)
			return -EAGAIN;
		if (error == EAGAIN)
			return 0;
		return error == ENOBUFS ? 1 : -error;
	}
	/* Port 0 is the kernel; no process can send from there, whatever it may do otherwise. */
	if (msg->msg_namelen != sizeof(*from) || from->nl_family != AF_NETLINK || from->nl_pid != 0)
		return -EAGAIN;
	if (msg->msg_flags & MSG_TRUNC || uevent_parse(message, (size_t)n, ret) < 0)
		*ret = (struct uevent){ .kind = UEVENT_OVERRUN, .cpu = -1 };
	return 1;
}

int uevent_read(int fd, struct uevent *ret)
{
	char message[MESSAGE_BYTES];
	int r;

	do {
		struct sockaddr_nl from = { 0 };
		struct iovec iov = { message, sizeof(message) };
		struct msghdr msg = {
			.msg_name = &from, .msg_namelen = sizeof(from), .msg_iov = &iov, .msg_iovlen = 1
		};
		ssize_t n = recvmsg(fd, &msg, MSG_DONTWAIT);

		r = uevent_received(n, n < 0 ? errno : 0, &msg, message, ret);
	} while (r == -EAGAIN);
	return r;
}
