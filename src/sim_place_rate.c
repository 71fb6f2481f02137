/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sample.h"
#include "sim_place.h"
#include "sim_place_rate.h"

#define BINS       4096
#define PER_OCTAVE 64 /* so they reach down to 2^-64 */

struct bin {
	uint64_t pages;
	double share;
};

struct rating {
	struct bin bin[BINS];
	uint16_t *of_page; /* bin + 1; 0: never accessed */
};

/* Of all accesses, what each of a pattern is worth. */
static double worth(const struct sim_place *place, size_t i)
{
	double all = 0;

	for (size_t k = 0; k < place->n_patterns; k++)
		all += place->pattern[k].active ? place->pattern[k].access->weight : 0;
	return all > 0 ? place->pattern[i].access->weight / all : 0;
}

/* The patterns that go over an area now. */
struct over {
	size_t n;
	size_t pattern[SIM_ACCESSES_MAX];
	double worth[SIM_ACCESSES_MAX];
};

static void find_over(const struct sim_place *place, size_t area, struct over *ret)
{
	ret->n = 0;
	for (size_t i = 0; i < place->n_patterns; i++) {
		if (!place->pattern[i].active || place->area_of_access[i] != area)
			continue;
		ret->pattern[ret->n] = i;
		ret->worth[ret->n++] = worth(place, i);
	}
}

static double share_of(const struct sim_place *place, const struct over *over, uint64_t page)
{
	double share = 0;

	for (size_t k = 0; k < over->n; k++)
		share += over->worth[k] * sim_pattern_share(&place->pattern[over->pattern[k]], page);
	return share;
}

double sim_place_share(const struct sim_place *place, uint64_t page)
{
	struct over over;

	find_over(place, sim_place_area(place, page), &over);
	return share_of(place, &over, page);
}

static void rate_page(struct sim_place *place, struct rating *rating, const struct over *over, uint64_t page)
{
	double all = 0;
	int bin;

	for (size_t k = 0; k < over->n; k++) {
		size_t i = over->pattern[k];
		double share = sim_pattern_share(&place->pattern[i], page);

		for (int which = 0; which < 2; which++)
			if (place->node[which][page] != SIM_NOWHERE)
				place->mass[which][i][place->node[which][page]] += share;
		all += over->worth[k] * share;
	}
	rating->of_page[page] = 0;
	if (all <= 0)
		return;
	bin = (int)(-log2(all) * PER_OCTAVE);
	bin = bin < 0 ? 0 : bin >= BINS ? BINS - 1 : bin;
	rating->of_page[page] = (uint16_t)(bin + 1);
	rating->bin[bin].pages++;
	rating->bin[bin].share += all;
}

/* The best pages, until the near nodes are full: what is the least worth that all still fit of, and how many of the
 * next. */
static void fit(struct sim_place *place, const struct rating *rating, int *ret_last, uint64_t *ret_more)
{
	uint64_t room = place->near_room;

	place->oracle_hit_ratio = 0;
	*ret_more = 0;
	for (*ret_last = 0; *ret_last < BINS; (*ret_last)++) {
		const struct bin *bin = &rating->bin[*ret_last];

		if (bin->pages > room) {
			place->oracle_hit_ratio += bin->share * (double)room / (double)bin->pages;
			*ret_more = room;
			return;
		}
		room -= bin->pages;
		place->oracle_hit_ratio += bin->share;
	}
}

static bool names_hot(const struct sim_place *place)
{
	for (size_t i = 0; i < place->n_patterns; i++)
		if (place->scenario->accesses[i].hot)
			return true;
	return false;
}

/* Hot is what the scenario calls so, whether it is accessed just now or not, or else what the oracle would have near.
 */
static bool is_named(const struct sim_place *place, size_t area, uint64_t page)
{
	for (size_t i = 0; i < place->n_patterns; i++) {
		const struct sim_pattern *p = &place->pattern[i];

		if (p->access->hot && place->area_of_access[i] == area && sim_pattern_covers(p, page))
			return true;
	}
	return false;
}

static bool is_best(const struct rating *rating, int last, uint64_t *more, uint64_t page)
{
	int bin = (int)rating->of_page[page] - 1;

	if (bin < 0 || bin > last || (bin == last && *more == 0))
		return false;
	*more -= bin == last;
	return true;
}

static void count_page(struct sim_place *place, struct sim_area *area, uint64_t page, bool hot)
{
	uint64_t mask = UINT64_C(1) << (page % 64);
	int now = place->node[0][page], base = place->node[1][page];
	bool near = now != SIM_NOWHERE && place->near[now];

	if (hot) {
		place->hot[page / 64] |= mask;
		place->hot_pages++;
		area->hot++;
		area->hot_near += near;
		area->hot_decided += near || (place->decided[page / 64] & mask);
	} else {
		place->hot[page / 64] &= ~mask;
		area->cold_moved += near && base != SIM_NOWHERE && !place->near[base];
	}
	if (near)
		place->decided[page / 64] |= mask;
}

int sim_place_rate(struct sim_place *place)
{
	struct rating *rating = calloc(1, sizeof(*rating));
	bool named = names_hot(place);
	uint64_t more;
	int last;

	if (rating)
		rating->of_page = malloc(place->pages * sizeof(*rating->of_page));
	if (!rating || !rating->of_page) {
		free(rating);
		return -ENOMEM;
	}
	memset(place->mass, 0, sizeof(place->mass));
	for (size_t i = 0; i < place->n_areas; i++) {
		const struct sim_area *area = &place->area[i];
		struct over over;

		find_over(place, i, &over);
		for (uint64_t page = area->first; page < area->first + area->pages; page++)
			rate_page(place, rating, &over, page);
	}
	fit(place, rating, &last, &more);
	place->hot_pages = 0;
	for (size_t i = 0; i < place->n_areas; i++) {
		struct sim_area *area = &place->area[i];

		area->hot = area->hot_near = area->hot_decided = area->cold_moved = 0;
		for (uint64_t page = area->first; page < area->first + area->pages; page++)
			count_page(place, area, page,
				   named ? is_named(place, i, page) : is_best(rating, last, &more, page));
	}
	free(rating->of_page);
	free(rating);
	return 0;
}

double sim_place_saved(const struct sim_place *place,
		       bool (*moves)(const struct sim_place *place, uint64_t page, const void *ctx), const void *ctx)
{
	double far[2] = { 0, 0 };

	for (size_t i = 0; i < place->n_areas; i++) {
		const struct sim_area *area = &place->area[i];
		struct over over;

		find_over(place, i, &over);
		for (uint64_t page = area->first; page < area->first + area->pages; page++) {
			double share;

			if (place->node[0][page] == SIM_NOWHERE || !moves(place, page, ctx))
				continue;
			share = share_of(place, &over, page);
			for (int which = 0; which < 2; which++)
				far[which] += place->near[place->node[which][page]] ? 0 : share;
		}
	}
	return far[1] > 0 ? 1 - far[0] / far[1] : 0;
}

double sim_place_sample_oracle(const struct sim_place *place, const uint16_t *counts)
{
	struct bin *by_count = calloc(UINT16_MAX + 1, sizeof(*by_count));
	uint64_t room = place->near_room;
	double ratio = 0;

	if (!by_count)
		return -1;
	for (size_t i = 0; i < place->n_areas; i++) {
		const struct sim_area *area = &place->area[i];
		struct over over;

		find_over(place, i, &over);
		for (uint64_t page = area->first; page < area->first + area->pages; page++) {
			by_count[counts[page]].pages++;
			by_count[counts[page]].share += share_of(place, &over, page);
		}
	}
	for (size_t n = UINT16_MAX; n > 0 && room > 0; n--) {
		const struct bin *bin = &by_count[n];
		uint64_t pages = bin->pages < room ? bin->pages : room;

		if (bin->pages > 0)
			ratio += bin->share * (double)pages / (double)bin->pages;
		room -= pages;
	}
	free(by_count);
	return ratio;
}
