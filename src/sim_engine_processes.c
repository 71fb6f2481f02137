/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What each process of a scenario came to: who has others beside it must not be slower for them. */
#include "hotness.h"
#include "owners.h"
#include "rcu.h"
#include "sample.h"
#include "sim_engine_internal.h"

static struct sim_process *find(struct sim_result *r, int64_t number)
{
	for (size_t i = 0; i < r->n_processes; i++)
		if (r->processes[i].number == number)
			return &r->processes[i];
	return NULL;
}

void sim_processes_start(struct sim_engine *e)
{
	const struct sim_scenario *s = e->scenario;
	struct sim_result *r = e->result;

	for (size_t i = 0; i < s->n_memories; i++) {
		const struct sim_memory *m = &s->memories[i];

		if (!find(r, m->process))
			r->processes[r->n_processes++] =
				(struct sim_process){ .number = m->process, .user = sim_user(s, m->process) };
	}
}

void sim_processes_step(struct sim_engine *e, double from, double to)
{
	const struct sim_scenario *s = e->scenario;
	struct sim_result *r = e->result;

	for (size_t k = 0; k < r->n_processes && r->n_processes > 1; k++) {
		struct sim_process *process = &r->processes[k];
		double shares[SIM_NODES_MAX], ns = s->think_ns, near = 0, all = 0;

		sim_place_process_shares(&e->place, process->number, from, to, shares);
		for (size_t i = 0; i < e->place.n_nodes; i++) {
			ns += shares[i] * s->nodes[i].latency_ns;
			near += e->place.near[i] ? shares[i] : 0;
			all += shares[i];
		}
		if (all <= 0)
			continue;
		/* Sums for now, see sim_processes_end(). */
		process->sec += to - from;
		process->speed += (to - from) * 1e9 / ns;
		process->hit_ratio += (to - from) * near;
	}
}

void sim_processes_point(struct sim_engine *e)
{
	struct sim_result *r = e->result;

	rcu_enter();
	for (uint32_t slot = 0; slot < owners_end(e->owners); slot++) {
		const struct owner *owner = owners_at(e->owners, slot);
		struct sim_process *process;
		uint64_t bytes;

		if (!owner)
			continue;
		process = find(r, sim_machine_process(owner->pid));
		bytes = atomic_load_explicit(&owner->bytes, memory_order_relaxed);
		if (!process)
			continue;
		if (bytes > process->map_bytes)
			process->map_bytes = bytes;
		process->evicted = atomic_load_explicit(&owner->evicted, memory_order_relaxed);
	}
	rcu_leave();
}

void sim_processes_end(struct sim_engine *e)
{
	struct sim_result *r = e->result;

	for (size_t k = 0; k < r->n_processes; k++) {
		struct sim_process *process = &r->processes[k];

		process->speed /= process->sec > 0 ? process->sec : 1;
		process->hit_ratio /= process->sec > 0 ? process->sec : 1;
	}
	for (size_t i = 0; i < e->place.n_areas; i++) {
		const struct sim_area *area = &e->place.area[i];
		struct sim_process *process = find(r, e->scenario->memories[i].process);

		for (uint64_t page = area->first; page < area->first + area->pages; page++)
			if (e->place.node[0][page] != SIM_NOWHERE && e->place.near[e->place.node[0][page]])
				process->fast_bytes += PAGE_SIZE_BYTES;
	}
}
