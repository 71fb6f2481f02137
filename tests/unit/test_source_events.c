/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <sys/resource.h>

#include "refused_calloc.h"
#include "source_rig.h"

static void probe_of_other_refusals(void)
{
	static const struct {
		int error, want;
		const char *word;
	} refusals[] = {
		{ -ENOSYS, -ENOENT, "CONFIG_PERF_EVENTS" },
		{ -EINVAL, -ENOENT, "5.11" },
		{ -E2BIG, -ENOENT, "5.11" },
		{ -ENOENT, -ENOENT, "no such perf event" },
		{ -EOPNOTSUPP, -ENOENT, "no such" },
		{ -EMFILE, -EMFILE, "LimitNOFILE" },
		{ -EIO, -EIO, "on CPU 0: Input" },
		{ -ENODEV, -ENODEV, "offline" },
	};
	struct bench b;

	for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
		bench_init(&b);
		b.kernel.refuse = refusals[i].error;
		if (refusals[i].error == -ENODEV)
			strcpy(b.config.sampling_cpus, "0-1"); /* both of the two opens that a probe may make */
		CU_ASSERT_EQUAL(probe(&b), refusals[i].want);
		CU_ASSERT_TRUE(says(b.why, refusals[i].word, ""));
		CU_ASSERT_EQUAL(open_source(&b), refusals[i].want);
		CU_ASSERT_TRUE(says(b.source.why, refusals[i].word, ""));
		bench_done(&b);
	}
}

/* Which CPUs are opened: by option and by what the machine says, NULL being no such file. */
static void check_cpus(const char *option, const char *isolated, const char *nohz_full, const char *want)
{
	struct bench b;
	char got[256] = "";

	bench_init(&b);
	snprintf(b.config.sampling_cpus, sizeof(b.config.sampling_cpus), "%s", option);
	machine_remove(&b.machine, "sys/devices/system/cpu/isolated");
	if (isolated)
		machine_put(&b.machine, "sys/devices/system/cpu/isolated", "%s", isolated);
	if (nohz_full)
		machine_put(&b.machine, "sys/devices/system/cpu/nohz_full", "%s", nohz_full);
	if (open_source(&b) < 0)
		snprintf(got, sizeof(got), "%.200s", b.source.why);
	for (size_t i = 0; i < b.source.n_rings; i++)
		snprintf(got + strlen(got), sizeof(got) - strlen(got), "%d ", b.source.rings[i].cpu);
	CU_ASSERT_TRUE(says(got, want, ""));
	CU_ASSERT_TRUE(want[0] < '0' || want[0] > '9' || strcmp(got, want) == 0);
	bench_done(&b);
}

static void which_cpus(void)
{
	check_cpus("all", "", NULL, "0 1 2 3 ");
	check_cpus("all", NULL, NULL, "0 1 2 3 ");
	check_cpus("all", "2-3", NULL, "0 1 ");
	check_cpus("all", "", "1,3", "0 2 ");
	check_cpus("all", "1", "3", "0 2 ");
	check_cpus("all", "", "  (null)", "0 1 2 3 ");
	check_cpus("all", "0-7", NULL, "no CPU that is online");
	check_cpus("all", "0-", NULL, "/sys/devices/system/cpu");
	/* Asked for by name, also what is set apart. */
	check_cpus("1-2", "2-3", "1", "1 2 ");
	/* 4 may come, 100 never will. */
	check_cpus("3-4", NULL, NULL, "3 ");
	check_cpus("0,100", NULL, NULL, "0 ");
	check_cpus("5-7", NULL, NULL, "no CPU that is online");
	check_cpus("", NULL, NULL, "is no list of CPUs");
	check_cpus("some", NULL, NULL, "is no list of CPUs");
	check_cpus("3-1", NULL, NULL, "is no list of CPUs");
	check_cpus("0-9999", NULL, NULL, "is no list of CPUs");
}

static void offline_since_is_skipped(void)
{
	struct bench b;

	bench_init(&b);
	b.kernel.refuse = -ENODEV;
	b.kernel.refuse_cpu = 1;
	CU_ASSERT_EQUAL(open_source(&b), 0);
	CU_ASSERT_EQUAL(b.source.n_rings, 3);
	CU_ASSERT_EQUAL(b.source.rings[1].cpu, 2);
	bench_done(&b);

	bench_init(&b);
	b.kernel.refuse = -ENODEV;
	b.kernel.refuse_cpu = 0;
	CU_ASSERT_EQUAL(probe(&b), 0);
	bench_done(&b);
}

/* Whatever goes wrong half way: nothing stays open, nothing is set. */
static void open_is_all_or_nothing(void)
{
	struct bench b;

	bench_init(&b);
	machine_put(&b.machine, MODE, "0");
	machine_put(&b.machine, RATE, "65536");
	b.config.hint_faults_manage_sysctls = true;
	b.kernel.refuse = -EIO;
	b.kernel.refuse_cpu = 3;
	CU_ASSERT_EQUAL(open_source(&b), -EIO);
	CU_ASSERT_TRUE(says(b.source.why, "CPU 3", "Input"));
	CU_ASSERT_EQUAL(b.kernel.opens, 4);
	CHECK_VALUES(&b, 0, 65536);
	source_hint_faults.close(&b.source);
	source_hint_faults.close(&b.source);
	/* And then it works. */
	b.kernel.refuse = 0;
	CU_ASSERT_EQUAL(open_source(&b), 0);
	CHECK_VALUES(&b, 2, 0);
	bench_done(&b);
}

static void ring_sizes(void)
{
	static const struct {
		int64_t kib;
		size_t bytes;
	} sizes[] = { { 512, 524288 }, { 500, 262144 }, { 8, 8192 }, { 65536, 67108864 }, { 9, 8192 } };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct bench b;

		bench_init(&b);
		b.config.threads_ring_kib = sizes[i].kib;
		CU_ASSERT_EQUAL(open_source(&b), 0);
		CU_ASSERT_EQUAL(perf_ring_data_bytes(b.source.rings[0].ring), sizes[i].bytes);
		CU_ASSERT_EQUAL(b.kernel.attr.wakeup_watermark, sizes[i].bytes / 4);
		bench_done(&b);
	}
}

/* The limit lets some CPUs have the large ring, not all: then all have the same smaller one. */
static void memory_limit_halves_all_rings(void)
{
	struct bench b;

	bench_init(&b);
	b.kernel.memory_max = 3 * 128 * 1024 + 100000;
	CU_ASSERT_EQUAL(open_source(&b), 0);
	CU_ASSERT_EQUAL(b.source.n_rings, 4);
	for (size_t i = 0; i < b.source.n_rings; i++)
		CU_ASSERT_EQUAL(perf_ring_data_bytes(b.source.rings[i].ring), 64 * 1024);
	CU_ASSERT_EQUAL(b.kernel.attr.wakeup_watermark, 16 * 1024);
	CU_ASSERT_TRUE(says(b.source.why, "64 KiB instead of threads.ring_kib = 512", "RLIMIT_MEMLOCK"));
	CU_ASSERT_TRUE(says(b.source.why, "kernel.perf_event_mlock_kb (516", "CAP_IPC_LOCK"));
	/* A remark, not a fault: and it is still there later on. */
	CU_ASSERT_EQUAL(source_hint_faults.check(&b.source), 0);
	CU_ASSERT_TRUE(says(b.source.why, "64 KiB", "each CPU"));
	bench_done(&b);
}

static void memory_limit_below_a_page(void)
{
	struct bench b;

	bench_init(&b);
	b.config.threads_ring_kib = 65536;
	b.kernel.ring_max = 4096;
	CU_ASSERT_EQUAL(open_source(&b), 0);
	CU_ASSERT_EQUAL(perf_ring_data_bytes(b.source.rings[3].ring), 4096);
	CU_ASSERT_TRUE(says(b.source.why, "has 4 KiB", "65536"));
	bench_done(&b);

	bench_init(&b);
	b.kernel.ring_max = 1;
	CU_ASSERT_EQUAL(open_source(&b), -EPERM);
	CU_ASSERT_TRUE(says(b.source.why, "not even a ring of one page", "perf_event_mlock_kb (516"));
	bench_done(&b);
}

static void descriptors_run_out(void)
{
	struct rlimit before, lower, after;
	struct bench b;

	bench_init(&b);
	CU_ASSERT_EQUAL(getrlimit(RLIMIT_NOFILE, &before), 0);
	lower = before;
	lower.rlim_cur = before.rlim_max > 256 ? 256 : before.rlim_max - 1;
	CU_ASSERT_EQUAL(setrlimit(RLIMIT_NOFILE, &lower), 0);
	/* Once: the limit is raised as far as we may, and it goes on. */
	b.kernel.emfile = 1;
	CU_ASSERT_EQUAL(open_source(&b), 0);
	CU_ASSERT_EQUAL(b.source.n_rings, 4);
	CU_ASSERT_EQUAL(getrlimit(RLIMIT_NOFILE, &after), 0);
	CU_ASSERT_EQUAL(after.rlim_cur, before.rlim_max);
	source_hint_faults.close(&b.source);
	/* For good: said, with the number. */
	b.kernel.emfile = 1000;
	CU_ASSERT_EQUAL(open_source(&b), -EMFILE);
	CU_ASSERT_TRUE(says(b.source.why, "LimitNOFILE", "the limit is"));
	setrlimit(RLIMIT_NOFILE, &before);
	bench_done(&b);
}

static void all_events_are_switched(void)
{
	struct bench b;

	bench_init(&b);
	CU_ASSERT_EQUAL(open_source(&b), 0);
	CU_ASSERT_EQUAL(source_hint_faults.enable(&b.source, true), 0);
	for (size_t i = 0; i < 4; i++)
		CU_ASSERT_EQUAL(b.kernel.on[b.source.rings[i].fd], 1);
	CU_ASSERT_EQUAL(source_hint_faults.enable(&b.source, false), 0);
	for (size_t i = 0; i < 4; i++)
		CU_ASSERT_EQUAL(b.kernel.on[b.source.rings[i].fd], 0);
	/* One fails: told, but the others are done. */
	b.kernel.fail_enable_fd = b.source.rings[1].fd;
	CU_ASSERT_EQUAL(source_hint_faults.enable(&b.source, true), -EIO);
	CU_ASSERT_EQUAL(b.kernel.on[b.source.rings[3].fd], 1);
	b.kernel.enables = 0;
	source_hint_faults.close(&b.source);
	CU_ASSERT_EQUAL(b.kernel.enables, 4);
	bench_done(&b);
}

static void cpus_come_and_go(void)
{
	struct source_ring *ring = NULL, *first;
	struct bench b;

	bench_init(&b);
	machine_put(&b.machine, "sys/devices/system/cpu/isolated", "6");
	CU_ASSERT_EQUAL(open_source(&b), 0);
	first = b.source.rings;
	CU_ASSERT_EQUAL(source_hint_faults.cpu_online(&b.source, 2, &ring), -EEXIST);
	CU_ASSERT_EQUAL(source_hint_faults.cpu_online(&b.source, 6, &ring), -ENOENT); /* isolated */
	CU_ASSERT_EQUAL(source_hint_faults.cpu_online(&b.source, 8, &ring), -ENOENT);
	CU_ASSERT_EQUAL(source_hint_faults.cpu_online(&b.source, -1, &ring), -ENOENT);
	CU_ASSERT_EQUAL(source_hint_faults.cpu_online(&b.source, 1 << 20, &ring), -ENOENT);
	CU_ASSERT_PTR_NULL(ring);
	/* Before the others are on: off. */
	CU_ASSERT_EQUAL(source_hint_faults.cpu_online(&b.source, 5, &ring), 0);
	CU_ASSERT_PTR_EQUAL(ring, &b.source.rings[4]);
	CU_ASSERT_EQUAL(ring->cpu, 5);
	CU_ASSERT_EQUAL(b.kernel.on[ring->fd], 0);
	CU_ASSERT_EQUAL(source_hint_faults.enable(&b.source, true), 0);
	/* And afterwards on. */
	CU_ASSERT_EQUAL(source_hint_faults.cpu_online(&b.source, 4, &ring), 0);
	CU_ASSERT_EQUAL(b.kernel.on[ring->fd], 1);
	CU_ASSERT_EQUAL(b.source.n_rings, 6);
	CU_ASSERT_PTR_EQUAL(b.source.rings, first);
	source_hint_faults.cpu_offline(&b.source, 2);
	source_hint_faults.cpu_offline(&b.source, 2);
	source_hint_faults.cpu_offline(&b.source, 7);
	CU_ASSERT_EQUAL(b.source.n_rings, 6);
	CU_ASSERT_EQUAL(b.source.rings[2].fd, -1);
	CU_ASSERT_PTR_NULL(b.source.rings[2].ring);
	CU_ASSERT_EQUAL(b.source.rings[2].cpu, 2);
	/* Switching goes past it. */
	b.kernel.enables = 0;
	CU_ASSERT_EQUAL(source_hint_faults.enable(&b.source, true), 0);
	CU_ASSERT_EQUAL(b.kernel.enables, 5);
	/* Gone again before it was opened. */
	b.kernel.refuse = -ENODEV;
	CU_ASSERT_EQUAL(source_hint_faults.cpu_online(&b.source, 2, &ring), -ENODEV);
	b.kernel.refuse = 0;
	CU_ASSERT_EQUAL(source_hint_faults.cpu_online(&b.source, 2, &ring), 0);
	CU_ASSERT_PTR_EQUAL(ring, &b.source.rings[2]);
	CU_ASSERT_EQUAL(b.source.n_rings, 6);
	/* All that can come: the array was made for them. */
	CU_ASSERT_EQUAL(source_hint_faults.cpu_online(&b.source, 7, &ring), 0);
	CU_ASSERT_EQUAL(b.source.n_rings, 7);
	CU_ASSERT_PTR_EQUAL(b.source.rings, first);
	bench_done(&b);
}

/* Named, but the machine has no place for it. */
static void cpu_that_cannot_be(void)
{
	struct source_ring *ring = NULL;
	struct bench b;

	bench_init(&b);
	strcpy(b.config.sampling_cpus, "0-1,5,100");
	CU_ASSERT_EQUAL(open_source(&b), 0);
	CU_ASSERT_EQUAL(source_hint_faults.cpu_online(&b.source, 100, &ring), -ENOENT);
	CU_ASSERT_EQUAL(source_hint_faults.cpu_online(&b.source, 2, &ring), -ENOENT);
	CU_ASSERT_EQUAL(source_hint_faults.cpu_online(&b.source, 5, &ring), 0);
	CU_ASSERT_EQUAL(b.source.n_rings, 3);
	bench_done(&b);
}

static void cpu_that_came_late_gets_what_is_left(void)
{
	struct source_ring *ring;
	struct bench b;

	bench_init(&b);
	CU_ASSERT_EQUAL(open_source(&b), 0);
	b.kernel.ring_max = 8192;
	CU_ASSERT_EQUAL(source_hint_faults.cpu_online(&b.source, 5, &ring), 0);
	CU_ASSERT_EQUAL(perf_ring_data_bytes(ring->ring), 8192);
	CU_ASSERT_EQUAL(source_hint_faults.check(&b.source), 0);
	CU_ASSERT_TRUE(says(b.source.why, "ring of CPU 5 has 8 KiB", "RLIMIT_MEMLOCK"));
	b.kernel.ring_max = 0;
	CU_ASSERT_EQUAL(source_hint_faults.cpu_online(&b.source, 6, &ring), 0);
	CU_ASSERT_EQUAL(perf_ring_data_bytes(ring->ring), 512 * 1024);
	b.kernel.ring_max = 1;
	CU_ASSERT_EQUAL(source_hint_faults.cpu_online(&b.source, 7, &ring), -EPERM);
	CU_ASSERT_EQUAL(b.source.n_rings, 6);
	/* It opens, but can't be switched on. */
	b.kernel.ring_max = 0;
	source_hint_faults.enable(&b.source, true);
	b.fds = count_fds();
	b.kernel.fail_enable_fd = open("/dev/null", O_RDONLY | O_CLOEXEC); /* the next lowest */
	close(b.kernel.fail_enable_fd);
	CU_ASSERT_EQUAL(source_hint_faults.cpu_online(&b.source, 7, &ring), -EIO);
	CU_ASSERT_EQUAL(count_fds(), b.fds);
	source_hint_faults.close(&b.source);
	b.fds = count_fds();
	bench_done(&b);
}

/* Each allocation in turn fails: an error or a smaller ring, and nothing is left open. */
static void no_memory(void)
{
#ifdef SANITIZED
	test_skip("the sanitizer has its own allocator");
#else
	struct bench b;
	int r = -1, failures = 0;

	if (test_under_valgrind()) {
		test_skip("valgrind has its own allocator");
		return;
	}
	bench_init(&b);
	for (int n = 0; n < 50; n++) {
		allocations_left = n;
		r = source_hint_faults.open(&b.source);
		if (allocations_left >= 0)
			break; /* it needs no more than that */
		CU_ASSERT_TRUE(r == -ENOMEM || r == 0);
		CU_ASSERT_TRUE(r == 0 || says(b.source.why, "memory", ""));
		failures += r < 0;
		source_hint_faults.close(&b.source);
		CU_ASSERT_EQUAL(count_fds(), b.fds);
	}
	allocations_left = -1;
	CU_ASSERT_EQUAL(r, 0);
	CU_ASSERT(failures >= 3);
	bench_done(&b);
#endif
}

TEST_MAIN(source_events, TEST(probe_of_other_refusals), TEST(which_cpus), TEST(offline_since_is_skipped),
	  TEST(open_is_all_or_nothing), TEST(ring_sizes), TEST(memory_limit_halves_all_rings),
	  TEST(memory_limit_below_a_page), TEST(descriptors_run_out), TEST(all_events_are_switched),
	  TEST(cpus_come_and_go), TEST(cpu_that_cannot_be), TEST(cpu_that_came_late_gets_what_is_left), TEST(no_memory))
