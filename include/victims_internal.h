/* SPDX-License-Identifier: GPL-2.0-or-later */
/* victims_internal: for the victims*.c files: victims_maps.c knows the mappings, victims_walk.c goes through
 * them, victims_cold.c what is cold, victims.c
 * which of it waits to be taken. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "nodeset.h"
#include "victims.h"

/*
 * For each region that a process has in memory, so many are looked at that may turn out to be nothing, and so many of
 * its mappings are known: whatever is mapped, that takes time and memory by what is there.
 */
#define VICTIMS_MAPPED_PART 64

/* Mapped, of one age. */
struct victims_range {
	uint64_t start, end;
	uint64_t since_ns; /* seen first */
};

struct victims_process {
	uint32_t pid, owner_slot;
	uint64_t start_ticks;
	uint64_t round;            /* last seen */
	uint64_t resident_regions; /* as much as it has in memory, at least 1 */
	size_t next_range;         /* where the next walk begins */
	size_t n;
	struct victims_range *range; /* by address */
};

struct victims_maps {
	size_t n, room;
	size_t n_sorted; /* the first so many are by pid: what was there when the round began */
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

/* victims_walk.c: the way through a process's regions, once in a round. */
struct victims_walk {
	size_t range, ranges_left;
	bool in_range;
	uint64_t region, regions_left;       /* of the range: the next, by number, and how many are to come */
	uint64_t looks, absent, absent_here; /* found to be nothing: of all, and of this range */
};

/* Begin with @p, at the range where the walk before had to end. */
void victims_walk_begin(struct victims_walk *walk, struct victims_process *p);

/*
 * The next region of @p, as far as it is mapped. false: there is none, or enough was looked at in vain: what is mapped
 * may be a thousand times what is there, and others wait. A range that is too large for one walk is begun further on in
 * each @round.
 */
bool victims_walk_next(struct victims_walk *walk, struct victims_process *p, uint64_t round, struct victim *ret);

/* A region of @range that the walk gave has nothing where it was asked for. */
void victims_walk_absent(struct victims_walk *walk, size_t range);

#define VICTIMS_PROBES_MAX    512 /* pages in one query */
#define VICTIMS_REFUSED_MARKS 4096

struct victims_queue {
	size_t first, n;
	struct victim victim[VICTIMS_QUEUE_MAX];
};

struct victims_mark {
	uint64_t key; /* 0: none */
	uint64_t ns;
};

enum victims_phase { VICTIMS_PHASE_PAUSE, VICTIMS_PHASE_MAPS, VICTIMS_PHASE_PROBE };

struct victims {
	struct victims_params params;

	/* The thread's own. */
	enum victims_phase phase;
	struct victims_maps maps;
	size_t process; /* where the probing is */
	struct victims_walk walk;
	uint64_t round_ns; /* begin of the last round */
	uint64_t found_bytes[NODE_MAX];
	uint64_t unseen_bytes; /* of the process that is being probed: on fast nodes, cold, and in no table */
	uint64_t useful, evicted, faults, hardware; /* counters at the last step */
	uint64_t flow_ns;                           /* of the last step that had new samples */
	uint64_t wanted_ns;                         /* since then they are looked for */
	bool was_wanted, ended_one;
	struct victim probe[VICTIMS_PROBES_MAX];
	uint64_t probe_addr[VICTIMS_PROBES_MAX];
	int probe_nid[VICTIMS_PROBES_MAX];
	size_t probe_range[VICTIMS_PROBES_MAX];

	/* Relaxed, all: a moment's view; a late look costs a region more or less. */
	_Atomic uint64_t want_ns, quiet_ns, dark_ns, evicted_ns;
	_Atomic uint64_t fits_quiet_ns; /* quiet_ns of a party that fits into its share: no matter how hot others are */
	_Atomic uint32_t state;
	_Atomic bool by_faults;
	_Atomic uint64_t cold_bytes[NODE_MAX];

	pthread_mutex_t lock;
	/* Under the lock. */
	struct victims_queue *queue[NODE_MAX];   /* NULL: nothing was ever found there */
	struct victims_queue *claimed[NODE_MAX]; /* the same, of what is claimed, cold or not */
	struct victims_mark refused[VICTIMS_REFUSED_MARKS];
};

static inline uint64_t victims_get(const _Atomic uint64_t *word)
{
	return atomic_load_explicit(word, memory_order_relaxed);
}

static inline void victims_set(_Atomic uint64_t *word, uint64_t value)
{
	atomic_store_explicit(word, value, memory_order_relaxed);
}

static inline uint64_t victims_max(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* victims_cold.c */

/* ln of one over the chance of a mistake. */
double victims_strictness(const struct config *config);

/* In a read section. @quiet_ns above 0. */
bool victims_cold(const struct victims *v, const struct victim *victim, double strict, uint64_t quiet_ns,
		  uint64_t now_ns);

/* Its party has too much, and this is of what it gives back. What isn't @cold must have been seen, or nobody knows how
 * long it wasn't used. In a read section. */
bool victims_given(const struct victims *v, const struct victim *victim, bool cold, uint64_t now_ns);

/* Do samples come, of what kind, and was any memory of them lost? */
void victims_look_at_samples(struct victims *v, uint64_t now_ns);

/* How long without a sample is cold; 0: nothing can be said, and why is in @why. The same for who fits in @ret_fits. */
uint64_t victims_find_quiet(const struct victims *v, const struct config *config, uint64_t now_ns,
			    enum victims_state *why, uint64_t *ret_fits);
