/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <sched.h>

#include "budget_meter.h"
#include "clock.h"
#include "ibs_records.h"
#include "perf_records.h"
#include "source_ibs_record.h"
#include "source_ibs_trial.h"
#include "source_rig.h"

#define OP      "sys/bus/event_source/devices/ibs_op/"
#define GAP_NS  3000
#define READ_NS 20
#define EACH_NS 50000 /* a sample */
#define MORE    8     /* bytes, of a register that nobody knows */

/* The test's time: goes on by a little with each reading, and now and then stands still for a sample. */
static uint64_t now_ns, sample_at_ns;
static unsigned int samples; /* in the trial */

static uint64_t read_clock(void *ctx)
{
	(void)ctx;
	now_ns += READ_NS;
	if (now_ns >= sample_at_ns) {
		now_ns += GAP_NS;
		sample_at_ns = now_ns + EACH_NS;
		samples++;
	}
	return now_ns;
}

static const struct clock clock = { .now_ns = read_clock };

static struct bench b;
static unsigned int more_bytes; /* behind each record's registers */
static unsigned int records_max;
static bool none;

/* What an event of this kernel leaves in its ring. */
static void put_records(int fd, bool on)
{
	struct ibs_test_record regs = { .caps = CAPS_ZEN5, .reg = { [OP_CTL] = CTL_ON } };
	struct perf_event_mmap_page page = { 0 };
	static struct test_record record;
	unsigned char raw[128] = { 0 }, *known;
	struct test_sample in = { .pid = 1, .raw = raw };
	size_t bytes;

	if (on) {
		sample_at_ns = none ? UINT64_MAX : now_ns + EACH_NS;
		samples = 0;
		return;
	}
	known = ibs_test_raw(&regs, &bytes);
	memcpy(raw, known, bytes);
	free(known);
	in.raw_bytes = (uint32_t)bytes + more_bytes;
	make_sample_record(&record, b.kernel.attr.sample_type, &in);
	for (unsigned int i = 0; i < samples && i < records_max; i++, page.data_head += record.n)
		if (pwrite(fd, record.bytes, record.n,
			   (off_t)(sizeof(page) > 4096 ? sizeof(page) : 4096) + (off_t)page.data_head) < 0)
			abort();
	if (pwrite(fd, &page.data_head, sizeof(page.data_head), offsetof(struct perf_event_mmap_page, data_head)) < 0)
		abort();
	sample_at_ns = UINT64_MAX;
}

static void trial_init(void)
{
	bench_init(&b);
	b.source.ops = &source_ibs;
	machine_put(&b.machine, PARANOID, "1");
	machine_put(&b.machine, OP "type", "11");
	machine_put(&b.machine, OP "format/cnt_ctl", "config:19");
	machine_put(&b.machine, OP "format/l3missonly", "config:16");
	machine_put(&b.machine, OP "format/swfilt", "config2:0");
	b.config.ibs_l3_miss_only = b.config.ibs_user_only = true;
	b.kernel.on_enable = put_records;
	more_bytes = 0;
	records_max = UINT32_MAX;
	none = false;
	sample_at_ns = UINT64_MAX;
}

static int trial(struct source_ibs_trial *ret, struct budget_meter *meter)
{
	struct ibs_decoder_params params = { .kind = IBS_PMU_OP, .family = 0x1a };
	struct source_env env = b.source.env;
	cpu_set_t before, after;
	struct ibs_pmu pmu;
	char why[IBS_WHY_MAX];
	int r, fds = count_fds();

	env.clock = &clock;
	env.meter = meter;
	CU_ASSERT_EQUAL(ibs_pmu_find(&b.machine.root, "ibs_op", &pmu, why), 0);
	sched_getaffinity(0, sizeof(before), &before);
	r = source_ibs_trial(&env, &pmu, &params, ret);
	sched_getaffinity(0, sizeof(after), &after);
	CU_ASSERT_TRUE(CPU_EQUAL(&before, &after));
	CU_ASSERT_EQUAL(count_fds(), fds);
	return r;
}

static void measures(void)
{
	struct budget_meter meter = { 0 };
	struct budget_meter_cost cost;
	struct source_ibs_trial got;

	trial_init();
	CU_ASSERT_EQUAL(trial(&got, &meter), 0);
	CU_ASSERT_EQUAL(got.bad, 0);
	CU_ASSERT(got.records >= 80 && got.records <= 110);
	CU_ASSERT_TRUE(got.measured);
	budget_meter_cost(&meter, &cost);
	CU_ASSERT_EQUAL(cost.basis, BUDGET_METER_MEASURED);
	CU_ASSERT(cost.sample_ns >= GAP_NS && cost.sample_ns <= GAP_NS + READ_NS);
	/* One event, that of a loop that misses no cache; off again, and closed. */
	CU_ASSERT_EQUAL(b.kernel.opens, 1);
	CU_ASSERT_EQUAL(b.kernel.attr.config & (1 << 16 | 1 << 19), 0);
	CU_ASSERT_EQUAL(b.kernel.attr.exclude_kernel, 0);
	CU_ASSERT_EQUAL(b.kernel.enables, 2);
	/* Gaps that are no samples', for example when the kernel gives no records: nothing is measured. */
	meter = (struct budget_meter){ 0 };
	records_max = 20;
	CU_ASSERT_EQUAL(trial(&got, &meter), 0);
	CU_ASSERT_FALSE(got.measured);
	budget_meter_cost(&meter, &cost);
	CU_ASSERT_EQUAL(cost.basis, BUDGET_METER_ASSUMED);
	bench_done(&b);
}

static void refuses_what_it_does_not_know(void)
{
	struct source_ibs_trial got;

	trial_init();
	more_bytes = MORE;
	CU_ASSERT_EQUAL(trial(&got, NULL), -EPROTO);
	CU_ASSERT_EQUAL(got.bad, got.records);
	CU_ASSERT_EQUAL(got.misfit, 76ULL << 32 | CAPS_ZEN5);
	bench_done(&b);
	/* And so does the source, at its opening, with what it found. */
	trial_init();
	more_bytes = MORE;
	b.source.env.clock = &clock;
	CU_ASSERT_EQUAL(open_source(&b), -EPROTO);
	CU_ASSERT_TRUE(says(b.source.why, "76 bytes", "0x00081bff"));
	CU_ASSERT_TRUE(says(b.source.why, "ibs_op", "guessed"));
	more_bytes = 0;
	CU_ASSERT_EQUAL(open_source(&b), 0);
	bench_done(&b);
}

/* No record, a few, no event: no reason against the source. */
static void says_nothing(void)
{
	struct budget_meter meter = { 0 };
	struct source_ibs_trial got;

	trial_init();
	none = true;
	CU_ASSERT_EQUAL(trial(&got, &meter), 0);
	CU_ASSERT_EQUAL(got.records, 0);
	CU_ASSERT_FALSE(got.measured);
	none = false;
	more_bytes = MORE;
	records_max = 7;
	CU_ASSERT_EQUAL(trial(&got, &meter), 0);
	CU_ASSERT_EQUAL(got.bad, 7);
	b.kernel.refuse = -EBUSY;
	CU_ASSERT_EQUAL(trial(&got, &meter), -EBUSY);
	b.kernel.refuse = 0;
	b.kernel.ring_max = 4096;
	CU_ASSERT(trial(&got, &meter) <= 0);
	bench_done(&b);
}

TEST_MAIN(source_ibs_trial, TEST(measures), TEST(refuses_what_it_does_not_know), TEST(says_nothing))
