/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "bus_listen.h"
#include "cleanup.h"
#include "helper.h"
#include "helper_keep.h"
#include "log.h"
#include "privops_client.h"
#include "privops_drop.h"
#include "privops_serve.h"

#define DEFAULT_USER "pghotd"
/*
 * Of a helper that systemd started, and starts again: long enough that what puts back the settings of a daemon that has
 * ended finds it running, whatever else a machine does that is going down.
 */
#define IDLE_MS          10000
#define OLD_HELPER_TRIES 6
#define OLD_HELPER_MS    2000

static struct privops_client client;

static int find_user(const char *name, struct privops_user *ret)
{
	int r = privops_drop_find(name, ret);

	if (r == -ENOENT)
		log_error("there is no user \"%s\"; once pghotd is installed, systemd-sysusers makes the user "
			  "\"" DEFAULT_USER "\"",
			  name);
	else if (r < 0)
		log_error("cannot look up the user \"%s\": %s", name, strerror(-r));
	return r;
}

/* With the helper answering, opening events is its job, and reaching into it nobody's. */
static int give_up_rights(void)
{
	int r = privops_drop_caps(privops_main_caps & ~PRIVOPS_CAP(CAP_PERFMON));

	if (r < 0) {
		log_error("cannot give up CAP_PERFMON: %s", strerror(-r));
		return EXIT_FAILED;
	}
	r = privops_drop_calls();
	if (r == -ENOTSUP || r == -EINVAL)
		log_warning("cannot give up perf_event_open() and ptrace() here: %s; ignoring", strerror(-r));
	else if (r < 0)
		log_error("cannot give up perf_event_open() and ptrace(): %s", strerror(-r));
	return r == 0 || r == -ENOTSUP || r == -EINVAL ? EXIT_OK : EXIT_FAILED;
}

static int take(struct daemon_options *options)
{
	options->helper = &client;
	return give_up_rights();
}

/* Is the folder at @fd @user's, or what a run as root left, with nothing in it but ours? @user NULL: is it root's? */
static bool is_own_folder(int fd, const struct privops_user *user)
{
	_cleanup_close_ int copy = -1;
	const struct dirent *entry;
	struct stat st;
	bool own = true;
	DIR *folder;

	if (fstat(fd, &st) < 0)
		return false;
	if (!user || st.st_uid == user->uid || st.st_uid != 0)
		return st.st_uid == (user ? user->uid : 0);
	copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	folder = copy < 0 ? NULL : fdopendir(copy);
	if (!folder)
		return false;
	(void)take_fd(copy);
	while (own && (entry = readdir(folder)))
		own = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
		      strncmp(entry->d_name, "bus", 3) == 0 || strncmp(entry->d_name, "saved", 5) == 0;
	closedir(folder);
	return own;
}

/*
 * The folder that @path is in, made for @user where it is missing. Who gives /tmp or /run must not find that it has
 * another owner and mode. 0; -EEXIST: it is there and not ours, and stays as it is; -errno.
 */
static int make_folder_of(const char *path, const struct privops_user *user)
{
	char folder[PATH_MAX];
	const char *slash = strrchr(path, '/');
	_cleanup_close_ int fd = -1;

	if (snprintf(folder, sizeof(folder), "%.*s", (int)(slash - path), path) >= (int)sizeof(folder))
		return -ENAMETOOLONG;
	if (mkdir(folder, 0755) < 0 && errno != EEXIST)
		return -errno;
	fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (!is_own_folder(fd, user))
		return -EEXIST;
	if (fchmod(fd, 0755) < 0 || (user && fchown(fd, user->uid, user->gid) < 0))
		return -errno;
	return 0;
}

static int open_helper(const struct daemon_options *options, struct privops_helper *ret)
{
	*ret = (struct privops_helper){ .priv = { .ops = &privops_direct, .saved_path = options->helper_saved_path } };
	return fsroot_open(&ret->priv.root, options->root_path);
}

/* Root's part: it lives as long as the main process, and then puts back what that one left. */
__attribute__((noreturn)) static void be_forked(const struct daemon_options *options, int lifeline, pid_t main_pid)
{
	struct privops_restored restored;
	struct privops_helper helper;
	int r;

	/* What ends the whole group must not end it before the main process is done. */
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	signal(SIGCHLD, SIG_DFL);
	(void)prctl(PR_SET_NAME, "pghotd-keeper");
	r = open_helper(options, &helper);
	if (r == 0)
		r = privops_drop_caps(privops_helper_caps);
	if (r == 0)
		helper_keep(&helper, lifeline, main_pid);
	/* One that still listens there is not ours, which has ended: it needs them, and puts them back itself. */
	if (r == 0 && !(options->socket_path && bus_listen_is_taken(options->socket_path)))
		r = privops_restore(&helper.priv, &restored);
	if (r < 0)
		log_error("helper: %s", strerror(-r));
	_exit(r < 0 ? EXIT_FAILED : EXIT_OK);
}

static int fork_helper(struct daemon_options *options)
{
	struct privops_user user;
	int pair[2], r;
	pid_t pid, main_pid = getpid();

	if (geteuid() != 0) {
		log_error("--user needs root to begin with");
		return EXIT_NO_PERMISSION;
	}
	if (find_user(options->user, &user) < 0)
		return EXIT_BAD_USAGE;
	if (user.uid == 0) {
		log_error("--user %s is root: start pghotd without --user", options->user);
		return EXIT_BAD_USAGE;
	}
	r = options->socket_path ? make_folder_of(options->socket_path, &user) : 0;
	if (r == 0)
		r = make_folder_of(options->helper_saved_path, NULL);
	if (r == -EEXIST) {
		log_error("the folder of %s or %s is somebody else's or has other files in it; "
			  "--run-dir wants one that is pghotd's alone",
			  options->socket_path, options->helper_saved_path);
		return EXIT_BAD_USAGE;
	}
	if (r < 0) {
		log_error("cannot make the folders for %s and %s: %s", options->socket_path, options->helper_saved_path,
			  strerror(-r));
		return EXIT_FAILED;
	}
	/* The lifeline of helper_keep(). */
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) {
		log_error("cannot make a socket for the helper: %s", strerror(errno));
		return EXIT_FAILED;
	}
	pid = fork();
	if (pid == 0) {
		close(pair[0]);
		be_forked(options, pair[1], main_pid);
	}
	close(pair[1]);
	if (pid < 0) {
		log_error("cannot start the helper: %s", strerror(errno));
		close(pair[0]);
		return EXIT_FAILED;
	}
	/* Nobody waits for it: its end shows at the socket. */
	signal(SIGCHLD, SIG_IGN);
	r = privops_drop_to(&user, privops_main_caps);
	if (r < 0) {
		log_error("cannot become user \"%s\": %s", user.name, strerror(-r));
		close(pair[0]);
		return EXIT_NO_PERMISSION;
	}
	r = privops_client_adopt(&client, pair[0]);
	if (r < 0) {
		log_error("the helper doesn't answer: %s", strerror(-r));
		return EXIT_FAILED;
	}
	return take(options);
}

int helper_set_up(struct daemon_options *options)
{
	int r;

	options->helper = NULL;
	if (options->user)
		return fork_helper(options);
	if (geteuid() == 0 || strcmp(options->root_path, "/") != 0)
		return EXIT_OK;
	r = privops_client_connect(&client, options->helper_path, 0);
	/* One that was there before an upgrade ends by itself as soon as nobody is connected. */
	for (int i = 0; r == -EPROTONOSUPPORT && i < OLD_HELPER_TRIES; i++) {
		privops_client_done(&client);
		(void)poll(NULL, 0, OLD_HELPER_MS);
		r = privops_client_connect(&client, options->helper_path, 0);
	}
	if (r == 0)
		return take(options);
	privops_client_done(&client);
	/* None, or not for this user: then it is started by hand. */
	if (r != -ENOENT && r != -EACCES)
		log_warning("the helper at %s can't be used: %s; going on without", options->helper_path, strerror(-r));
	return EXIT_OK;
}

int helper_run(const struct daemon_options *options)
{
	struct privops_serve_params params = { .listen_fd = -1, .conn_fd = -1, .idle_ms = -1 };
	struct privops_user user;
	int n = sd_listen_fds(1), r;

	if (geteuid() != 0) {
		log_error("the helper is for what only root may do: start it as root");
		return EXIT_NO_PERMISSION;
	}
	if (find_user(options->user ? options->user : DEFAULT_USER, &user) < 0)
		return EXIT_CANNOT_WORK;
	params.uid = user.uid;
	if (n > 1 || (n == 1 && sd_is_socket_unix(SD_LISTEN_FDS_START, SOCK_SEQPACKET, 1, NULL, 0) <= 0)) {
		log_error("it wants one listening Unix socket, ListenSequentialPacket= of pghotd-helper.socket");
		return EXIT_BAD_CONFIG;
	}
	r = open_helper(options, &params.helper);
	if (r == 0 && n == 1) {
		params.listen_fd = SD_LISTEN_FDS_START;
		params.idle_ms = IDLE_MS;
	} else if (r == 0) {
		r = params.listen_fd = privops_serve_listen(options->helper_path, user.gid);
	}
	if (r >= 0)
		r = privops_drop_caps(privops_helper_caps);
	if (r < 0) {
		log_error("cannot listen at %s: %s", options->helper_path, strerror(-r));
		return EXIT_FAILED;
	}
	sd_notify(0, "READY=1");
	r = privops_serve(&params);
	fsroot_close(&params.helper.priv.root);
	if (r < 0)
		log_error("cannot wait for requests: %s", strerror(-r));
	return r < 0 ? EXIT_FAILED : EXIT_OK;
}

int helper_restore(const char *path, struct privops_restored *ret)
{
	struct privops priv = { .ops = &privops_client_ops, .ctx = &client };
	int r = privops_client_connect(&client, path, 0);

	if (r == 0)
		r = privops_restore(&priv, ret);
	privops_client_done(&client);
	return r;
}
