/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ibs_records: raw records of IBS made by hand, and what their registers say, written bit by bit after
 * arch/x86/include/asm/amd/ibs.h and in the order of perf_ibs_get_mem_lvl(), not after our decoder: for tests and fuzz
 * targets.
 */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ibs_decode.h"

enum {
	OP_CTL,
	OP_RIP,
	OP_DATA,
	OP_DATA2,
	OP_DATA3,
	OP_LINEAR,
	OP_PHYSICAL,
	OP_BRANCH,
	OP_DATA4,
	OP_REGS,
};

#define CTL_ON (3ULL << 17)

/* CPUID Fn8000_001B EAX of generations; that any of Zen has IbsOpData4 (bit 10) is not known, so one with it, too. */
#define CAPS_NONE 0x00000007U /* what the kernel takes for granted */
#define CAPS_ZEN2 0x000003ffU
#define CAPS_ZEN3 0x000003ffU
#define CAPS_ZEN4 0x00000bffU
#define CAPS_ZEN5 0x00081bffU
#define CAPS_ZEN6 0x000dfbffU
#define CAPS_FULL 0x00081fffU

static const uint32_t ibs_test_caps[] = { CAPS_NONE, CAPS_ZEN2, CAPS_ZEN4,  CAPS_ZEN5,
					  CAPS_ZEN6, CAPS_FULL, 0x00000407, 0x00000427 };
#define N_TEST_CAPS (sizeof(ibs_test_caps) / sizeof(ibs_test_caps[0]))

struct ibs_test_record {
	uint32_t caps;
	uint64_t reg[OP_REGS];
};

static inline uint64_t bits(uint64_t reg, int last, int first)
{
	return reg >> first & (UINT64_MAX >> (63 - (last - first)));
}

static inline bool bit(uint64_t reg, int n)
{
	return reg >> n & 1;
}

/* In a record of its own size, so that a sanitizer sees each byte too far. To be freed. */
static inline unsigned char *ibs_test_raw(const struct ibs_test_record *record, size_t *bytes)
{
	size_t n = 4 + 7 * 8;
	unsigned char *raw;

	n += bit(record->caps, 5) ? 8 : 0;
	n += bit(record->caps, 10) ? 8 : 0;
	raw = malloc(n);
	if (!raw)
		abort();
	memcpy(raw, &record->caps, 4);
	memcpy(raw + 4, record->reg, 7 * 8);
	if (bit(record->caps, 5))
		memcpy(raw + 60, &record->reg[OP_BRANCH], 8);
	if (bit(record->caps, 10))
		memcpy(raw + n - 8, &record->reg[OP_DATA4], 8);
	*bytes = n;
	return raw;
}

static inline enum ibs_source ibs_test_source(uint64_t data2, uint64_t data3, uint32_t caps, bool l2_miss)
{
	uint64_t code = bit(caps, 11) ? bits(data2, 7, 6) << 3 | bits(data2, 2, 0) : bits(data2, 2, 0);
	enum ibs_source source = IBS_SOURCE_NONE;

	if (!bit(data3, 0) && !bit(data3, 1))
		return IBS_SOURCE_NONE;
	if (bit(data3, 14) && code != 7)
		return IBS_SOURCE_UNCACHED;
	if (!bit(data3, 7))
		return IBS_SOURCE_L1;
	if (!l2_miss)
		return IBS_SOURCE_L2;
	if (bit(data3, 0)) {
		source = IBS_SOURCE_RESERVED;
		switch (code) {
		case 0:
			source = IBS_SOURCE_NONE;
			break;
		case 1:
			if (bit(caps, 11))
				source = IBS_SOURCE_L3;
			break;
		case 2:
			source = bit(caps, 11) ? IBS_SOURCE_PEER_CACHE_NEAR : IBS_SOURCE_LOCAL_CACHE;
			break;
		case 3:
			source = IBS_SOURCE_DRAM;
			break;
		case 4:
			if (!bit(caps, 11))
				source = IBS_SOURCE_PEER_CACHE_FAR;
			break;
		case 5:
			if (bit(caps, 11))
				source = IBS_SOURCE_PEER_CACHE_FAR;
			break;
		case 6:
			if (bit(caps, 11))
				source = IBS_SOURCE_PMEM;
			break;
		case 7:
			source = bit(caps, 11) ? IBS_SOURCE_MMIO : IBS_SOURCE_OTHER_IO;
			break;
		case 8:
			source = IBS_SOURCE_EXT_MEM;
			break;
		case 12:
			source = IBS_SOURCE_PEER_AGENT;
			break;
		}
	}
	if (bit(data3, 16) && (source == IBS_SOURCE_NONE || source == IBS_SOURCE_RESERVED))
		return IBS_SOURCE_LINE_FILL;
	return source;
}

static inline uint16_t ibs_test_source_flags(uint64_t data2, enum ibs_source source, uint32_t caps, unsigned int family,
					     unsigned int model)
{
	bool zen4 = bit(caps, 11), zen6 = bit(caps, 16), is_memory, is_cache;
	bool has_state = family != 0x19 || (model >= 0x10 && model < 0x20) || model >= 0x60;
	uint16_t flags = 0;

	is_memory = source == IBS_SOURCE_DRAM || (zen4 && (source == IBS_SOURCE_PMEM || source == IBS_SOURCE_EXT_MEM));
	is_cache = zen4 ? source == IBS_SOURCE_L3 || source == IBS_SOURCE_PEER_CACHE_NEAR ||
				   source == IBS_SOURCE_PEER_CACHE_FAR
			: source == IBS_SOURCE_LOCAL_CACHE;
	if (is_memory && bit(data2, 4))
		flags |= IBS_REMOTE_NODE;
	if (is_cache && has_state && bit(data2, 5))
		flags |= IBS_CACHE_OWNED;
	if (zen6 && bit(data2, 8))
		flags |= IBS_STREAMING_STORE;
	if (zen6 && is_memory && bit(data2, 9))
		flags |= IBS_REMOTE_SOCKET;
	return flags;
}

static inline uint32_t ibs_test_access_flags(uint64_t data3, uint32_t caps)
{
	static const struct {
		int bit;
		uint32_t flag;
	} all[] = {
		{ 0, IBS_LOAD },
		{ 1, IBS_STORE },
		{ 2, IBS_L1_TLB_MISS },
		{ 3, IBS_L2_TLB_MISS },
		{ 4, IBS_L1_TLB_HIT_2M },
		{ 5, IBS_L1_TLB_HIT_1G },
		{ 6, IBS_L2_TLB_HIT_2M },
		{ 7, IBS_DC_MISS },
		{ 8, IBS_MISALIGNED },
		{ 13, IBS_WRITE_COMBINING },
		{ 14, IBS_UNCACHED },
		{ 15, IBS_LOCKED },
		{ 16, IBS_NO_MAB },
		{ 17, IBS_LINEAR_VALID },
		{ 18, IBS_PHYSICAL_VALID },
		{ 19, IBS_L2_TLB_HIT_1G },
		{ 20, IBS_L2_MISS },
		{ 21, IBS_SW_PREFETCH },
	};
	uint32_t flags = 0;

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		bool is_large = all[i].bit == 4 || all[i].bit == 5 || all[i].bit == 6 || all[i].bit == 19;
		bool is_miss = all[i].bit == 2 || all[i].bit == 3;

		if (!bit(data3, all[i].bit) || (bit(caps, 19) && (is_large || (is_miss && !bit(data3, 18)))))
			continue;
		flags |= all[i].flag;
	}
	return flags;
}

static inline uint8_t ibs_test_page_shift(uint64_t data3, uint32_t caps)
{
	static const uint8_t sizes[4] = { 12, 21, 30, 0 };

	if (bit(caps, 19))
		return bit(data3, 18) ? sizes[bits(data3, 5, 4)] : 0;
	if (bit(data3, 5) || bit(data3, 19))
		return 30;
	return bit(data3, 4) || bit(data3, 6) ? 21 : 0;
}

/* All of a record; @ret is cleared first, padding included. */
static inline void ibs_test_decode(const struct ibs_test_record *record, unsigned int family, unsigned int model,
				   struct ibs_op *ret)
{
	uint64_t ctl = record->reg[OP_CTL], data = record->reg[OP_DATA], data2 = record->reg[OP_DATA2],
		 data3 = record->reg[OP_DATA3];
	uint32_t caps = record->caps;
	bool erratum = family == 0x19 && model < 0x10 && (bit(data3, 21) || bit(data3, 16));

	memset(ret, 0, sizeof(*ret));
	if (erratum)
		data2 = 0;
	ret->caps = caps;
	ret->rip = record->reg[OP_RIP];
	ret->linear = record->reg[OP_LINEAR];
	ret->physical = record->reg[OP_PHYSICAL];
	ret->branch_target = bit(caps, 5) ? record->reg[OP_BRANCH] : 0;
	ret->data4 = bit(caps, 10) ? record->reg[OP_DATA4] : 0;

	ret->max_count = (uint32_t)(bits(ctl, 15, 0) << 4);
	if (bit(caps, 6))
		ret->max_count += (uint32_t)(bits(ctl, 26, 20) << 20);
	ret->current_count = (uint32_t)bits(ctl, 58, 32);
	ret->control_flags = IBS_ENABLED | IBS_VALID;
	if (bit(ctl, 16) && bit(caps, 11))
		ret->control_flags |= IBS_L3_MISS_ONLY;
	if (bit(ctl, 19) && bit(caps, 4))
		ret->control_flags |= IBS_COUNTS_OPS;
	if (bit(ctl, 63) && bit(caps, 12))
		ret->latency_threshold_cycles = (uint16_t)((bits(ctl, 62, 59) + 1) << 7);

	ret->completion_to_retire_cycles = (uint16_t)bits(data, 15, 0);
	ret->tag_to_retire_cycles = (uint16_t)bits(data, 31, 16);
	ret->op_flags |= bit(data, 34) ? IBS_RETURN : 0;
	ret->op_flags |= bit(data, 35) ? IBS_BRANCH_TAKEN : 0;
	ret->op_flags |= bit(data, 36) ? IBS_BRANCH_MISPREDICTED : 0;
	ret->op_flags |= bit(data, 37) ? IBS_BRANCH : 0;
	ret->op_flags |= bit(data, 38) && bit(caps, 7) ? IBS_RIP_INVALID : 0;
	ret->op_flags |= bit(data, 39) && bit(caps, 8) ? IBS_BRANCH_FUSED : 0;
	ret->op_flags |= bit(data, 40) ? IBS_MICROCODE : 0;

	ret->source_code = (uint8_t)bits(data2, 2, 0);
	if (bit(caps, 11))
		ret->source_code |= (uint8_t)(bits(data2, 7, 6) << 3);
	ret->source = (uint8_t)ibs_test_source(data2, data3, caps, bit(data3, 20) || erratum);
	ret->source_flags = ibs_test_source_flags(data2, ret->source, caps, family, model);

	ret->access_flags = ibs_test_access_flags(data3, caps);
	if (erratum)
		ret->access_flags &= ~(uint32_t)IBS_L2_MISS;
	if (bits(data3, 25, 22))
		ret->width_bytes = (uint16_t)(1 << (bits(data3, 25, 22) - 1));
	ret->open_requests = erratum ? 0 : (uint8_t)bits(data3, 31, 26);
	if (bit(data3, 0) && bit(data3, 7) && !bit(data3, 14) && !bit(data3, 21))
		ret->miss_latency_cycles = (uint16_t)bits(data3, 47, 32);
	ret->refill_latency_cycles = (uint16_t)bits(data3, 63, 48);
	ret->page_shift = ibs_test_page_shift(data3, caps);
}
