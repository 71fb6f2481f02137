/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a process here may do. Files: proc(5), user_namespaces(7), capabilities(7). */
#include <inttypes.h>
#include <linux/capability.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "doctor.h"
#include "pidns.h"

/* Descriptors beside one for each CPU and source: the control socket's clients, files, and some to spare. */
#define DESCRIPTORS_SPARE 512
#define RING_BYTES        (512ULL << 10) /* threads.ring_kib */

static bool status_value(const char *text, const char *key, uint64_t *ret)
{
	const char *line = strstr(text, key);

	return line && sscanf(line + strlen(key), "%" SCNx64, ret) == 1;
}

static void look_at_namespaces(struct doctor *doctor)
{
	struct doctor_finding *f;
	char map[128];
	uint64_t inside, outside, n;

	int child = pidns_is_child(&doctor->root);

	if (child > 0) {
		f = doctor_say(doctor, DOCTOR_BAD, "pids",
			       "in a pid namespace of its own, where samples name pids that are not to be seen");
		doctor_todo(f, "start pghotd with the host's (for a container: --pid=host)");
	} else if (child < 0) {
		doctor_say(doctor, DOCTOR_NOTE, "pids", "whether in the machine's own pid namespace is not to be seen");
	} else {
		doctor_say(doctor, DOCTOR_OK, "pids", "in the machine's own pid namespace");
	}
	if (pidns_cgroup_is_child(&doctor->root) > 0) {
		f = doctor_say(doctor, DOCTOR_WARN, "cgroups",
			       "in a cgroup namespace of its own, where rules by cgroup: see nothing outside of it");
		doctor_todo(f, "start pghotd with the host's (for a container: --cgroupns=host)");
	}
	if (fsroot_read(&doctor->root, map, sizeof(map), "proc/self/uid_map") > 0 &&
	    sscanf(map, "%" SCNu64 " %" SCNu64 " %" SCNu64, &inside, &outside, &n) == 3 && n < UINT32_MAX) {
		f = doctor_say(doctor, DOCTOR_BAD, "users",
			       "in a user namespace, where capabilities count for nothing outside of it");
		doctor_todo(f, "start pghotd outside of it (no rootless container)");
	}
}

static void look_at_seccomp(struct doctor *doctor, const char *status)
{
	struct doctor_finding *f;
	uint64_t mode;

	if (!status_value(status, "\nSeccomp:", &mode) || mode == 0) {
		doctor_say(doctor, DOCTOR_OK, "seccomp", "no filter here");
		return;
	}
	f = doctor_say(doctor, DOCTOR_WARN, "seccomp", "a filter is in force here, which may refuse what pghotd calls");
	doctor_todo(f, "allow perf_event_open and move_pages in it (--security-opt seccomp= of a container)");
}

static void look_at_capabilities(struct doctor *doctor, const char *status)
{
	static const struct {
		unsigned int cap;
		const char *name;
	} needed[] = { { CAP_PERFMON, "CAP_PERFMON" },
		       { CAP_SYS_PTRACE, "CAP_SYS_PTRACE" },
		       { CAP_SYS_NICE, "CAP_SYS_NICE" },
		       { CAP_IPC_LOCK, "CAP_IPC_LOCK" },
		       /* The helper's. */
		       { CAP_SYS_ADMIN, "CAP_SYS_ADMIN" },
		       { CAP_DAC_READ_SEARCH, "CAP_DAC_READ_SEARCH" } };
	uint64_t bound, effective;
	struct doctor_finding *f;
	char lost[128] = "";
	bool lacks = false;

	if (!status_value(status, "\nCapBnd:", &bound) || !status_value(status, "\nCapEff:", &effective))
		return;
	for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
		if (!(bound >> needed[i].cap & 1))
			snprintf(lost + strlen(lost), sizeof(lost) - strlen(lost), " %s", needed[i].name);
		lacks |= !(effective >> needed[i].cap & 1);
	}
	if (lost[0]) {
		f = doctor_say(doctor, DOCTOR_WARN, "capabilities", "not even root has here:%s", lost);
		doctor_todo(f, "give them to the container (--cap-add) or unit that this runs in");
	} else if (lacks) {
		f = doctor_say(doctor, DOCTOR_NOTE, "capabilities",
			       "not root, so what pghotd itself may do is not known");
		doctor_todo(f, "sudo pghotctl doctor");
	} else {
		doctor_say(doctor, DOCTOR_OK, "capabilities", "all that pghotd uses can be had");
	}
}

/* The hard limit behind @key in /proc/PID/limits, which says "unlimited" or a number. */
static bool hard_limit(const char *text, const char *key, uint64_t *ret)
{
	const char *line = strstr(text, key);
	char soft[32], hard[32];

	if (!line || sscanf(line + strlen(key), "%31s %31s", soft, hard) != 2)
		return false;
	*ret = UINT64_MAX;
	return strcmp(hard, "unlimited") == 0 || sscanf(hard, "%" SCNu64, ret) == 1;
}

static void look_at_limits(struct doctor *doctor, size_t cpus)
{
	uint64_t files, locked, free_kib = 516; /* kernel/events/core.c: 512 KiB and a page */
	uint64_t wanted_files = cpus * 2 + DESCRIPTORS_SPARE;
	struct doctor_finding *f;
	char text[4096];

	if (fsroot_read(&doctor->root, text, sizeof(text), "proc/self/limits") < 0 ||
	    !hard_limit(text, "Max open files", &files) || !hard_limit(text, "Max locked memory", &locked))
		return;
	(void)fsroot_read_u64(&doctor->root, &free_kib, 10, "proc/sys/kernel/perf_event_mlock_kb");
	if (files < wanted_files) {
		f = doctor_say(doctor, DOCTOR_WARN, "limits",
			       "%" PRIu64 " descriptors, but %zu CPUs want %" PRIu64
			       " (pghotd.service sets its own limit)",
			       files, cpus, wanted_files);
		doctor_todo(f, "outside of the unit: ulimit -Hn %" PRIu64, wanted_files);
	} else if (locked / cpus < RING_BYTES && free_kib << 10 < RING_BYTES) {
		f = doctor_say(doctor, DOCTOR_NOTE, "limits",
			       "%" PRIu64 " KiB of locked memory: rings get smaller (pghotd.service has no limit)",
			       locked >> 10);
		doctor_todo(f, "outside of the unit: ulimit -Hl unlimited");
	} else {
		doctor_say(doctor, DOCTOR_OK, "limits", "enough descriptors and locked memory for %zu CPU%s", cpus,
			   cpus == 1 ? "" : "s");
	}
}

void doctor_look_process(struct doctor *doctor, size_t cpus)
{
	char status[8192];

	look_at_namespaces(doctor);
	if (fsroot_read(&doctor->root, status, sizeof(status), "proc/self/status") > 0) {
		look_at_seccomp(doctor, status);
		look_at_capabilities(doctor, status);
	}
	look_at_limits(doctor, cpus);
}
