/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reads along in the perf rings of another process, and says of each sample of one program whether its address is in a
 * mapping of that program. The rings' owner doesn't notice: nothing but its own words moves their tails. So this sees
 * the very records that the owner sees, and takes them apart by itself, after perf_event_open(2).
 */
#include <errno.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PAGE       4096UL
#define RINGS_MAX  64
#define RANGES_MAX 4096
#define RECORD_MAX 65536
#define POLL_MS    5
#define PRIORITY   (-19)
#define USER_BITS  47

static struct {
	uint64_t owner, pid, ms, type, want;
} opt = { .ms = 1000, .want = UINT64_MAX };

static struct ring {
	struct perf_event_mmap_page *page;
	uint64_t bytes, pos;
} rings[RINGS_MAX];
static int n_rings;

static struct range {
	uint64_t from, to;
} ranges[RANGES_MAX];
static int n_ranges;

static struct {
	uint64_t records, samples, mine, outside, in_kernel, no_addr, lost, missed_bytes, bad, maps_read;
} seen;

static int fail(const char *what)
{
	printf("error=%d what=%s text=%s\n", errno, what, strerror(errno));
	return 1;
}

/* ---- the program's mappings ------------------------------------------------------- */

/* All that it had at one time or another: what is unmapped again was its own as well. */
static void read_maps(void)
{
	unsigned long from, to;
	char path[64], *line = NULL;
	size_t room = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%lu/maps", (unsigned long)opt.pid);
	file = fopen(path, "re");
	if (!file)
		return;
	seen.maps_read++;
	while (getline(&line, &room, file) > 0) {
		bool known = false;

		if (sscanf(line, "%lx-%lx", &from, &to) != 2)
			continue;
		for (int i = 0; i < n_ranges && !known; i++)
			known = ranges[i].from == from && ranges[i].to == to;
		if (!known && n_ranges < RANGES_MAX)
			ranges[n_ranges++] = (struct range){ from, to };
	}
	free(line);
	fclose(file);
}

static bool is_mapped(uint64_t addr)
{
	for (int i = 0; i < n_ranges; i++)
		if (addr >= ranges[i].from && addr < ranges[i].to)
			return true;
	return false;
}

static void check_address(uint64_t addr)
{
	if (is_mapped(addr))
		return;
	read_maps();
	if (is_mapped(addr))
		return;
	seen.outside++;
	printf("outside addr=%#lx\n", (unsigned long)addr);
}

/* ---- records ---------------------------------------------------------------------- */

static void take_sample(const uint8_t *record, size_t bytes)
{
	struct perf_event_header header;
	size_t at = sizeof(header);
	uint64_t addr;
	uint32_t pid;

	memcpy(&header, record, sizeof(header));
	/* IDENTIFIER, IP, TID, TIME, ADDR: eight bytes each, in this order. */
	at += 8 * (size_t)(!!(opt.type & PERF_SAMPLE_IDENTIFIER) + !!(opt.type & PERF_SAMPLE_IP));
	if (bytes < at + 24) {
		seen.bad++;
		return;
	}
	memcpy(&pid, record + at, sizeof(pid));
	memcpy(&addr, record + at + 16, sizeof(addr));
	seen.samples++;
	if (pid != opt.pid)
		return;
	if (addr == 0)
		seen.no_addr++;
	else if (addr >> USER_BITS != 0 || (header.misc & PERF_RECORD_MISC_CPUMODE_MASK) != PERF_RECORD_MISC_USER)
		seen.in_kernel++;
	else
		seen.mine++;
	/* What the kernel reads and writes for the program is the program's memory as well. */
	if (addr != 0 && addr >> USER_BITS == 0)
		check_address(addr);
}

static void take_record(const uint8_t *record, size_t bytes)
{
	struct perf_event_header header;
	uint64_t words[2];

	memcpy(&header, record, sizeof(header));
	seen.records++;
	if (header.type == PERF_RECORD_SAMPLE) {
		take_sample(record, bytes);
	} else if (header.type == PERF_RECORD_LOST && bytes >= sizeof(header) + sizeof(words)) {
		memcpy(words, record + sizeof(header), sizeof(words));
		seen.lost += words[1];
	}
}

static void read_along(struct ring *ring)
{
	static uint8_t record[RECORD_MAX];
	const uint8_t *data = (const uint8_t *)ring->page + PAGE;
	/* acquire pairs with the kernel's barrier before it moves data_head */
	uint64_t head = __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);

	while (ring->pos < head) {
		struct perf_event_header header;
		uint64_t now;

		memcpy(&header, data + (ring->pos & (ring->bytes - 1)), sizeof(header));
		for (uint32_t i = 0; i < header.size; i++)
			record[i] = data[(ring->pos + i) & (ring->bytes - 1)];
		/* Nobody waits for us: was that overwritten meanwhile? acquire: after the copy. */
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		now = __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);
		if (now - ring->pos > ring->bytes || header.size < sizeof(header)) {
			seen.missed_bytes += now - ring->pos;
			ring->pos = now;
			return;
		}
		take_record(record, header.size);
		ring->pos += header.size;
	}
}

/* ---- the other's rings ------------------------------------------------------------- */

/* The size of its rings; they are all alike. A perf event's mapping is named after its descriptor. */
static uint64_t map_bytes_of_owner(void)
{
	unsigned long from, to;
	char path[64], *line = NULL;
	uint64_t bytes = 0;
	size_t room = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%lu/maps", (unsigned long)opt.owner);
	file = fopen(path, "re");
	while (file && getline(&line, &room, file) > 0)
		if (strstr(line, "anon_inode:[perf_event]") && sscanf(line, "%lx-%lx", &from, &to) == 2)
			bytes = to - from;
	if (file)
		fclose(file);
	free(line);
	return bytes;
}

static int open_rings(void)
{
	uint64_t bytes = map_bytes_of_owner();
	int pidfd = (int)syscall(SYS_pidfd_open, opt.owner, 0);

	if (pidfd < 0 || bytes <= PAGE)
		return fail("owner");
	for (int fd = 0; fd < 4096 && n_rings < RINGS_MAX; fd++) {
		char path[64], target[64];
		ssize_t n;
		void *base;
		int mine;

		snprintf(path, sizeof(path), "/proc/%lu/fd/%d", (unsigned long)opt.owner, fd);
		n = readlink(path, target, sizeof(target) - 1);
		if (n < 0)
			continue;
		target[n] = '\0';
		if (strcmp(target, "anon_inode:[perf_event]") != 0)
			continue;
		mine = (int)syscall(SYS_pidfd_getfd, pidfd, fd, 0);
		if (mine < 0)
			return fail("pidfd_getfd");
		base = mmap(NULL, bytes, PROT_READ, MAP_SHARED, mine, 0);
		if (base == MAP_FAILED)
			return fail("mmap");
		rings[n_rings++] =
			(struct ring){ base, bytes - PAGE, ((struct perf_event_mmap_page *)base)->data_head };
	}
	if (n_rings > 0)
		return 0;
	errno = ENOENT;
	return fail("rings");
}

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static bool take_word(char *word)
{
	const struct {
		const char *name;
		uint64_t *value;
	} numbers[] = { { "owner", &opt.owner },
			{ "pid", &opt.pid },
			{ "ms", &opt.ms },
			{ "type", &opt.type },
			{ "want", &opt.want } };
	char *value = strchr(word, '=');

	if (!value)
		return false;
	*value++ = '\0';
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		if (strcmp(word, numbers[i].name) == 0) {
			*numbers[i].value = strtoull(value, NULL, 0);
			return true;
		}
	}
	return false;
}

int main(int argc, char **argv)
{
	const uint64_t needed = PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ADDR;
	uint64_t begin;

	for (int i = 1; i < argc; i++)
		if (!take_word(argv[i]))
			opt.owner = 0;
	if (!opt.owner || !opt.pid || (opt.type & needed) != needed) {
		fputs("usage: ring_witness owner=PID pid=PID type=SAMPLE_TYPE [ms=N] [want=SAMPLES]\n", stderr);
		return 64;
	}
	/* Nobody waits for us, so be there in time. */
	if (setpriority(PRIO_PROCESS, 0, PRIORITY) < 0)
		return fail("setpriority");
	read_maps();
	if (open_rings())
		return 1;
	begin = now_ms();
	while (now_ms() - begin < opt.ms && seen.mine < opt.want) {
		poll(NULL, 0, POLL_MS);
		for (int i = 0; i < n_rings; i++)
			read_along(&rings[i]);
	}
	printf("rings=%d records=%lu samples=%lu mine=%lu outside=%lu in_kernel=%lu no_addr=%lu lost=%lu "
	       "missed_bytes=%lu "
	       "bad=%lu maps_read=%lu ranges=%d ms=%lu\n",
	       n_rings, seen.records, seen.samples, seen.mine, seen.outside, seen.in_kernel, seen.no_addr, seen.lost,
	       seen.missed_bytes, seen.bad, seen.maps_read, n_ranges, now_ms() - begin);
	return 0;
}
