/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "privops_rig.h"
#include "privops_saved.h"

/*
 * Killed at each point of setting and of putting back, as the file and the setting are then; after that a restore gives
 * the old value, and a second one changes nothing any more.
 */
static void left_by_a_kill_at_any_point(void)
{
	static const struct {
		const char *saved;
		int now, restored, left, then;
	} points[] = {
		/* set(2) from 0: */
		{ "", 0, 0, 0, 0 },                                     /* before saving */
		{ "pghotd-saved 1\nnuma_balancing 0 2\n", 0, 0, 0, 0 }, /* saved, not set */
		{ "pghotd-saved 1\nnuma_balancing 0 2\n", 2, 1, 0, 0 }, /* set */
		/* set(3) after that: */
		{ "pghotd-saved 1\nnuma_balancing 0 2 3\n", 2, 1, 0, 0 }, /* saved, not set */
		{ "pghotd-saved 1\nnuma_balancing 0 2 3\n", 3, 1, 0, 0 }, /* set, not saved again */
		{ "pghotd-saved 1\nnuma_balancing 0 3\n", 3, 1, 0, 0 },   /* done */
		{ "pghotd-saved 1\nnuma_balancing 0 3\n", 2, 0, 1, 2 },   /* and then 2 is someone else's */
		/* restore: put back, the file still there */
		{ "pghotd-saved 1\nnuma_balancing 0 2\n", 0, 0, 0, 0 },
	};

	for (size_t i = 0; i < sizeof(points) / sizeof(points[0]); i++) {
		struct bench b;

		bench_init(&b);
		if (points[i].saved[0])
			put_saved(&b, points[i].saved);
		machine_put(&b.machine, MODE, "%d", points[i].now);
		CHECK_RESTORED(restore(&b, 0), points[i].restored, points[i].left, 0);
		CHECK_VALUES(&b, (uint64_t)points[i].then, 65536);
		CU_ASSERT_STRING_EQUAL(saved_text(&b), "");
		CHECK_RESTORED(restore(&b, 0), 0, 0, 0);
		bench_done(&b);
	}
}

/* Die at system call @nr, or, with @flag, where its third argument has that bit. false: no seccomp here. */
static bool die_at(unsigned int nr, unsigned int flag)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, flag, 0, flag ? 1 : 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { .len = sizeof(filter) / sizeof(filter[0]), .filter = filter };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/*
 * Set (or restore) in a child that is killed for real at a system call: 0 killed, 1 it went through, 2 no seccomp. The
 * descriptor that opening a setting for writing would give is one such point: O_TRUNC is how fsroot opens it.
 */
static int in_a_child_that_dies(const struct bench *b, uint64_t value, unsigned int nr, unsigned int flag)
{
	struct privops_restored restored;
	pid_t pid = fork();
	int status = 0;

	if (pid == 0) {
		prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* no core of it */
		if (!die_at(nr, flag))
			_exit(2);
		if (value == UINT64_MAX)
			privops_restore(&b->priv, &restored);
		else
			privops_setting_set(&b->priv, SETTING_NUMA_BALANCING, value);
		_exit(1);
	}
	CU_ASSERT_EQUAL(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 0;
}

static void really_killed(void)
{
	static const struct {
		unsigned int nr, flag;
	} points[] = {
		{ SYS_mkdir, 0 },  { SYS_fsync, 0 }, { SYS_rename, 0 }, { SYS_openat, O_TRUNC }, /* of the setting */
		{ SYS_unlink, 0 },
	};
	int kills = 0;

	for (size_t i = 0; i < sizeof(points) / sizeof(points[0]); i++) {
		for (int round = 0; round < 3; round++) {
			/* From no value of ours, from one of ours to another, and while it is put back. */
			uint64_t now = round == 0 ? 1 : 2, next = round == 0 ? 2 : round == 1 ? 3 : UINT64_MAX;
			struct privops_saved saved;
			struct bench b;
			int r;

			bench_init(&b);
			machine_put(&b.machine, MODE, "1");
			if (round > 0)
				CU_ASSERT_EQUAL(privops_setting_set(&b.priv, SETTING_NUMA_BALANCING, 2), 0);
			r = in_a_child_that_dies(&b, next, points[i].nr, points[i].flag);
			if (r == 2) {
				bench_done(&b);
				test_skip("no seccomp here");
				return;
			}
			kills += r == 0;
			/* The file, if there is one, is whole; and it knows what the setting is. */
			r = privops_saved_load(b.saved, &saved);
			CU_ASSERT_TRUE(r == 0 || r == -ENOENT);
			CU_ASSERT_TRUE(round != 1 || r == 0);
			now = value_of(&b, SETTING_NUMA_BALANCING);
			CU_ASSERT_TRUE(now == 1 || (r == 0 && privops_saved_is_ours(&saved.entry[0], now)));
			restore(&b, 0);
			CHECK_VALUES(&b, 1, 65536);
			CU_ASSERT_STRING_EQUAL(saved_text(&b), "");
			bench_done(&b);
		}
	}
	/* Putting back makes no folder and renames nothing, having nothing to keep. */
	CU_ASSERT_EQUAL(kills, 5 + 5 + 3);
}

/* Killed while the file was written: the one beside it is nobody's, and in nobody's way. */
static void half_written_file(void)
{
	struct bench b;

	bench_init(&b);
	machine_put_bytes(&b.machine, "run/pghotd/saved.tmp", "pghotd-sa", 9);
	CHECK_RESTORED(restore(&b, 0), 0, 0, 0);
	CU_ASSERT_EQUAL(privops_setting_set(&b.priv, SETTING_NUMA_BALANCING, 2), 0);
	CU_ASSERT_STRING_EQUAL(saved_text(&b), "pghotd-saved 1\nnuma_balancing 0 2\n");
	bench_done(&b);
}

static const char *const garbled[] = {
	"",
	"\n",
	"pghotd-saved 1",
	"pghotd-saved 1\n", /* of nothing: we write no such file */
	"pghotd-saved 2\nnuma_balancing 0 2\n",
	"pghotd-saved 1\nnuma_balancing 0 2",
	"pghotd-saved 1\nnuma_balancing 0 2\n\n",
	"pghotd-saved 1\n\nnuma_balancing 0 2\n",
	"pghotd-saved 1\nnuma_balancing 0\n",
	"pghotd-saved 1\nnuma_balancing\n",
	"pghotd-saved 1\nnuma_balancing 0 2 3 4\n",
	"pghotd-saved 1\nnuma_balancing 0 2 \n",
	"pghotd-saved 1\nnuma_balancing  0 2\n",
	"pghotd-saved 1\n numa_balancing 0 2\n",
	"pghotd-saved 1\nnuma_balancing 0x0 2\n",
	"pghotd-saved 1\nnuma_balancing -1 2\n",
	"pghotd-saved 1\nnuma_balancing 0 2147483648\n",
	"pghotd-saved 1\nnuma_balancing 0 99999999999999999999\n",
	"pghotd-saved 1\nnuma_balancing 0 2\nnuma_balancing 0 2\n",
	"pghotd-saved 1\nsched_rt_runtime_us 950000 -1\n",
	"pghotd-saved 1\n../../core_pattern 0 2\n",
	"pghotd-saved 1\nnuma_balancing 0 2\r\n",
	"pghotd-saved 10\nnuma_balancing 0 2\n",
	"pghotd-saved 1\nnuma_balancing 0 22", /* cut off, perhaps in a number */
	"someone else's file\n",
};

static void garbled_file_is_left_alone(void)
{
	for (size_t i = 0; i < sizeof(garbled) / sizeof(garbled[0]); i++) {
		struct privops_saved saved;
		struct bench b;

		CU_ASSERT_EQUAL(privops_saved_parse(garbled[i], strlen(garbled[i]), &saved), -EBADMSG);
		bench_init(&b);
		machine_put(&b.machine, MODE, "2");
		put_saved(&b, garbled[i]);
		CHECK_RESTORED(restore(&b, -EBADMSG), 0, 0, 0);
		/* Nor is it overwritten: perhaps someone can still read it. */
		CU_ASSERT_EQUAL(privops_setting_set(&b.priv, SETTING_NUMA_BALANCING, 3), -EBADMSG);
		CU_ASSERT_STRING_EQUAL(saved_text(&b), garbled[i]);
		CHECK_VALUES(&b, 2, 65536);
		bench_done(&b);
	}
}

static void binary_and_long_files_are_garbled(void)
{
	static const char nul[] = "pghotd-saved 1\nnuma_balancing 0 2\0 3\n";
	struct privops_saved saved;
	char text[2000];
	struct bench b;

	CU_ASSERT_EQUAL(privops_saved_parse(nul, sizeof(nul) - 1, &saved), -EBADMSG);
	memset(text, '\n', sizeof(text));
	memcpy(text, "pghotd-saved 1\nnuma_balancing 0 2", 33);
	bench_init(&b);
	machine_put_bytes(&b.machine, "run/pghotd/saved", text, sizeof(text));
	CU_ASSERT_EQUAL(chmod(b.saved, 0600), 0);
	restore(&b, -EBADMSG);
	/* No byte of it is just cut off, at any length. */
	for (size_t n = 0; n < 33; n++)
		CU_ASSERT_EQUAL(privops_saved_parse(text, n, &saved), -EBADMSG);
	CU_ASSERT_EQUAL(privops_saved_parse(text, 34, &saved), 0);
	bench_done(&b);
}

static void text_round_trip(void)
{
	struct privops_saved saved = { 0 }, got;
	char text[PRIVOPS_SAVED_TEXT_MAX];
	size_t len;

	CU_ASSERT_EQUAL(privops_saved_format(&saved, text), 0);
	for (int i = 0; i < SETTING_MAX; i++)
		saved.entry[i] = (struct privops_saved_entry){ .present = true,
							       .before = INT32_MAX,
							       .n_after = PRIVOPS_SAVED_AFTER_MAX,
							       .after = { INT32_MAX - 1, INT32_MAX - 2 } };
	len = privops_saved_format(&saved, text);
	CU_ASSERT(len > 0 && len < sizeof(text));
	CU_ASSERT_EQUAL(privops_saved_parse(text, len, &got), 0);
	CU_ASSERT_EQUAL(memcmp(&got, &saved, sizeof(got)), 0);
	CU_ASSERT_TRUE(privops_saved_is_ours(&got.entry[0], INT32_MAX - 2));
	CU_ASSERT_FALSE(privops_saved_is_ours(&got.entry[0], INT32_MAX));
}

/* Root will write what is in it: so it has to be root's word, or ours. */
static void file_of_others_is_refused(void)
{
	static const mode_t modes[] = { 0620, 0602, 0666 };
	struct bench b;
	char other[PATH_MAX];

	bench_init(&b);
	machine_put(&b.machine, MODE, "2");
	put_saved(&b, "pghotd-saved 1\nnuma_balancing 0 2\n");
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		CU_ASSERT_EQUAL(chmod(b.saved, modes[i]), 0);
		restore(&b, -EPERM);
		CU_ASSERT_EQUAL(privops_setting_set(&b.priv, SETTING_NUMA_BALANCING, 3), -EPERM);
	}
	CU_ASSERT_EQUAL(chmod(b.saved, 0644), 0);
	if (geteuid() == 0) {
		CU_ASSERT_EQUAL(chown(b.saved, 65534, 0), 0);
		restore(&b, -EPERM);
		CU_ASSERT_EQUAL(chown(b.saved, 0, 0), 0);
	}
	/* Neither a link to a good one nor a pipe. */
	machine_path(&b.machine, other, "run/pghotd/good");
	CU_ASSERT_EQUAL(rename(b.saved, other), 0);
	machine_link(&b.machine, "run/pghotd/saved", "good");
	restore(&b, -ELOOP);
	CU_ASSERT_EQUAL(unlink(b.saved), 0);
	CU_ASSERT_EQUAL(mkfifo(b.saved, 0600), 0);
	restore(&b, -EBADMSG);
	CHECK_VALUES(&b, 2, 65536);
	CU_ASSERT_EQUAL(unlink(b.saved), 0);
	CU_ASSERT_EQUAL(rename(other, b.saved), 0);
	CHECK_RESTORED(restore(&b, 0), 1, 0, 0);
	bench_done(&b);
}

/* A file in whose place someone put a link to elsewhere: written anew, not through it. */
static void temporary_link_is_not_followed(void)
{
	struct bench b;
	char text[64];

	bench_init(&b);
	machine_put(&b.machine, "run/victim", "precious");
	machine_put(&b.machine, "run/pghotd/x", "x");
	machine_link(&b.machine, "run/pghotd/saved.tmp", "../victim");
	CU_ASSERT_EQUAL(privops_setting_set(&b.priv, SETTING_NUMA_BALANCING, 2), 0);
	CU_ASSERT(fsroot_read(&b.machine.root, text, sizeof(text), "run/victim") > 0);
	CU_ASSERT_STRING_EQUAL(text, "precious");
	CU_ASSERT_STRING_EQUAL(saved_text(&b), "pghotd-saved 1\nnuma_balancing 0 2\n");
	bench_done(&b);
}

TEST_MAIN(privops_saved, TEST(left_by_a_kill_at_any_point), TEST(really_killed), TEST(half_written_file),
	  TEST(garbled_file_is_left_alone), TEST(binary_and_long_files_are_garbled), TEST(text_round_trip),
	  TEST(file_of_others_is_refused), TEST(temporary_link_is_not_followed))
