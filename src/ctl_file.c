/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "cleanup.h"
#include "config.h"
#include "ctl_file.h"

#define LOCK_POLL_MS 20
#define MOUNT_TEXT                                                                                                    \
	"this file alone is mounted here, so it can't be replaced: edit it where it comes from, or mount the folder " \
	"that it is in"
#define FILE_MAX_BYTES (1u << 20) /* as config_load() */

static int fail(char *error, const char *path, int r, const char *what)
{
	snprintf(error, CTL_FILE_ERROR_MAX, "%.300s: %s", path, what ? what : strerror(-r));
	return r;
}

/* No file: it will be where @path says. */
static int find_missing(struct ctl_file *file, const char *path, char *error)
{
	struct stat st;

	if (lstat(path, &st) == 0)
		return fail(error, path, -EINVAL, "it is a link to nothing");
	if ((size_t)snprintf(file->path, sizeof(file->path), "%s", path) >= sizeof(file->path))
		return fail(error, path, -ENAMETOOLONG, NULL);
	file->text = strdup("");
	return file->text ? 0 : fail(error, path, -ENOMEM, NULL);
}

/* Is @fd still the file of that name? Whoever had the lock before has removed it. */
static bool is_there(int fd, const char *name)
{
	struct stat ours, there;

	return fstat(fd, &ours) == 0 && lstat(name, &there) == 0 && ours.st_dev == there.st_dev &&
	       ours.st_ino == there.st_ino;
}

/* A file of its own, for its owner alone: one that others can open, they can hold for ever. */
int ctl_file_lock(struct ctl_file *file, const char *path, char *error)
{
	char real[PATH_MAX];

	if (!realpath(path, real))
		snprintf(real, sizeof(real), "%s", path);
	snprintf(file->lock, sizeof(file->lock), "%s.lock", real);
	for (int waited_ms = 0; waited_ms < CTL_FILE_WAIT_MS; waited_ms += LOCK_POLL_MS) {
		_cleanup_close_ int fd = open(file->lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);

		if (fd < 0)
			return fail(error, real, -errno, NULL);
		if (flock(fd, LOCK_EX | LOCK_NB) == 0 && is_there(fd, file->lock)) {
			file->lock_fd = take_fd(fd);
			return 0;
		}
		poll(NULL, 0, LOCK_POLL_MS);
	}
	return fail(error, real, -EBUSY, "another pghotctl saves into it");
}

/*
 * Is what @fd is a mount of its own, as containers make of a single file? Nothing can be put in its place: rename(2)
 * fails with EBUSY, but late. Linux 5.8 says so before.
 */
static bool is_mount(int fd)
{
	struct statx st;

	return statx(fd, "", AT_EMPTY_PATH, 0, &st) == 0 && (st.stx_attributes & STATX_ATTR_MOUNT_ROOT);
}

int ctl_file_read(struct ctl_file *file, const char *path, char *error)
{
	_cleanup_close_ int fd = -1;
	size_t len = 0;
	ssize_t n;

	if (!realpath(path, file->path))
		return errno == ENOENT ? find_missing(file, path, error) : fail(error, path, -errno, NULL);
	fd = open(file->path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | O_NOFOLLOW);
	if (fd < 0 || fstat(fd, &file->st) < 0)
		return fail(error, file->path, -errno, NULL);
	if (!S_ISREG(file->st.st_mode))
		return fail(error, file->path, -EINVAL, "this is no ordinary file");
	file->exists = true;
	file->is_mount = is_mount(fd);
	file->text = malloc(FILE_MAX_BYTES + 1);
	if (!file->text)
		return fail(error, file->path, -ENOMEM, NULL);
	while (len <= FILE_MAX_BYTES && (n = read(fd, file->text + len, FILE_MAX_BYTES + 1 - len)) != 0) {
		if (n < 0 && errno != EINTR)
			return fail(error, file->path, -errno, NULL);
		len += n > 0 ? (size_t)n : 0;
	}
	if (len > FILE_MAX_BYTES)
		return fail(error, file->path, -EINVAL, "it is too large: this is no configuration");
	if (memchr(file->text, '\0', len))
		return fail(error, file->path, -EINVAL, "this is no text file");
	file->text[len] = '\0';
	file->mark = config_mark(file->text, len);
	return 0;
}

static int write_all(int fd, const char *text)
{
	size_t len = strlen(text);

	while (len > 0) {
		ssize_t n = write(fd, text, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		text += n;
		len -= (size_t)n;
	}
	return 0;
}

int ctl_file_write(struct ctl_file *file, const char *text, char *error)
{
	_cleanup_close_ int fd = -1;
	int r = 0;

	if (file->is_mount)
		return fail(error, file->path, -EBUSY, MOUNT_TEXT);
	snprintf(file->new, sizeof(file->new), "%s.XXXXXX", file->path);
	fd = mkostemp(file->new, O_CLOEXEC);
	if (fd < 0) {
		r = -errno;
		file->new[0] = '\0';
		return fail(error, file->path, r, NULL);
	}
	if (file->exists && (file->st.st_uid != geteuid() || file->st.st_gid != getegid()) &&
	    fchown(fd, file->st.st_uid, file->st.st_gid) < 0)
		r = -errno;
	/* After fchown(), which takes bits away. */
	if (r == 0 && fchmod(fd, file->exists ? file->st.st_mode & 07777 : 0644) < 0)
		r = -errno;
	if (r == 0)
		r = write_all(fd, text);
	if (r == 0 && fsync(fd) < 0)
		r = -errno;
	if (r < 0) {
		unlink(file->new);
		file->new[0] = '\0';
		return fail(error, file->path, r, NULL);
	}
	return 0;
}

static bool is_same(const struct ctl_file *file)
{
	struct stat st;

	/* ctime: whoever wrote it could set mtime back. */
	return lstat(file->path, &st) == 0 && st.st_dev == file->st.st_dev && st.st_ino == file->st.st_ino &&
	       st.st_size == file->st.st_size && st.st_ctim.tv_sec == file->st.st_ctim.tv_sec &&
	       st.st_ctim.tv_nsec == file->st.st_ctim.tv_nsec;
}

/* So that the new name outlives a crash of the machine; without it only that is lost. */
static void sync_folder(const char *path)
{
	char copy[PATH_MAX];
	int fd;

	snprintf(copy, sizeof(copy), "%s", path);
	fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return;
	(void)fsync(fd);
	close(fd);
}

int ctl_file_replace(struct ctl_file *file, char *error)
{
	int r = 0;

	if (file->exists && !is_same(file))
		return fail(error, file->path, -EBUSY, "somebody changed it just now");
	/* One that came meanwhile is not replaced. */
	if (file->exists ? rename(file->new, file->path) < 0 : link(file->new, file->path) < 0)
		r = -errno;
	if (r < 0)
		return fail(error, file->path, r,
			    r == -EEXIST  ? "somebody made it just now"
			    : r == -EBUSY ? MOUNT_TEXT
					  : NULL);
	if (!file->exists)
		unlink(file->new);
	file->new[0] = '\0';
	sync_folder(file->path);
	return 0;
}

void ctl_file_close(struct ctl_file *file)
{
	if (file->new[0])
		unlink(file->new);
	file->new[0] = '\0';
	free(file->text);
	file->text = NULL;
	if (file->lock_fd == 0)
		return;
	/* Before the lock goes, or it could be the next one's. */
	unlink(file->lock);
	close(file->lock_fd);
	file->lock_fd = 0;
}
