/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cleanup.h"
#include "daemon.h"
#include "daemon_inspect.h"
#include "dataplane.h"
#include "dataplane_inspect.h"
#include "evidence.h"
#include "parse.h"
#include "sample.h"
#include "tracer.h"

#define NODE_BIT_LAST 63

static uint64_t lower_nodes(const struct daemon *daemon)
{
	uint64_t mask = 0;

	nodeset_for_each (nid, &daemon->topology->lower)
		mask |= UINT64_C(1) << (nid < NODE_BIT_LAST ? nid : NODE_BIT_LAST);
	return mask;
}

/* 0x7f00..., as /proc/PID/maps has it with or without 0x. */
static int parse_address(const char *text, uint64_t *ret)
{
	char *end;

	errno = 0;
	*ret = strtoull(text, &end, 16);
	return errno || end == text || *end || text[0] == '-' || text[0] == '+' || text[0] == ' ' ? -EINVAL : 0;
}

static int parse_pid(const char *text, uint64_t *ret, char *error)
{
	if (parse_u64(text, 1, INT32_MAX, ret) == 0)
		return 0;
	snprintf(error, BUS_ERROR_MAX, "\"%.20s\" is no pid", text);
	return -EINVAL;
}

static bool may_trace(const struct daemon *daemon, const struct bus_peer *peer, uint32_t pid)
{
	return peer->groups ? tracer_may(&daemon->root, peer->uid, peer->groups, peer->n_groups, pid)
			    : tracer_may(&daemon->root, peer->uid, &peer->gid, 1, pid);
}

static int not_for_you(const struct bus_peer *peer, uint64_t pid, char *error)
{
	snprintf(error, BUS_ERROR_MAX,
		 "addresses of pid %llu are for root and for who may trace it, which uid %u may not: sudo pghotctl ...",
		 (unsigned long long)pid, peer->uid);
	return -EPERM;
}

static json_t *node_list(uint64_t nodes)
{
	json_t *array = json_array();

	for (int nid = 0; nid <= NODE_BIT_LAST; nid++)
		if (nodes >> nid & 1)
			json_array_append_new(array, json_integer(nid));
	return array;
}

static json_t *region_json(const struct daemon *daemon, const struct dataplane_explained *known)
{
	static const char *const kinds[] = { "", "whole", "pages", "picked" };
	const struct dataplane_region *r = &known->region;
	char addr[32];

	if (!known->has_region)
		return json_null();
	snprintf(addr, sizeof(addr), "0x%llx", (unsigned long long)r->addr);
	return json_pack("{s:s, s:I, s:i, s:i, s:i, s:f, s:I, s:I, s:o, s:b, s:s, s:b, s:b, s:i, s:s, s:f, s:f, s:f}",
			 "address", addr, "page_bytes", (json_int_t)r->page_bytes, "samples", (int)r->samples,
			 "seconds", (int)r->seconds, "pages", (int)r->pages, "rate_per_sec", r->rate_per_sec, "idle_ns",
			 (json_int_t)r->idle_ns, "watched_ns", (json_int_t)r->watched_ns, "nodes", node_list(r->nodes),
			 "far", (r->nodes & lower_nodes(daemon)) != 0, "decided",
			 kinds[r->decision & REGION_DECISION_KIND], "done", (r->decision & REGION_DECISION_DONE) != 0,
			 "noted", (r->decision & REGION_DECISION_NOTED) != 0, "tries",
			 (int)((r->decision & REGION_DECISION_TRIES) / REGION_DECISION_TRY), "reason",
			 known->has_reason ? known->reason : "", "share", known->share, "heat_per_sec", known->rate,
			 "threshold_per_sec", known->threshold);
}

static int explain(struct daemon *daemon, const struct bus_peer *peer, const char *first, const char *second,
		   char **ret, char *error)
{
	struct dataplane_explained known;
	uint64_t pid, addr = 0;
	json_t *doc;
	char name[20];
	int r = parse_pid(first, &pid, error);

	if (r < 0)
		return r;
	if (*second && parse_address(second, &addr) < 0) {
		snprintf(error, BUS_ERROR_MAX, "\"%.40s\" is no address; as in /proc/PID/maps: 7f3a12000000", second);
		return -EINVAL;
	}
	if (*second && !may_trace(daemon, peer, (uint32_t)pid))
		return not_for_you(peer, pid, error);
	if (!dataplane_explain(daemon->dataplane, (uint32_t)pid, addr, &daemon->current, &daemon->topology->lower,
			       clock_now_ns(&clock_monotonic), &known)) {
		snprintf(error, BUS_ERROR_MAX,
			 "nothing is known of pid %llu: no sample of it came, or none for two minutes",
			 (unsigned long long)pid);
		return -ESRCH;
	}
	daemon_process_name(&daemon->root, known.pid, known.comm);
	snprintf(name, sizeof(name), "%.15s", known.comm);
	for (unsigned char *p = (unsigned char *)name; *p; p++)
		if (*p < 0x20 || *p > 0x7e)
			*p = '?';
	doc = json_pack("{s:i, s:I, s:s, s:s, s:I, s:I, s:I, s:I, s:s, s:s, s:i, s:b, s:s, s:f, s:i, s:o}", "schema",
			REPORT_SCHEMA, "pid", (json_int_t)known.pid, "name", name, "mode",
			daemon->current.mode == MODE_PROMOTE ? "promote" : "observe", "regions",
			(json_int_t)known.regions, "bytes", (json_int_t)known.bytes, "hot_bytes",
			(json_int_t)known.hot_bytes, "evicted_regions", (json_int_t)known.evicted, "verdict",
			known.verdict, "left", known.left, "rule", known.rule, "address_asked", addr != 0, "policy",
			daemon->current.promote_policy == POLICY_REGION ? "region" : "page", "confidence",
			daemon->current.promote_confidence, "epoch_ms", (int)daemon->current.promote_epoch_ms, "region",
			region_json(daemon, &known));
	*ret = doc ? json_dumps(doc, JSON_COMPACT | JSON_REAL_PRECISION(6)) : NULL;
	json_decref(doc);
	return 0;
}

struct viewer {
	struct daemon *daemon;
	const struct bus_peer *peer;
	uint32_t pid; /* the last that was asked about, */
	bool allowed; /* and what came of it */
};

static bool name_for(void *ctx, uint32_t owner_slot, char comm[16])
{
	const struct viewer *viewer = ctx;

	return dataplane_owner_name(viewer->daemon->dataplane, owner_slot, comm);
}

static bool may_trace_for(void *ctx, uint32_t pid)
{
	struct viewer *viewer = ctx;

	if (viewer->pid != pid)
		viewer->allowed = may_trace(viewer->daemon, viewer->peer, pid);
	viewer->pid = pid;
	return viewer->allowed;
}

static int heat(struct daemon *daemon, const struct bus_peer *peer, const char *first, const char *second, char **ret,
		char *error)
{
	struct viewer viewer = { .daemon = daemon, .peer = peer };
	struct heat_params params = {
		.nid = -1,
		.lower_nodes = lower_nodes(daemon),
		.ctx = &viewer,
		.name = name_for,
		.may_trace = may_trace_for,
	};
	_cleanup_free_ struct dataplane_region *regions = NULL;
	uint64_t pid = 0, nid;
	size_t n;
	int r = *first ? parse_pid(first, &pid, error) : 0;

	if (r < 0)
		return r;
	if (*second && (parse_u64(second, 0, NODE_MAX - 1, &nid) < 0 || !topology_node(daemon->topology, (int)nid))) {
		snprintf(error, BUS_ERROR_MAX, "this machine has no node %.20s", second);
		return -EINVAL;
	}
	if (*second)
		params.nid = (int)nid;
	if (pid && !may_trace(daemon, peer, (uint32_t)pid))
		return not_for_you(peer, pid, error);
	params.pid = (uint32_t)pid;
	regions = calloc(DATAPLANE_REGIONS_MAX, sizeof(*regions));
	if (!regions)
		return 0; /* no document: no memory */
	n = dataplane_regions(daemon->dataplane, (uint32_t)pid, clock_now_ns(&clock_monotonic), regions,
			      DATAPLANE_REGIONS_MAX, &params.parts);
	*ret = daemon_heat_json(regions, n, &params);
	return 0;
}

int daemon_ask(void *ctx, const struct bus_peer *peer, enum bus_question question, const char *first,
	       const char *second, char **ret, char *error)
{
	struct daemon *daemon = ctx;

	*ret = NULL;
	if (!daemon->dataplane) {
		snprintf(error, BUS_ERROR_MAX, "nothing is known: there was no slow tier of memory yet");
		return -ENODATA;
	}
	switch (question) {
	case BUS_EXPLAIN:
		return explain(daemon, peer, first, second, ret, error);
	case BUS_HEAT:
		return heat(daemon, peer, first, second, ret, error);
	}
	return -ENOTSUP;
}
