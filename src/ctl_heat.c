/* SPDX-License-Identifier: GPL-2.0-or-later */
/* pghotctl heat. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cleanup.h"
#include "ctl.h"
#include "nodeset.h"
#include "parse.h"
#include "print_heat.h"

static bool is_utf8(void)
{
	static const char *const names[] = { "LC_ALL", "LC_CTYPE", "LANG" };

	/* The first that is set and not empty holds: locale(7). */
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *value = getenv(names[i]);

		if (value && *value)
			return strcasestr(value, "UTF-8") || strcasestr(value, "utf8");
	}
	return false;
}

static int write_to(const char *path, const char *json)
{
	FILE *out = fopen(path, "we");
	int r, error = 0;

	if (!out)
		return ctl_fail(EXIT_REFUSED, "cannot write %s: %s", path, strerror(errno));
	r = print_heat_svg(out, json);
	/* What is left to write fails with the same reason as what came before. */
	if (fflush(out) != 0)
		error = errno;
	else if (ferror(out))
		error = EIO;
	if (fclose(out) != 0 && error == 0)
		error = errno;
	if (error != 0)
		return ctl_fail(EXIT_REFUSED, "cannot write %s: %s", path, strerror(error));
	return r < 0 ? ctl_bad_answer() : EXIT_DONE;
}

/* Whole or not at all: what was there stays until the new one is. A device, pipe or link is written through, not
 * replaced. */
static int write_picture(const char *path, const char *json)
{
	_cleanup_free_ char *new = NULL;
	struct stat st;
	int r;

	if (lstat(path, &st) == 0 && !S_ISREG(st.st_mode))
		return write_to(path, json);
	if (asprintf(&new, "%s.new", path) < 0)
		return ctl_fail(EXIT_REFUSED, "out of memory");
	r = write_to(new, json);
	if (r == EXIT_DONE && rename(new, path) < 0)
		r = ctl_fail(EXIT_REFUSED, "cannot write %s: %s", path, strerror(errno));
	if (r != EXIT_DONE)
		unlink(new);
	return r;
}

int ctl_verb_heat(char **args, int n_args)
{
	const char *pid = ctl_flag[FLAG_pid], *node = ctl_flag[FLAG_node];
	const struct print_heat_style style = { .colour = ctl_use_colour(), .utf8 = is_utf8() };
	_cleanup_free_ char *json = NULL;
	uint64_t number;
	int r;

	(void)args, (void)n_args;
	if (pid && parse_u64(pid, 1, INT32_MAX, &number) < 0)
		return ctl_fail(EXIT_BAD_USAGE, "--pid wants a process, as in --pid 812, not \"%.40s\"", pid);
	if (node && parse_u64(node, 0, NODE_MAX - 1, &number) < 0)
		return ctl_fail(EXIT_BAD_USAGE, "--node wants a node from 0 to %d, not \"%.40s\"", NODE_MAX - 1, node);
	r = ctl_call("GetHeat", pid ? pid : "", node ? node : "", &json);
	if (r != 0)
		return r;
	if (ctl_flag[FLAG_svg])
		return write_picture(ctl_flag[FLAG_svg], json);
	if (ctl_flag[FLAG_json]) {
		json_t *doc = json_loads(json, 0, NULL);

		return doc ? ctl_put_json(doc) : ctl_bad_answer();
	}
	return print_heat(stdout, json, &style) < 0 ? ctl_bad_answer() : EXIT_DONE;
}
