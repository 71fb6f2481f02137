/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The file that the emulator's plugin and the guest's test module share.
 *
 * The plugin (on the host) maps the file, the module (in the guest) maps the same
 * bytes as BAR 2 of an ivshmem device. Either side only writes the fields that are
 * marked as its own. Both run on the same kind of CPU (x86-64), so an aligned word
 * is read whole and stores are seen in their order; a compiler barrier is enough
 * where "release" and "acquire" are said below.
 *
 * Compiles in the kernel and outside of it.
 */
#pragma once

#include <linux/types.h>

#define IBS_SHARED_MAGIC   0x53424948474f5450ULL
#define IBS_SHARED_VERSION 4

/** Size of the file and of the BAR; a power of two as PCI wants it. */
#define IBS_SHARED_BYTES (16UL << 20)

#define IBS_CPUS_MAX  16
#define IBS_NODES_MAX 8
/** Index in ibs_shared.node of accesses whose node isn't known (yet). */
#define IBS_NODE_UNKNOWN IBS_NODES_MAX
#define IBS_RANGES_MAX   64

/** Entries of each CPU's ring; a power of two. */
#define IBS_RING_ENTRIES 4096U

/** Where the rings begin, and after them the histogram of pages. */
#define IBS_RINGS_OFFSET (64UL << 10)
#define IBS_PAGES_OFFSET (8UL << 20)
/** Pages that the histogram has room for: 4 GiB of guest memory. */
#define IBS_PAGES_MAX ((IBS_SHARED_BYTES - IBS_PAGES_OFFSET) / sizeof(struct ibs_page))

/** What the period counts. */
enum ibs_mode {
	IBS_MODE_ACCESSES, /* loads and stores; each one can be the sample */
	IBS_MODE_CYCLES,   /* modelled cycles, so slow accesses are met more often */
	IBS_MODE_MISSES,   /* L3 misses; each one can be the sample */
	IBS_MODE_TAGGED,   /* loads and stores; when the one met is no L3 miss, counting starts anew */
};

/** Where an access was served, from the cache model. */
enum ibs_level {
	IBS_LEVEL_L1 = 1,
	IBS_LEVEL_L2,
	IBS_LEVEL_L3,
	IBS_LEVEL_MEMORY,
};

#define IBS_ENTRY_STORE       0x01
#define IBS_ENTRY_L1_TLB_MISS 0x02
#define IBS_ENTRY_L2_TLB_MISS 0x04

/** One sampled access. */
struct ibs_entry {
	__u64 vaddr;       /* as the instruction used it */
	__u64 phys;        /* of the guest; 0 as long as its memory range wasn't learnt */
	__u64 ip;          /* of the instruction */
	__u64 period;      /* that led to it */
	__u16 latency;     /* modelled cycles from the L1 miss on, 0 for an L1 hit */
	__u16 tlb_latency; /* modelled cycles, 0 for a hit in the first TLB */
	__u8 level;        /* enum ibs_level */
	__u8 node;         /* of the memory, IBS_NODE_UNKNOWN */
	__u8 size;         /* bytes: 1 to 16 */
	__u8 flags;        /* IBS_ENTRY_* */
};

/** One CPU's settings and ring. Index: the emulator's number of the CPU. */
struct ibs_cpu {
	/* the module's */
	__u64 period; /* 0: off. Of what, mode says */
	__u32 mode;   /* enum ibs_mode */
	__u32 paused; /* not 0 while the module's own handler runs: nothing counts towards the period */
	__u64 tail;   /* entries taken so far; released after they were copied */
	__u64 pad0[5];
	/* the plugin's */
	__u64 head;       /* entries written so far; released after they are whole */
	__u64 dropped;    /* samples that found the ring full */
	__u64 busy;       /* TSC cycles that emulating this CPU took, without what interrupted the emulator */
	__u64 gap_cycles; /* the same from one L3 miss of user programs to the next, waits for memory aside; */
	__u64 gaps;       /* of so many, without those that something came between */
	__u64 pad1[3];
};

/** The truth about one node: every access there was, not a sample of them. */
struct ibs_counts {
	__u64 loads[2]; /* [0] by user programs, [1] by the kernel */
	__u64 stores[2];
	__u64 misses[2]; /* those of both that missed L3 */
};

/** The truth about one page of guest memory, by PFN; wraps around. */
struct ibs_page {
	__u32 accesses;
	__u32 misses;
};

struct ibs_shared {
	/* the plugin's, before the guest runs */
	__u64 magic;
	__u32 version;
	__u32 nr_cpus;
	__u32 nr_pages; /* 0: no histogram is kept */
	__u32 l3_sets;
	__u32 l3_ways;
	__u32 pad0;
	__u64 miss_gap;             /* TSC cycles from one L3 miss to the next now, waits aside, times 1024 */
	__u32 delay[IBS_NODES_MAX]; /* percent of that to wait for an L3 miss, as configured */

	/*
	 * Learning where the guest's memory is. The module fills touch_* (touch_vaddr
	 * last) and reads one byte at touch_vaddr; the plugin, seeing that very access,
	 * knows that its own address for it belongs to touch_phys, and by that the whole
	 * range around it. touch_cpu is the number of the CPU that read it, and
	 * touch_seen, which grows by one, says that the answer is there.
	 */
	__u64 touch_vaddr; /* the module's; 0: none */
	__u64 touch_phys;
	__u64 touch_first; /* physical range, same node: [touch_first, touch_end) */
	__u64 touch_end;   /* equal to touch_first: only the CPU is asked for */
	__u32 touch_node;
	__u32 touch_cpu; /* the plugin's */
	__u32 touch_seen;
	__u32 nr_ranges; /* the plugin's: ranges learnt, neighbours joined */

	struct ibs_counts node[IBS_NODES_MAX + 1];
	struct ibs_cpu cpu[IBS_CPUS_MAX];
};
