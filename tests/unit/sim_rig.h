/* SPDX-License-Identifier: GPL-2.0-or-later */
/* sim_rig: small scenarios for the tests of the simulator. */
#pragma once

#include <stdio.h>
#include <string.h>

#include "harness.h"
#include "sim_scenario.h"

/* 64 MiB near, 1 GiB far; a heap of 256 MiB with 32 hot. */
#define SIM_RIG_MACHINE                                                                        \
	"seconds = 20; threads = 4; think_ns = 0;\n"                                           \
	"nodes = ( { mib = 64; latency_ns = 100; gib_per_sec = 1000; tier = 0; cpus = 4; },\n" \
	"          { mib = 1024; latency_ns = 400; gib_per_sec = 1000; tier = 1; } );\n"
#define SIM_RIG_HEAP "memory = ( { name = \"heap\"; mib = 256; node = 1; } );\n"
#define SIM_RIG_HOT                                                                                           \
	"accesses = ( { name = \"hot\"; memory = \"heap\"; pattern = \"uniform\"; first_mib = 100; mib = 32;" \
	" hot = true; } );\n"
#define SIM_RIG_CONFIG "config = { promote = { policy = \"page\"; freq_threshold = 1; }; };\n"

/* Read and check @text. Whoever gives nonsense finds the case failed. */
__attribute__((unused)) static void sim_rig_parse(struct sim_scenario *ret, const char *text)
{
	char error[SIM_ERROR_MAX] = "";
	int r = sim_scenario_parse(text, "test.conf", ret, error);

	if (r == 0)
		r = sim_scenario_check(ret, error);
	CU_ASSERT_EQUAL(r, 0);
	if (r < 0)
		printf("  %s\n", error);
}
