/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <sys/inotify.h>
#include <time.h>

#include "clock.h"
#include "source_rig.h"

static void found_by_name(void)
{
	CU_ASSERT_PTR_EQUAL(source_find("hint_faults"), &source_hint_faults);
	CU_ASSERT_PTR_NULL(source_find("auto"));
	CU_ASSERT_PTR_NULL(source_find(""));
	CU_ASSERT_PTR_EQUAL(source_find("ibs"), &source_ibs);
	/* What costs the programs least comes first. */
	CU_ASSERT_PTR_EQUAL(source_table[0], &source_ibs);
	CU_ASSERT_PTR_EQUAL(source_table[1], &source_hint_faults);
	CU_ASSERT_PTR_NULL(source_table[2]);
}

static void probe_of_a_kernel_without(void)
{
	struct bench b;

	bench_init(&b);
	CU_ASSERT_EQUAL(probe(&b), 0);
	CU_ASSERT_STRING_EQUAL(b.why, "");
	machine_remove(&b.machine, MODE);
	CU_ASSERT_EQUAL(probe(&b), -ENOENT);
	CU_ASSERT_TRUE(says(b.why, "CONFIG_NUMA_BALANCING", "no NUMA balancing"));
	CU_ASSERT_EQUAL(open_source(&b), -ENOENT);
	machine_put(&b.machine, MODE, "on");
	CU_ASSERT_EQUAL(probe(&b), -EINVAL);
	CU_ASSERT_TRUE(says(b.why, "cannot read", "kernel.numa_balancing:"));
	bench_done(&b);
}

static void probe_without_permission(void)
{
	struct bench b;

	bench_init(&b);
	b.kernel.refuse = -EACCES;
	CU_ASSERT_EQUAL(probe(&b), -EACCES);
	CU_ASSERT_TRUE(says(b.why, "CAP_SYS_ADMIN", "kernel.perf_event_paranoid is 3"));
	machine_put(&b.machine, PARANOID, "2");
	CU_ASSERT_EQUAL(probe(&b), -EACCES);
	CU_ASSERT_TRUE(says(b.why, "need CAP_PERFMON", "kernel.perf_event_paranoid is 2"));
	b.kernel.refuse = -EPERM;
	machine_put(&b.machine, PARANOID, "-1");
	CU_ASSERT_EQUAL(probe(&b), -EACCES);
	CU_ASSERT_TRUE(says(b.why, "need CAP_PERFMON", "is -1"));
	machine_remove(&b.machine, PARANOID);
	CU_ASSERT_EQUAL(probe(&b), -EACCES);
	CU_ASSERT_TRUE(says(b.why, "refuses", "root"));
	/* It has what it takes: then it is something else. */
	machine_put(&b.machine, PARANOID, "2");
	machine_put(&b.machine, "proc/self/status",
		    "Name:\tx\nCapPrm:\t0000004000000000\nCapEff:\t0000004000000000\nx:\t1");
	CU_ASSERT_EQUAL(probe(&b), -EACCES);
	CU_ASSERT_TRUE(says(b.why, "although pghotd has the capability", "container"));
	machine_put(&b.machine, PARANOID, "3");
	CU_ASSERT_EQUAL(probe(&b), -EACCES);
	CU_ASSERT_TRUE(says(b.why, "need CAP_SYS_ADMIN", "is 3"));
	machine_put(&b.machine, "proc/self/status", "Name:\tx\nCapEff:\t0000000000200000");
	CU_ASSERT_EQUAL(probe(&b), -EACCES);
	CU_ASSERT_TRUE(says(b.why, "although pghotd has the capability", "container"));
	/* Said at open, too: things change between the two. */
	CU_ASSERT_EQUAL(open_source(&b), -EACCES);
	CU_ASSERT_TRUE(says(b.source.why, "although", "container"));
	bench_done(&b);
}

/* mode, rate (-1: the kernel has none), managed; what probe says, and the words. */
static void probe_of_settings(void)
{
	static const struct {
		int mode, rate;
		bool managed;
		int want;
		const char *word1, *word2;
	} settings[] = {
		{ 2, 0, false, 0, "", "" },
		{ 3, 0, false, 0, "", "" },
		{ 2, 0, true, 0, "", "" },
		{ 0, 65536, true, 0, "", "" },
		{ 1, 65536, true, 0, "", "" },
		{ 0, 0, false, -EBUSY,
		  "sysctl -w kernel.numa_balancing=2 kernel.numa_balancing_promote_rate_limit_MBps=0",
		  "hint_faults = { manage_sysctls" },
		{ 0, 65536, false, -EBUSY, "kernel.numa_balancing is 0", "hint_faults = { manage_sysctls" },
		{ 1, INT32_MAX, false, 0, "sysctl -w kernel.numa_balancing=3", "the kernel promotes instead" },
		{ 2, INT32_MAX, false, 0, "sysctl -w kernel.numa_balancing_promote_rate_limit_MBps=0",
		  "the kernel promotes instead" },
		{ 2, -1, false, 0, "Linux 6.1", "the kernel promotes instead" },
		{ 2, -1, true, 0, "Linux 6.1", "the kernel promotes instead" },
		{ 0, -1, false, -EBUSY, "kernel.numa_balancing is 0", "" },
		{ 0, -1, true, -ENOENT, "Linux 6.1", "kernel.numa_balancing=2" },
	};

	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
		struct bench b;
		uint64_t rate = settings[i].rate < 0 ? UINT64_MAX : (uint64_t)settings[i].rate;

		bench_init(&b);
		machine_put(&b.machine, MODE, "%d", settings[i].mode);
		if (settings[i].rate < 0)
			machine_remove(&b.machine, RATE);
		else
			machine_put(&b.machine, RATE, "%d", settings[i].rate);
		b.config.hint_faults_manage_sysctls = settings[i].managed;
		CU_ASSERT_EQUAL(probe(&b), settings[i].want);
		CU_ASSERT_TRUE(says(b.why, settings[i].word1, settings[i].word2));
		CU_ASSERT_EQUAL(b.why[0] == '\0', settings[i].word1[0] == '\0');
		CHECK_VALUES(&b, (uint64_t)settings[i].mode, rate);
		/* Opening agrees with it. */
		CU_ASSERT_EQUAL(open_source(&b), settings[i].want);
		CU_ASSERT_TRUE(says(b.source.why, settings[i].word1, settings[i].word2));
		bench_done(&b);
	}
}

static void event_is_asked_for_as_it_must_be(void)
{
	struct bench b;

	bench_init(&b);
	CU_ASSERT_EQUAL(open_source(&b), 0);
	CU_ASSERT_STRING_EQUAL(b.source.why, "");
	CU_ASSERT_EQUAL(b.kernel.attr.type, PERF_TYPE_SOFTWARE);
	CU_ASSERT_EQUAL(b.kernel.attr.size, sizeof(b.kernel.attr));
	/* Not ..._PAGE_FAULTS, which comes before the page is there. */
	CU_ASSERT_EQUAL(b.kernel.attr.config, PERF_COUNT_SW_PAGE_FAULTS_MIN);
	CU_ASSERT_EQUAL(b.kernel.attr.sample_period, 1);
	CU_ASSERT_EQUAL(b.kernel.attr.freq, 0);
	CU_ASSERT_EQUAL(b.kernel.attr.sample_type, PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ADDR |
							   PERF_SAMPLE_CPU | PERF_SAMPLE_PHYS_ADDR |
							   PERF_SAMPLE_DATA_PAGE_SIZE);
	CU_ASSERT_EQUAL(decode_supports(b.kernel.attr.sample_type), 0);
	CU_ASSERT_EQUAL(b.kernel.attr.use_clockid, 1);
	CU_ASSERT_EQUAL(b.kernel.attr.clockid, CLOCK_MONOTONIC);
	CU_ASSERT_EQUAL(b.kernel.attr.watermark, 1);
	CU_ASSERT_EQUAL(b.kernel.attr.wakeup_watermark, 512 * 1024 / 4);
	CU_ASSERT_EQUAL(b.kernel.attr.disabled, 1);
	CU_ASSERT_EQUAL(b.kernel.attr.inherit, 0);
	CU_ASSERT_EQUAL(b.kernel.attr.sample_id_all, 1);
	CU_ASSERT_EQUAL(b.kernel.attr.exclude_kernel, 0);
	CU_ASSERT_EQUAL(b.source.n_rings, 4);
	for (size_t i = 0; i < b.source.n_rings; i++) {
		const struct source_ring *ring = &b.source.rings[i];

		CU_ASSERT_EQUAL(ring->cpu, (int)i);
		CU_ASSERT_EQUAL(b.kernel.cpu[ring->fd], ring->cpu);
		CU_ASSERT_EQUAL(perf_ring_data_bytes(ring->ring), 512 * 1024);
		CU_ASSERT_EQUAL(ring->sample_type, b.kernel.attr.sample_type);
		CU_ASSERT_TRUE(ring->sample_id_all);
		CU_ASSERT_EQUAL(ring->source, SAMPLE_SOURCE_HINT_FAULTS);
		CU_ASSERT_EQUAL(ring->sample_flags, SAMPLE_MAYBE_FIRST_TOUCH);
	}
	CU_ASSERT_EQUAL(b.kernel.enables, 0);
	CU_ASSERT_EQUAL(source_hint_faults.set_period(&b.source, 1000), -ENOTSUP);
	bench_done(&b);
}

/* In which order the two files were written since the watch began: "r" for the rate, "m" for the mode. */
static void written(int watch, char *ret, size_t size)
{
	_Alignas(struct inotify_event) char buf[4096];
	ssize_t n = read(watch, buf, sizeof(buf));
	size_t len = 0;

	for (ssize_t at = 0; at < n;) {
		const struct inotify_event *event = (const struct inotify_event *)(void *)(buf + at);

		if (len + 1 < size)
			ret[len++] = strstr(event->name, "rate") ? 'r' : 'm';
		at += (ssize_t)(sizeof(*event) + event->len);
	}
	ret[len] = '\0';
}

static int watch_settings(const struct bench *b)
{
	char path[PATH_MAX];
	int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);

	machine_path(&b->machine, path, "proc/sys/kernel");
	CU_ASSERT(inotify_add_watch(fd, path, IN_CLOSE_WRITE) >= 0);
	return fd;
}

static void managed_settings(int mode, int rate, int want_mode, const char *want_order, const char *want_back)
{
	struct bench b;
	char order[16];
	int watch;

	bench_init(&b);
	machine_put(&b.machine, MODE, "%d", mode);
	machine_put(&b.machine, RATE, "%d", rate);
	b.config.hint_faults_manage_sysctls = true;
	watch = watch_settings(&b);
	CU_ASSERT_EQUAL(open_source(&b), 0);
	CU_ASSERT_STRING_EQUAL(b.source.why, "");
	CHECK_VALUES(&b, (uint64_t)want_mode, 0);
	/* The kernel must not promote in between. */
	written(watch, order, sizeof(order));
	CU_ASSERT_STRING_EQUAL(order, want_order);
	CU_ASSERT_EQUAL(source_hint_faults.check(&b.source), 0);
	CU_ASSERT_EQUAL(access(b.saved, F_OK) == 0, want_order[0] != '\0');
	source_hint_faults.close(&b.source);
	CHECK_VALUES(&b, (uint64_t)mode, (uint64_t)rate);
	written(watch, order, sizeof(order));
	CU_ASSERT_STRING_EQUAL(order, want_back);
	CU_ASSERT_NOT_EQUAL(access(b.saved, F_OK), 0);
	close(watch);
	bench_done(&b);
}

static void managed_settings_are_set_and_put_back(void)
{
	managed_settings(0, 65536, 2, "rm", "mr");
	/* What someone had on stays on. */
	managed_settings(1, 65536, 3, "rm", "mr");
	managed_settings(2, 65536, 2, "r", "r");
	managed_settings(3, 65536, 3, "r", "r");
	managed_settings(0, 0, 2, "m", "m");
	managed_settings(2, 0, 2, "", "");
	managed_settings(3, 0, 3, "", "");
}

static void unmanaged_settings_are_left_alone(void)
{
	struct bench b;
	char order[16];
	int watch;

	bench_init(&b);
	machine_put(&b.machine, MODE, "1");
	machine_put(&b.machine, RATE, "100");
	watch = watch_settings(&b);
	CU_ASSERT_EQUAL(open_source(&b), 0);
	CU_ASSERT_EQUAL(source_hint_faults.check(&b.source), 1);
	source_hint_faults.close(&b.source);
	written(watch, order, sizeof(order));
	CU_ASSERT_STRING_EQUAL(order, "");
	CHECK_VALUES(&b, 1, 100);
	close(watch);
	bench_done(&b);
}

/* Also when the option is switched off while it runs: what was set is put back. */
static void put_back_after_the_option_changed(void)
{
	struct bench b;

	bench_init(&b);
	machine_put(&b.machine, MODE, "0");
	b.config.hint_faults_manage_sysctls = true;
	CU_ASSERT_EQUAL(open_source(&b), 0);
	b.config.hint_faults_manage_sysctls = false;
	source_hint_faults.close(&b.source);
	CHECK_VALUES(&b, 0, 0);
	bench_done(&b);
}

static void settings_that_cannot_be_saved(void)
{
	struct bench b;

	bench_init(&b);
	machine_put(&b.machine, MODE, "0");
	b.config.hint_faults_manage_sysctls = true;
	machine_path(&b.machine, b.saved, "no/such/folder/saved");
	CU_ASSERT_EQUAL(open_source(&b), -ENOENT);
	CU_ASSERT_TRUE(says(b.source.why, "cannot set kernel.numa_balancing to 2", b.machine.dir));
	CHECK_VALUES(&b, 0, 0);
	bench_done(&b);
}

/* The first is set, the second refused: the first goes back. A sysctl that nobody may write stands for it. */
static void half_set_settings_are_put_back(void)
{
	struct bench b;

	bench_init(&b);
	machine_remove(&b.machine, MODE);
	machine_link(&b.machine, MODE, "/proc/sys/kernel/ngroups_max");
	machine_put(&b.machine, RATE, "65536");
	b.config.hint_faults_manage_sysctls = true;
	if (value_of(&b, SETTING_NUMA_BALANCING) != 65536) {
		bench_done(&b);
		test_skip("no /proc/sys/kernel/ngroups_max of 65536");
		return;
	}
	CU_ASSERT_EQUAL(open_source(&b), -EACCES);
	CU_ASSERT_TRUE(says(b.source.why, "cannot set kernel.numa_balancing to 65538", "uid 0"));
	CHECK_VALUES(&b, 65536, 65536);
	CU_ASSERT_NOT_EQUAL(access(b.saved, F_OK), 0);
	bench_done(&b);
}

static int check_with(struct bench *b, int mode, int rate)
{
	int r;

	machine_put(&b->machine, MODE, "%d", mode);
	machine_put(&b->machine, RATE, "%d", rate);
	r = source_hint_faults.check(&b->source);
	CU_ASSERT(strlen(b->source.why) < SOURCE_WHY_MAX - 1);
	CU_ASSERT_EQUAL(r == 0, b->source.why[0] == '\0');
	/* Whoever changed it meant it. */
	CHECK_VALUES(b, (uint64_t)mode, (uint64_t)rate);
	return r;
}

static void check_sees_what_others_change(void)
{
	struct bench b;

	bench_init(&b);
	CU_ASSERT_EQUAL(open_source(&b), 0);
	CU_ASSERT_EQUAL(check_with(&b, 2, 0), 0);
	CU_ASSERT_EQUAL(check_with(&b, 0, 0), 1);
	CU_ASSERT_TRUE(says(b.source.why, "no hint faults", "sysctl -w kernel.numa_balancing=2"));
	CU_ASSERT_EQUAL(check_with(&b, 1, 0), 1);
	CU_ASSERT_TRUE(says(b.source.why, "the kernel promotes instead", "kernel.numa_balancing is 1"));
	CU_ASSERT_EQUAL(check_with(&b, 2, 65536), 1);
	CU_ASSERT_TRUE(says(b.source.why, "the kernel promotes instead", "is 65536"));
	CU_ASSERT_EQUAL(check_with(&b, 3, 0), 0);
	machine_remove(&b.machine, RATE);
	CU_ASSERT_EQUAL(source_hint_faults.check(&b.source), 1);
	machine_remove(&b.machine, MODE);
	CU_ASSERT_EQUAL(source_hint_faults.check(&b.source), 1);
	CU_ASSERT_EQUAL(check_with(&b, 2, 0), 0);
	bench_done(&b);
}

static void check_does_not_fight(void)
{
	struct bench b;

	bench_init(&b);
	machine_put(&b.machine, MODE, "0");
	machine_put(&b.machine, RATE, "65536");
	b.config.hint_faults_manage_sysctls = true;
	CU_ASSERT_EQUAL(open_source(&b), 0);
	CU_ASSERT_EQUAL(check_with(&b, 2, 0), 0);
	CU_ASSERT_EQUAL(check_with(&b, 0, 0), 1);
	CU_ASSERT_TRUE(says(b.source.why, "someone has set kernel.numa_balancing to 0", "no hint faults"));
	CU_ASSERT_EQUAL(check_with(&b, 1, INT32_MAX), 1);
	CU_ASSERT_TRUE(says(b.source.why, "someone has set kernel.numa_balancing to 1 and", "promotes instead"));
	CU_ASSERT_TRUE(says(b.source.why, "to 2147483647", "set them to 3 and 0"));
	CU_ASSERT_EQUAL(check_with(&b, 2, INT32_MAX), 1);
	CU_ASSERT_TRUE(says(b.source.why, "promote_rate_limit_MBps to 2147483647", "promotes instead"));
	/* Theirs stays, also at the end. */
	source_hint_faults.close(&b.source);
	CHECK_VALUES(&b, 0, INT32_MAX);
	bench_done(&b);
}

#define TOUCHED_PAGES 64

/* Samples of faults in [@base, @base + TOUCHED_PAGES) that are as they should be; @lost: the kernel had no room for
 * some. */
static int count_real(const struct source *source, const char *base, uint64_t from_ns, uint64_t to_ns, bool *lost)
{
	const struct perf_event_header *header;
	struct decode_sample sample;
	int n = 0;

	for (size_t i = 0; i < source->n_rings; i++) {
		const struct source_ring *ring = &source->rings[i];

		perf_ring_begin(ring->ring);
		while ((header = perf_ring_next(ring->ring, NULL))) {
			uint64_t offset;

			*lost |= header->type == PERF_RECORD_LOST;
			if (header->type != PERF_RECORD_SAMPLE)
				continue;
			CU_ASSERT_EQUAL(decode_sample(ring->sample_type, header, &sample), 0);
			offset = sample.addr - (uint64_t)(uintptr_t)base;
			if (sample.pid != (uint32_t)getpid() || offset >= TOUCHED_PAGES * 4096)
				continue;
			CU_ASSERT_EQUAL((int)sample.cpu, ring->cpu);
			CU_ASSERT(sample.time_ns >= from_ns && sample.time_ns <= to_ns);
			CU_ASSERT_NOT_EQUAL(sample.phys_addr, 0);
			CU_ASSERT_EQUAL(sample.phys_addr % 4096, offset % 4096);
			CU_ASSERT_EQUAL(sample.data_page_bytes, 4096);
			n++;
		}
		perf_ring_end(ring->ring);
	}
	return n;
}

/* The running kernel's events, on CPUs as they are here, but with settings of a made-up machine. */
static void real_faults(void)
{
	struct bench b;
	struct fsroot real;
	char online[4096], paranoid[32], *base;
	uint64_t from_ns;
	bool lost = false;
	int r;

	bench_init(&b);
	CU_ASSERT_EQUAL(fsroot_open(&real, "/"), 0);
	r = fsroot_read(&real, online, sizeof(online), "sys/devices/system/cpu/online");
	/* For the reason why it is skipped. */
	if (fsroot_read(&real, paranoid, sizeof(paranoid), PARANOID) >= 0)
		machine_put(&b.machine, PARANOID, "%s", paranoid);
	fsroot_close(&real);
	if (r < 0) {
		bench_done(&b);
		test_skip("/sys doesn't say which CPUs there are");
		return;
	}
	machine_put(&b.machine, "sys/devices/system/cpu/online", "%s", online);
	machine_put(&b.machine, "sys/devices/system/cpu/possible", "%s", online);
	b.priv.ops = &privops_direct;
	b.config.threads_ring_kib = 4096;
	if (source_hint_faults.probe(&b.source.env, b.why) < 0 || source_hint_faults.open(&b.source) < 0) {
		static char reason[SOURCE_WHY_MAX];

		snprintf(reason, sizeof(reason), "%s", b.why[0] ? b.why : b.source.why);
		bench_done(&b);
		test_skip(reason);
		return;
	}
	base = mmap(NULL, TOUCHED_PAGES * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CU_ASSERT_PTR_NOT_EQUAL(base, MAP_FAILED);
	madvise(base, TOUCHED_PAGES * 4096, MADV_NOHUGEPAGE);
	/* Nothing before it is on. */
	base[0] = 1;
	CU_ASSERT_EQUAL(count_real(&b.source, base, 0, UINT64_MAX, &lost), 0);
	from_ns = clock_now_ns(&clock_monotonic);
	CU_ASSERT_EQUAL(source_hint_faults.enable(&b.source, true), 0);
	for (int i = 0; i < TOUCHED_PAGES; i++)
		base[i * 4096 + i] = 1;
	CU_ASSERT_EQUAL(source_hint_faults.enable(&b.source, false), 0);
	r = count_real(&b.source, base, from_ns, clock_now_ns(&clock_monotonic), &lost);
	/* Others fault at the same time; on a busy machine with little memory for rings that can be too much. */
	CU_ASSERT_TRUE(lost ? r < TOUCHED_PAGES : r == TOUCHED_PAGES - 1);
	munmap(base, TOUCHED_PAGES * 4096);
	bench_done(&b);
}

TEST_MAIN(source_hint_faults, TEST(found_by_name), TEST(probe_of_a_kernel_without), TEST(probe_without_permission),
	  TEST(probe_of_settings), TEST(event_is_asked_for_as_it_must_be), TEST(managed_settings_are_set_and_put_back),
	  TEST(unmanaged_settings_are_left_alone), TEST(put_back_after_the_option_changed),
	  TEST(settings_that_cannot_be_saved), TEST(half_set_settings_are_put_back),
	  TEST(check_sees_what_others_change), TEST(check_does_not_fight), TEST(real_faults))
