/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <sys/stat.h>
#include <unistd.h>

#include "harness.h"
#include "tracer.h"

/* Of a caller with one group. */
#define MAY(root, uid, gid, pid) tracer_may(root, uid, &(const uint32_t){ gid }, 1, pid)

#define UID 1000
#define GID 100

static char dir[] = "/tmp/pghot-tracer-XXXXXX";
static struct fsroot root;

/* /proc/812 with @status, as user @owner has it. */
static bool make(const char *status, uint32_t owner)
{
	char path[64];
	FILE *out;

	snprintf(path, sizeof(path), "%s/proc", dir);
	mkdir(path, 0755);
	snprintf(path, sizeof(path), "%s/proc/812", dir);
	mkdir(path, 0755);
	if (chown(path, owner, (gid_t)-1) < 0)
		return false;
	snprintf(path, sizeof(path), "%s/proc/812/status", dir);
	out = fopen(path, "w");
	fputs(status, out);
	return fclose(out) == 0;
}

static void done(void)
{
	char path[64];

	fsroot_close(&root);
	for (int i = 0; i < 4; i++) {
		static const char *const parts[] = { "/proc/812/status", "/proc/812", "/proc", "" };

		snprintf(path, sizeof(path), "%s%s", dir, parts[i]);
		remove(path);
	}
}

static void its_own_user_may(void)
{
	static const char own[] = "Name:\tx\nUid:\t1000\t1000\t1000\t1000\nGid:\t100\t100\t100\t100\n";
	static const char *const others[] = {
		"Name:\tx\nUid:\t1000\t0\t1000\t1000\nGid:\t100\t100\t100\t100\n",
		"Name:\tx\nUid:\t1000\t1000\t0\t1000\nGid:\t100\t100\t100\t100\n",
		"Name:\tx\nUid:\t1000\t1000\t1000\t1000\nGid:\t100\t8\t100\t100\n",
		"Name:\tx\nUid:\t1001\t1001\t1001\t1001\nGid:\t100\t100\t100\t100\n",
		"Name:\tUid:\t1000\t1000\t1000\t1000\n",
		"",
	};

	if (geteuid() != 0)
		return test_skip("needs root to give a file to another user");
	if (!mkdtemp(dir) || fsroot_open(&root, dir) < 0)
		return test_skip("no folder to work in");
	CU_ASSERT(make(own, UID));
	CU_ASSERT_TRUE(MAY(&root, UID, GID, 812));
	CU_ASSERT_FALSE(MAY(&root, UID, GID + 1, 812));
	CU_ASSERT_FALSE(MAY(&root, UID + 1, GID, 812));
	CU_ASSERT_FALSE(MAY(&root, UID, GID, 813)); /* gone */
	CU_ASSERT_TRUE(MAY(&root, 0, 0, 812));
	/* In several groups. */
	CU_ASSERT_TRUE(tracer_may(&root, UID, (const uint32_t[]){ 7, GID, 9 }, 3, 812));
	CU_ASSERT_FALSE(tracer_may(&root, UID, (const uint32_t[]){ 7, 9 }, 2, 812));
	CU_ASSERT_FALSE(tracer_may(&root, UID, NULL, 0, 812));
	/* Not dumpable: its folder is root's. */
	CU_ASSERT(make(own, 0));
	CU_ASSERT_FALSE(MAY(&root, UID, GID, 812));
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		CU_ASSERT(make(others[i], UID));
		CU_ASSERT_FALSE(MAY(&root, UID, GID, 812));
	}
	done();
}

TEST_MAIN(tracer, TEST(its_own_user_may))
