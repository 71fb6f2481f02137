/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdbool.h>
#include <stdint.h>

#include "harness.h"
#include "machine.h"
#include "topology.h"
#include "zoneinfo.h"

static struct topology_room rooms[NODE_MAX];

static uint64_t page_bytes(void)
{
	return (uint64_t)sysconf(_SC_PAGESIZE);
}

static int read_rooms(const struct machine *m, const char *nodes)
{
	struct nodeset set;

	memset(rooms, 0xff, sizeof(rooms));
	CU_ASSERT_EQUAL(nodeset_parse(&set, nodes), 0);
	return topology_read_rooms(&m->root, &set, rooms);
}

static void lab(void)
{
	struct machine m;
	uint64_t page = page_bytes();

	machine_load(&m, "lab-6.12-hmat");
	CU_ASSERT_EQUAL(read_rooms(&m, "0-1"), 0);
	CU_ASSERT_EQUAL(rooms[0].present_bytes, (3998 + 520162) * page);
	CU_ASSERT_EQUAL(rooms[0].free_bytes, (3998 * 3 / 4 + 520162 * 3 / 4) * page);
	CU_ASSERT_EQUAL(rooms[1].present_bytes, 2 * 131072 * page);
	CU_ASSERT_EQUAL(rooms[1].high_bytes, 2 * 768 * page);
	CU_ASSERT_EQUAL(rooms[1].low_bytes, 2 * 640 * page);
	CU_ASSERT_EQUAL(rooms[1].promo_bytes, 2 * 896 * page);
	/* Others are left as they are. */
	CU_ASSERT_EQUAL(rooms[2].free_bytes, UINT64_MAX);
	CU_ASSERT_EQUAL(read_rooms(&m, "1"), 0);
	CU_ASSERT_EQUAL(rooms[0].free_bytes, UINT64_MAX);
	CU_ASSERT_EQUAL(rooms[1].present_bytes, 2 * 131072 * page);
	/* A node that isn't shown has no room. */
	CU_ASSERT_EQUAL(read_rooms(&m, "1,7"), 0);
	CU_ASSERT_EQUAL(rooms[7].free_bytes, 0);
	CU_ASSERT_EQUAL(rooms[7].present_bytes, 0);
	machine_free(&m);
	/* This kernel shows no promotion watermark. */
	machine_load(&m, "old-kernel");
	CU_ASSERT_EQUAL(read_rooms(&m, "0-1"), 0);
	CU_ASSERT_EQUAL(rooms[1].promo_bytes, rooms[1].high_bytes);
	CU_ASSERT_EQUAL(rooms[1].high_bytes, 2 * 768 * page);
	machine_free(&m);
}

/* Files that are not there or not whole: no room anywhere, so nothing is promoted. */
static void failures_give_no_room(void)
{
	struct machine m;

	machine_load(&m, "lab-6.12-hmat");
	machine_put(&m, "proc/zoneinfo", "Node 1, zone   Normal\n  pages free     1000");
	CU_ASSERT_EQUAL(read_rooms(&m, "0-1"), -EBADMSG);
	CU_ASSERT_EQUAL(rooms[1].free_bytes, 0);
	machine_put(&m, "proc/zoneinfo",
		    "Node 1, zone   Normal\n  pages free     1000\n min 1\n low 1\n high 1\n spanned 5\n present 5\n "
		    "start_pfn: 7\n"
		    "Node 2, zone   Normal\n  pages free     1000\n");
	CU_ASSERT_EQUAL(read_rooms(&m, "0-1"), -EBADMSG);
	CU_ASSERT_EQUAL(rooms[1].free_bytes, 0);
	CU_ASSERT_EQUAL(rooms[1].present_bytes, 0);
	machine_remove(&m, "proc/zoneinfo");
	CU_ASSERT_EQUAL(read_rooms(&m, "0-1"), -ENOENT);
	CU_ASSERT_EQUAL(rooms[0].free_bytes, 0);
	machine_free(&m);
}

struct zones {
	struct zoneinfo_zone zone[64];
	int n;
};

static int keep(void *ctx, const struct zoneinfo_zone *zone)
{
	struct zones *zones = ctx;

	if (zones->n < 64)
		zones->zone[zones->n++] = *zone;
	return 0;
}

static int parse(const char *text, struct zones *ret)
{
	ret->n = 0;
	return zoneinfo_parse(text, strlen(text), keep, ret);
}

#define HEAD "Node 3, zone   Normal\n"
#define WHOLE                                                                                                          \
	"  pages free     11\n        min      1\n        low      2\n        high     3\n        spanned  9\n       " \
	" present  8\n"
#define START "  start_pfn:           4096\n"

static void one_zone(void)
{
	struct zones zones;

	CU_ASSERT_EQUAL(parse(HEAD WHOLE START, &zones), 0);
	CU_ASSERT_EQUAL(zones.n, 1);
	CU_ASSERT_EQUAL(zones.zone[0].nid, 3);
	CU_ASSERT_EQUAL(zones.zone[0].free_pages, 11);
	CU_ASSERT_EQUAL(zones.zone[0].min_pages, 1);
	CU_ASSERT_EQUAL(zones.zone[0].low_pages, 2);
	CU_ASSERT_EQUAL(zones.zone[0].high_pages, 3);
	CU_ASSERT_EQUAL(zones.zone[0].promo_pages, 3);
	CU_ASSERT_EQUAL(zones.zone[0].spanned_pages, 9);
	CU_ASSERT_EQUAL(zones.zone[0].present_pages, 8);
	CU_ASSERT_EQUAL(zones.zone[0].start_pfn, 4096);
}

/* What the CPUs keep in lists of their own. */
static void lists_are_added_up(void)
{
	struct zones zones;

	CU_ASSERT_EQUAL(parse(HEAD WHOLE
			      "  pagesets\n    cpu: 0\n              count:    31\n              high:     7\n"
			      "    cpu: 1\n              count:    2000\n" START,
			      &zones),
			0);
	CU_ASSERT_EQUAL(zones.zone[0].listed_pages, 2031);
	CU_ASSERT_EQUAL(zones.zone[0].high_pages, 3);
	CU_ASSERT_EQUAL(parse(HEAD WHOLE "              count:    many\n" START, &zones), -EBADMSG);
	CU_ASSERT_EQUAL(parse(HEAD WHOLE "              count:    17592186044416\n              count: 1\n" START,
			      &zones),
			-EBADMSG);
}

static void what_else_stands_there(void)
{
	struct zones zones;

	/* Statistics of the node in front, page sets behind, whose "high:" is none of the zone's; lines of the future.
	 */
	CU_ASSERT_EQUAL(parse(HEAD
			      "  per-node stats\n      nr_free 99\n      high 77\n      present 66\n" WHOLE
			      "        promo    5\n        sunny    day\n        protection: (0, 1, 2)\n      "
			      "nr_free_pages 12\n"
			      "  pagesets\n    cpu: 0\n              count:    31\n              high:     7176\n"
			      "              high_min: 1\n  vm stats threshold: 24\n  node_unreclaimable:  0\n" START
			      "        high     1234\n\n",
			      &zones),
			0);
	CU_ASSERT_EQUAL(zones.n, 1);
	CU_ASSERT_EQUAL(zones.zone[0].high_pages, 3);
	CU_ASSERT_EQUAL(zones.zone[0].present_pages, 8);
	CU_ASSERT_EQUAL(zones.zone[0].promo_pages, 5);
	/* A zone without memory ends early. */
	CU_ASSERT_EQUAL(parse("Node 0, zone  Movable\n pages free 0\n min 0\n low 0\n high 0\n spanned 0\n present "
			      "0\n" HEAD WHOLE START,
			      &zones),
			0);
	CU_ASSERT_EQUAL(zones.n, 2);
	CU_ASSERT_EQUAL(zones.zone[0].start_pfn, 0);
}

static void what_the_kernel_does_not_write(void)
{
	static const char *const texts[] = {
		"",
		"\n",
		"garbage",
		"Node",
		"Node ",
		"Node 0",
		"Node 0, zone",
		"Node 0, zone \n" WHOLE START,
		"Node 0, zone  two words\n" WHOLE START,
		"Node 0 zone Normal\n" WHOLE START,
		"Node x, zone Normal\n" WHOLE START,
		"Node -1, zone Normal\n" WHOLE START,
		"Node 1024, zone Normal\n" WHOLE START,
		"Node 99999999999999999999, zone Normal\n" WHOLE START,
		"  pages free     11\n" HEAD WHOLE START,
		HEAD,
		HEAD WHOLE,            /* memory and no start */
		HEAD HEAD WHOLE START, /* a zone of nothing */
		HEAD "  pages free     11\n",
		HEAD "  min 1\n  low 2\n  high 3\n  spanned 9\n  present 8\n" START,
		HEAD "  pages free     -1\n" WHOLE START,
		HEAD "  pages free     \n" WHOLE START,
		HEAD "  pages free     1x\n" WHOLE START,
		HEAD "  pages free     1 2\n" WHOLE START,
		HEAD "  pages free     17592186044417\n" WHOLE START,
		HEAD "  pages free     18446744073709551616\n" WHOLE START,
		HEAD WHOLE "  start_pfn:  0x10\n",
		HEAD WHOLE "  start_pfn:\n",
	};
	struct zones zones;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		int r = parse(texts[i], &zones);

		if (r != -EBADMSG)
			printf("  text %zu: %d\n", i, r);
		CU_ASSERT_EQUAL(r, -EBADMSG);
	}
	/* The largest that is a number of pages. */
	CU_ASSERT_EQUAL(parse(HEAD "  pages free     17592186044416\n" WHOLE START, &zones), 0);
	CU_ASSERT_EQUAL(zones.zone[0].free_pages, ZONEINFO_PAGES_MAX);
}

static int refuse_second(void *ctx, const struct zoneinfo_zone *zone)
{
	int *n = ctx;

	(void)zone;
	return ++*n == 2 ? 42 : 0;
}

static void caller_may_stop(void)
{
	static const char text[] = HEAD WHOLE START HEAD WHOLE START HEAD WHOLE START;
	int n = 0;

	CU_ASSERT_EQUAL(zoneinfo_parse(text, strlen(text), refuse_second, &n), 42);
	CU_ASSERT_EQUAL(n, 2);
}

static char *lab_text(size_t *ret_len)
{
	struct machine m;
	char *text = NULL;
	int r;

	machine_load(&m, "lab-6.12-hmat");
	r = fsroot_read_alloc(&m.root, &text, "proc/zoneinfo");
	machine_free(&m);
	CU_ASSERT(r > 0);
	*ret_len = r > 0 ? (size_t)r : 0;
	return text;
}

/* Cut at each byte. The copy ends where the text does, so that reading past it is seen by a sanitizer. */
static void cut_at_each_byte(void)
{
	struct zones whole, cut;
	size_t len;
	char *text = lab_text(&len);
	unsigned int good = 0;

	if (!text)
		return;
	whole.n = 0;
	CU_ASSERT_EQUAL(zoneinfo_parse(text, len, keep, &whole), 0);
	CU_ASSERT_EQUAL(whole.n, 5);
	for (size_t n = 0; n < len; n++) {
		char *copy = malloc(n ? n : 1);
		int r;

		if (!copy)
			break;
		memcpy(copy, text, n);
		cut.n = 0;
		r = zoneinfo_parse(copy, n, keep, &cut);
		free(copy);
		CU_ASSERT(r == 0 || r == -EBADMSG);
		if (r < 0)
			continue;
		good++;
		/* Only between zones, or in the last number of one, which isn't one of those that count free memory. */
		for (int i = 0; i < cut.n; i++) {
			CU_ASSERT_EQUAL(cut.zone[i].nid, whole.zone[i].nid);
			CU_ASSERT_EQUAL(cut.zone[i].free_pages, whole.zone[i].free_pages);
			CU_ASSERT_EQUAL(cut.zone[i].high_pages, whole.zone[i].high_pages);
			CU_ASSERT_EQUAL(cut.zone[i].promo_pages, whole.zone[i].promo_pages);
			CU_ASSERT_EQUAL(cut.zone[i].present_pages, whole.zone[i].present_pages);
		}
	}
	CU_ASSERT(good > 0 && good < len / 10);
	free(text);
}

static void bytes_at_random(void)
{
	uint64_t state = 1234567;
	size_t len;
	char *text = lab_text(&len);
	struct zones zones;

	for (int i = 0; text && i < 3000; i++) {
		char *copy = malloc(len);

		if (!copy)
			break;
		memcpy(copy, text, len);
		for (int k = 0; k < 1 + i % 4; k++) {
			state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
			copy[(state >> 33) % len] =
				(char)(i % 3 ? "0123456789 :\nN"[(state >> 20) % 14] : (char)(state >> 24));
		}
		zones.n = 0;
		int r = zoneinfo_parse(copy, len, keep, &zones);

		CU_ASSERT(r == 0 || r == -EBADMSG);
		for (int z = 0; z < zones.n; z++)
			CU_ASSERT(zones.zone[z].nid >= 0 && zones.zone[z].nid < NODE_MAX &&
				  zones.zone[z].free_pages <= ZONEINFO_PAGES_MAX);
		free(copy);
	}
	free(text);
}

static void running_machine(void)
{
	struct nodeset all = { 0 };
	struct fsroot root;
	int r;

	CU_ASSERT_EQUAL(fsroot_open(&root, "/"), 0);
	nodeset_add(&all, 0);
	r = topology_read_rooms(&root, &all, rooms);
	fsroot_close(&root);
	if (r == -ENOENT) {
		test_skip("no /proc/zoneinfo here");
		return;
	}
	CU_ASSERT_EQUAL(r, 0);
	CU_ASSERT(rooms[0].present_bytes > 0);
	CU_ASSERT(rooms[0].free_bytes <= rooms[0].present_bytes);
	CU_ASSERT(rooms[0].promo_bytes >= rooms[0].high_bytes);
}

TEST_MAIN(topology_rooms, TEST(lab), TEST(failures_give_no_room), TEST(one_zone), TEST(lists_are_added_up),
	  TEST(what_else_stands_there), TEST(what_the_kernel_does_not_write), TEST(caller_may_stop),
	  TEST(cut_at_each_byte), TEST(bytes_at_random), TEST(running_machine))
