/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a region knows of its own heat, and that it can be made to forget. */
#include <math.h>
#include <stdlib.h>

#include "harness.h"
#include "regions_heat.h"
#include "retire.h"
#include "tablemem.h"

#define ADDR 0x7f0000000000ULL
#define SEC  NSEC_PER_SEC
#define MS   NSEC_PER_MSEC

struct rig {
	struct tablemem mem;
	struct retire retire;
	struct regions *regions;
	struct region *region;
	uint64_t now_ns;
};

static struct rig *rig_new(uint64_t now_ns)
{
	struct rig *rig = calloc(1, sizeof(*rig));
	uint32_t slot;

	rig->now_ns = now_ns;
	tablemem_init(&rig->mem, NULL, 1ULL << 32);
	retire_init(&rig->retire);
	rig->regions = regions_new(&rig->mem, &rig->retire, 1);
	rig->region = rig->regions ? regions_add(rig->regions, 0, 1, ADDR, now_ns, &slot) : NULL;
	if (!rig->region)
		abort();
	return rig;
}

static void rig_free(struct rig *rig)
{
	retire_free(&rig->retire, retire_take(&rig->retire));
	regions_free(rig->regions);
	free(rig);
}

static void count_access(struct region *region, uint64_t now_ns, const struct region_place *place, uint32_t latency,
			 bool by_fault)
{
	const struct region_moment moment = region_moment(now_ns);

	region_count(region, now_ns, &moment, place, latency, by_fault);
}

static void sample(struct rig *rig, unsigned int page)
{
	const struct region_place place = region_place(2, -1, false);

	region_touch(rig->region, rig->now_ns, &place);
	CU_ASSERT(region_see(&rig->mem, rig->region, page) >= 0);
	count_access(rig->region, rig->now_ns, &place, 0, false);
}

static struct region_evidence look(const struct rig *rig)
{
	struct region_evidence e;

	region_evidence(rig->region, rig->now_ns, &e);
	return e;
}

static void a_burst_is_no_later_evidence(void)
{
	struct rig *rig = rig_new(77 * SEC + 5 * MS);
	struct region_evidence e = look(rig);

	CU_ASSERT_EQUAL(e.samples, 0);
	CU_ASSERT_EQUAL(e.span_ns, 0);
	CU_ASSERT(e.before_per_sec < 0);
	CU_ASSERT_EQUAL(e.target_nid, -1);
	for (unsigned int i = 0; i < 10; i++) {
		sample(rig, i);
		rig->now_ns += 80 * MS;
	}
	e = look(rig);
	CU_ASSERT_EQUAL(e.samples, 10);
	CU_ASSERT_EQUAL(e.first, 10);
	CU_ASSERT_EQUAL(e.later, 0);
	CU_ASSERT_EQUAL(e.seconds, 0);
	rig->now_ns += 3 * SEC;
	sample(rig, 3);
	e = look(rig);
	CU_ASSERT_EQUAL(e.samples, 11);
	CU_ASSERT_EQUAL(e.first, 10);
	CU_ASSERT_EQUAL(e.later, 1);
	CU_ASSERT_EQUAL(e.seconds, 1);
	CU_ASSERT(e.span_ns > 3 * SEC && e.span_ns < 4200 * MS);
	CU_ASSERT(e.watched_ns > 2 * SEC && e.watched_ns < 3200 * MS);
	/* Nothing comes: the time passes, the span doesn't. */
	rig->now_ns += 100 * SEC;
	CU_ASSERT(look(rig).span_ns < 4500 * MS);
	CU_ASSERT(look(rig).watched_ns > 100 * SEC);
	rig_free(rig);
}

/* More than the first second's counter holds: nothing is known until it is begun anew. */
static void a_dense_first_second_is_not_guessed_at(void)
{
	struct rig *rig = rig_new(1000 * SEC);
	struct region_evidence e;

	for (unsigned int i = 0; i < 60; i++)
		sample(rig, i);
	rig->now_ns += 2 * SEC;
	for (unsigned int i = 0; i < 5; i++)
		sample(rig, i);
	e = look(rig);
	CU_ASSERT_EQUAL(e.samples, 65);
	CU_ASSERT_EQUAL(e.first, 15);
	CU_ASSERT_EQUAL(e.later, 0);
	region_forget(rig->region, rig->now_ns);
	e = look(rig);
	CU_ASSERT_EQUAL(e.samples, 0);
	CU_ASSERT(e.before_per_sec < 0);
	CU_ASSERT(!region_has_seen(rig->region, 3));
	for (unsigned int i = 0; i < 5; i++)
		sample(rig, i);
	e = look(rig);
	CU_ASSERT_EQUAL(e.samples, 5);
	CU_ASSERT_EQUAL(e.later, 5);
	CU_ASSERT(e.span_ns >= 1 * SEC);
	CU_ASSERT(region_has_seen(rig->region, 3));
	CU_ASSERT(!region_has_seen(rig->region, 5));
	rig_free(rig);
}

static void forgetting_keeps_the_heat(void)
{
	struct rig *rig = rig_new(5 * SEC);
	struct region_evidence e;
	uint64_t seen[REGION_PAGES / 64];

	for (unsigned int i = 0; i < 800; i++) {
		sample(rig, i % 200);
		rig->now_ns += 250 * MS;
	}
	e = look(rig);
	CU_ASSERT_EQUAL(e.samples, 800);
	CU_ASSERT_EQUAL(e.seconds, 127);
	atomic_fetch_or(&rig->region->decision, REGION_DECISION_FORGET | REGION_DECISION_PAGES);
	region_forget(rig->region, rig->now_ns);
	e = look(rig);
	CU_ASSERT_EQUAL(e.samples, 0);
	CU_ASSERT(fabs(e.before_per_sec - 4) < 0.4);
	CU_ASSERT_EQUAL(atomic_load(&rig->region->decision), REGION_DECISION_PAGES);
	region_pages_seen(rig->region, seen);
	for (unsigned int i = 0; i < REGION_PAGES / 64; i++)
		CU_ASSERT_EQUAL(seen[i], 0);
	sample(rig, 130);
	region_pages_seen(rig->region, seen);
	CU_ASSERT_EQUAL(seen[2], 4);
	rig_free(rig);
}

static void samples_saturate(void)
{
	struct rig *rig = rig_new(5 * SEC);

	for (unsigned int i = 0; i < 5000; i++) {
		sample(rig, 1);
		rig->now_ns += 20 * MS;
	}
	CU_ASSERT_EQUAL(look(rig).samples, 4095);
	rig_free(rig);
}

static void note(struct rig *rig, uint32_t latency, int target_nid, bool is_far, bool by_fault)
{
	const struct region_place place = region_place(-1, target_nid, is_far);

	count_access(rig->region, rig->now_ns, &place, latency, by_fault);
}

static void far_samples_are_told_from_near_ones(void)
{
	struct rig *rig = rig_new(5 * SEC);

	CU_ASSERT_EQUAL(look(rig).far_part, 0);
	for (int i = 0; i < 20; i++)
		note(rig, 0, -1, true, false);
	CU_ASSERT_EQUAL(look(rig).far_part, 1);
	note(rig, 0, -1, false, false);
	CU_ASSERT(look(rig).far_part > 0.6 && look(rig).far_part < 0.7);
	for (int i = 0; i < 20; i++)
		note(rig, 0, -1, false, false);
	CU_ASSERT_EQUAL(look(rig).far_part, 0);
	rig_free(rig);
}

static void latency_and_target_follow_most(void)
{
	struct rig *rig = rig_new(5 * SEC);
	struct region_evidence e;

	for (int i = 0; i < 100; i++)
		note(rig, 800, i % 4 ? 1 : 0, false, false);
	e = look(rig);
	CU_ASSERT(e.latency > 700 && e.latency < 900);
	CU_ASSERT_EQUAL(e.target_nid, 1);
	CU_ASSERT(!e.by_faults);
	for (int i = 0; i < 100; i++)
		note(rig, 200, 0, false, true);
	e = look(rig);
	CU_ASSERT(e.latency > 150 && e.latency < 260);
	CU_ASSERT_EQUAL(e.target_nid, 0);
	CU_ASSERT(e.by_faults && region_is_by_faults(rig->region));
	/* Without either, nothing changes; and a number beyond all. */
	note(rig, 0, -1, false, false);
	CU_ASSERT_EQUAL(look(rig).target_nid, 0);
	for (int i = 0; i < 100; i++)
		note(rig, UINT32_MAX, 1000, false, false);
	CU_ASSERT(look(rig).latency > 900000 && look(rig).latency < 1100000);
	CU_ASSERT_EQUAL(look(rig).target_nid, 0);
	rig_free(rig);
}

/* Any bits at all, but often those of the common case. */
static uint64_t draw(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return *seed ^ *seed >> 29;
}

static void the_common_case_is_as_any(void)
{
	struct rig *rig = rig_new(5 * SEC);
	unsigned int wrong = 0, common = 0;
	uint64_t seed = 5;

	for (unsigned int i = 0; i < 300000; i++) {
		uint64_t now_ns = (1000 + draw(&seed) % 100) * SEC + draw(&seed) % SEC, heat = draw(&seed);
		uint64_t evidence = draw(&seed), other_heat, other_evidence, dice = draw(&seed);
		const struct region_place place =
			region_place(1, dice & 1 ? (int)(draw(&seed) % 140) - 1 : 3, dice >> 1 & 1);
		uint32_t latency = dice >> 2 & 1 ? 0 : (uint32_t)draw(&seed) >> (dice >> 3 & 31);
		bool by_fault = (dice >> 8 & 15) == 0;

		if (dice >> 12 & 7) {
			heat = region_epoch(now_ns) << 48 | (heat & UINT64_MAX >> 16);
			evidence = (evidence & ~place.settled_mask) | place.settled;
			evidence =
				region_put_bits(evidence, REGION_EV_BEGUN,
						(uint32_t)(now_ns >> REGION_UNIT_SHIFT) - (uint32_t)(dice >> 20 & 15));
		}
		if ((dice >> 15 & 15) == 0)
			heat |= 0xffff;
		if ((dice >> 24 & 15) == 0)
			evidence = region_put_bits(evidence, REGION_EV_SAMPLES, (dice >> 28 & 1) * REGION_SAMPLES_MAX);
		atomic_store(&rig->region->heat, heat);
		atomic_store(&rig->region->evidence, evidence);
		region_count_any(rig->region, now_ns, &place, latency, by_fault);
		other_heat = atomic_load(&rig->region->heat);
		other_evidence = atomic_load(&rig->region->evidence);
		atomic_store(&rig->region->heat, heat);
		atomic_store(&rig->region->evidence, evidence);
		count_access(rig->region, now_ns, &place, latency, by_fault);
		wrong += atomic_load(&rig->region->heat) != other_heat ||
			 atomic_load(&rig->region->evidence) != other_evidence;
		common += other_heat == heat + 1 && !by_fault;
	}
	CU_ASSERT_EQUAL(wrong, 0);
	CU_ASSERT(common > 100000);
	rig_free(rig);
}

static void codes_of_latencies(void)
{
	unsigned int wrong = 0, exponent;

	for (uint32_t code = 1; code < 256; code++) {
		uint32_t cycles = region_latency_cycles(code);

		wrong += region_latency_kept[code] != cycles - cycles / 4;
	}
	CU_ASSERT_EQUAL(region_latency_kept[0], REGION_LATENCY_NONE);
	for (uint32_t cycles = REGION_MEAN_MIN; cycles < REGION_MEAN_END; cycles++) {
		exponent = 31 - (unsigned int)__builtin_clz(cycles) - 4;
		wrong += region_latency_code(cycles) != (exponent << 4) + (cycles >> exponent) - 16;
	}
	CU_ASSERT_EQUAL(wrong, 0);
	CU_ASSERT_EQUAL(region_latency_code(0), 1);
	CU_ASSERT_EQUAL(region_latency_code(REGION_MEAN_MIN - 1), 1);
	CU_ASSERT_EQUAL(region_latency_code(REGION_MEAN_END), 255);
}

TEST_MAIN(regions_evidence, TEST(a_burst_is_no_later_evidence), TEST(a_dense_first_second_is_not_guessed_at),
	  TEST(forgetting_keeps_the_heat), TEST(samples_saturate), TEST(latency_and_target_follow_most),
	  TEST(far_samples_are_told_from_near_ones), TEST(the_common_case_is_as_any), TEST(codes_of_latencies))
