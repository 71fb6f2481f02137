/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "buffers.h"
#include "harness.h"
#include "sample_queue.h"

#define MIB (UINT64_C(1) << 20)

static void what_is_asked_for_is_given(void)
{
	CU_ASSERT_EQUAL(buffers_ring_bytes(512, 1), 512 << 10);
	CU_ASSERT_EQUAL(buffers_ring_bytes(512, 384), 512 << 10);
	CU_ASSERT_EQUAL(buffers_ring_bytes(511, 4), 256 << 10);
	CU_ASSERT_EQUAL(buffers_ring_bytes(8, 4), 8 << 10);
	CU_ASSERT_EQUAL(buffers_ring_bytes(65536, 1), 64 * MIB);
	/* More than the default is someone's wish. */
	CU_ASSERT_EQUAL(buffers_ring_bytes(1100, 8192), MIB);
	CU_ASSERT_EQUAL(buffers_queue_samples(10000, 4096), 10000);
	CU_ASSERT_EQUAL(buffers_queue_samples(4096, 1), 4096);
	CU_ASSERT_EQUAL(buffers_queue_samples(5000, 16), 5000);
	CU_ASSERT_EQUAL(buffers_queue_samples(64, 1000), 64);
}

/* Machines of any size: all together stay within the bound, from where each has the least there is on. */
static void all_together_are_bounded(void)
{
	static const uint64_t asked_kib[] = { 8, 200, 512 }, asked[] = { 64, 1000, 4096 };

	for (size_t cpus = 1; cpus <= 8192; cpus += cpus < 64 ? 1 : 61) {
		size_t collectors = cpus / 32 + 1 < 64 ? cpus / 32 + 1 : 64;

		for (int i = 0; i < 3; i++) {
			size_t ring = buffers_ring_bytes(asked_kib[i], cpus);

			CU_ASSERT((ring & (ring - 1)) == 0 && ring <= asked_kib[i] << 10);
			CU_ASSERT(ring * cpus <= 192 * MIB);
			CU_ASSERT(ring * 2 > asked_kib[i] << 10 || ring * cpus > 48 * MIB);
			for (size_t nodes = 1; nodes <= 64; nodes *= 2) {
				size_t n = nodes * collectors, samples = buffers_queue_samples(asked[i], n), slots = 64;

				/* As sample_queue_new() rounds it. */
				while (slots < samples)
					slots *= 2;
				CU_ASSERT(samples >= SAMPLE_QUEUE_MIN && samples <= SAMPLE_QUEUE_MAX);
				CU_ASSERT(samples <= asked[i]);
				CU_ASSERT(slots * sizeof(struct sample) * n <= 64 * MIB + n * sizeof(struct sample));
			}
		}
	}
	/* The machine that was asked about: 768 CPUs in 16 nodes, 24 collectors. */
	CU_ASSERT_EQUAL(buffers_ring_bytes(512, 768), 256 << 10);
	CU_ASSERT_EQUAL(buffers_queue_samples(4096, 16 * 24), 2048);
	CU_ASSERT(768 * (buffers_ring_bytes(512, 768) + 4096) + 384 * 2048 * sizeof(struct sample) < 256 * MIB);
}

TEST_MAIN(buffers, TEST(what_is_asked_for_is_given), TEST(all_together_are_bounded))
