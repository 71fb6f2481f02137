/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * worker: a thread that is a loop round a step, nothing more. All it decides is when to stop.
 *
 * Owner    the main thread: worker_start(), worker_request_stop(), worker_join(); it keeps the struct in place
 *          from worker_start() until worker_join() has returned 0
 * Readers  any thread: worker_beats(), worker_ended()
 * Order    stopping: relaxed; it carries no data, and a step that must be woken is woken by what it sleeps on
 *          beats: relaxed; a moment's view
 *          ended: E1 release in the thread, E2 acquire in worker_ended(): the result is there
 *
 * The thread has every signal blocked (they belong to the main thread) and is registered with rcu.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define WORKER_NAME_MAX 16   /* with the NUL; what the kernel keeps of a thread's name (TASK_COMM_LEN) */
#define WORKER_CPU_MAX  8191 /* the kernel's NR_CPUS is at most 8192 */

struct worker {
	/* Set by the caller before worker_start(), the rest zeroed. */
	char name[WORKER_NAME_MAX]; /* "pghot-read0" */
	const char *cpus;           /* CPUs to run on, in the kernel's list format; NULL or "": anywhere */
	int (*step)(void *ctx);     /* one turn: >= 0 to be called again, -errno to end the thread */
	int (*start)(void *ctx);    /* once in the thread before the first step; -errno ends it; may be NULL */
	void (*stop)(void *ctx);    /* once in the thread at its end, if start went well; may be NULL */
	void *ctx;

	/* Read by steps that take long: `.stop = &worker->stopping`. */
	_Atomic bool stopping;

	/* The worker's own. */
	_Atomic uint64_t beats;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t ended_cond;
	bool running; /* main thread only */
	_Atomic bool ended;
	int result; /* valid once ended */
};

/*
 * Start the thread. CPUs that are all offline or outside our cpuset are not an error: it then runs anywhere, and that
 * is logged. 0, -EINVAL (@worker->cpus is no CPU list), -ERANGE (a CPU over WORKER_CPU_MAX), -ENOMEM, -EAGAIN (no more
 * threads allowed). Main thread.
 */
int worker_start(struct worker *worker);

/* Ask it to end after the current step. Returns at once; wake what the step sleeps on afterwards. Any thread. */
void worker_request_stop(struct worker *worker);

/*
 * Wait for the end, for @timeout_ns at most (0: only look). 0 when it has ended or was never started; -ETIMEDOUT when
 * the step is still in there: the thread goes on, and this may be called again. Main thread.
 */
int worker_join(struct worker *worker, uint64_t timeout_ns);

/* Turns so far, and calls of worker_beat(). A number that stands still is a step that hangs. Any thread. */
uint64_t worker_beats(const struct worker *worker);

/* true when the thread is over, asked to or not; then @ret_result (if not NULL) has 0 or why (-errno). Any thread. */
bool worker_ended(const struct worker *worker, int *ret_result);

/* CPU time of the thread so far, in ns; 0 when it isn't running. Main thread. */
uint64_t worker_cpu_ns(const struct worker *worker);

/* In a step: is this thread asked to end? false in a thread that is no worker (a test, the simulator). */
bool worker_stopping(void);

/* In a step that takes long for good reason: say that it moves on. No effect in a thread that is no worker. */
void worker_beat(void);
