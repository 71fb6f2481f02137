/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tokens: a token bucket in bytes. Pure: the caller gives the time. Not shared: one owner thread.
 *
 * All time that passes becomes bytes, exactly: what is less than a byte is kept, so that callers that come more often
 * than once per byte's worth of time still fill the bucket. Unused tokens stop at the burst and do not pile up.
 * A clock that stands still or goes back gives nothing, and nothing is given twice when it moves on.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Ceiling of rate, burst and one take: 10 s (the longest burst) of 2^20 MiB/s (the highest rate) fit below it. */
#define TOKENS_MAX (INT64_C(1) << 44)

struct tokens {
	uint64_t rate_bytes_per_sec; /* 0: nothing is ever granted */
	uint64_t burst_bytes;
	int64_t level_bytes; /* below 0 after a grant larger than the level */
	uint64_t fraction;   /* on top of the level, in 10^-9 bytes, below 10^9 */
	uint64_t last_ns;    /* up to where time has been turned into bytes */
};

/* Start full. @rate_bytes_per_sec 0..TOKENS_MAX, @burst_bytes 1..TOKENS_MAX; beyond that the nearest is taken. */
void tokens_init(struct tokens *t, uint64_t rate_bytes_per_sec, uint64_t burst_bytes, uint64_t now_ns);

/* Change rate and burst; time until @now_ns counts at the old rate; what is in the bucket is kept, up to the new burst.
 */
void tokens_set(struct tokens *t, uint64_t rate_bytes_per_sec, uint64_t burst_bytes, uint64_t now_ns);

/* Bytes that may be taken at @now_ns; 0 or more. 0 at rate 0. */
uint64_t tokens_available(struct tokens *t, uint64_t now_ns);

/*
 * Take @bytes (at most TOKENS_MAX) if anything is there, and into debt if need be: a unit larger than the burst (a huge
 * page) is granted too and paid for before the next grant. So at most rate * time + burst + one unit is granted in any
 * time. Who must not overshoot asks tokens_available() first. false: nothing taken.
 */
bool tokens_take(struct tokens *t, uint64_t bytes, uint64_t now_ns);

/* Return what was taken and not used (at most TOKENS_MAX). */
void tokens_put(struct tokens *t, uint64_t bytes);
