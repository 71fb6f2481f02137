/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include "doc.h"
#include "print.h"
#include "print_explain.h"

#define LABEL_COLUMNS 12
#define ROWS_MAX      6
#define TEXT_MAX      1024

struct screen {
	FILE *out;
	bool colour;
	json_t *doc;
	const json_t *region;
};

static bool is_true(const json_t *object, const char *key)
{
	return json_is_true(json_object_get(object, key));
}

__attribute__((format(printf, 3, 4))) static void row(const struct screen *s, const char *label, const char *fmt, ...)
{
	char buf[TEXT_MAX], padded[LABEL_COLUMNS + 1];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(buf, sizeof(buf), fmt, ap);
	va_end(ap);
	print_plain(buf);
	snprintf(padded, sizeof(padded), "%-*s", LABEL_COLUMNS, label);
	print_coloured(s->out, s->colour, PRINT_BOLD, padded);
	print_wrapped(s->out, LABEL_COLUMNS, LABEL_COLUMNS, ROWS_MAX, buf);
}

/* Why memory is left, and what would change it. Names are those of left_alone. */
static const struct {
	const char *name, *why, *change;
} left_reasons[] = {
	{ "rule", "a rule says so, or manage.default does", "change the rule in manage.rules, or manage.default" },
	{ "small", "it has less memory than min_rss_mib of its rule", "lower min_rss_mib in that rule" },
	{ "opted_out", "its control group says so itself: user.pghot.mode is off",
	  "take that attribute off: setfattr -x user.pghot.mode /sys/fs/cgroup/..." },
	{ "pinned", "it has pinned memory (VmPin), which a device may write to", "nothing, while it is pinned" },
	{ "device", "it has a device open or mapped that reaches memory by itself", "nothing, while it is open" },
	{ "real_time", "it has a real-time task, which must not wait", "nothing, while it has one" },
	{ "policy", "its program bound this memory to nodes itself", "nothing: that is its program's wish" },
	{ "hugetlb", "these are pages of a hugetlb pool", "kinds = { hugetlb = true; }, or a rule with it" },
	{ "locked", "its program locked this memory with mlock()", "kinds = { locked = true; }, or a rule with it" },
	{ "shared", "several processes may map this memory", "kinds = { shared = true; }, or a rule with it" },
	{ "file", "these are pages of a mapped file", "kinds = { file = true; }, or a rule with it" },
	{ "fast_max", "the programs of its rule have their share of the fast tier",
	  "raise fast_max_percent in that rule" },
	{ "ping_pong", "its pages go up and down, so a guard lets the process rest",
	  "guard.resume_after_sec is how long; guard.ping_pong_percent is when" },
	{ "pressure", "its control group is short of memory: a guard holds",
	  "give it more memory, or raise guard.pressure_percent" },
	{ "not_looked_at", "it was not looked at yet, or nothing is mapped there any more", "a second or two" },
};

static void put_may_move(const struct screen *s)
{
	const char *verdict = doc_text(s->doc, "verdict"), *left = doc_text(s->doc, "left");
	char rule[48] = "";

	if (json_integer_value(json_object_get(s->doc, "rule")) >= 0)
		snprintf(rule, sizeof(rule), ", by rule %llu of manage.rules",
			 (unsigned long long)doc_number(s->doc, "rule") + 1);
	if (strcmp(verdict, "move") == 0) {
		row(s, "May move", "yes%s%s", rule,
		    is_true(s->doc, "address_asked") ? "" : "; kinds of memory that may not are left");
		return;
	}
	if (strcmp(verdict, "observe") == 0) {
		row(s, "May move", "no, it is only observed%s", rule);
		row(s, "To change", "mode = \"promote\" in that rule");
		return;
	}
	for (size_t i = 0; i < sizeof(left_reasons) / sizeof(left_reasons[0]); i++) {
		if (strcmp(left, left_reasons[i].name) != 0)
			continue;
		row(s, "May move", "no%s: %s", rule, left_reasons[i].why);
		row(s, "To change", "%s", left_reasons[i].change);
		return;
	}
	row(s, "May move", "no%s: %s", rule, left);
}

static void put_process(const struct screen *s)
{
	char a[PRINT_SHORT_MAX], b[PRINT_SHORT_MAX], line[64];
	bool observing = strcmp(doc_text(s->doc, "mode"), "observe") == 0;

	snprintf(line, sizeof(line), "%.20s (pid %llu)\n", doc_text(s->doc, "name"),
		 (unsigned long long)doc_number(s->doc, "pid"));
	print_coloured(s->out, s->colour, PRINT_BOLD, line);
	row(s, "Known", "%s regions of 2 MiB with a sample in the last two minutes; they take %s of the tables",
	    print_count(a, doc_number(s->doc, "regions")), print_bytes(b, doc_number(s->doc, "bytes")));
	if (doc_number(s->doc, "evicted_regions"))
		row(s, "Forgotten", "%s regions, since it took more than its share of memory_max_mib",
		    print_count(a, doc_number(s->doc, "evicted_regions")));
	row(s, observing ? "Would move" : "Promoted", "%s so far", print_bytes(a, doc_number(s->doc, "hot_bytes")));
	put_may_move(s);
}

static void format_nodes(const json_t *nodes, char *buf, size_t size)
{
	const json_t *node;
	size_t i, used = 0;

	snprintf(buf, size, "none");
	json_array_foreach (nodes, i, node) {
		int n = snprintf(buf + used, size - used, "%s%lld", i ? ", " : "", (long long)json_integer_value(node));

		if (n < 0 || (size_t)n >= size - used)
			return;
		used += (size_t)n;
	}
}

/* What policy region says of it now, and what would change that. Names are those of the daemon's answer. */
static const struct {
	const char *name, *why, *change;
} policy_reasons[] = {
	{ "hot", "it is hot, and it fits", "" },
	{ "one_epoch", "all its samples came within one epoch, as at a first touch",
	  "samples in a later second, promote.epoch_ms apart" },
	{ "uncertain", "it is hot, but whether all of it or a few pages can't be told yet",
	  "more samples (sampling.overhead_percent), or a lower promote.confidence" },
	{ "background", "it is no hotter than memory that is touched now and then anyway", "more accesses to it" },
	{ "cooler", "what is hotter fills the fast tier",
	  "more room there: see promote.headroom_percent, or less that is hotter" },
	{ "faults", "hint faults tell of each page once, so the rule for pages decides", "promote.freq_threshold" },
	{ "giant", "it is part of a page of 1 GiB, which is not moved", "smaller pages" },
	{ "pays_not", "moving it would take more than the accesses that it will still have save",
	  "memory that stays hot for longer, or is accessed more" },
	{ "stale", "what was seen of it is too old, or was a burst: it begins anew", "new samples" },
};

static void put_decided(const struct screen *s)
{
	const char *decided = doc_text(s->region, "decided");
	uint64_t tries = doc_number(s->region, "tries");
	const char *what = strcmp(decided, "whole") == 0    ? "to move it whole, or a part of it that is dense"
			   : strcmp(decided, "pages") == 0  ? "to move the pages that were seen, one by one"
			   : strcmp(decided, "picked") == 0 ? "to move the pages that are seen again and again"
							    : "nothing yet";
	char again[64] = "";

	if (tries)
		snprintf(again, sizeof(again), "; asked for %llu time%s again", (unsigned long long)tries,
			 tries == 1 ? "" : "s");
	row(s, "Decided", "%s%s%s%s", what, is_true(s->region, "done") ? "; done" : "",
	    is_true(s->region, "noted") ? "; counted, while observing" : "", again);
}

static void put_why(const struct screen *s)
{
	const char *reason = doc_text(s->region, "reason");

	if (strcmp(doc_text(s->doc, "policy"), "region") != 0) {
		row(s, "Why",
		    "policy page decides by single pages: by promote.freq_threshold accesses within "
		    "promote.freq_window_ms");
		return;
	}
	if (!*reason)
		row(s, "Why", "it is being decided just now: ask again");
	for (size_t i = 0; i < sizeof(policy_reasons) / sizeof(policy_reasons[0]); i++) {
		if (strcmp(reason, policy_reasons[i].name) != 0)
			continue;
		row(s, "Why", "%s", policy_reasons[i].why);
		if (doc_real(s->region, "heat_per_sec") > 0)
			row(s, "Heat", "%.3g samples a second; what fits has at least %.3g",
			    doc_real(s->region, "heat_per_sec"), doc_real(s->region, "threshold_per_sec"));
		if (doc_real(s->region, "share") > 0)
			row(s, "Hot part", "%.0f%% of its pages, expected", doc_real(s->region, "share") * 100);
		if (*policy_reasons[i].change)
			row(s, "To change", "%s", policy_reasons[i].change);
	}
}

static void put_region(const struct screen *s)
{
	char a[PRINT_SHORT_MAX], b[PRINT_SHORT_MAX], nodes[64], line[64];

	snprintf(line, sizeof(line), "\nRegion %.24s, 2 MiB\n", doc_text(s->region, "address"));
	print_coloured(s->out, s->colour, PRINT_BOLD, line);
	format_nodes(json_object_get(s->region, "nodes"), nodes, sizeof(nodes));
	row(s, "Seen", "%s samples on %s pages of %s, in %llu different seconds after the first; the last %.1f s ago",
	    print_count(a, doc_number(s->region, "samples")), print_count(b, doc_number(s->region, "pages")),
	    doc_number(s->region, "page_bytes") >= 2 << 20 ? "2 MiB" : "4 KiB",
	    (unsigned long long)doc_number(s->region, "seconds"), (double)doc_number(s->region, "idle_ns") / 1e9);
	row(s, "On node", "%s%s", nodes, is_true(s->region, "far") ? ", of which one is slow" : "");
	put_decided(s);
	put_why(s);
}

int print_explain(FILE *out, const char *json, bool colour)
{
	struct screen s = { .out = out, .colour = colour, .doc = json_loads(json, 0, NULL) };

	if (!json_is_object(s.doc) || !*doc_text(s.doc, "verdict")) {
		json_decref(s.doc);
		return -EINVAL;
	}
	s.region = json_object_get(s.doc, "region");
	put_process(&s);
	if (json_is_object(s.region))
		put_region(&s);
	else if (is_true(s.doc, "address_asked"))
		fputs("\nNo sample fell on that region in the last two minutes.\n", out);
	json_decref(s.doc);
	return 0;
}
