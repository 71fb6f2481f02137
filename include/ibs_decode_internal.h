/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ibs_decode_internal: what the files of the decoder share; and its inner part, inline, for source_ibs_record.c, which
 * has no time for a second call.
 */
#pragma once

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "ibs_decode.h"

/* Where in a word of ibs_decoder.valid the case stands, and the page size: in the place of fields decoded otherwise. */
#define IBS_CASE_AT     22
#define IBS_PAGE_AT     28
#define IBS_CASE_BIT(n) (1ULL << (n))

/* The questions of a case. */
#define IBS_CASE_LOAD     IBS_CASE_BIT(0)
#define IBS_CASE_ACCESS   IBS_CASE_BIT(1)
#define IBS_CASE_DC_MISS  IBS_CASE_BIT(2)
#define IBS_CASE_UNCACHED IBS_CASE_BIT(3)
#define IBS_CASE_NO_MAB   IBS_CASE_BIT(4)
#define IBS_CASE_L2_MISS  IBS_CASE_BIT(5)

_Static_assert(IBS_SOURCE_CASES == 1 << 6, "six questions");

/* The tables for records of ibs_op with these @caps. The decoder's thread. */
void ibs_decode_learn(struct ibs_decoder *decoder, uint32_t caps);

/* What a code of the profiler's DATA2 means in a case: the same rules as for ibs_op, by its own table. */
enum ibs_source ibs_decode_mprof_source(unsigned int code, unsigned int question);

/* The registers behind the seven that are always there, where not both are. 0. */
int ibs_decode_more(const unsigned char *raw, uint32_t caps, struct ibs_op *ret);

/* ibs_decoder.bytes: no caps are known. No record is as long. */
#define IBS_BYTES_UNKNOWN UINT32_MAX

/* Offsets in the payload: perf_ibs_handle_irq() reads the registers in the order of their numbers. */
#define IBS_AT_CAPS   0
#define IBS_AT_CTL    4
#define IBS_AT_RIP    12
#define IBS_AT_DATA   20
#define IBS_AT_DATA2  28
#define IBS_AT_DATA3  36
#define IBS_AT_LINEAR 44 /* and the physical address behind it */
#define IBS_AT_MORE   60 /* IbsBrTarget, IbsOpData4, each if there */
#define IBS_BYTES_MAX 76 /* with both */

#define IBS_ENABLED_AND_VALID (uint32_t)(IBS_ENABLED | IBS_VALID)
#define IBS_OPEN_REQUESTS     0xfc000000U

/* x86 only: fields that stand side by side in a register stand so in the struct, and are stored at once. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "there is no other machine with IBS");
#define IBS_FOLLOWS(field, first, bytes) (offsetof(struct ibs_op, field) == offsetof(struct ibs_op, first) + (bytes))
_Static_assert(IBS_FOLLOWS(completion_to_retire_cycles, rip, 8) && IBS_FOLLOWS(tag_to_retire_cycles, rip, 10) &&
		       IBS_FOLLOWS(op_flags, rip, 12),
	       "OpRip, OpData");
_Static_assert(IBS_FOLLOWS(physical, linear, 8), "DcLinAd, DcPhysAd");
_Static_assert(IBS_FOLLOWS(data4, branch_target, 8), "BrTarget, OpData4");
_Static_assert(IBS_FOLLOWS(miss_latency_cycles, access_flags, 4) && IBS_FOLLOWS(refill_latency_cycles, access_flags, 6),
	       "OpData3");
_Static_assert(IBS_FOLLOWS(current_count, control_flags, 4), "OpCtl");
_Static_assert(IBS_FOLLOWS(width_bytes, max_count, 4) && IBS_FOLLOWS(open_requests, width_bytes, 2) &&
		       IBS_FOLLOWS(page_shift, width_bytes, 3),
	       "width_and_requests");
_Static_assert(IBS_FOLLOWS(source_code, source, 1) && IBS_FOLLOWS(source_flags, source, 2),
	       "struct ibs_decoder, source");
_Static_assert(IBS_FOLLOWS(reserved, latency_threshold_cycles, 2) && IBS_FOLLOWS(caps, latency_threshold_cycles, 4),
	       "threshold_and_caps");

static inline uint64_t ibs_get_u64(const unsigned char *at)
{
	uint64_t v;

	memcpy(&v, at, sizeof(v));
	return v;
}

static inline uint32_t ibs_get_u32(const unsigned char *at)
{
	uint32_t v;

	memcpy(&v, at, sizeof(v));
	return v;
}

/* @value over @field and what follows it. */
#define IBS_PUT_AT(op, field, value) memcpy((char *)(op) + offsetof(struct ibs_op, field), &(value), sizeof(value))

/*
 * A record of ibs_op whose caps and length are those that @decoder knows. A table look-up where a field has a
 * condition, so hardly a branch; few accesses to memory, of which a core makes three in a cycle; calls come last, so
 * that nothing need be kept across one.
 */
static inline int ibs_decode_known(const struct ibs_decoder *restrict decoder, const unsigned char *restrict raw,
				   struct ibs_op *restrict ret)
{
	uint64_t control, rest, threshold, valid, access, rip_data[2], addresses[2], more[2];
	uint32_t source_and_flags, index;

	control = ibs_get_u64(raw + IBS_AT_CTL);
	if (__builtin_expect((~control & IBS_ENABLED_AND_VALID) != 0, 0))
		return -EBADMSG;
	access = ibs_get_u64(raw + IBS_AT_DATA3);
	valid = decoder->valid[0][access & 0xff];
	valid &= decoder->valid[1][access >> 8 & 0xff];
	valid &= decoder->valid[2][access >> 16 & 0xff];
	/* The two low bytes of OpData2 in the place of the flags. */
	source_and_flags = ibs_get_u32(raw + IBS_AT_DATA2 - 2);
	index = (uint32_t)valid >> IBS_CASE_AT & (IBS_SOURCE_CASES - 1);
	if (__builtin_expect(decoder->erratum_1293 && (access & (IBS_SW_PREFETCH | IBS_NO_MAB)), 0)) {
		/* Neither OpData2, nor the L2 miss, nor the open requests are to be believed. */
		source_and_flags = 0;
		access &= ~(uint64_t)(IBS_L2_MISS | IBS_OPEN_REQUESTS);
		index |= IBS_CASE_L2_MISS;
	}
	index += decoder->source_code[source_and_flags >> 16 & 0xff];
	source_and_flags = (source_and_flags | 0xffff) & decoder->source[index];
	threshold = decoder->threshold_and_caps[control >> 56];
	control &= decoder->control_mask;
	rest = (uint64_t)(decoder->width_and_requests[(uint32_t)access >> 22] |
			  decoder->page_shift[(uint32_t)valid >> IBS_PAGE_AT])
		       << 32 |
	       (control & 0xffff) << 4 | (control & 0x7f00000);
	control &= 0x7ffffff000f0000;
	access &= valid & decoder->access_mask;
	memcpy(rip_data, raw + IBS_AT_RIP, sizeof(rip_data));
	rip_data[0] &= decoder->rip_data_mask[0];
	rip_data[1] &= decoder->rip_data_mask[1];
	memcpy(addresses, raw + IBS_AT_LINEAR, sizeof(addresses));

	/* In the order of their places: two stores side by side to one line of the cache go in one cycle. */
	IBS_PUT_AT(ret, rip, rip_data);
	IBS_PUT_AT(ret, linear, addresses);
	IBS_PUT_AT(ret, access_flags, access);
	IBS_PUT_AT(ret, control_flags, control);
	IBS_PUT_AT(ret, max_count, rest);
	IBS_PUT_AT(ret, source, source_and_flags);
	IBS_PUT_AT(ret, latency_threshold_cycles, threshold);
	if (__builtin_expect(decoder->bytes != IBS_BYTES_MAX, 0))
		return ibs_decode_more(raw, decoder->caps, ret);
	memcpy(more, raw + IBS_AT_MORE, sizeof(more));
	IBS_PUT_AT(ret, branch_target, more);
	return 0;
}
