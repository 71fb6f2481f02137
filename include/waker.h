/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * waker: a thread that found nothing to do sleeps here until another has something for it.
 *
 * Sleeper  one thread: waker_prepare(), look for work once more, then waker_wait() or waker_cancel()
 * Wakers   any; waker_wake() is a load when nobody sleeps, so it may follow every batch (never every sample)
 * Order    W1 seq_cst store of "sleeping" then the look for work, against W2 the work's publication then a seq_cst
 *          fence and load of "sleeping": one of the two sees the other, so no wake-up is lost.
 */
#pragma once

#include <stdint.h>

struct waker;

struct waker *waker_new(void); /* NULL: no memory or no descriptor, errno says which */
void waker_free(struct waker *waker);

void waker_prepare(struct waker *waker);
void waker_cancel(struct waker *waker);
/* Sleep until woken, or for @timeout_ms at most. */
void waker_wait(struct waker *waker, int timeout_ms);
void waker_wake(struct waker *waker);
