/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Parameters, start and end of the lab's IBS module. */
#include <linux/cpuhotplug.h>
#include <linux/module.h>
#include <linux/string.h>

#include "ibs_mprof_record.h"
#include "pghot_ibs.h"

/* What generations show in CPUID Fn8000_001B EAX, their loads from far memory. */
static const struct generation {
	const char *name;
	u32 caps;
	u32 far_source;
	bool far_remote;
} generations[] = {
	{ "zen3", 0x3ff, 3, true },
	{ "zen4", 0xbff, 8, false },
	{ "zen5", 0x81bff, 8, false },
	{ "zen6", 0xdfbff, 8, false },
};

static char *name = "ibs_op";
module_param(name, charp, 0444);
MODULE_PARM_DESC(name, "name of the PMU: ibs_op, ibs_mprof, or none");

static char *gen;
module_param(gen, charp, 0444);
MODULE_PARM_DESC(gen, "zen3, zen4, zen5 or zen6 (zen4; zen6 for ibs_mprof)");

static uint caps;
module_param(caps, uint, 0444);
MODULE_PARM_DESC(caps, "the word of capabilities itself, instead of the generation's");

static ulong min_period = 16;
module_param(min_period, ulong, 0444);
MODULE_PARM_DESC(min_period, "smallest period that is taken; newer kernels: 144, ibs_mprof: 5008");

static uint ops_per_miss = 1;
module_param(ops_per_miss, uint, 0444);
MODULE_PARM_DESC(ops_per_miss,
		 "with L3MissOnly a miss counts as so many operations, as the period's unit is on hardware");

static bool strict_period;
module_param(strict_period, bool, 0444);
MODULE_PARM_DESC(strict_period, "PERF_EVENT_IOC_PERIOD refuses periods that aren't multiples of 16 or too small");

static bool swfilt;
module_param(swfilt, bool, 0444);
MODULE_PARM_DESC(swfilt, "format/swfilt and exclude_user, exclude_kernel as newer kernels have them");

static uint wipe_phys;
module_param(wipe_phys, uint, 0444);
MODULE_PARM_DESC(wipe_phys,
		 "take out physical addresses: 0 never, 1 by the interrupted task, 2 always, 3 by the opener");

static bool tagged;
module_param(tagged, bool, 0444);
MODULE_PARM_DESC(tagged, "L3MissOnly as hardware does it: count accesses, start anew when the one met is no miss");

static int far_source = -1;
module_param(far_source, int, 0444);
MODULE_PARM_DESC(far_source, "DataSrc code of far memory (3 DRAM, 6 PMEM, 8 extension memory; by the generation)");

static int far_remote = -1;
module_param(far_remote, int, 0444);
MODULE_PARM_DESC(far_remote, "RmtNode bit of far memory (by the generation)");

static uint interval_us = 1000;
module_param(interval_us, uint, 0444);
MODULE_PARM_DESC(interval_us, "how often samples are taken over, 50 to 10000; more often slows the machine down");

static bool tell_time;
module_param(tell_time, bool, 0444);
MODULE_PARM_DESC(tell_time, "tell the kernel what a sample takes, as the handler of real hardware does");

struct ibs_setup ibs_setup;
static enum cpuhp_state hotplug_state;

static int choose_setup(void)
{
	const struct generation *chosen = NULL;
	size_t i;

	ibs_setup.name = strcmp(name, "none") ? name : NULL;
	ibs_setup.is_profiler = !strcmp(name, "ibs_mprof");
	if (!gen)
		gen = ibs_setup.is_profiler ? "zen6" : "zen4";
	for (i = 0; i < ARRAY_SIZE(generations); i++) {
		if (!strcmp(generations[i].name, gen))
			chosen = &generations[i];
	}
	if (!chosen || wipe_phys > IBS_WIPE_OPENER || interval_us < 50 || interval_us > 10000 || !min_period ||
	    !ops_per_miss)
		return -EINVAL;
	ibs_setup.caps = caps ?: chosen->caps;
	ibs_setup.min_period = min_period;
	ibs_setup.ops_per_miss = ops_per_miss;
	ibs_setup.strict_period = strict_period;
	ibs_setup.soft_filter = swfilt;
	ibs_setup.wipe = wipe_phys;
	ibs_setup.tagged_misses = tagged;
	ibs_setup.far_source = far_source < 0 ? chosen->far_source : far_source & 0x1f;
	ibs_setup.far_remote = far_remote < 0 ? chosen->far_remote : far_remote > 0;
	ibs_setup.interval_us = interval_us;
	ibs_setup.tell_time = tell_time;
	return 0;
}

/* On the CPU that came. Its events have to be opened anew, as on any machine. */
static int cpu_came(unsigned int cpu)
{
	return ibs_channel_join();
}

static int __init start(void)
{
	int r = choose_setup();

	if (r)
		return r;
	r = ibs_record_find_perf();
	if (r)
		return r;
	r = ibs_channel_open();
	if (r)
		return r;
	r = cpuhp_setup_state(CPUHP_AP_ONLINE_DYN, "pghot_ibs:online", cpu_came, NULL);
	if (r < 0)
		goto close;
	hotplug_state = r;
	r = ibs_debug_register();
	if (r)
		goto no_hotplug;
	r = ibs_setup.name ? ibs_pmu_register() : 0;
	if (r)
		goto no_debug;
	pr_info("pghot_ibs: PMU %s, capabilities %#x\n", ibs_setup.name ?: "none", ibs_setup.caps);
	return 0;
no_debug:
	ibs_debug_unregister();
no_hotplug:
	cpuhp_remove_state(hotplug_state);
close:
	ibs_channel_close();
	return r;
}

static void __exit end(void)
{
	if (ibs_setup.name)
		ibs_pmu_unregister();
	ibs_debug_unregister();
	cpuhp_remove_state(hotplug_state);
	ibs_channel_close();
}

module_init(start);
module_exit(end);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("A perf PMU like AMD's IBS, fed by the emulator; for the lab's machine only");
