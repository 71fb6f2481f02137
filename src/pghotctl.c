/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "build_config.h"
#include "cleanup.h"
#include "ctl.h"
#include "parse.h"
#include "print.h"
#include "print_owners.h"
#include "print_status.h"
#include "report.h"

#define VERB_COLUMNS 29 /* of the help, before what a verb or a flag does */
#define FLAG_COLUMNS 26
#define FLAGS_MAX    256

struct verb {
	const char *name;
	const char *args;
	int min_args, max_args;
	int (*run)(char **args, int n_args);
	const char *line;
};

static const struct verb verbs[] = {
#define VERB(id, name_, args_, min, max, line_) \
	{ .name = name_, .args = args_, .min_args = min, .max_args = max, .run = ctl_verb_##id, .line = line_ },
#define FLAG(...)
#include "verbs.def"
#undef VERB
#undef FLAG
};

#define N_VERBS (sizeof(verbs) / sizeof(verbs[0]))

static const struct flag {
	int letter;
	const char *name, *arg, *verbs, *line;
} flags[FLAG_MAX] = {
#define VERB(...)
#define FLAG(id, letter_, name_, arg_, verbs_, line_) [FLAG_##id] = { letter_, name_, arg_, verbs_, line_ },
#include "verbs.def"
#undef VERB
#undef FLAG
};

int ctl_verb_status(char **args, int n_args)
{
	_cleanup_free_ char *text = NULL;
	json_t *doc;
	const char *state;
	int r = ctl_call("GetStatus", NULL, NULL, &text), status;

	(void)args, (void)n_args;
	if (r == EXIT_DOWN && ctl_flag[FLAG_json])
		ctl_put_json(json_pack("{s:i, s:s}", "schema", REPORT_SCHEMA, "state", "down"));
	if (r != 0)
		return r;
	doc = json_loads(text, 0, NULL);
	state = json_string_value(json_object_get(doc, "state"));
	status = report_state_exit(state ? state : "");
	if (!state) {
		json_decref(doc);
		return ctl_bad_answer();
	}
	if (ctl_flag[FLAG_json])
		return ctl_put_json(doc) != 0 ? EXIT_REFUSED : status;
	json_decref(doc);
	if (ctl_flag[FLAG_owners])
		r = print_owners(stdout, text, ctl_use_colour());
	else
		r = print_status(stdout, text, ctl_columns(), ctl_use_colour());
	return r < 0 ? ctl_bad_answer() : status;
}

int ctl_verb_reload(char **args, int n_args)
{
	_cleanup_free_ char *note = NULL;
	int r = ctl_call("Reload", NULL, NULL, &note);

	(void)args, (void)n_args;
	if (r != 0)
		return r;
	if (ctl_flag[FLAG_json])
		return ctl_put_json(json_pack("{s:i, s:s}", "schema", REPORT_SCHEMA, "note", note));
	printf("configuration read again%s\n%s", *note ? ":" : "", note);
	if (*note && note[strlen(note) - 1] != '\n')
		putchar('\n');
	return EXIT_DONE;
}

/* "with status: ", "with top, heat: ", or "". */
static void format_verbs(const struct flag *flag, char *buf, size_t size)
{
	size_t used;

	buf[0] = '\0';
	if (!*flag->verbs)
		return;
	used = (size_t)snprintf(buf, size, "with ");
	for (const char *p = flag->verbs; *p && used + 3 < size; p++) {
		if (*p != '|')
			buf[used++] = *p;
		else
			used += (size_t)snprintf(buf + used, size - used, ", ");
	}
	snprintf(buf + used, size - used, ": ");
}

static void put_verb(const struct verb *verb)
{
	int n = printf("  %-8s %s ", verb->name, verb->args);

	if (n < VERB_COLUMNS)
		n += printf("%*s", VERB_COLUMNS - n, "");
	print_wrapped(stdout, (unsigned int)n, VERB_COLUMNS, PRINT_ROWS, verb->line);
}

static void put_flag(const struct flag *flag)
{
	char letter[] = "-x, ", with[128], line[512];
	int n;

	letter[1] = (char)flag->letter;
	format_verbs(flag, with, sizeof(with));
	snprintf(line, sizeof(line), "%s%s", with, flag->line);
	n = printf("  %s--%s%s%s ", flag->letter ? letter : "", flag->name, flag->arg ? " " : "",
		   flag->arg ? flag->arg : "");
	if (n < FLAG_COLUMNS)
		n += printf("%*s", FLAG_COLUMNS - n, "");
	print_wrapped(stdout, (unsigned int)n, FLAG_COLUMNS, PRINT_ROWS, line);
}

static int help_json(void)
{
	json_t *list = json_array(), *options = json_array();

	for (size_t i = 0; i < N_VERBS; i++)
		json_array_append_new(list, json_pack("{s:s, s:s, s:s}", "name", verbs[i].name, "args", verbs[i].args,
						      "help", verbs[i].line));
	for (size_t i = 0; i < FLAG_MAX; i++)
		json_array_append_new(options, json_pack("{s:s, s:s, s:s, s:s}", "name", flags[i].name, "arg",
							 flags[i].arg ? flags[i].arg : "", "verbs", flags[i].verbs,
							 "help", flags[i].line));
	return ctl_put_json(json_pack("{s:i, s:o, s:o}", "schema", REPORT_SCHEMA, "verbs", list, "options", options));
}

int ctl_verb_help(char **args, int n_args)
{
	(void)args, (void)n_args;
	if (ctl_flag[FLAG_json])
		return help_json();
	puts("Usage: pghotctl [OPTION]... [VERB [ARGUMENT]]\n"
	     "\n"
	     "Shows and tunes pghotd, which promotes hot memory pages to the fast tier.\n");
	for (size_t i = 0; i < N_VERBS; i++)
		put_verb(&verbs[i]);
	putchar('\n');
	for (size_t i = 0; i < FLAG_MAX; i++)
		put_flag(&flags[i]);
	puts("\n"
	     "What tune and mode set lasts until pghotd is reloaded or restarted; then\n" PGHOTD_CONF
	     " wins, into which tune --save writes. A pause lasts over a\nreload.\n"
	     "\n"
	     "Exit status of status: 0 promoting, 1 observing, paused, waiting for a slow\n"
	     "tier, starting or stopping, 2 degraded, 3 down: not running or not answering.\n"
	     "Of the other verbs: 0 done, 1 refused, 3 down.\n"
	     "Of all: 64 wrong usage, 77 no permission for the socket, the journal or the\n"
	     "configuration file.");
	return EXIT_DONE;
}

static int put_version(void)
{
	if (ctl_flag[FLAG_json])
		return ctl_put_json(json_pack("{s:i, s:s}", "schema", REPORT_SCHEMA, "version", PGHOTD_VERSION));
	puts("pghotctl " PGHOTD_VERSION);
	return EXIT_DONE;
}

static const struct verb *find_verb(const char *name)
{
	for (size_t i = 0; i < N_VERBS; i++)
		if (strcmp(verbs[i].name, name) == 0)
			return &verbs[i];
	return NULL;
}

/* What other programs call it, or what is another program's. */
static const struct {
	const char *word, *meant;
} elsewhere[] = {
	{ "check", "pghotctl doctor, or pghotd --check-config" },
	{ "config", "pghotctl tune" },
	{ "continue", "pghotctl resume" },
	{ "disable", "systemctl disable pghotd" },
	{ "enable", "systemctl enable pghotd" },
	{ "get", "pghotctl tune KEY" },
	{ "info", "pghotctl status" },
	{ "list", "pghotctl tune, or pghotctl top" },
	{ "log", "pghotctl events, or journalctl -u pghotd" },
	{ "logs", "pghotctl events, or journalctl -u pghotd" },
	{ "observe", "pghotctl mode observe" },
	{ "promote", "pghotctl mode promote" },
	{ "restart", "systemctl restart pghotd" },
	{ "set", "pghotctl tune KEY=VALUE" },
	{ "show", "pghotctl status, or pghotctl tune KEY" },
	{ "start", "systemctl start pghotd" },
	{ "stats", "pghotctl status, or pghotctl metrics" },
	{ "stop", "pghotctl pause, or systemctl stop pghotd" },
	{ "version", "pghotctl --version" },
};

/* The line for a word that is no verb: what was meant, if that can be told. */
static int no_such_verb(const char *word)
{
	const char *nearest = NULL;
	unsigned int best = UINT_MAX;

	for (size_t i = 0; i < sizeof(elsewhere) / sizeof(elsewhere[0]); i++)
		if (strcmp(word, elsewhere[i].word) == 0)
			return ctl_fail(EXIT_BAD_USAGE, "no such verb: %s; did you mean %s?", word, elsewhere[i].meant);
	for (size_t i = 0; i < N_VERBS; i++) {
		unsigned int d = parse_distance(word, verbs[i].name);

		if (d < best) {
			best = d;
			nearest = verbs[i].name;
		}
	}
	/* More than a good third of the letters different: another word. */
	if (best > 1 + strlen(word) * 2 / 5)
		return ctl_fail(EXIT_BAD_USAGE, "no such verb: %.100s", word);
	return ctl_fail(EXIT_BAD_USAGE, "no such verb: %s; did you mean %s?", word, nearest);
}

static bool takes(const char *verb_list, const char *verb)
{
	size_t n = strlen(verb);

	for (const char *p = verb_list; *p; p += strcspn(p, "|"), p += *p == '|')
		if (strcspn(p, "|") == n && strncmp(p, verb, n) == 0)
			return true;
	return !*verb_list;
}

/* 0, or the exit status where a flag goes with other verbs. */
static int check_flags(const char *verb)
{
	char with[128];

	for (size_t i = 0; i < FLAG_MAX; i++) {
		if (!ctl_flag[i] || takes(flags[i].verbs, verb))
			continue;
		format_verbs(&flags[i], with, sizeof(with));
		return ctl_fail(EXIT_BAD_USAGE, "--%s goes %.*s", flags[i].name, (int)strcspn(with, ":"), with);
	}
	return 0;
}

/* The flags that go with @verb alone, and with it others: " [--for TIME]". */
static const char *flags_of(const char *verb, char buf[FLAGS_MAX])
{
	size_t used = 0;

	buf[0] = '\0';
	for (size_t i = 0; i < FLAG_MAX && used < FLAGS_MAX; i++)
		if (*flags[i].verbs && takes(flags[i].verbs, verb))
			used += (size_t)snprintf(buf + used, FLAGS_MAX - used, " [--%s%s%s]", flags[i].name,
						 flags[i].arg ? " " : "", flags[i].arg ? flags[i].arg : "");
	return buf;
}

static int wrong_words(const struct verb *verb)
{
	char list[FLAGS_MAX];

	return ctl_fail(EXIT_BAD_USAGE, "usage: pghotctl %s%s%s%s", verb->name, *verb->args ? " " : "", verb->args,
			flags_of(verb->name, list));
}

/* Which flags there are depends on the verb, which may come later. */
static int no_such_flag(const char *word, int argc, char **argv)
{
	char list[FLAGS_MAX];

	for (int i = 1; i < argc; i++) {
		const struct verb *verb = find_verb(argv[i]);

		if (verb && *flags_of(verb->name, list))
			return ctl_fail(EXIT_BAD_USAGE, "no such option: %s; %s has%s", word, verb->name, list);
	}
	return ctl_fail(EXIT_BAD_USAGE, "no such option: %s", word);
}

/* Into ctl_flag. 0, or the exit status. */
static int parse_flags(int argc, char **argv)
{
	struct option options[FLAG_MAX + 1] = { 0 };
	char letters[2 * FLAG_MAX + 2] = ":";
	size_t used = 1;
	int c, at;

	for (size_t i = 0; i < FLAG_MAX; i++) {
		options[i] = (struct option){ flags[i].name, flags[i].arg ? required_argument : no_argument, NULL,
					      256 + (int)i };
		if (flags[i].letter)
			letters[used++] = (char)flags[i].letter;
	}
	letters[used] = '\0';
	opterr = 0;
	while ((c = getopt_long(argc, argv, letters, options, NULL)) >= 0) {
		if (c == ':')
			return ctl_fail(EXIT_BAD_USAGE, "%s wants a value", argv[optind - 1]);
		if (c == '?')
			return no_such_flag(argv[optind - 1], argc, argv);
		at = c - 256;
		for (size_t i = 0; c < 256 && i < FLAG_MAX; i++)
			if (flags[i].letter == c)
				at = (int)i;
		ctl_flag[at] = optarg ? optarg : "";
	}
	return 0;
}

static int run(int argc, char **argv)
{
	int status = parse_flags(argc, argv), n;
	const struct verb *verb;

	if (status != 0)
		return status;
	if (ctl_flag[FLAG_help])
		return ctl_verb_help(NULL, 0);
	if (ctl_flag[FLAG_version])
		return put_version();
	verb = find_verb(optind < argc ? argv[optind++] : "status");
	if (!verb)
		return no_such_verb(argv[optind - 1]);
	status = check_flags(verb->name);
	if (status != 0)
		return status;
	n = argc - optind;
	if (n < verb->min_args || n > verb->max_args)
		return wrong_words(verb);
	return verb->run(argv + optind, n);
}

int main(int argc, char **argv)
{
	int status = run(argc, argv);

	/* A full disk or a closed pipe is no success. */
	if (fflush(stdout) != 0 || ferror(stdout))
		return ctl_fail(EXIT_REFUSED, "cannot write the answer: %s", strerror(errno));
	return status;
}
