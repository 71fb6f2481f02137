/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>

#include "privops.h"

/* false where it doesn't say: then it is taken for a root's. */
static bool lacks_capability(const struct fsroot *root, int cap)
{
	char text[4096];
	const char *line;
	uint64_t caps;

	if (fsroot_read(root, text, sizeof(text), "proc/self/status") < 0)
		return false;
	line = strstr(text, "\nCapEff:");
	return line && sscanf(line, "\nCapEff: %" SCNx64, &caps) == 1 && !(caps >> cap & 1);
}

/* perf_allow_cpu() and, with level 3, Debian's perf_paranoid_any(). */
static int may_open(const struct fsroot *root)
{
	char text[32] = "2";
	int level;

	(void)fsroot_read(root, text, sizeof(text), "proc/sys/kernel/perf_event_paranoid");
	if (sscanf(text, "%d", &level) != 1 || level <= 0 || !lacks_capability(root, CAP_SYS_ADMIN))
		return 0;
	return level >= 3 || lacks_capability(root, CAP_PERFMON) ? -EACCES : 0;
}

static int elsewhere_event_open(void *ctx, const struct perf_event_attr *attr, int cpu)
{
	const struct privops *priv = ctx;
	int r, fd;

	/* What every kernel numbers alike can be tried on this one. */
	if (attr->type < PERF_TYPE_MAX)
		return privops_direct.event_open(NULL, attr, cpu);
	r = may_open(&priv->root);
	if (r < 0)
		return r;
	fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

const struct privops_ops privops_elsewhere = { .event_open = elsewhere_event_open };
