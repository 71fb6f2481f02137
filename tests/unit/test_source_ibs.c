/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The IBS source on machines of several generations and kernels that refuse, share and take away. */
#include "ibs_records.h"
#include "source_counts.h"
#include "source_ibs_attr.h"
#include "source_rig.h"

#define OP "sys/bus/event_source/devices/ibs_op/"

enum { HAS_CNT_CTL = 1, HAS_MISSES = 2, HAS_SWFILT = 4, HAS_LATENCY = 8, HAS_PAGE_SIZE = 16 };
#define ZEN4 (HAS_CNT_CTL | HAS_MISSES | HAS_SWFILT)
#define ZEN5 (ZEN4 | HAS_LATENCY | HAS_PAGE_SIZE)

static void ibs_init(struct bench *b, int has)
{
	bench_init(b);
	b->source.ops = &source_ibs;
	machine_put(&b->machine, PARANOID, "1");
	machine_put(&b->machine, OP "type", "11");
	if (has & HAS_CNT_CTL)
		machine_put(&b->machine, OP "format/cnt_ctl", "config:19");
	if (has & HAS_MISSES) {
		machine_put(&b->machine, OP "format/l3missonly", "config:16");
		machine_put(&b->machine, OP "caps/zen4_ibs_extensions", "1");
	}
	if (has & HAS_SWFILT)
		machine_put(&b->machine, OP "format/swfilt", "config2:0");
	if (has & HAS_LATENCY)
		machine_put(&b->machine, OP "format/ldlat", "config1:0-11");
	if (has & HAS_PAGE_SIZE)
		machine_put(&b->machine, OP "caps/dtlb_pgsize", "1");
	b->config.ibs_l3_miss_only = true;
	b->config.ibs_user_only = true;
	b->config.ibs_latency_threshold = 256;
}

static int old_kernel_lost(const struct perf_event_attr *attr)
{
	return attr->read_format & PERF_FORMAT_LOST ? -EINVAL : 0;
}

static int no_page_size(const struct perf_event_attr *attr)
{
	return attr->sample_type & PERF_SAMPLE_DATA_PAGE_SIZE ? -EINVAL : 0;
}

static int no_latency(const struct perf_event_attr *attr)
{
	return attr->config1 ? -EINVAL : 0;
}

static int no_exclude(const struct perf_event_attr *attr)
{
	return attr->exclude_kernel || attr->config2 ? -EINVAL : 0;
}

static int no_misses(const struct perf_event_attr *attr)
{
	return attr->config >> 16 & 1 ? -EINVAL : 0;
}

static int short_periods(const struct perf_event_attr *attr)
{
	return attr->sample_period > 0xffff0 ? -EINVAL : 0;
}

static int profiler_periods(const struct perf_event_attr *attr)
{
	return attr->sample_period < 5008 ? -EINVAL : 0;
}

/* Linux 5.4, say: neither of three. */
static int very_old(const struct perf_event_attr *attr)
{
	return old_kernel_lost(attr) || no_page_size(attr) || no_exclude(attr) ? -EINVAL : 0;
}

static int nothing_at_all(const struct perf_event_attr *attr)
{
	(void)attr;
	return -EINVAL;
}

/* What a kernel refuses, what is then without it, and what is said. */
static const struct {
	const char *name;
	int has;
	int (*judge)(const struct perf_event_attr *attr);
	int64_t period;
	int want;
	const char *word1, *word2;
} refusals[] = {
	{ "nothing", ZEN5, NULL, 0, 0, "", "" },
	{ "PERF_FORMAT_LOST", ZEN5, old_kernel_lost, 0, 0, "", "" },
	{ "PERF_SAMPLE_DATA_PAGE_SIZE", ZEN4, no_page_size, 0, 0, "", "" },
	{ "the latency filter", ZEN5, no_latency, 0, 0, "by latency here", "refuses" },
	{ "exclude_kernel", ZEN5, no_exclude, 0, 0, "", "" },
	{ "the L3-miss filter", ZEN5, no_misses, 0, 0, "hits a cache here", "refuses" },
	{ "periods over 20 bits", ZEN5, short_periods, 2000000, 0, "2000000", "1048560 is taken" },
	{ "periods below the profiler's", ZEN5, profiler_periods, 144, 0, "144", "5008 is taken" },
	{ "several", ZEN4, very_old, 0, 0, "", "" },
	{ "everything", ZEN5, nothing_at_all, 0, -ENOENT, "5.11", "" },
	/* What sysfs doesn't show isn't asked for. */
	{ "no field at all", 0, NULL, 0, 0, "count ops", "hits a cache" },
	{ "no L3-miss filter", HAS_CNT_CTL | HAS_SWFILT, NULL, 0, 0, "Zen 4 can", "" },
	{ "no latency filter", ZEN4, NULL, 0, 0, "Zen 5 with Linux 6.15", "" },
};

static void what_kernels_refuse(void)
{
	for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
		struct bench b;
		int r;

		ibs_init(&b, refusals[i].has);
		b.kernel.judge = refusals[i].judge;
		b.config.ibs_period = refusals[i].period;
		r = probe(&b);
		if (r != refusals[i].want)
			printf("  %s: %d, %s\n", refusals[i].name, r, b.why);
		CU_ASSERT_EQUAL(r, refusals[i].want);
		CU_ASSERT_TRUE(says(b.why, refusals[i].word1, refusals[i].word2));
		CU_ASSERT_EQUAL(open_source(&b), refusals[i].want);
		CU_ASSERT_TRUE(says(b.source.why, refusals[i].word1, refusals[i].word2));
		if (refusals[i].want == 0) {
			const struct perf_event_attr *attr = &b.kernel.attr;

			CU_ASSERT_EQUAL(b.source.n_rings, 4);
			CU_ASSERT_EQUAL(b.source.period, attr->sample_period);
			CU_ASSERT_TRUE(!refusals[i].judge || refusals[i].judge(attr) == 0);
			/* Nothing is given up that need not be. */
			if (refusals[i].has == ZEN5) {
				CU_ASSERT_EQUAL(!attr->config1, refusals[i].judge == no_latency);
				CU_ASSERT_EQUAL(!attr->exclude_kernel, refusals[i].judge == no_exclude);
				CU_ASSERT_EQUAL(!(attr->config >> 16 & 1), refusals[i].judge == no_misses);
				CU_ASSERT_EQUAL(!(attr->read_format & PERF_FORMAT_LOST),
						refusals[i].judge == old_kernel_lost);
			}
			/* What the kernel doesn't filter the readers do. */
			CU_ASSERT_EQUAL(b.source.rings[0].ibs->user_only, !attr->exclude_kernel);
		}
		bench_done(&b);
	}
}

/* A period that is refused later on: the next one, on all of them, and what was taken is told. */
static void periods_refused_later(void)
{
	struct bench b;

	ibs_init(&b, ZEN4);
	CU_ASSERT_EQUAL(open_source(&b), 0);
	CU_ASSERT_EQUAL(source_ibs.set_period(&b.source, 20000), 0);
	CU_ASSERT_EQUAL(b.source.period, 20000);
	b.kernel.period_max = 0xffff0;
	CU_ASSERT_EQUAL(source_ibs.set_period(&b.source, 3000000), 0);
	CU_ASSERT_EQUAL(b.source.period, 0xffff0);
	CU_ASSERT_EQUAL(b.source.period_max, 0xffff0);
	CU_ASSERT_TRUE(says(b.source.detail, "1048560", ""));
	for (size_t i = 0; i < b.source.n_rings; i++)
		CU_ASSERT_EQUAL(b.kernel.period[b.source.rings[i].fd], 0xffff0);
	/* It isn't asked again. */
	b.kernel.period_max = 0xfff00;
	CU_ASSERT_EQUAL(source_ibs.set_period(&b.source, 3000000), 0);
	b.kernel.period_min = 5008;
	CU_ASSERT_EQUAL(source_ibs.set_period(&b.source, 144), 0);
	CU_ASSERT_EQUAL(b.source.period, 5008);
	CU_ASSERT_EQUAL(b.source.period_min, 5008);
	/* None that it takes: as it was, everywhere. */
	b.kernel.period_max = 6000;
	CU_ASSERT_EQUAL(source_ibs.set_period(&b.source, 100000), -EINVAL);
	CU_ASSERT_EQUAL(b.source.period, 5008);
	for (size_t i = 0; i < b.source.n_rings; i++)
		CU_ASSERT_EQUAL(b.kernel.period[b.source.rings[i].fd], 5008);
	bench_done(&b);
}

static void all_count(struct bench *b, uint64_t count, uint64_t enabled_ns, uint64_t running_ns, uint64_t lost)
{
	for (size_t i = 0; i < b->source.n_rings; i++)
		kernel_counts(b->source.rings[i].fd, count, enabled_ns, running_ns, lost);
}

/* Someone else's event on the same unit: said with his name, and that is all. */
static void shared_with_another(void)
{
	struct bench b;

	ibs_init(&b, ZEN4);
	b.config.ibs_latency_threshold = 0;
	CU_ASSERT_EQUAL(open_source(&b), 0);
	all_count(&b, 100000, 1000, 1000, 0);
	CU_ASSERT_EQUAL(source_ibs.check(&b.source), 0);
	CU_ASSERT_STRING_EQUAL(b.source.why, "");
	all_count(&b, 150000, 2000, 1500, 0);
	CU_ASSERT_EQUAL(source_ibs.check(&b.source), 1);
	CU_ASSERT_TRUE(says(b.source.why, "perf record", "50%"));
	all_count(&b, 250000, 3000, 2500, 0);
	CU_ASSERT_EQUAL(source_ibs.check(&b.source), 0);
	machine_put(&b.machine, "proc/812/comm", "perf");
	machine_put(&b.machine, "proc/812/fd/x", "x");
	machine_link(&b.machine, "proc/812/fd/5", "anon_inode:[perf_event]");
	for (int i = 0; i < 100; i++) {
		all_count(&b, 250000, 4000 + (uint64_t)i * 1000, 2500, 0);
		CU_ASSERT_EQUAL(source_ibs.check(&b.source), 1);
		CU_ASSERT_TRUE(says(b.source.why, "perf (pid 812)", "0%"));
		CU_ASSERT_TRUE(says(b.source.why, "end that", ""));
		CU_ASSERT(strlen(b.source.why) < SOURCE_WHY_MAX - 1);
	}
	all_count(&b, 350000, 200000, 50000, 0);
	CU_ASSERT_EQUAL(source_ibs.check(&b.source), 1);
	all_count(&b, 450000, 300000, 150000, 0);
	CU_ASSERT_EQUAL(source_ibs.check(&b.source), 0);
	bench_done(&b);
}

/* What the kernel took, and lost, is known by the counts, over changes of the period. */
static void samples_taken(void)
{
	struct bench b;

	ibs_init(&b, ZEN4);
	b.config.ibs_period = 10000;
	CU_ASSERT_EQUAL(open_source(&b), 0);
	all_count(&b, 1000000, 1000, 1000, 3);
	CU_ASSERT_EQUAL(source_ibs.check(&b.source), 0);
	CU_ASSERT_EQUAL(b.source.taken, 400);
	CU_ASSERT_EQUAL(b.source.lost, 12);
	all_count(&b, 2000000, 1500, 1500, 3);
	CU_ASSERT_EQUAL(source_ibs.set_period(&b.source, 20000), 0);
	all_count(&b, 4000000, 2000, 2000, 3);
	CU_ASSERT_EQUAL(source_ibs.check(&b.source), 0);
	CU_ASSERT_EQUAL(b.source.taken, 400 + 400 + 400);
	bench_done(&b);
}

static void unit_that_vanishes(void)
{
	struct bench b;

	ibs_init(&b, ZEN4);
	CU_ASSERT_EQUAL(open_source(&b), 0);
	all_count(&b, 0, 1000, 1000, 0);
	CU_ASSERT_EQUAL(source_ibs.check(&b.source), 0);
	machine_remove(&b.machine, "sys/bus/event_source/devices/ibs_op");
	all_count(&b, 0, 2000, 2000, 0);
	CU_ASSERT_EQUAL(source_ibs.check(&b.source), -ENODEV);
	CU_ASSERT_TRUE(says(b.source.why, "ibs_op has gone", "module"));
	bench_done(&b);
	/* The device is there, but its events read as nothing. */
	ibs_init(&b, ZEN4);
	CU_ASSERT_EQUAL(open_source(&b), 0);
	for (size_t i = 0; i < b.source.n_rings; i++)
		lseek(b.source.rings[i].fd, 0, SEEK_END);
	CU_ASSERT_EQUAL(source_ibs.check(&b.source), -EIO);
	CU_ASSERT_TRUE(says(b.source.why, "stopped", "ibs_op"));
	bench_done(&b);
}

/* In use by a unit that can be had by one only. */
static void unit_in_use(void)
{
	struct bench b;

	ibs_init(&b, ZEN4);
	b.kernel.refuse = -EBUSY;
	CU_ASSERT_EQUAL(probe(&b), -EAGAIN);
	CU_ASSERT_TRUE(says(b.why, "another program", "each minute"));
	machine_put(&b.machine, "proc/77/comm", "profiler");
	machine_put(&b.machine, "proc/77/fd/x", "x");
	machine_link(&b.machine, "proc/77/fd/5", "anon_inode:[perf_event]");
	CU_ASSERT_EQUAL(open_source(&b), -EAGAIN);
	CU_ASSERT_TRUE(says(b.source.why, "profiler (pid 77)", "end it"));
	bench_done(&b);
}

/* Who refuses, by what a process can know of itself. */
static const struct {
	const char *name, *paranoid, *status, *uid_map;
	const char *word1, *word2;
} forbidden[] = {
	{ "nothing is known", NULL, NULL, NULL, "run pghotd as root", "" },
	{ "no capability, level 2", "2", "\nCapEff:\t0000000000000000\nSeccomp:\t0\n", NULL, "CAP_PERFMON", "is 2" },
	{ "no capability, level 3", "3", "\nCapEff:\t0000000000000000\nSeccomp:\t2\n", NULL, "CAP_SYS_ADMIN", "is 3" },
	{ "CAP_PERFMON alone, level 3", "3", "\nCapEff:\t0000004000000000\n", NULL, "CAP_SYS_ADMIN",
	  "perf_event_paranoid=2" },
	{ "CAP_PERFMON, level 2, a filter", "2", "\nCapEff:\t0000004000000000\nSeccomp:\t2\n", NULL,
	  "seccomp filter is", "perf_event_open" },
	{ "all, a filter", "3", "\nCapEff:\t000001ffffffffff\nSeccomp:\t2\n", "0 0 4294967295", "seccomp filter is",
	  "SystemCallFilter=" },
	{ "all, no filter", "3", "\nCapEff:\t000001ffffffffff\nSeccomp:\t0\n", "         0          0 4294967295",
	  "security module", "" },
	{ "all, in a user namespace", "2", "\nCapEff:\t000001ffffffffff\nSeccomp:\t2\n", "0 100000 65536",
	  "user namespace", "outside" },
};

static void who_forbids(void)
{
	for (size_t i = 0; i < sizeof(forbidden) / sizeof(forbidden[0]); i++) {
		struct bench b;

		ibs_init(&b, ZEN4);
		machine_remove(&b.machine, PARANOID);
		if (forbidden[i].paranoid)
			machine_put(&b.machine, PARANOID, "%s", forbidden[i].paranoid);
		if (forbidden[i].status)
			machine_put(&b.machine, "proc/self/status", "%s", forbidden[i].status);
		if (forbidden[i].uid_map)
			machine_put(&b.machine, "proc/self/uid_map", "%s", forbidden[i].uid_map);
		b.kernel.refuse = -EACCES;
		CU_ASSERT_EQUAL(probe(&b), -EACCES);
		CU_ASSERT_TRUE(says(b.why, forbidden[i].word1, forbidden[i].word2));
		b.kernel.refuse = -EPERM;
		CU_ASSERT_EQUAL(open_source(&b), -EACCES);
		CU_ASSERT_TRUE(says(b.source.why, forbidden[i].word1, forbidden[i].word2));
		bench_done(&b);
	}
}

static void kernels_that_hide_addresses(void)
{
	struct bench b;

	ibs_init(&b, ZEN5);
	machine_put(&b.machine, PARANOID, "2");
	machine_put(&b.machine, "proc/sys/kernel/osrelease", "6.16.3");
	CU_ASSERT_EQUAL(probe(&b), 0);
	CU_ASSERT_TRUE(says(b.why, "Linux 6.16", "perf_event_paranoid is 2"));
	CU_ASSERT_EQUAL(open_source(&b), 0);
	CU_ASSERT_TRUE(says(b.source.why, "page-table walk", ""));
	bench_done(&b);
}

/* The kernel's own promotion: seen at the opening, and within a minute, but not looked for each second. */
static void kernel_promotes(void)
{
	struct bench b;
	int before_it_is_seen = 0;

	ibs_init(&b, ZEN4);
	b.config.ibs_latency_threshold = 0;
	CU_ASSERT_EQUAL(open_source(&b), 0);
	all_count(&b, 0, 1000, 1000, 0);
	CU_ASSERT_EQUAL(source_ibs.check(&b.source), 0);
	machine_put(&b.machine, "proc/50/comm", "kmigrated1");
	machine_put_bytes(&b.machine, "proc/50/cmdline", "", 0);
	for (int i = 2; i < 70 && !before_it_is_seen; i++) {
		all_count(&b, 0, (uint64_t)i * 1000, (uint64_t)i * 1000, 0);
		if (source_ibs.check(&b.source) == 1)
			before_it_is_seen = i;
	}
	CU_ASSERT(before_it_is_seen > 30 && before_it_is_seen <= 61);
	CU_ASSERT_TRUE(says(b.source.why, "kmigrated", ""));
	all_count(&b, 0, 100000, 100000, 0);
	CU_ASSERT_EQUAL(source_ibs.check(&b.source), 1);
	b.source.ops->close(&b.source);
	CU_ASSERT_EQUAL(probe(&b), -EBUSY);
	CU_ASSERT_TRUE(says(b.why, "kmigrated", ""));
	bench_done(&b);
}

TEST_MAIN(source_ibs, TEST(kernel_promotes), TEST(what_kernels_refuse), TEST(periods_refused_later),
	  TEST(shared_with_another), TEST(samples_taken), TEST(unit_that_vanishes), TEST(unit_in_use),
	  TEST(who_forbids), TEST(kernels_that_hide_addresses))
