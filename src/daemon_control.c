/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-daemon.h>

#include "cleanup.h"
#include "clock.h"
#include "config_value.h"
#include "daemon.h"
#include "daemon_inspect.h"
#include "dataplane.h"
#include "decider.h"
#include "fair.h"
#include "guard_pressure.h"
#include "guests.h"
#include "holdout.h"
#include "log.h"
#include "message.h"
#include "migrator.h"
#include "owners.h"
#include "victims.h"

#define MIGRATORS_SHOWN 256
#define VALUE_MAX_BYTES CONFIG_TEXT_MAX
#define LEFT_SHOWN      32
#define MOVES_SHOWN     1024

static const char *source_state_name(enum source_state state)
{
	switch (state) {
	case SOURCE_RUNNING:
		return "running";
	case SOURCE_DEGRADED:
		return "degraded";
	case SOURCE_FAILED:
		return "failed";
	case SOURCE_CLOSED:
		break;
	}
	return "unused";
}

struct moves {
	struct report_move list[MOVES_SHOWN];
	size_t n;
};

/* Several migrators of one node share a cell. */
static void add_move(void *ctx, const struct dataplane_outcome *o)
{
	struct moves *moves = ctx;

	for (size_t i = 0; i < moves->n; i++) {
		struct report_move *m = &moves->list[i];

		if (m->from_nid == o->from_nid && m->to_nid == o->to_nid && m->page_bytes == o->page_bytes &&
		    strcmp(m->result, o->result) == 0) {
			m->pages += o->pages;
			return;
		}
	}
	if (moves->n < MOVES_SHOWN)
		moves->list[moves->n++] =
			(struct report_move){ o->from_nid, o->to_nid, o->page_bytes, o->result, o->pages };
}

struct left {
	struct report_left list[LEFT_SHOWN];
	size_t n;
};

static void add_left(void *ctx, const char *reason, uint64_t bytes)
{
	struct left *left = ctx;

	if (left->n < LEFT_SHOWN)
		left->list[left->n++] = (struct report_left){ reason, bytes };
}

static size_t list_sources(const struct daemon *daemon, struct report_source *ret, size_t max)
{
	size_t n = 0;

	for (const struct source_ops *const *ops = source_table; *ops && n < max; ops++) {
		bool open = daemon->source.ops == *ops;
		const char *why = daemon_source_why(daemon, (size_t)(ops - source_table));
		bool failed = !open && why[0];

		ret[n++] = (struct report_source){
			.name = (*ops)->name,
			.state = open     ? source_state_name(daemon->source_state)
				 : failed ? "failed"
					  : "unused",
			.why = open ? daemon->source_why : why,
			.detail = open ? daemon->source.detail : "",
			.period = open ? daemon->source.period : 0,
			.cost_ratio = open ? daemon->paced.cost : 0,
			.pace = open && daemon->source.period ? budget_reason_text(daemon->paced.reason) : "",
			.cpus = open ? daemon->source.n_rings : 0,
			.samples = stats_sum(daemon->stats,
					     (*ops)->id == SAMPLE_SOURCE_HINT_FAULTS ? STAT_HINTFAULTS : STAT_HWHINTS),
		};
	}
	return n;
}

struct owner_list {
	struct report_owner list[REPORT_OWNERS_MAX];
	size_t n;
};

/* The largest first; all values are a moment's view. */
static int rank_owner(void *ctx, struct owner *owner)
{
	struct owner_list *owners = ctx;
	struct report_owner one = {
		.pid = owner->pid,
		.regions = atomic_load_explicit(&owner->regions, memory_order_relaxed),
		.bytes = atomic_load_explicit(&owner->bytes, memory_order_relaxed),
		.hot_bytes = atomic_load_explicit(&owner->hot_bytes, memory_order_relaxed),
		.evicted = atomic_load_explicit(&owner->evicted, memory_order_relaxed),
	};
	size_t at = owners->n;

	snprintf(one.name, sizeof(one.name), "%.16s", owner->comm);
	while (at > 0 && owners->list[at - 1].bytes < one.bytes)
		at--;
	if (at == REPORT_OWNERS_MAX)
		return 0;
	if (owners->n < REPORT_OWNERS_MAX)
		owners->n++;
	memmove(&owners->list[at + 1], &owners->list[at], (owners->n - 1 - at) * sizeof(one));
	owners->list[at] = one;
	return 0;
}

static void look_at_policy(const struct daemon *daemon, struct report_policy *ret)
{
	struct decider_view view = { 0 };

	ret->name = daemon->current.promote_policy == POLICY_REGION ? "region" : "page";
	if (daemon->current.promote_policy != POLICY_REGION || !daemon->dataplane)
		return;
	dataplane_policy(daemon->dataplane, &view);
	*ret = (struct report_policy){
		.name = ret->name,
		.fitted = view.known,
		.capacity_bytes = view.capacity_bytes,
		.hit_ratio = { view.hit_ratio[0], view.hit_ratio[1], view.hit_ratio[2] },
		.has_known = view.unseen.known,
		.known_ratio = view.unseen.seen,
		.known_margin = view.unseen.margin,
		.waiting = view.waiting,
		.uncertain = view.by_reason[REGION_UNCERTAIN],
		.background = view.by_reason[REGION_BACKGROUND],
		.cooler = view.by_reason[REGION_COOLER],
		.pays_not = view.by_reason[REGION_PAYS_NOT],
		.life_sec = view.life_sec,
		.pays_per_sec = view.pays_per_sec,
	};
}

static void look_at_room(const struct daemon *daemon, struct report_room *ret)
{
	static const char *const ways[] = {
		[WAY_NONE] = "none",
		[WAY_KERNEL] = "kernel",
		[WAY_EXCHANGE] = "exchange",
	};
	struct victims_view view = { .state = VICTIMS_IDLE };

	if (daemon->dataplane)
		dataplane_victims(daemon->dataplane, &view);
	*ret = (struct report_room){
		.way = ways[migrator_way(&daemon->current, daemon->topology)],
		.state = view.state == VICTIMS_IDLE ? "" : victims_state_text[view.state],
		.cold_bytes = view.cold_bytes,
		.quiet_ns = view.quiet_ns,
	};
}

static void look_at_pause(const struct daemon *daemon, struct report_pause *ret)
{
	const struct daemon_pause *pause = &daemon->pause;
	uint64_t now_ns = clock_now_ns(&clock_boottime);

	if (!pause->on)
		return;
	*ret = (struct report_pause){
		.on = true,
		.uid = pause->peer.uid,
		.pid = pause->peer.pid,
		.comm = pause->peer.comm,
		.for_ns = now_ns - pause->since_ns,
		.left_ns = pause->until_ns > now_ns ? pause->until_ns - now_ns : 0,
		.ends = pause->until_ns != 0,
	};
}

static void look_at_helps(const struct daemon *daemon, struct report_helps *ret)
{
	struct holdout_view view = { 0 };

	if (daemon->dataplane)
		dataplane_holdout(daemon->dataplane, &view);
	*ret = (struct report_helps){
		.percent = view.percent,
		.known = view.known,
		.far_held = view.far_held,
		.far_moved = view.far_moved,
		.saved = view.saved,
		.margin = view.margin,
		.has_cpu = view.has_cpu,
		.cpu_back = view.cpu_back,
		.move_ratio = daemon->guard.move_ratio,
		.has_latency = view.has_latency,
		.latency_held_cycles = view.latency_held_cycles,
		.latency_moved_cycles = view.latency_moved_cycles,
	};
}

static void look_at_guard(const struct daemon *daemon, struct report_guard *ret)
{
	const struct guard_view *view = &daemon->guard;

	*ret = (struct report_guard){
		.cause = guard_cause_text[view->cause],
		.left_ns = view->left_ns,
		.back_ratio = view->back_ratio,
		.kernel_demoted_pages = view->kernel_demoted_pages,
		.n_resting = view->n_resting,
	};
	for (size_t i = 0; i < view->n_resting && i < GUARD_SHOWN_MAX && i < REPORT_RESTING_MAX; i++) {
		ret->resting[i].pid = view->resting[i].pid;
		ret->resting[i].name = view->resting[i].comm;
		ret->resting[i].left_ns = view->resting[i].left_ns;
	}
}

static size_t look_at_shares(const struct daemon *daemon, struct report_share *ret)
{
	struct fair_view view[REPORT_SHARES_MAX];
	size_t n = daemon->dataplane ? dataplane_shares(daemon->dataplane, view, REPORT_SHARES_MAX) : 0;

	for (size_t i = 0; i < n; i++)
		ret[i] = (struct report_share){
			.uid = fair_key_uid(view[i].key),
			.rule = fair_key_rule(view[i].key),
			.has_bytes = view[i].has_bytes,
			.wants_bytes = view[i].wants_bytes,
			.share_bytes = view[i].share_bytes,
			.held = view[i].held,
		};
	return n;
}

static size_t look_at_pressure(const struct daemon *daemon, struct report_pressure *ret)
{
	static struct guard_pressure_view view[REPORT_PRESSURE_MAX];
	size_t n = daemon->dataplane ? dataplane_pressure(daemon->dataplane, view, REPORT_PRESSURE_MAX) : 0;

	for (size_t i = 0; i < n; i++) {
		_Static_assert(sizeof(ret[i].cgroup) == sizeof(view[i].path), "copied as it is");
		memcpy(ret[i].cgroup, view[i].path, sizeof(ret[i].cgroup));
		ret[i].cause = guard_pressure_text[view[i].cause];
		ret[i].left_ns = view[i].left_ns;
	}
	return n;
}

void daemon_with_report(struct daemon *daemon, void (*fn)(void *ctx, const struct report *report), void *ctx)
{
	static struct topology_room rooms[NODE_MAX];
	static struct moves moves;
	static struct guest guests[REPORT_GUESTS_MAX];
	struct left left = { .n = 0 };
	static struct owner_list owners;
	static struct report_share shares[REPORT_SHARES_MAX];
	static struct report_pressure pressure[REPORT_PRESSURE_MAX];
	static struct report_migrator shown[MIGRATORS_SHOWN];
	static struct dataplane_migrator migrators[MIGRATORS_SHOWN];
	struct report_source sources[SAMPLE_SOURCE_MAX];
	struct nodeset nodes;
	struct report report = {
		.state = daemon->state,
		.mode = daemon->current.mode == MODE_PROMOTE ? "promote" : "observe",
		.reason = daemon->reason,
		.uptime_ns = clock_now_ns(&clock_monotonic) - daemon->started_ns,
		.pid = (uint32_t)getpid(),
		.sources = sources,
		.topology = daemon->topology,
		.rooms = rooms,
		.headroom_ratio = daemon->current.promote_headroom_percent / 100,
		.stats = daemon->stats,
		.owner_list = owners.list,
		.moves = moves.list,
		.left = left.list,
		.guests = guests,
		.n_guests = guests_read(&daemon->root, guests, REPORT_GUESTS_MAX),
		.migrators = shown,
		.kernel_promotes = daemon->kernel_promotes,
		.kernel_promoted_pages = daemon->promoter.promoted_pages,
		.config = &daemon->current,
		.file = &daemon->file,
		.file_path = daemon->options.config_path,
		.file_mark = daemon->file_mark,
	};
	size_t n_migrators = 0;
	char limit[DAEMON_LIMIT_MAX];

	report.n_sources = list_sources(daemon, sources, SAMPLE_SOURCE_MAX);
	moves.n = 0;
	owners.n = 0;
	if (daemon->dataplane) {
		dataplane_owners(daemon->dataplane, rank_owner, &owners);
		dataplane_usage(daemon->dataplane, &report.usage, &report.owners);
		n_migrators = dataplane_migrators(daemon->dataplane, migrators, MIGRATORS_SHOWN);
		dataplane_outcomes(daemon->dataplane, add_move, &moves);
		dataplane_left_alone(daemon->dataplane, add_left, &left);
	}
	report.n_left = left.n;
	report.n_owner_list = owners.n;
	look_at_policy(daemon, &report.policy);
	look_at_room(daemon, &report.room);
	report.pressure = pressure;
	report.n_pressure = look_at_pressure(daemon, pressure);
	report.shares = shares;
	report.n_shares = look_at_shares(daemon, shares);
	look_at_helps(daemon, &report.helps);
	look_at_pause(daemon, &report.pause);
	look_at_guard(daemon, &report.guard);
	report.n_moves = moves.n;
	for (size_t i = 0; i < n_migrators; i++)
		shown[i] = (struct report_migrator){
			.nid = migrators[i].nid,
			.limit = migrators[i].limit,
			.batch_pages = migrators[i].batch_pages,
			.call_ns = migrators[i].call_ns,
			.page_ns = migrators[i].page_ns,
			.longest_ns = migrators[i].longest_ns,
		};
	report.n_migrators = n_migrators;
	report.limiting = daemon_limiting(daemon, migrators, n_migrators, left.list, left.n, limit, sizeof(limit));

	memset(rooms, 0, sizeof(rooms));
	nodeset_clear(&nodes);
	for (size_t i = 0; daemon->topology && i < daemon->topology->n_nodes; i++)
		nodeset_add(&nodes, daemon->topology->nodes[i].nid);
	/* A status without free memory still says the rest, and 0 free is what it then shows. */
	(void)topology_read_rooms(&daemon->root, &nodes, rooms);
	fn(ctx, &report);
}

static void make_json(void *ctx, const struct report *report)
{
	char **ret = ctx;

	*ret = report_json(report);
}

static char *op_status_json(void *ctx)
{
	char *json = NULL;

	daemon_with_report(ctx, make_json, &json);
	return json;
}

static char *op_options_json(void *ctx)
{
	struct daemon *daemon = ctx;

	return report_options_json(&daemon->current, &daemon->file);
}

static int set_option(struct daemon *daemon, const struct bus_peer *peer, const char *key, const char *value,
		      char *error)
{
	const struct option_info *option = option_find(key);
	struct config before = daemon->current, next = before;
	int r;

	r = config_set(&next, key, value, error);
	if (r < 0)
		return r;
	if (option->change == OPTION_RESTART) {
		snprintf(error, BUS_ERROR_MAX,
			 "%s takes effect at the start only: set it in %s, then systemctl restart pghotd", option->key,
			 daemon->options.config_path);
		return -EBUSY;
	}
	r = daemon_apply_config(daemon, &next, true, error);
	if (r == 0)
		daemon_log_changes(&before, &next, peer);
	return r;
}

static int op_set_option(void *ctx, const struct bus_peer *peer, const char *key, const char *value, char *error)
{
	int r = set_option(ctx, peer, key, value, error);

	if (r < 0)
		daemon_log_refusal(peer, key, value, error);
	return r;
}

static int op_reload(void *ctx, const struct bus_peer *peer, char **ret_note, char *error)
{
	char who[64];

	snprintf(who, sizeof(who), "uid %u (pid %d, %s)", peer->uid, peer->pid, peer->comm);
	return daemon_reload(ctx, peer, who, ret_note, error);
}

static int op_pause(void *ctx, const struct bus_peer *peer, uint64_t for_ns, char *error)
{
	return daemon_pause(ctx, peer, for_ns, clock_now_ns(&clock_boottime), error);
}

static int op_resume(void *ctx, const struct bus_peer *peer, char **ret_note, char *error)
{
	(void)error;
	return daemon_resume(ctx, peer, clock_now_ns(&clock_boottime), ret_note);
}

static int op_note_file(void *ctx, const struct bus_peer *peer, char *error)
{
	return daemon_note_file(ctx, peer, error);
}

static const char *op_state(void *ctx)
{
	const struct daemon *daemon = ctx;

	return report_state_name[daemon->state];
}

static const char *op_mode(void *ctx)
{
	const struct daemon *daemon = ctx;

	return daemon->current.mode == MODE_PROMOTE ? "promote" : "observe";
}

const struct bus_ops daemon_bus_ops = {
	.status_json = op_status_json,
	.options_json = op_options_json,
	.set_option = op_set_option,
	.reload = op_reload,
	.ask = daemon_ask,
	.pause = op_pause,
	.resume = op_resume,
	.note_file = op_note_file,
	.state = op_state,
	.mode = op_mode,
};

/*
 * What a reload says beside "done": tuned values that the file takes back, and options that wait for a restart. Those
 * keep their running value in
 * @next, so that what is shown as current is what runs.
 */
static char *compare_options(struct daemon *daemon, struct config *next)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		return NULL;
	for (size_t i = 0; i < n_options; i++) {
		const struct option_info *option = &option_info[i];
		char was[VALUE_MAX_BYTES] = "", now[VALUE_MAX_BYTES] = "";

		if (config_same(&daemon->current, next, option))
			continue;
		(void)config_get_text(&daemon->current, option, was, sizeof(was));
		(void)config_get_text(next, option, now, sizeof(now));
		if (option->change == OPTION_RESTART) {
			fprintf(out, "%s stays %s until a restart (the file says %s)\n", option->key, was, now);
			memcpy((char *)next + option->offset, (const char *)&daemon->current + option->offset,
			       option->size);
		} else if (!config_same(&daemon->current, &daemon->file, option)) {
			fprintf(out, "%s: tuned value %s reverted to %s\n", option->key, was, now);
		} else {
			fprintf(out, "%s: %s to %s\n", option->key, was, now);
		}
	}
	if (fclose(out) != 0) {
		free(text);
		return NULL;
	}
	return text;
}

/* The file was checked, and so was what runs; what runs and waits for a restart, together with the file, was not. */
static int check_mixture(const struct config *next, char *error)
{
	const struct option_info *option;
	char why[CONFIG_ERROR_MAX];
	int r = config_check(next, &option, why);

	if (r < 0)
		snprintf(error, CONFIG_ERROR_MAX, "needs a restart, since the running %s can't be changed: %.300s",
			 option->key, why);
	return r;
}

/* @text with its lines joined, for one line of the log. */
static void print_joined(FILE *out, const char *text)
{
	for (size_t len; *text; text += len + (text[len] != '\0')) {
		len = strcspn(text, "\n");
		fprintf(out, "%.*s%s", (int)len, text, text[len] && text[len + 1] ? "; " : "");
	}
}

static void log_reload(const char *who, const char *note)
{
	_cleanup_free_ char *line = NULL;
	size_t size;
	FILE *out = open_memstream(&line, &size);

	if (out) {
		print_joined(out, note ? note : "");
		fclose(out);
	}
	message(MESSAGE_RELOADED, NULL, 0, "configuration read again, asked for by %s%s%s", who,
		line && *line ? ": " : "", line ? line : "");
}

int daemon_reload(struct daemon *daemon, const struct bus_peer *peer, const char *who, char **ret_note, char *error)
{
	struct config before = daemon->current, file, next;
	char *note = NULL;
	uint64_t mark = 0;
	int r;

	sd_notify(0, "RELOADING=1");
	r = daemon_load_config(&daemon->options, &file, &mark, error);
	if (r == 0) {
		next = file;
		note = compare_options(daemon, &next);
		r = check_mixture(&next, error);
	}
	if (r == 0)
		r = daemon_apply_config(daemon, &next, false, error);
	sd_notify(0, "READY=1");
	if (r < 0) {
		message(MESSAGE_RELOAD_REFUSED, NULL, 0,
			"reload asked for by %s is refused, the running configuration stays: %s", who, error);
		free(note);
		return r;
	}
	daemon->file = file;
	daemon->file_mark = mark;
	log_reload(who, note);
	daemon_log_changes(&before, &next, peer);
	if (ret_note)
		*ret_note = note;
	else
		free(note);
	return 0;
}

int daemon_note_file(struct daemon *daemon, const struct bus_peer *peer, char *error)
{
	struct config before = daemon->file, file;
	uint64_t mark = 0;
	int r = daemon_load_config(&daemon->options, &file, &mark, error);

	if (r < 0)
		return r;
	daemon->file = file;
	daemon->file_mark = mark;
	daemon_log_saved(&before, &file, daemon->options.config_path, peer);
	return 0;
}
