/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"
#include "log.h"

/*
 * Runs @fn in a child whose stderr is a pipe, and returns what came out of it. In a child since log_init() is made to
 * be called once, and the environment is the test's to change there.
 */
static char *stderr_of(void (*fn)(void))
{
	static char out[256 * 1024];
	size_t len = 0;
	int fds[2], status;
	pid_t pid;
	ssize_t n;

	fflush(stdout);
	CU_ASSERT_EQUAL(pipe2(fds, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		dup2(fds[1], STDERR_FILENO);
		unsetenv("JOURNAL_STREAM");
		unsetenv("SYSTEMD_EXEC_PID");
		fn();
		_exit(0);
	}
	close(fds[1]);
	while ((n = read(fds[0], out + len, sizeof(out) - 1 - len)) > 0)
		len += (size_t)n;
	out[len] = '\0';
	close(fds[0]);
	CU_ASSERT_EQUAL(waitpid(pid, &status, 0), pid);
	CU_ASSERT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	return out;
}

static void set_stream(long off)
{
	struct stat st;
	char text[64];

	fstat(STDERR_FILENO, &st);
	snprintf(text, sizeof(text), "%ju:%ju", (uintmax_t)st.st_dev, (uintmax_t)st.st_ino + (uintmax_t)off);
	setenv("JOURNAL_STREAM", text, 1);
}

static void set_exec_pid(long off)
{
	char text[32];

	snprintf(text, sizeof(text), "%ld", (long)getpid() + off);
	setenv("SYSTEMD_EXEC_PID", text, 1);
}

static void say_without_init(void)
{
	log_info("at %d", 1);
	log_debug("hidden");
	log_error("at %d", 2);
}

static void say_debug(void)
{
	log_init(LOG_TARGET_STDERR, LOG_DEBUG);
	log_debug("shown");
	log_init(LOG_TARGET_STDERR, LOG_ERR);
	log_warning("hidden");
}

static void levels_are_kept(void)
{
	CU_ASSERT_STRING_EQUAL(stderr_of(say_without_init), "pghotd: at 1\npghotd: at 2\n");
	CU_ASSERT_STRING_EQUAL(stderr_of(say_debug), "pghotd: shown\n");
}

static void say_auto_no_systemd(void)
{
	setenv("INVOCATION_ID", "0123456789abcdef0123456789abcdef", 1); /* a desktop session has it too */
	log_init(LOG_TARGET_AUTO, LOG_INFO);
	log_info("x");
}

static void say_auto_systemd_pipe(void)
{
	set_exec_pid(0);
	log_init(LOG_TARGET_AUTO, LOG_INFO);
	log_error("x");
	log_info("y");
}

static void say_auto_systemd_child(void)
{
	set_exec_pid(1);
	log_init(LOG_TARGET_AUTO, LOG_INFO);
	log_info("x");
}

static void say_stderr_systemd_pipe(void)
{
	set_exec_pid(0);
	set_stream(0);
	log_init(LOG_TARGET_STDERR, LOG_INFO);
	log_info("x");
}

static void say_auto_other_stream(void)
{
	set_stream(1);
	log_init(LOG_TARGET_AUTO, LOG_INFO);
	log_info("x");
}

static void say_auto_bad_streams(void)
{
	static const char *const bad[] = { "", ":", "1", "1:", "x:y", "1:2x" };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		setenv("JOURNAL_STREAM", bad[i], 1);
		log_init(LOG_TARGET_AUTO, LOG_INFO);
		log_info("x");
	}
}

static void levels_are_written_for_systemd_only(void)
{
	CU_ASSERT_STRING_EQUAL(stderr_of(say_auto_no_systemd), "pghotd: x\n");
	CU_ASSERT_STRING_EQUAL(stderr_of(say_auto_systemd_pipe), "<3>pghotd: x\n<6>pghotd: y\n");
	CU_ASSERT_STRING_EQUAL(stderr_of(say_auto_systemd_child), "pghotd: x\n");
	CU_ASSERT_STRING_EQUAL(stderr_of(say_stderr_systemd_pipe), "pghotd: x\n");
	CU_ASSERT_STRING_EQUAL(stderr_of(say_auto_other_stream), "pghotd: x\n");
	CU_ASSERT_STRING_EQUAL(stderr_of(say_auto_bad_streams),
			       "pghotd: x\npghotd: x\npghotd: x\npghotd: x\npghotd: x\npghotd: x\n");
}

static void say_long(void)
{
	char text[3 * LOG_LINE_MAX];

	log_init(LOG_TARGET_STDERR, LOG_INFO);
	memset(text, 'a', sizeof(text) - 1);
	text[LOG_LINE_MAX - 1] = '\0';
	log_info("%s", text); /* just fits */
	text[LOG_LINE_MAX - 1] = 'a';
	text[sizeof(text) - 1] = '\0';
	log_info("%s", text);
	/* A character of three bytes across the cut. */
	memset(text, 'a', sizeof(text) - 1);
	memcpy(text + LOG_LINE_MAX - 5, "\xe2\x82\xac", 3);
	log_info("%s", text);
}

static void long_lines_are_cut_visibly(void)
{
	char *line = stderr_of(say_long), *end;

	end = strchr(line, '\n');
	CU_ASSERT_EQUAL(end - line, (long)(strlen("pghotd: ") + LOG_LINE_MAX - 1));
	CU_ASSERT_EQUAL(end[-1], 'a');
	line = end + 1;
	end = strchr(line, '\n');
	CU_ASSERT_EQUAL(end - line, (long)(strlen("pghotd: ") + LOG_LINE_MAX - 1));
	CU_ASSERT_EQUAL(strncmp(end - 4, "a...", 4), 0);
	line = end + 1;
	end = strchr(line, '\n');
	CU_ASSERT_EQUAL(strncmp(end - 4, "a...", 4), 0);
	CU_ASSERT_EQUAL(end[1], '\0');
}

static void say_control(void)
{
	log_init(LOG_TARGET_STDERR, LOG_INFO);
	log_info("a\nb\tc\033[2Jd\x7f\xc3\xa4");
}

static void a_line_stays_one_line(void)
{
	CU_ASSERT_STRING_EQUAL(stderr_of(say_control), "pghotd: a b c?[2Jd?\xc3\xa4\n");
}

static void say_errno(void)
{
	const struct log_field field = { "PGHOT_X", "1" };

	log_init(LOG_TARGET_STDERR, LOG_INFO);
	errno = ENOENT;
	log_info("%m");
	if (errno != ENOENT)
		_exit(1);
	log_debug("hidden");
	if (errno != ENOENT)
		_exit(1);
	log_fields(LOG_INFO, &field, 1, "with a field");
	if (errno != ENOENT)
		_exit(1);
	/* Nobody reads any more: no crash, no endless loop. */
	close(STDERR_FILENO);
	log_info("lost");
	if (errno != ENOENT)
		_exit(1);
}

static void errno_survives(void)
{
	CU_ASSERT_STRING_EQUAL(stderr_of(say_errno), "pghotd: No such file or directory\npghotd: with a field\n");
}

static void *say_often(void *arg)
{
	for (int i = 0; i < 200; i++)
		log_info("thread %s says the same line of some length again and again", (const char *)arg);
	return NULL;
}

static void say_from_threads(void)
{
	char name_a[] = "A", name_b[] = "B";
	pthread_t a, b;

	log_init(LOG_TARGET_STDERR, LOG_INFO);
	pthread_create(&a, NULL, say_often, name_a);
	pthread_create(&b, NULL, say_often, name_b);
	pthread_join(a, NULL);
	pthread_join(b, NULL);
}

static void lines_of_threads_do_not_mix(void)
{
	char *save = NULL;
	int n = 0;

	for (char *line = strtok_r(stderr_of(say_from_threads), "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save)) {
		CU_ASSERT(strcmp(line, "pghotd: thread A says the same line of some length again and again") == 0 ||
			  strcmp(line, "pghotd: thread B says the same line of some length again and again") == 0);
		n++;
	}
	CU_ASSERT_EQUAL(n, 400);
}

/*
 * A journal of our own: the socket of journald in a mount namespace of ours. The child prints what it received to its
 * stderr, NUL and all made visible.
 */
static bool put_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	close(fd);
	return ok;
}

/* As root at once; anybody else becomes root of a user namespace first, where the system lets them. */
static bool private_mounts(void)
{
	char uids[32], gids[32];

	if (unshare(CLONE_NEWNS) == 0)
		return true;
	snprintf(uids, sizeof(uids), "0 %u 1", (unsigned int)geteuid());
	snprintf(gids, sizeof(gids), "0 %u 1", (unsigned int)getegid());
	return unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 && put_text("/proc/self/setgroups", "deny") &&
	       put_text("/proc/self/uid_map", uids) && put_text("/proc/self/gid_map", gids);
}

static int private_journal(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX, .sun_path = "/run/systemd/journal/socket" };
	int fd;

	if (!private_mounts())
		return -1;
	if (mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) < 0 || mount("none", "/run", "tmpfs", 0, NULL) < 0)
		return -1;
	if (mkdir("/run/systemd", 0755) < 0 || mkdir("/run/systemd/journal", 0755) < 0)
		return -1;
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return -1;
	return fd;
}

static void show_received(int fd)
{
	static char buf[64 * 1024];
	ssize_t n;

	while ((n = recv(fd, buf, sizeof(buf) - 1, 0)) >= 0) {
		if (write(STDERR_FILENO, buf, (size_t)n) != n || write(STDERR_FILENO, "--\n", 3) != 3)
			_exit(1);
	}
}

static void say_to_journal(void)
{
	const struct log_field fields[] = { { "PGHOT_PID", "42" }, { "PGHOT_KEY", "promote.rate_mib_per_sec" } };
	int fd = private_journal();

	if (fd < 0) {
		fputs("no namespace", stderr);
		return;
	}
	set_stream(0);
	log_init(LOG_TARGET_AUTO, LOG_INFO);
	log_fields(LOG_NOTICE, fields, 2, "hello %s", "world");
	log_error("plain");
	log_debug("hidden");
	show_received(fd);
}

static void say_much_to_journal(void)
{
	struct log_field fields[LOG_FIELDS_MAX + 4];
	char names[LOG_FIELDS_MAX + 4][16];
	char text[3000];
	int fd = private_journal();

	if (fd < 0) {
		fputs("no namespace", stderr);
		return;
	}
	memset(text, 'a', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	for (int i = 0; i < LOG_FIELDS_MAX + 4; i++) {
		snprintf(names[i], sizeof(names[i]), "F_%d", i);
		fields[i] = (struct log_field){ names[i], "v" };
	}
	log_init(LOG_TARGET_JOURNAL, LOG_INFO);
	log_fields(LOG_INFO, fields, LOG_FIELDS_MAX + 4, "%s", text);
	show_received(fd);
}

static int count(const char *text, const char *part)
{
	int n = 0;

	for (; (text = strstr(text, part)); text++)
		n++;
	return n;
}

static void journal_gets_fields(void)
{
	const char *got = stderr_of(say_to_journal);

	if (strcmp(got, "no namespace") == 0) {
		test_skip("no right to make a mount namespace");
		return;
	}
	CU_ASSERT_EQUAL(count(got, "--\n"), 2);
	CU_ASSERT_PTR_NOT_NULL(strstr(got, "MESSAGE=hello world\n"));
	CU_ASSERT_PTR_NOT_NULL(strstr(got, "PRIORITY=5\n"));
	CU_ASSERT_PTR_NOT_NULL(strstr(got, "PRIORITY=3\n"));
	CU_ASSERT_EQUAL(count(got, "SYSLOG_IDENTIFIER=pghotd\n"), 2);
	CU_ASSERT_EQUAL(count(got, "PGHOT_PID=42\n"), 1);
	CU_ASSERT_EQUAL(count(got, "PGHOT_KEY=promote.rate_mib_per_sec\n"), 1);
	CU_ASSERT_PTR_NULL(strstr(got, "CODE_FILE"));
	CU_ASSERT_PTR_NULL(strstr(got, "pghotd: "));
}

static void journal_gets_long_lines_whole(void)
{
	const char *got = stderr_of(say_much_to_journal);

	if (strcmp(got, "no namespace") == 0) {
		test_skip("no right to make a mount namespace");
		return;
	}
	CU_ASSERT_EQUAL(count(got, "--\n"), 1);
	CU_ASSERT_EQUAL(strspn(strstr(got, "MESSAGE=") + strlen("MESSAGE="), "a"), 2999);
	CU_ASSERT_EQUAL(count(got, "\nF_"), LOG_FIELDS_MAX);
}

TEST_MAIN(log, TEST(levels_are_kept), TEST(levels_are_written_for_systemd_only), TEST(long_lines_are_cut_visibly),
	  TEST(a_line_stays_one_line), TEST(errno_survives), TEST(lines_of_threads_do_not_mix),
	  TEST(journal_gets_fields), TEST(journal_gets_long_lines_whole))
