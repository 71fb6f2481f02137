/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * log: one line per event, to the journal (with fields) or to stderr. Levels are those of syslog(3).
 * Whoever gives up logs, once; the text says what, where, and what to do now. Any thread, never per sample.
 */
#pragma once

#include <stdarg.h>
#include <stddef.h>
#include <syslog.h>

enum log_target {
	LOG_TARGET_AUTO, /* the journal when stderr is connected to it (JOURNAL_STREAM), else stderr */
	LOG_TARGET_STDERR,
	LOG_TARGET_JOURNAL,
};

struct log_field {
	const char *name; /* "PGHOT_PID"; only A-Z, 0-9, _ */
	const char *value;
};

/* Call once from main, before any thread. @max_level: LOG_INFO hides LOG_DEBUG. */
void log_init(enum log_target target, int max_level);

void log_line(int level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The same with journal fields; on stderr only the line is shown. */
void log_fields(int level, const struct log_field *fields, size_t n_fields, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

#define log_error(...)   log_line(LOG_ERR, __VA_ARGS__)
#define log_warning(...) log_line(LOG_WARNING, __VA_ARGS__)
#define log_notice(...)  log_line(LOG_NOTICE, __VA_ARGS__)
#define log_info(...)    log_line(LOG_INFO, __VA_ARGS__)
#define log_debug(...)   log_line(LOG_DEBUG, __VA_ARGS__)
