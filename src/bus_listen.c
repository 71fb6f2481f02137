/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "bus_listen.h"
#include "cleanup.h"
#include "socket_file.h"

/* Two daemons that start at once would both find a dead socket and the second remove the first one's new one. */
static int lock(const char *path)
{
	char name[PATH_MAX];
	_cleanup_close_ int fd = -1;

	if (snprintf(name, sizeof(name), "%s.lock", path) >= (int)sizeof(name))
		return -ENAMETOOLONG;
	/* Not readable for others: who can open it can hold it. */
	fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK ? -EADDRINUSE : -errno;
	return take_fd(fd);
}

/* Until its mode is set the file is there for its owner alone, and until listen() connecting to it is refused. */
static int bind_and_listen(int fd, const char *path, const struct sockaddr_un *address, gid_t gid,
			   struct bus_listen *ret)
{
	struct stat st;

	/* Linux gives the file the mode of the socket's own inode; no need to touch the umask of all threads. */
	if (fchmod(fd, 0600) < 0 || bind(fd, (const struct sockaddr *)address, sizeof(*address)) < 0)
		return -errno;
	ret->shared = gid != (gid_t)-1 && lchown(path, geteuid(), gid) == 0;
	if (chmod(path, ret->shared ? 0660 : 0600) < 0 || lstat(path, &st) < 0 || listen(fd, BUS_LISTEN_BACKLOG) < 0) {
		int r = -errno;

		unlink(path);
		return r;
	}
	ret->dev = st.st_dev;
	ret->ino = st.st_ino;
	return 0;
}

int bus_listen_open(struct bus_listen *ret, const char *path, gid_t gid)
{
	_cleanup_close_ int fd = -1, lock_fd = -1;
	struct sockaddr_un address;
	int r;

	*ret = (struct bus_listen){ .fd = -1, .lock_fd = -1 };
	r = socket_file_address(path, &address);
	if (r == 0)
		r = socket_file_make_folder(path);
	if (r < 0)
		return r;
	lock_fd = lock(path);
	if (lock_fd < 0)
		return lock_fd;
	r = socket_file_remove_dead(&address, SOCK_STREAM);
	if (r < 0)
		return r;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	r = bind_and_listen(fd, path, &address, gid, ret);
	if (r < 0)
		return r;
	ret->fd = take_fd(fd);
	ret->lock_fd = take_fd(lock_fd);
	return 0;
}

void bus_listen_close(struct bus_listen *listen, const char *path)
{
	struct stat st;

	if (listen->fd < 0)
		return;
	if (lstat(path, &st) == 0 && st.st_dev == listen->dev && st.st_ino == listen->ino)
		unlink(path);
	close(listen->fd);
	close(listen->lock_fd);
	listen->fd = listen->lock_fd = -1;
}

bool bus_listen_is_taken(const char *path)
{
	char name[PATH_MAX];
	_cleanup_close_ int fd = -1;

	if (snprintf(name, sizeof(name), "%s.lock", path) >= (int)sizeof(name))
		return false;
	/*
	 * To read only, which is enough for root without CAP_DAC_OVERRIDE; not blocking, as it may have become a pipe;
	 * and the lock is shared, as two may ask at once.
	 */
	fd = open(name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	return fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK;
}
