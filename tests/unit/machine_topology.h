/* SPDX-License-Identifier: GPL-2.0-or-later */
/* machine_topology: read a test machine, and say what is expected of it in short texts. */
#pragma once

#include <stdbool.h>

#include "harness.h"
#include "machine.h"
#include "topology.h"

static const struct topology_options no_options = { .target_nid = -1 };

/* noinline: gcc 12 at -O3 takes what is in the topology for what is on the stack here (-Wdangling-pointer). */
MACHINE_UNUSED __attribute__((noinline)) static struct topology *read_machine(const struct machine *m,
									      const struct topology_options *options)
{
	struct topology *topology = NULL;
	char error[512] = "";
	int r = topology_read(&m->root, options ? options : &no_options, &topology, error, sizeof(error));

	CU_ASSERT_EQUAL(r, 0);
	if (r < 0)
		printf("  %s: %d: %s\n", m->dir, r, error);
	return topology;
}

MACHINE_UNUSED static struct topology *load(const char *name, const struct topology_options *options)
{
	struct machine m;
	struct topology *topology;

	machine_load(&m, name);
	topology = read_machine(&m, options);
	machine_free(&m);
	return topology;
}

MACHINE_UNUSED static bool set_is(const struct nodeset *set, const char *expected)
{
	char buf[512];

	if (nodeset_format(set, buf, sizeof(buf)) < 0)
		return false;
	if (strcmp(buf, expected) != 0)
		printf("  is \"%s\", not \"%s\"\n", buf, expected);
	return strcmp(buf, expected) == 0;
}

/* Tiers as "0-1 | 2 | 3". */
MACHINE_UNUSED static bool tiers_are(const struct topology *topology, const char *expected)
{
	char text[1024] = "", buf[512];

	for (int i = 0; i < topology->n_tiers; i++) {
		nodeset_format(&topology->tiers[i].nodes, buf, sizeof(buf));
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s", i ? " | " : "", buf);
	}
	if (strcmp(text, expected) != 0)
		printf("  tiers are \"%s\", not \"%s\"\n", text, expected);
	return strcmp(text, expected) == 0;
}

MACHINE_UNUSED static bool targets_are(const struct topology *topology, int nid, const char *expected)
{
	const struct topology_node *node = topology_node(topology, nid);
	char text[256] = "";

	for (int i = 0; node && i < node->n_targets; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%d", i ? " " : "", node->targets[i]);
	if (strcmp(text, expected) != 0)
		printf("  targets of %d are \"%s\", not \"%s\"\n", nid, text, expected);
	return strcmp(text, expected) == 0;
}
