/* SPDX-License-Identifier: GPL-2.0-or-later */
/* pghotctl top: one screen after the other, on a terminal in its place, else one under the other. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cleanup.h"
#include "clock.h"
#include "ctl.h"
#include "ctl_client.h"
#include "ctl_screen.h"
#include "fsroot.h"
#include "parse.h"
#include "print.h"
#include "print_top.h"
#include "report.h"

#define CGROUP_MAX  4096
#define WIDTH_MIN   20
#define HEIGHT_MIN  3
#define INTERVAL_MS 1000
#define LOOK_MS     200 /* a signal may come just before a wait begins */
#define HINT_MAX    128

struct top {
	enum top_by by, rows_by; /* wanted; what there is */
	unsigned int column;     /* of rows_by, by which it is sorted */
	bool reversed, help;
	uint64_t count, interval_ms; /* count 0: until told to stop */
	bool live;
	struct fsroot root;
	char cgroup[CGROUP_MAX];
	/* The last two looks, as far as there were any, and what is shown of them. */
	json_t *before, *after, *rows;
	double seconds;
	uint64_t after_ns;
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

/* The rows to show of the last two looks. 0 or the exit status. */
static int fetch_rows(struct top *top)
{
	json_t *heat, *rows;
	int r;

	if (top->by == TOP_BY_REGION) {
		r = fetch("GetHeat", &heat);
		if (r != 0)
			return r;
		rows = json_incref(json_object_get(heat, "hottest"));
		json_decref(heat);
	} else {
		rows = top_rows(top->before, top->after, top->seconds, top->by, cgroup_of, top);
	}
	if (!rows)
		return ctl_bad_answer();
	json_decref(top->rows);
	top->rows = rows;
	if (top->rows_by != top->by) {
		top->rows_by = top->by;
		top->column = TOP_COLUMN_FIRST;
		top->reversed = false;
	}
	return 0;
}

static const char help_text[] = "pghotctl top: who has hot memory\n"
				"\n"
				"KEY\n"
				"  p      by process\n"
				"  c      by control group\n"
				"  r      by region: the hottest\n"
				"  s, >   sort by the next column\n"
				"  <      sort by the one before\n"
				"  R      the other way round\n"
				"  h, ?   this help, and back\n"
				"  q      end\n"
				"\n"
				"HOT: found hot by now; HOT/s: in a second, of late.\n"
				"REGIONS, TABLES: what pghotd remembers of it, and the\n"
				"memory that takes.\n";

static void show_live(const struct top *top)
{
	char hint[HINT_MAX], *screen = NULL;
	unsigned int columns, rows;
	size_t n;
	FILE *out;

	if (top->help) {
		ctl_screen_draw(help_text, PRINT_TOP_TITLE, "h back  q quit", ctl_use_colour());
		return;
	}
	if (!top->rows) {
		ctl_screen_draw("pghotd: looking at it a second time, to tell how fast it is ...\n", 0,
				"h help  q quit", ctl_use_colour());
		return;
	}
	ctl_screen_size(&columns, &rows);
	out = open_memstream(&screen, &n);
	if (!out)
		return;
	print_top(out, top->before, top->after, top->seconds, top->rows, top->rows_by,
		  columns < WIDTH_MIN ? WIDTH_MIN : columns, rows <= HEIGHT_MIN ? HEIGHT_MIN : rows - 1, false);
	snprintf(hint, sizeof(hint), "h help  q quit  p c r by process, cgroup, region  s sorted by %s%s",
		 top_column(top->rows_by, top->column), top->reversed ? ", reversed" : "");
	if (fclose(out) == 0)
		ctl_screen_draw(screen, PRINT_TOP_TITLE, hint, ctl_use_colour());
	free(screen);
}

static void show(const struct top *top)
{
	json_t *doc;

	if (top->live) {
		top_sort(top->rows, top->rows_by, top->column, top->reversed);
		show_live(top);
		return;
	}
	if (!ctl_flag[FLAG_json]) {
		print_top(stdout, top->before, top->after, top->seconds, top->rows, top->rows_by, PRINT_COLUMNS,
			  PRINT_ROWS - 1, ctl_use_colour());
		putchar('\n');
		return;
	}
	doc = json_pack("{s:i, s:s, s:f, s:O}", "schema", REPORT_SCHEMA, "by", top_by_name[top->rows_by], "seconds",
			top->seconds, "rows", top->rows);
	json_dumpf(doc, stdout, JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(6));
	putchar('\n');
	json_decref(doc);
}

/* What @key changes; the rows for another ->by are still to be fetched. */
static void press(struct top *top, int key)
{
	unsigned int n = top_columns(top->rows_by);

	switch (key) {
	case 'q':
	case 'Q':
	case 3: /* where the terminal makes no signals of them */
	case 4:
	case CTL_SCREEN_GONE:
		stopped = 1;
		return;
	case 'h':
	case '?':
		top->help = !top->help;
		return;
	case 'p':
		top->by = TOP_BY_PROCESS;
		break;
	case 'c':
		top->by = TOP_BY_CGROUP;
		break;
	case 'r':
		top->by = TOP_BY_REGION;
		break;
	case 's':
	case '>':
		top->column = (top->column + 1) % n;
		break;
	case '<':
		top->column = (top->column + n - 1) % n;
		break;
	case 'R':
		top->reversed = !top->reversed;
		break;
	case CTL_SCREEN_CHANGED:
		return;
	default:
		break;
	}
	top->help = false;
}

static struct top *watched; /* whose keys is_enough() reads */

/* true: it is enough, by a key or a signal. Other keys have had their effect, as far as that needs no daemon. */
static bool is_enough(void)
{
	int key = CTL_SCREEN_NONE;
	bool any = false;

	while (watched->live && !stopped && (key = ctl_screen_key()) != CTL_SCREEN_NONE) {
		press(watched, key);
		any = true;
	}
	if (any && !stopped)
		show(watched);
	return stopped;
}

/* Until the next look is due. 0, or the exit status: EXIT_CANCELED: it is enough. */
static int rest(struct top *top)
{
	uint64_t end_ns = clock_now_ns(&clock_monotonic) + top->interval_ms * NSEC_PER_MSEC;

	for (;;) {
		struct pollfd keys = { .fd = top->live ? STDIN_FILENO : -1, .events = POLLIN };
		uint64_t now_ns = clock_now_ns(&clock_monotonic), left_ms;
		int r;

		if (is_enough())
			return EXIT_CANCELED;
		if (now_ns >= end_ns)
			return 0;
		if (top->rows && top->rows_by != top->by) {
			r = fetch_rows(top);
			if (r != 0)
				return r;
			show(top);
		}
		left_ms = (end_ns - now_ns) / NSEC_PER_MSEC + 1;
		poll(&keys, 1, left_ms < LOOK_MS ? (int)left_ms : LOOK_MS);
	}
}

/* Another look at the daemon. 0 or the exit status. */
static int look(struct top *top)
{
	json_t *now;
	uint64_t now_ns;
	int r = fetch("GetStatus", &now);

	if (r != 0)
		return r;
	json_decref(top->before);
	top->before = top->after;
	top->after = now;
	now_ns = clock_now_ns(&clock_monotonic);
	top->seconds = (double)(now_ns - top->after_ns + 1) / 1e9;
	top->after_ns = now_ns;
	return 0;
}

static int run(struct top *top)
{
	int r = look(top);

	if (r == 0 && top->live)
		show(top);
	for (uint64_t n = 0; r == 0 && (top->count == 0 || n < top->count); n++) {
		r = rest(top);
		if (r == 0)
			r = look(top);
		if (r == 0)
			r = fetch_rows(top);
		if (r != 0)
			break;
		show(top);
		if (fflush(stdout) != 0)
			break; /* main() says why */
	}
	json_decref(top->rows);
	json_decref(top->before);
	json_decref(top->after);
	return r;
}

static void end_live(void)
{
	ctl_leave_screen = NULL;
	ctl_screen_end();
}

/* On a terminal, if that can be; where it can't, screens follow one another, and a person is told why. */
static void begin_live(struct top *top)
{
	const char *term = getenv("TERM");
	int r;

	if (ctl_flag[FLAG_batch] || ctl_flag[FLAG_json])
		return;
	r = ctl_screen_begin();
	top->live = r == 0;
	if (r == 0)
		ctl_leave_screen = end_live;
	else if (r == -ENODEV)
		fprintf(stderr,
			"pghotctl: nothing is known here of a terminal \"%.40s\" (TERM) on which a screen could be "
			"drawn anew; so one follows the other\n",
			term ? term : "");
	else if (r == -ENOSYS && isatty(STDOUT_FILENO))
		fputs("pghotctl: this build has no ncurses, so one screen follows the other\n", stderr);
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
	r = fsroot_open(&top.root, "/");
	if (r < 0)
		return ctl_fail(EXIT_REFUSED, "cannot open /: %s", strerror(-r));
	/* Without SA_RESTART: what waits ends. */
	sigaction(SIGINT, &(struct sigaction){ .sa_handler = on_signal }, NULL);
	sigaction(SIGTERM, &(struct sigaction){ .sa_handler = on_signal }, NULL);
	sigaction(SIGHUP, &(struct sigaction){ .sa_handler = on_signal }, NULL);
	sigaction(SIGQUIT, &(struct sigaction){ .sa_handler = on_signal }, NULL);
	/* A daemon that hangs does not keep anybody from leaving. */
	watched = &top;
	ctl_client_give_up = is_enough;
	top.rows_by = top.by;
	top.column = TOP_COLUMN_FIRST;
	begin_live(&top);
	r = run(&top);
	if (r == EXIT_CANCELED)
		r = EXIT_DONE;
	if (ctl_leave_screen)
		ctl_leave_screen();
	fsroot_close(&top.root);
	return r;
}
