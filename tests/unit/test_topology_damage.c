/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A machine that is broken in each place in turn, and a daemon without memory or descriptors. */
#include <stdbool.h>
#include <sys/resource.h>

#include "harness.h"
#include "machine.h"
#include "sanitized.h"
#include "topology.h"

static const struct topology_options no_options = { .target_nid = -1 };

static char files[512][160];
static int n_files;
static size_t prefix_len;

static int list_file(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)ftw;
	if (type == FTW_F && n_files < 512)
		snprintf(files[n_files++], sizeof(files[0]), "%s", path + prefix_len);
	return 0;
}

static void list_files(const struct machine *m)
{
	n_files = 0;
	prefix_len = strlen(m->dir) + 1;
	nftw(m->dir, list_file, 16, FTW_PHYS);
}

/* A machine of everything: two tiers, HMAT, a shared block, a GPU, kmem. */
static void load_rich(struct machine *m)
{
	char path[128];

	machine_load(m, "shared-block");
	for (int nid = 0; nid < 2; nid++) {
		snprintf(path, sizeof(path), "sys/devices/system/node/node%d/access1/initiators/read_latency", nid);
		machine_put(m, path, "%d", nid ? 250 : 100);
		snprintf(path, sizeof(path), "sys/devices/system/node/node%d/access1/initiators/read_bandwidth", nid);
		machine_put(m, path, "%d", nid ? 1000 : 4000);
	}
	machine_put(m, "sys/devices/system/node/online", "0-2");
	machine_put(m, "sys/devices/system/node/has_memory", "0-2");
	machine_put(m, "sys/devices/system/node/node0/distance", "10 20 30");
	machine_put(m, "sys/devices/system/node/node1/distance", "20 10 30");
	machine_put(m, "sys/devices/system/node/node2/distance", "30 30 10");
	machine_put(m, "sys/devices/system/node/node2/meminfo", "Node 2 MemTotal: 1000 kB");
	machine_put(m, "sys/devices/system/node/node2/cpulist", "%s", "");
	machine_put(m, "proc/driver/nvidia/gpus/0000:01:00.0/numa_status", "Node:      2\nStatus:    online");
	machine_put(m, "sys/bus/dax/drivers/kmem/dax0.0/target_node", "1");
}

/* The rule that topology.h gives: what is not what a kernel writes counts as not there. */
static void garbage_counts_as_missing(void)
{
	static const char many[] =
		"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";
	static const struct {
		const char *data;
		size_t len;
		size_t times;
	} garbage[] = {
		{ "garbage\n", 8, 1 },
		{ "-1\n", 3, 1 },
		{ "99999999999999999999\n", 21, 1 },
		{ "0-\n", 3, 1 },
		{ "1 2 x\n", 6, 1 },
		{ "\0\1\377\n", 4, 1 },
		{ "%s%n%d\n", 7, 1 },
		{ many, sizeof(many) - 1, 4000 },
	};
	static char data[sizeof(many) * 4000];
	struct machine m;
	unsigned int mattered = 0;

	load_rich(&m);
	list_files(&m);
	CU_ASSERT(n_files > 60 && n_files < 512);
	for (int i = 0; i < n_files; i++) {
		struct topology *whole = NULL, *without = NULL;
		struct fsroot *root = &m.root;
		char saved[16384];
		int len, without_r;

		/* Blocks are all alike: the shared one and a few stand for them. */
		if (strstr(files[i], "/state") && !strstr(files[i], "memory23/") && !strstr(files[i], "memory30/"))
			continue;
		len = fsroot_read(root, saved, sizeof(saved), "%s", files[i]);
		CU_ASSERT(len >= 0);
		CU_ASSERT_EQUAL(topology_read(root, &no_options, &whole, NULL, 0), 0);
		machine_remove(&m, files[i]);
		without_r = topology_read(root, &no_options, &without, NULL, 0);
		CU_ASSERT(without_r == 0 || strstr(files[i], "/online"));
		if (whole && without)
			mattered += !topology_equal(whole, without);
		for (size_t g = 0; g < sizeof(garbage) / sizeof(garbage[0]); g++) {
			struct topology *damaged = NULL;
			int r;

			for (size_t k = 0; k < garbage[g].times; k++)
				memcpy(data + k * garbage[g].len, garbage[g].data, garbage[g].len);
			machine_put_bytes(&m, files[i], data, garbage[g].len * garbage[g].times);
			r = topology_read(root, &no_options, &damaged, NULL, 0);
			if (strstr(files[i], "node/online")) {
				CU_ASSERT(r == -EBADMSG || r == -EFBIG);
			} else {
				CU_ASSERT_EQUAL(r, 0);
				if (damaged && without && !topology_equal(damaged, without))
					printf("  %s, garbage %zu\n", files[i], g);
				CU_ASSERT(damaged && without && topology_equal(damaged, without));
			}
			topology_unref(damaged);
		}
		/* A folder where a file should be. */
		struct topology *damaged = NULL;
		char path[256];

		machine_remove(&m, files[i]);
		snprintf(path, sizeof(path), "%s/x", files[i]);
		machine_put(&m, path, "x");
		CU_ASSERT(topology_read(root, &no_options, &damaged, NULL, 0) == 0 || strstr(files[i], "node/online"));
		CU_ASSERT(!without || (damaged && topology_equal(damaged, without)));
		topology_unref(damaged);
		machine_remove(&m, files[i]);
		machine_put(&m, files[i], "%s", saved);
		topology_unref(whole);
		topology_unref(without);
	}
	machine_free(&m);
	/* Otherwise the above shows nothing. */
	CU_ASSERT(mattered >= 18);
}

static void folders_gone_in_turn(void)
{
	static const char *const folders[] = {
		"proc",
		"proc/driver",
		"sys/bus",
		"sys/kernel",
		"sys/devices/virtual",
		"sys/devices/system/memory",
		"sys/devices/system/memory/memory23",
		"sys/devices/system/node/node0",
		"sys/devices/system/node/node1",
		"sys/devices/system/node/node1/access1",
	};

	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
		struct topology *t = NULL;
		struct machine m;
		char *text;

		load_rich(&m);
		machine_remove(&m, folders[i]);
		CU_ASSERT_EQUAL(topology_read(&m.root, &no_options, &t, NULL, 0), 0);
		if (t) {
			CU_ASSERT_EQUAL(t->n_nodes, 3);
			for (int page = -1; page < 4; page++) {
				for (int cpu = -1; cpu < 4; cpu++) {
					int target = topology_target(t, page, cpu);

					CU_ASSERT(target == -1 ||
						  topology_node(t, target)->tier < topology_node(t, page)->tier);
				}
			}
			text = topology_describe(t);
			CU_ASSERT_PTR_NOT_NULL(text);
			free(text);
		}
		topology_unref(t);
		machine_free(&m);
	}
}

/* Too few descriptors must not look like half a machine. */
static void no_descriptors(void)
{
	struct topology *whole = NULL;
	struct rlimit before, low;
	struct machine m;
	unsigned int failed = 0;
	int first;

	load_rich(&m);
	CU_ASSERT_EQUAL(topology_read(&m.root, &no_options, &whole, NULL, 0), 0);
	first = dup(0);
	close(first);
	CU_ASSERT_EQUAL(getrlimit(RLIMIT_NOFILE, &before), 0);
	for (int extra = 0; extra < 64; extra++) {
		struct topology *t = NULL;
		char error[512] = "";
		int r;

		low = before;
		low.rlim_cur = (rlim_t)(first + extra);
		CU_ASSERT_EQUAL(setrlimit(RLIMIT_NOFILE, &low), 0);
		r = topology_read(&m.root, &no_options, &t, error, sizeof(error));
		CU_ASSERT_EQUAL(setrlimit(RLIMIT_NOFILE, &before), 0);
		CU_ASSERT(r == 0 || r == -EMFILE);
		/* With none at all, and with one but none for the files of a folder that is being listed. */
		CU_ASSERT(extra >= 2 || r == -EMFILE);
		if (r == -EMFILE) {
			failed++;
			CU_ASSERT_PTR_NOT_NULL(strstr(error, strerror(EMFILE)));
		}
		CU_ASSERT(r < 0 || topology_equal(t, whole));
		topology_unref(t);
	}
	CU_ASSERT(failed < 64);
	topology_unref(whole);
	machine_free(&m);
}

#ifndef SANITIZED

static bool counting;
static long live, countdown = -1;

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);
void __libc_free(void *p);

static bool fails(void)
{
	if (!counting)
		return false;
	if (countdown >= 0 && countdown-- == 0) {
		errno = ENOMEM;
		return true;
	}
	return false;
}

static void *count(void *p)
{
	if (counting && p)
		live++;
	return p;
}

void *malloc(size_t size)
{
	return fails() ? NULL : count(__libc_malloc(size));
}

void *calloc(size_t n, size_t size)
{
	return fails() ? NULL : count(__libc_calloc(n, size));
}

void *realloc(void *p, size_t size)
{
	if (fails())
		return NULL;
	return p ? __libc_realloc(p, size) : count(__libc_realloc(p, size));
}

void free(void *p)
{
	if (counting && p)
		live--;
	__libc_free(p);
}

/* Each allocation fails once: -ENOMEM, and nothing is left behind. */
static void no_memory(void)
{
	struct topology *whole = NULL;
	struct machine m;
	long failures = 0;
	int r;

	if (test_under_valgrind()) {
		test_skip("valgrind has its own allocator");
		return;
	}
	load_rich(&m);
	CU_ASSERT_EQUAL(topology_read(&m.root, &no_options, &whole, NULL, 0), 0);
	for (long k = 0; k < 10000; k++) {
		struct topology *t = NULL;

		live = 0;
		countdown = k;
		counting = true;
		r = topology_read(&m.root, &no_options, &t, NULL, 0);
		if (r == 0) {
			topology_unref(t);
			t = NULL;
		}
		counting = false;
		CU_ASSERT_EQUAL(live, 0);
		CU_ASSERT(r == 0 || r == -ENOMEM);
		if (countdown >= 0)
			break; /* fewer allocations than that */
		CU_ASSERT_EQUAL(r, -ENOMEM);
		failures++;
	}
	CU_ASSERT_EQUAL(r, 0);
	CU_ASSERT(failures > 20);
	countdown = -1;
	topology_unref(whole);
	machine_free(&m);
}

#else

static void no_memory(void)
{
	test_skip("a sanitizer has malloc for itself");
}

#endif

TEST_MAIN(topology_damage, TEST(garbage_counts_as_missing), TEST(folders_gone_in_turn), TEST(no_descriptors),
	  TEST(no_memory))
