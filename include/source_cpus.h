/* SPDX-License-Identifier: GPL-2.0-or-later */
/* source_cpus: which CPUs a source samples, by sampling.cpus and what /sys says of the machine. Plain value. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fsroot.h"

/* The most that the kernel can be built for on x86-64 (CONFIG_NR_CPUS). */
#define SOURCE_CPUS_MAX 8192

struct source_cpus {
	uint64_t wanted[SOURCE_CPUS_MAX / 64]; /* to be sampled whenever they are online */
	uint64_t online[SOURCE_CPUS_MAX / 64]; /* of those wanted: at the time of reading */
	size_t n_wanted;
};

/*
 * Read @spec (as sampling.cpus): "all" is every possible CPU but those that are isolated (isolcpus=) or run without a
 * tick (nohz_full=), since sampling would interrupt what they were set apart for; a list is what it says, as far as the
 * machine has such CPUs. 0, -EINVAL for a malformed @spec, -ERANGE for a CPU of SOURCE_CPUS_MAX or more, -ENODEV when
 * nothing wanted is online, -EIO when /sys says what isn't understood, or what reading it gave. Any thread.
 */
int source_cpus_read(const struct fsroot *root, const char *spec, struct source_cpus *ret);

/* false for a CPU that is none. */
bool source_cpus_wants(const struct source_cpus *cpus, int cpu);

/* Lowest wanted CPU that was online and is at least @from, or -1. */
int source_cpus_next_online(const struct source_cpus *cpus, int from);
