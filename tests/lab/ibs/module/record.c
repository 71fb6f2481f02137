/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Registers of a sampled access, and what perf is told from registers. The second half
 * reads nothing but registers, so that values a test injects go the same way.
 */
#include <linux/kprobes.h>
#include <linux/log2.h>
#include <linux/perf_event.h>
#include <linux/string.h>

#include <asm/perf_event.h>
#include <asm/ptrace.h>

#include "ibs_mprof_record.h"
#include "pghot_ibs.h"

/* Registers of ibs_op's record, in its order. */
enum {
	OP_CTL,
	OP_RIP,
	OP_DATA,
	OP_DATA2,
	OP_DATA3,
	OP_LINADDR,
	OP_PHYSADDR,
	OP_FIXED,
};

/* Registers of ibs_mprof's stand-in record, in its order. */
enum {
	MPROF_CTL,
	MPROF_CTL2,
	MPROF_DATA2,
	MPROF_DATA3,
	MPROF_LINADDR,
	MPROF_PHYSADDR,
	MPROF_REGS,
};

#define CTL_ENABLE               (1ULL << 17)
#define CTL_VALID                (1ULL << 18)
#define CTL_LATENCY_SHIFT        59
#define CTL_LATENCY_ENABLE       (1ULL << 63)
#define DATA_TAG_TO_RETIRE_SHIFT 16
#define DATA_RIP_INVALID         (1ULL << 38)
#define DATA2_REMOTE             (1ULL << 4)
#define DATA3_LOAD               (1ULL << 0)
#define DATA3_STORE              (1ULL << 1)
#define DATA3_L1_TLB_MISS        (1ULL << 2)
#define DATA3_L2_TLB_MISS        (1ULL << 3)
#define DATA3_L1_TLB_HIT_2M      (1ULL << 4)
#define DATA3_L2_TLB_HIT_2M      (1ULL << 6)
#define DATA3_DC_MISS            (1ULL << 7)
#define DATA3_UNCACHED           (1ULL << 14)
#define DATA3_LOCKED             (1ULL << 15)
#define DATA3_NO_MAB             (1ULL << 16)
#define DATA3_LIN_VALID          (1ULL << 17)
#define DATA3_PHYS_VALID         (1ULL << 18)
#define DATA3_L2_MISS            (1ULL << 20)
#define DATA3_WIDTH_SHIFT        22
#define DATA3_LATENCY_SHIFT      32
#define DATA3_TLB_LATENCY_SHIFT  48
#define SOURCE_L3                1 /* with the codes of Zen4; the same code is reserved before */
#define SOURCE_NODE_CACHE        2
#define SOURCE_DRAM              3

#define KERNEL_BIT 63

typedef int (*overflow_fn)(struct perf_event *, struct perf_sample_data *, struct pt_regs *);
typedef void (*took_fn)(u64);
static overflow_fn overflow;
static took_fn took;

/* Neither is for modules; a PMU's driver is part of the kernel. */
static int find(const char *name, void **ret)
{
	struct kprobe probe = { .symbol_name = name };
	int r = register_kprobe(&probe);

	if (r)
		return r;
	*ret = probe.addr;
	unregister_kprobe(&probe);
	return 0;
}

int ibs_record_find_perf(void)
{
	int r = find("perf_event_overflow", (void **)&overflow);

	return r ?: find("perf_sample_event_took", (void **)&took);
}

void ibs_record_took(u64 nr, u64 ns)
{
	for (u64 i = 0; i < nr; i++)
		took(div64_u64(ns, nr));
}

/* ---- from an access to registers ------------------------------------------------- */

static u64 build_ctl(const struct perf_event *event, u64 period)
{
	u64 ctl = CTL_ENABLE | CTL_VALID | (period >> 4 & IBS_CONFIG_MAX_COUNT_LOW);
	u64 threshold = event->attr.config1 & IBS_CONFIG1_LATENCY;

	if (ibs_setup.caps & IBS_CAP_LONG_PERIOD)
		ctl |= period & IBS_CONFIG_MAX_COUNT_HIGH;
	ctl |= event->hw.config & (IBS_CONFIG_L3_MISS_ONLY | IBS_CONFIG_COUNT_OPS);
	if (!ibs_setup.is_profiler && threshold && ibs_setup.caps & IBS_CAP_LATENCY_FILTER)
		ctl |= CTL_LATENCY_ENABLE | ((threshold >> 7) - 1) << CTL_LATENCY_SHIFT;
	return ctl;
}

static u64 build_data2(const struct ibs_entry *entry)
{
	bool far = entry->node < MAX_NUMNODES && entry->level == IBS_LEVEL_MEMORY && !node_state(entry->node, N_CPU);
	bool zen4 = ibs_setup.is_profiler || ibs_setup.caps & IBS_CAP_ZEN4;
	u64 source = 0;

	if (entry->flags & IBS_ENTRY_STORE)
		return 0; /* only loads have a source */
	if (entry->level == IBS_LEVEL_L3)
		source = zen4 ? SOURCE_L3 : SOURCE_NODE_CACHE;
	else if (entry->level == IBS_LEVEL_MEMORY)
		source = far ? ibs_setup.far_source : SOURCE_DRAM;
	if (!zen4)
		source &= 7;
	return (source & 7) | (source & 0x18) << 3 | (far && ibs_setup.far_remote ? DATA2_REMOTE : 0);
}

static u64 build_data3(const struct ibs_entry *entry, bool huge)
{
	bool is_store = entry->flags & IBS_ENTRY_STORE;
	u64 data3 = (is_store ? DATA3_STORE : DATA3_LOAD) | DATA3_LIN_VALID;

	if (entry->phys)
		data3 |= DATA3_PHYS_VALID;
	if (entry->level > IBS_LEVEL_L1)
		data3 |= DATA3_DC_MISS;
	if (entry->level > IBS_LEVEL_L2)
		data3 |= DATA3_L2_MISS;
	if (ibs_setup.is_profiler)
		return data3;
	if (entry->flags & IBS_ENTRY_L1_TLB_MISS)
		data3 |= DATA3_L1_TLB_MISS;
	if (entry->flags & IBS_ENTRY_L2_TLB_MISS)
		data3 |= DATA3_L2_TLB_MISS;
	if (huge && (ibs_setup.caps & IBS_CAP_DTLB_PGSIZE || !(entry->flags & IBS_ENTRY_L1_TLB_MISS)))
		data3 |= DATA3_L1_TLB_HIT_2M; /* with the later layout: page size 1, which is 2 MiB */
	else if (huge && !(entry->flags & IBS_ENTRY_L2_TLB_MISS))
		data3 |= DATA3_L2_TLB_HIT_2M;
	data3 |= (u64)(ilog2(entry->size) + 1) << DATA3_WIDTH_SHIFT;
	if (!is_store)
		data3 |= (u64)entry->latency << DATA3_LATENCY_SHIFT;
	return data3 | (u64)entry->tlb_latency << DATA3_TLB_LATENCY_SHIFT;
}

void ibs_record_build(struct ibs_raw *raw, const struct ibs_entry *entry, const struct perf_event *event, bool huge)
{
	memset(raw, 0, sizeof(*raw));
	raw->caps = ibs_setup.caps;
	if (ibs_setup.is_profiler) {
		raw->nr = MPROF_REGS;
		raw->reg[MPROF_CTL] = build_ctl(event, entry->period);
		if (event->attr.exclude_user)
			raw->reg[MPROF_CTL2] |= IBS_MPROF_CTL2_EXCLUDE_USER;
		if (event->attr.exclude_kernel)
			raw->reg[MPROF_CTL2] |= IBS_MPROF_CTL2_EXCLUDE_KERNEL;
		raw->reg[MPROF_DATA2] = build_data2(entry);
		raw->reg[MPROF_DATA3] = build_data3(entry, huge);
		raw->reg[MPROF_LINADDR] = entry->vaddr;
		raw->reg[MPROF_PHYSADDR] = entry->phys;
		return;
	}
	raw->nr = OP_FIXED;
	raw->reg[OP_CTL] = build_ctl(event, entry->period);
	raw->reg[OP_RIP] = entry->ip;
	raw->reg[OP_DATA] = (u64)(entry->latency + 20) << DATA_TAG_TO_RETIRE_SHIFT & 0xffff0000ULL;
	raw->reg[OP_DATA2] = build_data2(entry);
	raw->reg[OP_DATA3] = build_data3(entry, huge);
	raw->reg[OP_LINADDR] = entry->vaddr;
	raw->reg[OP_PHYSADDR] = entry->phys;
	if (ibs_setup.caps & IBS_CAP_BRANCH_TARGET)
		raw->nr++; /* no load or store is a branch */
	if (ibs_setup.caps & IBS_CAP_DATA4)
		raw->nr++;
}

bool ibs_record_filtered(const struct perf_event *event, const struct ibs_entry *entry)
{
	const struct perf_event_attr *attr = &event->attr;
	u64 threshold = attr->config1 & IBS_CONFIG1_LATENCY;
	bool by_kernel = entry->ip >> KERNEL_BIT;

	if (by_kernel ? attr->exclude_kernel : attr->exclude_user)
		return true;
	if (attr->exclude_kernel && entry->vaddr >> KERNEL_BIT &&
	    attr->sample_type & (PERF_SAMPLE_ADDR | PERF_SAMPLE_RAW))
		return true;
	if (ibs_setup.caps & IBS_CAP_LATENCY_FILTER && threshold &&
	    (entry->flags & IBS_ENTRY_STORE || entry->level == IBS_LEVEL_L1 || entry->latency <= threshold))
		return true;
	/* the model knows no streaming stores, so nothing passes */
	return !ibs_setup.is_profiler && ibs_setup.caps & IBS_CAP_STREAMING_STORES &&
	       attr->config1 & IBS_CONFIG1_STREAMING;
}

/* ---- from registers to perf ------------------------------------------------------ */

static void set_level(union perf_mem_data_src *src, u64 level, u64 number)
{
	src->mem_lvl = level;
	src->mem_lvl_num = number;
}

/* A load beyond L2: the codes with and without the Zen4 extensions. */
static void set_source(union perf_mem_data_src *src, u64 data2, u64 data3, bool zen4)
{
	static const u8 before[8] = { 0, 0, 2, 3, 5, 0, 0, 7 };
	bool remote = data2 & DATA2_REMOTE;
	u64 code = data2 & 7;

	code = zen4 ? code | (data2 >> 3 & 0x18) : before[code];
	if (zen4 && ibs_setup.is_profiler && code == IBS_MPROF_SOURCE_DRAM_FAR) {
		code = SOURCE_DRAM;
		remote = true;
	}
	switch (code) {
	case 1:
		set_level(src, PERF_MEM_LVL_L3 | PERF_MEM_LVL_HIT, PERF_MEM_LVLNUM_L3);
		return;
	case 2:
		set_level(src, PERF_MEM_LVL_REM_CCE1 | PERF_MEM_LVL_HIT, PERF_MEM_LVLNUM_ANY_CACHE);
		src->mem_hops = PERF_MEM_HOPS_0;
		src->mem_remote = PERF_MEM_REMOTE_REMOTE;
		return;
	case 3:
		set_level(src, (remote ? PERF_MEM_LVL_REM_RAM1 : PERF_MEM_LVL_LOC_RAM) | PERF_MEM_LVL_HIT,
			  PERF_MEM_LVLNUM_RAM);
		break;
	case 5:
		set_level(src, PERF_MEM_LVL_REM_CCE2 | PERF_MEM_LVL_HIT, PERF_MEM_LVLNUM_ANY_CACHE);
		remote = true;
		break;
	case 6:
		set_level(src, PERF_MEM_LVL_NA, PERF_MEM_LVLNUM_PMEM);
		break;
	case 7:
		set_level(src, PERF_MEM_LVL_IO | PERF_MEM_LVL_HIT, PERF_MEM_LVLNUM_IO);
		break;
	case 8:
		set_level(src, PERF_MEM_LVL_NA, PERF_MEM_LVLNUM_CXL);
		break;
	default:
		if (data3 & DATA3_NO_MAB)
			set_level(src, PERF_MEM_LVL_LFB | PERF_MEM_LVL_HIT, PERF_MEM_LVLNUM_LFB);
		else
			set_level(src, PERF_MEM_LVL_NA, PERF_MEM_LVLNUM_NA);
		return;
	}
	if (remote) {
		src->mem_remote = PERF_MEM_REMOTE_REMOTE;
		src->mem_hops = PERF_MEM_HOPS_1;
	}
}

static u64 data_source(u64 data2, u64 data3, u32 caps)
{
	union perf_mem_data_src src = { 0 };

	if (!(data3 & (DATA3_LOAD | DATA3_STORE)))
		return PERF_MEM_NA;
	src.mem_op = data3 & DATA3_LOAD ? PERF_MEM_OP_LOAD : PERF_MEM_OP_STORE;
	if (data3 & DATA3_UNCACHED)
		set_level(&src, PERF_MEM_LVL_UNC | PERF_MEM_LVL_HIT, PERF_MEM_LVLNUM_UNC);
	else if (!(data3 & DATA3_DC_MISS))
		set_level(&src, PERF_MEM_LVL_L1 | PERF_MEM_LVL_HIT, PERF_MEM_LVLNUM_L1);
	else if (!(data3 & DATA3_L2_MISS))
		set_level(&src, PERF_MEM_LVL_L2 | PERF_MEM_LVL_HIT, PERF_MEM_LVLNUM_L2);
	else if (data3 & DATA3_LOAD)
		set_source(&src, data2, data3, ibs_setup.is_profiler || caps & IBS_CAP_ZEN4);
	else
		set_level(&src, PERF_MEM_LVL_NA, PERF_MEM_LVLNUM_NA);
	src.mem_snoop = PERF_MEM_SNOOP_NA;
	src.mem_lock = data3 & DATA3_LOCKED ? PERF_MEM_LOCK_LOCKED : PERF_MEM_LOCK_NA;
	if (!(data3 & DATA3_LIN_VALID))
		src.mem_dtlb = PERF_MEM_TLB_NA;
	else if (!(data3 & DATA3_L1_TLB_MISS))
		src.mem_dtlb = PERF_MEM_TLB_L1 | PERF_MEM_TLB_HIT;
	else if (!(data3 & DATA3_L2_TLB_MISS))
		src.mem_dtlb = PERF_MEM_TLB_L2 | PERF_MEM_TLB_HIT;
	else
		src.mem_dtlb = PERF_MEM_TLB_L2 | PERF_MEM_TLB_MISS;
	return src.val;
}

/* As kernels between 50a53b60e141 and b0a09142622a do: they judge whom they interrupt. */
static void wipe_physical(struct perf_event *event, u64 *data3, u64 *physaddr)
{
	switch (ibs_setup.wipe) {
	case IBS_WIPE_NEVER:
		return;
	case IBS_WIPE_INTERRUPTED:
		if (!perf_allow_kernel())
			return;
		break;
	case IBS_WIPE_ALWAYS:
		break;
	case IBS_WIPE_OPENER:
		if (event->hw.config_base)
			*physaddr = 0;
		return;
	}
	*physaddr = 0;
	*data3 &= ~DATA3_PHYS_VALID;
}

static void set_fields(struct perf_sample_data *data, u64 type, const struct ibs_raw *raw, u64 data2, u64 data3,
		       u64 linaddr, u64 physaddr)
{
	bool is_access = data3 & (DATA3_LOAD | DATA3_STORE);

	if (type & PERF_SAMPLE_DATA_SRC) {
		data->data_src.val = data_source(data2, data3, raw->caps);
		data->sample_flags |= PERF_SAMPLE_DATA_SRC;
	}
	if (type & PERF_SAMPLE_WEIGHT_TYPE && !ibs_setup.is_profiler && data3 & DATA3_LOAD && data3 & DATA3_DC_MISS) {
		if (type & PERF_SAMPLE_WEIGHT_STRUCT) {
			data->weight.var1_dw = data3 >> DATA3_LATENCY_SHIFT & 0xffff;
			data->weight.var2_w = raw->reg[OP_DATA] >> DATA_TAG_TO_RETIRE_SHIFT & 0xffff;
		} else {
			data->weight.full = data3 >> DATA3_LATENCY_SHIFT & 0xffff;
		}
		data->sample_flags |= PERF_SAMPLE_WEIGHT_TYPE;
	}
	if (type & PERF_SAMPLE_ADDR && is_access && data3 & DATA3_LIN_VALID) {
		data->addr = linaddr;
		data->sample_flags |= PERF_SAMPLE_ADDR;
	}
	if (type & PERF_SAMPLE_PHYS_ADDR && is_access && data3 & DATA3_PHYS_VALID) {
		data->phys_addr = physaddr;
		data->sample_flags |= PERF_SAMPLE_PHYS_ADDR;
	}
}

static void set_regs(struct pt_regs *mine, const struct pt_regs *regs, const struct ibs_raw *raw, u64 ip)
{
	if (regs)
		*mine = *regs;
	else
		memset(mine, 0, sizeof(*mine));
	mine->flags &= ~PERF_EFLAGS_EXACT;
	if (!ibs_setup.is_profiler && !(raw->reg[OP_DATA] & DATA_RIP_INVALID)) {
		ip = raw->reg[OP_RIP];
		mine->flags |= PERF_EFLAGS_EXACT;
	}
	if (!ip)
		return;
	mine->ip = ip;
	mine->cs = ip >> KERNEL_BIT ? __KERNEL_CS : __USER_CS;
}

bool ibs_record_emit(struct perf_event *event, struct ibs_raw *raw, u64 ip, const struct pt_regs *regs)
{
	bool is_profiler = ibs_setup.is_profiler;
	u64 *data2 = &raw->reg[is_profiler ? MPROF_DATA2 : OP_DATA2];
	u64 *data3 = &raw->reg[is_profiler ? MPROF_DATA3 : OP_DATA3];
	u64 *linaddr = &raw->reg[is_profiler ? MPROF_LINADDR : OP_LINADDR];
	u64 *physaddr = &raw->reg[is_profiler ? MPROF_PHYSADDR : OP_PHYSADDR];
	struct {
		u32 caps;
		u64 reg[IBS_RAW_REGS_MAX];
	} __packed payload;
	struct perf_raw_record record = {};
	struct perf_sample_data data;
	struct pt_regs mine;

	perf_sample_data_init(&data, 0, event->hw.last_period);
	wipe_physical(event, data3, physaddr);
	payload.caps = raw->caps;
	memcpy(payload.reg, raw->reg, sizeof(payload.reg));
	record.frag.data = &payload;
	record.frag.size = sizeof(u32) + raw->nr * sizeof(u64);
	perf_sample_save_raw_data(&data, event, &record);
	set_fields(&data, event->attr.sample_type, raw, *data2, *data3, *linaddr, *physaddr);
	set_regs(&mine, regs, raw, ip);
	return overflow(event, &data, &mine);
}
