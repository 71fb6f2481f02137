/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cleanup.h"
#include "parse.h"
#include "privops_saved.h"

#define FIRST_LINE "pghotd-saved 1"

/* Name of a setting in the file: the last part of its path. */
static const char *short_name(int setting)
{
	return strrchr(privops_setting_path[setting], '/') + 1;
}

bool privops_saved_is_ours(const struct privops_saved_entry *entry, uint64_t value)
{
	for (int i = 0; i < entry->n_after; i++)
		if (entry->after[i] == value)
			return true;
	return false;
}

/* One "name before after [after]"; cuts @line up. */
static int parse_entry(char *line, struct privops_saved *ret)
{
	struct privops_saved_entry entry = { .present = true };
	char *rest = line, *name = strsep(&rest, " "), *word = strsep(&rest, " ");

	if (!word || parse_u64(word, 0, PRIVOPS_VALUE_MAX, &entry.before) < 0)
		return -EBADMSG;
	while ((word = strsep(&rest, " "))) {
		if (entry.n_after == PRIVOPS_SAVED_AFTER_MAX)
			return -EBADMSG;
		if (parse_u64(word, 0, PRIVOPS_VALUE_MAX, &entry.after[entry.n_after++]) < 0)
			return -EBADMSG;
	}
	if (entry.n_after == 0)
		return -EBADMSG;
	for (int i = 0; i < SETTING_MAX; i++) {
		if (strcmp(short_name(i), name) != 0)
			continue;
		if (ret->entry[i].present)
			return -EBADMSG;
		ret->entry[i] = entry;
		return 0;
	}
	return -EBADMSG;
}

int privops_saved_parse(const char *text, size_t len, struct privops_saved *ret)
{
	struct privops_saved saved = { 0 };
	char buf[PRIVOPS_SAVED_TEXT_MAX], *rest = buf, *line;
	int r = -EBADMSG;

	/* To the last newline, or it is cut; and a NUL would hide what is behind it. */
	if (len == 0 || len >= sizeof(buf) || text[len - 1] != '\n' || memchr(text, '\0', len))
		return -EBADMSG;
	memcpy(buf, text, len - 1);
	buf[len - 1] = '\0';
	if (strcmp(strsep(&rest, "\n"), FIRST_LINE) != 0)
		return -EBADMSG;
	while ((line = strsep(&rest, "\n"))) {
		r = parse_entry(line, &saved);
		if (r < 0)
			return r;
	}
	if (r == 0)
		*ret = saved;
	return r;
}

size_t privops_saved_format(const struct privops_saved *saved, char buf[PRIVOPS_SAVED_TEXT_MAX])
{
	size_t n = 0;

	for (int i = 0; i < SETTING_MAX; i++) {
		const struct privops_saved_entry *entry = &saved->entry[i];

		if (!entry->present)
			continue;
		if (n == 0)
			n += (size_t)snprintf(buf, PRIVOPS_SAVED_TEXT_MAX, FIRST_LINE "\n");
		n += (size_t)snprintf(buf + n, PRIVOPS_SAVED_TEXT_MAX - n, "%s %" PRIu64, short_name(i), entry->before);
		for (int j = 0; j < entry->n_after; j++)
			n += (size_t)snprintf(buf + n, PRIVOPS_SAVED_TEXT_MAX - n, " %" PRIu64, entry->after[j]);
		n += (size_t)snprintf(buf + n, PRIVOPS_SAVED_TEXT_MAX - n, "\n");
	}
	return n;
}

/* Is it worth believing? The settings in it are written by root later on. */
static int check_owner(int fd)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EBADMSG;
	if ((st.st_uid != 0 && st.st_uid != geteuid()) || (st.st_mode & (S_IWGRP | S_IWOTH)))
		return -EPERM;
	return 0;
}

int privops_saved_load(const char *path, struct privops_saved *ret)
{
	_cleanup_close_ int fd = -1;
	char buf[PRIVOPS_SAVED_TEXT_MAX];
	size_t len = 0;
	int r;

	/* Not blocking: it may have been replaced by a pipe. */
	fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
	if (fd < 0)
		return -errno;
	r = check_owner(fd);
	if (r < 0)
		return r;
	while (len < sizeof(buf)) {
		ssize_t n = read(fd, buf + len, sizeof(buf) - len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		len += (size_t)n;
	}
	return privops_saved_parse(buf, len, ret);
}

static int folder_of(const char *path, char folder[PATH_MAX])
{
	const char *slash = strrchr(path, '/');
	size_t len = slash ? (size_t)(slash - path) : 0;

	if (!slash) {
		strcpy(folder, ".");
		return 0;
	}
	if (len == 0)
		len = 1;
	if (len >= PATH_MAX)
		return -ENAMETOOLONG;
	memcpy(folder, path, len);
	folder[len] = '\0';
	return 0;
}

static int sync_folder(const char *folder)
{
	_cleanup_close_ int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 || fsync(fd) < 0)
		return -errno;
	return 0;
}

static int write_file(const char *path, const char *text, size_t len)
{
	_cleanup_close_ int fd = -1;
	size_t done = 0;

	/* What an interrupted one left. O_EXCL: nobody else's file or link is written through. */
	if (unlink(path) < 0 && errno != ENOENT)
		return -errno;
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	if (fchmod(fd, 0600) < 0)
		return -errno;
	while (done < len) {
		ssize_t n = write(fd, text + done, len - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		done += (size_t)n;
	}
	return fsync(fd) < 0 ? -errno : 0;
}

static int remove_file(const char *path, const char *folder)
{
	if (unlink(path) < 0)
		return errno == ENOENT ? 0 : -errno;
	return sync_folder(folder);
}

int privops_saved_store(const char *path, const struct privops_saved *saved)
{
	char text[PRIVOPS_SAVED_TEXT_MAX], folder[PATH_MAX], tmp[PATH_MAX];
	size_t len = privops_saved_format(saved, text);
	int r;

	r = folder_of(path, folder);
	if (r < 0)
		return r;
	if (len == 0)
		return remove_file(path, folder);
	if (snprintf(tmp, sizeof(tmp), "%s.tmp", path) >= (int)sizeof(tmp))
		return -ENAMETOOLONG;
	if (mkdir(folder, 0755) < 0 && errno != EEXIST)
		return -errno;
	r = write_file(tmp, text, len);
	if (r == 0 && rename(tmp, path) < 0)
		r = -errno;
	if (r < 0) {
		(void)unlink(tmp);
		return r;
	}
	return sync_folder(folder);
}
