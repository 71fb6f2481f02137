/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * buffers: how large the rings of the CPUs and the queues between threads are, so that all of them together stay within
 * a bound whatever the machine: each has what was asked for until there are too many. Who asks for more than the
 * default gets it. Pure.
 *
 * With the defaults (512 KiB, 4096 samples) that is for
 *      64 CPUs,  2 nodes,  2 collectors:  33 MiB
 *     256 CPUs,  4 nodes,  8 collectors: 134 MiB
 *     768 CPUs, 16 nodes, 24 collectors: 230 MiB, with rings of 256 KiB and queues of 2048 samples
 * Beside them, a CPU costs a descriptor and the kernel's page of its ring.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "sample.h"

#define BUFFERS_RINGS_MAX_BYTES  (UINT64_C(192) << 20)
#define BUFFERS_QUEUES_MAX_BYTES (UINT64_C(56) << 20)
#define BUFFERS_RING_MIN_BYTES   (UINT64_C(16) << 10) /* some hundred samples: less would overflow between two looks */
#define BUFFERS_QUEUE_MIN        64
/* Defaults of threads.ring_kib and threads.queue_samples. */
#define BUFFERS_RING_KIB      512
#define BUFFERS_QUEUE_SAMPLES 4096

/* The largest power of two that is at most @n; @n from 1. */
static inline uint64_t buffers_floor_power(uint64_t n)
{
	return UINT64_C(1) << (63 - __builtin_clzll(n));
}

/* Bytes of data of one ring of @rings, at least 1; @asked_kib at least 4. A power of two. */
static inline size_t buffers_ring_bytes(uint64_t asked_kib, size_t rings)
{
	uint64_t bytes = asked_kib << 10, most = BUFFERS_RINGS_MAX_BYTES / rings;

	if (asked_kib > BUFFERS_RING_KIB)
		return (size_t)buffers_floor_power(bytes);
	if (most < BUFFERS_RING_MIN_BYTES)
		most = BUFFERS_RING_MIN_BYTES;
	return (size_t)buffers_floor_power(bytes < most ? bytes : most);
}

/* Samples of one queue of @queues, at least 1. */
static inline size_t buffers_queue_samples(uint64_t asked, size_t queues)
{
	uint64_t most = buffers_floor_power(BUFFERS_QUEUES_MAX_BYTES / sizeof(struct sample) / queues + 1);

	if (most < BUFFERS_QUEUE_MIN)
		most = BUFFERS_QUEUE_MIN;
	return (size_t)(asked > BUFFERS_QUEUE_SAMPLES || asked < most ? asked : most);
}
