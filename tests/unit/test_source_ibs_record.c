/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "call_counts.h"
#include "harness.h"
#include "ibs_mprof_record.h"
#include "ibs_records.h"
#include "perf_records.h"
#include "source_ibs_quick.h"

static const struct ibs_decoder_params params = { .family = 0x1a, .model = 2 };

/* A record of @type with these registers, at the end of an allocation of its own. To be freed. */
static struct perf_event_header *make(uint64_t type, const struct ibs_test_record *regs, struct test_rng *rng)
{
	static struct test_record record;
	size_t bytes;
	unsigned char *raw = ibs_test_raw(regs, &bytes);
	struct test_sample in = {
		.misc = (uint16_t)test_random(rng),
		.ip = test_random(rng),
		.pid = (uint32_t)test_random(rng),
		.tid = (uint32_t)test_random(rng),
		.time = test_random(rng),
		.addr = test_random(rng),
		.cpu = (uint32_t)test_random(rng),
		.period = test_random(rng),
		.weight = test_random(rng),
		.data_src = test_random(rng),
		.phys_addr = test_random(rng),
		.data_page_bytes = test_random(rng),
		.identifier = test_random(rng),
		.raw = raw,
		.raw_bytes = (uint32_t)bytes,
	};
	void *alone;

	make_sample_record(&record, type, &in);
	free(raw);
	alone = malloc(record.n);
	memcpy(alone, record.bytes, record.n);
	return alone;
}

static struct ibs_test_record random_registers(uint32_t caps, struct test_rng *rng)
{
	struct ibs_test_record record = { .caps = caps };

	for (int i = 0; i < OP_REGS; i++)
		record.reg[i] = test_random(rng);
	record.reg[OP_CTL] |= CTL_ON;
	return record;
}

/* The two decoders, one after the other, say the same of any layout, whatever was decoded before. */
static void as_the_two_decoders(void)
{
	static struct source_ibs_record record;
	const uint64_t types[] = {
		source_ibs_sample_type(false),
		source_ibs_sample_type(true),
		source_ibs_sample_type(true) | PERF_SAMPLE_IP,
		source_ibs_sample_type(false) | PERF_SAMPLE_IDENTIFIER,
		PERF_SAMPLE_RAW,
		source_ibs_sample_type(false) & ~(uint64_t)PERF_SAMPLE_WEIGHT,
	};
	struct test_rng rng = { 7 };

	for (size_t t = 0; t < sizeof(types) / sizeof(types[0]); t++) {
		CU_ASSERT_EQUAL(source_ibs_record_init(&record, types[t], &params), 0);
		for (int i = 0; i < 3000; i++) {
			uint32_t caps = ibs_test_caps[i / 100 % N_TEST_CAPS];
			struct ibs_test_record regs = random_registers(i % 50 ? caps : CAPS_FULL, &rng);
			struct perf_event_header *header = make(types[t], &regs, &rng);
			struct decode_sample want;
			struct ibs_op op;

			CU_ASSERT_EQUAL(decode_sample(types[t], header, &want), 0);
			ibs_test_decode(&regs, params.family, params.model, &op);
			CU_ASSERT_EQUAL(source_ibs_record_take(&record, header), 0);
			CU_ASSERT_EQUAL(memcmp(&record.op, &op, sizeof(op)), 0);
			CU_ASSERT_PTR_NULL(record.decoded.raw);
			CU_ASSERT_EQUAL(record.decoded.present, want.present);
			CU_ASSERT_EQUAL(record.decoded.misc, want.misc);
			CU_ASSERT_EQUAL(record.decoded.ip, want.ip);
			CU_ASSERT_EQUAL(record.decoded.pid, want.pid);
			CU_ASSERT_EQUAL(record.decoded.tid, want.tid);
			CU_ASSERT_EQUAL(record.decoded.time_ns, want.time_ns);
			CU_ASSERT_EQUAL(record.decoded.addr, want.addr);
			CU_ASSERT_EQUAL(record.decoded.identifier, want.identifier);
			CU_ASSERT_EQUAL(record.decoded.cpu, want.cpu);
			CU_ASSERT_EQUAL(record.decoded.period, want.period);
			CU_ASSERT_EQUAL(record.decoded.weight, want.weight);
			CU_ASSERT_EQUAL(record.decoded.data_src, want.data_src);
			CU_ASSERT_EQUAL(record.decoded.phys_addr, want.phys_addr);
			CU_ASSERT_EQUAL(record.decoded.data_page_bytes, want.data_page_bytes);
			free(header);
		}
	}
}

static void full_length(void)
{
	struct test_rng rng = { 1 };
	struct ibs_test_record regs = random_registers(CAPS_FULL, &rng);
	struct perf_event_header *header = make(source_ibs_sample_type(true), &regs, &rng);

	/* What the benchmark counts. */
	CU_ASSERT_EQUAL(header->size, 160);
	free(header);
}

static void types_that_are_none(void)
{
	static struct source_ibs_record record;

	CU_ASSERT_EQUAL(source_ibs_record_init(&record, source_ibs_sample_type(true) & ~(uint64_t)PERF_SAMPLE_RAW,
					       &params),
			-ENOTSUP);
	CU_ASSERT_EQUAL(source_ibs_record_init(&record, PERF_SAMPLE_RAW | PERF_SAMPLE_READ, &params), -ENOTSUP);
	CU_ASSERT_EQUAL(source_ibs_record_init(&record, PERF_SAMPLE_RAW | 1ULL << 60, &params), -ENOTSUP);
}

/* At every length, before and after the decoder has seen a whole one. */
static void cut_records(void)
{
	static struct source_ibs_record record;
	struct test_rng rng = { 3 };

	for (int turn = 0; turn < 2; turn++)
		for (int page = 0; page < 2; page++) {
			uint64_t type = source_ibs_sample_type(page);
			struct ibs_test_record regs = random_registers(CAPS_FULL, &rng);
			struct perf_event_header *whole = make(type, &regs, &rng);

			source_ibs_record_init(&record, type, &params);
			if (turn)
				CU_ASSERT_EQUAL(source_ibs_record_take(&record, whole), 0);
			for (uint16_t n = sizeof(*whole); n < whole->size; n++) {
				struct perf_event_header *cut = malloc(n);

				memcpy(cut, whole, n);
				cut->size = n;
				CU_ASSERT_EQUAL(source_ibs_record_take(&record, cut), -EBADMSG);
				/* Less than a header. */
				cut->size = n % 8;
				CU_ASSERT_EQUAL(source_ibs_record_take(&record, cut), -EBADMSG);
				free(cut);
			}
			CU_ASSERT_EQUAL(source_ibs_record_take(&record, whole), 0);
			free(whole);
		}
}

/* A record of the usual size whose raw data isn't of the usual size, or not one at all. */
static void lying_records(void)
{
	static struct source_ibs_record record;
	uint64_t type = source_ibs_sample_type(false);
	struct test_rng rng = { 4 };
	struct ibs_test_record regs = random_registers(CAPS_FULL, &rng);
	struct perf_event_header *header = make(type, &regs, &rng);
	unsigned char *raw_bytes = (unsigned char *)header + 48;
	uint64_t control = 1 << 17;

	source_ibs_record_init(&record, type, &params);
	CU_ASSERT_EQUAL(source_ibs_record_take(&record, header), 0);
	for (unsigned int n = 0; n < 256; n++) {
		int r;

		*raw_bytes = (unsigned char)n;
		r = source_ibs_record_take(&record, header);
		CU_ASSERT_EQUAL(r, n == 76 ? 0 : -EBADMSG);
	}
	*raw_bytes = 76;
	memcpy(raw_bytes + 4 + 4, &control, sizeof(control));
	CU_ASSERT_EQUAL(source_ibs_record_take(&record, header), -EBADMSG);
	free(header);
	/* Other caps in the same length. */
	regs.caps ^= 1 << 11;
	header = make(type, &regs, &rng);
	CU_ASSERT_EQUAL(source_ibs_record_take(&record, header), 0);
	CU_ASSERT_EQUAL(record.op.caps, regs.caps);
	free(header);
}

/* One that is refused, but whose caps the decoder has seen, changes nothing for the next. */
static void after_a_bad_record(void)
{
	static struct source_ibs_record record;
	uint64_t type = source_ibs_sample_type(false);
	struct test_rng rng = { 6 };
	struct ibs_test_record regs = random_registers(CAPS_FULL, &rng), bad = regs;
	struct perf_event_header *header = make(type, &regs, &rng), *bad_header;
	struct ibs_op want;

	bad.caps &= ~(uint32_t)(IBS_CAP_ZEN4 | IBS_CAP_DTLB_PAGE_SIZE);
	bad.reg[OP_CTL] = 0;
	bad_header = make(type, &bad, &rng);
	ibs_test_decode(&regs, params.family, params.model, &want);
	source_ibs_record_init(&record, type, &params);
	for (int i = 0; i < 3; i++) {
		CU_ASSERT_EQUAL(source_ibs_record_take(&record, header), 0);
		CU_ASSERT_EQUAL(memcmp(&record.op, &want, sizeof(want)), 0);
		CU_ASSERT_EQUAL(source_ibs_record_take(&record, bad_header), -EBADMSG);
	}
	free(bad_header);
	free(header);
}

static void profiler(void)
{
	static struct source_ibs_record record;
	struct ibs_mprof_record raw = {
		.caps = CAPS_ZEN6, .ctl = CTL_ON, .data3 = 1 << 0 | 1 << 17, .linaddr = 0x1234
	};
	struct test_sample in = { .pid = 5, .phys_addr = 0x5678, .raw = &raw, .raw_bytes = sizeof(raw) };
	uint64_t type = source_ibs_sample_type(true);
	static struct test_record made;

	source_ibs_record_init(&record, type, &(struct ibs_decoder_params){ .kind = IBS_PMU_MPROF });
	for (int i = 0; i < 3; i++) {
		CU_ASSERT_EQUAL(source_ibs_record_take(&record, make_sample_record(&made, type, &in)), 0);
		CU_ASSERT_EQUAL(record.op.linear, 0x1234);
		CU_ASSERT_EQUAL(record.op.source, IBS_SOURCE_L1);
		CU_ASSERT_EQUAL(record.decoded.pid, 5);
		CU_ASSERT_EQUAL(record.decoded.phys_addr, 0x5678);
	}
	in.raw_bytes -= 8;
	CU_ASSERT_EQUAL(source_ibs_record_take(&record, make_sample_record(&made, type, &in)), -EBADMSG);
}

#define N_RECORDS 64

/* Some of each kind, so that it isn't only the usual that costs nothing. */
static void fill(struct perf_event_header *headers[N_RECORDS], uint64_t type)
{
	struct test_rng rng = { 5 };

	for (size_t i = 0; i < N_RECORDS; i++) {
		struct ibs_test_record regs = random_registers(ibs_test_caps[i / 8 % N_TEST_CAPS], &rng);

		headers[i] = make(type, &regs, &rng);
		if (i % 16 == 15)
			headers[i]->size -= 8;
	}
}

static void empty(struct perf_event_header *headers[N_RECORDS])
{
	for (size_t i = 0; i < N_RECORDS; i++)
		free(headers[i]);
}

static int take_all(struct source_ibs_record *record, struct perf_event_header *headers[N_RECORDS])
{
	int taken = 0;

	for (int turn = 0; turn < 100; turn++)
		for (size_t i = 0; i < N_RECORDS; i++)
			taken += source_ibs_record_take(record, headers[i]) == 0;
	return taken;
}

static void no_allocation_no_lock(void)
{
#ifdef SANITIZED
	test_skip("the sanitizer has taken malloc");
#else
	static struct source_ibs_record record;
	struct perf_event_header *headers[N_RECORDS];
	unsigned long before;
	int taken;

	if (test_under_valgrind()) {
		test_skip("valgrind has taken malloc");
		return;
	}
	fill(headers, source_ibs_sample_type(true));
	CU_ASSERT(allocations > 0); /* they are counted */
	pthread_mutex_lock(&(pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER);
	CU_ASSERT(locks > 0);
	before = allocations + locks;
	source_ibs_record_init(&record, source_ibs_sample_type(true), &params);
	taken = take_all(&record, headers);
	CU_ASSERT_EQUAL(allocations + locks, before);
	CU_ASSERT_EQUAL(taken, 100 * (N_RECORDS - N_RECORDS / 16));
	empty(headers);
#endif
}

static struct perf_event_header *quiet_headers[N_RECORDS];

static bool take_all_quietly(void)
{
	static struct source_ibs_record record;

	source_ibs_record_init(&record, source_ibs_sample_type(true), &params);
	return take_all(&record, quiet_headers) == 100 * (N_RECORDS - N_RECORDS / 16);
}

static void no_system_call(void)
{
	fill(quiet_headers, source_ibs_sample_type(true));
	check_makes_no_system_call(take_all_quietly);
	empty(quiet_headers);
}

/* Registers of a plain access of a process, with what is odd about it now and then. */
static struct ibs_test_record likely_registers(uint32_t caps, struct test_rng *rng)
{
	struct ibs_test_record regs = random_registers(caps, rng);
	uint64_t *data3 = &regs.reg[OP_DATA3];

	*data3 |= IBS_LINEAR_VALID | IBS_LOAD;
	*data3 &= ~(uint64_t)(IBS_SW_PREFETCH | IBS_NO_MAB);
	regs.reg[OP_RIP] >>= 17;
	regs.reg[OP_LINEAR] >>= 17;
	switch (test_random_below(rng, 16)) {
	case 0:
		*data3 ^= 1ULL << test_random_below(rng, 64);
		break;
	case 1:
		regs.reg[OP_LINEAR] = test_random_below(rng, 2) ? 0 : UINT64_MAX << 20;
		break;
	case 2:
		regs.reg[OP_RIP] = UINT64_MAX << 20;
		break;
	case 3:
		regs.reg[OP_PHYSICAL] = 0;
		break;
	case 4:
		regs.reg[OP_CTL] ^= CTL_ON & -CTL_ON;
		break;
	case 5:
		*data3 &= ~(uint64_t)(IBS_LOAD | IBS_STORE);
		break;
	case 6:
		*data3 |= IBS_SW_PREFETCH | IBS_NO_MAB;
		break;
	default:
		break;
	}
	return regs;
}

/* The same for the fields beside the registers. */
static void make_likely(struct perf_event_header *header, uint64_t type, struct test_rng *rng)
{
	static const uint32_t pids[] = { 0, UINT32_MAX, 77 };
	uint32_t pid = 1000 + (uint32_t)test_random_below(rng, 1000);
	uint64_t bytes = 1ULL << (10 + test_random_below(rng, 24)), zero = 0;
	size_t tail = type & PERF_SAMPLE_DATA_PAGE_SIZE ? 32 : 24;
	unsigned char *end = (unsigned char *)header + header->size;

	if (test_random_below(rng, 8))
		header->misc = (uint16_t)((header->misc & ~7U) | PERF_RECORD_MISC_USER);
	if (test_random_below(rng, 8) == 0)
		pid = pids[test_random_below(rng, 3)];
	memcpy((unsigned char *)header + 8, &pid, sizeof(pid));
	if (tail == 32)
		memcpy(end - 8, &bytes, sizeof(bytes));
	if (test_random_below(rng, 4) == 0)
		memcpy(end - tail + 16, &zero, sizeof(zero)); /* PHYS_ADDR */
	if (test_random_below(rng, 2))
		memset(end - tail + 4, 0, 4); /* a weight of 32 bits */
}

/* What is taken the quick way is what the long one makes of it; and hardly a plain access is refused. */
static void quick_as_the_long_way(void)
{
	static struct source_ibs_record record;
	uint64_t quick = 0, refused = 0, wrong = 0, kept = 0;
	struct test_rng rng = { 9 };

	for (unsigned int round = 0; round < 8 * N_TEST_CAPS; round++) {
		const uint64_t type = source_ibs_sample_type(round & 1);
		const struct ibs_decoder_params round_params = { .family = round & 2 ? 0x19 : 0x1a,
								 .model = 1,
								 .physical_bits = 48,
								 .self_pid = 77,
								 .user_only = round & 4 };

		source_ibs_record_init(&record, type, &round_params);
		for (int i = 0; i < 1000; i++) {
			struct ibs_test_record regs = likely_registers(ibs_test_caps[round / 8], &rng);
			struct perf_event_header *header = make(type, &regs, &rng);
			struct sample got, want;
			struct source_ibs_seen seen = { 0 };
			enum ibs_phys phys;
			bool taken = false;

			make_likely(header, type, &rng);
			if (header->size >= source_ibs_quick_bytes(&record))
				taken = source_ibs_quick(&record, (const unsigned char *)header, 3, &got, &seen);
			if (source_ibs_record_take(&record, header) == 0 &&
			    ibs_to_sample(&record.decoder, &record.decoded, &record.op, 3, &want) == IBS_KEEP) {
				kept++;
				phys = ibs_phys_of(&record.op);
				wrong += taken && (memcmp(&got, &want, sizeof(want)) != 0 ||
						   seen.source[record.op.source] != 1 ||
						   seen.phys[phys] != (phys != IBS_PHYS_SHOWN));
				refused += !taken;
			} else {
				wrong += taken;
			}
			quick += taken;
			free(header);
		}
	}
	CU_ASSERT_EQUAL(wrong, 0);
	CU_ASSERT(quick > 20000);
	/* Kernel mode where that is wanted, an invalid address of the instruction, the erratum's. */
	CU_ASSERT(refused < kept / 5);
}

TEST_MAIN(source_ibs_record, TEST(quick_as_the_long_way), TEST(as_the_two_decoders), TEST(full_length),
	  TEST(types_that_are_none), TEST(cut_records), TEST(lying_records), TEST(after_a_bad_record), TEST(profiler),
	  TEST(no_allocation_no_lock), TEST(no_system_call))
