/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>

#include "sim_place.h"
#include "sim_result.h"

#define DIGITS 6

void sim_result_free(struct sim_result *result)
{
	free(result->series);
	*result = (struct sim_result){ 0 };
}

static json_t *time_or_null(double sec)
{
	return sec < 0 ? json_null() : json_real(sec);
}

static json_t *point_json(const struct sim_point *p)
{
	return json_pack("{s:f, s:f, s:f, s:f, s:f, s:I}", "t", p->t, "coverage", p->coverage, "decided", p->decided,
			 "over_promotion", p->over_promotion, "hit_ratio", p->hit_ratio, "moved_bytes",
			 (json_int_t)p->moved_bytes);
}

static json_t *part_json(const struct sim_part *p)
{
	return json_pack("{s:s, s:I, s:I, s:f, s:f, s:f, s:I, s:o, s:o}", "name", p->name, "bytes",
			 (json_int_t)p->bytes, "hot_bytes", (json_int_t)p->hot_bytes, "coverage", p->coverage,
			 "decided", p->decided, "over_promotion", p->over_promotion, "moved_bytes",
			 (json_int_t)p->moved_bytes, "time_to_99", time_or_null(p->time_to_99), "time_to_99_decided",
			 time_or_null(p->time_to_99_decided));
}

/* NULL: no memory. jansson passes it through: what should hold a list that is none is none either. */
static json_t *series_json(const struct sim_result *r)
{
	json_t *list = json_array();

	for (size_t i = 0; i < r->n_series; i++) {
		if (json_array_append_new(list, point_json(&r->series[i])) < 0) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

static json_t *parts_json(const struct sim_result *r)
{
	json_t *list = json_array();

	for (size_t i = 0; i < r->n_parts; i++) {
		if (json_array_append_new(list, part_json(&r->parts[i])) < 0) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

static json_t *processes_json(const struct sim_result *r)
{
	json_t *list = json_array();

	for (size_t i = 0; i < r->n_processes; i++) {
		const struct sim_process *p = &r->processes[i];
		json_t *item = json_pack("{s:I, s:I, s:f, s:f, s:f, s:I, s:I, s:I}", "process", (json_int_t)p->number,
					 "user", (json_int_t)p->user, "seconds", p->sec, "speed", p->speed, "hit_ratio",
					 p->hit_ratio, "fast_bytes", (json_int_t)p->fast_bytes, "map_bytes",
					 (json_int_t)p->map_bytes, "evicted", (json_int_t)p->evicted);

		if (json_array_append_new(list, item) < 0) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

static json_t *holdout_json(const struct sim_result *r)
{
	if (!r->has_holdout)
		return json_null();
	return json_pack("{s:f, s:f, s:f}", "saved", r->saved, "margin", r->saved_margin, "truly", r->saved_truly);
}

static json_t *guards_json(const struct sim_guards *g)
{
	return json_pack("{s:I, s:I, s:I, s:I, s:I}", "against", (json_int_t)g->against, "cost", (json_int_t)g->cost,
			 "holdout", (json_int_t)g->holdout, "ping_pong", (json_int_t)g->ping_pong, "process",
			 (json_int_t)g->process);
}

int sim_result_write_json(const struct sim_result *r, FILE *to)
{
	json_t *json = json_pack(
		"{s:s, s:s, s:I, s:f, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:I, s:I, s:I, s:f, s:f, s:f, "
		"s:I, s:o, "
		"s:o, s:o, "
		"s:o, s:o, s:o, s:o, s:o}",
		"scenario", r->scenario, "policy", r->policy, "seed", (json_int_t)r->seed, "seconds", r->seconds,
		"samples", (json_int_t)r->samples, "hot_bytes", (json_int_t)r->hot_bytes, "coverage", r->coverage,
		"decided", r->decided, "over_promotion", r->over_promotion, "hit_ratio", r->hit_ratio,
		"oracle_hit_ratio", r->oracle_hit_ratio, "sample_oracle_hit_ratio", r->sample_oracle_hit_ratio,
		"speedup", r->speedup, "moved_bytes", (json_int_t)r->moved_bytes, "demoted_bytes",
		(json_int_t)r->demoted_bytes, "back_up_bytes", (json_int_t)r->back_up_bytes, "back_down_bytes",
		(json_int_t)r->back_down_bytes, "move_seconds", r->move_seconds, "saved_seconds", r->saved_seconds,
		"user_seconds", r->user_seconds, "map_bytes", (json_int_t)r->map_bytes, "time_to_50",
		time_or_null(r->time_to_50), "time_to_90", time_or_null(r->time_to_90), "time_to_99",
		time_or_null(r->time_to_99), "holdout", holdout_json(r), "guards", guards_json(&r->guards), "parts",
		parts_json(r), "processes", processes_json(r), "series", series_json(r));
	int written;

	if (!json)
		return -ENOMEM;
	errno = 0;
	written = json_dumpf(json, to, JSON_INDENT(1) | JSON_REAL_PRECISION(DIGITS));
	json_decref(json);
	if (written >= 0 && fputc('\n', to) != EOF && fflush(to) != EOF)
		return 0;
	return errno ? -errno : -EIO;
}

static double gib(uint64_t bytes)
{
	return (double)bytes / 0x1p30;
}

static void write_time(FILE *to, const char *label, double sec)
{
	if (sec < 0)
		fprintf(to, "%s never", label);
	else
		fprintf(to, "%s %.1f s", label, sec);
}

static void write_guards(FILE *to, const struct sim_guards *g)
{
	if (g->against + g->cost + g->holdout + g->ping_pong + g->process == 0)
		return;
	fprintf(to,
		"  guards    began to hold: against %llu times, cost %llu, holdout %llu, ping-pong %llu, a process "
		"%llu\n",
		(unsigned long long)g->against, (unsigned long long)g->cost, (unsigned long long)g->holdout,
		(unsigned long long)g->ping_pong, (unsigned long long)g->process);
}

void sim_result_write_text(const struct sim_result *r, FILE *to)
{
	fprintf(to, "%s, policy \"%s\", seed %lld: %.0f s, %llu samples\n", r->scenario, r->policy, (long long)r->seed,
		r->seconds, (unsigned long long)r->samples);
	fprintf(to, "  hot set   %.2f GiB; %.1f%% of it near, %.1f%% decided", gib(r->hot_bytes), 100 * r->coverage,
		100 * r->decided);
	fprintf(to, "; cold memory moved: %.2f%% of its size\n", 100 * r->over_promotion);
	write_time(to, "  near      50%", r->time_to_50);
	write_time(to, ", 90%", r->time_to_90);
	write_time(to, ", 99%", r->time_to_99);
	fprintf(to, "\n  hit ratio %.2f%% at the end; all accesses known: %.2f%%, all samples known: %.2f%%\n",
		100 * r->hit_ratio, 100 * r->oracle_hit_ratio, 100 * r->sample_oracle_hit_ratio);
	fprintf(to, "  speed     %.3f of that with nothing moved\n", r->speedup);
	if (r->has_holdout)
		fprintf(to, "  far       accesses down by %.1f +- %.1f%% as the daemon sees it; by %.1f%% truly\n",
			100 * r->saved, 100 * r->saved_margin, 100 * r->saved_truly);
	fprintf(to, "  moved     %.2f GiB up, %.2f GiB down, in %.1f s; %.1f s of the threads' time saved\n",
		gib(r->moved_bytes), gib(r->demoted_bytes), r->move_seconds, r->saved_seconds);
	if (r->back_up_bytes + r->back_down_bytes > 0)
		fprintf(to, "  in vain   %.2f GiB up less than %d s after they went down, %.2f GiB down so soon\n",
			gib(r->back_up_bytes), SIM_BACK_SEC, gib(r->back_down_bytes));
	write_guards(to, &r->guards);
	fprintf(to,
		"  cost      %.2f s of CPU for the daemon's own code, %.2f%% of a core (1%% is %.2f s); %.1f MiB of "
		"tables\n",
		r->user_seconds, 100 * r->user_seconds / r->seconds, r->seconds / 100, (double)r->map_bytes / 0x1p20);
	for (size_t i = 0; i < r->n_parts && r->n_parts > 1; i++)
		fprintf(to, "  %-10s%.2f GiB hot, %.1f%% near, %.1f%% decided; %.2f GiB moved, over %.2f%%\n",
			r->parts[i].name, gib(r->parts[i].hot_bytes), 100 * r->parts[i].coverage,
			100 * r->parts[i].decided, gib(r->parts[i].moved_bytes), 100 * r->parts[i].over_promotion);
	for (size_t i = 0; i < r->n_processes && r->n_processes > 1; i++)
		fprintf(to, "  process %-2lld %.2f million accesses a second of a thread, %.1f%% near; %.2f GiB fast\n",
			(long long)r->processes[i].number, r->processes[i].speed / 1e6, 100 * r->processes[i].hit_ratio,
			gib(r->processes[i].fast_bytes));
}
