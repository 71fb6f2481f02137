/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "collector.h"
#include "config.h"
#include "holdout.h"
#include "hotness.h"
#include "owners.h"
#include "rcu.h"
#include "sample.h"
#include "sample_queue.h"
#include "stats.h"
#include "topology.h"

#define USER_END (UINT64_C(1) << 56) /* addresses of programs, five-level page tables; the kernel's have bit 63 set */

/* What samples of one process, one CPU and one source, to pages of one node have in common. */
struct kind {
	uint64_t who; /* see sample_who() */
	int32_t nid;
	enum stat_id reason; /* why they are no evidence; STAT_MAX: they are, and @context is set */
	struct hotness_context context;
};

#define KIND_BITS 6 /* where more kinds than 2^6 come by turns, some of them are made again and again */

struct collector {
	struct collector_params params; /* queues: our own array */
	size_t next_queue;              /* begins the next round, so that a full queue can't starve the others */
	/*
	 * Kinds of the samples of a batch, in the order of their first ones, and where to look for one: samples come
	 * in rows, and a few rows by turns. Only of one batch, since what was found in another read section may be
	 * freed by now. They stay to its end, whatever takes their place there.
	 */
	const struct kind *kind_at[1 << KIND_BITS];
	struct kind kinds[COLLECTOR_BATCH_SAMPLES];
};

/* Of no sample: there is no such node. */
static const struct kind no_kind = { .nid = -1 };

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

/* What holds for a batch: one read section, one snapshot. */
struct batch {
	struct collector *collector;
	const struct config *config;
	const struct topology *topology;
	struct record_rule rules[SAMPLE_SOURCE_MAX];
	uint64_t now_ns;
	uint32_t n_kinds;
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
	if (sample->pid == 0)
		return STAT_DISCARDED_NO_PID;
	if (sample->addr == 0)
		return STAT_DISCARDED_NO_ADDRESS;
	if (sample->addr >= USER_END)
		return STAT_DISCARDED_KERNEL;
	return sample->phys == 0 ? STAT_DISCARDED_NO_PHYS : STAT_MAX;
}

static enum stat_id owner_reason(const struct collector *collector, uint32_t pid, int r)
{
	switch (r) {
	case -ESRCH:
		return STAT_DISCARDED_OWNER_GONE;
	case -EPERM:
		return pid == owners_self_pid(collector->params.owners) ? STAT_DISCARDED_SELF : STAT_DISCARDED_KERNEL;
	default:
		return STAT_DROPPED_MEMORY;
	}
}

/* Fill @ret for the likes of @sample. */
static __attribute__((noinline)) void make_kind(const struct batch *batch, const struct sample *sample, int nid,
						struct kind *ret)
{
	const struct collector_params *params = &batch->collector->params;
	unsigned int source = sample->source < SAMPLE_SOURCE_MAX ? sample->source : SAMPLE_SOURCE_HINT_FAULTS;
	const struct topology *topology = batch->topology;
	struct hotness_place place = { .nid = nid, .is_lower = nodeset_has(&topology->lower, nid), .target_nid = -1 };
	struct owner *owner;
	int r;

	*ret = (struct kind){ .who = sample_who(sample), .nid = nid, .reason = STAT_MAX };
	if (place.is_lower) {
		place.target_nid = topology_target(topology, nid, topology_cpu_node(topology, sample->cpu));
	} else if (!nodeset_has(&topology->top, nid)) {
		ret->reason = STAT_DISCARDED_UNMANAGED_NODE;
		return;
	}
	r = owners_get(params->owners, sample->pid, batch->now_ns, &owner);
	if (r < 0)
		ret->reason = owner_reason(batch->collector, sample->pid, r);
	else
		ret->context = hotness_context(&batch->rules[source], owner->slot, &place);
}

/* Where to look for the kind of samples of @who on @nid. */
static inline size_t kind_place(uint64_t who, int nid)
{
	return ((who * UINT64_C(0x9e3779b97f4a7c15) >> 32) + (uint64_t)nid) % (1 << KIND_BITS);
}

/*
 * The kind of @sample where it is not at hand, or is one of samples that are no evidence. NULL: it is none, and
 * *@ret_reason says why.
 */
static __attribute__((noinline)) const struct kind *look_closer(struct batch *batch, const struct sample *sample,
								enum stat_id *ret_reason)
{
	struct collector *collector = batch->collector;
	uint64_t who = sample_who(sample);
	const struct kind **at;
	struct kind *made;
	int nid;

	*ret_reason = discard_reason(sample);
	if (*ret_reason != STAT_MAX)
		return NULL;
	nid = topology_block_node(batch->topology, sample->phys >> PAGE_SHIFT);
	if (nid < 0) {
		*ret_reason = STAT_DISCARDED_UNKNOWN_PFN;
		return NULL;
	}
	at = &collector->kind_at[kind_place(who, nid)];
	if ((*at)->who != who || (*at)->nid != nid) {
		made = &collector->kinds[batch->n_kinds++];
		make_kind(batch, sample, nid, made);
		*at = made;
	}
	*ret_reason = (*at)->reason;
	return *ret_reason == STAT_MAX ? *at : NULL;
}

/* What the loop over a batch reads of the topology: a copy, which no store can change. */
struct node_table {
	int16_t *const *leaves;
	size_t n_leaves;
	unsigned int shift; /* of a physical address */
};

/* look_closer() for most samples: its kind is at hand, and is evidence. NULL: it must be looked at closer. */
static inline __attribute__((always_inline)) const struct kind *kind_at_hand(const struct node_table *nodes,
									     const struct kind *const *kind_at,
									     const struct sample *sample)
{
	const uint64_t who = sample_who(sample), phys = sample->phys, block = phys >> nodes->shift;
	const uint64_t leaf = block >> TOPOLOGY_LEAF_SHIFT;
	const struct kind *kind;
	int nid;

	/* Address 0 is beyond all when one is taken off. No kind is of process 0. */
	if (__builtin_expect(sample->addr - 1 >= USER_END - 1, 0) || __builtin_expect(phys == 0, 0) ||
	    __builtin_expect(leaf >= nodes->n_leaves, 0) || __builtin_expect(!nodes->leaves[leaf], 0))
		return NULL;
	nid = nodes->leaves[leaf][block & ((1U << TOPOLOGY_LEAF_SHIFT) - 1)];
	kind = kind_at[kind_place(who, nid)];
	if (__builtin_expect(kind->who != who, 0) || __builtin_expect(kind->nid != nid, 0) ||
	    __builtin_expect(kind->reason != STAT_MAX, 0))
		return NULL;
	return kind;
}

/* Each sample ends in exactly one of useful, dropped and discarded, see stats.def. */
static void count_results(const struct batch *batch, const uint32_t n[HOTNESS_RESULTS])
{
	struct stats_slot *stats = batch->collector->params.stats;

	stats_add(stats, STAT_DROPPED_MEMORY, n[HOTNESS_NO_MEMORY]);
	stats_add(stats, STAT_DISCARDED_FIRST_SIGHTING, n[HOTNESS_FIRST_SIGHTING]);
	stats_add(stats, STAT_RECORDED, n[HOTNESS_RECORDED] + n[HOTNESS_READY]);
	stats_add(stats, STAT_BECAME_READY, n[HOTNESS_READY]);
	stats_add(stats, STAT_USEFUL, n[HOTNESS_RECORDED] + n[HOTNESS_READY] + n[HOTNESS_FAST]);
}

static void take_batch(struct batch *batch, const struct sample *samples, size_t n)
{
	const struct collector_params *params = &batch->collector->params;
	const struct topology_blocks *blocks = &batch->topology->blocks;
	const struct node_table nodes = { blocks->leaves, blocks->n_leaves, blocks->shift + PAGE_SHIFT };
	const struct kind **const kind_at = batch->collector->kind_at;
	struct hotness_item *item = batch->items;
	uint32_t counts[HOTNESS_RESULTS] = { 0 };
	size_t n_items;

	batch->n_kinds = 0;
	for (size_t i = 0; i < 1 << KIND_BITS; i++)
		kind_at[i] = &no_kind;
	for (const struct sample *sample = samples; sample < samples + n; sample++) {
		const struct kind *kind = kind_at_hand(&nodes, kind_at, sample);
		enum stat_id reason;

		if (__builtin_expect(!kind, 0))
			kind = look_closer(batch, sample, &reason);
		if (__builtin_expect(!kind, 0)) {
			stats_inc(params->stats, reason);
			continue;
		}
		item->sample = sample;
		item->context = &kind->context;
		item++;
	}
	n_items = (size_t)(item - batch->items);
	hotness_access_batch(params->hotness, params->shard, batch->items, n_items, counts);
	count_results(batch, counts);
	if (params->holdout)
		holdout_count(params->holdout, params->shard, batch->config, batch->items, n_items);
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
	struct batch batch; /* six KiB: not zeroed */
	size_t taken = 0;

	batch.collector = collector;
	batch.config = config;
	batch.now_ns = now_ns;
	make_rules(config, hotness_layout(params->hotness), batch.rules);
	for (size_t i = 0; i < params->n_queues && taken < budget; i++)
		taken += take_from(&batch, params->queues[(collector->next_queue + i) % params->n_queues],
				   budget - taken);
	collector->next_queue++;
	return taken;
}
