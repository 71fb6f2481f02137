/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * reader: one for each node with CPUs, pinned there. Drains rings, decodes, filters, deals samples to the collectors'
 * queues. Never waits for a collector: a full queue is a counted drop.
 *
 * Owner    its thread calls reader_step(); main adds and removes rings
 * Protects the list of rings: a mutex taken once per step (never per record)
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct reader;
struct sample_queue;
struct source_ring;
struct stats_slot;
struct waker;

struct reader_params {
	int nid; /* name only */
	struct stats_slot *stats;
	struct sample_queue **queues; /* one to each collector, by shard; copied */
	struct waker **wakers;        /* of the collectors, by shard; copied */
	unsigned int shards;
	uint32_t self_pid; /* samples of it are discarded */
};

struct reader *reader_new(const struct reader_params *params); /* NULL with errno set */
void reader_free(struct reader *reader);

/* Main thread. 0 or -errno. The ring stays the source's. */
int reader_add_ring(struct reader *reader, struct source_ring *ring);
/* Main thread. Drains what is left, then lets go; when it returns the ring is no longer touched. */
void reader_remove_ring(struct reader *reader, struct source_ring *ring);

/*
 * Wait up to @timeout_ms for a watermark, then drain every ring (data below the watermark never wakes). Returns the
 * number of samples handed on, or -errno from epoll. The reader's own thread.
 */
int reader_step(struct reader *reader, int timeout_ms);

/* Drain one ring once; the step without the waiting. Tests, benchmarks and reader_remove_ring() use it. */
size_t reader_drain(struct reader *reader, struct source_ring *ring);
