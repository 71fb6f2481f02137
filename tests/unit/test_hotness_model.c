/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The tables against a plain model of them: a million random operations in each layout, in which pages are shared,
 * remapped, huge and small by turns, processes end, samples come late, memory runs out, and scans stop anywhere.
 */
#include "harness.h"
#include "hotness_model.h"

/* In each layout; fewer where they take twenty times as long. One thread: the thread sanitizer finds nothing here. */
static uint64_t operations(void)
{
#ifdef RCU_TSAN
	return 200000;
#else
	return test_under_valgrind() ? 200000 : 1000000;
#endif
}

static void do_access(void)
{
	int pid = (int)dice(PIDS), area = (int)dice(AREAS), frame = (int)dice(FRAMES), target = (int)dice(20) - 1;
	unsigned int page = (unsigned int)dice(PAGES) * 21;
	bool first_touch = dice(2), huge = dice(20) == 0, late = dice(8) == 0, is_new;
	struct hotness_place place;
	struct sample sample;
	enum hotness_result result, expected;
	struct m_region *r;
	struct owner *owner;
	int instance;

	/* Some pages are hotter than others. */
	if (dice(3))
		frame = (int)dice(60) * 8;
	/* ... and some so rarely that they get cold, and their records old. */
	if (area == AREAS - 1 && dice(500))
		area = 0;
	if (frame % 16 == 3 && dice(30))
		frame = 0;
	instance = w.owner[pid].current[area];
	if (huge)
		frame = (int)dice(2) * 320; /* the first frame of its 2 MiB */
	if (target > 0)
		target = w.layout == RECORD_COMPACT ? 0 : target * 50;
	place = (struct hotness_place){ .nid = frame_nid(frame),
					.is_lower = frame_nid(frame) > 0,
					.target_nid = target };
	sample = (struct sample){
		.time_ns = w.rig->now_ns - (late ? dice(380 * NSEC_PER_MSEC) : 0),
		.addr = area_addr(area) + page * PAGE_SIZE_BYTES + dice(4096),
		.phys = frame_phys(frame) + (huge ? dice(REGION_BYTES) : dice(4096)),
		.pid = 100 + (uint32_t)pid,
		.page_shift = huge ? 21 : 12,
		.flags = first_touch ? SAMPLE_MAYBE_FIRST_TOUCH : 0,
	};
	w.n_late += late;
	if (huge)
		page = 0;
	rcu_enter();
	if (owners_get(w.rig->owners, sample.pid, w.rig->now_ns, &owner) < 0)
		abort();
	EXPECT(w.owner[pid].slot == OWNER_NONE || w.owner[pid].slot == owner->slot);
	w.owner[pid].slot = owner->slot;
	result = hotness_access_page(w.rig->hotness, hotness_shard(sample.pid, sample.addr, 3), &w.rig->rule, &sample,
				     owner->slot, &place);
	rcu_leave();
	if (sample.time_ns > w.lower_now_ns)
		w.lower_now_ns = sample.time_ns;

	if (result == HOTNESS_NO_MEMORY) {
		struct m_region asked = { .pid = pid, .area = area, .owner_slot = w.owner[pid].slot };

		EXPECT(w.bounded);
		w.n_no_memory++;
		if (instance < 0 && !real_has_region(&asked))
			return;
	}
	is_new = instance < 0;
	if (is_new) {
		instance = w.owner[pid].current[area] = w.n_regions++;
		w.region[instance] = (struct m_region){
			.exists = true,
			.pid = pid,
			.area = area,
			.owner_slot = w.owner[pid].slot,
			.start_ticks = w.owner[pid].start_ticks,
			.last_tick = (uint32_t)(sample.time_ns >> REGION_TICK_SHIFT),
		};
	}
	r = &w.region[instance];
	if ((uint32_t)(sample.time_ns >> REGION_TICK_SHIFT) > r->last_tick)
		r->last_tick = (uint32_t)(sample.time_ns >> REGION_TICK_SHIFT);
	r->mapping = sample.page_shift;
	if (result == HOTNESS_NO_MEMORY && !r->seen[page] && !real_has_seen(r, page))
		return;
	is_new = !r->seen[page];
	r->n_seen += is_new;
	r->seen[page] = true;
	expected = HOTNESS_FIRST_SIGHTING;
	if (!is_new || !first_touch) {
		m_count(r, sample.time_ns);
		expected = HOTNESS_FAST;
		if (result == HOTNESS_NO_MEMORY)
			return;
		if (place.is_lower && target >= 0)
			expected = m_record_access(frame, instance, page, sample.time_ns, target);
	}
	EXPECT(result == expected);
}

struct visit {
	bool observing;
	uint64_t salt;
	bool stopped;
	bool shown[FRAMES];
	int nid;
	int last;
};

static bool is_shown(const struct m_record *r, const struct visit *visit)
{
	return r->exists && r->ready && !(visit->observing && r->note) && !has_wrapped(r, w.lower_now_ns);
}

static enum hotness_verdict decide(void *ctx, const struct hotness_candidate *c)
{
	struct visit *visit = ctx;
	int frame = frame_of(c->pfn);
	struct m_record *r;
	const struct m_region *region;

	EXPECT(frame >= 0 && !visit->stopped);
	if (frame < 0)
		return HOTNESS_DROP;
	r = &w.record[frame];
	region = &w.region[r->region];
	EXPECT(frame_nid(frame) == visit->nid);
	EXPECT(!visit->shown[frame]);
	EXPECT(is_shown(r, visit));
	EXPECT(is_alive(r->region));
	EXPECT(c->record == packed(r));
	EXPECT(c->pid == 100 + (uint32_t)region->pid);
	EXPECT(c->owner_slot == region->owner_slot);
	EXPECT(c->start_ticks == w.owner[region->pid].start_ticks);
	EXPECT(c->addr == area_addr(region->area) + r->page * PAGE_SIZE_BYTES);
	EXPECT(c->page_bytes == (region->mapping == 21 && r->page == 0 && c->pfn % 512 == 0 ? REGION_BYTES : 4096));
	visit->shown[frame] = true;
	visit->last = frame;
	w.n_shown++;
	switch (dice(8)) {
	case 0:
	case 1:
		if (dice(10) == 0) {
			visit->stopped = true;
			return HOTNESS_STOP;
		}
		return HOTNESS_KEEP;
	case 2:
		r->exists = false;
		return HOTNESS_DROP;
	case 3:
	case 4:
		r->ready = false;
		r->note = true;
		return HOTNESS_NOTE;
	default:
		if (w.n_taken < TAKEN) {
			w.taken[w.n_taken].candidate = *c;
			w.taken[w.n_taken].time_ns = r->time_ns;
			w.taken[w.n_taken].taken_ns = w.rig->now_ns;
			w.taken[w.n_taken++].frame = frame;
		}
		r->exists = false;
		return HOTNESS_TAKE;
	}
}

static void taken(void *ctx, const struct hotness_candidate *c)
{
	const struct visit *visit = ctx;

	EXPECT(frame_of(c->pfn) == visit->last);
}

static void do_scan(void)
{
	static struct visit visit;
	struct hotness_visitor visitor = { .decide = decide, .taken = taken, .ctx = &visit };
	struct hotness_scan_result result;
	size_t stale = 0, shown = 0;

	memset(&visit, 0, sizeof(visit));
	visit.observing = visitor.observing = dice(2);
	visit.nid = 1 + (int)dice(2);
	rcu_enter();
	hotness_scan(w.rig->hotness, w.rig->topology, visit.nid, 0, 1, &visitor, &result);
	rcu_leave();
	EXPECT(result.stopped == visit.stopped);
	for (int frame = 0; frame < FRAMES; frame++) {
		struct m_record *r = &w.record[frame];

		shown += visit.shown[frame];
		if (frame_nid(frame) != visit.nid || visit.shown[frame] || !is_shown(r, &visit))
			continue;
		if (is_alive(r->region)) {
			EXPECT(visit.stopped); /* else everything that is ready was shown */
		} else if (!visit.stopped || hotmap_peek(w.rig->hotness->map, frame_phys(frame) >> PAGE_SHIFT) == 0) {
			stale++;
			r->exists = false;
		}
	}
	EXPECT(result.stale == stale);
	EXPECT(result.records == shown);
	w.n_stale += stale;
	w.n_stopped += visit.stopped;
}

static void do_put_back(void)
{
	bool put, expected;
	unsigned int i;
	int frame, instance = -1;
	const struct hotness_candidate *c;

	if (w.n_taken == 0)
		return;
	i = (unsigned int)dice(w.n_taken);
	frame = w.taken[i].frame;
	c = &w.taken[i].candidate;
	if (w.rig->now_ns - w.taken[i].time_ns < SEC) {
		put = hotness_put_back(w.rig->hotness, c);
		for (int area = 0; area < AREAS; area++)
			if (area_addr(area) == (c->addr & ~(REGION_BYTES - 1)))
				for (int k = w.first_region; k < w.n_regions; k++)
					if (w.region[k].exists && w.region[k].owner_slot == c->owner_slot &&
					    w.region[k].pid + 100 == (int)c->pid && w.region[k].area == area &&
					    w.region[k].start_ticks == c->start_ticks)
						instance = k;
		expected = instance >= 0 && !w.record[frame].exists &&
			   w.region[instance].seen[c->addr / PAGE_SIZE_BYTES % REGION_PAGES];
		EXPECT(put == expected || (expected && w.bounded));
		if (put) {
			w.record[frame] = (struct m_record){
				.exists = true,
				.ready = true,
				.freq = record_freq(w.layout, c->record),
				.nid = w.layout == RECORD_COMPACT ? 0 : record_nid(w.layout, c->record),
				.time_ns = w.taken[i].time_ns,
				.region = instance,
				.page = (unsigned int)(c->addr / PAGE_SIZE_BYTES) % REGION_PAGES,
			};
			w.n_put_back++;
		}
	}
	w.taken[i] = w.taken[--w.n_taken];
}

static void forget_region(int k)
{
	struct m_region *r = &w.region[k];

	r->exists = false;
	if (w.owner[r->pid].current[r->area] == k)
		w.owner[r->pid].current[r->area] = -1;
	while (w.first_region < w.n_regions && !w.region[w.first_region].exists)
		w.first_region++;
}

static uint64_t idle_ns(const struct m_region *r)
{
	int64_t ticks = (int64_t)(w.rig->now_ns >> REGION_TICK_SHIFT) - r->last_tick;

	return ticks > 0 ? (uint64_t)ticks << REGION_TICK_SHIFT : 0;
}

static void do_janitor(void)
{
	uint64_t before[] = { rig_stat(w.rig, STAT_AGED_REGIONS), rig_stat(w.rig, STAT_AGED_RECORDS),
			      rig_stat(w.rig, STAT_EVICTED_REGIONS), rig_stat(w.rig, STAT_EVICTED_RECORDS) };
	uint64_t cold = 0, aged = 0, evicted = 0, evicted_records = 0, youngest_gone[PIDS], oldest_kept[PIDS] = { 0 };
	static bool goes_cold[INSTANCES];

	memset(youngest_gone, 0xff, sizeof(youngest_gone));
	rig_janitor(w.rig, COLD_NS);
	w.janitor_ns = w.rig->now_ns;
	if (w.janitor_ns > w.lower_now_ns)
		w.lower_now_ns = w.janitor_ns;
	for (int k = w.first_region; k < w.n_regions; k++) {
		struct m_region *r = &w.region[k];

		goes_cold[k] = false;
		if (!r->exists)
			continue;
		if (!is_alive(k)) {
			r->exists = false;
		} else if (idle_ns(r) >= COLD_NS) {
			cold++;
			goes_cold[k] = true;
			r->exists = false;
		}
	}
	for (int frame = 0; frame < FRAMES; frame++) {
		struct m_record *r = &w.record[frame];

		if (r->exists && !w.region[r->region].exists) {
			aged += r->region >= w.first_region && goes_cold[r->region];
			r->exists = false;
		} else if (r->exists && has_wrapped(r, w.rig->now_ns)) {
			aged++;
			r->exists = false;
		}
	}
	for (int k = w.first_region; k < w.n_regions; k++) {
		struct m_region *r = &w.region[k];

		if (!r->exists)
			continue;
		if (real_has_region(r)) {
			if (idle_ns(r) > oldest_kept[r->pid])
				oldest_kept[r->pid] = idle_ns(r);
		} else {
			if (idle_ns(r) < youngest_gone[r->pid])
				youngest_gone[r->pid] = idle_ns(r);
			evicted++;
			r->exists = false;
		}
	}
	for (int frame = 0; frame < FRAMES; frame++) {
		struct m_record *r = &w.record[frame];

		if (r->exists && !w.region[r->region].exists) {
			evicted_records++;
			r->exists = false;
		}
	}
	for (int k = w.first_region; k < w.n_regions; k++)
		if (!w.region[k].exists)
			forget_region(k);
	EXPECT(rig_stat(w.rig, STAT_AGED_REGIONS) == before[0] + cold);
	EXPECT(rig_stat(w.rig, STAT_AGED_RECORDS) == before[1] + aged);
	EXPECT(rig_stat(w.rig, STAT_EVICTED_REGIONS) == before[2] + evicted);
	EXPECT(rig_stat(w.rig, STAT_EVICTED_RECORDS) == before[3] + evicted_records);
	EXPECT(evicted == 0 || w.bounded);
	/* Of each process the coldest first, to an eighth. */
	for (int pid = 0; pid < PIDS; pid++)
		if (youngest_gone[pid] != UINT64_MAX)
			EXPECT(youngest_gone[pid] + youngest_gone[pid] / 8 + (2ULL << REGION_TICK_SHIFT) >=
			       oldest_kept[pid]);
	w.n_evicted += evicted;
	w.n_aged += aged;
	w.n_cold += cold;
	/* All regions of gone owners went with this turn. */
	EXPECT(owners_reap(w.rig->owners) == w.n_gone);
	w.n_gone = 0;
}

static void do_owner_gone(void)
{
	int pid = (int)dice(PIDS);
	struct m_owner *o = &w.owner[pid];

	if (o->slot == OWNER_NONE)
		return;
	o->start_ticks++;
	rig_put_process(w.rig, 100 + (uint32_t)pid, "next", 'S', 0, o->start_ticks);
	CU_ASSERT(!owners_check(w.rig->owners, o->slot, 100 + (uint32_t)pid, o->start_ticks - 1));
	/* Its regions stay until the janitor comes; they are nobody's, since slots are reused after that only. */
	o->slot = OWNER_NONE;
	for (int area = 0; area < AREAS; area++)
		o->current[area] = -1;
	w.n_gone++;
}

static void check_all(void)
{
	struct hotness_usage usage = rig_usage(w.rig);
	size_t records = 0, regions = 0;

	for (int frame = 0; frame < FRAMES; frame++) {
		const struct m_record *r = &w.record[frame];
		uint64_t word = hotmap_peek(w.rig->hotness->map, frame_phys(frame) >> PAGE_SHIFT);

		records += r->exists;
		EXPECT((word != 0) == r->exists);
		if (!word || !r->exists)
			continue;
		EXPECT(hotmap_record(word) == packed(r));
		EXPECT(((word & HOTMAP_NOTE) != 0) == r->note);
	}
	for (int k = w.first_region; k < w.n_regions; k++) {
		const struct m_region *r = &w.region[k];
		struct hotness_region real = { 0 };
		uint64_t epoch = w.rig->now_ns / SEC;
		bool found;

		if (!r->exists)
			continue;
		regions++;
		rcu_enter();
		found = hotness_find_region(w.rig->hotness, 100 + (uint32_t)r->pid, r->owner_slot, area_addr(r->area),
					    w.rig->now_ns, &real);
		rcu_leave();
		EXPECT(found);
		EXPECT(real.pages == r->n_seen);
		EXPECT(real.idle_ns == idle_ns(r));
		EXPECT(real.page_bytes == (r->mapping == 21 ? REGION_BYTES : 4096));
		for (uint64_t i = 0; i < REGION_EPOCHS; i++)
			EXPECT(real.counts[i] ==
			       (r->epochs[(epoch - i) % 8] == epoch - i ? r->counts[(epoch - i) % 8] : 0));
		for (unsigned int page = 0; page < PAGES; page++)
			EXPECT(real_has_seen(r, page * 21) == r->seen[page * 21]);
	}
	EXPECT(usage.records == records);
	EXPECT(usage.regions == regions);
	EXPECT(usage.bytes <= usage.memory_max_bytes || w.bounded);
}

static void do_bound(void)
{
	if (w.bounded) {
		do_janitor();
		hotness_set_memory_max(w.rig->hotness, 1ULL << 30);
		w.bounded = false;
		/* What was refused before is no reason to evict later. */
		tablemem_take_refused(&w.rig->hotness->mem);
	} else {
		hotness_set_memory_max(w.rig->hotness, rig_usage(w.rig).bytes + dice(200));
		w.bounded = true;
	}
}

static void step(void)
{
	uint64_t next_ns = w.rig->now_ns + (dice(2000) ? dice(2 * NSEC_PER_MSEC) : dice(950 * NSEC_PER_MSEC));
	uint64_t kind = dice(10000);

	/* A janitor each second and a half at most: the time field of compact needs no more. */
	if (next_ns - w.janitor_ns > SEC)
		do_janitor();
	if (next_ns - w.janitor_ns > SEC + SEC / 2)
		next_ns = w.janitor_ns + SEC + SEC / 2;
	w.rig->now_ns = next_ns;
	if (kind < 9700)
		do_access();
	else if (kind < 9820)
		do_scan();
	else if (kind < 9980)
		do_put_back();
	else if (kind < 9990)
		do_janitor();
	else if (kind < 9993)
		do_owner_gone();
	else if (kind < 9996)
		do_bound();
	else
		check_all();
}

static void agrees(enum record_layout layout)
{
	struct hotness_options options = rig_options;
	const uint64_t ops = operations();

	memset(&w, 0, sizeof(w));
	options.layout = layout;
	options.shards = 3;
	/* Few sections of many chunks, and many of one. */
	if (layout == RECORD_COMPACT)
		options.section_bytes = REGION_BYTES;
	w.layout = layout;
	w.rig = rig_new(&options, true);
	w.seed = 1 + layout;
	w.janitor_ns = w.rig->now_ns;
	for (int pid = 0; pid < PIDS; pid++) {
		w.owner[pid].slot = OWNER_NONE;
		w.owner[pid].start_ticks = (100 + (uint64_t)pid) * 10;
		for (int area = 0; area < AREAS; area++)
			w.owner[pid].current[area] = -1;
	}
	rig_janitor(w.rig, COLD_NS);
	for (w.op = 0; w.op < ops && w.n_regions < INSTANCES - 1 && w.wrong < 10; w.op++)
		step();
	check_all();
	CU_ASSERT_EQUAL(w.wrong, 0);
	CU_ASSERT_EQUAL(w.op, ops);
	printf("  %s: %llu ready, %llu shown, %llu stale, %llu put back, %llu late, %llu scans stopped, %llu refused, "
	       "%llu regions evicted, %llu cold, %llu records aged, %d regions\n",
	       layout == RECORD_COMPACT ? "compact" : "precise", (unsigned long long)w.n_ready,
	       (unsigned long long)w.n_shown, (unsigned long long)w.n_stale, (unsigned long long)w.n_put_back,
	       (unsigned long long)w.n_late, (unsigned long long)w.n_stopped, (unsigned long long)w.n_no_memory,
	       (unsigned long long)w.n_evicted, (unsigned long long)w.n_cold, (unsigned long long)w.n_aged,
	       w.n_regions);
	CU_ASSERT(w.n_ready && w.n_shown && w.n_stale && w.n_put_back && w.n_late && w.n_stopped && w.n_no_memory &&
		  w.n_evicted && w.n_cold && w.n_aged);
	rig_free(w.rig);
}

static void precise_agrees_with_the_model(void)
{
	agrees(RECORD_PRECISE);
}

static void compact_agrees_with_the_model(void)
{
	agrees(RECORD_COMPACT);
}

TEST_MAIN(hotness_model, TEST(precise_agrees_with_the_model), TEST(compact_agrees_with_the_model))
