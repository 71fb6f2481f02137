/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is called cold, and what isn't. */
#include <stdio.h>
#include <stdlib.h>

#include "harness.h"
#include "victims_internal.h"
#include "victims_rig.h"

#define PID    100U
#define OTHER  101U
#define PAGES  512ULL
#define REGION REGION_BYTES

static void quiet_memory_is_cold(void)
{
	struct victims_rig v;
	struct victim got[4];

	vrig_new(&v);
	vrig_maps(&v, PID, 0, 3 * PAGES);
	vrig_map(&v, PID, 0, 3 * PAGES, RIG_PAGE, 0, 0);
	vrig_run(&v, QUIET_SEC - 5);
	CU_ASSERT_EQUAL(victims_cold_bytes(v.victims, 0), 0);
	CU_ASSERT_EQUAL(vrig_state(&v), VICTIMS_WATCHING);
	vrig_run(&v, 20);
	CU_ASSERT_EQUAL(victims_cold_bytes(v.victims, 0), 3 * REGION);
	CU_ASSERT_EQUAL(vrig_state(&v), VICTIMS_FOUND);
	CU_ASSERT_EQUAL(victims_take(v.victims, 1, false, got, 4), 0);
	CU_ASSERT_EQUAL(victims_take(v.victims, 0, false, got, 2), 2);
	CU_ASSERT_EQUAL(got[0].addr, rig_addr(PID, 0));
	CU_ASSERT_EQUAL(got[1].addr, rig_addr(PID, PAGES));
	CU_ASSERT_EQUAL(got[1].pid, PID);
	CU_ASSERT_EQUAL(got[1].n_pages, PAGES);
	CU_ASSERT_EQUAL(victims_cold_bytes(v.victims, 0), REGION);
	CU_ASSERT(victims_is_cold(v.victims, &v.rig->config, &got[0], v.rig->now_ns));
	vrig_free(&v);
}

static void sampled_memory_is_not(void)
{
	struct victims_rig v;
	struct victim got[4];

	vrig_new(&v);
	vrig_maps(&v, PID, 0, 3 * PAGES);
	vrig_map(&v, PID, 0, 3 * PAGES, RIG_PAGE, 0, 0);
	for (unsigned int i = 0; i < 10; i++) {
		rig_access(v.rig, PID, rig_addr(PID, PAGES + 7), rig_phys(0, PAGES + 7), RIG_PAGE, -1);
		vrig_run(&v, 10);
	}
	CU_ASSERT_EQUAL(victims_cold_bytes(v.victims, 0), 2 * REGION);
	CU_ASSERT_EQUAL(victims_take(v.victims, 0, false, got, 4), 2);
	CU_ASSERT_EQUAL(got[0].addr, rig_addr(PID, 0));
	CU_ASSERT_EQUAL(got[1].addr, rig_addr(PID, 2 * PAGES));
	/* Hot since it was found: whoever takes it asks again. */
	rig_access(v.rig, PID, rig_addr(PID, 3), rig_phys(0, 3), RIG_PAGE, -1);
	CU_ASSERT_FALSE(victims_is_cold(v.victims, &v.rig->config, &got[0], v.rig->now_ns));
	CU_ASSERT(victims_is_cold(v.victims, &v.rig->config, &got[1], v.rig->now_ns));
	vrig_free(&v);
}

/* Absent, or on a slow node already. */
static void what_is_not_there_is_no_victim(void)
{
	struct victims_rig v;

	vrig_new(&v);
	vrig_maps(&v, PID, 0, 3 * PAGES);
	vrig_map(&v, PID, PAGES, PAGES, RIG_PAGE, 2, 0);
	vrig_map(&v, PID, 2 * PAGES, PAGES, RIG_PAGE, 0, FAKE_ABSENT);
	vrig_run(&v, 2 * QUIET_SEC);
	CU_ASSERT_EQUAL(victims_cold_bytes(v.victims, 0), 0);
	CU_ASSERT_EQUAL(vrig_state(&v), VICTIMS_NONE);
	vrig_free(&v);
}

static void without_samples_nothing_is_cold(void)
{
	struct victims_rig v;

	vrig_new(&v);
	vrig_maps(&v, PID, 0, PAGES);
	vrig_map(&v, PID, 0, PAGES, RIG_PAGE, 0, 0);
	for (unsigned int i = 0; i < 2 * QUIET_SEC; i++) {
		v.rig->now_ns += NSEC_PER_SEC;
		victims_want(v.victims, v.rig->now_ns);
		victims_step(v.victims, &v.rig->config, NSEC_PER_SEC, NULL);
	}
	CU_ASSERT_EQUAL(vrig_state(&v), VICTIMS_DARK);
	/* The time in the dark doesn't count. */
	vrig_run(&v, QUIET_SEC - 5);
	CU_ASSERT_EQUAL(victims_cold_bytes(v.victims, 0), 0);
	vrig_run(&v, 20);
	CU_ASSERT_EQUAL(victims_cold_bytes(v.victims, 0), REGION);
	vrig_free(&v);
}

/* With mode 2 alone the kernel makes no faults on fast nodes. */
static void hint_faults_need_to_see_the_fast_node(void)
{
	struct victims_rig v;

	vrig_new(&v);
	vrig_maps(&v, PID, 0, PAGES);
	vrig_map(&v, PID, 0, PAGES, RIG_PAGE, 0, 0);
	machine_put(&v.rig->machine, "proc/sys/kernel/numa_balancing", "2");
	for (unsigned int i = 0; i < 200; i++) {
		stats_inc(v.rig->params.stats, STAT_HINTFAULTS);
		vrig_run(&v, 1);
	}
	CU_ASSERT_EQUAL(vrig_state(&v), VICTIMS_BLIND);
	CU_ASSERT_EQUAL(victims_cold_bytes(v.victims, 0), 0);
	machine_put(&v.rig->machine, "proc/sys/kernel/numa_balancing", "3");
	vrig_run(&v, 15);
	CU_ASSERT_EQUAL(victims_cold_bytes(v.victims, 0), REGION);
	vrig_free(&v);
}

static void a_mapping_is_as_old_as_it_is(void)
{
	struct victims_rig v;

	vrig_new(&v);
	vrig_maps(&v, PID, 0, PAGES);
	vrig_map(&v, PID, 0, 4 * PAGES, RIG_PAGE, 0, 0);
	vrig_run(&v, QUIET_SEC - 10);
	vrig_maps(&v, PID, 0, 4 * PAGES); /* it grew */
	vrig_run(&v, 30);
	CU_ASSERT_EQUAL(victims_cold_bytes(v.victims, 0), REGION);
	vrig_run(&v, QUIET_SEC);
	CU_ASSERT_EQUAL(victims_cold_bytes(v.victims, 0), 4 * REGION);
	vrig_maps(&v, PID, 2 * PAGES, PAGES); /* and shrank */
	vrig_run(&v, 15);
	CU_ASSERT_EQUAL(victims_cold_bytes(v.victims, 0), REGION);
	vrig_free(&v);
}

static void another_process_of_that_pid_is_new(void)
{
	struct victims_rig v;

	vrig_new(&v);
	vrig_maps(&v, PID, 0, PAGES);
	vrig_map(&v, PID, 0, PAGES, RIG_PAGE, 0, 0);
	vrig_run(&v, QUIET_SEC - 10);
	rig_put_stat(v.rig, PID, 77777);
	owners_sweep(v.rig->owners, 1000);
	owners_reap(v.rig->owners);
	vrig_run(&v, 40);
	CU_ASSERT_EQUAL(victims_cold_bytes(v.victims, 0), 0);
	vrig_run(&v, QUIET_SEC);
	CU_ASSERT_EQUAL(victims_cold_bytes(v.victims, 0), REGION);
	vrig_free(&v);
}

/* Regions that were thrown out of the tables may have been sampled. */
static void what_was_evicted_is_not_unsampled(void)
{
	struct victims_rig v;

	vrig_new(&v);
	vrig_maps(&v, PID, 0, PAGES);
	vrig_map(&v, PID, 0, PAGES, RIG_PAGE, 0, 0);
	vrig_run(&v, QUIET_SEC - 10);
	stats_inc(v.rig->params.stats, STAT_EVICTED_REGIONS);
	vrig_run(&v, 40);
	CU_ASSERT_EQUAL(victims_cold_bytes(v.victims, 0), 0);
	vrig_run(&v, QUIET_SEC);
	CU_ASSERT_EQUAL(victims_cold_bytes(v.victims, 0), REGION);
	vrig_free(&v);
}

static void small_processes_are_left_out(void)
{
	struct victims_rig v;

	vrig_new(&v);
	vrig_maps(&v, PID, 0, PAGES);
	machine_put(&v.rig->machine, "proc/100/statm", "20000 4095 0 0 0 0 0");
	vrig_map(&v, PID, 0, PAGES, RIG_PAGE, 0, 0);
	vrig_maps(&v, OTHER, 0, PAGES);
	vrig_map(&v, OTHER, 0, PAGES, RIG_PAGE, 1, 0);
	vrig_run(&v, 2 * QUIET_SEC);
	CU_ASSERT_EQUAL(victims_cold_bytes(v.victims, 0), 0);
	CU_ASSERT_EQUAL(victims_cold_bytes(v.victims, 1), REGION);
	vrig_free(&v);
}

static void what_would_not_move_is_left_in_peace(void)
{
	struct victims_rig v;
	struct victim got;

	vrig_new(&v);
	vrig_maps(&v, PID, 0, PAGES);
	vrig_map(&v, PID, 0, PAGES, RIG_PAGE, 0, 0);
	vrig_run(&v, 2 * QUIET_SEC);
	CU_ASSERT_EQUAL(victims_take(v.victims, 0, false, &got, 1), 1);
	victims_refused(v.victims, &got, v.rig->now_ns);
	vrig_run(&v, 30);
	CU_ASSERT_EQUAL(victims_cold_bytes(v.victims, 0), 0);
	vrig_run(&v, 300);
	CU_ASSERT_EQUAL(victims_cold_bytes(v.victims, 0), REGION);
	vrig_free(&v);
}

static void nobody_looks_unless_room_is_wanted(void)
{
	struct victims_rig v;

	vrig_new(&v);
	vrig_maps(&v, PID, 0, PAGES);
	vrig_map(&v, PID, 0, PAGES, RIG_PAGE, 0, 0);
	vrig_run(&v, 2 * QUIET_SEC);
	CU_ASSERT_EQUAL(victims_cold_bytes(v.victims, 0), REGION);
	v.rig->now_ns += VICTIMS_WANTED_NS;
	victims_step(v.victims, &v.rig->config, NSEC_PER_SEC, NULL);
	CU_ASSERT_EQUAL(vrig_state(&v), VICTIMS_IDLE);
	CU_ASSERT_EQUAL(victims_cold_bytes(v.victims, 0), 0);
	vrig_free(&v);
}

static void advance(struct rig *rig)
{
	rig->now_ns += 100000;
}

/* The daemon's steps for @sec seconds, where each piece of work takes a tenth of a millisecond. true: one was found. */
static bool find_one(struct victims_rig *v, int nid, unsigned int sec)
{
	struct victim got;

	for (uint64_t end_ns = v->rig->now_ns + sec * NSEC_PER_SEC; v->rig->now_ns < end_ns;) {
		vrig_flow(v);
		victims_want(v->victims, v->rig->now_ns);
		v->rig->on_clock = advance;
		victims_step(v->victims, &v->rig->config, 20 * NSEC_PER_MSEC, NULL);
		v->rig->on_clock = NULL;
		v->rig->now_ns += 180 * NSEC_PER_MSEC;
		if (victims_take(v->victims, nid, false, &got, 1) == 1)
			return true;
	}
	return false;
}

/* 64 TiB are mapped and next to nothing is there, as anybody may do: others don't wait for that. */
static void what_is_mapped_in_vain_holds_nobody_up(void)
{
	struct victims_rig v;

	vrig_new(&v);
	vrig_maps(&v, PID, 0, 64ULL << 40 >> PAGE_SHIFT);
	vrig_maps(&v, OTHER, 0, PAGES);
	vrig_map(&v, OTHER, 0, PAGES, RIG_PAGE, 1, 0);
	CU_ASSERT(find_one(&v, 1, QUIET_SEC + 30));
	vrig_free(&v);
}

/* What lies far apart is found in the end. */
static void what_lies_far_apart_is_found(void)
{
	struct victims_rig v;

	vrig_new(&v);
	vrig_maps(&v, PID, 0, 50000 * PAGES);
	vrig_map(&v, PID, 43210 * PAGES, PAGES, RIG_PAGE, 0, 0);
	CU_ASSERT(find_one(&v, 0, 1500));
	vrig_free(&v);
}

/* @n mappings of process 100, each of @pages, each @step pages behind the one before. */
static void put_many_maps(struct victims_rig *v, uint64_t n, uint64_t pages, uint64_t step)
{
	char *text = NULL;
	size_t size;
	FILE *to = open_memstream(&text, &size);

	for (uint64_t i = 0; i < n; i++)
		fprintf(to, "%llx-%llx rw-p 00000000 00:00 0 \n", (unsigned long long)rig_addr(PID, i * step),
			(unsigned long long)rig_addr(PID, i * step + pages));
	fclose(to);
	machine_put(&v->rig->machine, "proc/100/maps", "%s", text);
	free(text);
}

/* Each of many mappings has its turn, though one round can't go through all. */
static void each_of_many_mappings_has_its_turn(void)
{
	struct victims_rig v;

	vrig_new(&v);
	vrig_maps(&v, PID, 0, PAGES);
	put_many_maps(&v, 1000, 10 * PAGES, 20 * PAGES);
	vrig_map(&v, PID, 19985 * PAGES, PAGES, RIG_PAGE, 0, 0);
	CU_ASSERT(find_one(&v, 0, QUIET_SEC + 150));
	vrig_free(&v);
}

/* Small processes with as many mappings as the kernel allows cost memory by what they have. */
static void mappings_are_known_by_what_is_there(void)
{
	struct victims_maps maps = { 0 };
	struct victims_rig v;

	vrig_new(&v);
	vrig_maps(&v, PID, 0, PAGES);
	put_many_maps(&v, 30000, PAGES, 2 * PAGES);
	CU_ASSERT_EQUAL(victims_maps_begin(&maps, &v.rig->machine.root), 0);
	while (victims_maps_next(&maps, &v.rig->machine.root, v.rig->owners, v.rig->now_ns))
		;
	CU_ASSERT_EQUAL(maps.n, 1);
	CU_ASSERT(maps.process[0].n >= 1000 && maps.process[0].n <= 2000);
	victims_maps_clear(&maps);
	vrig_free(&v);
}

TEST_MAIN(victims, TEST(quiet_memory_is_cold), TEST(sampled_memory_is_not), TEST(what_is_not_there_is_no_victim),
	  TEST(without_samples_nothing_is_cold), TEST(hint_faults_need_to_see_the_fast_node),
	  TEST(a_mapping_is_as_old_as_it_is), TEST(another_process_of_that_pid_is_new),
	  TEST(what_was_evicted_is_not_unsampled), TEST(small_processes_are_left_out),
	  TEST(what_would_not_move_is_left_in_peace), TEST(nobody_looks_unless_room_is_wanted),
	  TEST(what_is_mapped_in_vain_holds_nobody_up), TEST(what_lies_far_apart_is_found),
	  TEST(each_of_many_mappings_has_its_turn), TEST(mappings_are_known_by_what_is_there))
