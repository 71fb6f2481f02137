/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sample.h"
#include "sim_place.h"
#include "sim_place_rate.h"

#define PAGES_PER_MIB 256.0
#define ADDR_BASE     UINT64_C(0x100000000000) /* of page 0: far from 0 and below the end of a program's space */

static bool bit(const uint64_t *bits, uint64_t i)
{
	return bits[i / 64] >> (i % 64) & 1;
}

static void set_bit(uint64_t *bits, uint64_t i)
{
	bits[i / 64] |= UINT64_C(1) << (i % 64);
}

static uint64_t region_of(uint64_t page)
{
	return page / REGION_PAGES;
}

uint64_t sim_place_addr(uint64_t page)
{
	return ADDR_BASE + page * PAGE_SIZE_BYTES;
}

uint64_t sim_place_page(uint64_t addr)
{
	return addr < ADDR_BASE ? UINT64_MAX : (addr - ADDR_BASE) / PAGE_SIZE_BYTES;
}

uint64_t sim_place_block_pages(const struct sim_place *place)
{
	uint64_t block = SIM_BLOCK_BYTES / PAGE_SIZE_BYTES, most = place->pages;

	for (size_t i = 0; i < place->n_nodes; i++)
		if (place->node_pages[i] > most)
			most = place->node_pages[i];
	return (most + block - 1) / block * block;
}

/* Node n begins behind the first block: there is no page at 0. */
uint64_t sim_place_phys(const struct sim_place *place, uint64_t page)
{
	uint64_t span = sim_place_block_pages(place) * PAGE_SIZE_BYTES;

	return SIM_BLOCK_BYTES + place->node[0][page] * span + page * PAGE_SIZE_BYTES;
}

size_t sim_place_area(const struct sim_place *place, uint64_t page)
{
	size_t i = 0;

	while (i + 1 < place->n_areas && page >= place->area[i + 1].first)
		i++;
	return i;
}

bool sim_place_is_huge(const struct sim_place *place, uint64_t page)
{
	return bit(place->huge, region_of(page));
}

bool sim_place_is_hot(const struct sim_place *place, uint64_t page)
{
	return bit(place->hot, page);
}

static uint64_t keep_pages(const struct sim_place *place, int node, double percent)
{
	return (uint64_t)((double)place->node_pages[node] * percent / 100.0);
}

uint64_t sim_place_free_pages(const struct sim_place *place, int node)
{
	return place->used[0][node] < place->node_pages[node] ? place->node_pages[node] - place->used[0][node] : 0;
}

static void put(struct sim_place *place, int which, uint64_t page, int node)
{
	place->node[which][page] = (uint8_t)node;
	place->region_node[which][region_of(page) * place->n_nodes + (size_t)node]++;
	place->used[which][node]++;
}

/* The kernel's first choice is the fastest node, down to its low watermark; the last takes what comes. */
static int allocate_on(const struct sim_place *place, int which)
{
	const struct sim_scenario *s = place->scenario;
	int last = 0;

	for (int64_t tier = 0; tier < SIM_NODES_MAX; tier++) {
		for (int i = 0; i < (int)place->n_nodes; i++) {
			if (s->nodes[i].tier != tier)
				continue;
			last = i;
			if (place->used[which][i] + keep_pages(place, i, s->kernel.low_percent) < place->node_pages[i])
				return i;
		}
	}
	return last;
}

/* @wanted: the node that the program asks for, or -1. */
static void allocate(struct sim_place *place, uint64_t page, int wanted)
{
	for (int which = 0; which < 2; which++) {
		bool room = wanted >= 0 && place->used[which][wanted] < place->node_pages[wanted];

		put(place, which, page, room ? wanted : allocate_on(place, which));
	}
}

static void lay_out(struct sim_place *place, struct sim_area *area, const struct sim_memory *m)
{
	uint64_t near = (uint64_t)((double)area->pages * m->near_share);

	for (uint64_t i = 0; i < area->pages; i++) {
		bool other = m->interleave_node >= 0 && region_of(i) % 2 == 1;
		int node = i < near ? 0 : other ? (int)m->interleave_node : (int)m->node;

		if (m->placing == SIM_FILLED)
			allocate(place, area->first + i, -1);
		else if (m->placing == SIM_ON_NODE)
			for (int which = 0; which < 2; which++)
				put(place, which, area->first + i, node);
	}
}

static void choose_huge(struct sim_place *place, const struct sim_area *area, const struct sim_memory *m, uint64_t seed)
{
	struct sim_random random;

	sim_random_init(&random, seed, area->first);
	for (uint64_t r = region_of(area->first); r < region_of(area->first + area->pages); r++)
		if (sim_random_unit(&random) < m->huge_share)
			set_bit(place->huge, r);
}

static int make_tables(struct sim_place *place)
{
	for (int which = 0; which < 2; which++) {
		place->node[which] = malloc(place->pages);
		place->region_node[which] = calloc(place->regions * place->n_nodes, sizeof(uint16_t));
		if (!place->node[which] || !place->region_node[which])
			return -ENOMEM;
		memset(place->node[which], SIM_NOWHERE, place->pages);
	}
	place->huge = calloc(place->regions / 64 + 1, sizeof(uint64_t));
	place->hot = calloc(place->pages / 64 + 1, sizeof(uint64_t));
	place->decided = calloc(place->pages / 64 + 1, sizeof(uint64_t));
	place->moved_sec = calloc(place->pages, sizeof(*place->moved_sec));
	return place->huge && place->hot && place->decided && place->moved_sec ? 0 : -ENOMEM;
}

static int make_patterns(struct sim_place *place, char *error)
{
	const struct sim_scenario *s = place->scenario;

	for (size_t i = 0; i < s->n_accesses; i++) {
		const struct sim_access *a = &s->accesses[i];
		size_t k = 0;
		int r;

		while (strcmp(s->memories[k].name, a->memory) != 0)
			k++;
		place->area_of_access[i] = k;
		r = sim_pattern_init(&place->pattern[i], a, place->area[k].first, place->area[k].pages,
				     (uint64_t)s->seed * SIM_ACCESSES_MAX + i);
		place->n_patterns = i + 1;
		if (r == -EINVAL)
			snprintf(error, SIM_ERROR_MAX, "%s: access %s goes over no page", s->name, a->name);
		if (r < 0)
			return r;
		sim_pattern_at(&place->pattern[i], 0, s->seconds);
	}
	return 0;
}

int sim_place_init(struct sim_place *place, const struct sim_scenario *s, char *error)
{
	int r;

	*place = (struct sim_place){ .scenario = s, .n_nodes = s->n_nodes, .n_areas = s->n_memories };
	error[0] = '\0';
	for (size_t i = 0; i < s->n_nodes; i++) {
		place->node_pages[i] = (uint64_t)(s->nodes[i].mib * PAGES_PER_MIB);
		place->near[i] = s->nodes[i].tier == 0;
		if (place->near[i])
			place->near_room +=
				place->node_pages[i] - keep_pages(place, (int)i, s->config.promote_headroom_percent);
	}
	for (size_t i = 0; i < s->n_memories; i++) {
		place->area[i].first = place->pages;
		place->area[i].pages = (uint64_t)(s->memories[i].mib * PAGES_PER_MIB);
		place->pages += (place->area[i].pages + REGION_PAGES - 1) / REGION_PAGES * REGION_PAGES;
	}
	place->regions = region_of(place->pages);
	r = make_tables(place);
	for (size_t i = 0; i < s->n_memories && r == 0; i++) {
		lay_out(place, &place->area[i], &s->memories[i]);
		choose_huge(place, &place->area[i], &s->memories[i], (uint64_t)s->seed);
	}
	for (size_t i = 0; i < s->n_nodes && r == 0; i++) {
		if (place->used[0][i] > place->node_pages[i]) {
			snprintf(error, SIM_ERROR_MAX, "%s: node %zu has %.0f MiB, but %.0f MiB are placed on it",
				 s->name, i, s->nodes[i].mib, (double)place->used[0][i] / PAGES_PER_MIB);
			r = -EINVAL;
		}
	}
	if (r == 0)
		r = make_patterns(place, error);
	if (r == 0)
		r = sim_place_rate(place);
	return r;
}

void sim_place_free(struct sim_place *place)
{
	for (int which = 0; which < 2; which++) {
		free(place->node[which]);
		free(place->region_node[which]);
	}
	free(place->huge);
	free(place->hot);
	free(place->decided);
	free(place->moved_sec);
	for (size_t i = 0; i < place->n_patterns; i++)
		sim_pattern_free(&place->pattern[i]);
}

/* What a sweep has come over since the last look is there now; a page that was there stays. */
static void fill(struct sim_place *place, const struct sim_pattern *p, double sec)
{
	const struct sim_memory *m = &place->scenario->memories[place->area_of_access[p - place->pattern]];
	uint64_t end = sim_pattern_front(p, sec) + 1;

	for (uint64_t page = end; page-- > p->first && place->node[0][page] == SIM_NOWHERE;)
		allocate(place, page, (int)m->node);
}

int sim_place_at(struct sim_place *place, double sec)
{
	bool changed = false;

	place->sec = sec;
	for (size_t i = 0; i < place->n_patterns; i++) {
		struct sim_pattern *p = &place->pattern[i];
		bool was_active = p->active;

		changed |= sim_pattern_at(p, sec, place->scenario->seconds);
		if (p->access->fills && (p->active || was_active))
			fill(place, p, sec);
	}
	return changed ? sim_place_rate(place) : 0;
}

/* It came near or went: what did the opposite a moment ago did it in vain. */
static void count_back(struct sim_place *place, uint64_t page, bool came)
{
	unsigned int was = place->moved_sec[page],
		     now = place->sec < UINT16_MAX - 1 ? (unsigned int)place->sec + 1 : was;

	place->moved_sec[page] = (uint16_t)now;
	if (was == 0 || now - was >= SIM_BACK_SEC)
		return;
	place->back_up += came;
	place->back_down += !came;
}

static void count_move(struct sim_place *place, uint64_t page, int from, int to)
{
	struct sim_area *area = &place->area[sim_place_area(place, page)];
	bool hot = bit(place->hot, page), came = place->near[to] && !place->near[from],
	     went = !place->near[to] && place->near[from];

	if (came || went)
		count_back(place, page, came);
	area->moved += came;
	if (came)
		sim_place_decide(place, page);
	if (hot) {
		area->hot_near += came;
		area->hot_near -= went;
	} else if (!place->near[place->node[1][page]]) {
		area->cold_moved += came;
		area->cold_moved -= went;
	}
}

static void move_one(struct sim_place *place, uint64_t page, int to)
{
	int from = place->node[0][page];
	size_t area = sim_place_area(place, page);

	if (from == to || from == SIM_NOWHERE)
		return;
	place->region_node[0][region_of(page) * place->n_nodes + (size_t)from]--;
	place->used[0][from]--;
	put(place, 0, page, to);
	for (size_t i = 0; i < place->n_patterns; i++) {
		if (place->area_of_access[i] == area && place->pattern[i].active) {
			double share = sim_pattern_share(&place->pattern[i], page);

			place->mass[0][i][from] -= share;
			place->mass[0][i][to] += share;
		}
	}
	count_move(place, page, from, to);
}

void sim_place_move(struct sim_place *place, uint64_t page, int node)
{
	assert(node >= 0 && (size_t)node < place->n_nodes && page < place->pages);
	if (!sim_place_is_huge(place, page)) {
		move_one(place, page, node);
		return;
	}
	page = region_of(page) * REGION_PAGES;
	for (unsigned int i = 0; i < REGION_PAGES; i++)
		move_one(place, page + i, node);
}

void sim_place_decide(struct sim_place *place, uint64_t page)
{
	if (bit(place->decided, page))
		return;
	set_bit(place->decided, page);
	if (bit(place->hot, page))
		place->area[sim_place_area(place, page)].hot_decided++;
}

/* Shares of a sweep: of the regions that it comes over in that time. */
static double sweep_shares(const struct sim_place *place, int which, const struct sim_pattern *p, double from_sec,
			   double to_sec, double ret[SIM_NODES_MAX])
{
	uint64_t from = region_of(sim_pattern_front(p, from_sec)), to = region_of(sim_pattern_front(p, to_sec));
	uint64_t first = region_of(p->first), last = region_of(p->first + p->pages - 1);
	double all = 0;

	for (uint64_t r = from;; r = r == last ? first : r + 1) {
		for (size_t n = 0; n < place->n_nodes; n++) {
			ret[n] += place->region_node[which][r * place->n_nodes + n];
			all += place->region_node[which][r * place->n_nodes + n];
		}
		if (r == to)
			return all;
	}
}

/* @process 0: of all. */
static void shares(const struct sim_place *place, int which, int64_t process, double from_sec, double to_sec,
		   double ret[SIM_NODES_MAX])
{
	double sum = 0;

	memset(ret, 0, SIM_NODES_MAX * sizeof(*ret));
	for (size_t i = 0; i < place->n_patterns; i++) {
		const struct sim_pattern *p = &place->pattern[i];
		double mine[SIM_NODES_MAX] = { 0 }, all = 0;

		if (!p->active || (process && place->scenario->memories[place->area_of_access[i]].process != process))
			continue;
		if (p->access->pattern == SIM_SWEEP && to_sec - from_sec < p->access->sweep_sec) {
			all = sweep_shares(place, which, p, from_sec, to_sec, mine);
		} else {
			for (size_t n = 0; n < place->n_nodes; n++) {
				mine[n] = place->mass[which][i][n] > 0 ? place->mass[which][i][n] : 0;
				all += mine[n];
			}
		}
		for (size_t n = 0; n < place->n_nodes && all > 0; n++)
			ret[n] += p->access->weight * mine[n] / all;
	}
	for (size_t n = 0; n < place->n_nodes; n++)
		sum += ret[n];
	for (size_t n = 0; n < place->n_nodes && sum > 0; n++)
		ret[n] /= sum;
}

void sim_place_shares(const struct sim_place *place, int which, double from_sec, double to_sec,
		      double ret[SIM_NODES_MAX])
{
	shares(place, which, 0, from_sec, to_sec, ret);
}

void sim_place_process_shares(const struct sim_place *place, int64_t process, double from_sec, double to_sec,
			      double ret[SIM_NODES_MAX])
{
	shares(place, 0, process, from_sec, to_sec, ret);
}
