/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * source_rig: a source, that of hint faults or another, on a made-up machine of four CPUs, whose kernel gives out
 * descriptors of plain memory for events, and refuses as it is told.
 */
#pragma once

#include <dirent.h>
#include <linux/perf_event.h>
#include <sys/mman.h>

#include "config.h"
#include "decode.h"
#include "harness.h"
#include "machine.h"
#include "perf_ring.h"
#include "privops.h"
#include "source.h"

#define MODE      "proc/sys/kernel/numa_balancing"
#define RATE      "proc/sys/kernel/numa_balancing_promote_rate_limit_MBps"
#define PARANOID  "proc/sys/kernel/perf_event_paranoid"
#define MEMFD_MAX (1L << 27)
#define OPENS_MAX 512

/* The kernel's side of opening events: descriptors of plain memory, which can be mapped as a ring. */
struct kernel {
	int refuse;         /* -errno of every open */
	int refuse_cpu;     /* or of the open on this one only; -1: none */
	int emfile;         /* this many opens have no descriptor left */
	size_t ring_max;    /* larger rings can't be mapped; 0: all can */
	size_t memory_max;  /* nor those that are too much together: CPU n is the n+1st of them; 0: no limit */
	int fail_enable_fd; /* -1: none */
	int (*judge)(const struct perf_event_attr *attr); /* -errno for an attr that it refuses; NULL: takes any */
	uint64_t period_min, period_max;                  /* of those that can be set later; 0: any */
	uint64_t period[OPENS_MAX];                       /* of each descriptor, as it was set later */
	void (*on_enable)(int fd, bool on);
	int opens;
	struct perf_event_attr attr; /* of the last open */
	int cpu[OPENS_MAX];          /* of each descriptor */
	int on[OPENS_MAX];           /* by descriptor: times switched on less times off */
	int enables;
};

static inline int kernel_open(void *ctx, const struct perf_event_attr *attr, int cpu)
{
	struct kernel *kernel = ctx;
	size_t ring_bytes = (size_t)attr->wakeup_watermark * 4;
	int fd;

	kernel->opens++;
	kernel->attr = *attr;
	if (kernel->refuse && (kernel->refuse_cpu < 0 || kernel->refuse_cpu == cpu))
		return kernel->refuse;
	if (kernel->judge && kernel->judge(attr) < 0)
		return kernel->judge(attr);
	if (kernel->emfile > 0) {
		kernel->emfile--;
		return -EMFILE;
	}
	fd = memfd_create("event", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0 || fd >= OPENS_MAX || ftruncate(fd, MEMFD_MAX) < 0)
		abort();
	kernel->cpu[fd] = cpu;
	kernel->on[fd] = 0;
	if ((kernel->ring_max && ring_bytes > kernel->ring_max) ||
	    (kernel->memory_max && ring_bytes * ((size_t)cpu + 1) > kernel->memory_max))
		/* Then it can't be mapped for writing: -EPERM, as over the memory limit. */
		if (fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) < 0)
			abort();
	return fd;
}

static inline int kernel_enable(void *ctx, int fd, bool on)
{
	struct kernel *kernel = ctx;

	kernel->enables++;
	kernel->on[fd] += on ? 1 : -1;
	if (kernel->on_enable)
		kernel->on_enable(fd, on);
	return fd == kernel->fail_enable_fd ? -EIO : 0;
}

static inline int kernel_period(void *ctx, int fd, uint64_t period)
{
	struct kernel *kernel = ctx;

	if (period < kernel->period_min || (kernel->period_max && period > kernel->period_max))
		return -EINVAL;
	kernel->period[fd] = period;
	return 0;
}

static const struct privops_ops kernel_ops = { .event_open = kernel_open,
					       .event_enable = kernel_enable,
					       .event_period = kernel_period };

/* What the event of @fd says when it is read next. */
static inline void kernel_counts(int fd, uint64_t count, uint64_t enabled_ns, uint64_t running_ns, uint64_t lost)
{
	uint64_t words[] = { count, enabled_ns, running_ns, lost };

	if (pwrite(fd, words, sizeof(words), lseek(fd, 0, SEEK_CUR)) != sizeof(words))
		abort();
}

struct bench {
	struct machine machine;
	struct kernel kernel;
	struct privops priv;
	struct config config;
	struct source source;
	char saved[PATH_MAX];
	char why[SOURCE_WHY_MAX];
	int fds;
};

static inline int count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	while (dir && readdir(dir))
		n++;
	if (dir)
		closedir(dir);
	return n;
}

/* Four CPUs, mode 2, rate 0: all is well. */
static inline void bench_init(struct bench *b)
{
	memset(b, 0, sizeof(*b));
	machine_new(&b->machine);
	machine_put(&b->machine, MODE, "2");
	machine_put(&b->machine, RATE, "0");
	machine_put(&b->machine, PARANOID, "3");
	machine_put(&b->machine, "proc/sys/kernel/perf_event_mlock_kb", "516");
	machine_put(&b->machine, "sys/devices/system/cpu/online", "0-3");
	machine_put(&b->machine, "sys/devices/system/cpu/possible", "0-7");
	machine_put(&b->machine, "sys/devices/system/cpu/isolated", "%s", "");
	machine_put(&b->machine, "run/x", "x");
	machine_path(&b->machine, b->saved, "run/saved");
	b->kernel.refuse_cpu = -1;
	b->kernel.fail_enable_fd = -1;
	b->priv = (struct privops){
		.ops = &kernel_ops, .ctx = &b->kernel, .root = b->machine.root, .saved_path = b->saved
	};
	strcpy(b->config.sampling_cpus, "all");
	b->config.threads_ring_kib = 512;
	b->source = (struct source){
		.ops = &source_hint_faults,
		.env = { .privops = &b->priv, .root = &b->machine.root, .config = &b->config },
	};
	b->fds = count_fds();
}

static inline void bench_done(struct bench *b)
{
	b->source.ops->close(&b->source);
	CU_ASSERT_EQUAL(count_fds(), b->fds);
	machine_free(&b->machine);
}

static inline uint64_t value_of(const struct bench *b, enum privops_setting setting)
{
	uint64_t value = UINT64_MAX;

	privops_setting_get(&b->priv, setting, &value);
	return value;
}

#define CHECK_VALUES(b, mode, rate)                                                \
	do {                                                                       \
		CU_ASSERT_EQUAL(value_of((b), SETTING_NUMA_BALANCING), (mode));    \
		CU_ASSERT_EQUAL(value_of((b), SETTING_NUMA_PROMOTE_RATE), (rate)); \
	} while (0)

static inline int probe(struct bench *b)
{
	int opens = b->kernel.opens, fds = count_fds(), r;

	memset(b->why, 'x', sizeof(b->why));
	r = b->source.ops->probe(&b->source.env, b->why);
	CU_ASSERT_EQUAL(count_fds(), fds);
	CU_ASSERT(b->kernel.opens - opens <= (b->source.ops == &source_hint_faults ? 2 : 16));
	CU_ASSERT_EQUAL(b->kernel.enables, 0);
	CU_ASSERT_PTR_NOT_NULL(memchr(b->why, '\0', sizeof(b->why)));
	/* Nobody gets half a sentence. */
	CU_ASSERT(strlen(b->why) < sizeof(b->why) - 1);
	CU_ASSERT_TRUE(r == 0 || b->why[0]);
	return r;
}

/* Is every one of the words in it? */
static inline bool says(const char *why, const char *word1, const char *word2)
{
	bool well = strstr(why, word1) && strstr(why, word2);

	if (!well)
		printf("  \"%s\" lacks \"%s\" or \"%s\"\n", why, word1, word2);
	return well;
}

static inline int open_source(struct bench *b)
{
	int r;

	memset(b->source.why, 'x', sizeof(b->source.why));
	r = b->source.ops->open(&b->source);
	CU_ASSERT_PTR_NOT_NULL(memchr(b->source.why, '\0', sizeof(b->source.why)));
	CU_ASSERT(strlen(b->source.why) < sizeof(b->source.why) - 1);
	CU_ASSERT_TRUE(r == 0 || b->source.why[0]);
	if (r < 0) {
		CU_ASSERT_EQUAL(b->source.n_rings, 0);
		CU_ASSERT_EQUAL(count_fds(), b->fds);
	}
	return r;
}
