/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <string.h>

#include "ibs_decode_internal.h"
#include "ibs_mprof_record.h"

#define MPROF_FLAGS                                                                                               \
	(IBS_MPROF_DATA3_LOAD | IBS_MPROF_DATA3_STORE | IBS_MPROF_DATA3_DC_MISS | IBS_MPROF_DATA3_LINADDR_VALID | \
	 IBS_MPROF_DATA3_PHYSADDR_VALID | IBS_MPROF_DATA3_L2_MISS | IBS_MPROF_DATA3_SW_PREFETCH)
#define MPROF_CONTROL \
	(IBS_MPROF_CTL_L3_MISS_ONLY | IBS_MPROF_CTL_ENABLE | IBS_MPROF_CTL_VALID | IBS_MPROF_CTL_COUNT_OPS)

_Static_assert((uint64_t)IBS_LOAD == IBS_MPROF_DATA3_LOAD && (uint64_t)IBS_STORE == IBS_MPROF_DATA3_STORE &&
		       (uint64_t)IBS_DC_MISS == IBS_MPROF_DATA3_DC_MISS &&
		       (uint64_t)IBS_LINEAR_VALID == IBS_MPROF_DATA3_LINADDR_VALID &&
		       (uint64_t)IBS_PHYSICAL_VALID == IBS_MPROF_DATA3_PHYSADDR_VALID &&
		       (uint64_t)IBS_L2_MISS == IBS_MPROF_DATA3_L2_MISS &&
		       (uint64_t)IBS_SW_PREFETCH == IBS_MPROF_DATA3_SW_PREFETCH &&
		       (uint64_t)IBS_COUNTS_OPS == IBS_MPROF_CTL_COUNT_OPS &&
		       (uint64_t)IBS_REMOTE_NODE == IBS_MPROF_DATA2_REMOTE_NODE &&
		       (uint64_t)IBS_REMOTE_SOCKET == IBS_MPROF_DATA2_REMOTE_SOCKET,
	       "the profiler has them where ibs_op has them");

static const char *const source_names[IBS_SOURCES] = {
	[IBS_SOURCE_NONE] = "none",
	[IBS_SOURCE_UNCACHED] = "uncached",
	[IBS_SOURCE_L1] = "l1",
	[IBS_SOURCE_L2] = "l2",
	[IBS_SOURCE_LINE_FILL] = "line_fill",
	[IBS_SOURCE_L3] = "l3",
	[IBS_SOURCE_LOCAL_CACHE] = "local_cache",
	[IBS_SOURCE_PEER_CACHE_NEAR] = "peer_cache_near",
	[IBS_SOURCE_PEER_CACHE_FAR] = "peer_cache_far",
	[IBS_SOURCE_DRAM] = "dram",
	[IBS_SOURCE_DRAM_FAR] = "dram_far",
	[IBS_SOURCE_PMEM] = "pmem",
	[IBS_SOURCE_EXT_MEM] = "ext_mem",
	[IBS_SOURCE_PEER_AGENT] = "peer_agent",
	[IBS_SOURCE_MMIO] = "mmio",
	[IBS_SOURCE_OTHER_IO] = "other_io",
	[IBS_SOURCE_RESERVED] = "reserved",
};

const char *ibs_source_name(unsigned int source)
{
	return source < IBS_SOURCES ? source_names[source] : NULL;
}

void ibs_decoder_init(struct ibs_decoder *decoder, const struct ibs_decoder_params *params)
{
	unsigned int bits = params->physical_bits, family = params->family, model = params->model;

	memset(decoder, 0, sizeof(*decoder));
	decoder->params = *params;
	decoder->bytes = IBS_BYTES_UNKNOWN; /* and always so with the profiler, whose record has one length */
	/* The architecture has 52 at most; the low 12 are there always. */
	decoder->physical_mask = bits >= 32 && bits < 52 ? (1ULL << bits) - 1 : (1ULL << 52) - 1;
	/* Erratum 1293: Zen 3 servers. CacheHitSt: perf_ibs_cache_hit_st_valid(). */
	decoder->erratum_1293 = family == 0x19 && model < 0x10;
	decoder->no_cache_state = family == 0x19 && (model < 0x10 || (model >= 0x20 && model <= 0x5f));
}

int ibs_decode_more(const unsigned char *raw, uint32_t caps, struct ibs_op *ret)
{
	ret->branch_target = 0;
	ret->data4 = 0;
	if (caps & IBS_CAP_BRANCH_TARGET)
		ret->branch_target = ibs_get_u64(raw + IBS_AT_MORE);
	else if (caps & IBS_CAP_DATA4)
		ret->data4 = ibs_get_u64(raw + IBS_AT_MORE);
	return 0;
}

static int decode_mprof(const void *raw, size_t bytes, struct ibs_op *ret)
{
	struct ibs_mprof_record record;
	unsigned int question = 0;
	uint64_t data3;

	if (bytes < sizeof(record))
		return -EBADMSG;
	memcpy(&record, raw, sizeof(record));
	if (bytes > sizeof(record) || !(record.caps & IBS_CAP_MEMORY_PROFILER))
		return -ENOTSUP;
	if ((record.ctl & IBS_ENABLED_AND_VALID) != IBS_ENABLED_AND_VALID)
		return -EBADMSG;
	data3 = record.data3;
	question |= data3 & IBS_MPROF_DATA3_LOAD ? IBS_CASE_LOAD : 0;
	question |= data3 & (IBS_MPROF_DATA3_LOAD | IBS_MPROF_DATA3_STORE) ? IBS_CASE_ACCESS : 0;
	question |= data3 & IBS_MPROF_DATA3_DC_MISS ? IBS_CASE_DC_MISS : 0;
	question |= data3 & IBS_MPROF_DATA3_L2_MISS ? IBS_CASE_L2_MISS : 0;
	*ret = (struct ibs_op){
		.linear = record.linaddr,
		.physical = record.physaddr,
		.access_flags = (uint32_t)(data3 & MPROF_FLAGS),
		.max_count = (uint32_t)((record.ctl & 0xffff) << 4 | (record.ctl & 0x7f00000)),
		.control_flags = (uint32_t)(record.ctl & MPROF_CONTROL) | (uint32_t)(record.ctl2 & 7) << 24,
		.source =
			(uint8_t)ibs_decode_mprof_source((unsigned int)IBS_MPROF_DATA2_SOURCE(record.data2), question),
		.source_code = (uint8_t)IBS_MPROF_DATA2_SOURCE(record.data2),
		.caps = record.caps,
	};
	if (ret->source == IBS_SOURCE_DRAM || ret->source == IBS_SOURCE_EXT_MEM)
		ret->source_flags = record.data2 & (IBS_MPROF_DATA2_REMOTE_NODE | IBS_MPROF_DATA2_REMOTE_SOCKET);
	else if (ret->source == IBS_SOURCE_DRAM_FAR)
		ret->source_flags = IBS_REMOTE_NODE | (record.data2 & IBS_MPROF_DATA2_REMOTE_SOCKET);
	return 0;
}

/* The first record with its caps, or one whose length they don't explain. */
static __attribute__((noinline)) int decode_other(struct ibs_decoder *decoder, const unsigned char *raw, size_t bytes,
						  struct ibs_op *ret)
{
	uint32_t caps;

	if (decoder->params.kind == IBS_PMU_MPROF)
		return decode_mprof(raw, bytes, ret);
	if (bytes < sizeof(caps))
		return -EBADMSG;
	caps = ibs_get_u32(raw + IBS_AT_CAPS);
	if (decoder->bytes == IBS_BYTES_UNKNOWN || caps != decoder->caps)
		ibs_decode_learn(decoder, caps);
	if (bytes < decoder->bytes)
		return -EBADMSG;
	return bytes == decoder->bytes ? ibs_decode_known(decoder, raw, ret) : -ENOTSUP;
}

int ibs_decode(struct ibs_decoder *decoder, const void *raw, size_t bytes, struct ibs_op *ret)
{
	const unsigned char *at = raw;

	if (__builtin_expect(bytes != decoder->bytes || ibs_get_u32(at + IBS_AT_CAPS) != decoder->caps, 0))
		return decode_other(decoder, at, bytes, ret);
	return ibs_decode_known(decoder, at, ret);
}
