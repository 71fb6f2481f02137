/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * policy_region: which regions are moved whole, of which only some pages, and which stay. Pure: views in, decisions
 * out.
 *
 * A look at all regions (policy_region_fit()) now and then says what is usual: how hot memory is (policy_heat.h), and
 * how dense the heat is in each class of regions that belong together (policy_density.h): one owner, neighbours in its
 * address space, of like heat. Then each region that was sampled is judged by that and by its own samples
 * (policy_region_decide()).
 *
 * A region that is hot is left when what it would still be accessed for doesn't pay for its move: its rate, times
 * life_sec, times sample_ns, is less than page_ns for each page that would move.
 *
 * A region is moved when its samples came at least an epoch apart (a first touch and a stream leave dense traces, but
 * once), it is hotter than the background at a confidence, and it is among the hottest that fit. It is moved whole when
 * at least POLICY_DENSE of it is hot, at promote.confidence. When its samples keep to a part of it, that part is taken
 * for it. Otherwise the pages that were seen are moved, and each that will be.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hotness_regions.h"
#include "policy_heat.h"

#define POLICY_VIEWS_MAX 32768
#define POLICY_DENSE     0.75 /* share of the pages: so at most a third on top is moved in vain */

enum policy_region_reason {
	REGION_IS_HOT,
	REGION_ONE_EPOCH,  /* all samples in one epoch yet */
	REGION_UNCERTAIN,  /* hot, but dense or not can't be told yet */
	REGION_BACKGROUND, /* no hotter than accesses that go anywhere; or that can't be told yet */
	REGION_COOLER,     /* what is hotter fills the fast memory */
	REGION_FAULTS,     /* faults tell of each page once: the page rule decides */
	REGION_GIANT,      /* a page of 1 GiB: never moved */
	REGION_STALE,      /* its evidence is begun anew */
	REGION_PAYS_NOT,   /* hot, but moving it would take more than it saves */
	REGION_REASONS,
};

struct policy_region;

struct policy_region_params {
	double confidence; /* 0.5..0.9999 */
	uint64_t epoch_ns;
	bool fits;            /* it needs be no hotter than others that have a place */
	uint64_t lower_nodes; /* bit n: node n is slow; 63: that or a higher one */
	/* What a move is held against: with any of them 0 it isn't known, and everything pays. */
	double page_ns;   /* CPU time that moving a page takes, with what making room for it takes */
	double sample_ns; /* what the accesses that one sample stands for would take less on the fast tier */
	double life_sec;  /* for how long a region stays hot that was found */
};

struct policy_region_decision {
	uint32_t decision; /* kind, blocks and target, see evidence.h; 0: nothing to do yet */
	bool forget;       /* ask for REGION_DECISION_FORGET */
	enum policy_region_reason reason;
	double rate;  /* samples a second, as far as it is known */
	double share; /* of it that is hot, expected */
	double dense; /* chance that at least POLICY_DENSE is */
};

struct policy_region *policy_region_new(void); /* NULL: no memory */
void policy_region_free(struct policy_region *policy);

/*
 * Learn what is usual from @views, one in @parts of all regions, up to POLICY_VIEWS_MAX of them in any order; what they
 * are doesn't change. @room_bytes: what may still be put on the fast tier.
 */
void policy_region_fit(struct policy_region *policy, const struct policy_region_params *params,
		       const struct hotness_view *views, size_t n, uint32_t parts, uint64_t room_bytes);

/* Judge one. */
void policy_region_decide(const struct policy_region *policy, const struct policy_region_params *params,
			  const struct hotness_view *view, struct policy_region_decision *ret);

/* Its evidence says nothing of the heat of now: a burst at first, or too long ago, or too much to count on. */
bool policy_region_is_stale(const struct hotness_view *view);

/* What the last fit found. */
const struct heat *policy_region_heat(const struct policy_region *policy);

/* Whether the owner and the neighbourhood of @key were in the last fit. */
bool policy_region_knows(const struct policy_region *policy, uint64_t key);
