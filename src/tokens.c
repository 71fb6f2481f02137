/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <assert.h>

#include "tokens.h"

#define UNIT_PER_NS 1000000000ULL /* fractions of a byte that 1 byte/s gives in 1 s */

static uint64_t clamp(uint64_t v, uint64_t min, uint64_t max)
{
	return v < min ? min : v > max ? max : v;
}

static void set_limits(struct tokens *t, uint64_t rate_bytes_per_sec, uint64_t burst_bytes)
{
	t->rate_bytes_per_sec = clamp(rate_bytes_per_sec, 0, TOKENS_MAX);
	t->burst_bytes = clamp(burst_bytes, 1, TOKENS_MAX);
}

/* A full bucket holds no fraction: it would be more than the burst. */
static void spill(struct tokens *t)
{
	if (t->level_bytes >= (int64_t)t->burst_bytes) {
		t->level_bytes = (int64_t)t->burst_bytes;
		t->fraction = 0;
	}
}

/* Turn the time since the last call into bytes, all of it: what is less than a byte is kept as a fraction. */
static void refill(struct tokens *t, uint64_t now_ns)
{
	if (now_ns <= t->last_ns)
		return;

	/* 2^64 ns times 2^44 bytes/s is beyond 64 bits. */
	unsigned __int128 units = (unsigned __int128)(now_ns - t->last_ns) * t->rate_bytes_per_sec + t->fraction;
	unsigned __int128 bytes = units / UNIT_PER_NS;
	uint64_t room = (uint64_t)((int64_t)t->burst_bytes - t->level_bytes);

	t->last_ns = now_ns;
	t->fraction = (uint64_t)(units % UNIT_PER_NS);
	t->level_bytes += (int64_t)(bytes < room ? (uint64_t)bytes : room);
	spill(t);
}

void tokens_init(struct tokens *t, uint64_t rate_bytes_per_sec, uint64_t burst_bytes, uint64_t now_ns)
{
	*t = (struct tokens){ .last_ns = now_ns };
	set_limits(t, rate_bytes_per_sec, burst_bytes);
	t->level_bytes = (int64_t)t->burst_bytes;
}

void tokens_set(struct tokens *t, uint64_t rate_bytes_per_sec, uint64_t burst_bytes, uint64_t now_ns)
{
	refill(t, now_ns); /* what has passed, at the old rate */
	set_limits(t, rate_bytes_per_sec, burst_bytes);
	spill(t);
}

uint64_t tokens_available(struct tokens *t, uint64_t now_ns)
{
	refill(t, now_ns);
	if (t->rate_bytes_per_sec == 0 || t->level_bytes < 0)
		return 0;
	return (uint64_t)t->level_bytes;
}

bool tokens_take(struct tokens *t, uint64_t bytes, uint64_t now_ns)
{
	assert(bytes <= (uint64_t)TOKENS_MAX);
	if (tokens_available(t, now_ns) == 0)
		return false;
	t->level_bytes -= (int64_t)bytes;
	return true;
}

void tokens_put(struct tokens *t, uint64_t bytes)
{
	assert(bytes <= (uint64_t)TOKENS_MAX);
	t->level_bytes += (int64_t)bytes;
	spill(t);
}
