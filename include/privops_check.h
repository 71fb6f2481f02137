/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * privops_check: what the helper does for the main process and what not. It believes nothing that it is told: units and
 * their formats it reads itself. All that isn't named here is refused.
 *
 *   events    the page faults of hint_faults; the units ibs_op and ibs_mprof, in the bits of the fields that source_ibs
 *             sets. Always of one CPU that may exist, all programs, with CLOCK_MONOTONIC, opened switched off, with
 *             nothing in a sample beyond what the decoder knows: no stack, no registers, no contents of memory.
 *   settings  kernel.numa_balancing to 2 or 3, its promotion rate limit to 0. What they were is in the helper's own
 *             file, and can only be put back.
 *   questions enum fsroot_question.
 *
 * Helper process only.
 */
#pragma once

#include "fsroot.h"
#include "privops_wire.h"

#define PRIVOPS_UNITS 2 /* ibs_op, ibs_mprof */

/* What this machine has to open. */
struct privops_bounds {
	size_t n_units;
	struct {
		uint32_t type;    /* attr.type; never one that every kernel numbers alike */
		uint64_t mask[3]; /* of attr.config, config1, config2: bits that may be set */
	} unit[PRIVOPS_UNITS];
	int cpus; /* CPUs 0..cpus-1 may exist */
};

/* From @root. A unit that can't be read is none; without a list of CPUs in /sys there are none. */
void privops_check_bounds(const struct fsroot *root, struct privops_bounds *ret);

/*
 * Take a packet apart. 0; -EBADMSG when it has another length or something where nothing belongs, -EPROTONOSUPPORT from
 * another build, -EBADRQC for a verb that isn't on the list. Pure.
 */
int privops_check_parse(const void *data, size_t len, struct privops_request *ret);

/* 0, or -EBADRQC: not on the list. No kernel says that, so what the kernel refused is told apart. Pure. */
int privops_check_event(const struct privops_event *event, const struct privops_bounds *bounds);
int privops_check_setting(uint32_t setting, uint64_t value);
int privops_check_question(const struct privops_request *request);
