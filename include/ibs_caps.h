/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ibs_caps: what an IBS unit can do: the word of capabilities, CPUID Fn8000_001B EAX, which stands in front of every
 * raw record. Names and positions: arch/x86/include/asm/perf_event.h (IBS_CAPS_*), and the posted series for Zen 5 and
 * 6 for bits 13 to 19. Bits 17 and 20 to 31 are not named anywhere.
 */
#pragma once

enum ibs_caps {
	IBS_CAP_AVAILABLE = 1U << 0,
	IBS_CAP_FETCH_SAMPLING = 1U << 1,
	IBS_CAP_OP_SAMPLING = 1U << 2,
	IBS_CAP_COUNT_READABLE = 1U << 3,
	IBS_CAP_COUNT_OPS = 1U << 4,
	IBS_CAP_BRANCH_TARGET = 1U << 5, /* a register more in the record */
	IBS_CAP_LONG_COUNT = 1U << 6,    /* periods of 27 bits, else 20 */
	IBS_CAP_RIP_INVALID = 1U << 7,
	IBS_CAP_BRANCH_FUSE = 1U << 8,
	IBS_CAP_FETCH_CTL_EXTENDED = 1U << 9,
	IBS_CAP_DATA4 = 1U << 10, /* a register more in the record */
	IBS_CAP_ZEN4 = 1U << 11,  /* L3-miss-only, data source of 5 bits */
	IBS_CAP_LOAD_LATENCY = 1U << 12,
	IBS_CAP_ALT_DISABLE = 1U << 13,
	IBS_CAP_FETCH_LATENCY = 1U << 14,
	IBS_CAP_RIP_FILTER = 1U << 15,      /* user or kernel by bit 63 of the instruction address, in hardware */
	IBS_CAP_STREAMING_STORE = 1U << 16, /* and the remote-socket bit */
	IBS_CAP_MEMORY_PROFILER = 1U << 18,
	IBS_CAP_DTLB_PAGE_SIZE = 1U << 19,
};
