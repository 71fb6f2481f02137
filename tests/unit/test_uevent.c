/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <linux/netlink.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"
#include "uevent.h"

/* A message as the kernel writes it, the last NUL included. */
#define MESSAGE(action, path, subsystem)   \
	action "@" path "\0"               \
	       "ACTION=" action "\0"       \
	       "DEVPATH=" path "\0"        \
	       "SUBSYSTEM=" subsystem "\0" \
	       "SEQNUM=4711"

static const struct {
	const char *message;
	size_t len;
	enum uevent_kind kind;
	int cpu;
} good[] = {
#define GOOD(message, kind, cpu)                    \
	{                                           \
		message, sizeof(message), kind, cpu \
	}
	GOOD(MESSAGE("add", "/devices/system/memory/memory12", "memory"), UEVENT_MEMORY, -1),
	GOOD(MESSAGE("online", "/devices/system/memory/memory12", "memory"), UEVENT_MEMORY, -1),
	GOOD(MESSAGE("offline", "/devices/system/memory/memory12", "memory"), UEVENT_MEMORY, -1),
	GOOD(MESSAGE("remove", "/devices/system/memory/memory12", "memory"), UEVENT_MEMORY, -1),
	GOOD(MESSAGE("add", "/devices/virtual/memory_tiering/memory_tier22", "memory_tiering"), UEVENT_MEMORY, -1),
	GOOD(MESSAGE("add", "/devices/system/node/node1", "node"), UEVENT_NODE, -1),
	GOOD(MESSAGE("online", "/devices/system/cpu/cpu0", "cpu"), UEVENT_CPU_ONLINE, 0),
	GOOD(MESSAGE("offline", "/devices/system/cpu/cpu127", "cpu"), UEVENT_CPU_OFFLINE, 127),
	GOOD(MESSAGE("online", "/devices/system/cpu/cpu65535", "cpu"), UEVENT_CPU_ONLINE, 65535),
	GOOD(MESSAGE("add", "/devices/system/cpu/cpu3", "cpu"), UEVENT_OTHER, -1),
	GOOD(MESSAGE("add", "/devices/pci0000:00/0000:00:14.0/usb1", "usb"), UEVENT_OTHER, -1),
	GOOD(MESSAGE("change", "/devices/memory", "memory_failure"), UEVENT_OTHER, -1),
	GOOD("add@/module/x\0ACTION=add\0DEVPATH=/module/x", UEVENT_OTHER, -1),
	/* What a driver adds comes behind, and does not count. */
	GOOD(MESSAGE("add", "/devices/x", "usb") "\0SUBSYSTEM=memory", UEVENT_OTHER, -1),
	GOOD(MESSAGE("online", "/devices/system/cpu/cpu5", "cpu") "\0DEVPATH=/devices/system/cpu/cpu6",
	     UEVENT_CPU_ONLINE, 5),
	GOOD(MESSAGE("online", "/devices/system/cpu/cpu5", "cpu") "\0ACTION=offline", UEVENT_CPU_ONLINE, 5),
	/* The order of the kernel's own is not promised. */
	GOOD("online@/devices/system/cpu/cpu5\0SUBSYSTEM=cpu\0DEVPATH=/devices/system/cpu/cpu5\0ACTION=online",
	     UEVENT_CPU_ONLINE, 5),
#undef GOOD
};

static void what_the_kernel_sends(void)
{
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		struct uevent event;
		int r = uevent_parse(good[i].message, good[i].len, &event);

		if (r != 0 || event.kind != good[i].kind || event.cpu != good[i].cpu)
			printf("  message %zu: %d, kind %d, cpu %d\n", i, r, event.kind, event.cpu);
		CU_ASSERT_EQUAL(r, 0);
		CU_ASSERT_EQUAL(event.kind, good[i].kind);
		CU_ASSERT_EQUAL(event.cpu, good[i].cpu);
	}
}

static void what_it_does_not_send(void)
{
	static const struct {
		const char *message;
		size_t len;
	} bad[] = {
#define BAD(message) { message, sizeof(message) }
		{ "", 0 },
		BAD(""),
		BAD("\0\0\0"),
		BAD("add"),
		BAD("@/devices/x\0ACTION=\0DEVPATH=/devices/x"),
		BAD("add@"),
		BAD("add@devices/x\0ACTION=add\0DEVPATH=devices/x"),
		BAD("add@/devices/x"),
		BAD("add@/devices/x\0ACTION=add"),
		BAD("add@/devices/x\0DEVPATH=/devices/x"),
		BAD("add@/devices/x\0ACTION=remove\0DEVPATH=/devices/x"),
		BAD("add@/devices/x\0ACTION=ad\0DEVPATH=/devices/x"),
		BAD("add@/devices/x\0ACTION=add\0DEVPATH=/devices/y"),
		BAD("add@/devices/x\0ACTION=add\0DEVPATH=/devices/x2"),
		BAD("libudev\0\xfe\xed\xca\xfe"),
		BAD(MESSAGE("online", "/devices/system/cpu/cpu", "cpu")),
		BAD(MESSAGE("online", "/devices/system/cpu/cpu-1", "cpu")),
		BAD(MESSAGE("online", "/devices/system/cpu/cpu1x", "cpu")),
		BAD(MESSAGE("online", "/devices/system/cpu/cpu65536", "cpu")),
		BAD(MESSAGE("offline", "/devices/system/cpu/cpu99999999999999999999", "cpu")),
		BAD(MESSAGE("offline", "/devices/virtual/cpu7", "cpu")),
		/* Cut before the last NUL. */
		{ MESSAGE("add", "/devices/system/node/node1", "node"),
		  sizeof(MESSAGE("add", "/devices/system/node/node1", "node")) - 1 },
#undef BAD
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct uevent event;
		int r = uevent_parse(bad[i].message, bad[i].len, &event);

		if (r != -EBADMSG)
			printf("  message %zu: %d\n", i, r);
		CU_ASSERT_EQUAL(r, -EBADMSG);
		CU_ASSERT_EQUAL(event.cpu, -1);
	}
}

/* In a buffer of just that size, so that reading past it is seen by a sanitizer. */
static void bytes_at_random(void)
{
	uint64_t state = 42;

	for (int i = 0; i < 20000; i++) {
		size_t k = (size_t)i % (sizeof(good) / sizeof(good[0])), len;
		struct uevent event;
		char *copy;
		int r;

		state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
		len = i % 3 ? good[k].len : (size_t)(state >> 33) % (good[k].len + 1);
		copy = malloc(len ? len : 1);
		if (!copy)
			return;
		memcpy(copy, good[k].message, len);
		for (int n = 0; len && n < i % 5; n++) {
			state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
			copy[(state >> 33) % len] = "\0@=/cpuA0\xff"[(state >> 25) % 10];
		}
		r = uevent_parse(copy, len, &event);
		CU_ASSERT(r == 0 || r == -EBADMSG);
		CU_ASSERT(event.kind == UEVENT_CPU_ONLINE || event.kind == UEVENT_CPU_OFFLINE
				  ? event.cpu >= 0 && event.cpu <= 65535
				  : event.cpu == -1);
		free(copy);
	}
}

static void what_recvmsg_gives(void)
{
	struct sockaddr_nl kernel = { .nl_family = AF_NETLINK }, process = { .nl_family = AF_NETLINK, .nl_pid = 77 };
	struct msghdr msg = { .msg_name = &kernel, .msg_namelen = sizeof(kernel) };
	struct uevent event;
	ssize_t len = (ssize_t)good[0].len;

	CU_ASSERT_EQUAL(uevent_received(len, 0, &msg, good[0].message, &event), 1);
	CU_ASSERT_EQUAL(event.kind, UEVENT_MEMORY);
	/* Full: something was lost, and nobody knows what. */
	CU_ASSERT_EQUAL(uevent_received(-1, ENOBUFS, &msg, NULL, &event), 1);
	CU_ASSERT_EQUAL(event.kind, UEVENT_OVERRUN);
	CU_ASSERT_EQUAL(uevent_received(-1, EAGAIN, &msg, NULL, &event), 0);
	CU_ASSERT_EQUAL(uevent_received(-1, EINTR, &msg, NULL, &event), -EAGAIN);
	CU_ASSERT_EQUAL(uevent_received(-1, EBADF, &msg, NULL, &event), -EBADF);
	/* From the kernel, but not to be understood. */
	CU_ASSERT_EQUAL(uevent_received(3, 0, &msg, "abc", &event), 1);
	CU_ASSERT_EQUAL(event.kind, UEVENT_OVERRUN);
	msg.msg_flags = MSG_TRUNC;
	CU_ASSERT_EQUAL(uevent_received(len, 0, &msg, good[0].message, &event), 1);
	CU_ASSERT_EQUAL(event.kind, UEVENT_OVERRUN);
	/* From anyone else. */
	msg.msg_flags = 0;
	msg.msg_name = &process;
	CU_ASSERT_EQUAL(uevent_received(len, 0, &msg, good[0].message, &event), -EAGAIN);
	msg.msg_name = &kernel;
	msg.msg_namelen = 0;
	CU_ASSERT_EQUAL(uevent_received(len, 0, &msg, good[0].message, &event), -EAGAIN);
	msg.msg_namelen = sizeof(kernel);
	kernel.nl_family = AF_UNIX;
	CU_ASSERT_EQUAL(uevent_received(len, 0, &msg, good[0].message, &event), -EAGAIN);
}

/* A process that may send to the socket is still not the kernel. */
static void forged_messages_are_passed_over(void)
{
	struct sockaddr_nl own, to = { .nl_family = AF_NETLINK };
	socklen_t len = sizeof(own);
	struct uevent event;
	int fd = uevent_open(), sender;

	if (fd < 0) {
		test_skip("no kernel events here");
		return;
	}
	sender = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_KOBJECT_UEVENT);
	CU_ASSERT_EQUAL(getsockname(fd, (struct sockaddr *)&own, &len), 0);
	to.nl_pid = own.nl_pid;
	if (sender < 0 || sendto(sender, good[0].message, good[0].len, 0, (struct sockaddr *)&to, sizeof(to)) < 0) {
		test_skip("not allowed to send to a netlink socket, which is the point");
	} else {
		struct pollfd pfd = { .fd = fd, .events = POLLIN };

		CU_ASSERT_EQUAL(poll(&pfd, 1, 10000), 1);
		/* Other events of the machine may come in between, so only that it ends without this one is seen. */
		for (int r = 1; r > 0;) {
			r = uevent_read(fd, &event);
			CU_ASSERT(r >= 0);
			CU_ASSERT(r == 0 || event.kind != UEVENT_MEMORY);
		}
	}
	if (sender >= 0)
		close(sender);
	close(fd);
}

static void descriptor(void)
{
	struct uevent event;
	int fd = uevent_open();

	if (fd < 0) {
		test_skip("no kernel events here");
		return;
	}
	/* Non-blocking: this comes back. */
	CU_ASSERT(uevent_read(fd, &event) >= 0);
	close(fd);
	CU_ASSERT_EQUAL(uevent_read(fd, &event), -EBADF);
}

TEST_MAIN(uevent, TEST(what_the_kernel_sends), TEST(what_it_does_not_send), TEST(bytes_at_random),
	  TEST(what_recvmsg_gives), TEST(forged_messages_are_passed_over), TEST(descriptor))
