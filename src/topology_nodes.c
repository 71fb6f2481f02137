/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cleanup.h"
#include "parse.h"
#include "topology_internal.h"

#define NODE_PATH "sys/devices/system/node"

/* A list of up to 1024 nodes, every other one. */
#define LIST_BYTES 8192

bool topology_is_fatal(int r)
{
	return r == -ENOMEM || r == -EMFILE || r == -ENFILE || r == -EACCES || r == -EPERM;
}

/* @ret is the set in one of the files beside the nodes, and whether there is such a file. 0 or -errno, fatal ones only.
 */
static int read_set(const struct fsroot *root, const char *name, struct nodeset *ret, bool *ret_there)
{
	char text[LIST_BYTES];
	int r = fsroot_read(root, text, sizeof(text), NODE_PATH "/%s", name);

	nodeset_clear(ret);
	*ret_there = r >= 0 && strlen(text) == (size_t)r && nodeset_parse(ret, text) == 0;
	return topology_is_fatal(r) ? r : 0;
}

static int add_online(struct topology_snapshot *s, const struct fsroot *root)
{
	struct nodeset online;
	char text[LIST_BYTES];
	size_t n = 0;
	int r;

	r = fsroot_read(root, text, sizeof(text), NODE_PATH "/online");
	if (r < 0)
		return r;
	/* The one file without which nothing is known. */
	if (strlen(text) != (size_t)r || nodeset_parse(&online, text) < 0 || nodeset_is_empty(&online))
		return -EBADMSG;
	s->pub.n_nodes = (size_t)nodeset_count(&online);
	s->pub.nodes = calloc(s->pub.n_nodes, sizeof(*s->pub.nodes));
	s->extra = calloc(s->pub.n_nodes, sizeof(*s->extra));
	s->distance = calloc(s->pub.n_nodes, s->pub.n_nodes);
	if (!s->pub.nodes || !s->extra || !s->distance)
		return -ENOMEM;
	nodeset_for_each (nid, &online) {
		s->index[nid] = (int16_t)n;
		s->pub.nodes[n] = (struct topology_node){ .nid = nid, .tier = -1 };
		s->extra[n].nearest_top = -1;
		n++;
	}
	return 0;
}

/* "Node 0 MemTotal:        4548380 kB". Bytes; 0 when it isn't there. */
static uint64_t parse_mem_total(const char *text)
{
	static const char key[] = "MemTotal:";
	const char *p = strstr(text, key);
	uint64_t kib = 0;

	if (!p)
		return 0;
	for (p += strlen(key); *p == ' '; p++)
		;
	if (*p < '0' || *p > '9')
		return 0;
	for (; *p >= '0' && *p <= '9'; p++) {
		kib = kib * 10 + (uint64_t)(*p - '0');
		if (kib > UINT64_C(1) << (TOPOLOGY_PHYS_BITS - 10))
			return 0;
	}
	return strncmp(p, " kB", 3) == 0 ? kib << 10 : 0;
}

static int read_total(const struct fsroot *root, int nid, uint64_t *ret)
{
	_cleanup_free_ char *text = NULL;
	int r = fsroot_read_alloc(root, &text, NODE_PATH "/node%d/meminfo", nid);

	*ret = r < 0 ? 0 : parse_mem_total(text);
	return topology_is_fatal(r) ? r : 0;
}

/* One row of the SLIT: a number for each online node, by ascending id. Another count of them: unknown, as a whole. */
static int read_distances(struct topology_snapshot *s, const struct fsroot *root, size_t i)
{
	_cleanup_free_ char *text = NULL;
	uint8_t *row = s->distance + i * s->pub.n_nodes;
	char *state = NULL;
	size_t n = 0;
	int r;

	r = fsroot_read_alloc(root, &text, NODE_PATH "/node%d/distance", s->pub.nodes[i].nid);
	if (r < 0)
		return topology_is_fatal(r) ? r : 0;
	for (char *word = strtok_r(text, " ", &state); word; word = strtok_r(NULL, " ", &state), n++) {
		uint64_t value;

		if (n == s->pub.n_nodes || parse_u64(word, 1, UINT8_MAX, &value) < 0) {
			n = 0;
			break;
		}
		row[n] = (uint8_t)value;
	}
	if (n != s->pub.n_nodes)
		memset(row, 0, s->pub.n_nodes);
	return 0;
}

static int read_attribute(const struct fsroot *root, int nid, int class, const char *name, uint32_t *ret)
{
	uint64_t value;
	int r;

	r = fsroot_read_u64(root, &value, 10, NODE_PATH "/node%d/access%d/initiators/%s", nid, class, name);
	*ret = r < 0 || value > UINT32_MAX ? 0 : (uint32_t)value;
	return topology_is_fatal(r) ? r : 0;
}

/*
 * What firmware says of a node's memory. Class 1 is seen from CPUs only and so the right one here, but there only since
 * 5.10; class 0 counts other initiators too (numaperf.rst).
 */
static int read_performance(struct topology_snapshot *s, const struct fsroot *root, size_t i)
{
	struct topology_node *node = &s->pub.nodes[i];
	struct topology_extra *extra = &s->extra[i];
	int r = 0;

	for (int class = 1; class >= 0 && r == 0 && !node->read_latency_ns && !extra->read_mib_per_sec; class --) {
		r = read_attribute(root, node->nid, class, "read_latency", &node->read_latency_ns);
		if (r == 0)
			r = read_attribute(root, node->nid, class, "write_latency", &extra->write_latency_ns);
		if (r == 0)
			r = read_attribute(root, node->nid, class, "read_bandwidth", &extra->read_mib_per_sec);
		if (r == 0)
			r = read_attribute(root, node->nid, class, "write_bandwidth", &extra->write_mib_per_sec);
	}
	return r;
}

static int raise_end(void *ctx, int cpu)
{
	int *end = ctx;

	if (cpu >= *end)
		*end = cpu + 1;
	return 0;
}

struct cpu_ctx {
	int16_t *cpu_node;
	int16_t nid;
};

static int set_cpu_node(void *ctx, int cpu)
{
	const struct cpu_ctx *c = ctx;

	c->cpu_node[cpu] = c->nid;
	return 0;
}

/* A list that is malformed or names impossible CPUs is no list. */
static int read_cpus(struct topology_snapshot *s, const struct fsroot *root, size_t i)
{
	_cleanup_free_ char *text = NULL;
	struct topology_node *node = &s->pub.nodes[i];
	struct cpu_ctx ctx = { .nid = (int16_t)node->nid };
	int end = 0, r;

	r = fsroot_read_alloc(root, &text, NODE_PATH "/node%d/cpulist", node->nid);
	if (r < 0)
		return topology_is_fatal(r) ? r : 0;
	if (strlen(text) != (size_t)r || idlist_for_each(text, TOPOLOGY_CPU_MAX, raise_end, &end) < 0 || end == 0)
		return 0;
	node->has_cpu = true;
	if (end > s->n_cpus) {
		int16_t *more = realloc(s->cpu_node, (size_t)end * sizeof(*more));

		if (!more)
			return -ENOMEM;
		for (int cpu = s->n_cpus; cpu < end; cpu++)
			more[cpu] = -1;
		s->cpu_node = more;
		s->n_cpus = end;
	}
	ctx.cpu_node = s->cpu_node;
	return idlist_for_each(text, TOPOLOGY_CPU_MAX, set_cpu_node, &ctx);
}

struct mark_ctx {
	struct topology_snapshot *s;
	const struct fsroot *root;
};

static void mark_device(struct topology_snapshot *s, int nid)
{
	/* A node with CPUs is the machine's own, whatever a driver says. */
	if (nid >= 0 && nid < NODE_MAX && s->index[nid] >= 0 && !s->pub.nodes[s->index[nid]].has_cpu)
		s->pub.nodes[s->index[nid]].is_device = true;
}

/* "Node:      255" in the first lines; -1 while the driver has given the memory no node. */
static int mark_nvidia(void *ctx, const char *name)
{
	const struct mark_ctx *c = ctx;
	char text[1024], *p, *end;
	uint64_t nid;

	if (fsroot_read(c->root, text, sizeof(text), "proc/driver/nvidia/gpus/%s/numa_status", name) < 0)
		return 0;
	p = strstr(text, "Node:");
	if (!p)
		return 0;
	p += strlen("Node:");
	p += strspn(p, " \t");
	end = p + strcspn(p, "\n");
	*end = '\0';
	if (parse_u64(p, 0, NODE_MAX - 1, &nid) == 0)
		mark_device(c->s, (int)nid);
	return 0;
}

/*
 * Memory that belongs to a device and happens to be a node. Two signs, either is enough, and both spare nodes with
 * CPUs: the ACPI SRAT puts a generic initiator (a device that reads and writes by itself) into the node, or the driver
 * of a GPU says which node is its memory. CXL memory expanders have neither: they start no accesses.
 */
static int find_devices(struct topology_snapshot *s, const struct fsroot *root)
{
	struct mark_ctx ctx = { s, root };
	struct nodeset initiators;
	bool there;
	int r;

	r = read_set(root, "has_generic_initiator", &initiators, &there);
	if (r < 0)
		return r;
	nodeset_for_each (nid, &initiators)
		mark_device(s, nid);
	r = fsroot_for_each(root, mark_nvidia, &ctx, "proc/driver/nvidia/gpus");
	return topology_is_fatal(r) ? r : 0;
}

static int mark_kmem(void *ctx, const char *name)
{
	const struct mark_ctx *c = ctx;
	uint64_t nid;
	int r;

	/* The folder of the driver has its devices as links, and other files. */
	r = fsroot_read_u64(c->root, &nid, 10, "sys/bus/dax/drivers/kmem/%s/target_node", name);
	if (r == 0 && nid < NODE_MAX && c->s->index[nid] >= 0)
		c->s->extra[c->s->index[nid]].is_kmem = true;
	return topology_is_fatal(r) ? r : 0;
}

static int find_kmem(struct topology_snapshot *s, const struct fsroot *root)
{
	struct mark_ctx ctx = { s, root };
	int r = fsroot_for_each(root, mark_kmem, &ctx, "sys/bus/dax/drivers/kmem");

	return topology_is_fatal(r) ? r : 0;
}

int topology_nodes_read(struct topology_snapshot *s, const struct fsroot *root)
{
	struct nodeset with_cpu, with_memory;
	bool cpu_there, memory_there;
	int r;

	r = add_online(s, root);
	if (r == 0)
		r = read_set(root, "has_cpu", &with_cpu, &cpu_there);
	if (r == 0)
		r = read_set(root, "has_memory", &with_memory, &memory_there);
	for (size_t i = 0; i < s->pub.n_nodes && r == 0; i++) {
		struct topology_node *node = &s->pub.nodes[i];

		r = read_total(root, node->nid, &node->total_bytes);
		if (r == 0)
			r = read_distances(s, root, i);
		if (r == 0)
			r = read_performance(s, root, i);
		if (r == 0)
			r = read_cpus(s, root, i);
		if (cpu_there)
			node->has_cpu = nodeset_has(&with_cpu, node->nid);
		/* A node that was only just named, or has given all its memory away, has 0 bytes. */
		node->has_memory = node->total_bytes > 0 && (!memory_there || nodeset_has(&with_memory, node->nid));
	}
	if (r == 0)
		r = find_devices(s, root);
	if (r == 0)
		r = find_kmem(s, root);
	return r;
}
