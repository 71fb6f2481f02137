/* SPDX-License-Identifier: GPL-2.0-or-later */
/* pghotctl events. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-journal.h>
#include <time.h>
#include <unistd.h>

#include "ctl.h"
#include "message.h"
#include "parse.h"
#include "print.h"

#define UNIT          "_SYSTEMD_UNIT=pghotd.service"
#define LINES_DEFAULT 20
#define TEXT_MAX      4096
#define TIME_COLUMNS  19
#define EVENT_COLUMNS 9 /* the longest word of messages.def, and a space */
#define WAIT_USEC     UINT64_C(60000000)

/*
 * What anybody can write into the journal is its identifier; who wrote is journald's word: the unit, or root, as whom
 * it runs outside of a unit (systemd.journal-fields(7)).
 */
static int add_matches(sd_journal *journal)
{
	static const char *const trusted[] = { UNIT, "_UID=0" };
	int r = 0;

	for (size_t i = 0; i < sizeof(trusted) / sizeof(trusted[0]) && r >= 0; i++) {
		if (i > 0)
			r = sd_journal_add_disjunction(journal);
		if (r >= 0)
			r = sd_journal_add_match(journal, trusted[i], 0);
		if (r >= 0)
			r = sd_journal_add_match(journal, "SYSLOG_IDENTIFIER=pghotd", 0);
		for (int id = 0; id < MESSAGE_MAX && r >= 0; id++) {
			char match[64];

			snprintf(match, sizeof(match), "MESSAGE_ID=%s", message_info[id].uuid);
			r = sd_journal_add_match(journal, match, 0);
		}
	}
	return r;
}

/* The value of a field of the entry, "" when it has none. */
static void field(sd_journal *journal, const char *name, char *buf, size_t size)
{
	size_t n, skip = strlen(name) + 1;
	const void *data;

	buf[0] = '\0';
	if (sd_journal_get_data(journal, name, &data, &n) < 0 || n < skip)
		return;
	n -= skip;
	snprintf(buf, size, "%.*s", n < size ? (int)n : (int)size - 1, (const char *)data + skip);
	print_plain(buf);
}

static const struct message_info *find_message(const char *uuid)
{
	for (int i = 0; i < MESSAGE_MAX; i++)
		if (strcmp(message_info[i].uuid, uuid) == 0)
			return &message_info[i];
	return NULL;
}

static void put_as_json(sd_journal *journal, uint64_t usec, const char *event, const char *text)
{
	json_t *doc = json_pack("{s:I, s:s, s:s}", "time_ns", (json_int_t)usec * 1000, "event", event, "text", text);
	const void *data;
	size_t n;

	SD_JOURNAL_FOREACH_DATA(journal, data, n)
	{
		const char *word = data, *equals = memchr(data, '=', n);
		char name[64], value[TEXT_MAX];

		if (!equals || strncmp(word, "PGHOT_", 6) != 0)
			continue;
		snprintf(name, sizeof(name), "%.*s", (int)(equals - word), word);
		snprintf(value, sizeof(value), "%.*s", (int)(n - (size_t)(equals - word) - 1), equals + 1);
		print_plain(value);
		json_object_set_new(doc, name, json_string(value));
	}
	/* One line for each: who follows reads them as they come. */
	json_dumpf(doc, stdout, JSON_COMPACT | JSON_ENSURE_ASCII);
	putchar('\n');
	json_decref(doc);
}

static void put_entry(sd_journal *journal)
{
	const struct message_info *info;
	char uuid[40], text[TEXT_MAX], when[32] = "";
	uint64_t usec = 0;
	struct tm tm;
	time_t t;

	field(journal, "MESSAGE_ID", uuid, sizeof(uuid));
	field(journal, "MESSAGE", text, sizeof(text));
	info = find_message(uuid);
	if (!info)
		return;
	(void)sd_journal_get_realtime_usec(journal, &usec);
	if (ctl_flag[FLAG_json]) {
		put_as_json(journal, usec, info->event, text);
		return;
	}
	t = (time_t)(usec / 1000000);
	if (localtime_r(&t, &tm))
		strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", &tm);
	printf("%-*s ", TIME_COLUMNS, when);
	{
		char event[EVENT_COLUMNS + 1];

		snprintf(event, sizeof(event), "%-*s", EVENT_COLUMNS, info->event);
		print_coloured(stdout, ctl_use_colour(),
			       info->level <= LOG_ERR       ? PRINT_BAD
			       : info->level <= LOG_WARNING ? PRINT_WARN
							    : PRINT_BOLD,
			       event);
	}
	print_wrapped(stdout, TIME_COLUMNS + 1 + EVENT_COLUMNS, TIME_COLUMNS + 1 + EVENT_COLUMNS, PRINT_ROWS, text);
}

/* Until it is stopped from outside, or nobody reads any more. */
static int follow(sd_journal *journal)
{
	for (;;) {
		int r = sd_journal_next(journal);

		if (r > 0) {
			put_entry(journal);
			continue;
		}
		if (fflush(stdout) != 0)
			return EXIT_DONE; /* main() says why */
		if (r == 0)
			r = sd_journal_wait(journal, WAIT_USEC);
		if (r < 0 && r != -EINTR)
			return ctl_fail(EXIT_REFUSED, "cannot read on in the journal: %s", strerror(-r));
	}
}

/* sd_journal_open(3) is content with no file at all, be it that there is none or that none may be read. */
static bool is_readable(sd_journal *journal)
{
	return sd_journal_has_persistent_files(journal) > 0 || sd_journal_has_runtime_files(journal) > 0;
}

static int show(sd_journal *journal, uint64_t lines)
{
	int r = sd_journal_seek_tail(journal);

	if (r >= 0)
		r = sd_journal_previous_skip(journal, lines);
	for (int more = r; more > 0; more = sd_journal_next(journal))
		put_entry(journal);
	if (r < 0)
		return ctl_fail(EXIT_REFUSED, "cannot read the journal: %s", strerror(-r));
	if (r == 0)
		fprintf(stderr, "pghotctl: the journal has no event of pghotd%s\n",
			ctl_flag[FLAG_follow] ? " yet" : "");
	return ctl_flag[FLAG_follow] ? follow(journal) : EXIT_DONE;
}

int ctl_verb_events(char **args, int n_args)
{
	uint64_t lines = LINES_DEFAULT;
	sd_journal *journal = NULL;
	int r;

	(void)args, (void)n_args;
	if (ctl_flag[FLAG_lines] && parse_u64(ctl_flag[FLAG_lines], 1, 1000000, &lines) < 0)
		return ctl_fail(EXIT_BAD_USAGE, "--lines wants a number from 1 to 1000000");
	r = sd_journal_open(&journal, SD_JOURNAL_LOCAL_ONLY | SD_JOURNAL_SYSTEM);
	if (r >= 0)
		r = add_matches(journal);
	if (r < 0)
		r = ctl_fail(r == -EACCES || r == -EPERM ? EXIT_NO_PERMISSION : EXIT_REFUSED,
			     "cannot open the journal: %s (root and the groups systemd-journal and adm may read it)",
			     strerror(-r));
	else if (!is_readable(journal))
		r = ctl_fail(geteuid() != 0 ? EXIT_NO_PERMISSION : EXIT_REFUSED, "there is no journal here%s",
			     geteuid() != 0 ? " that you may read: root and the groups systemd-journal and adm may"
					    : ": without journald, events are only in what pghotd writes to stderr");
	else
		r = show(journal, lines);
	sd_journal_close(journal);
	return r;
}
