/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <unistd.h>

#include "harness.h"
#include "machine.h"
#include "source_rivals.h"

static void put_process(const struct machine *m, int pid, const char *comm, const char *link)
{
	char path[64];

	snprintf(path, sizeof(path), "proc/%d/comm", pid);
	machine_put(m, path, "%s", comm);
	snprintf(path, sizeof(path), "proc/%d/fd/0", pid);
	machine_link(m, path, "/dev/null");
	snprintf(path, sizeof(path), "proc/%d/fd/7", pid);
	machine_link(m, path, link);
}

static void who_has_events(void)
{
	struct machine m;
	char who[120];

	machine_new(&m);
	memset(who, 'x', sizeof(who));
	CU_ASSERT_EQUAL(source_rivals_name(&m.root, who, sizeof(who)), 0);
	CU_ASSERT_STRING_EQUAL(who, "");
	put_process(&m, 41, "bash", "/dev/pts/0");
	put_process(&m, 42, "eventd", "anon_inode:[eventfd]");
	put_process(&m, getpid(), "pghotd", "anon_inode:[perf_event]");
	machine_put(&m, "proc/self/comm", "pghotd");
	CU_ASSERT_EQUAL(source_rivals_name(&m.root, who, sizeof(who)), 0);
	put_process(&m, 812, "perf", "anon_inode:[perf_event]");
	CU_ASSERT_EQUAL(source_rivals_name(&m.root, who, sizeof(who)), 1);
	CU_ASSERT_STRING_EQUAL(who, "perf (pid 812)");
	for (int i = 0; i < 4; i++)
		put_process(&m, 900 + i, "a-name-that-is-longer", "anon_inode:[perf_event]");
	CU_ASSERT_EQUAL(source_rivals_name(&m.root, who, sizeof(who)), 5);
	CU_ASSERT(strlen(who) < sizeof(who) - 1);
	/* In no room at all it is counted all the same. */
	CU_ASSERT_EQUAL(source_rivals_name(&m.root, who, 1), 5);
	CU_ASSERT_STRING_EQUAL(who, "");
	machine_free(&m);
}

TEST_MAIN(source_rivals, TEST(who_has_events))
