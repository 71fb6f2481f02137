/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <math.h>

#include "draw.h"
#include "harness.h"
#include "policy_unseen.h"

static void nothing_is_said_of_little(void)
{
	struct unseen u = { 0 };
	struct unseen_share share;

	unseen_look(&u, &share);
	CU_ASSERT(!share.known);
	unseen_step(&u, 29, 29);
	unseen_look(&u, &share);
	CU_ASSERT(!share.known);
	unseen_step(&u, 30, 29);
	unseen_look(&u, &share);
	CU_ASSERT(share.known);
	CU_ASSERT(share.seen >= 0 && share.seen < 0.2);
}

/* Samples on @regions at random: the estimate against the truth, and how often the interval has it. */
static void the_interval_holds_the_truth(void)
{
	static unsigned char known[4000];
	unsigned int inside = 0, all = 0;

	for (uint64_t s = 1; s <= 40; s++) {
		struct unseen u = { 0 };
		struct unseen_share share;
		uint64_t seed = s, samples = 0, novel = 0;

		memset(known, 0, sizeof(known));
		for (int step = 0; step < 30; step++) {
			for (int i = 0; i < 400; i++) {
				unsigned int region = (unsigned int)(draw(&seed) % 4000);

				samples++;
				novel += !known[region];
				known[region] = 1;
			}
			unseen_step(&u, samples, novel);
		}
		unseen_look(&u, &share);
		CU_ASSERT(share.known && share.margin > 0 && share.margin < 0.03);
		/* Of the window that it speaks of, the middle: 1000 samples ago. */
		inside += fabs(share.seen - (1 - exp(-11000 / 4000.0))) < share.margin + 0.005;
		all++;
	}
	CU_ASSERT(inside * 10 >= all * 9);
}

static void it_follows_a_change(void)
{
	struct unseen u = { 0 };
	struct unseen_share share;
	uint64_t samples = 0, novel = 0;

	for (int i = 0; i < 100; i++)
		unseen_step(&u, samples += 1000, novel += 500);
	unseen_look(&u, &share);
	CU_ASSERT_DOUBLE_EQUAL(share.seen, 0.5, 0.01);
	/* All is known now, and most of it was moved: few samples are left. */
	for (int i = 0; i < 70; i++)
		unseen_step(&u, samples += 10, novel);
	unseen_look(&u, &share);
	CU_ASSERT(share.seen > 0.99);
	CU_ASSERT(share.seen + share.margin <= 1 + 1e-9);
	/* Nothing at all for a while: nothing is said. */
	for (int i = 0; i < 70; i++)
		unseen_step(&u, samples, novel);
	unseen_look(&u, &share);
	CU_ASSERT(!share.known);
}

TEST_MAIN(policy_unseen, TEST(nothing_is_said_of_little), TEST(the_interval_holds_the_truth), TEST(it_follows_a_change))
