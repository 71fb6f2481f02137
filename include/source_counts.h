/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * source_counts: what the events of a hardware source say of themselves when they are read: how long each was on the
 * hardware, how much it counted, how much the kernel lost. From that: whether the unit is ours alone, and how many
 * samples the kernel took, those included that it threw away itself.
 *
 * Owner    the main thread; one for each open source. Starts from all 0.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct source;

/* attr.read_format that it reads; @has_lost: since Linux 6.0. */
uint64_t source_counts_format(bool has_lost);

struct source_count;

struct source_counts {
	struct source_count *last; /* by place in source->rings */
	size_t room;
	bool has_lost;
	double taken;      /* samples since the start: what was counted, by the period of that time */
	uint64_t lost;     /* of them: had no room in a ring; 0 without has_lost */
	double share;      /* of the time since the last look in which the events were on the hardware, 0..1 */
	size_t n_stopped;  /* rings whose event the kernel has given up: it reads as nothing */
	size_t n_readable; /* and those that could be read */
};

/*
 * Read the event of each open ring; @period: what they have had since the last look. @share stays when no time went by,
 * and is 1 before the first look. 0 or -ENOMEM, nothing being read then.
 */
int source_counts_look(struct source_counts *counts, const struct source *source, uint64_t period);
void source_counts_done(struct source_counts *counts);

/*
 * Samples that the kernel took and threw away by itself, of @taken since some start: those of its own mode, say, by
 * swfilt, each with an interrupt of its own. @read of them were read, @lost had no room; never less than @before, as
 * what is still in the rings is not known.
 */
uint64_t source_counts_filtered(uint64_t taken, uint64_t read, uint64_t lost, uint64_t before);
