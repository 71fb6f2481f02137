/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cleanup.h"
#include "sample.h"
#include "sim_machine.h"

#define PID_FIRST      1000
#define ZONEINFO_BYTES 4096

uint32_t sim_machine_pid(int64_t number)
{
	return (uint32_t)(PID_FIRST + number);
}

int64_t sim_machine_process(uint32_t pid)
{
	return (int64_t)pid - PID_FIRST;
}

/* The folders on the way to @path, below the machine's. */
static int make_parents(const struct sim_machine *m, const char *path)
{
	char part[PATH_MAX];

	for (const char *p = strchr(path, '/'); p; p = strchr(p + 1, '/')) {
		snprintf(part, sizeof(part), "%.*s", (int)(p - path), path);
		if (mkdirat(m->root.fd, part, 0755) < 0 && errno != EEXIST)
			return -errno;
	}
	return 0;
}

__attribute__((format(printf, 3, 4))) static int put(const struct sim_machine *m, const char *path, const char *fmt,
						     ...)
{
	_cleanup_close_ int fd = -1;
	va_list ap;
	int r = make_parents(m, path);

	if (r < 0)
		return r;
	fd = openat(m->root.fd, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd < 0)
		return -errno;
	va_start(ap, fmt);
	r = vdprintf(fd, fmt, ap);
	va_end(ap);
	return r < 0 ? -errno : 0;
}

static int put_link(const struct sim_machine *m, const char *target, const char *path)
{
	int r = make_parents(m, path);

	if (r < 0)
		return r;
	return symlinkat(target, m->root.fd, path) < 0 && errno != EEXIST ? -errno : 0;
}

static int put_blocks(const struct sim_machine *m, int node)
{
	uint64_t n = sim_place_block_pages(m->place) * PAGE_SIZE_BYTES / SIM_BLOCK_BYTES;
	char path[128], target[64];
	int r = 0;

	for (uint64_t i = 0; i < n && r == 0; i++) {
		unsigned long long block = 1 + (uint64_t)node * n + i;

		snprintf(path, sizeof(path), "sys/devices/system/memory/memory%llu/state", block);
		r = put(m, path, "online\n");
		snprintf(path, sizeof(path), "sys/devices/system/memory/memory%llu/node%d", block, node);
		snprintf(target, sizeof(target), "../../node/node%d", node);
		if (r == 0)
			r = put_link(m, target, path);
		snprintf(path, sizeof(path), "sys/devices/system/node/node%d/memory%llu", node, block);
		snprintf(target, sizeof(target), "../../memory/memory%llu", block);
		if (r == 0)
			r = put_link(m, target, path);
	}
	return r;
}

/* The nearer in tiers, the nearer; among those, the nearer in number. */
static int distance(const struct sim_scenario *s, size_t a, size_t b)
{
	int64_t tiers = s->nodes[a].tier - s->nodes[b].tier;

	if (a == b)
		return 10;
	return (int)(20 + 10 * (tiers < 0 ? -tiers : tiers) + (int64_t)(a < b ? b - a : a - b));
}

static int put_node(const struct sim_machine *m, size_t node, int64_t *cpu)
{
	const struct sim_scenario *s = m->place->scenario;
	char path[128], text[128] = "";
	size_t len = 0;
	int r;

	snprintf(path, sizeof(path), "sys/devices/system/node/node%zu/meminfo", node);
	r = put(m, path, "Node %zu MemTotal:       %llu kB\n", node,
		(unsigned long long)m->place->node_pages[node] * (PAGE_SIZE_BYTES >> 10));
	for (size_t other = 0; other < s->n_nodes; other++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%d", other ? " " : "",
					distance(s, node, other));
	snprintf(path, sizeof(path), "sys/devices/system/node/node%zu/distance", node);
	if (r == 0)
		r = put(m, path, "%s\n", text);
	text[0] = '\0';
	if (s->nodes[node].cpus > 0)
		snprintf(text, sizeof(text), "%lld-%lld", (long long)*cpu, (long long)(*cpu + s->nodes[node].cpus - 1));
	*cpu += s->nodes[node].cpus;
	snprintf(path, sizeof(path), "sys/devices/system/node/node%zu/cpulist", node);
	if (r == 0)
		r = put(m, path, "%s\n", text);
	return r < 0 ? r : put_blocks(m, (int)node);
}

/* Nodes as a list, of those that @fits says yes to. */
static void list_nodes(const struct sim_scenario *s, bool (*fits)(const struct sim_node *node, int64_t arg),
		       int64_t arg, char *buf, size_t size)
{
	size_t len = 0;

	buf[0] = '\0';
	for (size_t i = 0; i < s->n_nodes; i++)
		if (fits(&s->nodes[i], arg))
			len += (size_t)snprintf(buf + len, size - len, "%s%zu", len ? "," : "", i);
}

static bool any_node(const struct sim_node *node, int64_t arg)
{
	(void)node;
	(void)arg;
	return true;
}

static bool has_cpus(const struct sim_node *node, int64_t arg)
{
	(void)arg;
	return node->cpus > 0;
}

static bool in_tier(const struct sim_node *node, int64_t tier)
{
	return node->tier == tier;
}

static int put_sys(const struct sim_machine *m)
{
	const struct sim_scenario *s = m->place->scenario;
	char list[32], path[128];
	int64_t cpu = 0;
	int r;

	list_nodes(s, any_node, 0, list, sizeof(list));
	r = put(m, "sys/devices/system/node/online", "%s\n", list);
	if (r == 0)
		r = put(m, "sys/devices/system/node/has_memory", "%s\n", list);
	list_nodes(s, has_cpus, 0, list, sizeof(list));
	if (r == 0)
		r = put(m, "sys/devices/system/node/has_cpu", "%s\n", list);
	if (r == 0)
		r = put(m, "sys/devices/system/memory/block_size_bytes", "%llx\n", (unsigned long long)SIM_BLOCK_BYTES);
	if (r == 0)
		r = put(m, "sys/kernel/mm/numa/demotion_enabled", "%s\n", s->kernel.demotion ? "true" : "false");
	for (int64_t tier = 0; tier < SIM_NODES_MAX && r == 0; tier++) {
		list_nodes(s, in_tier, tier, list, sizeof(list));
		/* 4 is DRAM's; slower ones have greater numbers. */
		snprintf(path, sizeof(path), "sys/devices/virtual/memory_tiering/memory_tier%lld/nodelist",
			 (long long)(4 + 18 * tier));
		if (list[0])
			r = put(m, path, "%s\n", list);
	}
	for (size_t i = 0; i < s->n_nodes && r == 0; i++)
		r = put_node(m, i, &cpu);
	return r;
}

/* All memory of the process that @memory is of: mappings in the order of addresses, and how large they are. */
static int put_memory(const struct sim_machine *m, uint32_t pid)
{
	const struct sim_scenario *s = m->place->scenario;
	char path[64], text[SIM_MEMORIES_MAX * 80] = "";
	uint64_t pages = 0;
	size_t len = 0;
	int r;

	for (size_t i = 0; i < s->n_memories; i++) {
		const struct sim_area *area = &m->place->area[i];
		uint64_t start = sim_place_addr(area->first);

		if (sim_machine_pid(s->memories[i].process) != pid)
			continue;
		pages += area->pages;
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%llx-%llx rw-p 00000000 00:00 0 \n",
					(unsigned long long)start,
					(unsigned long long)(start + area->pages * PAGE_SIZE_BYTES));
	}
	snprintf(path, sizeof(path), "proc/%u/maps", pid);
	r = put(m, path, "%s", text);
	snprintf(path, sizeof(path), "proc/%u/statm", pid);
	return r < 0 ? r : put(m, path, "%llu %llu 0 0 0 0 0\n", (unsigned long long)pages, (unsigned long long)pages);
}

/* proc_pid_stat(5): what of it is read is state, flags and start time. */
static int put_processes(const struct sim_machine *m)
{
	const struct sim_scenario *s = m->place->scenario;
	char path[64];
	int r = 0;

	for (size_t i = 0; i < s->n_memories && r == 0; i++) {
		uint32_t pid = sim_machine_pid(s->memories[i].process);

		snprintf(path, sizeof(path), "proc/%u/stat", pid);
		r = put(m, path,
			"%u (simulated) S 1 1 1 0 -1 4194560 1 0 0 0 1 1 0 0 20 0 1 0 %u 1000000 100 "
			"18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n",
			pid, pid * 10);
		if (r == 0)
			r = put_memory(m, pid);
	}
	return r;
}

static uint64_t watermark(const struct sim_machine *m, size_t node, double percent)
{
	return (uint64_t)((double)m->place->node_pages[node] * percent / 100.0);
}

/* Always of one length, so that it is written over, never cut: whoever reads it sees all of it. */
static int write_zoneinfo(struct sim_machine *m)
{
	const struct sim_kernel *k = &m->place->scenario->kernel;
	uint64_t span = sim_place_block_pages(m->place), start = SIM_BLOCK_BYTES / PAGE_SIZE_BYTES;
	char text[ZONEINFO_BYTES];
	size_t len = 0;

	for (size_t i = 0; i < m->place->n_nodes; i++) {
		m->written_free[i] = sim_place_free_pages(m->place, (int)i);
		len += (size_t)snprintf(text + len, sizeof(text) - len,
					"Node %zu, zone   Normal\n"
					"  pages free %20llu\n"
					"        boost    0\n"
					"        min      %llu\n"
					"        low      %llu\n"
					"        high     %llu\n"
					"        promo    %llu\n"
					"        spanned  %llu\n"
					"        present  %llu\n"
					"        managed  %llu\n"
					"        cma      0\n"
					"        protection: (0, 0, 0, 0)\n"
					"  start_pfn:           %llu\n",
					i, (unsigned long long)m->written_free[i],
					(unsigned long long)watermark(m, i, k->min_percent),
					(unsigned long long)watermark(m, i, k->low_percent),
					(unsigned long long)watermark(m, i, k->high_percent),
					(unsigned long long)watermark(m, i, k->promo_percent), (unsigned long long)span,
					(unsigned long long)m->place->node_pages[i],
					(unsigned long long)m->place->node_pages[i],
					(unsigned long long)(start + i * span));
	}
	return pwrite(m->zoneinfo, text, len, 0) == (ssize_t)len ? 0 : -EIO;
}

int sim_machine_update(struct sim_machine *m)
{
	for (size_t i = 0; i < m->place->n_nodes; i++)
		if (m->written_free[i] != sim_place_free_pages(m->place, (int)i))
			return write_zoneinfo(m);
	return 0;
}

int sim_machine_put_demoted(struct sim_machine *m, uint64_t pages)
{
	char text[128];
	int len =
		snprintf(text, sizeof(text), "pgdemote_kswapd %020llu\npgdemote_direct 0\n", (unsigned long long)pages);

	return pwrite(m->vmstat, text, (size_t)len, 0) == len ? 0 : -EIO;
}

static int put_proc(struct sim_machine *m)
{
	int r = put_processes(m);

	if (r < 0)
		return r;
	m->zoneinfo = openat(m->root.fd, "proc/zoneinfo", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	if (m->zoneinfo < 0)
		return -errno;
	m->vmstat = openat(m->root.fd, "proc/vmstat", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	if (m->vmstat < 0)
		return -errno;
	r = write_zoneinfo(m);
	return r < 0 ? r : sim_machine_put_demoted(m, 0);
}

int sim_machine_init(struct sim_machine *m, const struct sim_place *place)
{
	const char *tmp = getenv("TMPDIR");
	int r;

	*m = (struct sim_machine){ .root = { .fd = -1 }, .place = place, .zoneinfo = -1, .vmstat = -1 };
	if (!tmp || !*tmp || strlen(tmp) > 40)
		tmp = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
	snprintf(m->dir, sizeof(m->dir), "%.40s/pghotd-sim-XXXXXX", tmp);
	if (!mkdtemp(m->dir)) {
		r = -errno;
		m->dir[0] = '\0';
		return r;
	}
	r = fsroot_open(&m->root, m->dir);
	if (r == 0)
		r = put_sys(m);
	if (r == 0)
		r = put_proc(m);
	if (r < 0)
		sim_machine_free(m);
	return r;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

void sim_machine_free(struct sim_machine *m)
{
	if (m->dir[0]) {
		if (m->zoneinfo >= 0)
			close(m->zoneinfo);
		if (m->vmstat >= 0)
			close(m->vmstat);
		fsroot_close(&m->root);
		nftw(m->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	}
	*m = (struct sim_machine){ .root = { .fd = -1 }, .zoneinfo = -1, .vmstat = -1 };
}
