/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/xattr.h>

#include "harness.h"
#include "machine.h"
#include "owners_facts.h"
#include "owners_map.h"

#define PID  700
#define PAGE 4096ULL

static struct machine m;
static struct owner_facts facts;

static void put(const char *file, const char *text)
{
	char path[128];

	snprintf(path, sizeof(path), "proc/%d/%s", PID, file);
	machine_put(&m, path, "%s", text);
}

static void link_to(const char *file, const char *target)
{
	char path[128];

	snprintf(path, sizeof(path), "proc/%d/%s", PID, file);
	machine_remove(&m, path);
	machine_link(&m, path, target);
}

static void put_thread(int tid, int policy)
{
	char file[64], line[512];

	snprintf(file, sizeof(file), "task/%d/stat", tid);
	snprintf(line, sizeof(line),
		 "%d (a) b) S 1 1 1 0 -1 4194560 1 0 0 0 1 1 0 0 20 0 1 0 100 1000000 100 18446744073709551615 1 1 0 0 "
		 "0 0 0 0 0 0 0 0 17 0 0 %d 0 0 0 0 0 0 0 0 0 0 0",
		 tid, policy);
	put(file, line);
}

static void put_process(void)
{
	machine_new(&m);
	put("stat", "700 (a) S");
	put("status",
	    "Name:\tVmPin: 5 kB\nUmask:\t0022\nState:\tS (sleeping)\nUid:\t0\t26\t0\t0\nVmPeak:\t  99 kB\nVmLck:\t"
	    "     8 kB\nVmPin:\t       0 kB\nVmRSS:\t  123456 kB\nThreads:\t1");
	put("cgroup", "0::/system.slice/nginx.service");
	link_to("exe", "/usr/sbin/nginx (deleted)");
	put("fd/.keep", "");
	link_to("fd/0", "/dev/null");
	link_to("fd/1", "socket:[1]");
	put_thread(700, 0);
}

static void reads_what_there_is(void)
{
	put_process();
	CU_ASSERT_EQUAL(owners_facts_read(&m.root, PID, &facts), 0);
	CU_ASSERT_STRING_EQUAL(facts.cgroup, "/system.slice/nginx.service");
	CU_ASSERT_STRING_EQUAL(facts.exe, "/usr/sbin/nginx");
	CU_ASSERT_EQUAL(facts.uid, 26);
	CU_ASSERT_EQUAL(facts.rss_bytes, 123456ULL << 10);
	CU_ASSERT_EQUAL(facts.locked_bytes, 8192);
	CU_ASSERT_EQUAL(facts.pinned_bytes, 0); /* not what its name says */
	CU_ASSERT_FALSE(facts.device || facts.real_time || facts.cgroup_off);
	CU_ASSERT_EQUAL(owners_facts_read(&m.root, PID + 1, &facts), -ESRCH);
	/* A kernel thread has no memory. */
	put("status", "Name:\tkworker\nUid:\t0\t0\t0\t0\nThreads:\t1");
	CU_ASSERT_EQUAL(owners_facts_read(&m.root, PID, &facts), -ESRCH);
	put("status", "nonsense");
	CU_ASSERT(owners_facts_read(&m.root, PID, &facts) < 0);
	machine_free(&m);
}

static void the_group_that_says_most(void)
{
	static const struct {
		const char *text, *group;
	} cases[] = {
		{ "0::/", "/" },
		{ "0::/a/b c:d", "/a/b c:d" },
		{ "12:memory:/mem\n1:name=systemd:/sys\n0::/", "/sys" },
		{ "12:memory:/mem\n1:name=systemd:/sys\n0::/u", "/u" },
		{ "5:cpu:/c\n4:cpuset,memory:/mem", "/mem" },
		{ "0::/gone (deleted)", "/gone" },
		{ "", "" },
	};

	put_process();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		put("cgroup", cases[i].text);
		CU_ASSERT_EQUAL(owners_facts_read(&m.root, PID, &facts), 0);
		CU_ASSERT_STRING_EQUAL(facts.cgroup, cases[i].group);
	}
	machine_remove(&m, "proc/700/cgroup");
	CU_ASSERT_EQUAL(owners_facts_read(&m.root, PID, &facts), 0);
	CU_ASSERT_STRING_EQUAL(facts.cgroup, "");
	machine_free(&m);
}

static void devices_are_seen(void)
{
	static const struct {
		const char *target;
		bool device;
	} cases[] = {
		{ "/dev/vfio/12", true },       { "/dev/uio0", true },         { "/dev/infiniband/uverbs0", true },
		{ "anon_inode:kvm-vm", false }, { "/dev/kvm", false },         { "/srv/dev/vfio/1", false },
		{ "/dev/vfiox", false },        { "/dev/infinibandx", false },
	};

	put_process();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		link_to("fd/7", cases[i].target);
		CU_ASSERT_EQUAL(owners_facts_read(&m.root, PID, &facts), 0);
		CU_ASSERT_EQUAL(facts.device, cases[i].device);
	}
	machine_free(&m);
}

static void one_real_time_thread_is_enough(void)
{
	static const struct {
		int policy;
		bool is;
	} cases[] = { { 0, false }, { 1, true }, { 2, true }, { 3, false }, { 5, false }, { 6, true } };

	put_process();
	for (int i = 0; i < 6; i++) {
		put_thread(701, cases[i].policy);
		CU_ASSERT_EQUAL(owners_facts_read(&m.root, PID, &facts), 0);
		CU_ASSERT_EQUAL(facts.real_time, cases[i].is);
	}
	machine_free(&m);
}

static void a_group_opts_out_with_all_below(void)
{
	char path[PATH_MAX];

	put_process();
	machine_put(&m, "sys/fs/cgroup/system.slice/nginx.service/cgroup.procs", "700");
	machine_path(&m, path, "sys/fs/cgroup/system.slice");
	if (setxattr(path, "user.pghot.mode", "off", 3, 0) < 0) {
		machine_free(&m);
		return test_skip("the file system of the test's folder has no user attributes");
	}
	CU_ASSERT_EQUAL(owners_facts_read(&m.root, PID, &facts), 0);
	CU_ASSERT_TRUE(facts.cgroup_off);
	CU_ASSERT_EQUAL(setxattr(path, "user.pghot.mode", "offline", 7, 0), 0);
	CU_ASSERT_EQUAL(owners_facts_read(&m.root, PID, &facts), 0);
	CU_ASSERT_FALSE(facts.cgroup_off);
	machine_path(&m, path, "sys/fs/cgroup/system.slice/nginx.service");
	CU_ASSERT_EQUAL(setxattr(path, "user.pghot.mode", "off", 3, 0), 0);
	CU_ASSERT_EQUAL(owners_facts_read(&m.root, PID, &facts), 0);
	CU_ASSERT_TRUE(facts.cgroup_off);
	put("cgroup", "0::/system.slice/other.service");
	CU_ASSERT_EQUAL(owners_facts_read(&m.root, PID, &facts), 0);
	CU_ASSERT_FALSE(facts.cgroup_off);
	machine_free(&m);
}

static void names_of_users(void)
{
	char name[16];

	machine_new(&m);
	owners_facts_user(&m.root, 26, name, sizeof(name));
	CU_ASSERT_STRING_EQUAL(name, "");
	machine_put(&m, "etc/passwd", "%s",
		    "root:x:0:0:root:/root:/bin/sh\nbroken\n::\npostgres:x:26:26::/:/bin/sh\n"
		    "a-name-that-is-too-long:x:27:1::/:/x\nlast:x:28:1");
	owners_facts_user(&m.root, 26, name, sizeof(name));
	CU_ASSERT_STRING_EQUAL(name, "postgres");
	owners_facts_user(&m.root, 27, name, sizeof(name));
	CU_ASSERT_STRING_EQUAL(name, "");
	owners_facts_user(&m.root, 28, name, sizeof(name));
	CU_ASSERT_STRING_EQUAL(name, "last");
	machine_free(&m);
}

static const char maps[] = "1000-5000 r-xp 00000000 08:01 123                    /usr/bin/x\n"
			   "5000-6000 rw-p 00000000 08:01 123                    /usr/bin/x\n"
			   "10000-20000 rw-p 00000000 00:00 0                    [heap]\n"
			   "20000-30000 rw-p 00000000 00:00 0 \n"
			   "30000-38000 rw-p 00000000 00:00 0 \n"
			   "40000-50000 rw-s 00000000 00:01 9                    /dev/zero (deleted)\n"
			   "50000-60000 rw-s 00000000 00:01 9                    /data/my huge file\n"
			   "60000-70000 rw-p 00000000 00:01 9                    /memfd:x (deleted)\n"
			   "200000-400000 rw-p 00000000 00:0f 9                  /anon_hugepage (deleted)\n"
			   "7f0000000000-7f0000001000 rw-p 00000000 00:00 0 \n"
			   "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]";

static const char numa_maps[] = "1000 default file=/usr/bin/x mapped=4 N0=4 kernelpagesize_kB=4\n"
				"5000 default file=/usr/bin/x anon=1 N0=1\n"
				"10000 default heap anon=16 N1=16\n"
				"20000 bind:0-1 anon=16 N1=16\n"
				"30000 local anon=8 N1=8\n"
				"40000 prefer:1 file=/dev/zero\\040(deleted) N1=1\n"
				"50000 default file=/data/my\\040huge\\040file mapped=3\n"
				"60000 default file=/memfd:x\\040(deleted) mapped=3\n"
				"200000 interleave:0-1 file=/anon_hugepage\\040(deleted) huge anon=1 N1=1";

static const char smaps[] = "10000-20000 rw-p 00000000 00:00 0                    [heap]\n"
			    "Size:                 64 kB\nAnonHugePages: 0 kB\nVmFlags: rd wr mr mw me ac sd \n"
			    "30000-38000 rw-p 00000000 00:00 0 \n"
			    "Size:                 32 kB\nVmFlags: rd wr mr mw me lo ac sd \n";

static void kinds_of_memory(void)
{
	static const struct {
		uint64_t addr;
		unsigned int kinds;
	} cases[] = {
		{ 0, MEMORY_UNKNOWN },
		{ 0xfff, MEMORY_UNKNOWN },
		{ 0x1000, MEMORY_OF_FILE },
		{ 0x5fff, MEMORY_OF_FILE },
		{ 0x6000, MEMORY_UNKNOWN },
		{ 0x10000, 0 },
		{ 0x1ffff, 0 },
		{ 0x20000, MEMORY_BOUND },
		{ 0x30000, MEMORY_LOCKED },
		{ 0x38000, MEMORY_UNKNOWN },
		{ 0x40000, MEMORY_COMMON | MEMORY_BOUND },
		{ 0x50000, MEMORY_COMMON | MEMORY_OF_FILE },
		{ 0x60000, MEMORY_COMMON },
		{ 0x200000, MEMORY_HUGETLB | MEMORY_BOUND },
		{ 0x7f0000000000, MEMORY_UNKNOWN }, /* came between the two files */
		{ 0xffffffffff600000, MEMORY_UNKNOWN },
		{ UINT64_MAX, MEMORY_UNKNOWN },
	};
	struct owners_map *map;
	int r = 1;

	put_process();
	put("maps", maps);
	put("numa_maps", numa_maps);
	put("smaps", smaps);
	map = owners_map_read(&m.root, PID, true, NULL, NULL, &r);
	CU_ASSERT_PTR_NOT_NULL(map);
	CU_ASSERT_EQUAL(r, 0);
	for (size_t i = 0; map && i < sizeof(cases) / sizeof(cases[0]); i++) {
		unsigned int kinds = owners_map_find(map, cases[i].addr);

		CU_ASSERT_EQUAL(kinds, cases[i].kinds);
		if (kinds != cases[i].kinds)
			printf("  %llx: %x\n", (unsigned long long)cases[i].addr, kinds);
	}
	/* The first two are one. */
	CU_ASSERT_EQUAL(map ? owners_map_ranges(map) : 0, 10);
	CU_ASSERT_FALSE(map && owners_map_has_device(map));
	owners_map_free(map);
	/* Without locked memory nobody pays for the third file. */
	machine_remove(&m, "proc/700/smaps");
	map = owners_map_read(&m.root, PID, false, NULL, NULL, &r);
	CU_ASSERT(map && owners_map_find(map, 0x30000) == 0);
	owners_map_free(map);
	put("maps", "1000-2000 rw-s 00000000 00:05 9    /dev/infiniband/uverbs0");
	map = owners_map_read(&m.root, PID, false, NULL, NULL, &r);
	CU_ASSERT(map && owners_map_has_device(map));
	owners_map_free(map);
	machine_free(&m);
}

static bool not_further(void *ctx)
{
	return ++*(int *)ctx < 3;
}

static void maps_that_are_none(void)
{
	static const char *const lines[] = { "",
					     "1000",
					     "1000-",
					     "1000-2000",
					     "-1000-2000 rw-p",
					     "zz-yy",
					     "2000-1000 rw-p",
					     "1001-2000 rw-p",
					     "1000-2000 x\n1000-2000 x",
					     "1000-2000 \n" };
	int r = 0, asked = 0;
	struct owners_map *map;
	char *large;

	put_process();
	CU_ASSERT_PTR_NULL(owners_map_read(&m.root, PID, false, NULL, NULL, &r));
	CU_ASSERT_EQUAL(r, -ENOENT);
	CU_ASSERT_PTR_NULL(owners_map_read(&m.root, PID + 1, false, NULL, NULL, &r));
	CU_ASSERT_EQUAL(r, -ESRCH);
	put("numa_maps", "1000\nx\n\n1000 ");
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		put("maps", lines[i]);
		map = owners_map_read(&m.root, PID, false, NULL, NULL, &r);
		CU_ASSERT_PTR_NOT_NULL(map);
		CU_ASSERT(map && owners_map_ranges(map) <= 1);
		owners_map_free(map);
	}
	/* 60,000 mappings, each of another kind than its neighbours: 1 MiB of table. */
	large = malloc(60000 * 64);
	for (int pass = 0; pass < 2; pass++) {
		char *p = large;

		for (unsigned long i = 0; i < 60000; i++)
			p += pass == 0 ? sprintf(p, "%lx-%lx rw-p 00000000 00:00 0 \n", i * 8192, i * 8192 + 4096)
				       : sprintf(p, "%lx %s anon=1\n", i * 8192, i % 2 ? "default" : "bind:1");
		put(pass == 0 ? "maps" : "numa_maps", large);
	}
	map = owners_map_read(&m.root, PID, false, NULL, NULL, &r);
	CU_ASSERT(map && owners_map_ranges(map) == 60000);
	CU_ASSERT(map && owners_map_find(map, 59998 * 8192ULL) == MEMORY_BOUND);
	CU_ASSERT(map && owners_map_find(map, 59999 * 8192ULL) == 0);
	CU_ASSERT(map && owners_map_find(map, 59999 * 8192ULL + 4096) == MEMORY_UNKNOWN);
	owners_map_free(map);
	/* Told to stop on the way. */
	CU_ASSERT_PTR_NULL(owners_map_read(&m.root, PID, false, not_further, &asked, &r));
	CU_ASSERT_EQUAL(r, -ECANCELED);
	CU_ASSERT_EQUAL(asked, 3);
	free(large);
	machine_free(&m);
}

/* The running kernel writes what is read here. */
static void of_this_process(void)
{
	struct fsroot root;
	struct owners_map *map;
	unsigned long nodes = 1;
	char *plain, *bound, *common;
	int r;

	CU_ASSERT_EQUAL(fsroot_open(&root, "/"), 0);
	CU_ASSERT_EQUAL(owners_facts_read(&root, (uint32_t)getpid(), &facts), 0);
	CU_ASSERT_EQUAL(facts.uid, geteuid());
	CU_ASSERT(facts.rss_bytes > 0);
	CU_ASSERT_EQUAL(facts.exe[0], '/');
	plain = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	bound = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	common = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	plain[0] = bound[0] = common[0] = 1;
	if (syscall(SYS_mbind, bound, 16 * PAGE, 2 /* MPOL_BIND */, &nodes, 8, 0) < 0 ||
	    !fsroot_exists(&root, "proc/self/numa_maps")) {
		fsroot_close(&root);
		return test_skip("this kernel has no memory policies");
	}
	map = owners_map_read(&root, (uint32_t)getpid(), true, NULL, NULL, &r);
	CU_ASSERT_PTR_NOT_NULL(map);
	if (map) {
		CU_ASSERT_EQUAL(owners_map_find(map, (uintptr_t)plain), 0);
		CU_ASSERT_EQUAL(owners_map_find(map, (uintptr_t)bound), MEMORY_BOUND);
		CU_ASSERT_EQUAL(owners_map_find(map, (uintptr_t)common), MEMORY_COMMON);
		CU_ASSERT_EQUAL(owners_map_find(map, (uintptr_t)maps), MEMORY_OF_FILE);
		CU_ASSERT_EQUAL(owners_map_find(map, 0), MEMORY_UNKNOWN);
	}
	owners_map_free(map);
	munmap(plain, 16 * PAGE);
	munmap(bound, 16 * PAGE);
	munmap(common, 16 * PAGE);
	fsroot_close(&root);
}

TEST_MAIN(owners_facts, TEST(reads_what_there_is), TEST(the_group_that_says_most), TEST(devices_are_seen),
	  TEST(one_real_time_thread_is_enough), TEST(a_group_opts_out_with_all_below), TEST(names_of_users),
	  TEST(kinds_of_memory), TEST(maps_that_are_none), TEST(of_this_process))
