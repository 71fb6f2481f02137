/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The socket before anybody is let in; what happens then is in test_bus.c. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "bus_listen.h"
#include "harness.h"

/* Thousands that came and went while the main loop was busy would all be dealt with before one who stays. */
static void few_wait_at_the_door(void)
{
	enum { MANY = 4 * BUS_LISTEN_BACKLOG };
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	char folder[] = "/tmp/pghot-listen-XXXXXX", lock[160];
	struct bus_listen listening;
	int fds[MANY], n = 0;

	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(folder));
	snprintf(address.sun_path, sizeof(address.sun_path), "%s/bus", folder);
	snprintf(lock, sizeof(lock), "%s/bus.lock", folder);
	CU_ASSERT_EQUAL_FATAL(bus_listen_open(&listening, address.sun_path, (gid_t)-1), 0);
	for (; n < MANY; n++) {
		fds[n] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		if (connect(fds[n], (const struct sockaddr *)&address, sizeof(address)) < 0) {
			CU_ASSERT_EQUAL(errno, EAGAIN);
			close(fds[n]);
			break;
		}
	}
	CU_ASSERT(n >= BUS_LISTEN_BACKLOG && n <= BUS_LISTEN_BACKLOG + 1);
	while (n > 0)
		close(fds[--n]);
	bus_listen_close(&listening, address.sun_path);
	unlink(lock);
	CU_ASSERT_EQUAL(rmdir(folder), 0);
}

/* By whoever asks, as often as they like; what was left by a daemon that is gone says nothing. */
static void a_daemon_is_seen_by_its_lock(void)
{
	char folder[] = "/tmp/pghot-listen-XXXXXX", path[128], lock[160];
	struct bus_listen listening;

	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/bus", folder);
	snprintf(lock, sizeof(lock), "%s/bus.lock", folder);
	CU_ASSERT(!bus_listen_is_taken(path));
	CU_ASSERT_EQUAL_FATAL(bus_listen_open(&listening, path, (gid_t)-1), 0);
	CU_ASSERT(bus_listen_is_taken(path));
	CU_ASSERT(bus_listen_is_taken(path));
	bus_listen_close(&listening, path);
	CU_ASSERT_EQUAL(access(lock, F_OK), 0);
	CU_ASSERT(!bus_listen_is_taken(path));
	CU_ASSERT_EQUAL_FATAL(bus_listen_open(&listening, path, (gid_t)-1), 0);
	bus_listen_close(&listening, path);
	unlink(lock);
	CU_ASSERT_EQUAL(mkfifo(lock, 0600), 0);
	CU_ASSERT(!bus_listen_is_taken(path));
	unlink(lock);
	CU_ASSERT_EQUAL(rmdir(folder), 0);
}

TEST_MAIN(bus_listen, TEST(few_wait_at_the_door), TEST(a_daemon_is_seen_by_its_lock))
