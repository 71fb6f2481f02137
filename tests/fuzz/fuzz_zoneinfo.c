/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Any bytes as /proc/zoneinfo: an error, or zones whose numbers are in range. */
#include <errno.h>
#include <stdlib.h>

#include "fuzz_main.h"
#include "nodeset.h"
#include "zoneinfo.h"

static int check(void *ctx, const struct zoneinfo_zone *zone)
{
	int *n = ctx;

	if (zone->nid < 0 || zone->nid >= NODE_MAX || zone->free_pages > ZONEINFO_PAGES_MAX ||
	    zone->high_pages > ZONEINFO_PAGES_MAX || zone->promo_pages > ZONEINFO_PAGES_MAX ||
	    zone->spanned_pages > ZONEINFO_PAGES_MAX || zone->present_pages > ZONEINFO_PAGES_MAX ||
	    zone->start_pfn > ZONEINFO_PAGES_MAX)
		abort();
	(*n)++;
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int n = 0, r = zoneinfo_parse((const char *)data, size, check, &n);

	if (r != -EBADMSG && (r != 0 || n == 0))
		abort();
	return 0;
}
