/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ctl: what the verbs of pghotctl share: what they were called with, how they ask the daemon, and how they answer. For
 * pghotctl's own files only; its one thread.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

/* Exit statuses, part of the contract with users; status has 1 and 2 of its own, see report_state_exit(). */
enum ctl_exit {
	EXIT_CANCELED = -1, /* no exit status: the verb that has set ctl_client_give_up ends as it likes */
	EXIT_DONE = 0,
	EXIT_REFUSED = 1,
	EXIT_DOWN = 3,
	EXIT_BAD_USAGE = 64,
	EXIT_NO_PERMISSION = 77,
};

enum ctl_flag {
#define VERB(...)
#define FLAG(id, ...) FLAG_##id,
#include "verbs.def"
#undef VERB
#undef FLAG
	FLAG_MAX
};

/* What each flag was given: NULL: it wasn't; "" for one that takes nothing. Written by main() before a verb runs. */
extern const char *ctl_flag[FLAG_MAX];

/* Each takes its words and returns the exit status, having said why it isn't EXIT_DONE. */
#define VERB(id, ...) int ctl_verb_##id(char **args, int n_args);
#define FLAG(...)
#include "verbs.def"
#undef VERB
#undef FLAG

/* Set by who has taken the terminal's screen: called before a line on stderr, which would go away with that screen. */
extern void (*ctl_leave_screen)(void);

/* One line on stderr, and, for EXIT_BAD_USAGE, where to read on. Returns @status. */
int ctl_fail(int status, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

struct ctl_client;

/* 0 with a client, after a warning when its version is another; or the exit status, and why was said. */
int ctl_connect(struct ctl_client **ret);

/* The exit status for what ctl_client_open() or ctl_client_call() returned, after its line. */
int ctl_fail_client(int r, const char *error);

/* One call on a connection of its own: its text is in *@ret (free it). See ctl_client_call(). 0 or the exit status. */
int ctl_call(const char *method, const char *key, const char *value, char **ret);

/* Where colours help: a terminal that has them, and a person who didn't set NO_COLOR. */
bool ctl_use_colour(void);

/*
 * Columns of the terminal at stdout, PRINT_COLUMNS_MIN to PRINT_COLUMNS; PRINT_COLUMNS where it is none, or narrower
 * than any text can be made.
 */
unsigned int ctl_columns(void);

/* Print @doc, which it takes over; NULL: there was no memory for it. EXIT_DONE or EXIT_REFUSED. */
int ctl_put_json(json_t *doc);

/* The daemon's answer is none. EXIT_REFUSED. */
int ctl_bad_answer(void);
