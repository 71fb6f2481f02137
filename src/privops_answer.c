/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>

#include "guests.h"
#include "ibs_pmu.h"
#include "message.h"
#include "mover_fault.h"
#include "owners_facts.h"
#include "privops_answer.h"
#include "source_rivals.h"

_Static_assert(GUESTS_TEXT_MAX <= PRIVOPS_TEXT_MAX, "the answer has room for the guests");

static int number(uint64_t value)
{
	return value > INT32_MAX ? INT32_MAX : (int)value;
}

static int ask(const struct fsroot *root, uint32_t client, const struct privops_request *request, char *text)
{
	uint32_t pid = request->ask.pid;
	uint64_t value;
	int r;

	switch ((enum fsroot_question)request->ask.question) {
	case FSROOT_PGHOT_SOURCES:
		r = ibs_pmu_pghot_debugfs(root, &value);
		return r < 0 ? r : number(value);
	case FSROOT_SCAN_PERIOD:
		r = fsroot_read_u64(root, &value, 10, FSROOT_SCAN_PERIOD_FILE);
		return r < 0 ? r : number(value);
	case FSROOT_GUESTS:
		return guests_list(root, text, PRIVOPS_TEXT_MAX);
	case FSROOT_RIVALS:
		return number(source_rivals_list(root, client, text, PRIVOPS_TEXT_MAX));
	case FSROOT_DEVICE:
		return owners_facts_device(root, pid);
	case FSROOT_PAGE:
		return mover_fault_page(root, pid, request->ask.addr);
	}
	return -ENOSYS;
}

/* May it be asked? 0 or -errno of privops_check.h. */
static int check(const struct fsroot *root, const struct privops_request *request)
{
	struct privops_bounds bounds;

	switch ((enum privops_verb)request->verb) {
	case PRIVOPS_EVENT_OPEN:
		/* Each time anew: a module that comes late brings its unit, and one loaded again another number. */
		privops_check_bounds(root, &bounds);
		return privops_check_event(&request->event, &bounds);
	case PRIVOPS_SETTING_SET:
		return privops_check_setting(request->set.setting, request->set.value);
	case PRIVOPS_ASK:
		return privops_check_question(request);
	case PRIVOPS_HELLO:
	case PRIVOPS_RESTORE:
		break;
	}
	return 0;
}

/* Said where a journal keeps it: the main process has no business asking for it. */
static void say_refused(const struct privops_request *request, uint32_t client, int r)
{
	message(MESSAGE_HELPER_REFUSED, NULL, 0, "request %u of pid %u is refused: %s", request->verb, client,
		r == -EBADMSG           ? "it has a form that pghotd doesn't send"
		: r == -EPROTONOSUPPORT ? "it comes from another version of pghotd; systemctl restart "
					  "pghotd-helper.service pghotd.service"
					: "it isn't on the list of what the helper does");
}

static int act(const struct privops_helper *helper, uint32_t client, const struct privops_request *request,
	       struct privops_reply *reply, int *ret_fd)
{
	struct privops_restored restored;
	struct perf_event_attr attr;
	int r;

	switch ((enum privops_verb)request->verb) {
	case PRIVOPS_HELLO:
		break;
	case PRIVOPS_EVENT_OPEN:
		privops_event_attr(&request->event, &attr);
		*ret_fd = privops_event_open(&helper->priv, &attr, request->event.cpu);
		return *ret_fd < 0 ? *ret_fd : 0;
	case PRIVOPS_SETTING_SET:
		return privops_setting_set(&helper->priv, request->set.setting, request->set.value);
	case PRIVOPS_RESTORE:
		r = privops_restore(&helper->priv, &restored);
		reply->restored = restored.restored;
		reply->left = restored.left;
		reply->failed = restored.failed;
		return r;
	case PRIVOPS_ASK:
		r = ask(&helper->priv.root, client, request, reply->text);
		reply->n_text = r < 0 ? 0 : (uint32_t)strnlen(reply->text, PRIVOPS_TEXT_MAX);
		return r;
	}
	return 0;
}

int privops_answer(const struct privops_helper *helper, uint32_t client, const void *data, size_t len,
		   struct privops_reply *reply)
{
	struct privops_request request = { 0 };
	int fd = -1, r;

	memset(reply, 0, PRIVOPS_REPLY_MIN);
	reply->version = PRIVOPS_WIRE_VERSION;
	reply->text[0] = '\0';
	r = privops_check_parse(data, len, &request);
	if (r == 0)
		r = check(&helper->priv.root, &request);
	if (r < 0)
		say_refused(&request, client, r);
	else
		r = act(helper, client, &request, reply, &fd);
	reply->r = r;
	return fd < 0 ? -1 : fd;
}

size_t privops_answer_bytes(const struct privops_reply *reply)
{
	return PRIVOPS_REPLY_MIN + reply->n_text;
}
