/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "sim_sampler.h"
#include "sim_machine.h"

#define PREFETCHED_CYCLES 40   /* the line was on its way already */
#define ROUNDING          1e-6 /* of sums of steps: a sample that is due is due */
#define LINES_PER_PAGE    64
#define LINE_BYTES        64

void sim_sampler_init(struct sim_sampler_state *s, const struct sim_place *place)
{
	const struct sim_scenario *scenario = place->scenario;
	uint64_t seed = (uint64_t)scenario->seed;
	int cpu = 0;

	*s = (struct sim_sampler_state){ .place = place };
	sim_random_init(&s->which, seed, UINT64_C(2) << 32);
	sim_random_init(&s->flaws, seed, UINT64_C(3) << 32);
	sim_random_init(&s->when, seed, UINT64_C(5) << 32);
	for (size_t i = 0; i < SIM_ACCESSES_MAX; i++)
		sim_random_init(&s->where[i], seed, (UINT64_C(4) << 32) + i);
	for (size_t i = 0; i < place->n_nodes; i++) {
		s->cpu_first[i] = cpu;
		cpu += (int)scenario->nodes[i].cpus;
	}
}

uint64_t sim_sampler_due(struct sim_sampler_state *s, double sec, double accesses)
{
	const struct sim_sampler *sampler = &s->place->scenario->sampler;
	uint64_t due;

	s->credit += sampler->per_sec > 0 ? sampler->per_sec * sec : accesses / sampler->period;
	due = (uint64_t)(s->credit + ROUNDING);
	s->credit -= (double)due;
	return due;
}

/* The pattern that makes the access, or NULL: none is active. */
static const struct sim_pattern *choose(struct sim_sampler_state *s)
{
	const struct sim_place *place = s->place;
	const struct sim_pattern *last = NULL;
	double all = 0, at;

	for (size_t i = 0; i < place->n_patterns; i++)
		all += place->pattern[i].active ? place->pattern[i].access->weight : 0;
	at = sim_random_unit(&s->which) * all;
	for (size_t i = 0; i < place->n_patterns && all > 0; i++) {
		if (!place->pattern[i].active)
			continue;
		last = &place->pattern[i];
		at -= last->access->weight;
		if (at < 0)
			break;
	}
	return last;
}

/* A sampler that isn't precise names an address beside the right one. */
static uint64_t skid(struct sim_sampler_state *s, const struct sim_pattern *p, uint64_t page)
{
	const struct sim_sampler *sampler = &s->place->scenario->sampler;
	uint64_t off;

	if (sampler->skid <= 0 || sim_random_unit(&s->flaws) >= sampler->skid)
		return page;
	off = 1 + sim_random_below(&s->flaws, (uint64_t)sampler->skid_pages);
	if (sim_random_u64(&s->flaws) & 1)
		return page + off < p->memory_first + p->memory_pages ? page + off : page;
	return page >= p->memory_first + off ? page - off : page;
}

bool sim_sampler_take(struct sim_sampler_state *s, double sec, uint64_t time_ns, struct sample *ret, uint64_t *ret_page)
{
	const struct sim_place *place = s->place;
	const struct sim_scenario *scenario = place->scenario;
	const struct sim_pattern *p = choose(s);
	const struct sim_access *a;
	uint64_t page, line;
	size_t i, node;

	if (!p)
		return false;
	a = p->access;
	i = (size_t)(p - place->pattern);
	page = sim_pattern_draw(p, &s->where[i], sec);
	line = sim_random_below(&s->where[i], LINES_PER_PAGE);
	if (scenario->sampler.miss_share < 1 && sim_random_unit(&s->flaws) >= scenario->sampler.miss_share) {
		s->filtered++;
		return false;
	}
	if (scenario->sampler.loss > 0 && sim_random_unit(&s->flaws) < scenario->sampler.loss) {
		s->lost++;
		return false;
	}
	page = skid(s, p, page);
	node = place->node[0][page];
	if (node == SIM_NOWHERE)
		return false;
	if (scenario->sampler.slow_only && place->near[node]) {
		s->hidden++;
		return false;
	}
	s->taken++;
	*ret_page = page;
	*ret = (struct sample){
		.time_ns = time_ns,
		.addr = sim_place_addr(page) + line * LINE_BYTES,
		.phys = sim_place_phys(place, page) + line * LINE_BYTES,
		.pid = sim_machine_pid(scenario->memories[place->area_of_access[i]].process),
		.latency = a->prefetched ? PREFETCHED_CYCLES
					 : (uint32_t)(scenario->nodes[node].latency_ns * SIM_CYCLES_PER_NS),
		.cpu = (uint16_t)(s->cpu_first[a->node] +
				  (int)sim_random_below(&s->which, (uint64_t)scenario->nodes[a->node].cpus)),
		.page_shift = sim_place_is_huge(place, page) ? REGION_SHIFT : PAGE_SHIFT,
		.source = SAMPLE_SOURCE_IBS,
		.flags = SAMPLE_LOAD,
	};
	if (scenario->sampler.slow_only) {
		ret->source = SAMPLE_SOURCE_HINT_FAULTS;
		ret->latency = 0; /* a fault tells of none */
	}
	return true;
}
