/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * All that the daemon does to the tables, at once: four collectors, a janitor, two scanners, and processes that end and
 * begin. For the thread sanitizer; what a candidate says is checked against what can be true. Two seconds, or as many
 * as the argument says; longer where by then something has not happened yet.
 */
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "harness.h"
#include "hotness_internal.h"
#include "hotness_rig.h"

#define COLLECTORS 4
#define PIDS       6
#define AREAS      40 /* regions of each process */
#define PAGES      48 /* sampled in each, one after the other */

#define LONGER_SECONDS 50 /* by then something is wrong */

static double run_seconds = 2;

static struct {
	struct rig *rig;
	_Atomic bool stop;
	_Atomic uint64_t results[5];
	_Atomic uint64_t shown, moved, put_back, stale, impossible, turns;
	_Atomic uint64_t ticks[PIDS]; /* of the process that has the pid now */
} t;

/* Each page of each process has its frame, but for area 0: there, all processes share one set. */
static uint64_t frame_of(int pid, uint64_t area, uint64_t page)
{
	uint64_t chunk = area == 0 ? 0 : 1 + (uint64_t)pid * AREAS + area;

	return rig_phys(1 + (int)(chunk % 2), 0) + chunk * REGION_BYTES + page * PAGE_SIZE_BYTES;
}

static uint64_t addr_of(int pid, uint64_t area, uint64_t page)
{
	return (uint64_t)(pid + 1) << 40 | area << REGION_SHIFT | page << PAGE_SHIFT;
}

static uint64_t draw(uint64_t *seed, uint64_t n)
{
	*seed = *seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (*seed >> 33) % n;
}

static void *collect(void *arg)
{
	unsigned int shard = (unsigned int)(uintptr_t)arg;
	uint64_t seed = shard + 1, results[5] = { 0 };

	rcu_thread_start();
	while (!atomic_load_explicit(&t.stop, memory_order_relaxed)) {
		rcu_enter();
		for (int i = 0; i < 64; i++) {
			int pid = (int)draw(&seed, PIDS);
			uint64_t area = draw(&seed, draw(&seed, 4) ? 6 : AREAS), page = draw(&seed, PAGES);
			struct sample sample = { .time_ns = clock_now_ns(&clock_monotonic) - draw(&seed, 2) * 1000000,
						 .addr = addr_of(pid, area, page),
						 .phys = frame_of(pid, area, page),
						 .pid = 100 + (uint32_t)pid,
						 .flags = draw(&seed, 2) ? SAMPLE_MAYBE_FIRST_TOUCH : 0 };
			struct hotness_place place = { .nid = 1, .is_lower = true, .target_nid = 0 };
			struct owner *owner;

			if (hotness_shard(sample.pid, sample.addr, COLLECTORS) != shard)
				continue;
			if (owners_get(t.rig->owners, sample.pid, sample.time_ns, &owner) == 0)
				results[hotness_access_page(t.rig->hotness, shard, &t.rig->rule, &sample, owner->slot,
							    &place)]++;
		}
		rcu_leave();
	}
	rcu_thread_stop();
	for (int i = 0; i < 5; i++)
		atomic_fetch_add(&t.results[i], results[i]);
	return NULL;
}

struct scanner {
	int nid;
	uint64_t seed;
	size_t n;
	struct hotness_candidate taken[512];
};

static enum hotness_verdict decide(void *ctx, const struct hotness_candidate *c)
{
	struct scanner *scanner = ctx;
	int pid = (int)(c->addr >> 40) - 1;
	uint64_t area = c->addr >> REGION_SHIFT & 0x7ffff, page = c->addr >> PAGE_SHIFT & 511;

	atomic_fetch_add_explicit(&t.shown, 1, memory_order_relaxed);
	/* Owner, address and frame belong together, whatever has been reused in between. */
	if (pid < 0 || pid >= PIDS || c->pid != 100 + (uint32_t)pid || area >= AREAS ||
	    c->pfn != frame_of(pid, area, page) >> PAGE_SHIFT || c->start_ticks == 0 ||
	    c->start_ticks > atomic_load_explicit(&t.ticks[pid], memory_order_relaxed) ||
	    !record_ready(RECORD_PRECISE, c->record) || (c->record & RECORD_RESERVED_BITS))
		atomic_fetch_add_explicit(&t.impossible, 1, memory_order_relaxed);
	switch (draw(&scanner->seed, 8)) {
	case 0:
		return HOTNESS_STOP;
	case 1:
		return HOTNESS_DROP;
	case 2:
		return HOTNESS_NOTE;
	case 3:
		return HOTNESS_KEEP;
	default:
		return scanner->n < 512 ? HOTNESS_TAKE : HOTNESS_STOP;
	}
}

static void taken(void *ctx, const struct hotness_candidate *c)
{
	struct scanner *scanner = ctx;

	if (scanner->n < 512)
		scanner->taken[scanner->n++] = *c;
}

static void *scan_node(void *arg)
{
	struct scanner scanner = { .nid = (int)(uintptr_t)arg, .seed = (uintptr_t)arg * 77 };
	struct hotness_visitor visitor = { .decide = decide, .taken = taken, .ctx = &scanner };

	rcu_thread_start();
	while (!atomic_load_explicit(&t.stop, memory_order_relaxed)) {
		struct hotness_scan_result result;

		scanner.n = 0;
		visitor.observing = draw(&scanner.seed, 3) == 0;
		rcu_enter();
		hotness_scan(t.rig->hotness, t.rig->topology, scanner.nid, 0, 1, &visitor, &result);
		rcu_leave();
		atomic_fetch_add(&t.stale, result.stale);
		for (size_t i = 0; i < scanner.n; i++) {
			if (draw(&scanner.seed, 2))
				continue;
			if (hotness_put_back(t.rig->hotness, &scanner.taken[i]))
				atomic_fetch_add(&t.put_back, 1);
		}
		atomic_fetch_add(&t.moved, scanner.n);
		usleep(500);
	}
	rcu_thread_stop();
	return NULL;
}

static void *clean(void *arg)
{
	uint64_t seed = 5;

	(void)arg;
	rcu_thread_start();
	while (!atomic_load_explicit(&t.stop, memory_order_relaxed)) {
		uint64_t turn = atomic_fetch_add(&t.turns, 1);

		owners_sweep(t.rig->owners, 256);
		/* Now and then everything is cold, or there is no memory. */
		if (turn % 16 == 15)
			hotness_set_memory_max(t.rig->hotness, rig_usage(t.rig).bytes - draw(&seed, 30000));
		hotness_janitor(t.rig->hotness, clock_now_ns(&clock_monotonic), turn % 8 == 7 ? 1000000 : SEC,
				t.rig->slot);
		if (turn % 16 == 1)
			hotness_set_memory_max(t.rig->hotness, 1ULL << 30);
		owners_reap(t.rig->owners);
		usleep(2000);
	}
	rcu_thread_stop();
	return NULL;
}

/* A thread adds its results when it ends, so what it recorded is known by what is shown of it. */
static bool all_has_happened(void)
{
	return atomic_load_explicit(&t.shown, memory_order_relaxed) > 0 &&
	       atomic_load_explicit(&t.moved, memory_order_relaxed) > 0 &&
	       atomic_load_explicit(&t.put_back, memory_order_relaxed) > 0 &&
	       atomic_load_explicit(&t.turns, memory_order_relaxed) > 0;
}

static void everything_at_once(void)
{
	struct hotness_options options = rig_options;
	pthread_t threads[COLLECTORS + 3];
	uint64_t records = 0, seed = 9, end_ns, now_ns, before;
	struct hotness_usage usage;
	size_t n = 0;

	options.shards = COLLECTORS;
	t.rig = rig_new(&options, true);
	for (int pid = 0; pid < PIDS; pid++)
		atomic_store(&t.ticks[pid], (100 + (uint64_t)pid) * 10);
	before = rig_usage(t.rig).bytes;
	for (uintptr_t i = 0; i < COLLECTORS; i++)
		pthread_create(&threads[n++], NULL, collect, (void *)i);
	pthread_create(&threads[n++], NULL, scan_node, (void *)1);
	pthread_create(&threads[n++], NULL, scan_node, (void *)2);
	pthread_create(&threads[n++], NULL, clean, NULL);
	end_ns = clock_now_ns(&clock_monotonic) + (uint64_t)(run_seconds * 1e9);
	while ((now_ns = clock_now_ns(&clock_monotonic)) < end_ns ||
	       (!all_has_happened() && now_ns < end_ns + LONGER_SECONDS * SEC)) {
		int pid = (int)draw(&seed, PIDS);

		usleep(20000);
		/* Another process with the pid. */
		atomic_fetch_add(&t.ticks[pid], 1);
		rig_put_process(t.rig, 100 + (uint32_t)pid, "next", 'S', 0, atomic_load(&t.ticks[pid]));
	}
	atomic_store(&t.stop, true);
	for (size_t i = 0; i < n; i++)
		pthread_join(threads[i], NULL);

	printf("  %llu recorded, %llu ready, %llu first, %llu refused; %llu shown, %llu taken, %llu put back, %llu "
	       "stale; "
	       "%llu turns of the janitor: %llu cold, %llu evicted\n",
	       (unsigned long long)t.results[HOTNESS_RECORDED], (unsigned long long)t.results[HOTNESS_READY],
	       (unsigned long long)t.results[HOTNESS_FIRST_SIGHTING], (unsigned long long)t.results[HOTNESS_NO_MEMORY],
	       (unsigned long long)t.shown, (unsigned long long)t.moved, (unsigned long long)t.put_back,
	       (unsigned long long)t.stale, (unsigned long long)t.turns,
	       (unsigned long long)rig_stat(t.rig, STAT_AGED_REGIONS),
	       (unsigned long long)rig_stat(t.rig, STAT_EVICTED_REGIONS));
	CU_ASSERT_EQUAL(t.impossible, 0);
	CU_ASSERT(t.results[HOTNESS_READY] > 0 && t.shown > 0 && t.moved > 0 && t.put_back > 0 && t.turns > 0);
	/* The gauges agree with what is there. */
	usage = rig_usage(t.rig);
	for (int pid = 0; pid < PIDS; pid++)
		for (uint64_t area = pid == 0 ? 0 : 1; area < AREAS; area++)
			for (uint64_t page = 0; page < PAGES; page++)
				records +=
					hotmap_peek(t.rig->hotness->map, frame_of(pid, area, page) >> PAGE_SHIFT) != 0;
	CU_ASSERT_EQUAL(usage.records, records);
	/* Those of processes that ended last are still there when the janitor didn't get round to them. */
	t.rig->now_ns = clock_now_ns(&clock_monotonic);
	owners_sweep(t.rig->owners, 256);
	rig_janitor(t.rig, 1000 * SEC);
	owners_reap(t.rig->owners);
	usage = rig_usage(t.rig);
	CU_ASSERT(usage.regions <= PIDS * AREAS);
	/* And all of it can be let go. */
	t.rig->now_ns = clock_now_ns(&clock_monotonic) + 100 * SEC;
	rig_janitor(t.rig, SEC);
	usage = rig_usage(t.rig);
	CU_ASSERT_EQUAL(usage.regions + usage.records + usage.chunks + usage.sections, 0);
	CU_ASSERT(usage.bytes < before + 20 * 4096);
	rig_free(t.rig);
}

static void *clean_once(void *arg)
{
	struct rig *rig = arg;

	rcu_thread_start();
	rig_janitor(rig, SEC);
	rcu_thread_stop();
	return NULL;
}

/*
 * A collector holds a region that the janitor takes away, and makes a record that names it: when the janitor has done,
 * there is neither.
 */
static void a_region_that_is_held(void)
{
	struct rig *rig = rig_new(NULL, false);
	struct hotmap_access access = { .rule = &rig->rule };
	const struct region *region;
	pthread_t thread;
	bool is_new;
	uint32_t slot;

	rig_access(rig, 100, RIG_ADDR, rig_phys(1, 0));
	rig->now_ns += 10 * SEC;
	rcu_enter();
	region = regions_find(rig->hotness->regions, 0, 0, RIG_ADDR, &slot);
	pthread_create(&thread, NULL, clean_once, rig);
	while (atomic_load_explicit(&region->state, memory_order_relaxed) == REGION_LIVE)
		sched_yield();
	/* It can't get past us. If it could, it would by now. */
	for (int i = 0; i < 2000; i++)
		sched_yield();
	CU_ASSERT_PTR_NULL(regions_find(rig->hotness->regions, 0, 0, RIG_ADDR, NULL));
	access.backref = REGION_BACKREF(slot, 0);
	access.now_ns = rig->now_ns;
	CU_ASSERT_EQUAL(hotmap_touch(rig->hotness->map, rig_phys(1, 7) >> PAGE_SHIFT, &access, &is_new),
			HOTMAP_RECORDED);
	rcu_leave();
	pthread_join(thread, NULL);
	CU_ASSERT_EQUAL(hotmap_peek(rig->hotness->map, rig_phys(1, 7) >> PAGE_SHIFT), 0);
	CU_ASSERT_EQUAL(rig_usage(rig).regions, 0);
	CU_ASSERT_EQUAL(rig_usage(rig).chunks, 0);
	rig_free(rig);
}

int main(int argc, char **argv)
{
	static const struct test_case cases[] = { TEST(a_region_that_is_held), TEST(everything_at_once) };

	if (argc > 1)
		run_seconds = atof(argv[1]);
	return test_run("hotness_threads", cases, 2);
}
