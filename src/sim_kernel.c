/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <string.h>

#include "sample.h"
#include "sim_kernel.h"
#include "sim_machine.h"

#define PASS_NS            1e6 /* time passes in steps of this: 1 ms */
#define RECLAIM_BYTES_SEC  0x1p30
#define RECLAIM_LOOKS      16  /* pages of which the coldest goes: MGLRU's idea of cold is no better */
#define RECLAIM_TRIES_EACH 256 /* until pages of that node are found */

void sim_kernel_init(struct sim_kernel_state *k, struct sim_place *place, void (*pass)(void *ctx, uint64_t ns),
		     void *ctx)
{
	*k = (struct sim_kernel_state){ .place = place, .pass = pass, .ctx = ctx };
	sim_random_init(&k->random, (uint64_t)place->scenario->seed, UINT64_C(1) << 32);
}

/* The page that @pid has at @addr, or -EFAULT, -ENOENT. */
static int64_t find(const struct sim_kernel_state *k, uint32_t pid, const void *addr)
{
	uint64_t page = sim_place_page((uint64_t)(uintptr_t)addr);
	const struct sim_area *area;
	size_t i;

	if (page >= k->place->pages)
		return -EFAULT;
	i = sim_place_area(k->place, page);
	area = &k->place->area[i];
	if (page >= area->first + area->pages || sim_machine_pid(k->place->scenario->memories[i].process) != pid)
		return -EFAULT;
	return k->place->node[0][page] == SIM_NOWHERE ? -ENOENT : (int64_t)page;
}

static bool is_process(const struct sim_kernel_state *k, uint32_t pid)
{
	for (size_t i = 0; i < k->place->n_areas; i++)
		if (sim_machine_pid(k->place->scenario->memories[i].process) == pid)
			return true;
	return false;
}

static long query(void *ctx, uint32_t pid, size_t n, void **addrs, int *status)
{
	const struct sim_kernel_state *k = ctx;

	if (!is_process(k, pid))
		return -ESRCH;
	for (size_t i = 0; i < n; i++) {
		int64_t page = find(k, pid, addrs[i]);

		status[i] = page < 0 ? (int)page : k->place->node[0][page];
	}
	return 0;
}

static void take_time(struct sim_kernel_state *k, double us)
{
	k->owed_ns += us * 1000;
	k->move_us += us;
	if (k->owed_ns >= PASS_NS) {
		uint64_t ns = (uint64_t)k->owed_ns;

		k->owed_ns -= (double)ns;
		k->pass(k->ctx, ns);
	}
}

/* Huge pages of one call: the kernel has isolated them, and finds the second address of one busy. */
struct isolated {
	size_t n;
	uint64_t region[MOVER_BATCH_MAX];
};

static bool isolate(struct isolated *isolated, uint64_t region)
{
	for (size_t i = 0; i < isolated->n; i++)
		if (isolated->region[i] == region)
			return false;
	if (isolated->n < MOVER_BATCH_MAX)
		isolated->region[isolated->n++] = region;
	return true;
}

static void account(struct sim_kernel_state *k, int from, int to, uint64_t pages)
{
	double bytes = (double)(pages * PAGE_SIZE_BYTES);

	k->busy_bytes[from] += bytes;
	k->busy_bytes[to] += bytes;
	if (k->place->near[to] && !k->place->near[from])
		k->promoted_pages += pages;
	else if (k->place->near[from] && !k->place->near[to])
		k->demoted_pages += pages;
}

/* One page. Its status, or -ENOMEM, which ends the call. */
static int move_page(struct sim_kernel_state *k, struct isolated *isolated, uint32_t pid, const void *addr, int nid)
{
	const struct sim_kernel *costs = &k->place->scenario->kernel;
	int64_t page = find(k, pid, addr);
	uint64_t pages;
	bool huge;
	int from;

	if (page < 0)
		return (int)page;
	huge = sim_place_is_huge(k->place, (uint64_t)page);
	from = k->place->node[0][page];
	if (huge && !isolate(isolated, (uint64_t)page / REGION_PAGES))
		return -EBUSY;
	if (from == nid)
		return nid;
	if (costs->busy > 0 && sim_random_unit(&k->random) < costs->busy)
		return -EBUSY;
	pages = huge ? REGION_PAGES : 1;
	if (sim_place_free_pages(k->place, nid) < pages)
		return -ENOMEM;
	sim_place_move(k->place, (uint64_t)page, nid);
	account(k, from, nid, pages);
	take_time(k, huge ? costs->move_huge_us : costs->move_us);
	return nid;
}

static long move(void *ctx, uint32_t pid, size_t n, void **addrs, int nid, int *status)
{
	struct sim_kernel_state *k = ctx;
	struct isolated isolated;

	if (!is_process(k, pid))
		return -ESRCH;
	if (nid < 0 || (size_t)nid >= k->place->n_nodes)
		return -ENODEV;
	isolated.n = 0;
	take_time(k, k->place->scenario->kernel.call_us);
	for (size_t i = 0; i < n; i++) {
		int s = move_page(k, &isolated, pid, addrs[i], nid);

		if (s == -ENOMEM)
			return -ENOMEM;
		status[i] = s;
	}
	return 0;
}

const struct mover_ops sim_kernel_mover_ops = { .name = "model", .move = move, .query = query };

/* The coldest of some pages of @node, or UINT64_MAX: none was found. */
static uint64_t find_cold(struct sim_kernel_state *k, int node)
{
	uint64_t coldest = UINT64_MAX;
	double least = 0;

	for (int looks = 0, tries = 0; looks < RECLAIM_LOOKS && tries < RECLAIM_TRIES_EACH; tries++) {
		uint64_t page = sim_random_below(&k->random, k->place->pages);
		double share;

		if (k->place->node[0][page] != node)
			continue;
		looks++;
		share = sim_place_share(k->place, page);
		if (coldest == UINT64_MAX || share < least) {
			coldest = page;
			least = share;
		}
	}
	return coldest;
}

static int slower_than(const struct sim_place *place, int node)
{
	for (int i = 0; i < (int)place->n_nodes; i++)
		if (place->scenario->nodes[i].tier > place->scenario->nodes[node].tier &&
		    sim_place_free_pages(place, i) > REGION_PAGES)
			return i;
	return -1;
}

static void reclaim_from(struct sim_kernel_state *k, int node, uint64_t most)
{
	const struct sim_kernel *costs = &k->place->scenario->kernel;
	double all = (double)k->place->node_pages[node];
	uint64_t high = (uint64_t)(all * costs->high_percent / 100);
	int to = slower_than(k->place, node);

	if (sim_place_free_pages(k->place, node) <= (uint64_t)(all * costs->low_percent / 100))
		k->reclaiming[node] = true;
	if (sim_place_free_pages(k->place, node) >= high)
		k->reclaiming[node] = false;
	if (to < 0 || !k->reclaiming[node])
		return;
	for (uint64_t done = 0; done < most && sim_place_free_pages(k->place, node) < high;) {
		uint64_t page = find_cold(k, node), pages;

		if (page == UINT64_MAX)
			return;
		pages = sim_place_is_huge(k->place, page) ? REGION_PAGES : 1;
		sim_place_move(k->place, page, to);
		account(k, node, to, pages);
		k->reclaimed_pages += pages;
		done += pages;
	}
}

void sim_kernel_reclaim(struct sim_kernel_state *k, double sec)
{
	if (!k->place->scenario->kernel.demotion)
		return;
	for (int i = 0; i < (int)k->place->n_nodes; i++)
		if (k->place->near[i])
			reclaim_from(k, i, (uint64_t)(sec * RECLAIM_BYTES_SEC / PAGE_SIZE_BYTES) + 1);
}
