/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <inttypes.h>

#include "harness.h"
#include "tokens.h"

#define SEC UINT64_C(1000000000)

typedef unsigned __int128 u128;
typedef __int128 i128;

static uint64_t rng_state;

static uint64_t rng(void)
{
	rng_state ^= rng_state << 13;
	rng_state ^= rng_state >> 7;
	rng_state ^= rng_state << 17;
	return rng_state;
}

/* A number of random size: every order of magnitude is as likely as any other. */
static uint64_t rng_wide(unsigned int bits)
{
	return rng() >> (64 - bits + rng() % bits);
}

/* The reference: level in 10^-9 bytes as one big integer; nothing is ever rounded. */
struct model {
	i128 level, burst;
	uint64_t rate, last;
};

static void model_refill(struct model *m, uint64_t now)
{
	if (now <= m->last)
		return;
	m->level += (i128)((u128)(now - m->last) * m->rate);
	m->last = now;
	if (m->level > m->burst)
		m->level = m->burst;
}

static uint64_t model_available(const struct model *m)
{
	return m->rate == 0 || m->level < 0 ? 0 : (uint64_t)(m->level / (i128)SEC);
}

static uint64_t interval(void)
{
	switch (rng() % 5) {
	case 0:
		return 0; /* the clock stands still */
	case 1:
		return 1;
	case 2:
		return rng() % 1000; /* below a microsecond */
	case 3:
		return rng_wide(30);
	default:
		return rng_wide(45); /* hours */
	}
}

static void agrees_with_big_integers(void)
{
	for (uint64_t seed = 1; seed <= 400; seed++) {
		struct tokens t;
		struct model m;
		uint64_t now = 0;

		rng_state = seed * 0x9e3779b97f4a7c15ULL;
		now = rng_wide(50);

		uint64_t rate = rng_wide(40), burst = 1 + rng_wide(40);

		tokens_init(&t, rate, burst, now);
		m = (struct model){ .level = (i128)burst * SEC, .burst = (i128)burst * SEC, .rate = rate, .last = now };
		for (int i = 0; i < 500; i++) {
			uint64_t bytes = rng_wide(41);

			now += interval();
			uint64_t at =
				rng() % 16 == 0 ? now - rng() % 1000 : now; /* a clock that goes back now and then */

			switch (rng() % 8) {
			case 0:
				rate = rng() % 8 == 0 ? 0 : rng_wide(40);
				burst = 1 + rng_wide(40);
				tokens_set(&t, rate, burst, at);
				model_refill(&m, at);
				m.rate = rate;
				m.burst = (i128)burst * SEC;
				if (m.level > m.burst)
					m.level = m.burst;
				break;
			case 1:
				tokens_put(&t, bytes);
				m.level += (i128)bytes * SEC;
				if (m.level > m.burst)
					m.level = m.burst;
				break;
			case 2:
			case 3: {
				bool took = tokens_take(&t, bytes, at);

				model_refill(&m, at);
				CU_ASSERT_EQUAL(took, model_available(&m) > 0);
				if (took)
					m.level -= (i128)bytes * SEC;
				break;
			}
			default:
				break;
			}
			model_refill(&m, at);
			if (tokens_available(&t, at) != model_available(&m)) {
				printf("  seed %" PRIu64 " step %d\n", seed, i);
				CU_FAIL("level differs from the reference");
				return;
			}
			i128 level = (i128)t.level_bytes * SEC + t.fraction;

			CU_ASSERT(level == m.level);
		}
	}
}

/* The fault of a peer: each call moved "last" on, and a caller quicker than a byte's worth of time never got one. */
static void asking_often_does_not_starve(void)
{
	static const uint64_t steps[] = { 1, 7, 100, 999, 1000 };

	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		struct tokens t;
		uint64_t now = 5, got = 0;

		tokens_init(&t, 3000, 1000, now); /* a byte in 333333.3 ns */
		CU_ASSERT(tokens_take(&t, 1000, now));
		for (uint64_t n = 0; n < 1000 * 1000; n++) {
			now += steps[i];
			if (tokens_available(&t, now) > 0) {
				CU_ASSERT(tokens_take(&t, 1, now));
				got++;
			}
		}
		CU_ASSERT_EQUAL(got, (now - 5) * 3000 / SEC);
	}
}

static void idle_time_stops_at_the_burst(void)
{
	struct tokens t;

	tokens_init(&t, 1 << 20, 4096, 0);
	CU_ASSERT_EQUAL(tokens_available(&t, 0), 4096);
	CU_ASSERT_EQUAL(tokens_available(&t, 3600 * SEC), 4096);
	CU_ASSERT(tokens_take(&t, 4096, 3600 * SEC));
	CU_ASSERT_EQUAL(tokens_available(&t, 3600 * SEC), 0);
	CU_ASSERT_FALSE(tokens_take(&t, 1, 3600 * SEC));
	CU_ASSERT_EQUAL(tokens_available(&t, UINT64_MAX), 4096);
}

static void rate_0_grants_nothing(void)
{
	struct tokens t;

	tokens_init(&t, 0, 4096, 0);
	CU_ASSERT_EQUAL(tokens_available(&t, 100 * SEC), 0);
	CU_ASSERT_FALSE(tokens_take(&t, 1, 100 * SEC));
	tokens_set(&t, 100, 4096, 100 * SEC);
	CU_ASSERT_EQUAL(tokens_available(&t, 100 * SEC), 4096);
}

static void a_huge_page_is_paid_for_later(void)
{
	struct tokens t;

	tokens_init(&t, 1 << 20, 1 << 20, 0);
	CU_ASSERT(tokens_take(&t, 2 << 20, 0));
	CU_ASSERT_EQUAL(tokens_available(&t, 0), 0);
	CU_ASSERT_FALSE(tokens_take(&t, 4096, SEC));
	CU_ASSERT_EQUAL(tokens_available(&t, SEC), 0);
	CU_ASSERT_EQUAL(tokens_available(&t, SEC + SEC / 2), 1 << 19);
	/* Over a long time the rate holds whatever the unit. */
	uint64_t moved = 0;

	for (uint64_t now = 2 * SEC; now < 102 * SEC; now += SEC / 100)
		if (tokens_take(&t, 2 << 20, now))
			moved += 2 << 20;
	CU_ASSERT(moved <= (101ull << 20) + (2 << 20));
	CU_ASSERT(moved >= 99ull << 20);
}

static void what_is_put_back_can_be_taken(void)
{
	struct tokens t;

	tokens_init(&t, 1, 1000, 0);
	CU_ASSERT(tokens_take(&t, 900, 0));
	tokens_put(&t, 300);
	CU_ASSERT_EQUAL(tokens_available(&t, 0), 400);
	tokens_put(&t, 5000);
	CU_ASSERT_EQUAL(tokens_available(&t, 0), 1000);
}

static void limits_are_clamped(void)
{
	struct tokens t;

	tokens_init(&t, UINT64_MAX, 0, 0);
	CU_ASSERT_EQUAL(t.rate_bytes_per_sec, (uint64_t)TOKENS_MAX);
	CU_ASSERT_EQUAL(tokens_available(&t, UINT64_MAX), 1);
	tokens_set(&t, 0, UINT64_MAX, UINT64_MAX);
	CU_ASSERT_EQUAL(t.burst_bytes, (uint64_t)TOKENS_MAX);
}

TEST_MAIN(tokens, TEST(agrees_with_big_integers), TEST(asking_often_does_not_starve),
	  TEST(idle_time_stops_at_the_burst), TEST(rate_0_grants_nothing), TEST(a_huge_page_is_paid_for_later),
	  TEST(what_is_put_back_can_be_taken), TEST(limits_are_clamped))
