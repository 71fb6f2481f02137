/* SPDX-License-Identifier: GPL-2.0-or-later */
/* outcomes_kinds: memory of each kind, made by the process that calls; for outcomes.c. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define FAST       0
#define SLOW       1
#define PAGES      64
#define HUGE_PAGES 4 /* of 2 MiB */

/* What a child has; the parent maps it as well. */
struct given {
	uint64_t addr;
	uint64_t page_bytes;
	uint32_t n;
	int error; /* errno, when it couldn't be made */
	_Atomic bool ready;
	_Atomic uint32_t tried;    /* pages of it, by the parent; relaxed: whoever waits for it wants no more */
	_Atomic uint64_t remapped; /* relaxed: the parent only asks whether there were any */
};

extern struct given *given;

/* Each fills @given. 0 or -errno. */
int kind_plain(void);
int kind_many(void); /* enough to fill what is left of the other node */
int kind_untouched(void);
int kind_read_only(void);
int kind_shared(void);
int kind_pinned(void);
int kind_off_lru(void);
int kind_in_cpuset(void);
int kind_huge(void);
int kind_of_a_pool(void);
int kind_small_region(void);
int kind_high(void);

/* Takes every second page out of its memory and maps it anew for as long as it is let; counts them in @remapped. */
_Noreturn void kind_unmap_for_ever(void);
