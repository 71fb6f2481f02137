/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * hotness_model: what the tables are to do, in a plain, obvious way: arrays, whole times, no marks, no packing; and a
 * small world for both to live in.
 */
#pragma once

#include "hotness_internal.h"
#include "hotness_rig.h"

#define PIDS      4
#define AREAS     6 /* regions of each process */
#define PAGES     24
#define INSTANCES (1 << 16) /* regions that ever were */
#define COLD_NS   (8 * SEC)
#define TAKEN     64

/* Page frames: 320 pages of one chunk on node 1, 40 and 5 of others there, 100 on node 2, 20 on the fast node 0. */
static const struct {
	int nid;
	uint64_t first, n, step;
} frames[] = { { 1, 0, 320, 1 }, { 1, 5120, 40, 7 }, { 1, 700000, 5, 100 }, { 2, 512, 100, 5 }, { 0, 4096, 20, 3 } };

#define FRAMES 485

struct m_region { /* one instance; the address may get another one later */
	bool exists;
	int pid, area;
	uint32_t owner_slot;
	uint64_t start_ticks;
	bool seen[REGION_PAGES];
	unsigned int n_seen;
	unsigned int mapping; /* log2 of its bytes */
	uint32_t last_tick;
	uint32_t counts[8]; /* by epoch modulo 8 */
	uint64_t epochs[8];
};

struct m_record {
	bool exists, ready, note;
	unsigned int freq;
	int nid;
	uint64_t time_ns;
	int region; /* instance */
	unsigned int page;
};

struct m_owner {
	uint32_t slot; /* OWNER_NONE: not seen yet */
	bool gone;
	uint64_t start_ticks;
	int current[AREAS]; /* instance, -1 */
};

static struct {
	struct rig *rig;
	enum record_layout layout;
	uint64_t seed, op, lower_now_ns, janitor_ns;
	bool bounded;
	struct m_owner owner[PIDS];
	struct m_region region[INSTANCES];
	int n_regions, first_region; /* those before are gone */
	struct m_record record[FRAMES];
	size_t n_gone; /* owners not reaped yet */
	struct {
		struct hotness_candidate candidate;
		uint64_t time_ns; /* of its record */
		uint64_t taken_ns;
		int frame;
	} taken[TAKEN];
	unsigned int n_taken;
	/* What went on, to be sure that something did. */
	uint64_t n_ready, n_shown, n_stale, n_put_back, n_no_memory, n_evicted, n_late, n_stopped, n_aged, n_cold;
	uint64_t wrong;
} w;

static uint64_t dice(uint64_t sides)
{
	w.seed = w.seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (w.seed >> 33) % sides;
}

#define EXPECT(condition) expect((condition), #condition, __LINE__)
static void expect(bool condition, const char *text, int line)
{
	if (condition)
		return;
	if (w.wrong++ < 10)
		printf("  layout %d, operation %llu, line %d: %s\n", w.layout, (unsigned long long)w.op, line, text);
}

static uint64_t frame_phys(int frame)
{
	for (size_t i = 0;; i++) {
		if ((uint64_t)frame < frames[i].n)
			return rig_phys(frames[i].nid, frames[i].first + (uint64_t)frame * frames[i].step);
		frame -= (int)frames[i].n;
	}
}

static int frame_of(uint64_t pfn)
{
	for (int frame = 0; frame < FRAMES; frame++)
		if (frame_phys(frame) >> PAGE_SHIFT == pfn)
			return frame;
	return -1;
}

static int frame_nid(int frame)
{
	return (int)(frame_phys(frame) / RIG_NODE_BYTES);
}

static uint64_t area_addr(int area)
{
	return RIG_ADDR + (uint64_t)area * 5 * REGION_BYTES;
}

/* Whole ms, or buckets of 128, between two times. */
static int64_t age_ms(uint64_t then_ns, uint64_t now_ns)
{
	int64_t then = (int64_t)(then_ns / NSEC_PER_MSEC), now = (int64_t)(now_ns / NSEC_PER_MSEC);

	return w.layout == RECORD_COMPACT ? (now / 128 - then / 128) * 128 : now - then;
}

static bool has_wrapped(const struct m_record *r, uint64_t now_ns)
{
	return age_ms(r->time_ns, now_ns) >= record_range_ms(w.layout);
}

static bool is_alive(int region)
{
	const struct m_region *r = &w.region[region];

	return r->exists && w.owner[r->pid].slot == r->owner_slot && !w.owner[r->pid].gone;
}

static uint32_t packed(const struct m_record *r)
{
	uint32_t ms = (uint32_t)(r->time_ns / NSEC_PER_MSEC);

	if (w.layout == RECORD_COMPACT)
		return r->freq | (ms / 128 & 31) << 2 | (uint32_t)r->ready << 7;
	return (uint32_t)r->nid | r->freq << 10 | (ms & 0x3fff) << 13 | (uint32_t)r->ready << 31;
}

static enum hotness_result m_record_access(int frame, int region, unsigned int page, uint64_t time_ns, int target)
{
	const struct record_rule *rule = &w.rig->rule;
	struct m_record *r = &w.record[frame];
	bool was_ready;

	if (!r->exists || has_wrapped(r, time_ns))
		*r = (struct m_record){ .exists = true, .region = region, .page = page, .time_ns = time_ns };
	was_ready = r->ready;
	if (r->time_ns > time_ns)
		time_ns = r->time_ns;
	if (age_ms(r->time_ns, time_ns) > rule->window_ms) {
		r->freq = 0;
		r->ready = false;
	}
	r->time_ns = time_ns;
	r->nid = target;
	if (r->freq < (w.layout == RECORD_COMPACT ? 3 : 7))
		r->freq++;
	if (r->freq >= rule->freq_threshold)
		r->ready = true;
	if (!is_alive(r->region)) {
		r->region = region;
		r->page = page;
	}
	w.n_ready += r->ready && !was_ready;
	return r->ready && !was_ready ? HOTNESS_READY : HOTNESS_RECORDED;
}

static void m_count(struct m_region *r, uint64_t time_ns)
{
	uint64_t epoch = time_ns / SEC;

	if (r->epochs[epoch % 8] != epoch)
		r->counts[epoch % 8] = 0;
	r->epochs[epoch % 8] = epoch;
	r->counts[epoch % 8]++;
}

static bool real_has_region(const struct m_region *r)
{
	struct hotness_region real;
	bool found;

	rcu_enter();
	found = hotness_find_region(w.rig->hotness, 100 + (uint32_t)r->pid, r->owner_slot, area_addr(r->area),
				    w.rig->now_ns, &real);
	rcu_leave();
	return found;
}

static bool real_has_seen(const struct m_region *r, unsigned int page)
{
	const struct region *real;
	bool seen;

	rcu_enter();
	real = regions_find(w.rig->hotness->regions, hotness_shard(100 + (uint32_t)r->pid, area_addr(r->area), 3),
			    r->owner_slot, area_addr(r->area), NULL);
	seen = real && region_has_seen(real, page);
	rcu_leave();
	return seen;
}
