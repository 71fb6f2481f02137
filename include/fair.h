/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fair: who may have how much of the fast memory, and whose turn it is to move. A party is the programs of one user
 * under one rule of the configuration (or under none); no program gets more by touching more.
 *
 *   share   as long as all that is hot fits, everybody has what it likes. When a party lacks room, all of the fast
 * memory is shared out: equal parts, and what one doesn't need goes to the others. Who has its share gets no more while
 *           another that has less lacks room; and who has more gives the excess back, what it didn't use for longest
 *           first, hot or not.
 *   turn    regions that wait are moved in turn, so that a party with many of them is no faster than one with few.
 *
 * What a party has and wants is found once a second, or as fast as fair_step() gets round, in the regions that were
 * sampled; what it has of cold memory, where
 * victims.h looks for it. Who has no more than an equal part of all fast memory gives nothing back. Where samples show
 * slow nodes only, nobody is known to have anything.
 *
 * Writers     one thread (fair_step()); migrators (what moves)
 * Readers     migrators, victims, the decider, the report
 * Protection  relaxed atomics, a word for each number: a moment's view; a late look costs a region more or less
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fsroot.h"

struct clock;
struct fair;
struct hotness;
struct owner;
struct owners;
struct topology_store;

#define FAIR_PARTIES   64 /* those beyond share the last place, as one */
#define FAIR_STEP_NS   (UINT64_C(1) * 1000000000)
#define FAIR_LACKS_NS  (UINT64_C(10) * 1000000000) /* for so long after room was lacking it is shared out */
#define FAIR_TURN_NS   (UINT64_C(300) * 1000000)   /* who didn't ask for so long doesn't wait for a turn */
#define FAIR_AHEAD     (UINT64_C(8) << 20)         /* bytes that one may be ahead of another whose turn it is */
#define FAIR_OVER_PART 32                          /* of all fast memory: less is not worth taking back */

struct fair_params {
	struct hotness *hotness;
	struct owners *owners;
	const struct topology_store *topology;
	struct fsroot root; /* that has proc/zoneinfo; borrowed descriptor */
	const struct clock *clock;
	/* The party of an owner, below 2^40; 0: not known, or its memory doesn't move. In a read section. */
	uint64_t (*key_of)(void *ctx, const struct owner *owner);
	void *ctx;
};

struct fair *fair_new(const struct fair_params *params); /* NULL: no memory */
/* When nobody uses it any more. Accepts NULL. */
void fair_free(struct fair *fair);

struct fair_input {
	double headroom_percent;
	double background_per_sec; /* samples of a region: with no more it is not hot */
};

/*
 * Look, when a second has gone by since the last time. More regions than some 50,000 take several such steps, and all
 * that was found is known after the last of them. One thread, registered with rcu, outside a read section; reads one
 * file.
 */
void fair_step(struct fair *fair, const struct fair_input *input);

/* The key of @uid's programs under rule @rule, -1: none. Pure. */
static inline uint64_t fair_key(int rule, uint32_t uid)
{
	return (uint64_t)(rule + 1) << 33 | UINT64_C(1) << 32 | uid;
}

static inline uint32_t fair_key_uid(uint64_t key)
{
	return (uint32_t)key;
}

static inline int fair_key_rule(uint64_t key)
{
	return (int)(key >> 33) - 1;
}

/* What an owner's party is called here; 0: not known yet, and nothing holds it. In a read section; any thread. */
typedef uint64_t fair_party;
fair_party fair_of(const struct owner *owner);

/* With @bytes more, has it more than its share while others lack theirs? Then it gets no more for now. Any thread. */
bool fair_has_share(const struct fair *fair, fair_party party, uint64_t bytes, uint64_t now_ns);

/* All else is given for a region of @party to go up: are others first? Migrators. */
bool fair_waits(struct fair *fair, fair_party party, uint64_t now_ns);

/* So much of it is on its way up: it was its turn. Migrators. */
void fair_had_turn(struct fair *fair, fair_party party, uint64_t bytes);

/* Nobody had a turn though somebody waited for one: who is there now goes. Migrators. */
void fair_pass_turn(struct fair *fair);

/* @bytes of it went up, or down below 0. Migrators. */
void fair_moved(struct fair *fair, fair_party party, int64_t bytes);

/* Somebody found no room. Migrators. */
void fair_lacks_room(struct fair *fair, uint64_t now_ns);

/* Room is lacking, and there are several parties: what they have is to be known. Any thread. */
bool fair_is_tight(const struct fair *fair, uint64_t now_ns);

/* Bytes that those who have less than their share lack now, and others have too much; 0: none. Any thread. */
uint64_t fair_claim(const struct fair *fair, uint64_t now_ns);

/* Has it more than its share, and is a region without a sample for @idle_ns among what it gives back? Any thread. */
bool fair_gives(const struct fair *fair, fair_party party, uint64_t idle_ns);

/* All that is hot of it fits into its share, so it needs be no hotter than what others have. Any thread. */
bool fair_fits(const struct fair *fair, fair_party party);

/* For the report; any thread. */
struct fair_view {
	uint64_t key;
	uint64_t has_bytes, wants_bytes, share_bytes; /* wants: on slow nodes still */
	bool held;                                    /* it gets no more now, since others lack theirs */
};

/* Those that have or want something, up to @max. Returns how many. */
size_t fair_look(const struct fair *fair, struct fair_view *ret, size_t max);
