/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "clock.h"
#include "harness.h"
#include "record.h"

#define MS NSEC_PER_MSEC

static const struct record_rule precise = { .layout = RECORD_PRECISE, .window_ms = 5000, .freq_threshold = 2 };
static const struct record_rule compact = { .layout = RECORD_COMPACT, .window_ms = 3000, .freq_threshold = 2 };

/* Each field has its own bits, and all of them together are the layout. */
static void precise_bits(void)
{
	CU_ASSERT_EQUAL(record_access(&precise, 0, 0, 0), 1u << 10);
	CU_ASSERT_EQUAL(record_access(&precise, 0, 1023, 0), 1u << 10 | 0x3ff);
	for (int nid = 1; nid < 1024; nid *= 2)
		CU_ASSERT_EQUAL(record_access(&precise, 0, nid, 0), 1u << 10 | (unsigned int)nid);
	for (unsigned int bit = 0; bit < 14; bit++)
		CU_ASSERT_EQUAL(record_access(&precise, 0, 0, (1ULL << bit) * MS), 1u << 10 | 1u << (13 + bit));
	CU_ASSERT_EQUAL(record_access(&precise, 0, 0, (1ULL << 14) * MS), 1u << 10); /* wraps */
	CU_ASSERT_EQUAL(record_access(&precise, 1u << 10, 0, 0), 2u << 10 | 1u << 31);
	for (unsigned int freq = 0; freq < 8; freq++) {
		CU_ASSERT_EQUAL(record_freq(RECORD_PRECISE, freq << 10), freq);
		CU_ASSERT_EQUAL(record_freq(RECORD_PRECISE, ~(7u << 10) | freq << 10), freq);
	}
	CU_ASSERT_EQUAL(record_nid(RECORD_PRECISE, ~0x3ffu), 0);
	CU_ASSERT_EQUAL(record_nid(RECORD_PRECISE, ~0u), 1023);
	CU_ASSERT(record_ready(RECORD_PRECISE, 1u << 31));
	CU_ASSERT(!record_ready(RECORD_PRECISE, ~(1u << 31)));
	CU_ASSERT_EQUAL(record_unready(RECORD_PRECISE, ~0u), ~(1u << 31));
	for (unsigned int bit = 0; bit < 14; bit++)
		CU_ASSERT_EQUAL(record_age_ms(RECORD_PRECISE, 1u << (13 + bit), (1ULL << 14) * MS),
				(1u << 14) - (1u << bit));
	CU_ASSERT_EQUAL(record_age_ms(RECORD_PRECISE, ~(0x3fffu << 13), 0), 0);
	/* Bits 27-30 are nobody's, in and out. */
	CU_ASSERT_EQUAL(RECORD_RESERVED_BITS, 0xfu << 27);
	CU_ASSERT_EQUAL(record_access(&precise, RECORD_RESERVED_BITS | 3u << 10, 5, 0), 5u | 4u << 10 | 1u << 31);
	CU_ASSERT_EQUAL(record_access(&precise, ~0u, 1023, 16383 * MS), ~RECORD_RESERVED_BITS);
	CU_ASSERT_EQUAL(record_age_ms(RECORD_PRECISE, RECORD_RESERVED_BITS, 0), 0);
}

static void compact_bits(void)
{
	CU_ASSERT_EQUAL(record_access(&compact, 0, -1, 0), 1);
	CU_ASSERT_EQUAL(record_access(&compact, 0, 1023, 0), 1); /* has no node */
	for (unsigned int bit = 0; bit < 5; bit++)
		CU_ASSERT_EQUAL(record_access(&compact, 0, -1, (128ULL << bit) * MS), 1u | 1u << (2 + bit));
	CU_ASSERT_EQUAL(record_access(&compact, 0, -1, 127 * MS), 1);
	CU_ASSERT_EQUAL(record_access(&compact, 0, -1, 128 * MS), 1 | 1 << 2);
	CU_ASSERT_EQUAL(record_access(&compact, 0, -1, 4096 * MS), 1); /* wraps */
	CU_ASSERT_EQUAL(record_access(&compact, 1, -1, 0), 2 | 1 << 7);
	CU_ASSERT_EQUAL(record_access(&compact, 3, -1, 31 * 128 * MS), 1 | 31u << 2); /* outside the window */
	CU_ASSERT_EQUAL(record_access(&compact, 3 | 31 << 2, -1, 31 * 128 * MS), 0xff);
	for (unsigned int freq = 0; freq < 4; freq++)
		CU_ASSERT_EQUAL(record_freq(RECORD_COMPACT, 0xfcu | freq), freq);
	CU_ASSERT_EQUAL(record_nid(RECORD_COMPACT, 0xff), -1);
	CU_ASSERT(record_ready(RECORD_COMPACT, 1u << 7));
	CU_ASSERT(!record_ready(RECORD_COMPACT, 0x7f));
	CU_ASSERT_EQUAL(record_unready(RECORD_COMPACT, 0xff), 0x7f);
	for (unsigned int bit = 0; bit < 5; bit++)
		CU_ASSERT_EQUAL(record_age_ms(RECORD_COMPACT, 1u << (2 + bit), 4096 * MS), 4096 - (128u << bit));
	CU_ASSERT_EQUAL(record_age_ms(RECORD_COMPACT, 0x83, 0), 0);
}

static void frequency_saturates(void)
{
	uint32_t p = 0, c = 0;

	for (unsigned int i = 1; i <= 12; i++) {
		p = record_access(&precise, p, 1, 1000 * MS + i * MS);
		c = record_access(&compact, c, -1, 1000 * MS + i * MS);
		CU_ASSERT_EQUAL(record_freq(RECORD_PRECISE, p), i < 7 ? i : 7);
		CU_ASSERT_EQUAL(record_freq(RECORD_COMPACT, c), i < 3 ? i : 3);
		CU_ASSERT_EQUAL(record_ready(RECORD_PRECISE, p), i >= 2);
		CU_ASSERT_EQUAL(record_ready(RECORD_COMPACT, c), i >= 2);
	}
}

static void every_threshold(void)
{
	for (uint32_t threshold = 1; threshold <= 7; threshold++) {
		struct record_rule rule = precise;
		uint32_t record = 0;

		rule.freq_threshold = threshold;
		for (unsigned int i = 1; i <= 8; i++) {
			record = record_access(&rule, record, 0, 0);
			CU_ASSERT_EQUAL(record_ready(RECORD_PRECISE, record), i >= threshold);
		}
		/* A higher threshold does not take away what is ready already. */
		rule.freq_threshold = 7;
		CU_ASSERT(record_ready(RECORD_PRECISE, record_access(&rule, 1u << 31 | 1u << 10, 0, 0)));
	}
}

/* The window's last ms counts, the next begins anew, and ready goes with it. */
static void window_edges(void)
{
	static const uint32_t windows[] = { 1000, 5000, 16383 };

	for (size_t i = 0; i < sizeof(windows) / sizeof(windows[0]); i++) {
		struct record_rule rule = { .layout = RECORD_PRECISE, .window_ms = windows[i], .freq_threshold = 2 };

		for (uint64_t start_ms = 0; start_ms < 40000; start_ms += 1777) {
			uint32_t record = record_access(&rule, 0, 3, start_ms * MS);

			record = record_access(&rule, record, 3, start_ms * MS);
			CU_ASSERT(record_ready(RECORD_PRECISE, record));
			CU_ASSERT_EQUAL(record_freq(RECORD_PRECISE,
						    record_access(&rule, record, 3, (start_ms + windows[i]) * MS)),
					3);
			if (windows[i] == 16383)
				continue; /* one ms later the field has wrapped, by design */
			record = record_access(&rule, record, 4, (start_ms + windows[i] + 1) * MS);
			CU_ASSERT_EQUAL(record_freq(RECORD_PRECISE, record), 1);
			CU_ASSERT(!record_ready(RECORD_PRECISE, record));
			CU_ASSERT_EQUAL(record_nid(RECORD_PRECISE, record), 4);
		}
	}
}

/* In buckets: an age of 3000 ms is one of 2944 or 3072, by where in their buckets both lie. */
static void compact_window_edges(void)
{
	uint32_t first = record_access(&compact, 0, -1, 0);

	CU_ASSERT_EQUAL(record_freq(RECORD_COMPACT, record_access(&compact, first, -1, (23 * 128 + 127) * MS)), 2);
	CU_ASSERT_EQUAL(record_freq(RECORD_COMPACT, record_access(&compact, first, -1, 24 * 128 * MS)), 1);
	for (uint64_t start_ms = 0; start_ms < 10000; start_ms += 61) {
		struct record_rule rule = { .layout = RECORD_COMPACT, .window_ms = 3968, .freq_threshold = 2 };

		first = record_access(&rule, 0, -1, start_ms * MS);
		CU_ASSERT_EQUAL(record_freq(RECORD_COMPACT, record_access(&rule, first, -1, (start_ms + 3968) * MS)),
				2);
	}
}

static void age_wraps(void)
{
	for (uint64_t start_ms = 0; start_ms < 20000; start_ms += 137) {
		uint32_t p = record_access(&precise, 0, 0, start_ms * MS);
		uint32_t c = record_access(&compact, 0, -1, start_ms * MS);

		for (uint64_t age_ms = 0; age_ms < 40000; age_ms += 1031) {
			uint64_t now_ns = (start_ms + age_ms) * MS + MS - 1;

			CU_ASSERT_EQUAL(record_age_ms(RECORD_PRECISE, p, now_ns), age_ms % RECORD_PRECISE_RANGE_MS);
			CU_ASSERT_EQUAL(record_age_ms(RECORD_COMPACT, c, now_ns),
					(((start_ms + age_ms) / 128 - start_ms / 128) * 128) % RECORD_COMPACT_RANGE_MS);
		}
	}
	CU_ASSERT_EQUAL(record_range_ms(RECORD_PRECISE), 1u << 14);
	CU_ASSERT_EQUAL(record_range_ms(RECORD_COMPACT), 32 * 128);
}

/* Far into the life of a clock. */
static void large_times(void)
{
	uint64_t now_ns = UINT64_MAX - 10 * NSEC_PER_SEC;
	uint32_t record = record_access(&precise, 0, 7, now_ns);

	CU_ASSERT_EQUAL(record_age_ms(RECORD_PRECISE, record, now_ns + 1234 * MS), 1234);
	record = record_access(&precise, record, 7, now_ns + 1234 * MS);
	CU_ASSERT_EQUAL(record_freq(RECORD_PRECISE, record), 2);
}

TEST_MAIN(record, TEST(precise_bits), TEST(compact_bits), TEST(frequency_saturates), TEST(every_threshold),
	  TEST(window_edges), TEST(compact_window_edges), TEST(age_wraps), TEST(large_times))
