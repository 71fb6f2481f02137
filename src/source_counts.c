/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "source.h"
#include "source_counts.h"

/* As perf_read_one() of kernel/events/core.c puts it, for the formats below. */
enum { WORD_COUNT, WORD_ENABLED, WORD_RUNNING, WORD_LOST, WORDS };

struct source_count {
	int fd; /* 0: none was read in this place */
	uint64_t word[WORDS];
};

uint64_t source_counts_format(bool has_lost)
{
	return PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING | (has_lost ? PERF_FORMAT_LOST : 0);
}

static int make_room(struct source_counts *counts, size_t n)
{
	struct source_count *more;

	if (n <= counts->room)
		return 0;
	more = realloc(counts->last, n * sizeof(*more));
	if (!more)
		return -ENOMEM;
	memset(more + counts->room, 0, (n - counts->room) * sizeof(*more));
	counts->last = more;
	counts->room = n;
	return 0;
}

struct sum {
	uint64_t enabled_ns, running_ns, events;
};

/* One event, against the last look at the same one: a CPU that went and came has another, which begins at 0. */
static void add(struct source_counts *counts, const struct source_ring *ring, struct source_count *last,
		struct sum *sum)
{
	struct source_count now = { .fd = ring->fd };
	size_t bytes = (counts->has_lost ? WORDS : WORD_LOST) * sizeof(now.word[0]);
	ssize_t n = read(ring->fd, now.word, bytes);

	/* An event in error, or whose unit was taken away, gives nothing: perf_read(). */
	if (n == 0)
		counts->n_stopped++;
	if (n != (ssize_t)bytes)
		return;
	counts->n_readable++;
	if (last->fd != ring->fd || now.word[WORD_ENABLED] < last->word[WORD_ENABLED] ||
	    now.word[WORD_RUNNING] < last->word[WORD_RUNNING] || now.word[WORD_COUNT] < last->word[WORD_COUNT])
		memset(last, 0, sizeof(*last));
	sum->enabled_ns += now.word[WORD_ENABLED] - last->word[WORD_ENABLED];
	sum->running_ns += now.word[WORD_RUNNING] - last->word[WORD_RUNNING];
	sum->events += now.word[WORD_COUNT] - last->word[WORD_COUNT];
	if (now.word[WORD_LOST] > last->word[WORD_LOST])
		counts->lost += now.word[WORD_LOST] - last->word[WORD_LOST];
	*last = now;
}

int source_counts_look(struct source_counts *counts, const struct source *source, uint64_t period)
{
	bool first = counts->room == 0;
	struct sum sum = { 0 };

	if (make_room(counts, source->n_rings) < 0)
		return -ENOMEM;
	if (first)
		counts->share = 1;
	counts->n_stopped = counts->n_readable = 0;
	for (size_t i = 0; i < source->n_rings; i++) {
		if (source->rings[i].ring)
			add(counts, &source->rings[i], &counts->last[i], &sum);
		else
			counts->last[i].fd = 0;
	}
	if (sum.enabled_ns > 0)
		counts->share = sum.running_ns < sum.enabled_ns ? (double)sum.running_ns / (double)sum.enabled_ns : 1;
	/* The count grows by a period with each interrupt: arch/x86/events/amd/ibs.c, perf_ibs_event_update(). */
	if (period > 0)
		counts->taken += (double)sum.events / (double)period;
	return 0;
}

void source_counts_done(struct source_counts *counts)
{
	free(counts->last);
	memset(counts, 0, sizeof(*counts));
}

uint64_t source_counts_filtered(uint64_t taken, uint64_t read, uint64_t lost, uint64_t before)
{
	uint64_t left = taken > read ? taken - read : 0;

	left = left > lost ? left - lost : 0;
	return left > before ? left : before;
}
