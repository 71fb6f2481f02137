/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "holdout.h"
#include "hotness.h"
#include "rcu.h"
#include "record.h"
#include "sample.h"
#include "sim_engine_internal.h"
#include "sim_place_rate.h"
#include "sim_speed.h"
#include "stats.h"

#define LATE 0.9 /* of the time: what is said of the end is the mean from here on */

static uint64_t bytes(uint64_t pages)
{
	return pages * PAGE_SIZE_BYTES;
}

static double part_of(uint64_t n, uint64_t all)
{
	return all > 0 ? (double)n / (double)all : 0;
}

static struct sim_area sum_areas(const struct sim_engine *e)
{
	struct sim_area sum = { 0 };

	for (size_t i = 0; i < e->place.n_areas; i++) {
		const struct sim_area *area = &e->place.area[i];

		sum.hot += area->hot;
		sum.hot_near += area->hot_near;
		sum.hot_decided += area->hot_decided;
		sum.cold_moved += area->cold_moved;
		sum.moved += area->moved;
	}
	return sum;
}

static void note_time(uint64_t n, uint64_t all, double sec, double share, double *at)
{
	if (*at < 0 && all > 0 && (double)n >= share * (double)all)
		*at = sec;
}

static void note_times(struct sim_engine *e, const struct sim_area *sum, double sec)
{
	struct sim_result *r = e->result;

	note_time(sum->hot_near, sum->hot, sec, 0.5, &r->time_to_50);
	note_time(sum->hot_near, sum->hot, sec, 0.9, &r->time_to_90);
	note_time(sum->hot_near, sum->hot, sec, 0.99, &r->time_to_99);
	for (size_t i = 0; i < e->place.n_areas; i++) {
		const struct sim_area *area = &e->place.area[i];

		note_time(area->hot_near, area->hot, sec, 0.99, &r->parts[i].time_to_99);
		note_time(area->hot_decided, area->hot, sec, 0.99, &r->parts[i].time_to_99_decided);
	}
}

static void add_point(struct sim_engine *e, const struct sim_area *sum, double sec)
{
	struct sim_result *r = e->result;
	struct hotness_usage usage;

	r->series[r->n_series++] = (struct sim_point){
		.t = sec,
		.coverage = part_of(sum->hot_near, sum->hot),
		.decided = part_of(sum->hot_decided, sum->hot),
		.over_promotion = part_of(sum->cold_moved, sum->hot),
		.hit_ratio = e->hits_sec > 0 ? e->hits / e->hits_sec : 0,
		.moved_bytes = bytes(sum->moved),
	};
	e->hits = e->hits_sec = 0;
	hotness_usage(e->hotness, &usage);
	if (usage.bytes > r->map_bytes)
		r->map_bytes = usage.bytes;
}

/* Accesses that were made in the step, and would have been; and how many of them went to near nodes. */
static double count_accesses(struct sim_engine *e, double from, double to)
{
	double shares[SIM_NODES_MAX], base[SIM_NODES_MAX], busy[SIM_NODES_MAX], idle[SIM_NODES_MAX] = { 0 };
	double near = 0, sec = to - from, speed;

	sim_place_shares(&e->place, 0, from, to, shares);
	sim_place_shares(&e->place, 1, from, to, base);
	for (size_t i = 0; i < e->place.n_nodes; i++) {
		busy[i] = e->kernel.busy_bytes[i] / sec;
		e->kernel.busy_bytes[i] = 0;
		near += e->place.near[i] ? shares[i] : 0;
	}
	speed = sim_speed(e->scenario, shares, busy);
	e->speed = speed;
	e->made += speed * sec;
	e->made_base += sim_speed(e->scenario, base, idle) * sec;
	return near;
}

void sim_watch_step(struct sim_engine *e, uint64_t from_ns, uint64_t to_ns)
{
	double from = sim_engine_sec(e, from_ns), to = sim_engine_sec(e, to_ns);
	double near = count_accesses(e, from, to);
	struct sim_area sum = sum_areas(e);

	sim_processes_step(e, from, to);
	e->hits += near * (to - from);
	e->hits_sec += to - from;
	if (to > LATE * e->scenario->seconds) {
		e->late_sec += to - from;
		e->late_hits += near * (to - from);
		e->late_oracle += e->place.oracle_hit_ratio * (to - from);
	}
	note_times(e, &sum, to);
	if (to_ns < e->point_ns)
		return;
	sim_watch_regions(e);
	sum = sum_areas(e);
	add_point(e, &sum, to);
	sim_processes_point(e);
	e->point_ns += NSEC_PER_SEC;
}

void sim_watch_sample(struct sim_engine *e, uint64_t page)
{
	enum record_layout layout = hotness_layout(e->hotness);
	struct hotness_candidate candidate;

	if (e->place.near[e->place.node[0][page]] || e->scenario->config.promote_policy != POLICY_PAGE)
		return;
	rcu_enter();
	if (hotness_find_record(e->hotness, sim_place_phys(&e->place, page) >> PAGE_SHIFT, &candidate) &&
	    record_ready(layout, candidate.record))
		sim_place_decide(&e->place, page);
	rcu_leave();
}

static void describe_parts(const struct sim_engine *e, struct sim_result *r)
{
	r->n_parts = e->place.n_areas;
	for (size_t i = 0; i < r->n_parts; i++) {
		const struct sim_area *area = &e->place.area[i];
		struct sim_part *part = &r->parts[i];

		memcpy(part->name, e->scenario->memories[i].name, sizeof(part->name));
		part->bytes = bytes(area->pages);
		part->hot_bytes = bytes(area->hot);
		part->moved_bytes = bytes(area->moved);
		part->coverage = part_of(area->hot_near, area->hot);
		part->decided = part_of(area->hot_decided, area->hot);
		/* Of a memory that has nothing hot: in parts of itself. */
		part->over_promotion = part_of(area->cold_moved, area->hot ? area->hot : area->pages);
	}
}

static bool is_moved(const struct sim_place *place, uint64_t page, const void *ctx)
{
	const struct sim_scenario *s = place->scenario;
	uint32_t pid = sim_machine_pid(s->memories[sim_place_area(place, page)].process);

	(void)ctx;
	return !holdout_has(s->config.guard_holdout_percent, pid, sim_place_addr(page));
}

static void compare_held_out(struct sim_engine *e, struct sim_result *r)
{
	struct holdout_view view;

	holdout_look(e->room.holdout, &view);
	r->has_holdout = view.known;
	if (!view.known)
		return;
	r->saved = view.saved;
	r->saved_margin = view.margin;
	r->saved_truly = sim_place_saved(&e->place, is_moved, NULL);
}

int sim_watch_end(struct sim_engine *e)
{
	struct sim_area sum = sum_areas(e);
	struct sim_result *r = e->result;
	double sample_oracle = sim_place_sample_oracle(&e->place, e->counts);

	if (sample_oracle < 0)
		return -ENOMEM;
	memcpy(r->scenario, e->scenario->name, sizeof(r->scenario));
	r->seed = e->scenario->seed;
	r->seconds = e->scenario->seconds;
	r->samples = e->sampler.taken;
	r->hot_bytes = bytes(sum.hot);
	r->coverage = part_of(sum.hot_near, sum.hot);
	r->decided = part_of(sum.hot_decided, sum.hot);
	r->over_promotion = part_of(sum.cold_moved, sum.hot);
	r->hit_ratio = e->late_sec > 0 ? e->late_hits / e->late_sec : 0;
	r->oracle_hit_ratio = e->late_sec > 0 ? e->late_oracle / e->late_sec : 0;
	r->sample_oracle_hit_ratio = sample_oracle;
	r->speedup = e->made_base > 0 ? e->made / e->made_base : 1;
	r->moved_bytes = bytes(sum.moved);
	r->move_seconds = e->kernel.move_us / 1e6;
	r->saved_seconds = (r->speedup - 1) * (double)e->scenario->threads * e->scenario->seconds;
	r->demoted_bytes = bytes(e->kernel.demoted_pages);
	r->back_up_bytes = bytes(e->place.back_up);
	r->back_down_bytes = bytes(e->place.back_down);
	r->user_seconds = (double)e->daemon_ns / 1e9;
	r->guards = (struct sim_guards){
		.against = stats_sum(e->stats, STAT_GUARD_AGAINST),
		.cost = stats_sum(e->stats, STAT_GUARD_COST),
		.holdout = stats_sum(e->stats, STAT_GUARD_HOLDOUT),
		.ping_pong = stats_sum(e->stats, STAT_GUARD_PING_PONG),
		.process = stats_sum(e->stats, STAT_GUARD_PROCESS),
	};
	describe_parts(e, r);
	sim_processes_end(e);
	compare_held_out(e, r);
	return 0;
}
