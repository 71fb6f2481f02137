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

/* A sample on its way through a batch. */
struct item {
	enum stat_id reason; /* why it is no evidence; STAT_MAX: it is */
	uint32_t owner_slot;
	struct hotness_place place;
};

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
	struct sample samples[COLLECTOR_BATCH_SAMPLES];
	struct item items[COLLECTOR_BATCH_SAMPLES];
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
	if (sample->pid == 0)
		return STAT_DISCARDED_NO_PID;
	if (sample->addr == 0)
		return STAT_DISCARDED_NO_ADDRESS;
	if (sample->addr >= USER_END)
		return STAT_DISCARDED_KERNEL;
	if (sample->phys == 0)
		return STAT_DISCARDED_NO_PHYS;
	return STAT_MAX;
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

/* Where the page is: STAT_MAX, or why it doesn't matter. */
static enum stat_id place_page(const struct topology *topology, const struct sample *sample, struct hotness_place *ret)
{
	ret->nid = topology_pfn_node(topology, sample->phys >> PAGE_SHIFT);
	if (ret->nid < 0)
		return STAT_DISCARDED_UNKNOWN_PFN;
	ret->is_lower = nodeset_has(&topology->lower, ret->nid);
	if (!ret->is_lower && !nodeset_has(&topology->top, ret->nid))
		return STAT_DISCARDED_UNMANAGED_NODE;
	ret->target_nid =
		ret->is_lower ? topology_target(topology, ret->nid, topology_cpu_node(topology, sample->cpu)) : -1;
	return STAT_MAX;
}

static void look_at_sample(struct batch *batch, const struct sample *sample, struct item *ret)
{
	ret->reason = discard_reason(sample);
	if (ret->reason == STAT_MAX)
		ret->reason = place_page(batch->topology, sample, &ret->place);
	if (ret->reason != STAT_MAX)
		return;
	if (sample->pid != batch->pid) {
		batch->pid = sample->pid;
		batch->owner_r = owners_get(batch->collector->params.owners, sample->pid, batch->now_ns, &batch->owner);
	}
	if (batch->owner_r < 0)
		ret->reason = owner_reason(batch);
	else
		ret->owner_slot = batch->owner->slot;
}

/* Each sample ends in exactly one of useful, dropped and discarded, see stats.def. */
static void take_sample(const struct batch *batch, const struct sample *sample, const struct item *item)
{
	const struct collector_params *params = &batch->collector->params;
	unsigned int source = sample->source < SAMPLE_SOURCE_MAX ? sample->source : SAMPLE_SOURCE_HINT_FAULTS;
	enum hotness_result result;

	if (item->reason != STAT_MAX) {
		stats_inc(params->stats, item->reason);
		return;
	}
	result = hotness_access_page(params->hotness, params->shard, &batch->rules[source], sample, item->owner_slot,
				     &item->place);
	if (result == HOTNESS_NO_MEMORY) {
		stats_inc(params->stats, STAT_DROPPED_MEMORY);
		return;
	}
	if (result == HOTNESS_FIRST_SIGHTING) {
		stats_inc(params->stats, STAT_DISCARDED_FIRST_SIGHTING);
		return;
	}
	stats_inc(params->stats, STAT_USEFUL);
	if (result == HOTNESS_RECORDED || result == HOTNESS_READY)
		stats_inc(params->stats, STAT_RECORDED);
	if (result == HOTNESS_READY)
		stats_inc(params->stats, STAT_BECAME_READY);
}

/*
 * All samples of the batch side by side: nearly each line that one touches is a cache miss of its own, and a
 * compare-and-swap waits for all before it. Asked for ahead, the misses of 64 samples overlap: half the time for each.
 */
static void take_batch(struct batch *batch, size_t n)
{
	const struct collector_params *params = &batch->collector->params;

	/* What was found in another read section may be freed by now. */
	batch->pid = 0;
	for (size_t i = 0; i < n; i++)
		look_at_sample(batch, &batch->samples[i], &batch->items[i]);
	for (unsigned int step = 0; step < 3; step++)
		for (size_t i = 0; i < n; i++)
			if (batch->items[i].reason == STAT_MAX)
				hotness_prefetch(params->hotness, params->shard, &batch->samples[i],
						 batch->items[i].owner_slot, batch->items[i].place.is_lower, step);
	for (size_t i = 0; i < n; i++)
		take_sample(batch, &batch->samples[i], &batch->items[i]);
}

size_t collector_step(struct collector *collector, const struct config *config, uint64_t now_ns, size_t budget)
{
	const struct collector_params *params = &collector->params;
	struct batch batch; /* six KiB: not zeroed */
	size_t taken = 0;

	batch.collector = collector;
	batch.now_ns = now_ns;
	make_rules(config, hotness_layout(params->hotness), batch.rules);
	for (size_t i = 0; i < params->n_queues && taken < budget; i++) {
		size_t max = budget - taken < COLLECTOR_BATCH_SAMPLES ? budget - taken : COLLECTOR_BATCH_SAMPLES, n;

		n = sample_queue_pop(params->queues[(collector->next_queue + i) % params->n_queues], batch.samples,
				     max);
		if (n == 0)
			continue;
		rcu_enter();
		batch.topology = topology_store_peek(params->topology);
		take_batch(&batch, n);
		rcu_leave();
		taken += n;
	}
	collector->next_queue++;
	return taken;
}
