/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-bus.h>
#include <unistd.h>

#include "bus_caller.h"
#include "bus_gate.h"
#include "bus_manager.h"
#include "bus_system.h"
#include "clock.h"
#include "fsroot.h"
#include "log.h"
#include "message.h"

#define DRIVER_NAME "org.freedesktop.DBus"
#define DRIVER_PATH "/org/freedesktop/DBus"
/* For an answer of the bus itself. */
#define ANSWER_USEC 5000000
/* Messages that the bus has not taken yet; beyond it doesn't read, and signals would pile up. */
#define UNSENT_MAX         256
#define RETRY_FIRST_USEC   250000
#define TABLE_MAX          32
#define REFUSED_PER_MINUTE 6
/* RequestName's answers; source: the D-Bus specification, "Message Bus Messages". */
#define NAME_IS_OURS  1
#define NAME_IN_QUEUE 2
#define NAME_WAS_OURS 4

enum situation {
	SITUATION_NEW,
	SITUATION_NO_BUS,
	SITUATION_LOST,
	SITUATION_NOT_ALLOWED,
	SITUATION_TAKEN,
	SITUATION_THERE,
};

/* A call that waits for the bus to say who made it. */
struct call {
	struct call *prev, *next;
	struct bus_system *system;
	sd_bus_message *m;
	sd_bus_slot *slot;
};

struct bus_system {
	struct bus_manager manager; /* the first: it is what the table's handlers are given */
	sd_event *event;
	sd_event_source *timer, *exit;
	sd_bus *bus;
	sd_bus_slot *asking; /* for the name */
	gid_t gid;           /* -1: none */
	char group[64];
	bool everyone;
	uint64_t retry_usec, retry_max_usec;
	enum situation said;
	struct call *calls;
	size_t n_calls;
	uint64_t reads_since_ns;
	unsigned int n_reads;
	struct message_limit refusals;
	struct fsroot root;
	sd_bus_vtable table[TABLE_MAX];
};

/* Once for each time that it becomes so. */
static void say(struct bus_system *system, enum situation now, const char *detail)
{
	enum situation before = system->said;

	if (before == now || (before == SITUATION_LOST && now == SITUATION_NO_BUS))
		return;
	system->said = now;
	switch (now) {
	case SITUATION_NO_BUS:
		log_info("system bus: there is none (%s), so no " BUS_SYSTEM_NAME
			 " for busctl and for who may only look; root and the control group don't need it. It is tried "
			 "again until there is one",
			 detail);
		break;
	case SITUATION_LOST:
		log_notice("system bus: it went away, and " BUS_SYSTEM_NAME
			   " with it; root and the control group don't need it. It is tried again until it is back");
		break;
	case SITUATION_NOT_ALLOWED:
		log_warning("system bus: it doesn't let pghotd have the name " BUS_SYSTEM_NAME
			    " (%s): its policy file " BUS_SYSTEM_NAME ".conf belongs into /etc/dbus-1/system.d or "
			    "/usr/share/dbus-1/system.d; then systemctl reload dbus",
			    detail);
		break;
	case SITUATION_TAKEN:
		log_warning("system bus: another program has the name " BUS_SYSTEM_NAME
			    " (busctl status " BUS_SYSTEM_NAME " tells which); pghotd gets it when that one ends");
		break;
	case SITUATION_THERE:
		log_info("system bus: " BUS_SYSTEM_NAME " is there%s", before == SITUATION_NEW ? "" : " now");
		break;
	case SITUATION_NEW:
		break;
	}
}

static void again_after(struct bus_system *system, uint64_t usec)
{
	sd_event_source_set_time_relative(system->timer, usec);
	sd_event_source_set_enabled(system->timer, SD_EVENT_ONESHOT);
}

/* Soon at first: at boot and at an upgrade the bus is away for a moment. */
static void try_again(struct bus_system *system)
{
	again_after(system, system->retry_usec);
	system->retry_usec =
		system->retry_usec * 2 < system->retry_max_usec ? system->retry_usec * 2 : system->retry_max_usec;
}

/* ---- who asks ------------------------------------------------------------------ */

static void call_free(struct call *call)
{
	struct bus_system *system = call->system;

	if (call->prev)
		call->prev->next = call->next;
	else
		system->calls = call->next;
	if (call->next)
		call->next->prev = call->prev;
	system->n_calls--;
	sd_bus_slot_unref(call->slot);
	sd_bus_message_unref(call->m);
	free(call);
}

static bool may_change(const struct bus_system *system, const struct bus_peer *peer)
{
	return peer->uid == 0 || peer->uid == geteuid() || bus_caller_is_in(peer, system->gid);
}

static bool only_reads(const char *method)
{
	static const char *const reading[] = { "GetStatus", "ListOptions", "Explain", "GetHeat" };

	for (size_t i = 0; i < sizeof(reading) / sizeof(reading[0]); i++)
		if (strcmp(method, reading[i]) == 0)
			return true;
	return false;
}

/* ---- calls --------------------------------------------------------------------- */

static int refuse(struct bus_system *system, const struct bus_peer *peer, const char *method, sd_bus_error *error)
{
	const char *what =
		only_reads(method) ? "reading is not for everyone (control.public_status), but" : "changes are";
	char more[48] = "";
	uint64_t held;

	if (message_may(&system->refusals, REFUSED_PER_MINUTE, clock_now_ns(&clock_monotonic), &held)) {
		if (held)
			snprintf(more, sizeof(more), " (and %llu more before)", (unsigned long long)held);
		log_notice("system bus: process %d (%s) of user %u may not call %s%s", peer->pid, peer->comm, peer->uid,
			   method, more);
	}
	if (system->gid == (gid_t)-1)
		return sd_bus_error_setf(error, BUS_ERROR_NOT_ALLOWED, "%s for root (sudo pghotctl ...)", what);
	return sd_bus_error_setf(error, BUS_ERROR_NOT_ALLOWED,
				 "%s for root and members of group %s (sudo usermod -aG %s USER, then log in again)",
				 what, system->group, system->group);
}

/*
 * A reader is one of many who may all ask at once; who may change things is not held up by them. A map looks at every
 * region, and so it counts for more.
 */
static bool too_many_reads(struct bus_system *system, const char *method)
{
	uint64_t now_ns = clock_now_ns(&clock_monotonic);

	if (now_ns - system->reads_since_ns >= NSEC_PER_SEC) {
		system->reads_since_ns = now_ns;
		system->n_reads = 0;
	}
	system->n_reads += strcmp(method, "GetHeat") == 0 ? BUS_SYSTEM_READS_PER_SEC / 10 : 1;
	return system->n_reads > BUS_SYSTEM_READS_PER_SEC;
}

static sd_bus_message_handler_t handler_of(const char *method)
{
	for (const sd_bus_vtable *row = bus_manager_vtable; row->type != _SD_BUS_VTABLE_END; row++)
		if (row->type == _SD_BUS_VTABLE_METHOD && strcmp(row->x.method.member, method) == 0)
			return row->x.method.handler;
	return NULL;
}

static int perform(struct bus_system *system, sd_bus_message *m, sd_bus_message *credentials, sd_bus_error *error)
{
	static struct bus_caller caller; /* one at a time */
	const char *method = sd_bus_message_get_member(m);
	sd_bus_message_handler_t handler = handler_of(method);
	struct bus_manager manager = system->manager;
	bool changer;

	if (sd_bus_message_is_method_error(credentials, NULL) ||
	    bus_caller_read(credentials, &system->root, &caller) < 0)
		return sd_bus_error_set(error, BUS_ERROR_NOT_ALLOWED, "the bus doesn't say who is asking");
	changer = may_change(system, &caller.peer);
	if (!changer && !(system->everyone && only_reads(method)))
		return refuse(system, &caller.peer, method, error);
	if (!changer && too_many_reads(system, method))
		return sd_bus_error_set(error, SD_BUS_ERROR_LIMITS_EXCEEDED,
					"too many are asking at once; try again in a second");
	if (!handler)
		return sd_bus_error_set(error, SD_BUS_ERROR_UNKNOWN_METHOD, "there is no such method");
	manager.peer = caller.peer;
	return handler(m, &manager, error);
}

static int on_credentials(sd_bus_message *reply, void *userdata, sd_bus_error *ret_error)
{
	struct call *call = userdata;
	sd_bus_error error = SD_BUS_ERROR_NULL;
	int r = perform(call->system, call->m, reply, &error);

	(void)ret_error;
	if (sd_bus_error_is_set(&error))
		(void)sd_bus_reply_method_error(call->m, &error);
	else if (r < 0)
		(void)sd_bus_reply_method_errno(call->m, r, NULL);
	sd_bus_error_free(&error);
	call_free(call);
	return 1;
}

/* The bus lets far more through than a request may have on the control socket, and calls are kept for a moment. */
static bool is_too_long(sd_bus_message *m)
{
	const char *first = "", *second = "";

	if (sd_bus_message_has_signature(m, "ss"))
		(void)sd_bus_message_read(m, "ss", &first, &second);
	(void)sd_bus_message_rewind(m, true);
	return strlen(first) + strlen(second) > BUS_GATE_MESSAGE_MAX;
}

/* Of every method. It is performed when the bus has said who asks. */
static int on_method(sd_bus_message *m, void *userdata, sd_bus_error *ret_error)
{
	struct bus_system *system = userdata;
	struct call *call;
	int r;

	if (system->n_calls >= BUS_SYSTEM_CALLS_MAX)
		return sd_bus_error_set(ret_error, SD_BUS_ERROR_LIMITS_EXCEEDED,
					"too many are asking at once; try again in a second");
	if (is_too_long(m))
		return sd_bus_error_set(ret_error, BUS_ERROR_INVALID, "the request is too long");
	call = calloc(1, sizeof(*call));
	if (!call)
		return -ENOMEM;
	*call = (struct call){ .system = system, .m = sd_bus_message_ref(m), .next = system->calls };
	if (call->next)
		call->next->prev = call;
	system->calls = call;
	system->n_calls++;
	r = sd_bus_call_method_async(system->bus, &call->slot, DRIVER_NAME, DRIVER_PATH, DRIVER_NAME,
				     "GetConnectionCredentials", on_credentials, call, "s",
				     sd_bus_message_get_sender(m));
	if (r < 0) {
		call_free(call);
		return r;
	}
	return 1;
}

/* The table of the control socket, with every method let in by way of on_method(). */
static void make_table(sd_bus_vtable *table)
{
	size_t n = 0;

	do {
		assert(n < TABLE_MAX);
		table[n] = bus_manager_vtable[n];
		if (table[n].type == _SD_BUS_VTABLE_METHOD) {
			table[n].flags |= SD_BUS_VTABLE_UNPRIVILEGED;
			table[n].x.method.handler = on_method;
		}
	} while (table[n++].type != _SD_BUS_VTABLE_END);
}

/* ---- the bus and the name -------------------------------------------------------- */

static void disconnect(struct bus_system *system)
{
	while (system->calls)
		call_free(system->calls);
	system->asking = sd_bus_slot_unref(system->asking);
	system->bus = sd_bus_close_unref(system->bus);
}

static int on_name(sd_bus_message *reply, void *userdata, sd_bus_error *ret_error)
{
	struct bus_system *system = userdata;
	const sd_bus_error *error = sd_bus_message_get_error(reply);
	uint32_t answer = 0;

	(void)ret_error;
	system->asking = sd_bus_slot_unref(system->asking);
	if (!error && sd_bus_message_read(reply, "u", &answer) < 0)
		answer = 0;
	if (answer == NAME_IS_OURS || answer == NAME_WAS_OURS) {
		system->retry_usec = RETRY_FIRST_USEC;
		say(system, SITUATION_THERE, "");
	} else if (answer == NAME_IN_QUEUE) {
		say(system, SITUATION_TAKEN, "");
	} else {
		/* One that doesn't answer is not up yet, or hangs; one that is gone is told by its own message. */
		if (error && sd_bus_error_has_name(error, SD_BUS_ERROR_ACCESS_DENIED))
			say(system, SITUATION_NOT_ALLOWED, error->message ? error->message : error->name);
		try_again(system);
	}
	return 1;
}

static void ask_for_name(struct bus_system *system)
{
	int r = sd_bus_request_name_async(system->bus, &system->asking, BUS_SYSTEM_NAME, SD_BUS_NAME_QUEUE, on_name,
					  system);

	if (r < 0)
		try_again(system);
}

/* What is for us and no call: the connection broke, the name came or went. */
static int on_message(sd_bus_message *m, void *userdata, sd_bus_error *ret_error)
{
	struct bus_system *system = userdata;
	const char *name;

	(void)ret_error;
	if (sd_bus_message_is_signal(m, "org.freedesktop.DBus.Local", "Disconnected") > 0) {
		say(system, system->said == SITUATION_THERE ? SITUATION_LOST : SITUATION_NO_BUS,
		    "it closes the connection");
		/* Not from inside one of its own callbacks. */
		again_after(system, 0);
	} else if (sd_bus_message_is_signal(m, DRIVER_NAME, "NameAcquired") > 0 &&
		   sd_bus_message_read(m, "s", &name) > 0 && strcmp(name, BUS_SYSTEM_NAME) == 0) {
		say(system, SITUATION_THERE, "");
	}
	(void)sd_bus_message_rewind(m, true);
	return 0;
}

static int connect_bus(struct bus_system *system)
{
	int r = sd_bus_open_system(&system->bus);

	if (r < 0)
		return r;
	if ((r = sd_bus_set_method_call_timeout(system->bus, ANSWER_USEC)) < 0 ||
	    (r = sd_bus_add_filter(system->bus, NULL, on_message, system)) < 0 ||
	    (r = sd_bus_add_object_vtable(system->bus, NULL, BUS_OBJECT, BUS_INTERFACE, system->table,
					  &system->manager)) < 0 ||
	    (r = sd_bus_attach_event(system->bus, system->event, SD_EVENT_PRIORITY_NORMAL)) < 0)
		return r;
	ask_for_name(system);
	return 0;
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct bus_system *system = userdata;
	int r;

	(void)source, (void)usec;
	if (system->bus && sd_bus_is_open(system->bus) > 0) {
		if (!system->asking && system->said != SITUATION_THERE)
			ask_for_name(system);
		return 0;
	}
	if (system->bus) {
		disconnect(system);
		try_again(system);
		return 0;
	}
	r = connect_bus(system);
	if (r < 0) {
		say(system, SITUATION_NO_BUS, strerror(-r));
		disconnect(system);
		try_again(system);
	}
	return 0;
}

/* Before sd-bus's own handler at the end of the loop, which would wait until the bus has taken what is unsent. */
static int on_exit_event(sd_event_source *source, void *userdata)
{
	(void)source;
	disconnect(userdata);
	return 0;
}

int bus_system_new(sd_event *event, const char *group, const struct bus_ops *ops, void *ctx, struct bus_system **ret)
{
	struct bus_system *system = calloc(1, sizeof(*system));
	int r = -ENOMEM;

	if (!system)
		return r;
	system->manager = (struct bus_manager){ .ops = ops, .ctx = ctx };
	system->event = sd_event_ref(event);
	system->gid = bus_find_group(group);
	snprintf(system->group, sizeof(system->group), "%s", group);
	system->everyone = true;
	system->retry_usec = RETRY_FIRST_USEC;
	system->retry_max_usec = BUS_SYSTEM_RETRY_NS / NSEC_PER_USEC;
	system->root.fd = -1;
	make_table(system->table);
	if ((r = fsroot_open(&system->root, "/")) < 0 ||
	    (r = sd_event_add_time_relative(event, &system->timer, CLOCK_MONOTONIC, 0, 0, on_timer, system)) < 0 ||
	    (r = sd_event_add_exit(event, &system->exit, on_exit_event, system)) < 0 ||
	    (r = sd_event_source_set_priority(system->exit, SD_EVENT_PRIORITY_IMPORTANT)) < 0) {
		bus_system_free(system);
		return r;
	}
	*ret = system;
	return 0;
}

void bus_system_free(struct bus_system *system)
{
	if (!system)
		return;
	disconnect(system);
	sd_event_source_disable_unref(system->timer);
	sd_event_source_disable_unref(system->exit);
	sd_event_unref(system->event);
	fsroot_close(&system->root);
	free(system);
}

void bus_system_set_public(struct bus_system *system, bool everyone)
{
	if (!system || system->everyone == everyone)
		return;
	system->everyone = everyone;
	system->manager.hidden = !everyone;
}

void bus_system_set_retry_ns(struct bus_system *system, uint64_t ns)
{
	system->retry_usec = system->retry_max_usec = ns / NSEC_PER_USEC;
}

bool bus_system_has_name(const struct bus_system *system)
{
	return system->said == SITUATION_THERE;
}

void bus_system_changed(struct bus_system *system, const char *property)
{
	uint64_t unsent;

	if (!system || !system->everyone || !bus_system_has_name(system) ||
	    sd_bus_get_n_queued_write(system->bus, &unsent) < 0 || unsent > UNSENT_MAX)
		return;
	(void)sd_bus_emit_properties_changed(system->bus, BUS_OBJECT, BUS_INTERFACE, property, NULL);
}
