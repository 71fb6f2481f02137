/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Test module: a perf PMU that looks like AMD's IBS, fed by the emulator's plugin.
 * For the lab's virtual machine only.
 */
#pragma once

#include <linux/hrtimer.h>
#include <linux/perf_event.h>
#include <linux/types.h>

#include "ibs_raw.h"
#include "ibs_shared.h"

/* CPUID Fn8000_001B EAX */
#define IBS_CAP_COUNT_OPS        (1U << 4)
#define IBS_CAP_BRANCH_TARGET    (1U << 5)
#define IBS_CAP_LONG_PERIOD      (1U << 6)
#define IBS_CAP_DATA4            (1U << 10)
#define IBS_CAP_ZEN4             (1U << 11)
#define IBS_CAP_LATENCY_FILTER   (1U << 12)
#define IBS_CAP_RIP_FILTER       (1U << 15)
#define IBS_CAP_STREAMING_STORES (1U << 16)
#define IBS_CAP_PROFILER         (1U << 18)
#define IBS_CAP_DTLB_PGSIZE      (1U << 19)

/* attr.config and config1, config2 */
#define IBS_CONFIG_MAX_COUNT_LOW  0xffffULL
#define IBS_CONFIG_MAX_COUNT_HIGH (0x7fULL << 20)
#define IBS_CONFIG_L3_MISS_ONLY   (1ULL << 16)
#define IBS_CONFIG_COUNT_OPS      (1ULL << 19)
#define IBS_CONFIG1_LATENCY       0xfffULL
#define IBS_CONFIG1_STREAMING     (1ULL << 12)
#define IBS_CONFIG2_SOFT_FILTER   (1ULL << 0)

/* When the physical address is taken out of a sample. */
enum ibs_wipe {
	IBS_WIPE_NEVER,       /* kernels up to 6.13 */
	IBS_WIPE_INTERRUPTED, /* where the interrupted task may not see kernel data: about 6.14 to 7.0 */
	IBS_WIPE_ALWAYS,      /* the same, for every sample */
	IBS_WIPE_OPENER,      /* where the opener may not; the address is 0 but called valid: later ones */
};

/* What the machine and its kernel are made to look like; set once at load. */
struct ibs_setup {
	const char *name; /* of the PMU, or NULL: none, only the truth is kept */
	bool is_profiler; /* ibs_mprof: other registers in the record */
	u32 caps;
	u64 min_period;
	u32 ops_per_miss;   /* 1 or more */
	bool strict_period; /* PERF_EVENT_IOC_PERIOD refuses what open() would round */
	bool soft_filter;   /* format/swfilt, and exclude_user and exclude_kernel with it */
	enum ibs_wipe wipe;
	bool tagged_misses; /* L3MissOnly: the period counts accesses, not misses */
	u32 far_source;     /* DataSrc of loads from nodes without CPUs */
	bool far_remote;    /* RmtNode of the same */
	u32 interval_us;
	bool tell_time; /* perf_sample_event_took() for each sample: the kernel lowers its rate when they take long */
};

extern struct ibs_setup ibs_setup;

/* Counts of one CPU since load; written on that CPU with interrupts off. */
struct ibs_stats {
	u64 emitted;
	u64 stale;     /* the task had gone, or the page, before the timer came */
	u64 filtered;  /* by exclude_*, ldlat or strmst */
	u64 throttled; /* met in the ring while the event was throttled */
	u64 throttles;
	u64 rests; /* pauses of sampling after a round that took too long */
	u64 timers;
	u64 handler_ns; /* spent on samples */
	u64 injected;
};

/* What the last perf_event_open() for a CPU asked for. */
struct ibs_asked {
	u64 opens;
	u64 config, config1, config2;
	u64 sample_type;
	u64 period; /* as the attribute had it */
	u64 freq;
	u32 exclude; /* bits: 0 user, 1 kernel, 2 hv, 3 idle, 4 host, 5 guest */
	int result;
};

struct ibs_percpu {
	struct ibs_cpu *channel; /* NULL: the CPU was never online since load */
	struct ibs_entry *ring;
	struct perf_event *event; /* the one that was added; this CPU, interrupts off */
	bool running;             /* between start and stop */
	bool draining;            /* perf is being told; it may stop and start the event meanwhile */
	struct hrtimer timer;
	u64 round_ns;   /* of the timer's last round, */
	u64 round_tail; /* and how many samples there had been */
	u64 wanted;     /* perf's period when the plugin was told last */
	u64 programmed; /* what it was told */
	u32 factor;     /* ops_per_miss where misses are counted, else 1 */
	u64 drained_ns;
	u64 rest_until_ns;
	struct ibs_stats stats;
};

DECLARE_PER_CPU(struct ibs_percpu, ibs_percpu);
extern struct ibs_asked ibs_asked[IBS_CPUS_MAX];
/* debugfs hold: events stay as they are, but nothing is sampled and no timer costs anything. */
extern bool ibs_hold;

/* channel.c: the shared file */
extern struct ibs_shared *ibs_shared;

/**
 * ibs_channel_open - map the shared file and let the plugin learn the memory
 *
 * Returns 0; -ENODEV when there is no ivshmem device or no plugin behind it, -ENXIO
 * when the plugin doesn't see this machine's accesses. May sleep.
 */
int ibs_channel_open(void);

/** ibs_channel_close - unmap it; nothing may use a channel any more */
void ibs_channel_close(void);

/**
 * ibs_channel_join - find out which of the emulator's CPUs this one is
 *
 * Runs on the CPU that it is for, may sleep. Returns 0 or -ENXIO.
 */
int ibs_channel_join(void);

/* pmu.c */

/** ibs_pmu_register - show the PMU; returns 0 or what perf said. May sleep. */
int ibs_pmu_register(void);

/** ibs_pmu_unregister - take it away; the module's users are gone by then */
void ibs_pmu_unregister(void);

/**
 * ibs_pmu_inject - one sample from raw register values on this CPU's active event
 *
 * Any task. Returns 0, or -ENODEV when no event runs here.
 */
int ibs_pmu_inject(const struct ibs_raw *raw);

/* record.c: registers and what perf is told from them. Any context. */

/**
 * ibs_record_build - the registers of an IBS that had sampled this access
 * @huge: the page is part of a 2 MiB one
 */
void ibs_record_build(struct ibs_raw *raw, const struct ibs_entry *entry, const struct perf_event *event, bool huge);

/**
 * ibs_record_emit - hand a sample to perf
 * @ip: where an interrupt at once would have come, for a record that has no register
 *      for it; 0: where regs say
 * @regs: of the interrupted task, or NULL; instruction address and mode are set here
 *
 * Returns true when perf wants the event throttled. Interrupts are off.
 */
bool ibs_record_emit(struct perf_event *event, struct ibs_raw *raw, u64 ip, const struct pt_regs *regs);

/** ibs_record_filtered - what the driver drops in software; see attr.config1 and exclude_* */
bool ibs_record_filtered(const struct perf_event *event, const struct ibs_entry *entry);

/** ibs_record_find_perf - get at perf_event_overflow() and perf_sample_event_took(); 0 or -errno. May sleep. */
int ibs_record_find_perf(void);

/** ibs_record_took - tell perf that @nr samples took @ns together. With interrupts off. */
void ibs_record_took(u64 nr, u64 ns);

/* debug.c: debugfs pghot_ibs/ and /dev/pghot_ibs_raw. May sleep. */
int ibs_debug_register(void);
void ibs_debug_unregister(void);
