/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdio.h>
#include <string.h>

#include "build_config.h"
#include "clock.h"
#include "daemon.h"
#include "dataplane.h"
#include "first_minute.h"
#include "owners.h"
#include "sample.h"

#define SHOWN_MAX 10

static void print_bytes(const char *before, uint64_t bytes, const char *after)
{
	if (bytes >= 10ULL << 30)
		printf("%s%.1f GiB%s", before, (double)bytes / (double)(1ULL << 30), after);
	else
		printf("%s%.1f MiB%s", before, (double)bytes / (double)(1ULL << 20), after);
}

static void print_tiers(const struct report *report)
{
	char nodes[256];

	puts("\nTiers");
	for (int i = 0; i < report->topology->n_tiers; i++) {
		const struct nodeset *set = &report->topology->tiers[i].nodes;
		uint64_t total_bytes = 0, free_bytes = 0;

		nodeset_for_each (nid, set) {
			const struct topology_node *node = topology_node(report->topology, nid);

			total_bytes += node ? node->total_bytes : 0;
			free_bytes += report->rooms[nid].free_bytes;
		}
		if (nodeset_format(set, nodes, sizeof(nodes)) < 0)
			snprintf(nodes, sizeof(nodes), "many");
		printf("  %s, node %s: ", nodeset_intersects(set, &report->topology->lower) ? "slow" : "fast", nodes);
		print_bytes("", total_bytes, "");
		print_bytes(", ", free_bytes, " free\n");
	}
	if (nodeset_is_empty(&report->topology->lower))
		puts("  no slow tier: there is nothing to move here");
}

struct process {
	char comm[16];
	uint32_t pid;
	uint64_t bytes;
};

struct processes {
	struct process list[SHOWN_MAX];
	size_t n;
};

/* Keep the largest, in order. Copies: an owner is good inside the read section only. */
static int rank_owner(void *ctx, struct owner *owner)
{
	struct processes *top = ctx;
	struct process one = {
		.pid = owner->pid, .bytes = atomic_load_explicit(&owner->hot_bytes, memory_order_relaxed), /* a gauge */
	};
	size_t at = top->n;

	if (one.bytes == 0)
		return 0;
	while (at > 0 && top->list[at - 1].bytes < one.bytes)
		at--;
	if (at == SHOWN_MAX)
		return 0;
	memcpy(one.comm, owner->comm, sizeof(one.comm));
	if (top->n < SHOWN_MAX)
		top->n++;
	memmove(&top->list[at + 1], &top->list[at], (top->n - 1 - at) * sizeof(top->list[0]));
	top->list[at] = one;
	return 0;
}

static void print_found(const struct report *report, const struct daemon *daemon)
{
	uint64_t would_bytes = stats_sum(report->stats, STAT_WOULD_PROMOTE_BYTES);
	struct processes top = { .n = 0 };

	puts("\nFound");
	printf("  %llu samples of %zu processes, %llu 2 MiB regions touched\n",
	       (unsigned long long)stats_sum(report->stats, STAT_TOTAL), report->owners,
	       (unsigned long long)report->usage.regions);
	print_bytes("  hot on the slow tier, would be promoted: ", would_bytes, "\n");
	dataplane_owners(daemon->dataplane, rank_owner, &top);
	for (size_t i = 0; i < top.n; i++) {
		daemon_process_name(&daemon->root, top.list[i].pid, top.list[i].comm);
		printf("    %-16s pid %-8u", top.list[i].comm, top.list[i].pid);
		print_bytes(" ", top.list[i].bytes, "\n");
	}
	puts("  nothing was moved, and no setting was changed");
}

static void print_findings(const struct report *report)
{
	bool any = false;

	puts("\nFindings");
	if (report->topology->advice[0]) {
		printf("  tiers: %s\n", report->topology->advice);
		any = true;
	}
	for (size_t i = 0; i < report->n_sources; i++) {
		if (!report->sources[i].why[0])
			continue;
		printf("  source %s: %s: %s\n", report->sources[i].name, report->sources[i].state,
		       report->sources[i].why);
		any = true;
	}
	if (report->kernel_promotes) {
		printf("  the kernel promotes pages itself: %llu in this time\n",
		       (unsigned long long)report->kernel_promoted_pages);
		any = true;
	}
	if (nodeset_is_empty(&report->topology->lower)) {
		puts("  no slow memory tier: pghotd has nothing to do here. If a node is slow, name it\n"
		     "  in " PGHOTD_CONF ", fastest first: tiers = ( \"0\", \"1\" );");
		any = true;
	}
	if (!any)
		puts("  none: this machine has what pghotd needs");
}

static bool has_source(const struct report *report)
{
	for (size_t i = 0; i < report->n_sources; i++)
		if (strcmp(report->sources[i].state, "running") == 0 ||
		    strcmp(report->sources[i].state, "degraded") == 0)
			return true;
	return false;
}

static void print_next(const struct report *report)
{
	if (nodeset_is_empty(&report->topology->lower))
		return;
	if (!has_source(report))
		puts("\nFirst, give it a source of samples: see the findings. For hint faults\n"
		     "  hint_faults = { manage_sysctls = true; }; in " PGHOTD_CONF);
	puts("\nInstall\n"
	     "  sudo meson install -C build\n"
	     "  sudo systemctl daemon-reload\n"
	     "To observe for longer: mode = \"observe\"; in " PGHOTD_CONF "\n"
	     "\nGo live\n"
	     "  sudo systemctl enable --now pghotd\n"
	     "  sudo pghotctl status\n"
	     "  sudo pghotctl mode promote        if the file says observe, until the next reload or restart\n"
	     "\nUndo\n"
	     "  sudo pghotctl mode observe        moves nothing more\n"
	     "  sudo systemctl disable --now pghotd\n"
	     "  sudo ninja -C build uninstall     pages stay where they are; the kernel treats them as any others");
}

static void print_report(const struct report *report, const struct daemon *daemon)
{
	printf("\npghotd observed this machine for %llu s.\n", (unsigned long long)(report->uptime_ns / NSEC_PER_SEC));
	print_tiers(report);
	if (daemon->dataplane)
		print_found(report, daemon);
	print_findings(report);
	print_next(report);
	fflush(stdout);
}

int first_minute_run(const struct daemon_options *options)
{
	printf("pghotd observes for %llu s: it changes no setting and moves nothing.\n",
	       (unsigned long long)(options->run_for_ns / NSEC_PER_SEC));
	fflush(stdout);
	return daemon_run_and_report(options, print_report);
}
