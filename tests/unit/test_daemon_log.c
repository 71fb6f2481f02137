/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <string.h>
#include <unistd.h>

#include "daemon.h"
#include "harness.h"
#include "log.h"

#define START_NS  (100 * NSEC_PER_SEC)
#define MINUTE_NS (60 * NSEC_PER_SEC)

static struct daemon daemon_;
static char said[8192];
static int saved_fd;
static FILE *caught;

/* From here on what is logged is kept; listen_end() puts it into said. */
static void listen_begin(void)
{
	log_init(LOG_TARGET_STDERR, LOG_INFO);
	caught = tmpfile();
	saved_fd = dup(STDERR_FILENO);
	dup2(fileno(caught), STDERR_FILENO);
}

static const char *listen_end(void)
{
	size_t n;

	dup2(saved_fd, STDERR_FILENO);
	close(saved_fd);
	rewind(caught);
	n = fread(said, 1, sizeof(said) - 1, caught);
	said[n] = '\0';
	fclose(caught);
	return said;
}

static void summary_tells_what_was_done(void)
{
	struct stats_slot *slot;

	memset(&daemon_, 0, sizeof(daemon_));
	config_defaults(&daemon_.current);
	daemon_.stats = stats_new();
	slot = stats_slot_new(daemon_.stats);
	stats_add(slot, STAT_PROMOTED_BYTES, 5ULL << 30); /* before the first look: not its time */
	listen_begin();
	daemon_summarize(&daemon_, START_NS);
	stats_add(slot, STAT_PROMOTED_BYTES, 3ULL << 30);
	stats_add(slot, STAT_MOVE_CALLS, 12);
	stats_add(slot, STAT_TOTAL, 34567);
	stats_add(slot, STAT_LOST, 8);
	daemon_summarize(&daemon_, START_NS + 10 * MINUTE_NS - 1);
	daemon_summarize(&daemon_, START_NS + 10 * MINUTE_NS);
	/* Nothing since. */
	daemon_summarize(&daemon_, START_NS + 20 * MINUTE_NS);
	stats_add(slot, STAT_WOULD_PROMOTE_BYTES, 1 << 20);
	daemon_.current.log_summary_minutes = 0;
	daemon_summarize(&daemon_, START_NS + 40 * MINUTE_NS);
	daemon_.current.log_summary_minutes = 10;
	daemon_summarize(&daemon_, START_NS + 40 * MINUTE_NS);
	CU_ASSERT_STRING_EQUAL(listen_end(),
			       "pghotd: in 10 minutes: promoted 3.0 GiB in 12 calls; 34,567 samples, 8 lost\n"
			       "pghotd: in 20 minutes: would have promoted 1.0 MiB in 0 calls; 0 samples, 0 lost\n");
	stats_free(daemon_.stats);
}

static void changes_are_recorded_one_by_one(void)
{
	const struct bus_peer peer = { .uid = 1000, .gid = 100, .pid = 77, .comm = "pghotctl" };
	struct config before, next;

	config_defaults(&before);
	next = before;
	next.promote_rate_mib_per_sec = 256;
	next.mode = MODE_OBSERVE;
	listen_begin();
	daemon_log_changes(&before, &next, &peer);
	daemon_log_changes(&next, &next, &peer);
	daemon_log_refusal(&peer, "mode", "fast\n\x1b[2J", "it is observe or promote");
	CU_ASSERT_STRING_EQUAL(listen_end(),
			       "pghotd: uid 1000 (pid 77, pghotctl) changed mode from promote to observe\n"
			       "pghotd: uid 1000 (pid 77, pghotctl) changed promote.rate_mib_per_sec from 1024 to 256\n"
			       "pghotd: uid 1000 (pid 77, pghotctl) may not set mode to fast ?[2J: it is observe or "
			       "promote\n");
}

TEST_MAIN(daemon_log, TEST(summary_tells_what_was_done), TEST(changes_are_recorded_one_by_one))
