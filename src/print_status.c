/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "doc.h"
#include "nodeset.h"
#include "print.h"
#include "print_ranking.h"
#include "print_status.h"
#include "stats.h"

#define LABEL_COLUMNS  12
#define LABEL_MIN      50 /* narrower, labels have no column of their own */
#define NARROW_COLUMNS 2  /* what is left of it */
#define LAST_COLUMNS   8  /* print_wrapped_at() wants them for the text */
#define BAR_COLUMNS    11
#define NODES_COLUMNS  10
#define TEXT_MAX       1024

/* With the longest mode, time and pid, the first line is full. */
#define VERSION_COLUMNS 12
#define STATE_COLUMNS   12

/* Rows that a part takes at most, so that advice has its place at the end. */
#define WHY_ROWS     3
#define TUNED_ROWS   2
#define SOURCE_ROWS  2
#define TIER_ROWS    4
#define HINT_ROWS    3
#define GUEST_ROWS   2
#define GUESTS_NAMED 3
/* Less shared memory than this is not worth a hint. */
#define SHARED_WORTH_BYTES (8ULL << 20)
#define SPARE_ROWS         7 /* with this many left, an empty line sets the advice apart */

struct screen {
	FILE *out;
	bool colour;
	unsigned int columns, indent, rows_left;
	unsigned int folds; /* lines for one of PRINT_COLUMNS, so that nothing is lost where lines are shorter */
	json_t *doc, *counters;
};

static uint64_t counter(const struct screen *s, enum stat_id id)
{
	return doc_number(s->counters, stat_info[id].name);
}

/* One entry: @label (NULL: none, a further line of the one before) and a text in at most @rows lines. */
__attribute__((format(printf, 4, 5))) static void row(struct screen *s, const char *label, unsigned int rows,
						      const char *fmt, ...)
{
	char buf[TEXT_MAX], padded[LABEL_COLUMNS + 3];
	unsigned int column = s->indent;
	va_list ap;

	rows *= s->folds;
	if (rows > s->rows_left)
		rows = s->rows_left;
	if (rows == 0)
		return;
	va_start(ap, fmt);
	vsnprintf(buf, sizeof(buf), fmt, ap);
	va_end(ap);
	print_plain(buf);
	if (s->indent < LABEL_COLUMNS && label)
		column = (unsigned int)snprintf(padded, sizeof(padded), "%s: ", label);
	else
		snprintf(padded, sizeof(padded), "%-*s", (int)s->indent, label ? label : "");
	print_coloured(s->out, s->colour && label, PRINT_BOLD, padded);
	if (column + LAST_COLUMNS > s->columns) {
		fprintf(s->out, "\n%*s", (int)s->indent, "");
		column = s->indent;
		s->rows_left -= s->rows_left > 1;
	}
	s->rows_left -= print_wrapped_at(s->out, s->columns, column, s->indent, rows, buf);
}

static void empty_row(struct screen *s)
{
	fputc('\n', s->out);
	s->rows_left--;
}

/* What runs is not what the file says: until the next reload, or for want of a restart. */
static void put_tuned(struct screen *s)
{
	const json_t *tuned = json_object_get(s->doc, "tuned"), *one;
	char list[TEXT_MAX] = "";
	size_t i, used = 0;

	json_array_foreach (tuned, i, one) {
		bool restart = json_is_true(json_object_get(one, "restart"));
		int n = snprintf(list + used, sizeof(list) - used, "%s%.40s = %.40s (%s %.40s)", i ? ", " : "",
				 doc_text(one, "key"), doc_text(one, "value"),
				 restart ? "after a restart" : "file:", doc_text(one, "file"));

		if (n < 0 || (size_t)n >= sizeof(list) - used)
			break;
		used += (size_t)n;
	}
	if (*list)
		row(s, "Tuned", TUNED_ROWS, "%s", list);
}

static void put_head(struct screen *s)
{
	const char *state = doc_text(s->doc, "state"), *mode = doc_text(s->doc, "mode");
	enum print_colour colour = strcmp(state, "promoting") == 0  ? PRINT_GOOD
				   : strcmp(state, "degraded") == 0 ? PRINT_BAD
								    : PRINT_WARN;
	/* The mode goes without saying where the state says it. */
	bool plain = (strcmp(state, "promoting") == 0 && strcmp(mode, "promote") == 0) ||
		     (strcmp(state, "observing") == 0 && strcmp(mode, "observe") == 0);
	char version[VERSION_COLUMNS + 1], name[STATE_COLUMNS + 1], up[PRINT_SHORT_MAX], more[TEXT_MAX];
	unsigned int column;

	snprintf(version, sizeof(version), "%.*s", (int)(s->columns - strlen("pghotd :")), doc_text(s->doc, "version"));
	snprintf(name, sizeof(name), "%.*s", (int)(s->columns - NARROW_COLUMNS - LAST_COLUMNS), state);
	print_plain(version);
	print_plain(name);
	column = (unsigned int)fprintf(s->out, "pghotd %s:", version) + 1;
	if (column + strlen(name) + LAST_COLUMNS <= s->columns) {
		fputc(' ', s->out);
	} else {
		fprintf(s->out, "\n%*s", NARROW_COLUMNS, "");
		column = NARROW_COLUMNS;
		s->rows_left--;
	}
	print_coloured(s->out, s->colour, colour, name);
	column += (unsigned int)strlen(name);
	snprintf(more, sizeof(more), "%s%s; up %s, pid %u", plain ? "" : ", in mode ",
		 plain                          ? ""
		 : strcmp(mode, "promote") == 0 ? "promote"
						: "observe",
		 print_duration(up, doc_number(s->doc, "uptime_ns")), (unsigned int)doc_number(s->doc, "pid"));
	s->rows_left -= print_wrapped_at(s->out, s->columns, column, NARROW_COLUMNS, s->folds, more);
	if (*doc_text(s->doc, "reason"))
		row(s, "Why", WHY_ROWS, "%s", doc_text(s->doc, "reason"));
	if (*doc_text(s->doc, "limiting"))
		row(s, "Limited by", 1, "%s", doc_text(s->doc, "limiting"));
	put_tuned(s);
	empty_row(s);
}

static void put_sources(struct screen *s)
{
	const json_t *sources = json_object_get(s->doc, "sources"), *source;
	char samples[PRINT_SHORT_MAX], cpus[PRINT_SHORT_MAX], period[PRINT_SHORT_MAX], pace[80];
	const char *label = "Sources";
	unsigned int shown = 0, more = 0;
	size_t i;

	json_array_foreach (sources, i, source) {
		if (strcmp(doc_text(source, "state"), "unused") == 0)
			continue;
		if (shown == SOURCE_ROWS) {
			more++;
			continue;
		}
		shown++;
		pace[0] = '\0';
		if (doc_number(source, "period"))
			snprintf(pace, sizeof(pace), "; period %s, cost %.2f%%",
				 print_count(period, doc_number(source, "period")),
				 json_number_value(json_object_get(source, "cost_ratio")) * 100);
		row(s, label, 1, "%.20s: %.12s, %s CPUs, %s samples%s", doc_text(source, "name"),
		    doc_text(source, "state"), print_count(cpus, doc_number(source, "cpus")),
		    print_count(samples, doc_number(source, "samples")), pace);
		label = NULL;
	}
	if (more)
		row(s, NULL, 1, "and %u more", more);
	else if (!shown)
		row(s, label, 1, "none in use");
}

static void format_nodes(const json_t *list, char *buf, size_t size)
{
	struct nodeset nodes;
	char few[NODES_COLUMNS - sizeof("node") + 1];
	const json_t *nid;
	size_t i;

	nodeset_clear(&nodes);
	json_array_foreach (list, i, nid) {
		json_int_t n = json_integer_value(nid);

		if (n >= 0 && n < NODE_MAX)
			nodeset_add(&nodes, (int)n);
	}
	if (nodeset_format(&nodes, few, sizeof(few)) < 0)
		snprintf(buf, size, "%d nodes", nodeset_count(&nodes));
	else
		snprintf(buf, size, "node %s", few);
}

static void put_tiers(struct screen *s)
{
	const json_t *tiers = json_object_get(s->doc, "tiers"), *tier;
	const char *label = "Tiers";
	size_t i, n = json_array_size(tiers);

	if (n == 0)
		row(s, label, 1, "none known");
	json_array_foreach (tiers, i, tier) {
		char nodes[32], bar[PRINT_SHORT_MAX * 3], unused[PRINT_SHORT_MAX], all[PRINT_SHORT_MAX],
			room[PRINT_SHORT_MAX];
		uint64_t total_bytes = doc_number(tier, "total_bytes"), free_bytes = doc_number(tier, "free_bytes");
		bool fast = json_is_true(json_object_get(tier, "fast"));

		if (i == TIER_ROWS - 1 && n > TIER_ROWS) {
			row(s, NULL, 1, "and %zu more", n - i);
			break;
		}
		format_nodes(json_object_get(tier, "nodes"), nodes, sizeof(nodes));
		print_bar(bar, BAR_COLUMNS, free_bytes < total_bytes ? total_bytes - free_bytes : 0, total_bytes);
		row(s, label, 1, "%s %-*s %s %s of %s free%s%s", fast ? "fast" : "slow", NODES_COLUMNS, nodes, bar,
		    print_bytes(unused, free_bytes), print_bytes(all, total_bytes), fast ? ", room " : "",
		    fast ? print_bytes(room, doc_number(tier, "room_bytes")) : "");
		label = NULL;
	}
}

static uint64_t sum_by_prefix(const struct screen *s, const char *prefix)
{
	uint64_t sum = 0;

	for (int i = 0; i < STAT_MAX; i++)
		if (strncmp(stat_info[i].name, prefix, strlen(prefix)) == 0)
			sum += counter(s, (enum stat_id)i);
	return sum;
}

/* What is not known yet, as far as policy region can tell. */
static void put_known(struct screen *s)
{
	const json_t *policy = json_object_get(s->doc, "policy"), *known = json_object_get(policy, "known");
	const json_t *regions = json_object_get(policy, "regions");
	double percent = json_number_value(json_object_get(known, "ratio")) * 100;
	double margin = json_number_value(json_object_get(known, "margin")) * 100;
	char waiting[PRINT_SHORT_MAX], list[80] = "";

	if (!json_is_object(known))
		return;
	if (doc_number(regions, "waiting"))
		snprintf(list, sizeof(list), "; %s of them wait", print_count(waiting, doc_number(regions, "waiting")));
	row(s, "Known", 1, "%.0f +- %.0f%% of far accesses fall on known regions%s", percent,
	    margin < 1 ? 1 : ceil(margin), list);
}

static void put_found(struct screen *s)
{
	uint64_t total = counter(s, STAT_TOTAL), useful = counter(s, STAT_USEFUL), lost = counter(s, STAT_LOST),
		 dropped = sum_by_prefix(s, "dropped_");
	char a[PRINT_SHORT_MAX], b[PRINT_SHORT_MAX], c[PRINT_SHORT_MAX];

	if (total == 0)
		row(s, "Samples", 1, "none yet; %s lost", print_count(a, lost));
	else
		row(s, "Samples", 1, "%s, %u%% of them evidence; %s lost, %s dropped", print_count(a, total),
		    useful < total ? (unsigned int)((double)useful / (double)total * 100) : 100, print_count(b, lost),
		    print_count(c, dropped));
	row(s, "Hot pages", 1, "%s found on a slow tier", print_count(a, counter(s, STAT_CANDIDATES)));
	put_known(s);
}

static void put_ranking(struct screen *s, const char *label, const struct print_ranking *ranking, print_number *format,
			const char *unit)
{
	char list[PRINT_RANKING_MAX], n[PRINT_SHORT_MAX];

	if (ranking->sum > 0)
		row(s, label, 1, "%s%s: %s", format(n, ranking->sum), unit, print_ranking(ranking, format, list));
}

/* Both ends of the trade: what a call costs, and how long it lasts. Of the migrator with the longest. */
static void put_calls(struct screen *s)
{
	const json_t *migrators = json_object_get(s->doc, "migrators"), *migrator, *worst = NULL;
	char a[PRINT_SHORT_MAX];
	size_t i;

	json_array_foreach (migrators, i, migrator)
		if (doc_number(migrator, "page_ns") > 0 &&
		    (!worst || doc_number(migrator, "longest_ns") > doc_number(worst, "longest_ns")))
			worst = migrator;
	if (worst)
		row(s, "Calls", 1, "of %s pages: %.1f us and %.1f us a page, the longest %.1f ms",
		    print_count(a, doc_number(worst, "batch_pages")), (double)doc_number(worst, "call_ns") / 1e3,
		    (double)doc_number(worst, "page_ns") / 1e3, (double)doc_number(worst, "longest_ns") / 1e6);
}

/* Machines under KVM: what is theirs stays, and an operator should know how much that is. */
static void put_guests(struct screen *s)
{
	const json_t *guests = json_object_get(s->doc, "guests"), *one;
	uint64_t n = doc_number(guests, "n");
	char list[TEXT_MAX] = "", bytes[PRINT_SHORT_MAX];
	size_t i, used = 0, shown = 0;

	json_array_foreach (json_object_get(guests, "largest"), i, one) {
		int len;

		if (i == GUESTS_NAMED)
			break;
		len = snprintf(list + used, sizeof(list) - used, "%s%.16s (%u) %s", i ? ", " : "",
			       doc_text(one, "name"), (unsigned int)doc_number(one, "pid"),
			       print_bytes(bytes, doc_number(one, "bytes")));
		if (len < 0 || (size_t)len >= sizeof(list) - used)
			break;
		used += (size_t)len;
		shown++;
	}
	if (shown > 0 && n > shown)
		snprintf(list + used, sizeof(list) - used, ", and %u more", (unsigned int)(n - shown));
	if (shown > 0)
		row(s, "KVM guests", GUEST_ROWS, "%s: what a guest touches can't be told to pages yet", list);
}

static void put_moved(struct screen *s)
{
	uint64_t pages = counter(s, STAT_PROMOTED_PAGES), calls = counter(s, STAT_MOVE_CALLS),
		 would = counter(s, STAT_WOULD_PROMOTE_PAGES);
	char a[PRINT_SHORT_MAX], b[PRINT_SHORT_MAX], c[PRINT_SHORT_MAX];
	struct print_ranking failed = { 0 }, left = { 0 };
	const json_t *value;
	const char *key;

	/* Observing is about what would move; what moved before it is shown too, if anything did. */
	if (would > 0 || strcmp(doc_text(s->doc, "mode"), "observe") == 0)
		row(s, "Would move", 1, "%s pages (%s), if the mode were promote", print_count(a, would),
		    print_bytes(b, counter(s, STAT_WOULD_PROMOTE_BYTES)));
	if (pages > 0 || strcmp(doc_text(s->doc, "mode"), "promote") == 0)
		row(s, "Moved up", 1, "%s pages (%s) in %s calls", print_count(a, pages),
		    print_bytes(b, counter(s, STAT_PROMOTED_BYTES)), print_count(c, calls));
	put_calls(s);
	for (int i = STAT_MOVE_BUSY; i <= STAT_MOVE_FAILED; i++)
		print_rank(&failed, stat_info[i].name + strlen("move_"), counter(s, (enum stat_id)i));
	put_ranking(s, "Not moved", &failed, print_count, " pages");
	json_object_foreach (json_object_get(s->doc, "left_alone"), key, value)
		print_rank(&left, key, json_integer_value(value) > 0 ? (uint64_t)json_integer_value(value) : 0);
	put_ranking(s, "Left alone", &left, print_bytes, "");
	put_guests(s);
}

/* How room is made, once it is scarce. */
static void put_room(struct screen *s)
{
	const json_t *room = json_object_get(s->doc, "room");
	char cold[PRINT_SHORT_MAX], down[PRINT_SHORT_MAX];
	uint64_t moved = counter(s, STAT_DEMOTED_BYTES);

	if (!*doc_text(room, "state") && moved == 0)
		return;
	if (strcmp(doc_text(room, "way"), "none") == 0) {
		row(s, "Room", 1, "make_room makes none; %s moved down before", print_bytes(down, moved));
		return;
	}
	row(s, "Room", 2, "by %s: %s; %s cold on the fast nodes, %s moved down",
	    strcmp(doc_text(room, "way"), "kernel") == 0 ? "the kernel's demotion" : "exchange",
	    *doc_text(room, "state") ? doc_text(room, "state") : "none is wanted",
	    print_bytes(cold, doc_number(room, "cold_bytes")), print_bytes(down, moved));
}

/* Processes that a guard lets rest. */
static void put_resting(struct screen *s)
{
	const json_t *guard = json_object_get(s->doc, "guard"), *list = json_object_get(guard, "resting"), *one;
	uint64_t n = doc_number(guard, "n_resting");
	char text[256] = "";
	size_t i, used = 0;

	json_array_foreach (list, i, one) {
		int len = snprintf(text + used, sizeof(text) - used, "%s%s (%u) for %llu s", used ? ", " : "",
				   doc_text(one, "name"), (unsigned int)doc_number(one, "pid"),
				   (unsigned long long)(doc_number(one, "left_ns") / 1000000000));

		if (len < 0 || (size_t)len >= sizeof(text) - used)
			break;
		used += (size_t)len;
	}
	text[used] = '\0';
	if (n > i)
		snprintf(text + used, sizeof(text) - used, ", and %u more", (unsigned int)(n - i));
	if (used > 0)
		row(s, "Resting", 2, "%s: what was promoted of it was pushed out again", text);
}

/* Who is held since it has its share; who isn't is no news. */
static void put_shares(struct screen *s)
{
	size_t i;
	json_t *share;

	json_array_foreach (json_object_get(s->doc, "shares"), i, share) {
		char has[PRINT_SHORT_MAX], fair[PRINT_SHORT_MAX], wants[PRINT_SHORT_MAX], under[32] = "";

		if (!json_is_true(json_object_get(share, "held")))
			continue;
		if (json_integer_value(json_object_get(share, "rule")) >= 0)
			snprintf(under, sizeof(under), " (rule %d)",
				 (int)json_integer_value(json_object_get(share, "rule")) + 1);
		row(s, "Shares", 2, "user %llu%s is held at %s fast, its share is %s; others lack theirs; %s waits",
		    (unsigned long long)doc_number(share, "uid"), under,
		    print_bytes(has, doc_number(share, "has_bytes")),
		    print_bytes(fair, doc_number(share, "share_bytes")),
		    print_bytes(wants, doc_number(share, "wants_bytes")));
	}
}

/* Control groups that are short of memory. */
static void put_pressure(struct screen *s)
{
	size_t i;
	json_t *group;

	json_array_foreach (json_object_get(s->doc, "pressure"), i, group)
		row(s, i == 0 ? "In peace" : "", 2, "%s: %s; not moved for %llu s more",
		    *doc_text(group, "cgroup") ? doc_text(group, "cgroup") : "the machine", doc_text(group, "cause"),
		    (unsigned long long)(doc_number(group, "left_ns") / 1000000000));
}

/* What it is good for, in words; nothing while nothing is held out. */
static void put_helps(struct screen *s)
{
	const json_t *helps = json_object_get(s->doc, "helps"), *saved = json_object_get(helps, "saved");
	const json_t *back = json_object_get(helps, "cpu_back");
	double percent = json_number_value(saved) * 100,
	       ratio = json_number_value(json_object_get(helps, "holdout_ratio"));
	double margin = json_number_value(json_object_get(helps, "margin")) * 100;
	double held = json_number_value(json_object_get(helps, "latency_held_cycles"));
	double moved = json_number_value(json_object_get(helps, "latency_moved_cycles"));
	char latency[64] = "", cpu[64] = "CPU time not known";

	if (!json_is_object(helps))
		return;
	if (!json_is_number(saved)) {
		row(s, "Does it pay", 2,
		    "not known yet: too few hardware samples of the %.3g%% of regions that are held out", ratio * 100);
		return;
	}
	if (held > 0 && moved > 0)
		snprintf(latency, sizeof(latency), "; sampled latency %+.0f%%", (moved / held - 1) * 100);
	if (json_is_number(back))
		snprintf(cpu, sizeof(cpu), "about %.0f%% of CPU time %s", 100 * fabs(json_number_value(back)),
			 json_number_value(back) < 0 ? "lost" : "back");
	row(s, "Does it pay", 3, "%s: far accesses %s %.0f +- %.0f%%, %s%s (%.3g%% of regions held out)",
	    percent > margin    ? "yes"
	    : percent < -margin ? "no"
				: "that can't be told",
	    percent < 0 ? "up" : "down", fabs(percent), margin < 1 ? 1 : ceil(margin), cpu, latency, ratio * 100);
}

static void put_rest(struct screen *s)
{
	const json_t *map = json_object_get(s->doc, "map"), *kernel = json_object_get(s->doc, "kernel");
	char a[PRINT_SHORT_MAX], b[PRINT_SHORT_MAX], c[PRINT_SHORT_MAX], d[PRINT_SHORT_MAX], e[PRINT_SHORT_MAX];
	uint64_t evicted = doc_number(map, "evicted_regions");

	if (doc_number(map, "memory_max_bytes") == 0) /* nothing runs that would have any */
		row(s, "Tables", 1, "none yet");
	else
		row(s, "Tables", 1, "%s of %s; %s regions, %s pages, %s processes",
		    print_bytes(a, doc_number(map, "bytes")), print_bytes(b, doc_number(map, "memory_max_bytes")),
		    print_count(c, doc_number(map, "regions")), print_count(d, doc_number(map, "records")),
		    print_count(e, doc_number(map, "owners")));
	if (doc_number(map, "sections") > 0 || evicted > 0)
		row(s, NULL, 1, "%s sections, %s chunks; %s regions evicted",
		    print_count(a, doc_number(map, "sections")), print_count(b, doc_number(map, "chunks")),
		    print_count(c, evicted));
	if (doc_number(kernel, "promoted_pages") > 0)
		row(s, "Kernel", 1, "promoted %s pages itself", print_count(a, doc_number(kernel, "promoted_pages")));
}

/* Counters that a person should act on once they are this share of all samples: the table of counters says how. */
static const struct {
	enum stat_id id;
	unsigned int permille;
} warned[] = {
	{ STAT_BAD_RECORDS, 0 },
	{ STAT_MOVE_DENIED, 0 },
	{ STAT_LOST, 10 },
	{ STAT_DROPPED_QUEUE_FULL, 10 },
	{ STAT_DROPPED_MEMORY, 10 },
	{ STAT_THROTTLED, 1 },
	{ STAT_DISCARDED_NO_PHYS, 100 },
	{ STAT_DISCARDED_UNMANAGED_NODE, 100 },
};

static void put_hints(struct screen *s)
{
	const json_t *sources = json_object_get(s->doc, "sources"), *source;
	const char *label = "To do", *reason = doc_text(s->doc, "reason");
	uint64_t total = counter(s, STAT_TOTAL), shared;
	char n[PRINT_SHORT_MAX];
	size_t i;

	if (s->rows_left >= SPARE_ROWS)
		empty_row(s);
	json_array_foreach (sources, i, source) {
		if (!*doc_text(source, "why") || strcmp(doc_text(source, "why"), reason) == 0)
			continue;
		row(s, label, HINT_ROWS, "%s: %s", doc_text(source, "name"), doc_text(source, "why"));
		label = NULL;
	}
	if (*doc_text(s->doc, "advice")) {
		row(s, label, HINT_ROWS + 1, "%s", doc_text(s->doc, "advice"));
		label = NULL;
	}
	for (i = 0; i < sizeof(warned) / sizeof(warned[0]); i++) {
		const struct stat_info *info = &stat_info[warned[i].id];
		uint64_t value = counter(s, warned[i].id);

		if (value == 0 || (double)value * 1000 < (double)total * warned[i].permille)
			continue;
		row(s, label, HINT_ROWS, "%s: %s. %s", info->line, print_count(n, value), info->prose);
		label = NULL;
	}
	shared = doc_number(json_object_get(s->doc, "left_alone"), "shared");
	if (shared >= SHARED_WORTH_BYTES) {
		row(s, label, HINT_ROWS,
		    "%s of hot memory stay because they are shared; to move them: kinds = { shared = true; }, or "
		    "shared = true in a rule of manage.rules",
		    print_bytes(n, shared));
		label = NULL;
	}
	if (strcmp(doc_text(s->doc, "state"), "paused") == 0) {
		row(s, label, HINT_ROWS, "nothing is sampled or moved now; to go on: pghotctl resume");
		label = NULL;
	}
	if (strcmp(doc_text(s->doc, "state"), "observing") == 0 &&
	    !json_is_true(json_object_get(s->doc, "observe_only"))) {
		row(s, label, HINT_ROWS, "nothing is moved now; to move what is hot: pghotctl mode promote");
		label = NULL;
	}
	if (label && strcmp(doc_text(s->doc, "state"), "promoting") == 0)
		row(s, label, 1, "nothing, all is well");
}

int print_status(FILE *out, const char *json, unsigned int columns, bool colour)
{
	struct screen s = { .out = out, .colour = colour, .columns = columns, .indent = LABEL_COLUMNS, .folds = 1 };

	if (columns < LABEL_MIN)
		s.indent = NARROW_COLUMNS;
	/* A word that goes to the next line takes half the line before it. */
	if (columns < PRINT_COLUMNS)
		s.folds = 1 + 2 * (PRINT_COLUMNS - LABEL_COLUMNS) / (columns - s.indent);
	s.rows_left = (PRINT_ROWS - 1) * s.folds;
	s.doc = json_loads(json, 0, NULL);
	if (!json_is_object(s.doc) || !*doc_text(s.doc, "state")) {
		json_decref(s.doc);
		return -EINVAL;
	}
	s.counters = json_object_get(s.doc, "counters");
	put_head(&s);
	put_sources(&s);
	put_tiers(&s);
	put_found(&s);
	put_moved(&s);
	put_room(&s);
	put_resting(&s);
	put_shares(&s);
	put_pressure(&s);
	put_helps(&s);
	put_rest(&s);
	put_hints(&s);
	json_decref(s.doc);
	return 0;
}
