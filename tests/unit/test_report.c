/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <jansson.h>
#include <string.h>

#include "config.h"
#include "harness.h"
#include "report.h"
#include "stats.h"

#define MIB (1ULL << 20)
#define GIB (1ULL << 30)

static struct topology_room rooms[NODE_MAX];

/* Node 0: fast with CPUs; node 2: fast, memory only; node 5: slow; node 7: in no tier. */
static const struct topology *make_topology(void)
{
	static struct topology_node nodes[] = {
		{ .nid = 0, .has_cpu = true, .has_memory = true, .tier = 0, .total_bytes = 100 * GIB },
		{ .nid = 2, .has_memory = true, .tier = 0, .total_bytes = 50 * GIB },
		{ .nid = 5, .has_memory = true, .tier = 1, .total_bytes = 200 * GIB },
		{ .nid = 7, .has_cpu = true, .tier = -1 },
	};
	static struct topology topology;

	topology = (struct topology){ .n_nodes = 4, .nodes = nodes, .n_tiers = 2, .origin = TIERS_FROM_CONFIG };
	nodeset_add(&topology.tiers[0].nodes, 0);
	nodeset_add(&topology.tiers[0].nodes, 2);
	nodeset_add(&topology.tiers[1].nodes, 5);
	nodeset_add(&topology.top, 0);
	nodeset_add(&topology.top, 2);
	nodeset_add(&topology.lower, 5);
	strcpy(topology.advice, "say \"tiers = ( \\\"0\\\" );\"");
	memset(rooms, 0, sizeof(rooms));
	rooms[0] = (struct topology_room){
		.free_bytes = 10 * GIB, .high_bytes = GIB, .promo_bytes = 2 * GIB, .present_bytes = 100 * GIB
	};
	rooms[2] = (struct topology_room){
		.free_bytes = GIB, .high_bytes = GIB, .promo_bytes = GIB, .present_bytes = 50 * GIB
	};
	rooms[5] = (struct topology_room){
		.free_bytes = 7 * GIB, .high_bytes = 2 * GIB, .promo_bytes = GIB, .present_bytes = 200 * GIB
	};
	return &topology;
}

static const struct report_source sources[] = {
	{ .name = "hint_faults", .state = "running", .why = "", .cpus = 8, .samples = 41 },
	{ .name = "ibs", .state = "failed", .why = "no such PMU", .detail = "ibs_op", .period = 10000 }
};
static const struct report_move moves[] = { { 5, 0, 2 * MIB, "ok", 512 }, { 5, 2, 4096, "busy", 3 } };
static const struct guest guests[REPORT_GUESTS_MAX] = { { .pid = 812, .name = "qemu-system-x86", .bytes = 5 * 4096 } };
static const struct report_left left[] = { { "shared", 8192 }, { "rule", 1ULL << 40 } };
static const struct report_migrator migrators[] = { { 5, "nothing: all that is hot is moved", 384, 50000, 2500,
						      1200000 } };

static const struct report_pressure pressure[] = { { "/app.slice", "its memory goes to swap", 3000000000 } };

static const struct report_share shares[] = {
	{ .uid = 1004, .rule = 2, .has_bytes = 7 * MIB, .wants_bytes = 2 * MIB, .share_bytes = 5 * MIB, .held = true },
	{ .uid = 0, .rule = -1, .has_bytes = 4096, .share_bytes = 5 * MIB },
};

static struct report make_report(const struct stats *stats)
{
	return (struct report){
		.helps = { .percent = 5,
			   .known = true,
			   .saved = 0.71,
			   .margin = 0.04,
			   .has_cpu = true,
			   .cpu_back = 0.09,
			   .move_ratio = 0.01,
			   .far_held = 0.5,
			   .far_moved = 0.145 },
		.pressure = pressure,
		.n_pressure = 1,
		.shares = shares,
		.n_shares = 2,
		.guard = { .cause = "x",
			   .left_ns = 7,
			   .back_ratio = 0.25,
			   .kernel_demoted_pages = 11,
			   .n_resting = 9,
			   .resting = { { 77, "thrash", 5 } } },
		.room = { .way = "exchange", .state = "cold memory was found", .cold_bytes = 3 * MIB, .quiet_ns = 9 },
		.policy = { .name = "region",
			    .fitted = true,
			    .capacity_bytes = 16 * MIB,
			    .hit_ratio = { 0.7, 0.9, 0.95 },
			    .has_known = true,
			    .known_ratio = 0.964,
			    .known_margin = 0.012,
			    .waiting = 12,
			    .pays_not = 8,
			    .life_sec = 2.5,
			    .uncertain = 3,
			    .background = 4,
			    .cooler = 5 },
		.state = STATE_PROMOTING,
		.mode = "promote",
		.limiting = "promote.rate_mib_per_sec",
		.reason = "",
		.uptime_ns = 123456789012345,
		.pid = 4194304,
		.sources = sources,
		.n_sources = 2,
		.topology = make_topology(),
		.rooms = rooms,
		.headroom_ratio = 0.03,
		.stats = stats,
		.usage = { .bytes = 12 * MIB,
			   .memory_max_bytes = GIB,
			   .sections = 1,
			   .chunks = 2,
			   .records = 3,
			   .regions = 4 },
		.owners = 5,
		.moves = moves,
		.left = left,
		.n_left = 2,
		.guests = guests,
		.n_guests = 20,
		.n_moves = 2,
		.migrators = migrators,
		.n_migrators = 1,
		.kernel_promotes = true,
		.kernel_promoted_pages = 99,
	};
}

/* The value at a path of keys and indices ("tiers.0.nodes.1"), or NULL. */
static const json_t *at(const json_t *json, const char *path)
{
	char buf[128], *rest = buf;

	snprintf(buf, sizeof(buf), "%s", path);
	for (const char *key; json && (key = strsep(&rest, "."));)
		json = json_is_array(json) ? json_array_get(json, (size_t)atoi(key)) : json_object_get(json, key);
	return json;
}

static long long number_at(const json_t *json, const char *path)
{
	const json_t *value = at(json, path);

	return json_is_integer(value) ? json_integer_value(value) : -12345;
}

static bool text_is(const json_t *json, const char *path, const char *expected)
{
	const char *value = json_string_value(at(json, path));

	return value && strcmp(value, expected) == 0;
}

static json_t *parse(char *text)
{
	json_t *json = text ? json_loads(text, JSON_REJECT_DUPLICATES, NULL) : NULL;

	CU_ASSERT_PTR_NOT_NULL(json);
	free(text);
	return json;
}

static void document_is_what_users_were_promised(void)
{
	static const char *const keys[] = { "schema",         "version",       "mode",       "state",
					    "limiting",       "reason",        "uptime_ns",  "pid",
					    "sources",        "nodes",         "tiers",      "tiers_origin",
					    "observe_only",   "advice",        "counters",   "promoted_pages",
					    "promoted_bytes", "demoted_bytes", "left_alone", "moves",
					    "migrators",      "map",           "processes",  "policy",
					    "kernel",         "tuned",         "room",       "guard",
					    "helps",          "guests",        "pause",      "file",
					    "shares",         "pressure" };
	struct stats *stats = stats_new();
	struct stats_slot *slot = stats_slot_new(stats);
	static const struct report_owner owners[] = {
		{ .pid = 77, .name = "redis-server", .regions = 9, .bytes = 4096, .hot_bytes = 2 * MIB, .evicted = 3 },
		{ .pid = 78, .name = "\xff" },
	};
	struct report report = make_report(stats);
	json_t *doc;

	report.owner_list = owners;
	report.n_owner_list = 2;
	stats_add(slot, STAT_EVICTED_REGIONS, 6);
	stats_add(slot, STAT_EVICTED_RECORDS, 7);
	stats_add(slot, STAT_PROMOTED_PAGES, 512);
	stats_add(slot, STAT_PROMOTED_BYTES, 2 * MIB);
	stats_add(slot, STAT_DEMOTED_BYTES, 4096);
	doc = parse(report_json(&report));
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		CU_ASSERT_PTR_NOT_NULL(json_object_get(doc, keys[i]));
	CU_ASSERT_EQUAL(json_object_size(doc), sizeof(keys) / sizeof(keys[0]));
	CU_ASSERT_EQUAL(number_at(doc, "schema"), REPORT_SCHEMA);
	CU_ASSERT(text_is(doc, "mode", "promote"));
	CU_ASSERT_DOUBLE_EQUAL(json_real_value(at(doc, "helps.holdout_ratio")), 0.05, 1e-12);
	CU_ASSERT_DOUBLE_EQUAL(json_real_value(at(doc, "helps.saved")), 0.71, 1e-12);
	CU_ASSERT_DOUBLE_EQUAL(json_real_value(at(doc, "helps.margin")), 0.04, 1e-12);
	CU_ASSERT(json_is_null(at(doc, "helps.latency_held_cycles")));
	CU_ASSERT_DOUBLE_EQUAL(json_real_value(at(doc, "helps.cpu_back")), 0.09, 1e-12);
	CU_ASSERT_DOUBLE_EQUAL(json_real_value(at(doc, "helps.move_ratio")), 0.01, 1e-12);
	CU_ASSERT_EQUAL(json_array_size(at(doc, "pressure")), 1);
	CU_ASSERT(text_is(json_array_get(at(doc, "pressure"), 0), "cgroup", "/app.slice"));
	CU_ASSERT_EQUAL(number_at(json_array_get(at(doc, "pressure"), 0), "left_ns"), 3000000000);
	CU_ASSERT_EQUAL(json_array_size(at(doc, "shares")), 2);
	CU_ASSERT_EQUAL(number_at(json_array_get(at(doc, "shares"), 0), "has_bytes"), 7 * MIB);
	CU_ASSERT_EQUAL(number_at(json_array_get(at(doc, "shares"), 1), "rule"), -1);
	CU_ASSERT(json_is_true(at(json_array_get(at(doc, "shares"), 0), "held")));
	CU_ASSERT(text_is(doc, "guard.cause", "x"));
	CU_ASSERT_EQUAL(number_at(doc, "guard.left_ns"), 7);
	CU_ASSERT_DOUBLE_EQUAL(json_real_value(at(doc, "guard.back_ratio")), 0.25, 1e-12);
	CU_ASSERT_EQUAL(number_at(doc, "guard.kernel_demoted_pages"), 11);
	CU_ASSERT_EQUAL(number_at(doc, "guard.n_resting"), 9);
	CU_ASSERT_EQUAL(json_array_size(at(doc, "guard.resting")), REPORT_RESTING_MAX);
	CU_ASSERT_EQUAL(json_integer_value(json_object_get(json_array_get(at(doc, "guard.resting"), 0), "pid")), 77);
	CU_ASSERT(text_is(doc, "room.way", "exchange"));
	CU_ASSERT(text_is(doc, "room.state", "cold memory was found"));
	CU_ASSERT_EQUAL(number_at(doc, "room.cold_bytes"), 3 * MIB);
	CU_ASSERT_EQUAL(number_at(doc, "room.quiet_ns"), 9);
	CU_ASSERT(text_is(doc, "policy.name", "region"));
	CU_ASSERT_EQUAL(number_at(doc, "policy.capacity_bytes"), 16 * MIB);
	CU_ASSERT_DOUBLE_EQUAL(json_real_value(at(doc, "policy.hit_ratio.50")), 0.7, 1e-12);
	CU_ASSERT_DOUBLE_EQUAL(json_real_value(at(doc, "policy.hit_ratio.150")), 0.95, 1e-12);
	CU_ASSERT_DOUBLE_EQUAL(json_real_value(at(doc, "policy.known.ratio")), 0.964, 1e-12);
	CU_ASSERT_DOUBLE_EQUAL(json_real_value(at(doc, "policy.known.margin")), 0.012, 1e-12);
	CU_ASSERT_EQUAL(number_at(doc, "policy.regions.waiting"), 12);
	CU_ASSERT_EQUAL(number_at(doc, "policy.regions.pays_not"), 8);
	CU_ASSERT_EQUAL(number_at(doc, "policy.life_ns"), 2500000000);
	CU_ASSERT(json_is_null(at(doc, "policy.pays_per_sec")));
	CU_ASSERT_EQUAL(number_at(doc, "policy.regions.background"), 4);
	CU_ASSERT(text_is(doc, "state", "promoting"));
	CU_ASSERT(text_is(doc, "limiting", "promote.rate_mib_per_sec"));
	CU_ASSERT_EQUAL(number_at(doc, "uptime_ns"), 123456789012345);
	CU_ASSERT_EQUAL(number_at(doc, "pid"), 4194304);
	CU_ASSERT(text_is(doc, "sources.0.name", "hint_faults"));
	CU_ASSERT_EQUAL(number_at(doc, "sources.0.cpus"), 8);
	CU_ASSERT_EQUAL(number_at(doc, "sources.0.samples"), 41);
	CU_ASSERT(text_is(doc, "sources.1.state", "failed"));
	CU_ASSERT(text_is(doc, "sources.1.why", "no such PMU"));
	CU_ASSERT(text_is(doc, "advice", "say \"tiers = ( \\\"0\\\" );\""));
	CU_ASSERT(text_is(doc, "tiers_origin", "configuration"));
	CU_ASSERT(json_is_false(at(doc, "observe_only")));
	for (int i = 0; i < STAT_MAX; i++)
		CU_ASSERT(json_is_integer(json_object_get(at(doc, "counters"), stat_info[i].name)));
	CU_ASSERT_EQUAL(number_at(doc, "counters.promoted_pages"), 512);
	CU_ASSERT_EQUAL(number_at(doc, "promoted_pages"), 512);
	CU_ASSERT_EQUAL(number_at(doc, "promoted_bytes"), 2 * MIB);
	CU_ASSERT_EQUAL(number_at(doc, "demoted_bytes"), 4096);
	CU_ASSERT_EQUAL(json_object_size(at(doc, "left_alone")), 2);
	CU_ASSERT_EQUAL(number_at(doc, "guests.n"), 20);
	CU_ASSERT_EQUAL(json_array_size(at(doc, "guests.largest")), REPORT_GUESTS_MAX);
	CU_ASSERT_EQUAL(number_at(doc, "guests.largest.0.pid"), 812);
	CU_ASSERT_EQUAL(number_at(doc, "guests.largest.0.bytes"), 5 * 4096);
	CU_ASSERT_EQUAL(number_at(doc, "left_alone.shared"), 8192);
	CU_ASSERT_EQUAL(number_at(doc, "left_alone.rule"), 1ULL << 40);
	CU_ASSERT(json_is_true(at(doc, "moves.0.huge")));
	CU_ASSERT_EQUAL(number_at(doc, "moves.0.page_bytes"), 2 * MIB);
	CU_ASSERT(json_is_false(at(doc, "moves.1.huge")));
	CU_ASSERT_EQUAL(number_at(doc, "moves.1.page_bytes"), 4096);
	CU_ASSERT_EQUAL(number_at(doc, "moves.1.from"), 5);
	CU_ASSERT_EQUAL(number_at(doc, "moves.1.to"), 2);
	CU_ASSERT(text_is(doc, "moves.1.result", "busy"));
	CU_ASSERT_EQUAL(number_at(doc, "moves.1.pages"), 3);
	CU_ASSERT_EQUAL(number_at(doc, "migrators.0.nid"), 5);
	CU_ASSERT(text_is(doc, "migrators.0.limit", "nothing: all that is hot is moved"));
	CU_ASSERT_EQUAL(number_at(doc, "migrators.0.batch_pages"), 384);
	CU_ASSERT_EQUAL(number_at(doc, "migrators.0.call_ns"), 50000);
	CU_ASSERT_EQUAL(number_at(doc, "migrators.0.page_ns"), 2500);
	CU_ASSERT_EQUAL(number_at(doc, "migrators.0.longest_ns"), 1200000);
	CU_ASSERT_EQUAL(number_at(doc, "map.bytes"), 12 * MIB);
	CU_ASSERT_EQUAL(number_at(doc, "map.memory_max_bytes"), GIB);
	CU_ASSERT_EQUAL(number_at(doc, "map.sections"), 1);
	CU_ASSERT_EQUAL(number_at(doc, "map.chunks"), 2);
	CU_ASSERT_EQUAL(number_at(doc, "map.records"), 3);
	CU_ASSERT_EQUAL(number_at(doc, "map.regions"), 4);
	CU_ASSERT_EQUAL(number_at(doc, "map.owners"), 5);
	CU_ASSERT_EQUAL(number_at(doc, "map.evicted_regions"), 6);
	CU_ASSERT_EQUAL(number_at(doc, "map.evicted_records"), 7);
	CU_ASSERT_EQUAL(json_array_size(at(doc, "processes")), 2);
	CU_ASSERT_EQUAL(number_at(doc, "processes.0.pid"), 77);
	CU_ASSERT(text_is(doc, "processes.0.name", "redis-server"));
	CU_ASSERT_EQUAL(number_at(doc, "processes.0.regions"), 9);
	CU_ASSERT_EQUAL(number_at(doc, "processes.0.bytes"), 4096);
	CU_ASSERT_EQUAL(number_at(doc, "processes.0.hot_bytes"), 2 * MIB);
	CU_ASSERT_EQUAL(number_at(doc, "processes.0.evicted_regions"), 3);
	CU_ASSERT(text_is(doc, "processes.1.name", "?"));
	CU_ASSERT(json_is_true(at(doc, "kernel.promotes")));
	CU_ASSERT_EQUAL(number_at(doc, "kernel.promoted_pages"), 99);
	json_decref(doc);
	stats_free(stats);
}

static void room_is_what_may_be_filled(void)
{
	struct report report = make_report(NULL);
	json_t *doc = parse(report_json(&report));

	CU_ASSERT_EQUAL(json_array_size(at(doc, "nodes")), 4);
	/* Free, less the larger watermark, less 3 percent. */
	CU_ASSERT_EQUAL(number_at(doc, "nodes.0.room_bytes"), 5 * GIB);
	CU_ASSERT_EQUAL(number_at(doc, "nodes.0.free_bytes"), 10 * GIB);
	CU_ASSERT_EQUAL(number_at(doc, "nodes.0.promo_bytes"), 2 * GIB);
	CU_ASSERT_EQUAL(number_at(doc, "nodes.0.high_bytes"), GIB);
	CU_ASSERT(json_is_true(at(doc, "nodes.0.fast")));
	CU_ASSERT(json_is_true(at(doc, "nodes.0.has_cpu")));
	/* Never below 0. */
	CU_ASSERT_EQUAL(number_at(doc, "nodes.1.room_bytes"), 0);
	/* No headroom is kept on a slow node. */
	CU_ASSERT_EQUAL(number_at(doc, "nodes.2.room_bytes"), 5 * GIB);
	CU_ASSERT(json_is_false(at(doc, "nodes.2.fast")));
	CU_ASSERT_EQUAL(number_at(doc, "nodes.2.tier"), 1);
	CU_ASSERT_EQUAL(number_at(doc, "nodes.3.tier"), -1);
	CU_ASSERT(json_is_false(at(doc, "nodes.3.has_memory")));
	CU_ASSERT_EQUAL(json_array_size(at(doc, "tiers")), 2);
	CU_ASSERT_EQUAL(number_at(doc, "tiers.0.nodes.1"), 2);
	CU_ASSERT_EQUAL(number_at(doc, "tiers.0.total_bytes"), 150 * GIB);
	CU_ASSERT_EQUAL(number_at(doc, "tiers.0.free_bytes"), 11 * GIB);
	CU_ASSERT_EQUAL(number_at(doc, "tiers.0.room_bytes"), 5 * GIB);
	CU_ASSERT(json_is_true(at(doc, "tiers.0.fast")));
	CU_ASSERT(json_is_false(at(doc, "tiers.1.fast")));
	json_decref(doc);
}

/* A daemon that has nothing yet still has a document. */
static void nothing_known_is_no_fault(void)
{
	struct report report = { .state = STATE_WAITING };
	json_t *doc = parse(report_json(&report));

	CU_ASSERT(text_is(doc, "state", "waiting"));
	CU_ASSERT(text_is(doc, "mode", ""));
	CU_ASSERT(text_is(doc, "advice", ""));
	CU_ASSERT_EQUAL(json_array_size(at(doc, "nodes")), 0);
	CU_ASSERT_EQUAL(json_array_size(at(doc, "tiers")), 0);
	CU_ASSERT_EQUAL(number_at(doc, "counters.total"), 0);
	json_decref(doc);
}

static void big_numbers_and_odd_texts_survive(void)
{
	struct report report = make_report(NULL);
	char *text;
	json_t *doc;

	report.uptime_ns = (1ULL << 53) + 1;
	report.kernel_promoted_pages = UINT64_MAX;
	report.limiting = "caf\xe9 \"quoted\"\n";
	report.reason = "\xc3\xbc";
	text = report_json(&report);
	CU_ASSERT_PTR_NOT_NULL(strstr(text ? text : "", "\"uptime_ns\":9007199254740993,"));
	doc = parse(text);
	CU_ASSERT_EQUAL(number_at(doc, "kernel.promoted_pages"), INT64_MAX);
	CU_ASSERT(text_is(doc, "limiting", "caf? \"quoted\"\n"));
	CU_ASSERT(text_is(doc, "reason", "\xc3\xbc"));
	json_decref(doc);
}

static const json_t *option(const json_t *options, const char *key)
{
	const json_t *one;
	size_t i;

	json_array_foreach (options, i, one)
		if (text_is(one, "key", key))
			return one;
	return NULL;
}

static void options_say_where_they_come_from(void)
{
	struct config file, current;
	char error[CONFIG_ERROR_MAX];
	const json_t *one;
	json_t *options;

	config_defaults(&file);
	CU_ASSERT_EQUAL(config_set(&file, "mode", "observe", error), 0);
	CU_ASSERT_EQUAL(config_set(&file, "promote.burst_ms", "200", error), 0);
	current = file;
	CU_ASSERT_EQUAL(config_set(&current, "promote.rate_mib_per_sec", "256", error), 0);
	/* Back to the default, but not what the file says. */
	CU_ASSERT_EQUAL(config_set(&current, "promote.burst_ms", "100", error), 0);
	/* Read again, and for the next start. */
	CU_ASSERT_EQUAL(config_set(&file, "threads.ring_kib", "64", error), 0);
	options = parse(report_options_json(&current, &file));
	CU_ASSERT_EQUAL(json_array_size(options), n_options);
	CU_ASSERT(text_is(option(options, "threads.ring_kib"), "origin", "restart"));
	CU_ASSERT_EQUAL(number_at(option(options, "threads.ring_kib"), "value"), 512);
	for (size_t i = 0; i < n_options; i++)
		CU_ASSERT(text_is(json_array_get(options, i), "key", option_info[i].key));
	one = option(options, "mode");
	CU_ASSERT(text_is(one, "type", "enum"));
	CU_ASSERT(text_is(one, "origin", "file"));
	CU_ASSERT(text_is(one, "value", "observe"));
	CU_ASSERT(text_is(one, "default", "promote"));
	CU_ASSERT(text_is(one, "choices.1", "promote"));
	CU_ASSERT_EQUAL(json_array_size(at(one, "choices")), 2);
	CU_ASSERT(text_is(one, "change", "live"));
	CU_ASSERT_PTR_NULL(at(one, "min"));
	one = option(options, "promote.rate_mib_per_sec");
	CU_ASSERT(text_is(one, "origin", "tuned"));
	CU_ASSERT(text_is(one, "unit", "MiB/s"));
	CU_ASSERT_EQUAL(number_at(one, "value"), 256);
	CU_ASSERT_EQUAL(number_at(one, "min"), 0);
	CU_ASSERT_EQUAL(number_at(one, "max"), 1048576);
	CU_ASSERT(text_is(option(options, "promote.burst_ms"), "origin", "tuned"));
	one = option(options, "promote.headroom_percent");
	CU_ASSERT(json_is_real(at(one, "value")));
	CU_ASSERT_EQUAL(json_real_value(at(one, "value")), 3.0);
	CU_ASSERT_EQUAL(json_real_value(at(one, "max")), 50.0);
	CU_ASSERT(text_is(one, "origin", "default"));
	CU_ASSERT(json_is_false(at(option(options, "hint_faults.manage_sysctls"), "value")));
	CU_ASSERT(text_is(option(options, "records"), "change", "restart"));
	CU_ASSERT_EQUAL(number_at(option(options, "target_nid"), "min"), -1);
	CU_ASSERT(text_is(option(options, "sampling.cpus"), "value", "all"));
	CU_ASSERT(strlen(json_string_value(at(one, "help"))) > 0);
	json_decref(options);
}

static void exit_status_follows_the_state(void)
{
	CU_ASSERT_EQUAL(report_state_exit("promoting"), 0);
	CU_ASSERT_EQUAL(report_state_exit("observing"), 1);
	CU_ASSERT_EQUAL(report_state_exit("paused"), 1);
	CU_ASSERT_EQUAL(report_state_exit("waiting"), 1);
	CU_ASSERT_EQUAL(report_state_exit("degraded"), 2);
	CU_ASSERT_EQUAL(report_state_exit("a state of the future"), 2);
	CU_ASSERT_EQUAL(report_state_exit(""), 2);
	for (int i = 0; i < STATE_MAX; i++)
		CU_ASSERT_PTR_NOT_NULL(report_state_name[i]);
}

static long allocations_left;

static void *failing_malloc(size_t size)
{
	return allocations_left-- > 0 ? malloc(size) : NULL;
}

/* Out of memory at any one place, there is no document rather than half of one. */
static void half_a_document_is_none(void)
{
	struct report report = make_report(NULL);
	struct config config;
	char *whole = report_json(&report), *options, *text = NULL;
	long n;

	config_defaults(&config);
	options = report_options_json(&config, &config);
	json_set_alloc_funcs(failing_malloc, free);
	for (n = 0; !text && n < 100000; n += n < 300 ? 1 : 7) {
		allocations_left = n;
		text = report_json(&report);
	}
	CU_ASSERT(n > 300);
	CU_ASSERT_STRING_EQUAL(text ? text : "", whole ? whole : "?");
	free(text);
	text = NULL;
	for (n = 0; !text && n < 100000; n += n < 300 ? 1 : 7) {
		allocations_left = n;
		text = report_options_json(&config, &config);
	}
	CU_ASSERT(n > 300);
	CU_ASSERT_STRING_EQUAL(text ? text : "", options ? options : "?");
	free(text);
	json_set_alloc_funcs(malloc, free);
	free(whole);
	free(options);
}

TEST_MAIN(report, TEST(document_is_what_users_were_promised), TEST(room_is_what_may_be_filled),
	  TEST(nothing_known_is_no_fault), TEST(big_numbers_and_odd_texts_survive),
	  TEST(options_say_where_they_come_from), TEST(exit_status_follows_the_state), TEST(half_a_document_is_none))
