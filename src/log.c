/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#define SD_JOURNAL_SUPPRESS_LOCATION /* the place in our source tells an operator nothing */
#include <systemd/sd-journal.h>

#include "cleanup.h"
#include "log.h"

#define IDENTIFIER "pghotd"
#define MESSAGE    "MESSAGE="

/* Written by log_init() before there is a second thread, only read afterwards. */
static bool to_journal;
static bool with_level;
static int level_max = LOG_INFO;

/* systemd.exec(5): JOURNAL_STREAM is "device:inode" of the stream that it connected stderr to. */
static bool stderr_is_journal(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	uintmax_t dev, inode;
	struct stat st;
	int end = 0;

	if (!stream || sscanf(stream, "%ju:%ju%n", &dev, &inode, &end) != 2 || stream[end] != '\0')
		return false;
	return fstat(STDERR_FILENO, &st) == 0 && (uintmax_t)st.st_dev == dev && (uintmax_t)st.st_ino == inode;
}

/*
 * Does whoever reads our stderr take "<N>" for a level (sd-daemon(3))? Only what systemd itself has connected does:
 * it names the process it started in SYSTEMD_EXEC_PID (systemd.exec(5)), unlike INVOCATION_ID, which every
 * program in a desktop session has inherited.
 */
static bool stderr_takes_levels(void)
{
	const char *pid_text = getenv("SYSTEMD_EXEC_PID");
	char own[32];
	struct stat st;

	snprintf(own, sizeof(own), "%d", (int)getpid());
	if (!pid_text || strcmp(pid_text, own) != 0)
		return false;
	return fstat(STDERR_FILENO, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode));
}

void log_init(enum log_target target, int max_level)
{
	to_journal = target == LOG_TARGET_JOURNAL || (target == LOG_TARGET_AUTO && stderr_is_journal());
	with_level = target == LOG_TARGET_AUTO && !to_journal && stderr_takes_levels();
	level_max = max_level;
}

/* Names of programs and files come from anybody: no second line, no terminal escapes. */
static void make_plain(char *text)
{
	for (char *p = text; *p; p++) {
		unsigned char c = (unsigned char)*p;

		if (c == '\n' || c == '\t')
			*p = ' ';
		else if (c < ' ' || c == 0x7f)
			*p = '?';
	}
}

/* Mark a text that snprintf() has cut to @size bytes; a character in UTF-8 goes as a whole. */
static void mark_cut(char *text, size_t size)
{
	size_t end = size - sizeof("...");

	while (end > 0 && ((unsigned char)text[end] & 0xc0) == 0x80)
		end--;
	memcpy(text + end, "...", sizeof("..."));
}

static void write_stderr(int level, const char *text)
{
	char line[LOG_LINE_MAX + 32];
	size_t len, done = 0;
	int n;

	/* In one write, so that lines of two threads don't mix. */
	n = with_level ? snprintf(line, sizeof(line), "<%d>" IDENTIFIER ": %s\n", level, text)
		       : snprintf(line, sizeof(line), IDENTIFIER ": %s\n", text);
	if (n < 0)
		return;
	len = (size_t)n;
	while (done < len) {
		ssize_t written = write(STDERR_FILENO, line + done, len - done);

		if (written < 0 && errno != EINTR)
			return; /* nobody left to tell */
		if (written > 0)
			done += (size_t)written;
	}
}

static struct iovec iovec_of(char *text)
{
	return (struct iovec){ .iov_base = text, .iov_len = strlen(text) };
}

/* @message begins with MESSAGE. 0 or -errno. */
static int send_journal(int level, char *message, const struct log_field *fields, size_t n_fields)
{
	char identifier[] = "SYSLOG_IDENTIFIER=" IDENTIFIER;
	struct iovec iov[3 + LOG_FIELDS_MAX];
	char priority[32];
	int n = 0, r;

	if (n_fields > LOG_FIELDS_MAX)
		n_fields = LOG_FIELDS_MAX;
	snprintf(priority, sizeof(priority), "PRIORITY=%d", level);
	iov[n++] = iovec_of(message);
	iov[n++] = iovec_of(priority);
	iov[n++] = iovec_of(identifier);
	for (size_t i = 0; i < n_fields; i++) {
		char *text;

		/* Without memory the line goes without this field. */
		if (asprintf(&text, "%s=%s", fields[i].name, fields[i].value) >= 0)
			iov[n++] = iovec_of(text);
	}
	r = sd_journal_sendv(iov, n);
	for (int i = 3; i < n; i++)
		free(iov[i].iov_base);
	return r;
}

__attribute__((format(printf, 4, 0))) static void log_va(int level, const struct log_field *fields, size_t n_fields,
							 const char *fmt, va_list ap)
{
	char message[sizeof(MESSAGE) - 1 + LOG_LINE_MAX] = MESSAGE;
	char *text = message + sizeof(MESSAGE) - 1;
	int saved_errno = errno; /* for %m, and the caller may still need it */
	int n;

	if (level > level_max)
		return;
	n = vsnprintf(text, LOG_LINE_MAX, fmt, ap);
	if (n < 0)
		return;
	if (n >= LOG_LINE_MAX)
		mark_cut(text, LOG_LINE_MAX);
	make_plain(text);
	if (!to_journal || send_journal(level, message, fields, n_fields) < 0)
		write_stderr(level, text);
	errno = saved_errno;
}

void log_line(int level, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	log_va(level, NULL, 0, fmt, ap);
	va_end(ap);
}

void log_fields(int level, const struct log_field *fields, size_t n_fields, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	log_va(level, fields, n_fields, fmt, ap);
	va_end(ap);
}
