/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ibs_pmu_absent: why a machine shows no IBS unit, as far as /proc/cpuinfo tells, and what would change that. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "cleanup.h"
#include "ibs_pmu.h"

struct cpu {
	bool known, amd, intel, guest, ibs;
};

/* Is @word one of the flags of the first CPU? */
static bool has_flag(const char *text, const char *word)
{
	const char *at = strstr(text, "\nflags"), *end = at ? strchr(at + 1, '\n') : NULL;
	size_t n = strlen(word);

	while (at && (at = strstr(at, word)) && (!end || at < end)) {
		char before = at[-1], after = at[n];

		if (before == ' ' && (after == ' ' || after == '\n' || after == '\0'))
			return true;
		at += n;
	}
	return false;
}

static struct cpu read_cpu(const struct fsroot *root)
{
	_cleanup_free_ char *text = NULL;

	if (fsroot_read_alloc(root, &text, "proc/cpuinfo") < 0)
		return (struct cpu){ 0 };
	return (struct cpu){
		.known = true,
		.amd = strstr(text, "AuthenticAMD") || strstr(text, "HygonGenuine"),
		.intel = strstr(text, "GenuineIntel"),
		.guest = has_flag(text, "hypervisor"),
		.ibs = has_flag(text, "ibs"),
	};
}

void ibs_pmu_absent(const struct fsroot *root, char *why)
{
	struct cpu cpu = read_cpu(root);
	const char *more;

	if (cpu.ibs)
		more = "although the CPU has IBS: dmesg | grep IBS may say why; some kernels with their own pghot take "
		       "it "
		       "for themselves";
	else if (cpu.amd && cpu.guest)
		more = "a virtual machine has it only where its host passes IBS through, which few can; sample on the "
		       "host, or by hint_faults here";
	else if (cpu.amd)
		more = "this AMD CPU shows no IBS (flag ibs in /proc/cpuinfo): the firmware may have it switched off";
	else if (cpu.intel)
		more = "IBS is a part of AMD's CPUs, and this is one of Intel's: use hint_faults here";
	else if (cpu.guest)
		more = "AMD's CPUs have it, and a virtual machine only where its host passes IBS through: use "
		       "hint_faults "
		       "here";
	else
		more = "AMD's CPUs have it, and in a virtual machine the host must pass it through";
	snprintf(why, IBS_WHY_MAX, "no perf unit ibs_op here: %s", more);
}
