/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * victims: memory on the fast nodes that nobody needs there, to make room for what is hot (make_room = "exchange").
 *
 * What was never sampled is in no table. So the mappings of all processes (/proc/PID/maps, walked slowly) are gone
 * through by regions of 2 MiB; a region is cold when the samples that came since it is watched would have shown it with
 * promote.confidence had it been half as hot as what is worth its place, see victims_is_cold(). One page of each cold
 * region is then asked for its node: a region that is on a fast node waits in that node's queue for a migrator.
 *
 * Writers     one thread (victims_step()); migrators take from the queues
 * Readers     migrators, the report
 * Protection  a lock for the queues and the marks; relaxed atomics for the rest
 *
 * Memory: 24 bytes for each mapping of processes of 16 MiB and more (of a process with many small ones no more of them
 * than 32 for each MiB that it has in memory), 640 KiB for each fast node (and as much again once
 * shares are claimed), 64 KiB for marks: taken while there is want of room. No part of memory_max_mib.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fsroot.h"

struct clock;
struct config;
struct decider;
struct fair;
struct hotness;
struct manage;
struct mover_ops;
struct owners;
struct stats;
struct stats_slot;
struct topology_store;
struct victims;

#define VICTIMS_STEP_MS      200                         /* between two steps */
#define VICTIMS_QUEUE_MAX    16384                       /* regions of each fast node: 32 GiB */
#define VICTIMS_RSS_MIN      (UINT64_C(16) << 20)        /* smaller processes aren't looked at, nor */
#define VICTIMS_RANGE_MIN    (UINT64_C(1) << 20)         /* smaller mappings */
#define VICTIMS_WANTED_NS    (UINT64_C(60) * 1000000000) /* they are looked for until room was wanted so long ago */
#define VICTIMS_ROUND_NS     (UINT64_C(10) * 1000000000)
#define VICTIMS_QUIET_MIN_NS (UINT64_C(5) * 1000000000)
#define VICTIMS_DARK_NS      (UINT64_C(5) * 1000000000)   /* without a sample from anywhere: nothing was watched */
#define VICTIMS_REFUSED_NS   (UINT64_C(300) * 1000000000) /* what would not move is left in peace for */

struct victims_params {
	struct hotness *hotness;
	struct owners *owners;
	struct manage *manage; /* NULL: all memory of all processes may move */
	const struct topology_store *topology;
	struct fsroot root;                /* that has proc/ and sys/; borrowed descriptor */
	const struct mover_ops *mover_ops; /* to ask where pages are */
	void *mover_ctx;
	const struct clock *clock;
	const struct stats *stats; /* of all threads: do samples come? */
	struct decider *decider;   /* what is worth its place */
	const struct fair *fair;   /* who has more than its share; NULL: nobody */
};

/* A region that is cold and has pages on a fast node. */
struct victim {
	uint64_t addr;     /* of the region, 2 MiB aligned */
	uint64_t since_ns; /* it is watched */
	uint64_t start_ticks;
	uint32_t owner_slot, pid;
	uint16_t first_page, n_pages; /* what is mapped of it */
	bool cold, unseen;            /* when it was found; no sample is known of it */
	bool claimed;                 /* its owner's party has more than its share: it goes, cold or not */
};

/* Why there are victims, or none. */
enum victims_state {
	VICTIMS_IDLE,     /* nobody wants room */
	VICTIMS_WATCHING, /* not long enough yet to call anything cold */
	VICTIMS_FOUND,    /* a round found some */
	VICTIMS_NONE,     /* a round found none */
	VICTIMS_NO_WORTH, /* nothing is known to be hot, so nothing to be cold */
	VICTIMS_DARK,     /* no samples come */
	VICTIMS_BLIND,    /* hint faults of slow nodes only: kernel.numa_balancing lacks mode 1 */
	VICTIMS_TOO_FEW,  /* so few samples that two minutes without one say nothing */
	VICTIMS_STATES,
};

extern const char *const victims_state_text[VICTIMS_STATES]; /* plain words for people */

struct victims *victims_new(const struct victims_params *params); /* NULL: no memory */
/* When nobody uses it any more. Accepts NULL. */
void victims_free(struct victims *victims);

/*
 * Look for up to @budget_ns, which one process with many mappings may exceed. Its own thread, registered with rcu,
 * outside a read section. Blocks on /proc and on memory maps of processes. @stop (relaxed, may be NULL): true ends it.
 */
void victims_step(struct victims *victims, const struct config *config, uint64_t budget_ns, const _Atomic bool *stop);

/* Room is wanted on fast nodes: from now on for VICTIMS_WANTED_NS they are looked for. Any thread. */
void victims_want(struct victims *victims, uint64_t now_ns);

/* Cold bytes on @nid, as the last round found and nobody has taken since: an estimate, of 2 MiB by one page. Any
 * thread. */
uint64_t victims_cold_bytes(const struct victims *victims, int nid);

/* So much of it has gone: the kernel demotes it. Any thread. */
void victims_spend(struct victims *victims, int nid, uint64_t bytes);

/*
 * Take up to @max regions of one process out of a queue of @nid, that of cold ones or that of those that are claimed;
 * returns how many. Migrators.
 */
size_t victims_take(struct victims *victims, int nid, bool claimed, struct victim *ret, size_t max);

/* A region that is claimed: is it among what its party gives back still? As victims_is_cold(). */
bool victims_is_given(const struct victims *victims, const struct victim *victim, uint64_t now_ns);

/*
 * Is it cold still? It is when for so long no sample came from it that one had come, with promote.confidence five times
 * over, if it had half the rate of what is worth its place; or when it had so few that it can't have that rate. With
 * hint faults: when none came for two of the kernel's rounds at their slowest. Takes a read section; any registered
 * thread.
 */
bool victims_is_cold(const struct victims *victims, const struct config *config, const struct victim *victim,
		     uint64_t now_ns);

/* It would not move: not again for VICTIMS_REFUSED_NS. Migrators. */
void victims_refused(struct victims *victims, const struct victim *victim, uint64_t now_ns);

/* For the report; any thread. */
struct victims_view {
	enum victims_state state;
	uint64_t quiet_ns;   /* without a sample for so long is cold; 0: nothing is */
	uint64_t cold_bytes; /* on all nodes */
};

void victims_look(const struct victims *victims, struct victims_view *ret);
