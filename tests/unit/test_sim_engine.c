/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <unistd.h>

#include "sim_engine.h"
#include "sim_plot.h"
#include "sim_rig.h"

static struct sim_scenario scenario;

static void run(const char *text, struct sim_result *ret)
{
	char error[SIM_ERROR_MAX] = "";
	int r;

	sim_rig_parse(&scenario, text);
	r = sim_run(&scenario, NULL, ret, error);
	CU_ASSERT_EQUAL(r, 0);
	if (r < 0)
		printf("  %s\n", error);
}

#define SMALL SIM_RIG_MACHINE SIM_RIG_HEAP SIM_RIG_HOT SIM_RIG_CONFIG

/* One page for each sample: n samples of H pages leave H exp(-n / H) unseen. */
static void the_published_rule_finds_what_samples_name(void)
{
	struct sim_result r;
	double expected = 1 - exp(-8000.0 / 8192);

	run(SMALL "sampler = { per_sec = 400; };", &r);
	CU_ASSERT_EQUAL(r.samples, 8000);
	CU_ASSERT_EQUAL(r.hot_bytes, 32ULL << 20);
	CU_ASSERT_DOUBLE_EQUAL(r.coverage, expected, 0.02);
	CU_ASSERT_EQUAL(r.over_promotion, 0);
	CU_ASSERT(r.decided >= r.coverage && r.decided < r.coverage + 0.01);
	CU_ASSERT_EQUAL(r.moved_bytes, (uint64_t)round(r.coverage * 8192) * 4096);
	CU_ASSERT(r.hit_ratio < r.coverage && r.hit_ratio > r.coverage - 0.05);
	CU_ASSERT_DOUBLE_EQUAL(r.oracle_hit_ratio, 1, 1e-9);
	CU_ASSERT(r.time_to_50 > 12 && r.time_to_50 < 17);
	CU_ASSERT_EQUAL(r.time_to_99, -1);
	CU_ASSERT_EQUAL(r.n_series, 20);
	CU_ASSERT_EQUAL(r.series[9].t, 10);
	CU_ASSERT_DOUBLE_EQUAL(r.series[9].coverage, 1 - exp(-4000.0 / 8192), 0.03);
	CU_ASSERT(r.map_bytes > 0 && r.user_seconds > 0);
	sim_result_free(&r);
}

static void the_same_seed_gives_the_same_result(void)
{
	static const char text[] = SMALL "sampler = { per_sec = 400; loss = 0.1; skid = 0.1; };";
	struct sim_result a, b, other;

	run(text, &a);
	run(text, &b);
	run(SMALL "seed = 2; sampler = { per_sec = 400; loss = 0.1; skid = 0.1; };", &other);
	CU_ASSERT_EQUAL(a.samples, b.samples);
	CU_ASSERT_EQUAL(a.moved_bytes, b.moved_bytes);
	CU_ASSERT_EQUAL(a.speedup, b.speedup);
	CU_ASSERT_EQUAL(a.n_series, b.n_series);
	CU_ASSERT_EQUAL(memcmp(a.series, b.series, a.n_series * sizeof(*a.series)), 0);
	CU_ASSERT_NOT_EQUAL(a.moved_bytes, other.moved_bytes);
	sim_result_free(&a);
	sim_result_free(&b);
	sim_result_free(&other);
}

/* 400 ns for all of it, 100 for what is near: with everything near within a moment the speed is four times that. */
static void speed_follows_the_pages(void)
{
	struct sim_result r;
	double at_once;

	run(SMALL "sampler = { per_sec = 20000; }; kernel = { move_us = 0; };", &r);
	at_once = r.speedup;
	CU_ASSERT(r.coverage > 0.999);
	CU_ASSERT(r.speedup > 3.8 && r.speedup < 4.0);
	sim_result_free(&r);
	run(SMALL "sampler = { per_sec = 20000; };", &r);
	CU_ASSERT(r.speedup > 3 && r.speedup < at_once);
	sim_result_free(&r);
	run(SMALL "sampler = { per_sec = 0.001; };", &r);
	CU_ASSERT_DOUBLE_EQUAL(r.speedup, 1, 1e-9);
	sim_result_free(&r);
}

/*
 * A move of a page takes 12 us: no more than 325 MiB in a second, whatever the rate allows. The call that is under way
 * at the end counts whole, and takes up to the promote.stall_ms of 20.
 */
static void moving_takes_time(void)
{
	struct sim_result r;

	run("seconds = 2; nodes = ( { mib = 2048; cpus = 4; }, { mib = 2048; tier = 1; } );"
	    "memory = ( { name = \"heap\"; mib = 1024; node = 1; } );" SIM_RIG_CONFIG
	    "accesses = ( { memory = \"heap\"; hot = true; } ); sampler = { per_sec = 4e5; };",
	    &r);
	CU_ASSERT(r.coverage < 0.99);
	CU_ASSERT(r.decided > r.coverage);
	CU_ASSERT(r.moved_bytes <= 2.02 * (1000000 / 12) * 4096ULL);
	CU_ASSERT(r.moved_bytes > 1.7 * (1000000 / 12) * 4096ULL);
	sim_result_free(&r);
}

/* With nothing but slow samples the rate of a closed loop is known: 4 threads, 400 ns. */
static void samples_by_period(void)
{
	struct sim_result r;

	run(SIM_RIG_MACHINE SIM_RIG_HEAP SIM_RIG_HOT "config = { mode = \"observe\"; };"
						     "sampler = { per_sec = 0; period = 100000; };",
	    &r);
	/* 10 million accesses in a second, 20 seconds. */
	CU_ASSERT(r.samples >= 1998 && r.samples <= 2000);
	sim_result_free(&r);
}

static void flaws_of_the_sampler(void)
{
	struct sim_result r;

	run(SMALL "sampler = { per_sec = 1000; miss_share = 0.5; loss = 0.2; };", &r);
	CU_ASSERT(r.samples > 7600 && r.samples < 8400);
	CU_ASSERT_EQUAL(r.over_promotion, 0);
	sim_result_free(&r);
	/* One in ten names a page at most 64 MiB from the right one: cold ones get promoted. */
	run(SMALL "sampler = { per_sec = 1000; skid = 0.1; skid_pages = 512; };", &r);
	CU_ASSERT(r.over_promotion > 0);
	sim_result_free(&r);
}

/* A heap of which three quarters are near from the start. */
#define MOSTLY_NEAR                                                                                 \
	SIM_RIG_MACHINE "memory = ( { name = \"heap\"; mib = 80; node = 1; near_share = 0.75; } );" \
			"accesses = ( { memory = \"heap\"; pattern = \"uniform\"; } );"             \
			"config = { mode = \"observe\"; };"

static void hint_faults_show_slow_nodes_only(void)
{
	struct sim_result r;

	run(MOSTLY_NEAR "sampler = { per_sec = 1000; };", &r);
	CU_ASSERT(r.samples > 19900 && r.samples <= 20000);
	sim_result_free(&r);
	run(MOSTLY_NEAR "sampler = { per_sec = 1000; slow_only = true; };", &r);
	CU_ASSERT(r.samples > 4600 && r.samples < 5400);
	sim_result_free(&r);
}

static void nothing_moves_in_mode_observe(void)
{
	struct sim_result r;

	run(SIM_RIG_MACHINE SIM_RIG_HEAP SIM_RIG_HOT
	    "config = { mode = \"observe\"; promote = { policy = \"page\"; freq_threshold = 1; }; };"
	    "sampler = { per_sec = 1000; };",
	    &r);
	CU_ASSERT_EQUAL(r.moved_bytes, 0);
	CU_ASSERT_EQUAL(r.coverage, 0);
	CU_ASSERT(r.decided > 0.8);
	CU_ASSERT_DOUBLE_EQUAL(r.speedup, 1, 1e-9);
	sim_result_free(&r);
}

/* Regions are decided whole before most of their pages were seen, and then they move: on both slow nodes. */
static void regions_of_two_slow_nodes(void)
{
	struct sim_result r;
	double first = -1;

	run("seconds = 40; nodes = ( { mib = 256; cpus = 4; }, { mib = 512; tier = 1; }, { mib = 512; tier = 1; } );"
	    "memory = ( { name = \"heap\"; mib = 256; node = 1; interleave_node = 2; } );" SIM_RIG_HOT
	    "config = { promote = { policy = \"region\"; freq_threshold = 1; }; }; sampler = { per_sec = 200; };",
	    &r);
	/* 8000 samples name no more than 62% of the 8192 pages. */
	CU_ASSERT(r.coverage > 0.98);
	CU_ASSERT(r.over_promotion < 0.02);
	for (size_t i = 0; i < r.n_series; i++) {
		CU_ASSERT(r.series[i].decided >= r.series[i].coverage);
		if (first < 0 && r.series[i].decided > 0.5)
			first = r.series[i].t;
	}
	/* By then 36% could have been seen. */
	CU_ASSERT(first > 0 && first < 18);
	sim_result_free(&r);
}

static void the_fast_node_is_not_overfilled(void)
{
	struct sim_result r;

	/* 128 MiB hot, 64 MiB near of which 3% stay free. */
	run(SIM_RIG_MACHINE SIM_RIG_HEAP
	    "accesses = ( { memory = \"heap\"; mib = 128; hot = true; } );"
	    "config = { make_room = \"off\"; promote = { policy = \"page\"; freq_threshold = 1; }; };"
	    "sampler = { per_sec = 20000; };",
	    &r);
	CU_ASSERT(r.moved_bytes <= (uint64_t)(0.97 * 0x1p26));
	CU_ASSERT(r.moved_bytes > (uint64_t)(0.9 * 0x1p26));
	CU_ASSERT_DOUBLE_EQUAL(r.oracle_hit_ratio, 0.97 / 2, 0.001);
	CU_ASSERT(r.hit_ratio <= r.oracle_hit_ratio + 1e-9);
	CU_ASSERT_EQUAL(r.demoted_bytes, 0);
	sim_result_free(&r);
}

static void it_can_be_stopped(void)
{
	static _Atomic bool stop;
	char error[SIM_ERROR_MAX];
	struct sim_result r;

	atomic_store_explicit(&stop, true, memory_order_relaxed);
	sim_rig_parse(&scenario, SMALL);
	CU_ASSERT_EQUAL(sim_run(&scenario, &stop, &r, error), -EINTR);
	CU_ASSERT_PTR_NOT_NULL(strstr(error, "stopped before its end"));
	CU_ASSERT_PTR_NULL(r.series);
}

static void results_are_written(void)
{
	char *text = NULL, path[] = "/tmp/sim-plot-XXXXXX";
	struct sim_result r;
	size_t size = 0;
	FILE *to;
	int fd;

	run(SMALL "sampler = { per_sec = 400; };", &r);
	to = open_memstream(&text, &size);
	CU_ASSERT_EQUAL(sim_result_write_json(&r, to), 0);
	fclose(to);
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "\"time_to_99\": null"));
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "\"samples\": 8000"));
	free(text);
	fd = mkstemp(path);
	CU_ASSERT(fd >= 0);
	CU_ASSERT_EQUAL(sim_plot_write(&r, "a < b & c", path), 0);
	to = fdopen(fd, "r");
	text = calloc(1, 65536);
	CU_ASSERT(text && fread(text, 1, 65535, to) > 1000);
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "a &lt; b &amp; c"));
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "</svg>"));
	fclose(to);
	free(text);
	unlink(path);
	CU_ASSERT_EQUAL(sim_plot_write(&r, "", "/nowhere/at/all.svg"), -ENOENT);
	sim_result_free(&r);
}

TEST_MAIN(sim_engine, TEST(the_published_rule_finds_what_samples_name), TEST(the_same_seed_gives_the_same_result),
	  TEST(speed_follows_the_pages), TEST(moving_takes_time), TEST(samples_by_period), TEST(flaws_of_the_sampler),
	  TEST(hint_faults_show_slow_nodes_only), TEST(nothing_moves_in_mode_observe), TEST(regions_of_two_slow_nodes),
	  TEST(the_fast_node_is_not_overfilled), TEST(it_can_be_stopped), TEST(results_are_written))
