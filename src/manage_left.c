/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <assert.h>
#include <stdlib.h>

#include "distinct.h"
#include "manage_left.h"
#include "sample.h"

enum { SMALL, LARGE, SIZES };

static const uint64_t bytes_of[SIZES] = { PAGE_SIZE_BYTES, REGION_BYTES };

struct manage_left {
	uint64_t started_ns;
	bool some[LEFT_MAX]; /* the writer's: there is something to let go of */
	struct distinct now[LEFT_MAX][SIZES], before[LEFT_MAX][SIZES];
};

struct manage_left *manage_left_new(void)
{
	return calloc(1, sizeof(struct manage_left));
}

void manage_left_free(struct manage_left *left)
{
	free(left);
}

void manage_left_add(struct manage_left *left, enum manage_reason reason, uint64_t pfn, uint64_t page_bytes)
{
	assert(reason < LEFT_MAX);
	left->some[reason] = true;
	if (page_bytes >= REGION_BYTES)
		distinct_add(&left->now[reason][LARGE], pfn / (REGION_BYTES / PAGE_SIZE_BYTES));
	else
		for (uint64_t i = 0; i < page_bytes / PAGE_SIZE_BYTES; i++)
			distinct_add(&left->now[reason][SMALL], pfn + i);
}

void manage_left_tick(struct manage_left *left, uint64_t now_ns)
{
	uint64_t windows = (now_ns - left->started_ns) / LEFT_WINDOW_NS;

	if (left->started_ns == 0) {
		left->started_ns = now_ns;
		return;
	}
	if (now_ns < left->started_ns || windows == 0)
		return;
	left->started_ns = now_ns;
	for (int reason = 0; reason < LEFT_MAX; reason++) {
		if (!left->some[reason])
			continue;
		left->some[reason] = false;
		for (int size = 0; size < SIZES; size++) {
			if (distinct_count(&left->now[reason][size]) > 0)
				left->some[reason] = true; /* once more, to empty what is copied now */
			distinct_copy(&left->before[reason][size], &left->now[reason][size]);
			distinct_clear(&left->now[reason][size]);
		}
	}
}

uint64_t manage_left_bytes(const struct manage_left *left, enum manage_reason reason)
{
	uint64_t sum = 0;

	for (int size = 0; size < SIZES; size++) {
		uint64_t now = distinct_count(&left->now[reason][size]);
		uint64_t before = distinct_count(&left->before[reason][size]);

		sum += (now > before ? now : before) * bytes_of[size];
	}
	return sum;
}
