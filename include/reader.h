/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * reader: one for each node with CPUs, pinned there. Drains rings, decodes, filters, deals samples to the collectors'
 * queues. Never waits for a collector: a full queue is a counted drop.
 *
 * Owner    its thread calls reader_step(); main adds and removes rings
 * Protects one mutex, taken once per step (never per record): the list of rings, the writing end of the queues, and the
 *          stats slot, so that main may drain a last time what it takes away
 *
 * Each sample counts once in total and once by its source, and then ends as a push or in exactly one of
 * dropped_queue_full, discarded_guest, _no_pid, _self, _no_address, _kernel, _no_phys, tested in this order.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct reader;
struct sample_queue;
struct source_ring;
struct stats_slot;
struct waker;

#define READER_SHARDS_MAX 64

struct reader_params {
	int nid; /* name only */
	struct stats_slot *stats;
	struct sample_queue **queues; /* one to each collector, by shard; copied */
	struct waker **wakers;        /* of the collectors, by shard; copied. NULL: nobody sleeps */
	unsigned int shards;          /* 1..READER_SHARDS_MAX */
	uint32_t self_pid;            /* samples of it are discarded */
};

struct reader *reader_new(const struct reader_params *params); /* NULL with errno set */
/* Accepts NULL. The rings it still has are let go without a look at them. */
void reader_free(struct reader *reader);

/*
 * Main thread. 0 or -errno: -ENOTSUP for a sample_type that can't be decoded, -EEXIST when it has the ring, -ENOMEM,
 * -ENOSPC (fs.epoll.max_user_watches). The ring stays the source's. One without a descriptor to wait on (fd -1, or one
 * that can't be polled) is drained at each step all the same.
 */
int reader_add_ring(struct reader *reader, struct source_ring *ring);
/*
 * Main thread. Drains what is left, then lets go; when it returns the ring is no longer touched. A ring that this
 * reader doesn't have is left alone.
 */
void reader_remove_ring(struct reader *reader, struct source_ring *ring);

/*
 * Wait up to @timeout_ms for a watermark, then drain every ring (data below the watermark never wakes). Returns the
 * number of samples handed on, or -errno from epoll. A ring whose CPU went away reports that for ever, so it is waited
 * for no more and drained by the timeout only. The reader's own thread.
 */
int reader_step(struct reader *reader, int timeout_ms);

/* Let the step that waits, or the next one, go on at once. Any thread. */
void reader_interrupt(struct reader *reader);

/*
 * Drain one ring once and wake the collectors that got samples; returns the samples handed on. The step without the
 * waiting. Tests, benchmarks and reader_remove_ring() use it. Takes the mutex. Any thread.
 */
size_t reader_drain(struct reader *reader, struct source_ring *ring);
