/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <unistd.h>

#include "harness.h"
#include "machine.h"
#include "nodeset.h"
#include "owners_usage.h"

#define MAPS "proc/77/numa_maps"

static struct machine machine;
static struct nodeset fast;

static void start(void)
{
	machine_new(&machine);
	nodeset_clear(&fast);
	nodeset_add(&fast, 0);
	nodeset_add(&fast, 1);
}

static uint64_t usage(const char *text)
{
	uint64_t bytes = 1;

	machine_put(&machine, MAPS, "%s", text);
	CU_ASSERT_EQUAL(owners_usage_read(&machine.root, 77, &fast, NULL, NULL, &bytes), 0);
	return bytes;
}

static void lines_are_added_up(void)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} cases[] = {
		{ "", 0 },
		{ "7f00 default anon=3 dirty=3 N0=1 N1=2 N4=9 kernelpagesize_kB=4", 3 * 4096 },
		{ "7f00 default\n7f01 bind:0 file=/a\\040N0=5 mapped=2 N0=2 kernelpagesize_kB=4", 2 * 4096 },
		{ "7f00 default anon=1 N1=1 kernelpagesize_kB=4\n7f01 default huge dirty=3 N1=3 N2=1 "
		  "kernelpagesize_kB=2048",
		  4096 + 3ULL * 2048 * 1024 },
		{ "7f00 interleave:0-1 anon=700000000 N0=700000000 kernelpagesize_kB=4", 700000000ULL * 4096 },
		/* What isn't understood counts nothing. */
		{ "7f00 default N0= N1=x N1=-4 NN0=3 N0=5x kernelpagesize_kB=4", 0 },
		{ "7f00 default N0=99999999999999999999999 N99999=3 N1=2 kernelpagesize_kB=4", 2 * 4096 },
		{ "7f00 default N0=5", 0 },
	};

	start();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t bytes = usage(cases[i].text);

		if (bytes != cases[i].bytes)
			printf("  %s: %llu\n", cases[i].text, (unsigned long long)bytes);
		CU_ASSERT_EQUAL(bytes, cases[i].bytes);
	}
	machine_free(&machine);
}

static bool twice(void *ctx)
{
	return (*(int *)ctx)-- > 0;
}

static void what_can_be_wrong(void)
{
	uint64_t bytes;
	int left = 2;

	start();
	/* It is asked after each read, and one is of less than half of this. */
	machine_put(&machine, MAPS, "1 default%2000s\n3 default N0=1 kernelpagesize_kB=4", "");
	CU_ASSERT_EQUAL(owners_usage_read(&machine.root, 77, &fast, twice, &left, &bytes), -ECANCELED);
	machine_remove(&machine, MAPS);
	CU_ASSERT_EQUAL(owners_usage_read(&machine.root, 77, &fast, NULL, NULL, &bytes), -ESRCH);
	machine_put(&machine, "proc/77/stat", "77 (x) S");
	CU_ASSERT_EQUAL(owners_usage_read(&machine.root, 77, &fast, NULL, NULL, &bytes), -ENOENT);
	machine_free(&machine);
}

/* The kernel's own words. */
static void of_this_process(void)
{
	struct nodeset all;
	struct fsroot root;
	uint64_t bytes;

	CU_ASSERT_EQUAL(fsroot_open(&root, "/"), 0);
	if (!fsroot_exists(&root, "proc/self/numa_maps")) {
		fsroot_close(&root);
		return test_skip("this kernel has no memory policies");
	}
	nodeset_clear(&all);
	for (int nid = 0; nid < 64; nid++)
		nodeset_add(&all, nid);
	CU_ASSERT_EQUAL(owners_usage_read(&root, (uint32_t)getpid(), &all, NULL, NULL, &bytes), 0);
	CU_ASSERT(bytes > 4096 && bytes < 1ULL << 34);
	fsroot_close(&root);
}

TEST_MAIN(owners_usage, TEST(lines_are_added_up), TEST(what_can_be_wrong), TEST(of_this_process))
