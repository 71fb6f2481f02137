/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "privops_wire.h"

#define FDS_MAX 4 /* more than one is refused, and closed */

void privops_event_attr(const struct privops_event *event, struct perf_event_attr *ret)
{
	/* Padding and all: the two sides compare attrs byte by byte. */
	memset(ret, 0, sizeof(*ret));
	ret->type = event->type;
	ret->size = sizeof(*ret);
	ret->config = event->config;
	ret->config1 = event->config1;
	ret->config2 = event->config2;
	ret->sample_period = event->sample_period;
	ret->sample_type = event->sample_type;
	ret->read_format = event->read_format;
	ret->wakeup_watermark = event->wakeup_watermark;
	ret->exclude_kernel = (event->flags & PRIVOPS_EVENT_EXCLUDE_KERNEL) != 0;
	ret->watermark = (event->flags & PRIVOPS_EVENT_WATERMARK) != 0;
	ret->disabled = 1;
	ret->sample_id_all = 1;
	ret->use_clockid = 1;
	ret->clockid = CLOCK_MONOTONIC;
}

int privops_event_of(const struct perf_event_attr *attr, int cpu, struct privops_event *ret)
{
	struct perf_event_attr again;

	*ret = (struct privops_event){
		.type = attr->type,
		.cpu = cpu,
		.config = attr->config,
		.config1 = attr->config1,
		.config2 = attr->config2,
		.sample_period = attr->sample_period,
		.sample_type = attr->sample_type,
		.read_format = attr->read_format,
		.wakeup_watermark = attr->wakeup_watermark,
		.flags = (attr->exclude_kernel ? PRIVOPS_EVENT_EXCLUDE_KERNEL : 0U) |
			 (attr->watermark ? PRIVOPS_EVENT_WATERMARK : 0U),
	};
	privops_event_attr(ret, &again);
	return memcmp(&again, attr, sizeof(again)) == 0 ? 0 : -EOPNOTSUPP;
}

int privops_wire_send(int socket, const void *data, size_t len, int fd)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	struct iovec iov = { .iov_base = (void *)(uintptr_t)data, .iov_len = len };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t n;

	if (fd >= 0) {
		struct cmsghdr *cmsg;

		msg.msg_control = control.bytes;
		msg.msg_controllen = sizeof(control.bytes);
		cmsg = CMSG_FIRSTHDR(&msg);
		cmsg->cmsg_level = SOL_SOCKET;
		cmsg->cmsg_type = SCM_RIGHTS;
		cmsg->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(cmsg), &fd, sizeof(int));
	}
	do
		n = sendmsg(socket, &msg, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	return (size_t)n == len ? 0 : -EIO;
}

/* Takes the first descriptor, and closes all others. Returns how many came. */
static size_t take_descriptors(struct msghdr *msg, int *ret_fd)
{
	size_t came = 0;

	for (struct cmsghdr *cmsg = CMSG_FIRSTHDR(msg); cmsg; cmsg = CMSG_NXTHDR(msg, cmsg)) {
		size_t n = (cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (cmsg->cmsg_level != SOL_SOCKET || cmsg->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < n; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(cmsg) + i * sizeof(int), sizeof(int));
			if (came++ == 0)
				*ret_fd = fd;
			else
				close(fd);
		}
	}
	return came;
}

ptrdiff_t privops_wire_receive(int socket, void *buf, size_t size, int *ret_fd)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int) * FDS_MAX)];
	} control;
	struct iovec iov = { .iov_base = buf, .iov_len = size };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control.bytes)
	};
	int fd = -1;
	size_t came;
	ssize_t n;

	if (ret_fd)
		*ret_fd = -1;
	do
		n = recvmsg(socket, &msg, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	came = take_descriptors(&msg, &fd);
	if (came == 1 && ret_fd && !(msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC))) {
		*ret_fd = fd;
		return n;
	}
	/* It came, and there was no room for it here. Source: scm_detach_fds(), net/core/scm.c. */
	if (came == 0 && (msg.msg_flags & MSG_CTRUNC))
		return -EMFILE;
	if (fd >= 0)
		close(fd);
	return msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC) ? -EMSGSIZE : came > 1 ? -EBADMSG : n;
}
