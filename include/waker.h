/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * waker: a thread that found nothing to do sleeps here until another has something for it.
 *
 * Sleeper  one thread: waker_prepare(), look for work once more, then waker_wait() or waker_cancel()
 * Wakers   any; waker_wake() is a fence and a load when nobody sleeps, so it may follow every batch (never every
 * sample) Order    W1 store of "sleeping", seq_cst fence, then the look for work; W2 the work's publication, seq_cst
 * fence, then load of "sleeping": one of the two sees the other, so no wake-up is lost. A wait may end early.
 */
#pragma once

#include <stdint.h>

struct waker;

struct waker *waker_new(void);        /* NULL: no memory or no descriptor, errno says which */
void waker_free(struct waker *waker); /* accepts NULL; nobody may sleep or wake any more */

/* Sleeper only. From here on waker_wake() ends the next wait; look for work after it, not before. */
void waker_prepare(struct waker *waker);
/* Sleeper only. There was work after all. */
void waker_cancel(struct waker *waker);
/* Sleeper only. Sleep until woken, or for @timeout_ms at most (-1: no limit). May end early; look for work either way.
 */
void waker_wait(struct waker *waker, int timeout_ms);
/* Any thread, after it has published work. */
void waker_wake(struct waker *waker);
