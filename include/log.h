/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * log: one line per event, to the journal (with fields) or to stderr. Levels are those of syslog(3).
 * Whoever gives up logs, once; the text says what, where, and what to do now. Any thread, never per sample.
 *
 * A line longer than LOG_LINE_MAX is cut and ends in "..."; control characters become blanks or '?', since names of
 * programs and files come from anybody. errno is kept, so "%m" works and the caller's value survives.
 */
#pragma once

#include <stdarg.h>
#include <stddef.h>
#include <syslog.h>

#define LOG_LINE_MAX   4096 /* bytes with the NUL; sd_journal_print(3) would stop at 2048 without a word */
#define LOG_FIELDS_MAX 16

enum log_target {
	LOG_TARGET_AUTO, /* the journal when stderr is connected to it (JOURNAL_STREAM), else stderr */
	LOG_TARGET_STDERR,
	LOG_TARGET_JOURNAL,
};

struct log_field {
	const char *name;  /* "PGHOT_PID"; only A-Z, 0-9, _, and no _ in front, else the journal leaves it out */
	const char *value; /* any text */
};

/*
 * Call once from main, before any thread. @max_level: LOG_INFO hides LOG_DEBUG. Without a call: stderr, LOG_INFO.
 * On stderr a line is "pghotd: text", with "<N>" for the level in front when AUTO finds that systemd reads it.
 */
void log_init(enum log_target target, int max_level);

void log_line(int level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The same with journal fields (the first LOG_FIELDS_MAX); on stderr only the line is shown. */
void log_fields(int level, const struct log_field *fields, size_t n_fields, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

#define log_error(...)   log_line(LOG_ERR, __VA_ARGS__)
#define log_warning(...) log_line(LOG_WARNING, __VA_ARGS__)
#define log_notice(...)  log_line(LOG_NOTICE, __VA_ARGS__)
#define log_info(...)    log_line(LOG_INFO, __VA_ARGS__)
#define log_debug(...)   log_line(LOG_DEBUG, __VA_ARGS__)
