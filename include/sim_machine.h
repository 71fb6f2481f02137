/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sim_machine: a scenario's machine as the daemon reads it: a folder with sys/ and proc/. It lies in $TMPDIR, else
 * /dev/shm, else /tmp, and goes with the machine. No privilege is needed.
 *
 * Owner   the one thread of the simulator
 */
#pragma once

#include <stdint.h>

#include "fsroot.h"
#include "sim_place.h"

struct sim_machine {
	char dir[64];
	struct fsroot root; /* fd -1: there is none */
	const struct sim_place *place;
	int zoneinfo; /* a descriptor of proc/zoneinfo */
	int vmstat;   /* and of proc/vmstat */
	uint64_t written_free[SIM_NODES_MAX];
};

/* Pid of the process that scenarios call @number. */
uint32_t sim_machine_pid(int64_t number);
int64_t sim_machine_process(uint32_t pid); /* the other way round */

/* Make the folder. 0, or -errno with nothing left behind. @place is borrowed. */
int sim_machine_init(struct sim_machine *machine, const struct sim_place *place);
/* Take it away. A machine of all 0 with a root of -1 is accepted. */
void sim_machine_free(struct sim_machine *machine);

/* Write how much is free now; nothing when that is what stands there. 0 or -errno. */
int sim_machine_update(struct sim_machine *machine);

/* Write how many pages the kernel has demoted. 0 or -errno. */
int sim_machine_put_demoted(struct sim_machine *machine, uint64_t pages);
