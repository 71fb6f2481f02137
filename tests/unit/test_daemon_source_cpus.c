/* SPDX-License-Identifier: GPL-2.0-or-later */
/* daemon_source_cpus: rings go and come with their CPUs. The readers are made up here, the kernel is that of
 * source_rig. */
#include "daemon.h"
#include "dataplane.h"
#include "source_rig.h"
#include "stats.h"

/* What the readers have, by CPU; and what they were asked to do. */
#define CPUS 16

static struct {
	struct source_ring *ring[CPUS];
	int adds, removes, bad;
	int refuse; /* -errno of each add */
} readers;

int dataplane_add_ring(struct dataplane *dp, struct source_ring *ring)
{
	(void)dp;
	readers.adds++;
	if (readers.refuse)
		return readers.refuse;
	readers.bad += readers.ring[ring->cpu] != NULL || !ring->ring || ring->fd < 0;
	readers.ring[ring->cpu] = ring;
	return 0;
}

void dataplane_remove_ring(struct dataplane *dp, struct source_ring *ring)
{
	(void)dp;
	readers.removes++;
	/* Before it is closed: its last samples are still to be read. */
	readers.bad += readers.ring[ring->cpu] != ring || !ring->ring || ring->fd < 0;
	readers.ring[ring->cpu] = NULL;
}

void daemon_start_budget(struct daemon *daemon)
{
	(void)daemon;
}

static struct daemon daemon_;
static struct bench b;
static int first_opens;

/* Four CPUs, sampled. */
static void set_up(void)
{
	bench_init(&b);
	memset(&readers, 0, sizeof(readers));
	memset(&daemon_, 0, sizeof(daemon_));
	daemon_.dataplane = (struct dataplane *)&readers; /* never looked into */
	daemon_.root = b.machine.root;
	daemon_.privops = b.priv;
	daemon_.current = b.config;
	daemon_.stats = stats_new();
	CU_ASSERT_PTR_NOT_NULL_FATAL(daemon_.stats);
	daemon_.current.sources.n = 1;
	strcpy(daemon_.current.sources.item[0], "hint_faults");
	CU_ASSERT_EQUAL(daemon_open_source(&daemon_), 0);
	CU_ASSERT_EQUAL(readers.adds, 4);
	first_opens = b.kernel.opens;
}

static void tear_down(void)
{
	daemon_close_source(&daemon_);
	CU_ASSERT_EQUAL(readers.bad, 0);
	for (int cpu = 0; cpu < CPUS; cpu++)
		CU_ASSERT_PTR_NULL(readers.ring[cpu]);
	stats_free(daemon_.stats);
	bench_done(&b);
}

/* The readers have a live event, switched on, of each CPU in @want and of no other one. */
static void check_sampled(unsigned int want)
{
	for (int cpu = 0; cpu < CPUS; cpu++) {
		struct source_ring *ring = readers.ring[cpu];

		CU_ASSERT_EQUAL(ring != NULL, want >> cpu & 1);
		if (!ring)
			continue;
		CU_ASSERT_EQUAL(b.kernel.cpu[ring->fd], cpu);
		CU_ASSERT_EQUAL(b.kernel.on[ring->fd], 1);
	}
}

static void go_and_come(void)
{
	set_up();
	for (int i = 0; i < 50; i++) {
		daemon_cpu_changed(&daemon_, 1, false);
		check_sampled(0xd);
		daemon_cpu_changed(&daemon_, 1, true);
		check_sampled(0xf);
	}
	CU_ASSERT_EQUAL(daemon_.source.n_rings, 4);
	CU_ASSERT_EQUAL(b.kernel.opens - first_opens, 50);
	tear_down();
}

/* Its going was not told, or seen by nobody: what was opened before is dead. */
static void comes_without_having_gone(void)
{
	set_up();
	daemon_cpu_changed(&daemon_, 2, true);
	CU_ASSERT_EQUAL(readers.removes, 1);
	CU_ASSERT_EQUAL(b.kernel.opens - first_opens, 1);
	check_sampled(0xf);
	tear_down();
}

/* Events that were handled late: it has gone again. The next one opens it, or the next look. */
static void gone_again(void)
{
	set_up();
	daemon_cpu_changed(&daemon_, 1, false);
	b.kernel.refuse = -ENODEV;
	daemon_cpu_changed(&daemon_, 1, true);
	check_sampled(0xd);
	b.kernel.refuse = 0;
	daemon_compare_cpus(&daemon_);
	check_sampled(0xf);
	tear_down();
}

/* A ring that no reader takes is closed, so that the next look tries again. */
static void no_reader_takes_it(void)
{
	set_up();
	daemon_cpu_changed(&daemon_, 3, false);
	readers.refuse = -ENOMEM;
	daemon_cpu_changed(&daemon_, 3, true);
	check_sampled(0x7);
	daemon_compare_cpus(&daemon_);
	check_sampled(0x7);
	readers.refuse = 0;
	daemon_compare_cpus(&daemon_);
	check_sampled(0xf);
	tear_down();
}

static void rearm_opens_every_event_anew(void)
{
	set_up();
	daemon_rearm_source(&daemon_);
	CU_ASSERT_EQUAL(b.kernel.opens - first_opens, 4);
	CU_ASSERT_EQUAL(readers.removes, 4);
	CU_ASSERT_EQUAL(daemon_.source.n_rings, 4);
	check_sampled(0xf);
	/* With CPUs that went and came unseen. */
	machine_put(&b.machine, "sys/devices/system/cpu/online", "0,2-5");
	b.kernel.refuse = -ENODEV;
	b.kernel.refuse_cpu = 1;
	daemon_rearm_source(&daemon_);
	check_sampled(0x3d);
	b.kernel.refuse = 0;
	machine_put(&b.machine, "sys/devices/system/cpu/online", "0-3");
	daemon_rearm_source(&daemon_);
	check_sampled(0xf);
	tear_down();
}

static void rearm_that_fails_is_tried_again(void)
{
	set_up();
	b.kernel.refuse = -EMFILE;
	b.kernel.refuse_cpu = 2;
	daemon_rearm_source(&daemon_);
	check_sampled(0xb);
	b.kernel.refuse = 0;
	daemon_compare_cpus(&daemon_);
	check_sampled(0xf);
	tear_down();
}

static void nothing_to_rearm(void)
{
	set_up();
	daemon_close_source(&daemon_);
	daemon_rearm_source(&daemon_);
	daemon_cpu_changed(&daemon_, 1, true);
	daemon_cpu_changed(&daemon_, 1, false);
	daemon_compare_cpus(&daemon_);
	CU_ASSERT_EQUAL(b.kernel.opens, first_opens);
	tear_down();
}

TEST_MAIN(daemon_source_cpus, TEST(go_and_come), TEST(comes_without_having_gone), TEST(gone_again),
	  TEST(no_reader_takes_it), TEST(rearm_opens_every_event_anew), TEST(rearm_that_fails_is_tried_again),
	  TEST(nothing_to_rearm))
