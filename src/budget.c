/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <assert.h>
#include <math.h>

#include "budget.h"
#include "clock.h"

/* Shares of the budget. Aimed at, and where no step down is needed; the gap between them and 1 is what keeps it still.
 */
#define AIM        0.85
#define LOW        0.70
#define EASED      (1.0 / 8)  /* of the kernel's part, when there is little to learn */
#define EASED_LOW  (1.0 / 32) /* then, too, not less */
#define NEGLIGIBLE (1.0 / 16)

#define UP_FIRST   4.0
#define UP_AGAIN   16.0
#define DOWN       2.0
#define EASE       1.25 /* at every second step */
#define STEP_MIN   (100 * NSEC_PER_MSEC)
#define PERIOD_TOP (UINT64_C(1) << 40)

#define PATIENCE          3
#define PATIENCE_MAX      48
#define TAKEN_BACK_NS     (30 * NSEC_PER_SEC) /* up so soon after down: down was wrong */
#define CALM_NS           (60 * NSEC_PER_SEC) /* no way up for so long: patience is halved */
#define SHOWN_NS          (10 * NSEC_PER_SEC)
#define JITTER_NS         (10 * NSEC_PER_SEC)
#define JITTER_PART       32 /* to either side */
#define PEAK_HALF_SEC     300.0
#define THROTTLE_HALF_SEC 120.0
/* So it is tried again in a minute and a half; and the longer nothing was lost, the faster. */
#define CAPACITY_TWICE_SEC  600.0
#define CAPACITY_FASTER_SEC 300.0
#define LOST_PART           0.02 /* more is no accident, */
#define LOST_MARGIN         0.9  /* and then stay so far below what was read */

/* All CPUs at full load must not give more than this before our threads have shown what they can take. */
#define START_SAMPLES_PER_SEC 2e6
#define OWN_NS_PER_SAMPLE     300.0 /* assumed until measured */
#define OWN_MEASURABLE        10000 /* samples: fewer, and the threads' fixed work is all one sees */

/* Share of samples that tell something new. */
#define YIELD_LOW             0.05
#define YIELD_HIGH            0.10
#define YIELD_SAMPLES         500 /* to say that it is low, */
#define YIELD_NOVEL           10  /* and that it is high */
#define YIELD_PART            16  /* evidence counts as no less than this part of what was read */
#define SETTLE_NS             (15 * NSEC_PER_SEC)
#define EASED_SAMPLES_PER_SEC 200.0 /* enough to notice within two seconds that the pattern changed */

static const char *const reason_text[BUDGET_REASONS] = {
	[BUDGET_STARTING] = "starting",
	[BUDGET_HELD] = "held by the budget",
	[BUDGET_OVER] = "over the budget: slowed down",
	[BUDGET_UNDER] = "below the budget: sped up",
	[BUDGET_WATCHING] = "below the budget: waiting whether that lasts",
	[BUDGET_SETTLED] = "little new to learn: slowed down",
	[BUDGET_PATTERN] = "pattern changed: sped up",
	[BUDGET_THROTTLED] = "throttled by the kernel: slowed down",
	[BUDGET_LOSING] = "samples were lost: slowed down",
	[BUDGET_FLOOR] = "below the budget, but no faster, since the load may come back at once",
	[BUDGET_AT_MIN] = "at the hardware's minimum",
	[BUDGET_AT_MAX] = "at the hardware's maximum, and still over the budget",
	[BUDGET_OWN_CPU] = "pghotd's own threads alone cost the budget",
	[BUDGET_NO_CPU] = "no CPU is sampled",
	[BUDGET_FIXED] = "fixed by ibs.period",
	[BUDGET_FIXED_OVER] = "fixed by ibs.period, and costs more than the budget",
};

const char *budget_reason_text(enum budget_reason reason)
{
	assert((unsigned int)reason < BUDGET_REASONS);
	return reason_text[reason];
}

/* What happened in one interval. */
struct interval {
	double sec;
	double taken, read, lost;
	double throttled;
	double per_sec; /* taken */
	double kernel, own, cost;
	double used; /* the period */
};

static double clamp(double v, double min, double max)
{
	return v < min ? min : v > max ? max : v;
}

static double larger(double a, double b)
{
	return a > b ? a : b;
}

static double smaller(double a, double b)
{
	return a < b ? a : b;
}

static double grown(uint64_t now, uint64_t before)
{
	return now > before ? (double)(now - before) : 0;
}

static double fade(double sec, double half_sec)
{
	return exp2(-sec / half_sec);
}

/* The bounds as multiples of the alignment. */
static uint64_t min_units(const struct budget_params *p)
{
	return (p->period_min + p->period_align - 1) / p->period_align;
}

static uint64_t max_units(const struct budget_params *p)
{
	uint64_t min = min_units(p), max = p->period_max / p->period_align;

	return max < min ? min : max;
}

static double period_min(const struct budget *b)
{
	return (double)(min_units(&b->params) * b->params.period_align);
}

static double period_max(const struct budget *b)
{
	return (double)(max_units(&b->params) * b->params.period_align);
}

void budget_set(struct budget *b, const struct budget_params *params)
{
	struct budget_params *p = &b->params;
	uint64_t seed = p->seed;

	*p = *params;
	if (p->seed != seed)
		b->random = p->seed;
	p->ratio = isfinite(p->ratio) ? clamp(p->ratio, BUDGET_RATIO_MIN, BUDGET_RATIO_MAX) : BUDGET_RATIO_DEFAULT;
	if (!isfinite(p->full_per_sec) || p->full_per_sec <= 0)
		p->full_per_sec = BUDGET_FULL_L3_MISS;
	if (p->period_align == 0)
		p->period_align = 1;
	if (p->period_align > PERIOD_TOP)
		p->period_align = PERIOD_TOP;
	if (p->period_min == 0)
		p->period_min = 1;
	if (p->period_min > PERIOD_TOP)
		p->period_min = PERIOD_TOP;
	if (p->period_max > PERIOD_TOP)
		p->period_max = PERIOD_TOP;
}

void budget_init(struct budget *b, const struct budget_params *params)
{
	*b = (struct budget){
		.capacity_per_sec = INFINITY,
		.own_ns_per_sample = OWN_NS_PER_SAMPLE,
		.patience = PATIENCE,
		.random = params->seed,
	};
	budget_set(b, params);
}

/* splitmix64 (Steele, Lea, Flood 2014): any seed will do, 0 too. */
static uint64_t next_random(struct budget *b)
{
	uint64_t z = b->random += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

/* An odd multiple of the alignment near the target; where the bounds leave none, an even one. */
static uint64_t draw_period(struct budget *b)
{
	uint64_t min = min_units(&b->params), max = max_units(&b->params);
	uint64_t units = (uint64_t)(b->target / (double)b->params.period_align + 0.5);
	uint64_t spread = units / JITTER_PART, low = units - spread;

	units = (low + next_random(b) % (2 * spread + 1)) | 1;
	if (units > max)
		units = max & 1 || max == min ? max : max - 1;
	if (units < min)
		units = min & 1 || max == min ? min : min + 1;
	return units * b->params.period_align;
}

static uint32_t sample_ns(const struct budget_input *in)
{
	return in->sample_ns < 50 ? 50 : in->sample_ns > 1000000 ? 1000000 : in->sample_ns;
}

static uint32_t sample_high_ns(const struct budget_input *in)
{
	uint32_t ns = sample_ns(in);

	return in->sample_high_ns < ns ? ns : in->sample_high_ns > 1000000 ? 1000000 : in->sample_high_ns;
}

static double peak(const struct budget *b)
{
	return larger(b->peak_per_sec, b->params.full_per_sec);
}

/* The shortest period that is safe at full load: by its cost, and by what the kernel lets through. */
static double floor_period(const struct budget *b, const struct budget_input *in, double ns)
{
	double period = peak(b) * (ns + b->own_ns_per_sample) / 1e9 / (b->params.ratio * BUDGET_RETURN_FACTOR);

	if (in->max_sample_rate > 0)
		period = larger(period, 2 * peak(b) / (double)in->max_sample_rate);
	period = larger(period, b->throttle_period);
	return clamp(period, period_min(b), period_max(b));
}

static void start(struct budget *b, const struct budget_input *in, uint64_t now_ns)
{
	double period = floor_period(b, in, sample_high_ns(in));

	period = larger(period, BUDGET_PERIOD_START);
	period = larger(period, (double)in->cpus * peak(b) / START_SAMPLES_PER_SEC);
	b->target = clamp(period, period_min(b), period_max(b));
	b->started = true;
	b->pattern_ns = now_ns;
	b->changed_ns = now_ns;
	b->moved_by = BUDGET_STARTING;
}

static void measure(const struct budget *b, const struct budget_input *in, uint64_t now_ns, struct interval *ret)
{
	const struct budget_input *last = &b->last;
	double ns = (double)(now_ns - b->last_ns), cpu_ns = ns * (in->cpus ? in->cpus : 1);

	*ret = (struct interval){
		.sec = ns / 1e9,
		.read = grown(in->samples, last->samples),
		.lost = grown(in->lost, last->lost),
		.throttled = grown(in->throttled, last->throttled),
		.own = grown(in->own_cpu_ns, last->own_cpu_ns) / cpu_ns,
		.used = (double)(in->period_taken ? in->period_taken : b->out.period),
	};
	ret->taken = ret->read + ret->lost + grown(in->filtered, last->filtered);
	ret->per_sec = ret->taken / ret->sec;
	ret->kernel = ret->taken * sample_ns(in) / cpu_ns;
	ret->cost = ret->kernel + ret->own;
	ret->used = clamp(ret->used, 1, (double)PERIOD_TOP);
}

static void learn_load(struct budget *b, const struct budget_input *in, const struct interval *i)
{
	double events = i->per_sec / in->cpus * i->used;

	b->peak_per_sec = larger(b->peak_per_sec * fade(i->sec, PEAK_HALF_SEC), events);
	b->throttle_period *= fade(i->sec, THROTTLE_HALF_SEC);
	if (i->throttled > 0)
		b->throttle_period = larger(b->throttle_period, i->used * 2);
	if (i->read >= OWN_MEASURABLE) {
		double ns = clamp(i->own * i->sec * 1e9 * in->cpus / i->read, 50, 2000);

		b->own_ns_per_sample += (ns - b->own_ns_per_sample) / 4;
	}
	b->lossless_sec += i->sec;
	b->capacity_per_sec /= fade(i->sec * (1 + b->lossless_sec / CAPACITY_FASTER_SEC), CAPACITY_TWICE_SEC);
}

static double share(double part, double whole)
{
	return whole > 0 ? smaller(part / whole, 1) : 0;
}

/*
 * Eased or not. Samples of memory that isn't managed are no evidence, but where there is next to nothing else, there is
 * nothing to learn either.
 */
static void learn_yield(struct budget *b, const struct budget_input *in, const struct interval *i, uint64_t now_ns)
{
	double novel = grown(in->novel, b->last.novel);
	double evidence = larger(grown(in->evidence, b->last.evidence), i->read / YIELD_PART);
	double fast = fade(i->sec, 2), slow = fade(i->sec, 10), yield_fast, yield_slow;

	b->novel_fast = b->novel_fast * fast + novel;
	b->evidence_fast = b->evidence_fast * fast + evidence;
	b->novel_slow = b->novel_slow * slow + novel;
	b->evidence_slow = b->evidence_slow * slow + evidence;
	yield_fast = share(b->novel_fast, b->evidence_fast);
	yield_slow = share(b->novel_slow, b->evidence_slow);
	b->out.yield = yield_fast;
	if (b->eased && yield_fast > YIELD_HIGH && b->novel_fast >= YIELD_NOVEL) {
		b->eased = false;
		b->pattern_ns = now_ns;
		b->low_steps = 0;
	} else if (!b->eased && now_ns - b->pattern_ns >= SETTLE_NS && b->evidence_slow >= YIELD_SAMPLES &&
		   yield_slow < YIELD_LOW && yield_fast < YIELD_LOW) {
		b->eased = true;
		b->low_steps = 0;
	}
}

/* Every way up; 0 when there is no need for one, else the factor. */
static double way_up(struct budget *b, const struct budget_input *in, const struct interval *i,
		     enum budget_reason *ret_reason)
{
	double budget = b->params.ratio, limit, factor = 0;
	bool over = i->cost > budget;

	b->over_steps = over ? b->over_steps + 1 : 0;
	limit = b->over_steps > 1 ? UP_AGAIN : UP_FIRST;
	/* Counts scatter by their square root. */
	if (over && b->over_steps < 2 && i->cost < budget * (1 + 2 / sqrt(i->taken + 1)))
		over = false;
	/* No period makes fixed work cheaper; more evidence is all that could be lost. */
	if (over && i->own >= budget * AIM && i->kernel <= budget * NEGLIGIBLE) {
		*ret_reason = BUDGET_OWN_CPU;
		over = false;
	}
	if (over) {
		factor = i->cost / (budget * AIM);
		*ret_reason = BUDGET_OVER;
	}
	if (i->lost > i->taken * LOST_PART && i->lost >= 100) {
		b->capacity_per_sec = larger(i->read / i->sec * LOST_MARGIN, 1);
		b->lossless_sec = 0;
		factor = larger(factor, i->per_sec / b->capacity_per_sec);
		*ret_reason = BUDGET_LOSING;
	}
	if (i->throttled > 0) {
		factor = larger(factor, i->throttled >= in->cpus / 16.0 ? UP_FIRST : 2);
		*ret_reason = BUDGET_THROTTLED;
	}
	return smaller(factor, limit);
}

static void go_up(struct budget *b, double period, uint64_t now_ns)
{
	if (b->down_ns && now_ns - b->down_ns <= TAKEN_BACK_NS && b->patience < PATIENCE_MAX)
		b->patience *= 2;
	b->up_ns = now_ns;
	b->down_ns = 0;
	b->low_steps = 0;
	b->target = period;
}

/* true when cost has been low for long enough. */
static bool is_low_for_long(struct budget *b, const struct interval *i, double want, bool pattern)
{
	if (i->cost >= b->params.ratio * LOW) {
		b->low_steps = 0;
		return false;
	}
	b->low_want = b->low_steps == 0 ? want : larger(b->low_want, want);
	b->low_steps++;
	return pattern || b->low_steps >= b->patience;
}

static enum budget_reason seek(struct budget *b, const struct interval *i, double lowest, uint64_t now_ns)
{
	/* What was lost once would be lost again. */
	double lossless = i->used * i->per_sec / b->capacity_per_sec;
	bool pattern = b->moved_by == BUDGET_PATTERN || b->pattern_ns == now_ns;
	double want = i->used * i->cost / (b->params.ratio * AIM), period;

	if (pattern && now_ns - b->pattern_ns > SETTLE_NS)
		pattern = false;
	if (!is_low_for_long(b, i, want, pattern))
		return b->low_steps ? BUDGET_WATCHING : BUDGET_HELD;
	period = larger(larger(b->low_want, larger(lowest, lossless)), i->used / DOWN);
	b->low_steps = 0;
	/* Within what drawing does: there already. */
	if (period > i->used * (1 - 2.0 / JITTER_PART)) {
		period = larger(lowest, lossless);
		if (b->target > period * (1 + 1.0 / JITTER_PART))
			b->target = period;
		if (lossless > lowest)
			return BUDGET_LOSING;
		return lowest <= period_min(b) ? BUDGET_AT_MIN : BUDGET_FLOOR;
	}
	b->target = period;
	b->down_ns = now_ns;
	return pattern ? BUDGET_PATTERN : BUDGET_UNDER;
}

/* Little to learn: cheaper by and by, but enough to notice a change, also when the load went away. */
static enum budget_reason ease(struct budget *b, const struct interval *i, double lowest)
{
	double budget = b->params.ratio;

	b->low_steps++;
	if (i->kernel > budget * EASED && i->per_sec / EASE >= EASED_SAMPLES_PER_SEC) {
		if (b->low_steps < 2)
			return BUDGET_SETTLED;
		b->target = larger(i->used * EASE, lowest);
		b->low_steps = 0;
	} else if (i->kernel < budget * EASED_LOW || i->per_sec < EASED_SAMPLES_PER_SEC / 2) {
		if (b->low_steps < b->patience || i->cost >= budget * LOW)
			return BUDGET_SETTLED;
		b->target = larger(smaller(i->used, b->target) / EASE, lowest);
		b->low_steps = 0;
	} else {
		b->low_steps = 0;
	}
	return BUDGET_SETTLED;
}

static enum budget_reason decide(struct budget *b, const struct budget_input *in, const struct interval *i,
				 uint64_t now_ns)
{
	double lowest = floor_period(b, in, sample_ns(in)), max = period_max(b), factor;
	enum budget_reason reason = BUDGET_HELD;

	b->out.floor = (uint64_t)lowest;
	if (now_ns - b->up_ns >= CALM_NS && b->patience > PATIENCE) {
		b->patience /= 2;
		b->up_ns = now_ns;
	}
	factor = way_up(b, in, i, &reason);
	if (factor > 1) {
		if (i->used >= max * (1 - 2.0 / JITTER_PART))
			return i->cost > b->params.ratio ? BUDGET_AT_MAX : reason;
		go_up(b, i->used * factor, now_ns);
		return reason;
	}
	if (reason == BUDGET_OWN_CPU)
		return reason;
	if (i->used < lowest * (1 - 2.0 / JITTER_PART)) {
		b->target = smaller(lowest, i->used * UP_FIRST);
		b->low_steps = 0;
		return BUDGET_FLOOR;
	}
	if (b->eased)
		return ease(b, i, lowest);
	return seek(b, i, lowest, now_ns);
}

static bool is_move(enum budget_reason reason)
{
	return reason == BUDGET_OVER || reason == BUDGET_UNDER || reason == BUDGET_PATTERN ||
	       reason == BUDGET_THROTTLED || reason == BUDGET_LOSING;
}

/* What moved it goes on being told for a while: people look at any moment. */
static enum budget_reason shown(struct budget *b, enum budget_reason reason, uint64_t now_ns)
{
	if (is_move(reason)) {
		b->moved_by = reason;
		b->changed_ns = now_ns;
		return reason;
	}
	if ((reason == BUDGET_HELD || reason == BUDGET_WATCHING) && now_ns - b->changed_ns < SHOWN_NS)
		return b->moved_by;
	return reason;
}

static void emit(struct budget *b, const struct budget_input *in, double target_before, uint64_t now_ns)
{
	const struct budget_params *p = &b->params;
	uint64_t before = b->out.period;

	b->target = clamp(b->target, period_min(b), period_max(b));
	if (p->period_fixed) {
		b->target = clamp((double)(p->period_fixed / p->period_align * p->period_align), period_min(b),
				  period_max(b));
		b->out.period = (uint64_t)b->target;
	} else if (b->target != target_before || now_ns - b->jitter_ns >= JITTER_NS || (double)before < period_min(b) ||
		   (double)before > period_max(b) || before % p->period_align) {
		b->out.period = draw_period(b);
		b->jitter_ns = now_ns;
	}
	b->out.changed = b->out.period != (in->period_taken ? in->period_taken : before);
}

void budget_step(struct budget *b, const struct budget_input *in, uint64_t now_ns, struct budget_output *ret)
{
	struct budget_output *out = &b->out;
	double target_before = b->target;
	struct interval i = { 0 };

	if (!b->started) {
		start(b, in, now_ns);
		out->floor = (uint64_t)floor_period(b, in, sample_ns(in));
		out->reason = b->params.period_fixed ? BUDGET_FIXED : BUDGET_STARTING;
	} else if (now_ns < b->last_ns + STEP_MIN) {
		out->changed = false;
		*ret = *out;
		return;
	} else {
		measure(b, in, now_ns, &i);
		out->kernel_cost = i.kernel;
		out->own_cost = i.own;
		out->cost = i.cost;
		out->samples_per_sec = i.per_sec;
		if (in->cpus == 0) {
			out->reason = BUDGET_NO_CPU;
		} else {
			learn_load(b, in, &i);
			learn_yield(b, in, &i, now_ns);
			out->reason = shown(b, decide(b, in, &i, now_ns), now_ns);
			if (b->params.period_fixed)
				out->reason = b->over_steps > 1 ? BUDGET_FIXED_OVER : BUDGET_FIXED;
		}
	}
	emit(b, in, target_before, now_ns);
	out->expected_samples_per_sec = out->samples_per_sec * i.used / (double)out->period;
	b->last = *in;
	b->last_ns = now_ns;
	*ret = *out;
}
