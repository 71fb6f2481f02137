/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>
#include <time.h>

#include "decode.h"
#include "harness.h"
#include "source_ibs_attr.h"

/* A unit with these fields, where kernels have them. */
static struct ibs_pmu unit(enum ibs_pmu_kind kind, const char *fields, uint32_t caps)
{
	static const struct {
		const char *name, *text;
	} known[] = { { "cnt_ctl", "config:19" },
		      { "l3missonly", "config:16" },
		      { "swfilt", "config2:0" },
		      { "ldlat", "config1:0-11" } };
	struct ibs_pmu pmu = { .kind = kind, .type = 11, .caps = caps };

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if (!strstr(fields, known[i].name))
			continue;
		ibs_field_parse(known[i].text, &pmu.fields[pmu.n_fields]);
		strcpy(pmu.fields[pmu.n_fields++].name, known[i].name);
	}
	return pmu;
}

static const struct ibs_request everything = {
	.period = 20000, .count = IBS_COUNT_OPS, .l3_miss_only = true, .latency_threshold = 256, .user_only = true
};
static struct perf_event_attr attr;
static struct ibs_settled settled;
static char why[IBS_WHY_MAX];

static int make(const struct ibs_pmu *pmu, const struct ibs_request *request)
{
	int r;

	memset(why, 'x', sizeof(why));
	memset(&attr, 0xA5, sizeof(attr));
	memset(&settled, 0xA5, sizeof(settled));
	r = source_ibs_attr(pmu, request, &attr, &settled, why);
	CU_ASSERT(strlen(why) < sizeof(why) - 1);
	if (r < 0)
		return r;
	/* What every event of ours is like, and every kernel takes. */
	CU_ASSERT_EQUAL(attr.type, 11);
	CU_ASSERT_EQUAL(attr.size, sizeof(attr));
	CU_ASSERT_EQUAL(attr.sample_period, settled.period);
	CU_ASSERT_EQUAL(attr.sample_period % 16, 0);
	CU_ASSERT(attr.sample_period >= 144 && attr.sample_period < 1ULL << 27);
	CU_ASSERT_EQUAL(attr.config & 0x7f7ffff & ~(1ULL << 16), attr.config & (1ULL << 19) & 0x7f7ffff);
	CU_ASSERT_EQUAL(attr.freq, 0);
	CU_ASSERT_EQUAL(attr.precise_ip, 0);
	CU_ASSERT_EQUAL(attr.disabled, 1);
	CU_ASSERT_EQUAL(attr.inherit, 0);
	CU_ASSERT_EQUAL(attr.sample_id_all, 1);
	CU_ASSERT_EQUAL(attr.use_clockid, 1);
	CU_ASSERT_EQUAL(attr.clockid, CLOCK_MONOTONIC);
	CU_ASSERT_EQUAL(attr.exclude_user | attr.exclude_hv | attr.exclude_idle | attr.exclude_host |
				attr.exclude_guest,
			0);
	/* Any exclude_* without it is -EINVAL. */
	CU_ASSERT_EQUAL(attr.exclude_kernel, attr.config2 & 1);
	CU_ASSERT_EQUAL(decode_supports(attr.sample_type), 0);
	CU_ASSERT_EQUAL(attr.sample_type & (PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ADDR | PERF_SAMPLE_CPU |
					    PERF_SAMPLE_RAW | PERF_SAMPLE_PHYS_ADDR),
			PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ADDR | PERF_SAMPLE_CPU | PERF_SAMPLE_RAW |
				PERF_SAMPLE_PHYS_ADDR);
	CU_ASSERT_EQUAL(!!(attr.sample_type & PERF_SAMPLE_DATA_PAGE_SIZE), settled.page_size);
	return r;
}

static bool says(const char *word)
{
	if (!strstr(why, word))
		printf("  \"%s\" lacks \"%s\"\n", why, word);
	return strstr(why, word);
}

static void zen5_can_everything(void)
{
	struct ibs_pmu pmu = unit(IBS_PMU_OP, "cnt_ctl l3missonly swfilt ldlat", IBS_PMU_ZEN4 | IBS_PMU_DTLB_PGSIZE);

	CU_ASSERT_EQUAL(make(&pmu, &everything), 0);
	CU_ASSERT_STRING_EQUAL(why, "");
	CU_ASSERT_EQUAL(attr.config, 1ULL << 19 | 1ULL << 16);
	CU_ASSERT_EQUAL(attr.config1, 256);
	CU_ASSERT_EQUAL(attr.config2, 1);
	CU_ASSERT_EQUAL(attr.exclude_kernel, 1);
	CU_ASSERT_EQUAL(attr.sample_period, 20000);
	CU_ASSERT_FALSE(settled.filter_kernel);
	CU_ASSERT_FALSE(settled.page_size);
	CU_ASSERT_TRUE(settled.l3_miss_only);
	CU_ASSERT_EQUAL(settled.latency_threshold, 256);
	CU_ASSERT_EQUAL(settled.count, IBS_COUNT_OPS);
}

static void zen4_of_old_kernels(void)
{
	struct ibs_pmu pmu = unit(IBS_PMU_OP, "cnt_ctl l3missonly", IBS_PMU_ZEN4);

	CU_ASSERT_EQUAL(make(&pmu, &everything), 0);
	CU_ASSERT_TRUE(says("latency"));
	CU_ASSERT_EQUAL(attr.config, 1ULL << 19 | 1ULL << 16);
	CU_ASSERT_EQUAL(attr.config1, 0);
	CU_ASSERT_EQUAL(attr.config2, 0);
	CU_ASSERT_TRUE(settled.filter_kernel);
	CU_ASSERT_TRUE(settled.page_size);
	CU_ASSERT_EQUAL(settled.latency_threshold, 0);
}

static void one_that_can_nothing(void)
{
	struct ibs_pmu pmu = unit(IBS_PMU_OP, "", 0);

	CU_ASSERT_EQUAL(make(&pmu, &everything), 0);
	CU_ASSERT_TRUE(says("count ops"));
	CU_ASSERT_TRUE(says("hits a cache"));
	CU_ASSERT_TRUE(says("latency"));
	CU_ASSERT_EQUAL(attr.config | attr.config1 | attr.config2, 0);
	CU_ASSERT_EQUAL(settled.count, IBS_COUNT_CYCLES);
	CU_ASSERT_FALSE(settled.l3_miss_only);
}

static void nothing_asked_for(void)
{
	struct ibs_pmu pmu = unit(IBS_PMU_OP, "cnt_ctl l3missonly swfilt ldlat", 0);

	CU_ASSERT_EQUAL(make(&pmu, &(struct ibs_request){ .count = IBS_COUNT_CYCLES }), 0);
	CU_ASSERT_STRING_EQUAL(why, "");
	CU_ASSERT_EQUAL(attr.config | attr.config1 | attr.config2 | attr.exclude_kernel, 0);
	CU_ASSERT_FALSE(settled.filter_kernel);
}

static void periods(void)
{
	static const struct {
		enum ibs_pmu_kind kind;
		uint64_t asked, got;
	} cases[] = {
		{ IBS_PMU_OP, 1, 144 },
		{ IBS_PMU_OP, 144, 144 },
		{ IBS_PMU_OP, 145, 160 },
		{ IBS_PMU_OP, 10000, 10000 },
		{ IBS_PMU_OP, 10001, 10016 },
		{ IBS_PMU_OP, 134217712, 134217712 },
		{ IBS_PMU_OP, 134217713, 134217712 },
		{ IBS_PMU_OP, UINT64_MAX, 134217712 },
		{ IBS_PMU_MPROF, 1, 5008 },
		{ IBS_PMU_MPROF, 5000, 5008 },
		{ IBS_PMU_MPROF, 5008, 5008 },
		{ IBS_PMU_MPROF, 5009, 5024 },
		{ IBS_PMU_MPROF, UINT64_MAX, 134217712 },
		{ IBS_PMU_MPROF, UINT64_MAX - 15, 134217712 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ibs_pmu pmu = unit(cases[i].kind, "cnt_ctl", 0);

		CU_ASSERT_EQUAL(make(&pmu, &(struct ibs_request){ .period = cases[i].asked }), 0);
		CU_ASSERT_EQUAL(attr.sample_period, cases[i].got);
	}
}

/* Where nothing says how often: rarely where every access counts. */
static void default_periods(void)
{
	struct ibs_pmu zen4 = unit(IBS_PMU_OP, "cnt_ctl l3missonly", 0), zen2 = unit(IBS_PMU_OP, "cnt_ctl", 0);
	struct ibs_request request = { .l3_miss_only = true };

	CU_ASSERT_EQUAL(source_ibs_period(&zen4, &request), 10000);
	CU_ASSERT_EQUAL(source_ibs_period(&zen2, &request), 400000);
	request.l3_miss_only = false;
	CU_ASSERT_EQUAL(source_ibs_period(&zen4, &request), 400000);
}

static void latencies(void)
{
	static const unsigned int good[] = { 0, 128, 2048, 300 }, bad[] = { 1, 127, 2049, UINT32_MAX };
	struct ibs_pmu pmu = unit(IBS_PMU_OP, "ldlat", 0);

	for (size_t i = 0; i < 4; i++) {
		CU_ASSERT_EQUAL(make(&pmu,
				     &(struct ibs_request){ .latency_threshold = good[i], .count = IBS_COUNT_CYCLES }),
				0);
		CU_ASSERT_EQUAL(attr.config1, good[i]);
		CU_ASSERT_EQUAL(make(&pmu, &(struct ibs_request){ .latency_threshold = bad[i] }), -EINVAL);
		CU_ASSERT_TRUE(says("128 to 2048"));
	}
}

static void the_profiler(void)
{
	struct ibs_pmu pmu = unit(IBS_PMU_MPROF, "cnt_ctl l3missonly swfilt", IBS_PMU_DTLB_PGSIZE);

	CU_ASSERT_EQUAL(make(&pmu, &everything), 0);
	CU_ASSERT_TRUE(says("ibs_mprof can't filter by latency"));
	/* Its record has no page size, whatever ibs_op's has. */
	CU_ASSERT_TRUE(settled.page_size);
	CU_ASSERT_EQUAL(attr.exclude_kernel, 1);
	CU_ASSERT_EQUAL(attr.config, 1ULL << 19 | 1ULL << 16);
}

TEST_MAIN(source_ibs_attr, TEST(zen5_can_everything), TEST(zen4_of_old_kernels), TEST(one_that_can_nothing),
	  TEST(nothing_asked_for), TEST(periods), TEST(default_periods), TEST(latencies), TEST(the_profiler))
