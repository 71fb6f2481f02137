/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "collector.h"
#include "config.h"
#include "hotness.h"
#include "owners.h"
#include "rcu.h"
#include "sample.h"
#include "sample_queue.h"
#include "stats.h"
#include "topology.h"

#define USER_END (UINT64_C(1) << 56) /* addresses of programs, five-level page tables; the kernel's have bit 63 set */

struct collector {
	struct collector_params params; /* queues: our own array */
	size_t next_queue;              /* begins the next round, so that a full queue can't starve the others */
};

struct collector *collector_new(const struct collector_params *params)
{
	struct collector *collector = calloc(1, sizeof(*collector));

	if (!collector)
		return NULL;
	collector->params = *params;
	collector->params.queues = calloc(params->n_queues ? params->n_queues : 1, sizeof(struct sample_queue *));
	if (!collector->params.queues) {
		free(collector);
		return NULL;
	}
	if (params->n_queues)
		memcpy(collector->params.queues, params->queues, params->n_queues * sizeof(struct sample_queue *));
	return collector;
}

void collector_free(struct collector *collector)
{
	if (!collector)
		return;
	free(collector->params.queues);
	free(collector);
}

/* Where pages of one node go when one CPU touches them. */
struct placement {
	int32_t nid; /* -1: none yet */
	uint32_t cpu;
	enum stat_id reason; /* why its samples are no evidence; STAT_MAX: they are */
	struct hotness_place place;
};

#define PLACEMENTS 8 /* by node; more nodes than that at once only cost a lookup each */

/* What holds for a batch: one read section, one snapshot. */
struct batch {
	struct collector *collector;
	const struct topology *topology;
	struct record_rule rules[SAMPLE_SOURCE_MAX];
	uint64_t now_ns;
	/* The last pid and what it came to: samples of a process come in rows. */
	uint32_t pid; /* 0: none yet */
	int owner_r;
	struct owner *owner;
	struct placement placements[PLACEMENTS];
	size_t n;
	struct hotness_item items[COLLECTOR_BATCH_SAMPLES];
};

static uint32_t at_most(int64_t value, uint32_t max)
{
	return value < max ? (uint32_t)value : max;
}

/* The configuration's rule for each source, within what the layout of the records can hold. */
static void make_rules(const struct config *config, enum record_layout layout, struct record_rule *rules)
{
	const bool compact = layout == RECORD_COMPACT;

	for (int source = 0; source < SAMPLE_SOURCE_MAX; source++) {
		int64_t threshold = config->promote_freq_threshold;

		if (threshold == 0)
			threshold = source == SAMPLE_SOURCE_HINT_FAULTS ? 1 : 2;
		rules[source] = (struct record_rule){
			.layout = layout,
			.window_ms = at_most(config->promote_freq_window_ms,
					     compact ? RECORD_COMPACT_WINDOW_MAX_MS : RECORD_PRECISE_WINDOW_MAX_MS),
			.freq_threshold =
				at_most(threshold, compact ? RECORD_COMPACT_FREQ_MAX : RECORD_PRECISE_FREQ_MAX),
		};
	}
}

/* Why a sample is no evidence whoever made it; STAT_MAX: it may be. The reader has asked the same of what it can see.
 */
static enum stat_id discard_reason(const struct sample *sample)
{
	/* Address 0 is beyond all when one is taken off. */
	if (__builtin_expect(sample->pid != 0 && sample->addr - 1 < USER_END - 1 && sample->phys != 0, 1))
		return STAT_MAX;
	if (sample->pid == 0)
		return STAT_DISCARDED_NO_PID;
	if (sample->addr == 0)
		return STAT_DISCARDED_NO_ADDRESS;
	if (sample->addr >= USER_END)
		return STAT_DISCARDED_KERNEL;
	return STAT_DISCARDED_NO_PHYS;
}

static enum stat_id owner_reason(const struct batch *batch)
{
	switch (batch->owner_r) {
	case -ESRCH:
		return STAT_DISCARDED_OWNER_GONE;
	case -EPERM:
		return batch->pid == owners_self_pid(batch->collector->params.owners) ? STAT_DISCARDED_SELF
										      : STAT_DISCARDED_KERNEL;
	default:
		return STAT_DROPPED_MEMORY;
	}
}

static void look_up_placement(const struct topology *topology, struct placement *p)
{
	p->reason = STAT_MAX;
	p->place = (struct hotness_place){ .nid = p->nid,
					   .is_lower = nodeset_has(&topology->lower, p->nid),
					   .target_nid = -1 };
	if (p->place.is_lower)
		p->place.target_nid = topology_target(topology, p->nid, topology_cpu_node(topology, (int)p->cpu));
	else if (!nodeset_has(&topology->top, p->nid))
		p->reason = STAT_DISCARDED_UNMANAGED_NODE;
}

/* Where the page is: STAT_MAX, or why it doesn't matter. */
static enum stat_id place_page(struct batch *batch, const struct sample *sample, struct hotness_place *ret)
{
	int nid = topology_block_node(batch->topology, sample->phys >> PAGE_SHIFT);
	struct placement *p;

	if (nid < 0)
		return STAT_DISCARDED_UNKNOWN_PFN;
	p = &batch->placements[(unsigned int)nid % PLACEMENTS];
	if (p->nid != nid || p->cpu != sample->cpu) {
		p->nid = nid;
		p->cpu = sample->cpu;
		look_up_placement(batch->topology, p);
	}
	*ret = p->place;
	return p->reason;
}

/* STAT_MAX, with @ret filled, or why the sample is no evidence. */
static enum stat_id look_at_sample(struct batch *batch, const struct sample *sample, struct hotness_item *ret)
{
	unsigned int source = sample->source < SAMPLE_SOURCE_MAX ? sample->source : SAMPLE_SOURCE_HINT_FAULTS;
	enum stat_id reason = discard_reason(sample);

	if (reason == STAT_MAX)
		reason = place_page(batch, sample, &ret->place);
	if (reason != STAT_MAX)
		return reason;
	if (sample->pid != batch->pid) {
		batch->pid = sample->pid;
		batch->owner_r = owners_get(batch->collector->params.owners, sample->pid, batch->now_ns, &batch->owner);
	}
	if (batch->owner_r < 0)
		return owner_reason(batch);
	ret->sample = sample;
	ret->rule = &batch->rules[source];
	ret->owner_slot = batch->owner->slot;
	return STAT_MAX;
}

#define LANE_BITS 12
_Static_assert(HOTNESS_RESULTS *LANE_BITS <= 64 && COLLECTOR_BATCH_SAMPLES < 1 << LANE_BITS, "a batch fits a lane");

/* Each sample ends in exactly one of useful, dropped and discarded, see stats.def. */
static void count_results(const struct batch *batch)
{
	struct stats_slot *stats = batch->collector->params.stats;
	/* A lane for each result: a chain of additions to a register rather than to memory. */
	uint64_t lanes = 0, n[HOTNESS_RESULTS];

	for (size_t i = 0; i < batch->n; i++)
		lanes += UINT64_C(1) << (LANE_BITS * batch->items[i].result);
	for (int result = 0; result < HOTNESS_RESULTS; result++)
		n[result] = lanes >> (LANE_BITS * result) & ((1U << LANE_BITS) - 1);
	stats_add(stats, STAT_DROPPED_MEMORY, n[HOTNESS_NO_MEMORY]);
	stats_add(stats, STAT_DISCARDED_FIRST_SIGHTING, n[HOTNESS_FIRST_SIGHTING]);
	stats_add(stats, STAT_RECORDED, n[HOTNESS_RECORDED] + n[HOTNESS_READY]);
	stats_add(stats, STAT_BECAME_READY, n[HOTNESS_READY]);
	stats_add(stats, STAT_USEFUL, n[HOTNESS_RECORDED] + n[HOTNESS_READY] + n[HOTNESS_FAST]);
}

static void take_batch(struct batch *batch, const struct sample *samples, size_t n)
{
	const struct collector_params *params = &batch->collector->params;

	/* What was found in another read section may be freed by now. */
	batch->pid = 0;
	for (size_t i = 0; i < PLACEMENTS; i++)
		batch->placements[i].nid = -1;
	batch->n = 0;
	for (size_t i = 0; i < n; i++) {
		enum stat_id reason = look_at_sample(batch, &samples[i], &batch->items[batch->n]);

		if (reason == STAT_MAX)
			batch->n++;
		else
			stats_inc(params->stats, reason);
	}
	hotness_access_batch(params->hotness, params->shard, batch->items, batch->n);
	count_results(batch);
}

/* Up to @max samples of one queue, where they lie. */
static size_t take_from(struct batch *batch, struct sample_queue *queue, size_t max)
{
	const struct sample *samples;
	size_t n = sample_queue_peek(queue, max < COLLECTOR_BATCH_SAMPLES ? max : COLLECTOR_BATCH_SAMPLES, &samples);

	if (n == 0)
		return 0;
	rcu_enter();
	batch->topology = topology_store_peek(batch->collector->params.topology);
	take_batch(batch, samples, n);
	rcu_leave();
	sample_queue_skip(queue, n);
	return n;
}

size_t collector_step(struct collector *collector, const struct config *config, uint64_t now_ns, size_t budget)
{
	const struct collector_params *params = &collector->params;
	struct batch batch; /* five KiB: not zeroed */
	size_t taken = 0;

	batch.collector = collector;
	batch.now_ns = now_ns;
	make_rules(config, hotness_layout(params->hotness), batch.rules);
	for (size_t i = 0; i < params->n_queues && taken < budget; i++)
		taken += take_from(&batch, params->queues[(collector->next_queue + i) % params->n_queues],
				   budget - taken);
	collector->next_queue++;
	return taken;
}
