/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <string.h>

#include "harness.h"
#include "slotset.h"
#include "tablemem.h"

/* Random adds, removals and takes against an array of bytes. */
static void agrees_with_an_array(void)
{
	enum { SLOTS = 70000 };
	static unsigned char in[SLOTS];
	static uint32_t taken[4096];
	struct slotset set = { 0 };
	uint64_t seed = 3;
	unsigned int wrong = 0;

	memset(in, 0, sizeof(in));
	CU_ASSERT_EQUAL_FATAL(slotset_init(&set, &tablemem_libc), 0);
	CU_ASSERT_EQUAL(slotset_next(&set, 0), SLOTSET_NONE);
	for (int step = 0; step < 200000; step++) {
		uint32_t slot, expected, from;
		size_t n;

		seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
		slot = (uint32_t)(seed >> 33) % SLOTS;
		switch ((seed >> 20) % 8) {
		case 0:
			wrong += slotset_remove(&set, slot) != in[slot];
			in[slot] = 0;
			break;
		case 1:
			for (expected = slot; expected < SLOTS && !in[expected]; expected++)
				;
			wrong += slotset_next(&set, slot) != (expected < SLOTS ? expected : SLOTSET_NONE);
			break;
		case 2:
			if ((seed >> 40) % 512)
				break;
			from = 0;
			while (from != SLOTSET_NONE) {
				n = slotset_take(&set, &from, taken, 64 + (seed >> 50) % 1000);
				for (size_t i = 0; i < n; i++) {
					wrong += !in[taken[i]];
					in[taken[i]] = 0;
				}
			}
			wrong += memchr(in, 1, sizeof(in)) != NULL;
			break;
		default:
			slotset_add(&set, slot);
			in[slot] = 1;
			wrong += !slotset_has(&set, slot);
			break;
		}
	}
	CU_ASSERT_EQUAL(wrong, 0);
	slotset_done(&set);
}

static void the_ends(void)
{
	struct slotset set = { 0 };
	uint32_t taken[64], from = 0;

	CU_ASSERT_EQUAL_FATAL(slotset_init(&set, &tablemem_libc), 0);
	slotset_add(&set, 0);
	slotset_add(&set, SLOTSET_SLOTS - 1);
	CU_ASSERT_EQUAL(slotset_next(&set, 1), SLOTSET_SLOTS - 1);
	CU_ASSERT_EQUAL(slotset_take(&set, &from, taken, 64), 1);
	CU_ASSERT_EQUAL(taken[0], 0);
	CU_ASSERT_NOT_EQUAL(from, SLOTSET_NONE);
	CU_ASSERT_EQUAL(slotset_take(&set, &from, taken, 64), 1);
	CU_ASSERT_EQUAL(taken[0], SLOTSET_SLOTS - 1);
	CU_ASSERT_EQUAL(from, SLOTSET_NONE);
	CU_ASSERT(!slotset_has(&set, 0));
	slotset_done(&set);
}

TEST_MAIN(slotset, TEST(agrees_with_an_array), TEST(the_ends))
