/* SPDX-License-Identifier: GPL-2.0-or-later */
/* pghotctl tune --save: what was tuned, into the file that the daemon reads. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "build_config.h"
#include "cleanup.h"
#include "config.h"
#include "config_edit.h"
#include "ctl.h"
#include "ctl_client.h"
#include "ctl_file.h"
#include "ctl_tune.h"
#include "doc.h"
#include "report.h"

#define OPTIONS_MAX 256
#define VALUE_MAX   512 /* as it is shown */

struct save {
	struct ctl_client *client;
	json_t *status;
	char *options; /* as the daemon listed them before */
	struct ctl_file file;
	struct config values;                          /* of the file, with those that are saved */
	const struct option_info *option[OPTIONS_MAX]; /* that are saved */
	size_t n;
	char error[CTL_CLIENT_ERROR_MAX];
};

_Static_assert(CTL_CLIENT_ERROR_MAX >= CTL_FILE_ERROR_MAX && CTL_CLIENT_ERROR_MAX >= CONFIG_ERROR_MAX,
	       "one error for all");

static int refuse_file(const struct save *save, int r)
{
	if (r == -EACCES || r == -EPERM)
		return ctl_fail(EXIT_NO_PERMISSION, "cannot save: %s; nothing was changed%s", save->error,
				geteuid() == 0 ? "" : " (as root: sudo pghotctl tune ... --save)");
	return ctl_fail(EXIT_REFUSED, "cannot save: %s; nothing was changed", save->error);
}

/* May it be believed when it names a file for us to write? Its service is of a user of its own, which is not root. */
static bool may_name_file(const struct save *save, const char *path)
{
	uid_t uid = ctl_client_daemon_uid(save->client);

	return uid == 0 || uid == geteuid() || strcmp(path, PGHOTD_CONF) == 0;
}

/* Alone with the file from here on. 0 or the exit status. */
static int lock_file(struct save *save)
{
	const char *path = doc_text(json_object_get(save->status, "file"), "path");
	int r;

	if (!*path)
		return ctl_fail(EXIT_REFUSED, "this daemon does not say which configuration file it has read");
	if (!may_name_file(save, path))
		return ctl_fail(EXIT_REFUSED,
				"cannot save: pghotd runs as another user, so only " PGHOTD_CONF
				" is written for it, and it has read %.300s; nothing was changed: edit that by hand",
				path);
	r = ctl_file_lock(&save->file, path, save->error);
	return r < 0 ? refuse_file(save, r) : 0;
}

/* Reads the file, which must be the one that the daemon has read. */
static int read_file(struct save *save)
{
	const json_t *file = json_object_get(save->status, "file");
	const char *path = doc_text(file, "path"), *mark = doc_text(file, "mark");
	char now[24] = "";
	int r;

	r = ctl_file_read(&save->file, path, save->error);
	if (r < 0)
		return refuse_file(save, r);
	if (save->file.mark)
		snprintf(now, sizeof(now), "%016llx", (unsigned long long)save->file.mark);
	r = config_parse(save->file.text, save->file.path, &save->values, save->error);
	if (strcmp(now, mark) != 0 && r < 0)
		return ctl_fail(EXIT_REFUSED,
				"%s; nothing was changed: mend that, then pghotctl reload, then tune again",
				save->error);
	if (strcmp(now, mark) != 0)
		return ctl_fail(EXIT_REFUSED,
				"%s has changed since pghotd has read it; nothing was changed: first pghotctl reload, "
				"which takes back what was tuned, then tune again",
				save->file.path);
	return r < 0 ? refuse_file(save, r) : 0;
}

/* One more to be saved, as @value. 0 or the exit status. */
static int add(struct save *save, const char *key, const char *value)
{
	if (config_set(&save->values, key, value, save->error) < 0)
		return ctl_fail(EXIT_REFUSED, "%s", save->error);
	if (save->n < OPTIONS_MAX)
		save->option[save->n++] = option_find(key);
	return 0;
}

/* The tuned ones, or @key alone if it is one. */
static int add_tuned(struct save *save, const char *key)
{
	const struct option_info *only = key ? option_find(key) : NULL;
	const json_t *one;
	int r = 0;
	size_t i;

	if (key && !only)
		return add(save, key, ""); /* which says what is wrong with it */
	json_array_foreach (json_object_get(save->status, "tuned"), i, one) {
		if (json_is_true(json_object_get(one, "restart")) ||
		    (only && strcmp(only->key, doc_text(one, "key")) != 0))
			continue;
		r = add(save, doc_text(one, "key"), doc_text(one, "value"));
		if (r != 0)
			return r;
	}
	return 0;
}

static int ask(struct save *save)
{
	_cleanup_free_ char *text = NULL;
	int r;

	json_decref(take_ptr(save->status));
	free(take_ptr(save->options));
	r = ctl_client_call(save->client, "GetStatus", NULL, NULL, &text, save->error);
	if (r == 0)
		r = ctl_client_call(save->client, "ListOptions", NULL, NULL, &save->options, save->error);
	if (r < 0)
		return ctl_fail_client(r, save->error);
	save->status = json_loads(text, 0, NULL);
	return json_is_object(save->status) ? 0 : ctl_bad_answer();
}

/* Set it, write it; or neither. 0 or the exit status. */
static int apply(struct save *save, const char *value, const char *was)
{
	const struct option_info *option = save->n ? save->option[0] : NULL;
	bool set = value && option->change == OPTION_LIVE;
	_cleanup_free_ char *text = NULL;
	char error[CTL_CLIENT_ERROR_MAX];
	bool write;
	int r;

	r = config_edit(save->file.text, save->file.path, save->option, save->n, &save->values, &text, save->error);
	if (r < 0)
		return refuse_file(save, r);
	write = strcmp(text, save->file.text) != 0;
	if (write) {
		r = ctl_file_write(&save->file, text, save->error);
		if (r < 0)
			return refuse_file(save, r);
	}
	if (set) {
		r = ctl_client_call(save->client, "SetOption", option->key, value, NULL, save->error);
		if (r < 0)
			return ctl_fail_client(r, save->error);
	}
	if (!write)
		return 0;
	r = ctl_file_replace(&save->file, save->error);
	if (r == 0)
		return 0;
	if (set && ctl_client_call(save->client, "SetOption", option->key, was, NULL, error) < 0)
		return ctl_fail(EXIT_REFUSED, "cannot save: %s; and %s stays %s until the next reload: %s", save->error,
				option->key, value, error);
	return refuse_file(save, r);
}

/* Of the saved ones, how many the daemon will not take from the file: the command line has them, and wins. */
static size_t count_overridden(const struct save *save)
{
	_cleanup_free_ char *text = NULL;
	char error[CTL_CLIENT_ERROR_MAX];
	const json_t *one;
	json_t *status;
	size_t i, n = 0;

	if (ctl_client_call(save->client, "GetStatus", NULL, NULL, &text, error) < 0)
		return 0;
	status = json_loads(text, 0, NULL);
	json_array_foreach (json_object_get(status, "tuned"), i, one)
		for (size_t k = 0; k < save->n; k++)
			n += !json_is_true(json_object_get(one, "restart")) &&
			     strcmp(save->option[k]->key, doc_text(one, "key")) == 0;
	json_decref(status);
	return n;
}

/* Done, whatever fails here: it only says more. */
static void tell_daemon(struct save *save)
{
	if (ctl_client_call(save->client, "NoteFile", NULL, NULL, NULL, save->error) < 0)
		fprintf(stderr,
			"pghotctl: warning: it is saved, but pghotd could not be told, and shows it as tuned until the "
			"next reload: %s\n",
			save->error);
	else if (count_overridden(save) > 0)
		fprintf(stderr, "pghotctl: warning: pghotd was started with another value on its command line, which "
				"wins over the file at its next start\n");
}

static int answer(const struct save *save, const char *was)
{
	char value[CONFIG_TEXT_MAX];
	json_t *saved = json_object();

	for (size_t i = 0; i < save->n; i++) {
		const struct option_info *option = save->option[i];

		if (config_get_text(&save->values, option, value, sizeof(value)) < 0)
			value[0] = '\0';
		json_object_set_new(saved, option->key, json_string(value));
		if (ctl_flag[FLAG_json])
			continue;
		if (was && *was && strcmp(was, value) != 0)
			printf("%s: %s -> %s%s\n", option->key, was, value,
			       option->change == OPTION_RESTART ? ", with the next start of pghotd" : "");
		else
			printf("%s: %s\n", option->key, value);
	}
	if (ctl_flag[FLAG_json])
		return ctl_put_json(
			json_pack("{s:i, s:s, s:o}", "schema", REPORT_SCHEMA, "file", save->file.path, "saved", saved));
	json_decref(saved);
	if (save->n == 0)
		printf("nothing to save: what runs is what %s says\n", save->file.path);
	else
		printf("saved in %s\n", save->file.path);
	return EXIT_DONE;
}

static int run(struct save *save, const char *key, const char *value)
{
	char was[VALUE_MAX] = "";
	sigset_t signals;
	int r = ask(save);

	if (r != 0)
		return r;
	/* Between the daemon and the file nobody should stop us. */
	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGHUP);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	r = lock_file(save);
	/* Somebody may have saved meanwhile. */
	if (r == 0)
		r = ask(save);
	if (r == 0)
		r = read_file(save);
	if (r == 0)
		r = value ? add(save, key, value) : add_tuned(save, key);
	if (r != 0)
		return r;
	if (value)
		(void)ctl_tune_value(save->options, save->option[0]->key, was, sizeof(was));
	r = apply(save, value, was);
	if (r == 0 && save->n > 0)
		tell_daemon(save);
	return r != 0 ? r : answer(save, was);
}

int ctl_save(const char *key, const char *value)
{
	_cleanup_free_ struct save *save = calloc(1, sizeof(*save));
	int r;

	if (!save)
		return ctl_fail(EXIT_REFUSED, "out of memory");
	r = ctl_connect(&save->client);
	if (r != 0)
		return r;
	r = run(save, key, value);
	ctl_file_close(&save->file);
	ctl_client_close(save->client);
	json_decref(save->status);
	free(save->options);
	return r;
}
