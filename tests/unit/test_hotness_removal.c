/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Ten thousand times a region is removed in the midst of an update: a collector has found it, the janitor takes it out
 * of the hash, and then the collector updates a record that names it and makes another that does. When the janitor is
 * done there is neither, and the slot is a region's of another process at the next turn. The two threads wait for each
 * other, so that each turn is the same, on any machine.
 */
#include <pthread.h>
#include <sched.h>

#include "harness.h"
#include "hotness_internal.h"
#include "hotness_rig.h"

#define PIDS     3
#define REMOVALS 10000

static struct {
	struct rig *rig;
	_Atomic uint64_t asked, done; /* turns of the janitor; asked: by the collector, release; done: by the janitor */
	uint64_t end;
} t;

static void *clean(void *arg)
{
	(void)arg;
	rcu_thread_start();
	for (uint64_t turn = 1; turn <= t.end; turn++) {
		while (atomic_load_explicit(&t.asked, memory_order_acquire) < turn)
			sched_yield();
		/* Everything is cold at once. */
		hotness_janitor(t.rig->hotness, t.rig->now_ns, 0, t.rig->slot);
		atomic_store_explicit(&t.done, turn, memory_order_release);
	}
	rcu_thread_stop();
	return NULL;
}

/* One turn; how many things were not as they should be. */
static unsigned int remove_one(uint64_t turn)
{
	struct hotness *hotness = t.rig->hotness;
	uint32_t pid = 100 + (uint32_t)(turn % PIDS), owner_slot = rig_owner(t.rig, pid), slot = 0;
	uint64_t known = rig_phys(1, turn % 7), other = rig_phys(1, 100 + turn % 11);
	struct hotmap_access access = { .rule = &t.rig->rule, .now_ns = t.rig->now_ns };
	const struct region *region;
	struct hotness_candidate c;
	unsigned int wrong = 0;
	bool is_new;

	wrong += rig_access(t.rig, pid, RIG_ADDR, known) != HOTNESS_RECORDED;
	wrong += !rig_record(t.rig, known, &c) || c.pid != pid || c.addr != RIG_ADDR;
	rcu_enter();
	region = regions_find(hotness->regions, 0, owner_slot, RIG_ADDR, &slot);
	if (!region) {
		rcu_leave();
		return wrong + 1;
	}
	atomic_store_explicit(&t.asked, turn, memory_order_release);
	while (atomic_load_explicit(&region->state, memory_order_relaxed) == REGION_LIVE)
		sched_yield();
	/* We hold it, so it is still this one, however far the janitor has come. */
	access.backref = REGION_BACKREF(slot, 0);
	wrong += hotmap_touch(hotness->map, known >> PAGE_SHIFT, &access, &is_new) == HOTMAP_NO_MEMORY;
	access.backref = REGION_BACKREF(slot, 1);
	wrong += hotmap_touch(hotness->map, other >> PAGE_SHIFT, &access, &is_new) == HOTMAP_NO_MEMORY || !is_new;
	wrong += atomic_load_explicit(&t.done, memory_order_relaxed) >= turn;
	wrong += region_owner_slot(atomic_load_explicit(&region->key, memory_order_relaxed)) != owner_slot;
	rcu_leave();
	while (atomic_load_explicit(&t.done, memory_order_acquire) < turn)
		sched_yield();
	rcu_enter();
	wrong += hotmap_peek(hotness->map, known >> PAGE_SHIFT) != 0;
	wrong += hotmap_peek(hotness->map, other >> PAGE_SHIFT) != 0;
	wrong += regions_find(hotness->regions, 0, owner_slot, RIG_ADDR, NULL) != NULL;
	wrong += atomic_load_explicit(&owners_at(t.rig->owners, owner_slot)->regions, memory_order_relaxed) != 0;
	rcu_leave();
	return wrong;
}

static void removed_while_updated(void)
{
	for (int layout = RECORD_PRECISE; layout <= RECORD_COMPACT; layout++) {
		struct hotness_options options = rig_options;
		unsigned int wrong = 0;
		pthread_t thread;
		uint64_t before;

		options.layout = layout;
		t.rig = rig_new(&options, false);
		t.end = test_under_valgrind() ? REMOVALS / 20 : REMOVALS / 2;
		before = rig_usage(t.rig).bytes;
		atomic_store(&t.asked, 0);
		atomic_store(&t.done, 0);
		pthread_create(&thread, NULL, clean, NULL);
		for (uint64_t turn = 1; turn <= t.end; turn++) {
			wrong += remove_one(turn);
			if (wrong) {
				printf("  turn %llu: %u wrong\n", (unsigned long long)turn, wrong);
				/* Let the janitor end. */
				atomic_store_explicit(&t.asked, t.end, memory_order_release);
				break;
			}
		}
		pthread_join(thread, NULL);
		CU_ASSERT_EQUAL(wrong, 0);
		CU_ASSERT_EQUAL(rig_stat(t.rig, STAT_AGED_REGIONS), t.end);
		CU_ASSERT_EQUAL(rig_usage(t.rig).regions, 0);
		CU_ASSERT_EQUAL(rig_usage(t.rig).records, 0);
		CU_ASSERT_EQUAL(rig_usage(t.rig).chunks, 0);
		CU_ASSERT(rig_usage(t.rig).bytes <= before + 8 * TABLEMEM_PAGE_BYTES);
		rig_free(t.rig);
	}
}

TEST_MAIN(hotness_removal, TEST(removed_while_updated))
