/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * zoneinfo: /proc/zoneinfo taken apart, one zone at a time. Pure. Fuzzed. Any thread.
 * Format: zoneinfo_show_print() in the kernel's mm/vmstat.c; lines and blocks that are not known are skipped, so that
 * kernels may add some.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* No machine has more: 2^56 bytes of physical address space in pages of 4 KiB. A larger number is none of the kernel's.
 */
#define ZONEINFO_PAGES_MAX (UINT64_C(1) << 44)

/* All in pages of the kernel's page size, 0..ZONEINFO_PAGES_MAX. */
struct zoneinfo_zone {
	int nid; /* 0..NODE_MAX-1 */
	uint64_t free_pages;
	uint64_t min_pages, low_pages, high_pages;
	uint64_t promo_pages;  /* the promotion watermark; high_pages where the kernel shows none */
	uint64_t listed_pages; /* free as well, but in lists of the CPUs (pagesets), which free_pages leaves out */
	uint64_t spanned_pages, present_pages;
	uint64_t start_pfn; /* first page of the span; 0 for a zone without memory, which has none */
};

/*
 * Call @fn for each zone of @text (@len bytes, need not end in NUL), in order, until it returns non-zero, which is then
 * returned. 0 at the end of a whole text with at least one zone; -EBADMSG when it isn't what the kernel writes or ends
 * within a zone: then some zones may have been shown already, and what was made of them is to be thrown away.
 */
int zoneinfo_parse(const char *text, size_t len, int (*fn)(void *ctx, const struct zoneinfo_zone *zone), void *ctx);
