/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "sample.h"
#include "sim_pattern.h"

#define PAGES_PER_MIB 256.0
/* The generator of the Graph500 benchmark: an edge's end lies in the first half with 0.57 + 0.19, bit by bit. */
#define KRONECKER_FIRST  0.76
#define KRONECKER_SECOND 0.24
/* Threads of a sweep aren't in step. */
#define FRONT_PAGES 64

static uint64_t to_pages(double mib)
{
	return (uint64_t)(mib * PAGES_PER_MIB);
}

static void go_to_place(struct sim_pattern *p, uint64_t number)
{
	uint64_t slack = p->memory_pages - p->pages;
	struct sim_random random;

	p->place_number = number;
	if (p->access->first_mib >= 0) {
		p->first = p->memory_first + to_pages(p->access->first_mib);
		return;
	}
	sim_random_init(&random, p->seed, number);
	p->first = p->memory_first + sim_random_below(&random, slack + 1);
}

/* Vertices have random numbers (Graph500 permutes them): a bijection of the numbers of @bits bits. */
static uint64_t label(uint64_t v, unsigned int bits, uint64_t seed)
{
	uint64_t mask = (UINT64_C(1) << bits) - 1;

	v = (v + seed) & mask;
	for (int i = 0; i < 3; i++) {
		v = v * UINT64_C(0x9e3779b97f4a7c15) & mask;
		v ^= v >> (bits / 2);
	}
	return v;
}

static int init_kronecker(struct sim_pattern *p)
{
	uint64_t per_page = PAGE_SIZE_BYTES / (uint64_t)p->access->vertex_bytes;
	unsigned int bits = 2;
	double weight[64];

	p->before = malloc((p->pages + 1) * sizeof(*p->before));
	if (!p->before)
		return -ENOMEM;
	while ((UINT64_C(1) << bits) < p->pages * per_page)
		bits++;
	for (unsigned int ones = 0; ones <= bits; ones++)
		weight[ones] = pow(KRONECKER_FIRST, bits - ones) * pow(KRONECKER_SECOND, ones);
	p->before[0] = 0;
	for (uint64_t i = 0; i < p->pages; i++) {
		double sum = 0;

		for (uint64_t v = i * per_page; v < (i + 1) * per_page; v++)
			sum += weight[__builtin_popcountll(label(v, bits, p->seed))];
		p->before[i + 1] = p->before[i] + sum;
	}
	return 0;
}

int sim_pattern_init(struct sim_pattern *p, const struct sim_access *access, uint64_t memory_first,
		     uint64_t memory_pages, uint64_t seed)
{
	double offset_mib = access->first_mib > 0 ? access->first_mib : 0;

	*p = (struct sim_pattern){
		.access = access,
		.memory_first = memory_first,
		.memory_pages = memory_pages,
		.seed = seed,
	};
	p->pages = access->mib > 0 ? to_pages(access->mib) : memory_pages - to_pages(offset_mib);
	if (p->pages == 0)
		return -EINVAL;
	p->unit_pages = (uint64_t)(access->unit_kib / 4);
	p->units = p->pages / p->unit_pages;
	p->client_pages = p->pages / (uint64_t)access->clients;
	p->client_used = (uint64_t)((double)p->client_pages * access->share);
	if (p->units == 0 || (access->pattern == SIM_CLIENTS && p->client_used == 0))
		return -EINVAL;
	if (access->pattern == SIM_ZIPF)
		sim_zipf_init(&p->zipf, p->units, access->theta);
	go_to_place(p, 0);
	if (access->pattern == SIM_KRONECKER)
		return init_kronecker(p);
	return 0;
}

void sim_pattern_free(struct sim_pattern *p)
{
	free(p->before);
	p->before = NULL;
}

bool sim_pattern_at(struct sim_pattern *p, double sec, double end_sec)
{
	const struct sim_access *a = p->access;
	double end = a->end_sec > 0 ? a->end_sec : end_sec;
	bool active, changed;

	if (sec < 0)
		sec = 0;
	if (a->pattern == SIM_SWEEP && a->once && a->start_sec + a->sweep_sec < end)
		end = a->start_sec + a->sweep_sec;
	/* What lasts to the end is still there when the result is looked at. */
	active = sec >= a->start_sec && (sec < end || end >= end_sec);
	changed = active != p->active;
	p->active = active;
	if (a->every_sec > 0 && active) {
		/* The very end still belongs to what went before. */
		double at = sec < end_sec ? sec - a->start_sec : end_sec - a->start_sec - 1e-6;
		uint64_t number = (uint64_t)(at / a->every_sec);

		if (number != p->place_number) {
			go_to_place(p, number);
			changed = true;
		}
	}
	return changed;
}

/* One page in so many: which 512 / one_in of the region, by a permutation of its own. */
static uint64_t pick(const struct sim_pattern *p, uint64_t region, uint64_t nth)
{
	return sim_permute(nth, REGION_PAGES, p->seed ^ region * UINT64_C(0x9e3779b97f4a7c15));
}

static uint64_t pick_back(const struct sim_pattern *p, uint64_t page)
{
	uint64_t region = page / REGION_PAGES;

	return sim_permute_back(page % REGION_PAGES, REGION_PAGES, p->seed ^ region * UINT64_C(0x9e3779b97f4a7c15));
}

static uint64_t draw_uniform(const struct sim_pattern *p, struct sim_random *random)
{
	uint64_t page = p->first + sim_random_below(random, p->pages), per_region, nth;

	if (p->access->one_in == 1)
		return page;
	per_region = REGION_PAGES / (uint64_t)p->access->one_in;
	nth = sim_random_below(random, per_region);
	return page / REGION_PAGES * REGION_PAGES + pick(p, page / REGION_PAGES, nth);
}

uint64_t sim_pattern_front(const struct sim_pattern *p, double sec)
{
	double at = (sec - p->access->start_sec) / p->access->sweep_sec;
	uint64_t page;

	at = p->access->once ? fmin(fmax(at, 0), 1) : at - floor(at);
	page = (uint64_t)(at * (double)p->pages);
	return p->first + (page < p->pages ? page : p->pages - 1);
}

static uint64_t draw_kronecker(const struct sim_pattern *p, struct sim_random *random)
{
	double at = sim_random_unit(random) * p->before[p->pages];
	uint64_t low = 0, high = p->pages;

	while (high - low > 1) {
		uint64_t mid = low + (high - low) / 2;

		if (p->before[mid] <= at)
			low = mid;
		else
			high = mid;
	}
	return p->first + low;
}

uint64_t sim_pattern_draw(const struct sim_pattern *p, struct sim_random *random, double sec)
{
	uint64_t page;

	switch (p->access->pattern) {
	case SIM_ZIPF:
		page = sim_permute(sim_zipf_draw(&p->zipf, random), p->units, p->seed) * p->unit_pages;
		return p->first + page + sim_random_below(random, p->unit_pages);
	case SIM_SWEEP:
		page = sim_pattern_front(p, sec) - p->first;
		return p->first + page - sim_random_below(random, page < FRONT_PAGES ? page + 1 : FRONT_PAGES);
	case SIM_CLIENTS:
		page = sim_random_below(random, (uint64_t)p->access->clients) * p->client_pages;
		return p->first + page + sim_random_below(random, p->client_used);
	case SIM_KRONECKER:
		return draw_kronecker(p, random);
	default:
		return draw_uniform(p, random);
	}
}

bool sim_pattern_covers(const struct sim_pattern *p, uint64_t page)
{
	uint64_t nth = page - p->first;

	if (page < p->first || nth >= p->pages)
		return false;
	switch (p->access->pattern) {
	case SIM_ZIPF:
		return nth < p->units * p->unit_pages;
	case SIM_CLIENTS:
		return nth / p->client_pages < (uint64_t)p->access->clients && nth % p->client_pages < p->client_used;
	case SIM_UNIFORM:
		return p->access->one_in == 1 || pick_back(p, page) < REGION_PAGES / (uint64_t)p->access->one_in;
	default:
		return true;
	}
}

double sim_pattern_share(const struct sim_pattern *p, uint64_t page)
{
	uint64_t nth = page - p->first;

	if (!sim_pattern_covers(p, page))
		return 0;
	switch (p->access->pattern) {
	case SIM_ZIPF:
		nth = sim_permute_back(nth / p->unit_pages, p->units, p->seed);
		return sim_zipf_share(&p->zipf, nth) / (double)p->unit_pages;
	case SIM_CLIENTS:
		return 1.0 / ((double)p->access->clients * (double)p->client_used);
	case SIM_KRONECKER:
		return (p->before[nth + 1] - p->before[nth]) / p->before[p->pages];
	case SIM_UNIFORM:
		return (double)p->access->one_in / (double)p->pages;
	default:
		return 1.0 / (double)p->pages;
	}
}
