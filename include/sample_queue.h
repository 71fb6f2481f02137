/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sample_queue: bounded hand-over of samples, one reader thread to one collector thread.
 *
 * Writer   the reader (slot, put, publish; push is all three)
 * Reader   the collector (peek, skip; pop is both)
 * Protects head: written by the writer only; tail: written by the reader only; both count up for ever, modulo 2^64.
 *          Slots from head on are the writer's, those from tail up to head the reader's.
 * Order    P1 release(head) in publish pairs with C1 acquire(head) in peek: a slot that is seen is fully written.
 *          C2 release(tail) in skip pairs with P2 acquire(tail) in slot: a slot is not overwritten while it is read.
 * Full     there is no slot, or push returns -ENOBUFS; it never waits. The caller counts the drop.
 *
 * A side may pass to another thread when something else (a lock) orders the two.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sample.h"

#define SAMPLE_QUEUE_MIN   64
#define SAMPLE_QUEUE_MAX   (1U << 20)
#define SAMPLE_QUEUE_BATCH 64 /* so many are written at most before they are published: a power of two */

/*
 * Each side's index shares its cache line only with that side's copy of the other index, so the two sides touch each
 * other's line just when the copy says full or empty. Two lines each: adjacent ones are fetched in pairs. The fields
 * are for the functions here and in sample_queue.c only.
 */
struct sample_queue {
	_Alignas(128) _Atomic uint64_t head;
	uint64_t written;   /* writer's: head, and what is not published yet */
	uint64_t tail_seen; /* writer's */
	_Alignas(128) _Atomic uint64_t tail;
	uint64_t head_seen; /* reader's */
	_Alignas(128) uint64_t mask;
	_Alignas(64) struct sample slot[];
};

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

/* Writer only: what was put is visible to the reader from here on. Wait-free. */
static inline void sample_queue_publish(struct sample_queue *queue)
{
	atomic_store_explicit(&queue->head, queue->written, memory_order_release); /* P1 */
}

/* Writer only: ask the reader how far it is, where the writer's copy says full. true: there is a free slot. */
bool sample_queue_look(struct sample_queue *queue);

/*
 * Writer only: where the next sample goes, to be written there and then put. NULL: full. The same again until it is
 * put. Wait-free.
 */
static inline struct sample *sample_queue_slot(struct sample_queue *queue)
{
	if (__builtin_expect(queue->written - queue->tail_seen > queue->mask, 0) && !sample_queue_look(queue))
		return NULL;
	return &queue->slot[queue->written & queue->mask];
}

/*
 * Writer only: the slot is written. Its reader sees it after sample_queue_publish(), which the writer owes at the end
 * of a row, or when SAMPLE_QUEUE_BATCH are due: so that a reader on another CPU need not wait for the end of a long
 * row, and the line of the index is not handed back and forth for each sample. Wait-free.
 */
static inline void sample_queue_put(struct sample_queue *queue)
{
	if (++queue->written % SAMPLE_QUEUE_BATCH == 0)
		sample_queue_publish(queue);
}

/*
 * Writer only: where the next samples go, as many as *@ret_n in a row, at most SAMPLE_QUEUE_BATCH; 0: full. To be
 * written there and then put with sample_queue_put_row(), all or the first of them. Wait-free.
 */
static inline struct sample *sample_queue_row(struct sample_queue *queue, size_t *ret_n)
{
	struct sample *slot = sample_queue_slot(queue);
	uint64_t left = queue->mask + 1 - (queue->written - queue->tail_seen);
	uint64_t in_row = queue->mask + 1 - (queue->written & queue->mask);

	if (in_row < left)
		left = in_row;
	*ret_n = !slot ? 0 : left < SAMPLE_QUEUE_BATCH ? (size_t)left : SAMPLE_QUEUE_BATCH;
	return slot;
}

/* Writer only: @n slots are written, and visible to the reader. Wait-free. */
static inline void sample_queue_put_row(struct sample_queue *queue, size_t n)
{
	queue->written += n;
	sample_queue_publish(queue);
}

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
