/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "machine_topology.h"

#define MIB (UINT64_C(1) << 20)

static void lab_with_hmat(void)
{
	struct topology *t = load("lab-6.12-hmat", NULL);
	const struct topology_node *node;

	if (!t)
		return;
	CU_ASSERT_EQUAL(t->n_nodes, 2);
	CU_ASSERT(tiers_are(t, "0 | 1"));
	CU_ASSERT_EQUAL(t->tiers[0].kernel_id, 4);
	CU_ASSERT_EQUAL(t->tiers[1].kernel_id, 27);
	CU_ASSERT_EQUAL(t->origin, TIERS_FROM_KERNEL);
	CU_ASSERT_FALSE(t->observe_only);
	CU_ASSERT(set_is(&t->top, "0"));
	CU_ASSERT(set_is(&t->lower, "1"));
	CU_ASSERT_STRING_EQUAL(t->advice, "");
	CU_ASSERT_FALSE(t->demotion_enabled);
	CU_ASSERT_EQUAL(t->block_bytes, 128 * MIB);
	node = topology_node(t, 0);
	CU_ASSERT(node->has_cpu && node->has_memory && !node->is_device);
	CU_ASSERT_EQUAL(node->total_bytes, UINT64_C(2014208) << 10);
	CU_ASSERT_EQUAL(node->read_latency_ns, 100);
	CU_ASSERT_EQUAL(node->start_pfn, 0);
	CU_ASSERT_EQUAL(node->end_pfn, 16 * 32768);
	CU_ASSERT_EQUAL(node->n_targets, 0);
	node = topology_node(t, 1);
	CU_ASSERT(!node->has_cpu && node->has_memory);
	CU_ASSERT_EQUAL(node->read_latency_ns, 250);
	CU_ASSERT_EQUAL(node->start_pfn, 16 * 32768);
	CU_ASSERT_EQUAL(node->end_pfn, 36 * 32768);
	CU_ASSERT(targets_are(t, 1, "0"));
	CU_ASSERT_PTR_NULL(topology_node(t, 2));
	CU_ASSERT_PTR_NULL(topology_node(t, -1));
	CU_ASSERT_PTR_NULL(topology_node(t, NODE_MAX));
	CU_ASSERT_EQUAL(topology_distance(t, 0, 1), 20);
	CU_ASSERT_EQUAL(topology_distance(t, 1, 1), 10);
	CU_ASSERT_EQUAL(topology_distance(t, 0, 7), -ENOENT);
	CU_ASSERT_EQUAL(topology_cpu_end(t), 2);
	CU_ASSERT_EQUAL(topology_cpu_node(t, 1), 0);
	CU_ASSERT_EQUAL(topology_cpu_node(t, 2), -ENOENT);
	CU_ASSERT_EQUAL(topology_cpu_node(t, -1), -ENOENT);
	CU_ASSERT_EQUAL(topology_pfn_node(t, 1000), 0);
	CU_ASSERT_EQUAL(topology_pfn_node(t, 19 * 32768), 1);
	CU_ASSERT_EQUAL(topology_pfn_node(t, 20 * 32768), -ENOENT);
	CU_ASSERT_EQUAL(topology_pfn_node(t, 36 * 32768 - 1), 1);
	CU_ASSERT_EQUAL(topology_target(t, 1, 0), 0);
	CU_ASSERT_EQUAL(topology_target(t, 1, -1), 0);
	CU_ASSERT_EQUAL(topology_target(t, 0, 0), -1);
	CU_ASSERT_EQUAL(topology_target(t, 7, 0), -1);
	topology_unref(t);
	topology_unref(NULL);
}

/* Before 5.10 there is one class of initiators; with both, the one that is seen from CPUs counts. */
static void classes_of_initiators(void)
{
	struct topology *t;
	struct machine m;

	machine_load(&m, "lab-6.12-hmat");
	machine_put(&m, "sys/devices/system/node/node1/access0/initiators/read_latency", "30");
	t = read_machine(&m, NULL);
	CU_ASSERT(t && topology_node(t, 1)->read_latency_ns == 250);
	topology_unref(t);
	machine_remove(&m, "sys/devices/system/node/node1/access1");
	t = read_machine(&m, NULL);
	CU_ASSERT(t && topology_node(t, 1)->read_latency_ns == 30);
	topology_unref(t);
	machine_free(&m);
}

static void one_node(void)
{
	struct topology *t = load("one-node", NULL);

	if (!t)
		return;
	CU_ASSERT(tiers_are(t, "0"));
	CU_ASSERT_EQUAL(t->origin, TIERS_ONE);
	CU_ASSERT_EQUAL(t->tiers[0].kernel_id, 4);
	CU_ASSERT_FALSE(t->observe_only);
	CU_ASSERT(set_is(&t->top, "0"));
	CU_ASSERT(nodeset_is_empty(&t->lower));
	CU_ASSERT_STRING_EQUAL(t->advice, "");
	CU_ASSERT_EQUAL(topology_target(t, 0, 0), -1);
	topology_unref(t);
}

static void cxl_on_two_sockets(void)
{
	struct topology *t = load("cxl-two-sockets", NULL);

	if (!t)
		return;
	CU_ASSERT(tiers_are(t, "0-1 | 2-3"));
	CU_ASSERT_EQUAL(t->origin, TIERS_FROM_KERNEL);
	CU_ASSERT_STRING_EQUAL(t->advice, "");
	CU_ASSERT(t->demotion_enabled);
	CU_ASSERT_EQUAL(t->block_bytes, 2048 * MIB);
	CU_ASSERT(targets_are(t, 2, "0 1"));
	CU_ASSERT(targets_are(t, 3, "1 0"));
	/* The CPU that accesses decides, wherever the page is. */
	CU_ASSERT_EQUAL(topology_target(t, 2, 0), 0);
	CU_ASSERT_EQUAL(topology_target(t, 2, 1), 1);
	CU_ASSERT_EQUAL(topology_target(t, 3, 0), 0);
	CU_ASSERT_EQUAL(topology_target(t, 3, topology_cpu_node(t, 15)), 1);
	/* Not known, it is the nearest to the page. */
	CU_ASSERT_EQUAL(topology_target(t, 3, -1), 1);
	CU_ASSERT_EQUAL(topology_target(t, 3, 77), 1);
	/* 2^45 bytes: block 16384 of 2 GiB. */
	CU_ASSERT_EQUAL(topology_node(t, 2)->start_pfn, UINT64_C(1) << 33);
	CU_ASSERT_EQUAL(topology_pfn_node(t, (UINT64_C(1) << 33) - 1), -ENOENT);
	CU_ASSERT_EQUAL(topology_pfn_node(t, UINT64_C(1) << 33), 2);
	CU_ASSERT_EQUAL(topology_pfn_node(t, (UINT64_C(16448) << 19) + 7), 3);
	CU_ASSERT_EQUAL(topology_pfn_node(t, UINT64_MAX), -ENOENT);
	topology_unref(t);
}

static void ids_with_gaps(void)
{
	struct topology *t = load("gaps", NULL);

	if (!t)
		return;
	CU_ASSERT_EQUAL(t->n_nodes, 3);
	CU_ASSERT_EQUAL(t->nodes[1].nid, 2);
	CU_ASSERT(tiers_are(t, "0,2 | 5"));
	CU_ASSERT_EQUAL(topology_distance(t, 2, 5), 40);
	CU_ASSERT_EQUAL(topology_distance(t, 5, 2), 40);
	CU_ASSERT_EQUAL(topology_distance(t, 2, 3), -ENOENT);
	CU_ASSERT(targets_are(t, 5, "0 2"));
	CU_ASSERT_EQUAL(topology_target(t, 5, 2), 2);
	CU_ASSERT_EQUAL(topology_cpu_node(t, 3), 2);
	CU_ASSERT_EQUAL(topology_pfn_node(t, 64 * 32768), 5);
	topology_unref(t);
}

static void two_slow_nodes(void)
{
	struct topology *t = load("two-slow", NULL);

	if (!t)
		return;
	CU_ASSERT(tiers_are(t, "0 | 1-2"));
	CU_ASSERT(set_is(&t->lower, "1-2"));
	CU_ASSERT(targets_are(t, 1, "0"));
	CU_ASSERT(targets_are(t, 2, "0"));
	topology_unref(t);
}

static void three_tiers(void)
{
	struct topology *t = load("three-tiers", NULL);

	if (!t)
		return;
	/* memory_tier14 is empty and memory_tier1024 has a node that isn't there; 4 comes before 22 and 1024. */
	CU_ASSERT(tiers_are(t, "0-1 | 2 | 3"));
	CU_ASSERT_EQUAL(t->tiers[2].kernel_id, 30);
	CU_ASSERT(set_is(&t->top, "0-1"));
	CU_ASSERT(set_is(&t->lower, "2-3"));
	CU_ASSERT(targets_are(t, 2, "0 1"));
	/* DRAM first, the nearer first; then the tier between, however near that is. */
	CU_ASSERT(targets_are(t, 3, "1 0 2"));
	CU_ASSERT_EQUAL(topology_target(t, 3, 0), 0);
	CU_ASSERT_EQUAL(topology_target(t, 3, 1), 1);
	CU_ASSERT_EQUAL(topology_target(t, 2, 0), 0);
	topology_unref(t);
}

static void cpus_on_nodes_without_memory(void)
{
	struct topology *t = load("cpus-without-memory", NULL);

	if (!t)
		return;
	CU_ASSERT_EQUAL(t->n_nodes, 4);
	CU_ASSERT(tiers_are(t, "2 | 3"));
	CU_ASSERT(topology_node(t, 0)->has_cpu && !topology_node(t, 0)->has_memory);
	CU_ASSERT_EQUAL(topology_node(t, 0)->tier, -1);
	CU_ASSERT(set_is(&t->top, "2"));
	CU_ASSERT(targets_are(t, 3, "2"));
	CU_ASSERT_EQUAL(topology_target(t, 3, 0), 2);
	CU_ASSERT_EQUAL(topology_target(t, 3, 1), 2);
	topology_unref(t);
}

static void nearest_to_a_cpu_without_memory(void)
{
	struct machine m;
	struct topology *t;

	/* Node 6 has CPUs only, and is nearer to node 1 than to node 0; the slow node is nearer to node 0. */
	machine_load(&m, "cxl-two-sockets");
	machine_put(&m, "sys/devices/system/node/online", "0-3,6");
	machine_put(&m, "sys/devices/system/node/has_cpu", "0-1,6");
	machine_put(&m, "sys/devices/system/node/node6/cpulist", "100-103");
	machine_put(&m, "sys/devices/system/node/node6/meminfo", "Node 6 MemTotal:       0 kB");
	machine_put(&m, "sys/devices/system/node/node0/distance", "10 21 14 24 40");
	machine_put(&m, "sys/devices/system/node/node1/distance", "21 10 24 14 30");
	machine_put(&m, "sys/devices/system/node/node2/distance", "14 24 10 26 50");
	machine_put(&m, "sys/devices/system/node/node3/distance", "24 14 26 10 50");
	machine_put(&m, "sys/devices/system/node/node6/distance", "40 30 50 50 10");
	t = read_machine(&m, NULL);
	machine_free(&m);
	if (!t)
		return;
	CU_ASSERT(targets_are(t, 2, "0 1"));
	CU_ASSERT_EQUAL(topology_cpu_node(t, 101), 6);
	CU_ASSERT_EQUAL(topology_cpu_node(t, 50), -ENOENT);
	CU_ASSERT_EQUAL(topology_target(t, 2, 6), 1);
	CU_ASSERT_EQUAL(topology_target(t, 2, -1), 0);
	topology_unref(t);
}

/* The kernel's tiers follow memory as it comes; a node of 0 bytes is in none. */
static void node_that_grows(void)
{
	struct topology *before, *after;
	struct machine m;

	machine_load(&m, "lab-6.12-hmat");
	machine_put(&m, "sys/devices/system/node/has_memory", "0");
	machine_put(&m, "sys/devices/system/node/node1/meminfo", "Node 1 MemTotal:              0 kB");
	before = read_machine(&m, NULL);
	machine_put(&m, "sys/devices/system/node/node1/meminfo", "Node 1 MemTotal:        1048576 kB");
	/* Not before the kernel says so: it may be going, too. */
	after = read_machine(&m, NULL);
	CU_ASSERT(after && !topology_node(after, 1)->has_memory);
	topology_unref(after);
	machine_put(&m, "sys/devices/system/node/has_memory", "0-1");
	after = read_machine(&m, NULL);
	machine_free(&m);
	if (before && after) {
		CU_ASSERT_FALSE(topology_node(before, 1)->has_memory);
		CU_ASSERT(tiers_are(before, "0"));
		CU_ASSERT_EQUAL(before->origin, TIERS_ONE);
		CU_ASSERT(tiers_are(after, "0 | 1"));
		CU_ASSERT_FALSE(topology_equal(before, after));
	}
	topology_unref(before);
	topology_unref(after);
}

/* Whatever a snapshot says is seen to differ; what isn't part of one is not. */
static void equality(void)
{
	static const struct {
		const char *path, *text;
		bool same;
	} changes[] = {
		{ "sys/devices/system/node/possible", "0-63", true },
		{ "sys/devices/system/node/node0/meminfo", "Node 0 MemTotal:  2014208 kB\nNode 0 MemFree: 1 kB", true },
		{ "sys/devices/system/node/node0/meminfo", "Node 0 MemTotal:  2014204 kB", false },
		{ "sys/devices/system/node/node0/cpulist", "0-2", false },
		{ "sys/devices/system/node/node0/cpulist", "0", false },
		{ "sys/devices/system/node/node1/distance", "21 10", false },
		{ "sys/devices/system/node/node1/access1/initiators/read_latency", "251", false },
		{ "sys/devices/system/node/node1/access1/initiators/write_latency", "251", false },
		{ "sys/devices/system/node/node1/access1/initiators/read_bandwidth", "1", false },
		{ "sys/devices/system/node/has_generic_initiator", "1", false },
		{ "sys/bus/dax/drivers/kmem/dax0.0/target_node", "1", false },
		{ "sys/kernel/mm/numa/demotion_enabled", "true", false },
		{ "sys/devices/system/memory/memory19/state", "offline", false },
		{ "sys/devices/system/memory/memory3/state", "offline", false },
		{ "sys/devices/virtual/memory_tiering/memory_tier4/nodelist", "0-1", true },
		{ "sys/devices/virtual/memory_tiering/memory_tier5/nodelist", "0", false },
	};
	struct topology *first = load("lab-6.12-hmat", NULL);

	for (size_t i = 0; first && i < sizeof(changes) / sizeof(changes[0]); i++) {
		struct topology *t;
		struct machine m;

		machine_load(&m, "lab-6.12-hmat");
		machine_put(&m, changes[i].path, "%s", changes[i].text);
		t = read_machine(&m, NULL);
		machine_free(&m);
		if (t && topology_equal(first, t) != changes[i].same)
			printf("  %s\n", changes[i].path);
		CU_ASSERT(t && topology_equal(first, t) == changes[i].same);
		CU_ASSERT(t && topology_equal(t, first) == changes[i].same);
		topology_unref(t);
	}
	CU_ASSERT(!first || topology_equal(first, first));
	topology_unref(first);
}

static void description(void)
{
	static const struct {
		const char *machine, *text;
	} cases[] = {
		{ "lab-6.12-hmat",
		  "tier 0, fast: node 0, 1.9 GiB, 100 ns, memory_tier4\n"
		  "tier 1, slow: node 1, 1.0 GiB, 250 ns, memory_tier27; node 1 is nearest to node 0 (distance 20)\n"
		  "tiers from the kernel\n" },
		{ "lab-6.12-slit", "tier 0, fast: node 0, 1.9 GiB\n"
				   "tier 1, slow: node 1, 1.0 GiB; node 1 is nearest to node 0 (distance 20)\n"
				   "tiers guessed from distances: nothing is moved\n" },
		{ "gpu", "tier 0, fast: node 0, 64.0 GiB, memory_tier4\n"
			 "unused: node 1, 16.0 GiB, memory of a device\n"
			 "tiers one tier: nothing to promote\n" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct topology *t = load(cases[i].machine, NULL);
		char *text = t ? topology_describe(t) : NULL;

		CU_ASSERT_PTR_NOT_NULL(text);
		if (text && strcmp(text, cases[i].text) != 0)
			printf("%s", text);
		CU_ASSERT(text && strcmp(text, cases[i].text) == 0);
		free(text);
		topology_unref(t);
	}
}

/* A machine that nobody has, of the largest number of nodes that a kernel can be built for. */
static void thousand_nodes(void)
{
	enum { N = NODE_MAX };
	struct topology *t = NULL;
	struct machine m;
	char path[128], *row = malloc(N * 4 + 1), *text;
	int r;

	machine_new(&m);
	machine_put(&m, "sys/devices/system/node/online", "0-%d", N - 1);
	machine_put(&m, "sys/devices/system/node/has_memory", "0-%d", N - 1);
	machine_put(&m, "sys/devices/system/memory/block_size_bytes", "8000000");
	machine_put(&m, "sys/devices/virtual/memory_tiering/memory_tier4/nodelist", "0-%d", N / 2 - 1);
	machine_put(&m, "sys/devices/virtual/memory_tiering/memory_tier22/nodelist", "%d-%d", N / 2, N - 1);
	for (int i = 0; i < N; i++) {
		for (int j = 0; j < N; j++)
			memcpy(row + j * 4, i == j ? "010 " : i / 2 == j / 2 ? "012 " : "020 ", 4);
		row[N * 4 - 1] = '\0';
		snprintf(path, sizeof(path), "sys/devices/system/node/node%d/distance", i);
		machine_put(&m, path, "%s", row);
		snprintf(path, sizeof(path), "sys/devices/system/node/node%d/meminfo", i);
		machine_put(&m, path, "Node %d MemTotal:    131072 kB", i);
		if (i < N / 2) {
			snprintf(path, sizeof(path), "sys/devices/system/node/node%d/cpulist", i);
			machine_put(&m, path, "%d-%d", i * 8, i * 8 + 7);
		}
		machine_block(&m, (unsigned long long)i, i, "online");
	}
	r = topology_read(&m.root, &no_options, &t, NULL, 0);
	machine_free(&m);
	free(row);
	CU_ASSERT_EQUAL(r, 0);
	if (r < 0)
		return;
	CU_ASSERT_EQUAL(t->n_nodes, N);
	CU_ASSERT_EQUAL(nodeset_count(&t->lower), N / 2);
	CU_ASSERT_EQUAL(topology_cpu_end(t), N / 2 * 8);
	CU_ASSERT_EQUAL(topology_cpu_node(t, 777), 97);
	CU_ASSERT_EQUAL(topology_node(t, N - 1)->n_targets, N / 2);
	CU_ASSERT_EQUAL(topology_distance(t, N - 1, N - 2), 12);
	CU_ASSERT_EQUAL(topology_pfn_node(t, (N - 1) * 32768ULL), N - 1);
	for (int i = 0; i < N / 2; i++)
		CU_ASSERT_EQUAL(topology_target(t, N / 2 + i, i), i);
	text = topology_describe(t);
	CU_ASSERT_PTR_NOT_NULL(text);
	free(text);
	topology_unref(t);
}

static void no_machine_at_all(void)
{
	struct topology *t = NULL;
	struct machine m;
	char error[512] = "";

	machine_new(&m);
	CU_ASSERT_EQUAL(topology_read(&m.root, &no_options, &t, error, sizeof(error)), -ENOENT);
	CU_ASSERT_PTR_NOT_NULL(strstr(error, "/sys/devices/system/node"));
	machine_put(&m, "sys/devices/system/node/online", "garbage");
	CU_ASSERT_EQUAL(topology_read(&m.root, &no_options, &t, error, sizeof(error)), -EBADMSG);
	CU_ASSERT_PTR_NOT_NULL(strstr(error, "not a list of nodes"));
	machine_put(&m, "sys/devices/system/node/online", "%s", "");
	CU_ASSERT_EQUAL(topology_read(&m.root, &no_options, &t, error, sizeof(error)), -EBADMSG);
	/* A node and nothing else known of it. */
	machine_put(&m, "sys/devices/system/node/online", "3");
	t = read_machine(&m, NULL);
	CU_ASSERT(t && t->n_nodes == 1 && t->n_tiers == 0 && t->origin == TIERS_ONE && nodeset_is_empty(&t->top));
	CU_ASSERT(t && topology_target(t, 3, 3) == -1 && topology_pfn_node(t, 0) == -ENOENT);
	topology_unref(t);
	machine_free(&m);
}

static void running_machine(void)
{
	struct topology *t = NULL;
	struct fsroot root;
	int r;

	CU_ASSERT_EQUAL(fsroot_open(&root, "/"), 0);
	r = topology_read(&root, &no_options, &t, NULL, 0);
	fsroot_close(&root);
	if (r == -ENOENT) {
		test_skip("no /sys/devices/system/node here");
		return;
	}
	CU_ASSERT_EQUAL(r, 0);
	CU_ASSERT(t && t->n_nodes >= 1 && t->n_tiers >= 1);
	topology_unref(t);
}

/* What the recorder writes of a tree is the tree. */
static void recording_is_faithful(void)
{
	struct machine m, copy;
	struct topology *a, *b;
	char folder[PATH_MAX], command[2 * PATH_MAX + 128];
	FILE *f;

	machine_load(&m, "cxl-two-sockets");
	snprintf(command, sizeof(command), "sh '%s/record-machine' '%s'", machine_folder(folder), m.dir);
	f = popen(command, "r");
	machine_new(&copy);
	CU_ASSERT_EQUAL(machine_replay(&copy, f), 0);
	CU_ASSERT_EQUAL(pclose(f), 0);
	a = read_machine(&m, NULL);
	b = read_machine(&copy, NULL);
	CU_ASSERT(a && b && topology_equal(a, b) && b->n_tiers == 2);
	topology_unref(a);
	topology_unref(b);
	machine_free(&copy);
	machine_free(&m);
}

TEST_MAIN(topology, TEST(lab_with_hmat), TEST(classes_of_initiators), TEST(one_node), TEST(cxl_on_two_sockets),
	  TEST(ids_with_gaps), TEST(two_slow_nodes), TEST(three_tiers), TEST(cpus_on_nodes_without_memory),
	  TEST(nearest_to_a_cpu_without_memory), TEST(node_that_grows), TEST(equality), TEST(description),
	  TEST(thousand_nodes), TEST(no_machine_at_all), TEST(running_machine), TEST(recording_is_faithful))
