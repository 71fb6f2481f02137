/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sample_queue: bounded hand-over of samples, one reader thread to one collector thread.
 *
 * Writer   the reader (push)
 * Reader   the collector (pop)
 * Protects head: written by the writer only; tail: written by the reader only; both count up for ever.
 * Order    P1 release(head) in push pairs with C1 acquire(head) in pop: a popped slot is fully written.
 *          C2 release(tail) in pop pairs with P2 acquire(tail) in push: a slot is not overwritten while it is read.
 * Full     push returns -ENOBUFS; it never waits. The caller counts the drop.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct sample;
struct sample_queue;

/* @min_samples 64..2^20, rounded up to a power of two. NULL: out of memory. */
struct sample_queue *sample_queue_new(size_t min_samples);
void sample_queue_free(struct sample_queue *queue); /* accepts NULL */

/* Slots, a power of two. */
size_t sample_queue_capacity(const struct sample_queue *queue);

/* Writer only. 0 or -ENOBUFS. Wait-free. The sample is visible to pop when push returns. */
int sample_queue_push(struct sample_queue *queue, const struct sample *sample);

/* Reader only. Copies up to @max samples to @ret in order, returns how many; 0 when it is empty. Wait-free. */
size_t sample_queue_pop(struct sample_queue *queue, struct sample *ret, size_t max);

/* How full it is, in samples: exact for neither side while the other works. Any thread. */
size_t sample_queue_used(const struct sample_queue *queue);
