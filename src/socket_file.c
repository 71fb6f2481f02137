/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cleanup.h"
#include "socket_file.h"

int socket_file_address(const char *path, struct sockaddr_un *ret)
{
	*ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
	if (strlen(path) >= sizeof(ret->sun_path))
		return -ENAMETOOLONG;
	memcpy(ret->sun_path, path, strlen(path));
	return 0;
}

int socket_file_make_folder(const char *path)
{
	char folder[PATH_MAX];
	const char *slash = strrchr(path, '/');

	if (!slash || slash == path)
		return 0;
	if (snprintf(folder, sizeof(folder), "%.*s", (int)(slash - path), path) >= (int)sizeof(folder))
		return -ENAMETOOLONG;
	if (mkdir(folder, 0755) < 0)
		return errno == EEXIST ? 0 : -errno;
	/* The umask may have taken away what others need to get to the socket. */
	return chmod(folder, 0755) < 0 ? -errno : 0;
}

/* 0 when nobody answers at @address. */
static int check_dead(const struct sockaddr_un *address, int type)
{
	_cleanup_close_ int fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -errno;
	if (connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0 || errno == EAGAIN)
		return -EADDRINUSE; /* EAGAIN: so busy that its backlog is full */
	return errno == ECONNREFUSED || errno == ENOENT ? 0 : -errno;
}

int socket_file_remove_dead(const struct sockaddr_un *address, int type)
{
	struct stat st;
	int r;

	if (lstat(address->sun_path, &st) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISSOCK(st.st_mode))
		return -EEXIST;
	r = check_dead(address, type);
	if (r < 0)
		return r;
	return unlink(address->sun_path) < 0 && errno != ENOENT ? -errno : 0;
}
