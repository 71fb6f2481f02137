/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What makes a tier: the configuration, the kernel, or a guess and what is then said. */
#include "machine_topology.h"

static void lab_without_hmat_is_guessed(void)
{
	struct topology *t = load("lab-6.12-slit", NULL);

	if (!t)
		return;
	CU_ASSERT(tiers_are(t, "0 | 1"));
	CU_ASSERT_EQUAL(t->origin, TIERS_GUESSED_SLIT);
	CU_ASSERT_EQUAL(t->tiers[0].kernel_id, -1);
	CU_ASSERT(t->observe_only);
	CU_ASSERT(set_is(&t->lower, "1"));
	CU_ASSERT_PTR_NOT_NULL(strstr(t->advice, "puts nodes 0-1 into one memory tier"));
	CU_ASSERT_PTR_NOT_NULL(strstr(t->advice, "node 1 has no CPUs and is at distance 20"));
	CU_ASSERT_PTR_NOT_NULL(strstr(t->advice, "nothing is moved on such a guess"));
	CU_ASSERT_PTR_NOT_NULL(strstr(t->advice, "tiers = ( \"0\", \"1\" );"));
	CU_ASSERT_EQUAL(topology_target(t, 1, 0), 0);
	topology_unref(t);
}

static void hmat_of_an_older_kernel_is_guessed(void)
{
	struct topology *t = load("lab-6.1-hmat", NULL);

	if (!t)
		return;
	CU_ASSERT(tiers_are(t, "0 | 1"));
	CU_ASSERT_EQUAL(t->origin, TIERS_GUESSED_HMAT);
	CU_ASSERT(t->observe_only);
	CU_ASSERT_PTR_NOT_NULL(strstr(t->advice, "node 1 has no CPUs and takes 250 ns to read (fast memory: 100 ns)"));
	CU_ASSERT_PTR_NOT_NULL(strstr(t->advice, "tiers = ( \"0\", \"1\" );"));
	topology_unref(t);
}

/* Latency counts for nodes with CPUs too: their own memory is slow. */
static void slow_node_with_cpus(void)
{
	struct topology *t;
	struct machine m;

	machine_load(&m, "lab-6.1-hmat");
	machine_put(&m, "sys/devices/system/node/has_cpu", "0-1");
	machine_put(&m, "sys/devices/system/node/node1/cpulist", "2-3");
	t = read_machine(&m, NULL);
	CU_ASSERT(t && t->origin == TIERS_GUESSED_HMAT && set_is(&t->lower, "1"));
	CU_ASSERT(t && strstr(t->advice, "although node 1 takes 250 ns to read"));
	topology_unref(t);
	/* Distance doesn't: it is just another socket. */
	machine_remove(&m, "sys/devices/system/node/node1/access0");
	machine_remove(&m, "sys/devices/system/node/node1/access1");
	t = read_machine(&m, NULL);
	CU_ASSERT(t && t->origin == TIERS_ONE && t->advice[0] == '\0');
	topology_unref(t);
	machine_free(&m);
}

static void kernel_without_tiers(void)
{
	struct topology *t = load("old-kernel", NULL);

	if (!t)
		return;
	CU_ASSERT(tiers_are(t, "0 | 1"));
	CU_ASSERT_EQUAL(t->origin, TIERS_GUESSED_SLIT);
	CU_ASSERT_FALSE(t->demotion_enabled);
	CU_ASSERT_PTR_NOT_NULL(strstr(t->advice, "this kernel shows no memory tiers"));
	topology_unref(t);
}

/* The line that advice gives is one that the configuration takes, and it makes the guess real. */
static void advice_can_be_pasted(void)
{
	static const char *const machines[] = { "lab-6.12-slit", "lab-6.1-hmat", "cxl-all-in-one-tier" };

	for (size_t i = 0; i < sizeof(machines) / sizeof(machines[0]); i++) {
		struct topology *t = load(machines[i], NULL), *pasted;
		struct topology_options options = no_options;
		char line[512] = "", *state;
		const char *list;

		if (!t)
			return;
		list = strstr(t->advice, "tiers = ( ");
		CU_ASSERT_PTR_NOT_NULL(list);
		if (list)
			snprintf(line, sizeof(line), "%s", list + strlen("tiers = ( "));
		CU_ASSERT_PTR_NOT_NULL(strstr(line, " );"));
		for (char *p = strtok_r(line, "\", );", &state); p; p = strtok_r(NULL, "\", );", &state))
			options.tiers[options.n_tiers++] = p;
		pasted = load(machines[i], &options);
		if (pasted) {
			CU_ASSERT_EQUAL(pasted->origin, TIERS_FROM_CONFIG);
			CU_ASSERT_FALSE(pasted->observe_only);
			CU_ASSERT_STRING_EQUAL(pasted->advice, "");
			CU_ASSERT(nodeset_equal(&pasted->lower, &t->lower));
			CU_ASSERT_FALSE(topology_equal(pasted, t));
		}
		topology_unref(pasted);
		topology_unref(t);
	}
}

/* Firmware tells the kernel that CXL memory is like DRAM; the distances say otherwise, though less than the other
 * socket's. */
static void cxl_in_the_dram_tier(void)
{
	struct topology *t = load("cxl-all-in-one-tier", NULL);

	if (!t)
		return;
	CU_ASSERT(tiers_are(t, "0-1 | 2-3"));
	CU_ASSERT_EQUAL(t->origin, TIERS_GUESSED_SLIT);
	CU_ASSERT(t->observe_only);
	CU_ASSERT_PTR_NOT_NULL(strstr(t->advice, "puts nodes 0-3 into one"));
	CU_ASSERT_PTR_NOT_NULL(strstr(t->advice, "nodes 2-3 have no CPUs and are at distance 14 or more"));
	CU_ASSERT_PTR_NOT_NULL(strstr(t->advice, "tiers = ( \"0-1\", \"2-3\" );"));
	topology_unref(t);
	t = load("cxl-one-misplaced", NULL);
	if (!t)
		return;
	/* The kernel has its tiers: they hold, but the node that is in the wrong one is named. */
	CU_ASSERT(tiers_are(t, "0-2 | 3"));
	CU_ASSERT_EQUAL(t->origin, TIERS_FROM_KERNEL);
	CU_ASSERT_FALSE(t->observe_only);
	CU_ASSERT(set_is(&t->lower, "3"));
	CU_ASSERT_PTR_NOT_NULL(strstr(t->advice, "the kernel's tiers are used as they are"));
	CU_ASSERT_PTR_NOT_NULL(strstr(t->advice, "tiers = ( \"0-1\", \"2-3\" );"));
	topology_unref(t);
}

static void bandwidth_is_no_slowness(void)
{
	struct topology *t = load("hbm", NULL);
	struct machine m;

	if (!t)
		return;
	CU_ASSERT(tiers_are(t, "1 | 0 | 2"));
	/* Both are fast: the tier of the CPUs, and the faster one. */
	CU_ASSERT(set_is(&t->top, "0-1"));
	CU_ASSERT(set_is(&t->lower, "2"));
	CU_ASSERT(targets_are(t, 2, "0 1"));
	CU_ASSERT_EQUAL(topology_target(t, 2, 0), 0);
	CU_ASSERT_EQUAL(topology_target(t, 0, 0), -1);
	topology_unref(t);
	/* Equally far, the faster is first; a known CPU still has its own. */
	machine_load(&m, "hbm");
	machine_put(&m, "sys/devices/system/node/node1/access1/initiators/read_latency", "90");
	machine_put(&m, "sys/devices/system/node/node2/distance", "20 20 10");
	t = read_machine(&m, NULL);
	machine_free(&m);
	if (!t)
		return;
	CU_ASSERT(targets_are(t, 2, "1 0"));
	CU_ASSERT_EQUAL(topology_target(t, 2, 0), 0);
	topology_unref(t);
	/* 1.4 times the latency, but four times the bandwidth. */
	t = load("hbm-one-tier", NULL);
	if (!t)
		return;
	CU_ASSERT(tiers_are(t, "0-1"));
	CU_ASSERT_EQUAL(t->origin, TIERS_ONE);
	topology_unref(t);
}

static void dram_without_cpus_is_not_slow(void)
{
	static const char *const machines[] = { "cpuless-dram", "cpuless-dram-hmat" };

	for (int i = 0; i < 2; i++) {
		struct topology *t = load(machines[i], NULL);

		if (!t)
			return;
		CU_ASSERT_EQUAL(t->n_tiers, 1);
		CU_ASSERT_EQUAL(t->origin, TIERS_ONE);
		CU_ASSERT(nodeset_is_empty(&t->lower));
		CU_ASSERT_STRING_EQUAL(t->advice, "");
		topology_unref(t);
	}
}

/* But when the dax driver brought it, it is no socket's. */
static void kmem_tells_equal_distances_apart(void)
{
	struct machine m;
	struct topology *t;

	machine_load(&m, "cpuless-dram");
	machine_put(&m, "sys/bus/dax/drivers/kmem/dax0.0/target_node", "2");
	machine_put(&m, "sys/bus/dax/drivers/kmem/bind", "%s", "");
	t = read_machine(&m, NULL);
	machine_free(&m);
	if (!t)
		return;
	CU_ASSERT(tiers_are(t, "0-1 | 2"));
	CU_ASSERT_EQUAL(t->origin, TIERS_GUESSED_SLIT);
	topology_unref(t);
}

static void gpu_memory_is_left_alone(void)
{
	const struct topology_options named = { .tiers = { "0", "1" }, .n_tiers = 2, .target_nid = -1 };
	struct topology *t = load("gpu", NULL);
	struct machine m;

	if (!t)
		return;
	/* The kernel has node 1 in the tier of DRAM, and it is far and without CPUs: still no slow tier. */
	CU_ASSERT(topology_node(t, 1)->is_device);
	CU_ASSERT(topology_node(t, 1)->has_memory);
	CU_ASSERT_EQUAL(topology_node(t, 1)->tier, -1);
	CU_ASSERT(tiers_are(t, "0"));
	CU_ASSERT_EQUAL(t->origin, TIERS_ONE);
	CU_ASSERT_STRING_EQUAL(t->advice, "");
	CU_ASSERT_EQUAL(topology_pfn_node(t, UINT64_C(1024) << 19), 1);
	topology_unref(t);
	/* Unless it is named. */
	t = load("gpu", &named);
	if (!t)
		return;
	CU_ASSERT(tiers_are(t, "0 | 1"));
	CU_ASSERT_EQUAL(topology_target(t, 1, 0), 0);
	topology_unref(t);
	/* Each of the two signs is enough. */
	machine_load(&m, "gpu");
	machine_remove(&m, "proc/driver");
	t = read_machine(&m, NULL);
	CU_ASSERT(t && topology_node(t, 1)->is_device);
	topology_unref(t);
	/* Without any, it is what it looks like. */
	machine_put(&m, "sys/devices/system/node/has_generic_initiator", "%s", "");
	t = read_machine(&m, NULL);
	CU_ASSERT(t && !topology_node(t, 1)->is_device && t->origin == TIERS_GUESSED_SLIT);
	topology_unref(t);
	/* A generic initiator beside CPUs makes no device of their memory. */
	machine_put(&m, "sys/devices/system/node/has_generic_initiator", "0");
	t = read_machine(&m, NULL);
	CU_ASSERT(t && !topology_node(t, 0)->is_device);
	topology_unref(t);
	machine_free(&m);
	t = load("gpu-power", NULL);
	if (!t)
		return;
	CU_ASSERT(topology_node(t, 254)->is_device && topology_node(t, 255)->is_device);
	CU_ASSERT(tiers_are(t, "0,8"));
	topology_unref(t);
}

static void configured_tiers(void)
{
	struct topology_options options = { .tiers = { "1", "0" }, .n_tiers = 2, .target_nid = -1 };
	struct topology *t = load("cxl-two-sockets", &options);

	if (!t)
		return;
	/* A far node with CPUs of its own: what the configuration says holds, its CPUs do not raise it. */
	CU_ASSERT(tiers_are(t, "1 | 0"));
	CU_ASSERT_EQUAL(t->origin, TIERS_FROM_CONFIG);
	CU_ASSERT(set_is(&t->top, "1"));
	CU_ASSERT(set_is(&t->lower, "0"));
	CU_ASSERT_EQUAL(topology_target(t, 0, 0), 1);
	CU_ASSERT_EQUAL(topology_target(t, 0, 1), 1);
	/* Nodes that are in no list are in no tier. */
	CU_ASSERT_EQUAL(topology_node(t, 2)->tier, -1);
	CU_ASSERT_EQUAL(topology_target(t, 2, 0), -1);
	topology_unref(t);
	/* CPUs of a tier between: their own memory is faster than the page's, and near. */
	options = (struct topology_options){ .tiers = { "0", "1", "2" }, .n_tiers = 3, .target_nid = -1 };
	t = load("cxl-two-sockets", &options);
	if (!t)
		return;
	CU_ASSERT(set_is(&t->lower, "1-2"));
	CU_ASSERT_EQUAL(topology_target(t, 2, 1), 1);
	CU_ASSERT_EQUAL(topology_target(t, 2, 0), 0);
	CU_ASSERT_EQUAL(topology_target(t, 1, 1), 0);
	/* Not CPUs of the page's tier, or of a slower one. */
	CU_ASSERT_EQUAL(topology_target(t, 2, 2), 0);
	CU_ASSERT_EQUAL(topology_target(t, 1, 2), 0);
	topology_unref(t);
	/* One list says that there is nothing to tier, and ends any guess. */
	options = (struct topology_options){ .tiers = { "0-1" }, .n_tiers = 1, .target_nid = -1 };
	t = load("lab-6.12-slit", &options);
	if (!t)
		return;
	CU_ASSERT_EQUAL(t->origin, TIERS_FROM_CONFIG);
	CU_ASSERT(nodeset_is_empty(&t->lower));
	CU_ASSERT_STRING_EQUAL(t->advice, "");
	topology_unref(t);
}

/* -EINVAL, with @words in the sentence. */
static void refused(const char *machine, const struct topology_options *options, const char *words)
{
	struct machine m;
	struct topology *t = NULL;
	char error[512] = "";

	machine_load(&m, machine);
	CU_ASSERT_EQUAL(topology_read(&m.root, options, &t, error, sizeof(error)), -EINVAL);
	CU_ASSERT_PTR_NULL(t);
	CU_ASSERT_PTR_NOT_NULL(strstr(error, words));
	if (!strstr(error, words))
		printf("  \"%s\" has no \"%s\"\n", error, words);
	/* Nobody has to ask why. */
	CU_ASSERT_EQUAL(topology_read(&m.root, options, &t, NULL, 0), -EINVAL);
	machine_free(&m);
}

static void configuration_that_cannot_be(void)
{
	refused("gaps", &(struct topology_options){ { "0", "7" }, 2, -1, false }, "no node 7 (it has 0,2,5)");
	refused("gaps", &(struct topology_options){ { "0", "0,5" }, 2, -1, false }, "node 0 stands in two tiers");
	refused("gaps", &(struct topology_options){ { "0", "" }, 2, -1, false }, "list 2 names no node");
	refused("gaps", &(struct topology_options){ { "0", "zwei" }, 2, -1, false }, "\"zwei\" is not a list of nodes");
	refused("gaps", &(struct topology_options){ { "0", "5000" }, 2, -1, false }, "not a list");
	refused("gaps", &(struct topology_options){ { "0", "5-2" }, 2, -1, false }, "not a list");
	refused("cpus-without-memory", &(struct topology_options){ { "0", "3" }, 2, -1, false },
		"node 0 has no memory");
	refused("gaps", &(struct topology_options){ .n_tiers = TOPOLOGY_TIERS_MAX + 1, .target_nid = -1 },
		"at most 16");
	refused("gaps", &(struct topology_options){ .target_nid = 3 }, "no node 3");
	refused("gaps", &(struct topology_options){ .target_nid = 5000 }, "no node 5000");
	refused("gaps", &(struct topology_options){ .target_nid = -2 }, "no node -2");
	refused("gaps", &(struct topology_options){ .target_nid = 5 }, "node 5 is in the slowest tier");
	refused("cpus-without-memory", &(struct topology_options){ .target_nid = 0 }, "node 0 has no memory");
	refused("gpu", &(struct topology_options){ .target_nid = 1 }, "node 1 is in no tier");
}

static void configured_target(void)
{
	struct topology_options options = { .target_nid = 1 };
	struct topology *t = load("cxl-two-sockets", &options);

	if (!t)
		return;
	CU_ASSERT(targets_are(t, 2, "1"));
	CU_ASSERT_EQUAL(topology_target(t, 2, 0), 1);
	CU_ASSERT_EQUAL(topology_target(t, 2, -1), 1);
	topology_unref(t);
	/* The tier between: for the slowest only. */
	options.target_nid = 2;
	t = load("three-tiers", &options);
	if (!t)
		return;
	CU_ASSERT(targets_are(t, 3, "2"));
	CU_ASSERT(targets_are(t, 2, ""));
	CU_ASSERT_EQUAL(topology_target(t, 3, 0), 2);
	CU_ASSERT_EQUAL(topology_target(t, 2, 0), -1);
	topology_unref(t);
}

/* CXL memory that is onlined after boot: named already, there later. */
static void nodes_that_come_later(void)
{
	const struct topology_options options = {
		.tiers = { "0", "1" }, .n_tiers = 2, .target_nid = -1, .allow_missing = true
	};
	struct topology *before, *after, *again;
	struct machine m;

	machine_load(&m, "lab-6.12-hmat");
	machine_put(&m, "sys/devices/system/node/has_memory", "0");
	machine_put(&m, "sys/devices/system/node/node1/meminfo", "Node 1 MemTotal:              0 kB");
	machine_remove(&m, "sys/devices/virtual/memory_tiering/memory_tier27");
	before = read_machine(&m, &options);
	machine_put(&m, "sys/devices/system/node/has_memory", "0-1");
	machine_put(&m, "sys/devices/system/node/node1/meminfo", "Node 1 MemTotal:        1048576 kB");
	after = read_machine(&m, &options);
	again = read_machine(&m, &options);
	machine_free(&m);
	if (before && after && again) {
		CU_ASSERT(tiers_are(before, "0"));
		CU_ASSERT_EQUAL(before->origin, TIERS_FROM_CONFIG);
		CU_ASSERT(nodeset_is_empty(&before->lower));
		CU_ASSERT_PTR_NOT_NULL(strstr(before->advice, "names node 1, with no memory now"));
		CU_ASSERT(tiers_are(after, "0 | 1"));
		CU_ASSERT_STRING_EQUAL(after->advice, "");
		CU_ASSERT_FALSE(topology_equal(before, after));
		CU_ASSERT(topology_equal(again, after));
	}
	topology_unref(before);
	topology_unref(after);
	topology_unref(again);
}

/* Many nodes, every other one slow: the line to paste would be cut, so it isn't given at all. */
static void advice_is_never_cut(void)
{
	/* Two lists that are too long together, and one that is by itself. */
	static const int sizes[] = { 130, 160 };

	for (int i = 0; i < 2; i++) {
		int n = sizes[i];
		struct topology *t;
		struct machine m;
		char text[128];

		machine_new(&m);
		machine_put(&m, "sys/devices/system/node/online", "0-%d", n - 1);
		for (int nid = 0; nid < n; nid++) {
			snprintf(text, sizeof(text), "sys/devices/system/node/node%d/meminfo", nid);
			machine_put(&m, text, "Node %d MemTotal:    131072 kB", nid);
			snprintf(text, sizeof(text), "sys/devices/system/node/node%d/access1/initiators/read_latency",
				 nid);
			machine_put(&m, text, "%d", nid % 2 ? 300 : 100);
		}
		t = read_machine(&m, NULL);
		machine_free(&m);
		if (!t)
			return;
		CU_ASSERT_EQUAL(t->origin, TIERS_GUESSED_HMAT);
		CU_ASSERT_EQUAL(nodeset_count(&t->lower), n / 2);
		snprintf(text, sizeof(text), "although %d nodes have no CPUs and take at least 300 ns", n / 2);
		CU_ASSERT_PTR_NOT_NULL(strstr(t->advice, text));
		CU_ASSERT_PTR_NOT_NULL(strstr(t->advice, "tiers = ( ... );"));
		CU_ASSERT_PTR_NULL(strchr(t->advice, '"'));
		topology_unref(t);
	}
}

/* More tiers than we keep: the slowest are one. */
static void many_kernel_tiers(void)
{
	enum { N = 20 };
	struct topology *t;
	struct machine m;
	char path[128];

	machine_new(&m);
	machine_put(&m, "sys/devices/system/node/online", "0-%d", N - 1);
	machine_put(&m, "sys/devices/system/node/node0/cpulist", "0");
	for (int i = 0; i < N; i++) {
		snprintf(path, sizeof(path), "sys/devices/system/node/node%d/meminfo", i);
		machine_put(&m, path, "Node %d MemTotal:    131072 kB", i);
		snprintf(path, sizeof(path), "sys/devices/virtual/memory_tiering/memory_tier%d/nodelist", 4 + i * 7);
		machine_put(&m, path, "%d", i);
	}
	t = read_machine(&m, NULL);
	machine_free(&m);
	if (!t)
		return;
	CU_ASSERT_EQUAL(t->n_tiers, TOPOLOGY_TIERS_MAX);
	CU_ASSERT(set_is(&t->tiers[3].nodes, "3"));
	CU_ASSERT_EQUAL(t->tiers[3].kernel_id, 25);
	CU_ASSERT(set_is(&t->tiers[TOPOLOGY_TIERS_MAX - 1].nodes, "15-19"));
	CU_ASSERT(set_is(&t->lower, "1-19"));
	topology_unref(t);
}

TEST_MAIN(topology_tiers, TEST(lab_without_hmat_is_guessed), TEST(hmat_of_an_older_kernel_is_guessed),
	  TEST(slow_node_with_cpus), TEST(kernel_without_tiers), TEST(advice_can_be_pasted), TEST(cxl_in_the_dram_tier),
	  TEST(bandwidth_is_no_slowness), TEST(dram_without_cpus_is_not_slow), TEST(kmem_tells_equal_distances_apart),
	  TEST(gpu_memory_is_left_alone), TEST(configured_tiers), TEST(configuration_that_cannot_be),
	  TEST(configured_target), TEST(nodes_that_come_later), TEST(advice_is_never_cut), TEST(many_kernel_tiers))
