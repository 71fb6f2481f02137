/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * source_events: one event and one ring for each sampled CPU: the part that every source by perf events does alike,
 * with the sentences for what can go wrong in it. Main thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "source.h"

struct perf_event_attr;
struct source_events;

/*
 * Could such an event be opened here? Opens it on the lowest sampled CPU that is online and closes it again. 0; -EACCES
 * no permission, -ENOENT the kernel has no such event, -ENODEV no CPU to sample, -EAGAIN someone else has the unit just
 * now, or -errno; all but 0 with a line in @why (SOURCE_WHY_MAX bytes).
 */
int source_events_probe(const struct source_env *env, const struct perf_event_attr *attr, char *why);

/* The same without a word: what opening on that CPU gave, as it is, 0 or -errno. */
int source_events_try(const struct source_env *env, const struct perf_event_attr *attr);

/*
 * Open and map an event by @attr on each CPU of sampling.cpus that is online, disabled, into @source->rings. Wake-up
 * and ring size are set here: threads.ring_kib, or half of it as often as the memory limit for rings wants, then alike
 * for all CPUs; source_events_remark() says so. Raises RLIMIT_NOFILE up to its hard limit where that is needed. 0, or
 * -errno with @source->why, nothing being open then: as source_events_probe(), -EPERM over the memory limit even with
 * rings of one page, -EMFILE, -ENOMEM.
 */
int source_events_open(struct source *source, const struct perf_event_attr *attr, uint32_t sample_flags,
		       struct source_events **ret);

/* The next four are those of struct source_ops. */
int source_events_enable(struct source *source, struct source_events *events, bool on);
int source_events_cpu_online(struct source *source, struct source_events *events, int cpu, struct source_ring **ret);
void source_events_cpu_offline(struct source *source, int cpu);
/* Period of the events of CPUs that come online from now on. */
void source_events_set_period(struct source_events *events, uint64_t period);
void source_events_close(struct source *source, struct source_events *events); /* accepts NULL */

/*
 * One descriptor for each sampled CPU, and a few: raise the soft limit, which is for programs that use select(), to the
 * hard one. true when that could be done; where the hard one is too low, opening says so.
 */
bool source_events_raise_descriptors(void);

/* What could be better, "" when nothing. */
const char *source_events_remark(const struct source_events *events);
