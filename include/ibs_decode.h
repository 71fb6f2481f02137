/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ibs_decode: from the raw record of an IBS unit to what its registers say. Every register, every field; no allocation,
 * no lock, no system call. The same bytes give the same result, whatever was decoded before. Fuzzed.
 *
 * Registers and their bits: arch/x86/include/asm/amd/ibs.h (asm/amd-ibs.h before 6.16); which of them is in a record:
 * arch/x86/events/amd/ibs.c, perf_ibs_handle_irq(); what is valid when: perf_ibs_get_mem_lvl() and its neighbours
 * there, and tools/perf/util/amd-sample-raw.c for erratum 1293. The memory profiler's: ibs_mprof_record.h.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ibs_caps.h"

enum ibs_pmu_kind {
	IBS_PMU_OP,    /* ibs_op */
	IBS_PMU_MPROF, /* ibs_mprof, by its stand-in */
	IBS_PMU_KINDS,
};

/*
 * Where the data came from, in the order in which the kernel looks. Known for loads; for a store no more than L1, L2 or
 * LINE_FILL, so which tier it hit must come from its physical address.
 */
enum ibs_source {
	IBS_SOURCE_NONE,     /* neither load nor store, a store beyond L2, or hardware gives no valid status */
	IBS_SOURCE_UNCACHED, /* then nothing else about the access is valid */
	IBS_SOURCE_L1,
	IBS_SOURCE_L2,
	IBS_SOURCE_LINE_FILL,       /* a line already on its way (MAB), where it comes from not being known */
	IBS_SOURCE_L3,              /* of this CCX, or another L1 or L2 in it */
	IBS_SOURCE_LOCAL_CACHE,     /* before Zen 4: some cache of this node */
	IBS_SOURCE_PEER_CACHE_NEAR, /* of another CCX, same node */
	IBS_SOURCE_PEER_CACHE_FAR,  /* of another node */
	IBS_SOURCE_DRAM,            /* see IBS_REMOTE_NODE */
	IBS_SOURCE_DRAM_FAR,        /* memory profiler only */
	IBS_SOURCE_PMEM,            /* "long-latency DIMM" */
	IBS_SOURCE_EXT_MEM,         /* "extension memory": CXL */
	IBS_SOURCE_PEER_AGENT,      /* coherent memory of a processor of another kind */
	IBS_SOURCE_MMIO,            /* MMIO, configuration space, APIC */
	IBS_SOURCE_OTHER_IO,        /* before Zen 4: "other" */
	IBS_SOURCE_RESERVED,        /* a code without a meaning so far */
	IBS_SOURCES,
};

/* ibs_op.control_flags: bits of OpCtl, where they stand there. */
enum ibs_control_flags {
	IBS_L3_MISS_ONLY = 1U << 16,
	IBS_ENABLED = 1U << 17, /* this and the next are set in every record */
	IBS_VALID = 1U << 18,
	IBS_COUNTS_OPS = 1U << 19, /* else cycles */
	/* The profiler's CTL2, moved here. */
	IBS_DISABLED = 1U << 24,
	IBS_EXCLUDES_USER = 1U << 25,
	IBS_EXCLUDES_KERNEL = 1U << 26,
};

/* ibs_op.op_flags: bits of OpData, less 32. The first three say something of branches only. */
enum ibs_op_flags {
	IBS_RETURN = 1U << 2,
	IBS_BRANCH_TAKEN = 1U << 3,
	IBS_BRANCH_MISPREDICTED = 1U << 4,
	IBS_BRANCH = 1U << 5,
	IBS_RIP_INVALID = 1U << 6, /* rip is some other op's */
	IBS_BRANCH_FUSED = 1U << 7,
	IBS_MICROCODE = 1U << 8,
};

/* ibs_op.source_flags: bits of OpData2, where they stand there; set only where they mean something. */
enum ibs_source_flags {
	IBS_REMOTE_NODE = 1U << 4, /* memory of another node */
	IBS_CACHE_OWNED = 1U << 5, /* line was in O-state; from a cache and clear: M-state */
	IBS_STREAMING_STORE = 1U << 8,
	IBS_REMOTE_SOCKET = 1U << 9,
};

/* ibs_op.access_flags: bits of OpData3, where they stand there. */
enum ibs_access_flags {
	IBS_LOAD = 1U << 0,
	IBS_STORE = 1U << 1, /* with IBS_LOAD: both, decoded as a load as the kernel does */
	IBS_L1_TLB_MISS = 1U << 2,
	IBS_L2_TLB_MISS = 1U << 3,
	/* The four of these are clear with IBS_CAP_DTLB_PAGE_SIZE: there page_shift says it. */
	IBS_L1_TLB_HIT_2M = 1U << 4,
	IBS_L1_TLB_HIT_1G = 1U << 5,
	IBS_L2_TLB_HIT_2M = 1U << 6,
	IBS_L2_TLB_HIT_1G = 1U << 19,
	IBS_DC_MISS = 1U << 7,
	IBS_MISALIGNED = 1U << 8,
	IBS_WRITE_COMBINING = 1U << 13,
	IBS_UNCACHED = 1U << 14,
	IBS_LOCKED = 1U << 15,
	IBS_NO_MAB = 1U << 16, /* missed on a line that was already on its way */
	IBS_LINEAR_VALID = 1U << 17,
	IBS_PHYSICAL_VALID = 1U << 18,
	IBS_L2_MISS = 1U << 20,
	IBS_SW_PREFETCH = 1U << 21,
};

/* One record. What its PMU or generation doesn't have is 0. */
struct ibs_op {
	uint64_t rip; /* may be another op's: IBS_RIP_INVALID */
	uint16_t completion_to_retire_cycles;
	uint16_t tag_to_retire_cycles;
	uint32_t op_flags; /* enum ibs_op_flags */
	uint64_t linear;   /* anything without IBS_LINEAR_VALID */
	uint64_t physical; /* anything without IBS_PHYSICAL_VALID; and as it stands there, see ibs_to_sample() */
	uint64_t branch_target;
	uint64_t data4;                 /* no field of it is public */
	uint32_t access_flags;          /* enum ibs_access_flags */
	uint16_t miss_latency_cycles;   /* of a load that missed L1 and was neither uncached nor a prefetch; else 0 */
	uint16_t refill_latency_cycles; /* of the L1 TLB */
	uint32_t control_flags;         /* enum ibs_control_flags */
	uint32_t current_count;         /* below 2^27 */
	uint32_t max_count;             /* the period that hardware took: a multiple of 16 below 2^27 */
	uint16_t width_bytes;           /* of the access: 1..16384, a power of two; 0: not known */
	uint8_t open_requests;          /* outstanding to memory when the line came: 0..63 */
	/* 12, 21, 30; 0: not known. Without IBS_CAP_DTLB_PAGE_SIZE only from hits in a large entry of a TLB. */
	uint8_t page_shift;
	uint8_t source;                    /* enum ibs_source */
	uint8_t source_code;               /* as in the register: 0..31, 0..7 before Zen 4 */
	uint16_t source_flags;             /* enum ibs_source_flags */
	uint16_t latency_threshold_cycles; /* of the hardware's load-latency filter: 128..2048; 0: off */
	uint16_t reserved;
	uint32_t caps; /* enum ibs_caps, and bits from the future */
};

/* What a decoder must know of the machine and of whom it serves. */
struct ibs_decoder_params {
	enum ibs_pmu_kind kind;
	unsigned int family, model; /* of the CPU, as /proc/cpuinfo has them; for errata */
	unsigned int physical_bits; /* "address sizes" in /proc/cpuinfo, 32..52; 0: not known */
	uint32_t self_pid;          /* samples of it are discarded; 0: none */
	/* The kernel lets samples of its own mode through, and nobody wants them. */
	bool user_only;
};

#define IBS_SOURCE_CODES 32
/* Questions about an access whose answers, together, tell its source: see ibs_decode_learn.c. */
#define IBS_SOURCE_CASES 64

/*
 * Owner    one thread at a time
 * A plain value. Beside what it was given it holds what follows from the capabilities in the last record, which on one
 * machine are always the same.
 */
struct ibs_decoder {
	struct ibs_decoder_params params;
	uint64_t physical_mask;
	bool erratum_1293;
	bool no_cache_state;
	/* From here on by ibs_decode_learn(). */
	uint32_t caps;
	uint32_t bytes;        /* of a record with these caps; the most there is: none seen */
	uint64_t control_mask; /* what may be taken from the registers */
	uint64_t rip_data_mask[2];
	uint64_t access_mask;
	uint64_t threshold_and_caps[256]; /* by bits 63:56 of OpCtl */
	/*
	 * By the low three bytes of OpData3: the fields of it that are valid as far as that byte knows. In the place of
	 * bits 27:22 the questions, in that of 30:28 the page size.
	 */
	uint64_t valid[3][256];
	uint32_t page_shift[16];           /* in the place of width_and_requests that is left */
	uint32_t width_and_requests[1024]; /* by bits 31:22 of OpData3 */
	uint16_t source_code[256];         /* by the low byte of OpData2, times IBS_SOURCE_CASES */
	/* By code and case: source, code and which of the flags mean something, as they stand in struct ibs_op. */
	uint32_t source[IBS_SOURCE_CODES * IBS_SOURCE_CASES];
};

/* Any thread that owns @decoder. About 20 KiB, and no more memory to be freed. */
void ibs_decoder_init(struct ibs_decoder *decoder, const struct ibs_decoder_params *params);

/*
 * Take apart the @bytes of a PERF_SAMPLE_RAW at @raw, which need no alignment. 0; -EBADMSG when there are fewer than
 * the capabilities in them say, or the sample isn't one (enable and valid bit must be set); -ENOTSUP when there are
 * more, so that some register is not what we take it for, or when a profiler's record comes from a machine without one.
 * Bits in the capabilities that we don't know are accepted as long as the length is as without them. @ret is undefined
 * on failure.
 */
int ibs_decode(struct ibs_decoder *decoder, const void *raw, size_t bytes, struct ibs_op *ret);

/* In lower case, for people: "ext_mem". NULL for what is no enum ibs_source. */
const char *ibs_source_name(unsigned int source);
