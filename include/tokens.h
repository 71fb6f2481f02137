/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tokens: a token bucket in bytes. Pure: the caller gives the time. Not shared: one owner thread.
 *
 * The bucket keeps the remainder of each refill in ns, so that callers that come more often than once
 * per byte's worth of time still fill it; unused tokens stop at the burst and do not pile up.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct tokens {
	uint64_t rate_bytes_per_sec; /* 0: nothing is ever granted */
	uint64_t burst_bytes;
	int64_t level_bytes; /* below 0 after a grant larger than the level */
	uint64_t last_ns;    /* up to where time has been turned into bytes */
};

/* Start full. @rate 0..2^40 bytes/s, @burst 1..2^40 bytes. */
void tokens_init(struct tokens *t, uint64_t rate_bytes_per_sec, uint64_t burst_bytes, uint64_t now_ns);

/* Change rate and burst; what is in the bucket is kept, up to the new burst. */
void tokens_set(struct tokens *t, uint64_t rate_bytes_per_sec, uint64_t burst_bytes, uint64_t now_ns);

/* Bytes that may be taken at @now_ns; 0 or more. */
uint64_t tokens_available(struct tokens *t, uint64_t now_ns);

/*
 * Take @bytes if the level is positive: a single unit larger than the burst (a huge page) is granted
 * when the bucket is full and paid for later. false: nothing taken.
 */
bool tokens_take(struct tokens *t, uint64_t bytes, uint64_t now_ns);

/* Return what was taken and not used. */
void tokens_put(struct tokens *t, uint64_t bytes);
