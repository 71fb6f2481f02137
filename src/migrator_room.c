/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Room on a fast node that is full: cold memory goes down, one for one with what comes up, or the kernel's kswapd does
 * it. */
#include <errno.h>
#include <stdlib.h>

#include "clock.h"
#include "config.h"
#include "evidence.h"
#include "fair.h"
#include "guard.h"
#include "hotness_regions.h"
#include "manage.h"
#include "migrator_internal.h"
#include "owners.h"
#include "rcu.h"
#include "sample.h"
#include "stats.h"
#include "victims.h"

#define REGIONS_AT_ONCE 8
#define TIGHT_PART      8 /* victims are watched from when less than this part of a fast node is free */
#define KSWAPD_PART     4 /* of the rate may go below the headroom, where kswapd makes the room */

_Static_assert(REGIONS_AT_ONCE *REGION_BYTES == MIGRATOR_CHUNK_BYTES, "a chunk is taken in one go");

/* What is moved down in one go: regions of one process. */
struct migrator_room {
	struct victim victim[REGIONS_AT_ONCE];
	size_t n;
	bool skip[REGIONS_AT_ONCE];
	bool shared;
	size_t pages[REGIONS_AT_ONCE]; /* on the fast node still, as addr */
	uint64_t addr[REGIONS_AT_ONCE][REGION_PAGES];
	uint64_t moved_bytes[REGIONS_AT_ONCE];
	int nid[REGION_PAGES];
	struct mover_page page[MOVER_BATCH_MAX];
	uint8_t owner[MOVER_BATCH_MAX]; /* which victim a page is of */
};

struct migrator_room *migrator_room_new(void)
{
	return calloc(1, sizeof(struct migrator_room));
}

void migrator_room_free(struct migrator_room *room)
{
	free(room);
}

enum migrator_way migrator_way(const struct config *config, const struct topology *topology)
{
	switch (config->make_room) {
	case ROOM_KERNEL:
		return topology->demotion_enabled ? WAY_KERNEL : WAY_NONE;
	case ROOM_EXCHANGE:
		return WAY_EXCHANGE;
	case ROOM_AUTO:
		return topology->demotion_enabled ? WAY_KERNEL : WAY_EXCHANGE;
	default:
		return WAY_NONE;
	}
}

/* A guard says that no room is to be made. */
static bool held(const struct migrator_pass_state *p)
{
	return p->guard != GUARD_NONE && p->config->guard_action == GUARD_ACTION_PAUSE;
}

/*
 * Who has more than its share gives back what others lack of theirs: whatever a guard says of pushing memory out, and
 * by exchange even where kswapd makes room, which doesn't know whose memory it takes.
 */
static bool has_claim(const struct migrator_pass_state *p)
{
	return p->m->params.fair && fair_claim(p->m->params.fair, clock_now_ns(p->m->params.clock)) > 0;
}

static bool is_tight(const struct migrator_pass_state *p)
{
	return p->m->params.fair && fair_is_tight(p->m->params.fair, p->start_ns);
}

static void start_bucket(struct tokens *t, uint64_t rate, uint64_t burst, uint64_t now_ns)
{
	if (t->burst_bytes == 0)
		tokens_init(t, rate, burst, now_ns);
	else if (t->rate_bytes_per_sec != rate || t->burst_bytes != burst)
		tokens_set(t, rate, burst, now_ns);
}

/*
 * What kswapd takes is the coldest as far as it knows, and where nothing is cold it is as hot as what comes up. So it
 * is woken for what is known to be cold only; where that can't be told, it is for the guards to see what comes of it.
 */
static uint64_t worth_demoting(const struct migrator_pass_state *p, int nid)
{
	struct victims_view view;

	victims_look(p->m->params.victims, &view);
	if (view.state == VICTIMS_BLIND)
		return UINT64_MAX;
	return victims_cold_bytes(p->m->params.victims, nid);
}

/*
 * Pages that were freed lie in lists of each CPU at first, of some tens of MiB, and a node doesn't count them as free
 * until the lists are trimmed (free_unref_page(), mm/page_alloc.c), which may be never: a list grows with what is
 * freed. What was made and is there, or room would be made for the same pages twice; and so much of the headroom as
 * well.
 */
static uint64_t hidden_bytes(struct migrator_target *t, const struct topology_room *room)
{
	uint64_t more;

	if (t->made_bytes == 0)
		t->listed_bytes = room->listed_bytes;
	more = room->listed_bytes > t->listed_bytes ? room->listed_bytes - t->listed_bytes : 0;
	if (t->made_bytes > more)
		t->made_bytes = more;
	return t->made_bytes;
}

static void find_room(struct migrator_target *t, const struct topology_room *room, uint64_t keep)
{
	uint64_t hidden = hidden_bytes(t, room), lacks = room->free_bytes < keep ? keep - room->free_bytes : 0;

	t->lacks_bytes = lacks > hidden ? lacks - hidden : 0;
	t->room_bytes += hidden > lacks ? hidden - lacks : 0;
}

void migrator_room_start_target(struct migrator_pass_state *p, int nid, uint64_t keep, uint64_t share)
{
	const struct topology_room *room = &p->m->rooms[nid];
	struct migrator_target *t = &p->m->targets[nid];
	uint64_t rate = t->now.rate_bytes_per_sec, burst = rate / 1000 * (uint64_t)p->config->promote_burst_ms, below,
		 may;

	burst = burst > PAGE_SIZE_BYTES ? burst : PAGE_SIZE_BYTES;
	find_room(t, room, keep);
	t->above_bytes = t->start_bytes = t->room_bytes;
	if (p->way == WAY_NONE || !p->m->params.victims || p->observing)
		return;
	start_bucket(&t->down, rate, burst, p->start_ns);
	if (room->free_bytes < keep + room->present_bytes / TIGHT_PART && (!held(p) || is_tight(p)))
		victims_want(p->m->params.victims, p->start_ns);
	if (held(p))
		return;
	if (p->guard != GUARD_NONE)
		rate /= GUARD_SLOW_PART;
	if (p->way == WAY_EXCHANGE) {
		start_bucket(&t->down, rate, burst, p->start_ns);
		return;
	}
	start_bucket(&t->below, rate / KSWAPD_PART, burst / KSWAPD_PART + PAGE_SIZE_BYTES, p->start_ns);
	may = tokens_available(&t->below, p->start_ns);
	below = room->free_bytes > room->low_bytes ? (room->free_bytes - room->low_bytes) / share : 0;
	below = below > t->room_bytes ? below - t->room_bytes : 0;
	below = below < may ? below : may;
	may = worth_demoting(p, nid) / share;
	t->room_bytes += below < may ? below : may;
	t->start_bytes = t->room_bytes;
}

void migrator_room_end(struct migrator_pass_state *p)
{
	for (int i = 0; i < p->node->n_targets; i++) {
		struct migrator_target *t = &p->m->targets[p->node->targets[i]];
		uint64_t used = t->start_bytes > t->room_bytes ? t->start_bytes - t->room_bytes : 0;

		t->made_bytes -= used < t->made_bytes ? used : t->made_bytes;
		if (p->way != WAY_KERNEL || used <= t->above_bytes || t->below.burst_bytes == 0)
			continue;
		tokens_take(&t->below, used - t->above_bytes, p->start_ns);
		victims_spend(p->m->params.victims, p->node->targets[i], used - t->above_bytes);
	}
}

uint64_t migrator_room_to_come(const struct migrator_pass_state *p)
{
	uint64_t bytes = 0;

	if (p->way == WAY_NONE || !p->m->params.victims || p->observing || held(p))
		return 0;
	for (int i = 0; i < p->node->n_targets; i++) {
		int nid = p->node->targets[i];
		uint64_t cold = victims_cold_bytes(p->m->params.victims, nid), lacks = p->m->targets[nid].lacks_bytes;

		bytes += cold > lacks ? cold - lacks : 0;
	}
	return bytes;
}

/* Those of its pages that may move: what is mapped side by side may be of several kinds. Returns how many. */
static size_t keep_those_managed(struct migrator_pass_state *p, struct migrator_room *room, size_t i, uint64_t now_ns)
{
	const struct victim *victim = &room->victim[i];
	uint64_t first = victim->addr + victim->first_page * PAGE_SIZE_BYTES;
	struct manage_answer answer;
	struct owner *owner;
	size_t n = 0;

	rcu_enter();
	owner = owners_at(p->m->params.owners, victim->owner_slot);
	if (owner && owner->pid == victim->pid && owner->start_ticks == victim->start_ticks &&
	    !migrator_manage_in_peace(p, owner, now_ns)) {
		for (size_t k = 0; k < victim->n_pages; k++) {
			manage_ask(p->m->params.manage, owner, first + k * PAGE_SIZE_BYTES, now_ns, &answer);
			if (answer.verdict != MANAGE_MOVE)
				continue;
			room->addr[i][n++] = first + k * PAGE_SIZE_BYTES;
			room->shared = answer.shared; /* the same for all of a process */
		}
	}
	rcu_leave();
	return n;
}

/* Which of them are cold still and may move, and where their pages are. */
static void look_at_victims(struct migrator_pass_state *p, struct migrator_room *room, int from_nid)
{
	uint64_t now_ns = clock_now_ns(p->m->params.clock);

	room->shared = false;
	for (size_t i = 0; i < room->n; i++) {
		const struct victim *victim = &room->victim[i];
		size_t may, here = 0;

		room->pages[i] = 0;
		room->moved_bytes[i] = 0;
		may = keep_those_managed(p, room, i, now_ns);
		room->skip[i] =
			may == 0 || !(victims_is_cold(p->m->params.victims, p->config, victim, now_ns) ||
				      (victim->claimed && victims_is_given(p->m->params.victims, victim, now_ns)));
		if (room->skip[i])
			continue;
		if (mover_place(&p->mover, victim->pid, room->addr[i], may, room->nid) < 0)
			may = 0;
		for (size_t k = 0; k < may; k++)
			if (room->nid[k] == from_nid)
				room->addr[i][here++] = room->addr[i][k];
		room->pages[i] = here;
		room->skip[i] = here == 0;
	}
}

static void move(struct migrator_pass_state *p, struct migrator_room *room, size_t n)
{
	struct mover mover = p->mover;
	struct mover_summary sum;

	if (n == 0)
		return;
	/* What lies on another fast node meanwhile goes down as well: it is the same region. */
	mover.fast = NULL;
	mover.shared = room->shared;
	atomic_store_explicit(&p->m->in_call_since_ns, clock_now_ns(p->m->params.clock), memory_order_relaxed);
	if (mover_move(&mover, room->victim[0].pid, p->m->params.nid, room->page, n, &sum) != -EINTR)
		for (size_t k = 0; k < n; k++)
			if (room->page[k].result == MOVER_OK)
				room->moved_bytes[room->owner[k]] += PAGE_SIZE_BYTES;
	atomic_store_explicit(&p->m->in_call_since_ns, 0, memory_order_relaxed);
}

static void add_page(struct migrator_room *room, size_t n, size_t i, size_t k, int from_nid)
{
	room->page[n] = (struct mover_page){ .addr = room->addr[i][k], .bytes = PAGE_SIZE_BYTES, .from_nid = from_nid };
	room->owner[n] = (uint8_t)i;
}

/*
 * Regions that are on the node as a whole may be huge pages, of which only one address may be moved in a call. So their
 * first pages go first, and what came along with them needs no call any more.
 */
static void move_heads(struct migrator_pass_state *p, struct migrator_room *room, int from_nid)
{
	size_t n = 0;

	for (size_t i = 0; i < room->n; i++)
		if (!room->skip[i] && room->pages[i] == REGION_PAGES)
			add_page(room, n++, i, 0, from_nid);
	move(p, room, n);
	for (size_t i = 0; i < room->n; i++) {
		size_t left = 0, along = 0;

		if (room->skip[i] || room->pages[i] != REGION_PAGES || room->moved_bytes[i] == 0)
			continue;
		if (mover_place(&p->mover, room->victim[i].pid, room->addr[i], REGION_PAGES, room->nid) < 0) {
			room->skip[i] = true;
			continue;
		}
		for (size_t k = 1; k < REGION_PAGES; k++) {
			along += room->nid[k] == p->m->params.nid;
			if (room->nid[k] == from_nid)
				room->addr[i][left++] = room->addr[i][k];
		}
		room->pages[i] = left;
		if (along > 0) {
			struct mover_page rest = { .addr = room->addr[i][0],
						   .bytes = along * PAGE_SIZE_BYTES,
						   .from_nid = from_nid };

			mover_account(&p->mover, p->m->params.nid, &rest, 1, MOVER_OK);
			room->moved_bytes[i] += rest.bytes;
		}
	}
}

static void move_pages_of(struct migrator_pass_state *p, struct migrator_room *room, int from_nid)
{
	size_t most = mover_batch_size(&p->m->batch, (uint64_t)p->config->promote_stall_ms * NSEC_PER_MSEC,
				       (size_t)p->config->promote_batch_pages);
	size_t n = 0;

	most = most < MOVER_BATCH_MAX ? most : MOVER_BATCH_MAX;
	for (size_t i = 0; i < room->n; i++) {
		/* Its first page would not move: nor will the others. */
		bool tried = room->pages[i] == REGION_PAGES && room->moved_bytes[i] == 0;

		for (size_t k = 0; !room->skip[i] && !tried && k < room->pages[i]; k++) {
			add_page(room, n++, i, k, from_nid);
			if (n == most) {
				move(p, room, n);
				n = 0;
			}
		}
	}
	move(p, room, n);
}

/* Its decision was about another place: whatever comes from it now is judged anew. */
static void forget_decision(struct migrator_pass_state *p, const struct victim *victim)
{
	struct hotness_view view;

	rcu_enter();
	if (hotness_find_view(p->m->params.hotness, victim->pid, victim->owner_slot, victim->addr,
			      clock_now_ns(p->m->params.clock), &view))
		(void)hotness_decide(p->m->params.hotness, view.slot, view.decision, REGION_DECISION_FORGET);
	rcu_leave();
}

/* So much of its party went down. */
static void account_party(struct migrator_pass_state *p, const struct victim *victim, uint64_t bytes)
{
	struct owner *owner;
	uint64_t cold;

	if (!p->m->params.fair)
		return;
	rcu_enter();
	owner = owners_at(p->m->params.owners, victim->owner_slot);
	if (owner)
		fair_moved(p->m->params.fair, fair_of(owner), -(int64_t)bytes);
	if (owner && victim->unseen) {
		cold = atomic_load_explicit(&owner->cold_bytes, memory_order_relaxed);
		/* A gauge: another migrator's at the same time may get lost until the next round. */
		atomic_store_explicit(&owner->cold_bytes, cold > bytes ? cold - bytes : 0, memory_order_relaxed);
	}
	rcu_leave();
	if (victim->claimed)
		stats_add(p->m->params.stats, STAT_SHARE_TAKEN_BYTES, bytes);
}

/* Move the regions in @room from @from_nid to this node. Returns bytes. */
static uint64_t move_down(struct migrator_pass_state *p, struct migrator_room *room, int from_nid)
{
	const struct victim *first = &room->victim[0];
	uint64_t now_ns, bytes = 0;

	if (!owners_check(p->m->params.owners, first->owner_slot, first->pid, first->start_ticks))
		return 0;
	look_at_victims(p, room, from_nid);
	move_heads(p, room, from_nid);
	move_pages_of(p, room, from_nid);
	now_ns = clock_now_ns(p->m->params.clock);
	for (size_t i = 0; i < room->n; i++) {
		if (room->skip[i] && room->moved_bytes[i] == 0)
			continue;
		if (room->moved_bytes[i] == 0) {
			victims_refused(p->m->params.victims, &room->victim[i], now_ns);
			continue;
		}
		bytes += room->moved_bytes[i];
		account_party(p, &room->victim[i], room->moved_bytes[i]);
		forget_decision(p, &room->victim[i]);
	}
	if (bytes > 0 && p->m->params.guard)
		guard_note_down(p->m->params.guard, first->owner_slot, first->start_ticks, bytes);
	stats_add(p->m->params.stats, STAT_DEMOTED_PAGES, bytes / PAGE_SIZE_BYTES);
	stats_add(p->m->params.stats, STAT_DEMOTED_BYTES, bytes);
	return bytes;
}

/* What still fits on this node, above the watermark to which kswapd works. */
static uint64_t room_below(const struct migrator_pass_state *p)
{
	const struct topology_room *room = &p->m->rooms[p->m->params.nid];

	return room->free_bytes > room->high_bytes ? room->free_bytes - room->high_bytes : 0;
}

/* How many regions make what is lacked and wanted: at least one. */
static size_t regions_for(uint64_t bytes)
{
	uint64_t n = (bytes + REGION_BYTES - 1) / REGION_BYTES;

	return n < REGIONS_AT_ONCE ? (size_t)n : REGIONS_AT_ONCE;
}

/* @cold: what is cold may go; what is claimed may in any case. */
static bool make_on(struct migrator_pass_state *p, int nid, bool cold)
{
	struct migrator_target *t = &p->m->targets[nid];
	struct topology_room *below = &p->m->rooms[p->m->params.nid];
	struct migrator_room *room = p->m->room;
	uint64_t want = p->m->wants_bytes < MIGRATOR_CHUNK_BYTES ? p->m->wants_bytes : MIGRATOR_CHUNK_BYTES;
	bool made = false;

	while (t->room_bytes < want && !migrator_time_is_up(p)) {
		size_t most = regions_for(t->lacks_bytes + want - t->room_bytes);
		uint64_t bytes, filled;

		if (room_below(p) < MIGRATOR_CHUNK_BYTES) {
			p->lower_full = true;
			break;
		}
		if (tokens_available(&t->down, clock_now_ns(p->m->params.clock)) == 0) {
			p->no_tokens = true;
			break;
		}
		room->n = cold ? victims_take(p->m->params.victims, nid, false, room->victim, most) : 0;
		if (room->n == 0 && has_claim(p))
			room->n = victims_take(p->m->params.victims, nid, true, room->victim, most);
		if (room->n == 0) {
			p->no_cold = true;
			break;
		}
		bytes = move_down(p, room, nid);
		if (bytes == 0)
			continue;
		tokens_take(&t->down, bytes, clock_now_ns(p->m->params.clock));
		below->free_bytes -= bytes < below->free_bytes ? bytes : below->free_bytes;
		t->now.free_bytes += bytes;
		t->made_bytes += bytes;
		filled = bytes < t->lacks_bytes ? bytes : t->lacks_bytes;
		t->lacks_bytes -= filled;
		t->room_bytes += bytes - filled;
		t->start_bytes += bytes - filled;
		if (bytes > filled)
			t->closed = false;
		made = true;
	}
	return made;
}

bool migrator_room_asks(const struct migrator_pass_state *p)
{
	if (p->way == WAY_NONE || !p->m->params.victims || p->observing || p->wants_bytes >= MIGRATOR_CHUNK_BYTES)
		return false;
	return (p->way == WAY_EXCHANGE && !held(p)) || has_claim(p);
}

bool migrator_room_make(struct migrator_pass_state *p)
{
	int wanted = migrator_wanted_nid(p, -1, -1);
	bool cold = p->way == WAY_EXCHANGE && !held(p);

	if (!p->m->lacks_room || p->way == WAY_NONE || !p->m->params.victims || p->observing || wanted < 0)
		return false;
	if (!cold && !has_claim(p))
		return false;
	p->no_cold = p->lower_full = false;
	if (make_on(p, wanted, cold))
		return true;
	/* The nearest has nothing to give. */
	for (int i = 0; i < p->node->n_targets && p->config->target_nid < 0; i++)
		if (p->node->targets[i] != wanted && make_on(p, p->node->targets[i], cold))
			return true;
	return false;
}
