/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "sample_queue.h"

struct sample_queue *sample_queue_new_at(size_t min_samples, uint64_t first)
{
	struct sample_queue *queue;
	size_t n = SAMPLE_QUEUE_MIN, bytes;

	assert(min_samples >= SAMPLE_QUEUE_MIN && min_samples <= SAMPLE_QUEUE_MAX);
	while (n < min_samples)
		n *= 2;
	bytes = sizeof(*queue) + n * sizeof(queue->slot[0]);
	bytes = (bytes + _Alignof(struct sample_queue) - 1) & ~(_Alignof(struct sample_queue) - 1);
	queue = aligned_alloc(_Alignof(struct sample_queue), bytes);
	if (!queue)
		return NULL;
	memset(queue, 0, bytes);
	queue->mask = n - 1;
	queue->written = queue->tail_seen = queue->head_seen = first;
	atomic_init(&queue->head, first);
	atomic_init(&queue->tail, first);
	return queue;
}

struct sample_queue *sample_queue_new(size_t min_samples)
{
	return sample_queue_new_at(min_samples, 0);
}

void sample_queue_free(struct sample_queue *queue)
{
	free(queue);
}

size_t sample_queue_capacity(const struct sample_queue *queue)
{
	return (size_t)queue->mask + 1;
}

bool sample_queue_look(struct sample_queue *queue)
{
	queue->tail_seen = atomic_load_explicit(&queue->tail, memory_order_acquire); /* P2 */
	return queue->written - queue->tail_seen <= queue->mask;
}

int sample_queue_push(struct sample_queue *queue, const struct sample *sample)
{
	struct sample *slot = sample_queue_slot(queue);

	if (!slot)
		return -ENOBUFS;
	*slot = *sample;
	sample_queue_put(queue);
	sample_queue_publish(queue);
	return 0;
}

size_t sample_queue_peek(struct sample_queue *queue, size_t max, const struct sample **ret)
{
	/* Relaxed: only this thread writes it. */
	uint64_t tail = atomic_load_explicit(&queue->tail, memory_order_relaxed), n;
	size_t at = (size_t)(tail & queue->mask), row = (size_t)queue->mask + 1 - at;

	if (queue->head_seen - tail < max)
		queue->head_seen = atomic_load_explicit(&queue->head, memory_order_acquire); /* C1 */
	n = queue->head_seen - tail;
	*ret = &queue->slot[at];
	if (row < max)
		max = row;
	return n < max ? (size_t)n : max;
}

void sample_queue_skip(struct sample_queue *queue, size_t n)
{
	uint64_t tail = atomic_load_explicit(&queue->tail, memory_order_relaxed);

	assert(n <= queue->head_seen - tail);
	/* C2 */
	atomic_store_explicit(&queue->tail, tail + n, memory_order_release);
}

size_t sample_queue_pop(struct sample_queue *queue, struct sample *ret, size_t max)
{
	size_t done = 0;

	/* Twice, for what lies around the end of the ring. */
	for (int part = 0; part < 2 && done < max; part++) {
		const struct sample *at;
		size_t n = sample_queue_peek(queue, max - done, &at);

		memcpy(ret + done, at, n * sizeof(*ret));
		sample_queue_skip(queue, n);
		done += n;
	}
	return done;
}

size_t sample_queue_used(const struct sample_queue *queue)
{
	/*
	 * Tail first: head is never behind a tail that was read before it (acquire on tail pairs with C2, and C1 came
	 * before that). The writer may have gone on in between, hence the bound.
	 */
	uint64_t tail = atomic_load_explicit(&queue->tail, memory_order_acquire);
	uint64_t used = atomic_load_explicit(&queue->head, memory_order_relaxed) - tail;

	return used > queue->mask ? (size_t)queue->mask + 1 : (size_t)used;
}
