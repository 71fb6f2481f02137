/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <string.h>

#include "daemon.h"
#include "dataplane.h"
#include "harness.h"
#include "migrator.h"

static struct topology topology;
static struct daemon daemon_;
static char buf[DAEMON_LIMIT_MAX];

static void begin(void)
{
	topology = (struct topology){ .n_tiers = 2 };
	nodeset_add(&topology.top, 0);
	nodeset_add(&topology.top, 1);
	nodeset_add(&topology.lower, 2);
	memset(&daemon_, 0, sizeof(daemon_));
	config_defaults(&daemon_.current);
	daemon_.topology = &topology;
	daemon_.source_state = SOURCE_RUNNING;
}

static const char *with(enum migrator_limit first, enum migrator_limit second, const struct report_left *left, size_t n)
{
	struct dataplane_migrator migrators[2] = {
		{ .limit = migrator_limit_text[first],
		  .holds_back = first != LIMIT_NOTHING_HOT && first != LIMIT_NONE },
		{ .limit = migrator_limit_text[second],
		  .holds_back = second != LIMIT_NOTHING_HOT && second != LIMIT_NONE },
	};

	return daemon_limiting(&daemon_, migrators, 2, left, n, buf, sizeof(buf));
}

static void most_general_comes_first(void)
{
	begin();
	CU_ASSERT_STRING_EQUAL(with(LIMIT_NONE, LIMIT_NOTHING_HOT, NULL, 0), "nothing: all that is hot is moved");
	daemon_.current.mode = MODE_OBSERVE;
	CU_ASSERT_STRING_EQUAL(with(LIMIT_RATE, LIMIT_NONE, NULL, 0), "mode is \"observe\"");
	daemon_.source_state = SOURCE_FAILED;
	CU_ASSERT_STRING_EQUAL(with(LIMIT_RATE, LIMIT_NONE, NULL, 0), "no source of samples works");
	nodeset_clear(&topology.lower);
	CU_ASSERT_STRING_EQUAL(with(LIMIT_RATE, LIMIT_NONE, NULL, 0), "there is no slow memory tier");
	daemon_.pause.on = true;
	CU_ASSERT_STRING_EQUAL(with(LIMIT_RATE, LIMIT_NONE, NULL, 0), "it is paused");
}

static void the_one_that_is_held_back_counts(void)
{
	begin();
	CU_ASSERT_STRING_EQUAL(with(LIMIT_NONE, LIMIT_RATE, NULL, 0), "promote.rate_mib_per_sec, which is 1024");
	CU_ASSERT_STRING_EQUAL(with(LIMIT_OBSERVING, LIMIT_RATE, NULL, 0),
			       "nothing yet: the mode was changed a moment ago");
	CU_ASSERT_STRING_EQUAL(with(LIMIT_NO_ROOM, LIMIT_RATE, NULL, 0),
			       "no room on node 0-1: full down to promote.headroom_percent");
	daemon_.current.make_room = ROOM_OFF;
	CU_ASSERT_STRING_EQUAL(with(LIMIT_NO_ROOM, LIMIT_RATE, NULL, 0),
			       "no room on node 0-1: full down to promote.headroom_percent; make_room is \"off\"");
	daemon_.current.make_room = ROOM_KERNEL;
	CU_ASSERT_STRING_EQUAL(with(LIMIT_NO_ROOM, LIMIT_RATE, NULL, 0),
			       "no room on node 0-1: full down to promote.headroom_percent; make_room is \"kernel\", "
			       "and demotion_enabled is off");
	topology.demotion_enabled = true;
	CU_ASSERT_STRING_EQUAL(with(LIMIT_NO_ROOM, LIMIT_RATE, NULL, 0),
			       "no room on node 0-1: full down to promote.headroom_percent");
}

static void what_is_left_alone_says_how_to_allow_it(void)
{
	static const struct report_left left[] = { { "rule", 4096 }, { "shared", 62ULL << 30 }, { "locked", 8192 } };
	static const struct report_left pinned[] = { { "not_looked_at", 1 << 20 } };

	begin();
	CU_ASSERT_STRING_EQUAL(with(LIMIT_LEFT_ALONE, LIMIT_NONE, left, 3),
			       "left alone: 62.0 GiB shared; allow: kinds = { shared = true; }");
	CU_ASSERT_STRING_EQUAL(with(LIMIT_LEFT_ALONE, LIMIT_NONE, pinned, 1), "left alone: 1.0 MiB not looked at");
	CU_ASSERT_STRING_EQUAL(with(LIMIT_LEFT_ALONE, LIMIT_NONE, left, 0), migrator_limit_text[LIMIT_LEFT_ALONE]);
}

/* It has a row of its own, of 80 columns less the label. */
static void each_fits_its_row(void)
{
	static const struct report_left left[] = { { "hugetlb", 1023ULL << 30 } };

	begin();
	daemon_.current.promote_rate_mib_per_sec = 1048576;
	for (int limit = 0; limit < LIMIT_MAX; limit++)
		CU_ASSERT(strlen(with((enum migrator_limit)limit, LIMIT_NONE, left, 1)) <= 68);
}

TEST_MAIN(daemon_limits, TEST(most_general_comes_first), TEST(the_one_that_is_held_back_counts),
	  TEST(what_is_left_alone_says_how_to_allow_it), TEST(each_fits_its_row))
