/* SPDX-License-Identifier: GPL-2.0-or-later */
/* pghotctl top: one screen after the other, on a terminal in its place, else one under the other. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "cleanup.h"
#include "clock.h"
#include "ctl.h"
#include "ctl_client.h"
#include "fsroot.h"
#include "parse.h"
#include "print.h"
#include "print_top.h"
#include "report.h"

#define CGROUP_MAX  4096
#define WIDTH_MIN   20
#define HEIGHT_MIN  3
#define INTERVAL_MS 1000

/* ECMA-48, as every terminal of today has it: the other screen, no cursor; home; what is right of, and below, it. */
#define SCREEN_BEGIN "\x1b[?1049h\x1b[?25l"
#define SCREEN_END   "\x1b[?25h\x1b[?1049l"
#define HOME         "\x1b[H"
#define CLEAR_BELOW  "\x1b[J"

struct top {
	enum top_by by;
	uint64_t count, interval_ms; /* count 0: until told to stop */
	bool live;
	struct fsroot root;
	char cgroup[CGROUP_MAX];
};

static volatile sig_atomic_t stopped;

static void on_signal(int number)
{
	(void)number;
	stopped = 1;
}

/* Of control group version 2: "0::/path" (cgroups(7)). */
static const char *cgroup_of(void *ctx, unsigned long long pid)
{
	struct top *top = ctx;
	char text[CGROUP_MAX];
	const char *line;

	if (fsroot_read(&top->root, text, sizeof(text), "proc/%llu/cgroup", pid) < 0)
		return "(gone)";
	line = strncmp(text, "0::", 3) == 0 ? text : strstr(text, "\n0::");
	if (!line)
		return "(none)";
	line = strstr(line, "0::") + 3;
	snprintf(top->cgroup, sizeof(top->cgroup), "%.*s", (int)strcspn(line, "\n"), line);
	return top->cgroup;
}

/* A document of the daemon's into *@ret. 0 or the exit status. */
static int fetch(const char *method, json_t **ret)
{
	_cleanup_free_ char *text = NULL;
	bool heat = strcmp(method, "GetHeat") == 0;
	int r = ctl_call(method, heat ? "" : NULL, heat ? "" : NULL, &text);

	if (r != 0)
		return r;
	*ret = json_loads(text, 0, NULL);
	return json_is_object(*ret) ? 0 : ctl_bad_answer();
}

/* The rows to show, a new reference in *@ret. 0 or the exit status. */
static int fetch_rows(struct top *top, const json_t *before, const json_t *after, double seconds, json_t **ret)
{
	json_t *heat;
	int r;

	if (top->by != TOP_BY_REGION) {
		*ret = top_rows(before, after, seconds, top->by, cgroup_of, top);
		return *ret ? 0 : ctl_bad_answer();
	}
	r = fetch("GetHeat", &heat);
	if (r != 0)
		return r;
	*ret = json_incref(json_object_get(heat, "hottest"));
	json_decref(heat);
	return *ret ? 0 : ctl_bad_answer();
}

static void show(const struct top *top, const json_t *before, const json_t *after, double seconds, json_t *rows)
{
	struct winsize size = { .ws_row = PRINT_ROWS, .ws_col = PRINT_COLUMNS };
	char *screen = NULL;
	size_t n;
	FILE *out;

	if (ctl_flag[FLAG_json]) {
		json_t *doc = json_pack("{s:i, s:s, s:f, s:O}", "schema", REPORT_SCHEMA, "by", top_by_name[top->by],
					"seconds", seconds, "rows", rows);

		json_dumpf(doc, stdout, JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(6));
		putchar('\n');
		json_decref(doc);
		return;
	}
	if (top->live && (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0 || !size.ws_row || !size.ws_col))
		size = (struct winsize){ .ws_row = PRINT_ROWS, .ws_col = PRINT_COLUMNS };
	out = open_memstream(&screen, &n);
	if (!out)
		return;
	/* One row less: a line feed in the last one would scroll. */
	print_top(out, before, after, seconds, rows, top->by, size.ws_col < WIDTH_MIN ? WIDTH_MIN : size.ws_col,
		  size.ws_row <= HEIGHT_MIN ? HEIGHT_MIN : size.ws_row - 1U, ctl_use_colour());
	if (fclose(out) == 0) {
		if (top->live)
			fputs(HOME CLEAR_BELOW, stdout);
		fputs(screen, stdout);
		if (!top->live)
			putchar('\n');
	}
	free(screen);
}

static bool live; /* there is a keyboard */

/* true: it is enough, by a key or a signal. */
static bool is_enough(void)
{
	struct pollfd keys = { .fd = STDIN_FILENO, .events = POLLIN };
	char key;

	if (!stopped && live && poll(&keys, 1, 0) > 0) {
		if (read(STDIN_FILENO, &key, 1) <= 0)
			live = false; /* nobody will type any more */
		else if (key == 'q' || key == 3 || key == 4)
			stopped = 1;
	}
	return stopped;
}

/* Until the next screen is due; true: it is enough. */
static bool rest(const struct top *top)
{
	uint64_t end_ns = clock_now_ns(&clock_monotonic) + top->interval_ms * NSEC_PER_MSEC;

	for (;;) {
		struct pollfd keys = { .fd = live ? STDIN_FILENO : -1, .events = POLLIN };
		uint64_t now_ns = clock_now_ns(&clock_monotonic);

		if (is_enough())
			return true;
		if (now_ns >= end_ns)
			return false;
		poll(&keys, 1, (int)((end_ns - now_ns) / NSEC_PER_MSEC) + 1);
	}
}

static int run(struct top *top)
{
	json_t *before = NULL, *after = NULL, *rows = NULL;
	uint64_t before_ns, now_ns;
	int r = fetch("GetStatus", &before);

	before_ns = clock_now_ns(&clock_monotonic);
	for (uint64_t n = 0; r == 0 && (top->count == 0 || n < top->count); n++) {
		double seconds;

		if (rest(top))
			break;
		r = fetch("GetStatus", &after);
		if (r != 0)
			break;
		now_ns = clock_now_ns(&clock_monotonic);
		seconds = (double)(now_ns - before_ns + 1) / 1e9;
		r = fetch_rows(top, before, after, seconds, &rows);
		if (r == 0)
			show(top, before, after, seconds, rows);
		if (fflush(stdout) != 0)
			break; /* main() says why */
		json_decref(rows);
		json_decref(before);
		rows = NULL;
		before = after;
		after = NULL;
		before_ns = now_ns;
	}
	json_decref(rows);
	json_decref(before);
	json_decref(after);
	return r;
}

static struct termios terminal_before;

static void end_live(void)
{
	ctl_leave_screen = NULL;
	fputs(SCREEN_END, stdout);
	fflush(stdout);
	tcsetattr(STDIN_FILENO, TCSANOW, &terminal_before);
}

/* Keys come one by one and unseen, until end_live(). */
static void begin_live(void)
{
	struct termios raw = terminal_before;

	ctl_leave_screen = end_live;
	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	/* Stopped, it would leave the shell on this screen. */
	raw.c_cc[VSUSP] = _POSIX_VDISABLE;
	tcsetattr(STDIN_FILENO, TCSANOW, &raw);
	fputs(SCREEN_BEGIN, stdout);
}

int ctl_verb_top(char **args, int n_args)
{
	struct top top = { .interval_ms = INTERVAL_MS };
	const char *by = ctl_flag[FLAG_by];
	uint64_t seconds = 1;
	int r;

	(void)args, (void)n_args;
	while (by && top.by < TOP_BY_MAX && strcmp(by, top_by_name[top.by]) != 0)
		top.by++;
	if (top.by == TOP_BY_MAX)
		return ctl_fail(EXIT_BAD_USAGE, "--by wants process, cgroup or region, not \"%.40s\"", by);
	if (ctl_flag[FLAG_count] && parse_u64(ctl_flag[FLAG_count], 1, UINT32_MAX, &top.count) < 0)
		return ctl_fail(EXIT_BAD_USAGE, "--count wants a number from 1");
	if (ctl_flag[FLAG_interval] && parse_u64(ctl_flag[FLAG_interval], 1, 3600, &seconds) < 0)
		return ctl_fail(EXIT_BAD_USAGE, "--interval wants seconds from 1 to 3600");
	top.interval_ms = seconds * 1000;
	top.live = !ctl_flag[FLAG_batch] && !ctl_flag[FLAG_json] && isatty(STDOUT_FILENO) &&
		   tcgetattr(STDIN_FILENO, &terminal_before) == 0;
	r = fsroot_open(&top.root, "/");
	if (r < 0)
		return ctl_fail(EXIT_REFUSED, "cannot open /: %s", strerror(-r));
	/* Without SA_RESTART: what waits ends. */
	sigaction(SIGINT, &(struct sigaction){ .sa_handler = on_signal }, NULL);
	sigaction(SIGTERM, &(struct sigaction){ .sa_handler = on_signal }, NULL);
	sigaction(SIGHUP, &(struct sigaction){ .sa_handler = on_signal }, NULL);
	sigaction(SIGQUIT, &(struct sigaction){ .sa_handler = on_signal }, NULL);
	live = top.live;
	/* A daemon that hangs does not keep anybody from leaving. */
	ctl_client_give_up = is_enough;
	if (top.live)
		begin_live();
	r = run(&top);
	if (r == EXIT_CANCELED)
		r = EXIT_DONE;
	if (ctl_leave_screen)
		ctl_leave_screen();
	fsroot_close(&top.root);
	return r;
}
