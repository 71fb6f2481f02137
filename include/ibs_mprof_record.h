/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ibs_mprof_record: stand-in for a perf PMU named "ibs_mprof", the Zen 6 memory profiler.
 *
 * No kernel shows such a PMU yet, so nobody knows its record, its formats or its caps. All that pghotd assumes of one
 * is here and nowhere else; a PMU of that name that shows anything else is refused rather than guessed at. The record
 * is the profiler's registers in the order of their numbers, behind the word of capabilities as in the records of
 * ibs_op; registers and bits are those that the posted in-kernel driver programs and reads
 * (arch/x86/include/asm/ibs-mprof.h and msr-index.h of that series). The positions of its latency filter are not known,
 * so there is no format for one. When a kernel defines a record, this header is to be replaced by what that kernel
 * says.
 *
 * Shared with the lab's kernel module, which is such a PMU: no header of the C library here.
 */
#pragma once

#include <linux/types.h>

/* Payload of PERF_SAMPLE_RAW: 52 bytes, so that size word and payload fill whole u64. Never aligned: copy it out. */
struct ibs_mprof_record {
	__u32 caps; /* CPUID Fn8000_001B EAX; bit 18: there is a memory profiler */
	__u64 ctl;
	__u64 ctl2;
	__u64 data2;
	__u64 data3;
	__u64 linaddr;
	__u64 physaddr;
} __attribute__((packed));

/* ctl */
#define IBS_MPROF_CTL_MAX_COUNT    0x07f0ffffULL /* bits 19:4 of the period in 15:0, 26:20 in 26:20 */
#define IBS_MPROF_CTL_L3_MISS_ONLY (1ULL << 16)
#define IBS_MPROF_CTL_ENABLE       (1ULL << 17)
#define IBS_MPROF_CTL_VALID        (1ULL << 18)
#define IBS_MPROF_CTL_COUNT_OPS    (1ULL << 19)

/* ctl2 */
#define IBS_MPROF_CTL2_DISABLE        (1ULL << 0)
#define IBS_MPROF_CTL2_EXCLUDE_USER   (1ULL << 1)
#define IBS_MPROF_CTL2_EXCLUDE_KERNEL (1ULL << 2)

/* data2: source of the data in bits 2:0 and 7:6; only loads have one */
#define IBS_MPROF_DATA2_SOURCE(data2) (((data2)&7) | ((data2) >> 3 & 0x18))
#define IBS_MPROF_DATA2_REMOTE_NODE   (1ULL << 4)
#define IBS_MPROF_DATA2_REMOTE_SOCKET (1ULL << 9)

/* Sources. 7 is far memory here; in ibs_op the same code means I/O. */
#define IBS_MPROF_SOURCE_CCX      1
#define IBS_MPROF_SOURCE_NEAR_CCX 2
#define IBS_MPROF_SOURCE_DRAM     3
#define IBS_MPROF_SOURCE_FAR_CCX  5
#define IBS_MPROF_SOURCE_DRAM_FAR 7
#define IBS_MPROF_SOURCE_EXT_MEM  8

/* data3 */
#define IBS_MPROF_DATA3_LOAD           (1ULL << 0)
#define IBS_MPROF_DATA3_STORE          (1ULL << 1)
#define IBS_MPROF_DATA3_DC_MISS        (1ULL << 7)
#define IBS_MPROF_DATA3_LINADDR_VALID  (1ULL << 17)
#define IBS_MPROF_DATA3_PHYSADDR_VALID (1ULL << 18)
#define IBS_MPROF_DATA3_L2_MISS        (1ULL << 20)
#define IBS_MPROF_DATA3_SW_PREFETCH    (1ULL << 21)

/* Periods: what the announcement of the driver says it enforces, and 27 bits without the low 4. */
#define IBS_MPROF_PERIOD_MIN 5008ULL
#define IBS_MPROF_PERIOD_MAX 0x7fffff0ULL

/*
 * The formats that we know the meaning of: FORMAT(name, text). Those of ibs_op, since a kernel that shows the profiler
 * through perf will hardly name the same things anew. cnt_ctl must be there, the others may be missing.
 */
#define IBS_MPROF_FORMATS(FORMAT)         \
	FORMAT("cnt_ctl", "config:19")    \
	FORMAT("l3missonly", "config:16") \
	FORMAT("swfilt", "config2:0")     \
	FORMAT("ldlat", "config1:0-11")   \
	FORMAT("strmst", "config1:12")

/* The caps likewise; each reads "1". */
#define IBS_MPROF_CAPS(CAP)        \
	CAP("zen4_ibs_extensions") \
	CAP("ldlat")               \
	CAP("dtlb_pgsize")         \
	CAP("strmst")              \
	CAP("rmtsocket")
