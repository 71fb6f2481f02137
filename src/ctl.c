/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "build_config.h"
#include "bus.h"
#include "ctl.h"
#include "ctl_client.h"
#include "print.h"

#define TIMEOUT_MS 5000

const char *ctl_flag[FLAG_MAX];
void (*ctl_leave_screen)(void);

int ctl_fail(int status, const char *fmt, ...)
{
	va_list ap;

	if (ctl_leave_screen)
		ctl_leave_screen();
	fputs("pghotctl: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputs(status == EXIT_BAD_USAGE ? " (try pghotctl --help)\n" : "\n", stderr);
	return status;
}

int ctl_fail_client(int r, const char *error)
{
	switch (r) {
	case -ECANCELED:
		return EXIT_CANCELED;
	case -EACCES:
		return ctl_fail(EXIT_NO_PERMISSION, "%s", error);
	case -ECONNREFUSED:
	case -ECONNRESET:
	case -ETIMEDOUT:
		return ctl_fail(EXIT_DOWN, "%s", error);
	default:
		return ctl_fail(EXIT_REFUSED, "%s", error);
	}
}

static const char *socket_path(void)
{
	const char *socket = getenv("PGHOTCTL_SOCKET");

	if (ctl_flag[FLAG_socket])
		return ctl_flag[FLAG_socket];
	return socket && *socket ? socket : BUS_SOCKET_PATH;
}

int ctl_connect(struct ctl_client **ret)
{
	char error[CTL_CLIENT_ERROR_MAX];
	int r = ctl_client_open(socket_path(), TIMEOUT_MS, ret, error);

	if (r < 0)
		return ctl_fail_client(r, error);
	if (strcmp(ctl_client_version(*ret), PGHOTD_VERSION) != 0)
		fprintf(stderr,
			"pghotctl: warning: the daemon is version %s, this is %s: restart it, or use its own "
			"pghotctl\n",
			ctl_client_version(*ret), PGHOTD_VERSION);
	return 0;
}

int ctl_call(const char *method, const char *key, const char *value, char **ret)
{
	char error[CTL_CLIENT_ERROR_MAX];
	struct ctl_client *client;
	int r = ctl_connect(&client);

	if (r != 0)
		return r;
	r = ctl_client_call(client, method, key, value, ret, error);
	ctl_client_close(client);
	return r < 0 ? ctl_fail_client(r, error) : 0;
}

bool ctl_use_colour(void)
{
	const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

	return isatty(STDOUT_FILENO) && !(no && *no) && term && strcmp(term, "dumb") != 0;
}

unsigned int ctl_columns(void)
{
	struct winsize size;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0 || size.ws_col < PRINT_COLUMNS_MIN ||
	    size.ws_col > PRINT_COLUMNS)
		return PRINT_COLUMNS;
	return size.ws_col;
}

int ctl_put_json(json_t *doc)
{
	int r = doc ? json_dumpf(doc, stdout, JSON_INDENT(2) | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(15)) : -1;

	json_decref(doc);
	if (r < 0 && ferror(stdout))
		return EXIT_REFUSED; /* main() says why */
	if (r < 0)
		return ctl_fail(EXIT_REFUSED, "out of memory");
	putchar('\n');
	return EXIT_DONE;
}

int ctl_bad_answer(void)
{
	return ctl_fail(EXIT_REFUSED, "the daemon's answer is not what this version understands");
}
