/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "config.h"
#include "config_value.h"
#include "nodeset.h"

#define CPU_ID_MAX 8191 /* the kernel's NR_CPUS is at most 8192 */

#define IBS_LATENCY_LOWEST 128 /* cycles */

/* A compact record has 2 bits of frequency, 5 bits of time in 128 ms, and none for a node (record.h). */
#define COMPACT_FREQ_MAX      3
#define COMPACT_WINDOW_MAX_MS 3968

__attribute__((format(printf, 4, 5))) static int blame(const struct option_info **ret_option, char *text,
						       const char *key, const char *fmt, ...)
{
	va_list ap;

	*ret_option = option_find(key);
	va_start(ap, fmt);
	vsnprintf(text, CONFIG_ERROR_MAX, fmt, ap);
	va_end(ap);
	return -EINVAL;
}

static int check_sources(const struct config *config, const struct option_info **ret_option, char *text)
{
	static const char *const known[] = { "auto", "ibs", "hint_faults" };
	const struct config_list *list = &config->sources;

	if (list->n == 0)
		return blame(ret_option, text, "sources", "the list is empty: name a source, as in ( \"auto\" )");
	for (int i = 0; i < list->n; i++) {
		const char *item = list->item[i];
		bool found = false;

		for (size_t k = 0; k < sizeof(known) / sizeof(known[0]); k++)
			found |= strcmp(item, known[k]) == 0;
		if (!found)
			return blame(ret_option, text, "sources",
				     "there is no source \"%s\": it may be \"auto\", \"ibs\" or \"hint_faults\"", item);
		for (int k = 0; k < i; k++)
			if (strcmp(item, list->item[k]) == 0)
				return blame(ret_option, text, "sources", "\"%s\" is given twice", item);
	}
	return 0;
}

static int check_tiers(const struct config *config, const struct option_info **ret_option, char *text)
{
	const struct config_list *list = &config->tiers;
	struct nodeset all = { 0 };

	for (int i = 0; i < list->n; i++) {
		struct nodeset nodes;
		int r = nodeset_parse(&nodes, list->item[i]);

		if (r == -ERANGE)
			return blame(ret_option, text, "tiers", "\"%s\": node numbers go from 0 to %d", list->item[i],
				     NODE_MAX - 1);
		if (r < 0 || nodeset_is_empty(&nodes))
			return blame(ret_option, text, "tiers", "\"%s\" is no list of nodes, as in ( \"0-1\", \"2\" )",
				     list->item[i]);
		if (nodeset_intersects(&nodes, &all))
			return blame(ret_option, text, "tiers", "\"%s\" names a node that stands in an earlier tier",
				     list->item[i]);
		nodeset_or(&all, &nodes);
	}
	return 0;
}

static int any_cpu(void *ctx, int cpu)
{
	(void)cpu;
	*(bool *)ctx = true;
	return 1;
}

static int check_cpus(const struct config *config, const struct option_info **ret_option, char *text)
{
	const char *cpus = config->sampling_cpus;
	bool some = false;
	int r;

	if (strcmp(cpus, "all") == 0)
		return 0;
	r = idlist_for_each(cpus, CPU_ID_MAX, any_cpu, &some);
	if (r == -ERANGE)
		return blame(ret_option, text, "sampling.cpus", "\"%s\": CPU numbers go from 0 to %d", cpus,
			     CPU_ID_MAX);
	if (r < 0 || !some)
		return blame(ret_option, text, "sampling.cpus",
			     "\"%s\" is no list of CPUs: it may be \"all\", or as in \"0-3,8\"", cpus);
	return 0;
}

static int check_records(const struct config *config, const struct option_info **ret_option, char *text)
{
	if (config->records != RECORDS_COMPACT)
		return 0;
	if (config->target_nid < 0)
		return blame(ret_option, text, "records",
			     "\"compact\" keeps no node for each page: set target_nid to the node to promote to");
	if (config->promote_freq_window_ms > COMPACT_WINDOW_MAX_MS)
		return blame(ret_option, text, "records",
			     "\"compact\" can't tell times over %d ms apart: set promote.freq_window_ms to that or "
			     "less "
			     "(it is %lld)",
			     COMPACT_WINDOW_MAX_MS, (long long)config->promote_freq_window_ms);
	if (config->promote_freq_threshold > COMPACT_FREQ_MAX)
		return blame(ret_option, text, "records",
			     "\"compact\" counts to %d: set promote.freq_threshold to that or less (it is %lld)",
			     COMPACT_FREQ_MAX, (long long)config->promote_freq_threshold);
	return 0;
}

/* arch/x86/events/amd/ibs.c refuses other thresholds of its load-latency filter. */
static int check_ibs(const struct config *config, const struct option_info **ret_option, char *text)
{
	if (config->ibs_latency_threshold == 0 || config->ibs_latency_threshold >= IBS_LATENCY_LOWEST)
		return 0;
	return blame(ret_option, text, "ibs.latency_threshold",
		     "%lld is below what hardware can: 0 for none, or %d to 2048 cycles",
		     (long long)config->ibs_latency_threshold, IBS_LATENCY_LOWEST);
}

int config_check(const struct config *config, const struct option_info **ret_option, char *text)
{
	int r = check_sources(config, ret_option, text);

	if (r == 0)
		r = check_tiers(config, ret_option, text);
	if (r == 0)
		r = check_cpus(config, ret_option, text);
	if (r == 0)
		r = check_records(config, ret_option, text);
	if (r == 0)
		r = check_ibs(config, ret_option, text);
	return r;
}
