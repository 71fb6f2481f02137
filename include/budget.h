/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * budget: a cost instead of a period. A hardware source takes one sample in so many events (ops or cycles);
 * budget_step() moves that period so that what sampling costs, measured each second, stays below a share of all sampled
 * CPUs' time. Pure: no clock of its own, no system call, no log; the same calls give the same periods.
 *
 * Owner    the main thread; one for each source that has a period
 *
 * Cost     (samples the kernel took, lost and filtered ones too, x time each + CPU time of readers and collectors)
 *          / (sampled CPUs x time)
 * Up       over the budget or throttled: at once, up to 4 times the period; up to 16 times when it still is at the
 *          step after. So a load that grew up to 64-fold is back below the budget two steps after it was first seen.
 *          An excess that chance explains must show twice.
 * Down     when cost was below 70% of the budget for several steps, down to half, to where the worst of these steps
 *          would have cost 85%. More steps are asked for each time that a way down had to be taken back.
 * Ready    never below the floor: with all CPUs at full load the cost must stay within BUDGET_RETURN_FACTOR times the
 *          budget until the next step. It holds on an idle machine, and for each CPU alone: none pays more than that.
 * Full load is what the caller assumes, or what was seen, if more; that is forgotten by half in 5 minutes. Learning
 * when few samples say anything new, the period grows until the kernel's part is an eighth of the budget; as soon as
 * more of them do, it is the whole budget again. Loops    the period is an odd multiple of the alignment, drawn anew
 * within 3% at each change and every 10 s: no loop keeps step with it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define BUDGET_RATIO_MIN     0.0001 /* 0.01%: a budget of 0 is this; not to sample at all is another option's job */
#define BUDGET_RATIO_MAX     0.5
#define BUDGET_RATIO_DEFAULT 0.01
/* The period of the kernel's own pghot; the first one is never shorter. */
#define BUDGET_PERIOD_START  10000
#define BUDGET_RETURN_FACTOR 4.0
/*
 * Events of a CPU at full load in a second that can become a sample. With the L3-miss filter: published runs of pghot
 * got 157,000 samples/s at period 10000 from NAS BT on 16 busy CPUs, 98 million each. Without it: any op or cycle.
 */
#define BUDGET_FULL_L3_MISS 100e6
#define BUDGET_FULL_ALL     4e9

struct budget_params {
	double ratio;          /* the budget, of 1; kept within BUDGET_RATIO_MIN..MAX, no number: the default */
	uint64_t period_min;   /* as the hardware has them; at least 1 */
	uint64_t period_max;   /* at most 2^40 counts; below the minimum: the minimum */
	uint64_t period_align; /* 16 for IBS; 0 as 1 */
	uint64_t period_fixed; /* what the user asked for, rounded as the hardware does; 0: by budget */
	double full_per_sec;   /* BUDGET_FULL_*, or a better figure; no positive number: BUDGET_FULL_L3_MISS */
	uint64_t seed;         /* of the choice of periods; any */
};

/*
 * What has been since some start: counters that only grow (one that shrinks counts as standing still), so that a step
 * left out loses nothing; and what is now.
 */
struct budget_input {
	uint64_t samples;    /* read, whatever became of them */
	uint64_t lost;       /* taken by the kernel, but its ring was full */
	uint64_t filtered;   /* taken and thrown away by the kernel in software; 0 where not known */
	uint64_t throttled;  /* times an event was stopped up to the next tick */
	uint64_t own_cpu_ns; /* of readers and collectors */
	uint64_t evidence;   /* samples that could have told something: of memory that is managed */
	uint64_t novel;      /* samples of these that did: a page's first sighting, a record that became ready */

	unsigned int cpus;        /* sampled; 0: none just now, and the period is held */
	uint32_t sample_ns;       /* kernel time for one sample, best estimate; kept within 50..1000000 */
	uint32_t sample_high_ns;  /* what it may be; below the estimate: the estimate */
	uint64_t max_sample_rate; /* kernel.perf_event_max_sample_rate, samples/s for each CPU; 0: not known */
	uint64_t period_taken;    /* what the hardware had in the interval; 0: what was asked for last */
};

/* Why the period is what it is. */
enum budget_reason {
	BUDGET_STARTING,
	BUDGET_HELD,
	BUDGET_OVER,
	BUDGET_UNDER,
	BUDGET_WATCHING,
	BUDGET_SETTLED,
	BUDGET_PATTERN,
	BUDGET_THROTTLED,
	BUDGET_LOSING,
	BUDGET_FLOOR,
	BUDGET_AT_MIN,
	BUDGET_AT_MAX,
	BUDGET_OWN_CPU,
	BUDGET_NO_CPU,
	BUDGET_FIXED,
	BUDGET_FIXED_OVER,
	BUDGET_REASONS,
};

struct budget_output {
	uint64_t period;           /* to be set, within bounds, aligned */
	bool changed;              /* not what the hardware has: set it */
	enum budget_reason reason; /* what moved it is shown for 10 s, unless something else holds it */
	double cost;               /* of the interval, of 1: the sum of the two */
	double kernel_cost;
	double own_cost;
	double samples_per_sec;          /* taken in the interval, all CPUs together */
	double expected_samples_per_sec; /* at @period, if the load stays */
	double yield;                    /* share of late samples that told something new, 0..1 */
	uint64_t floor;                  /* no shorter period is safe, see above */
};

/* A plain value; everything in it is budget.c's. */
struct budget {
	struct budget_params params;
	struct budget_input last;
	struct budget_output out;
	uint64_t last_ns;    /* of the last step that counted */
	uint64_t changed_ns; /* the period's last move */
	uint64_t jitter_ns;  /* the last draw */
	uint64_t pattern_ns; /* the pattern's last change; the start at first */
	uint64_t up_ns;      /* last way up, and down; 0: never */
	uint64_t down_ns;
	uint64_t random;
	bool started;
	bool eased; /* little new to learn */
	enum budget_reason moved_by;
	double target;           /* the period before drawing */
	double peak_per_sec;     /* events of a CPU in a second, the most seen of late */
	double throttle_period;  /* shorter ones were throttled of late; forgotten by half in 2 minutes */
	double capacity_per_sec; /* samples that our threads can take; infinite as long as none was lost */
	double lossless_sec;     /* since it was found */
	double own_ns_per_sample;
	double novel_fast, evidence_fast; /* sums that forget by half in 2 s, and in 10 s */
	double novel_slow, evidence_slow;
	unsigned int over_steps; /* in a row */
	unsigned int low_steps;  /* in a row, */
	double low_want;         /* and the longest period that one of them asked for */
	unsigned int patience;   /* steps that low_steps must reach */
};

/* From nothing known. Also right after the source's filter or what it counts was changed. */
void budget_init(struct budget *budget, const struct budget_params *params);

/* Other parameters, live; what was learned is kept. Takes effect at the next step. */
void budget_set(struct budget *budget, const struct budget_params *params);

/*
 * Once a second; the first call only says where to start. An interval below 100 ms, or a time that goes back, is no
 * step:
 * @ret is the last one's, nothing changed.
 */
void budget_step(struct budget *budget, const struct budget_input *input, uint64_t now_ns, struct budget_output *ret);

/* In plain words, for status and the log. */
const char *budget_reason_text(enum budget_reason reason);
