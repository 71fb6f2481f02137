/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * source_health: whether what a source gives can be used, by what became of its records, and what to say of it. Pure,
 * but for what it reads of the kernel for the sentence. Main thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "fsroot.h"
#include "source.h"

/* So many records without a good one among them, and the layout is not the one that we know. */
#define SOURCE_HEALTH_FIRST 64
/* So many samples make a share worth a word. */
#define SOURCE_HEALTH_SAMPLES 1000

/* What became of the source's records; counters that only grow. */
struct source_tally {
	uint64_t good;         /* could be taken apart */
	uint64_t bad;          /* could not */
	uint64_t placed;       /* good ones that lack nothing but, perhaps, a physical address */
	uint64_t phys_cleared; /* of @placed: see ibs_phys_of() */
	uint64_t phys_zeroed;
	uint64_t no_phys; /* of @placed: from nowhere, so that they were discarded */
};

enum source_health {
	SOURCE_HEALTH_WELL,
	SOURCE_HEALTH_PHYS_WALKED, /* physical addresses are hidden, the page-table walk gives them: works, at more cost
				    */
	SOURCE_HEALTH_PHYS_SCARCE, /* for more than half of the samples nothing does */
	SOURCE_HEALTH_MANY_BAD,    /* more than half of the records can't be taken apart */
	SOURCE_HEALTH_PHYS_NONE,   /* no sample has one: of no use */
	SOURCE_HEALTH_MISFIT,      /* no record can be taken apart: of no use */
};

/* Plain value, from all 0. */
struct source_watch {
	struct source_tally start; /* at the opening */
	struct source_tally last;  /* where the current share is counted from */
	enum source_health health;
	unsigned int percent; /* of the samples, or records, that the verdict is about */
	bool zeroed;          /* with a hidden address: most had the valid bit set */
};

/* Begin with what the counters are at the opening of a source. */
void source_watch_start(struct source_watch *watch, const struct source_tally *tally);

/*
 * Look at the counters again. Verdicts about shares need SOURCE_HEALTH_SAMPLES more than at the last one, so that they
 * are of late, and stay until then. Returns the verdict.
 */
enum source_health source_watch_look(struct source_watch *watch, const struct source_tally *tally);

/* true: the source is of no use, and another one should be tried. */
bool source_health_is_fatal(enum source_health health);

/*
 * The verdict for people, with what to do, into @why (SOURCE_WHY_MAX bytes); "" when well. @source: the open one, whose
 * name and odd records are told.
 */
void source_watch_explain(const struct source_watch *watch, const struct source *source, char *why);

/*
 * Before anything is opened: does this kernel look like one that hides physical addresses? A remark into @why, or "".
 */
void source_health_foresee(const struct fsroot *root, char *why);
