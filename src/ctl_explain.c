/* SPDX-License-Identifier: GPL-2.0-or-later */
/* pghotctl explain. */
#include <stdio.h>
#include <string.h>

#include "cleanup.h"
#include "ctl.h"
#include "parse.h"
#include "print_explain.h"

/* Hexadecimal, as in /proc/PID/maps, of at most 64 bits. */
static bool is_address(const char *text)
{
	size_t n;

	if (text[0] == '0' && (text[1] | 0x20) == 'x')
		text += 2;
	n = strspn(text, "0123456789abcdefABCDEF");
	return n > 0 && n <= 16 && !text[n];
}

int ctl_verb_explain(char **args, int n_args)
{
	char *colon = strchr(args[0], ':');
	_cleanup_free_ char *json = NULL;
	uint64_t pid;
	int r;

	(void)n_args;
	if (colon)
		*colon++ = '\0';
	if (parse_u64(args[0], 1, INT32_MAX, &pid) < 0 || (colon && !is_address(colon)))
		return ctl_fail(EXIT_BAD_USAGE, "explain wants PID or PID:ADDRESS, as 812:0x7f3a12000000");
	r = ctl_call("Explain", args[0], colon ? colon : "", &json);
	if (r != 0)
		return r;
	if (ctl_flag[FLAG_json]) {
		json_t *doc = json_loads(json, 0, NULL);

		return doc ? ctl_put_json(doc) : ctl_bad_answer();
	}
	return print_explain(stdout, json, ctl_use_colour()) < 0 ? ctl_bad_answer() : EXIT_DONE;
}
