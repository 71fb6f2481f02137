/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "waker.h"

/* gcc warns that its ThreadSanitizer doesn't model fences. Nothing here rests on one for the hand-over of data: that is
 * the caller's release and acquire. The fences only order a store before a load. */
#if defined(__SANITIZE_THREAD__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wtsan"
#endif

struct waker {
	/* On a line of its own: wakers read it after every batch, and the sleeper's other data must not slow them. */
	_Alignas(64) _Atomic bool sleeping;
	int fd;
};

struct waker *waker_new(void)
{
	struct waker *waker = aligned_alloc(_Alignof(struct waker), sizeof(*waker));

	if (!waker)
		return NULL;
	atomic_init(&waker->sleeping, false);
	waker->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (waker->fd < 0) {
		int saved = errno;

		free(waker);
		errno = saved;
		return NULL;
	}
	return waker;
}

void waker_free(struct waker *waker)
{
	if (!waker)
		return;
	close(waker->fd);
	free(waker);
}

void waker_prepare(struct waker *waker)
{
	/* W1: the fence puts the store before the look for work that follows; pairs with W2. */
	atomic_store_explicit(&waker->sleeping, true, memory_order_relaxed);
	atomic_thread_fence(memory_order_seq_cst);
}

void waker_cancel(struct waker *waker)
{
	/* Relaxed: a waker that still sees true writes to the descriptor, which costs the next sleep one early end. */
	atomic_store_explicit(&waker->sleeping, false, memory_order_relaxed);
}

void waker_wait(struct waker *waker, int timeout_ms)
{
	struct pollfd pfd = { .fd = waker->fd, .events = POLLIN };
	uint64_t count;

	(void)poll(&pfd, 1, timeout_ms);
	waker_cancel(waker);
	/* Fails when nothing was written, which is the timeout. */
	if (read(waker->fd, &count, sizeof(count)) < 0)
		return;
}

void waker_wake(struct waker *waker)
{
	uint64_t one = 1;

	/* W2: the fence puts the caller's publication of work before the load; pairs with W1. */
	atomic_thread_fence(memory_order_seq_cst);
	if (!atomic_load_explicit(&waker->sleeping, memory_order_relaxed))
		return;
	/* One of several wakers makes the system call. Relaxed: the descriptor carries the wake-up, not this word. */
	if (!atomic_exchange_explicit(&waker->sleeping, false, memory_order_relaxed))
		return;
	/* Fails only at 2^64 - 1 unread wake-ups, when the sleeper is awake anyway. */
	if (write(waker->fd, &one, sizeof(one)) < 0)
		return;
}
