/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * QEMU TCG plugin: sees every load and store of the guest, tells which of them miss
 * the caches, makes far memory slow, counts the truth and samples like AMD IBS.
 *
 * Options (-plugin FILE,KEY=VALUE,...):
 *   shm=PATH          the file shared with the guest's module; required
 *   delays=A:B:...    wait for an L3 miss to node 0:1:..., in percent of MISS_GAP below
 *   latencies=A:B:... modelled latency of the same, in cycles
 *   l3_sets=N, l3_ways=N   the last cache, of 64-byte lines (16384, 8)
 *   pages=1           keep the histogram of pages
 *   truth=PATH        a text file with all counters, written when the machine ends
 *
 * The emulator runs all CPUs of the guest in one thread (thread=single), so callbacks
 * come one at a time. With a thread each (thread=multi) the counters and the shared
 * cache lose an update now and then; rings stay whole, each has one writer.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <x86intrin.h>

#include "cache_model.h"
#include "ibs_shared.h"
#include "qemu_api.h"

#define LINE_SHIFT 6
#define PAGE_SHIFT 12
#define KERNEL_BIT 63

/* Sizes of a current server core, and latencies in its cycles. */
#define L1_SETS             64
#define L1_WAYS             8
#define L2_SETS             1024
#define L2_WAYS             8
#define L1_TLB_SETS         8
#define L1_TLB_WAYS         8
#define L2_TLB_SETS         256
#define L2_TLB_WAYS         8
#define L1_CYCLES           4
#define L2_CYCLES           14
#define L3_CYCLES           50
#define L2_TLB_CYCLES       8
#define WALK_CYCLES         60
#define DEFAULT_NEAR_CYCLES 300
#define DEFAULT_FAR_CYCLES  900

/*
 * How long the emulator takes from one L3 miss of a CPU to its next, waits aside: what waits are in proportion to. What
 * is kept is the median, followed by steps of a part in so many, so that a program which does little but miss sets it,
 * and others in between don't matter. A gap of more than the maximum was interrupted, or belongs to a program that
 * seldom misses: memory is no slower for that one.
 */
#define MISS_GAP_FIRST 800ULL
#define MISS_GAP_MAX   4000ULL
#define MISS_GAP_SHIFT 12
#define MISS_GAP_ONE   1024ULL /* miss_gap counts in parts of a cycle */

/* Longer between two accesses: the host's CPU was somebody else's, or the guest idle. */
#define BUSY_GAP_MAX 8000ULL

/* Samples come at the period on average, but not in step with a loop of the program. */
#define JITTER_MASK 127ULL

/* A piece of guest memory that was learnt: what the emulator calls where and whose it is. */
struct range {
	uint64_t first; /* in the emulator's addresses */
	uint64_t bytes;
	uint64_t to_phys; /* added, modulo 2^64 */
	uint32_t node;
};

struct vcpu {
	struct cache_model l1, l2, l1_tlb, l2_tlb;
	uint64_t missed_at;        /* the end of the last L3 miss, its wait included, by the host's clock */
	const struct range *range; /* of the last access */
	uint64_t left;             /* of the period */
	uint64_t period;           /* that left was taken from */
	uint32_t mode;
};

QEMU_PLUGIN_EXPORT int qemu_plugin_version = QEMU_PLUGIN_VERSION;

static struct ibs_shared *shared;
static struct ibs_page *pages;
static uint32_t page_mask; /* 0: no histogram */
static struct cache_model l3;
static struct vcpu vcpus[IBS_CPUS_MAX];
static struct range ranges[IBS_RANGES_MAX];
static uint32_t latency[IBS_NODES_MAX + 1];
static uint32_t delay_percent[IBS_NODES_MAX + 1];
static uint64_t random_state = 0x9e3779b97f4a7c15ULL;
static const char *shm_path;
static const char *truth_path;

static uint64_t next_random(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

/*
 * Far memory is slow by a wait, and the wait is in proportion to what a miss takes the emulator without it, just now on
 * this host. When other work takes the CPU, its caches or its clock, emulation gets slower, and so must the wait, or
 * far memory would seem near.
 */
static void wait_until(uint64_t end)
{
	while ((int64_t)(end - __rdtsc()) > 0)
		;
}

static void learn_miss_gap(struct ibs_cpu *cpu, uint64_t cycles)
{
	uint64_t gap = shared->miss_gap;

	/* what learn_busy() counts, this has to count as well, or a CPU that is slow for a moment seems to do less */
	if (cycles < BUSY_GAP_MAX) {
		cpu->gap_cycles += cycles;
		cpu->gaps++;
	}
	if (cycles > MISS_GAP_MAX)
		return;
	/* a step up for each longer one, down for each shorter: it rests where both are as many */
	if (cycles * MISS_GAP_ONE > gap)
		shared->miss_gap = gap + (gap >> MISS_GAP_SHIFT);
	else
		shared->miss_gap = gap - (gap >> MISS_GAP_SHIFT);
}

/* A miss to @node: what it took to emulate is known, the wait follows. */
static void wait_for_memory(struct vcpu *me, struct ibs_cpu *cpu, uint32_t node, bool is_kernel)
{
	uint64_t now = __rdtsc();

	if (!is_kernel)
		learn_miss_gap(cpu, now - me->missed_at);
	me->missed_at = now + shared->miss_gap / MISS_GAP_ONE * delay_percent[node] / 100;
	wait_until(me->missed_at);
}

/* ---- where memory is ------------------------------------------------------------- */

static const struct range *find_range(struct vcpu *me, uint64_t where)
{
	uint32_t nr = __atomic_load_n(&shared->nr_ranges, __ATOMIC_ACQUIRE);

	for (uint32_t i = 0; i < nr; i++) {
		if (where - ranges[i].first < ranges[i].bytes) {
			me->range = &ranges[i];
			return me->range;
		}
	}
	return NULL;
}

static void learn_range(uint64_t where)
{
	uint64_t first = shared->touch_first, bytes = shared->touch_end - first;
	uint64_t to_phys = shared->touch_phys - where;
	uint32_t nr = shared->nr_ranges;
	struct range *last = nr ? &ranges[nr - 1] : NULL;

	if (!bytes)
		return;
	for (uint32_t i = 0; i < nr; i++) {
		if (where - ranges[i].first < ranges[i].bytes)
			return;
	}
	if (last && last->node == shared->touch_node && last->to_phys == to_phys &&
	    last->first + last->bytes == first - to_phys) {
		last->bytes += bytes;
	} else if (nr < IBS_RANGES_MAX) {
		ranges[nr].first = first - to_phys;
		ranges[nr].bytes = bytes;
		ranges[nr].to_phys = to_phys;
		ranges[nr].node = shared->touch_node < IBS_NODES_MAX ? shared->touch_node : IBS_NODE_UNKNOWN;
		/* pairs with the acquire in find_range(): an entry is whole before it counts */
		__atomic_store_n(&shared->nr_ranges, nr + 1, __ATOMIC_RELEASE);
	}
}

/* The module's own read of its address: see struct ibs_shared. */
static void answer_touch(unsigned int cpu, uint64_t where)
{
	shared->touch_vaddr = 0;
	shared->touch_cpu = cpu;
	learn_range(where);
	/* pairs with the module's acquire of touch_seen */
	__atomic_store_n(&shared->touch_seen, shared->touch_seen + 1, __ATOMIC_RELEASE);
}

/* ---- sampling -------------------------------------------------------------------- */

static void restart_period(struct vcpu *me)
{
	uint64_t mask = JITTER_MASK;

	while (mask > me->period / 2)
		mask >>= 1;
	me->left = me->period + (next_random() & mask) - mask / 2;
	if (!me->left)
		me->left = 1;
}

static void put_entry(struct ibs_cpu *cpu, unsigned int index, const struct ibs_entry *entry)
{
	struct ibs_entry *ring = (struct ibs_entry *)(void *)((char *)shared + IBS_RINGS_OFFSET);
	uint64_t head = cpu->head;

	/* acquire pairs with the module's release of tail: what is overwritten was copied */
	if (head - __atomic_load_n(&cpu->tail, __ATOMIC_ACQUIRE) >= IBS_RING_ENTRIES) {
		cpu->dropped++;
		return;
	}
	ring[(size_t)index * IBS_RING_ENTRIES + head % IBS_RING_ENTRIES] = *entry;
	/* pairs with the module's acquire of head: an entry is whole before it counts */
	__atomic_store_n(&cpu->head, head + 1, __ATOMIC_RELEASE);
}

/* True when this access is to be the sample. */
static bool count_down(struct vcpu *me, const struct ibs_cpu *cpu, bool miss, uint32_t cycles)
{
	uint64_t step = 1;

	if (me->period != cpu->period || me->mode != cpu->mode) {
		me->period = cpu->period;
		me->mode = cpu->mode;
		restart_period(me);
	}
	if (me->mode == IBS_MODE_CYCLES)
		step = cycles;
	else if (me->mode == IBS_MODE_MISSES && !miss)
		return false;
	if (me->left > step) {
		me->left -= step;
		return false;
	}
	restart_period(me);
	return me->mode != IBS_MODE_TAGGED || miss;
}

/*
 * From one access to the next is what emulating took, unless that is so long that the host's CPU was somebody else's or
 * the guest idle. Callbacks of one thread for all CPUs come in turn, so the time is the later one's.
 */
static void learn_busy(struct ibs_cpu *cpu, uint64_t now)
{
	static uint64_t before;
	uint64_t cycles = now - before;

	before = now;
	if (cycles < BUSY_GAP_MAX)
		cpu->busy += cycles;
}

static void on_access(unsigned int index, qemu_plugin_meminfo_t info, uint64_t vaddr, void *instruction)
{
	const struct qemu_plugin_hwaddr *handle;
	struct vcpu *me = &vcpus[index % IBS_CPUS_MAX];
	struct ibs_cpu *cpu = &shared->cpu[index % IBS_CPUS_MAX];
	uint64_t ip = (uint64_t)(uintptr_t)instruction;
	bool is_kernel = ip >> KERNEL_BIT;
	bool is_store, is_touch = vaddr && vaddr == shared->touch_vaddr;
	const struct range *range = me->range;
	struct ibs_entry entry = { 0 };
	struct ibs_counts *counts;
	uint64_t where, phys;
	uint32_t cycles, tlb_cycles = 0, level, node, flags = 0;

	/* nothing is known of the memory before the module comes: let the guest boot at full speed */
	if (!shared->nr_ranges && !is_touch)
		return;
	learn_busy(cpu, __rdtsc());
	handle = qemu_plugin_get_hwaddr(info, vaddr);
	if (!handle || qemu_plugin_hwaddr_is_io(handle))
		return;
	where = qemu_plugin_hwaddr_phys_addr(handle);
	if (is_touch)
		answer_touch(index % IBS_CPUS_MAX, where);
	if (!range || where - range->first >= range->bytes)
		range = find_range(me, where);
	node = range ? range->node : IBS_NODE_UNKNOWN;
	phys = range ? where + range->to_phys : 0;
	counts = &shared->node[node];
	is_store = qemu_plugin_mem_is_store(info);
	if (is_store) {
		flags = IBS_ENTRY_STORE;
		counts->stores[is_kernel]++;
	} else {
		counts->loads[is_kernel]++;
	}

	if (!cache_model_touch(&me->l1_tlb, vaddr >> PAGE_SHIFT)) {
		flags |= IBS_ENTRY_L1_TLB_MISS;
		tlb_cycles = L2_TLB_CYCLES;
		if (!cache_model_touch(&me->l2_tlb, vaddr >> PAGE_SHIFT)) {
			flags |= IBS_ENTRY_L2_TLB_MISS;
			tlb_cycles = WALK_CYCLES;
		}
	}
	if (cache_model_touch(&me->l1, where >> LINE_SHIFT)) {
		level = IBS_LEVEL_L1;
		cycles = L1_CYCLES;
	} else if (cache_model_touch(&me->l2, where >> LINE_SHIFT)) {
		level = IBS_LEVEL_L2;
		cycles = L2_CYCLES;
	} else if (cache_model_touch(&l3, where >> LINE_SHIFT)) {
		level = IBS_LEVEL_L3;
		cycles = L3_CYCLES;
	} else {
		level = IBS_LEVEL_MEMORY;
		cycles = latency[node];
		counts->misses[is_kernel]++;
		wait_for_memory(me, cpu, node, is_kernel);
	}
	if (page_mask && range) {
		struct ibs_page *page = &pages[(phys >> PAGE_SHIFT) & page_mask];

		page->accesses++;
		page->misses += level == IBS_LEVEL_MEMORY;
	}
	if (!cpu->period || cpu->paused || !count_down(me, cpu, level == IBS_LEVEL_MEMORY, cycles + tlb_cycles))
		return;
	if (level != IBS_LEVEL_L1)
		cycles += (uint32_t)(next_random() % (cycles / 4 + 1)); /* no two misses are alike */
	entry.vaddr = vaddr;
	entry.phys = phys;
	entry.ip = ip;
	entry.period = me->period;
	entry.latency = (uint16_t)(level == IBS_LEVEL_L1 ? 0 : cycles > UINT16_MAX ? UINT16_MAX : cycles);
	entry.tlb_latency = (uint16_t)tlb_cycles;
	entry.level = (uint8_t)level;
	entry.node = (uint8_t)node;
	entry.size = (uint8_t)(1U << qemu_plugin_mem_size_shift(info));
	entry.flags = (uint8_t)flags;
	put_entry(cpu, index % IBS_CPUS_MAX, &entry);
}

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *block)
{
	size_t nr = qemu_plugin_tb_n_insns(block);

	(void)id;
	for (size_t i = 0; i < nr; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(block, i);

		qemu_plugin_register_vcpu_mem_cb(insn, on_access, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW,
						 (void *)(uintptr_t)qemu_plugin_insn_vaddr(insn));
	}
}

/* ---- start and end --------------------------------------------------------------- */

static void write_truth(FILE *out)
{
	for (uint32_t i = 0; i <= IBS_NODES_MAX; i++) {
		const struct ibs_counts *n = &shared->node[i];

		if (i < IBS_NODES_MAX && !(n->loads[0] | n->loads[1] | n->stores[0] | n->stores[1]))
			continue;
		if (i < IBS_NODES_MAX)
			fprintf(out, "node=%u", i);
		else
			fputs("node=unknown", out);
		fprintf(out,
			" user_loads=%llu user_stores=%llu user_misses=%llu"
			" kernel_loads=%llu kernel_stores=%llu kernel_misses=%llu\n",
			n->loads[0], n->stores[0], n->misses[0], n->loads[1], n->stores[1], n->misses[1]);
	}
	fprintf(out, "miss_gap_cycles=%llu\n", shared->miss_gap / MISS_GAP_ONE);
	for (uint32_t i = 0; i < shared->nr_cpus; i++)
		fprintf(out, "cpu=%u sampled=%llu ring_full=%llu\n", i, shared->cpu[i].head, shared->cpu[i].dropped);
	for (uint32_t i = 0; i < shared->nr_ranges; i++)
		fprintf(out, "range=%#llx bytes=%#llx to_phys=%#llx node=%u\n", (unsigned long long)ranges[i].first,
			(unsigned long long)ranges[i].bytes, (unsigned long long)ranges[i].to_phys, ranges[i].node);
}

static void write_at_end(qemu_plugin_id_t id, void *unused)
{
	FILE *out = truth_path ? fopen(truth_path, "we") : NULL;

	(void)id;
	(void)unused;
	if (!out)
		return;
	write_truth(out);
	fclose(out);
}

/* A list of numbers with colons between; the last one holds for the nodes after it. */
static bool parse_list(const char *text, uint32_t *res)
{
	for (uint32_t i = 0; i < IBS_NODES_MAX; i++) {
		uint32_t value = 0;

		if (*text < '0' || *text > '9')
			return false;
		while (*text >= '0' && *text <= '9' && value < 100000000)
			value = value * 10 + (uint32_t)(*text++ - '0');
		for (uint32_t j = i; j < IBS_NODES_MAX; j++)
			res[j] = value;
		if (!*text)
			return true;
		if (*text++ != ':')
			return false;
	}
	return false;
}

/* Returns the value when the option has that key, else NULL. */
static const char *value_of(const char *option, const char *key)
{
	size_t n = strlen(key);

	return !strncmp(option, key, n) && option[n] == '=' ? option + n + 1 : NULL;
}

static bool take_option(const char *option, uint32_t *delays, uint32_t *sets, uint32_t *ways, uint32_t *want_pages)
{
	uint32_t list[IBS_NODES_MAX] = { 0 };
	const char *value;
	bool ok = true;

	value = value_of(option, "shm");
	if (value) {
		shm_path = value;
		return true;
	}
	value = value_of(option, "truth");
	if (value) {
		truth_path = value;
		return true;
	}
	value = value_of(option, "delays");
	if (value)
		return parse_list(value, delays);
	value = value_of(option, "latencies");
	if (value)
		return parse_list(value, latency);
	value = strchr(option, '=');
	ok = value && parse_list(value + 1, list);
	if (value_of(option, "l3_sets"))
		*sets = list[0];
	else if (value_of(option, "l3_ways"))
		*ways = list[0];
	else if (value_of(option, "pages"))
		*want_pages = list[0];
	else
		ok = false;
	return ok;
}

static int map_shared(void)
{
	int fd = shm_path ? open(shm_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
	void *map;

	if (fd < 0 || ftruncate(fd, IBS_SHARED_BYTES) < 0)
		return -EINVAL;
	map = mmap(NULL, IBS_SHARED_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (map == MAP_FAILED)
		return -ENOMEM;
	shared = map;
	pages = (struct ibs_page *)(void *)((char *)map + IBS_PAGES_OFFSET);
	return 0;
}

static int init_models(uint32_t sets, uint32_t ways)
{
	int r = cache_model_init(&l3, sets, ways);

	for (uint32_t i = 0; i < IBS_CPUS_MAX && !r; i++) {
		r = cache_model_init(&vcpus[i].l1, L1_SETS, L1_WAYS);
		if (!r)
			r = cache_model_init(&vcpus[i].l2, L2_SETS, L2_WAYS);
		if (!r)
			r = cache_model_init(&vcpus[i].l1_tlb, L1_TLB_SETS, L1_TLB_WAYS);
		if (!r)
			r = cache_model_init(&vcpus[i].l2_tlb, L2_TLB_SETS, L2_TLB_WAYS);
	}
	return r;
}

QEMU_PLUGIN_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
	uint32_t delays[IBS_NODES_MAX] = { 0 };
	uint32_t sets = 16384, ways = 8, want_pages = 0;

	for (uint32_t i = 0; i < IBS_NODES_MAX; i++)
		latency[i] = i ? DEFAULT_FAR_CYCLES : DEFAULT_NEAR_CYCLES;
	latency[IBS_NODE_UNKNOWN] = DEFAULT_NEAR_CYCLES;
	for (int i = 0; i < argc; i++) {
		if (!take_option(argv[i], delays, &sets, &ways, &want_pages)) {
			fprintf(stderr, "ibs plugin: can't take the option '%s'\n", argv[i]);
			return -1;
		}
	}
	if (!info->system_emulation || info->system.max_vcpus > IBS_CPUS_MAX) {
		fprintf(stderr, "ibs plugin: it is for whole machines of at most %d CPUs\n", IBS_CPUS_MAX);
		return -1;
	}
	if (map_shared() < 0 || init_models(sets, ways) < 0) {
		fputs("ibs plugin: can't map the shared file, or odd sizes of the cache\n", stderr);
		return -1;
	}
	for (uint32_t i = 0; i < IBS_NODES_MAX; i++)
		delay_percent[i] = delays[i];
	if (want_pages) {
		page_mask = IBS_PAGES_MAX - 1;
		shared->nr_pages = IBS_PAGES_MAX;
	}
	shared->miss_gap = MISS_GAP_FIRST * MISS_GAP_ONE;
	memcpy(shared->delay, delays, sizeof(delays));
	shared->nr_cpus = (uint32_t)info->system.max_vcpus;
	shared->l3_sets = sets;
	shared->l3_ways = ways;
	shared->version = IBS_SHARED_VERSION;
	shared->magic = IBS_SHARED_MAGIC;
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
	qemu_plugin_register_atexit_cb(id, write_at_end, NULL);
	return 0;
}
