/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rcu: the only door to liburcu (memb flavour). Pointers and words are published and read with C11 atomics
 * (release to publish, acquire to read); liburcu supplies what those can't: the grace period.
 *
 * ThreadSanitizer doesn't see the barriers inside liburcu and would report the free after a grace period as a
 * race with the last reader, so the two edges that matter are told to it here and nowhere else.
 *
 * Never hold a read section across a call that can block: copy out, leave, act.
 */
#pragma once

#include <urcu.h>

#if defined(__SANITIZE_THREAD__)
#define RCU_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define RCU_TSAN 1
#endif
#endif

#ifdef RCU_TSAN
void __tsan_acquire(void *addr);
void __tsan_release(void *addr);
/* One address for all sections: coarser than the truth, so it can hide a race but never invent one. */
extern char rcu_tsan_edge;
#define rcu_tsan_acquire() __tsan_acquire(&rcu_tsan_edge)
#define rcu_tsan_release() __tsan_release(&rcu_tsan_edge)
#else
#define rcu_tsan_acquire() ((void)0)
#define rcu_tsan_release() ((void)0)
#endif

/* Each thread that reads registers once before and unregisters before it ends. */
static inline void rcu_thread_start(void)
{
	rcu_register_thread();
}

static inline void rcu_thread_stop(void)
{
	rcu_unregister_thread();
}

/* Read sections nest. Wait-free. */
static inline void rcu_enter(void)
{
	rcu_read_lock();
}

static inline void rcu_leave(void)
{
	rcu_tsan_release();
	rcu_read_unlock();
}

/* Wait until every read section that had begun has ended. Blocks; never inside a read section. */
static inline void rcu_wait(void)
{
	synchronize_rcu();
	rcu_tsan_acquire();
}
