/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "harness.h"
#include "nodeset.h"

static uint64_t rng_state = 0x9e3779b97f4a7c15ULL;

static uint64_t rng(void)
{
	rng_state ^= rng_state << 13;
	rng_state ^= rng_state >> 7;
	rng_state ^= rng_state << 17;
	return rng_state;
}

/* Against an array of bool, which can't be wrong. */
static void agrees_with_an_array(void)
{
	for (int round = 0; round < 200; round++) {
		static bool model_a[NODE_MAX], model_b[NODE_MAX];
		struct nodeset a, b, c;
		int n = 0, seen = 0;
		bool both = false;

		memset(model_a, 0, sizeof(model_a));
		memset(model_b, 0, sizeof(model_b));
		nodeset_clear(&a);
		nodeset_clear(&b);
		for (uint64_t i = 0, adds = rng() % 200; i < adds; i++) {
			int x = (int)(rng() % NODE_MAX), y = (int)(rng() % NODE_MAX);

			model_a[x] = true;
			nodeset_add(&a, x);
			model_b[y] = true;
			nodeset_add(&b, y);
			model_a[y] = false;
			nodeset_del(&a, y);
		}
		for (int i = 0; i < NODE_MAX; i++) {
			n += model_a[i];
			both |= model_a[i] && model_b[i];
			CU_ASSERT_EQUAL(nodeset_has(&a, i), model_a[i]);
		}
		CU_ASSERT_EQUAL(nodeset_count(&a), n);
		CU_ASSERT_EQUAL(nodeset_is_empty(&a), n == 0);
		CU_ASSERT_EQUAL(nodeset_intersects(&a, &b), both);
		int last = -1;

		nodeset_for_each (nid, &a) {
			CU_ASSERT(nid > last && model_a[nid]);
			last = nid;
			seen++;
		}
		CU_ASSERT_EQUAL(seen, n);

		c = a;
		CU_ASSERT(nodeset_equal(&c, &a));
		nodeset_or(&c, &b);
		for (int i = 0; i < NODE_MAX; i++)
			CU_ASSERT_EQUAL(nodeset_has(&c, i), model_a[i] || model_b[i]);
		nodeset_andnot(&c, &b);
		for (int i = 0; i < NODE_MAX; i++)
			CU_ASSERT_EQUAL(nodeset_has(&c, i), model_a[i] && !model_b[i]);

		/* And through text. */
		char text[8192];
		struct nodeset back;
		int len = nodeset_format(&a, text, sizeof(text));

		CU_ASSERT_EQUAL(len, (int)strlen(text));
		CU_ASSERT_EQUAL(nodeset_parse(&back, text), 0);
		CU_ASSERT(nodeset_equal(&back, &a));
	}
}

static void ids_outside_are_in_no_set(void)
{
	struct nodeset set;

	memset(&set, 0xff, sizeof(set));
	CU_ASSERT_FALSE(nodeset_has(&set, -1));
	CU_ASSERT_FALSE(nodeset_has(&set, NODE_MAX));
	CU_ASSERT_FALSE(nodeset_has(&set, INT_MAX));
	nodeset_del(&set, -1);
	nodeset_del(&set, NODE_MAX);
	CU_ASSERT_EQUAL(nodeset_count(&set), NODE_MAX);
	CU_ASSERT_EQUAL(nodeset_next(&set, NODE_MAX), -1);
	CU_ASSERT_EQUAL(nodeset_next(&set, INT_MAX), -1);
	CU_ASSERT_EQUAL(nodeset_next(&set, -5), 0);
	CU_ASSERT_EQUAL(nodeset_next(&set, NODE_MAX - 1), NODE_MAX - 1);
}

static void formats_as_the_kernel_does(void)
{
	static const char *const same[] = { "", "0", "0-1", "0,2", "0-1,4", "63-64", "62,64-127,1023", "0-1023" };
	char buf[64];

	for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
		struct nodeset set;

		CU_ASSERT_EQUAL(nodeset_parse(&set, same[i]), 0);
		CU_ASSERT_EQUAL(nodeset_format(&set, buf, sizeof(buf)), (int)strlen(same[i]));
		CU_ASSERT_STRING_EQUAL(buf, same[i]);
	}
}

static void format_needs_room_for_all(void)
{
	struct nodeset set;
	char buf[16];

	nodeset_parse(&set, "0-1,4");
	for (size_t size = 1; size <= sizeof("0-1,4") - 1; size++) {
		memset(buf, 'x', sizeof(buf));
		CU_ASSERT_EQUAL(nodeset_format(&set, buf, size), -ENOSPC);
		CU_ASSERT_EQUAL(buf[0], '\0');
		CU_ASSERT_EQUAL(buf[size], 'x');
	}
	CU_ASSERT_EQUAL(nodeset_format(&set, buf, 0), -ENOSPC);
	CU_ASSERT_EQUAL(nodeset_format(&set, buf, sizeof("0-1,4")), 5);
}

static void refuses_what_the_kernel_never_writes(void)
{
	static const char *const bad[] = { ",",   "0,",    ",0",  "0,,1",     "-",
					   "0-",  "-1",    "1-0", "0-1-2",    "0 ",
					   " 0",  "0\n",   "a",   "0x1",      "0,a",
					   "0;1", "0-3:2", "all", "0-2000,x", "99999999999999999999-" };
	struct nodeset set, before;

	nodeset_parse(&before, "7");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		set = before;
		CU_ASSERT_EQUAL(nodeset_parse(&set, bad[i]), -EINVAL);
		CU_ASSERT(nodeset_equal(&set, &before));
	}
	static const char *const large[] = { "1024",
					     "0-1024",
					     "1023,1024",
					     "2000-3000",
					     "4294967296",
					     "18446744073709551616",
					     "99999999999999999999999999" };

	for (size_t i = 0; i < sizeof(large) / sizeof(large[0]); i++) {
		set = before;
		CU_ASSERT_EQUAL(nodeset_parse(&set, large[i]), -ERANGE);
		CU_ASSERT(nodeset_equal(&set, &before));
	}
}

struct walk {
	int n;
	int ids[64];
	int stop_at;
};

static int remember(void *ctx, int id)
{
	struct walk *w = ctx;

	if (id == w->stop_at)
		return -EXDEV;
	w->ids[w->n++ % 64] = id;
	return 0;
}

static void idlist_walks_in_order(void)
{
	struct walk w = { .stop_at = -1 };

	CU_ASSERT_EQUAL(idlist_for_each("5,0-2,8191", 8191, remember, &w), 0);
	CU_ASSERT_EQUAL(w.n, 5);
	CU_ASSERT(w.ids[0] == 5 && w.ids[1] == 0 && w.ids[2] == 1 && w.ids[3] == 2 && w.ids[4] == 8191);
	w = (struct walk){ .stop_at = 1 };
	CU_ASSERT_EQUAL(idlist_for_each("0-3", 8191, remember, &w), -EXDEV);
	CU_ASSERT_EQUAL(w.n, 1);
	/* The largest id there is. */
	w = (struct walk){ .stop_at = -1 };
	CU_ASSERT_EQUAL(idlist_for_each("2147483646-2147483647", INT_MAX, remember, &w), 0);
	CU_ASSERT_EQUAL(w.n, 2);
	CU_ASSERT_EQUAL(idlist_for_each("2147483648", INT_MAX, remember, &w), -ERANGE);
}

static void idlist_calls_nobody_for_a_bad_list(void)
{
	struct walk w = { .stop_at = -1 };

	CU_ASSERT_EQUAL(idlist_for_each("0-3,x", 8191, remember, &w), -EINVAL);
	CU_ASSERT_EQUAL(idlist_for_each("0-3,9000", 8191, remember, &w), -ERANGE);
	CU_ASSERT_EQUAL(w.n, 0);
	CU_ASSERT_EQUAL(idlist_for_each("", 8191, remember, &w), 0);
	CU_ASSERT_EQUAL(w.n, 0);
}

TEST_MAIN(nodeset, TEST(agrees_with_an_array), TEST(ids_outside_are_in_no_set), TEST(formats_as_the_kernel_does),
	  TEST(format_needs_room_for_all), TEST(refuses_what_the_kernel_never_writes), TEST(idlist_walks_in_order),
	  TEST(idlist_calls_nobody_for_a_bad_list))
