/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The machine: kernel, settings, tiers, sources. */
#include <errno.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cleanup.h"
#include "config.h"
#include "doctor.h"
#include "parse.h"
#include "privops.h"
#include "source.h"
#include "topology.h"

#define KERNEL(major, minor) ((major)*1000 + (minor))

/* kernel/events/core.c, DEFAULT_MAX_SAMPLE_RATE. */
#define SAMPLE_RATE_DEFAULT 100000U

const char *const doctor_verdict_name[DOCTOR_VERDICTS] = {
	[DOCTOR_OK] = "ok",
	[DOCTOR_NOTE] = "note",
	[DOCTOR_WARN] = "warn",
	[DOCTOR_BAD] = "bad",
};

struct doctor_finding *doctor_say(struct doctor *doctor, enum doctor_verdict verdict, const char *name, const char *fmt,
				  ...)
{
	struct doctor_finding *finding;
	va_list ap;

	if (doctor->n == DOCTOR_FINDINGS_MAX)
		doctor->n--;
	finding = &doctor->findings[doctor->n++];
	*finding = (struct doctor_finding){ .name = name, .verdict = verdict };
	va_start(ap, fmt);
	vsnprintf(finding->text, sizeof(finding->text), fmt, ap);
	va_end(ap);
	return finding;
}

void doctor_todo(struct doctor_finding *finding, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(finding->todo, sizeof(finding->todo), fmt, ap);
	va_end(ap);
}

size_t doctor_count(const struct doctor *doctor, enum doctor_verdict verdict)
{
	size_t n = 0;

	for (size_t i = 0; i < doctor->n; i++)
		n += doctor->findings[i].verdict >= verdict;
	return n;
}

static void look_at_kernel(struct doctor *doctor)
{
	char release[64] = "", level[16] = "";
	unsigned int major, minor, version;
	bool has_ibs = fsroot_exists(&doctor->root, "sys/bus/event_source/devices/ibs_op/type");
	struct doctor_finding *f;

	if (fsroot_read(&doctor->root, release, sizeof(release), "proc/sys/kernel/osrelease") < 0 ||
	    sscanf(release, "%u.%u", &major, &minor) != 2) {
		doctor_say(doctor, DOCTOR_NOTE, "kernel", "its version can't be read");
		return;
	}
	version = KERNEL(major, minor);
	(void)fsroot_read(&doctor->root, level, sizeof(level), "proc/sys/kernel/perf_event_paranoid");
	if (version < KERNEL(5, 11)) {
		f = doctor_say(doctor, DOCTOR_BAD, "kernel", "Linux %s is too old: samples have no physical address",
			       release);
		doctor_todo(f, "use Linux 6.1 or newer");
	} else if (version < KERNEL(6, 1)) {
		f = doctor_say(doctor, DOCTOR_WARN, "kernel",
			       "Linux %s knows no memory tiers, and its promotion by hint faults can't be held back",
			       release);
		doctor_todo(f, "use Linux 6.1 or newer, or name the tiers: tiers = ( \"0\", \"1\" );");
	} else if (has_ibs && version >= KERNEL(6, 14) && version <= KERNEL(7, 0) && strtol(level, NULL, 10) >= 2) {
		f = doctor_say(doctor, DOCTOR_WARN, "kernel",
			       "Linux %s takes the physical address out of IBS samples of unprivileged programs while "
			       "kernel.perf_event_paranoid is %s, so a part of them is of no use",
			       release, level);
		doctor_todo(f, "sysctl -w kernel.perf_event_paranoid=1");
	} else {
		doctor_say(doctor, DOCTOR_OK, "kernel", "Linux %s", release);
	}
}

/* As the unit's conditions: then nothing starts. */
static void look_at_command_line(struct doctor *doctor)
{
	_cleanup_free_ char *text = NULL;
	struct doctor_finding *f;
	char *rest, *word;

	if (fsroot_read_alloc(&doctor->root, &text, "proc/cmdline") < 0)
		return;
	rest = text;
	while ((word = strsep(&rest, " \n"))) {
		if (strcmp(word, "pghotd=off") == 0 || strncmp(word, "elfcorehdr=", 11) == 0) {
			f = doctor_say(doctor, DOCTOR_BAD, "start",
				       "%s is on the kernel command line: pghotd.service "
				       "does not start",
				       word);
			doctor_todo(f, "boot without it");
			return;
		}
		if (strcmp(word, "numa=off") == 0) {
			f = doctor_say(doctor, DOCTOR_BAD, "start",
				       "numa=off is on the kernel command line: it knows no memory nodes");
			doctor_todo(f, "boot without it");
			return;
		}
	}
}

static void look_at_config(struct doctor *doctor, struct config *config)
{
	char error[CONFIG_ERROR_MAX];
	struct doctor_finding *f;
	int r;

	config_defaults(config);
	r = config_load(doctor->config_path, config, error);
	if (r == 0) {
		doctor_say(doctor, DOCTOR_OK, "config", "%s: no mistake found", doctor->config_path);
		return;
	}
	config_defaults(config);
	if (r == -ENOENT) {
		doctor_say(doctor, DOCTOR_OK, "config", "no %s, so the defaults hold", doctor->config_path);
		return;
	}
	f = doctor_say(doctor, r == -EACCES ? DOCTOR_NOTE : DOCTOR_BAD, "config", "%s", error);
	if (r != -EACCES)
		doctor_todo(f, "correct that line, then: pghotd --check-config");
}

static int count_one(void *ctx, int id)
{
	size_t *n = ctx;

	(void)id;
	++*n;
	return 0;
}

static size_t count_cpus(const struct doctor *doctor)
{
	char list[4096];
	size_t n = 0;

	if (fsroot_read(&doctor->root, list, sizeof(list), "sys/devices/system/cpu/online") > 0)
		(void)idlist_for_each(list, 1 << 20, count_one, &n);
	return n ? n : 1;
}

static void look_at_perf(struct doctor *doctor)
{
	struct doctor_finding *f;
	char text[32];
	int64_t level;
	uint64_t rate;

	if (fsroot_read(&doctor->root, text, sizeof(text), "proc/sys/kernel/perf_event_paranoid") < 0 ||
	    parse_i64(text, INT32_MIN, INT32_MAX, &level) < 0) {
		f = doctor_say(doctor, DOCTOR_BAD, "perf", "this kernel has no perf events: no source can work");
		doctor_todo(f, "use a kernel with CONFIG_PERF_EVENTS");
		return;
	}
	if (level >= 3)
		doctor_say(doctor, DOCTOR_OK, "perf",
			   "kernel.perf_event_paranoid is %lld: needs CAP_SYS_ADMIN, which pghotd's helper has",
			   (long long)level);
	else
		doctor_say(doctor, DOCTOR_OK, "perf", "kernel.perf_event_paranoid is %lld", (long long)level);
	if (fsroot_read_u64(&doctor->root, &rate, 10, "proc/sys/kernel/perf_event_max_sample_rate") < 0)
		return;
	if (rate >= SAMPLE_RATE_DEFAULT)
		return;
	f = doctor_say(doctor, DOCTOR_WARN, "sample rate",
		       "kernel.perf_event_max_sample_rate is %llu: the kernel, or someone, has lowered it",
		       (unsigned long long)rate);
	doctor_todo(f, "sysctl -w kernel.perf_event_max_sample_rate=%u", SAMPLE_RATE_DEFAULT);
}

/* "node 1", or "12 nodes" where the list is long. */
static void name_nodes(const struct nodeset *set, char *buf, size_t size)
{
	char list[64];

	if (nodeset_format(set, list, sizeof(list)) < 0)
		snprintf(buf, size, "%d nodes", nodeset_count(set));
	else
		snprintf(buf, size, "node %s", list);
}

static void look_at_tiers(struct doctor *doctor, const struct topology *topology)
{
	struct doctor_finding *f;
	char fast[96], slow[96];

	name_nodes(&topology->top, fast, sizeof(fast));
	name_nodes(&topology->lower, slow, sizeof(slow));
	if (nodeset_is_empty(&topology->lower)) {
		f = doctor_say(doctor, topology->advice[0] ? DOCTOR_WARN : DOCTOR_NOTE, "tiers",
			       "all memory is in one tier, so there is nothing to promote; pghotd waits for a slow "
			       "one");
		if (topology->advice[0])
			doctor_todo(f, "%s", topology->advice);
	} else if (topology->advice[0] || topology->observe_only) {
		f = doctor_say(doctor, DOCTOR_WARN, "tiers", "fast: %s; slow: %s%s", fast, slow,
			       topology->observe_only ? "; guessed, so nothing is moved" : "");
		doctor_todo(f, "%s", topology->advice[0] ? topology->advice : "name them: tiers = ( \"0\", \"1\" );");
	} else {
		doctor_say(doctor, DOCTOR_OK, "tiers", "fast: %s; slow: %s", fast, slow);
	}
}

static void look_at_room(struct doctor *doctor, const struct topology *topology, double headroom_percent)
{
	static struct topology_room rooms[NODE_MAX];
	uint64_t room_bytes = 0, all_bytes = 0;
	struct doctor_finding *f;

	if (nodeset_is_empty(&topology->lower))
		return;
	memset(rooms, 0, sizeof(rooms));
	if (topology_read_rooms(&doctor->root, &topology->top, rooms) < 0) {
		f = doctor_say(doctor, DOCTOR_BAD, "room", "/proc/zoneinfo can't be read, so no room is known");
		doctor_todo(f, "start pghotd outside of what hides it (a container)");
		return;
	}
	nodeset_for_each (nid, &topology->top) {
		const struct topology_room *r = &rooms[nid];
		uint64_t kept = (r->promo_bytes > r->high_bytes ? r->promo_bytes : r->high_bytes) +
				(uint64_t)((double)r->present_bytes * headroom_percent / 100);

		room_bytes += r->free_bytes > kept ? r->free_bytes - kept : 0;
		all_bytes += r->present_bytes;
	}
	if (room_bytes > 0) {
		doctor_say(doctor, DOCTOR_OK, "room", "%llu of %llu MiB of the fast tier can be filled",
			   (unsigned long long)(room_bytes >> 20), (unsigned long long)(all_bytes >> 20));
		return;
	}
	f = doctor_say(doctor, DOCTOR_WARN, "room", "the fast tier is full down to promote.headroom_percent%s",
		       topology->demotion_enabled ? "; the kernel demotes when it needs memory" : "");
	if (!topology->demotion_enabled)
		doctor_todo(f, "let the kernel make room: echo 1 > /sys/kernel/mm/numa/demotion_enabled");
}

/* A refusal tells nothing of what pghotd itself may do, where this process may less. */
static bool is_blind(const struct doctor *doctor, int r)
{
	char text[8192];
	const char *line;
	uint64_t caps;

	if ((r != -EACCES && r != -EPERM) || fsroot_read(&doctor->root, text, sizeof(text), "proc/self/status") <= 0)
		return false;
	line = strstr(text, "\nCapEff:");
	return line && sscanf(line, "\nCapEff: %" SCNx64, &caps) == 1 && !(caps >> CAP_SYS_ADMIN & 1);
}

static void look_at_sources(struct doctor *doctor, const struct config *config, const struct topology *topology)
{
	struct privops privops = { .ops = doctor->here ? &privops_direct : &privops_elsewhere,
				   .ctx = &privops,
				   .root = doctor->root,
				   .saved_path = "" };
	struct source_env env = { .privops = &privops, .root = &doctor->root, .config = config, .topology = topology };
	size_t first = doctor->n, working = 0, unseen = 0;
	struct doctor_finding *f;

	for (const struct source_ops *const *ops = source_table; *ops; ops++) {
		char why[SOURCE_WHY_MAX] = "", detail[SOURCE_DETAIL_MAX] = "";
		int r = (*ops)->probe(&env, why);

		if (r == 0 && (*ops)->describe)
			(*ops)->describe(&env, detail);
		if (r == 0)
			working++;
		if (is_blind(doctor, r)) {
			unseen++;
			f = doctor_say(doctor, DOCTOR_NOTE, (*ops)->name,
				       "whether it works can't be seen without root");
			doctor_todo(f, "sudo pghotctl doctor");
			continue;
		}
		f = doctor_say(doctor, r == 0 && !why[0] ? DOCTOR_OK : DOCTOR_NOTE, (*ops)->name, "%s%s%s",
			       r == 0 ? "works here" : "", detail[0] ? ": " : "", detail);
		/* The source's line says what is missing, and what to do. */
		if (why[0])
			snprintf(f->text + strlen(f->text), sizeof(f->text) - strlen(f->text), "%s%s",
				 f->text[0] ? "; " : "", why);
	}
	if (unseen)
		doctor->blind = true;
	if (working || unseen)
		return;
	/* One is enough; without any, each is what stands in the way. */
	for (size_t i = first; i < doctor->n; i++)
		doctor->findings[i].verdict = DOCTOR_BAD;
	f = doctor_say(doctor, DOCTOR_BAD, "sources", "none works here, so no page is found hot");
	doctor_todo(f, "do what one of the lines above says");
}

void doctor_look(struct doctor *doctor)
{
	static struct config config;
	struct topology *topology = NULL;
	char error[CONFIG_ERROR_MAX] = "";
	struct topology_options options = { .allow_missing = true };
	struct doctor_finding *f;
	int r;

	doctor->n = 0;
	doctor->blind = false;
	look_at_kernel(doctor);
	look_at_command_line(doctor);
	look_at_config(doctor, &config);
	doctor_look_process(doctor, count_cpus(doctor));
	look_at_perf(doctor);
	options.n_tiers = config.tiers.n;
	options.target_nid = (int)config.target_nid;
	for (int i = 0; i < config.tiers.n; i++)
		options.tiers[i] = config.tiers.item[i];
	r = topology_read(&doctor->root, &options, &topology, error, sizeof(error));
	if (r < 0) {
		f = doctor_say(doctor, DOCTOR_BAD, "tiers", "the memory nodes can't be read: %s",
			       error[0] ? error : strerror(-r));
		doctor_todo(f, r == -EINVAL ? "correct tiers or target_nid in the configuration"
					    : "use a kernel with NUMA, with /sys mounted");
	} else {
		look_at_tiers(doctor, topology);
		look_at_room(doctor, topology, config.promote_headroom_percent);
	}
	look_at_sources(doctor, &config, topology);
	doctor_look_rivals(doctor);
	topology_unref(topology);
}
