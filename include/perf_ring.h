/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * perf_ring: the reading side of one mapped perf ring. The only file that touches data_head and data_tail.
 *
 * Writer  the kernel (data, data_head)
 * Reader  one thread at a time (data_tail); the daemon's reader of that node, or whoever drains after it has let go
 * Order   R1 acquire(data_head) pairs with the kernel's barrier between data and data_head: a record below head is
 * whole. R2 release(data_tail) pairs with the kernel's control dependency on data_tail: a record is not overwritten
 * while it is read. Source: kernel/events/ring_buffer.c, perf_output_put_handle(); perf_event_open(2), "data_head".
 *
 * Both positions count bytes for ever, modulo 2^64; a place in the ring is the position modulo the ring's size.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct perf_event_header;
struct perf_ring;

/* A record has a 16 bit size: what a straddling one is copied to is never larger. */
#define PERF_RING_RECORD_MAX 65536

/*
 * Map the ring of @fd with @data_bytes (rounded down to a power of two, at least a page). Returns 0 or -errno; -EPERM
 * is the mlock limit. The caller may try again with half. Closing @fd does not unmap.
 */
int perf_ring_map(int fd, size_t data_bytes, struct perf_ring **ret);

/*
 * A ring over memory of the caller's for tests: @base (aligned to 8) is a perf_event_mmap_page of @page_bytes, followed
 * by @data_bytes of data, a power of two from 8. Reading goes on at the page's data_tail. NULL: no memory.
 */
struct perf_ring *perf_ring_wrap(void *base, size_t page_bytes, size_t data_bytes);

/* Unmap (or forget, for a wrapped one). Accepts NULL. */
void perf_ring_free(struct perf_ring *ring);

size_t perf_ring_data_bytes(const struct perf_ring *ring);

/*
 * Begin a drain: read head once. Then perf_ring_next() until NULL, then perf_ring_end(), which hands the space back.
 * Records are valid until perf_ring_end(). The drain sees what was there at the beginning only, so it ends on any ring.
 */
void perf_ring_begin(struct perf_ring *ring);

/*
 * The next whole record (in place, or copied where it straddles the end), or NULL at the end. A header whose size can't
 * be true (below 8, beyond what is available, or not a multiple of 8) ends the drain: *@bad (may be NULL) is set to 1
 * and the rest up to head is skipped, since there is no way to find the next record. So is a head that can't be true.
 * *@bad is left alone otherwise. No system call, no allocation.
 */
const struct perf_event_header *perf_ring_next(struct perf_ring *ring, int *bad);

/*
 * The bytes of this drain that lie in a row from the next record on, for who knows how long its records are and looks
 * at the header of each: *@ret_bytes of them, 0 where there are none, or where perf_ring_next() has to say why. What
 * was looked at is skipped. Aligned to 8.
 */
const unsigned char *perf_ring_row(const struct perf_ring *ring, size_t *ret_bytes);

/* Go on behind @bytes of the row, which are whole records. */
void perf_ring_skip(struct perf_ring *ring, size_t bytes);

/* Hand back what was shown; the only place where data_tail is written. */
void perf_ring_end(struct perf_ring *ring);
