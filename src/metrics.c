/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "doc.h"
#include "metrics.h"
#include "report.h"
#include "stats.h"

#define VALUE_MAX 32

struct writer {
	FILE *out;
	enum metrics_format format;
	const json_t *doc;
	char family[METRICS_NAME_MAX];
	bool counts; /* the family is of counters */
};

static bool ends_with(const char *text, const char *end)
{
	size_t n = strlen(text), m = strlen(end);

	return n >= m && strcmp(text + n - m, end) == 0;
}

const char *metrics_counter_name(char buf[METRICS_NAME_MAX], const char *name, const char *unit)
{
	static const char kernel[] = "pghot_";
	size_t n;

	if (strncmp(name, kernel, strlen(kernel)) == 0)
		name += strlen(kernel);
	/* What "total" counts is its unit: "_total" is said once. */
	if (strcmp(name, "total") == 0) {
		snprintf(buf, METRICS_NAME_MAX, "pghotd_%s", unit);
		return buf;
	}
	n = strlen(name);
	if (strcmp(unit, "ns") == 0) {
		snprintf(buf, METRICS_NAME_MAX, "pghotd_%.*s_seconds", (int)(ends_with(name, "_ns") ? n - 3 : n), name);
		return buf;
	}
	snprintf(buf, METRICS_NAME_MAX, "pghotd_%s%s%s", name, ends_with(name, unit) ? "" : "_",
		 ends_with(name, unit) ? "" : unit);
	return buf;
}

/* Both formats escape these three in a label; @s may be a later version's. */
static void put_label(FILE *out, const char *s)
{
	for (; *s; s++) {
		if (*s == '\n')
			fputs("\\n", out);
		else if (*s == '\\' || *s == '"')
			fprintf(out, "\\%c", *s);
		else
			fputc(*s, out);
	}
}

/* In a help text the formats disagree on how a quotation mark is escaped: it has none. */
static void put_help(FILE *out, const char *s)
{
	for (; *s; s++)
		fputc(*s == '"' ? '\'' : *s == '\n' || *s == '\\' ? ' ' : *s, out);
}

/* Begin a family. @unit: "" for none, else what @name ends in. */
static void family(struct writer *w, const char *name, bool counts, const char *unit, const char *help)
{
	const char *total = counts && w->format == METRICS_PROMETHEUS ? "_total" : "";

	snprintf(w->family, sizeof(w->family), "%s", name);
	w->counts = counts;
	fprintf(w->out, "# TYPE %s%s %s\n", name, total, counts ? "counter" : "gauge");
	if (*unit && w->format == METRICS_OPENMETRICS)
		fprintf(w->out, "# UNIT %s %s\n", name, unit);
	fprintf(w->out, "# HELP %s%s ", name, total);
	put_help(w->out, help);
	fputc('\n', w->out);
}

/* A sample of the family: @labels are name and value by turns, NULL at the end. */
static void sample(struct writer *w, const char *value, const char *const *labels)
{
	fprintf(w->out, "%s%s", w->family, w->counts ? "_total" : "");
	for (size_t i = 0; labels && labels[i]; i += 2) {
		fprintf(w->out, "%s%s=\"", i ? "," : "{", labels[i]);
		put_label(w->out, labels[i + 1]);
		fputc('"', w->out);
	}
	fprintf(w->out, "%s %s\n", labels && labels[0] ? "}" : "", value);
}

static void sample_integer(struct writer *w, uint64_t n, const char *const *labels)
{
	char value[VALUE_MAX];

	snprintf(value, sizeof(value), "%llu", (unsigned long long)n);
	sample(w, value, labels);
}

static void sample_real(struct writer *w, double n, const char *const *labels)
{
	char value[VALUE_MAX];

	snprintf(value, sizeof(value), "%.9g", n);
	sample(w, value, labels);
}

static void sample_seconds(struct writer *w, uint64_t ns, const char *const *labels)
{
	char value[VALUE_MAX];

	/* Whole: a double would lose ns after 104 days. */
	snprintf(value, sizeof(value), "%llu.%09llu", (unsigned long long)(ns / 1000000000),
		 (unsigned long long)(ns % 1000000000));
	sample(w, value, labels);
}

static void put_up(struct writer *w)
{
	family(w, "pghotd_up", false, "", "Whether pghotd answers.");
	sample_integer(w, w->doc != NULL, NULL);
}

static void put_state(struct writer *w)
{
	const json_t *pause = json_object_get(w->doc, "pause"), *left = json_object_get(pause, "left_ns");
	const char *state = doc_text(w->doc, "state");
	const json_t *kernel = json_object_get(w->doc, "kernel");

	family(w, "pghotd_build_info", false, "", "The version that runs; always 1.");
	sample_integer(w, 1, (const char *[]){ "version", doc_text(w->doc, "version"), NULL });
	family(w, "pghotd_state", false, "", "The state it is in: 1, each other 0.");
	for (int i = 0; i < STATE_MAX; i++)
		sample_integer(w, strcmp(state, report_state_name[i]) == 0,
			       (const char *[]){ "state", report_state_name[i], NULL });
	family(w, "pghotd_uptime_seconds", false, "seconds", "Time since pghotd was started.");
	sample_seconds(w, doc_number(w->doc, "uptime_ns"), NULL);
	family(w, "pghotd_kernel_promotes", false, "", "Whether the kernel promoted pages itself in the last minute.");
	sample_integer(w, json_is_true(json_object_get(kernel, "promotes")), NULL);
	family(w, "pghotd_pause_left_seconds", false, "seconds",
	       "Time until a pause ends by itself; absent: it isn't paused, or until somebody resumes it.");
	if (json_is_integer(left))
		sample_seconds(w, doc_number(pause, "left_ns"), NULL);
	family(w, "pghotd_tuned_options", false, "", "Options whose running value is not that of the file.");
	sample_integer(w, json_array_size(json_object_get(w->doc, "tuned")), NULL);
}

static void put_counters(struct writer *w)
{
	const json_t *counters = json_object_get(w->doc, "counters");

	for (int i = 0; i < STAT_MAX; i++) {
		const struct stat_info *info = &stat_info[i];
		bool ns = strcmp(info->unit, "ns") == 0;
		char name[METRICS_NAME_MAX], help[512];

		/* One that the daemon's version has not is left out, not 0. */
		if (!json_object_get(counters, info->name))
			continue;
		snprintf(help, sizeof(help), "%s.%s%s", info->line, *info->prose ? " " : "", info->prose);
		family(w, metrics_counter_name(name, info->name, info->unit), true, ns ? "seconds" : info->unit, help);
		if (ns)
			sample_seconds(w, doc_number(counters, info->name), NULL);
		else
			sample_integer(w, doc_number(counters, info->name), NULL);
	}
}

/* One family after the other: all samples of one stand together. */
static void put_sources(struct writer *w)
{
	static const struct {
		const char *name, *unit, *help;
	} families[] = {
		{ "pghotd_source_running", "", "Whether samples come from that source." },
		{ "pghotd_source_cpus", "cpus", "CPUs that it samples." },
		{ "pghotd_source_period", "", "Ops or cycles between two of its samples; 0: it has no period." },
		{ "pghotd_source_cost_ratio", "ratio", "Share of the sampled CPUs' time that it costs." },
	};
	const json_t *sources = json_object_get(w->doc, "sources"), *source;
	size_t i;

	for (size_t f = 0; f < sizeof(families) / sizeof(families[0]); f++) {
		family(w, families[f].name, false, families[f].unit, families[f].help);
		json_array_foreach (sources, i, source) {
			const char *state = doc_text(source, "state"),
				   *labels[] = { "source", doc_text(source, "name"), NULL };

			if (f == 0)
				sample_integer(w, strcmp(state, "running") == 0 || strcmp(state, "degraded") == 0,
					       labels);
			else if (f == 3)
				sample_real(w, doc_real(source, "cost_ratio"), labels);
			else
				sample_integer(w, doc_number(source, f == 1 ? "cpus" : "period"), labels);
		}
	}
}

static void put_nodes(struct writer *w)
{
	static const struct {
		const char *name, *key, *help;
	} families[] = {
		{ "pghotd_node_memory_bytes", "total_bytes", "Memory of the node." },
		{ "pghotd_node_free_bytes", "free_bytes", "Free memory of the node." },
		{ "pghotd_node_room_bytes", "room_bytes",
		  "What promotion may still fill: free above the watermark and, on a fast node, the headroom." },
	};
	const json_t *nodes = json_object_get(w->doc, "nodes"), *node;
	size_t i;

	for (size_t f = 0; f < sizeof(families) / sizeof(families[0]); f++) {
		family(w, families[f].name, false, "bytes", families[f].help);
		json_array_foreach (nodes, i, node) {
			json_int_t tier = json_integer_value(json_object_get(node, "tier"));
			char nid[VALUE_MAX], tier_text[VALUE_MAX];

			snprintf(nid, sizeof(nid), "%llu", (unsigned long long)doc_number(node, "nid"));
			snprintf(tier_text, sizeof(tier_text), "%lld", (long long)tier);
			sample_integer(w, doc_number(node, families[f].key),
				       (const char *[]){ "node", nid, "tier", tier_text, "fast",
							 json_is_true(json_object_get(node, "fast")) ? "true" : "false",
							 NULL });
		}
	}
}

static void put_tables(struct writer *w)
{
	static const struct {
		const char *name, *key, *unit, *help;
	} families[] = {
		{ "pghotd_tables_bytes", "bytes", "bytes", "Memory that pghotd's tables use." },
		{ "pghotd_tables_limit_bytes", "memory_max_bytes", "bytes", "Their bound, memory_max_mib." },
		{ "pghotd_sections", "sections", "", "Sections of physical memory that are tracked." },
		{ "pghotd_records", "records", "", "Pages of slow nodes that are tracked." },
		{ "pghotd_regions", "regions", "", "Regions of 2 MiB that are tracked." },
		{ "pghotd_processes", "owners", "", "Processes whose pages are tracked." },
	};
	const json_t *map = json_object_get(w->doc, "map"), *left = json_object_get(w->doc, "left_alone"), *value;
	const char *key;

	for (size_t f = 0; f < sizeof(families) / sizeof(families[0]); f++) {
		family(w, families[f].name, false, families[f].unit, families[f].help);
		sample_integer(w, doc_number(map, families[f].key), NULL);
	}
	family(w, "pghotd_left_alone_bytes", false, "bytes",
	       "Hot memory that was left where it is in the last minute or two, about, by reason.");
	json_object_foreach ((json_t *)left, key, value)
		sample_integer(w, json_integer_value(value) > 0 ? (uint64_t)json_integer_value(value) : 0,
			       (const char *[]){ "reason", key, NULL });
}

static void put_moves(struct writer *w)
{
	const json_t *moves = json_object_get(w->doc, "moves"), *move;
	size_t i;

	family(w, "pghotd_move_outcome_pages", true, "pages",
	       "Base pages that move calls were made for, by node, size of page and what came of it.");
	json_array_foreach (moves, i, move) {
		char from[VALUE_MAX], to[VALUE_MAX];

		snprintf(from, sizeof(from), "%llu", (unsigned long long)doc_number(move, "from"));
		snprintf(to, sizeof(to), "%llu", (unsigned long long)doc_number(move, "to"));
		sample_integer(w, doc_number(move, "pages"),
			       (const char *[]){ "from", from, "to", to, "size",
						 json_is_true(json_object_get(move, "huge")) ? "huge" : "base",
						 "result", doc_text(move, "result"), NULL });
	}
}

static void put_migrators(struct writer *w)
{
	static const struct {
		const char *name, *key, *unit, *help;
	} families[] = {
		{ "pghotd_migrator_batch_pages", "batch_pages", "pages", "Pages that go into one move call now." },
		{ "pghotd_migrator_call_seconds", "call_ns", "seconds", "What a move call costs beside its pages." },
		{ "pghotd_migrator_page_seconds", "page_ns", "seconds", "What a page costs in it." },
		{ "pghotd_migrator_longest_call_seconds", "longest_ns", "seconds", "The longest call so far." },
	};
	const json_t *migrators = json_object_get(w->doc, "migrators"), *migrator;
	size_t i;

	for (size_t f = 0; f < sizeof(families) / sizeof(families[0]); f++) {
		family(w, families[f].name, false, families[f].unit, families[f].help);
		json_array_foreach (migrators, i, migrator) {
			char nid[VALUE_MAX], index[VALUE_MAX];
			const char *labels[] = { "node", nid, "migrator", index, NULL };

			snprintf(nid, sizeof(nid), "%llu", (unsigned long long)doc_number(migrator, "nid"));
			snprintf(index, sizeof(index), "%zu", i);
			if (f == 0)
				sample_integer(w, doc_number(migrator, families[f].key), labels);
			else
				sample_seconds(w, doc_number(migrator, families[f].key), labels);
		}
	}
}

static void put_policy(struct writer *w)
{
	static const char *const states[] = { "waiting", "uncertain", "background", "cooler" };
	const json_t *policy = json_object_get(w->doc, "policy"), *ratios = json_object_get(policy, "hit_ratio"),
		     *ratio;
	const json_t *known = json_object_get(policy, "known"), *regions = json_object_get(policy, "regions");
	const char *key;

	family(w, "pghotd_policy_capacity_bytes", false, "bytes",
	       "Fast memory that known regions have, or may still take.");
	sample_integer(w, doc_number(policy, "capacity_bytes"), NULL);
	family(w, "pghotd_policy_hit_ratio", false, "ratio",
	       "Share of the accesses to known regions that this percentage of that memory would serve, predicted.");
	json_object_foreach ((json_t *)ratios, key, ratio)
		sample_real(w, json_number_value(ratio), (const char *[]){ "percent", key, NULL });
	family(w, "pghotd_policy_known_ratio", false, "ratio",
	       "Share of the accesses to slow memory that falls on known regions; absent: not known yet.");
	if (json_is_object(known))
		sample_real(w, doc_real(known, "ratio"), NULL);
	family(w, "pghotd_policy_regions", false, "",
	       "Regions by what was decided: waiting to be moved, uncertain, background, or cooler than what fits.");
	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++)
		sample_integer(w, doc_number(regions, states[i]), (const char *[]){ "decision", states[i], NULL });
}

int metrics_print(FILE *out, const char *json, enum metrics_format format)
{
	struct writer w = { .out = out, .format = format };
	json_t *doc = json ? json_loads(json, 0, NULL) : NULL;

	if (json && (!json_is_object(doc) || !*doc_text(doc, "state"))) {
		json_decref(doc);
		return -EINVAL;
	}
	w.doc = doc;
	put_up(&w);
	if (doc) {
		put_state(&w);
		put_counters(&w);
		put_sources(&w);
		put_nodes(&w);
		put_tables(&w);
		put_moves(&w);
		put_migrators(&w);
		put_policy(&w);
	}
	if (format == METRICS_OPENMETRICS)
		fputs("# EOF\n", out);
	json_decref(doc);
	return 0;
}
