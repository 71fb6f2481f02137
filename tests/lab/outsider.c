/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What somebody gets who has taken over pghotd: `outsider PID`, as root. It takes the very socket to the helper that
 * the main process has, asks for what isn't on the helper's list, and for one thing that is; then it becomes the user
 * of the main process, with its capabilities, and tries the same by itself. A line for each: "refused WHAT" or "had
 * WHAT"; the one that may be had is "had an event of pghotd".
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "privops_wire.h"

#define QUIET_MS 300
#define TRIES    50

static pid_t pid;

static void die(const char *what)
{
	fprintf(stderr, "outsider: %s: %s\n", what, strerror(errno));
	(void)kill(pid, SIGCONT);
	exit(2);
}

static void say(int had, const char *what)
{
	printf("%s %s\n", had ? "had" : "refused", what);
}

/* Descriptor @fd of the main process as one of ours, if it is the socket to the helper; -1. */
static int take(int pidfd, int fd)
{
	int type = 0, domain = 0, mine = (int)syscall(SYS_pidfd_getfd, pidfd, fd, 0);
	socklen_t bytes = sizeof(int);

	if (mine < 0)
		return -1;
	if (getsockopt(mine, SOL_SOCKET, SO_TYPE, &type, &bytes) == 0 &&
	    getsockopt(mine, SOL_SOCKET, SO_DOMAIN, &domain, &bytes) == 0 && type == SOCK_SEQPACKET &&
	    domain == AF_UNIX)
		return mine;
	close(mine);
	return -1;
}

static int find_socket(void)
{
	int pidfd = (int)syscall(SYS_pidfd_open, pid, 0), found = -1;
	char path[64];
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	dir = opendir(path);
	if (pidfd < 0 || !dir)
		die("cannot look at the main process");
	for (struct dirent *entry; found < 0 && (entry = readdir(dir));)
		if (entry->d_name[0] != '.')
			found = take(pidfd, atoi(entry->d_name));
	closedir(dir);
	if (found < 0)
		die("the main process has no socket to a helper");
	return found;
}

/* Stop the main process, but not while it waits for an answer, which would then be ours. */
static void stop_quiet(int fd)
{
	for (int i = 0; i < TRIES; i++) {
		struct pollfd answer = { .fd = fd, .events = POLLIN };

		if (kill(pid, SIGSTOP) < 0)
			die("cannot stop it");
		if (poll(&answer, 1, QUIET_MS) == 0)
			return;
		kill(pid, SIGCONT);
		poll(NULL, 0, QUIET_MS);
	}
	die("it is never quiet");
}

/* Ask; a descriptor that comes is closed. The helper's number. */
static int ask(int fd, const void *data, size_t len, int *ret_came)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	static struct privops_reply reply;
	struct iovec iov = { .iov_base = &reply, .iov_len = sizeof(reply) };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control.bytes)
	};
	struct cmsghdr *cmsg;

	if (send(fd, data, len, 0) != (ssize_t)len || recvmsg(fd, &msg, 0) < (ssize_t)PRIVOPS_REPLY_MIN)
		die("the helper doesn't answer");
	cmsg = CMSG_FIRSTHDR(&msg);
	*ret_came = cmsg && cmsg->cmsg_type == SCM_RIGHTS;
	if (*ret_came) {
		int came;

		memcpy(&came, CMSG_DATA(cmsg), sizeof(came));
		close(came);
	}
	return reply.r;
}

static struct privops_request event(uint32_t type, uint64_t config, int cpu, uint64_t sample_type)
{
	return (struct privops_request){
		.version = PRIVOPS_WIRE_VERSION,
		.verb = PRIVOPS_EVENT_OPEN,
		.event = { .type = type, .cpu = cpu, .config = config, .sample_period = 1, .sample_type = sample_type },
	};
}

static void ask_for(int fd, const struct privops_request *request, const char *what)
{
	int came, r = ask(fd, request, sizeof(*request), &came);

	say(r >= 0 || came, what);
}

static void ask_helper(int fd)
{
	struct privops_request request = event(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS_MIN, 0, PERF_SAMPLE_ADDR);
	unsigned char longer[sizeof(request) + 8] = { 0 };
	int came;

	ask_for(fd, &request, "an event of pghotd");
	request = event(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, 0, PERF_SAMPLE_IP);
	ask_for(fd, &request, "the helper: the clock of a CPU");
	request = event(PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, 0, PERF_SAMPLE_IP);
	ask_for(fd, &request, "the helper: cycles");
	request = event(PERF_TYPE_TRACEPOINT, 1, 0, PERF_SAMPLE_RAW);
	ask_for(fd, &request, "the helper: a tracepoint");
	request = event(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS_MIN, 0, PERF_SAMPLE_STACK_USER);
	ask_for(fd, &request, "the helper: stacks");
	request = event(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS_MIN, -1, PERF_SAMPLE_ADDR);
	ask_for(fd, &request, "the helper: all CPUs at once");
	request = (struct privops_request){ .version = PRIVOPS_WIRE_VERSION, .verb = PRIVOPS_SETTING_SET };
	request.set.value = 1;
	ask_for(fd, &request, "the helper: numa_balancing 1");
	request.set.setting = 2;
	ask_for(fd, &request, "the helper: a third setting");
	request = (struct privops_request){ .version = PRIVOPS_WIRE_VERSION, .verb = 99 };
	ask_for(fd, &request, "the helper: verb 99");
	request.verb = PRIVOPS_ASK;
	request.ask.question = 99;
	ask_for(fd, &request, "the helper: question 99");
	say(ask(fd, longer, sizeof(longer), &came) >= 0 || came, "the helper: a longer packet");
}

static uint64_t status_number(const char *key, int base)
{
	char path[64], line[256];
	uint64_t value = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	f = fopen(path, "r");
	if (!f)
		die(path);
	while (fgets(line, sizeof(line), f))
		if (strncmp(line, key, strlen(key)) == 0)
			value = strtoull(line + strlen(key), NULL, base);
	fclose(f);
	return value;
}

static void become(uid_t uid, gid_t gid, uint64_t caps)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = {
		{ .effective = (uint32_t)caps, .permitted = (uint32_t)caps },
		{ .effective = (uint32_t)(caps >> 32), .permitted = (uint32_t)(caps >> 32) },
	};

	if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0 || syscall(SYS_setgroups, 0, NULL) < 0 ||
	    setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0 || syscall(SYS_capset, &header, data) < 0)
		die("cannot become the main process's user");
}

static void try_open(const char *path, int flags, const char *what)
{
	int fd = open(path, flags | O_CLOEXEC);

	say(fd >= 0, what);
	if (fd >= 0)
		close(fd);
}

static void try_alone(void)
{
	struct perf_event_attr attr = { .type = PERF_TYPE_SOFTWARE,
					.size = sizeof(attr),
					.config = PERF_COUNT_SW_CPU_CLOCK,
					.sample_period = 1000000,
					.disabled = 1 };

	say(syscall(SYS_perf_event_open, &attr, -1, 0, -1, 0) >= 0, "alone: the clock of a CPU");
	attr.config = PERF_COUNT_SW_PAGE_FAULTS_MIN;
	say(syscall(SYS_perf_event_open, &attr, -1, 0, -1, 0) >= 0, "alone: an event of pghotd");
	try_open("/proc/sys/kernel/numa_balancing", O_WRONLY, "alone: numa_balancing");
	try_open("/proc/sys/kernel/perf_event_paranoid", O_WRONLY, "alone: perf_event_paranoid");
	try_open("/proc/sys/vm/swappiness", O_WRONLY, "alone: swappiness");
	try_open("/proc/1/mem", O_RDWR, "alone: memory of process 1");
	try_open("/sys/kernel/debug/sched/numa_balancing/scan_delay_ms", O_WRONLY, "alone: debugfs");
}

int main(int argc, char **argv)
{
	uint64_t uid, gid, caps;
	int fd;

	pid = argc == 2 ? atoi(argv[1]) : 0;
	if (pid <= 0) {
		fprintf(stderr, "usage: outsider PID\n");
		return 64;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	fd = find_socket();
	stop_quiet(fd);
	ask_helper(fd);
	kill(pid, SIGCONT);
	uid = status_number("Uid:", 10);
	gid = status_number("Gid:", 10);
	caps = status_number("CapEff:", 16);
	say(uid == 0, "root");
	say(status_number("Seccomp:", 10) != 2, "every system call");
	become((uid_t)uid, (gid_t)gid, caps);
	try_alone();
	return 0;
}
