/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The memory profiler's stand-in record. */
#include "harness.h"
#include "ibs_mprof_record.h"
#include "ibs_records.h"

#define LOAD_BEYOND_L2 (1ULL << 0 | 1ULL << 7 | 1ULL << 20)

static struct ibs_decoder *mprof_decoder(void)
{
	static struct ibs_decoder decoder;

	ibs_decoder_init(&decoder, &(struct ibs_decoder_params){ .kind = IBS_PMU_MPROF, .family = 0x1a });
	return &decoder;
}

static int decode_mprof(const struct ibs_mprof_record *record, struct ibs_op *ret)
{
	unsigned char *raw = malloc(sizeof(*record));
	int r;

	memcpy(raw, record, sizeof(*record));
	r = ibs_decode(mprof_decoder(), raw, sizeof(*record), ret);
	free(raw);
	return r;
}

static void profiler_bit_by_bit(void)
{
	static const struct {
		uint64_t data3;
		uint32_t flag;
	} known[] = {
		{ 1 << 0, IBS_LOAD },          { 1 << 1, IBS_STORE },           { 1 << 7, IBS_DC_MISS },
		{ 1 << 17, IBS_LINEAR_VALID }, { 1 << 18, IBS_PHYSICAL_VALID }, { 1 << 20, IBS_L2_MISS },
		{ 1 << 21, IBS_SW_PREFETCH },
	};

	CU_ASSERT_EQUAL(sizeof(struct ibs_mprof_record), 52);
	for (int n = 0; n < 64; n++) {
		struct ibs_mprof_record record = { .caps = CAPS_ZEN6, .ctl = CTL_ON, .data3 = 1ULL << n };
		uint32_t want = 0;
		struct ibs_op op;

		for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
			want |= known[i].data3 == 1ULL << n ? known[i].flag : 0;
		CU_ASSERT_EQUAL(decode_mprof(&record, &op), 0);
		CU_ASSERT_EQUAL(op.access_flags, want);
		CU_ASSERT_EQUAL(op.miss_latency_cycles | op.refill_latency_cycles | op.width_bytes | op.open_requests |
					op.page_shift | op.rip,
				0);
		record.data3 = 0;
		record.linaddr = record.physaddr = 1ULL << n;
		CU_ASSERT_EQUAL(decode_mprof(&record, &op), 0);
		CU_ASSERT_EQUAL(op.linear, 1ULL << n);
		CU_ASSERT_EQUAL(op.physical, 1ULL << n);
		record.ctl = CTL_ON ^ 1ULL << n;
		CU_ASSERT_EQUAL(decode_mprof(&record, &op), n == 17 || n == 18 ? -EBADMSG : 0);
		if (n == 17 || n == 18)
			continue;
		CU_ASSERT_EQUAL(op.max_count, n < 16 ? 16ULL << n : n >= 20 && n < 27 ? 1ULL << n : 0);
		CU_ASSERT_EQUAL(op.control_flags, IBS_ENABLED | IBS_VALID | (n == 16 ? IBS_L3_MISS_ONLY : 0) |
							  (n == 19 ? IBS_COUNTS_OPS : 0));
		record.ctl = CTL_ON;
		record.ctl2 = 1ULL << n;
		CU_ASSERT_EQUAL(decode_mprof(&record, &op), 0);
		CU_ASSERT_EQUAL(op.control_flags, IBS_ENABLED | IBS_VALID | (n == 0 ? IBS_DISABLED : 0) |
							  (n == 1 ? IBS_EXCLUDES_USER : 0) |
							  (n == 2 ? IBS_EXCLUDES_KERNEL : 0));
	}
}

/* data2 bit by bit, of a load from memory: the code is 3, and each bit of it makes another one. */
static void profiler_data2_bit_by_bit(void)
{
	for (int n = 0; n < 64; n++) {
		struct ibs_mprof_record record = {
			.caps = CAPS_ZEN6, .ctl = CTL_ON, .data2 = 3 ^ 1ULL << n, .data3 = LOAD_BEYOND_L2
		};
		unsigned int code = n < 3 ? 3 ^ 1U << n : n == 6 || n == 7 ? 3 | 1U << (n - 3) : 3;
		struct ibs_op op;

		CU_ASSERT_EQUAL(decode_mprof(&record, &op), 0);
		CU_ASSERT_EQUAL(op.source_code, code);
		CU_ASSERT_EQUAL(op.source == IBS_SOURCE_DRAM, code == 3);
		CU_ASSERT_EQUAL(op.source_flags & ~(code == 7 ? IBS_REMOTE_NODE : 0U), n == 4   ? IBS_REMOTE_NODE
										       : n == 9 ? IBS_REMOTE_SOCKET
												: 0);
	}
}

/* What the capabilities say beside their own bit 18 changes nothing. */
static void profiler_caps(void)
{
	for (int n = 0; n < 32; n++) {
		struct ibs_mprof_record record = { .caps = CAPS_ZEN6 ^ 1U << n,
						   .ctl = CTL_ON,
						   .data3 = LOAD_BEYOND_L2 };
		struct ibs_op op;

		CU_ASSERT_EQUAL(decode_mprof(&record, &op), n == 18 ? -ENOTSUP : 0);
		if (n == 18)
			continue;
		CU_ASSERT_EQUAL(op.caps, record.caps);
		CU_ASSERT_EQUAL(op.access_flags, LOAD_BEYOND_L2);
	}
}

static void profiler_sources(void)
{
	static const enum ibs_source want[32] = {
		IBS_SOURCE_NONE,     IBS_SOURCE_L3,       IBS_SOURCE_PEER_CACHE_NEAR,
		IBS_SOURCE_DRAM,     IBS_SOURCE_RESERVED, IBS_SOURCE_PEER_CACHE_FAR,
		IBS_SOURCE_RESERVED, IBS_SOURCE_DRAM_FAR, IBS_SOURCE_EXT_MEM,
	};

	for (unsigned int code = 0; code < 32; code++) {
		struct ibs_mprof_record record = { .caps = CAPS_ZEN6,
						   .ctl = CTL_ON,
						   .data2 = (code & 7) | (code & 0x18) << 3 | 0x210,
						   .data3 = LOAD_BEYOND_L2 | 1 << 14 | 1 << 16 };
		enum ibs_source source = code < 9 ? want[code] : IBS_SOURCE_RESERVED;
		uint16_t flags =
			source == IBS_SOURCE_DRAM || source == IBS_SOURCE_DRAM_FAR || source == IBS_SOURCE_EXT_MEM
				? IBS_REMOTE_NODE | IBS_REMOTE_SOCKET
				: 0;
		struct ibs_op op;

		CU_ASSERT_EQUAL(decode_mprof(&record, &op), 0);
		CU_ASSERT_EQUAL(op.source_code, code);
		CU_ASSERT_EQUAL(op.source, source);
		CU_ASSERT_EQUAL(op.source_flags, flags);
		record.data3 = 1 << 1 | 1 << 7 | 1 << 20;
		CU_ASSERT_EQUAL(decode_mprof(&record, &op), 0);
		CU_ASSERT_EQUAL(op.source, IBS_SOURCE_NONE);
		record.data3 = 1 << 0 | 1 << 7;
		CU_ASSERT_EQUAL(decode_mprof(&record, &op), 0);
		CU_ASSERT_EQUAL(op.source, IBS_SOURCE_L2);
		record.data3 = 1 << 0;
		CU_ASSERT_EQUAL(decode_mprof(&record, &op), 0);
		CU_ASSERT_EQUAL(op.source, IBS_SOURCE_L1);
	}
}

static void profiler_records_that_are_none(void)
{
	struct ibs_mprof_record record = { .caps = CAPS_ZEN6, .ctl = CTL_ON };
	unsigned char more[80] = { 0 };
	struct ibs_op op;

	for (size_t n = 0; n < sizeof(record); n++) {
		unsigned char *cut = malloc(n ? n : 1);

		memcpy(cut, &record, n);
		CU_ASSERT_EQUAL(ibs_decode(mprof_decoder(), cut, n, &op), -EBADMSG);
		free(cut);
	}
	memcpy(more, &record, sizeof(record));
	for (size_t n = sizeof(record) + 1; n <= sizeof(more); n++)
		CU_ASSERT_EQUAL(ibs_decode(mprof_decoder(), more, n, &op), -ENOTSUP);
	record.caps = CAPS_ZEN5;
	CU_ASSERT_EQUAL(decode_mprof(&record, &op), -ENOTSUP);
}

TEST_MAIN(ibs_decode_mprof, TEST(profiler_bit_by_bit), TEST(profiler_data2_bit_by_bit), TEST(profiler_caps),
	  TEST(profiler_sources), TEST(profiler_records_that_are_none))
