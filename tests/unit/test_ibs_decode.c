/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "ibs_check.h"

struct random {
	uint64_t state;
};

static uint64_t next_random(struct random *random)
{
	random->state ^= random->state >> 12;
	random->state ^= random->state << 25;
	random->state ^= random->state >> 27;
	return random->state * 0x2545F4914F6CDD1DULL;
}

/* As the reference says, wherever it lies, and twice. */
static bool check(struct ibs_decoder *decoder, const struct ibs_test_record *record)
{
	struct ibs_op got, want;
	unsigned char *raw, *askew;
	size_t bytes;
	bool well;

	ibs_test_decode(record, decoder->params.family, decoder->params.model, &want);
	raw = ibs_test_raw(record, &bytes);
	askew = malloc(bytes + 3);
	memcpy(askew + 3, raw, bytes);
	memset(&got, 0xA5, sizeof(got));
	well = ibs_decode(decoder, raw, bytes, &got) == 0 && is_same(&got, &want);
	memset(&got, 0x5A, sizeof(got));
	well = well && ibs_decode(decoder, askew + 3, bytes, &got) == 0 && is_same(&got, &want);
	if (!well) {
		printf("  caps %#x family %#x model %#x", record->caps, decoder->params.family, decoder->params.model);
		for (int i = 0; i < OP_REGS; i++)
			printf(" %016llx", (unsigned long long)record->reg[i]);
		printf("\n");
	}
	free(askew);
	free(raw);
	return well;
}

static const struct {
	unsigned int family, model;
} machines[] = { { 0x17, 0x31 }, { 0x19, 0x01 }, { 0x19, 0x0f }, { 0x19, 0x10 }, { 0x19, 0x21 },
		 { 0x19, 0x5f }, { 0x19, 0x60 }, { 0x1a, 0x02 }, { 0, 0 } };
#define N_MACHINES (sizeof(machines) / sizeof(machines[0]))

/* Alone, and with what most fields depend on: a load that missed everything, at a valid address. */
static void each_bit_of_each_register(void)
{
	const uint64_t around[] = { 0, 1ULL << 0 | 1ULL << 7 | 1ULL << 17 | 1ULL << 18 | 1ULL << 20, 1ULL << 1,
				    1ULL << 16 };
	int bad = 0;

	for (size_t m = 0; m < N_MACHINES; m++) {
		struct ibs_decoder *decoder = decoder_of(machines[m].family, machines[m].model);

		for (size_t c = 0; c < N_TEST_CAPS; c++)
			for (int reg = 0; reg < OP_REGS; reg++)
				for (int n = 0; n < 64; n++)
					for (size_t a = 0; a < 4; a++) {
						struct ibs_test_record record = { .caps = ibs_test_caps[c] };

						record.reg[OP_CTL] = CTL_ON;
						record.reg[OP_DATA3] = around[a];
						record.reg[OP_DATA2] = a == 1 ? 3 : 0;
						record.reg[reg] ^= 1ULL << n;
						if (reg == OP_CTL && (n == 17 || n == 18))
							continue;
						bad += !check(decoder, &record);
					}
	}
	CU_ASSERT_EQUAL(bad, 0);
}

static void any_registers(void)
{
	struct random random = { 20240229 };
	int bad = 0;

	for (int i = 0; i < 60000 && bad < 5; i++) {
		size_t m = (size_t)(next_random(&random) % N_MACHINES);
		struct ibs_decoder *decoder = decoder_of(machines[m].family, machines[m].model);
		struct ibs_test_record record = { .caps = ibs_test_caps[next_random(&random) % N_TEST_CAPS] };

		if (i % 4 == 0)
			record.caps = (uint32_t)next_random(&random);
		for (int n = 0; n < 4; n++) {
			for (int reg = 0; reg < OP_REGS; reg++)
				record.reg[reg] = next_random(&random);
			record.reg[OP_CTL] |= CTL_ON;
			bad += !check(decoder, &record);
		}
	}
	CU_ASSERT_EQUAL(bad, 0);
}

/* perf-amd-ibs(1): "Example register raw dump", Zen 4. */
static void published_store_to_far_dram(void)
{
	struct ibs_op op = decode(decoder_of(0x19, 0x11),
				  &(struct ibs_test_record){
					  .caps = CAPS_ZEN4,
					  .reg = { 0x000002c30006186a, 0xffffffff8204aea7, 0x0000010002550001, 0x13,
						   0x31960092, 0xff110008a5398920, 0x8a5398920 },
				  });

	CU_ASSERT_EQUAL(op.max_count, 100000);
	CU_ASSERT_EQUAL(op.current_count, 707);
	CU_ASSERT_EQUAL(op.control_flags, IBS_ENABLED | IBS_VALID);
	CU_ASSERT_EQUAL(op.rip, 0xffffffff8204aea7);
	CU_ASSERT_EQUAL(op.completion_to_retire_cycles, 1);
	CU_ASSERT_EQUAL(op.tag_to_retire_cycles, 597);
	CU_ASSERT_EQUAL(op.op_flags, IBS_MICROCODE);
	CU_ASSERT_EQUAL(op.source_code, 3);
	CU_ASSERT_EQUAL(op.source, IBS_SOURCE_NONE); /* perf prints the code; it means nothing for a store */
	CU_ASSERT_EQUAL(op.source_flags, 0);
	CU_ASSERT_EQUAL(op.access_flags, IBS_STORE | IBS_L1_TLB_HIT_2M | IBS_DC_MISS | IBS_LINEAR_VALID |
						 IBS_PHYSICAL_VALID | IBS_L2_MISS);
	CU_ASSERT_EQUAL(op.page_shift, 21);
	CU_ASSERT_EQUAL(op.width_bytes, 32);
	CU_ASSERT_EQUAL(op.open_requests, 12);
	CU_ASSERT_EQUAL(op.miss_latency_cycles, 0);
	CU_ASSERT_EQUAL(op.refill_latency_cycles, 0);
	CU_ASSERT_EQUAL(op.linear, 0xff110008a5398920);
	CU_ASSERT_EQUAL(op.physical, 0x8a5398920);
}

/* From the patch that added the Zen 4 fields to perf's dump: "ibs_op/l3missonly=1/". */
static void published_load_from_near_cache(void)
{
	struct ibs_op op = decode(decoder_of(0x19, 0x11),
				  &(struct ibs_test_record){
					  .caps = CAPS_ZEN4,
					  .reg = { 0x0000004500070008, 0, 0x710002, 2, 0x000000681d1700a1 },
				  });

	CU_ASSERT_EQUAL(op.max_count, 128);
	CU_ASSERT_EQUAL(op.current_count, 69);
	CU_ASSERT_EQUAL(op.control_flags, IBS_ENABLED | IBS_VALID | IBS_L3_MISS_ONLY);
	CU_ASSERT_EQUAL(op.tag_to_retire_cycles, 113);
	CU_ASSERT_EQUAL(op.source, IBS_SOURCE_PEER_CACHE_NEAR); /* although it had no MAB */
	CU_ASSERT_EQUAL(op.source_flags, 0);                    /* M-state */
	CU_ASSERT_EQUAL(op.access_flags, IBS_LOAD | IBS_L1_TLB_HIT_1G | IBS_DC_MISS | IBS_NO_MAB | IBS_LINEAR_VALID |
						 IBS_PHYSICAL_VALID | IBS_L2_MISS);
	CU_ASSERT_EQUAL(op.page_shift, 30);
	CU_ASSERT_EQUAL(op.width_bytes, 8);
	CU_ASSERT_EQUAL(op.open_requests, 7);
	CU_ASSERT_EQUAL(op.miss_latency_cycles, 104);
}

/* From the patch that taught perf the raw dump, a machine before Zen 4: "ibs_op/cnt_ctl=1/", period 10000001. */
static void published_store_to_l1(void)
{
	struct ibs_op op = decode(decoder_of(0x17, 0x31), &(struct ibs_test_record){
								  .caps = CAPS_ZEN2,
								  .reg = { 0x0000009e009e8968, 0x56016b2ea73d, 0xb0002,
									   2, 0xc60002, 0x7f133c319ce0, 0x270485ce0 },
							  });

	CU_ASSERT_EQUAL(op.max_count, 10000000);
	CU_ASSERT_EQUAL(op.current_count, 158);
	CU_ASSERT_EQUAL(op.control_flags, IBS_ENABLED | IBS_VALID | IBS_COUNTS_OPS);
	CU_ASSERT_EQUAL(op.completion_to_retire_cycles, 2);
	CU_ASSERT_EQUAL(op.tag_to_retire_cycles, 11);
	CU_ASSERT_EQUAL(op.source_code, 2);
	CU_ASSERT_EQUAL(op.source, IBS_SOURCE_L1);
	CU_ASSERT_EQUAL(op.access_flags, IBS_STORE | IBS_LINEAR_VALID | IBS_PHYSICAL_VALID);
	CU_ASSERT_EQUAL(op.page_shift, 0);
	CU_ASSERT_EQUAL(op.width_bytes, 4);
	CU_ASSERT_EQUAL(op.linear, 0x7f133c319ce0);
	CU_ASSERT_EQUAL(op.physical, 0x270485ce0);
}

#define LOAD_BEYOND_L2 (1ULL << 0 | 1ULL << 7 | 1ULL << 20)

static enum ibs_source source_of(uint32_t caps, unsigned int code, uint64_t data3)
{
	return decode(decoder_of(0x1a, 2),
		      &(struct ibs_test_record){
			      .caps = caps,
			      .reg = { [OP_CTL] = CTL_ON,
				       [OP_DATA2] = (code & 7) | (code & 0x18) << 3,
				       [OP_DATA3] = data3 },
		      })
		.source;
}

static void every_source_code(void)
{
	/* As the two comments of amd-sample-raw.c name them. */
	static const enum ibs_source before[8] = { IBS_SOURCE_NONE,           IBS_SOURCE_RESERVED,
						   IBS_SOURCE_LOCAL_CACHE,    IBS_SOURCE_DRAM,
						   IBS_SOURCE_PEER_CACHE_FAR, IBS_SOURCE_RESERVED,
						   IBS_SOURCE_RESERVED,       IBS_SOURCE_OTHER_IO };
	static const enum ibs_source since[13] = {
		IBS_SOURCE_NONE,       IBS_SOURCE_L3,       IBS_SOURCE_PEER_CACHE_NEAR,
		IBS_SOURCE_DRAM,       IBS_SOURCE_RESERVED, IBS_SOURCE_PEER_CACHE_FAR,
		IBS_SOURCE_PMEM,       IBS_SOURCE_MMIO,     IBS_SOURCE_EXT_MEM,
		IBS_SOURCE_RESERVED,   IBS_SOURCE_RESERVED, IBS_SOURCE_RESERVED,
		IBS_SOURCE_PEER_AGENT,
	};

	for (size_t c = 0; c < N_TEST_CAPS; c++)
		for (unsigned int code = 0; code < 32; code++) {
			bool five_bits = ibs_test_caps[c] >> 11 & 1;
			enum ibs_source want = !five_bits  ? before[code & 7]
					       : code < 13 ? since[code]
							   : IBS_SOURCE_RESERVED;

			CU_ASSERT_EQUAL(source_of(ibs_test_caps[c], code, LOAD_BEYOND_L2), want);
		}
	for (unsigned int code = 0; code < 32; code++) {
		CU_ASSERT_EQUAL(source_of(CAPS_ZEN2, code, LOAD_BEYOND_L2), before[code & 7]);
		CU_ASSERT_EQUAL(source_of(CAPS_ZEN3, code, LOAD_BEYOND_L2), before[code & 7]);
		CU_ASSERT_EQUAL(source_of(CAPS_ZEN4, code, LOAD_BEYOND_L2),
				code < 13 ? since[code] : IBS_SOURCE_RESERVED);
		CU_ASSERT_EQUAL(source_of(CAPS_ZEN5, code, LOAD_BEYOND_L2),
				code < 13 ? since[code] : IBS_SOURCE_RESERVED);
		CU_ASSERT_EQUAL(source_of(CAPS_ZEN6, code, LOAD_BEYOND_L2),
				code < 13 ? since[code] : IBS_SOURCE_RESERVED);
	}
}

static void sources_in_order(void)
{
	const uint64_t load = 1 << 0, store = 1 << 1, dc_miss = 1 << 7, uncached = 1 << 14, no_mab = 1 << 16,
		       l2_miss = 1 << 20;

	for (unsigned int code = 0; code < 32; code++) {
		uint64_t all = load | dc_miss | l2_miss;

		CU_ASSERT_EQUAL(source_of(CAPS_ZEN4, code, 0), IBS_SOURCE_NONE);
		CU_ASSERT_EQUAL(source_of(CAPS_ZEN4, code, dc_miss | l2_miss | no_mab | uncached), IBS_SOURCE_NONE);
		if (code != 7)
			CU_ASSERT_EQUAL(source_of(CAPS_ZEN4, code, all | uncached), IBS_SOURCE_UNCACHED);
		CU_ASSERT_EQUAL(source_of(CAPS_ZEN4, code, load), IBS_SOURCE_L1);
		CU_ASSERT_EQUAL(source_of(CAPS_ZEN4, code, load | l2_miss | no_mab), IBS_SOURCE_L1);
		CU_ASSERT_EQUAL(source_of(CAPS_ZEN4, code, store), IBS_SOURCE_L1);
		CU_ASSERT_EQUAL(source_of(CAPS_ZEN4, code, load | dc_miss), IBS_SOURCE_L2);
		CU_ASSERT_EQUAL(source_of(CAPS_ZEN4, code, store | dc_miss), IBS_SOURCE_L2);
		/* Whatever it says, a store has no source. */
		CU_ASSERT_EQUAL(source_of(CAPS_ZEN4, code, store | dc_miss | l2_miss), IBS_SOURCE_NONE);
		CU_ASSERT_EQUAL(source_of(CAPS_ZEN4, code, store | dc_miss | l2_miss | no_mab), IBS_SOURCE_LINE_FILL);
	}
	CU_ASSERT_EQUAL(source_of(CAPS_ZEN4, 7, LOAD_BEYOND_L2 | uncached), IBS_SOURCE_MMIO);
	CU_ASSERT_EQUAL(source_of(CAPS_ZEN4, 8, LOAD_BEYOND_L2 | no_mab), IBS_SOURCE_EXT_MEM);
	CU_ASSERT_EQUAL(source_of(CAPS_ZEN4, 0, LOAD_BEYOND_L2 | no_mab), IBS_SOURCE_LINE_FILL);
	CU_ASSERT_EQUAL(source_of(CAPS_ZEN4, 9, LOAD_BEYOND_L2 | no_mab), IBS_SOURCE_LINE_FILL);
	/* Both, as of an atomic: a load. */
	CU_ASSERT_EQUAL(source_of(CAPS_ZEN4, 8, LOAD_BEYOND_L2 | store), IBS_SOURCE_EXT_MEM);
}

static void flags_of_sources(void)
{
	static const struct {
		uint32_t caps;
		unsigned int code;
		uint16_t want; /* of REMOTE_NODE, OWNED, REMOTE_SOCKET, STREAMING_STORE all set */
	} cases[] = {
		{ CAPS_ZEN2, 3, IBS_REMOTE_NODE },
		{ CAPS_ZEN2, 2, IBS_CACHE_OWNED },
		{ CAPS_ZEN2, 4, 0 },
		{ CAPS_ZEN2, 7, 0 },
		{ CAPS_ZEN4, 1, IBS_CACHE_OWNED },
		{ CAPS_ZEN4, 2, IBS_CACHE_OWNED },
		{ CAPS_ZEN4, 3, IBS_REMOTE_NODE },
		{ CAPS_ZEN4, 5, IBS_CACHE_OWNED },
		{ CAPS_ZEN4, 6, IBS_REMOTE_NODE },
		{ CAPS_ZEN4, 7, 0 },
		{ CAPS_ZEN4, 8, IBS_REMOTE_NODE },
		{ CAPS_ZEN4, 12, 0 },
		{ CAPS_ZEN6, 8, IBS_REMOTE_NODE | IBS_REMOTE_SOCKET | IBS_STREAMING_STORE },
		{ CAPS_ZEN6, 3, IBS_REMOTE_NODE | IBS_REMOTE_SOCKET | IBS_STREAMING_STORE },
		{ CAPS_ZEN6, 5, IBS_CACHE_OWNED | IBS_STREAMING_STORE },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		unsigned int code = cases[i].code;
		struct ibs_test_record record = {
			.caps = cases[i].caps,
			.reg = { [OP_CTL] = CTL_ON,
				 [OP_DATA2] = 0x330 | (code & 7) | (code & 0x18) << 3,
				 [OP_DATA3] = LOAD_BEYOND_L2 },
		};

		CU_ASSERT_EQUAL(decode(decoder_of(0x1a, 2), &record).source_flags, cases[i].want);
	}
}

/* Family 19h below model 10h: MSRC001_1036 and two fields of 1037 are wrong for some. */
static void erratum_1293(void)
{
	struct ibs_test_record record = {
		.caps = CAPS_ZEN2,
		.reg = { [OP_CTL] = CTL_ON, [OP_DATA2] = 0x13, [OP_DATA3] = LOAD_BEYOND_L2 | 1 << 21 | 5ULL << 26 },
	};
	struct ibs_op op = decode(decoder_of(0x19, 0x01), &record);

	CU_ASSERT_EQUAL(op.source, IBS_SOURCE_NONE);
	CU_ASSERT_EQUAL(op.source_code, 0);
	CU_ASSERT_EQUAL(op.source_flags, 0);
	CU_ASSERT_EQUAL(op.access_flags, IBS_LOAD | IBS_DC_MISS | IBS_SW_PREFETCH);
	CU_ASSERT_EQUAL(op.open_requests, 0);
	op = decode(decoder_of(0x19, 0x10), &record);
	CU_ASSERT_EQUAL(op.source, IBS_SOURCE_DRAM);
	CU_ASSERT_EQUAL(op.source_flags, IBS_REMOTE_NODE);
	CU_ASSERT_EQUAL(op.open_requests, 5);
	/* No hit in L2 either, then: that isn't to be believed. */
	record.reg[OP_DATA3] = 1 << 0 | 1 << 7 | 1 << 16;
	CU_ASSERT_EQUAL(decode(decoder_of(0x19, 0x0f), &record).source, IBS_SOURCE_LINE_FILL);
	CU_ASSERT_EQUAL(decode(decoder_of(0x1a, 0x01), &record).source, IBS_SOURCE_L2);
	record.reg[OP_DATA3] = LOAD_BEYOND_L2;
	CU_ASSERT_EQUAL(decode(decoder_of(0x19, 0x01), &record).source, IBS_SOURCE_DRAM);
}

static void latency_where_valid(void)
{
	const uint64_t lat = 0x1234ULL << 32 | 0x5678ULL << 48;
	static const struct {
		uint64_t data3;
		bool valid;
	} cases[] = {
		{ 1 << 0 | 1 << 7, true },
		{ 1 << 0, false },
		{ 1 << 1 | 1 << 7, false },
		{ 1 << 7, false },
		{ 1 << 0 | 1 << 7 | 1 << 14, false },
		{ 1 << 0 | 1 << 7 | 1 << 21, false },
		{ 1 << 0 | 1 << 1 | 1 << 7, true },
		{ 1 << 0 | 1 << 7 | 1 << 16 | 1 << 20, true },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ibs_test_record record = { .caps = CAPS_ZEN4,
						  .reg = { [OP_CTL] = CTL_ON, [OP_DATA3] = cases[i].data3 | lat } };
		struct ibs_op op = decode(decoder_of(0x19, 0x11), &record);

		CU_ASSERT_EQUAL(op.miss_latency_cycles, cases[i].valid ? 0x1234 : 0);
		CU_ASSERT_EQUAL(op.refill_latency_cycles, 0x5678);
	}
}

static void page_sizes(void)
{
	static const uint8_t sizes[4] = { 12, 21, 30, 0 };

	for (unsigned int i = 0; i < 4; i++) {
		struct ibs_test_record record = {
			.caps = CAPS_ZEN5,
			.reg = { [OP_CTL] = CTL_ON, [OP_DATA3] = i << 4 | 1 << 18 | 3 << 2 | 1 << 6 | 1 << 19 },
		};
		struct ibs_op op = decode(decoder_of(0x1a, 2), &record);

		CU_ASSERT_EQUAL(op.page_shift, sizes[i]);
		CU_ASSERT_EQUAL(op.access_flags, IBS_PHYSICAL_VALID | IBS_L1_TLB_MISS | IBS_L2_TLB_MISS);
		record.reg[OP_DATA3] &= ~(1ULL << 18);
		op = decode(decoder_of(0x1a, 2), &record);
		CU_ASSERT_EQUAL(op.page_shift, 0);
		CU_ASSERT_EQUAL(op.access_flags, 0);
	}
}

static void latency_thresholds(void)
{
	for (unsigned int i = 0; i < 16; i++) {
		struct ibs_test_record record = { .caps = CAPS_ZEN5,
						  .reg = { [OP_CTL] = CTL_ON | 1ULL << 63 | (uint64_t)i << 59 } };

		CU_ASSERT_EQUAL(decode(decoder_of(0x1a, 2), &record).latency_threshold_cycles, 128 * (i + 1));
		record.caps = CAPS_ZEN4;
		CU_ASSERT_EQUAL(decode(decoder_of(0x1a, 2), &record).latency_threshold_cycles, 0);
	}
}

static void cut_at_each_length(void)
{
	struct ibs_decoder *decoder = decoder_of(0x1a, 2);

	for (size_t c = 0; c < N_TEST_CAPS; c++) {
		struct ibs_test_record record = { .caps = ibs_test_caps[c], .reg = { CTL_ON } };
		struct ibs_op op;
		size_t bytes;
		unsigned char *raw = ibs_test_raw(&record, &bytes);

		/* Before the decoder knows these caps, and after. */
		for (int turn = 0; turn < 2; turn++) {
			for (size_t n = 0; n < bytes; n++) {
				unsigned char *cut = malloc(n ? n : 1);

				memcpy(cut, raw, n);
				CU_ASSERT_EQUAL(ibs_decode(decoder, cut, n, &op), -EBADMSG);
				free(cut);
			}
			CU_ASSERT_EQUAL(ibs_decode(decoder, raw, bytes, &op), 0);
		}
		for (size_t n = bytes + 1; n < bytes + 40; n++) {
			unsigned char *more = calloc(1, n);

			memcpy(more, raw, bytes);
			CU_ASSERT_EQUAL(ibs_decode(decoder, more, n, &op), -ENOTSUP);
			free(more);
		}
		free(raw);
	}
	/* What the kernel writes for an event without raw data. */
	CU_ASSERT_EQUAL(ibs_decode(decoder, "\0\0\0\0", 4, &(struct ibs_op){ 0 }), -EBADMSG);
}

static void caps_of_the_future(void)
{
	struct ibs_decoder *decoder = decoder_of(0x1a, 2);

	for (int n = 0; n < 32; n++) {
		bool is_known = n <= 19 && n != 17;
		struct ibs_test_record record = { .caps = CAPS_ZEN5 | 1U << n,
						  .reg = { CTL_ON, 1, 2, 3, LOAD_BEYOND_L2, 5, 6, 7, 8 } };
		struct ibs_op op;
		size_t bytes;
		unsigned char *raw, *more;

		if (is_known)
			continue;
		CU_ASSERT_TRUE(check(decoder, &record));
		/* A register that we don't know: it could be any of them. */
		raw = ibs_test_raw(&record, &bytes);
		more = calloc(1, bytes + 8);
		memcpy(more, raw, bytes);
		CU_ASSERT_EQUAL(ibs_decode(decoder, more, bytes + 8, &op), -ENOTSUP);
		free(more);
		free(raw);
	}
}

static void no_sample(void)
{
	static const uint64_t control[] = { 0, 1 << 17, 1 << 18, ~CTL_ON };

	for (size_t i = 0; i < sizeof(control) / sizeof(control[0]); i++) {
		struct ibs_test_record record = { .caps = CAPS_ZEN4, .reg = { control[i] } };
		struct ibs_op op;
		size_t bytes;
		unsigned char *raw = ibs_test_raw(&record, &bytes);

		CU_ASSERT_EQUAL(ibs_decode(decoder_of(0x19, 0x11), raw, bytes, &op), -EBADMSG);
		free(raw);
	}
}

static void names_of_sources(void)
{
	for (unsigned int i = 0; i < IBS_SOURCES; i++) {
		CU_ASSERT_PTR_NOT_NULL(ibs_source_name(i));
		for (unsigned int j = 0; j < i; j++)
			CU_ASSERT_STRING_NOT_EQUAL(ibs_source_name(i), ibs_source_name(j));
	}
	CU_ASSERT_PTR_NULL(ibs_source_name(IBS_SOURCES));
}

TEST_MAIN(ibs_decode, TEST(each_bit_of_each_register), TEST(any_registers), TEST(published_store_to_far_dram),
	  TEST(published_load_from_near_cache), TEST(published_store_to_l1), TEST(every_source_code),
	  TEST(sources_in_order), TEST(flags_of_sources), TEST(erratum_1293), TEST(latency_where_valid),
	  TEST(page_sizes), TEST(latency_thresholds), TEST(cut_at_each_length), TEST(caps_of_the_future),
	  TEST(no_sample), TEST(names_of_sources))
