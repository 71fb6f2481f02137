/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>

#include "sim_kernel.h"
#include "sim_machine.h"
#include "sim_rig.h"
#include "topology.h"

struct rig {
	struct sim_scenario scenario;
	struct sim_place place;
	struct sim_kernel_state kernel;
	uint64_t passed_ns;
};

static struct rig rig;

static void pass(void *ctx, uint64_t ns)
{
	(void)ctx;
	rig.passed_ns += ns;
}

static void start(const char *text)
{
	char error[SIM_ERROR_MAX];

	memset(&rig, 0, sizeof(rig));
	sim_rig_parse(&rig.scenario, text);
	CU_ASSERT_EQUAL(sim_place_init(&rig.place, &rig.scenario, error), 0);
	sim_kernel_init(&rig.kernel, &rig.place, pass, NULL);
}

static void *addr(uint64_t page)
{
	return (void *)(uintptr_t)sim_place_addr(page);
}

static long move(uint32_t pid, size_t n, void **addrs, int nid, int *status)
{
	return sim_kernel_mover_ops.move(&rig.kernel, pid, n, addrs, nid, status);
}

static void a_move_takes_its_time(void)
{
	void *addrs[1000];
	int status[1000];
	long failed = 0;

	start(SIM_RIG_MACHINE SIM_RIG_HEAP SIM_RIG_HOT);
	for (size_t i = 0; i < 1000; i++)
		addrs[i] = addr(i);
	CU_ASSERT_EQUAL(move(sim_machine_pid(1), 1000, addrs, 0, status), 0);
	for (size_t i = 0; i < 1000; i++)
		failed += status[i] != 0;
	CU_ASSERT_EQUAL(failed, 0);
	CU_ASSERT_EQUAL(rig.place.used[0][0], 1000);
	CU_ASSERT_EQUAL(rig.kernel.promoted_pages, 1000);
	/* 12 us each; less than a millisecond of it may be owed still. */
	CU_ASSERT(rig.passed_ns <= 12000000 && rig.passed_ns > 11000000);
	/* What is there already takes none. */
	rig.passed_ns = 0;
	CU_ASSERT_EQUAL(move(sim_machine_pid(1), 1000, addrs, 0, status), 0);
	CU_ASSERT_EQUAL(rig.passed_ns, 0);
	CU_ASSERT_EQUAL(status[999], 0);
	sim_place_free(&rig.place);
}

static void each_page_has_its_answer(void)
{
	void *addrs[4] = { addr(5), addr(1 << 20), NULL, addr(6) };
	int status[4];

	start(SIM_RIG_MACHINE SIM_RIG_HEAP SIM_RIG_HOT);
	CU_ASSERT_EQUAL(move(sim_machine_pid(1), 4, addrs, 0, status), 0);
	CU_ASSERT_EQUAL(status[0], 0);
	CU_ASSERT_EQUAL(status[1], -EFAULT);
	CU_ASSERT_EQUAL(status[2], -EFAULT);
	CU_ASSERT_EQUAL(status[3], 0);
	CU_ASSERT_EQUAL(sim_kernel_mover_ops.query(&rig.kernel, sim_machine_pid(1), 4, addrs, status), 0);
	CU_ASSERT_EQUAL(status[0], 0);
	CU_ASSERT_EQUAL(status[1], -EFAULT);
	CU_ASSERT_EQUAL(move(sim_machine_pid(2), 4, addrs, 0, status), -ESRCH);
	CU_ASSERT_EQUAL(move(sim_machine_pid(1), 4, addrs, 2, status), -ENODEV);
	sim_place_free(&rig.place);
}

static void what_is_not_filled_is_not_there(void)
{
	void *addrs[1] = { addr(5) };
	int status[1];

	start(SIM_RIG_MACHINE "memory = ( { name = \"m\"; mib = 100; placing = \"unfilled\"; } );"
			      "accesses = ( { memory = \"m\"; hot = true; } );");
	CU_ASSERT_EQUAL(move(sim_machine_pid(1), 1, addrs, 0, status), 0);
	CU_ASSERT_EQUAL(status[0], -ENOENT);
	sim_place_free(&rig.place);
}

static void a_full_node_ends_the_call(void)
{
	static void *addrs[20000];
	static int status[20000];

	start(SIM_RIG_MACHINE SIM_RIG_HEAP SIM_RIG_HOT);
	for (size_t i = 0; i < 20000; i++)
		addrs[i] = addr(i);
	CU_ASSERT_EQUAL(move(sim_machine_pid(1), 20000, addrs, 0, status), -ENOMEM);
	CU_ASSERT_EQUAL(sim_place_free_pages(&rig.place, 0), 0);
	CU_ASSERT_EQUAL(rig.place.used[0][0], 16384);
	sim_place_free(&rig.place);
}

static void huge_pages(void)
{
	void *addrs[3] = { addr(512), addr(513), addr(1024) };
	int status[3];

	start(SIM_RIG_MACHINE "memory = ( { name = \"heap\"; mib = 256; node = 1; huge_share = 1; } );" SIM_RIG_HOT);
	CU_ASSERT_EQUAL(move(sim_machine_pid(1), 3, addrs, 0, status), 0);
	CU_ASSERT_EQUAL(status[0], 0);
	/* The kernel has isolated the folio already. */
	CU_ASSERT_EQUAL(status[1], -EBUSY);
	CU_ASSERT_EQUAL(status[2], 0);
	CU_ASSERT_EQUAL(rig.place.used[0][0], 1024);
	sim_place_free(&rig.place);
}

static void busy_pages_stay(void)
{
	static void *addrs[8000];
	static int status[8000];
	int busy = 0;

	start(SIM_RIG_MACHINE SIM_RIG_HEAP SIM_RIG_HOT "kernel = { busy = 0.25; };");
	for (size_t i = 0; i < 8000; i++)
		addrs[i] = addr(i);
	CU_ASSERT_EQUAL(move(sim_machine_pid(1), 8000, addrs, 0, status), 0);
	for (size_t i = 0; i < 8000; i++)
		busy += status[i] == -EBUSY;
	CU_ASSERT(busy > 1800 && busy < 2200);
	CU_ASSERT_EQUAL(rig.place.used[0][0], 8000 - (uint64_t)busy);
	sim_place_free(&rig.place);
}

static void cold_pages_go_below_the_watermark(void)
{
	uint64_t hot_before;

	start(SIM_RIG_MACHINE SIM_RIG_HEAP SIM_RIG_HOT "kernel = { low_percent = 10; high_percent = 20; };");
	/* All that is hot, 32 MiB, and 26 MiB that are not. */
	for (uint64_t i = 0; i < 58 * 256; i++)
		sim_place_move(&rig.place, 100 * 256 + i, 0);
	hot_before = rig.place.area[0].hot_near;
	sim_kernel_reclaim(&rig.kernel, 0.001);
	/* A millisecond of a GiB in a second. */
	CU_ASSERT(rig.kernel.demoted_pages > 0 && rig.kernel.demoted_pages < 300);
	sim_kernel_reclaim(&rig.kernel, 10);
	CU_ASSERT_DOUBLE_EQUAL((double)sim_place_free_pages(&rig.place, 0), 0.2 * 64 * 256, 2);
	/* Of 16 pages the coldest: hardly ever a hot one. */
	CU_ASSERT(hot_before - rig.place.area[0].hot_near < hot_before / 100);
	rig.scenario.kernel.demotion = false;
	sim_place_move(&rig.place, 5, 0);
	rig.kernel.demoted_pages = 0;
	sim_kernel_reclaim(&rig.kernel, 10);
	CU_ASSERT_EQUAL(rig.kernel.demoted_pages, 0);
	sim_place_free(&rig.place);
}

/* Up, down, up again: each but the first counts, as long as a minute hasn't gone by. */
static void moving_back_soon_is_counted(void)
{
	start(SIM_RIG_MACHINE SIM_RIG_HEAP SIM_RIG_HOT);
	for (uint64_t i = 0; i < 100; i++)
		sim_place_move(&rig.place, i, 0);
	CU_ASSERT_EQUAL(rig.place.back_up, 0);
	CU_ASSERT_EQUAL(sim_place_at(&rig.place, 30), 0);
	for (uint64_t i = 0; i < 50; i++)
		sim_place_move(&rig.place, i, 1);
	CU_ASSERT_EQUAL(rig.place.back_down, 50);
	CU_ASSERT_EQUAL(rig.place.back_up, 0);
	CU_ASSERT_EQUAL(sim_place_at(&rig.place, 89), 0);
	for (uint64_t i = 0; i < 20; i++)
		sim_place_move(&rig.place, i, 0);
	CU_ASSERT_EQUAL(rig.place.back_up, 20);
	/* A minute after they went down, and more than that after they came up. */
	CU_ASSERT_EQUAL(sim_place_at(&rig.place, 90), 0);
	for (uint64_t i = 20; i < 50; i++)
		sim_place_move(&rig.place, i, 0);
	for (uint64_t i = 50; i < 100; i++)
		sim_place_move(&rig.place, i, 1);
	CU_ASSERT_EQUAL(rig.place.back_up, 20);
	CU_ASSERT_EQUAL(rig.place.back_down, 50);
	sim_place_free(&rig.place);
}

/* The daemon reads the machine as it reads a real one. */
static void the_machine_is_read(void)
{
	const struct topology_options options = { .target_nid = -1 };
	struct topology_room rooms[NODE_MAX];
	struct sim_machine machine;
	struct topology *topology;
	char error[256] = "";

	start("nodes = ( { mib = 64; cpus = 2; }, { mib = 128; cpus = 3; }, { mib = 1024; tier = 1; },"
	      "          { mib = 512; tier = 2; } );"
	      "memory = ( { name = \"heap\"; mib = 256; node = 2; } );" SIM_RIG_HOT);
	CU_ASSERT_EQUAL(sim_machine_init(&machine, &rig.place), 0);
	CU_ASSERT_EQUAL(topology_read(&machine.root, &options, &topology, error, sizeof(error)), 0);
	CU_ASSERT_EQUAL(topology->n_tiers, 3);
	CU_ASSERT_EQUAL(topology->origin, TIERS_FROM_KERNEL);
	CU_ASSERT_TRUE(nodeset_has(&topology->lower, 2) && nodeset_has(&topology->lower, 3));
	CU_ASSERT_TRUE(nodeset_has(&topology->top, 0) && nodeset_has(&topology->top, 1));
	CU_ASSERT_EQUAL(topology_cpu_node(topology, 1), 0);
	CU_ASSERT_EQUAL(topology_cpu_node(topology, 2), 1);
	CU_ASSERT_EQUAL(topology_cpu_node(topology, 4), 1);
	for (uint64_t page = 0; page < rig.place.pages; page += 777)
		CU_ASSERT_EQUAL(topology_pfn_node(topology, sim_place_phys(&rig.place, page) >> 12), 2);
	sim_place_move(&rig.place, 7, 1);
	CU_ASSERT_EQUAL(topology_pfn_node(topology, sim_place_phys(&rig.place, 7) >> 12), 1);
	CU_ASSERT_EQUAL(sim_machine_update(&machine), 0);
	CU_ASSERT_EQUAL(topology_read_rooms(&machine.root, &topology->top, rooms), 0);
	CU_ASSERT_EQUAL(rooms[0].free_bytes, 64ULL << 20);
	CU_ASSERT_EQUAL(rooms[1].free_bytes, (128ULL << 20) - 4096);
	CU_ASSERT_EQUAL(rooms[1].present_bytes, 128ULL << 20);
	topology_unref(topology);
	sim_machine_free(&machine);
	sim_place_free(&rig.place);
}

TEST_MAIN(sim_kernel, TEST(a_move_takes_its_time), TEST(each_page_has_its_answer),
	  TEST(what_is_not_filled_is_not_there), TEST(a_full_node_ends_the_call), TEST(huge_pages),
	  TEST(busy_pages_stay), TEST(cold_pages_go_below_the_watermark), TEST(moving_back_soon_is_counted),
	  TEST(the_machine_is_read))
