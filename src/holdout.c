/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <assert.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "accesses.h"
#include "config.h"
#include "holdout.h"
#include "hotness.h"

#define GROUPS      2 /* moved, held */
#define WINDOWS     3
#define SAMPLES_MIN 1000  /* of each group: fewer say nothing */
#define FAR_MIN     0.001 /* of the held group's samples: with less there is nothing to save */
#define STUDENT     2.04  /* 95% of 31 degrees of freedom */

struct cell {
	_Atomic uint64_t n, far, latency, with_latency;
};

struct sums {
	uint64_t n, far, latency, with_latency;
};

struct snapshot {
	struct sums bucket[GROUPS][HOLDOUT_BUCKETS];
};

struct holdout {
	unsigned int shards;
	struct cell (*cell)[GROUPS][HOLDOUT_BUCKETS]; /* by shard */

	/* The stepping thread's own. */
	double percent;
	uint64_t window_ns, windows;
	bool began;
	struct snapshot past[WINDOWS]; /* what was counted at the last begins of windows, the oldest first */
	struct snapshot now;

	pthread_mutex_t lock;
	struct holdout_view view; /* under the lock */
};

static uint64_t mix(uint32_t pid, uint64_t addr)
{
	uint64_t x = (addr >> REGION_SHIFT) ^ (uint64_t)pid << 40;

	x = (x ^ x >> 31) * UINT64_C(0x7fb5d329728ea185);
	x = (x ^ x >> 27) * UINT64_C(0x81dadef4bc2dd44d);
	return x ^ x >> 33;
}

static bool is_held(uint64_t hash, double percent)
{
	return (double)(hash >> 40) < percent / 100 * 0x1p24;
}

bool holdout_has(double percent, uint32_t pid, uint64_t addr)
{
	return percent > 0 && is_held(mix(pid, addr), percent);
}

struct holdout *holdout_new(unsigned int shards)
{
	struct holdout *h = calloc(1, sizeof(*h));

	assert(shards >= 1 && shards <= HOTNESS_SHARDS_MAX);
	if (!h)
		return NULL;
	pthread_mutex_init(&h->lock, NULL);
	h->shards = shards;
	h->cell = calloc(shards, sizeof(*h->cell));
	if (!h->cell) {
		holdout_free(h);
		return NULL;
	}
	return h;
}

void holdout_free(struct holdout *h)
{
	if (!h)
		return;
	free(h->cell);
	pthread_mutex_destroy(&h->lock);
	free(h);
}

/* There is one writer: no locked add is needed. */
static void add(_Atomic uint64_t *word, uint64_t n)
{
	atomic_store_explicit(word, atomic_load_explicit(word, memory_order_relaxed) + n, memory_order_relaxed);
}

void holdout_count(struct holdout *h, unsigned int shard, const struct config *config, const struct hotness_item *items,
		   size_t n)
{
	double percent = config->guard_holdout_percent;

	if (percent <= 0)
		return;
	for (size_t i = 0; i < n; i++) {
		const struct sample *sample = items[i].sample;
		uint64_t hash = mix(sample->pid, sample->addr);
		struct cell *cell = &h->cell[shard][is_held(hash, percent)][hash % HOLDOUT_BUCKETS];

		/* A fault is no access, and slow memory has most of them by design. */
		if (sample->source == SAMPLE_SOURCE_HINT_FAULTS)
			continue;
		add(&cell->n, 1);
		add(&cell->far, items[i].context->place.is_lower);
		if (sample->latency) {
			add(&cell->latency, sample->latency);
			add(&cell->with_latency, 1);
		}
	}
}

static void take(const struct holdout *h, struct snapshot *ret)
{
	*ret = (struct snapshot){ 0 };
	for (unsigned int shard = 0; shard < h->shards; shard++)
		for (int g = 0; g < GROUPS; g++)
			for (int b = 0; b < HOLDOUT_BUCKETS; b++) {
				struct cell *cell = &h->cell[shard][g][b];
				struct sums *sums = &ret->bucket[g][b];

				sums->n += atomic_load_explicit(&cell->n, memory_order_relaxed);
				sums->far += atomic_load_explicit(&cell->far, memory_order_relaxed);
				sums->latency += atomic_load_explicit(&cell->latency, memory_order_relaxed);
				sums->with_latency += atomic_load_explicit(&cell->with_latency, memory_order_relaxed);
			}
}

/* What one group came to since @from: share of far ones, and its variance by how much the buckets differ. */
struct group {
	double n, far, latency, with_latency;
	double share, variance;
};

static struct group sum_up(const struct snapshot *from, const struct snapshot *to, int g)
{
	struct group sum = { 0 };
	double squares = 0;

	for (int b = 0; b < HOLDOUT_BUCKETS; b++) {
		const struct sums *x = &from->bucket[g][b], *y = &to->bucket[g][b];

		sum.n += (double)(y->n - x->n);
		sum.far += (double)(y->far - x->far);
		sum.latency += (double)(y->latency - x->latency);
		sum.with_latency += (double)(y->with_latency - x->with_latency);
	}
	sum.share = sum.n > 0 ? sum.far / sum.n : 0;
	for (int b = 0; b < HOLDOUT_BUCKETS; b++) {
		const struct sums *x = &from->bucket[g][b], *y = &to->bucket[g][b];
		double off = (double)(y->far - x->far) - sum.share * (double)(y->n - x->n);

		squares += off * off;
	}
	if (sum.n > 0)
		sum.variance = squares * HOLDOUT_BUCKETS / (HOLDOUT_BUCKETS - 1) / (sum.n * sum.n);
	return sum;
}

static void compare(const struct holdout *h, const struct snapshot *from, struct holdout_view *ret)
{
	struct group moved = sum_up(from, &h->now, 0), held = sum_up(from, &h->now, 1);
	double ratio, variance;

	*ret = (struct holdout_view){
		.percent = h->percent,
		.held = (uint64_t)held.n,
		.moved = (uint64_t)moved.n,
		.far_held = held.share,
		.far_moved = moved.share,
	};
	if (held.n < SAMPLES_MIN || moved.n < SAMPLES_MIN || held.share < FAR_MIN)
		return;
	ratio = moved.share / held.share;
	variance = (moved.variance + ratio * ratio * held.variance) / (held.share * held.share);
	ret->known = true;
	ret->saved = 1 - ratio;
	ret->margin = STUDENT * sqrt(variance);
	ret->has_latency = held.with_latency >= SAMPLES_MIN && moved.with_latency >= SAMPLES_MIN;
	if (ret->has_latency) {
		ret->latency_held_cycles = held.latency / held.with_latency;
		ret->latency_moved_cycles = moved.latency / moved.with_latency;
	}
}

/*
 * CPU time that is won: what the accesses wait for takes as long as the samples say, as often as each stands for; but
 * accesses overlap, and all together they take no longer than the CPUs were busy. That time would be longer by as much
 * as latency is where nothing moves.
 */
static void look_at_cpu(const struct accesses *a, struct holdout_view *view)
{
	double khz = a ? accesses_get(&a->cpu_khz) : 0, busy_sec = a ? accesses_get(&a->busy_ms_per_sec) / 1000 : 0;
	double waits_sec, won_sec;

	if (!view->known || !view->has_latency || khz <= 0 || busy_sec <= 0 || view->latency_moved_cycles <= 0)
		return;
	waits_sec = accesses_get(&a->samples_per_sec) * accesses_get(&a->per_sample) * view->latency_moved_cycles /
		    (khz * 1000);
	if (waits_sec <= 0)
		return;
	waits_sec = fmin(waits_sec, busy_sec);
	won_sec = waits_sec * (view->latency_held_cycles / view->latency_moved_cycles - 1);
	view->has_cpu = true;
	view->cpu_back = won_sec / (busy_sec + won_sec);
}

void holdout_step(struct holdout *h, const struct config *config, const struct accesses *accesses, uint64_t now_ns)
{
	struct holdout_view view = { 0 };
	bool anew = !h->began || h->percent != config->guard_holdout_percent;

	h->percent = config->guard_holdout_percent;
	if (anew || now_ns - h->window_ns >= HOLDOUT_WINDOW_NS) {
		take(h, &h->now);
		for (int i = 0; i < WINDOWS; i++)
			h->past[i] = anew || i == WINDOWS - 1 ? h->now : h->past[i + 1];
		h->window_ns = now_ns;
		h->began = true;
		if (h->percent > 0)
			compare(h, &h->past[0], &view);
		look_at_cpu(accesses, &view);
		view.windows = ++h->windows;
		pthread_mutex_lock(&h->lock);
		h->view = view;
		pthread_mutex_unlock(&h->lock);
	}
}

void holdout_look(struct holdout *h, struct holdout_view *ret)
{
	pthread_mutex_lock(&h->lock);
	*ret = h->view;
	pthread_mutex_unlock(&h->lock);
}
