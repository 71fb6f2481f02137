/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Who else moves pages. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "doctor.h"
#include "ibs_pmu.h"
#include "parse.h"

#define BALANCING "kernel.numa_balancing"
#define RATE      "kernel.numa_balancing_promote_rate_limit_MBps"

/* Documentation/admin-guide/sysctl/kernel.rst: 1 balances, 2 promotes. */
static void look_at_balancing(struct doctor *doctor)
{
	uint64_t mode, rate = 0;
	bool has_rate = fsroot_read_u64(&doctor->root, &rate, 10,
					"proc/sys/kernel/numa_balancing_promote_rate_limit_MBps") == 0;
	struct doctor_finding *f;

	if (fsroot_read_u64(&doctor->root, &mode, 10, "proc/sys/kernel/numa_balancing") < 0) {
		doctor_say(doctor, DOCTOR_OK, "balancing", "this kernel has no NUMA balancing");
	} else if ((mode & 2) && has_rate && rate == 0) {
		doctor_say(doctor, DOCTOR_OK, "balancing", BALANCING " is %llu and its promotion is held at 0 MB/s",
			   (unsigned long long)mode);
	} else if (mode & 2) {
		f = doctor_say(doctor, DOCTOR_WARN, "balancing", BALANCING " is %llu: the kernel promotes, too",
			       (unsigned long long)mode);
		doctor_todo(f, has_rate ? "sysctl -w " RATE "=0" : "sysctl -w " BALANCING "=0");
	} else if (mode) {
		f = doctor_say(doctor, DOCTOR_WARN, "balancing",
			       BALANCING " is %llu: the kernel moves pages as well, perhaps back to where they were",
			       (unsigned long long)mode);
		doctor_todo(f, "sysctl -w " BALANCING "=0, unless programs here gain by it");
	} else {
		doctor_say(doctor, DOCTOR_OK, "balancing", BALANCING " is off");
	}
}

struct damon {
	struct doctor *doctor;
	const char *kdamond, *context;
	unsigned int moving, other;
	char action[32]; /* the first that moves */
};

static int look_at_scheme(void *ctx, const char *name)
{
	struct damon *damon = ctx;
	char action[32];

	if (fsroot_read(&damon->doctor->root, action, sizeof(action),
			"sys/kernel/mm/damon/admin/kdamonds/%s/contexts/%s/schemes/%s/action", damon->kdamond,
			damon->context, name) < 0)
		return 0; /* no scheme: nr_schemes */
	if (strncmp(action, "migrate_", 8) == 0) {
		if (damon->moving++ == 0)
			snprintf(damon->action, sizeof(damon->action), "%s", action);
	} else if (strcmp(action, "stat") != 0) {
		damon->other++;
	}
	return 0;
}

static int look_at_context(void *ctx, const char *name)
{
	struct damon *damon = ctx;

	damon->context = name;
	(void)fsroot_for_each(&damon->doctor->root, look_at_scheme, damon,
			      "sys/kernel/mm/damon/admin/kdamonds/%s/contexts/%s/schemes", damon->kdamond, name);
	return 0;
}

static int look_at_kdamond(void *ctx, const char *name)
{
	struct damon *damon = ctx;
	char state[16];

	if (fsroot_read(&damon->doctor->root, state, sizeof(state), "sys/kernel/mm/damon/admin/kdamonds/%s/state",
			name) < 0 ||
	    strcmp(state, "on") != 0)
		return 0;
	damon->kdamond = name;
	(void)fsroot_for_each(&damon->doctor->root, look_at_context, damon,
			      "sys/kernel/mm/damon/admin/kdamonds/%s/contexts", name);
	return 0;
}

/* Documentation/admin-guide/mm/damon/usage.rst; damon_reclaim and damon_lru_sort are modules with parameters. */
static void look_at_damon(struct doctor *doctor)
{
	static const char *const modules[] = { "damon_reclaim", "damon_lru_sort" };
	struct damon damon = { .doctor = doctor };
	struct doctor_finding *f;
	char on[8];

	(void)fsroot_for_each(&doctor->root, look_at_kdamond, &damon, "sys/kernel/mm/damon/admin/kdamonds");
	for (size_t i = 0; i < sizeof(modules) / sizeof(modules[0]); i++)
		if (fsroot_read(&doctor->root, on, sizeof(on), "sys/module/%s/parameters/enabled", modules[i]) > 0 &&
		    strcmp(on, "Y") == 0)
			damon.other++;
	if (damon.moving) {
		f = doctor_say(doctor, DOCTOR_WARN, "DAMON", "%u of its schemes move%s pages between nodes (%s)",
			       damon.moving, damon.moving == 1 ? "s" : "", damon.action);
		doctor_todo(f, "stop them: damo stop, or echo off > /sys/kernel/mm/damon/admin/kdamonds/0/state");
	} else if (damon.other) {
		doctor_say(doctor, DOCTOR_NOTE, "DAMON", "%u of its schemes run%s; none moves pages between nodes",
			   damon.other, damon.other == 1 ? "s" : "");
	} else {
		doctor_say(doctor, DOCTOR_OK, "DAMON", "no scheme runs");
	}
}

static const struct {
	const char *comm, *stop;
} movers[] = {
	{ "numad", "systemctl stop numad" },
	{ "memtierd", "end it, or let it only observe" },
	{ "etmemd", "systemctl stop etmemd" },
	{ "sys-refs", "end it" },
};

struct search {
	struct doctor *doctor;
	size_t found;
};

static int look_at_process(void *ctx, const char *name)
{
	struct search *search = ctx;
	struct doctor_finding *f;
	char comm[32];
	uint64_t pid;

	if (parse_u64(name, 1, INT32_MAX, &pid) < 0 ||
	    fsroot_read(&search->doctor->root, comm, sizeof(comm), "proc/%s/comm", name) < 0)
		return 0;
	for (size_t i = 0; i < sizeof(movers) / sizeof(movers[0]); i++) {
		if (strcmp(comm, movers[i].comm) != 0 || search->found == 4)
			continue;
		search->found++;
		f = doctor_say(search->doctor, DOCTOR_WARN, "others", "%s (pid %s) moves pages between nodes, too",
			       comm, name);
		doctor_todo(f, "%s", movers[i].stop);
	}
	return 0;
}

void doctor_look_rivals(struct doctor *doctor)
{
	struct search search = { .doctor = doctor };
	struct doctor_finding *f;
	char why[IBS_WHY_MAX];

	look_at_balancing(doctor);
	look_at_damon(doctor);
	switch (ibs_pmu_pghot(&doctor->root, why)) {
	case IBS_PGHOT_ACTIVE:
		f = doctor_say(doctor, DOCTOR_WARN, "pghot", "this kernel promotes by itself");
		doctor_todo(f, "%s", why);
		break;
	case IBS_PGHOT_IDLE:
		doctor_say(doctor, DOCTOR_OK, "pghot", "%s", why);
		break;
	case IBS_PGHOT_NONE:
		break;
	}
	(void)fsroot_for_each(&doctor->root, look_at_process, &search, "proc");
	if (search.found == 0)
		doctor_say(doctor, DOCTOR_OK, "others", "no other program here that is known to move pages");
}
