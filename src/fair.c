/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <assert.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "fair.h"
#include "hotness.h"
#include "hotness_regions.h"
#include "nodeset.h"
#include "owners.h"
#include "rcu.h"
#include "sample.h"
#include "topology.h"

#define VIEWS_MAX  16384
#define VIEWS_PART 12288 /* of all regions, on average: parts differ */
#define PARTS_STEP 4     /* looked at in a step: a few ms */
#define PLACE_BITS 8     /* of a fair_party: number of the place, from 1 */
#define NOT_KNOWN  UINT64_MAX
#define TRIES_MANY 2    /* asked for so often: it doesn't move, or comes back by itself */
#define IDLE_BINS  40   /* four to each octave, */
#define IDLE_MIN   0.25 /* from so many seconds on */

_Static_assert(FAIR_PARTIES < 1 << PLACE_BITS, "a place has its bits, and none is 0");

struct party {
	_Atomic uint64_t key; /* 0: a free place */
	_Atomic uint64_t has_bytes, wants_bytes, share_bytes;
	_Atomic bool fits;
	_Atomic int64_t moved_bytes;  /* up since that was found */
	_Atomic uint64_t idle_cut_ns; /* of what it gives back, how long it wasn't used at least */
	_Atomic uint64_t asked_ns, turns_bytes;
};

/* What a step finds of each. */
struct found {
	bool seen;
	double has, wants, share; /* wants: what is decided to go up, */
	double hot;               /* and what may be */
	double idle[IDLE_BINS];   /* of what it has, by time without a sample */
};

struct fair {
	struct fair_params params;
	struct party party[FAIR_PARTIES];
	_Atomic uint32_t end; /* one past the highest place that ever was taken */
	_Atomic uint64_t lacks_ns, all_bytes;
	_Atomic uint32_t needy; /* parties that have or want something */

	/* The stepping thread's own. */
	uint64_t step_ns, round_ns; /* when the last step, and the round over all regions, began */
	uint32_t part, parts;       /* where the round is; parts 0: none has begun */
	bool in_steps;              /* it takes more than one */
	struct topology_room rooms[NODE_MAX];
	struct found found[FAIR_PARTIES];
	struct hotness_view view[VIEWS_MAX];
};

struct fair *fair_new(const struct fair_params *params)
{
	struct fair *f = calloc(1, sizeof(*f));

	if (f)
		f->params = *params;
	return f;
}

void fair_free(struct fair *f)
{
	free(f);
}

static uint64_t get(const _Atomic uint64_t *word)
{
	return atomic_load_explicit(word, memory_order_relaxed);
}

static void set(_Atomic uint64_t *word, uint64_t value)
{
	atomic_store_explicit(word, value, memory_order_relaxed);
}

static uint32_t end_of(const struct fair *f)
{
	return atomic_load_explicit(&f->end, memory_order_relaxed);
}

fair_party fair_of(const struct owner *owner)
{
	return get(&owner->party);
}

/* NULL: not known. A place that was given to another party meanwhile is none either. */
static struct party *at(struct fair *f, fair_party party)
{
	uint64_t place = party & ((1U << PLACE_BITS) - 1);

	if (place == 0 || place > FAIR_PARTIES)
		return NULL;
	return get(&f->party[place - 1].key) == party >> PLACE_BITS ? &f->party[place - 1] : NULL;
}

static const struct party *look_at(const struct fair *f, fair_party party)
{
	uint64_t place = party & ((1U << PLACE_BITS) - 1);

	if (place == 0 || place > FAIR_PARTIES)
		return NULL;
	return get(&f->party[place - 1].key) == party >> PLACE_BITS ? &f->party[place - 1] : NULL;
}

static uint64_t has_now(const struct party *p)
{
	int64_t bytes = (int64_t)get(&p->has_bytes) + atomic_load_explicit(&p->moved_bytes, memory_order_relaxed);

	return bytes > 0 ? (uint64_t)bytes : 0;
}

/* What it lacks of its share, as far as it has a use for it. */
static uint64_t lacks(const struct party *p)
{
	uint64_t has = has_now(p), share = get(&p->share_bytes), wants = get(&p->wants_bytes);
	uint64_t left = share > has ? share - has : 0;

	return left < wants ? left : wants;
}

static bool fits(const struct party *p)
{
	return atomic_load_explicit(&p->fits, memory_order_relaxed);
}

/*
 * What all lack, and how much too much somebody else must have to give it back: where two want more than there is,
 * what they are thought to have goes up and down, and nothing is to go back and forth for that.
 */
static uint64_t all_lack(const struct fair *f, uint64_t *ret_over_min)
{
	uint64_t lacking = 0;

	*ret_over_min = get(&f->all_bytes) / FAIR_OVER_PART;
	for (uint32_t i = 0; i < end_of(f); i++) {
		uint64_t bytes = get(&f->party[i].key) ? lacks(&f->party[i]) : 0;

		if (bytes > 0 && fits(&f->party[i]))
			*ret_over_min = 0;
		lacking += bytes;
	}
	return lacking;
}

static uint64_t has_too_much(const struct party *p, uint64_t over_min)
{
	uint64_t has = has_now(p), share = get(&p->share_bytes);
	uint64_t over = has > share ? has - share : 0;

	return over > over_min ? over : 0;
}

static bool is_shared_out(const struct fair *f, uint64_t now_ns)
{
	uint64_t lacks_ns = get(&f->lacks_ns);

	return lacks_ns && (now_ns < lacks_ns || now_ns - lacks_ns < FAIR_LACKS_NS);
}

static bool has_its_share(const struct fair *f, const struct party *p, uint64_t bytes, uint64_t now_ns)
{
	if (!is_shared_out(f, now_ns) || has_now(p) + bytes <= get(&p->share_bytes))
		return false;
	for (uint32_t i = 0; i < end_of(f); i++)
		if (&f->party[i] != p && get(&f->party[i].key) && lacks(&f->party[i]) >= REGION_BYTES)
			return true;
	return false;
}

/* Is somebody else first? Who comes new, or after a pause, has no turns saved up. */
static bool waits_for_turn(struct fair *f, struct party *p, uint64_t now_ns)
{
	uint64_t least = UINT64_MAX, asked_ns = get(&p->asked_ns);
	bool is_new = asked_ns == 0 || (now_ns > asked_ns && now_ns - asked_ns >= FAIR_TURN_NS);

	set(&p->asked_ns, now_ns);
	for (uint32_t i = 0; i < end_of(f); i++) {
		const struct party *other = &f->party[i];
		uint64_t turns = get(&other->turns_bytes);

		asked_ns = get(&other->asked_ns);
		if (other == p || asked_ns == 0 || (now_ns > asked_ns && now_ns - asked_ns >= FAIR_TURN_NS))
			continue;
		least = turns < least ? turns : least;
	}
	if (least == UINT64_MAX)
		return false;
	if (is_new)
		set(&p->turns_bytes, least);
	return get(&p->turns_bytes) > least + FAIR_AHEAD;
}

bool fair_has_share(const struct fair *f, fair_party party, uint64_t bytes, uint64_t now_ns)
{
	const struct party *p = look_at(f, party);

	return p && has_its_share(f, p, bytes, now_ns);
}

bool fair_waits(struct fair *f, fair_party party, uint64_t now_ns)
{
	struct party *p = at(f, party);

	return p && waits_for_turn(f, p, now_ns);
}

void fair_had_turn(struct fair *f, fair_party party, uint64_t bytes)
{
	struct party *p = at(f, party);

	if (p)
		atomic_fetch_add_explicit(&p->turns_bytes, bytes, memory_order_relaxed);
}

void fair_pass_turn(struct fair *f)
{
	for (uint32_t i = 0; i < end_of(f); i++)
		set(&f->party[i].asked_ns, 0);
}

void fair_moved(struct fair *f, fair_party party, int64_t bytes)
{
	struct party *p = at(f, party);

	if (p)
		atomic_fetch_add_explicit(&p->moved_bytes, bytes, memory_order_relaxed);
}

void fair_lacks_room(struct fair *f, uint64_t now_ns)
{
	set(&f->lacks_ns, now_ns);
}

bool fair_is_tight(const struct fair *f, uint64_t now_ns)
{
	return atomic_load_explicit(&f->needy, memory_order_relaxed) > 1 && is_shared_out(f, now_ns);
}

uint64_t fair_claim(const struct fair *f, uint64_t now_ns)
{
	uint64_t over_min, over = 0, lacking = is_shared_out(f, now_ns) ? all_lack(f, &over_min) : 0;

	for (uint32_t i = 0; i < end_of(f) && lacking > 0; i++)
		over += get(&f->party[i].key) ? has_too_much(&f->party[i], over_min) : 0;
	return lacking < over ? lacking : over;
}

bool fair_gives(const struct fair *f, fair_party party, uint64_t idle_ns)
{
	const struct party *p = look_at(f, party);
	uint64_t over_min;

	return p && idle_ns >= get(&p->idle_cut_ns) && all_lack(f, &over_min) > 0 && has_too_much(p, over_min) > 0;
}

bool fair_fits(const struct fair *f, fair_party party)
{
	const struct party *p = look_at(f, party);

	return p && fits(p);
}

/* Its place: where it is already, or a free one, or the last. */
static size_t place_of(struct fair *f, uint64_t key)
{
	size_t none = FAIR_PARTIES;

	for (size_t i = 0; i < FAIR_PARTIES; i++) {
		uint64_t here = get(&f->party[i].key);

		if (here == key)
			return i;
		if (!here && none == FAIR_PARTIES)
			none = i;
	}
	if (none == FAIR_PARTIES)
		return FAIR_PARTIES - 1;
	/* Until a round is over nothing is known of it, and nothing holds it. */
	set(&f->party[none].asked_ns, 0);
	set(&f->party[none].has_bytes, 0);
	set(&f->party[none].wants_bytes, 0);
	set(&f->party[none].share_bytes, NOT_KNOWN);
	set(&f->party[none].idle_cut_ns, UINT64_MAX);
	atomic_store_explicit(&f->party[none].fits, true, memory_order_relaxed);
	atomic_store_explicit(&f->party[none].moved_bytes, 0, memory_order_relaxed);
	set(&f->party[none].key, key);
	if (none >= end_of(f))
		atomic_store_explicit(&f->end, (uint32_t)none + 1, memory_order_relaxed);
	return none;
}

static int idle_bin(uint64_t idle_ns)
{
	double sec = (double)idle_ns / 1e9;
	int bin = sec > IDLE_MIN ? (int)(4 * log2(sec / IDLE_MIN)) : 0;

	return bin < IDLE_BINS ? bin : IDLE_BINS - 1;
}

static uint64_t bin_ns(int bin)
{
	return bin > 0 ? (uint64_t)(IDLE_MIN * exp2(bin / 4.0) * 1e9) : 0;
}

/* How much of a region counts: what is moved page by page isn't all of it. */
static double size_of(const struct hotness_view *view)
{
	uint32_t kind = view->decision & REGION_DECISION_KIND;

	if (view->page_bytes == PAGE_SIZE_BYTES && (kind == REGION_DECISION_PAGES || kind == REGION_DECISION_PICKED))
		return (double)view->pages * PAGE_SIZE_BYTES;
	return REGION_BYTES;
}

static void add(struct fair *f, const struct hotness_view *view, uint64_t lower, double background_per_sec)
{
	const struct region_evidence *e = &view->evidence;
	struct owner *owner = owners_at(f->params.owners, hotness_view_owner(view));
	uint32_t tries = (view->decision & REGION_DECISION_TRIES) / REGION_DECISION_TRY;
	double bytes = size_of(view), near = 1;
	bool decided = view->decision & REGION_DECISION_KIND, done = view->decision & REGION_DECISION_DONE;
	struct found *found;
	uint64_t key;
	size_t place;

	key = owner ? f->params.key_of(f->params.ctx, owner) : 0;
	if (!key)
		return;
	place = place_of(f, key);
	atomic_store_explicit(&owner->party, get(&f->party[place].key) << PLACE_BITS | (place + 1),
			      memory_order_relaxed);
	f->found[place].seen = true;
	/* What was moved down and not touched since is FORGET. */
	found = &f->found[place];
	if (owner->party_ns != f->round_ns) {
		double cold = (double)atomic_load_explicit(&owner->cold_bytes, memory_order_relaxed);

		owner->party_ns = f->round_ns;
		found->has += cold;
		found->idle[IDLE_BINS - 1] += cold;
	}
	if (tries >= TRIES_MANY || (view->decision & REGION_DECISION_FORGET))
		return;
	if ((view->nodes & lower) && !done)
		near = view->nodes & ~lower ? 1 - view->evidence.far_part : 0;
	found->has += near * bytes;
	found->idle[idle_bin(view->idle_ns)] += near * bytes;
	if (decided)
		found->wants += (1 - near) * bytes;
	else if (e->later > 0 && e->later > background_per_sec * (double)e->watched_ns / 1e9)
		found->hot += (1 - near) * bytes;
}

/* Slow nodes as the mask that regions have of the nodes they were seen on. */
static uint64_t node_mask(const struct nodeset *nodes)
{
	uint64_t mask = 0;

	nodeset_for_each (nid, nodes)
		mask |= UINT64_C(1) << (nid < 63 ? nid : 63);
	return mask;
}

static void begin_round(struct fair *f, uint64_t now_ns)
{
	struct hotness_usage usage;

	hotness_usage(f->params.hotness, &usage);
	memset(f->found, 0, sizeof(f->found));
	f->round_ns = now_ns;
	f->part = 0;
	f->parts = (uint32_t)(usage.regions / VIEWS_PART) + 1;
	f->in_steps = f->parts > PARTS_STEP;
}

/*
 * Some of the regions. true: the round is over. Of a part alone nothing is concluded: who has little has it in few
 * parts, and would have far too much in one second and nothing in the next.
 */
static bool look_at_regions(struct fair *f, const struct fair_input *input, uint64_t lower, uint64_t now_ns)
{
	if (f->parts == 0)
		begin_round(f, now_ns);
	for (uint32_t k = 0; k < PARTS_STEP && f->part < f->parts; k++) {
		size_t n;

		rcu_enter();
		n = hotness_views(f->params.hotness, f->part++, f->parts, now_ns, f->view, VIEWS_MAX);
		for (size_t i = 0; i < n; i++)
			add(f, &f->view[i], lower, input->background_per_sec);
		rcu_leave();
	}
	if (f->part < f->parts)
		return false;
	f->parts = 0;
	return true;
}

/* Free memory of the fast nodes that promotion may fill. */
static double room_of(struct fair *f, const struct topology *topology, double headroom_percent, double *ret_tier)
{
	double bytes = 0;

	*ret_tier = 0;

	if (topology_read_rooms(&f->params.root, &topology->top, f->rooms) < 0)
		return 0;
	nodeset_for_each (nid, &topology->top) {
		const struct topology_room *room = &f->rooms[nid];
		double keep = (double)room->present_bytes * headroom_percent / 100;

		keep = fmax(keep, (double)room->promo_bytes);
		bytes += fmax(0, (double)room->free_bytes - keep);
		*ret_tier += fmax(0, (double)room->present_bytes - keep);
	}
	return bytes;
}

static double need_of(const struct found *found)
{
	return found->has + found->wants + found->hot;
}

/* Equal parts of @all; what one has no use for goes to the others. */
static void share_out(struct found *found, size_t n, double needy, double all, double tier)
{
	double level;

	level = needy > 0 ? all / needy : all;
	/* It only rises, and each round but the last finds one more whose need is met. */
	for (size_t round = 0; round < n; round++) {
		double left = all, sharers = 0;

		for (size_t i = 0; i < n; i++) {
			double need = need_of(&found[i]);

			if (need > 0 && need <= level)
				left -= need;
			else if (need > 0)
				sharers++;
		}
		if (sharers == 0)
			level = all;
		if (sharers == 0 || left / sharers <= level + PAGE_SIZE_BYTES)
			break;
		level = left / sharers;
	}
	/*
	 * Who needs less may have as much as the others all the same: a need may grow. What is known of isn't all of
	 * the memory, so an equal part of that is never too much.
	 */
	if (needy > 0 && level < tier / needy)
		level = tier / needy;
	for (size_t i = 0; i < n; i++)
		found[i].share = level;
}

/* Of what it has, the part that wasn't used for longest and is as much as it has too much. */
static uint64_t find_cut(const struct found *found)
{
	double over = found->has - found->share;
	int bin = IDLE_BINS - 1;

	for (; bin > 0; bin--) {
		over -= found->idle[bin];
		if (over <= 0)
			break;
	}
	return bin_ns(bin);
}

void fair_step(struct fair *f, const struct fair_input *input)
{
	uint64_t now_ns = clock_now_ns(f->params.clock);
	struct topology *topology;
	double all, tier, needy = 0;
	bool over;

	if (f->step_ns && now_ns - f->step_ns < FAIR_STEP_NS)
		return;
	f->step_ns = now_ns;
	topology = topology_store_get(f->params.topology);
	over = look_at_regions(f, input, node_mask(&topology->lower), now_ns);
	all = over ? room_of(f, topology, input->headroom_percent, &tier) : 0;
	topology_unref(topology);
	if (!over)
		return;
	for (size_t i = 0; i < end_of(f); i++) {
		all += f->found[i].has;
		needy += need_of(&f->found[i]) > 0;
	}
	share_out(f->found, end_of(f), needy, all, tier);
	atomic_store_explicit(&f->needy, (uint32_t)needy, memory_order_relaxed);
	set(&f->all_bytes, (uint64_t)all);
	for (size_t i = 0; i < end_of(f); i++) {
		struct party *p = &f->party[i];
		const struct found *found = &f->found[i];
		int64_t moved = atomic_load_explicit(&p->moved_bytes, memory_order_relaxed);

		set(&p->has_bytes, (uint64_t)found->has);
		set(&p->wants_bytes, (uint64_t)found->wants);
		set(&p->share_bytes, (uint64_t)found->share);
		atomic_store_explicit(&p->fits, need_of(found) <= found->share, memory_order_relaxed);
		set(&p->idle_cut_ns, find_cut(found));
		/* About half of what moved while a long round went on was seen where it had been before. */
		atomic_store_explicit(&p->moved_bytes, f->in_steps ? moved / 2 : 0, memory_order_relaxed);
		if (!found->seen && i + 1 < FAIR_PARTIES)
			set(&p->key, 0);
	}
}

size_t fair_look(const struct fair *f, struct fair_view *ret, size_t max)
{
	uint64_t now_ns = clock_now_ns(f->params.clock);
	size_t n = 0;

	for (uint32_t i = 0; i < end_of(f) && n < max; i++) {
		const struct party *p = &f->party[i];

		if (!get(&p->key) || get(&p->share_bytes) == NOT_KNOWN)
			continue;
		ret[n] = (struct fair_view){
			.key = get(&p->key),
			.has_bytes = has_now(p),
			.wants_bytes = get(&p->wants_bytes),
			.share_bytes = get(&p->share_bytes),
		};
		ret[n].held = ret[n].wants_bytes > 0 && has_its_share(f, p, REGION_BYTES, now_ns);
		n++;
	}
	return n;
}
