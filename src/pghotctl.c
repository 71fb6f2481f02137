/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "build_config.h"
#include "bus.h"
#include "cleanup.h"
#include "ctl_client.h"
#include "parse.h"
#include "print_options.h"
#include "print_owners.h"
#include "print_status.h"
#include "report.h"

/* Exit statuses, part of the contract with users; status has 1 and 2 of its own, see report_state_exit(). */
enum {
	EXIT_DONE = 0,
	EXIT_REFUSED = 1,
	EXIT_DOWN = 3,
	EXIT_BAD_USAGE = 64,
	EXIT_NO_PERMISSION = 77,
};

#define TIMEOUT_MS 5000

enum {
	OPT_JSON = 256,
	OPT_OWNERS,
	OPT_SOCKET,
	OPT_VERSION,
};

static bool arg_json, arg_owners;
static const char *arg_socket = BUS_SOCKET_PATH;

struct verb {
	const char *name;
	const char *args;
	int min_args, max_args;
	int (*run)(char **args, int n_args); /* NULL: part of the contract, but not built yet */
	const char *line;                    /* NULL: not in the help */
};

__attribute__((format(printf, 2, 3))) static int fail(int status, const char *fmt, ...)
{
	va_list ap;

	fputs("pghotctl: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputs(status == EXIT_BAD_USAGE ? " (try pghotctl --help)\n" : "\n", stderr);
	return status;
}

/* The exit status for what ctl_client returned, after its line. */
static int fail_client(int r, const char *error)
{
	switch (r) {
	case -EACCES:
		return fail(EXIT_NO_PERMISSION, "%s", error);
	case -ECONNREFUSED:
	case -ECONNRESET:
	case -ETIMEDOUT:
		return fail(EXIT_DOWN, "%s", error);
	default:
		return fail(EXIT_REFUSED, "%s", error);
	}
}

/* 0 with a client, or the exit status. */
static int connect_daemon(struct ctl_client **ret)
{
	char error[CTL_CLIENT_ERROR_MAX];
	int r = ctl_client_open(arg_socket, TIMEOUT_MS, ret, error);

	if (r < 0)
		return fail_client(r, error);
	if (strcmp(ctl_client_version(*ret), PGHOTD_VERSION) != 0)
		fprintf(stderr,
			"pghotctl: warning: the daemon is version %s, this is %s: restart it, or use its own "
			"pghotctl\n",
			ctl_client_version(*ret), PGHOTD_VERSION);
	return 0;
}

/* One call on a connection of its own: its text is in *@ret. 0 or the exit status. */
static int call(const char *method, const char *key, const char *value, char **ret)
{
	char error[CTL_CLIENT_ERROR_MAX];
	struct ctl_client *client;
	int r = connect_daemon(&client);

	if (r != 0)
		return r;
	r = ctl_client_call(client, method, key, value, ret, error);
	ctl_client_close(client);
	return r < 0 ? fail_client(r, error) : 0;
}

static bool use_colour(void)
{
	const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

	return isatty(STDOUT_FILENO) && !(no && *no) && term && strcmp(term, "dumb") != 0;
}

/* Takes over @doc. */
static int put_json(json_t *doc)
{
	int r = doc ? json_dumpf(doc, stdout, JSON_INDENT(2) | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(15)) : -1;

	json_decref(doc);
	if (r < 0)
		return fail(EXIT_REFUSED, "out of memory");
	putchar('\n');
	return EXIT_DONE;
}

static int bad_answer(void)
{
	return fail(EXIT_REFUSED, "the daemon's answer is not what this version understands");
}

static int do_status(char **args, int n_args)
{
	_cleanup_free_ char *text = NULL;
	json_t *doc;
	const char *state;
	int r = call("GetStatus", NULL, NULL, &text), status;

	(void)args, (void)n_args;
	if (r == EXIT_DOWN && arg_json)
		put_json(json_pack("{s:i, s:s}", "schema", REPORT_SCHEMA, "state", "down"));
	if (r != 0)
		return r;
	doc = json_loads(text, 0, NULL);
	state = json_string_value(json_object_get(doc, "state"));
	status = report_state_exit(state ? state : "");
	if (!state) {
		json_decref(doc);
		return bad_answer();
	}
	if (arg_json)
		return put_json(doc) != 0 ? EXIT_REFUSED : status;
	json_decref(doc);
	return (arg_owners ? print_owners : print_status)(stdout, text, use_colour()) < 0 ? bad_answer() : status;
}

/* The options whose key is @key, or else contains it; all with NULL. */
static json_t *select_options(const json_t *all, const char *key)
{
	json_t *some = json_array(), *option;
	size_t i;

	json_array_foreach (all, i, option) {
		const char *name = json_string_value(json_object_get(option, "key"));

		if (key && name && strcmp(name, key) == 0) {
			json_array_clear(some);
			json_array_append(some, option);
			break;
		}
		if (!key || (name && strstr(name, key)))
			json_array_append(some, option);
	}
	return some;
}

static int list_options(const char *key)
{
	_cleanup_free_ char *text = NULL;
	int r = call("ListOptions", NULL, NULL, &text);

	if (r != 0)
		return r;
	if (arg_json) {
		json_t *all = json_loads(text, 0, NULL), *some = select_options(all, key);
		size_t n = json_array_size(some);

		json_decref(all);
		r = put_json(json_pack("{s:i, s:o}", "schema", REPORT_SCHEMA, "options", some));
		if (r != 0 || n > 0)
			return r;
	} else {
		r = print_options(stdout, text, key, use_colour());
		if (r < 0)
			return bad_answer();
		if (r > 0)
			return EXIT_DONE;
	}
	return fail(EXIT_REFUSED, "there is no option like \"%s\" (pghotctl tune lists all)", key);
}

/* The value of @key as text in @ret; false: it can't be had, an alias for example. */
static bool value_of(const char *options, const char *key, char *ret, size_t size)
{
	json_t *all = json_loads(options, 0, NULL), *some = select_options(all, key);
	const json_t *option = json_array_get(some, 0), *value = json_object_get(option, "value");
	const char *name = json_string_value(json_object_get(option, "key"));
	bool found = name && strcmp(name, key) == 0;

	if (!found)
		;
	else if (json_is_string(value))
		snprintf(ret, size, "%s", json_string_value(value));
	else if (json_is_boolean(value))
		snprintf(ret, size, "%s", json_is_true(value) ? "true" : "false");
	else if (json_is_integer(value))
		snprintf(ret, size, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
	else
		snprintf(ret, size, "%.10g", json_real_value(value));
	json_decref(all);
	json_decref(some);
	return found;
}

static int set_option(const char *key, const char *value)
{
	_cleanup_free_ char *before = NULL, *after = NULL;
	char error[CTL_CLIENT_ERROR_MAX], was[512] = "", now[512] = "";
	struct ctl_client *client;
	bool known;
	int r = connect_daemon(&client);

	if (r != 0)
		return r;
	/* What it was is for the person only: never a reason not to set it. */
	(void)ctl_client_call(client, "ListOptions", NULL, NULL, &before, error);
	r = ctl_client_call(client, "SetOption", key, value, NULL, error);
	if (r == 0)
		(void)ctl_client_call(client, "ListOptions", NULL, NULL, &after, error);
	ctl_client_close(client);
	if (r < 0)
		return fail_client(r, error);
	known = before && after && value_of(before, key, was, sizeof(was)) && value_of(after, key, now, sizeof(now));
	if (arg_json)
		return put_json(known ? json_pack("{s:i, s:s, s:s, s:s}", "schema", REPORT_SCHEMA, "key", key, "from",
						  was, "to", now)
				      : json_pack("{s:i, s:s, s:s}", "schema", REPORT_SCHEMA, "key", key, "to", value));
	if (known && strcmp(was, now) == 0)
		printf("%s: %s already\n", key, now);
	else
		printf("%s: %s%s%s\nuntil the next reload or restart; for good: in the configuration file\n", key, was,
		       known ? " -> " : "", known ? now : value);
	return EXIT_DONE;
}

static int do_tune(char **args, int n_args)
{
	char *equals = n_args ? strchr(args[0], '=') : NULL;

	if (n_args == 2)
		return fail(EXIT_BAD_USAGE, "tune: write key and value as one word: pghotctl tune '%s=%s'", args[0],
			    equals ? "..." : args[1]);
	if (!equals)
		return list_options(n_args ? args[0] : NULL);
	if (equals == args[0])
		return fail(EXIT_BAD_USAGE, "tune: there is no key before the \"=\"");
	*equals = '\0';
	return set_option(args[0], equals + 1);
}

static int show_mode(void)
{
	_cleanup_free_ char *text = NULL;
	const char *mode;
	json_t *doc;
	int r = call("GetStatus", NULL, NULL, &text);

	if (r != 0)
		return r;
	doc = json_loads(text, 0, NULL);
	mode = json_string_value(json_object_get(doc, "mode"));
	if (!mode)
		r = bad_answer();
	else if (arg_json)
		r = put_json(json_pack("{s:i, s:s}", "schema", REPORT_SCHEMA, "mode", mode));
	else
		printf("%s\n", strcmp(mode, "promote") == 0 ? "promote" : "observe");
	json_decref(doc);
	return r;
}

static int do_mode(char **args, int n_args)
{
	if (n_args == 0)
		return show_mode();
	if (strcmp(args[0], "observe") != 0 && strcmp(args[0], "promote") != 0)
		return fail(EXIT_BAD_USAGE, "mode is observe or promote, not \"%s\"", args[0]);
	return set_option("mode", args[0]);
}

static int do_reload(char **args, int n_args)
{
	_cleanup_free_ char *note = NULL;
	int r = call("Reload", NULL, NULL, &note);

	(void)args, (void)n_args;
	if (r != 0)
		return r;
	if (arg_json)
		return put_json(json_pack("{s:i, s:s}", "schema", REPORT_SCHEMA, "note", note));
	printf("configuration read again%s\n%s", *note ? ":" : "", note);
	if (*note && note[strlen(note) - 1] != '\n')
		putchar('\n');
	return EXIT_DONE;
}

static int do_help(char **args, int n_args);

static const struct verb verbs[] = {
	{ "status", "", 0, 0, do_status, "what it does now, on one screen; also without a verb" },
	{ "mode", "[observe|promote]", 0, 1, do_mode, "only measure, or move what is hot" },
	{ "tune", "[KEY[=VALUE]]", 0, 2, do_tune, "list options, show some, or set one" },
	{ "help", "", 0, 0, do_help, "this text" },
	/* For systemctl reload, which fails when this fails and shows its line. */
	{ "reload", "", 0, 0, do_reload, "read the configuration file again" },
	{ .name = "top" },
	{ .name = "heat" },
	{ .name = "explain" },
	{ .name = "events" },
	{ .name = "doctor" },
	{ .name = "pause" },
	{ .name = "resume" },
	{ .name = "metrics" },
};

static int do_help(char **args, int n_args)
{
	(void)args, (void)n_args;
	if (arg_json) {
		json_t *list = json_array();

		for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
			if (verbs[i].line)
				json_array_append_new(list, json_pack("{s:s, s:s, s:s}", "name", verbs[i].name, "args",
								      verbs[i].args, "help", verbs[i].line));
		return put_json(json_pack("{s:i, s:o}", "schema", REPORT_SCHEMA, "verbs", list));
	}
	puts("Usage: pghotctl [OPTION]... [VERB [ARGUMENT]]\n"
	     "\n"
	     "Shows and tunes pghotd, which promotes hot memory pages to the fast tier.\n");
	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
		if (verbs[i].line)
			printf("  %-6s %-17s %s\n", verbs[i].name, verbs[i].args, verbs[i].line);
	puts("\n"
	     "  --json                  answer as JSON; sizes in bytes, times in ns\n"
	     "  --owners                with status: which process takes how much of the\n"
	     "                          tables, and what was found hot of it\n"
	     "  --socket PATH           daemon's socket, instead of " BUS_SOCKET_PATH "\n"
	     "                          (also PGHOTCTL_SOCKET in the environment)\n"
	     "  -h, --help              this text\n"
	     "  -V, --version           version of pghotctl\n"
	     "\n"
	     "What tune and mode set lasts until pghotd is reloaded or restarted; then\n" PGHOTD_CONF " wins.\n"
	     "\n"
	     "Exit status of status: 0 promoting, 1 observing, waiting for a slow tier,\n"
	     "starting or stopping, 2 degraded, 3 down: not running or not answering.\n"
	     "Of the other verbs: 0 done, 1 refused, 3 down.\n"
	     "Of all: 64 wrong usage, 77 no permission to use the socket.");
	return EXIT_DONE;
}

static int put_version(void)
{
	if (arg_json)
		return put_json(json_pack("{s:i, s:s}", "schema", REPORT_SCHEMA, "version", PGHOTD_VERSION));
	puts("pghotctl " PGHOTD_VERSION);
	return EXIT_DONE;
}

static int not_built(const char *what)
{
	return fail(EXIT_BAD_USAGE, "%s is not in this version", what);
}

static const struct verb *find_verb(const char *name)
{
	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
		if (strcmp(verbs[i].name, name) == 0)
			return &verbs[i];
	return NULL;
}

/* The line for a word that is no verb: what was meant, if that can be told. */
static int no_such_verb(const char *word)
{
	const char *nearest = NULL;
	unsigned int best = UINT_MAX;

	if (strcmp(word, "observe") == 0 || strcmp(word, "promote") == 0)
		return fail(EXIT_BAD_USAGE, "no such verb: %s; did you mean pghotctl mode %s?", word, word);
	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
		unsigned int d = parse_distance(word, verbs[i].name);

		if (verbs[i].run && d < best) {
			best = d;
			nearest = verbs[i].name;
		}
	}
	/* More than a good third of the letters different: another word. */
	if (best > 1 + strlen(word) * 2 / 5)
		return fail(EXIT_BAD_USAGE, "no such verb: %.100s", word);
	return fail(EXIT_BAD_USAGE, "no such verb: %s; did you mean %s?", word, nearest);
}

/* What a verb that isn't built takes is nobody's business: it is named first, before its options are found wrong. */
static const struct verb *first_verb(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--socket") == 0)
			i++;
		else if (argv[i][0] != '-')
			return find_verb(argv[i]);
	}
	return NULL;
}

/* 0 to go on, or the exit status with *@ret_done. */
static int parse_options(int argc, char **argv, bool *ret_done)
{
	static const struct option options[] = {
		{ "json", no_argument, NULL, OPT_JSON },
		{ "owners", no_argument, NULL, OPT_OWNERS },
		{ "socket", required_argument, NULL, OPT_SOCKET },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ 0 },
	};
	bool help = false, version = false;
	int c;

	*ret_done = true;
	opterr = 0;
	while ((c = getopt_long(argc, argv, ":hV", options, NULL)) >= 0) {
		switch (c) {
		case OPT_JSON:
			arg_json = true;
			break;
		case OPT_OWNERS:
			arg_owners = true;
			break;
		case OPT_SOCKET:
			arg_socket = optarg;
			break;
		case 'h':
			help = true;
			break;
		case 'V':
			version = true;
			break;
		case ':':
			return fail(EXIT_BAD_USAGE, "%s wants a value", argv[optind - 1]);
		default:
			if (strcmp(argv[optind - 1], "--save") == 0)
				return not_built("tune --save");
			return fail(EXIT_BAD_USAGE, "no such option: %s", argv[optind - 1]);
		}
	}
	if (help)
		return do_help(NULL, 0);
	if (version)
		return put_version();
	*ret_done = false;
	return 0;
}

static int run(int argc, char **argv)
{
	const char *socket = getenv("PGHOTCTL_SOCKET");
	const struct verb *verb = first_verb(argc, argv);
	bool done;
	int status, n;

	if (socket && *socket)
		arg_socket = socket;
	if (verb && !verb->run)
		return not_built(verb->name);
	status = parse_options(argc, argv, &done);
	if (done)
		return status;
	if (optind == argc)
		return do_status(NULL, 0);
	verb = find_verb(argv[optind]);
	if (!verb)
		return no_such_verb(argv[optind]);
	if (!verb->run)
		return not_built(verb->name);
	if (arg_owners && verb->run != do_status)
		return fail(EXIT_BAD_USAGE, "--owners goes with status");
	n = argc - optind - 1;
	if (n < verb->min_args || n > verb->max_args)
		return fail(EXIT_BAD_USAGE, "usage: pghotctl %s%s%s", verb->name, *verb->args ? " " : "", verb->args);
	return verb->run(argv + optind + 1, n);
}

int main(int argc, char **argv)
{
	int status = run(argc, argv);

	/* A full disk or a closed pipe is no success. */
	if (fflush(stdout) != 0 || ferror(stdout))
		return fail(EXIT_REFUSED, "cannot write the answer: %s", strerror(errno));
	return status;
}
