/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ibs_pmu_pghot: the kernel's own promotion by IBS, as posted: Documentation/admin-guide/mm/pghot.rst of that series.
 * Where its settings are has changed: sysctls in the newest version, debugfs up to v7.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ibs_pmu.h"
#include "parse.h"

#define SYSCTL  "proc/sys/vm/pghot_enabled_sources"
#define DEBUGFS "sys/kernel/debug/pghot/enabled_sources"
#define THREAD  "kmigrated"

/* One kmigrated thread for each lower node. Other programs may call themselves so, but they have a command line. */
static int look_at_process(void *ctx, const char *name)
{
	const struct fsroot *root = ctx;
	char text[64];
	uint64_t pid, nid;

	if (parse_u64(name, 1, INT32_MAX, &pid) < 0)
		return 0;
	if (fsroot_read(root, text, sizeof(text), "proc/%s/comm", name) < 0)
		return 0; /* gone */
	if (strncmp(text, THREAD, strlen(THREAD)) != 0 || parse_u64(text + strlen(THREAD), 0, UINT32_MAX, &nid) < 0)
		return 0;
	return fsroot_read(root, text, sizeof(text), "proc/%s/cmdline", name) == 0 ? 1 : 0;
}

/* Bits: 0 hint faults, 1 hardware. As sysctl, decimal or hexadecimal. */
static int read_sources(const struct fsroot *root, const char *path, uint64_t *ret)
{
	int r = fsroot_read_u64(root, ret, 10, "%s", path);

	return r == -EINVAL ? fsroot_read_u64(root, ret, 16, "%s", path) : r;
}

int ibs_pmu_pghot_debugfs(const struct fsroot *root, uint64_t *ret)
{
	int r = fsroot_ask(root, FSROOT_PGHOT_SOURCES, 0, 0, NULL, 0);

	if (r == -ENOSYS)
		return read_sources(root, DEBUGFS, ret);
	if (r < 0)
		return r;
	*ret = (uint64_t)r;
	return 0;
}

enum ibs_pghot ibs_pmu_pghot(const struct fsroot *root, char *why)
{
	static const struct {
		const char *path, *name, *off;
	} settings[] = {
		{ SYSCTL, "vm.pghot_enabled_sources", "sysctl -w vm.pghot_enabled_sources=0" },
		{ DEBUGFS, "/sys/kernel/debug/pghot/enabled_sources",
		  "echo 0 > /sys/kernel/debug/pghot/enabled_sources" },
	};
	uint64_t sources;

	why[0] = '\0';
	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
		int r = strcmp(settings[i].path, DEBUGFS) == 0 ? ibs_pmu_pghot_debugfs(root, &sources)
							       : read_sources(root, settings[i].path, &sources);

		if (r == 0 && sources == 0) {
			snprintf(why, IBS_WHY_MAX, "the kernel's own pghot is there, but off (%s is 0)",
				 settings[i].name);
			return IBS_PGHOT_IDLE;
		}
		if (r == 0) {
			snprintf(why, IBS_WHY_MAX,
				 "the kernel promotes as well: %s is %" PRIu64 "; to leave it to pghotd: %s",
				 settings[i].name, sources, settings[i].off);
			return IBS_PGHOT_ACTIVE;
		}
	}
	if (fsroot_for_each(root, look_at_process, (void *)(uintptr_t)root, "proc") > 0) {
		snprintf(why, IBS_WHY_MAX,
			 "the kernel has a thread " THREAD
			 ", so it may promote as well, and where to switch that off is "
			 "not to be seen (debugfs mounted?)");
		return IBS_PGHOT_ACTIVE;
	}
	return IBS_PGHOT_NONE;
}
