/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <ncurses.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <term.h>
#include <unistd.h>

/* Of term.h, a capability of terminals; here, as everywhere, a word. */
#undef columns

#include "ctl_screen.h"
#include "print.h"

/* Long enough for the bytes of one key over a slow line, short enough not to be felt after Escape. */
#define ESCAPE_MS 50

static SCREEN *screen;
static bool redraw; /* what the terminal shows is not what ncurses believes */
static volatile sig_atomic_t stop_wanted, changed;

static void on_stop(int number)
{
	(void)number;
	stop_wanted = 1;
}

static void on_change(int number)
{
	(void)number;
	changed = 1;
}

/* Without SA_RESTART: what waits ends. ncurses takes only signals that nobody has taken. */
static void take_signals(void (*stop)(int), void (*change)(int))
{
	sigaction(SIGTSTP, &(struct sigaction){ .sa_handler = stop }, NULL);
	sigaction(SIGCONT, &(struct sigaction){ .sa_handler = change }, NULL);
	sigaction(SIGWINCH, &(struct sigaction){ .sa_handler = change }, NULL);
}

/* Is what TERM names known, and can it do more than print? */
static bool is_usable(void)
{
	bool usable;
	int found;

	/* newterm() says no more than yes or no, and takes a terminal that can't place its cursor. */
	if (setupterm(NULL, STDOUT_FILENO, &found) != OK)
		return false;
	usable = cursor_address && !hard_copy && !generic_type;
	del_curterm(cur_term);
	return usable;
}

int ctl_screen_begin(void)
{
	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
		return -ENOTTY;
	if (!is_usable())
		return -ENODEV;
	stop_wanted = changed = 0;
	take_signals(on_stop, on_change);
	screen = newterm(NULL, stdout, stdin);
	if (!screen) {
		take_signals(SIG_DFL, SIG_DFL);
		return -ENODEV;
	}
	set_escdelay(ESCAPE_MS);
	cbreak();
	noecho();
	curs_set(0);
	keypad(stdscr, TRUE);
	nodelay(stdscr, TRUE);
	return 0;
}

void ctl_screen_end(void)
{
	if (!screen)
		return;
	endwin();
	delscreen(screen);
	screen = NULL;
	take_signals(SIG_DFL, SIG_DFL);
}

void ctl_screen_size(unsigned int *ret_columns, unsigned int *ret_rows)
{
	struct winsize size;
	bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row && size.ws_col;

	*ret_columns = known ? size.ws_col : PRINT_COLUMNS;
	*ret_rows = known ? size.ws_row : PRINT_ROWS;
}

static void put_line(int y, const char *line, size_t len, attr_t attributes)
{
	attrset(attributes);
	/* The corner at the end is drawn and then "fails", having nowhere to go on. */
	(void)mvaddnstr(y, 0, line, (int)(len < (size_t)COLS ? len : (size_t)COLS));
	attrset(A_NORMAL);
}

void ctl_screen_draw(const char *text, unsigned int title, const char *hint, bool colour)
{
	unsigned int columns, rows, y = 0;

	ctl_screen_size(&columns, &rows);
	if (is_term_resized((int)rows, (int)columns)) {
		resize_term((int)rows, (int)columns);
		redraw = true;
	}
	if (redraw)
		clearok(curscr, TRUE);
	redraw = false;
	erase();
	/* The last row is the hint's; of a single one it is the text's. */
	while (*text && (y + 1 < rows || y == 0)) {
		size_t len = strcspn(text, "\n");

		put_line((int)y, text, len, colour && (y == 0 || y == title) ? A_BOLD : A_NORMAL);
		text += len + (text[len] == '\n');
		y++;
	}
	if (rows > 1)
		put_line((int)rows - 1, hint, strlen(hint), colour ? A_REVERSE : A_NORMAL);
	refresh();
}

/* The shell gets its terminal, until it wants us to go on. */
static void stop(void)
{
	stop_wanted = 0;
	endwin();
	sigaction(SIGTSTP, &(struct sigaction){ .sa_handler = SIG_DFL }, NULL);
	(void)raise(SIGTSTP);
	sigaction(SIGTSTP, &(struct sigaction){ .sa_handler = on_stop }, NULL);
	changed = 1;
}

int ctl_screen_key(void)
{
	struct pollfd keys = { .fd = STDIN_FILENO, .events = POLLIN };
	int key;

	if (stop_wanted)
		stop();
	if (changed) {
		changed = 0;
		redraw = true;
		/* Whoever had it meanwhile may have left it in another mode. */
		reset_prog_mode();
		return CTL_SCREEN_CHANGED;
	}
	if (poll(&keys, 1, 0) > 0 && !(keys.revents & POLLIN))
		return CTL_SCREEN_GONE;
	key = getch();
	return key > 0 && key <= 0x7f ? key : CTL_SCREEN_NONE;
}
