/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "build_config.h"
#include "cleanup.h"
#include "exporter_ask.h"

#define STATUS_OK          200
#define STATUS_UNAVAILABLE 503

static int ask(const char *path, uint64_t timeout_ms, char **ret_json, char *note)
{
	struct ctl_client *client;
	int r = ctl_client_open(path, timeout_ms, &client, note);

	if (r < 0)
		return r;
	r = ctl_client_call(client, "GetStatus", NULL, NULL, ret_json, note);
	if (r == 0 && strcmp(ctl_client_version(client), PGHOTD_VERSION) != 0)
		snprintf(note, CTL_CLIENT_ERROR_MAX,
			 "the daemon is version %.40s, this is %s: counters that one of them doesn't know are left out "
			 "until both are restarted",
			 ctl_client_version(client), PGHOTD_VERSION);
	ctl_client_close(client);
	return r;
}

static int print(const char *json, enum metrics_format format, char **ret, size_t *ret_bytes)
{
	FILE *out = open_memstream(ret, ret_bytes);
	int r;

	if (!out)
		return -ENOMEM;
	r = metrics_print(out, json, format);
	if (ferror(out) && r == 0)
		r = -ENOMEM;
	if (fclose(out) != 0 && r == 0)
		r = -ENOMEM;
	return r;
}

void exporter_ask(const char *path, uint64_t timeout_ms, struct exporter_answer *ret)
{
	_cleanup_free_ char *json = NULL;
	int r;

	memset(ret, 0, sizeof(*ret));
	ret->status = STATUS_OK;
	r = ask(path, timeout_ms, &json, ret->note);
	if (r == -ECONNREFUSED || r == -ECONNRESET || r == -ETIMEDOUT)
		r = 0; /* json is NULL: it is down */
	for (int format = 0; r == 0 && format < EXPORTER_FORMATS; format++) {
		r = print(json, format, &ret->text[format], &ret->bytes[format]);
		if (r == -EINVAL)
			snprintf(ret->note, sizeof(ret->note),
				 "the daemon's answer is not what this version understands: restart both");
		else if (r < 0)
			snprintf(ret->note, sizeof(ret->note), "out of memory");
	}
	if (r < 0) {
		for (int format = 0; format < EXPORTER_FORMATS; format++) {
			free(ret->text[format]);
			ret->text[format] = NULL;
			ret->bytes[format] = 0;
		}
		ret->status = STATUS_UNAVAILABLE;
	}
}

void exporter_answer_free(struct exporter_answer *answer)
{
	for (int format = 0; format < EXPORTER_FORMATS; format++)
		free(answer->text[format]);
	memset(answer, 0, sizeof(*answer));
}
