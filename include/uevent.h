/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * uevent: what the kernel says when memory, a node or a CPU comes or goes, without udev in between.
 * Format: kobject_uevent_env() in the kernel's lib/kobject_uevent.c.
 */
#pragma once

#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>

enum uevent_kind {
	UEVENT_MEMORY, /* a memory block, or a memory tier */
	UEVENT_NODE,
	UEVENT_CPU_ONLINE,
	UEVENT_CPU_OFFLINE,
	UEVENT_OTHER,   /* of no interest here */
	UEVENT_OVERRUN, /* some were lost or can't be made out: read everything again */
};

struct uevent {
	enum uevent_kind kind;
	int cpu; /* 0..65535 for the two of CPUs, else -1 */
};

/*
 * A non-blocking descriptor that is readable when there are events; close() it. -errno, as inside some containers: the
 * caller looks at /sys now and then instead. A network namespace owned by another user namespace than the first gives a
 * descriptor that stays silent, so to look now and then costs nothing and is needed there. Main thread.
 */
int uevent_open(void);

/* Take one event: 1 with @ret, 0 when there is none left, -errno. Messages that aren't the kernel's are passed over. */
int uevent_read(int fd, struct uevent *ret);

/*
 * Take one message apart: "add@/devices/system/memory/memory12", NUL, "ACTION=add", NUL, ... 0, or -EBADMSG for what
 * the kernel doesn't send. Pure. Fuzzed.
 */
int uevent_parse(const char *message, size_t len, struct uevent *ret);

/*
 * The pure half of uevent_read(): what recvmsg(2) returned (@n bytes at @message, or -1 and @error), with @msg as it
 * left it. 1 with @ret, 0 when there is none, -EAGAIN when this message is to be passed over, else -errno.
 */
int uevent_received(ssize_t n, int error, const struct msghdr *msg, const char *message, struct uevent *ret);
