/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A pause: who, how long, and what is closed and opened by it; the sources and the data plane are the test's. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "daemon.h"
#include "dataplane.h"
#include "harness.h"
#include "log.h"

#define NOW (500 * NSEC_PER_SEC)

static struct daemon daemon_;
static struct topology topology;
static bool open_, held;
static int open_result, n_opened;
static char error[CONFIG_ERROR_MAX];
static const struct bus_peer peer = { .uid = 1000, .pid = 77, .comm = "pghotctl" };

void dataplane_hold(struct dataplane *dp, bool hold)
{
	(void)dp;
	held = hold;
}

void daemon_close_source(struct daemon *daemon)
{
	(void)daemon;
	open_ = false;
}

int daemon_reopen_source(struct daemon *daemon)
{
	CU_ASSERT_FALSE(daemon->pause.on);
	n_opened++;
	open_ = open_result == 0;
	snprintf(daemon->source_why, sizeof(daemon->source_why), "%s", open_ ? "" : "the PMU is busy");
	daemon->source_state = open_ ? SOURCE_RUNNING : SOURCE_FAILED;
	return open_result;
}

void daemon_update_state(struct daemon *daemon)
{
	(void)daemon;
}

static void begin(bool slow_tier)
{
	static int dummy;

	log_init(LOG_TARGET_STDERR, LOG_ERR);
	memset(&topology, 0, sizeof(topology));
	if (slow_tier)
		nodeset_add(&topology.lower, 1);
	daemon_ = (struct daemon){
		.topology = &topology,
		.dataplane = (struct dataplane *)&dummy,
		.source_state = SOURCE_RUNNING,
	};
	open_ = true;
	held = false;
	open_result = n_opened = 0;
}

static void it_closes_and_opens(void)
{
	char *note;

	begin(true);
	CU_ASSERT_EQUAL(daemon_pause(&daemon_, &peer, 0, NOW, error), 0);
	CU_ASSERT(daemon_.pause.on && held && !open_);
	CU_ASSERT_EQUAL(daemon_.source_state, SOURCE_CLOSED);
	/* Without a time it stays so. */
	daemon_check_pause(&daemon_, UINT64_MAX);
	CU_ASSERT(daemon_.pause.on);
	CU_ASSERT_EQUAL(daemon_resume(&daemon_, &peer, NOW + NSEC_PER_SEC, &note), 0);
	CU_ASSERT(!daemon_.pause.on && !held && open_);
	CU_ASSERT_PTR_NULL(note);
	CU_ASSERT_EQUAL(n_opened, 1);
	CU_ASSERT_EQUAL(daemon_resume(&daemon_, &peer, NOW + NSEC_PER_SEC, &note), 0);
	CU_ASSERT_STRING_EQUAL(note, "it is not paused");
	CU_ASSERT_EQUAL(n_opened, 1);
	free(note);
}

static void it_ends_when_its_time_is_over(void)
{
	begin(true);
	CU_ASSERT_EQUAL(daemon_pause(&daemon_, &peer, 10 * NSEC_PER_SEC, NOW, error), 0);
	daemon_check_pause(&daemon_, NOW + 10 * NSEC_PER_SEC - 1);
	CU_ASSERT(daemon_.pause.on);
	/* Asked again, the time begins anew, and since when it is paused stays. */
	CU_ASSERT_EQUAL(daemon_pause(&daemon_, &peer, 60 * NSEC_PER_SEC, NOW + 5 * NSEC_PER_SEC, error), 0);
	CU_ASSERT_EQUAL(daemon_.pause.since_ns, NOW);
	daemon_check_pause(&daemon_, NOW + 64 * NSEC_PER_SEC);
	CU_ASSERT(daemon_.pause.on);
	daemon_check_pause(&daemon_, NOW + 65 * NSEC_PER_SEC);
	CU_ASSERT(!daemon_.pause.on && open_ && !held);
}

static void a_length_beyond_the_range_changes_nothing(void)
{
	begin(true);
	CU_ASSERT_EQUAL(daemon_pause(&daemon_, &peer, 1, NOW, error), -ERANGE);
	CU_ASSERT_EQUAL(daemon_pause(&daemon_, &peer, REPORT_PAUSE_MAX_NS + 1, NOW, error), -ERANGE);
	CU_ASSERT_EQUAL(daemon_pause(&daemon_, &peer, UINT64_MAX, NOW, error), -ERANGE);
	CU_ASSERT(strlen(error) > 0);
	CU_ASSERT(!daemon_.pause.on && open_);
}

static void events_that_are_taken_meanwhile_are_told(void)
{
	char *note;

	begin(true);
	CU_ASSERT_EQUAL(daemon_pause(&daemon_, &peer, 0, NOW, error), 0);
	open_result = -EBUSY;
	CU_ASSERT_EQUAL(daemon_resume(&daemon_, &peer, NOW, &note), 0);
	CU_ASSERT(!daemon_.pause.on && !held && !open_);
	CU_ASSERT_EQUAL(daemon_.source_state, SOURCE_FAILED);
	CU_ASSERT(daemon_.source_retry_ns > 0);
	CU_ASSERT_STRING_EQUAL(note, "no source works: the PMU is busy; trying again each minute");
	free(note);
}

/* Where nothing ran, the end of a pause starts nothing. */
static void nothing_is_opened_without_a_slow_tier(void)
{
	char *note;

	begin(false);
	CU_ASSERT_EQUAL(daemon_pause(&daemon_, &peer, 0, NOW, error), 0);
	CU_ASSERT_EQUAL(daemon_resume(&daemon_, &peer, NOW, &note), 0);
	begin(true);
	daemon_.dataplane = NULL;
	CU_ASSERT_EQUAL(daemon_pause(&daemon_, &peer, 0, NOW, error), 0);
	CU_ASSERT_EQUAL(daemon_resume(&daemon_, &peer, NOW, &note), 0);
	CU_ASSERT_PTR_NULL(note);
	CU_ASSERT_EQUAL(n_opened, 0);
}

static void it_is_told_in_words(void)
{
	struct daemon_pause pause = { .on = true, .since_ns = NOW, .until_ns = NOW + 600 * NSEC_PER_SEC, .peer = peer };
	char buf[160];

	daemon_pause_text(&pause, NOW + 120 * NSEC_PER_SEC, buf, sizeof(buf));
	CU_ASSERT_STRING_EQUAL(buf, "paused by uid 1000 (pghotctl) 2 minutes ago; it goes on by itself in 8 minutes");
	pause.until_ns = 0;
	daemon_pause_text(&pause, NOW + 120 * NSEC_PER_SEC, buf, sizeof(buf));
	CU_ASSERT_STRING_EQUAL(buf, "paused by uid 1000 (pghotctl) 2 minutes ago, until pghotctl resume");
}

TEST_MAIN(daemon_pause, TEST(it_closes_and_opens), TEST(it_ends_when_its_time_is_over),
	  TEST(a_length_beyond_the_range_changes_nothing), TEST(events_that_are_taken_meanwhile_are_told),
	  TEST(nothing_is_opened_without_a_slow_tier), TEST(it_is_told_in_words))
