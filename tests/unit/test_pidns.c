/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <sched.h>
#include <sys/wait.h>

#include "harness.h"
#include "machine.h"
#include "pidns.h"

static void check_link(const char *target, int want)
{
	struct machine m;

	machine_new(&m);
	if (target)
		machine_link(&m, "proc/self/ns/pid", target);
	CU_ASSERT_EQUAL(pidns_is_child(&m.root), want);
	machine_free(&m);
}

static void by_inode(void)
{
	check_link("pid:[4026531836]", 0);
	check_link("pid:[4026531837]", 1);
	check_link("pid:[4026532567]", 1);
	check_link("pid:[1]", 1);
	check_link("pid:[8321499132]", 1); /* not the same in 32 bits only */
	check_link("pid:[8321499132", -EINVAL);
}

static void what_is_not_understood(void)
{
	check_link(NULL, -ENOENT);
	check_link("pid:[]", -EINVAL);
	check_link("pid:[0]", -EINVAL);
	check_link("pid:[4026531836", -EINVAL);
	check_link("pid:4026531836]", -EINVAL);
	check_link("mnt:[4026531836]", -EINVAL);
	check_link("pid:[4026531836x]", -EINVAL);
	check_link("p", -EINVAL);
	check_link("pid:[99999999999999999999]", -EINVAL);
	check_link("pid:[00000000000000000000000000000000000000000000000000000000000000000000001]", -ENAMETOOLONG);
}

static void cgroups(void)
{
	static const struct {
		const char *target;
		int want;
	} table[] = {
		{ "cgroup:[4026531835]", 0 },
		{ "cgroup:[4026532567]", 1 },
		{ "pid:[4026531836]", -EINVAL },
		{ NULL, -ENOENT },
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct machine m;

		machine_new(&m);
		if (table[i].target)
			machine_link(&m, "proc/self/ns/cgroup", table[i].target);
		CU_ASSERT_EQUAL(pidns_cgroup_is_child(&m.root), table[i].want);
		machine_free(&m);
	}
}

/* On the running kernel: whoever is put into a namespace of its own is told so. */
static void in_a_real_child(void)
{
	struct fsroot root;
	int status = 0;
	pid_t pid;

	CU_ASSERT_EQUAL(fsroot_open(&root, "/"), 0);
	pid = fork();
	if (pid == 0) {
		/* What this process is in doesn't change by it, but that of its children does. */
		if (unshare(CLONE_NEWPID) < 0)
			_exit(99);
		pid = fork();
		if (pid == 0)
			_exit(pidns_is_child(&root) == 1 ? 0 : 1);
		if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
			_exit(98);
		_exit(WEXITSTATUS(status));
	}
	CU_ASSERT_EQUAL(waitpid(pid, &status, 0), pid);
	fsroot_close(&root);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 99) {
		test_skip("may not make a pid namespace");
		return;
	}
	CU_ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST_MAIN(pidns, TEST(by_inode), TEST(what_is_not_understood), TEST(cgroups), TEST(in_a_real_child))
