/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "cleanup.h"
#include "fsroot.h"
#include "parse.h"

/* /proc/zoneinfo of a big machine is about 100 KiB; seq_file makes as much as is asked for in one go. */
#define ALLOC_FIRST_BYTES 16384
#define ALLOC_MAX_BYTES   (16u << 20)

/* A number, its 0x and newline, with room to see that something longer is none. */
#define NUMBER_BYTES 64

/*
 * The path below the root. A leading slash would make openat(2) forget the root, and a test would read the running
 * machine, so it is taken off. 0 or -ENAMETOOLONG.
 */
__attribute__((format(printf, 3, 0))) static int make_path(char path[PATH_MAX], const char **ret, const char *fmt,
							   va_list ap)
{
	int n = vsnprintf(path, PATH_MAX, fmt, ap);

	if (n < 0)
		return -EINVAL;
	if (n >= PATH_MAX)
		return -ENAMETOOLONG;
	*ret = path + strspn(path, "/");
	if (!**ret)
		*ret = ".";
	return 0;
}

__attribute__((format(printf, 3, 0))) static int open_at(const struct fsroot *root, int flags, const char *fmt,
							 va_list ap)
{
	char buf[PATH_MAX];
	const char *path;
	int r, fd;

	r = make_path(buf, &path, fmt, ap);
	if (r < 0)
		return r;
	/* Not blocking: a FIFO in a recording has no writer. Files of /proc and /sys don't know the difference. */
	fd = openat(root->fd, path, flags | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	return fd < 0 ? -errno : fd;
}

int fsroot_open(struct fsroot *ret, const char *path)
{
	*ret = (struct fsroot){ .fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC) };
	return ret->fd < 0 ? -errno : 0;
}

void fsroot_close(struct fsroot *root)
{
	if (root->fd >= 0)
		close(root->fd);
	root->fd = -1;
}

int fsroot_ask(const struct fsroot *root, enum fsroot_question question, uint32_t pid, uint64_t addr, char *buf,
	       size_t size)
{
	if (size)
		buf[0] = '\0';
	return root->asker ? root->asker->ask(root->asker->ctx, question, pid, addr, buf, size) : -ENOSYS;
}

/* Read until the end or until @size bytes are there. Bytes or -errno. */
static ssize_t read_full(int fd, char *buf, size_t size)
{
	size_t got = 0;

	while (got < size) {
		ssize_t n = read(fd, buf + got, size - got);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		got += (size_t)n;
	}
	return (ssize_t)got;
}

static int terminate(char *buf, size_t n)
{
	if (n > 0 && buf[n - 1] == '\n')
		n--;
	buf[n] = '\0';
	return (int)n;
}

__attribute__((format(printf, 4, 0))) static int read_text(const struct fsroot *root, char *buf, size_t size,
							   const char *fmt, va_list ap)
{
	_cleanup_close_ int fd = -1;
	ssize_t n;

	fd = open_at(root, O_RDONLY, fmt, ap);
	if (fd < 0)
		return fd;
	n = read_full(fd, buf, size);
	if (n < 0)
		return (int)n;
	if ((size_t)n == size)
		return -EFBIG;
	return terminate(buf, (size_t)n);
}

int fsroot_read(const struct fsroot *root, char *buf, size_t size, const char *fmt, ...)
{
	va_list ap;
	int r;

	va_start(ap, fmt);
	r = read_text(root, buf, size, fmt, ap);
	va_end(ap);
	return r;
}

int fsroot_open_file(const struct fsroot *root, const char *fmt, ...)
{
	va_list ap;
	int fd;

	va_start(ap, fmt);
	fd = open_at(root, O_RDONLY, fmt, ap);
	va_end(ap);
	return fd;
}

int fsroot_getxattr(const struct fsroot *root, char *buf, size_t size, const char *name, const char *fmt, ...)
{
	_cleanup_close_ int fd = -1;
	va_list ap;
	ssize_t n;

	va_start(ap, fmt);
	fd = open_at(root, O_RDONLY, fmt, ap);
	va_end(ap);
	if (fd < 0)
		return fd;
	n = fgetxattr(fd, name, buf, size);
	return n < 0 ? -errno : (int)n;
}

int fsroot_read_alloc(const struct fsroot *root, char **ret, const char *fmt, ...)
{
	_cleanup_free_ char *buf = NULL;
	_cleanup_close_ int fd = -1;
	size_t size = ALLOC_FIRST_BYTES, got = 0;
	va_list ap;

	va_start(ap, fmt);
	fd = open_at(root, O_RDONLY, fmt, ap);
	va_end(ap);
	if (fd < 0)
		return fd;
	for (;; size *= 2) {
		char *more = realloc(buf, size + 1);
		ssize_t n;

		if (!more)
			return -ENOMEM;
		buf = more;
		n = read_full(fd, buf + got, size - got);
		if (n < 0)
			return (int)n;
		got += (size_t)n;
		if (got < size)
			break;
		if (size >= ALLOC_MAX_BYTES)
			return -EFBIG;
	}
	int len = terminate(buf, got);

	*ret = take_ptr(buf);
	return len;
}

static int parse_hex(const char *text, uint64_t *ret)
{
	uint64_t v = 0;
	bool over = false;

	if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X'))
		text += 2;
	if (!*text)
		return -EINVAL;
	for (; *text; text++) {
		unsigned int digit;

		if (*text >= '0' && *text <= '9')
			digit = (unsigned int)(*text - '0');
		else if ((*text | 0x20) >= 'a' && (*text | 0x20) <= 'f')
			digit = (unsigned int)((*text | 0x20) - 'a') + 10;
		else
			return -EINVAL;
		if (v >> 60)
			over = true;
		v = v << 4 | digit;
	}
	if (over)
		return -ERANGE;
	*ret = v;
	return 0;
}

int fsroot_read_u64(const struct fsroot *root, uint64_t *ret, int base, const char *fmt, ...)
{
	char buf[NUMBER_BYTES];
	va_list ap;
	int r;

	va_start(ap, fmt);
	r = read_text(root, buf, sizeof(buf), fmt, ap);
	va_end(ap);
	if (r == -EFBIG)
		return -EINVAL;
	if (r < 0)
		return r;
	if (strlen(buf) != (size_t)r)
		return -EINVAL;
	return base == 16 ? parse_hex(buf, ret) : parse_u64(buf, 0, UINT64_MAX, ret);
}

int fsroot_write(const struct fsroot *root, const char *text, const char *fmt, ...)
{
	_cleanup_close_ int fd = -1;
	size_t len = strlen(text);
	ssize_t n;
	va_list ap;

	va_start(ap, fmt);
	/* O_TRUNC means nothing to sysctl and sysfs files, and makes a recorded file hold what was written. */
	fd = open_at(root, O_WRONLY | O_TRUNC, fmt, ap);
	va_end(ap);
	if (fd < 0)
		return fd;
	do
		n = write(fd, text, len);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	return (size_t)n == len ? 0 : -EIO;
}

__attribute__((format(printf, 3, 0))) static int stat_at(const struct fsroot *root, struct stat *ret, const char *fmt,
							 va_list ap)
{
	char buf[PATH_MAX];
	const char *path;
	int r = make_path(buf, &path, fmt, ap);

	if (r < 0)
		return r;
	return fstatat(root->fd, path, ret, 0) < 0 ? -errno : 0;
}

int fsroot_owner(const struct fsroot *root, uint32_t *ret_uid, const char *fmt, ...)
{
	struct stat st;
	va_list ap;
	int r;

	va_start(ap, fmt);
	r = stat_at(root, &st, fmt, ap);
	va_end(ap);
	if (r == 0)
		*ret_uid = st.st_uid;
	return r;
}

bool fsroot_exists(const struct fsroot *root, const char *fmt, ...)
{
	struct stat st;
	va_list ap;
	int r;

	va_start(ap, fmt);
	r = stat_at(root, &st, fmt, ap);
	va_end(ap);
	return r == 0;
}

int fsroot_for_each(const struct fsroot *root, int (*fn)(void *ctx, const char *name), void *ctx, const char *fmt, ...)
{
	_cleanup_close_ int fd = -1;
	va_list ap;
	int r = 0;

	va_start(ap, fmt);
	fd = open_at(root, O_RDONLY | O_DIRECTORY, fmt, ap);
	va_end(ap);
	if (fd < 0)
		return fd;

	DIR *dir = fdopendir(fd);

	if (!dir)
		return -errno;
	(void)take_fd(fd);
	while (r == 0) {
		errno = 0;
		struct dirent *entry = readdir(dir);

		if (!entry) {
			r = -errno;
			break;
		}
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			r = fn(ctx, entry->d_name);
	}
	closedir(dir);
	return r;
}

int fsroot_readlink(const struct fsroot *root, char *buf, size_t size, const char *fmt, ...)
{
	char path_buf[PATH_MAX];
	const char *path;
	ssize_t n;
	va_list ap;
	int r;

	va_start(ap, fmt);
	r = make_path(path_buf, &path, fmt, ap);
	va_end(ap);
	if (r < 0)
		return r;
	n = readlinkat(root->fd, path, buf, size);
	if (n < 0)
		return -errno;
	if ((size_t)n == size)
		return -ENAMETOOLONG;
	buf[n] = '\0';
	return (int)n;
}
