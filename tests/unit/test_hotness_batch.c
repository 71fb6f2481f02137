/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A batch comes to the same as its samples one by one, whatever they have to do with each other. */
#include "harness.h"
#include "hotness_internal.h"
#include "hotness_rig.h"

#define BATCH_MAX 300
#define PIDS      4
#define FRAMES    2048 /* of node 1, and as many of the others */

static uint64_t seed;

static uint64_t dice(uint64_t sides)
{
	seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (seed >> 33) % sides;
}

struct draw {
	struct sample sample;
	struct hotness_place place;
};

/* Few pages and many samples, so that a batch holds pages that are new, and the same ones again. */
static struct draw draw(uint64_t now_ns, enum record_layout layout)
{
	/* By turns one chunk and many; pages move between regions, and are shared by processes. */
	uint64_t frame = dice(3) ? dice(64) * 5 : dice(FRAMES), page = dice(8) ? frame + 77 : dice(FRAMES);
	int nid = dice(6) ? 1 : (int)dice(3), target = dice(20) ? (layout == RECORD_COMPACT ? 0 : (int)dice(3)) : -1;
	bool huge = dice(30) == 0;

	return (struct draw){
		.sample = { .time_ns = now_ns - (dice(8) ? 0 : dice(300 * NSEC_PER_MSEC)),
			    .addr = dice(3000) ? RIG_ADDR + page * PAGE_SIZE_BYTES : UINT64_C(1) << 60,
			    .phys = dice(3000) ? rig_phys(nid, frame) : UINT64_C(1) << 50,
			    .pid = 100 + (uint32_t)(dice(4) ? 0 : dice(PIDS)),
			    .page_shift = huge ? 21 : 12,
			    .flags = dice(4) ? 0 : SAMPLE_MAYBE_FIRST_TOUCH },
		.place = { .nid = nid, .is_lower = nid > 0, .target_nid = target },
	};
}

static enum hotness_verdict keep_some(struct rig_scan *s, const struct hotness_candidate *c)
{
	(void)s;
	return c->pfn % 3 ? HOTNESS_TAKE : c->pfn % 2 ? HOTNESS_NOTE : HOTNESS_KEEP;
}

static uint64_t different_words(struct hotness *const tables[2])
{
	uint64_t wrong = 0;

	for (int nid = 0; nid < 3; nid++)
		for (uint64_t frame = 0; frame < FRAMES; frame++) {
			uint64_t pfn = rig_phys(nid, frame) >> PAGE_SHIFT;

			wrong += hotmap_peek(tables[0]->map, pfn) != hotmap_peek(tables[1]->map, pfn);
		}
	return wrong;
}

static void agrees(enum record_layout layout)
{
	static struct rig_scan scan = { .decide = keep_some };
	static struct draw drawn[BATCH_MAX];
	static struct hotness_context contexts[BATCH_MAX];
	static struct hotness_item items[BATCH_MAX];
	struct hotness_options options = rig_options;
	uint64_t wrong = 0, results[HOTNESS_RESULTS] = { 0 };
	uint32_t counts[HOTNESS_RESULTS] = { 0 };
	struct hotness_usage usage[2];
	struct hotness *tables[2];
	uint32_t owner[PIDS];
	struct rig *rig;

	options.layout = layout;
	seed = 7 + layout;
	rig = rig_new(&options, true);
	tables[0] = rig->hotness;
	tables[1] = hotness_new(&options, rig->owners);
	for (uint32_t pid = 0; pid < PIDS; pid++)
		owner[pid] = rig_owner(rig, 100 + pid);
	for (unsigned int round = 0; round < 600; round++) {
		size_t n = dice(BATCH_MAX + 1);

		/* Now and then no memory for anything new. */
		for (int k = 0; k < 2; k++)
			hotness_set_memory_max(tables[k], round % 50 > 45 ? 1000 : 1ULL << 30);
		for (size_t i = 0; i < n; i++) {
			drawn[i] = draw(rig->now_ns, layout);
			contexts[i] = hotness_context(&rig->rule, owner[drawn[i].sample.pid - 100], &drawn[i].place);
			items[i] = (struct hotness_item){ .sample = &drawn[i].sample, .context = &contexts[i] };
		}
		rcu_enter();
		hotness_access_batch(tables[0], 0, items, n, counts);
		for (size_t i = 0; i < n; i++) {
			enum hotness_result result =
				hotness_access_page(tables[1], 0, &rig->rule, &drawn[i].sample,
						    owner[drawn[i].sample.pid - 100], &drawn[i].place);

			wrong += result != items[i].result;
			results[result]++;
		}
		rcu_leave();
		rig->now_ns += 20 * NSEC_PER_MSEC + round % 40 / 39 * 6 * SEC;
		for (int k = 0; k < 2; k++) {
			rig->hotness = tables[k];
			hotness_set_memory_max(tables[k], 1ULL << 30);
			tablemem_take_refused(&tables[k]->mem);
			if (round % 10 == 0)
				rig_janitor(rig, 4 * SEC);
			if (round % 7 == 0)
				rig_scan_part(rig, &scan, 1, 0, 1, false);
		}
		wrong += round % 20 == 0 ? different_words(tables) : 0;
	}
	CU_ASSERT_EQUAL(wrong, 0);
	CU_ASSERT_EQUAL(different_words(tables), 0);
	for (int k = 0; k < 2; k++)
		hotness_usage(tables[k], &usage[k]);
	CU_ASSERT_EQUAL(usage[0].regions, usage[1].regions);
	CU_ASSERT_EQUAL(usage[0].records, usage[1].records);
	CU_ASSERT_EQUAL(usage[0].chunks, usage[1].chunks);
	CU_ASSERT_EQUAL(usage[0].pages_seen, usage[1].pages_seen);
	CU_ASSERT_EQUAL(usage[0].far_samples, usage[1].far_samples);
	CU_ASSERT_EQUAL(usage[0].far_novel, usage[1].far_novel);
	CU_ASSERT_EQUAL(usage[0].bytes, usage[1].bytes);
	for (int result = 0; result < HOTNESS_RESULTS; result++) {
		CU_ASSERT(results[result] > 0);
		CU_ASSERT_EQUAL(counts[result], results[result]);
	}
	hotness_free(tables[1]);
	rig->hotness = tables[0];
	rig_free(rig);
}

static void a_batch_is_its_samples(void)
{
	agrees(RECORD_PRECISE);
	agrees(RECORD_COMPACT);
}

TEST_MAIN(hotness_batch, TEST(a_batch_is_its_samples))
