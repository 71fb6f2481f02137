/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sample_queue: bounded hand-over of samples, one reader thread to one collector thread.
 *
 * Writer   the reader (push)
 * Reader   the collector (pop)
 * Protects head: written by the writer only; tail: written by the reader only; both count up for ever, modulo 2^64.
 * Order    P1 release(head) in push pairs with C1 acquire(head) in pop: a popped slot is fully written.
 *          C2 release(tail) in pop pairs with P2 acquire(tail) in push: a slot is not overwritten while it is read.
 * Full     push returns -ENOBUFS; it never waits. The caller counts the drop.
 *
 * A side may pass to another thread when something else (a lock) orders the two.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define SAMPLE_QUEUE_MIN 64
#define SAMPLE_QUEUE_MAX (1U << 20)

struct sample;
struct sample_queue;

/*
 * @min_samples SAMPLE_QUEUE_MIN..SAMPLE_QUEUE_MAX, rounded up to a power of two; its memory is touched here, so that no
 * push faults it in. NULL: out of memory.
 */
struct sample_queue *sample_queue_new(size_t min_samples);

/* The same, but counting starts at @first instead of 0: what a queue looks like after that many samples. For tests. */
struct sample_queue *sample_queue_new_at(size_t min_samples, uint64_t first);

void sample_queue_free(struct sample_queue *queue); /* accepts NULL */

/* Slots, a power of two. */
size_t sample_queue_capacity(const struct sample_queue *queue);

/* Writer only. 0 or -ENOBUFS. Wait-free. The sample is visible to pop when push returns. */
int sample_queue_push(struct sample_queue *queue, const struct sample *sample);

/* Reader only. Copies up to @max samples to @ret in order, returns how many; 0 when it is empty. Wait-free. */
size_t sample_queue_pop(struct sample_queue *queue, struct sample *ret, size_t max);

/*
 * Reader only. The next samples where they lie, at most @max: how many stand in a row from *@ret on. 0 when it is
 * empty; else there may be more behind them. They stay until they are skipped. Wait-free.
 */
size_t sample_queue_peek(struct sample_queue *queue, size_t max, const struct sample **ret);

/* Reader only: give back the first @n of what was peeked at. Wait-free. */
void sample_queue_skip(struct sample_queue *queue, size_t n);

/* How full it is, in samples: exact for neither side while the other works. Any thread. */
size_t sample_queue_used(const struct sample_queue *queue);
