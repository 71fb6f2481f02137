/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Writes register values at random, such as a machine with the given capabilities could have, to /dev/pghot_ibs_raw: in
 * the guest, while something has the PMU open. The same seed gives the same registers.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ibs_raw.h"

#define BATCH     32
#define PATIENCE  30 /* seconds without any of them being taken */
#define RETRY_US  2000
#define CTL_VALID (3ULL << 17)

enum {
	CTL,
	RIP,
	DATA,
	DATA2,
	DATA3,
	LINEAR,
	PHYSICAL,
	REGS_ALWAYS,
};

static uint64_t seed;

static uint64_t field(int last, int first)
{
	return (UINT64_MAX >> (63 - (last - first))) << first;
}

static uint64_t field_if(uint32_t caps, int cap, int last, int first)
{
	return caps >> cap & 1 ? field(last, first) : 0;
}

/* xorshift64* */
static uint64_t any(void)
{
	seed ^= seed >> 12;
	seed ^= seed << 25;
	seed ^= seed >> 27;
	return seed * 0x2545f4914f6cdd1dULL;
}

/* Now and then all or nothing, since that is where widths and signs go wrong. */
static uint64_t any_of(uint64_t mask)
{
	switch (any() >> 60) {
	case 0:
		return 0;
	case 1:
		return mask;
	default:
		return any() & mask;
	}
}

/* Bits that a generation doesn't have read as zero: arch/x86/include/asm/amd/ibs.h. */
static void build(uint32_t caps, struct ibs_raw *raw)
{
	uint64_t data3;
	int i;

	memset(raw, 0, sizeof(*raw));
	raw->caps = caps;
	raw->nr = REGS_ALWAYS;
	raw->reg[CTL] = CTL_VALID | any_of(field(15, 0) | field_if(caps, 11, 16, 16) | field_if(caps, 4, 19, 19) |
					   field_if(caps, 6, 26, 20) | field(58, 32) | field_if(caps, 12, 63, 59));
	raw->reg[RIP] = any();
	raw->reg[DATA] = any_of(field(37, 0) | field_if(caps, 7, 38, 38) | field_if(caps, 8, 39, 39) | field(40, 40));
	raw->reg[DATA2] = any_of(field(2, 0) | field(5, 4) | field_if(caps, 11, 7, 6) | field_if(caps, 16, 9, 8));
	data3 = any_of(field(8, 0) | field(63, 13));
	/* Half of them loads that missed every cache, for which the data source means something. */
	if (any() >> 63) {
		data3 |= 1ULL << 0 | 1ULL << 7 | 1ULL << 20;
		data3 &= ~(1ULL << 14 | 1ULL << 21);
		data3 &= any() >> 63 ? ~(1ULL << 16) : UINT64_MAX;
	}
	raw->reg[DATA3] = data3;
	raw->reg[LINEAR] = any();
	raw->reg[PHYSICAL] = any() & field(51, 0);
	for (i = 5; i <= 10; i += 5) {
		if (caps >> i & 1)
			raw->reg[raw->nr++] = any_of(UINT64_MAX);
	}
}

static int inject(int fd, uint32_t caps, long count)
{
	const struct timespec pause = { .tv_nsec = RETRY_US * 1000L };
	struct ibs_raw batch[BATCH];
	long done = 0, refused = 0;
	size_t have = 0;

	while (done < count) {
		ssize_t n;

		while (have < BATCH)
			build(caps, &batch[have++]);
		if ((long)have > count - done)
			have = (size_t)(count - done);
		n = write(fd, batch, have * sizeof(batch[0]));
		if (n < 0 && errno != ENODEV && errno != EINTR) {
			perror("ibs_inject: /dev/pghot_ibs_raw");
			return 1;
		}
		if (n > 0) {
			have -= (size_t)n / sizeof(batch[0]);
			memmove(batch, (char *)batch + n, have * sizeof(batch[0]));
			done += n / (ssize_t)sizeof(batch[0]);
			refused = 0;
		}
		if (have && ++refused > PATIENCE * 1000000L / RETRY_US) {
			fprintf(stderr, "ibs_inject: no event takes them\n");
			return 1;
		}
		/* perf throttles an event until the next tick. */
		if (have)
			nanosleep(&pause, NULL);
	}
	return 0;
}

int main(int argc, char **argv)
{
	cpu_set_t cpus;
	int fd, i;

	if (argc < 4) {
		fprintf(stderr, "usage: ibs_inject SEED COUNT CAPS...\n");
		return 64;
	}
	seed = strtoull(argv[1], NULL, 0) | 1ULL << 32;
	/* They come out on the writer's CPU, and no two CPUs need to be open then. */
	CPU_ZERO(&cpus);
	CPU_SET(0, &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus))
		perror("ibs_inject: can't stay on CPU 0");
	fd = open("/dev/pghot_ibs_raw", O_WRONLY | O_CLOEXEC);
	if (fd < 0) {
		perror("ibs_inject: /dev/pghot_ibs_raw");
		return 1;
	}
	for (i = 3; i < argc; i++) {
		if (inject(fd, (uint32_t)strtoul(argv[i], NULL, 0), strtol(argv[2], NULL, 0)))
			return 1;
	}
	close(fd);
	return 0;
}
