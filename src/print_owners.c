/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>

#include "doc.h"
#include "print.h"
#include "print_owners.h"

static void put_line(FILE *out, const json_t *process)
{
	const char *value = json_string_value(json_object_get(process, "name"));
	char name[20], tables[PRINT_SHORT_MAX], regions[PRINT_SHORT_MAX], hot[PRINT_SHORT_MAX],
		evicted[PRINT_SHORT_MAX];

	snprintf(name, sizeof(name), "%s", value ? value : "");
	print_plain(name);
	fprintf(out, "%10" PRIu64 " %-16s %9s %12s %9s %12s\n", doc_number(process, "pid"), name,
		print_bytes(tables, doc_number(process, "bytes")), print_count(regions, doc_number(process, "regions")),
		print_bytes(hot, doc_number(process, "hot_bytes")),
		print_count(evicted, doc_number(process, "evicted_regions")));
}

int print_owners(FILE *out, const char *json, bool colour)
{
	json_t *doc = json_loads(json, 0, NULL);
	const json_t *processes = json_object_get(doc, "processes"), *process;
	uint64_t all = doc_number(json_object_get(doc, "map"), "owners");
	char line[PRINT_COLUMNS + 1], n[PRINT_SHORT_MAX];
	size_t i;

	if (!json_is_object(doc) || !json_string_value(json_object_get(doc, "state"))) {
		json_decref(doc);
		return -EINVAL;
	}
	snprintf(line, sizeof(line), "%10s %-16s %9s %12s %9s %12s\n", "pid", "process", "tables", "regions", "hot",
		 "evicted");
	print_coloured(out, colour, PRINT_BOLD, line);
	json_array_foreach (processes, i, process)
		put_line(out, process);
	if (all > i)
		fprintf(out, "and %s more\n", print_count(n, all - i));
	json_decref(doc);
	return 0;
}
