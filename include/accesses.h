/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * accesses: what samples stand for. How many accesses one stands for, how fast samples come, how long a cycle is, and
 * how busy the CPUs are, so that what is saved by moving memory can be held against what moving it takes.
 *
 * Writers     the main thread (accesses_set_per_sample()); one thread (accesses_step())
 * Readers     any
 * Protection  relaxed atomics: each is a moment's view
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

struct fsroot;

struct accesses {
	_Atomic uint64_t per_sample;      /* accesses that one sample stands for; 0: not known */
	_Atomic uint64_t samples_per_sec; /* of late, from all CPUs together; 0: none, or not known yet */
	_Atomic uint64_t cpu_khz;         /* of a core; 0: not known */
	_Atomic uint64_t busy_ms_per_sec; /* of all CPUs together, of late: user and system; 0: not known */

	/* The stepping thread's own. */
	uint64_t step_ns, samples, busy_ticks;
};

/* Nothing is known yet but the frequency, which is read of @root: cpufreq, or /proc/cpuinfo. Before any thread. */
void accesses_init(struct accesses *accesses, const struct fsroot *root);

/* A source takes one op in @n, so a sample that is an access stands for @n of its kind. 0: not known. Main thread. */
void accesses_set_per_sample(struct accesses *accesses, uint64_t n);

/*
 * @samples were counted so far; looks once a second, and reads /proc/stat of @root then, which takes milliseconds where
 * there are hundreds of CPUs. @root NULL: nobody wants to know now how busy they are. One thread.
 */
void accesses_step(struct accesses *accesses, const struct fsroot *root, uint64_t samples, uint64_t now_ns);

/* Any thread. */
static inline double accesses_get(const _Atomic uint64_t *word)
{
	return (double)atomic_load_explicit(word, memory_order_relaxed);
}
