/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "reader_rig.h"
#include "sanitized.h"

#ifndef SANITIZED
/* Every allocation of this program is counted. */
static _Atomic unsigned int allocations;
static int allocations_left = -1; /* the n-th from here on fails; below 0: none. Not while there are threads */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);

void *malloc(size_t size)
{
	atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
	return __libc_malloc(size);
}

static bool fails(void)
{
	return allocations_left >= 0 && allocations_left-- == 0;
}

void *calloc(size_t n, size_t size)
{
	if (fails()) {
		errno = ENOMEM;
		return NULL;
	}
	atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
	return __libc_calloc(n, size);
}

void *realloc(void *p, size_t size)
{
	if (fails())
		return NULL;
	atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
	return __libc_realloc(p, size);
}
#endif

static void rings_come_and_go(void)
{
	struct bench b;
	struct test_sample in = good();
	struct source_ring other = { .fd = -1, .sample_type = PERF_SAMPLE_READ };

	bench_init(&b, 1, 4096, 64);
	CU_ASSERT_EQUAL(reader_add_ring(b.reader, &other), -ENOTSUP);
	CU_ASSERT_EQUAL(reader_add_ring(b.reader, &b.ring), 0);
	CU_ASSERT_EQUAL(reader_add_ring(b.reader, &b.ring), -EEXIST);
	put_sample(&b, &in);
	CU_ASSERT_EQUAL(reader_step(b.reader, 0), 1);
	CU_ASSERT_EQUAL(reader_step(b.reader, 0), 0);
	/* One that it doesn't have: not touched (this one has nothing to touch). */
	reader_remove_ring(b.reader, &other);
	put_sample(&b, &in);
	reader_remove_ring(b.reader, &b.ring);
	CU_ASSERT_EQUAL(sample_queue_used(b.queues[0]), 2);
	put_sample(&b, &in);
	reader_remove_ring(b.reader, &b.ring);
	CU_ASSERT_EQUAL(reader_step(b.reader, 0), 0);
	CU_ASSERT_EQUAL(sample_queue_used(b.queues[0]), 2);
	CU_ASSERT_EQUAL(reader_add_ring(b.reader, &b.ring), 0);
	CU_ASSERT_EQUAL(reader_step(b.reader, 0), 1);
	bench_done(&b);
	reader_free(NULL);
}

/* Descriptors that any epoll set of this process waits for. */
static int count_waited_for(void)
{
	DIR *dir = opendir("/proc/self/fdinfo");
	const struct dirent *entry;
	int n = 0;

	while (dir && (entry = readdir(dir))) {
		char text[4096];
		int fd = openat(dirfd(dir), entry->d_name, O_RDONLY | O_CLOEXEC);
		ssize_t len = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

		if (fd >= 0)
			close(fd);
		if (len < 0)
			continue;
		text[len] = '\0';
		for (const char *at = text; (at = strstr(at, "tfd:")); at++)
			n++;
	}
	if (dir)
		closedir(dir);
	return n;
}

static void watermark_ends_the_wait(void)
{
	struct bench b;
	struct test_sample in = good();

	bench_init(&b, 1, 4096, 64);
	b.ring.fd = eventfd(0, EFD_CLOEXEC);
	CU_ASSERT_EQUAL(reader_add_ring(b.reader, &b.ring), 0);
	put_sample(&b, &in);
	CU_ASSERT_EQUAL(eventfd_write(b.ring.fd, 1), 0);
	CU_ASSERT_EQUAL(reader_step(b.reader, -1), 1);
	/* Below the watermark, nothing is readable: by the timeout. */
	eventfd_t v;

	CU_ASSERT_EQUAL(eventfd_read(b.ring.fd, &v), 0);
	put_sample(&b, &in);
	CU_ASSERT_EQUAL(reader_step(b.reader, 1), 1);
	reader_remove_ring(b.reader, &b.ring);
	close(b.ring.fd);
	bench_done(&b);
}

static void interrupt_ends_the_wait(void)
{
	struct bench b;

	bench_init(&b, 1, 4096, 64);
	reader_interrupt(b.reader);
	reader_interrupt(b.reader);
	CU_ASSERT_EQUAL(reader_step(b.reader, -1), 0);
	/* Once: or this would be a spin. */
	CU_ASSERT_EQUAL(reader_step(b.reader, 0), 0);
	reader_interrupt(b.reader);
	CU_ASSERT_EQUAL(reader_step(b.reader, -1), 0);
	bench_done(&b);
}

/* The CPU went away: its event hangs up, and would end every wait from now on. */
static void hung_up_ring_is_drained_by_time(void)
{
	struct bench b;
	struct test_sample in = good();
	int ends[2];

	bench_init(&b, 1, 4096, 64);
	CU_ASSERT_EQUAL(pipe2(ends, O_CLOEXEC), 0);
	b.ring.fd = ends[0];
	CU_ASSERT_EQUAL(reader_add_ring(b.reader, &b.ring), 0);
	CU_ASSERT_EQUAL(count_waited_for(), 2);
	put_sample(&b, &in);
	close(ends[1]);
	CU_ASSERT_EQUAL(reader_step(b.reader, -1), 1);
	CU_ASSERT_EQUAL(count_waited_for(), 1);
	put_sample(&b, &in);
	CU_ASSERT_EQUAL(reader_step(b.reader, 0), 1);
	put_sample(&b, &in);
	reader_remove_ring(b.reader, &b.ring);
	CU_ASSERT_EQUAL(sample_queue_used(b.queues[0]), 3);
	close(ends[0]);
	bench_done(&b);
}

/* What can't be polled, as a plain file, is no reason to fail. */
static void ring_that_cannot_be_polled(void)
{
	struct bench b;
	struct test_sample in = good();

	bench_init(&b, 1, 4096, 64);
	b.ring.fd = memfd_create("ring", MFD_CLOEXEC);
	CU_ASSERT_EQUAL(reader_add_ring(b.reader, &b.ring), 0);
	put_sample(&b, &in);
	CU_ASSERT_EQUAL(reader_step(b.reader, 0), 1);
	reader_remove_ring(b.reader, &b.ring);
	close(b.ring.fd);
	b.ring.fd = 1 << 20;
	CU_ASSERT_EQUAL(reader_add_ring(b.reader, &b.ring), -EBADF);
	bench_done(&b);
}

static void many_rings(void)
{
	enum { RINGS = 70 };
	struct bench b;
	struct fake_ring fakes[RINGS];
	struct source_ring rings[RINGS];
	static struct test_record record;
	struct test_sample in = good();

	bench_init(&b, 2, 4096, 256);
	make_sample_record(&record, LAYOUT, &in);
	for (int i = 0; i < RINGS; i++) {
		fake_ring_init(&fakes[i], 1024, 0);
		rings[i] = b.ring;
		rings[i].cpu = i;
		rings[i].fd = eventfd(1, EFD_CLOEXEC);
		rings[i].ring = perf_ring_wrap(fakes[i].base, fakes[i].page_bytes, fakes[i].data_bytes);
		CU_ASSERT_EQUAL(reader_add_ring(b.reader, &rings[i]), 0);
		fake_ring_put_record(&fakes[i], &record);
	}
	/* All of them, also those that one round of events doesn't name. */
	CU_ASSERT_EQUAL(reader_step(b.reader, -1), RINGS);
	for (int i = 0; i < RINGS; i++) {
		fake_ring_put_record(&fakes[i], &record);
		reader_remove_ring(b.reader, &rings[i]);
		perf_ring_free(rings[i].ring);
		fake_ring_done(&fakes[i]);
		close(rings[i].fd);
		CU_ASSERT_EQUAL(reader_step(b.reader, 0), 0);
	}
	CU_ASSERT_EQUAL(count(&b, STAT_TOTAL), 2 * RINGS);
	bench_done(&b);
}

#ifndef SANITIZED
/* Exit status of a child that drains @n records in a mode where all but read, write and exit is death. */
static int drain_without_system_calls(struct bench *b, int n)
{
	pid_t pid;
	int status;

	for (int i = 0; i < n; i++) {
		struct test_sample in = good();

		in.addr += (uint64_t)i << REGION_SHIFT;
		put_sample(b, &in);
	}
	pid = fork();
	if (pid == 0) {
		size_t got;

		if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) < 0)
			_exit(2);
		got = reader_drain(b->reader, &b->ring);
		syscall(SYS_exit, got == (size_t)n ? 0 : 1);
	}
	if (waitpid(pid, &status, 0) != pid)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
#endif

/* However many records: no system call, and no allocation. */
static void nothing_per_record(void)
{
#ifdef SANITIZED
	test_skip("the sanitizer's own calls would be counted");
#else
	struct bench b;
	unsigned int before;
	int r;

	if (test_under_valgrind()) {
		test_skip("valgrind's own calls and allocator would be counted");
		return;
	}
	bench_init(&b, 4, 1 << 20, 16384);
	r = drain_without_system_calls(&b, 1);
	if (r == 2) {
		bench_done(&b);
		test_skip("no seccomp here");
		return;
	}
	CU_ASSERT_EQUAL(r, 0);
	/* In the child, that was; here the ring still has it. */
	CU_ASSERT_EQUAL(reader_drain(b.reader, &b.ring), 1);
	CU_ASSERT_EQUAL(drain_without_system_calls(&b, 10000), 0);
	before = atomic_load_explicit(&allocations, memory_order_relaxed);
	CU_ASSERT(before > 0);
	CU_ASSERT_EQUAL(reader_drain(b.reader, &b.ring), 10000);
	CU_ASSERT_EQUAL(atomic_load_explicit(&allocations, memory_order_relaxed), before);
	bench_done(&b);
#endif
}

static void no_memory(void)
{
#ifdef SANITIZED
	test_skip("the sanitizer has its own allocator");
#else
	struct bench b;
	struct reader_params params = { .shards = 1 };

	if (test_under_valgrind()) {
		test_skip("valgrind has its own allocator");
		return;
	}
	bench_init(&b, 1, 4096, 64);
	params.queues = b.queues;
	allocations_left = 0;
	errno = 0;
	CU_ASSERT_PTR_NULL(reader_new(&params));
	CU_ASSERT_EQUAL(errno, ENOMEM);
	allocations_left = 0;
	CU_ASSERT_EQUAL(reader_add_ring(b.reader, &b.ring), -ENOMEM);
	allocations_left = -1;
	CU_ASSERT_EQUAL(count_waited_for(), 1);
	CU_ASSERT_EQUAL(reader_add_ring(b.reader, &b.ring), 0);
	bench_done(&b);
#endif
}

/* Nor without descriptors: and what it has got is given back. */
static void no_descriptors(void)
{
	struct bench b;
	struct reader_params params = { .shards = 1 };
	struct rlimit before, none;
	int lowest;

	bench_init(&b, 1, 4096, 64);
	params.queues = b.queues;
	lowest = eventfd(0, EFD_CLOEXEC);
	close(lowest);
	CU_ASSERT_EQUAL(getrlimit(RLIMIT_NOFILE, &before), 0);
	for (int room = 0; room < 2; room++) {
		none = before;
		none.rlim_cur = (rlim_t)(lowest + room);
		CU_ASSERT_EQUAL(setrlimit(RLIMIT_NOFILE, &none), 0);
		errno = 0;
		CU_ASSERT_PTR_NULL(reader_new(&params));
		CU_ASSERT_EQUAL(errno, EMFILE);
		CU_ASSERT_EQUAL(setrlimit(RLIMIT_NOFILE, &before), 0);
		CU_ASSERT_EQUAL(eventfd(0, EFD_CLOEXEC), lowest);
		close(lowest);
	}
	bench_done(&b);
}

#define THREAD_RECORDS 20000

struct threads {
	struct bench *bench;
	_Atomic bool stop; /* relaxed: it carries nothing else */
};

static void *write_records(void *ctx)
{
	struct bench *b = ctx;
	static struct test_record record;
	struct test_sample in = good();

	for (int i = 0; i < THREAD_RECORDS; i++) {
		in.addr = (uint64_t)(i + 1) << REGION_SHIFT;
		make_sample_record(&record, LAYOUT, &in);
		while (!fake_ring_put_record(&b->fake, &record))
			sched_yield();
	}
	return NULL;
}

static void *step_on(void *ctx)
{
	struct threads *threads = ctx;

	while (!atomic_load_explicit(&threads->stop, memory_order_relaxed))
		reader_step(threads->bench->reader, 1);
	return NULL;
}

/* The kernel writes, the reader steps, main takes the ring away and gives it back: nothing is lost, nothing twice. */
static void ring_changes_hands_while_it_is_written(void)
{
	struct bench b;
	struct threads threads = { .bench = &b };
	pthread_t writer, stepper;

	bench_init(&b, 2, 4096, 16384);
	CU_ASSERT_EQUAL(reader_add_ring(b.reader, &b.ring), 0);
	CU_ASSERT_EQUAL(pthread_create(&stepper, NULL, step_on, &threads), 0);
	CU_ASSERT_EQUAL(pthread_create(&writer, NULL, write_records, &b), 0);
	for (int i = 0; i < 100; i++) {
		reader_remove_ring(b.reader, &b.ring);
		sched_yield();
		CU_ASSERT_EQUAL(reader_add_ring(b.reader, &b.ring), 0);
		reader_interrupt(b.reader);
		sched_yield();
	}
	pthread_join(writer, NULL);
	reader_remove_ring(b.reader, &b.ring);
	atomic_store_explicit(&threads.stop, true, memory_order_relaxed);
	reader_interrupt(b.reader);
	pthread_join(stepper, NULL);
	CU_ASSERT_EQUAL(count(&b, STAT_TOTAL), THREAD_RECORDS);
	CU_ASSERT_EQUAL(sample_queue_used(b.queues[0]) + sample_queue_used(b.queues[1]) + count_endings(&b),
			THREAD_RECORDS);
	CU_ASSERT_EQUAL(count(&b, STAT_BAD_RECORDS), 0);
	bench_done(&b);
}

TEST_MAIN(reader_rings, TEST(rings_come_and_go), TEST(watermark_ends_the_wait), TEST(interrupt_ends_the_wait),
	  TEST(hung_up_ring_is_drained_by_time), TEST(ring_that_cannot_be_polled), TEST(many_rings),
	  TEST(nothing_per_record), TEST(no_memory), TEST(no_descriptors), TEST(ring_changes_hands_while_it_is_written))
