/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cleanup.h"
#include "clock.h"
#include "helper_keep.h"
#include "log.h"
#include "privops_serve.h"
#include "privops_wire.h"

#define PAUSE_MS 1000 /* between two starts, and for the main process to end after its helper has seen it end */
#define END_MS   5000 /* for a helper to end, too */

struct child {
	pid_t pid;
	int end; /* read end of a pipe that closes with it */
};

__attribute__((noreturn)) static void serve(const struct privops_helper *helper, int fd, pid_t main_pid)
{
	struct privops_serve_params params = { .helper = *helper,
					       .listen_fd = -1,
					       .conn_fd = fd,
					       .conn_pid = (uint32_t)main_pid,
					       .uid = (uid_t)-1,
					       .idle_ms = -1 };
	int r;

	(void)prctl(PR_SET_NAME, "pghotd-helper");
	r = privops_serve(&params);
	if (r < 0)
		log_error("helper: %s", strerror(-r));
	_exit(r < 0 ? EXIT_FAILURE : EXIT_SUCCESS);
}

/* 0 or -errno. */
static int start(const struct privops_helper *helper, int lifeline, pid_t main_pid, struct child *ret)
{
	int pair[2], end[2], r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	if (pipe2(end, O_CLOEXEC) < 0) {
		r = -errno;
		close(pair[0]);
		close(pair[1]);
		return r;
	}
	ret->pid = fork();
	if (ret->pid == 0) {
		close(pair[0]);
		close(end[0]);
		close(lifeline);
		serve(helper, pair[1], main_pid);
	}
	r = ret->pid < 0 ? -errno : 0;
	ret->end = end[0];
	close(end[1]);
	close(pair[1]);
	/* One that nobody takes ends by itself. */
	if (r == 0)
		(void)privops_wire_send(lifeline, "", 1, pair[0]);
	else
		close(end[0]);
	close(pair[0]);
	return r;
}

/* Wait for up to @ms (-1: without end): has the main process ended? Its end at the lifeline is the only one. */
static bool is_over(int lifeline, int ms)
{
	struct pollfd fd = { .fd = lifeline };

	while (poll(&fd, 1, ms) < 0 && errno == EINTR)
		;
	return fd.revents & (POLLHUP | POLLERR | POLLNVAL);
}

/* Until it or the main process has ended. Its status as of waitpid(2). */
static int wait_for(struct child *child, int lifeline)
{
	struct pollfd fds[] = { { .fd = child->end, .events = POLLIN }, { .fd = lifeline } };
	int status = 0;

	while (poll(fds, 2, -1) < 0 && errno == EINTR)
		;
	/* It sees that as well, unless it hangs or was stopped. */
	if (!fds[0].revents && poll(fds, 1, END_MS) <= 0)
		(void)kill(child->pid, SIGKILL);
	while (waitpid(child->pid, &status, 0) < 0 && errno == EINTR)
		;
	close(child->end);
	return status;
}

void helper_keep(const struct privops_helper *helper, int lifeline, pid_t main_pid)
{
	struct child child = { .end = -1 };
	int tries = 0;

	for (;;) {
		uint64_t begun_ns = clock_now_ns(&clock_monotonic);
		int status, r;

		r = start(helper, lifeline, main_pid, &child);
		if (r < 0) {
			log_error("helper: cannot start: %s", strerror(-r));
			break;
		}
		status = wait_for(&child, lifeline);
		/* One that was told so by its socket ends before the lifeline does. */
		if (is_over(lifeline, status == 0 || tries > 0 ? PAUSE_MS : 0))
			return;
		if (clock_now_ns(&clock_monotonic) - begun_ns >= HELPER_KEEP_STEADY_NS)
			tries = 0;
		if (++tries > HELPER_KEEP_TRIES) {
			log_error("helper: it has ended %d times in a row, each time within a minute, and is not "
				  "started again: see why (the kernel's log, if it was killed), then restart pghotd",
				  tries);
			break;
		}
		if (WIFSIGNALED(status))
			log_warning("helper: it was ended by signal %d; another one is started", WTERMSIG(status));
		else
			log_warning("helper: it ended with status %d; another one is started", WEXITSTATUS(status));
	}
	(void)shutdown(lifeline, SHUT_WR);
	(void)is_over(lifeline, -1);
}
