/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>

#include "decode.h"
#include "harness.h"
#include "perf_records.h"

static const uint64_t supported[] = {
	PERF_SAMPLE_IDENTIFIER,     PERF_SAMPLE_IP,       PERF_SAMPLE_TID,
	PERF_SAMPLE_TIME,           PERF_SAMPLE_ADDR,     PERF_SAMPLE_ID,
	PERF_SAMPLE_STREAM_ID,      PERF_SAMPLE_CPU,      PERF_SAMPLE_PERIOD,
	PERF_SAMPLE_CALLCHAIN,      PERF_SAMPLE_RAW,      PERF_SAMPLE_STACK_USER,
	PERF_SAMPLE_WEIGHT,         PERF_SAMPLE_DATA_SRC, PERF_SAMPLE_TRANSACTION,
	PERF_SAMPLE_PHYS_ADDR,      PERF_SAMPLE_CGROUP,   PERF_SAMPLE_DATA_PAGE_SIZE,
	PERF_SAMPLE_CODE_PAGE_SIZE, PERF_SAMPLE_AUX,      PERF_SAMPLE_WEIGHT_STRUCT,
};
#define N_SUPPORTED (sizeof(supported) / sizeof(supported[0]))

static const uint64_t refused[] = { PERF_SAMPLE_READ, PERF_SAMPLE_BRANCH_STACK, PERF_SAMPLE_REGS_USER,
				    PERF_SAMPLE_REGS_INTR };

#define ALL_SUPPORTED_WITH(weight)                                                                               \
	(PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ADDR |       \
	 PERF_SAMPLE_ID | PERF_SAMPLE_STREAM_ID | PERF_SAMPLE_CPU | PERF_SAMPLE_PERIOD | PERF_SAMPLE_CALLCHAIN | \
	 PERF_SAMPLE_RAW | PERF_SAMPLE_STACK_USER | PERF_SAMPLE_DATA_SRC | PERF_SAMPLE_TRANSACTION |             \
	 PERF_SAMPLE_PHYS_ADDR | PERF_SAMPLE_CGROUP | PERF_SAMPLE_DATA_PAGE_SIZE | PERF_SAMPLE_CODE_PAGE_SIZE |  \
	 PERF_SAMPLE_AUX | (weight))

/* Bytes that can't be taken for those of another field. */
static const unsigned char raw[] = { 0xF0, 0xF1, 0xF2, 0xF3, 0xF4, 0xF5, 0xF6, 0xF7, 0xF8, 0xF9 };

static struct test_sample filled(void)
{
	return (struct test_sample){
		.misc = PERF_RECORD_MISC_USER | PERF_RECORD_MISC_EXACT_IP,
		.identifier = 0x0101010101010101,
		.ip = 0x0202020202020202,
		.pid = 0x03030303,
		.tid = 0x13131313,
		.time = 0x0404040404040404,
		.addr = 0x0505050505050505,
		.id = 0x0606060606060606,
		.stream_id = 0x0707070707070707,
		.cpu = 0x08080808,
		.period = 0x0909090909090909,
		.n_ips = 3,
		.raw = raw,
		.raw_bytes = sizeof(raw),
		.stack_bytes = 16,
		.weight = 0x0A0B0C0D0E0F1011,
		.data_src = 0x1212121212121212,
		.transaction = 0x1414141414141414,
		.phys_addr = 0x1515151515151515,
		.cgroup = 0x1616161616161616,
		.data_page_bytes = 0x1717171717171717,
		.code_page_bytes = 0x1818181818181818,
		.aux_bytes = 24,
	};
}

/* At the end of an allocation of its own, so that one byte too far is seen. */
static struct perf_event_header *alone(const struct test_record *record)
{
	void *copy = malloc(record->n);

	memcpy(copy, record->bytes, record->n);
	return copy;
}

/* What a field must be: what was put in, or 0 where it wasn't asked for. */
#define CHECK(bit, field, value) CU_ASSERT_EQUAL(got.field, (type & (bit)) ? (value) : 0)

static void check_round_trip(uint64_t type)
{
	static struct test_record record;
	struct test_sample in = filled();
	struct decode_sample got;
	struct perf_event_header *header;

	make_sample_record(&record, type, &in);
	header = alone(&record);
	memset(&got, 0xEE, sizeof(got));
	CU_ASSERT_EQUAL(decode_supports(type), 0);
	CU_ASSERT_EQUAL(decode_sample(type, header, &got), 0);
	CU_ASSERT_EQUAL(got.present, type);
	CU_ASSERT_EQUAL(got.misc, in.misc);
	CHECK(PERF_SAMPLE_IDENTIFIER, identifier, in.identifier);
	CHECK(PERF_SAMPLE_IP, ip, in.ip);
	CHECK(PERF_SAMPLE_TID, pid, in.pid);
	CHECK(PERF_SAMPLE_TID, tid, in.tid);
	CHECK(PERF_SAMPLE_TIME, time_ns, in.time);
	CHECK(PERF_SAMPLE_ADDR, addr, in.addr);
	CHECK(PERF_SAMPLE_ID, id, in.id);
	CHECK(PERF_SAMPLE_STREAM_ID, stream_id, in.stream_id);
	CHECK(PERF_SAMPLE_CPU, cpu, in.cpu);
	CHECK(PERF_SAMPLE_PERIOD, period, in.period);
	CU_ASSERT_EQUAL(got.weight, type & PERF_SAMPLE_WEIGHT          ? in.weight
				    : type & PERF_SAMPLE_WEIGHT_STRUCT ? 0x0E0F1011
								       : 0);
	CHECK(PERF_SAMPLE_WEIGHT_STRUCT, weight2, 0x0C0D);
	CHECK(PERF_SAMPLE_WEIGHT_STRUCT, weight3, 0x0A0B);
	CHECK(PERF_SAMPLE_DATA_SRC, data_src, in.data_src);
	CHECK(PERF_SAMPLE_TRANSACTION, transaction, in.transaction);
	CHECK(PERF_SAMPLE_PHYS_ADDR, phys_addr, in.phys_addr);
	CHECK(PERF_SAMPLE_CGROUP, cgroup, in.cgroup);
	CHECK(PERF_SAMPLE_DATA_PAGE_SIZE, data_page_bytes, in.data_page_bytes);
	CHECK(PERF_SAMPLE_CODE_PAGE_SIZE, code_page_bytes, in.code_page_bytes);
	CHECK(PERF_SAMPLE_RAW, raw_bytes, 12);
	CU_ASSERT_TRUE(type & PERF_SAMPLE_RAW ? memcmp(got.raw, raw, sizeof(raw)) == 0 : got.raw == NULL);
	free(header);
}

static void each_bit_alone(void)
{
	for (size_t i = 0; i < N_SUPPORTED; i++)
		check_round_trip(supported[i]);
	check_round_trip(0);
}

static void all_bits_together(void)
{
	check_round_trip(ALL_SUPPORTED_WITH(PERF_SAMPLE_WEIGHT));
	check_round_trip(ALL_SUPPORTED_WITH(PERF_SAMPLE_WEIGHT_STRUCT));
}

static void random_sets_of_bits(void)
{
	struct test_rng rng = { .state = 1 };

	for (int i = 0; i < 2000; i++)
		check_round_trip(test_random(&rng) &
				 ALL_SUPPORTED_WITH(i % 2 ? PERF_SAMPLE_WEIGHT : PERF_SAMPLE_WEIGHT_STRUCT));
}

/*
 * Each bit is supported or refused on purpose. When the kernel's header learns a new one this fails: decide, and add it
 * to the decoder and to the lists here.
 */
static void no_bit_is_forgotten(void)
{
	uint64_t known = 0;

	CU_ASSERT_EQUAL(PERF_SAMPLE_MAX, 1U << 25);
	for (size_t i = 0; i < N_SUPPORTED; i++)
		known |= supported[i];
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		CU_ASSERT_EQUAL(known & refused[i], 0);
		known |= refused[i];
	}
	CU_ASSERT_EQUAL(known, PERF_SAMPLE_MAX - 1);
}

static void other_bits_are_refused(void)
{
	static struct test_record record;
	struct test_sample in = filled();
	const struct perf_event_header *header = make_sample_record(&record, 0, &in);
	struct decode_sample got;

	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		CU_ASSERT_EQUAL(decode_supports(refused[i]), -ENOTSUP);
		CU_ASSERT_EQUAL(decode_supports(refused[i] | PERF_SAMPLE_IP), -ENOTSUP);
		CU_ASSERT_EQUAL(decode_sample(refused[i], header, &got), -ENOTSUP);
	}
	for (int bit = 25; bit < 64; bit++) {
		CU_ASSERT_EQUAL(decode_supports(1ULL << bit), -ENOTSUP);
		CU_ASSERT_EQUAL(decode_sample(1ULL << bit, header, &got), -ENOTSUP);
	}
	CU_ASSERT_EQUAL(decode_supports(PERF_SAMPLE_WEIGHT | PERF_SAMPLE_WEIGHT_STRUCT), -ENOTSUP);
}

/* Whatever is missing at the end, whole fields or bytes of one: refused, and nothing read behind it. */
static void check_truncated(uint64_t type)
{
	static struct test_record record;
	struct test_sample in = filled();
	struct decode_sample got;
	size_t whole;

	make_sample_record(&record, type, &in);
	whole = record.n;
	for (size_t n = sizeof(struct perf_event_header); n < whole; n++) {
		struct perf_event_header *header;

		record.n = n;
		record_end(&record);
		header = alone(&record);
		CU_ASSERT_EQUAL(decode_sample(type, header, &got), -EBADMSG);
		free(header);
	}
}

static void truncated_at_every_length(void)
{
	for (size_t i = 0; i < N_SUPPORTED; i++)
		check_truncated(supported[i]);
	check_truncated(ALL_SUPPORTED_WITH(PERF_SAMPLE_WEIGHT));
	check_truncated(ALL_SUPPORTED_WITH(PERF_SAMPLE_WEIGHT_STRUCT));
}

static void shorter_than_a_header(void)
{
	struct decode_sample got;
	struct perf_event_header header = { .type = PERF_RECORD_SAMPLE };

	for (uint16_t size = 0; size < sizeof(header); size++) {
		header.size = size;
		CU_ASSERT_EQUAL(decode_sample(0, &header, &got), -EBADMSG);
	}
	header.size = sizeof(header);
	CU_ASSERT_EQUAL(decode_sample(0, &header, &got), 0);
}

/* A record with one length @n in it of @bytes bytes, and @rest bytes behind it. */
static int decode_length(uint64_t type, uint64_t n, size_t bytes, size_t rest)
{
	static struct test_record record;
	struct perf_event_header *header;
	struct decode_sample got;
	int r;

	record_begin(&record, PERF_RECORD_SAMPLE, 0);
	put_bytes(&record, &n, bytes);
	put_filler(&record, rest);
	record_end(&record);
	header = alone(&record);
	r = decode_sample(type, header, &got);
	free(header);
	return r;
}

static void lengths_beyond_the_record(void)
{
	static const uint64_t huge[] = { UINT64_MAX,       UINT64_MAX - 3, UINT64_MAX - 7, 1ULL << 63, 1ULL << 61,
					 (1ULL << 61) + 1, 1ULL << 60,     UINT32_MAX,     0xFFFFFFFC, 65536 };

	for (size_t i = 0; i < sizeof(huge) / sizeof(huge[0]); i++) {
		CU_ASSERT_EQUAL(decode_length(PERF_SAMPLE_CALLCHAIN, huge[i], 8, 16), -EBADMSG);
		CU_ASSERT_EQUAL(decode_length(PERF_SAMPLE_STACK_USER, huge[i], 8, 16), -EBADMSG);
		CU_ASSERT_EQUAL(decode_length(PERF_SAMPLE_AUX, huge[i], 8, 16), -EBADMSG);
		CU_ASSERT_EQUAL(decode_length(PERF_SAMPLE_RAW, huge[i], 4, 20), -EBADMSG);
	}
	CU_ASSERT_EQUAL(decode_length(PERF_SAMPLE_CALLCHAIN, 2, 8, 16), 0);
	CU_ASSERT_EQUAL(decode_length(PERF_SAMPLE_CALLCHAIN, 3, 8, 16), -EBADMSG);
	CU_ASSERT_EQUAL(decode_length(PERF_SAMPLE_CALLCHAIN, 0, 8, 0), 0);
	CU_ASSERT_EQUAL(decode_length(PERF_SAMPLE_STACK_USER, 8, 8, 16), 0);
	CU_ASSERT_EQUAL(decode_length(PERF_SAMPLE_STACK_USER, 8, 8, 8), -EBADMSG); /* dyn_size is missing */
	CU_ASSERT_EQUAL(decode_length(PERF_SAMPLE_STACK_USER, 0, 8, 0), 0);
	CU_ASSERT_EQUAL(decode_length(PERF_SAMPLE_AUX, 16, 8, 16), 0);
	CU_ASSERT_EQUAL(decode_length(PERF_SAMPLE_AUX, 17, 8, 16), -EBADMSG);
	/* Size and data of RAW together are a multiple of 8. */
	CU_ASSERT_EQUAL(decode_length(PERF_SAMPLE_RAW, 12, 4, 12), 0);
	CU_ASSERT_EQUAL(decode_length(PERF_SAMPLE_RAW, 20, 4, 12), -EBADMSG);
	CU_ASSERT_EQUAL(decode_length(PERF_SAMPLE_RAW, 8, 4, 12), -EBADMSG);
	CU_ASSERT_EQUAL(decode_length(PERF_SAMPLE_RAW, 0, 4, 12), -EBADMSG);
}

/* A software event has no raw data: size 4, four bytes of nothing. */
static void raw_of_nothing(void)
{
	static struct test_record record;
	struct test_sample in = filled();
	struct decode_sample got;

	in.raw_bytes = 0;
	make_sample_record(&record, PERF_SAMPLE_RAW | PERF_SAMPLE_PHYS_ADDR, &in);
	CU_ASSERT_EQUAL(record.n, 8 + 8 + 8);
	CU_ASSERT_EQUAL(decode_sample(PERF_SAMPLE_RAW | PERF_SAMPLE_PHYS_ADDR, record_end(&record), &got), 0);
	CU_ASSERT_EQUAL(got.raw_bytes, 4);
	CU_ASSERT_EQUAL(got.phys_addr, in.phys_addr);
}

static void bytes_behind_the_last_field(void)
{
	static struct test_record record;
	struct test_sample in = filled();
	struct decode_sample got;

	make_sample_record(&record, PERF_SAMPLE_ADDR, &in);
	put_u64(&record, 1);
	CU_ASSERT_EQUAL(decode_sample(PERF_SAMPLE_ADDR, record_end(&record), &got), 0);
	CU_ASSERT_EQUAL(got.addr, in.addr);
}

static void exiting_task(void)
{
	static struct test_record record;
	struct test_sample in = filled();
	struct decode_sample got;

	in.pid = in.tid = UINT32_MAX;
	make_sample_record(&record, PERF_SAMPLE_TID, &in);
	CU_ASSERT_EQUAL(decode_sample(PERF_SAMPLE_TID, record_end(&record), &got), 0);
	CU_ASSERT_EQUAL(got.pid, UINT32_MAX);
}

static int decode_lost_of(uint32_t type, size_t words, uint64_t *ret)
{
	static struct test_record record;
	struct perf_event_header *header;
	int r;

	record_begin(&record, type, 0);
	for (size_t i = 0; i < words; i++)
		put_u64(&record, 100 + i);
	record_end(&record);
	header = alone(&record);
	r = decode_lost(header, ret);
	free(header);
	return r;
}

static void lost_records(void)
{
	struct perf_event_header header = { .type = PERF_RECORD_LOST_SAMPLES, .size = 4 };
	uint64_t lost = 0;

	CU_ASSERT_EQUAL(decode_lost_of(PERF_RECORD_LOST, 2, &lost), 0);
	CU_ASSERT_EQUAL(lost, 101);
	CU_ASSERT_EQUAL(decode_lost_of(PERF_RECORD_LOST, 7, &lost), 0); /* with a sample_id behind it */
	CU_ASSERT_EQUAL(lost, 101);
	CU_ASSERT_EQUAL(decode_lost_of(PERF_RECORD_LOST, 1, &lost), -EBADMSG);
	CU_ASSERT_EQUAL(decode_lost_of(PERF_RECORD_LOST, 0, &lost), -EBADMSG);
	CU_ASSERT_EQUAL(decode_lost_of(PERF_RECORD_LOST_SAMPLES, 1, &lost), 0);
	CU_ASSERT_EQUAL(lost, 100);
	CU_ASSERT_EQUAL(decode_lost_of(PERF_RECORD_LOST_SAMPLES, 0, &lost), -EBADMSG);
	CU_ASSERT_EQUAL(decode_lost_of(PERF_RECORD_SAMPLE, 2, &lost), -EBADMSG);
	CU_ASSERT_EQUAL(decode_lost(&header, &lost), -EBADMSG);
}

TEST_MAIN(decode, TEST(each_bit_alone), TEST(all_bits_together), TEST(random_sets_of_bits), TEST(no_bit_is_forgotten),
	  TEST(other_bits_are_refused), TEST(truncated_at_every_length), TEST(shorter_than_a_header),
	  TEST(lengths_beyond_the_record), TEST(raw_of_nothing), TEST(bytes_behind_the_last_field), TEST(exiting_task),
	  TEST(lost_records))
