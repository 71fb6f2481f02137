/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "clock.h"
#include "log.h"
#include "nodeset.h"
#include "rcu.h"
#include "worker.h"

static _Thread_local struct worker *current;

static void add_beat(struct worker *worker)
{
	/* One writer, so a load and a store; relaxed, since main only asks whether the number has changed. */
	uint64_t beats = atomic_load_explicit(&worker->beats, memory_order_relaxed);

	atomic_store_explicit(&worker->beats, beats + 1, memory_order_relaxed);
}

static bool asked_to_stop(const struct worker *worker)
{
	/* Relaxed: pairs with worker_request_stop(); no data hangs on it. */
	return atomic_load_explicit(&worker->stopping, memory_order_relaxed);
}

static bool has_ended(const struct worker *worker)
{
	/* E2, pairs with E1 in run(). */
	return atomic_load_explicit(&worker->ended, memory_order_acquire);
}

static int loop(struct worker *worker)
{
	int r = worker->start ? worker->start(worker->ctx) : 0;

	if (r < 0)
		return r;
	while (r >= 0 && !asked_to_stop(worker)) {
		r = worker->step(worker->ctx);
		add_beat(worker);
	}
	if (worker->stop)
		worker->stop(worker->ctx);
	return r < 0 ? r : 0;
}

static void *run(void *arg)
{
	struct worker *worker = arg;
	int r;

	/* Can't fail: the name fits and the thread is ourselves. */
	(void)pthread_setname_np(pthread_self(), worker->name);
	current = worker;
	rcu_thread_start();
	r = loop(worker);
	rcu_thread_stop();
	if (r < 0)
		log_error("thread %s ended: %s; its work is not done until pghotd is restarted", worker->name,
			  strerror(-r));
	worker->result = r;
	pthread_mutex_lock(&worker->lock);
	/* E1 release, pairs with E2 acquire in has_ended(): who sees the end sees the result. */
	atomic_store_explicit(&worker->ended, true, memory_order_release);
	pthread_cond_signal(&worker->ended_cond);
	pthread_mutex_unlock(&worker->lock);
	return NULL;
}

static int add_cpu(void *ctx, int cpu)
{
	CPU_SET_S((size_t)cpu, CPU_ALLOC_SIZE(WORKER_CPU_MAX + 1), (cpu_set_t *)ctx);
	return 0;
}

/* With the CPUs of @attr, or anywhere when none of them can be used: EINVAL is the kernel's word for that. */
static int create(struct worker *worker, pthread_attr_t *attr, const cpu_set_t *cpus, size_t cpus_bytes)
{
	if (cpus) {
		int r = pthread_attr_setaffinity_np(attr, cpus_bytes, cpus);

		if (r != 0)
			return r;
		r = pthread_create(&worker->thread, attr, run, worker);
		if (r != EINVAL)
			return r;
		log_warning("thread %s: none of CPUs %s can be used, so it runs on any", worker->name, worker->cpus);
	}
	return pthread_create(&worker->thread, NULL, run, worker);
}

int worker_start(struct worker *worker)
{
	size_t cpus_bytes = CPU_ALLOC_SIZE(WORKER_CPU_MAX + 1);
	cpu_set_t *cpus = NULL;
	pthread_attr_t attr;
	sigset_t all, old;
	int r = 0;

	worker->name[WORKER_NAME_MAX - 1] = '\0';
	if (worker->cpus && worker->cpus[0]) {
		cpus = CPU_ALLOC(WORKER_CPU_MAX + 1);
		if (!cpus)
			return -ENOMEM;
		CPU_ZERO_S(cpus_bytes, cpus);
		r = idlist_for_each(worker->cpus, WORKER_CPU_MAX, add_cpu, cpus);
		if (r < 0)
			goto out_cpus;
	}
	r = -pthread_attr_init(&attr);
	if (r < 0)
		goto out_cpus;
	/* All relaxed: the thread isn't there yet, and its creation orders them. */
	atomic_store_explicit(&worker->stopping, false, memory_order_relaxed);
	atomic_store_explicit(&worker->beats, 0, memory_order_relaxed);
	atomic_store_explicit(&worker->ended, false, memory_order_relaxed);
	worker->result = 0;
	pthread_mutex_init(&worker->lock, NULL);
	pthread_cond_init(&worker->ended_cond, NULL);

	/* Blocked here and inherited, so that there is no moment in which the thread could take a signal. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	r = -create(worker, &attr, cpus, cpus_bytes);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	worker->running = r == 0;
	if (r < 0) {
		pthread_cond_destroy(&worker->ended_cond);
		pthread_mutex_destroy(&worker->lock);
	}
	pthread_attr_destroy(&attr);
out_cpus:
	if (cpus)
		CPU_FREE(cpus);
	return r;
}

void worker_request_stop(struct worker *worker)
{
	/* Relaxed: pairs with asked_to_stop(); no data hangs on it. */
	atomic_store_explicit(&worker->stopping, true, memory_order_relaxed);
}

int worker_join(struct worker *worker, uint64_t timeout_ns)
{
	struct timespec until;
	int r = 0;

	if (!worker->running)
		return 0;
	/* A condition rather than pthread_clockjoin_np(), which ThreadSanitizer doesn't know. */
	clock_gettime(CLOCK_MONOTONIC, &until);
	uint64_t nsec = (uint64_t)until.tv_nsec + timeout_ns % NSEC_PER_SEC;

	/* 2^34 s at most from a 64-bit count of ns: no overflow of time_t. */
	until.tv_sec += (time_t)(timeout_ns / NSEC_PER_SEC + nsec / NSEC_PER_SEC);
	until.tv_nsec = (long)(nsec % NSEC_PER_SEC);

	pthread_mutex_lock(&worker->lock);
	while (!has_ended(worker) && r != ETIMEDOUT)
		r = pthread_cond_clockwait(&worker->ended_cond, &worker->lock, CLOCK_MONOTONIC, &until);
	pthread_mutex_unlock(&worker->lock);
	if (!has_ended(worker))
		return -ETIMEDOUT;
	/* It has nothing left to do but return. */
	pthread_join(worker->thread, NULL);
	worker->running = false;
	pthread_cond_destroy(&worker->ended_cond);
	pthread_mutex_destroy(&worker->lock);
	return 0;
}

uint64_t worker_cpu_ns(const struct worker *worker)
{
	struct timespec ts;
	clockid_t id;

	if (!worker->running || pthread_getcpuclockid(worker->thread, &id) != 0 || clock_gettime(id, &ts) < 0)
		return 0;
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

uint64_t worker_beats(const struct worker *worker)
{
	return atomic_load_explicit(&worker->beats, memory_order_relaxed);
}

bool worker_ended(const struct worker *worker, int *ret_result)
{
	bool ended = has_ended(worker);

	if (ended && ret_result)
		*ret_result = worker->result;
	return ended;
}

bool worker_stopping(void)
{
	return current && asked_to_stop(current);
}

void worker_beat(void)
{
	if (current)
		add_beat(current);
}
