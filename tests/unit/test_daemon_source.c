/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which source the daemon samples by, as they come and go: the daemon's part of it, with no thread and no hardware. */
#include "clock.h"
#include "daemon.h"
#include "dataplane.h"
#include "hotness.h"
#include "source_rig.h"

#define OP     "sys/bus/event_source/devices/ibs_op/"
#define MINUTE (60 * NSEC_PER_SEC)

/* In place of the data plane: it takes all, and what is measured of it is what the test says. */
static struct hotness_usage usage;
static uint64_t sampling_cpu_ns;

int dataplane_add_ring(struct dataplane *dp, struct source_ring *ring)
{
	(void)dp, (void)ring;
	return 0;
}

void dataplane_remove_ring(struct dataplane *dp, struct source_ring *ring)
{
	(void)dp, (void)ring;
}

void dataplane_usage(const struct dataplane *dp, struct hotness_usage *ret, size_t *ret_owners)
{
	(void)dp;
	*ret = usage;
	*ret_owners = 0;
}

void dataplane_set_period(struct dataplane *dp, uint64_t period)
{
	(void)dp;
	(void)period;
}

uint64_t dataplane_sampling_cpu_ns(const struct dataplane *dp)
{
	(void)dp;
	return sampling_cpu_ns;
}

struct rig {
	struct bench b;
	struct daemon daemon;
	struct topology topology;
	struct stats_slot *slot;
	uint64_t now_ns;
	uint64_t read_ns; /* of each event, so far */
};

static void put_ibs(struct rig *rig)
{
	machine_put(&rig->b.machine, OP "type", "11");
	machine_put(&rig->b.machine, OP "format/cnt_ctl", "config:19");
	machine_put(&rig->b.machine, OP "format/l3missonly", "config:16");
	machine_put(&rig->b.machine, OP "format/swfilt", "config2:0");
	machine_put(&rig->b.machine, OP "caps/zen4_ibs_extensions", "1");
}

static void rig_init(struct rig *rig, bool has_ibs)
{
	memset(rig, 0, sizeof(*rig));
	memset(&usage, 0, sizeof(usage));
	sampling_cpu_ns = 0;
	bench_init(&rig->b);
	machine_put(&rig->b.machine, PARANOID, "1");
	machine_put(&rig->b.machine, "proc/sys/kernel/perf_event_max_sample_rate", "100000");
	machine_put(&rig->b.machine, "proc/sys/kernel/perf_cpu_time_max_percent", "25");
	machine_put(&rig->b.machine, "proc/sys/kernel/osrelease", "6.16.0");
	if (has_ibs)
		put_ibs(rig);
	nodeset_add(&rig->topology.lower, 1);
	config_defaults(&rig->daemon.current);
	rig->daemon.root = rig->b.machine.root;
	rig->daemon.privops = rig->b.priv;
	rig->daemon.topology = &rig->topology;
	rig->daemon.stats = stats_new();
	rig->slot = stats_slot_new(rig->daemon.stats);
	rig->daemon.dataplane = (struct dataplane *)&rig->b;
	rig->now_ns = clock_now_ns(&clock_monotonic);
}

static void rig_done(struct rig *rig)
{
	daemon_close_source(&rig->daemon);
	CU_ASSERT_EQUAL(count_fds(), rig->b.fds);
	stats_free(rig->daemon.stats);
	machine_free(&rig->b.machine);
}

static const char *open_name(const struct rig *rig)
{
	return rig->daemon.source.ops ? rig->daemon.source.ops->name : "none";
}

/* A tick, @ns after the last; the events were on the hardware all that time. */
static void tick(struct rig *rig, uint64_t ns)
{
	struct source *source = &rig->daemon.source;

	rig->now_ns += ns;
	rig->read_ns += ns;
	for (size_t i = 0; source->ops == &source_ibs && i < source->n_rings; i++)
		kernel_counts(source->rings[i].fd, 0, rig->read_ns, rig->read_ns, 0);
	daemon_check_source(&rig->daemon, rig->now_ns);
	daemon_keep_budget(&rig->daemon, rig->now_ns);
}

static void count(struct rig *rig, enum stat_id id, uint64_t n)
{
	stats_add(rig->slot, id, n);
}

static void hardware_samples(struct rig *rig, uint64_t n)
{
	count(rig, STAT_TOTAL, n);
	count(rig, STAT_HWHINTS, n);
}

static void first_that_works(void)
{
	struct rig rig;

	rig_init(&rig, true);
	CU_ASSERT_EQUAL(daemon_open_source(&rig.daemon), 0);
	CU_ASSERT_STRING_EQUAL(open_name(&rig), "ibs");
	CU_ASSERT_EQUAL(rig.daemon.source_state, SOURCE_RUNNING);
	rig_done(&rig);
	rig_init(&rig, false);
	CU_ASSERT_EQUAL(daemon_open_source(&rig.daemon), 0);
	CU_ASSERT_STRING_EQUAL(open_name(&rig), "hint_faults");
	CU_ASSERT_TRUE(says(rig.daemon.source_whys[0], "ibs_op", ""));
	/* What this machine hasn't got is nothing to do for anyone, unless it is asked for by name. */
	CU_ASSERT_STRING_EQUAL(daemon_source_why(&rig.daemon, 0), "");
	strcpy(rig.daemon.current.sources.item[1], "ibs");
	rig.daemon.current.sources.n = 2;
	CU_ASSERT_TRUE(says(daemon_source_why(&rig.daemon, 0), "ibs_op", ""));
	rig_done(&rig);
	/* Nor when nothing works: then it may be the one to get. */
	rig_init(&rig, false);
	machine_remove(&rig.b.machine, MODE);
	CU_ASSERT_EQUAL(daemon_open_source(&rig.daemon), -ENOENT);
	CU_ASSERT_TRUE(says(daemon_source_why(&rig.daemon, 0), "ibs_op", ""));
	rig_done(&rig);
}

/* Records that nobody knows: the next source, and this one no more until its settings are others. */
static void records_that_do_not_fit(void)
{
	struct rig rig;

	rig_init(&rig, true);
	CU_ASSERT_EQUAL(daemon_open_source(&rig.daemon), 0);
	atomic_store(&rig.daemon.source.rings[0].misfit, 84ULL << 32 | 0x00300bff);
	count(&rig, STAT_BAD_RECORDS, SOURCE_HEALTH_FIRST - 1);
	tick(&rig, NSEC_PER_SEC);
	CU_ASSERT_STRING_EQUAL(open_name(&rig), "ibs");
	count(&rig, STAT_BAD_RECORDS, 1);
	tick(&rig, NSEC_PER_SEC);
	CU_ASSERT_STRING_EQUAL(open_name(&rig), "hint_faults");
	CU_ASSERT_EQUAL(rig.daemon.source_state, SOURCE_RUNNING);
	CU_ASSERT_TRUE(says(daemon_source_why(&rig.daemon, 0), "84 bytes", "guessed"));
	for (int i = 0; i < 200; i++)
		tick(&rig, MINUTE);
	CU_ASSERT_STRING_EQUAL(open_name(&rig), "hint_faults");
	CU_ASSERT_TRUE(says(rig.daemon.source_whys[0], "84 bytes", "guessed"));
	CU_ASSERT_EQUAL(daemon_reopen_source(&rig.daemon), 0);
	CU_ASSERT_STRING_EQUAL(open_name(&rig), "ibs");
	CU_ASSERT_STRING_EQUAL(rig.daemon.source_whys[0], "");
	rig_done(&rig);
	/* With no other: failed, and that is said from then on. */
	rig_init(&rig, true);
	machine_remove(&rig.b.machine, MODE);
	CU_ASSERT_EQUAL(daemon_open_source(&rig.daemon), 0);
	count(&rig, STAT_BAD_RECORDS, SOURCE_HEALTH_FIRST);
	tick(&rig, NSEC_PER_SEC);
	CU_ASSERT_STRING_EQUAL(open_name(&rig), "none");
	CU_ASSERT_EQUAL(rig.daemon.source_state, SOURCE_FAILED);
	CU_ASSERT_TRUE(says(rig.daemon.source_why, "ibs: ", "guessed"));
	tick(&rig, MINUTE + 1);
	CU_ASSERT_STRING_EQUAL(open_name(&rig), "none");
	CU_ASSERT_TRUE(says(rig.daemon.source_why, "ibs: ", "guessed"));
	rig_done(&rig);
}

/* Hidden physical addresses: a remark while the kernel finds them, the next source when nothing does. */
static void hidden_addresses(void)
{
	struct rig rig;

	rig_init(&rig, true);
	machine_put(&rig.b.machine, PARANOID, "2");
	machine_put(&rig.b.machine, "proc/sys/kernel/osrelease", "6.1.0");
	CU_ASSERT_EQUAL(daemon_open_source(&rig.daemon), 0);
	hardware_samples(&rig, 5000);
	count(&rig, STAT_HW_PHYS_CLEARED, 4800);
	count(&rig, STAT_DISCARDED_NO_PHYS, 100);
	tick(&rig, NSEC_PER_SEC);
	CU_ASSERT_EQUAL(rig.daemon.source_state, SOURCE_RUNNING);
	CU_ASSERT_TRUE(says(rig.daemon.source_why, "96%", "page-table walk"));
	tick(&rig, NSEC_PER_SEC);
	CU_ASSERT_TRUE(says(rig.daemon.source_why, "96%", "page-table walk"));
	hardware_samples(&rig, 5000);
	count(&rig, STAT_HW_PHYS_CLEARED, 4800);
	count(&rig, STAT_DISCARDED_NO_PHYS, 4000);
	tick(&rig, NSEC_PER_SEC);
	CU_ASSERT_EQUAL(rig.daemon.source_state, SOURCE_DEGRADED);
	CU_ASSERT_TRUE(says(rig.daemon.source_why, "80%", "perf_event_paranoid=1"));
	hardware_samples(&rig, 5000);
	tick(&rig, NSEC_PER_SEC);
	CU_ASSERT_EQUAL(rig.daemon.source_state, SOURCE_RUNNING);
	CU_ASSERT_STRING_EQUAL(rig.daemon.source_why, "");
	hardware_samples(&rig, 5000);
	count(&rig, STAT_HW_PHYS_CLEARED, 5000);
	count(&rig, STAT_DISCARDED_NO_PHYS, 5000);
	tick(&rig, NSEC_PER_SEC);
	CU_ASSERT_STRING_EQUAL(open_name(&rig), "hint_faults");
	CU_ASSERT_TRUE(says(rig.daemon.source_whys[0], "100%", "perf_event_paranoid=1"));
	/* Not each minute: it has to be open for a while to be known. */
	for (int i = 0; i < 58; i++)
		tick(&rig, MINUTE);
	CU_ASSERT_STRING_EQUAL(open_name(&rig), "hint_faults");
	for (int i = 0; i < 4; i++)
		tick(&rig, MINUTE);
	CU_ASSERT_STRING_EQUAL(open_name(&rig), "ibs");
	rig_done(&rig);
}

/* In use by someone: the next source meanwhile, and back within a minute of his end. */
static void in_use(void)
{
	struct rig rig;

	rig_init(&rig, true);
	strcpy(rig.daemon.current.sources.item[0], "ibs");
	rig.daemon.current.sources.n = 1;
	rig.b.kernel.refuse = -EBUSY;
	CU_ASSERT_EQUAL(daemon_open_source(&rig.daemon), -EAGAIN);
	CU_ASSERT_EQUAL(rig.daemon.source_state, SOURCE_FAILED);
	CU_ASSERT_TRUE(says(rig.daemon.source_why, "another program", "end it"));
	rig.daemon.source_retry_ns = rig.now_ns + DAEMON_RETRY_NS;
	for (int i = 0; i < 5; i++) {
		int opens = rig.b.kernel.opens;

		for (int second = 0; second < 60; second++)
			tick(&rig, NSEC_PER_SEC);
		CU_ASSERT(rig.b.kernel.opens > opens);
		CU_ASSERT(rig.b.kernel.opens <= opens + 3);
		CU_ASSERT_STRING_EQUAL(open_name(&rig), "none");
	}
	rig.b.kernel.refuse = 0;
	tick(&rig, MINUTE);
	CU_ASSERT_STRING_EQUAL(open_name(&rig), "ibs");
	rig_done(&rig);
}

/* A unit that goes and comes again. */
static void vanishes_and_returns(void)
{
	struct rig rig;

	rig_init(&rig, true);
	CU_ASSERT_EQUAL(daemon_open_source(&rig.daemon), 0);
	tick(&rig, NSEC_PER_SEC);
	machine_remove(&rig.b.machine, "sys/bus/event_source/devices/ibs_op");
	tick(&rig, NSEC_PER_SEC);
	CU_ASSERT_STRING_EQUAL(open_name(&rig), "hint_faults");
	CU_ASSERT_TRUE(says(rig.daemon.source_whys[0], "has gone", ""));
	tick(&rig, MINUTE + 1);
	CU_ASSERT_STRING_EQUAL(open_name(&rig), "hint_faults");
	put_ibs(&rig);
	tick(&rig, MINUTE + 1);
	CU_ASSERT_STRING_EQUAL(open_name(&rig), "ibs");
	rig_done(&rig);
}

/* A better one that says it could, and then can't be opened, costs the one that works one minute in sixty. */
static int only_a_first_open(const struct perf_event_attr *attr)
{
	return attr->type == 11 && attr->watermark ? -EIO : 0;
}

static void better_one_that_only_says_so(void)
{
	struct rig rig;
	int switches = 0;

	rig_init(&rig, true);
	rig.b.kernel.judge = only_a_first_open;
	CU_ASSERT_EQUAL(daemon_open_source(&rig.daemon), 0);
	CU_ASSERT_STRING_EQUAL(open_name(&rig), "hint_faults");
	for (int i = 0; i < 120; i++) {
		int enables = rig.b.kernel.enables;

		tick(&rig, MINUTE);
		switches += rig.b.kernel.enables != enables;
		CU_ASSERT_STRING_EQUAL(open_name(&rig), "hint_faults");
	}
	CU_ASSERT(switches >= 1 && switches <= 3);
	rig_done(&rig);
}

/* The kernel's own limit, lowered by it: in the status for as long as it is. */
static void lowered_rate(void)
{
	struct rig rig;

	rig_init(&rig, true);
	CU_ASSERT_EQUAL(daemon_open_source(&rig.daemon), 0);
	tick(&rig, NSEC_PER_SEC);
	CU_ASSERT_STRING_EQUAL(rig.daemon.source_why, "");
	machine_put(&rig.b.machine, "proc/sys/kernel/perf_event_max_sample_rate", "6250");
	tick(&rig, NSEC_PER_SEC);
	tick(&rig, NSEC_PER_SEC);
	CU_ASSERT_TRUE(says(rig.daemon.source_why, "from 100000 to 6250", "sysctl -w"));
	CU_ASSERT_EQUAL(rig.daemon.source_state, SOURCE_RUNNING);
	machine_put(&rig.b.machine, "proc/sys/kernel/perf_event_max_sample_rate", "100000");
	tick(&rig, NSEC_PER_SEC);
	tick(&rig, NSEC_PER_SEC);
	CU_ASSERT_STRING_EQUAL(rig.daemon.source_why, "");
	rig_done(&rig);
}

/* Samples that the kernel takes and throws away: the budget sees them in the counts. */
static void filtered_samples_cost(void)
{
	double cost[2];

	for (int filtered = 0; filtered < 2; filtered++) {
		struct rig rig;
		uint64_t counted = 0;

		rig_init(&rig, true);
		CU_ASSERT_EQUAL(daemon_open_source(&rig.daemon), 0);
		for (int i = 0; i < 3; i++) {
			struct source *source = &rig.daemon.source;
			uint64_t ns = (uint64_t)(i + 1) * NSEC_PER_SEC;

			/* 1000 samples of each CPU, of which all or a tenth are read. */
			counted += 1000 * source->period;
			hardware_samples(&rig, filtered ? 400 : 4000);
			rig.now_ns += NSEC_PER_SEC;
			for (size_t k = 0; k < source->n_rings; k++)
				kernel_counts(source->rings[k].fd, counted, ns, ns, 0);
			daemon_check_source(&rig.daemon, rig.now_ns);
			daemon_keep_budget(&rig.daemon, rig.now_ns);
		}
		cost[filtered] = rig.daemon.paced.kernel_cost;
		CU_ASSERT_EQUAL(rig.daemon.filtered, filtered ? 3 * 3600 : 0);
		CU_ASSERT_DOUBLE_EQUAL(rig.daemon.paced.samples_per_sec, 4000, 1);
		rig_done(&rig);
	}
	CU_ASSERT(cost[0] > 0);
	CU_ASSERT_DOUBLE_EQUAL(cost[0], cost[1], cost[0] / 1000);
}

TEST_MAIN(daemon_source, TEST(first_that_works), TEST(records_that_do_not_fit), TEST(hidden_addresses), TEST(in_use),
	  TEST(vanishes_and_returns), TEST(better_one_that_only_says_so), TEST(lowered_rate),
	  TEST(filtered_samples_cost))
