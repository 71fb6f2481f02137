/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ctl_screen: the terminal as one screen that is drawn anew, with keys read one by one, by ncurses. What the terminal
 * showed before comes back with ctl_screen_end() and while the program is stopped (SIGTSTP). It takes SIGTSTP, SIGCONT
 * and SIGWINCH; what ends the program is the caller's. For pghotctl's own files; its one thread.
 */
#pragma once

#include <stdbool.h>

/* What ctl_screen_key() returns beside characters. */
enum ctl_screen_key {
	CTL_SCREEN_NONE = 0,
	CTL_SCREEN_CHANGED = -1, /* another size, or shown again after a stop: draw */
	CTL_SCREEN_GONE = -2,    /* nobody will type any more */
};

/*
 * Take the terminal at stdin and stdout. 0, or with nothing done: -ENOTTY: one of them is no terminal; -ENODEV: it is
 * of a kind (TERM) that isn't known, or can't place its cursor; -ENOSYS: this build has no ncurses.
 */
int ctl_screen_begin(void);

/* Give it back as it was. Does nothing without ctl_screen_begin(). */
void ctl_screen_end(void);

/* At least 1 each; 80 and 24 where the terminal doesn't say. */
void ctl_screen_size(unsigned int *ret_columns, unsigned int *ret_rows);

/*
 * Show the lines of @text, which is plain ASCII, in place of what was shown, and @hint in the last row. Line @title
 * (from 0) stands out, as does the first, if @colour. What is wider or higher than the screen is cut off.
 */
void ctl_screen_draw(const char *text, unsigned int title, const char *hint, bool colour);

/*
 * The next key that waits, or one of the above; never blocks. It is here that a stop by the terminal's key happens:
 * call it several times a second.
 */
int ctl_screen_key(void);
