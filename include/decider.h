/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * decider: policy region at work. Once an epoch the migrator that comes first looks at what was sampled on slow nodes,
 * and writes decisions into the regions; each migrator then moves what lies on its own node. So memory that is
 * interleaved over two slow nodes is decided once and moved by both.
 *
 * Writers     a pass: one migrator at a time; the others go on without waiting
 * Readers     migrators (what to move), the report
 * Protection  a flag for the pass; slot sets for what is to be moved; a lock for what the report sees
 *
 * A pass costs what was sampled since the last one. Every few passes, when the evidence has grown by an eighth or after
 * DECIDER_FIT_EPOCHS, it also learns anew what is usual, from up to POLICY_VIEWS_MAX regions. Memory: 10 MiB at most,
 * taken as it is used; and 1 MiB for each slow node, taken page by page.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy_region.h"
#include "policy_unseen.h"

#define DECIDER_FIT_EPOCHS 4
#define DECIDER_NONE       UINT32_MAX

struct decider;
struct hotness;
struct nodeset;
struct stats_slot;

struct decider *decider_new(struct hotness *hotness); /* NULL: no memory */
/* When no migrator uses it any more. Accepts NULL. */
void decider_free(struct decider *decider);

struct decider_input {
	double confidence;
	uint64_t epoch_ns;
	bool observing;              /* what was counted once isn't asked for again */
	const struct nodeset *lower; /* slow nodes */
	uint64_t room_bytes;         /* on the fast tier, for all migrators together */
	struct stats_slot *stats;    /* the caller's own */
	/* What a move takes and brings; 0: not known. */
	double page_ns;             /* CPU time of a page's move, with what making room for it takes */
	double accesses_per_sample; /* that one sample stands for */
	double samples_per_sec;     /* of late, all of them */
	double latency_ns;          /* that an access takes longer on the slow node, as firmware says */
	double cpu_khz;             /* of the cycles that samples tell latency in */
	/* false: regions of that owner are another policy's. NULL: none is. Called in a read section. */
	bool (*wants)(void *ctx, uint32_t owner_slot);
	/* true: all that is hot of that owner may be near, however much hotter others are. NULL: of none. The same. */
	bool (*fits)(void *ctx, uint32_t owner_slot);
	void *ctx;
};

/*
 * A pass, if it is time for one and nobody else is at it: true when there was one. Migrators, registered with rcu,
 * outside a read section. No system call but for memory.
 */
bool decider_run(struct decider *decider, const struct decider_input *input, uint64_t now_ns);

/* The policy is another one now: collectors look at no decisions any more. Any registered thread. */
void decider_rest(struct decider *decider);

/*
 * The next region from slot @from on that has something to move on @nid, for part @part of @parts; DECIDER_NONE: no
 * more. It stays until decider_done(). Migrators of @nid.
 */
uint32_t decider_next(struct decider *decider, int nid, uint32_t from, unsigned int part, unsigned int parts);

/* Nothing of it is left to move on @nid; @noted: while observing, it was counted. Migrators of @nid. */
void decider_done(struct decider *decider, int nid, uint32_t slot, bool noted);
/* None of what is hot pays for its move, for a while now. Any thread. */
bool decider_pays_not(const struct decider *decider);
/* Something is left after all. Any migrator. */
void decider_again(struct decider *decider, int nid, uint32_t slot);

/*
 * What a pass would say of @view now, of which nothing is done. @input: its confidence, epoch_ns and lower. false while
 * a pass is under way: ask again. Any thread; a pass that would begin meanwhile is put off by a few microseconds.
 */
bool decider_explain(struct decider *decider, const struct decider_input *input, const struct hotness_view *view,
		     struct policy_region_decision *ret);

/* For the report; any thread. */
struct decider_view {
	bool known; /* false: no pass yet, all else is 0 */
	struct unseen_share unseen;
	double capacity_bytes;              /* of fast memory that known regions have, or may still take */
	double hit_ratio[3];                /* predicted at 50, 100 and 150% of that */
	double threshold_per_sec;           /* samples a second that a region must have to fit */
	double worth_per_sec;               /* the least that a region is worth fast memory for; 0: not known */
	double worth_with_room_per_sec;     /* the same, were there room for all */
	double background_per_sec;          /* no more than that is background; 0: there is none */
	uint64_t by_reason[REGION_REASONS]; /* regions of the last pass */
	double life_sec;                    /* for how long what was found stays hot, see policy_life.h */
	double pays_per_sec;                /* samples a second from which on a whole region pays; 0: not known */
	bool pays_not;                      /* nothing is moved, since none of what is hot pays for its move */
	uint64_t waiting;                   /* regions that are decided and not moved yet, on all nodes: at least */
};

void decider_look(struct decider *decider, struct decider_view *ret);
