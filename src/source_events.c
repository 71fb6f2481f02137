/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "buffers.h"
#include "config.h"
#include "parse.h"
#include "perf_ring.h"
#include "privops.h"
#include "source_cpus.h"
#include "source_events.h"
#include "source_rivals.h"

/* The share of a ring that is filled when its reader is woken: the rest is for what comes until it runs. */
#define WAKE_SHARE 4

struct source_events {
	struct perf_event_attr attr;
	struct source_cpus cpus;
	uint32_t sample_flags;
	size_t ring_bytes; /* a power of two */
	size_t room;       /* of source->rings: one for each wanted CPU, so that they never move */
	bool enabled;
	bool refused; /* the last failure was over the memory for a ring, not about the event */
	char remark[SOURCE_WHY_MAX];
};

/* Of /proc/self/status: the number behind @key, in @base; false when it doesn't say. */
static bool status_number(const char *text, const char *key, int base, uint64_t *ret)
{
	const char *line = strstr(text, key);
	char *end;

	if (!line)
		return false;
	line += strlen(key);
	errno = 0;
	*ret = strtoull(line, &end, base);
	return end != line && errno == 0;
}

struct rights {
	bool admin, perfmon; /* capabilities; false also where /proc doesn't say */
	bool seccomp;        /* a filter is in force */
	bool in_userns;      /* capabilities count for nothing outside of it */
};

static struct rights read_rights(const struct fsroot *root)
{
	struct rights rights = { 0 };
	char text[4096], map[256];
	uint64_t caps, mode, inside, outside, n;

	if (fsroot_read(root, text, sizeof(text), "proc/self/status") >= 0) {
		if (status_number(text, "\nCapEff:", 16, &caps)) {
			rights.admin = caps >> CAP_SYS_ADMIN & 1;
			rights.perfmon = caps >> CAP_PERFMON & 1;
		}
		rights.seccomp = status_number(text, "\nSeccomp:", 10, &mode) && mode != 0;
	}
	/* The first user namespace maps everything to itself: user_namespaces(7). */
	if (fsroot_read(root, map, sizeof(map), "proc/self/uid_map") > 0 &&
	    sscanf(map, "%" SCNu64 " %" SCNu64 " %" SCNu64, &inside, &outside, &n) == 3)
		rights.in_userns = n < UINT32_MAX;
	return rights;
}

/* Debian and others have a level 3, at which CAP_PERFMON is not enough. */
static void explain_refusal(const struct fsroot *root, char *why)
{
	struct rights rights = read_rights(root);
	char text[32];
	int64_t level;

	if (fsroot_read(root, text, sizeof(text), "proc/sys/kernel/perf_event_paranoid") < 0 ||
	    parse_i64(text, INT32_MIN, INT32_MAX, &level) < 0)
		snprintf(why, SOURCE_WHY_MAX, "the kernel refuses to open perf events: run pghotd as root");
	else if (!rights.admin && !(level < 3 && rights.perfmon) && level >= 3)
		snprintf(why, SOURCE_WHY_MAX,
			 "perf events need CAP_SYS_ADMIN while kernel.perf_event_paranoid is %" PRId64
			 ": run pghotd as root or with its helper (systemctl start pghotd-helper.socket), or: sysctl "
			 "-w "
			 "kernel.perf_event_paranoid=2 and give it CAP_PERFMON",
			 level);
	else if (!rights.admin && !(level < 3 && rights.perfmon))
		snprintf(why, SOURCE_WHY_MAX,
			 "perf events need CAP_PERFMON (kernel.perf_event_paranoid is %" PRId64
			 "): run pghotd as root, or give it that capability",
			 level);
	else if (rights.in_userns)
		snprintf(why, SOURCE_WHY_MAX,
			 "perf events are refused although pghotd has the capability: it has it in a user namespace "
			 "only (a rootless container); start pghotd outside of it");
	else if (rights.seccomp)
		snprintf(why, SOURCE_WHY_MAX,
			 "perf events are refused although pghotd has the capability, and a seccomp filter is in "
			 "force: "
			 "allow perf_event_open in it (SystemCallFilter= of a unit, --security-opt seccomp= of a "
			 "container), or start pghotd without");
	else
		snprintf(why, SOURCE_WHY_MAX,
			 "perf events are refused although pghotd has the capability: a container, a seccomp filter or "
			 "a security module forbids perf_event_open(); allow it there, or start pghotd outside of it");
}

/* Someone has the unit for himself, as only a unit of that kind lets him. */
static void explain_busy(const struct fsroot *root, char *why)
{
	char names[120];
	size_t n = source_rivals_name(root, names, sizeof(names));

	snprintf(why, SOURCE_WHY_MAX,
		 "another program has the perf unit just now%s%s%s: end it; tried again each minute",
		 n ? ": " : " (perf record, another profiler)", n ? names : "",
		 n > SOURCE_RIVALS_MAX ? " and more" : "");
}

/* A line for failure @r to open an event on @cpu; returns what to hand on. */
static int explain_open(const struct fsroot *root, int r, int cpu, char *why)
{
	struct rlimit limit = { 0 };

	switch (r) {
	case -EACCES:
	case -EPERM:
		explain_refusal(root, why);
		return -EACCES;
	case -EBUSY:
		explain_busy(root, why);
		return -EAGAIN;
	case -ENOSYS:
		snprintf(why, SOURCE_WHY_MAX,
			 "this kernel has no perf events (CONFIG_PERF_EVENTS), or a seccomp filter hides them");
		return -ENOENT;
	case -ENOENT:
	case -EOPNOTSUPP:
		snprintf(why, SOURCE_WHY_MAX, "this kernel or machine has no such perf event");
		return -ENOENT;
	case -EINVAL:
	case -E2BIG:
		snprintf(why, SOURCE_WHY_MAX,
			 "this kernel doesn't know the perf event that is asked for: it needs Linux 5.11 or newer");
		return -ENOENT;
	case -ECONNRESET:
	case -ECONNREFUSED:
	case -ENOTCONN:
	case -EPIPE:
	case -ETIMEDOUT:
		snprintf(why, SOURCE_WHY_MAX,
			 "the helper process that opens events doesn't answer (%s): systemctl status "
			 "pghotd-helper.service; tried again each minute",
			 strerror(-r));
		return -EAGAIN;
	case -EMFILE:
		getrlimit(RLIMIT_NOFILE, &limit);
		snprintf(why, SOURCE_WHY_MAX,
			 "too few file descriptors for one perf event on each CPU, the limit is %" PRIu64
			 ": raise it (LimitNOFILE= in pghotd.service, ulimit -n)",
			 (uint64_t)limit.rlim_cur);
		return r;
	default:
		snprintf(why, SOURCE_WHY_MAX, "cannot open a perf event on CPU %d: %s", cpu, strerror(-r));
		return r;
	}
}

static int read_cpus(const struct source_env *env, struct source_cpus *ret, char *why)
{
	const char *spec = env->config->sampling_cpus;
	int r = source_cpus_read(env->root, spec, ret);

	if (r == -EINVAL || r == -ERANGE)
		snprintf(why, SOURCE_WHY_MAX,
			 "sampling.cpus = \"%.64s\" is no list of CPUs, as in \"0-3,8\", nor \"all\"", spec);
	else if (r == -ENODEV)
		snprintf(why, SOURCE_WHY_MAX,
			 "sampling.cpus = \"%.64s\" leaves no CPU that is online (\"all\" leaves out isolated and "
			 "nohz_full ones)",
			 spec);
	else if (r < 0)
		snprintf(why, SOURCE_WHY_MAX, "cannot read which CPUs there are from /sys/devices/system/cpu: %s",
			 strerror(-r));
	return r;
}

bool source_events_raise_descriptors(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= limit.rlim_max)
		return false;
	limit.rlim_cur = limit.rlim_max;
	return setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

static int open_event(const struct source_env *env, const struct perf_event_attr *attr, int cpu)
{
	int fd = privops_event_open(env->privops, attr, cpu);

	if (fd == -EMFILE && source_events_raise_descriptors())
		fd = privops_event_open(env->privops, attr, cpu);
	return fd;
}

int source_events_try(const struct source_env *env, const struct perf_event_attr *attr)
{
	char why[SOURCE_WHY_MAX];
	struct source_cpus cpus;
	int r = read_cpus(env, &cpus, why);

	if (r < 0)
		return r;
	r = open_event(env, attr, source_cpus_next_online(&cpus, 0));
	if (r < 0)
		return r;
	close(r);
	return 0;
}

int source_events_probe(const struct source_env *env, const struct perf_event_attr *attr, char *why)
{
	struct source_cpus cpus;
	int r, fd = -ENODEV;

	r = read_cpus(env, &cpus, why);
	if (r < 0)
		return r;
	/* One may have gone offline since. */
	for (int cpu = source_cpus_next_online(&cpus, 0); cpu >= 0; cpu = source_cpus_next_online(&cpus, cpu + 1)) {
		fd = open_event(env, attr, cpu);
		if (fd >= 0) {
			close(fd);
			return 0;
		}
		if (fd != -ENODEV)
			return explain_open(env->root, fd, cpu, why);
	}
	snprintf(why, SOURCE_WHY_MAX, "every CPU of sampling.cpus went offline");
	return -ENODEV;
}

static struct source_ring *find_ring(struct source *source, int cpu)
{
	for (size_t i = 0; i < source->n_rings; i++)
		if (source->rings[i].cpu == cpu)
			return &source->rings[i];
	return NULL;
}

/* Open and map into @ret, which stays as it is on failure. */
static int open_ring(struct source *source, struct source_events *events, int cpu, struct source_ring *ret)
{
	struct perf_event_attr attr = events->attr;
	struct perf_ring *ring;
	int fd, r;

	attr.watermark = 1;
	attr.wakeup_watermark = (uint32_t)(events->ring_bytes / WAKE_SHARE);
	events->refused = false;
	fd = open_event(&source->env, &attr, cpu);
	if (fd < 0)
		return fd;
	r = perf_ring_map(fd, events->ring_bytes, &ring);
	if (r < 0) {
		events->refused = true;
		close(fd);
		return r;
	}
	*ret = (struct source_ring){
		.cpu = cpu,
		.fd = fd,
		.ring = ring,
		.sample_type = attr.sample_type,
		.sample_id_all = attr.sample_id_all,
		.source = source->ops->id,
		.sample_flags = events->sample_flags,
	};
	return 0;
}

static void close_ring(struct source_ring *ring)
{
	perf_ring_free(ring->ring);
	ring->ring = NULL;
	if (ring->fd >= 0)
		close(ring->fd);
	ring->fd = -1;
}

static void close_all(struct source *source)
{
	for (size_t i = 0; i < source->n_rings; i++)
		close_ring(&source->rings[i]);
	source->n_rings = 0;
}

/* Could a smaller ring do where the last one failed with @r? */
static bool is_too_large(const struct source_events *events, int r)
{
	return events->refused && (r == -EPERM || r == -ENOMEM);
}

/* Next smaller size. false: there is none. */
static bool halve(struct source_events *events)
{
	if (events->ring_bytes <= (size_t)sysconf(_SC_PAGESIZE))
		return false;
	events->ring_bytes /= 2;
	return true;
}

/*
 * That the ring of @whom is smaller than was asked for, @r being the reason. What the kernel counts rings against:
 * perf_mmap() in kernel/events/core.c.
 */
static void remark_small(const struct source *source, struct source_events *events, const char *whom, int r)
{
	int64_t asked_kib = source->env.config->threads_ring_kib;
	size_t kib = events->ring_bytes >> 10;
	char limit[32] = "?";

	if (r == -ENOMEM) {
		snprintf(events->remark, SOURCE_WHY_MAX,
			 "the ring of %s has %zu KiB instead of threads.ring_kib = %" PRId64
			 ": the kernel has no memory for more",
			 whom, kib, asked_kib);
		return;
	}
	(void)fsroot_read(source->env.root, limit, sizeof(limit), "proc/sys/kernel/perf_event_mlock_kb");
	snprintf(events->remark, SOURCE_WHY_MAX,
		 "the ring of %s has %zu KiB instead of threads.ring_kib = %" PRId64
		 ": more is over kernel.perf_event_mlock_kb (%s for each CPU) and RLIMIT_MEMLOCK; raise either, or "
		 "give "
		 "pghotd CAP_IPC_LOCK",
		 whom, kib, asked_kib, limit);
}

static void explain_ring(const struct source *source, int r, char *why)
{
	char limit[32] = "?";

	(void)fsroot_read(source->env.root, limit, sizeof(limit), "proc/sys/kernel/perf_event_mlock_kb");
	if (r == -EPERM)
		snprintf(why, SOURCE_WHY_MAX,
			 "not even a ring of one page for each CPU is within kernel.perf_event_mlock_kb (%s for each "
			 "CPU, "
			 "other perf users count too) and RLIMIT_MEMLOCK: raise either, or give pghotd CAP_IPC_LOCK",
			 limit);
	else
		snprintf(why, SOURCE_WHY_MAX, "cannot map the ring of a perf event: %s", strerror(-r));
}

/* All rings of one size, or none. */
static int open_all(struct source *source, struct source_events *events, int *cpu)
{
	for (*cpu = source_cpus_next_online(&events->cpus, 0); *cpu >= 0;
	     *cpu = source_cpus_next_online(&events->cpus, *cpu + 1)) {
		int r = open_ring(source, events, *cpu, &source->rings[source->n_rings]);

		if (r == 0)
			source->n_rings++;
		else if (r != -ENODEV) {
			close_all(source);
			return r;
		}
	}
	return source->n_rings > 0 ? 0 : -ENODEV;
}

/*
 * Smaller rings for all rather than for the last ones: the limit is one for all of them, and a CPU with a tiny ring
 * would lose what its neighbours have room for.
 */
static int open_all_smaller(struct source *source, struct source_events *events)
{
	int cpu, small = 0;

	for (;;) {
		int r = open_all(source, events, &cpu);

		if (r == 0) {
			if (small)
				remark_small(source, events, "each CPU", small);
			return 0;
		}
		if (is_too_large(events, r) && halve(events)) {
			small = r;
			continue;
		}
		if (events->refused) {
			explain_ring(source, r, source->why);
			return r;
		}
		if (r == -ENODEV) {
			snprintf(source->why, SOURCE_WHY_MAX, "every CPU of sampling.cpus went offline");
			return r;
		}
		return explain_open(source->env.root, r, cpu, source->why);
	}
}

int source_events_open(struct source *source, const struct perf_event_attr *attr, uint32_t sample_flags,
		       struct source_events **ret)
{
	struct source_events *events = calloc(1, sizeof(*events));
	int r = -ENOMEM;

	source->rings = NULL;
	source->n_rings = 0;
	if (!events)
		goto no_memory;
	events->attr = *attr;
	events->sample_flags = sample_flags;
	r = read_cpus(&source->env, &events->cpus, source->why);
	if (r < 0)
		goto fail;
	events->ring_bytes = buffers_ring_bytes((uint64_t)source->env.config->threads_ring_kib,
						events->cpus.n_wanted ? events->cpus.n_wanted : 1);
	events->room = events->cpus.n_wanted;
	source->rings = calloc(events->room, sizeof(*source->rings));
	if (!source->rings) {
		r = -ENOMEM;
		goto no_memory;
	}
	r = open_all_smaller(source, events);
	if (r < 0)
		goto fail;
	*ret = events;
	return 0;

no_memory:
	snprintf(source->why, SOURCE_WHY_MAX, "out of memory");
fail:
	source_events_close(source, events);
	return r;
}

int source_events_enable(struct source *source, struct source_events *events, bool on)
{
	int result = 0;

	events->enabled = on;
	for (size_t i = 0; i < source->n_rings; i++) {
		int r;

		if (source->rings[i].fd < 0)
			continue;
		r = privops_event_enable(source->env.privops, source->rings[i].fd, on);
		if (r < 0 && result == 0)
			result = r;
	}
	return result;
}

int source_events_cpu_online(struct source *source, struct source_events *events, int cpu, struct source_ring **ret)
{
	struct source_ring opened, *place = find_ring(source, cpu);
	size_t before = events->ring_bytes;
	int r, small = 0;

	if (!source_cpus_wants(&events->cpus, cpu))
		return -ENOENT;
	if (place && place->ring)
		return -EEXIST;
	while ((r = open_ring(source, events, cpu, &opened)) < 0 && is_too_large(events, r) && halve(events))
		small = r;
	if (r == 0 && small) {
		char whom[32];

		snprintf(whom, sizeof(whom), "CPU %d", cpu);
		remark_small(source, events, whom, small);
	}
	/* The others keep their size, and it is the one to begin with for the next to come. */
	events->ring_bytes = before;
	if (r < 0)
		return r;
	if (events->enabled)
		r = privops_event_enable(source->env.privops, opened.fd, true);
	if (r < 0) {
		close_ring(&opened);
		return r;
	}
	/* There is room for every wanted CPU once. */
	if (!place)
		place = &source->rings[source->n_rings++];
	*place = opened;
	*ret = place;
	return 0;
}

void source_events_cpu_offline(struct source *source, int cpu)
{
	struct source_ring *ring = find_ring(source, cpu);

	if (ring)
		close_ring(ring);
}

void source_events_close(struct source *source, struct source_events *events)
{
	/* Closing the last descriptor ends the event, but switched off first it fills no ring that is going away. */
	if (events && events->enabled)
		(void)source_events_enable(source, events, false);
	close_all(source);
	free(source->rings);
	source->rings = NULL;
	free(events);
}

const char *source_events_remark(const struct source_events *events)
{
	return events->remark;
}

void source_events_set_period(struct source_events *events, uint64_t period)
{
	events->attr.sample_period = period;
}
