/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "build_config.h"
#include "bus_manager.h"
#include "cleanup.h"
#include "report.h"

void bus_manager_make_plain(char *text, char keep)
{
	for (unsigned char *p = (unsigned char *)text; *p; p++)
		if ((*p < 0x20 || *p == 0x7f) && *p != keep)
			*p = ' ';
		else if (*p > 0x7f)
			*p = '?';
}

static int reply_error(sd_bus_error *ret, int r, char *text)
{
	static const struct {
		int r;
		const char *name;
	} names[] = {
		{ -EINVAL, BUS_ERROR_INVALID },    { -ERANGE, BUS_ERROR_INVALID },
		{ -ENOENT, BUS_ERROR_UNKNOWN },    { -EBUSY, BUS_ERROR_NEEDS_RESTART },
		{ -EPERM, BUS_ERROR_NOT_ALLOWED }, { -EACCES, BUS_ERROR_NOT_ALLOWED },
		{ -ENOMEM, BUS_ERROR_NO_MEMORY },
	};
	const char *name = BUS_ERROR_FAILED;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (names[i].r == r)
			name = names[i].name;
	bus_manager_make_plain(text, ' ');
	return sd_bus_error_set(ret, name, text[0] ? text : strerror(-r));
}

static int reply_text(sd_bus_message *m, sd_bus_error *ret_error, char *text)
{
	char error[] = "pghotd is out of memory";
	int r;

	if (!text)
		return reply_error(ret_error, -ENOMEM, error);
	r = sd_bus_reply_method_return(m, "s", text);
	free(text);
	return r;
}

static int on_get_status(sd_bus_message *m, void *userdata, sd_bus_error *ret_error)
{
	const struct bus_manager *manager = userdata;

	return reply_text(m, ret_error, manager->ops->status_json(manager->ctx));
}

static int on_list_options(sd_bus_message *m, void *userdata, sd_bus_error *ret_error)
{
	const struct bus_manager *manager = userdata;

	return reply_text(m, ret_error, manager->ops->options_json(manager->ctx));
}

static int on_set_option(sd_bus_message *m, void *userdata, sd_bus_error *ret_error)
{
	const struct bus_manager *manager = userdata;
	char error[BUS_ERROR_MAX] = "";
	const char *key, *value;
	int r;

	r = sd_bus_message_read(m, "ss", &key, &value);
	if (r < 0)
		return r;
	r = manager->ops->set_option(manager->ctx, &manager->peer, key, value, error);
	return r < 0 ? reply_error(ret_error, r, error) : sd_bus_reply_method_return(m, "");
}

static int on_reload(sd_bus_message *m, void *userdata, sd_bus_error *ret_error)
{
	const struct bus_manager *manager = userdata;
	char error[BUS_ERROR_MAX] = "";
	_cleanup_free_ char *note = NULL;
	int r = manager->ops->reload(manager->ctx, &manager->peer, &note, error);

	if (r < 0)
		return reply_error(ret_error, r, error);
	if (note)
		bus_manager_make_plain(note, '\n');
	return sd_bus_reply_method_return(m, "s", note ? note : "");
}

static int on_pause(sd_bus_message *m, void *userdata, sd_bus_error *ret_error)
{
	const struct bus_manager *manager = userdata;
	char error[BUS_ERROR_MAX] = "";
	uint64_t for_ns;
	int r;

	r = sd_bus_message_read(m, "t", &for_ns);
	if (r < 0)
		return r;
	if (!manager->ops->pause)
		return reply_error(ret_error, -ENOTSUP, error);
	r = manager->ops->pause(manager->ctx, &manager->peer, for_ns, error);
	return r < 0 ? reply_error(ret_error, r, error) : sd_bus_reply_method_return(m, "");
}

static int on_resume(sd_bus_message *m, void *userdata, sd_bus_error *ret_error)
{
	const struct bus_manager *manager = userdata;
	char error[BUS_ERROR_MAX] = "";
	_cleanup_free_ char *note = NULL;
	int r;

	if (!manager->ops->resume)
		return reply_error(ret_error, -ENOTSUP, error);
	r = manager->ops->resume(manager->ctx, &manager->peer, &note, error);
	if (r < 0)
		return reply_error(ret_error, r, error);
	if (note)
		bus_manager_make_plain(note, '\n');
	return sd_bus_reply_method_return(m, "s", note ? note : "");
}

static int on_note_file(sd_bus_message *m, void *userdata, sd_bus_error *ret_error)
{
	const struct bus_manager *manager = userdata;
	char error[BUS_ERROR_MAX] = "";
	int r;

	if (!manager->ops->note_file)
		return reply_error(ret_error, -ENOTSUP, error);
	r = manager->ops->note_file(manager->ctx, &manager->peer, error);
	return r < 0 ? reply_error(ret_error, r, error) : sd_bus_reply_method_return(m, "");
}

static int answer(sd_bus_message *m, const struct bus_manager *manager, enum bus_question question,
		  sd_bus_error *ret_error)
{
	char error[BUS_ERROR_MAX] = "";
	const char *first, *second;
	char *json = NULL;
	int r;

	r = sd_bus_message_read(m, "ss", &first, &second);
	if (r < 0)
		return r;
	if (!manager->ops->ask)
		return reply_error(ret_error, -ENOTSUP, error);
	r = manager->ops->ask(manager->ctx, &manager->peer, question, first, second, &json, error);
	return r < 0 ? reply_error(ret_error, r, error) : reply_text(m, ret_error, json);
}

static int on_explain(sd_bus_message *m, void *userdata, sd_bus_error *ret_error)
{
	return answer(m, userdata, BUS_EXPLAIN, ret_error);
}

static int on_get_heat(sd_bus_message *m, void *userdata, sd_bus_error *ret_error)
{
	return answer(m, userdata, BUS_HEAT, ret_error);
}

static int get_version(sd_bus *bus, const char *path, const char *interface, const char *property,
		       sd_bus_message *reply, void *userdata, sd_bus_error *ret_error)
{
	const struct bus_manager *manager = userdata;

	(void)bus, (void)path, (void)interface, (void)property, (void)ret_error;
	return sd_bus_message_append(reply, "s", manager->ops->version ? manager->ops->version : PGHOTD_VERSION);
}

static int append_now(sd_bus_message *reply, const struct bus_manager *manager, const char *(*now)(void *ctx))
{
	return sd_bus_message_append(reply, "s", manager->hidden ? "hidden" : now ? now(manager->ctx) : "");
}

static int get_state(sd_bus *bus, const char *path, const char *interface, const char *property, sd_bus_message *reply,
		     void *userdata, sd_bus_error *ret_error)
{
	const struct bus_manager *manager = userdata;

	(void)bus, (void)path, (void)interface, (void)property, (void)ret_error;
	return append_now(reply, manager, manager->ops->state);
}

static int get_mode(sd_bus *bus, const char *path, const char *interface, const char *property, sd_bus_message *reply,
		    void *userdata, sd_bus_error *ret_error)
{
	const struct bus_manager *manager = userdata;

	(void)bus, (void)path, (void)interface, (void)property, (void)ret_error;
	return append_now(reply, manager, manager->ops->mode);
}

static int get_schema(sd_bus *bus, const char *path, const char *interface, const char *property, sd_bus_message *reply,
		      void *userdata, sd_bus_error *ret_error)
{
	(void)bus, (void)path, (void)interface, (void)property, (void)userdata, (void)ret_error;
	return sd_bus_message_append(reply, "u", (uint32_t)REPORT_SCHEMA);
}

const sd_bus_vtable bus_manager_vtable[] = {
	SD_BUS_VTABLE_START(0),
	SD_BUS_METHOD_WITH_ARGS("GetStatus", SD_BUS_NO_ARGS, SD_BUS_RESULT("s", json), on_get_status, 0),
	SD_BUS_METHOD_WITH_ARGS("ListOptions", SD_BUS_NO_ARGS, SD_BUS_RESULT("s", json), on_list_options, 0),
	SD_BUS_METHOD_WITH_ARGS("SetOption", SD_BUS_ARGS("s", key, "s", value), SD_BUS_NO_RESULT, on_set_option, 0),
	SD_BUS_METHOD_WITH_ARGS("Reload", SD_BUS_NO_ARGS, SD_BUS_RESULT("s", note), on_reload, 0),
	SD_BUS_METHOD_WITH_ARGS("NoteFile", SD_BUS_NO_ARGS, SD_BUS_NO_RESULT, on_note_file, 0),
	SD_BUS_METHOD_WITH_ARGS("Pause", SD_BUS_ARGS("t", for_ns), SD_BUS_NO_RESULT, on_pause, 0),
	SD_BUS_METHOD_WITH_ARGS("Resume", SD_BUS_NO_ARGS, SD_BUS_RESULT("s", note), on_resume, 0),
	SD_BUS_METHOD_WITH_ARGS("Explain", SD_BUS_ARGS("s", pid, "s", address), SD_BUS_RESULT("s", json), on_explain,
				0),
	SD_BUS_METHOD_WITH_ARGS("GetHeat", SD_BUS_ARGS("s", pid, "s", node), SD_BUS_RESULT("s", json), on_get_heat, 0),
	SD_BUS_PROPERTY("Version", "s", get_version, 0, SD_BUS_VTABLE_PROPERTY_CONST),
	SD_BUS_PROPERTY("Schema", "u", get_schema, 0, SD_BUS_VTABLE_PROPERTY_CONST),
	SD_BUS_PROPERTY("State", "s", get_state, 0, SD_BUS_VTABLE_PROPERTY_EMITS_CHANGE),
	SD_BUS_PROPERTY("Mode", "s", get_mode, 0, SD_BUS_VTABLE_PROPERTY_EMITS_CHANGE),
	SD_BUS_VTABLE_END,
};
