/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * trouble: programs that are hard to look at. Memory that they have on a slow node was put there under a policy that is
 * gone when it is filled.
 */
#include <errno.h>
#include <linux/mempolicy.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#define PAGE        4096UL
#define SLOW        1
#define NS_PER_SEC  1000000000UL
#define BRIEF_PAGES 256UL
#define BRIEF_NS    (NS_PER_SEC / 2)
#define HOT_PAGES   4096UL
#define TIMES_MAX   (1UL << 20)
#define READS       2000
#define NODES_MAX   64

static const char usage[] = "usage: trouble processes N     N processes with a page each, until SIGTERM\n"
			    "       trouble short N MINUTE  N programs that live half a second, so many a minute\n"
			    "       trouble maps N          a program with N mappings that reads one of them and\n"
			    "                               measures mmap(); SIGUSR1: a line of it, until SIGTERM\n"
			    "       trouble off DIRECTORY   a control group that wants to be left alone\n";

static volatile sig_atomic_t ended, asked;

static void on_signal(int signo)
{
	if (signo == SIGUSR1)
		asked = 1;
	else
		ended = 1;
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_SEC + (uint64_t)ts.tv_nsec;
}

static int fail(const char *what)
{
	fprintf(stderr, "trouble: %s: %s\n", what, strerror(errno));
	return 1;
}

static char *far_memory(unsigned long pages)
{
	unsigned long slow = 1UL << SLOW;
	char *at = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		return NULL;
	madvise(at, pages * PAGE, MADV_NOHUGEPAGE);
	if (syscall(SYS_set_mempolicy, MPOL_BIND, &slow, NODES_MAX))
		return NULL;
	for (unsigned long i = 0; i < pages; i++)
		at[i * PAGE] = 1;
	syscall(SYS_set_mempolicy, MPOL_DEFAULT, NULL, 0);
	return at;
}

static uint64_t next(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

static void read_some(const char *at, unsigned long pages, uint64_t *seed, int n)
{
	while (n-- > 0)
		(void)*(const volatile char *)(at + next(seed) % pages * PAGE);
}

static int processes(unsigned long n)
{
	unsigned long started = 0;

	setpgid(0, 0); /* for the end: all of this group, and nobody else */
	while (started < n && !ended) {
		pid_t pid = fork();

		if (pid < 0)
			break;
		if (pid == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			signal(SIGTERM, SIG_DFL);
			for (;;)
				pause();
		}
		started++;
	}
	printf("processes=%lu\n", started);
	fflush(stdout);
	while (!ended)
		pause();
	signal(SIGTERM, SIG_IGN);
	kill(0, SIGTERM);
	while (wait(NULL) > 0)
		;
	return 0;
}

static int brief(void)
{
	uint64_t seed = 88172645463325252UL ^ (uint64_t)getpid(), end_ns = now_ns() + BRIEF_NS;
	char *at = far_memory(BRIEF_PAGES);

	if (!at)
		return fail("memory");
	while (now_ns() < end_ns)
		read_some(at, BRIEF_PAGES, &seed, READS);
	return 0;
}

static int short_lived(unsigned long n, unsigned long a_minute)
{
	uint64_t begin_ns = now_ns();
	unsigned long failed = 0;
	int status;

	for (unsigned long i = 0; i < n && !ended; i++) {
		uint64_t due_ns = begin_ns + i * 60 * NS_PER_SEC / a_minute, at_ns = now_ns();
		pid_t pid;

		if (at_ns < due_ns)
			usleep((useconds_t)((due_ns - at_ns) / 1000));
		pid = fork();
		if (pid == 0) {
			execl("/proc/self/exe", "trouble", "brief", (char *)NULL);
			_exit(1);
		}
		failed += pid < 0;
		while (waitpid(-1, &status, WNOHANG) > 0)
			failed += status != 0;
	}
	while (wait(&status) > 0)
		failed += status != 0;
	printf("started=%lu failed=%lu ms=%lu\n", n, failed, (now_ns() - begin_ns) / 1000000);
	return failed > 0;
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/*
 * Neighbours differ in what a core dump would have of them, so that each page is a mapping; beside them one that is
 * hot. They can't be accessed, so the kernel's scan for hint faults passes over them. With as many to work on it would
 * rest for minutes on a slow machine: 32 times as long as it took.
 */
static int maps(unsigned long n)
{
	static uint64_t times[TIMES_MAX];
	uint64_t seed = 88172645463325252UL, begin_ns;
	char *at = far_memory(n), *hot = far_memory(HOT_PAGES);
	size_t used = 0;

	if (!at || !hot)
		return fail("memory");
	for (unsigned long i = 0; i < n; i += 2)
		if (madvise(at + i * PAGE, PAGE, MADV_DONTDUMP))
			return fail("madvise");
	if (mprotect(at, n * PAGE, PROT_NONE))
		return fail("mprotect");
	/* What it measures shall be what it waits for, and not who else runs on its CPU. */
	if (setpriority(PRIO_PROCESS, 0, -19))
		return fail("setpriority");
	printf("ready\n");
	fflush(stdout);
	while (!ended) {
		char *scratch;

		read_some(hot, HOT_PAGES, &seed, READS);
		begin_ns = now_ns();
		scratch = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (scratch == MAP_FAILED)
			return fail("mmap");
		munmap(scratch, PAGE);
		if (used < TIMES_MAX)
			times[used++] = now_ns() - begin_ns;
		if (!asked || used == 0)
			continue;
		asked = 0;
		qsort(times, used, sizeof(times[0]), by_size);
		printf("n=%zu p50_ns=%lu p99_ns=%lu p999_ns=%lu longest_ns=%lu\n", used, times[used / 2],
		       times[used - 1 - used / 100], times[used - 1 - used / 1000], times[used - 1]);
		fflush(stdout);
		used = 0;
	}
	return 0;
}

static unsigned long number(const char *text)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);

	if (end == text || *end || n == 0 || n > 10000000) {
		fputs(usage, stderr);
		exit(64);
	}
	return n;
}

int main(int argc, char **argv)
{
	const struct sigaction action = { .sa_handler = on_signal };

	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGUSR1, &action, NULL);
	if (argc == 2 && strcmp(argv[1], "brief") == 0)
		return brief();
	if (argc == 3 && strcmp(argv[1], "processes") == 0)
		return processes(number(argv[2]));
	if (argc == 4 && strcmp(argv[1], "short") == 0)
		return short_lived(number(argv[2]), number(argv[3]));
	if (argc == 3 && strcmp(argv[1], "maps") == 0)
		return maps(number(argv[2]));
	if (argc == 3 && strcmp(argv[1], "off") == 0)
		return setxattr(argv[2], "user.pghot.mode", "off", 3, 0) ? fail(argv[2]) : 0;
	fputs(usage, stderr);
	return 64;
}
