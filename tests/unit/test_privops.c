/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <linux/perf_event.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "privops_rig.h"

static void get_tells_what_is_no_value(void)
{
	struct bench b;
	uint64_t value = 5;

	bench_init(&b);
	CHECK_VALUES(&b, 0, 65536);
	machine_remove(&b.machine, RATE);
	CU_ASSERT_EQUAL(privops_setting_get(&b.priv, SETTING_NUMA_PROMOTE_RATE, &value), -ENOENT);
	machine_put(&b.machine, MODE, "-1");
	CU_ASSERT_EQUAL(privops_setting_get(&b.priv, SETTING_NUMA_BALANCING, &value), -EINVAL);
	machine_put(&b.machine, MODE, "2147483648");
	CU_ASSERT_EQUAL(privops_setting_get(&b.priv, SETTING_NUMA_BALANCING, &value), -ERANGE);
	machine_put(&b.machine, MODE, "%s", "");
	CU_ASSERT_EQUAL(privops_setting_get(&b.priv, SETTING_NUMA_BALANCING, &value), -EINVAL);
	CU_ASSERT_EQUAL(value, 5);
	machine_put(&b.machine, MODE, "2147483647");
	CU_ASSERT_EQUAL(privops_setting_get(&b.priv, SETTING_NUMA_BALANCING, &value), 0);
	CU_ASSERT_EQUAL(value, INT32_MAX);
	bench_done(&b);
}

static void set_saves_and_restore_puts_back(void)
{
	struct bench b;
	struct stat st;
	mode_t mask = umask(0077);

	bench_init(&b);
	CU_ASSERT_EQUAL(privops_setting_set(&b.priv, SETTING_NUMA_PROMOTE_RATE, 0), 0);
	CU_ASSERT_STRING_EQUAL(saved_text(&b), "pghotd-saved 1\nnuma_balancing_promote_rate_limit_MBps 65536 0\n");
	CU_ASSERT_EQUAL(privops_setting_set(&b.priv, SETTING_NUMA_BALANCING, 2), 0);
	CU_ASSERT_STRING_EQUAL(saved_text(&b), "pghotd-saved 1\nnuma_balancing 0 2\n"
					       "numa_balancing_promote_rate_limit_MBps 65536 0\n");
	CHECK_VALUES(&b, 2, 0);
	CU_ASSERT_EQUAL(stat(b.saved, &st), 0);
	CU_ASSERT_EQUAL(st.st_mode & 07777, 0600);
	CHECK_RESTORED(restore(&b, 0), 2, 0, 0);
	CHECK_VALUES(&b, 0, 65536);
	CU_ASSERT_NOT_EQUAL(access(b.saved, F_OK), 0);
	CHECK_RESTORED(restore(&b, 0), 0, 0, 0);
	bench_done(&b);
	umask(mask);
}

static void folder_is_made(void)
{
	struct bench b;
	struct stat st;
	char folder[PATH_MAX], other[PATH_MAX];
	mode_t mask = umask(0022);

	bench_init(&b);
	machine_path(&b.machine, folder, "run/pghotd");
	CU_ASSERT_NOT_EQUAL(access(folder, F_OK), 0);
	CU_ASSERT_EQUAL(privops_setting_set(&b.priv, SETTING_NUMA_BALANCING, 2), 0);
	CU_ASSERT_EQUAL(stat(folder, &st), 0);
	CU_ASSERT_EQUAL(st.st_mode & 07777, 0755);
	/* Nothing of the way of writing is left. */
	machine_path(&b.machine, other, "run/pghotd/saved.tmp");
	CU_ASSERT_NOT_EQUAL(access(other, F_OK), 0);
	bench_done(&b);
	umask(mask);
}

/* No file can be written: the setting must not change. */
static void set_changes_nothing_that_it_cannot_save(void)
{
	struct bench b;

	bench_init(&b);
	machine_put(&b.machine, "run/pghotd", "a file, where the folder should be");
	CU_ASSERT_EQUAL(privops_setting_set(&b.priv, SETTING_NUMA_BALANCING, 2), -ENOTDIR);
	CHECK_VALUES(&b, 0, 65536);
	machine_path(&b.machine, b.saved, "run/no/such/saved");
	CU_ASSERT_EQUAL(privops_setting_set(&b.priv, SETTING_NUMA_BALANCING, 2), -ENOENT);
	CHECK_VALUES(&b, 0, 65536);
	machine_path(&b.machine, b.saved, "run/pghotd2");
	CU_ASSERT_EQUAL(privops_setting_set(&b.priv, SETTING_NUMA_BALANCING, PRIVOPS_VALUE_MAX + 1ULL), -ERANGE);
	machine_remove(&b.machine, MODE);
	CU_ASSERT_EQUAL(privops_setting_set(&b.priv, SETTING_NUMA_BALANCING, 2), -ENOENT);
	CU_ASSERT_NOT_EQUAL(access(b.saved, F_OK), 0);
	bench_done(&b);
}

static void set_to_what_it_is_leaves_no_trace(void)
{
	struct bench b;

	bench_init(&b);
	CU_ASSERT_EQUAL(privops_setting_set(&b.priv, SETTING_NUMA_BALANCING, 0), 0);
	CU_ASSERT_STRING_EQUAL(saved_text(&b), "");
	bench_done(&b);
}

/* What a killed daemon left is the truth; a second one sees its values, not those of before. */
static void oldest_before_is_kept(void)
{
	struct bench b;

	bench_init(&b);
	put_saved(&b, "pghotd-saved 1\nnuma_balancing 1 2\n");
	machine_put(&b.machine, MODE, "2");
	CU_ASSERT_EQUAL(privops_setting_set(&b.priv, SETTING_NUMA_BALANCING, 2), 0);
	CU_ASSERT_STRING_EQUAL(saved_text(&b), "pghotd-saved 1\nnuma_balancing 1 2\n");
	/* Another value of ours. */
	CU_ASSERT_EQUAL(privops_setting_set(&b.priv, SETTING_NUMA_BALANCING, 3), 0);
	CU_ASSERT_STRING_EQUAL(saved_text(&b), "pghotd-saved 1\nnuma_balancing 1 3\n");
	/* Someone put something else there in between. */
	machine_put(&b.machine, MODE, "0");
	CU_ASSERT_EQUAL(privops_setting_set(&b.priv, SETTING_NUMA_BALANCING, 2), 0);
	CU_ASSERT_STRING_EQUAL(saved_text(&b), "pghotd-saved 1\nnuma_balancing 1 2\n");
	CHECK_RESTORED(restore(&b, 0), 1, 0, 0);
	CHECK_VALUES(&b, 1, 65536);
	bench_done(&b);
}

static void theirs_stays(void)
{
	struct bench b;

	bench_init(&b);
	CU_ASSERT_EQUAL(privops_setting_set(&b.priv, SETTING_NUMA_PROMOTE_RATE, 0), 0);
	CU_ASSERT_EQUAL(privops_setting_set(&b.priv, SETTING_NUMA_BALANCING, 2), 0);
	machine_put(&b.machine, MODE, "1");
	CHECK_RESTORED(restore(&b, 0), 1, 1, 0);
	CHECK_VALUES(&b, 1, 65536);
	CU_ASSERT_STRING_EQUAL(saved_text(&b), "");
	bench_done(&b);
}

static void setting_that_is_gone_is_left(void)
{
	struct bench b;

	bench_init(&b);
	CU_ASSERT_EQUAL(privops_setting_set(&b.priv, SETTING_NUMA_PROMOTE_RATE, 0), 0);
	machine_remove(&b.machine, RATE);
	CHECK_RESTORED(restore(&b, 0), 0, 1, 0);
	CU_ASSERT_STRING_EQUAL(saved_text(&b), "");
	bench_done(&b);
}

/*
 * Run @fn as a user who is not root, in a child; its exit status. Files that only root may write can't be had by root.
 */
static int as_nobody(int (*fn)(const struct bench *b), const struct bench *b)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		if (geteuid() == 0 && setresuid(65534, 65534, 65534) < 0)
			_exit(99);
		_exit(fn(b));
	}
	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int set_read_only(const struct bench *b)
{
	return -privops_setting_set(&b->priv, SETTING_NUMA_BALANCING, 2);
}

static int restore_read_only(const struct bench *b)
{
	struct privops_restored restored;

	if (privops_restore(&b->priv, &restored) < 0)
		return 50;
	return restored.restored * 100 + restored.left * 10 + restored.failed;
}

static void give_to_nobody(const struct bench *b)
{
	static const char *const paths[] = { "", "run", "run/pghotd", "run/pghotd/saved", RATE };
	char path[PATH_MAX];

	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		machine_path(&b->machine, path, paths[i]);
		if (geteuid() == 0 && chown(path, 65534, 65534) < 0 && errno != ENOENT)
			abort();
	}
	machine_path(&b->machine, path, MODE);
	if (chmod(path, 0444) < 0)
		abort();
}

/* The kernel refuses: the file must not say that we had set it. */
static void refused_setting_is_not_saved(void)
{
	struct bench b;

	bench_init(&b);
	give_to_nobody(&b);
	CU_ASSERT_EQUAL(as_nobody(set_read_only, &b), EACCES);
	CU_ASSERT_STRING_EQUAL(saved_text(&b), "");
	bench_done(&b);

	/* With something in it already, that stays. */
	bench_init(&b);
	put_saved(&b, "pghotd-saved 1\nnuma_balancing_promote_rate_limit_MBps 65536 0\n");
	give_to_nobody(&b);
	CU_ASSERT_EQUAL(as_nobody(set_read_only, &b), EACCES);
	CU_ASSERT_STRING_EQUAL(saved_text(&b), "pghotd-saved 1\nnuma_balancing_promote_rate_limit_MBps 65536 0\n");
	bench_done(&b);
}

/* What can't be put back stays in the file for the next try; what was is out of it. */
static void failed_restore_is_tried_again(void)
{
	struct bench b;
	char path[PATH_MAX];

	bench_init(&b);
	machine_put(&b.machine, MODE, "2");
	machine_put(&b.machine, RATE, "0");
	put_saved(&b, "pghotd-saved 1\nnuma_balancing 1 2\nnuma_balancing_promote_rate_limit_MBps 65536 0\n");
	give_to_nobody(&b);
	CU_ASSERT_EQUAL(as_nobody(restore_read_only, &b), 101);
	CHECK_VALUES(&b, 2, 65536);
	CU_ASSERT_STRING_EQUAL(saved_text(&b), "pghotd-saved 1\nnuma_balancing 1 2\n");
	machine_path(&b.machine, path, MODE);
	CU_ASSERT_EQUAL(chmod(path, 0666), 0);
	/* The value that we had set once is now someone's own choice. */
	machine_put(&b.machine, RATE, "0");
	CU_ASSERT_EQUAL(as_nobody(restore_read_only, &b), 100);
	CHECK_VALUES(&b, 1, 0);
	CU_ASSERT_STRING_EQUAL(saved_text(&b), "");
	bench_done(&b);
}

static int events_opened, event_enabled = -1;

static int fake_open(void *ctx, const struct perf_event_attr *attr, int cpu)
{
	events_opened += *(int *)ctx;
	return attr->type == PERF_TYPE_SOFTWARE ? 100 + cpu : -EACCES;
}

static int fake_enable(void *ctx, int fd, bool on)
{
	(void)ctx;
	event_enabled = fd * 2 + on;
	return 0;
}

static void events_go_through_the_door(void)
{
	static const struct privops_ops ops = { .event_open = fake_open, .event_enable = fake_enable };
	int one = 1;
	struct privops priv = { .ops = &ops, .ctx = &one };
	struct perf_event_attr attr = { .type = PERF_TYPE_SOFTWARE };

	CU_ASSERT_EQUAL(privops_event_open(&priv, &attr, 3), 103);
	CU_ASSERT_EQUAL(events_opened, 1);
	CU_ASSERT_EQUAL(privops_event_enable(&priv, 103, true), 0);
	CU_ASSERT_EQUAL(event_enabled, 207);
	attr.type = PERF_TYPE_RAW;
	CU_ASSERT_EQUAL(privops_event_open(&priv, &attr, 3), -EACCES);
}

/* The real ones say -errno; nothing here needs privilege. */
static void direct_ones_report_errors(void)
{
	struct privops priv = { .ops = &privops_direct };
	struct perf_event_attr attr = { .type = UINT32_MAX, .size = 1 };

	CU_ASSERT(privops_event_open(&priv, &attr, 0) < 0);
	CU_ASSERT_EQUAL(privops_event_enable(&priv, -1, true), -EBADF);
}

TEST_MAIN(privops, TEST(get_tells_what_is_no_value), TEST(set_saves_and_restore_puts_back), TEST(folder_is_made),
	  TEST(set_changes_nothing_that_it_cannot_save), TEST(set_to_what_it_is_leaves_no_trace),
	  TEST(oldest_before_is_kept), TEST(theirs_stays), TEST(setting_that_is_gone_is_left),
	  TEST(refused_setting_is_not_saved), TEST(failed_restore_is_tried_again), TEST(events_go_through_the_door),
	  TEST(direct_ones_report_errors))
