/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "guests.h"
#include "harness.h"
#include "machine.h"

static void put_guest(struct machine *m, unsigned int pid, int fd, const char *comm, const char *statm)
{
	char path[128];

	snprintf(path, sizeof(path), "sys/kernel/debug/kvm/%u-%d/exits", pid, fd);
	machine_put(m, path, "1");
	snprintf(path, sizeof(path), "proc/%u/comm", pid);
	if (comm)
		machine_put(m, path, "%s", comm);
	snprintf(path, sizeof(path), "proc/%u/statm", pid);
	if (statm)
		machine_put(m, path, "%s", statm);
}

static void largest_first_and_each_once(void)
{
	struct guest guests[2];
	struct machine m;

	machine_new(&m);
	CU_ASSERT_EQUAL(guests_read(&m.root, guests, 2), 0); /* no KVM */
	machine_put(&m, "sys/kernel/debug/kvm/exits", "5");
	machine_put(&m, "sys/kernel/debug/kvm/halt_poll", "5");
	CU_ASSERT_EQUAL(guests_read(&m.root, guests, 2), 0);
	put_guest(&m, 812, 11, "qemu-system-x86", "5000 300 20 1 0 4000 0");
	CU_ASSERT_EQUAL(guests_read(&m.root, guests, 2), 1);
	CU_ASSERT_EQUAL(guests[0].pid, 812);
	CU_ASSERT_STRING_EQUAL(guests[0].name, "qemu-system-x86");
	CU_ASSERT_EQUAL(guests[0].bytes, 300 * 4096);
	put_guest(&m, 812, 12, NULL, NULL); /* its second machine */
	put_guest(&m, 9, 3, "small", "50 10 1 1 0 1 0");
	put_guest(&m, 4000, 3, "large", "9000 8000 1 1 0 1 0");
	CU_ASSERT_EQUAL(guests_read(&m.root, guests, 2), 3);
	CU_ASSERT_EQUAL(guests[0].pid, 4000);
	CU_ASSERT_EQUAL(guests[0].bytes, 8000 * 4096);
	CU_ASSERT_EQUAL(guests[1].pid, 812);
	CU_ASSERT_EQUAL(guests_read(&m.root, guests, 0), 3);
	machine_free(&m);
}

static void what_is_odd(void)
{
	struct guest guests[4];
	struct machine m;

	machine_new(&m);
	put_guest(&m, 7, 1, NULL, NULL); /* it has just ended */
	CU_ASSERT_EQUAL(guests_read(&m.root, guests, 4), 1);
	CU_ASSERT_STRING_EQUAL(guests[0].name, "");
	CU_ASSERT_EQUAL(guests[0].bytes, 0);
	put_guest(&m, 8, 1, "x", "nothing");
	machine_put(&m, "sys/kernel/debug/kvm/99999999999999999999999999-1/exits", "1");
	machine_put(&m, "sys/kernel/debug/kvm/9999999999-1/exits", "1");
	machine_put(&m, "sys/kernel/debug/kvm/0-1/exits", "1");
	machine_put(&m, "sys/kernel/debug/kvm/-1/exits", "1");
	CU_ASSERT_EQUAL(guests_read(&m.root, guests, 4), 2);
	machine_free(&m);
}

TEST_MAIN(guests, TEST(largest_first_and_each_once), TEST(what_is_odd))
