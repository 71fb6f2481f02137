/* SPDX-License-Identifier: GPL-2.0-or-later */
/* victims_internal: for the victims*.c files: victims_maps.c knows the mappings, victims.c what is cold of them. */
#pragma once

#include "victims.h"

/* Mapped, of one age. */
struct victims_range {
	uint64_t start, end;
	uint64_t since_ns; /* seen first */
};

struct victims_process {
	uint32_t pid, owner_slot;
	uint64_t start_ticks;
	uint64_t round; /* last seen */
	size_t n;
	struct victims_range *range; /* by address */
};

struct victims_maps {
	size_t n, room;
	struct victims_process *process;
	/* Of the round: pids to look at, and how far it is. */
	size_t n_pids, pids_room, next_pid;
	uint32_t *pids;
	uint64_t round;
};

/* Begin a round: list the processes. 0 or -errno. */
int victims_maps_begin(struct victims_maps *maps, const struct fsroot *root);
/*
 * Read the mappings of the next process; false: there is none, and those that were not seen in this round are
 * forgotten. What was mapped before keeps its age.
 */
bool victims_maps_next(struct victims_maps *maps, const struct fsroot *root, struct owners *owners, uint64_t now_ns);
void victims_maps_clear(struct victims_maps *maps);
