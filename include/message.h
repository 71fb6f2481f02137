/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * message: log lines that have an id, by the table messages.def: with MESSAGE_ID in the journal, and no more in a
 * minute than the table says. Any thread, never per sample.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "log.h"

enum message_id {
#define MESSAGE(id, ...) MESSAGE_##id,
#include "messages.def"
#undef MESSAGE
	MESSAGE_MAX
};

struct message_info {
	const char *event; /* word for pghotctl events */
	const char *uuid;  /* 32 hexadecimal digits */
	int level;
	unsigned int per_minute;
	const char *subject, *text;
};

/* The table, by enum message_id. */
extern const struct message_info message_info[MESSAGE_MAX];

#define MESSAGE_FIELDS_MAX (LOG_FIELDS_MAX - 1)

/* Log one, with journal fields (the first MESSAGE_FIELDS_MAX). */
void message(enum message_id id, const struct log_field *fields, size_t n_fields, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* At the end of a program: a line for each message of which some were not logged, and how many; no others follow. */
void message_tell_held(void);

struct message_limit {
	uint64_t minute_ns; /* when the minute began; 0: none was logged yet */
	uint64_t n;         /* in it */
	uint64_t held;      /* not logged since the last one that was */
};

/*
 * May one more be logged at @now_ns, of at most @per_minute? Keeps count. *@ret_held: how many weren't since the last
 * that was. Pure.
 */
int message_may(struct message_limit *limit, unsigned int per_minute, uint64_t now_ns, uint64_t *ret_held);
