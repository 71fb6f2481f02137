/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "harness.h"
#include "hotness_rig.h"

static int get(struct rig *rig, uint32_t pid, struct owner *ret)
{
	struct owner *owner = NULL;
	int r;

	rcu_enter();
	r = owners_get(rig->owners, pid, rig->now_ns, &owner);
	if (r == 0)
		memcpy(ret, owner, sizeof(*ret));
	rcu_leave();
	return r;
}

static void put_line(const struct rig *rig, uint32_t pid, const char *line)
{
	char path[64];

	snprintf(path, sizeof(path), "proc/%u/stat", pid);
	machine_put(&rig->machine, path, "%s", line);
}

static void an_owner_says_who(void)
{
	struct rig *rig = rig_new(NULL, false);
	struct owner a = { 0 }, b = { 0 }, *at;

	CU_ASSERT_EQUAL(get(rig, 150, &a), 0);
	CU_ASSERT_EQUAL(a.pid, 150);
	CU_ASSERT_EQUAL(a.start_ticks, 1500);
	CU_ASSERT_STRING_EQUAL(a.comm, "cat");
	CU_ASSERT_EQUAL(a.state, OWNER_ALIVE);
	CU_ASSERT_EQUAL(a.regions + a.hot_bytes, 0);
	CU_ASSERT_EQUAL(get(rig, 151, &b), 0);
	CU_ASSERT_NOT_EQUAL(a.slot, b.slot);
	CU_ASSERT_EQUAL(owners_count(rig->owners), 2);
	CU_ASSERT_EQUAL(owners_self_pid(rig->owners), 1);
	/* Found without looking: the file may be gone. */
	rig_end_process(rig, 150);
	CU_ASSERT_EQUAL(get(rig, 150, &b), 0);
	CU_ASSERT_EQUAL(b.slot, a.slot);
	rcu_enter();
	at = owners_at(rig->owners, a.slot);
	CU_ASSERT(at && at->pid == 150);
	CU_ASSERT_PTR_NULL(owners_at(rig->owners, 2));
	CU_ASSERT_PTR_NULL(owners_at(rig->owners, OWNER_NONE));
	rcu_leave();
	rig_free(rig);
	owners_free(NULL);
}

/* The name of a program is what it wants it to be. */
static void names_are_hostile(void)
{
	static const struct {
		const char *comm, *shown;
	} names[] = {
		{ "a b", "a b" },
		{ ") R 1 1 (", ") R 1 1 (" },
		{ "((", "((" },
		{ ")", ")" },
		{ ") S 9 9 9 0 -1 69", ") S 9 9 9 0 -1 " },
		{ "", "" },
		{ "fifteen letters", "fifteen letters" },
		{ "kworker/u256:7-events_unbound", "kworker/u256:7-" },
		{ "two\nlines", "two\nlines" },
	};
	struct rig *rig = rig_new(NULL, false);

	for (uint32_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct owner owner = { 0 };

		rig_put_process(rig, 500 + i, names[i].comm, 'S', 4194560, 123456 + i);
		CU_ASSERT_EQUAL(get(rig, 500 + i, &owner), 0);
		CU_ASSERT_EQUAL(owner.start_ticks, 123456 + i);
		CU_ASSERT_STRING_EQUAL(owner.comm, names[i].shown);
	}
	rig_free(rig);
}

static void lines_that_are_none(void)
{
	static const char *const lines[] = {
		"",
		"1",
		"1 (",
		"1 (cat",
		"1 (cat)",
		"1 (cat) S",
		"1 )cat( S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 5",
		"1 (cat) S 1 1 1 0 -1 0 1 0 0 0 1 1 0 0 20 0 1 0",     /* no start */
		"1 (cat) S 1 1 1 0 -1 0 1 0 0 0 1 1 0 0 20 0 1 0 x 1", /* no number */
		"1 (cat) S 1 1 1 0 -1 y 1 0 0 0 1 1 0 0 20 0 1 0 5 1", /* flags no number */
		"1 (cat) S 1 1 1 0 -1 0 1 0 0 0 1 1 0 0 20 0 1 0 -5 1",
		"1 (cat) S 1 1 1 0 -1 0 1 0 0 0 1 1 0 0 20 0 1 0 18446744073709551616 1",
		"1 (cat) Z 1 1 1 0 -1 0 1 0 0 0 1 1 0 0 20 0 1 0 5 1", /* a zombie */
		"1 (cat) X 1 1 1 0 -1 0 1 0 0 0 1 1 0 0 20 0 1 0 5 1",
	};
	struct rig *rig = rig_new(NULL, false);
	struct owner owner = { 0 };

	for (uint32_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		put_line(rig, 600 + i, lines[i]);
		CU_ASSERT_EQUAL(get(rig, 600 + i, &owner), -ESRCH);
	}
	put_line(rig, 700, "1 (cat) S 1 1 1 0 -1 0 1 0 0 0 1 1 0 0 20 0 1 0 18446744073709551615");
	CU_ASSERT_EQUAL(get(rig, 700, &owner), 0);
	CU_ASSERT_EQUAL(owner.start_ticks, UINT64_MAX);
	CU_ASSERT_EQUAL(owners_count(rig->owners), 1);
	rig_free(rig);
}

static void who_is_no_owner(void)
{
	struct rig *rig = rig_new(NULL, false);
	struct owner owner = { 0 };

	rig_put_process(rig, 1, "pghotd", 'S', 0, 5);
	rig_put_process(rig, 2, "kthreadd", 'S', 0x208040, 5);
	CU_ASSERT_EQUAL(get(rig, 1, &owner), -EPERM);
	CU_ASSERT_EQUAL(get(rig, 2, &owner), -EPERM);
	CU_ASSERT_EQUAL(get(rig, 2, &owner), -EPERM); /* from memory */
	CU_ASSERT_EQUAL(get(rig, 99, &owner), -ESRCH);
	CU_ASSERT_EQUAL(get(rig, 0, &owner), -ESRCH);
	CU_ASSERT_EQUAL(get(rig, UINT32_MAX, &owner), -ESRCH);
	CU_ASSERT_EQUAL(owners_count(rig->owners), 0);
	rig_free(rig);
}

/* For a second, of the caller's clock, nobody looks again; then somebody does. */
static void absence_is_remembered_for_a_second(void)
{
	struct rig *rig = rig_new(NULL, false);
	struct owner owner = { 0 };

	for (int round = 0; round < 3; round++) {
		uint32_t pid = 800 + (uint32_t)round;

		CU_ASSERT_EQUAL(get(rig, pid, &owner), -ESRCH);
		rig_put_process(rig, pid, "late", 'S', 0, 77);
		rig->now_ns += SEC / 2;
		CU_ASSERT_EQUAL(get(rig, pid, &owner), -ESRCH);
		CU_ASSERT_EQUAL(get(rig, pid + 1024, &owner), -ESRCH); /* has the same place */
		CU_ASSERT_EQUAL(get(rig, pid, &owner), 0);
		rig->now_ns += 40ULL * 86400 * SEC;
	}
	CU_ASSERT_EQUAL(get(rig, 900, &owner), -ESRCH);
	rig_put_process(rig, 900, "late", 'S', 0, 77);
	rig->now_ns += SEC + SEC / 100;
	CU_ASSERT_EQUAL(get(rig, 900, &owner), 0);
	/* A storm of pids leaves nothing behind. */
	for (uint32_t pid = 100000; pid < 105000; pid++)
		CU_ASSERT_EQUAL(get(rig, pid, &owner), -ESRCH);
	CU_ASSERT_EQUAL(owners_count(rig->owners), 4);
	rig_free(rig);
}

static void check_marks_who_ended(void)
{
	struct rig *rig = rig_new(NULL, false);
	struct owner a = { 0 }, b = { 0 }, c = { 0 };

	get(rig, 150, &a);
	get(rig, 151, &b);
	CU_ASSERT(owners_check(rig->owners, a.slot, 150, 1500));
	/* Copies that don't match the slot do no harm to who is there. */
	CU_ASSERT(!owners_check(rig->owners, a.slot, 150, 1501));
	CU_ASSERT(!owners_check(rig->owners, b.slot, 99, 990));
	CU_ASSERT(!owners_check(rig->owners, 12345, 99, 990));
	CU_ASSERT(!owners_check(rig->owners, OWNER_NONE, 99, 990));
	CU_ASSERT_EQUAL(get(rig, 150, &c) + get(rig, 151, &c), 0);
	/* Another process has the pid. */
	rig_put_process(rig, 150, "dog", 'S', 0, 1501);
	CU_ASSERT(!owners_check(rig->owners, a.slot, 150, 1500));
	CU_ASSERT(!owners_check(rig->owners, a.slot, 150, 1500));
	CU_ASSERT_EQUAL(get(rig, 150, &c), 0);
	CU_ASSERT_NOT_EQUAL(c.slot, a.slot);
	CU_ASSERT_EQUAL(c.start_ticks, 1501);
	CU_ASSERT_STRING_EQUAL(c.comm, "dog");
	rcu_enter();
	CU_ASSERT_EQUAL(owners_at(rig->owners, a.slot)->state, OWNER_GONE);
	rcu_leave();
	/* A zombie has no memory to move. */
	rig_put_process(rig, 151, "cat", 'Z', 0, 1510);
	CU_ASSERT(!owners_check(rig->owners, b.slot, 151, 1510));
	CU_ASSERT_EQUAL(get(rig, 151, &c), -ESRCH);
	CU_ASSERT_EQUAL(owners_count(rig->owners), 3);
	CU_ASSERT_EQUAL(owners_reap(rig->owners), 2);
	CU_ASSERT_EQUAL(owners_count(rig->owners), 1);
	rig_free(rig);
}

static void sweep_goes_round(void)
{
	struct rig *rig = rig_new(NULL, false);
	struct owner owner = { 0 };
	size_t marked = 0;

	CU_ASSERT_EQUAL(owners_sweep(rig->owners, 10), 0);
	CU_ASSERT_EQUAL(owners_reap(rig->owners), 0);
	for (uint32_t pid = 100; pid < 150; pid++)
		get(rig, pid, &owner);
	for (uint32_t pid = 100; pid < 150; pid += 5)
		rig_end_process(rig, pid);
	for (int i = 0; i < 5; i++) {
		size_t n = owners_sweep(rig->owners, 10);

		CU_ASSERT(n >= 1 && n <= 3);
		marked += n;
	}
	CU_ASSERT_EQUAL(marked, 10);
	CU_ASSERT_EQUAL(owners_sweep(rig->owners, 1000), 0);
	CU_ASSERT_EQUAL(owners_count(rig->owners), 50);
	CU_ASSERT_EQUAL(owners_reap(rig->owners), 10);
	CU_ASSERT_EQUAL(owners_count(rig->owners), 40);
	/* Marked by the mover. */
	get(rig, 101, &owner);
	owners_mark_gone(rig->owners, owner.slot);
	owners_mark_gone(rig->owners, OWNER_NONE);
	CU_ASSERT_EQUAL(owners_reap(rig->owners), 1);
	/* Slots are used again. */
	for (uint32_t pid = 160; pid < 171; pid++) {
		CU_ASSERT_EQUAL(get(rig, pid, &owner), 0);
		CU_ASSERT(owner.slot < 50);
	}
	rig_free(rig);
}

static void an_owner_waits_for_its_regions(void)
{
	struct rig *rig = rig_new(NULL, false);
	struct owner owner = { 0 };

	get(rig, 150, &owner);
	rcu_enter();
	owners_at(rig->owners, owner.slot)->regions = 1;
	rcu_leave();
	owners_mark_gone(rig->owners, owner.slot);
	CU_ASSERT_EQUAL(owners_reap(rig->owners), 0);
	rcu_enter();
	CU_ASSERT_PTR_NOT_NULL(owners_at(rig->owners, owner.slot));
	owners_at(rig->owners, owner.slot)->regions = 0;
	rcu_leave();
	CU_ASSERT_EQUAL(owners_reap(rig->owners), 1);
	rcu_enter();
	CU_ASSERT_PTR_NULL(owners_at(rig->owners, owner.slot));
	rcu_leave();
	rig_free(rig);
}

static int count_until(void *ctx, const struct owner *owner)
{
	int *left = ctx;

	(void)owner;
	return --*left == 0 ? 7 : 0;
}

static void for_each_stops(void)
{
	struct rig *rig = rig_new(NULL, false);
	struct owner owner = { 0 };
	int left = 100;

	for (uint32_t pid = 100; pid < 110; pid++)
		get(rig, pid, &owner);
	rcu_enter();
	CU_ASSERT_EQUAL(owners_for_each(rig->owners, count_until, &left), 0);
	CU_ASSERT_EQUAL(left, 90);
	left = 4;
	CU_ASSERT_EQUAL(owners_for_each(rig->owners, count_until, &left), 7);
	CU_ASSERT_EQUAL(left, 0);
	rcu_leave();
	rig_free(rig);
}

/* Without a descriptor to read with, nobody is said to be gone. */
static void no_descriptor_is_no_death(void)
{
	struct rig *rig = rig_new(NULL, false);
	struct rlimit limit, none;
	struct owner a = { 0 }, b = { 0 };

	get(rig, 150, &a);
	getrlimit(RLIMIT_NOFILE, &limit);
	none = limit;
	none.rlim_cur = 0;
	setrlimit(RLIMIT_NOFILE, &none);
	CU_ASSERT_EQUAL(get(rig, 151, &b), -ENOMEM);
	CU_ASSERT(!owners_check(rig->owners, a.slot, 150, 1500));
	CU_ASSERT_EQUAL(owners_sweep(rig->owners, 10), 0);
	setrlimit(RLIMIT_NOFILE, &limit);
	CU_ASSERT_EQUAL(get(rig, 151, &b), 0);
	CU_ASSERT(owners_check(rig->owners, a.slot, 150, 1500));
	rig_free(rig);
}

/* This process, as the running kernel shows it. */
static void real_proc(void)
{
	struct fsroot root;
	struct owners *owners;
	struct owner *owner;
	siginfo_t info;
	char name[16];
	pid_t child;

	CU_ASSERT_EQUAL(fsroot_open(&root, "/"), 0);
	owners = owners_new(&root, 1);
	rcu_thread_start();
	child = fork();
	if (child == 0) {
		pause();
		_exit(0);
	}
	rcu_enter();
	CU_ASSERT_EQUAL(owners_get(owners, (uint32_t)getpid(), 0, &owner), 0);
	CU_ASSERT_EQUAL(prctl(PR_GET_NAME, name), 0);
	CU_ASSERT_STRING_EQUAL(owner->comm, name);
	CU_ASSERT(owner->start_ticks > 0);
	CU_ASSERT_EQUAL(owners_get(owners, (uint32_t)child, 0, &owner), 0);
	rcu_leave();
	CU_ASSERT_EQUAL(owners_sweep(owners, 10), 0);
	kill(child, SIGKILL);
	CU_ASSERT_EQUAL(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
	CU_ASSERT_EQUAL(owners_sweep(owners, 10), 1); /* a zombie */
	waitpid(child, NULL, 0);
	CU_ASSERT_EQUAL(owners_sweep(owners, 10), 0);
	CU_ASSERT_EQUAL(owners_reap(owners), 1);
	rcu_thread_stop();
	owners_free(owners);
	fsroot_close(&root);
}

struct racer {
	struct rig *rig;
	pthread_barrier_t *barrier;
	uint32_t slot[100];
};

static void *race(void *arg)
{
	struct racer *racer = arg;
	struct owner *owner;

	rcu_thread_start();
	pthread_barrier_wait(racer->barrier);
	for (uint32_t i = 0; i < 100; i++) {
		rcu_enter();
		if (owners_get(racer->rig->owners, 100 + i, 0, &owner) == 0)
			racer->slot[i] = owner->slot;
		rcu_leave();
	}
	rcu_thread_stop();
	return NULL;
}

/* Two collectors see a process for the first time at once: one owner. */
static void two_insert_at_once(void)
{
	struct rig *rig = rig_new(NULL, false);
	struct racer racers[4];
	pthread_barrier_t barrier;
	pthread_t threads[4];

	pthread_barrier_init(&barrier, NULL, 4);
	for (int i = 0; i < 4; i++) {
		racers[i] = (struct racer){ .rig = rig, .barrier = &barrier };
		pthread_create(&threads[i], NULL, race, &racers[i]);
	}
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	for (int i = 1; i < 4; i++)
		CU_ASSERT_EQUAL(memcmp(racers[i].slot, racers[0].slot, sizeof(racers[0].slot)), 0);
	CU_ASSERT_EQUAL(owners_count(rig->owners), 100);
	pthread_barrier_destroy(&barrier);
	rig_free(rig);
}

static void *reap(void *arg)
{
	struct rig *rig = arg;
	uintptr_t n;

	rcu_thread_start();
	n = owners_reap(rig->owners);
	rcu_thread_stop();
	return (void *)n;
}

/* A collector that found it alive makes a region for it while it is being forgotten: it waits for that one. */
static void a_region_at_the_last_moment(void)
{
	struct rig *rig = rig_new(NULL, false);
	struct owner *owner, *same;
	pthread_t thread;
	uint32_t slot;
	void *n;

	rcu_enter();
	CU_ASSERT_EQUAL(owners_get(rig->owners, 150, 0, &owner), 0);
	slot = owner->slot;
	owners_mark_gone(rig->owners, slot);
	pthread_create(&thread, NULL, reap, rig);
	/* It can't get past us. If it could, it would by now. */
	for (int i = 0; i < 2000; i++)
		sched_yield();
	atomic_fetch_add(&owner->regions, 1);
	rcu_leave();
	pthread_join(thread, &n);
	CU_ASSERT_PTR_NULL(n);
	rcu_enter();
	same = owners_at(rig->owners, slot);
	CU_ASSERT_PTR_EQUAL(same, owner);
	CU_ASSERT_EQUAL(owners_get(rig->owners, 150, 0, &same), 0); /* the next one with the pid */
	CU_ASSERT_PTR_NOT_EQUAL(same, owner);
	if (owners_at(rig->owners, slot))
		atomic_fetch_sub(&owner->regions, 1);
	rcu_leave();
	CU_ASSERT_EQUAL(owners_reap(rig->owners), 1);
	CU_ASSERT_EQUAL(owners_count(rig->owners), 1);
	rig_free(rig);
}

TEST_MAIN(owners, TEST(an_owner_says_who), TEST(names_are_hostile), TEST(lines_that_are_none), TEST(who_is_no_owner),
	  TEST(absence_is_remembered_for_a_second), TEST(check_marks_who_ended), TEST(sweep_goes_round),
	  TEST(an_owner_waits_for_its_regions), TEST(for_each_stops), TEST(no_descriptor_is_no_death), TEST(real_proc),
	  TEST(two_insert_at_once), TEST(a_region_at_the_last_moment))
