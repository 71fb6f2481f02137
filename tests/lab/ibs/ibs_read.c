/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reads the lab's IBS on every CPU and says what came, in KEY=VALUE words. It knows the
 * kernel's interface and nothing of the daemon, so that it can bear witness.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "ibs_raw.h"

#define CPUS_MAX     64
#define PAGE         4096UL
#define REGION_SHIFT 21
#define REGIONS_MAX  4096
#define RECORD_MAX   4096
#define SAMPLE_TYPE                                                                                 \
	(PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ADDR | PERF_SAMPLE_CPU | \
	 PERF_SAMPLE_PERIOD | PERF_SAMPLE_RAW | PERF_SAMPLE_WEIGHT | PERF_SAMPLE_DATA_SRC | PERF_SAMPLE_PHYS_ADDR)

/* The fields of a sample in the order of SAMPLE_TYPE, up to the raw data and behind it. */
struct front {
	struct perf_event_header header;
	uint64_t ip;
	uint32_t pid, tid;
	uint64_t time, addr;
	uint32_t cpu, unused;
	uint64_t period;
	uint32_t raw_size;
};

struct back {
	uint64_t weight, data_src, phys;
};

struct region {
	uint64_t number; /* address / 2 MiB */
	uint64_t samples;
};

static struct {
	const char *pmu;
	uint64_t config, config1, config2, period, freq, new_period;
	uint64_t ms;
	uint32_t exclude;
	int ring_pages;
	int pid; /* 0: every task */
	int cpu; /* -1: every CPU */
	bool regions;
	struct ibs_raw inject;
} opt = { .pmu = "ibs_mprof", .ms = 1000, .ring_pages = 64, .cpu = -1 };

static struct {
	uint64_t samples, mine, right, wrong, unmapped, no_addr, no_phys, bad_raw, kernel_ip;
	uint64_t loads, stores, l1, l2, l3, ram, cxl, remote, weight_sum, weighted, periods;
	uint64_t lost, lost_records, throttles, unthrottles, second_half, last_period;
} seen;

static struct region regions[REGIONS_MAX];
static int pagemap = -1;
static bool is_second_half;

static int fail(const char *what)
{
	int error = errno;

	printf("error=%d what=%s text=%s\n", error, what, strerror(error));
	return 1;
}

static int pmu_type(void)
{
	char path[128];
	int type = -1;
	FILE *file;

	snprintf(path, sizeof(path), "/sys/bus/event_source/devices/%s/type", opt.pmu);
	file = fopen(path, "re");
	if (file) {
		if (fscanf(file, "%d", &type) != 1)
			type = -1;
		fclose(file);
	}
	return type;
}

static int open_event(int type, int cpu)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = (uint32_t)type,
		.config = opt.config,
		.config1 = opt.config1,
		.config2 = opt.config2,
		.sample_type = SAMPLE_TYPE,
		.watermark = 1,
		.exclude_user = opt.exclude & 1,
		.exclude_kernel = opt.exclude >> 1 & 1,
		.exclude_hv = opt.exclude >> 2 & 1,
		.exclude_idle = opt.exclude >> 3 & 1,
		.exclude_host = opt.exclude >> 4 & 1,
		.exclude_guest = opt.exclude >> 5 & 1,
	};

	if (opt.freq) {
		attr.freq = 1;
		attr.sample_freq = opt.freq;
	} else {
		attr.sample_period = opt.period;
	}
	return (int)syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
}

static void count_region(uint64_t addr)
{
	uint64_t number = addr >> REGION_SHIFT;
	size_t i = number % REGIONS_MAX;

	for (size_t tries = 0; tries < REGIONS_MAX; tries++, i = (i + 1) % REGIONS_MAX) {
		if (!regions[i].samples || regions[i].number == number) {
			regions[i].number = number;
			regions[i].samples++;
			return;
		}
	}
}

/* Is the physical page of the sample what the program has at that address? */
static void check_page(uint64_t addr, uint64_t phys)
{
	uint64_t entry;

	if (pread(pagemap, &entry, sizeof(entry), (off_t)(addr / PAGE * sizeof(entry))) != sizeof(entry) ||
	    !(entry >> 63))
		seen.unmapped++;
	else if ((entry & ((1ULL << 55) - 1)) == phys / PAGE)
		seen.right++;
	else
		seen.wrong++;
}

static void take_source(uint64_t value)
{
	union perf_mem_data_src src = { .val = value };

	seen.loads += src.mem_op == PERF_MEM_OP_LOAD;
	seen.stores += src.mem_op == PERF_MEM_OP_STORE;
	seen.remote += src.mem_remote;
	switch (src.mem_lvl_num) {
	case PERF_MEM_LVLNUM_L1:
		seen.l1++;
		break;
	case PERF_MEM_LVLNUM_L2:
		seen.l2++;
		break;
	case PERF_MEM_LVLNUM_L3:
		seen.l3++;
		break;
	case PERF_MEM_LVLNUM_RAM:
		seen.ram++;
		break;
	case PERF_MEM_LVLNUM_CXL:
		seen.cxl++;
		break;
	default:
		break;
	}
}

static void print_sample(const struct front *front, const uint8_t *raw, const struct back *back)
{
	printf("sample pid=%u ip=%#llx addr=%#llx phys=%#llx weight=%llu data_src=%#llx misc=%#x raw=", front->pid,
	       (unsigned long long)front->ip, (unsigned long long)front->addr, (unsigned long long)back->phys,
	       (unsigned long long)back->weight, (unsigned long long)back->data_src, front->header.misc);
	for (uint32_t i = 0; i < front->raw_size; i++)
		printf("%02x", raw[i]);
	putchar('\n');
}

static void take_sample(const uint8_t *record, size_t bytes)
{
	const size_t raw_at = offsetof(struct front, raw_size) + sizeof(uint32_t);
	struct front front;
	struct back back;

	if (bytes < raw_at)
		return;
	memcpy(&front, record, raw_at);
	if (bytes < raw_at + front.raw_size + sizeof(back))
		return;
	memcpy(&back, record + raw_at + front.raw_size, sizeof(back));
	if (opt.inject.nr)
		print_sample(&front, record + raw_at, &back);
	seen.samples++;
	seen.second_half += is_second_half;
	seen.periods += front.period;
	seen.last_period = front.period;
	seen.kernel_ip += (front.header.misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_KERNEL;
	seen.no_addr += !front.addr;
	seen.no_phys += !back.phys;
	seen.bad_raw += (front.raw_size - 4) % 8 != 0 || front.raw_size < 52;
	seen.weight_sum += back.weight;
	seen.weighted += !!back.weight;
	take_source(back.data_src);
	if (!opt.pid || (int)front.pid != opt.pid)
		return;
	if (front.addr >> 63)
		return; /* the kernel's own data, on the program's behalf */
	seen.mine++;
	check_page(front.addr, back.phys);
	count_region(front.addr);
}

static void take_record(const uint8_t *record, size_t bytes)
{
	struct perf_event_header header;
	uint64_t words[2];

	memcpy(&header, record, sizeof(header));
	switch (header.type) {
	case PERF_RECORD_SAMPLE:
		take_sample(record, bytes);
		break;
	case PERF_RECORD_LOST:
		memcpy(words, record + sizeof(header), sizeof(words));
		seen.lost += words[1];
		seen.lost_records++;
		break;
	case PERF_RECORD_THROTTLE:
		seen.throttles++;
		break;
	case PERF_RECORD_UNTHROTTLE:
		seen.unthrottles++;
		break;
	default:
		break;
	}
}

static void drain(struct perf_event_mmap_page *ring)
{
	const uint8_t *data = (const uint8_t *)ring + PAGE;
	uint64_t mask = (uint64_t)opt.ring_pages * PAGE - 1;
	/* acquire pairs with the kernel's barrier before it moves data_head */
	uint64_t head = __atomic_load_n(&ring->data_head, __ATOMIC_ACQUIRE);
	uint64_t tail = ring->data_tail;
	static uint8_t record[RECORD_MAX];

	while (tail < head) {
		struct perf_event_header header;

		memcpy(&header, data + (tail & mask), sizeof(header));
		if (header.size < sizeof(header) || header.size > RECORD_MAX)
			break;
		for (uint16_t i = 0; i < header.size; i++)
			record[i] = data[(tail + i) & mask];
		take_record(record, header.size);
		tail += header.size;
	}
	/* release: the records were read before their place is given back */
	__atomic_store_n(&ring->data_tail, tail, __ATOMIC_RELEASE);
}

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static int inject(int cpu)
{
	cpu_set_t set;
	int fd = open("/dev/pghot_ibs_raw", O_WRONLY | O_CLOEXEC);

	CPU_ZERO(&set);
	CPU_SET((size_t)cpu, &set);
	if (fd < 0 || sched_setaffinity(0, sizeof(set), &set) < 0)
		return fail("inject");
	if (write(fd, &opt.inject, sizeof(opt.inject)) != sizeof(opt.inject))
		return fail("inject");
	close(fd);
	return 0;
}

static void print_summary(uint64_t taken_ms)
{
	printf("samples=%lu mine=%lu right=%lu wrong=%lu unmapped=%lu no_addr=%lu no_phys=%lu bad_raw=%lu ",
	       seen.samples, seen.mine, seen.right, seen.wrong, seen.unmapped, seen.no_addr, seen.no_phys,
	       seen.bad_raw);
	printf("kernel_ip=%lu loads=%lu stores=%lu l1=%lu l2=%lu l3=%lu ram=%lu cxl=%lu remote=%lu ", seen.kernel_ip,
	       seen.loads, seen.stores, seen.l1, seen.l2, seen.l3, seen.ram, seen.cxl, seen.remote);
	printf("weighted=%lu weight_mean=%lu lost=%lu lost_records=%lu throttles=%lu unthrottles=%lu ", seen.weighted,
	       seen.weighted ? seen.weight_sum / seen.weighted : 0, seen.lost, seen.lost_records, seen.throttles,
	       seen.unthrottles);
	printf("first_half=%lu second_half=%lu periods=%lu last_period=%lu ms=%lu\n", seen.samples - seen.second_half,
	       seen.second_half, seen.periods, seen.last_period, taken_ms);
	for (size_t i = 0; opt.regions && i < REGIONS_MAX; i++) {
		if (regions[i].samples)
			printf("region=%#lx samples=%lu\n", regions[i].number << REGION_SHIFT, regions[i].samples);
	}
}

static int run(void)
{
	struct perf_event_mmap_page *rings[CPUS_MAX];
	int fds[CPUS_MAX], nr = 0;
	int type = pmu_type();
	uint64_t begin, now;
	char path[64];

	if (type < 0) {
		errno = ENOENT;
		return fail("pmu");
	}
	if (opt.pid) {
		snprintf(path, sizeof(path), "/proc/%d/pagemap", opt.pid);
		pagemap = open(path, O_RDONLY | O_CLOEXEC);
		if (pagemap < 0)
			return fail("pagemap");
	}
	for (int cpu = 0; cpu < CPUS_MAX && cpu < sysconf(_SC_NPROCESSORS_CONF); cpu++) {
		if (opt.cpu >= 0 && cpu != opt.cpu)
			continue;
		fds[nr] = open_event(type, cpu);
		if (fds[nr] < 0 && errno == ENODEV)
			continue; /* it is offline */
		if (fds[nr] < 0)
			return fail("open");
		rings[nr] =
			mmap(NULL, (size_t)(1 + opt.ring_pages) * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fds[nr], 0);
		if (rings[nr] == MAP_FAILED)
			return fail("mmap");
		nr++;
	}
	if (opt.inject.nr && inject(opt.cpu))
		return 1;
	begin = now = now_ms();
	while (now - begin < opt.ms) {
		poll(NULL, 0, 10);
		now = now_ms();
		for (int i = 0; i < nr; i++)
			drain(rings[i]);
		if (!is_second_half && opt.new_period && now - begin >= opt.ms / 2) {
			is_second_half = true;
			for (int i = 0; i < nr; i++) {
				if (ioctl(fds[i], PERF_EVENT_IOC_PERIOD, &opt.new_period) < 0)
					return fail("period");
			}
		}
	}
	for (int i = 0; i < nr; i++) {
		ioctl(fds[i], PERF_EVENT_IOC_DISABLE, 0);
		drain(rings[i]);
	}
	print_summary(now - begin);
	return 0;
}

static const struct {
	const char *name;
	uint64_t *value;
} numbers[] = {
	{ "config", &opt.config }, { "config1", &opt.config1 }, { "config2", &opt.config2 },
	{ "period", &opt.period }, { "freq", &opt.freq },       { "new-period", &opt.new_period },
	{ "ms", &opt.ms },
};

static bool take_injection(char *text)
{
	char *word = strtok(text, ",");

	if (!word)
		return false;
	opt.inject.caps = (uint32_t)strtoul(word, NULL, 0);
	while ((word = strtok(NULL, ","))) {
		if (opt.inject.nr == IBS_RAW_REGS_MAX)
			return false;
		opt.inject.reg[opt.inject.nr++] = strtoull(word, NULL, 0);
	}
	if (opt.cpu < 0)
		opt.cpu = 0;
	return opt.inject.nr;
}

/* Options are KEY=VALUE. */
static bool take_word(char *word)
{
	char *value = strchr(word, '=');

	if (!value)
		return false;
	*value++ = '\0';
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		if (!strcmp(word, numbers[i].name)) {
			*numbers[i].value = strtoull(value, NULL, 0);
			return true;
		}
	}
	if (!strcmp(word, "pmu"))
		opt.pmu = value;
	else if (!strcmp(word, "pid"))
		opt.pid = atoi(value);
	else if (!strcmp(word, "cpu"))
		opt.cpu = atoi(value);
	else if (!strcmp(word, "exclude"))
		opt.exclude = (uint32_t)strtoul(value, NULL, 0);
	else if (!strcmp(word, "ring-pages"))
		opt.ring_pages = atoi(value);
	else if (!strcmp(word, "regions"))
		opt.regions = atoi(value);
	else if (!strcmp(word, "inject"))
		return take_injection(value);
	else
		return false;
	return true;
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		if (!take_word(argv[i])) {
			fputs("usage: ibs_read [pmu=NAME] [period=N|freq=N] [config=N] [config1=N] [config2=N]\n"
			      "                [exclude=BITS] [ms=N] [new-period=N] [cpu=N] [ring-pages=N]\n"
			      "                [pid=N] [regions=1] [inject=CAPS,REGISTER,...]\n",
			      stderr);
			return 64;
		}
	}
	return run();
}
