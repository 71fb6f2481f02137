/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <string.h>
#include <unistd.h>

#include "cleanup.h"
#include "topology.h"
#include "zoneinfo.h"

struct rooms_ctx {
	const struct nodeset *nodes;
	struct topology_room *rooms;
	uint64_t page_bytes;
};

/* Stops at the top rather than going round: room that is nonsense must not become little room, nor the reverse. */
static void add_pages(uint64_t *bytes, uint64_t pages, uint64_t page_bytes)
{
	uint64_t more;

	if (__builtin_mul_overflow(pages, page_bytes, &more) || __builtin_add_overflow(*bytes, more, bytes))
		*bytes = UINT64_MAX;
}

static int add_zone(void *ctx, const struct zoneinfo_zone *zone)
{
	const struct rooms_ctx *c = ctx;
	struct topology_room *room;

	if (!nodeset_has(c->nodes, zone->nid))
		return 0;
	room = &c->rooms[zone->nid];
	add_pages(&room->free_bytes, zone->free_pages, c->page_bytes);
	add_pages(&room->low_bytes, zone->low_pages, c->page_bytes);
	add_pages(&room->high_bytes, zone->high_pages, c->page_bytes);
	add_pages(&room->promo_bytes, zone->promo_pages, c->page_bytes);
	add_pages(&room->listed_bytes, zone->listed_pages, c->page_bytes);
	add_pages(&room->present_bytes, zone->present_pages, c->page_bytes);
	return 0;
}

static void clear(const struct nodeset *nodes, struct topology_room *rooms)
{
	nodeset_for_each (nid, nodes)
		rooms[nid] = (struct topology_room){ 0 };
}

int topology_read_rooms(const struct fsroot *root, const struct nodeset *nodes, struct topology_room *rooms)
{
	_cleanup_free_ char *text = NULL;
	struct rooms_ctx ctx = { nodes, rooms, (uint64_t)sysconf(_SC_PAGESIZE) };
	int r;

	clear(nodes, rooms);
	r = fsroot_read_alloc(root, &text, "proc/zoneinfo");
	if (r >= 0)
		r = zoneinfo_parse(text, (size_t)r, add_zone, &ctx);
	if (r < 0)
		clear(nodes, rooms);
	return r;
}
