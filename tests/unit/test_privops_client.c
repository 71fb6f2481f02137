/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The main process and the helper over real sockets, without a privilege: the helper's kernel is made up. */
#include <errno.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>

#include "log.h"
#include "message.h"
#include "privops_client.h"
#include "privops_rig.h"
#include "privops_serve.h"

static int fake_open(void *ctx, const struct perf_event_attr *attr, int cpu)
{
	(void)ctx, (void)attr;
	return cpu == 1 ? -EINVAL : memfd_create("event", MFD_CLOEXEC);
}

static const struct privops_ops fake_ops = { .event_open = fake_open };

static struct bench b;
static struct privops_serve_params params;
static struct privops_client client;
static char path[PATH_MAX];

static void setup(void)
{
	bench_init(&b);
	machine_put(&b.machine, "sys/devices/system/cpu/possible", "0-1");
	machine_path(&b.machine, path, "helper/socket");
	params = (struct privops_serve_params){
		.helper.priv = b.priv,
		.listen_fd = -1,
		.conn_fd = -1,
		.uid = geteuid(),
		.idle_ms = 1,
	};
	params.helper.priv.ops = &fake_ops;
}

static void *serve(void *ctx)
{
	(void)ctx;
	return (void *)(intptr_t)privops_serve(&params);
}

static pthread_t start(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, serve, NULL) != 0)
		abort();
	return thread;
}

static int end(pthread_t thread)
{
	void *r;

	pthread_join(thread, &r);
	return (int)(intptr_t)r;
}

/* A server over one end of a pair; the other end. */
static pthread_t start_pair(int *ret_fd)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		abort();
	params.conn_fd = pair[1];
	*ret_fd = pair[0];
	return start();
}

static int keeper; /* its end of the lifeline */

/* As helper_keep() does. */
static void send_forked(int fd)
{
	CU_ASSERT_EQUAL(privops_wire_send(keeper, "", 1, fd), 0);
	close(fd);
}

static int adopt(int fd)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		abort();
	keeper = pair[1];
	send_forked(fd);
	return privops_client_adopt(&client, pair[0]);
}

static pthread_t start_listening(void)
{
	params.listen_fd = privops_serve_listen(path, getegid());
	if (params.listen_fd < 0)
		abort();
	return start();
}

static struct perf_event_attr fault_attr(void)
{
	struct privops_event event = { .type = PERF_TYPE_SOFTWARE,
				       .config = PERF_COUNT_SW_PAGE_FAULTS_MIN,
				       .sample_period = 1,
				       .sample_type = PERF_SAMPLE_TID };
	struct perf_event_attr attr;

	privops_event_attr(&event, &attr);
	return attr;
}

/* As the main process has it: settings are read here, and set there. */
static struct privops through_client(void)
{
	return (struct privops){
		.ops = &privops_client_ops, .ctx = &client, .root = b.machine.root, .saved_path = "/nowhere/saved"
	};
}

static void all_verbs_work(void)
{
	struct perf_event_attr attr = fault_attr();
	struct privops_restored restored;
	struct privops priv;
	struct fsroot root;
	pthread_t thread;
	char text[64];
	int fd;

	setup();
	thread = start_pair(&fd);
	CU_ASSERT_EQUAL(adopt(fd), 0);
	priv = through_client();
	fd = privops_event_open(&priv, &attr, 0);
	CU_ASSERT(fd >= 0);
	/* The very file, and one that no program which is started gets. */
	CU_ASSERT(ftruncate(fd, 4096) == 0 && (fcntl(fd, F_GETFD) & FD_CLOEXEC));
	close(fd);
	CU_ASSERT_EQUAL(privops_event_open(&priv, &attr, 1), -EINVAL); /* the kernel's */
	CU_ASSERT_EQUAL(privops_event_open(&priv, &attr, 2), -EBADRQC);
	attr.inherit = 1;
	CU_ASSERT_EQUAL(privops_event_open(&priv, &attr, 0), -EOPNOTSUPP);
	CU_ASSERT_EQUAL(privops_setting_set(&priv, SETTING_NUMA_PROMOTE_RATE, 0), 0);
	CU_ASSERT_EQUAL(privops_setting_set(&priv, SETTING_NUMA_BALANCING, 1), -EBADRQC);
	CU_ASSERT_EQUAL(privops_setting_set(&priv, SETTING_NUMA_BALANCING, 2), 0);
	CHECK_VALUES(&b, 2, 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(saved_text(&b), "numa_balancing 0 2"));
	CU_ASSERT_EQUAL(privops_restore(&priv, &restored), 0);
	CU_ASSERT_EQUAL(restored.restored, 2);
	CHECK_VALUES(&b, 0, 65536);
	root = b.machine.root;
	CU_ASSERT_EQUAL(fsroot_ask(&root, FSROOT_GUESTS, 0, 0, text, sizeof(text)), -ENOSYS);
	root.asker = &client.asker;
	CU_ASSERT_EQUAL(fsroot_ask(&root, FSROOT_GUESTS, 0, 0, text, sizeof(text)), -ENOENT);
	machine_put(&b.machine, "sys/kernel/debug/kvm/77-12/x", "0");
	CU_ASSERT_EQUAL(fsroot_ask(&root, FSROOT_GUESTS, 0, 0, text, sizeof(text)), 1);
	CU_ASSERT_STRING_EQUAL(text, "77-12\n");
	CU_ASSERT_EQUAL(fsroot_ask(&root, FSROOT_GUESTS, 0, 0, text, 3), 1);
	CU_ASSERT_STRING_EQUAL(text, "77");
	CU_ASSERT_EQUAL(privops_client_look(&client), 0);
	privops_client_done(&client);
	CU_ASSERT_EQUAL(end(thread), 0);
	bench_done(&b);
}

static void a_forked_helper_is_followed_by_the_next(void)
{
	struct perf_event_attr attr = fault_attr();
	struct privops priv;
	pthread_t thread;
	int fd, stale[2];

	setup();
	thread = start_pair(&fd);
	CU_ASSERT_EQUAL(adopt(fd), 0);
	priv = through_client();
	shutdown(params.conn_fd, SHUT_RDWR);
	CU_ASSERT_EQUAL(end(thread), 0);
	/* One that came and went unnoticed, and the one that is there. */
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, stale) < 0)
		abort();
	close(stale[1]);
	send_forked(stale[0]);
	thread = start_pair(&fd);
	send_forked(fd);
	/* The request itself survives. */
	fd = privops_event_open(&priv, &attr, 0);
	CU_ASSERT(fd >= 0);
	close(fd);
	CU_ASSERT_EQUAL(privops_client_look(&client), 0);
	shutdown(params.conn_fd, SHUT_RDWR);
	CU_ASSERT_EQUAL(end(thread), 0);
	/* None is there yet: it is told, and nobody waits for it a second time. */
	CU_ASSERT_EQUAL(privops_client_look(&client), -ECONNRESET);
	thread = start_pair(&fd);
	send_forked(fd);
	CU_ASSERT_EQUAL(privops_client_look(&client), 0);
	CU_ASSERT_EQUAL(privops_setting_set(&priv, SETTING_NUMA_PROMOTE_RATE, 0), 0);
	privops_client_done(&client);
	CU_ASSERT_EQUAL(end(thread), 0);
	close(keeper);
	bench_done(&b);
}

static void without_a_keeper_a_forked_helper_is_gone_for_good(void)
{
	struct perf_event_attr attr = fault_attr();
	struct privops priv;
	pthread_t thread;
	int fd;

	setup();
	thread = start_pair(&fd);
	CU_ASSERT_EQUAL(adopt(fd), 0);
	priv = through_client();
	/* Their ends, as the processes would close them. */
	close(keeper);
	shutdown(params.conn_fd, SHUT_RDWR);
	CU_ASSERT_EQUAL(end(thread), 0);
	CU_ASSERT(privops_event_open(&priv, &attr, 0) < 0);
	CU_ASSERT(privops_client_look(&client) < 0);
	CU_ASSERT(privops_setting_set(&priv, SETTING_NUMA_BALANCING, 2) < 0);
	CHECK_VALUES(&b, 0, 65536);
	privops_client_done(&client);
	bench_done(&b);
}

static void a_helper_that_is_started_again_is_found(void)
{
	struct perf_event_attr attr = fault_attr();
	struct privops priv;
	pthread_t thread;
	int fd;

	setup();
	CU_ASSERT_EQUAL(privops_client_connect(&client, path, geteuid()), -ENOENT);
	privops_client_done(&client);
	thread = start_listening();
	CU_ASSERT_EQUAL(privops_client_connect(&client, path, geteuid()), 0);
	CU_ASSERT_EQUAL(privops_serve_listen(path, getegid()), -EADDRINUSE);
	priv = through_client();
	/* It ends: nobody else is connected, and nobody is waited for. */
	shutdown(client.fd, SHUT_RDWR);
	CU_ASSERT_EQUAL(end(thread), 0);
	CU_ASSERT(privops_event_open(&priv, &attr, 0) < 0);
	CU_ASSERT(privops_client_look(&client) < 0);
	/* What it left is replaced by the next one, and the main process finds it by itself. */
	thread = start_listening();
	client.retry_ns = 0; /* not to wait a second here */
	CU_ASSERT_EQUAL(privops_client_look(&client), 0);
	fd = privops_event_open(&priv, &attr, 0);
	CU_ASSERT(fd >= 0);
	close(fd);
	privops_client_done(&client);
	CU_ASSERT_EQUAL(end(thread), 0);
	bench_done(&b);
}

static void a_file_that_is_no_socket_stays(void)
{
	setup();
	machine_put(&b.machine, "helper/socket", "what somebody keeps here");
	CU_ASSERT_EQUAL(privops_serve_listen(path, getegid()), -EEXIST);
	CU_ASSERT_EQUAL(access(path, F_OK), 0);
	bench_done(&b);
}

/* Between two requests, so that only the second one notices. */
static void a_request_survives_a_new_helper(void)
{
	struct perf_event_attr attr = fault_attr();
	struct privops priv;
	pthread_t thread;
	int fd;

	setup();
	thread = start_listening();
	CU_ASSERT_EQUAL(privops_client_connect(&client, path, geteuid()), 0);
	priv = through_client();
	shutdown(client.fd, SHUT_RDWR);
	CU_ASSERT_EQUAL(end(thread), 0);
	thread = start_listening();
	fd = privops_event_open(&priv, &attr, 0);
	CU_ASSERT(fd >= 0);
	close(fd);
	privops_client_done(&client);
	CU_ASSERT_EQUAL(end(thread), 0);
	bench_done(&b);
}

static void a_socket_of_somebody_else_is_not_used(void)
{
	pthread_t thread;

	setup();
	thread = start_listening();
	CU_ASSERT_EQUAL(privops_client_connect(&client, path, geteuid() + 1), -EPERM);
	privops_client_done(&client);
	CU_ASSERT_EQUAL(end(thread), 0);
	bench_done(&b);
}

static void a_stranger_is_turned_away(void)
{
	char folder[PATH_MAX];
	pthread_t thread;
	int status = -1;
	pid_t pid;

	setup();
	machine_path(&b.machine, folder, "helper");
	params.uid = geteuid() + 1;
	thread = start_listening();
	pid = fork();
	if (pid == 0) {
		/* Root may always ask, so the stranger is somebody else then, who got past the file's mode. */
		if (chdir(folder) < 0 || chmod("socket", 0666) < 0 || (geteuid() == 0 && setuid(65534) < 0))
			_exit(2);
		_exit(privops_client_connect(&client, "socket", params.uid - 1) < 0 ? 0 : 1);
	}
	CU_ASSERT_EQUAL(waitpid(pid, &status, 0), pid);
	CU_ASSERT_EQUAL(status, 0);
	CU_ASSERT_EQUAL(end(thread), 0);
	bench_done(&b);
}

#define STRANGERS 40

/* Whoever gets to the socket can't fill the journal, and how many there were is told. */
static void many_strangers_are_few_lines(void)
{
	unsigned int limit = message_info[MESSAGE_HELPER_CALLER].per_minute, lines = 0;
	char folder[PATH_MAX], log[PATH_MAX], line[LOG_LINE_MAX], last[LOG_LINE_MAX] = "";
	int pair[2], status = -1;
	pid_t helper, pid;
	FILE *file;

	setup();
	machine_path(&b.machine, folder, "helper");
	machine_path(&b.machine, log, "log");
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		abort();
	params.uid = geteuid() + 1;
	params.conn_fd = pair[1]; /* so that it doesn't end between two of them */
	params.listen_fd = privops_serve_listen(path, getegid());
	helper = fork();
	if (helper == 0) {
		close(pair[0]);
		if (!freopen(log, "w", stderr))
			_exit(2);
		log_init(LOG_TARGET_STDERR, LOG_INFO);
		_exit(privops_serve(&params) == 0 ? 0 : 1);
	}
	close(pair[1]);
	pid = fork();
	if (pid == 0) {
		if (chdir(folder) < 0 || chmod("socket", 0666) < 0 || (geteuid() == 0 && setuid(65534) < 0))
			_exit(2);
		for (int i = 0; i < STRANGERS; i++)
			if (privops_client_connect(&client, "socket", params.uid - 1) == 0)
				_exit(1);
		_exit(0);
	}
	CU_ASSERT_EQUAL(waitpid(pid, &status, 0), pid);
	CU_ASSERT_EQUAL(status, 0);
	close(pair[0]);
	close(params.listen_fd);
	CU_ASSERT_EQUAL(waitpid(helper, &status, 0), helper);
	CU_ASSERT_EQUAL(status, 0);
	file = fopen(log, "r");
	while (file && fgets(line, sizeof(line), file)) {
		lines++;
		memcpy(last, line, sizeof(last));
	}
	if (file)
		fclose(file);
	/* A test before may have had one in this minute, too. */
	CU_ASSERT(lines >= 2 && lines <= limit + 1);
	CU_ASSERT_PTR_NOT_NULL(strstr(last, "more of these were not logged"));
	bench_done(&b);
}

/* A helper of another build, or something else at the socket's other end. */
static void strange_answers_are_refused(void)
{
	static const struct {
		struct privops_reply reply;
		size_t bytes;
		int want;
		bool fd;
	} answers[] = {
		{ { .version = PRIVOPS_WIRE_VERSION + 1 }, PRIVOPS_REPLY_MIN, -EPROTONOSUPPORT, false },
		{ { .version = PRIVOPS_WIRE_VERSION, .r = -EPROTONOSUPPORT },
		  PRIVOPS_REPLY_MIN,
		  -EPROTONOSUPPORT,
		  false },
		{ { .version = PRIVOPS_WIRE_VERSION }, PRIVOPS_REPLY_MIN - 1, -EBADMSG, false },
		{ { .version = PRIVOPS_WIRE_VERSION, .n_text = 1 }, PRIVOPS_REPLY_MIN, -EBADMSG, false },
		{ { .version = PRIVOPS_WIRE_VERSION, .n_text = UINT32_MAX }, PRIVOPS_REPLY_MIN + 9, -EBADMSG, false },
		{ { .version = PRIVOPS_WIRE_VERSION }, PRIVOPS_REPLY_MIN, -EBADMSG, true },
	};

	for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
		int pair[2], lowest = dup(0);

		close(lowest);
		if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
			abort();
		CU_ASSERT_EQUAL(privops_wire_send(pair[1], &answers[i].reply, answers[i].bytes,
						  answers[i].fd ? pair[1] : -1),
				0);
		CU_ASSERT_EQUAL(adopt(pair[0]), answers[i].want);
		privops_client_done(&client);
		close(keeper);
		close(pair[1]);
		/* No descriptor that came along is left. */
		CU_ASSERT_EQUAL(dup(0), lowest);
		close(lowest);
	}
}

static void descriptors_that_are_sent_along_are_closed(void)
{
	struct privops_request request = { .version = PRIVOPS_WIRE_VERSION, .verb = PRIVOPS_HELLO };
	struct privops_reply reply;
	char fd_path[64], target[PATH_MAX];
	pthread_t thread;
	int fd, mine;
	ssize_t n;

	setup();
	thread = start_pair(&fd);
	mine = memfd_create("stray", MFD_CLOEXEC);
	CU_ASSERT_EQUAL(privops_wire_send(fd, &request, sizeof(request), mine), 0);
	close(mine);
	CU_ASSERT(privops_wire_receive(fd, &reply, sizeof(reply), NULL) > 0);
	CU_ASSERT_EQUAL(reply.r, 0);
	for (int i = 0; i < 64; i++) {
		snprintf(fd_path, sizeof(fd_path), "/proc/self/fd/%d", i);
		n = readlink(fd_path, target, sizeof(target) - 1);
		target[n > 0 ? n : 0] = '\0';
		CU_ASSERT_PTR_NULL(strstr(target, "stray"));
	}
	close(fd);
	CU_ASSERT_EQUAL(end(thread), 0);
	bench_done(&b);
}

/* The descriptor came, and this process has no room: it must be told so, to raise its limit and try again. */
static void no_room_for_a_descriptor_is_told(void)
{
	struct perf_event_attr attr = fault_attr();
	struct rlimit before, few;
	struct privops priv;
	int fd, pair[2];
	struct privops_reply reply = { .version = PRIVOPS_WIRE_VERSION };

	if (test_under_valgrind())
		return test_skip("valgrind keeps the limit of descriptors by itself, and the kernel doesn't know it");
	setup();
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		abort();
	/* A helper with room of its own: what it says to hello and to the request is there already. */
	CU_ASSERT_EQUAL(privops_wire_send(pair[1], &reply, PRIVOPS_REPLY_MIN, -1), 0);
	CU_ASSERT_EQUAL(privops_wire_send(pair[1], &reply, PRIVOPS_REPLY_MIN, pair[1]), 0);
	CU_ASSERT_EQUAL(adopt(pair[0]), 0);
	priv = through_client();
	fd = dup(0);
	close(fd);
	CU_ASSERT_EQUAL(getrlimit(RLIMIT_NOFILE, &before), 0);
	few = before;
	few.rlim_cur = (rlim_t)fd;
	CU_ASSERT_EQUAL(setrlimit(RLIMIT_NOFILE, &few), 0);
	CU_ASSERT_EQUAL(privops_event_open(&priv, &attr, 0), -EMFILE);
	CU_ASSERT_EQUAL(setrlimit(RLIMIT_NOFILE, &before), 0);
	CU_ASSERT(client.fd >= 0); /* the helper is as well as before */
	privops_client_done(&client);
	close(pair[1]);
	bench_done(&b);
}

TEST_MAIN(privops_client, TEST(all_verbs_work), TEST(a_forked_helper_is_followed_by_the_next),
	  TEST(without_a_keeper_a_forked_helper_is_gone_for_good), TEST(a_file_that_is_no_socket_stays),
	  TEST(a_helper_that_is_started_again_is_found), TEST(a_request_survives_a_new_helper),
	  TEST(a_socket_of_somebody_else_is_not_used), TEST(a_stranger_is_turned_away),
	  TEST(many_strangers_are_few_lines), TEST(strange_answers_are_refused),
	  TEST(descriptors_that_are_sent_along_are_closed), TEST(no_room_for_a_descriptor_is_told))
