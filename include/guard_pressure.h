/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * guard_pressure: are the control groups well whose memory is moved? The group of each process that something was
 * promoted of is watched; it is left in peace for guard.resume_after_sec when
 *
 *   pressure  its tasks waited for memory for guard.pressure_percent of the last ten seconds (memory.pressure)
 *   swap      more than GUARD_SWAP_BYTES of it went to swap since the last look (memory.stat, memory.swap.current)
 *   oom       the kernel killed one of its processes for want of memory (memory.events)
 *
 * and for so long again as that goes on. Of a group without the memory controller the one above is watched. Where there
 * is no cgroup v2, and for processes in none, it is /proc/pressure/memory that holds all of them.
 *
 * Writers     one thread (guard_pressure_step())
 * Readers     migrators, the report
 * Protection  relaxed atomics for what migrators ask; a lock for names
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fsroot.h"

struct clock;
struct config;
struct guard_pressure;
struct owner;
struct owners;
struct stats_slot;

#define GUARD_GROUPS           64  /* control groups; what is in others isn't watched */
#define GUARD_GROUP_PATH       256 /* bytes of a path; longer ones aren't watched */
#define GUARD_PRESSURE_STEP_NS (UINT64_C(2) * 1000000000)
#define GUARD_SWAP_BYTES       (UINT64_C(1) << 20)

enum guard_pressure_cause {
	GUARD_WELL,
	GUARD_PRESSURE,
	GUARD_SWAP,
	GUARD_OOM,
	GUARD_PRESSURE_CAUSES,
};

extern const char *const guard_pressure_text[GUARD_PRESSURE_CAUSES]; /* plain words for people; "" for well */

struct guard_pressure_params {
	struct owners *owners;
	struct fsroot root; /* that has proc/ and sys/; borrowed descriptor */
	const struct clock *clock;
	struct stats_slot *counted; /* the stepping thread's own */
};

struct guard_pressure *guard_pressure_new(const struct guard_pressure_params *params); /* NULL: no memory */
/* When nobody uses it any more. Accepts NULL. */
void guard_pressure_free(struct guard_pressure *guard);

/*
 * Look, when GUARD_PRESSURE_STEP_NS have gone by since the last time. Logs when a hold begins and when it ends. Reads
 * three files for each group at most, and three for up to 64 processes. One thread, registered with rcu, outside a read
 * section.
 */
void guard_pressure_step(struct guard_pressure *guard, const struct config *config);

/* Is the memory of @owner to be left in peace now? In a read section; any thread. */
bool guard_pressure_holds(const struct guard_pressure *guard, const struct config *config, const struct owner *owner,
			  uint64_t now_ns);

/* For the report; any thread. */
struct guard_pressure_view {
	char path[GUARD_GROUP_PATH]; /* of the group, "/app.slice"; "": the machine */
	enum guard_pressure_cause cause;
	uint64_t left_ns;
};

/* Groups that are held, up to @max; returns how many. */
size_t guard_pressure_look(struct guard_pressure *guard, struct guard_pressure_view *ret, size_t max);
