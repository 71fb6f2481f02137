/* SPDX-License-Identifier: GPL-2.0-or-later */
/* migrator_internal: what the two halves of a migrator share: migrator_scan.c decides, migrator.c acts. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fair.h"
#include "guard.h"
#include "hotness.h"
#include "manage_left.h"
#include "migrator.h"
#include "migrator_collapse.h"
#include "mover.h"
#include "mover_batch.h"
#include "mover_rest.h"
#include "nodeset.h"
#include "plan.h"
#include "policy.h"
#include "rules.h"
#include "tokens.h"
#include "topology.h"

struct owner;

#define MIGRATOR_CHUNK_BYTES (UINT64_C(16) << 20) /* room is made for so much at a time at most */

/* One for each node that pages may go to. */
struct migrator_target {
	struct tokens tokens;
	struct policy_page policy;
	bool started; /* tokens are */

	/* Of the pass. */
	struct policy_target now; /* free_bytes: less what is planned */
	uint64_t room_bytes;      /* what may be planned still */
	bool closed;              /* the kernel found no memory there */

	uint64_t rests_until_ns; /* after that */

	/* migrator_room.c: cold memory that may go down from there, and what may go up below the headroom. */
	struct tokens down, below;
	uint64_t lacks_bytes;              /* to the headroom */
	uint64_t above_bytes, start_bytes; /* room above the headroom, and all of it, as the pass began */
	uint64_t made_bytes;   /* moved down from there, and neither used again nor to be seen in its free memory yet */
	uint64_t listed_bytes; /* what the lists of the CPUs had before */
};

struct migrator {
	struct migrator_params params;
	struct mover_outcomes *outcomes;
	struct plan *plan;
	struct mover_batch batch; /* of calls with base pages only */
	struct mover_rest *rest;
	struct manage_left *left;
	struct migrator_collapse *collapse;
	struct migrator_room *room;
	bool lacks_room;                      /* the last round ended for want of it, */
	uint64_t wants_bytes;                 /* and so much could not go for that: a chunk at most is counted */
	struct tokens rule_tokens[RULES_MAX]; /* of rules that have a rate; burst_bytes 0: not started */
	struct migrator_target *targets;      /* by nid */
	struct topology_room *rooms;          /* by nid */
	enum record_layout layout;
	uint64_t rounds;
	uint64_t surveyed_ns; /* what was touched before has been counted as a candidate */
	struct decider *decider;
	bool owns_decider;
	uint32_t next_region; /* slot from which the next scan goes on */
	bool warned_denied;
	_Atomic uint32_t limit; /* relaxed, both: a moment's view for status */
	_Atomic uint64_t in_call_since_ns;
	/* Relaxed, the same: what batch says, in ns, and the size that follows. */
	_Atomic uint64_t cost_call_ns, cost_page_ns, longest_ns, batch_pages;
};

/* What was granted to the candidate that decide() said yes to, until taken() is called for it. */
struct migrator_grant {
	struct migrator_target *target; /* NULL: none */
	struct tokens *rule;            /* of its rule; NULL: none */
	int nid;
	uint64_t bytes;
};

/* Whose page is to go somewhere. */
struct migrator_who {
	uint32_t owner_slot;
	uint64_t start_ticks;
	uint64_t now_ns;
	int rule_nid; /* the target of its rule; -1: none */
	bool rests;   /* out: set when a node has room, but is closed to this process for now */
};

/* One pass on its way. */
struct migrator_pass_state {
	struct migrator *m;
	const struct config *config;
	const struct topology *topology;
	const struct topology_node *node;
	struct mover mover;
	struct nodeset fast;  /* where a page may be found meanwhile, and stays */
	struct nodeset named; /* targets of rules */
	uint64_t start_ns;
	uint64_t scanned_ns; /* when the last scan began */
	bool observing;
	bool by_region;    /* policy region decides, for some at least */
	bool rules_differ; /* by their policy */
	enum migrator_way way;
	enum guard_cause guard; /* that holds */
	bool survey;
	size_t survey_left;
	struct migrator_grant grant;
	fair_party party; /* of whom migrator_manage_ask() or _again() was about last */

	/* What was met. */
	bool hot, below, refused, no_tokens, no_rule_tokens, no_room, no_target, plan_full, out_of_time;
	uint64_t wants_bytes;      /* what could not go for want of room, in this round */
	bool no_cold, lower_full;  /* why no room could be made */
	bool exchanging;           /* room was made, and more is wanted */
	bool no_share, waits_turn; /* hot memory of who has its share; of who isn't next, in this round */
	bool in_peace;             /* migrator_manage_ask() said no since a guard holds the control group */
	bool left, waits;          /* hot memory that may not move; that may move once it is known */
	uint64_t fast_tier_bytes;
	uint64_t fast_taken[RULES_MAX]; /* of manage_fast.h, in this round */
	uint64_t moved_bytes, moved_pages;
};

/* Where pages of this node may go, how much fits there, and how much may go. 0, or -errno: no room can be read. */
int migrator_scan_start(struct migrator_pass_state *p);

/*
 * One scan: fill the plan, take tokens and room for what is in it. @p->plan_full says that there is more; otherwise all
 * was seen, or nothing more can move now. The migrator's thread, outside a read section.
 */
void migrator_scan(struct migrator_pass_state *p);

/* Among how many migrators the rate and the room of @target_nid are shared out: at least 1. */
uint64_t migrator_sharers(const struct migrator_pass_state *p, int target_nid);

/*
 * The node that a page should go to, which @nid says (-1: nothing does): that of its rule (@rule_nid, -1: none), else
 * the configured one, else @nid, else the nearest. -1: the one of the rule or the configuration can't be.
 */
int migrator_wanted_nid(const struct migrator_pass_state *p, int rule_nid, int nid);

/*
 * @wanted if @bytes of @who (NULL: anybody) fit there, or else the first that they fit on; -1: none. The target of a
 * rule or the configuration has no stand-in.
 */
int migrator_nid_with_room(const struct migrator_pass_state *p, struct migrator_who *who, int wanted, uint64_t bytes);

/* true while some target could take a page of some size. */
bool migrator_anything_goes(const struct migrator_pass_state *p, uint64_t now_ns);

/* When nothing goes: note whether it is the room or the rate. true: the room. */
bool migrator_what_is_missing(struct migrator_pass_state *p);

/* @bytes of hot memory find no room. */
void migrator_lacks_room(struct migrator_pass_state *p, uint64_t bytes);

/* In migrator_regions.c: let the policy look, if it is time; and plan what it has decided. As migrator_scan(). */
void migrator_decide(struct migrator_pass_state *p);
void migrator_regions(struct migrator_pass_state *p);

/* true when the pass has lasted a promote.scan_sleep_ms. */
bool migrator_time_is_up(const struct migrator_pass_state *p);

/* migrator_room.c */

struct migrator_room *migrator_room_new(void); /* NULL: no memory */
void migrator_room_free(struct migrator_room *room);

/*
 * At the start of a pass, when the room of target @nid above @keep bytes was found: what may come on top of it. The
 * target is shared by @share migrators.
 */
void migrator_room_start_target(struct migrator_pass_state *p, int nid, uint64_t keep, uint64_t share);
/* At its end: account for what went below the headroom. */
void migrator_room_end(struct migrator_pass_state *p);

/* Cold bytes on the targets that could make room, for the policy. */
uint64_t migrator_room_to_come(const struct migrator_pass_state *p);

/* Could room be made, were it known for how much? Then what lacks it is counted, up to a chunk. */
bool migrator_room_asks(const struct migrator_pass_state *p);

/*
 * Before a round: where the one before ended for want of room, move as much cold memory down as it wanted, up to a
 * chunk, and before that what the headroom lacks. Regions go whole, so it may be one more. Blocks. true:
 * there is more room now; else @p->no_cold, @p->lower_full or @p->no_tokens may say why not.
 */
bool migrator_room_make(struct migrator_pass_state *p);

/* migrator_manage.c */

enum migrator_manage { MIGRATOR_MAY_MOVE, MIGRATOR_WAITS, MIGRATOR_LEAVES };

/* At the start of a pass: the rates of the rules. */
void migrator_manage_start(struct migrator_pass_state *p);

/*
 * May @c move? MIGRATOR_WAITS: not now, MIGRATOR_LEAVES: no. What is left is counted, @p->left and the like are set,
 * and @ret is filled (not when the owner is gone). Inside a read section.
 */
enum migrator_manage migrator_manage_ask(struct migrator_pass_state *p, const struct hotness_candidate *c,
					 uint64_t now_ns, struct manage_answer *ret);

/* Is memory of @owner left in peace, since its control group is short of memory? Inside a read section. */
bool migrator_manage_in_peace(const struct migrator_pass_state *p, const struct owner *owner, uint64_t now_ns);

/* Once more right before the call, outside a read section. */
bool migrator_manage_again(struct migrator_pass_state *p, const struct hotness_candidate *c, struct manage_answer *ret);

/* @c was left alone for @reason. */
void migrator_manage_left(struct migrator_pass_state *p, const struct hotness_candidate *c, enum manage_reason reason);

/* Does policy region decide about the pages of that owner? Inside a read section. */
bool migrator_manage_by_region(const struct migrator_pass_state *p, uint32_t owner_slot);

struct tokens *migrator_manage_tokens(const struct migrator_pass_state *p, int rule);

/* @bytes of the share that @rule has of the fast tier, for this round. false: it has all of it. */
bool migrator_manage_take(struct migrator_pass_state *p, int rule, uint64_t bytes);

/* So much under @rule has moved. */
void migrator_manage_moved(const struct migrator_pass_state *p, int rule, uint64_t bytes);

/* What was taken in this round has moved, or won't. */
void migrator_manage_round_over(struct migrator_pass_state *p);
