/* SPDX-License-Identifier: GPL-2.0-or-later */
/* privops_rig: a machine with both settings, and a saved file that can be looked at. */
#pragma once

#include "harness.h"
#include "machine.h"
#include "privops.h"

#define MODE "proc/sys/kernel/numa_balancing"
#define RATE "proc/sys/kernel/numa_balancing_promote_rate_limit_MBps"

/* A machine with both settings, and where to save them. */
struct bench {
	struct machine machine;
	struct privops priv;
	char saved[PATH_MAX];
};

static inline void bench_init(struct bench *b)
{
	machine_new(&b->machine);
	machine_put(&b->machine, MODE, "0");
	machine_put(&b->machine, RATE, "65536");
	machine_path(&b->machine, b->saved, "run/pghotd/saved");
	machine_put(&b->machine, "run/anything", "x");
	b->priv = (struct privops){ .ops = &privops_direct, .root = b->machine.root, .saved_path = b->saved };
}

static inline void bench_done(struct bench *b)
{
	machine_free(&b->machine);
}

static inline uint64_t value_of(const struct bench *b, enum privops_setting setting)
{
	uint64_t value = UINT64_MAX;

	CU_ASSERT_EQUAL(privops_setting_get(&b->priv, setting, &value), 0);
	return value;
}

#define CHECK_VALUES(b, mode, rate)                                                \
	do {                                                                       \
		CU_ASSERT_EQUAL(value_of((b), SETTING_NUMA_BALANCING), (mode));    \
		CU_ASSERT_EQUAL(value_of((b), SETTING_NUMA_PROMOTE_RATE), (rate)); \
	} while (0)

/* What is in the saved file, "" when there is none. */
static inline const char *saved_text(const struct bench *b)
{
	static char text[1024];
	FILE *f = fopen(b->saved, "re");
	size_t n = 0;

	if (f) {
		n = fread(text, 1, sizeof(text) - 1, f);
		fclose(f);
	}
	text[n] = '\0';
	return text;
}

static inline void put_saved(const struct bench *b, const char *text)
{
	machine_put_bytes(&b->machine, "run/pghotd/saved", text, strlen(text));
	if (chmod(b->saved, 0600) < 0)
		abort();
}

static inline struct privops_restored restore(const struct bench *b, int want)
{
	struct privops_restored restored = { -1, -1, -1 };

	CU_ASSERT_EQUAL(privops_restore(&b->priv, &restored), want);
	return restored;
}

#define CHECK_RESTORED(got, restored_, left_, failed_)       \
	do {                                                 \
		struct privops_restored got_ = (got);        \
		CU_ASSERT_EQUAL(got_.restored, (restored_)); \
		CU_ASSERT_EQUAL(got_.left, (left_));         \
		CU_ASSERT_EQUAL(got_.failed, (failed_));     \
	} while (0)
