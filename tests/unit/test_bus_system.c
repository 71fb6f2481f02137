/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A bus of the test's own, by Debian's dbus-daemon. The daemon's end and its clients run in one thread on one event
 * loop; a client may be another user, since the bus looks at who connects.
 */
#include <errno.h>
#include <grp.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <systemd/sd-bus.h>
#include <unistd.h>

#include "bus_gate.h"
#include "bus_system.h"
#include "harness.h"
#include "log.h"

#define NOBODY        65534
#define RETRY_NS      20000000ULL
#define MANY          (BUS_SYSTEM_CALLS_MAX * 3)
#define POLICY_OWN    "<policy context=\"default\"><allow own=\"org.pghot1\"/></policy>"
#define POLICY_DENIES ""

struct fixture {
	char folder[64], path[128], conf[128];
	sd_event *event;
	struct bus_system *system;
	pid_t bus;
	const char *state;
	int n_set;
	uint32_t set_uid;
	size_t set_groups;
	int32_t set_pid;
	/* What clients got. */
	int n_ok, n_refused, n_limited, n_other, n_changed;
	char text[256];
};

/* Turn the loop until @cond; far more turns than any case needs, so that only a fault gets to the end. */
#define SPIN(f, cond)                                              \
	({                                                         \
		for (int turn = 0; turn < 3000 && !(cond); turn++) \
			sd_event_run((f)->event, 10000);           \
		(cond);                                            \
	})

static char *status_json(void *ctx)
{
	(void)ctx;
	return strdup("{}");
}

static int set_option(void *ctx, const struct bus_peer *peer, const char *key, const char *value, char *error)
{
	struct fixture *f = ctx;

	(void)key, (void)value, (void)error;
	f->n_set++;
	f->set_uid = peer->uid;
	f->set_groups = peer->n_groups;
	f->set_pid = peer->pid;
	return 0;
}

static const char *state(void *ctx)
{
	return ((struct fixture *)ctx)->state;
}

static const struct bus_ops ops = {
	.status_json = status_json,
	.options_json = status_json,
	.set_option = set_option,
	.state = state,
	.mode = state,
};

/* ---- the bus --------------------------------------------------------------------- */

/* Runs a bus with @policy and waits until it listens. */
static bool start_bus(struct fixture *f, const char *policy)
{
	FILE *out = fopen(f->conf, "w");
	int ready[2];
	char c;

	if (!out || pipe(ready) < 0)
		return false;
	fprintf(out,
		"<busconfig><type>system</type><listen>unix:path=%s</listen><auth>EXTERNAL</auth>"
		"<policy context=\"default\"><allow user=\"*\"/><deny own=\"*\"/><allow send_type=\"method_call\"/>"
		"<allow send_type=\"signal\"/><allow send_requested_reply=\"true\" send_type=\"method_return\"/>"
		"<allow send_requested_reply=\"true\" send_type=\"error\"/>"
		"<allow receive_type=\"method_call\"/><allow receive_type=\"method_return\"/>"
		"<allow receive_type=\"error\"/><allow receive_type=\"signal\"/></policy>%s</busconfig>",
		f->path, policy);
	fclose(out);
	f->bus = fork();
	if (f->bus == 0) {
		char address_fd[32], conf[160];

		close(ready[0]);
		/* It would tell of each message that it rejects. */
		(void)!freopen("/dev/null", "w", stderr);
		snprintf(address_fd, sizeof(address_fd), "--print-address=%d", ready[1]);
		snprintf(conf, sizeof(conf), "--config-file=%s", f->conf);
		execlp("dbus-daemon", "dbus-daemon", "--nofork", conf, address_fd, NULL);
		_exit(1);
	}
	close(ready[1]);
	if (read(ready[0], &c, 1) != 1) {
		close(ready[0]);
		waitpid(f->bus, NULL, 0);
		return false;
	}
	close(ready[0]);
	return true;
}

static void stop_bus(struct fixture *f)
{
	if (f->bus <= 0)
		return;
	kill(f->bus, SIGKILL);
	waitpid(f->bus, NULL, 0);
	unlink(f->path);
	f->bus = 0;
}

static bool start(struct fixture *f)
{
	if (system("command -v dbus-daemon >/dev/null") != 0) {
		test_skip("there is no dbus-daemon here (package dbus-daemon)");
		return false;
	}
	log_init(LOG_TARGET_STDERR, LOG_ERR);
	*f = (struct fixture){ .state = "promoting" };
	strcpy(f->folder, "/tmp/pghot-bus-XXXXXX");
	if (!mkdtemp(f->folder) || chmod(f->folder, 0755) < 0)
		return false;
	snprintf(f->path, sizeof(f->path), "%s/bus", f->folder);
	snprintf(f->conf, sizeof(f->conf), "%s/conf", f->folder);
	char address[160];

	snprintf(address, sizeof(address), "unix:path=%s", f->path);
	setenv("DBUS_SYSTEM_BUS_ADDRESS", address, 1);
	return sd_event_new(&f->event) >= 0;
}

static bool start_system(struct fixture *f, const char *group)
{
	if (bus_system_new(f->event, group, &ops, f, &f->system) < 0)
		return false;
	bus_system_set_retry_ns(f->system, RETRY_NS);
	return true;
}

static void finish(struct fixture *f)
{
	bus_system_free(f->system);
	sd_event_unref(f->event);
	stop_bus(f);
	unlink(f->conf);
	rmdir(f->folder);
}

/* ---- clients --------------------------------------------------------------------- */

/* A connection of user @uid, in @group beside its own. */
static sd_bus *connect_as(struct fixture *f, uid_t uid, gid_t group)
{
	sd_bus *bus = NULL;
	gid_t before[64];
	int n = getgroups(64, before), r;

	if (uid && (n < 0 || setgroups(1, &group) < 0 || setegid(uid) < 0 || seteuid(uid) < 0))
		return NULL;
	r = sd_bus_open_system(&bus);
	if (uid && (seteuid(0) < 0 || setegid(0) < 0 || setgroups((size_t)n, before) < 0))
		abort();
	if (r < 0)
		return NULL;
	sd_bus_attach_event(bus, f->event, SD_EVENT_PRIORITY_NORMAL);
	return bus;
}

static int on_reply(sd_bus_message *m, void *userdata, sd_bus_error *ret_error)
{
	struct fixture *f = userdata;
	const sd_bus_error *e = sd_bus_message_get_error(m);

	(void)ret_error;
	if (!e) {
		f->n_ok++;
		return 1;
	}
	snprintf(f->text, sizeof(f->text), "%s", e->message ? e->message : "");
	if (sd_bus_error_has_name(e, BUS_ERROR_NOT_ALLOWED))
		f->n_refused++;
	else if (sd_bus_error_has_name(e, SD_BUS_ERROR_LIMITS_EXCEEDED))
		f->n_limited++;
	else
		f->n_other++;
	return 1;
}

static void ask(struct fixture *f, sd_bus *bus, const char *method)
{
	(void)sd_bus_call_method_async(bus, NULL, BUS_SYSTEM_NAME, BUS_OBJECT, BUS_INTERFACE, method, on_reply, f, "");
}

static void ask_to_set(struct fixture *f, sd_bus *bus, const char *value)
{
	(void)sd_bus_call_method_async(bus, NULL, BUS_SYSTEM_NAME, BUS_OBJECT, BUS_INTERFACE, "SetOption", on_reply, f,
				       "ss", "mode", value);
}

static int answers(const struct fixture *f)
{
	return f->n_ok + f->n_refused + f->n_limited + f->n_other;
}

/* ---- cases ----------------------------------------------------------------------- */

static void it_waits_for_a_bus_and_comes_back(void)
{
	struct fixture f;

	if (!start(&f))
		return;
	CU_ASSERT(start_system(&f, ""));
	for (int i = 0; i < 5; i++)
		sd_event_run(f.event, 30000);
	CU_ASSERT_FALSE(bus_system_has_name(f.system));
	bus_system_changed(f.system, "State");
	CU_ASSERT(start_bus(&f, POLICY_OWN));
	CU_ASSERT(SPIN(&f, bus_system_has_name(f.system)));
	stop_bus(&f);
	CU_ASSERT(SPIN(&f, !bus_system_has_name(f.system)));
	CU_ASSERT(start_bus(&f, POLICY_OWN));
	CU_ASSERT(SPIN(&f, bus_system_has_name(f.system)));
	finish(&f);
}

static void the_name_may_be_refused_or_taken(void)
{
	struct fixture f;
	sd_bus *other;

	if (!start(&f))
		return;
	CU_ASSERT(start_bus(&f, POLICY_DENIES));
	CU_ASSERT(start_system(&f, ""));
	for (int i = 0; i < 10; i++)
		sd_event_run(f.event, 30000);
	CU_ASSERT_FALSE(bus_system_has_name(f.system));
	stop_bus(&f);
	/* Another one is first. */
	CU_ASSERT(start_bus(&f, POLICY_OWN));
	CU_ASSERT(sd_bus_open_system(&other) >= 0);
	CU_ASSERT(sd_bus_request_name(other, BUS_SYSTEM_NAME, 0) >= 0);
	for (int i = 0; i < 20; i++)
		sd_event_run(f.event, 30000);
	CU_ASSERT_FALSE(bus_system_has_name(f.system));
	sd_bus_flush_close_unref(other);
	CU_ASSERT(SPIN(&f, bus_system_has_name(f.system)));
	finish(&f);
}

static void everyone_reads_and_few_change(void)
{
	struct fixture f;
	const struct group *group;
	sd_bus *anyone, *member, *root;

	if (geteuid() != 0)
		return test_skip("needs root to be other users");
	group = getgrgid(1);
	if (!group)
		return test_skip("there is no group 1 here");
	if (!start(&f))
		return;
	CU_ASSERT(start_bus(&f, POLICY_OWN));
	CU_ASSERT(start_system(&f, group->gr_name));
	CU_ASSERT(SPIN(&f, bus_system_has_name(f.system)));
	anyone = connect_as(&f, NOBODY, NOBODY);
	member = connect_as(&f, NOBODY, 1);
	root = connect_as(&f, 0, 0);

	ask(&f, anyone, "GetStatus");
	CU_ASSERT(SPIN(&f, f.n_ok == 1));
	ask_to_set(&f, anyone, "x");
	CU_ASSERT(SPIN(&f, f.n_refused == 1));
	CU_ASSERT_PTR_NOT_NULL(strstr(f.text, group->gr_name));
	/* It needs no right to be told that there is no such thing, but no more. */
	ask(&f, anyone, "Reload");
	CU_ASSERT(SPIN(&f, f.n_refused == 2));
	CU_ASSERT_EQUAL(f.n_set, 0);
	ask_to_set(&f, member, "x");
	CU_ASSERT(SPIN(&f, f.n_set == 1));
	CU_ASSERT_EQUAL(f.set_uid, NOBODY);
	CU_ASSERT_EQUAL(f.set_pid, getpid());
	CU_ASSERT_EQUAL(f.set_groups, 2);
	ask_to_set(&f, root, "x");
	CU_ASSERT(SPIN(&f, f.n_set == 2));
	CU_ASSERT_EQUAL(f.set_uid, 0);

	bus_system_set_public(f.system, false);
	CU_ASSERT(SPIN(&f, answers(&f) == 5));
	ask(&f, anyone, "GetStatus");
	CU_ASSERT(SPIN(&f, f.n_refused == 3));
	ask(&f, member, "GetStatus");
	CU_ASSERT(SPIN(&f, f.n_ok == 4));
	sd_bus_close_unref(anyone);
	sd_bus_close_unref(member);
	sd_bus_close_unref(root);
	finish(&f);
}

static void too_much_is_refused(void)
{
	static char value[BUS_GATE_MESSAGE_MAX + 1];
	struct fixture f;
	sd_bus *anyone, *root;

	if (geteuid() != 0)
		return test_skip("needs root to be other users");
	if (!start(&f))
		return;
	memset(value, 'x', sizeof(value) - 1);
	CU_ASSERT(start_bus(&f, POLICY_OWN));
	CU_ASSERT(start_system(&f, ""));
	CU_ASSERT(SPIN(&f, bus_system_has_name(f.system)));
	root = connect_as(&f, 0, 0);
	ask_to_set(&f, root, value);
	CU_ASSERT(SPIN(&f, f.n_other == 1));
	CU_ASSERT_STRING_EQUAL(f.text, "the request is too long");
	CU_ASSERT_EQUAL(f.n_set, 0);
	/* Far more than are let through, all at once; every one has its answer, and root still gets through. */
	anyone = connect_as(&f, NOBODY, NOBODY);
	for (int i = 0; i < MANY; i++)
		ask(&f, anyone, "GetStatus");
	CU_ASSERT(SPIN(&f, answers(&f) == MANY + 1));
	CU_ASSERT(f.n_ok > 0);
	CU_ASSERT(f.n_limited > 0);
	CU_ASSERT_EQUAL(f.n_ok + f.n_limited, MANY);
	ask_to_set(&f, root, "x");
	CU_ASSERT(SPIN(&f, f.n_set == 1));
	/* A caller that is gone before the bus has said who it was. */
	for (int i = 0; i < 10; i++)
		ask(&f, anyone, "GetStatus");
	sd_bus_flush_close_unref(anyone);
	ask_to_set(&f, root, "x");
	CU_ASSERT(SPIN(&f, f.n_set == 2));
	/* And the end with calls under way. */
	for (int i = 0; i < 10; i++)
		ask(&f, root, "GetStatus");
	sd_bus_flush(root);
	sd_event_run(f.event, 1000);
	sd_bus_close_unref(root);
	finish(&f);
}

static int on_changed(sd_bus_message *m, void *userdata, sd_bus_error *ret_error)
{
	(void)m, (void)ret_error;
	((struct fixture *)userdata)->n_changed++;
	return 0;
}

static int on_state(sd_bus_message *m, void *userdata, sd_bus_error *ret_error)
{
	struct fixture *f = userdata;
	const char *text = "";

	(void)ret_error;
	if (!sd_bus_message_is_method_error(m, NULL))
		(void)sd_bus_message_read(m, "v", "s", &text);
	snprintf(f->text, sizeof(f->text), "%s", text);
	f->n_ok++;
	return 1;
}

static void get_state(struct fixture *f, sd_bus *bus)
{
	(void)sd_bus_call_method_async(bus, NULL, BUS_SYSTEM_NAME, BUS_OBJECT, "org.freedesktop.DBus.Properties", "Get",
				       on_state, f, "ss", BUS_INTERFACE, "State");
}

static void changes_are_told(void)
{
	struct fixture f;
	sd_bus *client;

	if (!start(&f))
		return;
	CU_ASSERT(start_bus(&f, POLICY_OWN));
	CU_ASSERT(start_system(&f, ""));
	CU_ASSERT(SPIN(&f, bus_system_has_name(f.system)));
	client = connect_as(&f, 0, 0);
	(void)sd_bus_match_signal_async(client, NULL, BUS_SYSTEM_NAME, BUS_OBJECT, "org.freedesktop.DBus.Properties",
					"PropertiesChanged", on_changed, NULL, &f);
	get_state(&f, client);
	CU_ASSERT(SPIN(&f, f.n_ok == 1));
	CU_ASSERT_STRING_EQUAL(f.text, "promoting");
	f.state = "degraded";
	bus_system_changed(f.system, "State");
	CU_ASSERT(SPIN(&f, f.n_changed == 1));
	get_state(&f, client);
	CU_ASSERT(SPIN(&f, f.n_ok == 2));
	CU_ASSERT_STRING_EQUAL(f.text, "degraded");
	/* Not for everyone: neither told nor to be read. */
	bus_system_set_public(f.system, false);
	bus_system_changed(f.system, "State");
	get_state(&f, client);
	CU_ASSERT(SPIN(&f, f.n_ok == 3));
	CU_ASSERT_STRING_EQUAL(f.text, "hidden");
	CU_ASSERT_EQUAL(f.n_changed, 1);
	sd_bus_close_unref(client);
	finish(&f);
}

TEST_MAIN(bus_system, TEST(it_waits_for_a_bus_and_comes_back), TEST(the_name_may_be_refused_or_taken),
	  TEST(everyone_reads_and_few_change), TEST(too_much_is_refused), TEST(changes_are_told))
