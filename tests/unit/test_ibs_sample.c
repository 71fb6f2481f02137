/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <linux/perf_event.h>

#include "decode.h"
#include "harness.h"
#include "ibs_records.h"
#include "ibs_sample.h"

#define USER_ADDR 0x7f1234567abcULL
#define PHYS_ADDR 0x123456abcULL

struct bench {
	struct ibs_decoder decoder;
	struct decode_sample decoded;
	struct ibs_op op;
	struct sample sample;
};

/* A load from a user's page: kept. */
static struct bench *fresh(bool user_only, unsigned int physical_bits)
{
	static struct bench b;

	memset(&b, 0, sizeof(b));
	ibs_decoder_init(&b.decoder, &(struct ibs_decoder_params){ .family = 0x1a,
								   .physical_bits = physical_bits,
								   .self_pid = 77,
								   .user_only = user_only });
	b.decoded = (struct decode_sample){
		.misc = PERF_RECORD_MISC_USER, .pid = 100, .tid = 101, .time_ns = 5, .phys_addr = PHYS_ADDR
	};
	b.op = (struct ibs_op){ .linear = USER_ADDR,
				.physical = PHYS_ADDR,
				.rip = 0x401000,
				.access_flags = IBS_LOAD | IBS_LINEAR_VALID | IBS_PHYSICAL_VALID };
	return &b;
}

static enum ibs_discard outcome(struct bench *b)
{
	struct sample before;
	enum ibs_discard why;

	memset(&b->sample, 0xA5, sizeof(b->sample));
	before = b->sample;
	why = ibs_to_sample(&b->decoder, &b->decoded, &b->op, 3, &b->sample);
	if (why != IBS_KEEP)
		CU_ASSERT_EQUAL(memcmp(&before, &b->sample, sizeof(before)), 0);
	return why;
}

static void a_sample(void)
{
	struct bench *b = fresh(true, 48);

	b->op.access_flags |= IBS_STORE | IBS_DC_MISS;
	b->op.miss_latency_cycles = 777;
	b->op.page_shift = 21;
	b->decoded.weight = 5;
	b->decoded.data_page_bytes = 4096;
	CU_ASSERT_EQUAL(outcome(b), IBS_KEEP);
	CU_ASSERT_EQUAL(b->sample.time_ns, 5);
	CU_ASSERT_EQUAL(b->sample.addr, USER_ADDR);
	CU_ASSERT_EQUAL(b->sample.phys, PHYS_ADDR);
	CU_ASSERT_EQUAL(b->sample.pid, 100);
	CU_ASSERT_EQUAL(b->sample.latency, 777);
	CU_ASSERT_EQUAL(b->sample.cpu, 3);
	CU_ASSERT_EQUAL(b->sample.page_shift, 21);
	CU_ASSERT_EQUAL(b->sample.source, SAMPLE_SOURCE_IBS);
	CU_ASSERT_EQUAL(b->sample.flags, SAMPLE_LOAD | SAMPLE_STORE);
}

static void what_the_record_lacks(void)
{
	struct bench *b = fresh(true, 48);

	b->op.access_flags = IBS_STORE | IBS_LINEAR_VALID | IBS_PHYSICAL_VALID;
	b->decoded.weight = 1ULL << 40;
	b->decoded.data_page_bytes = 1 << 30;
	CU_ASSERT_EQUAL(outcome(b), IBS_KEEP);
	CU_ASSERT_EQUAL(b->sample.latency, UINT32_MAX);
	CU_ASSERT_EQUAL(b->sample.page_shift, 30);
	CU_ASSERT_EQUAL(b->sample.flags, SAMPLE_STORE);
	b->decoded.weight = 0;
	b->decoded.data_page_bytes = 12288;
	CU_ASSERT_EQUAL(outcome(b), IBS_KEEP);
	CU_ASSERT_EQUAL(b->sample.latency, 0);
	CU_ASSERT_EQUAL(b->sample.page_shift, 0);
}

static void each_cause(void)
{
	struct bench *b;

	for (int mode = 0; mode < 8; mode++) {
		bool is_guest = mode == PERF_RECORD_MISC_GUEST_KERNEL || mode == PERF_RECORD_MISC_GUEST_USER;
		bool is_kernel = mode == PERF_RECORD_MISC_KERNEL || mode == PERF_RECORD_MISC_HYPERVISOR;

		b = fresh(false, 48);
		b->decoded.misc = (uint16_t)(mode | PERF_RECORD_MISC_EXACT_IP);
		CU_ASSERT_EQUAL(outcome(b), is_guest ? IBS_DISCARD_GUEST : IBS_KEEP);
		b->decoder.params.user_only = true;
		CU_ASSERT_EQUAL(outcome(b), is_guest ? IBS_DISCARD_GUEST : is_kernel ? IBS_DISCARD_KERNEL : IBS_KEEP);
	}
	b = fresh(false, 48);
	b->decoded.pid = 0;
	CU_ASSERT_EQUAL(outcome(b), IBS_DISCARD_NO_PID);
	b->decoded.pid = UINT32_MAX;
	CU_ASSERT_EQUAL(outcome(b), IBS_DISCARD_NO_PID);
	b->decoded.pid = 77;
	CU_ASSERT_EQUAL(outcome(b), IBS_DISCARD_SELF);
	b = fresh(false, 48);
	b->op.access_flags = IBS_LINEAR_VALID | IBS_PHYSICAL_VALID;
	CU_ASSERT_EQUAL(outcome(b), IBS_DISCARD_NO_ACCESS);
	b->op.access_flags |= IBS_LOAD | IBS_SW_PREFETCH;
	CU_ASSERT_EQUAL(outcome(b), IBS_DISCARD_PREFETCH);
	b = fresh(false, 48);
	b->op.access_flags &= ~(uint32_t)IBS_LINEAR_VALID;
	CU_ASSERT_EQUAL(outcome(b), IBS_DISCARD_NO_ADDRESS);
	b = fresh(false, 48);
	b->op.linear = 0;
	CU_ASSERT_EQUAL(outcome(b), IBS_DISCARD_NO_ADDRESS);
	for (int n = 56; n < 64; n++) {
		b->op.linear = 1ULL << n;
		CU_ASSERT_EQUAL(outcome(b), IBS_DISCARD_KERNEL);
	}
	b->op.linear = (1ULL << 56) - 1;
	CU_ASSERT_EQUAL(outcome(b), IBS_KEEP);
}

/* The instruction's own address tells, too: a skid may have changed the mode. */
static void kernel_by_instruction(void)
{
	struct bench *b = fresh(true, 48);

	b->op.rip = 0xffffffff81000000;
	CU_ASSERT_EQUAL(outcome(b), IBS_DISCARD_KERNEL);
	b->op.op_flags = IBS_RIP_INVALID;
	CU_ASSERT_EQUAL(outcome(b), IBS_KEEP);
	b = fresh(false, 48);
	b->op.rip = 0xffffffff81000000;
	CU_ASSERT_EQUAL(outcome(b), IBS_KEEP);
}

/* Kernels from about 6.14 to 7.0 take it out of the record, with or without the valid bit. */
static void wiped_physical_address(void)
{
	struct bench *b = fresh(false, 48);

	b->op.physical = 0;
	CU_ASSERT_EQUAL(outcome(b), IBS_KEEP);
	CU_ASSERT_EQUAL(b->sample.phys, PHYS_ADDR);
	b->decoded.phys_addr = 0;
	CU_ASSERT_EQUAL(outcome(b), IBS_DISCARD_NO_PHYS);
	b->op.access_flags &= ~(uint32_t)IBS_PHYSICAL_VALID;
	CU_ASSERT_EQUAL(outcome(b), IBS_DISCARD_NO_PHYS);
	b->op.physical = PHYS_ADDR;
	CU_ASSERT_EQUAL(outcome(b), IBS_DISCARD_NO_PHYS);
	b->op.access_flags |= IBS_PHYSICAL_VALID;
	CU_ASSERT_EQUAL(outcome(b), IBS_KEEP);
	CU_ASSERT_EQUAL(b->sample.phys, PHYS_ADDR);
	b->decoded.phys_addr = 0x5000;
	CU_ASSERT_EQUAL(outcome(b), IBS_KEEP);
	CU_ASSERT_EQUAL(b->sample.phys, 0x5000);
}

static void physical_width(void)
{
	static const struct {
		unsigned int bits;
		uint64_t mask;
	} cases[] = { { 0, (1ULL << 52) - 1 },  { 31, (1ULL << 52) - 1 }, { 39, (1ULL << 39) - 1 },
		      { 48, (1ULL << 48) - 1 }, { 51, (1ULL << 51) - 1 }, { 52, (1ULL << 52) - 1 },
		      { 64, (1ULL << 52) - 1 } };

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct bench *b = fresh(false, cases[i].bits);

		b->decoded.phys_addr = UINT64_MAX;
		CU_ASSERT_EQUAL(outcome(b), IBS_KEEP);
		CU_ASSERT_EQUAL(b->sample.phys, cases[i].mask);
		b->decoded.phys_addr = 0;
		b->op.physical = UINT64_MAX;
		CU_ASSERT_EQUAL(outcome(b), IBS_KEEP);
		CU_ASSERT_EQUAL(b->sample.phys, cases[i].mask);
		/* Nothing but an encryption bit. */
		b->op.physical = ~cases[i].mask;
		CU_ASSERT_EQUAL(outcome(b), IBS_DISCARD_NO_PHYS);
	}
}

/* With everything wrong, what is tested first is told; mended one by one, the next. */
static void order_of_causes(void)
{
	struct bench *b = fresh(true, 48);

	b->decoded = (struct decode_sample){ .misc = PERF_RECORD_MISC_GUEST_USER };
	b->op = (struct ibs_op){ .access_flags = IBS_SW_PREFETCH };
	CU_ASSERT_EQUAL(outcome(b), IBS_DISCARD_GUEST);
	b->decoded.misc = PERF_RECORD_MISC_KERNEL;
	CU_ASSERT_EQUAL(outcome(b), IBS_DISCARD_NO_PID);
	b->decoded.pid = 77;
	CU_ASSERT_EQUAL(outcome(b), IBS_DISCARD_SELF);
	b->decoded.pid = 78;
	CU_ASSERT_EQUAL(outcome(b), IBS_DISCARD_NO_ACCESS);
	b->op.access_flags |= IBS_STORE;
	CU_ASSERT_EQUAL(outcome(b), IBS_DISCARD_PREFETCH);
	b->op.access_flags = IBS_STORE;
	CU_ASSERT_EQUAL(outcome(b), IBS_DISCARD_NO_ADDRESS);
	b->op.access_flags |= IBS_LINEAR_VALID;
	b->op.linear = USER_ADDR;
	CU_ASSERT_EQUAL(outcome(b), IBS_DISCARD_KERNEL);
	b->decoded.misc = PERF_RECORD_MISC_USER;
	CU_ASSERT_EQUAL(outcome(b), IBS_DISCARD_NO_PHYS);
	b->decoded.phys_addr = PHYS_ADDR;
	CU_ASSERT_EQUAL(outcome(b), IBS_KEEP);
}

TEST_MAIN(ibs_sample, TEST(a_sample), TEST(what_the_record_lacks), TEST(each_cause), TEST(kernel_by_instruction),
	  TEST(wiped_physical_address), TEST(physical_width), TEST(order_of_causes))
