/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ibs_decode_learn: the tables by which ibs_decode() goes without a branch per field. Each answers for the bits of one
 * byte of OpData3 and says "yes" to what it doesn't know; all of them together, by AND, say what is valid.
 */
#include <string.h>

#include "ibs_decode_internal.h"
#include "ibs_mprof_record.h"

/* Page size: two bits from the first byte, one from the third. */
#define PAGE_4K       1ULL
#define PAGE_2M       2ULL
#define PAGE_1G       3ULL
#define PAGE_NO_L2_1G (1ULL << 2)

#define LATENCY_FIELD (0xffffULL << 32)
#define REFILL_FIELD  (0xffffULL << 48)
#define TLB_MISSES    (uint64_t)(IBS_L1_TLB_MISS | IBS_L2_TLB_MISS)
#define LARGE_HITS    (uint64_t)(IBS_L1_TLB_HIT_2M | IBS_L1_TLB_HIT_1G | IBS_L2_TLB_HIT_2M | IBS_L2_TLB_HIT_1G)
#define FLAGS                                                                                                 \
	(uint64_t)(IBS_LOAD | IBS_STORE | IBS_DC_MISS | IBS_MISALIGNED | IBS_WRITE_COMBINING | IBS_UNCACHED | \
		   IBS_LOCKED | IBS_NO_MAB | IBS_LINEAR_VALID | IBS_PHYSICAL_VALID | IBS_L2_MISS | IBS_SW_PREFETCH)

#define CODE_IO 7 /* in both sets of codes: MMIO, or "other" */

/* IBS_DATA_SRC_* of asm/amd/ibs.h: before Zen 4 three bits, then five. What isn't named is reserved. */
static const uint8_t codes_before[8] = {
	[0] = IBS_SOURCE_NONE,     [1] = IBS_SOURCE_RESERVED,       [2] = IBS_SOURCE_LOCAL_CACHE,
	[3] = IBS_SOURCE_DRAM,     [4] = IBS_SOURCE_PEER_CACHE_FAR, [5] = IBS_SOURCE_RESERVED,
	[6] = IBS_SOURCE_RESERVED, [CODE_IO] = IBS_SOURCE_OTHER_IO,
};
static const uint8_t codes_zen4[13] = {
	[0] = IBS_SOURCE_NONE,        [1] = IBS_SOURCE_L3,         [2] = IBS_SOURCE_PEER_CACHE_NEAR,
	[3] = IBS_SOURCE_DRAM,        [4] = IBS_SOURCE_RESERVED,   [5] = IBS_SOURCE_PEER_CACHE_FAR,
	[6] = IBS_SOURCE_PMEM,        [CODE_IO] = IBS_SOURCE_MMIO, [8] = IBS_SOURCE_EXT_MEM,
	[9] = IBS_SOURCE_RESERVED,    [10] = IBS_SOURCE_RESERVED,  [11] = IBS_SOURCE_RESERVED,
	[12] = IBS_SOURCE_PEER_AGENT,
};

static uint8_t source_of_code(unsigned int code, uint32_t caps)
{
	if (!(caps & IBS_CAP_ZEN4))
		return code < sizeof(codes_before) ? codes_before[code] : IBS_SOURCE_RESERVED;
	return code < sizeof(codes_zen4) ? codes_zen4[code] : IBS_SOURCE_RESERVED;
}

/* perf_ibs_get_mem_lvl(), in its order; @loads: what the code says, for a load beyond L2. */
static uint8_t source_of_case(unsigned int code, uint8_t loads, uint64_t question)
{
	uint8_t source = IBS_SOURCE_NONE;

	if (!(question & IBS_CASE_ACCESS))
		return IBS_SOURCE_NONE;
	if ((question & IBS_CASE_UNCACHED) && code != CODE_IO)
		return IBS_SOURCE_UNCACHED;
	if (!(question & IBS_CASE_DC_MISS))
		return IBS_SOURCE_L1;
	if (!(question & IBS_CASE_L2_MISS))
		return IBS_SOURCE_L2;
	if (question & IBS_CASE_LOAD)
		source = loads;
	/* The code comes first: a line on its way comes from somewhere, too. */
	if ((source == IBS_SOURCE_NONE || source == IBS_SOURCE_RESERVED) && (question & IBS_CASE_NO_MAB))
		return IBS_SOURCE_LINE_FILL;
	return source;
}

/* IBS_MPROF_SOURCE_*: 7 is memory, and nothing is ever uncached. */
enum ibs_source ibs_decode_mprof_source(unsigned int code, unsigned int question)
{
	static const uint8_t codes[] = {
		[0] = IBS_SOURCE_NONE,
		[IBS_MPROF_SOURCE_CCX] = IBS_SOURCE_L3,
		[IBS_MPROF_SOURCE_NEAR_CCX] = IBS_SOURCE_PEER_CACHE_NEAR,
		[IBS_MPROF_SOURCE_DRAM] = IBS_SOURCE_DRAM,
		[4] = IBS_SOURCE_RESERVED,
		[IBS_MPROF_SOURCE_FAR_CCX] = IBS_SOURCE_PEER_CACHE_FAR,
		[6] = IBS_SOURCE_RESERVED,
		[IBS_MPROF_SOURCE_DRAM_FAR] = IBS_SOURCE_DRAM_FAR,
		[IBS_MPROF_SOURCE_EXT_MEM] = IBS_SOURCE_EXT_MEM,
	};

	return source_of_case(code, code < sizeof(codes) ? codes[code] : IBS_SOURCE_RESERVED,
			      question & ~(IBS_CASE_UNCACHED | IBS_CASE_NO_MAB));
}

/*
 * Which flags of OpData2 mean something: ZEN4_RMT_NODE_BITS and RMT_NODE_BITS; CacheHitSt for those sources that
 * amd-sample-raw.c prints it for.
 */
static uint16_t flags_of_source(const struct ibs_decoder *decoder, enum ibs_source source, uint32_t caps)
{
	uint16_t flags = caps & IBS_CAP_STREAMING_STORE ? IBS_STREAMING_STORE : 0;
	uint16_t remote = IBS_REMOTE_NODE, owned = decoder->no_cache_state ? 0 : IBS_CACHE_OWNED;

	if (caps & IBS_CAP_STREAMING_STORE)
		remote |= IBS_REMOTE_SOCKET;
	switch (source) {
	case IBS_SOURCE_DRAM:
	case IBS_SOURCE_PMEM:
	case IBS_SOURCE_EXT_MEM:
		return flags | remote;
	case IBS_SOURCE_LOCAL_CACHE:
	case IBS_SOURCE_L3:
	case IBS_SOURCE_PEER_CACHE_NEAR:
		return flags | owned;
	case IBS_SOURCE_PEER_CACHE_FAR: /* before Zen 4 it is printed for the local one only */
		return caps & IBS_CAP_ZEN4 ? flags | owned : flags;
	default:
		return flags;
	}
}

static void learn_sources(struct ibs_decoder *decoder, uint32_t caps)
{
	for (unsigned int byte = 0; byte < 256; byte++) {
		unsigned int code = byte & 7;

		if (caps & IBS_CAP_ZEN4)
			code |= byte >> 3 & 0x18;
		decoder->source_code[byte] = (uint16_t)(code * IBS_SOURCE_CASES);
	}
	for (unsigned int code = 0; code < IBS_SOURCE_CODES; code++)
		for (unsigned int question = 0; question < IBS_SOURCE_CASES; question++) {
			uint8_t source = source_of_case(code, source_of_code(code, caps), question);

			decoder->source[code * IBS_SOURCE_CASES + question] =
				source | code << 8 | (uint32_t)flags_of_source(decoder, source, caps) << 16;
		}
}

/* The bits of a case that @yes doesn't grant are taken from what @owned asks. */
static uint64_t answer(uint64_t owned, uint64_t yes)
{
	return ~((owned & ~yes) << IBS_CASE_AT);
}

static uint64_t page_answer(uint64_t owned, uint64_t value)
{
	return ~((owned & ~value) << IBS_PAGE_AT);
}

/* Bits 7:0 of OpData3. */
static uint64_t valid_by_byte0(uint64_t byte, bool has_page_size)
{
	bool load = byte & IBS_LOAD, miss = byte & IBS_DC_MISS;
	uint64_t valid = UINT64_MAX, size = 0;

	valid &= answer(IBS_CASE_LOAD, load ? IBS_CASE_LOAD : 0);
	valid &= answer(IBS_CASE_ACCESS, byte & (IBS_LOAD | IBS_STORE) ? IBS_CASE_ACCESS : 0);
	valid &= answer(IBS_CASE_DC_MISS, miss ? IBS_CASE_DC_MISS : 0);
	if (!load || !miss)
		valid &= ~LATENCY_FIELD;
	if (has_page_size) /* 0: 4K, 1: 2M, 2: 1G, 3: reserved */
		size = ((byte >> 4 & 3) + 1) & 3;
	else if (byte & IBS_L1_TLB_HIT_1G)
		size = PAGE_1G;
	else if (byte & (IBS_L1_TLB_HIT_2M | IBS_L2_TLB_HIT_2M))
		size = PAGE_2M;
	return valid & page_answer(3, size);
}

/* Bits 15:8. */
static uint64_t valid_by_byte1(uint64_t byte)
{
	bool uncached = byte << 8 & IBS_UNCACHED;
	uint64_t valid = answer(IBS_CASE_UNCACHED, uncached ? IBS_CASE_UNCACHED : 0);

	return uncached ? valid & ~LATENCY_FIELD : valid;
}

/* Bits 23:16. */
static uint64_t valid_by_byte2(uint64_t byte, bool has_page_size)
{
	uint64_t bits = byte << 16, valid = UINT64_MAX;

	valid &= answer(IBS_CASE_NO_MAB, bits & IBS_NO_MAB ? IBS_CASE_NO_MAB : 0);
	valid &= answer(IBS_CASE_L2_MISS, bits & IBS_L2_MISS ? IBS_CASE_L2_MISS : 0);
	if (bits & IBS_SW_PREFETCH)
		valid &= ~LATENCY_FIELD;
	if (!has_page_size)
		return valid & page_answer(PAGE_NO_L2_1G, bits & IBS_L2_TLB_HIT_1G ? 0 : PAGE_NO_L2_1G);
	if (!(bits & IBS_PHYSICAL_VALID))
		valid &= page_answer(3, 0) & ~TLB_MISSES;
	return valid;
}

static void learn_access(struct ibs_decoder *decoder, uint32_t caps)
{
	bool has_page_size = caps & IBS_CAP_DTLB_PAGE_SIZE;
	const uint64_t elsewhere = (IBS_SOURCE_CASES - 1) << IBS_CASE_AT | 7ULL << IBS_PAGE_AT;

	decoder->access_mask = FLAGS | TLB_MISSES | (has_page_size ? 0 : LARGE_HITS) | LATENCY_FIELD | REFILL_FIELD;
	for (uint64_t byte = 0; byte < 256; byte++) {
		decoder->valid[0][byte] = valid_by_byte0(byte, has_page_size) & (decoder->access_mask | elsewhere);
		decoder->valid[1][byte] = valid_by_byte1(byte);
		decoder->valid[2][byte] = valid_by_byte2(byte, has_page_size);
	}
	memset(decoder->page_shift, 0, sizeof(decoder->page_shift));
	decoder->page_shift[PAGE_4K | PAGE_NO_L2_1G] = 12U << 24;
	decoder->page_shift[PAGE_2M | PAGE_NO_L2_1G] = 21U << 24;
	decoder->page_shift[PAGE_1G | PAGE_NO_L2_1G] = 30U << 24;
	/* A hit in a 1 GiB entry of the L2 TLB. */
	for (int i = 0; i < 4; i++)
		decoder->page_shift[i] = 30U << 24;
}

static void learn_widths(struct ibs_decoder *decoder)
{
	for (uint32_t i = 0; i < 1024; i++)
		decoder->width_and_requests[i] = (1U << (i & 15)) >> 1 | i >> 4 << 16;
}

void ibs_decode_learn(struct ibs_decoder *decoder, uint32_t caps)
{
	uint64_t control = IBS_ENABLED | IBS_VALID,
		 data = IBS_RETURN | IBS_BRANCH_TAKEN | IBS_BRANCH_MISPREDICTED | IBS_BRANCH | IBS_MICROCODE;

	decoder->caps = caps;
	decoder->bytes = sizeof(uint32_t) + 7 * sizeof(uint64_t);
	decoder->bytes += caps & IBS_CAP_BRANCH_TARGET ? sizeof(uint64_t) : 0;
	decoder->bytes += caps & IBS_CAP_DATA4 ? sizeof(uint64_t) : 0;
	data |= caps & IBS_CAP_RIP_INVALID ? IBS_RIP_INVALID : 0;
	data |= caps & IBS_CAP_BRANCH_FUSE ? IBS_BRANCH_FUSED : 0;
	decoder->rip_data_mask[0] = UINT64_MAX;
	decoder->rip_data_mask[1] = data << 32 | UINT32_MAX;
	control |= caps & IBS_CAP_COUNT_OPS ? IBS_COUNTS_OPS : 0;
	control |= caps & IBS_CAP_ZEN4 ? IBS_L3_MISS_ONLY : 0;
	control |= caps & IBS_CAP_LONG_COUNT ? 0x7f0ffff : 0xffff;
	decoder->control_mask = control | 0x7ffffffULL << 32;
	/* Bit 63 is on or off, 62:59 the threshold in steps of 128, from 128. */
	for (unsigned int byte = 0; byte < 256; byte++) {
		decoder->threshold_and_caps[byte] = (uint64_t)caps << 32;
		if ((caps & IBS_CAP_LOAD_LATENCY) && (byte & 0x80))
			decoder->threshold_and_caps[byte] |= ((byte >> 3 & 15) + 1) * 128;
	}
	learn_sources(decoder, caps);
	learn_access(decoder, caps);
	learn_widths(decoder);
}
