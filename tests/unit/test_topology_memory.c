/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdbool.h>
#include <stdint.h>

#include "harness.h"
#include "machine.h"
#include "topology.h"

static const struct topology_options no_options = { .target_nid = -1 };

static struct topology *read_machine(const struct machine *m)
{
	struct topology *topology = NULL;

	CU_ASSERT_EQUAL(topology_read(&m->root, &no_options, &topology, NULL, 0), 0);
	return topology;
}

static void shared_block_is_told_apart(void)
{
	struct topology *t, *before;
	struct machine m;
	char text[32768], *p;

	machine_load(&m, "shared-block");
	t = read_machine(&m);
	if (t) {
		/* Block 23 starts at PFN 753664; the zones of node 1 at 770048. */
		CU_ASSERT_EQUAL(topology_pfn_node(t, 753664), 0);
		CU_ASSERT_EQUAL(topology_pfn_node(t, 770047), 0);
		CU_ASSERT_EQUAL(topology_pfn_node(t, 770048), 1);
		CU_ASSERT_EQUAL(topology_pfn_node(t, 786431), 1);
		CU_ASSERT_EQUAL(topology_pfn_node(t, 786432), 1);
		CU_ASSERT_EQUAL(topology_node(t, 0)->start_pfn, 0);
		CU_ASSERT_EQUAL(topology_node(t, 1)->start_pfn, 753664);
	}
	topology_unref(t);
	/* The border moves. */
	before = read_machine(&m);
	CU_ASSERT(fsroot_read(&m.root, text, sizeof(text), "proc/zoneinfo") > 0);
	p = strstr(text, "start_pfn:           770048");
	CU_ASSERT_PTR_NOT_NULL(p);
	if (p)
		memcpy(p, "start_pfn:           770049", 27);
	machine_put(&m, "proc/zoneinfo", "%s", text);
	t = read_machine(&m);
	CU_ASSERT(t && topology_pfn_node(t, 770048) == -ENOENT);
	CU_ASSERT(before && t && !topology_equal(before, t));
	topology_unref(before);
	topology_unref(t);
	/* Without zones nobody knows, and nothing is guessed: it is one block. */
	machine_remove(&m, "proc/zoneinfo");
	t = read_machine(&m);
	if (t) {
		CU_ASSERT_EQUAL(topology_pfn_node(t, 753663), 0);
		CU_ASSERT_EQUAL(topology_pfn_node(t, 753664), -ENOENT);
		CU_ASSERT_EQUAL(topology_pfn_node(t, 786431), -ENOENT);
		CU_ASSERT_EQUAL(topology_pfn_node(t, 786432), 1);
	}
	topology_unref(t);
	machine_free(&m);
}

static void offline_blocks_are_nowhere(void)
{
	struct topology *t, *later;
	struct machine m;

	machine_load(&m, "offline-blocks");
	t = read_machine(&m);
	machine_put(&m, "sys/devices/system/memory/memory35/state", "online");
	later = read_machine(&m);
	machine_free(&m);
	if (t && later) {
		static const int expected[] = { -ENOENT, 1, 1, -ENOENT, -ENOENT, -ENOENT, -ENOENT, 1, 1, -ENOENT };

		for (int i = 0; i < 10; i++)
			CU_ASSERT_EQUAL(topology_pfn_node(t, (uint64_t)(31 + i) * 32768 + 5), expected[i]);
		CU_ASSERT_EQUAL(topology_node(t, 1)->start_pfn, 32 * 32768);
		CU_ASSERT_EQUAL(topology_node(t, 1)->end_pfn, 40 * 32768);
		CU_ASSERT_EQUAL(topology_pfn_node(later, 35 * 32768), 1);
		CU_ASSERT_FALSE(topology_equal(t, later));
	}
	topology_unref(t);
	topology_unref(later);
}

/* No memory blocks in this kernel: the zones have to do. Node 1 lies in a hole of node 0's memory, not of its zones. */
static void kernel_without_blocks(void)
{
	struct topology *t;
	struct machine m;

	machine_load(&m, "no-hotplug");
	t = read_machine(&m);
	if (t) {
		CU_ASSERT_EQUAL(t->block_bytes, UINT64_C(128) << 20);
		CU_ASSERT_EQUAL(topology_pfn_node(t, 1), 0);
		CU_ASSERT_EQUAL(topology_pfn_node(t, 262143), 0);
		CU_ASSERT_EQUAL(topology_pfn_node(t, 262144), 1);
		CU_ASSERT_EQUAL(topology_pfn_node(t, 524287), 1);
		CU_ASSERT_EQUAL(topology_pfn_node(t, 524288), -ENOENT);
		CU_ASSERT_EQUAL(topology_pfn_node(t, 1048576), 0);
		CU_ASSERT_EQUAL(topology_node(t, 1)->start_pfn, 262144);
	}
	topology_unref(t);
	/* A span over another node's: the shorter zone is right where both claim. */
	machine_put(&m, "proc/zoneinfo",
		    "Node 0, zone   Normal\n  pages free 1\n min 1\n low 1\n high 1\n spanned 1048576\n present "
		    "524288\n"
		    "  start_pfn: 0\n"
		    "Node 1, zone   Normal\n  pages free 1\n min 1\n low 1\n high 1\n spanned 300000\n present 300000\n"
		    "  start_pfn: 300000");
	t = read_machine(&m);
	if (t) {
		CU_ASSERT_EQUAL(topology_pfn_node(t, 299999), 0);
		CU_ASSERT_EQUAL(topology_pfn_node(t, 300000), 1);
		CU_ASSERT_EQUAL(topology_pfn_node(t, 599999), 1);
		CU_ASSERT_EQUAL(topology_pfn_node(t, 600000), 0);
		CU_ASSERT_EQUAL(topology_pfn_node(t, 1048576), -ENOENT);
	}
	topology_unref(t);
	/* A span that no machine has costs no table. */
	machine_put(&m, "proc/zoneinfo",
		    "Node 0, zone   Normal\n  pages free 1\n min 1\n low 1\n high 1\n spanned 17592186044416\n present "
		    "5\n"
		    "  start_pfn: 0");
	t = read_machine(&m);
	CU_ASSERT(t && topology_pfn_node(t, 0) == -ENOENT);
	topology_unref(t);
	machine_remove(&m, "proc");
	t = read_machine(&m);
	CU_ASSERT(t && topology_pfn_node(t, 1) == -ENOENT &&
		  topology_node(t, 0)->start_pfn == topology_node(t, 0)->end_pfn);
	topology_unref(t);
	machine_free(&m);
}

/* Links in one direction only, either one. */
static void one_link_is_enough(void)
{
	struct topology *t;
	struct machine m;
	char path[128];

	machine_load(&m, "offline-blocks");
	for (int block = 0; block < 40; block++) {
		snprintf(path, sizeof(path), "sys/devices/system/%s/memory%d%s", block % 2 ? "memory" : "node/node0",
			 block, block % 2 ? "/node0" : "");
		machine_remove(&m, path);
		snprintf(path, sizeof(path), "sys/devices/system/%s/memory%d%s", block % 2 ? "memory" : "node/node1",
			 block, block % 2 ? "/node1" : "");
		machine_remove(&m, path);
	}
	t = read_machine(&m);
	machine_free(&m);
	for (int block = 0; t && block < 16; block++)
		CU_ASSERT_EQUAL(topology_pfn_node(t, (uint64_t)block * 32768), block < 4 ? 0 : -ENOENT);
	for (int block = 32; t && block < 40; block++)
		CU_ASSERT_EQUAL(topology_pfn_node(t, (uint64_t)block * 32768), block < 34 || block > 37 ? 1 : -ENOENT);
	topology_unref(t);
}

static void names_that_are_no_blocks(void)
{
	static const char *const names[] = {
		"memory",          "memoryx",   "memory-1", "memory1x",
		"memory 1",        "memory+1",  "Memory1",  "memory99999999999999999999",
		"memory536870912", "memory1.0",
	};
	struct topology *before, *after;
	struct machine m;
	char path[128];

	machine_load(&m, "offline-blocks");
	before = read_machine(&m);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "sys/devices/system/memory/%s/state", names[i]);
		machine_put(&m, path, "online");
		snprintf(path, sizeof(path), "sys/devices/system/memory/%s/node1", names[i]);
		machine_link(&m, path, "../../node/node1");
		snprintf(path, sizeof(path), "sys/devices/system/node/node1/%s", names[i]);
		machine_link(&m, path, "../../memory/memory1");
	}
	/* The last id that there can be, 2^56 bytes less one block; linked to nodes that there are not. */
	machine_block(&m, 536870911, 7, "online");
	machine_link(&m, "sys/devices/system/memory/memory536870911/nodeX", "nowhere");
	machine_link(&m, "sys/devices/system/memory/memory536870911/node2000", "nowhere");
	after = read_machine(&m);
	CU_ASSERT(before && after && topology_equal(before, after));
	topology_unref(after);
	machine_block(&m, 536870911, 1, "online");
	after = read_machine(&m);
	CU_ASSERT(after && topology_pfn_node(after, (UINT64_C(1) << 44) - 1) == 1);
	CU_ASSERT(after && topology_pfn_node(after, UINT64_C(1) << 44) == -ENOENT);
	topology_unref(after);
	topology_unref(before);
	machine_free(&m);
}

static uint64_t random_state;

/* xorshift64*: the same machines on each run. */
static uint64_t random_below(uint64_t n)
{
	random_state ^= random_state >> 12;
	random_state ^= random_state << 25;
	random_state ^= random_state >> 27;
	return (random_state * UINT64_C(2685821657736338717) >> 11) % n;
}

enum { NODES = 4, BLOCKS = 48, ZONES = 8 };

struct model_block {
	uint64_t id;
	bool node[NODES];
	bool online;
};

struct model_zone {
	int nid;
	uint64_t start, pages;
};

struct model {
	uint64_t block_pages;
	struct model_block blocks[BLOCKS];
	int n_zones;
	struct model_zone zones[ZONES];
};

/* What topology_pfn_node() promises, the slow way. */
static int model_node(const struct model *model, uint64_t pfn)
{
	const struct model_zone *best = NULL;
	int nodes = 0, nid = -1;

	for (int i = 0; i < BLOCKS; i++) {
		const struct model_block *block = &model->blocks[i];

		if (!block->online || pfn / model->block_pages != block->id)
			continue;
		for (int n = 0; n < NODES; n++) {
			if (!block->node[n])
				continue;
			nodes++;
			nid = n;
			for (int z = 0; z < model->n_zones; z++) {
				const struct model_zone *zone = &model->zones[z];

				if (zone->nid != n || pfn < zone->start || pfn >= zone->start + zone->pages)
					continue;
				if (!best || zone->pages < best->pages)
					best = zone;
			}
		}
	}
	if (nodes == 0)
		return -ENOENT;
	if (nodes == 1)
		return nid;
	return best ? best->nid : -ENOENT;
}

static void make_model(struct model *model, const struct machine *m)
{
	char zoneinfo[8192] = "", path[128];

	*model = (struct model){ .block_pages = UINT64_C(512) << random_below(9) };
	machine_put(m, "sys/devices/system/node/online", "0-%d", NODES - 1);
	machine_put(m, "sys/devices/system/node/node0/cpulist", "0");
	for (int n = 0; n < NODES; n++) {
		snprintf(path, sizeof(path), "sys/devices/system/node/node%d/meminfo", n);
		machine_put(m, path, "Node %d MemTotal: 1000 kB", n);
	}
	machine_put(m, "sys/devices/system/memory/block_size_bytes", "%llx",
		    (unsigned long long)model->block_pages * (unsigned long long)sysconf(_SC_PAGESIZE));
	for (int i = 0; i < BLOCKS; i++) {
		struct model_block *block = &model->blocks[i];
		const char *state;

		/* Close together at first, then anywhere up to 2^44 PFNs. */
		block->id = i < BLOCKS / 2 ? (uint64_t)i * 2 + random_below(2)
					   : random_below((UINT64_C(1) << 44) / model->block_pages);
		for (int j = 0; j < i; j++)
			if (model->blocks[j].id == block->id)
				block->id = UINT64_MAX;
		if (block->id == UINT64_MAX)
			continue;
		block->online = random_below(5) > 0;
		state = block->online ? "online" : "offline";
		for (int links = random_below(4) ? 1 : 2 + (int)random_below(2); links > 0; links--) {
			int nid = (int)random_below(NODES);

			block->node[nid] = true;
			machine_block(m, block->id, nid, state);
		}
	}
	model->n_zones = (int)random_below(ZONES + 1);
	for (int z = 0; z < model->n_zones; z++) {
		struct model_zone *zone = &model->zones[z];
		char text[512];

		/* No two of the same length, for which the model and the promise need no order. */
		zone->nid = (int)random_below(NODES);
		zone->start = random_below(model->block_pages * BLOCKS);
		zone->pages = 1 + (random_below(model->block_pages * 20) / ZONES) * ZONES + (uint64_t)z;
		snprintf(text, sizeof(text),
			 "Node %d, zone   Normal\n  pages free 5\n min 1\n low 2\n high 3\n spanned %llu\n present "
			 "%llu\n"
			 " start_pfn: %llu\n",
			 zone->nid, (unsigned long long)zone->pages, (unsigned long long)zone->pages,
			 (unsigned long long)zone->start);
		strcat(zoneinfo, text);
	}
	machine_put(m, "proc/zoneinfo", "%s", zoneinfo);
}

static void lookup_is_the_naive_search(void)
{
	unsigned int wrong = 0, seen[NODES + 1] = { 0 };
	const int rounds = test_under_valgrind() ? 10 : 40;

	random_state = 88172645463325252ULL;
	for (int round = 0; round < rounds; round++) {
		struct topology *t = NULL;
		struct model model;
		struct machine m;

		machine_new(&m);
		make_model(&model, &m);
		CU_ASSERT_EQUAL(topology_read(&m.root, &no_options, &t, NULL, 0), 0);
		machine_free(&m);
		for (int i = 0; t && i < 4000; i++) {
			const struct model_block *block = &model.blocks[random_below(BLOCKS)];
			uint64_t pfn;
			int expected;

			switch (random_below(4)) {
			case 0: /* anywhere */
				pfn = random_below(UINT64_C(1) << (10 + random_below(54)));
				break;
			case 1: /* the ends of a block */
				pfn = block->id * model.block_pages + (random_below(2) ? model.block_pages - 1 : 0);
				break;
			case 2: /* about the ends of a zone */
				pfn = model.n_zones ? model.zones[random_below((uint64_t)model.n_zones)].start +
							      random_below(3) - 1
						    : 0;
				break;
			default:
				pfn = block->id * model.block_pages + random_below(model.block_pages);
				break;
			}
			expected = model_node(&model, pfn);
			seen[expected < 0 ? NODES : expected]++;
			if (topology_pfn_node(t, pfn) != expected && wrong++ < 5)
				printf("  round %d, pfn %#llx: %d, not %d\n", round, (unsigned long long)pfn,
				       topology_pfn_node(t, pfn), expected);
		}
		topology_unref(t);
	}
	CU_ASSERT_EQUAL(wrong, 0);
	for (int n = 0; n <= NODES; n++)
		CU_ASSERT(seen[n] > 1000);
}

/* The same machine gives the same snapshot, in whatever order its folders list their entries. */
static void order_of_folders_is_nothing(void)
{
	struct topology *first = NULL, *second = NULL;
	struct machine m, n;

	machine_new(&m);
	machine_new(&n);
	for (int i = 0; i < 2; i++) {
		const struct machine *k = i ? &n : &m;

		machine_put(k, "sys/devices/system/node/online", "0-2");
		machine_put(k, "sys/devices/system/memory/block_size_bytes", "8000000");
		for (int b = 0; b < 64; b++) {
			int block = i ? 63 - b : b;

			for (int nid = 0; nid < 3; nid++)
				if (block % 7 == nid || block % 5 == nid)
					machine_block(k, (unsigned long long)block, i ? 2 - (2 - nid) : nid, "online");
		}
		machine_put(k, "proc/zoneinfo",
			    "Node 0, zone Normal\n pages free 1\n min 1\n low 1\n high 1\n spanned 2097152\n present "
			    "9\n start_pfn: 0\n"
			    "Node 1, zone Normal\n pages free 1\n min 1\n low 1\n high 1\n spanned 65536\n present 9\n "
			    "start_pfn: 0");
	}
	first = read_machine(&m);
	second = read_machine(&n);
	CU_ASSERT(first && second && topology_equal(first, second));
	topology_unref(first);
	topology_unref(second);
	machine_free(&m);
	machine_free(&n);
}

TEST_MAIN(topology_memory, TEST(shared_block_is_told_apart), TEST(offline_blocks_are_nowhere),
	  TEST(kernel_without_blocks), TEST(one_link_is_enough), TEST(names_that_are_no_blocks),
	  TEST(lookup_is_the_naive_search), TEST(order_of_folders_is_nothing))
