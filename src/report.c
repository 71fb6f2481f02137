/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "build_config.h"
#include "config.h"
#include "report.h"
#include "stats.h"

#define PAGE_BYTES 4096 /* larger ones are huge */

const char *const report_state_name[STATE_MAX] = {
	[STATE_STARTING] = "starting", [STATE_PROMOTING] = "promoting", [STATE_OBSERVING] = "observing",
	[STATE_WAITING] = "waiting",   [STATE_PAUSED] = "paused",       [STATE_DEGRADED] = "degraded",
	[STATE_STOPPING] = "stopping",
};

static const char *const origin_name[] = {
	[TIERS_FROM_CONFIG] = "configuration",
	[TIERS_FROM_KERNEL] = "kernel",
	[TIERS_GUESSED_HMAT] = "guessed by latency",
	[TIERS_GUESSED_SLIT] = "guessed by distance",
	[TIERS_ONE] = "one tier",
};

int report_state_exit(const char *state)
{
	static const struct {
		enum report_state state;
		int status;
	} exits[] = {
		{ STATE_PROMOTING, 0 }, { STATE_STARTING, 1 }, { STATE_OBSERVING, 1 },
		{ STATE_WAITING, 1 },   { STATE_PAUSED, 1 },   { STATE_STOPPING, 1 },
	};

	for (size_t i = 0; i < sizeof(exits) / sizeof(exits[0]); i++)
		if (strcmp(report_state_name[exits[i].state], state) == 0)
			return exits[i].status;
	return 2;
}

/*
 * jansson passes a failed allocation through: a NULL value makes the call that should store it fail, and that is
 * remembered here, so that the document is whole or not there. @ok: false once anything failed.
 */
static void put(json_t *object, const char *key, json_t *value, bool *ok)
{
	if (json_object_set_new_nocheck(object, key, value) < 0)
		*ok = false;
}

static json_t *unsigned_number(uint64_t n)
{
	return json_integer(n > INT64_MAX ? INT64_MAX : (json_int_t)n);
}

/* Text from a file or a kernel need not be UTF-8, which JSON is. */
static json_t *text(const char *s)
{
	json_t *json = json_string(s ? s : "");
	char *plain;

	if (json || !s)
		return json;
	plain = strdup(s);
	if (!plain)
		return NULL;
	for (char *p = plain; *p; p++)
		if ((unsigned char)*p > 0x7e)
			*p = '?';
	json = json_string(plain);
	free(plain);
	return json;
}

static void append(json_t *array, json_t *value, bool *ok)
{
	if (json_array_append_new(array, value) < 0)
		*ok = false;
}

static json_t *make_sources(const struct report *report, bool *ok)
{
	json_t *array = json_array();

	for (size_t i = 0; i < report->n_sources; i++) {
		const struct report_source *source = &report->sources[i];
		json_t *object = json_object();

		put(object, "name", text(source->name), ok);
		put(object, "state", text(source->state), ok);
		put(object, "why", text(source->why), ok);
		put(object, "detail", text(source->detail ? source->detail : ""), ok);
		put(object, "period", unsigned_number(source->period), ok);
		put(object, "cost_ratio", json_real(source->cost_ratio), ok);
		put(object, "pace", text(source->pace ? source->pace : ""), ok);
		put(object, "cpus", unsigned_number(source->cpus), ok);
		put(object, "samples", unsigned_number(source->samples), ok);
		append(array, object, ok);
	}
	return array;
}

/* What promotion may still put on @node; 0 where nothing is known of it. */
static uint64_t room_bytes(const struct report *report, const struct topology_node *node)
{
	const struct topology_room *room = &report->rooms[node->nid];
	uint64_t kept = room->promo_bytes > room->high_bytes ? room->promo_bytes : room->high_bytes;

	if (nodeset_has(&report->topology->top, node->nid))
		kept += (uint64_t)((double)room->present_bytes * report->headroom_ratio);
	return room->free_bytes > kept ? room->free_bytes - kept : 0;
}

static void put_nodes_and_tiers(json_t *doc, const struct report *report, bool *ok)
{
	const struct topology *topology = report->topology;
	struct {
		uint64_t total_bytes, free_bytes, room_bytes;
		json_t *nodes;
	} sums[TOPOLOGY_TIERS_MAX] = { 0 };
	json_t *nodes = json_array(), *tiers = json_array();
	int n_tiers = topology ? topology->n_tiers : 0;

	for (int i = 0; i < n_tiers; i++)
		sums[i].nodes = json_array();
	for (size_t i = 0; topology && i < topology->n_nodes; i++) {
		const struct topology_node *node = &topology->nodes[i];
		const struct topology_room *room = &report->rooms[node->nid];
		json_t *object = json_object();

		put(object, "nid", json_integer(node->nid), ok);
		put(object, "tier", json_integer(node->tier), ok);
		put(object, "fast", json_boolean(nodeset_has(&topology->top, node->nid)), ok);
		put(object, "has_cpu", json_boolean(node->has_cpu), ok);
		put(object, "has_memory", json_boolean(node->has_memory), ok);
		put(object, "total_bytes", unsigned_number(node->total_bytes), ok);
		put(object, "free_bytes", unsigned_number(room->free_bytes), ok);
		put(object, "room_bytes", unsigned_number(room_bytes(report, node)), ok);
		put(object, "high_bytes", unsigned_number(room->high_bytes), ok);
		put(object, "promo_bytes", unsigned_number(room->promo_bytes), ok);
		append(nodes, object, ok);
		if (node->tier < 0 || node->tier >= n_tiers)
			continue;
		sums[node->tier].total_bytes += node->total_bytes;
		sums[node->tier].free_bytes += room->free_bytes;
		sums[node->tier].room_bytes += room_bytes(report, node);
		append(sums[node->tier].nodes, json_integer(node->nid), ok);
	}
	for (int i = 0; i < n_tiers; i++) {
		json_t *object = json_object();

		put(object, "tier", json_integer(i), ok);
		put(object, "fast", json_boolean(nodeset_intersects(&topology->tiers[i].nodes, &topology->top)), ok);
		put(object, "nodes", sums[i].nodes, ok);
		put(object, "total_bytes", unsigned_number(sums[i].total_bytes), ok);
		put(object, "free_bytes", unsigned_number(sums[i].free_bytes), ok);
		put(object, "room_bytes", unsigned_number(sums[i].room_bytes), ok);
		append(tiers, object, ok);
	}
	put(doc, "nodes", nodes, ok);
	put(doc, "tiers", tiers, ok);
	put(doc, "tiers_origin", text(topology ? origin_name[topology->origin] : ""), ok);
	put(doc, "observe_only", json_boolean(topology && topology->observe_only), ok);
	put(doc, "advice", text(topology ? topology->advice : ""), ok);
}

static uint64_t count(const struct report *report, enum stat_id id)
{
	return report->stats ? stats_sum(report->stats, id) : 0;
}

static void put_counters(json_t *doc, const struct report *report, bool *ok)
{
	json_t *counters = json_object();

	for (int i = 0; i < STAT_MAX; i++)
		put(counters, stat_info[i].name, unsigned_number(count(report, (enum stat_id)i)), ok);
	put(doc, "counters", counters, ok);
	put(doc, "promoted_pages", unsigned_number(count(report, STAT_PROMOTED_PAGES)), ok);
	put(doc, "promoted_bytes", unsigned_number(count(report, STAT_PROMOTED_BYTES)), ok);
	put(doc, "demoted_bytes", unsigned_number(count(report, STAT_DEMOTED_BYTES)), ok);
}

static json_t *make_moves(const struct report *report, bool *ok)
{
	json_t *array = json_array();

	for (size_t i = 0; i < report->n_moves; i++) {
		json_t *object = json_object();

		put(object, "from", json_integer(report->moves[i].from_nid), ok);
		put(object, "to", json_integer(report->moves[i].to_nid), ok);
		put(object, "huge", json_boolean(report->moves[i].page_bytes > PAGE_BYTES), ok);
		put(object, "page_bytes", unsigned_number(report->moves[i].page_bytes), ok);
		put(object, "result", text(report->moves[i].result), ok);
		put(object, "pages", unsigned_number(report->moves[i].pages), ok);
		append(array, object, ok);
	}
	return array;
}

static json_t *make_left_alone(const struct report *report, bool *ok)
{
	json_t *object = json_object();

	for (size_t i = 0; i < report->n_left; i++)
		put(object, report->left[i].reason, unsigned_number(report->left[i].bytes), ok);
	return object;
}

static json_t *make_guests(const struct report *report, bool *ok)
{
	size_t n = report->n_guests < REPORT_GUESTS_MAX ? report->n_guests : REPORT_GUESTS_MAX;
	json_t *object = json_object(), *array = json_array();

	for (size_t i = 0; i < n; i++) {
		json_t *one = json_object();

		put(one, "pid", json_integer(report->guests[i].pid), ok);
		put(one, "name", text(report->guests[i].name), ok);
		put(one, "bytes", unsigned_number(report->guests[i].bytes), ok);
		append(array, one, ok);
	}
	put(object, "n", unsigned_number(report->n_guests), ok);
	put(object, "largest", array, ok);
	return object;
}

static json_t *make_migrators(const struct report *report, bool *ok)
{
	json_t *array = json_array();

	for (size_t i = 0; i < report->n_migrators; i++) {
		json_t *object = json_object();

		put(object, "nid", json_integer(report->migrators[i].nid), ok);
		put(object, "limit", text(report->migrators[i].limit), ok);
		put(object, "batch_pages", unsigned_number(report->migrators[i].batch_pages), ok);
		put(object, "call_ns", unsigned_number(report->migrators[i].call_ns), ok);
		put(object, "page_ns", unsigned_number(report->migrators[i].page_ns), ok);
		put(object, "longest_ns", unsigned_number(report->migrators[i].longest_ns), ok);
		append(array, object, ok);
	}
	return array;
}

static json_t *make_map(const struct report *report, bool *ok)
{
	const struct hotness_usage *usage = &report->usage;
	json_t *object = json_object();

	put(object, "bytes", unsigned_number(usage->bytes), ok);
	put(object, "memory_max_bytes", unsigned_number(usage->memory_max_bytes), ok);
	put(object, "sections", unsigned_number(usage->sections), ok);
	put(object, "chunks", unsigned_number(usage->chunks), ok);
	put(object, "records", unsigned_number(usage->records), ok);
	put(object, "regions", unsigned_number(usage->regions), ok);
	put(object, "owners", unsigned_number(report->owners), ok);
	put(object, "evicted_regions", unsigned_number(count(report, STAT_EVICTED_REGIONS)), ok);
	put(object, "evicted_records", unsigned_number(count(report, STAT_EVICTED_RECORDS)), ok);
	return object;
}

static json_t *make_processes(const struct report *report, bool *ok)
{
	json_t *array = json_array();

	for (size_t i = 0; i < report->n_owner_list; i++) {
		const struct report_owner *owner = &report->owner_list[i];
		json_t *object = json_object();

		put(object, "pid", unsigned_number(owner->pid), ok);
		put(object, "name", text(owner->name), ok);
		put(object, "regions", unsigned_number(owner->regions), ok);
		put(object, "bytes", unsigned_number(owner->bytes), ok);
		put(object, "hot_bytes", unsigned_number(owner->hot_bytes), ok);
		put(object, "evicted_regions", unsigned_number(owner->evicted), ok);
		append(array, object, ok);
	}
	return array;
}

static json_t *make_policy(const struct report_policy *policy, bool *ok)
{
	static const char *const part[] = { "50", "100", "150" };
	json_t *object = json_object(), *ratios = json_object(), *known = NULL, *regions = json_object();

	put(object, "name", text(policy->name), ok);
	put(object, "capacity_bytes", unsigned_number((uint64_t)policy->capacity_bytes), ok);
	for (int i = 0; i < 3; i++)
		put(ratios, part[i], json_real(policy->hit_ratio[i]), ok);
	put(object, "hit_ratio", ratios, ok);
	if (policy->has_known) {
		known = json_object();
		put(known, "ratio", json_real(policy->known_ratio), ok);
		put(known, "margin", json_real(policy->known_margin), ok);
	}
	put(object, "known", policy->has_known ? known : json_null(), ok);
	put(regions, "waiting", unsigned_number(policy->waiting), ok);
	put(regions, "uncertain", unsigned_number(policy->uncertain), ok);
	put(regions, "background", unsigned_number(policy->background), ok);
	put(regions, "cooler", unsigned_number(policy->cooler), ok);
	put(regions, "pays_not", unsigned_number(policy->pays_not), ok);
	put(object, "regions", regions, ok);
	put(object, "life_ns", unsigned_number((uint64_t)(policy->life_sec * 1e9)), ok);
	put(object, "pays_per_sec", policy->pays_per_sec > 0 ? json_real(policy->pays_per_sec) : json_null(), ok);
	return object;
}

static json_t *make_room(const struct report_room *room, bool *ok)
{
	json_t *object = json_object();

	put(object, "way", text(room->way), ok);
	put(object, "state", text(room->state), ok);
	put(object, "cold_bytes", unsigned_number(room->cold_bytes), ok);
	put(object, "quiet_ns", unsigned_number(room->quiet_ns), ok);
	return object;
}

static json_t *make_resting(const struct report_guard *guard, bool *ok)
{
	json_t *list = json_array();

	for (size_t i = 0; i < guard->n_resting && i < REPORT_RESTING_MAX; i++) {
		json_t *one = json_object();

		put(one, "pid", unsigned_number(guard->resting[i].pid), ok);
		put(one, "name", text(guard->resting[i].name), ok);
		put(one, "left_ns", unsigned_number(guard->resting[i].left_ns), ok);
		append(list, one, ok);
	}
	return list;
}

static json_t *make_shares(const struct report *report, bool *ok)
{
	json_t *list = json_array();

	for (size_t i = 0; i < report->n_shares; i++) {
		const struct report_share *share = &report->shares[i];

		append(list,
		       json_pack("{s:I, s:i, s:o, s:o, s:o, s:b}", "uid", (json_int_t)share->uid, "rule", share->rule,
				 "has_bytes", unsigned_number(share->has_bytes), "wants_bytes",
				 unsigned_number(share->wants_bytes), "share_bytes",
				 unsigned_number(share->share_bytes), "held", share->held),
		       ok);
	}
	return list;
}

static json_t *make_pressure(const struct report *report, bool *ok)
{
	json_t *list = json_array();

	for (size_t i = 0; i < report->n_pressure; i++)
		append(list,
		       json_pack("{s:o, s:o, s:o}", "cgroup", text(report->pressure[i].cgroup), "cause",
				 text(report->pressure[i].cause), "left_ns",
				 unsigned_number(report->pressure[i].left_ns)),
		       ok);
	return list;
}

static json_t *make_guard(const struct report_guard *guard, bool *ok)
{
	json_t *object = json_object();

	put(object, "cause", text(guard->cause), ok);
	put(object, "left_ns", unsigned_number(guard->left_ns), ok);
	put(object, "back_ratio", guard->back_ratio < 0 ? json_null() : json_real(guard->back_ratio), ok);
	put(object, "kernel_demoted_pages", unsigned_number(guard->kernel_demoted_pages), ok);
	put(object, "n_resting", unsigned_number(guard->n_resting), ok);
	put(object, "resting", make_resting(guard, ok), ok);
	return object;
}

static json_t *real_or_null(bool known, double value)
{
	return known ? json_real(value) : json_null();
}

static json_t *make_helps(const struct report_helps *helps, bool *ok)
{
	json_t *object;

	if (helps->percent <= 0)
		return json_null();
	object = json_object();
	put(object, "holdout_ratio", json_real(helps->percent / 100), ok);
	put(object, "far_held", real_or_null(helps->known, helps->far_held), ok);
	put(object, "far_moved", real_or_null(helps->known, helps->far_moved), ok);
	put(object, "saved", real_or_null(helps->known, helps->saved), ok);
	put(object, "margin", real_or_null(helps->known, helps->margin), ok);
	put(object, "latency_held_cycles", real_or_null(helps->has_latency, helps->latency_held_cycles), ok);
	put(object, "latency_moved_cycles", real_or_null(helps->has_latency, helps->latency_moved_cycles), ok);
	put(object, "cpu_back", real_or_null(helps->has_cpu, helps->cpu_back), ok);
	put(object, "move_ratio", real_or_null(helps->has_cpu && helps->move_ratio >= 0, helps->move_ratio), ok);
	return object;
}

static json_t *make_kernel(const struct report *report, bool *ok)
{
	json_t *object = json_object();

	put(object, "promotes", json_boolean(report->kernel_promotes), ok);
	put(object, "promoted_pages", unsigned_number(report->kernel_promoted_pages), ok);
	return object;
}

/* Where what runs is not what the file says. */
static json_t *make_tuned(const struct report *report, bool *ok)
{
	json_t *array = json_array();

	for (size_t i = 0; report->config && report->file && i < n_options; i++) {
		const struct option_info *option = &option_info[i];
		char value[CONFIG_TEXT_MAX] = "", file[CONFIG_TEXT_MAX] = "";
		json_t *object;

		if (config_same(report->config, report->file, option))
			continue;
		(void)config_get_text(report->config, option, value, sizeof(value));
		(void)config_get_text(report->file, option, file, sizeof(file));
		object = json_object();
		put(object, "key", text(option->key), ok);
		put(object, "value", text(value), ok);
		put(object, "file", text(file), ok);
		put(object, "restart", json_boolean(option->change == OPTION_RESTART), ok);
		append(array, object, ok);
	}
	return array;
}

static json_t *make_pause(const struct report_pause *pause, bool *ok)
{
	json_t *object;

	if (!pause->on)
		return json_null();
	object = json_object();
	put(object, "uid", json_integer(pause->uid), ok);
	put(object, "pid", json_integer(pause->pid), ok);
	put(object, "comm", text(pause->comm), ok);
	put(object, "for_ns", unsigned_number(pause->for_ns), ok);
	put(object, "left_ns", pause->ends ? unsigned_number(pause->left_ns) : json_null(), ok);
	return object;
}

/* A relative path is the daemon's: it is told from where. */
static json_t *make_file(const struct report *report, bool *ok)
{
	char mark[24], path[PATH_MAX], *from = NULL;
	json_t *object;

	if (!report->file_path)
		return json_null();
	if (report->file_path[0] != '/')
		from = getcwd(NULL, 0);
	snprintf(path, sizeof(path), "%s%s%s", from ? from : "", from ? "/" : "", report->file_path);
	free(from);
	snprintf(mark, sizeof(mark), "%016llx", (unsigned long long)report->file_mark);
	object = json_object();
	put(object, "path", text(path), ok);
	put(object, "mark", report->file_mark ? text(mark) : json_null(), ok);
	return object;
}

static char *dump(json_t *doc, bool ok)
{
	char *json = ok ? json_dumps(doc, JSON_COMPACT | JSON_REAL_PRECISION(15)) : NULL;

	json_decref(doc);
	return json;
}

char *report_json(const struct report *report)
{
	json_t *doc = json_object();
	bool ok = doc != NULL;

	put(doc, "schema", json_integer(REPORT_SCHEMA), &ok);
	put(doc, "version", text(PGHOTD_VERSION), &ok);
	put(doc, "mode", text(report->mode), &ok);
	put(doc, "state", text(report_state_name[report->state]), &ok);
	put(doc, "limiting", text(report->limiting), &ok);
	put(doc, "reason", text(report->reason), &ok);
	put(doc, "uptime_ns", unsigned_number(report->uptime_ns), &ok);
	put(doc, "pid", json_integer(report->pid), &ok);
	put(doc, "sources", make_sources(report, &ok), &ok);
	put_nodes_and_tiers(doc, report, &ok);
	put_counters(doc, report, &ok);
	put(doc, "left_alone", make_left_alone(report, &ok), &ok);
	put(doc, "guests", make_guests(report, &ok), &ok);
	put(doc, "moves", make_moves(report, &ok), &ok);
	put(doc, "migrators", make_migrators(report, &ok), &ok);
	put(doc, "map", make_map(report, &ok), &ok);
	put(doc, "processes", make_processes(report, &ok), &ok);
	put(doc, "policy", make_policy(&report->policy, &ok), &ok);
	put(doc, "room", make_room(&report->room, &ok), &ok);
	put(doc, "shares", make_shares(report, &ok), &ok);
	put(doc, "pressure", make_pressure(report, &ok), &ok);
	put(doc, "guard", make_guard(&report->guard, &ok), &ok);
	put(doc, "helps", make_helps(&report->helps, &ok), &ok);
	put(doc, "kernel", make_kernel(report, &ok), &ok);
	put(doc, "file", make_file(report, &ok), &ok);
	put(doc, "pause", make_pause(&report->pause, &ok), &ok);
	put(doc, "tuned", make_tuned(report, &ok), &ok);
	return dump(doc, ok);
}

static const char *const type_name[] = {
	[OPTION_TYPE_INT] = "int",     [OPTION_TYPE_FLOAT] = "float", [OPTION_TYPE_BOOL] = "bool",
	[OPTION_TYPE_ENUM] = "enum",   [OPTION_TYPE_TEXT] = "text",   [OPTION_TYPE_LIST] = "list",
	[OPTION_TYPE_RULES] = "rules",
};

static json_t *option_value(const struct config *config, const struct option_info *option)
{
	const char *at = (const char *)config + option->offset;
	char buf[CONFIG_TEXT_MAX] = "";
	int64_t integer;
	double real;
	bool boolean;

	switch (option->type) {
	case OPTION_TYPE_INT:
		memcpy(&integer, at, sizeof(integer));
		return json_integer(integer);
	case OPTION_TYPE_FLOAT:
		memcpy(&real, at, sizeof(real));
		return json_real(real);
	case OPTION_TYPE_BOOL:
		memcpy(&boolean, at, sizeof(boolean));
		return json_boolean(boolean);
	case OPTION_TYPE_ENUM:
	case OPTION_TYPE_TEXT:
	case OPTION_TYPE_LIST:
	case OPTION_TYPE_RULES:
		break;
	}
	(void)config_get_text(config, option, buf, sizeof(buf));
	return text(buf);
}

static json_t *option_choices(const char *choices, bool *ok)
{
	json_t *array = json_array();

	while (*choices) {
		size_t n = strcspn(choices, "|");

		append(array, json_stringn(choices, n), ok);
		choices += n + (choices[n] == '|');
	}
	return array;
}

char *report_options_json(const struct config *current, const struct config *file)
{
	json_t *doc = json_array();
	struct config defaults;
	bool ok = doc != NULL;

	config_defaults(&defaults);
	for (size_t i = 0; i < n_options; i++) {
		const struct option_info *option = &option_info[i];
		json_t *object = json_object();

		put(object, "key", text(option->key), &ok);
		put(object, "type", text(type_name[option->type]), &ok);
		put(object, "unit", text(option->unit), &ok);
		if (option->type == OPTION_TYPE_INT) {
			put(object, "min", json_integer((json_int_t)option->min), &ok);
			put(object, "max", json_integer((json_int_t)option->max), &ok);
		} else if (option->type == OPTION_TYPE_FLOAT) {
			put(object, "min", json_real(option->min), &ok);
			put(object, "max", json_real(option->max), &ok);
		} else if (option->type == OPTION_TYPE_ENUM) {
			put(object, "choices", option_choices(option->choices, &ok), &ok);
		}
		put(object, "default", option_value(&defaults, option), &ok);
		put(object, "value", option_value(current, option), &ok);
		put(object, "origin",
		    text(!config_same(current, file, option) ? (option->change == OPTION_RESTART ? "restart" : "tuned")
			 : !config_same(current, &defaults, option) ? "file"
								    : "default"),
		    &ok);
		put(object, "change", text(option->change == OPTION_LIVE ? "live" : "restart"), &ok);
		put(object, "help", text(option->line), &ok);
		append(doc, object, &ok);
	}
	return dump(doc, ok);
}
