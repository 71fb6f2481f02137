/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Who has how much of the fast memory, who is held, and whose turn it is. Two fast nodes of 1 GiB. */
#include "harness.h"

#include "fair.h"
#include "hotness_regions.h"
#include "migrator_rig.h"

#define BIG    100U
#define SMALL  101U
#define NOBODY 999U
#define FULL   7000U /* free pages of a node: below the headroom */
#define MIB    (UINT64_C(1) << 20)
#define REGION REGION_BYTES

struct fair_rig {
	struct rig *rig;
	struct fair *fair;
};

static uint64_t key_of(void *ctx, const struct owner *owner)
{
	(void)ctx;
	return owner->pid == NOBODY ? 0 : fair_key(-1, owner->pid);
}

static void new (struct fair_rig *f)
{
	static const struct rig_options plain = { 0 };
	struct fair_params params = { .key_of = key_of };

	f->rig = rig_new(&plain);
	params.hotness = f->rig->hotness;
	params.owners = f->rig->owners;
	params.topology = f->rig->topology;
	params.root = f->rig->machine.root;
	params.clock = &f->rig->clock;
	f->fair = fair_new(&params);
}

static void done(struct fair_rig *f)
{
	fair_free(f->fair);
	rig_free(f->rig);
}

static void step(struct fair_rig *f)
{
	const struct fair_input input = { .headroom_percent = f->rig->config.promote_headroom_percent };

	f->rig->now_ns += FAIR_STEP_NS;
	rig_put_zoneinfo(f->rig);
	fair_step(f->fair, &input);
}

static void fill(struct fair_rig *f)
{
	f->rig->kernel.free_pages[0] = f->rig->kernel.free_pages[1] = FULL;
}

/* Regions @first..@first+@n-1 of @pid are touched on @nid. */
static void touch(struct fair_rig *f, uint32_t pid, uint64_t first, uint64_t n, int nid)
{
	const struct record_rule rule = { .layout = RECORD_PRECISE, .window_ms = 5000, .freq_threshold = 1 };
	const struct hotness_place place = { .nid = nid, .is_lower = nid >= 2, .target_nid = -1 };
	struct owner *owner;

	rig_put_stat(f->rig, pid, 10);
	rcu_enter();
	for (uint64_t i = first; i < first + n; i++) {
		const struct sample sample = {
			.time_ns = f->rig->now_ns,
			.addr = rig_addr(pid, i * REGION_PAGES),
			.phys = rig_phys(nid, i % 512 * REGION_PAGES),
			.pid = pid,
			.page_shift = PAGE_SHIFT,
		};

		if (owners_get(f->rig->owners, pid, f->rig->now_ns, &owner) == 0)
			hotness_access_page(f->rig->hotness, 0, &rule, &sample, owner->slot, &place);
	}
	rcu_leave();
}

static fair_party party(const struct fair_rig *f, uint32_t pid)
{
	struct owner *owner;
	fair_party found = 0;

	rcu_enter();
	if (owners_get(f->rig->owners, pid, f->rig->now_ns, &owner) == 0)
		found = fair_of(owner);
	rcu_leave();
	return found;
}

/* They are touched on a slow node, and are to go up. */
static void want(struct fair_rig *f, uint32_t pid, uint64_t first, uint64_t n)
{
	struct hotness_view view;
	struct owner *owner;

	touch(f, pid, first, n, 2);
	rcu_enter();
	for (uint64_t i = first; i < first + n; i++)
		if (owners_get(f->rig->owners, pid, f->rig->now_ns, &owner) < 0 ||
		    !hotness_find_view(f->rig->hotness, pid, owner->slot, rig_addr(pid, i * REGION_PAGES),
				       f->rig->now_ns, &view) ||
		    !hotness_decide(f->rig->hotness, view.slot, view.decision,
				    REGION_DECISION(REGION_DECISION_WHOLE, 0, 63, -1)))
			abort();
	rcu_leave();
}

static bool held(const struct fair_rig *f, uint32_t pid)
{
	return fair_has_share(f->fair, party(f, pid), REGION, f->rig->now_ns);
}

static uint64_t claim(const struct fair_rig *f)
{
	return fair_claim(f->fair, f->rig->now_ns);
}

static void what_fits_is_everybodys(void)
{
	struct fair_rig f;

	new (&f);
	touch(&f, BIG, 0, 300, 0);
	want(&f, SMALL, 0, 20);
	step(&f);
	fair_lacks_room(f.fair, f.rig->now_ns);
	CU_ASSERT(fair_fits(f.fair, party(&f, BIG)));
	CU_ASSERT(fair_fits(f.fair, party(&f, SMALL)));
	CU_ASSERT_FALSE(held(&f, BIG));
	CU_ASSERT_EQUAL(claim(&f), 0);
	done(&f);
}

static void who_has_too_much_gives_it_back(void)
{
	struct fair_view view[4];
	struct fair_rig f;

	new (&f);
	fill(&f);
	touch(&f, BIG, 0, 400, 0);
	f.rig->now_ns += 30 * NSEC_PER_SEC;
	touch(&f, BIG, 400, 400, 1);
	want(&f, SMALL, 0, 100);
	step(&f);
	/* Room isn't lacking: nobody is held. */
	CU_ASSERT_FALSE(held(&f, BIG));
	CU_ASSERT_EQUAL(claim(&f), 0);
	fair_lacks_room(f.fair, f.rig->now_ns);
	CU_ASSERT(held(&f, BIG));
	CU_ASSERT_FALSE(held(&f, SMALL));
	CU_ASSERT(fair_fits(f.fair, party(&f, SMALL)));
	CU_ASSERT_EQUAL(claim(&f), 100 * REGION);
	/* What it didn't use for longest. */
	CU_ASSERT(fair_gives(f.fair, party(&f, BIG), 30 * NSEC_PER_SEC));
	CU_ASSERT_FALSE(fair_gives(f.fair, party(&f, BIG), 2 * NSEC_PER_SEC));
	CU_ASSERT_FALSE(fair_gives(f.fair, party(&f, SMALL), UINT64_MAX));
	CU_ASSERT_EQUAL(fair_look(f.fair, view, 4), 2);
	CU_ASSERT_EQUAL(view[0].has_bytes + view[1].has_bytes, 800 * REGION);
	CU_ASSERT_EQUAL(view[0].wants_bytes + view[1].wants_bytes, 100 * REGION);
	/* Given, and taken. */
	fair_moved(f.fair, party(&f, BIG), -(int64_t)(100 * REGION));
	fair_moved(f.fair, party(&f, SMALL), (int64_t)(100 * REGION));
	CU_ASSERT_EQUAL(claim(&f), 0);
	CU_ASSERT_FALSE(fair_gives(f.fair, party(&f, BIG), UINT64_MAX));
	/* And when room has not been lacking for a while, all is as before. */
	f.rig->now_ns += FAIR_LACKS_NS;
	CU_ASSERT_FALSE(held(&f, BIG));
	done(&f);
}

/* Who keeps to an equal part loses nothing of it, however much others want. */
static void an_equal_part_is_safe(void)
{
	struct fair_rig f;

	new (&f);
	fill(&f);
	touch(&f, SMALL, 0, 450, 0);
	want(&f, BIG, 0, 2000);
	step(&f);
	fair_lacks_room(f.fair, f.rig->now_ns);
	CU_ASSERT_EQUAL(claim(&f), 0);
	CU_ASSERT_FALSE(fair_gives(f.fair, party(&f, SMALL), UINT64_MAX));
	CU_ASSERT(fair_fits(f.fair, party(&f, SMALL)));
	CU_ASSERT_FALSE(fair_fits(f.fair, party(&f, BIG)));
	done(&f);
}

/* A party alone may have it all. */
static void alone_nobody_is_held(void)
{
	struct fair_rig f;

	new (&f);
	fill(&f);
	touch(&f, BIG, 0, 900, 0);
	want(&f, BIG, 1000, 500);
	touch(&f, NOBODY, 0, 50, 2);
	step(&f);
	fair_lacks_room(f.fair, f.rig->now_ns);
	CU_ASSERT_FALSE(held(&f, BIG));
	CU_ASSERT_FALSE(fair_is_tight(f.fair, f.rig->now_ns));
	CU_ASSERT_FALSE(fair_fits(f.fair, party(&f, BIG)));
	CU_ASSERT_EQUAL(party(&f, NOBODY), 0);
	CU_ASSERT_FALSE(held(&f, NOBODY));
	CU_ASSERT_FALSE(fair_waits(f.fair, 0, f.rig->now_ns));
	done(&f);
}

/* What can't move is no reason to take from others. */
static void what_was_asked_for_in_vain_lacks_nothing(void)
{
	struct hotness_view view;
	struct owner *owner;
	struct fair_rig f;

	new (&f);
	fill(&f);
	touch(&f, BIG, 0, 900, 0);
	want(&f, SMALL, 0, 50);
	rcu_enter();
	for (uint64_t i = 0; i < 50; i++)
		if (owners_get(f.rig->owners, SMALL, f.rig->now_ns, &owner) < 0 ||
		    !hotness_find_view(f.rig->hotness, SMALL, owner->slot, rig_addr(SMALL, i * REGION_PAGES),
				       f.rig->now_ns, &view) ||
		    !hotness_decide(f.rig->hotness, view.slot, view.decision, view.decision + 2 * REGION_DECISION_TRY))
			abort();
	rcu_leave();
	step(&f);
	fair_lacks_room(f.fair, f.rig->now_ns);
	CU_ASSERT_FALSE(held(&f, BIG));
	CU_ASSERT_EQUAL(claim(&f), 0);
	done(&f);
}

static void turns_go_round(void)
{
	fair_party big, small;
	struct fair_rig f;
	uint64_t now_ns;

	new (&f);
	want(&f, BIG, 0, 400);
	want(&f, SMALL, 0, 10);
	step(&f);
	big = party(&f, BIG);
	small = party(&f, SMALL);
	now_ns = f.rig->now_ns;
	CU_ASSERT_FALSE(fair_waits(f.fair, big, now_ns));
	fair_had_turn(f.fair, big, 4 * FAIR_AHEAD);
	/* Who comes new has no turns saved up, and owes none. */
	CU_ASSERT_FALSE(fair_waits(f.fair, small, now_ns));
	CU_ASSERT_FALSE(fair_waits(f.fair, big, now_ns));
	fair_had_turn(f.fair, big, 2 * FAIR_AHEAD);
	CU_ASSERT(fair_waits(f.fair, big, now_ns));
	CU_ASSERT_FALSE(fair_waits(f.fair, small, now_ns));
	fair_had_turn(f.fair, small, 2 * FAIR_AHEAD);
	CU_ASSERT_FALSE(fair_waits(f.fair, big, now_ns));
	/* Nobody waits for one that has gone. */
	fair_had_turn(f.fair, big, 2 * FAIR_AHEAD);
	CU_ASSERT(fair_waits(f.fair, big, now_ns));
	fair_pass_turn(f.fair);
	CU_ASSERT_FALSE(fair_waits(f.fair, big, now_ns));
	CU_ASSERT_FALSE(fair_waits(f.fair, small, now_ns));
	fair_had_turn(f.fair, big, 4 * FAIR_AHEAD);
	CU_ASSERT(fair_waits(f.fair, big, now_ns));
	CU_ASSERT_FALSE(fair_waits(f.fair, big, now_ns + FAIR_TURN_NS));
	done(&f);
}

/* More than there are places: the rest is one party. */
static void many_parties(void)
{
	struct fair_view view[FAIR_PARTIES + 1];
	struct fair_rig f;

	new (&f);
	for (uint32_t pid = 200; pid < 200 + FAIR_PARTIES + 20; pid++)
		touch(&f, pid, 0, 1, 0);
	step(&f);
	CU_ASSERT_EQUAL(fair_look(f.fair, view, FAIR_PARTIES + 1), FAIR_PARTIES);
	/* Their owners gone, the places are free again. */
	for (uint32_t pid = 200; pid < 200 + FAIR_PARTIES + 20; pid++)
		machine_end_process(&f.rig->machine, pid);
	owners_sweep(f.rig->owners, 1000);
	f.rig->now_ns += 2 * HOTNESS_COLD_NS;
	hotness_janitor(f.rig->hotness, f.rig->now_ns, HOTNESS_COLD_NS, f.rig->params.stats);
	step(&f);
	touch(&f, SMALL, 0, 1, 0);
	step(&f);
	CU_ASSERT(fair_look(f.fair, view, FAIR_PARTIES + 1) <= 2);
	CU_ASSERT_NOT_EQUAL(party(&f, SMALL), 0);
	done(&f);
}

/* Far more regions than one step looks at, of which one has few: it has as much in each step. */
static void little_among_much_is_seen_in_each_step(void)
{
	struct fair_view view[2];
	struct fair_rig f;
	int known = 0;

	new (&f);
	fill(&f);
	touch(&f, SMALL, 0, 20, 0);
	touch(&f, BIG, 0, 60000, 2);
	want(&f, BIG, 0, 20);
	for (int i = 0; i < 12; i++) {
		step(&f);
		fair_lacks_room(f.fair, f.rig->now_ns);
		for (size_t k = 0, n = fair_look(f.fair, view, 2); k < n; k++) {
			if (fair_key_uid(view[k].key) != SMALL)
				continue;
			known++;
			CU_ASSERT_EQUAL(view[k].has_bytes, 20 * REGION);
			CU_ASSERT_FALSE(fair_gives(f.fair, party(&f, SMALL), UINT64_MAX));
		}
	}
	CU_ASSERT(known >= 10);
	done(&f);
}

TEST_MAIN(fair, TEST(what_fits_is_everybodys), TEST(who_has_too_much_gives_it_back), TEST(an_equal_part_is_safe),
	  TEST(alone_nobody_is_held), TEST(what_was_asked_for_in_vain_lacks_nothing), TEST(turns_go_round),
	  TEST(many_parties), TEST(little_among_much_is_seen_in_each_step))
