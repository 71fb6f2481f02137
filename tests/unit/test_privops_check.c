/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the helper process does and refuses, without a socket. */
#include <errno.h>
#include <linux/perf_event.h>
#include <sys/mman.h>
#include <time.h>

#include "ibs_pmu.h"
#include "privops_answer.h"
#include "privops_rig.h"
#include "source_counts.h"
#include "source_ibs_attr.h"
#include "source_ibs_trial.h"

#define OP       "sys/bus/event_source/devices/ibs_op/"
#define IBS_TYPE 11

/* Nothing of a real kernel is opened; what would be is kept. */
static struct perf_event_attr opened_attr;
static int opened_cpu, opens;

static int fake_open(void *ctx, const struct perf_event_attr *attr, int cpu)
{
	(void)ctx;
	opened_attr = *attr;
	opened_cpu = cpu;
	opens++;
	return memfd_create("event", MFD_CLOEXEC);
}

static const struct privops_ops fake_ops = { .event_open = fake_open };

static struct bench b;
static struct privops_helper helper;
static struct privops_reply reply;

static void setup(void)
{
	bench_init(&b);
	machine_put(&b.machine, OP "type", "%d", IBS_TYPE);
	machine_put(&b.machine, OP "format/cnt_ctl", "config:19");
	machine_put(&b.machine, OP "format/l3missonly", "config:16");
	machine_put(&b.machine, OP "format/ldlat", "config1:0-11");
	machine_put(&b.machine, OP "format/swfilt", "config2:0");
	machine_put(&b.machine, OP "caps/zen4_ibs_extensions", "1");
	machine_put(&b.machine, "sys/devices/system/cpu/possible", "0-3");
	b.priv.ops = &fake_ops;
	helper.priv = b.priv;
	opens = 0;
}

static struct privops_request fault_request(int cpu)
{
	return (struct privops_request){
		.version = PRIVOPS_WIRE_VERSION,
		.verb = PRIVOPS_EVENT_OPEN,
		.event = { .type = PERF_TYPE_SOFTWARE,
			   .cpu = cpu,
			   .config = PERF_COUNT_SW_PAGE_FAULTS_MIN,
			   .sample_period = 1,
			   .sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ADDR | PERF_SAMPLE_CPU |
					  PERF_SAMPLE_PHYS_ADDR | PERF_SAMPLE_DATA_PAGE_SIZE,
			   .wakeup_watermark = 131072,
			   .flags = PRIVOPS_EVENT_WATERMARK },
	};
}

static struct privops_request unit_request(void)
{
	struct privops_request request = fault_request(3);

	request.event.type = IBS_TYPE;
	request.event.config = 1 << 19 | 1 << 16;
	request.event.config1 = 0xfff;
	request.event.config2 = 1;
	request.event.sample_period = 100000;
	request.event.sample_type |= PERF_SAMPLE_RAW | PERF_SAMPLE_WEIGHT | PERF_SAMPLE_DATA_SRC | PERF_SAMPLE_PERIOD;
	request.event.read_format = source_counts_format(true);
	request.event.flags |= PRIVOPS_EVENT_EXCLUDE_KERNEL;
	return request;
}

/* The number in the answer; a descriptor, which is closed, comes with 0 of an open only. */
static int answer(const struct privops_request *request)
{
	int fd = privops_answer(&helper, 1234, request, sizeof(*request), &reply);

	CU_ASSERT_EQUAL(fd >= 0, request->verb == PRIVOPS_EVENT_OPEN && reply.r == 0);
	if (fd >= 0)
		close(fd);
	return reply.r;
}

static void what_the_sources_open_is_opened(void)
{
	struct privops_request request = fault_request(0), unit = unit_request();

	setup();
	CU_ASSERT_EQUAL(answer(&request), 0);
	CU_ASSERT_EQUAL(opened_attr.type, PERF_TYPE_SOFTWARE);
	CU_ASSERT_EQUAL(opened_attr.wakeup_watermark, 131072);
	CU_ASSERT(opened_attr.disabled && opened_attr.use_clockid && opened_attr.watermark);
	CU_ASSERT_EQUAL(answer(&unit), 0);
	CU_ASSERT_EQUAL(opened_cpu, 3);
	CU_ASSERT(opened_attr.exclude_kernel);
	CU_ASSERT_EQUAL(opens, 2);
	bench_done(&b);
}

/* Every option of source_ibs, down to the trial and to what is given up on the way. */
static void every_attr_of_ibs_passes(void)
{
	struct ibs_pmu pmu;
	char why[IBS_WHY_MAX];

	setup();
	CU_ASSERT_EQUAL(ibs_pmu_read(&b.machine.root, IBS_PMU_OP, &pmu, why), 0);
	for (unsigned int bits = 0; bits < 32; bits++) {
		struct ibs_request asked = {
			.period = bits & 1 ? SOURCE_IBS_TRIAL_PERIOD : 0,
			.count = bits & 2 ? IBS_COUNT_OPS : IBS_COUNT_CYCLES,
			.l3_miss_only = bits & 4,
			.latency_threshold = bits & 8 ? IBS_LATENCY_MAX : 0,
			.user_only = bits & 16,
		};
		struct privops_request request = { .version = PRIVOPS_WIRE_VERSION, .verb = PRIVOPS_EVENT_OPEN };
		struct ibs_settled settled;
		struct perf_event_attr attr;

		CU_ASSERT_EQUAL(source_ibs_attr(&pmu, &asked, &attr, &settled, why), 0);
		attr.read_format = source_counts_format(true);
		attr.watermark = 1;
		attr.wakeup_watermark = 1 << 20;
		for (enum ibs_optional what = 0; what < IBS_OPTIONALS; what++) {
			CU_ASSERT_EQUAL(privops_event_of(&attr, 2, &request.event), 0);
			CU_ASSERT_EQUAL(answer(&request), 0);
			CU_ASSERT_EQUAL(memcmp(&opened_attr, &attr, sizeof(attr)), 0);
			(void)source_ibs_give_up(&pmu, what, &attr, &settled, why);
		}
	}
	bench_done(&b);
}

/* What an attr has beyond the list can't even be said. */
static void other_attrs_have_no_words(void)
{
	struct privops_request request = unit_request();
	struct privops_event event;
	struct perf_event_attr attr, good;

	privops_event_attr(&request.event, &good);
	CU_ASSERT_EQUAL(privops_event_of(&good, 3, &event), 0);
	CU_ASSERT_EQUAL(memcmp(&event, &request.event, sizeof(event)), 0);
#define OTHER(change)                                                             \
	do {                                                                      \
		attr = good;                                                      \
		attr.change;                                                      \
		CU_ASSERT_EQUAL(privops_event_of(&attr, 3, &event), -EOPNOTSUPP); \
	} while (0)
	OTHER(disabled = 0);
	OTHER(inherit = 1);
	OTHER(freq = 1);
	OTHER(mmap = 1);
	OTHER(exclude_user = 1);
	OTHER(exclude_hv = 1);
	OTHER(enable_on_exec = 1);
	OTHER(precise_ip = 1);
	OTHER(clockid = CLOCK_REALTIME);
	OTHER(sample_regs_user = 1);
	OTHER(sample_stack_user = 8);
	OTHER(branch_sample_type = 1);
	OTHER(aux_watermark = 1);
	OTHER(sample_max_stack = 1);
#undef OTHER
}

static void other_events_are_refused(void)
{
	setup();
#define REFUSED(base, change)                                \
	do {                                                 \
		struct privops_request request = base;       \
                                                             \
		request.event.change;                        \
		CU_ASSERT_EQUAL(answer(&request), -EBADRQC); \
	} while (0)
	for (uint32_t type = 0; type < 64; type++)
		if (type != PERF_TYPE_SOFTWARE && type != IBS_TYPE) {
			REFUSED(fault_request(0), type = type);
			REFUSED(unit_request(), type = type);
		}
	for (uint64_t config = 0; config < 16; config++)
		if (config != PERF_COUNT_SW_PAGE_FAULTS_MIN)
			REFUSED(fault_request(0), config = config);
	REFUSED(fault_request(0), config1 = 1);
	REFUSED(fault_request(0), config2 = 1);
	REFUSED(fault_request(0), sample_period = 2);
	REFUSED(fault_request(0), sample_period = 0);
	REFUSED(fault_request(0), sample_type |= PERF_SAMPLE_RAW);
	REFUSED(fault_request(0), read_format = 1);
	REFUSED(fault_request(0), flags |= PRIVOPS_EVENT_EXCLUDE_KERNEL);
	REFUSED(fault_request(0), flags |= 4);
	REFUSED(fault_request(0), cpu = -1);
	REFUSED(fault_request(0), cpu = 4);
	REFUSED(fault_request(0), cpu = INT32_MAX);
	REFUSED(fault_request(0), wakeup_watermark = UINT32_MAX);
	/* Bits outside of the fields, whatever they mean to this unit. */
	REFUSED(unit_request(), config |= 1 << 17);
	REFUSED(unit_request(), config |= UINT64_C(1) << 63);
	REFUSED(unit_request(), config1 |= 1 << 12);
	REFUSED(unit_request(), config2 |= 2);
	REFUSED(unit_request(), sample_period = 143);
	REFUSED(unit_request(), sample_period = IBS_PERIOD_MAX + 1ULL);
	for (unsigned int bit = 0; bit < 64; bit++) {
		struct privops_request good = unit_request();
		uint64_t one = UINT64_C(1) << bit;

		if (good.event.sample_type & one)
			continue;
		REFUSED(unit_request(), sample_type |= one);
	}
	REFUSED(unit_request(), read_format |= PERF_FORMAT_GROUP);
	REFUSED(unit_request(), read_format |= PERF_FORMAT_ID);
	CU_ASSERT_EQUAL(opens, 0);
	bench_done(&b);
}

/* A unit that shows the number of what every kernel has would let that be opened. */
static void a_unit_is_what_sysfs_says(void)
{
	struct privops_request request = unit_request();

	setup();
	machine_put(&b.machine, OP "type", "%d", PERF_TYPE_RAW);
	request.event.type = PERF_TYPE_RAW;
	CU_ASSERT_EQUAL(answer(&request), -EBADRQC);
	machine_put(&b.machine, OP "type", "nonsense");
	request.event.type = IBS_TYPE;
	CU_ASSERT_EQUAL(answer(&request), -EBADRQC);
	machine_put(&b.machine, OP "type", "12");
	request.event.type = 12;
	CU_ASSERT_EQUAL(answer(&request), 0);
	machine_remove(&b.machine, "sys/devices/system/cpu/possible");
	CU_ASSERT_EQUAL(answer(&request), -EBADRQC);
	bench_done(&b);
}

static void settings_have_few_values(void)
{
	struct privops_request request = { .version = PRIVOPS_WIRE_VERSION, .verb = PRIVOPS_SETTING_SET };
	static const uint64_t none[] = { 0, 1, 4, 7, UINT64_MAX };

	setup();
	request.set.setting = SETTING_NUMA_BALANCING;
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
		request.set.value = none[i];
		CU_ASSERT_EQUAL(answer(&request), -EBADRQC);
	}
	request.set.setting = SETTING_NUMA_PROMOTE_RATE;
	request.set.value = 1;
	CU_ASSERT_EQUAL(answer(&request), -EBADRQC);
	request.set.value = 0;
	request.set.setting = SETTING_MAX;
	CU_ASSERT_EQUAL(answer(&request), -EBADRQC);
	request.set.setting = UINT32_MAX;
	CU_ASSERT_EQUAL(answer(&request), -EBADRQC);
	CHECK_VALUES(&b, 0, 65536);
	request.set.setting = SETTING_NUMA_PROMOTE_RATE;
	CU_ASSERT_EQUAL(answer(&request), 0);
	request.set.setting = SETTING_NUMA_BALANCING;
	request.set.value = 2;
	CU_ASSERT_EQUAL(answer(&request), 0);
	CHECK_VALUES(&b, 2, 0);
	request = (struct privops_request){ .version = PRIVOPS_WIRE_VERSION, .verb = PRIVOPS_RESTORE };
	CU_ASSERT_EQUAL(answer(&request), 0);
	CU_ASSERT_EQUAL(reply.restored, 2);
	CHECK_VALUES(&b, 0, 65536);
	bench_done(&b);
}

static void questions_are_answered(void)
{
	struct privops_request request = { .version = PRIVOPS_WIRE_VERSION, .verb = PRIVOPS_ASK };

	setup();
	request.ask.question = FSROOT_PGHOT_SOURCES;
	CU_ASSERT_EQUAL(answer(&request), -ENOENT);
	machine_put(&b.machine, "sys/kernel/debug/pghot/enabled_sources", "0x3");
	CU_ASSERT_EQUAL(answer(&request), 3);
	request.ask.question = FSROOT_SCAN_PERIOD;
	machine_put(&b.machine, FSROOT_SCAN_PERIOD_FILE, "99999999999");
	CU_ASSERT_EQUAL(answer(&request), INT32_MAX);
	request.ask.question = FSROOT_GUESTS;
	machine_put(&b.machine, "sys/kernel/debug/kvm/77-12/x", "0");
	machine_put(&b.machine, "sys/kernel/debug/kvm/exits", "0");
	CU_ASSERT_EQUAL(answer(&request), 1);
	CU_ASSERT_EQUAL(reply.n_text, 6);
	CU_ASSERT_EQUAL(memcmp(reply.text, "77-12\n", 6), 0);
	CU_ASSERT_EQUAL(privops_answer_bytes(&reply), PRIVOPS_REPLY_MIN + 6);
	request.ask.question = FSROOT_DEVICE;
	request.ask.pid = 77;
	CU_ASSERT_EQUAL(answer(&request), -ENOENT);
	machine_link(&b.machine, "proc/77/fd/3", "/dev/vfio/vfio");
	CU_ASSERT_EQUAL(answer(&request), 1);
	CU_ASSERT_EQUAL(reply.n_text, 0);
	bench_done(&b);
}

static void other_questions_are_refused(void)
{
	struct privops_request request = { .version = PRIVOPS_WIRE_VERSION, .verb = PRIVOPS_ASK };

	setup();
	CU_ASSERT_EQUAL(answer(&request), -EBADRQC);
	request.ask.question = FSROOT_PAGE + 1;
	CU_ASSERT_EQUAL(answer(&request), -EBADRQC);
	request.ask.question = FSROOT_DEVICE;
	CU_ASSERT_EQUAL(answer(&request), -EBADRQC); /* of whom? */
	request.ask.pid = UINT32_MAX;
	CU_ASSERT_EQUAL(answer(&request), -EBADRQC);
	request.ask.pid = 1;
	request.ask.addr = 4096;
	CU_ASSERT_EQUAL(answer(&request), -EBADRQC);
	request.ask.question = FSROOT_GUESTS;
	request.ask.addr = 0;
	CU_ASSERT_EQUAL(answer(&request), -EBADRQC);
	bench_done(&b);
}

static int raw(const void *data, size_t len)
{
	CU_ASSERT_EQUAL(privops_answer(&helper, 1, data, len, &reply), -1);
	return reply.r;
}

static void packets_of_another_form_are_refused(void)
{
	struct privops_request request = fault_request(0);
	unsigned char long_one[sizeof(request) + 1] = { 0 };

	setup();
	memcpy(long_one, &request, sizeof(request));
	CU_ASSERT_EQUAL(raw(long_one, sizeof(long_one)), -EBADMSG);
	for (size_t len = 0; len < sizeof(request); len++)
		CU_ASSERT_EQUAL(raw(&request, len), -EBADMSG);
	request.version++;
	CU_ASSERT_EQUAL(raw(&request, sizeof(request)), -EPROTONOSUPPORT);
	CU_ASSERT_EQUAL(reply.version, PRIVOPS_WIRE_VERSION);
	request = (struct privops_request){ .version = PRIVOPS_WIRE_VERSION };
	for (uint32_t verb = 0; verb < 100; verb++) {
		request.verb = verb;
		if (verb < PRIVOPS_HELLO || verb > PRIVOPS_ASK)
			CU_ASSERT_EQUAL(raw(&request, sizeof(request)), -EBADRQC);
	}
	/* Where the verb has nothing, nothing may be. */
	for (uint32_t verb = PRIVOPS_HELLO; verb <= PRIVOPS_ASK; verb++) {
		if (verb == PRIVOPS_EVENT_OPEN)
			continue;
		request = (struct privops_request){ .version = PRIVOPS_WIRE_VERSION, .verb = verb };
		request.words[7] = 1;
		CU_ASSERT_EQUAL(raw(&request, sizeof(request)), -EBADMSG);
	}
	CU_ASSERT_EQUAL(opens, 0);
	bench_done(&b);
}

TEST_MAIN(privops_check, TEST(what_the_sources_open_is_opened), TEST(every_attr_of_ibs_passes),
	  TEST(other_attrs_have_no_words), TEST(other_events_are_refused), TEST(a_unit_is_what_sysfs_says),
	  TEST(settings_have_few_values), TEST(questions_are_answered), TEST(other_questions_are_refused),
	  TEST(packets_of_another_form_are_refused))
