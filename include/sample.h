/* SPDX-License-Identifier: GPL-2.0-or-later */
/* sample: one access that a source saw. A plain value, copied through the queue; everything in it is the kernel's word.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define PAGE_SHIFT      12 /* base pages of the only architecture with IBS; sources refuse to start on another size */
#define PAGE_SIZE_BYTES (1ULL << PAGE_SHIFT)
#define REGION_SHIFT    21 /* a region, and a chunk of the section map, is 2 MiB */
#define REGION_BYTES    (1ULL << REGION_SHIFT)
#define REGION_PAGES    (1U << (REGION_SHIFT - PAGE_SHIFT))

enum sample_source {
	SAMPLE_SOURCE_HINT_FAULTS,
	SAMPLE_SOURCE_IBS,
	SAMPLE_SOURCE_MAX,
};

/* What the source knows of the access. */
enum sample_flags {
	SAMPLE_LOAD = 1 << 0,
	SAMPLE_STORE = 1 << 1,
	/* The source can't tell a page's first touch from a later access: the first sighting is no evidence. */
	SAMPLE_MAYBE_FIRST_TOUCH = 1 << 2,
};

struct sample {
	uint64_t time_ns;   /* CLOCK_MONOTONIC */
	uint64_t addr;      /* virtual, in the address space of @pid; user half */
	uint64_t phys;      /* physical, never 0 */
	uint32_t pid;       /* thread group, in the daemon's pid namespace; never 0 */
	uint16_t cpu;       /* that made the access */
	uint8_t source;     /* enum sample_source */
	uint8_t page_shift; /* of the mapping: 12, 21, 30; 0: not known */
	uint32_t latency;   /* cycles the access waited; 0: not known */
	uint32_t flags;     /* enum sample_flags */
};

_Static_assert(sizeof(struct sample) == 40, "no holes: tests compare samples as bytes");

_Static_assert(offsetof(struct sample, cpu) == offsetof(struct sample, pid) + 4 &&
		       offsetof(struct sample, page_shift) == offsetof(struct sample, pid) + 7,
	       "sample_who() reads them at once, sample_set_who() writes them");

/* Process, CPU and source as one number, to compare two samples by. */
static inline uint64_t sample_who(const struct sample *sample)
{
	uint64_t who;

	memcpy(&who, (const char *)sample + offsetof(struct sample, pid), sizeof(who));
	return who & UINT64_MAX >> 8; /* without the page's size */
}

/* Set process, CPU, source and page size, as they stand side by side. */
static inline void sample_set_who(struct sample *sample, uint64_t who)
{
	memcpy((char *)sample + offsetof(struct sample, pid), &who, sizeof(who));
}

/* Of a mapping of @bytes; 0: that is no page's size. */
static inline uint8_t sample_page_shift(uint64_t bytes)
{
	return bytes < PAGE_SIZE_BYTES || (bytes & (bytes - 1)) != 0 ? 0 : (uint8_t)__builtin_ctzll(bytes);
}
