/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A daemon without a data plane, for the tests of pghotctl: the real control socket, report and options over a machine
 * that is made up. Prints "ready" when it listens. As a client it can also take up connections.
 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <systemd/sd-event.h>
#include <unistd.h>

#include "bus.h"
#include "config.h"
#include "daemon_inspect.h"
#include "dataplane_inspect.h"
#include "evidence.h"
#include "log.h"
#include "report.h"
#include "stats.h"

static struct {
	const char *socket, *group, *refuse_reload, *version, *config;
	enum report_state state;
	bool garbage, no_source;
	int hold;
} arg = { .group = "", .state = STATE_PROMOTING };

/* As the daemon: the state is another until resume(). */
static struct {
	bool on;
	enum report_state before;
	uint64_t for_ns;
	uint32_t uid;
} paused;

static struct config file, current;
static uint64_t file_mark;
static struct stats *stats;
static struct topology_room rooms[NODE_MAX];

static struct topology *make_topology(void)
{
	static struct topology_node nodes[] = {
		{ .nid = 0, .has_cpu = true, .has_memory = true, .tier = 0, .total_bytes = 96ULL << 30 },
		{ .nid = 1, .has_memory = true, .tier = 1, .total_bytes = 256ULL << 30 },
	};
	static struct topology topology = { .n_nodes = 2, .nodes = nodes, .n_tiers = 2, .origin = TIERS_FROM_KERNEL };

	nodeset_add(&topology.tiers[0].nodes, 0);
	nodeset_add(&topology.tiers[1].nodes, 1);
	nodeset_add(&topology.top, 0);
	nodeset_add(&topology.lower, 1);
	rooms[0] = (struct topology_room){ 20ULL << 30, 1 << 30, 1 << 30, 96ULL << 30, 1 << 29, 0 };
	rooms[1] = (struct topology_room){ 2ULL << 30, 1 << 30, 1 << 30, 256ULL << 30, 1 << 29, 0 };
	return &topology;
}

/* As after two hours of promoting. */
static int count_some(void)
{
	static const struct {
		enum stat_id id;
		uint64_t n;
	} counted[] = {
		{ STAT_TOTAL, 1834211 },    { STAT_USEFUL, 1612004 },         { STAT_LOST, 37 },
		{ STAT_CANDIDATES, 90112 }, { STAT_PROMOTED_PAGES, 1048576 }, { STAT_PROMOTED_BYTES, 4ULL << 30 },
		{ STAT_MOVE_CALLS, 2311 },  { STAT_MOVE_BUSY, 512 },          { STAT_DEMOTED_BYTES, 1ULL << 30 },
	};
	struct stats_slot *slot;

	stats = stats_new();
	slot = stats ? stats_slot_new(stats) : NULL;
	for (size_t i = 0; slot && i < sizeof(counted) / sizeof(counted[0]); i++)
		stats_add(slot, counted[i].id, counted[i].n);
	return slot ? 0 : -ENOMEM;
}

static char *status_json(void *ctx)
{
	static const struct guest guests[] = { { .pid = 4021, .name = "qemu-system-x86", .bytes = 24ULL << 30 } };
	static uint64_t asked; /* each time it is more */
	const struct report_source source = {
		.name = "hint_faults",
		.state = paused.on ? "unused" : "running",
		.why = "",
		.cpus = paused.on ? 0 : 4,
		.samples = 1000,
	};
	static const struct report_move moves[] = {
		{ .from_nid = 1, .to_nid = 0, .page_bytes = 4096, .result = "ok", .pages = 4096 },
		{ .from_nid = 1, .to_nid = 0, .page_bytes = 2 << 20, .result = "no memory", .pages = 512 },
	};
	static const struct report_left left[] = { { "shared", 3 << 20 } };
	static const struct report_migrator migrators[] = {
		{ .nid = 1, .limit = "", .batch_pages = 512, .call_ns = 12000, .page_ns = 700, .longest_ns = 1500000 },
	};
	const struct report_owner owners[] = {
		{ .pid = 812,
		  .name = "redis-server",
		  .regions = 1000,
		  .bytes = 1 << 20,
		  .hot_bytes = (3ULL << 30) + ((asked++ & 1) << 40) },
		{ .pid = 1, .name = "a \"b\" \\c", .regions = 1, .bytes = 64, .evicted = 2 },
	};
	struct report report = {
		.state = arg.state,
		.mode = current.mode == MODE_PROMOTE ? "promote" : "observe",
		.limiting = paused.on ? "it is paused" : "nothing: all that is hot is moved",
		.reason = arg.state == STATE_DEGRADED ? "the source failed"
			  : paused.on ? "paused by uid 0 (pghotctl) 2 minutes ago, until pghotctl resume"
				      : "",
		.pause = { .on = paused.on,
			   .uid = paused.uid,
			   .comm = "pghotctl",
			   .for_ns = 1,
			   .left_ns = paused.for_ns,
			   .ends = paused.for_ns > 0 },
		.uptime_ns = 7200ULL * 1000000000,
		.pid = (uint32_t)getpid(),
		.sources = &source,
		.n_sources = 1,
		.topology = ctx,
		.rooms = rooms,
		.headroom_ratio = 0.03,
		.stats = stats,
		.config = &current,
		.file = &file,
		.file_path = arg.config,
		.file_mark = file_mark,
		.moves = moves,
		.n_moves = 2,
		.left = left,
		.n_left = 1,
		.migrators = migrators,
		.n_migrators = 1,
		.owners = 2,
		.owner_list = owners,
		.n_owner_list = 2,
		.usage = { .bytes = 96 << 20,
			   .memory_max_bytes = 1 << 30,
			   .sections = 700,
			   .chunks = 9000,
			   .records = 1200000,
			   .regions = 1001 },
		.guests = guests,
		.n_guests = 1,
		.room = { .way = current.make_room == ROOM_OFF ? "none" : "exchange",
			  .state = "",
			  .cold_bytes = 2ULL << 30,
			  .quiet_ns = 60000000000 },
		.policy = { .name = "region",
			    .fitted = true,
			    .capacity_bytes = 1 << 30,
			    .hit_ratio = { 0.5, 0.75, 1 },
			    .has_known = true,
			    .known_ratio = 0.9,
			    .known_margin = 0.02 },
	};

	return arg.garbage ? strdup("[1, 2]") : report_json(&report);
}

static char *options_json(void *ctx)
{
	(void)ctx;
	return report_options_json(&current, &file);
}

static bool region_name(void *ctx, uint32_t owner_slot, char comm[16])
{
	(void)ctx;
	snprintf(comm, 16, "%s", owner_slot ? "postgres" : "redis-server");
	return true;
}

static bool may_trace(void *ctx, uint32_t pid)
{
	const struct bus_peer *peer = ctx;

	return peer->uid == 0 || pid == 812;
}

/* A hot and a cooler process; a part of the first was promoted. */
static char *heat_json(const struct bus_peer *peer, const char *pid, const char *node)
{
	static struct dataplane_region regions[1024];
	const struct heat_params params = {
		.pid = (uint32_t)atoi(pid),
		.nid = *node ? atoi(node) : -1,
		.lower_nodes = 2,
		.parts = 1,
		.ctx = (void *)(uintptr_t)peer,
		.name = region_name,
		.may_trace = may_trace,
	};
	size_t n = 0;

	for (uint64_t i = 0; i < 256; i++)
		if (i < 150 || i >= 230)
			regions[n++] = (struct dataplane_region){
				.pid = 812,
				.addr = 0x7f0000000000 + (i << 21),
				.page_bytes = 4096,
				.pages = 40,
				.nodes = i < 64 ? 1 : 2,
				.rate_per_sec = i % 50 < 10   ? 40
						: i % 50 < 20 ? 9
							      : 1,
				.decision = i < 64 ? REGION_DECISION_WHOLE | REGION_DECISION_DONE : 0,
				.idle_ns = 300000000,
			};
	for (uint64_t i = 0; i < 40; i++)
		regions[n++] = (struct dataplane_region){ .pid = 1204,
							  .owner_slot = 1,
							  .addr = 0x550000000000 + (i << 21),
							  .page_bytes = 2 << 20,
							  .pages = 1,
							  .nodes = 2,
							  .rate_per_sec = i % 8 ? 0 : 0.2 };
	for (size_t i = 0; params.pid && i < n;)
		if (regions[i].pid != params.pid)
			regions[i] = regions[--n];
		else
			i++;
	return daemon_heat_json(regions, n, &params);
}

static int ask(void *ctx, const struct bus_peer *peer, enum bus_question question, const char *first,
	       const char *second, char **ret, char *error)
{
	(void)ctx;
	if (question == BUS_HEAT) {
		*ret = arg.garbage ? strdup("[1]") : heat_json(peer, first, second);
		return 0;
	}
	if (strcmp(first, "812") != 0) {
		snprintf(error, BUS_ERROR_MAX, "nothing is known of pid %s: no sample of it came", first);
		return -ESRCH;
	}
	if (arg.garbage)
		*ret = strdup("{}");
	else if (asprintf(ret,
			  "{\"schema\":1,\"pid\":812,\"name\":\"redis-server\",\"mode\":\"promote\",\"regions\":1000,"
			  "\"bytes\":1048576,\"hot_bytes\":3221225472,\"evicted_regions\":0,\"verdict\":\"%s\","
			  "\"left\":\"%s\","
			  "\"rule\":%d,\"address_asked\":%s,\"policy\":\"region\",\"region\":%s}",
			  *second ? "leave" : "move", *second ? "shared" : "", *second ? 1 : -1,
			  *second ? "true" : "false",
			  *second ? "{\"address\":\"0x7f3a12000000\",\"page_bytes\":4096,\"samples\":18,\"seconds\":6,"
				    "\"pages\":12,\"idle_ns\":300000000,\"nodes\":[0,1],\"far\":true,\"decided\":\"\","
				    "\"done\":false,\"noted\":false,\"tries\":0,\"reason\":\"cooler\",\"share\":0.4,"
				    "\"heat_per_sec\":1.5,\"threshold_per_sec\":4.25}"
				  : "null") < 0)
		*ret = NULL;
	return 0;
}

/* 0, also without a file, or -errno. */
static int read_file(char *error)
{
	int r;

	if (!arg.config)
		return 0;
	r = config_load_marked(arg.config, &file, &file_mark, error);
	if (r != -ENOENT)
		return r;
	file_mark = 0;
	return 0;
}

static int note_file(void *ctx, const struct bus_peer *peer, char *error)
{
	(void)ctx, (void)peer;
	log_notice("told of the file");
	return read_file(error);
}

static int set_option(void *ctx, const struct bus_peer *peer, const char *key, const char *value, char *error)
{
	struct config next = current;
	int r = config_set(&next, key, value, error);

	(void)ctx;
	if (r < 0)
		return r;
	if (option_find(key)->change == OPTION_RESTART) {
		snprintf(error, BUS_ERROR_MAX, "%s takes effect at the start only", key);
		return -EBUSY;
	}
	current = next;
	log_notice("uid %u, %s, set %s to %s", peer->uid, peer->comm, key, value);
	return 0;
}

static int reload(void *ctx, const struct bus_peer *peer, char **ret_note, char *error)
{
	(void)ctx, (void)peer;
	if (arg.refuse_reload) {
		snprintf(error, BUS_ERROR_MAX, "%s", arg.refuse_reload);
		return -EINVAL;
	}
	if (read_file(error) < 0)
		return -EINVAL;
	*ret_note = strdup(memcmp(&current, &file, sizeof(file)) ? "mode: tuned value reverted\n" : "");
	current = file;
	return 0;
}

static int op_pause(void *ctx, const struct bus_peer *peer, uint64_t for_ns, char *error)
{
	(void)ctx;
	if (for_ns && (for_ns < REPORT_PAUSE_MIN_NS || for_ns > REPORT_PAUSE_MAX_NS)) {
		snprintf(error, BUS_ERROR_MAX, "that is no time for a pause");
		return -ERANGE;
	}
	if (!paused.on)
		paused.before = arg.state;
	paused.on = true;
	paused.for_ns = for_ns;
	paused.uid = peer->uid;
	arg.state = STATE_PAUSED;
	return 0;
}

static int op_resume(void *ctx, const struct bus_peer *peer, char **ret_note, char *error)
{
	(void)ctx, (void)peer, (void)error;
	*ret_note = strdup(!paused.on ? "it is not paused" : arg.no_source ? "no source works: the PMU is busy" : "");
	if (paused.on)
		arg.state = arg.no_source ? STATE_DEGRADED : paused.before;
	paused.on = false;
	return 0;
}

static int serve(void)
{
	struct bus_ops ops = {
		.status_json = status_json,
		.options_json = options_json,
		.set_option = set_option,
		.reload = reload,
		.ask = ask,
		.pause = op_pause,
		.resume = op_resume,
		.note_file = note_file,
		.version = arg.version,
	};
	struct bus_server *server = NULL;
	char error[CONFIG_ERROR_MAX];
	sd_event *event = NULL;
	sigset_t set;
	int r;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	config_defaults(&file);
	if (arg.state == STATE_PROMOTING)
		file.mode = MODE_PROMOTE;
	if (read_file(error) < 0) {
		fprintf(stderr, "fake_daemon: %s\n", error);
		return 1;
	}
	current = file;
	if (count_some() < 0)
		return 1;
	r = sd_event_default(&event);
	if (r >= 0)
		r = sd_event_add_signal(event, NULL, SIGTERM, NULL, NULL);
	if (r >= 0)
		r = bus_server_new(event, arg.socket, arg.group, &ops, make_topology(), &server);
	if (r < 0) {
		fprintf(stderr, "fake_daemon: %s: %s\n", arg.socket, strerror(-r));
		return 1;
	}
	puts("ready");
	fflush(stdout);
	r = sd_event_loop(event);
	bus_server_free(server);
	sd_event_unref(event);
	stats_free(stats);
	return r < 0;
}

/* Connect @arg.hold times, say nothing, stay until killed. */
static int hold(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", arg.socket);
	for (int i = 0; i < arg.hold; i++) {
		int fd = socket(AF_UNIX, SOCK_STREAM, 0);

		if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
			return 1;
	}
	puts("ready");
	fflush(stdout);
	for (;;)
		pause();
}

static enum report_state state_by_name(const char *name)
{
	for (int i = 0; i < STATE_MAX; i++)
		if (strcmp(report_state_name[i], name) == 0)
			return (enum report_state)i;
	fprintf(stderr, "fake_daemon: no state %s\n", name);
	exit(64);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "socket", required_argument, NULL, 's' },        { "group", required_argument, NULL, 'g' },
		{ "state", required_argument, NULL, 't' },         { "version", required_argument, NULL, 'v' },
		{ "refuse-reload", required_argument, NULL, 'r' }, { "garbage", no_argument, NULL, 'x' },
		{ "hold", required_argument, NULL, 'h' },          { "no-source", no_argument, NULL, 'n' },
		{ "config", required_argument, NULL, 'c' },        { 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) >= 0) {
		switch (c) {
		case 's':
			arg.socket = optarg;
			break;
		case 'g':
			arg.group = optarg;
			break;
		case 't':
			arg.state = state_by_name(optarg);
			break;
		case 'v':
			arg.version = optarg;
			break;
		case 'r':
			arg.refuse_reload = optarg;
			break;
		case 'x':
			arg.garbage = true;
			break;
		case 'c':
			arg.config = optarg;
			break;
		case 'n':
			arg.no_source = true;
			break;
		case 'h':
			arg.hold = atoi(optarg);
			break;
		default:
			return 64;
		}
	}
	if (!arg.socket)
		return 64;
	log_init(LOG_TARGET_STDERR, LOG_INFO);
	return arg.hold ? hold() : serve();
}
