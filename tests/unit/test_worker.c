/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "harness.h"
#include "log.h"
#include "waker.h"
#include "worker.h"

#define LONG_NS (60 * NSEC_PER_SEC)

struct job {
	sem_t turned;
	int turns, started, stopped;
	int fail_at;  /* turn that fails */
	int fail_how; /* with this */
	int start_result;
	char name[WORKER_NAME_MAX];
	sigset_t blocked;
	cpu_set_t cpus;
	struct waker *waker;
};

static int job_step(void *ctx)
{
	struct job *job = ctx;

	if (++job->turns == job->fail_at)
		return job->fail_how;
	if (job->turns == 1) {
		pthread_getname_np(pthread_self(), job->name, sizeof(job->name));
		pthread_sigmask(SIG_SETMASK, NULL, &job->blocked);
		sched_getaffinity(0, sizeof(job->cpus), &job->cpus);
		sem_post(&job->turned);
	}
	return 0;
}

static int job_start(void *ctx)
{
	struct job *job = ctx;

	job->started++;
	return job->start_result;
}

static void job_stop(void *ctx)
{
	struct job *job = ctx;

	job->stopped++;
}

static struct worker worker_for(struct job *job)
{
	memset(job, 0, sizeof(*job));
	sem_init(&job->turned, 0, 0);
	return (struct worker){
		.name = "pghot-test0", .step = job_step, .start = job_start, .stop = job_stop, .ctx = job
	};
}

/* Lines that a worker logs go to a file, so that they can be counted and don't look like a failure. */
static int saved_stderr = -1;
static FILE *log_file;

static void capture_log(void)
{
	fflush(stderr);
	saved_stderr = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
	log_file = tmpfile();
	dup2(fileno(log_file), STDERR_FILENO);
}

static int captured_lines(const char *containing)
{
	char line[LOG_LINE_MAX + 64];
	int n = 0;

	dup2(saved_stderr, STDERR_FILENO);
	close(saved_stderr);
	rewind(log_file);
	while (fgets(line, sizeof(line), log_file))
		n += strstr(line, containing) ? 1 : 100;
	fclose(log_file);
	return n;
}

static void turns_until_asked_to_stop(void)
{
	struct job job;
	struct worker worker = worker_for(&job);
	int result = 42;

	CU_ASSERT_EQUAL(worker_start(&worker), 0);
	sem_wait(&job.turned);
	CU_ASSERT_FALSE(worker_ended(&worker, &result));
	CU_ASSERT_EQUAL(result, 42);
	/* The beats go on. */
	uint64_t beats = worker_beats(&worker);

	while (worker_beats(&worker) < beats + 10)
		sched_yield();
	worker_request_stop(&worker);
	CU_ASSERT_EQUAL(worker_join(&worker, LONG_NS), 0);
	CU_ASSERT_EQUAL(worker_beats(&worker), (uint64_t)job.turns);
	CU_ASSERT(job.turns > 10);
	CU_ASSERT_EQUAL(job.started, 1);
	CU_ASSERT_EQUAL(job.stopped, 1);
	CU_ASSERT_TRUE(worker_ended(&worker, &result));
	CU_ASSERT_EQUAL(result, 0);
	CU_ASSERT_EQUAL(worker_join(&worker, 0), 0); /* once more does no harm */

	/* And it can be started again. */
	CU_ASSERT_EQUAL(worker_start(&worker), 0);
	worker_request_stop(&worker);
	CU_ASSERT_EQUAL(worker_join(&worker, LONG_NS), 0);
	CU_ASSERT_EQUAL(job.started, 2);
}

static void thread_is_named_and_takes_no_signal(void)
{
	struct job job;
	struct worker worker = worker_for(&job);
	sigset_t before, after;

	pthread_sigmask(SIG_SETMASK, NULL, &before);
	CU_ASSERT_EQUAL(worker_start(&worker), 0);
	pthread_sigmask(SIG_SETMASK, NULL, &after);
	sem_wait(&job.turned);
	worker_request_stop(&worker);
	CU_ASSERT_EQUAL(worker_join(&worker, LONG_NS), 0);
	CU_ASSERT_STRING_EQUAL(job.name, "pghot-test0");
	for (int sig = 1; sig <= SIGRTMAX; sig++) {
		if (sig == SIGKILL || sig == SIGSTOP || (sig > 31 && sig < SIGRTMIN))
			continue;
		CU_ASSERT_EQUAL(sigismember(&job.blocked, sig), 1);
		CU_ASSERT_EQUAL(sigismember(&after, sig), sigismember(&before, sig));
	}
}

static void long_names_are_cut(void)
{
	struct job job;
	struct worker worker = worker_for(&job);

	memset(worker.name, 'n', sizeof(worker.name));
	CU_ASSERT_EQUAL(worker_start(&worker), 0);
	sem_wait(&job.turned);
	worker_request_stop(&worker);
	CU_ASSERT_EQUAL(worker_join(&worker, LONG_NS), 0);
	CU_ASSERT_STRING_EQUAL(job.name, "nnnnnnnnnnnnnnn");
}

static void a_failing_step_ends_it_and_is_said_once(void)
{
	struct job job;
	struct worker worker = worker_for(&job);
	int result = 0;

	job.fail_at = 3;
	job.fail_how = -EIO;
	capture_log();
	CU_ASSERT_EQUAL(worker_start(&worker), 0);
	CU_ASSERT_EQUAL(worker_join(&worker, LONG_NS), 0);
	CU_ASSERT_EQUAL(captured_lines("pghot-test0"), 1);
	CU_ASSERT_EQUAL(job.turns, 3);
	CU_ASSERT_EQUAL(job.stopped, 1);
	CU_ASSERT_TRUE(worker_ended(&worker, &result));
	CU_ASSERT_EQUAL(result, -EIO);
}

static void a_failing_start_makes_no_turn(void)
{
	struct job job;
	struct worker worker = worker_for(&job);
	int result = 0;

	job.start_result = -ENOMEM;
	capture_log();
	CU_ASSERT_EQUAL(worker_start(&worker), 0);
	CU_ASSERT_EQUAL(worker_join(&worker, LONG_NS), 0);
	CU_ASSERT_EQUAL(captured_lines("pghot-test0"), 1);
	CU_ASSERT_EQUAL(job.turns, 0);
	CU_ASSERT_EQUAL(job.stopped, 0);
	CU_ASSERT_TRUE(worker_ended(&worker, &result));
	CU_ASSERT_EQUAL(result, -ENOMEM);
}

/* A step that sleeps, and one that looks whether it should stop. */
static int sleeping_step(void *ctx)
{
	struct job *job = ctx;

	waker_prepare(job->waker);
	if (worker_stopping()) {
		waker_cancel(job->waker);
		return 0;
	}
	sem_post(&job->turned);
	waker_wait(job->waker, -1);
	return 0;
}

static void a_step_that_hangs_is_no_longer_waited_for(void)
{
	struct job job;
	struct worker worker = worker_for(&job);

	job.waker = waker_new();
	worker.step = sleeping_step;
	CU_ASSERT_EQUAL(worker_start(&worker), 0);
	sem_wait(&job.turned);
	worker_request_stop(&worker);
	CU_ASSERT_EQUAL(worker_join(&worker, 0), -ETIMEDOUT);
	CU_ASSERT_EQUAL(worker_join(&worker, NSEC_PER_MSEC), -ETIMEDOUT);
	CU_ASSERT_EQUAL(worker_beats(&worker), 0);
	CU_ASSERT_FALSE(worker_ended(&worker, NULL));
	waker_wake(job.waker);
	CU_ASSERT_EQUAL(worker_join(&worker, UINT64_MAX), 0);
	CU_ASSERT_EQUAL(job.stopped, 1);
	waker_free(job.waker);
}

static int beating_step(void *ctx)
{
	struct job *job = ctx;

	for (int i = 0; i < 5; i++)
		worker_beat();
	sem_post(&job->turned);
	while (!worker_stopping())
		sched_yield();
	return 0;
}

static void a_long_step_may_say_that_it_lives(void)
{
	struct job job;
	struct worker worker = worker_for(&job);

	worker.step = beating_step;
	CU_ASSERT_EQUAL(worker_start(&worker), 0);
	sem_wait(&job.turned);
	CU_ASSERT_EQUAL(worker_beats(&worker), 5);
	CU_ASSERT_FALSE(atomic_load(&worker.stopping));
	worker_request_stop(&worker);
	CU_ASSERT_TRUE(atomic_load(&worker.stopping));
	CU_ASSERT_EQUAL(worker_join(&worker, LONG_NS), 0);
	CU_ASSERT_EQUAL(worker_beats(&worker), 6);
}

static void outside_a_worker_nobody_stops(void)
{
	CU_ASSERT_FALSE(worker_stopping());
	worker_beat();
}

static void never_started_is_joined_already(void)
{
	struct worker worker = { .name = "x" };

	CU_ASSERT_EQUAL(worker_join(&worker, LONG_NS), 0);
	CU_ASSERT_FALSE(worker_ended(&worker, NULL));
}

static void runs_on_the_cpus_it_was_given(void)
{
	struct job job;
	struct worker worker = worker_for(&job);
	cpu_set_t allowed;
	char text[16];
	int cpu = 0;

	if (sched_getaffinity(0, sizeof(allowed), &allowed) < 0) {
		test_skip("more CPUs than a cpu_set_t holds");
		return;
	}
	while (!CPU_ISSET(cpu, &allowed))
		cpu++;
	snprintf(text, sizeof(text), "%d", cpu);
	worker.cpus = text;
	CU_ASSERT_EQUAL(worker_start(&worker), 0);
	sem_wait(&job.turned);
	worker_request_stop(&worker);
	CU_ASSERT_EQUAL(worker_join(&worker, LONG_NS), 0);
	CU_ASSERT_EQUAL(CPU_COUNT(&job.cpus), 1);
	CU_ASSERT(CPU_ISSET(cpu, &job.cpus));
}

static void cpus_that_are_not_there_are_no_obstacle(void)
{
	struct job job;
	struct worker worker = worker_for(&job);
	cpu_set_t allowed;

	CU_ASSERT_EQUAL(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
	worker.cpus = "8190-8191";
	capture_log();
	CU_ASSERT_EQUAL(worker_start(&worker), 0);
	sem_wait(&job.turned);
	worker_request_stop(&worker);
	CU_ASSERT_EQUAL(worker_join(&worker, LONG_NS), 0);
	CU_ASSERT_EQUAL(captured_lines("8190-8191"), 1);
	CU_ASSERT(CPU_EQUAL(&job.cpus, &allowed));
}

static void bad_cpu_lists_start_nothing(void)
{
	struct job job;
	struct worker worker = worker_for(&job);

	worker.cpus = "0-";
	CU_ASSERT_EQUAL(worker_start(&worker), -EINVAL);
	worker.cpus = "8192";
	CU_ASSERT_EQUAL(worker_start(&worker), -ERANGE);
	CU_ASSERT_EQUAL(worker_join(&worker, LONG_NS), 0);
	CU_ASSERT_EQUAL(job.started, 0);
}

TEST_MAIN(worker, TEST(turns_until_asked_to_stop), TEST(thread_is_named_and_takes_no_signal), TEST(long_names_are_cut),
	  TEST(a_failing_step_ends_it_and_is_said_once), TEST(a_failing_start_makes_no_turn),
	  TEST(a_step_that_hangs_is_no_longer_waited_for), TEST(a_long_step_may_say_that_it_lives),
	  TEST(outside_a_worker_nobody_stops), TEST(never_started_is_joined_already),
	  TEST(runs_on_the_cpus_it_was_given), TEST(cpus_that_are_not_there_are_no_obstacle),
	  TEST(bad_cpu_lists_start_nothing))
