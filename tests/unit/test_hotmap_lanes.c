/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Four words at once come to what each comes to alone. */
#include "harness.h"
#include "hotmap_lanes.h"

#define ROUNDS 200000

static uint64_t seed = 88172645463325252ULL;

/* xorshift64 */
static uint64_t any_number(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

static uint32_t dice(uint32_t sides)
{
	return (uint32_t)(any_number() % sides);
}

/* A time near that of the record, or any: the edges of the window, of the range, and of what counts as ahead. */
static uint32_t any_time(enum record_layout layout, const struct record_rule *rule, uint32_t record)
{
	const uint32_t at_ms = layout == RECORD_COMPACT
				       ? record >> RECORD_COMPACT_TIME_SHIFT << RECORD_COMPACT_BUCKET_BITS
				       : record >> RECORD_PRECISE_TIME_SHIFT;
	const uint32_t edge[] = { 0, rule->window_ms, hotmap_future_ms(layout), record_range_ms(layout), 128 };

	if (dice(4) == 0)
		return dice(UINT32_MAX);
	return at_ms + edge[dice(5)] + dice(3) - 1;
}

static uint64_t any_word(bool narrow)
{
	uint64_t raw = any_number();

	/* Mostly without what is special, and now and then with no record in it. */
	if (dice(8))
		raw &= narrow ? ~(uint64_t)(HOTMAP_NARROW_NOTE | HOTMAP_NARROW_OLD | HOTMAP_NARROW_FROZEN)
			      : ~HOTMAP_MARKS;
	if (dice(20) == 0)
		raw &= narrow ? ~UINT64_C(0xff) : ~(uint64_t)UINT32_MAX;
	return narrow ? (uint32_t)raw : raw;
}

static void agrees(const bool narrow)
{
	const enum record_layout layout = narrow ? RECORD_COMPACT : RECORD_PRECISE;
	const uint32_t window_max = narrow ? RECORD_COMPACT_WINDOW_MAX_MS : RECORD_PRECISE_WINDOW_MAX_MS;
	const uint32_t freq_max = narrow ? RECORD_COMPACT_FREQ_MAX : RECORD_PRECISE_FREQ_MAX;
	uint64_t wrong = 0, n_odd = 0, n_ready = 0, n_plain = 0;

	for (int round = 0; round < ROUNDS; round++) {
		uint64_t raw[HOTMAP_LANES], next[HOTMAP_LANES], want;
		uint32_t lane_rule[HOTMAP_LANES], now_ms[HOTMAP_LANES];
		struct record_rule rule[HOTMAP_LANES];
		unsigned int odd, ready;
		int nid[HOTMAP_LANES];

		for (int i = 0; i < HOTMAP_LANES; i++) {
			uint32_t freq = 1 + dice(freq_max);

			rule[i] = (struct record_rule){ .layout = layout,
							.window_ms = 1000 + dice(window_max - 999),
							.freq_threshold = freq };
			nid[i] = narrow ? 0 : (int)dice(1024);
			raw[i] = any_word(narrow);
			now_ms[i] = any_time(layout, &rule[i], (uint32_t)raw[i] & (narrow ? 0xff : UINT32_MAX));
			lane_rule[i] = hotmap_lane_rule(&rule[i], nid[i]);
			if (dice(2)) {
				rule[i].freq_threshold = 1;
				lane_rule[i] = hotmap_lane_with_freq(lane_rule[i], 1);
			}
		}
		hotmap_lanes_next(narrow, raw, lane_rule, now_ms, next, &odd, &ready);
		for (int i = 0; i < HOTMAP_LANES; i++) {
			bool simple = hotmap_next_simple(narrow, raw[i], &rule[i], nid[i], now_ms[i], &want);

			wrong += simple == (odd >> i & 1);
			n_odd += !simple;
			if (!simple)
				continue;
			wrong += next[i] != want;
			wrong += hotmap_became_ready(narrow, raw[i], want) != (ready >> i & 1);
			n_ready += ready >> i & 1;
			n_plain += !(ready >> i & 1);
		}
	}
	CU_ASSERT_EQUAL(wrong, 0);
	CU_ASSERT(n_odd > ROUNDS / 10 && n_ready > ROUNDS / 10 && n_plain > ROUNDS / 10);
}

static void wide_words(void)
{
	agrees(false);
}

static void narrow_words(void)
{
	agrees(true);
}

TEST_MAIN(hotmap_lanes, TEST(wide_words), TEST(narrow_words))
